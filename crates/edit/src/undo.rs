//! The undo file of a repair: a file beside the image that has the bytes before of each block that
//! the repair changed.
//!
//! ```text
//! file      | header | record | .. | trailer |               numbers are little-endian
//! header    | "EXTUNDO2" | block size: 4 | crc32 of the superblock after: 4 | UUID of the volume
//!           | after: 16 | its first byte in the image: 8 | bytes of the image: 8 | time of the
//!           | superblock's last write: 8 | records: 8 |
//! record    | block: 8 | crc32 of what was written: 4 | bytes of the block before |
//! trailer   | sha256 of all before |
//! apply     undo file, under a second name | its fsync | redo log | its fsync   from here on: done
//!             | the undo file gets its name | blocks in place | flush | the log is removed
//! undo      redo log of the bytes before | .. | the undo file is removed
//! ```
//!
//! Undone is what nothing else has changed since: each block has to be what the repair wrote, and
//! the superblock as the repair left it, also where the repair did not write it. A cut before the
//! redo log is whole leaves the image and the undo file of an earlier repair as they were. After it
//! the next program that ends the change gives the new undo file its name. So the one that is found
//! is right, or does not fit the image, and is refused.
use crate::ahead::Ahead;
use crate::beside::{self, DIGEST_BYTES, Digesting, number_at};
use crate::differing::{Differing, block_bytes, read_block, take_room, written};
use crate::error::{Error, Result};
pub use crate::pending::path_of;
use crate::pending::{MAGIC, forget_pending, keep_pending, pending_of};
use crate::redo::{Identity, Plan, not_begun};
use extant_block::{BlockDevice, Overlay};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use extant_journal::transaction::Blocks;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEADER_BYTES: usize = 64;
/// Bytes of a record before those of its block.
const RECORD_HEAD_BYTES: usize = 12;

/// Whether a repair can be undone later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// An undo file is written.
    Undo,
    /// None is, and one of an earlier repair is removed: it would not fit any more.
    Nothing,
}

/// What was applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// Blocks that changed.
    pub blocks: u64,
    /// Where the undo file is, if there is one.
    pub undo: Option<PathBuf>,
}

/// What was undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undone {
    /// This many blocks are as they were.
    Blocks(u64),
    /// All were already: an undo was cut before it had removed its file.
    Already,
}

/// Writes the changes of an overlay to its device: all, or nothing. The volume is one that nobody
/// has open, in blocks of `block_size`.
///
/// # Errors
/// The host's, for the files, with the image as it was and nothing beside it; the device's, and the
/// next command that opens the image ends the change.
pub fn apply(
    overlay: &Overlay,
    block_size: u32,
    place: (&Path, &Identity),
    keep: Keep,
) -> Result<Applied> {
    apply_after(&Ahead::default(), overlay, block_size, place, keep)
}

/// As [`apply`], after what is written to free blocks: the change has happened once that is there
/// too. An undo does not take it back: those blocks are free again then.
///
/// # Errors
/// As [`apply`]; what is free on the device may have been written then.
pub fn apply_after(
    ahead: &Ahead,
    overlay: &Overlay,
    block_size: u32,
    (log, identity): (&Path, &Identity),
    keep: Keep,
) -> Result<Applied> {
    let device = overlay.device();
    // Who ends a change that was interrupted has the image alone.
    let end = device.own_bytes().div_ceil(block_size.into());
    let (own, annexed): (Vec<u64>, Vec<u64>) =
        written(overlay, block_size).into_iter().partition(|number| *number < end);
    // Before blocks are compared: some of these are changed by the log, too.
    ahead.write(&**device, block_size)?;
    let blocks = Differing::of(device, overlay, own, block_size)?;
    let mut applied = Applied { blocks: blocks.len() as u64, undo: None };
    if blocks.is_empty() {
        return write_annex(overlay, &annexed, block_size).map(|()| applied);
    }
    blocks.take_room()?;
    let logged: Vec<u64> = (0..blocks.len()).map(|at| blocks.number(at)).collect();
    let passed = ahead.passed(&logged);
    let plan = Plan { device, path: log, identity, block_size, passed: &passed, blocks: &blocks };
    let offset = identity.offset;
    let (path, pending) = (path_of(log, offset), pending_of(log, offset));
    let is_ours = beside::may_be_begun(&path, "undo file", MAGIC);
    if !is_ours.map_err(|error| not_begun(&path, error))? {
        return Err(Error::host_said(&path, "is no undo file, and is not replaced by one")
            .hint("name another place: --log FILE"));
    }
    if keep == Keep::Undo {
        let superblock = Superblock::on(overlay).map_err(extant_engine::Error::from)?;
        forget_pending(log, offset)?;
        write(&plan, &superblock, &pending).map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                drop(std::fs::remove_file(&pending));
            }
            not_begun(&pending, error)
        })?;
        applied.undo = Some(path.clone());
    }
    plan.decide().inspect_err(|_| drop(std::fs::remove_file(&pending)))?;
    match keep {
        Keep::Undo => keep_pending(log, offset).map_err(|error| {
            // Nothing is in its place yet: without its log the change has not happened.
            let removed = [log, &pending, &path].map(std::fs::remove_file);
            drop(removed);
            not_begun(&path, error)
        })?,
        Keep::Nothing => drop(std::fs::remove_file(&path)),
    }
    plan.bring()?;
    write_annex(overlay, &annexed, block_size).map(|()| applied)
}

