//! Facts of the whole volume: all that dumpe2fs tells of superblock and journal, as data.
use crate::date::Date;
use crate::error::Error;
use crate::fields::{self, ErrorPlace, Fields};
use crate::map;
use crate::volume::{SPARSE_SUPER_2, Volume};
use extant_format::superblock::{Feature, HashVersion, Superblock};
use extant_format::{FileBlock, Ino};
use serde::Serialize;

const MMP: Feature = Feature::Incompat(0x100);
const CASEFOLD: Feature = Feature::Incompat(0x20000);

/// All that the superblock and the journal's superblock say. `None` where the volume has no such
/// thing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[allow(missing_docs)] // names as dumpe2fs has them; what they hide is said
pub struct VolumeInfo {
    pub label: Option<String>,
    /// The directory on which it was mounted last.
    pub last_mounted: Option<String>,
    pub uuid: String,
    pub revision: u32,
    pub features: Vec<String>,
    /// Those of `features` that are neither read nor written here.
    pub unsupported_features: Vec<String>,
    pub flags: Vec<&'static str>,
    pub default_mount_options: Vec<String>,
    pub mount_options: Option<String>,
    pub state: &'static str,
    pub errors_behavior: &'static str,
    pub os: String,
    pub inodes: u32,
    pub blocks: u64,
    pub reserved_blocks: u64,
    /// Blocks that no file can use, where somebody has counted them.
    pub overhead_blocks: Option<u32>,
    pub free_blocks: u64,
    pub free_inodes: u32,
    pub first_block: u32,
    pub block_size: u32,
    pub cluster_size: Option<u64>,
    pub descriptor_size: Option<u16>,
    pub first_meta_group: Option<u32>,
    pub reserved_descriptor_blocks: u16,
    pub groups: u32,
    pub blocks_per_group: u32,
    pub clusters_per_group: Option<u32>,
    pub inodes_per_group: u32,
    pub inode_blocks_per_group: u32,
    pub raid_stride: Option<u16>,
    pub raid_stripe_width: Option<u32>,
    /// Groups of a flex group.
    pub flex_groups: Option<u64>,
    pub created: Option<Date>,
    pub mounted: Option<Date>,
    pub written: Option<Date>,
    pub mount_count: u16,
    pub max_mount_count: i16,
    pub checked: Option<Date>,
    pub check_interval_seconds: u32,
    pub lifetime_writes_kib: Option<u64>,
    pub reserved_blocks_uid: u16,
    pub reserved_blocks_gid: u16,
    pub first_inode: u32,
    pub inode_size: u16,
    pub required_extra_isize: Option<u16>,
    pub desired_extra_isize: Option<u16>,
    pub journal_uuid: Option<String>,
    pub journal_inode: Option<u32>,
    pub journal_device: Option<u32>,
    pub first_orphan: Option<u32>,
    pub directory_hash: Option<&'static str>,
    pub directory_hash_seed: Option<String>,
    pub journal_backup: Option<&'static str>,
    pub errors: Option<ErrorRecord>,
    pub mmp_block: Option<u64>,
    pub mmp_interval_seconds: Option<u16>,
    pub user_quota_inode: Option<u32>,
    pub group_quota_inode: Option<u32>,
    pub project_quota_inode: Option<u32>,
    pub checksum_type: Option<String>,
    pub checksum: Option<u32>,
    pub checksum_seed: Option<u32>,
    pub encoding: Option<String>,
    pub orphan_file_inode: Option<u32>,
    /// The groups with copies, with sparse_super2.
    pub backup_groups: Option<Vec<u32>>,
    pub journal: Option<JournalInfo>,
    /// The block whose superblock this is.
    pub superblock_block: u64,
    /// The group that the superblock says it stands in.
    pub superblock_group: u16,
    /// What is wrong with superblock or journal: sentences.
    pub problems: Vec<String>,
}

/// What the kernel has recorded of errors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ErrorRecord {
    /// How many.
    pub count: u32,
    /// The first, if it has a time.
    pub first: Option<RecordedError>,
    /// The last.
    pub last: Option<RecordedError>,
}

/// One recorded error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RecordedError {
    /// When.
    pub time: Date,
    /// The kernel's function.
    pub function: String,
    /// The line there.
    pub line: u32,
    /// The number of the error, in the superblock's own code; 0 where none was kept.
    pub code: u8,
    /// The inode, or 0.
    pub inode: u32,
    /// The block, or 0.
    pub block: u64,
}

