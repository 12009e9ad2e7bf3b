//! What becomes of a new volume before it has its name: a hash tree, a partition table, a map of
//! its blocks, another format, compression.
//!
//! ```text
//! words     the options, and what they ask for
//! steps     the work, on the raw disk
//! report    what is said of it
//! copied    another file that is made of an image that is there
//! ```
//! The volume is built into the raw disk. That is the image itself where the image is raw, and a
//! file without a name beside it where the image is made of it at the end.
pub mod copied;
pub mod report;
mod steps;
pub mod words;

pub use steps::{Shipment, pack, ship};
