//! Blocks of a file that have a place on the volume, and data written there or under way, and are
//! in no map yet.
//!
//! ```text
//!          place                     the write has ended: enter
//! (dirty) -------> placed, under way ---------------------------> (in the map)
//! ```
//!
//! With `journal=ordered` a map changes only after the data that it leads to is written, so a
//! commit waits for no file's data but that of a file that replaces another, or was emptied and
//! written anew. Until then the place is known in memory alone: a power cut forgets it.
//!
//! *Invariants*: runs do not overlap, neither in the file nor on the volume. The blocks of new runs
//! are free in their bitmap, held back from every search, and promised.
//! *Locking*: that of the inode.
use extant_format::{BlockNo, FileBlock, Run};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the map has at the place of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// Nothing.
    Hole,
    /// The same blocks, which read as zeros.
    Unwritten,
    /// The same blocks. The size grows into them once they are written.
    Written,
}

/// A run of blocks with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    pub(crate) run: Run,
    pub(crate) before: Before,
}

/// The runs of one file, by their first block in the file.
#[derive(Default)]
pub(crate) struct Placed {
    runs: BTreeMap<u32, Placement>,
    /// Blocks of those that the map has nothing for.
    new_blocks: u64,
}

impl Placed {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// How many blocks are promised.
    pub(crate) fn new_blocks(&self) -> u64 {
        self.new_blocks
    }

    /// The rest of the run that holds a file block, from that block on.
    pub(crate) fn at(&self, block: FileBlock) -> Option<Run> {
        let (first, placement) = self.runs.range(..=block.0).next_back()?;
        let into = block.0 - first;
        let run = placement.run;
        (into < run.length).then(|| Run {
            start: BlockNo(run.start.0 + u64::from(into)),
            length: run.length - into,
        })
    }

    /// The first block at or after this one at which a run begins.
    pub(crate) fn next(&self, block: u32) -> Option<u32> {
        self.runs.range(block..).next().map(|(first, _)| *first)
    }

    /// Adds a run, by lengthening the one before it if possible.
    pub(crate) fn insert(&mut self, block: FileBlock, placement: Placement) {
        debug_assert!(self.at(block).is_none(), "{block:?} has a place already");
        if placement.before == Before::Hole {
            self.new_blocks += u64::from(placement.run.length);
        }
        if let Some((first, last)) = self.runs.range_mut(..block.0).next_back()
            && last.before == placement.before
            && first.checked_add(last.run.length) == Some(block.0)
            && last.run.start.0 + u64::from(last.run.length) == placement.run.start.0
            && let Some(length) = last.run.length.checked_add(placement.run.length)
        {
            last.run.length = length;
            return;
        }
        self.runs.insert(block.0, placement);
    }

    /// Removes what is in a range of the file, and returns it; a run that reaches out of the range
    /// is split.
    pub(crate) fn take(&mut self, range: Range<u64>) -> Vec<(FileBlock, Placement)> {
        let touching: Vec<u32> = self
            .runs
            .iter()
            .skip_while(|(first, placement)| {
                u64::from(**first) + u64::from(placement.run.length) <= range.start
            })
            .take_while(|(first, _)| u64::from(**first) < range.end)
            .map(|(first, _)| *first)
            .collect();
        let mut taken = Vec::new();
        for first in touching {
            let Some(whole) = self.runs.remove(&first) else { continue };
            let end = u64::from(first) + u64::from(whole.run.length);
            let inside = range.start.max(first.into())..range.end.min(end);
            let part = |blocks: Range<u64>| {
                let start = BlockNo(whole.run.start.0 + (blocks.start - u64::from(first)));
                let run = Run { start, length: (blocks.end - blocks.start) as u32 };
                (blocks.start as u32, Placement { run, ..whole })
            };
            for rest in [u64::from(first)..inside.start, inside.end..end] {
                if !rest.is_empty() {
                    self.runs.extend([part(rest)]);
                }
            }
            let (block, placement) = part(inside);
            if placement.before == Before::Hole {
                self.new_blocks -= u64::from(placement.run.length);
            }
            taken.push((FileBlock(block), placement));
        }
        taken
    }

    /// The ranges of the file that have a place.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let range = |(first, placement): (&u32, &Placement)| {
            u64::from(*first)..u64::from(*first) + u64::from(placement.run.length)
        };
        self.runs.iter().map(range).collect()
    }
}

/// Places that were chosen for delayed blocks when they were written, for the few files that have
/// any.
///
/// *Invariants*: the blocks are free in their bitmap, held back from every search, and promised to
/// the same blocks of the file, which are delayed.
#[derive(Default)]
pub(crate) struct Chosen(Option<Box<Placed>>);

impl Chosen {
    /// The rest of the run that holds a file block, from that block on.
    pub(crate) fn at(&self, block: FileBlock) -> Option<Run> {
        self.0.as_ref()?.at(block)
    }

    /// The first block at or after this one at which a run begins.
    pub(crate) fn next(&self, block: u32) -> Option<u32> {
        self.0.as_ref()?.next(block)
    }

    /// Adds a run.
    pub(crate) fn insert(&mut self, block: FileBlock, run: Run) {
        let placement = Placement { run, before: Before::Hole };
        self.0.get_or_insert_default().insert(block, placement);
    }

    /// Removes what is in a range of the file, and returns it.
    pub(crate) fn take(&mut self, range: Range<u64>) -> Vec<Run> {
        let Some(placed) = &mut self.0 else { return Vec::new() };
        let taken = placed.take(range).into_iter().map(|(_, placement)| placement.run).collect();
        if placed.is_empty() {
            self.0 = None;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(start: u64, length: u32) -> Placement {
        Placement { run: Run { start: BlockNo(start), length }, before: Before::Hole }
    }

    #[test]
    fn what_is_taken_splits_the_runs_around_it() {
        let mut placed = Placed::default();
        placed.insert(FileBlock(10), placement(100, 4));
        placed.insert(FileBlock(14), placement(104, 4));
        placed.insert(FileBlock(20), placement(300, 2));
        assert_eq!((placed.len(), placed.new_blocks()), (2, 10));
        assert_eq!(placed.at(FileBlock(15)), Some(Run { start: BlockNo(105), length: 3 }));
        assert_eq!(placed.at(FileBlock(18)), None);
        assert_eq!(placed.next(11), Some(20));
        let taken = placed.take(12..21);
        let expected = [(FileBlock(12), placement(102, 6)), (FileBlock(20), placement(300, 1))];
        assert_eq!(taken, expected);
        assert_eq!(placed.ranges(), [10..12, 21..22]);
        assert_eq!(placed.at(FileBlock(21)), Some(Run { start: BlockNo(301), length: 1 }));
        assert_eq!(placed.new_blocks(), 3);
        placed.take(0..u64::MAX);
        assert!(placed.is_empty() && placed.new_blocks() == 0);
    }
}
