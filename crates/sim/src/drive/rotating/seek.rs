//! How long the arm takes: a data sheet's or a measurement's curve, made into a table of whole
//! nanoseconds when a drive is built.
//!
//! The forms: a measured table, linear in between; Ruemmler and Wilkes, "An introduction to disk
//! drive modeling", 1994 (a root, then a line); and Lee's three numbers of a data sheet (Lee and
//! Katz 1991), which keep minimum, mean and maximum over random pairs of cylinders.
use crate::drive::section::{FileError, Section};
use serde::Serialize;

/// No arm takes longer.
const LONGEST_MS: i64 = 1_000;
/// Picoseconds in a millisecond: what curves are computed in.
const DIGITS: u32 = 9;

/// A seek curve as its file gives it; times in picoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Seek {
    /// Measured distances in rising order.
    Table {
        /// Cylinders and time; linear in between, level before the first and after the last.
        points: Vec<(u32, u64)>,
    },
    /// Ruemmler and Wilkes: `a + b sqrt(d)` below `limit`, `c + e d` from there on.
    Hpl {
        /// The first distances where the line holds.
        limit: u32,
        /// See above.
        a: i64,
        /// See above.
        b: i64,
        /// See above.
        c: i64,
        /// See above.
        e: i64,
        /// Measured times of the first distances, which override the curve.
        first_ten: Vec<u64>,
    },
    /// A data sheet's three numbers.
    Lee {
        /// One cylinder.
        min: u64,
        /// Over random pairs of cylinders.
        avg: u64,
        /// All cylinders.
        max: u64,
    },
}

impl Seek {
    /// Reads a `[seek]` table of a drive of this many cylinders. An invalid curve is refused with
    /// the reason.
    pub(super) fn read(section: &mut Section<'_>, cylinders: u32) -> Result<Seek, FileError> {
        let seek = match section.optional_text("kind")? {
            Some("table") => read_table(section, cylinders)?,
            Some("hpl") => read_hpl(section)?,
            Some("lee") => read_lee(section, cylinders)?,
            Some(other) => {
                let reason = format!("no such curve as {other:?}; there are table, hpl and lee");
                return Err(section.error("kind", reason));
            }
            None => return Err(section.error("kind", "is missing")),
        };
        // Lee's curve rises from min to max.
        let unknown = if matches!(seek, Seek::Lee { .. }) { 1..1 } else { 1..cylinders };
        let bad = unknown.into_iter().find(|distance| {
            let time = seek.picoseconds(*distance, cylinders);
            time < 0 || time > i128::from(LONGEST_MS) * 1_000_000_000
        });
        match bad {
            Some(distance) => {
                let time = seek.picoseconds(distance, cylinders) / 1_000_000;
                let reason = format!(
                    "the curve gives {time} us for {distance} cylinders; has to lie within 0 and 1 \
                     s"
                );
                Err(section.error("kind", reason))
            }
            None => Ok(seek),
        }
    }

    /// The table: nanoseconds by distance. As long as there are cylinders; the first entry is 0.
    pub fn table(&self, cylinders: u32) -> Vec<u32> {
        let nanoseconds =
            |distance| u32::try_from(self.picoseconds(distance, cylinders) / 1000).unwrap_or(0);
        (0..cylinders.max(1)).map(nanoseconds).collect()
    }

    fn picoseconds(&self, distance: u32, cylinders: u32) -> i128 {
        if distance == 0 {
            return 0;
        }
        match self {
            Seek::Table { points } => between(points, distance),
            Seek::Hpl { limit, a, b, c, e, first_ten } => {
                match first_ten.get(distance as usize - 1) {
                    Some(time) => i128::from(*time),
                    None if distance < *limit => {
                        i128::from(*a) + i128::from(*b) * root(distance) / ROOT_UNIT
                    }
                    None => i128::from(*c) + i128::from(*e) * i128::from(distance),
                }
            }
            Seek::Lee { min, avg, max } => lee(distance, cylinders, (*min, *avg, *max)),
        }
    }
}

/// What [`root`] answers for 1.
const ROOT_UNIT: i128 = 1 << 20;

/// The root in units of 2^-20. Distances have 22 bits at most.
fn root(of: u32) -> i128 {
    i128::from((u64::from(of) << 40).isqrt())
}

fn between(points: &[(u32, u64)], distance: u32) -> i128 {
    let next = points.partition_point(|(at, _)| *at < distance);
    let (Some(before), Some(after)) =
        (points.get(next.saturating_sub(1)), points.get(next).or(points.last()))
    else {
        return 0;
    };
    let (from, to) = (i128::from(before.1), i128::from(after.1));
    if next == 0 || after.0 <= before.0 {
        return to;
    }
    from + (to - from) * i128::from(distance - before.0) / i128::from(after.0 - before.0)
}

