//! Where a copy goes.
use super::Description;
use super::source::Facts;
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_format::inode::{Device, FileType};
use std::path::Path;

/// A tree that is written.
pub trait Sink {
    /// What is at a path; `None` if nothing is.
    ///
    /// # Errors
    /// Those of the tree.
    fn found(&self, path: &Path, links: Links) -> Result<Option<Facts>>;
    /// Makes a directory.
    ///
    /// # Errors
    /// Those of the tree; it is there.
    fn make_directory(&self, path: &Path, permissions: u16) -> Result<()>;
    /// Makes a file, and opens it.
    ///
    /// # Errors
    /// Those of the tree; it is there.
    fn make_file(&self, path: &Path, permissions: u16) -> Result<Box<dyn Target>>;
    /// Cuts a file to nothing, and opens it.
    ///
    /// # Errors
    /// Those of the tree.
    fn open_cut(&self, path: &Path) -> Result<Box<dyn Target>>;
    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of the tree.
    fn make_symlink(&self, path: &Path, target: &[u8]) -> Result<()>;
    /// Makes a pipe, a socket or a device.
    ///
    /// # Errors
    /// Those of the tree.
    fn make_node(
        &self,
        path: &Path,
        kind: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// Those of the tree.
    fn link(&self, original: &Path, path: &Path) -> Result<()>;
    /// Removes anything but a directory.
    ///
    /// # Errors
    /// Those of the tree.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives an object what it is to have. `links` says whether a symbolic link itself gets it, or
    /// what it leads to.
    ///
    /// # Errors
    /// Those of the tree.
    fn describe(&self, path: &Path, links: Links, description: &Description) -> Result<()>;
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
