//! What an observer of a mount is told.
use crate::protocol::Request;
use extant_engine::{DirectoryEntry, Error};

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of the error, positive; 0 if it was done.
    pub error: i32,
    /// The node that the answer names, for look-ups and what is made.
    pub node: Option<u64>,
    /// How many bytes were read or written.
    pub bytes: u64,
    /// When the request began, in nanoseconds of the volume's clock.
    pub began: u64,
    /// When it was answered.
    pub ended: u64,
}

/// Sees what a mount does. Called by many threads.
pub trait Watch: Send + Sync {
    /// A request was answered.
    fn answered(&self, request: &Request<'_>, outcome: &Outcome);

    /// The volume is damaged, or the device failed: an error that no program asked for.
    fn failed(&self, error: &Error);

    /// A directory has this name, which no file may have; programs do not see it.
    fn left_out(&self, directory: u32, name: &DirectoryEntry);
}
