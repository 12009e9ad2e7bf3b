//! One error for all that this crate does: of which kind, about which path, with which number.
use extant_format::superblock::SuperblockError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: its kind for programs, one line for people.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    errno: i32,
    words: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure it is, where a program may do something about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file, directory, partition or attribute.
    NotFound,
    /// The name is there already.
    Exists,
    /// A part of the path, or the object, is no directory.
    NotDirectory,
    /// The object is a directory.
    IsDirectory,
    /// The directory has names.
    NotEmpty,
    /// The image is in use: mounted, or open elsewhere, and one of the two writes.
    InUse,
    /// The volume, the image or the device was opened for reading, or is closed.
    ReadOnly,
    /// Not allowed on this object, or by the host.
    NotPermitted,
    /// No room for it: on the volume, in the size that was asked for, or on the host.
    NoSpace,
    /// A file, a name, a target or a list of attributes is larger than the format has room for.
    TooLarge,
    /// Words, numbers or paths that make no sense.
    InvalidInput,
    /// The volume has a feature, or the image a form, with which this cannot be done.
    Unsupported,
    /// The bytes are no ext2, ext3 or ext4 volume.
    NotAVolume,
    /// Something on the volume, in its journal or in an archive is damaged.
    Damaged,
    /// The volume has errors, or was not closed and has no journal: it is to be checked before it
    /// is written.
    NeedsCheck,
    /// The device, or the host, failed.
    Io,
    /// It was not wanted any more.
    Cancelled,
    /// The words say all.
    Other,
}

impl ErrorKind {
    /// The number of Linux that fits best, for what has none of its own.
    fn errno(self) -> i32 {
        match self {
            ErrorKind::NotFound => 2,
            ErrorKind::Exists => 17,
            ErrorKind::NotDirectory => 20,
            ErrorKind::IsDirectory => 21,
            ErrorKind::NotEmpty => 39,
            ErrorKind::InUse => 16,
            ErrorKind::ReadOnly => 30,
            ErrorKind::NotPermitted => 1,
            ErrorKind::NoSpace => 28,
            ErrorKind::TooLarge => 27,
            ErrorKind::InvalidInput | ErrorKind::NotAVolume | ErrorKind::Other => 22,
            ErrorKind::Unsupported => 95,
            ErrorKind::Damaged | ErrorKind::NeedsCheck => 117,
            ErrorKind::Io => 5,
            ErrorKind::Cancelled => 125,
        }
    }

