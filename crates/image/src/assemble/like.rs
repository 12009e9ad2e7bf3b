//! How a volume is built that is like another: all that its superblock says, asked for again.
use super::order::LostFolder;
use super::plan::FlexGroups;
use super::prepare::{BuildOptions, DATED_LATEST, SmallJournal};
use super::room::ImageSize;
use crate::error::Error;
use extant_block::BlockDevice;
use extant_engine::allocation::MapBlocks;
use extant_engine::mkfs::{self, JournalWish, Profile};
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::layout::{Checks, Inodes, Marks, Wishes};
use extant_format::superblock::{
    Feature, Features, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, superblock_flags,
};
use extant_format::{GroupNo, Ino};
use std::io;

/// Features that say what waits in a volume.
const OF_USE: [Feature; 2] = [Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT];
/// Features of which a tree knows nothing: what they keep of files would be lost.
const UNKEPT: [(Feature, &str); 3] = [
    (Feature::ENCRYPT, "encrypted files have no key here"),
    (Feature::VERITY, "files with fs-verity would lose their hashes"),
    (Feature::PROJECT, "files would lose their projects"),
];

/// What casefold would lose.
const OF_CASEFOLD: &str = "directories would lose that case does not count in them";

/// Refuses what files of a volume keep that no tree knows.
///
/// # Errors
/// Why.
pub(super) fn check_kept(uses: Features) -> Result<(), Error> {
    match UNKEPT.iter().find(|(feature, _)| uses.has(*feature)) {
        None => Ok(()),
        Some((_, why)) => Err(Error::new(*why)),
    }
}

/// What is asked for so that a volume is built like that on a device, with its size, identity and
/// features.
///
/// # Errors
/// It has its journal on another device, or blocks that are marked as bad; the device's.
pub fn like(device: &dyn BlockDevice, superblock: &Superblock) -> Result<BuildOptions, Error> {
    if superblock.has(Feature::CASEFOLD) {
        return Err(Error::new(OF_CASEFOLD));
    }
    if file_bytes(device, superblock, Ino::BAD_BLOCKS)? > 0 {
        return Err(Error::new("blocks that are marked as bad stay where they are"));
    }
    let mut features = superblock.features;
    OF_USE.into_iter().for_each(|feature| features.clear(feature));
    let profile = match (features.has(Feature::EXTENTS), features.has(Feature::HAS_JOURNAL)) {
        (true, _) => Profile::Ext4,
        (false, true) => Profile::Ext3,
        (false, false) => Profile::Ext2,
    };
    let journal = match (features.has(Feature::HAS_JOURNAL), superblock.journal_inode) {
        (false, _) => JournalWish::None,
        (true, 0) => return Err(Error::new("its journal is on another device")),
        (true, number) => {
            let bytes = file_bytes(device, superblock, Ino(number))?;
            let blocks = bytes / u64::from(superblock.block_size());
            JournalWish::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX))
        }
    };
    let block_size = superblock.block_size();
    let bytes = superblock.blocks_count.saturating_mul(block_size.into());
    let defaults = BuildOptions::new(profile);
    let copies = superblock.backup_groups().iter().filter(|group| group.0 > 0).count();
    let wishes = Wishes {
        block_size,
        features,
        inode_size: superblock.inode_size,
        reserved_ratio: reserved_ratio(superblock),
        flex_groups: 1_u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1),
        blocks_per_group: Some(superblock.bits_per_group()),
        resize_to_blocks: resize_to_blocks(superblock),
        hash_version: superblock.hash_version,
        label: superblock.label,
        stride: superblock.raid_stride,
        stripe_width: superblock.raid_stripe_width,
        marks: marks(superblock, &defaults.wishes.marks),
        descriptor_size: features
            .has(Feature::SIXTY_FOUR_BIT)
            .then_some(superblock.descriptor_size),
        copies: u8::try_from(copies).unwrap_or(2),
        cluster_size: features
            .has(Feature::BIGALLOC)
            .then_some(block_size << superblock.cluster_log2()),
        ..defaults.wishes.clone()
    };
    Ok(BuildOptions {
        wishes,
        uuid: Some(superblock.uuid),
        hash_seed: Some(superblock.hash_seed),
        size: ImageSize::Fixed(bytes),
        inodes: Some(Inodes::AtLeast(superblock.inodes_count.into())),
        journal,
        small_journal: SmallJournal::Omitted,
        flex_groups: FlexGroups::Given,
        map_blocks: MapBlocks::Beside,
        lost_and_found: LostFolder::Made,
        newest: Some(superblock.created_seconds.cast_signed()),
        // One that says of its last write that it was when it was made was built at a given time.
        dated_latest: (!is_dated(device, superblock)).then_some(DATED_LATEST),
        ..defaults
    })
}

