//! Each policy against plans worked out by hand.
use super::*;

/// Block 5 of a file of inode 9000, in group 4 of groups of 1000 blocks, of a volume of 16500
/// blocks; nothing known yet.
fn facts() -> AllocationFacts {
    AllocationFacts {
        ino: Ino(9000),
        file_type: Some(FileType::Regular),
        group: GroupNo(4),
        group_start: BlockNo(4001),
        groups_per_flex: 1,
        blocks_per_group: 1000,
        first_data_block: 1,
        blocks: 16_500,
        purpose: Purpose::Data,
        file_block: FileBlock(5),
        want: 3,
        file_blocks: 8,
        previous: None,
        map_block: None,
        stream: LastAllocation::default(),
        window: None,
        process: 0,
    }
}

/// The goal for these facts after `change`.
fn goal(policy: &dyn Allocation, change: impl FnOnce(&mut AllocationFacts)) -> u64 {
    let mut facts = facts();
    change(&mut facts);
    policy.plan(&facts).goal.0
}

#[test]
fn goals_of_ext2_in_turn() {
    let stream =
        |block, goal| LastAllocation { next_block: FileBlock(block), next_goal: BlockNo(goal) };
    let all = |facts: &mut AllocationFacts| {
        facts.stream = stream(4, 700);
        facts.previous = Some((FileBlock(3), BlockNo(800)));
        facts.map_block = Some(BlockNo(900));
    };
    assert_eq!(goal(&Ext2Goal, all), 701, "after the last allocation");
    for other in [stream(5, 700), stream(3, 700), stream(4, 0)] {
        let change = |facts: &mut AllocationFacts| {
            all(facts);
            facts.stream = other;
        };
        assert_eq!(goal(&Ext2Goal, change), 800, "the previous pointer's block");
    }
    assert_eq!(
        goal(&Ext2Goal, |facts| facts.map_block = Some(BlockNo(900))),
        900,
        "the indirect block"
    );
    assert_eq!(goal(&Ext2Goal, |_| {}), 4001, "the inode's group");
    let attribute = |facts: &mut AllocationFacts| {
        all(facts);
        facts.purpose = Purpose::Attribute;
    };
    assert_eq!(goal(&Ext2Goal, attribute), 4001);
    for outside in [0, 16_499, u64::MAX] {
        assert_eq!(
            goal(&Ext2Goal, |facts| facts.stream = stream(4, outside)),
            4001,
            "no goal outside the volume"
        );
    }
}

#[test]
fn the_second_block_of_a_file_just_opened_does_not_go_to_block_1() {
    let change = |facts: &mut AllocationFacts| {
        facts.file_block = FileBlock(1);
        facts.previous = Some((FileBlock(0), BlockNo(4500)));
    };
    assert_eq!(goal(&Ext2Goal, change), 4500);
}

#[test]
fn ext2_gives_blocks_at_the_write_and_eight_of_them() {
    let plan = Ext2Goal.plan(&facts());
    assert_eq!((plan.length, plan.search), (3, Search::GoalThenByte));
    assert_eq!((Ext2Goal.delayed(), Ext2Goal.preallocate()), (Delay::AtWrite, 8));
}

/// A stream whose last block was `block`, at block `goal` of the volume.
fn stream(block: u32, goal: u64) -> LastAllocation {
    LastAllocation { next_block: FileBlock(block), next_goal: BlockNo(goal) }
}

#[test]
fn freebsd_5_2_is_ext2_without_preallocation_but_for_what_it_remembers_of_a_new_file() {
    for change in [
        |facts: &mut AllocationFacts| facts.stream = stream(4, 700),
        |facts: &mut AllocationFacts| facts.previous = Some((FileBlock(3), BlockNo(800))),
        |facts: &mut AllocationFacts| facts.map_block = Some(BlockNo(900)),
    ] {
        let mut facts = facts();
        change(&mut facts);
        assert_eq!(FreeBsd52.plan(&facts), Ext2Goal.plan(&facts));
        let fixed = FreeBsdFixed.plan(&facts);
        assert_eq!(fixed.goal, Ext2Goal.plan(&facts).goal);
        assert_eq!((fixed.length, fixed.search), (3, Search::FreeRun { blocks: 8 }));
    }
    for policy in [&FreeBsd52 as &dyn Allocation, &FreeBsd2010, &FreeBsdFixed] {
        assert_eq!((policy.delayed(), policy.preallocate()), (Delay::AtWrite, 0));
    }
    let run = Run { start: BlockNo(4100), length: 3 };
    assert_eq!(FreeBsdFixed.remembered(&facts(), run), stream(7, 4102), "block 5 and two more");
    assert_eq!(Ext2Goal.remembered(&facts(), run), stream(7, 4102));
}

