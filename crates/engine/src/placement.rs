//! Which group a new directory or inode goes to: pure functions of facts.
use extant_format::GroupNo;

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
    /// All groups.
    pub groups: &'a dyn Fn(GroupNo) -> GroupFacts,
    /// How many.
    pub group_count: u32,
    /// Inodes of each group.
    pub inodes_per_group: u32,
    /// Blocks of each group.
    pub blocks_per_group: u32,
    /// Groups of a flex group; 1 without.
    pub groups_per_flex: u32,
    /// Sums.
    pub free_blocks: u64,
    /// Sums.
    pub free_inodes: u64,
    /// Sums.
    pub directories: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    /// The group of the parent directory's inode.
    pub parent: GroupNo,
    /// Whether the parent is the root or marked as the top of a hierarchy.
    pub parent_is_top: bool,
    /// A hash of the new name: what stands for chance.
    pub name_hash: u32,
}

/// Decides groups. Reads facts, touches nothing.
pub trait Placement: Send + Sync {
    /// The group for a new directory's inode; `None` when no group has a free inode.
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo>;
    /// The group for any other new inode.
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo>;
}
