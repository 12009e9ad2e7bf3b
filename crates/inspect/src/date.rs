//! Seconds since 1970 as a date. In UTC: a report must not depend on where it is printed.
use serde::Serialize;
use std::fmt;

/// A point in time, in seconds since 1970. Prints as `2026-11-21 20:51:14 UTC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Date(pub u64);

const DAY_SECONDS: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;
/// From 0000-03-01, where a year of this reckoning begins, to 1970-01-01.
const EPOCH_DAYS: u64 = 719_468;

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / DAY_SECONDS + EPOCH_DAYS, self.0 % DAY_SECONDS);
        let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
        // Years begin in March, so that the day that comes and goes is the last of one.
        let year_in_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_in_year = day - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
        let shifted_month = (5 * day_in_year + 2) / 153;
        let day_in_month = day_in_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_in_era + era * 400 + u64::from(month <= 2);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day_in_month:02} {hour:02}:{minute:02}:{:02} UTC",
            second % 60
        )
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
