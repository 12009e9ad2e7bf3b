//! Writing the image: mkfs, the tree through the engine, the end cut off.
use super::goals::Goals;
use super::inodes::InodeWish;
use super::job::{Built, Destination, Failure, Job, Place};
use super::plan::{self, VolumePlan};
use super::room::{ImageSize, Room};
use super::stream::{DataStream, with_stream};
use super::within::Within;
use crate::error::{Error, ErrorKind};
use crate::progress::Progress;
use extant_archive::reason;
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::allocation::{Allocation, packed_around, packed_from};
use extant_engine::import::Import;
use extant_engine::mkfs;
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_format::layout::Inodes;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for metadata that waits to be written, in bytes.
const CACHE_BYTES: usize = 32 << 20;
/// Attempts at a volume that ends exactly after its content.
const ATTEMPTS: u32 = 12;

/// How an attempt ended that did not fail.
enum Attempt {
    /// The image is complete.
    Built(Built),
    /// The last group would be cut off, or has nothing but metadata: this many blocks suffice, if
    /// a volume of fewer groups holds the tree.
    TooLarge { end: u64 },
    /// The tree does not fit.
    NoSpace,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Not a byte after these, counted from the start of the volume, is written.
    Image { bytes_max: u64 },
    /// To see whether it fits, in memory; nothing is read from the sources, nothing is written to
    /// the destination.
    Trial,
}

impl Purpose {
    /// An image that has its file to itself.
    const WHOLE_IMAGE: Purpose = Purpose::Image { bytes_max: u64::MAX };
}

/// Where the volume ends when the tree is in it.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// Where it was planned.
    Planned,
    /// After this many blocks, but not before its last group or its content ends.
    At(u64),
    /// After its content and this room.
    After(Room),
}

/// An attempt that succeeded, to be repeated.
struct Fitted {
    plan: VolumePlan,
    ending: Ending,
    built: Built,
}

impl Fitted {
    /// Blocks with which it may be tried again; `None` where it has none to spare.
    fn fewer_blocks(&self) -> Option<u64> {
        let Built { blocks, free_blocks, block_size, inodes, .. } = self.built;
        if free_blocks > 0 {
            return Some(blocks - free_blocks);
        }
        let per_group = u64::from(self.plan.blocks_per_group.max(1));
        let counted = blocks.saturating_sub(u64::from(block_size == 1024));
        let (groups, before) = (counted.div_ceil(per_group), counted.saturating_sub(1) / per_group);
        let last = counted - before * per_group;
        let inode_size = u64::from(self.plan.options.wishes.inode_size);
        let table = u64::from(inodes) / groups.max(1) * inode_size / u64::from(block_size);
        // Its two bitmaps and its table.
        (groups > 1 && last <= table + 2).then_some(blocks - last)
    }
}

