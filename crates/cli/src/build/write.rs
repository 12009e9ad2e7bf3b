//! Writing the image: mkfs, the tree through the engine, the end cut off.
use super::inodes::InodeWish;
use super::need::Need;
use super::order::{LostAndFound, Order};
use super::plan::{self, Extent, FlexGroups, NO_ROOM, Plan};
use super::stream::{Stream, with_stream};
use crate::error::Error;
use crate::format_options::refusal;
use crate::progress::Progress;
use crate::size::Room;
use crate::source::Sources;
use crate::target::Target;
use crate::tree::Tree;
use extant_block::{BlockDevice, Clock, FileDevice, MemoryDevice};
use extant_engine::allocation::{MapBlocks, packed_from};
use extant_engine::import::Import;
use extant_engine::mkfs::{self, FormatOptions};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
use extant_format::inode::Time;
use extant_format::layout::Inodes;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything that is known before the first byte is written.
pub struct Job<'a> {
    /// Where map blocks go.
    pub map_blocks: MapBlocks,
    /// What the image holds.
    pub tree: &'a Tree,
    /// Where the bytes are.
    pub sources: &'a Sources,
    /// Where the image goes.
    pub target: &'a Target,
    /// Numbers.
    pub order: Order,
    /// Room for the files.
    pub need: Need,
    /// Format, identity and times; sizes are decided here.
    pub template: FormatOptions,
    /// Who decides about flex groups.
    pub flex: FlexGroups,
    /// How large.
    pub extent: Extent,
    /// How many inodes.
    pub inodes: InodeWish,
    /// When every inode was made.
    pub created: Time,
    /// Time for stamps.
    pub clock: Arc<dyn Clock>,
    /// User and group of the root directory, where they are not its source's.
    pub root_owner: Option<(u32, u32)>,
    /// Where the file system begins in the target, in bytes.
    pub origin: u64,
    /// Advanced by bytes of data written.
    pub progress: &'a Progress,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Built {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the image.
    pub blocks: u64,
    /// Blocks free.
    pub free_blocks: u64,
    /// Inodes.
    pub inodes: u32,
    /// Inodes free.
    pub free_inodes: u32,
    /// Whether it has a journal.
    pub has_journal: bool,
    /// Its UUID.
    pub uuid: [u8; 16],
}

impl Built {
    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size)
    }
}

/// Memory for metadata that waits to be written, in bytes.
const CACHE_BYTES: usize = 32 << 20;
/// Attempts at a volume that ends exactly behind its content.
const ATTEMPTS: u32 = 12;

/// How an attempt ended that did not fail.
enum Attempt {
    /// The image is complete.
    Built(Built),
    /// The last group would be cut off, or has nothing but metadata: so many blocks suffice, if a
    /// volume of fewer groups holds the tree.
    TooLarge { end: u64 },
    /// The tree does not fit.
    NoSpace,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Image,
    /// To see whether it fits, in memory; nothing is read from the sources, nothing is written to
    /// the target.
    Trial,
}

/// Where the volume ends when the tree is in it.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// Where it was planned.
    Planned,
    /// Behind so many blocks, but not before its last group or its content ends.
    At(u64),
    /// Behind its content and this room.
    Behind(Room),
}

/// An attempt that succeeded, to be repeated.
struct Settled {
    plan: Plan,
    ending: Ending,
    built: Built,
}

