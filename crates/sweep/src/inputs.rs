//! The files and folders that a job reads: what names them by content, and whether they changed.
//!
//! A *digest* is of what the files hold (of a folder also names, modes, owners, times, links and
//! attributes, which a build takes over). A *stamp* is of what the host says without reading them:
//! sizes, times, numbers. While a stamp is the same the content is, since no program sets the time
//! of a file's last change (`ctime`); but for a page that a program maps, writes, and writes again
//! before Linux has written it back: that changes no time.
use crate::error::{Error, Result};
use extant_block::WallTime;
use rustix::fs::{lgetxattr, llistxattr};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or folder that a job reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// As the words of the job name it.
    pub path: String,
    /// Of its content.
    pub sha256: String,
    /// What the host said of it when the digest was made; empty where it had just changed, so that
    /// the same could be said of another content.
    #[serde(default)]
    pub stamp: String,
}

/// A change within this time before a digest may be followed by one that has the same time.
const TICK_NS: i128 = 100_000_000;
/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// No list of attributes' names, and no attribute, is larger (Linux).
const ATTRIBUTE_BYTES_MAX: usize = 1 << 16;

impl Input {
    /// What a path holds at `now`.
    ///
    /// # Errors
    /// It cannot be read, is neither a file nor a folder, or changes while it is read.
    pub fn of(path: &Path, now: WallTime) -> Result<Input> {
        let name = path.to_str().ok_or_else(|| {
            Error::new(format!("{}: is no text, which a job has to be", path.display()))
        })?;
        let before = Stamp::of(path)?;
        let sha256 = digest(path)?;
        if Stamp::of(path)?.words != before.words {
            return Err(Error::new(format!("{name}: changes while it is read")));
        }
        let now = i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanoseconds);
        let is_old = before.changed_ns < now - TICK_NS;
        let stamp = if is_old { before.words } else { String::new() };
        Ok(Input { path: name.to_owned(), sha256, stamp })
    }
}

/// What the host says of a path and, of a folder, of all in it.
pub struct Stamp {
    /// The same as long as nothing changes.
    pub words: String,
    /// When the last change was, in nanoseconds since 1970.
    changed_ns: i128,
}

impl Stamp {
    /// That of a path. A link leads to what it names.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is neither a file nor a folder.
    pub fn of(path: &Path) -> Result<Stamp> {
        let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, &error))?;
        if metadata.is_file() {
            return Ok(Stamp { words: facts(&metadata), changed_ns: changed_ns(&metadata) });
        }
        if !metadata.is_dir() {
            return Err(no_input(path));
        }
        let mut digest = Sha256::new();
        let mut last_ns = changed_ns(&metadata);
        digest.update(facts(&metadata));
        walk(path, &mut |below, metadata| {
            feed(&mut digest, below.as_os_str().as_bytes());
            feed(&mut digest, facts(metadata).as_bytes());
            last_ns = last_ns.max(changed_ns(metadata));
            Ok(())
        })?;
        Ok(Stamp {
            words: format!("folder-{}", hexadecimal(&digest.finalize())),
            changed_ns: last_ns,
        })
    }
}

fn no_input(path: &Path) -> Error {
    Error::new(format!("{}: is neither a file nor a folder", path.display()))
}

fn changed_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec())
}

fn facts(metadata: &Metadata) -> String {
    format!(
        "{}-{}.{:09}-{}.{:09}-{}",
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.ino()
    )
}

/// The digest of what a path holds, in hexadecimal.
///
/// # Errors
/// As [`Stamp::of`].
pub(crate) fn digest(path: &Path) -> Result<String> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, &error))?;
    let mut digest = Sha256::new();
    if metadata.is_file() {
        of_file(path, &mut digest)?;
    } else if metadata.is_dir() {
        of_entry(path, Path::new(""), &metadata, &mut digest)?;
        walk(path, &mut |below, metadata| {
            of_entry(&path.join(below), below, metadata, &mut digest)
        })?;
    } else {
        return Err(no_input(path));
    }
    Ok(hexadecimal(&digest.finalize()))
}

fn of_file(path: &Path, digest: &mut Sha256) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => return Ok(()),
            length => digest.update(piece.get(..length).unwrap_or(&piece)),
        }
    }
}

