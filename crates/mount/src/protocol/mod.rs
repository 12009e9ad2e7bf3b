//! The messages of FUSE as types: what the kernel asks and what it is answered. No I/O.
//!
//! ```text
//! request   a message of the kernel, taken apart and checked
//! reply     an answer, made of one message
//! numbers   operations and flags
//! wire      the structures in which both are laid out
//! ```
//! The layouts and numbers are those of `linux/fuse.h` (BSD-2-Clause), versions 7.31 to 7.45.
pub mod numbers;
pub mod reply;
pub mod request;
pub mod wire;

pub use reply::{Errno, Reply, Sink};
pub use request::{Malformed, Operation, Request};
