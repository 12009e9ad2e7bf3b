//! A device or file of the host, probed and searched within a time.
use super::{
    Caching, Found, HostStore, ProbeOptions, ProbeRequest, ProbeTarget, TargetFacts,
    ThreadedTarget, Timing, probe_and_fit_within,
};
use crate::refused::{Reason, Refused};
use crate::wanted::{UNWANTED, Wanted};
use extant_block::{Clock, RealClock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;
/// All of the time, in thousandths.
const ALL_PERMILLE: u64 = 1000;

/// What is asked of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The name in the drive file.
    pub name: String,
    /// A new file on which writes are probed too; it is gone afterwards.
    pub write: Option<PathBuf>,
    /// How long all of it may take, at least one second: the probes get two thirds.
    pub seconds: u64,
    /// Whether times that only memory has are refused.
    pub caching: Caching,
    /// Where is read and written comes from this.
    pub seed: u64,
}

impl Default for FitOptions {
    /// Five minutes, past the page cache, without writes.
    fn default() -> FitOptions {
        let (name, caching) = ("fitted".to_owned(), Caching::Bypassed);
        FitOptions { name, write: None, seconds: 300, caching, seed: 1 }
    }
}

/// Probes a device or file and searches its drive, while that is wanted. `progress` is told what is
/// being done, and how many thousandths of the time have passed.
///
/// # Errors
/// What the host says of the device or of the file that is written; that memory answers in its
/// place; that no drive explains it.
pub fn fit_device(
    device: &Path,
    options: &FitOptions,
    wanted: &Wanted,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<Found, Refused> {
    let failed = |error: io::Error| {
        let refused = Refused::host(device.display(), &error);
        match refused.reason {
            Reason::Host { kind: io::ErrorKind::Unsupported, .. } => {
                refused.hint("--buffered measures it all the same")
            }
            _ => refused,
        }
    };
    let mut store = HostStore::open(device, options.caching).map_err(failed)?;
    if let Some(path) = &options.write {
        let wrote = store.write_to(path, options.caching);
        wrote.map_err(|error| Refused::host(format!("--write {}", path.display()), &error))?;
    }
    let target = ThreadedTarget::new(RealClock::new(), Arc::new(store));
    let mut target = WhileWanted { target, wanted };
    let whole_ns = options.seconds.max(1).saturating_mul(SECOND_NS);
    let probes =
        ProbeOptions { seed: options.seed, time_ns: whole_ns / 3 * 2, caching: options.caching };
    let clock = RealClock::new();
    let started_ns = clock.now();
    let passed = || {
        let passed_ns = clock.now().saturating_sub(started_ns);
        passed_ns.saturating_mul(ALL_PERMILLE) / whole_ns
    };
    // A search that is not wanted has no time left.
    let spent = || if wanted.is_wanted() { passed() } else { ALL_PERMILLE };
    let mut progress = |what: &str, _: u64| progress(what, passed().min(ALL_PERMILLE));
    let found = probe_and_fit_within(&options.name, &mut target, &probes, &spent, &mut progress);
    let found = found.map_err(failed)?;
    match wanted.is_wanted() {
        true => Ok(found),
        false => Err(failed(unwanted())),
    }
}

fn unwanted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, UNWANTED)
}

/// A target that is probed no longer once that is not wanted.
struct WhileWanted<'a, T> {
    target: T,
    wanted: &'a Wanted,
}

impl<T: ProbeTarget> ProbeTarget for WhileWanted<'_, T> {
    fn facts(&self) -> TargetFacts {
        self.target.facts()
    }

    fn now(&self) -> u64 {
        self.target.now()
    }

    fn run(
        &mut self,
        requests: &[ProbeRequest],
        depth: u32,
        deadline_ns: u64,
    ) -> io::Result<Vec<Timing>> {
        match self.wanted.is_wanted() {
            true => self.target.run(requests, depth, deadline_ns),
            false => Err(unwanted()),
        }
    }
}