/// Writes what an overlay changed of a journal on another device, where nothing waits: what it says
/// of itself. It is written when the volume is durable, and not undone.
fn write_annex(overlay: &Overlay, blocks: &[u64], block_size: u32) -> Result<()> {
    let device = overlay.device();
    let write = |number: u64| {
        let mut bytes = vec![0; block_bytes(&**device, number, block_size)];
        let at = number.saturating_mul(block_size.into());
        overlay.read(at, &mut bytes)?;
        // tidy: writers because it is no part of the volume
        device.write(at, &bytes)
    };
    if blocks.is_empty() {
        return Ok(());
    }
    let written = blocks.iter().try_for_each(|number| write(*number));
    // tidy: writers because it is no part of the volume
    let written = written.and_then(|()| device.flush());
    written.map_err(|error| extant_engine::Error::from(error).into())
}

/// What an undo file says of a superblock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Superblock {
    uuid: [u8; 16],
    /// In seconds since 1970, of 40 bits.
    written_seconds: u64,
    /// The crc32 of all its bytes: what changes a volume changes its counters, if not its time.
    sum: u32,
}

impl Superblock {
    /// That of a volume, whatever its other fields say.
    fn on(device: &dyn BlockDevice) -> io::Result<Superblock> {
        let (mut uuid, mut low, mut high) = ([0; 16], [0; 4], [0; 1]);
        device.read(SUPERBLOCK_OFFSET + 0x68, &mut uuid)?;
        device.read(SUPERBLOCK_OFFSET + 0x30, &mut low)?;
        device.read(SUPERBLOCK_OFFSET + 0x274, &mut high)?;
        let written_seconds = u64::from(u32::from_le_bytes(low)) | u64::from(high[0]) << 32;
        let mut whole = [0; SUPERBLOCK_SIZE];
        device.read(SUPERBLOCK_OFFSET, &mut whole)?;
        Ok(Superblock { uuid, written_seconds, sum: crc32fast::hash(&whole) })
    }
}

/// Writes an undo file for a change and makes it durable, with its name.
fn write(plan: &Plan<'_>, after: &Superblock, path: &Path) -> io::Result<()> {
    let mut file = Digesting::create(path)?;
    file.put(&MAGIC)?;
    file.put(&plan.block_size.to_le_bytes())?;
    file.put(&after.sum.to_le_bytes())?;
    file.put(&after.uuid)?;
    let Identity { offset, image_bytes } = *plan.identity;
    let records = plan.blocks.len() as u64;
    for number in [offset, image_bytes, after.written_seconds, records] {
        file.put(&number.to_le_bytes())?;
    }
    let mut before = vec![0; plan.block_size as usize];
    for at in 0..plan.blocks.len() {
        let number = plan.blocks.number(at);
        read_block(&**plan.device, number, &mut before)?;
        file.put(&number.to_le_bytes())?;
        file.put(&crc32fast::hash(&plan.blocks.bytes(at)?).to_le_bytes())?;
        file.put(&before)?;
    }
    file.finish()?;
    beside::sync_folder(path)
}

/// A whole undo file.
struct Undo {
    file: File,
    block_size: u32,
    superblock: Superblock,
    identity: Identity,
    /// Its blocks, rising, and the sums of what was written to them.
    blocks: Vec<(u64, u32)>,
}

impl Undo {
    /// Opens one; `None` if it is not whole, or of another format.
    ///
    /// # Errors
    /// As [`beside::open`]; there is none.
    fn open(path: &Path) -> io::Result<Option<Undo>> {
        let Some(mut file) = beside::open(path, "undo file")? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let length = file.metadata()?.len();
        let mut header = [0; HEADER_BYTES];
        if length < (HEADER_BYTES + DIGEST_BYTES) as u64 {
            return Ok(None);
        }
        file.read_exact(&mut header)?;
        let [sizes, offset, image_bytes, written_seconds, records] =
            [8, 32, 40, 48, 56].map(|at| number_at(&header, at));
        let (block_size, sum) = (sizes & u64::from(u32::MAX), (sizes >> 32) as u32);
        let is_block = block_size.is_power_of_two() && (1024..=65536).contains(&block_size);
        if header[..8] != MAGIC || !is_block {
            return Ok(None);
        }
        let whole = records.checked_mul(RECORD_HEAD_BYTES as u64 + block_size);
        let whole = whole.and_then(|bytes| bytes.checked_add((HEADER_BYTES + DIGEST_BYTES) as u64));
        if whole != Some(length) {
            return Ok(None);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&header[16..32]);
        let mut undo = Undo {
            file,
            block_size: block_size as u32,
            superblock: Superblock { uuid, written_seconds, sum },
            identity: Identity { offset, image_bytes },
            blocks: Vec::new(),
        };
        Ok(undo.load(&header, records)?.then_some(undo))
    }

