//! Where a new file system keeps its things: from a few wishes to superblock, descriptors and
//! bitmaps, as mke2fs lays them out, without any I/O.
//!
//! `sizing` decides how many groups, inodes and descriptor blocks there are; `placing` where
//! bitmaps and tables go; `growth` what becomes of a volume of another size. All take time in the
//! number of groups, not of blocks.
use crate::checksum::crc32c;
use crate::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT, INODE_ZEROED};
use crate::superblock::{ENCODING_UTF8, Feature, Features, HashVersion, Superblock, state};
use crate::{BlockNo, GroupNo, Run, bitmap};

mod growth;
mod placing;
mod sizing;

pub use growth::Width;

use placing::{Places, place_groups};
use sizing::Sizes;

/// Names may have extended attributes, and ACLs: the default mount options `user_xattr` and `acl`.
const DEFAULT_MOUNT_OPTIONS: u32 = 0x4 | 0x8;
/// Bytes of the fixed fields after the first 128 of an inode.
const EXTRA_ISIZE: u16 = 32;
/// Blocks of a cluster where its size was not asked for.
const CLUSTER_BLOCKS: u32 = 16;
/// `s_errors`: go on when an error is found.
const ERRORS_CONTINUE: u16 = 1;

/// What is asked of a new file system. Values are checked by [`Layout::new`].
#[derive(Clone, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct Wishes {
    /// 1,024 to 65,536, a power of two.
    pub block_size: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    pub features: Features,
    /// 128 to 1,024 (at most a block), a power of two.
    pub inode_size: u16,
    /// How many inodes.
    pub inodes: Inodes,
    /// Share of the blocks kept for root as a fraction: 0.05 for 5 %; at most 0.5.
    pub reserved_ratio: f64,
    /// Groups of a flex group (power of two); used with flex_bg. mke2fs: 16.
    pub flex_groups: u32,
    /// 8 * block_size, at most 65,528, unless asked otherwise (a multiple of 8 from 256).
    pub blocks_per_group: Option<u32>,
    /// Blocks that the volume may grow to: descriptor blocks are kept for that with
    /// resize_inode. `None`: 1024 times.
    pub resize_to_blocks: Option<u64>,
    pub uuid: [u8; 16],
    pub hash_seed: [u32; 4],
    pub hash_version: HashVersion,
    pub label: [u8; 16],
    pub created_seconds: u64,
    /// RAID hints, 0 for none. They are stored; bitmaps are not spread by them.
    pub stride: u16,
    pub stripe_width: u32,
    /// What the superblock says besides.
    pub marks: Marks,
    /// Bytes of a group descriptor (feature 64bit): 64 to 1,024, a power of two; `None`: 64.
    pub descriptor_size: Option<u16>,
    /// Copies of the superblock (feature sparse_super2): 0, 1 or 2.
    pub copies: u8,
    /// Whether the bitmaps and tables of all groups are together at the start of the volume.
    pub packing: Packing,
    /// Bytes of a cluster (feature bigalloc): a power of two, at least a block; `None`: 16 blocks.
    pub cluster_size: Option<u32>,
    /// Blocks that are kept from use, rising: no metadata has them, and no file.
    pub bad_blocks: Vec<BlockNo>,
}

impl Wishes {
    /// log2 of the blocks of a cluster: 0 without bigalloc.
    pub fn cluster_log2(&self) -> u32 {
        let usual = self.block_size.saturating_mul(CLUSTER_BLOCKS);
        let size = self.cluster_size.unwrap_or(usual).trailing_zeros();
        match self.features.has(Feature::BIGALLOC) {
            true => size.saturating_sub(self.block_size.trailing_zeros()),
            false => 0,
        }
    }
}

