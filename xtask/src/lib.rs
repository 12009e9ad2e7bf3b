//! What the project does to itself: judges its own sources, calls the oracles, compares trees,
//! prints the tables.
//!
//! The library part is for integration tests of the other crates (a dev-dependency); the binary is
//! for `make`. It links none of the crates that it helps to judge: what it knows about an image it
//! has from the kernel and from e2fsprogs.
//!
//! ```text
//! gates     suites (the tests and their time), tidy (the house rules), licenses
//!           tools (what the tests call from the host)
//! oracles   oracle (e2fsck, dumpe2fs, the kernel's mount), diff_walk
//!           compare (two trees)   walk (a tree on the host)   listing (an image's entries as text)
//! samples   fixtures/populate (images by mke2fs and the kernel), archive (plain tar)
//! tables    bench/{input, build, read, check, limits, layout, lab}, demo
//!           measure (time and memory)   sheet (printed, and kept for a document)
//! below     command (other programs)   lines (how wide text is)   scratch (folders)
//! ```

pub mod archive;
pub mod bench;
pub mod command;
pub mod compare;
pub mod demo;
pub mod diff_walk;
pub mod fixtures;
pub mod licenses;
pub mod lines;
pub mod listing;
pub mod measure;
pub mod oracle;
pub mod scratch;
pub mod sheet;
pub mod suites;
pub mod tidy;
pub mod tools;
pub mod walk;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
