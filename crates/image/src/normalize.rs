//! A volume laid out anew: what is in it, as an archive has it, built with the options that the
//! volume has.
//!
//! *Invariants*: the new volume says the same of itself as the old one, but for what use has left
//! there, or it is refused.
use crate::assemble::{
    BuildOptions, Built, DATED_LATEST, Destination, FlexGroups, ImageSize, Job, LostFolder, Room,
    SmallJournal,
};
use crate::error::{Error, ErrorKind};
use crate::export::{ExportPlan, LeftOut, Omission, write};
use crate::notice::Notices;
use crate::progress::Progress;
use crate::source::{Containers, Holes, ReadOptions, Source, collect};
use extant_block::BlockDevice;
use extant_engine::Filesystem;
use extant_engine::mkfs::{JournalWish, Profile};
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::layout::{Inodes, Marks, Wishes};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{GroupNo, Ino};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Features that say what waits in a volume.
const OF_USE: [Feature; 2] = [Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT];

/// A volume that was laid out anew.
#[derive(Debug)]
pub struct Normalized {
    /// What was built.
    pub built: Built,
    /// Sockets, which no archive holds.
    pub sockets: Vec<String>,
    /// What the old volume said of itself and no build gives to a new one, a phrase each.
    pub unkept: Vec<&'static str>,
    /// What could not be kept, or may surprise.
    pub notices: Notices,
}

/// Where the content is kept until the new volume is written.
#[derive(Debug)]
pub struct Spool {
    /// An empty file, open for reading and writing.
    pub archive: File,
    /// A folder for other such files; that of the system if `None`.
    pub folder: Option<PathBuf>,
}

/// Builds a volume like one that is clean and open, with what is in it, from a byte of the
/// destination on. `device` has the bytes of the old one; `restart` makes the destination empty
/// again where the first attempt was not like it.
///
/// # Errors
/// What cannot be kept: a journal on another device, features that nothing here writes, blocks that
/// are marked as bad, a layout that no option asks for; what cannot be read; content that does not
/// fit when it is laid out anew; the destination, to which something may have been written then.
pub fn normalize(
    (device, filesystem): (&dyn BlockDevice, &Filesystem),
    spool: Spool,
    (destination, origin_bytes): (&Destination<'_>, u64),
    restart: &mut dyn FnMut() -> io::Result<()>,
    progress: &dyn Progress,
) -> Result<Normalized, Error> {
    let superblock = filesystem.superblock();
    let mut options = options_like(device, superblock)?;
    if filesystem.symlink_metadata("/lost+found").is_err() {
        options.lost_and_found = LostFolder::Omitted;
    }
    options.origin_bytes = origin_bytes;
    let Spool { mut archive, folder } = spool;
    let sockets = exported(filesystem, &mut archive)?;
    let read = ReadOptions {
        holes: Holes::Auto,
        block_bytes: superblock.block_size(),
        // An image of a container that is in the volume is a file like others.
        containers: Containers::Files,
        spool_folder: folder,
        ..ReadOptions::default()
    };
    let source = Source::Archive { file: archive, name: destination.name.clone() };
    let mut collected = collect([source], &read, &())?;
    let notices = std::mem::take(&mut collected.notices);
    let unkept = unkept(superblock);
    let fixed = Job::new(&collected, &options, destination)?.build(progress);
    let refused = match fixed.map(|built| (built, differing(superblock, destination, &options))) {
        Ok((built, Ok(None))) => return Ok(Normalized { built, sockets, unkept, notices }),
        Ok((_, Ok(Some(what)))) => unlike(&what),
        Ok((_, Err(error))) | Err(error) => error,
    };
    // One that was cut after its content may have a last group that no size asks for.
    let is_cut = superblock.free_blocks <= u64::from(superblock.blocks_per_group);
    let options = BuildOptions { size: ImageSize::Exact(Room::NONE), ..options };
    if !is_cut {
        return Err(refused);
    }
    restart().map_err(|error| Error::new(format!("{}: {error}", destination.name)))?;
    let again = Job::new(&collected, &options, destination)?.build(progress);
    match again.map(|built| (built, differing(superblock, destination, &options))) {
        Ok((built, Ok(None))) => Ok(Normalized { built, sockets, unkept, notices }),
        _ => Err(refused),
    }
}

/// What use or other programs have set that no build sets.
fn unkept(superblock: &Superblock) -> Vec<&'static str> {
    let checks = superblock.max_mount_count > 0 || superblock.check_interval_seconds > 0;
    let defaults = superblock.mount_options().iter().any(|byte| *byte != 0);
    let kept = [
        (checks, "when it is checked though nothing is wrong"),
        (defaults, "its mount options as text"),
    ];
    kept.into_iter().filter(|(is_set, _)| *is_set).map(|(_, what)| what).collect()
}

