//! The image that a command writes: refused when it exists, is mounted or in use; whole in the end,
//! or not there.
//!
//! **A regular file** is written under a temporary name (see [`leftover`]), in the folder of
//! its final name, and renamed when it is whole. So with `--force` the old image is lost only when
//! the new one is complete, and a reader never finds half an image. The price: on a nearly full
//! disk both must fit for a moment; the message of a full disk says so. It is locked while it is
//! written: one that nobody holds was left by a program that was killed, and the next one that
//! writes an image of that name there removes it. A symbolic link is followed first: what it points
//! to is replaced, the link stays. **A block device** has no second name: it
//! is written in place, which needs `--force`, and what stops half-way leaves it half-written. It
//! is opened exclusively, so that the host refuses when anything else holds it. **Anything else**
//! (FIFO, character device, socket, folder) is refused: an image is not written from front to back.

use crate::cleanup::{PartialFile, Replace};
use crate::console::note;
use crate::error::{Error, is_full};
use crate::leftover;
use crate::place;
use crate::written::Disk;
use extant_block::in_use::{self, Claim, Lasting, Mount};
use extant_block::{Access, Clock, FileDevice, RealClock};
use extant_edit::redo::{self, Finished};
use extant_edit::undo;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do with an image that is already there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Refuse.
    Refuse,
    /// Write over it (`--force`), unless it is in use.
    Overwrite,
}

/// An image under way.
#[derive(Debug)]
pub struct Target {
    /// Opened for reading and writing; empty if it is a regular file.
    pub file: File,
    /// Where the image will be, for messages; symbolic links are resolved.
    pub path: PathBuf,
    /// The size of a block device in bytes: the image cannot be larger. `None` for a regular file.
    pub device_bytes: Option<u64>,
    /// Keeps others from it; `None` for a new file.
    _claim: Option<Claim>,
    partial: Option<PartialFile>,
    replace: Replace,
}

impl Target {
    /// Makes sure that `path` may be written, and opens it. Nothing that exists is changed yet.
    ///
    /// # Errors
    /// It exists and may not be replaced, is no regular file or block device, or is in use; the
    /// host's.
    pub fn create(path: &Path, existing: Existing) -> Result<Target, Error> {
        if path == Path::new("-") {
            return Err(Error::usage(
                "-: an image is not written in one go, and cannot go to standard output",
            )
            .hint("name a file; ./- is a file of that name"));
        }
        match std::fs::metadata(path) {
            Ok(metadata) => Target::over(path, &metadata, existing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match std::fs::symlink_metadata(path) {
                    Ok(_) => Err(Error::new(format!(
                        "{}: is a symbolic link to nothing",
                        path.display()
                    ))),
                    Err(_) => Target::beside(path.to_owned(), Replace::Nothing, None),
                }
            }
            Err(error) => Err(Error::io(path.display(), &error)),
        }
    }

    fn over(path: &Path, metadata: &Metadata, existing: Existing) -> Result<Target, Error> {
        check(path, metadata)?;
        let shown = path.display();
        let file_type = metadata.file_type();
        if existing == Existing::Refuse {
            let hint = match file_type.is_file() {
                true => "--force replaces it",
                false => "it is a block device: --force writes over all that it holds",
            };
            return Err(Error::new(format!("{shown}: exists already")).hint(hint));
        }
        let resolved = path.canonicalize().map_err(|error| Error::io(shown, &error))?;
        match file_type.is_file() {
            true => {
                // It may be read meanwhile, even by what the new one is made of; but what another
                // program writes to it would be lost. A file that we may not read is replaced.
                if let Ok(old) = File::open(&resolved) {
                    let _ = claim(&old, path, Access::ReadOnly)?;
                }
                Target::beside(resolved, Replace::Existing, Some(metadata.mode() & 0o777))
            }
            false => Target::device(resolved),
        }
    }

    /// Opens and locks a file or block device to be written where it is: what it holds outside the
    /// bytes that are written stays. What stops half-way leaves it half-written.
    ///
    /// # Errors
    /// It is no regular file or block device, or is in use; the host's.
    pub fn in_place(path: &Path) -> Result<Target, Error> {
        let metadata =
            std::fs::metadata(path).map_err(|error| Error::io(path.display(), &error))?;
        check(path, &metadata)?;
        let resolved = path.canonicalize().map_err(|error| Error::io(path.display(), &error))?;
        if !metadata.file_type().is_file() {
            return Target::device(resolved);
        }
        let file = in_use::open(&resolved, Access::ReadWrite);
        let file = file.map_err(|error| Error::io(path.display(), &error))?;
        let claim = claim(&file, path, Access::ReadWrite)?;
        let target = Target {
            file,
            path: resolved,
            device_bytes: None,
            _claim: Some(claim),
            partial: None,
            replace: Replace::Existing,
        };
        if let Some(log) = redo::path_of(&target.path) {
            say_finished(path, target.end_change(&log)?);
        }
        Ok(target)
    }

