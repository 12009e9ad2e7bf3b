//! Quota files: a tree over the bytes of an id, whose leaves are blocks of entries (version 1 of
//! the second format of quotas).
//!
//! ```text
//! block 0  | magic: 4 | version: 4 | three words | blocks: 4 | free block: 4 | free entry: 4 |
//! block 1  the root: 256 numbers of blocks, one for each value of the id's highest byte; and so on
//! leaf     | head: 16 | entry: 72 | entry | ...
//! entry    | id: 4 | 0: 4 | inode limits: 2 x 8 | inodes: 8 |
//!          | block limits: 2 x 8 | bytes: 8 | times: 2 x 8 |
//! ```
use crate::stored::{u32_at, u64_at};
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};

/// Bytes of a block of a quota file, whatever the volume's are.
pub const BLOCK_BYTES: u64 = 1024;
/// The block of the root, after that of the head.
pub const ROOT_BLOCK: u32 = 1;
/// Steps from the root to the entries, one for each byte of an id.
pub const STEPS: u32 = 4;

/// The version of the format that is known.
const VERSION: u32 = 1;
/// Bytes of a leaf before its entries.
const LEAF_HEAD: usize = 16;

/// Block 0; only offsets are taken of it.
#[repr(C)]
struct RawHead {
    magic: U32,
    version: U32,
    times_and_flags: [U32; 3],
    blocks: U32,
    free_block: U32,
    free_entry: U32,
}

/// An entry; only offsets and the size are taken of it.
#[repr(C)]
struct RawEntry {
    id: U32,
    padding: U32,
    inode_limits: [U64; 2],
    inodes: U64,
    block_limits: [U64; 2],
    bytes: U64,
    times: [U64; 2],
}

/// What a quota file says of one user, group or project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaEntry {
    /// The user, group or project.
    pub id: u32,
    /// Inodes in use.
    pub inodes: u64,
    /// Bytes in use.
    pub bytes: u64,
}

/// The blocks of a file of `file_bytes`, by its block 0; `None` where that contradicts itself, or
/// is of another version.
pub fn blocks(head: &[u8], file_bytes: u64) -> Option<u32> {
    let blocks = u32_at(head, offset_of!(RawHead, blocks));
    let is_possible = u32_at(head, offset_of!(RawHead, version)) == VERSION
        && u64::from(blocks) <= file_bytes.div_ceil(BLOCK_BYTES)
        && u32_at(head, offset_of!(RawHead, free_block)) < blocks
        && u32_at(head, offset_of!(RawHead, free_entry)) < blocks;
    is_possible.then_some(blocks)
}

/// The blocks that a block of the tree leads to.
pub fn children(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).filter(|child| *child > ROOT_BLOCK)
}

/// Whether a way out of an inner block leads back to the root.
pub fn has_loop(bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().any(|word| u32::from_le_bytes(*word) == ROOT_BLOCK)
}

/// Takes the ways out of an inner block that lead back to the root, where no entry is.
pub fn cut_loops(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<4>();
    let is_loop = |word: &&mut [u8; 4]| u32::from_le_bytes(**word) == ROOT_BLOCK;
    words.iter_mut().filter(is_loop).for_each(|word| *word = [0; 4]);
}

/// The entries in use of a leaf.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = QuotaEntry> {
    let entries = bytes.get(LEAF_HEAD..).unwrap_or_default().chunks_exact(size_of::<RawEntry>());
    entries.filter(|entry| entry.iter().any(|byte| *byte != 0)).map(|entry| QuotaEntry {
        id: u32_at(entry, offset_of!(RawEntry, id)),
        inodes: u64_at(entry, offset_of!(RawEntry, inodes)),
        bytes: u64_at(entry, offset_of!(RawEntry, bytes)),
    })
}

/// Where block 0 says that the file's blocks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// How many blocks there are.
    pub blocks: u32,
    /// The first of the blocks that were freed; 0 for none.
    pub free_block: u32,
    /// The first of the leaves with room; 0 for none.
    pub free_entry: u32,
}

impl Head {
    /// That of a file of users (0), groups (1) or projects (2) with `file_bytes`; `None` where it
    /// contradicts itself, or is of another kind or version.
    pub fn parse(kind: usize, bytes: &[u8], file_bytes: u64) -> Option<Head> {
        let magic = MAGICS.get(kind).copied()?;
        if u32_at(bytes, offset_of!(RawHead, magic)) != magic {
            return None;
        }
        let blocks = blocks(bytes, file_bytes)?;
        let free_block = u32_at(bytes, offset_of!(RawHead, free_block));
        let free_entry = u32_at(bytes, offset_of!(RawHead, free_entry));
        (blocks > ROOT_BLOCK).then_some(Head { blocks, free_block, free_entry })
    }

