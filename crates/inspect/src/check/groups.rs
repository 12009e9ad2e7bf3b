//! Pass 0: the group descriptors, and the blocks that metadata has.
//!
//! *Invariants*: the bitmaps and tables of a [`GroupState`] that are said to be there lie on the device; a table's inodes are
//! claimed by one group.
use super::claims::Claims;
use super::codes::Code;
use super::problem::{Problem, Sink};
use super::state::{GroupState, MetadataRun};
use super::superblock::MULTIPLE_MOUNTS;
use crate::error::Error;
use crate::fields;
use crate::group::BlockRange;
use crate::volume::{SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, GroupNo, Ino};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Copies of the descriptors that are tried, at most.
const COPIES_MAX: usize = 8;

/// A descriptor as it stands, and what its checksum should be where it is another.
pub(crate) struct Described {
    pub(crate) descriptor: GroupDescriptor,
    pub(crate) fault: Option<Fault>,
}

/// The volume by a copy of superblock and descriptors, when its own descriptors lead outside and a copy's do not.
///
/// # Errors
/// When the device fails.
pub(crate) fn believable(
    volume: Volume,
    device: &Arc<dyn BlockDevice>,
    problems: &Sink,
) -> Result<(Volume, Vec<Described>), Error> {
    let described = read(&volume)?;
    if places_are_good(&volume, &described) {
        return Ok((volume, described));
    }
    let superblock = volume.superblock().clone();
    let copies = (1..volume.present_groups())
        .map(GroupNo)
        .filter(|group| volume.has_super(*group));
    for group in copies.take(COPIES_MAX) {
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
        if same && places_are_good(&copy, &described) {
            problems.add(Problem::new(Code::DescriptorsDamaged).group(group));
            return Ok((copy, described));
        }
    }
    Ok((volume, described))
}

/// All descriptors that are on the device. Neighbouring blocks are read together.
fn read(volume: &Volume) -> Result<Vec<Described>, Error> {
    let superblock = volume.superblock();
    let per_block = volume.descriptors_per_block().max(1);
    let groups = volume.present_groups();
    let mut described = Vec::new();
    let mut first = 0;
    while first < groups {
        let start = volume.descriptor_block(GroupNo(first));
        let mut blocks = 1;
        while blocks < 256 && first + blocks * per_block < groups {
            let next = volume.descriptor_block(GroupNo(first + blocks * per_block));
            if next.0 != start.0 + u64::from(blocks) {
                break;
            }
            blocks += 1;
        }
        let mut bytes = vec![0; volume.block_size() * blocks as usize];
        match volume.read("group descriptors", start, &mut bytes) {
            Err(Error::Outside { .. }) => return Ok(described),
            result => result?,
        }
        for (index, block) in (0..).zip(bytes.chunks_exact(volume.block_size())) {
            let first = first + index * per_block;
            for group in (first..groups.min(first + per_block)).map(GroupNo) {
                let bytes = volume.descriptor_bytes(block, group);
                described.push(Described {
                    descriptor: GroupDescriptor::decode(bytes, superblock),
                    fault: GroupDescriptor::verify_checksum(bytes, group, superblock).err(),
                });
            }
        }
        first += blocks * per_block;
    }
    Ok(described)
}

/// Whether all bitmaps and tables can be where the descriptors say.
fn places_are_good(volume: &Volume, described: &[Described]) -> bool {
    let mut groups = (0..).map(GroupNo).zip(described);
    groups.all(|(group, described)| {
        let places = Places::of(volume, group, &described.descriptor);
        places.has_block_bitmap && places.has_inode_bitmap && places.has_table
    })
}

/// Which parts of a group can be where its descriptor says.
#[derive(Clone, Copy)]
struct Places {
    has_block_bitmap: bool,
    has_inode_bitmap: bool,
    has_table: bool,
}

impl Places {
    fn of(volume: &Volume, group: GroupNo, descriptor: &GroupDescriptor) -> Places {
        let superblock = volume.superblock();
        let (first, end) = if superblock.has(Feature::FLEX_BG) {
            (u64::from(superblock.first_data_block) + 1, superblock.blocks_count)
        } else {
            let start = superblock.group_start(group).0;
            (start.max(1), start + u64::from(superblock.group_length(group)))
        };
        let end = end.min(volume.present_blocks());
        let within = |block: BlockNo, length: u64| {
            block.0 >= first && block.0.checked_add(length).is_some_and(|behind| behind <= end)
        };
        Places {
            has_block_bitmap: within(descriptor.block_bitmap, 1),
            has_inode_bitmap: within(descriptor.inode_bitmap, 1),
            has_table: within(descriptor.inode_table, superblock.inode_table_blocks().into()),
        }
    }
}

/// What pass 0 leaves of the groups.
pub(crate) struct Judged {
    pub(crate) groups: Vec<GroupState>,
    /// Blocks that metadata has, rising; some may overlap where a problem says so.
    pub(crate) metadata: Vec<MetadataRun>,
}

/// Judges the descriptors, and claims what belongs to metadata.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(
    volume: &Volume,
    described: Vec<Described>,
    claims: &Claims,
    problems: &Sink,
) -> Result<Judged, Error> {
    let mut metadata = claim_copies(volume, claims);
    let mut groups = Vec::with_capacity(described.len());
    for (group, described) in (0..).map(GroupNo).zip(described) {
        let mut state = state_of(volume, group, described, problems)?;
        claim_parts(volume, group, &mut state, claims, &mut metadata, problems);
        groups.push(state);
    }
    metadata.sort_unstable();
    Ok(Judged { groups, metadata })
}

