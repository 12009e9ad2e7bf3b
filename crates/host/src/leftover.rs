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

/// Letters and digits of the name of a temporary file, `.NAME.extant-XXXXXXXXXXXX.partial`. Nothing
/// but a program makes up so many, and no other file is touched.
pub const RANDOM_BYTES: usize = 12;
/// What such a name ends with.
pub const SUFFIX: &str = ".partial";
/// Bytes of the image's name that are in it: all of it stays below 255.
const NAME_BYTES_MAX: usize = 200;
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

/// What the name of each temporary file of an image of this name begins with.
pub fn prefix(name: &[u8]) -> Vec<u8> {
    [b".", &name[..name.len().min(NAME_BYTES_MAX)], b".extant-"].concat()
}

/// Removes the temporary files of an image in a folder that nobody holds, and says so. What cannot
/// be removed stays without a word: it is in nobody's way.
pub fn remove(folder: &Path, prefix: &[u8]) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for entry in entries.take(NAMES_MAX).flatten() {
        if is_temporary(entry.file_name().as_bytes(), prefix) && remove_one(&entry.path()).is_some()
        {
            note(&format!(
                "{}: was left by a program that was killed, and is removed",
                entry.path().display()
            ));
        }
    }
}

fn is_temporary(name: &[u8], prefix: &[u8]) -> bool {
    let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    rest.is_some_and(|rest| {
        rest.len() == RANDOM_BYTES && rest.iter().all(u8::is_ascii_alphanumeric)
    })
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
    fn what_nobody_holds_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (left, held) =
            (".a.img.extant-Ab3dEf000000.partial", ".a.img.extant-000000000000.partial");
        let of_others = [
            ".b.img.extant-Ab3dEf000000.partial",
            ".a.img.extant-Ab3dEf000000",
            ".a.img.extant-backup",
            ".a.img.extant-Ab3dEf00000.partial",
            ".a.img.extant-redo",
            ".notes.extant-secret",
            "a.img",
        ];
        for name in of_others.into_iter().chain([left, held]) {
            std::fs::write(path(name), "x").unwrap();
        }
        let lock = lock(File::open(path(held)).unwrap()).unwrap();
        remove(folder.path(), &prefix(b"a.img"));
        assert!(!path(left).exists() && path(held).exists());
        drop(lock);
        remove(folder.path(), &prefix(b"a.img"));
        assert!(!path(held).exists());
        for name in of_others {
            assert!(path(name).exists(), "{name}");
        }
    }

    #[test]
    fn who_makes_one_sees_that_it_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".a.extant-000000000000.partial");
        std::fs::write(&path, "x").unwrap();
        let (made, other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        other.lock().unwrap();
        assert_eq!(lock(made).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(other);
        let made = File::open(&path).unwrap();
        remove(folder.path(), &prefix(b"a"));
        assert_eq!(lock(made).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
