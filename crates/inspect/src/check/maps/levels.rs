//! How many entries each level of an extent tree has, and whether fewer blocks would do.
//!
//! *Invariants*: counts only grow, and are complete when the walk of the map is over.
//! *Locking*: counters are atomics.
use extant_format::extent::{self, MAX_DEPTH};
use extant_format::inode::MAP_SIZE;
use std::sync::atomic::{AtomicU64, Ordering};

/// Levels that are counted: those that any file can need.
const LEVELS: usize = MAX_DEPTH as usize + 1;

/// The entries of each level, by its height above the extents.
pub(super) struct Levels {
    depth: u16,
    entries: [AtomicU64; LEVELS],
}

impl Levels {
    /// Of a tree whose root is that deep; nothing is counted yet.
    pub(super) fn of(depth: u16) -> Levels {
        Levels { depth, entries: Default::default() }
    }

    /// Adds the entries of a node of that depth.
    pub(super) fn add(&self, depth: u16, entries: usize) {
        if let Some(level) = self.entries.get(usize::from(depth)) {
            level.fetch_add(entries as u64, Ordering::Relaxed);
        }
    }

    /// Whether e2fsck would make the tree smaller: a level has room in the root, with an entry to
    /// spare, or in fewer nodes that have an entry to spare each, and two in all.
    pub(super) fn are_large(&self, block_size: usize) -> bool {
        let root = extent::capacity(MAP_SIZE) as u64;
        let node = (extent::capacity(block_size) as u64).saturating_sub(1);
        let counts: Vec<u64> =
            self.entries.iter().map(|level| level.load(Ordering::Relaxed)).collect();
        let below_root = counts.windows(2).take(self.depth.into());
        let is_large = |(entries, nodes): (u64, u64)| {
            let fewer = nodes.saturating_sub(1).saturating_mul(node);
            entries < root || entries.saturating_add(2) <= fewer
        };
        self.depth > MAX_DEPTH || below_root.map(|pair| (pair[0], pair[1])).any(is_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As e2fsck 1.47 judges trees of that many extents in that many leaves.
    #[test]
    fn trees_are_large_where_e2fsck_makes_them_smaller() {
        for (block_size, extents, leaves, expected) in [
            (1024, 3, 1, true),
            (1024, 4, 1, false),
            (1024, 81, 2, true),
            (1024, 82, 2, false),
            (1024, 164, 3, true),
            (1024, 165, 3, false),
            (4096, 337, 2, true),
            (4096, 338, 2, false),
            (4096, 676, 3, true),
            (4096, 677, 3, false),
        ] {
            let levels = Levels::of(1);
            levels.add(1, leaves);
            levels.add(0, extents);
            assert_eq!(levels.are_large(block_size), expected, "{extents} in {leaves}");
        }
        let two = Levels::of(2);
        two.add(2, 1);
        two.add(1, 7);
        two.add(0, 475);
        assert!(two.are_large(1024));
        let full = Levels::of(2);
        full.add(2, 1);
        full.add(1, 7);
        full.add(0, 557);
        assert!(!full.are_large(1024));
        assert!(Levels::of(MAX_DEPTH + 1).are_large(1024));
    }
}
