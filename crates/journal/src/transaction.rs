//! One transaction in the log of a volume that is not open: blocks that are changed all together or
//! not at all, by whoever replays the log.
//!
//! ```text
//! change   needs_recovery | descriptor | copies | .. | commit block     the log is still empty
//!            | flush | the log begins at its first block                from here on: afterwards
//!            | flush | copies in place
//!            | flush | log empty, next sequence
//!            | flush | needs_recovery is cleared | flush
//! ```
//!
//! Before the log begins, the volume needs recovery and has nothing to recover. The one sector that
//! ends this state is the first of the journal's superblock, which has all that changes there. A
//! cut between two of the last three flushes leaves a log that is replayed once more, or is empty.
use crate::error::Error;
use crate::locate::{Journal, State};
use crate::volume::read_volume;
use extant_block::{BlockDevice, Operation, Segment, blocks_per_request, each_request};
use extant_format::BlockNo;
use extant_format::journal::commit::{self, CommitTime};
use extant_format::journal::descriptor::Writer;
use extant_format::journal::{
    Checksums, JournalSuperblock, SUPERBLOCK_BYTES, Sequence, TransactionChecksum,
};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use std::io;
use std::sync::Arc;

/// Blocks of a volume with their new bytes, by rising number. They are asked for more than once.
pub trait Blocks {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number of one of them.
    fn number(&self, at: usize) -> u64;
    /// Its bytes, a whole block.
    ///
    /// # Errors
    /// Those of where they are kept.
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>>;
}

impl Blocks for Vec<(u64, Arc<Vec<u8>>)> {
    fn len(&self) -> usize {
        Vec::len(self)
    }
    fn number(&self, at: usize) -> u64 {
        self[at].0
    }
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>> {
        Ok(Arc::clone(&self[at].1))
    }
}

/// Whether a transaction of this many blocks fits into the whole log of a journal.
pub fn fits(superblock: &JournalSuperblock, blocks: usize) -> bool {
    superblock.log_format().transaction_blocks(blocks, 0) < superblock.log_blocks() as usize
}

/// How a journal of a volume would be written: as it is, or with the features that Linux gives it
/// when it mounts the volume.
pub fn adopted(journal: &Journal) -> JournalSuperblock {
    let mut superblock = *journal.superblock();
    superblock.adopt_features(journal.volume());
    superblock
}

/// Changes blocks of the volume of a journal, all or nothing. When this returns they are durable in
/// their places, and the log is empty. What was written to the device before is durable before any
/// of it is changed.
///
/// Interrupted at any write, by a cut or by an error, the volume is as before or, after replay by
/// whatever program, as afterwards.
///
/// # Errors
/// Those of the device; `TooLarge` if they do not fit into the log, `Target` for a block that is
/// not one of the volume or belongs to the journal, `Busy` unless the log is empty: all before
/// anything was written.
///
/// # Panics
/// If bytes are not one block.
pub fn change(journal: &Journal, blocks: &dyn Blocks) -> Result<(), Error> {
    let device = &*journal.device;
    let mut superblock = adopted(journal);
    let sequence = superblock.sequence;
    if journal.state() != State::Empty || journal.volume().has(Feature::NEEDS_RECOVERY) {
        return Err(Error::Busy);
    }
    if !fits(&superblock, blocks.len()) {
        let limit = superblock.log_blocks().into();
        return Err(Error::TooLarge { what: "blocks in one transaction", limit });
    }
    for target in (0..blocks.len()).map(|at| BlockNo(blocks.number(at))) {
        if let Some(reason) = journal.refusal(target, journal.volume_end()) {
            return Err(Error::Target { sequence, target, reason });
        }
    }
    let size = u64::from(superblock.block_size);
    let (primary, offset) = (SUPERBLOCK_OFFSET / size, (SUPERBLOCK_OFFSET % size) as usize);
    let blocks = Asking { blocks, primary, offset };
    let mut volume = journal.volume().clone();
    volume.features.set(Feature::NEEDS_RECOVERY);
    device.write(SUPERBLOCK_OFFSET, &volume.encode())?;
    let (end, commit) = put_copies(journal, &superblock, sequence, &blocks)?;
    put(device, journal, end, &[commit])?;
    device.flush()?;
    (superblock.start, superblock.head) = (superblock.first, 0);
    store(device, journal, &superblock)?;
    device.flush()?;
    put_in_place(device, journal, &blocks)?;
    device.flush()?;
    (superblock.start, superblock.sequence) = (0, sequence.next());
    store(device, journal, &superblock)?;
    device.flush()?;
    let mut volume = read_volume(device)?;
    volume.features.clear(Feature::NEEDS_RECOVERY);
    device.write(SUPERBLOCK_OFFSET, &volume.encode())?;
    device.flush()?;
    Ok(())
}

/// The blocks of a change, of which the volume's first superblock asks for recovery.
struct Asking<'a> {
    blocks: &'a dyn Blocks,
    /// The block that holds the superblock.
    primary: u64,
    /// Where it begins there, in bytes.
    offset: usize,
}

