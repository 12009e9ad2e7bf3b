//! An open volume: what a program does with the files in it.
//!
//! *Invariants*: the engine is closed at most once: by [`Volume::close`], else when it is dropped.
//! *Locking*: none of its own.
use crate::error::{Error, ErrorKind, Result};
use crate::file::File;
use crate::image::{Hold, Image};
use crate::opening;
use crate::options::{Damage, Options};
use crate::walk::{Reach, Walk};
use extant_block::Access;
use extant_engine::{Change, Filesystem, Metadata, Rename, SetAttribute, Statfs};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device as DeviceNumbers, FileType, Time};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// An ext2, ext3 or ext4 volume that is open: for reading by [`Volume::open`], for writing by
/// [`Options::write`]. Paths are those inside of it, from its root on; calls act as root.
///
/// It may be used from several threads at once, behind an `Arc`, and borrows nothing.
///
/// What is written reaches the image in the background, with [`Volume::sync`] and with
/// [`Volume::close`], which says whether all of it did. A volume that is dropped is closed too, as
/// well as can be, but nobody hears of an error.
#[must_use = "dropping a volume that was written hides errors: close it"]
pub struct Volume {
    filesystem: Filesystem,
    closing: Closing,
    skipped: Vec<String>,
    /// Keeps memory from others; a file or a device of the host is kept by what reads it.
    _hold: Option<Hold>,
}

/// Who closes the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The volume, which is written.
    Volume,
    /// The transaction that it is a part of.
    Transaction,
    /// Nobody: it is only read, or closed already.
    Nobody,
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.closing == Closing::Volume {
            // Nobody is left to hear of it: `close` says it.
            let _ = self.filesystem.clone().close();
        }
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({:?})", self.space())
    }
}

/// What was lost, a line each.
fn lines(filesystem: &Filesystem, losses: &[extant_engine::Loss]) -> Vec<String> {
    if losses.iter().all(|loss| loss.inodes.is_empty()) {
        return losses.iter().map(|loss| loss.words.clone()).collect();
    }
    let inodes = losses.iter().flat_map(|loss| loss.inodes.iter().copied());
    let survey = filesystem.survey();
    let paths = survey.map(|survey| survey.paths(inodes)).unwrap_or_default();
    let path = |ino| paths.get(&ino).map(|path| extant_archive::printable(path));
    losses.iter().map(|loss| loss.line(&path)).collect()
}

/// The numbers, if the format has room for them: 12 bits of the major, 20 of the minor one.
///
/// # Errors
/// `InvalidInput`: others would be cut to the numbers of another device.
fn held(numbers: DeviceNumbers) -> Result<DeviceNumbers> {
    let DeviceNumbers { major, minor } = numbers;
    if major < 1 << 12 && minor < 1 << 20 {
        return Ok(numbers);
    }
    let words = format!("device {major}:{minor}: numbers go up to 4095:1048575");
    Err(Error::new(ErrorKind::InvalidInput, words))
}

impl Volume {
    /// Opens a volume for reading: nothing is written to the image, and a journal that waits is
    /// replayed in memory.
    ///
    /// ```no_run
    /// # fn main() -> extant::Result<()> {
    /// let volume = extant::Volume::open("disk.img")?;
    /// println!("{}", String::from_utf8_lossy(&volume.read("/etc/hostname")?));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Options::open`].
    pub fn open(image: impl Into<Image>) -> Result<Volume> {
        Options::default().open(image)
    }

    fn with(image: Image, options: &Options) -> Result<Volume> {
        let found = opening::find(image, options, options.access)?;
        let opened = || {
            if options.access == Access::ReadWrite {
                opening::refuse_errors(&found.device, options)?;
            }
            let (device, skipped) = match (options.damage, options.access) {
                (Damage::Refuse, _) => (found.device, Vec::new()),
                (Damage::GoOn, Access::ReadOnly) => {
                    let salvaged = extant_engine::salvaged(found.device)?;
                    (salvaged.device, salvaged.skipped)
                }
                (Damage::GoOn, Access::ReadWrite) => {
                    let words = "force_read is for reading alone";
                    return Err(Error::new(ErrorKind::InvalidInput, words));
                }
            };
            let filesystem = Filesystem::open(device, &options.engine()?)?;
            let skipped = lines(&filesystem, &skipped);
            Ok((filesystem, skipped))
        };
        let (filesystem, skipped) = opened().map_err(|error: Error| error.at(&found.name))?;
        let closing = match options.access {
            Access::ReadWrite => Closing::Volume,
            Access::ReadOnly => Closing::Nobody,
        };
        let mut volume = Volume::of(filesystem, closing, found.hold);
        volume.skipped = skipped;
        Ok(volume)
    }

