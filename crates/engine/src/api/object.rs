//! One object of the volume, held by its inode, so that it can be read repeatedly without walking
//! its path: a tree ten thousand directories deep costs no more than a flat one.
//!
//! *Invariants*: an object never changes anything. *Locking*: none of its own.
use crate::api::filesystem::{Filesystem, Metadata};
use crate::error::{Error, Place, Result};
use crate::flush::Core;
use crate::inode::Node;
use crate::inode::attribute;
use crate::inode::mapping::{self, Piece};
use crate::name::directory::{self, DirectoryEntry};
use crate::name::namespace::Follow;
use extant_format::attribute::Attribute;
use extant_format::extent::State;
use extant_format::inode::FileType;
use extant_format::{BlockNo, FileBlock, Ino, Run};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A file, directory, symlink or other inode in use.
#[derive(Clone)]
pub struct Object {
    core: Arc<Core>,
    node: Arc<Node>,
}

/// A run of blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileRun {
    /// Its first block in the file.
    pub file_block: FileBlock,
    /// Where it is on the volume.
    pub run: Run,
    /// Whether it holds data, or reads as zeros.
    pub state: State,
}

impl Filesystem {
    /// The object that a path leads to. A symlink at the end of the path is not followed, unless a
    /// slash comes after it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `SymlinkLoop`; `Corrupt`; what the device returns.
    pub fn object(&self, path: impl AsRef<Path>) -> Result<Object> {
        let path = path.as_ref();
        let found = self.core.inodes.resolve(path.as_os_str().as_bytes(), Follow::NotLast);
        let node = found.map_err(|error| error.at(path))?;
        Ok(Object { core: Arc::clone(&self.core), node })
    }

    /// The object with this inode number.
    ///
    /// # Errors
    /// `NotFound` if the inode is free or does not exist; `Corrupt`; what the device returns.
    pub fn object_of(&self, ino: Ino) -> Result<Object> {
        let node = self.core.inodes.nodes.get(&self.core.inodes.volume, ino)?;
        Ok(Object { core: Arc::clone(&self.core), node })
    }
}

impl Object {
    /// What `stat` returns.
    ///
    /// # Errors
    /// `Corrupt` if the mode has no valid type.
    pub fn metadata(&self) -> Result<Metadata> {
        Metadata::new(&self.node.state.read(), self.core.inodes.volume.store.block_size())
    }

    /// All extended attributes, access lists in the form of `getxattr`.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        attribute::list(&self.core.inodes.volume, &self.node.state.read())
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else; `Corrupt`; what the device returns.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        self.core.inodes.read_link(&self.node)
    }

    /// The names in a directory, without "." and "..", in the order of readdir. One that no file
    /// may have is among them as what it is written as: see [`DirectoryEntry::stored`].
    ///
    /// # Errors
    /// `NotDirectory`; `Corrupt`; what the device returns.
    pub fn read_dir(&self) -> Result<Vec<DirectoryEntry>> {
        let state = self.node.state.read();
        state.check_directory()?;
        directory::entries(&self.core.inodes.volume, &state)
    }

    /// Reads bytes of a regular file at an offset. Returns the number of bytes read: fewer than
    /// asked only at the end.
    ///
    /// # Errors
    /// `IsDirectory`, `InvalidArgument` for objects without content; `Corrupt`; what the device
    /// returns.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let stream = &self.node.pages.arrivals.stream;
        let done =
            crate::inode::file::read(&self.core.inodes.volume, &self.node, stream, offset, buffer)?;
        self.core.balance_after_reading();
        Ok(done.bytes)
    }

    /// The next range of data at or after an offset, in bytes; `None` if only a hole is left.
    ///
    /// # Errors
    /// As [`Object::read_at`].
    pub fn next_data(&self, offset: u64) -> Result<Option<std::ops::Range<u64>>> {
        crate::inode::file::next_data(&self.core.inodes.volume, &self.node, offset)
    }

    /// Where the blocks of a file or directory are, in the order of the file, including blocks
    /// after the end of a file with extents. Empty for objects without blocks: devices, and
    /// what is kept in its inode.
    ///
    /// # Errors
    /// `Corrupt`, also if more blocks are mapped than the volume has; what the device returns.
    pub fn runs(&self) -> Result<Vec<FileRun>> {
        let volume = &self.core.inodes.volume;
        let state = self.node.state.read();
        let mapped = match state.file_type()? {
            _ if state.inode.is_inline(&volume.store.superblock) => false,
            FileType::Regular | FileType::Directory => true,
            FileType::Symlink => !state.inode.is_fast_symlink(&volume.store.superblock),
            _ => false,
        };
        let blocks = state.inode.size.div_ceil(volume.store.block_size().into());
        let end = match (mapped, state.inode.has_extents()) {
            (false, _) => 0,
            (true, true) => u32::MAX,
            (true, false) => u32::try_from(blocks).unwrap_or(u32::MAX),
        };
        let mut left = volume.store.superblock.blocks_count;
        let mut runs: Vec<FileRun> = Vec::new();
        let mut next = 0;
        while next < end {
            let piece = mapping::find(volume, &state, FileBlock(next), end - next)?;
            if let Piece::Run(run, state) = piece {
                left = left
                    .checked_sub(run.length.into())
                    .ok_or_else(|| too_many(self.node.ino, run.start))?;
                append(&mut runs, FileRun { file_block: FileBlock(next), run, state });
            }
            next = next.saturating_add(piece.length().max(1));
        }
        Ok(runs)
    }
}

/// Adds a run, by lengthening the last one if possible.
fn append(runs: &mut Vec<FileRun>, run: FileRun) {
    if let Some(last) = runs.last_mut() {
        let follows = last.file_block.0.checked_add(last.run.length) == Some(run.file_block.0)
            && last.run.start.0.checked_add(last.run.length.into()) == Some(run.run.start.0);
        let length = last.run.length.checked_add(run.run.length);
        if let (true, Some(length)) = (follows && last.state == run.state, length) {
            last.run.length = length;
            return;
        }
    }
    runs.push(run);
}

fn too_many(ino: Ino, block: BlockNo) -> Error {
    let place = Place::InodeBlock(ino, block);
    Error::field(
        place,
        "block map",
        "block",
        block.0,
        "one too many: more are mapped than the volume has",
    )
}
