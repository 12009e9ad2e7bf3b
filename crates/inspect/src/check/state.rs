//! What the passes share.
//!
//! *Invariants*: claims and facts only grow during a pass; every list is sorted before it is used,
//! so that nothing depends on which thread was first.
//! *Locking*: each list has a short lock of its own, held for a push; no two are held together.
use super::CheckOptions;
use super::attributes::Sharers;
use super::bitmaps::Totals;
use super::claims::Claims;
use super::codes::Code;
use super::duplicates::Owners;
use super::inodes::TablePiece;
use super::plan::Pool;
use super::problem::{Problem, Sink};
use super::progress::Meter;
use super::quota::Usage;
use super::special::Targets;
use super::tree::Tree;
use crate::error::Error;
use crate::fields;
use crate::slabs::Slabs;
use crate::volume::Volume;
use extant_block::{Clock, ShortLock};
use extant_format::group::GroupDescriptor;
use extant_format::inode::FileType;
use extant_format::{BlockNo, GroupNo, Ino};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of directories that are judged on any device, and beyond which it is asked what it holds.
const DIRECTORY_BYTES: u64 = 64 << 20;
/// Inodes of a piece of a table that is made when the first of them is needed.
const CHUNK: usize = 1024;

/// What the passes share.
pub(crate) struct State {
    pub(crate) volume: Arc<Volume>,
    pub(crate) options: CheckOptions,
    pub(crate) clock: Arc<dyn Clock>,
    /// By group, as far as they are on the device; where a descriptor cannot be believed it is
    /// mended as far as it can be.
    pub(crate) groups: Vec<GroupState>,
    /// Blocks that metadata has: runs that rise and do not touch.
    pub(crate) metadata: Vec<MetadataRun>,
    /// Which blocks (clusters) somebody has.
    pub(crate) claims: Claims,
    /// Map blocks that were followed, whoever else has them.
    pub(crate) followed: Claims,
    pub(crate) inodes: InodeFacts,
    /// What pass 1 leaves for pass 2.
    pub(crate) directories: ShortLock<Vec<DirectoryBlock>>,
    /// Blocks that the device holds data in, once that was asked.
    held: OnceLock<u64>,
    /// Directories whose content is in the inode.
    pub(crate) inline_directories: ShortLock<Vec<Ino>>,
    /// Who has which attribute block.
    pub(crate) sharers: Sharers,
    /// Symlinks whose targets are yet to be read.
    pub(crate) targets: Targets,
    /// What pass 2 leaves for passes 3 and 4.
    pub(crate) tree: OnceLock<Tree>,
    /// Map blocks that wait to be read.
    pub(crate) pool: Pool,
    /// What pass 1 reads of the tables.
    pub(crate) table_pieces: ShortLock<Arc<Vec<TablePiece>>>,
    pub(crate) totals: Totals,
    /// What users, groups and projects have.
    pub(crate) usage: Usage,
    /// Inodes that were deleted but are still held: on the list of orphans.
    pub(crate) orphans: BTreeSet<Ino>,
    /// Inodes on that list that are still in use: they are being truncated.
    pub(crate) truncated: BTreeSet<Ino>,
    /// Pass 1b: who has blocks that were claimed twice.
    pub(crate) owners: Owners,
    searching: AtomicU64,
    /// A map block or directory block was claimed twice: who is first decides what follows.
    order_matters: AtomicU64,
    pub(crate) problems: Sink,
    pub(crate) meter: Meter,
}

/// A group, as pass 0 leaves it.
pub(crate) struct GroupState {
    pub(crate) descriptor: GroupDescriptor,
    /// The descriptor's checksum as it stands and as it should be, where these differ.
    pub(crate) wrong_checksum: Option<(u32, u32)>,
    /// Inodes of its table that may be in use, from the first: what flags and counters say, if they
    /// can be believed.
    pub(crate) inodes_used: u32,
    /// Whether a block bitmap and an inode bitmap can be read.
    pub(crate) has_block_bitmap: bool,
    pub(crate) has_inode_bitmap: bool,
    /// Whether there is a table to read.
    pub(crate) has_table: bool,
    /// Directories that pass 1 found.
    pub(crate) directories: AtomicU32,
}

