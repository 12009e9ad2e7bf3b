//! Frames: metadata blocks in memory, keyed by their block number on the volume.
//!
//! ```text
//!           read, fetch            finish_fill            modify             prepare
//! (absent) -------------> Filling ------------> Clean ------------> Dirty -----------> Writing
//!   |                        |                  ^ ^ |                 ^                 |  |
//!   |     finish_fill failed |                  | | |                 +---- modify -----+  |
//!   |                        v                  | | +-- evict --> (absent)               |
//!   |                    Forgotten <--+         | +------------ finish_write ------------+
//!   |                                 |         |
//!   |                                 +---------|-- forget: from Clean, Dirty and Writing
//!   +-- create: zeros --------------------------+
//! ```
//!
//! With a journal a frame that a commit froze is `Logged` when the commit has ended (`end_freeze`):
//! newer than its block, and `Clean` once a checkpoint has written it (`in_place`). `modify` makes
//! it dirty again, and `forget` ends it, as from `Writing`.
//!
//! `transit` says where the bytes are that a sweep took: `Frozen` until they are given to the
//! device, `UnderWay` until it has completed the write. A change in the meantime copies the bytes
//! and makes the frame dirty again; under `journal=ordered-jbd` it first waits while a copy of them
//! is being written to the log (`Logging`). A write that fails leaves its frames in `Writing`: the
//! latch is closed, and nothing is written any more.
//!
//! *Invariants*: a frame's bytes are changed by `modify`, `rewrite` and `create` alone, which only
//! a handle calls, and sealed by `prepare`, which stores their checksum. Bytes returned by
//! `bytes()` never change, because a change copies what is shared. A checksum is verified once,
//! when a frame is filled or gets its kind, and stored once, when it is written. A sweep that
//! starts after a frame was forgotten does not write it. An unclaimed frame may be older than its
//! block while that is data, which are written past the frames; it is never read then: a block
//! becomes metadata only through `create`, and one that is freed is forgotten.
//!
//! *Locking*: the map of a shard is under a short lock, then the state of a frame under another;
//! the list of dirty frames is also locked before frames. A thread that waits for a frame waits on
//! its shard's queue with no lock held. A sweep writes in the order of block numbers and holds only
//! `sweep`, a sleeping lock that comes after all inode locks.
mod fill;
mod rollback;
mod sweep;

pub(crate) use rollback::{GroupPlaces, Rollback};
pub(crate) use sweep::Sealed;

use crate::barrier::Barrier;
use crate::budget::Seat;
use crate::error::{Error, Place, Result};
use crate::eviction::EvictionQueue;
use crate::latch::Latch;
use crate::ranks;
use crate::writes::Writes;
use extant_block::lock::ShortGuard;
use extant_block::{BlockDevice, ShortLock, SleepLock, Urgency, WaitQueue};
use extant_format::directory::{Form, Style};
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Fault, FileBlock, Ino, Run, attribute, extent};
use extant_policy::preset::DataOrder;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What a metadata block holds, which decides how its checksum is verified and stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// No checksum of its own: indirect blocks, and descriptors, bitmaps and inode tables, whose
    /// checksums are stored by their owners.
    Plain,
    /// A block of a directory.
    Directory {
        /// Inode of the directory.
        ino: Ino,
        /// Seed of the checksums of that inode.
        seed: u32,
        /// Block of the directory, counted from its start.
        block: FileBlock,
        /// Whether it has a hash index.
        form: Form,
    },
    /// A node of an extent tree.
    Extents {
        /// Inode of the file.
        ino: Ino,
        /// Seed of the checksums of that inode.
        seed: u32,
    },
    /// Extended attributes.
    Attributes,
    /// Not known: it was read because it is near another block, and may be anything, data and
    /// free blocks too. It gets the kind that it is first read as, or created as.
    Unclaimed,
}

/// What computing checksums needs.
pub(crate) struct Checksums {
    superblock: Superblock,
    style: Style,
    active: bool,
}

