//! Directory blocks as they are stored: chains of entries that may break anywhere, and index blocks
//! with any limit and count. For a judge; a file system reads through [`Style`](super::Style).
// Offsets below are checked against the slice or the block size before they are used.
#![allow(clippy::arithmetic_side_effects)]
use super::index::{BLOCK_MASK, ENTRY, IndexPlace, RawIndexEntry, RawRoot, TAIL as INDEX_TAIL};
use super::{HEADER, RECORD_MIN, RawEntry, RawTail, TAIL, TAIL_CODE, decode_length};
use crate::checksum::crc32c;
use crate::stored::{byte_at, u16_at, u32_at};
use std::mem::offset_of;

/// How the entries of a directory are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryShape {
    /// Bytes of a block.
    pub block_size: usize,
    /// Bytes after each name in which its hash is kept: 8 where names are encrypted and know no
    /// case, else 0.
    pub hash_bytes: usize,
}

/// One link of a chain of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredEntry<'a> {
    /// Byte in the block at which it begins.
    pub offset: usize,
    /// Bytes to the next one.
    pub length: usize,
    /// 0 marks an unused one.
    pub ino: u32,
    /// The type: [`FileType::entry_code`](crate::inode::FileType::entry_code), or anything.
    pub code: u8,
    /// The name; any bytes.
    pub name: &'a [u8],
    /// The first byte after the name, 0 where there is none.
    pub after: u8,
}

/// How a chain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainEnd {
    /// At the end of the block.
    Block,
    /// At a tail with a checksum.
    Tail,
    /// At this byte, where there is no entry.
    Broken(usize),
}

/// Whether a name is one of the first two entries of every directory.
#[inline]
pub fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl EntryShape {
    /// The entry at a byte; `None` when there is none.
    #[inline]
    fn entry<'a>(self, bytes: &'a [u8], offset: usize) -> Option<StoredEntry<'a>> {
        let rest = bytes.get(offset..)?;
        let header = rest.first_chunk::<HEADER>()?;
        let [i0, i1, i2, i3, l0, l1, name_length, code] = *header;
        let ino = u32::from_le_bytes([i0, i1, i2, i3]);
        let length = decode_length(self.block_size, u16::from_le_bytes([l0, l1]));
        let after_name = if ino == 0 { 0 } else { self.hash_bytes };
        let used = HEADER + usize::from(name_length);
        let hidden =
            if after_name > 0 && !is_dots(rest.get(HEADER..used)?) { after_name } else { 0 };
        if length < RECORD_MIN
            || !length.is_multiple_of(4)
            || length > rest.len()
            || used + hidden > length
        {
            return None;
        }
        Some(StoredEntry {
            offset,
            length,
            ino,
            code,
            name: rest.get(HEADER..used)?,
            after: rest.get(used).copied().unwrap_or(0),
        })
    }

    /// Walks the chain from byte `start` on, unused entries included, but not the tail.
    #[inline]
    pub fn walk<'a>(
        self,
        bytes: &'a [u8],
        start: usize,
        visit: &mut impl FnMut(&StoredEntry<'a>),
    ) -> ChainEnd {
        let mut offset = start;
        while offset < bytes.len() {
            let Some(entry) = self.entry(bytes, offset) else {
                return ChainEnd::Broken(offset);
            };
            if offset + TAIL == bytes.len()
                && entry.ino == 0
                && entry.name.is_empty()
                && entry.code == TAIL_CODE
            {
                return ChainEnd::Tail;
            }
            visit(&entry);
            offset += entry.length;
        }
        ChainEnd::Block
    }

    /// Whether the block is a node of an index, by how its first entry looks: unused and as long as
    /// the block, and followed by the number of index entries that fit.
    pub fn is_node(self, bytes: &[u8], checksum: IndexTail) -> bool {
        let length = u16_at(bytes, offset_of!(RawEntry, length));
        let is_cover = u32_at(bytes, offset_of!(RawEntry, ino)) == 0
            && decode_length(self.block_size, length) == self.block_size
            && byte_at(bytes, offset_of!(RawEntry, name_length)) == 0;
        let fits = (self.block_size - IndexPlace::Node.offset() - checksum.bytes()) / ENTRY;
        is_cover && StoredIndex::new(bytes, IndexPlace::Node, checksum).limit() == fits
    }
}

/// The stored checksum of a leaf, which is in its tail, and that of its bytes.
pub fn leaf_checksums(bytes: &[u8], inode_seed: u32) -> (u32, u32) {
    let capacity = bytes.len().saturating_sub(TAIL);
    let computed = crc32c(inode_seed, bytes.get(..capacity).unwrap_or_default());
    (u32_at(bytes, capacity + offset_of!(RawTail, checksum)), computed)
}

/// Whether index blocks end with a checksum (metadata_csum).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexTail {
    /// Entries reach to the end of the block.
    None,
    /// A tail with a checksum follows them.
    Checksum,
}

impl IndexTail {
    fn bytes(self) -> usize {
        match self {
            IndexTail::None => 0,
            IndexTail::Checksum => INDEX_TAIL,
        }
    }
}

