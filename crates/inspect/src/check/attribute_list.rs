//! One list of extended attributes, in an inode's tail or in a block, as bytes.
//!
//! ```text
//! | entry | entry | ... | 0 |      ... | value | value |
//! entry  | name length | prefix | value offset: 2 | value's inode: 4 | value size: 4 | hash: 4 | name ... | to 4
//! ```
//!
//! Entries, the end mark and values may lie in any order, but no two over each other. Hashes cover
//! the name, byte by byte, and the value in words of 32 bits; names were hashed with signed
//! characters on some machines, so either is right.
use super::words::{u16_at, u32_at};

/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// Bytes that end the entries.
const END: usize = 4;

/// The prefix code of "system.".
pub(crate) const SYSTEM: u8 = 7;
/// The prefix code and the name of an encryption context.
pub(crate) const ENCRYPTION: (u8, &[u8]) = (9, b"c");

/// One entry whose bytes lie within the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) prefix: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: Value<'a>,
    /// Where the value begins, if it lies in the list and is not empty.
    pub(crate) offset: usize,
    pub(crate) hash: u32,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    /// In the list.
    Here(&'a [u8]),
    /// In an inode of its own, with so many bytes.
    Elsewhere { ino: u32, bytes: u32 },
}

/// Why a list is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Two of its parts lie over each other, or one past the end.
    Overlap,
    /// A value is longer than the list, with so many bytes.
    ValueTooLong(u32),
}

/// Visits the entries from byte `start` of `region` on; offsets of values count from the region's
/// start. What overlaps is found after all entries were visited, or as soon as their values are
/// more than the region could hold: who visits them may hash each value, and the work is bounded by
/// the region.
pub(crate) fn walk<'a>(
    region: &'a [u8],
    start: usize,
    visit: &mut dyn FnMut(Entry<'a>),
) -> Result<(), Fault> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut value_bytes) = (start, 0_usize);
    while region.len().saturating_sub(at) >= ENTRY && u32_at(region, at) != 0 {
        let rest = region.get(at..).unwrap_or_default();
        let name_length = usize::from(rest.first().copied().unwrap_or(0));
        let name = rest.get(ENTRY..).and_then(|rest| rest.get(..name_length));
        let name = name.ok_or(Fault::Overlap)?;
        let value = value(region, rest, &mut parts)?;
        if let Value::Here(bytes) = value {
            value_bytes = value_bytes.saturating_add(bytes.len());
        }
        if value_bytes > region.len() {
            return Err(Fault::Overlap);
        }
        visit(Entry {
            prefix: rest.get(1).copied().unwrap_or(0),
            name,
            value,
            offset: usize::from(u16_at(rest, 2)),
            hash: u32_at(rest, 12),
        });
        at = at.saturating_add(ENTRY).saturating_add(name_length.next_multiple_of(4));
    }
    parts.push((start, at.saturating_add(END)));
    parts.sort_unstable();
    let overlaps = parts.windows(2).any(|pair| matches!(pair, [before, next] if next.0 < before.1));
    let last = parts.iter().map(|part| part.1).max().unwrap_or(0);
    if overlaps || last > region.len() {
        return Err(Fault::Overlap);
    }
    Ok(())
}

/// The value of the entry at the start of `rest`; notes the bytes that it takes.
fn value<'a>(
    region: &'a [u8],
    rest: &[u8],
    parts: &mut Vec<(usize, usize)>,
) -> Result<Value<'a>, Fault> {
    let (ino, size) = (u32_at(rest, 4), u32_at(rest, 8));
    if ino != 0 {
        return Ok(Value::Elsewhere { ino, bytes: size });
    }
    let length = size as usize;
    if length > region.len() {
        return Err(Fault::ValueTooLong(size));
    }
    if length == 0 {
        return Ok(Value::Here(&[]));
    }
    let offset = usize::from(u16_at(rest, 2));
    let end = offset.saturating_add(length.next_multiple_of(4));
    parts.push((offset, end));
    let value = region.get(offset..).and_then(|rest| rest.get(..length));
    value.map(Value::Here).ok_or(Fault::Overlap)
}

