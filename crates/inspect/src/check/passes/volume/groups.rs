//! Pass 0: the group descriptors, and the blocks that metadata has.
//!
//! *Invariants*: the bitmaps and tables of a [`GroupFacts`] that are said to be there are on the
//! device; a table's inodes are claimed by one group.
use crate::check::codes::Code;
use crate::check::facts::{GroupFacts, Metadata, MetadataRun, push_joined};
use crate::check::problem::Problem;
use crate::check::sink::Sink;
use crate::claims::Claims;
use crate::error::Error;
use crate::group::BlockRange;
use crate::volume::{SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, GroupNo, Ino, bitmap};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Copies of the descriptors that are tried, at most.
const COPIES_MAX: usize = 8;
/// Groups among which they are looked for.
const COPY_GROUPS: u32 = 1 << 8;

/// The volume by a copy of superblock and descriptors, when its own descriptors lead outside and a
/// copy's do not; with its groups, yet to be judged. Where the descriptors are too few for the
/// groups that are claimed: a fatal problem.
///
/// # Errors
/// When the device fails.
pub(crate) fn believable(
    volume: Volume,
    device: &Arc<dyn BlockDevice>,
    problems: &Sink,
) -> Result<(Volume, Vec<GroupFacts>), Error> {
    let described = read(&volume)?;
    if described.is_good() {
        return Ok((volume, described.groups));
    }
    let superblock = volume.superblock().clone();
    for group in copies(&volume) {
        let place = SuperblockPlace::Copy {
            block: superblock.group_start(group),
            block_size: superblock.block_size(),
        };
        let copy = match Volume::open(Arc::clone(device), place) {
            Ok(copy) if copy.checksum_fault().is_none() => copy,
            Ok(_) | Err(Error::Superblock { .. }) => continue,
            Err(error) => return Err(error),
        };
        let same = copy.superblock().blocks_count == superblock.blocks_count
            && copy.superblock().block_size_log2 == superblock.block_size_log2
            && copy.superblock().inodes_count == superblock.inodes_count;
        let described = read(&copy)?;
        if same && described.is_good() {
            problems.add(Problem::new(Code::DescriptorsDamaged).group(group));
            return Ok((copy, described.groups));
        }
    }
    if let Some(count) = described.too_few {
        let problem = Problem::new(Code::TooManyGroups).found(count);
        problems.add(problem.expected(superblock.group_count()));
    }
    Ok((volume, described.groups))
}

/// The groups whose copies of the descriptors are tried.
fn copies(volume: &Volume) -> Vec<GroupNo> {
    let groups = volume.present_groups();
    if volume.superblock().has(Feature::SPARSE_SUPER2) {
        let named = volume.stored().backup_groups().into_iter();
        return named.filter(|group| (1..groups).contains(&group.0)).collect();
    }
    // The powers of 3, 5 and 7 come early.
    let early = (1..groups.min(COPY_GROUPS)).map(GroupNo);
    let copies = early.filter(|group| volume.has_super(*group));
    copies.take(COPIES_MAX).collect()
}

/// The descriptors that are on the device.
struct Described {
    /// None of them when they are too few.
    groups: Vec<GroupFacts>,
    /// How many hold something, where those are too few for what the superblock claims.
    too_few: Option<u64>,
}

impl Described {
    /// Whether all bitmaps and tables can be where the descriptors say.
    fn is_good(&self) -> bool {
        let has_all = |group: &GroupFacts| {
            group.has_block_bitmap && group.has_inode_bitmap && group.has_table
        };
        self.too_few.is_none() && self.groups.iter().all(has_all)
    }
}

fn read(volume: &Volume) -> Result<Described, Error> {
    let mut groups = Vec::new();
    let read =
        volume.each_descriptor(&mut |group, bytes| groups.push(group_facts(volume, group, bytes)));
    match read {
        Ok(()) => Ok(Described { groups, too_few: None }),
        Err(Error::TooManyGroups { described, .. }) => {
            Ok(Described { groups: Vec::new(), too_few: Some(described) })
        }
        Err(error) => Err(error),
    }
}

