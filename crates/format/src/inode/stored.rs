//! An inode as it is stored: fields one by one, nothing checked, and those that a checked inode
//! leaves out.
use super::{BASE_SIZE, EXTRA_SIZE_MIN, RawExtra, RawInode};
use crate::stored::{u16_at, u32_at};
use std::mem::offset_of;

/// An inode as it is stored. Bytes that are missing count as 0.
#[derive(Clone, Copy)]
pub struct StoredInode<'a>(&'a [u8]);

impl<'a> StoredInode<'a> {
    /// Of the bytes of an inode.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> StoredInode<'a> {
        StoredInode(bytes)
    }

    /// File type and permissions.
    #[inline]
    pub fn mode(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, mode))
    }

    /// Names that it says it has.
    #[inline]
    pub fn links(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, links))
    }

    /// When it was deleted, in seconds since 1970; or the next orphan.
    #[inline]
    pub fn deletion_time(self) -> u32 {
        u32_at(self.0, offset_of!(RawInode, deletion_time))
    }

    /// Whether every byte is 0, as in an inode that was never used.
    pub fn is_zero(self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// The high 32 bits of the size, which count for regular files only, and with large_dir for
    /// directories.
    pub fn size_high(self) -> u32 {
        u32_at(self.0, offset_of!(RawInode, size_high))
    }

    /// The address of a fragment of a block, which was never used: 0.
    pub fn fragment(self) -> u32 {
        u32_at(self.0, offset_of!(RawInode, fragment))
    }

    /// The high 16 bits of the count of sectors, which mean something with huge_file only.
    pub fn sectors_high(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, sectors_high))
    }

    /// The low 32 bits of the block of attributes.
    pub fn attribute_block_low(self) -> u32 {
        u32_at(self.0, offset_of!(RawInode, attribute_block_low))
    }

    /// The high 16 bits of the block of attributes, which mean something with 64bit only.
    pub fn attribute_block_high(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, attribute_block_high))
    }

    /// The low 16 bits of the user.
    pub fn uid_low(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, uid_low))
    }

    /// The low 16 bits of the group.
    pub fn gid_low(self) -> u16 {
        u16_at(self.0, offset_of!(RawInode, gid_low))
    }

    /// Bytes of extra fields that it says it has; 0 where there is no room for any.
    pub fn extra_size(self) -> u16 {
        let extra = self.0.get(BASE_SIZE..).unwrap_or_default();
        u16_at(extra, offset_of!(RawExtra, extra_isize))
    }

    /// Whether the extra fields fit: there are none, or as many as fit, in words.
    pub fn is_extra_size_possible(self) -> bool {
        let room = u16::try_from(self.0.len().saturating_sub(BASE_SIZE)).unwrap_or(u16::MAX);
        is_extra_size_possible(self.extra_size(), room)
    }

    /// What follows the extra fields, where they fit: the room for attributes. `None` where there
    /// are no extra fields, or where they do not fit.
    pub fn tail(self) -> Option<&'a [u8]> {
        let extra = self.extra_size();
        if extra == 0 || !self.is_extra_size_possible() {
            return None;
        }
        self.0.get(BASE_SIZE.saturating_add(extra.into())..)
    }
}

/// Whether that many bytes of extra fields can be in an inode with `room` for them.
pub fn is_extra_size_possible(extra: u16, room: u16) -> bool {
    extra == 0 || (EXTRA_SIZE_MIN..=room).contains(&extra) && extra.is_multiple_of(4)
}
