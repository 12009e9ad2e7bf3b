//! Virtual time: threads of which exactly one holds the baton, and events in order of time.
//!
//! Processes are ordinary threads. The one that waits runs the scheduler itself: the first of the
//! ready queue, else the earliest event by (time, sequence), until a process may go on. When that
//! is the process itself, no thread is switched.
//!
//! CPU work ([`Clock::charge`]) gathers until it fills a quantum or the process waits; then it
//! takes the processor that is free first, quantum by quantum, and virtual time passes for this
//! process while others and events go on. Until then `now` does not show it: time is the same for
//! all processes and never goes back. [`VirtualClock::settle`] lets it pass at once.
//!
//! *Invariants*: at most one process is `Running`; while events fire, none is. A process is in the
//! ready queue when it is `Ready`, and once. Only the running process has unsettled CPU work.
//! Ready processes come before events; both queues are total orders of what the processes and
//! events themselves did, so that a run is the same each time.
//!
//! *Preemption*: [`VirtualClock::preempted`] holds a process up for a while at edges (locks and
//! devices) that a seed draws, so that other processes come between; every seed is another order
//! of events. Debug builds only, as edges are.
//!
//! *Poison*: after a panic or a deadlock every waiting process is made ready once more and unwinds
//! from its wait, one after the other. What waits while it unwinds goes on in virtual time; a
//! thread that would then wait for ever is left behind.
//!
//! *Locking*: `core` is the last lock: it is never held while an event fires, and wakers may be
//! called with short locks held.
use crate::random::splitmix64;
use extant_block::edge::{self, Edge};
use extant_block::order::assert_no_short_lock;
use extant_block::{Clock, ShortLock, Task, Unparked, Waker, WallTime};
use std::any::Any;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{Builder, Thread};

mod core;
mod pin;
mod report;

use self::core::{Chosen, Core, Process, ProcessState, Step, Target};
use self::pin::Pin;
pub use self::report::{RunError, Waiting};

/// What a virtual machine is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The time of day at virtual time 0.
    pub seed_wall: WallTime,
    /// How many processes can compute at a time; 0 counts as 1.
    pub processors: u32,
    /// How long a process computes before another that waits for a processor gets its turn, in
    /// nanoseconds; 0 counts as 1.
    pub quantum_ns: u64,
}

impl Default for Settings {
    /// One processor, quanta of 100 microseconds, the first second of 2001.
    fn default() -> Settings {
        Settings {
            seed_wall: WallTime { seconds: 978_307_200, nanoseconds: 0 },
            processors: 1,
            quantum_ns: 100_000,
        }
    }
}

/// Something that happens at a time.
pub trait Event: Send + Sync {
    /// It is `now`. No process runs: this must not wait, and CPU work that it charges costs
    /// nothing.
    fn fire(self: Arc<Self>, now: u64);
}

/// Something that is to know when a process is about to wait, or has ended.
pub trait WaitWatch: Send + Sync {
    /// A process is about to wait, or has ended, at this time. Called with no lock of the clock
    /// held; this must not wait.
    fn process_waits(&self, now: u64, waits: Waits);
}

/// For what a process is about to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// The process with this number, until something happens.
    Process(u32),
    /// Until something happens or a time has come, or for nothing any more.
    Other,
}

/// What a clock has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Events fired, timers included.
    pub events: u64,
    /// Handovers of the baton from one thread to another.
    pub switches: u64,
    /// Processes started.
    pub processes: u32,
}

/// Time that passes only when every process waits.
pub struct VirtualClock {
    shared: Arc<Shared>,
}

/// No process: an event fires, or nothing runs.
const NOBODY: u32 = u32::MAX;

/// What the clock, its wakers and its threads share.
struct Shared {
    settings: Settings,
    core: ShortLock<Core>,
    /// Written under `core`.
    now: AtomicU64,
    /// The running process, or `NOBODY`. Written by who holds the baton.
    running: AtomicU32,
    /// CPU work of the running process that has not yet passed.
    unsettled: AtomicU64,
    /// The processor of the host on which the threads run.
    host_processor: AtomicUsize,
    /// Draws the edges at which processes are held up. Used by the running process alone.
    preemption: Option<AtomicU64>,
    /// Called when a process waits, in this order. Written before the first run.
    watches: ShortLock<Vec<Weak<dyn WaitWatch>>>,
    /// Whether there are any.
    is_watched: AtomicBool,
}

