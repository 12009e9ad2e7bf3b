//! An image into the contents of a simulated device: what is stored in it, holes left out.
use extant_block::BlockDevice;
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No more than this is loaded of an image: the run shares its memory with it.
const LOADED_MAX: u64 = 3 << 30;
const PIECE: usize = 1 << 20;

/// Bytes of an image or block device.
pub(super) fn bytes(path: &Path) -> io::Result<u64> {
    rustix::fs::seek(&File::open(path)?, SeekFrom::End(0)).map_err(io::Error::from)
}

/// Copies an image onto a device.
pub(super) fn load(path: &Path, device: &dyn BlockDevice) -> io::Result<()> {
    let file = File::open(path)?;
    let bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
    let mut piece = vec![0; PIECE];
    let (mut at, mut loaded) = (0, 0u64);
    while let Some(data) = next_data(&file, at, bytes)? {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(data))
            .unwrap_or(bytes)
            .clamp(data + 1, bytes);
        let length = (end - data).min(PIECE as u64) as usize;
        file.read_exact_at(&mut piece[..length], data)?;
        if piece[..length].iter().any(|byte| *byte != 0) {
            loaded += length as u64;
            device.write(data, &piece[..length])?;
        }
        if loaded > LOADED_MAX {
            let message = format!("holds more than {LOADED_MAX} bytes, and has to fit in memory");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        at = data + length as u64;
    }
    Ok(())
}

/// Where the next stored bytes begin; `None` when only a hole is left. A file that knows no holes is all data.
fn next_data(file: &File, at: u64, bytes: u64) -> io::Result<Option<u64>> {
    if at >= bytes {
        return Ok(None);
    }
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data).filter(|data| *data < bytes)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}
