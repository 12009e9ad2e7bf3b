//! Runs side by side on the processors of the host. Each is a machine and a virtual time of its
//! own, so that what they give does not depend on how many run; results come in the order of the
//! jobs.
//!
//! *Invariants*: no more than [`SIDE_BY_SIDE`] machines are under way in the process at a time,
//! however many posts and seeds are: each takes the memory of its machine. While another group of
//! runs has none under way and waits, no group takes a second place: one whose runs come one after
//! the other is not held up by one whose runs could all run at once.
//! *Locking*: `PLACES.state` is short, and waited for with `PLACES.free`; a place is held while one
//! machine runs, and nothing else is waited for meanwhile but that machine.
use crate::report::Report;
use crate::scenario::{self, Outcome, RunOptions, Scenario, ScenarioError};
use extant_block::{RealClock, ShortLock, WaitQueue};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many run at a time.
const SIDE_BY_SIDE: usize = 2;

/// The runs of one post with one seed: they share places with those of others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Group(u64);

impl Group {
    pub(super) fn new() -> Group {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Group(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The groups whose machines are under way, and those that wait for a place; a group is there as
/// often as it has runs there.
#[derive(Default)]
struct State {
    running: Vec<Group>,
    waiting: Vec<Group>,
}

impl State {
    fn may_run(&self, group: Group) -> bool {
        let has_none = |other: &Group| *other != group && !self.running.contains(other);
        self.running.len() < SIDE_BY_SIDE
            && !(self.running.contains(&group) && self.waiting.iter().any(has_none))
    }
}

/// Takes one of them out.
fn take_out(groups: &mut Vec<Group>, group: Group) {
    if let Some(at) = groups.iter().position(|other| *other == group) {
        groups.swap_remove(at);
    }
}

/// The machines that are under way in this process.
struct Places {
    state: ShortLock<State>,
    free: WaitQueue,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| Places {
    state: ShortLock::new(State::default()),
    free: WaitQueue::new(RealClock::new()),
});

/// A place that is taken, given back when it is dropped.
struct Place(Group);

impl Place {
    fn take(group: Group) -> Place {
        PLACES.state.lock().waiting.push(group);
        PLACES.free.wait_until(&PLACES.state, |state| {
            state.may_run(group).then(|| {
                take_out(&mut state.waiting, group);
                state.running.push(group);
            })
        });
        // One that had to leave it a place may go on.
        PLACES.free.wake_all();
        Place(group)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        take_out(&mut PLACES.state.lock().running, self.0);
        PLACES.free.wake_all();
    }
}

/// Runs a scenario when there is a place for its machine.
///
/// # Errors
/// See [`scenario::run`].
pub(super) fn run(
    group: Group,
    scenario: &Scenario,
    options: &RunOptions,
) -> Result<Outcome, ScenarioError> {
    let _place = Place::take(group);
    scenario::run(scenario, options)
}

/// A run.
pub(super) struct Job {
    pub(super) scenario: Scenario,
    pub(super) options: RunOptions,
}

/// All reports, in the order of the jobs.
///
/// # Errors
/// That of the first job in order that failed.
pub(super) fn side_by_side(group: Group, jobs: &[Job]) -> Result<Vec<Report>, ScenarioError> {
    let ran = in_order(jobs, SIDE_BY_SIDE, |job| run(group, &job.scenario, &job.options));
    ran.into_iter().map(|outcome| Ok(outcome?.report)).collect()
}

/// What each of these jobs gives, in their order; as many at a time as `threads` says.
pub(super) fn in_order<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let slots: Vec<ShortLock<Option<R>>> = jobs.iter().map(|_| ShortLock::default()).collect();
    let work = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let (Some(job), Some(slot)) = (jobs.get(at), slots.get(at))
        {
            let ran = run(job);
            *slot.lock() = Some(ran);
        }
    };
    // tidy: thread because each run has its own clock, and nothing here waits on it
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
    });
    slots.into_iter().filter_map(ShortLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_waits_comes_before_the_second_run_of_another() {
        let [first, second, third] = [Group::new(), Group::new(), Group::new()];
        let state = |running: &[Group], waiting: &[Group]| State {
            running: running.to_vec(),
            waiting: waiting.to_vec(),
        };
        assert!(state(&[], &[first, second]).may_run(first));
        assert!(!state(&[first], &[first, second]).may_run(first));
        assert!(state(&[first], &[first, second]).may_run(second));
        assert!(state(&[first], &[first]).may_run(first), "no other waits");
        assert!(state(&[first], &[first, first]).may_run(first));
        assert!(!state(&[first, second], &[third]).may_run(third), "both places are taken");
    }
}
