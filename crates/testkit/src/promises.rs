//! Promises of a file system, held against what is there after its end: a load notes outside of it
//! what it is about to do and what has been done, and after a recovery the notes are compared with
//! the files.
//!
//! What is promised: a file has what it had when an fsync or fdatasync of it returned, but for what
//! was written since; the names of a folder are those after some of its operations, in their
//! order, and not fewer than there were when an fsync of the folder, or of a file after its naming,
//! returned; and no file ever shows what was never written to it.
//!
//! ```text
//! notes   the operations of one process, as lines
//! load    what a process does
//! judge   notes against a folder
//! ```

mod judge;
mod load;
mod notes;

pub use judge::{Tally, judge};
pub use load::{Load, fill_with_secrets, run};
pub use notes::{Note, Notes};
