//! All inodes in the order of the disk, in large reads.
use crate::error::Error;
use crate::group::Described;
use crate::volume::Volume;
use extant_block::Holes;
use extant_format::group::INODE_UNINIT;
use extant_format::inode::{Inode, StoredInode};
use extant_format::{BlockNo, Ino};
use serde::Serialize;
use std::ops::ControlFlow;

/// Bytes of one read, about.
const READ_BYTES: usize = 1 << 20;

/// What a scan could not see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TableScan {
    /// Inodes that were visited.
    pub inodes: u64,
    /// Groups whose table, or its end, is not on the device, or overlaps another table.
    pub broken_tables: u64,
    /// Groups whose descriptor is not on the device.
    pub lost_groups: u64,
}

/// A table on the disk.
struct Table {
    start: BlockNo,
    first: Ino,
    inodes: u32,
}

/// Visits every inode that is in use: it has links and a file type. Tables in the order of the
/// disk, each read once; what was never used, by descriptors with a
/// checksum, is not read.
///
/// # Errors
/// When the device fails. What is not there is counted.
pub fn each_inode(
    volume: &Volume,
    visit: &mut dyn FnMut(Ino, &Inode) -> ControlFlow<()>,
) -> Result<TableScan, Error> {
    let (mut tables, mut scan) = tables(volume)?;
    tables.sort_by_key(|table| table.start);
    let (mut free_from, mut holes) = (0, Holes::default());
    for table in &tables {
        let bytes = u64::from(table.inodes) * u64::from(volume.superblock().inode_size);
        let wanted = bytes.div_ceil(volume.superblock().block_size().into());
        let blocks = wanted.min(volume.present_blocks().saturating_sub(table.start.0));
        if table.start.0 < free_from {
            scan.broken_tables += 1;
            continue;
        }
        scan.broken_tables += u64::from(blocks < wanted);
        free_from = table.start.0 + blocks;
        if read_table(volume, table, blocks, &mut holes, &mut scan, visit)?.is_break() {
            break;
        }
    }
    Ok(scan)
}

fn tables(volume: &Volume) -> Result<(Vec<Table>, TableScan), Error> {
    let superblock = volume.superblock();
    let mut scan =
        TableScan { lost_groups: superblock.group_count().into(), ..TableScan::default() };
    let mut tables = Vec::new();
    let mut groups = volume.groups();
    while let Some(next) = groups.next_descriptor() {
        let Described { group, descriptor, .. } = match next {
            Ok(next) => next,
            Err(error @ (Error::Device(_) | Error::TooManyGroups { .. })) => return Err(error),
            Err(_) => break,
        };
        scan.lost_groups -= 1;
        let inodes = superblock.inodes_per_group.saturating_sub(descriptor.unused_inodes);
        if descriptor.flags & INODE_UNINIT != 0 || inodes == 0 {
            continue;
        }
        let start = descriptor.inode_table;
        if start.0 == 0 || !volume.holds(start) {
            scan.broken_tables += 1;
            continue;
        }
        let first = Ino(group.0.saturating_mul(superblock.inodes_per_group).saturating_add(1));
        tables.push(Table { start, first, inodes });
    }
    Ok((tables, scan))
}

fn read_table(
    volume: &Volume,
    table: &Table,
    blocks: u64,
    holes: &mut Holes,
    scan: &mut TableScan,
    visit: &mut dyn FnMut(Ino, &Inode) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let superblock = volume.superblock();
    let size = usize::from(superblock.inode_size);
    let chunk_blocks = (READ_BYTES / volume.block_size()).max(1) as u64;
    let per_block = volume.block_size() / size.max(1);
    let mut buffer = Vec::new();
    let (mut ino, mut at) = (table.first.0, 0);
    let end = table.first.0.saturating_add(table.inodes);
    while at < blocks {
        // What the device knows to be zeros is no inode in use.
        let data = volume.next_data(holes, BlockNo(table.start.0 + at))?;
        let skipped = data.0.saturating_sub(table.start.0) / chunk_blocks * chunk_blocks;
        if skipped > at {
            let inodes = (skipped - at).saturating_mul(per_block as u64);
            ino = ino.saturating_add(u32::try_from(inodes).unwrap_or(u32::MAX));
            at = skipped;
            continue;
        }
        let length = (blocks - at).min(chunk_blocks);
        let bytes = volume.block_size() * usize::try_from(length).unwrap_or(0);
        buffer.resize(bytes.max(buffer.len()), 0);
        let chunk = buffer.get_mut(..bytes).unwrap_or_default();
        volume.read("inode table", BlockNo(table.start.0 + at), chunk)?;
        for bytes in chunk.chunks_exact(size) {
            if ino >= end {
                return Ok(ControlFlow::Continue(()));
            }
            if is_used(StoredInode::new(bytes)) {
                scan.inodes += 1;
                if visit(Ino(ino), &Inode::decode(bytes, superblock)).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            ino = ino.saturating_add(1);
        }
        at += length;
    }
    Ok(ControlFlow::Continue(()))
}

/// Links and a mode: looked at before the rest is decoded, since most inodes of most tables are
/// free.
fn is_used(inode: StoredInode<'_>) -> bool {
    inode.mode() != 0 && inode.links() != 0
}
