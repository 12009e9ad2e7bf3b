//! The commands that change an image, run as a person or a script runs them.
//!
//! ```text
//! around    a volume in a partition: what is around it stays
//! bench     images, the command, and programs of the host
//! beside    the same commands by coreutils on a mount of the kernel: equal trees
//! copies    what comes out of an image again, and goes from one to another
//! places    how places are written: colons, patterns, -; df and du
//! reading   find and getfattr beside find(1) and getfattr(1)
//! scripts   edit: many commands as one
//! refusals  what cannot be done: one line, a hint, and the image as it was
//! endings   signals, kills, and a redo log that was left behind
//! ```
mod around;
pub mod bench;
mod beside;
mod copies;
mod endings;
mod places;
mod reading;
mod refusals;
mod scripts;
