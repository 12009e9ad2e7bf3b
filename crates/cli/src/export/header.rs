//! Headers of an archive: 512 bytes of ustar, and an extended header in front where these cannot
//! say it all.
//!
//! ```text
//! name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type 1 | link 100
//! "ustar" NUL "00" | user 32 | group 32 | major 8 | minor 8 | prefix 155 | 12 unused
//! ```
//! An extended header is a file of type `x` whose body is lines `LENGTH KEY=VALUE`. Its own name
//! means nothing. Names that are not UTF-8 stand in lines as they are, as GNU tar has them, which
//! does not know the keyword that pax has for this.
use super::access;
use extant_engine::survey::Facts;
use extant_format::attribute::Attribute;
use extant_format::inode::{FileType, Time};
use std::io::Write;
use std::ops::Range;

/// Everything in an archive comes in blocks of this size.
pub(super) const BLOCK: usize = 512;

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
const PREFIX: Range<usize> = 345..500;

/// Largest numbers that fit: a digit less than bytes, because a NUL ends them.
const ID_MAX: u64 = 0o777_7777;
const SIZE_MAX: u64 = 0o777_7777_7777;

/// What an entry is, beyond what its inode says.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// A file whose body follows as it is.
    File {
        size: u64,
    },
    /// A file with holes: a map and what is not a hole follow.
    Sparse {
        size: u64,
        stored: u64,
    },
    /// Another name for what stands under this one already.
    Link {
        target: &'a [u8],
    },
    Symlink {
        target: &'a [u8],
    },
    Directory,
    /// A device or fifo.
    Special,
}

/// An entry.
pub(super) struct Entry<'a> {
    /// Without a leading slash; the root's is empty.
    pub(super) path: &'a [u8],
    pub(super) facts: &'a Facts,
    pub(super) kind: Kind<'a>,
    pub(super) attributes: &'a [Attribute],
}

/// Memory for extended headers, used again and again.
#[derive(Default)]
pub(super) struct Headers {
    lines: Vec<u8>,
    value: Vec<u8>,
    name: Vec<u8>,
}

impl Headers {
    /// Appends the header of an entry, and an extended one in front if it needs one.
    pub(super) fn append(&mut self, entry: &Entry<'_>, to: &mut Vec<u8>) {
        self.lines.clear();
        let mut block = [0; BLOCK];
        self.begin(&mut block, entry);
        self.link(&mut block, entry);
        self.facts(&mut block, entry);
        if !matches!(entry.kind, Kind::Link { .. }) {
            self.times(entry.facts);
            self.attributes(entry.attributes);
        }
        if !self.lines.is_empty() {
            self.append_lines(to);
        }
        seal(&mut block);
        to.extend_from_slice(&block);
    }

    fn append_lines(&self, to: &mut Vec<u8>) {
        let mut block = [0; BLOCK];
        put(&mut block, NAME, b"././@PaxHeader");
        octal(&mut block, MODE, 0o644);
        octal(&mut block, UID, 0);
        octal(&mut block, GID, 0);
        octal(&mut block, SIZE, self.lines.len() as u64);
        octal(&mut block, MTIME, 0);
        block[KIND] = b'x';
        put(&mut block, MAGIC, b"ustar\x0000");
        seal(&mut block);
        to.extend_from_slice(&block);
        to.extend_from_slice(&self.lines);
        to.resize(to.len() + padding(self.lines.len() as u64), 0);
    }

    /// Name and type.
    fn begin(&mut self, block: &mut [u8; BLOCK], entry: &Entry<'_>) {
        put(block, MAGIC, b"ustar\x0000");
        block[KIND] = match entry.kind {
            Kind::File { .. } | Kind::Sparse { .. } => b'0',
            Kind::Link { .. } => b'1',
            Kind::Symlink { .. } => b'2',
            Kind::Directory => b'5',
            Kind::Special => match entry.facts.file_type {
                FileType::CharacterDevice => b'3',
                FileType::BlockDevice => b'4',
                _ => b'6',
            },
        };
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        name.extend_from_slice(entry.path);
        if name.is_empty() {
            name.push(b'.');
        }
        if matches!(entry.kind, Kind::Directory) {
            name.push(b'/');
        }
        if let Kind::Sparse { .. } = entry.kind {
            sparse_name(block, &name);
        } else if !ustar_name(block, &name) {
            self.line(b"path", &name);
            put(block, NAME, &name[..NAME.len()]);
        }
        self.name = name;
    }

