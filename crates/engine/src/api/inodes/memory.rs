//! Dropping what is in memory and can be read again.
use super::{Inode, Inodes};
use crate::error::Result;
use crate::inode::Node;

impl Inodes<'_> {
    /// Drops the clean blocks of a file from memory; the next use of one reads it again.
    ///
    /// # Errors
    /// `InvalidArgument` for an inode of another volume.
    pub fn drop_pages(&self, inode: &Inode) -> Result<()> {
        drop_clean(self.node(inode)?);
        Ok(())
    }

    /// Drops from memory the clean blocks of all files, and clean inodes that are not in use.
    /// Metadata frames stay: their number is bounded.
    pub fn drop_all(&self) {
        for node in self.core.inodes.nodes.with_pages() {
            drop_clean(&node);
        }
        self.core.inodes.nodes.drop_idle(&self.core.inodes.volume);
    }
}

fn drop_clean(node: &Node) {
    let state = node.state.write();
    node.pages.drop_clean(&state.dirty);
}
