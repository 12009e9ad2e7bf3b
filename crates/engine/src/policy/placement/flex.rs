//! `flex`: ext4's form of Orlov's rule (Linux 2.6.28 and later). Statistics and limits are those of
//! whole flex groups, there is no debt, and inodes go to the first group of a flex group that has a
//! free one. Files stay in the flex group of their directory. Without flex groups each group counts
//! as one.
use super::{Placement, PlacementFacts};
use extant_format::GroupNo;

/// Orlov's rule with a flex group as the unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flex;

impl Placement for Flex {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let units = unit_count(facts);
        if units == 0 {
            return None;
        }
        if facts.parent_is_top {
            return least_crowded(facts, facts.name_hash % units)
                .or_else(|| facts.any_from(facts.parent));
        }
        orlov(facts, unit_of(facts, facts.parent))
    }

    /// The parent's flex group if it has a free inode; else as for a directory that is not at the
    /// top, from the next flex group on.
    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let units = unit_count(facts);
        if units == 0 {
            return None;
        }
        let own = unit_of(facts, facts.parent);
        first_with_inode(facts, own).or_else(|| orlov(facts, (own + 1) % units))
    }
}

fn unit_count(facts: &PlacementFacts<'_>) -> u32 {
    facts.group_count.div_ceil(facts.groups_per_flex.max(1))
}

fn unit_of(facts: &PlacementFacts<'_>, group: GroupNo) -> u32 {
    group.0 / facts.groups_per_flex.max(1)
}

/// All flex groups once, starting with this one and wrapping around.
fn cyclic(facts: &PlacementFacts<'_>, first: u32) -> impl Iterator<Item = u32> + use<> {
    (first..unit_count(facts)).chain(0..first)
}

fn first_with_inode(facts: &PlacementFacts<'_>, unit: u32) -> Option<GroupNo> {
    facts.flex_groups(unit).map(GroupNo).find(|group| facts.has_inode(*group))
}

/// Sums over a flex group.
#[derive(Clone, Copy, Default)]
struct Sums {
    free_blocks: u64,
    free_inodes: u64,
    directories: u64,
}

fn sums(facts: &PlacementFacts<'_>, unit: u32) -> Sums {
    facts.flex_groups(unit).map(|group| facts.group(GroupNo(group))).fold(
        Sums::default(),
        |sums, here| Sums {
            free_blocks: sums.free_blocks + u64::from(here.free_blocks),
            free_inodes: sums.free_inodes + u64::from(here.free_inodes),
            directories: sums.directories + u64::from(here.directories),
        },
    )
}

/// The flex group with fewest directories among those with at least the average of free inodes and
/// blocks.
fn least_crowded(facts: &PlacementFacts<'_>, start: u32) -> Option<GroupNo> {
    let units = unit_count(facts);
    let (inodes, blocks) = (facts.average_inodes(units), facts.average_blocks(units));
    // The number of one group even for flex groups, as in ext4.
    let mut fewest = u64::from(facts.inodes_per_group);
    let mut best = None;
    for unit in cyclic(facts, start) {
        let here = sums(facts, unit);
        let roomy = here.free_inodes >= inodes && here.free_blocks >= blocks;
        if here.free_inodes > 0 && here.directories < fewest && roomy {
            (best, fewest) = (Some(unit), here.directories);
        }
    }
    best.and_then(|unit| first_with_inode(facts, unit))
}

/// The first flex group from this one on that meets the limits.
fn orlov(facts: &PlacementFacts<'_>, start: u32) -> Option<GroupNo> {
    let units = unit_count(facts);
    let scale = u64::from(facts.groups_per_flex.max(1));
    let unit_inodes = u64::from(facts.inodes_per_group).saturating_mul(scale);
    let unit_blocks = u64::from(facts.blocks_per_group).saturating_mul(scale);
    let directories_max = facts.directories / u64::from(units.max(1)) + unit_inodes / 16;
    let inodes_min = facts.average_inodes(units).saturating_sub(unit_inodes / 4).max(1);
    let blocks_min = facts.average_blocks(units).saturating_sub(unit_blocks / 4).max(1);
    let good = |unit: &u32| {
        let here = sums(facts, *unit);
        here.directories < directories_max
            && here.free_inodes >= inodes_min
            && here.free_blocks >= blocks_min
    };
    let found = cyclic(facts, start).find(good).and_then(|unit| first_with_inode(facts, unit));
    found.or_else(|| facts.any_from(facts.parent))
}
