//! What waits for what under ext3's journal and pdflush of 2007, in virtual time: changes of blocks
//! that a commit is writing to the log, and flushers before a queue that is nearly full.
use extant_block::capability::{Capabilities, Congests};
use extant_block::device::DeviceInfo;
use extant_block::{BlockDevice, Clock, MemoryDevice, Operation, Request};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::{Access, Change, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_lab::setup::Setup;
use extant_sim::clock::{Settings, VirtualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const MEMORY: u64 = 64 * MIB;

/// A device whose writes take a time, all at once, and whose queue is as full as the test says.
struct Slow {
    memory: Arc<MemoryDevice>,
    /// How long a write takes.
    write_ns: AtomicU64,
    /// How long a process sleeps in the queue.
    room_ns: AtomicU64,
    is_congested: AtomicBool,
    /// How many writes were submitted.
    writes: AtomicU64,
}

impl BlockDevice for Slow {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory.clock()
    }
    fn submit(&self, request: Request) {
        let for_ns = match request.operation {
            Operation::Write => self.write_ns.load(Ordering::SeqCst),
            Operation::Read | Operation::Flush => 0,
        };
        self.writes.fetch_add(u64::from(request.operation == Operation::Write), Ordering::SeqCst);
        if for_ns == 0 {
            return self.memory.submit(request);
        }
        let memory = Arc::clone(&self.memory);
        let body = move || {
            sleep(memory.clock(), for_ns);
            memory.submit(request);
        };
        // Nothing joins it: a request that ends is all that is waited for.
        let _ = self.clock().spawn("write", Box::new(body));
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: Some(self),
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
}

impl Congests for Slow {
    fn wait_for_room(&self, _operation: Operation) {
        sleep(self.clock(), self.room_ns.load(Ordering::SeqCst));
    }
    fn is_congested(&self, operation: Operation) -> bool {
        operation == Operation::Write && self.is_congested.load(Ordering::SeqCst)
    }
    fn wait_for_relief(&self, _operation: Operation, deadline: u64) {
        sleep(self.clock(), deadline.saturating_sub(self.clock().now()));
    }
}

fn sleep(clock: &Arc<dyn Clock>, nanoseconds: u64) {
    let until = clock.now() + nanoseconds;
    while clock.now() < until {
        clock.park(Some(until));
    }
}

/// Runs a test on a new volume with two files and a directory, all durable.
fn on_volume<T: Send + 'static>(
    policies: &'static str,
    test: impl FnOnce(&Arc<Slow>, &Filesystem, &Arc<dyn Clock>) -> T + Send + 'static,
) -> T {
    let clock = VirtualClock::new(Settings::default());
    let inner = Arc::clone(&clock) as Arc<dyn Clock>;
    let outcome = clock.run("test", move || {
        let clock = inner;
        let device = Arc::new(Slow {
            memory: Arc::new(MemoryDevice::new(Arc::clone(&clock), 512 * MIB)),
            write_ns: AtomicU64::new(0),
            room_ns: AtomicU64::new(0),
            is_congested: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        });
        let mut wishes = default_wishes(Profile::Ext3, 512 * MIB, Some(4096), Identity::NONE);
        wishes.uuid = *b"one that waits..";
        wishes.created_seconds = 978_000_000;
        let options = Options {
            access: Access::ReadWrite,
            policies: policies.parse::<Setup>().unwrap().policies,
            cache_bytes: cache_for_blocks(MEMORY as usize),
            data: DataKeeping::Phantom,
        };
        let memory = Arc::clone(&device.memory) as Arc<dyn BlockDevice>;
        format(memory, &FormatOptions::new(wishes), &options.policies).unwrap();
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(shared, &options).unwrap();
        for path in ["/first", "/second", "/third"] {
            volume.write(path, &[0; 4096]).unwrap();
        }
        volume.create_dir("/directory", 0o755).unwrap();
        volume.sync().unwrap();
        sleep(&clock, 2 * SECOND);
        let outcome = test(&device, &volume, &clock);
        device.write_ns.store(0, Ordering::SeqCst);
        device.room_ns.store(0, Ordering::SeqCst);
        device.is_congested.store(false, Ordering::SeqCst);
        volume.close().unwrap();
        outcome
    });
    outcome.unwrap_or_else(|error| panic!("{policies}: {error}"))
}

fn chmod(volume: &Filesystem, path: &str, permissions: u16) {
    let change = Change { permissions: Some(permissions), ..Change::default() };
    volume.change(path, &change).unwrap();
}

/// Writes over a file from its start, and beyond its end.
fn overwrite(volume: &Filesystem, path: &str, bytes: u64) {
    let file = volume.open_file(path).unwrap();
    file.write_all_at(0, &vec![0; bytes as usize]).unwrap();
}

/// How long some work takes, in milliseconds.
fn time(clock: &Arc<dyn Clock>, work: impl FnOnce()) -> u64 {
    let before = clock.now();
    work();
    (clock.now() - before) / MS
}

#[test]
fn a_block_that_a_commit_writes_to_the_log_is_not_changed_before_that_has_ended() {
    let waits = |policies| {
        on_volume(policies, |device, volume, clock| {
            chmod(volume, "/first", 0o600);
            overwrite(volume, "/third", 4096);
            volume.create_dir("/new", 0o755).unwrap();
            device.write_ns.store(SECOND, Ordering::SeqCst);
            let beside = volume.clone();
            let sync = clock.spawn("sync", Box::new(move || beside.sync().unwrap()));
            let half = || sleep(clock, SECOND / 2);
            // The data is being written, for a second.
            half();
            let before = time(clock, || chmod(volume, "/first", 0o640));
            sleep(clock, SECOND);
            // The log is, for another one. The table block was copied when it changed before.
            let again = time(clock, || chmod(volume, "/second", 0o600));
            let inside = time(clock, || volume.create_dir("/newer", 0o755).unwrap());
            // The commit block is.
            half();
            let after = time(clock, || volume.create_dir("/newest", 0o755).unwrap());
            sync.join();
            [before, again, inside, after]
        })
    };
    let jbd = "linux-2.6,throttle=inline,commit=600s";
    assert_eq!(waits(jbd), [0, 0, 500, 0]);
    assert_eq!(waits("linux-2.6,throttle=inline,commit=600s,journal=ordered"), [0, 0, 0, 0]);
}

#[test]
fn an_access_joins_the_transaction_and_waits_like_a_change() {
    let waits = |policies| {
        on_volume(policies, |device, volume, clock| {
            chmod(volume, "/first", 0o600);
            device.write_ns.store(SECOND, Ordering::SeqCst);
            let beside = volume.clone();
            let sync = clock.spawn("sync", Box::new(move || beside.sync().unwrap()));
            sleep(clock, SECOND / 2);
            let listing = || time(clock, || assert_eq!(volume.read_dir("/").unwrap().len(), 5));
            let waits = [listing(), listing()];
            let looked = time(clock, || assert!(volume.metadata("/first").is_ok()));
            sync.join();
            (waits, looked)
        })
    };
    let jbd = "linux-2.6,throttle=inline,commit=600s";
    assert_eq!(waits(jbd), ([500, 0], 0));
    assert_eq!(waits("linux-2.6,throttle=inline,commit=600s,atime=none"), ([0, 0], 0));
    assert_eq!(waits("linux-2.6,throttle=inline,commit=600s,journal=ordered"), ([0, 0], 0));
}

#[test]
fn changes_wait_for_a_commit_that_waits_for_a_handle_which_sleeps_in_the_queue() {
    let policies = "linux-2.6,throttle=inline,commit=600s";
    let waits = |commits: bool| {
        on_volume(policies, move |device, volume, clock| {
            let sync = |volume: &Filesystem| {
                let volume = volume.clone();
                clock.spawn("sync", Box::new(move || volume.sync().unwrap()))
            };
            device.room_ns.store(SECOND, Ordering::SeqCst);
            let mut syncs = Vec::new();
            if commits {
                // Its data sleeps in the queue for a second; then it commits.
                overwrite(volume, "/third", 4096);
                syncs.push(sync(volume));
            }
            sleep(clock, SECOND / 2);
            // That of this one until half a second after that, with a handle.
            overwrite(volume, "/first", 4096);
            syncs.push(sync(volume));
            sleep(clock, 7 * SECOND / 10);
            let waited = time(clock, || chmod(volume, "/directory", 0o700));
            device.room_ns.store(0, Ordering::SeqCst);
            syncs.into_iter().for_each(|sync| sync.join());
            waited
        })
    };
    assert_eq!((waits(true), waits(false)), (300, 0));
}

#[test]
fn a_flusher_leaves_a_congested_queue_alone_and_a_writer_does_not() {
    let run = |policies| {
        on_volume(policies, |device, volume, clock| {
            let written = || device.writes.load(Ordering::SeqCst);
            let before = written();
            device.is_congested.store(true, Ordering::SeqCst);
            // More than the background, 5 % of 64 MiB, and less than the limit of 10 %.
            overwrite(volume, "/first", 4 * MIB);
            sleep(clock, SECOND);
            let left = written() - before;
            device.is_congested.store(false, Ordering::SeqCst);
            sleep(clock, SECOND / 10);
            let relieved = written() - before;
            device.is_congested.store(true, Ordering::SeqCst);
            // A writer that has to write itself sleeps in the queue.
            overwrite(volume, "/second", 16 * MIB);
            (left > 0, relieved > left, written() > before + relieved)
        })
    };
    let policies = "linux-2.6,commit=600s";
    assert_eq!(run(policies), (false, true, true));
    assert!(run("linux-2.6,commit=600s,congestion=wait").0);
}

#[test]
fn what_is_old_is_written_once_the_queue_is_relieved() {
    let seen = on_volume("linux-2.6,commit=600s", |device, volume, clock| {
        let written = || device.writes.load(Ordering::SeqCst);
        let before = written();
        device.is_congested.store(true, Ordering::SeqCst);
        overwrite(volume, "/first", MIB);
        sleep(clock, 60 * SECOND);
        let left = written() - before;
        device.is_congested.store(false, Ordering::SeqCst);
        sleep(clock, SECOND / 10);
        (left, written() > before)
    });
    assert_eq!(seen, (0, true));
}
