//! A disk with a volatile cache, in virtual time: requests end after times that a seed draws, in
//! any order. What a cut leaves of it is known to the log in front of it.
//!
//! *Invariants*: a request does its work when it ends, and ends once.
//! *Locking*: the generator is under one short lock, taken on its own.
use extant_block::capability::{Capabilities, Remembers};
use extant_block::{BlockDevice, Clock, DeviceInfo, MemoryDevice, Operation, Request, ShortLock};
use extant_sim::clock::{Event, VirtualClock};
use extant_sim::random::Random;
use std::sync::Arc;

/// A device in memory whose requests take time.
pub struct Disk {
    clock: Arc<VirtualClock>,
    seam: Arc<dyn Clock>,
    contents: Arc<MemoryDevice>,
    random: ShortLock<Random>,
}

/// A request that ends later.
struct Ending {
    contents: Arc<MemoryDevice>,
    request: ShortLock<Option<Request>>,
}

impl Disk {
    /// A disk that holds this, in this time.
    pub fn new(clock: &Arc<VirtualClock>, contents: MemoryDevice, seed: u64) -> Disk {
        Disk {
            clock: Arc::clone(clock),
            seam: Arc::clone(clock) as Arc<dyn Clock>,
            contents: Arc::new(contents),
            random: ShortLock::new(Random::for_part(seed, "disk")),
        }
    }
}

impl BlockDevice for Disk {
    fn info(&self) -> DeviceInfo {
        self.contents.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.seam
    }
    fn submit(&self, request: Request) {
        let most_ns = match request.operation {
            Operation::Read => 30_000,
            Operation::Write => 120_000,
            Operation::Flush => 200_000,
        };
        let latency_ns = 1_000 + self.random.lock().below(most_ns);
        let contents = Arc::clone(&self.contents);
        let ending = Ending { contents, request: ShortLock::new(Some(request)) };
        self.clock.schedule(self.clock.local_now() + latency_ns, Arc::new(ending));
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
}

impl Remembers for Disk {
    /// As from the memory of a host: at once.
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.contents.read_remembered(offset, bytes)
    }
}

impl Event for Ending {
    fn fire(self: Arc<Self>, _now: u64) {
        let request = self.request.lock().take();
        if let Some(mut request) = request {
            let result =
                self.contents.perform(request.operation, request.offset, &mut request.segments);
            request.complete(result);
        }
    }
}
