//! All that the simulated drives are tested for.
#[path = "../../../block/tests/suite/contract/abilities.rs"]
mod abilities;
#[path = "../../../block/tests/suite/contract/checks.rs"]
mod checks;
mod clock;
mod controller;
mod crash_log;
mod device;
mod drives;
mod faulty;
mod host;
mod models;
mod power_cut;
mod queue;
mod replay;
mod requests;
mod traces;
