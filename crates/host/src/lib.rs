//! What the commands, the mount's process and the other programs' names have in common: the host
//! as a user of them sees it. What a word names there and how that is opened; what is written whole
//! or not at all; what is said, and how a program ends.
//!
//! ```text
//! error            a failure as the user sees it, and exit codes; advice: what can be done
//! console          stdout, stderr, JSON; progress: the line that moves
//! size             "512M", "20%"
//! place            IMAGE:/path and IMAGE@2: which part of a disk
//! disk             the file that a word names: plain, compressed or in a container
//! written          the disk in a file that is written: plain, or a qcow2 image
//! image            an image that is looked at, and why it cannot be opened
//! journal          the journal of a volume that is on another device
//! recovery         a volume whose journal has to be replayed, as it is after that
//! recognise        what a file is that is no ext volume; held: what a new file system would
//!                  destroy
//! target           the file or device that is written: refused when in use, whole or not there
//! leftover         temporary files of programs that were killed
//! source_options   what an image is built from, and how it is read
//! change_failure   what is said of a change that failed
//! closed           a volume that nobody has open, written as a whole
//! mounted          a volume that is mounted, and gets longer there
//! tuning           such a volume with another label, UUID, features, journal or the like
//! cleanup          what is removed when a signal comes
//! arena            memory for programs that run long
//! itself           how this program is started once more
//! ```
pub mod advice;
pub mod arena;
pub mod change_failure;
pub mod cleanup;
pub mod closed;
pub mod console;
pub mod disk;
pub mod error;
pub mod held;
pub mod image;
pub mod itself;
pub mod journal;
mod leftover;
pub mod mounted;
pub mod place;
pub mod progress;
mod recognise;
pub mod recovery;
pub mod size;
pub mod source_options;
pub mod target;
pub mod tuning;
pub mod written;
