//! Where a copy goes.
use super::Description;
use crate::error::{Error, Result};
use crate::tree::Links;
use crate::walk::{Found, Spot};
use extant_format::inode::{Device, FileType};
use std::path::Path;

/// A file that was written, for its further names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Original {
    /// What the sink knows it by: a number of its own.
    pub number: u64,
    /// Its name in its folder, where that is needed too.
    pub name: Vec<u8>,
}

/// A tree that is written, with one folder open.
pub trait Sink {
    /// Opens the folder that a path is in, and returns what is left of the path.
    ///
    /// # Errors
    /// Those of the tree.
    fn begin(&self, path: &Path) -> Result<Vec<u8>>;
    /// Opens a directory in place of the folder that is open.
    ///
    /// # Errors
    /// Those of the tree.
    fn enter(&self, spot: Spot<'_>) -> Result<()>;
    /// Opens the folder again that was open before.
    ///
    /// # Errors
    /// Those of the tree, about the path of the folder that is left.
    fn leave(&self, path: &Path) -> Result<()>;
    /// What is at a path; `None` if nothing is.
    ///
    /// # Errors
    /// Those of the tree.
    fn found(&self, spot: Spot<'_>, links: Links) -> Result<Option<Found>>;
    /// Makes a directory.
    ///
    /// # Errors
    /// Those of the tree; it is there.
    fn make_directory(&self, spot: Spot<'_>, permissions: u16) -> Result<()>;
    /// Makes a file, and opens it.
    ///
    /// # Errors
    /// Those of the tree; it is there.
    fn make_file(&self, spot: Spot<'_>, permissions: u16) -> Result<Box<dyn Target>>;
    /// Cuts a file to nothing, and opens it.
    ///
    /// # Errors
    /// Those of the tree.
    fn open_cut(&self, spot: Spot<'_>) -> Result<Box<dyn Target>>;
    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of the tree.
    fn make_symlink(&self, spot: Spot<'_>, target: &[u8]) -> Result<()>;
    /// Makes a pipe, a socket or a device.
    ///
    /// # Errors
    /// Those of the tree.
    fn make_node(
        &self,
        spot: Spot<'_>,
        kind: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()>;
    /// What a file is known by for its further names.
    ///
    /// # Errors
    /// Those of the tree.
    fn original(&self, spot: Spot<'_>) -> Result<Original>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// Those of the tree.
    fn link(&self, original: &Original, spot: Spot<'_>) -> Result<()>;
    /// Removes anything but a directory.
    ///
    /// # Errors
    /// Those of the tree.
    fn remove(&self, spot: Spot<'_>) -> Result<()>;
    /// Gives an object what it is to have. `links` says whether a symbolic link itself gets it, or
    /// what it leads to.
    ///
    /// # Errors
    /// Those of the tree.
    fn describe(&self, spot: Spot<'_>, links: Links, description: &Description) -> Result<()>;
    /// An error about a path of it.
    fn error(&self, path: &Path, said: &str) -> Error;
    /// What tells this tree from others.
    fn tree_identity(&self) -> Option<usize>;
}

/// An open file of a sink.
pub trait Target {
    /// Writes at an offset; what is left out between is a hole.
    ///
    /// # Errors
    /// Those of the tree.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()>;
    /// All was written: the file has this size.
    ///
    /// # Errors
    /// Those of the tree.
    fn end(&mut self, size: u64) -> Result<()>;
}
