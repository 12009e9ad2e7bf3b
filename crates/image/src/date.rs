//! Seconds since 1970 as a date, before 1970 too, in UTC: what is printed must not depend on where.
use extant_format::inode::Time;

const DAY_SECONDS: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// From 0000-03-01, where a year of this reckoning begins, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// How fine a time is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// `2026-11-21 20:51`
    Minute,
    /// `2026-11-21 20:51:14.123456789 +0000`
    Nanosecond,
}

/// A time as ISO 8601 has it, with a space in the middle.
pub fn shown(time: Time, grain: Grain) -> String {
    let (days, second) =
        (time.seconds.div_euclid(DAY_SECONDS), time.seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let head = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}");
    match grain {
        Grain::Minute => head,
        Grain::Nanosecond => format!("{head}:{:02}.{:09} +0000", second % 60, time.nanoseconds),
    }
}

/// Year, month, day. Years begin in March, so that the day that comes and goes is the last of one.
fn date(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970.saturating_add(EPOCH_DAYS);
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_in_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_in_year = day - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
    let shifted_month = (5 * day_in_year + 2) / 153;
    let day_in_month = day_in_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_in_era + era * 400 + i64::from(month <= 2), month, day_in_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        // By `date -u -d @SECONDS`.
        let known = [
            (-2_147_483_648, "1901-12-13 20:45"),
            (-1, "1969-12-31 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (15_032_385_535, "2446-05-10 22:38"),
        ];
        for (seconds, text) in known {
            assert_eq!(shown(Time { seconds, nanoseconds: 0 }, Grain::Minute), text);
        }
        let fine = Time { seconds: -1, nanoseconds: 5 };
        assert_eq!(shown(fine, Grain::Nanosecond), "1969-12-31 23:59:59.000000005 +0000");
    }
}
