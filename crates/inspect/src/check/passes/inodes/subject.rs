//! The inode that is judged, as all judges of this pass see it.
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::problem::Problem;
use extant_format::Ino;
use extant_format::inode::{FileType, Inode, StoredInode, flags};

/// An inode that is judged.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) facts: &'a Facts,
    pub(super) ino: Ino,
    pub(super) inode: &'a Inode,
    /// Its bytes in the table.
    pub(super) raw: &'a [u8],
}

impl<'a> Subject<'a> {
    /// The fields that [`Inode`] leaves out.
    pub(super) fn stored(&self) -> StoredInode<'a> {
        StoredInode::new(self.raw)
    }

    /// A problem of this inode.
    pub(super) fn problem(&self, code: Code) -> Problem {
        Problem::new(code).ino(self.ino)
    }

    /// Reports a problem of which no more is to be said than its code.
    pub(super) fn report(&self, code: Code) {
        self.facts.report(self.problem(code));
    }

    pub(super) fn file_type(&self) -> Option<FileType> {
        self.inode.file_type()
    }

    /// Whether any of these flags is set.
    pub(super) fn has_flag(&self, flags: u32) -> bool {
        self.inode.flags & flags != 0
    }

    /// Whether it is the value of an attribute: on a directory the flag means nothing.
    pub(super) fn is_value(&self) -> bool {
        self.has_flag(flags::EA_INODE) && self.file_type() != Some(FileType::Directory)
    }

    /// The size with its high half, which counts for some types only.
    pub(super) fn wide_size(&self) -> u64 {
        self.inode.size | u64::from(self.stored().size_high()) << 32
    }
}