/// Blocks of superblocks, descriptors, bitmaps or tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct MetadataRun {
    pub(crate) start: BlockNo,
    pub(crate) length: u64,
}

/// A block of a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DirectoryBlock {
    /// Where it lies. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    pub(crate) ino: Ino,
    pub(crate) file_block: u32,
    /// Of the inode: checksums of its blocks depend on it.
    pub(crate) generation: u32,
}

impl State {
    /// Nothing is known yet but the groups that are described.
    pub(crate) fn new(
        volume: Arc<Volume>,
        groups: Vec<GroupState>,
        options: CheckOptions,
        clock: Arc<dyn Clock>,
    ) -> State {
        let superblock = volume.superblock();
        let cluster_log2 = volume.cluster_blocks().trailing_zeros();
        // By the groups that are described: what a superblock says of others costs no memory.
        let count = groups.len() as u64;
        let blocks = u64::from(superblock.first_data_block)
            .saturating_add(count.saturating_mul(superblock.blocks_per_group.into()))
            .min(superblock.blocks_count);
        let inodes = count.saturating_mul(superblock.inodes_per_group.into());
        State {
            claims: Claims::new(blocks, cluster_log2),
            followed: Claims::new(blocks, cluster_log2),
            inodes: InodeFacts::new(
                u32::try_from(inodes)
                    .map_or(superblock.inodes_count, |inodes| inodes.min(superblock.inodes_count)),
            ),
            groups,
            metadata: Vec::new(),
            directories: ShortLock::default(),
            held: OnceLock::new(),
            inline_directories: ShortLock::default(),
            sharers: Default::default(),
            targets: Default::default(),
            tree: Default::default(),
            pool: Pool::new(Arc::clone(&clock)),
            table_pieces: ShortLock::default(),
            totals: Totals::default(),
            usage: Usage::default(),
            orphans: BTreeSet::new(),
            truncated: BTreeSet::new(),
            owners: Owners::default(),
            searching: AtomicU64::new(0),
            order_matters: AtomicU64::new(0),
            problems: Sink::default(),
            meter: Meter::new(options.progress.clone()),
            clock,
            options,
            volume,
        }
    }

    /// A problem was found.
    pub(crate) fn tell(&self, problem: Problem) {
        if !self.is_searching() {
            self.problems.add(problem);
        }
    }

    /// Pass 1b begins or ends.
    pub(crate) fn set_searching(&self, searching: bool) {
        self.searching.store(searching.into(), Ordering::Relaxed);
    }

    /// Whether owners of double blocks are searched: nothing else is claimed, listed or told.
    pub(crate) fn is_searching(&self) -> bool {
        self.searching.load(Ordering::Relaxed) != 0
    }

    /// Fills `bytes` from a block on.
    pub(crate) fn read(
        &self,
        what: &'static str,
        block: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        self.volume.read(what, block, bytes)?;
        self.meter.add(bytes.len() as u64, &*self.clock);
        Ok(())
    }

    /// Whether a block belongs to metadata of the volume.
    pub(crate) fn is_metadata(&self, block: BlockNo) -> bool {
        let behind = self.metadata.partition_point(|run| run.start <= block);
        let run = behind.checked_sub(1).and_then(|before| self.metadata.get(before));
        run.is_some_and(|run| block.0 - run.start.0 < run.length)
    }

    /// Whether a file belongs to the system although its number does not say so: nobody has a name
    /// for it.
    pub(crate) fn is_system_file(&self, ino: Ino) -> bool {
        let superblock = self.volume.superblock();
        let fields = self.volume.fields();
        let numbers = [
            superblock.journal_inode,
            superblock.orphan_file_inode,
            fields.u32(fields::USER_QUOTA_INODE),
            fields.u32(fields::GROUP_QUOTA_INODE),
            fields.u32(fields::PROJECT_QUOTA_INODE),
        ];
        numbers.contains(&ino.0)
    }