/// The share that gives just as many reserved blocks.
// 48 bits fit an f64.
#[allow(clippy::cast_precision_loss)]
fn reserved_ratio(superblock: &Superblock) -> f64 {
    match superblock.reserved_blocks {
        0 => 0.0,
        blocks => ((blocks as f64 + 0.5) / superblock.blocks_count.max(1) as f64).min(0.5),
    }
}

/// The size that its reserved descriptors suffice for; `None` without such.
fn resize_to_blocks(superblock: &Superblock) -> Option<u64> {
    let reserved = u64::from(superblock.reserved_gdt_blocks);
    if reserved == 0 || !superblock.has(Feature::RESIZE_INODE) {
        return None;
    }
    let each = u64::from(superblock.block_size()) / u64::from(superblock.descriptor_size.max(32));
    let groups = (u64::from(superblock.descriptor_blocks()) + reserved).saturating_mul(each);
    Some(groups.saturating_mul(superblock.blocks_per_group.into()))
}

fn marks(superblock: &Superblock, defaults: &Marks) -> Marks {
    let periodic = superblock.max_mount_count > 0 || superblock.check_interval_seconds > 0;
    Marks {
        errors_behavior: superblock.errors_behavior,
        creator_os: superblock.creator_os,
        mount_options: superblock.default_mount_options,
        flags: superblock.flags() & superblock_flags::TEST_FILESYSTEM,
        revision: superblock.revision,
        checks: if periodic { Checks::Periodic } else { Checks::Asked },
        ..*defaults
    }
}

/// Gives a volume that was built like another what of its superblock nothing asks for: when it is
/// checked, and whose the reserved blocks are.
///
/// # Errors
/// The device's, or there is no volume on it.
pub fn carry(device: &dyn BlockDevice, from: &Superblock) -> Result<(), Error> {
    let failed = |error: extant_engine::Error| match error.kind {
        extant_engine::ErrorKind::Device(cause) => Error::io("the image", &cause),
        _ => Error::new(error.to_string()),
    };
    let mut superblock = extant_engine::read_superblock(device).map_err(failed)?;
    superblock.max_mount_count = from.max_mount_count;
    superblock.check_interval_seconds = from.check_interval_seconds;
    (superblock.default_uid, superblock.default_gid) = (from.default_uid, from.default_gid);
    superblock.set_mount_options(&from.mount_options());
    // tidy: writers because the volume is built, and nobody has it open
    let written = device.write(SUPERBLOCK_OFFSET, &superblock.encode());
    written.map_err(|error| Error::io("the image", &error))?;
    mkfs::renew_copies(device).map(drop).map_err(failed)
}

/// Whether a volume says of its last write, when it was made, that it was at its time of creation:
/// one that was built at a given time does. Mounts change the first superblock, and no copy.
fn is_dated(device: &dyn BlockDevice, superblock: &Superblock) -> bool {
    let copy = (1..superblock.group_count()).map(GroupNo).find(|it| superblock.has_super(*it));
    let copy = copy.and_then(|group| {
        let size = u64::from(superblock.block_size());
        let mut bytes = [0; SUPERBLOCK_SIZE];
        device.read(superblock.group_start(group).0.saturating_mul(size), &mut bytes).ok()?;
        Superblock::parse_any(&bytes).ok()
    });
    match copy {
        Some(copy) => copy.written_seconds == superblock.created_seconds,
        None => {
            superblock.mounted_seconds == 0
                && superblock.written_seconds == superblock.created_seconds
        }
    }
}

