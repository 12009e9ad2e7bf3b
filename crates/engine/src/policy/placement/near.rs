//! `parent`: everything near its directory. Also the rule of ext2 and ext3 for files, whatever they
//! do with directories.
//!
//! As in Linux 2.4 (the first post): the parent's group; else a quadratic probe; else a linear
//! search.
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
