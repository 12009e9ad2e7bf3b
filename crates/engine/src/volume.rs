//! One open volume: what all layers share.
//!
//! *Invariants*: `superblock` is what was read at opening and never changes (geometry, features
//! that decide layouts, seeds); what changes of it is in `mutable`, in the groups' counters and in
//! atomics.
//! *Locking*: `mutable` is a short lock; nothing else here is locked.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::pages::Pages;
use crate::inode::write_back::Writes;
use crate::inode::{self, NodeState};
use crate::policy::allocation::{Allocation, Delay};
use crate::policy::placement::Placement;
use crate::policy::preset::{
    BitmapLoad, DataOrder, Growth, InodeCreation, Mount, NeighbourReadAhead, Policies,
};
use crate::policy::throttle::{DirtyBudget, Seat};
use crate::space::{Freed, Groups};
use crate::store::barrier::Barrier;
use crate::store::cache::{Cache, Kind, Surroundings};
use crate::store::handle::Handle;
use crate::store::latch::Latch;
use extant_block::lock::SleepGuard;
use extant_block::{BlockDevice, Clock, Neighbours, ShortLock, SleepLock};
use extant_format::directory::Style;
use extant_format::hash::Hasher;
use extant_format::inode::Time;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, GroupNo, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The shared parts of an open volume.
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The same, with what the policies put before it: for files and metadata.
    pub(crate) traffic: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) style: Style,
    pub(crate) hasher: Hasher,
    pub(crate) cache: Cache,
    pub(crate) groups: Groups,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) allocation: Arc<dyn Allocation>,
    /// All of them, by column.
    pub(crate) policies: Policies,
    /// Held while bitmaps are loaded and searched, where the policy says so: the lock that the
    /// posts mean.
    pub(crate) superblock_lock: SleepLock<()>,
    /// What is dirty here and elsewhere in the same memory.
    pub(crate) seat: Arc<Seat>,
    /// Writes of files' blocks under way.
    pub(crate) writes: Arc<Writes>,
    /// Between what has to be durable and what may follow.
    pub(crate) barrier: Arc<Barrier>,
    /// Inodes that were changed in memory and not yet in their table, and since when: where table
    /// blocks are read late.
    pub(crate) unstored: ShortLock<BTreeMap<Ino, u64>>,
    /// Table blocks of inodes that were changed: what a call on a synchronous mount has to write.
    pub(crate) touched_tables: ShortLock<BTreeSet<BlockNo>>,
    /// Dirty blocks of files.
    dirty_blocks: AtomicU64,
    pub(crate) mutable: ShortLock<Mutable>,
    /// The primary superblock as it was written last, but for the time.
    superblock_written: ShortLock<Vec<u8>>,
    /// Opened for writing.
    writable: bool,
    /// Closed by the first failure, and by closing the volume: nothing is written behind it.
    pub(crate) latch: Arc<Latch>,
    /// Whether files' bytes are kept.
    pub(crate) data: DataKeeping,
    /// Pages read or written since memory was last looked after.
    pages: AtomicUsize,
    pages_max: usize,
    /// Bytes written to files since opening.
    pub(crate) written_bytes: AtomicU64,
    /// Blocks that the device holds data in, once that was asked.
    held: OnceLock<u64>,
}

/// What may be done with a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Look only. Nothing is ever written, not even a mount count.
    ReadOnly,
    /// Look and change.
    ReadWrite,
}

/// Whether files' bytes are kept, or only where they lie: the laboratory ages disks larger than its
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKeeping {
    /// As everybody expects.
    Bytes,
    /// Data reads as zeros; metadata is kept.
    Phantom,
}

/// How a volume is opened.
#[derive(Clone)]
pub struct Options {
    /// Whether it may be changed.
    pub access: Access,
    /// Where things go.
    pub policies: Policies,
    /// Memory for metadata, and as much again for files, in bytes.
    pub cache_bytes: usize,
    /// Whether files' bytes are kept.
    pub data: DataKeeping,
}

/// What changes in the superblock besides counters.
pub(crate) struct Mutable {
    /// Head of the list of inodes that were unlinked while open, or whose truncation has not ended.
    pub(crate) last_orphan: u32,
    /// `s_state`: not clean while the volume may be changed, also after a sync.
    pub(crate) state: u16,
    /// A file of 2 GiB or more was made: large_file has to be set.
    pub(crate) large_file: bool,
    /// Blocks of the volume: fewer than at opening when it was cut.
    pub(crate) blocks_count: u64,
}

