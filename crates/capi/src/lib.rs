//! libextant: ext2, ext3 and ext4 images for programs in C, and for all that calls C.
//!
//! `include/extant.h` is made of this crate by cbindgen (`xtask header --write`), and
//! docs/PROGRAMS.md is its manual. All that it does is the crate `extant`'s; here are pointers,
//! numbers and words.
//!
//! # The rooms
//! ```text
//! volume      open, close and look; change: what is written; file: an open file; walk: a tree
//! build       images from folders, archives and the program
//! check       what is wrong with a volume; mend: that is mended, taken back, made ready for use
//! trim        volumes without what was deleted, and laid out anew
//! device      an image behind the program's own functions
//! structs     what both sides fill in; sized: structs that carry their size
//! handle      what C holds: each call guarded, the last failure kept
//! failure     numbers and words; error: those of a thread; pointer: strings and places of C
//! ```
//!
//! # Safety
//! What holds for every function here, and is said in the header: a pointer is NULL or points to
//! what its type says, for as long as the call runs; strings end with a NUL; a handle came from
//! this library and was not closed. What is wrong beyond that no library can see. All else (NULL,
//! words that are no UTF-8, structs of another size, damaged images) is an error.
//!
//! *Invariants*: no panic leaves a function. Every entry goes through [`handle::call`],
//! [`handle::on`] or [`handle::end`].
#![warn(missing_docs)]
#![allow(clippy::missing_safety_doc, reason = "the head of the crate says it for all functions")]

pub mod build;
pub mod change;
pub mod check;
pub mod device;
pub mod error;
pub mod failure;
pub mod file;
pub mod handle;
pub mod mend;
pub mod pointer;
pub mod sized;
pub mod structs;
pub mod trim;
pub mod volume;
pub mod walk;
