//! What a word names: an image with a path inside, `IMAGE:/path`; where its volume is: `IMAGE`,
//! `IMAGE@2`, `IMAGE@NAME`, `IMAGE@@BYTES`; and the partition that this means.
use crate::error::Error;
use crate::recognise;
use crate::size::Size;
use extant_block::BlockDevice;
use extant_disk::{Partition, PartitionTable, Scheme, partitions};
use extant_edit::glob;
use extant_engine::Filesystem;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Partitions that are named in a hint, at most.
const SHOWN_MAX: usize = 16;

/// What a word says of the place of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeName {
    /// The file or device of the host.
    pub file: PathBuf,
    /// Which part of it.
    pub part: Part,
}

/// A part of a disk, as the user says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Nothing is said: the whole, or the only ext volume of it.
    Unsaid,
    /// The partition of this number, name or identifier.
    Partition(String),
    /// What begins at a byte, in the words of `--offset`.
    Byte(String),
}

impl VolumeName {
    /// Reads a word. A file of the whole name is that file; otherwise the part begins after the
    /// first `@` that has a file before it.
    pub fn of(word: &Path) -> VolumeName {
        let bytes = word.as_os_str().as_bytes();
        let whole = VolumeName { file: word.to_owned(), part: Part::Unsaid };
        if !bytes.contains(&b'@') || word.exists() {
            return whole;
        }
        let is_file = |path: &Path| path.metadata().is_ok_and(|found| !found.is_dir());
        let cuts = (1..bytes.len()).filter(|at| bytes[*at] == b'@');
        for at in cuts {
            let file = Path::new(OsStr::from_bytes(&bytes[..at]));
            if !is_file(file) {
                continue;
            }
            let said = String::from_utf8_lossy(&bytes[at + 1..]).into_owned();
            let part = match said.strip_prefix('@') {
                Some(byte) => Part::Byte(byte.to_owned()),
                None => Part::Partition(said),
            };
            return VolumeName { file: file.to_owned(), part };
        }
        whole
    }

    /// Whether the word names a file that is there.
    pub fn is_there(word: &Path) -> bool {
        VolumeName::of(word).file.exists()
    }
}

/// What a word of the command line names: an image, and perhaps a path inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImagePath {
    /// The image on the host, with the part of it that is said after an `@`
    /// ([`VolumeName`]).
    pub image: PathBuf,
    /// The path inside, beginning with a slash.
    pub path: Option<PathBuf>,
}

impl ImagePath {
    /// Reads `IMAGE`, `IMAGE:/path`, `IMAGE:path` or `IMAGE:`. A file of the whole name is that
    /// image, and so is an address ([`is_address`]); otherwise the path begins after the first
    /// colon with a file before it, or else after the last.
    pub fn of(word: &OsStr) -> ImagePath {
        let bytes = word.as_bytes();
        let whole = ImagePath { image: PathBuf::from(word), path: None };
        if Path::new(word).symlink_metadata().is_ok() || is_address(bytes) {
            return whole;
        }
        let cuts: Vec<usize> = (1..bytes.len()).filter(|at| bytes[*at] == b':').collect();
        let is_file =
            |at: &&usize| VolumeName::is_there(Path::new(OsStr::from_bytes(&bytes[..**at])));
        let cut = cuts.iter().find(is_file).or(cuts.last());
        cut.map_or(whole, |at| {
            let inside = &bytes[*at + 1..];
            let slash = if inside.starts_with(b"/") { &b""[..] } else { b"/" };
            ImagePath {
                image: PathBuf::from(OsString::from_vec(bytes[..*at].to_vec())),
                path: Some(PathBuf::from(OsString::from_vec([slash, inside].concat()))),
            }
        })
    }

    /// The places that are meant where the path has `*` and the like.
    pub fn expanded(&self, filesystem: &Filesystem) -> Vec<ImagePath> {
        let Some(path) = &self.path else { return vec![self.clone()] };
        let paths = glob::expand(filesystem, path).into_iter();
        paths.map(|path| ImagePath { image: self.image.clone(), path: Some(path) }).collect()
    }

    /// The path inside; the root unless given.
    pub fn path_or_root(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("/"))
    }
}

