//! The systems that a row is measured on, and their mounts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bench::{example, extant};
use crate::command::{self, program};
use crate::measure::seconds_now;

/// Who may use a mount, and who checks permissions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// The user who mounts; nothing is checked.
    OneUser,
    /// `allow_other,default_permissions`.
    Everyone,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum System {
    /// ext4 through a loop device.
    Kernel,
    /// A server that stores nothing.
    Null(Mode),
    /// `extant mount`.
    Extant(Mode),
    /// That of e2fsprogs.
    Fuse2fs,
}

/// Seconds after which a server that does not answer is given up.
const PATIENCE: f64 = 60.0;

impl System {
    /// What lines of progress call it.
    pub fn name(self) -> &'static str {
        match self {
            System::Kernel => "kernel",
            System::Null(Mode::OneUser) => "null server",
            System::Null(Mode::Everyone) => "null server for all",
            System::Extant(Mode::OneUser) => "extant mount",
            System::Extant(Mode::Everyone) => "extant mount for all",
            System::Fuse2fs => "fuse2fs",
        }
    }

    /// Whether it stores nothing.
    pub fn is_null(self) -> bool {
        matches!(self, System::Null(_))
    }

    /// Its server, in the foreground; none for the kernel.
    fn server(self, image: &Path, folder: &Path) -> Result<Option<Command>, String> {
        let command = match self {
            System::Kernel => return Ok(None),
            System::Null(mode) => {
                let mut null = Command::new(example("null_server")?);
                null.arg(folder);
                if mode == Mode::Everyone {
                    null.arg("everyone");
                }
                null
            }
            System::Extant(mode) => {
                let options = match mode {
                    Mode::OneUser => "rw",
                    Mode::Everyone => "rw,allow_other,default_permissions",
                };
                let mut ours = program(&extant()?);
                ours.args(["mount", "--foreground", "-o", options]).arg(image).arg(folder);
                ours
            }
            System::Fuse2fs => {
                let mut peer = program("fuse2fs");
                peer.args(["-f", "-o", "rw"]).arg(image).arg(folder);
                peer
            }
        };
        Ok(Some(command))
    }
}

/// A mounted volume and its server.
pub struct Mounted {
    folder: PathBuf,
    server: Option<Child>,
}

impl Mounted {
    /// Mounts `image` on `folder`, and waits until the mount answers.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn new(system: System, image: &Path, folder: &Path) -> Result<Mounted, String> {
        let Some(mut server) = system.server(image, folder)? else {
            command::output(program("mount").args(["-o", "loop"]).arg(image).arg(folder))?;
            return Ok(Mounted { folder: folder.to_owned(), server: None });
        };
        let failed = |why: String| format!("{}: {why}", system.name());
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = server.spawn().map_err(|error| failed(error.to_string()))?;
        let start = seconds_now();
        while !is_mounted(folder) {
            let status = child.try_wait().map_err(|error| failed(error.to_string()))?;
            if status.is_some() || seconds_now() - start > PATIENCE {
                let _ = child.kill();
                let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
                return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
            }
            pause();
        }
        Ok(Mounted { folder: folder.to_owned(), server: Some(child) })
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Unmounts it, waits until the server is gone, and until the image is on the disk.
    ///
    /// # Errors
    /// The volume is in use, the server fails, or the disk.
    pub fn end(mut self, image: &Path) -> Result<(), String> {
        command::output(program("umount").arg(&self.folder))?;
        if let Some(server) = self.server.take() {
            let output = server.wait_with_output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
        }
        if !image.is_file() {
            return Ok(());
        }
        crate::bench::flush(image)
    }

    /// Takes it away whatever state it is in.
    pub fn give_up(mut self) {
        let _ = program("umount").arg("-l").arg(&self.folder).output();
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Waits until no loop device has `image`: the kernel detaches one a moment after the unmount, and
/// the next system refuses an image that has one.
pub fn await_detached(image: &Path) {
    let image = image.to_string_lossy();
    let is_attached = || {
        let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        devices
            .filter_map(|device| {
                std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
            })
            .any(|file| file.trim_end() == image)
    };
    let start = seconds_now();
    while is_attached() && seconds_now() - start < PATIENCE {
        pause();
    }
}

/// Whether something is mounted on `folder`, which is not touched itself.
fn is_mounted(folder: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = folder.to_string_lossy();
    table.lines().any(|line| line.split(' ').nth(4) == Some(&folder))
}

/// A millisecond.
fn pause() {
    let moment = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&moment));
}
