//! Trees from what others list: a tar file (its headers are read, its bodies skipped), what `tar
//! tv` prints, or lines of a size and a path. Only directories and plain files count; directories
//! that are not listed are made where they are first needed.
use super::names::{NameList, Names};
use super::{ENTRIES_MAX, Tree};
use extant_archive::{Bodies, Content, ReadError, Reader, begins_with_header};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

/// Why a listing makes no tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListingError {
    /// The listing and the place in it: `src.tar:byte 512`, `list.txt:3`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for ListingError {}

/// Bytes by which an archive is recognised: a header.
const HEADER_BYTES: u64 = 512;
/// No line of a listing is longer.
const LINE_MAX: usize = 8192;
/// No listing has more lines: each entry, and as many remarks.
const LINES_MAX: u64 = 2 * ENTRIES_MAX;

/// The tree of that file, in its order.
pub fn read(path: &Path) -> Result<Tree, ListingError> {
    let name = path.display().to_string();
    let failed = |error: io::Error| ListingError { place: name.clone(), reason: error.to_string() };
    let mut file = File::open(path).map_err(failed)?;
    // A device may have no end; a pipe cannot be read twice.
    if !file.metadata().map_err(failed)?.is_file() {
        let reason = "is no file".to_owned();
        return Err(ListingError { place: name, reason });
    }
    let mut head = Vec::new();
    (&file).take(HEADER_BYTES).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    match begins_with_header(&head) {
        true => read_archive(&name, file),
        false => read_lines(&name, BufReader::new(file)),
    }
}

/// A tree that grows entry by entry.
struct Growing {
    tree: Tree,
    kept: NameList,
    directories: BTreeMap<String, u32>,
}

/// What an entry of a listing is.
enum Listed {
    Directory,
    File(u64),
    Other,
}

impl Growing {
    fn new() -> Growing {
        let mut kept = NameList::default();
        // The name of the top directory, which is never asked for.
        kept.add("");
        Growing {
            tree: Tree::empty(Names::Words { seed: 0 }),
            kept,
            directories: BTreeMap::from([(String::new(), 0)]),
        }
    }

    fn add(&mut self, path: &str, entry: Listed) -> Result<(), String> {
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.iter().any(|part| *part == ".." || part.len() > 255 || part.contains('\0')) {
            return Err(format!("{path:?} is not a path inside a tree"));
        }
        if (self.tree.order.len() as u64) + parts.len() as u64 > ENTRIES_MAX {
            return Err(format!("a tree has at most {ENTRIES_MAX} directories and files"));
        }
        let Some((last, above)) = parts.split_last() else {
            return Ok(());
        };
        match entry {
            Listed::Other => Ok(()),
            Listed::Directory => self.directory(&parts).map(drop),
            Listed::File(bytes) => {
                let directory = self.directory(above)?;
                let name = self.keep(last)?;
                self.tree.add_file(directory, name, bytes);
                Ok(())
            }
        }
    }

    fn keep(&mut self, name: &str) -> Result<u32, String> {
        self.kept.add(name).ok_or_else(|| "too many names".to_owned())
    }

    fn directory(&mut self, parts: &[&str]) -> Result<u32, String> {
        let mut at = 0;
        for depth in 1..=parts.len() {
            let path = parts[..depth].join("/");
            at = match self.directories.get(&path) {
                Some(number) => *number,
                None => {
                    let name = self.keep(parts[depth - 1])?;
                    let number = self.tree.add_directory(at, name);
                    self.directories.insert(path, number);
                    number
                }
            };
        }
        Ok(at)
    }

    fn finish(mut self) -> Tree {
        self.tree.names = Names::Kept(self.kept);
        self.tree
    }
}

