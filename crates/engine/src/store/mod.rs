//! What lies between the engine and the device: frames of metadata, the writes under way, the
//! latch that stops them all, and the handles that every change goes through.
pub(crate) mod barrier;
pub(crate) mod cache;
pub(crate) mod handle;
pub(crate) mod latch;
