//! A look at an aged volume from outside: scores, free space, map blocks. No drive is asked, so no
//! time passes.
use super::error::AgeingError;
use super::report::{FreeClass, FreeFigures, Sample};
use extant_block::BlockDevice;
use extant_inspect::{SuperblockPlace, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs of at least this many bytes are large.
const LARGE_RUN_BYTES: u64 = 1 << 20;

fn ppm(share: f64) -> u64 {
    (share * 1e6).round().clamp(0.0, 1e6) as u64
}

/// Parts of a whole in N; 0 of nothing.
pub(super) fn parts(part: u64, whole: u64, of: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(of) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// How everything lies on a volume that is closed.
pub(super) fn layout(contents: Arc<dyn BlockDevice>) -> Result<Sample, AgeingError> {
    let volume = Volume::open(contents, SuperblockPlace::Primary)?;
    let layout = extant_inspect::survey(&volume)?;
    let superblock = volume.superblock();
    let free = free_space(&volume, u64::from(superblock.block_size()))?;
    let used = superblock.blocks_count.saturating_sub(free.blocks);
    Ok(Sample {
        files: layout.files,
        directories: layout.directories,
        utilisation_ppm: parts(used, superblock.blocks_count, 1_000_000),
        layout_score_ppm: layout.layout_score.map(ppm),
        fragments_per_file_permille: parts(layout.fragments, layout.mapped_files, 1000),
        fragmented_files: layout.fragmented_files,
        same_group_ppm: (layout.locality.names > 0)
            .then(|| parts(layout.locality.same_group, layout.locality.names, 1_000_000)),
        distance_blocks: layout
            .locality
            .mean_distance_blocks
            .map(|blocks| blocks.round().max(0.0) as u64),
        free,
        map_blocks: layout.map_blocks,
        map_clustering_ppm: layout.maps.clustered.map(ppm),
        ..Sample::default()
    })
}

/// The runs of free blocks over all groups; those that meet at a group's edge are one.
fn free_space(volume: &Volume, block_bytes: u64) -> Result<FreeFigures, AgeingError> {
    let mut free = FreeFigures::default();
    let mut classes: BTreeMap<u64, FreeClass> = BTreeMap::new();
    let mut large = 0;
    let mut add = |length: u64| {
        free.blocks += length;
        free.runs += 1;
        large += if length * block_bytes >= LARGE_RUN_BYTES { length } else { 0 };
        let blocks_max = length.next_power_of_two();
        let class = classes.entry(blocks_max).or_default();
        class.blocks_max = blocks_max;
        class.runs += 1;
        class.blocks += length;
    };
    let (mut end, mut length) = (None, 0);
    for group in volume.groups() {
        for run in &group?.free_block_runs {
            if end != Some(run.first) && length > 0 {
                add(std::mem::take(&mut length));
            }
            length += run.count();
            end = Some(run.last + 1);
        }
    }
    if length > 0 {
        add(length);
    }
    free.mean_run_permille = parts(free.blocks, free.runs, 1000);
    free.in_large_runs_ppm = parts(large, free.blocks, 1_000_000);
    free.histogram = classes.into_values().collect();
    Ok(free)
}