/// What the journal's superblock says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JournalInfo {
    /// Names as dumpe2fs prints them.
    pub features: Vec<String>,
    /// Bytes of the journal's inode.
    pub bytes: u64,
    /// Blocks of the journal.
    pub blocks: u32,
    /// Bytes of its blocks.
    pub block_size: u32,
    /// The first block of the log.
    pub first: u32,
    /// Blocks kept for fast commits.
    pub fast_commit_blocks: u32,
    /// The first commit that is expected in the log.
    pub sequence: u32,
    /// Where the log begins; 0 when it is empty.
    pub start: u32,
    /// The error that stopped the journal; 0 for none.
    pub error: i32,
    /// How many file systems use it.
    pub users: u32,
    /// With checksums: their kind.
    pub checksum_type: Option<String>,
    /// With checksums: that of the journal's superblock.
    pub checksum: Option<u32>,
}

impl Volume {
    /// The facts. What cannot be read of the journal becomes a problem.
    pub fn info(&self) -> VolumeInfo {
        let superblock = self.superblock();
        let fields = self.fields();
        let mut problems = self.problems().to_vec();
        let journal = match self.journal_info() {
            Ok(journal) => journal,
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        VolumeInfo {
            journal,
            problems,
            superblock_block: self.superblock_block(),
            cluster_size: (self.cluster_blocks() > 1)
                .then(|| u64::from(self.cluster_blocks()) * u64::from(superblock.block_size())),
            clusters_per_group: (self.cluster_blocks() > 1)
                .then(|| fields.u32(fields::CLUSTERS_PER_GROUP)),
            first_meta_group: self.has_meta_groups().then(|| fields.u32(fields::FIRST_META_GROUP)),
            ..superblock_info(superblock, &fields)
        }
    }

    /// `None` without an internal journal.
    fn journal_info(&self) -> Result<Option<JournalInfo>, String> {
        let ino = Ino(self.superblock().journal_inode);
        if !self.superblock().has(Feature::HAS_JOURNAL) || ino.0 == 0 {
            return Ok(None);
        }
        let read = || -> Result<Option<(u64, Vec<u8>)>, Error> {
            let inode = self.inode(ino)?;
            let Some(block) = map::block_at(self, &inode, FileBlock(0))? else {
                return Ok(None);
            };
            Ok(Some((inode.size, self.block("journal", block)?)))
        };
        let (bytes, block) = read()
            .map_err(|error| format!("journal: {error}"))?
            .ok_or("journal: it has no blocks")?;
        parse_journal(bytes, &block).map(Some)
    }
}

/// What the superblock itself says.
fn superblock_info(superblock: &Superblock, fields: &Fields<'_>) -> VolumeInfo {
    VolumeInfo {
        label: words(&superblock.label),
        last_mounted: words(&superblock.last_mounted),
        uuid: uuid(&superblock.uuid),
        revision: superblock.revision,
        features: superblock.features.iter().map(Feature::name).collect(),
        unsupported_features: superblock.features.unsupported(),
        flags: flag_names(superblock.flags()),
        default_mount_options: mount_option_names(superblock.default_mount_options),
        mount_options: words(&superblock.mount_options()),
        state: state_name(superblock.state),
        errors_behavior: behavior_name(superblock.errors_behavior),
        os: os_name(superblock.creator_os),
        inodes: superblock.inodes_count,
        blocks: superblock.blocks_count,
        reserved_blocks: superblock.reserved_blocks,
        overhead_blocks: some_u32(superblock.overhead_clusters()),
        free_blocks: superblock.free_blocks,
        free_inodes: superblock.free_inodes,
        superblock_group: superblock.group_number,
        ..geometry_info(superblock, fields)
    }
}

fn geometry_info(superblock: &Superblock, fields: &Fields<'_>) -> VolumeInfo {
    VolumeInfo {
        first_block: superblock.first_data_block,
        block_size: superblock.block_size(),
        descriptor_size: superblock
            .has(Feature::SIXTY_FOUR_BIT)
            .then_some(superblock.descriptor_size),
        reserved_descriptor_blocks: superblock.reserved_gdt_blocks,
        groups: superblock.group_count(),
        blocks_per_group: superblock.blocks_per_group,
        inodes_per_group: superblock.inodes_per_group,
        inode_blocks_per_group: superblock.inode_table_blocks(),
        raid_stride: Some(superblock.raid_stride).filter(|stride| *stride != 0),
        raid_stripe_width: some_u32(superblock.raid_stripe_width),
        flex_groups: superblock
            .has(Feature::FLEX_BG)
            .then(|| 1 << superblock.log_groups_per_flex.min(63)),
        ..history_info(superblock, fields)
    }
}

fn history_info(superblock: &Superblock, fields: &Fields<'_>) -> VolumeInfo {
    VolumeInfo {
        created: date(superblock.created_seconds),
        mounted: date(superblock.mounted_seconds),
        written: date(superblock.written_seconds),
        mount_count: superblock.mount_count,
        max_mount_count: superblock.max_mount_count,
        checked: date(superblock.checked_seconds),
        check_interval_seconds: superblock.check_interval_seconds,
        lifetime_writes_kib: Some(superblock.kbytes_written).filter(|written| *written != 0),
        reserved_blocks_uid: superblock.default_uid,
        reserved_blocks_gid: superblock.default_gid,
        first_inode: superblock.first_inode,
        inode_size: superblock.inode_size,
        required_extra_isize: Some(superblock.min_extra_isize).filter(|size| *size != 0),
        desired_extra_isize: Some(superblock.want_extra_isize).filter(|size| *size != 0),
        errors: error_record(fields),
        ..feature_info(superblock, fields)
    }
}

/// What is there only with a feature.
fn feature_info(superblock: &Superblock, fields: &Fields<'_>) -> VolumeInfo {
    let hashed = superblock.has(Feature::DIR_INDEX) || superblock.hash_seed != [0; 4];
    let checksummed = superblock.has(Feature::METADATA_CSUM);
    VolumeInfo {
        journal_uuid: Some(superblock.journal_uuid())
            .filter(|bytes| *bytes != [0; 16])
            .map(|bytes| uuid(&bytes)),
        journal_inode: some_u32(superblock.journal_inode),
        journal_device: some_u32(superblock.journal_device()),
        first_orphan: some_u32(superblock.last_orphan),
        directory_hash: hashed.then(|| hash_name(superblock.hash_version)),
        directory_hash_seed: hashed.then(|| uuid(&seed_bytes(superblock.hash_seed))),
        journal_backup: (superblock.journal_backup_type == 1).then_some("inode blocks"),
        mmp_block: superblock.has(MMP).then(|| fields.u64(fields::MMP_BLOCK)),
        mmp_interval_seconds: superblock.has(MMP).then(|| fields.u16(fields::MMP_INTERVAL)),
        user_quota_inode: some_u32(fields.u32(fields::USER_QUOTA_INODE)),
        group_quota_inode: some_u32(fields.u32(fields::GROUP_QUOTA_INODE)),
        project_quota_inode: some_u32(fields.u32(fields::PROJECT_QUOTA_INODE)),
        checksum_type: checksummed.then(|| checksum_name(superblock.checksum_type())),
        checksum: checksummed.then(|| fields.u32(fields::CHECKSUM)),
        checksum_seed: superblock.has(Feature::CSUM_SEED).then_some(superblock.checksum_seed),
        encoding: superblock.has(CASEFOLD).then(|| encoding_name(fields.u16(fields::ENCODING))),
        orphan_file_inode: superblock
            .has(Feature::ORPHAN_FILE)
            .then_some(superblock.orphan_file_inode),
        backup_groups: superblock.has(SPARSE_SUPER_2).then(|| fields.backup_groups().to_vec()),
        ..VolumeInfo::default()
    }
}

fn some_u32(value: u32) -> Option<u32> {
    Some(value).filter(|value| *value != 0)
}

fn date(seconds: u64) -> Option<Date> {
    Some(Date(seconds)).filter(|date| date.0 != 0)
}

fn words(bytes: &[u8]) -> Option<String> {
    Some(fields::text(bytes)).filter(|text| !text.is_empty())
}

/// A UUID in the usual form: 8-4-4-4-12 digits.
pub fn uuid(bytes: &[u8; 16]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.concat();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

fn seed_bytes(seed: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(seed) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn flag_names(flags: u32) -> Vec<&'static str> {
    let names =
        [(1, "signed_directory_hash"), (2, "unsigned_directory_hash"), (4, "test_filesystem")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}

fn mount_option_names(options: u32) -> Vec<String> {
    let names = [
        (0x1, "debug"),
        (0x2, "bsdgroups"),
        (0x4, "user_xattr"),
        (0x8, "acl"),
        (0x10, "uid16"),
        (0x100, "nobarrier"),
        (0x200, "block_validity"),
        (0x400, "discard"),
        (0x800, "nodelalloc"),
    ];
    let journal = match options & 0x60 {
        0x20 => Some("journal_data"),
        0x40 => Some("journal_data_ordered"),
        0x60 => Some("journal_data_writeback"),
        _ => None,
    };
    let set = names.iter().filter(|(bit, _)| options & bit != 0).map(|(_, name)| *name);
    journal.into_iter().chain(set).map(str::to_owned).collect()
}

fn state_name(state: u16) -> &'static str {
    match (state & 1 != 0, state & 2 != 0) {
        (true, false) => "clean",
        (true, true) => "clean with errors",
        (false, false) => "not clean",
        (false, true) => "not clean with errors",
    }
}

fn behavior_name(behavior: u16) -> &'static str {
    match behavior {
        1 => "Continue",
        2 => "Remount read-only",
        3 => "Panic",
        _ => "Unknown (continue)",
    }
}

fn os_name(os: u32) -> String {
    let names = ["Linux", "Hurd", "Masix", "FreeBSD", "Lites"];
    let name = usize::try_from(os).ok().and_then(|os| names.get(os));
    name.map_or_else(|| format!("unknown ({os})"), |name| (*name).to_owned())
}

fn hash_name(version: HashVersion) -> &'static str {
    match version {
        HashVersion::Legacy => "legacy",
        HashVersion::HalfMd4 => "half_md4",
        HashVersion::Tea => "tea",
    }
}

