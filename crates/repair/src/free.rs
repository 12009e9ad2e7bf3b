//! Runs of clusters that may be given out, by place and by length.
//!
//! *Invariants*: both orders have the same runs, none of which touches another. *Locking*: none.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Runs of clusters that may be given out.
#[derive(Default)]
pub(crate) struct FreeRuns {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    /// The whole clusters of `blocks`, which rise, before block `end`: those of groups that go.
    pub(crate) fn released(cluster: u64, end: u64, blocks: &[Range<u64>]) -> FreeRuns {
        let mut runs = FreeRuns::default();
        let mut open: Option<Range<u64>> = None;
        for range in blocks {
            match &mut open {
                Some(run) if run.end == range.start => run.end = range.end,
                _ => {
                    runs.close(open.take().map(|run| whole(cluster, end, &run)));
                    open = Some(range.clone());
                }
            }
        }
        runs.close(open.map(|run| whole(cluster, end, &run)));
        runs
    }

    /// Adds a run, if it has any cluster.
    pub(crate) fn close(&mut self, run: Option<Range<u64>>) {
        if let Some(run) = run.filter(|run| run.start < run.end) {
            self.by_start.insert(run.start, run.end - run.start);
            self.by_length.insert((run.end - run.start, run.start));
        }
    }

    fn take_out(&mut self, start: u64) -> Option<Range<u64>> {
        let length = self.by_start.remove(&start)?;
        self.by_length.remove(&(length, start));
        Some(start..start + length)
    }

    /// Takes a range out, whatever of it is free.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        let before = self.by_start.range(..range.start).next_back().map(|(start, _)| *start);
        let within = self.by_start.range(range.clone()).map(|(start, _)| *start);
        for start in before.into_iter().chain(within).collect::<Vec<_>>() {
            if let Some(run) = self.take_out(start) {
                self.close(Some(run.start..run.end.min(range.start)));
                self.close(Some(run.start.max(range.end)..run.end));
            }
        }
    }

    /// Takes out the run that is best for `most` clusters: that which begins at `goal` if it has
    /// them, else the shortest that has them, else the longest. `None` where nothing is left.
    pub(crate) fn best(&mut self, goal: u64, most: u64) -> Option<Range<u64>> {
        let after = self.by_start.get(&goal).filter(|length| **length >= most).map(|_| goal);
        let fits = || self.by_length.range((most, 0)..).next().map(|(_, start)| *start);
        let longest = || self.by_length.last().map(|(_, start)| *start);
        self.take_out(after.or_else(fits).or_else(longest)?)
    }

    /// Takes up to `most` clusters of the run that is [`FreeRuns::best`].
    pub(crate) fn take(&mut self, goal: u64, most: u64) -> Option<Range<u64>> {
        let run = self.best(goal, most)?;
        let taken = run.start..run.end.min(run.start + most);
        self.close(Some(taken.end..run.end));
        Some(taken)
    }
}

/// The clusters that are whole in a run of blocks, before a block.
fn whole(cluster: u64, end: u64, run: &Range<u64>) -> Range<u64> {
    run.start.div_ceil(cluster)..run.end.min(end) / cluster
}
