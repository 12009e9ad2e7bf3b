//! The host's request queue: what waits for a device, and in which order it is sent.
//!
//! ```text
//!   requests -> HostQueue: cut, merge, limit, plug -> Elevator: order -> commands -> the device
//! ```
//!
//! Both are state machines without I/O, lock, clock or thread: they are told what arrives, what
//! ended, where the head is and what time it is, and say what goes next. Because the answer may
//! also be "nothing before then", plugging and anticipation are answers like the others, and
//! virtual and real time differ in nothing.
//!
//! [`HostQueue`] merges, so that an elevator sees *commands*, each perhaps of many requests, and is
//! nothing but an order of them. The elevators stand in one table, [`ELEVATORS`];
//! [`ElevatorChoice`] is a line of it with its numbers, as a user writes it: `deadline`,
//! `linus(20000,20000)`.
mod anticipatory;
mod c_look;
mod cfq;
mod choice;
mod deadline;
mod host;
mod linus;
mod noop;
mod stream;
mod waiting;

pub use choice::{ElevatorChoice, ElevatorError};
pub use host::{Command, HostQueue, Part, QueueSettings, QueueStatistics};

use crate::device::{Operation, Urgency};

/// A request as queues see it, or a command as elevators see it: where and what, without its
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Names a request to whoever keeps it. To an elevator: the number of the command, which rises
    /// by arrival.
    pub sequence: u64,
    /// What for. An elevator sees no flush.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether somebody waits for it.
    pub urgency: Urgency,
    /// Who submitted it (a process number): what is asked next by the same stream is likely to be
    /// near.
    pub stream: u32,
}

impl Queued {
    /// The first byte behind it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// What goes next: a [`Command`] of a [`HostQueue`], or the [`Queued`] of an [`Elevator`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// This; it no longer waits.
    Dispatch(T),
    /// Something waits, but nothing is to be sent before this time (by the clock's `now`). To be
    /// asked again then, and before if something arrives or ends.
    IdleUntil(u64),
    /// Nothing waits.
    Empty,
}

/// An order of commands. Driven by [`HostQueue`], which merges; usable alone, when what arrives is
/// not to be merged.
///
/// Contract: each command that was added is dispatched exactly once, as it was when it last
/// changed; while one waits, `next` answers `Dispatch` or a time later than `now`, and asked again
/// and again at the times that it names dispatches all of them. The numbers (`sequence`) of
/// commands rise by arrival, and none is a flush.
pub trait Elevator: Send {
    /// A command arrived.
    fn add(&mut self, command: Queued, now: u64);
    /// Whether `arriving`, which lies just before or behind `waiting` on the device, may become
    /// part of it.
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        let _ = (waiting, arriving);
        true
    }
    /// A waiting command became larger, at its front or at its back, or somebody now waits for it.
    fn grow(&mut self, before: &Queued, after: &Queued);
    /// Whether two waiting commands that lie end to end may become one.
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        let _ = (older, younger);
        true
    }
    /// Two waiting commands became `after`, which has the number of the older one. The younger one
    /// is no more.
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued);
    /// What goes next when the head stands at byte `head`: where the command that was sent last
    /// ends.
    fn next(&mut self, head: u64, now: u64) -> Next<Queued>;
    /// A command that was dispatched ended.
    fn completed(&mut self, command: &Queued, now: u64) {
        let _ = (command, now);
    }
}

/// One number that an elevator can be given.
pub struct ElevatorParameter {
    /// What it is called, with its unit last.
    pub name: &'static str,
    /// What it is when nothing is said.
    pub default: u64,
    /// The least that makes sense.
    pub min: u64,
    /// The most that makes sense.
    pub max: u64,
}

/// One line of the table of elevators.
pub struct ElevatorEntry {
    /// How it is chosen.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The numbers that may follow its name in parentheses, in this order.
    pub parameters: &'static [ElevatorParameter],
    /// Makes one with nothing in it, from a number for each parameter (what is missing or out of
    /// range becomes the nearest that makes sense).
    pub build: fn(&[u64]) -> Box<dyn Elevator>,
}

/// All elevators.
pub static ELEVATORS: &[ElevatorEntry] =
    &[noop::ENTRY, linus::ENTRY, deadline::ENTRY, anticipatory::ENTRY, cfq::ENTRY, c_look::ENTRY];

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1_000;

/// The number of a parameter: what was given, brought into its range, or its default.
fn number_of(parameters: &[ElevatorParameter], numbers: &[u64], index: usize) -> u64 {
    parameters.get(index).map_or(0, |parameter| {
        let given = numbers.get(index).copied().unwrap_or(parameter.default);
        given.clamp(parameter.min, parameter.max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_their_numbers_make_sense() {
        for (index, entry) in ELEVATORS.iter().enumerate() {
            let earlier = ELEVATORS.iter().take(index);
            assert!(earlier.into_iter().all(|other| other.name != entry.name), "{}", entry.name);
            for parameter in entry.parameters {
                assert!(
                    parameter.min <= parameter.default && parameter.default <= parameter.max,
                    "{}",
                    parameter.name
                );
            }
        }
    }
}
