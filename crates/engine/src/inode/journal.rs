//! The journal's own inode: the map of the log, which the store cannot read.
use super::mapping::{self, Piece};
use super::node::NodeState;
use super::table;
use super::volume::Volume;
use crate::error::{Error, Place, Result};
use extant_format::extent::State;
use extant_format::{FileBlock, Ino, Run};

/// Has all changes of this volume go through its journal from now on, if it has one and the
/// policies ask for it. Nothing was changed so far, and nothing is written here.
///
/// # Errors
/// `Corrupt` for a journal that is damaged or not mapped; what the device returns.
pub(crate) fn start(volume: &Volume) -> Result<()> {
    match volume.store.wants_journal() {
        true => volume.store.start_journal(runs(volume)?),
        false => Ok(()),
    }
}

/// How many blocks the journal in the volume has; 0 without one, or where its inode cannot be
/// read.
pub(crate) fn blocks(volume: &Volume) -> u64 {
    match volume.store.superblock.journal_inode {
        0 => 0,
        number => table::load(volume, Ino(number))
            .map_or(0, |inode| inode.size / u64::from(volume.store.block_size())),
    }
}

/// Where the blocks of the journal are, in their order.
fn runs(volume: &Volume) -> Result<Vec<Run>> {
    let store = &volume.store;
    if store.superblock.journal_inode == 0
        && let Some(behind) = extant_journal::runs(&*store.device, &store.superblock)?
    {
        return Ok(behind);
    }
    let ino = Ino(volume.store.superblock.journal_inode);
    let inode = table::load(volume, ino)?;
    let blocks = inode.size / u64::from(volume.store.block_size());
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let state = NodeState::new(volume, ino, inode);
    let mut runs: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < blocks {
        match mapping::find(volume, &state, FileBlock(at), blocks - at)? {
            Piece::Run(run, State::Written) => {
                at += run.length;
                runs.push(run);
            }
            _ => {
                let (place, block) = (Place::Inode(ino), at.into());
                return Err(Error::field(place, "journal", "block", block, "not mapped"));
            }
        }
    }
    Ok(runs)
}