/// As it is derived, but what was not asked for is left out where it came later: identities are
/// made from these words, and the same wishes go on giving the same volume.
impl std::fmt::Debug for Wishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = f.debug_struct("Wishes");
        words
            .field("block_size", &self.block_size)
            .field("blocks", &self.blocks)
            .field("features", &self.features)
            .field("inode_size", &self.inode_size)
            .field("inodes", &self.inodes)
            .field("reserved_ratio", &self.reserved_ratio)
            .field("flex_groups", &self.flex_groups)
            .field("blocks_per_group", &self.blocks_per_group)
            .field("resize_to_blocks", &self.resize_to_blocks)
            .field("uuid", &self.uuid)
            .field("hash_seed", &self.hash_seed)
            .field("hash_version", &self.hash_version)
            .field("label", &self.label)
            .field("created_seconds", &self.created_seconds)
            .field("stride", &self.stride)
            .field("stripe_width", &self.stripe_width)
            .field("marks", &self.marks)
            .field("descriptor_size", &self.descriptor_size)
            .field("copies", &self.copies)
            .field("packing", &self.packing);
        if let Some(size) = &self.cluster_size {
            words.field("cluster_size", size);
        }
        if !self.bad_blocks.is_empty() {
            words.field("bad_blocks", &self.bad_blocks);
        }
        words.finish()
    }
}

/// How far from their groups bitmaps and inode tables may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// In their flex group.
    FlexGroups,
    /// All at the start of the volume (mke2fs -E packed_meta_blocks): one flex group in effect.
    Start,
}

/// What a superblock says of its volume that changes nothing in the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// What a kernel does when it meets an error: [`crate::superblock::on_error`].
    pub errors_behavior: u16,
    /// The system that made it: an index of [`crate::superblock::CREATOR_NAMES`].
    pub creator_os: u32,
    /// Where it was mounted last, ended by a zero byte.
    pub last_mounted: [u8; 64],
    /// Mount options that hold where none are given: [`crate::superblock::mount_option`].
    pub mount_options: u32,
    /// Flags besides that of the hash: [`crate::superblock::superblock_flags`].
    pub flags: u32,
    /// The encoding of names and its flags (casefold); 0 for none.
    pub encoding: (u16, u16),
    /// Which inode tables count as filled with zeros.
    pub tables: Tables,
    /// 1; 0 for a volume of the first ext2 drivers, which has inodes of 128 bytes and no features.
    pub revision: u32,
    /// When a check is due though nothing was found wrong.
    pub checks: Checks,
}

/// When a volume is checked that is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Never.
    Asked,
    /// After half a year, and after 20 to 39 mounts; how many follows from the UUID, so that not
    /// all volumes of a machine are checked at one start.
    Periodic,
}

impl Checks {
    /// The most mounts, -1 for any number, and the seconds between two checks, 0 for none.
    fn limits(self, uuid: &[u8; 16]) -> (i16, u32) {
        const LEAST_MOUNTS: i16 = 20;
        const HALF_A_YEAR: u32 = 180 * 86_400;
        // 16 bytes: the sum is below 4,096.
        let sum: i16 = uuid.iter().map(|byte| i16::from(*byte)).sum();
        let more = sum.checked_rem(LEAST_MOUNTS).unwrap_or(0);
        match self {
            Checks::Asked => (-1, 0),
            Checks::Periodic => (LEAST_MOUNTS.saturating_add(more), HALF_A_YEAR),
        }
    }
}

/// Whether the inode tables of a new volume are known to be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// All are, and the descriptors say so.
    Zeroed,
    /// A kernel that mounts the volume fills them (lazy_itable_init).
    Lazy,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            errors_behavior: ERRORS_CONTINUE,
            creator_os: 0,
            last_mounted: [0; 64],
            mount_options: DEFAULT_MOUNT_OPTIONS,
            flags: 0,
            encoding: (0, 0),
            tables: Tables::Zeroed,
            revision: 1,
            checks: Checks::Asked,
        }
    }
}

/// How many inodes a new file system has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inodes {
    /// One for each N bytes of volume (mke2fs -i).
    BytesPerInode(u64),
    /// At least N; rounded up so that tables are whole blocks and bitmaps whole bytes.
    AtLeast(u64),
    /// About N (mke2fs -N): a few less in each group where bitmaps would not be whole bytes.
    About(u64),
}

/// Why wishes cannot be met: one line, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError(pub String);
impl std::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for LayoutError {}

