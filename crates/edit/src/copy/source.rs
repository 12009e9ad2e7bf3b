//! What a copy is made of.
use crate::error::Result;
use crate::tree::Links;
use crate::walk::{Found, Spot, Tree};
use extant_format::attribute::Attribute;
use std::ops::Range;

/// A tree that is read.
pub trait Source: Tree {
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of the tree.
    fn target(&self, spot: Spot<'_>) -> Result<Vec<u8>>;
    /// Extended attributes, access lists as getxattr(2) has them.
    ///
    /// # Errors
    /// Those of the tree.
    fn attributes(&self, spot: Spot<'_>, links: Links) -> Result<Vec<Attribute>>;
    /// Opens a file that has these facts.
    ///
    /// # Errors
    /// Those of the tree; it is another file by now.
    fn open(&self, spot: Spot<'_>, facts: &Found) -> Result<Box<dyn Body>>;
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
