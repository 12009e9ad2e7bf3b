//! The dirty budget: bytes that are dirty and bytes that are being written, on all volumes that
//! share memory, counted per device and per writer.
//!
//! *Invariants*: a volume takes back every byte that it adds. When it is dropped or fails, it takes
//! back all of them, because they can never be written. Totals are the sums over volumes. Bytes
//! that a writer was admitted for are counted (pledged) before it makes anything dirty, so two
//! writers are never given the same room.
//! *Locking*: one short lock, the last one in the order. Policies are asked under it, which is safe
//! because they take no lock. Threads wait with no lock held.
use super::proportion::{Proportions, Tally};
use crate::ranks;
use extant_block::{Apart, BlockDevice, Clock, Operation, ShortLock, WaitQueue};
use extant_policy::throttle::{
    DeviceFacts, FlusherFacts, Fraction, Limits, Load, Period, TaskFacts, Throttle, WriterAdvice,
    WriterFacts,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// How often a device's rates are computed, in nanoseconds.
const PERIOD_NS: u64 = 200_000_000;
/// Time over which a device's write rate is averaged, in nanoseconds.
const AVERAGE_NS: u64 = 3_000_000_000;
/// After a gap longer than this, in nanoseconds, the rates are not computed: a new period starts.
const GAP_NS: u64 = 1_000_000_000;
/// Rates assumed before anything was measured, both of a device and of one writer, in bytes a
/// second.
const RATE_FIRST: u64 = 100_000_000;
/// Writers remembered at most. Those that did nothing lately are forgotten first.
const TASKS_MAX: usize = 1024;

struct DeviceCounts {
    number: u32,
    load: Load,
    written: Tally,
    waiting: u32,
    write_rate: u64,
    task_rate: u64,
    /// Start of the period, and the bytes dirtied and written since.
    period_since: u64,
    period_dirtied: u64,
    period_written: u64,
}

#[derive(Default)]
struct TaskCounts {
    dirtied: Tally,
    account_bytes: u64,
    account_since: u64,
}

struct Member {
    device: usize,
    load: Load,
}

struct Counts {
    load: Load,
    devices: Vec<DeviceCounts>,
    volumes: BTreeMap<u64, Member>,
    volume_next: u64,
    tasks: BTreeMap<u64, TaskCounts>,
    /// Created for the first volume: its limit decides how long past events keep their weight.
    written: Option<Proportions>,
    dirtied: Option<Proportions>,
    /// Rises whenever something was written or taken back, which is what waiting writers wait for.
    falls: u64,
}

/// What is dirty on all volumes that share memory: pass the same budget to each of them.
pub struct DirtyBudget {
    memory_bytes: u64,
    state: Apart<ShortLock<Counts>>,
    /// Copy of `state.load.dirty_bytes`, that is read without the lock.
    dirty_bytes: AtomicU64,
    fallen: WaitQueue,
    clock: Arc<dyn Clock>,
}

/// Numbers of threads, in the order in which they first asked.
static TASK_NEXT: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static TASK: Cell<Option<u64>> = const { Cell::new(None) };
}

fn current_task() -> u64 {
    TASK.with(|task| match task.get() {
        Some(number) => number,
        None => {
            let number = TASK_NEXT.fetch_add(1, Ordering::Relaxed);
            task.set(Some(number));
            number
        }
    })
}

impl DirtyBudget {
    /// A budget for `memory_bytes` of memory. All volumes that share it use this clock.
    pub fn new(clock: &Arc<dyn Clock>, memory_bytes: u64) -> Arc<DirtyBudget> {
        Arc::new(DirtyBudget {
            memory_bytes,
            state: Apart(ShortLock::ranked(
                ranks::LAST,
                Counts {
                    load: Load::default(),
                    devices: Vec::new(),
                    volumes: BTreeMap::new(),
                    volume_next: 0,
                    tasks: BTreeMap::new(),
                    written: None,
                    dirtied: None,
                    falls: 0,
                },
            )),
            dirty_bytes: AtomicU64::new(0),
            fallen: WaitQueue::new(Arc::clone(clock)),
            clock: Arc::clone(clock),
        })
    }

