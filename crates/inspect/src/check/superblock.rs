//! Pass 0: a superblock that can be used, and what is wrong with it.
//!
//! Where the first one cannot be used the copies are tried at the places where mke2fs puts the
//! first of them.
use super::codes::Code;
use super::problem::{Problem, Sink};
use crate::error::Error;
use crate::fields;
use crate::volume::{BIGALLOC, SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::superblock::{
    Feature, Features, HashVersion, SUPERBLOCK_SIZE, Superblock, SuperblockError,
};
use extant_format::{BlockNo, Fault};
use std::sync::Arc;

pub(crate) const META_BG: Feature = Feature::Incompat(0x10);
pub(crate) const JOURNAL_DEVICE: Feature = Feature::Incompat(0x8);
pub(crate) const MULTIPLE_MOUNTS: Feature = Feature::Incompat(0x100);
pub(crate) const LARGE_DIRECTORY: Feature = Feature::Incompat(0x4000);
pub(crate) const INLINE_DATA: Feature = Feature::Incompat(0x8000);
pub(crate) const ENCRYPT: Feature = Feature::Incompat(0x1_0000);
pub(crate) const CASEFOLD: Feature = Feature::Incompat(0x2_0000);
pub(crate) const QUOTA: Feature = Feature::RoCompat(0x100);
pub(crate) const SHARED_BLOCKS: Feature = Feature::RoCompat(0x4000);

/// Opens the volume by its first superblock or, where that cannot be used, by a copy. `None`, with
/// a problem, when there is none that can be used.
///
/// # Errors
/// When the device fails.
pub(crate) fn open(
    device: &Arc<dyn BlockDevice>,
    problems: &Sink,
) -> Result<Option<Volume>, Error> {
    let first = match open_at(device, SuperblockPlace::Primary)? {
        Ok(volume) if volume.checksum_fault().is_none() && clusters_agree(&volume) => {
            let has_size = has_descriptor_size(&volume, problems);
            return Ok(has_size.then_some(volume));
        }
        Ok(volume) => Some(volume).filter(clusters_agree),
        Err(SuperblockError::Fault(Fault::Field { field, value, .. }))
            if FATAL_FIELDS.contains(&field) =>
        {
            let problem = Problem::new(Code::SuperblockField);
            problems.add(problem.name(field.as_bytes()).found(value));
            return Ok(None);
        }
        Err(_) => None,
    };
    for log2 in 10..=16 {
        let Some(copy) = open_copy(device, log2)? else { continue };
        let block = copy.superblock_block();
        problems.add(Problem::new(Code::SuperblockDamaged).block(BlockNo(block)));
        return Ok(Some(copy));
    }
    match first {
        // Only its checksum is wrong, and there is nothing better.
        Some(_) => problems.add(Problem::new(Code::SuperblockChecksum)),
        None => problems.add(Problem::new(Code::SuperblockUnusable)),
    }
    Ok(first)
}

/// Fields that a copy is not asked for: who wrote them meant it.
const FATAL_FIELDS: [&str; 1] = ["first inode"];

/// Whether the fields that tell of clusters agree with those that tell of blocks.
fn clusters_agree(volume: &Volume) -> bool {
    let (superblock, fields) = (volume.superblock(), volume.fields());
    let size = fields.u32(fields::LOG_CLUSTER_SIZE);
    let count = fields.u32(fields::CLUSTERS_PER_GROUP);
    let agree = if superblock.has(BIGALLOC) {
        let has_clusters = volume.cluster_blocks() > 1;
        u64::from(count) * u64::from(volume.cluster_blocks()) == superblock.blocks_per_group.into()
            && !(has_clusters && superblock.first_data_block != 0)
    } else {
        size.checked_add(10) == Some(superblock.block_size_log2.into())
            && count == superblock.blocks_per_group
    };
    agree && fields.u8(fields::LOG_GROUPS_PER_FLEX) < 32
}

/// Whether the size of descriptors is one that can be, also where nothing but the feature 64bit
/// reads it.
fn has_descriptor_size(volume: &Volume, problems: &Sink) -> bool {
    let size = volume.fields().u16(fields::DESCRIPTOR_SIZE);
    let is_possible = size == 0 || size.is_power_of_two() && size <= 1024;
    if !is_possible {
        let problem = Problem::new(Code::SuperblockField);
        problems.add(problem.name(b"descriptor size").found(size));
    }
    is_possible
}

/// The first copy on a volume with blocks of that size, if a good one stands there.
fn open_copy(device: &Arc<dyn BlockDevice>, block_size_log2: u32) -> Result<Option<Volume>, Error> {
    let block_size = 1_u32 << block_size_log2;
    let block = u64::from(block_size) * 8 + u64::from(block_size_log2 == 10);
    let place = SuperblockPlace::Copy { block: BlockNo(block), block_size };
    let copy = open_at(device, place)?.ok();
    Ok(copy.filter(|volume| {
        volume.checksum_fault().is_none() && volume.superblock().block_size() == block_size
    }))
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

/// Judges the fields that do not keep anybody from using it.
pub(crate) fn judge(volume: &Volume, problems: &Sink) {
    let superblock = volume.superblock();
    let tell = |code| problems.add(Problem::new(code));
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
    if superblock.has(Feature::RESIZE_INODE) && superblock.has(META_BG) {
        tell(Code::ResizeWithMetaGroups);
    }
    if superblock.has(Feature::UNINIT_BG) && superblock.has(Feature::METADATA_CSUM) {
        tell(Code::TwoChecksums);
    }
    if superblock.has(Feature::SIXTY_FOUR_BIT)
        && !superblock.has(Feature::EXTENTS)
        && superblock.blocks_count >> 32 != 0
    {
        tell(Code::WideWithoutExtents);
    }
    if superblock.has(Feature::CSUM_SEED) && !superblock.has(Feature::METADATA_CSUM) {
        tell(Code::SeedWithoutChecksums);
    }
    if superblock.reserved_gdt_blocks != 0 && !superblock.has(Feature::RESIZE_INODE) {
        problems.add(Problem::new(Code::ReservedDescriptors).found(superblock.reserved_gdt_blocks));
    }
    judge_features(superblock, problems);
    judge_companions(volume, problems);
    judge_extra_sizes(superblock, problems);
}

/// Every feature that e2fsprogs 1.47 checks. The journal's are judged with it.
const KNOWN: Features = Features { compat: 0x1e3f, incompat: 0x3_e7de, ro_compat: 0x1_f77b };

fn judge_features(superblock: &Superblock, problems: &Sink) {
    for feature in superblock.features.iter().filter(|feature| !KNOWN.has(*feature)) {
        let code = match feature {
            Feature::Incompat(_) => Code::UnknownIncompatible,
            Feature::Compat(_) | Feature::RoCompat(_) => Code::UnknownFeature,
        };
        problems.add(Problem::new(code).name(feature.name().as_bytes()));
    }
}

/// Fields without which a feature cannot be.
fn judge_companions(volume: &Volume, problems: &Sink) {
    let (superblock, fields) = (volume.superblock(), volume.fields());
    // UTF-8 is the only encoding that there is.
    let encoding = fields.u16(fields::ENCODING);
    if superblock.has(CASEFOLD) && encoding != 1 {
        problems.add(Problem::new(Code::Encoding).found(encoding));
    }
    if superblock.has(Feature::ORPHAN_PRESENT) && !superblock.has(Feature::ORPHAN_FILE) {
        problems.add(Problem::new(Code::OrphansWithoutFile));
    }
}

/// Fields of inodes that the superblock asks for must have room in them.
fn judge_extra_sizes(superblock: &Superblock, problems: &Sink) {
    if !superblock.has(Feature::EXTRA_ISIZE) || superblock.inode_size <= 128 {
        return;
    }
    let room = superblock.inode_size - 128;
    let wrong = |size: u16| size != 0 && (size > room || !size.is_multiple_of(4) || size < 4);
    for (size, code) in [
        (superblock.min_extra_isize, Code::RequiredExtraSize),
        (superblock.want_extra_isize, Code::WantedExtraSize),
    ] {
        if wrong(size) {
            problems.add(Problem::new(code).found(size).expected(room));
        }
    }
}

/// What a superblock would have to be changed in before its fields say where things are.
pub(crate) struct Corrections {
    /// The checksum that stands there does not fit.
    pub(crate) checksum: Option<Fault>,
    /// The inode count that stands there is not groups times inodes per group.
    pub(crate) inodes: Option<u32>,
}

/// As `Superblock::parse_any`, but what can be told from other fields is corrected instead of
/// refused.
pub(crate) fn parse_corrected(
    bytes: &[u8; SUPERBLOCK_SIZE],
) -> Result<(Superblock, Corrections), SuperblockError> {
    let mut corrected = *bytes;
    let mut corrections = Corrections { checksum: None, inodes: None };
    // Each correction is made once, so that this ends.
    loop {
        // The checksum that stands on the disk covers what stands there, not what is corrected
        // here.
        let is_as_stored = corrected == *bytes;
        match Superblock::parse_any(&corrected) {
            Ok(superblock) => return Ok((superblock, corrections)),
            Err(SuperblockError::Fault(fault @ Fault::Checksum { computed, .. })) => {
                corrected[fields::CHECKSUM..].copy_from_slice(&computed.to_le_bytes());
                if is_as_stored {
                    corrections.checksum = Some(fault);
                }
            }
            Err(SuperblockError::Fault(Fault::Field { field: "inode count", value, .. }))
                if corrections.inodes.is_none() =>
            {
                corrections.inodes = Some(u32::try_from(value).unwrap_or(u32::MAX));
                let inodes = expected_inodes(&corrected).unwrap_or(0);
                corrected[..4].copy_from_slice(&inodes.to_le_bytes());
            }
            Err(SuperblockError::Fault(Fault::Field { field: "hash version", .. }))
                if HashVersion::from_code(corrected[fields::HASH_VERSION]).is_none() =>
            {
                corrected[fields::HASH_VERSION] = HashVersion::HalfMd4.code();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Groups times inodes per group, by the fields as they stand.
fn expected_inodes(bytes: &[u8; SUPERBLOCK_SIZE]) -> Option<u32> {
    let fields = fields::Fields(bytes);
    let high = fields.u32(fields::INCOMPAT) & 0x80 != 0;
    let high = if high { u64::from(fields.u32(fields::BLOCKS_HIGH)) << 32 } else { 0 };
    let blocks = (high | u64::from(fields.u32(fields::BLOCKS_LOW)))
        .checked_sub(fields.u32(fields::FIRST_DATA_BLOCK).into())?;
    let groups = blocks.div_ceil(u64::from(fields.u32(fields::BLOCKS_PER_GROUP)).max(1));
    u32::try_from(groups.checked_mul(fields.u32(fields::INODES_PER_GROUP).into())?).ok()
}
