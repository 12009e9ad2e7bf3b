//! Where the volume's own metadata is: copies of superblock and descriptors, bitmaps, inode tables.
//! No file may own a block of it, so none is ever allocated or freed. With flex_bg a group's
//! bitmaps and table may be in other groups.
use extant_format::group::GroupDescriptor;
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, GroupNo, Run};
use std::ops::Range;

/// Ranges of blocks, rising, neither overlapping nor adjacent.
pub(super) struct Metadata {
    ranges: Vec<Range<u64>>,
}

/// The ranges while groups are still being added. There is a list for each kind of metadata,
/// because with flex_bg the bitmaps of successive groups are adjacent, and so are their tables.
#[derive(Default)]
pub(super) struct MetadataParts {
    ranges: [Vec<Range<u64>>; 4],
}

impl MetadataParts {
    /// Adds the metadata that belongs to a group.
    pub(super) fn add(
        &mut self,
        superblock: &Superblock,
        group: GroupNo,
        descriptor: &GroupDescriptor,
    ) {
        let copies =
            u64::from(superblock.super_overhead(group).min(superblock.group_length(group)));
        let parts = [
            (superblock.group_start(group), copies),
            (descriptor.block_bitmap, 1),
            (descriptor.inode_bitmap, 1),
            (descriptor.inode_table, u64::from(superblock.inode_table_blocks())),
        ];
        for (ranges, (start, length)) in self.ranges.iter_mut().zip(parts) {
            if length > 0 {
                push_merged(ranges, start.0..start.0.saturating_add(length));
            }
        }
    }

    /// Merges the four lists.
    pub(super) fn merge(self) -> Metadata {
        let mut ranges = self.ranges.concat();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged = Vec::new();
        ranges.into_iter().for_each(|range| push_merged(&mut merged, range));
        Metadata { ranges: merged }
    }
}

impl Metadata {
    /// The parts of `blocks` that are metadata, rising.
    pub(super) fn within(&self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= blocks.start);
        self.ranges[first..]
            .iter()
            .take_while(move |range| range.start < blocks.end)
            .map(move |range| range.start.max(blocks.start)..range.end.min(blocks.end))
    }

    /// These ranges and others.
    pub(super) fn joined(&self, others: Metadata) -> Metadata {
        let mut ranges = self.ranges.clone();
        ranges.extend(others.ranges);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged = Vec::with_capacity(ranges.len());
        ranges.into_iter().for_each(|range| push_merged(&mut merged, range));
        Metadata { ranges: merged }
    }

    /// The first block of a run that is metadata.
    pub(super) fn first_in(&self, run: Run) -> Option<BlockNo> {
        let blocks = run.start.0..run.start.0.saturating_add(run.length.into());
        self.within(blocks).next().map(|range| BlockNo(range.start))
    }
}

/// Appends a range, merging it with the last one if they touch.
fn push_merged(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.start <= range.start && range.start <= last.end => {
            last.end = last.end.max(range.end)
        }
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_clip() {
        let mut ranges = Vec::new();
        for range in [10..20, 20..25, 24..26, 30..31, 5..6] {
            push_merged(&mut ranges, range);
        }
        assert_eq!(ranges, [10..26, 30..31, 5..6]);
        let metadata = Metadata { ranges: vec![5..6, 10..26, 30..31] };
        let within = |blocks| metadata.within(blocks).collect::<Vec<_>>();
        assert_eq!(within(0..100), [5..6, 10..26, 30..31]);
        assert_eq!(within(12..30), vec![12..26]);
        assert_eq!(within(26..30), Vec::<Range<u64>>::new());
        let run = |start, length| Run { start: BlockNo(start), length };
        assert_eq!(metadata.first_in(run(6, 4)), None);
        assert_eq!(metadata.first_in(run(6, 5)), Some(BlockNo(10)));
        assert_eq!(metadata.first_in(run(25, 2)), Some(BlockNo(25)));
    }
}