    /// Memory that may hold dirty blocks, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// What is dirty on all devices.
    pub fn load(&self) -> Load {
        self.state.lock().load
    }

    /// What is dirty on one device; nothing if it has no volume.
    pub fn device_load(&self, device: u32) -> Load {
        let state = self.state.lock();
        let found = state.devices.iter().find(|there| there.number == device);
        found.map_or(Load::default(), |device| device.load)
    }

    /// Every device that ever had a volume, with its share of recently completed write-back, in the
    /// order in which the devices joined.
    pub fn shares(&self) -> Vec<(u32, Fraction)> {
        let state = self.state.lock();
        let share =
            |device: &DeviceCounts| (device.number, share_of(&state.written, &device.written));
        state.devices.iter().map(share).collect()
    }

    /// Adds a volume on the device with this number, with blocks of `block_bytes`.
    pub(crate) fn join(
        self: &Arc<DirtyBudget>,
        device: u32,
        block_bytes: u64,
        throttle: &Arc<dyn Throttle>,
    ) -> Arc<Seat> {
        let now = self.clock.now();
        let limits = throttle.limits(self.memory_bytes);
        let mut state = self.state.lock();
        // 2^(2 + log2(pages - 1)) events make a period.
        let half = (limits.limit_bytes.saturating_sub(1)).next_power_of_two();
        state.written.get_or_insert_with(|| Proportions::new(half));
        state.dirtied.get_or_insert_with(|| Proportions::new(half));
        let found = state.devices.iter().position(|there| there.number == device);
        let device = found.unwrap_or_else(|| {
            state.devices.push(DeviceCounts {
                number: device,
                load: Load::default(),
                written: Tally::default(),
                waiting: 0,
                write_rate: RATE_FIRST,
                task_rate: RATE_FIRST,
                period_since: now,
                period_dirtied: 0,
                period_written: 0,
            });
            state.devices.len() - 1
        });
        let number = state.volume_next;
        state.volume_next += 1;
        let load = Load::default();
        state.volumes.insert(number, Member { device, load });
        drop(state);
        Arc::new(Seat {
            budget: Arc::clone(self),
            block_bytes,
            throttle: Arc::clone(throttle),
            limits,
            device,
            number,
            queue: OnceLock::new(),
        })
    }
}

fn share_of(all: &Option<Proportions>, part: &Tally) -> Fraction {
    all.as_ref().map_or(Fraction::ZERO, |all| all.share(part))
}

impl Counts {
    /// Changes what a volume has dirty. Returns the device's index, or `None` if the volume has
    /// left.
    fn change(&mut self, volume: u64, more: Load, less: Load) -> Option<usize> {
        let volume = self.volumes.get_mut(&volume)?;
        let device = volume.device;
        for load in [&mut volume.load, &mut self.devices[device].load, &mut self.load] {
            load.add(more);
            load.sub(less);
        }
        Some(device)
    }

    fn task(&mut self, number: u64) -> &mut TaskCounts {
        if self.tasks.len() >= TASKS_MAX && !self.tasks.contains_key(&number) {
            let dirtied = &self.dirtied;
            self.tasks.retain(|_, task| {
                task.account_bytes > 0 && share_of(dirtied, &task.dirtied).part > 0
            });
            if self.tasks.len() >= TASKS_MAX {
                self.tasks.clear();
            }
        }
        self.tasks.entry(number).or_default()
    }

    fn device_facts(&self, device: usize) -> DeviceFacts {
        let device = &self.devices[device];
        DeviceFacts {
            load: device.load,
            share: share_of(&self.written, &device.written),
            write_rate: device.write_rate,
            task_rate: device.task_rate,
            waiting: device.waiting,
        }
    }

    fn task_facts(&self, now: u64, number: u64) -> TaskFacts {
        let Some(task) = self.tasks.get(&number) else {
            return TaskFacts::default();
        };
        TaskFacts {
            share: share_of(&self.dirtied, &task.dirtied),
            dirtied_bytes: task.account_bytes,
            since_ns: now.saturating_sub(task.account_since),
            ..TaskFacts::default()
        }
    }
}

