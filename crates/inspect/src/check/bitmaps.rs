//! Pass 5: bitmaps and counters against what was found.
//!
//! *Invariants*: a group is compared by one thread; a group whose bitmap was never written is
//! compared with its metadata.
use super::codes::Code;
use super::problem::{Pass, Problem};
use super::state::{GroupState, State};
use super::work::{self, Worker};
use crate::error::Error;
use extant_block::Holes;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino, bitmap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups of one piece: their bitmaps lie together with flex_bg, and are read together.
const PIECE: u32 = 16;

/// What the groups add up to.
#[derive(Default)]
pub(crate) struct Totals {
    free_clusters: AtomicU64,
    free_inodes: AtomicU64,
    used_inodes: AtomicU64,
    directories: AtomicU64,
}

/// Runs the pass, and fills in the summary.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    let groups = state.groups.len() as u64;
    let bytes = groups * 2 * state.volume.block_size() as u64;
    state.meter.begin(Pass::Bitmaps, bytes, &*state.clock);
    work::share::<GroupReader>(state, "check-bitmaps", groups.div_ceil(PIECE.into()))?;
    let superblock = state.volume.superblock();
    if state.groups.len() as u64 != u64::from(superblock.group_count()) {
        return Ok(());
    }
    let free_blocks = state.totals.free_clusters.load(Ordering::Relaxed)
        * u64::from(state.volume.cluster_blocks());
    if free_blocks != superblock.free_blocks {
        let problem = Problem::new(Code::FreeBlocks).found(superblock.free_blocks);
        state.tell(problem.expected(free_blocks));
    }
    let free_inodes = state.totals.free_inodes.load(Ordering::Relaxed);
    if free_inodes != u64::from(superblock.free_inodes) {
        let problem = Problem::new(Code::FreeInodes).found(superblock.free_inodes);
        state.tell(problem.expected(free_inodes));
    }
    Ok(())
}

/// The summary of a report, when all passes are done.
pub(crate) fn summary(state: &State) -> super::Summary {
    let superblock = state.volume.superblock();
    let free = state.totals.free_clusters.load(Ordering::Relaxed)
        * u64::from(state.volume.cluster_blocks());
    super::Summary {
        inodes: superblock.inodes_count.into(),
        inodes_used: state.totals.used_inodes.load(Ordering::Relaxed),
        directories: state.totals.directories.load(Ordering::Relaxed),
        blocks: superblock.blocks_count,
        blocks_used: superblock.blocks_count.saturating_sub(free),
    }
}

/// A thread that compares groups.
#[derive(Default)]
pub(crate) struct GroupReader {
    blocks: Bitmaps,
    inodes: Bitmaps,
}

/// Bitmaps of neighbouring groups, read together where they lie together.
#[derive(Default)]
struct Bitmaps {
    start: u64,
    bytes: Vec<u8>,
    holes: Holes,
}

impl Bitmaps {
    /// Reads those that lie right behind the first one.
    fn read(
        &mut self,
        state: &State,
        what: &'static str,
        places: impl Iterator<Item = BlockNo>,
    ) -> Result<(), Error> {
        let mut places = places.peekable();
        let Some(first) = places.peek().copied() else {
            self.bytes.clear();
            return Ok(());
        };
        let mut blocks = 0;
        for place in places {
            if place.0 != first.0 + blocks {
                break;
            }
            blocks += 1;
        }
        let bytes = usize::try_from(blocks).unwrap_or(0) * state.volume.block_size();
        self.start = first.0;
        if state.volume.is_hole(&mut self.holes, first, blocks)? {
            self.bytes.clear();
            self.bytes.resize(bytes, 0);
            return Ok(());
        }
        self.bytes.resize(bytes, 0);
        state.read(what, first, &mut self.bytes)
    }

