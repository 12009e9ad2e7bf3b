//! The superblock of a volume as recovery meets it: whole, torn, or not fitting its checksum.
use crate::error::Error;
use extant_block::BlockDevice;
use extant_format::superblock::{
    Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, StoredSuperblock, Superblock, SuperblockError,
};

/// Reads the volume's superblock.
pub(crate) fn read_volume(device: &dyn BlockDevice) -> Result<Superblock, Error> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    match device.read(SUPERBLOCK_OFFSET, &mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(Error::Volume(SuperblockError::NotExt));
        }
        outcome => outcome?,
    }
    match (Superblock::parse_any(&bytes), Superblock::parse_torn(&bytes)) {
        (Ok(volume), _) => Ok(volume),
        (Err(SuperblockError::NotExt), _) => Err(Error::Volume(SuperblockError::NotExt)),
        // Little else is in the superblock of such a device.
        _ if StoredSuperblock::new(&bytes).features().has(Feature::JOURNAL_DEV) => {
            Err(Error::JournalDevice)
        }
        (Err(_), Some(torn)) => Ok(torn),
        (Err(error), None) => Err(Error::Volume(error)),
    }
}

/// Reads a superblock that needs recovery and does not fit its checksum.
pub(crate) fn read_unsealed(device: &dyn BlockDevice) -> Result<Option<Superblock>, Error> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    Ok(Superblock::parse_unsealed(&bytes))
}
