//! `cfq-like`: shares the device's time. Each stream that waits for its commands has a queue and
//! gets slices of time in turn; all commands that no thread waits for share one more queue.
//!
//! Design and numbers are those of CFQ since Linux 2.6.20: slices of 100 ms for awaited commands,
//! 40 ms for the others, 8 ms idle; an age of 125 and 250 ms at which the oldest command begins a
//! slice. Reads and awaited writes count as awaited. While a stream has its slice and nothing
//! waiting, the device is kept for it until its commands have ended and 8 ms more, if it is known
//! to come back that soon. A slice of the others ends when a stream begins to wait, or, if one
//! waits, after 16 commands (which is what CFQ's formula gives for the usual priority). Not
//! modelled: priorities, and different waits for streams that seek.
//!
//! With a `quantum` (CFQ of 2.6.22 and later: 4) the device never holds many commands that no
//! thread waits for: at most that many while awaited ones wait, otherwise four times as many, and
//! no new one while it holds an awaited one. Without a quantum (2.6.20) a device with a queue is
//! filled with write-back to its depth, and a read comes after that, whatever its turn here.
//!
//! Guarantees: if others wait, a slice ends with the first command after its time. Waiting queues
//! take turns.
//!
//! `turns` is ours: the same queues with a quantum, slices by time alone, a background whose sweep
//! goes on where its last slice ended, and flushes that wait for nothing
//! ([`FlushOrder::AtOnce`](super::FlushOrder)).
use super::stream::Streams;
use super::waiting::Waiting;
use super::{
    Elevator, ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, Next, Queued, number_of,
};
use crate::device::{Operation, Urgency};
use std::collections::{BTreeMap, VecDeque};

const PARAMETERS: &[ElevatorParameter] = &[
    parameter("slice_sync_ms", 100),
    parameter("slice_async_ms", 40),
    parameter("idle_ms", 8),
    parameter("expire_sync_ms", 125),
    parameter("expire_async_ms", 250),
    parameter("quantum", 0),
    parameter("background_commands", 16),
];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "cfq-like",
    summary: "Linux 2.6: slices of time in turn for each stream that waits, and for all write-back \
        together",
    parameters: PARAMETERS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        let ns = |index| number_of(PARAMETERS, numbers, index) * NS_PER_MS;
        let mut queues = FairQueues::new(
            Class { slice_ns: ns(0), expire_ns: ns(3) },
            Class { slice_ns: ns(1), expire_ns: ns(4) },
            ns(2),
        );
        queues.quantum = number_of(PARAMETERS, numbers, 5);
        queues.background_commands = number_of(PARAMETERS, numbers, 6);
        Box::new(queues)
    },
};

// A change of turns costs two seeks, some 25 ms of a disk: 8 % of a round of 300 ms. Write-back has
// four fifths of it, so that a writer keeps most of its rate, and those who wait get their turn
// four times a second.
const TURNS_PARAMETERS: &[ElevatorParameter] = &[
    parameter("awaited_ms", 60),
    parameter("background_ms", 240),
    // One command under the head and one that the drive can prepare for.
    parameter("quantum", 2),
    // What a program computes between two reads; as CFQ. Nothing after a write.
    parameter("idle_ms", 8),
    // No write waits longer than until the next commit.
    parameter("expire_ms", 5000),
];

pub(super) const TURNS: ElevatorEntry = ElevatorEntry {
    name: "turns",
    summary: "ours: those who wait and write-back in turn; write-back continues its sweep, and the \
        device never holds much of it",
    parameters: TURNS_PARAMETERS,
    flush: FlushOrder::AtOnce,
    build: |numbers| {
        let number = |index| number_of(TURNS_PARAMETERS, numbers, index);
        let ns = |index| number(index) * NS_PER_MS;
        let mut queues = FairQueues::new(
            Class { slice_ns: ns(0), expire_ns: ns(4) },
            Class { slice_ns: ns(1), expire_ns: ns(4) },
            ns(3),
        );
        queues.quantum = number(2);
        queues.idle_after = IdleAfter::Reads;
        queues.sweep = Some(0);
        Box::new(queues)
    },
};

const fn parameter(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1_000_000_000 }
}

#[derive(Clone, Copy)]
struct Class {
    slice_ns: u64,
    expire_ns: u64,
}

