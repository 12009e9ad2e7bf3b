//! A network volume: a latency per operation, and limits on operations and bytes by token buckets.
//!
//! ```text
//! command -> operations' bucket and bytes' bucket (each with its burst)
//!         -> latency and transfer -> answered
//! ```
//!
//! A command takes one token of operations for every `operation_bytes`, one for each byte, and goes
//! when both are there, after those that came before it. A bucket is given by its rate and by how
//! much may gather unused; `burst_per_s` limits how fast what gathered is spent. What is answered
//! is durable: a flush takes its latency and no token, and forcing the medium costs nothing. The
//! volume answers from many servers: commands do not wait for each other but in the buckets, and
//! the transfer is not contended. Latencies vary log-normally from the median to the 99th
//! percentile.
//!
//! A power cut is that of the machine: of a write under way the volume keeps the sectors that have
//! come over the link, in order. The volume and its buckets go on.
//!
//! *Invariants*: the buckets are taken from in order of arrival; a command that is inside is in
//! `ends`, once; `passages` has every write that is not on the volume whole.
//!
//! *Locking*: none; the owner of a drive serialises.
use super::booking::{Bucket, Passage, Timeline, transfer_time};
use super::medium::{Latency, MOST_BYTES, Medium, RATES, Unit};
use super::section::{FileError, Section};
use super::{Command, Done, Drive, DriveInfo, Parts, Unflushed};
use crate::random::{Quantiles, Random};
use extant_block::Operation;
use serde::Serialize;

/// A limit: the tables `[operations]` and `[bytes]` of a drive file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Limit {
    /// Tokens that flow in a second.
    pub per_s: u64,
    /// How many gather when none are taken; at least one command's.
    pub burst: u64,
    /// How many of them can be spent a second; `None`: all at once.
    pub burst_per_s: Option<u64>,
}

impl Limit {
    fn from_section(section: &mut Section<'_>, name: &str) -> Result<Limit, FileError> {
        let mut table = section.section(name)?;
        let per_s = table.whole_within("per_s", RATES, None)?;
        let burst = table.whole_within("burst", 0..=MOST_BYTES, Some(0))?;
        let burst_per_s = match table.has("burst_per_s") {
            true => Some(table.whole_within("burst_per_s", per_s..=*RATES.end(), None)?),
            false => None,
        };
        table.finish()?;
        Ok(Limit { per_s, burst, burst_per_s })
    }
}

/// A drive file of `kind = "network"`. Times are keys in milliseconds: `read_ms`, `read_p99_ms`,
/// and so on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NetworkSpec {
    /// Its size and depth.
    #[serde(flatten)]
    pub medium: Medium,
    /// From the buckets to the first byte of a read.
    pub read: Latency,
    /// From the last byte of a write to its answer.
    pub write: Latency,
    /// A flush.
    pub flush: Latency,
    /// What a single command transfers at.
    pub link_bytes_per_s: u64,
    /// A larger command counts as several operations.
    pub operation_bytes: u64,
    /// Limits operations.
    pub operations: Limit,
    /// Limits bytes.
    pub bytes: Limit,
}

impl NetworkSpec {
    /// From the table of a drive file. Errors name line and key.
    pub(in crate::drive) fn from_section(
        section: &mut Section<'_>,
    ) -> Result<NetworkSpec, FileError> {
        Ok(NetworkSpec {
            medium: Medium::from_section(section)?,
            read: Unit::Milliseconds.latency(section, "read")?,
            write: Unit::Milliseconds.latency(section, "write")?,
            flush: Unit::Milliseconds.latency(section, "flush")?,
            link_bytes_per_s: section.whole_within("link_bytes_per_s", RATES, None)?,
            operation_bytes: section.whole_within(
                "operation_bytes",
                512..=MOST_BYTES,
                Some(256 << 10),
            )?,
            operations: Limit::from_section(section, "operations")?,
            bytes: Limit::from_section(section, "bytes")?,
        })
    }
}

