//! Maps of holes: checked whatever form they came in.
use super::header::{PIECES_MAX, Piece};
use super::input::Input;
use super::pax;
use crate::block::{BLOCK_BYTES, Block};
use crate::error::{ErrorKind, MapFault};
use std::ops::Range;

/// A map as an archive gives it.
pub(super) struct Map {
    /// Offset and length of what holds data.
    pub(super) pieces: Vec<Piece>,
    /// Bytes of the file.
    pub(super) size: u64,
    /// Bytes of data in the archive.
    pub(super) stored: u64,
}

/// The pieces without empty ones, neighbours joined.
///
/// # Errors
/// Pieces out of order, overlapping, beyond the end, or of another sum than what is stored.
pub(super) fn checked(map: Map) -> Result<Vec<Range<u64>>, MapFault> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    let (mut end, mut sum) = (0_u64, 0_u64);
    for (offset, length) in map.pieces {
        let after = offset.checked_add(length).ok_or(MapFault::Overflow)?;
        if offset < end {
            return Err(MapFault::Order);
        }
        if after > map.size {
            return Err(MapFault::BeyondEnd);
        }
        match joined.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.end == offset => last.end = after,
            _ => joined.push(offset..after),
        }
        // No overflow: pieces do not overlap, so their sum is at most `after`.
        sum += length;
        end = after;
    }
    if sum == map.stored { Ok(joined) } else { Err(MapFault::Sum) }
}

/// GNU's form 1.0: a count and as many pairs, one decimal number a line, in whole blocks in front
/// of the data. The pieces, and how many bytes of the body they took.
pub(super) fn read_front(input: &mut Input, size: u64) -> Result<(Vec<Piece>, u64), ErrorKind> {
    let mut front = Front { input, left: size, block: [0; BLOCK_BYTES], at: BLOCK_BYTES };
    let count = front.number()?;
    // A pair takes at least four bytes: a count that cannot be true is not waited for.
    if count > size / 4 {
        return Err(MapFault::NotNumbers.into());
    }
    if count > PIECES_MAX as u64 {
        return Err(MapFault::TooManyPieces.into());
    }
    let mut pieces = Vec::new();
    for _ in 0..count {
        pieces.push((front.number()?, front.number()?));
    }
    let used = size - front.left;
    Ok((pieces, used))
}

/// The numbers in front of the data, block by block.
struct Front<'a> {
    input: &'a mut Input,
    /// Bytes of the body that are not read yet.
    left: u64,
    block: Block,
    at: usize,
}

impl Front<'_> {
    fn number(&mut self) -> Result<u64, ErrorKind> {
        let mut digits = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => {
                    let number = pax::number(&digits).flatten();
                    return number.ok_or_else(|| MapFault::NotNumbers.into());
                }
                byte => digits.push(byte),
            }
            if digits.len() > 20 {
                return Err(MapFault::NotNumbers.into());
            }
        }
    }

    fn byte(&mut self) -> Result<u8, ErrorKind> {
        if self.at == BLOCK_BYTES {
            self.left = self.left.checked_sub(BLOCK_BYTES as u64).ok_or(MapFault::TooLong)?;
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
    use super::*;

    #[test]
    fn maps_that_cannot_be_are_refused() {
        let map = |pieces: &[Piece], size, stored| Map { pieces: pieces.to_vec(), size, stored };
        let joined = checked(map(&[(0, 4), (4, 4), (100, 0)], 100, 8)).unwrap();
        assert_eq!(joined, std::slice::from_ref(&(0..8)));
        for (pieces, size, stored, fault) in [
            (vec![(8, 4), (0, 4)], 100, 8, MapFault::Order),
            (vec![(0, 8), (4, 8)], 100, 16, MapFault::Order),
            (vec![(96, 8)], 100, 8, MapFault::BeyondEnd),
            (vec![(u64::MAX, 2)], u64::MAX, 2, MapFault::Overflow),
            (vec![(0, 8)], 100, 9, MapFault::Sum),
        ] {
            assert_eq!(checked(map(&pieces, size, stored)), Err(fault), "{pieces:?}");
        }
    }
}