    /// Ends the change of a log, of the disk in the file.
    ///
    /// # Errors
    /// As [`redo::finish`].
    pub fn end_change(&self, log: &Path) -> Result<Finished, extant_edit::Error> {
        redo::finish_on(log, &|| {
            let disk = self.disk(RealClock::new(), &self.path.display().to_string());
            disk.map(|disk| disk.device).map_err(|error| io::Error::other(error.message))
        })
    }

    /// The disk in the file or device, to be written where it is.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn disk(&self, clock: Arc<dyn Clock>, shown: &str) -> Result<Disk, Error> {
        let bytes = match self.device_bytes {
            Some(bytes) => bytes,
            None => self.file.metadata().map_err(|error| Error::io(shown, &error))?.len(),
        };
        Disk::open(clock, (&self.file, &self.path), bytes, shown)
    }

    /// A new file beside this one, to take its name when it is whole. This one is held meanwhile,
    /// so that nobody writes what would be lost.
    ///
    /// # Errors
    /// It is a block device; the host's.
    pub fn replacement(&self) -> Result<Target, Error> {
        let shown = self.path.display();
        if self.device_bytes.is_some() {
            return Err(Error::new(format!(
                "{shown}: is a block device, which has no second name"
            )));
        }
        let metadata = self.file.metadata().map_err(|error| Error::io(shown, &error))?;
        Target::beside(self.path.clone(), Replace::Existing, Some(metadata.mode() & 0o777))
    }

    fn device(path: PathBuf) -> Result<Target, Error> {
        let file =
            in_use::open(&path, Access::ReadWrite).map_err(|error| unclaimed(&path, &error))?;
        let claim = claim(&file, &path, Access::ReadWrite)?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let bytes = bytes.map_err(|error| Error::io(path.display(), &error.into()))?;
        Ok(Target {
            file,
            path,
            device_bytes: Some(bytes),
            _claim: Some(claim),
            partial: None,
            replace: Replace::Existing,
        })
    }

    fn beside(path: PathBuf, replace: Replace, mode: Option<u32>) -> Result<Target, Error> {
        let name = path
            .file_name()
            .ok_or_else(|| Error::new(format!("{}: names no file", path.display())))?;
        let folder = place::folder_of(&path);
        let (file, partial) =
            temporary(folder, name.as_bytes()).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::no_folder(folder.display()),
                _ => Error::io(path.display(), &error),
            })?;
        if let Some(mode) = mode {
            // The old image's permissions; when the host does not let us, the new file's are good
            // enough.
            let _ = rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode));
        }
        Ok(Target { file, path, device_bytes: None, _claim: None, partial: Some(partial), replace })
    }

    /// The image is whole: gives a regular file its name. The caller has synced what it wants
    /// durable.
    ///
    /// # Errors
    /// Another file has the name by now and may not be replaced; the host's.
    pub fn finish(self) -> Result<(), Error> {
        let Some(partial) = self.partial else { return Ok(()) };
        partial.rename(&self.path, self.replace)?;
        // A log of the image that was there before means nothing to this one, nor how a repair of
        // that is undone.
        if let Some(log) = redo::path_of(&self.path) {
            let _ = std::fs::remove_file(undo::path_of(&log, 0));
            let _ = std::fs::remove_file(log);
        }
        Ok(())
    }

    /// A failed write to the image: a full disk is named as the host's.
    pub fn write_error(&self, error: &io::Error) -> Error {
        let failure = Error::io(self.path.display(), error);
        let (true, Some(_)) = (is_full(error.kind()), &self.partial) else {
            return failure;
        };
        let folder = place::folder_of(&self.path);
        let system = mount_of(folder)
            .map_or_else(|| folder.display().to_string(), |mount| mount.display().to_string());
        let also = match self.replace {
            Replace::Existing => ", which holds the old image until the new one is whole",
            Replace::Nothing => "",
        };
        Error::new(format!(
            "{}: the host file system {system} is full; the partial image is removed",
            self.path.display()
        ))
        .hint(format!("make room on {system}{also}, or write the image elsewhere"))
    }

    /// All of the file or device, to be written where it is.
    ///
    /// # Errors
    /// The host's.
    pub fn whole(&self, clock: Arc<dyn Clock>) -> Result<FileDevice, Error> {
        let shown = self.path.display().to_string();
        let failed = |error: io::Error| Error::io(&shown, &error);
        let bytes = match self.device_bytes {
            Some(bytes) => bytes,
            None => self.file.metadata().map_err(failed)?.len(),
        };
        let file = self.file.try_clone().map_err(failed)?;
        FileDevice::from_file(clock, file, shown.clone(), bytes, 0).map_err(failed)
    }

    /// Device and inode number of the file that is being written: a source must not contain it.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }
}

