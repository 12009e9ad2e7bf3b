//! The requests on their way through a device: the host's queue, the drive, and who waits for them.
//!
//! *Invariants*: a request is in `waiting` from its submission to its end, and `left` is what the
//! drive has not yet answered of it. At most `queue_depth` commands are inside the drive. Without
//! power nothing waits, and nothing is inside the drive.
//!
//! *Locking*: none of its own; all of it is under the device's lock.
use super::past::Past;
use super::statistics::Statistics;
use super::timeline::Timeline;
use super::{DeviceSettings, NO_STREAM, PowerCuts, TraceKeeping};
use crate::drive::{self, Done, Drive, Unflushed};
use crate::queue::{Command, HostQueue, Next, Queued};
use crate::trace::TraceRecord;
use extant_block::{Operation, Request, Waker};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Stretches of bytes that a write replaces, each with its offset.
pub(super) type Replaced = Vec<(u64, Vec<u8>)>;

/// A request on its way.
pub(super) struct Pending {
    pub(super) request: Request,
    /// In whole sectors.
    pub(super) queued: Queued,
    /// Bytes of `queued` that the drive has not answered.
    pub(super) left: u64,
    /// When it leaves its process.
    pub(super) arrival: u64,
    /// What was before it when it arrived.
    pub(super) depth: u64,
}

/// A command in the drive.
pub(super) struct Inside {
    pub(super) command: Command,
    pub(super) dispatched: u64,
}

/// Under the device's lock.
pub(super) struct Traffic {
    pub(super) queue: HostQueue,
    pub(super) drive: Box<dyn Drive>,
    /// By sequence, which rises by submission.
    pub(super) waiting: FxHashMap<u64, Pending>,
    pub(super) sequence: u64,
    /// Requests that are still to leave their process: by time and sequence.
    pub(super) arriving: BTreeSet<(u64, u64)>,
    pub(super) inside: FxHashMap<u64, Inside>,
    /// The byte behind the last command sent.
    pub(super) head: u64,
    /// Until when the queue wants to be left alone.
    pub(super) idle_until: Option<u64>,
    /// The earliest event that is scheduled.
    pub(super) scheduled: Option<u64>,
    /// Since when the drive has had a command.
    pub(super) busy_since: u64,
    pub(super) statistics: Statistics,
    pub(super) timeline: Timeline,
    pub(super) hash: u64,
    pub(super) records: Vec<TraceRecord>,
    /// `None` where the power is never cut.
    pub(super) past: Option<Past>,
    pub(super) power: Power,
    /// Commands that ended.
    pub(super) ended: u64,
    /// Who waits for how many commands to have ended.
    pub(super) waiters: Vec<(u64, Waker)>,
    /// Processes that sleep until the queue has room in a direction.
    pub(super) sleepers: Vec<(Operation, Waker)>,
    /// How many reads and writes have ended that left the queue not congested.
    pub(super) relieved: [u64; 2],
    /// Kept for its memory.
    pub(super) done: Vec<Done>,
}

/// Whether there is power.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
}

/// Where the counts of this direction are.
pub(super) fn direction_of(operation: Operation) -> usize {
    usize::from(operation != Operation::Read)
}

impl Traffic {
    pub(super) fn new(settings: &DeviceSettings, drive: Box<dyn Drive>) -> Traffic {
        Traffic {
            queue: HostQueue::new(&settings.queue),
            drive,
            waiting: FxHashMap::default(),
            sequence: 0,
            arriving: BTreeSet::new(),
            inside: FxHashMap::default(),
            head: 0,
            idle_until: None,
            scheduled: None,
            busy_since: 0,
            statistics: Statistics::default(),
            timeline: Timeline::default(),
            hash: 0,
            records: Vec::new(),
            past: (settings.power_cuts == PowerCuts::Possible).then(Past::new),
            power: Power::On,
            ended: 0,
            waiters: Vec::new(),
            sleepers: Vec::new(),
            relieved: [0; 2],
            done: Vec::new(),
        }
    }

    /// A request will arrive.
    pub(super) fn add(
        &mut self,
        request: Request,
        queued: Queued,
        arrival: u64,
        replaced: Replaced,
    ) {
        let sequence = self.sequence;
        self.sequence += 1;
        if let Some(past) = &mut self.past {
            past.record(sequence, queued.bytes, replaced);
        }
        let queued = Queued { sequence, ..queued };
        let pending = Pending { request, queued, left: queued.bytes, arrival, depth: 0 };
        self.waiting.insert(sequence, pending);
        self.arriving.insert((arrival, sequence));
    }

    /// Puts into the queue what has left its process.
    pub(super) fn let_arrive(&mut self, now: u64) {
        while let Some((at, sequence)) = self.arriving.first().copied()
            && at <= now
        {
            self.arriving.pop_first();
            let depth = self.queue.waiting() + self.queue.under_way();
            self.statistics.count_depth(depth);
            self.timeline.count_depth(depth, now);
            if let Some(pending) = self.waiting.get_mut(&sequence) {
                pending.depth = depth;
                self.queue.add(pending.queued, now);
                if pending.queued.stream == NO_STREAM {
                    // No process will wait for anything after this.
                    self.queue.unplug();
                }
            }
        }
    }

    /// Sends to the drive what the queue gives and the drive has room for.
    pub(super) fn dispatch(&mut self, now: u64) {
        self.idle_until = None;
        while self.inside.len() < self.drive.info().queue_depth.max(1) as usize {
            match self.queue.next(self.head, now) {
                Next::Dispatch(command) => self.send(command, now),
                Next::IdleUntil(until) => {
                    self.idle_until = Some(until.max(now + 1));
                    return;
                }
                Next::Empty => return,
            }
        }
    }