/// Where a thread waits for the baton.
#[derive(Default)]
struct Seat {
    /// 0, or a signal.
    signal: AtomicU8,
    thread: OnceLock<Thread>,
}

/// With what a process gets the baton.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Signal {
    unparked: Unparked,
    /// The run has ended: the process unwinds.
    poisoned: bool,
}

/// Who this thread is.
struct Current {
    shared: Arc<Shared>,
    number: u32,
    seat: Arc<Seat>,
    waker: Waker,
}

thread_local! {
    static CURRENT: OnceCell<Current> = const { OnceCell::new() };
}

/// What a process of a poisoned clock unwinds with.
struct Poisoned;

impl VirtualClock {
    /// A clock at time 0, with no process.
    pub fn new(settings: Settings) -> Arc<VirtualClock> {
        VirtualClock::with(settings, None)
    }

    /// A clock whose processes are held up now and then at their edges, by a seed.
    pub fn preempted(settings: Settings, seed: u64) -> Arc<VirtualClock> {
        VirtualClock::with(settings, Some(AtomicU64::new(seed)))
    }

    fn with(settings: Settings, preemption: Option<AtomicU64>) -> Arc<VirtualClock> {
        let shared = Shared {
            settings,
            core: ShortLock::new(Core::new(&settings)),
            now: AtomicU64::new(0),
            running: AtomicU32::new(NOBODY),
            unsettled: AtomicU64::new(0),
            watches: ShortLock::new(Vec::new()),
            is_watched: AtomicBool::new(false),
            host_processor: AtomicUsize::new(usize::MAX),
            preemption,
        };
        Arc::new(VirtualClock { shared: Arc::new(shared) })
    }

    /// Runs `body` as a process of that name, with all that were spawned before, until every
    /// process has ended; gives what `body` gave. Events that are left stay for the next run. The
    /// calling thread sleeps meanwhile.
    ///
    /// # Errors
    /// A deadlock, or a panic of any process or event; so ends every later run of this clock too.
    ///
    /// # Panics
    /// When a run of this clock is under way, or the host gives no thread.
    pub fn run<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let shared = &self.shared;
        let seat = Arc::new(Seat::of_this_thread());
        {
            let mut core = shared.core.lock();
            assert!(core.caller.is_none(), "a run of this clock is under way");
            if let Some(reason) = &core.poison {
                return Err(reason.clone());
            }
            core.caller = Some(Arc::clone(&seat));
        }
        let pin = Pin::take();
        let host_processor = pin.as_ref().map_or(usize::MAX, Pin::processor);
        shared.host_processor.store(host_processor, Ordering::Relaxed);
        let result = Arc::new(ShortLock::new(None));
        let slot = Arc::clone(&result);
        shared.start(name, Box::new(move || *slot.lock() = Some(body())));
        shared.hand_over(shared.choose());
        seat.wait();
        shared.reap();
        let poison = shared.core.lock().poison.clone();
        let value = result.lock().take();
        match (poison, value) {
            (Some(reason), _) => Err(reason),
            (None, Some(value)) => Ok(value),
            (None, None) => unreachable!("a process that did not panic has a result"),
        }
    }

    /// Has `target` fired at the time `at`, or now if that is past: with no process running, in
    /// order of time, then of the calls of this.
    pub fn schedule(&self, at: u64, target: Arc<dyn Event>) {
        self.shared.core.lock().schedule(at, Target::Event(target));
    }

    /// Has `watch` called from now on whenever a process is about to wait, as long as it exists.
    pub fn watch_waits(&self, watch: Weak<dyn WaitWatch>) {
        self.shared.watches.lock().push(watch);
        self.shared.is_watched.store(true, Ordering::Relaxed);
    }

    /// The number of the running process, in the order in which they were spawned; none in an event
    /// and outside of runs.
    pub fn process(&self) -> Option<u32> {
        Some(self.shared.running.load(Ordering::Relaxed)).filter(|number| *number != NOBODY)
    }

    /// The names of all processes so far, by their numbers.
    pub fn process_names(&self) -> Vec<String> {
        let core = self.shared.core.lock();
        core.processes.iter().map(|process| process.name.clone()).collect()
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.shared.core.lock().counters
    }

    /// Where the running process stands: `now`, and the CPU work that it has charged and that has
    /// not passed yet. What it sends to a device leaves at this time.
    pub fn local_now(&self) -> u64 {
        self.now().saturating_add(self.shared.unsettled.load(Ordering::Relaxed))
    }

    /// Lets the CPU work that the running process has charged pass, so that `now` shows it. The
    /// caller holds no short lock.
    ///
    /// # Panics
    /// To unwind the process, when the clock is poisoned.
    pub fn settle(&self) {
        assert_no_short_lock();
        if self.shared.unsettled.load(Ordering::Relaxed) > 0 {
            self.shared.as_process(|current| self.shared.settle(current));
        }
    }
}