    /// Reads its records. Whether the digest fits and the numbers rise.
    fn load(&mut self, header: &[u8], records: u64) -> io::Result<bool> {
        let mut sha = Sha256::new();
        sha.update(header);
        let mut file = BufReader::new(&self.file);
        let mut record = vec![0; RECORD_HEAD_BYTES + self.block_size as usize];
        for _ in 0..records {
            file.read_exact(&mut record)?;
            sha.update(&record);
            let number = number_at(&record, 0);
            if self.blocks.last().is_some_and(|(last, _)| *last >= number) {
                return Ok(false);
            }
            self.blocks.push((number, number_at(&record, 8) as u32));
        }
        let mut digest = [0; DIGEST_BYTES];
        file.read_exact(&mut digest)?;
        Ok(sha.finalize()[..] == digest)
    }

    /// How the blocks of a volume are.
    fn state(&self, device: &dyn BlockDevice) -> io::Result<Condition> {
        let end = device.info().bytes.div_ceil(self.block_size.into());
        if self.blocks.last().is_some_and(|(last, _)| *last >= end) {
            return Ok(Condition::Other(None));
        }
        let mut now = vec![0; self.block_size as usize];
        let (mut other, mut are_before) = (None, true);
        for (at, (number, sum)) in self.blocks.iter().enumerate() {
            read_block(device, *number, &mut now)?;
            if other.is_none() && crc32fast::hash(&now) != *sum {
                other = Some(*number);
            }
            are_before &= are_before && *self.bytes(at)? == now;
            if other.is_some() && !are_before {
                return Ok(Condition::Other(other));
            }
        }
        if are_before {
            return Ok(Condition::Before);
        }
        Ok(match Superblock::on(device)? == self.superblock {
            true => Condition::Written,
            false => Condition::Other(None),
        })
    }
}

/// How the blocks of an undo file are on a device.
enum Condition {
    /// As the repair wrote them, and nothing was written since.
    Written,
    /// As before the repair.
    Before,
    /// Something else wrote since: to this block, if it is one of them.
    Other(Option<u64>),
}

impl Blocks for Undo {
    fn len(&self) -> usize {
        self.blocks.len()
    }
    fn number(&self, at: usize) -> u64 {
        self.blocks[at].0
    }
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>> {
        let mut bytes = vec![0; self.block_size as usize];
        let record = RECORD_HEAD_BYTES as u64 + u64::from(self.block_size);
        let place = HEADER_BYTES as u64 + at as u64 * record + RECORD_HEAD_BYTES as u64;
        self.file.read_exact_at(&mut bytes, place)?;
        Ok(Arc::new(bytes))
    }
}

/// Takes back the last repair of a volume that nobody has open: its blocks are to the byte what
/// they were. The undo file is the one that goes with the redo log `log`, and is then removed.
///
/// # Errors
/// There is no undo file, or none that is whole; the volume was changed since, or is another one;
/// the host's and the device's, as those of [`apply`].
pub fn undo(device: &Arc<dyn BlockDevice>, log: &Path, identity: &Identity) -> Result<Undone> {
    let path = path_of(log, identity.offset);
    let undo = match Undo::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::volume("there is no repair to undo")
                .hint(format!("the bytes before a repair would be in {}", path.display())));
        }
        undo => undo.map_err(|error| Error::host(&path, error))?,
    };
    let Some(undo) = undo else {
        return Err(Error::host_said(&path, "is no undo file, or not whole: nothing is undone"));
    };
    if undo.identity != *identity {
        return Err(Error::volume("the repair that can be undone is that of another volume")
            .hint(format!("it begins at byte {} of its image", undo.identity.offset)));
    }
    let condition = undo.state(&**device).map_err(extant_engine::Error::from)?;
    let done = match condition {
        Condition::Other(block) => {
            let block = block.map(|block| format!(": block {block} differs")).unwrap_or_default();
            let why = format!("cannot be undone: it was changed after the repair{block}");
            return Err(Error::volume(why)
                .hint(format!("{} can be removed if that is right", path.display())));
        }
        Condition::Before => Undone::Already,
        Condition::Written => {
            let block_size = undo.block_size;
            take_room(device, block_size, &undo)?;
            let plan = Plan { device, path: log, identity, block_size, passed: &[], blocks: &undo };
            plan.change()?;
            Undone::Blocks(undo.len() as u64)
        }
    };
    beside::remove(&path)?;
    Ok(done)
}
