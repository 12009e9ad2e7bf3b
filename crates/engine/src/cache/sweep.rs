//! Write-back of metadata: dirty frames in rising order.
use super::{Cache, Frame, Status};
use crate::error::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one write of adjacent frames, at most.
const WRITE_BYTES_MAX: usize = 1 << 20;

impl Cache {
    /// Writes all frames that are dirty now, in one rising sweep, adjacent ones together.
    ///
    /// # Errors
    /// The first write error; it latches, and later calls fail too: what the disk holds is no longer known.
    pub(crate) fn write_back(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(ErrorKind::ReadOnly.into());
        }
        let _sweep = self.sweep.lock();
        let mut frames = std::mem::take(&mut *self.dirty.lock());
        self.dirty_count.fetch_sub(frames.len(), Ordering::Relaxed);
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut run: Vec<(Arc<Frame>, Arc<Vec<u8>>)> = Vec::new();
        for frame in frames {
            let follows = run.last().is_none_or(|(last, _)| last.block.0 + 1 == frame.block.0);
            if !follows || run.len() * self.block_size >= WRITE_BYTES_MAX {
                self.write_run(&mut run)?;
            }
            if let Some(bytes) = self.prepare(&frame) {
                run.push((frame, bytes));
            }
        }
        self.write_run(&mut run)
    }

    /// Seals a dirty frame and takes its bytes for writing; `None` when it was forgotten or written meanwhile.
    fn prepare(&self, frame: &Frame) -> Option<Arc<Vec<u8>>> {
        let mut state = frame.state.lock();
        if state.status != Status::Dirty {
            return None;
        }
        let kind = state.kind;
        kind.seal(
            Arc::make_mut(&mut state.bytes).as_mut_slice(),
            frame.block,
            &self.checksums,
        );
        state.status = Status::Writing;
        state.under_way = true;
        Some(Arc::clone(&state.bytes))
    }

    fn write_run(&self, run: &mut Vec<(Arc<Frame>, Arc<Vec<u8>>)>) -> Result<()> {
        let Some((first, _)) = run.first() else { return Ok(()) };
        let offset = first.block.0 * self.block_size as u64;
        let pieces: Vec<std::io::IoSlice<'_>> = run.iter().map(|(_, bytes)| std::io::IoSlice::new(bytes)).collect();
        let outcome = self.device.write_vectored(offset, &pieces);
        drop(pieces);
        if let Err(error) = outcome {
            self.failed.store(true, Ordering::Release);
            for (frame, _) in run.drain(..) {
                let mut state = frame.state.lock();
                (state.status, state.under_way) = (Status::Dirty, false);
                drop(state);
                self.shard(frame.block).changed.wake_all();
            }
            return Err(error.into());
        }
        for (frame, bytes) in run.drain(..) {
            drop(bytes);
            let mut state = frame.state.lock();
            state.under_way = false;
            if state.status == Status::Writing {
                state.status = Status::Clean;
            }
            drop(state);
            self.shard(frame.block).changed.wake_all();
        }
        Ok(())
    }
}
