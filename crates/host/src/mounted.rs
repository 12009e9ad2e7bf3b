//! A volume that is mounted, by a mount of ours or by the kernel, and how it gets longer there.
use crate::error::{Error, Exit};
use extant_block::Access;
use extant_block::in_use::{Mount, mounts};
use extant_control::Asked;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// The types under which our mounts are in the host's table.
const OURS: [&str; 2] = ["fuse.extant", "fuseblk.extant"];
/// Those of the kernel's own.
const KERNELS: [&str; 3] = ["ext2", "ext3", "ext4"];

/// Who has mounted a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeper {
    /// A server of ours.
    Ours,
    /// The kernel.
    Kernel,
}

/// A volume that is mounted.
#[derive(Debug)]
pub struct Mounted {
    /// Its row in the host's table of mounts.
    pub mount: Mount,
    /// Who has mounted it.
    pub keeper: Keeper,
    root: File,
}

/// How long a mounted volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its blocks.
    pub blocks: u64,
    /// Bytes of one.
    pub block_size: u32,
    /// Bytes that there are for it now.
    pub room_bytes: u64,
}

/// Why a mounted volume did not get longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The errno.
    pub errno: i32,
    /// In words, from a server of ours; empty from the kernel.
    pub reason: String,
}

/// Who has mounted what is in a row.
fn keeper(mount: &Mount) -> Option<Keeper> {
    let kind = mount.kind.as_str();
    let is_ours = OURS.contains(&kind);
    is_ours.then_some(Keeper::Ours).or(KERNELS.contains(&kind).then_some(Keeper::Kernel))
}

/// The mounted volume that a word names: by the folder on which it is, by its image where a server
/// of ours has mounted that, or by its block device. `None` where it names none.
///
/// # Errors
/// The folder cannot be opened.
pub fn find(word: &Path) -> Result<Option<Mounted>, Error> {
    let Ok(path) = word.canonicalize() else { return Ok(None) };
    let Ok(metadata) = std::fs::metadata(&path) else { return Ok(None) };
    let is_device = metadata.file_type().is_block_device();
    let is_it = |mount: &Mount| match keeper(mount) {
        Some(_) if metadata.is_dir() => mount.folder == path,
        Some(Keeper::Ours) => mount.source == path || is_device && mount.device == metadata.rdev(),
        Some(Keeper::Kernel) => is_device && mount.device == metadata.rdev(),
        None => metadata.is_dir() && mount.folder == path,
    };
    // What was mounted last on a folder hides what was there before.
    let Some(mount) = mounts().into_iter().rfind(is_it) else { return Ok(None) };
    let Some(keeper) = keeper(&mount) else { return Ok(None) };
    let root = File::open(&mount.folder);
    let root = root.map_err(|error| Error::io(mount.folder.display(), &error))?;
    Ok(Some(Mounted { mount, keeper, root }))
}

impl Mounted {
    /// Whether it is mounted to be read alone.
    pub fn is_read_only(&self) -> bool {
        self.mount.access == Access::ReadOnly
    }

    /// How long it is now.
    ///
    /// # Errors
    /// Those of the mount, and of the device of one of the kernel's.
    pub fn extent(&self) -> io::Result<Extent> {
        if self.keeper == Keeper::Ours {
            let mut asked = Asked::for_blocks(0);
            extant_control::ask(&self.root, &mut asked)?;
            let Asked { blocks, block_size, room_bytes, .. } = asked;
            let is_one = block_size >= 1024 && blocks > 0;
            let extent = Extent { blocks, block_size, room_bytes };
            return is_one.then_some(extent).ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
        let device = File::open(&self.mount.source)?;
        let mut bytes = [0; SUPERBLOCK_SIZE];
        device.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
        let superblock = Superblock::parse_any(&bytes);
        let superblock = superblock.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Extent {
            blocks: superblock.blocks_count,
            block_size: superblock.block_size(),
            room_bytes: rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?,
        })
    }

    /// Gives it so many blocks. Returns how many it has then: whole groups, and a last one that has
    /// room for its own metadata.
    ///
    /// # Errors
    /// Why it did not grow.
    pub fn grow(&self, blocks: u64) -> Result<u64, Refusal> {
        let failed = |error: io::Error| Refusal {
            errno: error.raw_os_error().unwrap_or(errno::IO),
            reason: String::new(),
        };
        if self.keeper == Keeper::Kernel {
            extant_control::resize(&self.root, blocks).map_err(failed)?;
            return self.extent().map(|extent| extent.blocks).map_err(failed);
        }
        let mut asked = Asked::for_blocks(blocks);
        extant_control::ask(&self.root, &mut asked).map_err(failed)?;
        match i32::try_from(asked.error).unwrap_or(errno::IO) {
            0 => Ok(asked.blocks),
            errno => Err(Refusal { errno, reason: asked.reason() }),
        }
    }

    /// A refusal as one line with a hint, of the volume by this name.
    pub fn failure(&self, shown: &str, refusal: &Refusal) -> Error {
        let folder = self.mount.folder.display();
        let error = |why: &str| Error::new(format!("{shown}: {why}"));
        let unmounted = match self.keeper {
            Keeper::Ours => format!("extant umount {folder}, and extant resize then"),
            Keeper::Kernel => format!("umount {folder}, and extant resize then"),
        };
        let why = |otherwise: &str| match refusal.reason.as_str() {
            "" => error(otherwise),
            reason => error(&format!("does not grow while it is mounted: {reason}")),
        };
        match refusal.errno {
            errno::NOT_PERMITTED => error(match self.keeper {
                Keeper::Ours => "grows for root and for who has mounted it alone",
                Keeper::Kernel => {
                    "does not grow while it is mounted: the kernel does that for root with \
                     CAP_SYS_RESOURCE, and if it is not marked as having errors"
                }
            })
            .hint(unmounted)
            .exit(Exit::Failure),
            errno::BUSY => error("is being made longer already"),
            errno::READ_ONLY => error("is mounted read-only").hint(unmounted),
            errno::NO_SPACE => error("the host has no room for its image"),
            errno::NOT_TERMINAL => {
                error("its server, or this kernel, does not let it grow while it is mounted")
                    .hint(unmounted)
            }
            errno => why(&io::Error::from_raw_os_error(errno).to_string()).hint(unmounted),
        }
    }
}

/// Errnos of Linux that are told apart.
mod errno {
    pub(super) const NOT_PERMITTED: i32 = 1;
    pub(super) const IO: i32 = 5;
    pub(super) const BUSY: i32 = 16;
    pub(super) const NOT_TERMINAL: i32 = 25;
    pub(super) const NO_SPACE: i32 = 28;
    pub(super) const READ_ONLY: i32 = 30;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_mount_of_a_volume_is_none() {
        for word in ["/proc", "/none/such", "/dev/null", "/etc/passwd"] {
            assert!(find(Path::new(word)).expect("no error").is_none(), "{word}");
        }
    }
}
