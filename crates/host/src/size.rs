//! Sizes as people write them: "512M", "20%", "4k".
//!
//! A bare number means what mke2fs takes it for, where mke2fs has the option; elsewhere a unit is
//! required.
use extant_image::assemble::{FreeInodes, Room};
use std::fmt;
use std::str::FromStr;

/// An absolute size. `K M G T` are powers of 1024, `s` is sectors of 512 bytes, `b` is bytes. What
/// a bare number counts is for the option to say, as mke2fs has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A bare number.
    Bare(u64),
}

impl Size {
    /// In bytes, where a bare number counts units of `unit_bytes`; `None` when that is more than 64
    /// bits hold.
    pub fn bytes(self, unit_bytes: u64) -> Option<u64> {
        match self {
            Size::Bytes(bytes) => Some(bytes),
            Size::Bare(number) => number.checked_mul(unit_bytes),
        }
    }
}

/// What a bare number counts where the size of a file system is asked for: KiB, or blocks where
/// `-b` says how large they are. This is mke2fs's rule for its operand fs-size.
pub fn file_system_unit(block_size: Option<u32>) -> u64 {
    block_size.map_or(1024, u64::from)
}

/// A size with a unit: for options that mke2fs does not have, where a bare number would be a guess.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// In bytes.
    pub bytes: u64,
}

/// Why a word of the command line is no size: one line that says what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

fn units(text: &str) -> Option<(f64, Option<u64>)> {
    let digits =
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let suffix = text[digits..].to_ascii_lowercase();
    let unit = match suffix.trim_end_matches("ib").trim_end_matches('b') {
        "" if suffix.is_empty() => None,
        "" if suffix == "b" => Some(1),
        "s" => Some(512),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        "t" => Some(1 << 40),
        "p" => Some(1 << 50),
        _ => return None,
    };
    Some((number, unit))
}

/// A number of units in bytes: exact for whole numbers, rounded down for fractions ("1.5G").
fn scaled(text: &str, number: f64, unit: u64) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    if text.as_bytes().get(digits) != Some(&b'.') {
        return text[..digits].parse::<u64>().ok()?.checked_mul(unit);
    }
    let bytes = number * unit as f64;
    (bytes < 9e18).then_some(bytes as u64)
}

/// A share in per mille, of "20%" or "12.5 %".
fn share(text: &str) -> Option<u32> {
    let share: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..99.95).contains(&share).then(|| (share * 10.0).round() as u32)
}

/// Bytes of a number with a unit; 0 needs none.
fn with_unit(text: &str) -> Result<u64, Unreadable> {
    match units(text) {
        Some((number, Some(unit))) => scaled(text, number, unit),
        Some((0.0, None)) => Some(0),
        Some((_, None)) => {
            return Err(Unreadable(format!(
                "a unit is missing: write {text}M for MiB, or K, G, T"
            )));
        }
        None => None,
    }
    .ok_or_else(|| Unreadable("it is not a size: write 512M, 2G or 1.5T".to_owned()))
}

impl FromStr for Size {
    type Err = Unreadable;
    fn from_str(text: &str) -> Result<Size, Unreadable> {
        let parsed = units(text).and_then(|(number, unit)| match unit {
            Some(unit) => scaled(text, number, unit).map(Size::Bytes),
            None => text.parse().ok().map(Size::Bare),
        });
        parsed.ok_or_else(|| {
            Unreadable("it is not a size: write 512M, 2G, 1.5T or 2048s (sectors)".to_owned())
        })
    }
}

impl FromStr for Amount {
    type Err = Unreadable;
    fn from_str(text: &str) -> Result<Amount, Unreadable> {
        with_unit(text).map(|bytes| Amount { bytes })
    }
}

/// Room to leave: `512M`, or `20%` of the image.
///
/// # Errors
/// What to write instead.
pub fn room(text: &str) -> Result<Room, Unreadable> {
    if text.ends_with('%') {
        let wrong = || Unreadable("a share has to be 0% to 99.9%: write 20%".to_owned());
        return share(text).map(Room::PerMille).ok_or_else(wrong);
    }
    match units(text) {
        Some((number, None)) if number > 0.0 => Err(Unreadable(format!(
            "a unit is missing: write {text}M for MiB, or {text}% for a share of the image"
        ))),
        None => Err(Unreadable("it is not an amount of room: write 512M, or 20%".to_owned())),
        Some(_) => with_unit(text).map(Room::Bytes),
    }
}

