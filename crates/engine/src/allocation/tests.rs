//! Each policy against plans worked out by hand.
use super::*;
use extant_format::Run;

/// Block 5 of a file of inode 9000, in group 4 of groups of 1000 blocks, of a volume of 16500 blocks; nothing known yet.
fn facts() -> AllocationFacts {
    AllocationFacts {
        ino: Ino(9000),
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
        stream: Stream::default(),
    }
}

/// The goal, of these facts changed so.
fn goal(policy: &dyn Allocation, change: impl FnOnce(&mut AllocationFacts)) -> u64 {
    let mut facts = facts();
    change(&mut facts);
    policy.plan(&facts).goal.0
}

#[test]
fn goals_of_ext2_in_turn() {
    let stream = |block, goal| Stream {
        next_block: FileBlock(block),
        next_goal: BlockNo(goal),
    };
    let all = |facts: &mut AllocationFacts| {
        facts.stream = stream(4, 700);
        facts.previous = Some((FileBlock(3), BlockNo(800)));
        facts.map_block = Some(BlockNo(900));
    };
    assert_eq!(goal(&Ext2Goal, all), 701, "behind the last allocation");
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

#[test]
fn multi_block_goes_on_where_the_file_would_be() {
    let previous =
        |block, place| move |facts: &mut AllocationFacts| facts.previous = Some((FileBlock(block), BlockNo(place)));
    assert_eq!(goal(&MultiBlock, previous(4, 700)), 701);
    assert_eq!(goal(&MultiBlock, previous(2, 700)), 703, "a hole keeps its place");
    assert_eq!(
        goal(&MultiBlock, previous(2, 16_498)),
        4001,
        "no goal outside the volume"
    );
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
    assert_eq!(
        goal(&MultiBlock, flex(2, Purpose::Directory)),
        6001,
        "too small a flex group"
    );
    assert_eq!(goal(&MultiBlock, flex(16, Purpose::Data)), 1001);
    let last = |facts: &mut AllocationFacts| {
        (facts.groups_per_flex, facts.group, facts.group_start) = (16, GroupNo(16), BlockNo(16_001));
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
    assert_eq!(
        look_for(|facts| (facts.file_blocks, facts.purpose) = (100, Purpose::Map)),
        3
    );
    assert_eq!(MultiBlock.delayed(), Delay::AtWriteBack);
}

#[test]
fn packed_keeps_two_cursors_apart_or_has_one() {
    let of = |purpose| AllocationFacts { purpose, ..facts() };
    let give = |policy: &Packed, purpose, start, length| {
        policy.given(
            &of(purpose),
            Run {
                start: BlockNo(start),
                length,
            },
        );
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
