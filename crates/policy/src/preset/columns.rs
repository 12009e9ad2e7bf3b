//! The columns and their choices: one table, for parsing, `--list`, reports and tests.
use super::{
    AccessTimes, BitmapLoad, CommitReach, Congestion, DataOrder, DirectoryReadAhead, Flushes,
    Growth, InodeCreation, InodeWriteBack, Journal, Mount, NeighbourReadAhead, TableReadAhead,
};
use super::{Policies, Preset, PresetError};
use crate::allocation::{self, MapBlocks, MapBlocksError, Metacluster, packed_from};
use crate::readahead::MapReadAhead;
use crate::{placement, readahead, throttle};
use extant_format::BlockNo;
use std::sync::Arc;

/// A choice of a column of settings: of the engine's policies, or of a machine that is kept beside
/// them.
pub struct Choice<T: 'static = Policies> {
    /// Its name on command lines and in reports.
    pub name: &'static str,
    /// A description in one line, with its source.
    pub line: &'static str,
    /// Sets it. A policy with a cursor is made for each volume.
    pub set: fn(&mut T),
}

/// One property of a system that can be chosen: rows have names for it, which stand for settings.
pub struct Column<R: 'static = Preset, T: 'static = Policies> {
    /// Its name on command lines and in reports.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
    /// The choices with names. Empty if the column takes numbers.
    pub choices: &'static [Choice<T>],
    /// The choice of a preset.
    pub of: fn(&R) -> &'static str,
    /// Sets a choice, and returns its full name.
    pub choose: Choose<R, T>,
}

/// Sets a choice of a column by its name, and returns its full name.
///
/// # Errors
/// The column has no such choice.
pub type Choose<R, T> = fn(&Column<R, T>, &str, &mut T) -> Result<String, PresetError>;

impl<R, T> Column<R, T> {
    /// The names that can be chosen here, each with its description.
    pub fn known(&self) -> Vec<(&'static str, &'static str)> {
        self.choices.iter().map(|choice| (choice.name, choice.line)).collect()
    }
}

/// Sets the choice of that name: what most columns do.
///
/// # Errors
/// [`PresetError::Unknown`].
pub fn by_name<R, T>(
    column: &Column<R, T>,
    name: &str,
    settings: &mut T,
) -> Result<String, PresetError> {
    let found = column.choices.iter().find(|choice| choice.name == name);
    let choice = found.ok_or_else(|| PresetError::Unknown {
        what: column.name,
        name: name.to_owned(),
        known: column.choices.iter().map(|choice| choice.name).collect(),
    })?;
    (choice.set)(settings);
    Ok(choice.name.to_owned())
}

fn map_blocks(
    column: &Column,
    words: &str,
    policies: &mut Policies,
) -> Result<String, PresetError> {
    policies.map_blocks = words.parse().map_err(|error: MapBlocksError| PresetError::Wrong {
        column: column.name,
        reason: error.to_string(),
    })?;
    Ok(words.to_owned())
}

fn commit(column: &Column, words: &str, policies: &mut Policies) -> Result<String, PresetError> {
    let (time, reach) = match words.strip_suffix("+data") {
        Some(time) => (time, CommitReach::Everything),
        None => (words, CommitReach::Transaction),
    };
    let number = time.strip_suffix('s').and_then(|digits| digits.parse().ok());
    policies.commit_seconds =
        number.filter(|number| (1..=86_400).contains(number)).ok_or_else(|| {
            PresetError::Wrong {
                column: column.name,
                reason: format!("{words:?} is not a time from 1s to 86400s, or that and \"+data\""),
            }
        })?;
    policies.commit_reach = reach;
    Ok(words.to_owned())
}

