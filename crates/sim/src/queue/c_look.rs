//! `c-look`: one way over the device, then back to the first command that waits, as in text books.
//! A command that arrives ahead of the head is sent in this sweep, one that arrives behind it in
//! the next. No expiry, no directions.
//!
//! `disksort` is the same without merging: BSD's queue (bioq_disksort(9)) holds what the file
//! system submits, a buffer or a cluster of buffers, and sends it as it is.
//!
//! Guarantee: a command is dispatched in the sweep in which it arrives or in the next, or one later
//! for each command before it that reaches over its beginning: the head is behind it then.
use super::waiting::Waiting;
use super::{Elevator, ElevatorEntry, FlushOrder, Next, Queued};

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "c-look",
    summary: "one way over the device, then back to the first that waits",
    parameters: &[],
    flush: FlushOrder::AfterArrived,
    build: |_| Box::new(CircularLook::new(Merging::Neighbours)),
};

pub(super) const ENTRY_DISKSORT: ElevatorEntry = ElevatorEntry {
    name: "disksort",
    summary: "FreeBSD: the same, and each request is a command of its own",
    parameters: &[],
    flush: FlushOrder::AfterArrived,
    build: |_| Box::new(CircularLook::new(Merging::None)),
};

/// What becomes of neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merging {
    /// They become one command.
    Neighbours,
    /// They stay apart.
    None,
}

struct CircularLook {
    waiting: Waiting,
    merging: Merging,
    /// Where the command that was sent last ends.
    head: u64,
}

impl CircularLook {
    fn new(merging: Merging) -> CircularLook {
        CircularLook { waiting: Waiting::default(), merging, head: 0 }
    }
    /// Whether a command that starts at `from` misses this sweep when it grows to start at `to`.
    fn falls_back(&self, from: u64, to: u64) -> bool {
        to < self.head && self.head <= from
    }
}

impl Elevator for CircularLook {
    fn add(&mut self, command: Queued, now: u64) {
        self.waiting.insert(command, now);
    }
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        self.merging == Merging::Neighbours && !self.falls_back(waiting.offset, arriving.offset)
    }
    fn grow(&mut self, _before: &Queued, after: &Queued) {
        self.waiting.grow(after);
    }
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        let (low, high) = (older.offset.min(younger.offset), older.offset.max(younger.offset));
        self.merging == Merging::Neighbours && !self.falls_back(high, low)
    }
    fn join(&mut self, _older: &Queued, younger: &Queued, after: &Queued) {
        self.waiting.remove(younger.sequence);
        self.waiting.grow(after);
    }
    fn next(&mut self, head: u64, _now: u64) -> Next<Queued> {
        let Some(command) = self.waiting.at_or_behind(head).or_else(|| self.waiting.lowest())
        else {
            return Next::Empty;
        };
        self.waiting.remove(command.sequence);
        self.head = command.end();
        Next::Dispatch(command)
    }
}
