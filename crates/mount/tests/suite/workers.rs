//! The workers over a transport that is a queue in memory.
use extant_block::{Clock, RealClock, ShortLock, Task, Unparked, WaitQueue, Waker, WallTime};
use extant_mount::protocol::wire::{ReplyHeader, RequestHeader};
use extant_mount::protocol::{Operation, Reply, Request, numbers};
use extant_mount::serve::Serve;
use extant_mount::transport::{Received, Transport};
use extant_mount::workers::{Ending, Idle, Settings, Workers};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// A kernel that asks what it is told to.
struct FakeKernel {
    state: ShortLock<State>,
    changed: WaitQueue,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Vec<u8>>,
    end: Option<Received>,
    /// How often each request was answered, and the last error.
    answers: BTreeMap<u64, (u32, i32)>,
    receiving: u32,
    receiving_most: u32,
    /// Replies that are refused if they carry no error.
    refused: Vec<u64>,
    is_deaf: bool,
}

impl FakeKernel {
    fn new(clock: Arc<dyn Clock>) -> Arc<FakeKernel> {
        Arc::new(FakeKernel { state: ShortLock::default(), changed: WaitQueue::new(clock) })
    }

    /// Asks for the attributes of `node`.
    fn ask(&self, unique: u64, node: u64) {
        self.push(message(numbers::operation::READ_LINK, unique, node, &[]));
    }

    fn push(&self, message: Vec<u8>) {
        self.state.lock().requests.push_back(message);
        self.changed.wake_all();
    }

    fn end(&self, how: Received) {
        self.state.lock().end.get_or_insert(how);
        self.changed.wake_all();
    }

    /// Waits until `count` requests have been answered.
    fn await_answers(&self, count: usize) {
        self.changed.wait_until(&self.state, |state| (state.answers.len() >= count).then_some(()));
    }

    /// Waits until request `unique` has been answered, and returns the error.
    fn answer(&self, unique: u64) -> i32 {
        self.changed.wait_until(&self.state, |state| state.answers.get(&unique).map(|one| one.1))
    }
}

fn message(operation: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let length = (size_of::<RequestHeader>() + body.len()) as u32;
    let header = RequestHeader { length, operation, unique, node, ..Default::default() };
    [header.as_bytes(), body].concat()
}

impl Transport for FakeKernel {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut state = self.state.lock();
        state.receiving += 1;
        state.receiving_most = state.receiving_most.max(state.receiving);
        drop(state);
        let found = self.changed.wait_until(&self.state, |state| {
            if state.is_deaf {
                return Some(Err(io::Error::from_raw_os_error(5)));
            }
            match state.requests.pop_front() {
                Some(message) => {
                    buffer[..message.len()].copy_from_slice(&message);
                    Some(Ok(Received::Message(message.len())))
                }
                None => state.end.map(Ok),
            }
        });
        self.state.lock().receiving -= 1;
        found
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self.is_pending() {
            true => self.receive(buffer).map(Some),
            false => Ok(None),
        }
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let (header, _) = ReplyHeader::read_from_prefix(&bytes).expect("a header");
        assert_eq!(header.length as usize, bytes.len());
        let mut state = self.state.lock();
        if header.error == 0 && state.refused.contains(&header.unique) {
            return Err(io::Error::from_raw_os_error(22));
        }
        let answer = state.answers.entry(header.unique).or_default();
        *answer = (answer.0 + 1, header.error);
        drop(state);
        self.changed.wake_all();
        Ok(())
    }

    fn is_pending(&self) -> bool {
        !self.state.lock().requests.is_empty()
    }

    fn abort(&self) -> io::Result<()> {
        self.end(Received::Aborted);
        Ok(())
    }
}

/// A request for node `HELD` is answered when one for `RELEASES` was; one for `BROKEN` panics.
struct Server {
    is_released: ShortLock<bool>,
    released: WaitQueue,
}