/// A group as its descriptor says.
fn group_facts(volume: &Volume, group: GroupNo, bytes: &[u8]) -> GroupFacts {
    let superblock = volume.superblock();
    let descriptor = GroupDescriptor::decode(bytes, superblock);
    let parts = PossibleParts::of(volume, group, &descriptor);
    let wrong_checksum = match GroupDescriptor::verify_checksum(bytes, group, superblock) {
        Err(Fault::Checksum { stored, computed, .. }) => Some((stored, computed)),
        _ => None,
    };
    GroupFacts {
        wrong_checksum,
        inodes_used: 0,
        has_block_bitmap: parts.has_block_bitmap,
        has_inode_bitmap: parts.has_inode_bitmap,
        has_table: parts.has_table,
        directories: AtomicU32::new(0),
        descriptor,
    }
}

/// Which parts of a group can be where its descriptor says.
#[derive(Clone, Copy)]
struct PossibleParts {
    has_block_bitmap: bool,
    has_inode_bitmap: bool,
    has_table: bool,
}

impl PossibleParts {
    fn of(volume: &Volume, group: GroupNo, descriptor: &GroupDescriptor) -> PossibleParts {
        let superblock = volume.superblock();
        let (first, end) = if superblock.has(Feature::FLEX_BG) {
            (u64::from(superblock.first_data_block) + 1, superblock.blocks_count)
        } else {
            let start = superblock.group_start(group).0;
            (start.max(1), start + u64::from(superblock.group_length(group)))
        };
        let end = end.min(volume.present_blocks());
        let within = |block: BlockNo, length: u64| {
            block.0 >= first && block.0.checked_add(length).is_some_and(|after| after <= end)
        };
        PossibleParts {
            has_block_bitmap: within(descriptor.block_bitmap, 1),
            has_inode_bitmap: within(descriptor.inode_bitmap, 1),
            has_table: within(descriptor.inode_table, superblock.inode_table_blocks().into()),
        }
    }
}

/// Judges the descriptors, and claims what belongs to metadata: gives the blocks that metadata
/// has.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(
    volume: &Volume,
    groups: &mut [GroupFacts],
    claims: &Claims,
    problems: &Sink,
) -> Result<Metadata, Error> {
    let clusters = (volume.cluster_blocks() > 1).then(BTreeMap::new);
    let mut ledger = Ledger { claims, metadata: Vec::new(), clusters };
    claim_copies(volume, groups.len(), &mut ledger);
    for (group, of) in (0..).map(GroupNo).zip(groups) {
        judge_group(volume, group, of, problems)?;
        claim_parts(volume, group, of, &mut ledger, problems);
    }
    Ok(Metadata::new(ledger.metadata))
}

/// What metadata has so far.
struct Ledger<'a> {
    claims: &'a Claims,
    metadata: Vec<MetadataRun>,
    /// With clusters the same by blocks, as the first one and the end, apart from each other:
    /// metadata of several groups may share a cluster.
    clusters: Option<BTreeMap<u64, u64>>,
}

impl Ledger<'_> {
    /// Takes a run. Gives whether nothing else had a block of it.
    fn take(&mut self, run: MetadataRun) -> bool {
        let is_free = match &mut self.clusters {
            None => self.claims.is_free(run.start, run.length),
            Some(runs) => {
                let (mut start, mut end) = (run.start.0, run.start.0.saturating_add(run.length));
                let before = |runs: &BTreeMap<u64, u64>, end: u64| {
                    runs.range(..end).next_back().map(|(start, end)| (*start, *end))
                };
                let mut is_free = true;
                while let Some((first, after)) = before(runs, end).filter(|run| run.1 > start) {
                    is_free = false;
                    runs.remove(&first);
                    (start, end) = (start.min(first), end.max(after));
                }
                runs.insert(start, end);
                is_free
            }
        };
        self.claims.take_run(run.start, run.length);
        push_joined(&mut self.metadata, run);
        is_free
    }
}