/// The two sums under the formula of `../drives/README.md`: three times a, and three times b,
/// without the powers of n.
fn lee_sums((min, avg, max): (u64, u64, u64)) -> (i128, i128) {
    let (min, avg, max) = (i128::from(min), i128::from(avg), i128::from(max));
    (-10 * min + 15 * avg - 5 * max, 7 * min - 15 * avg + 8 * max)
}

fn lee(distance: u32, cylinders: u32, sheet: (u64, u64, u64)) -> i128 {
    let (a, b) = lee_sums(sheet);
    let way = distance - 1;
    let cylinders = cylinders.max(1);
    a * root(way) / (3 * root(cylinders))
        + b * i128::from(way) / (3 * i128::from(cylinders))
        + i128::from(sheet.0)
}

fn read_table(section: &mut Section<'_>, cylinders: u32) -> Result<Seek, FileError> {
    let mut points: Vec<(u32, u64)> = Vec::new();
    for (at, distance, time) in section.pairs("points", (0, DIGITS))? {
        let (Ok(distance), Ok(time)) = (u32::try_from(distance), u64::try_from(time)) else {
            return Err(section.error_at(at, "points", "distances and times are not negative"));
        };
        if points.last().is_some_and(|(last, _)| *last >= distance) || distance == 0 {
            return Err(section.error_at(at, "points", "distances start at 1 and rise"));
        }
        points.push((distance, time));
    }
    match unlike_an_arm(&points, cylinders) {
        Some(reason) => Err(section.error("points", reason)),
        None => Ok(Seek::Table { points }),
    }
}

/// Why these points are no curve of an arm. Measured tables have dents of all sizes, which are
/// none of our business; but the farthest seek takes about as long as any, and what lies beyond the
/// last point is level, which far from the end of the curve is a guess that nobody asked for.
fn unlike_an_arm(points: &[(u32, u64)], cylinders: u32) -> Option<String> {
    let ([_, .., (farthest, last)], Some(longest)) =
        (points, points.iter().map(|(_, time)| *time).max())
    else {
        return Some("has to hold two pairs at least".to_owned());
    };
    if u128::from(*last) * 10 < u128::from(longest) * 9 {
        let (last, longest) = (last / 1_000_000, longest / 1_000_000);
        return Some(format!(
            "the curve falls: the farthest seek takes {last} us, a nearer one {longest} us"
        ));
    }
    let least = cylinders / 3;
    (*farthest < least).then(|| {
        format!(
            "ends at {farthest} cylinders; has to reach {least}, a third of the drive's {cylinders}"
        )
    })
}

fn read_hpl(section: &mut Section<'_>) -> Result<Seek, FileError> {
    let most = LONGEST_MS * 1_000_000_000;
    let mut number = |key: &str| section.decimal_within(key, DIGITS, -most..=most, None);
    let (a, b, c, e) = (number("a")?, number("b")?, number("c")?, number("e")?);
    let limit = section.whole_within("limit", 0..=u64::from(u32::MAX), None)?;
    let first_ten = section.optional_numbers("first_ten", DIGITS)?.unwrap_or_default();
    let first_ten: Result<Vec<u64>, _> = first_ten.into_iter().map(u64::try_from).collect();
    let Ok(first_ten) = first_ten else {
        return Err(section.error("first_ten", "times are not negative"));
    };
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Ok(Seek::Hpl { limit, a, b, c, e, first_ten })
}

fn read_lee(section: &mut Section<'_>, cylinders: u32) -> Result<Seek, FileError> {
    let most = LONGEST_MS * 1_000_000_000;
    let mut number =
        |key: &str| section.decimal_within(key, DIGITS, 0..=most, None).map(i64::unsigned_abs);
    let sheet = (number("min")?, number("avg")?, number("max")?);
    if sheet.0 > sheet.1 || sheet.1 > sheet.2 {
        return Err(section.error("avg", "has to lie within min and max"));
    }
    let (a, b) = lee_sums(sheet);
    if a < 0 {
        let reason = "the curve of these three is not valid: a = (-10 min + 15 avg - 5 max) / (3 \
            sqrt n) is negative";
        return Err(section.error("avg", reason));
    }
    // The slope at the far end is a / (2 sqrt n) + b, over n: with a longest seek that is hardly
    // longer than the mean one the curve falls.
    if cylinders > 1 && a + 2 * b < 0 {
        return Err(section.error(
            "max",
            "the curve of these three is not valid: long seeks get shorter with the distance",
        ));
    }
    Ok(Seek::Lee { min: sheet.0, avg: sheet.1, max: sheet.2 })
}
