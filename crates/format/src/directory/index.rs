//! The hash index: the root in block 0, and nodes.
//!
//! Entries are pairs of the lowest hash covered and a block, sorted by hash. The first covers from
//! 0, so the place of its hash holds the limit (how many fit) and the count (how many there are).
// Offsets here are constants, and slices have been cut to the capacity, which is below 8,192.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
use super::{RawEntry, Style, field};
use crate::checksum::crc32c;
use crate::inode::FileType;
use crate::superblock::HashVersion;
use crate::{Fault, FileBlock, Ino};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where a block of an index is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexPlace {
    /// Block 0.
    Root,
    /// A later block.
    Node,
}

/// What the root says of the whole index. Whether characters are unsigned is not said here but in
/// the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootInfo {
    /// The hash.
    pub hash: HashVersion,
    /// Index levels below the root: 0..=2 (2 only with large_dir, which the caller knows of).
    pub levels: u8,
}

/// The entries of an index block: sorted by hash; the first covers from 0.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    entries: &'a [RawIndexEntry],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawIndexEntry {
    /// Of the first entry of a block: limit in the low half, count in the high half.
    pub(super) hash: U32,
    /// The high four bits are kept for a fill level, which no system stores.
    pub(super) block: U32,
}

/// The start of block 0 of an indexed directory.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawRoot {
    dot: RawEntry,
    dot_name: [u8; 4],
    parent: RawEntry,
    parent_name: [u8; 4],
    pub(super) reserved: U32,
    pub(super) hash: u8,
    pub(super) info_length: u8,
    pub(super) levels: u8,
    pub(super) flags: u8,
}

/// Bytes of the tail: a reserved word and the checksum.
pub(super) const TAIL: usize = 8;
/// Bytes of an entry.
pub(super) const ENTRY: usize = 8;
/// The bits of a block number that are the number.
pub(super) const BLOCK_MASK: u32 = 0x0fff_ffff;
pub(super) const INFO_LENGTH: u8 = 8;
/// Deepest index without large_dir.
pub const LEVELS_MAX: u8 = 1;
/// Levels below the root with large_dir.
pub const LEVELS_MAX_LARGE: u8 = 2;

impl IndexPlace {
    pub(super) fn structure(self) -> &'static str {
        match self {
            IndexPlace::Root => "directory index root",
            IndexPlace::Node => "directory index node",
        }
    }

    /// Bytes in the block before the first entry.
    pub(super) fn offset(self) -> usize {
        match self {
            IndexPlace::Root => 32,
            IndexPlace::Node => 8,
        }
    }
}

impl RawIndexEntry {
    fn new(hash: u32, block: FileBlock) -> RawIndexEntry {
        RawIndexEntry { hash: U32::new(hash), block: U32::new(block.0) }
    }

    fn limit(&self) -> usize {
        (self.hash.get() & 0xffff) as usize
    }

    fn count(&self) -> usize {
        (self.hash.get() >> 16) as usize
    }

    fn set(&mut self, limit: usize, count: usize) {
        self.hash = U32::new((count as u32) << 16 | limit as u32);
    }
}

impl IndexView<'_> {
    /// Entries in use, at least 1.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Entry `at`: lowest hash covered (0 for the first; the lowest bit set marks that the chain of
    /// equal hashes goes on from the block before) and the block. Panics when `at >= len()`.
    pub fn get(&self, at: usize) -> (u32, FileBlock) {
        let entry = &self.entries[at];
        let hash = if at == 0 { 0 } else { entry.hash.get() };
        (hash, FileBlock(entry.block.get() & BLOCK_MASK))
    }

    /// The last entry whose hash is <= `hash`. Inside `0..len()` also where the disk has them out
    /// of order.
    pub fn find(&self, hash: u32) -> usize {
        self.entries[1..].partition_point(|entry| entry.hash.get() <= hash)
    }
}

