//! One transaction as blocks of the log.
//!
//! ```text
//! | revoke ... | descriptor | copies ... | descriptor | copies ... |      | commit |
//!   written together, in as few requests as the log's place allows   flush  forced
//! ```
use super::Log;
use crate::Store;
use crate::cache::{Frame, Sealed};
use crate::error::{Error, Result};
use crate::writes::Write;
use extant_block::{Segment, Urgency, blocks_per_request};
use extant_format::BlockNo;
use extant_format::journal::descriptor::Writer;
use extant_format::journal::{Sequence, revoke};
use extant_policy::preset::Journal;
use std::sync::Arc;

/// Blocks of a transaction that the committing thread writes itself: handing them to another one
/// would take longer.
const WRITTEN_AT_ONCE: usize = 64;

/// What a commit writes.
pub(super) struct Transaction<'f> {
    pub(super) sequence: Sequence,
    pub(super) frozen: &'f [Sealed],
    pub(super) revoked: Vec<BlockNo>,
}

/// A block of a transaction in the log.
pub(super) struct LogBlock {
    bytes: Arc<Vec<u8>>,
    /// The frame that it is a copy of, if it is one.
    copy_of: Option<Arc<Frame>>,
}

impl LogBlock {
    fn own(bytes: Vec<u8>) -> LogBlock {
        LogBlock { bytes: Arc::new(bytes), copy_of: None }
    }
}

impl Transaction<'_> {
    /// Its blocks in the order of the log, without the commit block.
    pub(super) fn blocks(&self, log: &Log) -> Vec<LogBlock> {
        let format = &log.format;
        let revoked = revoke::encode(format, self.sequence, &self.revoked);
        let mut blocks: Vec<LogBlock> = revoked.into_iter().map(LogBlock::own).collect();
        for part in self.frozen.chunks(format.tags_per_descriptor().max(1)) {
            let mut descriptor = Writer::new(format, self.sequence);
            let copies: Vec<LogBlock> = part
                .iter()
                .map(|(frame, bytes)| LogBlock {
                    bytes: match descriptor.add(frame.block(), bytes) {
                        Some(escaped) => Arc::new(escaped),
                        None => Arc::clone(bytes),
                    },
                    copy_of: Some(Arc::clone(frame)),
                })
                .collect();
            blocks.push(LogBlock::own(descriptor.finish()));
            blocks.extend(copies);
        }
        blocks
    }
}

impl Log {
    /// Starts to write blocks of the log from `at` on; few are written at once, in this thread.
    ///
    /// # Errors
    /// `Corrupt` if the log has no such block; what the device returns, which closes the latch.
    pub(super) fn submit(&self, store: &Store, mut at: u32, blocks: &[LogBlock]) -> Result<()> {
        let is_short = blocks.len() <= WRITTEN_AT_ONCE && self.urgency() == Urgency::Awaited;
        let mut rest = blocks;
        while !rest.is_empty() {
            let (place, adjacent) = self.place(at).ok_or_else(|| super::outside(at))?;
            let to_end = self.end().saturating_sub(at).max(1);
            let in_request = blocks_per_request(self.block_size as usize);
            let count = in_request.min(adjacent.min(to_end) as usize).min(rest.len());
            let (now, later) = rest.split_at(count);
            let bytes = now.iter().map(|block| Arc::clone(&block.bytes));
            if is_short {
                store.write_pieces_at(self.offset(place), &bytes.collect::<Vec<_>>())?;
            } else {
                let write = Write {
                    offset: self.offset(place),
                    segments: bytes.map(Segment::Shared).collect(),
                    urgency: self.urgency(),
                };
                let copies = now.iter().filter(|_| store.waits_for_log());
                let frames = copies.filter_map(|block| block.copy_of.clone()).collect();
                let end_of_logging = store.cache.end_of_logging(frames);
                self.writes.write(&*self.device, write, |_| end_of_logging());
            }
            at = self.after(at, count as u32);
            rest = later;
        }
        Ok(())
    }

    /// Writes a commit block, and waits until it is durable.
    ///
    /// # Errors
    /// `Corrupt` if the log has no such block; what the device returns, which closes the latch.
    pub(super) fn write_commit(&self, store: &Store, at: u32, bytes: Vec<u8>) -> Result<()> {
        let offset = self.offset_of(at)?;
        if self.urgency() == Urgency::Awaited {
            return store.write_forced(offset, &bytes);
        }
        let segments = vec![Segment::Shared(Arc::new(bytes))];
        let write = Write { offset, segments, urgency: Urgency::Background };
        self.writes.write(&*self.device, write, |_| {});
        self.writes.wait()?;
        store.barrier.pass()
    }

    /// A commit is waited for, but ext3 of 2007 did not say so: its elevator took log and commit
    /// block for write-back.
    fn urgency(&self) -> Urgency {
        match self.mode {
            Journal::OrderedJbd => Urgency::Background,
            _ => Urgency::Awaited,
        }
    }

    /// Where a block of the log is on the device, in bytes.
    ///
    /// # Errors
    /// `Corrupt` if the log has no such block.
    pub(super) fn offset_of(&self, block: u32) -> Result<u64> {
        let place = self.place(block).ok_or_else(|| -> Error { super::outside(block) })?;
        Ok(self.offset(place.0))
    }

    fn offset(&self, place: BlockNo) -> u64 {
        place.0.saturating_mul(self.block_size.into())
    }

    pub(super) fn after(&self, block: u32, distance: u32) -> u32 {
        self.geometry.after(block, distance)
    }

    fn end(&self) -> u32 {
        self.geometry.log_end()
    }
}
