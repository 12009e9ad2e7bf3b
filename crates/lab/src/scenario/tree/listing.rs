//! Trees from what others list: a tar file (its headers are read, its bodies skipped), what `tar
//! tv` prints, or lines of a size and a path. Only directories and plain files count; directories
//! that are not listed are made where they are first needed.
use super::names::{Kept, Names};
use super::{ENTRIES_MAX, Tree};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
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

const BLOCK: usize = 512;
/// No extended header is longer.
const EXTENDED_MAX: u64 = 1 << 20;
/// No line of a listing is longer.
const LINE_MAX: usize = 8192;

/// The tree of that file, in its order.
pub fn read(path: &Path) -> Result<Tree, ListingError> {
    let name = path.display().to_string();
    let failed = |error: io::Error| ListingError { place: name.clone(), reason: error.to_string() };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let head = reader.fill_buf().map_err(failed)?;
    match head.get(257..262) == Some(b"ustar") {
        true => Archive::new(name, reader).read(),
        false => read_lines(&name, reader),
    }
}

/// A tree that grows entry by entry.
struct Growing {
    tree: Tree,
    kept: Kept,
    directories: BTreeMap<String, u32>,
}

/// What an entry is.
enum Kind {
    Directory,
    File(u64),
    Other,
}

impl Growing {
    fn new() -> Growing {
        let mut kept = Kept::default();
        // The name of the top directory, which nobody asks for.
        kept.add("");
        Growing {
            tree: Tree::empty(Names::Words { seed: 0 }),
            kept,
            directories: BTreeMap::from([(String::new(), 0)]),
        }
    }

    fn add(&mut self, path: &str, kind: Kind) -> Result<(), String> {
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
        match kind {
            Kind::Other => Ok(()),
            Kind::Directory => self.directory(&parts).map(drop),
            Kind::File(bytes) => {
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
fn line_entry(line: &str) -> Option<(&str, Kind)> {
    if let Some(path) = line.strip_suffix('/')
        && !line.starts_with('d')
    {
        return Some((path, Kind::Directory));
    }
    let (first, rest) = line.trim_start().split_once(char::is_whitespace).unwrap_or((line, ""));
    if let Ok(bytes) = first.parse::<u64>() {
        return (!rest.trim().is_empty()).then(|| (rest.trim_start(), Kind::File(bytes)));
    }
    let is_mode =
        first.len() >= 10 && first.bytes().all(|letter| b"-dlrwxsStTbcphC+.@".contains(&letter));
    if !is_mode {
        return line.strip_suffix('/').map(|path| (path, Kind::Directory));
    }
    let mut rest = rest;
    let mut fields = [""; 4];
    for field in &mut fields {
        (*field, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    }
    let kind = match first.as_bytes().first()? {
        b'd' => Kind::Directory,
        b'-' => Kind::File(fields[1].parse().ok()?),
        _ => Kind::Other,
    };
    Some((rest, kind))
}

/// A tar file being read.
struct Archive<R> {
    name: String,
    reader: R,
    at: u64,
    growing: Growing,
    /// What an extended header said of the next entry.
    path: Option<String>,
    bytes: Option<u64>,
}

impl<R: Read + Seek> Archive<R> {
    fn new(name: String, reader: R) -> Archive<R> {
        Archive { name, reader, at: 0, growing: Growing::new(), path: None, bytes: None }
    }

    fn error(&self, reason: impl fmt::Display) -> ListingError {
        ListingError {
            place: format!("{}:byte {}", self.name, self.at),
            reason: reason.to_string(),
        }
    }

    fn read(mut self) -> Result<Tree, ListingError> {
        let mut header = [0u8; BLOCK];
        loop {
            match self.reader.read_exact(&mut header) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                result => result.map_err(|error| self.error(error))?,
            }
            if header.iter().all(|byte| *byte == 0) {
                break;
            }
            self.entry(&header)?;
        }
        Ok(self.growing.finish())
    }

    fn entry(&mut self, header: &[u8; BLOCK]) -> Result<(), ListingError> {
        let stored =
            number(&header[124..136]).ok_or_else(|| self.error("no size that a file can have"))?;
        let kind = header[156];
        self.at += BLOCK as u64;
        if matches!(kind, b'L' | b'x') {
            let body = self.extended(stored)?;
            match kind {
                b'L' => self.path = Some(text(&body)),
                _ => self.pax(&body),
            }
            return Ok(());
        }
        if matches!(kind, b'g' | b'K') {
            return self.skip(stored);
        }
        let bytes = self.bytes.take().unwrap_or(stored);
        let path = self.path.take().unwrap_or_else(|| header_path(header));
        let is_directory = kind == b'5' || (matches!(kind, b'0' | 0) && path.ends_with('/'));
        let (entry, body) = match kind {
            _ if is_directory => (Kind::Directory, 0),
            b'0' | 0 | b'7' => (Kind::File(bytes), bytes),
            b'1'..=b'6' => (Kind::Other, 0),
            _ => (Kind::Other, bytes),
        };
        self.growing.add(&path, entry).map_err(|reason| ListingError {
            place: format!("{}:byte {}", self.name, self.at),
            reason,
        })?;
        self.skip(body)
    }

    fn extended(&mut self, bytes: u64) -> Result<Vec<u8>, ListingError> {
        if bytes > EXTENDED_MAX {
            return Err(self.error(format!("an extended header of {bytes} bytes")));
        }
        let mut body = vec![0; bytes.next_multiple_of(BLOCK as u64) as usize];
        self.reader.read_exact(&mut body).map_err(|error| self.error(error))?;
        self.at += body.len() as u64;
        body.truncate(bytes as usize);
        Ok(body)
    }

    /// Records of `LENGTH KEY=VALUE\n`; what is none ends the list.
    fn pax(&mut self, mut body: &[u8]) {
        while let Some(space) = body.iter().position(|byte| *byte == b' ') {
            let length = std::str::from_utf8(&body[..space])
                .ok()
                .and_then(|digits| digits.parse::<usize>().ok());
            let Some(record) = length.and_then(|length| body.get(space + 1..length)) else {
                return;
            };
            let record = String::from_utf8_lossy(record);
            match record.trim_end_matches('\n').split_once('=') {
                Some(("path", path)) => self.path = Some(path.to_owned()),
                Some(("size", bytes)) => self.bytes = bytes.parse().ok(),
                _ => {}
            }
            body = &body[length.unwrap_or(body.len())..];
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), ListingError> {
        let padded = bytes
            .checked_next_multiple_of(BLOCK as u64)
            .and_then(|bytes| i64::try_from(bytes).ok());
        let padded = padded.ok_or_else(|| self.error("no size that a file can have"))?;
        self.reader.seek_relative_by(padded).map_err(|error| self.error(error))?;
        self.at = self.at.saturating_add(padded.unsigned_abs());
        Ok(())
    }
}

/// Going on without dropping what is buffered.
trait SeekRelative {
    fn seek_relative_by(&mut self, bytes: i64) -> io::Result<()>;
}

impl<R: Read + Seek> SeekRelative for R {
    fn seek_relative_by(&mut self, bytes: i64) -> io::Result<()> {
        self.seek(SeekFrom::Current(bytes)).map(drop)
    }
}

fn header_path(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    match &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        true => format!("{prefix}/{name}"),
        false => name,
    }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Octal digits, or base 256 with the top bit of the first byte set.
fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let mut value = u64::from(field[0] & 0x7f);
        for byte in &field[1..] {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value).filter(|value| *value < 1 << 60);
    }
    let digits = text(field);
    match digits.trim() {
        "" => Some(0),
        digits => u64::from_str_radix(digits, 8).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
