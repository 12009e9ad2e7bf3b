//! What a new volume holds before its first file: bitmaps, inode tables, descriptors and
//! superblock, in few large writes.
use super::Contents;
use super::draft::Draft;
use crate::error::Result;
use extant_block::{BlockDevice, REQUEST_BYTES_MAX};
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::indirect;
use extant_format::inode::FileType;
use extant_format::layout::Layout;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock, state};
use extant_format::{BlockNo, GroupNo, Ino};

/// Gathers writes at rising positions into larger ones.
pub(super) struct Sweep<'a> {
    device: &'a dyn BlockDevice,
    block_size: usize,
    start: u64,
    gathered: Vec<u8>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(device: &'a dyn BlockDevice, superblock: &Superblock) -> Sweep<'a> {
        let block_size = superblock.block_size() as usize;
        Sweep {
            device,
            block_size,
            start: 0,
            gathered: Vec::with_capacity(REQUEST_BYTES_MAX + block_size),
        }
    }

    /// A zeroed block at this place, for the caller to fill.
    fn block(&mut self, block: BlockNo) -> Result<&mut [u8]> {
        let offset = block.0 * self.block_size as u64;
        let next = self.start + self.gathered.len() as u64;
        if offset != next
            || self.gathered.len() + self.block_size > REQUEST_BYTES_MAX.max(self.block_size)
        {
            self.flush()?;
            self.start = offset;
        }
        let at = self.gathered.len();
        self.gathered.resize(at + self.block_size, 0);
        Ok(&mut self.gathered[at..])
    }

    fn zeros(&mut self, start: BlockNo, blocks: u64) -> Result<()> {
        (0..blocks).try_for_each(|block| self.block(BlockNo(start.0 + block)).map(|_| ()))
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.gathered.is_empty() {
            self.device.write(self.start, &self.gathered)?;
            self.gathered.clear();
        }
        Ok(())
    }
}

/// A part of a group's metadata, in the order of its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    BlockBitmap,
    InodeBitmap,
    InodeTable,
}

/// Makes zeros where others look for what a device is: before the superblock (a partition table,
/// other file systems) and in the last 64 KiB (members of an array). What was left there would be
/// recognised in the volume's place. Before anything of the volume is written.
pub(super) fn clear_ends(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    const LAST_BYTES: u64 = 64 << 10;
    device.write(0, &[0; SUPERBLOCK_OFFSET as usize])?;
    let block_size = superblock.block_size();
    let zeros = vec![0; block_size as usize];
    let count = LAST_BYTES.div_ceil(block_size.into());
    let first = superblock.blocks_count.saturating_sub(count).max(1);
    // Block by block: the device may end between two of them where the volume is still to be cut.
    (first..superblock.blocks_count)
        .try_for_each(|block| device.write(block * u64::from(block_size), &zeros))?;
    Ok(())
}

/// Writes everything of a layout except the copies; the primary superblock last.
pub(super) fn write(device: &dyn BlockDevice, layout: &Layout, contents: Contents) -> Result<()> {
    let superblock = &layout.superblock;
    if contents == Contents::Unknown {
        clear_ends(device, superblock)?;
    }
    let mut descriptors = layout.descriptors.clone();
    // The root directory is not allocated by a search in a bitmap: it is counted here.
    if let Some(first) = descriptors.first_mut() {
        first.used_directories += 1;
    }
    let mut sweep = Sweep::new(device, superblock);
    write_reserved_descriptors(&mut sweep, layout, contents)?;
    write_groups(&mut sweep, layout, &mut descriptors, contents)?;
    sweep.flush()?;
    write_descriptors(&mut sweep, superblock, &descriptors, |_| ())?;
    sweep.flush()?;
    device.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(())
}

/// Writes everything of a draft except superblock and copies.
pub(super) fn write_draft(
    device: &dyn BlockDevice,
    draft: &Draft,
    contents: Contents,
) -> Result<()> {
    let layout = &draft.layout;
    let superblock = &layout.superblock;
    if contents == Contents::Unknown {
        clear_ends(device, superblock)?;
    }
    let mut descriptors = layout.descriptors.clone();
    for (ino, inode) in &draft.inodes {
        if let Some((group, _)) = superblock.group_of_inode(Ino(*ino))
            && inode.file_type() == Some(FileType::Directory)
        {
            descriptors[group.0 as usize].used_directories += 1;
        }
    }
    let mut sweep = Sweep::new(device, superblock);
    write_reserved_descriptors(&mut sweep, layout, contents)?;
    write_groups(&mut sweep, layout, &mut descriptors, contents)?;
    for run in draft.zeros.iter().filter(|_| contents == Contents::Unknown) {
        sweep.zeros(run.start, run.length.into())?;
    }
    for (block, bytes) in &draft.blocks {
        sweep.block(BlockNo(*block))?.copy_from_slice(bytes);
    }
    for (block, bytes) in draft.inode_blocks() {
        sweep.block(block)?.copy_from_slice(&bytes);
    }
    sweep.flush()?;
    write_descriptors(&mut sweep, superblock, &descriptors, |_| ())?;
    sweep.flush()?;
    Ok(())
}

