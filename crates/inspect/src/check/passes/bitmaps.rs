//! Pass 5: bitmaps and counters against what was found.
//!
//! *Invariants*: a group is compared by one thread; a group whose bitmap was never written is
//! compared with its metadata.
use crate::check::codes::Code;
use crate::check::facts::{Facts, GroupFacts};
use crate::check::problem::Problem;
use crate::check::report::Summary;
use crate::check::rule::Pass;
use crate::check::work::Worker;
use crate::claims::set_bits;
use crate::error::Error;
use extant_block::Holes;
use extant_format::group::bitmap_checksum;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino, bitmap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups of one piece: their bitmaps are together with flex_bg, and read together.
const PIECE: u32 = 16;

/// What the threads of this pass share.
struct BitmapPass {
    facts: Arc<Facts>,
    totals: Totals,
}

/// What the groups add up to.
#[derive(Default)]
struct Totals {
    free_clusters: AtomicU64,
    free_inodes: AtomicU64,
    used_inodes: AtomicU64,
    directories: AtomicU64,
}

/// Runs the pass. Gives what is on the volume, as it was counted.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(facts: &Arc<Facts>) -> Result<Summary, Error> {
    let groups = facts.groups.len() as u64;
    let bytes = groups * 2 * facts.volume.block_size() as u64;
    facts.begin(Pass::Bitmaps, bytes);
    let totals = Totals::default();
    let pass = Arc::new(BitmapPass { facts: Arc::clone(facts), totals });
    let pieces = groups.div_ceil(PIECE.into());
    facts.threads.share::<GroupReader>("check-bitmaps", &pass, pieces)?;
    let totals = &pass.totals;
    let superblock = facts.volume.superblock();
    let free_blocks =
        totals.free_clusters.load(Ordering::Relaxed) * u64::from(facts.volume.cluster_blocks());
    let free_inodes = totals.free_inodes.load(Ordering::Relaxed);
    let has_all_groups = facts.groups.len() as u64 == u64::from(superblock.group_count());
    if has_all_groups && free_blocks != superblock.free_blocks {
        let problem = Problem::new(Code::FreeBlocks).found(superblock.free_blocks);
        facts.report(problem.expected(free_blocks));
    }
    if has_all_groups && free_inodes != u64::from(superblock.free_inodes) {
        let problem = Problem::new(Code::FreeInodes).found(superblock.free_inodes);
        facts.report(problem.expected(free_inodes));
    }
    Ok(Summary {
        inodes: superblock.inodes_count.into(),
        inodes_used: totals.used_inodes.load(Ordering::Relaxed),
        directories: totals.directories.load(Ordering::Relaxed),
        blocks: superblock.blocks_count,
        blocks_used: superblock.blocks_count.saturating_sub(free_blocks),
        large_trees: facts.shapes.large_trees().len() as u64,
        unindexed_directories: facts.shapes.unindexed().len() as u64,
    })
}

/// A thread that compares groups.
#[derive(Default)]
struct GroupReader {
    blocks: Bitmaps,
    inodes: Bitmaps,
}

/// Bitmaps of neighbouring groups, read together where they are together.
#[derive(Default)]
struct Bitmaps {
    start: u64,
    bytes: Vec<u8>,
    holes: Holes,
}

impl Bitmaps {
    /// Reads those that follow the first one without a gap.
    fn read(
        &mut self,
        facts: &Facts,
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
        let bytes = usize::try_from(blocks).unwrap_or(0) * facts.volume.block_size();
        self.start = first.0;
        if facts.volume.is_hole(&mut self.holes, first, blocks)? {
            self.bytes.clear();
            self.bytes.resize(bytes, 0);
            return Ok(());
        }
        self.bytes.resize(bytes, 0);
        facts.read(what, first, &mut self.bytes)
    }

    /// The bitmap at that block, which is read if it was not yet.
    fn read_one(
        &mut self,
        facts: &Facts,
        what: &'static str,
        place: BlockNo,
    ) -> Result<Option<&[u8]>, Error> {
        if self.at(facts, place).is_none() {
            self.read(facts, what, std::iter::once(place))?;
        }
        Ok(self.at(facts, place))
    }

    /// The bitmap at that block, if it was read.
    fn at(&self, facts: &Facts, place: BlockNo) -> Option<&[u8]> {
        let block_size = facts.volume.block_size();
        let at = usize::try_from(place.0.checked_sub(self.start)?).ok()?.checked_mul(block_size)?;
        self.bytes.get(at..at.checked_add(block_size)?)
    }
}

impl Worker for GroupReader {
    type Shared = BitmapPass;

    fn work(&mut self, pass: &BitmapPass, piece: u64) -> Result<(), Error> {
        let facts = &*pass.facts;
        let first = u32::try_from(piece).unwrap_or(0) * PIECE;
        let groups = || {
            (first..)
                .take(PIECE as usize)
                .map_while(|number| Some((number, facts.groups.get(number as usize)?)))
        };
        let with_blocks = groups().filter(|(_, group)| group.reads_block_bitmap());
        let block_places = with_blocks.map(|(_, group)| group.descriptor.block_bitmap);
        self.blocks.read(facts, "block bitmap", block_places)?;
        let with_inodes = groups().filter(|(_, group)| group.reads_inode_bitmap());
        let inode_places = with_inodes.map(|(_, group)| group.descriptor.inode_bitmap);
        self.inodes.read(facts, "inode bitmap", inode_places)?;
        for (number, group) in groups() {
            self.compare_blocks(pass, GroupNo(number), group)?;
            self.compare_inodes(pass, GroupNo(number), group)?;
        }
        Ok(())
    }
}

