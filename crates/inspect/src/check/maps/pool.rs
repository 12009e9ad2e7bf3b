//! In which order map blocks are read.
//!
//! In [`ReadOrder::DiskOrder`](crate::ReadOrder) the map blocks of all files are put into one pool,
//! whatever their level, and taken out of it by place: an elevator over the disk. Neighbours are
//! read in one large request, so a metacluster is read whole; each thread has one request under
//! way. The pool is bounded: above its limit threads read before they look at more inodes.
//!
//! In [`ReadOrder::Vanilla`](crate::ReadOrder), the order of the checkers of ext2 and ext3, up to
//! 256 inodes of a group are sorted by their first indirect block, and each is followed to its end,
//! one block a read.
//!
//! *Invariants*: a thread that takes blocks from the pool gives their children back before it
//! counts as idle; the pool is done when it is empty and no thread is at work.
//! *Locking*: the pool's short lock, never held across I/O.
use super::claimant::Claimant;
use super::judge_block;
use super::walk::MapBlock;
use crate::error::Error;
use extant_block::{Holes, ShortLock, WaitQueue};
use extant_format::BlockNo;
use std::collections::BTreeMap;

/// Map blocks in the pool above which no more inodes are looked at.
const POOL_MAX: usize = 32 * 1024;
/// Bytes of one read, at most.
const READ_BYTES: usize = 512 << 10;
/// Bytes between two map blocks that are read along rather than skipped.
const GAP_BYTES: usize = 16 * 1024;
/// Inodes that are sorted together in vanilla order.
const VANILLA_INODES: usize = 256;

/// Map blocks that wait to be read, by place.
pub(crate) struct Pool {
    pending: ShortLock<Pending>,
    changed: WaitQueue,
}

#[derive(Default)]
struct Pending {
    /// By block, then by arrival.
    blocks: BTreeMap<(BlockNo, u64), MapBlock>,
    arrived: u64,
    /// Where the elevator is.
    cursor: BlockNo,
    /// Threads that read and may give children.
    at_work: u32,
    has_failed: bool,
}

impl Pool {
    /// An empty pool, whose threads wait for each other in `changed`.
    pub(crate) fn new(changed: WaitQueue) -> Pool {
        Pool { pending: ShortLock::default(), changed }
    }

    /// Adds map blocks; empties the list. Gives whether the pool is over its limit.
    pub(crate) fn add(&self, blocks: &mut Vec<MapBlock>) -> bool {
        let mut pending = self.pending.lock();
        pending.add(blocks);
        pending.blocks.len() > POOL_MAX
    }

    /// Whether no map block waits, at a moment when no thread adds one.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.lock().blocks.is_empty()
    }
}

impl Pending {
    fn add(&mut self, blocks: &mut Vec<MapBlock>) {
        for block in blocks.drain(..) {
            self.arrived += 1;
            self.blocks.insert((block.block, self.arrived), block);
        }
    }

    /// The next blocks that are read together: from the cursor upwards, and after the last block
    /// from the start again.
    fn take(&mut self, block_size: usize) -> Option<Vec<MapBlock>> {
        let ahead = self.blocks.range((self.cursor, 0)..).next().map(|(key, _)| *key);
        let mut key = ahead.or_else(|| self.blocks.keys().next().copied())?;
        let first = key.0;
        let mut taken = Vec::new();
        loop {
            taken.extend(self.blocks.remove(&key));
            let Some(next) = self.blocks.range(key..).next().map(|(key, _)| *key) else {
                break;
            };
            let gap = (next.0.0 - key.0.0).saturating_sub(1) as usize * block_size;
            let bytes = (next.0.0 - first.0 + 1) as usize * block_size;
            if gap > GAP_BYTES || bytes > READ_BYTES {
                break;
            }
            key = next;
        }
        self.cursor = BlockNo(key.0.0 + 1);
        self.at_work += 1;
        Some(taken)
    }
}

/// What a thread reads map blocks with.
#[derive(Default)]
pub(crate) struct MapReader {
    buffer: Vec<u8>,
    children: Vec<MapBlock>,
    holes: Holes,
}

