//! An empty file system from a layout: tables by direct writes in rising order, root, lost+found,
//! the resize inode, the journal and other first files, then the copies.
//!
//! [`Placing`] says where the first files are: where the policies put them, as those of any file
//! (`files`), or where mke2fs puts them (`draft`), decided in memory: that also makes volumes
//! with features that the engine cannot open yet.
//!
//! *Invariants*: everything that is asked for is checked before the first write. The primary
//! superblock is the last block of the tables that is written, and says that the volume is clean
//! only once [`format()`] returns.
//! *Locking*: none: no other thread knows the volume yet.
mod bad_blocks;
mod classic;
mod draft;
mod files;
mod journal_device;
mod profile;
mod quota;
mod super_only;
mod tables;
mod traffic;

pub use bad_blocks::{failing_blocks, unreadable_blocks};
pub use files::orphan_file_blocks;
pub use journal_device::{format_journal_device, plan_journal_device};
pub use profile::{Identity, Profile, default_wishes};
pub use quota::{QuotaKind, quota_file_blocks};
pub use super_only::{Identities, format_super_only};

use crate::error::{Error, ErrorKind, Result};
use crate::inode::volume::Volume;
use crate::policy::preset::Policies;
use crate::store::{Access, DataKeeping, Options, cache_for_blocks};
use extant_block::BlockDevice;
use extant_format::layout::{Layout, LayoutError, Wishes};
use extant_format::superblock::{
    Feature, Features, JOURNAL_BACKUP_BLOCKS, MappingKind, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE,
    Superblock, state,
};
use extant_format::{BlockNo, Ino, journal};
use std::sync::Arc;

/// Everything that can be chosen for a new file system.
#[derive(Clone, PartialEq)]
pub struct FormatOptions {
    /// Sizes, features and identity.
    pub wishes: Wishes,
    /// Whether it has a journal, and how large.
    pub journal: JournalWish,
    /// User and group of the root directory.
    pub root_owner: (u32, u32),
    /// Permission bits of the root directory.
    pub root_mode: u16,
    /// The directory in which e2fsck puts inodes without a name.
    pub lost_and_found: LostAndFound,
    /// What the device holds now.
    pub contents: Contents,
    /// Bitmaps and inode tables are at or after this block, if any: see
    /// [`Layout::with_tables_from`].
    pub tables_from: Option<BlockNo>,
    /// Who says where the first files are.
    pub placing: Placing,
    /// The block with which a journal begins, if possible (as mke2fs places files only).
    pub journal_at: Option<BlockNo>,
    /// Blocks of the journal that are for fast commits; 0 for the usual number.
    pub fast_commit_blocks: u32,
    /// Blocks of the orphan file; those that mke2fs takes if `None`.
    pub orphan_file_blocks: Option<u32>,
    /// The quota files (feature quota); users and groups, and with the feature project projects,
    /// if empty.
    pub quota_files: Vec<QuotaKind>,
    /// Users, groups and projects that have an entry from the start, though nothing is theirs yet
    /// (as policies place files only): those of what the volume is filled with.
    pub quota_ids: [Vec<u32>; 3],
    /// What the block that records mounts says (feature mmp).
    pub mount_record: MountRecord,
    /// The superblock says of no write that it was later than this, in seconds since 1970.
    pub dated_latest: Option<u64>,
}

/// As it is derived, without what came later and was not asked for: as [`Wishes`] has it.
impl std::fmt::Debug for FormatOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = f.debug_struct("FormatOptions");
        words
            .field("wishes", &self.wishes)
            .field("journal", &self.journal)
            .field("root_owner", &self.root_owner)
            .field("root_mode", &self.root_mode)
            .field("lost_and_found", &self.lost_and_found)
            .field("contents", &self.contents)
            .field("tables_from", &self.tables_from)
            .field("placing", &self.placing)
            .field("journal_at", &self.journal_at)
            .field("fast_commit_blocks", &self.fast_commit_blocks)
            .field("orphan_file_blocks", &self.orphan_file_blocks)
            .field("quota_files", &self.quota_files)
            .field("mount_record", &self.mount_record)
            .field("dated_latest", &self.dated_latest);
        if self.quota_ids.iter().any(|ids| !ids.is_empty()) {
            words.field("quota_ids", &self.quota_ids);
        }
        words.finish()
    }
}

