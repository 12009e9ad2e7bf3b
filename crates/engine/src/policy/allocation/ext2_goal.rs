//! `ext2-goal`: how ext2 and ext3 placed blocks before reservations, from Linux 2.4 (the first
//! post, 2001) to 2.6.9.
//!
//! The goal is, in this order: the block behind the last one that was allocated, if the file grows
//! by the next block; the block of the nearest earlier pointer in the same inode or indirect block;
//! that indirect block itself; the first block of the inode's group. Indirect blocks take part in
//! the same stream: they are wanted just before the data that they map, and get the block just
//! before it.
use super::{Allocation, AllocationFacts, Delay, Plan, Purpose, Search, within_volume};
use extant_format::BlockNo;

/// Blocks that a growing regular file gets at once: the one that is wanted and 7 behind it (ext2's
/// default).
const PREALLOCATED_BLOCKS: u32 = 8;

/// The policy. It keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ext2Goal;

impl Ext2Goal {
    fn goal(facts: &AllocationFacts) -> BlockNo {
        if facts.purpose == Purpose::Attribute {
            return facts.group_start;
        }
        // A goal of 0 was never given: nothing is remembered. (Linux 2.4 takes it for block 0 all
        // the same, and so sends the second block of a file that was just opened to block 1. That
        // is the bug of the fifth post in small.)
        let stream = facts.stream;
        if stream.next_goal.0 != 0 && stream.next_block.0.checked_add(1) == Some(facts.file_block.0)
        {
            return BlockNo(stream.next_goal.0.saturating_add(1));
        }
        match (facts.previous, facts.map_block) {
            (Some((_, block)), _) => block,
            (None, Some(map)) => map,
            (None, None) => facts.group_start,
        }
    }
}

impl Allocation for Ext2Goal {
    fn plan(&self, facts: &AllocationFacts) -> Plan {
        let goal = within_volume(facts, Ext2Goal::goal(facts));
        Plan { goal, length: facts.want.max(1), search: Search::GoalThenByte }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
    fn preallocate(&self) -> u32 {
        PREALLOCATED_BLOCKS
    }
}
