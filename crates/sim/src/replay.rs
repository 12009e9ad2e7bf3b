//! A trace against a drive. A measured one in a closed loop: each request as long after the
//! simulated end of the one before as it came after the measured one. A recorded one at its times:
//! each request when it arrived, however long the others take.
mod paced;

pub use paced::{Beyond, Pace, Replayed, replay_requests};

use crate::drive::{Command, Drive, DriveInfo};
use crate::trace::TraceRecord;
use extant_block::Operation;

/// A line of the DiskSim validation set: a request, how long the drive took, and how long until the
/// next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceLine {
    /// Read or write.
    pub operation: Operation,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
    /// What the drive took, in nanoseconds.
    pub measured_ns: u64,
    /// From its end until the next request is issued, in nanoseconds.
    pub pause_ns: u64,
}

/// What is wrong with a trace: the line, counted from 1, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// Counted from 1.
    pub line: usize,
    /// Which column, and what is the matter with it.
    pub reason: String,
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for TraceError {}

/// The unit of the trace's sectors.
const SECTOR_BYTES: u64 = 512;
/// No request takes longer, and no pause is longer: 10^15 ns are eleven days.
const MOST_NS: u64 = 1_000_000_000_000_000;

/// Parses lines such as `R Hit 3962268 12 6657.0 64047.0`: read or write, a word to ignore, first
/// sector, sectors, microseconds that the drive took, microseconds until the next request. Empty
/// lines are skipped.
///
/// # Errors
/// The first line that is none, with the column that is wrong.
pub fn parse_validation_trace(text: &str) -> Result<Vec<TraceLine>, TraceError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            parse_line(line).map_err(|reason| TraceError { line: index + 1, reason })
        })
        .collect()
}

fn parse_line(line: &str) -> Result<TraceLine, String> {
    let mut words = line.split_whitespace();
    let mut next = |column: &str| words.next().ok_or_else(|| format!("{column}: is missing"));
    let operation = match next("operation")? {
        "R" | "r" => Operation::Read,
        "W" | "w" => Operation::Write,
        other => return Err(format!("operation: has to be R or W, not {other:?}")),
    };
    next("word")?;
    let sector = parse_number("first sector", next("first sector")?)?;
    let sectors = parse_number("sectors", next("sectors")?)?;
    let measured_ns = parse_microseconds("time", next("time")?)?;
    let pause_ns = parse_microseconds("pause", next("pause")?)?;
    if sectors == 0 || sectors > 1 << 24 {
        return Err(format!("sectors: has to lie within 1 and {}, not {sectors}", 1 << 24));
    }
    match words.next() {
        None => Ok(TraceLine { operation, sector, sectors, measured_ns, pause_ns }),
        Some(word) => Err(format!("has a word too many: {word:?}")),
    }
}

fn parse_number(column: &str, word: &str) -> Result<u64, String> {
    let number: u64 =
        word.parse().map_err(|_| format!("{column}: has to be a whole number, not {word:?}"))?;
    match number < 1 << 50 {
        true => Ok(number),
        false => Err(format!("{column}: {number} is too large")),
    }
}

/// Microseconds with a point, exact to the nanosecond; further digits are cut off.
fn parse_microseconds(column: &str, word: &str) -> Result<u64, String> {
    let wrong =
        || format!("{column}: has to be microseconds from 0 to {}, not {word:?}", MOST_NS / 1000);
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if !(whole.bytes().chain(fraction.bytes())).all(|digit| digit.is_ascii_digit())
        || whole.is_empty()
    {
        return Err(wrong());
    }
    let micros: u64 = whole.parse().map_err(|_| wrong())?;
    let thousandths = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    let nanos = thousandths.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let time = micros.checked_mul(1000).map(|time| time + nanos);
    time.filter(|time| *time <= MOST_NS).ok_or_else(wrong)
}