impl BlockKind {
    /// Whether a block of this kind may be used as one of the other kind: the same structure of the
    /// same inode and, in a directory, the same block. Otherwise a map that pointed to one block
    /// from many places would repeat its names as many times.
    fn has_owner_of(self, other: BlockKind) -> bool {
        match (self, other) {
            (BlockKind::Plain, BlockKind::Plain)
            | (BlockKind::Attributes, BlockKind::Attributes) => true,
            (
                BlockKind::Directory { ino, block, .. },
                BlockKind::Directory { ino: other, block: at, .. },
            ) => (ino, block) == (other, at),
            (BlockKind::Extents { ino: one, .. }, BlockKind::Extents { ino: two, .. }) => {
                one == two
            }
            _ => false,
        }
    }

    fn verify(self, bytes: &[u8], block: BlockNo, checksums: &Checksums) -> Result<()> {
        if !checksums.active {
            return Ok(());
        }
        let (verdict, ino) = match self {
            // The parser verifies the checksum of an attribute block.
            BlockKind::Plain | BlockKind::Attributes | BlockKind::Unclaimed => return Ok(()),
            BlockKind::Directory { ino, seed, block, form } => {
                (checksums.style.verify(bytes, block, form, seed), ino)
            }
            BlockKind::Extents { ino, seed } => (extent::verify(bytes, seed), ino),
        };
        verdict.map_err(|fault: Fault| Error::corrupt(Place::InodeBlock(ino, block), fault))
    }

    fn seal(self, bytes: &mut [u8], number: BlockNo, checksums: &Checksums) {
        if !checksums.active {
            return;
        }
        match self {
            BlockKind::Plain | BlockKind::Unclaimed => {}
            BlockKind::Directory { seed, block, form, .. } => {
                checksums.style.seal(bytes, block, form, seed)
            }
            BlockKind::Extents { seed, .. } => extent::seal(bytes, seed),
            BlockKind::Attributes => attribute::seal_block(bytes, number, &checksums.superblock),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameStatus {
    Filling,
    Clean,
    Dirty,
    Writing,
    /// Durable in the journal, and not in its place yet.
    Logged,
    Forgotten,
}

struct FrameState {
    status: FrameStatus,
    kind: BlockKind,
    bytes: Arc<Vec<u8>>,
    /// Used since the eviction last looked at it.
    touched: bool,
    /// Where the bytes are that a sweep took.
    transit: Transit,
    /// The stage that writes it; meaningful while it is dirty.
    stage: Stage,
    /// When it became dirty, in nanoseconds of the clock.
    dirty_since: u64,
    /// Whether it is in the list of dirty frames.
    is_listed: bool,
    /// What the disk has, where a sweep may have to write that again: see `rollback`.
    durable: Option<Arc<Vec<u8>>>,
}

impl FrameState {
    fn is_being_logged(&self) -> bool {
        self.transit == Transit::Logging && self.status == FrameStatus::Writing
    }
}

/// Where the bytes are that a sweep took from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transit {
    /// No sweep has taken any.
    None,
    /// Taken, and not given to the device yet.
    Frozen,
    /// Taken, and a copy is on its way into the log, where changes wait for that: see
    /// [`Cache::wait_for_log`].
    Logging,
    /// The device is writing them.
    UnderWay,
}

/// The stage of a sweep that writes a frame, by what was changed in it since the last sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The block was just allocated: nothing on disk points to it.
    New,
    /// A map that points to more blocks than before: a size may count on them.
    Maps,
    /// Inode tables, bitmaps, descriptors, attributes.
    Tables,
    /// Directories, which point to inodes.
    Names,
    /// Directories that a name was moved out of, after it was inserted in the other place; and maps
    /// that point to fewer blocks than before, after the size that counted them has changed.
    Removals,
}

impl Stage {
    pub(super) const COUNT: usize = Stage::Removals as usize + 1;
}

/// One block in memory.
pub struct Frame {
    block: BlockNo,
    state: ShortLock<FrameState>,
}

impl Frame {
    /// A frame of no cache, which is never written: what a block would hold if what is kept in
    /// `block` were in a block of its own.
    pub fn apart(block: BlockNo, bytes: Vec<u8>) -> Arc<Frame> {
        let state = FrameState {
            status: FrameStatus::Clean,
            kind: BlockKind::Plain,
            bytes: Arc::new(bytes),
            touched: true,
            transit: Transit::None,
            stage: Stage::Tables,
            dirty_since: 0,
            is_listed: false,
            durable: None,
        };
        Arc::new(Frame { block, state: ShortLock::ranked(ranks::FRAME, state) })
    }

