//! How large everything is: blocks, groups, inodes of a group, descriptor blocks. Numbers only;
//! nothing has a place yet.
use super::{Inodes, LayoutError, Wishes};
use crate::superblock::{Feature, Features};

/// Free blocks (with bigalloc clusters) of a group are counted in 16 bits, in 32-byte descriptors.
const BLOCKS_PER_GROUP_MAX: u32 = (1 << 16) - 8;
/// Bytes of a cluster, at most.
const CLUSTER_SIZE_MAX: u32 = 1 << 29;
const BLOCKS_PER_GROUP_MIN: u32 = 256;
/// Blocks that a last group must offer beyond its own metadata.
pub(super) const LAST_GROUP_MIN_FREE: u64 = 50;
const FIRST_INODE: u64 = 11;
const NUMBERS_32: u64 = u32::MAX as u64;
/// How many times its size a volume may grow, when nothing else is asked.
const GROWTH: u64 = 1024;

/// Sizes that fit together.
pub(super) struct Sizes {
    pub features: Features,
    pub blocks: u64,
    pub first_data_block: u32,
    pub blocks_per_group: u32,
    pub groups: u32,
    pub inodes_per_group: u32,
    pub descriptor_size: u16,
    pub reserved_gdt_blocks: u16,
    pub cluster_log2: u32,
}

fn refuse<T>(reason: String) -> Result<T, LayoutError> {
    Err(LayoutError(reason))
}

/// One attempt: blocks and group size are assumed, the rest follows.
struct Attempt<'a> {
    wishes: &'a Wishes,
    features: Features,
    blocks: u64,
    cluster_log2: u32,
    blocks_per_group: u32,
}

/// What came of it.
enum Outcome {
    Fits(Sizes),
    /// The last group is too small: leave it away.
    DropLast(u64),
    /// More inodes than the bits of a bitmap: take smaller groups.
    SmallerGroups,
    /// Descriptors take too much of each group that has a copy: keep them in the groups which they
    /// describe.
    Spread,
}

impl Sizes {
    pub(super) fn new(wishes: &Wishes) -> Result<Sizes, LayoutError> {
        check(wishes)?;
        let most = wishes.block_size.saturating_mul(8).min(BLOCKS_PER_GROUP_MAX);
        let units = wishes.blocks_per_group.unwrap_or(most);
        if !(BLOCKS_PER_GROUP_MIN..=most).contains(&units) || !units.is_multiple_of(8) {
            let unit = if wishes.features.has(Feature::BIGALLOC) { "clusters" } else { "blocks" };
            return refuse(format!(
                "{units} {unit} per group: it must be a multiple of 8 from \
                 {BLOCKS_PER_GROUP_MIN} to {most}"
            ));
        }
        let cluster_log2 = cluster_log2(wishes)?;
        let mut attempt = Attempt {
            wishes,
            features: effective_features(wishes),
            blocks: wishes.blocks,
            cluster_log2,
            // A number of 32 bits, of whole bytes of the bitmap.
            blocks_per_group: units.min(u32::MAX >> cluster_log2 & !7) << cluster_log2,
        };
        loop {
            match attempt.measure()? {
                Outcome::Fits(sizes) => return Ok(sizes),
                Outcome::DropLast(rest) => attempt.blocks = attempt.blocks.saturating_sub(rest),
                Outcome::SmallerGroups => {
                    attempt.blocks = wishes.blocks;
                    let step = 8 << cluster_log2;
                    attempt.blocks_per_group = attempt.blocks_per_group.saturating_sub(step);
                    if attempt.blocks_per_group >> cluster_log2 < BLOCKS_PER_GROUP_MIN {
                        return refuse(attempt.too_many_inodes());
                    }
                }
                Outcome::Spread => {
                    attempt.features.set(Feature::META_BG);
                    attempt.features.clear(Feature::RESIZE_INODE);
                }
            }
        }
    }
}