impl GroupReader {
    fn compare_blocks(
        &mut self,
        pass: &BitmapPass,
        group: GroupNo,
        of: &GroupFacts,
    ) -> Result<(), Error> {
        let (facts, totals) = (&*pass.facts, &pass.totals);
        let superblock = facts.volume.superblock();
        let clusters = Bits::of_blocks(facts, group);
        let found = clusters.found(facts);
        let free = clusters.count - bits_set(&found, clusters.count);
        totals.free_clusters.fetch_add(free.into(), Ordering::Relaxed);
        if free != of.descriptor.free_blocks {
            let problem = Problem::new(Code::GroupFreeBlocks).group(group);
            facts.report(problem.found(of.descriptor.free_blocks).expected(free));
        }
        if of.has_block_bitmap && !of.reads_block_bitmap() {
            // The kernel writes the bitmap of a last group that is not whole, whatever is in it.
            if clusters.count < superblock.blocks_per_group / facts.volume.cluster_blocks() {
                let problem = Problem::new(Code::BlockBitmapPadding).group(group);
                facts.report(problem.block(of.descriptor.block_bitmap));
            }
            clusters.compare(facts, group, &found, &clusters.metadata(facts));
        } else if of.has_block_bitmap {
            let place = of.descriptor.block_bitmap;
            let stored = self.blocks.read_one(facts, "block bitmap", place)?;
            clusters.judge(facts, group, of, &found, stored);
        }
        Ok(())
    }

    fn compare_inodes(
        &mut self,
        pass: &BitmapPass,
        group: GroupNo,
        of: &GroupFacts,
    ) -> Result<(), Error> {
        let (facts, totals) = (&*pass.facts, &pass.totals);
        let bits = Bits::of_inodes(facts, group);
        let (found, directories) = bits.used_inodes(facts);
        let used = bits_set(&found, bits.count);
        let free = bits.count - used;
        totals.free_inodes.fetch_add(free.into(), Ordering::Relaxed);
        totals.used_inodes.fetch_add(used.into(), Ordering::Relaxed);
        totals.directories.fetch_add(directories.into(), Ordering::Relaxed);
        if free != of.descriptor.free_inodes {
            let problem = Problem::new(Code::GroupFreeInodes).group(group);
            facts.report(problem.found(of.descriptor.free_inodes).expected(free));
        }
        if directories != of.descriptor.used_directories {
            let problem = Problem::new(Code::GroupDirectories).group(group);
            facts.report(problem.found(of.descriptor.used_directories).expected(directories));
        }
        if of.has_inode_bitmap && !of.reads_inode_bitmap() {
            bits.compare(facts, group, &found, &vec![0; found.len()]);
        } else if of.has_inode_bitmap {
            let place = of.descriptor.inode_bitmap;
            let stored = self.inodes.read_one(facts, "inode bitmap", place)?;
            bits.judge(facts, group, of, &found, stored);
        }
        Ok(())
    }
}

/// The bits that a bitmap should have, as words of 64; those after the end are clear.
pub struct ExpectedBits {
    /// From the first of the group on.
    pub words: Vec<u64>,
    /// How many there are.
    pub count: u32,
    /// Directories among them; 0 of blocks.
    pub directories: u32,
}

impl ExpectedBits {
    /// How many are clear.
    pub fn free(&self) -> u32 {
        let set: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        self.count.saturating_sub(set)
    }
}

/// The bits that the block bitmap of a group should have.
pub(crate) fn block_bits(facts: &Facts, group: GroupNo) -> ExpectedBits {
    let bits = Bits::of_blocks(facts, group);
    ExpectedBits { words: bits.found(facts), count: bits.count, directories: 0 }
}

/// The bits that the inode bitmap of a group should have.
pub(crate) fn inode_bits(facts: &Facts, group: GroupNo) -> ExpectedBits {
    let bits = Bits::of_inodes(facts, group);
    let (words, directories) = bits.used_inodes(facts);
    ExpectedBits { words, count: bits.count, directories }
}

/// What a bitmap is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BitmapOf {
    Blocks,
    Inodes,
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
    debug_assert!(all <= count, "bits after the end are clear");
    all
}

/// The bits of a group.
struct Bits {
    /// Number of the first one on the volume.
    first: u64,
    count: u32,
    of: BitmapOf,
}

impl Bits {
    fn of_blocks(facts: &Facts, group: GroupNo) -> Bits {
        let superblock = facts.volume.superblock();
        let cluster = u64::from(facts.volume.cluster_blocks());
        let blocks = u64::from(superblock.group_length(group));
        Bits {
            first: superblock.group_start(group).0 / cluster,
            count: u32::try_from(blocks.div_ceil(cluster)).unwrap_or(u32::MAX),
            of: BitmapOf::Blocks,
        }
    }

