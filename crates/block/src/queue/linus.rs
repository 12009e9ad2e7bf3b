//! `linus`: the elevator of Linux 2.4. One list, sorted in sweeps. The place of a new command is
//! searched from the tail. Each waiting command has a budget of sectors that may still pass it, and
//! one that has used it up is a barrier.
//!
//! The rule is that of the 2.4 kernel as users saw it through `elvtune -r -w` (the two budgets, for
//! reads and writes: defaults 8192 and 16384 sectors; the author of the post of 2001 measured with
//! 20000 for both). Ours is strict: a command passes another only if the other's remaining budget
//! covers all of its sectors.
//!
//! Guarantee: no command is passed by more sectors than its budget, including those that are merged
//! into commands ahead of it.
use super::{Elevator, ElevatorEntry, ElevatorParameter, FlushOrder, Next, Queued, number_of};
use crate::device::Operation;
use std::collections::VecDeque;

const PARAMETERS: &[ElevatorParameter] =
    &[budget("read_latency_sectors", 8192), budget("write_latency_sectors", 16384)];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "linus",
    summary: "Linux 2.4: one sorted list; a command is passed by a limited number of sectors \
        (elvtune -r, -w)",
    parameters: PARAMETERS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        Box::new(Linus {
            read_latency_sectors: number_of(PARAMETERS, numbers, 0),
            write_latency_sectors: number_of(PARAMETERS, numbers, 1),
            ..Linus::default()
        })
    },
};

const fn budget(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1 << 40 }
}

#[derive(Default)]
struct Linus {
    read_latency_sectors: u64,
    write_latency_sectors: u64,
    /// In the order of sending: rising sweeps.
    list: VecDeque<Entry>,
    /// Where the last command ends.
    head: u64,
}

struct Entry {
    command: Queued,
    /// How many sectors may still pass it.
    budget: u64,
}

fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// Whether a command at `offset` is in order between `before` and the command after it, which may
/// start a new sweep.
fn in_order(before: u64, offset: u64, behind: u64) -> bool {
    let (goes_on, precedes) = (before <= offset, offset < behind);
    if behind < before { goes_on || precedes } else { goes_on && precedes }
}

impl Linus {
    /// Where in the list a new command goes: at the place nearest to the tail where it is in order
    /// between two commands, or between the head and the first, unless there is a barrier on the
    /// way; otherwise at the tail.
    fn place(&self, command: &Queued) -> usize {
        let sectors = sectors(command.bytes);
        let mut behind = None;
        for (index, entry) in self.list.iter().enumerate().rev() {
            let place = entry.command.offset;
            if behind.is_some_and(|behind| in_order(place, command.offset, behind)) {
                return index + 1;
            }
            if entry.budget < sectors {
                return self.list.len();
            }
            behind = Some(place);
        }
        let first = behind.is_some_and(|behind| in_order(self.head, command.offset, behind));
        if first { 0 } else { self.list.len() }
    }
    /// Charges the commands from `place` on for being passed by this many sectors.
    fn charge(&mut self, place: usize, sectors: u64) {
        for entry in self.list.iter_mut().skip(place) {
            entry.budget = entry.budget.saturating_sub(sectors);
        }
    }
    fn find(&self, command: &Queued) -> Option<usize> {
        self.list.iter().rposition(|entry| entry.command.sequence == command.sequence)
    }
}

impl Elevator for Linus {
    fn add(&mut self, command: Queued, _now: u64) {
        let place = self.place(&command);
        self.charge(place, sectors(command.bytes));
        let budget = match command.operation {
            Operation::Read => self.read_latency_sectors,
            Operation::Write | Operation::Flush => self.write_latency_sectors,
        };
        self.list.insert(place, Entry { command, budget });
    }
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        let sectors = sectors(arriving.bytes);
        let mut passed =
            self.list.iter().rev().take_while(|entry| entry.command.sequence != waiting.sequence);
        passed.all(|entry| entry.budget >= sectors)
    }
    fn grow(&mut self, before: &Queued, after: &Queued) {
        let Some(place) = self.find(before) else { return };
        self.charge(place + 1, sectors(after.bytes.saturating_sub(before.bytes)));
        if let Some(entry) = self.list.get_mut(place) {
            entry.command = *after;
        }
    }
    /// Only if they are next to each other in the list, so that nothing is passed.
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        match (self.find(older), self.find(younger)) {
            (Some(older), Some(younger)) => older.abs_diff(younger) == 1,
            _ => false,
        }
    }
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued) {
        let Some(absorbed) = self.find(younger).and_then(|place| self.list.remove(place)) else {
            return;
        };
        let place = self.find(older);
        if let Some(entry) = place.and_then(|place| self.list.get_mut(place)) {
            entry.command = *after;
            entry.budget = entry.budget.min(absorbed.budget);
        }
    }
    fn next(&mut self, _head: u64, _now: u64) -> Next<Queued> {
        let Some(entry) = self.list.pop_front() else {
            return Next::Empty;
        };
        self.head = entry.command.end();
        Next::Dispatch(entry.command)
    }
}
