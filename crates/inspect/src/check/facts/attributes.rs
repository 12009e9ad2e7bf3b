//! Which inodes have attributes outside of them: in a block that several share, or in inodes that
//! are values.
//!
//! *Locking*: one short lock around each list, held for a push.
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};

/// An inode with an attribute block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sharer {
    /// The block. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    /// The inode that has it.
    pub(crate) ino: Ino,
}

/// Attribute blocks with the inodes that have them, and inodes that are values.
#[derive(Default)]
pub(crate) struct Sharers {
    blocks: ShortLock<Vec<Sharer>>,
    values: ShortLock<Vec<Ino>>,
}

impl Sharers {
    /// An inode has an attribute block.
    pub(crate) fn add(&self, sharer: Sharer) {
        self.blocks.lock().push(sharer);
    }

    /// An attribute has this inode as its value.
    pub(crate) fn add_value(&self, ino: Ino) {
        self.values.lock().push(ino);
    }

    /// All attribute blocks, by place.
    pub(crate) fn sorted(&self) -> Vec<Sharer> {
        let mut sharers = self.blocks.lock().clone();
        sharers.sort_unstable();
        sharers
    }

    /// The inodes that are values, rising; each once for every attribute that has it.
    pub(crate) fn values(&self) -> Vec<Ino> {
        let mut values = self.values.lock().clone();
        values.sort_unstable();
        values
    }
}

/// What other judges of an inode have to know of its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeldByAttributes {
    /// Blocks that count as the file's: its attribute block, and what the inodes of large values
    /// take.
    pub(crate) blocks: u64,
    /// Inodes that hold large values, one for each value.
    pub(crate) value_inodes: u64,
    /// It has the attribute in which data of the inode goes on (`system.data`).
    pub(crate) has_inline_data: bool,
    /// Bytes of that attribute.
    pub(crate) inline_bytes: u64,
    /// It has an encryption context.
    pub(crate) has_encryption: bool,
}
