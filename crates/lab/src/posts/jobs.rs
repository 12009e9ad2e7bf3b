//! Runs side by side on the processors of the host. Each is a machine and a virtual time of its
//! own, so that what they give does not depend on how many run; results come in the order of the
//! jobs.
//!
//! *Invariant*: no more than [`SIDE_BY_SIDE`] machines are under way in the process at a time,
//! however many posts and seeds are: each takes the memory of its machine.
//! *Locking*: `PLACES.taken` is short, and waited for with `PLACES.free`; a place is held while one
//! machine runs, and nothing else is waited for meanwhile but that machine.
use crate::report::Report;
use crate::scenario::{self, Outcome, RunOptions, Scenario, ScenarioError};
use extant_block::{Clock, RealClock, ShortLock, WaitQueue};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};

/// How many run at a time.
const SIDE_BY_SIDE: usize = 2;

/// The machines that are under way in this process.
struct Places {
    taken: ShortLock<usize>,
    free: WaitQueue,
}

static PLACES: LazyLock<Places> =
    LazyLock::new(|| Places { taken: ShortLock::new(0), free: WaitQueue::new(RealClock::new()) });

/// A place that is taken, given back when it is dropped.
struct Place;

impl Place {
    fn take() -> Place {
        PLACES.free.wait_until(&PLACES.taken, |taken| {
            (*taken < SIDE_BY_SIDE).then(|| {
                *taken += 1;
                Place
            })
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *PLACES.taken.lock() -= 1;
        PLACES.free.wake_one();
    }
}

/// Runs a scenario when there is a place for its machine.
///
/// # Errors
/// See [`scenario::run`].
pub(super) fn run(scenario: &Scenario, options: &RunOptions) -> Result<Outcome, ScenarioError> {
    let _place = Place::take();
    scenario::run(scenario, options)
}

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
        let ran = run(&job.scenario, &job.options).map(|outcome| outcome.report);
        results.lock().insert(number, ran);
    }
}
