//! What is removed when a command fails or a signal comes: files that are not whole yet.
//!
//! *Invariants*: a registered file either gets its final name or is removed; never both, never
//! neither (short of SIGKILL). Once a signal is being handled, no file gets its final name any
//! more: the registry stays locked until the process has ended.
//! *Locking*: one mutex around the registry; held across the unlink and the rename, so that a
//! signal sees either the partial or the finished file.
#![allow(
    clippy::disallowed_methods,
    reason = "signals arrive on a thread of the host's, before any clock exists"
)]
use crate::error::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PARTIAL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<PathBuf>> {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said beside the name of a signal that ends the process.
static REMARK: Mutex<Option<String>> = Mutex::new(None);

/// Says what becomes of what was done, if a signal ends the process from now on. It holds after the
/// work too: a signal can come between its end and the end of the process.
pub fn remark(text: String) {
    *REMARK.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// Whether a finished file may take the place of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// It may (`--force`).
    Existing,
    /// It may not: a file that appeared in the meantime is left alone, and is an error.
    Nothing,
}

/// A file under way. Dropped without [`PartialFile::keep`] or [`PartialFile::rename`], or on a
/// signal, it is removed.
#[derive(Debug)]
pub struct PartialFile {
    path: Option<PathBuf>,
}

impl PartialFile {
    /// Registers a file that exists or is about to.
    pub fn register(path: &Path) -> PartialFile {
        registry().push(path.to_owned());
        PartialFile { path: Some(path.to_owned()) }
    }
    /// The file is whole and stays under its own name.
    pub fn keep(mut self) {
        if let Some(path) = self.path.take() {
            forget(&mut registry(), &path);
        }
    }
    /// The file is whole and gets its final name, in the same folder. On failure it is removed.
    pub fn rename(mut self, to: &Path, replace: Replace) -> Result<(), Error> {
        let mut registry = registry();
        let Some(path) = self.path.take() else { return Ok(()) };
        forget(&mut registry, &path);
        let renamed = rename(&path, to, replace);
        if renamed.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::new(format!("{}: appeared in the meantime", to.display()))
                    .hint("it was left as it is; --force replaces it")
            }
            _ => Error::io(to.display(), &error),
        })
    }
}

fn forget(registry: &mut Vec<PathBuf>, path: &Path) {
    if let Some(at) = registry.iter().position(|registered| registered == path) {
        registry.swap_remove(at);
    }
}

fn rename(from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if replace == Replace::Existing {
        return std::fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without the flag: a link does not replace either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to).and_then(|()| std::fs::remove_file(from))
        }
        result => result.map_err(io::Error::from),
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let mut registry = registry();
            let _ = std::fs::remove_file(&path);
            forget(&mut registry, &path);
        }
    }
}

/// Does work that no signal interrupts: one that comes meanwhile is handled afterwards. The work
/// registers, keeps and renames no files.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _registry = registry();
    work()
}

/// From now on SIGINT, SIGTERM and SIGHUP remove what is partial, say so in one line and end the
/// process with 128 + n. A signal that was ignored when we started (`nohup`) stays ignored.
pub fn watch_signals() -> io::Result<()> {
    let ignored = ignored_signals();
    let wanted =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let registry = registry();
            let removed = registry.iter().filter(|path| std::fs::remove_file(path).is_ok()).count();
            crate::progress::clear_line();
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            let remark = REMARK.lock().unwrap_or_else(PoisonError::into_inner);
            let mut done = remark.as_ref().map_or(String::new(), |remark| format!("; {remark}"));
            if removed > 0 {
                done += "; the partial image was removed";
            }
            use io::Write;
            let _ = writeln!(io::stderr().lock(), "extant: stopped by {name}{done}");
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// The mask of ignored signals of this process, as /proc has it; 0 where there is no /proc.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_files_go_and_whole_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, image) = (folder.path().join(".x"), folder.path().join("x"));
        std::fs::write(&partial, "1").unwrap();
        drop(PartialFile::register(&partial));
        assert!(!partial.exists());

        std::fs::write(&partial, "2").unwrap();
        PartialFile::register(&partial).rename(&image, Replace::Nothing).unwrap();
        assert_eq!(std::fs::read(&image).unwrap(), b"2");

        std::fs::write(&partial, "3").unwrap();
        let error = PartialFile::register(&partial).rename(&image, Replace::Nothing).unwrap_err();
        assert!(error.message.contains("appeared"), "{error}");
        assert_eq!(std::fs::read(&image).unwrap(), b"2");
        assert!(!partial.exists());

        std::fs::write(&partial, "4").unwrap();
        PartialFile::register(&partial).rename(&image, Replace::Existing).unwrap();
        assert_eq!(std::fs::read(&image).unwrap(), b"4");
    }
}
