//! What a drive did over time, in bounded memory: for seek plots and curves.
//!
//! Commands are counted in fields of time and place, requests and bytes in intervals of time. When
//! a command comes later than the last interval, neighbours are added up and intervals become twice
//! as long; the same with places. So a recorder never holds more than [`INTERVALS`] × [`ROWS`]
//! fields, has at least half of each in use on a long run, and depends on nothing but the commands.
use crate::drive::Done;
use crate::queue::Command;
use extant_block::Operation;

/// The most intervals of time.
pub const INTERVALS: usize = 512;
/// The most rows of places.
pub const ROWS: usize = 192;
/// How long an interval is at first: 2^18 ns, a quarter of a millisecond.
const FIRST_INTERVAL_NS: u64 = 1 << 18;
/// How much a row spans at first.
const FIRST_ROW_BYTES: u64 = 1 << 16;

/// What happened in an interval of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Bytes of commands to read that ended in it.
    pub bytes_read: u64,
    /// Bytes of commands to write that ended in it.
    pub bytes_written: u64,
    /// Commands that ended in it.
    pub commands: u64,
    /// Commands sent in it that began elsewhere than the one before had ended.
    pub seeks: u64,
    /// Requests that arrived in it.
    pub arrivals: u64,
    /// How many were before each of them, added up.
    pub depth_sum: u64,
    /// The most that were before one.
    pub depth_max: u64,
}

impl Interval {
    fn and(&self, other: &Interval) -> Interval {
        Interval {
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            commands: self.commands + other.commands,
            seeks: self.seeks + other.seeks,
            arrivals: self.arrivals + other.arrivals,
            depth_sum: self.depth_sum.saturating_add(other.depth_sum),
            depth_max: self.depth_max.max(other.depth_max),
        }
    }
}

/// A field of time and place in which commands ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Number of its interval.
    pub interval: u16,
    /// Number of its row: places from `row * row_bytes`.
    pub row: u16,
    /// Commands to read that began there.
    pub reads: u32,
    /// Commands to write that began there.
    pub writes: u32,
}

/// What a drive did, interval by interval.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// How long an interval is.
    pub interval_ns: u64,
    /// From time 0 to the last in which anything happened.
    pub intervals: Vec<Interval>,
    /// What a row spans.
    pub row_bytes: u64,
    /// Fields that are not empty, by interval and row.
    pub fields: Vec<Field>,
}

/// Records it.
#[derive(Debug)]
pub(super) struct Timeline {
    interval_ns: u64,
    row_bytes: u64,
    intervals: Vec<Interval>,
    /// Reads and writes of each field, an interval after the other; empty before the first command.
    fields: Vec<[u32; 2]>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            interval_ns: FIRST_INTERVAL_NS,
            row_bytes: FIRST_ROW_BYTES,
            intervals: Vec::new(),
            fields: Vec::new(),
        }
    }
}

impl Timeline {
    /// A request arrived where this many others were.
    pub(super) fn count_depth(&mut self, depth: u64, now: u64) {
        let interval = self.interval(now);
        interval.arrivals += 1;
        interval.depth_sum = interval.depth_sum.saturating_add(depth);
        interval.depth_max = interval.depth_max.max(depth);
    }

    /// A command is sent while the head stands at `head`.
    pub(super) fn count_seek(&mut self, command: &Command, head: u64, now: u64) {
        if command.operation != Operation::Flush && command.offset != head {
            self.interval(now).seeks += 1;
        }
    }

    /// The drive answered a command.
    pub(super) fn count_command(&mut self, command: &Command, answer: &Done) {
        let interval = self.interval(answer.at);
        interval.commands += 1;
        match command.operation {
            Operation::Read => interval.bytes_read += command.bytes,
            Operation::Write => interval.bytes_written += command.bytes,
            Operation::Flush => return,
        }
        let column = (answer.at / self.interval_ns) as usize;
        let row = self.row(command.offset);
        if self.fields.is_empty() {
            self.fields = vec![[0; 2]; INTERVALS * ROWS];
        }
        let count = &mut self.fields[column * ROWS + row]
            [usize::from(command.operation == Operation::Write)];
        *count = count.saturating_add(1);
    }

