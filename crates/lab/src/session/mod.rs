//! The life of a mount: what programs asked of it, recorded, and lived again on a drive in virtual
//! time.
//!
//! ```text
//! replay    a file trace, lived again by the engine on a simulated drive
//! record    a file trace: one request a line
//! ```
mod record;
mod replay;

pub use record::{Call, FileRecord, HEAD, Name, SessionError, read, write_line};
pub(crate) use replay::relive;
pub use replay::{CallTimes, SessionReport, Traffic, replay};