impl Mutable {
    /// As it was read.
    fn of(superblock: &Superblock) -> Mutable {
        Mutable {
            last_orphan: superblock.last_orphan,
            state: superblock.state,
            large_file: false,
            blocks_count: superblock.blocks_count,
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Write-back that is still under way counts for nobody.
        self.seat.leave();
    }
}

impl Volume {
    /// Opens the volume on a device: superblock, descriptors; nothing else is read.
    ///
    /// # Errors
    /// `NotExt`, `Unsupported`, `NeedsRecovery`, `Corrupt`, or what the device answers.
    pub(crate) fn open(device: Arc<dyn BlockDevice>, options: &Options) -> Result<Volume> {
        Volume::open_within(device, options, None)
    }

    /// The same on a numbered device of a shared dirty budget; without one, on a budget of its own.
    pub(crate) fn open_within(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Volume> {
        let superblock = believable_superblock(&*device)?;
        let style = style_of(&superblock);
        let traffic: Arc<dyn BlockDevice> = match options.policies.neighbour_read_ahead {
            NeighbourReadAhead::None => Arc::clone(&device),
            NeighbourReadAhead::Grow(bytes) => {
                Arc::new(Neighbours::new(Arc::clone(&device), bytes))
            }
        };
        let latch = Latch::new(device.clock());
        let block_size = superblock.block_size() as usize;
        let pages_max = (options.cache_bytes / block_size).max(256);
        let throttle = &options.policies.throttle;
        let seat = match shared {
            Some((budget, number)) => budget.join(number, throttle),
            None => {
                DirtyBudget::new(device.clock(), (pages_max * block_size) as u64).join(0, throttle)
            }
        };
        let barrier = Barrier::new(&device, &latch);
        let data = Arc::new(Writes::new(device.clock(), &latch, &barrier));
        let surroundings = Surroundings {
            latch: &latch,
            seat: &seat,
            barrier: &barrier,
            data: &data,
            order: options.policies.data_order,
        };
        let bytes = options.cache_bytes;
        let cache = Cache::new(Arc::clone(&traffic), &superblock, style, bytes, &surroundings);
        let groups = open_groups(&superblock, &cache, &options.policies)?;
        let writable = options.access == Access::ReadWrite && !device.info().read_only;
        Ok(Volume {
            clock: Arc::clone(device.clock()),
            hasher: Hasher::of(&superblock),
            style,
            cache,
            groups,
            placement: Arc::clone(&options.policies.placement),
            allocation: Arc::clone(&options.policies.allocation),
            superblock_lock: SleepLock::new(Arc::clone(device.clock()), ()),
            traffic,
            seat,
            writes: data,
            barrier,
            policies: options.policies.clone(),
            unstored: ShortLock::default(),
            touched_tables: ShortLock::default(),
            dirty_blocks: AtomicU64::new(0),
            mutable: ShortLock::new(Mutable::of(&superblock)),
            writable,
            latch,
            data: options.data,
            pages: AtomicUsize::new(0),
            pages_max,
            written_bytes: AtomicU64::new(0),
            superblock_written: ShortLock::default(),
            held: OnceLock::new(),
            device,
            superblock,
        })
    }

    /// Blocks of the device that may hold anything but zeros, about: what claims of a volume that
    /// is only read are held against. The device is asked once.
    pub(crate) fn held_blocks(&self) -> Result<u64> {
        if let Some(held) = self.held.get() {
            return Ok(*held);
        }
        let held = extant_block::held_bytes(&*self.device)?.div_ceil(self.block_size().into());
        Ok(*self.held.get_or_init(|| held))
    }

    /// Counts pages that came into memory.
    pub(crate) fn count_pages(&self, pages: usize) {
        self.pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// Whether enough pages came into memory to look after it; counts anew when it says yes.
    pub(crate) fn is_crowded_with_pages(&self) -> bool {
        let crowded = self.pages.load(Ordering::Relaxed) > self.pages_max;
        if crowded {
            self.pages.store(0, Ordering::Relaxed);
        }
        crowded
    }

    /// Says how many blocks of a file are dirty now.
    pub(crate) fn note_dirty(&self, pages: &Pages, state: &NodeState) {
        let now = state.dirty.len();
        let before = pages.count_dirty(now, self.clock.now());
        let block_size = u64::from(self.block_size());
        if now >= before {
            self.dirty_blocks.fetch_add(now - before, Ordering::Relaxed);
            self.seat.dirtied((now - before) * block_size);
        } else {
            self.dirty_blocks.fetch_sub(before - now, Ordering::Relaxed);
            self.seat.forgotten((before - now) * block_size);
        }
    }

    /// Says how many are left when others were submitted, each of which was counted then.
    pub(crate) fn note_submitted(&self, pages: &Pages, state: &NodeState) {
        let (now, clock_now) = (state.dirty.len(), self.clock.now());
        let before = pages.count_dirty(now, clock_now);
        self.dirty_blocks.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        if now > 0 {
            pages.renew(clock_now);
        }
    }

    /// Bytes of files and metadata that are dirty.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        let blocks = self.dirty_blocks.load(Ordering::Relaxed) + self.cache.dirty_frames();
        blocks * u64::from(self.block_size())
    }

    /// The lock under which bitmaps are loaded, where the policy says so.
    pub(crate) fn lock_superblock(&self) -> Option<SleepGuard<'_, ()>> {
        match self.policies.bitmap_load {
            BitmapLoad::UnderLock => Some(self.superblock_lock.lock()),
            BitmapLoad::Outside => None,
        }
    }