impl Style {
    /// Makes `bytes` an index root with one entry that covers everything, for `child`. Keeps
    /// nothing of what was there. Signed and unsigned hashes are stored alike: e2fsck refuses an
    /// index that is stored as unsigned.
    pub fn initialize_root(
        &self,
        bytes: &mut [u8],
        ino: Ino,
        parent: Ino,
        hash: HashVersion,
        child: FileBlock,
    ) {
        bytes.fill(0);
        self.write_entry(bytes, 0, 12, (b".", ino, FileType::Directory));
        self.write_entry(bytes, 12, self.block_bytes() - 12, (b"..", parent, FileType::Directory));
        let root = raw_root(bytes);
        root.hash = hash.code();
        root.info_length = INFO_LENGTH;
        self.set_index(bytes, IndexPlace::Root, &[(0, child)]);
    }

    /// Makes `bytes` an index node without entries (count 0): `set_index` comes next.
    pub fn initialize_node(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        let cover = RawEntry {
            ino: U32::ZERO,
            length: self.encode_length(self.block_bytes()),
            name_length: 0,
            code: 0,
        };
        bytes[..8].copy_from_slice(cover.as_bytes());
        let limit = self.index_capacity(IndexPlace::Node);
        self.slots(bytes, IndexPlace::Node)[0].set(limit, 0);
    }

    /// Checks block 0 of an indexed directory and gives its index. Refuses unknown hash versions,
    /// flags and levels.
    pub fn root<'a>(&self, bytes: &'a [u8]) -> Result<(RootInfo, IndexView<'a>), Fault> {
        let structure = IndexPlace::Root.structure();
        let Ok((root, _)) = RawRoot::ref_from_prefix(bytes) else {
            return Err(field(structure, "block size", bytes.len() as u64, "too small"));
        };
        let parent_length = self.decode_length(root.parent.length);
        let checks = [
            ("length of \".\"", self.decode_length(root.dot.length), 12),
            ("length of \"..\"", parent_length, self.block_bytes().saturating_sub(12)),
            ("name length of \".\"", usize::from(root.dot.name_length), 1),
            ("name length of \"..\"", usize::from(root.parent.name_length), 2),
            ("reserved word", root.reserved.get() as usize, 0),
            ("information length", usize::from(root.info_length), usize::from(INFO_LENGTH)),
            ("flags", usize::from(root.flags & 1), 0),
        ];
        if let Some((name, value, _)) =
            checks.into_iter().find(|(_, value, wanted)| value != wanted)
        {
            return Err(field(structure, name, value as u64, "not what an index root has there"));
        }
        // The codes of unsigned hashes are never here: neither the kernel nor e2fsck takes them.
        let Some(hash) = HashVersion::from_code(root.hash).filter(|hash| hash.code() == root.hash)
        else {
            return Err(field(structure, "hash version", u64::from(root.hash), "unknown"));
        };
        if root.levels > LEVELS_MAX_LARGE {
            return Err(field(
                structure,
                "levels",
                u64::from(root.levels),
                "more than an index can have",
            ));
        }
        Ok((RootInfo { hash, levels: root.levels }, self.view(bytes, IndexPlace::Root)?))
    }

    /// Checks an index node below the root and gives its index.
    pub fn node<'a>(&self, bytes: &'a [u8]) -> Result<IndexView<'a>, Fault> {
        match RawEntry::read_from_prefix(bytes) {
            Ok((entry, _)) if self.is_cover(&entry) => self.view(bytes, IndexPlace::Node),
            Ok((entry, _)) => {
                let length = self.decode_length(entry.length) as u64;
                Err(field(
                    IndexPlace::Node.structure(),
                    "first entry's length",
                    length,
                    "not an unused block",
                ))
            }
            Err(_) => Err(field(
                IndexPlace::Node.structure(),
                "block size",
                bytes.len() as u64,
                "too small",
            )),
        }
    }

    /// Entries that fit in the root, or in a node.
    pub fn index_capacity(&self, place: IndexPlace) -> usize {
        let tail = if self.checksummed { TAIL } else { 0 };
        (self.block_bytes() - place.offset() - tail) / ENTRY
    }

    /// Inserts an entry after entry `at - 1`. Panics when full or `at` is 0 or beyond the count.
    pub fn insert_index(
        &self,
        bytes: &mut [u8],
        place: IndexPlace,
        at: usize,
        hash: u32,
        child: FileBlock,
    ) {
        let slots = self.slots(bytes, place);
        let count = slots[0].count();
        assert!(count < slots.len() && (1..=count).contains(&at), "index entry {at} of {count}");
        slots.copy_within(at..count, at + 1);
        slots[at] = RawIndexEntry::new(hash, child);
        let limit = slots.len();
        slots[0].set(limit, count + 1);
    }

    /// Replaces all entries of a root or node. `entries[0].0` is ignored (the first covers from 0).
    /// Panics when there are none or too many.
    pub fn set_index(&self, bytes: &mut [u8], place: IndexPlace, entries: &[(u32, FileBlock)]) {
        let slots = self.slots(bytes, place);
        assert!(
            (1..=slots.len()).contains(&entries.len()),
            "{} index entries in one block",
            entries.len()
        );
        slots.fill(RawIndexEntry::new(0, FileBlock(0)));
        for (slot, &(hash, child)) in slots.iter_mut().zip(entries) {
            *slot = RawIndexEntry::new(hash, child);
        }
        let limit = slots.len();
        slots[0].set(limit, entries.len());
    }

    /// Sets the number of index levels below the root in the root's info.
    pub fn set_levels(&self, root: &mut [u8], levels: u8) {
        assert!(levels <= LEVELS_MAX_LARGE, "an index of {levels} levels");
        raw_root(root).levels = levels;
    }
}

