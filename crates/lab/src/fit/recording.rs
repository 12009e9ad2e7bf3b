//! What was asked of a target, and how long it took.
use super::simulated::{SimulatedTarget, Writes};
use super::target::{ProbeRequest, ProbeTarget, TargetFacts, Timing};
use extant_block::Operation;
use extant_sim::drive::file::DriveSpec;

/// How many starts there are, and how far they are from each other in nanoseconds: together they
/// are spread over the turns of all disks.
const STARTS: u64 = 32;
const START_NS: u64 = 1_234_567;

/// Requests of one kind, and their times.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// What the probe is called.
    pub name: String,
    /// How many requests were under way at a time.
    pub depth: u32,
    /// When it began, in nanoseconds from the begin of the recording.
    pub begin_ns: u64,
    /// The requests, in the order in which they were issued.
    pub requests: Vec<ProbeRequest>,
    /// As many: issued and ended, from the begin of the recording.
    pub timings: Vec<Timing>,
    /// How many of the first requests only prepare the others, and are not compared.
    pub preparing: usize,
    /// Of those after them, only each n-th is compared.
    pub every: usize,
}

/// All phases, in the order of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// The target.
    pub facts: TargetFacts,
    /// What was asked.
    pub phases: Vec<Phase>,
}

impl Phase {
    /// The requests that are compared, with their times in nanoseconds.
    pub fn compared<'a>(
        &'a self,
        timings: &'a [Timing],
    ) -> impl Iterator<Item = (&'a ProbeRequest, u64)> {
        let pairs = self.requests.iter().zip(timings).skip(self.preparing);
        pairs
            .skip(self.every - 1)
            .step_by(self.every)
            .map(|(request, timing)| (request, timing.elapsed_ns()))
    }

    /// The times that are compared, in nanoseconds, in the order of the requests.
    pub fn times(&self) -> Vec<u64> {
        self.compared(&self.timings).map(|(_, time)| time).collect()
    }

    /// The times of one operation among them.
    pub fn times_of(&self, operation: Operation) -> Vec<u64> {
        let of = self.compared(&self.timings).filter(|(one, _)| one.operation == operation);
        of.map(|(_, time)| time).collect()
    }

    /// Bytes a second over the requests from number `from` on; 0 when there are none.
    pub fn bytes_per_s(&self, from: usize) -> f64 {
        let Some(first) = self.timings.get(from) else { return 0.0 };
        let end = self.timings[from..].iter().map(|timing| timing.end_ns).max().unwrap_or(0);
        let bytes: u64 = self.requests[from..].iter().map(|request| request.bytes).sum();
        bytes as f64 * 1e9 / end.saturating_sub(first.start_ns).max(1) as f64
    }
}

impl Recording {
    /// The phase of that name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The phases whose names begin so.
    pub fn phases_of<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = &'a Phase> {
        self.phases.iter().filter(move |phase| phase.name.starts_with(beginning))
    }

    /// Does the same on the drive of a spec, each phase when it began or when the one before has
    /// ended: the timings of each phase. Phases that are not `wanted` are left out. All begins a
    /// little later with each seed: where a disk's platter is at the start is not known.
    pub fn play(
        &self,
        spec: &DriveSpec,
        seed: u64,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Vec<Timing>> {
        let mut target = SimulatedTarget::new(spec.build(seed), Writes::Refused);
        let mut all = Vec::with_capacity(self.phases.len());
        for (number, phase) in self.phases.iter().enumerate() {
            if !wanted(number) {
                all.push(Vec::new());
                continue;
            }
            target.rest_until(phase.begin_ns + seed % STARTS * START_NS);
            // A simulated drive has no errors.
            let timings = target.run(&phase.requests, phase.depth, u64::MAX);
            all.push(timings.unwrap_or_default());
        }
        all
    }
}
