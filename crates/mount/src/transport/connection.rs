//! The kernel's side of a mount, as `/sys/fs/fuse/connections` shows it to the user who mounted: it
//! can be ended from outside, which also wakes the readers of `/dev/fuse`.
use super::detach;
use super::options::Detach;
use rustix::mount::UnmountFlags;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists connections.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Where the kernel keeps how far it reads ahead, by the number of a mount's device.
const READ_AHEADS: &str = "/sys/class/bdi";

/// A connection, found by the device number of its mount.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Where it is mounted.
    folder: PathBuf,
    /// Its name in [`CONNECTIONS`]; none if the mount was not found in the table.
    number: Option<u64>,
    /// Its name in [`READ_AHEADS`]. That of a mount of a block device is not the device's own.
    device: Option<String>,
}

impl Connection {
    /// That of the mount that was just made on `folder`. The folder itself is not looked at: its
    /// server does not answer yet.
    pub(super) fn of(folder: &Path) -> Connection {
        // The last one covers the others.
        let mount =
            extant_block::in_use::mounts().into_iter().rfind(|mount| mount.folder == folder);
        let suffix = match &mount {
            Some(mount) if mount.kind.starts_with("fuseblk") => "-fuseblk",
            _ => "",
        };
        let number = mount.as_ref().map(|mount| kernel_number(mount.device));
        let device =
            mount.map(|mount| (rustix::fs::major(mount.device), rustix::fs::minor(mount.device)));
        Connection {
            folder: folder.to_owned(),
            number,
            device: device.map(|(major, minor)| format!("{major}:{minor}{suffix}")),
        }
    }

    /// See [`super::Transport::widen_read_ahead`].
    pub(super) fn widen_read_ahead(&self, kib: u32) {
        let Some(device) = &self.device else { return };
        // What a user has set to more, by udev say, stays.
        let file = format!("{READ_AHEADS}/{device}/read_ahead_kb");
        let now = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        if now.is_some_and(|now: u32| now < kib) {
            let _ = std::fs::write(&file, kib.to_string());
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// Neither the file of the kernel nor unmounting by force is there for us; the mount was then
    /// at least taken out of the tree of directories, if that was possible.
    pub(super) fn abort(&self) -> io::Result<()> {
        if let Some(number) = self.number
            && !self.is_another(number)
            && std::fs::write(format!("{CONNECTIONS}/{number}/abort"), "1").is_ok()
        {
            return Ok(());
        }
        if rustix::mount::unmount(self.folder.as_os_str().as_bytes(), UnmountFlags::FORCE).is_ok() {
            return Ok(());
        }
        detach::detach(&self.folder, Detach::Lazy)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Whether the number is another mount's by now: the kernel gives that of a mount that ended
    /// to the next one. Of a mount that was taken out of the tree of directories nothing is seen.
    fn is_another(&self, number: u64) -> bool {
        let mounts = extant_block::in_use::mounts();
        let of_number: Vec<_> =
            mounts.iter().filter(|mount| kernel_number(mount.device) == number).collect();
        !of_number.is_empty() && of_number.iter().all(|mount| mount.folder != self.folder)
    }
}

/// A device's number as the kernel keeps it: 20 bits for the minor number.
fn kernel_number(device: u64) -> u64 {
    u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device))
}
