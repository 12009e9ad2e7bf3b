//! Requests that are submitted, and the workers that do them: one at first, more where it waits.
//!
//! *Invariants*: every request is completed, even if the device is dropped: a worker ends when the
//! queue is closing and empty.
//! *Locking*: one short lock, not held across a request or its completion.
use extant_block::{Clock, Request, ShortLock, Task, WaitQueue};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::ThreadId;

const WORKERS: usize = 2;

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    is_closing: bool,
    is_started: bool,
    workers: Vec<ThreadId>,
}

struct Shared {
    waiting: ShortLock<Waiting>,
    arrived: WaitQueue,
}

/// A queue of requests.
pub(super) struct Queue {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    tasks: ShortLock<Vec<Task>>,
}

impl Queue {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Queue {
        let arrived = WaitQueue::new(Arc::clone(&clock));
        let shared = Arc::new(Shared { waiting: ShortLock::default(), arrived });
        Queue { clock, shared, tasks: ShortLock::default() }
    }

    /// Has a request done by `perform`, which completes it.
    pub(super) fn submit(&self, request: Request, perform: &Arc<dyn Fn(Request) + Send + Sync>) {
        let mut waiting = self.shared.waiting.lock();
        waiting.requests.push_back(request);
        let is_first = !std::mem::replace(&mut waiting.is_started, true);
        drop(waiting);
        if is_first {
            self.start(perform);
        }
        self.shared.arrived.wake_one();
    }

    /// Starts workers; where the host has none to give, the requests fail.
    fn start(&self, perform: &Arc<dyn Fn(Request) + Send + Sync>) {
        for number in 0..WORKERS {
            let (shared, perform) = (Arc::clone(&self.shared), Arc::clone(perform));
            let body = Box::new(move || shared.work(&*perform));
            match self.clock.try_spawn(&format!("qcow2-{number}"), body) {
                Ok(task) => self.tasks.lock().push(task),
                Err(error) if number == 0 => {
                    let mut waiting = self.shared.waiting.lock();
                    waiting.is_started = false;
                    let requests = std::mem::take(&mut waiting.requests);
                    drop(waiting);
                    for request in requests {
                        let error = std::io::Error::new(error.kind(), error.to_string());
                        request.complete(Err(error));
                    }
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

impl Shared {
    fn work(&self, perform: &(dyn Fn(Request) + Send + Sync)) {
        self.waiting.lock().workers.push(std::thread::current().id());
        let mut raised = None;
        let next = || {
            self.arrived.wait_until(&self.waiting, |waiting| match waiting.requests.pop_front() {
                Some(request) => Some(Some(request)),
                None => waiting.is_closing.then_some(None),
            })
        };
        while let Some(request) = next() {
            raised = catch_unwind(AssertUnwindSafe(|| perform(request))).err().or(raised);
        }
        if let Some(payload) = raised {
            resume_unwind(payload);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting.lock();
        waiting.is_closing = true;
        let is_worker = waiting.workers.contains(&std::thread::current().id());
        drop(waiting);
        self.shared.arrived.wake_all();
        if is_worker {
            return;
        }
        let mut raised = None;
        for task in std::mem::take(self.tasks.get_mut()) {
            raised = catch_unwind(AssertUnwindSafe(|| task.join())).err().or(raised);
        }
        if let Some(payload) = raised.filter(|_| !std::thread::panicking()) {
            resume_unwind(payload);
        }
    }
}
