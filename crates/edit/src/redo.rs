//! The redo log of a change: a file beside the image that has the new bytes of each block, for
//! volumes without a journal and changes that do not fit into one.
//!
//! ```text
//! log       | header | piece | .. | record | .. | trailer |    numbers are little-endian
//! header    | "EXTREDO4" | block size: 4 | pieces: 4 | UUID of the volume as it will be: 16
//!           | its first byte in the image: 8 | bytes of the image: 8 | records: 8
//!           | crc32 of both sectors of the superblock that says "not clean": 4, 4 |
//! piece     | first block: 8 | blocks: 4 | crc32 of what is there: 4 |
//! record    | block: 8 | crc32 of each 512 bytes before: 4 .. | bytes of the block |
//! trailer   | sha256 of all before |
//! change    what was free is durable | log | its fsync | fsync of its folder    from here on: done
//!             | blocks in place, in the order that `order` says | flush | the log is removed
//!             | fsync of its folder
//! ```
//!
//! While blocks are brought the superblock in the image says that the volume is not clean, for
//! programs that do not know of the log.
//!
//! A log that is not whole, or whose digest does not fit, was not finished: the image is as before.
//! A whole one is applied by the next program that writes the image, and read through by those that
//! only read it. It belongs to an image if UUID, size and place fit, if each sector of each of its
//! blocks is as it was before, as it is to be, or says "not clean", and if what the change wrote to
//! free blocks is there: any other means that something else changed the image since (a copy from
//! before the change was put in its place, say), and is refused.
use crate::beside::{self, DIGEST_BYTES, Digesting, number_at};
use crate::differing::read_block;
use crate::error::{Error, Result};
use crate::order::{self, superblock_block};
use crate::pending;
use extant_block::{BlockDevice, FileDevice, Overlay, Window};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use extant_journal::transaction::Blocks;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"EXTREDO4";
const HEADER_BYTES: usize = 64;
const PIECE_BYTES: usize = 16;
/// What a piece covers at most, in bytes: one is read in one go.
const PIECE_COVERS_MAX: u64 = 1 << 20;
/// Where the UUID is in a superblock.
const UUID_AT: u64 = 0x68;
/// What a power cut leaves whole.
const SECTOR_BYTES: usize = 512;
/// Memory for the blocks of a log that is read through, in bytes; more are in a spool.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Which image a log belongs to, as far as the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The byte of the image at which the volume begins.
    pub offset: u64,
    /// Bytes of the whole image.
    pub image_bytes: u64,
}

/// The name of the redo log of an image: `.NAME.extant-redo` in its folder. `None` for a path
/// without a name.
pub fn path_of(image: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(image.file_name()?);
    name.push(".extant-redo");
    Some(image.with_file_name(name))
}

/// A change of blocks of a volume that nobody has open, by a redo log.
pub(crate) struct Plan<'a> {
    /// The volume.
    pub device: &'a Arc<dyn BlockDevice>,
    /// Where the log will be.
    pub path: &'a Path,
    /// The image of the volume.
    pub identity: &'a Identity,
    /// Bytes of a block.
    pub block_size: u32,
    /// The blocks that were free, and that the change has written already.
    pub passed: &'a [Range<u64>],
    /// What is to be where.
    pub blocks: &'a dyn Blocks,
}

