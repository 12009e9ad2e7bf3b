//! `dirpref`: BSD's form of the idea of `orlov`: in FreeBSD's ufs since 2001 and in its ext2fs,
//! which the fifth post (2010) measures. Directories at the top go to a group with at least the
//! average of free inodes and blocks, and of these the one with fewest directories, starting from a
//! random one. All others stay in their parent's group, or go to the next one after it, that has
//! three quarters of the average, not too many directories, and not too many made in succession.
//!
//! Nothing here draws the tree to the first groups: in the post, groups 1, 2 and 3 have no
//! directory at all.
use super::near::near;
use super::orlov::directory;
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// How much a directory is assumed to hold, in bytes: 64 files of 16 KiB.
const DIRECTORY_BYTES: u64 = FILES_PER_DIRECTORY * 16 * 1024;
const FILES_PER_DIRECTORY: u64 = 64;
/// Largest value of a group's counter of directories made in succession.
const CONTIGUOUS_MAX: u64 = 255;

/// The BSD rule; files go near their directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dirpref;

impl Placement for Dirpref {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let limits = Limits::new(facts);
        directory(facts, |group| limits.allow(facts, group))
    }
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        near(facts)
    }
}

/// The conditions under which a group gets a directory that is not at the top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// Fewer directories than this.
    pub(super) directories: u64,
    /// At least this many free inodes.
    pub(super) inodes: u64,
    /// At least this many free blocks.
    pub(super) blocks: u64,
    /// Fewer directories than this made in succession, without files between them. The counter is
    /// that of Orlov's debt.
    pub(super) contiguous: u64,
}

impl Limits {
    pub(super) fn new(facts: &PlacementFacts<'_>) -> Limits {
        let inodes_per_group = u64::from(facts.inodes_per_group);
        let inodes = facts.average_inodes(facts.group_count);
        let blocks = facts.average_blocks(facts.group_count);
        let directories = facts.directories / u64::from(facts.group_count.max(1));
        let free_bytes = blocks.saturating_mul(facts.block_size.into());
        let group_bytes = u64::from(facts.blocks_per_group).saturating_mul(facts.block_size.into());
        let used_bytes = group_bytes.saturating_sub(free_bytes);
        let directory_bytes = used_bytes.checked_div(directories).unwrap_or(0).max(DIRECTORY_BYTES);
        let contiguous = (free_bytes / directory_bytes)
            .min(CONTIGUOUS_MAX)
            .min(inodes_per_group / FILES_PER_DIRECTORY);
        Limits {
            directories: (directories + inodes_per_group / 16).min(inodes_per_group),
            inodes: (inodes - inodes / 4).max(1),
            blocks: (blocks - blocks / 4).max(1),
            contiguous: contiguous.max(1),
        }
    }

    fn allow(&self, facts: &PlacementFacts<'_>, group: GroupNo) -> bool {
        let here = facts.group(group);
        u64::from(here.directories) < self.directories
            && u64::from(here.free_inodes) >= self.inodes
            && u64::from(here.free_blocks) >= self.blocks
            && u64::from(here.debt) < self.contiguous
    }
}
