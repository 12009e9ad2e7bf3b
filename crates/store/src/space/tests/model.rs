//! Allocation and freeing in random order, against a model that keeps free blocks one by one.
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Allocate(AllocationPlan),
    /// Frees a part of the run that was allocated `back` runs ago.
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

/// A space, and what it should hold, kept without bitmaps.
struct Model {
    space: Space,
    free: BTreeSet<u64>,
    given: Vec<Run>,
}

impl Model {
    fn allocate(&mut self, plan: &AllocationPlan) {
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

    /// A run shorter than wanted was given: checks that no group has a longer one. In the goal's
    /// own group half of what was wanted is enough.
    fn assert_no_longer_run_in(&self, run: Run, plan: &AllocationPlan) {
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
    fn as_the_model(
        steps in steps(),
        features in prop_oneof![Just(EXT2), Just(EXT4), Just(UNINIT)],
    ) {
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
