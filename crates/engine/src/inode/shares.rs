//! What inodes count for in the quota files: of whom, and how much.
use crate::inode::volume::Volume;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{Ino, SECTOR_BYTES};

/// What an inode counts for: nothing, so far or where its volume has no quotas, or a share. In a
/// box, because most volumes have no quotas, and nodes are many.
pub(crate) type Counted = Option<Box<Account>>;

/// What an inode counts for, and what it has that its table does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) share: Share,
    /// How many of its attributes have values in inodes now. Until that is known
    /// (`attribute::know_values`), `share` has none of them either.
    pub(crate) values: Option<u32>,
}

/// What one inode counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// These inodes, itself and the values of its attributes that have their own, and these bytes,
    /// of this user, group and project.
    Of([u32; 3], u64, u32),
    /// Nothing any more: it is being freed.
    Ended,
}

/// What an inode that is in use counts for, with so many values of attributes in inodes, if that is
/// known.
pub(crate) fn counted(volume: &Volume, ino: Ino, inode: &Inode, values: Option<u32>) -> Counted {
    volume.quotas.as_ref()?;
    let superblock = &volume.store.superblock;
    let is_of_user = ino == Ino::ROOT || ino.0 >= superblock.first_inode;
    let is_orphan_file =
        superblock.has(Feature::ORPHAN_FILE) && ino.0 == superblock.orphan_file_inode;
    let is_value = inode.flags & flags::EA_INODE != 0;
    // As e2fsck counts, which leaves them out.
    let is_inline_symlink =
        inode.is_inline(superblock) && inode.file_type() == Some(FileType::Symlink);
    if !is_of_user || is_orphan_file || is_value || is_inline_symlink || is_quota_file(volume, ino)
    {
        return None;
    }
    let ids = [inode.uid, inode.gid, inode.project];
    let bytes = inode.sectors.saturating_mul(SECTOR_BYTES);
    let share = Share::Of(ids, bytes, values.unwrap_or(0).saturating_add(1));
    Some(Box::new(Account { share, values }))
}

/// Whether an inode is a quota file in which operations count.
pub(crate) fn is_quota_file(volume: &Volume, ino: Ino) -> bool {
    volume.quotas.is_some() && volume.store.superblock.quota_inodes().contains(&ino)
}
