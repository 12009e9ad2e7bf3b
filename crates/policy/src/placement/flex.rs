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

/// As [`Flex`], but directories at the top are spread from the front of the volume on, and only
/// when there is something to keep apart.
///
/// `flex` begins at the hash of the name, so that a volume with one hierarchy has it anywhere, on
/// average in the middle. A disk reads a third to a half faster at its outer edge, where its first
/// blocks are, and seeks are shorter where hierarchies are neighbours. So the first flex group
/// that is roomy and has few directories gets a new hierarchy. Few are up to
/// [`FEW_DIRECTORIES`], which the root and many small directories at the top do not exceed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Front;

/// A flex group with at most this share of its inodes in use for directories counts as having
/// none: one in 1,024. A hierarchy of that size takes a seventieth of the tables.
const FEW_DIRECTORIES: u64 = 1024;

impl Placement for Front {
    fn directory(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        if unit_count(facts) > 0 && facts.parent_is_top {
            let found = Limits::new(facts).first_of_fewest(facts);
            return found.or_else(|| facts.any_from(facts.parent));
        }
        Flex.directory(facts)
    }

    fn inode(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        Flex.inode(facts)
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

/// The conditions under which a flex group gets a directory.
struct Limits {
    /// Inodes of a whole flex group.
    unit_inodes: u64,
    /// Fewer directories than this.
    directories: u64,
    /// At least this many free inodes.
    inodes: u64,
    /// At least this many free blocks.
    blocks: u64,
}

impl Limits {
    fn new(facts: &PlacementFacts<'_>) -> Limits {
        let units = unit_count(facts);
        let scale = u64::from(facts.groups_per_flex.max(1));
        let unit_inodes = u64::from(facts.inodes_per_group).saturating_mul(scale);
        let unit_blocks = u64::from(facts.blocks_per_group).saturating_mul(scale);
        Limits {
            unit_inodes,
            directories: facts.directories / u64::from(units.max(1)) + unit_inodes / 16,
            inodes: facts.average_inodes(units).saturating_sub(unit_inodes / 4).max(1),
            blocks: facts.average_blocks(units).saturating_sub(unit_blocks / 4).max(1),
        }
    }

    fn are_met(&self, here: &Sums) -> bool {
        here.directories < self.directories
            && here.free_inodes >= self.inodes
            && here.free_blocks >= self.blocks
    }

    /// The first of the flex groups that meet the limits and have the fewest directories; a few
    /// count as none.
    fn first_of_fewest(&self, facts: &PlacementFacts<'_>) -> Option<GroupNo> {
        let few = self.unit_inodes / FEW_DIRECTORIES;
        let crowd = |unit: u32| {
            let here = sums(facts, unit);
            self.are_met(&here).then(|| here.directories.saturating_sub(few))
        };
        let units = 0..unit_count(facts);
        let best = units.filter_map(|unit| Some((crowd(unit)?, unit))).min();
        best.and_then(|(_, unit)| first_with_inode(facts, unit))
    }
}

/// The first flex group from this one on that meets the limits.
fn orlov(facts: &PlacementFacts<'_>, start: u32) -> Option<GroupNo> {
    let limits = Limits::new(facts);
    let good = |unit: &u32| limits.are_met(&sums(facts, *unit));
    let found = cyclic(facts, start).find(good).and_then(|unit| first_with_inode(facts, unit));
    found.or_else(|| facts.any_from(facts.parent))
}
