//! A simulated block device: the host's queue, a drive, and what is on it, in virtual time.
//!
//! ```text
//!   submit -> arriving -> HostQueue -> Drive -> completion
//!              (CPU work)  waiting     inside
//! ```
//!
//! Bytes that are written are on the device when the write is submitted, bytes that are read are
//! those at the read's end: what is under way at the same time has no order. Phantom segments carry
//! no bytes and take the same time. A request leaves its process when the CPU work is done that the
//! process charged before it ([`VirtualClock::local_now`]). The queue works in whole sectors: what
//! is not aligned costs the sectors that it touches. A flush goes to the drive when all writes that
//! were submitted before it have gone.
//!
//! At a power cut ([`SimDevice::power_cut`]) what the drive has not brought to its medium is as it
//! was before, sector by sector, and requests under way end with an error. That needs the bytes
//! that writes replaced, which are kept where it is asked for ([`PowerCuts`]).
//!
//! *Invariants*: while anything is to happen, an event is scheduled for the earliest time of it.
//! Completions of others are never called within `submit`. Those of requests are in `traffic`.
//!
//! *Locking*: one short lock, before the clock's; not held while a completion runs or bytes are
//! copied.
mod past;
mod statistics;
mod timeline;
mod traffic;

use crate::clock::{Event, VirtualClock, WaitWatch, Waits};
use crate::drive::{self, Drive, DriveInfo};
use crate::queue::{QueueSettings, Queued, Unplug, WakeUp};
use crate::trace::TraceRecord;
use extant_block::capability::{Capabilities, Congests, ReadsMetadata};
use extant_block::{
    BlockDevice, Clock, DeviceError, DeviceInfo, MemoryDevice, Operation, Pending, Request,
    Segment, ShortLock, Urgency, WaitQueue,
};
use past::Past;
use std::io;
use std::sync::{Arc, Weak};
use traffic::{Power, Replaced, Traffic, direction_of};

pub use past::{PowerLoss, Survivors};
pub use statistics::{Histogram, Statistics};
pub use timeline::{Activity, Field, INTERVALS, Interval, ROWS};

/// Metadata lies scattered over a large drive: contents are kept in pieces of this.
const CHUNK_BYTES: usize = 4096;

/// The stream of a request that no process made: one from within an event.
pub const NO_STREAM: u32 = u32::MAX;

/// Whether a device remembers every command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TraceKeeping {
    /// No: only sums and the hash.
    #[default]
    None,
    /// Yes: about 150 bytes a command, until they are taken.
    All,
}

/// Whether the power may be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PowerCuts {
    /// No: what writes replace is not kept.
    #[default]
    Excluded,
    /// Yes: until a write is on the medium, the bytes that it replaces take memory.
    Possible,
}

/// What a simulated device is like, its drive aside.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceSettings {
    /// Its name, in messages and reports.
    pub name: String,
    /// The host's queue.
    pub queue: QueueSettings,
    /// Whether commands are remembered.
    pub trace: TraceKeeping,
    /// Whether its power may be cut.
    pub power_cuts: PowerCuts,
}

/// A block device in virtual time.
pub struct SimDevice {
    clock: Arc<VirtualClock>,
    clock_seam: Arc<dyn Clock>,
    name: String,
    drive_info: DriveInfo,
    contents: MemoryDevice,
    trace: TraceKeeping,
    power_cuts: PowerCuts,
    wake_up: WakeUp,
    unplug: Unplug,
    port: Arc<Port>,
    state: ShortLock<Traffic>,
    /// Those that wait until the queue is not congested.
    relief: WaitQueue,
}

/// What the clock fires: it does not keep the device alive.
struct Port {
    device: Weak<SimDevice>,
}

/// What requests without power are told.
const POWER_CUT: &str = "the power was cut";

impl SimDevice {
    /// An empty device of the drive's size.
    pub fn new(
        clock: Arc<VirtualClock>,
        drive: Box<dyn Drive>,
        settings: DeviceSettings,
    ) -> Arc<SimDevice> {
        let seam: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let contents = MemoryDevice::with_chunks(seam, drive.info().bytes, CHUNK_BYTES);
        SimDevice::holding(clock, drive, settings, contents)
    }

