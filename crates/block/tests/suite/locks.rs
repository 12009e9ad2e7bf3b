//! Sleeping locks, wait queues and real time, with many threads.
use extant_block::order::assert_no_short_lock;
use extant_block::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MILLISECOND: u64 = 1_000_000;

fn clock() -> Arc<dyn Clock> {
    RealClock::new()
}

/// Runs `body` on this many threads, and waits for them.
fn on_threads(threads: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let (clock, body) = (clock(), Arc::new(body));
    let spawn = |number| {
        let body = Arc::clone(&body);
        clock.spawn("test", Box::new(move || body(number)))
    };
    let tasks: Vec<Task> = (0..threads).map(spawn).collect();
    tasks.into_iter().for_each(Task::join);
}

fn rest(clock: &Arc<dyn Clock>, nanoseconds: u64) {
    let until = clock.now() + nanoseconds;
    while clock.park(Some(until)) == Unparked::Woken {}
}

#[test]
fn a_sleeping_lock_lets_one_in_at_a_time() {
    let clock = clock();
    let lock = Arc::new(SleepLock::new(Arc::clone(&clock), 0_u64));
    let inside = Arc::new(AtomicUsize::new(0));
    let (count, inner) = (Arc::clone(&lock), Arc::clone(&inside));
    on_threads(8, move |number| {
        for turn in 0..2000 {
            let mut value = count.lock();
            assert_eq!(inner.fetch_add(1, Ordering::SeqCst), 0);
            // Not one step, so that an overlap would lose counts.
            let seen = *value;
            if (turn + number) % 100 == 0 {
                rest(&clock, 10_000);
            }
            *value = seen + 1;
            assert_eq!(inner.fetch_sub(1, Ordering::SeqCst), 1);
        }
    });
    assert_eq!(*lock.lock(), 16_000);
}

#[test]
fn readers_share_and_writers_do_not() {
    let new = || SleepRwLock::new(clock(), (0_u64, 0_u64));
    for lock in [new(), new().hurried()] {
        share(&Arc::new(lock));
    }
}

