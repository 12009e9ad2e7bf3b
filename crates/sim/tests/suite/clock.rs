//! Virtual time: order, timers, wakes, CPU work, locks, deadlocks and panics.
use extant_block::*;
use extant_sim::clock::{Event, RunError, Settings, VirtualClock};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const US: u64 = 1000;

fn clock_of(processors: u32) -> Arc<VirtualClock> {
    VirtualClock::new(Settings { processors, ..Settings::default() })
}

fn clock() -> Arc<VirtualClock> {
    clock_of(1)
}

/// The clock as locks want it.
fn seam(clock: &Arc<VirtualClock>) -> Arc<dyn Clock> {
    Arc::clone(clock) as Arc<dyn Clock>
}

/// Waits until that time, whoever wakes.
fn rest_until(clock: &VirtualClock, time: u64) {
    while clock.park(Some(time)) == Unparked::Woken {}
}

/// What happened, in the order in which it did.
type Log<T> = Arc<ShortLock<Vec<T>>>;

fn log<T>() -> Log<T> {
    Arc::new(ShortLock::new(Vec::new()))
}

fn take<T>(log: &Log<T>) -> Vec<T> {
    std::mem::take(&mut log.lock())
}

/// An event that does something once.
struct Once<F>(ShortLock<Option<F>>);

fn once<F: FnOnce(u64) + Send + 'static>(action: F) -> Arc<dyn Event> {
    Arc::new(Once(ShortLock::new(Some(action))))
}

impl<F: FnOnce(u64) + Send + 'static> Event for Once<F> {
    fn fire(self: Arc<Self>, now: u64) {
        let action = self.0.lock().take().expect("it fires once");
        action(now);
    }
}

fn spawn(clock: &Arc<VirtualClock>, name: &str, body: impl FnOnce() + Send + 'static) -> Task {
    clock.spawn(name, Box::new(body))
}

#[test]
fn a_run_gives_what_its_body_gave_after_all_have_ended() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let ended = Arc::new(AtomicBool::new(false));
    let said = Arc::clone(&ended);
    let answer = clock.run("first", move || {
        let inside = Arc::clone(&inner);
        let background = spawn(&inner, "background", move || {
            rest_until(&inside, 5_000_000);
            said.store(true, Ordering::Relaxed);
        });
        drop(background);
        (inner.process(), 42)
    });
    assert_eq!(answer, Ok((Some(0), 42)));
    assert!(ended.load(Ordering::Relaxed), "a run ends when all have ended");
    assert_eq!((clock.now(), clock.process()), (5_000_000, None));
    assert_eq!(clock.process_names(), ["first", "background"]);
    // And another run goes on from there.
    let inner = Arc::clone(&clock);
    assert_eq!(clock.run("second", move || inner.now()), Ok(5_000_000));
    assert_eq!(clock.counters().processes, 3);
}

#[test]
fn wall_time_goes_with_virtual_time() {
    let seed_wall = WallTime { seconds: 1_000, nanoseconds: 999_999_999 };
    let clock = VirtualClock::new(Settings { seed_wall, ..Settings::default() });
    assert_eq!(clock.wall(), seed_wall);
    let inner = Arc::clone(&clock);
    clock.run("first", move || rest_until(&inner, 3_000_000_001)).unwrap();
    let expected = WallTime { seconds: 1_004, nanoseconds: 0 };
    assert_eq!(clock.wall(), expected);
}

#[test]
fn events_fire_in_order_of_time_and_then_of_scheduling() {
    let (clock, fired) = (clock(), log());
    let times = [50, 10, 10, 30, 10, 0, 50];
    for (index, at) in times.into_iter().enumerate() {
        let (fired, inside) = (Arc::clone(&fired), Arc::clone(&clock));
        let action = move |now| {
            assert_eq!((inside.process(), inside.now(), inside.local_now()), (None, now, now));
            fired.lock().push((now, index));
        };
        clock.schedule(at, once(action));
    }
    let inner = Arc::clone(&clock);
    clock.run("first", move || rest_until(&inner, 40)).unwrap();
    assert_eq!(take(&fired), [(0, 5), (10, 1), (10, 2), (10, 4), (30, 3)]);
    // What is left stays for the next run; what is past fires now.
    let late = Arc::clone(&fired);
    clock.schedule(7, once(move |now| late.lock().push((now, 99))));
    let inner = Arc::clone(&clock);
    clock.run("second", move || rest_until(&inner, 60)).unwrap();
    assert_eq!(take(&fired), [(40, 99), (50, 0), (50, 6)]);
}

