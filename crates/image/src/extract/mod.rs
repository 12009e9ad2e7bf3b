//! From an image to a folder of the host, read in the order of the disk; never outside of the
//! folder, whatever links and names the image holds.
//!
//! ```text
//! writer    what is planned, item by item
//! folders   where in the folder we are: descriptors of the way down
//! restore   owner, permissions, times, attributes, flags
//! losses    what could not be restored
//! ```
//! # Never outside
//! No path is given to the host but a single name below a descriptor, and none is followed if it is
//! a symlink. What is made is made new (`O_EXCL`); a directory that is there is entered only as a
//! directory; the way back up goes through descriptors, or through `..` whose device and inode
//! number are compared. Until all is in it, a new directory is closed to others (mode 0700).
//!
//! # What programs that pretend to be root see
//! fakeroot and pseudo replace functions of the C library. Owners and modes are therefore given by
//! those of the library and not by system calls.
mod folders;
mod losses;
mod restore;
mod writer;

pub use losses::{LossKind, Losses};
pub use writer::{Base, Existing, Summary, extract};
