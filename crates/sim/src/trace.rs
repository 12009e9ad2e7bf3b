//! What a drive was asked and when it answered: records, and the formats that other tools write and
//! read.
//!
//! | format | written | read | keeps |
//! | --- | --- | --- | --- |
//! | `disksim` | yes | yes | arrival, operation, position, size |
//! | `blktrace` | yes | yes | arrival (Q), dispatch (D), completion (C), operation, position, size, stream |
//! | `fio-iolog` | yes (v2, v3) | yes | operation, position, size; v3 also the arrival |
//!
//! Traces of other systems are read request by request, however long they are: [`requests`] has
//! the list. [`recognise`] tells formats apart by their first bytes.
//!
//! ```text
//! recognise   which format a trace has
//! requests    traces of other systems: columns, iolog, blkparse, objects
//! request     a request of one, and what a line holds; lines: those of any input
//! blktrace    the kernel's binary stream        disksim   DiskSim's ASCII
//! ```
//!
//! None of them keeps the parts of a time: for those there is the JSON of a report, whose entries
//! are [`TraceRecord`]s.
use crate::drive::Parts;
use extant_block::Operation;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

mod blkparse;
mod blktrace;
mod columns;
mod disksim;
mod iolog;
mod lines;
mod objects;
mod recognise;
mod request;
pub mod requests;

pub use recognise::{Recognised, START_BYTES, recognise};

/// One command of a run, from the host's queue to its end. Times are nanoseconds of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRecord {
    /// When it entered the host's queue.
    pub arrival_ns: u64,
    /// When the drive got it.
    pub dispatch_ns: u64,
    /// When it ended.
    pub completion_ns: u64,
    /// What for.
    #[serde(with = "operation_name")]
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub bytes: u64,
    /// Which process asked (its number in the scenario).
    pub stream: u32,
    /// Where the time in the drive went; adds up to `completion_ns - dispatch_ns`.
    pub parts: Parts,
    /// Whether the drive answered from its cache.
    pub hit: bool,
    /// How many commands were in the host's queue and the drive when it arrived, itself not
    /// counted.
    pub queue_depth: u32,
}

impl TraceRecord {
    /// A record of which only the times and the place are known, as foreign traces give it.
    pub fn plain(operation: Operation, offset: u64, bytes: u64, times: [u64; 3]) -> TraceRecord {
        let [arrival_ns, dispatch_ns, completion_ns] = times;
        let (stream, parts, hit, queue_depth) = (0, Parts::default(), false, 0);
        TraceRecord {
            arrival_ns,
            dispatch_ns,
            completion_ns,
            operation,
            offset,
            bytes,
            stream,
            parts,
            hit,
            queue_depth,
        }
    }
}

/// The names of operations in JSON: `read`, `write`, `flush`.
mod operation_name {
    use super::*;
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        operation: &Operation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
        })
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Operation, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            "read" => Ok(Operation::Read),
            "write" => Ok(Operation::Write),
            "flush" => Ok(Operation::Flush),
            _ => Err(D::Error::unknown_variant(&name, &["read", "write", "flush"])),
        }
    }
}

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// DiskSim's ASCII: arrival in ms, device, block of 512 bytes, blocks, flags (1 = read); a line
    /// each.
    DiskSim,
    /// The binary stream of the kernel's block layer, as `blktrace -o -` writes it and `blkparse`
    /// reads it.
    Blktrace,
    /// fio's I/O log, version 2: no times. For `fio --read_iolog`.
    FioIolog,
    /// fio's I/O log, version 3: with times in microseconds.
    FioIologTimed,
}

impl TraceFormat {
    /// Every format with its name.
    pub const NAMES: [(&'static str, TraceFormat); 4] = [
        ("disksim", TraceFormat::DiskSim),
        ("blktrace", TraceFormat::Blktrace),
        ("fio-iolog", TraceFormat::FioIolog),
        ("fio-iolog-3", TraceFormat::FioIologTimed),
    ];
}

impl FromStr for TraceFormat {
    type Err = TraceError;
    fn from_str(name: &str) -> Result<TraceFormat, TraceError> {
        let found = TraceFormat::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| TraceError::UnknownFormat(name.to_owned()))
    }
}