    /// Whether a file's data is durable before anything that makes it readable.
    pub(crate) fn writes_data_first(&self) -> bool {
        self.policies.data_order == DataOrder::DataFirst
    }

    /// Whether a file's new blocks are given when they are written back. They have to be where data
    /// comes first: a map leads to nothing that was not submitted.
    pub(crate) fn delays_allocation(&self) -> bool {
        self.writes_data_first() || self.allocation.delayed() == Delay::AtWriteBack
    }

    /// Whether inodes reach their table blocks only when they are written back. Where data comes
    /// first they do not: a name would lead to what is not stored.
    pub(crate) fn stores_inodes_late(&self) -> bool {
        let late = self.policies.inode_creation != InodeCreation::ZeroFill
            && self.policies.mount == Mount::Async;
        late && !self.writes_data_first()
    }

    /// What tells a new inode from earlier ones of its number: one more than the last had. Where
    /// its table block is read late, the time has to do.
    pub(crate) fn next_generation(&self, ino: Ino) -> Result<u32> {
        let (block, _) = inode::place(self, ino)?;
        if self.stores_inodes_late() && !self.cache.holds_filled(block) {
            if self.policies.inode_creation == InodeCreation::PreRead {
                self.cache.prefetch(std::iter::once((block, Kind::Plain)));
            }
            return Ok(self.clock.wall().seconds as u32);
        }
        Ok(inode::load(self, ino).map_or(0, |old| old.generation).wrapping_add(1))
    }

    /// A file became so large; 2 GiB and more need a feature bit.
    pub(crate) fn note_file_size(&self, size: u64) {
        if size > i32::MAX as u64 && !self.superblock.has(Feature::LARGE_FILE) {
            self.mutable.lock().large_file = true;
        }
    }

    /// Writes all changed metadata, then the superblock, and waits until the device has it.
    pub(crate) fn sync_metadata(&self) -> Result<()> {
        let freed = self.sweep_metadata()?;
        let now = self.clock.wall().seconds.max(0) as u64;
        let superblock = self.current_superblock(now);
        // Where nothing changed but the time, nothing is written; a flush under way is waited for.
        if self.barrier.has_unflushed() || !self.is_written(&superblock) {
            self.write_superblock(&superblock, GroupNo(0))?;
        }
        self.barrier.pass()?;
        self.groups.reuse(freed);
        Ok(())
    }

    /// Whether the primary superblock on the device is this one, but for the time.
    fn is_written(&self, superblock: &Superblock) -> bool {
        *self.superblock_written.lock() == encoded_without_time(superblock)
    }

    /// Writes all changed metadata but the superblock. What was freed before is durable then, and
    /// may be used again.
    pub(crate) fn write_metadata(&self) -> Result<()> {
        let freed = self.sweep_metadata()?;
        if !freed.is_empty() {
            self.barrier.pass()?;
            self.groups.reuse(freed);
        }
        Ok(())
    }

    /// One sweep; gives what may be used again when it is durable.
    fn sweep_metadata(&self) -> Result<Freed> {
        self.check_writable()?;
        let freed = self.groups.take_freed();
        if let Err(error) = Handle::begin(self, 0).and_then(|handle| self.groups.store(&handle)) {
            self.groups.put_back(freed);
            return Err(error);
        }
        let metadata = self.cache.write_back();
        // A failure of either is told here, whichever it was.
        self.writes.wait().and(metadata)?;
        Ok(freed)
    }

    /// An operation that changes something ended so. One that met damage or a device's error after
    /// its first change leaves memory and disk apart: nothing more is written then.
    pub(crate) fn guard<T>(&self, changes_before: u64, outcome: Result<T>) -> Result<T> {
        let broken =
            |error: &Error| matches!(error.kind, ErrorKind::Corrupt(_) | ErrorKind::Device(_));
        if let Err(error) = &outcome
            && broken(error)
            && self.cache.changes() != changes_before
        {
            self.latch.close(Some(error));
        }
        outcome
    }

