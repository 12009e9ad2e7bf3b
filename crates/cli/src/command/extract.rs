//! `extant extract`: an image becomes a folder of the host.
use crate::troubles::LeaveOut;
use extant_edit::glob;
use extant_edit::walk::open_host_parent;
use extant_engine::Filesystem;
use extant_host::cleanup;
use extant_host::console::{Console, Form};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, DamageArguments, ImageArguments, ImagePath, Opened};
use extant_host::progress::Unit;
use extant_image::ErrorKind;
use extant_image::export::{ExportPlan, LeftOut};
use extant_image::extract::{Base, Existing, Losses, Summary, extract};
use extant_image::source::{OnTrouble, host};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

/// Copy what is in an image to a folder, without mounting it.
///
/// Owners, modes, times, extended attributes, access lists, capabilities, flags, hard links and
/// holes are restored as far as the user's rights go; what could not be is listed, and the command
/// ends with 0 nevertheless, as tar does, or with 1 with --strict. Under fakeroot all owners and
/// devices are right for the programs that it runs.
///
/// Nothing is ever made outside of the folder, whatever links and names the image holds. The folder
/// is made if it is missing; directories that are in it get the image's content and facts, and
/// files that are in it are refused. Sockets are left out, and so is an empty lost+found as mkfs
/// makes it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant extract disk.img rootfs
  extant extract disk.img etc var/log out
  extant extract disk.img@root:/home/me me
  fakeroot sh -c 'extant extract disk.img rootfs && tar -C rootfs -c . > rootfs.tar'
  extant extract --keep-going damaged.img rescued")]
pub struct Arguments {
    /// The image, and perhaps a path in it, which becomes the folder: IMAGE:/path.
    #[arg(value_name = "IMAGE[:/PATH]")]
    pub image: OsString,
    /// Only these files and directories, with all that is in them, and then the folder, which comes
    /// last. Symbolic links on the way are not followed.
    #[arg(value_name = "[PATH]... DIR", required = true)]
    pub paths: Vec<OsString>,
    /// Replace files that are there: they are removed first, and never written through.
    #[arg(long, short = 'F')]
    pub force: bool,
    /// Leave out what cannot be read or made, name it, and exit with 1 in the end.
    #[arg(long, short = 'k')]
    pub keep_going: bool,
    /// Exit with 1 if anything could not be restored, such as an owner.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub damage: DamageArguments,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Report {
    image: String,
    folder: String,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    specials: u64,
    data_bytes: u64,
    not_restored: Vec<ReportedLoss>,
    sockets: Vec<String>,
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct ReportedLoss {
    kind: &'static str,
    count: u64,
    named: Vec<String>,
}

/// Extracts it. With `--json`: what it came to, on stdout.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    // What pretends to be root has to reach us.
    host()?;
    let mut place = ImagePath::of(&arguments.image);
    let (folder, mut paths) = words(&arguments, &place)?;
    let opened = arguments.damage.open(&place.image, &arguments.place, console)?;
    let Opened { filesystem, skipped } = opened;
    // What a pattern means comes out with the directories that it is in.
    if place.expanded(&filesystem) != [place.clone()] {
        place.path = None;
    }
    paths = paths.iter().flat_map(|path| expanded(&filesystem, path)).collect();
    let survey = filesystem
        .survey()
        .map_err(|error| Error::new(format!("{}: {error}", place.image.display())))?;
    let in_image = |error: extant_image::Error| {
        let error = Error::from(error);
        Error { message: format!("{}: {}", place.image.display(), error.message), ..error }
    };
    let base = base(&filesystem, &place, &paths)?;
    let mut plan = ExportPlan::new(Arc::new(survey), &paths).map_err(in_image)?;
    let goes_on = arguments.keep_going || arguments.damage.force_read;
    let on_trouble = if goes_on { OnTrouble::Skip } else { OnTrouble::Stop };
    let mut trouble = LeaveOut::new(console, &place.image, on_trouble);
    trouble.left_out = skipped;
    let of_socket = |left_out: &LeftOut| format!("{}: is a socket, and left out", left_out.path);
    let sockets = trouble.sort(std::mem::take(&mut plan.omissions), &of_socket)?;
    let target = open_folder(folder)?;
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let progress = console.progress("extract", Unit::Bytes, plan.bytes);
    cleanup::remark(format!("what is in {} stays", folder.display()));
    let mut leave_out = |left_out: LeftOut| trouble.leave_out(left_out);
    let extracted = extract(&Arc::new(plan), base, target, existing, &progress, &mut leave_out);
    drop(progress);
    let summary = extracted.map_err(|error| failure(error, folder, &place.image))?;
    warn(&summary.losses, console);
    if trouble.is_damaged {
        console.hint(&image::damage_hint(&place.image));
    }
    let is_complete =
        trouble.left_out.is_empty() && (summary.losses.is_empty() || !arguments.strict);
    if console.form == Form::Json {
        let report = report(&place.image, folder, &summary, sockets, trouble.left_out);
        console.print_json("extant-extract/1", &report)?;
    }
    Ok(if is_complete { Exit::Complete } else { Exit::Incomplete })
}

