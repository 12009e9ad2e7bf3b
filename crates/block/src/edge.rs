//! Edges: the places where a thread touches what threads share, and where a clock that chooses the
//! order of threads by a seed may let others go first. Debug builds only: elsewhere nothing is
//! called.
//!
//! It is here because locks and devices are; who watches is in `sim`.
//!
//! *Invariants*: the watcher of a thread is called with no short lock held, never from within
//! itself and never while the thread panics.
//!
//! *Locking*: none; all of it belongs to one thread.
use crate::order::holds_short_lock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a thread is about to touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// A short lock: caches, counters, lists.
    ShortLock,
    /// A sleeping lock: inodes, sweeps, handles.
    SleepLock,
    /// A device, by a request that the thread waits for.
    Device,
}

/// What is called at the edges of a thread.
pub type Watcher = Rc<dyn Fn(Edge)>;

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Whether there is a watcher: hardly a thread has one.
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Has this called at each edge of the calling thread; `None` ends that.
pub fn watch(watcher: Option<Watcher>) {
    IS_WATCHED.set(watcher.is_some());
    WATCHER.with(|current| *current.borrow_mut() = watcher);
}

/// The thread is at an edge.
pub(crate) fn meet(edge: Edge) {
    if !cfg!(debug_assertions)
        || !IS_WATCHED.get()
        || std::thread::panicking()
        || holds_short_lock()
    {
        return;
    }
    let Ok(Some(watcher)) = WATCHER.try_with(|watcher| watcher.borrow().clone()) else { return };
    if INSIDE.replace(true) {
        return;
    }
    let _left = Leaving;
    watcher(edge);
}

/// The watcher is left when this is dropped, also by a panic.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}
