//! What is known of a run besides its report: what dumpe2fs would say of the volume that it left,
//! where the blocks of the recorded directory are, and how large things are.
use crate::report::Report;
use crate::scenario::step::Action;
use crate::scenario::{self, Left};
use extant_inspect::{BlockRange, GroupInfo, SuperblockPlace, Volume};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Of the volumes whose blocks are counted.
const BLOCK: u64 = 4096;
/// The smallest inode.
const INODE_BYTES: u64 = 128;

/// Blocks in a row.
#[derive(Clone, Copy)]
pub(super) struct BlockRun {
    pub(super) first: u64,
    pub(super) blocks: u64,
}

/// The volume: fields of its superblock, and `group` by number. `null` where it cannot be read.
pub(super) fn volume(left: &Left) -> Value {
    let opened = Volume::open(Arc::clone(&left.contents), SuperblockPlace::Primary);
    let Ok(volume) = opened else { return Value::Null };
    let groups = volume.groups().filter_map(Result::ok);
    let mut facts = json!(volume.info());
    facts["group"] = groups.map(|group| (group.number.to_string(), of_group(&group))).collect();
    facts
}

/// A group. `odd` is how many of its free runs, the first aside, do not begin with the second block
/// of a byte of the bitmap, or do not end with its last.
fn of_group(group: &GroupInfo) -> Value {
    let odd = |is_odd: fn(&BlockRange) -> bool| {
        group.free_block_runs.iter().skip(1).filter(|run| is_odd(run)).count()
    };
    let mut facts = json!(group);
    facts["odd"] = json!({
        "first": odd(|run| run.first % 8 != 1),
        "last": odd(|run| run.last % 8 != 7),
    });
    facts
}

/// The directory; the gap, in KiB on average from run to run, is `null` where its blocks are in one
/// piece.
pub(super) fn directory(runs: &[BlockRun]) -> Value {
    let gaps = runs.windows(2).map(|pair| pair[1].first.abs_diff(pair[0].first + pair[0].blocks));
    let count = runs.len() as u64;
    json!({
        "blocks": runs.iter().map(|run| run.blocks).sum::<u64>(),
        "runs": count,
        "gap": (gaps.sum::<u64>() * BLOCK / 1024).checked_div(count.saturating_sub(1)),
    })
}

/// Bytes of everything on the volume of a run: data, directories and inodes.
pub(super) fn content(report: &Report) -> Option<u64> {
    let filesystem = report.filesystems.first()?;
    let layout = &filesystem.layouts.last()?.layout;
    let blocks = layout.data_blocks + layout.directory_blocks;
    let inodes = (layout.files + layout.directories) * INODE_BYTES;
    Some(blocks * u64::from(filesystem.block_size) + inodes)
}

/// The tree that a scenario makes: bytes of its files without what is behind their ends, of their
/// blocks, of inodes and of directories. `null` where it makes none.
pub(super) fn tree(name: &str, seed: Option<u64>) -> Value {
    let parsed = |text| scenario::parse(name, text, Path::new("")).ok();
    let Some(scenario) = scenario::builtin(name).and_then(|builtin| parsed(builtin.text)) else {
        return Value::Null;
    };
    let seed = seed.unwrap_or(scenario.seed);
    let mut steps = scenario.processes.iter().flat_map(|process| &process.steps);
    let made = steps.find_map(|step| match &step.action {
        Action::Make { tree, .. } => tree.build(seed, 1).ok(),
        _ => None,
    });
    let Some(tree) = made else { return Value::Null };
    let totals = tree.totals();
    json!({
        "bytes": totals.bytes,
        "content_bytes": tree.blocks(BLOCK as u32) * BLOCK,
        "inode_bytes": (totals.files + totals.directories) * INODE_BYTES,
        "directory_bytes": totals.directories * BLOCK,
    })
}
