//! Zeros that are not kept: whole blocks of them in the bodies of files.
//!
//! *Invariants*: of a body comes out what went in, but for blocks of zeros, whatever the pieces in
//! which it came. The first bytes of a file are judged before any of them is left out.
use std::ops::Range;

/// The first bytes of a file that say whether it is a swap area: up to the largest page.
pub const SWAP_HEAD_BYTES: usize = 64 << 10;
/// Pages of machines, in bytes.
const PAGES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// What a swap area has at the end of its first page: the present form and the old one, and what
/// takes its place while a machine hibernates in it (the kernel, as of 2.4 and later, uswsusp,
/// TuxOnIce), as blkid knows them.
const MARKS: [&[u8]; 7] = [
    b"SWAPSPACE2",
    b"SWAP-SPACE",
    b"S1SUSPEND",
    b"S2SUSPEND",
    b"ULSUSPEND",
    b"LINHIB0001",
    b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c",
];

/// Which blocks of zeros are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zeros {
    /// Of files of at least this many bytes.
    pub file_bytes_min: u64,
    /// Bytes of a block: a power of two.
    pub block_bytes: u32,
    /// What becomes of a swap area, which must have no holes.
    pub swap_areas: SwapAreas,
}

/// What becomes of a file that is a swap area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapAreas {
    /// All of it is kept.
    Kept,
    /// It is a file like others.
    Ordinary,
}

impl Zeros {
    /// Whether blocks of a file of this many bytes are looked at.
    pub fn concern(&self, bytes: u64) -> bool {
        bytes > 0 && bytes >= self.file_bytes_min
    }
}

/// Whether there is nothing but zeros.
pub fn is_zeros(bytes: &[u8]) -> bool {
    // Comparing with itself, shifted by one, is the C library's memcmp.
    bytes.first().is_none_or(|first| *first == 0)
        && bytes[..bytes.len().saturating_sub(1)] == bytes[1.min(bytes.len())..]
}

/// Whether a file that begins with these bytes, up to [`SWAP_HEAD_BYTES`], is a swap area.
pub fn is_swap_area(head: &[u8]) -> bool {
    is_swap_area_by(|at, mark| {
        let found = usize::try_from(at).ok().and_then(|at| head.get(at..)?.get(..mark.len()));
        found.is_some_and(|found| {
            mark.copy_from_slice(found);
            true
        })
    })
}

/// The same of a file whose bytes `read` gives: it fills the buffer from that byte on, or says
/// `false`.
pub fn is_swap_area_by(mut read: impl FnMut(u64, &mut [u8; 10]) -> bool) -> bool {
    PAGES.iter().any(|page| {
        let mut mark = [0; 10];
        let is_there = read((page - mark.len()) as u64, &mut mark);
        is_there && MARKS.iter().any(|known| mark.starts_with(known))
    })
}

/// The bytes of one body on their way to where they are kept, without blocks of zeros.
pub(crate) struct Sieve {
    block: u64,
    /// Where in the file `carry` begins, or the next byte.
    at: u64,
    /// Bytes that are not judged yet: the first of the file, or a part of a block.
    carry: Vec<u8>,
    state: State,
    pieces: Vec<Range<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first bytes are still to come.
    Unknown,
    Sifting,
    /// Everything is kept.
    Dense,
}

impl Sieve {
    pub(crate) fn new(zeros: &Zeros) -> Sieve {
        let state = match zeros.swap_areas {
            SwapAreas::Kept => State::Unknown,
            SwapAreas::Ordinary => State::Sifting,
        };
        let block = u64::from(zeros.block_bytes.max(1));
        Sieve { block, at: 0, carry: Vec::new(), state, pieces: Vec::new() }
    }

    /// The next bytes are at this place of the file: a hole was before them.
    pub(crate) fn skip_to<E>(
        &mut self,
        at: u64,
        keep: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if at != self.at + self.carry.len() as u64 {
            self.judge_carry(keep)?;
            self.at = at;
        }
        Ok(())
    }

