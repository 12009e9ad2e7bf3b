//! What is on the disk, judged from outside: it never links the engine that it looks at.
//!
//! [`Volume`] is a volume opened for looking, with features that nobody here supports, with faults,
//! truncated: it reads through [`BlockDevice`](extant_block::BlockDevice) and believes nothing. On
//! it stand
//! - [`VolumeInfo`] and [`GroupInfo`]: what dumpe2fs tells; their `Display` is text in its shape,
//!   their `Serialize` data;
//! - [`LayoutReport`]: how well files lie: layout score, fragments, locality;
//! - [`check()`]: whether everything agrees with everything else.
//!
//! ```text
//! volume    superblock (or a copy), descriptors, bitmaps, blocks, inodes: bounded reads, no trust
//!   info, group   facts of the volume and of each group      text: how they are printed
//!   table         inodes in disk order, in large reads
//!   map           the runs of one file, each map block at most once on the whole volume
//!     layout      what they say about placement
//! ```
//!
//! ```no_run
//! use extant_block::{FileDevice, RealClock, file::Access};
//! use extant_inspect::{SuperblockPlace, Volume, survey};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = FileDevice::open(RealClock::new(), "disk.img".as_ref(), Access::ReadOnly, 0)?;
//! let volume = Volume::open(std::sync::Arc::new(device), SuperblockPlace::Primary)?;
//! print!("{}", volume.info());
//! for group in volume.groups() {
//!     print!("{}", group?);
//! }
//! print!("{}", survey(&volume)?);
//! # Ok(())
//! # }
//! ```
//!
//! # What keeps hostile bytes harmless
//! Every walk is bounded by the bytes that the device really has: groups past its end are not
//! visited, inode tables that overlap are read once, a map block is followed once whatever points
//! to it. Memory is bounded by the number of inodes and of map blocks in use, never by a size that
//! an inode claims.

mod check;
mod claims;
mod date;
mod descriptors;
mod error;
mod group;
mod info;
mod layout;
mod map;
mod slabs;
mod table;
mod text;
mod volume;

pub use check::{
    CODES, CheckOptions, CheckReport, Code, Listener, Pass, Problem, Progress, ReadOrder, Repair,
    Rule, Severity, Summary, check,
};
pub use date::{CalendarTime, Date};
pub use error::Error;
pub use group::{BlockPlace, BlockRange, GroupInfo, Groups, StoredChecksum, SuperblockCopy};
pub use info::{ErrorRecord, JournalInfo, RecordedError, VolumeInfo, uuid};
pub use layout::{CELLS_MAX, Cell, LayoutMap, group_map, layout_map};
pub use layout::{
    FragmentClass, Fragmented, FreeSpace, LayoutReport, Locality, MapLayout, RunClass, SizeClass,
};
pub use layout::{Paths, SurveyOptions, survey, survey_with};
pub use map::{Claimed, MapFault, Visit, walk};
pub use table::{TableScan, each_inode};
pub use volume::{SuperblockPlace, Volume};