/// An empty volume's metadata, decided. The root, lost+found, journal and resize inode are not yet
/// counted as used: the engine's mkfs makes them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// With free_blocks and free_inodes as after formatting without any file (inodes
    /// 1..first_inode-1 count as used).
    pub superblock: Superblock,
    /// One for each group: positions, free counts (as above), flags as mke2fs sets them with lazy
    /// tables off: INODE_ZEROED always, and where checksums allow it BLOCK_UNINIT, INODE_UNINIT and
    /// unused_inodes. Checksums of bitmaps are 0: they are set when bitmaps are written.
    pub descriptors: Vec<GroupDescriptor>,
    /// Where all metadata is: first block and end, rising, merged, also across groups.
    used: Vec<(u64, u64)>,
    /// How many inodes are used: the first ones.
    used_inodes: u32,
    /// Where tables were asked for.
    pub packing: Packing,
}

/// Where mke2fs puts the bitmaps and inode tables of a volume with this superblock: for each group
/// a descriptor that has its places and nothing else. `None` where there is no room for them.
pub fn usual_places(superblock: &Superblock, packing: Packing) -> Option<Vec<GroupDescriptor>> {
    place_groups(superblock, None, packing, &[]).ok().map(|places| places.descriptors)
}

impl Layout {
    /// Decides everything. The last group is dropped when it is too small for its own metadata and
    /// 50 blocks more, as mke2fs does (the volume is then shorter than asked: see
    /// `superblock.blocks_count`).
    ///
    /// # Errors
    /// One line that says which wish cannot be met.
    pub fn new(wishes: &Wishes) -> Result<Layout, LayoutError> {
        Layout::with_tables_from(wishes, None)
    }

    /// The same, but bitmaps and tables are at or after this block, in place of the start of their
    /// flex group: for a volume whose first blocks hold data before its size is known. mke2fs makes
    /// no such volume; resize2fs does. Without flex_bg they stay at the start of their groups.
    ///
    /// # Errors
    /// As [`Layout::new`]; there is not enough room after that block.
    pub fn with_tables_from(
        wishes: &Wishes,
        tables_from: Option<BlockNo>,
    ) -> Result<Layout, LayoutError> {
        // A volume ends with a whole cluster.
        let log2 = wishes.cluster_log2();
        let whole = Wishes { blocks: wishes.blocks >> log2 << log2, ..wishes.clone() };
        let wishes = if log2 > 0 { &whole } else { wishes };
        let sizes = Sizes::new(wishes)?;
        let mut superblock = build_superblock(wishes, &sizes);
        let Places { descriptors, used } =
            place_groups(&superblock, tables_from, wishes.packing, &wishes.bad_blocks)?;
        let used = whole_clusters(used, superblock.cluster_log2());
        let used_inodes = superblock.first_inode.saturating_sub(1);
        let mut layout = Layout {
            superblock: superblock.clone(),
            descriptors,
            used,
            used_inodes,
            packing: wishes.packing,
        };
        layout.count_groups(wishes.marks.tables);
        let free: u64 = layout.descriptors.iter().map(|group| u64::from(group.free_blocks)).sum();
        superblock.free_blocks = free << superblock.cluster_log2();
        superblock.free_inodes = layout.descriptors.iter().map(|group| group.free_inodes).sum();
        layout.superblock = superblock;
        Ok(layout)
    }

    /// Free counts and flags of every group.
    fn count_groups(&mut self, tables: Tables) {
        let uses_flags = self.superblock.has_descriptor_checksums();
        let last = self.superblock.group_count().saturating_sub(1);
        for number in 0..self.superblock.group_count() {
            let group = GroupNo(number);
            let used: u32 = self.metadata_runs(group).iter().map(|run| run.length).sum();
            let used = used.div_ceil(1 << self.superblock.cluster_log2());
            let reserved = self.reserved_inodes(group);
            let initialized = number == 0 || number == last || self.holds_flexible_metadata(group);
            let per_group = self.superblock.inodes_per_group;
            let free_blocks = self.superblock.group_bits(group).saturating_sub(used);
            let Some(descriptor) = self.descriptors.get_mut(number as usize) else {
                return;
            };
            descriptor.free_blocks = free_blocks;
            descriptor.free_inodes = per_group.saturating_sub(reserved);
            descriptor.flags = match tables {
                Tables::Zeroed => INODE_ZEROED,
                Tables::Lazy => 0,
            };
            if uses_flags {
                descriptor.unused_inodes = descriptor.free_inodes;
                descriptor.flags |= if initialized { 0 } else { BLOCK_UNINIT };
                descriptor.flags |= if number == 0 || reserved > 0 { 0 } else { INODE_UNINIT };
            }
        }
    }