impl Job<'_> {
    /// Builds the image. `progress` is advanced by bytes of file data that were written.
    ///
    /// # Errors
    /// What does not fit, with the shortfall and before anything is written; sources that cannot be
    /// read; the destination.
    pub fn build(self, progress: &dyn Progress) -> Result<Built, Error> {
        Job { progress, ..self }.build_sized()
    }

    fn build_sized(&self) -> Result<Built, Error> {
        let built = match self.size {
            ImageSize::Fixed(bytes) => self.build_fixed(bytes)?,
            ImageSize::Exact(free) => self.build_exact(free)?,
        };
        if self.destination.place == Place::Whole {
            let bytes = match self.size {
                ImageSize::Fixed(bytes) => bytes,
                ImageSize::Exact(_) => built.bytes(),
            };
            self.set_length(self.origin.saturating_add(bytes))?;
        }
        Ok(built)
    }

    fn build_exact(&self, free: Room) -> Result<Built, Error> {
        let plan = self.plan_exact(free)?;
        let Some(end_bytes) = self.destination.place.end_bytes() else {
            return Ok(self.fit(Purpose::WHOLE_IMAGE, plan, free)?.built);
        };
        // Where the image ends is found out before anything is written, as what is after it stays.
        let fitted = self.fit(Purpose::Trial, plan, free)?;
        let needed = self.origin.saturating_add(fitted.built.bytes());
        if needed > end_bytes {
            return Err(self.device_too_small(needed, end_bytes));
        }
        self.repeat(&fitted)
    }

    fn device_too_small(&self, needed: u64, device_bytes: u64) -> Error {
        let name = &self.destination.name;
        let missing = needed - device_bytes;
        Error::new(format!(
            "{name}: holds {device_bytes} bytes, the image needs {needed}: {missing} bytes more"
        ))
        .of(ErrorKind::DeviceTooSmall)
    }

    fn plan_exact(&self, free: Room) -> Result<VolumePlan, Error> {
        let plan = plan::exact(&self.template, &self.need, self.inodes, free, self.flex);
        plan.map_err(|error| self.refused(error))
    }

    /// Attempts one size after the other until the volume ends after its content.
    fn fit(&self, purpose: Purpose, first: VolumePlan, free: Room) -> Result<Fitted, Error> {
        let mut plan = first;
        let mut roomy: Option<VolumePlan> = None;
        for attempt in 0..ATTEMPTS {
            match self.attempt(&plan, purpose, Ending::After(free))? {
                Attempt::Built(built) => {
                    let fitted = Fitted { plan, ending: Ending::After(free), built };
                    return self.tightened(purpose, fitted, free);
                }
                Attempt::TooLarge { end } => {
                    let fewer = self.sized(&plan, end);
                    let Ok(fewer) = fewer else {
                        return self.minimal(purpose, plan, free);
                    };
                    roomy = Some(std::mem::replace(&mut plan, fewer));
                }
                Attempt::NoSpace => {
                    let larger = self.enlarged(&plan, (2 * u64::from(plan.groups) + 2) << attempt);
                    plan = match roomy.as_ref().map(|roomy| (roomy, &larger)) {
                        None => larger?,
                        Some((roomy, Ok(larger))) if larger.groups < roomy.groups => larger.clone(),
                        // Without the last group it does not fit: it stays, as short as it can be.
                        Some((roomy, _)) => return self.minimal(purpose, roomy.clone(), free),
                    };
                }
            }
        }
        Err(Error::new("no volume size was found that ends with its content"))
    }

    /// A plan that is larger by at least `more` blocks, over sizes that no volume can have.
    fn enlarged(&self, plan: &VolumePlan, more: u64) -> Result<VolumePlan, Error> {
        let mut blocks = plan.options.wishes.blocks.max(plan.blocks).saturating_add(more);
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            match self.sized(plan, blocks) {
                Ok(larger) if larger.blocks > plan.blocks => return Ok(larger),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
            blocks = blocks.saturating_add(64);
        }
        match refused {
            Some(error) => Err(self.refused(error)),
            None => Err(Error::new("no volume size was found that holds the content")),
        }
    }

    /// The same plan for another size.
    fn sized(&self, plan: &VolumePlan, blocks: u64) -> Result<VolumePlan, extant_engine::Error> {
        plan::fixed(&plan.options, &self.need, plan.inode_wish, blocks)
    }

    /// The volume of this plan with a last group of one block, or of what has to be there.
    fn minimal(&self, purpose: Purpose, plan: VolumePlan, free: Room) -> Result<Fitted, Error> {
        let ending = Ending::At(0);
        match self.attempt(&plan, purpose, ending)? {
            Attempt::Built(built) => self.tightened(purpose, Fitted { plan, ending, built }, free),
            _ => Err(Error::new("no volume size was found that ends with its content")),
        }
    }

    /// The same with fewer blocks, where blocks stayed free (there is a bitmap or table at the
    /// end), or the last group brings no more blocks than it takes for itself, and it can be done.
    fn tightened(&self, purpose: Purpose, mut fitted: Fitted, free: Room) -> Result<Fitted, Error> {
        let ending = Ending::After(Room::NONE);
        let written = fitted.built.blocks;
        for _ in 0..ATTEMPTS {
            // Where data came first, blocks of what was replaced or left out are free.
            let has_arrived = self.sources.arrival().is_some();
            if free != Room::NONE || has_arrived {
                break;
            }
            let Some(fewer) = fitted.fewer_blocks() else { break };
            let Ok(plan) = self.sized(&fitted.plan, fewer) else { break };
            match self.attempt(&plan, Purpose::Trial, ending)? {
                Attempt::Built(built) if built.blocks < fitted.built.blocks => {
                    fitted = Fitted { plan, ending, built }
                }
                _ => break,
            }
        }
        if purpose != Purpose::Trial && fitted.built.blocks < written {
            self.repeat(&fitted)?;
        }
        Ok(fitted)
    }

    /// Writes what was tried.
    fn repeat(&self, fitted: &Fitted) -> Result<Built, Error> {
        let bytes_max = match (self.destination.place, self.size) {
            (Place::Whole, _) => u64::MAX,
            (Place::Part { .. }, ImageSize::Fixed(bytes)) => bytes,
            (Place::Part { .. }, ImageSize::Exact(_)) => fitted.built.bytes(),
        };
        match self.attempt(&fitted.plan, Purpose::Image { bytes_max }, fitted.ending)? {
            Attempt::Built(built) if built.bytes() <= bytes_max => Ok(built),
            _ => Err(Error::new("what fitted when it was tried does not fit")),
        }
    }

    fn build_fixed(&self, bytes: u64) -> Result<Built, Error> {
        let end = self.origin.saturating_add(bytes);
        if let Some(end_bytes) = self.destination.place.end_bytes()
            && end > end_bytes
        {
            return Err(self.device_too_small(end, end_bytes));
        }
        let purpose = Purpose::Image { bytes_max: bytes };
        let blocks = bytes / u64::from(self.template.wishes.block_size);
        let asked_inodes = self.too_few_inodes(blocks);
        let wishes = self.inodes_of_fixed_size(blocks);
        for inodes in wishes.into_iter().take_while(|_| asked_inodes.is_none()) {
            let Ok(plan) = plan::fixed(&self.template, &self.need, inodes, blocks) else {
                continue;
            };
            let fits = plan.needed_most <= plan.blocks || {
                // The count is an upper bound: whether it really does not fit is tried out.
                matches!(self.attempt(&plan, Purpose::Trial, Ending::Planned)?, Attempt::Built(_))
            };
            if fits && let Attempt::Built(built) = self.attempt(&plan, purpose, Ending::Planned)? {
                return Ok(built);
            }
        }
        let exact = self.fit(Purpose::Trial, self.plan_exact(Room::NONE)?, Room::NONE)?;
        if exact.built.blocks > blocks || asked_inodes.is_some() {
            return Err(self.shortfall(exact.built.bytes(), bytes, asked_inodes));
        }
        // A smaller volume may hold it because it gets a smaller journal, or none; it would leave
        // the rest of what was asked for unused.
        let planned = plan::fixed(&self.template, &self.need, self.inodes, blocks);
        if planned.is_ok_and(|planned| exact.plan.blocks < planned.blocks) {
            let suffices = self.least_fixed(blocks.saturating_add(1))?;
            let block_size = u64::from(self.template.wishes.block_size);
            return Err(self.shortfall(suffices.saturating_mul(block_size), bytes, None));
        }
        self.repeat(&Fitted { ending: Ending::At(blocks), ..exact })
    }

    /// The blocks, from this number on, of a volume that holds the tree, with the journal that a
    /// volume of its size gets. A few more than the fewest may be told.
    fn least_fixed(&self, from: u64) -> Result<u64, Error> {
        let mut blocks = from;
        for attempt in 0..ATTEMPTS {
            let Ok(plan) = plan::fixed(&self.template, &self.need, self.inodes, blocks) else {
                blocks = blocks.saturating_add(64);
                continue;
            };
            if let Attempt::Built(_) = self.attempt(&plan, Purpose::Trial, Ending::Planned)? {
                return Ok(blocks);
            }
            blocks = plan.needed_most.max(blocks.saturating_add(16 << attempt));
        }
        Err(Error::new("no volume size was found that holds the content"))
    }

    /// What is tried on a volume of this many blocks, the most inodes first.
    fn inodes_of_fixed_size(&self, blocks: u64) -> Vec<InodeWish> {
        let block_size = u64::from(self.template.wishes.block_size);
        let least = plan::fixed(&self.template, &self.need, self.inodes, blocks);
        let free = least.map_or(0, |plan| plan.blocks.saturating_sub(plan.needed_most));
        self.inodes
            .of_fixed_size(blocks.saturating_mul(block_size), free.saturating_mul(block_size))
    }

    /// The number of inodes that was asked for, where it does not suffice.
    fn too_few_inodes(&self, blocks: u64) -> Option<u64> {
        let Some(Inodes::AtLeast(asked)) = self.inodes.asked else {
            return None;
        };
        // Tables are whole blocks: there may be a few more than were asked for.
        let only_asked = InodeWish { needed: 0, ..self.inodes };
        let made = plan::fixed(&self.template, &self.need, only_asked, blocks)
            .map_or(asked, |plan| plan.inodes);
        (made < self.inodes.needed).then_some(asked)
    }

    fn shortfall(&self, needed: u64, bytes: u64, asked_inodes: Option<u64>) -> Error {
        let inodes = self.inodes.needed;
        let missing = needed.saturating_sub(bytes);
        let more = match asked_inodes.map(|asked| inodes.saturating_sub(asked)) {
            None => format!("{missing} bytes more than the {bytes} asked for"),
            Some(inodes) if missing == 0 => format!("{inodes} inodes more than asked for"),
            Some(inodes) => format!("{missing} bytes and {inodes} inodes more than asked for"),
        };
        let name = &self.destination.name;
        let message =
            format!("{name}: the content needs {needed} bytes with {inodes} inodes: {more}");
        let needed_inodes = asked_inodes.map(|_| inodes);
        Error::new(message).of(ErrorKind::Shortfall { needed_bytes: needed, needed_inodes })
    }

    /// What mkfs says of options that it cannot meet.
    fn refused(&self, error: extant_engine::Error) -> Error {
        let message = format!("{}: {error}", self.destination.name);
        Error::new(message).of(ErrorKind::Format(Box::new(error)))
    }

    fn write_error(&self, error: &io::Error) -> Error {
        let message = format!("{}: {}", self.destination.name, reason(error));
        let kind = match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => error.kind().into(),
        };
        Error::new(message).of(ErrorKind::Write(kind))
    }

    fn set_length(&self, bytes: u64) -> Result<(), Error> {
        self.destination.medium.set_length(bytes).map_err(|error| self.write_error(&error))
    }

    /// What an attempt is written to: the destination, emptied where it is the image's alone, or
    /// memory.
    fn device(&self, plan: &VolumePlan, purpose: Purpose) -> Result<Arc<dyn BlockDevice>, Error> {
        let Purpose::Image { bytes_max } = purpose else {
            return Ok(Arc::new(MemoryDevice::new(Arc::clone(&self.clock), plan.bytes())));
        };
        if self.destination.place == Place::Whole {
            // What an earlier attempt wrote is gone, and reads as zeros; what arrived stays.
            let block_size = u64::from(self.template.wishes.block_size);
            let arrived = self.template.tables_from.map(|end| end.0 * block_size);
            self.set_length(arrived.map_or(0, |bytes| self.origin.saturating_add(bytes)))?;
            if let Some(arrival) = self.sources.arrival() {
                arrival.empty_fronts().map_err(|error| self.write_error(&error))?;
            }
            self.set_length(self.origin.saturating_add(plan.bytes()))?;
        }
        let bytes = match self.destination.place {
            Place::Whole => plan.bytes(),
            Place::Part { .. } => plan.bytes().min(bytes_max),
        };
        let Destination { medium, name, .. } = self.destination;
        let device = medium.device(&self.clock, name, self.origin, bytes);
        let device = device.map_err(|error| self.write_error(&error))?;
        Ok(match bytes < plan.bytes() {
            true => Arc::new(Within::new(device, plan.bytes())),
            false => device,
        })
    }

    fn attempt(
        &self,
        plan: &VolumePlan,
        purpose: Purpose,
        ending: Ending,
    ) -> Result<Attempt, Error> {
        let device = self.device(plan, purpose)?;
        match self.try_attempt(plan, device, purpose, ending) {
            Ok(attempt) => Ok(attempt),
            Err(Failure::NoSpace) => Ok(Attempt::NoSpace),
            Err(Failure::Device(error)) => Err(self.device_error(&error)),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// The device's error as the destination's.
    fn device_error(&self, error: &io::Error) -> Error {
        match extant_block::raw_os_error(error) {
            Some(number) => self.write_error(&io::Error::from_raw_os_error(number)),
            None => self.write_error(error),
        }
    }

    fn try_attempt(
        &self,
        plan: &VolumePlan,
        device: Arc<dyn BlockDevice>,
        purpose: Purpose,
        ending: Ending,
    ) -> Result<Attempt, Failure> {
        let mut policies: Policies =
            "packed".parse().map_err(|error| Error::new(format!("{error}")))?;
        // The journal goes after the directories, where the data begins.
        let packed = || match plan.options.tables_from {
            None => Arc::new(packed_from(BlockNo(0), plan.data_start)),
            Some(end) => Arc::new(packed_around(end)),
        };
        policies.allocation = packed();
        policies.map_blocks = self.map_blocks;
        let mut options = plan.options.clone();
        if purpose == Purpose::Trial {
            options.contents = mkfs::Contents::Zeros;
        } else if self.has_written.swap(true, Ordering::Relaxed)
            && self.destination.place != Place::Whole
        {
            options.contents = mkfs::Contents::Unknown;
        }
        if let Some(arrival) = self.sources.arrival()
            && !arrival.agrees_with(&mkfs::plan(&options)?.0)
        {
            let message = "the volume's metadata is not where its data leaves room for it";
            return Err(Error::new(message).into());
        }
        mkfs::format(Arc::clone(&device), &options, &policies)?;
        let packed = packed();
        policies.allocation = Arc::clone(&packed) as Arc<dyn Allocation>;
        let options = Options {
            access: Access::ReadWrite,
            // An image that is not whole yet is of no use after a power cut.
            policies: policies.without_journal(),
            cache_bytes: cache_for_blocks(CACHE_BYTES),
            data: DataKeeping::Bytes,
        };
        let filesystem = Filesystem::open_held(Arc::clone(&device), &options)?;
        let mut import = filesystem.import();
        if let Some(seconds) = plan.options.dated_latest {
            import.date_until(seconds);
        }
        let goals = Goals::new(self, &packed);
        match purpose {
            Purpose::Trial => {
                let failed = AtomicBool::new(false);
                self.import(&mut import, &goals, &mut DataStream::nowhere(&failed))?
            }
            Purpose::Image { .. } => self.import_with_data(&mut import, &goals, &device)?,
        }
        if let Some(attempt) = self.cut(&filesystem, &mut import, ending)? {
            return Ok(attempt);
        }
        filesystem.close()?;
        // Those that mkfs wrote know nothing of the tree.
        let superblock = mkfs::renew_copies(&*device)?;
        Ok(Attempt::Built(Built {
            block_size: superblock.block_size(),
            blocks: superblock.blocks_count,
            free_blocks: superblock.free_blocks,
            inodes: superblock.inodes_count,
            free_inodes: superblock.free_inodes,
            has_journal: superblock.has(Feature::HAS_JOURNAL),
            uuid: superblock.uuid,
        }))
    }

    fn import_with_data(
        &self,
        import: &mut Import,
        goals: &Goals<'_>,
        device: &Arc<dyn BlockDevice>,
    ) -> Result<(), Failure> {
        let write_error = |error: &io::Error| self.device_error(error);
        with_stream(self.tree, self.sources, &**device, self.progress, &write_error, |stream| {
            self.import(import, goals, stream)
        })
    }

    /// Cuts the volume where it is to end; an attempt that did not succeed where it cannot.
    fn cut(
        &self,
        filesystem: &Filesystem,
        import: &mut Import,
        ending: Ending,
    ) -> Result<Option<Attempt>, Failure> {
        let superblock = filesystem.superblock();
        let blocks = superblock.blocks_count;
        let last_group =
            superblock.group_start(GroupNo(superblock.group_count().saturating_sub(1))).0;
        let end = match ending {
            Ending::Planned => return Ok(None),
            Ending::At(end) => end.max(import.used_end()?).max(last_group + 1),
            Ending::After(Room::NONE) => {
                (blocks - filesystem.statfs().free_blocks).max(import.used_end()?)
            }
            Ending::After(free) => {
                let used = blocks - filesystem.statfs().free_blocks;
                let end = plan::with_room(used, free, superblock.block_size().into());
                if end > blocks {
                    return Ok(Some(Attempt::NoSpace));
                }
                let used_end = import.used_end()?;
                if end < used_end && superblock.group_count() > 1 {
                    // The room ends within the last group's own metadata: without that group it may
                    // fit.
                    return Ok(Some(Attempt::TooLarge { end: end.min(last_group) }));
                }
                end.max(used_end)
            }
        };
        if end <= last_group {
            return Ok(Some(Attempt::TooLarge { end }));
        }
        let end = end.next_multiple_of(1 << superblock.cluster_log2());
        import.cut(end.min(blocks))?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
