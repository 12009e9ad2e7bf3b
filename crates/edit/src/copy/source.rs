//! What a copy is made of.
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use std::ops::Range;
use std::path::Path;

/// What an object is like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Its type.
    pub file_type: FileType,
    /// The twelve bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Names.
    pub links: u64,
    /// Last read.
    pub access_time: Time,
    /// Last modified.
    pub modify_time: Time,
    /// Inode last changed.
    pub change_time: Time,
    /// Numbers of a device.
    pub device: Device,
    /// What tells it from all others of its source: device and inode number.
    pub identity: (u64, u64),
}

/// A tree that is read.
pub trait Source {
    /// What is at a path.
    ///
    /// # Errors
    /// Those of the tree; nothing is there.
    fn facts(&self, path: &Path, links: Links) -> Result<Facts>;
    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// Those of the tree.
    fn names(&self, path: &Path) -> Result<Vec<Vec<u8>>>;
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of the tree.
    fn target(&self, path: &Path) -> Result<Vec<u8>>;
    /// Extended attributes, access lists as getxattr(2) has them.
    ///
    /// # Errors
    /// Those of the tree.
    fn attributes(&self, path: &Path, links: Links) -> Result<Vec<Attribute>>;
    /// Opens a file that has these facts.
    ///
    /// # Errors
    /// Those of the tree; it is another file by now.
    fn open(&self, path: &Path, facts: &Facts) -> Result<Box<dyn Body>>;
    /// An error about a path of it.
    fn error(&self, path: &Path, said: &str) -> Error;
    /// What tells this tree from others; `None` if it is none that a copy could go to.
    fn tree_identity(&self) -> Option<usize>;
}

/// An open file of a source.
pub trait Body {
    /// The next stretch of data from an offset on; `None` if only a hole is left.
    ///
    /// # Errors
    /// Those of the tree.
    fn next_data(&mut self, at: u64, size: u64) -> Result<Option<Range<u64>>>;
    /// Reads at an offset; 0 at the end.
    ///
    /// # Errors
    /// Those of the tree.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<usize>;
    /// All was read.
    ///
    /// # Errors
    /// It changed meanwhile.
    fn end(&mut self) -> Result<()>;
}
