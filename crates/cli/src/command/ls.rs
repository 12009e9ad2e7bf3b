//! `extant ls`: names in an image, in the form that GNU ls has made known.
use crate::listing::{Names, Record, mode_letters};
use crate::troubles::Troubles;
use extant_archive::printable;
use extant_engine::{Filesystem, Metadata, Object};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_host::console::{Console, with_schema};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, DamageArguments, ImageArguments, ImagePath, failure};
use extant_image::date::{self, Grain};
use rustc_hash::FxHashSet;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// List files in an image.
///
/// Owners are numbers, times are UTC. With --json one line is printed for each object, what is
/// named first: all names, whether hidden or not, with extended attributes.
///
/// What cannot be listed of a damaged image is named on standard error, the rest is listed, and the
/// exit code is 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant ls disk.img
  extant ls -l disk.img:/etc
  extant ls 'disk.img:/etc/*.conf'
  extant ls -lRa --full-time disk.img
  extant ls --offset 1M disk-with-partitions.img:/home
  extant ls -R --json disk.img | jq -r 'select(.mode >= 2048) | .path'")]
pub struct Arguments {
    /// What to list: an image, or a path in one
    #[arg(value_name = "IMAGE[:/PATH]", required = true)]
    pub places: Vec<OsString>,
    /// Mode, links, owner, group, size (or device numbers), time
    #[arg(short)]
    pub long: bool,
    /// Directories in directories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Names that begin with a dot too
    #[arg(short, long)]
    pub all: bool,
    /// Inode numbers in front
    #[arg(short, long)]
    pub inode: bool,
    /// Directories themselves, not what is in them
    #[arg(short, long)]
    pub directory: bool,
    /// In the order of readdir, not of names
    #[arg(short = 'U')]
    pub unsorted: bool,
    /// Owners as numbers: always so, accepted for habit's sake
    #[arg(short)]
    pub numeric: bool,
    /// With -l: times to the nanosecond
    #[arg(long)]
    pub full_time: bool,
    /// With --json: the SHA-256 of each file's bytes
    #[arg(long, requires = "json")]
    pub sha256: bool,
    #[command(flatten)]
    pub damage: DamageArguments,
    #[command(flatten)]
    pub image: ImageArguments,
}

/// Lists them.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let terminal = std::io::stdout().is_terminal();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let (mut number, mut exit) = (0, Exit::Complete);
    for word in &arguments.places {
        let word = ImagePath::of(word);
        let opened = arguments.damage.open(&word.image, &arguments.image, console)?;
        if opened.exit() != Exit::Complete {
            exit = opened.exit();
        }
        let filesystem = opened.filesystem;
        let places = word.expanded(&filesystem);
        let is_one = arguments.places.len() == 1 && places.len() == 1;
        let headings = match arguments.recursive || !is_one {
            true => Headings::Shown,
            false => Headings::Omitted,
        };
        let mut lister = Lister {
            filesystem,
            image: &word.image,
            arguments: &arguments,
            names: if terminal { Names::Escaped } else { Names::Raw },
            out: &mut out,
            visited: FxHashSet::default(),
            troubles: Troubles::new(console, &word.image),
        };
        image::warn_if_mounted(&word.image, console);
        for place in &places {
            match console.is_json() {
                true => lister.records(place.path_or_root())?,
                false => lister.text(place, headings, number)?,
            }
            number += 1;
        }
        if lister.troubles.exit() != Exit::Complete {
            exit = lister.troubles.exit();
        }
    }
    out.flush().map_err(|error| Error::stdout(&error))?;
    Ok(exit)
}

/// One place that is being listed.
struct Lister<'a, W: Write> {
    filesystem: Filesystem,
    image: &'a Path,
    arguments: &'a Arguments,
    names: Names,
    out: &'a mut W,
    /// Directories that were listed: each has one name, so one that comes again is a fault of the
    /// image.
    visited: FxHashSet<Ino>,
    /// What cannot be listed.
    troubles: Troubles<'a>,
}

/// Whether the names of a directory come after its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Headings {
    Shown,
    Omitted,
}

/// A name, and what it leads to.
struct Named {
    name: Vec<u8>,
    object: Object,
    metadata: Metadata,
}