/// All columns.
pub static COLUMNS: &[Column] = &[
    Column {
        name: "placement",
        line: "which group a new directory or inode goes to",
        choices: PLACEMENTS,
        of: |row| row.placement,
        choose: by_name,
    },
    Column {
        name: "allocation",
        line: "which blocks a file gets, and when",
        choices: ALLOCATIONS,
        of: |row| row.allocation,
        choose: by_name,
    },
    Column {
        name: "map-blocks",
        line: "where indirect blocks and nodes of extent trees go",
        choices: MAP_BLOCKS,
        of: |row| row.map_blocks,
        choose: map_blocks,
    },
    Column {
        name: "growth",
        line: "how many blocks a directory that is full gets",
        choices: GROWTHS,
        of: |row| row.growth,
        choose: by_name,
    },
    Column {
        name: "inode-write-back",
        line: "in which order changed inodes reach their table",
        choices: INODE_WRITE_BACKS,
        of: |row| row.inode_write_back,
        choose: by_name,
    },
    Column {
        name: "inode-creation",
        line: "what happens to the table block of a new inode",
        choices: INODE_CREATIONS,
        of: |row| row.inode_creation,
        choose: by_name,
    },
    Column {
        name: "bitmap-load",
        line: "what is held while a bitmap is read",
        choices: BITMAP_LOADS,
        of: |row| row.bitmap_load,
        choose: by_name,
    },
    Column {
        name: "read-ahead",
        line: "how far files are read ahead",
        choices: READ_AHEADS,
        of: |row| row.file_read_ahead,
        choose: by_name,
    },
    Column {
        name: "map-read-ahead",
        line: "which map blocks of a file are read ahead of its data",
        choices: MAP_READ_AHEADS,
        of: |row| row.map_read_ahead,
        choose: by_name,
    },
    Column {
        name: "directory-read-ahead",
        line: "which directory blocks are read ahead",
        choices: DIRECTORY_READ_AHEADS,
        of: |row| row.directory_read_ahead,
        choose: by_name,
    },
    Column {
        name: "table-read-ahead",
        line: "how much of an inode table is read at once",
        choices: TABLE_READ_AHEADS,
        of: |row| row.table_read_ahead,
        choose: by_name,
    },
    Column {
        name: "neighbour-read-ahead",
        line: "whether small reads near each other make the device read on, across files",
        choices: NEIGHBOUR_READ_AHEADS,
        of: |row| row.neighbour_read_ahead,
        choose: by_name,
    },
    Column {
        name: "throttle",
        line: "when dirty blocks are written, and by whom",
        choices: THROTTLES,
        of: |row| row.throttle,
        choose: by_name,
    },
    Column {
        name: "mount",
        line: "whether changes of metadata are waited for",
        choices: MOUNTS,
        of: |row| row.mount,
        choose: by_name,
    },
    Column {
        name: "data-order",
        line: "whether a file's data is durable before the metadata that makes it readable",
        choices: DATA_ORDERS,
        of: |row| row.data_order,
        choose: by_name,
    },
    Column {
        name: "journal",
        line: "what goes through the journal, where the volume has one",
        choices: JOURNALS,
        of: |row| row.journal,
        choose: by_name,
    },
    Column {
        name: "barrier",
        line: "whether a commit and a sync have the drive flush its cache",
        choices: BARRIERS,
        of: |row| row.barrier,
        choose: by_name,
    },
    Column {
        name: "commit",
        line: "after how many seconds at most a transaction of the journal is committed: 5s; or \
            all that is dirty is written, data too, with and without a journal: 5s+data",
        choices: &[],
        of: |row| row.commit,
        choose: commit,
    },
    Column {
        name: "atime",
        line: "which reads change access times",
        choices: ACCESS_TIMES,
        of: |row| row.access_times,
        choose: by_name,
    },
    Column {
        name: "congestion",
        line: "what a flusher does that finds that queue nearly full, in the laboratory",
        choices: CONGESTIONS,
        of: |row| row.congestion,
        choose: by_name,
    },
];

const CONGESTIONS: &[Choice] = &[
    Choice {
        name: "wait",
        line: "it sleeps in it, like a writer",
        set: |policies| policies.congestion = Congestion::Waits,
    },
    Choice {
        name: "leave",
        line: "from 113 of 128 requests on it leaves it alone, for 100 ms or until one ends of at \
            most 103; writers sleep in it (Linux 2.6)",
        set: |policies| policies.congestion = Congestion::Leaves,
    },
];