fn write_groups(
    sweep: &mut Sweep<'_>,
    layout: &Layout,
    descriptors: &mut [GroupDescriptor],
    contents: Contents,
) -> Result<()> {
    let superblock = &layout.superblock;
    let mut pieces = Vec::with_capacity(descriptors.len() * 3);
    for (group, descriptor) in (0..).map(GroupNo).zip(descriptors.iter()) {
        pieces.push((descriptor.block_bitmap, Piece::BlockBitmap, group));
        pieces.push((descriptor.inode_bitmap, Piece::InodeBitmap, group));
        if contents == Contents::Unknown {
            pieces.push((descriptor.inode_table, Piece::InodeTable, group));
        }
    }
    pieces.sort_unstable();
    for (block, piece, group) in pieces {
        let descriptor = &mut descriptors[group.0 as usize];
        match piece {
            Piece::InodeTable => sweep.zeros(block, superblock.inode_table_blocks().into())?,
            // Bitmaps that a flag declares unwritten are never read.
            Piece::BlockBitmap if descriptor.flags & BLOCK_UNINIT != 0 => {}
            Piece::InodeBitmap if descriptor.flags & INODE_UNINIT != 0 => {}
            Piece::BlockBitmap => {
                let bytes = sweep.block(block)?;
                layout.fill_block_bitmap(group, bytes);
                descriptor.seal_block_bitmap(bytes, superblock);
            }
            Piece::InodeBitmap => {
                let bytes = sweep.block(block)?;
                layout.fill_inode_bitmap(group, bytes);
                descriptor.seal_inode_bitmap(bytes, superblock);
            }
        }
    }
    Ok(())
}

/// Writes the reserved descriptor blocks of group 0. They are the indirect blocks of the resize
/// inode, and each lists its own copies.
fn write_reserved_descriptors(
    sweep: &mut Sweep<'_>,
    layout: &Layout,
    contents: Contents,
) -> Result<()> {
    let superblock = &layout.superblock;
    if !superblock.has(Feature::RESIZE_INODE) {
        return Ok(());
    }
    let copies = copy_groups(superblock);
    for (group, block) in layout.reserved_descriptor_blocks() {
        if group.0 != 0 {
            if contents == Contents::Unknown {
                sweep.block(block)?;
            }
            continue;
        }
        let bytes = sweep.block(block)?;
        let slots = (bytes.len() / 4) as u32;
        for (index, copy) in (0..slots).zip(&copies) {
            // From the start of the volume, where clusters of 1 KiB blocks begin a block before the
            // superblock, too: so e2fsck has it.
            let same = block.0 + u64::from(copy.0) * u64::from(superblock.blocks_per_group);
            indirect::set_pointer(bytes, index, u32::try_from(same).unwrap_or(0));
        }
    }
    Ok(())
}

pub(super) fn write_descriptors(
    sweep: &mut Sweep<'_>,
    superblock: &Superblock,
    descriptors: &[GroupDescriptor],
    finish: impl Fn(&mut [u8]),
) -> Result<()> {
    let size = usize::from(superblock.descriptor_size);
    let per_block = superblock.block_size() as usize / size;
    for (index, chunk) in descriptors.chunks(per_block).enumerate() {
        let (place, _) = superblock.descriptor_place(GroupNo((index * per_block) as u32));
        let bytes = sweep.block(place)?;
        for (at, descriptor) in chunk.iter().enumerate() {
            let group = GroupNo((index * per_block + at) as u32);
            let bytes = &mut bytes[at * size..(at + 1) * size];
            descriptor.encode(bytes, group, superblock);
            finish(bytes);
        }
    }
    Ok(())
}

/// Groups that have a copy of the superblock, without the first.
pub(super) fn copy_groups(superblock: &Superblock) -> Vec<GroupNo> {
    (1..superblock.group_count())
        .map(GroupNo)
        .filter(|group| superblock.has_super(*group))
        .collect()
}

/// Writes superblock and descriptors, as they are on disk, to every group that has a copy.
pub(super) fn write_copies(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    let block_size = superblock.block_size() as usize;
    let first = (superblock.primary_block().0 + 1) * block_size as u64;
    let mut bytes = vec![0; block_size * (1 + superblock.descriptor_blocks_of_copy() as usize)];
    device.read(first, &mut bytes[block_size..])?;
    let mut copy = superblock.clone();
    // A copy is only used after damage, so it never says that the volume is clean.
    copy.state &= !state::CLEAN;
    for group in copy_groups(superblock) {
        copy.group_number = u16::try_from(group.0).unwrap_or(u16::MAX);
        let encoded = copy.encode();
        bytes[..encoded.len()].copy_from_slice(&encoded);
        device.write(superblock.group_start(group).0 * block_size as u64, &bytes)?;
    }
    write_meta_copies(device, superblock)
}

/// Writes the other places of each block of descriptors that is kept in the groups which it
/// describes (meta_bg).
fn write_meta_copies(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    let block_size = u64::from(superblock.block_size());
    let mut bytes = vec![0; superblock.block_size() as usize];
    let groups = (0..superblock.group_count()).map(GroupNo);
    for group in groups.filter(|group| superblock.meta_group(*group) == Some(*group)) {
        let (place, _) = superblock.descriptor_place(group);
        device.read(place.0 * block_size, &mut bytes)?;
        for copy in superblock.descriptor_copies(group) {
            device.write(copy.0 * block_size, &bytes)?;
        }
    }
    Ok(())
}
