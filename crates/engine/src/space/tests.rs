//! Groups on volumes in memory, against a model that keeps free blocks one by one.
use super::*;
use crate::error::{Corrupt, ErrorKind};
use crate::policy::allocation::{Plan, Route, Search};
use crate::store::handle::Handle;
use crate::store::{Access, DataKeeping, Options};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED};
use extant_format::layout::{Inodes, Layout, Wishes};
use extant_format::superblock::{Feature, HashVersion};
use extant_format::{Fault, Ino, Run};
use proptest::prelude::*;
use std::collections::BTreeSet;

const EXT2: &[Feature] = &[Feature::SPARSE_SUPER, Feature::FILETYPE];
const EXT4: &[Feature] = &[
    Feature::SPARSE_SUPER,
    Feature::FLEX_BG,
    Feature::METADATA_CSUM,
    Feature::SIXTY_FOUR_BIT,
    Feature::EXTENTS,
];
const UNINIT: &[Feature] = &[Feature::SPARSE_SUPER, Feature::UNINIT_BG];

/// Groups of 512 blocks of 1 KiB with 128 inodes (or so): small enough that runs meet every border.
fn wishes(features: &[Feature], blocks: u64) -> Wishes {
    let mut wishes = Wishes {
        block_size: 1024,
        blocks,
        features: Default::default(),
        inode_size: 256,
        inodes: Inodes::BytesPerInode(4096),
        reserved_ratio: 0.05,
        flex_groups: 4,
        blocks_per_group: Some(512),
        resize_to_blocks: None,
        uuid: [7; 16],
        hash_seed: [1; 4],
        hash_version: HashVersion::HalfMd4,
        label: [0; 16],
        created_seconds: 0,
        stride: 0,
        stripe_width: 0,
    };
    features.iter().for_each(|feature| wishes.features.set(*feature));
    wishes
}

/// Writes a layout with sealed bitmaps; the blocks between hold 0xaa, so that nothing unwritten
/// looks like zeros.
fn write(layout: &Layout) -> MemoryDevice {
    let superblock = &layout.superblock;
    let block_size = superblock.block_size() as usize;
    let device = MemoryDevice::new(RealClock::new(), superblock.blocks_count * block_size as u64);
    for block in 0..superblock.blocks_count {
        device.write(block * block_size as u64, &vec![0xaa; block_size]).unwrap();
    }
    for (group, descriptor) in (0..).map(GroupNo).zip(&layout.descriptors) {
        let mut descriptor = *descriptor;
        let mut bytes = vec![0; block_size];
        layout.fill_block_bitmap(group, &mut bytes);
        if descriptor.flags & BLOCK_UNINIT == 0 {
            descriptor.seal_block_bitmap(&bytes, superblock);
            device.write(descriptor.block_bitmap.0 * block_size as u64, &bytes).unwrap();
        }
        bytes.fill(0);
        layout.fill_inode_bitmap(group, &mut bytes);
        if descriptor.flags & INODE_UNINIT == 0 {
            descriptor.seal_inode_bitmap(&bytes, superblock);
            device.write(descriptor.inode_bitmap.0 * block_size as u64, &bytes).unwrap();
        }
        let (block, offset) = superblock.descriptor_place(group);
        let mut bytes = vec![0; superblock.descriptor_size.into()];
        descriptor.encode(&mut bytes, group, superblock);
        device.write(block.0 * block_size as u64 + offset as u64, &bytes).unwrap();
    }
    device.write(1024, &superblock.encode()).unwrap();
    device
}

fn open(device: &MemoryDevice) -> Space {
    opened(device).unwrap()
}

fn opened(device: &MemoryDevice) -> Result<Space> {
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern".parse().unwrap(),
        cache_bytes: 1 << 20,
        data: DataKeeping::Bytes,
    };
    Space::open(&Arc::new(Store::open(Arc::new(device.snapshot()), &options, None)?))
}

fn layout(features: &[Feature]) -> Layout {
    Layout::new(&wishes(features, 5000)).unwrap()
}

