//! Units: what one bit of a block bitmap stands for. A block; with `bigalloc` a cluster of them,
//! which belongs to one file, or is one node of a map, whatever part of it is used.
//!
//! ```text
//! bits, descriptors, promises, counters   units
//! runs, plans, what others are told       blocks: what is allocated is whole units
//! ```
//!
//! *Invariants*: groups begin at the boundary of a unit, and the volume ends at one, where it is
//! written (`superblock::check_written`).
use super::Space;
use extant_format::{BlockNo, GroupNo, Run};

impl Space {
    /// log2 of the blocks of a unit: 0 but for bigalloc.
    pub fn unit_log2(&self) -> u32 {
        self.unit_log2
    }

    /// How many units hold this many blocks, from the beginning of one on.
    pub fn units(&self, blocks: u64) -> u64 {
        // Asked for at each step of an allocation: no division.
        let whole = blocks >> self.unit_log2;
        let rest = blocks & ((1 << self.unit_log2) - 1);
        whole + u64::from(rest != 0)
    }

    /// As [`Space::units`], of blocks of one group.
    #[allow(clippy::cast_possible_truncation)] // no more than it is given
    pub(super) fn units_of(&self, blocks: u32) -> u32 {
        self.units(blocks.into()) as u32
    }

    /// As many blocks as these units have.
    pub(super) fn blocks_of(&self, units: u64) -> u64 {
        units << self.unit_log2
    }

    /// All blocks of the units that a run touches.
    #[allow(clippy::cast_possible_truncation)] // clipped to what a run can have
    pub fn whole_units(&self, run: Run) -> Run {
        if self.unit_log2 == 0 {
            return run;
        }
        let first = run.start.0 >> self.unit_log2;
        let end = self.units(run.start.0.saturating_add(run.length.into()));
        let most = u64::from(u32::MAX >> self.unit_log2);
        let length = self.blocks_of(end.saturating_sub(first).min(most));
        Run { start: BlockNo(self.blocks_of(first)), length: length as u32 }
    }

    /// The bit of a block in its group's bitmap.
    pub(super) fn bit(&self, group: GroupNo, block: BlockNo) -> u64 {
        block.0.saturating_sub(self.store.superblock.group_start(group).0) >> self.unit_log2
    }

    /// The blocks of some bits of a group.
    pub(super) fn run(&self, group: GroupNo, first: u32, length: u32) -> Run {
        let start = self.store.superblock.group_start(group).0;
        let start = BlockNo(start.saturating_add(self.blocks_of(first.into())));
        Run { start, length: length << self.unit_log2 }
    }
}