impl Plan<'_> {
    /// Changes the blocks.
    ///
    /// # Errors
    /// The host's, for the log, with the volume as before and the log removed; the device's.
    pub fn change(&self) -> Result<()> {
        self.decide()?;
        self.bring()
    }

    /// Makes a whole log durable: from here on the change has happened, unless the log is removed
    /// before a block is in its place.
    ///
    /// # Errors
    /// The host's, with the volume as before and the log removed.
    pub fn decide(&self) -> Result<()> {
        // tidy: writers because the volume is closed
        self.device.flush().map_err(failed)?;
        let written = self.write().and_then(|()| beside::sync_folder(self.path));
        written.map_err(|error| {
            // What was there before is somebody else's.
            if error.kind() != io::ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(self.path);
            }
            not_begun(self.path, error)
        })
    }

    /// Brings the blocks to their places, makes them durable and removes the log.
    ///
    /// # Errors
    /// The device's, and the log is left; the host's.
    pub fn bring(&self) -> Result<()> {
        let begun = |error: io::Error| {
            failed(error).hint("the next command that opens the image ends the change")
        };
        order::bring(&**self.device, self.block_size, self.blocks).map_err(begun)?;
        beside::remove(self.path)
    }

    /// Writes a log and makes it durable.
    fn write(&self) -> io::Result<()> {
        let Plan { device, block_size, identity, .. } = *self;
        let pieces = pieces(self.passed, block_size);
        let mut log = Digesting::create(self.path)?;
        log.put(&MAGIC)?;
        log.put(&block_size.to_le_bytes())?;
        let count = u32::try_from(pieces.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        log.put(&count.to_le_bytes())?;
        log.put(&self.uuid()?)?;
        log.put(&identity.offset.to_le_bytes())?;
        log.put(&identity.image_bytes.to_le_bytes())?;
        let superblock = superblock_block(block_size);
        let mut brought = (0..self.blocks.len()).map(|at| self.blocks.number(at));
        let marked = order::unclean(&**device)?;
        // Where the change leaves the superblock alone, it says what it said when all is done.
        let restored = marked.is_some() && brought.all(|number| number != superblock);
        log.put(&(self.blocks.len() as u64 + u64::from(restored)).to_le_bytes())?;
        let mut stored = [0; SUPERBLOCK_SIZE];
        device.read(SUPERBLOCK_OFFSET, &mut stored)?;
        for sector in marked.unwrap_or(stored).chunks(SECTOR_BYTES) {
            log.put(&crc32fast::hash(sector).to_le_bytes())?;
        }
        let mut there = Vec::new();
        for piece in pieces {
            there.resize(((piece.end - piece.start) * u64::from(block_size)) as usize, 0);
            device.read(piece.start * u64::from(block_size), &mut there)?;
            log.put(&piece.start.to_le_bytes())?;
            log.put(&((piece.end - piece.start) as u32).to_le_bytes())?;
            log.put(&crc32fast::hash(&there).to_le_bytes())?;
        }
        let mut before = vec![0; block_size as usize];
        let mut record = |number: u64, after: Option<&[u8]>| {
            read_block(&**device, number, &mut before)?;
            log.put(&number.to_le_bytes())?;
            for sector in before.chunks(SECTOR_BYTES) {
                log.put(&crc32fast::hash(sector).to_le_bytes())?;
            }
            log.put(after.unwrap_or(&before))
        };
        if restored {
            record(superblock, None)?;
        }
        for at in 0..self.blocks.len() {
            record(self.blocks.number(at), Some(&*self.blocks.bytes(at)?))?;
        }
        log.finish()
    }

    /// The UUID of the volume as it will be: a superblock that was lost has none before.
    fn uuid(&self) -> io::Result<[u8; 16]> {
        let (block, within) = uuid_place(self.block_size as usize);
        let brought = (0..self.blocks.len()).find(|at| self.blocks.number(*at) == block);
        let mut uuid = [0; 16];
        match brought {
            Some(at) => {
                let bytes = self.blocks.bytes(at)?;
                uuid.copy_from_slice(bytes.get(within..within + 16).unwrap_or(&[0; 16]));
            }
            None => self.device.read(SUPERBLOCK_OFFSET + UUID_AT, &mut uuid)?,
        }
        Ok(uuid)
    }
}

fn failed(error: io::Error) -> Error {
    extant_engine::Error::from(error).into()
}

