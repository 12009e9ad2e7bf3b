//! Policies by name, and presets: rows of one table.
//!
//! A preset names one choice of every column of [`COLUMNS`]. Any column can be overridden, so that
//! one change can be studied on its own:
//!
//! ```
//! use extant_policy::preset::Policies;
//! let policies: Policies = "modern,allocation=ext2-goal".parse().unwrap();
//! assert_eq!(policies.names.get("placement"), "front");
//! assert_eq!(policies.names.get("allocation"), "ext2-goal");
//! let error = "modern,allocation=best".parse::<Policies>().err().unwrap();
//! assert!(error.to_string().starts_with("unknown allocation \"best\": known are ext2-goal, "));
//! ```
mod columns;
mod presets;
mod sources;
#[cfg(test)]
mod tests;

pub use columns::{COLUMNS, Choice, Column, by_name};
pub use presets::{PRESETS, Preset};
pub use sources::{SOURCES, Source, row as source_row, source};

use crate::allocation::{Allocation, MapBlocks};
use crate::placement::Placement;
use crate::readahead::{MapReadAhead, ReadAhead};
use crate::throttle::Throttle;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The preset that is used if none is named.
pub const DEFAULT_PRESET: &str = "modern";

/// How many blocks a directory that needs one gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// One, wherever the allocator finds it.
    Single,
    /// This many in a row at a time. Those not used yet wait in the directory's window.
    Contiguous(u32),
    /// Out of a window that is kept from other files while the directory is in memory.
    Reservation,
}

/// In which order changed inodes reach their table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeWriteBack {
    /// One inode after the other: its data, then its table block is read and queued, so that reads
    /// hold up the writes.
    Interleaved,
    /// All missing table blocks are read first, in long sorted runs; then all are written in one
    /// sweep.
    Clustered,
}

/// What happens to the table block of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeCreation {
    /// It is read when the inode is written back.
    ReadOnWrite,
    /// Its read is started when the inode is made, without waiting for it.
    PreRead,
    /// It is read when the inode is made, which waits for it.
    Read,
    /// It is not read if no other inode in it is in use: it starts as zeros.
    ZeroFill,
}

/// What is held while a bitmap is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitmapLoad {
    /// The lock on the superblock: other threads that allocate wait.
    UnderLock,
    /// Nothing.
    Outside,
}

/// How directory blocks are read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectoryReadAhead {
    /// Each alone, when it is wanted.
    None,
    /// As the block device is read: what follows on disk, whatever it belongs to.
    Physical,
    /// Those that follow in the directory, wherever they are.
    Logical,
}

/// Whether small reads near each other make the device read on, whichever files they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourReadAhead {
    /// They do not.
    None,
    /// Stretches that grow up to this many bytes are read: see [`extant_block::Neighbours`].
    Grow(u64),
    /// The same, or windows of what the device's latency and rate are worth if that is more: see
    /// [`extant_block::Paced`].
    Paced(u64),
}

/// How much of an inode table is read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableReadAhead {
    /// Only the block that is wanted.
    None,
    /// This many blocks around it, aligned, as far as inodes there are in use.
    Around(u32),
    /// As many as were worth reading lately: see `inode::table_windows`.
    Learned,
}

/// What is durable before what, without a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataOrder {
    /// Nothing: data and metadata go to the device together, and a size may be on disk before its
    /// data.
    Unordered,
    /// A file's data first, then what makes it readable, then the names; freed blocks are reused
    /// after that.
    DataFirst,
}

/// What goes through the journal of a volume that has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Journal {
    /// Nothing: the volume is changed in place.
    None,
    /// Metadata. A map may be durable before the data that it points to.
    Writeback,
    /// Metadata. New blocks are written first, and enter the map when that has ended.
    Ordered,
    /// Metadata. Blocks enter the map at once, and a commit waits for all data under way. A block
    /// is not changed while a commit writes it to the log, and an access is a change.
    OrderedJbd,
    /// Metadata and data.
    Data,
}

/// Whether a commit and a sync have the device flush its cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushes {
    /// They do.
    Sent,
    /// They do not: the device writes when it likes.
    Left,
}

/// What is durable at the latest when the time of the column `commit` has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitReach {
    /// The transaction that was running, where there is a journal. How old the data of a file
    /// becomes in memory is up to the throttle: 30 s on Linux.
    Transaction,
    /// All that was changed before, data too, with and without a journal: nothing older than this
    /// is lost with the power.
    Everything,
}

/// When a change of metadata is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mount {
    /// When it is written back.
    Async,
    /// When the call that made it returns.
    Sync,
    /// The same, and a new indirect block when the call that made it returns.
    SyncMaps,
    /// Later, in an order in which nothing on the disk ever points to what is not there.
    SoftUpdates,
}

