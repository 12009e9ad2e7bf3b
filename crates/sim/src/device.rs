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
//! *Invariants*: a request is in `waiting` from its submission to its end, and `left` is what the
//! drive has not yet answered of it. At most `queue_depth` commands are inside the drive. While
//! anything is to happen, an event is scheduled for the earliest time of it. Completions of others
//! are never called within `submit`. Without power nothing waits, and nothing is inside the drive.
//!
//! *Locking*: one short lock, before the clock's; not held while a completion runs or bytes are
//! copied.
// tidy: long because requests, who waits for them and the power are one state under one lock
mod past;
mod statistics;
mod timeline;

use crate::clock::{Event, VirtualClock, WaitWatch, Waits};
use crate::drive::{self, Done, Drive, DriveInfo, Unflushed};
use crate::queue::{Command, HostQueue, Next, QueueSettings, Queued, Unplug, WakeUp};
use crate::trace::TraceRecord;
use extant_block::capability::{Capabilities, Congests, ReadsMetadata};
use extant_block::device::read_as_metadata;
use extant_block::{
    BlockDevice, Clock, DeviceError, DeviceInfo, MemoryDevice, Operation, Request, Segment,
    ShortLock, WaitQueue, Waker,
};
use past::Past;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Weak};
use timeline::Timeline;

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

/// Stretches of bytes that a write replaces, each with its offset.
type Replaced = Vec<(u64, Vec<u8>)>;

/// What requests without power are told.
const POWER_CUT: &str = "the power was cut";

/// A request on its way.
struct Pending {
    request: Request,
    /// In whole sectors.
    queued: Queued,
    /// Bytes of `queued` that the drive has not answered.
    left: u64,
    /// When it leaves its process.
    arrival: u64,
    /// What was before it when it arrived.
    depth: u64,
}

/// A command in the drive.
struct Inside {
    command: Command,
    dispatched: u64,
}

/// Under the device's lock.
struct Traffic {
    queue: HostQueue,
    drive: Box<dyn Drive>,
    /// By sequence, which rises by submission.
    waiting: FxHashMap<u64, Pending>,
    sequence: u64,
    /// Requests that are still to leave their process: by time and sequence.
    arriving: BTreeSet<(u64, u64)>,
    inside: FxHashMap<u64, Inside>,
    /// The byte behind the last command sent.
    head: u64,
    /// Until when the queue wants to be left alone.
    idle_until: Option<u64>,
    /// The earliest event that is scheduled.
    scheduled: Option<u64>,
    /// Since when the drive has had a command.
    busy_since: u64,
    statistics: Statistics,
    timeline: Timeline,
    hash: u64,
    records: Vec<TraceRecord>,
    /// `None` where the power is never cut.
    past: Option<Past>,
    power: Power,
    /// Commands that ended.
    ended: u64,
    /// Who waits for how many commands to have ended.
    waiters: Vec<(u64, Waker)>,
    /// Processes that sleep until the queue has room in a direction.
    sleepers: Vec<(Operation, Waker)>,
    /// How many reads and writes have ended that left the queue not congested.
    relieved: [u64; 2],
    /// Kept for its memory.
    done: Vec<Done>,
}

/// Whether there is power.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Off,
}

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
        read_as_metadata(self, offset, bytes)
    }
}