impl Clock for VirtualClock {
    /// The same for all processes; CPU work shows when it has passed.
    fn now(&self) -> u64 {
        self.shared.now.load(Ordering::Relaxed)
    }

    fn wall(&self) -> WallTime {
        let start = self.shared.settings.seed_wall;
        let nanoseconds = u64::from(start.nanoseconds).saturating_add(self.now());
        WallTime {
            seconds: start.seconds.saturating_add_unsigned(nanoseconds / 1_000_000_000),
            nanoseconds: (nanoseconds % 1_000_000_000) as u32,
        }
    }

    fn waker(&self) -> Waker {
        self.shared.as_process(|current| current.waker.clone())
    }

    /// In the order in which processes were spawned.
    fn process_number(&self) -> u32 {
        self.process().unwrap_or(0)
    }

    fn park(&self, deadline: Option<u64>) -> Unparked {
        assert_no_short_lock();
        self.shared.as_process(|current| self.shared.park(current, deadline))
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        let number = self.shared.start(name, body);
        let shared = Arc::clone(&self.shared);
        Task::new(move || shared.join(number))
    }

    /// May be called with no short lock held: when the quantum is full, others go on. Work in
    /// events costs nothing.
    fn charge(&self, cpu_ns: u64) {
        assert_no_short_lock();
        let shared = &self.shared;
        if self.process().is_none() || std::thread::panicking() {
            return;
        }
        let unsettled = shared.unsettled.load(Ordering::Relaxed).saturating_add(cpu_ns);
        shared.unsettled.store(unsettled, Ordering::Relaxed);
        if unsettled >= shared.settings.quantum_ns.max(1) {
            shared.as_process(|current| shared.settle(current));
        }
    }
}

impl Shared {
    /// Does this as the running process.
    fn as_process<R>(&self, body: impl FnOnce(&Current) -> R) -> R {
        CURRENT.with(|current| match current.get() {
            Some(current) if std::ptr::eq(&*current.shared, self) => {
                let running = self.running.load(Ordering::Relaxed);
                assert!(running == current.number, "an event of virtual time is about to wait");
                body(current)
            }
            _ => panic!("a thread that is no process of this clock is about to wait on it"),
        })
    }

    fn park(&self, current: &Current, deadline: Option<u64>) -> Unparked {
        if self.unsettled.load(Ordering::Relaxed) > 0 {
            self.settle(current);
        }
        if self.is_watched.load(Ordering::Relaxed) {
            if std::mem::take(&mut self.core.lock().process(current.number).permit) {
                return Unparked::Woken;
            }
            self.tell_watches(match deadline {
                None => Waits::Process(current.number),
                Some(_) => Waits::Other,
            });
        }
        let mut core = self.core.lock();
        if std::mem::take(&mut core.process(current.number).permit) {
            return Unparked::Woken;
        }
        if let Some(deadline) = deadline
            && core.is_quiet_until(deadline)
            && core.poison.is_none()
        {
            self.set_now(&mut core, deadline);
            return Unparked::TimedOut;
        }
        core.park(current.number, deadline);
        drop(core);
        self.wait(current)
    }

    /// Tells those who asked that a process waits, or has ended.
    fn tell_watches(&self, waits: Waits) {
        let watches: Vec<_> = self.watches.lock().iter().filter_map(Weak::upgrade).collect();
        let now = self.now.load(Ordering::Relaxed);
        watches.iter().for_each(|watch| watch.process_waits(now, waits));
    }