fn checksum_name(kind: u8) -> String {
    if kind == 1 { "crc32c".to_owned() } else { format!("unknown ({kind})") }
}

fn encoding_name(encoding: u16) -> String {
    if encoding == 1 { "utf8-12.1".to_owned() } else { format!("unknown ({encoding})") }
}

fn error_record(fields: &Fields<'_>) -> Option<ErrorRecord> {
    let count = fields.u32(fields::ERROR_COUNT);
    let recorded = |place: &ErrorPlace| {
        let time = u64::from(fields.u8(place.time_high)) << 32 | u64::from(fields.u32(place.time));
        (time != 0).then(|| RecordedError {
            time: Date(time),
            function: fields.text(place.function),
            line: fields.u32(place.line),
            code: fields.u8(place.code),
            inode: fields.u32(place.ino),
            block: fields.u64(place.block),
        })
    };
    (count != 0).then(|| ErrorRecord {
        count,
        first: recorded(&fields::FIRST_ERROR),
        last: recorded(&fields::LAST_ERROR),
    })
}

const JOURNAL_MAGIC: u32 = 0xc03b_3998;

fn parse_journal(bytes: u64, block: &[u8]) -> Result<JournalInfo, String> {
    let word = |offset: usize| {
        let word = block.get(offset..).and_then(|rest| rest.first_chunk::<4>());
        word.copied().map_or(0, u32::from_be_bytes)
    };
    if word(0) != JOURNAL_MAGIC {
        return Err(format!("journal: no magic number (found {:#x})", word(0)));
    }
    let second_version = word(4) == 4;
    if !second_version && word(4) != 3 {
        return Err(format!(
            "journal: a block of type {} stands in place of its superblock",
            word(4)
        ));
    }
    let features = |at: usize, names: &[&str], class: char| -> Vec<String> {
        let set = if second_version { word(at) } else { 0 };
        let bits = (0..32_usize).filter(|bit| set >> bit & 1 == 1);
        let name = |bit: usize| {
            names
                .get(bit)
                .map_or_else(|| format!("FEATURE_{class}{bit}"), |name| (*name).to_owned())
        };
        bits.map(name).collect()
    };
    let incompat = [
        "journal_incompat_revoke",
        "journal_64bit",
        "journal_async_commit",
        "journal_checksum_v2",
        "journal_checksum_v3",
        "fast_commit",
    ];
    let mut names = features(0x24, &["journal_checksum"], 'C');
    names.extend(features(0x28, &incompat, 'I'));
    names.extend(features(0x2c, &[], 'R'));
    let checksummed = names.iter().any(|name| name.starts_with("journal_checksum_v"));
    Ok(JournalInfo {
        checksum_type: checksummed.then(|| journal_checksum_name(word(0x50) >> 24)),
        checksum: checksummed.then(|| word(0xfc)),
        features: names,
        bytes,
        blocks: word(0x10),
        block_size: word(0x0c),
        first: word(0x14),
        fast_commit_blocks: if second_version { word(0x54) } else { 0 },
        sequence: word(0x18),
        start: word(0x1c),
        error: word(0x20).cast_signed(),
        users: if second_version { word(0x40) } else { 1 },
    })
}

fn journal_checksum_name(kind: u32) -> String {
    match kind {
        1 => "crc32".to_owned(),
        4 => "crc32c".to_owned(),
        other => format!("unknown ({other})"),
    }
}