fn unlike(what: &str) -> Error {
    Error::new(format!(
        "a volume built anew would not have the same {what}: its layout is one that no option of \
         a build asks for"
    ))
}

/// Writes an archive of all that is in a volume; gives the sockets, which it cannot hold.
fn exported(filesystem: &Filesystem, archive: &mut File) -> Result<Vec<String>, Error> {
    let survey = filesystem.survey().map_err(|error| Error::new(error.to_string()))?;
    let mut plan = ExportPlan::new(Arc::new(survey), &[])?;
    let mut sockets = Vec::new();
    for omission in std::mem::take(&mut plan.omissions) {
        match omission {
            Omission::Socket(left_out) => sockets.push(left_out.path),
            Omission::Damaged(left_out) => {
                return Err(Error::new(left_out.to_string()).of(ErrorKind::LeftOut));
            }
        }
    }
    let mut lost: Option<LeftOut> = None;
    let mut output = BufWriter::with_capacity(1 << 20, &*archive);
    let mut stop = |left_out| {
        lost = Some(left_out);
        ControlFlow::Break(())
    };
    let written = write(&Arc::new(plan), &mut output, &(), &mut stop);
    if let Some(left_out) = lost {
        return Err(Error::new(left_out.to_string()).of(ErrorKind::LeftOut));
    }
    written?;
    let kept = output.flush();
    drop(output);
    let failed = |error| {
        Error::new(format!("the content cannot be kept aside: {error}")).of(ErrorKind::Spool)
    };
    kept.and_then(|()| archive.seek(SeekFrom::Start(0))).map_err(failed)?;
    Ok(sockets)
}

/// The options with which a volume like this one is built. `device` has its bytes.
///
/// # Errors
/// Its journal is on another device, or it has blocks that are marked as bad; its features are not
/// written here; the device's.
pub fn options_like(
    device: &dyn BlockDevice,
    superblock: &Superblock,
) -> Result<BuildOptions, Error> {
    let block_size = superblock.block_size();
    let mut features = superblock.features;
    OF_USE.into_iter().for_each(|feature| features.clear(feature));
    let has = |feature| features.has(feature);
    let journal = journal_like(device, superblock)?;
    if file_bytes(device, superblock, Ino::BAD_BLOCKS)? > 0 {
        return Err(Error::new("it has blocks that are marked as bad, which no build keeps free"));
    }
    let profile = match (has(Feature::EXTENTS), has(Feature::HAS_JOURNAL)) {
        (true, _) => Profile::Ext4,
        (false, true) => Profile::Ext3,
        (false, false) => Profile::Ext2,
    };
    let base = BuildOptions::new(profile);
    let copies = superblock.backup_groups().iter().filter(|group| group.0 > 0).count();
    let defaults = Marks::default();
    let wishes = Wishes {
        block_size,
        blocks: 0,
        features,
        inode_size: superblock.inode_size,
        inodes: Inodes::AtLeast(superblock.inodes_count.into()),
        reserved_ratio: reserved_ratio(superblock),
        flex_groups: 1 << superblock.log_groups_per_flex.min(31),
        blocks_per_group: Some(superblock.bits_per_group()),
        resize_to_blocks: resize_to(superblock),
        uuid: superblock.uuid,
        hash_seed: superblock.hash_seed,
        hash_version: superblock.hash_version,
        label: superblock.label,
        created_seconds: superblock.created_seconds,
        stride: superblock.raid_stride,
        stripe_width: superblock.raid_stripe_width,
        marks: Marks {
            errors_behavior: superblock.errors_behavior,
            creator_os: superblock.creator_os,
            mount_options: superblock.default_mount_options,
            revision: superblock.revision,
            ..defaults
        },
        descriptor_size: has(Feature::SIXTY_FOUR_BIT).then_some(superblock.descriptor_size),
        copies: u8::try_from(copies).unwrap_or(2),
        cluster_size: has(Feature::BIGALLOC).then(|| block_size << superblock.cluster_log2()),
        ..base.wishes.clone()
    };
    let is_dated = is_dated(device, superblock);
    Ok(BuildOptions {
        wishes,
        uuid: Some(superblock.uuid),
        hash_seed: Some(superblock.hash_seed),
        size: ImageSize::Fixed(superblock.blocks_count.saturating_mul(block_size.into())),
        inodes: Some(Inodes::AtLeast(superblock.inodes_count.into())),
        journal,
        small_journal: SmallJournal::Omitted,
        flex_groups: FlexGroups::Given,
        newest: Some(i64::try_from(superblock.created_seconds).unwrap_or(i64::MAX)),
        // One that says of its last write that it was when it was made was built at a given time.
        dated_latest: (!is_dated).then_some(DATED_LATEST),
        ..base
    })
}

