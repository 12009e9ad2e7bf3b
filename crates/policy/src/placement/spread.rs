//! `spread`: the stock rule of ext2 up to Linux 2.4 and 2.5.45, which the first post (2001)
//! measures: a directory goes where most blocks are free, wherever its parent is.
use super::near::near;
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// Spreads directories over the volume; files go near their directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread;

impl Placement for Spread {
    /// Of the groups with at least the average of free inodes, the one with most free blocks; the
    /// first of equals.
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let average = facts.average_inodes(facts.group_count);
        let mut best: Option<(GroupNo, u32)> = None;
        for group in (0..facts.group_count).map(GroupNo) {
            let here = facts.group(group);
            let eligible = here.free_inodes > 0 && u64::from(here.free_inodes) >= average;
            if eligible && best.is_none_or(|(_, most)| here.free_blocks > most) {
                best = Some((group, here.free_blocks));
            }
        }
        // Counts that change meanwhile may leave no group with the average.
        best.map(|(group, _)| group).or_else(|| facts.any_from(GroupNo(0)))
    }
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        near(facts)
    }
}
