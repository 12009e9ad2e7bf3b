//! Steps that work on single files: which files, and what is done with them.
use super::{Durability, Order, TreeSpec};

/// The files that a step works on.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The path of one file, or the top of a tree.
    pub at: String,
    /// Among which files they are chosen.
    pub among: Among,
    /// Which of them.
    pub which: Which,
}

/// Among which files some are chosen.
#[derive(Clone, Debug)]
pub enum Among {
    /// One file, by its path.
    Path,
    /// The files of a tree that was made by this rule, in the order in which it makes them. Those
    /// that steps removed or renamed by their numbers are not counted.
    Tree(TreeSpec),
    /// The files that are found below the directory, in this order: it is listed first.
    Found(Order),
}

/// Which files of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All.
    All,
    /// The file of this number, from 0.
    One(Number),
    /// The first ones, as many as this.
    First(u64),
    /// The last ones, as many as this.
    Last(u64),
    /// One in N.
    Every {
        /// N.
        every: u64,
        /// The number of the first one.
        from: u64,
    },
    /// As many as this, drawn by the seed.
    Draw {
        /// How many.
        count: u64,
        /// How they are drawn.
        skew: Skew,
    },
}

/// The number of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// This one.
    Fixed(u64),
    /// That of the run of the `repeat` around the step.
    OfRun,
}

/// How files are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skew {
    /// Each as often as any other.
    Uniform,
    /// So many percent of the draws fall on the first percent of the files, and of these draws the
    /// same share on the same part of those files, and so on (self-similar: Gray and others 1994).
    SelfSimilar {
        /// Percent of the draws.
        draws: u64,
        /// Percent of the files.
        files: u64,
    },
}

/// What is done with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It is removed.
    Remove,
    /// It is looked at.
    Stat,
    /// It is read from the first byte to the last.
    Read {
        /// Bytes of a read.
        chunk: u64,
    },
    /// Bytes are written after its last one.
    Append(Renewal),
    /// It is cut or made longer, which makes a hole.
    Truncate {
        /// To this many bytes.
        bytes: u64,
    },
    /// A part of it is written again.
    Overwrite {
        /// How much.
        renewal: Renewal,
        /// From this byte on; `None`: anywhere, drawn by the seed.
        offset: Option<u64>,
    },
    /// A new file is written beside it and renamed over it, as editors do.
    Rewrite(Renewal),
    /// It gets another name, in which %d is its number among the chosen ones.
    Rename {
        /// The path.
        to: String,
    },
    /// It gets a further name, in which %d is its number among the chosen ones.
    Link {
        /// The path.
        to: String,
    },
}

impl Deed {
    /// Whether the name of the file is gone afterwards.
    pub fn takes_name(&self) -> bool {
        matches!(self, Deed::Remove | Deed::Rename { .. })
    }
}

/// Bytes that are written to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// The least and the most; uniform between. `None`: as many as it has.
    pub bytes: Option<(u64, u64)>,
    /// Whether they are waited for until they are on the medium.
    pub durability: Durability,
}
