//! Where the values of the historical presets come from: one row for each value of each column.
//!
//! A test asks for exactly one row for each column of each preset that stands for a system of the
//! past, with the value that the preset has. So no value can be changed, and no column or preset
//! added, without a word on its source. "Assumed" is said where no source was found.

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The presets that have the value for this reason.
    pub presets: &'static [&'static str],
    /// The column.
    pub column: &'static str,
    /// The value.
    pub value: &'static str,
    /// The year that the system or the text is of.
    pub year: u16,
    /// Who says so: a text, or a version of the system as it is described; "assumed" otherwise.
    pub source: &'static str,
}

/// The source of a preset's value; `None` for presets of today, which need none.
pub fn source(preset: &str, column: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|row| row.column == column && row.presets.contains(&preset))
}

/// A row of such a table.
pub const fn row(
    presets: &'static [&'static str],
    column: &'static str,
    value: &'static str,
    year: u16,
    source: &'static str,
) -> Source {
    Source { presets, column, value, year, source }
}

const STOCK: &[&str] = &["linux-2.4"];
const PATCHED: &[&str] = &["linux-2.4-akpm"];
const LINUX_2_4: &[&str] = &["linux-2.4", "linux-2.4-akpm"];
const LINUX_2_6: &[&str] = &["linux-2.6", "linux-2.6.20", "linux-2.6.23-mm"];
const LINUX_2_6_23: &[&str] = &["linux-2.6", "linux-2.6.23-mm"];
const FREEBSD: &[&str] = &["freebsd-5.2", "freebsd-2010"];
const FREEBSD_5_2: &[&str] = &["freebsd-5.2"];
const FREEBSD_2010: &[&str] = &["freebsd-2010"];

