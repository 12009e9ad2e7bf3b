//! One list of attributes as it is stored, in an inode's tail or in a block: entries may overlap,
//! pass the end, or have any hash.
//!
//! Entries, the end mark and values may be in any order, but no two may overlap. Hashes cover the
//! name, byte by byte, and the value in words of 32 bits.
use super::{END, ENTRY, MAGIC, RawEntry, RawHeader, checksum};
use crate::stored::{byte_at, u16_at, u32_at};
use crate::superblock::Superblock;
use crate::{BlockNo, Ino};
use std::mem::offset_of;

/// The header of an attribute block as it is stored.
#[derive(Clone, Copy)]
pub struct StoredBlock<'a>(&'a [u8]);

impl<'a> StoredBlock<'a> {
    /// Of the bytes of a block.
    pub fn new(bytes: &'a [u8]) -> StoredBlock<'a> {
        StoredBlock(bytes)
    }

    /// [`MAGIC`] in a block of attributes.
    pub fn magic(self) -> u32 {
        u32_at(self.0, offset_of!(RawHeader, magic))
    }

    /// How many inodes it says share it.
    pub fn references(self) -> u32 {
        u32_at(self.0, offset_of!(RawHeader, reference_count))
    }

    /// How many blocks it says it has: 1.
    pub fn blocks(self) -> u32 {
        u32_at(self.0, offset_of!(RawHeader, blocks))
    }

    /// The stored checksum, which counts with metadata_csum only.
    pub fn checksum(self) -> u32 {
        u32_at(self.0, offset_of!(RawHeader, checksum))
    }

    /// The checksum of its bytes at this place.
    pub fn computed_checksum(self, block: BlockNo, superblock: &Superblock) -> u32 {
        checksum(self.0, block, superblock)
    }
}

/// The list in an inode's tail, from its first entry on; `None` without the magic number.
pub fn list_in_tail(tail: &[u8]) -> Option<&[u8]> {
    let (magic, list) = tail.split_first_chunk()?;
    (u32::from_le_bytes(*magic) == MAGIC).then_some(list)
}

/// One entry whose name and value are within the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredEntry<'a> {
    /// The code of the prefix.
    pub prefix: u8,
    /// The name without the prefix.
    pub name: &'a [u8],
    /// The value, or where it is.
    pub value: StoredValue<'a>,
    /// Where the value begins, if it is in the list and not empty.
    pub offset: usize,
    /// The stored hash of name and value.
    pub hash: u32,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredValue<'a> {
    /// In the list.
    Here(&'a [u8]),
    /// In an inode of its own.
    Elsewhere {
        /// That inode.
        ino: Ino,
        /// Bytes of the value.
        bytes: u32,
    },
}

/// Why bytes are no list of attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListFault {
    /// Two of its parts overlap, or one passes the end.
    Overlap,
    /// A value is longer than the list. In bytes.
    ValueTooLong(u32),
}

/// Visits the entries from byte `start` of `region` on; offsets of values count from the region's
/// start. Overlaps are found after all entries were visited, or as soon as their values are more
/// than the region could hold: a visitor may hash each value, and its work is bounded by the
/// region.
///
/// # Errors
/// [`ListFault`]; the entries before it were visited.
pub fn walk<'a>(
    region: &'a [u8],
    start: usize,
    visit: &mut dyn FnMut(StoredEntry<'a>),
) -> Result<(), ListFault> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut value_bytes) = (start, 0_usize);
    while region.len().saturating_sub(at) >= ENTRY && u32_at(region, at) != 0 {
        let rest = region.get(at..).unwrap_or_default();
        let name_length = usize::from(byte_at(rest, offset_of!(RawEntry, name_length)));
        let name = rest.get(ENTRY..).and_then(|rest| rest.get(..name_length));
        let name = name.ok_or(ListFault::Overlap)?;
        let value = value(region, rest, &mut parts)?;
        if let StoredValue::Here(bytes) = value {
            value_bytes = value_bytes.saturating_add(bytes.len());
        }
        if value_bytes > region.len() {
            return Err(ListFault::Overlap);
        }
        visit(StoredEntry {
            prefix: byte_at(rest, offset_of!(RawEntry, prefix)),
            name,
            value,
            offset: value_offset(rest),
            hash: u32_at(rest, offset_of!(RawEntry, hash)),
        });
        at = at.saturating_add(ENTRY).saturating_add(name_length.next_multiple_of(4));
    }
    parts.push((start, at.saturating_add(END)));
    parts.sort_unstable();
    let overlaps = parts.windows(2).any(|pair| matches!(pair, [before, next] if next.0 < before.1));
    let last = parts.iter().map(|part| part.1).max().unwrap_or(0);
    if overlaps || last > region.len() {
        return Err(ListFault::Overlap);
    }
    Ok(())
}