    fn of_inodes(facts: &Facts, group: GroupNo) -> Bits {
        let per_group = facts.volume.superblock().inodes_per_group;
        Bits {
            first: u64::from(group.0) * u64::from(per_group) + 1,
            count: per_group,
            of: BitmapOf::Inodes,
        }
    }

    /// The bits of the last word that count.
    fn mask(&self, word: usize) -> u64 {
        let left = u64::from(self.count).saturating_sub(word as u64 * 64);
        if left >= 64 { u64::MAX } else { (1 << left) - 1 }
    }

    /// The clusters that were claimed.
    fn found(&self, facts: &Facts) -> Vec<u64> {
        facts.claims.words(self.first, self.count)
    }

    /// The clusters of the group's metadata.
    fn metadata(&self, facts: &Facts) -> Vec<u64> {
        let cluster = u64::from(facts.volume.cluster_blocks());
        let mut words = vec![0_u64; self.count.div_ceil(64) as usize];
        let end = self.first + u64::from(self.count);
        for run in facts.metadata.near(self.first * cluster, end * cluster) {
            let from = (run.start.0 / cluster).max(self.first);
            let to = ((run.start.0 + run.length - 1) / cluster + 1).min(end);
            if from < to {
                let (from, to) = (from - self.first, to - self.first);
                set_bits(&mut words, from as usize, to as usize);
            }
        }
        words
    }

    /// The inodes in use, reserved ones included; and how many of them are directories.
    fn used_inodes(&self, facts: &Facts) -> (Vec<u64>, u32) {
        let first_inode = facts.volume.superblock().first_inode;
        let mut words = vec![0_u64; self.count.div_ceil(64) as usize];
        let mut directories = 0;
        let first = u32::try_from(self.first).unwrap_or(u32::MAX);
        let reserved = first_inode.saturating_sub(first).min(self.count);
        set_bits(&mut words, 0, reserved as usize);
        if !facts.inodes.any_used(Ino(first), self.count) {
            return (words, 0);
        }
        for index in 0..self.count {
            let known = facts.inodes.get(Ino(first.saturating_add(index)));
            if known.is_used() {
                words[(index / 64) as usize] |= 1 << (index % 64);
            }
            directories +=
                u32::from(known.is_directory() && !known.is_reserved() && known.links() != 0);
        }
        (words, directories)
    }

    /// Judges a stored bitmap, if it could be read: its checksum, the bits after its end, and how
    /// it differs from what was found.
    fn judge(
        &self,
        facts: &Facts,
        group: GroupNo,
        of: &GroupFacts,
        found: &[u64],
        stored: Option<&[u8]>,
    ) {
        let Some(bytes) = stored else { return };
        let superblock = facts.volume.superblock();
        let descriptor = &of.descriptor;
        let (place, bits, stored, checksum, padding) = match self.of {
            BitmapOf::Blocks => (
                descriptor.block_bitmap,
                superblock.blocks_per_group / facts.volume.cluster_blocks(),
                descriptor.block_bitmap_checksum,
                Code::BlockBitmapChecksum,
                Code::BlockBitmapPadding,
            ),
            BitmapOf::Inodes => (
                descriptor.inode_bitmap,
                superblock.inodes_per_group,
                descriptor.inode_bitmap_checksum,
                Code::InodeBitmapChecksum,
                Code::InodeBitmapPadding,
            ),
        };
        if superblock.has(Feature::METADATA_CSUM)
            && stored != bitmap_checksum(bytes, bits, superblock)
        {
            facts.report(Problem::new(checksum).group(group).block(place));
        }
        if !tail_is_set(bytes, self.count) {
            facts.report(Problem::new(padding).group(group).block(place));
        }
        self.compare(facts, group, found, &words(bytes));
    }

    /// Reports how the bitmap differs from what was found.
    fn compare(&self, facts: &Facts, group: GroupNo, found: &[u64], stored: &[u64]) {
        let (mut missing, mut extra) = (Difference::default(), Difference::default());
        for (index, found) in found.iter().enumerate() {
            let stored = stored.get(index).copied().unwrap_or(0) & self.mask(index);
            if *found != stored {
                missing.add(index, found & !stored);
                extra.add(index, stored & !found);
            }
        }
        let codes = match self.of {
            BitmapOf::Blocks => [Code::BlocksMarkedFree, Code::BlocksMarkedUsed],
            BitmapOf::Inodes => [Code::InodesMarkedFree, Code::InodesMarkedUsed],
        };
        for (difference, code) in [missing, extra].iter().zip(codes) {
            let Some(bit) = difference.first else { continue };
            let number = self.first + bit;
            let problem = Problem::new(code).group(group).found(difference.count);
            facts.report(match self.of {
                BitmapOf::Blocks => {
                    problem.block(BlockNo(number * u64::from(facts.volume.cluster_blocks())))
                }
                BitmapOf::Inodes => problem.ino(Ino(u32::try_from(number).unwrap_or(u32::MAX))),
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