/// Who says where the first files of a volume are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placing {
    /// The allocation policies, as for any file.
    Policies,
    /// mke2fs.
    Mke2fs,
}

/// What the block that records mounts says of who wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountRecord {
    /// When, in seconds since 1970.
    pub seconds: u64,
    /// On which machine.
    pub node_name: Vec<u8>,
    /// What the device was called there.
    pub device_name: Vec<u8>,
    /// How often a mount has to look at it, in seconds; 0 for the usual 5.
    pub interval_seconds: u16,
}

impl FormatOptions {
    /// These wishes, and otherwise what mke2fs does on a device that reads as zeros.
    pub fn new(wishes: Wishes) -> FormatOptions {
        FormatOptions {
            wishes,
            journal: JournalWish::Default,
            root_owner: (0, 0),
            root_mode: 0o755,
            lost_and_found: LostAndFound::Default,
            contents: Contents::Zeros,
            tables_from: None,
            placing: Placing::Policies,
            journal_at: None,
            fast_commit_blocks: 0,
            orphan_file_blocks: None,
            quota_files: Vec::new(),
            quota_ids: Default::default(),
            mount_record: MountRecord::default(),
            dated_latest: None,
        }
    }
}

/// Which journal a new volume gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalWish {
    /// None, whatever the features say.
    None,
    /// If the volume has has_journal, one of the size that mke2fs uses. None on a volume of fewer
    /// than 2048 blocks, unless the orphan file needs one.
    Default,
    /// One with this many blocks (1,024 to 10,240,000); sets has_journal.
    Blocks(u32),
    /// That of another device (as mke2fs places files only); sets has_journal. Who asks tells the
    /// device.
    External(ExternalJournal),
}

/// What a volume says of the device that its journal is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExternalJournal {
    /// Its UUID, by which it is known.
    pub uuid: [u8; 16],
    /// Its number on the machine that makes the volume: a hint.
    pub number: u32,
}

/// Whether the root gets a lost+found, and how large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostAndFound {
    /// No such directory.
    None,
    /// 16 KiB, but at least 2 and at most 12 blocks, as mke2fs makes it.
    Default,
    /// This many blocks, at least 1.
    Blocks(u32),
}

/// What a device holds before it is formatted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// It reads as zeros: a new sparse file, or memory. Zeros are not written.
    Zeros,
    /// It may hold anything: inode tables and the journal are filled with zeros.
    Unknown,
}

/// Memory for the metadata of the first files, in bytes.
const CACHE_BYTES: usize = 8 << 20;
const JOURNAL_BLOCKS_MIN: u32 = 1024;
const JOURNAL_BLOCKS_MAX: u32 = 10_240_000;
/// `s_state` of a volume that has to be checked before use.
const STATE_UNFINISHED: u16 = 0;

/// Makes an empty file system, and returns its superblock as stored.
///
/// # Errors
/// Before anything is written: `Layout` if the wishes cannot be met, `InvalidArgument` for other
/// options. `NoSpace` if journal and directories do not fit; what the device returns.
pub fn format(
    device: Arc<dyn BlockDevice>,
    asked: &FormatOptions,
    policies: &Policies,
) -> Result<Superblock> {
    let plan = FormatPlan::new(asked)?;
    plan.check_device(&*device)?;
    if asked.placing == Placing::Mke2fs {
        // A last group that is too small, or the part of a cluster, is not in the volume.
        let end = plan.layout.superblock.blocks_count;
        let mut asked = asked.clone();
        asked.wishes.bad_blocks.retain(|block| block.0 < end);
        return format_classic(&*device, &asked, plan);
    }
    tables::write(&*device, &plan.layout, asked.contents)?;
    let options = Options {
        access: Access::ReadWrite,
        // The journal is one of the things that are being made.
        policies: policies.clone().without_journal(),
        cache_bytes: cache_for_blocks(CACHE_BYTES),
        data: DataKeeping::Bytes,
    };
    let volume = Volume::open(Arc::clone(&device), &options, None)?;
    let made = files::make(&volume, asked, &plan)?;
    volume.space.sync()?;
    drop(volume);
    let dated_latest = asked.dated_latest.unwrap_or(u64::MAX);
    finish(&*device, &plan, made, dated_latest)
}

