//! Which group a new directory or inode goes to: pure functions of facts.
//!
//! ```text
//! spread    where most blocks are free     near      in the parent's group
//! orlov     near the parent unless crowded, in the forms of Linux      dirpref   BSD's
//! flex      the same by flex groups; front, from the front on          packed    the first
//! ```
//! A policy is a file here, a line of this map and of `pub use`, and a row in
//! `preset/columns.rs`.
mod dirpref;
mod flex;
mod near;
mod orlov;
mod packed;
mod spread;

pub use dirpref::Dirpref;
pub use flex::{Flex, Front};
pub use near::Parent;
pub use orlov::Orlov;
pub use packed::Packed;
pub use spread::Spread;

use extant_format::{GroupNo, Ino};
use std::ops::Range;

/// What a policy may know of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupFacts {
    /// Free blocks.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
    /// Orlov's counter in memory: +1 for a directory made there, -1 for a file, within 0..=255.
    pub debt: u8,
}

/// What a policy may know of the volume and of the parent.
#[derive(Clone, Copy)]
pub struct PlacementFacts<'a> {
    /// Facts of each group.
    pub groups: &'a dyn Fn(GroupNo) -> GroupFacts,
    /// Number of groups.
    pub group_count: u32,
    /// Inodes in a group.
    pub inodes_per_group: u32,
    /// Blocks in a group.
    pub blocks_per_group: u32,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Groups in a flex group; 1 without flex groups.
    pub groups_per_flex: u32,
    /// Free blocks of all groups.
    pub free_blocks: u64,
    /// Free inodes of all groups.
    pub free_inodes: u64,
    /// Directories in all groups.
    pub directories: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    /// The group of the parent directory's inode.
    pub parent: GroupNo,
    /// The parent directory's inode.
    pub parent_inode: Ino,
    /// Whether the parent is the root or marked as the top of a hierarchy.
    pub parent_is_top: bool,
    /// A hash of the new name, used instead of a random number.
    pub name_hash: u32,
}

/// Decides the group of new inodes. Reads facts and changes nothing.
pub trait Placement: Send + Sync {
    /// The group for a new directory's inode; `None` if no group has a free inode.
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo>;
    /// The group for any other new inode.
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo>;
}

impl PlacementFacts<'_> {
    /// What is known of one group.
    fn group(&self, group: GroupNo) -> GroupFacts {
        (self.groups)(group)
    }

    fn has_inode(&self, group: GroupNo) -> bool {
        self.group(group).free_inodes > 0
    }

    /// All groups once, starting with this one and wrapping around.
    fn cyclic(&self, first: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        (first.0..self.group_count).chain(0..first.0.min(self.group_count)).map(GroupNo)
    }

    /// Free inodes divided by `parts`.
    fn average_inodes(&self, parts: u32) -> u64 {
        self.free_inodes / u64::from(parts.max(1))
    }

    /// Free blocks divided by `parts`.
    fn average_blocks(&self, parts: u32) -> u64 {
        self.free_blocks / u64::from(parts.max(1))
    }

    /// The groups of a flex group.
    fn flex_groups(&self, flex: u32) -> Range<u32> {
        let first = flex.saturating_mul(self.groups_per_flex.max(1)).min(self.group_count);
        first..first.saturating_add(self.groups_per_flex.max(1)).min(self.group_count)
    }

    /// The last resort of Orlov's rules: the first group from this one on with at least the average
    /// of free inodes; else the first with any.
    fn any_from(&self, first: GroupNo) -> Option<GroupNo> {
        let average = self.average_inodes(self.group_count);
        let enough = |group: &GroupNo| {
            let free = self.group(*group).free_inodes;
            free > 0 && u64::from(free) >= average
        };
        self.cyclic(first)
            .find(enough)
            .or_else(|| self.cyclic(first).find(|group| self.has_inode(*group)))
    }
}

#[cfg(test)]
mod tests;
