//! `extant build --rules`: what files of rules give, judged beside the programs whose files they
//! are (genext2fs, fakeroot), and by the kernel and debugfs.
//!
//! ```text
//! fixture   a source, the command, what it made as ls and debugfs have it
//! own       our own rules
//! tables    those of Android, SELinux, genext2fs, fakeroot
//! ```
mod fixture;
mod own;
mod tables;