/// Whether a word is the address of something that other programs fetch, and no image with a path:
/// `docker://alpine`, `oci:folder:tag`.
fn is_address(word: &[u8]) -> bool {
    const TRANSPORTS: [&[u8]; 5] =
        [b"oci:", b"oci-archive:", b"docker-archive:", b"docker-daemon:", b"containers-storage:"];
    let scheme = word.iter().position(|byte| *byte == b':').map(|colon| word.split_at(colon));
    let has_scheme = scheme.is_some_and(|(scheme, rest)| {
        rest.starts_with(b"://")
            && scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    });
    // `disk.img://etc` is a path: what ends as a file does is no scheme.
    let names_file = scheme.is_some_and(|(scheme, _)| {
        scheme.contains(&b'.') || VolumeName::is_there(Path::new(OsStr::from_bytes(scheme)))
    });
    has_scheme && !names_file || TRANSPORTS.iter().any(|transport| word.starts_with(transport))
}

/// What is said of an image that is not there.
pub fn missing(image: &Path, error: &io::Error) -> Error {
    let failure = Error::io(image.display(), error);
    if error.kind() != io::ErrorKind::NotFound {
        return failure;
    }
    let word = image.as_os_str();
    let place = ImagePath::of(word);
    if is_address(word.as_bytes()) {
        return failure.hint(
            "it is fetched by another program: skopeo copy SOURCE oci:FOLDER makes a folder",
        );
    }
    match place.path.is_some() && VolumeName::is_there(&place.image) {
        true => {
            failure.hint(format!("this command takes the image alone: {}", place.image.display()))
        }
        false => failure,
    }
}

/// The folder that a file is in, or would be.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The file of the host that a word names.
pub fn file_of(word: &Path) -> PathBuf {
    VolumeName::of(word).file
}

/// The bytes of a disk that are the volume; `None` for all of it.
///
/// # Errors
/// There is no such partition, or several of that name; a number that is none.
pub fn find(
    name: &VolumeName,
    disk: &dyn BlockDevice,
    offset_bytes: u64,
) -> Result<Option<Range<u64>>, Error> {
    let shown = name.file.display();
    let end = disk.info().bytes;
    match &name.part {
        Part::Unsaid if offset_bytes > 0 => Ok(Some(offset_bytes..end)),
        Part::Unsaid => Ok(only_volume(disk)),
        _ if offset_bytes > 0 => {
            Err(Error::usage(format!("{shown}: --offset and @ both say where the volume begins")))
        }
        Part::Byte(word) => {
            let size: Result<Size, _> = word.parse();
            let byte = size.ok().and_then(|size| size.bytes(1));
            let byte = byte.ok_or_else(|| {
                Error::usage(format!("{shown}@@{word}: {word:?} is no number of bytes"))
                    .hint(format!("{shown}@@1048576, {shown}@@1M and {shown}@@2048s are one place"))
            })?;
            match byte < end {
                true => Ok(Some(byte..end)),
                false => {
                    let text = format!("{shown}@@{word}: {shown} has only {end} bytes");
                    Err(Error::usage(text).hint(format!("extant ls {shown} names its partitions")))
                }
            }
        }
        Part::Partition(word) => chosen(&shown.to_string(), word, disk).map(Some),
    }
}

/// The partition with the only ext volume of a disk; `None` where the disk is a volume itself, or
/// has none or several.
fn only_volume(disk: &dyn BlockDevice) -> Option<Range<u64>> {
    if recognise::is_ext(&recognise::head(disk, 0)) {
        return None;
    }
    let table = partitions(disk)?;
    let is_ext =
        |partition: &&Partition| recognise::is_ext(&recognise::head(disk, partition.range.start));
    let mut volumes = table.partitions.iter().filter(is_ext);
    let only = volumes.next()?;
    volumes.next().is_none().then(|| only.range.clone())
}

fn chosen(shown: &str, word: &str, disk: &dyn BlockDevice) -> Result<Range<u64>, Error> {
    let none = |what: &str| Error::new(format!("{shown}@{word}: {what}"));
    let table = partitions(disk).ok_or_else(|| {
        none("it has no partition table").hint(format!("{shown}@@BYTES says where a volume begins"))
    })?;
    let number: Option<u32> = word.parse().ok();
    match table.named(word).as_slice() {
        [partition] => Ok(partition.range.clone()),
        [] => {
            let why = match (&table.damage, number, table.scheme) {
                (Some(damage), ..) => format!("the disk {damage}"),
                (None, None, Scheme::Mbr) => {
                    "partitions of an MBR have numbers, not names".to_owned()
                }
                _ => "it has no such partition".to_owned(),
            };
            Err(none(&why).hint(listed(shown, disk, &table)))
        }
        several => {
            let numbers: Vec<String> =
                several.iter().map(|one| format!("{shown}@{}", one.number)).collect();
            Err(none("several partitions have that name").hint(numbers.join(", ")))
        }
    }
}

