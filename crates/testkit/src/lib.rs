//! What the tests of this workspace judge by: oracles that are not ours, images that are not ours,
//! and the comparison of trees.
//!
//! It links none of the crates that it helps to judge: what it knows about an image it has from the
//! kernel and from e2fsprogs. It is a dev-dependency and is not published.
//!
//! ```text
//! oracle     e2fsck, dumpe2fs, debugfs and the mounts of the kernel
//! fixtures   images made by mke2fs and the kernel, and what must be read from them;
//!            fixtures::populate: what they hold
//! content    bytes that say whose they are
//! compare    two trees, field by field
//! walk       a tree as the kernel shows it
//! listing    what `extant ls -lR --json` prints, read and written
//! archive    plain tar archives, made entry by entry
//! scratch    folders that go when a test ends
//! skips      tests that do nothing here, and say so; variables: how much the suites do
//! command    programs of the host; tools: which ones the tests call, and their packages
//! damaged    small volumes, and random damage to them
//! lines      how wide text is
//! journals   volumes whose log holds transactions: left by a kernel that was shut down under load,
//!            or written by debugfs; and what e2fsck and the kernel make of them
//! promises   what a load noted, held against what is there after a crash
//! system     the kernel or `extant mount`, under the same programs
//! twins      one life of system calls on two file systems: answers and trees compared
//! numbers    numbers without a pattern, from a seed
//! ```
pub mod archive;
pub mod command;
pub mod compare;
pub mod content;
pub mod damaged;
pub mod fixtures;
pub mod journals;
pub mod lines;
pub mod listing;
pub mod numbers;
pub mod oracle;
pub mod promises;
pub mod scratch;
pub mod skips;
pub mod system;
pub mod tools;
pub mod twins;
pub mod variables;
pub mod walk;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