const PLACEMENTS: &[Choice] = &[
    Choice {
        name: "spread",
        line: "directories where most blocks are free (ext2 up to Linux 2.4; post of 2001)",
        set: |policies| policies.placement = Arc::new(placement::Spread),
    },
    Choice {
        name: "parent",
        line: "directories like files, in the parent's group (the change tried in the post of \
            2001)",
        set: |policies| policies.placement = Arc::new(placement::Parent),
    },
    Choice {
        name: "orlov-2.5",
        line: "directories near their parent unless crowded or in debt, those at the top spread \
            from group 0 on (ext2 of Linux 2.5.46)",
        set: |policies| policies.placement = Arc::new(placement::Orlov::First),
    },
    Choice {
        name: "orlov",
        line: "the same with the top from a random group on; files want a free block too (ext2 of \
            Linux 2.6)",
        set: |policies| policies.placement = Arc::new(placement::Orlov::Random),
    },
    Choice {
        name: "orlov-ext3",
        line: "the same without a look at the debt (ext3 of Linux 2.6)",
        set: |policies| policies.placement = Arc::new(placement::Orlov::Ext3),
    },
    Choice {
        name: "dirpref",
        line: "the same as BSD has it, by three quarters of the average (FreeBSD since 2001; post \
            of 2010)",
        set: |policies| policies.placement = Arc::new(placement::Dirpref),
    },
    Choice {
        name: "flex",
        line: "orlov with flex groups as the unit, inodes packed in front (ext4, Linux 2.6.28 and \
            later)",
        set: |policies| policies.placement = Arc::new(placement::Flex),
    },
    Choice {
        name: "front",
        line: "as flex, with directories at the top from the front of the volume on: a disk is \
            fastest there (ours)",
        set: |policies| policies.placement = Arc::new(placement::Front),
    },
    Choice {
        name: "packed",
        line: "the first group with a free inode (for images made in one go)",
        set: |policies| policies.placement = Arc::new(placement::Packed),
    },
];

const ALLOCATIONS: &[Choice] = &[
    Choice {
        name: "ext2-goal",
        line: "next to the last block, by goal and free byte, 8 preallocated (ext2 of Linux 2.4; \
            post of 2001)",
        set: |policies| policies.allocation = Arc::new(allocation::Ext2Goal),
    },
    Choice {
        name: "reservation",
        line: "the same goals, first blocks in a sixteenth of the group by process, out of windows \
            that open files keep from each other in memory (ext3; posts of 2007)",
        set: |policies| policies.allocation = Arc::new(allocation::Reservation),
    },
    Choice {
        name: "freebsd-5.2",
        line: "ext2-goal without preallocation, each file's first block from the start of the \
            volume on (FreeBSD of 2004; post of 2010: the fast one)",
        set: |policies| policies.allocation = Arc::new(allocation::FreeBsd52),
    },
    Choice {
        name: "freebsd-2010",
        line: "one block in eight, from the start of the volume on (the bug of the post of 2010, \
            exactly)",
        set: |policies| policies.allocation = Arc::new(allocation::FreeBsd2010),
    },
    Choice {
        name: "freebsd-fixed",
        line: "the last block is remembered again, and eight free in a row are looked for (after \
            the post of 2010)",
        set: |policies| policies.allocation = Arc::new(allocation::FreeBsdFixed),
    },
    Choice {
        name: "multi-block",
        line: "long runs at write-back, file data apart from directories (ext4, Linux 2.6.28 and \
            later)",
        set: |policies| policies.allocation = Arc::new(allocation::MultiBlock),
    },
    Choice {
        name: "packed",
        line: "one block after the other as they are asked for (for images made in one go)",
        set: |policies| policies.allocation = Arc::new(packed_from(BlockNo(0), BlockNo(0))),
    },
];

const MAP_BLOCKS: &[Choice] = &[
    Choice {
        name: "beside",
        line: "where the allocation puts them, between the data that they map (all systems of the \
            posts)",
        set: |policies| policies.map_blocks = MapBlocks::Beside,
    },
    Choice {
        name: "metacluster",
        line: "in one run of each group: metacluster(POSITION,SIZE), (middle,1/64) if not said \
            (post of 2007)",
        set: |policies| policies.map_blocks = MapBlocks::Metacluster(Metacluster::default()),
    },
];