/// log2 of the blocks of a cluster: 0 without bigalloc.
fn cluster_log2(wishes: &Wishes) -> Result<u32, LayoutError> {
    if !wishes.features.has(Feature::BIGALLOC) {
        return match wishes.cluster_size {
            None => Ok(0),
            Some(_) => refuse("a cluster size needs the feature bigalloc".to_owned()),
        };
    }
    let block_size = wishes.block_size;
    let size = wishes.cluster_size.unwrap_or(block_size);
    if !size.is_power_of_two() || !(block_size..=CLUSTER_SIZE_MAX).contains(&size) {
        return refuse(format!(
            "clusters of {size} bytes: it must be a power of two from a block, {block_size}, to \
             {CLUSTER_SIZE_MAX}"
        ));
    }
    Ok(wishes.cluster_log2())
}

/// What contradicts itself, whatever the sizes are.
fn check(wishes: &Wishes) -> Result<(), LayoutError> {
    let Wishes { block_size, blocks, inode_size, features, .. } = *wishes;
    if !block_size.is_power_of_two() || !(1024..=65536).contains(&block_size) {
        return refuse(format!(
            "block size {block_size}: it must be a power of two from 1024 to 65536"
        ));
    }
    if !inode_size.is_power_of_two() || !(128..=1024).contains(&inode_size) {
        return refuse(format!(
            "inode size {inode_size}: it must be a power of two from 128 to 1024"
        ));
    }
    let is_foreign = |feature: &Feature| !feature.is_made() || *feature == Feature::JOURNAL_DEV;
    let foreign: Vec<String> = features.iter().filter(is_foreign).map(Feature::name).collect();
    if !foreign.is_empty() {
        return refuse(format!("features that are not supported: {}", foreign.join(", ")));
    }
    if let Some(size) = wishes.descriptor_size.filter(|_| features.has(Feature::SIXTY_FOUR_BIT))
        && (!size.is_power_of_two() || !(64..=1024).contains(&size))
    {
        return refuse(format!(
            "descriptors of {size} bytes: it must be a power of two from 64 to 1024"
        ));
    }
    if features.has(Feature::FLEX_BG)
        && (!wishes.flex_groups.is_power_of_two() || wishes.flex_groups > 1 << 31)
    {
        return refuse(format!(
            "flex groups of {} groups: it must be a power of two",
            wishes.flex_groups
        ));
    }
    if !(0.0..=0.5).contains(&wishes.reserved_ratio) {
        return refuse(format!(
            "a share of {} kept for root: it must be 0 to 0.5",
            wishes.reserved_ratio
        ));
    }
    if features.has(Feature::RESIZE_INODE) && !features.has(Feature::SPARSE_SUPER) {
        return refuse("resize_inode needs sparse_super".to_owned());
    }
    if features.has(Feature::RESIZE_INODE) && features.has(Feature::META_BG) {
        return refuse("resize_inode and meta_bg exclude each other".to_owned());
    }
    if features.has(Feature::BIGALLOC) && !features.has(Feature::EXTENTS) {
        return refuse("bigalloc needs the feature extent".to_owned());
    }
    let wide = features.has(Feature::SIXTY_FOUR_BIT);
    let most = if wide { 1 << 48 } else { NUMBERS_32 };
    if blocks > most {
        let hint = if wide { "" } else { "; more needs the feature 64bit or larger blocks" };
        return refuse(format!(
            "{blocks} blocks of {block_size} bytes: at most {most} are possible{hint}"
        ));
    }
    if blocks > NUMBERS_32 && !features.has(Feature::EXTENTS) {
        return refuse(format!("{blocks} blocks: more than {NUMBERS_32} need the feature extent"));
    }
    match wishes.resize_to_blocks {
        Some(target) if target <= blocks => {
            refuse(format!("growth to {target} blocks: the volume has {blocks} blocks already"))
        }
        _ => Ok(()),
    }
}

/// metadata_csum does what uninit_bg does; and the resize inode maps blocks with 32 bits.
fn effective_features(wishes: &Wishes) -> Features {
    let mut features = wishes.features;
    if features.has(Feature::METADATA_CSUM) {
        features.clear(Feature::UNINIT_BG);
    }
    if wishes.blocks > NUMBERS_32 {
        features.clear(Feature::RESIZE_INODE);
    }
    features
}