    /// A device of the contents' size, with these contents on it.
    ///
    /// # Errors
    /// `InvalidInput`: they are larger than the drive.
    pub fn with_contents(
        clock: Arc<VirtualClock>,
        drive: Box<dyn Drive>,
        settings: DeviceSettings,
        contents: MemoryDevice,
    ) -> io::Result<Arc<SimDevice>> {
        let (bytes, room) = (contents.info().bytes, drive.info().bytes);
        if bytes > room {
            let DeviceSettings { name, .. } = settings;
            let message = format!("{name}: contents of {bytes} bytes on a drive of {room}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(SimDevice::holding(clock, drive, settings, contents))
    }

    fn holding(
        clock: Arc<VirtualClock>,
        drive: Box<dyn Drive>,
        settings: DeviceSettings,
        contents: MemoryDevice,
    ) -> Arc<SimDevice> {
        let (unplug, plug_ns) = (settings.queue.unplug, settings.queue.plug_ns);
        let device = Arc::new_cyclic(|device| SimDevice {
            clock_seam: Arc::clone(&clock) as Arc<dyn Clock>,
            drive_info: drive.info().clone(),
            contents: contents.named(&settings.name),
            trace: settings.trace,
            power_cuts: settings.power_cuts,
            port: Arc::new(Port { device: Weak::clone(device) }),
            state: ShortLock::new(Traffic::new(&settings, drive)),
            wake_up: settings.queue.wake_up,
            unplug,
            relief: WaitQueue::new(Arc::clone(&clock) as Arc<dyn Clock>),
            name: settings.name,
            clock,
        });
        if plug_ns > 0 {
            let port: Weak<Port> = Arc::downgrade(&device.port);
            device.clock.watch_waits(port);
        }
        device
    }

    /// What is on it: to be loaded before a run, or saved after it.
    pub fn contents(&self) -> &MemoryDevice {
        &self.contents
    }

    /// What its drive says of itself.
    pub fn drive(&self) -> &DriveInfo {
        &self.drive_info
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        let now = self.clock.now();
        let state = self.state.lock();
        let mut statistics = state.statistics.clone();
        if !state.inside.is_empty() {
            statistics.busy_ns += now.saturating_sub(state.busy_since);
        }
        statistics.idle_ns = now.saturating_sub(statistics.busy_ns);
        statistics.queue = state.queue.statistics();
        statistics
    }

    /// What it has done so far, over time.
    pub fn activity(&self) -> Activity {
        self.state.lock().timeline.activity()
    }

    /// The commands that ended since the last call, in the order of their ends; none unless they
    /// are kept.
    pub fn take_trace(&self) -> Vec<TraceRecord> {
        std::mem::take(&mut self.state.lock().records)
    }

    /// A hash of all commands that ended: what, where, and when. Equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.state.lock().hash
    }

    /// Cuts the power: requests under way end with an error, and what is not on the medium, as the
    /// drive says, is as it was before. Every request is refused until [`SimDevice::power_on`].
    /// Returns what was lost; nothing when there is no power. The same run gives the same medium.
    ///
    /// # Errors
    /// `InvalidInput`: old contents were not kept ([`PowerCuts::Excluded`]).
    pub fn power_cut(&self, survivors: Survivors) -> io::Result<PowerLoss> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let Some(mut past) = state.past.take() else {
            let message = format!("{}: is not kept so that its power can be cut", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let (lost, pending) = state.lose_power(now);
        // What is refused from here on changes nothing.
        drop(state);
        self.relief.wake_all();
        let sector_bytes = u64::from(self.drive_info.sector_bytes.max(1));
        let bytes = past.undo(&lost, survivors, sector_bytes, &self.contents);
        self.state.lock().past = Some(past);
        let requests = pending.len() as u64;
        for pending in pending {
            let error = self.error(&pending.request, io::Error::other(POWER_CUT));
            pending.request.complete(Err(error));
        }
        Ok(PowerLoss { requests, bytes: bytes? })
    }

    /// Lets it work again, with empty caches.
    pub fn power_on(&self) {
        self.state.lock().power = Power::On;
    }

    /// Waits until that many more commands have ended, or the power is cut.
    pub fn wait_for_commands(&self, count: u64) {
        let waker = self.clock_seam.waker();
        let target = {
            let mut state = self.state.lock();
            let target = state.ended.saturating_add(count);
            state.waiters.push((target, waker));
            target
        };
        let is_over = || {
            let state = self.state.lock();
            state.ended >= target || state.power == Power::Off
        };
        while !is_over() {
            self.clock_seam.park(None);
        }
    }

    /// What was asked of the drive so far and what that costs, where requests cost money.
    pub fn bill(&self) -> Option<drive::object::Bill> {
        self.state.lock().drive.bill()
    }

    /// Refuses what cannot be done, before anything is done.
    fn check(&self, request: &Request) -> io::Result<()> {
        if self.state.lock().power == Power::Off {
            return Err(self.error(request, io::Error::other(POWER_CUT)));
        }
        self.contents.check(request.operation, request.offset, request.bytes())?;
        if request.operation == Operation::Read && request.segments.iter().any(Segment::is_shared) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a read into shared memory");
            return Err(self.error(request, source));
        }
        Ok(())
    }

    fn error(&self, request: &Request, source: io::Error) -> io::Error {
        DeviceError {
            device: self.name.clone(),
            operation: request.operation,
            offset: request.offset,
            source,
        }
        .into()
    }

    /// The request as the queue sees it: in whole sectors.
    fn queued(&self, request: &Request) -> Queued {
        let sector = u64::from(self.drive_info.sector_bytes.max(1));
        let (offset, bytes) = match request.operation {
            Operation::Flush => (0, 0),
            Operation::Read | Operation::Write => {
                let start = request.offset - request.offset % sector;
                let end = (request.offset + request.bytes()).next_multiple_of(sector);
                (start, end - start)
            }
        };
        Queued {
            sequence: 0,
            operation: request.operation,
            offset,
            bytes,
            urgency: request.urgency,
            stream: self.clock.process().unwrap_or(NO_STREAM),
        }
    }

    /// Schedules the next event, if it is earlier than what is scheduled.
    fn schedule(&self, state: &mut Traffic) {
        let arriving = state.arriving.first().map(|(at, _)| *at);
        let next = [state.drive.next_event(), state.idle_until, arriving];
        if let Some(at) = next.into_iter().flatten().min()
            && state.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            state.scheduled = Some(at);
            self.clock.schedule(at, Arc::clone(&self.port) as Arc<dyn Event>);
        }
    }