/// What is said where a file beside the image could not be written, and nothing has changed.
pub(crate) fn not_begun(path: &Path, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "the image is as it was; --log FILE keeps the log elsewhere"
        }
        io::ErrorKind::InvalidFilename => {
            "the image is as it was; its name leaves no room for that of the log: --log FILE"
        }
        _ => "the image is as it was; the log needs room beside it, or elsewhere: --log FILE",
    };
    Error::host(path, error).hint(hint)
}

/// The block that has the UUID in the superblock, and where in it.
fn uuid_place(block_size: usize) -> (u64, usize) {
    let place = (SUPERBLOCK_OFFSET + UUID_AT) as usize;
    ((place / block_size) as u64, place % block_size)
}

/// Ranges of blocks in pieces of 1 MiB at most.
fn pieces(passed: &[Range<u64>], block_size: u32) -> Vec<Range<u64>> {
    let blocks_max = PIECE_COVERS_MAX / u64::from(block_size);
    let cut = |range: &Range<u64>| {
        let end = range.end;
        let starts = range.clone().step_by(blocks_max as usize);
        starts.map(move |start| start..end.min(start + blocks_max)).collect::<Vec<_>>()
    };
    passed.iter().flat_map(cut).collect()
}

/// A whole log.
struct Log {
    file: File,
    block_size: usize,
    uuid: [u8; 16],
    identity: Identity,
    pieces: u64,
    records: u64,
    /// The sums of the two sectors of the superblock that says "not clean", as it does before or
    /// while blocks are brought.
    marked: [u32; 2],
    /// The blocks of the records.
    numbers: Vec<u64>,
}

/// What is wrong with a log that does not belong to its image.
const FOREIGN: &str = "belongs to another state of the image: something else changed that after \
                       a change by extant was interrupted";

impl Log {
    /// Opens a log; `None` if it is not whole, or not there.
    ///
    /// # Errors
    /// The host's; `InvalidInput` for what is no regular file, and for the file of somebody who is
    /// neither root nor this user: in a folder of many users anybody could put one.
    fn open(path: &Path) -> io::Result<Option<Log>> {
        let Some(mut file) = beside::open(path, "redo log")? else { return Ok(None) };
        let length = file.metadata()?.len();
        let mut header = [0; HEADER_BYTES];
        if length < (HEADER_BYTES + DIGEST_BYTES) as u64 {
            return Ok(None);
        }
        file.read_exact(&mut header)?;
        let number = |at: usize| number_at(&header, at);
        let block_size = (number(8) & 0xffff_ffff) as usize;
        let is_block = block_size.is_power_of_two() && (1024..=65536).contains(&block_size);
        if header[..8] != MAGIC || !is_block {
            return Ok(None);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&header[16..32]);
        let identity = Identity { offset: number(32), image_bytes: number(40) };
        let (pieces, records) = (number(8) >> 32, number(48));
        let marked = [number(56) as u32, (number(56) >> 32) as u32];
        let numbers = Vec::new();
        let mut log = Log { file, block_size, uuid, identity, pieces, records, marked, numbers };
        let records = (log.record_bytes() as u64).checked_mul(log.records);
        let whole = records.and_then(|bytes| bytes.checked_add(log.beside_records()));
        Ok(if whole == Some(length) && log.is_whole(&header)? { Some(log) } else { None })
    }

    /// Bytes of a log but for its records.
    fn beside_records(&self) -> u64 {
        (HEADER_BYTES + DIGEST_BYTES) as u64 + self.pieces * PIECE_BYTES as u64
    }

    fn sums_bytes(&self) -> usize {
        self.block_size / SECTOR_BYTES * 4
    }

    fn record_bytes(&self) -> usize {
        8 + self.sums_bytes() + self.block_size
    }

    /// Whether the digest fits; notes the numbers of the records.
    fn is_whole(&mut self, header: &[u8]) -> io::Result<bool> {
        let mut sha = Sha256::new();
        sha.update(header);
        self.each_piece(|piece| {
            sha.update(piece);
            Ok(())
        })?;
        let mut numbers = Vec::new();
        self.each(|record| {
            sha.update(record);
            numbers.push(number_at(record, 0));
            Ok(())
        })?;
        self.numbers = numbers;
        let mut digest = [0; DIGEST_BYTES];
        (&self.file).read_exact(&mut digest)?;
        Ok(sha.finalize()[..] == digest)
    }

