//! fio's I/O log, written only: `fio --read_iolog=FILE --replay_redirect=DEVICE` does the same to a
//! real device.
//!
//! Version 2 has no times; version 3 (fio 3.31 and later) begins every line with microseconds since
//! the start. The manual says that the name is an absolute path; a caller may give any word
//! without white space.
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
