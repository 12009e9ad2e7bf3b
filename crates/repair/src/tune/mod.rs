//! What a volume says of itself, changed as tune2fs changes it: label, UUID, features, journal,
//! quota and more.
//!
//! ```text
//! fields only | superblock and its copies                                       milliseconds
//! the rest    | check: clean | remove | check | rewrite | check | add | check: clean | copies
//! ```
//!
//! Nothing is on the disk then, as after [`crate::resize`].
//!
//! ```text
//! words       letters of tune2fs
//! plan        what follows from what is asked for; what is refused
//! fields      what is in the superblock alone
//! files       journal, quota files, file of orphans, block that records mounts
//! sums        checksums of everything
//! entries     blocks of directories
//! report      what is different afterwards
//! ```
mod entries;
mod fields;
mod files;
mod plan;
mod report;
mod sums;
pub mod words;

use crate::bitmaps::{self, Marked};
use crate::draft::Draft;
use crate::error::Error;
use crate::options::Scope;
use crate::outcome::is_clean;
use crate::reshape::{self, ResizeOptions, Resized, copies, settle};
use crate::rounds::MEMORY_BYTES_MAX;
use extant_block::{BlockDevice, Overlay};
use extant_format::superblock::{
    Feature, HashVersion, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};
use extant_format::{BlockNo, GroupNo};
use extant_inspect::{CheckOptions, Code, Listener, Problem, Severity, Usage, examine};
use plan::Plan;
pub use report::Change;
use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Whether something is to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It is.
    Set,
    /// It is not.
    Cleared,
}

/// What a quota file counts by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum QuotaFile {
    /// By user.
    Users,
    /// By group.
    Groups,
    /// By project.
    Projects,
}

/// The UUID that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UuidWish {
    /// This one.
    Given([u8; 16]),
    /// None: zeros.
    Clear,
    /// A random one.
    Random,
    /// One by the time.
    ByTime,
}

/// The journal that is wanted. What is `None` is as mke2fs decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalWish {
    /// Bytes of it, without those for fast commits.
    pub bytes: Option<u64>,
    /// Bytes for fast commits.
    pub fast_commit_bytes: Option<u64>,
    /// A block near which it is to be.
    pub block: Option<u64>,
    /// The same, as a byte of the volume.
    pub byte: Option<u64>,
}

/// One change.
#[derive(Clone, PartialEq, Debug)]
pub enum Tuning {
    /// The label; bytes past 16 are cut off.
    Label(Vec<u8>),
    /// The UUID.
    Uuid(UuidWish),
    /// A feature.
    Feature(Feature, Wanted),
    /// A journal; one that is there is replaced.
    Journal(JournalWish),
    /// A quota file.
    Quota(QuotaFile, Wanted),
    /// Blocks that only root may take, in percent.
    ReservedPercent(f64),
    /// The same, as a number.
    ReservedBlocks(u64),
    /// Who may take them besides.
    ReservedUser(u16),
    /// Who may take them besides.
    ReservedGroup(u16),
    /// Mounts after which it is checked; -1 for never.
    MaxMountCount(i16),
    /// The same, from 20 to 40.
    RandomMaxMountCount,
    /// How often it was mounted since the last check.
    MountCount(u16),
    /// Seconds after which it is checked; 0 for never.
    CheckInterval(u32),
    /// When it was checked, in seconds since 1970.
    LastChecked(u64),
    /// What the kernel does on an error: one of `extant_format::superblock::on_error`.
    OnError(u16),
    /// Bits of the default mount options.
    MountOption(u32, Wanted),
    /// Default mount options in words.
    MountOptions(Vec<u8>),
    /// Where it was mounted last.
    LastMounted(Vec<u8>),
    /// The hash of names of new directories.
    Hash(HashVersion),
    /// RAID: blocks of a chunk.
    Stride(u16),
    /// RAID: blocks of a stripe.
    StripeWidth(u32),
    /// Whether it is for tests of new code.
    TestFlag(Wanted),
    /// It is checked before it is mounted.
    ForceCheck,
    /// How often a mount looks whether another machine has it, in seconds; 0 as usual.
    MountInterval(u16),
    /// No other machine has it, whatever the block that records mounts says.
    ClearMountBlock,
    /// The encoding of names and its flags; with it the feature casefold.
    Encoding(u16, u16),
    /// Bytes of the file of orphans; with it the feature.
    OrphanFileSize(u64),
    /// Bytes of an inode.
    InodeSize(u16),
}

