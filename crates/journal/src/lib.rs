//! Recovery: what the journal of a volume holds, and the volume as it is after replay; and a change
//! of a volume by one transaction.
//!
//! Knows devices and the format, not the engine, so that judges and the engine see the same volume.
//!
//! ```text
//! recover     the volume after replay: over the device in memory (overlay), or on it (apply)
//! transaction blocks that are changed all together or not at all, by one transaction
//! scan        the transactions of a log, what is replayed of them, and why the log ends
//! reader      blocks of a log, read in large pieces
//! locate      where the journal is: superblock, inode, map
//! external    a journal on a device of its own, behind the volume's
//! joined      a device and another one behind it
//! volume      the superblock of the volume, torn or whole
//! error       why a journal cannot be used
//! ```
//!
//! # What is replayed
//! Whole transactions in a row, from the one that the journal's superblock names: of each block the
//! newest copy, unless a revoke of the same or a later transaction names it. The log ends before
//! the first transaction that is not whole or whose checksums do not fit; [`End`] says which. A
//! copy that belongs outside the volume or into the journal itself is an error, before anything is
//! written.
//!
//! A log that is empty is not replayed, whatever the flag `needs_recovery` says; neither is one of
//! a volume without that flag: Linux empties it, e2fsck asks.
//!
//! # What a cut during recovery can do
//! ```text
//! copies in place, in disk order | flush | error flag of the volume | flush
//!     | log is empty, its sequence goes on | flush | needs_recovery is cleared | flush
//! ```
//! Until the log is empty the same copies are replayed again. Everything else changes fields that
//! recovery reads, one sector at a time, or a flag whose torn store [`Journal::find`] recognises.
mod error;
mod external;
mod joined;
mod locate;
mod reader;
mod recover;
mod scan;
pub mod transaction;
mod volume;

pub use error::Error;
pub use external::{join, runs};
pub use joined::Joined;
pub use locate::{Journal, MapSource, State, check_place};
pub use recover::{Found, MEMORY_BYTES_MAX, Outcome, Recovery, Report, apply, overlay};
pub use scan::{End, Replayed, Scan, Transaction};

use extant_format::journal::fast_commit::FastCommits;

/// The whole fast commits that follow the full ones of a volume's journal; `None` where nothing is
/// to be recovered.
///
/// # Errors
/// As [`Journal::find`] and [`Journal::scan`].
pub fn fast_commits(
    device: std::sync::Arc<dyn extant_block::BlockDevice>,
) -> Result<Option<FastCommits>, Error> {
    let Some(journal) = Journal::find(device, MapSource::Inode)? else { return Ok(None) };
    if journal.state() != State::Waiting {
        return Ok(None);
    }
    Ok(Some(journal.scan(0)?.fast_commits))
}
