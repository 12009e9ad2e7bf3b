//! Each policy against groups worked out by hand.
use super::*;
use crate::preset::{COLUMNS, Policies};
use std::sync::Arc;

/// All policies that have a name.
fn all() -> Vec<Arc<dyn Placement>> {
    let column = COLUMNS.iter().find(|column| column.name == "placement").unwrap();
    let made = column.choices.iter().map(|choice| {
        let mut policies: Policies = "modern".parse().unwrap();
        (choice.set)(&mut policies);
        policies.placement
    });
    made.collect()
}

/// A group with 1000 inodes and 8000 blocks at most.
fn group(free_inodes: u32, free_blocks: u32, directories: u32) -> GroupFacts {
    GroupFacts { free_blocks, free_inodes, directories, debt: 0 }
}

/// A volume of such groups; sums are those of the groups.
struct Volume {
    groups: Vec<GroupFacts>,
    groups_per_flex: u32,
}

impl Volume {
    fn new(groups: &[GroupFacts]) -> Volume {
        Volume { groups: groups.to_vec(), groups_per_flex: 1 }
    }

    /// Asks with facts of which a test changes some.
    fn ask<R>(
        &self,
        parent: u32,
        change: impl FnOnce(&mut PlacementFacts<'_>),
        ask: impl FnOnce(&PlacementFacts<'_>) -> R,
    ) -> R {
        let sum = |count: fn(&GroupFacts) -> u32| {
            self.groups.iter().map(|group| u64::from(count(group))).sum()
        };
        let groups = |group: GroupNo| self.groups[group.0 as usize];
        let mut facts = PlacementFacts {
            groups: &groups,
            group_count: self.groups.len() as u32,
            inodes_per_group: 1000,
            blocks_per_group: 8000,
            block_size: 4096,
            groups_per_flex: self.groups_per_flex,
            free_blocks: sum(|group| group.free_blocks),
            free_inodes: sum(|group| group.free_inodes),
            directories: sum(|group| group.directories),
            blocks: self.groups.len() as u64 * 8000,
            parent: GroupNo(parent),
            parent_inode: Ino(12),
            parent_is_top: false,
            name_hash: 0,
        };
        change(&mut facts);
        ask(&facts)
    }

    fn directory(&self, policy: &dyn Placement, parent: u32) -> Option<u32> {
        self.ask(parent, |_| {}, |facts| policy.directory(facts)).map(|group| group.0)
    }

    fn top(&self, policy: &dyn Placement, name_hash: u32) -> Option<u32> {
        let top = |facts: &mut PlacementFacts<'_>| {
            (facts.parent_is_top, facts.name_hash) = (true, name_hash)
        };
        self.ask(0, top, |facts| policy.directory(facts)).map(|group| group.0)
    }

    fn inode(&self, policy: &dyn Placement, parent: u32) -> Option<u32> {
        self.ask(parent, |_| {}, |facts| policy.inode(facts)).map(|group| group.0)
    }
}

/// Ten groups of which only these have free inodes.
fn only(open: &[u32]) -> Volume {
    let groups: Vec<GroupFacts> =
        (0..10).map(|at| group(u32::from(open.contains(&at)), 100, 0)).collect();
    Volume::new(&groups)
}

#[test]
fn spread_takes_most_free_blocks_among_those_with_enough_inodes() {
    // Average of free inodes: 500. Group 1 has most blocks but too few inodes; 2 and 3 are equal.
    let volume = Volume::new(&[
        group(600, 10, 0),
        group(100, 900, 0),
        group(500, 700, 0),
        group(800, 700, 0),
    ]);
    for parent in 0..4 {
        assert_eq!(volume.directory(&Spread, parent), Some(2), "the parent is not looked at");
    }
    assert_eq!(only(&[]).directory(&Spread, 0), None);
    assert_eq!(only(&[7]).directory(&Spread, 0), Some(7));
}

#[test]
fn files_go_to_the_parent_then_by_squares_then_one_by_one() {
    for policy in [&Spread as &dyn Placement, &Parent, &Orlov::First, &Dirpref] {
        assert_eq!(only(&[3, 4, 5]).inode(policy, 3), Some(3));
        // From 3: 4, 6, 10 = 0, 18 = 8; then from 5 on one by one: 5, 6, 7, ...
        assert_eq!(only(&[0, 5, 6, 8]).inode(policy, 3), Some(6));
        assert_eq!(only(&[0, 5, 7, 8]).inode(policy, 3), Some(0));
        assert_eq!(only(&[5, 7, 8]).inode(policy, 3), Some(8));
        assert_eq!(only(&[5, 7]).inode(policy, 3), Some(5));
        assert_eq!(only(&[2]).inode(policy, 3), Some(2));
        assert_eq!(only(&[]).inode(policy, 3), None);
    }
    assert_eq!(only(&[4, 5]).directory(&Parent, 3), Some(4), "a directory is placed like a file");
    let one = Volume::new(&[group(1, 0, 0)]);
    assert_eq!(one.inode(&Parent, 0), Some(0));
}

#[test]
fn every_group_is_tried_whatever_the_parent() {
    let all = all();
    for count in 1..40u32 {
        for (parent, open) in
            (0..count).flat_map(|parent| (0..count).map(move |open| (parent, open)))
        {
            let groups: Vec<GroupFacts> =
                (0..count).map(|at| group(u32::from(at == open), 0, 0)).collect();
            let volume = Volume { groups, groups_per_flex: 4 };
            for policy in all.iter().map(|policy| &**policy) {
                assert_eq!(volume.inode(policy, parent), Some(open));
                assert_eq!(volume.directory(policy, parent), Some(open));
                assert_eq!(volume.top(policy, parent), Some(open));
            }
        }
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let volume = Volume::new(&[]);
    for policy in all().iter().map(|policy| &**policy) {
        assert_eq!(
            (volume.inode(policy, 0), volume.directory(policy, 0), volume.top(policy, 7)),
            (None, None, None)
        );
    }
}

#[test]
fn orlov_spreads_the_top_from_a_start_by_chance() {
    // Averages: 500 inodes, 5000 blocks.
    let groups = [
        group(500, 5000, 4),
        group(900, 4000, 0),
        group(500, 6000, 2),
        group(100, 5000, 0),
        group(500, 5000, 2),
    ];
    let volume = Volume::new(&groups);
    assert_eq!(
        volume.top(&Orlov::Random, 0),
        Some(2),
        "fewest directories of 0, 2 and 4; the first of equals from group 0 on"
    );
    assert_eq!(volume.top(&Orlov::Random, 3), Some(4), "the first of equals from group 3 on");
    assert_eq!(
        volume.top(&Orlov::Random, 5 + 3),
        Some(4),
        "the start is the hash modulo the groups"
    );
    // No group has both: the first from the start on with the average of inodes.
    let volume = Volume::new(&[group(100, 6000, 0), group(900, 100, 0), group(900, 100, 0)]);
    assert_eq!(volume.top(&Orlov::Random, 0), Some(1));
    assert_eq!(volume.top(&Orlov::Random, 2), Some(2));
}

#[test]
fn orlov_as_it_was_looks_from_group_0_on_and_ext3_never_looks_at_the_debt() {
    let groups = [group(500, 5000, 4), group(500, 5000, 2), group(500, 5000, 2)];
    let volume = Volume::new(&groups);
    for hash in 0..5 {
        assert_eq!(volume.top(&Orlov::First, hash), Some(1), "the first of equals from group 0");
    }
    assert_eq!(volume.top(&Orlov::Random, 2), Some(2));
    assert_eq!(volume.top(&Orlov::Ext3, 2), Some(2));
    let indebted = groups.map(|group| GroupFacts { debt: 200, ..group });
    let mut one_free = indebted;
    one_free[0].debt = 0;
    let volume = Volume::new(&one_free);
    assert_eq!(volume.directory(&Orlov::First, 1), Some(0));
    assert_eq!(volume.directory(&Orlov::Random, 1), Some(0));
    assert_eq!(volume.directory(&Orlov::Ext3, 1), Some(1));
}

#[test]
fn files_of_2_6_want_a_free_block_too_and_probe_by_their_directory() {
    // (group, free inodes, free blocks); all others have neither.
    let volume = |open: &[(usize, u32, u32)]| {
        let mut groups = [group(0, 0, 0); 10];
        open.iter().for_each(|(at, inodes, blocks)| groups[*at] = group(*inodes, *blocks, 0));
        Volume::new(&groups)
    };
    for policy in [Orlov::Random, Orlov::Ext3] {
        let inode = |open: &[(usize, u32, u32)]| volume(open).inode(&policy, 3);
        assert_eq!(inode(&[(3, 1, 1), (6, 1, 1)]), Some(3));
        // The directory is inode 12: from 3 + 12 = 5 on to 6, 8, 2 and 10 = 0.
        assert_eq!(inode(&[(3, 1, 0), (6, 1, 1), (8, 1, 1)]), Some(6), "no block with the parent");
        assert_eq!(inode(&[(3, 0, 1), (5, 1, 1), (8, 1, 1), (2, 1, 1)]), Some(8));
        assert_eq!(inode(&[(2, 1, 1), (0, 1, 1)]), Some(2));
        assert_eq!(inode(&[(0, 1, 1)]), Some(0));
        // None of these has both: one by one after the parent, an inode is enough.
        assert_eq!(inode(&[(3, 1, 0), (4, 1, 0), (6, 1, 0)]), Some(4));
        assert_eq!(inode(&[(5, 1, 1), (4, 0, 1)]), Some(5), "not probed, found one by one");
        assert_eq!(inode(&[(3, 1, 0)]), Some(3), "the parent's last");
        assert_eq!(inode(&[(3, 0, 1)]), None);
    }
}

#[test]
fn limits_of_orlov_by_hand() {
    // 4 groups, 32000 blocks, 20000 free, 30 directories: 400 blocks a directory, 8000/400 = 20
    // debt, but 1000/64 = 15.
    let groups =
        [group(600, 5000, 10), group(700, 5000, 10), group(300, 5000, 5), group(400, 5000, 5)];
    let limits = Volume::new(&groups).ask(0, |_| {}, orlov::Limits::new);
    let by_hand = orlov::Limits {
        directories: 30 / 4 + 62,
        inodes: 500 - 250,
        blocks: 5000 - 2000,
        debt: 15,
    };
    assert_eq!(limits, by_hand);
    // At least 256 blocks are reckoned; many inodes: 32768/256 = 128.
    let large = |facts: &mut PlacementFacts<'_>| {
        (facts.blocks_per_group, facts.inodes_per_group) = (32768, 8192);
        (facts.blocks, facts.free_blocks) = (131_072, 131_000);
    };
    let limits = Volume::new(&groups).ask(0, large, orlov::Limits::new);
    assert_eq!((limits.debt, limits.blocks), (128, 32750 - 8192));
    // The counter ends at 255; and a limit of 0 would forbid everything.
    let huge = |facts: &mut PlacementFacts<'_>| {
        (facts.blocks_per_group, facts.inodes_per_group) = (524_288, 524_288)
    };
    assert_eq!(Volume::new(&groups).ask(0, huge, orlov::Limits::new).debt, 255);
    let tiny = |facts: &mut PlacementFacts<'_>| facts.inodes_per_group = 16;
    assert_eq!(Volume::new(&groups).ask(0, tiny, orlov::Limits::new).debt, 1);
}

