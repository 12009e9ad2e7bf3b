//! An open file of a volume.
use crate::error::{Error, Result};
use extant_engine::Metadata;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open file. Reads and writes through [`Read`], [`Write`] and [`Seek`], or at offsets from many
/// threads; an error of those has an [`Error`] in it. It borrows nothing, and keeps the image
/// claimed for as long as it lives; it is not written after its volume was closed.
///
/// What is written is in memory until [`File::sync`], [`Volume::sync`](crate::Volume::sync) or
/// [`Volume::close`](crate::Volume::close): dropping a file makes nothing durable.
pub struct File {
    file: extant_engine::File,
    path: PathBuf,
}

impl File {
    pub(crate) fn new(file: extant_engine::File, path: &Path) -> File {
        File { file, path: path.to_owned() }
    }

    fn said(&self, error: extant_engine::Error) -> Error {
        error.at(&self.path).into()
    }

    /// What `fstat` tells.
    ///
    /// # Errors
    /// `NotFound` if it had no name when the volume was closed.
    pub fn metadata(&self) -> Result<Metadata> {
        self.file.metadata().map_err(|error| self.said(error))
    }

    /// Reads at an offset; returns how many bytes: fewer than asked for only at the end.
    ///
    /// # Errors
    /// `Damaged`; what the device returns.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, bytes).map_err(|error| self.said(error))
    }

    /// Writes all of it at an offset. What is between the end and the offset is a hole.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`, `NotPermitted`; a part of it may be written.
    pub fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(offset, bytes).map_err(|error| self.said(error))
    }

    /// Sets the size in bytes.
    ///
    /// # Errors
    /// As for a write.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| self.said(error))
    }

    /// Makes what was written durable, and all that was done before.
    ///
    /// # Errors
    /// What the device returns; after that nothing more is written.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| self.said(error))
    }
}

impl Read for File {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes).map_err(|error| named(error, &self.path))
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| named(error, &self.path))
    }
    /// Does nothing: see [`File::sync`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to).map_err(|error| named(error, &self.path))
    }
}

/// The engine's error in the host's, as ours.
fn named(error: io::Error, path: &Path) -> io::Error {
    match error.downcast::<extant_engine::Error>() {
        Ok(error) => Error::from(error.at(path)).into(),
        Err(error) => error,
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.path.display())
    }
}
