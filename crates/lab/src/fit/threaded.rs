//! A store with threads of a clock as a target: a file or device of the host, or one in the
//! process, in real time or in virtual time.
//!
//! *Invariants*: each request is taken by one thread, in order; a thread that fails ends the run,
//! with its error. Threads end before the run does.
//!
//! *Locking*: one short lock around what was measured, never held across a request.
use super::target::{ProbeRequest, ProbeTarget, TargetFacts, Timing};
use extant_block::{Clock, ShortLock, Task};
use std::io;
use std::sync::Arc;

/// Something that does one request at a time for each thread that calls it.
pub trait Store: Send + Sync {
    /// What it is.
    fn facts(&self) -> TargetFacts;

    /// Does a request, and returns when it has ended. `memory` is the thread's own, to be kept
    /// from one request to the next.
    ///
    /// # Errors
    /// Those of the host.
    fn serve(&self, request: &ProbeRequest, memory: &mut Vec<u8>) -> io::Result<()>;
}

/// A store with as many threads as requests are to be under way.
pub struct ThreadedTarget {
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
}

/// What the threads of a run share.
struct Run {
    requests: Vec<ProbeRequest>,
    deadline_ns: u64,
    state: ShortLock<State>,
}

struct State {
    next: usize,
    timings: Vec<Timing>,
    error: Option<io::Error>,
}

impl ThreadedTarget {
    /// The store, with threads of this clock.
    pub fn new(clock: Arc<dyn Clock>, store: Arc<dyn Store>) -> ThreadedTarget {
        ThreadedTarget { clock, store }
    }
}

impl Run {
    /// Takes the next request; `None` when there is none, or no time.
    fn take(&self, clock: &dyn Clock) -> Option<(usize, ProbeRequest)> {
        let mut state = self.state.lock();
        let number = state.next;
        let request = *self.requests.get(number)?;
        let now = clock.now();
        if state.error.is_some() || now.saturating_add(request.rest_ns) >= self.deadline_ns {
            return None;
        }
        state.next += 1;
        state.timings.push(Timing { start_ns: now, end_ns: now });
        Some((number, request))
    }

    fn work(&self, clock: &dyn Clock, store: &dyn Store) {
        let mut memory = Vec::new();
        while let Some((number, request)) = self.take(clock) {
            rest(clock, request.rest_ns);
            let start_ns = clock.now();
            let result = store.serve(&request, &mut memory);
            let end_ns = clock.now();
            let mut state = self.state.lock();
            state.timings[number] = Timing { start_ns, end_ns };
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
        }
    }
}

fn rest(clock: &dyn Clock, time_ns: u64) {
    let until = clock.now().saturating_add(time_ns);
    while clock.now() < until {
        clock.park(Some(until));
    }
}

impl ProbeTarget for ThreadedTarget {
    fn facts(&self) -> TargetFacts {
        self.store.facts()
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn run(
        &mut self,
        requests: &[ProbeRequest],
        depth: u32,
        deadline_ns: u64,
    ) -> io::Result<Vec<Timing>> {
        let mut requests = requests.to_vec();
        // The first rest is everyone's; within a run only one thread may rest.
        if let Some(first) = requests.first_mut().filter(|_| depth > 1) {
            rest(&*self.clock, std::mem::take(&mut first.rest_ns));
        }
        let state = State { next: 0, timings: Vec::with_capacity(requests.len()), error: None };
        let run = Arc::new(Run { requests, deadline_ns, state: ShortLock::new(state) });
        if depth <= 1 {
            run.work(&*self.clock, &*self.store);
        } else {
            let tasks: Vec<Task> = (0..depth).map(|number| self.start(number, &run)).collect();
            tasks.into_iter().for_each(Task::join);
        }
        let mut state = run.state.lock();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut state.timings)),
        }
    }
}

impl ThreadedTarget {
    fn start(&self, number: u32, run: &Arc<Run>) -> Task {
        let (run, clock, store) =
            (Arc::clone(run), Arc::clone(&self.clock), Arc::clone(&self.store));
        let body = move || run.work(&*clock, &*store);
        self.clock.spawn(&format!("probe-{number}"), Box::new(body))
    }
}
