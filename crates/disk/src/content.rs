//! Which bytes of a disk matter.
use extant_archive::is_zeros;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are looked at in one go.
const CHUNK_BYTES: u64 = 1 << 20;

/// A disk as a file, and which of its bytes matter.
///
/// *Invariants*: `occupied` rises, its ranges do not overlap, none is empty, none goes beyond
/// `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Open for reading. What lies beyond its end counts as zeros.
    pub file: &'a File,
    /// The length of the disk in bytes.
    pub bytes: u64,
    /// What has to be on the medium, also where it is zeros. The rest is free: what it holds
    /// has no meaning.
    pub occupied: &'a [Range<u64>],
}

/// What a piece of a disk holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Nothing that matters.
    Free,
    /// Zeros, which matter.
    Zeros,
    /// Other bytes.
    Data,
}

/// Adjacent blocks that hold the same kind of thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// In blocks of the size that was asked for.
    pub blocks: Range<u64>,
    /// What they hold.
    pub piece: Piece,
}

impl Content<'_> {
    /// Reads bytes; what lies beyond the end of the file is zeros.
    ///
    /// # Errors
    /// The host's.
    pub fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        read_padded(self.file, buffer, at)
    }

    /// The whole disk in blocks of `block_bytes`, the last one rounded up, as runs that rise and
    /// adjoin. A block in which anything matters matters. A free block that holds data anyway is
    /// data: there may be something that is not known here.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Panics
    /// When `block_bytes` is 0 or not a divisor of 1 MiB.
    pub fn runs(&self, block_bytes: u64) -> io::Result<Vec<Run>> {
        assert!(block_bytes > 0 && CHUNK_BYTES.is_multiple_of(block_bytes), "{block_bytes} bytes");
        let mut runs: Vec<Run> = Vec::new();
        let mut buffer = vec![0; CHUNK_BYTES as usize];
        let mut occupied = self.occupied;
        let blocks = self.bytes.div_ceil(block_bytes);
        let mut block = 0;
        while block < blocks {
            let count = (CHUNK_BYTES / block_bytes).min(blocks - block);
            let chunk = &mut buffer[..(count * block_bytes) as usize];
            self.read(chunk, block * block_bytes)?;
            for bytes in chunk.chunks_exact(block_bytes as usize) {
                let start = block * block_bytes;
                while occupied.first().is_some_and(|range| range.end <= start) {
                    occupied = &occupied[1..];
                }
                let matters =
                    occupied.first().is_some_and(|range| range.start < start + block_bytes);
                let piece = match (is_zeros(bytes), matters) {
                    (false, _) => Piece::Data,
                    (true, true) => Piece::Zeros,
                    (true, false) => Piece::Free,
                };
                match runs.last_mut() {
                    Some(run) if run.piece == piece => run.blocks.end += 1,
                    _ => runs.push(Run { blocks: block..block + 1, piece }),
                }
                block += 1;
            }
        }
        Ok(runs)
    }
}

/// Reads bytes of a file; what lies beyond its end is zeros.
pub fn read_padded(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => break,
            Ok(count) => {
                buffer = &mut buffer[count..];
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_tell_free_blocks_from_zeros_that_matter() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"x", 4096 * 2 + 5).unwrap();
        file.write_all_at(b"y", 4096 * 300).unwrap();
        let bytes = 4096 * 400 + 1;
        let occupied = [0..4096, 4096 * 2..4096 * 3, 4096 * 4 + 100..4096 * 4 + 101];
        let content = Content { file: &file, bytes, occupied: &occupied };
        let runs = content.runs(4096).unwrap();
        let told: Vec<_> = runs.into_iter().map(|run| (run.blocks, run.piece)).collect();
        let expected = [
            (0..1, Piece::Zeros),
            (1..2, Piece::Free),
            (2..3, Piece::Data),
            (3..4, Piece::Free),
            (4..5, Piece::Zeros),
            (5..300, Piece::Free),
            (300..301, Piece::Data),
            (301..401, Piece::Free),
        ];
        assert_eq!(told, expected);
    }
}
