//! A process: its steps one after the other, each timed.
//!
//! *Invariants*: every call of the engine goes through [`Worker::call`], which times it, and ends
//! the process when another has failed.
use super::mount::InUse;
use super::rows::{Joining, Mark, MeasuredRows, RowKey, StagesDone};
use super::step::{Action, End, Rows, Step};
use super::tree::{Tree, TreeSpec};
use super::world::{World, tree_key};
use super::{ProcessEntry, Samples, ScenarioError, Start, Workplace};
use crate::report::{
    CallLatency, Distribution, ListingCall, Measure, PowerCutFigures, ProcessReport, StepReport,
    Traffic, Work,
};
use extant_sim::device::Histogram;
use extant_sim::random::Random;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// Why a step did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// It failed, for this reason.
    Failed(String),
    /// Another process failed.
    Halted,
    /// What ends the step has happened: [`Worker::walk`] takes it for its end.
    Over,
}

impl<E: Display> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.to_string())
    }
}

pub(super) type Outcome<T = ()> = Result<T, Stop>;

/// A kind of call, in the order of reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Call {
    Open,
    Create,
    Make,
    List,
    Stat,
    Read,
    Write,
    Change,
    Remove,
    Sync,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Create => "create",
            Call::Make => "make",
            Call::List => "list",
            Call::Stat => "stat",
            Call::Read => "read",
            Call::Write => "write",
            Call::Change => "change",
            Call::Remove => "remove",
            Call::Sync => "sync",
        }
    }
}

/// One copy of a process at work.
pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) process: usize,
    pub(super) copy: u32,
    pub(super) random: Random,
    /// What the step at hand did.
    pub(super) work: Work,
    /// Calls of getdents of the step at hand.
    pub(super) listings: Vec<ListingCall>,
    /// What a power cut lost, in the step at hand.
    pub(super) lost: Option<PowerCutFigures>,
    /// How often the drive below had lost its power when the process began, or cut it last.
    pub(super) cuts: u32,
    latencies: BTreeMap<Call, Histogram>,
    /// The time of each call, where they are kept.
    samples: BTreeMap<Call, Vec<u64>>,
    steps: BTreeMap<Vec<u32>, StepReport>,
    pub(super) rows: MeasuredRows,
    /// The number of the run of each `repeat` around the step at hand, the innermost last.
    runs: Vec<u64>,
    /// Trees that are made stage by stage.
    pub(super) stages: BTreeMap<String, StagesDone>,
}

/// What a process gave.
pub(super) struct Finished {
    pub(super) report: ProcessReport,
    pub(super) steps: Vec<StepReport>,
    pub(super) measures: Vec<Measure>,
    /// The key of each of them.
    pub(super) keys: Vec<RowKey>,
    /// The number of the process.
    pub(super) process: usize,
    /// `None`: it came to its end, or stopped for another's error.
    pub(super) error: Option<ScenarioError>,
}

/// So many calls of a kind are kept one by one.
const SAMPLES_MAX: usize = 1_000_000;

/// An iteration that takes no time at all is given this much: an experiment has to go on.
const LEAST_NS: u64 = 10_000;

impl Worker {
    pub(super) fn new(world: Arc<World>, process: usize, copy: u32) -> Worker {
        let name = format!("process {} {copy}", world.process(process).name);
        Worker {
            random: Random::for_part(world.scenario.seed, &name),
            world,
            process,
            copy,
            work: Work::default(),
            listings: Vec::new(),
            lost: None,
            cuts: 0,
            latencies: BTreeMap::new(),
            samples: BTreeMap::new(),
            steps: BTreeMap::new(),
            rows: MeasuredRows::default(),
            runs: Vec::new(),
            stages: BTreeMap::new(),
        }
    }

    /// What time it is, and what the drive has done.
    pub(super) fn mark(&self) -> Mark {
        let traffic = self.world.drives[self.drive()].traffic();
        Mark { ns: self.world.time.settled(), traffic }
    }

