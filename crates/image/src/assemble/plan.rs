//! How large the volume is, and where its data begins.
use super::inodes::InodeWish;
use super::need::{Need, in_clusters};
use super::room::Room;
use extant_engine::ErrorKind;
use extant_engine::mkfs::{self, FormatOptions, JournalWish, LostAndFound};
use extant_format::layout::Layout;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, extent, indirect};

/// A volume that is large enough.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// With blocks and inodes decided.
    pub options: FormatOptions,
    /// File data begins here; what a walk of the tree reads is before it.
    pub data_start: BlockNo,
    /// The most blocks that may be needed.
    pub needed_most: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    /// It can end after this block at the earliest: its last group begins there, or has its
    /// metadata before.
    pub end_least: u64,
    /// Groups of the volume.
    pub groups: u32,
    /// Blocks of a group.
    pub blocks_per_group: u32,
    /// Inodes of the volume.
    pub inodes: u64,
    /// How many inodes it has at another size.
    pub inode_wish: InodeWish,
}

impl VolumePlan {
    /// The block after which it ends at the latest, when it is cut after its content: later only
    /// where a break of the volume cuts a piece in two.
    fn end(&self) -> u64 {
        self.needed_most.max(self.end_least)
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.options.wishes.block_size.into())
    }
}

/// Attempts to find a size at which the volume holds what it needs at that size.
const ROUNDS: usize = 400;
/// Sizes that are looked at for a shorter volume.
const SHORTER_TRIES: u64 = 256;
/// Groups of a flex group, at most, where their number was not asked for. A volume without room to
/// grow into is one flex group: all that is read when it is mounted and walked is in front.
const FLEX_GROUPS_MAX: u32 = 1 << 16;

/// The smallest volume that surely holds the tree, with `free` besides; the little that is too much
/// is cut off later.
///
/// Small volumes have more inodes in a given room than large ones, and smaller journals. So the
/// size decides what is needed, which decides the size, and near the steps of mke2fs's tables there
/// may be no size that agrees with itself. A volume with room therefore keeps the ratio and the
/// journal of the first size that suffices, also where it then becomes smaller than that.
///
/// # Errors
/// Options that no size satisfies.
pub fn exact(
    template: &FormatOptions,
    need: &Need,
    inodes: InodeWish,
    free: Room,
    flex: FlexGroups,
) -> Result<VolumePlan, extant_engine::Error> {
    if template.tables_from.is_some() {
        return around(template, need, inodes, free);
    }
    let (first, journal) = search(template, need, inodes, free, flex)?;
    if free == Room::NONE {
        let first = least(first, need, inodes, flex);
        return Ok(shorter(first, need, inodes, flex));
    }
    let mut kept = template.clone();
    if kept.journal == JournalWish::Default {
        kept.journal = match journal {
            0 => JournalWish::None,
            blocks => JournalWish::Blocks(blocks),
        };
    }
    let (plan, _) = search(&kept, need, inodes.with_ratio_of(first.bytes()), free, flex)?;
    Ok(plan)
}

