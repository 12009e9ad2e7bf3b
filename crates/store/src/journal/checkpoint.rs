//! Committed blocks are written to their place, in the order of the disk, and the log's tail moves
//! after them.
//!
//! *Locking*: one checkpoint at a time holds `checkpointing`. Commits go on meanwhile.
use super::Log;
use crate::Store;
use crate::error::Result;
use crate::writes::Write;
use extant_block::{Segment, Urgency, each_request};
use extant_format::BlockNo;
use std::sync::Arc;

impl Log {
    /// Writes all blocks that are committed now to their place, and frees their part of the log.
    ///
    /// # Errors
    /// The first write error, which closes the latch.
    pub fn checkpoint(&self, store: &Store) -> Result<()> {
        let _one = self.checkpointing.lock();
        let (last, blocks) = {
            let mut state = self.state.lock();
            let Some(last) = state.logged.back().map(|logged| logged.sequence) else {
                return Ok(());
            };
            state.in_flight = Some(last);
            let blocks: Vec<(BlockNo, Arc<Vec<u8>>)> = state
                .pending
                .iter()
                .map(|(block, pending)| (*block, Arc::clone(&pending.bytes)))
                .collect();
            (last, blocks)
        };
        // Only what is durable in its place is not needed in the log any more.
        let moved = self
            .write_in_place(store, &blocks)
            .and_then(|()| store.barrier.pass())
            .and_then(|()| self.move_tail(store, last));
        let mut done = Vec::new();
        let mut state = self.state.lock();
        state.in_flight = None;
        if moved.is_ok() {
            while let Some(logged) = state.logged.front()
                && !logged.sequence.is_after(last)
            {
                state.free += logged.blocks;
                state.logged.pop_front();
            }
            let newer = state.pending.extract_if(.., |_, pending| !pending.sequence.is_after(last));
            done.extend(newer.map(|(_, pending)| pending.frame));
            state.copies.retain(|_, sequence| sequence.is_after(last));
        }
        drop(state);
        self.ended.wake_all();
        store.cache.in_place(&done);
        moved.inspect_err(|error| store.latch.close(Some(error)))?;
        let mut counts = self.counts.lock();
        counts.checkpoints += 1;
        counts.checkpoint_blocks += blocks.len() as u64;
        Ok(())
    }

    /// Writes blocks to their place, adjacent ones together, and waits for them. What reads ahead
    /// has to know of these writes.
    fn write_in_place(&self, store: &Store, blocks: &[(BlockNo, Arc<Vec<u8>>)]) -> Result<()> {
        let segments =
            blocks.iter().map(|(block, bytes)| Ok((block.0, Segment::Shared(Arc::clone(bytes)))));
        each_request(segments, self.block_size as usize, |offset, segments| {
            let write = Write { offset, segments, urgency: Urgency::Background };
            self.in_place.write(&*store.traffic, write, |_| {});
            Ok(())
        })
        .and_then(|()| self.in_place.wait())
    }

    /// Makes the log begin after a transaction whose blocks are durable in their place.
    fn move_tail(&self, store: &Store, last: extant_format::journal::Sequence) -> Result<()> {
        let end = {
            let state = self.state.lock();
            state.logged.iter().find(|logged| logged.sequence == last).map(|logged| logged.end)
        };
        self.store_superblock(store, |superblock| {
            superblock.sequence = last.next();
            superblock.start = end.unwrap_or(superblock.start);
        })
    }
}
