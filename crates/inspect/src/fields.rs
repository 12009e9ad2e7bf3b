//! Fields of the superblock that are told but never used: they belong to features that nobody here
//! supports, or to the kernel's own records. By byte offset, as the format's description lists
//! them.
use extant_format::superblock::SUPERBLOCK_SIZE;

/// The bytes of a superblock, asked by offset.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8; SUPERBLOCK_SIZE]);

pub(crate) const BLOCKS_LOW: usize = 0x4;
pub(crate) const FIRST_DATA_BLOCK: usize = 0x14;
pub(crate) const LOG_CLUSTER_SIZE: usize = 0x1c;
pub(crate) const BLOCKS_PER_GROUP: usize = 0x20;
pub(crate) const CLUSTERS_PER_GROUP: usize = 0x24;
pub(crate) const INODES_PER_GROUP: usize = 0x28;
pub(crate) const INCOMPAT: usize = 0x60;
pub(crate) const HASH_VERSION: usize = 0xfc;
pub(crate) const DESCRIPTOR_SIZE: usize = 0xfe;
pub(crate) const FIRST_META_GROUP: usize = 0x104;
pub(crate) const BLOCKS_HIGH: usize = 0x150;
pub(crate) const MMP_INTERVAL: usize = 0x166;
pub(crate) const MMP_BLOCK: usize = 0x168;
pub(crate) const LOG_GROUPS_PER_FLEX: usize = 0x174;
pub(crate) const ERROR_COUNT: usize = 0x194;
pub(crate) const FIRST_ERROR: ErrorPlace = ErrorPlace {
    time: 0x198,
    time_high: 0x278,
    ino: 0x19c,
    block: 0x1a0,
    function: 0x1a8,
    line: 0x1c8,
    code: 0x27a,
};
pub(crate) const LAST_ERROR: ErrorPlace = ErrorPlace {
    time: 0x1cc,
    time_high: 0x279,
    ino: 0x1d0,
    block: 0x1d8,
    function: 0x1e0,
    line: 0x1d4,
    code: 0x27b,
};
pub(crate) const USER_QUOTA_INODE: usize = 0x240;
pub(crate) const GROUP_QUOTA_INODE: usize = 0x244;
const BACKUP_GROUPS: usize = 0x24c;
pub(crate) const PROJECT_QUOTA_INODE: usize = 0x26c;
pub(crate) const ENCODING: usize = 0x27c;
pub(crate) const CHECKSUM: usize = 0x3fc;

/// Where one of the two recorded errors stands.
pub(crate) struct ErrorPlace {
    pub(crate) time: usize,
    pub(crate) time_high: usize,
    pub(crate) ino: usize,
    pub(crate) block: usize,
    pub(crate) function: usize,
    pub(crate) line: usize,
    pub(crate) code: usize,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let bytes = self.0.get(offset..).and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().unwrap_or([0; N])
    }

    pub(crate) fn u8(&self, offset: usize) -> u8 {
        u8::from_le_bytes(self.bytes(offset))
    }

    pub(crate) fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.bytes(offset))
    }

    pub(crate) fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    pub(crate) fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }

    /// The groups with copies, by sparse_super2.
    pub(crate) fn backup_groups(&self) -> [u32; 2] {
        [self.u32(BACKUP_GROUPS), self.u32(BACKUP_GROUPS + 4)]
    }

    /// 32 bytes of text, to the first zero.
    pub(crate) fn text(&self, offset: usize) -> String {
        text(&self.bytes::<32>(offset))
    }
}

/// Bytes up to the first zero as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned()
}
