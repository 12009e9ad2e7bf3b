//! Locks. *Short* locks are never held across a wait; *sleeping* locks are built on a clock and may
//! be held across I/O.
//!
//! *Invariants*: those that wait for a sleeping lock enter in order of arrival, and while any wait
//! no other thread comes in to share it, so that readers do not keep a writer out. The thread that
//! releases it takes it on behalf of the next and then wakes that one: none overtakes. A *hurried*
//! lock does that only in virtual time. In real time every holder would wait until the next has
//! woken, and once a few threads are in line they stay there: so it is left free, the first of the
//! line is called, and until that one has waited for `overtaking_ns` (`Clock`) another thread that
//! wants the lock alone may be faster. From then on it is handed over like the others (`STRICT`).
//!
//! While any wait, `QUEUED` is set, and only a thread that has locked the line lets in those that
//! wait; while none do, entering and leaving are one change of a number. The std lock inside, which
//! holds the value, is only ever tried by who has the permit: it is never contended, and never
//! waits. A panic while a lock was held poisons nothing: the next holder sees the value as it was
//! left.
//!
//! *Locking*: sleeping lock -> the caller's short locks -> `WaitQueue::waiting` or
//! `Turnstile::line`. Wakers are called with neither of the last two held.
use crate::clock::{Clock, Unparked, Waker};
use crate::edge::{self, Edge};
use crate::order::{CountedShort, KeptRank, Rank, RankCount, assert_no_short_lock};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A short lock: a mutex that counts itself per thread in debug builds, so that `park` can assert
/// that none is held. A panic while it was held poisons nothing: the next holder sees the data as
/// it was left.
#[derive(Default)]
pub struct ShortLock<T> {
    value: Mutex<T>,
    rank: KeptRank,
}

/// Holds a short lock.
pub struct ShortGuard<'a, T> {
    value: MutexGuard<'a, T>,
    _counted: CountedShort,
    _ranked: RankCount,
}

impl<T> ShortLock<T> {
    /// A free lock without a rank.
    pub const fn new(value: T) -> ShortLock<T> {
        ShortLock { value: Mutex::new(value), rank: KeptRank::NONE }
    }
    /// A free lock with its place in the order.
    pub const fn ranked(rank: Rank, value: T) -> ShortLock<T> {
        ShortLock { value: Mutex::new(value), rank: KeptRank::of(rank) }
    }
    /// Takes it. In debug builds panics when the thread holds a lock that comes later.
    #[track_caller]
    pub fn lock(&self) -> ShortGuard<'_, T> {
        edge::meet(Edge::ShortLock);
        let ranked = RankCount::new(self.rank);
        let value = self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ShortGuard { value, _counted: CountedShort::new(), _ranked: ranked }
    }
    /// The value, when nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    /// The value without its lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
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

/// Threads that wait for something, first come first served.
///
/// Who makes the awaited thing true changes the value under its short lock and *then* wakes.
pub struct WaitQueue {
    clock: Arc<dyn Clock>,
    waiting: ShortLock<Waiting>,
}

#[derive(Default)]
struct Waiting {
    arrived: u64,
    /// By arrival: a waiter that was woken in vain goes back to its old place.
    wakers: BTreeMap<u64, Waker>,
}

impl WaitQueue {
    /// An empty queue.
    pub fn new(clock: Arc<dyn Clock>) -> WaitQueue {
        WaitQueue { clock, waiting: ShortLock::default() }
    }

    /// Waits until `ready` gives a value; it is asked under the short lock, before the first wait
    /// and after each wake.
    pub fn wait_until<T, R>(
        &self,
        lock: &ShortLock<T>,
        ready: impl FnMut(&mut T) -> Option<R>,
    ) -> R {
        match self.wait(lock, None, ready) {
            Some(value) => value,
            None => unreachable!("a wait without a deadline ends with a value"),
        }
    }

    /// The same, but gives up with `None` when `deadline` (by the clock's `now`) has passed and
    /// `ready` still gives nothing.
    pub fn wait_until_deadline<T, R>(
        &self,
        lock: &ShortLock<T>,
        deadline: u64,
        ready: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        self.wait(lock, Some(deadline), ready)
    }