#[test]
fn freebsd_5_2_puts_first_blocks_at_the_start_of_the_volume() {
    let first = |facts: &mut AllocationFacts| facts.file_block = FileBlock(0);
    assert_eq!(goal(&FreeBsd52, first), 1, "goal 0 is before the first data block");
    assert_eq!(goal(&Ext2Goal, first), 4001, "the inode's group");
    let directory = |facts: &mut AllocationFacts| {
        first(facts);
        (facts.file_type, facts.purpose) = (Some(FileType::Directory), Purpose::Directory);
        facts.first_data_block = 0;
    };
    assert_eq!(goal(&FreeBsd52, directory), 0, "blocks of 4 KiB begin with block 0");
    // A file of one block that was just opened remembers 0 and 0 too: its next block is raised to.
    let second = |facts: &mut AllocationFacts| {
        facts.file_block = FileBlock(1);
        facts.previous = Some((FileBlock(0), BlockNo(4500)));
    };
    assert_eq!(goal(&FreeBsd52, second), 1);
    assert_eq!(goal(&FreeBsd2010, second), 1);
    let map = |facts: &mut AllocationFacts| {
        (facts.purpose, facts.file_block) = (Purpose::Map, FileBlock(12));
        facts.stream = stream(11, 700);
    };
    assert_eq!(goal(&FreeBsd52, map), 701, "map blocks follow the data");
    let attribute = |facts: &mut AllocationFacts| {
        first(facts);
        facts.purpose = Purpose::Attribute;
    };
    assert_eq!(goal(&FreeBsd52, attribute), 4001);
}

#[test]
fn ext3_begins_a_file_in_the_sixteenth_of_its_process() {
    let first = |process: u32| {
        move |facts: &mut AllocationFacts| {
            (facts.file_block, facts.process) = (FileBlock(0), process);
        }
    };
    // Groups of 1000 blocks: a sixteenth is 62.
    assert_eq!(goal(&Reservation, first(0)), 4001);
    assert_eq!(goal(&Reservation, first(3)), 4001 + 3 * 62);
    assert_eq!(goal(&Reservation, first(15)), 4001 + 15 * 62);
    assert_eq!(goal(&Reservation, first(16)), 4001);
    assert_eq!(goal(&Ext2Goal, first(3)), 4001, "ext2 of 2.4 did not");
    let directory = |facts: &mut AllocationFacts| {
        first(3)(facts);
        (facts.file_type, facts.purpose) = (Some(FileType::Directory), Purpose::Directory);
    };
    assert_eq!(goal(&Reservation, directory), 4001 + 3 * 62, "directories too");
    for known in [
        |facts: &mut AllocationFacts| facts.stream = stream(4, 700),
        |facts: &mut AllocationFacts| facts.previous = Some((FileBlock(3), BlockNo(800))),
        |facts: &mut AllocationFacts| facts.map_block = Some(BlockNo(900)),
        |facts: &mut AllocationFacts| facts.purpose = Purpose::Attribute,
    ] {
        let change = |facts: &mut AllocationFacts| {
            facts.process = 3;
            known(facts);
        };
        assert_eq!(goal(&Reservation, change), goal(&Ext2Goal, known));
    }
    // The last group is short: the volume ends at block 16,500.
    let last = |facts: &mut AllocationFacts| {
        first(15)(facts);
        (facts.group, facts.group_start) = (GroupNo(16), BlockNo(16_001));
    };
    assert_eq!(goal(&Reservation, last), 16_001, "no goal outside the volume");
}

