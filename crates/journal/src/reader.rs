//! Blocks of a journal, read in large pieces into memory that each block owns.
use crate::error::Error;
use crate::locate::Journal;
use extant_block::{Operation, Segment};
use std::collections::VecDeque;
use std::io;

/// Bytes that are read at once.
const READ_BYTES: u32 = 1 << 20;

/// Reads blocks of a journal that mostly follow each other.
pub(crate) struct Reader<'a> {
    journal: &'a Journal,
    /// The block that is first in `ahead`.
    next: u32,
    /// Blocks that were read and not taken yet.
    ahead: VecDeque<Vec<u8>>,
    /// The block after the last one that may be read ahead.
    end: u32,
}

impl<'a> Reader<'a> {
    /// Reads ahead up to `end`.
    pub(crate) fn new(journal: &'a Journal, end: u32) -> Reader<'a> {
        Reader { journal, next: 0, ahead: VecDeque::new(), end }
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

    /// Reads ahead; when that fails, the next block alone: those after it may not be needed.
    fn fill(&mut self) -> Result<(), Error> {
        let size = self.journal.volume().block_size();
        let most = (READ_BYTES / size).max(1);
        let end = self.end.min(self.next.saturating_add(most));
        match self.read(end) {
            Err(_) if end - self.next > 1 => self.read(self.next + 1),
            outcome => outcome,
        }
    }

    fn read(&mut self, end: u32) -> Result<(), Error> {
        let run = self.journal.place(self.next..end);
        let size = self.journal.volume().block_size();
        let segments = (0..run.length).map(|_| Segment::Owned(vec![0; size as usize])).collect();
        let offset = run.start.0 * u64::from(size);
        let read = self.journal.device.transfer(Operation::Read, offset, segments);
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