impl Mount {
    /// Whether calls that change names wait until that is on disk.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Mount::Sync | Mount::SyncMaps)
    }
}

/// Which reads change access times. Reads of a volume opened for reading never do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessTimes {
    /// None.
    None,
    /// The first one after a change of the content or the inode, and one a day.
    Relative,
    /// All.
    Strict,
}

/// What a flusher does that finds the device's queue nearly full
/// ([`extant_block::Congests::is_congested`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// It sleeps in it, like a writer.
    Waits,
    /// It writes no more until a request has ended and the queue is not congested, or for 100 ms.
    Leaves,
}

/// What the processor's work costs in virtual time. A laboratory says so, of the machine that it
/// plays; real time ignores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// One call, with the look-up of its path, in nanoseconds.
    pub call_ns: u64,
    /// One name returned by a listing, in nanoseconds.
    pub name_ns: u64,
    /// One KiB copied to or from memory, with finding or making its page, in nanoseconds.
    pub kib_ns: u64,
}

impl Costs {
    /// Work takes no time.
    pub const NONE: Costs = Costs { call_ns: 0, name_ns: 0, kib_ns: 0 };
}

/// The policies of one volume. Parsed from `PRESET[,COLUMN=NAME]...`; without a preset from
/// [`DEFAULT_PRESET`].
#[derive(Clone)]
pub struct Policies {
    /// Where inodes go.
    pub placement: Arc<dyn Placement>,
    /// Where blocks go.
    pub allocation: Arc<dyn Allocation>,
    /// Where map blocks go.
    pub map_blocks: MapBlocks,
    /// How directories grow.
    pub growth: Growth,
    /// How changed inodes are written.
    pub inode_write_back: InodeWriteBack,
    /// How inodes are made.
    pub inode_creation: InodeCreation,
    /// How bitmaps are loaded.
    pub bitmap_load: BitmapLoad,
    /// How far files are read ahead.
    pub file_read_ahead: Arc<dyn ReadAhead>,
    /// Which map blocks are read ahead of the data of a file.
    pub map_read_ahead: MapReadAhead,
    /// How far directories are read ahead.
    pub directory_read_ahead: DirectoryReadAhead,
    /// How far the inode table is read ahead.
    pub table_read_ahead: TableReadAhead,
    /// Whether small reads near each other make the device read on.
    pub neighbour_read_ahead: NeighbourReadAhead,
    /// When dirty blocks are written, and by which thread.
    pub throttle: Arc<dyn Throttle>,
    /// Whether changes of metadata are waited for.
    pub mount: Mount,
    /// What is durable before what.
    pub data_order: DataOrder,
    /// What goes through the journal.
    pub journal: Journal,
    /// Whether the device's cache is flushed.
    pub flushes: Flushes,
    /// After how many seconds at most a transaction is committed.
    pub commit_seconds: u32,
    /// What else is made durable as often.
    pub commit_reach: CommitReach,
    /// Which reads change access times.
    pub access_times: AccessTimes,
    /// What a flusher does that finds the device's queue nearly full.
    pub congestion: Congestion,
    /// What the processor's work costs in virtual time: nothing, unless a laboratory says so.
    pub costs: Costs,
    /// The names of these choices.
    pub names: Names,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

/// Which policies were chosen, by name, for reports. Its `Display` can be parsed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// The row.
    pub preset: &'static str,
    /// The choice of each column, in the order of [`COLUMNS`].
    values: Vec<String>,
}

impl Names {
    /// The choice of a column.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn get(&self, column: &str) -> &str {
        let at = COLUMNS.iter().position(|entry| entry.name == column);
        &self.values[at.unwrap_or_else(|| panic!("no column {column}"))]
    }

    /// All columns with their choices, in the order of [`COLUMNS`].
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        COLUMNS.iter().map(|column| column.name).zip(self.values.iter().map(String::as_str))
    }
}

/// Why a text does not name policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PresetError {
    /// A name that is in no table.
    Unknown {
        /// What the name should have been: "preset", or the name of a column.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// A column was given twice.
    Twice(&'static str),
    /// A number in a column is wrong.
    Wrong {
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PresetError::Unknown { what, name, known } => {
                write!(f, "unknown {what} {name:?}: known are {}", known.join(", "))
            }
            PresetError::Twice(what) => write!(f, "{what} is given twice"),
            PresetError::Wrong { column, reason } => write!(f, "{column}: {reason}"),
        }
    }
}
impl std::error::Error for PresetError {}

