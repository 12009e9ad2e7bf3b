//! fio's I/O log: `fio --read_iolog=FILE --replay_redirect=DEVICE` does the same to a real device,
//! and `fio --write_iolog=FILE` writes one.
//!
//! Version 2 has no times but those of `wait`, which are relative to the wait before; version 3
//! (fio 3.31 and later) begins every line with microseconds since the start. The manual says that
//! the name is an absolute path; a caller may give any word without white space.
use super::columns::{number, placed, scaled};
use super::request::{Held, Request};
use super::{TraceError, TraceRecord, by_arrival};
use extant_block::Operation;
use std::io::{BufWriter, Write};

/// Version of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// Without times.
    Two,
    /// With times.
    Three,
}

impl Version {
    fn number(self) -> u32 {
        match self {
            Version::Two => 2,
            Version::Three => 3,
        }
    }

    /// What a line of that time begins with.
    fn stamp(self, at_ns: u64) -> String {
        match self {
            Version::Two => String::new(),
            Version::Three => format!("{} ", at_ns / 1000),
        }
    }
}

pub(super) fn write(
    records: &[TraceRecord],
    device: &str,
    version: Version,
    writer: &mut dyn Write,
) -> Result<(), TraceError> {
    if device.is_empty()
        || device.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        return Err(TraceError::UnwritableName(device.to_owned()));
    }
    let mut out = BufWriter::new(writer);
    let start = version.stamp(0);
    writeln!(out, "fio version {} iolog", version.number())?;
    writeln!(out, "{start}{device} add\n{start}{device} open")?;
    let mut last = 0;
    for (record, _) in by_arrival(records) {
        last = record.arrival_ns;
        let stamp = version.stamp(last);
        match record.operation {
            Operation::Read => {
                writeln!(out, "{stamp}{device} read {} {}", record.offset, record.bytes)?
            }
            Operation::Write => {
                writeln!(out, "{stamp}{device} write {} {}", record.offset, record.bytes)?
            }
            Operation::Flush => writeln!(out, "{stamp}{device} sync 0 0")?,
        }
    }
    writeln!(out, "{}{device} close", version.stamp(last))?;
    Ok(out.flush()?)
}

const MICROSECOND_NS: u64 = 1000;

/// A log that is read: its version, and how long its waits have been.
#[derive(Default)]
pub(super) struct Log {
    version: Option<Version>,
    waited_ns: u64,
}

/// The version that a first line names.
pub(super) fn version(line: &[u8]) -> Option<Version> {
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Some(Version::Two),
        b"fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

impl Log {
    /// What is known of the times.
    pub(super) fn note(&self) -> Option<&'static str> {
        Some(match self.version? {
            Version::Three => {
                "its times are taken for microseconds, as fio 3.33 writes them: fio's manual names \
                 no unit"
            }
            Version::Two if self.waited_ns == 0 => {
                "the log is of version 2, and has neither times nor waits: all requests arrive at \
                 once at the pace recorded"
            }
            Version::Two => {
                "the log is of version 2, and has no times but its waits: requests between two \
                 waits arrive together at the pace recorded"
            }
        })
    }

    pub(super) fn line<'a>(&mut self, line: &'a [u8]) -> Result<Held<'a>, String> {
        let Some(found) = self.version else {
            let head = version(line);
            let wanted = "is not \"fio version 2 iolog\" or \"fio version 3 iolog\"";
            self.version = Some(head.ok_or_else(|| wanted.to_owned())?);
            return Ok(Held::Nothing);
        };
        let is_blank = |byte: &u8| byte.is_ascii_whitespace();
        let mut words = line.split(is_blank).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return Ok(Held::Nothing) };
        let (arrival_ns, file) = match found {
            Version::Two => (self.waited_ns, Some(first)),
            Version::Three => (scaled("timestamp", first, MICROSECOND_NS)?, words.next()),
        };
        let (Some(file), Some(action)) = (file, words.next()) else {
            return Err("has no file and action".to_owned());
        };
        let mut two = || {
            let (offset, length) = (words.next(), words.next());
            offset.zip(length).ok_or_else(|| "has no offset and length".to_owned())
        };
        let operation = match (action, found) {
            (b"add" | b"open" | b"close", _) => return Ok(Held::Nothing),
            (b"wait", Version::Two) => {
                let waited = scaled("wait", two()?.0, MICROSECOND_NS)?;
                let sum = self.waited_ns.checked_add(waited);
                self.waited_ns = sum.ok_or("wait: the waits are too long")?;
                return Ok(Held::Nothing);
            }
            (b"read", _) => Operation::Read,
            (b"write", _) => Operation::Write,
            (b"sync" | b"datasync", _) => Operation::Flush,
            (b"trim", _) => return Ok(Held::Other),
            (other, _) => {
                let shown = String::from_utf8_lossy(&other[..other.len().min(20)]);
                return Err(format!("action: {shown:?} is none of version {}", found.number()));
            }
        };
        let mut request = Request { arrival_ns, operation, offset: 0, bytes: 0, measured_ns: None };
        if operation == Operation::Flush {
            return Ok(Held::Request(file, request));
        }
        let (offset, length) = two()?;
        request.offset = number("offset", offset)?;
        request.bytes = number("length", length)?;
        placed(file, request)
    }
}