#[test]
fn orlov_stays_near_until_a_limit_is_met() {
    // Limits: see above: under 69 directories, 250 inodes, 3000 blocks, under 15 debt.
    let sound =
        [group(600, 5000, 10), group(700, 5000, 10), group(300, 5000, 5), group(400, 5000, 5)];
    assert_eq!(Volume::new(&sound).directory(&Orlov::Random, 2), Some(2));
    let after = |change: fn(&mut GroupFacts)| {
        let mut groups = sound;
        change(&mut groups[2]);
        Volume::new(&groups).directory(&Orlov::Random, 2)
    };
    assert_eq!(after(|group| group.free_inodes = 200), Some(3), "average 475, less 250: 225");
    assert_eq!(after(|group| group.free_inodes = 225), Some(3), "average 481, less 250: 231");
    assert_eq!(after(|group| group.free_inodes = 260), Some(2), "average 490, less 250: 240");
    assert_eq!(after(|group| group.free_blocks = 2000), Some(3), "average 4250, less 2000: 2250");
    assert_eq!(after(|group| group.free_blocks = 2400), Some(2), "average 4350, less 2000: 2350");
    assert_eq!(after(|group| group.directories = 80), Some(2), "105/4 + 62 = 88");
    assert_eq!(after(|group| group.directories = 120), Some(3), "145/4 + 62 = 98");
    assert_eq!(after(|group| group.debt = 14), Some(2));
    assert_eq!(after(|group| group.debt = 15), Some(3));
}

