//! What is on the disk, judged from outside: this crate never links the engine that it judges.
//!
//! [`Volume`] is a volume opened for reading: with features that are not supported, with faults,
//! truncated. It reads through [`BlockDevice`](extant_block::BlockDevice) and believes nothing. On
//! top of it are
//! - [`VolumeInfo`] and [`GroupInfo`]: what dumpe2fs shows; their `Display` is text in its shape,
//!   their `Serialize` data;
//! - [`LayoutReport`]: how well files are placed: layout score, fragments, locality;
//! - [`check()`]: whether everything agrees with everything else.
//!
//! ```text
//! check         the check: facts, maps, passes; its mod.rs draws them
//! layout        how files are placed: survey of maps and directories, cells of a picture
//!   map         the runs of one file, each map block at most once on the whole volume
//!   table       inodes in the order of the disk, in large reads
//! text          facts as rows of text
//!   info        facts of the whole volume; journal_device: of the journal of another one
//!   group       facts of each group
//! descriptors   all group descriptors, in large reads
//! copies        the first copy of a superblock, found without the first superblock
//! volume        superblock (or a copy), descriptors, blocks, inodes: bounded reads, no trust
//! paths         what a few inodes are called
//! claims        which blocks are taken, and which twice
//! slabs         long lists of which little is used
//! date, error   the calendar; why a volume cannot be read
//! ```
//!
//! Modules use those below them only. What bytes mean is said in `extant_format`, but for two
//! things that are read as they lie: the pointers of an indirect block, and the parent of a
//! directory inside its inode.
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
mod copies;
mod date;
mod descriptors;
mod error;
mod group;
mod info;
mod journal_device;
mod layout;
mod map;
mod paths;
mod slabs;
mod table;
mod text;
mod volume;

pub use check::{
    CODES, CheckOptions, CheckReport, Code, ExpectedBits, FirstLook, Listener, Pass, Problem,
    Progress, ReadOrder, Repair, Rule, Severity, Summary, Trust, Usage, check, check_volume,
    examine, examine_again,
};
pub use copies::open_copy;
pub use date::Date;
pub use error::Error;
pub use group::{BlockPlace, BlockRange, GroupInfo, Groups, StoredChecksum, SuperblockCopy};
pub use info::{ErrorRecord, JournalInfo, RecordedError, VolumeInfo, uuid};
pub use journal_device::journal_device;
pub use layout::{CELLS_MAX, Cell, LayoutMap, group_map, layout_map};
pub use layout::{
    FragmentClass, Fragmented, FreeSpace, LayoutReport, Locality, MapLayout, RunClass, SizeClass,
};
pub use layout::{Paths, SurveyOptions, survey, survey_with};
pub use map::{Claimed, MapFault, Visit, walk};
pub use table::{TableScan, each_inode};
pub use volume::{SuperblockPlace, Volume};
