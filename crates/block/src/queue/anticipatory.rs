//! `anticipatory`: a reader whose read was just completed is likely to ask for what is next to it
//! within a few milliseconds. So the device may stay idle for it, although other commands wait far
//! away.
//!
//! The idea is that of Iyer and Druschel (SOSP 2001). The design is that of Linux 2.6's
//! anticipatory scheduler as its documentation describes it: batches of reads and of writes by time
//! (500 and 125 ms); within a batch a one-way elevator that also goes back a little if that is less
//! than half as far; an age at which a command goes first (reads 125 ms, writes 250 ms; once in
//! that time at most); and a wait of 6.7 ms after a read whose stream is known to come back soon
//! and near. What counts as near (4 MiB) is our choice.
//!
//! Guarantees: a wait ends after 6.7 ms, when an older read expires, and when the batch is over and
//! writes wait. A direction gets its batch when the other one's time is over. In each expiry time
//! at least the oldest expired command is sent.
use super::stream::{FirstSeek, Streams};
use super::waiting::Waiting;
use super::{
    Elevator, ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, NS_PER_US, Next, Queued,
    number_of,
};
use crate::device::Operation;

const PARAMETERS: &[ElevatorParameter] = &[
    parameter("wait_us", 6700),
    parameter("read_expire_ms", 125),
    parameter("write_expire_ms", 250),
    parameter("read_batch_ms", 500),
    parameter("write_batch_ms", 125),
];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "anticipatory",
    summary: "Linux 2.6: waits a little for the next near read of the same stream",
    parameters: PARAMETERS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        let wait_ns = number_of(PARAMETERS, numbers, 0) * NS_PER_US;
        let ns = |index| number_of(PARAMETERS, numbers, index) * NS_PER_MS;
        Box::new(Anticipatory {
            wait_ns,
            reads: Line::new(ns(1), ns(3)),
            writes: Line::new(ns(2), ns(4)),
            streams: Streams::new(wait_ns, FirstSeek::None),
            batch: Operation::Read,
            batch_ends: None,
            position: 0,
            last: None,
        })
    },
};

/// For commands within this many bytes there is no waiting, and streams farther than this are not
/// waited for.
const NEAR_BYTES: u64 = 4 << 20;
/// How far the elevator goes back at most, in bytes.
const BACK_BYTES_MAX: u64 = 1 << 20;

const fn parameter(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1_000_000_000 }
}

/// The waiting commands of one direction.
struct Line {
    waiting: Waiting,
    expire_ns: u64,
    batch_ns: u64,
    /// Expired commands may go first again from this time on.
    expiry_from: u64,
}

impl Line {
    fn new(expire_ns: u64, batch_ns: u64) -> Line {
        Line { waiting: Waiting::default(), expire_ns, batch_ns, expiry_from: 0 }
    }
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// When the oldest command goes first, and which it is.
    fn expiry(&self) -> Option<(u64, Queued)> {
        let (oldest, arrived) = self.waiting.oldest()?;
        Some((arrived.saturating_add(self.expire_ns).max(self.expiry_from), oldest))
    }
    fn expired(&self, now: u64) -> Option<Queued> {
        self.expiry().filter(|(expiry, _)| now >= *expiry).map(|(_, oldest)| oldest)
    }
    /// The next command upwards from `position`, then from the lowest. Goes back a little if that
    /// is less than half as far.
    fn in_order(&self, position: u64) -> Option<Queued> {
        let ahead = self.waiting.at_or_behind(position);
        let back = self.waiting.before(position).filter(|back| {
            let distance = position - back.offset;
            let nearer = ahead.is_none_or(|ahead| distance < (ahead.offset - position) / 2);
            distance <= BACK_BYTES_MAX && nearer
        });
        back.or(ahead).or_else(|| self.waiting.lowest())
    }
}

/// The command that was sent last, if it was a read.
struct LastRead {
    command: Queued,
    ended: Option<u64>,
}

struct Anticipatory {
    wait_ns: u64,
    reads: Line,
    writes: Line,
    /// The streams of reads.
    streams: Streams,
    /// The direction of the batch, and when the other one may follow (`None` if it has not begun).
    batch: Operation,
    batch_ends: Option<u64>,
    /// Where the command that was sent last ends.
    position: u64,
    last: Option<LastRead>,
}

