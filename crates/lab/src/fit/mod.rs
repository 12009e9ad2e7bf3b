//! A drive file from a real device: probes, and a search for the drive of ours that would have
//! answered them in the same times.
//!
//! A target is probed for a few minutes; the same requests then run on candidates in virtual time,
//! in the same closed loop, and the values of the candidate change while the distributions of the
//! times come nearer. A mixed workload that the search never gets says how good the result is.
//!
//! ```text
//! device       a device of the host, probed and searched within a time
//! report       what was found, as a drive file and as JSON
//! fitting      kinds are tried, the best is searched, error bars, the held-out phase
//! kinds        the kinds as families of values, with starts estimated from the recording
//! probes       what is asked: general, turning, held_out
//! bars         how far a value can be changed, whatever the others do
//! sensitivity  what each value does to the times, and how others make up for it
//! search       values change one at a time while the distance shrinks
//! watch        how far the time has gone
//! family       values, and the drive file that they make
//! recording    what was asked and how long it took; the same on a candidate
//! score        how far two lists of times are from each other
//! simulated    a drive in virtual time as a target
//! host         a file or block device of the host, past the page cache
//! threaded     a store with threads as a target
//! target       what can be probed
//! ```
//!
//! A module uses those below it only. Floating point is used in the search alone: what runs on a
//! candidate's clock comes from the drive file that its values make.
mod bars;
mod device;
mod family;
mod fitting;
mod host;
mod kinds;
mod probes;
mod recording;
mod report;
mod score;
mod search;
mod sensitivity;
mod simulated;
mod target;
mod threaded;
mod watch;

pub use device::{FitOptions, fit_device};
pub use fitting::{Fit, FittedValue, KindScore, Known};
pub use host::{Caching, HostStore};
pub use score::Agreement;
pub use simulated::{SimulatedTarget, Writes};
pub use target::{ProbeRequest, ProbeTarget, TargetFacts, Timing};
pub use threaded::{Store, ThreadedTarget};

use probes::{HELD_OUT_PERMILLE, Prober, WRITES_PERMILLE, general, held_out, turning};
use recording::Recording;
use std::io;
use watch::Watch;

/// How a target is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeOptions {
    /// Where things are read comes from this.
    pub seed: u64,
    /// How long the probes may take, in nanoseconds of the target's clock.
    pub time_ns: u64,
    /// Whether times that only memory has are refused.
    pub caching: Caching,
}

impl Default for ProbeOptions {
    /// Five minutes.
    fn default() -> ProbeOptions {
        ProbeOptions { seed: 1, time_ns: 300_000_000_000, caching: Caching::Bypassed }
    }
}

/// What was found of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The target.
    pub facts: TargetFacts,
    /// How many requests the probes were.
    pub requests: usize,
    /// How long they took, in nanoseconds.
    pub probed_ns: u64,
    /// The drive that explains them best.
    pub fit: Fit,
}

/// Probes a target and searches the drive for as long as that takes; `name` is what its file calls
/// it. `progress` gets what is being done, and how much of the time for the probes has passed, in
/// percent.
///
/// # Errors
/// Those of the target; `Unsupported` when memory answers in place of a device; `InvalidInput` when
/// it is too small; `InvalidData` when nothing of what it did makes a drive.
pub fn probe_and_fit(
    name: &str,
    target: &mut dyn ProbeTarget,
    options: &ProbeOptions,
    progress: &mut dyn FnMut(&str, u64),
) -> io::Result<Found> {
    probe_and_fit_within(name, target, options, &|| 0, progress)
}

/// The same within a time: `spent` says how many thousandths of it have passed. From 1,000 on the
/// search ends with what it has, and [`Fit::is_cut_short`] says so. `progress` gets what is being
/// done, and the share of the time for the probes, then of all of it, in percent.
///
/// # Errors
/// As [`probe_and_fit`].
pub fn probe_and_fit_within(
    name: &str,
    target: &mut dyn ProbeTarget,
    options: &ProbeOptions,
    spent: &dyn Fn() -> u64,
    progress: &mut dyn FnMut(&str, u64),
) -> io::Result<Found> {
    let recording = probe(target, options, progress)?;
    let facts = recording.facts.clone();
    let requests = recording.phases.iter().map(|phase| phase.requests.len()).sum();
    let ends = recording.phases.iter().flat_map(|phase| &phase.timings);
    let probed_ns = ends.map(|timing| timing.end_ns).max().unwrap_or(0);
    let found = fitting::fit(name, &recording, &Watch::new(spent, progress));
    let fit = found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "no drive explains what was measured")
    })?;
    Ok(Found { facts, requests, probed_ns, fit })
}

fn probe(
    target: &mut dyn ProbeTarget,
    options: &ProbeOptions,
    progress: &mut dyn FnMut(&str, u64),
) -> io::Result<Recording> {
    let mut prober = Prober::new(target, options.seed, options.time_ns, progress)?;
    let writes = if prober.facts.write_bytes > 0 { WRITES_PERMILLE } else { 0 };
    prober.keep(HELD_OUT_PERMILLE + writes);
    general::first(&mut prober)?;
    if options.caching == Caching::Bypassed {
        let first = prober.recording.phase("random-4k");
        host::refuse_memory(first.map_or(f64::INFINITY, |phase| score::median(&phase.times())))?;
    }
    general::reads(&mut prober)?;
    if kinds::is_turning(&prober.recording) {
        turning::run(&mut prober)?;
    } else {
        general::long(&mut prober)?;
        match kinds::is_slow(&prober.recording) {
            true => general::across(&mut prober)?,
            false => general::crowded(&mut prober)?,
        }
    }
    prober.keep(HELD_OUT_PERMILLE);
    general::writes(&mut prober)?;
    prober.keep(0);
    held_out::run(&mut prober)?;
    Ok(prober.recording)
}
