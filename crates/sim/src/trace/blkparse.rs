//! What blkparse prints:
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//!   device cpu sequence   seconds       pid  action rwbs sector + sectors
//! ```
//! A request is a line Q (queued). Where a line D (dispatched) comes before the first Q, as in a
//! trace of dispatches only, lines D are the requests. The device is the volume. After the events
//! comes a summary, which ends the reading.
use super::columns::{number, placed, scaled};
use super::request::{Held, Request};
use extant_block::Operation;

const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;
/// Letters of actions, as blkparse(1) lists them.
const ACTIONS: [&[u8]; 18] = [
    b"A", b"B", b"C", b"D", b"F", b"G", b"I", b"M", b"P", b"Q", b"R", b"S", b"T", b"U", b"UT",
    b"X", b"m", b"m2",
];

/// Which lines are requests.
#[derive(Default)]
pub(super) struct Events {
    taken: Option<u8>,
}

/// The next word of a line, and the rest.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    line.split_at(end)
}

fn words<const N: usize>(line: &[u8]) -> ([&[u8]; N], &[u8]) {
    let mut rest = line;
    let found = std::array::from_fn(|_| {
        let (first, after) = word(rest);
        rest = after;
        first
    });
    (found, rest)
}

/// Whether a word is `MAJOR,MINOR`.
pub(super) fn is_device(text: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

/// Seconds with a fraction of at most nine digits.
fn nanoseconds(text: &[u8]) -> Result<u64, String> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let whole = scaled("time", &text[..point], SECOND_NS)?;
    let fraction = text.get(point + 1..).unwrap_or_default();
    if fraction.len() > 9 {
        return Err("time: has more than nine digits after the point".to_owned());
    }
    let mut parts = if fraction.is_empty() { 0 } else { number("time", fraction)? };
    for _ in fraction.len()..9 {
        parts *= 10;
    }
    whole.checked_add(parts).ok_or_else(|| "time: is too large".to_owned())
}

impl Events {
    /// Which lines were taken.
    pub(super) fn note(&self) -> Option<&'static str> {
        match self.taken? {
            b'Q' => Some("requests are as they were queued (Q)"),
            _ => Some(
                "requests are as they were dispatched (D): no line Q, of a request as it was \
                 queued, was before the first",
            ),
        }
    }

    pub(super) fn line<'a>(&mut self, line: &'a [u8]) -> Result<Held<'a>, String> {
        let ([device, _cpu, _sequence, time, _pid, action, kind], rest) = words::<7>(line);
        if device.is_empty() {
            return Ok(Held::Nothing);
        }
        if !is_device(device) {
            let is_summary = [&b"CPU"[..], b"Total", b"Throughput", b"Events", b"Skips", b"Input"]
                .iter()
                .any(|start| device.starts_with(start));
            return match is_summary {
                true => Ok(Held::End),
                false => Err("does not begin with a device such as 8,0".to_owned()),
            };
        }
        if !ACTIONS.contains(&action) {
            let shown = String::from_utf8_lossy(&action[..action.len().min(20)]);
            return Err(format!("action: {shown:?} is none that blkparse prints"));
        }
        let arrival_ns = nanoseconds(time)?;
        let (b"Q" | b"D", [letter]) = (action, action) else { return Ok(Held::Nothing) };
        if *self.taken.get_or_insert(*letter) != *letter {
            return Ok(Held::Nothing);
        }
        self.request(device, arrival_ns, kind, rest)
    }

    fn request<'a>(
        &self,
        device: &'a [u8],
        arrival_ns: u64,
        kind: &[u8],
        rest: &[u8],
    ) -> Result<Held<'a>, String> {
        let ([sector, plus, sectors], _) = words::<3>(rest);
        let is_placed = plus == b"+";
        let operation = match () {
            () if kind.contains(&b'D') => return Ok(Held::Other),
            () if kind.contains(&b'W') && is_placed => Operation::Write,
            () if kind.contains(&b'R') && is_placed => Operation::Read,
            () if kind.contains(&b'F') => {
                let (offset, bytes, measured_ns) = (0, 0, None);
                let operation = Operation::Flush;
                let request = Request { arrival_ns, operation, offset, bytes, measured_ns };
                return Ok(Held::Request(device, request));
            }
            // Of a transfer, a line that ends after the number of the sector was cut off.
            () if !sector.is_empty()
                && plus.is_empty()
                && sector.iter().all(u8::is_ascii_digit) =>
            {
                return Err("ends after the sector: the number of sectors is missing".to_owned());
            }
            // No transfer of blocks.
            () => return Ok(Held::Other),
        };
        let request = Request {
            arrival_ns,
            operation,
            offset: scaled("sector", sector, SECTOR)?,
            bytes: scaled("sectors", sectors, SECTOR)?,
            measured_ns: None,
        };
        placed(device, request)
    }
}
