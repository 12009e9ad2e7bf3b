//! Extent trees: nodes on plain bytes. A node is `i_block` (60 bytes) or a block (with a checksum
//! tail).
//!
//! ```text
//! | magic | entries | max | depth | generation |   12 bytes, then `max` entries of 12 bytes:
//! | file block | length     | start, 16 high bits | start, 32 low bits |   in a leaf (depth 0)
//! | file block | child, 32 low bits | child, 16 high bits | unused |      in an index node
//! | checksum |                                   in a block: right after `max` entries
//! ```
//!
//! [`Node`] is what a file system reads, and its `parse` the check; [`StoredNode`] is what a judge
//! reads, where anything is possible. The functions below `Node` write nodes that were parsed or
//! initialised.
mod stored;

pub use stored::StoredNode;

use crate::checksum::crc32c;
use crate::{BlockNo, Fault, FileBlock};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest initialised extent, in blocks; one less for uninitialised ones.
pub const MAX_LENGTH: u32 = 32768;
/// Deepest tree: the root's depth field.
pub const MAX_DEPTH: u16 = 5;
/// File blocks that 32 bits count: no map leads to more.
pub const FILE_BLOCKS_MAX: u64 = 1 << 32;
/// The number by which a node is known.
pub const MAGIC: u16 = 0xf30a;

const HEADER: usize = 12;
const ENTRY: usize = 12;
/// Bytes of a root, in the inode.
const ROOT: usize = 60;
/// Bytes of the checksum after the entries of a block.
const TAIL: usize = 4;

/// The name of [`ExtentState`] in code that was written before it.
pub use ExtentState as State;

/// Whether an extent's blocks hold data or read as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ExtentState {
    /// Holds data.
    Written,
    /// Allocated, reads as zeros.
    Unwritten,
}

/// A leaf entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First file block.
    pub file_block: FileBlock,
    /// Blocks: 1..=32768 (32767 when unwritten).
    pub length: u32,
    /// First block on the volume.
    pub start: BlockNo,
    /// Data or zeros.
    pub state: ExtentState,
}

/// An index entry: the child node covers file blocks from `file_block` up to the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index {
    /// First file block covered.
    pub file_block: FileBlock,
    /// The child.
    pub child: BlockNo,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U16,
    entries: U16,
    max: U16,
    depth: U16,
    generation: U32,
}

/// Either kind of entry; `words` is read through [`RawEntry::extent`] or [`RawEntry::index`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    file_block: U32,
    words: [U16; 4],
}

fn join(high: U16, middle: U16, low: U16) -> BlockNo {
    BlockNo(u64::from(high.get()) << 32 | u64::from(middle.get()) << 16 | u64::from(low.get()))
}

/// High, middle and low 16 bits of a block number. Block numbers have 48 bits in an extent tree.
fn split(block: BlockNo) -> [U16; 3] {
    debug_assert!(block.0 >> 48 == 0, "{block} has more than 48 bits");
    [32, 16, 0].map(|shift| U16::new((block.0 >> shift) as u16))
}

impl RawEntry {
    /// As an extent; the length may be 0 here, which `parse` refuses.
    fn extent(&self) -> Extent {
        let [length, high, low, middle] = self.words;
        let length = u32::from(length.get());
        let (length, state) = match length.checked_sub(MAX_LENGTH) {
            Some(beyond) if beyond > 0 => (beyond, ExtentState::Unwritten),
            _ => (length, ExtentState::Written),
        };
        Extent {
            file_block: FileBlock(self.file_block.get()),
            length,
            start: join(high, middle, low),
            state,
        }
    }

    fn index(&self) -> Index {
        let [low, middle, high, _] = self.words;
        Index { file_block: FileBlock(self.file_block.get()), child: join(high, middle, low) }
    }
}

impl Extent {
    /// Of the bytes of one entry, as a fast commit has it outside of a tree; the length may be 0.
    pub fn from_bytes(bytes: &[u8; 12]) -> Extent {
        let raw: RawEntry = zerocopy::transmute!(*bytes);
        raw.extent()
    }
}

impl Index {
    /// Of the bytes of one entry, whatever its node is.
    pub fn from_bytes(bytes: &[u8; 12]) -> Index {
        let raw: RawEntry = zerocopy::transmute!(*bytes);
        raw.index()
    }
}

impl From<Extent> for RawEntry {
    fn from(extent: Extent) -> RawEntry {
        let (longest, mark) = match extent.state {
            ExtentState::Written => (MAX_LENGTH, 0),
            ExtentState::Unwritten => (MAX_LENGTH.saturating_sub(1), MAX_LENGTH),
        };
        assert!((1..=longest).contains(&extent.length), "an extent of {} blocks", extent.length);
        let [high, middle, low] = split(extent.start);
        let length = U16::new(extent.length.saturating_add(mark) as u16);
        RawEntry { file_block: U32::new(extent.file_block.0), words: [length, high, low, middle] }
    }
}

