//! What of a clean volume has no meaning: free blocks, and, where that is asked for, what is left
//! of old names and contents in blocks that are in use.
//!
//! ```text
//! device | check: clean | free blocks, as the check counted them
//!        | overlay | scrub: each inode, its map, its names, its attributes | check: clean
//! ```
//!
//! Nothing is on the disk then: who calls [`trim`] writes the overlay by a log, and empties the
//! blocks that are free.
//!
//! ```text
//! stale      which bytes of one block or inode have no meaning
//! inodes     tables of inodes, and what each inode in use has
//! volume     superblocks, descriptors and bitmaps, and the rest of their clusters
//! ```
//!
//! *Invariants*: no byte changes that a file, a name or an attribute has; a block that is emptied
//! without a log is one that nothing reads, before and after.
mod inodes;
mod stale;
mod volume;

use crate::draft::Draft;
use crate::error::Error;
use crate::options::Scope;
use crate::outcome::is_clean;
use crate::reshape::clean;
use crate::rounds::MEMORY_BYTES_MAX;
use extant_block::{BlockDevice, Overlay};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo};
use extant_inspect::{CheckOptions, Listener, Usage, examine};
use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Whether what is left of old names and contents goes too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scrub {
    /// Only blocks that are free.
    Nothing,
    /// All that has no meaning, in blocks that are in use too.
    Stale,
}

/// How a volume is trimmed.
pub struct TrimOptions {
    /// What goes.
    pub scrub: Scrub,
    /// Threads of each check.
    pub threads: NonZeroU32,
    /// An empty file for the changes that do not fit into memory.
    pub spool: Option<File>,
    /// Called now and then with how far a check is.
    pub progress: Option<Listener>,
}

/// What of a volume has no meaning.
pub struct Trimmed {
    /// The volume with what was scrubbed: nothing is on the device.
    pub overlay: Arc<Overlay>,
    /// Its superblock.
    pub superblock: Superblock,
    /// Blocks that are free, rising and apart.
    pub free: Vec<Range<u64>>,
    /// Other blocks that nothing reads, rising and apart: they are zeros in the overlay, and are
    /// not among what was written there.
    pub unread: Vec<Range<u64>>,
}

impl Trimmed {
    /// How many blocks are free.
    pub fn free_blocks(&self) -> u64 {
        self.free.iter().map(|range| range.end - range.start).sum()
    }

    /// The bytes of the volume that are to be emptied, rising and apart: of both kinds of blocks,
    /// as they may share a block of what the volume is in.
    pub fn bytes_to_empty(&self) -> Vec<Range<u64>> {
        let size = u64::from(self.superblock.block_size());
        let mut blocks: Vec<&Range<u64>> = self.free.iter().chain(&self.unread).collect();
        blocks.sort_by_key(|range| range.start);
        let mut bytes = Vec::new();
        for range in blocks {
            push(&mut bytes, range.start.saturating_mul(size)..range.end.saturating_mul(size));
        }
        bytes
    }
}

/// Finds what of a volume has no meaning, and scrubs it in memory.
///
/// # Errors
/// The device fails; the volume is not clean, or is of a kind in which blocks belong to several
/// files; memory for the changes does not suffice and there is no spool.
pub fn trim(device: Arc<dyn BlockDevice>, options: TrimOptions) -> Result<Trimmed, Error> {
    let superblock = extant_engine::read_superblock(&*device)?;
    let overlay = Overlay::new(Arc::clone(&device), superblock.block_size(), MEMORY_BYTES_MAX);
    let overlay = Arc::new(match options.spool {
        Some(spool) => overlay.with_spool(spool),
        None => overlay,
    });
    let how = CheckOptions {
        threads: options.threads,
        progress: options.progress,
        ..CheckOptions::default()
    };
    let (report, usage) = examine(device, &how)?;
    let usage = clean(&report, usage)?;
    if superblock.has(Feature::SHARED_BLOCKS) && options.scrub == Scrub::Stale {
        return Err(Error::Refused("several files share blocks, which are not scrubbed".into()));
    }
    let free = free_blocks(&usage);
    if options.scrub == Scrub::Nothing {
        return Ok(Trimmed { overlay, superblock, free, unread: Vec::new() });
    }
    let draft = Draft::new(&overlay, usage, 0, Scope::Safe);
    let mut unread = Unread::default();
    inodes::scrub(&draft, &mut unread)?;
    volume::scrub(&draft, &mut unread)?;
    let unread = unread.apart(&free);
    for range in &unread {
        overlay.let_zeros(range.clone());
    }
    drop(draft);
    let (report, _) = examine(Arc::clone(&overlay) as Arc<dyn BlockDevice>, &how)?;
    if !is_clean(&report) {
        let problem = report.problems.first().map(ToString::to_string).unwrap_or_default();
        return Err(Error::Refused(format!(
            "the result would not be clean, and nothing is written: {problem}"
        )));
    }
    Ok(Trimmed { overlay, superblock, free, unread })
}

/// Runs of blocks that the check found free, rising: whole clusters of all groups.
fn free_blocks(usage: &Usage) -> Vec<Range<u64>> {
    let superblock = usage.superblock();
    let cluster = u64::from(usage.cluster_blocks()).max(1);
    let mut free: Vec<Range<u64>> = Vec::new();
    for group in (0..usage.groups()).map(GroupNo) {
        let start = superblock.group_start(group).0;
        let end = start.saturating_add(superblock.group_length(group).into());
        let bits = usage.block_bits(group);
        let is_used = |bit: u32| {
            let word = bits.words.get((bit / u64::BITS) as usize).copied().unwrap_or(u64::MAX);
            word >> (bit % u64::BITS) & 1 == 1
        };
        for bit in (0..bits.count).filter(|bit| !is_used(*bit)) {
            let from = start.saturating_add(cluster.saturating_mul(bit.into()));
            let to = from.saturating_add(cluster).min(end);
            let is_free = from < to && usage.is_free(BlockNo(from), to - from);
            if !is_free || usage.is_metadata(BlockNo(from)) {
                continue;
            }
            match free.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => free.push(from..to),
            }
        }
    }
    free
}

/// Blocks that are in use and that nothing reads.
#[derive(Default)]
struct Unread(Vec<Range<u64>>);

impl Unread {
    fn add(&mut self, blocks: Range<u64>) {
        match self.0.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.end == blocks.start => last.end = blocks.end,
            _ => self.0.push(blocks),
        }
    }

    /// Rising, without those that are free.
    fn apart(mut self, free: &[Range<u64>]) -> Vec<Range<u64>> {
        self.0.sort_by_key(|range| range.start);
        let mut apart: Vec<Range<u64>> = Vec::new();
        for range in self.0 {
            let after = apart.last().map_or(0, |last| last.end);
            let mut from = range.start.max(after);
            let first = free.partition_point(|it| it.end <= from);
            let within = free.iter().skip(first).take_while(|it| it.start < range.end);
            for gap in within {
                push(&mut apart, from..gap.start);
                from = from.max(gap.end);
            }
            push(&mut apart, from..range.end);
        }
        apart
    }
}

fn push(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        _ if range.start >= range.end => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_apart_from_what_is_free() {
        let mut unread = Unread::default();
        for range in [50..60, 10..20, 20..25, 15..30, 90..90] {
            unread.add(range);
        }
        assert_eq!(unread.apart(&[0..5, 12..14, 28..52, 58..70]), [10..12, 14..28, 52..58]);
    }
}
