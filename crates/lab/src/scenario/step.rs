//! Steps: what a process can do, and how a scenario file says it.
//!
//! Every step is a table with `step` (its kind, see [`KINDS`]) and the keys of that kind; any may
//! have `label` (its name in the report) and `measure` (steps in a row with the same `measure` are
//! one row of the report together).
mod files;
mod parse;

pub use files::{Among, Deed, Number, Renewal, Skew, Targets, Which};
pub use parse::{COMMON_KEYS, KINDS, StepKind};
pub(super) use parse::{StepScope, parse_life, parse_steps, parse_tree};

use super::tree::TreeSpec;
use crate::ageing::Profile;
use crate::setup::Setup;
use extant_inspect::ReadOrder;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A step of a process.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it is in the file.
    pub line: usize,
    /// Its kind, as the file says it.
    pub kind: &'static str,
    /// Its name in the report; its kind unless the file gives one.
    pub label: String,
    /// The row of the report that it is part of.
    pub measure: Option<String>,
    /// What becomes of it when the file system is a copy of an image.
    pub on_image: OnImage,
    /// What it does.
    pub action: Action,
}

/// Whether a step is done on a file system that is a copy of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnImage {
    /// It is.
    Done,
    /// It makes what an image already has, and is left out.
    Skipped,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Makes directories and files below `at`.
    Make {
        /// Where; made when it is not there.
        at: String,
        /// What.
        tree: TreeSpec,
        /// How.
        style: MakeStyle,
        /// Whether a run of the step makes all of it.
        stages: Stages,
    },
    /// Does something with single files.
    Files {
        /// Which.
        targets: Targets,
        /// What.
        deed: Deed,
    },
    /// Makes a file; one that is there is cut to nothing first.
    Create {
        /// Where.
        path: String,
        /// The least and the most bytes; uniform between.
        bytes: (u64, u64),
        /// Whether it is waited for until it is on the medium.
        durability: Durability,
    },
    /// Makes a directory, and those above it that are missing.
    MakeDirectory {
        /// Where.
        path: String,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Where.
        path: String,
        /// What it points to.
        target: String,
    },
    /// Copies a file or a tree, file by file, as `cp -r` does.
    Copy {
        /// What.
        at: String,
        /// Where to; the copy has this path.
        to: String,
        /// Bytes of a read and a write.
        chunk: u64,
    },
    /// Lets the file system live some days at once; the drive has no part in it.
    Age(AgeAction),
    /// Puts trees at the top of an empty file system at once, each under its own name; the drive
    /// has no part in it.
    PlaceTrees {
        /// Which.
        trees: Vec<PlacedTree>,
    },
    /// Lays files onto an empty file system at once: they have places and maps as if they had been
    /// written one after the other, and the drive has no part in it.
    Place {
        /// Which, in the order in which they are laid.
        files: Vec<PlacedFiles>,
    },
    /// Makes files until the file system is so full.
    Fill {
        /// Where; made when it is not there.
        at: String,
        /// How full, with what.
        filling: Filling,
    },
    /// Checks the file system as fsck does, closed meanwhile.
    Check {
        /// In which order the disk is read.
        plan: ReadOrder,
        /// How many threads share the work.
        threads: NonZeroU32,
        /// What the processor takes for each KiB that was read, in nanoseconds.
        processor_ns_per_kib: u64,
        /// What becomes of problems.
        problems: Problems,
    },
    /// Cuts the power of the drive, and lets it come back: other processes on it end, and its file
    /// systems are closed with nothing written.
    PowerCut {
        /// When.
        moment: CutMoment,
        /// What is on the medium then.
        survival: Survival,
    },
    /// Opens the file system after a power cut: what its journal holds is replayed.
    Recover,
    /// Walks a tree, and does something with everything in it.
    Walk {
        /// Where.
        at: String,
        /// What is done.
        task: Task,
        /// In which order.
        order: Order,
        /// Bytes of a read.
        chunk: u64,
        /// What ends it before everything was met.
        end: Option<End>,
        /// Whether each directory at the top has a row of its own.
        rows: Rows,
    },
    /// Reads two trees side by side, file by file, and compares them.
    Diff {
        /// The one that is walked.
        at: String,
        /// The other.
        with: String,
        /// Bytes of a read; `None`: as GNU diff reads.
        chunk: Option<u64>,
    },
    /// Removes a tree.
    Remove {
        /// Where.
        at: String,
    },
    /// Writes everything that changed, and waits for it.
    Sync,
    /// Closes and opens the file system: nothing stays in memory. Its policies may change.
    Remount {
        /// The new ones.
        setup: Option<Setup>,
    },
    /// Reads or writes a file or the bare drive in pieces.
    Stream(StreamAction),
    /// Lists a directory as `ls` does.
    List {
        /// Which.
        at: String,
        /// Whether every entry is looked at (`ls -l`).
        detail: Detail,
    },
    /// Lists a directory by getdents calls, each of which is recorded.
    Getdents {
        /// Which.
        at: String,
        /// Bytes of the buffer.
        buffer_bytes: u32,
    },
    /// Reads as a program does that starts: a chain of small reads at places in the files of a
    /// tree, each of which is known only when the one before was read.
    Program {
        /// The tree whose files are read.
        at: String,
        /// How many reads.
        reads: u64,
        /// Bytes of each.
        bytes: u64,
    },
    /// Waits this many nanoseconds.
    Wait(u64),
    /// Waits until the process of that number (and its copies) ended.
    Join(usize),
    /// Records where everything is.
    Survey,
    /// Does steps again and again.
    Repeat {
        /// How often.
        count: u64,
        /// What.
        steps: Vec<Step>,
    },
    /// Does steps until something happens.
    Until {
        /// What ends it.
        end: End,
        /// What is done.
        steps: Vec<Step>,
    },
}

