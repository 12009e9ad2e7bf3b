//! What processes did, and when each operation began and was acknowledged; what of it has to be
//! there after a cut.
//!
//! What is durable, once the call has returned:
//!
//! - `fsync` of a file: its bytes, size and inode, and every change of its names before the call
//!   (also that it was made), because they changed its inode.
//! - `fdatasync` of a file: its bytes, its size, and that it was made. A file that grew in memory
//!   and was cut back has a size that may be durable already.
//! - `fsync` of a directory: its names.
//! - `sync`: everything.
//!
//! A journal commits in order. So where an operation on names, attributes or sizes is durable, all
//! that were acknowledged before it began are durable too.
use crate::operation::{NodeId, Operation, Sync};
use crate::tree::{Contents, Model, Touched, Tree};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// When something was: a number that rises with every beginning and end, and how many events the
/// log of the device had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    /// The order of beginnings and ends.
    pub tick: u64,
    /// Events of the log: a cut after at least this many finds it.
    pub moment: usize,
}

/// One operation of a process.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub operation: Operation,
    /// What it touches.
    pub touched: Touched,
    /// What a sync is for, if it is for one thing.
    pub subject: Option<NodeId>,
}

/// What one process does: decided before it runs.
#[derive(Clone, Debug)]
pub struct Script {
    /// In order.
    pub steps: Vec<Step>,
    /// The tree before the first step and after each.
    pub trees: Vec<Arc<Tree>>,
    /// The tree as it is now, with all that its files ever held.
    pub model: Model,
}

impl Script {
    /// Nothing is done yet.
    pub fn new(model: Model) -> Script {
        Script { steps: Vec::new(), trees: vec![Arc::new(model.tree.clone())], model }
    }

    /// Adds an operation, which has to be allowed.
    pub fn push(&mut self, operation: Operation) {
        let subject = match &operation {
            Operation::Sync(Sync::File(path) | Sync::Data(path) | Sync::Directory(path)) => {
                self.model.node(path)
            }
            _ => None,
        };
        let touched = self.model.apply(&operation);
        self.steps.push(Step { operation, touched, subject });
        self.trees.push(Arc::new(self.model.tree.clone()));
    }

    /// The size of a file after some steps, in bytes.
    fn size(&self, steps: usize, node: NodeId) -> Option<usize> {
        let version = self.trees[steps].nodes.get(&node)?.version;
        Some(self.contents().get(&node)?.get(version)?.bytes.len())
    }

    /// How many of the first `ended` steps are durable where the size of a file is, of which the
    /// version `durable` is: those up to the one that gave it this size, whatever grew it in memory
    /// since and was undone.
    fn steps_to_size(&self, ended: usize, node: NodeId, durable: Option<usize>) -> usize {
        let now = self.size(ended, node);
        let version = |steps: usize| self.trees[steps].nodes.get(&node).map(|state| state.version);
        let mut needed = 0;
        for (number, step) in self.steps[..ended].iter().enumerate().rev() {
            if version(number + 1) <= durable && durable.is_some() {
                return if self.size(number + 1, node) == now { 0 } else { needed };
            }
            if !step.touched.mapped.contains(&node) {
                continue;
            }
            if self.size(number + 1, node) == now {
                needed = number + 1;
            }
            if self.size(number, node) < now {
                return needed;
            }
        }
        if self.size(0, node) == now { 0 } else { needed }
    }

    /// What every file of it held.
    pub fn contents(&self) -> &Contents {
        &self.model.contents
    }
}

/// When a step was: its end is missing if it never came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it began.
    pub begun: Point,
    /// When it was acknowledged.
    pub ended: Option<Point>,
}

/// What processes did.
#[derive(Clone, Debug)]
pub struct History {
    /// By process.
    pub scripts: Vec<Script>,
    /// The same: when the steps were that began.
    pub spans: Vec<Vec<Span>>,
}

/// What has to be there after a cut.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    /// By process: how many of its steps are durable.
    pub steps: Vec<usize>,
    /// By file: the version of its bytes that is durable, or one after it.
    pub versions: BTreeMap<NodeId, usize>,
}

impl fmt::Display for History {
    /// Every step that began: when, by which process, what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (process, (script, spans)) in self.scripts.iter().zip(&self.spans).enumerate() {
            for (number, (step, span)) in script.steps.iter().zip(spans).enumerate() {
                let ended = span.ended.map_or(String::new(), |ended| ended.moment.to_string());
                let moments = format!("{}..{ended}", span.begun.moment);
                writeln!(f, "{process}.{number:<3} {moments:<12} {:?}", step.operation)?;
            }
        }
        Ok(())
    }
}

impl History {
    /// How many steps of a process had begun at this moment.
    pub fn begun(&self, process: usize, moment: usize) -> usize {
        self.spans[process].partition_point(|span| span.begun.moment <= moment)
    }

    /// How many steps of a process had been acknowledged before this tick.
    fn ended_before(&self, process: usize, tick: u64) -> usize {
        self.spans[process]
            .partition_point(|span| span.ended.is_some_and(|ended| ended.tick < tick))
    }

    /// What the syncs that were acknowledged by this moment make durable.
    pub fn floor(&self, moment: usize) -> Floor {
        let mut floor = Floor { steps: vec![0; self.scripts.len()], ..Floor::default() };
        for (script, spans) in self.scripts.iter().zip(&self.spans) {
            for (step, span) in script.steps.iter().zip(spans) {
                let is_acknowledged = span.ended.is_some_and(|ended| ended.moment <= moment);
                if let (Operation::Sync(sync), true) = (&step.operation, is_acknowledged) {
                    self.raise(&mut floor, sync, step.subject, span.begun.tick);
                }
            }
        }
        floor
    }

    /// Raises what is durable by a sync that began at this tick.
    fn raise(&self, floor: &mut Floor, sync: &Sync, subject: Option<NodeId>, tick: u64) {
        for (process, script) in self.scripts.iter().enumerate() {
            let ended = self.ended_before(process, tick);
            let matters = |touched: &Touched| match (sync, subject) {
                (Sync::All, _) => true,
                (_, Some(node)) => touched.nodes.contains(&node),
                (_, None) => false,
            };
            let last = match (sync, subject) {
                (Sync::Data(_), Some(node)) => {
                    let is_old = script.trees[0].nodes.contains_key(&node);
                    let known = floor.versions.get(&node).copied().or(is_old.then_some(0));
                    script.steps_to_size(ended, node, known)
                }
                _ => {
                    let mut steps = script.steps[..ended].iter();
                    steps.rposition(|step| matters(&step.touched)).map_or(0, |last| last + 1)
                }
            };
            floor.steps[process] = floor.steps[process].max(last);
            for (node, state) in &script.trees[ended].nodes {
                let is_synced = match sync {
                    Sync::All => true,
                    Sync::Directory(_) => false,
                    Sync::File(_) | Sync::Data(_) => subject == Some(*node),
                };
                if is_synced && script.contents().contains_key(node) {
                    let version = floor.versions.entry(*node).or_default();
                    *version = (*version).max(state.version);
                }
            }
        }
    }

    /// How many steps of `other` have to be durable where the first `steps` of `process` are: those
    /// that were acknowledged before the last of these began.
    pub fn implied(&self, process: usize, steps: usize, other: usize) -> usize {
        match steps.checked_sub(1).and_then(|last| self.spans[process].get(last)) {
            Some(span) if process != other => self.ended_before(other, span.begun.tick),
            _ => 0,
        }
    }
}
