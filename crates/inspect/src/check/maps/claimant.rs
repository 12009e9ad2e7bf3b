//! What is done with the blocks that a walk over a map meets: pass 1 claims them, pass 1b searches
//! for the owners of those that were claimed twice.
//!
//! *Invariants*: a map block is followed once by each claimant, so that the work is bounded by the
//! blocks of the volume. A search claims nothing and reports nothing; the number of owners that it
//! keeps is bounded.
//! *Locking*: the list of owners has a short lock, held for a push.
use super::clusters::{self, DataRun, Edges};
use crate::check::codes::Code;
use crate::check::facts::{DirectoryBlock, Facts};
use crate::check::problem::Problem;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use rustc_hash::FxHashSet;
use std::cell::Cell;

/// Owners that are kept. Those that are found later are not reported.
const OWNERS_MAX: usize = 500_000;

/// Whose a map block is, as far as a claimant needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockOwner {
    /// The file's own.
    File,
    /// It is metadata of the volume, and claimed as that.
    Volume,
}

/// What a walk does with the blocks that it meets.
pub(crate) trait Claimant {
    /// What is known of the volume.
    fn facts(&self) -> &Facts;

    /// A problem of the map was found.
    fn report(&self, problem: Problem);

    /// A map block was met. Gives whether it is to be followed.
    fn map_block(&self, ino: Ino, block: BlockNo, owner: BlockOwner) -> bool;

    /// A run of data was met, all of it on the volume. Gives how many blocks it adds to the file.
    /// With clusters, those at the ends of a node go to `edges`.
    fn data(&self, ino: Ino, run: DataRun, edges: &mut Option<Edges>) -> u64;

    /// A block on the list of bad blocks was met. Gives what is wrong with it.
    fn bad_block(&self, ino: Ino, block: BlockNo) -> Option<Problem>;

    /// Takes blocks of directories; empties the list.
    fn directory_blocks(&self, blocks: &mut Vec<DirectoryBlock>);
}

/// Pass 1: everything is claimed and reported. Files that were written one after the other lie one
/// behind the other: their runs are claimed as one, when another follows or this is dropped.
pub(crate) struct Claiming<'a> {
    facts: &'a Facts,
    /// What is yet to be claimed: the first block, and after the last.
    run: Cell<(u64, u64)>,
}

impl<'a> Claiming<'a> {
    /// Nothing is to be claimed yet.
    pub(crate) fn new(facts: &'a Facts) -> Claiming<'a> {
        Claiming { facts, run: Cell::new((0, 0)) }
    }

    /// Claims a run, now or with those that follow it.
    fn claim(&self, start: BlockNo, length: u64) {
        let (from, to) = self.run.get();
        let end = start.0.saturating_add(length);
        // Two runs may be of one cluster, which then has two owners.
        let may_join = self.facts.volume.cluster_blocks() == 1;
        if may_join && start.0 == to {
            return self.run.set((from, end));
        }
        self.facts.claims.claim_run(BlockNo(from), to - from);
        self.run.set((start.0, end));
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        let (from, to) = self.run.get();
        self.facts.claims.claim_run(BlockNo(from), to - from);
    }
}

impl Claimant for Claiming<'_> {
    fn facts(&self) -> &Facts {
        self.facts
    }

    fn report(&self, problem: Problem) {
        self.facts.report(problem);
    }

    fn map_block(&self, _ino: Ino, block: BlockNo, owner: BlockOwner) -> bool {
        // That it is claimed as data too does not matter: only a map block that was followed is
        // not followed again.
        if owner == BlockOwner::File {
            self.claim(block, 1);
        }
        self.facts.followed.claim_run(block, 1)
    }

    fn data(&self, _ino: Ino, run: DataRun, edges: &mut Option<Edges>) -> u64 {
        let cluster_blocks = u64::from(self.facts.volume.cluster_blocks());
        if cluster_blocks > 1 {
            return clusters::claim_inner(&self.facts.claims, cluster_blocks, run, edges);
        }
        self.claim(run.start, run.length);
        run.length
    }

