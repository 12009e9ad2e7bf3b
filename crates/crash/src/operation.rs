//! What processes do: operations as data, and how the engine is asked for them.
use extant_engine::{File, Filesystem, New, Rename, Result, SetAttribute, Size};
use extant_testkit::content;
use std::collections::BTreeMap;

/// The number of a file, directory or symlink in a history. Records in files name it as their
/// owner.
pub type NodeId = u32;

/// Records that a process writes: bytes that say whose they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Whose they are.
    pub owner: NodeId,
    /// The number of the write.
    pub write: u32,
    /// First byte in the file.
    pub offset: u64,
    /// How many bytes; whole records.
    pub length: u64,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        content::record(self.owner, self.write, self.offset, self.length)
    }
}

/// Of what a process waits until it is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sync {
    /// `fsync` of a file.
    File(String),
    /// `fdatasync` of a file.
    Data(String),
    /// `fsync` of a directory.
    Directory(String),
    /// `sync`.
    All,
}

/// What a process does. Paths begin with a slash; ranges are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the system calls")]
pub enum Operation {
    Create {
        path: String,
    },
    MakeDirectory {
        path: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    RemoveDirectory {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// A file without a name is made, written and given a name.
    Nameless {
        path: String,
        piece: Piece,
    },
    Write {
        path: String,
        piece: Piece,
    },
    Truncate {
        path: String,
        size: u64,
    },
    Allocate {
        path: String,
        offset: u64,
        length: u64,
        size: Size,
    },
    Zero {
        path: String,
        offset: u64,
        length: u64,
        size: Size,
    },
    Punch {
        path: String,
        offset: u64,
        length: u64,
    },
    Collapse {
        path: String,
        offset: u64,
        length: u64,
    },
    Insert {
        path: String,
        offset: u64,
        length: u64,
    },
    SetAttribute {
        path: String,
        name: String,
        value: Vec<u8>,
    },
    RemoveAttribute {
        path: String,
        name: String,
    },
    /// Opens a file, and keeps it open whatever becomes of its names.
    Hold {
        path: String,
    },
    /// Closes the file that was opened by this path.
    Release {
        path: String,
    },
    Sync(Sync),
}

/// Files that a process keeps open, by the path that it opened.
#[derive(Default)]
pub struct Held(BTreeMap<String, File>);

/// The directory of a path, and the name in it.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Operation {
    /// Asks the engine for it.
    ///
    /// # Errors
    /// Those of the engine: none is expected.
    pub fn run(&self, volume: &Filesystem, held: &mut Held) -> Result<()> {
        match self {
            Operation::Create { path } => volume.create_file(path, 0o644).map(drop),
            Operation::MakeDirectory { path } => volume.create_dir(path, 0o755),
            Operation::Symlink { target, path } => volume.symlink(target, path),
            Operation::Link { from, to } => volume.hard_link(from, to),
            Operation::Unlink { path } => volume.remove_file(path),
            Operation::RemoveDirectory { path } => volume.remove_dir(path),
            Operation::Rename { from, to } => volume.rename(from, to, Rename::Replace),
            Operation::Nameless { path, piece } => nameless(volume, path, piece),
            Operation::SetAttribute { path, name, value } => {
                volume.set_attribute(path, name.as_bytes(), value, SetAttribute::Any)
            }
            Operation::RemoveAttribute { path, name } => {
                volume.remove_attribute(path, name.as_bytes())
            }
            Operation::Hold { path } => {
                held.0.insert(path.clone(), volume.open_file(path)?);
                Ok(())
            }
            Operation::Release { path } => {
                drop(held.0.remove(path));
                Ok(())
            }
            Operation::Sync(sync) => sync.run(volume),
            Operation::Write { path, .. }
            | Operation::Truncate { path, .. }
            | Operation::Allocate { path, .. }
            | Operation::Zero { path, .. }
            | Operation::Punch { path, .. }
            | Operation::Collapse { path, .. }
            | Operation::Insert { path, .. } => self.change(&volume.open_file(path)?),
        }
    }

    fn change(&self, file: &File) -> Result<()> {
        match self {
            Operation::Write { piece, .. } => file.write_all_at(piece.offset, &piece.bytes()),
            Operation::Truncate { size, .. } => file.set_len(*size),
            Operation::Allocate { offset, length, size, .. } => {
                file.allocate(*offset, *length, *size)
            }
            Operation::Zero { offset, length, size, .. } => {
                file.zero_range(*offset, *length, *size)
            }
            Operation::Punch { offset, length, .. } => file.punch_hole(*offset, *length),
            Operation::Collapse { offset, length, .. } => file.collapse_range(*offset, *length),
            Operation::Insert { offset, length, .. } => file.insert_range(*offset, *length),
            _ => Ok(()),
        }
    }
}

impl Sync {
    fn run(&self, volume: &Filesystem) -> Result<()> {
        match self {
            Sync::File(path) => volume.open_file(path)?.sync(),
            Sync::Data(path) => volume.open_file(path)?.sync_data(),
            Sync::Directory(path) if path.is_empty() => volume.sync_path("/"),
            Sync::Directory(path) => volume.sync_path(path),
            Sync::All => volume.sync(),
        }
    }
}

fn nameless(volume: &Filesystem, path: &str, piece: &Piece) -> Result<()> {
    let (parent, name) = split(path);
    let inodes = volume.inodes();
    let parent = volume.inode(if parent.is_empty() { "/" } else { parent })?;
    let new = New { permissions: 0o644, ..New::default() };
    let (inode, file) = inodes.create_nameless(&parent, &new)?;
    file.write_all_at(piece.offset, &piece.bytes())?;
    inodes.link(&inode, &parent, name.as_bytes())
}
