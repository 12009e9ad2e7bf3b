//! The load under which a file system is shut down: all that puts metadata into a log, and syncs
//! of all kinds in between.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, XattrFlags, fallocate, lremovexattr, lsetxattr};

use crate::numbers::Numbers;

/// Directories and the files in each that are chosen from.
const FOLDERS: u64 = 4;
const FILES: u64 = 12;
/// Files that are kept open without a name, at most.
const NAMELESS: usize = 6;

/// Works below `root` until `operations` are done, `ended` is set or the file system is gone.
/// Returns the files that are open.
pub fn run(root: &Path, seed: u64, operations: u64, ended: &AtomicBool) -> Vec<File> {
    let mut load =
        Load { root: root.to_owned(), numbers: Numbers::new(seed), nameless: Vec::new() };
    for folder in 0..FOLDERS {
        let _ = fs::create_dir_all(root.join(format!("d{folder}")));
    }
    for _ in 0..operations {
        let result = load.step();
        if ended.load(Ordering::Relaxed) || result.is_err_and(|error| is_gone(&error)) {
            break;
        }
    }
    load.nameless
}

/// Whether the file system was shut down. Other errors are part of the load: a name that is not
/// there, a full volume.
fn is_gone(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const EROFS: i32 = 30;
    const ESHUTDOWN: i32 = 108;
    matches!(error.raw_os_error(), Some(EIO | EROFS | ESHUTDOWN))
}

struct Load {
    root: PathBuf,
    numbers: Numbers,
    nameless: Vec<File>,
}

impl Load {
    fn folder(&mut self) -> PathBuf {
        self.root.join(format!("d{}", self.numbers.below(FOLDERS)))
    }

    fn path(&mut self) -> PathBuf {
        let name = format!("f{}", self.numbers.below(FILES));
        self.folder().join(name)
    }

    fn open(path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).create(true).truncate(false).open(path)
    }

    fn step(&mut self) -> io::Result<()> {
        match self.numbers.below(22) {
            0..=2 => self.write(60_000)?,
            3 => self.write(700_000)?,
            4 | 5 => self.truncate()?,
            6 | 7 => fs::remove_file(self.path())?,
            8 | 9 => {
                let (from, to) = (self.path(), self.path());
                fs::rename(from, to)?;
            }
            10 => {
                let (from, to) = (self.path(), self.path());
                fs::hard_link(from, to)?;
            }
            11 => self.symlink()?,
            12 => self.subfolder()?,
            13 | 14 => self.attribute()?,
            15 => self.allocate()?,
            16 => self.grow()?,
            17 => self.shrink()?,
            18 => self.remove_open()?,
            19 => {
                let mode = 0o600 + u32::try_from(self.numbers.below(0o100)).unwrap_or(0);
                fs::set_permissions(self.path(), fs::Permissions::from_mode(mode))?;
            }
            20 => self.overwrite()?,
            _ => self.rename_folder()?,
        }
        match self.numbers.below(5) {
            0 => self.sync(),
            _ => Ok(()),
        }
    }

    fn write(&mut self, most: u64) -> io::Result<()> {
        let length = self.numbers.below(most) as usize;
        let bytes = self.numbers.bytes(length);
        let offset = self.numbers.below(4) * self.numbers.below(80_000);
        let path = self.path();
        Load::open(&path)?.write_all_at(&bytes, offset)
    }

    fn overwrite(&mut self) -> io::Result<()> {
        let file = File::options().write(true).open(self.path())?;
        let length = file.metadata()?.len();
        let bytes = self.numbers.bytes(3000);
        file.write_all_at(&bytes, self.numbers.below(length))
    }

    fn truncate(&mut self) -> io::Result<()> {
        let file = File::options().write(true).open(self.path())?;
        file.set_len(self.numbers.below(300_000))
    }

    fn symlink(&mut self) -> io::Result<()> {
        // Of the longer ones the target is in a block.
        let target = "x".repeat(1 + self.numbers.below(200) as usize);
        symlink(target, self.path())
    }

    fn subfolder(&mut self) -> io::Result<()> {
        let path = self.folder().join(format!("s{}", self.numbers.below(4)));
        match self.numbers.below(2) {
            0 => fs::create_dir(path),
            _ => fs::remove_dir(path),
        }
    }

    fn rename_folder(&mut self) -> io::Result<()> {
        let from = self.folder().join(format!("s{}", self.numbers.below(4)));
        let to = self.folder().join(format!("s{}", self.numbers.below(4)));
        fs::rename(from, to)
    }

    fn attribute(&mut self) -> io::Result<()> {
        let path = self.path();
        let name = format!("user.a{}", self.numbers.below(4));
        if self.numbers.below(4) == 0 {
            return Ok(lremovexattr(&path, &name)?);
        }
        let length = self.numbers.below(600) as usize;
        Ok(lsetxattr(&path, &name, &self.numbers.bytes(length), XattrFlags::empty())?)
    }

    fn allocate(&mut self) -> io::Result<()> {
        let file = Load::open(&self.path())?;
        let mode = match self.numbers.below(3) {
            0 => FallocateFlags::empty(),
            1 => FallocateFlags::KEEP_SIZE,
            _ => FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE,
        };
        let (offset, length) = (self.numbers.below(100_000), 1 + self.numbers.below(100_000));
        Ok(fallocate(&file, mode, offset, length)?)
    }

    /// Long names, so that a directory gets more blocks.
    fn grow(&mut self) -> io::Result<()> {
        let folder = self.root.join(format!("wide{}", self.numbers.below(3)));
        fs::create_dir_all(&folder)?;
        let first = self.numbers.below(1000);
        for number in first..first + 40 {
            File::create(folder.join(format!("{number:0>120}")))?;
        }
        Ok(())
    }

    /// What a directory held goes, and its blocks with it: they are revoked.
    fn shrink(&mut self) -> io::Result<()> {
        fs::remove_dir_all(self.root.join(format!("wide{}", self.numbers.below(3))))
    }

    fn remove_open(&mut self) -> io::Result<()> {
        let path = self.path();
        let file = File::options().write(true).open(&path)?;
        fs::remove_file(&path)?;
        let bytes = self.numbers.bytes(5000);
        file.write_all_at(&bytes, self.numbers.below(50_000))?;
        if self.nameless.len() == NAMELESS {
            self.nameless.remove(0);
        }
        self.nameless.push(file);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.numbers.below(8) {
            0..=2 => File::open(self.path())?.sync_all(),
            3 | 4 => File::open(self.path())?.sync_data(),
            5 | 6 => File::open(self.folder())?.sync_all(),
            _ => Ok(rustix::fs::syncfs(File::open(&self.root)?)?),
        }
    }
}