    fn wait<T, R>(
        &self,
        lock: &ShortLock<T>,
        deadline: Option<u64>,
        mut ready: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut value = lock.lock();
        if let Some(answer) = ready(&mut value) {
            return Some(answer);
        }
        let place = self.join();
        loop {
            drop(value);
            let unparked = self.clock.park(deadline);
            value = lock.lock();
            if let Some(answer) = ready(&mut value) {
                return Some(answer);
            }
            // The lock is still held: who changes the value from here on finds us in the queue.
            match unparked {
                Unparked::Woken => place.stay(),
                Unparked::TimedOut => {
                    drop(value);
                    place.give_up();
                    return None;
                }
            }
        }
    }

    fn join(&self) -> Place<'_> {
        let waker = self.clock.waker();
        let mut waiting = self.waiting.lock();
        let number = waiting.arrived;
        waiting.arrived += 1;
        waiting.wakers.insert(number, waker.clone());
        Place { queue: self, number, waker }
    }

    /// Wakes all waiters.
    pub fn wake_all(&self) {
        let woken = std::mem::take(&mut self.waiting.lock().wakers);
        woken.into_values().for_each(|waker| waker.wake());
    }

    /// Wakes the one that waits longest.
    pub fn wake_one(&self) {
        let woken = self.waiting.lock().wakers.pop_first();
        if let Some((_, waker)) = woken {
            waker.wake();
        }
    }
}

/// A thread's place in a wait queue; left when dropped, also by a panic.
struct Place<'a> {
    queue: &'a WaitQueue,
    number: u64,
    waker: Waker,
}

impl Place<'_> {
    fn stay(&self) {
        let mut waiting = self.queue.waiting.lock();
        waiting.wakers.entry(self.number).or_insert_with(|| self.waker.clone());
    }
    /// Leaves without an answer: a wake that came to us meanwhile goes to the next.
    fn give_up(self) {
        let was_woken = self.queue.waiting.lock().wakers.remove(&self.number).is_none();
        if was_woken {
            self.queue.wake_one();
        }
    }
}
impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.waiting.lock().wakers.remove(&self.number);
    }
}

/// How a sleeping lock is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Shared,
    Exclusive,
}

/// Who may enter: the half of both sleeping locks that makes threads wait.
struct Turnstile {
    clock: Arc<dyn Clock>,
    /// For how long the first of the line may be overtaken: 0 for strict order of arrival.
    overtaking_ns: u64,
    /// How many share it, or [`ALONE`]; with [`QUEUED`] while any wait, and [`STRICT`] while the
    /// first of them is not to be overtaken.
    holders: AtomicU32,
    line: ShortLock<Line>,
}

/// One holds it exclusively.
const ALONE: u32 = 1 << 31;
/// Somebody waits: who comes now to share it joins the line, and who leaves looks after the line.
const QUEUED: u32 = 1 << 30;
/// The lock goes from hand to hand in the order of the line. Only set together with [`QUEUED`].
const STRICT: u32 = 1 << 29;
/// What says nothing of who is in.
const MARKS: u32 = QUEUED | STRICT;

/// Those that wait.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiter>,
    /// How many ever waited, and how many of them are in: the n-th waiter is in when `granted >=
    /// n`, and the first of the line when `granted == n - 1`.
    queued: u64,
    granted: u64,
}

struct Waiter {
    hold: Hold,
    waker: Waker,
    since: u64,
    /// It was woken to try, and has not done so yet.
    is_called: bool,
}

/// Where in the line a waiter is that looks for itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceInLine {
    Entered,
    First,
    /// It is let in by others, or has to wait until it is the first.
    Behind,
}

/// Leave to enter, given back when dropped.
struct Permit<'a> {
    turnstile: &'a Turnstile,
    hold: Hold,
}

impl Turnstile {
    fn new(clock: Arc<dyn Clock>) -> Turnstile {
        let (holders, line) = (AtomicU32::new(0), ShortLock::default());
        Turnstile { clock, overtaking_ns: 0, holders, line }
    }

