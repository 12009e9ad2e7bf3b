//! Where all threads put the problems that they find.
//!
//! *Invariants*: what is kept is the first problems in their order, whenever they were found. A
//! problem that is found twice counts once, as long as it is among those that are kept.
//! *Locking*: one short lock, held for an insertion.
use super::codes::Code;
use super::problem::Problem;
use super::rule::{Pass, Severity};
use extant_block::ShortLock;
use std::collections::{BTreeMap, BTreeSet};

/// Problems that are kept for the report; of more only the number is known.
const KEPT_MAX: usize = 100_000;

/// Where problems are put by all threads.
#[derive(Default)]
pub(crate) struct Sink(ShortLock<Collected>);

/// What was found so far: the first in order, and how many of each code.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) problems: BTreeSet<Problem>,
    pub(crate) counts: BTreeMap<Code, u64>,
}

impl Sink {
    /// Adds a problem; one that is there already counts once.
    pub(crate) fn add(&self, problem: Problem) {
        let mut collected = self.0.lock();
        let code = problem.code;
        if collected.problems.insert(problem) {
            *collected.counts.entry(code).or_default() += 1;
        }
        if collected.problems.len() > KEPT_MAX {
            collected.problems.pop_last();
        }
    }

    /// Whether a problem was found after which nothing can be checked. A wrong checksum of the
    /// superblock is fatal as it is to e2fsck, but what is said by such a superblock can be
    /// checked.
    pub(crate) fn ends_check(&self) -> bool {
        let ends = |code: &Code| {
            code.rule().severity == Severity::Fatal && *code != Code::SuperblockChecksum
        };
        self.0.lock().counts.keys().any(ends)
    }

    /// Whether any problem of a pass was collected.
    pub(crate) fn any_of(&self, pass: Pass) -> bool {
        self.0.lock().counts.keys().any(|code| code.rule().pass == pass)
    }

    /// How many of this code were collected.
    pub(crate) fn count(&self, code: Code) -> u64 {
        self.0.lock().counts.get(&code).copied().unwrap_or(0)
    }

    /// Everything, and leaves nothing.
    pub(crate) fn take(&self) -> Collected {
        std::mem::take(&mut self.0.lock())
    }
}