    fn link(&mut self, block: &mut [u8; BLOCK], entry: &Entry<'_>) {
        if let Kind::Link { target } | Kind::Symlink { target } = entry.kind {
            if target.len() > LINK.len() {
                self.line(b"linkpath", target);
            }
            put(block, LINK, &target[..target.len().min(LINK.len())]);
        }
    }

    /// Owner, mode, size, device. What does not fit is 0 in the block, and in a line.
    fn facts(&mut self, block: &mut [u8; BLOCK], entry: &Entry<'_>) {
        let facts = entry.facts;
        let (size, is_link) = match entry.kind {
            Kind::File { size } | Kind::Sparse { stored: size, .. } => (size, false),
            Kind::Link { .. } => (0, true),
            _ => (0, false),
        };
        octal(block, MODE, facts.permissions.into());
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
        octal(block, MTIME, seconds.unwrap_or(0));
        if matches!(facts.file_type, FileType::CharacterDevice | FileType::BlockDevice) {
            octal(block, MAJOR, facts.device.major.into());
            octal(block, MINOR, facts.device.minor.into());
        }
        if let Kind::Sparse { size, .. } = entry.kind {
            self.line(b"GNU.sparse.major", b"1");
            self.line(b"GNU.sparse.minor", b"0");
            let name = std::mem::take(&mut self.name);
            self.line(b"GNU.sparse.name", &name);
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
        if facts.access_time != modify {
            self.time(b"atime", facts.access_time);
        }
        if facts.change_time != modify {
            self.time(b"ctime", facts.change_time);
        }
    }

    /// Access lists both as text, which GNU tar and bsdtar restore, and as bytes, which say all
    /// that an image can hold.
    fn attributes(&mut self, attributes: &[Attribute]) {
        let mut sorted: Vec<&Attribute> = attributes.iter().collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for attribute in &sorted {
            let key: &[u8] = match attribute.name.as_slice() {
                b"system.posix_acl_access" => b"SCHILY.acl.access",
                b"system.posix_acl_default" => b"SCHILY.acl.default",
                _ => continue,
            };
            if let Some(text) = access::to_text(&attribute.value) {
                self.line(key, text.as_bytes());
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
            self.line(&key, &attribute.value);
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
        self.line(key, &value);
        self.value = value;
    }

    /// `LENGTH KEY=VALUE`, where the length counts its own digits.
    fn line(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + digits(rest);
        if digits(length) > digits(rest) {
            length += 1;
        }
        let _ = write!(self.lines, "{length} ");
        self.lines.extend_from_slice(key);
        self.lines.push(b'=');
        self.lines.extend_from_slice(value);
        self.lines.push(b'\n');
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Bytes that fill the last block.
pub(super) fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn put(block: &mut [u8; BLOCK], field: Range<usize>, value: &[u8]) {
    block[field.start..field.start + value.len()].copy_from_slice(value);
}

/// Octal digits from the left, as many as there is room for, and a NUL.
fn octal(block: &mut [u8; BLOCK], field: Range<usize>, mut number: u64) {
    for byte in block[field.start..field.end - 1].iter_mut().rev() {
        *byte = b'0' + (number & 7) as u8;
        number >>= 3;
    }
}

/// The sum of all bytes, its own field taken as blanks: six digits, a NUL, a blank.
fn seal(block: &mut [u8; BLOCK]) {
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
fn ustar_name(block: &mut [u8; BLOCK], name: &[u8]) -> bool {
    if name.len() <= NAME.len() {
        put(block, NAME, name);
        return true;
    }
    if name.len() > NAME.len() + PREFIX.len() + 1 {
        return false;
    }
    // The last byte of a directory is a slash, behind which nothing is left.
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
fn sparse_name(block: &mut [u8; BLOCK], path: &[u8]) {
    let folder = b"GNUSparseFile.0/";
    put(block, NAME, folder);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    put(block, folder.len()..NAME.len(), &name[..name.len().min(NAME.len() - folder.len())]);
}

/// The map of a file with holes, form 1.0: how many pieces, then offset and length of each, a
/// decimal number a line, filled up to whole blocks. A hole at the end shows in an empty piece.
pub(super) fn append_map(pieces: &[Range<u64>], size: u64, to: &mut Vec<u8>) {
    let start = to.len();
    let ends_with_hole = pieces.last().is_none_or(|last| last.end < size);
    let _ = writeln!(to, "{}", pieces.len() + usize::from(ends_with_hole));
    for piece in pieces {
        let _ = write!(to, "{}\n{}\n", piece.start, piece.end - piece.start);
    }
    if ends_with_hole {
        let _ = write!(to, "{size}\n0\n");
    }
    to.resize(to.len() + padding((to.len() - start) as u64), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let time = Time { seconds: 1_700_000_000, nanoseconds: 0 };
        Facts {
            file_type: FileType::Regular,
            permissions: 0o644,
            uid: 1000,
            gid: 1000,
            size: 3,
            access_time: time,
            change_time: time,
            modify_time: time,
            device: Default::default(),
        }
    }

    fn made(path: &[u8], facts: &Facts, kind: Kind<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Headers::default().append(&Entry { path, facts, kind, attributes: &[] }, &mut bytes);
        bytes
    }

    fn lines(bytes: &[u8]) -> String {
        assert_eq!(bytes[KIND], b'x');
        let size = usize::from_str_radix(
            std::str::from_utf8(&bytes[SIZE.start..SIZE.end - 1]).unwrap(),
            8,
        )
        .unwrap();
        String::from_utf8_lossy(&bytes[BLOCK..BLOCK + size]).into_owned()
    }

    #[test]
    fn what_ustar_can_say_needs_one_block() {
        let bytes = made(b"a/b", &facts(), Kind::File { size: 3 });
        assert_eq!(bytes.len(), BLOCK);
        assert_eq!(&bytes[UID], b"0001750\0");
        assert_eq!(&bytes[MTIME], b"14524770400\0");
    }

    #[test]
    fn lines_count_their_own_digits() {
        for length in [1, 80, 88, 89, 90, 91, 92, 93, 980, 990, 991, 992, 1000] {
            let mut headers = Headers::default();
            headers.line(b"path", &vec![b'x'; length]);
            let text = String::from_utf8(headers.lines.clone()).unwrap();
            let number: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(number, text.len(), "{length}");
        }
    }

    #[test]
    fn long_names_are_cut_or_told_in_a_line() {
        let prefix = [&[b'p'; 120][..], b"/", &[b'n'; 100]].concat();
        let bytes = made(&prefix, &facts(), Kind::File { size: 3 });
        assert_eq!((bytes.len(), bytes[PREFIX.start], bytes[NAME.end - 1]), (BLOCK, b'p', b'n'));
        let directory = [&[b'p'; 120][..], b"/", &[b'n'; 100]].concat();
        assert_eq!(made(&directory, &facts(), Kind::Directory).len(), 3 * BLOCK);
        let long = [b'x'; 200];
        assert_eq!(
            lines(&made(&long, &facts(), Kind::File { size: 3 })),
            format!("210 path={}\n", "x".repeat(200))
        );
    }

    #[test]
    fn times_and_ids_beyond_the_fields() {
        let mut facts = facts();
        facts.uid = 0o1000_0000;
        facts.modify_time = Time { seconds: -2, nanoseconds: 750_000_000 };
        facts.access_time = facts.modify_time;
        facts.change_time = Time { seconds: 5, nanoseconds: 1 };
        let lines = lines(&made(b"a", &facts, Kind::File { size: SIZE_MAX + 1 }));
        assert_eq!(
            lines,
            "19 size=8589934592\n15 uid=2097152\n22 mtime=-1.250000000\n21 ctime=5.000000001\n"
        );
    }

    #[test]
    fn a_map_fills_whole_blocks() {
        let mut bytes = Vec::new();
        append_map(&[0..4096, 8192..8193], 8193, &mut bytes);
        assert!(bytes.starts_with(b"2\n0\n4096\n8192\n1\n\0") && bytes.len() == BLOCK);
        bytes.clear();
        append_map(&[], 1 << 40, &mut bytes);
        assert!(bytes.starts_with(b"1\n1099511627776\n0\n\0"));
    }
}