/// The size of a file by its number.
fn file_bytes(device: &dyn BlockDevice, superblock: &Superblock, ino: Ino) -> Result<u64, Error> {
    let failed = |error: io::Error| Error::new(error.to_string());
    let size = u64::from(superblock.block_size());
    let (block, offset) = superblock.descriptor_place(GroupNo(0));
    let mut bytes = vec![0; superblock.descriptor_size.into()];
    device.read(block.0.saturating_mul(size) + offset as u64, &mut bytes).map_err(failed)?;
    let descriptor = GroupDescriptor::decode(&bytes, superblock);
    let place = superblock.inode_place(ino, &descriptor);
    let (block, offset) = place.ok_or_else(|| Error::new(format!("has no inode {}", ino.0)))?;
    let mut bytes = vec![0; superblock.inode_size.into()];
    device.read(block.0.saturating_mul(size) + offset as u64, &mut bytes).map_err(failed)?;
    Ok(Inode::decode(&bytes, superblock).size)
}

/// What of a superblock has to stay, and has not.
pub(super) fn differing(before: &Superblock, after: &Superblock, size: Sized) -> Option<String> {
    let numbers = |of: &Superblock| {
        [
            ("size of blocks", of.block_size().into()),
            ("size of groups", of.blocks_per_group.into()),
            ("size of descriptors", of.descriptor_size.into()),
            ("size of inodes", of.inode_size.into()),
            ("size of clusters", of.cluster_log2().into()),
            ("time of creation", of.created_seconds),
            ("seed of checksums", of.checksum_seed.into()),
        ]
    };
    let of_size = |of: &Superblock| {
        [
            ("number of blocks", of.blocks_count),
            ("number of inodes", of.inodes_count.into()),
            ("number of reserved blocks", of.reserved_blocks),
            ("room for descriptors", of.reserved_gdt_blocks.into()),
            ("size of flex groups", of.log_groups_per_flex.into()),
        ]
    };
    let kept: Vec<_> = match size {
        Sized::AsBefore => of_size(before).into_iter().zip(of_size(after)).collect(),
        Sized::ToFit => Vec::new(),
    };
    let mut all = numbers(before).into_iter().zip(numbers(after)).chain(kept);
    if let Some(((what, old), (_, new))) = all.find(|(old, new)| old != new) {
        return Some(format!("{what} ({new}, not {old})"));
    }
    if (before.uuid, before.label, before.hash_seed) != (after.uuid, after.label, after.hash_seed)
        || before.hash_unsigned != after.hash_unsigned
    {
        return Some("identity".to_owned());
    }
    // These come and go with what is in a volume.
    let of_content = [Feature::LARGE_FILE, Feature::EXT_ATTR, Feature::DIR_NLINK];
    let named = |of: &Superblock| -> Vec<Feature> {
        let kept = of.features.iter();
        kept.filter(|one| !of_content.contains(one) && !OF_USE.contains(one)).collect()
    };
    let (old, new) = (named(before), named(after));
    let other =
        old.iter().find(|one| !new.contains(one)).or(new.iter().find(|it| !old.contains(it)));
    other.map(|one| format!("features ({})", one.name()))
}

/// Whether a volume that is built anew has the size of the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sized {
    AsBefore,
    ToFit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_gives_the_same_number_again() {
        let mut superblock =
            crate::assemble::sample::sample_superblock(&BuildOptions::new(Profile::Ext4).wishes);
        for blocks in [2000, 24_576, 1_000_003, 987_654_321_012] {
            superblock.blocks_count = blocks;
            for reserved in (1..300).chain([blocks / 20, blocks / 3, blocks / 2]) {
                superblock.reserved_blocks = reserved;
                let given = reserved_ratio(&superblock) * blocks as f64;
                assert_eq!(given as u64, reserved, "of {blocks}");
            }
        }
    }
}