    /// The interval of a time, which has room after this.
    fn interval(&mut self, now: u64) -> &mut Interval {
        while now / self.interval_ns >= INTERVALS as u64 {
            self.lengthen();
        }
        let at = (now / self.interval_ns) as usize;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, Interval::default());
        }
        &mut self.intervals[at]
    }

    /// The row of a place, which has room after this.
    fn row(&mut self, offset: u64) -> usize {
        while offset / self.row_bytes >= ROWS as u64 {
            self.widen();
        }
        (offset / self.row_bytes) as usize
    }

    fn lengthen(&mut self) {
        self.interval_ns *= 2;
        let halved = self
            .intervals
            .chunks(2)
            .map(|pair| pair[1..].iter().fold(pair[0], |sum, one| sum.and(one)));
        self.intervals = halved.collect();
        for at in 0..self.fields.len() {
            let (column, row) = (at / ROWS, at % ROWS);
            let sum = match column < INTERVALS / 2 {
                true => add(
                    self.fields[2 * column * ROWS + row],
                    self.fields[(2 * column + 1) * ROWS + row],
                ),
                false => [0; 2],
            };
            self.fields[at] = sum;
        }
    }

    fn widen(&mut self) {
        self.row_bytes *= 2;
        for column in self.fields.chunks_mut(ROWS) {
            for row in 0..ROWS {
                column[row] = match row < ROWS / 2 {
                    true => add(column[2 * row], column[2 * row + 1]),
                    false => [0; 2],
                };
            }
        }
    }

    /// All of it.
    pub(super) fn activity(&self) -> Activity {
        let filled = self.fields.iter().enumerate().filter(|(_, counts)| **counts != [0; 2]);
        let field = |(at, [reads, writes]): (usize, &[u32; 2])| Field {
            interval: (at / ROWS) as u16,
            row: (at % ROWS) as u16,
            reads: *reads,
            writes: *writes,
        };
        Activity {
            interval_ns: self.interval_ns,
            intervals: self.intervals.clone(),
            row_bytes: self.row_bytes,
            fields: filled.map(field).collect(),
        }
    }
}

fn add(one: [u32; 2], other: [u32; 2]) -> [u32; 2] {
    [one[0].saturating_add(other[0]), one[1].saturating_add(other[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Parts;
    use extant_block::Urgency;

    fn command(operation: Operation, offset: u64, bytes: u64) -> Command {
        Command {
            id: 0,
            operation,
            offset,
            bytes,
            urgency: Urgency::Awaited,
            stream: 0,
            parts: Vec::new(),
        }
    }

    fn done(at: u64) -> Done {
        Done { id: 0, at, parts: Parts::default(), hit: false }
    }

    #[test]
    fn however_long_and_wide_a_run_is_nothing_is_lost_and_memory_is_bounded() {
        let mut timeline = Timeline::default();
        let mut expected = (0u64, 0u64);
        for step in 0..20_000u64 {
            // Times and places grow by powers: up to centuries, and to the last byte.
            let at = 1u64 << (step % 60) | step;
            let offset = u64::MAX >> (step % 60);
            let operation = if step % 3 == 0 { Operation::Write } else { Operation::Read };
            timeline.count_depth(step % 7, at);
            timeline.count_seek(&command(operation, offset, 8), 0, at);
            timeline.count_command(&command(operation, offset, 8), &done(at));
            match operation {
                Operation::Write => expected.1 += 1,
                _ => expected.0 += 1,
            }
        }
        let activity = timeline.activity();
        let sum = |of: fn(&Field) -> u32| {
            activity.fields.iter().map(|field| u64::from(of(field))).sum::<u64>()
        };
        assert_eq!((sum(|field| field.reads), sum(|field| field.writes)), expected);
        let total = |of: fn(&Interval) -> u64| activity.intervals.iter().map(of).sum::<u64>();
        assert_eq!(total(|interval| interval.bytes_read), expected.0 * 8);
        assert_eq!(total(|interval| interval.bytes_written), expected.1 * 8);
        assert_eq!(total(|interval| interval.arrivals), 20_000);
        assert_eq!(
            total(|interval| interval.depth_sum),
            (0..20_000u64).map(|step| step % 7).sum::<u64>()
        );
        assert!(activity.intervals.len() <= INTERVALS && timeline.fields.len() == INTERVALS * ROWS);
        assert!(activity.fields.iter().all(|field| usize::from(field.row) < ROWS));
    }

    #[test]
    fn a_command_lies_in_the_field_of_its_end_and_place() {
        let mut timeline = Timeline::default();
        let last = FIRST_INTERVAL_NS * INTERVALS as u64;
        timeline.count_command(
            &command(Operation::Read, 3 * FIRST_ROW_BYTES, 512),
            &done(5 * FIRST_INTERVAL_NS),
        );
        timeline.count_command(&command(Operation::Write, 0, 512), &done(last));
        let activity = timeline.activity();
        assert_eq!(activity.interval_ns, 2 * FIRST_INTERVAL_NS);
        let fields: Vec<_> = activity
            .fields
            .iter()
            .map(|field| (field.interval, field.row, field.reads, field.writes))
            .collect();
        assert_eq!(fields, [(2, 3, 1, 0), (INTERVALS as u16 / 2, 0, 0, 1)]);
    }
}