    /// Stores it in block 0, whose other fields stay.
    pub fn store(self, bytes: &mut [u8]) {
        put(bytes, offset_of!(RawHead, blocks), &self.blocks.to_le_bytes());
        put(bytes, offset_of!(RawHead, free_block), &self.free_block.to_le_bytes());
        put(bytes, offset_of!(RawHead, free_entry), &self.free_entry.to_le_bytes());
    }
}

/// The block to which a block of the tree leads for this byte of an id; 0 for none.
pub fn child(bytes: &[u8], of: u8) -> u32 {
    u32_at(bytes, usize::from(of).saturating_mul(4))
}

/// Has a block of the tree lead to `block` for this byte of an id.
pub fn set_child(bytes: &mut [u8], of: u8, block: u32) {
    put(bytes, usize::from(of).saturating_mul(4), &block.to_le_bytes());
}

/// The block after this one on the list of free blocks, or of leaves with room; 0 for none.
pub fn next_free(bytes: &[u8]) -> u32 {
    u32_at(bytes, 0)
}

/// Where the entry of an id begins in a leaf, in bytes; `None` if it has none.
pub fn entry_at(leaf: &[u8], id: u32) -> Option<usize> {
    slots(leaf)
        .find(|(_, slot)| !is_unused(slot) && u32_at(slot, offset_of!(RawEntry, id)) == id)
        .map(|(at, _)| at)
}

/// Where a leaf has room for an entry, in bytes; `None` if it is full.
pub fn room_at(leaf: &[u8]) -> Option<usize> {
    slots(leaf).find(|(_, slot)| is_unused(slot)).map(|(at, _)| at)
}

/// Puts an entry without limits, of one who has nothing, where [`room_at`] says. A leaf that is
/// full afterwards leads to no other: it leaves the list of those with room, whose first it was.
pub fn begin_entry(leaf: &mut [u8], at: usize, id: u32) {
    debug_assert!(leaf.get(at..).is_some_and(|rest| is_unused(rest.get(..ENTRY).unwrap_or(&[1]))));
    put(leaf, at.saturating_add(offset_of!(RawEntry, id)), &id.to_le_bytes());
    mark_used(leaf, at);
    let used = slots(leaf).filter(|(_, slot)| !is_unused(slot)).count();
    put(leaf, LEAF_COUNT, &u16::try_from(used).unwrap_or(u16::MAX).to_le_bytes());
    if room_at(leaf).is_none() {
        put(leaf, 0, &[0; LEAF_COUNT]);
    }
}

/// Makes a leaf the first of those with room.
pub fn set_first_with_room(leaf: &mut [u8]) {
    put(leaf, 4, &[0; 4]);
}

/// Whether any entry of a leaf has a limit.
pub fn has_limits(leaf: &[u8]) -> bool {
    const LIMITS: [usize; 2] =
        [offset_of!(RawEntry, inode_limits), offset_of!(RawEntry, block_limits)];
    let has = |slot: &[u8]| {
        LIMITS.iter().any(|at| {
            let words = slot.get(*at..at.saturating_add(16)).unwrap_or_default();
            words.iter().any(|byte| *byte != 0)
        })
    };
    slots(leaf).any(|(_, slot)| has(slot))
}

/// What is added to an entry, or taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryChange {
    /// Inodes.
    pub inodes: i64,
    /// Bytes.
    pub bytes: i64,
}

/// Changes what the entry at this byte of a leaf counts. Limits and times stay. Nothing falls below
/// 0, which only a file that was wrong before could.
pub fn change_entry(leaf: &mut [u8], at: usize, change: EntryChange) {
    for (offset, change) in
        [(offset_of!(RawEntry, inodes), change.inodes), (offset_of!(RawEntry, bytes), change.bytes)]
    {
        let at = at.saturating_add(offset);
        let after = u64_at(leaf, at).saturating_add_signed(change);
        put(leaf, at, &after.to_le_bytes());
    }
    mark_used(leaf, at);
}

/// Says what the entry at this byte of a leaf counts, whatever it said. Limits and times stay.
pub fn set_entry(leaf: &mut [u8], at: usize, counts: &QuotaEntry) {
    put(leaf, at.saturating_add(offset_of!(RawEntry, inodes)), &counts.inodes.to_le_bytes());
    put(leaf, at.saturating_add(offset_of!(RawEntry, bytes)), &counts.bytes.to_le_bytes());
    mark_used(leaf, at);
}

/// An entry of zeros would be an unused one: that of id 0, who has nothing and no limits, gets a
/// time when a limit of inodes ends, which says nothing without the limit.
fn mark_used(leaf: &mut [u8], at: usize) {
    let end = at.saturating_add(ENTRY);
    if leaf.get(at..end).is_some_and(is_unused) {
        put(leaf, at.saturating_add(INODE_TIME), &1_u64.to_le_bytes());
    }
}