    /// Takes the next bytes; those that are kept go to `keep`, in their order.
    pub(crate) fn add<E>(
        &mut self,
        mut bytes: &[u8],
        keep: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let wanted = match self.state {
                State::Unknown => SWAP_HEAD_BYTES as u64,
                State::Sifting => self.block - self.at % self.block,
                State::Dense => 0,
            };
            let missing = wanted.saturating_sub(self.carry.len() as u64);
            let whole = match self.state {
                State::Dense => bytes.len() as u64,
                _ if !self.carry.is_empty() || (bytes.len() as u64) < wanted => 0,
                State::Unknown => wanted,
                State::Sifting => wanted + (bytes.len() as u64 - wanted) / self.block * self.block,
            };
            if whole > 0 {
                let (now, later) = bytes.split_at(whole as usize);
                self.judge(now, keep)?;
                bytes = later;
                continue;
            }
            let count = usize::try_from(missing).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.carry.extend_from_slice(now);
            bytes = later;
            if count as u64 == missing {
                self.judge_carry(keep)?;
            }
        }
        Ok(())
    }

    /// The body has ended: its pieces, rising, none touching the next.
    pub(crate) fn finish<E>(
        mut self,
        keep: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Vec<Range<u64>>, E> {
        self.judge_carry(keep)?;
        Ok(self.pieces)
    }

    fn judge_carry<E>(&mut self, keep: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut carry = std::mem::take(&mut self.carry);
        if !carry.is_empty() {
            self.judge(&carry, keep)?;
            carry.clear();
            self.carry = carry;
        }
        Ok(())
    }

    /// Keeps or leaves out bytes that begin at `at`.
    fn judge<E>(
        &mut self,
        bytes: &[u8],
        keep: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state == State::Unknown {
            let is_swap = self.at == 0 && is_swap_area(bytes);
            self.state = if is_swap { State::Dense } else { State::Sifting };
        }
        if self.state == State::Dense {
            return self.keep(bytes, keep);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            // Blocks of one kind, together.
            let (mut count, mut kind) = (0, None);
            while count < rest.len() {
                let place = self.at + count as u64;
                let left = usize::try_from(self.block - place % self.block).unwrap_or(usize::MAX);
                let end = count.saturating_add(left).min(rest.len());
                let is_hole = is_zeros(&rest[count..end]);
                if *kind.get_or_insert(is_hole) != is_hole {
                    break;
                }
                count = end;
            }
            let (now, later) = rest.split_at(count);
            match kind {
                Some(true) => self.at += count as u64,
                _ => self.keep(now, keep)?,
            }
            rest = later;
        }
        Ok(())
    }

    fn keep<E>(
        &mut self,
        bytes: &[u8],
        keep: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        keep(bytes)?;
        let end = self.at + bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(last) if last.end == self.at => last.end = end,
            _ => self.pieces.push(self.at..end),
        }
        self.at = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: Zeros =
        Zeros { file_bytes_min: 0, block_bytes: 4096, swap_areas: SwapAreas::Kept };

    /// What is kept of a file that comes in chunks of this many bytes.
    fn sifted(file: &[u8], chunk: usize, zeros: &Zeros) -> (Vec<Range<u64>>, Vec<u8>) {
        let mut kept = Vec::new();
        let mut keep = |bytes: &[u8]| {
            kept.extend_from_slice(bytes);
            Ok::<(), ()>(())
        };
        let mut sieve = Sieve::new(zeros);
        for chunk in file.chunks(chunk) {
            sieve.add(chunk, &mut keep).unwrap();
        }
        let pieces = sieve.finish(&mut keep).unwrap();
        (pieces, kept)
    }

    #[test]
    fn whole_blocks_of_zeros_are_left_out_whatever_the_chunks() {
        let mut file = vec![0; 300_001];
        file[5] = 1;
        file[4096 * 20 - 1] = 2;
        file[4096 * 40] = 3;
        file[300_000] = 4;
        let pieces = [0..4096, 4096 * 19..4096 * 20, 4096 * 40..4096 * 41, 4096 * 73..300_001];
        for chunk in [1, 1000, 4096, 4097, 70_000, 1 << 20] {
            let (found, kept) = sifted(&file, chunk, &ZEROS);
            assert_eq!(found, pieces, "{chunk}");
            let expected: Vec<u8> = pieces
                .iter()
                .flat_map(|piece| &file[piece.start as usize..piece.end as usize])
                .copied()
                .collect();
            assert!(kept == expected, "{chunk}");
        }
        assert_eq!(sifted(&[0; 9000], 4096, &ZEROS), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_swap_area_has_no_holes() {
        for page in PAGES {
            for mark in MARKS {
                let mut file = vec![0; 200_000];
                file[page - 10..][..mark.len()].copy_from_slice(mark);
                for chunk in [777, 65_536, 200_000] {
                    let (pieces, kept) = sifted(&file, chunk, &ZEROS);
                    let whole = std::iter::once(0..200_000);
                    assert!(pieces.iter().cloned().eq(whole), "{page}: {pieces:?}");
                    assert_eq!(kept.len(), 200_000, "{page}");
                }
                let ordinary = Zeros { swap_areas: SwapAreas::Ordinary, ..ZEROS };
                assert_eq!(sifted(&file, 777, &ordinary).0.len(), 1, "{page}");
                assert_eq!(sifted(&file, 777, &ordinary).1.len(), 4096, "{page}");
            }
        }
        let mut file = vec![0; 200_000];
        file[8000..8010].copy_from_slice(b"SWAPSPACE2");
        assert_eq!(sifted(&file, 4096, &ZEROS).1.len(), 4096, "elsewhere it is text");
    }

    #[test]
    fn holes_of_the_source_stay() {
        let mut kept = Vec::new();
        let mut keep = |bytes: &[u8]| {
            kept.extend_from_slice(bytes);
            Ok::<(), ()>(())
        };
        let mut sieve = Sieve::new(&ZEROS);
        sieve.skip_to(8192, &mut keep).unwrap();
        sieve.add(&[7; 5000], &mut keep).unwrap();
        sieve.skip_to(100_000, &mut keep).unwrap();
        sieve.add(&[0; 5000], &mut keep).unwrap();
        sieve.skip_to(200_000, &mut keep).unwrap();
        sieve.add(&[9; 10], &mut keep).unwrap();
        let pieces = sieve.finish(&mut keep).unwrap();
        assert_eq!((pieces, kept.len()), (vec![8192..13_192, 200_000..200_010], 5010));
    }

    #[test]
    fn zeros_are_seen_at_every_length() {
        for length in [0, 1, 2, 7, 4096] {
            assert!(is_zeros(&vec![0; length]), "{length}");
            for at in 0..length.min(9) {
                let mut bytes = vec![0; length];
                bytes[at] = 1;
                assert!(!is_zeros(&bytes), "{length}, {at}");
                let last = bytes.len() - 1;
                bytes[at] = 0;
                bytes[last] = 1;
                assert!(!is_zeros(&bytes), "{length}, last");
            }
        }
    }
}
