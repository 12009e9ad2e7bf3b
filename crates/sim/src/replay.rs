//! A trace against a drive. A measured one in a closed loop: each request as long after the
//! simulated end of the one before as it came after the measured one. A recorded one at its times:
//! each request when it arrived, however long the others take.
mod paced;

pub use paced::{Answered, Pace, Replayed, replay_requests};

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

/// What becomes of requests beyond the end of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Beyond {
    /// They are moved to end at the drive's end.
    #[default]
    Moved,
    /// Their places are folded into the drive: the remainder by its size.
    Wrapped,
}

/// Requests of a trace that the drive cannot do as they are, and that were changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    /// They lie beyond the drive's end: moved, or folded into it.
    pub beyond: u64,
    /// They are longer than the drive: cut.
    pub cut: u64,
    /// They begin or end within a sector of the drive: they became all sectors that they touch.
    pub widened: u64,
}

/// What a replay from memory gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timed {
    /// How long each request took, in nanoseconds, in the order of the trace.
    pub times_ns: Vec<u64>,
    /// What had to be changed of them.
    pub changed: Changed,
}

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

/// Replays the lines on a drive that is at rest. Answers the time that each took, and what was
/// changed of them: `beyond` says what becomes of those past the drive's last sector; a longer one
/// than the drive is cut to its length.
pub fn replay(drive: &mut dyn Drive, lines: &[TraceLine], beyond: Beyond) -> Timed {
    let mut fit = Fit { info: drive.info().clone(), beyond, changed: Changed::default() };
    let (mut now, mut done) = (0, Vec::new());
    let mut times = Vec::with_capacity(lines.len());
    for (id, line) in lines.iter().enumerate() {
        let (offset, bytes) = (line.sector * SECTOR_BYTES, line.sectors * SECTOR_BYTES);
        let command = fit.command(id as u64, line.operation, offset, bytes);
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
    Timed { times_ns: times, changed: fit.changed }
}

/// Makes commands that a drive can do, and counts what it changes.
struct Fit {
    info: DriveInfo,
    beyond: Beyond,
    changed: Changed,
}

impl Fit {
    /// A command of whole sectors within the drive, for bytes that may be neither.
    fn command(&mut self, id: u64, operation: Operation, offset: u64, bytes: u64) -> Command {
        let (offset, bytes) = match operation {
            Operation::Flush => (0, 0),
            Operation::Read | Operation::Write => self.place(offset, bytes),
        };
        Command { id, operation, offset, bytes, force_unit_access: false }
    }

    fn place(&mut self, offset: u64, bytes: u64) -> (u64, u64) {
        let (size, sector) = (self.info.bytes, u64::from(self.info.sector_bytes).max(1));
        let start = offset - offset % sector;
        let end = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(sector));
        let whole = end.map_or(bytes, |end| end - start);
        if whole > size {
            self.changed.cut += 1;
        } else if (start, whole) != (offset, bytes) {
            self.changed.widened += 1;
        }
        let whole = whole.min(size) / sector * sector;
        let last = size - whole;
        if start <= last {
            return (start, whole);
        }
        self.changed.beyond += 1;
        let place = match self.beyond {
            Beyond::Moved => last,
            Beyond::Wrapped => (start % size.max(1)).min(last),
        };
        (place - place % sector, whole)
    }
}

/// Replays records at the times at which they arrived (an open loop), on a drive that is at rest.
/// Answers the time from the arrival of each to its end, and what was changed as in [`replay`].
/// More than the drive takes at a time wait in the order of their arrival: there is no elevator.
/// `records` are in the order of their arrival.
pub fn replay_at_recorded_times(
    drive: &mut dyn Drive,
    records: &[TraceRecord],
    beyond: Beyond,
) -> Timed {
    let mut fit = Fit { info: drive.info().clone(), beyond, changed: Changed::default() };
    let depth = (fit.info.queue_depth as usize).max(1);
    let mut times = vec![0; records.len()];
    let (mut next, mut inside, mut now, mut done) = (0, 0, 0u64, Vec::new());
    loop {
        let arrival = records.get(next).map(|record| record.arrival_ns.max(now));
        match (arrival.filter(|_| inside < depth), drive.next_event()) {
            // What ends at the time of an arrival ends first.
            (Some(arrival), event) if event.is_none_or(|event| arrival < event) => {
                now = arrival;
                let record = &records[next];
                let (operation, offset, bytes) = (record.operation, record.offset, record.bytes);
                drive.submit(fit.command(next as u64, operation, offset, bytes), now);
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
            (_, None) => return Timed { times_ns: times, changed: fit.changed },
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
        let replayed = |records: &[TraceRecord]| {
            replay_at_recorded_times(spec.build(1).as_mut(), records, Beyond::Moved)
        };
        let alone = replayed(&[read(0, far)]).times_ns;
        let records =
            [read(0, far), read(1, 0), read(2, far), read(60_000_000_000, u64::MAX - 4095)];
        let Timed { times_ns: times, changed } = replayed(&records);
        assert_eq!(changed, Changed { beyond: 1, cut: 0, widened: 0 });
        assert_eq!(times[0], alone[0]);
        // It takes one at a time: each waits for those before it, and the last came long after.
        assert!(times[1] > times[0] && times[2] > times[1], "{times:?}");
        assert!(times[3] < times[1], "{times:?}");
        assert!(replayed(&[]).times_ns.is_empty());
    }

    #[test]
    fn parts_of_sectors_become_all_sectors_that_they_touch() {
        let info = by_name("ssd-sata").expect("a preset").build(1).info().clone();
        let info = DriveInfo { sector_bytes: 4096, ..info };
        let mut fit = Fit { info, beyond: Beyond::Moved, changed: Changed::default() };
        assert_eq!(fit.place(4096, 8192), (4096, 8192));
        assert_eq!(fit.changed, Changed::default());
        assert_eq!(fit.place(512, 4096), (0, 8192));
        assert_eq!(fit.place(4096, 512), (4096, 4096));
        assert_eq!(fit.changed, Changed { widened: 2, ..Changed::default() });
        let (offset, bytes) = fit.place(u64::MAX - 5, u64::MAX);
        assert_eq!((offset, bytes), (0, fit.info.bytes));
        assert_eq!(fit.changed, Changed { widened: 2, cut: 1, beyond: 1 });
    }
}
