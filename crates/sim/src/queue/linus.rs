//! `linus`, `linus-2.4.20` and `read-latency`: the elevators of Linux 2.4. One list, sorted in
//! sweeps. Each block that arrives (not each merged command) searches the list from its tail, for
//! a command to become part of and for a place in the order of the disk.
//!
//! Each waiting command has a budget of what may still pass it (`elvtune -r -w`, for reads and
//! writes). The units, in sectors:
//!
//! - `linus` (2.4.14 to 2.4.19, the post of 2001): a command loses one each time that a search
//!   visits it. One that had used up its budget ends the search: there is neither a merge nor a
//!   place in front of it. A command of the same direction with room for the block ends the search
//!   too if its budget is smaller than the block. Merging at the back is free for the command that
//!   grows, at the front costs it the block's sectors, and each command after it in the list loses
//!   as much. Being inserted costs the others nothing more.
//! - `read-latency` (A. Morton's patch of January 2002): the same, but a budget that is used up
//!   ends insertion only, not the search for a merge. A read that merges with nothing goes after
//!   the first waiting writes whose weights, 1 and one for each 64 sectors, reach `elvtune -b`, or
//!   stays where sorting puts it if that is nearer to the front. Reads that wait there may be
//!   passed.
//! - `linus-2.4.20` (2.4.20 and later): budgets count requests. Visits and merges cost nothing; an
//!   insertion costs each command that it passes one. A budget that is used up ends insertion, not
//!   the search for a merge.
//!
//! The request in service heads the list in the kernel and is never visited, so nothing is placed
//! between it and the first that waits: what belongs there goes to the tail. It is not in `list`.
//!
//! *Invariants*: `place` is set by a search and used, or dropped, before the next one.
use super::{
    Elevator, ElevatorEntry, ElevatorParameter, End, FlushOrder, Next, Queued, Search, number_of,
};
use extant_block::device::Operation;
use std::collections::VecDeque;

/// Size of what arrives at a time: a block of ext2 on the disks of the time, in bytes.
const BLOCK_BYTES: u64 = 4096;
/// A waiting write weighs 1, and 1 more for each of these sectors: a constant of the patch.
const WEIGHT_SECTORS: u64 = 64;

const SECTORS: &[ElevatorParameter] =
    &[number("read_latency_sectors", 8192), number("write_latency_sectors", 16384)];
const REQUESTS: &[ElevatorParameter] =
    &[number("read_latency_requests", 2048), number("write_latency_requests", 8192)];
const READ_LATENCY: &[ElevatorParameter] = &[
    number("read_latency_sectors", 8192),
    number("write_latency_sectors", 16384),
    number("writes_passed_weight", 6),
];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "linus",
    summary: "Linux 2.4.14 to 2.4.19: one sorted list; each block that arrives ages what it \
        passes (elvtune -r, -w; post of 2001)",
    parameters: SECTORS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| Linus::boxed(Rule::Sectors, SECTORS, numbers),
};

pub(super) const ENTRY_2_4_20: ElevatorEntry = ElevatorEntry {
    name: "linus-2.4.20",
    summary: "Linux 2.4.20 and later: the same list; budgets count requests, merges are free \
        (elvtune -r, -w)",
    parameters: REQUESTS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| Linus::boxed(Rule::Requests, REQUESTS, numbers),
};

pub(super) const ENTRY_READ_LATENCY: ElevatorEntry = ElevatorEntry {
    name: "read-latency",
    summary: "linus with A. Morton's patch of January 2002: a read waits for few writes \
        (elvtune -r, -w, -b)",
    parameters: READ_LATENCY,
    flush: FlushOrder::AfterArrived,
    build: |numbers| Linus::boxed(Rule::ReadLatency, READ_LATENCY, numbers),
};

const fn number(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1 << 40 }
}

/// How budgets are counted, and what they forbid.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Sectors,
    Requests,
    ReadLatency,
}

/// Where the command goes that the last search found no merge for.
#[derive(Clone, Copy)]
enum Place {
    At(usize),
    Tail,
}

struct Linus {
    rule: Rule,
    read_budget: i64,
    write_budget: i64,
    /// Of `read-latency`: what the writes that a read waits for may weigh together.
    weight_max: u64,
    /// In the order of sending: rising sweeps.
    list: VecDeque<Entry>,
    place: Option<Place>,
}

struct Entry {
    command: Queued,
    /// What may still pass it; used up at 0 and below.
    budget: i64,
}

fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// Whether a block at `offset` is in order between `before` and the command after it, which may
/// start a new sweep.
fn in_order(before: u64, offset: u64, after: u64) -> bool {
    let (goes_on, precedes) = (before <= offset, offset < after);
    if after < before { goes_on || precedes } else { goes_on && precedes }
}

