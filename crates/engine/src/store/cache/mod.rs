//! Frames: metadata blocks in memory, keyed by their place on the volume.
//!
//! ```text
//!            read: fill, verify            modify
//!   (none) ---------------------> Clean ----------> Dirty --- sweep: seal, freeze ---> Writing
//!     |  create: zeros                ^               ^  \                             |   |
//!     +-------------------------------|---------------+   +--- forget ---> (none)      |   |
//!                                     +---------------------- written -----------------+   |
//!                                                     ^-------- modified meanwhile --------+
//! ```
//!
//! `transit` says where the bytes that a sweep took are: `Frozen` until the device is given them,
//! `UnderWay` until it has answered. A change meanwhile copies, and makes the frame dirty again.
//!
//! *Invariants*: a frame's bytes are changed only through `modify`; whoever took `bytes()` keeps
//! what he saw, because a change copies what is shared. A checksum is verified once, when a frame
//! is filled, and stored once, when it is written. A forgotten frame is written by no sweep that
//! begins later.
//!
//! *Locking*: a shard's map is under a short lock, a frame's state under another (shard before
//! frame); a filling frame is waited for on its shard's queue with no lock held. Write-back sorts
//! by block and holds nothing but `sweep`, a sleeping lock that comes behind all inodes, while it
//! writes.
mod fill;
mod sweep;

use crate::error::{Error, Place, Result};
use crate::policy::preset::DataOrder;
use crate::ranks;
use crate::store::barrier::Barrier;
use crate::store::budget::Seat;
use crate::store::latch::Latch;
use crate::store::writes::Writes;
use extant_block::lock::ShortGuard;
use extant_block::{BlockDevice, ShortLock, SleepLock, WaitQueue};
use extant_format::directory::Style;
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Fault, FileBlock, Ino, Run, attribute, extent};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a metadata block holds: how its checksum is verified and stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No checksum of its own: indirect blocks, descriptors, bitmaps and inode tables (whose owners
    /// store theirs).
    Plain,
    /// A block of a directory.
    Directory {
        /// Whose.
        ino: Ino,
        /// Seed of that inode's checksums.
        seed: u32,
        /// Where in the directory.
        block: FileBlock,
        /// Whether the directory has a hash index.
        indexed: bool,
    },
    /// A node of an extent tree.
    Extents {
        /// Whose.
        ino: Ino,
        /// Seed of that inode's checksums.
        seed: u32,
    },
    /// Extended attributes.
    Attributes,
}

/// What checksums depend on.
pub(crate) struct Checksums {
    superblock: Superblock,
    style: Style,
    active: bool,
}

impl Kind {
    /// Whether a block of this kind may be taken for one of the other: the same structure of the
    /// same inode, and of a directory the same block. A map that leads to one block from many
    /// places would give its names as many times.
    fn has_owner_of(self, other: Kind) -> bool {
        match (self, other) {
            (Kind::Plain, Kind::Plain) | (Kind::Attributes, Kind::Attributes) => true,
            (Kind::Directory { ino, block, .. }, Kind::Directory { ino: other, block: at, .. }) => {
                (ino, block) == (other, at)
            }
            (Kind::Extents { ino: one, .. }, Kind::Extents { ino: two, .. }) => one == two,
            _ => false,
        }
    }

    fn verify(self, bytes: &[u8], block: BlockNo, checksums: &Checksums) -> Result<()> {
        if !checksums.active {
            return Ok(());
        }
        let (verdict, ino) = match self {
            // An attribute block's checksum is verified by the parser, which needs its number
            // anyway.
            Kind::Plain | Kind::Attributes => return Ok(()),
            Kind::Directory { ino, seed, block, indexed } => {
                (checksums.style.verify(bytes, block, indexed, seed), ino)
            }
            Kind::Extents { ino, seed } => (extent::verify(bytes, seed), ino),
        };
        verdict.map_err(|fault: Fault| Error::corrupt(Place::InodeBlock(ino, block), fault))
    }