    fn bad_block(&self, ino: Ino, block: BlockNo) -> Option<Problem> {
        if is_kept_for_growth(self.facts, block) {
            // Nothing is stored there yet.
            return None;
        }
        if self.facts.metadata.holds(block) {
            return Some(Problem::new(Code::BadMetadata).ino(ino).block(block));
        }
        self.claim(block, 1);
        None
    }

    fn directory_blocks(&self, blocks: &mut Vec<DirectoryBlock>) {
        self.facts.add_directory_blocks(blocks);
    }
}

/// Whether a block is kept for descriptors that do not exist yet: a bad one harms nothing.
fn is_kept_for_growth(facts: &Facts, block: BlockNo) -> bool {
    let group = facts.volume.superblock().group_of_block(block);
    let copy = group.and_then(|group| facts.volume.copy(group));
    let kept = copy.and_then(|copy| copy.reserved_descriptors);
    kept.is_some_and(|kept| (kept.first..=kept.last).contains(&block.0))
}

/// A block (of a cluster the first) and an inode that has it.
pub(crate) type Owner = (BlockNo, Ino);

/// Pass 1b: owners of blocks that were claimed twice are collected.
pub(crate) struct Searching<'a> {
    facts: &'a Facts,
    collected: ShortLock<Collected>,
}

#[derive(Default)]
struct Collected {
    owners: Vec<Owner>,
    /// Map blocks with several owners that were followed.
    followed: FxHashSet<BlockNo>,
}

impl<'a> Searching<'a> {
    /// No owner is known yet.
    pub(crate) fn new(facts: &'a Facts) -> Searching<'a> {
        Searching { facts, collected: ShortLock::default() }
    }

    /// Adds an inode that has this block, if the block was claimed twice.
    pub(crate) fn add_if_double(&self, block: BlockNo, ino: Ino) {
        if self.facts.claims.is_double(block) {
            self.add(block, ino);
        }
    }

    /// The owners, by block.
    pub(crate) fn owners(self) -> Vec<Owner> {
        let mut owners = std::mem::take(&mut self.collected.lock().owners);
        owners.sort_unstable();
        owners
    }

    fn add(&self, block: BlockNo, ino: Ino) {
        let mut collected = self.collected.lock();
        if collected.owners.len() < OWNERS_MAX {
            collected.owners.push((block, ino));
        }
    }

    /// Whether no more owners are kept: there is nothing left to search for.
    fn is_full(&self) -> bool {
        self.collected.lock().owners.len() >= OWNERS_MAX
    }

    /// Adds the double blocks of a run.
    fn search(&self, ino: Ino, start: BlockNo, length: u64) {
        if self.is_full() {
            return;
        }
        for block in self.facts.claims.double_in(start, length) {
            self.add(block, ino);
        }
    }
}

impl Claimant for Searching<'_> {
    fn facts(&self) -> &Facts {
        self.facts
    }

    fn report(&self, _problem: Problem) {
        // Pass 1 has.
    }

    fn map_block(&self, ino: Ino, block: BlockNo, owner: BlockOwner) -> bool {
        if owner == BlockOwner::File {
            self.search(ino, block, 1);
        }
        let is_first =
            || !self.facts.claims.is_double(block) || self.collected.lock().followed.insert(block);
        !self.is_full() && is_first()
    }

    fn data(&self, ino: Ino, run: DataRun, _edges: &mut Option<Edges>) -> u64 {
        self.search(ino, run.start, run.length);
        0
    }

    fn bad_block(&self, ino: Ino, block: BlockNo) -> Option<Problem> {
        self.search(ino, block, 1);
        None
    }

    fn directory_blocks(&self, blocks: &mut Vec<DirectoryBlock>) {
        blocks.clear();
    }
}
