//! Opening files and folders of the host without a trace where the host allows it.
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// How files are opened. Reading them changes no access times, until the host refuses that: only
/// the owner of a file may ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    flags: OFlags,
}

impl Opening {
    /// For reading, and with these flags.
    pub fn new(flags: OFlags) -> Opening {
        let own = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME;
        Opening { flags: flags | own }
    }

    /// The same, with these flags too.
    pub fn with(self, flags: OFlags) -> Opening {
        Opening { flags: self.flags | flags }
    }

    /// Opens by `open`, which is called with the flags.
    ///
    /// # Errors
    /// What `open` gives.
    pub fn open(
        &mut self,
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        match open(self.flags) {
            Err(Errno::PERM) if self.flags.contains(OFlags::NOATIME) => {
                self.flags.remove(OFlags::NOATIME);
                open(self.flags)
            }
            opened => opened,
        }
    }
}