/// Replays the lines on a drive that is at rest. Answers the time that each took, in nanoseconds.
/// Requests past the drive's last sector are moved to end there; a longer one than the drive is cut
/// to its length.
pub fn replay(drive: &mut dyn Drive, lines: &[TraceLine]) -> Vec<u64> {
    let info = drive.info().clone();
    let (mut now, mut done) = (0, Vec::new());
    let mut times = Vec::with_capacity(lines.len());
    for (id, line) in lines.iter().enumerate() {
        let command = command_at(
            &info,
            id,
            line.operation,
            line.sector * SECTOR_BYTES,
            line.sectors * SECTOR_BYTES,
        );
        drive.submit(command, now);
        let ended = loop {
            let Some(event) = drive.next_event() else { break now };
            done.clear();
            drive.advance(event, &mut done);
            if let Some(answer) = done.iter().find(|answer| answer.id == command.id) {
                break answer.at;
            }
        };
        times.push(ended - now);
        now = ended + line.pause_ns;
    }
    times
}

/// A command of whole sectors within the drive, for bytes that may be neither.
fn command_at(
    info: &DriveInfo,
    id: usize,
    operation: Operation,
    offset: u64,
    bytes: u64,
) -> Command {
    let sector = u64::from(info.sector_bytes).max(1);
    let bytes = bytes.checked_next_multiple_of(sector).unwrap_or(info.bytes).min(info.bytes);
    let offset = offset.min(info.bytes - bytes);
    Command {
        id: id as u64,
        operation,
        offset: offset - offset % sector,
        bytes,
        force_unit_access: false,
    }
}

/// Replays records at the times at which they arrived (an open loop), on a drive that is at rest.
/// Answers the time from the arrival of each to its end, in nanoseconds. More than the drive takes
/// at a time wait in the order of their arrival: there is no elevator. What lies past the drive's
/// end is moved as in [`replay`]. `records` are in the order of their arrival.
pub fn replay_at_recorded_times(drive: &mut dyn Drive, records: &[TraceRecord]) -> Vec<u64> {
    let info = drive.info().clone();
    let depth = (info.queue_depth as usize).max(1);
    let mut times = vec![0; records.len()];
    let (mut next, mut inside, mut now, mut done) = (0, 0, 0u64, Vec::new());
    loop {
        let arrival = records.get(next).map(|record| record.arrival_ns.max(now));
        match (arrival.filter(|_| inside < depth), drive.next_event()) {
            // What ends at the time of an arrival ends first.
            (Some(arrival), event) if event.is_none_or(|event| arrival < event) => {
                now = arrival;
                let record = &records[next];
                drive.submit(
                    command_at(&info, next, record.operation, record.offset, record.bytes),
                    now,
                );
                (next, inside) = (next + 1, inside + 1);
            }
            (_, Some(event)) => {
                now = now.max(event);
                done.clear();
                drive.advance(event, &mut done);
                for answer in &done {
                    inside -= 1;
                    now = now.max(answer.at);
                    let number = answer.id as usize;
                    times[number] = answer.at - records[number].arrival_ns;
                }
            }
            (_, None) => return times,
        }
    }
}

/// The times as `score.py` reads them: milliseconds with six digits after the point, one a line.
pub fn in_milliseconds(times: &[u64]) -> String {
    let line = |time: &u64| format!("{}.{:06}\n", time / 1_000_000, time % 1_000_000);
    times.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::file::by_name;

    #[test]
    fn what_arrives_while_the_drive_is_busy_waits_in_order() {
        let spec = by_name("ide-2001-7200").expect("a preset");
        let read = |arrival_ns: u64, offset: u64| {
            TraceRecord::plain(Operation::Read, offset, 4096, [arrival_ns; 3])
        };
        let far = 20_000_000_000;
        let alone = replay_at_recorded_times(spec.build(1).as_mut(), &[read(0, far)]);
        let records =
            [read(0, far), read(1, 0), read(2, far), read(60_000_000_000, u64::MAX - 4095)];
        let times = replay_at_recorded_times(spec.build(1).as_mut(), &records);
        assert_eq!(times[0], alone[0]);
        // It takes one at a time: each waits for those before it, and the last came long after.
        assert!(times[1] > times[0] && times[2] > times[1], "{times:?}");
        assert!(times[3] < times[1], "{times:?}");
        assert!(replay_at_recorded_times(spec.build(1).as_mut(), &[]).is_empty());
    }
}
