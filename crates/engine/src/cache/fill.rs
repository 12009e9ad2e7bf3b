//! Frames are filled from the device.
use super::{Cache, Frame, Kind, Shard, Status};
use crate::error::{Error, Result};
use std::sync::Arc;

impl Cache {
    pub(super) fn fill(&self, shard: &Shard, frame: Arc<Frame>, kind: Kind) -> Result<Arc<Frame>> {
        let mut bytes = vec![0; 0];
        std::mem::swap(&mut bytes, Arc::make_mut(&mut frame.state.lock().bytes));
        let outcome = self
            .device
            .read(frame.block.0 * self.block_size as u64, &mut bytes)
            .map_err(Error::from)
            .and_then(|()| kind.verify(&bytes, frame.block, &self.checksums));
        if outcome.is_err() {
            shard.frames.lock().by_block.remove(&frame.block);
        }
        let mut state = frame.state.lock();
        state.bytes = Arc::new(bytes);
        state.status = if outcome.is_ok() {
            Status::Clean
        } else {
            Status::Forgotten
        };
        drop(state);
        shard.changed.wake_all();
        outcome.map(|()| frame)
    }
}
