//! `packed`: for an image that is made in one go: all inodes in succession from the first group on.
//! (A builder makes them in the order in which readdir will return them.)
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// The first group with a free inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed;

impl Placement for Packed {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        self.inode(facts)
    }
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        (0..facts.group_count).map(GroupNo).find(|group| facts.has_inode(*group))
    }
}