fn read_lines(name: &str, reader: impl BufRead) -> Result<Tree, ListingError> {
    let mut growing = Growing::new();
    let mut reader = reader;
    for number in 1u64.. {
        let error = |reason: String| ListingError { place: format!("{name}:{number}"), reason };
        let mut line = Vec::new();
        let limited = &mut (&mut reader).take(LINE_MAX as u64);
        limited.read_until(b'\n', &mut line).map_err(|failure| error(failure.to_string()))?;
        if line.is_empty() {
            break;
        }
        if number > LINES_MAX {
            return Err(error(format!("a listing has at most {LINES_MAX} lines")));
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| error("neither a tar file nor text".to_owned()))?;
        if line.len() >= LINE_MAX {
            return Err(error(format!("a line has at most {LINE_MAX} bytes")));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let (path, kind) = line_entry(text)
            .ok_or_else(|| error("is no line of `tar tv`, and no size and path".to_owned()))?;
        growing.add(path, kind).map_err(error)?;
    }
    Ok(growing.finish())
}

/// `-rw-r--r-- user/group  123 2001-11-04 21:18 path`, or `123 path`, or `path/`.
fn line_entry(line: &str) -> Option<(&str, Listed)> {
    if let Some(path) = line.strip_suffix('/')
        && !line.starts_with('d')
    {
        return Some((path, Listed::Directory));
    }
    let (first, rest) = line.trim_start().split_once(char::is_whitespace).unwrap_or((line, ""));
    if let Ok(bytes) = first.parse::<u64>() {
        return (!rest.trim().is_empty()).then(|| (rest.trim_start(), Listed::File(bytes)));
    }
    let is_mode =
        first.len() >= 10 && first.bytes().all(|letter| b"-dlrwxsStTbcphC+.@".contains(&letter));
    if !is_mode {
        return line.strip_suffix('/').map(|path| (path, Listed::Directory));
    }
    let mut rest = rest;
    let mut fields = [""; 4];
    for field in &mut fields {
        (*field, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    }
    let kind = match first.as_bytes().first()? {
        b'd' => Listed::Directory,
        b'-' => Listed::File(fields[1].parse().ok()?),
        _ => Listed::Other,
    };
    Some((rest, kind))
}

/// Directories and plain files of an archive, in its order. Bodies are passed over.
fn read_archive(name: &str, file: File) -> Result<Tree, ListingError> {
    let failed = |error: ReadError| ListingError {
        place: format!("{name}:byte {}", error.offset),
        reason: error.to_string(),
    };
    let mut growing = Growing::new();
    let mut reader = Reader::new(file, &Bodies::Skip).map_err(failed)?;
    while let Some(entry) = reader.next_entry().map_err(failed)? {
        let wrong = |reason: String| ListingError { place: name.to_owned(), reason };
        let path = entry.path.map_err(|error| wrong(error.to_string()))?;
        let listed = match &entry.content {
            Content::Directory => Listed::Directory,
            Content::File(body) => Listed::File(body.size),
            _ => Listed::Other,
        };
        growing.add(&String::from_utf8_lossy(&path), listed).map_err(wrong)?;
    }
    Ok(growing.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_archive::{NewContent, NewEntry, Writer};

    fn paths(tree: &Tree) -> Vec<(String, Option<u64>)> {
        let entry = |entry| match entry {
            super::super::Entry::Directory(number) => (tree.directory_path("", number), None),
            super::super::Entry::File(number) => {
                let directory = tree.directory_path("", tree.directory_of(number));
                (format!("{directory}/{}", tree.file_name(number)), Some(tree.bytes(number)))
            }
        };
        tree.entries().map(entry).collect()
    }

    #[test]
    fn lines_of_tar_and_plain_ones_make_the_same_tree() {
        let printed = "drwxr-xr-x root/root         0 2001-11-04 21:18 a/\n\
                       -rw-r--r-- root/root       123 2001-11-04 21:18 a/b c\n\
                       lrwxrwxrwx root/root         0 2001-11-04 21:18 a/l -> b\n\
                       -rw-r--r-- root/root         7 2001-11-04 21:18 d/e/f\n";
        let plain = "# sizes\na/\n123 a/b c\n7 d/e/f\n";
        let expected = [
            ("/a", None),
            ("/a/b c", Some(123)),
            ("/d", None),
            ("/d/e", None),
            ("/d/e/f", Some(7)),
        ];
        for text in [printed, plain] {
            let tree = read_lines("list", text.as_bytes()).unwrap();
            let found = paths(&tree);
            let found: Vec<_> = found.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_archive_makes_the_tree_of_its_directories_and_files() {
        let described = Default::default();
        let entries = [
            (&b"a"[..], NewContent::Directory),
            (b"a/b c", NewContent::File { size: 3 }),
            (b"a/l", NewContent::Symlink { target: b"b" }),
            (b"d/e/f", NewContent::File { size: 600 }),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tree.tar");
        let mut writer = Writer::new(File::create(&path).unwrap());
        for (path, content) in entries {
            let entry = NewEntry { path, described: &described, content };
            writer.append(&entry, &mut io::repeat(7)).unwrap();
        }
        writer.finish().unwrap();
        let found = paths(&read(&path).unwrap());
        let found: Vec<_> = found.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
        let expected = [
            ("/a", None),
            ("/a/b c", Some(3)),
            ("/d", None),
            ("/d/e", None),
            ("/d/e/f", Some(600)),
        ];
        assert_eq!(found, expected);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(700).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("tree.tar:byte "), "{error}");
    }

    #[test]
    fn what_is_no_listing_is_refused_with_its_line() {
        let error = |text: &[u8]| read_lines("list", text).unwrap_err().to_string();
        assert_eq!(
            error(b"1 a\nnonsense\n"),
            "list:2: is no line of `tar tv`, and no size and path"
        );
        assert_eq!(error(b"1 ../a\n"), "list:1: \"../a\" is not a path inside a tree");
        assert!(error(b"\xff\xfe\n").starts_with("list:1: neither"));
    }
}
