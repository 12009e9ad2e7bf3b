//! Salvage: a damaged volume as far as it can be read, for programs that only read it.
//!
//! All metadata is read once, before the volume is opened. What is damaged is mended on an overlay
//! in memory, so that the engine finds a volume without faults: its usual paths know nothing of
//! this. Each thing that was lost, or that is not certain, is one line.
//!
//! ```text
//! superblock                 a copy where it cannot be used      (this module)
//! descriptors                copies, or where mke2fs puts tables descriptors
//! journal                    replayed, if it can be              (this module)
//! inodes                     attributes; who claims which block  inodes
//!   maps                     nodes and pointers that lead wrong  maps
//!   directories              records of damaged blocks           directories
//! ```
//!
//! Checksums and indexes of directories are of no use after that: the volume on the overlay is
//! without these features.
//!
//! *Invariants*: a map block is followed once, so this ends; what it holds in memory is bounded by
//! the map blocks and inodes that the device has.
mod descriptors;
mod directories;
mod inodes;
mod maps;

use super::{Orphans, read_any, recovered};
use crate::error::Result;
use extant_block::{BlockDevice, Overlay};
use extant_format::group::GroupDescriptor;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, Run};
use extant_journal::{End, MEMORY_BYTES_MAX};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Lines that are kept, at most.
const LINES_MAX: usize = 100_000;
/// Groups that have a copy on most volumes.
const GROUPS_WITH_COPIES: [u64; 12] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343];
/// Where a superblock has the number of its group.
const GROUP_NUMBER: usize = 0x5a;

/// A damaged volume, as far as it can be read.
pub struct Salvaged {
    /// The volume, to be opened for reading: an overlay in memory over the device.
    pub device: Arc<dyn BlockDevice>,
    /// What was lost, and what may be wrong: a line for each.
    pub skipped: Vec<String>,
}

/// The volume on a device as far as it can be read. Nothing is written.
///
/// # Errors
/// No superblock can be used, or nothing tells where the inodes of the first group are;
/// `Unsupported`; more damage than is kept in memory.
pub fn salvaged(device: Arc<dyn BlockDevice>) -> Result<Salvaged> {
    let mut lines = Lines::default();
    let superblock = superblock(&*device, &mut lines)?;
    let block_size = superblock.block_size();
    let over = Arc::new(Overlay::new(device, block_size, MEMORY_BYTES_MAX));
    descriptors::put(&over, SUPERBLOCK_OFFSET, &superblock.encode())?;
    let mut groups = descriptors::read(&over, &superblock, &mut lines)?;
    let mut below = Arc::clone(&over) as Arc<dyn BlockDevice>;
    let mut superblock = superblock;
    if superblock.has(Feature::NEEDS_RECOVERY) {
        match recovered(Arc::clone(&below), Orphans::Leave) {
            Ok(after) => {
                if let Some(report) = after.report
                    && let End::Damaged { sequence, fault, .. } = &report.journal.end
                {
                    lines.add(format!("journal: not replayed from {sequence} on: {fault}"));
                }
                below = after.device;
                superblock = read_any(&*below).unwrap_or(superblock);
            }
            Err(error) => lines.add(format!("journal: is not replayed: {}", error.kind)),
        }
    }
    let over = Arc::new(Overlay::new(below, block_size, MEMORY_BYTES_MAX));
    if over.device().own_bytes() < superblock.blocks_count.saturating_mul(block_size.into()) {
        lines.add("superblock: the volume is longer than its image: what is past the end is lost");
    }
    if let Ok(again) = descriptors::read(&over, &superblock, &mut lines) {
        groups.descriptors = again.descriptors;
        groups.find_again(&over, &superblock);
    }
    inodes::mend(&over, &superblock, &groups, &mut lines)?;
    let features = [
        Feature::METADATA_CSUM,
        Feature::CSUM_SEED,
        Feature::UNINIT_BG,
        Feature::DIR_INDEX,
        Feature::NEEDS_RECOVERY,
    ];
    features.into_iter().for_each(|feature| superblock.features.clear(feature));
    descriptors::put(&over, SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(Salvaged { device: over, skipped: lines.lines })
}

/// Where an inode has its map.
const MAP: usize = 40;

/// What is known while the inodes are read.
struct Mend<'a> {
    over: &'a Overlay,
    superblock: &'a Superblock,
    lines: &'a mut Lines,
    /// What no file may hold.
    metadata: Vec<Run>,
    /// Groups whose inodes are lost.
    lost: &'a FxHashSet<GroupNo>,
    /// Map blocks that were followed.
    followed: FxHashSet<BlockNo>,
    /// What each file holds.
    claims: Vec<(Run, Ino)>,
}

