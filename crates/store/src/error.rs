//! What can go wrong: what the caller did, damage on disk, what is not supported, device errors.
//! Only one function knows `errno`.
use extant_format::attribute::AttributeError;
use extant_format::layout::LayoutError;
use extant_format::superblock::{SuperblockError, unread};
use extant_format::{BlockNo, Fault, GroupNo, Ino};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the engine's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, and the path it is about, if there is one.
#[derive(Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// The path inside the volume that the caller asked for.
    pub path: Option<Box<Path>>,
}

/// What went wrong, one variant for each fact.
#[derive(Debug)]
pub enum ErrorKind {
    /// No such name, or no such inode.
    NotFound,
    /// The name exists already.
    Exists,
    /// A part of the path, or the object, is not a directory.
    NotDirectory,
    /// The object is a directory.
    IsDirectory,
    /// The directory has names other than "." and "..".
    NotEmpty,
    /// The name is ".", ".." or the root, which cannot be moved or removed.
    Busy,
    /// A name is longer than 255 bytes, or a symlink's target longer than a block.
    NameTooLong,
    /// The name is not valid: it is empty, or has a slash or a NUL in it.
    InvalidName,
    /// An argument is not valid, for this reason.
    InvalidArgument(&'static str),
    /// The memory that a volume may take is less than it needs
    /// ([`least_cache_bytes`](crate::least_cache_bytes)).
    CacheTooSmall {
        /// What it may take.
        cache_bytes: usize,
        /// The least that it needs.
        least_bytes: usize,
        /// Bytes of a block.
        block_size: u32,
    },
    /// The inode has as many links as it may have.
    TooManyLinks,
    /// More than forty symlinks were followed.
    SymlinkLoop,
    /// The file would be larger than its map or its volume allows.
    FileTooLarge,
    /// The volume has too few free blocks.
    NoSpace {
        /// Blocks that the operation may need.
        wanted_blocks: u64,
        /// Blocks that are free and not promised.
        free_blocks: u64,
    },
    /// A directory's index has no room for another leaf, or its size has none for another block.
    DirectoryFull,
    /// No inode is free.
    NoInodes,
    /// The volume was opened for reading, or has been closed.
    ReadOnly,
    /// Not allowed on this object: immutable, append only, a directory's hard link.
    NotPermitted(&'static str),
    /// The mode, or the access list, does not give the caller this.
    PermissionDenied,
    /// The directory takes objects of its own project only, and this one belongs to another.
    OtherProject,
    /// It is encrypted, and there is no key: contents cannot be read or changed, and no name can be
    /// made or changed in a directory.
    NoKey,
    /// The volume is in use on another machine, or was when that ended (mmp).
    Held(Box<MountHolder>),
    /// The number belongs to another inode than it did.
    Stale,
    /// No such extended attribute.
    NoAttribute,
    /// The attributes do not fit into the inode and one block.
    AttributesTooLarge,
    /// The value of an attribute is longer than any may be.
    ValueTooLong,
    /// The attribute's name has a prefix that ext2/3/4 cannot store.
    AttributeUnsupported,
    /// The object, or the kind of its map, does not support this operation.
    OperationUnsupported(&'static str),
    /// Something on disk is damaged.
    Corrupt(Corrupt),
    /// Not an ext2, ext3 or ext4 volume.
    NotExt,
    /// The volume has features that are not read; these are their names.
    Unsupported(Vec<String>),
    /// The volume has features that are read alone; these are their names.
    NotWritten(Vec<String>),
    /// The wishes for a new file system cannot be met.
    Layout(LayoutError),
    /// The journal cannot be replayed.
    Journal(extant_journal::Error),
    /// The journal has changes that were not replayed.
    NeedsRecovery,
    /// The device returned an error.
    Device(io::Error),
}

/// Who has a volume, as its mount block says (mmp).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountHolder {
    /// The machine.
    pub node: String,
    /// What that machine calls the device.
    pub device: String,
    /// How long ago it said so by our clock, in seconds.
    pub ago_seconds: u64,
    /// What it does with the volume.
    pub by: HeldBy,
}

/// What a machine that has a volume does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// It has mounted it, or changes it otherwise.
    Mount,
    /// It checks it.
    Checker,
}

impl fmt::Display for MountHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MountHolder { node, device, ago_seconds, by } = self;
        let how = match by {
            HeldBy::Mount => "in use",
            HeldBy::Checker => "being checked, or a check of it was interrupted (e2fsck),",
        };
        write!(f, "{how} on the machine {node}, as {device}, which said so {ago_seconds} s ago")
    }
}