impl From<Index> for RawEntry {
    fn from(index: Index) -> RawEntry {
        let [high, middle, low] = split(index.child);
        RawEntry { file_block: U32::new(index.file_block.0), words: [low, middle, high, U16::ZERO] }
    }
}

/// A checked view of a node's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    depth: u16,
    capacity: usize,
    entries: &'a [RawEntry],
}

fn fault(depth: u16, field: &'static str, value: u64, reason: &'static str) -> Fault {
    let structure = if depth == 0 { "extent leaf" } else { "extent index" };
    Fault::Field { structure, field, value, reason }
}

impl<'a> Node<'a> {
    /// Checks header (magic, entries <= max <= what fits, depth == `depth` when given), and that
    /// entries rise, do not overlap, have lengths and are inside `blocks_count`. Not the checksum.
    /// An index node has entries.
    pub fn parse(
        bytes: &'a [u8],
        depth: Option<u16>,
        blocks_count: u64,
    ) -> Result<Node<'a>, Fault> {
        let node = Node::parse_header(bytes)?;
        if depth.is_some_and(|depth| depth != node.depth) {
            return Err(fault(
                node.depth,
                "depth",
                u64::from(node.depth),
                "not what its place in the tree asks for",
            ));
        }
        if node.depth == 0 {
            node.check_extents(blocks_count)?;
        } else {
            node.check_indexes(blocks_count)?;
        }
        Ok(node)
    }

    /// A view of bytes that `parse` has checked before and that only this module has changed since:
    /// checks the header alone, so it costs the same for any number of entries.
    pub fn parse_header(bytes: &'a [u8]) -> Result<Node<'a>, Fault> {
        let Ok((header, rest)) = RawHeader::ref_from_prefix(bytes) else {
            return Err(fault(0, "size", bytes.len() as u64, "too small"));
        };
        if header.magic.get() != MAGIC {
            return Err(Fault::Magic {
                structure: "extent node",
                found: u32::from(header.magic.get()),
            });
        }
        let (depth, max, count) = (header.depth.get(), header.max.get(), header.entries.get());
        if depth > MAX_DEPTH {
            return Err(fault(depth, "depth", u64::from(depth), "deeper than a tree can be"));
        }
        if max == 0 || usize::from(max) > capacity(bytes.len()) {
            return Err(fault(depth, "maximum of entries", u64::from(max), "not what fits"));
        }
        if count > max {
            return Err(fault(
                depth,
                "number of entries",
                u64::from(count),
                "larger than the maximum",
            ));
        }
        match <[RawEntry]>::ref_from_prefix_with_elems(rest, usize::from(count)) {
            Ok((entries, _)) => Ok(Node { depth, capacity: usize::from(max), entries }),
            Err(_) => Err(fault(depth, "number of entries", u64::from(count), "more than fits")),
        }
    }

    fn check_extents(&self, blocks_count: u64) -> Result<(), Fault> {
        let mut free_from = 0_u64;
        for extent in self.entries.iter().map(RawEntry::extent) {
            let file_block = u64::from(extent.file_block.0);
            if extent.length == 0 {
                return Err(fault(0, "length", 0, "impossible"));
            }
            if file_block < free_from {
                return Err(fault(
                    0,
                    "file block",
                    file_block,
                    "inside or before the extent before it",
                ));
            }
            free_from = file_block.saturating_add(u64::from(extent.length));
            // The last file block that any map can have is 2^32 - 2: 2^32 - 1 means "the end"
            // in calls.
            if free_from > u64::from(u32::MAX) {
                return Err(fault(
                    0,
                    "file block",
                    file_block,
                    "so high that the extent passes the largest file",
                ));
            }
            let end = extent.start.0.saturating_add(u64::from(extent.length));
            if extent.start.0 == 0 || end > blocks_count {
                return Err(fault(0, "start", extent.start.0, "outside the volume"));
            }
        }
        Ok(())
    }

    fn check_indexes(&self, blocks_count: u64) -> Result<(), Fault> {
        if self.is_empty() {
            return Err(fault(self.depth, "number of entries", 0, "too few for an index node"));
        }
        let mut before = None;
        for index in self.entries.iter().map(RawEntry::index) {
            if before.is_some_and(|before| index.file_block <= before) {
                return Err(fault(
                    self.depth,
                    "file block",
                    u64::from(index.file_block.0),
                    "not above the one before",
                ));
            }
            before = Some(index.file_block);
            if index.child.0 == 0 || index.child.0 >= blocks_count {
                return Err(fault(self.depth, "child", index.child.0, "outside the volume"));
            }
        }
        Ok(())
    }

    /// 0 for a leaf.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entry `at` of a leaf. Panics when `at >= len()` or not a leaf: the caller knows both.
    pub fn extent(&self, at: usize) -> Extent {
        assert!(self.depth == 0, "an extent is asked of an index node");
        self.entry(at).extent()
    }

    /// Entry `at` of an index node. Panics as `extent`.
    pub fn index(&self, at: usize) -> Index {
        assert!(self.depth > 0, "an index entry is asked of a leaf");
        self.entry(at).index()
    }

    #[allow(clippy::indexing_slicing)] // the documented panic of its two callers
    fn entry(&self, at: usize) -> &RawEntry {
        &self.entries[at]
    }

    /// The last entry whose first file block is <= `block` (binary search); `None` before the
    /// first.
    pub fn find(&self, block: FileBlock) -> Option<usize> {
        self.entries.partition_point(|entry| entry.file_block.get() <= block.0).checked_sub(1)
    }
}