const GROWTHS: &[Choice] = &[
    Choice {
        name: "single",
        line: "one block at a time, between the data of the files (ext2 and ext3; post of 2007)",
        set: |policies| policies.growth = Growth::Single,
    },
    Choice {
        name: "contiguous-8",
        line: "eight blocks in a row at a time (asked for in the post of 2007)",
        set: |policies| policies.growth = Growth::Contiguous(8),
    },
    Choice {
        name: "reservation",
        line: "out of a window kept from other files (asked for in the post of 2007)",
        set: |policies| policies.growth = Growth::Reservation,
    },
];

const INODE_WRITE_BACKS: &[Choice] = &[
    Choice {
        name: "interleaved",
        line: "read a table block, write a table block, one inode after the other (Linux 2.4; post \
            of 2001)",
        set: |policies| policies.inode_write_back = InodeWriteBack::Interleaved,
    },
    Choice {
        name: "clustered",
        line: "read what is missing in sorted runs, then write in one sweep (the post of 2001)",
        set: |policies| policies.inode_write_back = InodeWriteBack::Clustered,
    },
];

const INODE_CREATIONS: &[Choice] = &[
    Choice {
        name: "read-on-write",
        line: "the table block is read at write-back (Linux 2.4; post of 2001)",
        set: |policies| policies.inode_creation = InodeCreation::ReadOnWrite,
    },
    Choice {
        name: "preread",
        line: "its read is started when the inode is made (the post of 2001)",
        set: |policies| policies.inode_creation = InodeCreation::PreRead,
    },
    Choice {
        name: "read",
        line: "it is read when the inode is made, and that waits for it (FreeBSD)",
        set: |policies| policies.inode_creation = InodeCreation::Read,
    },
    Choice {
        name: "zero-fill",
        line: "not read where no other inode in it is in use (ext3 and later)",
        set: |policies| policies.inode_creation = InodeCreation::ZeroFill,
    },
];

const BITMAP_LOADS: &[Choice] = &[
    Choice {
        name: "under-lock",
        line: "the superblock's lock: all others who allocate wait (ext2 of Linux 2.4; post of \
            2001)",
        set: |policies| policies.bitmap_load = BitmapLoad::UnderLock,
    },
    Choice {
        name: "outside",
        line: "nothing (the post of 2001)",
        set: |policies| policies.bitmap_load = BitmapLoad::Outside,
    },
];

const READ_AHEADS: &[Choice] = &[
    Choice {
        name: "none",
        line: "what is asked for",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::None),
    },
    Choice {
        name: "2.4",
        line: "a window of 3 to 31 pages, doubled while reads go on in it (Linux 2.4; post of \
            2001)",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::Linux24),
    },
    Choice {
        name: "2.6",
        line: "two windows of up to 128 KiB, one read and one on its way (Linux 2.6 up to 2.6.22)",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::Linux26),
    },
    Choice {
        name: "clustered",
        line: "as far as it is in one piece, up to 128 KiB, further the longer it goes on \
            (FreeBSD)",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::Clustered),
    },
    Choice {
        name: "on-demand",
        line: "one window with a mark that asks for the next, of up to 2 MiB, for seeks are dear",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::OnDemand::FAR),
    },
    Choice {
        name: "on-demand-128k",
        line: "the same with windows of up to 128 KiB (Linux 2.6.23 and later)",
        set: |policies| policies.file_read_ahead = Arc::new(readahead::OnDemand::LINUX),
    },
];

const MAP_READ_AHEADS: &[Choice] = &[
    Choice {
        name: "none",
        line: "each indirect block alone, when it is wanted (all systems of the posts)",
        set: |policies| policies.map_read_ahead = MapReadAhead::None,
    },
    Choice {
        name: "metacluster",
        line: "up to 32 of those that are together, on sequential reads, seen by where they are \
            (post of 2007)",
        set: |policies| policies.map_read_ahead = MapReadAhead::Metacluster,
    },
    Choice {
        name: "neighbours",
        line: "these, and with each one that is missing up to 32 blocks around it in its cluster",
        set: |policies| policies.map_read_ahead = MapReadAhead::Neighbours,
    },
];

