//! Threads that take requests and have them answered.
//!
//! One thread serves a single client alone: a second one in `receive` would make requests alternate
//! between processors, which costs more than it brings. So there is one *seat* from which requests
//! are received, and a *bench* of spare threads. A thread that has taken a request leaves the seat,
//! and calls a spare to it if requests have been waiting for a while: one that waits is usual with
//! a single client too, since the kernel does not wait for a RELEASE. After its request a thread
//! takes the seat again if it is free, else it goes to the bench.
//!
//! A thread that is held by its request must not hold up the others. If it waits by the clock of
//! [`Workers::clock`], but for a lock, it calls a spare first. Locks are held for a short time, and
//! a spare would take a request for the same file and stand in the same line. For them and for all
//! other cases there is the *watcher*: as long as there are requests it looks each millisecond, and
//! calls a spare when the seat is free and no request was received since its last look. Without
//! requests it sleeps.
//!
//! ```text
//! clock     says when a worker is about to wait
//! patience  whether to look for the next request for a moment before sleeping
//! idle      whether idle processors poll or halt meanwhile
//! recruits  threads that were started before there is a mount
//! ```
//!
//! *Invariants*: at most one thread is in `receive`. A request that was received is answered once,
//! or not at all if that is its kind: a panic answers it with EIO, as does a reply that the kernel
//! refuses. At most one spare is on its way to the seat. While a request is being served and the
//! seat is free, the watcher is awake or was woken. After the end no thread takes the seat.
//!
//! *Locking*: `Crew::duty` is short, and not held across a call of the transport, of the server, or
//! of a waker.
mod clock;
mod idle;
mod patience;
mod recruits;

use crate::protocol::request::Malformed;
use crate::protocol::wire::ReplyHeader;
use crate::protocol::{Errno, Operation, Reply, Request, Sink};
use crate::serve::Serve;
use crate::transport::{Received, Transport};
use clock::AnnouncingClock;
use extant_block::{Clock, ShortLock, Task, Waker};
pub use idle::Idle;
use idle::IdleWish;
use patience::Patience;
pub use recruits::Recruits;
use std::any::Any;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use zerocopy::FromBytes;

/// Nanoseconds between two looks of the watcher.
const LOOK_NS: u64 = 1_000_000;
/// A spare is called when this many requests in a row had been waiting.
const WAITING_IN_A_ROW: u32 = 4;
/// A read or write of at least this many bytes takes long enough for a spare to be of use at once.
const LONG_BYTES: u32 = 32 << 10;
/// The watcher sleeps after this many looks at which nothing had happened.
const IDLE_LOOKS: u32 = 32;
/// Requests begin here in a buffer, so that the data of a write begins with a page: it follows a
/// header of 40 bytes and arguments of 40.
const DATA_OFFSET: usize = 80;
/// What the data of a write is aligned to in memory, and room for everything before it.
const PAGE_BYTES: usize = 4096;

/// How many threads there are and how much they take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Threads, at least 1. They may all wait for the device.
    pub workers: usize,
    /// The largest write in bytes, as agreed.
    pub write_bytes_max: u32,
    /// What idle processors do while requests are dense.
    pub idle: Idle,
}

impl Settings {
    /// Two threads for each processor and eight more, for writes of this size.
    pub fn new(write_bytes_max: u32) -> Settings {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Settings { workers: 2 * processors + 8, write_bytes_max, idle: Idle::default() }
    }
}

/// How the connection came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The file system was unmounted.
    Unmounted,
    /// Somebody ended the connection while it was mounted.
    Aborted,
}

/// The threads of one mount.
///
/// Dropping it leaves the threads to themselves; they end with the connection.
pub struct Workers {
    crew: Arc<Crew>,
    tasks: Vec<Task>,
}

struct Crew {
    clock: Arc<dyn Clock>,
    transport: Arc<dyn Transport>,
    server: Arc<dyn Serve>,
    settings: Settings,
    patience: Patience,
    duty: ShortLock<Duty>,
}

/// Who does what.
struct Duty {
    is_seated: bool,
    bench: Vec<Spare>,
    /// The spare that was called and has not arrived.
    called: Option<usize>,
    /// Requests received so far.
    received: u64,
    /// How many of the last ones in a row were taken while another one was waiting.
    waiting_in_a_row: u32,
    watcher: Watcher,
    end: Option<io::Result<Ending>>,
    /// The first reply that the kernel refused.
    refused: Option<io::Error>,
}

struct Spare {
    worker: usize,
    waker: Waker,
}

enum Watcher {
    Awake,
    Asleep(Waker),
}

impl Duty {
    /// Calls the spare that came last to the bench, if one is needed and none is on its way.
    fn call(&mut self) -> Option<Waker> {
        if self.end.is_some() || self.is_seated || self.called.is_some() {
            return None;
        }
        let spare = self.bench.pop()?;
        self.called = Some(spare.worker);
        Some(spare.waker)
    }