/// How a volume is changed.
pub struct TuneOptions {
    /// Threads of each check.
    pub threads: NonZeroU32,
    /// An empty file for the changes that do not fit into memory.
    pub spool: Option<File>,
    /// The time that is written into the superblock, in seconds since 1970.
    pub now_seconds: u64,
    /// Random bytes: for UUIDs and the like.
    pub random: [u8; 16],
    /// The name of this machine, and what it calls the device: the block that records mounts says
    /// so.
    pub mount_record: (Vec<u8>, Vec<u8>),
    /// Called now and then with how far a check is.
    pub progress: Option<Listener>,
}

/// A volume that was changed in memory.
pub struct Tuned {
    /// The volume as it is to be, and what is written before it.
    pub resized: Resized,
    /// What is different.
    pub changes: Vec<Change>,
}

impl Tuned {
    /// Whether nothing is different, and nothing is to be written.
    pub fn is_nothing(&self) -> bool {
        self.resized.overlay.written().is_empty()
    }
}

/// Whether a change is one of the superblock alone, which needs no check of the volume.
///
/// # Errors
/// It is refused whatever else the volume has.
pub fn is_of_superblock(superblock: &Superblock, asked: &[Tuning]) -> Result<bool, Error> {
    let plan = Plan::of(superblock, asked, &Drawn { now_seconds: 0, random: [1; 16] })?;
    Ok(!plan.needs_check())
}

/// What is drawn for a change.
pub(crate) struct Drawn {
    pub(crate) now_seconds: u64,
    pub(crate) random: [u8; 16],
}

/// Changes a volume in memory.
///
/// # Errors
/// The device fails; the change is refused; where more than the superblock changes, the volume is
/// not clean, or the result would not be.
pub fn tune(
    device: Arc<dyn BlockDevice>,
    asked: &[Tuning],
    options: TuneOptions,
) -> Result<Tuned, Error> {
    let before = extant_engine::read_superblock(&*device)?;
    let drawn = Drawn { now_seconds: options.now_seconds, random: options.random };
    let plan = Plan::of(&before, asked, &drawn)?;
    if let Some(size) = plan.inode_size {
        return enlarged(device, (&before, size), &plan, options);
    }
    let block_size = before.block_size();
    let overlay = Overlay::new(device, block_size, MEMORY_BYTES_MAX);
    let overlay = Arc::new(match options.spool {
        Some(spool) => overlay.with_spool(spool),
        None => overlay,
    });
    let mut zeros = Vec::new();
    if plan.clears_mount_block && before.has(Feature::MMP) {
        files::clear_mount_block(&overlay, &before)?;
    }
    if plan.needs_check() {
        let how = CheckOptions {
            threads: options.threads,
            progress: options.progress,
            ..CheckOptions::default()
        };
        let now = u32::try_from(options.now_seconds).unwrap_or(u32::MAX);
        let mut work = Work { overlay: &overlay, how, now, plan: &plan, zeros: Vec::new() };
        work.run(&options.mount_record)?;
        zeros = work.zeros;
    } else if plan.changes_fields() {
        write_fields(&overlay, &before, &plan, options.now_seconds)?;
    }
    let after = extant_engine::read_superblock(&*overlay)?;
    let changes = report::changes(&before, &after);
    let resized = Resized { overlay, before, after, zeros, moves: Vec::new(), moved_blocks: 0 };
    Ok(Tuned { resized, changes })
}

/// Gives inodes another size, with what else is of the superblock alone.
fn enlarged(
    device: Arc<dyn BlockDevice>,
    (before, size): (&Superblock, u16),
    plan: &Plan,
    options: TuneOptions,
) -> Result<Tuned, Error> {
    let TuneOptions { threads, spool, now_seconds, progress, .. } = options;
    let options = ResizeOptions { threads, spool, now_seconds, progress };
    let fields = |superblock: &mut Superblock| plan.apply_fields(superblock);
    let resized = reshape::with_inode_size(device, size, &fields, options)?;
    let changes = report::changes(before, &resized.after);
    Ok(Tuned { resized, changes })
}

/// Writes the fields of the superblock and of its copies. A copy that is none any more is left
/// alone.
fn write_fields(
    overlay: &Overlay,
    before: &Superblock,
    plan: &Plan,
    now_seconds: u64,
) -> Result<(), Error> {
    let block_size = u64::from(before.block_size());
    let groups = (1..before.group_count()).map(GroupNo);
    for group in groups.filter(|group| before.has_super(*group)) {
        let at = before.group_start(group).0.saturating_mul(block_size);
        let mut bytes = [0; SUPERBLOCK_SIZE];
        if overlay.read(at, &mut bytes).is_err() {
            continue;
        }
        let Ok(mut copy) = Superblock::parse_any(&bytes) else { continue };
        if copy.uuid == before.uuid || copy.has(Feature::CSUM_SEED) {
            plan.apply_fields(&mut copy);
            // tidy: writers because it is an overlay in memory
            overlay.write(at, &copy.encode())?;
        }
    }
    let mut after = before.clone();
    plan.apply_fields(&mut after);
    after.written_seconds = now_seconds;
    // tidy: writers because it is an overlay in memory
    Ok(overlay.write(SUPERBLOCK_OFFSET, &after.encode())?)
}