/// What the first block of an indexed directory says of the whole index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredRootInfo {
    /// 0 in a root.
    pub reserved: u32,
    /// The number of the hash.
    pub hash: u8,
    /// Bytes of these fields: 8 in a root.
    pub info_length: u8,
    /// Index levels below the root.
    pub levels: u8,
    /// Unknown ones; none has a meaning.
    pub flags: u8,
}

/// `info_length` of every root.
pub const ROOT_INFO_LENGTH: u8 = super::index::INFO_LENGTH;
/// A flag of the root that says that its hashes have another form, which never came.
pub const ROOT_FLAG_UNKNOWN_FORM: u8 = 1;
/// The number of the hash of names that are encrypted and know no case. It needs the key.
pub const SIPHASH: u8 = 6;
/// The highest hash that a name can have.
pub const HASH_MAX: u32 = 0xffff_fffe;
/// The lowest bit of a hash in the index: names with this hash begin in the block before.
pub const HASH_CONTINUES: u32 = 1;

impl StoredRootInfo {
    /// Of the first block of an indexed directory.
    pub fn read(bytes: &[u8]) -> StoredRootInfo {
        StoredRootInfo {
            reserved: u32_at(bytes, offset_of!(RawRoot, reserved)),
            hash: byte_at(bytes, offset_of!(RawRoot, hash)),
            info_length: byte_at(bytes, offset_of!(RawRoot, info_length)),
            levels: byte_at(bytes, offset_of!(RawRoot, levels)),
            flags: byte_at(bytes, offset_of!(RawRoot, flags)),
        }
    }

    /// Whether there is a root at all.
    pub fn is_root(&self) -> bool {
        self.reserved == 0 && self.info_length == ROOT_INFO_LENGTH
    }
}

/// The entries of an index block as they are stored.
#[derive(Clone, Copy)]
pub struct StoredIndex<'a> {
    bytes: &'a [u8],
    start: usize,
    capacity: usize,
}

impl<'a> StoredIndex<'a> {
    /// Of a block.
    pub fn new(bytes: &'a [u8], place: IndexPlace, checksum: IndexTail) -> StoredIndex<'a> {
        let start = place.offset();
        let capacity = bytes.len().saturating_sub(start + checksum.bytes()) / ENTRY;
        StoredIndex { bytes, start, capacity }
    }

    /// Entries that fit, as it says.
    pub fn limit(&self) -> usize {
        u16_at(self.bytes, self.start).into()
    }

    /// Entries in use, as it says.
    pub fn count(&self) -> usize {
        u16_at(self.bytes, self.start + size_of::<u16>()).into()
    }

    /// Entries that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The entries in use, as far as they fit: the lowest hash and the block of the directory.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let StoredIndex { bytes, start, capacity } = *self;
        (0..self.count().min(capacity)).map(move |index| {
            let at = start + index * ENTRY;
            let block = u32_at(bytes, at + offset_of!(RawIndexEntry, block)) & BLOCK_MASK;
            (u32_at(bytes, at + offset_of!(RawIndexEntry, hash)), block)
        })
    }

    /// The stored checksum and that of the bytes; `None` where there is no room for it. A limit or
    /// count that cannot be is taken as the number that fits.
    pub fn checksums(&self, inode_seed: u32) -> Option<(u32, u32)> {
        let tail = self.start + self.limit().min(self.capacity) * ENTRY;
        let covered = self.bytes.get(..self.start + self.count().min(self.capacity) * ENTRY)?;
        let reserved = self.bytes.get(tail..tail + size_of::<u32>())?;
        let computed = crc32c(crc32c(crc32c(inode_seed, covered), reserved), &[0; 4]);
        Some((u32_at(self.bytes, tail + size_of::<u32>()), computed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: EntryShape = EntryShape { block_size: 64, hash_bytes: 0 };

    fn entry(ino: u32, length: u16, name: &[u8], code: u8) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([u8::try_from(name.len()).unwrap(), code]);
        bytes.extend(name);
        bytes.resize(usize::from(length).max(bytes.len()), 0);
        bytes
    }

    fn names(bytes: &[u8]) -> (Vec<Vec<u8>>, ChainEnd) {
        let mut names = Vec::new();
        let end = SHAPE.walk(bytes, 0, &mut |entry| names.push(entry.name.to_vec()));
        (names, end)
    }

    #[test]
    fn chains_end_at_the_end_or_where_they_break() {
        let first = entry(12, 16, b"first", 1);
        let whole = [first.clone(), entry(13, 48, b"second", 1)].concat();
        assert_eq!(names(&whole), (vec![b"first".to_vec(), b"second".to_vec()], ChainEnd::Block));
        let tail = entry(0, 12, b"", TAIL_CODE);
        let tailed = [first.clone(), entry(13, 36, b"second", 1), tail].concat();
        assert_eq!(names(&tailed).1, ChainEnd::Tail);
        for (length, name) in [(8, &b""[..]), (14, b"second"), (52, b"second"), (12, b"second")] {
            let mut second = entry(13, length, name, 1);
            second.resize(48, 0);
            assert_eq!(
                names(&[first.clone(), second].concat()).1,
                ChainEnd::Broken(16),
                "{length}"
            );
        }
        // Too short for another entry.
        let short = [first, entry(13, 44, b"second", 1), vec![0; 4]].concat();
        assert_eq!(names(&short).1, ChainEnd::Broken(60));
    }
}
