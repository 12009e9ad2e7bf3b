//! Time and threads. The only file, with `cli`, that may know the host's clock or start a thread.
use std::sync::Arc;

/// The time of day: what inodes are stamped with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct WallTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// 0..1_000_000_000.
    pub nanoseconds: u32,
}

/// Why `park` returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unparked {
    /// Somebody woke this thread (perhaps before it parked).
    Woken,
    /// The deadline passed.
    TimedOut,
}

/// Wakes one thread: gives it one permit to leave `park`.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls this.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Arc::new(wake))
    }
    /// Wakes the thread.
    pub fn wake(&self) {
        (self.0)()
    }
}

/// A spawned thread, to be joined.
pub struct Task {
    // the helper fills this in
}

impl Task {
    /// Waits until the thread has ended. A panic in it is raised here.
    pub fn join(self) {
        todo!()
    }
}

/// The only way to wait or to know the time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the clock started.
    fn now(&self) -> u64;
    /// The time of day.
    fn wall(&self) -> WallTime;
    /// What wakes the calling thread.
    fn waker(&self) -> Waker;
    /// Waits for a permit, or until `deadline` (by `now`). Permits do not add up. In debug builds asserts that the thread
    /// holds no short lock.
    fn park(&self, deadline: Option<u64>) -> Unparked;
    /// Starts a thread of that name.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task;
    /// Says that so many nanoseconds of CPU work were done: virtual time passes, real time does not care.
    fn charge(&self, cpu_ns: u64);
}

/// The host's time and threads. Can be pinned to a fixed wall time, for images that must not know when they were made.
pub struct RealClock {
    // the helper fills this in
}

impl RealClock {
    /// The host's clock.
    pub fn new() -> Arc<RealClock> {
        todo!()
    }
    /// The host's clock for waiting; `wall` always answers this.
    pub fn pinned(_wall: WallTime) -> Arc<RealClock> {
        todo!()
    }
}
