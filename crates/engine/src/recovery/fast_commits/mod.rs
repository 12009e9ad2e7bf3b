//! Fast commits: changes of single inodes and names, which Linux logs instead of whole blocks and
//! which have to be made by the replay.
//!
//! ```text
//! change   what a tag says, checked        names   directories, changed on the volume at once
//! files    everything else, kept in memory until the last tag is known
//! ```
//!
//! They are replayed on a volume on which all full commits were replayed, one after the other: what
//! one changes may be changed again by the next, and an inode number that one frees may be used by
//! another.
mod change;
mod files;
mod names;

use crate::error::{ErrorKind, Result};
use crate::inode::{Inodes, Volume};
use change::{check, decode, range_of, wrong};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_format::journal::fast_commit::{Change, Entry};
use files::Files;
use names::{Names, Outcome};

/// Makes all changes, in their order.
///
/// # Errors
/// `Corrupt`, with the inode, for a change that is not possible; the volume is then changed half.
/// What the device returns.
pub(crate) fn replay(inodes: &Inodes, changes: &[Change]) -> Result<()> {
    let volume = &inodes.volume;
    let mut replay = Replay { volume, files: Files::new(volume), names: Names::new(inodes) };
    for change in changes {
        check(volume, change)?;
    }
    for change in changes {
        if let Change::AddRange { extent, .. } = change {
            replay.files.claim(extent)?;
        }
    }
    for change in changes {
        replay.make(change).map_err(|error| match error.kind {
            // Said of an inode, not of what the user asked for.
            ErrorKind::NotFound => {
                wrong(ino_of(change), "inode", ino_of(change).0.into(), "not in use")
            }
            ErrorKind::NotDirectory => {
                wrong(ino_of(change), "parent of a name", 0, "not a directory")
            }
            _ => error,
        })?;
    }
    replay.files.finish()
}

/// The inode that a change is about.
fn ino_of(change: &Change) -> Ino {
    match change {
        Change::Inode { ino, .. }
        | Change::AddRange { ino, .. }
        | Change::DeleteRange { ino, .. } => *ino,
        Change::Create(name) | Change::Link(name) | Change::Unlink(name) => name.ino,
    }
}

struct Replay<'i> {
    volume: &'i Volume,
    files: Files<'i>,
    names: Names<'i>,
}

impl Replay<'_> {
    fn make(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Inode { ino, bytes } => self.set_inode(*ino, bytes),
            // A directory's blocks follow from its names.
            Change::AddRange { ino, .. } | Change::DeleteRange { ino, .. }
                if self.names.has(*ino)? =>
            {
                Ok(())
            }
            Change::AddRange { ino, extent } => {
                let range = range_of(extent.file_block, extent.length);
                self.files.set_range(*ino, range, Some(*extent))
            }
            Change::DeleteRange { ino, first, length } => {
                self.files.set_range(*ino, range_of(*first, *length), None)
            }
            Change::Create(name) => self.create(name),
            Change::Link(name) => self.link(name),
            Change::Unlink(name) => self.unlink(name),
        }
    }

    fn set_inode(&mut self, ino: Ino, bytes: &[u8]) -> Result<()> {
        let (inode, file_type) = decode(self.volume, ino, bytes)?;
        self.names.note_time(inode.change_time);
        if file_type != FileType::Directory {
            if self.names.is_on_volume(ino)? {
                return Err(wrong(
                    ino,
                    "mode",
                    inode.mode.into(),
                    "not that of the directory there",
                ));
            }
            return self.files.set_inode(ino, bytes);
        }
        if self.files.is_named(ino)? {
            return Err(wrong(ino, "mode", inode.mode.into(), "not that of the file there"));
        }
        self.names.set_inode(ino, inode)
    }

    fn create(&mut self, name: &Entry) -> Result<()> {
        if !self.names.has(name.ino)? {
            let file_type = self.files.file_type(name.ino)?;
            return self.names.add(name, file_type).map(drop);
        }
        if !self.names.is_on_volume(name.ino)? {
            self.files.free_number(name.ino)?;
        }
        self.names.make(name.ino, name.parent)?;
        self.link_directory(name)
    }

    fn link(&mut self, name: &Entry) -> Result<()> {
        if self.names.has(name.ino)? {
            return self.link_directory(name);
        }
        let file_type = self.files.file_type(name.ino)?;
        match self.names.add(name, file_type)? {
            Outcome::Changed => self.files.add_link(name.ino),
            Outcome::AsWanted => Ok(()),
        }
    }

    fn link_directory(&mut self, name: &Entry) -> Result<()> {
        match self.names.add(name, FileType::Directory)? {
            Outcome::Changed => self.names.moved_to(name.ino, name.parent),
            Outcome::AsWanted => Ok(()),
        }
    }

    fn unlink(&mut self, name: &Entry) -> Result<()> {
        // Linux notes names that go from a directory until the next full commit. Where that took
        // the directory away too and the notes were written after it, the names are gone already,
        // and the number may be that of a file.
        if !self.names.is_on_volume(name.parent)? {
            return Ok(());
        }
        if self.names.has(name.ino)? {
            return match self.names.remove(name, FileType::Directory)? {
                Outcome::Changed => self.names.drop_name(name.ino),
                Outcome::AsWanted => Ok(()),
            };
        }
        let is_known = self.files.has(name.ino)?;
        match self.names.remove(name, FileType::Regular)? {
            Outcome::Changed if is_known => self.files.drop_link(name.ino),
            _ => Ok(()),
        }
    }
}