    /// Waits for its start, does everything, and tells how it went.
    pub(super) fn run(mut self, origin_ns: u64) -> Finished {
        let world = Arc::clone(&self.world);
        let entry = world.process(self.process);
        match entry.start {
            Start::At(after) => world.time.sleep_until(origin_ns.saturating_add(after)),
            Start::After(process) => world.join(process),
        }
        self.cuts = world.cuts(self.drive());
        let started_ns = world.time.now();
        let error = self.run_all(entry).err();
        let ended_ns = world.time.settled();
        if error.is_some() && !self.is_cut() {
            world.stop();
        }
        world.end(self.process);
        let calls = self.latencies.iter().map(|(call, histogram)| CallLatency {
            call: call.name().to_owned(),
            latency: Distribution::from(histogram),
            samples_ns: self.samples.get(call).cloned().unwrap_or_default(),
        });
        Finished {
            report: ProcessReport {
                name: entry.name.clone(),
                copy: self.copy,
                started_ns,
                ended_ns,
                calls: calls.collect(),
            },
            steps: self.steps.into_values().collect(),
            measures: self.rows.measures,
            keys: self.rows.keys,
            process: self.process,
            error: error.flatten(),
        }
    }

    /// Whether the drive has lost its power under this process: it ends, and that is no failure.
    fn is_cut(&self) -> bool {
        self.world.cuts(self.drive()) != self.cuts
    }

    /// Whether the process has to end.
    pub(super) fn is_halted(&self) -> bool {
        self.world.is_stopped() || self.is_cut()
    }

    /// The error of a step that failed; `None` when another process did, or the power was cut.
    fn run_all(&mut self, entry: &ProcessEntry) -> Result<(), Option<ScenarioError>> {
        for (number, step) in entry.steps.iter().enumerate() {
            let before = self.steps.len();
            let path = vec![number as u32 + 1];
            let at = self.mark();
            let name = step.measure.as_deref().map(|name| self.path(name));
            let row = name.as_deref().map(|name| self.enter_row(name, at, Joining::Neighbour));
            let outcome = self.step(step, &path);
            if let Some(row) = &row {
                self.leave_row(row);
            }
            outcome?;
            if let (Some(name), Some(row), Some(report)) = (&name, row, self.steps.get(&path))
                && self.steps.len() > before
            {
                self.rows.add(measure(name, report, at.ns), row, Joining::Neighbour);
            } else {
                self.rows.close();
            }
        }
        Ok(())
    }

    /// Does a step, and records it.
    fn step(&mut self, step: &Step, path: &[u32]) -> Result<(), Option<ScenarioError>> {
        if self.is_halted() {
            return Err(None);
        }
        let world = Arc::clone(&self.world);
        let drive = self.drive();
        let (started_ns, before) = (world.time.settled(), world.drives[drive].traffic());
        let (work, listings) = (std::mem::take(&mut self.work), std::mem::take(&mut self.listings));
        let at = self.mark();
        let name = step.measure.as_deref().filter(|_| path.len() > 1).map(|name| self.path(name));
        let row = name.as_deref().map(|name| self.enter_row(name, at, Joining::Name));
        let result = match &step.action {
            Action::Repeat { count, steps } => self.repeat(*count, steps, path),
            Action::Until { end, steps } => self.until(*end, steps, path),
            action => self.act(action, &step.label).map_err(|stop| self.explain(step, stop)),
        };
        let elapsed_ns = world.time.settled() - started_ns;
        let traffic = world.drives[drive].traffic().since(&before);
        if let (Some(measure), Some(key)) = (name, row) {
            let row = Measure {
                process: self.entry().name.clone(),
                copy: Some(self.copy),
                measure,
                started_ns,
                elapsed_ns,
                traffic,
                work: self.work,
            };
            self.leave_row(&key);
            self.rows.add(row, key, Joining::Name);
        }
        self.record(step, path, started_ns, elapsed_ns, traffic);
        self.work = work.and(&self.work);
        self.listings = listings;
        result
    }

    /// A row of this name begins, or goes on.
    pub(super) fn enter_row(&mut self, name: &str, now: Mark, joining: Joining) -> RowKey {
        let key = self.rows.begin(name, joining);
        self.world.enter_row(self.process, key.clone(), now);
        key
    }

    pub(super) fn leave_row(&self, key: &RowKey) {
        self.world.leave_row(self.process, key.clone(), self.mark());
    }

    fn explain(&self, step: &Step, stop: Stop) -> Option<ScenarioError> {
        match stop {
            Stop::Halted | Stop::Over => None,
            Stop::Failed(_) if self.is_cut() => None,
            Stop::Failed(reason) => Some(ScenarioError::Step {
                file: self.world.scenario.file.clone(),
                line: step.line,
                process: self.entry().name.clone(),
                step: step.label.clone(),
                reason,
            }),
        }
    }