impl Attempt<'_> {
    fn block_size(&self) -> u64 {
        self.wishes.block_size.into()
    }

    fn first_data_block(&self) -> u32 {
        // Clusters begin at block 0.
        u32::from(self.wishes.block_size == 1024 && !self.features.has(Feature::BIGALLOC))
    }

    fn descriptor_size(&self) -> u16 {
        let wide = self.features.has(Feature::SIXTY_FOUR_BIT);
        if wide { self.wishes.descriptor_size.unwrap_or(64) } else { 32 }
    }

    /// Groups of a volume of `blocks` blocks.
    fn groups(&self, blocks: u64) -> u64 {
        blocks
            .saturating_sub(self.first_data_block().into())
            .div_ceil(u64::from(self.blocks_per_group).max(1))
    }

    fn descriptor_blocks(&self, blocks: u64) -> u64 {
        self.groups(blocks)
            .saturating_mul(self.descriptor_size().into())
            .div_ceil(self.block_size())
    }

    fn too_small(&self) -> LayoutError {
        let Wishes { blocks, block_size, .. } = *self.wishes;
        LayoutError(format!("{blocks} blocks of {block_size} bytes are too few for a file system"))
    }

    fn too_many_inodes(&self) -> String {
        let Wishes { blocks, block_size, inodes, .. } = *self.wishes;
        let asked = match inodes {
            Inodes::AtLeast(count) | Inodes::About(count) => format!("{count} inodes"),
            Inodes::BytesPerInode(bytes) => format!("an inode for every {bytes} bytes"),
        };
        format!("{asked}: too many for {blocks} blocks of {block_size} bytes")
    }

    fn measure(&self) -> Result<Outcome, LayoutError> {
        let groups = self.groups(self.blocks);
        if groups == 0 {
            return Err(self.too_small());
        }
        let wanted = self.wanted_inodes()?;
        if wanted.div_ceil(groups) > self.block_size().saturating_mul(8) {
            return Ok(Outcome::SmallerGroups);
        }
        let inodes_per_group = self.inodes_per_group(wanted, groups)?;
        let table = self.table_blocks(inodes_per_group);
        let reserved = self.reserved_descriptor_blocks();
        let descriptors = match self.features.has(Feature::META_BG) {
            true => 1,
            false => self.descriptor_blocks(self.blocks).saturating_add(reserved),
        };
        if self.are_too_many(descriptors) {
            return Ok(Outcome::Spread);
        }
        let copy = descriptors.saturating_add(1);
        let own = table.saturating_add(2);
        let most = copy.saturating_add(own);
        if most >= self.blocks_per_group.into() {
            return refuse(self.overfull_group(copy, table));
        }
        if let Some(rest) = self.undersized_last(groups, copy, own)? {
            return Ok(Outcome::DropLast(rest));
        }
        let narrow = |value: u64| u32::try_from(value).map_err(|_| self.too_small());
        Ok(Outcome::Fits(Sizes {
            features: self.features,
            blocks: self.blocks,
            first_data_block: self.first_data_block(),
            blocks_per_group: self.blocks_per_group,
            groups: narrow(groups)?,
            inodes_per_group: narrow(inodes_per_group)?,
            descriptor_size: self.descriptor_size(),
            reserved_gdt_blocks: u16::try_from(reserved).unwrap_or(u16::MAX),
            cluster_log2: self.cluster_log2,
        }))
    }

    /// Where descriptors and the blocks kept for more of them take more than three quarters of a
    /// group, mke2fs spreads them over the volume with meta_bg.
    fn are_too_many(&self, descriptors: u64) -> bool {
        !self.features.has(Feature::META_BG)
            && descriptors > u64::from(self.blocks_per_group).saturating_mul(3) / 4
    }

    fn overfull_group(&self, copy: u64, table: u64) -> String {
        format!(
            "groups of {} blocks cannot hold superblock and descriptors ({copy} blocks) and an \
             inode table ({table} blocks)",
            self.blocks_per_group
        )
    }

    /// The blocks of the last group, where they are too few. An only group may be as small as it
    /// can be.
    fn undersized_last(
        &self,
        groups: u64,
        copy: u64,
        own: u64,
    ) -> Result<Option<u64>, LayoutError> {
        let inside = self.blocks.saturating_sub(self.first_data_block().into());
        let rest = inside.checked_rem(self.blocks_per_group.into()).unwrap_or(0);
        if rest == 0 {
            return Ok(None);
        }
        if groups == 1 {
            // At least one block for the root.
            return if rest > copy.saturating_add(own) { Ok(None) } else { Err(self.too_small()) };
        }
        let last = u32::try_from(groups.saturating_sub(1)).unwrap_or(u32::MAX);
        let last_group = crate::GroupNo(last);
        let has_copy = match self.features.has(Feature::SPARSE_SUPER2) {
            true => {
                let all = last.saturating_add(1);
                super::backup_groups(self.wishes.copies, all).contains(&last_group)
            }
            false => crate::group::has_copy(last_group, self.features),
        };
        let overhead = if has_copy { own.saturating_add(copy) } else { own };
        Ok((rest < overhead.saturating_add(LAST_GROUP_MIN_FREE)).then_some(rest))
    }

    /// Inodes in all, before rounding.
    fn wanted_inodes(&self) -> Result<u64, LayoutError> {
        let bytes = self.wishes.blocks.saturating_mul(self.block_size());
        let wanted = match self.wishes.inodes {
            Inodes::AtLeast(count) | Inodes::About(count) => count,
            Inodes::BytesPerInode(ratio) => match bytes.checked_div(ratio) {
                Some(count) if self.features.has(Feature::SIXTY_FOUR_BIT) => count.min(NUMBERS_32),
                Some(count) => count,
                None => {
                    return refuse("an inode for every 0 bytes: it must be at least 1".to_owned());
                }
            },
        };
        let table = wanted.saturating_mul(self.wishes.inode_size.into());
        if wanted > NUMBERS_32 || (table >= bytes && wanted > FIRST_INODE) {
            return refuse(self.too_many_inodes());
        }
        Ok(wanted.max(FIRST_INODE.saturating_add(1)))
    }

    /// Inodes of a group: whole blocks of the table, and whole bytes of the bitmap.
    fn inodes_per_group(&self, wanted: u64, groups: u64) -> Result<u64, LayoutError> {
        let per_block =
            self.block_size().checked_div(self.wishes.inode_size.into()).unwrap_or(1).max(1);
        let step = per_block.max(8);
        let most = self.block_size().saturating_mul(8).min((1u64 << 16).saturating_sub(per_block));
        let share = wanted.div_ceil(groups).min(most).next_multiple_of(per_block).max(8);
        // Where a block holds less than 8 inodes mke2fs rounds down to bytes of the bitmap; a count
        // that was asked for is kept.
        let exact = matches!(self.wishes.inodes, Inodes::AtLeast(_));
        let mut count = if exact { share.next_multiple_of(8) } else { share & !7 }.min(most & !7);
        while count.saturating_mul(groups) <= FIRST_INODE {
            count = count.saturating_add(step);
        }
        if count.saturating_mul(groups) > NUMBERS_32 {
            let limit = NUMBERS_32.checked_div(groups).unwrap_or(0);
            count = limit.saturating_sub(limit.checked_rem(step).unwrap_or(0));
        }
        let total = count.saturating_mul(groups);
        match self.wishes.inodes {
            Inodes::AtLeast(asked) if total < asked => {
                refuse(format!("{asked} inodes: at most {total} fit"))
            }
            _ if count == 0 => refuse(self.too_many_inodes()),
            _ => Ok(count),
        }
    }

    fn table_blocks(&self, inodes_per_group: u64) -> u64 {
        inodes_per_group.saturating_mul(self.wishes.inode_size.into()).div_ceil(self.block_size())
    }

    /// Descriptor blocks kept for growth: at most as many as a block can point to. A target that
    /// needs none more counts as not given, as with mke2fs.
    fn reserved_descriptor_blocks(&self) -> u64 {
        if !self.features.has(Feature::RESIZE_INODE) {
            return 0;
        }
        let now = self.descriptor_blocks(self.blocks);
        let more = |target: u64| self.descriptor_blocks(target.min(NUMBERS_32)).saturating_sub(now);
        // mke2fs counts a given target as if the first group began with block 0.
        let asked = |target: u64| more(target.saturating_add(self.first_data_block().into()));
        let given = self.wishes.resize_to_blocks.map(asked).filter(|blocks| *blocks > 0);
        given.unwrap_or_else(|| more(self.blocks.saturating_mul(GROWTH))).min(self.block_size() / 4)
    }
}
