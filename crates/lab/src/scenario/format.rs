//! The volume of a `[[filesystem]]`, as mke2fs makes it: of today, or of the preset's time. Ageing
//! has the same.
//!
//! The preset that a file names says of which time its system is. Systems of the past worked on
//! volumes that the mke2fs of their time had made: ext2 and ext3 with inodes of 128 bytes, one for
//! 8,192 bytes of the volume, and none of the features that were still to come. A key of the file
//! comes before that. A preset that a run takes in place of the file's works on the same volume.
use crate::fields::{self, Result};
use extant_engine::mkfs::{self, FormatOptions, Identity, JournalWish, Profile, default_wishes};
use extant_format::layout::{Inodes, Wishes};
use extant_format::superblock::{Feature, Features, HashVersion};
use extant_sim::drive::file::Section;
use extant_sim::random::Random;

/// When volumes are made, unless the file says otherwise: the first second of 2001.
const CREATED_SECONDS: u64 = 978_307_200;
/// Size of an inode before mke2fs 1.41 (2008).
const INODE_SIZE_THEN: u16 = 128;
/// How much of a volume has one inode, from 512 MiB on: before 1.41, and since.
const BYTES_PER_INODE_THEN: u64 = 8192;
const BYTES_PER_INODE_NOW: u64 = 16384;
/// The features of ext2 in 2001. The volume of the post of 2010 has no others.
const FEATURES_OF_2001: &[Feature] = &[Feature::FILETYPE, Feature::SPARSE_SUPER];
/// Presets of systems from before 1.41, by the beginning of their names, and their features;
/// `None` for the profile's.
const PAST: [(&str, Option<&[Feature]>); 3] = [
    ("linux-2.4", Some(FEATURES_OF_2001)),
    ("linux-2.6", None),
    ("freebsd-", Some(FEATURES_OF_2001)),
];

/// Makes the wishes for a volume those of the time of this preset's system.
pub(crate) fn of_its_time(wishes: &mut Wishes, profile: Profile, preset: &str) {
    let past = PAST.iter().find(|(begins, _)| preset.starts_with(begins));
    let Some((_, features)) = past.filter(|_| profile != Profile::Ext4) else { return };
    wishes.inode_size = INODE_SIZE_THEN;
    if wishes.inodes == Inodes::BytesPerInode(BYTES_PER_INODE_NOW) {
        wishes.inodes = Inodes::BytesPerInode(BYTES_PER_INODE_THEN);
    }
    if let Some(features) = features {
        let has_journal = wishes.features.has(Feature::HAS_JOURNAL);
        wishes.features = Features::default();
        features.iter().for_each(|feature| wishes.features.set(*feature));
        if has_journal {
            wishes.features.set(Feature::HAS_JOURNAL);
        }
    }
}

/// The volume of this name, of at most `room` bytes.
pub(super) fn parse_format(
    table: &mut Section<'_>,
    name: &str,
    preset: &str,
    room: u64,
    seed: u64,
) -> Result<FormatOptions> {
    let profiles = [("ext2", Profile::Ext2), ("ext3", Profile::Ext3), ("ext4", Profile::Ext4)];
    let profile = table.choice("profile", &profiles, Profile::Ext4)?;
    let bytes = fields::size(table, "size", 1..=crate::quantity::SIZE_MAX)?.unwrap_or(room);
    if bytes > room {
        return Err(table.error(
            "size",
            format!("{bytes} bytes do not fit in the {room} bytes that the drive has there"),
        ));
    }
    let block_size = fields::size(table, "block_size", 1024..=65536)?.map(|size| size as u32);
    let mut wishes = default_wishes(profile, bytes, block_size, identity(seed, name));
    of_its_time(&mut wishes, profile, preset);
    parse_wishes(table, &mut wishes)?;
    let journal = parse_journal(table)?;
    if journal == Some(JournalWish::Default) {
        // As `mke2fs -j` does, whatever the profile is.
        wishes.features.set(Feature::HAS_JOURNAL);
    }
    let mut options = FormatOptions::new(wishes);
    options.journal = journal.unwrap_or(JournalWish::Default);
    let planned = mkfs::plan(&options).map_err(|error| table.error("size", error.to_string()))?;
    match (journal, planned.1) {
        (Some(JournalWish::Default), 0) => {
            Err(table.error("journal", "the volume is too small for one"))
        }
        _ => Ok(options),
    }
}

/// What a volume of this name is told by: the scenario's seed decides it.
pub(super) fn identity(seed: u64, name: &str) -> Identity {
    let mut random = Random::for_part(seed, name);
    let mut uuid = [0; 16];
    for piece in uuid.chunks_mut(8) {
        piece.copy_from_slice(&random.next_u64().to_be_bytes());
    }
    // A random UUID of RFC 4122.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    let hash_seed = std::array::from_fn(|_| random.next_u64() as u32);
    Identity { uuid, hash_seed, created_seconds: CREATED_SECONDS }
}