impl MapReader {
    /// Reads from the pool until it is at half its limit.
    pub(crate) fn relieve(&mut self, pool: &Pool, claimant: &impl Claimant) -> Result<(), Error> {
        loop {
            let mut pending = pool.pending.lock();
            if pending.blocks.len() <= POOL_MAX / 2 {
                return Ok(());
            }
            let Some(taken) = pending.take(claimant.facts().volume.block_size()) else {
                return Ok(());
            };
            drop(pending);
            self.read(pool, claimant, taken)?;
        }
    }

    /// Reads from the pool until nothing is left of it, and no thread can add to it.
    pub(crate) fn drain(&mut self, pool: &Pool, claimant: &impl Claimant) -> Result<(), Error> {
        let block_size = claimant.facts().volume.block_size();
        let next = |pending: &mut Pending| {
            let taken = if pending.has_failed { None } else { pending.take(block_size) };
            match taken {
                Some(taken) => Some(Some(taken)),
                None => (pending.at_work == 0 || pending.has_failed).then_some(None),
            }
        };
        while let Some(taken) = pool.changed.wait_until(&pool.pending, next) {
            self.read(pool, claimant, taken)?;
        }
        Ok(())
    }

    /// Reads blocks that are near each other, judges each, and gives their children to the pool.
    fn read(
        &mut self,
        pool: &Pool,
        claimant: &impl Claimant,
        taken: Vec<MapBlock>,
    ) -> Result<(), Error> {
        let done = self.read_run(claimant, &taken);
        drop(taken);
        let mut pending = pool.pending.lock();
        pending.add(&mut self.children);
        pending.at_work -= 1;
        pending.has_failed |= done.is_err();
        drop(pending);
        if claimant.facts().threads.count() > 1 {
            pool.changed.wake_all();
        }
        done
    }

    fn read_run(&mut self, claimant: &impl Claimant, taken: &[MapBlock]) -> Result<(), Error> {
        let (Some(first), Some(last)) = (taken.first(), taken.last()) else {
            return Ok(());
        };
        let facts = claimant.facts();
        let block_size = facts.volume.block_size();
        let first = first.block.0;
        if facts.volume.is_hole(&mut self.holes, BlockNo(first), last.block.0 - first + 1)? {
            // No bytes are judged as zeros are: nothing is mapped, and no node is there.
            for map_block in taken {
                judge_block(claimant, map_block, &[], &mut self.children);
            }
            return Ok(());
        }
        let bytes = (last.block.0 - first + 1) as usize * block_size;
        self.buffer.resize(bytes.max(self.buffer.len()), 0);
        let buffer = self.buffer.get_mut(..bytes).unwrap_or_default();
        facts.read("map", BlockNo(first), buffer)?;
        for map_block in taken {
            let at = (map_block.block.0 - first) as usize * block_size;
            let bytes = self.buffer.get(at..at + block_size).unwrap_or_default();
            judge_block(claimant, map_block, bytes, &mut self.children);
        }
        Ok(())
    }

    /// Follows one file's map to its end, one block a read, in the order of the file.
    pub(crate) fn follow(
        &mut self,
        claimant: &impl Claimant,
        roots: Vec<MapBlock>,
    ) -> Result<(), Error> {
        let mut stack = roots;
        stack.reverse();
        self.buffer.resize(claimant.facts().volume.block_size(), 0);
        while let Some(map_block) = stack.pop() {
            claimant.facts().read("map", map_block.block, &mut self.buffer)?;
            judge_block(claimant, &map_block, &self.buffer, &mut self.children);
            stack.extend(self.children.drain(..).rev());
        }
        Ok(())
    }
}

/// The inodes that are put aside in vanilla order.
#[derive(Default)]
pub(crate) struct PutAside {
    /// With the first indirect block of each.
    inodes: Vec<(BlockNo, Vec<MapBlock>)>,
}

impl PutAside {
    /// Puts an inode with map blocks aside; empties the list. Gives whether there are enough.
    pub(crate) fn add(&mut self, roots: &mut Vec<MapBlock>) -> bool {
        if let Some(first) = roots.first() {
            self.inodes.push((first.block, std::mem::take(roots)));
        }
        self.inodes.len() >= VANILLA_INODES
    }

    /// Follows the maps of those that were put aside.
    pub(crate) fn follow(
        &mut self,
        claimant: &impl Claimant,
        reader: &mut MapReader,
    ) -> Result<(), Error> {
        self.inodes.sort_by_key(|(first, _)| *first);
        for (_, roots) in self.inodes.drain(..) {
            reader.follow(claimant, roots)?;
        }
        Ok(())
    }
}