/// The journal of a volume like this one.
fn journal_like(device: &dyn BlockDevice, superblock: &Superblock) -> Result<JournalWish, Error> {
    match (superblock.has(Feature::HAS_JOURNAL), superblock.journal_inode) {
        (false, _) => Ok(JournalWish::None),
        (true, 0) => Err(Error::new("its journal is on another device, which no build gives it")),
        (true, number) => {
            let bytes = file_bytes(device, superblock, Ino(number))?;
            let blocks = bytes / u64::from(superblock.block_size());
            Ok(JournalWish::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX)))
        }
    }
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

/// The share of all blocks of which those kept for root are the whole part.
// 48 bits fit an f64.
#[allow(clippy::cast_precision_loss)]
fn reserved_ratio(superblock: &Superblock) -> f64 {
    match superblock.reserved_blocks {
        0 => 0.0,
        blocks => ((blocks as f64 + 0.5) / superblock.blocks_count.max(1) as f64).min(0.5),
    }
}

/// How far the volume may grow into the blocks that it keeps for descriptors; `None` without such.
fn resize_to(superblock: &Superblock) -> Option<u64> {
    let blocks = u64::from(superblock.reserved_gdt_blocks);
    if blocks == 0 || !superblock.has(Feature::RESIZE_INODE) {
        return None;
    }
    let each = u64::from(superblock.block_size()) / u64::from(superblock.descriptor_size.max(1));
    let groups = (u64::from(superblock.descriptor_blocks()) + blocks).saturating_mul(each);
    // What is asked for is counted as if the first group began with block 0.
    Some(groups.saturating_mul(superblock.blocks_per_group.into()))
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

/// What a new volume says otherwise of itself than the one before.
fn differing(
    before: &Superblock,
    destination: &Destination<'_>,
    options: &BuildOptions,
) -> Result<Option<String>, Error> {
    let failed = |error: io::Error| {
        Error::new(format!("{}: {error}", destination.name)).of(ErrorKind::Write(error))
    };
    let clock: Arc<dyn extant_block::Clock> = extant_block::RealClock::new();
    let origin = options.origin_bytes;
    let bytes = SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64;
    let device = destination.medium.device(&clock, &destination.name, origin, bytes);
    let mut raw = [0; SUPERBLOCK_SIZE];
    device.and_then(|device| device.read(SUPERBLOCK_OFFSET, &mut raw)).map_err(failed)?;
    let after = Superblock::parse(&raw).map_err(|error| Error::new(error.to_string()))?;
    let numbers = |of: &Superblock| {
        [
            ("number of blocks", of.blocks_count),
            ("number of inodes", of.inodes_count.into()),
            ("size of groups", of.blocks_per_group.into()),
            ("number of reserved blocks", of.reserved_blocks),
            ("room for descriptors", of.reserved_gdt_blocks.into()),
            ("size of descriptors", of.descriptor_size.into()),
            ("size of inodes", of.inode_size.into()),
            ("size of clusters", of.cluster_log2().into()),
            ("size of flex groups", of.log_groups_per_flex.into()),
            ("time of creation", of.created_seconds),
            ("seed of checksums", of.checksum_seed.into()),
        ]
    };
    let other = numbers(before).into_iter().zip(numbers(&after)).find(|(old, new)| old != new);
    if let Some(((what, old), (_, new))) = other {
        return Ok(Some(format!("{what} ({new}, not {old})")));
    }
    // These come and go with what is in a volume.
    let of_content = [Feature::LARGE_FILE, Feature::EXT_ATTR, Feature::DIR_NLINK];
    let named = |of: &Superblock| {
        let kept = of.features.iter();
        kept.filter(|one| !of_content.contains(one) && !OF_USE.contains(one)).collect::<Vec<_>>()
    };
    let (old, new) = (named(before), named(&after));
    let other =
        old.iter().find(|one| !new.contains(one)).or(new.iter().find(|it| !old.contains(it)));
    Ok(other.map(|one| format!("features ({})", one.name())))
}
