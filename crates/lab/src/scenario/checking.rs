//! fsck as a step: the check of `extant check` on the drive of the scenario, in its time.
use super::process::{Outcome, Stop, Worker};
use super::step::Problems;
use extant_block::capability::Capabilities;
use extant_block::{BlockDevice, Clock, Completed, DeviceInfo, Operation, Request, Segment};
use extant_inspect::{CheckOptions, ReadOrder, check};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Problems that are named when a check finds any.
const NAMED_MAX: usize = 5;

impl Worker {
    /// Checks the file system, closed meanwhile; one that is not open stays closed.
    pub(super) fn check(
        &mut self,
        plan: ReadOrder,
        threads: NonZeroU32,
        processor_ns_per_kib: u64,
        problems: Problems,
    ) -> Outcome {
        let world = Arc::clone(&self.world);
        let mount = &world.mounts[self.mount()?];
        let was_open = mount.is_open();
        mount.close()?;
        let read = Arc::new(Examined {
            device: Arc::clone(&mount.device),
            nanoseconds_per_kib: processor_ns_per_kib,
            bytes_read: AtomicU64::new(0),
        });
        let options = CheckOptions { read_order: plan, threads, ..CheckOptions::default() };
        let report = check(Arc::clone(&read) as Arc<dyn BlockDevice>, &options)?;
        self.work.bytes_read += read.bytes_read.load(Ordering::Relaxed);
        self.work.directories += report.summary.directories;
        self.work.files += report.summary.inodes_used.saturating_sub(report.summary.directories);
        self.work.problems += report.problems.len() as u64;
        if !report.is_clean() && problems == Problems::Fail {
            let named = report.problems.iter().take(NAMED_MAX).map(ToString::to_string);
            let named: Vec<String> = named.collect();
            return Err(Stop::Failed(format!("problems: {}", named.join("; "))));
        }
        match was_open {
            true => Ok(mount.open()?),
            false => Ok(()),
        }
    }
}

/// A device whose reader computes something with all that it reads.
struct Examined {
    device: Arc<dyn BlockDevice>,
    nanoseconds_per_kib: u64,
    bytes_read: AtomicU64,
}

impl Examined {
    fn examine(&self, operation: Operation, bytes: u64) {
        if operation == Operation::Read {
            self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            self.clock().charge(bytes.saturating_mul(self.nanoseconds_per_kib) / 1024);
        }
    }
}

impl BlockDevice for Examined {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }

    fn submit(&self, request: Request) {
        // What is asked for ahead is computed with by the one that asks.
        let (operation, bytes) = (request.operation, request.bytes());
        self.device.submit(request);
        self.examine(operation, bytes);
    }

    fn capabilities(&self) -> Capabilities<'_> {
        // All that a checker reads is examined, and its holes too.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }

    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let bytes = extant_block::device::segments_bytes(&segments);
        let completed = self.device.transfer(operation, offset, segments);
        self.examine(operation, bytes);
        completed
    }
}