    /// Whether an inode belongs to the system, by its number or by a field of the superblock.
    pub(crate) fn is_of_system(&self, ino: Ino) -> bool {
        !self.volume.superblock().is_usable(ino) || self.is_system_file(ino)
    }

    /// Who claims a block first decides what is followed.
    pub(crate) fn set_order_matters(&self) {
        self.order_matters.store(1, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(crate) fn order_matters(&self) -> bool {
        self.order_matters.load(Ordering::Relaxed) != 0
    }

    /// Adds blocks of directories; empties the list. The number is bounded by what the device can
    /// hold of them: a block of a directory is not zeros.
    pub(crate) fn add_directory_blocks(&self, blocks: &mut Vec<DirectoryBlock>) {
        let most = self.volume.present_blocks().saturating_mul(2);
        let few = DIRECTORY_BYTES / self.volume.block_size() as u64;
        let after = (self.directories.lock().len() + blocks.len()) as u64;
        let most = match after > few {
            true => most.min(few.saturating_add(self.held_blocks().saturating_mul(2))),
            false => most,
        };
        let mut directories = self.directories.lock();
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(directories.len());
        if !self.is_searching() {
            let is_cut = room < blocks.len();
            directories.extend(blocks.drain(..blocks.len().min(room)));
            drop(directories);
            if is_cut {
                // Which are left out depends on who comes first.
                self.set_order_matters();
                self.tell(Problem::new(Code::DirectoriesTooBig).found(most));
            }
        }
        blocks.clear();
    }

    /// Blocks that the device holds data in, about. Asked only when a volume claims much.
    fn held_blocks(&self) -> u64 {
        // What the device cannot say is no bound; when it fails, reading tells.
        *self.held.get_or_init(|| self.volume.held_blocks().unwrap_or(u64::MAX))
    }

    /// The group of an inode, if it is on the volume.
    pub(crate) fn group_of(&self, ino: Ino) -> Option<(GroupNo, &GroupState)> {
        let (group, _) = self.volume.superblock().group_of_inode(ino)?;
        Some((group, self.groups.get(group.0 as usize)?))
    }
}

fn chunk() -> Box<[AtomicU64]> {
    (0..CHUNK).map(|_| AtomicU64::new(0)).collect()
}

/// What is known of an inode, packed into one word: 0 for one that is not in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Facts(u64);

/// Bits of [`Facts`] above the links on the disk.
const USED: u64 = 1 << 16;
const BAD: u64 = 1 << 17;
const INDEXED: u64 = 1 << 18;
const ATTRIBUTE_INODE: u64 = 1 << 19;
const ENCRYPTED: u64 = 1 << 20;
const CASEFOLDED: u64 = 1 << 21;
const RESERVED: u64 = 1 << 23;
const TYPE_SHIFT: u32 = 24;
const COUNT_SHIFT: u32 = 32;

impl Facts {
    /// Facts of an inode in use with so many links on the disk. `None`: the mode has no type.
    pub(crate) fn new(file_type: Option<FileType>, links: u16) -> Facts {
        let code = file_type.map_or(0, FileType::entry_code);
        Facts(u64::from(links) | USED | u64::from(code) << TYPE_SHIFT)
    }

    /// Its map or fields are so wrong that its content is not judged; it would be cleared.
    #[must_use]
    pub(crate) fn bad(self) -> Facts {
        Facts(self.0 | BAD)
    }

    /// A directory with a hash index.
    #[must_use]
    pub(crate) fn indexed(self) -> Facts {
        Facts(self.0 | INDEXED)
    }

    /// An inode that holds the value of an attribute.
    #[must_use]
    pub(crate) fn attribute_inode(self) -> Facts {
        Facts(self.0 | ATTRIBUTE_INODE)
    }

    /// A directory with encrypted names.
    #[must_use]
    pub(crate) fn encrypted(self) -> Facts {
        Facts(self.0 | ENCRYPTED)
    }

    /// A directory whose names know no case.
    #[must_use]
    pub(crate) fn casefolded(self) -> Facts {
        Facts(self.0 | CASEFOLDED)
    }

    /// An inode of the system: nobody needs to have a name for it.
    #[must_use]
    pub(crate) fn reserved(self) -> Facts {
        Facts(self.0 | RESERVED)
    }

    pub(crate) fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    pub(crate) fn is_used(self) -> bool {
        self.0 & USED != 0
    }

    pub(crate) fn is_bad(self) -> bool {
        self.0 & BAD != 0
    }

    pub(crate) fn is_indexed(self) -> bool {
        self.0 & INDEXED != 0
    }

    pub(crate) fn is_attribute_inode(self) -> bool {
        self.0 & ATTRIBUTE_INODE != 0
    }

    pub(crate) fn is_encrypted(self) -> bool {
        self.0 & ENCRYPTED != 0
    }

    pub(crate) fn is_casefolded(self) -> bool {
        self.0 & CASEFOLDED != 0
    }

    pub(crate) fn is_directory(self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    pub(crate) fn file_type(self) -> Option<FileType> {
        FileType::from_entry_code((self.0 >> TYPE_SHIFT & 7) as u8)
    }

    /// Links that the inode says it has.
    pub(crate) fn links(self) -> u16 {
        (self.0 & 0xffff) as u16
    }

    /// Entries that were found to point to it.
    pub(crate) fn counted(self) -> u32 {
        (self.0 >> COUNT_SHIFT) as u32
    }
}

/// [`Facts`] of all inodes, in pieces that are made when the first inode of them is in use.
pub(crate) struct InodeFacts {
    count: u32,
    chunks: Slabs<OnceLock<Box<[AtomicU64]>>>,
}

impl InodeFacts {
    pub(crate) fn new(count: u32) -> InodeFacts {
        InodeFacts { count, chunks: Slabs::new(u64::from(count) / CHUNK as u64 + 1) }
    }

    fn slot(&self, ino: Ino) -> Option<&AtomicU64> {
        let index = ino.0.checked_sub(1).filter(|index| *index < self.count)? as usize;
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    /// An inode is in use.
    pub(crate) fn set(&self, ino: Ino, facts: Facts) {
        let Some(index) = ino.0.checked_sub(1).filter(|index| *index < self.count) else {
            return;
        };
        let index = index as usize;
        let Some(chunk) = self.chunks.make(index / CHUNK) else {
            return;
        };
        if let Some(slot) = chunk.get_or_init(self::chunk).get(index % CHUNK) {
            slot.store(facts.0, Ordering::Relaxed);
        }
    }

    /// What is known of an inode; not in use for one that does not exist.
    pub(crate) fn get(&self, ino: Ino) -> Facts {
        Facts(self.slot(ino).map_or(0, |slot| slot.load(Ordering::Relaxed)))
    }

    /// An entry points to it.
    pub(crate) fn count_link(&self, ino: Ino) {
        if let Some(slot) = self.slot(ino) {
            slot.fetch_add(1 << COUNT_SHIFT, Ordering::Relaxed);
        }
    }

    /// It was found to be bad after all.
    pub(crate) fn set_bad(&self, ino: Ino) {
        if let Some(slot) = self.slot(ino) {
            slot.fetch_or(BAD, Ordering::Relaxed);
        }
    }

    /// Whether any of these inodes may be in use; asked before each is looked at.
    pub(crate) fn any_used(&self, first: Ino, count: u32) -> bool {
        let from = first.0.saturating_sub(1) as usize / CHUNK;
        let to = (first.0 as usize + count as usize).div_ceil(CHUNK);
        self.chunks.any_made(from, to)
            && (from..to).any(|at| self.chunks.get(at).is_some_and(|it| it.get().is_some()))
    }

    /// All inodes in use, rising.
    pub(crate) fn used(&self) -> impl Iterator<Item = (Ino, Facts)> + '_ {
        self.chunks.made().flat_map(|(number, chunk)| {
            let slots = chunk.get().map(|slots| &slots[..]).unwrap_or_default();
            let first = number * CHUNK + 1;
            slots.iter().enumerate().filter_map(move |(index, slot)| {
                let facts = Facts(slot.load(Ordering::Relaxed));
                let ino = u32::try_from(first + index).ok()?;
                facts.is_used().then_some((Ino(ino), facts))
            })
        })
    }
}