    /// Enters if no thread is in the way or waits. One that wants it alone may also overtake the
    /// line, if that is not strict.
    fn try_enter(&self, hold: Hold) -> Option<Permit<'_>> {
        // A line that is not strict leaves the lock free for who comes first.
        let is_free = |holders: u32| match self.overtaking_ns {
            0 => holders == 0,
            _ => holders & !QUEUED == 0,
        };
        let taken =
            self.holders.fetch_update(Ordering::Acquire, Ordering::Relaxed, |holders| match hold {
                Hold::Shared => (holders & (ALONE | QUEUED) == 0).then(|| holders + 1),
                Hold::Exclusive => is_free(holders).then_some(holders | ALONE),
            });
        // Made only then: one that is dropped leaves.
        taken.is_ok().then(|| Permit { turnstile: self, hold })
    }

    fn enter(&self, hold: Hold) -> Permit<'_> {
        // Also when nobody is in the way: the mistake should show in every run, not only in the
        // unlucky one.
        assert_no_short_lock();
        edge::meet(Edge::SleepLock);
        match self.try_enter(hold) {
            Some(permit) => permit,
            None => self.try_for_a_moment(hold).unwrap_or_else(|| self.wait(hold)),
        }
    }

    /// Most locks are held for less time than it takes to sleep and to be woken.
    #[cold]
    fn try_for_a_moment(&self, hold: Hold) -> Option<Permit<'_>> {
        let mut permit = None;
        self.clock.comes_true_soon(&mut || {
            permit = self.try_enter(hold);
            permit.is_some() || self.is_closed_to(hold)
        });
        permit
    }

    /// Whether only those in the line can enter.
    fn is_closed_to(&self, hold: Hold) -> bool {
        let holders = self.holders.load(Ordering::Relaxed);
        match hold {
            Hold::Exclusive if self.overtaking_ns > 0 => holders & STRICT != 0,
            Hold::Shared | Hold::Exclusive => holders & QUEUED != 0,
        }
    }

    #[cold]
    fn wait(&self, hold: Hold) -> Permit<'_> {
        if let Some(number) = self.queue(hold) {
            let mut deadline = match self.overtaking_ns {
                0 => None,
                limit => Some(self.clock.now().saturating_add(limit)),
            };
            // A clock whose park panics has ended for all its threads: nobody is left to mind that
            // this place stays taken.
            loop {
                let place = self.try_from_line(number, hold);
                if place == PlaceInLine::Entered {
                    break;
                }
                // Who was overtaken just now has its turn within a moment.
                let is_free = || self.holders.load(Ordering::Relaxed) & !MARKS == 0;
                if place == PlaceInLine::First && self.clock.comes_true_soon(&mut { is_free }) {
                    continue;
                }
                if self.clock.park_for_lock(deadline) == Unparked::TimedOut {
                    deadline = None;
                }
            }
        }
        Permit { turnstile: self, hold }
    }

    /// This thread's number among those that waited; `None` when the lock became free just now and
    /// is taken.
    fn queue(&self, hold: Hold) -> Option<u64> {
        let (waker, since) = (self.clock.waker(), self.clock.now());
        let mut line = self.line.lock();
        // From here on no thread enters without the line, but one that overtakes it. Who left
        // before is seen by `take`; who leaves later sees the mark, and waits for the line.
        self.holders.fetch_or(QUEUED, Ordering::AcqRel);
        if line.waiting.is_empty() && self.take(hold) {
            self.holders.fetch_and(!MARKS, Ordering::AcqRel);
            return None;
        }
        line.waiting.push_back(Waiter { hold, waker, since, is_called: false });
        line.queued += 1;
        Some(line.queued)
    }

    /// Where the waiter with this number is now: in, if it was let in, or if it was the first of
    /// the line and could take the lock.
    fn try_from_line(&self, number: u64, hold: Hold) -> PlaceInLine {
        let mut line = self.line.lock();
        if line.granted >= number {
            return PlaceInLine::Entered;
        }
        if self.overtaking_ns == 0 || line.granted + 1 != number {
            return PlaceInLine::Behind;
        }
        if self.take(hold) {
            line.waiting.pop_front();
            line.granted += 1;
            let next = self.look_after(&mut line);
            drop(line);
            next.iter().for_each(Waker::wake);
            return PlaceInLine::Entered;
        }
        if let Some(first) = line.waiting.front_mut() {
            // Who leaves after the attempt just made finds the line locked, and calls again.
            first.is_called = false;
            self.be_strict_if_late(first.since);
        }
        PlaceInLine::First
    }

    /// From its time on the first of the line is not overtaken.
    fn be_strict_if_late(&self, since: u64) {
        if self.is_late(since) {
            self.holders.fetch_or(STRICT, Ordering::AcqRel);
        }
    }

    fn is_late(&self, since: u64) -> bool {
        self.clock.now().saturating_sub(since) >= self.overtaking_ns
    }

    /// Enters if those that are in allow it. Called with the line locked and `QUEUED` set, so that
    /// others can only leave meanwhile, or overtake.
    fn take(&self, hold: Hold) -> bool {
        let taken =
            self.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, |holders| match hold {
                Hold::Shared => (holders & ALONE == 0).then(|| holders + 1),
                Hold::Exclusive => (holders & !MARKS == 0).then_some(holders | ALONE),
            });
        taken.is_ok()
    }

    /// After someone has left, or has entered from the line: lets in those at the front that fit,
    /// or calls the first, if it may be overtaken. Who is returned is to be woken.
    fn look_after(&self, line: &mut Line) -> Vec<Waker> {
        let mut woken = Vec::new();
        let Some(first) = line.waiting.front_mut() else {
            self.holders.fetch_and(!MARKS, Ordering::AcqRel);
            return woken;
        };
        if self.overtaking_ns > 0 && self.holders.load(Ordering::Acquire) & STRICT == 0 {
            self.be_strict_if_late(first.since);
            let fits = match first.hold {
                Hold::Shared => ALONE,
                Hold::Exclusive => !MARKS,
            };
            if self.holders.load(Ordering::Acquire) & fits == 0 && !first.is_called {
                first.is_called = true;
                woken.push(first.waker.clone());
            }
            return woken;
        }
        while line.waiting.front().is_some_and(|first| self.take(first.hold)) {
            if let Some(first) = line.waiting.pop_front() {
                line.granted += 1;
                woken.push(first.waker);
            }
        }
        match line.waiting.front() {
            None => {
                self.holders.fetch_and(!MARKS, Ordering::AcqRel);
            }
            // As long as the first of the line is late.
            Some(first) if self.overtaking_ns > 0 && !self.is_late(first.since) => {
                self.holders.fetch_and(!STRICT, Ordering::AcqRel);
            }
            Some(_) => {}
        }
        woken
    }

    /// After someone has left while others wait.
    #[cold]
    fn admit(&self) {
        let mut line = self.line.lock();
        let woken = self.look_after(&mut line);
        drop(line);
        woken.iter().for_each(Waker::wake);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let holders = &self.turnstile.holders;
        let before = match self.hold {
            Hold::Shared => holders.fetch_sub(1, Ordering::AcqRel),
            Hold::Exclusive => holders.fetch_and(!ALONE, Ordering::AcqRel),
        };
        if before & QUEUED != 0 {
            self.turnstile.admit();
        }
    }
}

