//! Sizes as people write them: "512M", "20%", "4k".
use crate::error::Error;
use std::str::FromStr;

/// An absolute size as mke2fs reads it: `K M G T` are powers of 1024, `s` is sectors of 512 bytes, and a bare number is
/// file system blocks (so its bytes depend on the block size).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many blocks of the file system.
    Blocks(u64),
}

impl Size {
    /// In bytes, for this block size; `None` when that is more than 64 bits hold.
    pub fn bytes(self, block_bytes: u64) -> Option<u64> {
        match self {
            Size::Bytes(bytes) => Some(bytes),
            Size::Blocks(blocks) => blocks.checked_mul(block_bytes),
        }
    }
}

/// Room to leave: so many bytes, or a share of the whole image.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Room {
    /// So many bytes.
    Bytes(u64),
    /// Per mille of the image's size, 0 to 999.
    PerMille(u32),
}

fn units(text: &str) -> Option<(f64, Option<u64>)> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
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

impl FromStr for Size {
    type Err = Error;
    fn from_str(text: &str) -> Result<Size, Error> {
        let parsed = units(text).and_then(|(number, unit)| match unit {
            Some(unit) => scaled(text, number, unit).map(Size::Bytes),
            None => text.parse().ok().map(Size::Blocks),
        });
        parsed.ok_or_else(|| {
            Error::usage(format!("{text:?} is not a size"))
                .hint("write 512M, 2G, 1.5T, 2048s (sectors), or a number of blocks")
        })
    }
}

impl FromStr for Room {
    type Err = Error;
    fn from_str(text: &str) -> Result<Room, Error> {
        let refused = || Error::usage(format!("{text:?} is not an amount of room")).hint("write 512M, or 20%");
        if let Some(share) = text.strip_suffix('%') {
            let share: f64 = share.trim().parse().map_err(|_| refused())?;
            return match (0.0..99.95).contains(&share) {
                true => Ok(Room::PerMille((share * 10.0).round() as u32)),
                false => Err(refused()),
            };
        }
        // A bare number of bytes here: no block size is known to the user of `--free`.
        let (number, unit) = units(text).ok_or_else(refused)?;
        scaled(text, number, unit.unwrap_or(1))
            .map(Room::Bytes)
            .ok_or_else(refused)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for wrong in [
            "",
            "M",
            "12x",
            "-1",
            "1.5",
            "99999999999999999999",
            "20%",
            "99999999P",
            "1e5",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn room_is_bytes_or_a_share() {
        assert_eq!("20%".parse::<Room>().unwrap(), Room::PerMille(200));
        assert_eq!("512M".parse::<Room>().unwrap(), Room::Bytes(512 << 20));
        assert_eq!("0".parse::<Room>().unwrap(), Room::Bytes(0));
        for wrong in ["100%", "-5%", "x", "%"] {
            assert!(wrong.parse::<Room>().is_err(), "{wrong}");
        }
    }
}
