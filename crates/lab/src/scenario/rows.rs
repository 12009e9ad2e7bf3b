//! The rows of a process in the report: steps with a `measure`, and directories one by one.
//!
//! *Invariants*: each row has its marks, at the same place.
use super::process::{Mark, Outcome, Stop, Worker};
use super::step::{Action, Order, Warmth};
use crate::report::Measure;
use extant_format::inode::FileType;
use std::path::Path;
use std::sync::Arc;

/// Rows that were measured so far.
#[derive(Default)]
pub(super) struct Rows {
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

impl Rows {
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

impl Worker {
    /// A walk, directory by directory of those at the top, with a row for each. Files at the top
    /// are left out.
    pub(super) fn walk_by_directory(
        &mut self,
        action: &Action,
        warmth: Warmth,
        label: &str,
    ) -> Outcome {
        let Action::Walk { at, task, order, chunk, end, .. } = action else {
            return Err(Stop::from("no walk has rows"));
        };
        let at = self.path(at);
        let world = Arc::clone(&self.world);
        for directory in self.directories_of(&at, *order)? {
            if warmth == Warmth::Cold {
                world.mounts[self.mount()?].reopen(None)?;
            }
            let (started, before) = (Mark::now(self), std::mem::take(&mut self.work));
            let outcome = self.walk(&directory, *task, *order, *chunk, *end);
            let ended = Mark::now(self);
            let name = directory.rsplit('/').next().unwrap_or(&directory);
            let row = Measure {
                process: world.process(self.process).name.clone(),
                copy: Some(self.copy),
                measure: format!("{}: {name}", self.path(label)),
                started_ns: started.ns,
                elapsed_ns: ended.ns - started.ns,
                traffic: ended.traffic.since(&started.traffic),
                work: self.work,
            };
            self.work = self.work.and(&before);
            self.rows.add(row, (started, ended), Joining::None);
            outcome?;
        }
        Ok(())
    }

    /// The directories in a directory, in this order.
    fn directories_of(&mut self, at: &str, order: Order) -> Outcome<Vec<String>> {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let mut names = self.names(&in_use.filesystem, Path::new(at), order)?;
        if order == Order::Inode {
            names.sort_by_key(|entry| entry.ino);
        }
        let mut found = Vec::new();
        for entry in names.iter().filter(|entry| entry.name != b"lost+found") {
            let path = Path::new(at).join(super::walk::name(entry));
            if self.file_type(&in_use.filesystem, &path, entry)? == FileType::Directory {
                let text = path.to_str().map(str::to_owned);
                let failed = || Stop::Failed(format!("{}: is no text", path.display()));
                found.push(text.ok_or_else(failed)?);
            }
        }
        Ok(found)
    }
}
