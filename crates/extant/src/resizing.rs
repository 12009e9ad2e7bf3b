//! Volumes that get another size.
use crate::error::{Error, ErrorKind, Result};
use crate::image::{Image, Memory};
use crate::mending::{Closed, KeepUndo};
use crate::opening::{self, Growing};
use crate::options::Options;
use extant_block::{Access, BlockDevice, Clock, FileDevice, Window};
use extant_edit::ahead::{Ahead, Moved};
use extant_edit::resized::{self, Length, Sized, Target};
use extant_edit::undo::Keep;
use extant_engine::read_superblock;
use extant_repair::{RepairOptions, ResizeOptions, Scope};
use std::io;
use std::sync::Arc;

/// The size that a volume is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewSize {
    /// At most this many bytes: whole blocks, and no last group that is too small.
    Bytes(u64),
    /// The least that it can have.
    Least,
    /// As large as its partition, or what it is in.
    Most,
}

/// What a resize did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resized {
    /// Bytes of a block.
    pub block_size: u32,
    /// How many blocks it had.
    pub blocks_before: u64,
    /// How many it has.
    pub blocks_after: u64,
    /// Blocks of files that are at another place.
    pub blocks_moved: u64,
    /// Blocks that were written through the log: 0 after [`Options::would_resize`].
    pub blocks: u64,
}

impl Resized {
    fn of(resized: &extant_repair::Resized, blocks: u64) -> Resized {
        Resized {
            block_size: resized.after.block_size(),
            blocks_before: resized.before.blocks_count,
            blocks_after: resized.after.blocks_count,
            blocks_moved: resized.moved_blocks,
            blocks,
        }
    }
}

/// An image whose length changes with the volume that ends with it.
struct Ending<'a> {
    growing: &'a Growing,
    clock: Arc<dyn Clock>,
    name: String,
    offset: u64,
}

impl Length for Ending<'_> {
    fn set(&self, image_bytes: u64) -> io::Result<Arc<dyn BlockDevice>> {
        let (clock, name) = (&self.clock, self.name.clone());
        let device: Arc<dyn BlockDevice> = match self.growing {
            Growing::File(file) => {
                file.set_len(image_bytes)?;
                let file = file.try_clone()?;
                Arc::new(FileDevice::from_file(Arc::clone(clock), file, name, image_bytes, 0)?)
            }
            // Its disk does not become shorter: what is past the end is given back.
            Growing::Qcow2(disk) => {
                let device = Arc::clone(disk) as Arc<dyn BlockDevice>;
                match device.info().bytes.checked_sub(image_bytes) {
                    None => disk.grow(image_bytes)?,
                    Some(rest) => drop(device.discard(image_bytes, rest)),
                }
                device
            }
            Growing::Memory(memory) => {
                let medium = Memory::medium(memory);
                medium.set_length(image_bytes)?;
                medium.device(clock, &name, 0, image_bytes)?
            }
        };
        Ok(match self.offset {
            0 => device,
            offset => Arc::new(Window::new(device, offset..image_bytes, self.name.clone())),
        })
    }
}

impl Options {
    /// Gives a volume another size, in memory first, and writes it as one change: a crash leaves it
    /// as it was or as it is to be. A journal that waits and orphans are brought to an end before.
    /// A file or memory that ends with the volume becomes longer or shorter with it.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let memory = extant::Memory::new();
    /// # extant::Builder::new().build_memory(&memory)?;
    /// use extant::{NewSize, Options};
    /// let resized = Options::new().resize(memory.clone(), NewSize::Bytes(64 << 20))?;
    /// assert_eq!(resized.blocks_after * u64::from(resized.block_size), 64 << 20);
    /// assert_eq!(memory.len(), 64 << 20);
    /// # extant_testkit::oracle::example(&|path| std::fs::write(path, memory.to_vec())).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`repair`](Options::repair); `Damaged` for a volume that is not clean; `NoSpace`
    /// where its files need more, or where it is in has no room; `InvalidInput` for a journal on
    /// another device. Nothing was written then.
    pub fn resize(&self, image: impl Into<Image>, size: NewSize) -> Result<Resized> {
        self.refuse_other_journal()?;
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let resized = || {
            let room = (closed.room, closed.growing.is_some());
            let device = &closed.device;
            let options = self.mending(Scope::Safe)?;
            if let Some((overlay, size_of)) = extant_repair::settled(Arc::clone(device), options)? {
                // What is refused after that is refused before anything is written.
                let over = Arc::clone(&overlay) as Arc<dyn BlockDevice>;
                drop(self.planned(&over, room, size)?);
                closed.apply((&overlay, size_of), Keep::Nothing)?;
            }
            let planned = self.planned(device, room, size)?;
            let blocks = match planned.before.blocks_count == planned.after.blocks_count {
                true => 0,
                false => written(&closed, &planned)?,
            };
            Ok(Resized::of(&planned, blocks))
        };
        resized().map_err(|error: Error| error.at(&closed.name))
    }

