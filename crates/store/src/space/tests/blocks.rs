//! Blocks are allocated and freed: searches, windows, promises, threads.
use super::*;

#[test]
fn every_search_finds_every_block() {
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

/// The blocks that a search allocates one by one, always with the same goal.
fn given(space: &Space, goal: u64, search: Search, count: usize) -> Vec<u64> {
    (0..count).map(|_| allocate(space, &plan(goal, 1, search)).unwrap().start.0).collect()
}

/// A volume of which only these blocks are free.
fn free_only(blocks: &[u64]) -> Space {
    let space = fresh(EXT2);
    let all = free_blocks(&space).len() as u32;
    let mut reservation = space.reserve(all.into()).unwrap();
    while reservation.remaining() > 0 {
        with(&space, |handle| {
            let plan = plan(1, 512, Search::Sequential);
            space.allocate(handle, &mut reservation, &plan, Route::Anywhere)
        })
        .unwrap();
    }
    drop(reservation);
    blocks.iter().for_each(|block| free(&space, *block, 1).unwrap());
    assert_eq!(free_blocks(&space), blocks.iter().copied().collect());
    space
}

#[test]
fn the_group_of_the_goal_is_searched_again_from_its_start() {
    // Block 1 is bit 0 of the first group, so a byte begins at 1 + 512 * 5 + 8 * n.
    let start = fresh(EXT2).store.superblock.group_start(GroupNo(5)).0;
    let (alone, byte) = (start + 301, start + 320);
    let free: Vec<u64> = std::iter::once(alone).chain(byte..byte + 8).collect();
    let goal = start + 400;
    // As ext2, a byte first, and not what a last resort finds first.
    let space = free_only(&free);
    assert_eq!(given(&space, goal, Search::GoalThenByte, 1), [byte]);
    let space = free_only(&free);
    assert_eq!(given(&space, goal, Search::Sequential, 2), [alone, byte]);
    // A window is made there too.
    let space = free_only(&free);
    let window = Search::Window { owner: Ino(11), blocks: 8 };
    assert_eq!(given(&space, goal, window, 1), [alone]);
    assert!(space.windows.lock().of(Ino(11)).is_some(), "it has a window");
}

#[test]
fn one_block_in_eight_then_groups_by_the_quadratic_rehash() {
    let space = fresh(EXT2);
    // Block 1 is bit 0 of its group, so whole bytes begin at blocks 1, 9, 17, ...
    let free: Vec<u64> = free_blocks(&space).into_iter().collect();
    let first = free.iter().find(|block| (**block - 1) % 8 == 0).copied().unwrap();
    let blocks = given(&space, 1, Search::FreeByte, 4);
    assert_eq!(blocks, [first, first + 8, first + 16, first + 24]);
    let group_of = |block: u64| (block - 1) / 512;
    let in_group = |group| free.iter().filter(|block| group_of(**block) == group).count();
    let rest = given(&space, 1, Search::FreeByte, in_group(0) - 4);
    assert!(rest.iter().all(|block| group_of(*block) == 0));
    assert_eq!(space.group_count(), 10);
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
    // Before the space is full, windows are used by other inodes too.
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
        // The end of one group and the start of the next, so that a run crosses the border.
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
    // With flex_bg, and no copy of the superblock in the second group, data is on both sides of the
    // border.
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