    /// A process waits. In Linux 2.4 that pulls the plug of every device, whatever is waited for;
    /// later, of the one from which it wants something.
    fn unplug(&self, now: u64, waits: Waits) {
        let mut state = self.state.lock();
        if !state.queue.is_plugged() {
            return;
        }
        let is_wanted = match (self.unplug, waits) {
            (Unplug::OnWait, _) => true,
            (Unplug::OnArrival, Waits::Process(process)) => state.queue.holds_of(process),
            (Unplug::OnArrival, Waits::Other) => false,
        };
        if is_wanted {
            state.queue.unplug();
            state.dispatch(now);
            self.schedule(&mut state);
        }
    }

    /// Something may have ended or arrived.
    fn advance(&self, now: u64) {
        let mut state = self.state.lock();
        if state.scheduled.is_some_and(|scheduled| scheduled <= now) {
            state.scheduled = None;
        }
        let ended = state.advance(now, self.trace);
        state.let_arrive(now);
        state.dispatch(now);
        self.schedule(&mut state);
        state.wake_sleepers();
        drop(state);
        if !ended.is_empty() {
            self.relief.wake_all();
        }
        ended.into_iter().for_each(|pending| self.complete(pending.request));
    }

    /// Puts what a write brings onto the device; returns what it replaces, where that is kept.
    fn store(&self, request: &mut Request) -> io::Result<Replaced> {
        if request.operation != Operation::Write {
            return Ok(Vec::new());
        }
        let old = match self.power_cuts {
            PowerCuts::Excluded => Vec::new(),
            PowerCuts::Possible => Past::before(&self.contents, request.offset, &request.segments)?,
        };
        self.contents.perform(Operation::Write, request.offset, &mut request.segments)?;
        Ok(old)
    }

