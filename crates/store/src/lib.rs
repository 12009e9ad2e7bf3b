//! The store: everything between the engine and the device, and the space of a volume. The layers
//! above write only through it. It knows nothing of inodes or names, but for `cache::rollback`,
//! which takes out of a block what soft updates may not write yet.
//!
//! ```text
//! space       groups: their bitmaps and counters, and what is promised of them
//! handle      one operation's permission to change metadata
//! sweep       freezes all dirty metadata at once and writes it stage by stage
//! superblock  the fields of the superblock that change
//! cache       frames: metadata blocks in memory (cache/fill: read, cache/sweep: written,
//!             cache/rollback: what may not be on the disk yet, taken out of what is written)
//! journal     metadata reaches its place after a copy of it is durable in the log
//! eviction    the order in which frames and nodes are evicted
//! gate        keeps operations and the freezing of a sweep apart
//! writes      write requests under way
//! barrier     knows what is durable, flushes the rest
//! latch       closed by the first failure; no write starts afterwards
//! budget      dirty bytes on all volumes that share memory
//! mount_hold  a volume that several machines may reach is written by one of them (mmp)
//! proportion  shares of recent events, per device and per writer
//! shares      how memory is divided
//! growing     what gets longer, or is replaced, while others read it
//! error       what can go wrong                    runs    sets of file blocks
//! ranks       the order of all locks               seeded  mistakes that tests make on purpose
//! ```
//!
//! *Invariants*: `superblock` is what was read at opening (geometry, features that decide layouts,
//! seeds), and is replaced only when the volume grows (`space::growth`); fields that change are in
//! `record`. Frames are changed only through a [`Handle`](handle::Handle). Nothing is written once
//! the latch is closed, but the note that a failure closed it.
//! *Locking*: `cache.sweep`, then `journal.checkpointing`, `gate` and `barrier.flushing`, all of
//! them sleeping; `error_noted`, once the latch is closed, with none of them. A handle holds the
//! gate shared, a sweep exclusively while it freezes. The short locks: a cache shard or the list of
//! dirty frames, then a frame, then the progress of writes, the budget or the spare buffers. Those
//! of `record` and `latch` are taken on their own.
pub(crate) mod barrier;
pub mod budget;
pub mod cache;
pub mod error;
pub mod eviction;
mod gate;
pub mod growing;
pub mod handle;
pub mod journal;
pub mod latch;
pub mod mount_hold;
mod proportion;
pub mod ranks;
pub mod runs;
pub mod seeded;
pub mod shares;
pub mod space;
pub mod superblock;
pub mod sweep;
pub mod writes;

use crate::error::{Error, ErrorKind, Result};
use barrier::Barrier;
use budget::{DirtyBudget, Seat};
use cache::{Cache, CacheParts};
use extant_block::buffer::PoolShare;
use extant_block::paced::Limits;
use extant_block::{BlockDevice, Clock, Neighbours, Paced, SleepLock};
use extant_format::directory::Style;
use extant_format::hash::Hasher;
use extant_format::inode::Time;
use extant_format::superblock::{Feature, Superblock, state};
use extant_format::{BlockNo, Ino, Run};
use extant_policy::allocation::Delay;
use extant_policy::preset::{
    Congestion, DataOrder, InodeCreation, Journal, Mount, NeighbourReadAhead, Policies,
};
use gate::Gate;
use growing::Versions;
use journal::Log;
use latch::Latch;
pub use shares::Shares;
pub use shares::{cache_for_blocks, least_cache_bytes};
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use superblock::Record;
use writes::Writes;

/// What may be done with a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read only. Nothing is ever written, not even a mount count.
    ReadOnly,
    /// Read and change.
    ReadWrite,
}

/// Whether the bytes of files are kept, or only their blocks. The laboratory ages disks that are
/// larger than its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKeeping {
    /// Reading returns what was written.
    Bytes,
    /// Data reads as zeros; metadata is kept.
    Phantom,
}

/// How a volume is opened.
#[derive(Clone)]
pub struct Options {
    /// Whether it may be changed.
    pub access: Access,
    /// How blocks are placed, read and written.
    pub policies: Policies,
    /// Memory for everything that is kept of the volume, in bytes: three eighths for
    /// blocks of metadata, as much for blocks of files, and the rest for what is read ahead,
    /// inodes, names, and what all of these need beside them. No more than 1.05 times as much is
    /// ever held, but for what callers hold open (see [`least_cache_bytes`], which is the least
    /// that is taken) and what the volume's size asks for: about 500 bytes for each block group.
    /// `Filesystem::memory_use` tells what it has.
    pub cache_bytes: usize,
    /// Whether the bytes of files are kept.
    pub data: DataKeeping,
}