fn fresh(features: &[Feature]) -> Space {
    open(&write(&layout(features)))
}

/// Stores everything and opens what the device then holds.
fn reopen(space: &Space) -> Space {
    space.write_metadata().unwrap();
    let mut bytes = vec![0; space.store.device.info().bytes as usize];
    space.store.device.read(0, &mut bytes).unwrap();
    open(&MemoryDevice::from_bytes(RealClock::new(), &bytes))
}

/// Every free block, by the bitmaps.
fn free_blocks(space: &Space) -> BTreeSet<u64> {
    let groups = (0..space.len()).map(GroupNo);
    let blocks = |group| {
        let start = space.store.superblock.group_start(group).0;
        let runs = space.free_runs(group).unwrap();
        runs.into_iter().flat_map(move |(first, length)| {
            (0..length).map(move |at| start + u64::from(first + at))
        })
    };
    groups.flat_map(blocks).collect()
}

fn allocate(space: &Space, plan: &Plan) -> Result<Run> {
    let mut reservation = space.reserve(plan.length.into())?;
    with(space, |handle| space.allocate(handle, &mut reservation, plan, Route::Anywhere))
}

fn free(space: &Space, start: u64, length: u32) -> Result<()> {
    let run = Run { start: BlockNo(start), length };
    with(space, |handle| space.free(handle, run, Reuse::AtOnce))
}