#[test]
fn orlov_goes_round_and_falls_back() {
    // Everybody in debt: the first from the parent on with the average of inodes (400), else with
    // any.
    let mut groups =
        [group(600, 5000, 0), group(500, 5000, 0), group(100, 5000, 0), group(400, 5000, 0)];
    groups.iter_mut().for_each(|group| group.debt = 200);
    assert_eq!(Volume::new(&groups).directory(&Orlov::Random, 2), Some(3));
    groups[3].free_inodes = 300;
    assert_eq!(Volume::new(&groups).directory(&Orlov::Random, 2), Some(0), "average 375");
    groups[0].debt = 0;
    assert_eq!(Volume::new(&groups).directory(&Orlov::Random, 2), Some(0), "cyclically");
}

/// Two groups a flex group.
fn pairs(groups: &[GroupFacts]) -> Volume {
    Volume { groups: groups.to_vec(), groups_per_flex: 2 }
}

#[test]
fn flex_packs_inodes_into_the_first_groups() {
    let volume =
        pairs(&[group(0, 4000, 0), group(900, 4000, 9), group(800, 4000, 3), group(900, 4000, 3)]);
    assert_eq!(
        volume.inode(&Flex, 0),
        Some(1),
        "in the parent's flex group, the first with a free inode"
    );
    assert_eq!(volume.inode(&Flex, 3), Some(2), "also before the parent");
    assert_eq!(volume.directory(&Flex, 3), Some(2));
    // Averages of the flex groups: 1300 inodes. Only the second has that.
    assert_eq!(volume.top(&Flex, 0), Some(2));
    let full = pairs(&[
        group(0, 4000, 0),
        group(0, 4000, 0),
        group(0, 4000, 0),
        group(5, 4000, 0),
        group(9, 4000, 0),
    ]);
    assert_eq!(full.inode(&Flex, 1), Some(3), "from the next flex group on");
    assert_eq!(full.inode(&Flex, 4), Some(4), "a short last flex group");
    assert_eq!(full.inode(&Flex, 2), Some(3));
}

