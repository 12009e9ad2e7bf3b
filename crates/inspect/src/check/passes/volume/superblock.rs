//! Pass 0: a superblock that can be used, and what is wrong with it.
//!
//! Where the first one cannot be used the first copy is, if one is found.
use crate::check::codes::Code;
use crate::check::problem::Problem;
use crate::check::sink::Sink;
use crate::copies::open_copy;
use crate::error::Error;
use crate::journal_device::journal_device;
use crate::volume::{SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::inode::{BASE_SIZE, is_extra_size_possible};
use extant_format::superblock::{
    DESCRIPTOR_SIZE_MAX, ENCODING_UTF8, Feature, Superblock, SuperblockError,
};
use std::sync::Arc;

/// Groups of a flex group, log2, above which the number means nothing.
const LOG_GROUPS_PER_FLEX_END: u8 = 32;

/// Opens the volume by its first superblock or, where that cannot be used, by a copy. `None`, with
/// a problem, when there is none that can be used.
///
/// # Errors
/// When the device fails.
pub(crate) fn open(
    device: &Arc<dyn BlockDevice>,
    problems: &Sink,
) -> Result<Option<Volume>, Error> {
    let primary = open_at(device, SuperblockPlace::Primary)?;
    // It has no inodes, which is no superblock of a volume.
    if primary.is_err() && journal_device(&**device)?.is_some() {
        problems.add(Problem::new(Code::IsJournalDevice));
        return Ok(None);
    }
    let first = match primary {
        Ok(volume)
            if volume.checksum_fault().is_none()
                && clusters_agree(&volume)
                && has_descriptor_size(&volume) =>
        {
            return Ok(Some(volume));
        }
        Ok(volume) => Some(volume).filter(clusters_agree),
        Err(_) => None,
    };
    if let Some(copy) = open_copy(device)? {
        let block = copy.superblock_block();
        problems.add(Problem::new(Code::SuperblockDamaged).block(BlockNo(block)));
        return Ok(Some(copy));
    }
    match &first {
        Some(first) if !has_descriptor_size(first) => {
            let problem = Problem::new(Code::SuperblockField);
            let size = first.stored().descriptor_size();
            problems.add(problem.name(b"descriptor size").found(size));
            return Ok(None);
        }
        // Only its checksum is wrong, and there is nothing better.
        Some(_) => problems.add(Problem::new(Code::SuperblockChecksum)),
        None => problems.add(Problem::new(Code::SuperblockUnusable)),
    }
    Ok(first)
}

/// Whether the sizes of clusters agree with those of blocks.
fn clusters_agree(volume: &Volume) -> bool {
    let (superblock, stored) = (volume.superblock(), volume.stored());
    let count = stored.clusters_per_group();
    let agree = if superblock.has(Feature::BIGALLOC) {
        let has_clusters = volume.cluster_blocks() > 1;
        u64::from(count) * u64::from(volume.cluster_blocks()) == superblock.blocks_per_group.into()
            && !(has_clusters && superblock.first_data_block != 0)
    } else {
        stored.cluster_size_log2() == superblock.block_size_log2.into()
            && count == superblock.blocks_per_group
    };
    agree && stored.log_groups_per_flex() < LOG_GROUPS_PER_FLEX_END
}

/// Whether the size of descriptors is one that can be, also where nothing but the feature 64bit
/// reads it.
fn has_descriptor_size(volume: &Volume) -> bool {
    let size = volume.stored().descriptor_size();
    size == 0 || size.is_power_of_two() && size <= DESCRIPTOR_SIZE_MAX
}

fn open_at(
    device: &Arc<dyn BlockDevice>,
    place: SuperblockPlace,
) -> Result<Result<Volume, SuperblockError>, Error> {
    match Volume::open(Arc::clone(device), place) {
        Ok(volume) => Ok(Ok(volume)),
        Err(Error::Superblock { error, .. }) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// Judges the fields without which the volume can still be used.
pub(crate) fn judge(volume: &Volume, problems: &Sink) {
    let superblock = volume.superblock();
    let report = |code| problems.add(Problem::new(code));
    let needed = superblock.blocks_count.saturating_mul(superblock.block_size().into());
    if needed > volume.device_bytes() {
        let present = volume.present_blocks();
        problems.add(
            Problem::new(Code::DeviceTooSmall).found(present).expected(superblock.blocks_count),
        );
    }
    if let Some(inodes) = volume.corrected_inode_count() {
        let expected = superblock.inodes_count;
        problems.add(Problem::new(Code::InodeCount).found(inodes).expected(expected));
    }
    if superblock.reserved_blocks > superblock.blocks_count / 2 {
        problems.add(Problem::new(Code::ReservedBlocks).found(superblock.reserved_blocks));
    }
    if superblock.has(Feature::RESIZE_INODE) && superblock.has(Feature::META_BG) {
        report(Code::ResizeWithMetaGroups);
    }
    if superblock.has(Feature::UNINIT_BG) && superblock.has(Feature::METADATA_CSUM) {
        report(Code::TwoChecksums);
    }
    if superblock.has(Feature::SIXTY_FOUR_BIT)
        && !superblock.has(Feature::EXTENTS)
        && superblock.blocks_count >> 32 != 0
    {
        report(Code::WideWithoutExtents);
    }
    if superblock.has(Feature::CSUM_SEED) && !superblock.has(Feature::METADATA_CSUM) {
        report(Code::SeedWithoutChecksums);
    }
    if superblock.reserved_gdt_blocks != 0 && !superblock.has(Feature::RESIZE_INODE) {
        problems.add(Problem::new(Code::ReservedDescriptors).found(superblock.reserved_gdt_blocks));
    }
    judge_features(superblock, problems);
    judge_companions(volume, problems);
    judge_extra_sizes(superblock, problems);
}

fn judge_features(superblock: &Superblock, problems: &Sink) {
    for feature in superblock.features.iter().filter(|feature| !feature.is_judged()) {
        let code = match feature {
            Feature::Incompat(_) => Code::UnknownIncompatible,
            Feature::Compat(_) | Feature::RoCompat(_) => Code::UnknownFeature,
        };
        problems.add(Problem::new(code).name(feature.name().as_bytes()));
    }
}

/// Fields without which a feature cannot be.
fn judge_companions(volume: &Volume, problems: &Sink) {
    let superblock = volume.superblock();
    let encoding = volume.stored().encoding();
    if superblock.has(Feature::CASEFOLD) && encoding != ENCODING_UTF8 {
        problems.add(Problem::new(Code::Encoding).found(encoding));
    }
    if superblock.has(Feature::ORPHAN_PRESENT) && !superblock.has(Feature::ORPHAN_FILE) {
        problems.add(Problem::new(Code::OrphansWithoutFile));
    }
}

/// Fields of inodes that the superblock asks for must have room in them.
fn judge_extra_sizes(superblock: &Superblock, problems: &Sink) {
    let room = superblock.inode_size.saturating_sub(BASE_SIZE as u16);
    if !superblock.has(Feature::EXTRA_ISIZE) || room == 0 {
        return;
    }
    for (size, code) in [
        (superblock.min_extra_isize, Code::RequiredExtraSize),
        (superblock.want_extra_isize, Code::WantedExtraSize),
    ] {
        if !is_extra_size_possible(size, room) {
            problems.add(Problem::new(code).found(size).expected(room));
        }
    }
}
