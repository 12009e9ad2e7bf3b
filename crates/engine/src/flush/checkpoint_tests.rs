//! A commit that meets a checkpoint under way.
use crate::api::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use crate::policy::preset::Policies;
use crate::{Access, DataKeeping, Filesystem, Options};
use extant_block::capability::Capabilities;
use extant_block::clock::{Task, Unparked, Waker, WallTime};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, MemoryDevice, Operation, RealClock, Request,
    Segment, ShortLock, WaitQueue,
};
use std::cell::Cell;
use std::sync::Arc;

const BYTES: u64 = 8 << 20;
const BLOCK_BYTES: u32 = 1024;

pub(super) fn options() -> Options {
    let policies: Policies = "modern,commit=3600s".parse().unwrap();
    Options { access: Access::ReadWrite, policies, cache_bytes: 64 << 20, data: DataKeeping::Bytes }
}

/// A fresh ext4 volume with the smallest log.
pub(super) fn formatted(clock: Arc<dyn Clock>) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(clock, BYTES));
    let mut wishes = default_wishes(Profile::Ext4, BYTES, Some(BLOCK_BYTES), Identity::NONE);
    wishes.blocks = BYTES / u64::from(BLOCK_BYTES);
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    format(shared, &FormatOptions::new(wishes), &options().policies).unwrap();
    device
}

thread_local! {
    /// Whether what is held back is let go when this thread waits.
    static LETS_GO: Cell<bool> = const { Cell::new(false) };
}

/// What the device holds back.
#[derive(Default)]
struct Kept {
    holds: bool,
    requests: Vec<Request>,
}

/// Writes that are submitted and held back, and whoever waits for one.
struct Gate {
    medium: Arc<MemoryDevice>,
    kept: ShortLock<Kept>,
    arrived: WaitQueue,
}

impl Gate {
    fn let_go(&self) {
        let requests = {
            let mut kept = self.kept.lock();
            kept.holds = false;
            std::mem::take(&mut kept.requests)
        };
        requests.into_iter().for_each(|request| self.medium.submit(request));
    }
}

/// A clock on which a thread lets go what is held back, once it would have to wait.
struct Opening {
    real: Arc<RealClock>,
    gate: ShortLock<Option<Arc<Gate>>>,
}

impl Clock for Opening {
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
        if LETS_GO.with(Cell::take) {
            let gate = self.gate.lock().clone();
            gate.unwrap().let_go();
        }
        self.real.park(deadline)
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.real.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.real.charge(cpu_ns);
    }
}

/// A device that holds back writes that are submitted, but none that a thread makes itself.
struct Held {
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
}

impl BlockDevice for Held {
    fn info(&self) -> DeviceInfo {
        self.gate.medium.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, request: Request) {
        let mut kept = self.gate.kept.lock();
        if !kept.holds || request.operation != Operation::Write {
            drop(kept);
            return self.gate.medium.submit(request);
        }
        kept.requests.push(request);
        drop(kept);
        self.gate.arrived.wake_all();
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.gate.medium.transfer(operation, offset, segments)
    }
}

#[test]
fn a_commit_that_revokes_waits_for_the_checkpoint_that_writes_the_block() {
    let opening = Arc::new(Opening { real: RealClock::new(), gate: ShortLock::default() });
    let clock = Arc::clone(&opening) as Arc<dyn Clock>;
    let gate = Arc::new(Gate {
        medium: formatted(Arc::clone(&clock)),
        kept: ShortLock::default(),
        arrived: WaitQueue::new(Arc::clone(&clock)),
    });
    *opening.gate.lock() = Some(Arc::clone(&gate));
    let device = Arc::new(Held { clock: Arc::clone(&clock), gate: Arc::clone(&gate) });
    let filesystem = Filesystem::open(device, &options()).unwrap();
    let core = Arc::clone(&filesystem.core);
    filesystem.create_dir("/directory", 0o755).unwrap();
    filesystem.sync().unwrap();
    // A checkpoint is about to write the block of the directory.
    gate.kept.lock().holds = true;
    let checkpoint = {
        let core = Arc::clone(&core);
        clock.spawn("checkpoint", Box::new(move || core.volume().store.checkpoint().unwrap()))
    };
    gate.arrived.wait_until(&gate.kept, |kept| (!kept.requests.is_empty()).then_some(()));
    filesystem.remove_dir("/directory").unwrap();
    LETS_GO.with(|lets_go| lets_go.set(true));
    filesystem.sync().unwrap();
    LETS_GO.with(|lets_go| lets_go.set(false));
    // From here on the block may be given to a file.
    let is_running = core.volume().store.log().unwrap().is_checkpointing();
    gate.let_go();
    checkpoint.join();
    assert!(!is_running, "the freed block is being written to its place");
    filesystem.close().unwrap();
}