const HELD: u64 = 100;
const RELEASES: u64 = 101;
const BROKEN: u64 = 102;

impl Serve for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>, _space: &mut Vec<u8>) {
        if let Operation::Forget { .. } = request.operation {
            return reply.none();
        }
        match request.node {
            HELD => self.released.wait_until(&self.is_released, |is| is.then_some(())),
            RELEASES => {
                *self.is_released.lock() = true;
                self.released.wake_all();
            }
            BROKEN => panic!("node {BROKEN} has no sense\nsecond line"),
            _ => {}
        }
        reply.done();
    }
}

fn crew(workers: usize) -> (Arc<FakeKernel>, Workers) {
    crew_by(RealClock::new(), workers)
}

fn crew_by(clock: Arc<dyn Clock>, workers: usize) -> (Arc<FakeKernel>, Workers) {
    let kernel = FakeKernel::new(Arc::clone(&clock));
    let announcing = Workers::clock(Arc::clone(&clock));
    let server =
        Server { is_released: ShortLock::new(false), released: WaitQueue::new(announcing) };
    let transport: Arc<dyn Transport> = Arc::clone(&kernel) as Arc<dyn Transport>;
    let settings = Settings { workers, write_bytes_max: 1 << 16, idle: Idle::Halt };
    let workers = Workers::start(clock, transport, Arc::new(server), settings);
    let workers = workers.expect("threads");
    (kernel, workers)
}

#[test]
fn each_request_is_answered_once_by_one_receiver_at_a_time() {
    const ASKED: u64 = 20_000;
    for workers in [1, 2, 8] {
        let (kernel, crew) = crew(workers);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let kernel = &kernel;
                scope.spawn(move || {
                    for number in 0..ASKED / 4 {
                        let unique = client * ASKED + number + 1;
                        kernel.ask(unique, number % 50);
                        // Half of them wait for their answer, as most clients do.
                        if client < 2 {
                            kernel.answer(unique);
                        }
                    }
                });
            }
        });
        kernel.await_answers(ASKED as usize);
        assert_eq!(crew.received(), ASKED);
        kernel.end(Received::Unmounted);
        assert_eq!(crew.join().expect("no error"), Ending::Unmounted);
        let state = kernel.state.lock();
        assert_eq!(state.answers.len() as u64, ASKED);
        assert!(state.answers.values().all(|answer| *answer == (1, 0)));
        assert_eq!(state.receiving_most, 1, "{workers} workers");
    }
}

#[test]
fn one_that_is_held_does_not_stop_the_next() {
    let (kernel, crew) = crew(2);
    // The first is taken, and nothing is waiting then: only the watcher can call the second worker.
    kernel.ask(1, HELD);
    while crew.received() < 1 {
        std::hint::spin_loop();
    }
    kernel.ask(2, RELEASES);
    assert_eq!((kernel.answer(1), kernel.answer(2)), (0, 0));
    kernel.end(Received::Unmounted);
    crew.join().expect("no error");
}

/// The host's clock with its timers stopped, until they are let go.
struct Stopped {
    clock: Arc<RealClock>,
    is_running: AtomicBool,
}

impl Clock for Stopped {
    fn now(&self) -> u64 {
        self.clock.now()
    }
    fn wall(&self) -> WallTime {
        self.clock.wall()
    }
    fn waker(&self) -> Waker {
        self.clock.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        if deadline.is_none() {
            return self.clock.park(None);
        }
        while !self.is_running.load(Ordering::Acquire) {
            let soon = self.clock.now() + 1_000_000;
            if self.clock.park(Some(soon)) == Unparked::Woken {
                return Unparked::Woken;
            }
        }
        Unparked::TimedOut
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.clock.spawn(name, body)
    }
    fn charge(&self, _cpu_ns: u64) {}
}