    /// Whether bitmaps or tables are here by flex_bg. A group without flex_bg has its own, which
    /// everyone can find.
    fn holds_flexible_metadata(&self, group: GroupNo) -> bool {
        let superblock = &self.superblock;
        let used: u32 = self.metadata_runs(group).iter().map(|run| run.length).sum();
        let log2 = superblock.cluster_log2();
        let own = superblock.super_overhead(group).div_ceil(1 << log2);
        superblock.log_groups_per_flex > 0 && used.div_ceil(1 << log2) > own
    }

    /// How many of a group's inodes are reserved: they are the first ones.
    fn reserved_inodes(&self, group: GroupNo) -> u32 {
        let before = u64::from(group.0).saturating_mul(self.superblock.inodes_per_group.into());
        let left = u64::from(self.used_inodes).saturating_sub(before);
        u32::try_from(left).unwrap_or(u32::MAX).min(self.superblock.inodes_per_group)
    }

    /// The runs of blocks that metadata occupies within a group: copies, bitmaps and tables that
    /// are there (with flex_bg those of other groups too), rising and merged. With bigalloc all of
    /// the clusters that they are in.
    pub fn metadata_runs(&self, group: GroupNo) -> Vec<Run> {
        let start = self.superblock.group_start(group).0;
        let end = start.saturating_add(self.superblock.group_length(group).into());
        let first = self.used.partition_point(|run| run.1 <= start);
        let here = self.used.get(first..).unwrap_or_default().iter().take_while(|run| run.0 < end);
        let cut = here.map(|run| (run.0.max(start), run.1.min(end)));
        cut.map(|(from, to)| Run {
            start: BlockNo(from),
            length: u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX),
        })
        .collect()
    }

    /// The block bitmap of a group as after formatting: metadata set, bits after the group's end
    /// set. `bytes` is a block.
    pub fn fill_block_bitmap(&self, group: GroupNo, bytes: &mut [u8]) {
        bytes.fill(0);
        let start = self.superblock.group_start(group).0;
        let log2 = self.superblock.cluster_log2();
        for run in self.metadata_runs(group) {
            let index = u32::try_from(run.start.0.saturating_sub(start)).unwrap_or(u32::MAX);
            let _ = bitmap::set_run(bytes, index >> log2, run.length.div_ceil(1 << log2));
        }
        fill_behind(bytes, self.superblock.group_bits(group));
    }

    /// The inode bitmap of a group: reserved inodes in group 0 set (and in the next ones, where a
    /// group has less than ten inodes), bits after inodes_per_group set.
    pub fn fill_inode_bitmap(&self, group: GroupNo, bytes: &mut [u8]) {
        bytes.fill(0);
        let _ = bitmap::set_run(bytes, 0, self.reserved_inodes(group));
        fill_behind(bytes, self.superblock.inodes_per_group);
    }

    /// The first free blocks at or after `goal` that are together, at most `most` of them. With
    /// bigalloc they begin a cluster: that of the goal, or a later one.
    pub fn free_run(&self, goal: BlockNo, most: u32) -> Option<Run> {
        let first = u64::from(self.superblock.first_data_block);
        let log2 = self.superblock.cluster_log2();
        let mut at = goal.0.max(first) >> log2 << log2;
        let next = self.used.partition_point(|run| run.1 <= at);
        let mut rest = self.used.get(next..).unwrap_or_default().iter();
        let end = loop {
            match rest.next() {
                Some(run) if run.0 <= at => at = run.1,
                Some(run) => break run.0,
                None => break self.superblock.blocks_count,
            }
        };
        let free = end.saturating_sub(at).min(most.into());
        let length = u32::try_from(free).unwrap_or(most);
        (length > 0).then_some(Run { start: BlockNo(at), length })
    }

    /// Counts free blocks as used, with bigalloc all of their clusters. They are those of a
    /// [`Layout::free_run`].
    pub fn take(&mut self, run: Run) {
        let log2 = self.superblock.cluster_log2();
        let (start, end) = (run.start.0, run.start.0.saturating_add(run.length.into()));
        let end = (end.div_ceil(1 << log2) << log2).min(self.superblock.blocks_count);
        let at = self.used.partition_point(|used| used.1 < start);
        match self.used.get(at).copied() {
            Some(next) if next.0 <= end => {
                let after = self.used.get(at.saturating_add(1)).copied();
                let joins = after.filter(|after| next.1.max(end) == after.0);
                let joined = (next.0.min(start), joins.map_or(next.1.max(end), |after| after.1));
                if joins.is_some() {
                    self.used.remove(at.saturating_add(1));
                }
                if let Some(slot) = self.used.get_mut(at) {
                    *slot = joined;
                }
            }
            _ => self.used.insert(at, (start, end)),
        }
        let mut from = start;
        while let Some(group) = self.superblock.group_of_block(BlockNo(from)).filter(|_| from < end)
        {
            let length = self.superblock.group_length(group);
            let to = self.superblock.group_start(group).0.saturating_add(length.into()).min(end);
            let taken = u32::try_from(to.saturating_sub(from)).unwrap_or(0);
            let taken = taken.div_ceil(1 << log2);
            if let Some(descriptor) = self.descriptors.get_mut(group.0 as usize) {
                descriptor.free_blocks = descriptor.free_blocks.saturating_sub(taken);
                descriptor.flags &= !BLOCK_UNINIT;
            }
            let taken = u64::from(taken) << log2;
            self.superblock.free_blocks = self.superblock.free_blocks.saturating_sub(taken);
            from = to;
        }
    }

    /// Counts the first `count` inodes as used, of which the reserved ones are already.
    pub fn take_inodes(&mut self, count: u32) {
        let per_group = self.superblock.inodes_per_group;
        let mut free = 0_u32;
        let uses_flags = self.superblock.has_descriptor_checksums();
        for (number, descriptor) in (0_u32..).zip(&mut self.descriptors) {
            let before = number.saturating_mul(per_group);
            let here = count.saturating_sub(before).min(per_group);
            if here > 0 {
                descriptor.free_inodes = per_group.saturating_sub(here);
                if uses_flags {
                    descriptor.unused_inodes = descriptor.free_inodes;
                    descriptor.flags &= !(INODE_UNINIT | BLOCK_UNINIT);
                }
            }
            free = free.saturating_add(descriptor.free_inodes);
        }
        self.superblock.free_inodes = free;
        self.used_inodes = count;
    }

    /// Blocks in all that no file can use, those before the first data block included.
    pub fn overhead_blocks(&self) -> u64 {
        let used: u64 = self.used.iter().map(|run| run.1.saturating_sub(run.0)).sum();
        used.saturating_add(self.superblock.first_data_block.into())
    }

    /// Blocks of the reserved descriptors that the resize inode maps: per copy, rising: (group,
    /// block).
    pub fn reserved_descriptor_blocks(&self) -> Vec<(GroupNo, BlockNo)> {
        let superblock = &self.superblock;
        if superblock.reserved_gdt_blocks == 0 {
            return Vec::new();
        }
        let after_descriptors = u64::from(superblock.descriptor_blocks()).saturating_add(1);
        let start_of = |group: GroupNo| match group.0 {
            0 => superblock.primary_block(),
            _ => superblock.group_start(group),
        };
        let copies =
            (0..superblock.group_count()).map(GroupNo).filter(|group| superblock.has_super(*group));
        let of_copy = |group: GroupNo| {
            let first = start_of(group).0.saturating_add(after_descriptors);
            (0..u64::from(superblock.reserved_gdt_blocks))
                .map(move |n| (group, BlockNo(first.saturating_add(n))))
        };
        copies.flat_map(of_copy).collect()
    }
}