    fn seal(self, bytes: &mut [u8], number: BlockNo, checksums: &Checksums) {
        if !checksums.active {
            return;
        }
        match self {
            Kind::Plain => {}
            Kind::Directory { seed, block, indexed, .. } => {
                checksums.style.seal(bytes, block, indexed, seed)
            }
            Kind::Extents { seed, .. } => extent::seal(bytes, seed),
            Kind::Attributes => attribute::seal_block(bytes, number, &checksums.superblock),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Filling,
    Clean,
    Dirty,
    Writing,
    Forgotten,
}

struct State {
    status: Status,
    kind: Kind,
    bytes: Arc<Vec<u8>>,
    /// Touched since the eviction hand last passed.
    touched: bool,
    /// What became of the bytes that a sweep took.
    transit: Transit,
    /// Means something while it is dirty.
    stage: Stage,
    /// By the clock: when it became dirty.
    dirty_since: u64,
    /// It stands in the list of those that became dirty.
    is_listed: bool,
}

/// Where the bytes are that a sweep took from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transit {
    /// None were taken.
    None,
    /// Taken, and not yet given to the device.
    Frozen,
    /// The device is writing them.
    UnderWay,
}

/// What was done to a frame since a sweep took it last: which stage of the next sweep writes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// It was given just now: nothing on the disk leads to it.
    New,
    /// A map that leads to more blocks than before: a size may count on them.
    Maps,
    /// Inode tables, bitmaps, descriptors, attributes.
    Tables,
    /// Directories, which lead to inodes; and maps that lead to fewer blocks than before, once no
    /// size counts on them.
    Names,
    /// Directories that a name was moved out of, once it stands in the other place; and maps that
    /// lead to fewer blocks than before, once no size counts on them.
    Removals,
}

impl Stage {
    pub(super) const COUNT: usize = Stage::Removals as usize + 1;
}

/// One block in memory.
pub(crate) struct Frame {
    block: BlockNo,
    state: ShortLock<State>,
}

impl Frame {
    /// Which block of the volume.
    pub(crate) fn block(&self) -> BlockNo {
        self.block
    }

    /// Its bytes as they are now; later changes do not show in what was taken.
    pub(crate) fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.state.lock().bytes)
    }
}

struct Shard {
    frames: ShortLock<Frames>,
    /// For those who wait until a frame is filled, or written.
    changed: WaitQueue,
}

#[derive(Default)]
struct Frames {
    by_block: FxHashMap<BlockNo, Arc<Frame>>,
    /// In the order of loading: where the eviction hand goes round.
    queue: VecDeque<BlockNo>,
}

impl Frames {
    /// Takes blocks out of the queue that were forgotten, or stand in it twice.
    fn leave_out_the_gone(&mut self) {
        let mut seen = FxHashSet::default();
        self.queue.retain(|block| self.by_block.contains_key(block) && seen.insert(*block));
    }
}

const SHARDS: usize = 16;

/// Which shard a block belongs to: neighbours to the same.
fn shard_of(block: BlockNo) -> usize {
    (block.0 >> 5) as usize % SHARDS
}

/// What of the volume the cache works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) latch: &'a Arc<Latch>,
    pub(crate) seat: &'a Arc<Seat>,
    pub(crate) barrier: &'a Arc<Barrier>,
    /// What is written before what.
    pub(crate) order: DataOrder,
}

/// All metadata frames of a volume.
pub(crate) struct Cache {
    device: Arc<dyn BlockDevice>,
    block_size: usize,
    checksums: Arc<Checksums>,
    shards: Arc<Vec<Shard>>,
    /// Held by whoever writes dirty frames: an older state of a frame is never written behind a
    /// newer one.
    sweep: SleepLock<()>,
    /// Frames that became dirty, in that order; sorted by whoever writes them.
    dirty: ShortLock<Vec<Arc<Frame>>>,
    dirty_count: AtomicUsize,
    /// Sweeps' writes under way.
    writes: Writes,
    /// What is written before what.
    order: DataOrder,
    barrier: Arc<Barrier>,
    /// How many sweeps in stages have frozen what they take.
    sweeps: AtomicU64,
    frames_max: usize,
    /// Buffers of evicted frames, to be used again: a fresh page costs more than a copy.
    spare: ShortLock<Vec<Vec<u8>>>,
    /// Closed by the first failure.
    latch: Arc<Latch>,
    /// Where dirty frames are counted for all volumes.
    seat: Arc<Seat>,
}

