//! `ext2-goal`: how ext2 and ext3 placed blocks before reservations, from Linux 2.4 (the first
//! post, 2001) to 2.6.9.
//!
//! The goal is the first of these that exists: the block after the last one that was allocated, if
//! the file grows by its next block; the block of the nearest earlier pointer in the same inode or
//! indirect block; that indirect block itself; the first block of the inode's group. Indirect
//! blocks are part of the same stream: they are allocated just before the data that they map, and
//! get the block just before it.
use super::{Allocation, AllocationFacts, AllocationPlan, Delay, Purpose, Search, within_volume};
use extant_format::BlockNo;

/// Blocks that a growing regular file gets at once: the wanted one and the 7 after it (ext2's
/// default).
const PREALLOCATED_BLOCKS: u32 = 8;

/// The policy. It keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ext2Goal;

impl Ext2Goal {
    fn goal(facts: &AllocationFacts) -> BlockNo {
        Ext2Goal::near(facts).unwrap_or(facts.group_start)
    }

    /// The goal by what the file has already; `None` if it has nothing, or for attributes, which
    /// go to the inode's group.
    pub(super) fn near(facts: &AllocationFacts) -> Option<BlockNo> {
        if facts.purpose == Purpose::Attribute {
            return None;
        }
        // A goal of 0 means that nothing is remembered. (Linux 2.4 uses it as block 0 all the same,
        // and so gives the second block of a file that was just opened the goal 1: a small form of
        // the bug of the fifth post.)
        let stream = facts.stream;
        if stream.next_goal.0 != 0 && stream.next_block.0.checked_add(1) == Some(facts.file_block.0)
        {
            return Some(BlockNo(stream.next_goal.0.saturating_add(1)));
        }
        facts.previous.map(|(_, block)| block).or(facts.map_block)
    }
}

impl Allocation for Ext2Goal {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        let goal = within_volume(facts, Ext2Goal::goal(facts));
        AllocationPlan { goal, length: facts.want.max(1), search: Search::GoalThenByte }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
    fn preallocate(&self) -> u32 {
        PREALLOCATED_BLOCKS
    }
}
