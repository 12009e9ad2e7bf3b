//! One header of an archive, in any of the four dialects; see `block` for the fields.
use super::pieces::Pieces;
use crate::block::{self, BLOCK_BYTES, Block};
use crate::error::Corruption;
use std::ops::Range;

/// A header whose checksum is right.
pub(super) struct Header<'a> {
    bytes: &'a Block,
    dialect: Dialect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    V7,
    Ustar,
    Star,
    Gnu,
}

/// What the header of a file with holes says in GNU's oldest form.
pub(super) struct OldSparse {
    /// The first pieces.
    pub(super) pieces: Pieces,
    /// Whether a block with more of them follows.
    pub(super) more: More,
    /// Bytes of the file.
    pub(super) size: u64,
}

/// Whether a map goes on in another block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Follows,
    End,
}

impl More {
    fn of(byte: u8) -> More {
        if byte == 0 { More::End } else { More::Follows }
    }
}

impl<'a> Header<'a> {
    /// `None` when the checksum is not that of the bytes.
    pub(super) fn parse(bytes: &'a Block) -> Option<Header<'a>> {
        let stored = number(&bytes[block::CHECKSUM])?;
        let sum = |value: fn(u8) -> i64| {
            let all: i64 = bytes.iter().map(|byte| value(*byte)).sum();
            let own: i64 = bytes[block::CHECKSUM].iter().map(|byte| value(*byte)).sum();
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
    pub(super) fn type_letter(&self) -> u8 {
        self.bytes[block::TYPE]
    }
    /// Writes the name, with its prefix, over `name`.
    pub(super) fn name(&self, name: &mut Vec<u8>) {
        name.clear();
        let prefix = match self.dialect {
            Dialect::Ustar => text(&self.bytes[block::PREFIX]),
            Dialect::Star => text(&self.bytes[345..476]),
            Dialect::V7 | Dialect::Gnu => &[],
        };
        if !prefix.is_empty() {
            name.extend_from_slice(prefix);
            name.push(b'/');
        }
        name.extend_from_slice(text(&self.bytes[block::NAME]));
    }
    pub(super) fn link(&self) -> &'a [u8] {
        text(&self.bytes[block::LINK])
    }
    pub(super) fn mode(&self) -> Result<u16, Corruption> {
        Ok((self.field(block::MODE, "mode")? & 0o7777) as u16)
    }
    pub(super) fn uid(&self) -> Result<u32, Corruption> {
        self.small(block::UID, "user id")
    }
    pub(super) fn gid(&self) -> Result<u32, Corruption> {
        self.small(block::GID, "group id")
    }
    pub(super) fn size(&self) -> Result<u64, Corruption> {
        let size = self.field(block::SIZE, "size")?;
        u64::try_from(size).map_err(|_| Corruption::Field("size"))
    }
    /// Seconds since 1970.
    pub(super) fn modify_time(&self) -> Result<i64, Corruption> {
        self.field(block::MODIFY_TIME, "time")
    }
    /// Access and change time in seconds since 1970, where the dialect has room for them and they
    /// are there. What is no number is something else that its writer put there.
    pub(super) fn other_times(&self) -> [Option<i64>; 2] {
        let fields = match self.dialect {
            Dialect::Star => [476..488, 488..500],
            Dialect::Gnu => [345..357, 357..369],
            Dialect::V7 | Dialect::Ustar => return [None; 2],
        };
        fields.map(|field| number(&self.bytes[field]).filter(|seconds| *seconds != 0))
    }
    /// Major and minor number; v7 has none.
    pub(super) fn device(&self) -> Result<(u32, u32), Corruption> {
        match self.dialect {
            Dialect::V7 => Ok((0, 0)),
            _ => Ok((
                self.small(block::MAJOR, "major device number")?,
                self.small(block::MINOR, "minor device number")?,
            )),
        }
    }
    /// The map of a file with holes in GNU's oldest form, as far as the header holds it.
    pub(super) fn old_sparse(&self) -> Result<OldSparse, Corruption> {
        let mut pieces = Pieces::default();
        append_pieces(&self.bytes[386..482], &mut pieces)?;
        let size = self.field(483..495, "real size")?;
        let size = u64::try_from(size).map_err(|_| Corruption::Field("real size"))?;
        Ok(OldSparse { pieces, more: More::of(self.bytes[482]), size })
    }

    fn field(&self, range: Range<usize>, field: &'static str) -> Result<i64, Corruption> {
        number(&self.bytes[range]).ok_or(Corruption::Field(field))
    }
    fn small(&self, range: Range<usize>, field: &'static str) -> Result<u32, Corruption> {
        u32::try_from(self.field(range, field)?).map_err(|_| Corruption::Field(field))
    }
}

/// Appends the pieces of a block that continues an old map.
pub(super) fn append_continuation(
    block: &[u8; BLOCK_BYTES],
    pieces: &mut Pieces,
) -> Result<More, Corruption> {
    append_pieces(&block[..504], pieces)?;
    Ok(More::of(block[504]))
}

fn append_pieces(bytes: &[u8], pieces: &mut Pieces) -> Result<(), Corruption> {
    for pair in bytes.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        let value = |bytes| {
            let value = number(bytes).and_then(|value| u64::try_from(value).ok());
            value.ok_or(Corruption::Field("map of holes"))
        };
        let piece = (value(&pair[..12])?, value(&pair[12..])?);
        pieces.push(piece).map_err(Corruption::Map)?;
    }
    Ok(())
}

/// Text up to the first NUL.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits between blanks and NULs, or GNU's base 256: a first byte of 0x80 and a big-endian
/// number, negative with 0xff. `None` for anything else, and for more than 64 bits.
fn number(field: &[u8]) -> Option<i64> {
    if let Some(0x80..) = field.first() {
        return base_256(field);
    }
    let start = field.iter().position(|byte| *byte != b' ').unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(|byte| matches!(byte, b' ' | 0)).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + i64::from(digit - b'0')),
        _ => None,
    })
}

fn base_256(field: &[u8]) -> Option<i64> {
    let is_negative = field[0] & 0x40 != 0;
    let first = if is_negative { i128::from(field[0]) - 256 } else { i128::from(field[0] & 0x7f) };
    // 12 bytes at most: 96 bits.
    let value = field[1..].iter().fold(first, |value, byte| value * 256 + i128::from(*byte));
    i64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_their_forms() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"77777777777"), Some(0o77_777_777_777));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 1, 0, 0]), Some(65536));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(&[0x80, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(number(b"12x"), None);
        assert_eq!(number(b"-1"), None);
    }
}