/// Entries that fit in a node of that many bytes (60, or a block; a block leaves 4 bytes for the
/// checksum tail always).
pub fn capacity(bytes: usize) -> usize {
    let tail = if bytes > ROOT { TAIL } else { 0 };
    bytes.saturating_sub(HEADER).saturating_sub(tail) / ENTRY
}

/// Writes an empty node's header over `bytes`. What follows it is zeroed.
pub fn initialize(bytes: &mut [u8], depth: u16) {
    bytes.fill(0);
    let max = U16::new(capacity(bytes.len()) as u16);
    let (header, _) = parts(bytes);
    *header = RawHeader {
        magic: U16::new(MAGIC),
        entries: U16::ZERO,
        max,
        depth: U16::new(depth),
        generation: U32::ZERO,
    };
}

/// Makes a full root, whatever it was, an empty one of this depth. Entries stay behind the header
/// until [`append_index`] writes over them.
pub fn restart(bytes: &mut [u8], depth: u16) {
    let (header, _) = parts(bytes);
    header.entries = U16::ZERO;
    header.depth = U16::new(depth);
}

/// Writes the header of a node anew: its depth and how many entries it has, which stay, as its
/// generation does.
pub fn restore_header(bytes: &mut [u8], depth: u16, entries: u16) {
    let max = capacity(bytes.len()) as u16;
    assert!(entries <= max, "{entries} entries are more than fit");
    let (header, _) = parts(bytes);
    *header = RawHeader {
        magic: U16::new(MAGIC),
        entries: U16::new(entries),
        max: U16::new(max),
        depth: U16::new(depth),
        generation: header.generation,
    };
}

/// Adds an entry after the others of an index node that has room, over what is there. Panics when
/// full.
pub fn append_index(bytes: &mut [u8], at: usize, index: Index) {
    let (header, _) = parts(bytes);
    header.entries = U16::new((at as u16).saturating_add(1));
    set_index(bytes, at, index);
}

/// Inserts an entry at `at` of a leaf that has room. Panics when full or when `at` is beyond the
/// entries.
pub fn insert_extent(bytes: &mut [u8], at: usize, extent: Extent) {
    insert(bytes, at, extent.into());
}

/// Overwrites entry `at` of a leaf. Panics when there is none.
pub fn set_extent(bytes: &mut [u8], at: usize, extent: Extent) {
    set(bytes, at, extent.into());
}

/// Inserts an entry at `at` of an index node that has room. Panics as `insert_extent`.
pub fn insert_index(bytes: &mut [u8], at: usize, index: Index) {
    insert(bytes, at, index.into());
}

/// Overwrites entry `at` of an index node. Panics when there is none.
pub fn set_index(bytes: &mut [u8], at: usize, index: Index) {
    set(bytes, at, index.into());
}

/// Removes entry `at` of either kind. Panics when there is none.
pub fn remove(bytes: &mut [u8], at: usize) {
    let (header, entries) = parts(bytes);
    let count = used(header, entries);
    assert!(at < count, "entry {at} of {count} is removed");
    if let Some(moved) = entries.get_mut(at..count) {
        moved.rotate_left(1);
    }
    truncate(header, entries, count.saturating_sub(1));
}