/// A volume's membership in a budget.
pub struct Seat {
    budget: Arc<DirtyBudget>,
    block_bytes: u64,
    throttle: Arc<dyn Throttle>,
    limits: Limits,
    device: usize,
    number: u64,
    /// Its device, where the end of a write wakes no one while the queue is congested.
    queue: OnceLock<Weak<dyn BlockDevice>>,
}

/// How long a writer has been stopped, and what it has done since.
#[derive(Clone, Copy, Default)]
pub struct Stop {
    /// When it was stopped, in nanoseconds of the clock; `None` if it was not.
    pub since: Option<u64>,
    /// Bytes that the writer itself has written back since.
    pub written_bytes: u64,
}

/// The policy's answer to a writer.
pub enum Answer<'a> {
    /// It may make the pledged number of bytes dirty.
    Go(Pledge<'a>),
    /// It has to do this before it asks again.
    Stop(WriterAdvice),
}

/// Room given to a writer. Taken back when dropped: by then the bytes count as dirty.
pub struct Pledge<'a> {
    seat: Option<&'a Seat>,
    bytes: u64,
}

impl Pledge<'_> {
    /// An empty pledge, for policies that are not asked before a write.
    pub fn none() -> Pledge<'static> {
        Pledge { seat: None, bytes: 0 }
    }
}

impl Drop for Pledge<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat {
            seat.fall(Load { pledged_bytes: self.bytes, ..Load::default() });
        }
    }
}

