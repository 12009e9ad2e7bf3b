//! Extent trees and directories of a clean volume, made smaller or faster as e2fsck makes them.
//!
//! *Invariants*: a file has the same blocks after it, a directory the same names.
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::index;
use crate::map;
use crate::options::Optimize;
use extant_format::Ino;

/// How many were written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shaped {
    pub(crate) directories: u64,
    pub(crate) trees: u64,
}

/// Writes those anew that the check found, as far as `optimize` goes.
///
/// # Errors
/// The device's.
pub(crate) fn improve(draft: &mut Draft, optimize: Optimize) -> Result<Shaped> {
    let mut shaped = Shaped::default();
    if optimize >= Optimize::Directories {
        for ino in draft.usage.unindexed_directories() {
            shaped.directories += u64::from(index::build(draft, ino)?);
        }
    }
    if optimize == Optimize::DirectoriesAndTrees {
        for ino in draft.usage.large_trees() {
            shaped.trees += u64::from(smaller(draft, ino)?);
        }
    }
    Ok(shaped)
}

/// Gives the map of a file the fewest blocks. Gives whether it has fewer now.
fn smaller(draft: &mut Draft, ino: Ino) -> Result<bool> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    let map = map::read(draft, &inode)?;
    let before = map.nodes.len();
    match map::write(draft, ino, &mut inode, &map) {
        Ok(_) => {}
        // It needs no more blocks than it has; one of them that others have too is not written.
        Err(Error::Refused(_)) => return Ok(false),
        Err(error) => return Err(error),
    }
    let after = map::read(draft, &inode)?.nodes.len();
    if after >= before {
        return Ok(false);
    }
    inode.sectors = inode.sectors.saturating_sub(draft.sectors((before - after) as u64));
    draft.write_inode(ino, &inode)?;
    Ok(true)
}
