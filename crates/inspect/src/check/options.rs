//! How a volume is checked.
use super::progress::Listener;
use std::num::NonZeroU32;

/// In which order the disk is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadOrder {
    /// Inode tables in large pieces; map blocks of many files sorted across levels, neighbours in
    /// one read.
    #[default]
    DiskOrder,
    /// As checkers of ext2 and ext3 did: tables 8 blocks at a time, 256 inodes sorted by their
    /// first indirect block, map blocks one by one.
    Vanilla,
}

/// How a volume is checked.
#[derive(Clone)]
pub struct CheckOptions {
    /// In which order the disk is read.
    pub read_order: ReadOrder,
    /// Threads of the device's clock that share the work.
    pub threads: NonZeroU32,
    /// Called now and then with how far the check is.
    pub progress: Option<Listener>,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { read_order: ReadOrder::DiskOrder, threads: NonZeroU32::MIN, progress: None }
    }
}
