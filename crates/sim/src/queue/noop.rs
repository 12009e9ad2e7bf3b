//! `noop`: first come, first served. What merges, merges; nothing is sorted.
use super::{Elevator, ElevatorEntry, FlushOrder, Next, Queued};
use std::collections::VecDeque;

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "noop",
    summary: "in order of arrival, for devices on which a seek costs nothing",
    parameters: &[],
    flush: FlushOrder::AfterArrived,
    build: |_| Box::new(Noop::default()),
};

#[derive(Default)]
struct Noop {
    /// By rising number.
    waiting: VecDeque<Queued>,
}

impl Noop {
    fn place(&self, sequence: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&sequence, |command| command.sequence).ok()
    }
}

impl Elevator for Noop {
    fn add(&mut self, command: Queued, _now: u64) {
        self.waiting.push_back(command);
    }
    fn grow(&mut self, before: &Queued, after: &Queued) {
        let place = self.place(before.sequence);
        if let Some(command) = place.and_then(|place| self.waiting.get_mut(place)) {
            *command = *after;
        }
    }
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued) {
        if let Some(place) = self.place(younger.sequence) {
            self.waiting.remove(place);
        }
        self.grow(older, after);
    }
    fn next(&mut self, _head: u64, _now: u64) -> Next<Queued> {
        self.waiting.pop_front().map_or(Next::Empty, Next::Dispatch)
    }
}
