//! FreeBSD's ext2fs in three versions: when it was fast, as the fifth post (2010) found it, and
//! after it was repaired.
//!
//! All three allocate each block when it is written, and preallocate nothing.
use super::ext2_goal::Ext2Goal;
use super::{
    Allocation, AllocationFacts, AllocationPlan, Delay, LastAllocation, Purpose, Search,
    within_volume,
};
use extant_format::{BlockNo, Run};

/// How many free blocks in a row are searched for if the goal is in use: as many as a byte of the
/// bitmap, starting at any bit.
const RUN_BLOCKS: u32 = 8;

/// `freebsd-5.2` (2004; the fast column of the fifth post): the search of Linux's ext2, from which
/// the code came, without its preallocation, and with a mistake of 1995 in the goal.
///
/// A new inode remembers block 0 and goal 0. Its first block is taken for the one remembered, so
/// its goal is block 0: the start of the *volume*, whatever the group of the inode, for directories
/// too. Data lies from the front in the order of writing: "essentially sequential, ignoring
/// cylinder groups", as the post has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsd52;

impl FreeBsd52 {
    fn goal(facts: &AllocationFacts) -> BlockNo {
        if facts.purpose == Purpose::Attribute {
            return facts.group_start;
        }
        let stream = FreeBsd2010::raised(facts);
        if stream.next_block == facts.file_block {
            let start = BlockNo(facts.first_data_block.into());
            let is_inside = stream.next_goal >= start && stream.next_goal.0 < facts.blocks;
            return if is_inside { stream.next_goal } else { start };
        }
        match (facts.previous, facts.map_block) {
            (Some((_, block)), _) => block,
            (None, Some(map)) => map,
            (None, None) => facts.group_start,
        }
    }
}

impl Allocation for FreeBsd52 {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        let goal = within_volume(facts, FreeBsd52::goal(facts));
        AllocationPlan { goal, ..Ext2Goal.plan(facts) }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}

/// `freebsd-2010` (the slow column of the fifth post): the bug with all its consequences.
///
/// The allocator had been rewritten and no longer stored the last block and its place, so both stay
/// 0. But when a file grows by the block after the one remembered, both are still raised by one:
/// its block 1 gets goal 1, block 2 goal 2, and so on. These are the first blocks of the *volume*,
/// and in use. The search then takes the first byte of group 0's bitmap that is all free, and one
/// bit of it: one block in eight. Only the first block of a file is in its inode's group; indirect
/// blocks follow the data that they map. A volume fills group 0 first, then, by the quadratic
/// rehash, 1, 3 and 7.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsd2010;

impl FreeBsd2010 {
    /// What is remembered after the file asked for this block.
    fn raised(facts: &AllocationFacts) -> LastAllocation {
        let LastAllocation { next_block, next_goal } = facts.stream;
        if next_block.0.checked_add(1) != Some(facts.file_block.0) {
            return facts.stream;
        }
        LastAllocation {
            next_block: facts.file_block,
            next_goal: BlockNo(next_goal.0.saturating_add(1)),
        }
    }

    fn goal(facts: &AllocationFacts) -> BlockNo {
        if facts.purpose == Purpose::Attribute {
            return facts.group_start;
        }
        let stream = FreeBsd2010::raised(facts);
        if stream.next_goal.0 != 0 && stream.next_block == facts.file_block {
            return stream.next_goal;
        }
        match (facts.previous, facts.map_block) {
            (Some((_, block)), _) => block,
            (None, Some(map)) => map,
            (None, None) => facts.group_start,
        }
    }
}

impl Allocation for FreeBsd2010 {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        AllocationPlan {
            goal: within_volume(facts, FreeBsd2010::goal(facts)),
            length: 1,
            search: Search::FreeByte,
        }
    }
    /// The allocated block is not remembered, only that the file grew.
    fn remembered(&self, facts: &AllocationFacts, _: Run) -> LastAllocation {
        FreeBsd2010::raised(facts)
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}

/// `freebsd-fixed`: the last block is remembered again, and a run of eight free bits may start at
/// any bit.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsdFixed;

impl Allocation for FreeBsdFixed {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        AllocationPlan { search: Search::FreeRun { blocks: RUN_BLOCKS }, ..Ext2Goal.plan(facts) }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}