impl Anticipatory {
    fn line(&mut self, operation: Operation) -> &mut Line {
        match operation {
            Operation::Read => &mut self.reads,
            Operation::Write | Operation::Flush => &mut self.writes,
        }
    }
    /// Begins the next batch if this one's time is over, or it is empty, and the other direction
    /// has commands waiting.
    fn turn(&mut self, now: u64) {
        let (mine, other, operation) = match self.batch {
            Operation::Read => (&self.reads, &self.writes, Operation::Write),
            Operation::Write | Operation::Flush => (&self.writes, &self.reads, Operation::Read),
        };
        let over = self.batch_ends.is_some_and(|ends| now >= ends);
        if !other.is_empty() && (over || mine.is_empty()) {
            self.batch = operation;
            self.batch_ends = None;
        } else if over {
            self.batch_ends = None;
        }
    }
    /// Until when the device waits for the stream of the last read, although commands wait.
    fn anticipates(&mut self, now: u64) -> Option<u64> {
        let last = self.last.as_ref()?;
        let stream = last.command.stream;
        let (ended, place) = (last.ended, last.command.end());
        let batch_ends = self.batch_ends.filter(|_| !self.writes.is_empty()).unwrap_or(u64::MAX);
        let expiry = self.reads.expiry().map_or(u64::MAX, |(expiry, _)| expiry);
        if now >= batch_ends.min(expiry)
            || !self.streams.comes_soon(stream)
            || !self.streams.comes_near(stream, NEAR_BYTES)
        {
            return None;
        }
        if self.reads.waiting.has_near(place, NEAR_BYTES)
            || self.streams.pending(stream) > u64::from(ended.is_none())
        {
            return None;
        }
        let Some(ended) = ended else {
            // Its command is under way: wait for its end, or for another deadline.
            return Some(batch_ends.min(expiry));
        };
        let until = ended.saturating_add(self.wait_ns);
        if now >= until {
            self.streams.waited_in_vain(stream);
            self.last = None;
            return None;
        }
        Some(until.min(batch_ends).min(expiry))
    }
    fn send(&mut self, command: Queued, now: u64) -> Next<Queued> {
        let line = self.line(command.operation);
        line.waiting.remove(command.sequence);
        let batch_ends = now.saturating_add(line.batch_ns);
        self.batch_ends.get_or_insert(batch_ends);
        self.position = command.end();
        let read = command.operation == Operation::Read;
        self.last = read.then_some(LastRead { command, ended: None });
        Next::Dispatch(command)
    }
}

impl Elevator for Anticipatory {
    fn add(&mut self, command: Queued, now: u64) {
        if command.operation == Operation::Read {
            self.streams.arrived(command.stream, (command.offset, command.end()), now);
        }
        self.line(command.operation).waiting.insert(command, now);
    }
    /// Only within one stream; otherwise it would be unclear whose habits the command follows.
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        waiting.operation == Operation::Write || waiting.stream == arriving.stream
    }
    fn grow(&mut self, _before: &Queued, after: &Queued) {
        self.line(after.operation).waiting.grow(after);
    }
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        self.may_grow(older, younger)
    }
    fn join(&mut self, _older: &Queued, younger: &Queued, after: &Queued) {
        if younger.operation == Operation::Read {
            self.streams.left(younger.stream);
        }
        let line = self.line(after.operation);
        line.waiting.remove(younger.sequence);
        line.waiting.grow(after);
    }
    fn next(&mut self, _head: u64, now: u64) -> Next<Queued> {
        if self.reads.is_empty() && self.writes.is_empty() {
            return Next::Empty;
        }
        if let Some(until) = self.anticipates(now) {
            return Next::IdleUntil(until);
        }
        self.turn(now);
        let position = self.position;
        let line = self.line(self.batch);
        let mut chosen = line.expired(now);
        match chosen {
            Some(_) => line.expiry_from = now.saturating_add(line.expire_ns),
            None => chosen = line.in_order(position),
        }
        chosen.map_or(Next::Empty, |command| self.send(command, now))
    }
    fn completed(&mut self, command: &Queued, now: u64) {
        if command.operation != Operation::Read {
            return;
        }
        self.streams.answered(command.stream, now);
        if let Some(last) =
            self.last.as_mut().filter(|last| last.command.sequence == command.sequence)
        {
            last.ended = Some(now);
        }
    }
}
