//! Dropping what is kept in memory and can be read again.
use super::{Inode, Inodes};
use crate::error::Result;
use crate::inode::Node;

impl Inodes<'_> {
    /// Drops the blocks of a file that are in memory and have nothing to write; they are read again
    /// when they are wanted.
    ///
    /// # Errors
    /// `InvalidArgument` for an inode of another volume.
    pub fn drop_pages(&self, inode: &Inode) -> Result<()> {
        drop_clean(self.node(inode)?);
        Ok(())
    }

    /// Drops what is in memory of all files and has nothing to write: blocks, and inodes that
    /// nobody refers to. Metadata frames stay: their number is bounded.
    pub fn drop_all(&self) {
        for node in self.core.inodes.nodes.all() {
            drop_clean(&node);
        }
        self.core.inodes.nodes.drop_idle(&self.core.inodes.volume);
    }
}

fn drop_clean(node: &Node) {
    let state = node.state.write();
    node.pages.drop_clean(|block| state.dirty.contains(block.into()));
}
