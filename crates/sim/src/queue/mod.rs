//! The host's request queue: what waits for a device, and in which order it is sent.
//!
//! ```text
//!   requests -> HostQueue: cut, merge, limit, plug -> Elevator: order -> commands -> the device
//! ```
//!
//! Both are state machines without I/O, lock, clock or thread. They are given what arrives, what
//! has ended, the position of the head and the time, and return what to send next. Because they may
//! also return "nothing before this time", plugging and anticipation need no timer, and virtual and
//! real time do not differ.
//!
//! [`HostQueue`] merges, so that an elevator sees *commands*, each perhaps of many requests, and
//! only orders them. The elevators are in one table, [`ELEVATORS`]; [`ElevatorChoice`] is an entry
//! of it with numbers, as a user writes it: `deadline`, `linus(20000,20000)`.
mod anticipatory;
mod c_look;
mod cfq;
mod choice;
mod deadline;
mod fair;
mod host;
mod linus;
mod noop;
mod stream;
mod turns;
mod waiting;

pub use choice::{ElevatorChoice, ElevatorError};
pub use host::{
    Command, CongestionBounds, HostQueue, Part, QueueSettings, QueueStatistics, Unplug, WakeUp,
};

use extant_block::device::{Operation, Urgency};

/// A request as queues see it, or a command as elevators see it, without its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Identifies a request. For an elevator: the number of the command, which rises by arrival.
    pub sequence: u64,
    /// What it asks for. An elevator sees no flush.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether a thread waits for it.
    pub urgency: Urgency,
    /// Number of the process that submitted it. Its next request is likely to be near this one.
    pub stream: u32,
}

impl Queued {
    /// The first byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// What to send next: a [`Command`] of a [`HostQueue`], or the [`Queued`] of an [`Elevator`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// This one, which no longer waits.
    Dispatch(T),
    /// Something waits, but nothing should be sent before this time of the clock. To be asked again
    /// then, or earlier if something arrives or ends.
    IdleUntil(u64),
    /// Nothing waits.
    Empty,
}

/// At which end of a command something is merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Before its first byte.
    Front,
    /// After its last byte.
    Back,
}

/// What an elevator found for a piece that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// It does not search: the queue looks for an adjacent command.
    ByQueue,
    /// The piece becomes part of this waiting command, which has room for it.
    Part {
        /// The command's number.
        sequence: u64,
        /// At which end.
        end: End,
    },
    /// The piece becomes a command of its own.
    Alone,
}

/// An order of commands. Driven by [`HostQueue`], which merges; usable alone if nothing has to be
/// merged.
///
/// Contract: each command is dispatched exactly once, as it was after its last change. While one
/// waits, `next` returns `Dispatch` or a time later than `now`; called again at these times, it
/// dispatches all of them. The numbers (`sequence`) of commands rise by arrival, and none is a
/// flush.
pub trait Elevator: Send {
    /// In pieces of how many bytes requests arrive; by default in pieces as large as commands may
    /// be.
    fn piece_bytes_max(&self) -> Option<u64> {
        None
    }
    /// Looks for a waiting command that a piece may become part of, if the elevator does that
    /// itself. If it finds none, and the queue has room, `add` follows before the next search.
    fn search(&mut self, piece: &Queued, merge_bytes_max: u64) -> Search {
        let _ = (piece, merge_bytes_max);
        Search::ByQueue
    }
    /// Adds a command.
    fn add(&mut self, command: Queued, now: u64);
    /// Whether `arriving`, which is directly before or after `waiting` on the device, may become
    /// part of it.
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        let _ = (waiting, arriving);
        true
    }
    /// A waiting command became larger at one end, or a thread now waits for it.
    fn grow(&mut self, before: &Queued, after: &Queued);
    /// Whether two adjacent waiting commands may become one.
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        let _ = (older, younger);
        true
    }
    /// Two waiting commands became `after`, with the number of the older one. The younger one no
    /// longer exists.
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued);
    /// What to send next when the head is at byte `head`: the end of the last command.
    fn next(&mut self, head: u64, now: u64) -> Next<Queued>;
    /// Notes that a dispatched command has ended.
    fn completed(&mut self, command: &Queued, now: u64) {
        let _ = (command, now);
    }
}

/// One number that an elevator can be given.
pub struct ElevatorParameter {
    /// Its name, which ends with its unit.
    pub name: &'static str,
    /// Its default.
    pub default: u64,
    /// The lowest value allowed.
    pub min: u64,
    /// The highest value allowed.
    pub max: u64,
}

/// What a flush waits for in the host's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushOrder {
    /// All writes that arrived before it are sent first, as barriers drained the queue up to Linux
    /// 2.6.36.
    AfterArrived,
    /// Nothing: it covers the writes that have completed, which is what a flush promises. A caller
    /// that needs a write to be durable waits for it first.
    AtOnce,
}

/// One entry of the table of elevators.
pub struct ElevatorEntry {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The numbers that may follow its name in parentheses, in this order.
    pub parameters: &'static [ElevatorParameter],
    /// What a flush waits for in the queue.
    pub flush: FlushOrder,
    /// Makes an empty one from a number for each parameter. A missing number is the default, one
    /// out of range becomes the nearest allowed.
    pub build: fn(&[u64]) -> Box<dyn Elevator>,
}

/// All elevators.
pub static ELEVATORS: &[ElevatorEntry] = &[
    noop::ENTRY,
    linus::ENTRY,
    linus::ENTRY_2_4_20,
    linus::ENTRY_READ_LATENCY,
    deadline::ENTRY,
    anticipatory::ENTRY,
    cfq::BEFORE,
    cfq::AFTER,
    c_look::ENTRY,
    c_look::ENTRY_DISKSORT,
    turns::ENTRY,
];

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1_000;

/// The number of a parameter: the given one, brought into its range, or the default.
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