impl<W: Write> Lister<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|error| Error::stdout(&error))
    }

    fn failure(&self, path: &[u8], error: extant_engine::Error) -> Error {
        failure(self.image, error.at(std::ffi::OsStr::from_bytes(path)))
    }

    /// What a word names: a symlink to a directory is followed, except with -l and -d.
    fn named(&self, path: &Path) -> Result<Named, Error> {
        let name = path.as_os_str().as_bytes().to_vec();
        let failed = |error| self.failure(&name, error);
        let mut object = self.filesystem.object(path).map_err(failed)?;
        let mut metadata = object.metadata().map_err(failed)?;
        let follows = !self.arguments.long && !self.arguments.directory;
        if metadata.file_type == FileType::Symlink
            && follows
            && let Ok(target) = self.filesystem.metadata(path)
            && target.file_type == FileType::Directory
        {
            object = self.filesystem.object_of(target.ino).map_err(failed)?;
            metadata = target;
        }
        Ok(Named { name, object, metadata })
    }

    /// What came of one thing; under --force-read a failure is told, and this is taken instead.
    fn passed<T>(&self, outcome: Result<T, Error>, instead: T) -> Result<T, Error> {
        match outcome {
            Err(error) if self.arguments.damage.force_read => {
                self.troubles.told(&error);
                Ok(instead)
            }
            outcome => outcome,
        }
    }

    /// Whether a directory was not listed yet; tells it if it was.
    fn is_new(&mut self, directory: &Named) -> bool {
        let ino = directory.metadata.ino;
        let is_new = self.visited.insert(ino);
        if !is_new {
            let (image, path) = (self.image.display(), printable(&directory.name));
            self.troubles.told(&Error::new(format!(
                "{image}:{path}: directory inode {} has another name already",
                ino.0
            )));
        }
        is_new
    }

    /// The names in a directory, in the order that was asked for. What cannot be listed is told.
    fn read(&mut self, path: &[u8], directory: &Object) -> Result<Vec<Named>, Error> {
        let entries = directory.read_dir().map_err(|error| self.failure(path, error));
        let mut entries = self.passed(entries, Vec::new())?;
        if !self.arguments.unsorted {
            entries.sort_by(|left, right| left.name.cmp(&right.name));
        }
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(stored) = &entry.stored {
                let (image, path, ino) = (self.image.display(), printable(path), entry.ino.0);
                self.troubles.told(&Error::new(format!(
                    "{image}:{path}: has a name that no file may have: \"{}\" (inode {ino})",
                    stored.escape_ascii()
                )));
                continue;
            }
            let object = self.filesystem.object_of(entry.ino);
            match object.and_then(|object| Ok((object.metadata()?, object))) {
                Ok((metadata, object)) => all.push(Named { name: entry.name, object, metadata }),
                Err(error) => {
                    self.troubles.told(&self.failure(&join(path, &entry.name), error));
                }
            }
        }
        Ok(all)
    }

    /// Prints what a word names, after `before` other words.
    fn text(&mut self, place: &ImagePath, headings: Headings, before: usize) -> Result<(), Error> {
        let named = self.named(place.path_or_root())?;
        if named.metadata.file_type != FileType::Directory || self.arguments.directory {
            return self.lines(&named.name.clone(), &[named]);
        }
        let mut is_first = before == 0;
        let mut waiting = vec![named];
        while let Some(directory) = waiting.pop() {
            if !self.is_new(&directory) {
                continue;
            }
            if headings == Headings::Shown {
                let blank = if is_first { "" } else { "\n" };
                let head = [blank.as_bytes(), &self.names.write(&directory.name), b":\n"].concat();
                self.put(&head)?;
            }
            is_first = false;
            let mut entries = self.read(&directory.name, &directory.object)?;
            entries.retain(|entry| self.arguments.all || !entry.name.starts_with(b"."));
            if self.arguments.long {
                let sectors = entries
                    .iter()
                    .fold(0u64, |sum, entry| sum.saturating_add(entry.metadata.sectors));
                self.put(format!("total {}\n", sectors / 2).as_bytes())?;
            }
            self.lines(&directory.name, &entries)?;
            if self.arguments.recursive {
                let directories = entries.into_iter().rev().filter(is_directory);
                let full =
                    |entry: Named| Named { name: join(&directory.name, &entry.name), ..entry };
                waiting.extend(directories.map(full));
            }
        }
        Ok(())
    }

    /// One line for each; `path` is where they are.
    fn lines(&mut self, path: &[u8], entries: &[Named]) -> Result<(), Error> {
        let widths = Widths::of(entries);
        let mut marks = Vec::new();
        if self.arguments.long {
            marks = self.marks(path, entries)?;
        }
        let marked = marks.contains(&'+');
        for (number, entry) in entries.iter().enumerate() {
            let mut line = Vec::new();
            if self.arguments.inode {
                line.extend(format!("{:>1$} ", entry.metadata.ino.0, widths.ino).bytes());
            }
            if self.arguments.long {
                let grain =
                    if self.arguments.full_time { Grain::Nanosecond } else { Grain::Minute };
                let mark =
                    marks.get(number).filter(|_| marked).map_or(String::new(), char::to_string);
                line.extend(facts(&entry.metadata, &mark, &widths, grain).bytes());
            }
            line.extend(self.names.write(&entry.name));
            if self.arguments.long && entry.metadata.file_type == FileType::Symlink {
                let target = entry.object.read_link();
                let target = target.map_err(|error| self.failure(&join(path, &entry.name), error));
                let target = self.passed(target, b"?".to_vec())?;
                line.extend(b" -> ");
                line.extend(self.names.write(&target));
            }
            line.push(b'\n');
            self.put(&line)?;
        }
        Ok(())
    }

    /// For each a "+" where an access list says more than the mode, as GNU ls has it, or a space.
    fn marks(&self, path: &[u8], entries: &[Named]) -> Result<Vec<char>, Error> {
        let mark = |entry: &Named| {
            let attributes = entry.object.attributes();
            let attributes =
                attributes.map_err(|error| self.failure(&join(path, &entry.name), error));
            let attributes = self.passed(attributes, Vec::new())?;
            let has_list =
                attributes.iter().any(|attribute| attribute.name.starts_with(b"system.posix_acl_"));
            Ok(if has_list { '+' } else { ' ' })
        };
        entries.iter().map(mark).collect()
    }

    /// One JSON object a line: the object itself, then what is in it.
    fn records(&mut self, path: &Path) -> Result<(), Error> {
        let mut named = self.named(path)?;
        named.name = absolute(&named.name);
        let mut waiting = vec![(named, self.arguments.directory)];
        let mut below = false;
        while let Some((named, is_leaf)) = waiting.pop() {
            self.record(&named)?;
            if !is_directory(&named) || is_leaf || (below && !self.arguments.recursive) {
                continue;
            }
            if !self.is_new(&named) {
                continue;
            }
            below = true;
            let entries = self.read(&named.name, &named.object)?;
            let full =
                |entry: Named| (Named { name: join(&named.name, &entry.name), ..entry }, false);
            waiting.extend(entries.into_iter().rev().map(full));
        }
        Ok(())
    }

    fn record(&mut self, named: &Named) -> Result<(), Error> {
        let failed = |error| self.failure(&named.name, error);
        let mut record = Record::new(&named.name, &named.object).map_err(failed)?;
        if self.arguments.sha256 && named.metadata.file_type == FileType::Regular {
            record.sha256 = Some(sum(&named.object, named.metadata.size).map_err(failed)?);
        }
        let mut line = with_schema(Record::SCHEMA, &record)?;
        line.push('\n');
        self.put(line.as_bytes())
    }
}

