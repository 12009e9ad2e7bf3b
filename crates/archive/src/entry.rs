//! What an archive says of a file.
use crate::path::PathError;
use extant_format::inode::{Device, FileType};
use extant_tree::Described;
use std::ops::Range;

/// An entry that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The path from the root of the archive on, empty for the root; or why it is refused.
    pub path: Result<Vec<u8>, PathError>,
    /// What the entry is.
    pub content: Content,
    /// What is known of it besides; `None` for a hard link, which has what its target has.
    pub described: Option<Described>,
    /// What the archive says of it that is in none of the other fields.
    pub unkept: Unkept,
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A regular file.
    File(Body),
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads, as the archive has it.
        target: Vec<u8>,
    },
    /// One more name for an entry that came before.
    HardLink {
        /// The path of that entry, as the archive has it: [`crate::clean_path`] checks it.
        target: Vec<u8>,
    },
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A named pipe.
    Fifo,
    /// A socket, which only archives of cpio have.
    Socket,
}

impl Entry {
    /// An entry, whose type, size and numbers of a device are those of its content.
    pub(crate) fn new(
        path: Result<Vec<u8>, PathError>,
        content: Content,
        mut described: Option<Described>,
        unkept: Unkept,
    ) -> Entry {
        if let Some(facts) = described.as_deref_mut() {
            (facts.file_type, facts.size) = content.type_and_size();
            if let Content::CharacterDevice(device) | Content::BlockDevice(device) = content {
                facts.device = device;
            }
        }
        Entry { path, content, described, unkept }
    }
}

impl Content {
    fn type_and_size(&self) -> (FileType, u64) {
        match self {
            Content::File(body) => (FileType::Regular, body.size),
            Content::Symlink { target } => (FileType::Symlink, target.len() as u64),
            Content::HardLink { .. } => (FileType::Regular, 0),
            Content::Directory => (FileType::Directory, 0),
            Content::CharacterDevice(_) => (FileType::CharacterDevice, 0),
            Content::BlockDevice(_) => (FileType::BlockDevice, 0),
            Content::Fifo => (FileType::Fifo, 0),
            Content::Socket => (FileType::Socket, 0),
        }
    }
}

/// What an archive may say of a file that ext has no place for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unkept {
    /// The type letter that no standard knows; such an entry is read as a regular file.
    pub unknown_type: Option<u8>,
    /// Users and groups whose entries in an access list have a name and no number. They were left
    /// out of the list.
    pub nameless: Vec<String>,
    /// Whether there was an access list of NFSv4.
    pub nfs4_access_list: NfsAccessList,
    /// File flags that ext does not have, in words.
    pub file_flags: Option<String>,
}

/// Whether an entry has an access list in the form of NFSv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NfsAccessList {
    /// It has none.
    #[default]
    Absent,
    /// It has one, which was left out.
    Present,
}

/// The bytes of a regular file, and where they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Body {
    /// Bytes of the file, holes included.
    pub size: u64,
    /// The first stored byte in [`crate::Reader::body_file`]. Without meaning for an empty file,
    /// and where the reader skips bodies.
    pub offset: u64,
    /// The parts of the file that are stored, rising, none empty, none touching the next; they are
    /// stored end to end. `None` for a file without holes, all of which is stored.
    pub pieces: Option<Vec<Range<u64>>>,
    /// What took the bytes that are stored.
    pub keeper: Keeper,
}

/// What took the stored bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keeper {
    /// [`crate::Reader::body_file`].
    #[default]
    File,
    /// The sink of bodies (see [`crate::Reader::with_sink`]).
    Sink,
}

impl Body {
    /// Bytes that are stored: the size without the holes.
    pub fn stored_bytes(&self) -> u64 {
        match &self.pieces {
            None => self.size,
            Some(pieces) => pieces.iter().map(|piece| piece.end - piece.start).sum(),
        }
    }
}
