//! The disk as types: what ext2, ext3 and ext4 keep on a volume, as plain bytes and as checked
//! values.
//!
//! Nothing here does I/O, knows the time or takes a lock. Every function takes bytes and gives
//! values, or takes values and gives bytes; bytes are never trusted.
//!
//! Most structures have three forms: the raw bytes as a private `Raw...` struct, which alone knows
//! offsets; a *stored* view (`StoredSuperblock`, `StoredInode`, `extent::StoredNode`, ...) that
//! reads fields whatever they hold, for programs that judge; and a checked value, for programs that
//! use it. `Superblock::parse` and its like are the only way from bytes to a checked value.
//!
//! # Modules
//!
//! ```text
//! superblock   layout (where a volume keeps things: placing, sizing; layout::growth: at another
//!              size)                                  feature   its bits
//! group        descriptors and their checksums        bitmap     runs of bits
//! inode        one inode                              checksum   crc32c and its seeds
//! extent       nodes of extent trees                  indirect   blocks of pointers
//! directory    blocks of names, and their index       hash       of names
//! fold         names without case; fold::assigned: which code points Linux knows
//! attribute    extended attributes                    acl        access lists
//! journal      its superblock, the blocks of its log    orphan_file, mount_block, quota_file
//! calendar     times as dates
//! stored       fields of raw bytes; superblock::{raw, stored}, inode::stored, extent::stored,
//!              attribute::stored, group::stored, layout::stored: views that believe nothing
//! superblock::torn   one of which a cut left half
//! sum          inode::sum: the checksum of an inode
//! value        inode::value, attribute::in_inodes: attributes' values in inodes of their own
//! ```
//!
//! # The disk in one picture
//!
//! ```text
//! | boot | super | descriptors | reserved descriptors | bitmaps | inode table | data ...   group 0
//! |      ( super | descriptors | reserved descriptors: some groups only ) | bitmaps | inode table | data ...
//! ```
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod acl;
pub mod attribute;
pub mod bitmap;
pub mod calendar;
pub mod checksum;
pub mod directory;
pub mod extent;
mod feature;
pub mod fold;
pub mod group;
pub mod hash;
pub mod indirect;
pub mod inode;
pub mod journal;
pub mod layout;
pub mod mount_block;
pub mod orphan_file;
pub mod quota_file;
mod stored;
pub mod superblock;

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
number!(
    /// A block of the volume, counted from its start; block 0 holds (or precedes) the superblock.
    /// Prints as `b345`.
    BlockNo, u64, "b"
);
number!(
    /// A block of a file, counted from the file's start. Prints as `f12`.
    FileBlock, u32, "f"
);
number!(
    /// An inode number, from 1. Prints as `i2`.
    Ino, u32, "i"
);
number!(
    /// A block group, from 0. Prints as `g7`.
    GroupNo, u32, "g"
);

/// Bytes of a sector: the unit in which an inode counts what it takes.
pub const SECTOR_BYTES: u64 = 512;

impl Ino {
    /// The list of bad blocks.
    pub const BAD_BLOCKS: Ino = Ino(1);
    /// The root directory.
    pub const ROOT: Ino = Ino(2);
    /// The quota file of users, unless the superblock names another.
    pub const USER_QUOTA: Ino = Ino(3);
    /// The quota file of groups, unless the superblock names another.
    pub const GROUP_QUOTA: Ino = Ino(4);
    /// Reserved for files that can be undeleted, which never came.
    pub const UNDELETE: Ino = Ino(6);
    /// The inode that maps the descriptor blocks kept for growth.
    pub const RESIZE: Ino = Ino(7);
    /// The journal of ext3 and ext4.
    pub const JOURNAL: Ino = Ino(8);
    /// Reserved for snapshots, which never came.
    pub const EXCLUDE: Ino = Ino(9);
    /// Reserved for replicas, which never came.
    pub const REPLICA: Ino = Ino(10);
    /// The last inode that every volume reserves.
    pub const RESERVED_LAST: Ino = Ino(10);
}

/// Consecutive blocks of the volume. `length` is never 0 where a run is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Run {
    /// The first block.
    pub start: BlockNo,
    /// How many blocks.
    pub length: u32,
}

/// What a structure on the disk says that cannot be. It knows the structure; its caller knows the
/// place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The stored checksum is not that of the bytes.
    Checksum {
        /// The structure, in words: "extent block".
        structure: &'static str,
        /// What the disk says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A magic number is missing.
    Magic {
        /// The structure, in words.
        structure: &'static str,
        /// What is in its place.
        found: u32,
    },
    /// A field holds a value that is impossible there.
    Field {
        /// The structure, in words.
        structure: &'static str,
        /// The field, in words.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// Why that cannot be: "larger than a block".
        reason: &'static str,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Checksum { structure, stored, computed } => {
                write!(
                    f,
                    "{structure}: checksum {stored:#010x} is stored, its bytes give \
                     {computed:#010x}"
                )
            }
            Fault::Magic { structure, found } => {
                write!(f, "{structure}: no magic number (found {found:#x})")
            }
            Fault::Field { structure, field, value, reason } => {
                write!(f, "{structure}: {field} {value} is {reason}")
            }
        }
    }
}
impl std::error::Error for Fault {}
