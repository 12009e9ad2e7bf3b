//! The journal of a volume that is on another device, as the user names it: opened beside the
//! volume and joined to it, so that everything after that finds the journal.
use crate::disk;
use crate::error::Error;
use extant_block::{Access, BlockDevice, FileDevice};
use extant_engine::read_superblock;
use extant_journal::join;
use std::path::Path;
use std::sync::Arc;

/// The volume of an image with the device of its journal behind it, opened for reading; the volume
/// alone where none is named.
///
/// # Errors
/// It is not the volume's journal; as [`disk::open`].
pub fn read(
    image: &Path,
    journal: Option<&Path>,
    volume: Arc<dyn BlockDevice>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    match journal {
        Some(path) => joined(image, path, volume, || Ok(disk::open(path, 0, None)?.device)),
        None => Ok(volume),
    }
}

/// As [`read`], opened for writing and locked, on the clock of the volume.
///
/// # Errors
/// As [`read`]; it is in use; the host's.
pub fn write(
    image: &Path,
    journal: Option<&Path>,
    volume: Arc<dyn BlockDevice>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let Some(path) = journal else { return Ok(volume) };
    let clock = Arc::clone(volume.clock());
    joined(image, path, volume, || {
        let place = disk::writable(path, 0)?;
        let file = FileDevice::open(clock, &place.file, Access::ReadWrite, 0);
        let file = file.map_err(|error| disk::unopened(path, &error))?;
        Ok(place.on(Arc::new(file), path))
    })
}

/// Whether a volume has its journal on another device: only then one can be given.
pub fn is_elsewhere(volume: &dyn BlockDevice) -> bool {
    read_superblock(volume).is_ok_and(|superblock| {
        matches!(
            extant_journal::check_place(volume, &superblock),
            Err(extant_journal::Error::External(_))
        )
    })
}

fn joined(
    image: &Path,
    path: &Path,
    volume: Arc<dyn BlockDevice>,
    open: impl FnOnce() -> Result<Arc<dyn BlockDevice>, Error>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let journal = open()?;
    let (shown, of) = (path.display(), image.display());
    match join(Arc::clone(&volume), journal) {
        Ok(joined) => Ok(joined),
        // What the volume is instead is said by who opens it.
        Err(extant_journal::Error::Volume(_)) => Ok(volume),
        Err(extant_journal::Error::NotItsJournal(reason)) => {
            Err(Error::new(format!("{shown}: is not the journal of {of}: {reason}")))
        }
        Err(error) => Err(Error::new(format!("{shown}: the journal of {of}: {error}"))),
    }
}
