//! Why an image cannot be built or exported.
use extant_archive::reason;
use std::fmt;
use std::io;

/// A failure: one line for people, and for programs what kind of failure it is.
#[derive(Debug)]
pub struct Error {
    /// One line, beginning with what it is about: a path, a source, the image.
    pub message: String,
    /// What kind of failure it is, where a caller may do something about it.
    pub kind: ErrorKind,
    /// Whether it concerns one file of a source, which could be left out.
    pub scope: Scope,
}

/// What a failure concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The whole image.
    Whole,
    /// One file of a source: with [`crate::source::OnTrouble::Skip`] it would be left out.
    OneFile,
}

/// How a program finds the C library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// It has its own copy: nothing can be preloaded.
    Static,
    /// The loader finds it, and what is preloaded before it.
    Dynamic,
}

/// What kinds of failure a caller can distinguish.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message says all.
    Other,
    /// Who hears of the progress did not want it any more ([`crate::Progress::is_cancelled`]).
    Cancelled,
    /// The host refused a call.
    Host(io::ErrorKind),
    /// The image could not be written.
    Write(io::Error),
    /// An archive cannot be read on.
    Archive {
        /// The name that the source was given.
        name: String,
        /// Why not.
        error: Box<extant_archive::ReadError>,
    },
    /// An archive ends otherwise than the standard has it, and was to be refused for it.
    ArchiveEnd,
    /// A source is an ext image, not an archive.
    ExtImage {
        /// The name that the source was given.
        name: String,
    },
    /// A container image cannot be read.
    Container(ContainerFault),
    /// Files of a compressed archive or a pipe cannot be kept until the image is written.
    Spool,
    /// A folder holds what the kernel makes up while it is read.
    KernelFiles {
        /// The path of the folder in its source, empty for the source itself.
        path: Vec<u8>,
    },
    /// A program that pretends to be root was asked for, and does not reach this process.
    Wrapper {
        /// Its name.
        name: &'static str,
        /// The variable of the environment that asks for it.
        variable: String,
        /// How this process is linked.
        linkage: Linkage,
    },
    /// A pattern of what is left out is none.
    Pattern,
    /// mkfs cannot make a volume of these options.
    Format(Box<extant_engine::Error>),
    /// A file is longer than a file of the volume can be.
    FileTooLarge,
    /// The extended attributes of a file fit neither its inode nor a block.
    AttributesTooLarge,
    /// The target of a symlink is longer than a block.
    TargetTooLong,
    /// A directory has more names than its index can hold.
    DirectoryFull,
    /// A file has more names, or a directory more subdirectories, than the volume can count.
    TooManyLinks,
    /// The image does not fit the block device that it goes to.
    DeviceTooSmall,
    /// The content does not fit the size, or the number of inodes, that was asked for.
    Shortfall {
        /// Bytes of an image that holds the content.
        needed_bytes: u64,
        /// Inodes that the content needs, where a number was asked for that is smaller.
        needed_inodes: Option<u64>,
    },
    /// With so many inodes the inode tables leave less room than was asked for.
    InodeTables,
    /// There is no such path in the image that is exported.
    NoSuchPath,
    /// Something of an exported image cannot be read, and the caller broke off for it.
    LeftOut,
    /// The output takes no more of an exported archive.
    Output(io::Error),
}

/// What is wrong with a container image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContainerFault {
    /// Something in it is not as it says; the message names it.
    Damaged,
    /// A blob that it names is not there.
    Missing,
    /// A layer that is not handed on with it is not there.
    ForeignLayer,
    /// It is a link out of the folder that holds the image.
    LeavesFolder,
    /// It is something else than an image with a root file system.
    NoRootFilesystem,
    /// There are several images, and nothing says which is meant.
    Ambiguous,
    /// There is no image of that name.
    NoSuchImage,
    /// There is no image for that platform.
    NotThisPlatform,
    /// It was not seen to be one before its files were taken for those of a root file system.
    CameAsFiles,
}

impl Error {
    /// A failure of which the message says all.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: ErrorKind::Other, scope: Scope::Whole }
    }

    /// The same failure, of that kind.
    #[must_use]
    pub(crate) fn of(self, kind: ErrorKind) -> Error {
        Error { kind, ..self }
    }

    /// A failed call on `subject`, in the words of the host.
    pub(crate) fn io(subject: impl fmt::Display, error: &io::Error) -> Error {
        Error::new(format!("{subject}: {}", reason(error))).of(ErrorKind::Host(error.kind()))
    }

    /// The same failure with the thing that it is about in front of its message.
    #[must_use]
    pub(crate) fn about(self, subject: impl fmt::Display) -> Error {
        Error { message: format!("{subject}: {}", self.message), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Write(error) | ErrorKind::Output(error) => Some(error),
            ErrorKind::Archive { error, .. } => Some(&**error),
            ErrorKind::Format(error) => Some(&**error),
            _ => None,
        }
    }
}