    /// The bitmap at that block, if it was read.
    fn at(&self, state: &State, place: BlockNo) -> Option<&[u8]> {
        let block_size = state.volume.block_size();
        let at = usize::try_from(place.0.checked_sub(self.start)?).ok()?.checked_mul(block_size)?;
        self.bytes.get(at..at.checked_add(block_size)?)
    }
}

impl Worker for GroupReader {
    fn work(&mut self, state: &Arc<State>, piece: u64) -> Result<(), Error> {
        let first = u32::try_from(piece).unwrap_or(0) * PIECE;
        let groups = || {
            (first..)
                .take(PIECE as usize)
                .map_while(|number| Some((number, state.groups.get(number as usize)?)))
        };
        let with_blocks = groups().filter(|(_, group)| group.reads_block_bitmap());
        let block_places = with_blocks.map(|(_, group)| group.descriptor.block_bitmap);
        self.blocks.read(state, "block bitmap", block_places)?;
        let with_inodes = groups().filter(|(_, group)| group.reads_inode_bitmap());
        let inode_places = with_inodes.map(|(_, group)| group.descriptor.inode_bitmap);
        self.inodes.read(state, "inode bitmap", inode_places)?;
        for (number, group) in groups() {
            self.compare_blocks(state, GroupNo(number), group)?;
            self.compare_inodes(state, GroupNo(number), group)?;
        }
        Ok(())
    }
}

impl GroupState {
    fn reads_block_bitmap(&self) -> bool {
        self.has_block_bitmap && self.descriptor.flags & BLOCK_UNINIT == 0
    }

    fn reads_inode_bitmap(&self) -> bool {
        self.has_inode_bitmap && self.descriptor.flags & INODE_UNINIT == 0
    }
}

impl GroupReader {
    fn compare_blocks(
        &mut self,
        state: &State,
        group: GroupNo,
        of: &GroupState,
    ) -> Result<(), Error> {
        let superblock = state.volume.superblock();
        let clusters = Bits::of_blocks(state, group);
        let found = clusters.found(state);
        let free = clusters.count - bits_set(&found, clusters.count);
        state.totals.free_clusters.fetch_add(free.into(), Ordering::Relaxed);
        if free != of.descriptor.free_blocks {
            let problem = Problem::new(Code::GroupFreeBlocks).group(group);
            state.tell(problem.found(of.descriptor.free_blocks).expected(free));
        }
        if !of.has_block_bitmap {
            return Ok(());
        }
        if !of.reads_block_bitmap() {
            let own = clusters.metadata(state);
            clusters.tell(state, group, &found, &own);
            return Ok(());
        }
        if self.blocks.at(state, of.descriptor.block_bitmap).is_none() {
            self.blocks.read(state, "block bitmap", std::iter::once(of.descriptor.block_bitmap))?;
        }
        let Some(bytes) = self.blocks.at(state, of.descriptor.block_bitmap) else {
            return Ok(());
        };
        let bits = superblock.blocks_per_group >> state.volume.cluster_blocks().trailing_zeros();
        if superblock.has(Feature::METADATA_CSUM)
            && !checksum_fits(state, &of.descriptor, bytes, bits, Which::Blocks)
        {
            state.tell(
                Problem::new(Code::BlockBitmapChecksum)
                    .group(group)
                    .block(of.descriptor.block_bitmap),
            );
        }
        if !tail_is_set(bytes, clusters.count) {
            state.tell(
                Problem::new(Code::BlockBitmapPadding)
                    .group(group)
                    .block(of.descriptor.block_bitmap),
            );
        }
        clusters.tell(state, group, &found, &words(bytes));
        Ok(())
    }

