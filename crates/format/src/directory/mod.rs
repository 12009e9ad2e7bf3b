//! Directory blocks on plain bytes: entries, and the nodes of the hash index.
//!
//! A leaf block is a chain of entries that covers the block exactly; with metadata_csum its last 12
//! bytes are a tail that looks like an unused entry. Record lengths of 65,536 are stored specially
//! in 64 KiB blocks.
//!
//! ```text
//! leaf | ino | length | name length | type | name | ... | tail: 0 | 12 | 0 | 0xde | checksum |
//! root | "." | ".." to the end | info | limit, count, block | hash, block | ... | 0, checksum |
//! node | unused, whole block       | limit, count, block | hash, block | ... | 0, checksum |
//! ```
//!
//! ```text
//! leaf      entries                index     roots and nodes of the hash index
//! legal     names that no file may have, and what they are saved as
//! stored    reads what is there, whatever it is
//! ```
//! The checksums of both are here.
mod index;
mod leaf;
pub mod legal;
pub mod stored;

pub use index::{IndexPlace, IndexView, LEVELS_MAX, LEVELS_MAX_LARGE, RootInfo};
pub use leaf::{Entries, Sought};

use crate::checksum::crc32c;
use crate::inode::FileType;
use crate::{Fault, FileBlock, Ino};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// What all blocks of directories on one volume have in common.
///
/// Every method that takes a block takes all of it, `block_size` bytes. Those that give no
/// [`Fault`] panic on fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Bytes of a block.
    pub block_size: u32,
    /// Entries hold a type byte (filetype).
    pub typed: bool,
    /// Blocks end with a checksum tail (metadata_csum).
    pub checksummed: bool,
}

/// One entry, borrowed from its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Byte offset in the block.
    pub offset: usize,
    /// 0 marks an unused one.
    pub ino: Ino,
    /// `None` where the volume keeps no types or the code is unknown.
    pub file_type: Option<FileType>,
    /// At most 255 bytes: at least one, without slash and NUL, unless it comes from
    /// [`Style::all_entries`].
    pub name: &'a [u8],
}

/// Whether it is one of the two names that every directory has for itself and the one above.
pub fn is_own(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The first bytes of an entry; its name follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    ino: U32,
    length: U16,
    name_length: u8,
    code: u8,
}

/// Bytes of an entry before its name.
pub const HEADER: usize = 8;
/// The shortest record: an entry whose name has 1 to 4 bytes.
pub const RECORD_MIN: usize = 12;
/// Bytes of a leaf's checksum tail.
const TAIL: usize = 12;

/// The last bytes of a leaf with a checksum: an unused entry to systems that do not know it.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTail {
    entry: RawEntry,
    checksum: U32,
}

/// The type byte of a tail.
const TAIL_CODE: u8 = 0xde;

impl RawTail {
    fn new(checksum: u32) -> RawTail {
        let entry =
            RawEntry { ino: U32::ZERO, length: U16::new(12), name_length: 0, code: TAIL_CODE };
        RawTail { entry, checksum: U32::new(checksum) }
    }

    /// Whether this is a tail at all.
    fn is_tail(&self) -> bool {
        self.entry.as_bytes() == RawTail::new(0).entry.as_bytes()
    }
}

/// What a block is, as far as its checksum is concerned.
enum BlockKind {
    Leaf,
    Index(IndexPlace),
}

/// A record length from its stored form. Blocks of 64 KiB hold one that 16 bits do not; 65,536 is
/// stored as 0xffff or 0, and the low two bits, else always 0, are the high bits of lengths above
/// (none is valid in a block of this size).
#[inline]
fn decode_length(block_bytes: usize, stored: u16) -> usize {
    let stored = usize::from(stored);
    match stored {
        _ if block_bytes < 0x1_0000 => stored,
        0 | 0xffff => 0x1_0000,
        _ => (stored & 0xfffc) | ((stored & 3) << 16),
    }
}

fn field(structure: &'static str, field: &'static str, value: u64, reason: &'static str) -> Fault {
    Fault::Field { structure, field, value, reason }
}

/// Whether a directory has a hash index, whose nodes keep their checksums in another place than
/// leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Leaves only.
    Linear,
    /// An index and its leaves.
    Indexed,
}

