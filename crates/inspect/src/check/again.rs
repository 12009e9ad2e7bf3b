//! The check after a repair: what reads nothing of what was changed stays as it was found before.
//!
//! What the pass over inodes finds follows from the superblock and the descriptors without their
//! counters, and from inode tables, maps and attributes. Where these are the same, or inodes differ
//! in links and times alone, it would find the same; what it found of those inodes is judged
//! again. If only bitmaps and counters differ, and nothing was wrong but these, the passes over
//! directories and links would find nothing. Else links are judged again; of the same directories
//! only the blocks that were written are, unless which directory is in which has changed. In all
//! other cases everything is read once more.
//!
//! *Invariants*: the report is that of a whole check; builds with assertions do both, and compare.
//! *Locking*: none here.
use super::codes::Code;
use super::facts::{Facts, GroupFacts};
use super::options::CheckOptions;
use super::passes::directories::{self, Tree};
use super::passes::inodes::again::{self, JUDGED, Tables};
use super::passes::volume::{Prepared, prepare};
use super::passes::{bitmaps, quota};
use super::problem::Problem;
use super::report::CheckReport;
use super::rule::Pass;
use super::usage::Usage;
use crate::error::Error;
use crate::volume::SuperblockPlace;
use extant_block::BlockDevice;
use extant_format::group::GroupDescriptor;
use extant_format::{BlockNo, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a report is about, as far as less than a whole check can follow it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    /// Bitmaps and counters.
    Counts,
    /// Names, links, and what is judged of an inode whatever it maps.
    Names,
    Other,
}

/// Checks a volume that was checked before, and of which only the blocks `changed` differ since,
/// each with what was in it then: gives what [`examine`](super::examine) gives. `report` and
/// `usage` are what came of the check before.
///
/// # Errors
/// As for [`check`](super::check).
pub fn examine_again(
    device: Arc<dyn BlockDevice>,
    options: &CheckOptions,
    earlier: (&CheckReport, Usage),
    changed: &BTreeMap<BlockNo, Vec<u8>>,
) -> Result<(CheckReport, Option<Usage>), Error> {
    let Some((report, usage)) = of_changed(&device, options, earlier, changed)? else {
        return super::examine(device, options);
    };
    if cfg!(debug_assertions) {
        let quiet = CheckOptions { progress: None, ..options.clone() };
        let (whole, _) = super::examine(device, &quiet)?;
        debug_assert_eq!(report.problems, whole.problems, "a whole check finds the same");
        debug_assert_eq!(report.summary, whole.summary, "a whole check counts the same");
    }
    Ok((report, Some(usage)))
}

/// The same by what changed alone; `None` if that is not enough to know all.
fn of_changed(
    device: &Arc<dyn BlockDevice>,
    options: &CheckOptions,
    (report, usage): (&CheckReport, Usage),
    changed: &BTreeMap<BlockNo, Vec<u8>>,
) -> Result<Option<(CheckReport, Usage)>, Error> {
    let about = about(report);
    let Some((facts, tree)) = usage.into_facts().filter(|_| about != About::Other) else {
        return Ok(None);
    };
    if facts.order_matters() || facts.claims.any_double() {
        return Ok(None);
    }
    let Prepared::Ready(mut now) = prepare(device, options)? else { return Ok(None) };
    let Some(new) = Arc::get_mut(&mut now).filter(|new| has_same_places(&facts, new)) else {
        return Ok(None);
    };
    let others = not_of_counters(new, changed);
    new.take_over(facts);
    if others.is_empty() && about == About::Counts {
        let summary = bitmaps::run(&now)?;
        quota::judge(&now)?;
        let report = CheckReport::new(now.problems.take(), summary);
        return Ok(Some((report, Usage::new(now, Some(tree)))));
    }
    if !are_inodes_judged(&now, (report, &tree), &others)? {
        return Ok(None);
    }
    let tree = judged_tree(&now, tree, &others, report)?;
    let summary = super::run_links(&now, &tree)?;
    let mut report = CheckReport::new(now.problems.take(), summary);
    super::name(&mut report, &now, Some(&tree))?;
    Ok(Some((report, Usage::new(now, Some(tree)))))
}

/// Judges the directories again, as far as they can differ. Gives the tree that they are.
fn judged_tree(
    now: &Arc<Facts>,
    tree: Arc<Tree>,
    changed: &BTreeMap<BlockNo, &[u8]>,
    earlier: &CheckReport,
) -> Result<Arc<Tree>, Error> {
    let rewritten = changed.iter().filter_map(|(block, before)| {
        Some((tree.blocks.binary_search_by_key(block, |one| one.block).ok()?, *before))
    });
    let rewritten: Vec<_> = rewritten.collect();
    if directories::again::judge(now, &tree, &rewritten, &earlier.problems)? {
        return Ok(tree);
    }
    now.inodes.forget_entries();
    now.shapes.set_lost_found(Ino(0));
    now.directories.put_back(&tree.blocks, &tree.inline);
    directories::run(now)
}