    /// Its block number on the volume.
    pub fn block(&self) -> BlockNo {
        self.block
    }

    /// A copy of some of its bytes as they are now; fewer if it ends before. For what is small, in
    /// a block that many threads change: while somebody has all bytes, a change copies the block.
    pub fn copy(&self, offset: usize, length: usize) -> Vec<u8> {
        let state = self.state.lock();
        let end = offset.saturating_add(length).min(state.bytes.len());
        state.bytes.get(offset..end).unwrap_or_default().to_vec()
    }

    /// Its bytes as they are now. Later changes do not affect the returned bytes.
    pub fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.state.lock().bytes)
    }
}

struct Shard {
    frames: ShortLock<Frames>,
    /// Where threads wait until a frame was filled, or written.
    changed: WaitQueue,
    /// How many frames all shards have.
    count: Arc<AtomicUsize>,
}

impl Shard {
    /// Removes the frame of a block, if there is one and it `is_wanted`.
    fn remove(
        &self,
        block: BlockNo,
        is_wanted: impl FnOnce(&Arc<Frame>) -> bool,
    ) -> Option<Arc<Frame>> {
        let mut frames = self.frames.lock();
        frames.by_block.get(&block).filter(|frame| is_wanted(frame))?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        frames.by_block.remove(&block)
    }
}

#[derive(Default)]
struct Frames {
    by_block: FxHashMap<BlockNo, Arc<Frame>>,
    /// In the order of loading; eviction takes from the front.
    queue: EvictionQueue<BlockNo>,
}

const SHARDS: usize = 16;
/// Frames that an eviction looks at, at most.
const EVICTION_TURNS: usize = 32;
/// Buffers that are kept for the next frames, at most: an eviction frees four.
const SPARE_MAX: usize = 16;
/// What a frame takes beside its block: itself, the head of its bytes, its places in the map, which
/// may be half empty, and in the queue.
const FRAME_BYTES: usize = 256;

/// The shard of a block; 32 adjacent blocks share one.
fn shard_of(block: BlockNo) -> usize {
    (block.0 >> 5) as usize % SHARDS
}

/// The parts of the store that a cache works with.
pub(crate) struct CacheParts<'a> {
    pub(crate) latch: &'a Arc<Latch>,
    pub(crate) seat: &'a Arc<Seat>,
    pub(crate) barrier: &'a Arc<Barrier>,
    /// Whether a sweep writes in stages.
    pub(crate) order: DataOrder,
}

/// All metadata frames of a volume.
pub struct Cache {
    device: Arc<dyn BlockDevice>,
    block_size: usize,
    checksums: Arc<Checksums>,
    shards: Arc<Vec<Shard>>,
    /// Held while dirty frames are written, so that an older state of a frame is never written
    /// after a newer one.
    sweep: SleepLock<()>,
    /// Frames that became dirty, in that order; a sweep sorts them by block.
    dirty: ShortLock<Vec<Arc<Frame>>>,
    dirty_count: AtomicUsize,
    /// Writes of frames under way.
    writes: Writes,
    /// Whether a sweep writes in stages.
    order: DataOrder,
    /// With soft updates, what has to be known to write blocks without some of their changes.
    pub(crate) rollback: OnceLock<Rollback>,
    barrier: Arc<Barrier>,
    /// How many sweeps have frozen what they write.
    sweeps: AtomicU64,
    frames_max: usize,
    /// How many frames there are.
    count: Arc<AtomicUsize>,
    /// Whether what is committed is kept until it is in its place.
    journals: AtomicBool,
    /// How many blocks the journal keeps beside their frames, which have changed since.
    copies: AtomicUsize,
    /// The shard that gives a frame next for one of another shard.
    turn: AtomicUsize,
    /// Buffers of evicted frames for reuse: faulting in a fresh page costs more than a copy.
    spare: ShortLock<Vec<Vec<u8>>>,
    /// Closed by the first failure.
    latch: Arc<Latch>,
    /// Where dirty frames are counted.
    seat: Arc<Seat>,
}

