//! What a volume says of itself, judged before its inodes are read: a volume of which this is
//! right, and that says it is clean, is one that fsck skips.
use super::facts::Facts;
use super::options::CheckOptions;
use super::passes::inodes::resize;
use super::passes::volume::{Prepared, prepare};
use super::report::{CheckReport, Summary};
use crate::error::Error;
use crate::volume::{SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::GroupNo;
use extant_format::superblock::Feature;
use std::sync::Arc;

/// What a first look gives.
pub struct FirstLook {
    /// What is wrong; its summary is empty.
    pub report: CheckReport,
    /// Whether that is enough.
    pub trust: Trust,
}

/// Whether what is not judged here can be believed without a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Nothing speaks against it.
    Given,
    /// More is counted as free than there is, or the superblock has other features than its copy
    /// that say how the volume is read.
    Lost,
}

/// Judges the superblock, descriptors, the block that records mounts, the journal, the orphans and
/// the map of the blocks kept for growth.
///
/// # Errors
/// As [`check`](super::check).
pub fn check_volume(
    device: &Arc<dyn BlockDevice>,
    options: &CheckOptions,
) -> Result<FirstLook, Error> {
    let (collected, is_trusted) = match prepare(device, options)? {
        Prepared::Ready(facts) => {
            resize::judge(&facts)?;
            let is_trusted = counts_are_possible(&facts) && agrees_with_copy(&facts, device)?;
            (facts.problems.take(), is_trusted)
        }
        Prepared::Unusable(problems) => (problems.take(), false),
    };
    let trust = if is_trusted { Trust::Given } else { Trust::Lost };
    Ok(FirstLook { report: CheckReport::new(collected, Summary::default()), trust })
}

fn counts_are_possible(facts: &Facts) -> bool {
    let superblock = facts.volume.superblock();
    let (blocks, inodes) = (superblock.blocks_count, superblock.inodes_count);
    let mut are_possible = superblock.free_blocks <= blocks && superblock.free_inodes <= inodes;
    let inodes = superblock.inodes_per_group;
    for (group, of) in (0..).map(GroupNo).zip(&facts.groups) {
        let of = &of.descriptor;
        are_possible &= of.free_blocks <= superblock.group_length(group)
            && of.free_inodes <= inodes
            && of.used_directories <= inodes;
    }
    are_possible
}

/// Whether the first copy of the superblock that can be read has the same incompatible features.
/// That the journal has to be replayed is only in the first superblock.
fn agrees_with_copy(facts: &Facts, device: &Arc<dyn BlockDevice>) -> Result<bool, Error> {
    let superblock = facts.volume.superblock();
    let groups = (1..facts.volume.present_groups()).map(GroupNo);
    let mut with_copies = groups.filter(|group| facts.volume.has_super(*group));
    let Some(group) = with_copies.next() else { return Ok(true) };
    let block = superblock.group_start(group);
    let place = SuperblockPlace::Copy { block, block_size: superblock.block_size() };
    let copy = match Volume::open(Arc::clone(device), place) {
        Ok(copy) => copy,
        // It is looked at only when it is needed.
        Err(Error::Superblock { .. }) => return Ok(true),
        Err(error) => return Err(error),
    };
    let is_lasting = |feature: &Feature| {
        matches!(feature, Feature::Incompat(_)) && *feature != Feature::NEEDS_RECOVERY
    };
    let of = |volume: &Volume| -> Vec<Feature> {
        volume.superblock().features.iter().filter(is_lasting).collect()
    };
    Ok(of(&facts.volume) == of(&copy))
}
