//! Maps of holes: checked whatever form they came in.
use super::Failure;
use super::header::BLOCK;
use super::input::Input;
use super::pax;

/// A map as an archive gives it.
pub(super) struct Map {
    /// Offset and length of what holds data.
    pub(super) pieces: Vec<(u64, u64)>,
    /// The size of the file.
    pub(super) size: u64,
    /// Bytes of data in the archive.
    pub(super) stored: u64,
}

/// The pieces without empty ones, neighbours joined.
///
/// # Errors
/// Pieces out of order, overlapping, behind the end, or of another sum than what is stored.
pub(super) fn checked(
    pieces: Vec<(u64, u64)>,
    size: u64,
    stored: u64,
) -> Result<Vec<(u64, u64)>, &'static str> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    let (mut end, mut sum) = (0_u64, 0_u64);
    for (offset, length) in pieces {
        let behind = offset.checked_add(length).ok_or("a map of holes beyond all numbers")?;
        if offset < end {
            return Err("a map of holes that is out of order or overlaps");
        }
        if behind > size {
            return Err("a map of holes that goes beyond the end of the file");
        }
        match joined.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.0 + last.1 == offset => last.1 += length,
            _ => joined.push((offset, length)),
        }
        sum += length;
        end = behind;
    }
    match sum == stored {
        true => Ok(joined),
        false => Err("a map of holes that does not fit the data"),
    }
}

/// GNU's form 1.0: a count and as many pairs, one decimal number a line, in whole blocks in front
/// of the data. The pieces, and how many bytes of the body they took.
pub(super) fn read_front(input: &mut Input, size: u64) -> Result<(Vec<(u64, u64)>, u64), Failure> {
    let wrong = || Failure::Wrong("a map of holes that is no list of numbers".into());
    let mut front = Front { input, left: size, block: [0; BLOCK], at: BLOCK };
    let count = front.number()?;
    // A pair takes four bytes at least: a count that cannot be true is not waited for.
    if count > size / 4 {
        return Err(wrong());
    }
    let mut pieces = Vec::new();
    for _ in 0..count {
        pieces.push((front.number()?, front.number()?));
    }
    let used = size - front.left;
    Ok((pieces, used))
}

struct Front<'a> {
    input: &'a mut Input,
    left: u64,
    block: [u8; BLOCK],
    at: usize,
}

impl Front<'_> {
    fn number(&mut self) -> Result<u64, Failure> {
        let wrong = || Failure::Wrong("a map of holes that is no list of numbers".into());
        let mut digits = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return pax::number(&digits).flatten().ok_or_else(wrong),
                byte => digits.push(byte),
            }
            if digits.len() > 20 {
                return Err(wrong());
            }
        }
    }

    fn byte(&mut self) -> Result<u8, Failure> {
        if self.at == BLOCK {
            let too_short = || Failure::Wrong("a map of holes longer than its file".into());
            self.left = self.left.checked_sub(BLOCK as u64).ok_or_else(too_short)?;
            self.input.read_all(&mut self.block)?;
            self.at = 0;
        }
        let byte = self.block[self.at];
        self.at += 1;
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn maps_that_cannot_be_are_refused() {
        assert_eq!(checked(vec![(0, 4), (4, 4), (100, 0)], 100, 8), Ok(vec![(0, 8)]));
        for (pieces, size, stored) in [
            (vec![(8, 4), (0, 4)], 100, 8),
            (vec![(0, 8), (4, 8)], 100, 16),
            (vec![(96, 8)], 100, 8),
            (vec![(u64::MAX, 2)], u64::MAX, 2),
            (vec![(0, 8)], 100, 9),
        ] {
            assert!(checked(pieces.clone(), size, stored).is_err(), "{pieces:?}");
        }
    }
}