/// A volume around data that is there already, up to block `tables_from`. Its groups have the
/// length that they had when the data came, and with flex_bg are one flex group.
fn around(
    template: &FormatOptions,
    need: &Need,
    inodes: InodeWish,
    free: Room,
) -> Result<VolumePlan, extant_engine::Error> {
    let block_size = u64::from(template.wishes.block_size);
    let data_end = template.tables_from.unwrap_or_default().0;
    let per_group = template.wishes.blocks_per_group.unwrap_or(1).max(1);
    let tables = inodes.needed.saturating_mul(template.wishes.inode_size.into()) / block_size;
    let mut options = template.clone();
    let mut blocks = with_room(data_end + tables + need.metadata + 8, free, block_size);
    let mut refusal = None;
    for _ in 0..ROUNDS {
        let bytes = blocks.saturating_mul(block_size);
        let groups = blocks.div_ceil(per_group.into());
        let most = inodes.of_groups.map_or(8 * block_size, |of_groups| of_groups.each);
        let wanted_groups = inodes.wanted(bytes).div_ceil(most);
        if groups < wanted_groups {
            blocks = (wanted_groups - 1).saturating_mul(per_group.into()) + 1;
            continue;
        }
        let flex = (groups * 2).next_power_of_two().min(FLEX_GROUPS_MAX.into());
        options.wishes.flex_groups = flex as u32;
        options.wishes.blocks = blocks;
        options.wishes.inodes = inodes.count(bytes);
        match mkfs::plan(&options) {
            Err(error) => {
                refusal = Some(error);
                blocks = blocks.saturating_add(blocks / 256 + 8);
            }
            Ok((layout, journal)) => {
                let made = made(&options, &layout, journal);
                let wanted = with_room(needed(&layout, made, need), free, block_size);
                let has = layout.superblock.blocks_count;
                if has >= wanted && has == blocks {
                    return Ok(finish(options, inodes, &layout, made, need));
                }
                // A last group that was too short for its own metadata was dropped.
                let more = if has < blocks { 64 } else { 1 };
                blocks = wanted.max(blocks + more);
            }
        }
    }
    Err(refusal.unwrap_or(ErrorKind::InvalidArgument("no volume size fits this content").into()))
}

/// The first size tried that suffices, and the blocks of its journal.
fn search(
    template: &FormatOptions,
    need: &Need,
    inodes: InodeWish,
    free: Room,
    flex: FlexGroups,
) -> Result<(VolumePlan, u32), extant_engine::Error> {
    let block_size = u64::from(template.wishes.block_size);
    let tables = inodes.needed.saturating_mul(template.wishes.inode_size.into()) / block_size;
    let mut options = template.clone();
    let journal = match template.journal {
        JournalWish::Blocks(blocks) => u64::from(blocks),
        JournalWish::Default | JournalWish::None | JournalWish::External(_) => 0,
    };
    let mut blocks = (need.data + need.metadata).saturating_add(tables).saturating_add(journal);
    let mut refusal = None;
    for _ in 0..ROUNDS {
        options.wishes.blocks = blocks;
        options.wishes.inodes = inodes.count(blocks.saturating_mul(block_size));
        match laid_out(&mut options, free, flex) {
            Err(error) => {
                refusal = Some(error);
                blocks = blocks.saturating_add(blocks / 32 + 1);
            }
            Ok((layout, journal)) => {
                let made = made(&options, &layout, journal);
                let wanted = with_room(needed(&layout, made, need), free, block_size);
                if layout.superblock.blocks_count >= wanted {
                    return Ok((finish(options, inodes, &layout, made, need), journal));
                }
                let dropped = layout.superblock.blocks_count < blocks;
                blocks = if dropped { wanted.max(blocks) + 64 } else { wanted.max(blocks + 1) };
            }
        }
    }
    Err(refusal.unwrap_or(ErrorKind::InvalidArgument("no volume size fits this content").into()))
}

/// The plan of the fewest blocks below this one that surely hold the tree. The search for it goes
/// in steps over sizes that no volume can have, and may step over sizes at which less is needed.
fn least(mut plan: VolumePlan, need: &Need, inodes: InodeWish, flex: FlexGroups) -> VolumePlan {
    for _ in 0..ROUNDS {
        let fewer = plan.needed_most.saturating_sub(1);
        match sized(plan.options.clone(), need, inodes, flex, fewer) {
            Some(other) if other.end() < plan.end() => plan = other,
            _ => break,
        }
    }
    plan
}

