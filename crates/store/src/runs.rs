//! Sets of file blocks.
use std::collections::BTreeMap;
use std::ops::Range;

/// A set of file blocks, kept as rising runs that are neither overlapping nor adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSet {
    /// First block to the block after the last.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
}

impl RunSet {
    /// Adds a range. Returns how many of its blocks were not in the set before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.blocks;
        let (mut start, mut end) = (range.start, range.end);
        let touching: Vec<(u64, u64)> = self
            .runs
            .range(..=end)
            .rev()
            .take_while(|(_, after)| **after >= start)
            .map(|(first, after)| (*first, *after))
            .collect();
        for (first, after) in touching {
            start = start.min(first);
            end = end.max(after);
            self.blocks -= after - first;
            self.runs.remove(&first);
        }
        self.blocks += end - start;
        self.runs.insert(start, end);
        self.blocks - before
    }

    /// Removes a range. Returns how many of its blocks were in the set.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let before = self.blocks;
        let overlapping: Vec<(u64, u64)> = self
            .runs
            .range(..range.end)
            .rev()
            .take_while(|(_, after)| **after > range.start)
            .map(|(first, after)| (*first, *after))
            .collect();
        for (first, after) in overlapping {
            self.runs.remove(&first);
            self.blocks -= after - first;
            if first < range.start {
                self.runs.insert(first, range.start);
                self.blocks += range.start - first;
            }
            if after > range.end {
                self.runs.insert(range.end, after);
                self.blocks += after - range.end;
            }
        }
        before - self.blocks
    }

    /// Whether a block is in the set.
    pub fn contains(&self, block: u64) -> bool {
        self.runs.range(..=block).next_back().is_some_and(|(_, after)| *after > block)
    }

    /// The first run that ends after `from`, cut to begin there.
    pub fn next(&self, from: u64) -> Option<Range<u64>> {
        let earlier = self.runs.range(..=from).next_back().filter(|(_, after)| **after > from);
        let (first, after) = earlier.or_else(|| self.runs.range(from..).next())?;
        Some((*first).max(from)..*after)
    }

    /// Blocks in the set.
    pub fn len(&self) -> u64 {
        self.blocks
    }

    /// Runs in the set.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}
