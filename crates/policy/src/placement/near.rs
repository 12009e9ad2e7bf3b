//! `parent`: everything near its directory. Also the rules of ext2 and ext3 for files, whatever
//! they do with directories.
//!
//! As in Linux 2.4 (the first post): the parent's group; else a quadratic probe; else a linear
//! search. And as in Linux 2.6: see [`near_by_directory`].
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// A directory is placed as a file is: the `if (0 && ...)` of the first post (2001), which showed
/// the cost of spreading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parent;

impl Placement for Parent {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        near(facts)
    }
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        near(facts)
    }
}

/// The parent's group if it has a free inode; else those 1, 1 + 2, 1 + 2 + 4, ... after it; else
/// one by one from the second after it.
pub(super) fn near(facts: &PlacementFacts<'_>) -> Option<GroupNo> {
    let count = u64::from(facts.group_count);
    let parent = u64::from(facts.parent.0);
    // Less than the number of groups, which is a u32.
    let behind = |distance: u64| GroupNo(((parent + distance) % count.max(1)) as u32);
    let steps = (0..32).map(|power| 1u64 << power).take_while(|step| *step < count);
    let quadratic = steps.map(|step| 2 * step - 1);
    let mut distances = [0].into_iter().chain(quadratic).chain(2..count);
    if count == 0 {
        return None;
    }
    distances.by_ref().map(behind).find(|group| facts.has_inode(*group))
}

/// The rule of 2.6 (ext2 and ext3). The parent's group if it has a free inode and a free block;
/// else, from the group that is the directory's number after it, those 1, 1 + 2, 1 + 2 + 4, ...
/// further that have both; else the first after the parent's with a free inode.
pub(super) fn near_by_directory(facts: &PlacementFacts<'_>) -> Option<GroupNo> {
    let count = u64::from(facts.group_count);
    if count == 0 {
        return None;
    }
    let parent = u64::from(facts.parent.0);
    // Less than the number of groups, which is a u32.
    let at = |place: u64| GroupNo((place % count) as u32);
    let has_both = |group: &GroupNo| {
        let here = facts.group(*group);
        here.free_inodes > 0 && here.free_blocks > 0
    };
    let start = parent + u64::from(facts.parent_inode.0);
    let steps = (0..32).map(|power| 1u64 << power).take_while(|step| *step < count);
    let probed = steps.map(|step| at(start + 2 * step - 1));
    [at(parent)]
        .into_iter()
        .chain(probed)
        .find(has_both)
        .or_else(|| (1..=count).map(|next| at(parent + next)).find(|group| facts.has_inode(*group)))
}
