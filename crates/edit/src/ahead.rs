//! What a change writes before its log, to blocks that are free: contents that move, and zeros.
//!
//! *Invariants*: nothing that the volume has in use is written, so that it is as it was until the
//! log is whole.
use crate::error::Result;
use extant_block::BlockDevice;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Blocks that move: the first of them before and after, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The first of them, before.
    pub from: u64,
    /// The first of them, after.
    pub to: u64,
    /// How many.
    pub blocks: u64,
}

/// What is written to free blocks.
#[derive(Clone, Default)]
pub struct Ahead {
    /// Contents that are copied; none is copied to where another one is from.
    pub moves: Vec<Moved>,
    /// Blocks that become zeros.
    pub zeros: Vec<Range<u64>>,
}

impl Ahead {
    /// Writes it all; the log makes it durable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write(&self, device: &dyn BlockDevice, block_size: u32) -> Result<()> {
        let size = u64::from(block_size);
        let most = (PIECE_BYTES / size).max(1);
        let mut piece = Vec::new();
        let mut each = |blocks: u64, work: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>| {
            (0..blocks).step_by(most as usize).try_for_each(|at| {
                piece.clear();
                piece.resize(((blocks - at).min(most) * size) as usize, 0);
                work(at, &mut piece)
            })
        };
        let failed = |error: io::Error| extant_engine::Error::from(error);
        for Moved { from, to, blocks } in self.moves.iter().copied() {
            let copied = each(blocks, &mut |at, piece| {
                device.read((from + at) * size, piece)?;
                // tidy: writers because the volume is closed, and the blocks are free
                device.write((to + at) * size, piece)
            });
            copied.map_err(failed)?;
        }
        for zeros in &self.zeros {
            let written = each(zeros.end.saturating_sub(zeros.start), &mut |at, piece| {
                // tidy: writers because the volume is closed, and the blocks are free
                device.write((zeros.start + at) * size, piece)
            });
            written.map_err(failed)?;
        }
        Ok(())
    }

    /// The blocks that it writes, rising and apart, without those that the log has.
    pub(crate) fn passed(&self, logged: &[u64]) -> Vec<Range<u64>> {
        let moved = self.moves.iter().map(|moved| moved.to..moved.to + moved.blocks);
        let all: BTreeMap<u64, u64> =
            moved.chain(self.zeros.iter().cloned()).map(|range| (range.start, range.end)).collect();
        let mut passed = Vec::new();
        for (start, end) in all {
            let mut from = start;
            let first = logged.partition_point(|block| *block < start);
            for block in logged.iter().skip(first).take_while(|block| **block < end) {
                passed.push(from..*block);
                from = block + 1;
            }
            passed.push(from..end);
        }
        passed.retain(|range| range.start < range.end);
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_has_is_not_passed() {
        let ahead = Ahead {
            moves: vec![
                Moved { from: 900, to: 100, blocks: 10 },
                Moved { from: 1, to: 50, blocks: 2 },
            ],
            zeros: vec![200..203, 300..300],
        };
        let passed = ahead.passed(&[7, 100, 104, 109, 110, 201]);
        assert_eq!(passed, [50..52, 101..104, 105..109, 200..201, 202..203]);
    }
}
