//! All that the crate of devices is tested for.
mod contract;
mod crash_log;
mod locks;
mod neighbours;
mod queue;
