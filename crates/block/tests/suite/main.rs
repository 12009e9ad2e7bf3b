//! All that the crate of devices is tested for.
mod contract;
mod locks;
mod neighbours;
mod overlay;
