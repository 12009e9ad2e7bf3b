//! DiskSim's ASCII format: `arrival device block size flags` a line, arrival in milliseconds with
//! six digits (nanoseconds), block and size in sectors of 512 bytes, bit 0 of the flags set for a
//! read. Flushes have no place in it and are left out.
use super::{TraceError, TraceRecord, by_arrival};
use extant_block::Operation;
use std::io::{BufWriter, Write};

const SECTOR: u64 = 512;
const MILLISECOND: u64 = 1_000_000;
/// Flag of a read.
const READ: u64 = 1;
/// Hexadecimal flags are as long as this at most; nothing else in a line is longer.
const LONGEST_LINE: usize = 400;

pub(super) fn write(records: &[TraceRecord], writer: &mut dyn Write) -> Result<(), TraceError> {
    let mut out = BufWriter::new(writer);
    for (record, number) in by_arrival(records) {
        let flags = match record.operation {
            Operation::Read => READ,
            Operation::Write => 0,
            Operation::Flush => continue,
        };
        if !record.offset.is_multiple_of(SECTOR)
            || !record.bytes.is_multiple_of(SECTOR)
            || record.bytes == 0
        {
            let reason =
                format!("offset {} and {} bytes are no whole sectors", record.offset, record.bytes);
            return Err(TraceError::Unwritable { record: number, reason });
        }
        let (whole, rest) = (record.arrival_ns / MILLISECOND, record.arrival_ns % MILLISECOND);
        let (block, size) = (record.offset / SECTOR, record.bytes / SECTOR);
        writeln!(out, "{whole}.{rest:06} 0 {block} {size} {flags}")?;
    }
    Ok(out.flush()?)
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<TraceRecord>, TraceError> {
    let mut records: Vec<TraceRecord> = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let parsed =
            parse_line(line).map_err(|reason| TraceError::Line { line: index + 1, reason })?;
        let Some(record) = parsed else { continue };
        if records.last().is_some_and(|last| last.arrival_ns > record.arrival_ns) {
            let reason = "it arrives before the line above".to_owned();
            return Err(TraceError::Line { line: index + 1, reason });
        }
        records.push(record);
    }
    Ok(records)
}

/// A line's record; `None` when it is empty.
fn parse_line(line: &[u8]) -> Result<Option<TraceRecord>, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("{} bytes are too long for a line of a DiskSim trace", line.len()));
    }
    let text = std::str::from_utf8(line).map_err(|_| "it is no text".to_owned())?;
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [arrival, device, block, size, flags] = fields[..] else {
        return match fields.len() {
            0 => Ok(None),
            found => {
                Err(format!("it has {found} fields, not arrival, device, block, size and flags"))
            }
        };
    };
    number("device", device)?;
    let offset = bytes_of("block", block)?;
    let bytes = bytes_of("size", size)?;
    if bytes == 0 || offset.checked_add(bytes).is_none() {
        return Err(format!("block {block} and size {size} are no place on a drive"));
    }
    let operation = match flag_bits(flags)? & READ {
        0 => Operation::Write,
        _ => Operation::Read,
    };
    let arrival = nanoseconds(arrival)
        .ok_or_else(|| format!("the arrival {arrival:?} is no time in milliseconds"))?;
    Ok(Some(TraceRecord::plain(operation, offset, bytes, [arrival; 3])))
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the {what} {text:?} is no number"))
}

fn bytes_of(what: &str, text: &str) -> Result<u64, String> {
    let sectors = number(what, text)?;
    sectors.checked_mul(SECTOR).ok_or_else(|| format!("the {what} {text} is beyond any drive"))
}

/// Flags are hexadecimal in DiskSim's own traces; bit 0 is that of the last digit either way.
fn flag_bits(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| format!("the flags {text:?} are no number"))
}

/// Milliseconds with a fraction, exact to the nanosecond; digits beyond that are cut.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let padded = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let rest = padded.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    whole.checked_mul(MILLISECOND)?.checked_add(rest)
}