/// Moves the entries from `at` on to the start of the empty node `to` (initialised with the same
/// depth). Panics when they do not fit there, when `to` holds some, or when `at` is beyond the
/// entries.
pub fn split_off(bytes: &mut [u8], at: usize, to: &mut [u8]) {
    let (header, entries) = parts(bytes);
    let moved = entries.get(at..used(header, entries)).expect("a node is split inside its entries");
    let (to_header, to_entries) = parts(to);
    assert!(to_header.entries == U16::ZERO, "a node is split into one with entries");
    assert!(to_header.depth == header.depth, "a node is split into one of another depth");
    to_entries
        .get_mut(..moved.len())
        .expect("the half of a node fits in an empty one")
        .copy_from_slice(moved);
    to_header.entries = U16::new(moved.len() as u16);
    truncate(header, entries, at);
}

/// Copies a whole node (all entries, same depth) from `from` into `to`, whose capacity may be
/// larger (root grows deeper, or a child collapses into the root); the destination's max is its
/// own. Panics when they do not fit, or when `from` is no node.
pub fn copy(from: &[u8], to: &mut [u8]) {
    let node = Node::parse_header(from).expect("a node is checked before it is copied");
    initialize(to, node.depth);
    let (header, entries) = parts(to);
    entries
        .get_mut(..node.len())
        .expect("a node is copied to where it fits")
        .copy_from_slice(node.entries);
    header.entries = U16::new(node.len() as u16);
}

/// Stores the checksum tail of an extent block. Panics when the bytes are too short for the maximum
/// in its header.
pub fn seal(bytes: &mut [u8], inode_seed: u32) {
    let tail = tail_offset(bytes);
    // A node is checked before it is changed; bytes that are none have no place for a checksum.
    if let Some((entries, tail)) = bytes.split_at_mut_checked(tail)
        && let Some(stored) = tail.first_chunk_mut()
    {
        *stored = crc32c(inode_seed, entries).to_le_bytes();
    }
}

/// Verifies the checksum tail of an extent block.
pub fn verify(bytes: &[u8], inode_seed: u32) -> Result<(), Fault> {
    let parts = bytes.split_at_checked(tail_offset(bytes));
    let Some((entries, stored)) =
        parts.and_then(|(entries, tail)| Some((entries, tail.first_chunk::<4>()?)))
    else {
        return Err(fault(
            0,
            "maximum of entries",
            bytes.len() as u64,
            "more than fits in the block",
        ));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c(inode_seed, entries));
    if stored == computed {
        Ok(())
    } else {
        Err(Fault::Checksum { structure: "extent block", stored, computed })
    }
}

/// Where the checksum is: after the largest number of entries that the header allows.
/// `usize::MAX` without one.
fn tail_offset(bytes: &[u8]) -> usize {
    let Ok((header, _)) = RawHeader::ref_from_prefix(bytes) else {
        return usize::MAX;
    };
    usize::from(header.max.get()).saturating_mul(ENTRY).saturating_add(HEADER)
}

/// Header and all places for entries of a node that is being written.
fn parts(bytes: &mut [u8]) -> (&mut RawHeader, &mut [RawEntry]) {
    let places = capacity(bytes.len());
    let (header, rest) = RawHeader::mut_from_prefix(bytes).expect("a node has at least 60 bytes");
    let (entries, _) =
        <[RawEntry]>::mut_from_prefix_with_elems(rest, places).expect("the capacity fits");
    // A block whose header allows fewer (another system may have written it so) keeps that.
    let places = if header.magic.get() == MAGIC {
        usize::from(header.max.get()).min(places)
    } else {
        places
    };
    (header, entries.split_at_mut(places).0)
}

/// Entries in use, as far as there are places.
fn used(header: &RawHeader, entries: &[RawEntry]) -> usize {
    usize::from(header.entries.get()).min(entries.len())
}

fn insert(bytes: &mut [u8], at: usize, entry: RawEntry) {
    let (header, entries) = parts(bytes);
    let count = used(header, entries);
    assert!(
        at <= count && count < entries.len(),
        "entry {at} of {count} in a node of {}",
        entries.len()
    );
    if let Some(moved) = entries.get_mut(at..=count) {
        moved.rotate_right(1);
    }
    if let Some(place) = entries.get_mut(at) {
        *place = entry;
    }
    header.entries = U16::new(count.saturating_add(1) as u16);
}

fn set(bytes: &mut [u8], at: usize, entry: RawEntry) {
    let (header, entries) = parts(bytes);
    let count = used(header, entries);
    *entries
        .get_mut(..count)
        .and_then(|entries| entries.get_mut(at))
        .expect("an entry in use is overwritten") = entry;
}

/// Forgets the entries from `count` on, and wipes them.
fn truncate(header: &mut RawHeader, entries: &mut [RawEntry], count: usize) {
    let wiped = entries.get_mut(count..).unwrap_or_default();
    wiped.as_mut_bytes().fill(0);
    header.entries = U16::new(count as u16);
}