    /// Calls `each` with the bytes of each piece.
    fn each_piece(
        &self,
        mut each: impl FnMut(&[u8; PIECE_BYTES]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = BufReader::new(&self.file);
        file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let mut piece = [0; PIECE_BYTES];
        for _ in 0..self.pieces {
            file.read_exact(&mut piece)?;
            each(&piece)?;
        }
        Ok(())
    }

    /// Calls `each` with the bytes of each record. The file is then read up to its digest.
    fn each(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let records_at = HEADER_BYTES as u64 + self.pieces * PIECE_BYTES as u64;
        (&self.file).seek(SeekFrom::Start(records_at))?;
        let mut record = vec![0; self.record_bytes()];
        for _ in 0..self.records {
            (&self.file).read_exact(&mut record)?;
            each(&record)?;
        }
        Ok(())
    }

    /// The block of a record, the sums of its sectors before, and its bytes.
    fn parts<'a>(&self, record: &'a [u8]) -> (u64, &'a [u8], &'a [u8]) {
        let (number, rest) = record.split_at(8);
        let number = number_at(number, 0);
        let (sums, bytes) = rest.split_at(self.sums_bytes());
        (number, sums, bytes)
    }

    /// The sum of a sector of a block where the superblock says "not clean".
    fn marked_at(&self, number: u64, sector: usize) -> Option<u32> {
        let place = number.checked_mul(self.block_size as u64)?;
        let place = place.checked_add((sector * SECTOR_BYTES) as u64)?;
        let within = place.checked_sub(SUPERBLOCK_OFFSET)? / SECTOR_BYTES as u64;
        self.marked.get(usize::try_from(within).ok()?).copied()
    }

    /// Whether it belongs to the volume on a device of an image.
    fn belongs(&self, device: &dyn BlockDevice, image_bytes: u64) -> io::Result<bool> {
        let size = self.block_size as u64;
        let bytes = device.info().bytes;
        if image_bytes != self.identity.image_bytes {
            return Ok(false);
        }
        let (mut belongs, mut brings_uuid) = (true, false);
        let mut now = vec![0; self.block_size];
        let (uuid_block, within) = uuid_place(self.block_size);
        self.each(|record| {
            let (number, sums, after) = self.parts(record);
            // The device may end within its last block.
            if !belongs || number.checked_mul(size).is_none_or(|start| start >= bytes) {
                belongs = false;
                return Ok(());
            }
            read_block(device, number, &mut now)?;
            let brought = after.get(within..within + self.uuid.len());
            brings_uuid |= number == uuid_block && brought == Some(&self.uuid[..]);
            let sectors = now.chunks(SECTOR_BYTES).zip(after.chunks(SECTOR_BYTES));
            let sums = sums.as_chunks::<4>().0.iter().map(|sum| u32::from_le_bytes(*sum));
            belongs = sectors.zip(sums).enumerate().all(|(at, ((now, after), sum))| {
                let is = crc32fast::hash(now);
                now == after || is == sum || self.marked_at(number, at) == Some(is)
            });
            Ok(())
        })?;
        // Where the log brings the UUID, its sector was compared above.
        let is_of_volume = brings_uuid || self.has_uuid(device)?;
        Ok(belongs && is_of_volume && self.has_pieces(device)?)
    }

    /// Writes the blocks to their places on the device of its volume, makes them durable, and only
    /// then removes the log.
    ///
    /// # Errors
    /// The device's, and the log is left; the host's.
    fn apply(&self, path: &Path, device: &dyn BlockDevice) -> Result<()> {
        let failed = |error: io::Error| Error::host(path, error);
        order::bring(device, self.block_size as u32, self).map_err(failed)?;
        beside::remove(path)
    }

