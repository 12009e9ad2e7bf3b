//! Runs side by side on the processors of the host. Each is a machine and a virtual time of its
//! own, so that what they give does not depend on how many run; results come in the order of the
//! jobs.
use crate::report::Report;
use crate::scenario::{self, RunOptions, Scenario, ScenarioError};
use extant_block::{Clock, RealClock, ShortLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many run at a time: each takes the memory of its machine.
const SIDE_BY_SIDE: usize = 2;

/// A run.
pub(super) struct Job {
    pub(super) scenario: Scenario,
    pub(super) options: RunOptions,
}

type Results = BTreeMap<usize, Result<Report, ScenarioError>>;

/// All reports, in the order of the jobs.
///
/// # Errors
/// That of the first job in order that failed.
pub(super) fn side_by_side(jobs: Vec<Job>) -> Result<Vec<Report>, ScenarioError> {
    let waiting: VecDeque<(usize, Job)> = jobs.into_iter().enumerate().collect();
    let waiting = Arc::new(ShortLock::new(waiting));
    let results: Arc<ShortLock<Results>> = Arc::default();
    let clock = RealClock::new();
    let workers: Vec<_> = (0..SIDE_BY_SIDE)
        .map(|number| {
            let (waiting, results) = (Arc::clone(&waiting), Arc::clone(&results));
            let body = Box::new(move || work(&waiting, &results));
            clock.spawn(&format!("runs {number}"), body)
        })
        .collect();
    workers.into_iter().for_each(extant_block::Task::join);
    let results = std::mem::take(&mut *results.lock());
    results.into_values().collect()
}

fn work(waiting: &ShortLock<VecDeque<(usize, Job)>>, results: &ShortLock<Results>) {
    loop {
        let next = waiting.lock().pop_front();
        let Some((number, job)) = next else { return };
        let ran = scenario::run(&job.scenario, &job.options).map(|outcome| outcome.report);
        results.lock().insert(number, ran);
    }
}