impl Cache {
    /// An empty cache for about `bytes_max` bytes of frames.
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        superblock: &Superblock,
        style: Style,
        bytes_max: usize,
        surroundings: &CacheParts<'_>,
    ) -> Cache {
        let block_size = superblock.block_size() as usize;
        let active = superblock.has(extant_format::superblock::Feature::METADATA_CSUM);
        let count = Arc::new(AtomicUsize::new(0));
        let shard = || Shard {
            count: Arc::clone(&count),
            frames: ShortLock::ranked(ranks::SHARD, Frames::default()),
            changed: WaitQueue::new(Arc::clone(device.clock())),
        };
        Cache {
            block_size,
            checksums: Arc::new(Checksums { superblock: superblock.clone(), style, active }),
            shards: Arc::new((0..SHARDS).map(|_| shard()).collect()),
            writes: Writes::new(device.clock(), surroundings.latch, surroundings.barrier),
            order: surroundings.order,
            rollback: OnceLock::new(),
            barrier: Arc::clone(surroundings.barrier),
            sweep: SleepLock::new(Arc::clone(device.clock()), ()).ranked(ranks::SWEEP),
            dirty: ShortLock::ranked(ranks::DIRTY_LIST, Vec::new()),
            dirty_count: AtomicUsize::new(0),
            sweeps: AtomicU64::new(0),
            // A sixteenth more for the lists: with blocks of 4 KiB just enough.
            frames_max: ((bytes_max + bytes_max / 16) / (block_size + FRAME_BYTES)).max(SHARDS * 4),
            count,
            journals: AtomicBool::new(false),
            copies: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            spare: ShortLock::ranked(ranks::LAST, Vec::new()),
            latch: Arc::clone(surroundings.latch),
            seat: Arc::clone(surroundings.seat),
            device,
        }
    }

    fn shard(&self, block: BlockNo) -> &Shard {
        &self.shards[shard_of(block)]
    }

    /// The frame of a block. Reads and verifies the block if it is not in memory.
    ///
    /// # Errors
    /// What the device returns; `Corrupt` if the checksum is wrong, or the block is already in use
    /// as another structure.
    pub fn read(&self, block: BlockNo, kind: BlockKind) -> Result<Arc<Frame>> {
        let urgency = match kind {
            BlockKind::Directory { .. } => Urgency::Metadata,
            _ => Urgency::Awaited,
        };
        self.read_as(urgency, block, kind)
    }

    /// As `read`, of a block of an inode table: as those of directories, its read is marked as of
    /// metadata, as ext3 does it. Maps and bitmaps are not.
    ///
    /// # Errors
    /// As for `read`.
    pub fn read_table(&self, block: BlockNo) -> Result<Arc<Frame>> {
        self.read_as(Urgency::Metadata, block, BlockKind::Plain)
    }

    fn read_as(&self, urgency: Urgency, block: BlockNo, kind: BlockKind) -> Result<Arc<Frame>> {
        let shard = self.shard(block);
        loop {
            let (frame, mine) = self.find_or_insert(shard, block, kind, FrameStatus::Filling);
            if mine {
                return self.fill(shard, frame, kind, urgency);
            }
            let mut state = frame.state.lock();
            state.touched = true;
            match state.status {
                FrameStatus::Filling => {
                    drop(state);
                    shard.changed.wait_until(&frame.state, |state| {
                        (state.status != FrameStatus::Filling).then_some(())
                    });
                }
                // The thread that filled it failed. Read it again, to get the error.
                FrameStatus::Forgotten => drop(state),
                _ if state.kind == BlockKind::Unclaimed => {
                    let verified = kind.verify(&state.bytes, block, &self.checksums);
                    if verified.is_ok() {
                        state.kind = kind;
                    }
                    drop(state);
                    return verified.map(|()| frame);
                }
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

    /// The frame of a block whose old bytes do not matter: zeros, without reading it.
    pub(crate) fn create(&self, block: BlockNo, kind: BlockKind, stage: Stage) -> Arc<Frame> {
        let shard = self.shard(block);
        loop {
            let (frame, mine) = self.find_or_insert(shard, block, kind, FrameStatus::Clean);
            if mine {
                frame.state.lock().stage = stage;
                return frame;
            }
            // A read that is still under way would overwrite the new bytes with the old ones.
            shard.changed.wait_until(&frame.state, |state| {
                (state.status != FrameStatus::Filling).then_some(())
            });
            let mut state = frame.state.lock();
            if state.status == FrameStatus::Forgotten {
                continue;
            }
            self.keep_durable(block, &mut state);
            state.kind = kind;
            state.stage = stage;
            let bytes = Arc::make_mut(&mut state.bytes);
            bytes.clear();
            bytes.resize(self.block_size, 0);
            drop(state);
            return frame;
        }
    }

    /// Whether a block is in memory, or being read.
    pub fn holds(&self, block: BlockNo) -> bool {
        self.shard(block).frames.lock().by_block.contains_key(&block)
    }

    /// The frame of a block, as `read` gives it, if its bytes are in memory as this kind.
    pub fn find(&self, block: BlockNo, kind: BlockKind) -> Option<Arc<Frame>> {
        let frame = self.shard(block).frames.lock().by_block.get(&block).cloned()?;
        let mut state = frame.state.lock();
        let is_ready = !matches!(state.status, FrameStatus::Filling | FrameStatus::Forgotten)
            && state.kind.has_owner_of(kind);
        state.touched |= is_ready;
        drop(state);
        is_ready.then_some(frame)
    }

    /// Whether a block's bytes are in memory.
    pub fn holds_filled(&self, block: BlockNo) -> bool {
        let frame = self.shard(block).frames.lock().by_block.get(&block).cloned();
        frame.is_some_and(|frame| {
            !matches!(frame.state.lock().status, FrameStatus::Filling | FrameStatus::Forgotten)
        })
    }

    fn find_or_insert(
        &self,
        shard: &Shard,
        block: BlockNo,
        kind: BlockKind,
        status: FrameStatus,
    ) -> (Arc<Frame>, bool) {
        let mut frames = shard.frames.lock();
        if let Some(frame) = frames.by_block.get(&block) {
            return (Arc::clone(frame), false);
        }
        let most = self.frames_max.saturating_sub(self.copies.load(Ordering::Relaxed));
        let mut freed = 0;
        if frames.by_block.len() >= most / SHARDS {
            freed = self.evict(&mut frames);
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let state = FrameState {
            status,
            kind,
            bytes: Arc::new(self.buffer()),
            touched: true,
            transit: Transit::None,
            stage: Stage::Tables,
            dirty_since: 0,
            is_listed: false,
            durable: None,
        };
        let frame = Arc::new(Frame { block, state: ShortLock::ranked(ranks::FRAME, state) });
        frames.by_block.insert(block, Arc::clone(&frame));
        let Frames { by_block, queue } = &mut *frames;
        queue.sweep_if_long(by_block.len(), |block| by_block.contains_key(block));
        queue.push(block);
        drop(frames);
        if freed == 0 && count >= most {
            self.evict_elsewhere();
        }
        (frame, true)
    }

    /// Evicts frames of the next shards that have some to give. Where blocks are in use that share
    /// few shards, others have frames to spare. Called with no lock held.
    fn evict_elsewhere(&self) {
        for _ in 0..SHARDS {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if self.evict(&mut self.shards[turn].frames.lock()) > 0 {
                return;
            }
        }
    }

    /// Whether there are more frames than there may be, with what the journal keeps beside them.
    /// Those that are dirty, or not in their place yet, are not evicted for others.
    pub fn is_full(&self) -> bool {
        let copies = self.copies.load(Ordering::Relaxed);
        self.count.load(Ordering::Relaxed).saturating_add(copies) > self.frames_max
    }

    /// Evicts frames until there are as few as there may be, or none is idle. Called with no lock
    /// held.
    pub fn shrink(&self) {
        for shard in self.shards.iter() {
            // Twice, since the first look only notes that a frame was used lately.
            let mut turns = 2 * shard.frames.lock().queue.queued() / EVICTION_TURNS + 1;
            while turns > 0 && self.is_full() {
                turns -= 1;
                self.evict(&mut shard.frames.lock());
            }
        }
    }

    /// From now on the journal keeps what is committed until it is in its place.
    pub(crate) fn begin_journal(&self) {
        self.journals.store(true, Ordering::Relaxed);
    }

    /// Notes that a frame is about to have other bytes than the journal keeps of it, if it does, or
    /// will.
    fn note_copy(&self, state: &FrameState) {
        let is_kept = matches!(state.status, FrameStatus::Logged | FrameStatus::Writing);
        if is_kept && self.journals.load(Ordering::Relaxed) {
            self.copies.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the journal keeps this many less.
    pub(crate) fn note_copies_gone(&self, less: usize) {
        let less_by = |copies: usize| Some(copies.saturating_sub(less));
        let _ = self.copies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_by);
    }

    fn buffer(&self) -> Vec<u8> {
        let mut bytes = self.spare.lock().pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(self.block_size, 0);
        bytes
    }

    /// Evicts up to four frames that are clean, not in use and not touched lately. Returns how
    /// many.
    fn evict(&self, frames: &mut Frames) -> usize {
        let mut turns = EVICTION_TURNS.min(frames.queue.queued());
        let mut freed = 0;
        while turns > 0 && freed < 4 {
            turns -= 1;
            let Some(block) = frames.queue.pop() else { break };
            let Some(frame) = frames.by_block.get(&block) else {
                continue;
            };
            let mut state = frame.state.lock();
            let idle = state.status == FrameStatus::Clean && Arc::strong_count(frame) == 1;
            if !idle || state.touched {
                state.touched = false;
                drop(state);
                frames.queue.push(block);
                continue;
            }
            drop(state);
            if let Some(frame) = frames.by_block.remove(&block)
                && let Ok(frame) = Arc::try_unwrap(frame)
                && let Ok(bytes) = Arc::try_unwrap(std::mem::take(&mut frame.state.lock().bytes))
            {
                let mut spare = self.spare.lock();
                if spare.len() < SPARE_MAX {
                    spare.push(bytes);
                }
            }
            freed += 1;
        }
        self.count.fetch_sub(freed, Ordering::Relaxed);
        freed
    }

    /// Changes a frame's bytes and marks it dirty. It is written in `stage`, or in the latest stage
    /// that any change since the last sweep asked for; a new block stays new. Returns that stage.
    /// Only a handle calls this.
    pub(crate) fn modify<R>(
        &self,
        frame: &Arc<Frame>,
        stage: Option<Stage>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Stage) {
        let state = frame.state.lock();
        self.modify_locked(frame, state, stage, change)
    }

    /// As `modify`, and the frame holds this kind of structure from now on.
    pub(crate) fn rewrite(
        &self,
        frame: &Arc<Frame>,
        kind: BlockKind,
        change: impl FnOnce(&mut [u8]),
    ) {
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
        mut state: ShortGuard<'_, FrameState>,
        stage: Option<Stage>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Stage) {
        self.keep_durable(frame.block, &mut state);
        self.note_copy(&state);
        let result = change(Arc::make_mut(&mut state.bytes).as_mut_slice());
        let own = match state.kind {
            BlockKind::Directory { .. } => Stage::Names,
            BlockKind::Plain
            | BlockKind::Extents { .. }
            | BlockKind::Attributes
            | BlockKind::Unclaimed => Stage::Tables,
        };
        let asked = stage.unwrap_or(own);
        let was_dirty = state.status == FrameStatus::Dirty;
        state.stage = match state.stage {
            Stage::New => Stage::New,
            before if was_dirty => before.max(asked),
            _ => asked,
        };
        let stage = state.stage;
        if matches!(state.status, FrameStatus::Clean | FrameStatus::Writing | FrameStatus::Logged) {
            state.status = FrameStatus::Dirty;
            state.dirty_since = self.device.clock().now();
            // Counted before the frame is listed: a sweep that writes it subtracts it again.
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

    /// Forgets the blocks of a freed run.
    pub(crate) fn forget_run(&self, run: Run) {
        let blocks = (run.start.0..).take(run.length as usize);
        blocks.map(BlockNo).for_each(|block| self.forget(block));
    }

    /// Forgets a freed block: no later sweep writes it. Waits for a write under way, because the
    /// block's next owner may write it at once. Does not wait for a write that a sweep has frozen
    /// and not started: it still happens, since something else in that sweep may point to the
    /// block, and the block is not allocated again before that sweep has ended.
    pub(crate) fn forget(&self, block: BlockNo) {
        let shard = self.shard(block);
        if let Some(frame) = shard.remove(block, |_| true) {
            shard.changed.wait_until(&frame.state, |state| {
                let is_at_rest =
                    state.transit != Transit::UnderWay && state.status != FrameStatus::Filling;
                is_at_rest.then(|| {
                    self.keep_emptied(block, state);
                    self.note_copy(state);
                    if state.status == FrameStatus::Dirty {
                        self.dirty_count.fetch_sub(1, Ordering::Relaxed);
                        self.seat.forgotten(self.block_size as u64);
                    }
                    state.status = FrameStatus::Forgotten;
                })
            });
        }
    }

    /// Whether any block of a run is newer in memory than in its place on the disk.
    pub fn is_newer(&self, run: Run) -> bool {
        let is_newer = |block: BlockNo| {
            let frame = self.shard(block).frames.lock().by_block.get(&block).cloned();
            let status = frame.map(|frame| frame.state.lock().status);
            use FrameStatus::{Dirty, Logged, Writing};
            status.is_some_and(|status| matches!(status, Dirty | Writing | Logged))
        };
        (run.start.0..).take(run.length as usize).map(BlockNo).any(is_newer)
    }

    /// Memory that frames take with their lists, and buffers of evicted ones, in bytes.
    pub fn bytes(&self) -> usize {
        let frames: usize =
            self.shards.iter().map(|shard| shard.frames.lock().by_block.len()).sum();
        frames * (self.block_size + FRAME_BYTES) + self.spare.lock().len() * self.block_size
    }

    /// How many frames are dirty.
    pub fn dirty_frames(&self) -> u64 {
        self.dirty_count.load(Ordering::Relaxed) as u64
    }

    /// Whether the dirty frames are more than half of what the cache may hold.
    pub fn is_crowded(&self) -> bool {
        self.dirty_count.load(Ordering::Relaxed) > self.frames_max / 2
    }

    /// Whether the block is new: nothing on disk points to it.
    pub fn is_new(&self, frame: &Frame) -> bool {
        frame.state.lock().stage == Stage::New
    }

    /// How many sweeps have frozen what they write. A change made while this was N is frozen once
    /// it is greater than N.
    pub fn sweeps(&self) -> u64 {
        self.sweeps.load(Ordering::Acquire)
    }
}