fn share(lock: &Arc<SleepRwLock<(u64, u64)>>) {
    let readers = Arc::new(AtomicUsize::new(0));
    let writers = Arc::new(AtomicUsize::new(0));
    let (pair, reading, writing) = (Arc::clone(lock), Arc::clone(&readers), Arc::clone(&writers));
    on_threads(8, move |number| {
        for turn in 0..2000 {
            if (turn + number) % 4 == 0 {
                let mut pair = pair.write();
                assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0);
                assert_eq!(reading.load(Ordering::SeqCst), 0);
                pair.0 += 1;
                std::thread::yield_now();
                pair.1 += 1;
                writing.fetch_sub(1, Ordering::SeqCst);
            } else {
                let pair = pair.read();
                reading.fetch_add(1, Ordering::SeqCst);
                assert_eq!(writing.load(Ordering::SeqCst), 0);
                assert_eq!(pair.0, pair.1);
                reading.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    assert_eq!(*lock.read(), (4000, 4000));
    assert!(lock.try_write().is_some());
}

#[test]
fn two_readers_are_inside_together() {
    let lock = SleepRwLock::new(clock(), ());
    let first = lock.read();
    let second = lock.try_read();
    assert!(second.is_some());
    assert!(lock.try_write().is_none());
    drop((first, second));
    let writer = lock.write();
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    drop(writer);
    assert!(lock.try_write().is_some());
}

/// Starts threads one after the other, each of which is certain to wait before the next comes;
/// `enter` notes when it is in.
fn order_of_entry(
    threads: usize,
    mut wait_for_arrival: impl FnMut(usize),
    enter: impl Fn(usize, &ShortLock<Vec<usize>>) + Send + Sync + 'static,
    release: impl FnOnce(),
) -> Vec<usize> {
    let clock = clock();
    let order = Arc::new(ShortLock::new(Vec::new()));
    let enter = Arc::new(enter);
    let mut tasks = Vec::new();
    for number in 0..threads {
        let (enter, order) = (Arc::clone(&enter), Arc::clone(&order));
        tasks.push(clock.spawn("waiter", Box::new(move || enter(number, &order))));
        wait_for_arrival(number);
    }
    release();
    tasks.into_iter().for_each(Task::join);
    std::mem::take(&mut *order.lock())
}

/// A clock that counts how often it parked: a thread counted here has its place in the queue.
struct CountingClock {
    real: Arc<RealClock>,
    parks: AtomicUsize,
}

impl CountingClock {
    fn new() -> Arc<CountingClock> {
        Arc::new(CountingClock { real: RealClock::new(), parks: AtomicUsize::new(0) })
    }
    fn wait_for_parks(&self, parks: usize) {
        while self.parks.load(Ordering::SeqCst) < parks {
            std::thread::yield_now();
        }
    }
}

impl Clock for CountingClock {
    fn now(&self) -> u64 {
        self.real.now()
    }
    fn wall(&self) -> WallTime {
        self.real.wall()
    }
    fn waker(&self) -> Waker {
        self.real.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.parks.fetch_add(1, Ordering::SeqCst);
        self.real.park(deadline)
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.real.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.real.charge(cpu_ns)
    }
}

#[test]
fn a_sleeping_lock_is_handed_over_in_order_of_arrival() {
    for _ in 0..20 {
        let clock = CountingClock::new();
        let lock = Arc::new(SleepLock::new(clock.clone(), ()));
        let held = lock.lock();
        let shared = Arc::clone(&lock);
        let order = order_of_entry(
            12,
            |number| clock.wait_for_parks(number + 1),
            move |number, order| {
                let _held = shared.lock();
                order.lock().push(number);
            },
            || drop(held),
        );
        assert_eq!(order, (0..12).collect::<Vec<_>>());
        assert!(lock.try_lock().is_some());
    }
}

/// One thread does `own` 200 times, while three do `others` without end.
fn beside_others(others: fn(&SleepRwLock<u64>), own: fn(&SleepRwLock<u64>)) {
    let lock = Arc::new(SleepRwLock::new(clock(), 0).hurried());
    let is_over = Arc::new(AtomicBool::new(false));
    let (shared, over) = (Arc::clone(&lock), Arc::clone(&is_over));
    on_threads(4, move |number| {
        if number > 0 {
            while !over.load(Ordering::SeqCst) {
                others(&shared);
            }
            return;
        }
        (0..200).for_each(|_| own(&shared));
        over.store(true, Ordering::SeqCst);
    });
    assert!(is_over.load(Ordering::SeqCst) && lock.try_write().is_some());
}

/// In real time threads that want the lock alone may overtake one that waits, but not for ever.
#[test]
fn others_that_take_a_hurried_lock_without_end_keep_no_thread_out() {
    let write = |lock: &SleepRwLock<u64>| *lock.write() += 1;
    let read = |lock: &SleepRwLock<u64>| drop(std::hint::black_box(lock.read()));
    for (others, own) in [(write as fn(&_), write as fn(&_)), (write, read), (read, write)] {
        beside_others(others, own);
    }
}

#[test]
fn nobody_overtakes_who_waits() {
    // The releasing thread asks again at once, many times, and may not get the lock before the one
    // that waits.
    let clock = CountingClock::new();
    let lock = Arc::new(SleepLock::new(clock.clone(), 0));
    let held = lock.lock();
    let shared = Arc::clone(&lock);
    let task = clock.spawn("waiter", Box::new(move || *shared.lock() = 1));
    clock.wait_for_parks(1);
    drop(held);
    assert_eq!(*lock.lock(), 1);
    task.join();
}

#[test]
fn a_waiting_writer_stops_new_readers_and_keeps_its_turn() {
    for _ in 0..20 {
        let clock = CountingClock::new();
        let lock = Arc::new(SleepRwLock::new(clock.clone(), ()));
        let held = lock.read();
        let shared = Arc::clone(&lock);
        // Writer 0, readers 1 and 2, writer 3, reader 4.
        let order = order_of_entry(
            5,
            |number| clock.wait_for_parks(number + 1),
            move |number, order| {
                if number % 3 == 0 {
                    let _held = shared.write();
                    order.lock().push(number);
                } else {
                    let _held = shared.read();
                    order.lock().push(number);
                }
            },
            || {
                assert!(lock.try_read().is_none(), "a reader overtook the waiting writer");
                drop(held);
            },
        );
        let positions: Vec<_> =
            (0..5).map(|number| order.iter().position(|entry| *entry == number).unwrap()).collect();
        assert_eq!((positions[0], positions[3], positions[4]), (0, 3, 4), "{order:?}");
        assert!(lock.try_write().is_some());
    }
}

#[test]
fn a_panic_inside_a_lock_poisons_nothing() {
    let (short, sleep, read_write) =
        (ShortLock::new(1), SleepLock::new(clock(), 1), SleepRwLock::new(clock(), 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let (mut sleep, mut read_write, mut short) =
            (sleep.lock(), read_write.write(), short.lock());
        (*sleep, *read_write, *short) = (2, 2, 2);
        panic!("meant");
    }));
    assert!(panicked.is_err());
    assert_no_short_lock();
    assert_eq!((*sleep.lock(), *read_write.read(), *short.lock()), (2, 2, 2));
    assert_eq!(*read_write.write(), 2);
}

#[test]
fn a_panic_inside_a_lock_wakes_the_next() {
    let clock = CountingClock::new();
    let lock = Arc::new(SleepLock::new(clock.clone(), 0));
    let held = lock.lock();
    let shared = Arc::clone(&lock);
    let task = clock.spawn("waiter", Box::new(move || *shared.lock() += 1));
    clock.wait_for_parks(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _held = held;
        panic!("meant");
    }));
    assert!(panicked.is_err());
    task.join();
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn no_wake_is_lost_between_producers_and_consumers() {
    // As many wakes as things, each for one waiter: a lost one hangs the test.
    let things = Arc::new(ShortLock::new((0_usize, 0_usize)));
    let arrived = Arc::new(WaitQueue::new(clock()));
    on_threads(8, {
        let (things, arrived) = (Arc::clone(&things), Arc::clone(&arrived));
        move |number| {
            for _ in 0..5000 {
                if number % 2 == 0 {
                    things.lock().0 += 1;
                    arrived.wake_one();
                } else {
                    arrived.wait_until(&things, |(left, taken)| {
                        *left = left.checked_sub(1)?;
                        *taken += 1;
                        Some(())
                    });
                }
            }
        }
    });
    assert_eq!(*things.lock(), (0, 20_000));
}

#[test]
fn a_wait_queue_wakes_who_waits_longest() {
    let clock = CountingClock::new();
    let queue = Arc::new(WaitQueue::new(clock.clone()));
    let tokens = Arc::new(ShortLock::new(0));
    let (waiters, taken) = (Arc::clone(&queue), Arc::clone(&tokens));
    let order = order_of_entry(
        8,
        |number| clock.wait_for_parks(number + 1),
        move |number, order| {
            waiters.wait_until(&taken, |tokens| {
                (*tokens > 0).then(|| {
                    *tokens -= 1;
                    order.lock().push(number);
                })
            });
        },
        || {
            for _ in 0..8 {
                *tokens.lock() = 1;
                queue.wake_one();
                while *tokens.lock() == 1 {
                    std::thread::yield_now();
                }
            }
        },
    );
    assert_eq!(order, (0..8).collect::<Vec<_>>());
}

#[test]
fn who_was_woken_in_vain_keeps_its_place() {
    let clock = CountingClock::new();
    let queue = Arc::new(WaitQueue::new(clock.clone()));
    let tokens = Arc::new(ShortLock::new(0));
    let (waiters, taken) = (Arc::clone(&queue), Arc::clone(&tokens));
    let order = order_of_entry(
        3,
        |number| clock.wait_for_parks(number + 1),
        move |number, order| {
            waiters.wait_until(&taken, |tokens| {
                (*tokens > 0).then(|| {
                    *tokens -= 1;
                    order.lock().push(number);
                })
            });
        },
        || {
            queue.wake_one();
            clock.wait_for_parks(4);
            for _ in 0..3 {
                *tokens.lock() = 1;
                queue.wake_one();
                while *tokens.lock() == 1 {
                    std::thread::yield_now();
                }
            }
        },
    );
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn a_wait_with_a_deadline_ends() {
    let clock = clock();
    let queue = WaitQueue::new(Arc::clone(&clock));
    let value = ShortLock::new(5);
    let started = clock.now();
    assert_eq!(queue.wait_until_deadline(&value, started + 20 * MILLISECOND, |_| None::<()>), None);
    assert!(clock.now() >= started + 20 * MILLISECOND);
    assert_eq!(
        queue.wait_until_deadline(&value, started, |value| Some(*value)),
        Some(5),
        "asked before it waits"
    );
}

/// Parks like the real clock, except with a deadline: then calls a function, and returns that the
/// time is over.
struct EndOfTime<F> {
    real: Arc<RealClock>,
    meanwhile: F,
}

impl<F: Fn() + Send + Sync> Clock for EndOfTime<F> {
    fn now(&self) -> u64 {
        self.real.now()
    }
    fn wall(&self) -> WallTime {
        self.real.wall()
    }
    fn waker(&self) -> Waker {
        self.real.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        match deadline {
            None => self.real.park(None),
            Some(_) => {
                (self.meanwhile)();
                Unparked::TimedOut
            }
        }
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.real.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.real.charge(cpu_ns)
    }
}

#[test]
fn a_wake_that_meets_a_deadline_goes_to_the_next() {
    let token = Arc::new(ShortLock::new(false));
    let counting = CountingClock::new();
    let queue_of_all: Arc<ShortLock<Option<Arc<WaitQueue>>>> = Arc::new(ShortLock::new(None));
    let waiting = Arc::new(ShortLock::new(None));
    let meanwhile = {
        let (token, counting) = (Arc::clone(&token), Arc::clone(&counting));
        let (queue_of_all, waiting) = (Arc::clone(&queue_of_all), Arc::clone(&waiting));
        move || {
            // A second thread waits after the first; then a token for the queue is announced, but
            // to the first.
            let queue = queue_of_all.lock().clone().expect("the queue is there");
            let (taken, behind, arrived) =
                (Arc::clone(&token), Arc::clone(&queue), Arc::clone(&counting));
            let wait = move || {
                let asked = AtomicUsize::new(0);
                behind.wait_until(&taken, |token| {
                    if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                        arrived.parks.fetch_add(1, Ordering::SeqCst);
                    }
                    token.then_some(())
                });
            };
            *waiting.lock() = Some(counting.spawn("second", Box::new(wait)));
            counting.wait_for_parks(1);
            // The second holds the lock until it has its place.
            *token.lock() = true;
            queue.wake_one();
        }
    };
    let queue = Arc::new(WaitQueue::new(Arc::new(EndOfTime { real: RealClock::new(), meanwhile })));
    *queue_of_all.lock() = Some(Arc::clone(&queue));
    assert_eq!(queue.wait_until_deadline(&token, 0, |_| None::<()>), None);
    let second = waiting.lock().take().expect("it was started");
    second.join();
}

#[test]
fn permits_do_not_add_up_and_are_not_lost() {
    let clock = clock();
    let waker = clock.waker();
    waker.wake();
    waker.wake();
    assert_eq!(clock.park(None), Unparked::Woken, "a wake before the park counts");
    let started = clock.now();
    assert_eq!(
        clock.park(Some(started + 5 * MILLISECOND)),
        Unparked::TimedOut,
        "two wakes are one permit"
    );
    assert!(clock.now() >= started + 5 * MILLISECOND);
    waker.wake();
    assert_eq!(
        clock.park(Some(0)),
        Unparked::Woken,
        "a permit goes before a deadline that has passed"
    );
    assert_eq!(clock.park(Some(0)), Unparked::TimedOut);
}

#[test]
fn a_waker_wakes_its_own_thread() {
    let clock = clock();
    let (mine, there) = (clock.waker(), Arc::clone(&clock));
    let woken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&woken);
    let task = clock.spawn(
        "waker",
        Box::new(move || {
            flag.store(true, Ordering::SeqCst);
            mine.wake();
            assert_eq!(there.park(Some(there.now() + MILLISECOND)), Unparked::TimedOut);
        }),
    );
    assert_eq!(clock.park(None), Unparked::Woken);
    assert!(woken.load(Ordering::SeqCst));
    task.join();
}

