//! Stem-and-leaf plots (Tukey): every value is a digit behind its row, so that a plot is the
//! distribution and the numbers at once.
//!
//! The form is that of the post of 2007, which drew it with R: rows of one or two tens of the
//! leaf's unit, a line that says where the decimal point is, and a count of what does not fit in a
//! row.
//!
//! ```text
//! The decimal point is 1 digit(s) to the left of the |
//!
//!  0 | 00000001122
//!  2 | 178
//! 28 | 1
//! ```

/// What a leaf counts, in the unit of the plot's header (seconds).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LeafUnit {
    nanoseconds: u64,
    /// How many digits the decimal point is to the left of the bar; to the right when negative.
    point_to_the_left: i32,
}

/// A stem-and-leaf plot of times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StemPlot {
    unit: LeafUnit,
    /// Leaf units of a row: 5, 10 or 20.
    row_leaves: u64,
    /// How many values fall on each leaf unit, from 0 on; row after row.
    rows: Vec<Vec<u64>>,
}

/// Rows of a plot, at most.
const ROWS_MAX: u64 = 25;
/// Leaves of a row, at most: what does not fit is counted behind them.
const LEAVES_MAX: u64 = 68;
/// A plot of times begins with leaves of a microsecond.
const LEAST_UNIT: LeafUnit = LeafUnit { nanoseconds: 1_000, point_to_the_left: 5 };

impl StemPlot {
    /// Of times in nanoseconds, each rounded to the nearest leaf; `None` of none. Rows are as
    /// narrow as fits in 25 of them.
    pub fn of_times(times: &[u64]) -> Option<StemPlot> {
        let longest = *times.iter().max()?;
        let (unit, row_leaves) = scale(longest);
        Some(StemPlot::filled(times, unit, row_leaves, 1, longest))
    }

    /// The same with rows of a given width: N leaves (a multiple of 10) of `10^-digits`
    /// seconds each, in at least as many rows as asked.
    pub fn in_rows(times: &[u64], digits: u32, row_leaves: u64, rows_min: usize) -> StemPlot {
        let digits = digits.min(9);
        let unit =
            LeafUnit { nanoseconds: 10u64.pow(9 - digits), point_to_the_left: digits as i32 - 1 };
        let longest = times.iter().copied().max().unwrap_or(0);
        // However long the longest is, a plot has no more rows than can be looked at: what is
        // longer is in the last.
        StemPlot::filled(
            times,
            unit,
            row_leaves.max(10),
            rows_min,
            unit.nanoseconds.saturating_mul(10_000).min(longest),
        )
    }

    fn filled(
        times: &[u64],
        unit: LeafUnit,
        row_leaves: u64,
        rows_min: usize,
        longest: u64,
    ) -> StemPlot {
        let leaf =
            |time: u64| time.min(longest).saturating_add(unit.nanoseconds / 2) / unit.nanoseconds;
        let count = (leaf(longest) / row_leaves + 1).max(rows_min as u64);
        let mut rows = vec![vec![0; row_leaves as usize]; count as usize];
        for time in times {
            let at = leaf(*time);
            rows[(at / row_leaves) as usize][(at % row_leaves) as usize] += 1;
        }
        StemPlot { unit, row_leaves, rows }
    }

    /// The rows as they are printed, without their header.
    pub fn lines(&self) -> Vec<String> {
        let last = self.rows.len().saturating_sub(1);
        let width = self.stem(last).to_string().len();
        let rows = self.rows.iter().enumerate();
        let line = |(number, row): (usize, &Vec<u64>)| {
            let line = format!("{:>width$} | {}", self.stem(number), leaves(row));
            line.trim_end().to_owned()
        };
        rows.map(line).collect()
    }

    /// "The decimal point is 1 digit(s) to the left of the |".
    pub fn header(&self) -> String {
        let point = match self.unit.point_to_the_left {
            0 => "at the |".to_owned(),
            digits if digits > 0 => format!("{digits} digit(s) to the left of the |"),
            digits => format!("{} digit(s) to the right of the |", -digits),
        };
        format!("The decimal point is {point}")
    }

