//! Facts of the whole volume: all that dumpe2fs shows of superblock and journal, as data.
use crate::date::Date;
use crate::error::Error;
use crate::map;
use crate::volume::Volume;
use extant_format::journal::{self, StoredJournal};
use extant_format::superblock::{
    CHECKSUM_CRC32C, CREATOR_NAMES, ENCODING_UTF8, Feature, HashVersion, JOURNAL_BACKUP_BLOCKS,
    SUPERBLOCK_SIZE, StoredError, StoredSuperblock, Superblock, mount_option, on_error, state,
    superblock_flags,
};
use extant_format::{FileBlock, GroupNo, Ino};
use serde::Serialize;

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
    /// Those of `features` that are not read here.
    pub unread_features: Vec<String>,
    /// Those of `features` that are not written here: the volume is opened read-only.
    pub unwritten_features: Vec<String>,
    pub flags: Vec<&'static str>,
    pub default_mount_options: Vec<String>,
    pub mount_options: Option<String>,
    pub state: &'static str,
    pub errors_behavior: &'static str,
    pub os: String,
    pub inodes: u32,
    pub blocks: u64,
    pub reserved_blocks: u64,
    /// Blocks that no file can use, where they were counted.
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
    /// The group that the superblock says it is in.
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
    /// Their UUIDs, which the journal of a device has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_ids: Vec<String>,
    /// With checksums: their kind.
    pub checksum_type: Option<String>,
    /// With checksums: that of the journal's superblock.
    pub checksum: Option<u32>,
}

impl Volume {
    /// The facts. What cannot be read of the journal becomes a problem.
    pub fn info(&self) -> VolumeInfo {
        let superblock = self.superblock();
        let stored = self.stored();
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
            clusters_per_group: (self.cluster_blocks() > 1).then(|| stored.clusters_per_group()),
            first_meta_group: self.has_meta_groups().then(|| stored.first_meta_group()),
            ..superblock_info(superblock, stored)
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

/// What a device says that is the journal of another volume, by its superblock and the start of its
/// journal.
pub(crate) fn of_journal_device(
    superblock: &Superblock,
    bytes: &[u8; SUPERBLOCK_SIZE],
    journal: Option<&[u8]>,
) -> VolumeInfo {
    let length = superblock.blocks_count.saturating_mul(superblock.block_size().into());
    let none = || Err("journal: no superblock of a journal is there".to_owned());
    let (journal, problems) = match journal.map_or_else(none, |block| parse_journal(length, block))
    {
        Ok(journal) => (Some(journal), Vec::new()),
        Err(problem) => (None, vec![problem]),
    };
    VolumeInfo {
        journal,
        problems,
        superblock_block: superblock.primary_block().0,
        // It has blocks of a journal, in no group.
        groups: 0,
        ..superblock_info(superblock, StoredSuperblock::new(bytes))
    }
}

/// What the superblock itself says.
fn superblock_info(superblock: &Superblock, stored: StoredSuperblock<'_>) -> VolumeInfo {
    VolumeInfo {
        label: words(&superblock.label),
        last_mounted: words(&superblock.last_mounted),
        uuid: uuid(&superblock.uuid),
        revision: superblock.revision,
        features: superblock.features.iter().map(Feature::name).collect(),
        unread_features: superblock.features.unread(),
        unwritten_features: superblock.features.unwritten(),
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
        ..geometry_info(superblock, stored)
    }
}

fn geometry_info(superblock: &Superblock, stored: StoredSuperblock<'_>) -> VolumeInfo {
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
        ..history_info(superblock, stored)
    }
}

fn history_info(superblock: &Superblock, stored: StoredSuperblock<'_>) -> VolumeInfo {
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
        errors: error_record(superblock, stored),
        ..feature_info(superblock, stored)
    }
}

/// What is there only with a feature.
fn feature_info(superblock: &Superblock, stored: StoredSuperblock<'_>) -> VolumeInfo {
    let hashed = superblock.has(Feature::DIR_INDEX) || superblock.hash_seed != [0; 4];
    let checksummed = superblock.has(Feature::METADATA_CSUM);
    let has_mmp = superblock.has(Feature::MMP);
    let [users, groups, projects] = stored.quota_inodes();
    VolumeInfo {
        journal_uuid: Some(superblock.journal_uuid())
            .filter(|bytes| *bytes != [0; 16])
            .map(|bytes| uuid(&bytes)),
        journal_inode: some_u32(superblock.journal_inode),
        journal_device: some_u32(superblock.journal_device()),
        first_orphan: some_u32(superblock.last_orphan),
        directory_hash: hashed.then(|| hash_name(superblock.hash_version)),
        directory_hash_seed: hashed.then(|| uuid(&seed_bytes(superblock.hash_seed))),
        journal_backup: (superblock.journal_backup_type == JOURNAL_BACKUP_BLOCKS)
            .then_some("inode blocks"),
        mmp_block: has_mmp.then(|| stored.mmp_block().0),
        mmp_interval_seconds: has_mmp.then(|| stored.mmp_interval_seconds()),
        user_quota_inode: some_u32(users.0),
        group_quota_inode: some_u32(groups.0),
        project_quota_inode: some_u32(projects.0),
        checksum_type: checksummed.then(|| checksum_name(superblock.checksum_type())),
        checksum: checksummed.then(|| stored.checksum()),
        checksum_seed: superblock.has(Feature::CSUM_SEED).then_some(superblock.checksum_seed),
        encoding: superblock.has(Feature::CASEFOLD).then(|| encoding_name(stored.encoding())),
        orphan_file_inode: superblock
            .has(Feature::ORPHAN_FILE)
            .then_some(superblock.orphan_file_inode),
        backup_groups: superblock
            .has(Feature::SPARSE_SUPER2)
            .then(|| stored.backup_groups().map(|GroupNo(group)| group).to_vec()),
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
    Some(text(bytes)).filter(|text| !text.is_empty())
}

/// Bytes up to the first zero as text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
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
    let names = [
        (superblock_flags::SIGNED_HASH, "signed_directory_hash"),
        (superblock_flags::UNSIGNED_HASH, "unsigned_directory_hash"),
        (superblock_flags::TEST_FILESYSTEM, "test_filesystem"),
    ];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}

