//! The least that rows of posts ask of the drive, where that is computed: the functions that the
//! files of posts name.
use super::file::{Divided, LimitSpec, NeedSpec, RowSpec};
use super::limit::{Limit, Need};
use super::runs::{Ran, Runs};
use super::value::{CellPlace, Column, directory};
use super::{file::DirectoryField, runs::named};
use crate::report::Report;
use crate::scenario::step::Action;
use crate::scenario::tree::Totals;
use crate::scenario::{self, ScenarioError};
use extant_sim::drive::DriveInfo;
use std::path::Path;

/// The column that limits are held against.
const MODERN: &str = "modern";
/// The scenario whose tree the first post's limits are of.
const TREE_SCENARIO: &str = "post-0";
/// The rate at which its archive is unpacked, in bytes a second.
const UNPACK_RATE: u64 = 16 << 20;
const SECOND: u64 = 1_000_000_000;
const BLOCK: u64 = 4096;
/// The smallest inode.
const INODE_BYTES: u64 = 128;

/// What a limit is computed from.
struct LimitFacts<'a> {
    runs: &'a Runs<'a>,
    /// The run of the column `modern`.
    modern: Option<&'a Ran>,
    /// Any report of the table, for its drive.
    report: &'a Report,
}

type Computed = fn(&LimitFacts<'_>) -> Result<Option<Limit>, ScenarioError>;

/// The functions, by the names that files give them.
const COMPUTED: &[(&str, Computed)] = &[
    ("a tree unpacked", |facts| {
        tree_limit(facts, |tree| {
            let unpacking = u128::from(tree.bytes) * u128::from(SECOND) / u128::from(UNPACK_RATE);
            let need = Need { bytes_written: tree.content + tree.inodes, ..seeks(2) };
            (need, u64::try_from(unpacking).unwrap_or(u64::MAX))
        })
    }),
    ("two trees read", |facts| {
        tree_limit(facts, |tree| {
            (Need { bytes_read: 2 * (tree.content + tree.inodes), ..seeks(4) }, 0)
        })
    }),
    ("the names and inodes of a tree read", |facts| {
        tree_limit(facts, |tree| {
            (Need { bytes_read: tree.directories + tree.inodes, ..seeks(2) }, 0)
        })
    }),
    ("two trees removed", |facts| {
        tree_limit(facts, |tree| {
            let bytes_read = 2 * (tree.directories + tree.inodes);
            (Need { bytes_read, bytes_written: 2 * tree.inodes, ..seeks(6) }, 0)
        })
    }),
    ("what our check reads", |facts| {
        let check = facts.modern.and_then(|modern| modern.report.measure("fsck, our order"));
        Ok(check.and_then(|check| {
            limit(facts.report, &Need { bytes_read: check.work.bytes_read, ..seeks(1) })
        }))
    }),
    // The blocks of the directory under the head, once: they can be behind its inode, so that the
    // arm need not move again.
    ("the directory", |facts| {
        let blocks = facts.modern.and_then(|modern| directory(modern, DirectoryField::Blocks));
        Ok(blocks.and_then(|blocks| {
            limit(facts.report, &Need { bytes_read: blocks * BLOCK, ..Need::default() })
        }))
    }),
    ("everything read", |facts| {
        Ok(content(facts)
            .and_then(|bytes_read| limit(facts.report, &Need { bytes_read, ..seeks(1) })))
    }),
    ("everything written", |facts| {
        Ok(content(facts)
            .and_then(|bytes_written| limit(facts.report, &Need { bytes_written, ..seeks(1) })))
    }),
    ("what memory cannot hold written", |facts| {
        let memory = facts.modern.and_then(|modern| modern.report.filesystems.first());
        let bytes = content(facts).zip(memory.map(|filesystem| filesystem.memory_bytes));
        Ok(bytes.and_then(|(content, memory)| {
            let bytes_written = content.saturating_sub(memory);
            limit(facts.report, &Need { bytes_written, ..seeks(1) })
        }))
    }),
];

/// Whether there is a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    COMPUTED.iter().any(|(known, _)| *known == name)
}

