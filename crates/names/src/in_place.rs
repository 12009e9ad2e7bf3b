//! The superblock of a volume and its copies, changed where they are.
//!
//! *Invariants*: the copies are written before the primary superblock, so that a cut leaves a
//! primary that agrees with itself.
// tidy: writers because the superblock alone is changed, of a volume that no one has open
use extant_block::{BlockDevice, RealClock};
use extant_format::GroupNo;
use extant_format::superblock::{
    Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, StoredSuperblock, Superblock,
};
use extant_host::error::Error;
use extant_host::target::Target;
use std::path::Path;
use std::sync::Arc;

/// A volume that is open to be written.
pub struct InPlace {
    /// Its bytes.
    pub device: Arc<dyn BlockDevice>,
    target: Target,
}

impl InPlace {
    /// Opens and locks it.
    ///
    /// # Errors
    /// It is in use; the host's.
    pub fn open(path: &Path) -> Result<InPlace, Error> {
        let target = Target::in_place(path)?;
        Ok(InPlace { device: Arc::new(target.whole(RealClock::new())?), target })
    }

    /// The path of the file that it is in; `None` for a device.
    pub fn file_path(&self) -> Option<&Path> {
        self.target.device_bytes.is_none().then_some(&self.target.path)
    }

    /// The primary superblock.
    ///
    /// # Errors
    /// The host's; it is none.
    pub fn superblock(&self) -> Result<Superblock, Error> {
        superblock(&*self.device, &self.target.path)
    }

    /// Writes it, and `change`d in the same way its copies. A copy that is none any more is left
    /// alone.
    ///
    /// # Errors
    /// The host's.
    pub fn write(
        &self,
        superblock: &Superblock,
        change: impl Fn(&mut Superblock),
    ) -> Result<(), Error> {
        let failed = |error: std::io::Error| self.target.write_error(&error);
        let block_size = u64::from(superblock.block_size());
        let groups = (1..superblock.group_count()).map(GroupNo);
        for group in groups.filter(|group| superblock.has_super(*group)) {
            let at = superblock.group_start(group).0.saturating_mul(block_size);
            let mut bytes = [0; SUPERBLOCK_SIZE];
            if self.device.read(at, &mut bytes).is_err() {
                continue;
            }
            let Ok(mut copy) = Superblock::parse_any(&bytes) else { continue };
            let is_of_this = copy.has(Feature::CSUM_SEED) || copy.uuid == superblock.uuid;
            if is_of_this {
                change(&mut copy);
                self.device.write(at, &copy.encode()).map_err(failed)?;
            }
        }
        let mut changed = superblock.clone();
        change(&mut changed);
        self.device.write(SUPERBLOCK_OFFSET, &changed.encode()).map_err(failed)?;
        self.device.flush().map_err(failed)
    }
}

/// The primary superblock of a device.
///
/// # Errors
/// The host's; it is none.
pub fn superblock(device: &dyn BlockDevice, path: &Path) -> Result<Superblock, Error> {
    let shown = path.display();
    let mut bytes = [0; SUPERBLOCK_SIZE];
    match device.read(SUPERBLOCK_OFFSET, &mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(Error::new(format!("{shown}: is too short for a file system")));
        }
        read => read.map_err(|error| Error::io(&shown, &error))?,
    }
    Superblock::parse_any(&bytes).map_err(|error| {
        if StoredSuperblock::new(&bytes).features().has(Feature::JOURNAL_DEV) {
            return Error::new(format!("{shown}: is the journal of another volume"));
        }
        Error::new(format!("{shown}: {error}")).hint("extant info says what else it is")
    })
}
