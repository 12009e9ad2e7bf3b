//! Time and threads. The only file, with `cli`, that may know the host's clock or start a thread.
//!
//! *Invariants*: a thread has at most one permit; `wake` before `park` is never lost; `park` may
//! return `Woken` for a wake that was meant for an earlier wait, so whoever parks does so in a loop
//! around its condition.
//!
//! *Locking*: none here. `park` and `Task::join` assert in debug builds that the caller holds no
//! short lock.
use crate::order::assert_no_short_lock;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

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
    /// A waker that calls this. It must not block, and takes no lock that is held across a call of
    /// a [`Clock`].
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Arc::new(wake))
    }
    /// Wakes the thread.
    pub fn wake(&self) {
        (self.0)()
    }
}

/// A spawned thread, to be joined. Dropping it leaves the thread to itself.
#[must_use = "a thread that nobody joins may outlive what it works on"]
pub struct Task {
    join: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// A task that is joined by calling this, which waits until the thread has ended and raises the
    /// thread's panic. For implementations of [`Clock`].
    pub fn new(join: impl FnOnce() + Send + 'static) -> Task {
        Task { join: Box::new(join) }
    }
    /// Waits until the thread has ended. A panic in it is raised here.
    pub fn join(self) {
        assert_no_short_lock();
        (self.join)()
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
    /// Waits for a permit, or until `deadline` (by `now`). Permits do not add up. In debug builds
    /// asserts that the thread holds no short lock (every implementation calls
    /// [`assert_no_short_lock`]).
    fn park(&self, deadline: Option<u64>) -> Unparked;
    /// As `park`, for a thread that waits for a lock, which is mostly held for a short time.
    fn park_for_lock(&self, deadline: Option<u64>) -> Unparked {
        self.park(deadline)
    }
    /// Whether something comes true within a moment: less time than it takes to put a thread to
    /// sleep and to wake it. In virtual time nothing happens while a thread runs, so the answer is
    /// `false` at once, and so it is for clocks that do not say more.
    fn comes_true_soon(&self, is_true: &mut dyn FnMut() -> bool) -> bool {
        let _ = is_true;
        false
    }
    /// For how many nanoseconds others may overtake a thread that waits for a lock. 0: never, so
    /// that the order of events follows from the order of arrival alone.
    fn overtaking_ns(&self) -> u64 {
        0
    }
    /// A number for the calling process, where policies of old systems ask for one. 0 where nothing
    /// may depend on it, as with the host's clock: one input gives one volume.
    fn process_number(&self) -> u32 {
        0
    }
    /// Starts a thread of that name. Panics when the host gives no thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task;
    /// As `spawn`, where the host may give no thread, and that is to be said.
    ///
    /// # Errors
    /// Those of the host. A clock without a host's threads always has one to give.
    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Task> {
        Ok(self.spawn(name, body))
    }
    /// Says that so many nanoseconds of CPU work were done: virtual time passes, real time does not
    /// care.
    fn charge(&self, cpu_ns: u64);
}

/// The host's time and threads. Can be pinned to a fixed wall time, for images that must not know
/// when they were made.
pub struct RealClock {
    started: Instant,
    pinned: Option<WallTime>,
    /// Whether another processor can make something true while this one looks.
    has_others: bool,
}

/// Nanoseconds that are a moment.
const MOMENT_NS: u64 = 10_000;
/// Nanoseconds after which a thread that waits for a lock is not overtaken any more.
const OVERTAKING_NS: u64 = 1_000_000;
/// Looks between two questions for the time.
const LOOKS: u32 = 16;

impl RealClock {
    /// The host's clock.
    pub fn new() -> Arc<RealClock> {
        RealClock::start(None)
    }
    /// The host's clock for waiting; `wall` always answers this.
    pub fn pinned(wall: WallTime) -> Arc<RealClock> {
        RealClock::start(Some(wall))
    }
    #[allow(clippy::disallowed_methods, reason = "this is the clock of the others")]
    fn start(pinned: Option<WallTime>) -> Arc<RealClock> {
        let has_others = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Arc::new(RealClock { started: Instant::now(), pinned, has_others })
    }
}

impl Clock for RealClock {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock of the others")]
    fn wall(&self) -> WallTime {
        self.pinned.unwrap_or_else(coarse_time)
    }

    fn waker(&self) -> Waker {
        PARKER.with(|parker| parker.waker.clone())
    }

    fn park(&self, deadline: Option<u64>) -> Unparked {
        assert_no_short_lock();
        PARKER.with(|parker| {
            loop {
                if parker.permit.swap(false, Ordering::Acquire) {
                    return Unparked::Woken;
                }
                let Some(deadline) = deadline else {
                    host_park(None);
                    continue;
                };
                let now = self.now();
                if now >= deadline {
                    return Unparked::TimedOut;
                }
                host_park(Some(Duration::from_nanos(deadline - now)));
            }
        })
    }

    fn overtaking_ns(&self) -> u64 {
        OVERTAKING_NS
    }

    fn comes_true_soon(&self, is_true: &mut dyn FnMut() -> bool) -> bool {
        if !self.has_others {
            return false;
        }
        let end = self.now().saturating_add(MOMENT_NS);
        loop {
            for _ in 0..LOOKS {
                if is_true() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.now() >= end {
                return false;
            }
        }
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.try_spawn(name, body).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Task> {
        // The host's names end at a zero byte, and the builder panics when there is one inside.
        let handle = Builder::new().name(name.replace('\0', "?")).spawn(body).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start the thread {name}: {error}"))
        })?;
        Ok(Task::new(move || {
            if let Err(payload) = handle.join() {
                resume_unwind(payload);
            }
        }))
    }

    fn charge(&self, _cpu_ns: u64) {}
}

/// The permit of one thread. All real clocks share it: a thread parks on one of them at a time.
struct Parker {
    permit: Arc<AtomicBool>,
    waker: Waker,
}

thread_local! {
    static PARKER: Parker = Parker::of(std::thread::current());
}

impl Parker {
    fn of(thread: Thread) -> Parker {
        let permit = Arc::new(AtomicBool::new(false));
        let given = Arc::clone(&permit);
        let waker = Waker::new(move || {
            // Whoever set the permit first also unparks: the thread looks at the permit whenever it
            // is unparked.
            if !given.swap(true, Ordering::AcqRel) {
                thread.unpark();
            }
        });
        Parker { permit, waker }
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the wait of the others")]
fn host_park(limit: Option<Duration>) {
    match limit {
        None => std::thread::park(),
        Some(limit) => std::thread::park_timeout(limit),
    }
}

/// The time that files are stamped with, as the kernel stamps them: that of the last tick. The
/// exact time would run ahead of `time()`, which tells the tick's, by some milliseconds: enough for
/// e2fsck to find a volume that was written in the future.
fn coarse_time() -> WallTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    WallTime { seconds: time.tv_sec, nanoseconds: u32::try_from(time.tv_nsec).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_never_run_ahead_of_the_host() {
        for _ in 0..1000 {
            let stamp = RealClock::new().wall();
            let exact = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            assert!((stamp.seconds, i64::from(stamp.nanoseconds)) <= (exact.tv_sec, exact.tv_nsec));
            assert!(exact.tv_sec - stamp.seconds <= 1, "and hardly behind it");
        }
    }
}