/// One open volume, up to its device.
pub struct Store {
    /// The device itself: for flushes, the log and surveys. What reads ahead in front of it never
    /// gives out the blocks of the log: no file owns them.
    pub device: Arc<dyn BlockDevice>,
    /// The device with the policies' read-ahead in front, which has to know of every write to what
    /// it may hold: used for files, metadata and the superblock, and by mkfs.
    pub traffic: Arc<dyn BlockDevice>,
    /// That read-ahead, for what it takes of the memory.
    pub ahead: Ahead,
    /// The clock of the device.
    pub clock: Arc<dyn Clock>,
    /// What was read at opening; another one once the volume has grown.
    pub superblock: Versions<Superblock>,
    /// Block size and options of directory blocks.
    pub style: Style,
    /// How names of indexed directories are hashed.
    pub hasher: Hasher,
    /// The preset's choice for each column.
    pub policies: Policies,
    /// Metadata blocks in memory.
    pub cache: Cache,
    /// Writes of files' blocks under way.
    pub writes: Arc<Writes>,
    /// Flushes between what has to be durable first and what may follow.
    pub barrier: Arc<Barrier>,
    /// Closed by the first failure, and when the volume is closed: nothing is written afterwards.
    pub latch: Arc<Latch>,
    /// This volume's part of the dirty budget.
    pub seat: Arc<Seat>,
    /// Open while operations change metadata; closed while a sweep freezes it.
    gate: Gate,
    /// The journal, where changes go through one; set when the volume is opened.
    log: OnceLock<Log>,
    /// The fields of the superblock that change.
    pub record: Record,
    access: Access,
    /// Free buffers that it pays for.
    _buffers: PoolShare,
    /// Whether what is on the device is in memory there too, as with files of the host.
    pub is_remembered: bool,
    /// Blocks in which the device holds data, once it was asked.
    held: OnceLock<u64>,
    /// A failure was noted on the device. Held while that is done.
    error_noted: SleepLock<bool>,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Writes still under way no longer count against other volumes.
        self.seat.leave();
    }
}

