//! `extant build`, end to end: what it writes is judged by e2fsck, dumpe2fs and the kernel, and
//! compared with its source.
//!
//! ```text
//! command        the command, run and read
//! matrix         block size x inode size x profile x features, from a tree that has everything
//! size           as large as its content; --size, --free, --free-inodes; where the volume begins
//! room           what free room holds: inodes in mke2fs's ratio, filled by the kernel
//! arrival        data in the order in which it comes
//! reproducible   the same bytes, whatever order the host lists things in
//! layout         laid out to be read cold
//! times          access and change times
//! wrappers       under fakeroot and pseudo
//! mounts         what is mounted below a source
//! sources        layers, whiteouts, owners, exclusions
//! forms          archives of cpio and Debian packages, compressed by bzip2 and lz4
//! sparse         which zeros are holes
//! refusals       bad input: one line, a hint, the exit code, nothing left over
//! limits         many names, deep chains, huge files
//! library        the crate for programs beside the command
//! warnings       what could not be kept: named, counted, and no failure
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "a signal has to come while a process runs: these tests wait by the host's clock"
)]
mod arrival;
mod command;
mod forms;
mod layout;
mod library;
mod limits;
mod matrix;
mod mounts;
mod refusals;
mod reproducible;
mod room;
mod size;
mod sources;
mod sparse;
mod times;
mod warnings;
mod wrappers;

/// Something done to a path, to see what it changes.
type Deed = fn(&std::path::Path);
