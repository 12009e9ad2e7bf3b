//! File systems under the same programs: the kernel's ext4 through a loop device, and `extant
//! mount`. What is proved or measured of one is proved or measured of the other by the same words.

use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::oracle::{self, Access};
use crate::scratch::Scratch;
use crate::skips::skip;

/// Who mounts an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// The kernel's own ext4, with these options of mount(8), or none.
    Kernel(String),
    /// This command, with these options, or none.
    Extant(PathBuf, String),
}

/// An image that is mounted by a [`System`]; unmounted on drop.
#[derive(Debug)]
pub struct Volume {
    mounted: Mounted,
}

#[derive(Debug)]
enum Mounted {
    Kernel(oracle::Mounted),
    Extant { command: PathBuf, folder: Scratch, is_mounted: bool },
}

impl System {
    /// Mounts `image` for reading and writing.
    ///
    /// # Errors
    /// What the system says.
    pub fn mount(&self, image: &Path) -> Result<Volume, String> {
        let mounted = match self {
            System::Kernel(options) => {
                Mounted::Kernel(oracle::mount_loop(image, Access::ReadWrite, options)?)
            }
            System::Extant(command, options) => {
                let folder = Scratch::new("extant-mount");
                let mut mount = program("timeout");
                mount.arg("60").arg(command).arg("mount");
                if !options.is_empty() {
                    mount.args(["-o", options]);
                }
                mount.arg(image).arg(folder.path());
                started(&mut mount)?;
                Mounted::Extant { command: command.clone(), folder, is_mounted: true }
            }
        };
        Ok(Volume { mounted })
    }
}

/// Runs a command that leaves a server in the background, which keeps what the command's output
/// would be read from.
fn started(command: &mut std::process::Command) -> Result<(), String> {
    let notes = Scratch::new("extant-started");
    let path = notes.join("said");
    let file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    let again = file.try_clone().map_err(|error| error.to_string())?;
    let status = command.stdin(std::process::Stdio::null()).stdout(file).stderr(again).status();
    let status = status.map_err(|error| format!("{}: {error}", command::shown(command)))?;
    if status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(&path).unwrap_or_default();
    Err(format!("{}: {status}\n{said}", command::shown(command)))
}

impl Volume {
    /// Where its root is.
    pub fn path(&self) -> &Path {
        match &self.mounted {
            Mounted::Kernel(mounted) => mounted.path(),
            Mounted::Extant { folder, .. } => folder.path(),
        }
    }

    /// Unmounts it, and returns when all of it is in the image.
    ///
    /// # Errors
    /// Somebody uses it, or the server does not end well.
    pub fn unmount(mut self) -> Result<(), String> {
        match &mut self.mounted {
            Mounted::Extant { command, folder, is_mounted } => {
                unmount_extant(command, folder.path())?;
                *is_mounted = false;
                return Ok(());
            }
            Mounted::Kernel(_) => {}
        }
        match self.into_kernel() {
            Some(mounted) => mounted.unmount(),
            None => Ok(()),
        }
    }

    fn into_kernel(mut self) -> Option<oracle::Mounted> {
        let nothing = Mounted::Extant {
            command: PathBuf::new(),
            folder: Scratch::new("extant-mount"),
            is_mounted: false,
        };
        match std::mem::replace(&mut self.mounted, nothing) {
            Mounted::Kernel(mounted) => Some(mounted),
            Mounted::Extant { .. } => None,
        }
    }
}

fn unmount_extant(command: &Path, folder: &Path) -> Result<(), String> {
    let mut umount = program("timeout");
    umount.arg("300").arg(command).arg("umount").arg(folder);
    command::output(&mut umount).map(|_| ())
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Mounted::Extant { command, folder, is_mounted: true } = &self.mounted
            && unmount_extant(command, folder.path()).is_err()
        {
            // Detached, so that the folder can go; the server ends with the last user.
            let _ = program("umount").arg("-l").arg(folder.path()).status();
        }
    }
}

/// Makes an image of `size` (a number and a unit) by mke2fs with these words, and gives all of it
/// to the tests: no block is reserved, and nothing is written later than the call that asks for it.
///
/// # Errors
/// What mke2fs says.
pub fn make_image(image: &Path, words: &str, size: &str) -> Result<(), String> {
    let _ = std::fs::remove_file(image);
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    mke2fs.args(words.split_whitespace()).arg(image).arg(size);
    command::output(&mut mke2fs).map(|_| ())
}

/// Whether FUSE is here and may be used; if not, a line says so.
///
/// # Panics
/// It is not here and this is the gate.
pub fn can_mount_fuse() -> bool {
    let is_here = Path::new("/dev/fuse").exists() && command::is_root();
    if !is_here {
        skip("no /dev/fuse, or not root");
    }
    is_here
}
