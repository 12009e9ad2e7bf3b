//! Every kind of problem that the check knows: one table, one row a code.
use super::rule::{Pass, Repair, Severity};

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
    /// What is said of it. Blanks: `{group} {ino} {file_block} {block} {name} {other} {found}
    /// {expected}`.
    pub sentence: &'static str,
    /// What a repair would do.
    pub repair: Repair,
}

macro_rules! codes {
    ($(
        $code:ident, $name:literal, $pass:ident, $severity:ident,
        $sentence:literal, $repair:ident;
    )*) => {
        /// What can be wrong, one variant a fact. Within a pass and a place, problems are in this
        /// order.
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
    SuperblockChecksum, "superblock-checksum", Volume, Fatal,
        "the checksum of the superblock is wrong, and no copy is better", RewriteSuperblock;
    DeviceTooSmall, "device-too-small", Volume, Error,
        "the volume has {expected} blocks, the device only {found}", None;
    InodeCount, "inode-count", Volume, Stopping,
        "the inode count is {found}, should be {expected}", RewriteSuperblock;
    ReservedBlocks, "reserved-blocks", Volume, Fatal,
        "{found} blocks are reserved: more than half of the volume", RewriteSuperblock;
    ResizeWithMetaGroups, "resize-with-meta-groups", Volume, Advice,
        "the features resize_inode and meta_bg exclude each other", RewriteSuperblock;
    TwoChecksums, "two-checksums", Volume, Advice,
        "the features uninit_bg and metadata_csum exclude each other", RewriteSuperblock;
    WideWithoutExtents, "wide-without-extents", Volume, Error,
        "the volume has more than 2^32 blocks, which files without the feature extents cannot \
         use", RewriteSuperblock;
    SeedWithoutChecksums, "seed-without-checksums", Volume, Advice,
        "the feature metadata_csum_seed means nothing without metadata_csum", RewriteSuperblock;
    ReservedDescriptors, "reserved-descriptors", Volume, Advice,
        "{found} descriptor blocks are reserved without the feature \
         resize_inode", RewriteSuperblock;
    RequiredExtraSize, "required-extra-size", Volume, Advice,
        "inodes must have {found} bytes of extra fields, but there is room for \
         {expected}", RewriteSuperblock;
    WantedExtraSize, "wanted-extra-size", Volume, Advice,
        "new inodes get {found} bytes of extra fields, but there is room for \
         {expected}", RewriteSuperblock;
    UnknownIncompatible, "unknown-incompatible", Volume, Fatal,
        "the volume has an unknown feature, {name}: nothing can be said of it", None;
    UnknownFeature, "unknown-feature", Volume, Stopping,
        "the volume has an unknown feature, {name}", None;
    Encoding, "encoding", Volume, Stopping,
        "the volume has the feature casefold, but its encoding is unknown, number \
         {found}", RewriteSuperblock;
    MountBlock, "mount-block", Volume, Stopping,
        "the volume has the feature mmp, but block {block} cannot be the one that records \
         mounts", RewriteSuperblock;
    MountBlockHeld, "mount-block-held", Volume, Stopping,
        "block {block} says that the volume is being checked elsewhere (sequence {found})", None;
    SuperblockField, "superblock-field", Volume, Fatal,
        "the superblock's {name} cannot be {found}: nothing can be said of the volume", None;
    OrphansWithoutFile, "orphans-without-file", Volume, Error,
        "the volume has the feature orphan_present, but no orphan in a file of \
         orphans", RewriteSuperblock;
    // Groups.
    UninitWithoutChecksums, "uninit-without-checksums", Volume, Advice,
        "group {group}: the descriptor has flags {found}, which mean nothing without descriptor \
         checksums",
        RewriteDescriptor;
    UnusedWithoutChecksums, "unused-without-checksums", Volume, Advice,
        "group {group}: {found} inodes were never used, which means nothing without descriptor \
         checksums",
        RewriteDescriptor;
    DescriptorsDamaged, "descriptors-damaged", Volume, Error,
        "the first group descriptors cannot be used; the copy in group {group} \
         is", RewriteDescriptor;
    TooManyGroups, "too-many-groups", Volume, Fatal,
        "more groups ({expected}) than are described: the device holds {found} descriptors, and \
         zeros after them", None;
    DescriptorChecksum, "descriptor-checksum", Volume, Advice,
        "group {group}: the checksum of the descriptor is {found}, should be \
         {expected}", RewriteChecksum;
    UnusedInodes, "unused-inodes", Volume, Error,
        "group {group}: {found} inodes were never used, more than it has", RewriteDescriptor;
    RootNeverUsed, "root-never-used", Volume, Stopping,
        "group {group}: the descriptor says that the root directory was never \
         used", RewriteDescriptor;
    UsedNeverUsed, "used-never-used", Volume, Error,
        "group {group}: the descriptor says that inode {ino} was never used, but it is in \
         use", RewriteDescriptor;
    BlockBitmapPlace, "block-bitmap-place", Volume, Error,
        "group {group}: the block bitmap cannot be at block {block}", RelocateMetadata;
    InodeBitmapPlace, "inode-bitmap-place", Volume, Error,
        "group {group}: the inode bitmap cannot be at block {block}", RelocateMetadata;
    InodeTablePlace, "inode-table-place", Volume, Error,
        "group {group}: the inode table cannot be at block {block}", RelocateMetadata;
    RootTablePlace, "root-table-place", Volume, Fatal,
        "the inode table that has the root directory cannot be at block {block}", RelocateMetadata;
    BlockBitmapConflict, "block-bitmap-conflict", Volume, Error,
        "group {group}: the block bitmap at block {block} overlaps other \
         metadata", RelocateMetadata;
    InodeBitmapConflict, "inode-bitmap-conflict", Volume, Error,
        "group {group}: the inode bitmap at block {block} overlaps other \
         metadata", RelocateMetadata;
    InodeTableConflict, "inode-table-conflict", Volume, Error,
        "group {group}: the inode table at block {block} overlaps other metadata", RelocateMetadata;
    // The journal.
    IsJournalDevice, "is-journal-device", Volume, Fatal,
        "the device is the journal of another volume", None;
    RecoveryWithoutJournal, "recovery-without-journal", Volume, Stopping,
        "the journal must be replayed, but there is none", RewriteSuperblock;
    JournalWithoutFeature, "journal-without-feature", Volume, Advice,
        "the superblock has a journal, but not the feature has_journal", RewriteSuperblock;
    JournalMissing, "journal-missing", Volume, Stopping,
        "the volume has the feature has_journal, but no journal", RecreateJournal;
    ExternalJournal, "external-journal", Volume, Stopping,
        "the journal is on another device, which is not looked at", None;
    TwoJournals, "two-journals", Volume, Stopping,
        "the superblock has a journal in inode {ino} and names another device for it \
         too", RewriteSuperblock;
    NeedsRecovery, "needs-recovery", Volume, Advice,
        "the journal must be replayed: that may repair what follows", RecoverJournal;
    JournalInode, "journal-inode", Volume, Stopping,
        "inode {ino} is no journal", RecreateJournal;
    JournalSuperblock, "journal-superblock", Volume, Stopping,
        "the superblock of the journal in inode {ino} is damaged", RecreateJournal;
    JournalFields, "journal-fields", Volume, Stopping,
        "the superblock of the journal in inode {ino} has fields that its version does not \
         know", RecreateJournal;
    JournalLeftovers, "journal-leftovers", Volume, Advice,
        "the superblock of the journal in inode {ino} is of version 1, but has fields of version \
         2", RecoverJournal;
    JournalFeatures, "journal-features", Volume, Stopping,
        "the journal in inode {ino} has features that are not known", RecreateJournal;
    JournalChecksum, "journal-checksum", Volume, Stopping,
        "the checksum of the superblock of the journal in inode {ino} is wrong", RecreateJournal;
    JournalError, "journal-error", Volume, Advice,
        "the journal in inode {ino} has recorded the error {found}", RecoverJournal;
    JournalCut, "journal-cut", Volume, Error,
        "the log of the journal is damaged: transaction {found} and all after it were left \
         out", RecoverJournal;
    OrphansWait, "orphans-wait", Volume, Advice,
        "{found} deleted inodes wait on the list of orphans to be freed", RecoverJournal;
    OrphanDeleted, "orphan-deleted", Volume, Error,
        "inode {ino} was deleted while it was open: it and its blocks wait to be \
         freed", RecoverJournal;
    OrphanList, "orphan-list", Volume, Advice,
        "the list of orphans leads to inode {ino}, which cannot be one", RewriteSuperblock;
    OrphanFile, "orphan-file", Volume, Error,
        "inode {ino}, block {file_block}: the list of orphans in it is damaged, or not \
         empty", RewriteSuperblock;
    // Inodes and maps.
    InodeChecksum, "inode-checksum", Inodes, Error,
        "inode {ino}: the checksum is wrong", RewriteChecksum;
    InodeChecksumUnread, "inode-checksum-unread", Inodes, Stopping,
        "inode {ino}: the checksum is wrong, and without it the type cannot be \
         trusted", RewriteChecksum;
    DeletedWithoutTime, "deleted-without-time", Inodes, Error,
        "inode {ino}: was deleted, but has no time of deletion", RewriteInode;
    UsedButDeleted, "used-but-deleted", Inodes, Error,
        "inode {ino}: is in use, but has a time of deletion ({found})", RewriteInode;
    LostOrphan, "lost-orphan", Inodes, Error,
        "inode {ino}: was on a list of orphans that is broken (next: {found})", RewriteInode;
    ExtraSize, "extra-size", Inodes, Error,
        "inode {ino}: {found} bytes of extra fields cannot be", RewriteInode;
    NoFileType, "no-file-type", Inodes, Error,
        "inode {ino}: the mode {found} has no file type", ClearInode;
    ReservedInUse, "reserved-in-use", Inodes, Error,
        "inode {ino}: has blocks, but the feature that it is reserved for is not set", ClearInode;
    ReservedMode, "reserved-mode", Inodes, Error,
        "inode {ino}: is reserved, and cannot have the mode {found}", RewriteInode;
    ReservedDirectory, "reserved-directory", Inodes, Stopping,
        "inode {ino}: is reserved, but is a directory", RewriteSuperblock;
    ResizeInode, "resize-inode", Inodes, Advice,
        "inode {ino} does not map the descriptor blocks kept for growth", RebuildMap;
    ExtentsWithoutFeature, "extents-without-feature", Inodes, Error,
        "inode {ino}: is mapped by extents, but the volume does not have that \
         feature", RewriteSuperblock;
    InlineWithoutFeature, "inline-without-feature", Inodes, Error,
        "inode {ino}: has the flag of inline data, but the volume does not have that \
         feature", RewriteInode;
    InlineWithExtents, "inline-with-extents", Inodes, Error,
        "inode {ino}: has the flags of inline data and of extents", RewriteInode;
    IndexFlag, "index-flag", Inodes, Error,
        "inode {ino}: has the flag of a hash index, but cannot have one", RewriteInode;
    EncryptedWithoutFeature, "encrypted-without-feature", Inodes, Error,
        "inode {ino}: is encrypted, but the volume does not have that feature", RewriteSuperblock;
    EncryptionMissing, "encryption-missing", Inodes, Error,
        "inode {ino}: is encrypted, but no attribute says how", RewriteInode;
    EncryptionContext, "encryption-context", Inodes, Error,
        "inode {ino}: the attribute that says how it is encrypted cannot be", ClearInode;
    LargeFile, "large-file", Inodes, Error,
        "inode {ino}: has {found} bytes, but the volume does not have the feature \
         large_file", RewriteSuperblock;
    DirectorySizeHigh, "directory-size-high", Inodes, Error,
        "inode {ino}: has {found} bytes, more than a directory can have", RewriteInode;
    FileTooLarge, "file-too-large", Inodes, Error,
        "inode {ino}: has {found} bytes, but no more than {expected} can be mapped", RewriteInode;
    MapBlockOutside, "map-block-outside", Inodes, Error,
        "inode {ino}: map block {block}, from file block {file_block} on, is not on the \
         volume", ClearPointer;
    IndirectOutside, "indirect-outside", Inodes, Stopping,
        "inode {ino}: indirect block {block}, from file block {file_block} on, is not on the \
         volume", ClearPointer;
    MapBlockOnMetadata, "map-block-on-metadata", Inodes, Error,
        "inode {ino}: map block {block}, from file block {file_block} on, is on metadata of the \
         volume", ClearPointer;
    BlockOutside, "block-outside", Inodes, Error,
        "inode {ino}: block {block} of file block {file_block} ({found} blocks) is not on the \
         volume", ClearPointer;
    ManyIllegalBlocks, "many-illegal-blocks", Inodes, Error,
        "inode {ino}: {found} blocks are illegal", ClearInode;
    BadMetadata, "bad-metadata", Inodes, Error,
        "block {block} of the volume's metadata is on the list of bad blocks", None;
    ClusterAlignment, "cluster-alignment", Inodes, Error,
        "inode {ino}: file block {file_block} and block {block} do not have the same place in \
         their clusters", ClearPointer;
    ClusterSplit, "cluster-split", Inodes, Error,
        "inode {ino}: file block {file_block} is in another cluster than the one before it",
        CopyBlock;
    ClusterPointers, "cluster-pointers", Inodes, Error,
        "inode {ino}: pointers map its blocks, and on a volume with clusters only extents can",
        RebuildMap;
    ExtentRoot, "extent-root", Inodes, Error,
        "inode {ino}: has the flag of extents, but no extent tree", ClearInode;
    ExtentNode, "extent-node", Inodes, Error,
        "inode {ino}: block {block}, from file block {file_block} on, is no node of an extent \
         tree", ClearPointer;
    ExtentChecksum, "extent-checksum", Inodes, Error,
        "inode {ino}: the checksum of the extent block {block} is wrong", RewriteChecksum;
    ExtentStart, "extent-start", Inodes, Error,
        "inode {ino}: the extent block {block} starts at file block {expected}, its parent says \
         {found}", RebuildMap;
    ExtentEmpty, "extent-empty", Inodes, Error,
        "inode {ino}: an index node of its extent tree has no entry", RebuildMap;
    ExtentOrder, "extent-order", Inodes, Error,
        "inode {ino}: the extent at file block {file_block} begins before the end of the one \
         before it", RebuildMap;
    ExtentLength, "extent-length", Inodes, Error,
        "inode {ino}: the extent at file block {file_block} has no length", ClearPointer;
    ExtentPastFile, "extent-past-file", Inodes, Error,
        "inode {ino}: the extent at file block {file_block} ({found} blocks) passes the largest \
         file", ClearPointer;
    ExtentBounds, "extent-bounds", Inodes, Error,
        "inode {ino}: the extent at file block {file_block} ({found} blocks) is not under the \
         entry that leads to it",
        RebuildMap;
    ExtentDepth, "extent-depth", Inodes, Advice,
        "inode {ino}: the extent tree has {found} levels, {expected} hold any file", RebuildMap;
    DirectoryTooBig, "directory-too-big", Inodes, Error,
        "inode {ino}: file block {file_block} is more than a directory can have", ClearPointer;
    DirectoriesTooBig, "directories-too-big", Inodes, Stopping,
        "directories have more blocks than the device can hold data for; {found} are \
         judged", ClearPointer;
    DirectoryUnwritten, "directory-unwritten", Inodes, Error,
        "inode {ino}: file block {file_block} of the directory is in an unwritten \
         extent", RebuildMap;
    DirectoryWithoutBlocks, "directory-without-blocks", Inodes, Error,
        "inode {ino}: the directory has no block", ClearInode;
    DirectorySize, "directory-size", Inodes, Error,
        "inode {ino}: the size of the directory is {found}, should be {expected}", RewriteInode;
    FileSize, "file-size", Inodes, Error,
        "inode {ino}: the size is {found}, should be {expected}", RewriteInode;
    SectorCount, "sector-count", Inodes, Error,
        "inode {ino}: {found} sectors are counted, should be {expected}", RewriteInode;
    // Attributes.
    AttributesOverlap, "attributes-overlap", Inodes, Error,
        "inode {ino}: names or values of its attributes overlap or pass their end", ClearAttributes;
    AttributeValueSize, "attribute-value-size", Inodes, Error,
        "inode {ino}: an attribute cannot have a value of {found} bytes", ClearAttributes;
    AttributeHash, "attribute-hash", Inodes, Error,
        "inode {ino}: the hash of attribute {name} is not {found}", ClearAttributes;
    AttributePrefix, "attribute-prefix", Inodes, Error,
        "inode {ino}: the name {name} of an attribute belongs to nothing that has attributes",
        ClearAttributes;
    AttributeValueInode, "attribute-value-inode", Inodes, Error,
        "inode {ino}: the value of an attribute cannot be inode {other}", ClearAttributes;
    AttributeBlockOutside, "attribute-block-outside", Inodes, Error,
        "inode {ino}: its attributes cannot be in block {block}", ClearAttributes;
    TranslatorOutside, "translator-outside", Inodes, Error,
        "inode {ino}: its translator cannot be in block {block}", RewriteInode;
    AttributeBlockMagic, "attribute-block-magic", Inodes, Error,
        "inode {ino}: block {block} is no block of attributes", ClearAttributes;
    AttributeBlockCount, "attribute-block-count", Inodes, Error,
        "inode {ino}: attribute block {block} says that it has {found} blocks", ClearAttributes;
    AttributeBlockChecksum, "attribute-block-checksum", Inodes, Error,
        "inode {ino}: the checksum of attribute block {block} is {found}, should be \
         {expected}", RewriteChecksum;
    AttributeReferences, "attribute-references", Inodes, Error,
        "attribute block {block} counts {found} inodes that share it, {expected} do", Recount;
    AttributeReferencesLost, "attribute-references-lost", Inodes, Stopping,
        "attribute block {block} counts {found} inodes that share it, {expected} do, and it is no \
         block of attributes",
        ClearAttributes;
    FieldNotZero, "field-not-zero", Inodes, Error,
        "inode {ino}: the field {name} is {found}, should be 0", RewriteInode;
    MagicFlag, "magic-flag", Inodes, Error,
        "inode {ino}: has the flag imagic, but the volume does not have that feature", RewriteInode;
    CasefoldFlag, "casefold-flag", Inodes, Error,
        "inode {ino}: has the flag that names know no case, but cannot have it", RewriteInode;
    InlineMissing, "inline-missing", Inodes, Error,
        "inode {ino}: has the flag of inline data, but not the attribute in which it goes \
         on", ClearInode;
    InlineSize, "inline-size", Inodes, Error,
        "inode {ino}: the size is {found}, but {expected} bytes are in the inode", RewriteInode;
    BadBlocksInode, "bad-blocks-inode", Inodes, Error,
        "inode {ino}: is no list of bad blocks", ClearInode;
    SymlinkInvalid, "symlink-invalid", Inodes, Error,
        "inode {ino}: the symlink has no target of {found} bytes", ClearInode;
    SymlinkFastExtents, "symlink-fast-extents", Inodes, Error,
        "inode {ino}: the target of the symlink is in the inode, but it says that it has \
         extents", RewriteInode;
    SpecialFileImmutable, "special-file-immutable", Inodes, Advice,
        "inode {ino}: a special file is immutable or append-only", RewriteInode;
    SpecialFileDirectory, "special-file-directory", Inodes, Error,
        "inode {ino}: is a pipe, a socket or a device, but its first block is that of a \
         directory", RewriteInode;
    SpecialFileMapped, "special-file-mapped", Inodes, Error,
        "inode {ino}: a special file has blocks, or an impossible device number", ClearInode;
    SpecialFileSize, "special-file-size", Inodes, Error,
        "inode {ino}: a special file has a size of {found}", RewriteInode;
    // Duplicates.
    BlocksOfMetadata, "blocks-of-metadata", Duplicates, Error,
        "inode {ino}: {found} of its blocks belong to metadata of the volume, block {block} \
         first", CopyBlock;
    BlocksTwiceInFile, "blocks-twice-in-file", Duplicates, Error,
        "inode {ino}: {found} of its blocks are in it more than once, block {block} \
         first", CopyBlock;
    BlocksOfOther, "blocks-of-other", Duplicates, Error,
        "inode {ino}: {found} of its blocks belong to others too, block {block} first (inode \
         {other})", CopyBlock;
    // Directories.
    DirectoryHole, "directory-hole", Directories, Error,
        "directory {ino}: block {file_block} is missing ({found} in all from there \
         on)", RebuildDirectoryBlock;
    DirectoryChain, "directory-chain", Directories, Stopping,
        "directory {ino}, block {file_block}: there is no entry at byte \
         {found}", RebuildDirectoryBlock;
    DirectoryNoChecksum, "directory-no-checksum", Directories, Error,
        "directory {ino}, block {file_block}: there is no checksum", RewriteChecksum;
    DirectoryChecksum, "directory-checksum", Directories, Error,
        "directory {ino}, block {file_block}: the checksum is {found}, should be \
         {expected}", RewriteChecksum;
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
        "directory {ino}, block {file_block}: {name} is there again", RemoveEntry;
    EntryNameEmpty, "entry-name-empty", Directories, Error,
        "directory {ino}, block {file_block}: an entry for inode {other} has no name", RemoveEntry;
    EntryNameIllegal, "entry-name-illegal", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} has a slash or a zero \
         byte", RewriteEntry;
    EntryNameShort, "entry-name-short", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} is too short for an encrypted \
         one", RemoveEntry;
    EntryNameEncoding, "entry-name-encoding", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} is not in the encoding of the \
         volume", RewriteEntry;
    EntryTwice, "entry-twice", Directories, Error,
        "directory {ino}, block {file_block}: the name {name} is there twice", RewriteEntry;
    EntryTwiceApart, "entry-twice-apart", Directories, Advice,
        "directory {ino}, block {file_block}: the name {name} is in block {found} \
         too", RewriteEntry;
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
    EntryUnencrypted, "entry-unencrypted", Directories, Error,
        "directory {ino}: {name} is inode {other}, which is not encrypted as the directory is",
        RemoveEntry;
    EntryPolicy, "entry-policy", Directories, Error,
        "directory {ino}: {name} is inode {other}, which has another encryption policy",
        RemoveEntry;
    EntryTyped, "entry-typed", Directories, Error,
        "directory {ino}: {name} has type {found}, but the volume keeps none", RewriteEntry;
    DirectoryTwice, "directory-twice", Directories, Error,
        "directory {ino}: {name} is directory {other}, which has a name already", RemoveEntry;
    // The index.
    IndexRoot, "index-root", Directories, Error,
        "directory {ino}: there is no root of an index in its first block", RebuildIndex;
    IndexHashVersion, "index-hash-version", Directories, Error,
        "directory {ino}: the index is sorted by an unknown hash, number {found}", RebuildIndex;
    IndexFlags, "index-flags", Directories, Error,
        "directory {ino}: the root of the index has flags {found}", RebuildIndex;
    IndexLevels, "index-levels", Directories, Error,
        "directory {ino}: the index has {found} levels below its root, at most {expected} are \
         possible", RebuildIndex;
    IndexLimit, "index-limit", Directories, Error,
        "directory {ino}, block {file_block}: the index has room for {found} entries, should have \
         for {expected}", RebuildIndex;
    IndexCount, "index-count", Directories, Error,
        "directory {ino}, block {file_block}: the index has {found} entries, {expected} at most \
         fit", RebuildIndex;
    IndexOrder, "index-order", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} of the index follows a higher \
         one", RebuildIndex;
    IndexOutside, "index-outside", Directories, Error,
        "directory {ino}, block {file_block}: the index points to block {found} of the \
         directory", RebuildIndex;
    IndexTwice, "index-twice", Directories, Error,
        "directory {ino}, block {file_block}: the index points to it twice", RebuildIndex;
    IndexUnreferenced, "index-unreferenced", Directories, Error,
        "directory {ino}, block {file_block}: the index does not point to it", RebuildIndex;
    IndexDepth, "index-depth", Directories, Error,
        "directory {ino}, block {file_block}: its names are {found} levels below the root, should \
         be {expected}", RebuildIndex;
    IndexBelow, "index-below", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} is below what the index has there, \
         {expected} and more", RebuildIndex;
    IndexAbove, "index-above", Directories, Error,
        "directory {ino}, block {file_block}: hash {found} is above what the index has there, \
         {expected} at most", RebuildIndex;
    IndexChecksum, "index-checksum", Directories, Error,
        "directory {ino}, block {file_block}: the checksum of the index is {found}, should be \
         {expected}", RewriteChecksum;
    // Connectivity and links.
    RootMissing, "root-missing", Connectivity, Stopping,
        "there is no root directory", CreateDirectory;
    RootNotDirectory, "root-not-directory", Connectivity, Stopping,
        "the root is no directory", CreateDirectory;
    DotDotWrong, "dot-dot-wrong", Connectivity, Error,
        "directory {ino}: '..' is inode {found}, should be {expected}", RewriteEntry;
    DirectoryUnreachable, "directory-unreachable", Connectivity, Error,
        "directory {ino} is not reached from the root; its '..' is inode \
         {other}", ReconnectToLostFound;
    LinkCount, "link-count", Links, Error,
        "inode {ino}: it counts {found} links, {expected} were found", Recount;
    InodeUnattached, "inode-unattached", Links, Error,
        "inode {ino} is in use, but no directory has an entry for it", ReconnectToLostFound;
    ValueReferences, "value-references", Links, Error,
        "inode {ino}, the value of an attribute, counts {found} attributes that have it, \
         {expected} do", Recount;
    // Bitmaps and counters.
    BlockBitmapChecksum, "block-bitmap-checksum", Bitmaps, Error,
        "group {group}: the checksum of the block bitmap in block {block} is \
         wrong", RewriteChecksum;
    BlockBitmapPadding, "block-bitmap-padding", Bitmaps, Error,
        "group {group}: the block bitmap in block {block} is not set after its end", RewriteBitmap;
    BlocksMarkedFree, "blocks-marked-free", Bitmaps, Error,
        "group {group}: {found} blocks are marked free but in use, block {block} \
         first", RewriteBitmap;
    BlocksMarkedUsed, "blocks-marked-used", Bitmaps, Error,
        "group {group}: {found} blocks are marked in use but free, block {block} \
         first", RewriteBitmap;
    InodeBitmapChecksum, "inode-bitmap-checksum", Bitmaps, Error,
        "group {group}: the checksum of the inode bitmap in block {block} is \
         wrong", RewriteChecksum;
    InodeBitmapPadding, "inode-bitmap-padding", Bitmaps, Error,
        "group {group}: the inode bitmap in block {block} is not set after its end", RewriteBitmap;
    InodesMarkedFree, "inodes-marked-free", Bitmaps, Error,
        "group {group}: {found} inodes are marked free but in use, inode {ino} \
         first", RewriteBitmap;
    InodesMarkedUsed, "inodes-marked-used", Bitmaps, Error,
        "group {group}: {found} inodes are marked in use but free, inode {ino} \
         first", RewriteBitmap;
    GroupFreeBlocks, "group-free-blocks", Bitmaps, Error,
        "group {group}: {found} free blocks are counted, should be {expected}", Recount;
    GroupFreeInodes, "group-free-inodes", Bitmaps, Error,
        "group {group}: {found} free inodes are counted, should be {expected}", Recount;
    GroupDirectories, "group-directories", Bitmaps, Error,
        "group {group}: {found} directories are counted, should be {expected}", Recount;
    FreeBlocks, "free-blocks", Bitmaps, Advice,
        "{found} free blocks are counted in the superblock, should be {expected}", Recount;
    QuotaUsage, "quota-usage", Bitmaps, Error,
        "the quota file in inode {ino} differs from what is used for {found} ids", RewriteQuota;
    QuotaFile, "quota-file", Bitmaps, Error,
        "inode {ino} is no quota file", RewriteQuota;
    FreeInodes, "free-inodes", Bitmaps, Advice,
        "{found} free inodes are counted in the superblock, should be {expected}", Recount;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_rule_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (index, rule) in CODES.iter().enumerate() {
            assert_eq!(rule.code as usize, index);
            assert!(names.insert(rule.name), "{} is there twice", rule.name);
            assert!(
                rule.name
                    .bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
            );
        }
    }
}
