//! A clock that says when a worker is about to wait, before it does.
//!
//! *Invariants*: a thread is announced only between [`serving`] and the end of what that returns,
//! and only by waits of this clock.
//!
//! *Locking*: none; what is announced belongs to one thread.
use extant_block::{Clock, Task, Unparked, Waker, WallTime};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

thread_local! {
    static ANNOUNCE: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
    static IS_SERVING: Cell<bool> = const { Cell::new(false) };
}

/// Another clock, whose waits are announced.
pub(super) struct AnnouncingClock(Arc<dyn Clock>);

impl AnnouncingClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> AnnouncingClock {
        AnnouncingClock(clock)
    }
}

/// What is called, on the calling thread, before it waits while it serves a request.
pub(super) fn announce_by(announce: impl Fn() + 'static) {
    ANNOUNCE.with(|slot| slot.replace(Some(Box::new(announce))));
}

/// The calling thread serves a request until this is dropped.
pub(super) fn serving() -> Serving {
    IS_SERVING.set(true);
    Serving
}

/// A thread's time with a request.
pub(super) struct Serving;

impl Drop for Serving {
    fn drop(&mut self) {
        IS_SERVING.set(false);
    }
}

impl Clock for AnnouncingClock {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn wall(&self) -> WallTime {
        self.0.wall()
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }

    fn park(&self, deadline: Option<u64>) -> Unparked {
        if IS_SERVING.get() {
            ANNOUNCE.with_borrow(|announce| announce.iter().for_each(|announce| announce()));
        }
        self.0.park(deadline)
    }

    fn park_for_lock(&self, deadline: Option<u64>) -> Unparked {
        self.0.park_for_lock(deadline)
    }

    fn overtaking_ns(&self) -> u64 {
        self.0.overtaking_ns()
    }

    fn comes_true_soon(&self, is_true: &mut dyn FnMut() -> bool) -> bool {
        self.0.comes_true_soon(is_true)
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.0.spawn(name, body)
    }

    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Task> {
        self.0.try_spawn(name, body)
    }

    fn charge(&self, cpu_ns: u64) {
        self.0.charge(cpu_ns);
    }
}
