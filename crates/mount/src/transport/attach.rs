//! Putting a file system into the tree of directories. As root by mount(2); otherwise, and where
//! root may not mount, by fusermount3.
use super::connection::Connection;
use super::detach::detach;
use super::device::{FuseDevice, PATH};
use super::error::{AttachError, DetachError};
use super::fusermount;
use super::options::{Covering, Detach, Kind, Options};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A mount and the device that serves it. Dropping it leaves the mount where it is; the kernel
/// fails its requests once the device is dropped too.
pub struct Attached {
    device: FuseDevice,
    target: PathBuf,
}

impl Attached {
    /// Where it is mounted: an absolute path without links.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// What serves it.
    pub fn into_device(self) -> FuseDevice {
        self.device
    }

    /// Takes the mount away, for a server that will not serve it after all.
    ///
    /// # Errors
    /// As for [`detach`].
    pub fn undo(self) -> Result<(), DetachError> {
        let target = self.target.clone();
        // The kernel waits for the server when it unmounts; without a device it has none.
        drop(self);
        detach(&target, Detach::Lazy)
    }
}

/// Mounts on `target`. The kernel's first request is then to be received; until it is answered,
/// everyone who looks at the mount waits.
///
/// # Errors
/// There is no FUSE, no permission, or no such directory.
pub fn attach(target: &Path, options: &Options) -> Result<Attached, AttachError> {
    let target = checked(target, options.covering)?;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && options.kind != Kind::File {
        return Err(AttachError::BlockNeedsRoot);
    }
    let file = match is_root {
        true => mount_as_root(&target, options)?,
        false => fusermount::mount(&target, options)?,
    };
    let connection = Connection::of(&target);
    match FuseDevice::new(file, connection) {
        Ok(device) => Ok(Attached { device, target }),
        Err(error) => {
            // The handle is closed, so the mount only fails.
            let _ = detach(&target, Detach::Lazy);
            Err(AttachError::Device(error))
        }
    }
}

/// The absolute path of a directory that may be covered.
fn checked(target: &Path, covering: Covering) -> Result<PathBuf, AttachError> {
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(number) if number == Errno::NOTCONN.raw_os_error() => {
            AttachError::Stale(target.to_owned())
        }
        _ => AttachError::Target { target: target.to_owned(), error },
    };
    let path = target.canonicalize().map_err(failed)?;
    if !std::fs::metadata(&path).map_err(failed)?.is_dir() {
        return Err(AttachError::NotDirectory(target.to_owned()));
    }
    if covering == Covering::EmptyOnly && std::fs::read_dir(&path).map_err(failed)?.next().is_some()
    {
        return Err(AttachError::NotEmpty(target.to_owned()));
    }
    Ok(path)
}

fn mount_as_root(target: &Path, options: &Options) -> Result<OwnedFd, AttachError> {
    let failed = |error: io::Error| AttachError::Mount { target: target.to_owned(), error };
    let file =
        rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
            match error {
                Errno::NOENT | Errno::NODEV | Errno::NXIO => AttachError::NoDevice,
                _ => AttachError::Device(error.into()),
            }
        })?;
    let data = options.mount_data(file.as_raw_fd(), FileType::Directory.as_raw_mode());
    let data = CString::new(data).map_err(|error| failed(error.into()))?;
    let kind = match options.kind {
        Kind::File => "fuse.extant",
        Kind::Block { .. } => "fuseblk.extant",
    };
    let flags = options.mount_flags();
    match rustix::mount::mount(options.source.as_os_str(), target, kind, flags, &*data) {
        Ok(()) => Ok(file),
        // Root of a container without the right to mount may still have fusermount3.
        Err(Errno::PERM) if options.kind == Kind::File => {
            drop(file);
            fusermount::mount(target, options).map_err(|error| match error {
                AttachError::NoFusermount => failed(Errno::PERM.into()),
                _ => error,
            })
        }
        Err(error) => Err(failed(error.into())),
    }
}
