//! Why a mount was not made or not taken away: one line each, and a hint where there is something
//! to do.
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no mount.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// The kernel has no FUSE, or no device for it.
    NoDevice,
    /// `/dev/fuse` cannot be opened.
    Device(io::Error),
    /// The target cannot be looked at.
    Target {
        /// As it was given.
        target: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// A server that has ended left its mount there.
    Stale(PathBuf),
    /// The target is no directory.
    NotDirectory(PathBuf),
    /// The target has entries.
    NotEmpty(PathBuf),
    /// Only root mounts block devices as such.
    BlockNeedsRoot,
    /// The program that mounts for users is not installed.
    NoFusermount,
    /// `/etc/fuse.conf` does not let users mount for others.
    OthersNotAllowed,
    /// What fusermount3 said.
    Fusermount(String),
    /// mount(2) failed.
    Mount {
        /// Where.
        target: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// The kernel's protocol is too old.
    Protocol {
        /// The kernel's major number.
        major: u32,
        /// The kernel's minor number.
        minor: u32,
    },
    /// The first message of the kernel was not what it must be, or did not come.
    Greeting(String),
}

impl AttachError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            AttachError::NoDevice => "load the module (modprobe fuse); in a container, give it \
                 the device (--device /dev/fuse)"
                .to_owned(),
            AttachError::Device(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "the host lets only some users mount; see the mode of /dev/fuse".to_owned()
            }
            AttachError::Target { target, error } if error.kind() == io::ErrorKind::NotFound => {
                format!("mkdir {}", target.display())
            }
            AttachError::Stale(target) => format!("fusermount3 -u {}", target.display()),
            AttachError::NotEmpty(_) => "-o nonempty hides what is in it".to_owned(),
            AttachError::BlockNeedsRoot => "run it as root, or mount an image in a file".to_owned(),
            AttachError::NoFusermount => "install the package fuse3, or run it as root".to_owned(),
            AttachError::OthersNotAllowed => {
                "put the line user_allow_other into /etc/fuse.conf, or leave allow_other out"
                    .to_owned()
            }
            AttachError::Mount { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                "a container needs the capability to mount (--cap-add SYS_ADMIN)".to_owned()
            }
            AttachError::Protocol { .. } => "Linux 5.4 and later have it".to_owned(),
            _ => return None,
        })
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NoDevice => f.write_str("/dev/fuse: the kernel offers no FUSE here"),
            AttachError::Device(error) => write!(f, "/dev/fuse: {error}"),
            AttachError::Target { target, error } => write!(f, "{}: {error}", target.display()),
            AttachError::Stale(target) => {
                write!(
                    f,
                    "{}: the server of the file system mounted here has ended",
                    target.display()
                )
            }
            AttachError::NotDirectory(target) => {
                write!(f, "{}: not a directory", target.display())
            }
            AttachError::NotEmpty(target) => {
                write!(f, "{}: the directory is not empty", target.display())
            }
            AttachError::BlockNeedsRoot => f.write_str("only root mounts a block device"),
            AttachError::NoFusermount => {
                f.write_str("fusermount3, which mounts for users, is not installed")
            }
            AttachError::OthersNotAllowed => {
                f.write_str("allow_other: the host does not let users mount for others")
            }
            AttachError::Fusermount(said) => write!(f, "fusermount3: {said}"),
            AttachError::Mount { target, error } => {
                write!(f, "{}: mount: {error}", target.display())
            }
            AttachError::Protocol { major, minor } => {
                write!(f, "the kernel speaks FUSE {major}.{minor}, and 7.31 is needed")
            }
            AttachError::Greeting(what) => write!(f, "/dev/fuse: {what}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// Why a mount is still there.
#[derive(Debug)]
#[non_exhaustive]
pub enum DetachError {
    /// Files are open on it, or a process has its directory there.
    Busy(PathBuf),
    /// Nothing is mounted there.
    NotMounted(PathBuf),
    /// It belongs to someone else, or was not made by FUSE.
    NotAllowed(PathBuf),
    /// What the host said.
    Other {
        /// Where.
        target: PathBuf,
        /// What.
        said: String,
    },
}

impl DetachError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            DetachError::Busy(target) => Some(format!(
                "fuser -vm {} lists who uses it; --lazy detaches it now, and ends when they do",
                target.display()
            )),
            _ => None,
        }
    }
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DetachError::Busy(target) => write!(f, "{}: in use", target.display()),
            DetachError::NotMounted(target) => write!(f, "{}: not mounted", target.display()),
            DetachError::NotAllowed(target) => {
                write!(f, "{}: not yours to unmount", target.display())
            }
            DetachError::Other { target, said } => write!(f, "{}: {said}", target.display()),
        }
    }
}

impl std::error::Error for DetachError {}