/// The two buckets of a limit.
#[derive(Clone, Debug)]
struct Gate {
    sustained: Bucket,
    burst: Option<Bucket>,
}

impl Gate {
    /// `grain` tokens are always allowed to gather: what a single command of the usual size takes
    /// does not wait on an idle volume.
    fn new(limit: Limit, grain: u64) -> Gate {
        Gate {
            sustained: Bucket::full(limit.burst.max(grain), limit.per_s),
            burst: limit.burst_per_s.map(|rate| Bucket::full(grain, rate)),
        }
    }

    fn pass(&mut self, tokens: u64, now: u64) -> u64 {
        let sustained = self.sustained.take(tokens, now);
        let burst = self.burst.as_mut().map_or(now, |bucket| bucket.take(tokens, now));
        sustained.max(burst)
    }
}

/// The volume.
#[derive(Debug)]
pub struct NetworkVolume {
    info: DriveInfo,
    spec: NetworkSpec,
    read: Quantiles,
    write: Quantiles,
    flush: Quantiles,
    random: Random,
    operations: Gate,
    bytes: Gate,
    ends: Timeline<Done>,
    passages: Vec<Passage>,
    head: u64,
}

impl NetworkVolume {
    /// The volume, idle, with full buckets. The seed decides what varies.
    pub fn new(name: &str, spec: &NetworkSpec, seed: u64) -> NetworkVolume {
        NetworkVolume {
            info: spec.medium.info(name, spec.bytes.per_s.min(spec.link_bytes_per_s)),
            spec: spec.clone(),
            read: spec.read.quantiles(0),
            write: spec.write.quantiles(0),
            flush: spec.flush.quantiles(0),
            random: Random::for_part(seed, "network"),
            operations: Gate::new(spec.operations, 1),
            bytes: Gate::new(spec.bytes, spec.operation_bytes),
            ends: Timeline::new(),
            passages: Vec::new(),
            head: 0,
        }
    }

    fn transfer(&mut self, command: Command, now: u64) -> Parts {
        let operations = command.bytes.div_ceil(self.spec.operation_bytes.max(1)).max(1);
        let begin = self.operations.pass(operations, now).max(self.bytes.pass(command.bytes, now));
        let latency = match command.operation {
            Operation::Write => &self.write,
            _ => &self.read,
        };
        self.head = command.offset.saturating_add(command.bytes);
        let parts = Parts {
            queued: begin - now,
            media: latency.draw(&mut self.random),
            bus: transfer_time(command.bytes, self.spec.link_bytes_per_s),
            ..Parts::default()
        };
        if command.operation == Operation::Write {
            let Command { id, offset, bytes, .. } = command;
            self.passages.retain(|passage| passage.end > now);
            self.passages.push(Passage { id, offset, bytes, begin, end: begin + parts.bus });
        }
        parts
    }
}

impl Drive for NetworkVolume {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn submit(&mut self, command: Command, now: u64) {
        let parts = match command.operation {
            Operation::Read | Operation::Write => self.transfer(command, now),
            Operation::Flush => {
                Parts { media: self.flush.draw(&mut self.random), ..Parts::default() }
            }
        };
        let at = now + parts.total();
        self.ends.push(at, Done { id: command.id, at, parts, hit: false });
    }

    fn next_event(&self) -> Option<u64> {
        self.ends.first().map(|(at, _)| at)
    }

    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        self.ends.finish(now, done);
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn unflushed(&mut self, now: u64) -> Vec<Unflushed> {
        let sector = u64::from(self.spec.medium.sector_bytes);
        self.passages.iter().filter_map(|passage| passage.left(sector, now)).collect()
    }

    fn power_cut(&mut self, now: u64) -> Vec<Unflushed> {
        let lost = self.unflushed(now);
        (self.ends, self.passages) = (Timeline::new(), Vec::new());
        lost
    }
}