/// Damage found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub fault: Fault,
}

/// A place on the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The superblock.
    Superblock,
    /// A group's descriptor or bitmap.
    Group(GroupNo),
    /// An inode.
    Inode(Ino),
    /// A block that belongs to an inode.
    InodeBlock(Ino, BlockNo),
    /// A block.
    Block(BlockNo),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Superblock => write!(f, "superblock"),
            Place::Group(group) => write!(f, "group {}", group.0),
            Place::Inode(ino) => write!(f, "inode {}", ino.0),
            Place::InodeBlock(ino, block) => write!(f, "inode {}, block {}", ino.0, block.0),
            Place::Block(block) => write!(f, "block {}", block.0),
        }
    }
}

impl Error {
    /// The same error with a path, unless it already has one.
    #[must_use]
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.path.get_or_insert_with(|| path.as_ref().into());
        self
    }

    /// Whether the disk could not be read or written, or is damaged: not what a caller asked for.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self.kind, ErrorKind::Corrupt(_) | ErrorKind::Device(_))
    }

    /// Whether the device has failed.
    pub fn is_of_the_device(&self) -> bool {
        matches!(self.kind, ErrorKind::Device(_))
    }

    /// The error for a fault at a place.
    pub fn corrupt(place: Place, fault: Fault) -> Error {
        ErrorKind::Corrupt(Corrupt { place, fault }).into()
    }

    /// The error for a field with an impossible value.
    pub fn field(
        place: Place,
        structure: &'static str,
        field: &'static str,
        value: u64,
        reason: &'static str,
    ) -> Error {
        Error::corrupt(place, Fault::Field { structure, field, value, reason })
    }

    /// The number that Linux uses for this error.
    pub fn errno(&self) -> i32 {
        match &self.kind {
            ErrorKind::NotFound => 2,
            ErrorKind::Busy => 16,
            ErrorKind::Exists => 17,
            ErrorKind::OtherProject => 18,
            ErrorKind::NotDirectory => 20,
            ErrorKind::IsDirectory => 21,
            ErrorKind::NotEmpty => 39,
            ErrorKind::NameTooLong => 36,
            ErrorKind::InvalidName
            | ErrorKind::InvalidArgument(_)
            | ErrorKind::CacheTooSmall { .. } => 22,
            ErrorKind::TooManyLinks => 31,
            ErrorKind::SymlinkLoop => 40,
            ErrorKind::FileTooLarge => 27,
            ErrorKind::NoSpace { .. }
            | ErrorKind::DirectoryFull
            | ErrorKind::NoInodes
            | ErrorKind::AttributesTooLarge => 28,
            ErrorKind::ValueTooLong => 7,
            ErrorKind::ReadOnly => 30,
            ErrorKind::NotPermitted(_) => 1,
            ErrorKind::PermissionDenied => 13,
            ErrorKind::NoKey => 126,
            ErrorKind::Held(_) => 16,
            ErrorKind::Stale => 116,
            ErrorKind::NoAttribute => 61,
            ErrorKind::AttributeUnsupported | ErrorKind::OperationUnsupported(_) => 95,
            ErrorKind::Corrupt(_) => 117,
            ErrorKind::NotExt
            | ErrorKind::Unsupported(_)
            | ErrorKind::NotWritten(_)
            | ErrorKind::NeedsRecovery
            | ErrorKind::Layout(_) => 22,
            ErrorKind::Journal(_) => 117,
            ErrorKind::Device(error) => error.raw_os_error().unwrap_or(5),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind, path: None }
    }
}
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        ErrorKind::Device(error).into()
    }
}
impl From<SuperblockError> for Error {
    fn from(error: SuperblockError) -> Error {
        match error {
            SuperblockError::NotExt => ErrorKind::NotExt.into(),
            SuperblockError::Fault(fault) => Error::corrupt(Place::Superblock, fault),
            SuperblockError::Unsupported(features) => ErrorKind::Unsupported(features).into(),
        }
    }
}
impl From<extant_journal::Error> for Error {
    fn from(error: extant_journal::Error) -> Error {
        match error {
            extant_journal::Error::Device(error) => error.into(),
            extant_journal::Error::Volume(error) => error.into(),
            error => ErrorKind::Journal(error).into(),
        }
    }
}
/// Converts to `std::io::Error` with the errno, so that `Read` and `Write` can return it.
impl From<AttributeError> for Error {
    fn from(error: AttributeError) -> Error {
        match error {
            AttributeError::UnknownPrefix => ErrorKind::AttributeUnsupported,
            AttributeError::BadName => {
                ErrorKind::InvalidArgument("an attribute name that is empty or too long")
            }
            AttributeError::NoRoom => ErrorKind::AttributesTooLarge,
            AttributeError::ValueTooLong => ErrorKind::ValueTooLong,
            AttributeError::BadAccessList => {
                ErrorKind::InvalidArgument("not an access control list")
            }
        }
        .into()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = io::Error::from_raw_os_error(error.errno()).kind();
        io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", PathBuf::from(path.as_os_str()).display())?;
        }
        write!(f, "{}", self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            ErrorKind::NotFound => "no such file or directory",
            ErrorKind::Exists => "file exists",
            ErrorKind::NotDirectory => "not a directory",
            ErrorKind::IsDirectory => "is a directory",
            ErrorKind::NotEmpty => "directory not empty",
            ErrorKind::Busy => "\".\", \"..\" and the root stay where they are",
            ErrorKind::NameTooLong => "name too long",
            ErrorKind::InvalidName => "a name may not be empty, or hold a slash or a NUL",
            ErrorKind::InvalidArgument(reason)
            | ErrorKind::NotPermitted(reason)
            | ErrorKind::OperationUnsupported(reason) => reason,
            ErrorKind::CacheTooSmall { cache_bytes, least_bytes, block_size } => {
                return write!(
                    f,
                    "a cache of {cache_bytes} bytes is too small for blocks of {block_size} \
                     bytes: the least is {least_bytes}"
                );
            }
            ErrorKind::TooManyLinks => "too many links",
            ErrorKind::SymlinkLoop => "too many symbolic links on the way",
            ErrorKind::FileTooLarge => "file too large for its map",
            ErrorKind::NoSpace { wanted_blocks, free_blocks } => {
                return write!(
                    f,
                    "no space left: {wanted_blocks} blocks may be needed, {free_blocks} are free"
                );
            }
            ErrorKind::DirectoryFull => "directory full: its index has no room for another block",
            ErrorKind::NoInodes => "no inode is free",
            ErrorKind::ReadOnly => "read-only volume",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::OtherProject => "it belongs to another project than the directory",
            ErrorKind::Held(holder) => return write!(f, "{holder}"),
            ErrorKind::NoKey => "encrypted, and there is no key",
            ErrorKind::Stale => "the inode is gone, and its number belongs to another one",
            ErrorKind::NoAttribute => "no such extended attribute",
            ErrorKind::AttributesTooLarge => {
                "extended attributes do not fit into the inode and one block"
            }
            ErrorKind::ValueTooLong => {
                "the value of an extended attribute has more than 65,536 bytes: none may be longer"
            }
            ErrorKind::AttributeUnsupported => {
                "extended attribute name without a prefix that ext can keep"
            }
            ErrorKind::Corrupt(Corrupt { place, fault }) => {
                let (place, fault) = (format!("{place}: "), fault.to_string());
                // What is damaged may be called as its place is.
                let fault = fault.strip_prefix(&place).unwrap_or(&fault);
                return write!(f, "{place}{fault}");
            }
            ErrorKind::NotExt => "not an ext2, ext3 or ext4 volume",
            ErrorKind::Unsupported(features) => return f.write_str(&unread(features)),
            ErrorKind::NotWritten(features) => {
                let features = features.join(", ");
                return write!(f, "features that are not supported for writing: {features}");
            }
            ErrorKind::Journal(error) => return write!(f, "{error}"),
            ErrorKind::NeedsRecovery => "the journal holds changes that were not replayed",
            ErrorKind::Layout(error) => return write!(f, "{error}"),
            ErrorKind::Device(error) => return write!(f, "{error}"),
        };
        f.write_str(words)
    }
}
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Device(error) => Some(error),
            ErrorKind::Corrupt(corrupt) => Some(&corrupt.fault),
            _ => None,
        }
    }
}
