//! Changes of a volume that reach its image together or not at all.
use crate::error::{Error, Result};
use crate::image::Image;
use crate::opening;
use crate::options::{Errors, Options};
use crate::volume::{Closing, Volume};
use extant_block::Access;
use extant_edit::{Change, ChangeOptions, OnErrors, redo};
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use tempfile::TempDir;

/// A volume under changes, with all calls of a [`Volume`]. [`Transaction::commit`] brings them to
/// the image; dropped, all of them are gone, and so they are after a crash or a power cut at any
/// moment before the commit was decided.
///
/// The changes are held in memory, and in a temporary file beyond 256 MiB. They become durable by
/// one transaction of the volume's journal. Where they do not fit into it, or there is none, a redo
/// log is written beside an image that has a path, which every later opening of the image respects;
/// in memory nothing is needed; for a [`Device`](crate::Device) or an open file the commit fails.
///
/// ```
/// # fn main() -> extant::Result<()> {
/// # let image = extant::Memory::new();
/// # extant::Builder::new().free(1 << 20).build_memory(&image)?;
/// let change = extant::Transaction::begin(image)?;
/// change.create_dir_all("/etc/conf.d")?;
/// change.write("/etc/conf.d/net", b"dhcp\n")?;
/// change.commit()
/// # }
/// ```
#[must_use = "nothing happens unless it is committed"]
pub struct Transaction {
    // Ended before the volume lets go of its memory.
    change: Change,
    volume: Volume,
    name: String,
    /// Where the redo log of memory is, which is of no use once the process has ended.
    _scratch: Option<TempDir>,
}

impl Transaction {
    /// Begins changes of a volume. A journal that waits is replayed on the image first.
    ///
    /// # Errors
    /// As for [`Options::open`].
    pub fn begin(image: impl Into<Image>) -> Result<Transaction> {
        Options::default().begin(image)
    }

    fn with(image: Image, options: &Options) -> Result<Transaction> {
        let mut found = opening::find(image, options, Access::ReadWrite)?;
        let hold = found.hold.take();
        let scratch = match &hold {
            Some(_) => Some(tempfile::tempdir()?),
            None => None,
        };
        let of_memory = scratch.as_ref().map(|folder| folder.path().join("redo"));
        let beside = found.path.as_deref().and_then(redo::path_of);
        let log: Option<PathBuf> = of_memory.or(beside);
        let how = ChangeOptions {
            redo: log.map(|log| (log, found.identity)),
            on_errors: match options.errors {
                Errors::Refuse => OnErrors::Refuse,
                Errors::Ignore => OnErrors::Continue,
            },
            held_bytes_max: None,
        };
        let opened = || {
            opening::refuse_errors(&found.device, options)?;
            Ok(Change::open(found.device, &how)?)
        };
        let change = opened().map_err(|error: Error| error.at(&found.name))?;
        let volume = Volume::of(change.filesystem().clone(), Closing::Transaction, hold);
        Ok(Transaction { change, volume, name: found.name, _scratch: scratch })
    }

    /// Makes the changes durable: all of them, or none.
    ///
    /// # Errors
    /// What the device returns; no room for the changes. The image is as before; unless the device
    /// failed after all was decided, and then the next opening of it for writing ends the change.
    pub fn commit(self) -> Result<()> {
        let Transaction { change, volume, name, _scratch } = self;
        let committed = change.commit().map_err(|error| Error::from(error).at(name));
        drop(volume);
        committed.map(drop)
    }
}

impl Options {
    /// Opens a volume for changes that reach the image together or not at all, whatever
    /// [`write`](Options::write) says.
    ///
    /// # Errors
    /// As for [`open`](Options::open).
    pub fn begin(&self, image: impl Into<Image>) -> Result<Transaction> {
        Transaction::with(image.into(), self)
    }
}

/// The volume as the changes have left it so far. What [`Volume::sync`] makes durable is part of
/// the changes.
impl Deref for Transaction {
    type Target = Volume;
    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({})", self.name)
    }
}
