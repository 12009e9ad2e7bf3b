//! The rows: what systems of their time did, column by column.
use super::{
    AccessTimes, BitmapLoad, CommitReach, Congestion, DataOrder, DirectoryReadAhead, Flushes,
    InodeCreation, InodeWriteBack, Journal, Mount, NeighbourReadAhead, TableReadAhead,
};
use super::{Costs, Growth, Names, Policies};
use crate::{allocation, placement, readahead, throttle};
use std::sync::Arc;

/// One choice of each column, under one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// Its name on command lines and in reports.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
    /// Column `placement`.
    pub placement: &'static str,
    /// Column `allocation`.
    pub allocation: &'static str,
    /// Column `map-blocks`.
    pub map_blocks: &'static str,
    /// Column `growth`.
    pub growth: &'static str,
    /// Column `inode-write-back`.
    pub inode_write_back: &'static str,
    /// Column `inode-creation`.
    pub inode_creation: &'static str,
    /// Column `bitmap-load`.
    pub bitmap_load: &'static str,
    /// Column `read-ahead`.
    pub file_read_ahead: &'static str,
    /// Column `map-read-ahead`.
    pub map_read_ahead: &'static str,
    /// Column `directory-read-ahead`.
    pub directory_read_ahead: &'static str,
    /// Column `table-read-ahead`.
    pub table_read_ahead: &'static str,
    /// Column `neighbour-read-ahead`.
    pub neighbour_read_ahead: &'static str,
    /// Column `throttle`.
    pub throttle: &'static str,
    /// Column `mount`.
    pub mount: &'static str,
    /// Column `data-order`.
    pub data_order: &'static str,
    /// Column `journal`.
    pub journal: &'static str,
    /// Column `barrier`.
    pub barrier: &'static str,
    /// Column `commit`.
    pub commit: &'static str,
    /// Column `atime`.
    pub access_times: &'static str,
    /// Column `congestion`.
    pub congestion: &'static str,
}

/// Linux of 2001, the base of two rows.
const LINUX_2_4: Preset = Preset {
    name: "linux-2.4",
    line: "ext2 of 2001 (the post of 2001: stock)",
    placement: "spread",
    allocation: "ext2-goal",
    map_blocks: "beside",
    growth: "single",
    inode_write_back: "interleaved",
    inode_creation: "read-on-write",
    bitmap_load: "under-lock",
    file_read_ahead: "2.4",
    map_read_ahead: "none",
    directory_read_ahead: "none",
    table_read_ahead: "none",
    neighbour_read_ahead: "none",
    throttle: "kupdate",
    mount: "async",
    data_order: "unordered",
    journal: "none",
    barrier: "flush",
    commit: "5s",
    access_times: "strict",
    congestion: "wait",
};

/// Linux of 2007, the base of three rows.
const LINUX_2_6: Preset = Preset {
    name: "linux-2.6",
    line: "ext3 of Linux 2.6.23 (the posts of 2007)",
    placement: "orlov-ext3",
    allocation: "reservation",
    inode_write_back: "clustered",
    inode_creation: "zero-fill",
    bitmap_load: "outside",
    file_read_ahead: "on-demand-128k",
    directory_read_ahead: "physical",
    throttle: "global-2.6.22",
    journal: "ordered-jbd",
    barrier: "none",
    congestion: "leave",
    ..LINUX_2_4
};

/// FreeBSD, the base of two rows. Its mounts wait for metadata unless an option says otherwise.
const FREEBSD: Preset = Preset {
    name: "freebsd-5.2",
    line: "FreeBSD's ext2fs of 2004 (the post of 2010: the fast one)",
    placement: "spread",
    allocation: "freebsd-5.2",
    map_blocks: "beside",
    growth: "single",
    inode_write_back: "clustered",
    inode_creation: "read",
    bitmap_load: "outside",
    file_read_ahead: "clustered",
    map_read_ahead: "none",
    directory_read_ahead: "none",
    table_read_ahead: "none",
    neighbour_read_ahead: "none",
    throttle: "bufdaemon",
    mount: "sync",
    data_order: "unordered",
    journal: "none",
    barrier: "flush",
    commit: "5s",
    access_times: "strict",
    congestion: "wait",
};

