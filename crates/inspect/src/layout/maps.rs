//! How map blocks are placed: together or scattered, and how far from what they map.
use extant_format::BlockNo;
use serde::Serialize;

/// A gap between two map blocks that is read over rather than jumped: a seek costs as much as some
/// hundred KiB.
const READ_OVER_BYTES: u64 = 256 << 10;
/// The part of a group in which its map blocks are looked for together: a 64th, the size of a
/// metacluster.
const CLUSTER_PART: u64 = 64;

/// How the indirect blocks and extent nodes of a volume are placed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct MapLayout {
    /// How many.
    pub blocks: u64,
    /// Runs of neighbours on the disk.
    pub runs: u64,
    /// Blocks of a run, on average.
    pub mean_run_blocks: Option<f64>,
    /// Jumps that it takes to read them all in the order of the disk, gaps of up to 256 KiB read
    /// over.
    pub seeks: u64,
    /// Groups that have two or more.
    pub groups: u64,
    /// Of the map blocks of these groups, the share that is in the 64th of the group that has
    /// most of them: 1 where each group has a cluster.
    pub clustered: Option<f64>,
    /// Blocks from a map block to the first block of data below it, on average.
    pub mean_distance_blocks: Option<f64>,
}

/// Distances from map blocks to their data, of one file after the other.
#[derive(Default)]
pub(super) struct Distances {
    /// Map blocks that were met since the last data.
    waiting: Vec<BlockNo>,
    count: u64,
    sum: u64,
}

impl Distances {
    /// A map block was met; it comes before what is below it.
    pub(super) fn map_block(&mut self, block: BlockNo) {
        // A path has at most five levels; without data below there is nothing to wait for.
        if self.waiting.len() < 8 {
            self.waiting.push(block);
        }
    }

    pub(super) fn data(&mut self, start: BlockNo) {
        for block in self.waiting.drain(..) {
            self.count += 1;
            self.sum = self.sum.saturating_add(block.0.abs_diff(start.0));
        }
    }

    pub(super) fn end_file(&mut self) {
        self.waiting.clear();
    }
}

/// A share of a whole; `None` of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Where groups begin and how long they are.
#[derive(Clone, Copy)]
pub(super) struct Grouping {
    pub(super) first: u64,
    pub(super) blocks_per_group: u64,
    pub(super) block_size: u64,
}

impl MapLayout {
    /// Of these blocks, in any order.
    pub(super) fn new(
        mut blocks: Vec<u64>,
        distances: &Distances,
        grouping: Grouping,
    ) -> MapLayout {
        blocks.sort_unstable();
        let read_over = READ_OVER_BYTES / grouping.block_size.max(1);
        let gaps = || blocks.windows(2).map(|pair| pair[1] - pair[0]);
        let some = u64::from(!blocks.is_empty());
        let runs = some + gaps().filter(|gap| *gap != 1).count() as u64;
        let seeks = some + gaps().filter(|gap| *gap > read_over).count() as u64;
        let per_group = grouping.blocks_per_group.max(1);
        let (mut groups, mut several, mut together) = (0, 0, 0);
        for group in blocks.chunk_by(|one, other| {
            let of = |block: u64| block.saturating_sub(grouping.first) / per_group;
            of(*one) == of(*other)
        }) {
            if group.len() < 2 {
                continue;
            }
            groups += 1;
            several += group.len() as u64;
            together += densest(group, (per_group / CLUSTER_PART).max(1));
        }
        MapLayout {
            blocks: blocks.len() as u64,
            runs,
            mean_run_blocks: ratio(blocks.len() as u64, runs),
            seeks,
            groups,
            clustered: ratio(together, several),
            mean_distance_blocks: ratio(distances.sum, distances.count),
        }
    }
}

/// Of these rising numbers, how many are in the stretch of this length that has most.
fn densest(blocks: &[u64], length: u64) -> u64 {
    let (mut first, mut most) = (0, 0);
    for (at, block) in blocks.iter().enumerate() {
        while blocks.get(first).is_some_and(|start| block - start >= length) {
            first += 1;
        }
        most = most.max(at + 1 - first);
    }
    most as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPING: Grouping = Grouping { first: 1, blocks_per_group: 6400, block_size: 1024 };

    #[test]
    fn clusters_are_discerned_from_what_is_scattered() {
        let mut distances = Distances::default();
        distances.map_block(BlockNo(100));
        distances.map_block(BlockNo(110));
        distances.data(BlockNo(130));
        distances.data(BlockNo(900));
        distances.map_block(BlockNo(200));
        distances.end_file();
        distances.data(BlockNo(300));
        // A cluster of 30 and one block far away; a group with one; a group of two that are far
        // apart.
        let blocks = (1000..1030).chain([5000, 6401 + 70, 13_000, 16_000]).rev().collect();
        let found = MapLayout::new(blocks, &distances, GROUPING);
        let expected = MapLayout {
            blocks: 34,
            runs: 5,
            mean_run_blocks: Some(34.0 / 5.0),
            seeks: 5,
            groups: 2,
            clustered: Some(31.0 / 33.0),
            mean_distance_blocks: Some(25.0),
        };
        assert_eq!(found, expected);
        assert_eq!(
            MapLayout::new(Vec::new(), &Distances::default(), GROUPING),
            MapLayout::default()
        );
        let near = MapLayout::new(vec![10, 12, 200, 800], &Distances::default(), GROUPING);
        assert_eq!((near.runs, near.seeks, near.clustered), (4, 2, Some(0.5)));
    }
}
