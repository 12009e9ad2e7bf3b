//! A volume of another size: its superblock, and the groups that it gets.
//!
//! Nothing that is there moves: descriptors and the blocks kept for more of them take the room that
//! they take, and where that does not suffice later descriptors are in the groups which they
//! describe (meta_bg).
use super::placing::{Places, place_groups_from};
use super::sizing::LAST_GROUP_MIN_FREE;
use super::{Layout, LayoutError, Packing, Tables, backup_groups, whole_clusters};
use crate::GroupNo;
use crate::superblock::{Feature, Superblock};

fn refuse<T>(reason: String) -> Result<T, LayoutError> {
    Err(LayoutError(reason))
}

/// How wide the numbers of blocks in descriptors are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Descriptors of 32 bytes.
    ThirtyTwo,
    /// Descriptors of 64 bytes, of the feature 64bit.
    SixtyFour,
}

impl Superblock {
    /// The blocks that a volume of this geometry has where there is room for `blocks`: whole
    /// clusters, and no last group that is too small for its own metadata and 50 blocks more.
    pub fn blocks_within(&self, blocks: u64) -> u64 {
        let log2 = self.cluster_log2();
        let mut sized = self.clone();
        sized.blocks_count = blocks >> log2 << log2;
        sized.place_copies(self.group_count());
        let groups = sized.group_count();
        let last = GroupNo(groups.saturating_sub(1));
        let own = u64::from(sized.inode_table_blocks()).saturating_add(2);
        let least = own
            .saturating_add(sized.super_overhead(last).into())
            .saturating_add(LAST_GROUP_MIN_FREE);
        let length = u64::from(sized.group_length(last));
        if groups > 1 && length < u64::from(self.blocks_per_group) && length < least {
            return sized.group_start(last).0;
        }
        sized.blocks_count
    }

    /// The superblock of this volume with so many blocks, of [`Superblock::blocks_within`]: counts
    /// of free blocks and inodes are as they were.
    ///
    /// # Errors
    /// There is no such volume: one line says why.
    pub fn resized(&self, blocks: u64) -> Result<Superblock, LayoutError> {
        let mut sized = self.clone();
        let most = if self.has(Feature::SIXTY_FOUR_BIT) { 1 << 48 } else { u64::from(u32::MAX) };
        if blocks > most {
            return refuse(format!(
                "{blocks} blocks: without the feature 64bit at most {most} are possible"
            ));
        }
        sized.blocks_count = blocks;
        if blocks <= u64::from(self.first_data_block) {
            return refuse(format!("{blocks} blocks are too few for a file system"));
        }
        let inside = blocks.saturating_sub(self.first_data_block.into());
        let groups = inside.div_ceil(u64::from(self.blocks_per_group).max(1));
        let inodes = groups.saturating_mul(self.inodes_per_group.into());
        let Ok(inodes) = u32::try_from(inodes) else {
            return refuse(format!(
                "{blocks} blocks: {groups} groups with {} inodes each would have {inodes}, and a \
                 volume has at most {}",
                self.inodes_per_group,
                u32::MAX
            ));
        };
        if inodes < self.first_inode {
            return refuse(format!("{blocks} blocks: their {inodes} inodes are too few"));
        }
        sized.inodes_count = inodes;
        let reserved = u128::from(self.reserved_blocks).saturating_mul(blocks.into());
        let reserved = reserved.checked_div(self.blocks_count.into()).unwrap_or(0);
        sized.reserved_blocks = u64::try_from(reserved).unwrap_or(0);
        sized.set_overhead_clusters(0);
        sized.place_copies(self.group_count());
        self.place_descriptors(&mut sized);
        Ok(sized)
    }