impl Store {
    /// Opens the store on a device: reads the superblock and nothing else. `shared` is a dirty
    /// budget shared with other volumes and the number of this device in it; without it, the volume
    /// gets a budget of its own.
    ///
    /// # Errors
    /// `NotExt`, `Unsupported`, `NeedsRecovery`, `Corrupt`, or what the device returns.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Store> {
        let writable = options.access == Access::ReadWrite && !device.info().read_only;
        let access = if writable { Access::ReadWrite } else { Access::ReadOnly };
        let superblock = superblock::read_whole(&*device, access)?;
        let style = style_of(&superblock);
        let shares = Shares::enough(options.cache_bytes, superblock.block_size())?;
        let ahead = Ahead::of(&device, options, &shares);
        let traffic = ahead.traffic(&device);
        let latch = Latch::new(device.clock());
        let throttle = &options.policies.throttle;
        let block_bytes = u64::from(superblock.block_size());
        let seat = match shared {
            Some((budget, number)) => budget.join(number, block_bytes, throttle),
            None => {
                let memory = pages_max(options, &superblock) as u64 * block_bytes;
                DirtyBudget::new(device.clock(), memory).join(0, block_bytes, throttle)
            }
        };
        if options.policies.congestion == Congestion::Leaves {
            seat.wake_at_relief(&device);
        }
        let barrier = Barrier::new(&device, &latch, options.policies.flushes);
        let may_journal = writable
            && superblock.has(Feature::HAS_JOURNAL)
            && options.policies.journal != Journal::None;
        let surroundings = CacheParts {
            latch: &latch,
            seat: &seat,
            barrier: &barrier,
            order: match may_journal || options.policies.mount == Mount::SoftUpdates {
                true => DataOrder::DataFirst,
                false => options.policies.data_order,
            },
        };
        Ok(Store {
            cache: {
                let traffic = Arc::clone(&traffic);
                Cache::new(traffic, &superblock, style, shares.frames, &surroundings)
            },
            writes: Arc::new(Writes::new(device.clock(), &latch, &barrier)),
            clock: Arc::clone(device.clock()),
            hasher: Hasher::of(&superblock),
            style,
            policies: options.policies.clone(),
            gate: Gate::new(device.clock()),
            log: OnceLock::new(),
            record: Record::of(&superblock),
            access,
            _buffers: PoolShare::new(shares.buffers),
            is_remembered: device
                .read_remembered(extant_format::superblock::SUPERBLOCK_OFFSET, &mut [0])
                > 0,
            held: OnceLock::new(),
            error_noted: SleepLock::new(Arc::clone(device.clock()), false).ranked(ranks::FLUSHING),
            traffic,
            ahead,
            seat,
            barrier,
            latch,
            device,
            superblock: Versions::new(superblock),
        })
    }

    /// About how many blocks of the device may hold anything but zeros. Sizes that a damaged volume
    /// claims are compared with it. The device is asked once.
    pub fn held_blocks(&self) -> Result<u64> {
        if let Some(held) = self.held.get() {
            return Ok(*held);
        }
        let held = extant_block::held_bytes(&*self.device)?.div_ceil(self.block_size().into());
        Ok(*self.held.get_or_init(|| held))
    }

    /// Whether changes are to go through the volume's journal: in the volume, or behind it.
    pub fn wants_journal(&self) -> bool {
        self.access == Access::ReadWrite
            && self.superblock.has(Feature::HAS_JOURNAL)
            && self.policies.journal != Journal::None
            && (self.superblock.journal_inode != 0 || self.device.capabilities().annex.is_some())
    }

    /// Has all changes go through the journal from now on, whose blocks are in these runs. Nothing
    /// was changed so far. The journal is empty. Nothing is written: the caller makes durable that
    /// the volume asks for recovery, then calls [`begin_log`](Store::begin_log).
    ///
    /// # Errors
    /// `Corrupt` for a journal that is damaged; what the device returns.
    pub fn start_journal(&self, runs: Vec<Run>) -> Result<()> {
        let parts = journal::LogParts {
            device: &self.device,
            superblock: &self.superblock,
            runs,
            mode: self.policies.journal,
            frames_max: self.cache.frames_max(),
            latch: &self.latch,
            barrier: &self.barrier,
        };
        let log = Log::open(parts)?;
        self.record.needs_recovery.store(true, Ordering::Release);
        self.cache.begin_journal();
        if log.has_error() {
            self.record.change(|changes| changes.state |= state::ERRORS);
        }
        let _ = self.log.set(log);
        Ok(())
    }

    /// Makes the log begin, after the volume's superblock asks for recovery: a log that begins in a
    /// volume which does not ask for it is one that e2fsck asks about.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub fn begin_log(&self) -> Result<()> {
        self.log().map_or(Ok(()), |log| log.begin(self))
    }

    /// Empties the journal: everything is in its place. Nothing may be changed any more.
    ///
    /// # Errors
    /// The first write error, which closes the latch.
    pub fn finish_journal(&self) -> Result<()> {
        if let Some(log) = self.log() {
            log.finish(self)?;
            self.record.needs_recovery.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Writes all committed blocks to their place.
    ///
    /// # Errors
    /// The first write error, which closes the latch.
    pub fn checkpoint(&self) -> Result<()> {
        self.log().map_or(Ok(()), |log| log.checkpoint(self))
    }

    /// After a failure: notes in the journal, and in the superblock, that an error stopped them,
    /// for the next program that opens the volume. Once; if the device takes no more writes, the
    /// volume stays without these notes. No write is under way.
    pub fn note_error(&self) {
        let Err(error) = self.latch.check() else { return };
        if matches!(error.kind, ErrorKind::ReadOnly) {
            // It was closed in order.
            return;
        }
        // A second thread waits until it is noted: it then tells its caller that nothing more is
        // written.
        let mut noted = self.error_noted.lock();
        if std::mem::replace(&mut *noted, true) {
            return;
        }
        if let Some(log) = self.log() {
            log.note_error();
        }
        // One that cannot be read or written has to do without.
        let _ = superblock::record_error(&*self.traffic, &error);
    }

    /// The journal, where changes go through one.
    pub fn log(&self) -> Option<&Log> {
        self.log.get()
    }

    /// What goes through the journal.
    pub fn journal(&self) -> Journal {
        self.log.get().map_or(Journal::None, |log| log.mode)
    }

    /// Whether changes go through a journal.
    pub fn journals(&self) -> bool {
        self.log.get().is_some()
    }

    /// Whether there is no journal, and metadata is written in stages, data first.
    pub fn writes_in_stages(&self) -> bool {
        !self.journals()
            && (self.policies.data_order == DataOrder::DataFirst
                || self.policies.mount == Mount::SoftUpdates)
    }

    /// Whether the order of a journal is kept by soft updates: see `cache::rollback`.
    pub fn updates_softly(&self) -> bool {
        self.policies.mount == Mount::SoftUpdates && !self.wants_journal()
    }

    /// Whether the disk changes from one consistent state to another: freed blocks are held back,
    /// sizes do not count data that was not submitted, inodes are stored at once.
    pub fn keeps_order(&self) -> bool {
        self.journals() || self.writes_in_stages()
    }

    /// Whether a file's data becomes durable before the metadata that makes it readable.
    pub fn writes_data_first(&self) -> bool {
        match self.journal() {
            Journal::None => self.writes_in_stages(),
            Journal::Writeback => false,
            Journal::Ordered | Journal::OrderedJbd | Journal::Data => true,
        }
    }

    /// Whether a file's new blocks are allocated at write-back. With data first and with a journal
    /// they always are: a map must not point to a block whose data was not submitted.
    pub fn delays_allocation(&self) -> bool {
        self.keeps_order() || self.policies.allocation.delayed() == Delay::AtWriteBack
    }

    /// Whether a file's new blocks get their place when they are written, though they enter the map
    /// at write-back: as ext3 did under its journal.
    pub fn chooses_at_write(&self) -> bool {
        self.journal() == Journal::OrderedJbd
            && self.policies.allocation.delayed() == Delay::AtWrite
    }

    /// Whether a block is not changed while a commit writes a copy of it to the log, and an access
    /// joins a transaction: as JBD and ext3 of 2007 had it.
    pub fn waits_for_log(&self) -> bool {
        self.journal() == Journal::OrderedJbd
    }

    /// Whether inodes reach their table blocks only at write-back. With data first they do not: a
    /// name would point to an inode that is not stored.
    pub fn stores_inodes_late(&self) -> bool {
        let late = matches!(
            self.policies.inode_creation,
            InodeCreation::ReadOnWrite | InodeCreation::PreRead
        ) && self.policies.mount == Mount::Async;
        late && !self.keeps_order()
    }

    /// Size of a block in bytes.
    pub fn block_size(&self) -> u32 {
        self.superblock.block_size()
    }

    /// Fails unless the volume may be changed.
    ///
    /// # Errors
    /// `ReadOnly` if it was opened for reading or has been closed; the failure that closed the
    /// latch.
    pub fn check_writable(&self) -> Result<()> {
        match self.access {
            Access::ReadWrite => self.latch.check(),
            Access::ReadOnly => Err(ErrorKind::ReadOnly.into()),
        }
    }

    /// Writes blocks that nothing points to yet, and waits for them. Used for the journal and
    /// similar structures of a volume that is being made.
    ///
    /// # Errors
    /// What the device returns, which closes the latch; what closed the latch before.
    pub fn write_unreferenced(&self, start: BlockNo, bytes: &[u8]) -> Result<()> {
        self.write_at(start.0 * u64::from(self.block_size()), bytes)
    }

    /// Writes bytes at an offset in bytes, and waits for them.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.latch.enter() {
            return self.latch.check();
        }
        let outcome = self.traffic.write(offset, bytes).map_err(Error::from);
        match &outcome {
            Ok(()) => self.barrier.note_written(),
            Err(error) => self.latch.close(Some(error)),
        }
        self.latch.leave();
        outcome
    }

    /// Writes pieces end to end at an offset in bytes, and waits for them.
    fn write_pieces_at(&self, offset: u64, pieces: &[Arc<Vec<u8>>]) -> Result<()> {
        if !self.latch.enter() {
            return self.latch.check();
        }
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let outcome = self.traffic.write_vectored(offset, &slices).map_err(Error::from);
        match &outcome {
            Ok(()) => self.barrier.note_written(),
            Err(error) => self.latch.close(Some(error)),
        }
        self.latch.leave();
        outcome
    }

    /// Writes bytes at an offset in bytes, and waits until they are durable. Says nothing about
    /// other writes.
    fn write_forced(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.latch.enter() {
            return self.latch.check();
        }
        let written = match self.barrier.flushes() {
            true => self.traffic.write_durable(offset, bytes),
            false => self.traffic.write(offset, bytes),
        };
        let outcome = written.map_err(Error::from);
        if let Err(error) = &outcome {
            self.latch.close(Some(error));
        }
        self.latch.leave();
        outcome
    }

    /// Tells the device that blocks are not needed any more. A failure does not close the latch:
    /// nothing points to them.
    ///
    /// # Errors
    /// `OperationUnsupported` if the device can do nothing with that; what it returns otherwise;
    /// what closed the latch.
    pub(crate) fn discard(&self, run: Run) -> Result<()> {
        self.check_writable()?;
        if !self.latch.enter() {
            return self.latch.check();
        }
        let block_size = u64::from(self.block_size());
        let offset = run.start.0.saturating_mul(block_size);
        let outcome = self.traffic.discard(offset, u64::from(run.length) * block_size);
        self.barrier.note_written();
        self.latch.leave();
        outcome.map_err(|error| match error.kind() {
            std::io::ErrorKind::Unsupported => {
                ErrorKind::OperationUnsupported("the device gives nothing back").into()
            }
            _ => error.into(),
        })
    }

    /// Forgets the frames of freed blocks. A copy of them in the journal is not replayed any more.
    pub fn forget_run(&self, run: Run) {
        if let Some(log) = self.log() {
            log.forget(run);
        }
        self.cache.forget_run(run);
    }

    /// Whether it is driven as by the systems of the posts: data in no order, or in that of ext3.
    pub fn is_of_the_posts(&self) -> bool {
        match self.journals() {
            true => self.journal() == Journal::OrderedJbd,
            false => !self.writes_in_stages(),
        }
    }

    /// The current time of day, as an inode can store it.
    pub fn now(&self) -> Time {
        let wall = self.clock.wall();
        self.kept(Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds })
    }

    /// A time as an inode stores it, so that memory and disk agree.
    pub fn kept(&self, time: Time) -> Time {
        time.kept(self.superblock.inode_size)
    }

    /// Seed of the checksums of an inode's blocks.
    pub fn inode_seed(&self, ino: Ino, generation: u32) -> u32 {
        extant_format::checksum::inode_seed(self.superblock.checksum_seed, ino, generation)
    }

    /// Whether a block may belong to a file: it is in the volume, after the first data block.
    pub fn holds_block(&self, block: BlockNo) -> bool {
        block.0 > u64::from(self.superblock.first_data_block)
            && block.0 < self.superblock.blocks_count
    }
}