/// Inodes to leave free: `1000`, or `20%` of all that the image has.
///
/// # Errors
/// What to write instead.
pub fn free_inodes(text: &str) -> Result<FreeInodes, Unreadable> {
    let count = || text.parse().ok().map(FreeInodes::Count);
    let parsed = share(text).map(FreeInodes::PerMille).or_else(count);
    parsed.ok_or_else(|| Unreadable("it is not a number of inodes: write 1000, or 20%".to_owned()))
}

/// Bytes for people: `1.3 GiB`.
pub fn readable(bytes: f64) -> String {
    const NAMES: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut amount = bytes;
    let mut step = 0;
    while amount >= 1024.0 && step + 1 < NAMES.len() {
        amount /= 1024.0;
        step += 1;
    }
    match step {
        0 => format!("{amount:.0} bytes"),
        _ => format!("{amount:.1} {}", NAMES[step]),
    }
}

/// As `df -h` and `du -h` write it, rounded up: "640", "4.0K", "1.3G", "12T".
pub fn short(bytes: u64) -> String {
    const LETTERS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let (mut unit, mut step) = (1u64, 0);
    while step + 1 < LETTERS.len() && bytes.div_ceil(unit) >= 1024 {
        unit = unit.saturating_mul(1024);
        step += 1;
    }
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(u128::from(unit));
    match step > 0 && tenths < 100 {
        true => format!("{}.{}{}", tenths / 10, tenths % 10, LETTERS[step]),
        false => format!("{}{}", bytes.div_ceil(unit), LETTERS[step]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sizes_are_those_of_df() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (9 << 10, "9.0K"),
            ((10 << 10) - 50, "10K"),
            (1 << 20, "1.0M"),
            ((1 << 20) - 1, "1.0M"),
            (123 << 30, "123G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(short(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_are_read_as_mke2fs_reads_them() {
        let cases = [
            ("512M", 512 << 20),
            ("4k", 4096),
            ("2048s", 1 << 20),
            ("1.5G", 3 << 29),
            ("1T", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<Size>().unwrap(), Size::Bytes(bytes), "{text}");
        }
        assert_eq!("8192".parse::<Size>().unwrap().bytes(1024), Some(8 << 20));
        for wrong in
            ["", "M", "12x", "-1", "1.5", "99999999999999999999", "20%", "99999999P", "1e5"]
        {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn room_is_bytes_or_a_share() {
        assert_eq!(room("20%").unwrap(), Room::PerMille(200));
        assert_eq!(room("12.5 %").unwrap(), Room::PerMille(125));
        assert_eq!(room("512M").unwrap(), Room::Bytes(512 << 20));
        assert_eq!(room("0").unwrap(), Room::Bytes(0));
        for wrong in ["100%", "-5%", "x", "%", "20", "1.5", "20%%", "99999999P"] {
            assert!(room(wrong).is_err(), "{wrong}");
        }
        let said = room("20").unwrap_err().to_string();
        assert!(said.contains("20M") && said.contains("20%"), "{said}");
    }

    #[test]
    fn an_amount_has_a_unit() {
        assert_eq!("64M".parse::<Amount>().unwrap().bytes, 64 << 20);
        assert_eq!("0".parse::<Amount>().unwrap().bytes, 0);
        let said = "64".parse::<Amount>().unwrap_err().to_string();
        assert!(said.contains("64M"), "{said}");
        assert!("20%".parse::<Amount>().is_err());
    }

    #[test]
    fn free_inodes_are_a_number_or_a_share_of_all() {
        assert_eq!(free_inodes("1000").unwrap(), FreeInodes::Count(1000));
        assert_eq!(free_inodes("20%").unwrap(), FreeInodes::PerMille(200));
        for wrong in ["1k", "-1", "", "100%", "4294967296", "1.5"] {
            assert!(free_inodes(wrong).is_err(), "{wrong}");
        }
    }
}
