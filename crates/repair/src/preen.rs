//! Whether a problem may be mended in a scope: its code says that, but for what e2fsck decides by
//! what else it has seen.
use crate::connect;
use crate::directories::is_of_index;
use crate::draft::{Draft, Result};
use crate::inodes;
use crate::map::{self, MapRun};
use crate::options::Scope;
use crate::quota;
use crate::regain;
use crate::scope::price;
use extant_format::Ino;
use extant_format::group::INODE_UNINIT;
use extant_format::inode::{FileType, flags};
use extant_inspect::{CheckReport, Code, Problem};
use std::collections::BTreeSet;

/// What decides besides the code of a problem.
#[derive(Default)]
pub(crate) struct Preening {
    /// Directories whose index is given up without asking, so that nothing else is wrong with it.
    unindexed: BTreeSet<Ino>,
    /// Files of the system that have a name.
    named: BTreeSet<Ino>,
}

impl Preening {
    /// That of a report.
    pub(crate) fn of(report: &CheckReport) -> Preening {
        let given_up =
            |it: &&Problem| is_of_index(it.code) && price(it.code).is_within(Scope::Preen);
        let problems = report.problems.iter().filter(given_up);
        let named = report.problems.iter().filter(|it| it.code == Code::EntryInode);
        Preening {
            unindexed: problems.filter_map(|it| it.ino).collect(),
            named: named.filter_map(|it| it.other).collect(),
        }
    }

    /// Whether a problem may be mended.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn is_within(&self, draft: &Draft, problem: &Problem) -> Result<bool> {
        let is_asked = price(problem.code).is_within(draft.scope);
        match (draft.scope, problem.code) {
            (_, Code::InodeUnattached) => Ok(is_asked || connect::is_nothing(draft, problem)?),
            (_, Code::InodeChecksumUnread) => Ok(is_asked || inodes::has_its_type(draft, problem)?),
            // What its map has lost may be found by who looks for it.
            (Scope::Safe, Code::SectorCount | Code::DirectorySize) => {
                let is_longer = |ino| regain::is_longer_than_its_map(draft, ino);
                Ok(!problem.ino.map_or(Ok(false), is_longer)?)
            }
            // Of a loop, which has a name in itself, one has to go.
            (Scope::Safe, Code::DirectoryUnreachable) => {
                Ok(problem.ino.is_none_or(|ino| draft.usage.parent(ino).is_none()))
            }
            (Scope::Preen, Code::UsedButDeleted) => Ok(is_a_time(draft, problem)),
            (Scope::Preen, Code::QuotaFile | Code::OrphanFile) => {
                let is_own = |ino: Ino| !self.named.contains(&ino) && is_of_system(draft, ino);
                Ok(is_asked && problem.ino.is_some_and(is_own))
            }
            (Scope::Preen, Code::EntryUnused) => names_nothing(draft, problem),
            (Scope::Preen, Code::DirectorySize) => Ok(!cuts_an_extent(draft, problem)?),
            (Scope::Preen, code) if is_of_index(code) => {
                Ok(is_asked || problem.ino.is_some_and(|ino| self.unindexed.contains(&ino)))
            }
            _ => Ok(is_asked),
        }
    }
}

/// Whether an inode can be the file of the system that its number in the superblock says it is.
fn is_of_system(draft: &Draft, ino: Ino) -> bool {
    let is_of_users = ino.0 >= draft.superblock.first_inode;
    let can_be = is_of_users || draft.superblock.quota_inodes().starts_with(&quota::RESERVED);
    can_be && draft.usage.file_type(ino) == Some(FileType::Regular)
}

/// Whether a time of deletion is one: as a small number it is the next of a list of orphans, which
/// e2fsck takes for damaged.
fn is_a_time(draft: &Draft, problem: &Problem) -> bool {
    problem.found.is_some_and(|time| time >= u64::from(draft.superblock.inodes_count))
}

/// Whether a name of an unused inode leads to nothing, and is none by which a directory is held. In
/// a part of the table that was never used, as its descriptor says, a file may be all the same.
fn names_nothing(draft: &Draft, problem: &Problem) -> Result<bool> {
    let is_held = matches!(problem.name.as_deref(), Some(b"." | b".."));
    let place = problem.other.and_then(|ino| draft.superblock.group_of_inode(ino));
    let (Some((group, index)), false) = (place, is_held) else { return Ok(false) };
    if !draft.superblock.has_descriptor_checksums() {
        return Ok(true);
    }
    let Some(of) = draft.descriptor(group)? else { return Ok(false) };
    let end = draft.superblock.inodes_per_group.saturating_sub(of.unused_inodes);
    Ok(of.flags & INODE_UNINIT == 0 && index < end)
}

/// Whether the size of a directory ends within an extent of its: e2fsck takes the extent for the
/// one that is wrong, where it is not in the inode itself.
fn cuts_an_extent(draft: &Draft, problem: &Problem) -> Result<bool> {
    let inode = match problem.ino {
        Some(ino) => draft.inode(ino)?,
        None => None,
    };
    let Some(inode) = inode.filter(|inode| inode.flags & flags::EXTENTS != 0) else {
        return Ok(false);
    };
    let end = inode.size.div_ceil(draft.block_size() as u64);
    let map = map::read(draft, &inode)?;
    let is_cut = |run: &MapRun| run.file_block < end && end < run.file_block + run.length;
    Ok(!map.nodes.is_empty() && map.runs.iter().any(is_cut))
}