/// What becomes of problems that a check finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problems {
    /// They fail the step.
    Fail,
    /// They are counted.
    Count,
}

/// When the power is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutMoment {
    /// When the step begins.
    AtOnce,
    /// This many nanoseconds after the step began.
    After(u64),
    /// When the process of that number (and its copies) ended.
    Ended(usize),
    /// When the drive has answered this many commands since the step began.
    Commands(u64),
}

/// Which sectors that the drive was given are on its medium after a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// Those that the drive's model has brought there.
    AsModelled,
    /// Of the others each or not, as the seed has it.
    AnySector,
}

/// A tree at the top of a file system.
#[derive(Clone, Debug)]
pub struct PlacedTree {
    /// Its path, of one name.
    pub at: String,
    /// What.
    pub tree: TreeSpec,
    /// Which inodes it gets.
    pub inodes: InodeOrder,
}

/// In which order the entries of a tree that is put there at once get their inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeOrder {
    /// As the tree is made.
    InOrder,
    /// Each directory with its files in a row, the directories by chance: they were made at
    /// different times.
    ByDirectory,
    /// Each directory with its files in a row, near its parent, as Orlov's rules place it.
    NearParents,
    /// The same with files by chance in the group of their directory, as updates leave them.
    InGroup,
    /// By chance, all scattered trees together.
    Scattered,
}

/// Files of one size at the top of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedFiles {
    /// How many.
    pub count: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Their names, with %d for the number of each.
    pub names: String,
}

/// How a tree is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MakeStyle {
    /// Directories and files are made and written.
    Plain,
    /// And, as tar does, owner, permissions and times are set; those of directories in the end.
    Archive {
        /// Bytes a second at which the archive is unpacked: the processor's work for what it is
        /// compressed with. `None`: none.
        unpack_rate: Option<u64>,
    },
}

/// How much of its tree a run of a step makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stages {
    /// All of it.
    All,
    /// The next of this many parts.
    Parts(u64),
    /// The next directory with its files.
    Directories,
}

/// A part of a life: what a profile does to a file system in some days.
#[derive(Clone, Debug)]
pub struct AgeAction {
    /// What the file system is used for.
    pub profile: Arc<Profile>,
    /// How many days; 0 only fills it, the first time.
    pub days: u64,
    /// The directory in which it lives; empty for the root.
    pub into: String,
}

/// Which rows of the report a step over a tree gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// None but its own.
    Whole,
    /// One for each directory at the top.
    Directories(Warmth),
}

/// What is in memory when a directory's turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmth {
    /// What is there from what was done before.
    AsItIs,
    /// Nothing: the file system is closed and opened, outside of the row's time.
    Cold,
}

/// What is done with everything in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Names are listed.
    Find,
    /// Everything is looked at.
    Stat,
    /// Files are read.
    Read,
    /// Everything is looked at, and files are read, as tar reads them.
    Archive,
}

/// In which order a tree is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Directory by directory, names as readdir gives them.
    Directory,
    /// Directory by directory, names sorted.
    Name,
    /// All names are listed first; then by inode number.
    Inode,
    /// Directory by directory, names as the seed shuffles them.
    Random,
}

/// Whether `ls` looks at every entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Names only.
    Names,
    /// `ls -l`.
    Long,
}

/// Reads or writes in pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamAction {
    /// The file; `None` for the bare drive.
    pub path: Option<String>,
    /// Reading or writing.
    pub direction: Direction,
    /// Where the next piece lies.
    pub pattern: Pattern,
    /// Bytes of a piece.
    pub chunk: u64,
    /// How many pieces; `None`: until `end`.
    pub count: Option<u64>,
    /// First byte.
    pub offset: u64,
    /// The pieces are in this many bytes from `offset` on; a sequential stream starts again there.
    /// `None`: as far as there are.
    pub span: Option<u64>,
    /// So many streams take turns, each in its own part of the span.
    pub streams: u32,
    /// At most this many bytes a second.
    pub rate: Option<u64>,
    /// Whether each write is waited for until it is on the medium.
    pub durability: Durability,
    /// How many requests are under way at once, on a bare drive.
    pub depth: u32,
    /// What ends it.
    pub end: Option<End>,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the medium.
    Read,
    /// To it.
    Write,
}

/// Where the next piece of a stream lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// After the last one.
    Sequential,
    /// So many bytes from the start of the last one.
    Stride(u64),
    /// Anywhere.
    Random,
    /// Within this many bytes around the last one.
    Near(u64),
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// When it is in the cache.
    Cached,
    /// When it is on the medium.
    Synced,
}

/// What ends a step that would go on for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process of that number (and its copies) ended.
    Process(usize),
    /// So many nanoseconds after the step began.
    After(u64),
}

/// Calls `visit` for each step of a process, those within others too.
pub(super) fn each_step<'a>(steps: &'a [Step], visit: &mut dyn FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        if let Action::Repeat { steps, .. } | Action::Until { steps, .. } = &step.action {
            each_step(steps, visit);
        }
    }
}

/// How many runs of steps these come to, each step of a `repeat` counted as often as it runs; those
/// of an `until` once, for it has its end. `u64::MAX` for more.
pub(super) fn runs(steps: &[Step]) -> u64 {
    let one = |step: &Step| match &step.action {
        Action::Repeat { count, steps } => runs(steps).saturating_mul(*count).saturating_add(1),
        Action::Until { steps, .. } => runs(steps).saturating_add(1),
        _ => 1,
    };
    steps.iter().map(one).fold(0, u64::saturating_add)
}

/// How full a file system is made, and with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filling {
    /// Of its blocks, how many in a hundred; 100: all that can be had.
    pub percent: u32,
    /// Bytes of each file.
    pub bytes: u64,
}
