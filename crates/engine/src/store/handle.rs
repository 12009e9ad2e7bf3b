//! Handles: every change of metadata goes through one, whatever the file system. Nothing is behind
//! them yet: a handle marks frames dirty. A journal will keep what `modify` tells it.
//!
//! *Invariants*: a frame is changed only inside `modify` or `create`; a handle never outlives its
//! operation.
//! *Locking*: begun after inode locks, before group locks; holds no short lock.
use crate::error::Result;
use crate::store::cache::{Frame, Kind, Stage};
use crate::volume::Volume;
use extant_format::BlockNo;
use std::sync::Arc;

/// One operation's right to change metadata.
pub(crate) struct Handle<'a> {
    volume: &'a Volume,
}

impl<'a> Handle<'a> {
    /// Begins an operation that may change at most `credits` blocks.
    pub(crate) fn begin(volume: &'a Volume, credits: u32) -> Result<Handle<'a>> {
        let _ = credits;
        volume.check_writable()?;
        Ok(Handle { volume })
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &'a Volume {
        self.volume
    }

    /// Changes a frame's bytes. Copies them first if somebody still holds the old ones.
    pub(crate) fn modify<R>(&self, frame: &Arc<Frame>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.volume.cache.modify(frame, None, change).0
    }

    /// The same for a change that has to be written in this stage of a sweep.
    pub(crate) fn modify_in<R>(
        &self,
        frame: &Arc<Frame>,
        stage: Stage,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        self.volume.cache.modify(frame, Some(stage), change).0
    }

    /// Gives a block that holds something already another structure: zeroed, then filled.
    pub(crate) fn rewrite(&self, frame: &Arc<Frame>, kind: Kind, fill: impl FnOnce(&mut [u8])) {
        self.volume.cache.rewrite(frame, kind, fill);
    }

    /// A metadata block that was given just now: zeroed without being read, then filled. What is to
    /// lead to it is changed afterwards.
    pub(crate) fn create(
        &self,
        block: BlockNo,
        kind: Kind,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        self.fill(block, kind, Stage::New, fill)
    }

    /// A bitmap or a block of an inode table whose old bytes do not matter: zeroed without being
    /// read, then filled.
    pub(crate) fn overwrite(&self, block: BlockNo, fill: impl FnOnce(&mut [u8])) -> Arc<Frame> {
        self.fill(block, Kind::Plain, Stage::Tables, fill)
    }

    fn fill(
        &self,
        block: BlockNo,
        kind: Kind,
        stage: Stage,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        let frame = self.volume.cache.create(block, kind, stage);
        self.volume.cache.modify(&frame, Some(stage), fill);
        frame
    }
}