fn mount_option_names(options: u32) -> Vec<String> {
    let names = [
        (mount_option::DEBUG, "debug"),
        (mount_option::BSD_GROUPS, "bsdgroups"),
        (mount_option::USER_XATTR, "user_xattr"),
        (mount_option::ACL, "acl"),
        (mount_option::UID16, "uid16"),
        (mount_option::NO_BARRIER, "nobarrier"),
        (mount_option::BLOCK_VALIDITY, "block_validity"),
        (mount_option::DISCARD, "discard"),
        (mount_option::NO_DELALLOC, "nodelalloc"),
    ];
    let journal = match options & mount_option::JOURNAL_MODE {
        mount_option::JOURNAL_DATA => Some("journal_data"),
        mount_option::JOURNAL_ORDERED => Some("journal_data_ordered"),
        mount_option::JOURNAL_WRITEBACK => Some("journal_data_writeback"),
        _ => None,
    };
    let set = names.iter().filter(|(bit, _)| options & bit != 0).map(|(_, name)| *name);
    journal.into_iter().chain(set).map(str::to_owned).collect()
}

fn state_name(state: u16) -> &'static str {
    match (state & state::CLEAN != 0, state & state::ERRORS != 0) {
        (true, false) => "clean",
        (true, true) => "clean with errors",
        (false, false) => "not clean",
        (false, true) => "not clean with errors",
    }
}

fn behavior_name(behavior: u16) -> &'static str {
    match behavior {
        on_error::CONTINUE => "Continue",
        on_error::REMOUNT_READ_ONLY => "Remount read-only",
        on_error::PANIC => "Panic",
        _ => "Unknown (continue)",
    }
}

fn os_name(os: u32) -> String {
    let name = usize::try_from(os).ok().and_then(|os| CREATOR_NAMES.get(os));
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
    match kind {
        CHECKSUM_CRC32C => "crc32c".to_owned(),
        _ => format!("unknown ({kind})"),
    }
}

fn encoding_name(encoding: u16) -> String {
    match encoding {
        ENCODING_UTF8 => "utf8-12.1".to_owned(),
        _ => format!("unknown ({encoding})"),
    }
}

fn error_record(superblock: &Superblock, stored: StoredSuperblock<'_>) -> Option<ErrorRecord> {
    let count = superblock.error_count();
    let recorded = |error: StoredError<'_>| {
        (error.seconds != 0).then(|| RecordedError {
            time: Date(error.seconds),
            function: text(error.function),
            line: error.line,
            code: error.code,
            inode: error.ino.0,
            block: error.block.0,
        })
    };
    let [first, last] = stored.errors();
    (count != 0).then(|| ErrorRecord { count, first: recorded(first), last: recorded(last) })
}

fn parse_journal(bytes: u64, block: &[u8]) -> Result<JournalInfo, String> {
    let journal = StoredJournal::new(block).ok_or("journal: its first block is too short")?;
    if journal.magic() != journal::MAGIC {
        return Err(format!("journal: no magic number (found {:#x})", journal.magic()));
    }
    let is_second_version = journal.block_type() == journal::SUPERBLOCK_V2;
    if !is_second_version && journal.block_type() != journal::SUPERBLOCK_V1 {
        return Err(format!(
            "journal: a block of type {} is in place of its superblock",
            journal.block_type()
        ));
    }
    let has_checksums = is_second_version && journal.has_checksums();
    Ok(JournalInfo {
        checksum_type: has_checksums.then(|| journal_checksum_name(journal.checksum_type())),
        checksum: has_checksums.then(|| journal.checksum()),
        features: if is_second_version { journal.feature_names() } else { Vec::new() },
        bytes,
        blocks: journal.blocks(),
        block_size: journal.block_size(),
        first: journal.first(),
        fast_commit_blocks: if is_second_version { journal.fast_commit_blocks() } else { 0 },
        sequence: journal.sequence(),
        start: journal.start(),
        error: journal.error(),
        users: if is_second_version { journal.users() } else { 1 },
        user_ids: match is_second_version && journal.first() != 1 {
            true => journal.user_ids().map(|id| uuid(&id)).collect(),
            false => Vec::new(),
        },
    })
}

fn journal_checksum_name(kind: u8) -> String {
    match kind {
        journal::CHECKSUM_CRC32 => "crc32".to_owned(),
        journal::CHECKSUM_CRC32C => "crc32c".to_owned(),
        other => format!("unknown ({other})"),
    }
}
