//! The map of the blocks that are kept for descriptors (the feature resize_inode): some of them
//! become descriptors, and new groups have copies.
//!
//! ```text
//! inode 7 -> double indirect -> each reserved descriptor block of group 0 (the block itself)
//!                                  -> the same block of each copy
//! ```
//!
//! *Invariants*: it is changed only if it was what it has to be.
use super::super::{Reuse, Space};
use super::refused;
use crate::cache::BlockKind;
use crate::error::{Error, Place, Result};
use crate::handle::Handle;
use extant_format::inode::{Inode, Time};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, Run, SECTOR_BYTES, indirect};

/// What becomes of the map.
#[derive(Default)]
pub(super) struct MapChange {
    /// Blocks that get other bytes.
    pub(super) blocks: Vec<(BlockNo, Vec<u8>)>,
    /// Inode 7, where it changes.
    inode: Option<Inode>,
    /// The double indirect block, where nothing is kept any more.
    freed: Option<BlockNo>,
}

/// The map of a volume with this superblock, as it has to be.
fn map_of(superblock: &Superblock, root: BlockNo) -> Result<Vec<(BlockNo, Vec<u8>)>> {
    let after_super = superblock.primary_block().0 + 1;
    let first = after_super + u64::from(superblock.descriptor_blocks());
    let end = first.saturating_add(superblock.reserved_gdt_blocks.into());
    let copies: Vec<u64> = (1..superblock.group_count())
        .map(GroupNo)
        .filter(|group| superblock.has_super(*group))
        .map(|group| u64::from(group.0) * u64::from(superblock.blocks_per_group))
        .collect();
    let pointers = 1_u64 << indirect::pointers_log2(superblock.block_size_log2);
    if copies.len() as u64 > pointers {
        return Err(refused("there are more copies than the map of kept blocks can have"));
    }
    let block = || vec![0; superblock.block_size() as usize];
    let narrow = |number: u64| u32::try_from(number).unwrap_or(0);
    let mut roots = block();
    let mut map = Vec::new();
    for kept in first..end {
        let at = (kept - after_super).checked_rem(pointers).unwrap_or(0);
        indirect::set_pointer(&mut roots, narrow(at), narrow(kept));
        let mut bytes = block();
        for (at, offset) in (0..narrow(pointers)).zip(&copies) {
            indirect::set_pointer(&mut bytes, at, narrow(kept.saturating_add(*offset)));
        }
        map.push((BlockNo(kept), bytes));
    }
    map.push((root, roots));
    Ok(map)
}

/// Sectors that the map and what it keeps take.
fn sectors(superblock: &Superblock) -> u64 {
    let copies = (1..superblock.group_count()).map(GroupNo);
    let copies = copies.filter(|group| superblock.has_super(*group)).count() as u64;
    let blocks = u64::from(superblock.reserved_gdt_blocks).saturating_mul(copies + 1) + 1;
    let bytes =
        (blocks << superblock.cluster_log2()).saturating_mul(superblock.block_size().into());
    bytes / SECTOR_BYTES
}

impl Space {
    /// What becomes of the map; nothing without one.
    ///
    /// # Errors
    /// `OperationUnsupported` if it is not as it has to be; `Corrupt`; what the device returns.
    pub(super) fn plan_map(&self, before: &Superblock, after: &Superblock) -> Result<MapChange> {
        if !before.has(Feature::RESIZE_INODE) {
            return Ok(MapChange::default());
        }
        let store = &self.store;
        let (frame, place) = self.map_inode(before)?;
        let bytes = frame.copy(place, before.inode_size.into());
        let inode = Inode::parse(&bytes, Ino::RESIZE, before);
        let mut inode = inode.map_err(|fault| Error::corrupt(Place::Inode(Ino::RESIZE), fault))?;
        const OTHERWISE: &str = "the blocks kept for its growth are not mapped as they should be";
        let root = BlockNo(indirect::pointer(&inode.block, indirect::TREES[1]).into());
        if !store.holds_block(root) || self.is_metadata(Run { start: root, length: 1 }) {
            return Err(refused(OTHERWISE));
        }
        let map = map_of(before, root)?;
        for (block, bytes) in &map {
            if *store.cache.read(*block, BlockKind::Plain)?.bytes() != *bytes {
                return Err(refused(OTHERWISE));
            }
        }
        if !after.has(Feature::RESIZE_INODE) {
            // All that was kept has become descriptors, or it cannot be said what becomes of it.
            if !after.has(Feature::META_BG) {
                return Err(refused("blocks that were kept for its growth would be left over"));
            }
            self.check_to_free(Run { start: root, length: 1 })?;
            let empty = Inode::new(0, before);
            return Ok(MapChange { blocks: Vec::new(), inode: Some(empty), freed: Some(root) });
        }
        let mut blocks = map_of(after, root)?;
        blocks.retain(|changed| !map.contains(changed));
        inode.sectors = sectors(after);
        let now = Time { nanoseconds: 0, ..store.now() };
        (inode.change_time, inode.modify_time) = (now, now);
        Ok(MapChange { blocks, inode: Some(inode), freed: None })
    }

    /// The table block of inode 7, and where it is in it.
    fn map_inode(
        &self,
        superblock: &Superblock,
    ) -> Result<(std::sync::Arc<crate::cache::Frame>, usize)> {
        let place = superblock.inode_place(Ino::RESIZE, &self.descriptor(GroupNo(0)));
        let (block, offset) = place.ok_or_else(|| refused("it has no inode 7"))?;
        Ok((self.store.cache.read_table(block)?, offset))
    }

    /// Changes the map.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns: before anything has changed, but for what is freed.
    pub(super) fn change_map(&self, handle: &Handle<'_>, map: &MapChange) -> Result<()> {
        let Some(inode) = &map.inode else { return Ok(()) };
        let superblock = &self.store.superblock;
        let (frame, offset) = self.map_inode(superblock)?;
        let read = |(block, bytes)| Ok((self.store.cache.read(block, BlockKind::Plain)?, bytes));
        let blocks = map.blocks.iter().map(|(block, bytes)| (*block, bytes)).map(read);
        let blocks: Vec<_> = blocks.collect::<Result<_>>()?;
        for (frame, bytes) in blocks {
            handle.modify(&frame, |place| place.copy_from_slice(bytes));
        }
        let end = offset.saturating_add(superblock.inode_size.into());
        handle.modify(&frame, |bytes| {
            if let Some(bytes) = bytes.get_mut(offset..end) {
                match map.freed {
                    Some(_) => bytes.fill(0),
                    None => inode.encode(bytes, Ino::RESIZE, superblock),
                }
            }
        });
        if let Some(root) = map.freed {
            let run = Run { start: root, length: 1 };
            self.free_metadata(handle, run, Reuse::WhenDurable)?;
            if self.store.keeps_order() {
                self.store.forget_run(run);
                self.publish_blocks(vec![run]);
            }
        }
        Ok(())
    }
}
