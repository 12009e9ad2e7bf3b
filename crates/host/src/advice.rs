//! What can be done about a failure to build or export an image, or about a notice, in the words
//! of the command line.
use crate::error::{Error, Exit, HOST_IS_FULL, is_full};
use extant_archive::{ErrorKind as ArchiveErrorKind, printable};
use extant_engine::ErrorKind as EngineErrorKind;
use extant_image::notice::NoticeKind;
use extant_image::{ContainerFault, ErrorKind, Linkage, Scope};

impl From<extant_image::Error> for Error {
    fn from(error: extant_image::Error) -> Error {
        let exit = match error.kind {
            ErrorKind::InodeTables | ErrorKind::Pattern => Exit::Usage,
            _ => Exit::Failure,
        };
        let skip = || match error.scope {
            Scope::OneFile => Some("--keep-going leaves it out".to_owned()),
            Scope::Whole => None,
        };
        let hint = hint(&error.kind).or_else(skip);
        Error { message: error.message, hint, exit }
    }
}

fn hint(kind: &ErrorKind) -> Option<String> {
    Some(match kind {
        ErrorKind::Host(kind) if is_full(*kind) => HOST_IS_FULL.to_owned(),
        ErrorKind::Write(cause) if is_full(cause.kind()) => HOST_IS_FULL.to_owned(),
        ErrorKind::Archive { name, error } => return archive_hint(name, &error.kind),
        ErrorKind::Container(fault) => return container_hint(*fault).map(str::to_owned),
        ErrorKind::ArchiveEnd => {
            "without --strict-archive it is taken as it is, with a warning".to_owned()
        }
        ErrorKind::ExtImage { name } => format!("extant tar {name} | extant build - IMAGE"),
        ErrorKind::Spool => "an archive that comes only once needs room for its files twice: set \
             TMPDIR, or unpack it to a plain .tar"
            .to_owned(),
        ErrorKind::KernelFiles { path } if path.is_empty() => {
            "copy the files that are wanted into a directory first".to_owned()
        }
        ErrorKind::KernelFiles { path } => format!(
            "--one-file-system makes mount points empty directories; --exclude /{} leaves out this \
             one",
            printable(path)
        ),
        ErrorKind::Wrapper { name, variable, linkage } => {
            let remedy = match linkage {
                Linkage::Static => "use a build of extant that is linked dynamically",
                Linkage::Dynamic => "let LD_PRELOAD name its library",
            };
            format!("{remedy}, or unset {variable} to take files as they are without {name}")
        }
        ErrorKind::Format(error) => return hint_of_format(&error.kind).map(str::to_owned),
        ErrorKind::FileTooLarge => {
            "larger blocks (-b) or extents (-t ext4) hold larger files".to_owned()
        }
        ErrorKind::AttributesTooLarge => {
            "a larger block (-b) or inode (-I) holds more attributes".to_owned()
        }
        ErrorKind::TargetTooLong => {
            "a target has to fit into a block: larger blocks (-b) hold it".to_owned()
        }
        ErrorKind::DirectoryFull => "larger blocks (-b) hold more names".to_owned(),
        ErrorKind::TooManyLinks => {
            "a file has at most 65,000 names, and a directory as many subdirectories without \
             -O dir_nlink"
                .to_owned()
        }
        ErrorKind::DeviceTooSmall => "write the image to a file, or to a larger device".to_owned(),
        ErrorKind::Shortfall { needed_bytes, needed_inodes: None } => format!(
            "--size {needed_bytes}b suffices; without --size the image gets that size by itself"
        ),
        ErrorKind::Shortfall { needed_inodes: Some(inodes), .. } => {
            format!("-N {inodes} suffices; without -N there are as many as are needed")
        }
        ErrorKind::InodeTables => {
            "less room, fewer inodes (a larger -i), or a number of them (--free-inodes)".to_owned()
        }
        ErrorKind::NoSuchPath => {
            "paths begin at the image's root; symbolic links are not followed".to_owned()
        }
        ErrorKind::LeftOut => "--keep-going leaves it out and goes on".to_owned(),
        _ => return None,
    })
}

/// The end of the sentence of a notice: what to do about it; empty where there is nothing to do.
pub fn of_notice(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::NoEndMark => ", --strict-archive refuses such",
        NoticeKind::TimeToCome => ", and kept; SOURCE_DATE_EPOCH limits all times",
        NoticeKind::WhiteoutKept => "; with --whiteouts oci it would be applied",
        _ => "",
    }
}

fn container_hint(fault: ContainerFault) -> Option<&'static str> {
    Some(match fault {
        ContainerFault::Ambiguous => {
            "name one after the path (oci:DIR:TAG, docker-archive:FILE:TAG, or its digest), or \
             choose by --platform"
        }
        ContainerFault::NoSuchImage => "a TAG is one of these names, or a digest",
        ContainerFault::NotThisPlatform => "--platform takes one of these",
        ContainerFault::Missing => {
            "the image was not copied as a whole: skopeo copy, podman save and docker save do so"
        }
        ContainerFault::ForeignLayer => {
            "such layers stay with their publisher, unless a registry is told to hand them on"
        }
        ContainerFault::LeavesFolder => "cp -rL makes a copy of the folder without links",
        ContainerFault::NoRootFilesystem => {
            "only images with a root file system can be unpacked; --containers files makes an \
             image of the blobs as they are"
        }
        ContainerFault::CameAsFiles => {
            "docker-archive:- or oci-archive:- takes it from standard input; --containers files \
             makes an image of the blobs as they are"
        }
        ContainerFault::Damaged => return None,
    })
}

fn archive_hint(name: &str, kind: &ArchiveErrorKind) -> Option<String> {
    Some(match kind {
        ArchiveErrorKind::ForeignCompression(tool) => {
            format!("{tool} -dc FILE | extant build - IMAGE")
        }
        ArchiveErrorKind::ForeignArchive(what) if what.contains("cpio") => {
            "unpack it in an empty folder (cpio -idm), and build from that".to_owned()
        }
        ArchiveErrorKind::Continuation => {
            format!("put the volumes together first: tar -xM -f FIRST -f {name} in an empty folder")
        }
        ArchiveErrorKind::Truncated => {
            "the file was not copied whole, or is still being written".to_owned()
        }
        _ => return None,
    })
}

/// Why the engine makes no volume of what was wished, for the user.
pub fn no_volume(error: extant_engine::Error, target: &str) -> Error {
    let hint = hint_of_format(&error.kind).map(str::to_owned);
    Error { hint, ..Error::new(format!("{target}: {error}")) }
}

/// What to do where a volume cannot be made.
fn hint_of_format(kind: &EngineErrorKind) -> Option<&'static str> {
    match kind {
        EngineErrorKind::Layout(_) => {
            Some("the options and the size do not go together: see extant mkfs --help")
        }
        EngineErrorKind::NoSpace { .. } => {
            Some("take a larger SIZE, a smaller journal (-J size=), or none (-O ^has_journal)")
        }
        EngineErrorKind::InvalidArgument(_) => Some("see extant mkfs --help"),
        _ => None,
    }
}
