//! The life of a mount: what programs asked of it, recorded, and lived again on a drive in virtual
//! time.
//!
//! ```text
//! replay    a file trace, lived again by the engine on a simulated drive
//! record    a file trace: one request a line
//! carried   that of one volume, for another with the same files
//! ```
mod carried;
mod record;
mod replay;

pub use carried::carried;
pub(crate) use carried::{ROOT_NODE, object_at};
pub use record::{Call, FileRecord, HEAD, Name, SessionError, read, write_line};
pub(crate) use replay::relive;
pub use replay::{CallTimes, SessionReport, Traffic, replay};