    /// Lets others go on until this process is chosen again; its state says for what it waits.
    fn wait(&self, current: &Current) -> Unparked {
        let signal = match self.choose() {
            Chosen::Process(number, signal) if number == current.number => signal,
            other => {
                self.hand_over(other);
                current.seat.wait()
            }
        };
        if signal.poisoned && !std::thread::panicking() {
            self.unwind(current);
        }
        signal.unparked
    }

    #[cold]
    fn unwind(&self, current: &Current) -> ! {
        let is_deadlock = matches!(self.core.lock().poison, Some(RunError::Deadlock { .. }));
        if let (true, Some(waits_for)) = (is_deadlock, report::waiting_function()) {
            self.core.lock().explain(current.number, waits_for);
        }
        resume_unwind(Box::new(Poisoned))
    }

    /// Lets unsettled CPU work pass: at once when nothing else would happen meanwhile, else quantum
    /// by quantum.
    fn settle(&self, current: &Current) {
        let mut left = self.unsettled.swap(0, Ordering::Relaxed);
        while left > 0 && !std::thread::panicking() {
            let mut core = self.core.lock();
            let now = core.now;
            let end = now.saturating_add(left);
            let is_quiet = core.is_quiet_until(end);
            let free = core.processor();
            if is_quiet && *free <= now {
                *free = end;
                self.set_now(&mut core, end);
                return;
            }
            let slice = left.min(self.settings.quantum_ns.max(1));
            let end = now.max(*free).saturating_add(slice);
            *free = end;
            core.process(current.number).state = ProcessState::Computing;
            core.schedule(end, Target::Computed(current.number));
            drop(core);
            left -= slice;
            self.wait(current);
        }
    }

    /// The running process is at an edge: if the seed says so, it is held up for up to some hundred
    /// microseconds, as if it had computed that long.
    fn meet(&self, edge: Edge) {
        let Some(seed) = &self.preemption else { return };
        CURRENT.with(|current| {
            let Some(current) = current.get() else { return };
            if self.running.load(Ordering::Relaxed) != current.number {
                return;
            }
            let mut state = seed.load(Ordering::Relaxed);
            let draw = splitmix64(&mut state);
            seed.store(state, Ordering::Relaxed);
            let one_in = match edge {
                Edge::ShortLock => 64,
                Edge::SleepLock => 6,
                Edge::Device => 4,
            };
            if draw.is_multiple_of(one_in) {
                // Most are short: as long as a request takes at most.
                let held_up_ns = (draw >> 16) % (1 << (4 + (draw >> 8) % 14));
                self.unsettled.fetch_add(1 + held_up_ns, Ordering::Relaxed);
                self.settle(current);
            }
        });
    }

    fn set_now(&self, core: &mut Core, now: u64) {
        core.now = core.now.max(now);
        self.now.store(core.now, Ordering::Relaxed);
    }

    /// Fires events until a process may go on, which then counts as running.
    fn choose(&self) -> Chosen {
        self.running.store(NOBODY, Ordering::Relaxed);
        loop {
            let mut core = self.core.lock();
            let step = core.step();
            let now = core.now;
            self.now.store(now, Ordering::Relaxed);
            drop(core);
            match step {
                Step::Fire(event) => self.fire(event, now),
                Step::Chosen(chosen) => {
                    if let Chosen::Process(number, _) = chosen {
                        self.running.store(number, Ordering::Relaxed);
                    }
                    return chosen;
                }
            }
        }
    }