/// All that a builder may take over of an entry of a folder.
fn of_entry(path: &Path, below: &Path, metadata: &Metadata, digest: &mut Sha256) -> Result<()> {
    feed(digest, below.as_os_str().as_bytes());
    // Names of one file are told from files with the same content by its number.
    let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
    let shared = if links > 1 { metadata.ino() } else { 0 };
    let words = [
        u64::from(metadata.mode()),
        u64::from(metadata.uid()),
        u64::from(metadata.gid()),
        metadata.rdev(),
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        links,
        shared,
    ];
    words.iter().for_each(|word| digest.update(word.to_le_bytes()));
    of_attributes(path, digest)?;
    if metadata.is_symlink() {
        let target = std::fs::read_link(path).map_err(|error| Error::io(path, &error))?;
        feed(digest, target.as_os_str().as_bytes());
    } else if metadata.is_file() {
        let mut content = Sha256::new();
        of_file(path, &mut content)?;
        digest.update(content.finalize());
    }
    Ok(())
}

fn of_attributes(path: &Path, digest: &mut Sha256) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io(path, &error.into());
    let mut list = vec![0; ATTRIBUTE_BYTES_MAX];
    let length = match llistxattr(path, list.as_mut_slice()) {
        Ok(length) => length,
        // A file system without attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(failed(error)),
    };
    let names = list.get(..length).unwrap_or_default().split(|byte| *byte == 0);
    let mut names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    for name in names {
        let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
        let length = lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice());
        feed(digest, name);
        feed(digest, value.get(..length.map_err(failed)?).unwrap_or_default());
    }
    Ok(())
}

/// Bytes whose end can be told from the beginning of the next.
fn feed(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

/// Every entry below a folder, by name, with its path from there. Links are not followed.
fn walk(top: &Path, take: &mut dyn FnMut(&Path, &Metadata) -> Result<()>) -> Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let path = top.join(&folder);
        let failed = |error: std::io::Error| Error::io(&path, &error);
        let entries: std::io::Result<Vec<_>> = std::fs::read_dir(&path).map_err(failed)?.collect();
        let mut names: Vec<_> =
            entries.map_err(failed)?.into_iter().map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        for name in names {
            let below = folder.join(name);
            let path = top.join(&below);
            let metadata =
                std::fs::symlink_metadata(&path).map_err(|error| Error::io(&path, &error))?;
            take(&below, &metadata)?;
            if metadata.is_dir() {
                open.push(below);
            }
        }
    }
    Ok(())
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digest of a file alone, in hexadecimal, and its length in bytes.
///
/// # Errors
/// What the host says of it.
pub fn of_output(path: &Path) -> Result<(String, u64)> {
    let mut digest = Sha256::new();
    of_file(path, &mut digest)?;
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, &error))?;
    Ok((hexadecimal(&digest.finalize()), metadata.size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_testkit::scratch::Scratch;

    const LATER: WallTime = WallTime { seconds: i64::MAX / 2_000_000_000, nanoseconds: 0 };

    #[test]
    fn a_digest_is_of_the_content_and_a_stamp_of_the_file() {
        let folder = Scratch::new("inputs");
        let (one, two) = (folder.join("one"), folder.join("two"));
        std::fs::write(&one, b"abc").expect("a file");
        std::fs::write(&two, b"abc").expect("a file");
        let (first, second) = (Input::of(&one, LATER).unwrap(), Input::of(&two, LATER).unwrap());
        assert_eq!(
            first.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(first.sha256, second.sha256);
        assert_ne!(first.stamp, second.stamp);
        // Just written: nothing is said of it.
        let now = WallTime { seconds: 0, nanoseconds: 0 };
        assert_eq!(Input::of(&one, now).unwrap().stamp, "");
        assert!(Input::of(Path::new("/dev/null"), now).is_err());
        assert!(Input::of(&folder.join("none"), now).is_err());
    }

    #[test]
    fn all_that_is_in_a_folder_counts() {
        let folder = Scratch::new("inputs-folder");
        let top = folder.join("top");
        std::fs::create_dir_all(top.join("a/b")).expect("folders");
        std::fs::write(top.join("a/b/file"), b"abc").expect("a file");
        let of = || Input::of(&top, LATER).unwrap();
        let first = of();
        assert_eq!(first, of());
        std::os::unix::fs::symlink("a", top.join("link")).expect("a link");
        let linked = of();
        assert!(first.sha256 != linked.sha256 && first.stamp != linked.stamp);
        std::fs::write(top.join("a/b/file"), b"abd").expect("a file");
        assert_ne!(linked.sha256, of().sha256);
        let before = of();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(top.join("a/b/file"), mode).expect("a mode");
        assert!(before.sha256 != of().sha256 && before.stamp != of().stamp);
        assert!(first.stamp.starts_with("folder-"));
    }
}
