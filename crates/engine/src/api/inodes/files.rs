//! Open files by inode: what [`File`] has besides reading and writing.
use super::{Inode, Inodes, Rights};
use crate::api::filesystem::File;
use crate::error::{ErrorKind, Result};
use crate::inode::access;
use crate::inode::file::Durable;
use crate::inode::file::Size;
use crate::inode::file::range::{self, Content, RangeChange};
use crate::inode::permission::{check_may_open, opening};
use crate::inode::rights::RunRights;
use extant_format::inode::FileType;
use std::sync::Arc;

impl Inodes<'_> {
    /// Opens anything but a directory or a symlink. An open file refuses neither reads nor writes:
    /// it is up to the caller to use it only as asked for here.
    ///
    /// # Errors
    /// `IsDirectory`; `SymlinkLoop`; `PermissionDenied`, `NotPermitted` (writing what is
    /// immutable, or has verity); `NoKey`; `NotFound`.
    pub fn open(&self, inode: &Inode, rights: Rights) -> Result<File> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            match state.file_type()? {
                FileType::Directory => return Err(ErrorKind::IsDirectory.into()),
                FileType::Symlink => return Err(ErrorKind::SymlinkLoop.into()),
                _ => {}
            }
            access::check(&core.inodes.volume, &state, self.caller, rights.0)?;
            check_may_open(&core.inodes.volume, &state, opening(rights.0))?;
            drop(state);
            core.inodes.hold(node)?;
            Ok(File::of_held(self.core, Arc::clone(node)).within(self.room()))
        })
    }
}

impl File {
    /// The inode that is open.
    pub fn inode(&self) -> Inode {
        Inode::new(&self.core, Arc::clone(&self.node))
    }

    /// Writes this file's data, and waits until it is durable together with what is needed to read
    /// it again. Without a journal that is as much as [`File::sync`] writes.
    ///
    /// # Errors
    /// What the device returns; after that nothing more is written.
    pub fn sync_data(&self) -> Result<()> {
        self.sync_as(Durable::Data)
    }

    /// Changes a range of the file as one of the calls below, and says what becomes of the rights
    /// that the file is run with; those calls end them.
    ///
    /// # Errors
    /// As for the call of that name.
    pub fn change_range(
        &self,
        offset: u64,
        length: u64,
        change: RangeChange,
        rights: RunRights,
    ) -> Result<()> {
        self.changing_map(|volume| {
            range::change(volume, &self.node, (offset, length), (change, rights, self.room))
        })
    }

    /// Makes a range read as zeros (FALLOC_FL_ZERO_RANGE): all of it has blocks afterwards, which
    /// need not be written. Files with extents only.
    ///
    /// # Errors
    /// `InvalidArgument` for a range of no bytes, and for anything but a file;
    /// `OperationUnsupported` without extents; `FileTooLarge`; `NotPermitted` for what is immutable
    /// or append-only; `NoSpace`, with nothing changed; `Corrupt`; what the device returns.
    pub fn zero_range(&self, offset: u64, length: u64, size: Size) -> Result<()> {
        self.change_range(offset, length, RangeChange::Zero(size), RunRights::End)
    }

    /// Takes a range of whole blocks out (FALLOC_FL_COLLAPSE_RANGE): what comes after it moves to
    /// its start, and the file becomes shorter. After a power cut the file is as it was before, or
    /// as it is afterwards. Takes time in proportion to the file's map. Files with extents only.
    ///
    /// # Errors
    /// `InvalidArgument` unless both ends are at boundaries of blocks and the range ends before the
    /// file; otherwise as for [`File::zero_range`]. Damage anywhere in the map is `Corrupt`, with
    /// nothing changed.
    pub fn collapse_range(&self, offset: u64, length: u64) -> Result<()> {
        self.change_range(offset, length, RangeChange::Collapse, RunRights::End)
    }

    /// Inserts a hole of whole blocks (FALLOC_FL_INSERT_RANGE): what is at the offset and after it
    /// moves up, and the file becomes longer. Otherwise as [`File::collapse_range`].
    ///
    /// # Errors
    /// `InvalidArgument` unless both ends are at boundaries of blocks and the offset is in the
    /// file; `FileTooLarge`; otherwise as for [`File::collapse_range`].
    pub fn insert_range(&self, offset: u64, length: u64) -> Result<()> {
        self.change_range(offset, length, RangeChange::Insert, RunRights::End)
    }

    /// The first byte of data at or after an offset; `None` if there is none, and from the end of
    /// the file on (SEEK_DATA: ENXIO). Dirty blocks are data; blocks that were allocated and never
    /// written are not. Data begins at boundaries of blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for what has no bytes; `Corrupt`; what the device returns.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        range::seek(&self.core.inodes.volume, &self.node, offset, Content::Data)
    }

    /// The first byte of a hole at or after an offset, where the end of the file is the last hole;
    /// `None` from the end of the file on (SEEK_HOLE: ENXIO).
    ///
    /// # Errors
    /// As for [`File::seek_data`].
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        range::seek(&self.core.inodes.volume, &self.node, offset, Content::Hole)
    }
}
