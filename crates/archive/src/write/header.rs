//! Headers of an archive as they are written: 512 bytes of ustar, and an extended header in front
//! where these cannot say it all.
//!
//! An extended header is a file of type `x` whose body is records `LENGTH KEY=VALUE`. Its own name
//! means nothing. Names that are not UTF-8 are in records as they are, as GNU tar has them, which
//! does not know the keyword that pax has for this.
use crate::block::{
    BLOCK_BYTES, Block, CHECKSUM, GID, LINK, MAGIC, MAJOR, MINOR, MODE, MODIFY_TIME, NAME, PREFIX,
    SIZE, TYPE, UID, padding,
};
use extant_format::acl::{ACCESS, AccessList, DEFAULT};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, Time};
use extant_tree::{Described, Facts, access, flags};
use std::io::Write;
use std::ops::Range;

/// Largest numbers that fit: a digit less than bytes, because a NUL ends them.
const ID_MAX: u64 = 0o777_7777;
const SIZE_MAX: u64 = 0o777_7777_7777;

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The path without a leading slash; the root's is empty.
    pub path: &'a [u8],
    /// Owner, mode, times, attributes and flags. Of a hard link owner and mode alone are written.
    pub described: &'a Described,
    /// What it is.
    pub content: NewContent<'a>,
}

/// What an entry to be written is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewContent<'a> {
    /// A file whose body follows as it is.
    File {
        /// Bytes of the file.
        size: u64,
    },
    /// A file with holes: a map ([`append_map`]) and what is not a hole follow.
    Sparse {
        /// Bytes of the file, holes included.
        size: u64,
        /// Bytes of the map and of what is not a hole.
        stored: u64,
    },
    /// Another name for what was written before.
    HardLink {
        /// The path of that entry, without a leading slash.
        target: &'a [u8],
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: &'a [u8],
    },
    /// A directory.
    Directory,
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A named pipe.
    Fifo,
}

/// Makes headers, in memory that is used again and again.
#[derive(Default)]
pub struct Headers {
    /// Records of the extended header under way.
    records: Vec<u8>,
    value: Vec<u8>,
    name: Vec<u8>,
}

impl Headers {
    /// Appends the header of an entry, and an extended one in front if it needs one: whole blocks.
    pub fn append(&mut self, entry: &NewEntry<'_>, to: &mut Vec<u8>) {
        self.records.clear();
        let mut block = [0; BLOCK_BYTES];
        self.begin(&mut block, entry);
        self.link(&mut block, entry);
        self.facts(&mut block, entry);
        if !matches!(entry.content, NewContent::HardLink { .. }) {
            self.times(entry.described);
            self.attributes(&entry.described.attributes);
            let flags = flags::to_text(entry.described.flags.unwrap_or(0));
            if !flags.is_empty() {
                self.record(b"SCHILY.fflags", flags.as_bytes());
            }
        }
        if !self.records.is_empty() {
            self.append_records(to);
        }
        seal(&mut block);
        to.extend_from_slice(&block);
    }