/// The folder, and the paths from the root of the image.
fn words<'a>(
    arguments: &'a Arguments,
    place: &ImagePath,
) -> Result<(&'a Path, Vec<Vec<u8>>), Error> {
    let Some((folder, paths)) = arguments.paths.split_last() else {
        return Err(Error::usage("the folder is missing"));
    };
    let base = place.path.as_ref().map(|path| path.as_os_str().as_bytes().to_vec());
    let paths = match (base, paths) {
        (None, paths) => paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        (Some(base), []) if names(&base) == 0 => Vec::new(),
        (Some(base), []) => vec![base],
        (Some(base), paths) => {
            paths.iter().map(|path| [&base, b"/".as_slice(), path.as_bytes()].concat()).collect()
        }
    };
    Ok((Path::new(folder), paths))
}

/// The paths that one with `*` and the like means.
fn expanded(filesystem: &Filesystem, path: &[u8]) -> Vec<Vec<u8>> {
    let paths = glob::expand(filesystem, Path::new(OsStr::from_bytes(path)));
    paths.into_iter().map(|path| path.into_os_string().into_vec()).collect()
}

/// How many names a path has.
fn names(path: &[u8]) -> usize {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").count()
}

/// What becomes the folder: the path after the image where it is a directory, else what it is in.
fn base(filesystem: &Filesystem, place: &ImagePath, paths: &[Vec<u8>]) -> Result<Base, Error> {
    let Some(path) = &place.path else { return Ok(Base { names: 0 }) };
    let names = names(path.as_os_str().as_bytes());
    let is_alone = paths.len() == 1 && paths[0] == path.as_os_str().as_bytes();
    let failed = |error: extant_engine::Error| image::failure(&place.image, error.at(path));
    let metadata = filesystem.object(path).and_then(|object| object.metadata()).map_err(failed)?;
    let is_directory = metadata.file_type == extant_format::inode::FileType::Directory;
    Ok(match is_alone && !is_directory {
        true => Base { names: names.saturating_sub(1) },
        false => Base { names },
    })
}

/// Makes the folder if it is missing, and opens it.
fn open_folder(folder: &Path) -> Result<File, Error> {
    let failed = |error: std::io::Error| Error::io(folder.display(), &error);
    if folder.as_os_str().is_empty() {
        return Err(failed(Errno::NOENT.into()));
    }
    // From the folder that it is in: the path may be longer than the kernel takes.
    let (parent, name) = open_host_parent(folder).map_err(failed)?;
    match mkdirat(&parent, &*name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&parent, &*name, flags, Mode::empty()) {
        Ok(opened) => Ok(opened.into()),
        Err(Errno::NOTDIR) => Err(Error::new(format!("{}: is not a folder", folder.display()))
            .hint("the last word is the folder that files go to")),
        Err(error) => Err(failed(error.into())),
    }
}

fn failure(error: extant_image::Error, folder: &Path, image: &Path) -> Error {
    let (folder, image) = (folder.display(), image.display());
    match &error.kind {
        ErrorKind::Output(cause) => {
            let failure = Error::io(&folder, cause);
            Error { message: format!("{folder}/{}", error.message), ..failure }
        }
        ErrorKind::LeftOut => Error::new(format!("{image}: {}", error.message))
            .hint("--keep-going leaves it out and goes on; --force replaces files that are there"),
        _ => Error::new(format!("{image}: {}", error.message)),
    }
}

/// Says what was not restored: the first of each kind, and how many there were.
fn warn(losses: &Losses, console: &Console) {
    for (kind, tally) in losses.kinds() {
        for sentence in &tally.named {
            console.warn(&format!("not restored: {sentence}"));
        }
        let more = tally.count - tally.named.len() as u64;
        if more > 0 {
            console.warn(&format!("not restored: {more} more of this kind ({})", kind.word()));
        }
    }
}

fn report(
    image: &Path,
    folder: &Path,
    summary: &Summary,
    sockets: Vec<String>,
    left_out: Vec<String>,
) -> Report {
    let losses = summary.losses.kinds().map(|(kind, tally)| ReportedLoss {
        kind: kind.word(),
        count: tally.count,
        named: tally.named.clone(),
    });
    Report {
        image: image.display().to_string(),
        folder: folder.display().to_string(),
        files: summary.files,
        directories: summary.directories,
        symlinks: summary.symlinks,
        hard_links: summary.hard_links,
        specials: summary.specials,
        data_bytes: summary.data_bytes,
        not_restored: losses.collect(),
        sockets,
        left_out,
    }
}