/// Makes sure that it is a regular file or block device, and that nothing uses it.
///
/// # Errors
/// What it is instead, or what uses it.
pub fn check(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let shown = path.display();
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Err(Error::new(format!("{shown}: is a directory, not an image"))
            .hint("the last argument is the image to be written"));
    }
    if !file_type.is_file() && !file_type.is_block_device() {
        return Err(Error::new(format!("{shown}: is neither a regular file nor a block device"))
            .hint("an image is not written from front to back: write it to a file first"));
    }
    let clock = RealClock::new();
    let patience = in_use::LockWait::begin(&*clock);
    while let Some(used) = in_use::kernel_use(metadata) {
        if !patience.rest(Lasting::Long) {
            return Err(Error::new(format!("{shown}: {used}")).hint(hint_attached()));
        }
    }
    Ok(())
}

/// Says that a change that was interrupted was ended, or undone.
pub fn say_finished(image: &Path, finished: Finished) {
    let shown = image.display();
    match finished {
        Finished::None => {}
        Finished::Removed => note(&format!(
            "{shown}: a change that was interrupted before it was decided has left no trace"
        )),
        Finished::Applied(blocks) => {
            note(&format!("{shown}: a change that was interrupted was ended: {blocks} blocks"));
        }
    }
}

/// Takes the lock of a file. It ends with the file's handle and the copies of it.
fn claim(file: &File, path: &Path, access: Access) -> Result<Claim, Error> {
    in_use::claim(&*RealClock::new(), file, access).map_err(|error| unclaimed(path, &error))
}

/// What can be done about an image that is in use.
pub fn hint_busy() -> &'static str {
    match in_use::is_waiting_asked() {
        true => {
            "unmount or detach it, or end the program that has it open; --wait was not long enough"
        }
        false => {
            "unmount or detach it, or wait until the program that has it open has ended (--wait)"
        }
    }
}

/// What can be done about one that the kernel has.
fn hint_attached() -> &'static str {
    match in_use::is_waiting_asked() {
        true => "unmount or detach it first; --wait was not long enough",
        false => "unmount or detach it first; --wait waits for it",
    }
}

/// What is said of a file or device that could not be opened, or not alone.
fn unclaimed(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ResourceBusy => {
            Error::new(format!("{}: {error}", path.display())).hint(hint_busy())
        }
        _ => Error::io(path.display(), error),
    }
}

/// A new file beside the one of this name, locked and registered for removal.
fn temporary(folder: &Path, name: &[u8]) -> io::Result<(File, PartialFile)> {
    let prefix = leftover::prefix(name);
    leftover::remove(folder, &prefix);
    let made = tempfile::Builder::new()
        .prefix(std::ffi::OsStr::from_bytes(&prefix))
        .suffix(leftover::SUFFIX)
        .rand_bytes(leftover::RANDOM_BYTES)
        .disable_cleanup(true)
        .make_in(folder, |path| {
            // Registered before it exists: a signal in between finds nothing to remove, never
            // something to forget.
            let partial = PartialFile::register(path);
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
            match file.and_then(leftover::lock) {
                Ok(file) => Ok((file, partial)),
                Err(error) => {
                    partial.keep();
                    Err(error)
                }
            }
        })?;
    Ok(made.into_parts().0)
}

/// A file without a name in the folder of a path: it is gone when it is closed.
///
/// # Errors
/// The host's.
pub fn nameless(beside: &Path) -> Result<File, Error> {
    let folder = place::folder_of(beside);
    tempfile::tempfile_in(folder).map_err(|error| Error::io(folder.display(), &error))
}

/// The mount of a block device, or of the loop device over a file; `None` also where that cannot be
/// found out.
pub fn mount(path: &Path) -> Option<Mount> {
    in_use::kernel_use(&std::fs::metadata(place::file_of(path)).ok()?)?.mount
}

/// The mount point below which a folder is.
fn mount_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let below = in_use::mounts().into_iter().filter(|mount| folder.starts_with(&mount.folder));
    below.map(|mount| mount.folder).max_by_key(|folder| folder.as_os_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_old_image_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.img");
        std::fs::write(&path, "old").unwrap();
        assert!(
            Target::create(&path, Existing::Refuse)
                .unwrap_err()
                .message
                .ends_with("exists already")
        );

        let mut target = Target::create(&path, Existing::Overwrite).unwrap();
        target.file.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(target);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the partial file is gone");

        let mut target = Target::create(&path, Existing::Overwrite).unwrap();
        target.file.write_all(b"new").unwrap();
        target.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_hold_an_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (path, words) in [
            (folder.path().to_owned(), "is a directory"),
            (PathBuf::from("/dev/null"), "neither a regular file"),
            (folder.path().join("no/x.img"), "no such folder"),
        ] {
            let error = Target::create(&path, Existing::Overwrite).unwrap_err();
            assert!(error.message.contains(words), "{error}");
        }
    }
}