fn raw_root(bytes: &mut [u8]) -> &mut RawRoot {
    RawRoot::mut_from_prefix(bytes).expect("a block has 1,024 bytes and more").0
}

impl Style {
    /// All places for entries in a block that is being written.
    fn slots<'a>(&self, bytes: &'a mut [u8], place: IndexPlace) -> &'a mut [RawIndexEntry] {
        let capacity = self.index_capacity(place);
        let bytes = &mut bytes[place.offset()..];
        <[RawIndexEntry]>::mut_from_prefix_with_elems(bytes, capacity)
            .expect("the whole block is given")
            .0
    }

    fn view<'a>(&self, bytes: &'a [u8], place: IndexPlace) -> Result<IndexView<'a>, Fault> {
        let structure = place.structure();
        let capacity = self.index_capacity(place);
        let rest = bytes.get(place.offset()..).unwrap_or_default();
        let Ok((slots, _)) = <[RawIndexEntry]>::ref_from_prefix_with_elems(rest, capacity) else {
            return Err(field(structure, "block size", bytes.len() as u64, "too small"));
        };
        let (limit, count) = (slots[0].limit(), slots[0].count());
        if limit != capacity {
            return Err(field(structure, "limit", limit as u64, "not what fits in the block"));
        }
        match slots.get(..count) {
            Some(entries) if count > 0 => Ok(IndexView { entries }),
            _ => Err(field(structure, "count", count as u64, "not in 1..=limit")),
        }
    }
}

/// The checksum of an index block, and where it is.
#[derive(Debug)]
pub(super) struct IndexChecksum {
    pub offset: usize,
    pub stored: u32,
    pub computed: u32,
}

/// Covers what precedes the entries, the entries in use, and the tail with zero for the checksum;
/// the tail follows `limit` entries.
pub(super) fn checksum(
    bytes: &[u8],
    place: IndexPlace,
    inode_seed: u32,
) -> Result<IndexChecksum, Fault> {
    let structure = place.structure();
    let first =
        bytes.get(place.offset()..).and_then(|rest| RawIndexEntry::read_from_prefix(rest).ok());
    let Some((first, _)) = first else {
        return Err(field(structure, "block size", bytes.len() as u64, "too small"));
    };
    let tail = place.offset() + first.limit() * ENTRY;
    let covered = place.offset() + first.count() * ENTRY;
    let (Some(entries), Some(Ok(([reserved, stored], _)))) =
        (bytes.get(..covered), bytes.get(tail..).map(<[U32; 2]>::read_from_prefix))
    else {
        return Err(field(structure, "limit", first.limit() as u64, "more than fits in the block"));
    };
    if first.count() > first.limit() {
        return Err(field(structure, "count", first.count() as u64, "more than the limit"));
    }
    let computed = crc32c(crc32c(crc32c(inode_seed, entries), reserved.as_bytes()), &[0; 4]);
    Ok(IndexChecksum { offset: tail + 4, stored: stored.get(), computed })
}
