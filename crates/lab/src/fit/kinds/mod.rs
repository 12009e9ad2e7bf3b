//! The kinds of drives as families of values, each with a start that is estimated from the
//! recording.
//!
//! ```text
//! solid      solid-state drives     network    volumes of a network     object    object stores
//! rotating   disks
//! host       the host's work before the first two
//! scales     what values of several kinds may be
//! estimate   what the starts have in common: medians, rates, plateaus
//! ```
mod estimate;
mod host;
mod network;
mod object;
mod rotating;
mod scales;
mod solid;

use super::family::Family;
use super::recording::Recording;
pub(super) use rotating::is_turning;

/// Small reads that take longer than this, in nanoseconds, are those of something far away.
const SLOW_NS: f64 = 3e6;

/// Whether small reads take milliseconds.
pub fn is_slow(recording: &Recording) -> bool {
    estimate::quantile(recording, "random-4k", 0.5).is_some_and(|median| median > SLOW_NS)
}

/// The kinds that may explain a recording.
pub fn families(recording: &Recording) -> Vec<Family> {
    let mut all = solid::families(recording);
    all.extend(network::families(recording));
    all.extend(object::families(recording));
    if recording.phases_of("distance-").next().is_some() {
        all.extend(rotating::families(recording));
    }
    all
}

/// Why a value of writes is not known.
const NO_WRITES: &str = "not identified: nothing was written";
