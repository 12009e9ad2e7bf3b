//! Maps of holes that are in front of the data.
use super::input::Input;
use super::pax;
use super::pieces::Pieces;
use crate::block::{BLOCK_BYTES, Block};
use crate::error::{ErrorKind, MapFault};

/// GNU's form 1.0: a count and as many pairs, one decimal number a line, in whole blocks in front
/// of the data. The pieces, and how many bytes of the body they took.
pub(super) fn read_front(input: &mut Input, size: u64) -> Result<(Pieces, u64), ErrorKind> {
    let mut front = Front { input, left: size, block: [0; BLOCK_BYTES], at: BLOCK_BYTES };
    let count = front.number()?;
    // A pair takes at least four bytes: a count that cannot be true is not waited for.
    if count > size / 4 {
        return Err(MapFault::NotNumbers.into());
    }
    let mut pieces = Pieces::default();
    for _ in 0..count {
        pieces.push((front.number()?, front.number()?))?;
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
