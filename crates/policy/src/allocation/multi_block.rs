//! `multi-block`: as in ext4 since Linux 2.6.28: blocks are allocated at write-back, many at once,
//! where a long run is free.
//!
//! The goal is where the block would be if the file continued without a gap from its nearest
//! earlier block. A file without blocks starts in its inode's group. If flex groups have four
//! groups or more, directories start in the first group of the flex group, and file data in the
//! second, so that directories and inode tables are together. The search is for a run for the rest
//! of the file, up to 8 MiB of 4 KiB blocks, as ext4 rounds requests up.
use super::{Allocation, AllocationFacts, AllocationPlan, Delay, Purpose, Search, within_volume};
use extant_format::BlockNo;

/// Flex groups with at least this many groups keep directories and file data apart.
const FLEX_GROUPS_MIN: u32 = 4;
/// The longest run that is searched for beyond what is wanted at once, in blocks.
const LOOK_FOR_BLOCKS_MAX: u64 = 2048;

/// The policy. It keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MultiBlock;

impl MultiBlock {
    fn goal(facts: &AllocationFacts) -> BlockNo {
        match facts.previous {
            Some((earlier, block)) if facts.purpose != Purpose::Attribute => {
                BlockNo(block.0.saturating_add(facts.file_block.0.saturating_sub(earlier.0).into()))
            }
            _ => MultiBlock::first_goal(facts),
        }
    }

    fn first_goal(facts: &AllocationFacts) -> BlockNo {
        let flex = facts.groups_per_flex;
        if flex < FLEX_GROUPS_MIN || facts.purpose == Purpose::Attribute {
            return facts.group_start;
        }
        let per_group = u64::from(facts.blocks_per_group);
        let into_flex = u64::from(facts.group.0 % flex).saturating_mul(per_group);
        let first = facts.group_start.0.saturating_sub(into_flex);
        let second = first.saturating_add(per_group);
        match facts.purpose {
            Purpose::Directory => BlockNo(first),
            _ if second < facts.blocks => BlockNo(second),
            _ => BlockNo(first),
        }
    }

    fn look_for(facts: &AllocationFacts) -> u32 {
        let left =
            facts.file_blocks.saturating_sub(facts.file_block.0.into()).min(LOOK_FOR_BLOCKS_MAX);
        let left =
            if facts.purpose == Purpose::Data { u32::try_from(left).unwrap_or(0) } else { 0 };
        left.max(facts.want).max(1)
    }
}

impl Allocation for MultiBlock {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        let goal = within_volume(facts, MultiBlock::goal(facts));
        let search = Search::LongestRun { look_for: MultiBlock::look_for(facts) };
        AllocationPlan { goal, length: facts.want.max(1), search }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWriteBack
    }
}