/// All presets.
pub static PRESETS: &[Preset] = &[
    LINUX_2_4,
    Preset {
        name: "linux-2.4-akpm",
        line: "the same with all changes of the post of 2001 (patched)",
        placement: "parent",
        inode_write_back: "clustered",
        inode_creation: "preread",
        bitmap_load: "outside",
        ..LINUX_2_4
    },
    LINUX_2_6,
    Preset {
        name: "linux-2.6.20",
        line: "ext3 of that release: its read-ahead, its limit on dirty memory, its CFQ (the \
            second post of 2007: before)",
        file_read_ahead: "2.6",
        throttle: "global",
        ..LINUX_2_6
    },
    Preset {
        name: "linux-2.6.23-mm",
        line: "the same with a limit for each device (the second post of 2007: after)",
        throttle: "per-device",
        ..LINUX_2_6
    },
    FREEBSD,
    Preset {
        name: "freebsd-2010",
        line: "FreeBSD's ext2fs of 2010 (the post of 2010: one block in eight)",
        placement: "dirpref",
        allocation: "freebsd-2010",
        ..FREEBSD
    },
    Preset {
        name: "modern",
        line: "the best that we know",
        placement: "front",
        allocation: "multi-block",
        map_blocks: "beside",
        growth: "contiguous-8",
        inode_write_back: "clustered",
        inode_creation: "zero-fill",
        bitmap_load: "outside",
        file_read_ahead: "on-demand",
        map_read_ahead: "neighbours",
        directory_read_ahead: "logical",
        table_read_ahead: "learned",
        neighbour_read_ahead: "paced",
        throttle: "steady",
        mount: "async",
        data_order: "data-first",
        journal: "ordered",
        barrier: "flush",
        commit: "5s",
        access_times: "relatime",
        congestion: "wait",
    },
    Preset {
        name: "packed",
        line: "images made in one go",
        placement: "packed",
        allocation: "packed",
        map_blocks: "beside",
        growth: "single",
        inode_write_back: "clustered",
        inode_creation: "zero-fill",
        bitmap_load: "outside",
        file_read_ahead: "on-demand",
        map_read_ahead: "neighbours",
        directory_read_ahead: "logical",
        table_read_ahead: "around-8",
        neighbour_read_ahead: "none",
        throttle: "inline",
        mount: "async",
        data_order: "data-first",
        journal: "ordered",
        barrier: "flush",
        commit: "5s",
        access_times: "none",
        congestion: "wait",
    },
];

impl Policies {
    /// Policies with placeholders, before each column is chosen.
    pub(super) fn blank(row: &'static Preset) -> Policies {
        Policies {
            placement: Arc::new(placement::Parent),
            allocation: Arc::new(allocation::Ext2Goal),
            map_blocks: allocation::MapBlocks::Beside,
            growth: Growth::Single,
            inode_write_back: InodeWriteBack::Clustered,
            inode_creation: InodeCreation::ZeroFill,
            bitmap_load: BitmapLoad::Outside,
            file_read_ahead: Arc::new(readahead::None),
            map_read_ahead: readahead::MapReadAhead::None,
            directory_read_ahead: DirectoryReadAhead::None,
            table_read_ahead: TableReadAhead::None,
            neighbour_read_ahead: NeighbourReadAhead::None,
            throttle: Arc::new(throttle::Inline),
            mount: Mount::Async,
            data_order: DataOrder::Unordered,
            journal: Journal::None,
            flushes: Flushes::Sent,
            commit_seconds: 5,
            commit_reach: CommitReach::Transaction,
            access_times: AccessTimes::None,
            congestion: Congestion::Waits,
            costs: Costs::NONE,
            names: Names { preset: row.name, values: Vec::new() },
        }
    }
}
