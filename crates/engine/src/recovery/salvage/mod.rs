//! Salvage: a damaged volume as far as it can be read, for programs that only read it.
//!
//! All metadata is read once, before the volume is opened. What is damaged is mended on an overlay
//! in memory, so that the engine finds a volume without faults: its usual paths know nothing of
//! this. Each thing that was lost, or that is not certain, is one line, and so is what was mended
//! without a loss. An image that is cut short is as long as its volume: what it does not have
//! cannot be read.
//!
//! ```text
//! superblock                 a copy where it cannot be used      copies
//! descriptors                copies, or where mke2fs puts tables descriptors
//! journal                    replayed, if it can be              (this module)
//! inodes                     attributes; who claims which block  inodes
//!   maps                     nodes and pointers that lead wrong  maps
//!   directories              records of damaged blocks           directories
//! what is said of all that                                       losses
//! ```
//!
//! Checksums and indexes of directories are of no use after that: the volume on the overlay is
//! without these features.
//!
//! *Invariants*: a map block is followed once, so this ends; what it holds in memory is bounded by
//! the map blocks and inodes that the device has.
mod copies;
mod descriptors;
mod directories;
mod inodes;
mod losses;
mod maps;

pub use losses::Loss;

use super::{Orphans, read_any, recovered};
use crate::error::Result;
use extant_block::{BlockDevice, Overlay};
use extant_format::group::GroupDescriptor;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, Run};
use extant_journal::{End, MEMORY_BYTES_MAX};
use losses::Lines;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A damaged volume, as far as it can be read.
pub struct Salvaged {
    /// The volume, to be opened for reading: an overlay in memory over the device.
    pub device: Arc<dyn BlockDevice>,
    /// What was mended, and nothing of it lost: a line for each.
    pub mended: Vec<String>,
    /// What was lost, and what may be wrong.
    pub skipped: Vec<Loss>,
}

/// The volume on a device as far as it can be read. Nothing is written.
///
/// # Errors
/// No superblock can be used, or nothing tells where the inodes of the first group are;
/// `Unsupported`; more damage than is kept in memory.
pub fn salvaged(device: Arc<dyn BlockDevice>) -> Result<Salvaged> {
    let mut lines = Lines::default();
    let superblock = copies::superblock(&*device, &mut lines)?;
    let block_size = superblock.block_size();
    let held_bytes = device.own_bytes();
    let claimed_bytes = superblock.blocks_count.saturating_mul(block_size.into());
    let over = Overlay::new(device, block_size, MEMORY_BYTES_MAX);
    let over = Arc::new(match held_bytes < claimed_bytes {
        true => {
            lines.mended(format!(
                "superblock: the image ends at byte {held_bytes} of {claimed_bytes}: what is past \
                 that cannot be read"
            ));
            over.lengthened(claimed_bytes)
        }
        false => over,
    });
    descriptors::put(&over, SUPERBLOCK_OFFSET, &superblock.encode())?;
    let mut groups = descriptors::read(&over, &superblock, held_bytes, &mut lines)?;
    let mut below = Arc::clone(&over) as Arc<dyn BlockDevice>;
    let mut superblock = superblock;
    if superblock.has(Feature::NEEDS_RECOVERY) {
        match recovered(Arc::clone(&below), Orphans::Leave) {
            Ok(after) => {
                if let Some(report) = after.report
                    && let End::Damaged { sequence, fault, .. } = &report.journal.end
                {
                    lines.lost(format!("journal: not replayed from {sequence} on: {fault}"));
                }
                below = after.device;
                superblock = read_any(&*below).unwrap_or(superblock);
            }
            Err(error) => lines.lost(format!("journal: is not replayed: {}", error.kind)),
        }
    }
    let over = Arc::new(Overlay::new(below, block_size, MEMORY_BYTES_MAX));
    if let Ok(again) = descriptors::read(&over, &superblock, held_bytes, &mut lines) {
        groups.descriptors = again.descriptors;
        groups.find_again(&over, &superblock, held_bytes);
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
    let Lines { mended, lost, .. } = lines;
    Ok(Salvaged { device: over, mended, skipped: lost })
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
