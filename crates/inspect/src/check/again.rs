//! The check after bitmaps and counters were mended: all that reads nothing of them stays as it was
//! found before.
//!
//! What the passes over inodes, directories and links find follows from the superblock and the
//! descriptors without their counters, and from blocks that are not bitmaps. Where these are the
//! same, and those passes had found nothing, they would find nothing: what they counted is
//! compared with the new bitmaps and counters. In all other cases everything is read once more.
//!
//! *Invariants*: the report is that of a whole check; builds with assertions do both, and compare.
//! *Locking*: none here.
use super::codes::Code;
use super::facts::{Facts, GroupFacts};
use super::options::CheckOptions;
use super::passes::volume::{Prepared, prepare};
use super::passes::{bitmaps, quota};
use super::report::CheckReport;
use super::rule::Pass;
use super::usage::Usage;
use crate::error::Error;
use crate::volume::SuperblockPlace;
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::group::GroupDescriptor;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks a volume that was checked before, and of which only the blocks `changed` differ since:
/// gives what [`examine`](super::examine) gives. `report` and `usage` are what came of the check
/// before.
///
/// # Errors
/// As for [`check`](super::check).
pub fn examine_again(
    device: Arc<dyn BlockDevice>,
    options: &CheckOptions,
    (report, usage): (&CheckReport, Usage),
    changed: &BTreeSet<BlockNo>,
) -> Result<(CheckReport, Option<Usage>), Error> {
    let is_of_counts = report.omitted == 0
        && report.problems.iter().all(|problem| {
            problem.rule().pass == Pass::Bitmaps
                && !matches!(problem.code, Code::QuotaFile | Code::QuotaUsage)
        });
    let Some(facts) = usage.into_facts().filter(|_| is_of_counts) else {
        return super::examine(device, options);
    };
    let Prepared::Ready(mut now) = prepare(&device, options)? else {
        return super::examine(device, options);
    };
    let new = Arc::get_mut(&mut now)
        .filter(|new| has_same_places(&facts, new) && are_of_counters(new, changed));
    let Some(new) = new else { return super::examine(device, options) };
    new.take_over(facts);
    let summary = bitmaps::run(&now)?;
    quota::judge(&now)?;
    let report = CheckReport::new(now.problems.take(), summary);
    if cfg!(debug_assertions) {
        let quiet = CheckOptions { progress: None, ..options.clone() };
        let (whole, _) = super::examine(device, &quiet)?;
        debug_assert_eq!(report.problems, whole.problems, "a whole check finds the same");
        debug_assert_eq!(report.summary, whole.summary, "a whole check counts the same");
    }
    Ok((report, Some(Usage::new(now))))
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

/// Whether each of these blocks holds a superblock, descriptors, or a bitmap, and nothing else.
fn are_of_counters(facts: &Facts, blocks: &BTreeSet<BlockNo>) -> bool {
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
    blocks.iter().all(|block| bitmaps.contains(block) || is_of_copy(*block))
}