#[test]
fn a_wake_before_the_wait_is_not_lost_and_two_are_one() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    clock
        .run("first", move || {
            let waker = inner.waker();
            waker.wake();
            waker.wake();
            assert_eq!(inner.park(None), Unparked::Woken);
            assert_eq!(inner.park(Some(10)), Unparked::TimedOut);
            assert_eq!(inner.now(), 10);
            // From an event, while it waits and before.
            let wakes = waker.clone();
            inner.schedule(20, once(move |_| wakes.wake()));
            assert_eq!(inner.park(Some(30)), Unparked::Woken);
            assert_eq!(inner.now(), 20);
            inner.schedule(25, once(move |_| waker.wake()));
            inner.settle();
            assert_eq!(inner.park(None), Unparked::Woken);
            assert_eq!(inner.now(), 25);
            // The timer of a wait that is over disturbs nobody.
            assert_eq!(inner.park(Some(100)), Unparked::TimedOut);
            assert_eq!(inner.now(), 100);
        })
        .unwrap();
}

#[test]
fn deadlines_that_are_past_let_others_go_first() {
    let (clock, order) = (clock(), log());
    let (inner, said) = (Arc::clone(&clock), Arc::clone(&order));
    clock
        .run("first", move || {
            rest_until(&inner, 1000);
            let other = Arc::clone(&said);
            let task = spawn(&inner, "other", move || other.lock().push("other"));
            assert_eq!(inner.park(Some(5)), Unparked::TimedOut);
            assert_eq!(inner.now(), 1000);
            said.lock().push("first");
            task.join();
        })
        .unwrap();
    assert_eq!(take(&order), ["other", "first"]);
}

/// Eight processes that wait, wake, compute, lock and spawn, as a seed says; what they did, in
/// order.
fn busy_run(seed: u64, processors: u32) -> (Vec<(u64, u32, u64)>, u64, u64) {
    let (clock, done) = (clock_of(processors), log());
    let (inner, said) = (Arc::clone(&clock), Arc::clone(&done));
    let outcome = clock.run("first", move || {
        let lock = Arc::new(SleepLock::new(seam(&inner), 0_u64));
        let wakers: Log<Waker> = log();
        let body = |number: u64| {
            let (clock, said, lock) = (Arc::clone(&inner), Arc::clone(&said), Arc::clone(&lock));
            let wakers = Arc::clone(&wakers);
            move || {
                wakers.lock().push(clock.waker());
                let mut state = seed ^ (number << 32);
                for _ in 0..100 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number);
                    let chance = state >> 40;
                    match chance % 5 {
                        0 => clock.charge(chance % 300_000),
                        1 => rest_until(&clock, clock.now() + chance % 1000 * US),
                        2 => {
                            let mut turns = lock.lock();
                            clock.park(Some(clock.now() + chance % 50 * US));
                            *turns += 1;
                        }
                        3 => {
                            let known = wakers.lock().clone();
                            let waker = known[(chance % 8) as usize % known.len()].clone();
                            waker.wake();
                        }
                        _ => spawn(&clock, "child", || ()).join(),
                    }
                    let process = clock.process().expect("a process runs");
                    said.lock().push((clock.now(), process, chance));
                }
            }
        };
        let tasks: Vec<Task> = (0..8).map(|number| spawn(&inner, "worker", body(number))).collect();
        tasks.into_iter().for_each(Task::join);
    });
    outcome.unwrap();
    (take(&done), clock.now(), clock.counters().events)
}

#[test]
fn a_run_is_the_same_every_time() {
    for processors in [1, 3] {
        let first = busy_run(7, processors);
        assert_eq!(first.0.len(), 800);
        for _ in 0..20 {
            assert!(busy_run(7, processors) == first);
        }
        assert!(busy_run(8, processors) != first, "another seed is another run");
    }
}