#[test]
fn front_spreads_what_is_crowded_and_begins_at_the_front() {
    let four = |directories: [u32; 4]| {
        let groups: Vec<GroupFacts> = directories.iter().map(|n| group(900, 7000, *n)).collect();
        Volume { groups, groups_per_flex: 1 }
    };
    let large = |volume: Volume| {
        volume.ask(
            0,
            |facts| {
                (facts.parent_is_top, facts.inodes_per_group, facts.name_hash) = (true, 8192, 3)
            },
            |facts| Front.directory(facts).map(|group| group.0),
        )
    };
    assert_eq!(large(four([2, 0, 0, 0])), Some(0), "the root and lost+found are no crowd");
    assert_eq!(large(four([8, 0, 0, 0])), Some(0), "one inode in 1024");
    assert_eq!(large(four([9, 0, 0, 0])), Some(1));
    assert_eq!(large(four([90, 80, 70, 75])), Some(2), "the fewest");
    assert_eq!(large(four([90, 80, 70, 70])), Some(2), "the first of them");
    let full = [group(0, 7000, 0), group(900, 0, 0), group(900, 7000, 50), group(900, 7000, 60)];
    assert_eq!(large(Volume::new(&full)), Some(2), "with room for a hierarchy");
    let volume = four([9, 0, 0, 0]);
    assert_eq!(volume.directory(&Front, 0), volume.directory(&Flex, 0), "below the top as flex");
    assert_eq!(volume.inode(&Front, 0), Some(0));
}

#[test]
fn flex_has_limits_for_whole_flex_groups_and_no_debt() {
    // Flex averages: 1000 inodes less 2000/4 = 500; 10000 blocks less 4000 = 6000; directories 20/2
    // + 2000/16 = 135.
    let sound =
        [group(500, 5000, 5), group(500, 5000, 5), group(500, 5000, 5), group(500, 5000, 5)];
    let after = |change: fn(&mut GroupFacts)| {
        let mut groups = sound;
        groups[..2].iter_mut().for_each(change);
        pairs(&groups).directory(&Flex, 1)
    };
    assert_eq!(after(|_| {}), Some(0));
    assert_eq!(after(|group| group.debt = 255), Some(0));
    assert_eq!(
        after(|group| group.free_inodes = 200),
        Some(0),
        "400 of an average of 700, less 500: 200"
    );
    assert_eq!(
        after(|group| group.free_inodes = 1),
        Some(0),
        "2 of an average of 501, less 500: 1"
    );
    assert_eq!(after(|group| group.free_inodes = 0), Some(2), "none is never enough");
    assert_eq!(
        after(|group| group.free_blocks = 900),
        Some(2),
        "1800 of an average of 5900, less 4000: 1900"
    );
    assert_eq!(
        after(|group| group.free_blocks = 1100),
        Some(0),
        "2200 of an average of 6100, less 4000: 2100"
    );
    assert_eq!(
        after(|group| group.directories = 150),
        Some(2),
        "300 and more than 310/2 + 125 = 280"
    );
    assert_eq!(
        after(|group| group.directories = 120),
        Some(0),
        "240 and less than 250/2 + 125 = 250"
    );
}

