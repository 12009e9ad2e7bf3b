//! Where blocks go: decided from facts alone, but for the cursors of `packed`. `space` finds out
//! whether there is room.
mod ext2_goal;
mod freebsd;
mod metacluster;
mod multi_block;
mod packed;
mod reservation;

pub use ext2_goal::Ext2Goal;
pub use freebsd::{FreeBsd52, FreeBsd2010, FreeBsdFixed};
pub use metacluster::{
    ClusterSize, GroupShape, MapBlocks, MapBlocksError, Metacluster, Position, Route,
};
pub use multi_block::MultiBlock;
pub use packed::{Packed, packed_around, packed_from};
pub use reservation::Reservation;
pub use reservation::next_window_blocks;

use extant_format::inode::FileType;
use extant_format::{BlockNo, FileBlock, GroupNo, Ino, Run};

/// What blocks are wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Purpose {
    /// A regular file's data, or a long symlink's target.
    Data,
    /// A directory's block.
    Directory,
    /// An indirect block or a node of an extent tree.
    Map,
    /// A block of extended attributes.
    Attribute,
}

/// What an allocation policy may know.
#[derive(Clone, Copy, Debug)]
pub struct AllocationFacts {
    /// Inode that the blocks are for.
    pub ino: Ino,
    /// Type of that inode.
    pub file_type: Option<FileType>,
    /// The group of the inode.
    pub group: GroupNo,
    /// First block of that group.
    pub group_start: BlockNo,
    /// Groups in a flex group; 1 without flex groups.
    pub groups_per_flex: u32,
    /// Blocks in a group.
    pub blocks_per_group: u32,
    /// First data block of the volume.
    pub first_data_block: u32,
    /// Number of blocks of the volume.
    pub blocks: u64,
    /// What the blocks are wanted for.
    pub purpose: Purpose,
    /// Which block of the file is wanted first (for `Map`: the first one that it will map).
    pub file_block: FileBlock,
    /// How many blocks are wanted in a row.
    pub want: u32,
    /// Size of the file in blocks, including delayed writes.
    pub file_blocks: u64,
    /// The block that holds the nearest mapped file block before this one, and that file block.
    pub previous: Option<(FileBlock, BlockNo)>,
    /// The map block that will point to it, if it is not the inode.
    pub map_block: Option<BlockNo>,
    /// What the file remembers of its last allocation.
    pub stream: LastAllocation,
    /// The window that the file has, if any.
    pub window: Option<WindowFacts>,
    /// The number of the process that wrote the file or made the directory.
    pub process: u32,
}

/// What a policy may know of a file's window: blocks that are reserved for it in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFacts {
    /// Length that was asked for, in blocks.
    pub wanted: u32,
    /// Length in blocks: less than wanted at the end of a group.
    pub length: u32,
    /// Blocks that were allocated in it.
    pub hits: u32,
}

/// What a file remembers in memory of its last allocation (ext2's next_alloc_block and
/// next_alloc_goal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LastAllocation {
    /// The last file block that was allocated.
    pub next_block: FileBlock,
    /// The block that it got.
    pub next_goal: BlockNo,
}

/// How groups are searched from the goal on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// As ext2 does: the goal; a free bit up to the next 64-bit boundary; the first free byte,
    /// stepped back; any bit; the next groups.
    GoalThenByte,
    /// The run at the goal, if it is long enough; else the first free run of the group with
    /// `look_for` blocks; else its longest, if that is half of what is wanted; then the next group
    /// that may have a run of `look_for` blocks; else the group that may have the longest.
    LongestRun {
        /// Length of the run that is searched for. Only `length` blocks are taken: the file's next
        /// blocks should follow there.
        look_for: u32,
    },
    /// The next free block from the goal on, with the free ones that follow it: never backwards.
    /// Leaves no free block between.
    Sequential,
    /// As FreeBSD's ext2fs of 2010: the goal; the first free byte from that of the goal on, then
    /// from the start of the group, of which only the wanted blocks are taken; any bit in the same
    /// order; other groups by quadratic rehash.
    FreeByte,
    /// As `FreeByte`, with a run of `blocks` free bits, at any bit, instead of a byte.
    FreeRun {
        /// Length of the run.
        blocks: u32,
    },
    /// As in ext3: from the goal on in the inode's window; else in a new window; else as
    /// `GoalThenByte`.
    Window {
        /// Inode that has the window.
        owner: Ino,
        /// Length of a new window in blocks.
        blocks: u32,
    },
}

/// What the policy wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationPlan {
    /// Block at which the search starts.
    pub goal: BlockNo,
    /// Blocks to allocate at most, in one run; at least 1.
    pub length: u32,
    /// How to search.
    pub search: Search,
}

/// Decides where blocks go. Reads facts and changes nothing, except a cursor that a policy may
/// have.
pub trait Allocation: Send + Sync {
    /// The plan for the next run.
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan;
    /// Called with what was allocated, so that a policy can move its cursor.
    fn given(&self, facts: &AllocationFacts, run: Run) {
        let _ = (facts, run);
    }
    /// What the file remembers after this run (not empty) was allocated for its data or, for a
    /// directory, for itself.
    fn remembered(&self, facts: &AllocationFacts, run: Run) -> LastAllocation {
        let last = run.length.saturating_sub(1);
        LastAllocation {
            next_block: FileBlock(facts.file_block.0.saturating_add(last)),
            next_goal: BlockNo(run.start.0.saturating_add(last.into())),
        }
    }
    /// Whether a file's blocks are allocated when it is written or at write-back.
    fn delayed(&self) -> Delay;
    /// Blocks to allocate beyond those wanted for regular files that grow (ext2: 8 in all).
    fn preallocate(&self) -> u32 {
        0
    }
}

/// The goal, or the first block of the inode's group if the goal is outside the volume.
fn within_volume(facts: &AllocationFacts, goal: BlockNo) -> BlockNo {
    if goal.0 >= facts.first_data_block.into() && goal.0 < facts.blocks {
        goal
    } else {
        facts.group_start
    }
}

/// When a file's blocks are allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delay {
    /// At the write.
    AtWrite,
    /// At write-back.
    AtWriteBack,
}

#[cfg(test)]
mod tests;
