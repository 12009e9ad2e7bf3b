//! What other groups have of superblock and descriptors, written after a volume has grown. They
//! are used after damage alone, so that they do not go through the journal.
use super::super::Space;
use crate::cache::BlockKind;
use crate::error::Result;
use extant_format::{BlockNo, GroupNo};
use std::collections::BTreeMap;

/// Blocks that are written at a time, at most.
const BLOCKS_MAX: u64 = 256;

impl Space {
    /// Writes superblock and descriptors, as they are in the first place, to every group that has a
    /// copy.
    ///
    /// # Errors
    /// What the device returns, which closes the latch.
    pub fn write_copies(&self) -> Result<()> {
        let superblock = &self.store.superblock;
        let groups = (1..superblock.group_count()).map(GroupNo);
        let primary = superblock.primary_block().0 + 1;
        for group in groups.clone().filter(|group| superblock.has_super(*group)) {
            self.store.write_backup(self.free_counts(), group)?;
            let blocks = match superblock.meta_group(group) {
                // It is alone where descriptors are in the groups which they describe.
                Some(_) => 0,
                None => u64::from(superblock.descriptor_blocks_of_copy()),
            };
            let first = superblock.group_start(group).0 + 1;
            for at in (0..blocks).step_by(BLOCKS_MAX as usize) {
                let count = (blocks - at).min(BLOCKS_MAX);
                let bytes = (at..at + count).map(|at| self.descriptors_at(BlockNo(primary + at)));
                let bytes = bytes.collect::<Result<Vec<_>>>()?.concat();
                self.store.write_unreferenced(BlockNo(first + at), &bytes)?;
            }
        }
        let metas = groups.filter(|group| superblock.meta_group(*group) == Some(*group));
        let places = |group: GroupNo| {
            let (place, _) = superblock.descriptor_place(group);
            superblock.descriptor_copies(group).map(move |copy| (copy, place)).collect::<Vec<_>>()
        };
        let first = superblock.meta_group(GroupNo(0)).map_or_else(Vec::new, places);
        let all: BTreeMap<BlockNo, BlockNo> =
            first.into_iter().chain(metas.flat_map(places)).collect();
        for (copy, place) in all {
            self.store.write_unreferenced(copy, &self.descriptors_at(place)?)?;
        }
        Ok(())
    }

    /// The bytes of a block of descriptors.
    fn descriptors_at(&self, block: BlockNo) -> Result<Vec<u8>> {
        Ok(self.store.cache.read(block, BlockKind::Plain)?.bytes().to_vec())
    }
}
