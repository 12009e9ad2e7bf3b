//! -J device: a journal that is on a device of its own, which `-O journal_dev` has made. The volume
//! names it by its UUID, and it the volume.
use super::Failure;
use super::words::Refusal;
use crate::format_options::uuid_bytes;
use extant_engine::mkfs::ExternalJournal;
use extant_format::journal::{self, SUPERBLOCK_BYTES};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_host::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Such a device.
pub struct JournalDevice {
    path: PathBuf,
    file: File,
    superblock: Superblock,
    number: u64,
}

/// Where udev has the device of this word: a path, UUID= or LABEL=.
fn path(word: &str) -> PathBuf {
    let of = |folder: &str, name: &str| Path::new("/dev/disk").join(folder).join(name);
    match word.split_once('=') {
        Some(("UUID", uuid)) if uuid_bytes(uuid).is_some() => of("by-uuid", uuid),
        Some(("LABEL", label)) => of("by-label", label),
        _ => PathBuf::from(word),
    }
}

impl JournalDevice {
    /// Opens the device that -J names.
    ///
    /// # Errors
    /// It is no block device, or not the device of a journal; the host's.
    pub fn open(word: &str) -> Result<JournalDevice, Failure> {
        let path = path(word);
        let shown = path.display();
        let failed = |error: io::Error| Error::io(&shown, &error);
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(Refusal::Line(format!("{shown} is not a block special device.")).into());
        }
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let mut bytes = [0; SUPERBLOCK_SIZE];
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET).map_err(failed)?;
        let Some(superblock) = Superblock::parse_journal_device(&bytes) else {
            let line =
                format!("{shown}: is not the device of a journal (-O journal_dev makes one)");
            return Err(Refusal::Line(line).into());
        };
        let number = metadata.rdev();
        Ok(JournalDevice { path, file, superblock, number })
    }

    /// Bytes of its blocks, which have to be those of the volume's.
    pub fn block_size(&self) -> u32 {
        self.superblock.block_size()
    }

    /// What a volume says of it.
    ///
    /// # Errors
    /// Blocks of another size.
    pub fn named(&self, block_size: u32) -> Result<ExternalJournal, Refusal> {
        if block_size != self.block_size() {
            return Err(Refusal::Line(format!(
                "{}: blocks of {} bytes, and the volume's have {block_size}",
                self.path.display(),
                self.block_size()
            )));
        }
        let (major, minor) = (rustix::fs::major(self.number), rustix::fs::minor(self.number));
        // As the kernel stores the number of a device in 32 bits.
        let number = minor & 0xff | major << 8 | (minor & !0xff) << 12;
        Ok(ExternalJournal { uuid: self.superblock.uuid, number })
    }

    /// Adds a volume to those whose journal it is.
    ///
    /// # Errors
    /// It has no room for another, or no superblock of a journal; the host's.
    pub fn add_user(&self, uuid: &[u8; 16]) -> Result<(), Error> {
        let shown = self.path.display();
        let failed = |error: io::Error| Error::io(&shown, &error);
        let place = (self.superblock.primary_block().0 + 1) * u64::from(self.block_size());
        let mut bytes = [0; SUPERBLOCK_BYTES];
        self.file.read_exact_at(&mut bytes, place).map_err(failed)?;
        journal::add_user(&mut bytes, uuid)
            .map_err(|reason| Error::new(format!("{shown}: {reason}")))?;
        self.file.write_all_at(&bytes, place).map_err(failed)?;
        self.file.sync_all().map_err(failed)
    }
}
