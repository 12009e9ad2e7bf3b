//! The seam for elevators: in which order a device's waiting requests are sent, chosen by name from one table.
//!
//! An elevator is a state machine without I/O, lock or clock: it is told what arrives, where the head is and what time it is,
//! and says what goes next. Because it may also say "nothing before then", anticipation is an answer like the others.
use crate::device::{Operation, Urgency};
use std::collections::VecDeque;

/// A request as elevators see it: where and what, without its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Rises by arrival, and names the request to whoever keeps it.
    pub sequence: u64,
    /// What for.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether somebody waits for it.
    pub urgency: Urgency,
}

/// What goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This request; the elevator forgets it.
    Dispatch(Queued),
    /// Requests wait, but none is to be sent before this time (by the clock's `now`) unless another arrives.
    IdleUntil(u64),
    /// No request waits.
    Empty,
}

/// An order of requests.
pub trait Elevator: Send {
    /// A request arrived.
    fn add(&mut self, request: Queued, now: u64);
    /// What goes next when the head stands at byte `head`.
    fn next(&mut self, head: u64, now: u64) -> Next;
}

/// One line of the table of elevators.
pub struct ElevatorEntry {
    /// How it is chosen.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Makes one with nothing in it.
    pub build: fn() -> Box<dyn Elevator>,
}

/// All elevators.
pub static ELEVATORS: &[ElevatorEntry] = &[ElevatorEntry {
    name: "noop",
    summary: "in order of arrival, for devices on which a seek costs nothing",
    build: || Box::new(Noop::default()),
}];

/// A new elevator of that name.
pub fn elevator(name: &str) -> Option<Box<dyn Elevator>> {
    ELEVATORS
        .iter()
        .find(|entry| entry.name == name)
        .map(|entry| (entry.build)())
}

/// First come, first served.
#[derive(Default)]
struct Noop {
    waiting: VecDeque<Queued>,
}

impl Elevator for Noop {
    fn add(&mut self, request: Queued, _now: u64) {
        self.waiting.push_back(request);
    }
    fn next(&mut self, _head: u64, _now: u64) -> Next {
        self.waiting.pop_front().map_or(Next::Empty, Next::Dispatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noop_sends_in_order_of_arrival() {
        let mut noop = elevator("noop").expect("it is in the table");
        let request = |sequence, offset| Queued {
            sequence,
            operation: Operation::Read,
            offset,
            bytes: 4096,
            urgency: Urgency::Awaited,
        };
        let arrived = [request(0, 900_000), request(1, 0), request(2, 500_000)];
        arrived.iter().for_each(|request| noop.add(*request, 0));
        for request in arrived {
            assert_eq!(noop.next(0, 0), Next::Dispatch(request));
        }
        assert_eq!(noop.next(0, 0), Next::Empty);
    }

    #[test]
    fn names_are_unique_and_resolve() {
        for (index, entry) in ELEVATORS.iter().enumerate() {
            assert!(
                ELEVATORS[..index].iter().all(|other| other.name != entry.name),
                "{} stands twice",
                entry.name
            );
            assert!(elevator(entry.name).is_some());
        }
        assert!(elevator("escalator").is_none());
    }
}
