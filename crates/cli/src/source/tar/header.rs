//! One header of a tar archive: 512 bytes, in any of the four dialects.
//!
//! ```text
//! v7      name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type 1 | link 100
//! ustar   ... | "ustar" NUL "00" | user 32 | group 32 | major 8 | minor 8 | prefix 155
//! star    ... | prefix 131 | atime 12 | ctime 12 | ... "tar" NUL
//! gnu     ... | "ustar  " NUL | ... | sparse map at 386: 4 of (offset 12, length 12) | more? | real size 12
//! ```
pub(super) const BLOCK: usize = 512;

/// A header whose checksum is right.
pub(super) struct Header<'a> {
    bytes: &'a [u8; BLOCK],
    dialect: Dialect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    V7,
    Ustar,
    Star,
    Gnu,
}

impl<'a> Header<'a> {
    /// `None` when the checksum is not that of the bytes.
    pub(super) fn parse(bytes: &'a [u8; BLOCK]) -> Option<Header<'a>> {
        let stored = number(&bytes[148..156]).ok()?;
        let sum = |add: fn(u8) -> i64| {
            let all: i64 = bytes.iter().map(|byte| add(*byte)).sum();
            let own: i64 = bytes[148..156].iter().map(|byte| add(*byte)).sum();
            all - own + 8 * i64::from(b' ')
        };
        // Some old writers summed signed characters.
        if stored != sum(i64::from) && stored != sum(|byte| i64::from(byte.cast_signed())) {
            return None;
        }
        let dialect = match (&bytes[257..263], &bytes[508..512]) {
            (b"ustar\0", b"tar\0") => Dialect::Star,
            (b"ustar\0", _) => Dialect::Ustar,
            (b"ustar ", _) => Dialect::Gnu,
            _ => Dialect::V7,
        };
        Some(Header { bytes, dialect })
    }

    /// The type letter; NUL is a file of the oldest dialect.
    pub(super) fn kind(&self) -> u8 {
        self.bytes[156]
    }
    /// Writes the name, with its prefix.
    pub(super) fn name(&self, name: &mut Vec<u8>) {
        name.clear();
        let prefix = match self.dialect {
            Dialect::Ustar => text(&self.bytes[345..500]),
            Dialect::Star => text(&self.bytes[345..476]),
            Dialect::V7 | Dialect::Gnu => &[],
        };
        if !prefix.is_empty() {
            name.extend_from_slice(prefix);
            name.push(b'/');
        }
        name.extend_from_slice(text(&self.bytes[..100]));
    }
    pub(super) fn link(&self) -> &'a [u8] {
        text(&self.bytes[157..257])
    }
    pub(super) fn mode(&self) -> Result<u16, Wrong> {
        Ok((self.field(100..108, "mode")? & 0o7777) as u16)
    }
    pub(super) fn uid(&self) -> Result<u32, Wrong> {
        self.small(108..116, "user id")
    }
    pub(super) fn gid(&self) -> Result<u32, Wrong> {
        self.small(116..124, "group id")
    }
    pub(super) fn size(&self) -> Result<u64, Wrong> {
        let size = self.field(124..136, "size")?;
        u64::try_from(size).map_err(|_| Wrong { field: "size" })
    }
    pub(super) fn mtime(&self) -> Result<i64, Wrong> {
        self.field(136..148, "time")
    }
    /// Access and change time, where the dialect has room for them and they are there. What is no
    /// number is something else that its writer put there.
    pub(super) fn other_times(&self) -> [Option<i64>; 2] {
        let fields = match self.dialect {
            Dialect::Star => [476..488, 488..500],
            Dialect::Gnu => [345..357, 357..369],
            Dialect::V7 | Dialect::Ustar => return [None; 2],
        };
        fields.map(|field| number(&self.bytes[field]).ok().filter(|seconds| *seconds != 0))
    }
    /// Major and minor number; v7 has none.
    pub(super) fn device(&self) -> Result<(u32, u32), Wrong> {
        match self.dialect {
            Dialect::V7 => Ok((0, 0)),
            _ => Ok((
                self.small(329..337, "major device number")?,
                self.small(337..345, "minor device number")?,
            )),
        }
    }
    /// Of a file with holes in GNU's old form: the first pieces, whether more follow, and the real
    /// size.
    pub(super) fn old_sparse(&self) -> Result<OldSparse, Wrong> {
        let mut pieces = Vec::new();
        sparse_pieces(&self.bytes[386..482], &mut pieces)?;
        let size = self.field(483..495, "real size")?;
        let size = u64::try_from(size).map_err(|_| Wrong { field: "real size" })?;
        Ok(OldSparse { pieces, continues: self.bytes[482] != 0, size })
    }

    fn field(&self, range: std::ops::Range<usize>, field: &'static str) -> Result<i64, Wrong> {
        number(&self.bytes[range]).map_err(|()| Wrong { field })
    }
    fn small(&self, range: std::ops::Range<usize>, field: &'static str) -> Result<u32, Wrong> {
        u32::try_from(self.field(range, field)?).map_err(|_| Wrong { field })
    }
}

/// A field whose value is impossible.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) field: &'static str,
}

pub(super) struct OldSparse {
    pub(super) pieces: Vec<(u64, u64)>,
    pub(super) continues: bool,
    pub(super) size: u64,
}

/// A block that continues an old sparse map; whether another one follows.
pub(super) fn sparse_extension(
    block: &[u8; BLOCK],
    pieces: &mut Vec<(u64, u64)>,
) -> Result<bool, Wrong> {
    sparse_pieces(&block[..504], pieces)?;
    Ok(block[504] != 0)
}

fn sparse_pieces(bytes: &[u8], pieces: &mut Vec<(u64, u64)>) -> Result<(), Wrong> {
    let wrong = |_| Wrong { field: "map of holes" };
    for pair in bytes.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        let value = |bytes| {
            number(bytes).and_then(|value| u64::try_from(value).map_err(|_| ())).map_err(wrong)
        };
        pieces.push((value(&pair[..12])?, value(&pair[12..])?));
    }
    Ok(())
}

/// Text up to the first NUL.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits between blanks and NULs, or GNU's base 256: a first byte of 0x80 and a big-endian
/// number, negative with 0xff.
fn number(field: &[u8]) -> Result<i64, ()> {
    if let Some(0x80..) = field.first() {
        return base256(field);
    }
    let start = field.iter().position(|byte| *byte != b' ').unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(|byte| matches!(byte, b' ' | 0)).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + i64::from(digit - b'0')).ok_or(()),
        _ => Err(()),
    })
}

fn base256(field: &[u8]) -> Result<i64, ()> {
    let negative = field[0] & 0x40 != 0;
    let first = if negative { i128::from(field[0]) - 256 } else { i128::from(field[0] & 0x7f) };
    // 12 bytes at most: 96 bits.
    let value = field[1..].iter().fold(first, |value, byte| value * 256 + i128::from(*byte));
    i64::try_from(value).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_their_forms() {
        assert_eq!(number(b"0000644\0"), Ok(0o644));
        assert_eq!(number(b"   644 \0"), Ok(0o644));
        assert_eq!(number(b"\0\0\0\0"), Ok(0));
        assert_eq!(number(b"77777777777"), Ok(0o77_777_777_777));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 1, 0, 0]), Ok(65536));
        assert_eq!(number(&[0xff; 12]), Ok(-1));
        assert_eq!(number(&[0x80, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(()));
        assert_eq!(number(b"12x"), Err(()));
        assert_eq!(number(b"-1"), Err(()));
    }
}
