//! All that the reading of journals is tested for.
mod crafted;
mod cuts;
mod peers;
mod volumes;