    fn compare_inodes(
        &mut self,
        state: &State,
        group: GroupNo,
        of: &GroupState,
    ) -> Result<(), Error> {
        let superblock = state.volume.superblock();
        let bits = Bits::of_inodes(state, group);
        let (found, directories) = bits.used_inodes(state);
        let used = bits_set(&found, bits.count);
        let free = bits.count - used;
        state.totals.free_inodes.fetch_add(free.into(), Ordering::Relaxed);
        state.totals.used_inodes.fetch_add(used.into(), Ordering::Relaxed);
        state.totals.directories.fetch_add(directories.into(), Ordering::Relaxed);
        if free != of.descriptor.free_inodes {
            let problem = Problem::new(Code::GroupFreeInodes).group(group);
            state.tell(problem.found(of.descriptor.free_inodes).expected(free));
        }
        if directories != of.descriptor.used_directories {
            let problem = Problem::new(Code::GroupDirectories).group(group);
            state.tell(problem.found(of.descriptor.used_directories).expected(directories));
        }
        if !of.has_inode_bitmap {
            return Ok(());
        }
        if !of.reads_inode_bitmap() {
            bits.tell(state, group, &found, &vec![0; found.len()]);
            return Ok(());
        }
        if self.inodes.at(state, of.descriptor.inode_bitmap).is_none() {
            self.inodes.read(state, "inode bitmap", std::iter::once(of.descriptor.inode_bitmap))?;
        }
        let Some(bytes) = self.inodes.at(state, of.descriptor.inode_bitmap) else {
            return Ok(());
        };
        let count = superblock.inodes_per_group;
        if superblock.has(Feature::METADATA_CSUM)
            && !checksum_fits(state, &of.descriptor, bytes, count, Which::Inodes)
        {
            state.tell(
                Problem::new(Code::InodeBitmapChecksum)
                    .group(group)
                    .block(of.descriptor.inode_bitmap),
            );
        }
        if !tail_is_set(bytes, count) {
            state.tell(
                Problem::new(Code::InodeBitmapPadding)
                    .group(group)
                    .block(of.descriptor.inode_bitmap),
            );
        }
        bits.tell(state, group, &found, &words(bytes));
        Ok(())
    }
}

/// Which bitmap a checksum is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Blocks,
    Inodes,
}

/// Whether the descriptor has the checksum of the bitmap's first `bits`.
fn checksum_fits(
    state: &State,
    descriptor: &GroupDescriptor,
    bytes: &[u8],
    bits: u32,
    which: Which,
) -> bool {
    let superblock = state.volume.superblock();
    let covered = bytes.get(..(bits / 8) as usize).unwrap_or(bytes);
    let sum = extant_format::checksum::bitmap(superblock.checksum_seed, covered);
    let stored = match which {
        Which::Blocks => descriptor.block_bitmap_checksum,
        Which::Inodes => descriptor.inode_bitmap_checksum,
    };
    let mask = if superblock.descriptor_size >= 64 { u32::MAX } else { 0xffff };
    sum & mask == stored
}

/// Whether all bits from `from` to the end of the block are set.
fn tail_is_set(bytes: &[u8], from: u32) -> bool {
    let bits = u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX);
    bitmap::next_clear(bytes, from, bits).is_none()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn bits_set(words: &[u64], count: u32) -> u32 {
    let all: u32 = words.iter().map(|word| word.count_ones()).sum();
    debug_assert!(all <= count, "bits behind the end are clear");
    all
}

/// The bits of a group.
struct Bits {
    /// Number of the first one on the volume.
    first: u64,
    count: u32,
    which: Which,
}

impl Bits {
    fn of_blocks(state: &State, group: GroupNo) -> Bits {
        let superblock = state.volume.superblock();
        let cluster = u64::from(state.volume.cluster_blocks());
        let blocks = u64::from(superblock.group_length(group));
        Bits {
            first: superblock.group_start(group).0 / cluster,
            count: u32::try_from(blocks.div_ceil(cluster)).unwrap_or(u32::MAX),
            which: Which::Blocks,
        }
    }

    fn of_inodes(state: &State, group: GroupNo) -> Bits {
        let per_group = state.volume.superblock().inodes_per_group;
        Bits {
            first: u64::from(group.0) * u64::from(per_group) + 1,
            count: per_group,
            which: Which::Inodes,
        }
    }

