//! What a check gives: the problems in order, and what is on the volume.
use super::causes;
use super::problem::Problem;
use super::rule::Severity;
use super::sink::Collected;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a check found. `extant check --json` prints these fields, as schema `extant-check/1`.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// e2fsck's exit code, see [`exit_code`](CheckReport::exit_code).
    pub exit_code: u8,
    /// What is wrong, in order: by pass, then by place. One may say that it follows from another
    /// ([`Problem::cause`]). Bounded: see `omitted`.
    pub problems: Vec<Problem>,
    /// Problems that were found but are not kept.
    pub omitted: u64,
    /// How many of each code, by its name.
    pub counts: BTreeMap<&'static str, u64>,
    /// What is on the volume, as it was counted.
    pub summary: Summary,
}

/// What is on the volume, as it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// Inodes of the volume.
    pub inodes: u64,
    /// Those in use, reserved ones included.
    pub inodes_used: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    /// Those in use.
    pub blocks_used: u64,
    /// Files whose extent tree could be smaller.
    pub large_trees: u64,
    /// Directories of three blocks and more that could have an index and have none; lost+found is
    /// not among them.
    pub unindexed_directories: u64,
}

impl CheckReport {
    /// Of what was collected. The exit code follows from the worst problem.
    pub(crate) fn new(collected: Collected, summary: Summary) -> CheckReport {
        let worst = collected.counts.keys().map(|code| code.rule().severity).max();
        let exit_code = match worst {
            None | Some(Severity::Advice) => 0,
            Some(Severity::Error) => 4,
            Some(Severity::Stopping) => 12,
            Some(Severity::Fatal) => 8,
        };
        let all: u64 = collected.counts.values().sum();
        let counts = collected.counts.iter().map(|(code, count)| (code.rule().name, *count));
        let omitted = all - collected.problems.len() as u64;
        let counts = counts.collect();
        let mut problems: Vec<Problem> = collected.problems.into_iter().collect();
        causes::find(&mut problems);
        CheckReport { exit_code, omitted, counts, problems, summary }
    }

    /// Adds a problem that was found by whoever prepared the volume for the check: by recovery. The
    /// exit code becomes that of the worst problem.
    pub fn add(&mut self, problem: Problem) {
        let rule = problem.rule();
        self.exit_code = match (rule.severity, self.exit_code) {
            (Severity::Error, 0) => 4,
            (Severity::Stopping, 0 | 4) => 12,
            (Severity::Fatal, _) => 8,
            (_, code) => code,
        };
        *self.counts.entry(rule.name).or_default() += 1;
        let at = self.problems.partition_point(|other| *other < problem);
        for other in &mut self.problems {
            other.cause = other.cause.map(|cause| cause + usize::from(cause >= at));
        }
        self.problems.insert(at, problem);
    }

    /// As e2fsck: 0 nothing is wrong (advice apart), 4 there are problems, 8 nothing could be
    /// checked, 12 there are problems and what depends on them could not be judged.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.exit_code == 0
    }
}