#[test]
fn a_task_raises_its_panic_and_bears_its_name() {
    let clock = clock();
    let task = clock.spawn(
        "flusher",
        Box::new(|| std::panic::panic_any(std::thread::current().name().map(String::from))),
    );
    let raised = catch_unwind(AssertUnwindSafe(|| task.join())).unwrap_err();
    assert_eq!(raised.downcast_ref::<Option<String>>(), Some(&Some("flusher".to_owned())));
}

#[test]
fn a_pinned_clock_knows_one_time_of_day() {
    let then = WallTime { seconds: 1_700_000_000, nanoseconds: 5 };
    let clock = RealClock::pinned(then);
    assert_eq!(clock.wall(), then);
    let before = clock.now();
    while clock.now() == before {}
    assert!(clock.now() > before);
    assert!(RealClock::new().wall().seconds > then.seconds);
}

#[cfg(debug_assertions)]
mod the_short_lock_rule {
    use super::*;

    fn breaks_the_rule(body: impl FnOnce()) -> bool {
        let raised =
            catch_unwind(AssertUnwindSafe(body)).expect_err("it waited with a short lock held");
        raised.downcast_ref::<String>().is_some_and(|message| message.contains("short lock"))
    }

    #[test]
    fn waiting_with_a_short_lock_panics() {
        let clock = clock();
        let short = ShortLock::new(());
        let held = short.lock();
        assert!(breaks_the_rule(|| {
            clock.park(Some(0));
        }));
        let sleep = SleepLock::new(Arc::clone(&clock), ());
        assert!(breaks_the_rule(|| drop(sleep.lock())), "also when the lock is free");
        let device = MemoryDevice::new(Arc::clone(&clock), 10);
        assert!(breaks_the_rule(|| drop(device.flush())));
        drop(held);
        clock.park(Some(0));
        drop(sleep.lock());
    }

