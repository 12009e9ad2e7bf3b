//! Points in time as touch(1) reads the usual ones. Without a zone they are UTC: an image does not
//! depend on where it is made.
use extant_format::inode::Time;

const DAY_SECONDS: i64 = 86_400;

/// Reads `@SECONDS[.FRACTION]`, `2026-01-31`, `2026-01-31 12:34[:56[.789]]` with a `T` or a space
/// between, and `Z` or `+01:00` at the end.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Time, String> {
    let read = match text.strip_prefix('@') {
        Some(seconds) => of_epoch(seconds),
        None => of_calendar(text),
    };
    read.ok_or_else(|| {
        format!("{text:?} is no time: @1700000000.5, 2026-01-31, 2026-01-31T12:34:56Z")
    })
}

fn of_epoch(text: &str) -> Option<Time> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanoseconds = nanoseconds(fraction)?;
    let whole: i64 = seconds.parse().ok()?;
    // -0.5 is half a second before 1970.
    match seconds.starts_with('-') && nanoseconds > 0 {
        true => {
            Some(Time { seconds: whole.checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds })
        }
        false => Some(Time { seconds: whole, nanoseconds }),
    }
}

/// Digits after a point, at most nine that count.
fn nanoseconds(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
    nine.parse().ok()
}

fn of_calendar(text: &str) -> Option<Time> {
    let text = text.trim();
    let date = text.get(..10)?;
    let mut parts = date.splitn(3, '-').map(|part| digits(part, part.len()));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if date.as_bytes()[4] != b'-' || date.as_bytes()[7] != b'-' {
        return None;
    }
    let (rest, zone) = zone(text.get(10..)?)?;
    let (seconds, nanoseconds) = match rest.strip_prefix(['T', ' ']) {
        None if rest.is_empty() => (0, 0),
        None => return None,
        Some(time) => of_day(time.trim_start())?,
    };
    let days = days_of(year, month, day)?;
    Some(Time { seconds: days * DAY_SECONDS + seconds - zone, nanoseconds })
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The text before a zone, and how far that is east, in seconds.
fn zone(text: &str) -> Option<(&str, i64)> {
    if let Some(rest) = text.strip_suffix('Z').or_else(|| text.strip_suffix(" UTC")) {
        return Some((rest, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (rest, zone) = (text[..at].trim_end(), &text[at + 1..]);
    let (hours, minutes) = match zone.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if zone.len() == 4 => zone.split_at_checked(2)?,
        None => (zone, "00"),
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    let seconds = (hours * 60 + minutes) * 60;
    let is_east = text.as_bytes()[at] == b'+';
    (hours < 24 && minutes < 60).then_some((rest, if is_east { seconds } else { -seconds }))
}

/// Seconds of `12:34`, `12:34:56` or `12:34:56.789` of a day, and nanoseconds.
fn of_day(text: &str) -> Option<(i64, u32)> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':').map(|part| digits(part, 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let is_time = hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    is_time.then_some(((hour * 60 + minute) * 60 + second, nanoseconds(fraction)?))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, 28 + i64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let at = usize::try_from(month.checked_sub(1)?).ok()?;
    if !(1..=*lengths.get(at)?).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day that only some have is the last of one.
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_format::calendar::CalendarTime;

    #[test]
    fn times_are_read() {
        for (text, seconds, nanoseconds) in [
            ("@0", 0, 0),
            ("@1700000000.25", 1_700_000_000, 250_000_000),
            ("@-1.5", -2, 500_000_000),
            ("@-0.5", -1, 500_000_000),
            ("1970-01-01", 0, 0),
            ("2026-01-31", 1_769_817_600, 0),
            ("2026-01-31T12:34:56Z", 1_769_862_896, 0),
            ("2026-01-31 12:34:56.5 +01:00", 1_769_859_296, 500_000_000),
            ("2026-01-31 12:34 -0230", 1_769_871_840, 0),
            ("2024-02-29", 1_709_164_800, 0),
            ("1901-12-13 20:45:52", -2_147_483_648, 0),
        ] {
            assert_eq!(parse(text), Ok(Time { seconds, nanoseconds }), "{text}");
        }
        for text in [
            "",
            "@",
            "@x",
            "now",
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "2026-01-01x",
            "2026-01-01 25:00",
            "2026-01-01 12",
            "2026-01-01 12:00:00:00",
            "é026-01-01",
            "2026-01-01 12:00 +1",
            "20260-01-01",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn days_agree_with_the_calendar() {
        for day in (-800_000..800_000).step_by(37) {
            let CalendarTime { year, month, day: of_month, .. } = CalendarTime::of(day * 86_400);
            assert_eq!(days_of(year, month, of_month), Some(day), "{year}-{month}-{of_month}");
        }
    }
}
