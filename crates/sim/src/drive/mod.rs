//! Drives as state machines in virtual time: no thread, no clock of their own, no floating point in
//! what they answer.
//!
//! A drive is told what arrives and when ([`Drive::submit`]); it says when it will next have
//! something to say ([`Drive::next_event`]) and is then asked ([`Drive::advance`]). The times of a
//! command's parts add up to the time between its arrival and its end.
pub mod booking;
pub mod file;
pub mod host;
pub mod medium;
pub mod network;
pub mod object;
pub mod presets;
pub mod rotating;
mod section;
pub mod ssd;

use extant_block::Operation;
use serde::{Deserialize, Serialize};

/// A command as a drive sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Chosen by the submitter; comes back with the answer.
    pub id: u64,
    /// What for.
    pub operation: Operation,
    /// First byte; a multiple of the drive's sector.
    pub offset: u64,
    /// How many bytes; a multiple of the drive's sector. 0 for a flush.
    pub bytes: u64,
    /// Whether a write has to be on the medium before it is answered.
    pub force_unit_access: bool,
}

/// Where the time of a command went, in nanoseconds. The parts add up to `at - arrival`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Waiting for other commands inside the drive.
    pub queued: u64,
    /// Controller.
    pub overhead: u64,
    /// Arm.
    pub seek: u64,
    /// Head switches and write settling that did not hide behind a seek.
    pub settle: u64,
    /// Waiting for the sector.
    pub rotation: u64,
    /// Under the head (or the medium's own latency, where nothing turns).
    pub media: u64,
    /// On the interface.
    pub bus: u64,
}

impl Parts {
    /// Their sum.
    pub fn total(&self) -> u64 {
        self.queued
            + self.overhead
            + self.seek
            + self.settle
            + self.rotation
            + self.media
            + self.bus
    }
}

/// A command that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Which.
    pub id: u64,
    /// When, in nanoseconds of the clock.
    pub at: u64,
    /// Where its time went.
    pub parts: Parts,
    /// Whether the medium was not needed (a cache answered).
    pub hit: bool,
}

/// What answered a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnsweredBy {
    /// A cache; the medium was not needed.
    Cache,
    /// The medium.
    Medium,
}

/// A stretch of a write that is not on the medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unflushed {
    /// The command that brought it.
    pub id: u64,
    /// First byte; a multiple of the drive's sector.
    pub offset: u64,
    /// How many bytes; a multiple of the drive's sector.
    pub bytes: u64,
}

/// What a drive says of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveInfo {
    /// Its name: the file it was loaded from, or the preset.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Smallest unit.
    pub sector_bytes: u32,
    /// How many commands it takes at a time; more wait in the host's queue.
    pub queue_depth: u32,
    /// Highest sustained rate of its medium in bytes a second, and the time of the shortest
    /// repositioning in nanoseconds: what a physical limit is computed from.
    pub media_bytes_per_second: u64,
    /// See above.
    pub least_seek_ns: u64,
}

/// A drive in virtual time. All times are nanoseconds and never go back.
pub trait Drive: Send {
    /// What it is.
    fn info(&self) -> &DriveInfo;
    /// A command arrives. At most `queue_depth` are inside at a time.
    fn submit(&mut self, command: Command, now: u64);
    /// When to ask next: when something ends, or when the drive has a choice to make (then
    /// [`Drive::advance`] may add nothing). `None` when nothing that was submitted is inside
    /// (destaging goes on unseen).
    fn next_event(&self) -> Option<u64>;
    /// Goes to `now`, and adds to `done` what ended by then, in order.
    fn advance(&mut self, now: u64, done: &mut Vec<Done>);
    /// The byte after the last one transferred: where elevators take the head to be.
    fn head(&self) -> u64;
    /// What is not on the medium at `now`, of all writes that it was given: what waits in volatile
    /// memory, answered or not, and what of the write at hand the medium has not taken yet. What is
    /// not named is there. In the order of arrival, as far as one is kept.
    fn unflushed(&mut self, now: u64) -> Vec<Unflushed>;
    /// The power fails at `now` and comes back: what was inside is gone and is never answered, what
    /// was in volatile memory is lost. Returns that, as [`Drive::unflushed`] does.
    fn power_cut(&mut self, now: u64) -> Vec<Unflushed>;
    /// What was asked of it so far and what that costs, where requests cost money.
    fn bill(&self) -> Option<object::Bill> {
        None
    }
}