/// Superblocks and descriptors of the groups, with those kept for growth, and the block that
/// records mounts.
fn claim_copies(volume: &Volume, groups: usize, ledger: &mut Ledger<'_>) {
    let end = volume.superblock().blocks_count;
    let mut claim = |range: BlockRange| {
        if range.first < end {
            let start = BlockNo(range.first);
            let length = range.last.min(end - 1) - range.first + 1;
            ledger.take(MetadataRun { start, length });
        }
    };
    let one = |block| BlockRange::new(block, 1);
    let superblock = volume.superblock();
    if u64::from(superblock.first_data_block) < superblock.primary_block().0 {
        // With clusters of more than one block of 1 KiB block 0 belongs to the volume, and no
        // file may have it.
        one(0).into_iter().for_each(&mut claim);
    }
    for (group, _) in (0..).map(GroupNo).zip(0..groups) {
        let Some(copy) = volume.copy(group) else { continue };
        copy.superblock.and_then(one).into_iter().for_each(&mut claim);
        copy.descriptors.into_iter().for_each(&mut claim);
        copy.meta_descriptors.and_then(one).into_iter().for_each(&mut claim);
        copy.reserved_descriptors.into_iter().for_each(&mut claim);
    }
    if volume.superblock().has(Feature::MMP) {
        // Past the end it is cut off, and reported with the superblock.
        one(volume.stored().mmp_block().0).into_iter().for_each(&mut claim);
    }
}

/// Believes a descriptor as far as its checksum and its numbers allow.
fn judge_group(
    volume: &Volume,
    group: GroupNo,
    of: &mut GroupFacts,
    problems: &Sink,
) -> Result<(), Error> {
    let superblock = volume.superblock();
    if let Some((stored, computed)) = of.wrong_checksum {
        let problem = Problem::new(Code::DescriptorChecksum).group(group);
        problems.add(problem.found(stored).expected(computed));
    }
    let unread = of.descriptor.flags & (BLOCK_UNINIT | INODE_UNINIT);
    if unread != 0 && !superblock.has_descriptor_checksums() {
        let problem = Problem::new(Code::UninitWithoutChecksums).group(group);
        problems.add(problem.found(unread));
    }
    let per_group = superblock.inodes_per_group;
    if !superblock.has_descriptor_checksums() {
        judge_meaningless(volume, group, &of.descriptor, problems)?;
    }
    let is_doubtful = of.wrong_checksum.is_some();
    if is_doubtful && superblock.has_descriptor_checksums() {
        judge_doubtful(volume, group, &of.descriptor, problems)?;
    }
    let descriptor = &mut of.descriptor;
    if superblock.has_descriptor_checksums() && descriptor.unused_inodes > per_group {
        let problem = Problem::new(Code::UnusedInodes).group(group);
        problems.add(problem.found(descriptor.unused_inodes));
        if group == GroupNo(0) && !is_doubtful {
            problems.add(Problem::new(Code::RootNeverUsed).group(group));
        }
        descriptor.unused_inodes = 0;
    }
    // A copy is as old as the volume: the kernel writes none of them, so that it does not know
    // which groups were used since.
    let is_copy = volume.place() != SuperblockPlace::Primary;
    if is_copy || is_doubtful || !superblock.has_descriptor_checksums() {
        descriptor.flags &= !(BLOCK_UNINIT | INODE_UNINIT);
        descriptor.unused_inodes = 0;
    }
    of.inodes_used =
        if descriptor.flags & INODE_UNINIT != 0 { 0 } else { per_group - descriptor.unused_inodes };
    Ok(())
}