/// A change of more than the superblock, under way.
struct Work<'a> {
    overlay: &'a Arc<Overlay>,
    how: CheckOptions,
    now: u32,
    plan: &'a Plan,
    /// Blocks that have to be zeros before the change is written.
    zeros: Vec<Range<u64>>,
}

impl Work<'_> {
    fn run(&mut self, mount_record: &(Vec<u8>, Vec<u8>)) -> Result<(), Error> {
        let plan = self.plan;
        let over = Arc::clone(self.overlay) as Arc<dyn BlockDevice>;
        let (report, usage) = examine(over, &self.how)?;
        let is_wrong = |it: &&Problem| it.rule().severity > Severity::Advice;
        let mut wrong = report.problems.iter().filter(is_wrong).peekable();
        // What mke2fs -d puts into a volume is not in its quota files.
        let is_counted_wrong =
            wrong.peek().is_some() && wrong.all(|it| it.code == Code::QuotaUsage);
        let mut usage = match usage {
            Some(_) if is_counted_wrong && report.omitted == 0 => {
                settle::settle(self.overlay, (&self.how, self.now), Marked::Lazily)?
            }
            Some(usage) if is_clean(&report) => usage,
            _ => {
                let problem = report.problems.iter().find(is_wrong).or(report.problems.first());
                let problem = problem.map(ToString::to_string);
                return Err(Error::Unclean(problem.unwrap_or_default()));
            }
        };
        // What goes stays as it is on the disk until all is written: nothing else is put there.
        let mut kept = kept_for_copies(usage.superblock(), plan);
        if plan.removes() {
            usage = self.phase(usage, |draft, _| {
                kept.extend(files::remove(draft, plan)?);
                Ok(())
            })?;
        }
        usage = self.phase(usage, |draft, zeros| {
            let before = draft.superblock.clone();
            plan.apply_fields(&mut draft.superblock);
            sums::rewrite(draft, &before, plan, (&mut kept, zeros))?;
            draft.write_superblock()
        })?;
        if plan.quota_files.contains(&Some(Wanted::Set)) {
            usage = self.counted(usage)?;
        }
        if plan.adds() {
            usage = self.phase(usage, |draft, zeros| {
                files::add(draft, plan, mount_record, (&kept, zeros))
            })?;
        }
        let after = extant_engine::read_superblock(&**self.overlay)?;
        copies::write(self.overlay, &after, &usage)
    }

    /// What is in use, with what each user, group and project has: that is only counted on a volume
    /// with the feature for it.
    fn counted(&self, usage: Usage) -> Result<Usage, Error> {
        let mut superblock = usage.superblock().clone();
        superblock.features.set(Feature::QUOTA);
        // tidy: writers because it is an overlay in memory
        self.overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
        let over = Arc::clone(self.overlay) as Arc<dyn BlockDevice>;
        let (_, counted) = examine(over, &self.how)?;
        Ok(counted.unwrap_or(usage))
    }

    /// Changes a volume that is clean to one that is clean again.
    fn phase(
        &mut self,
        usage: Usage,
        change: impl FnOnce(&mut Draft, &mut Vec<Range<u64>>) -> Result<(), Error>,
    ) -> Result<Usage, Error> {
        let mut draft = Draft::new(self.overlay, usage, self.now, Scope::Safe);
        change(&mut draft, &mut self.zeros)?;
        draft.superblock.written_seconds = self.now.into();
        draft.write_superblock()?;
        let stale: Vec<GroupNo> = draft.stale.iter().copied().collect();
        stale.into_iter().try_for_each(|group| bitmaps::write(&draft, group, Marked::Lazily))?;
        drop(draft);
        settle::settle(self.overlay, (&self.how, self.now), Marked::Lazily)
    }
}

/// The blocks that every copy of superblock and descriptors has, where some of them go.
fn kept_for_copies(before: &Superblock, plan: &Plan) -> Freed {
    if !plan.is_cleared(Feature::RESIZE_INODE) && !plan.is_set(Feature::SPARSE_SUPER) {
        return Freed::new();
    }
    let blocks = 1 + u64::from(before.descriptor_blocks()) + u64::from(before.reserved_gdt_blocks);
    let groups = (0..before.group_count()).map(GroupNo).filter(|group| before.has_super(*group));
    groups.map(|group| (before.group_start(group), blocks)).collect()
}

/// Blocks that are not needed any more, and stay as they are until all is written.
pub(crate) type Freed = Vec<(BlockNo, u64)>;