fn parse_wishes(table: &mut Section<'_>, wishes: &mut Wishes) -> Result<()> {
    parse_features(table, &mut wishes.features)?;
    if let Some(size) = fields::size(table, "inode_size", 128..=65536)? {
        wishes.inode_size = size as u16;
    }
    if let Some(blocks) = fields::count(table, "blocks", 1..=1 << 48)? {
        wishes.blocks = wishes.blocks.min(blocks);
    }
    wishes.blocks_per_group =
        fields::count(table, "blocks_per_group", 256..=65528)?.map(|blocks| blocks as u32);
    let per_group = fields::count(table, "inodes_per_group", 8..=1 << 24)?;
    let ratio = fields::size(table, "bytes_per_inode", 1024..=64 << 20)?;
    let inodes = fields::count(table, "inodes", 16..=u32::MAX.into())?;
    let blocks_per_group = wishes.blocks_per_group.unwrap_or((8 * wishes.block_size).min(65528));
    let groups = wishes.blocks.div_ceil(blocks_per_group.into());
    wishes.inodes = match (per_group, ratio, inodes) {
        (None, None, None) => wishes.inodes,
        (Some(inodes), None, None) => Inodes::AtLeast(inodes.saturating_mul(groups)),
        (None, Some(bytes), None) => Inodes::BytesPerInode(bytes),
        (None, None, Some(inodes)) => Inodes::AtLeast(inodes),
        _ => {
            return Err(table.error(
                "inodes",
                "only one of inodes, inodes_per_group and bytes_per_inode can be given",
            ));
        }
    };
    if let Some(reserved) = table
        .has("reserved_percent")
        .then(|| table.decimal_within("reserved_percent", 3, 0..=50_000, None))
    {
        wishes.reserved_ratio = reserved? as f64 / 100_000.0;
    }
    let flexible =
        table.whole_within("flex_groups", 1..=1 << 16, Some(wishes.flex_groups.into()))?;
    wishes.flex_groups = flexible as u32;
    let hashes = [
        ("legacy", HashVersion::Legacy),
        ("half_md4", HashVersion::HalfMd4),
        ("tea", HashVersion::Tea),
    ];
    wishes.hash_version = table.choice("hash", &hashes, wishes.hash_version)?;
    Ok(())
}

/// `features = ["^resize_inode", "dir_index"]`, as `mke2fs -O`; `none` first takes all away.
fn parse_features(table: &mut Section<'_>, features: &mut Features) -> Result<()> {
    for word in fields::words(table, "features")? {
        if word == "none" {
            *features = Features::default();
            continue;
        }
        let name = word.strip_prefix('^').unwrap_or(&word);
        let feature = Feature::from_name(name).filter(|feature| feature.is_made());
        let feature = feature.ok_or_else(|| {
            table.error("features", format!("unknown or unsupported feature {name:?}"))
        })?;
        match word.starts_with('^') {
            true => features.clear(feature),
            false => features.set(feature),
        }
    }
    Ok(())
}

/// `journal`; `None` where the file leaves it to the profile.
fn parse_journal(table: &mut Section<'_>) -> Result<Option<JournalWish>> {
    match table.optional_text("journal")? {
        None => Ok(None),
        Some("default") => Ok(Some(JournalWish::Default)),
        Some("none") => Ok(Some(JournalWish::None)),
        Some(blocks) => match blocks.parse() {
            Ok(blocks) => Ok(Some(JournalWish::Blocks(blocks))),
            Err(_) => Err(table.error(
                "journal",
                "has to be \"default\", \"none\", or a number of blocks as a string",
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_engine::preset::{PRESETS, source};

    #[test]
    fn each_preset_of_the_past_has_volumes_of_its_time() {
        for preset in PRESETS {
            let is_past = source(preset.name, "placement").is_some();
            assert_eq!(PAST.iter().any(|(name, _)| preset.name.starts_with(name)), is_past);
            for profile in [Profile::Ext2, Profile::Ext3, Profile::Ext4] {
                let mut wishes = default_wishes(profile, 1 << 30, None, Identity::NONE);
                let today = wishes.clone();
                of_its_time(&mut wishes, profile, preset.name);
                let is_changed = is_past && profile != Profile::Ext4;
                assert_eq!(wishes.inode_size, if is_changed { 128 } else { 256 });
                assert_eq!(wishes.inodes != today.inodes, is_changed);
                let journal = Feature::HAS_JOURNAL;
                assert_eq!(wishes.features.has(journal), today.features.has(journal));
            }
        }
    }
}