#[test]
fn freebsd_2010_by_hand() {
    // A file written from its start: its blocks, and the map blocks wanted on the way.
    let table: &[(u32, Purpose, u64)] = &[
        (0, Purpose::Data, 4001),
        (1, Purpose::Data, 1),
        (2, Purpose::Data, 2),
        (11, Purpose::Data, 11),
        (12, Purpose::Map, 12),
        (12, Purpose::Data, 12),
        (13, Purpose::Data, 13),
        (1036, Purpose::Map, 1036),
        (1036, Purpose::Map, 1036),
        (1036, Purpose::Data, 1036),
    ];
    let mut memory = LastAllocation::default();
    let mut block = 0;
    for (until, purpose, goal) in table {
        // The blocks between the rows of the table are written too.
        for between in block..*until {
            let facts =
                AllocationFacts { file_block: FileBlock(between), stream: memory, ..facts() };
            memory = FreeBsd2010.remembered(&facts, run_at(9999));
        }
        block = *until;
        let facts = AllocationFacts {
            file_block: FileBlock(*until),
            purpose: *purpose,
            stream: memory,
            previous: until.checked_sub(1).map(|before| (FileBlock(before), BlockNo(5000))),
            ..facts()
        };
        let plan = FreeBsd2010.plan(&facts);
        assert_eq!(
            (plan.goal.0, plan.length, plan.search),
            (*goal, 1, Search::FreeByte),
            "block {until}"
        );
        if *purpose != Purpose::Map {
            memory = FreeBsd2010.remembered(&facts, run_at(9999));
            block = until + 1;
        }
    }
    assert_eq!(memory, stream(1036, 1036), "where the blocks are is never remembered");
}

fn run_at(start: u64) -> Run {
    Run { start: BlockNo(start), length: 1 }
}

#[test]
fn freebsd_2010_elsewhere_than_at_the_end_goes_near_what_is_there() {
    let near = |facts: &mut AllocationFacts| {
        facts.previous = Some((FileBlock(3), BlockNo(800)));
        facts.map_block = Some(BlockNo(900));
    };
    assert_eq!(goal(&FreeBsd2010, near), 800, "nothing remembered: the file was just opened");
    assert_eq!(goal(&FreeBsd2010, |facts| facts.map_block = Some(BlockNo(900))), 900);
    assert_eq!(goal(&FreeBsd2010, |facts| facts.stream = stream(2, 2)), 4001, "a hole before it");
    let again = |facts: &mut AllocationFacts| {
        near(facts);
        facts.stream = stream(5, 5);
    };
    assert_eq!(goal(&FreeBsd2010, again), 5, "the block remembered, once more");
    let attribute = |facts: &mut AllocationFacts| {
        facts.stream = stream(4, 4);
        facts.purpose = Purpose::Attribute;
    };
    assert_eq!(goal(&FreeBsd2010, attribute), 4001);
    let mut hole = facts();
    hole.stream = stream(2, 2);
    assert_eq!(FreeBsd2010.remembered(&hole, run_at(9999)), stream(2, 2), "nor is it raised");
}

#[test]
fn windows_grow_with_their_use() {
    let next =
        |wanted, length, hits| next_window_blocks(Some(WindowFacts { wanted, length, hits }));
    assert_eq!(next_window_blocks(None), 8);
    assert_eq!((next(8, 8, 4), next(8, 8, 5)), (8, 16), "more than half");
    assert_eq!((next(16, 3, 1), next(16, 3, 2)), (16, 32), "half of what it had");
    assert_eq!(
        (next(512, 512, 512), next(1024, 1024, 1024), next(1027, 1027, 1027)),
        (1024, 1027, 1027)
    );
    assert_eq!(next(u32::MAX, 1, u32::MAX), 1027);
}

#[test]
fn regular_files_reserve_and_nobody_else() {
    let search = |file_type, purpose| {
        let facts = AllocationFacts {
            file_type: Some(file_type),
            purpose,
            stream: stream(4, 700),
            ..facts()
        };
        let plan = Reservation.plan(&facts);
        assert_eq!(plan.goal, Ext2Goal.plan(&facts).goal);
        assert_eq!(plan.length, 3);
        plan.search
    };
    let window = Search::Window { owner: Ino(9000), blocks: 8 };
    assert_eq!(search(FileType::Regular, Purpose::Data), window);
    assert_eq!(search(FileType::Regular, Purpose::Map), window);
    assert_eq!(search(FileType::Regular, Purpose::Attribute), Search::GoalThenByte);
    assert_eq!(search(FileType::Directory, Purpose::Directory), Search::GoalThenByte);
    assert_eq!(search(FileType::Directory, Purpose::Map), Search::GoalThenByte);
    assert_eq!(search(FileType::Symlink, Purpose::Data), Search::GoalThenByte);
    let mut grown = facts();
    grown.window = Some(WindowFacts { wanted: 8, length: 8, hits: 8 });
    let longer = Search::Window { owner: Ino(9000), blocks: 16 };
    assert_eq!(Reservation.plan(&grown).search, longer);
    assert_eq!((Reservation.delayed(), Reservation.preallocate()), (Delay::AtWrite, 0));
}

