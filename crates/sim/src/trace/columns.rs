//! Traces as columns between commas.
//!
//! ```text
//! msr      Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//!          128166372003061629,hm,0,Read,383496192,32768,413
//! alibaba  device_id,opcode,offset,length,timestamp
//!          419,W,8792731648,16384,1577808144360767
//! tencent  Timestamp,Offset,Size,IOType,VolumeID
//!          1538323200,12910952,128,0,1063
//! ```
//! The first line may be a head of names.
use super::request::{Held, Request};
use extant_block::Operation;

/// Unit of places in Tencent's traces.
const SECTOR: u64 = 512;
/// A filetime is a tenth of a microsecond.
const FILETIME_NS: u64 = 100;
const MICROSECOND_NS: u64 = 1000;
const SECOND_NS: u64 = 1_000_000_000;

/// The columns of a line, when there are as many as wanted.
fn fields<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], String> {
    let mut found: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for field in line.split(|byte| *byte == b',') {
        if let Some(place) = found.get_mut(count) {
            *place = field.trim_ascii();
        }
        count += 1;
    }
    match count == N {
        true => Ok(found),
        false => Err(format!("has {count} columns, not {N}")),
    }
}

/// Whether a line is empty, or the names of columns.
fn is_head(line: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'"';
    line.is_empty() || (is_name(&line[0]) && !line[1..].is_empty() && line[1].is_ascii_alphabetic())
}

/// A whole number of at most 64 bits.
pub(super) fn number(column: &str, text: &[u8]) -> Result<u64, String> {
    let wrong = || {
        let shown = String::from_utf8_lossy(&text[..text.len().min(40)]);
        format!("{column}: {shown:?} is no whole number below 2^64")
    };
    if text.is_empty() {
        return Err(wrong());
    }
    let mut value = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(wrong());
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit.into()))
            .ok_or_else(wrong)?;
    }
    Ok(value)
}

/// A number of units as one of the base unit.
pub(super) fn scaled(column: &str, text: &[u8], unit: u64) -> Result<u64, String> {
    let value = number(column, text)?;
    value.checked_mul(unit).ok_or_else(|| format!("{column}: {value} is too large"))
}

/// A request of these bytes, if it has any and they are a place on some drive.
pub(super) fn placed<'a>(volume: &'a [u8], request: Request) -> Result<Held<'a>, String> {
    if request.bytes == 0 {
        return Ok(Held::Other);
    }
    match request.offset.checked_add(request.bytes).is_some_and(|end| end < 1 << 63) {
        true => Ok(Held::Request(volume, request)),
        false => Err(format!("byte {} is beyond any drive", request.offset)),
    }
}

fn unknown(column: &str, text: &[u8], known: &str) -> String {
    let shown = String::from_utf8_lossy(&text[..text.len().min(40)]);
    format!("{column}: has to be {known}, not {shown:?}")
}

pub(super) fn msr(line: &[u8]) -> Result<Held<'_>, String> {
    if is_head(line) {
        return Ok(Held::Nothing);
    }
    let [time, host, disk, kind, offset, size, response] = fields::<7>(line)?;
    let operation = match kind {
        kind if kind.eq_ignore_ascii_case(b"read") => Operation::Read,
        kind if kind.eq_ignore_ascii_case(b"write") => Operation::Write,
        other => return Err(unknown("Type", other, "Read or Write")),
    };
    number("DiskNumber", disk)?;
    // Host and disk are neighbours in the line, with a comma between: together they name a volume.
    let start = time.len() + 1;
    let volume = line.get(start..start + host.len() + 1 + disk.len()).unwrap_or(host);
    let request = Request {
        arrival_ns: scaled("Timestamp", time, FILETIME_NS)?,
        operation,
        offset: number("Offset", offset)?,
        bytes: number("Size", size)?,
        measured_ns: Some(scaled("ResponseTime", response, FILETIME_NS)?),
    };
    placed(volume, request)
}

pub(super) fn alibaba(line: &[u8]) -> Result<Held<'_>, String> {
    if is_head(line) {
        return Ok(Held::Nothing);
    }
    let [device, kind, offset, length, time] = fields::<5>(line)?;
    let operation = match kind {
        b"R" => Operation::Read,
        b"W" => Operation::Write,
        other => return Err(unknown("opcode", other, "R or W")),
    };
    number("device_id", device)?;
    let request = Request {
        arrival_ns: scaled("timestamp", time, MICROSECOND_NS)?,
        operation,
        offset: number("offset", offset)?,
        bytes: number("length", length)?,
        measured_ns: None,
    };
    placed(device, request)
}

pub(super) fn tencent(line: &[u8]) -> Result<Held<'_>, String> {
    if is_head(line) {
        return Ok(Held::Nothing);
    }
    let [time, offset, size, kind, volume] = fields::<5>(line)?;
    let operation = match kind {
        b"0" => Operation::Read,
        b"1" => Operation::Write,
        other => return Err(unknown("IOType", other, "0 or 1")),
    };
    number("VolumeID", volume)?;
    let request = Request {
        arrival_ns: scaled("Timestamp", time, SECOND_NS)?,
        operation,
        offset: scaled("Offset", offset, SECTOR)?,
        bytes: scaled("Size", size, SECTOR)?,
        measured_ns: None,
    };
    placed(volume, request)
}