#[test]
fn a_run_is_the_same_on_a_loaded_machine() {
    let first = busy_run(11, 2);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..3 {
            assert!(busy_run(11, 2) == first);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_deadlock_is_reported_by_name_and_leaves_nobody() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let unwound = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unwound);
    let outcome = clock.run("builder", move || {
        let lock = Arc::new(SleepLock::new(seam(&inner), ()));
        let held = lock.lock();
        for name in ["flusher", "reader"] {
            let (inside, lock, count) = (Arc::clone(&inner), Arc::clone(&lock), Arc::clone(&count));
            drop(spawn(&inner, name, move || {
                let _counts = CountsWhenDropped(count);
                rest_until(&inside, 1000);
                wait_for_the_lock(&lock);
            }));
        }
        let inside = Arc::clone(&inner);
        let task = spawn(&inner, "sleeper", move || {
            inside.park(None);
        });
        task.join();
        drop(held);
    });
    let Err(RunError::Deadlock { processes }) = &outcome else {
        panic!("{outcome:?}");
    };
    let names: Vec<_> = processes.iter().map(|waiting| waiting.process.as_str()).collect();
    assert_eq!(names, ["builder", "flusher", "reader", "sleeper"]);
    assert_eq!(processes[0].waits_for, "the end of sleeper");
    let place = "a wake in wait_for_the_lock at suite/clock.rs:";
    assert!(processes[1].waits_for.starts_with(place), "{processes:?}");
    assert!(
        processes[3].waits_for.starts_with("a wake in a closure at suite/clock.rs:"),
        "{processes:?}"
    );
    let line = outcome.unwrap_err().to_string();
    assert!(
        line.starts_with(
            "deadlock: builder waits for the end of sleeper, flusher waits for a wake in "
        ),
        "{line}"
    );
    assert!(!line.contains('\n'));
    assert_eq!(unwound.load(Ordering::Relaxed), 2, "all have unwound");
    assert!(clock.run("again", || ()).is_err(), "a clock that ended badly has ended");
}

#[inline(never)]
fn wait_for_the_lock(lock: &SleepLock<()>) {
    let _held = lock.lock();
}

struct CountsWhenDropped(Arc<AtomicUsize>);

impl Drop for CountsWhenDropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_ends_all_and_is_told() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let unwound = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unwound);
    let outcome = clock.run("first", move || {
        for _ in 0..5 {
            let (inside, counts) = (Arc::clone(&inner), CountsWhenDropped(Arc::clone(&count)));
            drop(spawn(&inner, "waiting", move || {
                let _counts = counts;
                inside.park(None);
            }));
        }
        let inside = Arc::clone(&inner);
        let bad = spawn(&inner, "bad", move || {
            rest_until(&inside, 1000);
            let counts = CountsWhenDropped(Arc::clone(&count));
            drop(spawn(&inside, "unborn", move || {
                let _counts = counts;
                unreachable!("it never begins");
            }));
            panic!("meant {}", 1);
        });
        bad.join();
        unreachable!("the panic is raised in who joins");
    });
    let expected = RunError::Panicked { process: "bad".to_owned(), message: "meant 1".to_owned() };
    assert_eq!(outcome, Err::<(), _>(expected));
    assert_eq!(outcome.unwrap_err().to_string(), "bad panicked: meant 1");
    assert_eq!(unwound.load(Ordering::Relaxed), 6);
}

#[test]
fn a_panic_in_an_event_is_told() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    clock.schedule(5, once(|_| panic!("meant")));
    let outcome = clock.run("first", move || inner.park(None));
    assert_eq!(outcome.unwrap_err().to_string(), "an event panicked: meant");
}

#[test]
fn an_event_that_waits_is_told() {
    let clock = clock();
    let (inner, inside) = (Arc::clone(&clock), Arc::clone(&clock));
    clock.schedule(5, once(move |_| assert_eq!(inside.park(None), Unparked::Woken)));
    let error = clock.run("first", move || inner.park(None)).unwrap_err().to_string();
    assert_eq!(error, "an event panicked: an event of virtual time is about to wait");
}

/// Waits while it is dropped.
struct WaitsWhenDropped(Arc<VirtualClock>, u64);

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        if self.1 == 0 {
            loop {
                self.0.park(None);
            }
        }
        rest_until(&self.0, self.0.now() + self.1);
    }
}

#[test]
fn what_unwinds_may_still_wait() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let outcome = clock.run("first", move || {
        let waits = WaitsWhenDropped(Arc::clone(&inner), 500);
        drop(spawn(&inner, "bad", || panic!("meant")));
        inner.park(None);
        drop(waits);
    });
    assert_eq!(outcome.unwrap_err().to_string(), "bad panicked: meant");
    assert_eq!(clock.now(), 500);
}

#[test]
fn what_unwinds_and_waits_for_ever_is_left_behind() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let outcome = clock.run("first", move || {
        let waits = WaitsWhenDropped(Arc::clone(&inner), 0);
        inner.park(None);
        drop(waits);
    });
    assert!(matches!(outcome, Err(RunError::Deadlock { .. })), "{outcome:?}");
}

