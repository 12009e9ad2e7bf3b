//! What pass 1 reads of the inode tables.
use crate::check::facts::Facts;
use crate::check::options::ReadOrder;
use crate::error::Error;
use extant_block::Holes;
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Ino};

/// Bytes of one read of a table in the order of the disk.
const READ_BYTES: usize = 512 << 10;
/// Bytes of tables that are read once more for another group.
const REPEATED_BYTES_MAX: u64 = 16 << 20;

/// A piece of an inode table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TablePiece {
    /// First, so that sorted means by place.
    pub(super) start: BlockNo,
    pub(super) first: Ino,
    pub(super) inodes: u32,
}

impl TablePiece {
    /// Blocks of it.
    pub(super) fn blocks(&self, facts: &Facts) -> u64 {
        let bytes = u64::from(self.inodes) * u64::from(facts.volume.superblock().inode_size);
        bytes.div_ceil(facts.volume.block_size() as u64)
    }
}

/// What is to be read of the tables, by place. What the device knows to be zeros is no inode in
/// use, and left out.
pub(super) fn pieces(facts: &Facts) -> Result<Vec<TablePiece>, Error> {
    let superblock = facts.volume.superblock();
    let block_size = u64::from(superblock.block_size());
    let per_block = (block_size / u64::from(superblock.inode_size)).max(1);
    let step_blocks = match facts.read_order {
        ReadOrder::DiskOrder => (READ_BYTES as u64 / block_size).max(1),
        // A group at a time: it is read in smaller steps, but inodes are put aside by group.
        ReadOrder::Vanilla => u64::from(superblock.inode_table_blocks()).max(1),
    };
    let mut holes = Holes::default();
    let mut pieces = Vec::new();
    for (number, group) in (0_u32..).zip(&facts.groups).filter(|(_, group)| group.has_table) {
        let first = number * superblock.inodes_per_group + 1;
        let (table, inodes) = (group.descriptor.inode_table, u64::from(group.inodes_used));
        let mut at = 0;
        while at * per_block < inodes {
            let data = facts.volume.next_data(&mut holes, BlockNo(table.0 + at))?;
            // Steps stay where they are without holes: what is read together does not depend on
            // holes.
            let skipped = data.0.saturating_sub(table.0) / step_blocks * step_blocks;
            if skipped > at {
                at = skipped;
                continue;
            }
            let left = inodes - at * per_block;
            pieces.push(TablePiece {
                start: BlockNo(table.0 + at),
                first: Ino(first + u32::try_from(at * per_block).unwrap_or(0)),
                inodes: u32::try_from(left.min(step_blocks * per_block)).unwrap_or(0),
            });
            at += step_blocks;
        }
    }
    pieces.sort_unstable();
    leave_out_repeated(&mut pieces, superblock);
    Ok(pieces)
}

/// Leaves out pieces that overlap another, beyond what damage explains: tables that overlap are
/// reported, and could have more inodes than the disk.
fn leave_out_repeated(pieces: &mut Vec<TablePiece>, superblock: &Superblock) {
    let (mut end, mut repeated) = (0, 0);
    pieces.retain(|piece| {
        let bytes = u64::from(piece.inodes) * u64::from(superblock.inode_size);
        let is_repeated = piece.start.0 < end;
        end = end.max(piece.start.0 + bytes.div_ceil(superblock.block_size().into()));
        repeated += if is_repeated { bytes } else { 0 };
        !is_repeated || repeated <= REPEATED_BYTES_MAX
    });
}
