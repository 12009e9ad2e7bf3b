//! Mends volumes, gives them another size, and trims them: the problems that a check finds are
//! edits of an overlay, which is checked again until nothing is left.
//!
//! ```text
//! device | overlay | recovery | check -> edits | check -> edits | .. | check: clean
//! ```
//!
//! Nothing of this is on the disk: who calls [`repair`] writes the blocks of the overlay, by a log
//! that a cut cannot tear, or does not. So what a second run would say is known before the first
//! byte is written.
//!
//! ```text
//! heal          what a volume needs before it boots, and no more
//! recovery      what is done before the first check
//! rounds        a check, edits for what it found, and again
//!   considered    what is mended in a round, and what waits
//!   earlier       what the next check need not read again
//! corrected     bytes that a checksum gives back
//! regain        files that prove what they were
//! scope         what mending a problem takes, and who may decide it
//! preen         where that depends on other problems
//!   primary       which superblock is believed
//!   reserved      how many blocks are kept for descriptors to come
//!   places        where the parts of groups are, if no descriptor says
//!   superblock, bitmaps, journal, orphans, quota, growth_map  the volume's own
//!   inodes, duplicates, directories, inline, index, connect  files and names
//! shape         what is made smaller or faster when nothing is wrong any more
//! reshape       another size
//! trim          what has no meaning
//! tune          label, UUID, features, journal, quota: what tune2fs changes
//! map           maps of files, read as far as they can be, and written anew
//!   leaf          what cannot be in one node as it is
//! draft         the volume as it is to be; free: clusters that may be given out
//! options, outcome, error
//! ```

mod bitmaps;
mod connect;
mod considered;
mod corrected;
mod directories;
mod draft;
mod duplicates;
mod earlier;
mod error;
mod free;
mod growth_map;
mod heal;
mod index;
mod inline;
mod inodes;
mod journal;
mod map;
mod options;
mod orphans;
mod outcome;
mod places;
mod preen;
mod primary;
mod quota;
mod recovery;
mod regain;
mod reserved;
mod reshape;
mod rounds;
mod scope;
mod shape;
mod superblock;
mod trim;
pub mod tune;

pub use error::Error;
pub use heal::{CheckWhen, Healed, Reason, heal, is_clean, settled, sound};
pub use options::{LostFound, Optimize, RepairOptions, Scope};
pub use outcome::{Change, Recovery, Repaired};
pub use reshape::{Move, ResizeOptions, Resized, minimize, resize, widen};
pub use rounds::repair;
pub use trim::{Scrub, TrimOptions, Trimmed, trim};