/// Writes the first superblock and the descriptors to every group that has a copy, as mke2fs does
/// when it has filled a volume: what is lost with the first ones is then found in the copies. The
/// volume is not open.
///
/// # Errors
/// What the device returns; `Superblock` if the first one is none.
pub fn renew_copies(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    let superblock = Superblock::parse(&bytes)?;
    tables::write_copies(device, &superblock)?;
    device.flush().map_err(Error::from)?;
    Ok(superblock)
}

/// Decides all in memory, then writes it in rising order.
fn format_classic(
    device: &dyn BlockDevice,
    asked: &FormatOptions,
    plan: FormatPlan,
) -> Result<Superblock> {
    let fast_commits = classic::fast_commit_blocks(asked, &plan.layout.superblock);
    let overhead = plan.overhead_blocks().saturating_add(fast_commits.into());
    let overhead = overhead.saturating_sub(asked.wishes.bad_blocks.len() as u64);
    let (draft, made) = classic::draft(asked, plan.layout, plan.journal_blocks)?;
    tables::write_draft(device, &draft, asked.contents)?;
    let mut superblock = draft.layout.superblock.clone();
    complete(&mut superblock, &made, overhead);
    tables::write_copies(device, &superblock)?;
    device.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    device.flush().map_err(Error::from)?;
    Ok(superblock)
}

/// Names of the features of which a volume is not filled while it is made: those that are not
/// written.
pub fn unfilled(features: &Features) -> Vec<String> {
    features.unwritten()
}

/// Decides everything and writes nothing, like `mke2fs -n`. Returns the layout and the blocks of
/// the journal.
///
/// # Errors
/// As [`format()`], except for those that come from a device.
pub fn plan(options: &FormatOptions) -> Result<(Layout, u32)> {
    let plan = FormatPlan::new(options)?;
    Ok((plan.layout, plan.journal_blocks))
}

/// What is decided before the first write.
struct FormatPlan {
    layout: Layout,
    /// Blocks of the journal; 0 for no journal.
    journal_blocks: u32,
}

impl FormatPlan {
    fn new(options: &FormatOptions) -> Result<FormatPlan> {
        let mut wishes = options.wishes.clone();
        if options.root_mode & !0o7777 != 0 {
            return Err(ErrorKind::InvalidArgument(
                "the root directory's mode has more than permission bits",
            )
            .into());
        }
        let resizable = wishes.features.has(Feature::RESIZE_INODE);
        if resizable && files::resize_inode_size(wishes.block_size) >= 1 << 31 {
            wishes.features.set(Feature::LARGE_FILE);
        }
        let layout = Layout::with_tables_from(&wishes, options.tables_from);
        let mut layout = layout.map_err(ErrorKind::Layout)?;
        let superblock = &mut layout.superblock;
        superblock.state = STATE_UNFINISHED;
        let dated_latest = options.dated_latest.unwrap_or(u64::MAX);
        superblock.written_seconds = superblock.written_seconds.min(dated_latest);
        // The layout may have dropped a short last group, so ask it for the number of blocks.
        let journal_blocks = journal_blocks(options, superblock.blocks_count)?;
        if let JournalWish::External(ExternalJournal { uuid, number }) = options.journal {
            if options.placing == Placing::Policies {
                let reason = "a volume with its journal elsewhere is not filled while it is made";
                return Err(ErrorKind::InvalidArgument(reason).into());
            }
            superblock.features.set(Feature::HAS_JOURNAL);
            superblock.set_external_journal(uuid, number);
        } else if journal_blocks > 0 {
            superblock.features.set(Feature::HAS_JOURNAL);
            superblock.journal_inode = Ino::JOURNAL.0;
        } else if superblock.has(Feature::ORPHAN_FILE) {
            return Err(ErrorKind::InvalidArgument("orphan_file needs a journal").into());
        } else {
            superblock.features.clear(Feature::HAS_JOURNAL);
        }
        let plan = FormatPlan { layout, journal_blocks };
        plan.check_journal()?;
        if options.placing == Placing::Policies {
            if !wishes.bad_blocks.is_empty() {
                let reason = "blocks are kept from use of volumes that are not filled";
                return Err(ErrorKind::InvalidArgument(reason).into());
            }
            let unwritten = unfilled(&plan.layout.superblock.features);
            if !unwritten.is_empty() {
                let names = unwritten.join(", ");
                let reason = format!("features that only an empty volume is made with: {names}");
                return Err(ErrorKind::Layout(LayoutError(reason)).into());
            }
        }
        Ok(plan)
    }