fn is_unused(entry: &[u8]) -> bool {
    entry.iter().all(|byte| *byte == 0)
}

/// The places of a leaf's entries, in bytes, and what is there.
fn slots(leaf: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let slots = leaf.get(LEAF_HEAD..).unwrap_or_default().chunks_exact(ENTRY);
    (LEAF_HEAD..).step_by(ENTRY).zip(slots)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

/// Bytes of an entry.
const ENTRY: usize = size_of::<RawEntry>();
/// Where in an entry the time is when its limit of inodes ends: the second of `times`.
const INODE_TIME: usize = offset_of!(RawEntry, times) + 8;
/// Where a leaf counts its entries.
const LEAF_COUNT: usize = 8;

/// The number by which a file of users, of groups, of projects is known.
const MAGICS: [u32; 3] = [0xd9c0_1f11, 0xd9c0_1927, 0xd9c0_3f14];
/// How long more than a limit may be used, in seconds, when nothing else is asked: a week.
const GRACE_SECONDS: u32 = 7 * 24 * 60 * 60;

/// A new quota file.
pub struct NewFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its blocks of [`BLOCK_BYTES`], in the order in which they are written first.
    pub order: Vec<u32>,
}

/// Entries that a leaf has room for.
const LEAF_ENTRIES: usize = (BLOCK_BYTES as usize - LEAF_HEAD) / size_of::<RawEntry>();

/// A file of users (0), groups (1) or projects (2) with these entries, each of another one. Leaves
/// are filled one after the other.
pub fn new_file(kind: usize, entries: &[QuotaEntry]) -> NewFile {
    const BLOCK: usize = BLOCK_BYTES as usize;
    let mut bytes = vec![0; 2 * BLOCK];
    let mut order = vec![0];
    let mut leaf = None;
    for (at, entry) in entries.iter().enumerate() {
        let number = at.checked_rem(LEAF_ENTRIES).unwrap_or(0);
        if number == 0 {
            leaf = None;
        }
        let mut block = ROOT_BLOCK;
        for (step, byte) in (1..=STEPS).zip(entry.id.to_be_bytes()) {
            let slot = (block as usize).saturating_mul(BLOCK).saturating_add(usize::from(byte) * 4);
            let known = u32_at(&bytes, slot);
            let next = match (known, step, leaf) {
                (1.., _, _) => known,
                (0, STEPS, Some(leaf)) => leaf,
                (0, _, _) => {
                    let added = u32::try_from(bytes.len() / BLOCK).unwrap_or(u32::MAX);
                    bytes.resize(bytes.len().saturating_add(BLOCK), 0);
                    order.push(added);
                    if step == STEPS {
                        leaf = Some(added);
                    }
                    added
                }
            };
            put(&mut bytes, slot, &next.to_le_bytes());
            block = next;
        }
        if at == 0 {
            order.push(ROOT_BLOCK);
        }
        let start = (block as usize).saturating_mul(BLOCK);
        let count = u16::try_from(number).unwrap_or(0).saturating_add(1);
        put(&mut bytes, start.saturating_add(8), &count.to_le_bytes());
        let at = number.saturating_mul(size_of::<RawEntry>()).saturating_add(LEAF_HEAD);
        let at = start.saturating_add(at);
        let field = |offset: usize| at.saturating_add(offset);
        put(&mut bytes, field(offset_of!(RawEntry, id)), &entry.id.to_le_bytes());
        put(&mut bytes, field(offset_of!(RawEntry, inodes)), &entry.inodes.to_le_bytes());
        put(&mut bytes, field(offset_of!(RawEntry, bytes)), &entry.bytes.to_le_bytes());
        mark_used(&mut bytes, at);
        if count as usize == LEAF_ENTRIES {
            leaf = None;
        }
    }
    let blocks = u32::try_from(bytes.len() / BLOCK).unwrap_or(u32::MAX);
    let magic = MAGICS.get(kind).copied().unwrap_or_default();
    put(&mut bytes, offset_of!(RawHead, magic), &magic.to_le_bytes());
    put(&mut bytes, offset_of!(RawHead, version), &VERSION.to_le_bytes());
    for slot in 0..2 {
        let at = offset_of!(RawHead, times_and_flags).saturating_add(4_usize.saturating_mul(slot));
        put(&mut bytes, at, &GRACE_SECONDS.to_le_bytes());
    }
    put(&mut bytes, offset_of!(RawHead, blocks), &blocks.to_le_bytes());
    put(&mut bytes, offset_of!(RawHead, free_entry), &leaf.unwrap_or(0).to_le_bytes());
    NewFile { bytes, order }
}

const _: () = assert!(size_of::<RawEntry>() == 72);