    fn complete(&self, mut request: Request) {
        let result = match request.operation {
            Operation::Read => {
                self.contents.perform(Operation::Read, request.offset, &mut request.segments)
            }
            Operation::Write | Operation::Flush => Ok(()),
        };
        request.complete(result);
    }
}

impl BlockDevice for SimDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name.clone(),
            bytes: self.contents.info().bytes,
            sector_bytes: self.drive_info.sector_bytes,
            read_only: false,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock_seam
    }
    /// By a process or within an event. What is refused, or has no bytes, ends at once.
    fn submit(&self, mut request: Request) {
        if let Err(error) = self.check(&request) {
            return request.complete(Err(error));
        }
        let bytes = request.bytes();
        if bytes == 0 && request.operation != Operation::Flush {
            return request.complete(Ok(()));
        }
        let replaced = match self.store(&mut request) {
            Err(error) => return request.complete(Err(error)),
            Ok(replaced) => replaced,
        };
        let queued = self.queued(&request);
        let now = self.clock.now();
        let arrival = self.clock.local_now();
        let mut state = self.state.lock();
        state.add(request, queued, arrival, replaced);
        // An answer that is due at this very moment comes first.
        if arrival <= now && state.drive.next_event().is_none_or(|due| due > now) {
            state.let_arrive(now);
            state.dispatch(now);
        }
        self.schedule(&mut state);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: Some(self),
            holes: None,
            discard: None,
            metadata: Some(self),
            host_file: None,
            annex: None,
        }
    }
}

impl Congests for SimDevice {
    fn wait_for_room(&self, operation: Operation) {
        if self.wake_up == WakeUp::EachSent || self.clock.process().is_none() {
            return;
        }
        loop {
            let waker = self.clock_seam.waker();
            {
                let mut state = self.state.lock();
                if state.queue.outside(operation) == 0 || state.power == Power::Off {
                    return;
                }
                state.sleepers.push((operation, waker));
            }
            self.clock_seam.park(None);
        }
    }
    fn is_congested(&self, operation: Operation) -> bool {
        self.state.lock().queue.is_congested(operation)
    }
    fn wait_for_relief(&self, operation: Operation, deadline: u64) {
        if self.clock.process().is_none() {
            return;
        }
        let direction = direction_of(operation);
        let before = self.state.lock().relieved[direction];
        self.relief.wait_until_deadline(&self.state, deadline, |state| {
            let is_over = state.relieved[direction] > before || state.power == Power::Off;
            is_over.then_some(())
        });
    }
}

impl ReadsMetadata for SimDevice {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let segments = vec![Segment::Owned(vec![0; bytes.len()])];
        let submit = |request| self.submit(request);
        let (operation, urgency) = (Operation::Read, Urgency::Metadata);
        let pending = Pending::start(self.clock(), submit, operation, offset, segments, urgency);
        pending.wait().copy_to(bytes, &self.info().name)
    }
}

impl WaitWatch for Port {
    fn process_waits(&self, now: u64, waits: Waits) {
        if let Some(device) = self.device.upgrade() {
            device.unplug(now, waits);
        }
    }
}

impl Event for Port {
    fn fire(self: Arc<Self>, now: u64) {
        if let Some(device) = self.device.upgrade() {
            device.advance(now);
        }
    }
}

/// What is under way when the device is no longer held ends with an error.
impl Drop for SimDevice {
    fn drop(&mut self) {
        let lost = self.state.get_mut().take_waiting();
        for pending in lost {
            let source = io::Error::other("the device went away with requests under way");
            let error = self.error(&pending.request, source);
            pending.request.complete(Err(error));
        }
    }
}