impl Blocks for Asking<'_> {
    fn len(&self) -> usize {
        self.blocks.len()
    }
    fn number(&self, at: usize) -> u64 {
        self.blocks.number(at)
    }
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>> {
        let mut bytes = self.blocks.bytes(at)?;
        if self.number(at) != self.primary {
            return Ok(bytes);
        }
        let place = Arc::make_mut(&mut bytes).get_mut(self.offset..);
        let place = place.and_then(|place| place.first_chunk_mut::<SUPERBLOCK_SIZE>());
        let place = place.ok_or_else(|| io::Error::other("no room for a superblock"))?;
        let volume = Superblock::parse_any(place);
        let mut volume = volume.map_err(|error| io::Error::other(error.to_string()))?;
        volume.features.set(Feature::NEEDS_RECOVERY);
        *place = volume.encode();
        Ok(bytes)
    }
}

/// Makes the log begin at its first block, with a transaction that is not there yet, durably. Until
/// that transaction is whole the log ends before it.
///
/// # Errors
/// Those of the device.
pub fn begin_log(
    device: &dyn BlockDevice,
    journal: &Journal,
    sequence: Sequence,
) -> Result<(), Error> {
    let mut superblock = *journal.superblock();
    superblock.start = superblock.first;
    superblock.sequence = sequence;
    store(device, journal, &superblock)?;
    device.flush()?;
    Ok(())
}

/// Writes a transaction to the start of a log, and waits until it is durable: its commit block
/// after the rest. The caller has checked that it fits.
///
/// # Errors
/// Those of the device.
///
/// # Panics
/// If bytes are not one block.
pub fn write(
    device: &dyn BlockDevice,
    journal: &Journal,
    sequence: Sequence,
    blocks: &dyn Blocks,
) -> Result<(), Error> {
    begin_log(device, journal, sequence)?;
    let (end, commit) = put_copies(journal, journal.superblock(), sequence, blocks)?;
    device.flush()?;
    put(device, journal, end, &[commit])?;
    device.flush()?;
    Ok(())
}

/// Stores what changes of the journal's superblock.
fn store(
    device: &dyn BlockDevice,
    journal: &Journal,
    superblock: &JournalSuperblock,
) -> Result<(), Error> {
    let offset = journal.offset(0);
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read(offset, &mut bytes)?;
    superblock.store(&mut bytes);
    device.write(offset, &bytes)?;
    Ok(())
}

/// Writes descriptors and copies to the start of the log. Returns the block after them, and the
/// commit block that belongs there.
fn put_copies(
    journal: &Journal,
    superblock: &JournalSuperblock,
    sequence: Sequence,
    blocks: &dyn Blocks,
) -> Result<(u32, Arc<Vec<u8>>), Error> {
    let device = &*journal.device;
    let format = superblock.log_format();
    let mut sum = TransactionChecksum::default();
    let mut at = superblock.first;
    let tags = format.tags_per_descriptor().max(1);
    for start in (0..blocks.len()).step_by(tags) {
        let part = start..blocks.len().min(start + tags);
        let mut descriptor = Writer::new(&format, sequence);
        let mut logged = Vec::with_capacity(part.len() + 1);
        logged.push(Arc::default());
        for one in part {
            let bytes = blocks.bytes(one)?;
            assert_eq!(bytes.len(), format.block_size as usize, "one block");
            let escaped = descriptor.add(BlockNo(blocks.number(one)), &bytes);
            logged.push(escaped.map_or(bytes, Arc::new));
        }
        logged[0] = Arc::new(descriptor.finish());
        if format.checksums == Checksums::Version1 {
            logged.iter().for_each(|block| sum.add(block));
        }
        at = put(device, journal, at, &logged)?;
    }
    let wall = device.clock().wall();
    let time =
        CommitTime { seconds: wall.seconds.max(0).cast_unsigned(), nanoseconds: wall.nanoseconds };
    Ok((at, Arc::new(commit::encode(&format, sequence, time, sum))))
}

/// Writes blocks to the log, which is a ring. Returns the block after them.
fn put(
    device: &dyn BlockDevice,
    journal: &Journal,
    at: u32,
    blocks: &[Arc<Vec<u8>>],
) -> Result<u32, Error> {
    let superblock = journal.superblock();
    let size = u64::from(superblock.block_size);
    let most = blocks_per_request(superblock.block_size as usize);
    let (mut at, mut rest) = (at, blocks);
    while !rest.is_empty() {
        let wanted = rest.len().min(most) as u32;
        let run = journal.place(at..at.saturating_add(wanted).min(superblock.log_end()));
        let (now, later) = rest.split_at(rest.len().min(run.length as usize));
        let segments = now.iter().map(|block| Segment::Shared(Arc::clone(block))).collect();
        device.transfer(Operation::Write, run.start.0 * size, segments).result?;
        at = superblock.after(at, run.length);
        rest = later;
    }
    Ok(at)
}

/// Writes the blocks to their places. The superblock asks for recovery there too, until the log is
/// empty.
fn put_in_place(
    device: &dyn BlockDevice,
    journal: &Journal,
    blocks: &dyn Blocks,
) -> Result<(), Error> {
    let size = journal.superblock().block_size as usize;
    let new =
        (0..blocks.len()).map(|at| Ok((blocks.number(at), Segment::Shared(blocks.bytes(at)?))));
    each_request(new, size, |offset, segments| {
        Ok(device.transfer(Operation::Write, offset, segments).result?)
    })
}
