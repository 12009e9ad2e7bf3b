//! The orders that a journal lives by, told once, as steps that commits and checkpoints walk
//! through: a mistake that tests make in them is another list, not a second way through the code.
use crate::seeded::{Bug, bug};

/// A step that makes a transaction durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommitStep {
    /// Its blocks are written to the log.
    Log,
    /// What was written is made durable.
    Flush,
    /// The commit block is written, and is durable.
    Commit,
}

/// The steps of a commit, in their order. A commit block that is durable before the log blocks that
/// it vouches for would have replay write what the log held before: so the log is flushed first.
pub(super) fn commit_steps() -> &'static [CommitStep] {
    use CommitStep::{Commit, Flush, Log};
    if bug(Bug::NoFlushBeforeCommit) {
        return &[Log, Commit];
    }
    if bug(Bug::CommitBeforeLog) {
        return &[Flush, Commit, Log, Flush];
    }
    &[Log, Flush, Commit]
}

/// A step of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckpointStep {
    /// Committed blocks are written to their place.
    InPlace,
    /// What was written is made durable.
    Flush,
    /// The log begins after them.
    Tail,
}

/// The steps of a checkpoint, in their order. Only what is durable in its place is not needed in
/// the log any more.
pub(super) fn checkpoint_steps() -> &'static [CheckpointStep] {
    use CheckpointStep::{Flush, InPlace, Tail};
    if bug(Bug::TailBeforeCheckpoint) {
        return &[Tail, InPlace, Flush];
    }
    &[InPlace, Flush, Tail]
}
