//! What is said of a kind of problem: how much it matters, which pass finds it, what would repair
//! it.
use serde::Serialize;
use std::fmt;

/// How much a problem matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing that harms a user of the volume: the exit code is as without it.
    Advice,
    /// The volume is damaged: exit code 4.
    Error,
    /// The volume is damaged, and what depends on this cannot be judged until it is repaired: exit
    /// code 4 + 8.
    Stopping,
    /// Nothing can be checked: exit code 8.
    Fatal,
}

/// The passes, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// The superblock, descriptors and the journal.
    Volume,
    /// Inodes and their maps.
    Inodes,
    /// Blocks that two files claim.
    Duplicates,
    /// The blocks of directories.
    Directories,
    /// What is reached from the root.
    Connectivity,
    /// Link counts.
    Links,
    /// Bitmaps and counters.
    Bitmaps,
}

/// What a repair does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Nothing that a program should do by itself.
    None,
    /// Write the superblock (or its copies) anew.
    RewriteSuperblock,
    /// Write the group descriptor anew.
    RewriteDescriptor,
    /// Give the group a bitmap or an inode table elsewhere.
    RelocateMetadata,
    /// Replay or clear the journal.
    RecoverJournal,
    /// Make the journal anew.
    RecreateJournal,
    /// Free the inode.
    ClearInode,
    /// Set a field of the inode to what is expected.
    RewriteInode,
    /// Clear the pointer or extent to a block.
    ClearPointer,
    /// Build the inode's map anew from what is left of it.
    RebuildMap,
    /// Give each file its own copy of a shared block.
    CopyBlock,
    /// Clear the attribute, or the attribute block.
    ClearAttributes,
    /// Remove the entry from its directory.
    RemoveEntry,
    /// Set a field of the directory entry to what is expected.
    RewriteEntry,
    /// Write the directory block's entries anew from what is left of them.
    RebuildDirectoryBlock,
    /// Build the directory's index anew.
    RebuildIndex,
    /// Give the inode a name in `lost+found`.
    ReconnectToLostFound,
    /// Make the directory (the root, `lost+found`) anew.
    CreateDirectory,
    /// Store the count that was found.
    Recount,
    /// Write the bitmap anew.
    RewriteBitmap,
    /// Compute the checksum anew.
    RewriteChecksum,
    /// Write the quota file anew.
    RewriteQuota,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Repair::None => "nothing that a program should do by itself",
            Repair::RewriteSuperblock => "write the superblock, or its copies, anew",
            Repair::RewriteDescriptor => "write the group descriptor anew",
            Repair::RelocateMetadata => "give the group a bitmap or an inode table elsewhere",
            Repair::RecoverJournal => "replay or clear the journal",
            Repair::RecreateJournal => "make the journal anew",
            Repair::ClearInode => "free the inode",
            Repair::RewriteInode => "set a field of the inode to what is expected",
            Repair::ClearPointer => "clear the pointer or extent that leads to the block",
            Repair::RebuildMap => "build the inode's map anew from what is left of it",
            Repair::CopyBlock => "give each file its own copy of a shared block",
            Repair::ClearAttributes => "clear the attribute, or the attribute block",
            Repair::RemoveEntry => "remove the entry from its directory",
            Repair::RewriteEntry => "set a field of the directory entry to what is expected",
            Repair::RebuildDirectoryBlock => {
                "write the entries of the directory block anew from what is left of them"
            }
            Repair::RebuildIndex => "build the directory's index anew",
            Repair::ReconnectToLostFound => "give the inode a name in lost+found",
            Repair::CreateDirectory => "make the directory anew",
            Repair::Recount => "store the count that was found",
            Repair::RewriteBitmap => "write the bitmap anew",
            Repair::RewriteChecksum => "compute the checksum anew",
            Repair::RewriteQuota => "write the quota file anew",
        })
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Advice => "advice",
            Severity::Error => "error",
            Severity::Stopping => "stopping",
            Severity::Fatal => "fatal",
        })
    }
}