/// A plan that ends sooner, where the metadata of a last group reaches far beyond the content: with
/// another size it may not. Where groups are small because there are more inodes than a full group
/// can have, with other groups it may not either.
fn shorter(plan: VolumePlan, need: &Need, inodes: InodeWish, flex: FlexGroups) -> VolumePlan {
    let (from, until) = (plan.needed_most, plan.end());
    let step = (until.saturating_sub(from) / SHORTER_TRIES).max(1);
    let asked = plan.options.wishes.blocks_per_group;
    let mut candidates: Vec<(u64, Option<u32>)> =
        (from..until).step_by(step as usize).map(|blocks| (blocks, asked)).collect();
    if asked.is_none() && plan.blocks_per_group < group_blocks_max(&plan.options) && from < until {
        let smaller = (1..64).filter_map(|step| plan.blocks_per_group.checked_sub(8 * step));
        let others = balanced_groups(from, plan.groups).chain(smaller);
        let full = |per_group: u32| u64::from(plan.groups) * u64::from(per_group);
        candidates.extend(
            others.flat_map(|per_group| {
                [from, full(per_group)].map(|blocks| (blocks, Some(per_group)))
            }),
        );
    }
    let mut best = plan;
    for (blocks, per_group) in candidates {
        let mut options = best.options.clone();
        options.wishes.blocks_per_group = per_group;
        best = match sized(options, need, inodes, flex, blocks) {
            Some(other) if other.end() < best.end() => other,
            _ => best,
        };
    }
    best
}

/// Blocks of a group when there are about `groups` of them, all of the same length.
fn balanced_groups(blocks: u64, groups: u32) -> impl Iterator<Item = u32> {
    let counts = groups.saturating_sub(2).max(1)..groups.saturating_add(3);
    counts.flat_map(move |count| {
        let even = blocks.div_ceil(count.into()).next_multiple_of(8);
        (0..4).filter_map(move |more| u32::try_from(even + 8 * more).ok())
    })
}

fn group_blocks_max(options: &FormatOptions) -> u32 {
    options.wishes.block_size.saturating_mul(8).min((1 << 16) - 8)
}

/// A plan of about `blocks` that holds the tree.
fn sized(
    mut options: FormatOptions,
    need: &Need,
    inodes: InodeWish,
    flex: FlexGroups,
    mut blocks: u64,
) -> Option<VolumePlan> {
    for _ in 0..3 {
        options.wishes.blocks = blocks;
        options.wishes.inodes =
            inodes.count(blocks.saturating_mul(options.wishes.block_size.into()));
        let (layout, journal) = laid_out(&mut options, Room::NONE, flex).ok()?;
        let made = made(&options, &layout, journal);
        let plan = finish(options.clone(), inodes, &layout, made, need);
        if plan.needed_most <= plan.blocks {
            return Some(plan);
        }
        let dropped = if plan.blocks < blocks { 64 } else { 0 };
        blocks = plan.needed_most.max(blocks) + dropped;
    }
    None
}

/// What decides how many groups a flex group has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlexGroups {
    /// They were asked for: `wishes.flex_groups` counts.
    Given,
    /// The number of groups that the volume comes to have.
    Fitting,
}

/// The layout of these options; flex groups are chosen to suit the number of groups.
fn laid_out(
    options: &mut FormatOptions,
    free: Room,
    flex: FlexGroups,
) -> Result<(Layout, u32), extant_engine::Error> {
    let laid_out = mkfs::plan(options)?;
    if flex == FlexGroups::Given
        || free != Room::NONE
        || !options.wishes.features.has(Feature::FLEX_BG)
    {
        return Ok(laid_out);
    }
    let fitting = laid_out.0.superblock.group_count().next_power_of_two().min(FLEX_GROUPS_MAX);
    if fitting == options.wishes.flex_groups {
        return Ok(laid_out);
    }
    options.wishes.flex_groups = fitting;
    mkfs::plan(options)
}

/// The volume of these options with this many blocks, whether or not the tree fits.
///
/// # Errors
/// Options that cannot be met at that size.
pub fn fixed(
    template: &FormatOptions,
    need: &Need,
    inodes: InodeWish,
    blocks: u64,
) -> Result<VolumePlan, extant_engine::Error> {
    let mut options = template.clone();
    options.wishes.blocks = blocks;
    options.wishes.inodes = inodes.count(blocks.saturating_mul(options.wishes.block_size.into()));
    let (layout, journal) = mkfs::plan(&options)?;
    let made = made(&options, &layout, journal);
    Ok(finish(options, inodes, &layout, made, need))
}

