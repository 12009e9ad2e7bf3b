//! Times by the calendar, in UTC: what is printed must not depend on where.

/// A point in time by the calendar, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CalendarTime {
    /// Of the Gregorian calendar, also before there was one.
    pub year: i64,
    /// 1..=12.
    pub month: i64,
    /// 1..=31.
    pub day: i64,
    /// 0..24.
    pub hour: i64,
    /// 0..60.
    pub minute: i64,
    /// 0..60.
    pub second: i64,
}

const DAY_SECONDS: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// From 0000-03-01, where a year of this reckoning begins, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

impl CalendarTime {
    /// Of seconds since 1970, or before it.
    // No number of seconds overflows: both ends are tested.
    #[allow(clippy::arithmetic_side_effects)]
    pub fn of(seconds: i64) -> CalendarTime {
        let days = seconds.div_euclid(DAY_SECONDS) + EPOCH_DAYS;
        let second = seconds.rem_euclid(DAY_SECONDS);
        let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        // Years begin in March, so that the day that only some have is the last of one.
        let year_in_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_in_year = day - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
        let shifted_month = (5 * day_in_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        CalendarTime {
            year: year_in_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_in_year - (153 * shifted_month + 2) / 5 + 1,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_agree_with_the_calendar() {
        let time = |seconds| {
            let CalendarTime { year, month, day, hour, minute, second } = CalendarTime::of(seconds);
            (year, month, day, hour, minute, second)
        };
        assert_eq!(time(-2_147_483_648), (1901, 12, 13, 20, 45, 52));
        assert_eq!(time(-1), (1969, 12, 31, 23, 59, 59));
        // No number of seconds overflows.
        assert_eq!(time(i64::MIN).0, -292_277_022_657);
        assert_eq!(time(i64::MAX).0, 292_277_026_596);
    }
}
