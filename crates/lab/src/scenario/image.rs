//! An image into the contents of a simulated device: what is stored in it, holes left out.
//!
//! Where file data is not kept, the data of files is not loaded: an image of hundreds of gigabytes
//! takes part with its metadata.
use super::Data;
use extant_block::{Access, BlockDevice, FileDevice, RealClock};
use extant_format::inode::{FileType, flags};
use extant_inspect::{Claimed, SuperblockPlace, Visit, Volume, each_inode, walk};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// No more than this is loaded of an image: the run shares its memory with it.
const LOADED_MAX: u64 = 3 << 30;
const PIECE: usize = 1 << 20;
/// The most blocks of which is remembered whether they are data.
const BLOCKS_MAX: u64 = 1 << 31;

/// Bytes of an image or block device.
pub(super) fn bytes(path: &Path) -> io::Result<u64> {
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    rustix::fs::seek(&File::open(path)?, SeekFrom::End(0)).map_err(io::Error::from)
}

/// Copies an image onto a device.
pub(super) fn load(path: &Path, device: &dyn BlockDevice, data: Data) -> io::Result<()> {
    let file = File::open(path)?;
    let bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
    // What cannot be told apart is loaded whole.
    let left_out = match data {
        Data::Phantom => FileData::of(path).unwrap_or_default(),
        Data::Bytes => FileData::default(),
    };
    let mut piece = vec![0; PIECE];
    let (mut at, mut loaded) = (0, 0u64);
    while let Some(start) = next_data(&file, at, bytes)? {
        let (is_left_out, end) = left_out.run(start, bytes.min(start + PIECE as u64));
        at = end;
        if is_left_out {
            continue;
        }
        let length = (end - start) as usize;
        file.read_exact_at(&mut piece[..length], start)?;
        if piece[..length].iter().any(|byte| *byte != 0) {
            loaded += length as u64;
            device.write(start, &piece[..length])?;
        }
        if loaded > LOADED_MAX {
            let message = format!("holds more than {LOADED_MAX} bytes, and has to fit in memory");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
    }
    Ok(())
}

/// Where the next stored bytes begin; `None` when only a hole is left. A file that knows no holes
/// is all data.
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

/// The blocks that hold the data of regular files.
struct FileData {
    block_size: u64,
    /// A bit for each block; none for those behind the last.
    blocks: Vec<u64>,
}

impl Default for FileData {
    /// None.
    fn default() -> FileData {
        FileData { block_size: 4096, blocks: Vec::new() }
    }
}

impl FileData {
    /// Those of an image; `None` when it does not say.
    fn of(path: &Path) -> Option<FileData> {
        let device = FileDevice::open(RealClock::new(), path, Access::ReadOnly, 0).ok()?;
        let volume = Volume::open(Arc::new(device), SuperblockPlace::Primary).ok()?;
        let superblock = volume.superblock();
        let (block_size, count) = (superblock.block_size(), superblock.blocks_count);
        if count > BLOCKS_MAX {
            return None;
        }
        let mut data = FileData {
            block_size: block_size.into(),
            blocks: vec![0; count.div_ceil(64) as usize],
        };
        let mut claimed = Claimed::default();
        let mut failed = false;
        let scan = each_inode(&volume, &mut |ino, inode| {
            // The journal, the orphan file and values of attributes are files whose content is
            // metadata.
            let is_own = ino.0 < superblock.first_inode
                || ino.0 == superblock.orphan_file_inode
                || inode.flags & flags::EA_INODE != 0;
            if is_own || inode.file_type() != Some(FileType::Regular) {
                return ControlFlow::Continue(());
            }
            let walked = walk(&volume, inode, &mut claimed, &mut |visit| {
                if let Visit::Run { run, .. } = visit {
                    (run.start.0..run.start.0.saturating_add(run.length.into()))
                        .for_each(|block| data.add(block));
                }
                ControlFlow::Continue(())
            });
            failed |= walked.is_err();
            ControlFlow::Continue(())
        });
        scan.ok().filter(|_| !failed).map(|_| data)
    }

    fn add(&mut self, block: u64) {
        if let Some(word) = self.blocks.get_mut((block / 64) as usize) {
            *word |= 1 << (block % 64);
        }
    }

    fn has(&self, byte: u64) -> bool {
        let block = byte / self.block_size;
        let word = self.blocks.get((block / 64) as usize);
        word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Whether the byte is data of a file, and where that changes, at most at `end`.
    fn run(&self, start: u64, end: u64) -> (bool, u64) {
        let is_data = self.has(start);
        let mut at = start;
        while at < end && self.has(at) == is_data {
            at = (at / self.block_size + 1) * self.block_size;
        }
        (is_data, at.min(end))
    }
}
