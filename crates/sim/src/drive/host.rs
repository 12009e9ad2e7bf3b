//! The host's own work on the way to a drive: one thread that takes commands in batches.
//!
//! ```text
//! command -> waits for the thread -> batch: woken (batch_us), then every command that is there by
//!            then, one after the other (command_us, and its bytes at bytes_per_s)
//!         -> all of them go to the drive together -> answered by the drive, each when it is
//! ```
//!
//! This is how the thread of a virtual disk works, and a driver that learns of many ends by
//! one interrupt: while it works on a batch it sees nothing else, so what a batch costs once is
//! hidden by nothing. In a closed loop of n readers a read takes about `batch + n * command` before
//! the drive's own time, and not the larger of the drive's time and `n * command`, as at a
//! queue whose server takes one command at a time.
//!
//! A command that waits for the thread or is worked on has `queued` for the time that goes to
//! others and to the batch, and `overhead` for its own work. What the thread has is in the host's
//! memory: at a power cut it is lost.
//!
//! *Invariants*: a command is in `batch`, in `waiting`, in the drive or in `ended`, once; there is
//! no `waiting` without a batch; the drive gets commands in order of arrival, and never in the
//! past.
//!
//! *Locking*: none; the owner of a drive serialises.
use super::booking::transfer_time;
use super::medium::{RATES, Unit};
use super::section::{FileError, Section};
use super::{Command, Done, Drive, DriveInfo, Unflushed, object};
use serde::Serialize;
use std::collections::BTreeMap;

/// The table `[host]` of a drive file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HostSpec {
    /// From the first command of a batch, or the end of the batch before, until the thread takes
    /// what is there.
    pub batch_ns: u64,
    /// Its work for each command.
    pub command_ns: u64,
    /// How fast it passes bytes on; `None`: at once.
    pub bytes_per_s: Option<u64>,
}

impl HostSpec {
    /// The table `host` of the table of a drive file; `None` when there is none. Errors name line
    /// and key.
    pub(in crate::drive) fn from_section(
        section: &mut Section<'_>,
    ) -> Result<Option<HostSpec>, FileError> {
        let Some(mut table) = section.optional_section("host")? else { return Ok(None) };
        let batch_ns = Unit::Microseconds.time(&mut table, "batch", Some(0))?;
        let command_ns = Unit::Microseconds.time(&mut table, "command", Some(0))?;
        let bytes_per_s = match table.has("bytes_per_s") {
            true => Some(table.whole_within("bytes_per_s", RATES, None)?),
            false => None,
        };
        table.finish()?;
        Ok(Some(HostSpec { batch_ns, command_ns, bytes_per_s }))
    }

    /// What the thread does for a command, in nanoseconds.
    fn work(&self, command: &Command) -> u64 {
        let carried = self.bytes_per_s.map_or(0, |rate| transfer_time(command.bytes, rate));
        self.command_ns.saturating_add(carried)
    }
}

/// What the thread works on.
#[derive(Debug)]
struct Batch {
    /// What comes until then, that moment included, is in it.
    takes: u64,
    /// When all of it goes to the drive.
    ends: u64,
    commands: Vec<Arrived>,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    command: Command,
    at: u64,
}

/// What is added to the parts of a command that the drive has.
#[derive(Clone, Copy, Debug)]
struct Spent {
    queued: u64,
    overhead: u64,
}

/// A drive, and the host's work on the way to it.
pub struct Hosted {
    drive: Box<dyn Drive>,
    spec: HostSpec,
    batch: Option<Batch>,
    /// What came too late for the batch.
    waiting: Vec<Arrived>,
    /// Of the commands in the drive, by their ids.
    spent: BTreeMap<u64, Spent>,
    /// What the drive answered while commands were passed on.
    ended: Vec<Done>,
}

impl Hosted {
    /// The drive, with the thread at rest.
    pub fn new(drive: Box<dyn Drive>, spec: HostSpec) -> Hosted {
        Hosted {
            drive,
            spec,
            batch: None,
            waiting: Vec::new(),
            spent: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// A batch of what waits, of which the thread learns at `now`.
    fn begin(&mut self, now: u64) {
        let takes = now.saturating_add(self.spec.batch_ns);
        let commands = std::mem::take(&mut self.waiting);
        let work = commands.iter().map(|arrived| self.spec.work(&arrived.command));
        let ends = work.fold(takes, u64::saturating_add);
        self.batch = Some(Batch { takes, ends, commands });
    }

    /// Passes on every batch that is worked on by `now`.
    fn pass_on(&mut self, now: u64) {
        while let Some(batch) = self.batch.take_if(|batch| batch.ends <= now) {
            self.advance_drive(batch.ends);
            for Arrived { command, at } in batch.commands {
                let overhead = self.spec.work(&command);
                let queued = (batch.ends - at).saturating_sub(overhead);
                self.spent.insert(command.id, Spent { queued, overhead });
                self.drive.submit(command, batch.ends);
            }
            if !self.waiting.is_empty() {
                self.begin(batch.ends);
            }
        }
    }

    fn advance_drive(&mut self, now: u64) {
        let first = self.ended.len();
        self.drive.advance(now, &mut self.ended);
        for done in &mut self.ended[first..] {
            if let Some(Spent { queued, overhead }) = self.spent.remove(&done.id) {
                done.parts.queued += queued;
                done.parts.overhead += overhead;
            }
        }
    }

    /// The writes that the drive does not have.
    fn held(&self) -> impl Iterator<Item = Unflushed> {
        let batch = self.batch.iter().flat_map(|batch| &batch.commands);
        let writes = batch.chain(&self.waiting).map(|arrived| arrived.command);
        let writes = writes.filter(|one| one.operation == extant_block::Operation::Write);
        writes.map(|Command { id, offset, bytes, .. }| Unflushed { id, offset, bytes })
    }
}

impl Drive for Hosted {
    fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    fn submit(&mut self, command: Command, now: u64) {
        self.pass_on(now);
        let work = self.spec.work(&command);
        let arrived = Arrived { command, at: now };
        match &mut self.batch {
            Some(batch) if now <= batch.takes => {
                batch.ends = batch.ends.saturating_add(work);
                batch.commands.push(arrived);
            }
            Some(_) => self.waiting.push(arrived),
            None => {
                self.waiting.push(arrived);
                self.begin(now);
            }
        }
    }

    fn next_event(&self) -> Option<u64> {
        let ended = self.ended.first().map(|done| done.at);
        let passed_on = self.batch.as_ref().map(|batch| batch.ends);
        ended.into_iter().chain(passed_on).chain(self.drive.next_event()).min()
    }

    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        self.pass_on(now);
        self.advance_drive(now);
        done.append(&mut self.ended);
    }

    fn head(&self) -> u64 {
        self.drive.head()
    }

    fn unflushed(&mut self, now: u64) -> Vec<Unflushed> {
        self.pass_on(now);
        let mut left = self.drive.unflushed(now);
        left.extend(self.held());
        left
    }

    fn power_cut(&mut self, now: u64) -> Vec<Unflushed> {
        self.pass_on(now);
        let mut lost = self.drive.power_cut(now);
        lost.extend(self.held());
        (self.batch, self.waiting) = (None, Vec::new());
        (self.spent, self.ended) = (BTreeMap::new(), Vec::new());
        lost
    }

    fn bill(&self) -> Option<object::Bill> {
        self.drive.bill()
    }
}