#[test]
fn strangers_and_second_runs_are_refused() {
    let clock = clock();
    assert!(catch_unwind(AssertUnwindSafe(|| clock.park(Some(5)))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| clock.waker())).is_err());
    let (inner, other) = (Arc::clone(&clock), clock_of(1));
    let nested = clock.run("first", move || {
        assert!(catch_unwind(AssertUnwindSafe(|| inner.run("second", || ()))).is_err());
        // Another clock is another world.
        assert!(catch_unwind(AssertUnwindSafe(|| other.park(Some(5)))).is_err());
        let inside = Arc::clone(&other);
        other.run("elsewhere", move || {
            rest_until(&inside, 70);
            inside.now()
        })
    });
    assert_eq!(nested, Ok(Ok(70)));
    assert_eq!(clock.now(), 0);
}

/// When each of some processes, started together, has done its CPU work.
fn computing(processors: u32, works: &[u64]) -> Vec<u64> {
    let (clock, ends) = (clock_of(processors), log());
    let (inner, said, works) = (Arc::clone(&clock), Arc::clone(&ends), works.to_vec());
    clock
        .run("first", move || {
            let tasks = works.into_iter().enumerate().map(|(index, work)| {
                let (clock, said) = (Arc::clone(&inner), Arc::clone(&said));
                spawn(&inner, "computing", move || {
                    clock.charge(work);
                    clock.settle();
                    said.lock().push((index, clock.now()));
                })
            });
            tasks.collect::<Vec<_>>().into_iter().for_each(Task::join);
        })
        .unwrap();
    let mut ends = take(&ends);
    ends.sort_unstable();
    ends.into_iter().map(|(_, end)| end).collect()
}

#[test]
fn processors_are_shared_by_quanta() {
    assert_eq!(computing(1, &[250 * US]), [250 * US]);
    assert_eq!(computing(2, &[250 * US, 250 * US]), [250 * US, 250 * US]);
    // 100, 100, 100, 100, 50, 50: in turn.
    assert_eq!(computing(1, &[250 * US, 250 * US]), [450 * US, 500 * US]);
    // A short one waits for a quantum, not for a whole work.
    assert_eq!(computing(1, &[10_000 * US, 50 * US]), [10_050 * US, 150 * US]);
    assert_eq!(computing(2, &[300 * US, 300 * US, 300 * US]), [400 * US, 400 * US, 500 * US]);
    assert_eq!(computing(0, &[7, 8]), [7, 15], "there is at least one processor");
}

#[test]
fn cpu_work_shows_when_it_has_passed_and_events_go_on_meanwhile() {
    let (clock, fired) = (clock(), log());
    let (inner, said) = (Arc::clone(&clock), Arc::clone(&fired));
    clock
        .run("first", move || {
            inner.charge(30 * US);
            inner.charge(30 * US);
            assert_eq!((inner.now(), inner.local_now()), (0, 60 * US));
            inner.charge(40 * US);
            assert_eq!(
                (inner.now(), inner.local_now()),
                (100 * US, 100 * US),
                "the quantum is full"
            );
            inner.charge(20 * US);
            inner.park(Some(0));
            assert_eq!(inner.now(), 120 * US, "a wait comes after the work");
            for at in [130 * US, 170 * US] {
                let said = Arc::clone(&said);
                inner.schedule(at, once(move |now| said.lock().push(now)));
            }
            inner.charge(1000 * US);
            assert_eq!(inner.now(), 1120 * US);
            inner.charge(5 * US);
        })
        .unwrap();
    assert_eq!(take(&fired), [130 * US, 170 * US]);
    assert_eq!(clock.now(), 1125 * US, "what is left passes before the end");
}

#[test]
fn a_wake_does_not_cut_cpu_work_short() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    clock
        .run("first", move || {
            let waker = inner.waker();
            inner.schedule(50 * US, once(move |_| waker.wake()));
            inner.charge(300 * US);
            assert_eq!(inner.now(), 300 * US);
            assert_eq!(inner.park(None), Unparked::Woken, "and is not lost");
        })
        .unwrap();
}