/// What the partitions of a disk hold, each with the word for it.
pub fn listed(shown: &str, disk: &dyn BlockDevice, table: &PartitionTable) -> String {
    let damage = table.damage.iter().map(|damage| format!("it {damage}; "));
    let damage: String = damage.collect();
    if table.partitions.is_empty() {
        return format!("{damage}it has no partitions");
    }
    let heads = table.partitions.iter().take(SHOWN_MAX);
    let heads: Vec<(&Partition, Vec<u8>)> =
        heads.map(|one| (one, recognise::head(disk, one.range.start))).collect();
    let ext: Vec<String> = heads
        .iter()
        .filter(|(_, head)| recognise::is_ext(head))
        .map(|(one, _)| format!("{shown}@{}{}", one.number, described(one)))
        .collect();
    if !ext.is_empty() {
        return format!("{damage}its ext volumes: {}", ext.join(", "));
    }
    let others: Vec<String> = heads
        .iter()
        .map(|(one, head)| {
            let what = recognise::kind_of(head).map_or("not known", |kind| kind.name);
            format!("{} (at byte {}) is {what}", one.number, one.range.start)
        })
        .collect();
    format!("{damage}no partition of it is ext: {}", others.join(", "))
}

/// ` ("root", at byte 1048576)`.
fn described(partition: &Partition) -> String {
    let start = partition.range.start;
    match partition.name.as_str() {
        "" => format!(" (at byte {start})"),
        name => format!(" ({:?}, at byte {start})", extant_archive::printable(name.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_part_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a@b.img");
        std::fs::write(&file, "x").unwrap();
        let word = |text: &str| PathBuf::from(format!("{}{text}", file.display()));
        let name = |part| VolumeName { file: file.clone(), part };
        assert_eq!(VolumeName::of(&word("")), name(Part::Unsaid));
        assert_eq!(VolumeName::of(&word("@2")), name(Part::Partition("2".into())));
        assert_eq!(VolumeName::of(&word("@a@b")), name(Part::Partition("a@b".into())));
        assert_eq!(VolumeName::of(&word("@@1M")), name(Part::Byte("1M".into())));
        // A file of the whole name is that file.
        std::fs::write(word("@2"), "x").unwrap();
        assert_eq!(VolumeName::of(&word("@2")).part, Part::Unsaid);
        let none = Path::new("none@2");
        assert_eq!(VolumeName::of(none).file, none);
    }

    #[test]
    fn an_image_and_a_path_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a:/b.img");
        std::fs::create_dir_all(image.parent().unwrap()).unwrap();
        std::fs::write(&image, "x").unwrap();
        let word = |text: &str| OsString::from(format!("{}{text}", image.display()));
        assert_eq!(ImagePath::of(&word("")), ImagePath { image: image.clone(), path: None });
        let inside = ImagePath { image: image.clone(), path: Some("/etc:/x".into()) };
        // The folder "a:" is a file too, as far as names go; but what counts is the first name that
        // is there.
        assert_eq!(
            ImagePath::of(&word(":/etc:/x")).path_or_root().file_name(),
            inside.path_or_root().file_name()
        );
        let none = ImagePath { image: "none.img".into(), path: Some("/etc".into()) };
        for word in ["none.img:/etc", "none.img:etc"] {
            assert_eq!(ImagePath::of(OsStr::new(word)), none);
        }
        let root = ImagePath { image: image.clone(), path: Some("/".into()) };
        assert_eq!(ImagePath::of(&word(":")), root);
        let relative = ImagePath { image: image.clone(), path: Some("/etc:x:y".into()) };
        assert_eq!(ImagePath::of(&word(":etc:x:y")), relative);
        // No file is there: the last colon counts. One of the whole name wins, if only a link.
        assert_eq!(ImagePath::of(OsStr::new("none:a:b")).image, Path::new("none:a"));
        std::os::unix::fs::symlink("nowhere", word(":etc")).unwrap();
        assert_eq!(ImagePath::of(&word(":etc")).path, None);
        assert_eq!(ImagePath::of(OsStr::new(":etc")).path, None);
    }

    #[test]
    fn an_address_is_no_image() {
        for word in [
            "docker://alpine:3",
            "https://example.org/a:b",
            "oci:folder:tag",
            "oci-archive:a.tar:x",
            "docker-archive:a.tar",
        ] {
            assert!(is_address(word.as_bytes()), "{word}");
            assert_eq!(ImagePath::of(OsStr::new(word)).path, None, "{word}");
        }
        for word in ["disk.img://etc", "1://x", "://x", "ocifolder:x", "disk.img:oci:x"] {
            assert!(!is_address(word.as_bytes()), "{word}");
        }
    }
}
