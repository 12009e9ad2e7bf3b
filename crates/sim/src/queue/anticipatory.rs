//! `anticipatory`: a reader whose read was just completed is likely to ask for what is next to it
//! within a few milliseconds. So the device may stay idle for it, although other commands wait.
//!
//! The idea is that of Iyer and Druschel (SOSP 2001), the design that of Linux 2.6's anticipatory
//! scheduler as it is documented: batches of reads and of writes; within a batch a one-way elevator
//! that also goes back a little if that is less than half as far; an age at which a command goes
//! first (reads 125 ms, writes 250 ms; once in that time at most); and a wait of 6.7 ms after a
//! read whose stream is known to come back soon.
//!
//! - *Waits.* While only writes wait, the stream's pause alone decides: how far it seeks does not
//!   matter. A read of another stream ends the wait if it is as near as the stream's own reads are
//!   on average, or within 4 MiB ahead (2 MiB back); each ms of waiting doubles these.
//! - *Batches.* 500 ms of reads, counted from the first one that ends, are over only when both
//!   directions wait. A batch of writes has as many commands as took 125 ms until the first read
//!   after it had ended: the number is learned, batch by batch. At each change of direction the
//!   device is emptied first.
//!
//! Guarantees: a wait ends after 6.7 ms, when an older read expires, and when the batch is over and
//! both directions wait. A direction gets its batch when the other one's is over. In each expiry
//! time at least the oldest expired command is sent.
use super::stream::{FirstSeek, Streams};
use super::waiting::Waiting;
use super::{
    Elevator, ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, NS_PER_US, Next, Queued,
    number_of,
};
use extant_block::device::Operation;

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
            batch: Batch { operation: Operation::Read, state: BatchState::AwaitsRead },
            writing: WriteBatches::new(number_of(PARAMETERS, numbers, 4)),
            inside: 0,
            position: 0,
            last: None,
        })
    },
};

/// A read of another stream this near, in bytes, is not kept waiting at first.
const NEAR_BYTES: u64 = 4 << 20;
/// After so many doublings any place is near.
const DOUBLINGS_MAX: u64 = 20;
/// How far the elevator goes back at most, in bytes.
const BACK_BYTES_MAX: u64 = 1 << 20;
/// For how many milliseconds of a batch of writes there is one command at first.
const WRITE_MS_FIRST: u64 = 10;
/// A device that is emptied and completes nothing for this long gets more, in nanoseconds.
const SILENCE_NS: u64 = 1_000_000_000;

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

/// How far a batch has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchState {
    /// The device is emptied of the other direction, until this time at most.
    Empties(u64),
    /// Of reads: its time runs from the first one that ends.
    AwaitsRead,
    /// Until this time.
    Runs(u64),
}

/// The batch that the device works on.
struct Batch {
    operation: Operation,
    state: BatchState,
}

/// How many commands a batch of writes gets.
struct WriteBatches {
    count: u64,
    /// Of those, how many the last batch did not send.
    left: u64,
    began: u64,
    /// The last batch ended for want of writes, or had no reads waiting: its time says nothing.
    idled: bool,
}

impl WriteBatches {
    fn new(batch_ms: u64) -> WriteBatches {
        let count = (batch_ms / WRITE_MS_FIRST).max(1);
        WriteBatches { count, left: count, began: 0, idled: true }
    }
    /// Learns from a batch whose last effect, the wait of the first read, ended now.
    fn learn(&mut self, batch_ns: u64, now: u64) {
        let took = now.saturating_sub(self.began);
        if took > batch_ns && !self.idled {
            let is_far = took > batch_ns.saturating_mul(3);
            self.count = if is_far { self.count / 2 } else { self.count - 1 };
        } else if took < batch_ns && self.left == 0 {
            let is_far = took.saturating_mul(3) < batch_ns;
            self.count = if is_far { self.count.saturating_mul(2) } else { self.count + 1 };
        }
        self.count = self.count.max(1);
    }
}