/// What a descriptor says of inodes that were never used, on a volume whose descriptors have no
/// checksums: the kernel does not look at it, but e2fsck does.
fn judge_meaningless(
    volume: &Volume,
    group: GroupNo,
    descriptor: &GroupDescriptor,
    problems: &Sink,
) -> Result<(), Error> {
    let unused = descriptor.unused_inodes;
    if unused != 0 {
        let problem = Problem::new(Code::UnusedWithoutChecksums).group(group);
        problems.add(problem.found(unused));
    }
    // e2fsck counts back from the end of the group: from more than all inodes it comes to nothing.
    let per_group = u64::from(volume.superblock().inodes_per_group);
    let before = u64::from(group.0) * per_group;
    let first = (before + per_group + 1).checked_sub(unused.into());
    let believed = match (descriptor.flags & INODE_UNINIT, first) {
        (0, None) => return Ok(()),
        (0, Some(first)) => u32::try_from(first.saturating_sub(before + 1)).unwrap_or(0),
        _ => 0,
    };
    judge_never_used(volume, group, descriptor, believed, problems)
}

/// What a descriptor with a wrong checksum says of inodes that were never used, against those that
/// its bitmap has. The walk does not believe it: it reads the whole table.
fn judge_doubtful(
    volume: &Volume,
    group: GroupNo,
    descriptor: &GroupDescriptor,
    problems: &Sink,
) -> Result<(), Error> {
    let per_group = volume.superblock().inodes_per_group;
    let believed = if descriptor.flags & INODE_UNINIT != 0 {
        0
    } else {
        per_group.saturating_sub(descriptor.unused_inodes)
    };
    if group == GroupNo(0) && believed < Ino::ROOT.0 {
        problems.add(Problem::new(Code::RootNeverUsed).group(group));
        return Ok(());
    }
    judge_never_used(volume, group, descriptor, believed, problems)
}

/// Compares inodes that were never used, from `believed` of the group on, with its bitmap.
fn judge_never_used(
    volume: &Volume,
    group: GroupNo,
    descriptor: &GroupDescriptor,
    believed: u32,
    problems: &Sink,
) -> Result<(), Error> {
    let per_group = volume.superblock().inodes_per_group;
    if believed == per_group || !PossibleParts::of(volume, group, descriptor).has_inode_bitmap {
        return Ok(());
    }
    let bitmap = volume.block("inode bitmap", descriptor.inode_bitmap)?;
    if let Some(index) = bitmap::next_set(&bitmap, believed, per_group) {
        let before = group.0.saturating_mul(per_group);
        let ino = Ino(before.saturating_add(index).saturating_add(1));
        problems.add(Problem::new(Code::UsedNeverUsed).group(group).ino(ino));
    }
    Ok(())
}

/// Claims the bitmaps and the table of a group.
fn claim_parts(
    volume: &Volume,
    group: GroupNo,
    of: &GroupFacts,
    ledger: &mut Ledger<'_>,
    problems: &Sink,
) {
    let descriptor = &of.descriptor;
    let table_blocks = volume.superblock().inode_table_blocks().into();
    // e2fsck gives up without the root directory, but of a volume with a journal it has by then
    // said that it misses that.
    let has_journal = volume.superblock().has(Feature::HAS_JOURNAL);
    let table_misplaced = match group == GroupNo(0) && !has_journal {
        true => Code::RootTablePlace,
        false => Code::InodeTablePlace,
    };
    let parts = [
        (
            descriptor.block_bitmap,
            1,
            of.has_block_bitmap,
            Code::BlockBitmapPlace,
            Code::BlockBitmapConflict,
        ),
        (
            descriptor.inode_bitmap,
            1,
            of.has_inode_bitmap,
            Code::InodeBitmapPlace,
            Code::InodeBitmapConflict,
        ),
        (
            descriptor.inode_table,
            table_blocks,
            of.has_table,
            table_misplaced,
            Code::InodeTableConflict,
        ),
    ];
    for (block, length, is_there, misplaced, conflict) in parts {
        if !is_there {
            problems.add(Problem::new(misplaced).group(group).block(block));
            continue;
        }
        if !ledger.take(MetadataRun { start: block, length }) {
            problems.add(Problem::new(conflict).group(group).block(block));
        }
    }
}
