//! The store: everything between the engine and the device. Nothing below it knows of inodes or
//! names, and nothing above it writes around it.
//!
//! ```text
//! handle       one operation's right to change metadata        superblock  what changes of it
//! sweep        frozen together, written stage by stage          budget      what is dirty, on all volumes
//! cache        frames: blocks of metadata in memory             proportion  whose part of it was how large
//! writes       requests under way                               latch       the first failure stops them all
//! gate         between operations and sweeps                    barrier     what is durable
//! ```
//!
//! *Invariants*: `superblock` is what was read at opening and never changes (geometry, features
//! that decide layouts, seeds); what changes of it is in `record`. Frames are changed through a
//! [`Handle`](handle::Handle) and in no other way. After the latch has closed nothing is written.
//! *Locking*: see `order`. The gate is held shared by every handle, and exclusively by a sweep
//! while it freezes; all else here is inside the modules.
pub(crate) mod barrier;
pub(crate) mod budget;
pub(crate) mod cache;
mod gate;
pub(crate) mod handle;
pub(crate) mod latch;
mod proportion;
pub(crate) mod superblock;
mod sweep;
pub(crate) mod writes;

use crate::error::{Error, ErrorKind, Result};
use crate::policy::allocation::Delay;
use crate::policy::preset::{DataOrder, InodeCreation, Mount, NeighbourReadAhead, Policies};
use barrier::Barrier;
use budget::{DirtyBudget, Seat};
use cache::{Cache, Surroundings};
use extant_block::{BlockDevice, Clock, Neighbours};
use extant_format::directory::Style;
use extant_format::hash::Hasher;
use extant_format::inode::Time;
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, Ino};
use gate::Gate;
use latch::Latch;
use std::sync::{Arc, OnceLock};
use superblock::Record;
use writes::Writes;

/// What may be done with a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Look only. Nothing is ever written, not even a mount count.
    ReadOnly,
    /// Look and change.
    ReadWrite,
}

/// Whether files' bytes are kept, or only their places: the laboratory ages disks larger than its
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKeeping {
    /// The bytes that were written are read again.
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

/// One open volume, as far as its device.
pub(crate) struct Store {
    /// The device itself: for the superblock and for flushes.
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The device with what the policies put before it: for files and metadata.
    pub(crate) traffic: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    /// How blocks of directories look.
    pub(crate) style: Style,
    pub(crate) hasher: Hasher,
    /// All of them, by column.
    pub(crate) policies: Policies,
    pub(crate) cache: Cache,
    /// Writes of files' blocks under way.
    pub(crate) writes: Arc<Writes>,
    /// Between what has to be durable and what may follow.
    pub(crate) barrier: Arc<Barrier>,
    /// Closed by the first failure, and by closing the volume: nothing is written afterwards.
    pub(crate) latch: Arc<Latch>,
    /// What is dirty here and elsewhere in the same memory.
    pub(crate) seat: Arc<Seat>,
    /// Open while operations change metadata; closed while a sweep freezes it.
    gate: Gate,
    pub(crate) record: Record,
    access: Access,
    /// Blocks that the device holds data in, once that was asked.
    held: OnceLock<u64>,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Write-back that is still under way is no burden to other volumes.
        self.seat.leave();
    }
}

impl Store {
    /// Opens the store on a device: reads the superblock, nothing else. On a numbered device of a
    /// shared dirty budget; without one, on a budget of its own.
    ///
    /// # Errors
    /// `NotExt`, `Unsupported`, `NeedsRecovery`, `Corrupt`, or what the device answers.
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Store> {
        let superblock = superblock::read_whole(&*device)?;
        let style = style_of(&superblock);
        let traffic: Arc<dyn BlockDevice> = match options.policies.neighbour_read_ahead {
            NeighbourReadAhead::None => Arc::clone(&device),
            NeighbourReadAhead::Grow(bytes) => {
                Arc::new(Neighbours::new(Arc::clone(&device), bytes))
            }
        };
        let latch = Latch::new(device.clock());
        let throttle = &options.policies.throttle;
        let seat = match shared {
            Some((budget, number)) => budget.join(number, throttle),
            None => {
                let block_size = superblock.block_size() as usize;
                let memory = pages_max(options, &superblock) * block_size;
                DirtyBudget::new(device.clock(), memory as u64).join(0, throttle)
            }
        };
        let barrier = Barrier::new(&device, &latch);
        let surroundings = Surroundings {
            latch: &latch,
            seat: &seat,
            barrier: &barrier,
            order: options.policies.data_order,
        };
        let bytes = options.cache_bytes;
        let writable = options.access == Access::ReadWrite && !device.info().read_only;
        Ok(Store {
            cache: Cache::new(Arc::clone(&traffic), &superblock, style, bytes, &surroundings),
            writes: Arc::new(Writes::new(device.clock(), &latch, &barrier)),
            clock: Arc::clone(device.clock()),
            hasher: Hasher::of(&superblock),
            style,
            policies: options.policies.clone(),
            gate: Gate::new(device.clock()),
            record: Record::of(&superblock),
            access: if writable { Access::ReadWrite } else { Access::ReadOnly },
            held: OnceLock::new(),
            traffic,
            seat,
            barrier,
            latch,
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

    /// Whether a file's data is durable before anything that makes it readable.
    pub(crate) fn writes_data_first(&self) -> bool {
        self.policies.data_order == DataOrder::DataFirst
    }

    /// Whether a file's new blocks are given when they are written back. They have to be where data
    /// comes first: a map leads to nothing that was not submitted.
    pub(crate) fn delays_allocation(&self) -> bool {
        self.writes_data_first() || self.policies.allocation.delayed() == Delay::AtWriteBack
    }

    /// Whether inodes reach their table blocks only when they are written back. Where data comes
    /// first they do not: a name would lead to what is not stored.
    pub(crate) fn stores_inodes_late(&self) -> bool {
        let late = self.policies.inode_creation != InodeCreation::ZeroFill
            && self.policies.mount == Mount::Async;
        late && !self.writes_data_first()
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
        match self.access {
            Access::ReadWrite => self.latch.check(),
            Access::ReadOnly => Err(ErrorKind::ReadOnly.into()),
        }
    }

    /// Writes blocks that nothing leads to yet, and waits for them: the journal and the like of a
    /// volume that is being made.
    ///
    /// # Errors
    /// What the device answers, which latches; what closed the latch.
    pub(crate) fn write_unreferenced(&self, start: BlockNo, bytes: &[u8]) -> Result<()> {
        self.write_at(start.0 * u64::from(self.block_size()), bytes)
    }

    /// Writes bytes, and waits for them.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.latch.enter() {
            return self.latch.check();
        }
        let outcome = self.device.write(offset, bytes).map_err(Error::from);
        match &outcome {
            Ok(()) => self.barrier.note_written(),
            Err(error) => self.latch.close(Some(error)),
        }
        self.latch.leave();
        outcome
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

    /// Whether a block may belong to a file: inside the volume, after the first data block.
    pub(crate) fn holds_block(&self, block: BlockNo) -> bool {
        block.0 > u64::from(self.superblock.first_data_block)
            && block.0 < self.superblock.blocks_count
    }
}

/// How many blocks of files are kept in memory.
pub(crate) fn pages_max(options: &Options, superblock: &Superblock) -> usize {
    (options.cache_bytes / superblock.block_size() as usize).max(256)
}

/// How blocks of directories look.
fn style_of(superblock: &Superblock) -> Style {
    Style {
        block_size: superblock.block_size(),
        typed: superblock.has(Feature::FILETYPE),
        checksummed: superblock.has(Feature::METADATA_CSUM),
    }
}