    /// Whether what the change wrote to free blocks is there.
    fn has_pieces(&self, device: &dyn BlockDevice) -> io::Result<bool> {
        let (size, end) = (self.block_size as u64, device.info().bytes);
        let (mut is_there, mut bytes) = (true, Vec::new());
        self.each_piece(|piece| {
            let (start, rest) = piece.split_at(8);
            let start = number_at(start, 0);
            let words = rest.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
            let [count, sum] = words.collect::<Vec<_>>()[..] else { return Ok(()) };
            let length = u64::from(count) * size;
            let at = start.checked_mul(size);
            let fits = at.and_then(|at| at.checked_add(length)).is_some_and(|last| last <= end);
            if !is_there || !fits || length > PIECE_COVERS_MAX {
                is_there = false;
                return Ok(());
            }
            bytes.resize(length as usize, 0);
            device.read(at.unwrap_or(0), &mut bytes)?;
            is_there = crc32fast::hash(&bytes) == sum;
            Ok(())
        })?;
        Ok(is_there)
    }

    /// Whether the volume has the UUID in its superblock.
    fn has_uuid(&self, device: &dyn BlockDevice) -> io::Result<bool> {
        let mut uuid = [0; 16];
        device.read(SUPERBLOCK_OFFSET + UUID_AT, &mut uuid)?;
        Ok(uuid == self.uuid)
    }
}

impl Blocks for Log {
    fn len(&self) -> usize {
        self.numbers.len()
    }
    fn number(&self, at: usize) -> u64 {
        self.numbers[at]
    }
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>> {
        let records_at = (self.beside_records() - DIGEST_BYTES as u64) as usize;
        let place = records_at + (at + 1) * self.record_bytes() - self.block_size;
        let mut bytes = vec![0; self.block_size];
        self.file.read_exact_at(&mut bytes, place as u64)?;
        Ok(Arc::new(bytes))
    }
}

/// What became of a log that was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finished {
    /// There was none.
    None,
    /// It was not whole, and is removed: the change had not happened.
    Removed,
    /// It was applied: this many blocks.
    Applied(u64),
}

/// Ends what a change left behind in the log of an image, which the caller has locked for writing:
/// a file with the bytes of the disk.
///
/// # Errors
/// A log that does not belong to the image; the host's.
pub fn finish(path: &Path, image: &File) -> Result<Finished> {
    finish_on(path, &|| {
        let clock = extant_block::RealClock::new();
        let length = rustix::fs::seek(image, rustix::fs::SeekFrom::End(0))?;
        let name = path.display().to_string();
        Ok(Arc::new(FileDevice::from_file(clock, image.try_clone()?, name, length, 0)?))
    })
}

/// As [`finish`], of an image whose disk is opened where it is needed.
///
/// # Errors
/// As [`finish`], and those of opening it.
pub fn finish_on(
    path: &Path,
    open: &dyn Fn() -> io::Result<Arc<dyn BlockDevice>>,
) -> Result<Finished> {
    let failed = |error: io::Error| Error::host(path, error);
    if std::fs::symlink_metadata(path).is_err() {
        pending::forget_pending(path, 0)?;
        return Ok(Finished::None);
    }
    let Some(log) = Log::open(path).map_err(failed)? else {
        if !beside::may_be_begun(path, "redo log", MAGIC).map_err(failed)? {
            return Err(Error::host_said(path, "is no redo log, and is not replaced by one")
                .hint("name a file that is not there: --log FILE"));
        }
        pending::forget_pending(path, 0)?;
        beside::remove(path)?;
        return Ok(Finished::Removed);
    };
    let disk = open().map_err(failed)?;
    let (length, offset) = (disk.info().bytes, log.identity.offset);
    let device = Window::new(disk, offset..length.max(offset), path.display().to_string());
    if !log.belongs(&device, length).map_err(failed)? {
        return Err(foreign(path));
    }
    pending::keep_pending(path, offset).map_err(failed)?;
    log.apply(path, &device)?;
    Ok(Finished::Applied(log.records))
}

