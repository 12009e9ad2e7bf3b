//! Ext2, ext3 and ext4 under other programs: the engine as a file system of the host, by FUSE.
//!
//! This crate answers what the kernel asks of a mount; `extant-daemon` is the process around it,
//! with its options, image, signals and end.
//!
//! ```text
//! session     one mount, from its beginning to its end
//! keeper      has the kernel send what it keeps, by a process of its own
//! workers     threads that take requests and have them answered
//! serve       answers to requests, by calls of the engine
//! greeting    the first message: what kernel and server agree on
//! transport   how requests come from the kernel and replies go back
//! protocol    the messages of FUSE as types
//! ```
pub mod greeting;
mod keeper;
pub mod protocol;
pub mod serve;
pub mod session;
pub mod transport;
pub mod workers;

pub use session::{Error, Session, Wishes};