    pub(crate) fn of(filesystem: Filesystem, closing: Closing, hold: Option<Hold>) -> Volume {
        Volume { filesystem, closing, skipped: Vec::new(), _hold: hold }
    }

    /// What is below this crate.
    pub(crate) fn engine(&self) -> &Filesystem {
        &self.filesystem
    }

    /// What was lost of a damaged volume, and what may be wrong, a line each, by the path of the
    /// file where it is known: with [`Options::force_read`] alone. What was mended without a loss,
    /// such as by a copy of the superblock, is not among it.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// What the device returns; after that nothing more is written.
    pub fn sync(&self) -> Result<()> {
        match self.closing {
            Closing::Volume | Closing::Transaction => Ok(self.filesystem.sync()?),
            // Nothing waits.
            Closing::Nobody => Ok(()),
        }
    }

    /// Makes durable what a path leads to, a file with its data, and all that was done before.
    ///
    /// # Errors
    /// As for [`Volume::sync`].
    pub fn sync_path(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.sync_path(path)?)
    }

    /// Makes all that was written durable, and leaves the volume clean. Files of it that are still
    /// open are not written after that.
    ///
    /// # Errors
    /// What the device returned, now or earlier: not all that was written is in the image.
    pub fn close(mut self) -> Result<()> {
        match std::mem::replace(&mut self.closing, Closing::Nobody) {
            Closing::Volume => Ok(self.filesystem.clone().close()?),
            Closing::Transaction | Closing::Nobody => Ok(()),
        }
    }

    /// Used and free room.
    pub fn space(&self) -> Statfs {
        self.filesystem.statfs()
    }

    /// The volume's label; empty if it has none.
    pub fn label(&self) -> String {
        let label = self.filesystem.superblock().label;
        let end = label.iter().position(|byte| *byte == 0).unwrap_or(label.len());
        String::from_utf8_lossy(label.get(..end).unwrap_or_default()).into_owned()
    }

    /// The volume's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.filesystem.superblock().uuid
    }
}

impl Options {
    /// Opens a volume.
    ///
    /// # Errors
    /// `NotFound`, `InUse` where one of two writes, `NotAVolume`, `Unsupported` with the names of
    /// features, `Damaged` with the place, `NeedsCheck`, `ReadOnly` for bytes that cannot be
    /// written; the device's.
    pub fn open(&self, image: impl Into<Image>) -> Result<Volume> {
        Volume::with(image.into(), self)
    }
}

/// What is there.
///
/// # Errors
/// In all of these: `NotFound`, `NotDirectory`, `Damaged` with the place, what the device returns.
/// The error has the path.
impl Volume {
    /// What `stat` tells; symlinks are followed.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.filesystem.metadata(path)?)
    }

    /// What `lstat` tells.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.filesystem.symlink_metadata(path)?)
    }

    /// All bytes of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        Ok(self.filesystem.read(path)?)
    }

    /// The target of a symlink.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        Ok(OsString::from_vec(self.filesystem.read_link(path)?).into())
    }

    /// What is in a directory, by name. Symlinks on the way and at the end are followed.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Walk> {
        Walk::new(&self.filesystem, path.as_ref(), Reach::Directory)
    }

    /// A path and all that is below it: a directory before what is in it, names by their bytes.
    /// Symlinks on the way are followed, those that are met are not.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        Walk::new(&self.filesystem, path.as_ref(), Reach::Tree)
    }

    /// Opens a file, for writing too where the volume is written.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        Ok(File::new(self.filesystem.open_file(path)?, path))
    }

    /// All extended attributes, access lists in the form of `getxattr`. Symlinks are not followed.
    pub fn attributes(&self, path: impl AsRef<Path>) -> Result<Vec<Attribute>> {
        Ok(self.filesystem.attributes(path)?)
    }
}