    /// What [`resize`](Options::resize) would do. Nothing is written, and others may read the image
    /// meanwhile.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn would_resize(&self, image: impl Into<Image>, size: NewSize) -> Result<Resized> {
        self.refuse_other_journal()?;
        let found = opening::find(image.into(), self, Access::ReadOnly)?;
        let room = (found.room, found.growing.is_some());
        let resized = || {
            let options = self.mending(Scope::Safe)?;
            let settled = extant_repair::settled(Arc::clone(&found.device), options)?;
            let device = match settled {
                Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
                None => Arc::clone(&found.device),
            };
            Ok(Resized::of(&self.planned(&device, room, size)?, 0))
        };
        resized().map_err(|error: Error| error.at(&found.name))
    }

    pub(crate) fn refuse_other_journal(&self) -> Result<()> {
        match &self.journal {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::InvalidInput,
                "a volume with its journal on another device is not resized or tuned",
            )),
        }
    }

    /// The volume as it is to be.
    fn planned(
        &self,
        device: &Arc<dyn BlockDevice>,
        (room, can_grow): (u64, bool),
        size: NewSize,
    ) -> Result<extant_repair::Resized> {
        let block_size = u64::from(read_superblock(&**device)?.block_size());
        let RepairOptions { threads, now_seconds, .. } = self.mending(Scope::Safe)?;
        let mut options = || ResizeOptions {
            threads,
            // Without a place for it the changes have to fit into memory.
            spool: tempfile::tempfile().ok(),
            now_seconds,
            progress: None,
        };
        let bytes = match size {
            NewSize::Least => {
                return Ok(extant_repair::minimize(Arc::clone(device), &mut options)?);
            }
            NewSize::Most => room,
            NewSize::Bytes(bytes) => bytes,
        };
        if bytes > room && !can_grow {
            let words = format!("{bytes} bytes are more than it has room for, {room}");
            return Err(Error::new(ErrorKind::NoSpace, words));
        }
        Ok(extant_repair::resize(Arc::clone(device), bytes / block_size, options())?)
    }
}

/// Writes a volume of another size, or with other blocks of its own; gives how many blocks.
pub(crate) fn written(closed: &Closed, planned: &extant_repair::Resized) -> Result<u64> {
    let block_size = planned.after.block_size();
    let bytes_of = |blocks: u64| blocks.saturating_mul(block_size.into());
    let moved =
        |it: &extant_repair::Move| Moved { from: it.from.0, to: it.to.0, blocks: it.blocks };
    let ahead =
        Ahead { moves: planned.moves.iter().map(moved).collect(), zeros: planned.zeros.clone() };
    let sized = Sized {
        overlay: &planned.overlay,
        ahead: &ahead,
        block_size,
        bytes_before: bytes_of(planned.before.blocks_count),
        bytes_after: bytes_of(planned.after.blocks_count),
    };
    let ending = closed.growing.as_ref().map(|growing| Ending {
        growing,
        clock: Arc::clone(closed.device.clock()),
        name: closed.name.clone(),
        offset: closed.identity.offset,
    });
    let target = Target {
        device: &closed.device,
        length: ending.as_ref().map(|ending| ending as &dyn Length),
        log: closed.log()?,
        identity: closed.identity,
        e2undo: None,
    };
    Ok(resized::apply(&sized, &target)?.blocks)
}