#[test]
fn packed_fills_from_the_front() {
    assert_eq!(only(&[4, 7]).inode(&Packed, 9), Some(4));
    assert_eq!(only(&[4, 7]).directory(&Packed, 5), Some(4));
}

#[test]
fn limits_of_dirpref_by_hand() {
    // 4 groups, 20000 free blocks, 30 directories: averages 500 inodes, 5000 blocks, 7 directories.
    // Of a group 3000 blocks are used: 1755428 bytes a directory, more than 1 MiB; 20480000 free
    // bytes hold 11 of them; 1000/64 = 15.
    let groups =
        [group(600, 5000, 10), group(700, 5000, 10), group(300, 5000, 5), group(400, 5000, 5)];
    let by_hand =
        dirpref::Limits { directories: 30 / 4 + 62, inodes: 375, blocks: 3750, contiguous: 11 };
    let volume = Volume::new(&groups);
    assert_eq!(volume.ask(0, |_| {}, dirpref::Limits::new), by_hand);
    // Hardly anything used: 1 MiB a directory; 31000 * 4096 / 1 MiB = 121; 16288/64 = 254.
    let post = |facts: &mut PlacementFacts<'_>| {
        (facts.blocks_per_group, facts.inodes_per_group) = (32768, 16288);
        (facts.free_blocks, facts.directories) = (4 * 31_000, 3);
    };
    let limits = volume.ask(0, post, dirpref::Limits::new);
    assert_eq!((limits.contiguous, limits.directories, limits.blocks), (121, 1018, 23_250));
    let small_blocks = |facts: &mut PlacementFacts<'_>| {
        post(facts);
        facts.block_size = 1024;
    };
    assert_eq!(volume.ask(0, small_blocks, dirpref::Limits::new).contiguous, 30);
    let huge = |facts: &mut PlacementFacts<'_>| {
        post(facts);
        (facts.block_size, facts.inodes_per_group) = (65536, 65536);
    };
    assert_eq!(volume.ask(0, huge, dirpref::Limits::new).contiguous, 255);
    let full = |facts: &mut PlacementFacts<'_>| {
        (facts.free_blocks, facts.free_inodes, facts.directories) = (0, 0, 0);
    };
    let limits = volume.ask(0, full, dirpref::Limits::new);
    assert_eq!((limits.inodes, limits.blocks, limits.contiguous), (1, 1, 1), "never none");
}

#[test]
fn dirpref_stays_with_the_parent_within_its_limits() {
    let roomy = group(500, 5000, 3);
    let next_of =
        |here: GroupFacts| Volume::new(&[roomy, here, roomy, roomy]).directory(&Dirpref, 1);
    assert_eq!(next_of(roomy), Some(1));
    assert_eq!(next_of(group(370, 5000, 3)), Some(1), "an average of 467: three quarters are 351");
    assert_eq!(next_of(group(200, 5000, 3)), Some(2), "too few inodes");
    assert_eq!(next_of(group(500, 2000, 3)), Some(2), "too few blocks");
    assert_eq!(next_of(group(500, 5000, 100)), Some(2), "too many directories");
    let indebted = |debt| GroupFacts { debt, ..roomy };
    // 12288000 bytes used by 3 directories on the average: 4096000 each, and 20480000 free hold 5.
    assert_eq!(next_of(indebted(4)), Some(1));
    assert_eq!(next_of(indebted(5)), Some(2), "too many one after the other");
    let debts = GroupFacts { debt: 9, ..roomy };
    assert_eq!(
        Volume::new(&[debts; 4]).directory(&Dirpref, 2),
        Some(2),
        "no group fits: the parent's"
    );
}

#[test]
fn dirpref_spreads_the_top_from_a_start_by_chance() {
    let volume = Volume::new(&[group(500, 5000, 2), group(500, 5000, 0), group(500, 5000, 0)]);
    assert_eq!([0, 1, 2].map(|hash| volume.top(&Dirpref, hash)), [Some(1), Some(1), Some(2)]);
}