/// A sleeping lock around a value: no thread waits for ever, and it may be held across I/O.
pub struct SleepLock<T> {
    turnstile: Turnstile,
    rank: KeptRank,
    value: Mutex<T>,
}
/// Holds a sleeping lock.
pub struct SleepGuard<'a, T> {
    // Dropped in this order: the next holder must find the inner lock free.
    value: MutexGuard<'a, T>,
    _permit: Permit<'a>,
    _ranked: RankCount,
}

impl<T> SleepLock<T> {
    /// A free lock.
    pub fn new(clock: Arc<dyn Clock>, value: T) -> SleepLock<T> {
        SleepLock {
            turnstile: Turnstile::new(clock),
            rank: KeptRank::NONE,
            value: Mutex::new(value),
        }
    }
    /// The same, with its place in the order.
    pub fn ranked(self, rank: Rank) -> SleepLock<T> {
        SleepLock { rank: KeptRank::of(rank), ..self }
    }
    /// Waits for it and takes it.
    #[track_caller]
    pub fn lock(&self) -> SleepGuard<'_, T> {
        let ranked = RankCount::new(self.rank);
        self.guard(self.turnstile.enter(Hold::Exclusive), ranked)
    }
    /// Takes it if it is free and no thread waits.
    pub fn try_lock(&self) -> Option<SleepGuard<'_, T>> {
        let permit = self.turnstile.try_enter(Hold::Exclusive)?;
        Some(self.guard(permit, RankCount::new(self.rank)))
    }
    /// The value, when nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    fn guard<'a>(&'a self, permit: Permit<'a>, ranked: RankCount) -> SleepGuard<'a, T> {
        let value = self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        SleepGuard { value, _permit: permit, _ranked: ranked }
    }
}
impl<T> Deref for SleepGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> DerefMut for SleepGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A sleeping lock with many readers or one writer; a waiting writer stops new readers. (So a
/// thread that holds it shared must not ask for it again: a writer may have come between.)
pub struct SleepRwLock<T> {
    turnstile: Turnstile,
    rank: KeptRank,
    exclusive_holds: AtomicU64,
    value: RwLock<T>,
}
/// Shared hold.
pub struct SleepReadGuard<'a, T> {
    value: RwLockReadGuard<'a, T>,
    _permit: Permit<'a>,
    _ranked: RankCount,
}
/// Exclusive hold.
pub struct SleepWriteGuard<'a, T> {
    value: RwLockWriteGuard<'a, T>,
    _permit: Permit<'a>,
    _ranked: RankCount,
}