#[test]
fn one_that_waits_by_the_clock_calls_the_next_itself() {
    // Without timers the watcher looks once in the beginning, and never again.
    let clock = Arc::new(Stopped { clock: RealClock::new(), is_running: AtomicBool::new(false) });
    let (kernel, crew) = crew_by(Arc::clone(&clock) as Arc<dyn Clock>, 4);
    for unique in 1..=3 {
        kernel.ask(unique, HELD);
        while crew.received() < unique {
            std::hint::spin_loop();
        }
    }
    kernel.ask(4, RELEASES);
    kernel.await_answers(4);
    clock.is_running.store(true, Ordering::Release);
    kernel.end(Received::Unmounted);
    crew.join().expect("no error");
}

#[test]
fn all_but_one_may_be_held() {
    let (kernel, crew) = crew(5);
    for unique in 1..=4 {
        kernel.ask(unique, HELD);
    }
    kernel.ask(5, 1);
    assert_eq!(kernel.answer(5), 0);
    assert_eq!(kernel.state.lock().answers.len(), 1, "the others are held");
    kernel.ask(6, RELEASES);
    kernel.await_answers(6);
    kernel.end(Received::Unmounted);
    crew.join().expect("no error");
}

#[test]
fn the_watcher_wakes_again_after_a_rest() {
    let (kernel, crew) = crew(2);
    kernel.ask(1, 1);
    kernel.answer(1);
    // Long enough for the watcher to fall asleep; if it is not, the test is only weaker.
    let clock = RealClock::new();
    let until = clock.now() + 60_000_000;
    while clock.now() < until {
        clock.park(Some(until));
    }
    kernel.ask(2, HELD);
    while crew.received() < 2 {
        std::hint::spin_loop();
    }
    kernel.ask(3, RELEASES);
    assert_eq!(kernel.answer(2), 0);
    kernel.end(Received::Unmounted);
    crew.join().expect("no error");
}

#[test]
fn a_panic_is_answered_with_an_error_and_ends_the_connection() {
    let (kernel, crew) = crew(3);
    kernel.ask(1, 1);
    kernel.ask(2, BROKEN);
    assert_eq!(kernel.answer(2), -5);
    let said = crew.join().expect_err("the panic").to_string();
    assert!(said.ends_with("node 102 has no sense"), "{said}");
    assert_eq!(said.lines().count(), 1);
    assert_eq!(kernel.state.lock().end, Some(Received::Aborted), "and not before it");
}

#[test]
fn what_cannot_be_read_is_refused_and_what_needs_no_answer_gets_none() {
    let (kernel, crew) = crew(2);
    kernel.push(message(numbers::operation::FORGET, 1, 5, &7u64.to_ne_bytes()));
    kernel.push(message(numbers::operation::LOOKUP, 2, 5, b"without an end"));
    kernel.push(vec![1, 2, 3]);
    kernel.ask(3, 1);
    kernel.await_answers(2);
    kernel.end(Received::Unmounted);
    crew.join().expect("no error");
    let answers: Vec<_> = kernel.state.lock().answers.clone().into_iter().collect();
    assert_eq!(answers, [(2, (1, -5)), (3, (1, 0))]);
}

#[test]
fn a_reply_that_is_refused_becomes_an_error_and_is_told_in_the_end() {
    let (kernel, crew) = crew(2);
    kernel.state.lock().refused.push(1);
    kernel.ask(1, 1);
    kernel.ask(2, 1);
    assert_eq!((kernel.answer(1), kernel.answer(2)), (-5, 0));
    kernel.end(Received::Unmounted);
    assert_eq!(crew.join().expect_err("refused").raw_os_error(), Some(22));
}

#[test]
fn a_connection_that_fails_or_is_cut_ends_all_workers() {
    let (kernel, cut) = crew(4);
    kernel.end(Received::Aborted);
    assert_eq!(cut.join().expect("no error"), Ending::Aborted);
    let (kernel, failing) = crew(4);
    kernel.state.lock().is_deaf = true;
    kernel.changed.wake_all();
    assert_eq!(failing.join().expect_err("deaf").raw_os_error(), Some(5));
}