    /// Wakes the watcher if it is asleep: by calling what this returns.
    fn rouse(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.watcher, Watcher::Awake) {
            Watcher::Awake => None,
            Watcher::Asleep(waker) => Some(waker),
        }
    }
}

impl Workers {
    /// Starts them: they serve `transport`, whose first message was answered, until it ends.
    ///
    /// # Errors
    /// Those of the host: it gives no thread.
    pub fn start(
        clock: Arc<dyn Clock>,
        transport: Arc<dyn Transport>,
        server: Arc<dyn Serve>,
        settings: Settings,
    ) -> io::Result<Workers> {
        Ok(Recruits::start(clock, settings.workers)?.serve(transport, server, settings))
    }

    /// Those of threads that were waiting.
    fn of(
        recruits: &Recruits,
        transport: Arc<dyn Transport>,
        server: Arc<dyn Serve>,
        settings: Settings,
    ) -> Arc<Crew> {
        let duty = Duty {
            is_seated: false,
            bench: Vec::new(),
            called: None,
            received: 0,
            waiting_in_a_row: 0,
            watcher: Watcher::Awake,
            end: None,
            refused: None,
        };
        let duty = ShortLock::new(duty);
        let patience = Patience::new();
        let clock = Arc::clone(&recruits.clock);
        Arc::new(Crew { clock, transport, server, settings, patience, duty })
    }

    /// The clock for a server and its devices: the same as `clock`, but a worker that waits by it
    /// first has another one take its place.
    pub fn clock(clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
        Arc::new(AnnouncingClock::new(clock))
    }

    /// Waits until the connection has ended and every request is answered.
    ///
    /// # Errors
    /// The first of: a request whose server panicked, a failure to receive, a reply that the kernel
    /// refused.
    pub fn join(self) -> io::Result<Ending> {
        self.tasks.into_iter().for_each(Task::join);
        let mut duty = self.crew.duty.lock();
        let end = duty.end.take().unwrap_or(Ok(Ending::Unmounted))?;
        match duty.refused.take() {
            Some(error) => Err(error),
            None => Ok(end),
        }
    }

    /// Requests received so far.
    pub fn received(&self) -> u64 {
        self.crew.duty.lock().received
    }
}

/// The life of a worker.
fn work(crew: &Arc<Crew>, worker: usize) {
    let waker = crew.clock.waker();
    let about_to_wait = Arc::clone(crew);
    clock::announce_by(move || about_to_wait.call());
    // Made with the first request: most spares never have one.
    let mut buffer: Option<RequestBuffer> = None;
    let mut space = Vec::new();
    while crew.take_seat(worker, &waker) {
        let buffer = buffer
            .get_or_insert_with(|| RequestBuffer::new(crew.settings.write_bytes_max as usize));
        let (received, arrival) = crew.receive(buffer.target());
        let message = match received {
            Ok(Received::Message(bytes)) => buffer.message(bytes),
            Ok(Received::Interrupted) => {
                crew.duty.lock().is_seated = false;
                continue;
            }
            Ok(Received::Unmounted) => return crew.end(Ending::Unmounted),
            Ok(Received::Aborted) => return crew.end(Ending::Aborted),
            Err(error) => return crew.fail(error),
        };
        let serve = || {
            let request = Request::parse(message);
            let _serving = clock::serving();
            crew.leave_seat(request.as_ref().map_or(Length::Short, length), arrival);
            crew.serve(request, &mut space);
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(serve)) {
            return crew.fail(io::Error::other(panic_words(&*payload)));
        }
    }
}

/// How long a request takes if it does not wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    /// A copy of many bytes.
    Long,
}

/// When a request came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Before it was asked for: it has been waiting.
    Early,
    Awaited,
}

fn length(request: &Request<'_>) -> Length {
    let bytes = match &request.operation {
        Operation::Read(read) => read.size,
        Operation::Write { arguments, .. } => arguments.size,
        _ => 0,
    };
    if bytes >= LONG_BYTES { Length::Long } else { Length::Short }
}

impl Crew {
    /// Waits until the seat is free and takes it. Returns `false` at the end.
    fn take_seat(&self, worker: usize, waker: &Waker) -> bool {
        let mut duty = self.duty.lock();
        loop {
            if duty.called == Some(worker) {
                duty.called = None;
            }
            if duty.end.is_some() {
                return false;
            }
            if !duty.is_seated {
                duty.bench.retain(|spare| spare.worker != worker);
                duty.is_seated = true;
                return true;
            }
            if duty.bench.iter().all(|spare| spare.worker != worker) {
                duty.bench.push(Spare { worker, waker: waker.clone() });
            }
            drop(duty);
            self.clock.park(None);
            duty = self.duty.lock();
        }
    }

    /// Waits for the next request, in the seat.
    fn receive(&self, buffer: &mut [u8]) -> (io::Result<Received>, Arrival) {
        if let Some(found) = self.transport.receive_now(buffer).transpose() {
            return (found, Arrival::Early);
        }
        let look = || self.transport.receive_now(buffer).transpose();
        let found = self.patience.find(&*self.clock, look);
        (found.unwrap_or_else(|| self.transport.receive(buffer)), Arrival::Awaited)
    }