impl<T> SleepRwLock<T> {
    /// A free lock.
    pub fn new(clock: Arc<dyn Clock>, value: T) -> SleepRwLock<T> {
        SleepRwLock {
            turnstile: Turnstile::new(clock),
            rank: KeptRank::NONE,
            exclusive_holds: AtomicU64::new(0),
            value: RwLock::new(value),
        }
    }
    /// The same, with its place in the order.
    pub fn ranked(self, rank: Rank) -> SleepRwLock<T> {
        SleepRwLock { rank: KeptRank::of(rank), ..self }
    }
    /// The same, but in real time who waits may be overtaken for a moment: for locks that many
    /// threads take for less time than it takes to wake one.
    pub fn hurried(mut self) -> SleepRwLock<T> {
        self.turnstile.overtaking_ns = self.turnstile.clock.overtaking_ns();
        self
    }
    /// Waits for and takes a shared hold.
    pub fn read(&self) -> SleepReadGuard<'_, T> {
        let ranked = RankCount::new(self.rank);
        self.shared(self.turnstile.enter(Hold::Shared), ranked)
    }
    /// Waits for and takes the exclusive hold.
    pub fn write(&self) -> SleepWriteGuard<'_, T> {
        let ranked = RankCount::new(self.rank);
        self.exclusive(self.turnstile.enter(Hold::Exclusive), ranked)
    }
    /// Takes a shared hold if no writer holds it and nobody waits.
    pub fn try_read(&self) -> Option<SleepReadGuard<'_, T>> {
        let permit = self.turnstile.try_enter(Hold::Shared)?;
        Some(self.shared(permit, RankCount::new(self.rank)))
    }
    /// Takes the exclusive hold if the lock is free and no thread waits; with a hurried lock, if
    /// none has waited for long.
    pub fn try_write(&self) -> Option<SleepWriteGuard<'_, T>> {
        let permit = self.turnstile.try_enter(Hold::Exclusive)?;
        Some(self.exclusive(permit, RankCount::new(self.rank)))
    }
    /// The value, when nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    fn shared<'a>(&'a self, permit: Permit<'a>, ranked: RankCount) -> SleepReadGuard<'a, T> {
        let value = self.value.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        SleepReadGuard { value, _permit: permit, _ranked: ranked }
    }
    /// How often it has been held exclusively: the same number in two shared holds says that the
    /// value did not change between them.
    pub fn exclusive_holds(&self) -> u64 {
        self.exclusive_holds.load(Ordering::Relaxed)
    }
    fn exclusive<'a>(&'a self, permit: Permit<'a>, ranked: RankCount) -> SleepWriteGuard<'a, T> {
        self.exclusive_holds.fetch_add(1, Ordering::Relaxed);
        let value = self.value.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        SleepWriteGuard { value, _permit: permit, _ranked: ranked }
    }
}
impl<T> Deref for SleepReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> Deref for SleepWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> DerefMut for SleepWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
