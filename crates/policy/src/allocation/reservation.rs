//! `reservation`: ext3 since Linux 2.6.10, as of 2.6.23 (the posts of 2007): each open file that
//! grows has a window of blocks that other windows stay out of. Windows are in memory only: the
//! bitmap knows nothing of them, and a crash forgets them.
//!
//! Goals are those of `ext2-goal`, except for the first block of a file or directory: its goal is
//! not the start of the inode's group, but the start plus as many sixteenths of the group as the
//! number of the process modulo 16, so that processes that write at the same time begin apart.
//!
//! If the goal is in the file's window, a block is searched between
//! the goal and the window's end. Otherwise the file gets a new window: the first gap between
//! windows, at or after the goal, that is long enough and has a free block. The first window has 8
//! blocks. A file that used more than half of one gets a next one twice as long, up to 1,027
//! blocks. Groups with no more free blocks than half a window are skipped; if no group has room for
//! a window, the search is that of ext2. A window is dropped when its file is cut, or closed for
//! the last time. Directories have no windows, and take blocks out of those of others.
use super::ext2_goal::Ext2Goal;
use super::{
    Allocation, AllocationFacts, AllocationPlan, Delay, Purpose, Search, WindowFacts, within_volume,
};
use extant_format::BlockNo;
use extant_format::inode::FileType;

/// Length of the first window of a file, in blocks.
const WINDOW_BLOCKS_MIN: u32 = 8;
/// Length of the longest window, in blocks.
const WINDOW_BLOCKS_MAX: u32 = 1027;

/// Parts of a group in which processes begin.
const PARTS: u32 = 16;

/// The policy. It keeps nothing: the windows are kept with the groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reservation;

/// Length of the window after this one, in blocks.
pub fn next_window_blocks(window: Option<WindowFacts>) -> u32 {
    match window {
        None => WINDOW_BLOCKS_MIN,
        Some(window) if window.hits > window.length / 2 => window.wanted.saturating_mul(2),
        Some(window) => window.wanted,
    }
    .clamp(WINDOW_BLOCKS_MIN, WINDOW_BLOCKS_MAX)
}

impl Reservation {
    fn goal(facts: &AllocationFacts) -> BlockNo {
        let part = match facts.purpose {
            Purpose::Attribute => 0,
            Purpose::Data | Purpose::Directory | Purpose::Map => facts.process % PARTS,
        };
        let into = part * (facts.blocks_per_group / PARTS);
        let first = BlockNo(facts.group_start.0.saturating_add(into.into()));
        within_volume(facts, Ext2Goal::near(facts).unwrap_or(first))
    }
}

impl Allocation for Reservation {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        let plan = AllocationPlan { goal: Reservation::goal(facts), ..Ext2Goal.plan(facts) };
        let reserves =
            facts.file_type == Some(FileType::Regular) && facts.purpose != Purpose::Attribute;
        if !reserves {
            return plan;
        }
        AllocationPlan {
            search: Search::Window { owner: facts.ino, blocks: next_window_blocks(facts.window) },
            ..plan
        }
    }
    fn delayed(&self) -> Delay {
        Delay::AtWrite
    }
}
