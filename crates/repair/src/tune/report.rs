//! What is different between two superblocks, in words.
use extant_format::superblock::{Superblock, on_error, superblock_flags};
use serde::Serialize;

/// One thing that is different.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// What it is.
    pub what: &'static str,
    /// How it was.
    pub before: String,
    /// How it is.
    pub after: String,
}

/// What is different.
pub(super) fn changes(before: &Superblock, after: &Superblock) -> Vec<Change> {
    let mut changes: Vec<Change> = rows(before)
        .into_iter()
        .zip(rows(after))
        .filter(|((_, before), (_, after))| before != after)
        .map(|((what, before), (_, after))| Change { what, before, after })
        .collect();
    for feature in before.features.iter().filter(|feature| !after.has(*feature)) {
        changes.push(Change { what: "feature", before: feature.name(), after: String::new() });
    }
    for feature in after.features.iter().filter(|feature| !before.has(*feature)) {
        changes.push(Change { what: "feature", before: String::new(), after: feature.name() });
    }
    changes
}

/// Bytes up to the first zero, as text.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    bytes.escape_ascii().to_string()
}

/// A UUID in its usual form.
pub(super) fn uuid(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|at| digits.get(at).unwrap_or_default());
    parts.join("-")
}

fn rows(of: &Superblock) -> Vec<(&'static str, String)> {
    let [users, groups, projects] = of.quota_inodes();
    let (encoding, encoding_flags) = of.encoding();
    let errors = match of.errors_behavior {
        on_error::CONTINUE => "continue",
        on_error::REMOUNT_READ_ONLY => "remount-ro",
        on_error::PANIC => "panic",
        _ => "unknown",
    };
    let is_for_tests = of.flags() & superblock_flags::TEST_FILESYSTEM != 0;
    vec![
        ("label", text(&of.label)),
        ("uuid", uuid(of.uuid)),
        ("last mounted on", text(&of.last_mounted)),
        ("reserved blocks", of.reserved_blocks.to_string()),
        ("reserved for user", of.default_uid.to_string()),
        ("reserved for group", of.default_gid.to_string()),
        ("mounts before a check", of.max_mount_count.to_string()),
        ("mounts", of.mount_count.to_string()),
        ("seconds before a check", of.check_interval_seconds.to_string()),
        ("last checked", of.checked_seconds.to_string()),
        ("on errors", errors.to_owned()),
        ("state", of.state.to_string()),
        ("default mount options", format!("{:#x}", of.default_mount_options)),
        ("mount options", text(&of.mount_options())),
        ("hash", format!("{:?}", of.hash_version)),
        ("stride", of.raid_stride.to_string()),
        ("stripe width", of.raid_stripe_width.to_string()),
        ("for tests", is_for_tests.to_string()),
        ("mmp interval", of.mount_interval_seconds().to_string()),
        ("mmp block", of.mount_block().to_string()),
        ("encoding", format!("{encoding}:{encoding_flags}")),
        ("inode size", of.inode_size.to_string()),
        ("checksum seed", format!("{:#010x}", of.checksum_seed)),
        ("journal inode", of.journal_inode.to_string()),
        ("journal blocks", journal_blocks(of).to_string()),
        ("orphan file", of.orphan_file_inode.to_string()),
        ("user quota inode", users.to_string()),
        ("group quota inode", groups.to_string()),
        ("project quota inode", projects.to_string()),
        ("reserved descriptor blocks", of.reserved_gdt_blocks.to_string()),
        ("free blocks", of.free_blocks.to_string()),
        ("free inodes", of.free_inodes.to_string()),
    ]
}

/// How long the journal is, as the superblock has it.
fn journal_blocks(of: &Superblock) -> u64 {
    let [.., high, low] = of.journal_backup;
    let bytes = u64::from(high) << 32 | u64::from(low);
    match of.journal_inode {
        0 => 0,
        _ => bytes / u64::from(of.block_size()),
    }
}