impl PresetError {
    /// The column that it is about: "preset" or "column" where it is not about the choice in one.
    pub fn of(&self) -> &'static str {
        match self {
            PresetError::Unknown { what, .. } => what,
            PresetError::Twice(column) | PresetError::Wrong { column, .. } => column,
        }
    }
}

/// The preset with this name.
///
/// # Errors
/// [`PresetError::Unknown`].
pub fn preset(name: &str) -> Result<&'static Preset, PresetError> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| PresetError::Unknown {
        what: "preset",
        name: name.to_owned(),
        known: PRESETS.iter().map(|preset| preset.name).collect(),
    })
}

/// Looks whether all columns that were chosen are known, and none was chosen twice.
///
/// # Errors
/// [`PresetError::Unknown`], [`PresetError::Twice`].
pub fn check_columns(known: &[&'static str], chosen: &[(&str, &str)]) -> Result<(), PresetError> {
    for (at, (name, _)) in chosen.iter().enumerate() {
        let Some(column) = known.iter().find(|column| *column == name) else {
            return Err(PresetError::Unknown {
                what: "column",
                name: (*name).to_owned(),
                known: ["preset"].into_iter().chain(known.iter().copied()).collect(),
            });
        };
        if chosen[..at].iter().any(|(before, _)| before == name) {
            return Err(PresetError::Twice(column));
        }
    }
    Ok(())
}

/// Sets all columns: as they were chosen, given as (column, choice), and the others as the row has
/// them. Returns their full names, in the order of the columns.
///
/// # Errors
/// For a choice that a column has not.
pub fn choose_columns<R, T>(
    columns: &[Column<R, T>],
    row: &R,
    chosen: &[(&str, &str)],
    settings: &mut T,
) -> Result<Vec<String>, PresetError> {
    let choose = |column: &Column<R, T>| {
        let said = chosen.iter().find(|(name, _)| *name == column.name);
        let choice = said.map_or_else(|| (column.of)(row), |(_, choice)| choice);
        (column.choose)(column, choice, settings)
    };
    columns.iter().map(choose).collect()
}

impl Policies {
    /// The policies of this preset, with other choices in some columns, given as (column, choice).
    ///
    /// # Errors
    /// For a name that is not in the tables, and for a column given twice.
    pub fn with<'a>(
        row: &'static Preset,
        overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Policies, PresetError> {
        let chosen: Vec<(&str, &str)> = overrides.into_iter().collect();
        let known: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        check_columns(&known, &chosen)?;
        let mut policies = Policies::blank(row);
        policies.names.values = choose_columns(COLUMNS, row, &chosen, &mut policies)?;
        Ok(policies)
    }
}

impl Policies {
    /// The same, for a volume that is changed in place even if it has a journal: one that is being
    /// made, say. The names stay as they are.
    pub fn without_journal(self) -> Policies {
        Policies { journal: Journal::None, ..self }
    }
}

/// What `PRESET[,COLUMN=NAME]...` says, before it is looked up.
pub struct Words<'a> {
    /// The preset that is named.
    pub preset: Option<&'static Preset>,
    /// Columns with their choices.
    pub columns: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    /// Takes them apart.
    ///
    /// # Errors
    /// A preset that is not known, or two.
    pub fn split(words: &'a str) -> Result<Words<'a>, PresetError> {
        let mut said = Words { preset: None, columns: Vec::new() };
        for word in split_words(words) {
            let name = match word.split_once('=') {
                None => word,
                Some(("preset", name)) => name,
                Some(pair) => {
                    said.columns.push(pair);
                    continue;
                }
            };
            if said.preset.replace(preset(name)?).is_some() {
                return Err(PresetError::Twice("preset"));
            }
        }
        Ok(said)
    }

    /// The preset that is named, or else [`DEFAULT_PRESET`].
    ///
    /// # Errors
    /// That one is not there; never.
    pub fn row(&self) -> Result<&'static Preset, PresetError> {
        self.preset.map_or_else(|| preset(DEFAULT_PRESET), Ok)
    }
}

impl FromStr for Policies {
    type Err = PresetError;

    fn from_str(words: &str) -> Result<Policies, PresetError> {
        let words = Words::split(words)?;
        Policies::with(words.row()?, words.columns)
    }
}

/// Splits at commas outside brackets: `map-blocks=metacluster(middle,1/64)` is one word.
fn split_words(words: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    words.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

/// In the form that can be parsed.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset)?;
        let Ok(row) = preset(self.preset) else { return Ok(()) };
        for (column, value) in COLUMNS.iter().zip(&self.values) {
            if (column.of)(row) != value {
                write!(f, ",{}={value}", column.name)?;
            }
        }
        Ok(())
    }
}