fn is_directory(named: &Named) -> bool {
    named.metadata.file_type == FileType::Directory
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// One slash in front, none at the end, none doubled.
fn absolute(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let mut whole: Vec<u8> = parts.flat_map(|part| [b"/", part].concat()).collect();
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

/// How wide the columns are.
#[derive(Default)]
struct Widths {
    ino: usize,
    links: usize,
    uid: usize,
    gid: usize,
    minor: usize,
    /// Bytes, or of devices both numbers with a comma and a space between.
    size: usize,
}

impl Widths {
    fn of(entries: &[Named]) -> Widths {
        let (mut widths, mut major) = (Widths::default(), 0);
        for Named { metadata, .. } in entries {
            let widen = |width: &mut usize, number: u64| *width = (*width).max(digits(number));
            widen(&mut widths.ino, metadata.ino.0.into());
            widen(&mut widths.links, metadata.links.into());
            widen(&mut widths.uid, metadata.uid.into());
            widen(&mut widths.gid, metadata.gid.into());
            match metadata.device {
                Some(device) => {
                    widen(&mut major, device.major.into());
                    widen(&mut widths.minor, device.minor.into());
                }
                None => widen(&mut widths.size, metadata.size),
            }
        }
        if major > 0 {
            widths.size = widths.size.max(major + 2 + widths.minor);
        }
        widths
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Bytes, or of a device its numbers, each in a column of its own.
fn size_column(metadata: &Metadata, widths: &Widths) -> String {
    let (width, minor_width) = (widths.size, widths.minor);
    match metadata.device {
        Some(device) => {
            let major_width = width.saturating_sub(minor_width + 2);
            format!("{:>major_width$}, {:>minor_width$}", device.major, device.minor)
        }
        None => format!("{:>width$}", metadata.size),
    }
}

/// Everything of a long line before the name.
fn facts(metadata: &Metadata, mark: &str, widths: &Widths, grain: Grain) -> String {
    let mode = mode_letters(metadata);
    let (links, uid, gid) = (metadata.links, metadata.uid, metadata.gid);
    let (size, time) = (size_column(metadata, widths), date::shown(metadata.modify_time, grain));
    let Widths { links: w_links, uid: w_uid, gid: w_gid, .. } = *widths;
    format!("{mode}{mark} {links:>w_links$} {uid:>w_uid$} {gid:>w_gid$} {size} {time} ")
}

/// The SHA-256 of a file's bytes in hexadecimal.
fn sum(file: &Object, size: u64) -> extant_engine::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut at = 0;
    while at < size {
        let length = file.read_at(at, &mut buffer)?;
        if length == 0 {
            break;
        }
        hash.update(&buffer[..length]);
        at += length as u64;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_absolute() {
        for (path, whole) in [("/", "/"), ("//a//b/", "/a/b"), ("a", "/a"), ("", "/")] {
            assert_eq!(absolute(path.as_bytes()), whole.as_bytes(), "{path}");
        }
    }
}