impl Linus {
    fn boxed(rule: Rule, parameters: &[ElevatorParameter], numbers: &[u64]) -> Box<dyn Elevator> {
        let number = |index| number_of(parameters, numbers, index);
        Box::new(Linus {
            rule,
            read_budget: number(0).min(i64::MAX as u64) as i64,
            write_budget: number(1).min(i64::MAX as u64) as i64,
            weight_max: number(2),
            list: VecDeque::new(),
            place: None,
        })
    }

    /// Looks from the tail for a command that the block may become part of, and for its place.
    fn look(&mut self, block: &Queued, merge_bytes_max: u64) -> Option<(usize, End)> {
        let count = sectors(block.bytes) as i64;
        let (mut place, mut after, mut inserts) = (None, None, true);
        let mut found = None;
        for index in (0..self.list.len()).rev() {
            let Some(entry) = self.list.get_mut(index) else { break };
            let is_used_up = entry.budget <= 0;
            if self.rule != Rule::Requests {
                entry.budget = entry.budget.saturating_sub(1);
            }
            if is_used_up {
                if self.rule == Rule::Sectors {
                    break;
                }
                inserts = false;
            }
            let offset = entry.command.offset;
            if inserts
                && place.is_none()
                && after.is_some_and(|after| in_order(offset, block.offset, after))
            {
                place = Some(index + 1);
            }
            after = Some(offset);
            if entry.command.operation != block.operation
                || entry.command.bytes.saturating_add(block.bytes) > merge_bytes_max
            {
                continue;
            }
            if self.rule == Rule::Sectors && entry.budget < count {
                break;
            }
            if entry.command.end() == block.offset {
                found = Some((index, End::Back));
            } else if block.end() == offset {
                if self.rule != Rule::Requests {
                    entry.budget = entry.budget.saturating_sub(count);
                }
                found = Some((index, End::Front));
            }
            if found.is_some() {
                break;
            }
        }
        self.place = Some(place.map_or(Place::Tail, Place::At));
        found
    }

    /// Every command from `from` on loses this much.
    fn charge(&mut self, from: usize, amount: i64) {
        for entry in self.list.iter_mut().skip(from) {
            entry.budget = entry.budget.saturating_sub(amount);
        }
    }

    /// Where `read-latency` puts a read that would go before `place` by sorting.
    fn near_the_front(&self, place: usize) -> usize {
        let mut weight = 0_u64;
        for (index, entry) in self.list.iter().take(place).enumerate() {
            if entry.command.operation == Operation::Write {
                weight += 1 + sectors(entry.command.bytes) / WEIGHT_SECTORS;
                if weight >= self.weight_max {
                    return index + 1;
                }
            }
        }
        place
    }

    fn find(&self, command: &Queued) -> Option<usize> {
        self.list.iter().rposition(|entry| entry.command.sequence == command.sequence)
    }
}

impl Elevator for Linus {
    fn piece_bytes_max(&self) -> Option<u64> {
        Some(BLOCK_BYTES)
    }
    fn search(&mut self, block: &Queued, merge_bytes_max: u64) -> Search {
        let Some((index, end)) = self.look(block, merge_bytes_max) else { return Search::Alone };
        if self.rule != Rule::Requests {
            self.charge(index + 1, sectors(block.bytes) as i64);
        }
        self.place = None;
        match self.list.get(index) {
            Some(entry) => Search::Part { sequence: entry.command.sequence, end },
            None => Search::Alone,
        }
    }
    /// Alone, it searches for a place first.
    fn add(&mut self, command: Queued, _now: u64) {
        if self.place.is_none() {
            self.look(&command, 0);
        }
        let mut place = match self.place.take() {
            Some(Place::At(place)) => place.min(self.list.len()),
            Some(Place::Tail) | None => self.list.len(),
        };
        let budget = match command.operation {
            Operation::Read => self.read_budget,
            Operation::Write | Operation::Flush => self.write_budget,
        };
        match self.rule {
            Rule::Requests => self.charge(place, 1),
            Rule::ReadLatency if command.operation == Operation::Read => {
                place = self.near_the_front(place);
            }
            Rule::Sectors | Rule::ReadLatency => {}
        }
        self.list.insert(place, Entry { command, budget });
    }
    fn grow(&mut self, before: &Queued, after: &Queued) {
        let place = self.find(before);
        if let Some(entry) = place.and_then(|place| self.list.get_mut(place)) {
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
        self.place = None;
        self.list.pop_front().map_or(Next::Empty, |entry| Next::Dispatch(entry.command))
    }
}