/// Why a trace could not be read or written. Shows as one line.
#[derive(Debug)]
pub enum TraceError {
    /// No format of that name.
    UnknownFormat(String),
    /// The format is only written.
    NotRead(TraceFormat),
    /// A line of text that says nothing sensible.
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A binary record that says nothing sensible.
    Record {
        /// Which, from 1.
        record: usize,
        /// Where it begins in the file.
        byte: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A record that the format cannot hold.
    Unwritable {
        /// Which, from 1.
        record: usize,
        /// Why not.
        reason: String,
    },
    /// A name of a device that the format cannot hold.
    UnwritableName(String),
    /// The writer failed.
    Io(io::Error),
    /// The trace mixes volumes, of which none was chosen.
    Mixed {
        /// Those of its beginning, the busiest first.
        volumes: Vec<String>,
    },
    /// The trace has no request of the chosen volume.
    NoSuchVolume {
        /// That volume.
        volume: String,
        /// Those that it has, the busiest first.
        volumes: Vec<String>,
    },
    /// The input could not be read.
    Input(io::Error),
}

/// Volumes in a line of an error, no more than a reader can use.
fn listed(volumes: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = volumes[..volumes.len().min(SHOWN)].join(", ");
    match volumes.len() > SHOWN {
        true => format!("{shown} and {} more", volumes.len() - SHOWN),
        false => shown,
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::UnknownFormat(name) => {
                write!(f, "no trace format is called {name:?}; there are")?;
                TraceFormat::NAMES.iter().try_for_each(|(known, _)| write!(f, " {known}"))
            }
            TraceError::NotRead(format) => {
                write!(f, "traces in the format {format:?} are written, not read")
            }
            TraceError::Line { line, reason } => write!(f, "line {line}: {reason}"),
            TraceError::Record { record, byte, reason } => {
                write!(f, "record {record} at byte {byte}: {reason}")
            }
            TraceError::Unwritable { record, reason } => {
                write!(f, "record {record} cannot be written: {reason}")
            }
            TraceError::UnwritableName(name) => write!(
                f,
                "a trace cannot hold the device name {name:?}: it has white space, or nothing"
            ),
            TraceError::Io(error) => write!(f, "the trace cannot be written: {error}"),
            TraceError::Mixed { volumes } => {
                write!(f, "the trace mixes {} volumes: {}", volumes.len(), listed(volumes))
            }
            TraceError::NoSuchVolume { volume, volumes } => {
                write!(f, "the trace has no volume {volume:?}: it has {}", listed(volumes))
            }
            TraceError::Input(error) => write!(f, "the trace cannot be read: {error}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// Writes the records, which need no particular order; they are written by arrival (blktrace: every
/// event at its time). `device` names the drive where a format wants a name. Errors: the writer's,
/// and what the format cannot hold.
pub fn write(
    format: TraceFormat,
    records: &[TraceRecord],
    device: &str,
    writer: &mut dyn Write,
) -> Result<(), TraceError> {
    match format {
        TraceFormat::DiskSim => disksim::write(records, writer),
        TraceFormat::Blktrace => blktrace::write(records, writer),
        TraceFormat::FioIolog => iolog::write(records, device, iolog::Version::Two, writer),
        TraceFormat::FioIologTimed => iolog::write(records, device, iolog::Version::Three, writer),
    }
}

/// Reads a trace; records come by arrival. What the format does not keep is zero; times that it
/// does not keep are the arrival. Errors name the line or record; nothing is allocated beyond a
/// small multiple of the input.
pub fn read(format: TraceFormat, bytes: &[u8]) -> Result<Vec<TraceRecord>, TraceError> {
    match format {
        TraceFormat::DiskSim => disksim::read(bytes),
        TraceFormat::Blktrace => blktrace::read(bytes),
        TraceFormat::FioIolog | TraceFormat::FioIologTimed => Err(TraceError::NotRead(format)),
    }
}

/// The records by arrival, each with its number in the slice, from 1.
fn by_arrival(records: &[TraceRecord]) -> impl Iterator<Item = (&TraceRecord, usize)> {
    let mut order: Vec<(&TraceRecord, usize)> = records.iter().zip(1..).collect();
    order.sort_by_key(|(record, _)| record.arrival_ns);
    order.into_iter()
}