/// Which commands a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// Those of a stream that waits for them.
    Stream(u32),
    /// Those that no thread waits for.
    Background,
}

fn owner(command: &Queued) -> Owner {
    match (command.operation, command.urgency) {
        (Operation::Read, _) | (_, Urgency::Awaited) => Owner::Stream(command.stream),
        (Operation::Write | Operation::Flush, Urgency::Background) => Owner::Background,
    }
}

/// After which commands of a stream the device is kept for its next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IdleAfter {
    All,
    /// A program that reads needs the next block soon. One that waits for a write has what it
    /// wanted, and its next write is elsewhere.
    Reads,
}

struct Slice {
    owner: Owner,
    ends: u64,
    /// How many commands were sent in it.
    sent: u64,
    /// What the last of them was.
    last: Option<Operation>,
    /// When its last command ended, or when it began.
    ended: u64,
    /// A stream began to wait during a slice of the background.
    preempted: bool,
}

/// The commands in the device.
#[derive(Default)]
struct Inside {
    awaited: u64,
    background: u64,
}

impl Inside {
    fn count(&mut self, owner: Owner) -> &mut u64 {
        match owner {
            Owner::Stream(_) => &mut self.awaited,
            Owner::Background => &mut self.background,
        }
    }
}

/// A device that holds enough background commands but completes none for this long, in nanoseconds,
/// gets more.
const SILENCE_NS: u64 = 1_000_000_000;

/// *Invariants*: `queues` has no empty queue; each of them is in `turns` once or has the slice.
struct FairQueues {
    sync: Class,
    background: Class,
    idle_ns: u64,
    /// How many background commands the device holds at most; 0 for no limit.
    quantum: u64,
    /// How many commands a slice of the background has at most while a stream waits.
    background_commands: u64,
    inside: Inside,
    streams: Streams,
    queues: BTreeMap<Owner, Waiting>,
    /// The order of the next slices.
    turns: VecDeque<Owner>,
    slice: Option<Slice>,
    /// Where the command that was sent last ends.
    position: u64,
    /// After which commands of a stream the device is kept for its next one.
    idle_after: IdleAfter,
    /// Where the last command of the background ends, if its next slice continues there; otherwise
    /// it continues at `position`, and a read elsewhere ends the sweep.
    sweep: Option<u64>,
}

impl FairQueues {
    /// Without a quantum, and with slices of the background that end by time alone.
    fn new(sync: Class, background: Class, idle_ns: u64) -> FairQueues {
        FairQueues {
            sync,
            background,
            idle_ns,
            quantum: 0,
            background_commands: u64::MAX,
            inside: Inside::default(),
            streams: Streams::new(idle_ns),
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            slice: None,
            position: 0,
            idle_after: IdleAfter::All,
            sweep: None,
        }
    }
    fn class(&self, owner: Owner) -> Class {
        match owner {
            Owner::Stream(_) => self.sync,
            Owner::Background => self.background,
        }
    }
    fn remove(&mut self, owner: Owner, sequence: u64) {
        if let Some(queue) = self.queues.get_mut(&owner) {
            queue.remove(sequence);
            if queue.is_empty() {
                self.queues.remove(&owner);
            }
        }
    }
    /// Whether the slice has to end, given that others wait.
    fn is_over(&self, slice: &Slice, now: u64) -> bool {
        let enough = slice.owner == Owner::Background && slice.sent >= self.background_commands;
        !self.turns.is_empty() && (now >= slice.ends || slice.preempted || enough)
    }
    /// Until when the device is kept for a stream that has the slice and nothing waiting, while
    /// others wait.
    fn idles(&mut self, slice: &Slice, now: u64) -> Option<u64> {
        let Owner::Stream(stream) = slice.owner else {
            return None;
        };
        let ends_with_write = slice.last.is_some_and(|last| last != Operation::Read);
        if self.idle_after == IdleAfter::Reads && ends_with_write {
            return None;
        }
        if !self.streams.comes_soon(stream) {
            return None;
        }
        if self.streams.pending(stream) > 0 {
            return Some(slice.ends);
        }
        let until = slice.ended.saturating_add(self.idle_ns).min(slice.ends);
        if now >= until {
            self.streams.waited_in_vain(stream);
            return None;
        }
        Some(until)
    }
    /// Whether the device holds as many background commands as it may.
    fn holds_enough(&self) -> bool {
        let others_wait = self.queues.keys().any(|owner| *owner != Owner::Background);
        let most = if others_wait { self.quantum } else { 4 * self.quantum };
        self.quantum > 0
            && self.inside.background > 0
            && (self.inside.background >= most || self.inside.awaited > 0)
    }
    /// Sends a command from the queue that has the slice: first its oldest, if that has expired.
    fn send(&mut self, mut slice: Slice, now: u64) -> Next<Queued> {
        let Some(queue) = self.queues.get(&slice.owner) else {
            return Next::Empty;
        };
        let until = slice.ended.saturating_add(SILENCE_NS);
        if slice.owner == Owner::Background && self.holds_enough() && now < until {
            self.slice = Some(slice);
            return Next::IdleUntil(until);
        }
        let class = self.class(slice.owner);
        if now >= slice.ends {
            // No other queue waits: the slice starts again.
            slice.ends = now.saturating_add(class.slice_ns);
            slice.sent = 0;
        }
        let oldest =
            queue.oldest().filter(|(_, arrived)| now >= arrived.saturating_add(class.expire_ns));
        let expired = oldest.filter(|_| slice.sent == 0).map(|(oldest, _)| oldest);
        let sweep = self.sweep.filter(|_| slice.owner == Owner::Background);
        let from = sweep.unwrap_or(self.position);
        let in_order = || queue.at_or_behind(from).or_else(|| queue.lowest());
        let Some(command) = expired.or_else(in_order) else {
            return Next::Empty;
        };
        slice.sent += 1;
        slice.last = Some(command.operation);
        *self.inside.count(slice.owner) += 1;
        self.remove(slice.owner, command.sequence);
        self.position = command.end();
        if slice.owner == Owner::Background {
            self.sweep = self.sweep.map(|_| command.end());
        }
        self.slice = Some(slice);
        Next::Dispatch(command)
    }
}

