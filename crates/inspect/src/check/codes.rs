//! Every problem that the check knows: one table, one line a code.
use super::problem::{Pass, Repair, Severity};

/// What is known of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The code.
    pub code: Code,
    /// Its name, in kebab case: it never changes.
    pub name: &'static str,
    /// Which pass finds it.
    pub pass: Pass,
    /// How much it matters.
    pub severity: Severity,
    /// What is told of it. Blanks: `{group} {ino} {file_block} {block} {name} {other} {found} {expected}`.
    pub sentence: &'static str,
    /// What a repair would do.
    pub repair: Repair,
}

macro_rules! codes {
    ($($code:ident, $name:literal, $pass:ident, $severity:ident, $sentence:literal, $repair:ident;)*) => {
        /// What can be wrong, one variant a fact. Within a pass and a place, problems are told in this order.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $sentence] $code,)*
        }

        /// All codes, in the order of the enum.
        pub static CODES: &[Rule] = &[
            $(Rule {
                code: Code::$code,
                name: $name,
                pass: Pass::$pass,
                severity: Severity::$severity,
                sentence: $sentence,
                repair: Repair::$repair,
            },)*
        ];
    };
}

impl Code {
    /// What is known of it.
    pub fn rule(self) -> &'static Rule {
        &CODES[self as usize]
    }
}

codes! {
    // The superblock, its copies, features.
    SuperblockUnusable, "superblock-unusable", Volume, Fatal,
        "no superblock that can be used was found, neither the first nor a copy", None;
    SuperblockDamaged, "superblock-damaged", Volume, Error,
        "the first superblock cannot be used; the copy in block {block} is", RewriteSuperblock;
    SuperblockChecksum, "superblock-checksum", Volume, Error,
        "the checksum of the superblock is wrong, and no copy is better", RewriteSuperblock;
    DeviceTooSmall, "device-too-small", Volume, Error,
        "the volume has {expected} blocks, the device only {found}", None;
    InodeCount, "inode-count", Volume, Error,
        "the inode count is {found}, should be {expected}", RewriteSuperblock;
    ReservedBlocks, "reserved-blocks", Volume, Fatal,
        "{found} blocks are reserved: more than half of the volume", RewriteSuperblock;
    ResizeWithMetaGroups, "resize-with-meta-groups", Volume, Error,
        "the features resize_inode and meta_bg exclude each other", RewriteSuperblock;
    TwoChecksums, "two-checksums", Volume, Error,
        "the features uninit_bg and metadata_csum exclude each other", RewriteSuperblock;
    WideWithoutExtents, "wide-without-extents", Volume, Error,
        "the volume has more than 2^32 blocks, which files without the feature extents cannot use", RewriteSuperblock;
    SeedWithoutChecksums, "seed-without-checksums", Volume, Error,
        "the feature metadata_csum_seed means nothing without metadata_csum", RewriteSuperblock;
    ResizeWithTwoCopies, "resize-with-two-copies", Volume, Error,
        "the features resize_inode and sparse_super2 exclude each other", RewriteSuperblock;
    ReservedDescriptors, "reserved-descriptors", Volume, Error,
        "{found} descriptor blocks are reserved without the feature resize_inode", RewriteSuperblock;
    RequiredExtraSize, "required-extra-size", Volume, Advice,
        "inodes must have {found} bytes of extra fields, but there is room for {expected}", RewriteSuperblock;
    WantedExtraSize, "wanted-extra-size", Volume, Advice,
        "new inodes get {found} bytes of extra fields, but there is room for {expected}", RewriteSuperblock;
    // Groups.
    DescriptorsDamaged, "descriptors-damaged", Volume, Error,
        "the first group descriptors cannot be used; the copy in group {group} is", RewriteDescriptor;
    DescriptorChecksum, "descriptor-checksum", Volume, Error,
        "group {group}: the checksum of the descriptor is {found}, should be {expected}", RewriteChecksum;
    UnusedInodes, "unused-inodes", Volume, Error,
        "group {group}: {found} inodes were never used, more than it has", RewriteDescriptor;
    BlockBitmapPlace, "block-bitmap-place", Volume, Error,
        "group {group}: the block bitmap cannot be at block {block}", RelocateMetadata;
    InodeBitmapPlace, "inode-bitmap-place", Volume, Error,
        "group {group}: the inode bitmap cannot be at block {block}", RelocateMetadata;
    InodeTablePlace, "inode-table-place", Volume, Error,
        "group {group}: the inode table cannot be at block {block}", RelocateMetadata;
    BlockBitmapConflict, "block-bitmap-conflict", Volume, Error,
        "group {group}: the block bitmap at block {block} lies on other metadata", RelocateMetadata;
    InodeBitmapConflict, "inode-bitmap-conflict", Volume, Error,
        "group {group}: the inode bitmap at block {block} lies on other metadata", RelocateMetadata;
    InodeTableConflict, "inode-table-conflict", Volume, Error,
        "group {group}: the inode table at block {block} lies on other metadata", RelocateMetadata;
    // The journal.
    // Inodes and maps.
    // Attributes.
    // Duplicates.
    // Directories.
    // The index.
    // Connectivity and links.
    // Bitmaps and counters.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_rule_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (index, rule) in CODES.iter().enumerate() {
            assert_eq!(rule.code as usize, index);
            assert!(names.insert(rule.name), "{} stands twice", rule.name);
            assert!(
                rule.name
                    .bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
            );
        }
    }
}
