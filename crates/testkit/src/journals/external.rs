//! Volumes whose journal is on a device of its own.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{judge, under_load};
use crate::command::{self, program};
use crate::oracle::{Access, mount_loop};
use crate::walk::Entry;

/// A volume, and the device of its journal, each in an image.
#[derive(Clone, Debug)]
pub struct External {
    /// The volume.
    pub image: PathBuf,
    /// The device of its journal.
    pub journal: PathBuf,
}

/// A file that is a block device as long as this is there; one at a time in a process, since a
/// device that is let go of and taken by another thread in the same moment shows old bytes.
struct Attached(String, #[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

static ATTACHED: Mutex<()> = Mutex::new(());

impl Attached {
    fn new(file: &Path) -> Result<Attached, String> {
        let held = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
        let output = command::output(program("losetup").args(["-f", "--show"]).arg(file))?;
        Ok(Attached(String::from_utf8_lossy(&output.stdout).trim().to_owned(), held))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = program("losetup").arg("-d").arg(&self.0).status();
    }
}

impl External {
    /// Makes both in `folder`, the volume with these words for `-O` beyond those of ext4.
    ///
    /// # Errors
    /// mke2fs or losetup refuses.
    pub fn make(folder: &Path, block_size: u32, features: &str) -> Result<External, String> {
        let [image, journal] = ["volume.img", "journal.img"].map(|name| folder.join(name));
        let size = block_size.to_string();
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-O", "journal_dev", "-b", &size]).arg(&journal);
        command::output(mke2fs.arg(format!("{}M", 4 * block_size / 1024)))?;
        let device = Attached::new(&journal)?;
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", &size, "-N", "2000"]);
        mke2fs.args(["-E", "lazy_itable_init=0", "-J", &format!("device={}", device.0)]);
        if !features.is_empty() {
            mke2fs.args(["-O", features]);
        }
        command::output(mke2fs.arg(&image).arg("32M"))?;
        Ok(External { image, journal })
    }

    /// Has the kernel work on the volume, and shuts it down meanwhile.
    ///
    /// # Errors
    /// As [`Variant::make`](super::Variant::make).
    pub fn under_load(&self, seed: u64) -> Result<(), String> {
        let device = Attached::new(&self.journal)?;
        under_load(&self.image, seed, &format!("journal_path={}", device.0))
    }

    /// Copies of both, sparse, whose names end in `suffix`.
    ///
    /// # Errors
    /// There is no room.
    pub fn copy(&self, suffix: &str) -> Result<External, String> {
        let [image, journal] = [&self.image, &self.journal].map(|file| judge::copy(file, suffix));
        Ok(External { image: image?, journal: journal? })
    }

    /// The kernel replays the journal and frees what has no name. The tree then, as
    /// [`after_kernel`](super::after_kernel).
    ///
    /// # Errors
    /// The kernel refuses, or something cannot be read.
    pub fn after_kernel(&self) -> Result<Vec<Entry>, String> {
        let device = Attached::new(&self.journal)?;
        let options = format!("noatime,journal_path={}", device.0);
        mount_loop(&self.image, Access::ReadWrite, &options)?.unmount()?;
        judge::tree(&self.image)
    }

    /// `e2fsck -fn -j JOURNAL VOLUME`: nothing is wrong, and the journal is empty. It may advise:
    /// the kernel leaves maps that could be shorter, and the number of the journal's device in the
    /// superblock is that of a loop device which another test may have by now.
    ///
    /// # Errors
    /// All that it said.
    pub fn clean(&self) -> Result<(), String> {
        let mut e2fsck = program("e2fsck");
        e2fsck.arg("-fn").arg("-j").arg(&self.journal).arg(&self.image);
        let output = e2fsck.output().map_err(|error| format!("e2fsck: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let shown = self.image.display().to_string();
        let is_usual = |line: &str| {
            line.is_empty()
                || line.starts_with("Pass ")
                || line.starts_with(&format!("{shown}: "))
                || line.contains("could be shorter.  Optimize? no")
                || line.starts_with("Superblock hint for external superblock should be ")
        };
        match output.status.code() == Some(0) && said.lines().all(is_usual) {
            true => Ok(()),
            false => Err(format!("{}\n{said}", command::shown(&e2fsck))),
        }
    }
}
