//! Taking a mount out of the tree of directories.
use super::error::DetachError;
use super::fusermount;
use super::options::Detach;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;

/// Unmounts what is mounted on `target`: by umount2(2), or by fusermount3 where the host does not
/// let us.
///
/// # Errors
/// It is in use, not mounted, or not ours.
pub fn detach(target: &Path, how: Detach) -> Result<(), DetachError> {
    let lazily = match how {
        Detach::WhenFree => UnmountFlags::empty(),
        Detach::Lazy => UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW | lazily) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount::unmount(target, how),
        Err(Errno::BUSY) => Err(DetachError::Busy(target.to_owned())),
        Err(Errno::INVAL) => Err(DetachError::NotMounted(target.to_owned())),
        Err(error) => Err(DetachError::Other {
            target: target.to_owned(),
            said: std::io::Error::from(error).to_string(),
        }),
    }
}