/// Gives inodes that are values other numbers, in the entries from byte `start` on: those for which
/// `to` has one. Gives whether any was changed; a list without the magic number in front has none.
pub fn renumber_values(region: &mut [u8], start: usize, to: &dyn Fn(Ino) -> Option<Ino>) -> bool {
    const PLACE: usize = offset_of!(RawEntry, value_inode);
    let has_magic = region.first_chunk().is_some_and(|it| u32::from_le_bytes(*it) == MAGIC);
    let (mut at, mut is_changed) = (start, false);
    while has_magic && region.len().saturating_sub(at) >= ENTRY && u32_at(region, at) != 0 {
        let place = at.saturating_add(PLACE);
        let ino = Ino(u32_at(region, place));
        if let Some(new) = Some(ino).filter(|ino| ino.0 != 0).and_then(to)
            && let Some(bytes) = region.get_mut(place..place.saturating_add(4))
        {
            bytes.copy_from_slice(&new.0.to_le_bytes());
            is_changed = true;
        }
        let rest = region.get(at..).unwrap_or_default();
        let name_length = usize::from(byte_at(rest, offset_of!(RawEntry, name_length)));
        at = at.saturating_add(ENTRY).saturating_add(name_length.next_multiple_of(4));
    }
    is_changed
}

fn value_offset(entry: &[u8]) -> usize {
    u16_at(entry, offset_of!(RawEntry, value_offset)).into()
}

/// The value of the entry at the start of `rest`; notes the bytes that it takes.
fn value<'a>(
    region: &'a [u8],
    rest: &[u8],
    parts: &mut Vec<(usize, usize)>,
) -> Result<StoredValue<'a>, ListFault> {
    let ino = Ino(u32_at(rest, offset_of!(RawEntry, value_inode)));
    let bytes = u32_at(rest, offset_of!(RawEntry, value_size));
    if ino.0 != 0 {
        return Ok(StoredValue::Elsewhere { ino, bytes });
    }
    let length = bytes as usize;
    if length > region.len() {
        return Err(ListFault::ValueTooLong(bytes));
    }
    if length == 0 {
        return Ok(StoredValue::Here(&[]));
    }
    let offset = value_offset(rest);
    let end = offset.saturating_add(length.next_multiple_of(4));
    parts.push((offset, end));
    let value = region.get(offset..).and_then(|rest| rest.get(..length));
    value.map(StoredValue::Here).ok_or(ListFault::Overlap)
}

impl StoredEntry<'_> {
    /// Whether the stored hash is that of the name and of this value.
    pub fn is_hash_of_value(&self, value: &[u8]) -> bool {
        self.is_hash(|hash| hash_of_words(hash, words(value)))
    }

    /// Whether the stored hash is that of the name and of a value in an inode of its own, which
    /// counts as one word: the hash of the value.
    pub fn is_hash_of_inode(&self, value_hash: u32) -> bool {
        self.is_hash(|hash| hash_of_words(hash, [value_hash]))
    }

    /// Names were hashed with signed characters on some machines: either is right.
    fn is_hash(&self, with_value: impl Fn(u32) -> u32) -> bool {
        [Characters::Unsigned, Characters::Signed]
            .into_iter()
            .any(|characters| with_value(hash_of_name(self.name, characters)) == self.hash)
    }
}

