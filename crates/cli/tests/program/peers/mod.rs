//! Archives of other programs: what GNU tar lists, `extant build` accepts, with the same contents,
//! but for what is written down as refused, each with its words.
//!
//! ```text
//! made      archives that GNU tar, bsdtar, busybox, 7z, cpio, git and Python make here
//! shipped   archives that packages of other readers ship for their own tests
//! judge     one archive through GNU tar and through us, compared by the kernel's view of both
//! ```
//! Each test prints a table; `cargo test -p extant-cli --test program peers -- --nocapture` shows
//! it.
mod judge;
mod made;
mod shipped;