impl Cache {
    /// An empty cache of about `bytes_max` bytes.
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        superblock: &Superblock,
        style: Style,
        bytes_max: usize,
        surroundings: &Surroundings<'_>,
    ) -> Cache {
        let block_size = superblock.block_size() as usize;
        let active = superblock.has(extant_format::superblock::Feature::METADATA_CSUM);
        let shard = || Shard {
            frames: ShortLock::ranked(ranks::SHARD, Frames::default()),
            changed: WaitQueue::new(Arc::clone(device.clock())),
        };
        Cache {
            block_size,
            checksums: Arc::new(Checksums { superblock: superblock.clone(), style, active }),
            shards: Arc::new((0..SHARDS).map(|_| shard()).collect()),
            writes: Writes::new(device.clock(), surroundings.latch, surroundings.barrier),
            order: surroundings.order,
            barrier: Arc::clone(surroundings.barrier),
            sweep: SleepLock::new(Arc::clone(device.clock()), ()).ranked(ranks::SWEEP),
            dirty: ShortLock::ranked(ranks::DIRTY_LIST, Vec::new()),
            dirty_count: AtomicUsize::new(0),
            sweeps: AtomicU64::new(0),
            frames_max: (bytes_max / block_size).max(SHARDS * 8),
            spare: ShortLock::ranked(ranks::LAST, Vec::new()),
            latch: Arc::clone(surroundings.latch),
            seat: Arc::clone(surroundings.seat),
            device,
        }
    }

    fn shard(&self, block: BlockNo) -> &Shard {
        &self.shards[shard_of(block)]
    }

    /// The frame of a block; reads and verifies it if it is not there.
    pub(crate) fn read(&self, block: BlockNo, kind: Kind) -> Result<Arc<Frame>> {
        let shard = self.shard(block);
        loop {
            let (frame, mine) = self.find_or_insert(shard, block, kind, Status::Filling);
            if mine {
                return self.fill(shard, frame, kind);
            }
            let mut state = frame.state.lock();
            state.touched = true;
            match state.status {
                Status::Filling => {
                    drop(state);
                    shard.changed.wait_until(&frame.state, |state| {
                        (state.status != Status::Filling).then_some(())
                    });
                }
                Status::Forgotten => drop(state), // its filler failed: try again, and meet the error myself
                _ if !state.kind.has_owner_of(kind) => {
                    drop(state);
                    let (place, structure) = (Place::Block(block), "block");
                    return Err(Error::field(
                        place,
                        structure,
                        "number",
                        block.0,
                        "in use for two purposes",
                    ));
                }
                _ => {
                    drop(state);
                    return Ok(frame);
                }
            }
        }
    }

    /// The frame of a block whose old bytes do not matter: zeros, without reading.
    pub(crate) fn create(&self, block: BlockNo, kind: Kind, stage: Stage) -> Arc<Frame> {
        let shard = self.shard(block);
        loop {
            let (frame, mine) = self.find_or_insert(shard, block, kind, Status::Clean);
            if mine {
                frame.state.lock().stage = stage;
                return frame;
            }
            // Whoever reads it now would put the old bytes over the new ones.
            shard
                .changed
                .wait_until(&frame.state, |state| (state.status != Status::Filling).then_some(()));
            let mut state = frame.state.lock();
            if state.status == Status::Forgotten {
                continue;
            }
            state.kind = kind;
            state.stage = stage;
            let bytes = Arc::make_mut(&mut state.bytes);
            bytes.clear();
            bytes.resize(self.block_size, 0);
            drop(state);
            return frame;
        }
    }

    /// Whether a block is in memory.
    pub(crate) fn holds(&self, block: BlockNo) -> bool {
        self.shard(block).frames.lock().by_block.contains_key(&block)
    }

    /// Whether a block's bytes are in memory.
    pub(crate) fn holds_filled(&self, block: BlockNo) -> bool {
        let frame = self.shard(block).frames.lock().by_block.get(&block).cloned();
        frame.is_some_and(|frame| {
            !matches!(frame.state.lock().status, Status::Filling | Status::Forgotten)
        })
    }

    fn find_or_insert(
        &self,
        shard: &Shard,
        block: BlockNo,
        kind: Kind,
        status: Status,
    ) -> (Arc<Frame>, bool) {
        let mut frames = shard.frames.lock();
        if let Some(frame) = frames.by_block.get(&block) {
            return (Arc::clone(frame), false);
        }
        if frames.by_block.len() >= self.frames_max / SHARDS {
            self.evict(&mut frames);
        }
        let state = State {
            status,
            kind,
            bytes: Arc::new(self.buffer()),
            touched: true,
            transit: Transit::None,
            stage: Stage::Tables,
            dirty_since: 0,
            is_listed: false,
        };
        let frame = Arc::new(Frame { block, state: ShortLock::ranked(ranks::FRAME, state) });
        frames.by_block.insert(block, Arc::clone(&frame));
        if frames.queue.len() > 2 * frames.by_block.len() + 64 {
            frames.leave_out_the_gone();
        }
        frames.queue.push_back(block);
        (frame, true)
    }

    fn buffer(&self) -> Vec<u8> {
        let mut bytes = self.spare.lock().pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(self.block_size, 0);
        bytes
    }

    /// Lets go of some frames that nobody holds and nobody touched lately. Dirty ones stay.
    fn evict(&self, frames: &mut Frames) {
        let mut turns = 32.min(frames.queue.len());
        let mut freed = 0;
        while turns > 0 && freed < 4 {
            turns -= 1;
            let Some(block) = frames.queue.pop_front() else { return };
            let Some(frame) = frames.by_block.get(&block) else {
                continue;
            };
            let mut state = frame.state.lock();
            let idle = state.status == Status::Clean && Arc::strong_count(frame) == 1;
            if !idle || state.touched {
                state.touched = false;
                drop(state);
                frames.queue.push_back(block);
                continue;
            }
            drop(state);
            if let Some(frame) = frames.by_block.remove(&block)
                && let Ok(frame) = Arc::try_unwrap(frame)
                && let Ok(bytes) = Arc::try_unwrap(std::mem::take(&mut frame.state.lock().bytes))
            {
                self.spare.lock().push(bytes);
            }
            freed += 1;
        }
    }

    /// Changes a frame's bytes and marks it dirty, to be written in that stage, or the latest that
    /// a change since the last sweep asked for; a new block stays new. Says whether it is new. Only
    /// a handle calls this.
    pub(crate) fn modify<R>(
        &self,
        frame: &Arc<Frame>,
        stage: Option<Stage>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Stage) {
        let state = frame.state.lock();
        self.modify_locked(frame, state, stage, change)
    }

    /// The same for a frame that holds another kind of structure from now on.
    pub(crate) fn rewrite(&self, frame: &Arc<Frame>, kind: Kind, change: impl FnOnce(&mut [u8])) {
        let mut state = frame.state.lock();
        state.kind = kind;
        self.modify_locked(frame, state, None, |bytes| {
            bytes.fill(0);
            change(bytes);
        });
    }

    fn modify_locked<R>(
        &self,
        frame: &Arc<Frame>,
        mut state: ShortGuard<'_, State>,
        stage: Option<Stage>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Stage) {
        let result = change(Arc::make_mut(&mut state.bytes).as_mut_slice());
        let own = match state.kind {
            Kind::Directory { .. } => Stage::Names,
            Kind::Plain | Kind::Extents { .. } | Kind::Attributes => Stage::Tables,
        };
        let asked = stage.unwrap_or(own);
        let was_dirty = state.status == Status::Dirty;
        state.stage = match state.stage {
            Stage::New => Stage::New,
            before if was_dirty => before.max(asked),
            _ => asked,
        };
        let stage = state.stage;
        if matches!(state.status, Status::Clean | Status::Writing) {
            state.status = Status::Dirty;
            state.dirty_since = self.device.clock().now();
            // Counted before anybody can write it, who counts it out again.
            self.dirty_count.fetch_add(1, Ordering::Relaxed);
            self.seat.dirtied(self.block_size as u64);
            let was_listed = std::mem::replace(&mut state.is_listed, true);
            drop(state);
            if !was_listed {
                self.dirty.lock().push(Arc::clone(frame));
            }
        }
        (result, stage)
    }

    /// Drops the blocks of a freed run.
    pub(crate) fn forget_run(&self, run: Run) {
        let blocks = (run.start.0..).take(run.length as usize);
        blocks.map(BlockNo).for_each(|block| self.forget(block));
    }

    /// Drops a freed block: no later sweep writes it. Waits for a write under way: the block's next
    /// owner may write it at once. What a sweep has frozen, or is about to, is not waited for, and
    /// still written: something else that it writes may lead there, and no block is given again
    /// while that sweep goes on.
    pub(crate) fn forget(&self, block: BlockNo) {
        let shard = self.shard(block);
        let removed = shard.frames.lock().by_block.remove(&block);
        if let Some(frame) = removed {
            shard.changed.wait_until(&frame.state, |state| {
                let settled = state.transit != Transit::UnderWay && state.status != Status::Filling;
                settled.then(|| {
                    if state.status == Status::Dirty {
                        self.dirty_count.fetch_sub(1, Ordering::Relaxed);
                        self.seat.forgotten(self.block_size as u64);
                    }
                    state.status = Status::Forgotten;
                })
            });
        }
    }

    /// How many frames are dirty.
    pub(crate) fn dirty_frames(&self) -> u64 {
        self.dirty_count.load(Ordering::Relaxed) as u64
    }

    /// Whether the dirty frames are more than half of what the cache may hold.
    pub(crate) fn is_crowded(&self) -> bool {
        self.dirty_count.load(Ordering::Relaxed) > self.frames_max / 2
    }

    /// Whether nothing on the disk leads to a block yet.
    pub(crate) fn is_new(&self, frame: &Frame) -> bool {
        frame.state.lock().stage == Stage::New
    }

    /// How many sweeps in stages have frozen what they take: what was changed when it was N is
    /// frozen since it is more than N.
    pub(crate) fn sweeps(&self) -> u64 {
        self.sweeps.load(Ordering::Acquire)
    }
}
