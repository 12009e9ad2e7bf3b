//! Which bytes of one structure have no meaning, and are made zeros: of a block of a directory, a
//! node of an extent tree, a list of attributes, an inode.
//!
//! Each function leaves checksums as they are: who calls it stores them anew.
// Offsets are those that the walks of these structures give, which are within them.
#![allow(clippy::arithmetic_side_effects)]
use extant_format::attribute::{self, MAGIC, StoredValue, list_in_tail, walk};
use extant_format::directory::HEADER;
use extant_format::directory::IndexPlace;
use extant_format::directory::stored::{EntryShape, IndexTail, StoredIndex, is_dots};
use extant_format::extent::StoredNode;
use extant_format::inode::{BASE_SIZE, FileType, Inode, MAP_OFFSET, MAP_SIZE, flags};
use extant_format::superblock::Superblock;
use std::ops::Range;

/// Bytes of the header of an extent node, and of an entry.
const NODE_ENTRY: usize = 12;
/// Bytes of an entry of an index of names.
const INDEX_ENTRY: usize = 8;
/// Bytes of an attribute's entry before its name, and of what ends the list.
const ATTRIBUTE_ENTRY: usize = 16;
const LIST_END: usize = 4;
/// Bytes of the parent's number, before the entries of a directory inside an inode.
const INLINE_PARENT: usize = 4;
/// Bytes of a device's numbers.
const DEVICE: usize = 8;

fn zero(bytes: &mut [u8], range: Range<usize>) {
    if let Some(stale) = bytes.get_mut(range) {
        stale.fill(0);
    }
}

/// Of a chain of entries from byte `start` on: what follows each name, and unused entries.
pub(super) fn entries(bytes: &mut [u8], start: usize, shape: EntryShape) {
    let mut stale = Vec::new();
    shape.walk(bytes, start, &mut |entry| {
        let end = entry.offset + entry.length;
        let name_end = entry.offset + HEADER + entry.name.len();
        match entry.ino {
            // Its length stays, and nothing else.
            0 => stale.push(entry.offset + HEADER - 2..end),
            _ if shape.hash_bytes > 0 && !is_dots(entry.name) => {
                stale.push(name_end.next_multiple_of(4) + shape.hash_bytes..end);
            }
            _ => stale.push(name_end..end),
        }
    });
    for range in stale {
        zero(bytes, range);
    }
}

/// Of a block of an index of names: room for entries that is not used, and, in the root, what
/// follows the two names.
pub(super) fn index(bytes: &mut [u8], place: IndexPlace, tail: IndexTail) {
    let index = StoredIndex::new(bytes, place, tail);
    let (count, limit) = (index.count(), index.limit());
    let start = match place {
        IndexPlace::Root => {
            zero(bytes, HEADER + 1..12);
            zero(bytes, 12 + HEADER + 2..24);
            32
        }
        IndexPlace::Node => HEADER,
    };
    zero(bytes, start + count * INDEX_ENTRY..start + limit * INDEX_ENTRY);
    if tail == IndexTail::None {
        let end = bytes.len();
        zero(bytes, start + limit * INDEX_ENTRY..end);
    }
}

/// Of a node of an extent tree: what follows its entries, but for a checksum.
pub(super) fn node(bytes: &mut [u8], capacity: usize) {
    let Some(node) = StoredNode::read(bytes) else { return };
    let used = match node.depth() {
        0 => node.extents().count(),
        _ => node.indexes().count(),
    };
    zero(bytes, NODE_ENTRY * (1 + used)..NODE_ENTRY * (1 + capacity));
}

/// Of a list of attributes whose entries begin at byte `start`: what is between them and their
/// values. Words of values are kept whole, as their hashes cover them.
fn attributes(region: &mut [u8], start: usize) {
    let mut kept = Vec::from([Range { start: 0, end: start }]);
    let mut at = start;
    let walked = walk(region, start, &mut |entry| {
        kept.push(at..at + ATTRIBUTE_ENTRY + entry.name.len());
        at += ATTRIBUTE_ENTRY + entry.name.len().next_multiple_of(4);
        if let StoredValue::Here(value) = entry.value
            && !value.is_empty()
        {
            kept.push(entry.offset..entry.offset + value.len().next_multiple_of(4));
        }
    });
    if walked.is_err() {
        return;
    }
    kept.push(at..at + LIST_END);
    kept.sort_by_key(|range| range.start);
    let mut from = 0;
    for range in kept {
        zero(region, from..range.start.max(from));
        from = from.max(range.end);
    }
    let end = region.len();
    zero(region, from.min(end)..end);
}

/// Of a block of attributes.
pub(super) fn attribute_block(bytes: &mut [u8]) {
    attributes(bytes, attribute::HEADER);
}

