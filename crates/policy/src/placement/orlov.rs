//! Orlov's rule, the result of the first post, in three versions. Directories at the top of a
//! hierarchy are spread. All others stay near their parent unless its group is too full, has too
//! many directories, or is in debt.
//!
//! - `orlov-2.5`, as it was (ext2 of Linux 2.5.46): groups for the top are looked through from
//!   group 0 on; files are placed as before.
//! - `orlov`, as it became (ext2 of 2.6): from a random group on, so that top-level directories do
//!   not crowd the front; a file wants a group with a free block too, and looks for it from its
//!   directory's group plus its directory's number, so that files of different directories of one
//!   full group do not meet again.
//! - `orlov-ext3`, the same in ext3, which computes the limit of the debt and never looks at it.
use super::near::{near, near_by_directory};
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// What a directory is assumed to cost its group, in inodes.
const INODE_COST: u64 = 64;
/// The same in blocks.
const BLOCK_COST: u64 = 256;
/// Largest value of a group's debt.
const DEBT_MAX: u64 = 255;

/// Orlov's rule with one group as the unit: see the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orlov {
    /// As it was: the top from group 0 on.
    First,
    /// As it became: the top from a random group on; a file wants a free block too.
    Random,
    /// The same without a look at the debt.
    Ext3,
}

impl Placement for Orlov {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let limits = match self {
            Orlov::First | Orlov::Random => Limits::new(facts),
            Orlov::Ext3 => Limits { debt: u64::MAX, ..Limits::new(facts) },
        };
        let allows = |group| limits.allow(facts, group);
        match self {
            Orlov::First => directory(&PlacementFacts { name_hash: 0, ..*facts }, allows),
            Orlov::Random | Orlov::Ext3 => directory(facts, allows),
        }
    }
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        match self {
            Orlov::First => near(facts),
            Orlov::Random | Orlov::Ext3 => near_by_directory(facts),
        }
    }
}

/// A directory at the top goes to the group with fewest directories, starting from a random one.
/// Any other goes to the first group from its parent's on that `allows` it.
pub(super) fn directory(
    facts: &PlacementFacts<'_>,
    allows: impl Fn(GroupNo) -> bool,
) -> Option<GroupNo> {
    if facts.group_count == 0 {
        return None;
    }
    if facts.parent_is_top {
        let start = GroupNo(facts.name_hash % facts.group_count);
        return least_crowded(facts, start).or_else(|| facts.any_from(start));
    }
    facts.cyclic(facts.parent).find(|group| allows(*group)).or_else(|| facts.any_from(facts.parent))
}

/// The group with fewest directories among those with at least the average of free inodes and
/// blocks: the first of equals from `start` on.
fn least_crowded(facts: &PlacementFacts<'_>, start: GroupNo) -> Option<GroupNo> {
    let inodes = facts.average_inodes(facts.group_count);
    let blocks = facts.average_blocks(facts.group_count);
    let mut fewest = facts.inodes_per_group;
    let mut best = None;
    for group in facts.cyclic(start) {
        let here = facts.group(group);
        let roomy = u64::from(here.free_inodes) >= inodes && u64::from(here.free_blocks) >= blocks;
        if here.free_inodes > 0 && here.directories < fewest && roomy {
            (best, fewest) = (Some(group), here.directories);
        }
    }
    best
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
    /// Less debt than this.
    pub(super) debt: u64,
}

impl Limits {
    pub(super) fn new(facts: &PlacementFacts<'_>) -> Limits {
        let groups = u64::from(facts.group_count.max(1));
        let inodes_per_group = u64::from(facts.inodes_per_group);
        let blocks_per_group = u64::from(facts.blocks_per_group);
        let blocks_per_directory =
            facts.blocks.saturating_sub(facts.free_blocks) / facts.directories.max(1);
        let debt = (blocks_per_group / blocks_per_directory.max(BLOCK_COST))
            .min(inodes_per_group / INODE_COST);
        Limits {
            directories: facts.directories / groups + inodes_per_group / 16,
            // In Linux these may be negative and then exclude no group, as 0 does.
            inodes: facts.average_inodes(facts.group_count).saturating_sub(inodes_per_group / 4),
            blocks: facts.average_blocks(facts.group_count).saturating_sub(blocks_per_group / 4),
            debt: debt.clamp(1, DEBT_MAX),
        }
    }

    fn allow(&self, facts: &PlacementFacts<'_>, group: GroupNo) -> bool {
        let here = facts.group(group);
        here.free_inodes > 0
            && u64::from(here.debt) < self.debt
            && u64::from(here.directories) < self.directories
            && u64::from(here.free_inodes) >= self.inodes
            && u64::from(here.free_blocks) >= self.blocks
    }
}
