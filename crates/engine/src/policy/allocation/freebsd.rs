//! FreeBSD's ext2fs, three times: as it was when it was fast, as the fifth post (2010) found it,
//! and as it was put right.
//!
//! All three give one block after the other when it is written, and preallocate nothing.
use super::ext2_goal::Ext2Goal;
use super::{Allocation, AllocationFacts, Delay, Plan, Purpose, Search, Stream, within_volume};
use extant_format::{BlockNo, Run};

/// Free blocks in a row that are looked for when the goal is in use: a byte of the bitmap, wherever
/// it begins.
const RUN_BLOCKS: u32 = 8;

/// `freebsd-5.2` (2004; the fast column of the fifth post): the goals and the search of Linux's
/// ext2, from which the code came, without its preallocation. "Essentially sequential", as the post
/// has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsd52;

impl Allocation for FreeBsd52 {
    fn plan(&self, facts: &AllocationFacts) -> Plan {
        Ext2Goal.plan(facts)
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}

/// `freebsd-2010` (the slow column of the fifth post): the bug, with all that comes of it.
///
/// The allocator was written anew and no longer stored the last block and its place, so that both
/// stay 0. But a file that grows by the block behind the one remembered still has both raised by
/// one: its block 1 gets goal 1, block 2 goal 2, and so on, which are the first blocks of the
/// *volume*, and in use. The search then takes the first byte of group 0's bitmap that is all free,
/// and of it one bit: one block in eight. Only the first block of a file lies in its inode's group;
/// indirect blocks go where the data goes that they map. A volume fills group 0, then, by the
/// quadratic rehash, 1, 3, 7.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsd2010;

impl FreeBsd2010 {
    /// What is remembered once the file is asked to grow by this block.
    fn raised(facts: &AllocationFacts) -> Stream {
        let Stream { next_block, next_goal } = facts.stream;
        if next_block.0.checked_add(1) != Some(facts.file_block.0) {
            return facts.stream;
        }
        Stream { next_block: facts.file_block, next_goal: BlockNo(next_goal.0.saturating_add(1)) }
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
    fn plan(&self, facts: &AllocationFacts) -> Plan {
        Plan {
            goal: within_volume(facts, FreeBsd2010::goal(facts)),
            length: 1,
            search: Search::FreeByte,
        }
    }
    /// What was given is not remembered: only that the file grew.
    fn remembered(&self, facts: &AllocationFacts, _: Run) -> Stream {
        FreeBsd2010::raised(facts)
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}

/// `freebsd-fixed`: what was given is remembered again, and a run of eight free bits may begin
/// anywhere in a byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeBsdFixed;

impl Allocation for FreeBsdFixed {
    fn plan(&self, facts: &AllocationFacts) -> Plan {
        Plan { search: Search::FreeRun { blocks: RUN_BLOCKS }, ..Ext2Goal.plan(facts) }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}
