//! Folders that tests fill and that go when they end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh folder; removed with its content on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

/// How many folders this process made.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    /// A folder whose name begins with `name`, in the system's folder for such (`TMPDIR`).
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new(name: &str) -> Scratch {
        Scratch::inside(&std::env::temp_dir(), name)
    }

    /// A folder whose name begins with `name`, in `parent`.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn inside(parent: &Path, name: &str) -> Scratch {
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{name}-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Scratch { path },
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The library keeps a descriptor open on every level, and a frame on the stack: a chain may
        // be deeper than we may open files, and than the stack of a test that has failed in it,
        // which would then end all others without a word of why.
        if std::thread::panicking() || std::fs::remove_dir_all(&self.path).is_err() {
            let _ = crate::command::run("rm", &["-rf".as_ref(), self.path.as_os_str()]);
        }
    }
}