    /// The superblock of this volume with descriptors of another width. What more they take comes
    /// from the blocks that are kept for more of them; what they leave is kept so.
    ///
    /// # Errors
    /// There is no such volume: one line says why.
    pub fn with_width(&self, width: Width) -> Result<Superblock, LayoutError> {
        let mut other = self.clone();
        if self.has(Feature::SIXTY_FOUR_BIT) == (width == Width::SixtyFour) {
            return Ok(other);
        }
        if self.has(Feature::META_BG) {
            return refuse(
                "descriptors are in their own groups (meta_bg): they stay as wide".into(),
            );
        }
        match width {
            Width::SixtyFour if !self.has(Feature::EXTENTS) => {
                return refuse("64bit is only for volumes with the feature extents".into());
            }
            Width::SixtyFour => {
                other.features.set(Feature::SIXTY_FOUR_BIT);
                other.descriptor_size = 64;
            }
            Width::ThirtyTwo if self.blocks_count > u64::from(u32::MAX) => {
                return refuse(format!("{} blocks need the feature 64bit", self.blocks_count));
            }
            Width::ThirtyTwo => {
                other.features.clear(Feature::SIXTY_FOUR_BIT);
                other.descriptor_size = 32;
            }
        }
        let kept = u32::from(self.reserved_gdt_blocks);
        let (now, wanted) = (self.descriptor_blocks(), other.descriptor_blocks());
        if wanted > now.saturating_add(kept) {
            return refuse(format!(
                "descriptors would take {} blocks more, and {kept} are kept for growth",
                wanted.saturating_sub(now)
            ));
        }
        self.place_descriptors(&mut other);
        Ok(other)
    }

    /// Moves the copies of sparse_super2, of which the second one is in the last group. A volume of
    /// one group says nothing of how many are wanted: it gets both.
    fn place_copies(&mut self, groups_before: u32) {
        if !self.has(Feature::SPARSE_SUPER2) {
            return;
        }
        let copies = match groups_before {
            1 => 2,
            _ => self.backup_groups().iter().filter(|group| group.0 > 0).count(),
        };
        let copies = u8::try_from(copies).unwrap_or(2);
        self.set_backup_groups(backup_groups(copies, self.group_count()));
    }

    /// Decides where the descriptors of `sized` are: where they were, and then in the blocks that
    /// were kept for more of them.
    fn place_descriptors(&self, sized: &mut Superblock) {
        let wanted = sized.descriptor_blocks();
        if let Some(first) = self.first_meta_block() {
            sized.set_first_meta_block(first.min(wanted));
            return;
        }
        let kept = u32::from(self.reserved_gdt_blocks);
        let room = self.descriptor_blocks().saturating_add(kept);
        let is_narrow = u32::try_from(sized.blocks_count).is_ok();
        let pointers = self.block_size() / 4;
        sized.reserved_gdt_blocks = 0;
        match room.checked_sub(wanted) {
            Some(rest) if self.has(Feature::RESIZE_INODE) && is_narrow => {
                sized.reserved_gdt_blocks = u16::try_from(rest.min(pointers)).unwrap_or(u16::MAX);
            }
            Some(_) => sized.features.clear(Feature::RESIZE_INODE),
            None => {
                sized.features.clear(Feature::RESIZE_INODE);
                sized.features.set(Feature::META_BG);
                sized.set_first_meta_block(room);
            }
        }
    }
}

impl Layout {
    /// The groups from `first` on of a volume that had less: all of their bitmaps and tables are in
    /// them. What is before is not counted, and has no descriptors here.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn of_new_groups(
        superblock: &Superblock,
        first: GroupNo,
        tables: Tables,
    ) -> Result<Layout, LayoutError> {
        let packing = Packing::FlexGroups;
        let Places { descriptors, used } =
            place_groups_from(superblock, first, None, packing, &[])?;
        let before = std::iter::repeat_n(super::GroupDescriptor::default(), first.0 as usize);
        let mut layout = Layout {
            superblock: superblock.clone(),
            descriptors: before.chain(descriptors).collect(),
            used: whole_clusters(used, superblock.cluster_log2()),
            used_inodes: 0,
            packing,
        };
        layout.count_groups(tables);
        Ok(layout)
    }
}