#[test]
fn queues_and_locks_wait_in_virtual_time() {
    let (clock, order) = (clock(), log());
    let (inner, said) = (Arc::clone(&clock), Arc::clone(&order));
    clock
        .run("first", move || {
            let value = Arc::new(SleepRwLock::new(seam(&inner), 0));
            let arrived = Arc::new((ShortLock::new(0), WaitQueue::new(seam(&inner))));
            let mut tasks = Vec::new();
            for number in 0..6_u64 {
                let (clock, value, said) =
                    (Arc::clone(&inner), Arc::clone(&value), Arc::clone(&said));
                let arrived = Arc::clone(&arrived);
                tasks.push(spawn(&inner, "user", move || {
                    rest_until(&clock, number);
                    if number % 3 == 0 {
                        let mut held = value.write();
                        rest_until(&clock, clock.now() + 100);
                        *held += 1;
                    } else {
                        let held = value.read();
                        rest_until(&clock, clock.now() + 10);
                        assert_eq!(*held, if number < 3 { 1 } else { 2 });
                    }
                    said.lock().push((clock.now(), number));
                    *arrived.0.lock() += 1;
                    arrived.1.wake_one();
                }));
            }
            arrived.1.wait_until(&arrived.0, |count| (*count == 6).then_some(()));
            let nothing =
                arrived.1.wait_until_deadline(&arrived.0, 1000, |count| (*count > 6).then_some(()));
            assert_eq!((nothing, inner.now()), (None, 1000));
            tasks.into_iter().for_each(Task::join);
        })
        .unwrap();
    assert_eq!(take(&order), [(100, 0), (110, 1), (110, 2), (210, 3), (220, 4), (220, 5)]);
}

#[test]
fn joining_waits_for_the_end_and_works_afterwards_and_outside() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    let outside = spawn(&clock, "early", || ());
    let late = clock
        .run("first", move || {
            let inside = Arc::clone(&inner);
            let task = spawn(&inner, "slow", move || rest_until(&inside, 700));
            task.join();
            assert_eq!(inner.now(), 700);
            let done = spawn(&inner, "quick", || ());
            rest_until(&inner, 800);
            done.join();
            assert_eq!(inner.now(), 800);
            spawn(&inner, "late", || ())
        })
        .unwrap();
    outside.join();
    late.join();
    assert_eq!(clock.process_names(), ["early", "first", "slow", "quick", "late"]);
}

#[test]
fn thousands_of_processes_come_and_go() {
    let clock = clock();
    let inner = Arc::clone(&clock);
    clock
        .run("first", move || {
            for number in 0..3000 {
                let inside = Arc::clone(&inner);
                spawn(&inner, &format!("\0{number}"), move || rest_until(&inside, number * 10))
                    .join();
            }
        })
        .unwrap();
    assert_eq!(clock.now(), 29_990);
}

/// What a process does in the model test.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Rest(u64),
    Compute(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![(0..500_u64).prop_map(Deed::Rest), (0..400_u64).prop_map(Deed::Compute)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        rng_seed: proptest::test_runner::RngSeed::Fixed(3),
        ..ProptestConfig::default()
    })]

    /// With a processor for each, nobody waits for anybody: every process ends when its own deeds
    /// are done.
    #[test]
    fn processes_with_enough_processors_do_not_hold_each_other_up(
        lists in prop::collection::vec(prop::collection::vec(deed(), 0..20), 1..6),
    ) {
        let (clock, ends) = (clock_of(lists.len() as u32), log());
        for (index, deeds) in lists.iter().cloned().enumerate() {
            let (inside, said) = (Arc::clone(&clock), Arc::clone(&ends));
            drop(spawn(&clock, "process", move || {
                for deed in deeds {
                    match deed {
                        Deed::Rest(time) => rest_until(&inside, inside.local_now() + time * US),
                        Deed::Compute(time) => inside.charge(time * US),
                    }
                }
                inside.settle();
                said.lock().push((inside.now(), index));
            }));
        }
        clock.run("last", || ()).unwrap();
        let seen = take(&ends);
        prop_assert!(seen.is_sorted_by_key(|(now, _)| *now));
        for (now, index) in seen {
            let total: u64 = lists[index].iter().map(|deed| match deed {
                Deed::Rest(time) | Deed::Compute(time) => time * US,
            }).sum();
            prop_assert_eq!(now, total);
        }
    }

    /// On one processor all the work that is ready from the start takes its sum, whatever the
    /// quantum, and a process is never faster than alone.
    #[test]
    fn one_processor_does_all_work_one_after_the_other(
        works in prop::collection::vec(1..2000_u64, 1..6),
        quantum_ns in 0..300_u64,
    ) {
        let clock = VirtualClock::new(Settings { quantum_ns, ..Settings::default() });
        let ends = log();
        for work in works.clone() {
            let (inside, said) = (Arc::clone(&clock), Arc::clone(&ends));
            drop(spawn(&clock, "process", move || {
                inside.charge(work);
                inside.settle();
                said.lock().push((work, inside.now()));
            }));
        }
        clock.run("last", || ()).unwrap();
        prop_assert_eq!(clock.now(), works.iter().sum::<u64>());
        for (work, now) in take(&ends) {
            prop_assert!(now >= work);
        }
    }
}