/// How the bytes of a name above 127 count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Characters {
    /// As positive numbers.
    Unsigned,
    /// As negative ones.
    Signed,
}

/// The hash of a name, byte by byte.
pub(super) fn hash_of_name(name: &[u8], characters: Characters) -> u32 {
    name.iter().fold(0_u32, |hash, &byte| {
        let character = match characters {
            Characters::Unsigned => u32::from(byte),
            Characters::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
        };
        hash.rotate_left(5) ^ character
    })
}

/// The hash of a name, continued over the words of its value.
pub(super) fn hash_of_words(hash: u32, words: impl IntoIterator<Item = u32>) -> u32 {
    words.into_iter().fold(hash, |hash, word| hash.rotate_left(16) ^ word)
}

/// A value in words, the last one with its padding.
pub(super) fn words(value: &[u8]) -> impl Iterator<Item = u32> {
    value.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u32::from_le_bytes(word)
    })
}

#[cfg(test)]
// Of counts and bytes that the tests have made.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// A list of entries as `walk` reads it: name, offset and size of the value.
    fn list(length: usize, entries: &[(&[u8], u16, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, offset, size) in entries {
            bytes.extend([u8::try_from(name.len()).unwrap(), 1]);
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

    fn walked(region: &[u8]) -> (usize, Result<(), ListFault>) {
        let mut count = 0;
        let result = walk(region, 0, &mut |_| count += 1);
        (count, result)
    }

    #[test]
    fn parts_may_not_overlap() {
        assert_eq!(walked(&[0; 8]), (0, Ok(())));
        assert_eq!(walked(&list(64, &[(b"one", 60, 4)])), (1, Ok(())));
        // The second value reaches into the first; a value overlaps the entries; one the end
        // mark.
        let two = list(96, &[(b"one", 88, 8), (b"two", 84, 5)]);
        assert_eq!(walked(&two), (2, Err(ListFault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 4, 4)])), (1, Err(ListFault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 20, 4)])), (1, Err(ListFault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 24, 4)])), (1, Ok(())));
        // Past the end.
        assert_eq!(walked(&list(64, &[(b"one", 62, 4)])), (0, Err(ListFault::Overlap)));
        assert_eq!(walked(&list(64, &[(b"one", 0, 65)])), (0, Err(ListFault::ValueTooLong(65))));
        // A name that reaches past the end, and entries without room for their end.
        let mut long = list(32, &[(b"name", 0, 0)]);
        long[0] = 200;
        assert_eq!(walked(&long), (0, Err(ListFault::Overlap)));
        assert_eq!(walked(&list(20, &[(b"name", 0, 0)])), (1, Err(ListFault::Overlap)));
    }

    #[test]
    fn overlapping_values_are_not_all_visited() {
        let whole: &[(&[u8], u16, u32)] = &[(&b""[..], 0, 65536); 4092];
        assert_eq!(walked(&list(65536, whole)), (1, Err(ListFault::Overlap)));
        let half: &[(&[u8], u16, u32)] = &[(&b""[..], 0, 32768); 2000];
        assert_eq!(walked(&list(65536, half)), (2, Err(ListFault::Overlap)));
    }

    #[test]
    fn hashes_know_both_kinds_of_characters() {
        let entry = |hash| StoredEntry {
            prefix: 1,
            name: b"\xe9",
            value: StoredValue::Here(b"value"),
            offset: 0,
            hash,
        };
        let unsigned = hash_of_words(0xe9, [0x756c_6176, 0x65]);
        let signed = hash_of_words(0xffff_ffe9, [0x756c_6176, 0x65]);
        assert_ne!(unsigned, signed);
        for hash in [unsigned, signed] {
            assert!(entry(hash).is_hash_of_value(b"value"));
        }
        assert!(!entry(unsigned).is_hash_of_value(b"valuf"));
        assert!(!entry(0).is_hash_of_value(b"value"));
    }
}
