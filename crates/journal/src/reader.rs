//! Blocks of a journal, read in large pieces into memory that each block owns, one piece ahead of
//! those that are looked at.
use crate::error::Error;
use crate::locate::Journal;
use extant_block::{Completed, Operation, Pending, Segment};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// Bytes that are read at once.
const READ_BYTES: u32 = 1 << 20;

/// Reads blocks of a journal that mostly follow each other.
pub(crate) struct Reader<'a> {
    journal: &'a Journal,
    /// The block that is first in `ahead`.
    next: u32,
    /// Blocks that were read and not taken yet.
    ahead: VecDeque<Vec<u8>>,
    /// What is being read: the blocks after those.
    pending: Option<(Range<u32>, Pending)>,
    /// The block after the last one that may be read ahead.
    end: u32,
}

impl<'a> Reader<'a> {
    /// Reads ahead up to `end`.
    pub(crate) fn new(journal: &'a Journal, end: u32) -> Reader<'a> {
        Reader { journal, next: 0, ahead: VecDeque::new(), pending: None, end }
    }

    /// The bytes of a block, which is before the end.
    pub(crate) fn take(&mut self, block: u32) -> Result<Vec<u8>, Error> {
        if block != self.next {
            self.ahead.clear();
            self.next = block;
        }
        if self.ahead.is_empty() {
            self.fill()?;
        }
        let bytes = self.ahead.pop_front().ok_or_else(other_memory)?;
        self.next += 1;
        Ok(bytes)
    }

    /// Reads the next piece, and begins to read the one after it; when that fails, the next block
    /// alone: those after it may not be needed.
    fn fill(&mut self) -> Result<(), Error> {
        let (blocks, pending) = match self.pending.take() {
            Some(pending) if pending.0.start == self.next => pending,
            _ => self.begin(self.next),
        };
        self.pending = (blocks.end < self.end).then(|| self.begin(blocks.end));
        match self.accept(pending.wait()) {
            Err(_) if blocks.len() > 1 => {
                self.ahead.clear();
                let (_, pending) = self.submit(self.next..self.next + 1);
                self.accept(pending.wait())
            }
            outcome => outcome,
        }
    }

    /// Begins to read a piece.
    fn begin(&self, first: u32) -> (Range<u32>, Pending) {
        let most = (READ_BYTES / self.journal.volume().block_size()).max(1);
        self.submit(first..self.end.min(first.saturating_add(most)))
    }

    /// Submits a read of those of some blocks that follow each other on the volume.
    fn submit(&self, blocks: Range<u32>) -> (Range<u32>, Pending) {
        let run = self.journal.place(blocks.clone());
        let size = self.journal.volume().block_size();
        let segments = (0..run.length).map(|_| Segment::Owned(vec![0; size as usize])).collect();
        let offset = run.start.0 * u64::from(size);
        let pending = Pending::submit(&*self.journal.device, Operation::Read, offset, segments);
        (blocks.start..blocks.start + run.length, pending)
    }

    fn accept(&mut self, read: Completed) -> Result<(), Error> {
        read.result?;
        for segment in read.segments {
            let Segment::Owned(bytes) = segment else { return Err(other_memory()) };
            self.ahead.push_back(bytes);
        }
        Ok(())
    }
}

fn other_memory() -> Error {
    Error::Device(io::Error::other("the device gave other memory back"))
}