/// Whether the stored hash is that of the name and the value.
pub(crate) fn is_hash(entry: &Entry<'_>, value: &[u8]) -> bool {
    [false, true].into_iter().any(|signed| {
        let words = value.chunks(4).map(|chunk| u32_at(&padded(chunk), 0));
        over_words(over_name(entry.name, signed), words) == entry.hash
    })
}

/// Whether the stored hash is that of the name and of a value in an inode of its own, which counts
/// as one word.
pub(crate) fn is_hash_of_inode(entry: &Entry<'_>, value_hash: u32) -> bool {
    [false, true].into_iter().any(|signed| {
        over_words(over_name(entry.name, signed), [value_hash].into_iter()) == entry.hash
    })
}

fn padded(chunk: &[u8]) -> [u8; 4] {
    let mut word = [0; 4];
    word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
    word
}

fn over_name(name: &[u8], signed: bool) -> u32 {
    name.iter().fold(0_u32, |hash, &byte| {
        let character =
            if signed { i32::from(byte.cast_signed()).cast_unsigned() } else { u32::from(byte) };
        hash.rotate_left(5) ^ character
    })
}

fn over_words(hash: u32, words: impl Iterator<Item = u32>) -> u32 {
    words.fold(hash, |hash, word| hash.rotate_left(16) ^ word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of entries as `walk` reads it: name, offset and size of the value.
    fn list(length: usize, entries: &[(&[u8], u16, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, offset, size) in entries {
            bytes.extend([name.len() as u8, 1]);
            bytes.extend(offset.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(size.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(*name);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.resize(length, 0);
        bytes
    }

    fn walked(region: &[u8]) -> (usize, Result<(), Fault>) {
        let mut count = 0;
        let result = walk(region, 0, &mut |_| count += 1);
        (count, result)
    }

    #[test]
    fn parts_may_not_lie_over_each_other() {
        assert_eq!(walked(&[0; 8]), (0, Ok(())));
        assert_eq!(walked(&list(64, &[(b"one", 60, 4)])), (1, Ok(())));
        // The second value reaches into the first; a value lies over the entries; one over the end
        // mark.
        let two = list(96, &[(b"one", 88, 8), (b"two", 84, 5)]);
        assert_eq!(walked(&two), (2, Err(Fault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 4, 4)])), (1, Err(Fault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 20, 4)])), (1, Err(Fault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 24, 4)])), (1, Ok(())));
        // Past the end.
        assert_eq!(walked(&list(64, &[(b"one", 62, 4)])), (0, Err(Fault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 0, 65)])), (0, Err(Fault::ValueTooLong(65))));
        // A name that reaches past the end, and entries without room for their end.
        let mut long = list(32, &[(b"name", 0, 0)]);
        long[0] = 200;
        assert_eq!(walked(&long), (0, Err(Fault::Overlap)));
        assert_eq!(walked(&list(20, &[(b"name", 0, 0)])), (1, Err(Fault::Overlap)));
    }

    #[test]
    fn values_over_each_other_are_not_all_visited() {
        let whole: &[(&[u8], u16, u32)] = &[(&b""[..], 0, 65536); 4092];
        assert_eq!(walked(&list(65536, whole)), (1, Err(Fault::Overlap)));
        let half: &[(&[u8], u16, u32)] = &[(&b""[..], 0, 32768); 2000];
        assert_eq!(walked(&list(65536, half)), (2, Err(Fault::Overlap)));
    }

    #[test]
    fn hashes_know_both_kinds_of_characters() {
        let entry = |hash| Entry {
            prefix: 1,
            name: b"\xe9",
            value: Value::Here(b"value"),
            offset: 0,
            hash,
        };
        let unsigned = over_words(0xe9, [0x756c_6176, 0x65].into_iter());
        let signed = over_words(0xffff_ffe9, [0x756c_6176, 0x65].into_iter());
        assert_ne!(unsigned, signed);
        for hash in [unsigned, signed] {
            assert!(is_hash(&entry(hash), b"value"));
        }
        assert!(!is_hash(&entry(unsigned), b"valuf"));
        assert!(!is_hash(&entry(0), b"value"));
    }
}
