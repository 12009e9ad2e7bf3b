//! All that the reading of journals is tested for.
#[path = "../../../block/tests/suite/contract/checks.rs"]
mod checks;
mod crafted;
mod cuts;
mod joined;
mod peers;
mod volumes;
