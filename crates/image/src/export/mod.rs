//! From an image to a tar archive that holds all of it: pax, deterministic, read in the order of
//! the disk.
//!
//! ```text
//! write      headers, bodies and what fills the gaps, written without being copied
//! handover   a pipe or null device that takes large pieces from the host's cache
//! body       threads that read the bytes of files ahead, in large pieces
//! parts      what they hand over, taken stretch by stretch
//! plan       which names, in which order; what cannot be exported
//! left_out   what an archive does not hold
//! ```
//!
//! # The order
//! A directory comes before what is in it, and all that is in it comes together, because GNU tar
//! sets a directory's time when it leaves it. Within a directory names follow each other as their
//! first bytes do on the disk: an image that was filled from a tree, directory by directory, is
//! read from front to back.
pub(crate) mod body;
mod handover;
mod left_out;
pub(crate) mod parts;
pub(crate) mod plan;
mod write;

pub use handover::PageOutput;
pub use left_out::{Blame, LeftOut};
pub use plan::{ExportPlan, Omission};
pub use write::{Summary, write, write_pages};
