//! Windows: blocks reserved in memory for one open file, or one growing directory. The bitmap knows
//! nothing of them.
//!
//! *Invariants*: no two windows overlap, none crosses the end of a group, and an inode has at most
//! one.
//! *Locking*: under `Space::windows`, a short lock under which no other is taken.
use extant_format::Ino;
use extant_format::bitmap::{next_clear, set_run};
use extant_policy::allocation::WindowFacts;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// All windows of a volume.
#[derive(Default)]
pub(super) struct Windows {
    /// The first block of each, and the block after its last.
    by_start: BTreeMap<u64, u64>,
    by_owner: FxHashMap<Ino, OwnedWindow>,
}

#[derive(Clone, Copy)]
struct OwnedWindow {
    start: u64,
    facts: WindowFacts,
}

/// A group's bitmap as a search sees it.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    /// Block number of the first bit.
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
    /// How many bits are in use.
    pub(super) limit: u32,
}

impl Bits<'_> {
    fn end(self) -> u64 {
        self.start.saturating_add(self.limit.into())
    }

    /// The bit of a block of this group.
    fn bit(self, block: u64) -> u32 {
        u32::try_from(block.saturating_sub(self.start)).unwrap_or(u32::MAX)
    }
}

impl Windows {
    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Size and hits of an inode's window.
    pub(super) fn facts(&self, owner: Ino) -> Option<WindowFacts> {
        self.by_owner.get(&owner).map(|known| known.facts)
    }

    /// The blocks of an inode's window.
    pub(super) fn of(&self, owner: Ino) -> Option<Range<u64>> {
        let known = self.by_owner.get(&owner)?;
        Some(known.start..known.start.saturating_add(known.facts.length.into()))
    }

    /// Counts blocks that were allocated in an inode's window.
    pub(super) fn hit(&mut self, owner: Ino, blocks: u32) {
        if let Some(known) = self.by_owner.get_mut(&owner) {
            known.facts.hits = known.facts.hits.saturating_add(blocks);
        }
    }

    /// Drops an inode's window.
    pub(super) fn close(&mut self, owner: Ino) {
        if let Some(known) = self.by_owner.remove(&owner) {
            self.by_start.remove(&known.start);
        }
    }

    /// Opens a new window of `wanted` blocks (fewer at the end of the group) for an inode: the
    /// first gap between windows, from bit `from` on, that is long enough and has a free block.
    /// Returns it as bits. Without such a gap, the inode has no window afterwards.
    pub(super) fn open(
        &mut self,
        owner: Ino,
        bits: Bits<'_>,
        from: u32,
        wanted: u32,
    ) -> Option<Range<u32>> {
        self.close(owner);
        let wanted = wanted.max(1);
        let mut from = from;
        loop {
            let first = self.gap(bits, from, wanted)?;
            let free = next_clear(bits.bytes, first, bits.limit)?;
            let end = first.saturating_add(wanted).min(bits.limit);
            if free < end {
                self.insert(owner, bits.start.saturating_add(first.into()), wanted, end - first);
                return Some(first..end);
            }
            from = free;
        }
    }

    fn insert(&mut self, owner: Ino, start: u64, wanted: u32, length: u32) {
        self.by_start.insert(start, start.saturating_add(length.into()));
        let facts = WindowFacts { wanted, length, hits: 0 };
        self.by_owner.insert(owner, OwnedWindow { start, facts });
    }

    /// The first bit from `from` on, such that the `wanted` bits from there, or those up to the end
    /// of the group, are in no window.
    fn gap(&self, bits: Bits<'_>, from: u32, wanted: u32) -> Option<u32> {
        let mut at = bits.start.saturating_add(from.into());
        while at < bits.end() {
            let until = at.saturating_add(wanted.into()).min(bits.end());
            match self.by_start.range(..until).next_back() {
                Some((_, end)) if *end > at => at = *end,
                _ => return Some(bits.bit(at)),
            }
        }
        None
    }

