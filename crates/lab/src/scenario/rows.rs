//! How far a process has got: its rows in the report, of steps with a `measure` and of directories
//! one by one, and the stages of its trees.
//!
//! *Invariants*: each row has its marks, at the same place.
use crate::report::{Measure, Traffic};

/// A moment: the time, and what the drive had done by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) ns: u64,
    pub(super) traffic: Traffic,
}

/// Rows that were measured so far.
#[derive(Default)]
pub(super) struct MeasuredRows {
    pub(super) measures: Vec<Measure>,
    /// When each of them began and ended.
    pub(super) marks: Vec<(Mark, Mark)>,
    /// Which of them the next step with the same name belongs to.
    open: Option<usize>,
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
    /// Adds a row, or a part of one.
    pub(super) fn add(&mut self, row: Measure, marks: (Mark, Mark), joining: Joining) {
        let is_same = |at: &usize| self.measures[*at].measure == row.measure;
        let known = match joining {
            Joining::Neighbour => self.open.filter(is_same),
            Joining::Name => (0..self.measures.len()).rev().find(is_same),
            Joining::None => None,
        };
        let at = match known {
            Some(at) => {
                extend(&mut self.measures[at], &row);
                self.marks[at].1 = marks.1;
                at
            }
            None => {
                self.measures.push(row);
                self.marks.push(marks);
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

/// How far a tree that is made stage by stage has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StagesDone {
    pub(super) entries: usize,
    pub(super) runs: u64,
}
