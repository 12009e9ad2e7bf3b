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
    InodeExtraSize, "inode-extra-size", Inodes, Error,
        "inode {ino}: it cannot have {found} bytes of extra fields", RewriteInode;
    AttributesOverlap, "attributes-overlap", Inodes, Error,
        "inode {ino}: names or values of its attributes lie over each other or past their end", ClearAttributes;
    AttributeValueSize, "attribute-value-size", Inodes, Error,
        "inode {ino}: an attribute cannot have a value of {found} bytes", ClearAttributes;
    AttributeHash, "attribute-hash", Inodes, Error,
        "inode {ino}: the hash of attribute {name} is not {found}", ClearAttributes;
    AttributeValueInode, "attribute-value-inode", Inodes, Error,
        "inode {ino}: the value of an attribute cannot be inode {other}", ClearAttributes;
    AttributeBlockOutside, "attribute-block-outside", Inodes, Error,
        "inode {ino}: its attributes cannot be in block {block}", ClearAttributes;
    AttributeBlockMagic, "attribute-block-magic", Inodes, Error,
        "inode {ino}: block {block} is no block of attributes", ClearAttributes;
    AttributeBlockCount, "attribute-block-count", Inodes, Error,
        "inode {ino}: attribute block {block} says that it has {found} blocks", ClearAttributes;
    AttributeBlockChecksum, "attribute-block-checksum", Inodes, Error,
        "inode {ino}: the checksum of attribute block {block} is {found}, should be {expected}", RewriteChecksum;
    AttributeReferences, "attribute-references", Inodes, Error,
        "attribute block {block} counts {found} inodes that share it, {expected} do", Recount;
    AttributeReferencesLost, "attribute-references-lost", Inodes, Stopping,
        "attribute block {block} counts {found} inodes that share it, {expected} do, and it is no block of attributes",
        ClearAttributes;
    SymlinkInvalid, "symlink-invalid", Inodes, Error,
        "inode {ino}: the symlink has no target of {found} bytes", ClearInode;
    SymlinkFastExtents, "symlink-fast-extents", Inodes, Error,
        "inode {ino}: the target of the symlink lies in the inode, but it says that it has extents", RewriteInode;
    SpecialFileImmutable, "special-file-immutable", Inodes, Error,
        "inode {ino}: a special file is immutable or append-only", RewriteInode;
    SpecialFileMapped, "special-file-mapped", Inodes, Error,
        "inode {ino}: a special file has blocks, or an impossible device number", ClearInode;
    SpecialFileSize, "special-file-size", Inodes, Error,
        "inode {ino}: a special file has a size of {found}", RewriteInode;
    // Duplicates.
    // Directories.
    DirectoryHole, "directory-hole", Directories, Error,
        "directory {ino}: block {file_block} is missing ({found} in all from there on)", RebuildDirectoryBlock;
    DirectoryChain, "directory-chain", Directories, Stopping,
        "directory {ino}, block {file_block}: what stands at byte {found} is no entry", RebuildDirectoryBlock;
    DirectoryNoChecksum, "directory-no-checksum", Directories, Error,
        "directory {ino}, block {file_block}: there is no checksum", RewriteChecksum;
    DirectoryChecksum, "directory-checksum", Directories, Error,
        "directory {ino}, block {file_block}: the checksum is {found}, should be {expected}", RewriteChecksum;
    DotMissing, "dot-missing", Directories, Error,
        "directory {ino}: '.' is missing", RewriteEntry;
    DotNotFirst, "dot-not-first", Directories, Error,
        "directory {ino}: the first entry is {name}, should be '.'", RewriteEntry;
    DotNotTerminated, "dot-not-terminated", Directories, Error,
        "directory {ino}: no zero byte follows '.'", RewriteEntry;
    DotTooLong, "dot-too-long", Directories, Error,
        "directory {ino}: the entry '.' has {found} bytes, should have {expected}", RewriteEntry;
    DotWrong, "dot-wrong", Directories, Error,
        "directory {ino}: '.' is inode {other}", RewriteEntry;
    DotDotMissing, "dot-dot-missing", Directories, Error,
        "directory {ino}: '..' is missing", RewriteEntry;
    DotDotNotSecond, "dot-dot-not-second", Directories, Error,
        "directory {ino}: the second entry is {name}, should be '..'", RewriteEntry;
    DotDotNotTerminated, "dot-dot-not-terminated", Directories, Error,
        "directory {ino}: no zero byte follows '..'", RewriteEntry;
    DotTwice, "dot-twice", Directories, Error,
        "directory {ino}, block {file_block}: {name} stands there again", RemoveEntry;
    EntryNameEmpty, "entry-name-empty", Directories, Error,
        "directory {ino}, block {file_block}: an entry for inode {other} has no name", RemoveEntry;
    EntryNameIllegal, "entry-name-illegal", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} has a slash or a zero byte", RewriteEntry;
    EntryNameShort, "entry-name-short", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} is too short for an encrypted one", RemoveEntry;
    EntryNameEncoding, "entry-name-encoding", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} is not in the encoding of the volume", RewriteEntry;
    EntryTwice, "entry-twice", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} stands there twice", RewriteEntry;
    EntryInode, "entry-inode", Directories, Error,
        "directory {ino}: {name} cannot be inode {other}", RemoveEntry;
    EntryUnused, "entry-unused", Directories, Error,
        "directory {ino}: {name} is inode {other}, which is not in use", RemoveEntry;
    EntryToSelf, "entry-to-self", Directories, Error,
        "directory {ino}: {name} is the directory itself", RemoveEntry;
    EntryToRoot, "entry-to-root", Directories, Error,
        "directory {ino}: {name} is the root directory", RemoveEntry;
    EntryToValue, "entry-to-value", Directories, Error,
        "directory {ino}: {name} is inode {other}, which is the value of an attribute", RemoveEntry;
    EntryType, "entry-type", Directories, Error,
        "directory {ino}: {name} has type {found}, its inode {other} has {expected}", RewriteEntry;
    EntryTyped, "entry-typed", Directories, Error,
        "directory {ino}: {name} has type {found}, but the volume keeps none", RewriteEntry;
    DirectoryTwice, "directory-twice", Directories, Error,
        "directory {ino}: {name} is directory {other}, which has a name already", RemoveEntry;
    // The index.
    IndexUnsupported, "index-unsupported", Directories, Error,
        "directory {ino}: it has an index, but the volume has none", RebuildIndex;
    IndexRoot, "index-root", Directories, Error,
        "directory {ino}: there is no root of an index in its first block", RebuildIndex;
    IndexHashVersion, "index-hash-version", Directories, Error,
        "directory {ino}: the index is sorted by an unknown hash, number {found}", RebuildIndex;
    IndexFlags, "index-flags", Directories, Error,
        "directory {ino}: the root of the index has flags {found}", RebuildIndex;
    IndexLevels, "index-levels", Directories, Error,
        "directory {ino}: the index has {found} levels below its root, at most {expected} are possible", RebuildIndex;
    IndexLimit, "index-limit", Directories, Error,
        "directory {ino}, block {file_block}: the index has room for {found} entries, should have for {expected}", RebuildIndex;
    IndexCount, "index-count", Directories, Error,
        "directory {ino}, block {file_block}: the index has {found} entries, {expected} at most fit", RebuildIndex;
    IndexOrder, "index-order", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} of the index follows a higher one", RebuildIndex;
    IndexOutside, "index-outside", Directories, Error,
        "directory {ino}, block {file_block}: the index points to block {found} of the directory", RebuildIndex;
    IndexTwice, "index-twice", Directories, Error,
        "directory {ino}, block {file_block}: the index points to it twice", RebuildIndex;
    IndexUnreferenced, "index-unreferenced", Directories, Error,
        "directory {ino}, block {file_block}: the index does not point to it", RebuildIndex;
    IndexDepth, "index-depth", Directories, Error,
        "directory {ino}, block {file_block}: its names lie {found} levels below the root, should lie {expected}", RebuildIndex;
    IndexBelow, "index-below", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} is below what the index has there, {expected} and more", RebuildIndex;
    IndexAbove, "index-above", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} is above what the index has there, {expected} at most", RebuildIndex;
    IndexChecksum, "index-checksum", Directories, Error,
        "directory {ino}, block {file_block}: the checksum of the index is {found}, should be {expected}", RewriteChecksum;
    // Connectivity and links.
    RootMissing, "root-missing", Connectivity, Stopping,
        "there is no root directory", CreateDirectory;
    DotDotWrong, "dot-dot-wrong", Connectivity, Error,
        "directory {ino}: '..' is inode {found}, should be {expected}", RewriteEntry;
    DirectoryUnreachable, "directory-unreachable", Connectivity, Error,
        "directory {ino} is not reached from the root; its '..' is inode {other}", ReconnectToLostFound;
    LinkCount, "link-count", Links, Error,
        "inode {ino}: it counts {found} links, {expected} were found", Recount;
    InodeUnattached, "inode-unattached", Links, Error,
        "inode {ino} is in use, but no directory has an entry for it", ReconnectToLostFound;
    ValueReferences, "value-references", Links, Error,
        "inode {ino}, the value of an attribute, counts {found} attributes that have it, {expected} do", Recount;
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
