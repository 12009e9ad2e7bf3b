//! The volume gets longer while it is mounted: the call of resize2fs, and one of ours that says how
//! long it is and why it does not grow.
//!
//! *Invariants*: an image is made longer only by the one growth that is under way, and stays so
//! only if the volume has grown or nobody knows whether it has.
use super::identities::is_master;
use super::server::{Answer, Failure, Server};
use crate::protocol::{Errno, Request};
use extant_control::Asked;
use extant_engine::Error;
use std::sync::atomic::Ordering;
use zerocopy::FromBytes;

impl Server {
    /// Answers the call of ours.
    pub(super) fn ask_growth(&self, request: &Request<'_>, input: &[u8]) -> Answer<Asked> {
        let (mut asked, _) = Asked::read_from_prefix(input).map_err(|_| Errno::FAULT)?;
        if !is_master(request.uid) {
            return Err(Errno::NOT_PERMITTED.into());
        }
        asked.reason = [0; extant_control::REASON_BYTES];
        asked.error = 0;
        if asked.wanted_blocks > 0
            && let Err(failure) = self.grow(request, asked.wanted_blocks)
        {
            let reason = match &failure {
                Failure::Engine(error) => error.to_string(),
                Failure::Plain(_) => String::new(),
            };
            asked.refuse(self.judge(&failure).0.unsigned_abs(), &reason);
        }
        let superblock = self.filesystem.superblock();
        asked.blocks = superblock.blocks_count;
        asked.block_size = superblock.block_size();
        asked.room_bytes = match &self.settings.room.0 {
            Some(length) => length.bytes().map_err(Error::from)?,
            None => self.filesystem.device_bytes(),
        };
        Ok(asked)
    }

    /// Gives the volume so many blocks.
    pub(super) fn grow(&self, request: &Request<'_>, blocks: u64) -> Answer<()> {
        if !is_master(request.uid) {
            return Err(Errno::NOT_PERMITTED.into());
        }
        if self.is_growing.swap(true, Ordering::AcqRel) {
            return Err(Errno::BUSY.into());
        }
        let grown = self.grow_alone(blocks);
        self.is_growing.store(false, Ordering::Release);
        Ok(grown?)
    }

    fn grow_alone(&self, blocks: u64) -> Result<(), Error> {
        let filesystem = &self.filesystem;
        let before = filesystem.superblock().blocks_count;
        let after = filesystem.blocks_when_grown(blocks)?;
        if after == before {
            return Ok(());
        }
        let block_size = u64::from(filesystem.superblock().block_size());
        let bytes = after.saturating_mul(block_size);
        let mut added = None;
        if let Some(length) = &self.settings.room.0 {
            let has = length.bytes()?;
            length.lengthen(bytes)?;
            added = Some(length).filter(|_| has < bytes).map(|length| (length, has));
        }
        let grown = filesystem.grow(blocks);
        if let (Err(_), Some((length, has))) = (&grown, added)
            && filesystem.superblock().blocks_count == before
            && filesystem.is_writable()
        {
            // No transaction was begun that may be durable: nothing leads there.
            drop(length.shorten(has));
        }
        grown
    }
}
