//! Writing the image: mkfs, the tree through the engine, the end cut off.
use super::need::Need;
use super::order::{LostAndFound, Order};
use super::plan::{self, Extent, Plan};
use super::stream::{Stream, with_stream};
use crate::error::{Error, printable};
use crate::progress::Progress;
use crate::size::Room;
use crate::source::Sources;
use crate::tree::{NodeId, Tree};
use extant_block::{BlockDevice, Clock, FileDevice, MemoryDevice};
use extant_engine::allocation::packed_from;
use extant_engine::import::{Import, NewEntry, NewNode};
use extant_engine::mkfs::{self, FormatOptions};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
use extant_format::inode::{FileType, Time};
use extant_format::layout::Inodes;
use extant_format::{BlockNo, Ino};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything that is known before the first byte is written.
pub struct Job<'a> {
    /// What the image holds.
    pub tree: &'a Tree,
    /// Where the bytes are.
    pub sources: &'a Sources,
    /// Numbers.
    pub order: Order,
    /// Room for the files.
    pub need: Need,
    /// Format, identity and times; sizes are decided here.
    pub template: FormatOptions,
    /// How large.
    pub extent: Extent,
    /// Inodes besides those in use.
    pub spare_inodes: u64,
    /// The inode count was asked for, or follows from a ratio: with `Extent::Fixed` it stands.
    pub inodes_given: bool,
    /// When every inode was made.
    pub created: Time,
    /// Time for stamps.
    pub clock: Arc<dyn Clock>,
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
    /// Its UUID.
    pub uuid: [u8; 16],
}

/// Memory for metadata that waits to be written, in bytes.
const CACHE_BYTES: usize = 32 << 20;
/// Attempts at a volume that ends exactly behind its content.
const ATTEMPTS: usize = 4;

/// How an attempt ended that did not fail.
enum Attempt {
    /// The image is complete.
    Built(Built),
    /// The whole last group stayed empty: a volume of fewer groups is tried; this one used so many blocks.
    TooLarge { used_end: u64 },
    /// The tree does not fit.
    NoSpace,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Image,
    /// To see whether it fits; nothing is read from the sources.
    Trial,
}

