//! What is asked of a target: its phases, each with a limit of requests and of time.
//!
//! ```text
//! general    every kind: sizes, depths, places again, long runs, writes and flushes
//! turning    what moves: turns, distances, zones, hits, how far is read ahead, segments
//! held_out   a mixed workload that no fitting ever sees
//! ```
//!
//! *Invariants*: a phase is recorded with the requests that were issued and no others; all places
//! come from one seed; reads stay within the target and writes within what may be written.
pub(super) mod general;
pub(super) mod held_out;
pub(super) mod turning;

use super::recording::{Phase, Recording};
use super::target::{ProbeRequest, ProbeTarget, TargetFacts};
use extant_sim::random::Random;
use std::io;

/// What is read or written at least: files of the host are rarely read in less.
const UNIT_LEAST: u64 = 4096;
/// No less than this can be probed.
pub(super) const TARGET_BYTES_LEAST: u64 = 16 << 20;
/// How long the target is left alone before each phase, in nanoseconds.
const REST_NS: u64 = 250_000_000;

/// What is left of the time for the held-out phase at least, in thousandths.
pub(super) const HELD_OUT_PERMILLE: u64 = 80;
/// The same for writes, where they are possible.
pub(super) const WRITES_PERMILLE: u64 = 120;

/// Said while probes run: the name of the phase, and how much of the time has passed, in percent.
pub type Progress<'a> = &'a mut dyn FnMut(&str, u64);

/// A target that is being probed.
pub(super) struct Prober<'a> {
    target: &'a mut dyn ProbeTarget,
    pub(super) facts: TargetFacts,
    /// What was recorded so far.
    pub(super) recording: Recording,
    /// Where things are read.
    pub(super) random: Random,
    start_ns: u64,
    time_ns: u64,
    /// What of the time is left for later phases, in thousandths.
    kept_permille: u64,
    progress: Progress<'a>,
}

/// A phase that is to be run.
pub(super) struct Plan {
    /// Its name.
    pub(super) name: String,
    /// Requests at a time.
    pub(super) depth: u32,
    /// The requests.
    pub(super) requests: Vec<ProbeRequest>,
    /// How many of the first prepare the others.
    pub(super) preparing: usize,
    /// Of those after them only each n-th is compared.
    pub(super) every: usize,
    /// Its share of the time, in thousandths.
    pub(super) permille: u64,
}

impl Plan {
    /// All requests are compared, one at a time, with 2 % of the time.
    pub(super) fn new(name: impl Into<String>, requests: Vec<ProbeRequest>) -> Plan {
        let name = name.into();
        Plan { name, depth: 1, requests, preparing: 0, every: 1, permille: 20 }
    }

    /// That many at a time.
    pub(super) fn at_depth(self, depth: u32) -> Plan {
        Plan { depth, ..self }
    }

    /// With that many thousandths of the time.
    pub(super) fn for_permille(self, permille: u64) -> Plan {
        Plan { permille, ..self }
    }

    /// The first requests only prepare the others.
    pub(super) fn preparing(self, preparing: usize) -> Plan {
        Plan { preparing, ..self }
    }

    /// Only each n-th request is compared.
    pub(super) fn every(self, every: usize) -> Plan {
        Plan { every, ..self }
    }
}

impl<'a> Prober<'a> {
    /// Nothing is recorded yet.
    ///
    /// # Errors
    /// The target is too small.
    pub(super) fn new(
        target: &'a mut dyn ProbeTarget,
        seed: u64,
        time_ns: u64,
        progress: Progress<'a>,
    ) -> io::Result<Prober<'a>> {
        let facts = target.facts();
        if facts.bytes < TARGET_BYTES_LEAST {
            let message = format!(
                "has {} bytes; to be probed it needs {TARGET_BYTES_LEAST} at least",
                facts.bytes
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let recording = Recording { facts: facts.clone(), phases: Vec::new() };
        let (random, start_ns) = (Random::for_part(seed, "probes"), target.now());
        let kept_permille = 0;
        Ok(Prober { target, facts, recording, random, start_ns, time_ns, kept_permille, progress })
    }

    /// From now on no phase goes on into the last thousandths of the time: they are for later ones.
    pub(super) fn keep(&mut self, permille: u64) {
        self.kept_permille = permille.min(1000);
    }

    /// The smallest request, in bytes.
    pub(super) fn unit(&self) -> u64 {
        u64::from(self.facts.sector_bytes).max(UNIT_LEAST)
    }

    /// That many bytes in whole units, one at least.
    pub(super) fn whole(&self, bytes: u64) -> u64 {
        bytes.max(self.unit()).next_multiple_of(self.unit())
    }

    /// A place for so many bytes, at a multiple of them where that is possible.
    pub(super) fn place(&mut self, bytes: u64) -> u64 {
        self.random.below((self.facts.bytes / bytes).max(1)) * bytes
    }

    /// The same among what may be written.
    pub(super) fn write_place(&mut self, bytes: u64) -> u64 {
        self.random.below((self.facts.write_bytes / bytes).max(1)) * bytes
    }

    /// Reads at random places.
    pub(super) fn random_reads(&mut self, count: usize, bytes: u64) -> Vec<ProbeRequest> {
        let bytes = self.whole(bytes);
        (0..count).map(|_| ProbeRequest::read(self.place(bytes), bytes)).collect()
    }

    /// Runs a phase, or as much of it as its share of the time allows, and records it. Requests
    /// past the target's end are left out.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) fn run(&mut self, mut plan: Plan) -> io::Result<&Phase> {
        let facts = &self.facts;
        plan.requests.retain(|request| {
            let end = request.offset.saturating_add(request.bytes);
            end <= match request.operation {
                extant_block::Operation::Read => facts.bytes,
                _ => facts.write_bytes,
            }
        });
        if let Some(first) = plan.requests.first_mut() {
            first.rest_ns = first.rest_ns.max(REST_NS);
        }
        let begin = self.target.now();
        let passed = begin.saturating_sub(self.start_ns);
        (self.progress)(&plan.name, (passed * 100 / self.time_ns.max(1)).min(100));
        let share = self.time_ns / 1000 * plan.permille;
        let end = self.time_ns / 1000 * (1000 - self.kept_permille);
        let deadline = (begin + REST_NS + share).min(self.start_ns.saturating_add(end));
        let mut timings = self.target.run(&plan.requests, plan.depth, deadline)?;
        plan.requests.truncate(timings.len());
        for timing in &mut timings {
            timing.start_ns = timing.start_ns.saturating_sub(self.start_ns);
            timing.end_ns = timing.end_ns.saturating_sub(self.start_ns);
        }
        self.recording.phases.push(Phase {
            name: plan.name,
            depth: plan.depth,
            begin_ns: passed,
            requests: plan.requests,
            timings,
            preparing: plan.preparing,
            every: plan.every.max(1),
        });
        let last = self.recording.phases.len() - 1;
        Ok(&self.recording.phases[last])
    }
}
