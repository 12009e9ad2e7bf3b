//! What the processes of a run share.
//!
//! *Locking*: `alive` is short, and waited for with `ended`; `gone`, `rows` and `lives` are short,
//! and no other lock is taken with them held.
use super::mount::Mount;
use super::rows::{Mark, RowKey, SharedRows, Together};
use super::time::Time;
use super::tree::{Tree, TreeSpec};
use super::{ProcessEntry, Scenario};
use crate::ageing::Life;
use crate::report::Traffic;
use crate::wanted::Wanted;
use extant_block::{BlockDevice, FileDevice, ShortLock, WaitQueue};
use extant_sim::device::SimDevice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A drive of a run.
#[derive(Clone)]
pub(super) enum Medium {
    /// A model.
    Simulated(Arc<SimDevice>),
    /// A file or device of the host.
    Host(Arc<FileDevice>),
}

impl Medium {
    pub(super) fn device(&self) -> Arc<dyn BlockDevice> {
        match self {
            Medium::Simulated(device) => Arc::clone(device) as Arc<dyn BlockDevice>,
            Medium::Host(device) => Arc::clone(device) as Arc<dyn BlockDevice>,
        }
    }

    /// The model, if it is one.
    pub(super) fn simulated(&self) -> Option<&SimDevice> {
        match self {
            Medium::Simulated(device) => Some(device),
            Medium::Host(_) => None,
        }
    }

    /// What it has done so far; of the host's own, nothing is known.
    pub(super) fn traffic(&self) -> Traffic {
        match self {
            Medium::Simulated(device) => Traffic::from(&device.statistics()),
            Medium::Host(_) => Traffic::unknown(),
        }
    }
}

/// Trees of a run, by what [`tree_key`] says of their rules: steps with the same rule share one.
pub(super) type Trees = BTreeMap<String, Arc<Tree>>;

/// Names a rule; `None` for a tree that is there already.
pub(super) fn tree_key(spec: &TreeSpec) -> Option<String> {
    match spec {
        TreeSpec::Source(rule) => Some(format!("{rule:?}")),
        TreeSpec::Flat(rule) => Some(format!("{rule:?}")),
        TreeSpec::Listing(_) => None,
    }
}

/// What the processes of a run share.
pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) scale: u64,
    pub(super) time: Time,
    pub(super) drives: Vec<Medium>,
    pub(super) mounts: Vec<Mount>,
    pub(super) trees: Trees,
    /// Copies of each process that have not ended.
    alive: ShortLock<Vec<u32>>,
    ended: WaitQueue,
    stopped: AtomicBool,
    wanted: Wanted,
    /// How often each drive has lost its power.
    cuts: Vec<AtomicU32>,
    /// Numbers of files that steps took away from their trees, by the trees' places.
    gone: ShortLock<BTreeMap<String, BTreeSet<u32>>>,
    /// Rows of processes with several copies.
    rows: ShortLock<SharedRows>,
    /// Lives of file systems between two steps that go on with them.
    lives: ShortLock<BTreeMap<String, Life>>,
}

impl World {
    pub(super) fn new(
        scenario: Scenario,
        scale: u64,
        time: Time,
        drives: Vec<Medium>,
        mounts: Vec<Mount>,
        trees: Trees,
        wanted: Wanted,
    ) -> World {
        let alive = scenario.processes.iter().map(|process| process.copies).collect();
        World {
            ended: WaitQueue::new(time.clock()),
            alive: ShortLock::new(alive),
            stopped: AtomicBool::new(false),
            wanted,
            gone: ShortLock::new(BTreeMap::new()),
            rows: ShortLock::new(SharedRows::default()),
            lives: ShortLock::new(BTreeMap::new()),
            cuts: drives.iter().map(|_| AtomicU32::new(0)).collect(),
            scenario,
            scale,
            time,
            drives,
            mounts,
            trees,
        }
    }

    pub(super) fn process(&self, number: usize) -> &ProcessEntry {
        &self.scenario.processes[number]
    }

    /// A count of the scenario, scaled; at least 1.
    pub(super) fn scaled(&self, count: u64) -> u64 {
        (count / self.scale).max(1)
    }

    /// Waits until all copies of a process ended.
    pub(super) fn join(&self, process: usize) {
        self.ended.wait_until(&self.alive, |alive| (alive[process] == 0).then_some(()));
    }

    /// Whether all copies of a process ended.
    pub(super) fn has_ended(&self, process: usize) -> bool {
        self.alive.lock()[process] == 0
    }

    /// One copy of a process ended.
    pub(super) fn end(&self, process: usize) {
        self.alive.lock()[process] -= 1;
        self.ended.wake_all();
    }

    /// Numbers of files that are gone from the tree at this place.
    pub(super) fn gone(&self, place: &str) -> BTreeSet<u32> {
        self.gone.lock().get(place).cloned().unwrap_or_default()
    }

    /// The file of that number is gone from the tree at this place.
    pub(super) fn take_away(&self, place: &str, number: u32) {
        self.gone.lock().entry(place.to_owned()).or_default().insert(number);
    }

    /// The tree at this place is made again.
    pub(super) fn give_back(&self, place: &str) {
        self.gone.lock().remove(place);
    }

    /// A copy of a process begins a part of a row.
    pub(super) fn enter_row(&self, process: usize, key: RowKey, now: Mark) {
        if self.process(process).copies > 1 {
            self.rows.lock().enter((process, key), now);
        }
    }

    /// A copy of a process ends it.
    pub(super) fn leave_row(&self, process: usize, key: RowKey, now: Mark) {
        if self.process(process).copies > 1 {
            self.rows.lock().leave((process, key), now);
        }
    }

    /// What the copies of a process did together in a row; `None` where there is one copy.
    pub(super) fn together(&self, process: usize, key: RowKey) -> Option<Together> {
        self.rows.lock().get(&(process, key))
    }

    /// The life of that name, for a step to go on with it.
    pub(super) fn take_life(&self, name: &str) -> Option<Life> {
        self.lives.lock().remove(name)
    }

    /// A life whose step has ended.
    pub(super) fn keep_life(&self, name: String, life: Life) {
        self.lives.lock().insert(name, life);
    }

    /// How often the drive of that number has lost its power.
    pub(super) fn cuts(&self, drive: usize) -> u32 {
        self.cuts[drive].load(Ordering::Relaxed)
    }

    /// The drive of that number loses its power: processes on it end at their next call. Returns
    /// how often it has.
    pub(super) fn cut(&self, drive: usize) -> u32 {
        self.cuts[drive].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A process failed: the others end at their next call.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || !self.wanted.is_wanted()
    }
}