    /// The superblock as it should be on the disk now.
    pub(crate) fn current_superblock(&self, now_seconds: u64) -> Superblock {
        let mut superblock = self.superblock.clone();
        let totals = self.groups.totals();
        superblock.free_blocks = totals.free_blocks;
        superblock.free_inodes = totals.free_inodes;
        superblock.written_seconds = now_seconds;
        superblock.kbytes_written += self.written_bytes.load(Ordering::Relaxed) / 1024;
        let mutable = self.mutable.lock();
        superblock.last_orphan = mutable.last_orphan;
        superblock.state = mutable.state;
        superblock.blocks_count = mutable.blocks_count;
        superblock.reserved_blocks = superblock.reserved_blocks.min(mutable.blocks_count / 2);
        if mutable.large_file {
            superblock.features.set(Feature::LARGE_FILE);
        }
        superblock
    }

    /// Writes one copy of the superblock: the primary at byte 1,024, the others at the start of
    /// their groups.
    pub(crate) fn write_superblock(&self, superblock: &Superblock, group: GroupNo) -> Result<()> {
        let mut superblock = superblock.clone();
        superblock.group_number = group.0 as u16;
        let offset = match group.0 {
            0 => SUPERBLOCK_OFFSET,
            _ => superblock.group_start(group).0 * u64::from(self.block_size()),
        };
        if !self.latch.enter() {
            return self.latch.check();
        }
        let outcome = self.device.write(offset, &superblock.encode()).map_err(Error::from);
        match &outcome {
            Ok(()) => self.barrier.note_written(),
            Err(error) => self.latch.close(Some(error)),
        }
        self.latch.leave();
        if group == GroupNo(0) {
            *self.superblock_written.lock() = encoded_without_time(&superblock);
        }
        outcome
    }

    /// Bytes of a block.
    pub(crate) fn block_size(&self) -> u32 {
        self.superblock.block_size()
    }

    /// Fails unless the volume may be changed.
    ///
    /// # Errors
    /// `ReadOnly` when it was opened so, or was closed; what closed its latch.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.writable {
            true => self.latch.check(),
            false => Err(ErrorKind::ReadOnly.into()),
        }
    }

    /// The time of day for stamps.
    pub(crate) fn now(&self) -> Time {
        let wall = self.clock.wall();
        self.kept(Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds })
    }

    /// A time as inodes keep it: what is in memory is what is read again.
    pub(crate) fn kept(&self, time: Time) -> Time {
        time.kept(self.superblock.inode_size)
    }

    /// Seed of the checksums of an inode's blocks.
    pub(crate) fn inode_seed(&self, ino: Ino, generation: u32) -> u32 {
        extant_format::checksum::inode_seed(self.superblock.checksum_seed, ino, generation)
    }

    /// Whether a block may belong to a file: it lies inside the volume, behind the first data
    /// block.
    pub(crate) fn holds_block(&self, block: BlockNo) -> bool {
        block.0 > u64::from(self.superblock.first_data_block)
            && block.0 < self.superblock.blocks_count
    }
}

fn encoded_without_time(superblock: &Superblock) -> Vec<u8> {
    let mut timeless = superblock.clone();
    timeless.written_seconds = 0;
    timeless.encode().to_vec()
}

/// How blocks of directories look.
fn style_of(superblock: &Superblock) -> Style {
    Style {
        block_size: superblock.block_size(),
        typed: superblock.has(Feature::FILETYPE),
        checksummed: superblock.has(Feature::METADATA_CSUM),
    }
}

/// All groups, used as the policies say.
fn open_groups(superblock: &Superblock, cache: &Cache, policies: &Policies) -> Result<Groups> {
    let mut groups = Groups::open(superblock, |block| Ok(cache.read(block, Kind::Plain)?.bytes()))?;
    groups.set_map_blocks(policies.map_blocks);
    groups.set_order(policies.data_order);
    if policies.growth == Growth::Reservation {
        groups.bind_all_by_windows();
    }
    Ok(groups)
}

/// The superblock of a volume that lies whole on its device and needs no recovery.
fn believable_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let superblock = read_superblock(device)?;
    let volume_bytes = superblock.blocks_count.checked_mul(u64::from(superblock.block_size()));
    let device_bytes = device.info().bytes;
    if volume_bytes.is_none_or(|bytes| bytes > device_bytes) {
        let reason = "more than the device holds: is the image cut short?";
        let (place, found) = (Place::Superblock, superblock.blocks_count);
        return Err(Error::field(place, "superblock", "number of blocks", found, reason));
    }
    if superblock.has(Feature::NEEDS_RECOVERY) {
        return Err(ErrorKind::NeedsRecovery.into());
    }
    Ok(superblock)
}

/// Reads and checks the primary superblock of a device.
///
/// # Errors
/// `NotExt`, `Unsupported`, `Corrupt`, or what the device answers.
pub fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    match device.read(SUPERBLOCK_OFFSET, &mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(ErrorKind::NotExt.into());
        }
        outcome => outcome?,
    }
    Ok(Superblock::parse(&bytes)?)
}