/// Where the counts of this direction are.
fn direction_of(operation: Operation) -> usize {
    usize::from(operation != Operation::Read)
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

impl Traffic {
    fn new(settings: &DeviceSettings, drive: Box<dyn Drive>) -> Traffic {
        Traffic {
            queue: HostQueue::new(&settings.queue),
            drive,
            waiting: FxHashMap::default(),
            sequence: 0,
            arriving: BTreeSet::new(),
            inside: FxHashMap::default(),
            head: 0,
            idle_until: None,
            scheduled: None,
            busy_since: 0,
            statistics: Statistics::default(),
            timeline: Timeline::default(),
            hash: 0,
            records: Vec::new(),
            past: (settings.power_cuts == PowerCuts::Possible).then(Past::new),
            power: Power::On,
            ended: 0,
            waiters: Vec::new(),
            sleepers: Vec::new(),
            relieved: [0; 2],
            done: Vec::new(),
        }
    }

    /// A request will arrive.
    fn add(&mut self, request: Request, queued: Queued, arrival: u64, replaced: Replaced) {
        let sequence = self.sequence;
        self.sequence += 1;
        if let Some(past) = &mut self.past {
            past.record(sequence, queued.bytes, replaced);
        }
        let queued = Queued { sequence, ..queued };
        let pending = Pending { request, queued, left: queued.bytes, arrival, depth: 0 };
        self.waiting.insert(sequence, pending);
        self.arriving.insert((arrival, sequence));
    }

    /// Puts into the queue what has left its process.
    fn let_arrive(&mut self, now: u64) {
        while let Some((at, sequence)) = self.arriving.first().copied()
            && at <= now
        {
            self.arriving.pop_first();
            let depth = self.queue.waiting() + self.queue.under_way();
            self.statistics.count_depth(depth);
            self.timeline.count_depth(depth, now);
            if let Some(pending) = self.waiting.get_mut(&sequence) {
                pending.depth = depth;
                self.queue.add(pending.queued, now);
                if pending.queued.stream == NO_STREAM {
                    // No process will wait for anything after this.
                    self.queue.unplug();
                }
            }
        }
    }

    /// Sends to the drive what the queue gives and the drive has room for.
    fn dispatch(&mut self, now: u64) {
        self.idle_until = None;
        while self.inside.len() < self.drive.info().queue_depth.max(1) as usize {
            match self.queue.next(self.head, now) {
                Next::Dispatch(command) => self.send(command, now),
                Next::IdleUntil(until) => {
                    self.idle_until = Some(until.max(now + 1));
                    return;
                }
                Next::Empty => return,
            }
        }
    }

    fn send(&mut self, command: Command, now: u64) {
        self.statistics.count_seek(&command, self.head);
        self.timeline.count_seek(&command, self.head, now);
        if command.operation != Operation::Flush {
            self.head = command.offset + command.bytes;
        }
        if self.inside.is_empty() {
            self.busy_since = now;
        }
        let sent = drive::Command {
            id: command.id,
            operation: command.operation,
            offset: command.offset,
            bytes: command.bytes,
            force_unit_access: false,
        };
        if let Some(past) = &mut self.past {
            past.sent(&command);
        }
        let dispatched = now;
        self.inside.insert(command.id, Inside { command, dispatched });
        self.drive.submit(sent, now);
    }

    /// Takes the answers of the drive; gives the requests that have ended, in order.
    fn advance(&mut self, now: u64, trace: TraceKeeping) -> Vec<Pending> {
        let mut done = std::mem::take(&mut self.done);
        let mut ended = Vec::new();
        self.drive.advance(now, &mut done);
        for answer in done.drain(..) {
            let Some(inside) = self.inside.remove(&answer.id) else {
                debug_assert!(false, "the drive answered command {} twice, or uncalled", answer.id);
                continue;
            };
            debug_assert_eq!(answer.parts.total(), answer.at - inside.dispatched, "{answer:?}");
            self.queue.completed(answer.id, now);
            let operation = inside.command.operation;
            self.relieved[direction_of(operation)] += u64::from(self.queue.is_relieved(operation));
            self.ended += 1;
            if self.inside.is_empty() {
                self.statistics.busy_ns += answer.at - self.busy_since;
            }
            self.record(&answer, &inside, trace);
            self.end_parts(&inside.command, answer.at, &mut ended);
        }
        self.done = done;
        if let Some(past) = &mut self.past
            && past.is_crowded()
        {
            past.forget(&self.drive.unflushed(now));
        }
        self.wake_waiters();
        ended
    }

    /// Wakes those for whose requests there is room; without power, all.
    fn wake_sleepers(&mut self) {
        let (queue, power) = (&self.queue, self.power);
        self.sleepers.retain(|(operation, waker)| {
            let sleeps = queue.outside(*operation) > 0 && power == Power::On;
            if !sleeps {
                waker.wake();
            }
            sleeps
        });
    }

    /// Wakes those whose commands have ended; without power, all.
    fn wake_waiters(&mut self) {
        let (ended, power) = (self.ended, self.power);
        self.waiters.retain(|(count, waker)| {
            let waits = *count > ended && power == Power::On;
            if !waits {
                waker.wake();
            }
            waits
        });
    }

    /// Empties queue and drive. Returns what the drive had not brought to the medium, and what was
    /// under way, in the order of submission.
    fn lose_power(&mut self, now: u64) -> (Vec<Unflushed>, Vec<Pending>) {
        if !self.inside.is_empty() {
            self.statistics.busy_ns += now.saturating_sub(self.busy_since);
        }
        self.power = Power::Off;
        self.queue.clear();
        self.inside.clear();
        self.arriving.clear();
        (self.idle_until, self.head) = (None, 0);
        self.wake_waiters();
        self.wake_sleepers();
        (self.drive.power_cut(now), self.take_waiting())
    }

    /// What was submitted and has not ended, in that order.
    fn take_waiting(&mut self) -> Vec<Pending> {
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_unstable_by_key(|(sequence, _)| *sequence);
        waiting.into_iter().map(|(_, pending)| pending).collect()
    }

    /// A command ended: so do the requests of which it was the last piece.
    fn end_parts(&mut self, command: &Command, at: u64, ended: &mut Vec<Pending>) {
        for part in &command.parts {
            let Some(pending) = self.waiting.get_mut(&part.sequence) else {
                debug_assert!(false, "request {} ended twice", part.sequence);
                continue;
            };
            pending.left = pending.left.saturating_sub(part.bytes);
            if pending.left == 0
                && let Some(pending) = self.waiting.remove(&part.sequence)
            {
                let latency = at.saturating_sub(pending.arrival);
                let request = &pending.request;
                self.statistics.count_request(request.operation, request.bytes(), latency);
                ended.push(pending);
            }
        }
    }

    fn record(&mut self, answer: &Done, inside: &Inside, trace: TraceKeeping) {
        let Inside { command, dispatched } = inside;
        self.statistics.count_command(answer, command.parts.len());
        self.timeline.count_command(command, answer);
        let operation = match command.operation {
            Operation::Read => 1,
            Operation::Write => 2,
            Operation::Flush => 3,
        };
        for word in [*dispatched, operation, command.offset, command.bytes, answer.at] {
            self.hash = stir(self.hash, word);
        }
        if trace == TraceKeeping::None {
            return;
        }
        let first = command.parts.iter().filter_map(|part| self.waiting.get(&part.sequence));
        let first = first.min_by_key(|pending| (pending.arrival, pending.queued.sequence));
        self.records.push(TraceRecord {
            arrival_ns: first.map_or(*dispatched, |pending| pending.arrival),
            dispatch_ns: *dispatched,
            completion_ns: answer.at,
            operation: command.operation,
            offset: command.offset,
            bytes: command.bytes,
            stream: command.stream,
            parts: answer.parts,
            hit: answer.hit,
            queue_depth: first
                .map_or(0, |pending| u32::try_from(pending.depth).unwrap_or(u32::MAX)),
        });
    }
}

/// Adds a word to a hash: the finishing steps of splitmix64.
fn stir(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
