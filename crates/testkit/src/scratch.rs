//! Folders that tests fill and that go when they end.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh folder; removed with its content on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

/// Where a host has a file system in memory.
const MEMORY: &str = "/dev/shm";
/// Bytes that have to be free there: more than all tests of a suite hold at a time.
const MEMORY_BYTES_MIN: u64 = 8 << 30;

/// Whether a folder of the host's memory has room for a suite, and the host has that memory.
fn has_room(memory: &Path) -> bool {
    let free = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    free.min(kib.unwrap_or(0) << 10) >= MEMORY_BYTES_MIN
}

/// How many folders this process made.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    /// A folder whose name begins with `name`: in `TMPDIR` if that is set, else in the host's
    /// memory if there is plenty of it, else as [`Scratch::on_disk`].
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new(name: &str) -> Scratch {
        static PARENT: LazyLock<PathBuf> = LazyLock::new(|| {
            let memory = Path::new(MEMORY);
            let is_chosen = std::env::var_os("TMPDIR").is_none() && has_room(memory);
            if is_chosen { memory.to_owned() } else { std::env::temp_dir() }
        });
        Scratch::inside(&PARENT, name)
    }

    /// A folder whose name begins with `name`, in the system's folder for such: for what memory
    /// does not have, as flags of files, or requests past the page cache.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn on_disk(name: &str) -> Scratch {
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
