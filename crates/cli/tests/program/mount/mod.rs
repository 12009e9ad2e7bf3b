//! `extant mount` and `extant umount` from outside. Needs root and `/dev/fuse`.
//!
//! ```text
//! fixture   images, mounts that end with their value, commands with a time limit
//! options   what -o asks for, seen in the table of mounts and in the files
//! around    a volume in a part of a file: what is around it stays
//! access    writable or not: errors, protected files, journals that are not empty
//! qcow2     volumes in qcow2 images, by a server that is killed
//! refusals  what is refused before anything is mounted: one line, a hint, an exit code
//! ending    unmounting, signals, servers that are killed
//! killed    servers that are killed while the kernel waits for them
//! coherence what is read in one way after it was written in another
//! failing   devices that fail while they are mounted
//! growing   volumes that get longer while they are mounted
//! program   a mount for one program
//! device    block devices
//! as_ext4   the kernel's ext4 as the oracle: handles, times, rights, trimming, noload
//! process   names of processes and threads, and too few of them
//! words     the words of fstab: the tables, the manual pages, and what each does
//! session   what is recorded of a mount, and lived again in the laboratory
//! user      a user who is not root, by fusermount3
//! system    mount(8) and umount(8)
//! ```
mod access;
mod around;
mod as_ext4;
mod cached;
mod coherence;
mod device;
mod ending;
mod failing;
pub mod fixture;
mod full;
mod growing;
mod killed;
mod options;
mod process;
mod program;
mod qcow2;
mod refusals;
mod session;
mod system;
mod user;
mod words;
