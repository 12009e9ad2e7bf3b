//! A completion that is interrupted just after it has woken the thread that waits for it: an fsync
//! returns neither before its flush nor without the error of its write.
use crate::volume;
use extant_block::capability::{Capabilities, Remembers};

use extant_block::clock::{Task, Unparked, Waker, WallTime};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, MemoryDevice, Operation, RealClock, Request, Segment,
};
use extant_engine::Filesystem;
use extant_engine::mkfs::Profile;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use volume::{MIB, Specification};

thread_local! {
    /// Whether this thread completes a request.
    static IS_COMPLETING: Cell<bool> = const { Cell::new(false) };
}

/// Time in which other threads go on.
#[allow(clippy::disallowed_methods, reason = "no clock has to know: nothing waits for this thread")]
fn lose_the_processor(milliseconds: u64) {
    // tidy: thread because a waker may not park
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// A clock on which a thread that completes a request loses the processor after each wake.
struct Interrupting(Arc<RealClock>);

impl Clock for Interrupting {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn wall(&self) -> WallTime {
        self.0.wall()
    }
    fn waker(&self) -> Waker {
        let waker = self.0.waker();
        Waker::new(move || {
            waker.wake();
            if IS_COMPLETING.with(Cell::get) {
                lose_the_processor(200);
            }
        })
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.0.park(deadline)
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.0.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.0.charge(cpu_ns);
    }
}

/// A device whose submitted writes end later, on a thread of their own.
struct Slow {
    clock: Arc<dyn Clock>,
    device: Arc<MemoryDevice>,
    is_slow: AtomicBool,
    fails: bool,
    flushes: AtomicU64,
}

impl BlockDevice for Slow {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, request: Request) {
        if request.operation != Operation::Write || !self.is_slow.load(Ordering::SeqCst) {
            return self.device.submit(request);
        }
        let (device, fails) = (Arc::clone(&self.device), self.fails);
        let complete = move || {
            lose_the_processor(50);
            IS_COMPLETING.with(|completing| completing.set(true));
            match fails {
                true => request.complete(Err(io::Error::other("the drive says no"))),
                false => device.submit(request),
            }
        };
        // Nothing joins it: a request that ends is all that is waited for.
        let _ = self.clock.spawn("slow", Box::new(complete));
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: Some(self),
            congestion: None,
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.device.transfer(operation, offset, segments)
    }
    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.device.flush()
    }
}

impl Remembers for Slow {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.device.read_remembered(offset, bytes)
    }
}

/// Overwrites a block within a tick of the clock, so that nothing but data is to be synced. Returns
/// what the sync says, how many flushes it made, and what the block reads as.
fn overwrite_and_sync(fails: bool, policies: &'static str) -> (Result<(), String>, u64, u8) {
    let specification =
        Specification { policies, ..Specification::new(Profile::Ext4, 4096, 32 * MIB) };
    let real = RealClock::pinned(WallTime { seconds: 1_700_000_000, nanoseconds: 0 });
    let clock: Arc<dyn Clock> = Arc::new(Interrupting(real));
    let device = Arc::new(Slow {
        device: specification.make(Arc::clone(&clock)),
        clock,
        is_slow: AtomicBool::new(false),
        fails,
        flushes: AtomicU64::new(0),
    });
    let volume =
        Filesystem::open(Arc::clone(&device) as _, &specification.options()).expect("opens");
    volume.write("/file", &vec![1; 1 << 20]).expect("a file");
    volume.sync().expect("syncs");
    let file = volume.open_file("/file").expect("opens");
    file.write_all_at(0, &[2; 4096]).expect("writes");
    file.sync().expect("syncs");
    file.write_all_at(0, &[3; 4096]).expect("writes");
    device.is_slow.store(true, Ordering::SeqCst);
    let before = device.flushes.load(Ordering::SeqCst);
    let said = file.sync().map_err(|error| error.to_string());
    let flushes = device.flushes.load(Ordering::SeqCst) - before;
    let mut block = [0; 4096];
    let _ = file.read_at(0, &mut block);
    lose_the_processor(500);
    device.is_slow.store(false, Ordering::SeqCst);
    drop(file);
    let _ = volume.close();
    (said, flushes, block[0])
}

#[test]
fn an_fsync_flushes_what_it_wrote() {
    for policies in ["modern", "modern,journal=none"] {
        let (said, flushes, byte) = overwrite_and_sync(false, policies);
        assert_eq!(said, Ok(()), "{policies}");
        assert!(flushes > 0 && byte == 3, "{policies}: {flushes} flushes, byte {byte}");
    }
}

#[test]
fn an_fsync_whose_write_failed_says_so() {
    for policies in ["modern", "modern,journal=none"] {
        let (said, _, byte) = overwrite_and_sync(true, policies);
        assert!(said.is_err(), "{policies}");
        assert_eq!(byte, 3, "{policies}: what could not be written is in memory");
    }
}