/// What changes it.
///
/// # Errors
/// In all of these, besides those of looking: `ReadOnly`, `Exists`, `NoSpace`, `NotPermitted` for
/// what is immutable. Then nothing of the call has happened, but for [`Volume::write`] and the
/// calls with `all` in their names, which may be half done.
impl Volume {
    /// Makes a file, or cuts one that is there to nothing, and writes its content.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.filesystem.write(path, content.as_ref())?)
    }

    /// Makes a file, or cuts one that is there to nothing, and opens it. A new one is root's and
    /// has the mode 0644.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        Ok(File::new(self.filesystem.create_file(path, 0o644)?, path))
    }

    /// Makes a directory: root's, with the mode 0755.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.create_dir(path, 0o755)?)
    }

    /// Makes a directory and those on the way that are missing.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        use extant_edit::create::{Parents, directory};
        directory(&self.filesystem, path.as_ref(), Parents::Make, None)?;
        Ok(())
    }

    /// Makes a symlink to `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.symlink(target, path)?)
    }

    /// Makes a FIFO, a socket or a device; the numbers are those of a device.
    ///
    /// # Errors
    /// `InvalidInput` for numbers that the format has no room for.
    pub fn make_node(
        &self,
        path: impl AsRef<Path>,
        file_type: FileType,
        mode: u16,
        numbers: DeviceNumbers,
    ) -> Result<()> {
        let numbers = match file_type {
            FileType::CharacterDevice | FileType::BlockDevice => {
                held(numbers).map_err(|error| error.at(path.as_ref()))?
            }
            _ => numbers,
        };
        Ok(self.filesystem.make_node(path, file_type, mode, numbers)?)
    }

    /// Gives an object another name. Symlinks are not followed.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.hard_link(original, link)?)
    }

    /// Moves a name, and replaces what has the new one.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.rename(from, to, Rename::Replace)?)
    }

    /// Removes a name of anything but a directory.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.remove_file(path)?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.filesystem.remove_dir(path)?)
    }

    /// Removes a name, and of a directory all that is in it.
    ///
    /// # Errors
    /// A directory of a damaged volume that is in itself: it stays, with those that it is in; all
    /// the rest is gone.
    pub fn remove_all(&self, path: impl AsRef<Path>) -> Result<()> {
        use extant_edit::removal::{Depth, remove};
        let mut loops = Vec::new();
        remove(&self.filesystem, path.as_ref(), Depth::Tree, &mut loops)?;
        loops.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Gives the twelve lower bits of the mode. Symlinks are not followed.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u16) -> Result<()> {
        let change = Change { permissions: Some(mode), ..Change::default() };
        Ok(self.filesystem.change(path, &change)?)
    }

    /// Gives an owner and a group; set-user-ID and capabilities end with that. Symlinks are not
    /// followed.
    pub fn set_owner(&self, path: impl AsRef<Path>, uid: u32, gid: u32) -> Result<()> {
        let change = Change { uid: Some(uid), gid: Some(gid), ..Change::default() };
        Ok(self.filesystem.change(path, &change)?)
    }

    /// Says when the content changed. Symlinks are not followed.
    pub fn set_modify_time(&self, path: impl AsRef<Path>, time: Time) -> Result<()> {
        let change = Change { modify_time: Some(time), ..Change::default() };
        Ok(self.filesystem.change(path, &change)?)
    }

    /// Sets an extended attribute (`user.note`); the value is stored as it is. Symlinks are not
    /// followed.
    pub fn set_attribute(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (name, value) = (name.as_ref(), value.as_ref());
        Ok(self.filesystem.set_attribute(path, name, value, SetAttribute::Any)?)
    }

    /// Removes an extended attribute.
    pub fn remove_attribute(&self, path: impl AsRef<Path>, name: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.filesystem.remove_attribute(path, name.as_ref())?)
    }
}
