//! `deadline`: batches in rising order, each of one direction. A command that has waited too long
//! starts the next batch.
//!
//! The rules are those of the deadline scheduler as Linux 2.6 documents it (read_expire 500 ms,
//! write_expire 5 s, fifo_batch 16, writes_starved 2). A batch continues in rising order from the
//! last command of its direction, until it has its number of commands or nothing is ahead. Then
//! reads go first, unless writes were passed over `writes_starved` times. The batch starts with the
//! oldest command of its direction if that has expired or nothing is ahead, otherwise with the next
//! one ahead.
//!
//! Guarantee: if `n` older commands of its direction wait when a read expires, at most
//! `batch x (n + 2) + batch x (n / writes_starved + 2)` commands are sent before it.
use super::waiting::Waiting;
use super::{
    Elevator, ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, Next, Queued, number_of,
};
use extant_block::device::Operation;

const PARAMETERS: &[ElevatorParameter] = &[
    parameter("read_expire_ms", 500, 0, 1_000_000_000),
    parameter("write_expire_ms", 5000, 0, 1_000_000_000),
    parameter("batch_commands", 16, 1, 1 << 32),
    parameter("writes_starved", 2, 1, 1 << 32),
];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "deadline",
    summary: "Linux 2.6: batches in rising order, reads before writes, and an age at which each \
        must go",
    parameters: PARAMETERS,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        Box::new(Deadline {
            reads: Line::expiring(number_of(PARAMETERS, numbers, 0) * NS_PER_MS),
            writes: Line::expiring(number_of(PARAMETERS, numbers, 1) * NS_PER_MS),
            batch_commands: number_of(PARAMETERS, numbers, 2),
            writes_starved: number_of(PARAMETERS, numbers, 3),
            starved: 0,
            batch: None,
        })
    },
};

const fn parameter(name: &'static str, default: u64, min: u64, max: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min, max }
}

/// The waiting commands of one direction.
struct Line {
    waiting: Waiting,
    expire_ns: u64,
    /// Where the last command of this direction ends.
    position: u64,
}

impl Line {
    fn expiring(expire_ns: u64) -> Line {
        Line { waiting: Waiting::default(), expire_ns, position: 0 }
    }
    /// The next command upwards.
    fn ahead(&self) -> Option<Queued> {
        self.waiting.at_or_behind(self.position)
    }
    /// The command that a batch starts with.
    fn first(&self, now: u64) -> Option<Queued> {
        let (oldest, arrived) = self.waiting.oldest()?;
        let expired = now >= arrived.saturating_add(self.expire_ns);
        self.ahead().filter(|_| !expired).or(Some(oldest))
    }
    fn take(&mut self, command: Queued) -> Next<Queued> {
        self.waiting.remove(command.sequence);
        self.position = command.end();
        Next::Dispatch(command)
    }
}

struct Deadline {
    reads: Line,
    writes: Line,
    batch_commands: u64,
    writes_starved: u64,
    /// How many batches of reads began while writes waited.
    starved: u64,
    /// The direction of the batch, and how many commands it has sent.
    batch: Option<(Operation, u64)>,
}

impl Deadline {
    fn line(&mut self, operation: Operation) -> &mut Line {
        match operation {
            Operation::Read => &mut self.reads,
            Operation::Write | Operation::Flush => &mut self.writes,
        }
    }
    /// The direction of the next batch. Called only if a command waits.
    fn direction(&mut self) -> Operation {
        let (reads, writes) = (!self.reads.waiting.is_empty(), !self.writes.waiting.is_empty());
        if reads && (!writes || self.starved < self.writes_starved) {
            self.starved += u64::from(writes);
            return Operation::Read;
        }
        self.starved = 0;
        Operation::Write
    }
}

impl Elevator for Deadline {
    fn add(&mut self, command: Queued, now: u64) {
        self.line(command.operation).waiting.insert(command, now);
    }
    fn grow(&mut self, _before: &Queued, after: &Queued) {
        self.line(after.operation).waiting.grow(after);
    }
    fn join(&mut self, _older: &Queued, younger: &Queued, after: &Queued) {
        let line = self.line(after.operation);
        line.waiting.remove(younger.sequence);
        line.waiting.grow(after);
    }
    fn next(&mut self, _head: u64, now: u64) -> Next<Queued> {
        if let Some((direction, sent)) = self.batch
            && sent < self.batch_commands
            && let Some(command) = self.line(direction).ahead()
        {
            self.batch = Some((direction, sent + 1));
            return self.line(direction).take(command);
        }
        if self.reads.waiting.is_empty() && self.writes.waiting.is_empty() {
            return Next::Empty;
        }
        let direction = self.direction();
        self.batch = Some((direction, 1));
        let line = self.line(direction);
        line.first(now).map_or(Next::Empty, |command| line.take(command))
    }
}