/// Runs (first, end), rising and merged, of all of the clusters that these are in.
fn whole_clusters(runs: Vec<(u64, u64)>, log2: u32) -> Vec<(u64, u64)> {
    if log2 == 0 {
        return runs;
    }
    let mut whole: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
    for (start, end) in runs {
        let (start, end) = (start >> log2 << log2, end.div_ceil(1 << log2) << log2);
        match whole.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => whole.push((start, end)),
        }
    }
    whole
}

/// Sets every bit from `from` on.
fn fill_behind(bytes: &mut [u8], from: u32) {
    let bits = u32::try_from(bytes.len().saturating_mul(8)).unwrap_or(u32::MAX);
    let _ = bitmap::set_run(bytes, from, bits.saturating_sub(from));
}

/// The groups that have a copy (sparse_super2): the second and the last one.
pub(crate) fn backup_groups(copies: u8, groups: u32) -> [GroupNo; 2] {
    let last = groups.saturating_sub(1);
    match copies {
        0 => [GroupNo(0); 2],
        2.. if last > 1 => [GroupNo(1), GroupNo(last)],
        _ => [GroupNo(0), GroupNo(last.min(1))],
    }
}

/// The blocks kept for root: their share of what was asked, and of that the part that is left when
/// the last group was dropped, each rounded down as mke2fs does.
// 48 bits fit an f64.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn reserved_blocks(wishes: &Wishes, blocks: u64) -> u64 {
    let asked = (wishes.blocks as f64 * wishes.reserved_ratio) as u64;
    let scaled = u128::from(asked).saturating_mul(blocks.into()).checked_div(wishes.blocks.into());
    u64::try_from(scaled.unwrap_or(0)).unwrap_or(0)
}