impl Job<'_> {
    /// Builds the image.
    ///
    /// # Errors
    /// What does not fit, with the shortfall and before anything is written; sources that cannot be
    /// read; the target.
    pub fn build(&self) -> Result<Built, Error> {
        let built = match self.extent {
            Extent::Fixed(bytes) => self.build_fixed(bytes)?,
            Extent::Exact(free) => self.build_exact(free)?,
        };
        if self.target.device_bytes.is_none() {
            let bytes = match self.extent {
                Extent::Fixed(bytes) => bytes,
                Extent::Exact(_) => built.bytes(),
            };
            self.set_length(self.origin.saturating_add(bytes))?;
        }
        Ok(built)
    }

    fn build_exact(&self, free: Room) -> Result<Built, Error> {
        let plan = self.plan_exact(free)?;
        if let Some(device_bytes) = self.target.device_bytes
            && self.origin.saturating_add(plan.bytes()) > device_bytes
        {
            let settled = self.settle(Purpose::Trial, plan, free)?;
            let needed = self.origin.saturating_add(settled.built.bytes());
            if needed > device_bytes {
                return Err(self.device_too_small(needed, device_bytes));
            }
            return self.repeat(&settled);
        }
        Ok(self.settle(Purpose::Image, plan, free)?.built)
    }

    fn device_too_small(&self, needed: u64, device_bytes: u64) -> Error {
        let name = self.target.path.display();
        let missing = needed - device_bytes;
        Error::new(format!(
            "{name}: holds {device_bytes} bytes, the image needs {needed}: {missing} bytes more"
        ))
        .hint("write the image to a file, or to a larger device")
    }

    fn plan_exact(&self, free: Room) -> Result<Plan, Error> {
        let plan = plan::exact(&self.template, &self.need, self.inodes, free, self.flex);
        plan.map_err(|error| refusal(error, &self.target.path.display().to_string()))
    }

    /// Attempts one size after the other until the volume ends behind its content.
    fn settle(&self, purpose: Purpose, first: Plan, free: Room) -> Result<Settled, Error> {
        let mut plan = first;
        let mut roomy: Option<Plan> = None;
        for attempt in 0..ATTEMPTS {
            match self.attempt(&plan, purpose, Ending::Behind(free))? {
                Attempt::Built(built) => {
                    let settled = Settled { plan, ending: Ending::Behind(free), built };
                    return self.tightened(purpose, settled, free);
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
        Err(Error::new("no volume size was found that ends behind its content"))
    }

    /// A plan that is larger by at least so many blocks, over sizes that no volume can have.
    fn enlarged(&self, plan: &Plan, more: u64) -> Result<Plan, Error> {
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
            Some(error) => Err(refusal(error, &self.target.path.display().to_string())),
            None => Err(Error::new("no volume size was found that holds the content")),
        }
    }

    /// The same plan for another size.
    fn sized(&self, plan: &Plan, blocks: u64) -> Result<Plan, extant_engine::Error> {
        plan::fixed(&plan.options, &self.need, plan.inode_wish, blocks)
    }

    /// The volume of this plan with a last group of one block, or of what stands there.
    fn minimal(&self, purpose: Purpose, plan: Plan, free: Room) -> Result<Settled, Error> {
        let ending = Ending::At(0);
        match self.attempt(&plan, purpose, ending)? {
            Attempt::Built(built) => self.tightened(purpose, Settled { plan, ending, built }, free),
            _ => Err(Error::new("no volume size was found that ends behind its content")),
        }
    }

    /// The same with fewer blocks, where blocks stayed free (a bitmap or table that stands at the
    /// end) and it can be done.
    fn tightened(
        &self,
        purpose: Purpose,
        mut settled: Settled,
        free: Room,
    ) -> Result<Settled, Error> {
        let ending = Ending::Behind(NO_ROOM);
        let written = settled.built.blocks;
        for _ in 0..ATTEMPTS {
            if free != NO_ROOM || settled.built.free_blocks == 0 {
                break;
            }
            let Ok(plan) =
                self.sized(&settled.plan, settled.built.blocks - settled.built.free_blocks)
            else {
                break;
            };
            match self.attempt(&plan, Purpose::Trial, ending)? {
                Attempt::Built(built) if built.blocks < settled.built.blocks => {
                    settled = Settled { plan, ending, built }
                }
                _ => break,
            }
        }
        if purpose == Purpose::Image && settled.built.blocks < written {
            self.repeat(&settled)?;
        }
        Ok(settled)
    }

    /// Writes what was tried.
    fn repeat(&self, settled: &Settled) -> Result<Built, Error> {
        match self.attempt(&settled.plan, Purpose::Image, settled.ending)? {
            Attempt::Built(built) => Ok(built),
            _ => Err(Error::new("what fitted when it was tried does not fit")),
        }
    }

    fn build_fixed(&self, bytes: u64) -> Result<Built, Error> {
        if let Some(device_bytes) = self.target.device_bytes
            && self.origin.saturating_add(bytes) > device_bytes
        {
            return Err(self.device_too_small(self.origin.saturating_add(bytes), device_bytes));
        }
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
            if fits
                && let Attempt::Built(built) =
                    self.attempt(&plan, Purpose::Image, Ending::Planned)?
            {
                return Ok(built);
            }
        }
        let exact = self.settle(Purpose::Trial, self.plan_exact(NO_ROOM)?, NO_ROOM)?;
        if exact.built.blocks > blocks || asked_inodes.is_some() {
            return Err(self.shortfall(exact.built.bytes(), bytes, asked_inodes));
        }
        self.repeat(&Settled { ending: Ending::At(blocks), ..exact })
    }

    /// What is tried on a volume of this many blocks, the most inodes first.
    fn inodes_of_fixed_size(&self, blocks: u64) -> Vec<InodeWish> {
        let block_size = u64::from(self.template.wishes.block_size);
        let least = plan::fixed(&self.template, &self.need, self.inodes, blocks);
        let free = least.map_or(0, |plan| plan.blocks.saturating_sub(plan.needed_most));
        self.inodes
            .of_fixed_size(blocks.saturating_mul(block_size), free.saturating_mul(block_size))
    }

    /// The number of inodes that was asked for (-N), where it does not suffice.
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
        let hint = match asked_inodes {
            None => format!(
                "--size {needed}b suffices; without --size the image gets that size by itself"
            ),
            Some(_) => format!("-N {inodes} suffices; without -N there are as many as are needed"),
        };
        let name = self.target.path.display();
        Error::new(format!("{name}: the content needs {needed} bytes with {inodes} inodes: {more}"))
            .hint(hint)
    }

    fn set_length(&self, bytes: u64) -> Result<(), Error> {
        self.target.file.set_len(bytes).map_err(|error| self.target.write_error(&error))
    }

    /// What an attempt is written to: the target, emptied, or memory.
    fn device(&self, plan: &Plan, purpose: Purpose) -> Result<Arc<dyn BlockDevice>, Error> {
        if purpose == Purpose::Trial {
            return Ok(Arc::new(MemoryDevice::new(Arc::clone(&self.clock), plan.bytes())));
        }
        if self.target.device_bytes.is_none() {
            // What an attempt before this one wrote is gone, and reads as zeros.
            self.set_length(0)?;
            self.set_length(self.origin.saturating_add(plan.bytes()))?;
        }
        let failed = |error: io::Error| self.target.write_error(&error);
        let file = self.target.file.try_clone().map_err(failed)?;
        let name = self.target.path.display().to_string();
        let device =
            FileDevice::from_file(Arc::clone(&self.clock), file, name, plan.bytes(), self.origin);
        Ok(Arc::new(device.map_err(failed)?))
    }

    fn attempt(&self, plan: &Plan, purpose: Purpose, ending: Ending) -> Result<Attempt, Error> {
        let device = self.device(plan, purpose)?;
        match self.try_attempt(plan, device, purpose, ending) {
            Ok(attempt) => Ok(attempt),
            Err(Failure::NoSpace) => Ok(Attempt::NoSpace),
            Err(Failure::Device(error)) => Err(self.device_error(&error)),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// The device's error as the target's: a full disk is the host's.
    fn device_error(&self, error: &io::Error) -> Error {
        match extant_block::raw_os_error(error) {
            Some(number) => self.target.write_error(&io::Error::from_raw_os_error(number)),
            None => self.target.write_error(error),
        }
    }

    fn try_attempt(
        &self,
        plan: &Plan,
        device: Arc<dyn BlockDevice>,
        purpose: Purpose,
        ending: Ending,
    ) -> Result<Attempt, Failure> {
        let mut policies: Policies =
            "packed".parse().map_err(|error| Error::new(format!("{error}")))?;
        // The journal goes behind the directories, where the data begins.
        policies.allocation = Arc::new(packed_from(BlockNo(0), plan.data_start));
        policies.map_blocks = self.map_blocks;
        let mut options = plan.options.clone();
        if purpose == Purpose::Trial {
            options.contents = mkfs::Contents::Zeros;
        }
        mkfs::format(Arc::clone(&device), &options, &policies)?;
        policies.allocation = Arc::new(packed_from(BlockNo(0), plan.data_start));
        let options = Options {
            access: Access::ReadWrite,
            policies,
            cache_bytes: CACHE_BYTES,
            data: DataKeeping::Bytes,
        };
        let filesystem = Filesystem::open(Arc::clone(&device), &options)?;
        let mut import = filesystem.import();
        match purpose {
            Purpose::Trial => {
                self.import(&mut import, &mut Stream::nowhere(&AtomicBool::new(false)))?
            }
            Purpose::Image => self.import_with_data(&mut import, &device)?,
        }
        if let Some(attempt) = self.cut(&filesystem, &mut import, ending)? {
            return Ok(attempt);
        }
        filesystem.close()?;
        let superblock = extant_engine::read_superblock(&*device)?;
        Ok(Attempt::Built(Built {
            block_size: superblock.block_size(),
            blocks: superblock.blocks_count,
            free_blocks: superblock.free_blocks,
            inodes: superblock.inodes_count,
            free_inodes: superblock.free_inodes,
            has_journal: superblock.has(extant_format::superblock::Feature::HAS_JOURNAL),
            uuid: superblock.uuid,
        }))
    }

    fn import_with_data(
        &self,
        import: &mut Import,
        device: &Arc<dyn BlockDevice>,
    ) -> Result<(), Failure> {
        let write_error = |error: &io::Error| self.device_error(error);
        with_stream(self.tree, self.sources, &**device, self.progress, &write_error, |stream| {
            self.import(import, stream)
        })
    }

    /// Ends the volume where it is to end, or says why not.
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
            Ending::Behind(NO_ROOM) => {
                (blocks - filesystem.statfs().free_blocks).max(import.used_end()?)
            }
            Ending::Behind(free) => {
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
        import.cut(end.min(blocks))?;
        Ok(None)
    }
}

/// Why an attempt failed: for want of room, which another size mends, or for good.
pub(super) enum Failure {
    NoSpace,
    Device(io::Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<extant_engine::Error> for Failure {
    fn from(error: extant_engine::Error) -> Failure {
        match error.kind {
            ErrorKind::NoSpace { .. } | ErrorKind::NoInodes => Failure::NoSpace,
            ErrorKind::Device(cause) => Failure::Device(cause),
            _ => Failure::Other(unfit(&error)),
        }
    }
}

/// What no inode, directory or map of this format can hold, and what can.
fn unfit(error: &extant_engine::Error) -> Error {
    let message = Error::new(error.to_string());
    match &error.kind {
        ErrorKind::FileTooLarge => message.hint(
            "larger blocks (-b) or extents (-t ext4) hold \
            larger files",
        ),
        ErrorKind::NameTooLong => message.hint(
            "a target has to fit into a block: larger blocks \
            (-b) hold it",
        ),
        ErrorKind::DirectoryFull => message.hint("larger blocks (-b) hold more names"),
        ErrorKind::TooManyLinks => message.hint(
            "a file has at most 65,000 names, and a directory so many subdirectories \
                without -O dir_nlink",
        ),
        _ => message,
    }
}

/// Inodes that the image needs besides those of the tree's files: the reserved ones, and those that
/// mkfs makes.
pub fn inodes_made(order: &Order, template: &FormatOptions) -> u64 {
    let lost_and_found = u64::from(order.lost_and_found != LostAndFound::Own);
    10 + lost_and_found + u64::from(template.wishes.features.has(Feature::ORPHAN_FILE))
}