struct Anticipatory {
    wait_ns: u64,
    reads: Line,
    writes: Line,
    /// The streams of reads.
    streams: Streams,
    batch: Batch,
    writing: WriteBatches,
    /// Commands in the device.
    inside: u64,
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
    /// Begins a batch of this direction: first the device has to be empty.
    fn turn_to(&mut self, operation: Operation, now: u64) {
        self.batch =
            Batch { operation, state: BatchState::Empties(now.saturating_add(SILENCE_NS)) };
        if self.inside == 0 {
            self.begin(now);
        }
    }
    /// Whether the batch has had what it gets while the other direction waits.
    fn is_over(&self, now: u64) -> bool {
        let BatchState::Runs(ends) = self.batch.state else { return false };
        let is_writing = self.batch.operation != Operation::Read;
        now >= ends || (is_writing && self.writing.left == 0)
    }
    /// The device is empty: the batch begins.
    fn begin(&mut self, now: u64) {
        self.batch.state = match self.batch.operation {
            Operation::Read => BatchState::AwaitsRead,
            Operation::Write | Operation::Flush => {
                (self.writing.began, self.writing.idled) = (now, false);
                self.writing.left = self.writing.count;
                BatchState::Runs(now.saturating_add(self.writes.batch_ns))
            }
        };
    }
    /// Until when the device waits for the stream of the last read, although commands wait.
    fn anticipates(&mut self, now: u64) -> Option<u64> {
        let last = self.last.as_ref()?;
        let stream = last.command.stream;
        let (ended, place) = (last.ended, last.command.end());
        let expiry = self.reads.expiry().map_or(u64::MAX, |(expiry, _)| expiry);
        let both = !self.reads.is_empty() && !self.writes.is_empty();
        let batch_ends = match self.batch.state {
            BatchState::Runs(ends) if both => ends,
            _ => u64::MAX,
        };
        let most = expiry.min(batch_ends);
        if now >= most
            || !self.streams.comes_soon(stream)
            || self.streams.pending(stream) > u64::from(ended.is_none())
        {
            return None;
        }
        let near = self
            .reads
            .in_order(self.position)
            .map_or(u64::MAX, |other| self.near_from(&other, stream, place, ended));
        if now >= near {
            return None;
        }
        let Some(ended) = ended else {
            // Its command is under way: wait for its end, or for another deadline.
            return Some(most.min(near).min(now.saturating_add(SILENCE_NS)));
        };
        let until = ended.saturating_add(self.wait_ns);
        if now >= until {
            self.streams.waited_in_vain(stream);
            self.last = None;
            return None;
        }
        Some(until.min(most).min(near))
    }
    /// From when on a waiting read is as good as what the stream may ask for next.
    fn near_from(&self, other: &Queued, stream: u32, place: u64, ended: Option<u64>) -> u64 {
        let distance = other.offset.abs_diff(place);
        if other.stream == stream || self.streams.is_usual(stream, distance) {
            return 0;
        }
        // Half as far back as ahead.
        let counted = if other.offset < place { distance.saturating_mul(2) } else { distance };
        let doublings = counted.div_ceil(NEAR_BYTES).max(1).next_power_of_two().ilog2();
        match (u64::from(doublings), ended) {
            (0, _) => 0,
            (_, None) => u64::MAX,
            (doublings, Some(ended)) => {
                ended.saturating_add(doublings.min(DOUBLINGS_MAX) * NS_PER_MS)
            }
        }
    }
    fn send(&mut self, command: Queued) -> Next<Queued> {
        let line = self.line(command.operation);
        line.waiting.remove(command.sequence);
        self.inside += 1;
        self.position = command.end();
        let read = command.operation == Operation::Read;
        if !read {
            self.writing.left = self.writing.left.saturating_sub(1);
        }
        self.last = read.then_some(LastRead { command, ended: None });
        Next::Dispatch(command)
    }
    /// The next command of the batch: the oldest if it has expired, else by place.
    fn next_of_batch(&mut self, now: u64) -> Option<Queued> {
        let position = self.position;
        let line = self.line(self.batch.operation);
        match line.expired(now) {
            Some(expired) => {
                line.expiry_from = now.saturating_add(line.expire_ns);
                Some(expired)
            }
            None => line.in_order(position),
        }
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
        let (reads, writes) = (!self.reads.is_empty(), !self.writes.is_empty());
        if !reads && !writes {
            return Next::Empty;
        }
        if let BatchState::Empties(until) = self.batch.state {
            if now < until {
                return Next::IdleUntil(until);
            }
            self.begin(now);
        }
        let is_reading = self.batch.operation == Operation::Read;
        if !is_reading && !reads {
            self.writing.idled = true;
        }
        if !(reads && writes && self.is_over(now)) {
            if is_reading
                && self.reads.expired(now).is_none()
                && let Some(until) = self.anticipates(now)
            {
                return Next::IdleUntil(until);
            }
            if is_reading && !writes {
                self.batch.state = BatchState::Runs(now.saturating_add(self.reads.batch_ns));
            }
            if let Some(command) = self.next_of_batch(now) {
                return self.send(command);
            }
        }
        let turn = match reads && (!writes || !is_reading) {
            true => Operation::Read,
            false => Operation::Write,
        };
        self.turn_to(turn, now);
        if let BatchState::Empties(until) = self.batch.state {
            return Next::IdleUntil(until);
        }
        let oldest = self.line(turn).waiting.oldest();
        oldest.map_or(Next::Empty, |(command, _)| self.send(command))
    }
    fn completed(&mut self, command: &Queued, now: u64) {
        self.inside = self.inside.saturating_sub(1);
        if self.inside == 0 && matches!(self.batch.state, BatchState::Empties(_)) {
            self.begin(now);
        }
        if command.operation != Operation::Read {
            return;
        }
        self.streams.answered(command.stream, now);
        if self.batch.operation == Operation::Read && self.batch.state == BatchState::AwaitsRead {
            self.writing.learn(self.writes.batch_ns, now);
            self.batch.state = BatchState::Runs(now.saturating_add(self.reads.batch_ns));
        }
        if let Some(last) =
            self.last.as_mut().filter(|last| last.command.sequence == command.sequence)
        {
            last.ended = Some(now);
        }
    }
}
