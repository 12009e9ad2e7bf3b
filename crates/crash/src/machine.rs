//! Processes on a volume in virtual time, held up by a seed at locks, caches and devices, with a
//! log of what the device was asked for.
use crate::base::{Base, TODAY};
use crate::device::Disk;
use crate::history::{History, Point, Script, Span};
use crate::operation::Held;
use extant_block::{BlockDevice, Clock, ShortLock, Task};
use extant_engine::{Access, Filesystem};
use extant_sim::CrashLog;
use extant_sim::clock::{Settings, VirtualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the device was asked for.
pub type Log = CrashLog<Arc<Disk>>;

/// What came of it.
pub struct Lived {
    /// What the processes did, and when.
    pub history: History,
    /// What the device was asked for.
    pub log: Arc<Log>,
}

/// What the processes share.
struct Shared {
    volume: Filesystem,
    log: Arc<Log>,
    tick: AtomicU64,
    spans: Vec<ShortLock<Vec<Span>>>,
    failure: ShortLock<Option<String>>,
}

impl Shared {
    fn point(&self) -> Point {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        Point { tick, moment: self.log.moments() }
    }

    fn live(&self, process: usize, script: &Script) {
        let mut held = Held::default();
        for (number, step) in script.steps.iter().enumerate() {
            let begun = self.point();
            self.spans[process].lock().push(Span { begun, ended: None });
            if let Err(error) = step.operation.run(&self.volume, &mut held) {
                let place = format!("process {process}, step {number}, {:?}", step.operation);
                self.failure.lock().get_or_insert(format!("{place}: {error}"));
                return;
            }
            let ended = Some(self.point());
            if let Some(span) = self.spans[process].lock().last_mut() {
                span.ended = ended;
            }
        }
    }
}

/// Lives these scripts at the same time on a copy of a volume, and closes it.
///
/// # Errors
/// An operation that fails; a deadlock or a panic of the engine.
pub fn live(base: &Base, scripts: Vec<Script>, seed: u64) -> Result<Lived, String> {
    let settings = Settings { seed_wall: TODAY, processors: 4, ..Settings::default() };
    let clock = VirtualClock::preempted(settings, seed);
    let log = Arc::new(CrashLog::new(Arc::new(Disk::new(&clock, base.medium.snapshot(), seed))));
    let options = base.setting.options(Access::ReadWrite)?;
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let (inner, inner_log) = (Arc::clone(&clock), Arc::clone(&log));
    let outcome = clock.run("machine", move || {
        let volume = Filesystem::open(device, &options).map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            volume: volume.clone(),
            log: inner_log,
            tick: AtomicU64::new(0),
            spans: scripts.iter().map(|_| ShortLock::default()).collect(),
            failure: ShortLock::default(),
        });
        let scripts = Arc::new(scripts);
        let spawn = |process: usize| {
            let (shared, scripts) = (Arc::clone(&shared), Arc::clone(&scripts));
            inner.spawn("process", Box::new(move || shared.live(process, &scripts[process])))
        };
        let tasks: Vec<Task> = (0..scripts.len()).map(spawn).collect();
        tasks.into_iter().for_each(Task::join);
        let closed = volume.close().map_err(|error| format!("close: {error}"));
        if let Some(failure) = shared.failure.lock().take() {
            return Err(failure);
        }
        closed?;
        let spans = shared.spans.iter().map(|spans| spans.lock().clone()).collect();
        Ok(History { scripts: (*scripts).clone(), spans })
    });
    let history = outcome.map_err(|error| error.to_string())??;
    Ok(Lived { history, log })
}
