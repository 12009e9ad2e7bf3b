//! The kinds of drives as families of values, each with a start that is estimated from the
//! recording.
//!
//! ```text
//! solid      solid-state drives     network    volumes of a network     object    object stores
//! rotating   disks
//! estimate   what the starts have in common: medians, rates, plateaus
//! ```
mod estimate;
mod network;
mod object;
mod rotating;
mod solid;

use super::family::Family;
use super::recording::Recording;
pub(super) use rotating::is_turning;

/// The kinds that may explain a recording.
pub fn families(recording: &Recording) -> Vec<Family> {
    let mut all = vec![solid::family(recording), network::family(recording)];
    all.extend(object::families(recording));
    if recording.phases_of("distance-").next().is_some() {
        all.push(rotating::family(recording));
    }
    all
}

/// Why a value of writes is not known.
const NO_WRITES: &str = "not identified: nothing was written";
