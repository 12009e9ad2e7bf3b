//! Temporary files that were left by programs that were killed.
//!
//! Who writes one holds its lock, so one that nobody holds is of no use to anyone.
//!
//! *Invariants*: a file is removed only by who has its lock. Who makes one takes its lock after it
//! was made, and makes another one if somebody was faster.
use crate::console::note;
use rustix::fs::{Mode, OFlags};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the name of a temporary file has in it: `.NAME.extant-XXXXXX`.
pub const MARK: &[u8] = b".extant-";
/// Letters and digits after it.
const RANDOM_BYTES: usize = 6;
/// Names of a folder that are looked at, at most.
const NAMES_MAX: usize = 100_000;

/// Locks a temporary file that was just made.
///
/// # Errors
/// `AlreadyExists` if another program has taken it for one that was left: another name is to be
/// tried.
pub fn lock(file: File) -> io::Result<File> {
    let is_ours = match file.try_lock() {
        Ok(()) => file.metadata()?.nlink() > 0,
        Err(TryLockError::WouldBlock) => false,
        // A host without locks: nobody removes it there.
        Err(TryLockError::Error(_)) => true,
    };
    if is_ours { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

/// Removes the temporary files in a folder that nobody holds, and says so. What cannot be removed
/// stays without a word: it is in nobody's way.
pub fn remove(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for entry in entries.take(NAMES_MAX).flatten() {
        if is_temporary(entry.file_name().as_bytes()) && remove_one(&entry.path()).is_some() {
            note(&format!(
                "{}: was left by a program that was killed, and is removed",
                entry.path().display()
            ));
        }
    }
}

fn is_temporary(name: &[u8]) -> bool {
    let Some((head, random)) = name.split_at_checked(name.len().saturating_sub(RANDOM_BYTES))
    else {
        return false;
    };
    let is_made_up = random.iter().all(u8::is_ascii_alphanumeric);
    let named = head.strip_prefix(b".").and_then(|head| head.strip_suffix(MARK));
    is_made_up && named.is_some_and(|named| !named.is_empty())
}

/// Removes one, if it is a file of this user that nobody holds.
fn remove_one(path: &Path) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    let is_ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || file.try_lock().is_err() {
        return None;
    }
    // It may have got its own name before it was locked here, and another one this name.
    let named = std::fs::symlink_metadata(path).ok()?;
    let is_same = (named.dev(), named.ino()) == (metadata.dev(), metadata.ino());
    is_same.then(|| std::fs::remove_file(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".a.img.extant-Ab3dEf", ".b.img.extant-000000", ".extant-000000", "a.img"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let held = lock(File::open(path(".b.img.extant-000000")).unwrap()).unwrap();
        remove(folder.path());
        assert!(!path(".a.img.extant-Ab3dEf").exists());
        for name in [".b.img.extant-000000", ".extant-000000", "a.img"] {
            assert!(path(name).exists(), "{name}");
        }
        drop(held);
        remove(folder.path());
        assert!(!path(".b.img.extant-000000").exists());
    }

    #[test]
    fn who_makes_one_sees_that_it_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".a.extant-000000");
        std::fs::write(&path, "x").unwrap();
        let (made, other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        other.lock().unwrap();
        assert_eq!(lock(made).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(other);
        let made = File::open(&path).unwrap();
        remove(folder.path());
        assert_eq!(lock(made).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