impl Job<'_> {
    /// Builds the image into `file`, which is new and empty, or a device of `device_bytes`.
    ///
    /// # Errors
    /// What does not fit, with the shortfall and before anything is written; sources that cannot be read; the target.
    pub fn build(&self, file: &File, name: &str, device_bytes: Option<u64>) -> Result<Built, Error> {
        match self.extent {
            Extent::Fixed(bytes) => self.build_fixed(file, name, bytes),
            Extent::Exact(free) => self.build_exact(file, name, device_bytes, free),
        }
    }

    fn inodes(&self) -> u64 {
        let made = u64::from(self.order.lost_and_found != LostAndFound::Own);
        let orphan_file = self.template.wishes.features.has(extant_format::superblock::Feature::ORPHAN_FILE);
        10 + made + u64::from(orphan_file) + self.need.inodes + self.spare_inodes
    }

    fn build_exact(&self, file: &File, name: &str, device_bytes: Option<u64>, free: Room) -> Result<Built, Error> {
        let mut plan = plan::exact(&self.template, &self.need, self.inodes(), free)?;
        for _ in 0..ATTEMPTS {
            let bytes = plan.blocks * u64::from(plan.options.wishes.block_size);
            if let Some(device_bytes) = device_bytes
                && bytes + self.origin > device_bytes
            {
                return Err(Error::new(format!("{name}: holds {device_bytes} bytes, the image needs {bytes}")));
            }
            let device = self.open_device(file, name, bytes, device_bytes)?;
            match self.attempt(&plan, device, Purpose::Image, Some(free))? {
                Attempt::Built(built) => {
                    if device_bytes.is_none() {
                        let length = self.origin + built.blocks * u64::from(built.block_size);
                        file.set_len(length).map_err(|error| Error::io(name, &error))?;
                    }
                    return Ok(built);
                }
                Attempt::TooLarge { used_end } => {
                    let fewer = plan::fixed(&with_blocks(&plan.options, used_end), &self.need, used_end * self.block_size());
                    plan = fewer.unwrap_or(plan);
                }
                Attempt::NoSpace => {
                    let more = plan.blocks + plan.blocks / 64 + 64;
                    let options = with_blocks(&plan.options, more);
                    plan = plan::fixed(&options, &self.need, more * self.block_size())?;
                }
            }
            if device_bytes.is_none() {
                file.set_len(0).map_err(|error| Error::io(name, &error))?;
            }
        }
        Err(Error::new("no volume size was found that ends behind its content"))
    }

    fn block_size(&self) -> u64 {
        self.template.wishes.block_size.into()
    }

    fn build_fixed(&self, file: &File, name: &str, bytes: u64) -> Result<Built, Error> {
        let plan = self.plan_fixed(bytes)?;
        if plan.needed_most > plan.blocks {
            // The count is an upper bound: whether it really does not fit is tried out in memory.
            let trial = Arc::new(MemoryDevice::new(Arc::clone(&self.clock), bytes));
            if !matches!(self.attempt(&plan, trial, Purpose::Trial, None)?, Attempt::Built(_)) {
                return Err(self.shortfall(bytes)?);
            }
        }
        let device = self.open_device(file, name, bytes, None)?;
        match self.attempt(&plan, device, Purpose::Image, None)? {
            Attempt::Built(built) => {
                file.set_len(self.origin + bytes).map_err(|error| Error::io(name, &error))?;
                Ok(built)
            }
            _ => Err(self.shortfall(bytes)?),
        }
    }

    fn plan_fixed(&self, bytes: u64) -> Result<Plan, Error> {
        let mut template = self.template.clone();
        let short = |free: u64| {
            let (inodes, missing) = (self.inodes(), self.inodes() - free);
            Error::new(format!("{inodes} inodes are needed, {free} were asked for: {missing} inodes short"))
                .hint("a larger -N, or a smaller -i, or none of both")
        };
        if !self.inodes_given {
            template.wishes.inodes = match template.wishes.inodes {
                Inodes::BytesPerInode(ratio) => Inodes::AtLeast(self.inodes().max(bytes / ratio.max(1))),
                Inodes::AtLeast(count) => Inodes::AtLeast(self.inodes().max(count)),
            };
        }
        let plan = match plan::fixed(&template, &self.need, bytes) {
            Ok(plan) => plan,
            Err(error) => return Err(self.shortfall(bytes).unwrap_or(error)),
        };
        let (layout, _) = mkfs::plan(&plan.options).map_err(|error| Error::new(error.to_string()))?;
        match u64::from(layout.superblock.inodes_count) {
            inodes if inodes < self.inodes() => Err(short(inodes)),
            _ => Ok(plan),
        }
    }

    /// How much is missing at a size that does not suffice: found by building the exact image in memory.
    fn shortfall(&self, bytes: u64) -> Result<Error, Error> {
        let mut plan = plan::exact(&self.template, &self.need, self.inodes(), Room::Bytes(0))?;
        let mut exact = plan.blocks;
        for _ in 0..ATTEMPTS {
            let trial = MemoryDevice::new(Arc::clone(&self.clock), plan.blocks * self.block_size());
            match self.attempt(&plan, Arc::new(trial), Purpose::Trial, Some(Room::Bytes(0)))? {
                Attempt::Built(built) => {
                    exact = built.blocks;
                    break;
                }
                Attempt::TooLarge { used_end } => {
                    exact = exact.min(used_end);
                    let fewer = plan::fixed(&with_blocks(&plan.options, used_end), &self.need, used_end * self.block_size());
                    let Ok(fewer) = fewer else { break };
                    plan = fewer;
                }
                Attempt::NoSpace => break,
            }
        }
        let needed = exact * self.block_size();
        let (missing, inodes) = (needed.saturating_sub(bytes), self.inodes());
        Ok(Error::new(format!(
            "the content needs {needed} bytes and {inodes} inodes: {missing} bytes more than the {bytes} asked for"
        ))
        .hint("leave --size away for an image of exactly the right size"))
    }

    fn open_device(
        &self,
        file: &File,
        name: &str,
        bytes: u64,
        device_bytes: Option<u64>,
    ) -> Result<Arc<dyn BlockDevice>, Error> {
        let failed = |error: std::io::Error| Error::io(name, &error);
        if device_bytes.is_none() {
            file.set_len(self.origin + bytes).map_err(failed)?;
        }
        let file = file.try_clone().map_err(failed)?;
        let device = FileDevice::from_file(Arc::clone(&self.clock), file, name.to_owned(), bytes, self.origin);
        Ok(Arc::new(device.map_err(failed)?))
    }

    fn attempt(
        &self,
        plan: &Plan,
        device: Arc<dyn BlockDevice>,
        purpose: Purpose,
        free: Option<Room>,
    ) -> Result<Attempt, Error> {
        match self.try_attempt(plan, device, purpose, free) {
            Ok(attempt) => Ok(attempt),
            Err(Failure::NoSpace) => Ok(Attempt::NoSpace),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    fn try_attempt(
        &self,
        plan: &Plan,
        device: Arc<dyn BlockDevice>,
        purpose: Purpose,
        free: Option<Room>,
    ) -> Result<Attempt, Failure> {
        let mut policies: Policies = "packed".parse().map_err(|error| Error::new(format!("{error}")))?;
        mkfs::format(Arc::clone(&device), &plan.options, &policies)?;
        policies.allocation = Arc::new(packed_from(BlockNo(0), plan.data_start));
        let options =
            Options { access: Access::ReadWrite, policies, cache_bytes: CACHE_BYTES, data: DataKeeping::Bytes };
        let filesystem = Filesystem::open(Arc::clone(&device), &options)?;
        let mut import = filesystem.import();
        match purpose {
            Purpose::Trial => {
                let failed = AtomicBool::new(false);
                self.import(&mut import, &mut Stream::nowhere(&failed))?;
            }
            Purpose::Image => {
                let mut full = false;
                let outcome = with_stream(self.tree, self.sources, &*device, self.progress, |stream| {
                    self.import(&mut import, stream).map_err(|failure| match failure {
                        Failure::NoSpace => {
                            full = true;
                            Error::new("the volume is full")
                        }
                        Failure::Other(error) => error,
                    })
                });
                if full {
                    return Err(Failure::NoSpace);
                }
                outcome?;
            }
        }
        if let Some(free) = free {
            let used_end = import.used_end()?;
            let end = plan::with_room(used_end, free, self.block_size()).min(plan.blocks);
            match import.cut(end) {
                Err(error) if matches!(error.kind, ErrorKind::InvalidArgument(_)) => {
                    return Ok(Attempt::TooLarge { used_end });
                }
                outcome => outcome?,
            }
        }
        filesystem.close()?;
        let superblock = extant_engine::read_superblock(&*device)?;
        Ok(Attempt::Built(Built {
            block_size: superblock.block_size(),
            blocks: superblock.blocks_count,
            free_blocks: superblock.free_blocks,
            inodes: superblock.inodes_count,
            free_inodes: superblock.free_inodes,
            uuid: superblock.uuid,
        }))
    }

    /// Brings the whole tree into an empty volume.
    fn import(&self, import: &mut Import, stream: &mut Stream<'_>) -> Result<(), Failure> {
        let (tree, order) = (self.tree, &self.order);
        let names = order.names(tree, NodeId::ROOT);
        import.root(&self.new_node(NodeId::ROOT), &mut entries(&names))?;
        if let LostAndFound::Redressed(node) = order.lost_and_found {
            import.redress(order.ino(node), &self.new_node(node))?;
        }
        for (count, node) in order.sequence().iter().enumerate() {
            if count % 64 == 0 {
                import.balance()?;
                if stream.has_failed() {
                    return Ok(());
                }
            }
            let ino = self.import_node(import, stream, *node).map_err(|failure| self.at(*node, failure))?;
            if ino != order.ino(*node) {
                let message = format!("inode {} was expected, {} was made", order.ino(*node).0, ino.0);
                return Err(Error::new(message).into());
            }
        }
        Ok(())
    }

    fn import_node(&self, import: &mut Import, stream: &mut Stream<'_>, node: NodeId) -> Result<Ino, Failure> {
        let tree = self.tree;
        let new = self.new_node(node);
        let ino = match tree.file_type(node) {
            FileType::Directory => {
                let parent = self.order.ino(tree.parent(node));
                let names = self.order.names(tree, node);
                import.directory(&new, parent, &mut entries(&names))
            }
            FileType::Regular => {
                let mut data = tree.data_segments(node).map(|segment| segment.offset..segment.offset + segment.length);
                import.file(&new, tree.length(node), &mut data, &mut |stretch| stream.add(node, stretch))
            }
            FileType::Symlink => import.symlink(&new, tree.target(node)),
            special => import.special(&new, special, tree.device(node)),
        };
        Ok(ino?)
    }

    fn new_node(&self, node: NodeId) -> NewNode<'_> {
        let tree = self.tree;
        let links = match tree.file_type(node) {
            FileType::Directory => self.order.links(tree, node),
            _ => tree.links(node),
        };
        NewNode {
            permissions: tree.mode(node) & 0o7777,
            uid: tree.uid(node),
            gid: tree.gid(node),
            links,
            access_time: tree.access_time(node),
            change_time: tree.change_time(node),
            modify_time: tree.modify_time(node),
            create_time: self.created,
            attributes: tree.attributes(node),
            attribute_list: tree.attribute_list(node),
        }
    }

    fn at(&self, node: NodeId, failure: Failure) -> Failure {
        match failure {
            Failure::Other(error) => {
                let message = format!("/{}: {}", printable(&self.tree.path(node)), error.message);
                Failure::Other(Error { message, ..error })
            }
            full => full,
        }
    }
}

fn with_blocks(options: &FormatOptions, blocks: u64) -> FormatOptions {
    let mut options = options.clone();
    options.wishes.blocks = blocks;
    options
}

fn entries<'a>(names: &'a [super::order::Name<'a>]) -> impl ExactSizeIterator<Item = NewEntry<'a>> {
    names.iter().map(|name| NewEntry { name: name.name, ino: name.ino, file_type: name.file_type })
}

/// Why an attempt failed: for want of room, which another size mends, or for good.
enum Failure {
    NoSpace,
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<extant_engine::Error> for Failure {
    fn from(error: extant_engine::Error) -> Failure {
        match &error.kind {
            ErrorKind::NoSpace { .. } | ErrorKind::NoInodes => Failure::NoSpace,
            ErrorKind::Device(cause) => Failure::Other(Error::io("image", cause)),
            _ => Failure::Other(Error::new(error.to_string())),
        }
    }
}
