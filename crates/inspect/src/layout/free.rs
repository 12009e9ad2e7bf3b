//! Free space, by the bitmaps of all groups.
use super::report::{FreeSpace, RunClass};
use crate::error::Error;
use crate::volume::Volume;
use std::collections::BTreeMap;

/// What is free, and the classes of its runs. A run is counted when the next one begins.
///
/// # Errors
/// When the device fails, or there are fewer groups than the superblock claims.
pub(super) fn free_space(volume: &Volume) -> Result<(FreeSpace, Vec<RunClass>), Error> {
    let mut free = FreeSpace::default();
    let mut classes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut count = |blocks: u64| {
        if blocks > 0 {
            let class = classes.entry(blocks.checked_next_power_of_two().unwrap_or(u64::MAX));
            let (runs, sum) = class.or_default();
            (*runs, *sum) = (*runs + 1, *sum + blocks);
        }
    };
    let (mut end, mut length) = (None, 0);
    for group in volume.groups() {
        let group = match group {
            Ok(group) => group,
            Err(error @ (Error::Device(_) | Error::TooManyGroups { .. })) => return Err(error),
            Err(_) => break,
        };
        free.unread_groups += u64::from(!group.problems.is_empty());
        for run in &group.free_block_runs {
            free.blocks += run.count();
            if end == Some(run.first) {
                length += run.count();
            } else {
                count(length);
                free.runs += 1;
                length = run.count();
            }
            end = Some(run.last + 1);
            free.longest_run = free.longest_run.max(length);
        }
    }
    count(length);
    let class = |(blocks_max, (runs, blocks))| RunClass { blocks_max, runs, blocks };
    Ok((free, classes.into_iter().map(class).collect()))
}