#[test]
fn multi_block_goes_on_where_the_file_would_be() {
    let previous = |block, place| {
        move |facts: &mut AllocationFacts| facts.previous = Some((FileBlock(block), BlockNo(place)))
    };
    assert_eq!(goal(&MultiBlock, previous(4, 700)), 701);
    assert_eq!(goal(&MultiBlock, previous(2, 700)), 703, "a hole keeps its place");
    assert_eq!(goal(&MultiBlock, previous(2, 16_498)), 4001, "no goal outside the volume");
    assert_eq!(goal(&MultiBlock, |_| {}), 4001);
    let far = |facts: &mut AllocationFacts| {
        facts.file_block = FileBlock(u32::MAX);
        facts.previous = Some((FileBlock(0), BlockNo(u64::MAX)));
    };
    assert_eq!(goal(&MultiBlock, far), 4001);
}

#[test]
fn multi_block_keeps_directories_and_data_of_a_flex_group_apart() {
    let flex = |groups, purpose| {
        move |facts: &mut AllocationFacts| {
            (facts.groups_per_flex, facts.purpose) = (groups, purpose);
            (facts.group, facts.group_start) = (GroupNo(6), BlockNo(6001));
        }
    };
    assert_eq!(goal(&MultiBlock, flex(4, Purpose::Directory)), 4001);
    assert_eq!(goal(&MultiBlock, flex(4, Purpose::Data)), 5001);
    assert_eq!(goal(&MultiBlock, flex(4, Purpose::Map)), 5001);
    assert_eq!(goal(&MultiBlock, flex(4, Purpose::Attribute)), 6001);
    assert_eq!(goal(&MultiBlock, flex(2, Purpose::Directory)), 6001, "too small a flex group");
    assert_eq!(goal(&MultiBlock, flex(16, Purpose::Data)), 1001);
    let last = |facts: &mut AllocationFacts| {
        (facts.groups_per_flex, facts.group, facts.group_start) =
            (16, GroupNo(16), BlockNo(16_001));
    };
    assert_eq!(goal(&MultiBlock, last), 16_001, "a last flex group of one group");
}