/// Runs an operation.
fn with<T>(space: &Space, work: impl FnOnce(&Handle<'_>) -> Result<T>) -> Result<T> {
    space.store.change(9, work)
}

fn plan(goal: u64, length: u32, search: Search) -> Plan {
    Plan { goal: BlockNo(goal), length, search }
}

fn fault(result: Result<impl Sized>) -> (Place, String) {
    match result.err().expect("an error").kind {
        ErrorKind::Corrupt(Corrupt { place, fault }) => (place, fault.to_string()),
        other => panic!("{other}"),
    }
}

#[test]
fn a_new_volume_is_free_but_for_its_metadata() {
    for features in [EXT2, EXT4, UNINIT] {
        let layout = layout(features);
        let space = open(&write(&layout));
        let mut expected: BTreeSet<u64> = (1..layout.superblock.blocks_count).collect();
        for run in (0..space.len()).flat_map(|group| layout.metadata_runs(GroupNo(group))) {
            (run.start.0..run.start.0 + u64::from(run.length))
                .for_each(|block| assert!(expected.remove(&block)));
        }
        assert_eq!(free_blocks(&space), expected);
        let totals = space.totals();
        assert_eq!((totals.free_blocks, totals.reserved_blocks), (expected.len() as u64, 0));
        assert_eq!((totals.free_inodes, totals.directories), (layout.superblock.free_inodes, 0));
        assert!(space.dirty.lock().is_empty(), "looking changes nothing");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(Plan),
    /// Frees so much of the run that was allocated so far back.
    Free {
        back: usize,
        skip: u32,
        length: u32,
    },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let search = prop_oneof![
        Just(Search::GoalThenByte),
        Just(Search::Sequential),
        (1u32..700).prop_map(|look_for| Search::LongestRun { look_for }),
        Just(Search::FreeByte),
        (1u32..20).prop_map(|blocks| Search::FreeRun { blocks }),
        (11u32..15, 1u32..300)
            .prop_map(|(owner, blocks)| Search::Window { owner: Ino(owner), blocks }),
    ];
    let length = prop_oneof![1u32..10, 1u32..700];
    let allocate = (0u64..5200, length.clone(), search)
        .prop_map(|(goal, length, search)| Step::Allocate(plan(goal, length, search)));
    let free = (any::<usize>(), 0u32..20, length).prop_map(|(back, skip, length)| Step::Free {
        back,
        skip,
        length,
    });
    prop::collection::vec(prop_oneof![8 => allocate, 6 => free, 1 => Just(Step::Reopen)], 1..120)
}

/// The space and what is known of it without its bitmaps.
struct Model {
    space: Space,
    free: BTreeSet<u64>,
    given: Vec<Run>,
}

impl Model {
    fn allocate(&mut self, plan: &Plan) {
        let room = self.free.len() as u64;
        let run = match allocate(&self.space, plan) {
            Ok(run) => run,
            Err(error) => {
                assert!(u64::from(plan.length) > room, "{error} with {room} blocks free");
                return;
            }
        };
        assert!((1..=plan.length).contains(&run.length));
        let blocks = run.start.0..run.start.0 + u64::from(run.length);
        if plan.search == Search::Sequential {
            let next =
                self.free.range(plan.goal.0.min(self.space.store.superblock.blocks_count)..).next();
            let outside = self.space.store.superblock.group_of_block(plan.goal).is_none();
            let first = next.filter(|_| !outside).or(self.free.first());
            assert_eq!(first, Some(&run.start.0));
        }
        if let Search::LongestRun { .. } = plan.search
            && blocks.clone().count() < plan.length as usize
        {
            self.assert_no_longer_run_in(run, plan);
        }
        blocks.for_each(|block| assert!(self.free.remove(&block), "block {block} was not free"));
        self.given.push(run);
    }

    /// Less than was wanted: then no group has a run that is long enough (the goal's own may have
    /// half of it).
    fn assert_no_longer_run_in(&self, run: Run, plan: &Plan) {
        let goal = self.space.store.superblock.group_of_block(plan.goal).unwrap_or(GroupNo(0));
        let home = self.space.store.superblock.group_of_block(run.start) == Some(goal);
        if home && run.length >= plan.length.div_ceil(2) {
            return;
        }
        let mut length = 0;
        let mut previous = None;
        for block in &self.free {
            let group = self.space.store.superblock.group_of_block(BlockNo(*block));
            length = if previous == Some((block.wrapping_sub(1), group)) { length + 1 } else { 1 };
            previous = Some((*block, group));
            assert!(
                length <= run.length,
                "a run of {length} blocks ends at {block}, {run:?} was given for {plan:?}"
            );
        }
    }

    fn free(&mut self, back: usize, skip: u32, length: u32) {
        if self.given.is_empty() {
            return;
        }
        let index = back % self.given.len();
        let run = self.given.swap_remove(index);
        let skip = skip.min(run.length - 1);
        let length = length.min(run.length - skip);
        let start = run.start.0 + u64::from(skip);
        free(&self.space, start, length).unwrap();
        (start..start + u64::from(length)).for_each(|block| assert!(self.free.insert(block)));
        let rest = [(run.start.0, skip), (start + u64::from(length), run.length - skip - length)];
        self.given.extend(
            rest.into_iter()
                .filter(|rest| rest.1 > 0)
                .map(|(start, length)| Run { start: BlockNo(start), length }),
        );
    }

    fn check(&self) {
        assert_eq!(free_blocks(&self.space), self.free);
        let totals = self.space.totals();
        assert_eq!((totals.free_blocks, totals.reserved_blocks), (self.free.len() as u64, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn as_the_model(steps in steps(), features in prop_oneof![Just(EXT2), Just(EXT4), Just(UNINIT)]) {
        let space = fresh(features);
        let free = free_blocks(&space);
        let mut model = Model { space, free, given: Vec::new() };
        for step in steps {
            match step {
                Step::Allocate(plan) => model.allocate(&plan),
                Step::Free { back, skip, length } => model.free(back, skip, length),
                Step::Reopen => {
                    model.space = reopen(&model.space);
                    model.check();
                }
            }
        }
        model.check();
        model.space = reopen(&model.space);
        model.check();
    }
}

#[test]
fn every_block_can_be_had_by_every_search() {
    for search in [
        Search::GoalThenByte,
        Search::Sequential,
        Search::LongestRun { look_for: 60 },
        Search::FreeByte,
        Search::FreeRun { blocks: 8 },
        Search::Window { owner: Ino(11), blocks: 16 },
    ] {
        let space = fresh(EXT4);
        let mut free = free_blocks(&space);
        let mut goal = 2000;
        while !free.is_empty() {
            let run = allocate(&space, &plan(goal, (free.len() as u32).min(9), search)).unwrap();
            goal = run.start.0 + u64::from(run.length);
            (run.start.0..goal).for_each(|block| assert!(free.remove(&block)));
        }
        let full = allocate(&space, &plan(1, 1, search)).err().unwrap();
        assert!(matches!(full.kind, ErrorKind::NoSpace { wanted_blocks: 1, free_blocks: 0 }));
        assert_eq!(reopen(&space).totals().free_blocks, 0);
    }
}

/// The blocks that a search gives one by one, in groups of 512 whose first goal is always this.
fn given(space: &Space, goal: u64, search: Search, count: usize) -> Vec<u64> {
    (0..count).map(|_| allocate(space, &plan(goal, 1, search)).unwrap().start.0).collect()
}

#[test]
fn one_block_in_eight_then_groups_by_the_quadratic_rehash() {
    let space = fresh(EXT2);
    // Bits of the group as whole bytes: from the first that is all free, with block 1 as bit 0.
    let free: Vec<u64> = free_blocks(&space).into_iter().collect();
    let first = free.iter().find(|block| (**block - 1) % 8 == 0).copied().unwrap();
    let blocks = given(&space, 1, Search::FreeByte, 4);
    assert_eq!(blocks, [first, first + 8, first + 16, first + 24]);
    let group_of = |block: u64| (block - 1) / 512;
    let in_group = |group| free.iter().filter(|block| group_of(**block) == group).count();
    let rest = given(&space, 1, Search::FreeByte, in_group(0) - 4);
    assert!(rest.iter().all(|block| group_of(*block) == 0));
    assert_eq!(space.len(), 10);
    for group in [1, 3, 7, 5] {
        let next = given(&space, 1, Search::FreeByte, in_group(group));
        assert!(next.iter().all(|block| group_of(*block) == group), "{group}: {next:?}");
    }
    assert_eq!(group_of(given(&space, 1, Search::FreeByte, 1)[0]), 2, "then from the second on");
}

#[test]
fn windows_keep_others_out_while_there_is_room() {
    let space = fresh(EXT2);
    let window = |owner| Search::Window { owner: Ino(owner), blocks: 8 };
    let goal = *free_blocks(&space).iter().nth(100).unwrap();
    let mine = given(&space, goal, window(11), 1)[0];
    let others = given(&space, mine + 1, window(12), 1)[0];
    assert_eq!((mine, others), (goal, goal + 8));
    assert_eq!(given(&space, mine + 1, window(11), 1), [goal + 1], "one's own goes on");
    assert_eq!(
        given(&space, goal, Search::GoalThenByte, 1),
        [goal + 2],
        "who has none is not kept out, as in ext3"
    );
    space.windows_bind_all.store(true, Ordering::Relaxed);
    for search in [
        Search::GoalThenByte,
        Search::Sequential,
        Search::FreeByte,
        Search::LongestRun { look_for: 1 },
    ] {
        let block = given(&space, goal, search, 1)[0];
        assert!(!(goal..goal + 16).contains(&block), "{search:?}: {block}");
    }
    space.close_window(Ino(11));
    assert_eq!(given(&space, goal, Search::Sequential, 1), [goal + 3], "it is gone");
    // What is in a window is had by everybody before the space is full.
    let left = free_blocks(&space).len();
    assert_eq!(given(&space, goal, Search::GoalThenByte, left).len(), left);
}

#[test]
fn promises_are_kept_and_given_back() {
    let space = fresh(EXT2);
    let groups = &space;
    let all = groups.totals().free_blocks;
    let mut reservation = groups.reserve(all).unwrap();
    assert_eq!(groups.totals(), Totals { reserved_blocks: all, ..groups.totals() });
    assert!(matches!(
        reservation.grow(1).unwrap_err().kind,
        ErrorKind::NoSpace { wanted_blocks: 1, free_blocks: 0 }
    ));
    reservation.take(10);
    assert_eq!(reservation.remaining(), all - 10);
    let run = with(&space, |handle| {
        groups.allocate(handle, &mut reservation, &plan(1, 5, Search::Sequential), Route::Anywhere)
    })
    .unwrap();
    assert_eq!((run.length, reservation.remaining()), (5, all - 15));
    drop(reservation);
    assert_eq!(
        groups.totals(),
        Totals { free_blocks: all - 5, reserved_blocks: 10, ..groups.totals() }
    );
    groups.release_kept(4);
    let mut adopted = groups.adopt(6);
    with(&space, |handle| {
        groups.allocate(
            handle,
            &mut adopted,
            &plan(1, 100, Search::LongestRun { look_for: 100 }),
            Route::Anywhere,
        )
    })
    .unwrap();
    assert_eq!(adopted.remaining(), 0, "no more than was promised is taken");
    drop(adopted);
    assert_eq!(
        groups.totals(),
        Totals { free_blocks: all - 11, reserved_blocks: 0, ..groups.totals() }
    );
    free(&space, run.start.0, run.length).unwrap();
    assert_eq!(groups.totals().free_blocks, all - 6);
    assert!(groups.reserve(u64::MAX).is_err());
}

#[test]
fn what_may_not_be_freed_is_refused_and_nothing_is_freed() {
    for features in [EXT2, EXT4, UNINIT] {
        let space = fresh(features);
        // All of two groups' ends, so that a run crosses from one group into the next.
        let mut reservation = space.reserve(3000).unwrap();
        while reservation.remaining() > 0 {
            with(&space, |handle| {
                space.allocate(
                    handle,
                    &mut reservation,
                    &plan(1, 3000, Search::Sequential),
                    Route::Anywhere,
                )
            })
            .unwrap();
        }
        let before = free_blocks(&space);
        let cursor = *before.first().unwrap();
        let table = space.descriptor(GroupNo(1)).inode_table.0;
        assert_eq!(
            fault(free(&space, cursor, 1)).1,
            format!("map of a file: block {cursor} is free already")
        );
        assert_eq!(
            fault(free(&space, cursor - 1, 2)).0,
            Place::Block(BlockNo(cursor)),
            "the first block of it in use"
        );
        assert!(fault(free(&space, table, 1)).1.ends_with("the volume's own metadata"));
        assert!(fault(free(&space, table - 1, 3)).1.ends_with("the volume's own metadata"));
        assert!(
            fault(free(&space, 1, 1)).1.ends_with("the volume's own metadata"),
            "the superblock"
        );
        for (start, length) in [
            (0, 1),
            (space.store.superblock.blocks_count, 1),
            (u64::MAX, 1),
            (u64::MAX - 1, u32::MAX),
        ] {
            assert!(fault(free(&space, start, length)).1.ends_with("outside the volume"));
        }
        assert_eq!(free_blocks(&space), before);
        assert!(free(&space, cursor - 5, 0).is_ok());
    }
}

#[test]
fn a_run_over_a_border_of_groups_is_freed_whole() {
    // Without copies of the superblock in the odd groups there is a border between two groups' data
    // with flex_bg.
    let space = fresh(EXT4);
    let border = space.store.superblock.group_start(GroupNo(3)).0;
    let border = if space.store.superblock.has_super(GroupNo(3)) {
        space.store.superblock.group_start(GroupNo(6)).0
    } else {
        border
    };
    for start in [border - 4, border] {
        let run = allocate(&space, &plan(start, 4, Search::Sequential)).unwrap();
        assert_eq!((run.start.0, run.length), (start, 4));
    }
    let before = space.totals().free_blocks;
    free(&space, border - 3, 6).unwrap();
    assert_eq!(space.totals().free_blocks, before + 6);
    assert!(free_blocks(&space).is_superset(&(border - 3..border + 3).collect()));
}

/// A space of which one byte was changed before it was opened.
fn damaged(
    features: &[Feature],
    place: impl Fn(&Layout) -> u64,
    change: impl Fn(u8) -> u8,
) -> Space {
    let layout = layout(features);
    let device = write(&layout);
    let mut byte = [0];
    device.read(place(&layout), &mut byte).unwrap();
    device.write(place(&layout), &[change(byte[0])]).unwrap();
    open(&device)
}

#[test]
fn bitmaps_that_lie_are_not_believed() {
    let last = |layout: &Layout| layout.descriptors.len() - 1;
    let bitmap = |layout: &Layout, group: usize, byte: u64| {
        layout.descriptors[group].block_bitmap.0 * 1024 + byte
    };
    let told = |space: Space, goal| fault(allocate(&space, &plan(goal, 1, Search::Sequential))).1;
    let checksum = damaged(EXT4, |layout| bitmap(layout, 0, 60), |byte| byte ^ 1);
    assert!(told(checksum, 1).starts_with("block bitmap: checksum"));
    let count = damaged(EXT2, |layout| bitmap(layout, 0, 60), |byte| byte ^ 1);
    assert!(told(count, 1).contains("not what the descriptor says"));
    let metadata = damaged(EXT2, |layout| bitmap(layout, 0, 0), |byte| byte & !2);
    assert!(told(metadata, 1).contains("block of metadata 1 is marked free"));
    let padding = damaged(EXT2, |layout| bitmap(layout, last(layout), 1023), |byte| byte & 0x7f);
    assert!(told(padding, 4990).contains("padding bit 8191 is not set"));
    let inodes =
        damaged(EXT4, |layout| layout.descriptors[0].inode_bitmap.0 * 1024 + 2, |byte| byte ^ 8);
    assert!(
        fault(with(&inodes, |handle| inodes.allocate_inode(
            handle,
            GroupNo(0),
            0,
            InodeKind::Other
        )))
        .1
        .starts_with("inode bitmap: checksum")
    );
    assert!(inodes.dirty.lock().is_empty());
}

#[test]
fn descriptors_that_lie_are_refused_at_opening() {
    let layout = layout(EXT4);
    let device = write(&layout);
    let (block, offset) = layout.superblock.descriptor_place(GroupNo(2));
    let block_size = u64::from(layout.superblock.block_size());
    device.write(block.0 * block_size + offset as u64, &[0xff]).unwrap();
    let error = opened(&device).err().unwrap();
    assert!(matches!(
        error.kind,
        ErrorKind::Corrupt(Corrupt {
            place: Place::Group(GroupNo(2)),
            fault: Fault::Checksum { .. }
        })
    ));
}

#[test]
fn inodes_are_given_in_order_and_counted() {
    for features in [EXT2, EXT4, UNINIT] {
        let space = fresh(features);
        let groups = &space;
        let before = groups.totals();
        let per_group = space.store.superblock.inodes_per_group;
        let take = |group, from, kind| {
            with(&space, |handle| groups.allocate_inode(handle, GroupNo(group), from, kind))
                .unwrap()
                .0
        };
        assert_eq!(take(0, 0, InodeKind::Directory), 11, "reserved numbers are never given");
        assert_eq!(take(0, 20, InodeKind::Other), 21);
        assert_eq!(take(0, 0, InodeKind::Other), 12);
        assert_eq!(take(2, 5, InodeKind::Directory), 2 * per_group + 6);
        assert_eq!(take(2, 0, InodeKind::Other), 2 * per_group + 1);
        assert_eq!(groups.totals().free_inodes, before.free_inodes - 5);
        assert_eq!(groups.totals().directories, 2);
        assert_eq!(
            (groups.facts(GroupNo(2)).directories, groups.facts(GroupNo(2)).debt),
            (1, 0),
            "+1 and -1"
        );
        assert!(groups.inode_in_use(Ino(21)).unwrap() && !groups.inode_in_use(Ino(22)).unwrap());
        assert!(
            !groups.inode_in_use(Ino(0)).unwrap() && !groups.inode_in_use(Ino(u32::MAX)).unwrap()
        );
        with(&space, |handle| {
            groups.free_inode(handle, Ino(2 * per_group + 6), InodeKind::Directory)
        })
        .unwrap();
        assert!(
            fault(with(&space, |handle| groups.free_inode(
                handle,
                Ino(2 * per_group + 6),
                InodeKind::Directory
            )))
            .1
            .ends_with("free already")
        );
        assert!(
            fault(with(&space, |handle| groups.free_inode(handle, Ino(2), InodeKind::Directory)))
                .1
                .ends_with("reserved")
        );
        assert!(
            fault(with(&space, |handle| groups.free_inode(
                handle,
                Ino(u32::MAX),
                InodeKind::Other
            )))
            .1
            .ends_with("outside the volume")
        );
        assert_eq!(groups.totals().directories, 1);
        let again = reopen(&space);
        assert_eq!(again.totals(), groups.totals());
        assert!(again.inode_in_use(Ino(2 * per_group + 1)).unwrap());
        assert!(!again.inode_in_use(Ino(2 * per_group + 6)).unwrap());
    }
}

#[test]
fn every_inode_can_be_had_once() {
    let space = fresh(EXT4);
    let free = space.totals().free_inodes;
    let given: BTreeSet<Ino> = (0..free)
        .map(|_| {
            with(&space, |handle| space.allocate_inode(handle, GroupNo(3), 7, InodeKind::Other))
                .unwrap()
        })
        .collect();
    assert_eq!(given.len(), free as usize);
    assert_eq!(
        (given.first(), given.last()),
        (Some(&Ino(11)), Some(&Ino(space.store.superblock.inodes_count)))
    );
    let full = with(&space, |handle| space.allocate_inode(handle, GroupNo(3), 7, InodeKind::Other))
        .unwrap_err();
    assert!(matches!(full.kind, ErrorKind::NoInodes));
    assert_eq!(space.totals().free_inodes, 0);
}

#[test]
fn a_table_that_was_never_written_is_zeroed_as_far_as_it_is_used() {
    let mut layout = layout(EXT4);
    for descriptor in &mut layout.descriptors {
        descriptor.flags &= !INODE_ZEROED;
    }
    let group = layout
        .descriptors
        .iter()
        .position(|descriptor| descriptor.flags & INODE_UNINIT != 0)
        .unwrap();
    let group = GroupNo(group as u32);
    let space = open(&write(&layout));
    let per_group = space.store.superblock.inodes_per_group;
    // Four inodes of 256 bytes in a block: index 9 is in the third.
    with(&space, |handle| space.allocate_inode(handle, group, 9, InodeKind::Other)).unwrap();
    let descriptor = space.descriptor(group);
    assert_eq!(
        (descriptor.flags & (INODE_UNINIT | BLOCK_UNINIT), descriptor.unused_inodes),
        (0, per_group - 10)
    );
    let again = reopen(&space);
    assert_eq!(again.descriptor(group).flags & (INODE_UNINIT | BLOCK_UNINIT), 0);
    let table = |space: &Space, block| {
        let place = BlockNo(space.descriptor(group).inode_table.0 + block);
        space.store.cache.read(place, Kind::Plain).unwrap().bytes()
    };
    (0..3).for_each(|block| assert!(table(&again, block).iter().all(|byte| *byte == 0)));
    assert!(table(&again, 3).iter().all(|byte| *byte == 0xaa), "no more than needed");
    // What is in use stays: index 8 is in the block of index 9.
    let block = again.store.cache.read(BlockNo(descriptor.inode_table.0 + 2), Kind::Plain).unwrap();
    with(&again, |handle| {
        handle.modify(&block, |bytes| bytes[256] = 5);
        Ok(())
    })
    .unwrap();
    with(&again, |handle| again.allocate_inode(handle, group, 8, InodeKind::Other)).unwrap();
    assert_eq!(block.bytes()[256], 5);
    assert_eq!(again.descriptor(group).unused_inodes, per_group - 10, "the mark stays");
}

#[test]
fn debt_is_kept_within_its_counter() {
    let space = fresh(EXT2);
    let take = |kind| {
        with(&space, |handle| space.allocate_inode(handle, GroupNo(1), 0, kind))
            .map(|_| space.facts(GroupNo(1)).debt)
    };
    assert_eq!(take(InodeKind::Other).unwrap(), 0);
    assert_eq!([take(InodeKind::Directory).unwrap(), take(InodeKind::Directory).unwrap()], [1, 2]);
    assert_eq!(take(InodeKind::Other).unwrap(), 1);
}

#[test]
fn a_long_run_is_found_in_another_group_and_looked_for_once() {
    let space = fresh(EXT2);
    // Group 0 in pieces of 4 blocks.
    let free = space.free_runs(GroupNo(0)).unwrap();
    let (first, length) = *free.iter().max_by_key(|run| run.1).unwrap();
    for at in (0..length).step_by(5) {
        let goal = space.store.superblock.group_start(GroupNo(0)).0 + u64::from(first + at);
        allocate(&space, &plan(goal, 1, Search::Sequential)).unwrap();
    }
    let long = Search::LongestRun { look_for: 100 };
    let run = allocate(&space, &plan(2, 50, long)).unwrap();
    assert_eq!(
        (space.store.superblock.group_of_block(run.start), run.length),
        (Some(GroupNo(1)), 50)
    );
    assert_eq!(space.room(GroupNo(0), Clusters::Open), 4, "known now");
    let run = allocate(&space, &plan(2, 8, long)).unwrap();
    assert_eq!(
        (space.store.superblock.group_of_block(run.start), run.length),
        (Some(GroupNo(0)), 4),
        "half is good enough"
    );
}

#[test]
fn threads_share_a_volume() {
    let space = Arc::new(fresh(EXT4));
    let before = free_blocks(&space);
    let searches = [
        Search::GoalThenByte,
        Search::Sequential,
        Search::LongestRun { look_for: 8 },
        Search::Sequential,
    ];
    let work = |thread: usize, space: Arc<Space>| {
        move || {
            let mut given = Vec::new();
            for round in 0..200u64 {
                let goal = round * 37 % 5000;
                given.push(
                    allocate(&space, &plan(goal, 1 + round as u32 % 7, searches[thread])).unwrap(),
                );
                if round % 3 != 0 {
                    let run: Run = given.swap_remove(round as usize % given.len());
                    free(&space, run.start.0, run.length).unwrap();
                }
                if round % 50 == 0 {
                    space.write_metadata().unwrap();
                }
            }
            given.into_iter().for_each(|run| free(&space, run.start.0, run.length).unwrap());
        }
    };
    let spawn =
        |thread| space.store.clock.spawn("allocates", Box::new(work(thread, Arc::clone(&space))));
    let tasks: Vec<_> = (0..searches.len()).map(spawn).collect();
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(free_blocks(&space), before);
    assert_eq!(free_blocks(&reopen(&space)), before);
}

#[test]
fn many_groups_open_at_once() {
    let mut wishes = wishes(EXT4, 131_072 * 32_768);
    (wishes.block_size, wishes.blocks_per_group) = (4096, None);
    (wishes.flex_groups, wishes.inodes) = (16, Inodes::BytesPerInode(65_536));
    let layout = Layout::new(&wishes).unwrap();
    let superblock = &layout.superblock;
    let block_size = superblock.block_size() as usize;
    let mut table = vec![0; superblock.descriptor_blocks() as usize * block_size];
    let first = superblock.descriptor_place(GroupNo(0)).0.0;
    for (group, descriptor) in (0..).map(GroupNo).zip(&layout.descriptors) {
        let size = usize::from(superblock.descriptor_size);
        descriptor.encode(&mut table[size * group.0 as usize..][..size], group, superblock);
    }
    let bytes = superblock.blocks_count * block_size as u64;
    let device = MemoryDevice::new(RealClock::new(), bytes);
    device.write(first * block_size as u64, &table).unwrap();
    device.write(1024, &superblock.encode()).unwrap();
    let space = open(&device);
    assert_eq!(space.len(), 131_072);
    assert_eq!(space.totals().free_blocks, superblock.free_blocks);
}