impl Elevator for FairQueues {
    fn add(&mut self, command: Queued, now: u64) {
        let owner = owner(&command);
        if let Owner::Stream(stream) = owner {
            self.streams.arrived(stream, (command.offset, command.end()), now);
        }
        let begins = !self.queues.contains_key(&owner);
        self.queues.entry(owner).or_default().insert(command, now);
        let active = self.slice.as_ref().map(|slice| slice.owner);
        if begins && active != Some(owner) {
            self.turns.push_back(owner);
        }
        if let Some(slice) = &mut self.slice {
            let waits = owner != Owner::Background && slice.owner == Owner::Background;
            slice.preempted |= waits && slice.sent > 0;
        }
    }
    /// Only within one queue.
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        owner(waiting) == owner(arriving)
    }
    fn grow(&mut self, before: &Queued, after: &Queued) {
        if let Some(queue) = self.queues.get_mut(&owner(before)) {
            queue.grow(after);
        }
    }
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        owner(older) == owner(younger)
    }
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued) {
        if let Owner::Stream(stream) = owner(younger) {
            self.streams.left(stream);
        }
        self.remove(owner(younger), younger.sequence);
        self.grow(older, after);
    }
    fn next(&mut self, _head: u64, now: u64) -> Next<Queued> {
        if self.queues.is_empty() {
            return Next::Empty;
        }
        if let Some(slice) = self.slice.take() {
            let waits = self.queues.contains_key(&slice.owner);
            if !self.is_over(&slice, now) {
                if waits {
                    return self.send(slice, now);
                }
                if now < slice.ends
                    && let Some(until) = self.idles(&slice, now)
                {
                    self.slice = Some(slice);
                    return Next::IdleUntil(until);
                }
            } else if waits {
                self.turns.push_back(slice.owner);
            }
        }
        let Some(owner) = self.turns.pop_front() else {
            return Next::Empty;
        };
        let ends = now.saturating_add(self.class(owner).slice_ns);
        let slice = Slice { owner, ends, sent: 0, last: None, ended: now, preempted: false };
        self.send(slice, now)
    }
    fn completed(&mut self, command: &Queued, now: u64) {
        let owner = owner(command);
        let inside = self.inside.count(owner);
        *inside = inside.saturating_sub(1);
        if let Owner::Stream(stream) = owner {
            self.streams.answered(stream, now);
        }
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.owner == owner) {
            slice.ended = now;
        }
    }
}
