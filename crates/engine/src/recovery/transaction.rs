//! What fast commits amount to, as one full commit in the log of a volume that is not open.
//!
//! ```text
//! full commits in place | flush | the log begins at its first block, with transaction N | flush
//!     | descriptor | copies | .. | flush | commit block | flush
//! ```
//!
//! Until the commit block is durable the log has no full commit N, so whoever recovers the volume
//! next finds the fast commits of N again. With it, the fast commits are of no account.
// tidy: writers because the volume is not open: there is no cache that could be passed by
use crate::error::{Error, ErrorKind, Result};
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::journal::commit::{self, CommitTime};
use extant_format::journal::descriptor::Writer;
use extant_format::journal::{Checksums, SUPERBLOCK_BYTES, Sequence, TransactionChecksum};
use extant_journal::Journal;
use std::sync::Arc;

/// Blocks of the volume, with their new bytes, by rising number.
pub(super) type Blocks = [(u64, Arc<Vec<u8>>)];

/// Fails unless a transaction of these blocks fits into the log.
///
/// # Errors
/// `OperationUnsupported`.
pub(super) fn check_room(journal: &Journal, blocks: &Blocks) -> Result<()> {
    let superblock = journal.superblock();
    let need = superblock.log_format().transaction_blocks(blocks.len(), 0);
    if need < superblock.log_blocks() as usize {
        return Ok(());
    }
    let why = "the fast commits change more than the log can hold at once: run e2fsck";
    Err(ErrorKind::OperationUnsupported(why).into())
}

/// Writes a transaction to the start of a log whose full commits are durable in their places, and
/// waits until it is durable. The caller has checked that it fits.
///
/// # Errors
/// What the device returns.
pub(super) fn write(
    device: &dyn BlockDevice,
    journal: &Journal,
    sequence: Sequence,
    blocks: &Blocks,
) -> Result<()> {
    begin_log(device, journal, sequence)?;
    let format = journal.superblock().log_format();
    let mut sum = TransactionChecksum::default();
    let mut logged: Vec<Arc<Vec<u8>>> = Vec::new();
    for part in blocks.chunks(format.tags_per_descriptor().max(1)) {
        let mut descriptor = Writer::new(&format, sequence);
        let copies = part.iter().map(|(target, bytes)| {
            let escaped = descriptor.add(BlockNo(*target), bytes);
            escaped.map_or_else(|| Arc::clone(bytes), Arc::new)
        });
        let copies: Vec<_> = copies.collect();
        logged.push(Arc::new(descriptor.finish()));
        logged.extend(copies);
    }
    if format.checksums == Checksums::Version1 {
        logged.iter().for_each(|block| sum.add(block));
    }
    let end = put(device, journal, journal.superblock().first, &logged)?;
    device.flush().map_err(Error::from)?;
    let wall = device.clock().wall();
    let time =
        CommitTime { seconds: wall.seconds.max(0).cast_unsigned(), nanoseconds: wall.nanoseconds };
    let commit = Arc::new(commit::encode(&format, sequence, time, sum));
    put(device, journal, end, &[commit])?;
    device.flush().map_err(Error::from)
}

/// Makes the log begin at its first block, with a transaction that is not there yet.
fn begin_log(device: &dyn BlockDevice, journal: &Journal, sequence: Sequence) -> Result<()> {
    let mut superblock = *journal.superblock();
    superblock.start = superblock.first;
    superblock.sequence = sequence;
    let offset = journal.place(0..1).start.0 * u64::from(superblock.block_size);
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read(offset, &mut bytes).map_err(Error::from)?;
    superblock.store(&mut bytes);
    device.write(offset, &bytes).map_err(Error::from)?;
    device.flush().map_err(Error::from)
}

/// Bytes written at once, at most.
const PIECE_BYTES: usize = 1 << 20;

/// Writes blocks to the log, which is a ring. Returns the block after them.
fn put(
    device: &dyn BlockDevice,
    journal: &Journal,
    at: u32,
    blocks: &[Arc<Vec<u8>>],
) -> Result<u32> {
    let superblock = journal.superblock();
    let size = u64::from(superblock.block_size);
    let most = PIECE_BYTES / superblock.block_size as usize;
    let (mut at, mut rest) = (at, blocks);
    while !rest.is_empty() {
        let wanted = rest.len().min(most.max(1)) as u32;
        let run = journal.place(at..at.saturating_add(wanted).min(superblock.log_end()));
        let (now, later) = rest.split_at(rest.len().min(run.length as usize));
        let bytes: Vec<u8> = now.iter().flat_map(|block| block.iter().copied()).collect();
        device.write(run.start.0 * size, &bytes).map_err(Error::from)?;
        at = superblock.after(at, run.length);
        rest = later;
    }
    Ok(at)
}
