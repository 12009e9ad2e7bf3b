//! What pass 0 finds out of the groups, and which blocks their metadata has.
use extant_format::BlockNo;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use std::sync::atomic::AtomicU32;

/// A group, as pass 0 leaves it.
pub(crate) struct GroupFacts {
    /// Without what cannot be believed in it.
    pub(crate) descriptor: GroupDescriptor,
    /// The descriptor's checksum as stored and as computed, where these differ.
    pub(crate) wrong_checksum: Option<(u32, u32)>,
    /// Inodes of its table that may be in use, from the first: what flags and counters say, if they
    /// can be believed.
    pub(crate) inodes_used: u32,
    /// Whether the block bitmap is at a block that can hold it.
    pub(crate) has_block_bitmap: bool,
    /// Whether the inode bitmap is at a block that can hold it.
    pub(crate) has_inode_bitmap: bool,
    /// Whether the inode table is at blocks that can hold it.
    pub(crate) has_table: bool,
    /// Directories that pass 1 found.
    pub(crate) directories: AtomicU32,
}

impl GroupFacts {
    /// Whether there is a block bitmap to be read; one that was never written is not.
    pub(crate) fn reads_block_bitmap(&self) -> bool {
        self.has_block_bitmap && self.descriptor.flags & BLOCK_UNINIT == 0
    }

    /// Whether there is an inode bitmap to be read.
    pub(crate) fn reads_inode_bitmap(&self) -> bool {
        self.has_inode_bitmap && self.descriptor.flags & INODE_UNINIT == 0
    }
}

/// Blocks of superblocks, descriptors, bitmaps or tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct MetadataRun {
    pub(crate) start: BlockNo,
    pub(crate) length: u64,
}

/// All blocks that metadata has.
///
/// *Invariant*: runs rise and do not touch.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Metadata(Vec<MetadataRun>);

impl Metadata {
    /// Of runs in any order; they may overlap.
    pub(crate) fn new(mut runs: Vec<MetadataRun>) -> Metadata {
        runs.sort_unstable();
        let mut metadata = Metadata::default();
        runs.into_iter().for_each(|run| push_joined(&mut metadata.0, run));
        metadata
    }

    /// Whether a block belongs to metadata of the volume.
    pub(crate) fn holds(&self, block: BlockNo) -> bool {
        let after = self.0.partition_point(|run| run.start <= block);
        let run = after.checked_sub(1).and_then(|before| self.0.get(before));
        run.is_some_and(|run| block.0 - run.start.0 < run.length)
    }

    /// Whether any block of a run belongs to metadata of the volume.
    pub(crate) fn overlaps(&self, start: BlockNo, length: u64) -> bool {
        let end = start.0.saturating_add(length);
        let after = self.0.partition_point(|run| run.start.0 < end);
        let last = after.checked_sub(1).and_then(|before| self.0.get(before));
        last.is_some_and(|run| run.start.0.saturating_add(run.length) > start.0)
    }

    /// The runs that may overlap the blocks `from..end`: all that do, and up to four before them.
    pub(crate) fn near(&self, from: u64, end: u64) -> &[MetadataRun] {
        let after = self.0.partition_point(|run| run.start.0 < end);
        let before = self.0.partition_point(|run| run.start.0 < from);
        self.0.get(before.saturating_sub(4)..after).unwrap_or_default()
    }
}

/// Adds a run; into the last one where they overlap or touch.
pub(crate) fn push_joined(runs: &mut Vec<MetadataRun>, run: MetadataRun) {
    let end = run.start.0.saturating_add(run.length);
    match runs.last_mut() {
        Some(last)
            if last.start <= run.start
                && run.start.0 <= last.start.0.saturating_add(last.length) =>
        {
            last.length = last.length.max(end - last.start.0);
        }
        _ => runs.push(run),
    }
}
