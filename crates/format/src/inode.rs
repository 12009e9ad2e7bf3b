//! Inodes: 128 bytes and what follows them, as bytes and as values.
use crate::superblock::Superblock;
use crate::{BlockNo, Fault, Ino};

/// What kind of object an inode is: the high bits of `i_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum FileType {
    Fifo,
    CharacterDevice,
    Directory,
    BlockDevice,
    Regular,
    Symlink,
    Socket,
}

impl FileType {
    /// From `i_mode`; `None` for a value that is no type.
    pub fn from_mode(_mode: u16) -> Option<FileType> {
        todo!()
    }
    /// The bits for `i_mode` (0o100000 and so on).
    pub fn mode_bits(self) -> u16 {
        todo!()
    }
    /// The byte in a directory entry (1 regular, 2 directory, 3 character, 4 block, 5 fifo, 6 socket, 7 symlink).
    pub fn entry_code(self) -> u8 {
        todo!()
    }
    /// From the byte in a directory entry.
    pub fn from_entry_code(_code: u8) -> Option<FileType> {
        todo!()
    }
}

/// A point in time as ext4 keeps it: 34 bits of seconds (1901 to 2446) and nanoseconds; 32 bits and none in 128-byte inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// 0..1_000_000_000.
    pub nanoseconds: u32,
}

/// Inode flags (`i_flags`).
#[allow(missing_docs)]
pub mod flags {
    pub const SECURE_DELETION: u32 = 0x1;
    pub const SYNC: u32 = 0x8;
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND: u32 = 0x20;
    pub const NODUMP: u32 = 0x40;
    pub const NOATIME: u32 = 0x80;
    pub const INDEX: u32 = 0x1000;
    pub const TOP_DIRECTORY: u32 = 0x2_0000;
    pub const HUGE_FILE: u32 = 0x4_0000;
    pub const EXTENTS: u32 = 0x8_0000;
    pub const EA_INODE: u32 = 0x20_0000;
    pub const INLINE_DATA: u32 = 0x1000_0000;
}

/// A checked inode. Also what is kept behind the first 128 bytes, where the inode is larger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub access_time: Time,
    pub change_time: Time,
    pub modify_time: Time,
    /// `None` where the inode is too small to keep it.
    pub create_time: Option<Time>,
    pub deletion_time: u32,
    pub links: u16,
    /// In units of 512 bytes whatever the disk says (huge_file).
    pub sectors: u64,
    pub flags: u32,
    pub generation: u32,
    pub version: u64,
    /// The block of extended attributes, or 0.
    pub attribute_block: BlockNo,
    pub project: u32,
    /// `i_block`: pointers, extent root, fast symlink, or device number.
    pub block: [u8; 60],
    /// Bytes used beyond 128 by fixed fields; 0 in 128-byte inodes.
    pub extra_isize: u16,
    /// The bytes after 128 + extra_isize: in-inode attributes (with their magic), to the end of the inode. Empty where
    /// the inode has 128 bytes.
    pub tail: Vec<u8>,
}

impl Inode {
    /// Reads an inode from its `inode_size` bytes. The checksum is verified (metadata_csum). Field checks are those that
    /// keep later code in range (extra_isize); what the mode or map mean is judged by their users.
    pub fn parse(_bytes: &[u8], _ino: Ino, _superblock: &Superblock) -> Result<Inode, Fault> {
        todo!()
    }
    /// Writes it over the whole `inode_size` bytes, with its checksum. Times out of range are clamped to the nearest
    /// that can be kept. `sectors` beyond 32 bits uses huge_file (48 bits) and, beyond that, block units with the flag.
    pub fn encode(&self, _bytes: &mut [u8], _ino: Ino, _superblock: &Superblock) {
        todo!()
    }
    /// A new inode of this size class, everything zero but `mode`, `extra_isize` (want_extra_isize) and `tail` (sized).
    pub fn new(_mode: u16, _superblock: &Superblock) -> Inode {
        todo!()
    }
    /// The type; `None` when the mode has none.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }
    /// Whether the blocks are mapped by extents.
    pub fn has_extents(&self) -> bool {
        self.flags & flags::EXTENTS != 0
    }
    /// A symlink whose target is in `block` (no blocks but an attribute block, size < 60).
    pub fn is_fast_symlink(&self, _superblock: &Superblock) -> bool {
        todo!()
    }
    /// Device numbers of a device inode: old (16 bits) and new encoding.
    pub fn device(&self) -> Device {
        todo!()
    }
    /// Stores device numbers: the old encoding where both are below 256, as the kernel does.
    pub fn set_device(&mut self, _device: Device) {
        todo!()
    }
}

/// Major and minor number of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Device {
    /// 12 bits on disk.
    pub major: u32,
    /// 20 bits on disk.
    pub minor: u32,
}
