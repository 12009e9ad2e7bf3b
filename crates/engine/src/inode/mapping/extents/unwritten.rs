//! Marking blocks as written, once they are, and as unwritten, so that they read as zeros again.
use super::removal::{Fate, unmap};
use super::{find, insert};
use crate::error::Result;
use crate::inode::NodeState;
use crate::inode::credits;
use crate::inode::mapping::{Grant, Piece};
use crate::inode::unfinished::pause;
use extant_format::FileBlock;
use extant_format::extent::{Extent, MAX_LENGTH, State};
use std::ops::Range;

/// The longest extent that may be unwritten.
const LONGEST: u32 = MAX_LENGTH - 1;

/// Marks every written block of a range as unwritten.
pub(in crate::inode::mapping) fn set_unwritten(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    range: Range<u32>,
) -> Result<()> {
    let volume = grant.volume();
    let mut at = range.start;
    while at < range.end {
        let most = (range.end - at).min(LONGEST);
        let piece = find(volume, node, FileBlock(at), most)?;
        if let Piece::Run(run, State::Written) = piece {
            pause(grant.operation, node, credits::STEP)?;
            grant.operation.note_midway();
            let whole = u64::from(at)..u64::from(at) + u64::from(run.length);
            unmap(grant, node, whole, Fate::Keep)?;
            let extent = Extent {
                file_block: FileBlock(at),
                length: run.length,
                start: run.start,
                state: State::Unwritten,
            };
            insert(grant, node, extent)?;
            grant.operation.note_whole();
        }
        at = at.saturating_add(piece.length());
    }
    Ok(())
}

/// Marks the unwritten blocks of a range as written.
pub(in crate::inode::mapping) fn set_written(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    block: FileBlock,
    length: u32,
) -> Result<()> {
    let volume = grant.volume();
    let (mut at, end) = (block.0, block.0.saturating_add(length));
    while at < end {
        let piece = find(volume, node, FileBlock(at), end - at)?;
        if let Piece::Run(run, State::Unwritten) = piece {
            let range = u64::from(at)..u64::from(at) + u64::from(run.length);
            unmap(grant, node, range, Fate::Keep)?;
            let extent = Extent {
                file_block: FileBlock(at),
                length: run.length,
                start: run.start,
                state: State::Written,
            };
            insert(grant, node, extent)?;
        }
        at += piece.length();
    }
    Ok(())
}