    /// The bitmap with all windows marked as used; `None` if the group has no window.
    pub(super) fn marked(&self, bits: Bits<'_>) -> Option<Vec<u8>> {
        let mut marked = None;
        // Windows do not cross groups.
        for (start, end) in self.by_start.range(bits.start..bits.end()) {
            let length = u32::try_from(end - start).unwrap_or(u32::MAX);
            let bytes = marked.get_or_insert_with(|| bits.bytes.to_vec());
            let _ = set_run(bytes, bits.bit(*start), length);
        }
        marked
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges, some of one
mod tests {
    use super::*;

    /// Bits of 100 blocks, the first of which is block 1000, with these in use.
    fn bitmap(used: &[Range<u32>]) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        used.iter().for_each(|run| {
            let _ = set_run(&mut bytes, run.start, run.end - run.start);
        });
        bytes
    }

    fn open(
        windows: &mut Windows,
        owner: u32,
        bytes: &[u8],
        from: u32,
        wanted: u32,
    ) -> Option<Range<u32>> {
        let bits = Bits { start: 1000, bytes, limit: 100 };
        windows.open(Ino(owner), bits, from, wanted)
    }

    #[test]
    fn a_window_is_the_first_gap_that_has_a_free_block() {
        let free = bitmap(&[]);
        let mut windows = Windows::default();
        assert_eq!(open(&mut windows, 1, &free, 20, 8), Some(20..28));
        assert_eq!(open(&mut windows, 2, &free, 15, 8), Some(28..36), "15 to 19 is too short");
        assert_eq!(open(&mut windows, 3, &free, 12, 8), Some(12..20));
        assert_eq!(open(&mut windows, 4, &free, 0, 16), Some(36..52));
        assert_eq!(
            open(&mut windows, 5, &free, 96, 8),
            Some(96..100),
            "cut at the end of the group"
        );
        assert_eq!(open(&mut windows, 6, &free, 90, 8), None);
        assert_eq!(open(&mut windows, 1, &free, 20, 8), Some(20..28), "one's own is dropped first");
        let mut windows = Windows::default();
        let used = bitmap(&[20..41]);
        assert_eq!(open(&mut windows, 1, &used, 20, 8), Some(41..49), "20..28 has no free block");
        assert_eq!(open(&mut windows, 2, &used, 16, 8), Some(16..24), "the first four are free");
        assert_eq!(open(&mut windows, 3, &used, 34, 8), Some(49..57), "34..42 meets a window");
        let full = bitmap(&[0..100]);
        assert_eq!(open(&mut windows, 1, &full, 0, 8), None);
        assert_eq!(windows.of(Ino(1)), None);
    }

    #[test]
    fn windows_never_overlap_whatever_is_opened_and_closed() {
        let used = bitmap(&[3..17, 40..44, 60..61, 70..99]);
        let mut windows = Windows::default();
        let mut seed = 1u64;
        for _ in 0..5000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (owner, from, wanted) =
                ((seed >> 33) % 12, (seed >> 40) % 100, 1 + (seed >> 50) % 20);
            if seed >> 62 == 0 {
                windows.close(Ino(owner as u32));
            } else {
                let given = open(&mut windows, owner as u32, &used, from as u32, wanted as u32);
                if let Some(given) = given {
                    assert!(next_clear(&used, given.start, given.end).is_some());
                    assert!(given.start >= from as u32 && given.end <= 100);
                }
            }
            let all: Vec<(u64, u64)> =
                windows.by_start.iter().map(|(start, end)| (*start, *end)).collect();
            assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{all:?}");
            assert_eq!(all.len(), windows.by_owner.len());
        }
    }

    #[test]
    fn windows_are_marked_for_others() {
        let used = bitmap(&[0..4]);
        let mut windows = Windows::default();
        open(&mut windows, 1, &used, 10, 8).unwrap();
        open(&mut windows, 2, &used, 30, 8).unwrap();
        let bits = |bytes| Bits { start: 1000, bytes, limit: 100 };
        assert_eq!(windows.marked(bits(&used)), Some(bitmap(&[0..4, 10..18, 30..38])));
        windows.close(Ino(2));
        assert_eq!(windows.marked(bits(&used)), Some(bitmap(&[0..4, 10..18])));
        let next_group = Bits { start: 1100, ..bits(&used) };
        assert_eq!(windows.marked(next_group), None, "another group");
        windows.hit(Ino(1), 5);
        let facts = WindowFacts { wanted: 8, length: 8, hits: 5 };
        assert_eq!(windows.facts(Ino(1)), Some(facts));
    }
}
