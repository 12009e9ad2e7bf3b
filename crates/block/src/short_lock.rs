//! Short locks, which are never held across a wait.
//!
//! *Invariants*: a thread's count is the number of short locks that it holds, in debug builds. A
//! panic while one was held poisons nothing: the next holder sees the data as it was left.
//!
//! *Locking*: these are the last locks of every order.
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// A mutex that counts itself per thread in debug builds, so that `park` can assert that none is
/// held.
#[derive(Default)]
pub struct ShortLock<T>(Mutex<T>);

/// Holds a short lock.
pub struct ShortGuard<'a, T> {
    value: MutexGuard<'a, T>,
    _counted: Counted,
}

impl<T> ShortLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> ShortLock<T> {
        ShortLock(Mutex::new(value))
    }
    /// Takes it.
    pub fn lock(&self) -> ShortGuard<'_, T> {
        let value = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ShortGuard { value, _counted: Counted::new() }
    }
    /// The value, when nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    /// The value without its lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
impl<T> Deref for ShortGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> DerefMut for ShortGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

thread_local! {
    static SHORT_LOCKS_HELD: Cell<u32> = const { Cell::new(0) };
}

/// One more short lock of this thread, as long as it lives. Counts in debug builds only.
struct Counted;

impl Counted {
    fn new() -> Counted {
        if cfg!(debug_assertions) {
            let _ = SHORT_LOCKS_HELD.try_with(|held| held.set(held.get() + 1));
        }
        Counted
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let _ = SHORT_LOCKS_HELD.try_with(|held| held.set(held.get() - 1));
        }
    }
}

/// In debug builds panics when the calling thread holds a short lock; every `Clock::park` calls it.
/// A thread that panics already does not panic again.
#[track_caller]
pub fn assert_no_short_lock() {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let held = SHORT_LOCKS_HELD.try_with(Cell::get).unwrap_or(0);
        assert!(held == 0, "a thread that holds {held} short lock(s) is about to wait");
    }
}