/// What is said.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
}

impl Lines {
    /// Adds a line, unless it was the last one too.
    fn add(&mut self, line: impl Into<String>) {
        let line = line.into();
        match self.lines.len() {
            LINES_MAX => self.lines.push("more is damaged than is listed".to_owned()),
            0..LINES_MAX if self.lines.len() > 64 || !self.lines.contains(&line) => {
                self.lines.push(line);
            }
            _ => {}
        }
    }
}

/// log2 of the blocks of the largest cluster that is looked for: more than mke2fs makes.
const CLUSTER_LOG2_MAX: u32 = 12;

/// The primary superblock; if it cannot be used, a copy; if there is none, the primary one with
/// what follows from its other fields corrected.
fn superblock(device: &dyn BlockDevice, lines: &mut Lines) -> Result<Superblock> {
    let fault = match read_any(device) {
        Ok(superblock) => return Ok(superblock),
        Err(error) => error,
    };
    // A group has as many clusters as a block has bits: blocks, but for bigalloc.
    let sizes = (0..=CLUSTER_LOG2_MAX)
        .flat_map(|cluster| (0..7).map(move |log2| (1024_u64 << log2, cluster)));
    for (block_size, cluster_log2) in sizes {
        for group in GROUPS_WITH_COPIES {
            let first = u64::from(block_size == 1024 && cluster_log2 == 0);
            let offset = (((group * block_size * 8) << cluster_log2) + first) * block_size;
            if let Some(mut superblock) = copy_at(device, offset, group)
                && u64::from(superblock.block_size()) == block_size
                && superblock.cluster_log2() == cluster_log2
            {
                lines.add(format!("superblock: {}: group {group}'s copy is used", fault.kind));
                // A copy does not say whether the journal has to be replayed.
                let has_it = superblock.journal_inode != 0 || device.capabilities().annex.is_some();
                if superblock.has(Feature::HAS_JOURNAL) && has_it {
                    superblock.features.set(Feature::NEEDS_RECOVERY);
                }
                return Ok(superblock);
            }
        }
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if device.read(SUPERBLOCK_OFFSET, &mut bytes).is_err() {
        return Err(fault);
    }
    let (superblock, _) = Superblock::parse_corrected(&bytes)?;
    lines.add(format!("superblock: {}, and has no copy: used as it is", fault.kind));
    Ok(superblock)
}

fn copy_at(device: &dyn BlockDevice, offset: u64, group: u64) -> Option<Superblock> {
    if offset.saturating_add(SUPERBLOCK_SIZE as u64) > device.own_bytes() {
        return None;
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(offset, &mut bytes).ok()?;
    let number = u16::from_le_bytes([bytes[GROUP_NUMBER], bytes[GROUP_NUMBER + 1]]);
    (u64::from(number) == group).then(|| Superblock::parse_any(&bytes).ok()).flatten()
}

/// What no file may hold: copies, descriptors, bitmaps and tables, in rising order.
fn metadata(superblock: &Superblock, groups: &[GroupDescriptor]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (descriptor, group) in groups.iter().zip((0..).map(GroupNo)) {
        let copies = superblock.super_overhead(group).saturating_sub(
            // Blocks that wait to become descriptors belong to an inode.
            u32::from(superblock.reserved_gdt_blocks) * u32::from(superblock.has_super(group)),
        );
        for (start, length) in [
            (superblock.group_start(group), copies),
            (descriptor.block_bitmap, 1),
            (descriptor.inode_bitmap, 1),
            (descriptor.inode_table, superblock.inode_table_blocks()),
        ] {
            runs.extend((length > 0).then_some(Run { start, length }));
        }
    }
    runs.sort_unstable_by_key(|run| run.start);
    runs
}

/// A block as it is; why it cannot be read.
fn block(over: &Overlay, number: BlockNo) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = vec![0; over.block_bytes()];
    let offset = number.0.saturating_mul(bytes.len() as u64);
    over.read(offset, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
