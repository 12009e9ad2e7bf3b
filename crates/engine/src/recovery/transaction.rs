//! One transaction, written to the log of a volume that is not open: what fast commits amount to,
//! as whole blocks.
//!
//! ```text
//! log   | full commits to replay | descriptor | copies | .. | flush | commit block | flush |
//!                                ^ where the log ended
//! ```
//!
//! Until the commit block is durable the log is what it was: whoever recovers the volume next finds
//! the same full commits, and after them the same fast commits. With it the log holds one full
//! commit more, and the fast commits before it are of no account.
use crate::error::{Error, ErrorKind, Result};
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::journal::commit::{self, CommitTime};
use extant_format::journal::descriptor::Writer;
use extant_format::journal::{Checksums, LogFormat, Sequence, TransactionChecksum};
use extant_journal::Journal;
use std::sync::Arc;

/// Blocks of the volume, with their new bytes, by rising number.
pub(super) type Blocks = [(u64, Arc<Vec<u8>>)];

/// Where a transaction goes.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The block of the log after the last full commit.
    pub(super) at: u32,
    /// Blocks of the log from there on that hold nothing to replay.
    pub(super) free: u32,
    pub(super) sequence: Sequence,
}

/// How many blocks of the log a transaction of these blocks takes.
pub(super) fn need(format: &LogFormat, blocks: &Blocks) -> usize {
    format.transaction_blocks(blocks.len(), 0)
}

/// Writes a transaction, and waits until it is durable.
///
/// # Errors
/// `OperationUnsupported` if it does not fit into the log; what the device returns.
pub(super) fn write(
    device: &dyn BlockDevice,
    journal: &Journal,
    slot: Slot,
    blocks: &Blocks,
) -> Result<()> {
    let format = journal.superblock().log_format();
    if need(&format, blocks) > slot.free as usize {
        let why = "the fast commits change more than the log can hold at once: run e2fsck";
        return Err(ErrorKind::OperationUnsupported(why).into());
    }
    let mut sum = TransactionChecksum::default();
    let mut logged: Vec<Arc<Vec<u8>>> = Vec::new();
    for part in blocks.chunks(format.tags_per_descriptor().max(1)) {
        let mut descriptor = Writer::new(&format, slot.sequence);
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
    let end = put(device, journal, slot.at, &logged)?;
    device.flush().map_err(Error::from)?;
    let wall = device.clock().wall();
    let time = CommitTime {
        seconds: wall.seconds.max(0).cast_unsigned(),
        nanoseconds: wall.nanoseconds,
    };
    let commit = Arc::new(commit::encode(&format, slot.sequence, time, sum));
    put(device, journal, end, &[commit])?;
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