    /// Checks before the first write that the journal fits; its map blocks are checked when it is
    /// made.
    fn check_journal(&self) -> Result<()> {
        let superblock = &self.layout.superblock;
        let wanted_blocks = u64::from(self.journal_blocks);
        if wanted_blocks >= superblock.free_blocks {
            return Err(
                ErrorKind::NoSpace { wanted_blocks, free_blocks: superblock.free_blocks }.into()
            );
        }
        let kind = if superblock.has(Feature::EXTENTS) {
            MappingKind::Extents
        } else {
            MappingKind::Indirect
        };
        let bytes = wanted_blocks.saturating_mul(superblock.block_size().into());
        if bytes > superblock.max_file_size(kind) {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(())
    }

    /// Blocks that no file of a user can have.
    fn overhead_blocks(&self) -> u64 {
        self.layout.overhead_blocks().saturating_add(self.journal_blocks.into())
    }

    fn check_device(&self, device: &dyn BlockDevice) -> Result<()> {
        let info = device.info();
        let superblock = &self.layout.superblock;
        let bytes = superblock.blocks_count.saturating_mul(superblock.block_size().into());
        if info.read_only {
            return Err(ErrorKind::ReadOnly.into());
        }
        if bytes > info.bytes {
            return Err(ErrorKind::InvalidArgument(
                "the file system would be larger than its device",
            )
            .into());
        }
        Ok(())
    }
}

/// What the superblock says once its files are made.
fn complete(superblock: &mut Superblock, made: &Made, overhead: u64) {
    if let Some(backup) = made.journal_backup {
        superblock.journal_backup = backup;
        superblock.journal_backup_type = JOURNAL_BACKUP_BLOCKS;
    }
    if let Some(ino) = made.orphan_file {
        superblock.orphan_file_inode = ino.0;
    }
    if let Some(block) = made.mount_block {
        superblock.set_mount_block(block, made.mount_interval_seconds);
    }
    if made.quota_inodes != [Ino(0); 3] {
        superblock.set_quota_inodes(made.quota_inodes);
    }
    if made.kib_written > 0 {
        superblock.kbytes_written = made.kib_written;
    }
    let clusters = overhead >> superblock.cluster_log2();
    superblock.set_overhead_clusters(u32::try_from(clusters).unwrap_or(0));
    superblock.state = state::CLEAN;
}

/// Blocks of the journal; 0 for no journal.
fn journal_blocks(options: &FormatOptions, volume_blocks: u64) -> Result<u32> {
    let wanted = options.wishes.features.has(Feature::HAS_JOURNAL);
    match options.journal {
        JournalWish::Blocks(blocks)
            if !(JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&blocks) =>
        {
            Err(ErrorKind::InvalidArgument("a journal has 1,024 to 10,240,000 blocks").into())
        }
        JournalWish::Blocks(blocks) => Ok(blocks),
        // The orphan file needs a journal: a small volume gets the smallest one.
        JournalWish::Default if wanted && options.wishes.features.has(Feature::ORPHAN_FILE) => {
            Ok(journal::default_blocks(volume_blocks).max(JOURNAL_BLOCKS_MIN))
        }
        JournalWish::Default if wanted => Ok(journal::default_blocks(volume_blocks)),
        JournalWish::Default | JournalWish::None | JournalWish::External(_) => Ok(0),
    }
}

/// What the superblock has to say about the files that were made.
#[derive(Default)]
struct Made {
    /// A copy of the journal inode's map and size.
    journal_backup: Option<[u32; 17]>,
    orphan_file: Option<Ino>,
    mount_block: Option<BlockNo>,
    /// Of users, groups, projects; 0 for none.
    quota_inodes: [Ino; 3],
    mount_interval_seconds: u16,
    kib_written: u64,
}

/// Completes the superblock, and writes its copies and those of the descriptors.
fn finish(
    device: &dyn BlockDevice,
    plan: &FormatPlan,
    made: Made,
    dated_latest: u64,
) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    let mut superblock = Superblock::parse(&bytes)?;
    superblock.written_seconds = superblock.written_seconds.min(dated_latest);
    complete(&mut superblock, &made, plan.overhead_blocks());
    tables::write_copies(device, &superblock)?;
    device.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    device.flush().map_err(Error::from)?;
    Ok(superblock)
}