/// `used` blocks and the room besides them: a share is one of the whole volume.
pub fn with_room(used: u64, free: Room, block_size: u64) -> u64 {
    match free {
        Room::Bytes(bytes) => used.saturating_add(bytes.div_ceil(block_size)),
        Room::PerMille(share) => {
            let rest = u128::from(1000 - share.min(999));
            u64::try_from((u128::from(used) * 1000).div_ceil(rest)).unwrap_or(u64::MAX)
        }
    }
}

fn finish(
    options: FormatOptions,
    inode_wish: InodeWish,
    layout: &Layout,
    made: Need,
    need: &Need,
) -> VolumePlan {
    let superblock = &layout.superblock;
    let last = GroupNo(superblock.group_count().saturating_sub(1));
    let metadata_end =
        layout.metadata_runs(last).last().map_or(0, |run| run.start.0 + u64::from(run.length));
    VolumePlan {
        end_least: metadata_end.max(superblock.group_start(last).0 + 1),
        data_start: skip_free(layout, made.metadata + need.metadata),
        blocks: layout.superblock.blocks_count,
        blocks_per_group: layout.superblock.blocks_per_group,
        groups: layout.superblock.group_count(),
        inodes: layout.superblock.inodes_count.into(),
        inode_wish,
        needed_most: needed(layout, made, need),
        options,
    }
}

/// Blocks in use at the end, at most.
fn needed(layout: &Layout, made: Need, need: &Need) -> u64 {
    // A break of the volume may cut a file's piece in two, and a tree of extents may need a node
    // more for it. In a volume of one group that is so rare that it is tried without.
    let groups = u64::from(layout.superblock.group_count());
    let slack = if layout.superblock.has(Feature::EXTENTS) && groups > 1 { 2 * groups } else { 0 };
    let slack = slack << layout.superblock.cluster_log2();
    layout.overhead_blocks() + made.data + made.metadata + need.data + need.metadata + slack
}

/// Blocks that mkfs gives to its own files, at most; the root is counted with the tree.
fn made(options: &FormatOptions, layout: &Layout, journal_blocks: u32) -> Need {
    let superblock = &layout.superblock;
    let extents = superblock.has(Feature::EXTENTS);
    let journal_map = match (journal_blocks, extents) {
        (0, _) => 0,
        (blocks, false) => {
            indirect::blocks_needed(std::iter::once(0..blocks), superblock.block_size_log2)
        }
        (blocks, true) => u64::from(blocks / extent::MAX_LENGTH > 3),
    };
    let resize_map = u64::from(superblock.has(Feature::RESIZE_INODE));
    let mount_block = u64::from(superblock.has(Feature::MMP));
    let orphan_file = match superblock.has(Feature::ORPHAN_FILE) {
        true => mkfs::orphan_file_blocks(superblock.blocks_count),
        false => 0,
    };
    let log2 = superblock.cluster_log2();
    let whole = |blocks: u64| in_clusters(blocks, log2);
    Need {
        data: whole(journal_blocks.into()) + whole(orphan_file.into()),
        metadata: (journal_map << log2)
            + (resize_map << log2)
            + (mount_block << log2)
            + whole(lost_and_found_blocks(options)),
        inodes: 0,
    }
}

fn lost_and_found_blocks(options: &FormatOptions) -> u64 {
    match options.lost_and_found {
        LostAndFound::None => 0,
        LostAndFound::Default => (16_384 / u64::from(options.wishes.block_size)).clamp(2, 12),
        LostAndFound::Blocks(blocks) => blocks.max(1).into(),
    }
}

/// The first block after `free` free ones.
fn skip_free(layout: &Layout, mut free: u64) -> BlockNo {
    let superblock = &layout.superblock;
    for group in (0..superblock.group_count()).map(GroupNo) {
        let start = superblock.group_start(group).0;
        let end = start + u64::from(superblock.group_length(group));
        let mut at = start;
        let taken =
            layout.metadata_runs(group).into_iter().map(|run| (run.start.0, u64::from(run.length)));
        for (metadata, length) in taken.chain([(end, 0)]) {
            let here = metadata.saturating_sub(at);
            if free < here {
                return BlockNo(at + free);
            }
            free -= here;
            at = metadata + length;
        }
    }
    BlockNo(superblock.blocks_count.saturating_sub(1))
}
