//! Locks. *Short* locks are never held across a wait; *sleeping* locks are built on a clock and may be held across I/O.
use crate::clock::Clock;
use std::sync::Arc;

/// A short lock: a mutex that counts itself per thread in debug builds, so that `park` can assert that none is held. A panic
/// while it was held poisons nothing: the next holder sees the data as it was left.
pub struct ShortLock<T>(std::sync::Mutex<T>);

/// Holds a short lock.
pub struct ShortGuard<'a, T>(std::sync::MutexGuard<'a, T>);

impl<T> ShortLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> ShortLock<T> {
        ShortLock(std::sync::Mutex::new(value))
    }
    /// Takes it.
    pub fn lock(&self) -> ShortGuard<'_, T> {
        ShortGuard(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}
impl<T> std::ops::Deref for ShortGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> std::ops::DerefMut for ShortGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Threads that wait for something, first come first served.
pub struct WaitQueue {
    _clock: Arc<dyn Clock>,
}

impl WaitQueue {
    /// An empty queue.
    pub fn new(_clock: Arc<dyn Clock>) -> WaitQueue {
        todo!()
    }
    /// Waits until `ready` gives a value; it is asked under the short lock, before the first wait and after each wake.
    pub fn wait_until<T, R>(&self, _lock: &ShortLock<T>, _ready: impl FnMut(&mut T) -> Option<R>) -> R {
        todo!()
    }
    /// Wakes all waiters.
    pub fn wake_all(&self) {
        todo!()
    }
    /// Wakes the one that waits longest.
    pub fn wake_one(&self) {
        todo!()
    }
}

/// A sleeping lock around a value: fair, may be held across I/O.
pub struct SleepLock<T> {
    _value: std::sync::Mutex<T>,
}
/// Holds a sleeping lock.
pub struct SleepGuard<'a, T>(std::sync::MutexGuard<'a, T>);

impl<T> SleepLock<T> {
    /// A free lock.
    pub fn new(_clock: Arc<dyn Clock>, _value: T) -> SleepLock<T> {
        todo!()
    }
    /// Waits for it and takes it.
    pub fn lock(&self) -> SleepGuard<'_, T> {
        todo!()
    }
}
impl<T> std::ops::Deref for SleepGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> std::ops::DerefMut for SleepGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A sleeping lock with many readers or one writer; a waiting writer stops new readers.
pub struct SleepRwLock<T> {
    _value: std::sync::RwLock<T>,
}
/// Shared hold.
pub struct SleepReadGuard<'a, T>(std::sync::RwLockReadGuard<'a, T>);
/// Exclusive hold.
pub struct SleepWriteGuard<'a, T>(std::sync::RwLockWriteGuard<'a, T>);

impl<T> SleepRwLock<T> {
    /// A free lock.
    pub fn new(_clock: Arc<dyn Clock>, _value: T) -> SleepRwLock<T> {
        todo!()
    }
    /// Waits for and takes a shared hold.
    pub fn read(&self) -> SleepReadGuard<'_, T> {
        todo!()
    }
    /// Waits for and takes the exclusive hold.
    pub fn write(&self) -> SleepWriteGuard<'_, T> {
        todo!()
    }
}
impl<T> std::ops::Deref for SleepReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> std::ops::Deref for SleepWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> std::ops::DerefMut for SleepWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