    #[test]
    fn a_second_short_lock_is_counted_too() {
        let (first, second) = (ShortLock::new(()), ShortLock::new(()));
        let (held, other) = (first.lock(), second.lock());
        drop(held);
        assert!(breaks_the_rule(assert_no_short_lock));
        drop(other);
        assert_no_short_lock();
    }

    #[test]
    fn a_wait_queue_waits_without_its_lock_but_minds_the_others() {
        let clock = clock();
        let queue = WaitQueue::new(Arc::clone(&clock));
        let (waited, other) = (ShortLock::new(()), ShortLock::new(()));
        assert_eq!(queue.wait_until_deadline(&waited, 0, |()| None::<()>), None);
        let held = other.lock();
        assert!(breaks_the_rule(|| {
            queue.wait_until_deadline(&waited, 0, |()| None::<()>);
        }));
        drop(held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written where, a memory device answers like a plain array.
    #[test]
    fn a_memory_device_is_an_array(
        writes in prop::collection::vec((0_u64..300_000, 0_usize..100_000, any::<u8>()), 0..20),
    ) {
        let bytes = 300_000;
        let device = MemoryDevice::new(clock(), bytes);
        let mut model = vec![0; bytes as usize];
        for (offset, length, byte) in writes {
            let fits = offset + length as u64 <= bytes;
            prop_assert_eq!(device.write(offset, &vec![byte; length]).is_ok(), fits);
            if fits {
                model[offset as usize..][..length].fill(byte);
            }
        }
        let mut read = vec![0xee; bytes as usize];
        device.read(0, &mut read).unwrap();
        prop_assert!(read == model);
    }
}