impl Seat {
    /// The amounts of dirty memory from which the flusher works and writers stop.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Memory shared by all volumes of the budget, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.budget.memory_bytes
    }

    /// Bytes that are dirty on all devices. Takes no lock: every call asks.
    pub fn dirty_bytes(&self) -> u64 {
        self.budget.dirty_bytes.load(Ordering::Acquire)
    }

    /// Changes what the volume has dirty, as [`Counts::change`].
    fn change(&self, state: &mut Counts, more: Load, less: Load) -> Option<usize> {
        let device = state.change(self.number, more, less);
        let dirty = state.load.dirty_bytes;
        // Most changes are of something else, and would only take the number away from others.
        if self.budget.dirty_bytes.load(Ordering::Relaxed) != dirty {
            self.budget.dirty_bytes.store(dirty, Ordering::Release);
        }
        device
    }

    /// What other volumes have dirty.
    pub fn dirty_bytes_of_others(&self) -> u64 {
        let state = self.budget.state.lock();
        let own = state.volumes.get(&self.number).map_or(0, |own| own.load.dirty_bytes);
        state.load.dirty_bytes.saturating_sub(own)
    }

    /// Counts bytes that this thread made dirty.
    pub fn dirtied(&self, bytes: u64) {
        let more = Load { dirty_bytes: bytes, ..Load::default() };
        let now = self.budget.clock.now();
        let mut state = self.budget.state.lock();
        let Some(device) = self.change(&mut state, more, Load::default()) else {
            return;
        };
        state.devices[device].period_dirtied += bytes;
        let number = current_task();
        let mut part = state.task(number).dirtied;
        if let Some(dirtied) = &mut state.dirtied {
            dirtied.count(&mut part, bytes);
        }
        let task = state.task(number);
        task.dirtied = part;
        if task.account_bytes == 0 && task.account_since == 0 {
            task.account_since = now;
        }
        task.account_bytes += bytes;
    }

    /// How many bytes the calling task made dirty since this was last asked.
    pub fn take_account(&self) -> u64 {
        let mut state = self.budget.state.lock();
        std::mem::take(&mut state.task(current_task()).account_bytes)
    }

    /// Counts bytes that stopped being dirty without being written.
    pub fn forgotten(&self, bytes: u64) {
        self.fall(Load { dirty_bytes: bytes, ..Load::default() });
    }

    /// Moves bytes from dirty to being written.
    pub fn write_begins(&self, bytes: u64) {
        let more = Load { writing_bytes: bytes, ..Load::default() };
        let less = Load { dirty_bytes: bytes, ..Load::default() };
        self.change(&mut self.budget.state.lock(), more, less);
    }

    /// Counts bytes whose write has ended, successfully or not.
    pub fn write_ended(&self, bytes: u64) {
        let less = Load { writing_bytes: bytes, ..Load::default() };
        let device = self.queue.get().and_then(Weak::upgrade);
        let is_quiet = device.is_some_and(|device| device.is_congested(Operation::Write));
        let mut state = self.budget.state.lock();
        let Some(device) = self.change(&mut state, Load::default(), less) else {
            return;
        };
        let mut part = state.devices[device].written;
        if let Some(written) = &mut state.written {
            written.count(&mut part, bytes);
        }
        state.devices[device].written = part;
        state.devices[device].period_written += bytes;
        if !is_quiet {
            state.falls += 1;
            drop(state);
            self.budget.fallen.wake_all();
        }
    }

    /// From now on the end of a write on this device wakes a waiting writer, of whatever device,
    /// only if the queue is not congested: as Linux 2.6 woke those who waited for relief.
    pub(crate) fn wake_at_relief(&self, device: &Arc<dyn BlockDevice>) {
        let _ = self.queue.set(Arc::downgrade(device));
    }

    fn fall(&self, less: Load) {
        let mut state = self.budget.state.lock();
        if self.change(&mut state, Load::default(), less).is_some() {
            state.falls += 1;
            // Who comes to wait counts itself under this lock, and only then looks for a fall.
            let any_waits = state.devices.iter().any(|device| device.waiting > 0);
            drop(state);
            if any_waits {
                self.budget.fallen.wake_all();
            }
        }
    }

    /// Has waiting writers look again if no write is under way whose end would. A caller's own
    /// count of what is dirty falls once the writes are submitted; they may have ended by then.
    pub fn submitted(&self) {
        let mut state = self.budget.state.lock();
        if state.load.writing_bytes == 0 {
            state.falls += 1;
            drop(state);
            self.budget.fallen.wake_all();
        }
    }

    /// Takes back everything this volume has counted: it was dropped, or failed and cannot be
    /// written.
    pub fn leave(&self) {
        let mut state = self.budget.state.lock();
        if let Some(volume) = state.volumes.get(&self.number) {
            let load = volume.load;
            self.change(&mut state, Load::default(), load);
            state.volumes.remove(&self.number);
            state.falls += 1;
            drop(state);
            self.budget.fallen.wake_all();
        }
    }

    /// Facts for a writer of this volume.
    fn writer_facts(&self, state: &Counts, now: u64, wanted_bytes: u64, stop: Stop) -> WriterFacts {
        WriterFacts {
            dirty_bytes: state.load.dirty_bytes,
            memory_bytes: self.budget.memory_bytes,
            block_bytes: self.block_bytes,
            all: state.load,
            device: state.device_facts(self.device),
            task: TaskFacts {
                wanted_bytes,
                written_bytes: stop.written_bytes,
                stopped_ns: stop.since.map_or(0, |since| now.saturating_sub(since)),
                ..state.task_facts(now, current_task())
            },
        }
    }

    /// How many bytes of a long call the writer asks for at a time.
    pub fn piece_bytes(&self) -> u64 {
        let now = self.budget.clock.now();
        let state = self.budget.state.lock();
        self.throttle.piece_bytes(&self.writer_facts(&state, now, 0, Stop::default()))
    }

    /// Asks the policy on behalf of this thread. If it may go on, `wanted_bytes` are pledged to it.
    pub fn ask(&self, wanted_bytes: u64, stop: Stop) -> Answer<'_> {
        let now = self.budget.clock.now();
        let mut state = self.budget.state.lock();
        self.look_at_rates(&mut state, now);
        let facts = self.writer_facts(&state, now, wanted_bytes, stop);
        let advice = self.throttle.writer(&facts);
        match advice {
            WriterAdvice::Proceed | WriterAdvice::WakeFlusher => {
                let task = state.task(current_task());
                task.account_bytes = 0;
                task.account_since = now;
            }
            WriterAdvice::OnAccount => {}
            stopped => return Answer::Stop(stopped),
        }
        let more = Load { pledged_bytes: wanted_bytes, ..Load::default() };
        let counts = self.change(&mut state, more, Load::default()).is_some();
        Answer::Go(Pledge { seat: counts.then_some(self), bytes: wanted_bytes })
    }

    /// Once per period, computes how fast the device writes and how fast its writers may.
    fn look_at_rates(&self, state: &mut Counts, now: u64) {
        let device = &state.devices[self.device];
        let length_ns = now.saturating_sub(device.period_since);
        if length_ns < PERIOD_NS {
            return;
        }
        let period = Period { dirtied_bytes: device.period_dirtied, length_ns };
        let written = device.period_written;
        if length_ns <= GAP_NS {
            let old =
                u128::from(device.write_rate) * u128::from(AVERAGE_NS - length_ns.min(AVERAGE_NS));
            let average = (u128::from(written) * 1_000_000_000 + old) / u128::from(AVERAGE_NS);
            state.devices[self.device].write_rate = average.clamp(4096, 1 << 50) as u64;
            let facts = self.writer_facts(state, now, 0, Stop::default());
            state.devices[self.device].task_rate = self.throttle.task_rate(&facts, &period);
        }
        let device = &mut state.devices[self.device];
        device.period_since = now;
        device.period_dirtied = 0;
        device.period_written = 0;
    }

    /// How often something was written or taken back on any volume: what [`Seat::wait`] goes by.
    pub fn falls(&self) -> u64 {
        self.budget.state.lock().falls
    }

    /// Waits until something was written or taken back on any volume since [`Seat::falls`] was
    /// `before`, for at most this long. Meanwhile the flusher's facts show that a writer waits.
    ///
    /// `before` is asked for ahead of the facts by which the caller waits: what the flusher has
    /// done by then ends the wait, however fast it was.
    pub fn wait(&self, before: u64, nanoseconds: u64) {
        let budget = &self.budget;
        let deadline = budget.clock.now().saturating_add(nanoseconds);
        budget.state.lock().devices[self.device].waiting += 1;
        budget.fallen.wait_until_deadline(&budget.state, deadline, |state| {
            (state.falls != before).then_some(())
        });
        budget.state.lock().devices[self.device].waiting -= 1;
    }

    /// Waits until at most this many bytes are being written on all devices, or `nanoseconds` have
    /// passed.
    pub fn wait_for_writes(&self, bytes_max: u64, nanoseconds: u64) {
        let budget = &self.budget;
        let deadline = budget.clock.now().saturating_add(nanoseconds);
        budget.fallen.wait_until_deadline(&budget.state, deadline, |state| {
            (state.load.writing_bytes <= bytes_max).then_some(())
        });
    }

    /// Facts for the flusher of this volume.
    pub fn flusher_facts(&self, now: u64, last_look: u64) -> FlusherFacts {
        let state = self.budget.state.lock();
        FlusherFacts {
            now,
            dirty_bytes: state.load.dirty_bytes,
            memory_bytes: self.budget.memory_bytes,
            block_bytes: self.block_bytes,
            last_look,
            all: state.load,
            device: state.device_facts(self.device),
            is_at_work: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::RealClock;
    use extant_policy::throttle::WriteBehind;

    /// A flusher that is done before its writer has begun to wait ends the wait.
    #[test]
    fn what_fell_before_the_wait_ends_it() {
        const LONG_NS: u64 = 20_000_000_000;
        let clock: Arc<dyn Clock> = RealClock::new();
        let budget = DirtyBudget::new(&clock, 1 << 20);
        let throttle: Arc<dyn Throttle> = Arc::new(WriteBehind);
        let seat = budget.join(0, 4096, &throttle);
        seat.dirtied(4096);
        let falls = seat.falls();
        seat.fall(Load { dirty_bytes: 4096, ..Load::default() });
        let begun = clock.now();
        seat.wait(falls, LONG_NS);
        assert!(clock.now() - begun < LONG_NS);
    }
}
