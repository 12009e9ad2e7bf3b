//! Seconds since 1970 as a date. In UTC: a report must not depend on where it is printed.
use extant_format::calendar::CalendarTime;
use serde::Serialize;
use std::fmt;

/// A point in time, in seconds since 1970. Prints as `2026-11-21 20:51:14 UTC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Date(pub u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX);
        let CalendarTime { year, month, day, hour, minute, second } = CalendarTime::of(seconds);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        // By `date -u -d @SECONDS`.
        let known = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_294_480, "2026-11-21 20:54:40 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (1_099_511_627_775, "36812-02-20 00:36:15 UTC"),
        ];
        for (seconds, text) in known {
            assert_eq!(Date(seconds).to_string(), text);
        }
    }
}