/// Superblocks and descriptors, with those kept for growth, and the block that tells of mounts.
fn claim_copies(volume: &Volume, claims: &Claims) -> Vec<MetadataRun> {
    let mut metadata = Vec::new();
    let one = |block| BlockRange::new(block, 1);
    if volume.superblock().first_data_block == 0 && volume.superblock().block_size() == 1024 {
        // With clusters of more than one block of 1 KiB block 0 belongs to the volume: nobody has it.
        metadata.extend(one(0));
    }
    for group in (0..volume.present_groups()).map(GroupNo) {
        let Some(copy) = volume.copy(group) else { continue };
        metadata.extend(copy.superblock.and_then(one));
        metadata.extend(copy.descriptors);
        metadata.extend(copy.meta_descriptors.and_then(one));
        metadata.extend(copy.reserved_descriptors);
    }
    if volume.superblock().has(MULTIPLE_MOUNTS) {
        // Past the end it is cut off below, and reported with the superblock.
        metadata.extend(one(volume.fields().u64(fields::MMP_BLOCK)));
    }
    let end = volume.superblock().blocks_count;
    let runs = metadata
        .iter()
        .filter(|range| range.first < end)
        .map(|range| MetadataRun {
            start: BlockNo(range.first),
            length: range.last.min(end - 1) - range.first + 1,
        });
    let runs: Vec<MetadataRun> = runs.collect();
    for run in &runs {
        claims.take_run(run.start, run.length);
    }
    runs
}

/// A descriptor, believed as far as its checksum and its numbers allow.
fn state_of(volume: &Volume, group: GroupNo, described: Described, problems: &Sink) -> Result<GroupState, Error> {
    let superblock = volume.superblock();
    let Described { mut descriptor, fault } = described;
    if let Some(Fault::Checksum { stored, computed, .. }) = fault {
        let problem = Problem::new(Code::DescriptorChecksum).group(group);
        problems.add(problem.found(stored).expected(computed));
    }
    let unread = descriptor.flags & (BLOCK_UNINIT | INODE_UNINIT);
    if unread != 0 && !superblock.has_descriptor_checksums() {
        let problem = Problem::new(Code::UninitWithoutChecksums).group(group);
        problems.add(problem.found(unread));
        if unread & INODE_UNINIT != 0 {
            judge_never_used(volume, group, &descriptor, 0, problems)?;
        }
    }
    let per_group = superblock.inodes_per_group;
    if fault.is_some() && superblock.has_descriptor_checksums() {
        judge_doubtful(volume, group, &descriptor, problems)?;
    }
    if superblock.has_descriptor_checksums() && descriptor.unused_inodes > per_group {
        let problem = Problem::new(Code::UnusedInodes).group(group);
        problems.add(problem.found(descriptor.unused_inodes));
        descriptor.unused_inodes = 0;
    }
    if fault.is_some() || !superblock.has_descriptor_checksums() {
        descriptor.flags &= !(BLOCK_UNINIT | INODE_UNINIT);
        descriptor.unused_inodes = 0;
    }
    let inodes_used = if descriptor.flags & INODE_UNINIT != 0 {
        0
    } else {
        per_group - descriptor.unused_inodes
    };
    let places = Places::of(volume, group, &descriptor);
    Ok(GroupState {
        inodes_used,
        has_block_bitmap: places.has_block_bitmap,
        has_inode_bitmap: places.has_inode_bitmap,
        has_table: places.has_table,
        directories: AtomicU64::new(0),
        descriptor,
    })
}

/// What a descriptor with a wrong checksum says of inodes that were never used, against those that its bitmap has. The walk
/// does not believe it: it reads the whole table.
fn judge_doubtful(volume: &Volume, group: GroupNo, descriptor: &GroupDescriptor, problems: &Sink) -> Result<(), Error> {
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
    if believed == per_group || !Places::of(volume, group, descriptor).has_inode_bitmap {
        return Ok(());
    }
    let bitmap = volume.block("inode bitmap", descriptor.inode_bitmap)?;
    let is_set = |index: u32| {
        let byte = bitmap.get(index as usize / 8).copied().unwrap_or(0);
        byte & 1 << (index % 8) != 0
    };
    if let Some(index) = (believed..per_group).find(|index| is_set(*index)) {
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
    state: &mut GroupState,
    claims: &Claims,
    metadata: &mut Vec<MetadataRun>,
    problems: &Sink,
) {
    let descriptor = &state.descriptor;
    let table_blocks = volume.superblock().inode_table_blocks().into();
    let parts = [
        (
            descriptor.block_bitmap,
            1,
            state.has_block_bitmap,
            Code::BlockBitmapPlace,
            Code::BlockBitmapConflict,
        ),
        (
            descriptor.inode_bitmap,
            1,
            state.has_inode_bitmap,
            Code::InodeBitmapPlace,
            Code::InodeBitmapConflict,
        ),
        (
            descriptor.inode_table,
            table_blocks,
            state.has_table,
            Code::InodeTablePlace,
            Code::InodeTableConflict,
        ),
    ];
    for (block, length, is_there, misplaced, conflict) in parts {
        if !is_there {
            problems.add(Problem::new(misplaced).group(group).block(block));
            continue;
        }
        let run = MetadataRun { start: block, length };
        // Metadata of several groups may share a cluster.
        if volume.cluster_blocks() == 1 && !claims.is_free(block, length) {
            problems.add(Problem::new(conflict).group(group).block(block));
        }
        claims.take_run(block, length);
        metadata.push(run);
    }
}