    /// The bits of the last word that count.
    fn mask(&self, word: usize) -> u64 {
        let behind = u64::from(self.count).saturating_sub(word as u64 * 64);
        if behind >= 64 { u64::MAX } else { (1 << behind) - 1 }
    }

    /// The clusters that were claimed.
    fn found(&self, state: &State) -> Vec<u64> {
        state.claims.words(self.first, self.count)
    }

    /// The clusters of the group's metadata.
    fn metadata(&self, state: &State) -> Vec<u64> {
        let cluster = u64::from(state.volume.cluster_blocks());
        let mut words = vec![0_u64; self.count.div_ceil(64) as usize];
        let end = self.first + u64::from(self.count);
        let behind = state.metadata.partition_point(|run| run.start.0 < end * cluster);
        let before = state.metadata.partition_point(|run| run.start.0 < self.first * cluster);
        let near = state.metadata.get(before.saturating_sub(4)..behind).unwrap_or_default();
        for run in near {
            let from = (run.start.0 / cluster).max(self.first);
            let to = ((run.start.0 + run.length - 1) / cluster + 1).min(end);
            if from < to {
                super::claims::set_bits(
                    &mut words,
                    (from - self.first) as usize,
                    (to - self.first) as usize,
                );
            }
        }
        words
    }

    /// The inodes in use, reserved ones included; and how many of them are directories.
    fn used_inodes(&self, state: &State) -> (Vec<u64>, u32) {
        let first_inode = state.volume.superblock().first_inode;
        let mut words = vec![0_u64; self.count.div_ceil(64) as usize];
        let mut directories = 0;
        let first = u32::try_from(self.first).unwrap_or(u32::MAX);
        let reserved = first_inode.saturating_sub(first).min(self.count);
        super::claims::set_bits(&mut words, 0, reserved as usize);
        if !state.inodes.any_used(Ino(first), self.count) {
            return (words, 0);
        }
        for index in 0..self.count {
            let facts = state.inodes.get(Ino(first.saturating_add(index)));
            if facts.is_used() {
                words[(index / 64) as usize] |= 1 << (index % 64);
            }
            directories +=
                u32::from(facts.is_directory() && !facts.is_reserved() && facts.links() != 0);
        }
        (words, directories)
    }

    /// Tells how the bitmap differs from what was found.
    fn tell(&self, state: &State, group: GroupNo, found: &[u64], stored: &[u64]) {
        let (mut missing, mut extra) = (Difference::default(), Difference::default());
        for (index, found) in found.iter().enumerate() {
            let stored = stored.get(index).copied().unwrap_or(0) & self.mask(index);
            if *found != stored {
                missing.add(index, found & !stored);
                extra.add(index, stored & !found);
            }
        }
        let codes = match self.which {
            Which::Blocks => [Code::BlocksMarkedFree, Code::BlocksMarkedUsed],
            Which::Inodes => [Code::InodesMarkedFree, Code::InodesMarkedUsed],
        };
        for (difference, code) in [missing, extra].iter().zip(codes) {
            let Some(bit) = difference.first else { continue };
            let number = self.first + bit;
            let problem = Problem::new(code).group(group).found(difference.count);
            state.tell(match self.which {
                Which::Blocks => {
                    problem.block(BlockNo(number * u64::from(state.volume.cluster_blocks())))
                }
                Which::Inodes => problem.ino(Ino(u32::try_from(number).unwrap_or(u32::MAX))),
            });
        }
    }
}

/// Bits that differ.
#[derive(Default)]
struct Difference {
    first: Option<u64>,
    count: u32,
}

impl Difference {
    fn add(&mut self, index: usize, word: u64) {
        if word != 0 {
            let bit = index as u64 * 64 + u64::from(word.trailing_zeros());
            self.first.get_or_insert(bit);
            self.count += word.count_ones();
        }
    }
}