impl Form {
    /// That of a directory whose inode has these flags, on a volume with dir_index.
    pub fn of(inode_flags: u32) -> Form {
        match inode_flags & crate::inode::flags::INDEX {
            0 => Form::Linear,
            _ => Form::Indexed,
        }
    }
}

impl Style {
    /// Stores the checksum of a leaf or index block (its content says which), when
    /// checksummed. Block 0 of an indexed directory is its root.
    pub fn seal(&self, bytes: &mut [u8], block: FileBlock, form: Form, inode_seed: u32) {
        if !self.checksummed {
            return;
        }
        match self.kind(bytes, block, form) {
            BlockKind::Leaf => self.seal_leaf(bytes, inode_seed),
            BlockKind::Index(place) => self.seal_index(bytes, place, inode_seed),
        }
    }

    /// Verifies what `seal` stores.
    pub fn verify(
        &self,
        bytes: &[u8],
        block: FileBlock,
        form: Form,
        inode_seed: u32,
    ) -> Result<(), Fault> {
        if !self.checksummed {
            return Ok(());
        }
        match self.kind(bytes, block, form) {
            BlockKind::Leaf => self.verify_leaf(bytes, inode_seed),
            BlockKind::Index(place) => self.verify_index(bytes, place, inode_seed),
        }
    }

    /// Only an index node is one unused entry from end to end: a leaf ends before its tail.
    fn kind(&self, bytes: &[u8], block: FileBlock, form: Form) -> BlockKind {
        if form == Form::Linear {
            return BlockKind::Leaf;
        }
        if block == FileBlock(0) {
            return BlockKind::Index(IndexPlace::Root);
        }
        match RawEntry::read_from_prefix(bytes) {
            Ok((entry, _)) if self.is_cover(&entry) => BlockKind::Index(IndexPlace::Node),
            _ => BlockKind::Leaf,
        }
    }

    /// Whether an entry at the start of a block is unused and as long as the block.
    fn is_cover(&self, entry: &RawEntry) -> bool {
        entry.ino == U32::ZERO && self.decode_length(entry.length) == self.block_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.block_size as usize
    }

    fn decode_length(&self, stored: U16) -> usize {
        decode_length(self.block_bytes(), stored.get())
    }

    fn encode_length(&self, length: usize) -> U16 {
        debug_assert!(
            length <= self.block_bytes() && length.is_multiple_of(4),
            "a record of {length} bytes"
        );
        U16::new(u16::try_from(length).unwrap_or(0xffff))
    }
}

impl Style {
    fn seal_leaf(&self, bytes: &mut [u8], inode_seed: u32) {
        let (entries, tail) = bytes.split_at_mut(self.leaf_capacity());
        tail.copy_from_slice(RawTail::new(crc32c(inode_seed, entries)).as_bytes());
    }

    fn verify_leaf(&self, bytes: &[u8], inode_seed: u32) -> Result<(), Fault> {
        let structure = "directory block";
        let Ok((entries, tail)) = RawTail::ref_from_suffix(bytes) else {
            return Err(field(
                structure,
                "block size",
                bytes.len() as u64,
                "too small for a checksum",
            ));
        };
        let (stored, computed) = (tail.checksum.get(), crc32c(inode_seed, entries));
        if stored != computed || !tail.is_tail() {
            return Err(Fault::Checksum { structure, stored, computed });
        }
        Ok(())
    }

    fn seal_index(&self, bytes: &mut [u8], place: IndexPlace, inode_seed: u32) {
        let sum = index::checksum(bytes, place, inode_seed);
        debug_assert!(sum.is_ok(), "an index block is checked before it is changed: {sum:?}");
        let Ok(sum) = sum else { return };
        if let Some(stored) = bytes.get_mut(sum.offset..).and_then(|rest| rest.first_chunk_mut()) {
            *stored = sum.computed.to_le_bytes();
        }
    }

    fn verify_index(&self, bytes: &[u8], place: IndexPlace, inode_seed: u32) -> Result<(), Fault> {
        let sum = index::checksum(bytes, place, inode_seed)?;
        if sum.stored != sum.computed {
            let structure = place.structure();
            return Err(Fault::Checksum { structure, stored: sum.stored, computed: sum.computed });
        }
        Ok(())
    }
}