/// All rows, by system.
pub static SOURCES: &[Source] = &[
    // Linux 2.4, ext2.
    row(STOCK, "placement", "spread", 2001, "2.4: ext2 as the post of 2001 describes it"),
    row(PATCHED, "placement", "parent", 2001, "the post of 2001: its \"if (0 && ...)\""),
    row(LINUX_2_4, "allocation", "ext2-goal", 2001, "2.4: ext2, goals and eight preallocated"),
    row(LINUX_2_4, "map-blocks", "beside", 2001, "2.4: ext2, in the stream of the data"),
    row(LINUX_2_4, "growth", "single", 2001, "2.4: ext2, no preallocation for directories"),
    row(
        STOCK,
        "inode-write-back",
        "interleaved",
        2001,
        "the post of 2001: reads of table blocks between the writes",
    ),
    row(PATCHED, "inode-write-back", "clustered", 2001, "the post of 2001: its change"),
    row(STOCK, "inode-creation", "read-on-write", 2001, "the post of 2001: what it found"),
    row(PATCHED, "inode-creation", "preread", 2001, "the post of 2001: its change"),
    row(STOCK, "bitmap-load", "under-lock", 2001, "the post of 2001: what it found"),
    row(PATCHED, "bitmap-load", "outside", 2001, "the post of 2001: its change"),
    row(LINUX_2_4, "read-ahead", "2.4", 2001, "2.4: windows of 3 to 31 pages"),
    row(LINUX_2_4, "map-read-ahead", "none", 2001, "2.4: ext2 reads a map block when it is wanted"),
    row(LINUX_2_4, "directory-read-ahead", "none", 2001, "assumed: no text says otherwise"),
    row(LINUX_2_4, "table-read-ahead", "none", 2001, "2.4: ext2 reads single table blocks"),
    row(LINUX_2_4, "neighbour-read-ahead", "none", 2001, "ours, of no system of the time"),
    row(
        LINUX_2_4,
        "throttle",
        "kupdate",
        2001,
        "2.4.14 to 2.4.18: buffers by age, 40 and 60 % of low memory, by descriptions of the time",
    ),
    row(LINUX_2_4, "mount", "async", 2001, "mount(8): the default"),
    row(LINUX_2_4, "data-order", "unordered", 2001, "ext2 keeps no order"),
    row(LINUX_2_4, "journal", "none", 2001, "ext2 has no journal"),
    row(LINUX_2_4, "barrier", "flush", 2001, "assumed; 2.4 flushed no drive's cache"),
    row(LINUX_2_4, "commit", "5s", 2001, "of no meaning without a journal"),
    row(LINUX_2_4, "atime", "strict", 2001, "mount(8): changed but for -o noatime"),
    row(LINUX_2_4, "congestion", "wait", 2001, "2.4: bdflush and kupdate sleep in the queue"),
    // Linux 2.6, ext3.
    row(
        LINUX_2_6,
        "placement",
        "orlov-ext3",
        2007,
        "2.6: ext3, by descriptions of its allocator; the debt is computed and not tested",
    ),
    row(LINUX_2_6, "allocation", "reservation", 2007, "2.6.10 and later: ext3's reservations"),
    row(LINUX_2_6, "map-blocks", "beside", 2007, "the first post of 2007: before its change"),
    row(LINUX_2_6, "growth", "single", 2007, "the post of 2007 on readdir"),
    row(LINUX_2_6, "inode-write-back", "clustered", 2007, "assumed: buffers go out sorted"),
    row(LINUX_2_6, "inode-creation", "zero-fill", 2007, "2.6: ext3, table blocks without inodes"),
    row(LINUX_2_6, "bitmap-load", "outside", 2007, "2.6: ext3 has no lock over that read"),
    row(
        &["linux-2.6.20"],
        "read-ahead",
        "2.6",
        2005,
        "\"Understanding the Linux Kernel\", third edition: up to 2.6.22",
    ),
    row(
        LINUX_2_6_23,
        "read-ahead",
        "on-demand-128k",
        2007,
        "2.6.23: read-ahead on demand, 128 KiB (Wu and others, 2008)",
    ),
    row(LINUX_2_6, "map-read-ahead", "none", 2007, "the first post of 2007: what it adds"),
    row(
        LINUX_2_6,
        "directory-read-ahead",
        "physical",
        2006,
        "2.6.18: ext3, linear directories alone, on the block device",
    ),
    row(LINUX_2_6, "table-read-ahead", "none", 2007, "assumed: it came with ext4"),
    row(LINUX_2_6, "neighbour-read-ahead", "none", 2007, "ours, of no system of the time"),
    row(&["linux-2.6"], "throttle", "global-2.6.22", 2007, "2.6.22: 5 and 10 % from then on"),
    row(&["linux-2.6.20"], "throttle", "global", 2007, "2.6.20: 10 and 40 % of memory"),
    row(
        &["linux-2.6.23-mm"],
        "throttle",
        "per-device",
        2007,
        "version 9 of the patches that the second post of 2007 tries",
    ),
    row(LINUX_2_6, "mount", "async", 2007, "mount(8): the default"),
    row(LINUX_2_6, "data-order", "unordered", 2007, "of no meaning with a journal"),
    row(
        LINUX_2_6,
        "journal",
        "ordered-jbd",
        2007,
        "mount(8): data=ordered is ext3's default; its waits as Kara described JBD's in 2013",
    ),
    row(LINUX_2_6, "barrier", "none", 2007, "mount(8) of the time: ext3's default is barrier=0"),
    row(LINUX_2_6, "commit", "5s", 2007, "mount(8): ext3's default"),
    row(LINUX_2_6, "atime", "strict", 2007, "mount(8): changed but for -o noatime"),
    row(
        LINUX_2_6,
        "congestion",
        "leave",
        2005,
        "\"Linux Kernel Development\", second edition, 2005: pdflush and congested queues",
    ),
    // FreeBSD.
    row(
        FREEBSD_5_2,
        "placement",
        "spread",
        2004,
        "5.2: directories as in Linux 2.4, from which the code came",
    ),
    row(FREEBSD_2010, "placement", "dirpref", 2010, "the code after its rewrite: ffs's dirpref"),
    row(
        FREEBSD_5_2,
        "allocation",
        "freebsd-5.2",
        2004,
        "5.2, with goal 0 for first blocks (1995 to 2010); \"essentially sequential\" in the post",
    ),
    row(FREEBSD_2010, "allocation", "freebsd-2010", 2010, "the post of 2010 and its dumpe2fs"),
    row(FREEBSD, "map-blocks", "beside", 2010, "assumed: the code came from Linux's ext2"),
    row(FREEBSD, "growth", "single", 2010, "assumed: the code came from Linux's ext2"),
    row(
        FREEBSD,
        "inode-write-back",
        "clustered",
        2010,
        "assumed: inodes live in buffers of their tables, which go out sorted",
    ),
    row(
        FREEBSD,
        "inode-creation",
        "read",
        2010,
        "VFS_VGET(9): an inode that is made is got as any other, out of a buffer of its table",
    ),
    row(FREEBSD, "bitmap-load", "outside", 2010, "assumed: of no weight with one process"),
    row(FREEBSD, "read-ahead", "clustered", 2010, "ffs's clustered reads, by vfs.read_max"),
    row(FREEBSD, "map-read-ahead", "none", 2010, "assumed: no text says otherwise"),
    row(FREEBSD, "directory-read-ahead", "none", 2010, "assumed: no text says otherwise"),
    row(FREEBSD, "table-read-ahead", "none", 2010, "assumed: single buffers"),
    row(FREEBSD, "neighbour-read-ahead", "none", 2010, "ours, of no system of the time"),
    row(
        FREEBSD,
        "throttle",
        "bufdaemon",
        2010,
        "tuning(7): vfs.hidirtybuffers, lodirtybuffers, hirunningspace; syncer(4): 30 s",
    ),
    row(FREEBSD, "mount", "sync", 2010, "mount(8): metadata is synchronous but for -o async"),
    row(FREEBSD, "data-order", "unordered", 2010, "assumed: no soft updates for ext2fs"),
    row(FREEBSD, "journal", "none", 2010, "its ext2fs knew no journal"),
    row(FREEBSD, "barrier", "flush", 2010, "assumed; it flushed no drive's cache either"),
    row(FREEBSD, "commit", "5s", 2010, "of no meaning without a journal"),
    row(FREEBSD, "atime", "strict", 2010, "mount(8): changed but for -o noatime"),
    row(FREEBSD, "congestion", "wait", 2010, "of no meaning: its queue has no limit"),
];
