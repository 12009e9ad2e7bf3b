//! Where blocks go: pure functions of facts. `group` finds out whether there is room there.
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
pub use packed::{Packed, packed_from};
pub use reservation::Reservation;
pub(crate) use reservation::next_window_blocks;

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
    /// For which inode.
    pub ino: Ino,
    /// Of which type.
    pub file_type: Option<FileType>,
    /// The group of the inode.
    pub group: GroupNo,
    /// First block of that group.
    pub group_start: BlockNo,
    /// Groups of a flex group; 1 without.
    pub groups_per_flex: u32,
    /// Blocks of a group.
    pub blocks_per_group: u32,
    /// First data block of the volume.
    pub first_data_block: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    /// What for.
    pub purpose: Purpose,
    /// Which block of the file is wanted first (for `Map`: the first one that it will map).
    pub file_block: FileBlock,
    /// How many are wanted in a row.
    pub want: u32,
    /// Size of the file in blocks, as known now (delayed writes included).
    pub file_blocks: u64,
    /// The block that holds the nearest mapped file block before this one, and that file block.
    pub previous: Option<(FileBlock, BlockNo)>,
    /// The map block that will point to it, where it is not the inode.
    pub map_block: Option<BlockNo>,
    /// What the file remembers of its last allocation.
    pub stream: Stream,
    /// The window that the file has, if any.
    pub window: Option<WindowFacts>,
}

/// What a policy may know of a file's window: blocks that, in memory only, are kept from other
/// windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFacts {
    /// Blocks that were wanted for it.
    pub wanted: u32,
    /// Blocks that it has: fewer at the end of a group.
    pub length: u32,
    /// Blocks that were taken out of it.
    pub hits: u32,
}

/// What a file remembers in memory of its last allocation (ext2's next_alloc_block and
/// next_alloc_goal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stream {
    /// The last file block that was allocated.
    pub next_block: FileBlock,
    /// The block that it got.
    pub next_goal: BlockNo,
}

/// How a group is searched from the goal on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// As ext2 does: the goal; a free bit up to the next 64-bit boundary; the first free byte,
    /// stepped back; any bit; the next groups.
    GoalThenByte,
    /// The run at the goal, if it is long enough; else the first free run of the group that has
    /// `look_for` blocks; else its longest, if that is half of what is wanted; then the group with
    /// most room.
    LongestRun {
        /// A run of so many blocks is looked for, though only `length` are taken: the file's next
        /// blocks are to follow there.
        look_for: u32,
    },
    /// The next free block from the goal on, as many in a row as there are: never backwards. Leaves
    /// no gap behind it.
    Sequential,
    /// As FreeBSD's ext2fs of 2010 does it: the goal; the first free byte from that of the goal on,
    /// then from the start of the group, of which only as many blocks are taken as are wanted; any
    /// bit in that order; other groups by quadratic rehash.
    FreeByte,
    /// The same, with a run of so many free bits, wherever it begins, in place of a byte.
    FreeRun {
        /// How many in a row.
        blocks: u32,
    },
    /// As ext3 does: in the window of this inode, from the goal on; else in a new one; else as
    /// `GoalThenByte`.
    Window {
        /// Whose window.
        owner: Ino,
        /// How long a new one is.
        blocks: u32,
    },
}

/// What the policy wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where to begin to look.
    pub goal: BlockNo,
    /// At most so many blocks in one run; never 0.
    pub length: u32,
    /// How to look.
    pub search: Search,
}

/// Decides where. Reads facts, touches nothing but the cursor that a policy may keep inside itself.
pub trait Allocation: Send + Sync {
    /// The plan for the next run.
    fn plan(&self, facts: &AllocationFacts) -> Plan;
    /// Told what was given, so that a policy with a cursor can move it.
    fn given(&self, facts: &AllocationFacts, run: Run) {
        let _ = (facts, run);
    }
    /// What the file remembers once it was given this run (never empty) for its data or, as a
    /// directory, for itself.
    fn remembered(&self, facts: &AllocationFacts, run: Run) -> Stream {
        let last = run.length.saturating_sub(1);
        Stream {
            next_block: FileBlock(facts.file_block.0.saturating_add(last)),
            next_goal: BlockNo(run.start.0.saturating_add(last.into())),
        }
    }
    /// Whether file data is given blocks when it is written back (true) or when it is written.
    fn delayed(&self) -> Delay;
    /// Blocks to allocate beyond those wanted for regular files that grow (ext2: 8 in all).
    fn preallocate(&self) -> u32 {
        0
    }
}

/// The goal, or the first block of the inode's group if it lies outside the volume.
fn within_volume(facts: &AllocationFacts, goal: BlockNo) -> BlockNo {
    if goal.0 >= facts.first_data_block.into() && goal.0 < facts.blocks {
        goal
    } else {
        facts.group_start
    }
}

/// When file data gets its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delay {
    /// At the write.
    AtWrite,
    /// At write-back.
    AtWriteBack,
}

#[cfg(test)]
mod tests;