    /// What a kind of the host's errors is here.
    fn of_host(kind: io::ErrorKind) -> ErrorKind {
        match kind {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            io::ErrorKind::NotADirectory => ErrorKind::NotDirectory,
            io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
            io::ErrorKind::ResourceBusy => ErrorKind::InUse,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::FileTooLarge => ErrorKind::TooLarge,
            io::ErrorKind::InvalidInput => ErrorKind::InvalidInput,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, words: impl Into<String>) -> Error {
        Error { kind, path: None, errno: kind.errno(), words: words.into(), source: None }
    }

    /// The same, about this path unless it is about another.
    pub(crate) fn at(mut self, path: impl AsRef<Path>) -> Error {
        let path = path.as_ref();
        // Devices put their name in front of what they say.
        if self.path.is_none() {
            let head = format!("{}: ", path.display());
            if let Some(rest) = self.words.strip_prefix(&head) {
                self.words = rest.to_owned();
            }
            self.path = Some(path.to_owned());
        }
        self
    }

    fn caused(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.source = Some(Box::new(source));
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What it is about: a path inside the volume, or of the host for an image or a source. `None`
    /// where it is about no single path, or the words name it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What happened, without the path.
    pub fn reason(&self) -> &str {
        &self.words
    }

    /// The number that Linux has for it (`ENOENT` is 2): the host's own where it failed.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str(&self.words)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        // What went through `std::io::Read` or `Write` of a file of ours comes back as it was.
        let error = match error.downcast::<Error>() {
            Ok(ours) => return ours,
            Err(error) => error,
        };
        let kind = ErrorKind::of_host(error.kind());
        let errno = extant_block::raw_os_error(&error).unwrap_or(kind.errno());
        Error { errno, ..Error::new(kind, extant_archive::reason(&error)) }.caused(error)
    }
}

/// With the same kind where the standard library has one, so that `Read` and `Write` can return it.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}

impl From<extant_engine::Error> for Error {
    fn from(error: extant_engine::Error) -> Error {
        use extant_engine::ErrorKind as Kind;
        let kind = match &error.kind {
            Kind::NotFound | Kind::NoAttribute | Kind::Stale => ErrorKind::NotFound,
            Kind::Exists => ErrorKind::Exists,
            Kind::NotDirectory => ErrorKind::NotDirectory,
            Kind::IsDirectory => ErrorKind::IsDirectory,
            Kind::NotEmpty => ErrorKind::NotEmpty,
            Kind::NameTooLong
            | Kind::TooManyLinks
            | Kind::FileTooLarge
            | Kind::AttributesTooLarge
            | Kind::ValueTooLong => ErrorKind::TooLarge,
            Kind::Busy
            | Kind::InvalidName
            | Kind::InvalidArgument(_)
            | Kind::CacheTooSmall { .. }
            | Kind::SymlinkLoop
            | Kind::Layout(_) => ErrorKind::InvalidInput,
            Kind::NoSpace { .. } | Kind::DirectoryFull | Kind::NoInodes => ErrorKind::NoSpace,
            Kind::ReadOnly => ErrorKind::ReadOnly,
            Kind::Held(_) => ErrorKind::InUse,
            Kind::NotPermitted(_) | Kind::PermissionDenied | Kind::OtherProject | Kind::NoKey => {
                ErrorKind::NotPermitted
            }
            Kind::AttributeUnsupported
            | Kind::OperationUnsupported(_)
            | Kind::Unsupported(_)
            | Kind::NotWritten(_) => ErrorKind::Unsupported,
            Kind::Corrupt(_) | Kind::Journal(_) => ErrorKind::Damaged,
            Kind::NotExt => ErrorKind::NotAVolume,
            Kind::NeedsRecovery => ErrorKind::NeedsCheck,
            Kind::Device(cause) => ErrorKind::of_host(cause.kind()),
        };
        let errno = match &error.kind {
            Kind::Device(cause) => extant_block::raw_os_error(cause).unwrap_or(kind.errno()),
            _ => error.errno(),
        };
        let words = match &error.kind {
            Kind::Device(cause) => extant_archive::reason(cause),
            kind => kind.to_string(),
        };
        let path = error.path.as_ref().map(|path| path.to_path_buf());
        Error { path, errno, ..Error::new(kind, words) }.caused(error)
    }
}

impl From<extant_edit::Error> for Error {
    fn from(error: extant_edit::Error) -> Error {
        use extant_edit::{Place, What};
        let path = match &error.place {
            Place::Inside(path) | Place::Host(path) => Some(path.clone()),
            Place::Volume | Place::Words(_) => None,
        };
        let failure = match error.what {
            What::Engine(kind) => Error::from(extant_engine::Error { kind: *kind, path: None }),
            What::Host(cause) => Error::from(cause),
            What::Usage(said) => Error::new(ErrorKind::InvalidInput, said),
            What::Loop(said) => Error::new(ErrorKind::Damaged, said),
            What::Said(said) => Error::new(ErrorKind::Other, said),
        };
        Error { path, ..failure }
    }
}

impl From<extant_image::Error> for Error {
    fn from(error: extant_image::Error) -> Error {
        use extant_image::ErrorKind as Kind;
        let mut errno = None;
        let kind = match &error.kind {
            Kind::Host(kind) => ErrorKind::of_host(*kind),
            Kind::Cancelled => ErrorKind::Cancelled,
            Kind::Write(cause) | Kind::Output(cause) => {
                errno = extant_block::raw_os_error(cause);
                ErrorKind::of_host(cause.kind())
            }
            Kind::Archive { .. } | Kind::ArchiveEnd | Kind::Container(_) => ErrorKind::Damaged,
            Kind::ExtImage { .. } | Kind::KernelFiles { .. } | Kind::Wrapper { .. } => {
                ErrorKind::Unsupported
            }
            Kind::Pattern | Kind::Format(_) => ErrorKind::InvalidInput,
            Kind::FileTooLarge
            | Kind::AttributesTooLarge
            | Kind::TargetTooLong
            | Kind::TooManyLinks => ErrorKind::TooLarge,
            Kind::DirectoryFull
            | Kind::DeviceTooSmall
            | Kind::Shortfall { .. }
            | Kind::InodeTables => ErrorKind::NoSpace,
            Kind::NoSuchPath => ErrorKind::NotFound,
            Kind::Spool => ErrorKind::Io,
            _ => ErrorKind::Other,
        };
        let errno = errno.unwrap_or(kind.errno());
        Error { errno, ..Error::new(kind, error.message.clone()) }.caused(error)
    }
}

impl From<extant_inspect::Error> for Error {
    fn from(error: extant_inspect::Error) -> Error {
        match error {
            extant_inspect::Error::Device(cause) => cause.into(),
            extant_inspect::Error::Superblock { error: SuperblockError::NotExt, .. } => {
                Error::new(ErrorKind::NotAVolume, error.to_string()).caused(error)
            }
            error => Error::new(ErrorKind::Damaged, error.to_string()).caused(error),
        }
    }
}

impl From<extant_repair::Error> for Error {
    fn from(error: extant_repair::Error) -> Error {
        match error {
            extant_repair::Error::Device(cause) => cause.into(),
            extant_repair::Error::Volume(error) => error.into(),
            extant_repair::Error::Engine(error) => error.into(),
            extant_repair::Error::Unclean(_) => Error::new(ErrorKind::Damaged, error.to_string()),
            extant_repair::Error::NoRoom => Error::new(ErrorKind::NoSpace, error.to_string()),
            extant_repair::Error::Refused(why) => Error::new(ErrorKind::Unsupported, why),
        }
    }
}

impl From<extant_disk::read::Error> for Error {
    fn from(error: extant_disk::read::Error) -> Error {
        use extant_disk::read::Error as Kind;
        match error {
            Kind::Read(cause) | Kind::Spool(cause) => cause.into(),
            Kind::Damaged { .. } => Error::new(ErrorKind::Damaged, error.to_string()),
            Kind::Unsupported(_) | Kind::Uncounted(_) | Kind::NotUnpacked => {
                Error::new(ErrorKind::Unsupported, error.to_string())
            }
        }
    }
}
