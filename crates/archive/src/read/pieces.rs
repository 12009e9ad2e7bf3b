//! The pieces of a file that are stored, checked one by one as an archive gives them.
use crate::error::MapFault;
use std::ops::Range;

/// A part of a file that is stored, as an archive says: offset in the file, and length.
pub(super) type Piece = (u64, u64);

/// More pieces of one file are not read: they would fill 128 MiB of memory.
pub(super) const PIECES_MAX: usize = 1 << 23;

/// Pieces that rise, none empty, none touching the next. Empty ones, of which there may be any
/// number, take no memory.
#[derive(Default)]
pub(super) struct Pieces {
    joined: Vec<Range<u64>>,
    /// The end of the last piece, and the bytes of all.
    end: u64,
    sum: u64,
}

impl Pieces {
    /// Adds a piece after the others.
    ///
    /// # Errors
    /// It ends beyond 64 bits, or begins before the end of the last one; there are too many.
    pub(super) fn push(&mut self, (offset, length): Piece) -> Result<(), MapFault> {
        let after = offset.checked_add(length).ok_or(MapFault::Overflow)?;
        if offset < self.end {
            return Err(MapFault::Order);
        }
        let is_full = self.joined.len() >= PIECES_MAX;
        match self.joined.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.end == offset => last.end = after,
            _ if is_full => return Err(MapFault::TooManyPieces),
            _ => self.joined.push(offset..after),
        }
        // No overflow: pieces do not overlap, so their sum is at most `after`.
        self.sum += length;
        self.end = after;
        Ok(())
    }

    /// Bytes of all pieces.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// All pieces of a file of `size` bytes, `stored` of which are in the archive.
    ///
    /// # Errors
    /// A piece ends after the file; the sum is not what is stored.
    pub(super) fn finish(self, size: u64, stored: u64) -> Result<Vec<Range<u64>>, MapFault> {
        match (self.end > size, self.sum == stored) {
            (true, _) => Err(MapFault::BeyondEnd),
            (false, false) => Err(MapFault::Sum),
            (false, true) => Ok(self.joined),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(pieces: &[Piece], size: u64, stored: u64) -> Result<Vec<Range<u64>>, MapFault> {
        let mut checked = Pieces::default();
        for piece in pieces {
            checked.push(*piece)?;
        }
        checked.finish(size, stored)
    }

    #[test]
    fn maps_that_cannot_be_are_refused() {
        let joined = checked(&[(0, 4), (4, 4), (100, 0)], 100, 8).unwrap();
        assert_eq!(joined, std::slice::from_ref(&(0..8)));
        for (pieces, size, stored, fault) in [
            (&[(8, 4), (0, 4)][..], 100, 8, MapFault::Order),
            (&[(0, 8), (4, 8)], 100, 16, MapFault::Order),
            (&[(96, 8)], 100, 8, MapFault::BeyondEnd),
            (&[(101, 0)], 100, 0, MapFault::BeyondEnd),
            (&[(u64::MAX, 2)], u64::MAX, 2, MapFault::Overflow),
            (&[(0, 8)], 100, 9, MapFault::Sum),
        ] {
            assert_eq!(checked(pieces, size, stored), Err(fault), "{pieces:?}");
        }
    }
}