    fn record(
        &mut self,
        step: &Step,
        path: &[u32],
        started_ns: u64,
        elapsed_ns: u64,
        traffic: Traffic,
    ) {
        let listings = std::mem::take(&mut self.listings);
        let (process, copy) = (self.entry().name.clone(), self.copy);
        let number: Vec<String> = path.iter().map(u32::to_string).collect();
        let report = self.steps.entry(path.to_vec()).or_insert_with(|| StepReport {
            process,
            copy,
            number: number.join("."),
            step: step.kind.to_owned(),
            label: step.label.clone(),
            measure: step.measure.clone(),
            runs: 0,
            started_ns,
            elapsed_ns: 0,
            traffic: Traffic::default(),
            work: Work::default(),
            calls: Vec::new(),
            lost: None,
        });
        report.runs += 1;
        report.elapsed_ns += elapsed_ns;
        report.traffic = report.traffic.and(&traffic);
        report.work = report.work.and(&self.work);
        report.calls.extend(listings);
        report.lost = match (report.lost, self.lost.take()) {
            (Some(before), Some(lost)) => Some(before.and(&lost)),
            (before, lost) => before.or(lost),
        };
    }

    fn all(&mut self, steps: &[Step], path: &[u32]) -> Result<(), Option<ScenarioError>> {
        for (number, step) in steps.iter().enumerate() {
            let mut inner = path.to_vec();
            inner.push(number as u32 + 1);
            self.step(step, &inner)?;
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        count: u64,
        steps: &[Step],
        path: &[u32],
    ) -> Result<(), Option<ScenarioError>> {
        self.runs.push(0);
        for run in 0..count {
            if self.is_halted() {
                return Err(None);
            }
            self.runs.pop();
            self.runs.push(run);
            self.all(steps, path)?;
        }
        self.runs.pop();
        Ok(())
    }

    fn until(
        &mut self,
        end: End,
        steps: &[Step],
        path: &[u32],
    ) -> Result<(), Option<ScenarioError>> {
        let started = self.world.time.settled();
        let mut run = 0;
        while !self.is_over(end, started) {
            if self.is_halted() {
                return Err(None);
            }
            let before = self.world.time.settled();
            self.runs.push(run);
            self.all(steps, path)?;
            self.runs.pop();
            run += 1;
            self.go_on_from(before);
        }
        Ok(())
    }

    /// Whether what ends a step has happened, when the step began at `started`.
    pub(super) fn is_over(&self, end: End, started: u64) -> bool {
        match end {
            End::Process(process) => self.world.has_ended(process),
            End::After(nanoseconds) => self.world.time.now() >= started.saturating_add(nanoseconds),
        }
    }

    /// Lets a little time pass if none has since `before`, so that what is waited for can happen.
    pub(super) fn go_on_from(&self, before: u64) {
        if self.world.time.settled() <= before {
            self.world.time.sleep_until(before + LEAST_NS);
        }
    }

    fn act(&mut self, action: &Action, label: &str) -> Outcome {
        match action {
            Action::Make { at, tree, style, stages } => {
                self.make(&self.path(at), tree, *style, *stages)
            }
            Action::Files { targets, deed } => self.work_on(targets, deed),
            Action::Create { path, bytes, durability } => {
                self.create(&self.path(path), *bytes, *durability)
            }
            Action::MakeDirectory { path } => self.make_directories(&self.path(path)),
            Action::Symlink { path, target } => self.symlink(&self.path(path), &self.path(target)),
            Action::Copy { at, to, chunk } => self.copy(&self.path(at), &self.path(to), *chunk),
            Action::Age(age) => self.age(age),
            Action::Place { files } => self.place(files),
            Action::Fill { at, filling } => self.fill(&self.path(at), *filling),
            Action::Check { plan, threads, processor_ns_per_kib, problems } => {
                self.check(*plan, *threads, *processor_ns_per_kib, *problems)
            }
            Action::PowerCut { moment, survival } => self.power_cut(*moment, *survival),
            Action::Recover => self.recover(),
            Action::Walk { rows: Rows::Directories(warmth), .. } => {
                self.walk_by_directory(action, *warmth, label)
            }
            Action::Walk { at, task, order, chunk, end, .. } => {
                self.walk(&self.path(at), *task, *order, *chunk, *end)
            }
            Action::PlaceTrees { trees } => self.place_trees(trees),
            Action::Diff { at, with, chunk } => self.diff(&self.path(at), &self.path(with), *chunk),
            Action::Remove { at } => self.remove(&self.path(at)),
            Action::Sync => self.sync(),
            Action::Remount { setup } => {
                let world = Arc::clone(&self.world);
                let policies = setup.as_ref().map(|setup| &setup.policies);
                Ok(world.mounts[self.mount()?].reopen(policies)?)
            }
            Action::Stream(stream) => self.stream(stream),
            Action::List { at, detail } => self.list(&self.path(at), *detail),
            Action::Getdents { at, buffer_bytes } => self.getdents(&self.path(at), *buffer_bytes),
            Action::Program { at, reads, bytes } => self.program(&self.path(at), *reads, *bytes),
            Action::Wait(nanoseconds) => {
                let now = self.world.time.settled();
                self.world.time.sleep_until(now.saturating_add(*nanoseconds));
                Ok(())
            }
            Action::Join(process) => {
                self.world.join(*process);
                Ok(())
            }
            Action::Survey => self.survey(label),
            // Their steps are done one by one.
            Action::Repeat { .. } | Action::Until { .. } => Ok(()),
        }
    }

    fn entry(&self) -> &ProcessEntry {
        self.world.process(self.process)
    }

    pub(super) fn mount(&self) -> Outcome<usize> {
        match self.entry().place {
            Workplace::Filesystem(number) => Ok(number),
            Workplace::Drive(_) => Err(Stop::from("this process has no file system")),
        }
    }

    /// Number of the drive below.
    pub(super) fn drive(&self) -> usize {
        match self.entry().place {
            Workplace::Filesystem(number) => self.world.mounts[number].drive,
            Workplace::Drive(number) => number,
        }
    }

    /// A path or a name of the file, with the number of this copy in it, and of the runs of the
    /// `repeat` or `until` around the step.
    pub(super) fn path(&self, at: &str) -> String {
        if !at.contains('{') {
            return at.to_owned();
        }
        let outer = self.runs.iter().rev().nth(1).copied().unwrap_or(0);
        at.replace("{n}", &self.copy.to_string())
            .replace("{r}", &self.run_number().to_string())
            .replace("{r2}", &outer.to_string())
    }

    /// The number of the run of the innermost `repeat` or `until`, from 0.
    pub(super) fn run_number(&self) -> u64 {
        self.runs.last().copied().unwrap_or(0)
    }

    /// The file system, for the time of a step.
    pub(super) fn enter<'a>(&self, world: &'a World) -> Outcome<InUse<'a>> {
        Ok(world.mounts[self.mount()?].enter()?)
    }

    /// One call, timed.
    pub(super) fn call<T, E: Display>(
        &mut self,
        call: Call,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Outcome<T> {
        if self.is_halted() {
            return Err(Stop::Halted);
        }
        let before = self.world.time.now();
        let result = work();
        self.timed(call, before);
        result.map_err(Stop::from)
    }

    /// Notes a call that began then and has ended now.
    pub(super) fn timed(&mut self, call: Call, began: u64) {
        let elapsed = self.world.time.now().saturating_sub(began);
        self.latencies.entry(call).or_default().add(elapsed);
        if self.entry().samples == Samples::Kept {
            let samples = self.samples.entry(call).or_default();
            if samples.len() < SAMPLES_MAX {
                samples.push(elapsed);
            }
        }
    }

    /// The tree of a rule; those of all steps were made before the run.
    pub(super) fn tree(&self, spec: &TreeSpec) -> Outcome<Arc<Tree>> {
        match (spec, tree_key(spec)) {
            (TreeSpec::Listing(tree), _) => Ok(Arc::clone(tree)),
            (_, key) => {
                let found = key.and_then(|key| self.world.trees.get(&key));
                found.cloned().ok_or_else(|| Stop::from("the tree was not made"))
            }
        }
    }

    /// Writes what changed; of a bare drive, what its cache holds.
    fn sync(&mut self) -> Outcome {
        let world = Arc::clone(&self.world);
        if let Workplace::Drive(number) = self.entry().place {
            let device = world.drives[number].device();
            return self.call(Call::Sync, || device.flush());
        }
        let in_use = self.enter(&world)?;
        self.call(Call::Sync, || in_use.filesystem.sync())
    }

    fn survey(&mut self, label: &str) -> Outcome {
        self.sync()?;
        let world = Arc::clone(&self.world);
        Ok(world.mounts[self.mount()?].survey(label, world.time.now())?)
    }
}

fn measure(name: &str, step: &StepReport, started_ns: u64) -> Measure {
    Measure {
        process: step.process.clone(),
        copy: Some(step.copy),
        measure: name.to_owned(),
        started_ns,
        elapsed_ns: step.elapsed_ns,
        traffic: step.traffic,
        work: step.work,
    }
}