fn foreign(path: &Path) -> Error {
    Error::host_said(path, FOREIGN)
        .hint("remove it if the image is right as it is, and check that (extant check)")
}

/// The volume on a device, which begins at `identity.offset` of its image, as it is once its log is
/// applied: in memory, nothing is written. `None` where there is no whole log, or one of another
/// volume of the image.
///
/// # Errors
/// As [`finish`].
pub fn over(
    path: &Path,
    device: &Arc<dyn BlockDevice>,
    identity: &Identity,
) -> Result<Option<Arc<dyn BlockDevice>>> {
    let failed = |error: io::Error| Error::host(path, error);
    let Some(log) = Log::open(path).map_err(failed)? else { return Ok(None) };
    if log.identity.offset != identity.offset {
        return Ok(None);
    }
    if !log.belongs(&**device, identity.image_bytes).map_err(failed)? {
        return Err(foreign(path));
    }
    let overlay = Overlay::new(Arc::clone(device), log.block_size as u32, MEMORY_BYTES_MAX);
    let overlay = overlay.with_spool(tempfile::tempfile().map_err(failed)?);
    let put = |record: &[u8]| {
        let (number, _, bytes) = log.parts(record);
        overlay.put(number, Arc::new(bytes.to_vec()))
    };
    log.each(put).map_err(failed)?;
    Ok(Some(Arc::new(overlay)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{MemoryDevice, RealClock};
    use extant_engine::mkfs::{self, FormatOptions, Profile, default_wishes, format};
    use extant_sim::{Fault, Faulty};
    use extant_testkit::scratch::Scratch;

    const BLOCK_SIZE: u32 = 1024;

    /// A volume, and the log of a change of one block of it.
    fn volume_and_log(path: &Path) -> Arc<Faulty<MemoryDevice>> {
        let bytes = 1 << 20;
        let device = Arc::new(Faulty::new(MemoryDevice::new(RealClock::new(), bytes)));
        let mut wishes =
            default_wishes(Profile::Ext2, bytes, Some(BLOCK_SIZE), mkfs::Identity::NONE);
        wishes.blocks = bytes / u64::from(BLOCK_SIZE);
        let policies = "modern".parse().unwrap();
        format(Arc::clone(&device) as _, &FormatOptions::new(wishes), &policies).unwrap();
        let blocks = vec![(1000, Arc::new(vec![7; BLOCK_SIZE as usize]))];
        let identity = Identity { offset: 0, image_bytes: bytes };
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let plan = Plan {
            device: &shared,
            path,
            identity: &identity,
            block_size: BLOCK_SIZE,
            passed: &[],
            blocks: &blocks,
        };
        plan.write().unwrap();
        device
    }

    /// The host has the blocks in its memory only when a flush fails: the log is still needed.
    #[test]
    fn a_flush_that_fails_leaves_the_log() {
        let folder = Scratch::new("redo-flush");
        let path = folder.join("log");
        let device = volume_and_log(&path);
        let log = Log::open(&path).unwrap().unwrap();
        assert!(log.belongs(&*device, 1 << 20).unwrap());
        for fault in [Fault::Flushes, Fault::WritesAfter(0)] {
            device.repair();
            device.add(fault.clone());
            log.apply(&path, &*device).expect_err("it fails");
            assert!(path.exists(), "{fault:?}: the log is gone, and the blocks may be too");
        }
        device.repair();
        log.apply(&path, &*device).unwrap();
        assert!(!path.exists());
        let mut bytes = [0; BLOCK_SIZE as usize];
        device.read(1000 * u64::from(BLOCK_SIZE), &mut bytes).unwrap();
        assert_eq!(bytes, [7; BLOCK_SIZE as usize]);
    }
}
