//! Making what has no bytes, and giving files owner, permissions and times.
//!
//! Nothing here follows a symbolic link: names may come from a stranger's image.
use extant_format::inode::{Device, FileType, Time};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType as HostType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmod, chownat,
    makedev, mknodat, openat, utimensat,
};
use rustix::io::Errno;

/// The path by which the kernel leads to an open file, or on from an open folder.
pub fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// An owner and a group for calls of the host; what is all ones stays as it is, as in chown(2).
pub fn owner(uid: Option<u32>, gid: Option<u32>) -> (Option<Uid>, Option<Gid>) {
    let is_number = |id: &u32| *id != u32::MAX;
    (uid.filter(is_number).map(Uid::from_raw), gid.filter(is_number).map(Gid::from_raw))
}

/// Times for calls of the host: last read, last changed.
pub fn times(last_read: Time, last_changed: Time) -> Timestamps {
    let spec = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: spec(last_read), last_modification: spec(last_changed) }
}

/// Makes a pipe, a socket or a device.
///
/// # Errors
/// The host's.
pub fn make_node(
    (folder, name): (BorrowedFd<'_>, &[u8]),
    kind: FileType,
    permissions: u16,
    Device { major, minor }: Device,
) -> Result<(), Errno> {
    let kind = match kind {
        FileType::CharacterDevice => HostType::CharacterDevice,
        FileType::BlockDevice => HostType::BlockDevice,
        FileType::Socket => HostType::Socket,
        _ => HostType::Fifo,
    };
    let mode = Mode::from_raw_mode(permissions.into());
    mknodat(folder, name, kind, mode, makedev(major, minor))
}

/// Gives a name in a folder another owner and group, as far as they are said.
///
/// # Errors
/// The host's.
pub fn set_owner(
    (folder, name): (BorrowedFd<'_>, &[u8]),
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), Errno> {
    let (uid, gid) = owner(uid, gid);
    chownat(folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

/// Gives a name in a folder other times.
///
/// # Errors
/// The host's.
pub fn set_times((folder, name): (BorrowedFd<'_>, &[u8]), times: &Timestamps) -> Result<(), Errno> {
    utimensat(folder, name, times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens a name in a folder so that it can be named by [`path_of`], whatever it is: a name may have
/// become another's meanwhile.
///
/// # Errors
/// The host's.
pub fn open_object((folder, name): (BorrowedFd<'_>, &[u8])) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Gives an open object, which is no symbolic link, other permissions.
///
/// # Errors
/// The host's.
pub fn set_permissions(object: BorrowedFd<'_>, permissions: u16) -> Result<(), Errno> {
    chmod(path_of(object), Mode::from_raw_mode(permissions.into()))
}