const DIRECTORY_READ_AHEADS: &[Choice] = &[
    Choice {
        name: "none",
        line: "each block alone (hashed directories of ext3; post of 2007)",
        set: |policies| policies.directory_read_ahead = DirectoryReadAhead::None,
    },
    Choice {
        name: "physical",
        line: "what follows on the disk after two blocks in a row, whatever it belongs to, as the \
            block device is read (linear directories of ext3; post of 2007)",
        set: |policies| policies.directory_read_ahead = DirectoryReadAhead::Physical,
    },
    Choice {
        name: "logical",
        line: "those that follow in the directory, wherever they are (asked for in the post of \
            2007)",
        set: |policies| policies.directory_read_ahead = DirectoryReadAhead::Logical,
    },
];

const TABLE_READ_AHEADS: &[Choice] = &[
    Choice {
        name: "none",
        line: "the block that is wanted (ext2 and ext3)",
        set: |policies| policies.table_read_ahead = TableReadAhead::None,
    },
    Choice {
        name: "around-8",
        line: "the eight blocks around it, as far as their inodes are in use (ext4: 32 KiB)",
        set: |policies| policies.table_read_ahead = TableReadAhead::Around(8),
    },
    Choice {
        name: "around-32",
        line: "the 32 blocks around it, as far as their inodes are in use",
        set: |policies| policies.table_read_ahead = TableReadAhead::Around(32),
    },
    Choice {
        name: "learned",
        line: "from 8 to 64 blocks around it: more while blocks that were read so are wanted, \
            fewer while not (ours)",
        set: |policies| policies.table_read_ahead = TableReadAhead::Learned,
    },
];

const NEIGHBOUR_READ_AHEADS: &[Choice] = &[
    Choice {
        name: "none",
        line: "no",
        set: |policies| policies.neighbour_read_ahead = NeighbourReadAhead::None,
    },
    Choice {
        name: "grow-2m",
        line: "stretches that double from 64 KiB to 2 MiB while they are used (ours: a seek costs \
            as much as 400 KiB)",
        set: |policies| policies.neighbour_read_ahead = NeighbourReadAhead::Grow(2 << 20),
    },
    Choice {
        name: "paced",
        line: "as grow-2m, and where the device's least latency times its rate, learned while \
            reading, is worth more, as far as that (ours)",
        set: |policies| policies.neighbour_read_ahead = NeighbourReadAhead::Paced(2 << 20),
    },
];

const THROTTLES: &[Choice] = &[
    Choice {
        name: "inline",
        line: "no one waits before memory is short; then the next writer writes everything",
        set: |policies| policies.throttle = Arc::new(throttle::Inline),
    },
    Choice {
        name: "bdflush",
        line: "a flusher from 30 % dirty and every 5 s what is 30 s old; writers write from 60 % \
            (Linux 2.4)",
        set: |policies| policies.throttle = Arc::new(throttle::Bdflush),
    },
    Choice {
        name: "bufdaemon",
        line: "dirty buffers are counted, one for each block: calls wait when a quarter of all are \
            dirty, 1 MiB is under way at most (FreeBSD up to 2010)",
        set: |policies| policies.throttle = Arc::new(throttle::Bufdaemon),
    },
    Choice {
        name: "kupdate",
        line: "buffers by age: inodes into their tables every 5 s, writers push the oldest out \
            from 40 %, wait from 60 % (Linux 2.4.14)",
        set: |policies| policies.throttle = Arc::new(throttle::Kupdate),
    },
    Choice {
        name: "write-behind",
        line: "a flusher from 8 MiB dirty on, so that the device never idles; writers write from \
            40 % (ours)",
        set: |policies| policies.throttle = Arc::new(throttle::WriteBehind),
    },
    Choice {
        name: "global",
        line: "one limit for all devices, 10 and 40 %, and writers that write (Linux 2.6.20)",
        set: |policies| policies.throttle = Arc::new(throttle::Global::default()),
    },
    Choice {
        name: "global-2.6.22",
        line: "the same with 5 and 10 % (Linux 2.6.22 and 2.6.23)",
        set: |policies| policies.throttle = Arc::new(throttle::Global::new(5, 10)),
    },
    Choice {
        name: "per-device",
        line: "a limit for each device by its part of recent write-back, of 5 and 10 % (version 9 \
            of 2007)",
        set: |policies| policies.throttle = Arc::new(throttle::PerDevice::default()),
    },
    Choice {
        name: "per-device-2.6.24",
        line: "the same, and writers run free while half-way to the limit is not reached (Linux \
            2.6.24)",
        set: |policies| policies.throttle = Arc::new(throttle::PerDevice::released()),
    },
    Choice {
        name: "proportional",
        line: "writers are paused, never write, and dirty blocks stay between 10 and 20 % \
            (Linux 3.2)",
        set: |policies| policies.throttle = Arc::new(throttle::Proportional::default()),
    },
    Choice {
        name: "steady",
        line: "the same pauses and limit, and a flusher from 8 MiB dirty on, so that the device \
            never idles (ours)",
        set: |policies| policies.throttle = Arc::new(throttle::Proportional::steady()),
    },
];

