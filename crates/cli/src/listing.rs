//! An object of an image as a person reads it and as a program does: the mode in letters, a name on
//! a terminal, and the record of `ls --json` and `stat --json`.
//!
//! A record is one JSON object a line. Names and targets that are not UTF-8 are base64 in
//! `path_bytes` and `target_bytes` instead of `path` and `target`; values of extended attributes
//! always are base64, and a name that is not UTF-8 is `base64:` and its base64.
use extant_engine::{Metadata, Object, Result};
use extant_format::inode::{FileType, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// One object under one name.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// From the root of the image on, with a slash in front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The same, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// `file`, `directory`, `symlink`, `character-device`, `block-device`, `fifo`, `socket`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Inode number.
    pub ino: u32,
    /// The twelve bits of permission.
    pub mode: u16,
    /// Names.
    pub links: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Content changed: seconds, nanoseconds.
    pub mtime: (i64, u32),
    /// Last read.
    pub atime: (i64, u32),
    /// Inode changed.
    pub ctime: (i64, u32),
    /// Made; where the inode has room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crtime: Option<(i64, u32)>,
    /// Major and minor number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// Where a symlink leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The same, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bytes: Option<String>,
    /// Names and values of extended attributes, as `getxattr` gives them.
    pub xattrs: BTreeMap<String, String>,
    /// Of the bytes of a file, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Record {
    /// The schema of a record that stands alone.
    pub const SCHEMA: &'static str = "extant-file/1";

    /// All that is known of an object, under this path.
    ///
    /// # Errors
    /// What cannot be read of it.
    pub fn new(path: &[u8], object: &Object) -> Result<Record> {
        let metadata = object.metadata()?;
        let is_symlink = metadata.file_type == FileType::Symlink;
        let target = if is_symlink { Some(object.read_link()?) } else { None };
        let (path, path_bytes) = text_or_base64(Some(path.to_vec()));
        let (target, target_bytes) = text_or_base64(target);
        let attributes = object.attributes()?.into_iter();
        let xattrs = attributes
            .map(|attribute| (attribute_key(attribute.name), base64(&attribute.value)))
            .collect();
        Ok(Record {
            path,
            path_bytes,
            kind: kind(metadata.file_type),
            ino: metadata.ino.0,
            mode: metadata.mode & 0o7777,
            links: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            size: metadata.size,
            mtime: pair(metadata.modify_time),
            atime: pair(metadata.access_time),
            ctime: pair(metadata.change_time),
            crtime: metadata.create_time.map(pair),
            device: metadata.device.map(|device| (device.major, device.minor)),
            target,
            target_bytes,
            xattrs,
            sha256: None,
        })
    }
}

fn pair(time: Time) -> (i64, u32) {
    (time.seconds, time.nanoseconds)
}

fn text_or_base64(bytes: Option<Vec<u8>>) -> (Option<String>, Option<String>) {
    match bytes.map(String::from_utf8) {
        None => (None, None),
        Some(Ok(text)) => (Some(text), None),
        Some(Err(error)) => (None, Some(base64(error.as_bytes()))),
    }
}

fn attribute_key(name: Vec<u8>) -> String {
    String::from_utf8(name).unwrap_or_else(|error| format!("base64:{}", base64(error.as_bytes())))
}

/// The name of a type in records.
pub fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::CharacterDevice => "character-device",
        FileType::BlockDevice => "block-device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

/// Type and permissions in ten letters, as `ls -l` has them.
pub fn mode_letters(metadata: &Metadata) -> String {
    let mode = metadata.mode;
    let mut letters = String::with_capacity(10);
    letters.push(match metadata.file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::CharacterDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
    });
    for (shift, special, marks) in
        [(6, 0o4000, ['s', 'S']), (3, 0o2000, ['s', 'S']), (0, 0o1000, ['t', 'T'])]
    {
        let bits = mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => marks[0],
            (true, false) => marks[1],
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// How names are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// As they are, byte by byte: into files and pipes.
    Raw,
    /// What would move the cursor, or is not UTF-8, is escaped: on terminals.
    Escaped,
}

impl Names {
    /// A name, ready to be written.
    pub fn write(self, name: &[u8]) -> Vec<u8> {
        if self == Names::Raw {
            return name.to_vec();
        }
        let mut text = String::with_capacity(name.len());
        for chunk in name.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter.is_control() || letter == '\\' || is_invisible(letter) {
                    true => text.extend(letter.escape_default()),
                    false => text.push(letter),
                }
            }
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text.into_bytes()
    }
}

/// Letters without a shape of their own that change how others are shown: direction marks and the
/// like.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    )
}

/// Base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_known_values() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn names_do_not_reach_the_terminal_as_commands() {
        assert_eq!(
            Names::Escaped.write("grün\x1b[2J\n".as_bytes()),
            "grün\\u{1b}[2J\\n".as_bytes()
        );
        assert_eq!(Names::Escaped.write(b"a\xff\\"), b"a\\xff\\\\");
        assert_eq!(Names::Escaped.write("a\u{202e}b".as_bytes()), b"a\\u{202e}b");
        assert_eq!(Names::Raw.write(b"a\xff\n"), b"a\xff\n");
    }
}