/// Of an inode that is in use: its map, what follows its fixed fields, and names in it.
pub(super) fn inode(bytes: &mut [u8], inode: &Inode, superblock: &Superblock) {
    let tail = BASE_SIZE + usize::from(inode.extra_isize);
    let rest = match inode.is_inline(superblock) {
        true => attribute::inline_rest(&inode.tail).ok().flatten(),
        false => None,
    };
    if bytes.len() > BASE_SIZE
        && let Some(tail) = bytes.get_mut(tail..)
    {
        match list_in_tail(tail) {
            Some(_) => attributes(tail.get_mut(size_of_val(&MAGIC)..).unwrap_or_default(), 0),
            None => tail.fill(0),
        }
        let is_directory = inode.file_type() == Some(FileType::Directory);
        if let Some(names) = rest.filter(|_| is_directory).and_then(|rest| tail.get_mut(rest)) {
            entries(names, 0, inline_shape(inode, superblock));
        }
    }
    if let Some(map) = bytes.get_mut(MAP_OFFSET..MAP_OFFSET + MAP_SIZE) {
        of_map(map, inode, superblock);
    }
}

/// How the names of a directory are kept.
pub(super) fn inline_shape(inode: &Inode, superblock: &Superblock) -> EntryShape {
    let has_hashes = inode.flags & flags::ENCRYPTED != 0 && inode.flags & flags::CASEFOLDED != 0;
    EntryShape {
        block_size: superblock.block_size() as usize,
        hash_bytes: if has_hashes { 8 } else { 0 },
    }
}

/// Of the sixty bytes of an inode that are pointers, a node, a target or data.
fn of_map(map: &mut [u8], inode: &Inode, superblock: &Superblock) {
    let size = usize::try_from(inode.size).unwrap_or(usize::MAX);
    match inode.file_type() {
        Some(FileType::Directory) if inode.is_inline(superblock) => {
            entries(map, INLINE_PARENT, inline_shape(inode, superblock));
        }
        Some(FileType::Regular | FileType::Symlink) if inode.is_inline(superblock) => {
            zero(map, size.min(MAP_SIZE)..MAP_SIZE);
        }
        // What is encrypted has its length in the bytes themselves.
        Some(FileType::Symlink) if inode.is_encrypted(superblock) => {}
        Some(FileType::Symlink) if inode.is_fast_symlink(superblock) => {
            zero(map, size.min(MAP_SIZE)..MAP_SIZE);
        }
        Some(FileType::CharacterDevice | FileType::BlockDevice) => zero(map, DEVICE..MAP_SIZE),
        Some(FileType::Fifo | FileType::Socket) => zero(map, 0..MAP_SIZE),
        _ if inode.has_extents() => node(map, MAP_SIZE / NODE_ENTRY - 1),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: EntryShape = EntryShape { block_size: 1024, hash_bytes: 0 };

    fn entry(ino: u32, length: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([u8::try_from(name.len()).unwrap_or(0), 1]);
        bytes.extend(name);
        bytes.resize(usize::from(length), b'x');
        bytes
    }

    #[test]
    fn names_stay_and_what_follows_them_goes() {
        let mut bytes = [entry(12, 20, b"kept"), entry(0, 24, b"gone"), entry(13, 16, b"ab")];
        let mut block = bytes.concat();
        entries(&mut block, 0, SHAPE);
        for (at, name) in [(0, 4), (2, 2)] {
            bytes[at][HEADER + name..].fill(0);
        }
        bytes[1][6..].fill(0);
        assert_eq!(block, bytes.concat());
    }

    #[test]
    fn an_index_keeps_its_entries_and_its_checksum() {
        let mut block = vec![b'x'; 1024];
        // Room for 123 entries, of which two are in use.
        block[32..36].copy_from_slice(&[123, 0, 2, 0]);
        let mut expected = block.clone();
        for range in [HEADER + 1..12, 12 + HEADER + 2..24, 48..1016] {
            expected[range].fill(0);
        }
        index(&mut block, IndexPlace::Root, IndexTail::Checksum);
        assert_eq!(block, expected);
    }

    #[test]
    fn a_list_keeps_its_entries_and_values() {
        let mut region = vec![b'x'; 96];
        // One entry with a name of three bytes, and a value of five at byte 80.
        region[..ATTRIBUTE_ENTRY].fill(0);
        region[0] = 3;
        region[1] = 1;
        region[2] = 80;
        region[8] = 5;
        region[16..19].copy_from_slice(b"abc");
        region[20..24].fill(0);
        region[80..85].copy_from_slice(b"value");
        let before = region.clone();
        attributes(&mut region, 0);
        assert_eq!(region[..19], before[..19]);
        assert!(region[19..80].iter().all(|byte| *byte == 0));
        assert_eq!(region[80..88], before[80..88]);
        assert!(region[88..].iter().all(|byte| *byte == 0));
    }
}