    fn send(&mut self, command: Command, now: u64) {
        self.statistics.count_seek(&command, self.head);
        self.timeline.count_seek(&command, self.head, now);
        if command.operation != Operation::Flush {
            self.head = command.offset + command.bytes;
        }
        if self.inside.is_empty() {
            self.busy_since = now;
        }
        let sent = drive::Command {
            id: command.id,
            operation: command.operation,
            offset: command.offset,
            bytes: command.bytes,
            force_unit_access: false,
        };
        if let Some(past) = &mut self.past {
            past.sent(&command);
        }
        let dispatched = now;
        self.inside.insert(command.id, Inside { command, dispatched });
        self.drive.submit(sent, now);
    }

    /// Takes the answers of the drive; gives the requests that have ended, in order.
    pub(super) fn advance(&mut self, now: u64, trace: TraceKeeping) -> Vec<Pending> {
        let mut done = std::mem::take(&mut self.done);
        let mut ended = Vec::new();
        self.drive.advance(now, &mut done);
        for answer in done.drain(..) {
            let Some(inside) = self.inside.remove(&answer.id) else {
                debug_assert!(false, "the drive answered command {} twice, or uncalled", answer.id);
                continue;
            };
            debug_assert_eq!(answer.parts.total(), answer.at - inside.dispatched, "{answer:?}");
            self.queue.completed(answer.id, now);
            let operation = inside.command.operation;
            self.relieved[direction_of(operation)] += u64::from(self.queue.is_relieved(operation));
            self.ended += 1;
            if self.inside.is_empty() {
                self.statistics.busy_ns += answer.at - self.busy_since;
            }
            self.record(&answer, &inside, trace);
            self.end_parts(&inside.command, answer.at, &mut ended);
        }
        self.done = done;
        if let Some(past) = &mut self.past
            && past.is_crowded()
        {
            past.forget(&self.drive.unflushed(now));
        }
        self.wake_waiters();
        ended
    }

    /// Wakes those for whose requests there is room; without power, all.
    pub(super) fn wake_sleepers(&mut self) {
        let (queue, power) = (&self.queue, self.power);
        self.sleepers.retain(|(operation, waker)| {
            let sleeps = queue.outside(*operation) > 0 && power == Power::On;
            if !sleeps {
                waker.wake();
            }
            sleeps
        });
    }

    /// Wakes those whose commands have ended; without power, all.
    pub(super) fn wake_waiters(&mut self) {
        let (ended, power) = (self.ended, self.power);
        self.waiters.retain(|(count, waker)| {
            let waits = *count > ended && power == Power::On;
            if !waits {
                waker.wake();
            }
            waits
        });
    }

    /// Empties queue and drive. Returns what the drive had not brought to the medium, and what was
    /// under way, in the order of submission.
    pub(super) fn lose_power(&mut self, now: u64) -> (Vec<Unflushed>, Vec<Pending>) {
        if !self.inside.is_empty() {
            self.statistics.busy_ns += now.saturating_sub(self.busy_since);
        }
        self.power = Power::Off;
        self.queue.clear();
        self.inside.clear();
        self.arriving.clear();
        (self.idle_until, self.head) = (None, 0);
        self.wake_waiters();
        self.wake_sleepers();
        (self.drive.power_cut(now), self.take_waiting())
    }

    /// What was submitted and has not ended, in that order.
    pub(super) fn take_waiting(&mut self) -> Vec<Pending> {
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_unstable_by_key(|(sequence, _)| *sequence);
        waiting.into_iter().map(|(_, pending)| pending).collect()
    }

    /// A command ended: so do the requests of which it was the last piece.
    fn end_parts(&mut self, command: &Command, at: u64, ended: &mut Vec<Pending>) {
        for part in &command.parts {
            let Some(pending) = self.waiting.get_mut(&part.sequence) else {
                debug_assert!(false, "request {} ended twice", part.sequence);
                continue;
            };
            pending.left = pending.left.saturating_sub(part.bytes);
            if pending.left == 0
                && let Some(pending) = self.waiting.remove(&part.sequence)
            {
                let latency = at.saturating_sub(pending.arrival);
                let request = &pending.request;
                self.statistics.count_request(request.operation, request.bytes(), latency);
                ended.push(pending);
            }
        }
    }

    fn record(&mut self, answer: &Done, inside: &Inside, trace: TraceKeeping) {
        let Inside { command, dispatched } = inside;
        self.statistics.count_command(answer, command.parts.len());
        self.timeline.count_command(command, answer);
        let operation = match command.operation {
            Operation::Read => 1,
            Operation::Write => 2,
            Operation::Flush => 3,
        };
        for word in [*dispatched, operation, command.offset, command.bytes, answer.at] {
            self.hash = stir(self.hash, word);
        }
        if trace == TraceKeeping::None {
            return;
        }
        let first = command.parts.iter().filter_map(|part| self.waiting.get(&part.sequence));
        let first = first.min_by_key(|pending| (pending.arrival, pending.queued.sequence));
        self.records.push(TraceRecord {
            arrival_ns: first.map_or(*dispatched, |pending| pending.arrival),
            dispatch_ns: *dispatched,
            completion_ns: answer.at,
            operation: command.operation,
            offset: command.offset,
            bytes: command.bytes,
            stream: command.stream,
            parts: answer.parts,
            hit: answer.hit,
            queue_depth: first
                .map_or(0, |pending| u32::try_from(pending.depth).unwrap_or(u32::MAX)),
        });
    }
}

/// Adds a word to a hash: the finishing steps of splitmix64.
fn stir(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
