//! How far a process has got: its rows in the report, of steps with a `measure` and of directories
//! one by one, and the stages of its trees.
//!
//! Of several copies of a process a row has a time of their own together too: that in which any of
//! them was in it. Where they overlap it is from the first start to the last end; what each does
//! between two runs of a step is no part of it, as it is none of the row of one copy.
//!
//! *Invariants*: each row has its key, at the same place; copies that do the same give rows the
//! same keys.
use crate::report::{Measure, Traffic};
use std::collections::BTreeMap;

/// A moment: the time, and what the drive had done by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) ns: u64,
    pub(super) traffic: Traffic,
}

/// What tells a row from the others of its process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RowKey {
    /// Its name.
    name: String,
    /// How many rows of that name began before it.
    turn: u32,
}

/// Rows that were measured so far.
#[derive(Default)]
pub(super) struct MeasuredRows {
    pub(super) measures: Vec<Measure>,
    /// The key of each of them.
    pub(super) keys: Vec<RowKey>,
    /// Which of them the next step with the same name belongs to.
    open: Option<usize>,
    /// How many rows of each name have begun.
    begun: BTreeMap<String, u32>,
}

/// To which row of the same name a further part is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joining {
    /// To that of the step before.
    Neighbour,
    /// To any: runs of a step within others are one row, unless `{r}` in the name tells them apart.
    Name,
    /// To none.
    None,
}

impl MeasuredRows {
    /// The key of the row to which the next part of this name is added: that of one that is there,
    /// or a new one.
    pub(super) fn begin(&mut self, name: &str, joining: Joining) -> RowKey {
        if let Some(at) = self.known(name, joining) {
            return self.keys[at].clone();
        }
        let begun = self.begun.entry(name.to_owned()).or_default();
        *begun += 1;
        RowKey { name: name.to_owned(), turn: *begun - 1 }
    }

    fn known(&self, name: &str, joining: Joining) -> Option<usize> {
        let is_same = |at: &usize| self.measures[*at].measure == name;
        match joining {
            Joining::Neighbour => self.open.filter(is_same),
            Joining::Name => (0..self.measures.len()).rev().find(is_same),
            Joining::None => None,
        }
    }

    /// Adds a row that has begun, or a part of one.
    pub(super) fn add(&mut self, row: Measure, key: RowKey, joining: Joining) {
        let at = match self.known(&row.measure, joining) {
            Some(at) => {
                extend(&mut self.measures[at], &row);
                at
            }
            None => {
                self.measures.push(row);
                self.keys.push(key);
                self.measures.len() - 1
            }
        };
        if joining == Joining::Neighbour {
            self.open = Some(at);
        }
    }

    /// A step without a row: what comes next begins a new one.
    pub(super) fn close(&mut self) {
        self.open = None;
    }
}

fn extend(row: &mut Measure, by: &Measure) {
    row.elapsed_ns += by.elapsed_ns;
    row.traffic = row.traffic.and(&by.traffic);
    row.work = row.work.and(&by.work);
}

/// What the copies of a process did together in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together {
    /// When the first of them began.
    pub(super) started_ns: u64,
    /// How long any of them was in it.
    pub(super) elapsed_ns: u64,
    /// What the drive did in that time.
    pub(super) traffic: Traffic,
    /// How many are in it, and since when any is.
    inside: u32,
    since: Mark,
}

/// Rows of several copies, by process and key.
#[derive(Default)]
pub(super) struct SharedRows(BTreeMap<(usize, RowKey), Together>);

impl SharedRows {
    /// A copy of this process begins a part of a row.
    pub(super) fn enter(&mut self, row: (usize, RowKey), now: Mark) {
        let together = self.0.entry(row).or_insert(Together {
            started_ns: now.ns,
            elapsed_ns: 0,
            traffic: Traffic { is_unknown: now.traffic.is_unknown, ..Traffic::default() },
            inside: 0,
            since: now,
        });
        if together.inside == 0 {
            together.since = now;
        }
        together.inside += 1;
    }

    /// A copy ends it.
    pub(super) fn leave(&mut self, row: (usize, RowKey), now: Mark) {
        let Some(together) = self.0.get_mut(&row) else { return };
        together.inside = together.inside.saturating_sub(1);
        if together.inside == 0 {
            together.elapsed_ns += now.ns - together.since.ns;
            together.traffic = together.traffic.and(&now.traffic.since(&together.since.traffic));
        }
    }

    /// What was done in it; `None` of a process of one copy.
    pub(super) fn get(&self, row: &(usize, RowKey)) -> Option<Together> {
        self.0.get(row).copied()
    }
}

/// How far a tree that is made stage by stage has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StagesDone {
    pub(super) entries: usize,
    pub(super) runs: u64,
}