/// What a report is about.
fn about(report: &CheckReport) -> About {
    let of = |problem: &Problem| match problem.rule().pass {
        Pass::Bitmaps if matches!(problem.code, Code::QuotaFile | Code::QuotaUsage) => About::Other,
        Pass::Bitmaps => About::Counts,
        Pass::Directories | Pass::Connectivity | Pass::Links => About::Names,
        Pass::Inodes if JUDGED.contains(&problem.code) => About::Names,
        _ => About::Other,
    };
    match report.omitted {
        0 => report.problems.iter().map(of).max().unwrap_or(About::Counts),
        _ => About::Other,
    }
}

/// Judges the inodes in blocks that are not of counters. Gives whether nothing but their links and
/// times, and directories, is new, and nothing was wrong with any other inode.
fn are_inodes_judged(
    facts: &Facts,
    (report, tree): (&CheckReport, &Tree),
    changed: &BTreeMap<BlockNo, &[u8]>,
) -> Result<bool, Error> {
    let tables = Tables::of(facts);
    let mut judged = Vec::new();
    for (block, before) in changed {
        let is_followed = match tables.block(*block) {
            Some(table) => again::judge(facts, (*block, &table), before, &mut judged)?,
            None => tree.blocks.binary_search_by_key(block, |one| one.block).is_ok(),
        };
        if !is_followed {
            return Ok(false);
        }
    }
    let judged: BTreeSet<_> = judged.into_iter().collect();
    let of_inodes = report.problems.iter().filter(|problem| problem.rule().pass == Pass::Inodes);
    let mut inodes = of_inodes.map(|problem| problem.ino);
    Ok(inodes.all(|ino| ino.is_some_and(|ino| judged.contains(&ino))))
}

/// Whether superblock and descriptors say the same of everything but counters and bitmaps.
fn has_same_places(old: &Facts, new: &Facts) -> bool {
    let is_first = |facts: &Facts| facts.volume.place() == SuperblockPlace::Primary;
    let said = |facts: &Facts| {
        let mut superblock = facts.volume.superblock().clone();
        (superblock.free_blocks, superblock.free_inodes) = (0, 0);
        superblock.encode()
    };
    let same_groups = || old.groups.iter().zip(&new.groups).all(|(old, new)| is_same(old, new));
    is_first(old)
        && is_first(new)
        && said(old) == said(new)
        && old.groups.len() == new.groups.len()
        && same_groups()
        && old.metadata == new.metadata
        && old.orphans == new.orphans
}

/// Whether the same inodes and blocks of a group are read.
fn is_same(old: &GroupFacts, new: &GroupFacts) -> bool {
    let places = |group: &GroupFacts| GroupDescriptor {
        free_blocks: 0,
        free_inodes: 0,
        used_directories: 0,
        block_bitmap_checksum: 0,
        inode_bitmap_checksum: 0,
        ..group.descriptor
    };
    let parts =
        |group: &GroupFacts| (group.has_block_bitmap, group.has_inode_bitmap, group.has_table);
    places(old) == places(new) && parts(old) == parts(new) && old.inodes_used == new.inodes_used
}

/// Those of the blocks that hold anything but a superblock, descriptors, or a bitmap.
fn not_of_counters<'a>(
    facts: &Facts,
    blocks: &'a BTreeMap<BlockNo, Vec<u8>>,
) -> BTreeMap<BlockNo, &'a [u8]> {
    let places =
        |group: &GroupFacts| [group.descriptor.block_bitmap, group.descriptor.inode_bitmap];
    let bitmaps: BTreeSet<BlockNo> = facts.groups.iter().flat_map(places).collect();
    let volume = &facts.volume;
    let is_of_copy = |block: BlockNo| {
        let group = volume.superblock().group_of_block(block);
        let Some(copy) = group.and_then(|group| volume.copy(group)) else { return false };
        let is_described =
            copy.descriptors.is_some_and(|range| (range.first..=range.last).contains(&block.0));
        copy.superblock == Some(block.0) || copy.meta_descriptors == Some(block.0) || is_described
    };
    let is_other = |block: &BlockNo| !bitmaps.contains(block) && !is_of_copy(*block);
    let others = blocks.iter().filter(|(block, _)| is_other(block));
    others.map(|(block, before)| (*block, before.as_slice())).collect()
}