#[test]
fn multi_block_looks_for_room_for_the_whole_file() {
    let look_for = |change: fn(&mut AllocationFacts)| {
        let mut facts = facts();
        change(&mut facts);
        let plan = MultiBlock.plan(&facts);
        assert_eq!(plan.length, facts.want.max(1));
        match plan.search {
            Search::LongestRun { look_for } => look_for,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(look_for(|_| {}), 3, "8 - 5");
    assert_eq!(look_for(|facts| facts.file_blocks = 100), 95);
    assert_eq!(look_for(|facts| facts.file_blocks = 1 << 40), 2048);
    assert_eq!(look_for(|facts| facts.want = 5000), 5000);
    assert_eq!(look_for(|facts| facts.want = 0), 3);
    assert_eq!(look_for(|facts| (facts.file_blocks, facts.purpose) = (100, Purpose::Map)), 3);
    assert_eq!(MultiBlock.delayed(), Delay::AtWriteBack);
}

#[test]
fn packed_keeps_two_cursors_apart_or_has_one() {
    let of = |purpose| AllocationFacts { purpose, ..facts() };
    let give = |policy: &Packed, purpose, start, length| {
        policy.given(&of(purpose), Run { start: BlockNo(start), length });
    };
    let at = |policy: &Packed| {
        let purposes = [Purpose::Data, Purpose::Directory, Purpose::Map, Purpose::Attribute];
        purposes.map(|purpose| policy.plan(&of(purpose)).goal.0)
    };
    let apart = packed_from(BlockNo(100), BlockNo(500));
    assert_eq!(at(&apart), [500, 100, 100, 100]);
    give(&apart, Purpose::Data, 500, 30);
    give(&apart, Purpose::Map, 100, 1);
    assert_eq!(at(&apart), [530, 101, 101, 101]);
    give(&apart, Purpose::Directory, 530, 2);
    assert_eq!(at(&apart), [530, 532, 532, 532], "metadata that outgrew its region");
    give(&apart, Purpose::Data, 7, 1);
    assert_eq!(at(&apart), [8, 532, 532, 532], "round the end of the volume");
    let one = Packed::default();
    give(&one, Purpose::Map, 20, 1);
    assert_eq!(at(&one), [21; 4]);
    assert_eq!(one.plan(&facts()).search, Search::Sequential);
}

#[test]
fn clusters_lie_where_their_words_say() {
    let full = GroupShape { blocks: 32_768, front: 515 };
    let small = GroupShape { blocks: 600, front: 550 };
    let table: &[(&str, GroupShape, std::ops::Range<u32>)] = &[
        ("metacluster", full, 16_128..16_640),
        ("metacluster(begin)", full, 515..1027),
        ("metacluster(middle,1/32)", full, 15_872..16_896),
        ("metacluster(end,2%)", full, 32_113..32_768),
        ("metacluster(end,100)", full, 32_668..32_768),
        // After metadata in the middle, up to the end of the group. Never more than half of a
        // group.
        ("metacluster(middle,10)", small, 550..560),
        ("metacluster(begin,1/4)", small, 450..600),
        ("metacluster(end,50%)", small, 300..600),
        ("metacluster(middle,100000)", GroupShape { blocks: 100, front: 0 }, 25..75),
        ("metacluster(end,1/64)", GroupShape { blocks: 9, front: 0 }, 8..9),
        ("metacluster(middle,7)", GroupShape { blocks: 0, front: 0 }, 0..0),
    ];
    for (words, shape, expected) in table {
        let MapBlocks::Metacluster(cluster) = words.parse().unwrap() else { panic!("{words}") };
        assert_eq!(&cluster.place(*shape), expected, "{words} of {shape:?}");
        assert_eq!(
            MapBlocks::Metacluster(cluster).to_string().parse(),
            Ok(MapBlocks::Metacluster(cluster))
        );
    }
    assert_eq!("beside".parse(), Ok(MapBlocks::Beside));
    for wrong in [
        "",
        "cluster",
        "metacluster()",
        "metacluster(top)",
        "metacluster(end,)",
        "metacluster(end,0)",
        "metacluster(end,51%)",
        "metacluster(end,1/1)",
        "metacluster(end,1/4097)",
        "metacluster(end,1,2)",
        "metacluster(middle",
        "metacluster(end,-4)",
    ] {
        let told = wrong.parse::<MapBlocks>().unwrap_err().to_string();
        assert!(told.starts_with("unknown ") && told.contains("middle or end"), "{wrong}: {told}");
    }
}

#[test]
fn maps_go_into_clusters_and_everything_else_around() {
    let cluster = MapBlocks::Metacluster(Metacluster::default());
    let route = |map_blocks: MapBlocks, change: &dyn Fn(&mut AllocationFacts)| {
        let mut facts = facts();
        change(&mut facts);
        map_blocks.route(&facts, &Ext2Goal.plan(&facts))
    };
    for purpose in [Purpose::Data, Purpose::Directory, Purpose::Attribute] {
        assert_eq!(route(cluster, &|facts| facts.purpose = purpose), Route::Around);
        assert_eq!(route(MapBlocks::Beside, &|facts| facts.purpose = purpose), Route::Anywhere);
    }
    assert_eq!(route(MapBlocks::Beside, &|facts| facts.purpose = Purpose::Map), Route::Anywhere);
    let map = |facts: &mut AllocationFacts| facts.purpose = Purpose::Map;
    assert_eq!(route(cluster, &map), Route::Inside(BlockNo(4001)), "where the allocation looks");
    let reopened = |facts: &mut AllocationFacts| {
        map(facts);
        facts.previous = Some((FileBlock(4), BlockNo(7000)));
    };
    assert_eq!(route(cluster, &reopened), Route::Inside(BlockNo(7000)), "the block before it");
    let growing = |facts: &mut AllocationFacts| {
        reopened(facts);
        facts.stream = stream(4, 9000);
    };
    assert_eq!(
        route(cluster, &growing),
        Route::Inside(BlockNo(9000)),
        "the last block that it got"
    );
}