/// What reads ahead across files, in front of the device.
pub enum Ahead {
    /// Nothing does.
    None,
    /// Stretches that grow while small reads are near each other.
    Grow(Arc<Neighbours>),
    /// The same, as far as the device's latency and rate are worth it.
    Paced(Arc<Paced>),
}

impl Ahead {
    /// The read-ahead that policies have, within its share of memory.
    fn of(device: &Arc<dyn BlockDevice>, options: &Options, shares: &Shares) -> Ahead {
        let (device, memory_bytes) = (Arc::clone(device), shares.neighbours as u64);
        match options.policies.neighbour_read_ahead {
            NeighbourReadAhead::None => Ahead::None,
            NeighbourReadAhead::Grow(bytes) => {
                Ahead::Grow(Arc::new(Neighbours::new(device, bytes).within(memory_bytes)))
            }
            NeighbourReadAhead::Paced(stretch_bytes_max) => {
                let limits = Limits { stretch_bytes_max, memory_bytes };
                Ahead::Paced(Arc::new(Paced::new(device, limits)))
            }
        }
    }

    /// The device with it in front.
    fn traffic(&self, device: &Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        match self {
            Ahead::None => Arc::clone(device),
            Ahead::Grow(neighbours) => Arc::clone(neighbours) as Arc<dyn BlockDevice>,
            Ahead::Paced(paced) => Arc::clone(paced) as Arc<dyn BlockDevice>,
        }
    }

    /// Bytes that it holds, or reads.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Ahead::None => 0,
            Ahead::Grow(neighbours) => neighbours.held_bytes(),
            Ahead::Paced(paced) => paced.held_bytes(),
        }
    }
}

/// Blocks of files that are kept at least.
const PAGES_MIN: usize = 64;

/// How many blocks of files are kept in memory.
pub fn pages_max(options: &Options, superblock: &Superblock) -> usize {
    (Shares::of(options.cache_bytes).pages / superblock.block_size() as usize).max(PAGES_MIN)
}

/// Block size and options of directory blocks.
fn style_of(superblock: &Superblock) -> Style {
    Style {
        block_size: superblock.block_size(),
        typed: superblock.has(Feature::FILETYPE),
        checksummed: superblock.has(Feature::METADATA_CSUM),
    }
}