const MOUNTS: &[Choice] = &[
    Choice {
        name: "async",
        line: "written back later (Linux; FreeBSD on request)",
        set: |policies| policies.mount = Mount::Async,
    },
    Choice {
        name: "sync",
        line: "a call that changes metadata returns when it is written (FreeBSD; post of 2010)",
        set: |policies| policies.mount = Mount::Sync,
    },
    Choice {
        name: "sync-maps",
        line: "the same, and so does a write that makes an indirect block (early FreeBSD)",
        set: |policies| policies.mount = Mount::SyncMaps,
    },
    Choice {
        name: "soft-updates",
        line: "later, in an order in which a power cut leaves nothing but unused blocks and inodes \
            (FreeBSD's ffs since 1998); where there is no journal",
        set: |policies| policies.mount = Mount::SoftUpdates,
    },
];

const DATA_ORDERS: &[Choice] = &[
    Choice {
        name: "unordered",
        line: "no: both are written together, and after a power cut a file may show old blocks \
            (ext2; the posts)",
        set: |policies| policies.data_order = DataOrder::Unordered,
    },
    Choice {
        name: "data-first",
        line: "yes, and names come last; blocks are given at write-back and, once freed, again \
            only after a sweep",
        set: |policies| policies.data_order = DataOrder::DataFirst,
    },
];

const JOURNALS: &[Choice] = &[
    Choice {
        name: "none",
        line: "nothing: the column data-order decides what is durable first",
        set: |policies| policies.journal = Journal::None,
    },
    Choice {
        name: "writeback",
        line: "metadata; a file may show old blocks after a power cut (ext3 and ext4, \
            data=writeback)",
        set: |policies| policies.journal = Journal::Writeback,
    },
    Choice {
        name: "ordered",
        line: "metadata, and a map only after the data that it points to; an fsync waits for no \
            other file",
        set: |policies| policies.journal = Journal::Ordered,
    },
    Choice {
        name: "ordered-jbd",
        line: "metadata; a commit first writes the data of all files that it maps, and changes \
            wait for a block that it is logging (ext3, data=ordered)",
        set: |policies| policies.journal = Journal::OrderedJbd,
    },
    Choice {
        name: "data",
        line: "metadata and data (ext3 and ext4, data=journal)",
        set: |policies| policies.journal = Journal::Data,
    },
];

const BARRIERS: &[Choice] = &[
    Choice {
        name: "flush",
        line: "the drive's cache is flushed before and after a commit, and at a sync (barrier=1; \
            ext4)",
        set: |policies| policies.flushes = Flushes::Sent,
    },
    Choice {
        name: "none",
        line: "never: a power cut may lose what the drive has put off, synced or not (ext3 of 2007 \
            as it was mounted by default)",
        set: |policies| policies.flushes = Flushes::Left,
    },
];

const ACCESS_TIMES: &[Choice] = &[
    Choice {
        name: "none",
        line: "no read (noatime)",
        set: |policies| policies.access_times = AccessTimes::None,
    },
    Choice {
        name: "relatime",
        line: "the first read after a change, and one a day (Linux 2.6.30 and later)",
        set: |policies| policies.access_times = AccessTimes::Relative,
    },
    Choice {
        name: "strict",
        line: "every read (POSIX; Linux up to 2.6.29, FreeBSD)",
        set: |policies| policies.access_times = AccessTimes::Strict,
    },
];