fn seeks(seeks: u64) -> Need {
    Need { seeks, ..Need::default() }
}

/// The limit of a row; `None` where it has none.
///
/// # Errors
/// A scenario that a limit is computed from cannot be read.
pub(super) fn of_row(
    runs: &Runs<'_>,
    columns: &[Column],
    row: &RowSpec,
) -> Result<Option<Limit>, ScenarioError> {
    let Some(spec) = &row.limit else { return Ok(None) };
    let place = |column| CellPlace {
        runs,
        columns,
        column,
        run: row.run.as_deref(),
        case: None,
        variant: None,
        draw: 0,
    };
    let Some(first) = columns.first().and_then(|column| place(column).ran()) else {
        return Ok(None);
    };
    let modern = columns.iter().find(|column| column.name == MODERN);
    let modern = modern.and_then(|column| place(column).ran());
    let facts = LimitFacts { runs, modern, report: &first.report };
    match spec {
        LimitSpec::Need(need) => {
            let run = row.run.as_deref().or(columns.first().map(|column| column.run.as_str()));
            let divisor = match row.divided.contains(&Divided::Limit) {
                true => runs.divisor(run.unwrap_or_default()),
                false => 1,
            };
            Ok(limit(facts.report, &divided(need, divisor)))
        }
        LimitSpec::Computed(name) => match COMPUTED.iter().find(|(known, _)| known == name) {
            Some((_, computed)) => computed(&facts),
            None => Ok(None),
        },
    }
}

fn divided(need: &NeedSpec, divisor: u64) -> Need {
    Need {
        bytes_read: need.bytes_read.div_ceil(divisor),
        bytes_written: need.bytes_written.div_ceil(divisor),
        seeks: need.seeks.div_ceil(divisor),
    }
}

/// The least time on the drive of a report.
fn limit(report: &Report, need: &Need) -> Option<Limit> {
    let drive = report.drives.first()?;
    Some(need.limit(&DriveInfo {
        name: drive.name.clone(),
        bytes: drive.bytes,
        sector_bytes: 512,
        queue_depth: 1,
        media_bytes_per_second: drive.media_bytes_per_second,
        least_seek_ns: drive.least_seek_ns,
    }))
}

/// Bytes of what a tree has, each kind in a row.
struct TreeBytes {
    /// Of its files, without what is behind their ends.
    bytes: u64,
    /// Of their blocks.
    content: u64,
    inodes: u64,
    directories: u64,
}

fn tree_limit(
    facts: &LimitFacts<'_>,
    need: impl Fn(&TreeBytes) -> (Need, u64),
) -> Result<Option<Limit>, ScenarioError> {
    let Some(builtin) = scenario::builtin(TREE_SCENARIO) else { return Ok(None) };
    let scenario = scenario::parse(&named("post-0.toml", None), builtin.text, Path::new(""))?;
    let seed = facts.runs.work.seed.unwrap_or(scenario.seed);
    let steps = scenario.processes.iter().flat_map(|process| &process.steps);
    let made = steps.filter_map(|step| match &step.action {
        Action::Make { tree, .. } => tree.build(seed, 1).ok(),
        _ => None,
    });
    let Some(tree) = made.into_iter().next() else { return Ok(None) };
    let totals: Totals = tree.totals();
    let (need, computing) = need(&TreeBytes {
        bytes: totals.bytes,
        content: tree.blocks(BLOCK as u32) * BLOCK,
        inodes: (totals.files + totals.directories) * INODE_BYTES,
        directories: totals.directories * BLOCK,
    });
    let limit = limit(facts.report, &need);
    Ok(limit.map(|limit| if computing > 0 { limit.beside(computing) } else { limit }))
}

/// Bytes of everything on the volume of `modern`: data, directories and inodes.
fn content(facts: &LimitFacts<'_>) -> Option<u64> {
    let filesystem = facts.modern?.report.filesystems.first()?;
    let layout = &filesystem.layouts.last()?.layout;
    let blocks = layout.data_blocks + layout.directory_blocks;
    let inodes = (layout.files + layout.directories) * INODE_BYTES;
    Some(blocks * u64::from(filesystem.block_size) + inodes)
}
