//! What dumpe2fs says of the volume that FreeBSD of 2010 left, next to what the post shows of it.
use super::{Cell, Class, PostColumn, PostTable, Quantity, row};
use crate::scenario::{Left, ScenarioError};
use extant_inspect::{GroupInfo, SuperblockPlace, Volume};
use std::sync::Arc;

/// The superblock, as dumpe2fs has it: blocks, reserved, free; inodes, free; of a group blocks,
/// inodes, blocks of inodes.
const SUPERBLOCK: [(&str, u64); 8] = [
    ("block count", 3_058_374),
    ("reserved block count", 152_918),
    ("free blocks", 2_888_113),
    ("inode count", 1_531_072),
    ("free inodes", 1_498_688),
    ("blocks per group", 32_768),
    ("inodes per group", 16_288),
    ("inode blocks per group", 509),
];

/// Of groups 0 to 3: free blocks, free inodes, directories.
const GROUPS: [[u64; 3]; 4] =
    [[0, 16_277, 2], [0, 16_288, 0], [32_257, 16_288, 0], [6_882, 16_288, 0]];

/// The free runs that the post shows: group, first and last block.
const RUNS: [(u32, u64, u64); 7] = [
    (2, 66_047, 98_303),
    (3, 123_207, 123_207),
    (3, 123_209, 123_215),
    (3, 123_217, 123_223),
    (3, 123_225, 123_231),
    (3, 123_233, 123_239),
    (3, 123_241, 123_247),
];

/// Superblock, groups, free runs. Nothing of a volume that is not there.
pub(super) fn tables(file: &str, left: Option<&Left>) -> Result<Vec<PostTable>, ScenarioError> {
    let Some(left) = left else {
        return Ok(Vec::new());
    };
    let failed = |error: extant_inspect::Error| ScenarioError::Run {
        file: file.to_owned(),
        reason: error.to_string(),
    };
    let volume =
        Volume::open(Arc::clone(&left.contents), SuperblockPlace::Primary).map_err(failed)?;
    let groups: Vec<GroupInfo> =
        volume.groups().take(GROUPS.len()).collect::<Result<_, _>>().map_err(failed)?;
    Ok(vec![superblock(&volume), lines(&groups), runs(&groups)])
}

fn exact(posted: u64, ours: Option<u64>) -> Cell {
    Cell { posted: Some(Quantity::Count(posted)), ours: ours.map(Quantity::Count) }
}

fn table(title: &str, columns: &[&str], rows: Vec<super::Row>) -> PostTable {
    let column = |name: &&str| PostColumn {
        name: (*name).to_owned(),
        policies: "freebsd-2010,mount=async".to_owned(),
    };
    PostTable { title: title.to_owned(), columns: columns.iter().map(column).collect(), rows }
}

fn superblock(volume: &Volume) -> PostTable {
    let info = volume.info();
    let ours = [
        info.blocks,
        info.reserved_blocks,
        info.free_blocks,
        info.inodes.into(),
        info.free_inodes.into(),
        info.blocks_per_group.into(),
        info.inodes_per_group.into(),
        info.inode_blocks_per_group.into(),
    ];
    let rows = SUPERBLOCK.iter().zip(ours);
    let rows = rows
        .map(|((what, posted), ours)| row(what, Class::Exact, vec![exact(*posted, Some(ours))]));
    table("dumpe2fs of current-as: the superblock", &["dumpe2fs"], rows.collect())
}

fn lines(groups: &[GroupInfo]) -> PostTable {
    let rows = GROUPS.iter().enumerate().map(|(number, posted)| {
        let group = groups.get(number);
        let ours = [
            group.map(|group| group.free_blocks),
            group.map(|group| group.free_inodes),
            group.map(|group| group.directories),
        ];
        let cells =
            posted.iter().zip(ours).map(|(posted, ours)| exact(*posted, ours.map(u64::from)));
        row(&format!("group {number}"), Class::Exact, cells.collect())
    });
    let columns = ["free blocks", "free inodes", "directories"];
    table("dumpe2fs of current-as: groups", &columns, rows.collect())
}

fn runs(groups: &[GroupInfo]) -> PostTable {
    let mut rows = Vec::new();
    let mut number = 0;
    for (at, (group, first, last)) in RUNS.iter().enumerate() {
        number = if at > 0 && RUNS[at - 1].0 == *group { number + 1 } else { 0 };
        let run = groups.get(*group as usize).and_then(|group| group.free_block_runs.get(number));
        let cells =
            vec![exact(*first, run.map(|run| run.first)), exact(*last, run.map(|run| run.last))];
        rows.push(row(&format!("group {group}, run {}", number + 1), Class::Exact, cells));
    }
    // "1 block used, 7 blocks free" to the end: of each run its first block in a byte of the
    // bitmap, and its last.
    let odd = groups.get(3).map(|group| {
        let pattern = group.free_block_runs.iter().skip(1);
        let count = |wrong: &dyn Fn(u64, u64) -> bool| {
            pattern.clone().filter(|run| wrong(run.first, run.last)).count()
        };
        [count(&|first, _| first % 8 != 1) as u64, count(&|_, last| last % 8 != 7) as u64]
    });
    let cells = vec![exact(0, odd.map(|odd| odd[0])), exact(0, odd.map(|odd| odd[1]))];
    rows.push(row("group 3, further runs that break the pattern", Class::Exact, cells));
    table("dumpe2fs of current-as: free runs", &["first", "last"], rows)
}
