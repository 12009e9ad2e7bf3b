//! Extended attributes: a list in the inode's tail (after a magic number) and a list in a block of their own, which
//! several inodes may share.
//!
//! Names are full names as in `getxattr` ("user.x", "security.capability", "system.posix_acl_access"); values are as
//! `getxattr` gives them: access lists are converted (see `acl`).
use crate::superblock::Superblock;
use crate::{BlockNo, Fault};

/// A name and its value, as getxattr gives them.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct Attribute {
    /// Full name with prefix, without NUL; at most 255 bytes after the prefix.
    pub name: Vec<u8>,
    /// At most 64 KiB.
    pub value: Vec<u8>,
}

/// Why a list of attributes cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeError {
    /// A name without a known prefix: EOPNOTSUPP.
    UnknownPrefix,
    /// A name too long, or empty after its prefix: ERANGE/EINVAL.
    BadName,
    /// They do not fit in inode and block together: ENOSPC.
    NoRoom,
    /// An access list that is not one: EINVAL.
    BadAccessList,
}

/// The attributes in an inode's tail; empty when it has no magic. Order as stored.
pub fn parse_tail(_tail: &[u8]) -> Result<Vec<Attribute>, Fault> {
    todo!()
}
/// The attributes in a block. The checksum is verified (metadata_csum), and the header (magic, one block).
pub fn parse_block(_bytes: &[u8], _block: BlockNo, _superblock: &Superblock) -> Result<Vec<Attribute>, Fault> {
    todo!()
}
/// How many inodes share the block (header field).
pub fn reference_count(_bytes: &[u8]) -> u32 {
    todo!()
}
/// Sets the count and the checksum.
pub fn set_reference_count(_bytes: &mut [u8], _count: u32, _block: BlockNo, _superblock: &Superblock) {
    todo!()
}
/// Most sharers that a block may have.
pub const REFERENCE_MAX: u32 = 1024;

/// Where each attribute of a list goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// The tail's new bytes (as long as the old), all zero when nothing goes there.
    pub tail: Vec<u8>,
    /// The block's new bytes (reference count 1, hashes set, checksum not), or `None` when no block is needed.
    pub block: Option<Vec<u8>>,
}

/// Lays out a whole list: as many as fit in the tail, the rest in the block. Deterministic: sorted as the kernel sorts
/// block entries (prefix index, name length, name). Attributes already in the tail need not stay there.
pub fn place(_attributes: &[Attribute], _tail_length: usize, _superblock: &Superblock) -> Result<Placed, AttributeError> {
    todo!()
}
/// Writes the block's checksum for its place.
pub fn seal_block(_bytes: &mut [u8], _block: BlockNo, _superblock: &Superblock) {
    todo!()
}
/// Whether the name has a prefix that can be kept, and is not too long.
pub fn check_name(_name: &[u8]) -> Result<(), AttributeError> {
    todo!()
}
