//! All group descriptors, in the order of the groups, in large reads.
//!
//! A superblock may claim billions of groups where there is nothing on the disk. No group is
//! described by zeros, so a volume whose descriptors are mostly zeros is refused: memory and time
//! follow the descriptors that are there.
use crate::error::Error;
use crate::volume::Volume;
use extant_format::GroupNo;

/// Blocks of descriptors that are read together, at most.
const BLOCKS_MAX: u32 = 256;
/// Descriptors of zeros that are accepted, whatever the others are: a table of descriptors may be
/// lost.
const ZEROS_MAX: u64 = 1 << 16;

impl Volume {
    /// Visits the bytes of all descriptors that are on the device. Neighbouring blocks are read
    /// together.
    ///
    /// # Errors
    /// `TooManyGroups` when more descriptors are zeros than are not, beyond a number that damage
    /// explains; `Device` when the device fails.
    pub(crate) fn each_descriptor(
        &self,
        visit: &mut dyn FnMut(GroupNo, &[u8]),
    ) -> Result<(), Error> {
        let per_block = self.descriptors_per_block().max(1);
        let groups = self.present_groups();
        let (mut zeros, mut others) = (0_u64, 0_u64);
        let mut bytes = Vec::new();
        let mut first = 0;
        while first < groups {
            let blocks = self.neighbouring_blocks(first, groups);
            bytes.resize(self.block_size() * blocks as usize, 0);
            match self.read("group descriptors", self.descriptor_block(GroupNo(first)), &mut bytes)
            {
                Err(Error::Outside { .. }) => return Ok(()),
                result => result?,
            }
            for (index, block) in (0..).zip(bytes.chunks_exact(self.block_size())) {
                let first = first.saturating_add(index * per_block);
                for group in (first..groups.min(first.saturating_add(per_block))).map(GroupNo) {
                    let bytes = self.descriptor_bytes(block, group);
                    match bytes.iter().all(|byte| *byte == 0) {
                        true => zeros += 1,
                        false => others += 1,
                    }
                    visit(group, bytes);
                }
            }
            if zeros > ZEROS_MAX && zeros > others {
                return Err(Error::TooManyGroups {
                    claimed: self.superblock().group_count(),
                    described: others,
                });
            }
            first = first.saturating_add(blocks.saturating_mul(per_block));
        }
        Ok(())
    }

    /// How many blocks of descriptors, from that of this group on, follow each other on the disk.
    fn neighbouring_blocks(&self, first: u32, groups: u32) -> u32 {
        let per_block = self.descriptors_per_block().max(1);
        let start = self.descriptor_block(GroupNo(first));
        let follows = |blocks: &u32| {
            let group = first.checked_add(blocks.saturating_mul(per_block));
            group.filter(|group| *group < groups).is_some_and(|group| {
                self.descriptor_block(GroupNo(group)).0
                    == start.0.saturating_add(u64::from(*blocks))
            })
        };
        let more = (1..BLOCKS_MAX).take_while(follows).count();
        1 + u32::try_from(more).unwrap_or(0)
    }

    /// Whether the groups that the superblock claims can be visited at all.
    ///
    /// # Errors
    /// As [`Volume::each_descriptor`].
    pub(crate) fn judge_group_count(&self) -> Result<(), Error> {
        if u64::from(self.present_groups()) <= ZEROS_MAX {
            return Ok(());
        }
        self.each_descriptor(&mut |_, _| {})
    }
}
