//! Seconds since 1970 as a date, before 1970 too, in UTC: what is printed must not depend on where.
use extant_format::calendar::CalendarTime;
use extant_format::inode::Time;

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
    let CalendarTime { year, month, day, hour, minute, second } = CalendarTime::of(time.seconds);
    let head = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}");
    match grain {
        Grain::Minute => head,
        Grain::Nanosecond => format!("{head}:{second:02}.{:09} +0000", time.nanoseconds),
    }
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