    fn fire(&self, event: Arc<dyn Event>, now: u64) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| event.fire(now))) {
            self.core.lock().poison(RunError::Panicked {
                process: "an event".to_owned(),
                message: message(&*payload),
            });
        }
    }

    /// Gives the baton to another thread: that of a process, or the one that called `run`.
    fn hand_over(&self, chosen: Chosen) {
        let mut core = self.core.lock();
        let (seat, signal) = match chosen {
            Chosen::Process(number, signal) => {
                core.counters.switches += 1;
                (Some(Arc::clone(&core.process(number).seat)), signal)
            }
            Chosen::Nobody => (core.caller.take(), Signal::WOKEN),
        };
        drop(core);
        if let Some(seat) = seat {
            seat.give(signal);
        }
    }

    /// Starts a process; it gets the baton in its turn.
    fn start(self: &Arc<Self>, name: &str, body: Box<dyn FnOnce() + Send>) -> u32 {
        let seat = Arc::new(Seat::default());
        // Held until it is known that there is a thread: a process without one would get the baton
        // and keep it.
        let mut core = self.core.lock();
        let number = core.processes.len() as u32;
        let (shared, sits) = (Arc::clone(self), Arc::clone(&seat));
        let live = move || {
            let signal = sits.wait();
            pin::stay_on(shared.host_processor.load(Ordering::Relaxed));
            shared.live(number, sits, signal, body);
        };
        // The host's names end at a zero byte, and the builder panics when there is one inside.
        let started = Builder::new().name(name.replace('\0', "?")).spawn(live);
        let handle =
            started.unwrap_or_else(|error| panic!("cannot start the thread {name}: {error}"));
        seat.sit(handle.thread().clone());
        core.admit(Process::new(name, seat, handle));
        number
    }

    /// The life of a process's thread.
    fn live(
        self: Arc<Self>,
        number: u32,
        seat: Arc<Seat>,
        signal: Signal,
        body: Box<dyn FnOnce() + Send>,
    ) {
        let shared = Arc::clone(&self);
        let waker = Waker::new(move || shared.core.lock().wake(number));
        let shared = Arc::clone(&self);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            CURRENT.with(|current| {
                let shared_here = Arc::clone(&shared);
                let current = current.get_or_init(|| Current { shared, number, seat, waker });
                if self.preemption.is_some() {
                    edge::watch(Some(Rc::new(move |edge| shared_here.meet(edge))));
                }
                if !signal.poisoned {
                    body();
                    self.settle(current);
                }
            })
        }));
        edge::watch(None);
        self.unsettled.store(0, Ordering::Relaxed);
        if self.is_watched.load(Ordering::Relaxed) {
            self.tell_watches(Waits::Other);
        }
        let mut core = self.core.lock();
        if let Err(payload) = outcome
            && !payload.is::<Poisoned>()
        {
            let process = core.process(number).name.clone();
            let message = message(&*payload);
            core.poison(RunError::Panicked { process, message });
        }
        core.end(number);
        drop(core);
        self.hand_over(self.choose());
    }

    /// Waits until that process has ended.
    fn join(&self, number: u32) {
        if self.core.lock().process(number).state == ProcessState::Ended {
            return;
        }
        self.as_process(|current| {
            loop {
                let mut core = self.core.lock();
                if core.process(number).state == ProcessState::Ended {
                    core.process(current.number).joins = None;
                    return;
                }
                core.process(number).joined_by.push(current.number);
                core.process(current.number).joins = Some(number);
                drop(core);
                self.park(current, None);
            }
        })
    }

    /// Waits for the threads of the processes that have ended, which do nothing any more.
    fn reap(&self) {
        let mut core = self.core.lock();
        let ended =
            core.processes.iter_mut().filter(|process| process.state == ProcessState::Ended);
        let threads: Vec<_> = ended.filter_map(|process| process.thread.take()).collect();
        drop(core);
        for thread in threads {
            // What it panicked is in the clock's poison.
            let _ = thread.join();
        }
    }
}

impl Signal {
    const WOKEN: Signal = Signal { unparked: Unparked::Woken, poisoned: false };

    fn to_bits(self) -> u8 {
        1 | u8::from(self.unparked == Unparked::TimedOut) << 1 | u8::from(self.poisoned) << 2
    }
    fn from_bits(bits: u8) -> Signal {
        Signal {
            unparked: if bits & 2 == 0 { Unparked::Woken } else { Unparked::TimedOut },
            poisoned: bits & 4 != 0,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the wait of the others")]
impl Seat {
    fn of_this_thread() -> Seat {
        let seat = Seat::default();
        seat.sit(std::thread::current());
        seat
    }
    fn sit(&self, thread: Thread) {
        let is_free = self.thread.set(thread).is_ok();
        assert!(is_free, "a seat has one thread");
    }
    fn give(&self, signal: Signal) {
        self.signal.store(signal.to_bits(), Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
    fn wait(&self) -> Signal {
        loop {
            match self.signal.swap(0, Ordering::Acquire) {
                0 => std::thread::park(),
                bits => return Signal::from_bits(bits),
            }
        }
    }
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = literal.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "something that is no text".to_owned())
}