    /// What the first number of each row is, and how many values the row has.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let rows = self.rows.iter().enumerate();
        rows.map(|(number, row)| (self.stem(number), row.iter().sum()))
    }

    /// The time at which a row begins, in nanoseconds.
    pub fn row_begin_ns(&self, row: usize) -> u64 {
        self.row_leaves.saturating_mul(row as u64).saturating_mul(self.unit.nanoseconds)
    }

    /// Header and rows, each ending its line.
    pub fn render(&self) -> String {
        let mut text = format!("{}\n\n", self.header());
        for line in self.lines() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn stem(&self, row: usize) -> u64 {
        row as u64 * self.row_leaves / 10
    }
}

/// The finest unit and the narrowest rows that give few enough of these.
fn scale(longest: u64) -> (LeafUnit, u64) {
    let mut unit = LEAST_UNIT;
    loop {
        for row_leaves in [5, 10, 20] {
            let last = longest.saturating_add(unit.nanoseconds / 2) / unit.nanoseconds;
            if last / row_leaves < ROWS_MAX {
                return (unit, row_leaves);
            }
        }
        // Never beyond 10^19 nanoseconds: the largest time has few leaves long before.
        unit = LeafUnit {
            nanoseconds: unit.nanoseconds.saturating_mul(10),
            point_to_the_left: unit.point_to_the_left - 1,
        };
    }
}

/// The last digit of each value, rising; behind those that fit, how many more there are.
fn leaves(row: &[u64]) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for (leaf, count) in row.iter().enumerate() {
        let digit = char::from(b'0' + (leaf % 10) as u8);
        let fits = (*count).min(LEAVES_MAX - shown);
        text.extend(std::iter::repeat_n(digit, fits as usize));
        shown += fits;
    }
    let all: u64 = row.iter().sum();
    if all > shown {
        text.push_str(&format!("+{}", all - shown));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_rows_of_the_post_come_out_as_it_shows_them() {
        // 2.6.20: from its rows 2 and 14 to 28, and many short ones.
        let mut times = vec![2 * MS; 1805];
        times.extend(
            [
                210, 270, 270, 280, 290, 1410, 1650, 1830, 1890, 1890, 2030, 2120, 2280, 2300,
                2620, 2810,
            ]
            .map(|ms| ms * MS),
        );
        let plot = StemPlot::of_times(&times).expect("there are times");
        let text = plot.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "The decimal point is 1 digit(s) to the left of the |");
        assert_eq!(lines[2], format!(" 0 | {}+1737", "0".repeat(68)));
        assert_eq!(lines[3], " 2 | 17789");
        assert_eq!(lines[4], " 4 |");
        assert_eq!(
            &lines[9..],
            ["14 | 1", "16 | 5", "18 | 399", "20 | 32", "22 | 80", "24 |", "26 | 2", "28 | 1"]
        );
        assert_eq!(plot.rows().next(), Some((0, 1805)));
        assert_eq!(plot.row_begin_ns(1), 200 * MS);
    }

    #[test]
    fn short_times_have_finer_rows() {
        // 2.6.23-mm: up to 1.39 s in rows of a tenth.
        let times: Vec<u64> = [0, 5, 120, 230, 1390].map(|ms| ms * MS).into();
        let plot = StemPlot::of_times(&times).expect("there are times");
        let rows: Vec<(u64, u64)> = plot.rows().collect();
        assert_eq!(
            (rows.len(), rows[0], rows[1], rows[2], rows[13]),
            (14, (0, 2), (1, 1), (2, 1), (13, 1))
        );
        let text = StemPlot::of_times(&[7 * MS, 12 * MS]).expect("there are times").render();
        assert!(text.starts_with("The decimal point is 3 digit(s) to the left of the |"), "{text}");
    }

    #[test]
    fn nothing_and_the_longest_time_are_no_trouble() {
        assert_eq!(StemPlot::of_times(&[]), None);
        for time in [0, 1, 999, u64::MAX / 2, u64::MAX] {
            let plot = StemPlot::of_times(&[time, 0]).expect("there are times");
            assert!(
                plot.rows().count() <= 25 && plot.rows().map(|(_, count)| count).sum::<u64>() == 2,
                "{time}"
            );
        }
    }
}