    /// With a request in hand: lets others to the seat, and calls one if there is enough to do.
    fn leave_seat(&self, length: Length, arrival: Arrival) {
        let mut duty = self.duty.lock();
        duty.is_seated = false;
        duty.received += 1;
        duty.waiting_in_a_row = match arrival {
            Arrival::Early => duty.waiting_in_a_row + 1,
            Arrival::Awaited => 0,
        };
        let may_need = length == Length::Long || duty.waiting_in_a_row >= WAITING_IN_A_ROW;
        let watcher = duty.rouse();
        drop(duty);
        if may_need && self.transport.is_pending() {
            self.call();
        }
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }

    /// Calls a spare to the seat if it is free.
    fn call(&self) {
        let spare = self.duty.lock().call();
        if let Some(spare) = spare {
            spare.wake();
        }
    }

    /// Has one request answered.
    fn serve(&self, request: Result<Request<'_>, Malformed>, space: &mut Vec<u8>) {
        match request {
            Ok(request) => {
                let reply = Reply::new(self, request.unique);
                self.server.serve(&request, reply, space);
            }
            Err(Malformed { unique }) => {
                if let Some(unique) = unique {
                    Reply::new(self, unique).error(Errno::INPUT_OUTPUT);
                }
            }
        }
    }

    /// No more requests will come.
    fn end(&self, how: Ending) {
        self.dismiss(Ok(how));
    }

    /// Ends the connection, so that no process waits for an answer that will not come.
    fn fail(&self, error: io::Error) {
        self.dismiss(Err(error));
        // Where the host does not let us, the mount stays until it is unmounted, and says so to all
        // who ask.
        let _ = self.transport.abort();
    }

    /// Ends the work of all. What is said first counts.
    fn dismiss(&self, how: io::Result<Ending>) {
        let mut duty = self.duty.lock();
        duty.is_seated = false;
        duty.end.get_or_insert(how);
        let spares = std::mem::take(&mut duty.bench);
        let watcher = duty.rouse();
        drop(duty);
        spares.iter().map(|spare| &spare.waker).chain(&watcher).for_each(Waker::wake);
    }

    /// The life of the watcher.
    fn watch(&self) {
        let waker = self.clock.waker();
        let mut wish = IdleWish::new(self.settings.idle);
        let mut seen = 0;
        let mut idle_looks = 0;
        loop {
            let mut duty = self.duty.lock();
            if duty.end.is_some() {
                return;
            }
            let (requests, has_stopped) = (duty.received - seen, duty.received == seen);
            seen = duty.received;
            idle_looks = if has_stopped && duty.is_seated { idle_looks + 1 } else { 0 };
            let spare = if has_stopped { duty.call() } else { None };
            let deadline = if idle_looks < IDLE_LOOKS {
                Some(self.clock.now().saturating_add(LOOK_NS))
            } else {
                idle_looks = 0;
                duty.watcher = Watcher::Asleep(waker.clone());
                None
            };
            drop(duty);
            match deadline {
                Some(_) => wish.note(requests),
                None => wish.give_back(),
            }
            if let Some(spare) = spare {
                spare.wake();
            }
            self.clock.park(deadline);
        }
    }
}

impl Sink for Crew {
    /// A reply that the kernel refuses is replaced by an error: the process that made it would wait
    /// for ever.
    fn send(&self, parts: &[IoSlice<'_>]) {
        let Err(error) = self.transport.send(parts) else { return };
        if let Some(first) = parts.first()
            && let Ok((header, _)) = ReplyHeader::read_from_prefix(first)
        {
            let refused = ReplyHeader {
                length: size_of::<ReplyHeader>() as u32,
                error: -Errno::INPUT_OUTPUT.0,
                unique: header.unique,
            };
            let _ = self.transport.send(&[IoSlice::new(zerocopy::IntoBytes::as_bytes(&refused))]);
        }
        self.duty.lock().refused.get_or_insert(error);
    }
}

/// What a panic said, in one line.
fn panic_words(payload: &(dyn Any + Send)) -> String {
    let words = payload.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
    let line = words.and_then(|words| words.lines().next()).unwrap_or("no message");
    format!("a request could not be served, a mistake of this program: {line}")
}

/// Memory for one request, used again for the next; the data of a write begins with a page in it.
struct RequestBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl RequestBuffer {
    fn new(write_bytes_max: usize) -> RequestBuffer {
        let bytes = vec![0; write_bytes_max + 2 * PAGE_BYTES];
        let page = bytes.as_ptr().align_offset(PAGE_BYTES);
        // `align_offset` may refuse; then nothing is aligned, and everything still right.
        let page = if page < PAGE_BYTES { page } else { 0 };
        let page = if page < DATA_OFFSET { page + PAGE_BYTES } else { page };
        RequestBuffer { bytes, start: page - DATA_OFFSET }
    }

    /// Where the next request goes. The kernel asks for room for the largest write and its header,
    /// and for 8 KiB.
    fn target(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn message(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.start..][..bytes]
    }
}