    fn append_records(&self, to: &mut Vec<u8>) {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, NAME, b"././@PaxHeader");
        octal(&mut block, MODE, 0o644);
        octal(&mut block, UID, 0);
        octal(&mut block, GID, 0);
        octal(&mut block, SIZE, self.records.len() as u64);
        octal(&mut block, MODIFY_TIME, 0);
        block[TYPE] = b'x';
        put(&mut block, MAGIC, b"ustar\x0000");
        seal(&mut block);
        to.extend_from_slice(&block);
        to.extend_from_slice(&self.records);
        to.resize(to.len() + padding(self.records.len() as u64) as usize, 0);
    }

    /// Name and type.
    fn begin(&mut self, block: &mut Block, entry: &NewEntry<'_>) {
        put(block, MAGIC, b"ustar\x0000");
        block[TYPE] = match entry.content {
            NewContent::File { .. } | NewContent::Sparse { .. } => b'0',
            NewContent::HardLink { .. } => b'1',
            NewContent::Symlink { .. } => b'2',
            NewContent::CharacterDevice(_) => b'3',
            NewContent::BlockDevice(_) => b'4',
            NewContent::Directory => b'5',
            NewContent::Fifo => b'6',
        };
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        name.extend_from_slice(entry.path);
        if name.is_empty() {
            name.push(b'.');
        }
        if entry.content == NewContent::Directory {
            name.push(b'/');
        }
        if let NewContent::Sparse { .. } = entry.content {
            sparse_name(block, &name);
        } else if !ustar_name(block, &name) {
            self.record(b"path", &name);
            put(block, NAME, &name[..NAME.len()]);
        }
        self.name = name;
    }

    fn link(&mut self, block: &mut Block, entry: &NewEntry<'_>) {
        if let NewContent::HardLink { target } | NewContent::Symlink { target } = entry.content {
            if target.len() > LINK.len() {
                self.record(b"linkpath", target);
            }
            put(block, LINK, &target[..target.len().min(LINK.len())]);
        }
    }

    /// Owner, mode, size, device. What does not fit is 0 in the block, and in a record.
    fn facts(&mut self, block: &mut Block, entry: &NewEntry<'_>) {
        let facts = entry.described;
        let is_link = matches!(entry.content, NewContent::HardLink { .. });
        let size = match entry.content {
            NewContent::File { size } | NewContent::Sparse { stored: size, .. } => size,
            _ => 0,
        };
        octal(block, MODE, (facts.permissions & 0o7777).into());
        for (field, key, number, most) in [
            (SIZE, "size", size, SIZE_MAX),
            (UID, "uid", facts.uid.into(), ID_MAX),
            (GID, "gid", facts.gid.into(), ID_MAX),
        ] {
            octal(block, field, if number > most { 0 } else { number });
            if number > most && !is_link {
                self.decimal(key.as_bytes(), number);
            }
        }
        let seconds =
            u64::try_from(facts.modify_time.seconds).ok().filter(|seconds| *seconds <= SIZE_MAX);
        octal(block, MODIFY_TIME, seconds.unwrap_or(0));
        if let NewContent::CharacterDevice(device) | NewContent::BlockDevice(device) = entry.content
        {
            octal(block, MAJOR, device.major.into());
            octal(block, MINOR, device.minor.into());
        }
        if let NewContent::Sparse { size, .. } = entry.content {
            self.record(b"GNU.sparse.major", b"1");
            self.record(b"GNU.sparse.minor", b"0");
            let name = std::mem::take(&mut self.name);
            self.record(b"GNU.sparse.name", &name);
            self.name = name;
            self.decimal(b"GNU.sparse.realsize", size);
        }
    }

    fn times(&mut self, facts: &Facts) {
        let modify = facts.modify_time;
        let fits = u64::try_from(modify.seconds).is_ok_and(|seconds| seconds <= SIZE_MAX);
        if modify.nanoseconds != 0 || !fits {
            self.time(b"mtime", modify);
        }
        for (key, time) in [("atime", facts.access_time), ("ctime", facts.change_time)] {
            if let Some(time) = time.filter(|time| *time != modify) {
                self.time(key.as_bytes(), time);
            }
        }
    }

    /// Access lists both as text, which GNU tar and bsdtar restore, and as bytes, which say all
    /// that an image can hold.
    fn attributes(&mut self, attributes: &[Attribute]) {
        let mut sorted: Vec<&Attribute> = attributes.iter().collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for attribute in &sorted {
            let key: &[u8] = match attribute.name.as_slice() {
                ACCESS => b"SCHILY.acl.access",
                DEFAULT => b"SCHILY.acl.default",
                _ => continue,
            };
            let list = AccessList::from_attribute(&attribute.value);
            if let Some(list) = list.filter(|list| !list.entries.is_empty()) {
                self.record(key, access::to_text(&list).as_bytes());
            }
        }
        for attribute in &sorted {
            let mut key = b"SCHILY.xattr.".to_vec();
            for byte in &attribute.name {
                match byte {
                    b'%' => key.extend_from_slice(b"%25"),
                    b'=' => key.extend_from_slice(b"%3D"),
                    _ => key.push(*byte),
                }
            }
            self.record(&key, &attribute.value);
        }
    }

    fn decimal(&mut self, key: &[u8], number: u64) {
        self.with_value(key, |value| write!(value, "{number}"));
    }

    /// Seconds, and as many decimals as there are. Before 1970 the decimals count towards 1970, as
    /// in any number.
    fn time(&mut self, key: &[u8], time: Time) {
        self.with_value(key, |value| match time {
            Time { seconds, nanoseconds: 0 } => write!(value, "{seconds}"),
            Time { seconds, nanoseconds } if seconds >= 0 => {
                write!(value, "{seconds}.{nanoseconds:09}")
            }
            Time { seconds, nanoseconds } => {
                write!(value, "-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanoseconds)
            }
        });
    }

    fn with_value(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) {
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        // Writing to memory does not fail.
        let _ = write(&mut value);
        self.record(key, &value);
        self.value = value;
    }

    /// `LENGTH KEY=VALUE`, where the length counts its own digits.
    fn record(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + digits(rest);
        if digits(length) > digits(rest) {
            length += 1;
        }
        let _ = write!(self.records, "{length} ");
        self.records.extend_from_slice(key);
        self.records.push(b'=');
        self.records.extend_from_slice(value);
        self.records.push(b'\n');
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Overwrites the front of a field with a value that is not longer than it.
fn put(block: &mut Block, field: Range<usize>, value: &[u8]) {
    block[field.start..field.start + value.len()].copy_from_slice(value);
}

/// Octal digits from the left, as many as there is room for, and a NUL.
fn octal(block: &mut Block, field: Range<usize>, mut number: u64) {
    for byte in block[field.start..field.end - 1].iter_mut().rev() {
        *byte = b'0' + (number & 7) as u8;
        number >>= 3;
    }
}

/// The sum of all bytes, its own field taken as blanks: six digits, a NUL, a blank.
fn seal(block: &mut Block) {
    block[CHECKSUM].fill(b' ');
    let mut sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    for byte in block[CHECKSUM.start..CHECKSUM.start + 6].iter_mut().rev() {
        *byte = b'0' + (sum & 7) as u8;
        sum >>= 3;
    }
    block[CHECKSUM.start + 6] = 0;
}

/// Puts a name into its field, or its front into the prefix, if it can be cut at a slash so that
/// both fit.
fn ustar_name(block: &mut Block, name: &[u8]) -> bool {
    if name.len() <= NAME.len() {
        put(block, NAME, name);
        return true;
    }
    if name.len() > NAME.len() + PREFIX.len() + 1 {
        return false;
    }
    // The last byte of a directory is a slash, after which nothing is left.
    let from = name.len() - NAME.len() - 1;
    let to = PREFIX.len().min(name.len() - 2);
    let slash = name.get(from..=to).and_then(|middle| middle.iter().position(|byte| *byte == b'/'));
    match slash {
        Some(slash) if from + slash > 0 => {
            put(block, PREFIX, &name[..from + slash]);
            put(block, NAME, &name[from + slash + 1..]);
            true
        }
        _ => false,
    }
}

/// What a reader that knows no holes makes of it: a file beside the others.
fn sparse_name(block: &mut Block, path: &[u8]) {
    let folder = b"GNUSparseFile.0/";
    put(block, NAME, folder);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    put(block, folder.len()..NAME.len(), &name[..name.len().min(NAME.len() - folder.len())]);
}

/// Appends the map of a file of `size` bytes with holes, in GNU's form 1.0: how many pieces, then
/// offset and length of each, a decimal number a line, filled up to whole blocks. A hole at the end
/// shows in an empty piece.
///
/// `pieces` are what is not a hole: rising, none empty, none beyond the size.
pub fn append_map(pieces: &[Range<u64>], size: u64, to: &mut Vec<u8>) {
    let start = to.len();
    let ends_with_hole = pieces.last().is_none_or(|last| last.end < size);
    let _ = writeln!(to, "{}", pieces.len() + usize::from(ends_with_hole));
    for piece in pieces {
        let _ = write!(to, "{}\n{}\n", piece.start, piece.end - piece.start);
    }
    if ends_with_hole {
        let _ = write!(to, "{size}\n0\n");
    }
    to.resize(to.len() + padding((to.len() - start) as u64) as usize, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Described {
        let time = Time { seconds: 1_700_000_000, nanoseconds: 0 };
        Described::from(Facts {
            permissions: 0o644,
            uid: 1000,
            gid: 1000,
            modify_time: time,
            access_time: Some(time),
            ..Facts::default()
        })
    }

    fn made(path: &[u8], described: &Described, content: NewContent<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Headers::default().append(&NewEntry { path, described, content }, &mut bytes);
        bytes
    }

    fn records(bytes: &[u8]) -> String {
        assert_eq!(bytes[TYPE], b'x');
        let size = usize::from_str_radix(
            std::str::from_utf8(&bytes[SIZE.start..SIZE.end - 1]).unwrap(),
            8,
        )
        .unwrap();
        String::from_utf8_lossy(&bytes[BLOCK_BYTES..BLOCK_BYTES + size]).into_owned()
    }

    #[test]
    fn what_ustar_can_say_needs_one_block() {
        let bytes = made(b"a/b", &described(), NewContent::File { size: 3 });
        assert_eq!(bytes.len(), BLOCK_BYTES);
        assert_eq!(&bytes[UID], b"0001750\0");
        assert_eq!(&bytes[MODIFY_TIME], b"14524770400\0");
    }

    #[test]
    fn records_count_their_own_digits() {
        for length in [1, 80, 88, 89, 90, 91, 92, 93, 980, 990, 991, 992, 1000] {
            let mut headers = Headers::default();
            headers.record(b"path", &vec![b'x'; length]);
            let text = String::from_utf8(headers.records.clone()).unwrap();
            let number: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(number, text.len(), "{length}");
        }
    }

    #[test]
    fn long_names_are_cut_or_told_in_a_record() {
        let prefix = [&[b'p'; 120][..], b"/", &[b'n'; 100]].concat();
        let bytes = made(&prefix, &described(), NewContent::File { size: 3 });
        assert_eq!(
            (bytes.len(), bytes[PREFIX.start], bytes[NAME.end - 1]),
            (BLOCK_BYTES, b'p', b'n')
        );
        let directory = [&[b'p'; 120][..], b"/", &[b'n'; 100]].concat();
        assert_eq!(made(&directory, &described(), NewContent::Directory).len(), 3 * BLOCK_BYTES);
        let long = [b'x'; 200];
        assert_eq!(
            records(&made(&long, &described(), NewContent::File { size: 3 })),
            format!("210 path={}\n", "x".repeat(200))
        );
    }

    #[test]
    fn times_and_ids_beyond_the_fields() {
        let mut facts = described();
        facts.uid = 0o1000_0000;
        facts.modify_time = Time { seconds: -2, nanoseconds: 750_000_000 };
        facts.access_time = Some(facts.modify_time);
        facts.change_time = Some(Time { seconds: 5, nanoseconds: 1 });
        let records = records(&made(b"a", &facts, NewContent::File { size: SIZE_MAX + 1 }));
        assert_eq!(
            records,
            "19 size=8589934592\n15 uid=2097152\n22 mtime=-1.250000000\n21 ctime=5.000000001\n"
        );
    }

    #[test]
    fn a_map_fills_whole_blocks() {
        let mut bytes = Vec::new();
        append_map(&[0..4096, 8192..8193], 8193, &mut bytes);
        assert!(bytes.starts_with(b"2\n0\n4096\n8192\n1\n\0") && bytes.len() == BLOCK_BYTES);
        bytes.clear();
        append_map(&[], 1 << 40, &mut bytes);
        assert!(bytes.starts_with(b"1\n1099511627776\n0\n\0"));
    }
}
