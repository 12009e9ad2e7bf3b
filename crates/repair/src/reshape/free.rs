//! Runs of free clusters, by place and by length.
//!
//! *Invariants*: both orders have the same runs, none of which touches another. *Locking*: none.
use crate::draft::Draft;
use extant_format::{BlockNo, GroupNo};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Runs of free clusters, in clusters.
#[derive(Default)]
pub(super) struct FreeRuns {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    /// What is free before block `end`, without the blocks of `wanted`.
    pub(super) fn before(draft: &Draft, end: u64, wanted: &[Range<u64>]) -> FreeRuns {
        let mut runs = FreeRuns::default();
        let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
        let whole = end / cluster;
        let mut open: Option<Range<u64>> = None;
        for group in (0..draft.superblock.group_count()).map(GroupNo) {
            let bits = draft.usage.block_bits(group);
            let first = draft.superblock.group_start(group).0 / cluster;
            for at in 0..u64::from(bits.count) {
                let word = bits.words.get((at / 64) as usize).copied().unwrap_or(u64::MAX);
                let here = first.saturating_add(at);
                let is_free = word >> (at % 64) & 1 == 0 && here < whole;
                match &mut open {
                    Some(run) if is_free && run.end == here => run.end = here + 1,
                    _ => {
                        runs.close(open.take());
                        open = is_free.then(|| here..here + 1);
                    }
                }
            }
        }
        runs.close(open);
        for range in wanted {
            runs.remove(range.start / cluster..range.end.div_ceil(cluster));
        }
        runs
    }

    fn close(&mut self, run: Option<Range<u64>>) {
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
    fn remove(&mut self, range: Range<u64>) {
        let before = self.by_start.range(..range.start).next_back().map(|(start, _)| *start);
        let within = self.by_start.range(range.clone()).map(|(start, _)| *start);
        for start in before.into_iter().chain(within).collect::<Vec<_>>() {
            if let Some(run) = self.take_out(start) {
                self.close(Some(run.start..run.end.min(range.start)));
                self.close(Some(run.start.max(range.end)..run.end));
            }
        }
    }

    /// Takes up to `most` clusters: all of them after `goal` if that is free, else the shortest run
    /// that has them, else as many as the longest has. `None` where nothing is free.
    pub(super) fn take(&mut self, draft: &Draft, goal: u64, most: u64) -> Option<Range<u64>> {
        loop {
            let after = self.by_start.get(&goal).filter(|length| **length >= most).map(|_| goal);
            let fits = || self.by_length.range((most, 0)..).next().map(|(_, start)| *start);
            let longest = || self.by_length.last().map(|(_, start)| *start);
            let run = self.take_out(after.or_else(fits).or_else(longest)?)?;
            let taken = run.start..run.end.min(run.start + most);
            // Nodes of maps come from the same room by another way.
            match stolen(draft, &taken) {
                None => {
                    self.close(Some(taken.end..run.end));
                    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
                    let blocks = (taken.end - taken.start) * cluster;
                    draft.usage.take(BlockNo(taken.start * cluster), blocks);
                    return Some(taken);
                }
                Some(at) => {
                    self.close(Some(run.start..at));
                    self.close(Some(at + 1..run.end));
                }
            }
        }
    }
}

/// The first cluster of a range that is not free any more.
fn stolen(draft: &Draft, range: &Range<u64>) -> Option<u64> {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let is_free =
        |start: u64, length: u64| draft.usage.is_free(BlockNo(start * cluster), length * cluster);
    if is_free(range.start, range.end - range.start) {
        return None;
    }
    range.clone().find(|at| !is_free(*at, 1))
}
