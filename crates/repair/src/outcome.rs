//! What came of it.
use extant_block::Overlay;
use extant_engine::OrphanCounts;
use extant_inspect::{CheckReport, Code, Problem};
use extant_journal::Report;
use serde::Serialize;
use std::sync::Arc;

/// What was done before the first check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// What the journal held, if it was replayed.
    pub journal: Option<Report>,
    /// Orphans that were freed or cut.
    pub orphans: Option<OrphanCounts>,
}

/// One problem that was mended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// What was wrong.
    pub problem: Problem,
    /// The check that found it, counted from 1; 0 for what recovery needed before the first one.
    pub round: u32,
    /// What was lost by it, in words: bytes of a file, a name, an attribute. `None` if nothing.
    pub loss: Option<String>,
}

/// A volume that was mended in memory.
pub struct Repaired {
    /// The volume as it is to be: what was changed is in it, and nothing on the device.
    pub overlay: Arc<Overlay>,
    /// Bytes of its blocks.
    pub block_size: u32,
    /// What recovery did.
    pub recovery: Recovery,
    /// The first check, after recovery.
    pub found: CheckReport,
    /// The last check: what is left.
    pub left: CheckReport,
    /// How many checks there were.
    pub rounds: u32,
    /// What was mended, in order.
    pub changes: Vec<Change>,
    /// Problems that were mended but are not kept in `changes`.
    pub omitted: u64,
    /// Whether a directory `lost+found` was made although nothing needed it.
    pub made_lost_found: bool,
    /// Directories that were written anew with an index, though nothing was wrong with them.
    pub indexed: u64,
    /// Files whose extent trees were made smaller.
    pub smaller_trees: u64,
}

impl Repaired {
    /// Whether the volume differs from what is on the device.
    pub fn is_changed(&self) -> bool {
        !self.overlay.written().is_empty()
    }

    /// Whether the log of the journal was damaged, so that what was committed after that is lost.
    pub fn has_lost_log(&self) -> bool {
        let end = self.recovery.journal.as_ref().map(|report| &report.end);
        matches!(end, Some(extant_journal::End::Damaged { .. }))
    }

    /// Whether anything was wrong that recovery does not mend: what is advice alone is not.
    pub fn is_corrected(&self) -> bool {
        !self.found.is_clean()
            || self.has_lost_log()
            || self.made_lost_found
            || self.changes.iter().any(|change| change.round == 0)
    }

    /// Whether nothing is wrong with it as it is to be.
    pub fn is_clean(&self) -> bool {
        is_clean(&self.left)
    }
}

/// Whether nothing is wrong, and nothing waits: a log that is not replayed, or orphans, are advice
/// to a reader only.
pub(crate) fn is_clean(report: &CheckReport) -> bool {
    let waits = |code: Code| report.counts.contains_key(code.rule().name);
    let waiting = [Code::NeedsRecovery, Code::OrphansWait, Code::OrphanList];
    report.is_clean() && !waiting.into_iter().any(waits)
}
