//! Sizes and times as scenario files write them: `"4K"`, `"21GB"`, `"8.5ms"`, `"30s"`.
use std::num::IntErrorKind;

/// No size in a scenario is larger (2^60 bytes).
pub const SIZE_MAX: u64 = 1 << 60;
/// No time in a scenario is longer (ten years).
pub const TIME_MAX_NS: u64 = 3650 * 86_400 * 1_000_000_000;

/// Units of sizes: letters as mke2fs takes them are powers of 1,024; with a `B`, of 1,000.
const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A size in bytes: a number (perhaps with a fraction) and a unit.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, SIZES, SIZE_MAX, "a size such as 4096, \"64K\" or \"21GB\"")
}

/// A time in nanoseconds: a number (perhaps with a fraction) and a unit.
///
/// # Errors
/// What is wrong, as the end of a sentence; of a number alone that it has no unit.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    if !trimmed.is_empty() && trimmed.chars().all(is_number) {
        return Err(format!(
            "{text:?} has no unit: a time is such as \"{trimmed}s\" or \"{trimmed}ms\" (there are \
             ns, us, ms, s, min and h)"
        ));
    }
    scaled(text, TIMES, TIME_MAX_NS, "a time such as \"30s\" or \"8.5ms\"")
}

/// Digits after the point that count.
const FRACTION_DIGITS: usize = 9;

fn scaled(text: &str, units: &[(&str, u64)], most: u64, wanted: &str) -> Result<u64, String> {
    let refused = || format!("{text:?} is not {wanted}");
    let trimmed = text.trim();
    let digits = trimmed.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
    let unit = unit.trim_start();
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match whole.parse::<u64>() {
        Ok(whole) => whole,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
        Err(_) => return Err(refused()),
    };
    if fraction.len() > FRACTION_DIGITS || fraction.contains('.') || number.ends_with('.') {
        return Err(refused());
    }
    let parts: u64 = match fraction {
        "" => 0,
        fraction => format!("{fraction:0<FRACTION_DIGITS$}").parse().map_err(|_| refused())?,
    };
    let value = u128::from(whole) * u128::from(factor)
        + u128::from(parts) * u128::from(factor) / 1_000_000_000;
    let value = u64::try_from(value).unwrap_or(u64::MAX);
    match value <= most {
        true => Ok(value),
        false => Err(format!("{text:?} is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_exact() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("768M"), Ok(768 << 20));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("21GB"), Ok(21_000_000_000));
        assert_eq!(nanoseconds("8.5ms"), Ok(8_500_000));
        assert_eq!(nanoseconds("30s"), Ok(30_000_000_000));
        assert_eq!(nanoseconds("0.000000001s"), Ok(1));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for bad in [
            "",
            "K",
            "-1",
            "4k",
            "1..5K",
            "1.",
            "1.5.5K",
            "4096 4096",
            "1e9",
            "99999999999999999999999T",
            "3 lots",
        ] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        let bare = nanoseconds("30").unwrap_err();
        assert!(bare.starts_with("\"30\" has no unit: a time is such as \"30s\""), "{bare}");
        assert!(nanoseconds(" 0.5 ").unwrap_err().contains("has no unit"));
        for bad in ["30", "1 year", "99999999h", "0.0000000001s"] {
            assert!(nanoseconds(bad).is_err(), "{bad}");
        }
    }
}
