//! The commands from outside, run as a person or a script runs them.
//!
//! ```text
//! command      the command, run and read
//! reading      info, ls, stat, cat and mkfs beside mke2fs, dumpe2fs, ls and the kernel
//! mkfs_words   mkfs: the same words give what mke2fs gives
//! tar_export   tar against the kernel, GNU tar and our own reader
//! tar_pipe     tar into a pipe, which takes pages of the image
//! check        check beside e2fsck
//! layout       layout, and --metacluster
//! age          age and lab age
//! lab          the laboratory; page: what it writes with --html
//! traces       traces of other systems on a drive
//! readme       the blocks of README.md, docs/COMING.md and docs/FLEETS.md, run
//! replay       volumes whose journal holds changes: replayed, or read as they are after that
//! journals     volumes whose journal is elsewhere, nowhere or damaged
//! repair       repair, undo and heal beside e2fsck
//! tune         tune beside e2fsck and the kernel
//! resize       resize beside e2fsck and the kernel
//! qcow2        commands that change a qcow2 image where it is, beside QEMU
//! repack       repack and normalize beside e2fsck, debugfs and builds
//! chains       random chains of all these: bench/chains
//! shrink       shrink, and the ends of partitions, beside sfdisk and sgdisk
//! full         repairs on a host disk that becomes full
//! schemas      what --json prints names its schema
//! stumbles     what newcomers stumbled over: hints that help, names as they were typed
//! words        words and files that mean something to other tools; how wide text is
//! targets      images in use, and signals
//! waiting      images that others use, readers that go away, files of programs that were killed
//! released     what ships: its sections, its size
//! claims       images that claim much and hold little
//! ```
mod age;
mod chains;
mod check;
mod claims;
pub mod command;
mod full;
mod journals;
mod lab;
mod layout;
mod mkfs_words;
mod normalize;
mod page;
mod qcow2;
mod reading;
mod readme;
mod released;
mod repack;
mod repair;
mod replay;
mod resize;
mod schemas;
mod shrink;
mod stumbles;
mod tar_export;
mod tar_pipe;
mod targets;
mod traces;
mod trim;
mod tune;
mod waiting;
mod words;