fn build_superblock(wishes: &Wishes, sizes: &Sizes) -> Superblock {
    let mut superblock = Superblock::empty();
    let extra_isize = if wishes.inode_size > 128 { EXTRA_ISIZE } else { 0 };
    let flexible = sizes.features.has(Feature::FLEX_BG);
    let log2 = |value: u32| u8::try_from(value.trailing_zeros()).unwrap_or(0);
    superblock.features = sizes.features;
    superblock.block_size_log2 = log2(wishes.block_size);
    superblock.blocks_count = sizes.blocks;
    superblock.reserved_blocks = reserved_blocks(wishes, sizes.blocks);
    superblock.first_data_block = sizes.first_data_block;
    superblock.blocks_per_group = sizes.blocks_per_group;
    if sizes.features.has(Feature::BIGALLOC) {
        superblock.set_cluster_log2(sizes.cluster_log2);
    }
    superblock.inodes_per_group = sizes.inodes_per_group;
    superblock.inodes_count = sizes.groups.saturating_mul(sizes.inodes_per_group);
    superblock.inode_size = wishes.inode_size;
    superblock.descriptor_size = sizes.descriptor_size;
    superblock.reserved_gdt_blocks = sizes.reserved_gdt_blocks;
    superblock.log_groups_per_flex = if flexible { log2(wishes.flex_groups) } else { 0 };
    superblock.min_extra_isize = extra_isize;
    superblock.want_extra_isize = extra_isize;
    superblock.uuid = wishes.uuid;
    superblock.checksum_seed = crc32c(!0, &wishes.uuid);
    superblock.label = wishes.label;
    superblock.hash_seed = wishes.hash_seed;
    superblock.hash_version = wishes.hash_version;
    superblock.state = state::CLEAN;
    superblock.errors_behavior = wishes.marks.errors_behavior;
    superblock.creator_os = wishes.marks.creator_os;
    superblock.last_mounted = wishes.marks.last_mounted;
    superblock.add_flags(wishes.marks.flags);
    superblock.set_encoding(match wishes.marks.encoding {
        // Names without case have one, and there is only this.
        (0, flags) if superblock.has(Feature::CASEFOLD) => (ENCODING_UTF8, flags),
        encoding => encoding,
    });
    superblock.revision = wishes.marks.revision;
    if sizes.features.has(Feature::ENCRYPT) {
        superblock.set_encryption_algorithms();
    }
    if sizes.features.has(Feature::SPARSE_SUPER2) {
        superblock.set_backup_groups(backup_groups(wishes.copies, sizes.groups));
    }
    (superblock.max_mount_count, superblock.check_interval_seconds) =
        wishes.marks.checks.limits(&wishes.uuid);
    superblock.default_mount_options = wishes.marks.mount_options;
    superblock.created_seconds = wishes.created_seconds;
    superblock.written_seconds = wishes.created_seconds;
    superblock.checked_seconds = wishes.created_seconds;
    superblock.raid_stride = wishes.stride;
    superblock.raid_stripe_width = wishes.stripe_width;
    superblock
}
