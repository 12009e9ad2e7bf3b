//! Files that a program makes for an image, one after the other.
use crate::error::Result;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device as DeviceNumbers, FileType, Time};
use extant_image::source::{Made, MadeContent};
use extant_tree::{Described, Facts};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Takes the files of [`Builder::files`](crate::Builder::files).
#[derive(Debug)]
pub struct Files {
    pub(crate) made: Made,
}

/// A file before it has a name: root's, of 1970, with the mode 0644 or, for a directory, 0755,
/// unless something else is said.
#[must_use = "it is in no image before it is added"]
pub struct NewFile {
    facts: Described,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    Stream(Box<dyn Read + Send>),
    Target(PathBuf),
    Numbers(DeviceNumbers),
    Nothing,
    Original(PathBuf),
}

impl Files {
    pub(crate) fn new() -> Result<Files> {
        Ok(Files { made: Made::new(None)? })
    }

    /// Adds a file under a path from the root; `/` is the root directory itself. Directories on the
    /// way that are missing are made, root's and 0755; of two files of one path the last counts.
    ///
    /// # Errors
    /// A path with `..` or a NUL; a stream that fails; no room for the temporary file.
    pub fn add(&mut self, path: impl AsRef<Path>, file: NewFile) -> Result<()> {
        let path = path.as_ref().as_os_str().as_bytes();
        let NewFile { facts, content } = file;
        let made = &mut self.made;
        let added = match content {
            Content::Bytes(bytes) => made.add(path, facts, MadeContent::Body(&mut &bytes[..])),
            Content::Stream(mut stream) => made.add(path, facts, MadeContent::Body(&mut *stream)),
            Content::Target(target) => {
                made.add(path, facts, MadeContent::Target(target.as_os_str().as_bytes()))
            }
            Content::Numbers(numbers) => made.add(path, facts, MadeContent::Device(numbers)),
            Content::Nothing => made.add(path, facts, MadeContent::Nothing),
            Content::Original(original) => made.link(path, original.as_os_str().as_bytes()),
        };
        Ok(added?)
    }
}

impl NewFile {
    fn new(file_type: FileType, permissions: u16, content: Content) -> NewFile {
        let facts = Facts { file_type, permissions, ..Facts::default() };
        NewFile { facts: facts.into(), content }
    }

    /// A regular file with this content.
    pub fn file(content: impl Into<Vec<u8>>) -> NewFile {
        NewFile::new(FileType::Regular, 0o644, Content::Bytes(content.into()))
    }

    /// A regular file with all that this gives, which need not fit into memory.
    pub fn stream(content: impl Read + Send + 'static) -> NewFile {
        NewFile::new(FileType::Regular, 0o644, Content::Stream(Box::new(content)))
    }

    /// A directory.
    pub fn directory() -> NewFile {
        NewFile::new(FileType::Directory, 0o755, Content::Nothing)
    }

    /// A symlink to this target.
    pub fn symlink(target: impl Into<PathBuf>) -> NewFile {
        NewFile::new(FileType::Symlink, 0o777, Content::Target(target.into()))
    }

    /// A FIFO.
    pub fn fifo() -> NewFile {
        NewFile::new(FileType::Fifo, 0o644, Content::Nothing)
    }

    /// A character device.
    pub fn character_device(numbers: DeviceNumbers) -> NewFile {
        NewFile::new(FileType::CharacterDevice, 0o644, Content::Numbers(numbers))
    }

    /// A block device.
    pub fn block_device(numbers: DeviceNumbers) -> NewFile {
        NewFile::new(FileType::BlockDevice, 0o644, Content::Numbers(numbers))
    }

    /// Another name for a file that was added before, or that an earlier source has. It has the
    /// owner and all else of that.
    pub fn hard_link(original: impl Into<PathBuf>) -> NewFile {
        NewFile::new(FileType::Regular, 0o644, Content::Original(original.into()))
    }

    /// With the twelve lower bits of the mode.
    pub fn mode(mut self, mode: u16) -> NewFile {
        self.facts.permissions = mode & 0o7777;
        self
    }

    /// With this owner and group.
    pub fn owner(mut self, uid: u32, gid: u32) -> NewFile {
        (self.facts.uid, self.facts.gid) = (uid, gid);
        self
    }

    /// Changed at this time.
    pub fn time(mut self, time: Time) -> NewFile {
        self.facts.modify_time = time;
        self
    }

    /// With an extended attribute, `user.note`; an access list in the form of `getxattr`.
    pub fn attribute(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> NewFile {
        self.facts.attributes.push(Attribute { name: name.into(), value: value.into() });
        self
    }
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewFile({:?})", self.facts.file_type)
    }
}
