//! All that the serving of a mount is tested for.
mod attach;
mod workers;
