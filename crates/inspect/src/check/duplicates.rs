//! Pass 1b: who has the blocks that were claimed more than once.
//!
//! All inodes are walked once more, in order and by one thread: what was found does not depend on
//! who claimed a block first. While [`State::is_searching`] is set, nothing is claimed or told;
//! claims of double blocks are collected instead.
//!
//! *Invariants*: a map block that two have is followed once. The number of owners that are kept is
//! bounded.
//! *Locking*: the list of owners has a short lock, held for a push.
use super::codes::Code;
use super::inodes;
use super::problem::{Pass, Problem};
use super::state::State;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Owners that are kept; whoever comes later is not told.
const OWNERS_MAX: usize = 500_000;

/// Who has double blocks, as far as it was found.
#[derive(Default)]
pub(crate) struct Owners(ShortLock<Found>);

#[derive(Default)]
struct Found {
    /// Block (of a cluster the first) and inode.
    owners: Vec<(BlockNo, Ino)>,
    followed: FxHashSet<BlockNo>,
}

impl Owners {
    /// An inode has this double block.
    pub(crate) fn add(&self, block: BlockNo, ino: Ino) {
        let mut found = self.0.lock();
        if found.owners.len() < OWNERS_MAX {
            found.owners.push((block, ino));
        }
    }

    /// Whether no more owners are kept: there is nothing left to search for.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().owners.len() >= OWNERS_MAX
    }

    /// Whether this double map block is followed for the first time.
    pub(crate) fn follow(&self, block: BlockNo) -> bool {
        self.0.lock().followed.insert(block)
    }
}

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    if state.volume.superblock().has(super::superblock::SHARED_BLOCKS) {
        // Files share blocks on purpose.
        return Ok(());
    }
    let bytes = state.volume.superblock().inode_size;
    let inodes: u64 = state.groups.iter().map(|group| u64::from(group.inodes_used)).sum();
    state.meter.begin(Pass::Duplicates, inodes * u64::from(bytes), &*state.clock);
    state.set_searching(true);
    let searched = inodes::search(state);
    for sharer in state.sharers.sorted() {
        if state.claims.is_double(sharer.block) {
            state.owners.add(sharer.block, sharer.ino);
        }
    }
    state.set_searching(false);
    searched?;
    tell(state);
    Ok(())
}

/// What is told of one inode.
#[derive(Default)]
struct Shared {
    count: u64,
    first: Option<(BlockNo, Option<Ino>)>,
}

/// One problem an inode and kind: with metadata, with itself, with another.
fn tell(state: &State) {
    let mut owners = std::mem::take(&mut state.owners.0.lock().owners);
    owners.sort_unstable();
    let mut shared: BTreeMap<(Ino, Code), Shared> = BTreeMap::new();
    for owners in owners.chunk_by(|a, b| a.0 == b.0) {
        let Some(block) = owners.first().map(|owner| owner.0) else {
            continue;
        };
        let is_metadata = state.is_metadata(block);
        for (index, (_, ino)) in owners.iter().enumerate() {
            let other = owners.iter().map(|owner| owner.1).find(|other| other != ino);
            let again = index > 0 && owners.get(index - 1).is_some_and(|before| before.1 == *ino);
            let code = match other {
                _ if is_metadata => Code::BlocksOfMetadata,
                _ if again => Code::BlocksTwiceInFile,
                Some(_) => Code::BlocksOfOther,
                None => continue,
            };
            let shared = shared.entry((*ino, code)).or_default();
            shared.count += 1;
            shared.first.get_or_insert((block, other));
        }
    }
    for ((ino, code), shared) in shared {
        let Some((block, other)) = shared.first else { continue };
        let problem = Problem::new(code).ino(ino).block(block).found(shared.count);
        state.tell(match other {
            Some(other) if code == Code::BlocksOfOther => problem.other(other),
            _ => problem,
        });
    }
}
