//! Finds again what nothing leads to: the tables of inodes and the bitmaps of groups whose
//! descriptors cannot be right, and the block that records mounts.
//!
//! A descriptor that leads to a wrong place loses all inodes of its group, which still stand on the
//! disk. So they are looked for before anything is given a new place: where a copy of the
//! descriptors says, then, for a table, where inodes stand that fit.
//!
//! *Invariants*: a place is written only if no two tables are on one block after it, and inodes
//! that are known to be in use are there, or a copy says so. It runs before the first edit.
use crate::error::Error;
use extant_block::{BlockDevice, Overlay};
use extant_format::group::{GroupDescriptor, INODE_UNINIT};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::mount_block::{NewMountBlock, StoredMountBlock, initialize};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, bitmap, extent, indirect};
use extant_inspect::{CheckReport, Code, Problem, Severity, SuperblockPlace, Usage, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Copies of the descriptors that are tried.
pub(crate) const COPIES_MAX: usize = 4;
/// Blocks that are searched for a table.
const SEARCHED_MAX: u64 = 1 << 16;
/// Blocks that are looked at in the searches for the tables of all groups together: where that many
/// are lost at once, the geometry is what is wrong.
const LOOKED_AT_MAX: usize = 1 << 18;
/// Inodes that are looked at to judge whether a table can be somewhere.
const INODES_MAX: usize = 64;
/// Of these, one in so many may be damaged.
const DAMAGED_SHARE: usize = 8;
/// How often a mount looks at the block that records mounts, in seconds, where none says.
const INTERVAL_SECONDS: u16 = 5;

/// Writes the block that records mounts anew, if a report says that it cannot be one. By a copy of
/// the superblock, where that knows one that is sound; where none can be it, the feature goes.
///
/// # Errors
/// The device's.
pub(crate) fn mount_block(overlay: &Overlay, now: u32) -> Result<(), Error> {
    let mut superblock = extant_engine::read_superblock(overlay)?;
    let block_size = superblock.block_size() as usize;
    let read = |block: BlockNo| -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = vec![0; block_size];
        let at = block.0.saturating_mul(block_size as u64);
        if block.0 >= superblock.blocks_count
            || at.saturating_add(block_size as u64) > overlay.info().bytes
        {
            return Ok(None);
        }
        overlay.read(at, &mut bytes)?;
        Ok(Some(bytes))
    };
    let copies = copy_groups(&superblock).take(COPIES_MAX);
    let mut of_copies = Vec::new();
    for group in copies {
        let Some(bytes) = read(superblock.group_start(group))? else { continue };
        let copy = bytes.first_chunk().and_then(|bytes| Superblock::parse_any(bytes).ok());
        of_copies.extend(copy.map(|copy| copy.mount_block()));
    }
    for block in of_copies {
        let bytes = read(block)?.unwrap_or_default();
        if block != superblock.mount_block() && StoredMountBlock::new(&bytes).is_sound(&superblock)
        {
            let interval = superblock.mount_interval_seconds();
            superblock.set_mount_block(block, interval);
            // tidy: writers because it is an overlay in memory
            return Ok(overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?);
        }
    }
    let block = superblock.mount_block();
    let is_possible = block.0 > superblock.first_data_block.into();
    match read(block)?.filter(|_| is_possible) {
        Some(_) => {
            let mut bytes = vec![0; block_size];
            let interval_seconds = match superblock.mount_interval_seconds() {
                0 => INTERVAL_SECONDS,
                interval => interval,
            };
            let new = NewMountBlock {
                seconds: now.into(),
                node_name: b"",
                device_name: b"",
                interval_seconds,
            };
            initialize(&mut bytes, &new, &superblock);
            // tidy: writers because it is an overlay in memory
            Ok(overlay.write(block.0.saturating_mul(block_size as u64), &bytes)?)
        }
        None => {
            superblock.features.clear(Feature::MMP);
            superblock.set_mount_block(BlockNo(0), 0);
            // tidy: writers because it is an overlay in memory
            Ok(overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?)
        }
    }
}

/// The groups that begin with a copy of the superblock.
pub(crate) fn copy_groups(superblock: &Superblock) -> impl Iterator<Item = GroupNo> + '_ {
    (1..superblock.group_count()).map(GroupNo).filter(|group| superblock.has_super(*group))
}

/// Sets numbers right that say which inodes there are, where a report shows that they are wrong:
/// inodes that are reserved only by the number of the first one that is not, and a number of inodes
/// per group that no group has, where the number of all says which one it is. Gives the problem.
///
/// # Errors
/// The device's.
pub(crate) fn numbers_of_inodes(
    overlay: &Overlay,
    report: &CheckReport,
) -> Result<Option<Problem>, Error> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    overlay.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    let Ok((mut superblock, _)) = Superblock::parse_corrected(&bytes) else {
        return Ok(None);
    };
    let is_reserved = |it: &&Problem| {
        it.code == Code::ReservedMode && it.ino.is_some_and(|ino| ino > Ino::RESERVED_LAST)
    };
    let (superblock, problem) = if let Some(problem) = report.problems.iter().find(is_reserved) {
        superblock.first_inode = Ino::RESERVED_LAST.0.saturating_add(1);
        (superblock, problem)
    } else if let Some(found) = with_whole_groups(&superblock, report) {
        found
    } else {
        return Ok(None);
    };
    // tidy: writers because it is an overlay in memory
    overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(Some(problem.clone()))
}

/// The superblock with the number of inodes per group that follows from that of all, where a report
/// says that the two do not fit, and no group can have the one that is there; and that problem.
pub(crate) fn with_whole_groups<'a>(
    superblock: &Superblock,
    report: &'a CheckReport,
) -> Option<(Superblock, &'a Problem)> {
    let problem = report.problems.iter().find(|it| it.code == Code::InodeCount)?;
    let all = problem.found.and_then(|all| u32::try_from(all).ok())?;
    let groups = superblock.group_count().max(1);
    let each = all / groups;
    // Bitmaps have whole bytes, for Linux and e2fsprogs alike.
    let is_possible = |each: u32| each > 0 && each.is_multiple_of(8);
    let is_called_for = !is_possible(superblock.inodes_per_group)
        && is_possible(each)
        && all.is_multiple_of(groups);
    let mut whole = superblock.clone();
    (whole.inodes_per_group, whole.inodes_count) = (each, all);
    is_called_for.then_some((whole, problem))
}

/// Has a twentieth of the volume reserved, where more than half of it was: no check goes on there.
///
/// # Errors
/// The device's.
pub(crate) fn reserved_blocks(overlay: &Overlay) -> Result<(), Error> {
    let mut superblock = extant_engine::read_superblock(overlay)?;
    superblock.reserved_blocks = superblock.blocks_count / 20;
    // tidy: writers because it is an overlay in memory
    Ok(overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?)
}

/// Whether a report gives a reason to look for places: a table that is elsewhere may be on blocks
/// that nothing else has, and then all that is wrong is what is read of it.
pub(crate) fn is_called_for(report: &CheckReport) -> bool {
    let is_reason = |problem: &Problem| {
        is_of_place(problem.code)
            || problem.code == Code::DescriptorChecksum
            || problem.rule().severity >= Severity::Error
    };
    report.problems.iter().any(is_reason)
}

/// Whether a problem is that a part of a group cannot be where its descriptor says.
fn is_of_place(code: Code) -> bool {
    matches!(
        code,
        Code::RootTablePlace
            | Code::InodeTablePlace
            | Code::InodeTableConflict
            | Code::BlockBitmapPlace
            | Code::BlockBitmapConflict
            | Code::InodeBitmapPlace
            | Code::InodeBitmapConflict
    )
}

/// Looks for the places of groups, and writes those that it finds: gives the problems that are
/// mended by it, none if nothing was written.
///
/// # Errors
/// The device's.
pub(crate) fn of_groups(
    overlay: &Arc<Overlay>,
    (report, usage): (&CheckReport, Option<&Usage>),
) -> Result<Vec<Problem>, Error> {
    let device = Arc::clone(overlay) as Arc<dyn BlockDevice>;
    let Ok(volume) = Volume::open(Arc::clone(&device), SuperblockPlace::Primary) else {
        return Ok(Vec::new());
    };
    let Some(descriptors) = descriptors(&volume) else { return Ok(Vec::new()) };
    let mut places = Places {
        overlay,
        superblock: volume.superblock().clone(),
        descriptors: descriptors.clone(),
    };
    let confirmed = places.by_copies(&device);
    let doubted = report.problems.iter().filter_map(|problem| match problem.code {
        Code::DescriptorChecksum => problem.group,
        // What was on its blocks is elsewhere by now.
        code => problem.group.filter(|group| is_of_place(code) && !confirmed.contains(group)),
    });
    let mut sought = places.wrong(Parts::All);
    sought.extend(doubted.filter(|group| (group.0 as usize) < descriptors.len()));
    // Once for all: there may be as many groups to look for as there are groups.
    let mut standing = if sought.is_empty() { BTreeSet::new() } else { places.standing() };
    let mut left = LOOKED_AT_MAX;
    for group in sought {
        places.by_search(group, &mut standing, &mut left);
    }
    let held = places.held(standing);
    for group in places.wrong(Parts::All) {
        places.apart(group, usage, &held)?;
    }
    let changed: BTreeSet<GroupNo> = groups_of(&descriptors)
        .zip(descriptors.iter().zip(&places.descriptors))
        .filter(|(_, (before, after))| before != after)
        .map(|(group, _)| group)
        .collect();
    // Bitmaps that nothing leads to are written anew elsewhere, a table only where it is.
    let wrong = places.wrong(Parts::Tables);
    let changed: BTreeSet<GroupNo> = changed.difference(&wrong).copied().collect();
    for group in &changed {
        write_descriptor(overlay, &places.superblock, *group, &places.at(*group))?;
    }
    let mended = report.problems.iter().filter(|problem| {
        is_of_place(problem.code) && problem.group.is_some_and(|group| changed.contains(&group))
    });
    let mut mended: Vec<Problem> = mended.cloned().collect();
    for group in changed {
        if !mended.iter().any(|problem| problem.group == Some(group)) {
            mended.push(Problem::new(Code::DescriptorsDamaged).group(group));
        }
    }
    Ok(mended)
}

/// Looks at inodes that have a name, and are among those that their group's descriptor calls never
/// used: where one of them is in use, nothing that it says of that is believed any more. Gives the
/// problems that are mended by it.
///
/// # Errors
/// The device's.
pub(crate) fn of_never_used(
    overlay: &Arc<Overlay>,
    report: &CheckReport,
) -> Result<Vec<Problem>, Error> {
    let device = Arc::clone(overlay) as Arc<dyn BlockDevice>;
    let Ok(volume) = Volume::open(device, SuperblockPlace::Primary) else {
        return Ok(Vec::new());
    };
    let superblock = volume.superblock();
    let mut mended: Vec<Problem> = Vec::new();
    if !superblock.has_descriptor_checksums() {
        return Ok(mended);
    }
    let named = report.problems.iter().filter_map(|problem| match problem.code {
        Code::EntryUnused => problem.other,
        Code::RootMissing => Some(Ino::ROOT),
        _ => None,
    });
    for ino in named {
        let Some((group, index)) = superblock.group_of_inode(ino) else { continue };
        if mended.iter().any(|problem| problem.group == Some(group)) {
            continue;
        }
        let Ok(mut of) = volume.descriptor(group) else { continue };
        let first_unused = superblock.inodes_per_group.saturating_sub(of.unused_inodes);
        let is_unread = of.flags & INODE_UNINIT != 0 || index >= first_unused;
        let is_used = volume.inode(ino).is_ok_and(|inode| {
            inode.file_type().is_some() && inode.links > 0 && inode.deletion_time == 0
        });
        if !is_unread || !is_used {
            continue;
        }
        of.flags &= !INODE_UNINIT;
        of.unused_inodes = 0;
        write_descriptor(overlay, superblock, group, &of)?;
        mended.push(Problem::new(Code::UsedNeverUsed).group(group).ino(ino));
    }
    Ok(mended)
}

/// All descriptors; `None` where one cannot be read.
pub(crate) fn descriptors(volume: &Volume) -> Option<Vec<GroupDescriptor>> {
    (0..volume.present_groups()).map(|group| volume.descriptor(GroupNo(group)).ok()).collect()
}

fn groups_of(descriptors: &[GroupDescriptor]) -> impl Iterator<Item = GroupNo> + use<> {
    (0..descriptors.len() as u32).map(GroupNo)
}

/// Whether two descriptors say the same of where everything is.
fn same_places(one: &GroupDescriptor, other: &GroupDescriptor) -> bool {
    one.block_bitmap == other.block_bitmap
        && one.inode_bitmap == other.inode_bitmap
        && one.inode_table == other.inode_table
}

/// What is known of inodes before they are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// They are in use.
    Used,
    Nothing,
}

/// The one place that fits best among those that a table of so many blocks would share; `None`
/// where there are others too, as where a file is the image of another file system.
fn only(fitting: &BTreeMap<BlockNo, usize>, blocks: u64) -> Option<BlockNo> {
    let (best, most) = fitting.iter().max_by_key(|(_, sound)| **sound)?;
    let is_apart = |block: &BlockNo| block.0.abs_diff(best.0) >= blocks;
    let is_other =
        |(block, sound): (&BlockNo, &usize)| block != best && (is_apart(block) || sound == most);
    (!fitting.iter().any(is_other)).then_some(*best)
}

/// The first inodes of a group that are in use by its bitmap.
fn used(bits: &[u8], count: u32) -> Vec<u32> {
    let next = |at: u32| bitmap::next_set(bits, at, count);
    let after = |index: &u32| next(index.saturating_add(1));
    std::iter::successors(next(0), after).take(INODES_MAX).collect()
}

/// Which parts of groups are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    All,
    Tables,
}

/// Blocks that are no bitmap's, and the bitmaps of all groups.
struct Held {
    /// Where the tables begin in which inodes stand, and how long one is.
    tables: BTreeSet<u64>,
    table_blocks: u64,
    /// Superblocks and descriptors, as the first block and how many.
    fixed: BTreeMap<u64, u64>,
    /// How often a block is said to be a bitmap.
    bitmaps: BTreeMap<BlockNo, u32>,
}

impl Held {
    /// Whether a block is of a table that stands, of a superblock or of descriptors.
    fn has(&self, block: BlockNo) -> bool {
        let table = self.tables.range(..=block.0).next_back();
        let fixed = self.fixed.range(..=block.0).next_back();
        table.is_some_and(|start| block.0 - start < self.table_blocks)
            || fixed.is_some_and(|(start, length)| block.0 - start < *length)
    }
}

/// Where the parts of all groups are, as far as that is known.
struct Places<'a> {
    overlay: &'a Overlay,
    superblock: Superblock,
    descriptors: Vec<GroupDescriptor>,
}

impl Places<'_> {
    /// The blocks of a copy of the superblock in a group, with the descriptors and what is kept for
    /// more of them, as the first one and how many.
    fn fixed(&self, group: GroupNo) -> Option<(u64, u64)> {
        let superblock = &self.superblock;
        if group.0 != 0 && !superblock.has_super(group) {
            return None;
        }
        let start = superblock.group_start(group).0.max(superblock.primary_block().0);
        let kept = match superblock.has(Feature::RESIZE_INODE) {
            true => u64::from(superblock.reserved_gdt_blocks),
            false => 0,
        };
        let table = match superblock.has(Feature::META_BG) {
            true => 0,
            false => u64::from(superblock.descriptor_blocks()).saturating_add(kept),
        };
        Some((start, 1 + table))
    }

    /// What no bitmap may be moved to, and where one cannot stay.
    fn held(&self, tables: BTreeSet<u64>) -> Held {
        let groups = groups_of(&self.descriptors);
        let mut bitmaps: BTreeMap<BlockNo, u32> = BTreeMap::new();
        for of in &self.descriptors {
            *bitmaps.entry(of.block_bitmap).or_default() += 1;
            *bitmaps.entry(of.inode_bitmap).or_default() += 1;
        }
        Held {
            tables,
            table_blocks: u64::from(self.superblock.inode_table_blocks()),
            fixed: groups.filter_map(|group| self.fixed(group)).collect(),
            bitmaps,
        }
    }

    /// The groups of which one of these parts is outside, or on a block that another one has.
    fn wrong(&self, which: Parts) -> BTreeSet<GroupNo> {
        let superblock = &self.superblock;
        let mut wrong = BTreeSet::new();
        let mut runs: Vec<(u64, u64, Option<GroupNo>)> = Vec::new();
        for (group, of) in groups_of(&self.descriptors).zip(&self.descriptors) {
            let parts = [
                (of.inode_table, u64::from(superblock.inode_table_blocks())),
                (of.block_bitmap, 1),
                (of.inode_bitmap, 1),
            ];
            let count = if which == Parts::Tables { 1 } else { parts.len() };
            for (block, length) in parts.into_iter().take(count) {
                match self.is_within(group, block, length) {
                    true => runs.push((block.0, length, Some(group))),
                    false => {
                        wrong.insert(group);
                    }
                }
            }
            runs.extend(self.fixed(group).map(|(start, length)| (start, length, None)));
        }
        runs.sort_unstable();
        let mut before: Option<(u64, Option<GroupNo>)> = None;
        for (start, length, group) in runs {
            let end = start.saturating_add(length);
            match before {
                Some((last_end, other)) if last_end > start => {
                    wrong.extend(group);
                    wrong.extend(other);
                    if end > last_end {
                        before = Some((end, group));
                    }
                }
                _ => before = Some((end, group)),
            }
        }
        wrong
    }

    /// Whether a part of a group can be there.
    fn is_within(&self, group: GroupNo, block: BlockNo, length: u64) -> bool {
        let superblock = &self.superblock;
        let (first, end) = match superblock.has(Feature::FLEX_BG) {
            true => (u64::from(superblock.first_data_block) + 1, superblock.blocks_count),
            false => {
                let start = superblock.group_start(group).0;
                (start.max(1), start.saturating_add(superblock.group_length(group).into()))
            }
        };
        let present = self.overlay.info().bytes / u64::from(superblock.block_size());
        let after = block.0.saturating_add(length);
        block.0 >= first && after <= end.min(present)
    }

    /// Takes the places that a copy of the descriptors has, where they are all possible: those of
    /// groups that are wrong, and of others whose table fits better there. Gives the groups that
    /// are where that copy says.
    fn by_copies(&mut self, device: &Arc<dyn BlockDevice>) -> BTreeSet<GroupNo> {
        let superblock = self.superblock.clone();
        for group in copy_groups(&superblock).take(COPIES_MAX) {
            let block = superblock.group_start(group);
            let place = SuperblockPlace::Copy { block, block_size: superblock.block_size() };
            let copy = Volume::open(Arc::clone(device), place).ok();
            let is_same = |of: &Superblock| {
                of.blocks_count == superblock.blocks_count
                    && of.inodes_count == superblock.inodes_count
                    && of.inode_size == superblock.inode_size
            };
            let Some(copy) = copy.filter(|copy| is_same(copy.superblock())) else { continue };
            let Some(copied) = descriptors(&copy) else { continue };
            let whole = Places {
                overlay: self.overlay,
                superblock: superblock.clone(),
                descriptors: copied.clone(),
            };
            if copied.len() != self.descriptors.len() || !whole.wrong(Parts::All).is_empty() {
                continue;
            }
            let wrong = self.wrong(Parts::All);
            for (group, copied) in groups_of(&copied).zip(&copied) {
                let stored = self.at(group);
                if same_places(&stored, copied) {
                    continue;
                }
                let fits = |of: &GroupDescriptor| self.fits(group, of, of.inode_table);
                let is_better = wrong.contains(&group)
                    || stored.inode_table != copied.inode_table && fits(copied) && !fits(&stored);
                if is_better {
                    self.take(group, |of| {
                        of.block_bitmap = copied.block_bitmap;
                        of.inode_bitmap = copied.inode_bitmap;
                        of.inode_table = copied.inode_table;
                    });
                }
            }
            let pairs = groups_of(&copied).zip(&copied);
            let same = pairs.filter(|(group, copied)| same_places(&self.at(*group), copied));
            return same.map(|(group, _)| group).collect();
        }
        BTreeSet::new()
    }

    /// Where the tables begin in which the inodes of their groups stand.
    fn standing(&self) -> BTreeSet<u64> {
        groups_of(&self.descriptors)
            .map(|group| (group, self.at(group)))
            .filter(|(group, of)| self.fits(*group, of, of.inode_table))
            .map(|(_, of)| of.inode_table.0)
            .collect()
    }

    /// Looks for the table of a group, near where it should be, and on none that is `standing`:
    /// where it finds one is added to those. At most `left` blocks are looked at; it is less then.
    fn by_search(&mut self, group: GroupNo, standing: &mut BTreeSet<u64>, left: &mut usize) {
        let stored = self.at(group);
        let blocks = u64::from(self.superblock.inode_table_blocks());
        let is_there = self.is_within(group, stored.inode_table, blocks)
            && self.fits(group, &stored, stored.inode_table);
        if is_there {
            return;
        }
        let of_flex = match self.superblock.has(Feature::FLEX_BG) {
            true => {
                group.0 >> self.superblock.log_groups_per_flex
                    << self.superblock.log_groups_per_flex
            }
            false => group.0,
        };
        let start = self.superblock.group_start(GroupNo(of_flex)).0;
        let beside = |other: Option<u32>| {
            let other = other.and_then(|other| self.descriptors.get(other as usize))?;
            Some(other.inode_table.0)
        };
        let after = beside(group.0.checked_sub(1)).map(|table| table.saturating_add(blocks));
        let before = beside(group.0.checked_add(1)).map(|table| table.saturating_sub(blocks));
        let near = after.into_iter().chain(before);
        let all = near.chain(start..start.saturating_add(SEARCHED_MAX)).map(BlockNo);
        let is_apart = |block: BlockNo| {
            let near =
                block.0.saturating_sub(blocks.saturating_sub(1))..block.0.saturating_add(blocks);
            standing.range(near).next().is_none()
        };
        let possible =
            all.filter(|block| self.is_within(group, *block, blocks) && is_apart(*block));
        // Where its bitmap can be read that is the same for all blocks but those before it.
        let mut inodes = None;
        let mut sound = |block: BlockNo| {
            let is_near = stored.inode_bitmap.0.wrapping_sub(block.0) < blocks;
            if is_near {
                return self.sound(group, &stored, block);
            }
            let (at, known) = inodes.get_or_insert_with(|| self.looked_at(group, &stored, block));
            let of = GroupDescriptor { inode_table: block, ..stored };
            self.stand_in(group, at, *known, &of)
        };
        let (mut fitting, mut seen) = (BTreeMap::new(), 0);
        for block in possible.take(*left) {
            seen += 1;
            fitting.extend(sound(block).map(|count| (block, count)));
        }
        *left -= seen;
        if let Some(block) = only(&fitting, blocks) {
            standing.insert(block.0);
            self.take(group, |of| of.inode_table = block);
        }
    }

    /// Moves the bitmaps of a group from where something else is. They get a free block of the
    /// group at once: while a descriptor leads nowhere, copies are believed, which may say the same
    /// as it did.
    fn apart(&mut self, group: GroupNo, usage: Option<&Usage>, held: &Held) -> Result<(), Error> {
        let stored = self.at(group);
        let cluster = usage.map_or(1, |usage| u64::from(usage.cluster_blocks()).max(1));
        let start = self.superblock.group_start(group).0;
        let end = start.saturating_add(self.superblock.group_length(group).into());
        let free = (start.next_multiple_of(cluster)..end.saturating_sub(cluster - 1))
            .step_by(cluster as usize)
            .map(BlockNo)
            .filter(|block| usage.is_some_and(|usage| usage.is_free(*block, cluster)))
            .filter(|block| !held.has(*block) && !held.bitmaps.contains_key(block));
        let mut free = free.take(2);
        let mut moved = |block: BlockNo| {
            let is_shared = held.bitmaps.get(&block).is_some_and(|count| *count > 1);
            match held.has(block) || is_shared {
                true => free.next().unwrap_or_default(),
                false => block,
            }
        };
        let (block_bitmap, inode_bitmap) = (moved(stored.block_bitmap), moved(stored.inode_bitmap));
        let zeros = vec![0; self.superblock.block_size() as usize];
        for (to, from) in [(block_bitmap, stored.block_bitmap), (inode_bitmap, stored.inode_bitmap)]
        {
            if to != from && to.0 != 0 {
                // tidy: writers because it is an overlay in memory
                self.overlay.write(to.0 * u64::from(self.superblock.block_size()), &zeros)?;
            }
        }
        if (block_bitmap, inode_bitmap) != (stored.block_bitmap, stored.inode_bitmap) {
            self.take(group, |of| {
                (of.block_bitmap, of.inode_bitmap) = (block_bitmap, inode_bitmap);
            });
        }
        Ok(())
    }

    fn at(&self, group: GroupNo) -> GroupDescriptor {
        self.descriptors.get(group.0 as usize).copied().unwrap_or_default()
    }

    /// Changes where parts of a group are. What it said of inodes that were never used is not
    /// believed any more.
    fn take(&mut self, group: GroupNo, change: impl FnOnce(&mut GroupDescriptor)) {
        if let Some(of) = self.descriptors.get_mut(group.0 as usize) {
            change(of);
            of.flags &= !INODE_UNINIT;
            of.unused_inodes = 0;
        }
    }

    /// Whether the inodes of a group can stand in a table at this block: those that are in use by
    /// its bitmap, or, where that cannot be one, whatever is there. Of a group that has none
    /// nothing is known.
    fn fits(&self, group: GroupNo, of: &GroupDescriptor, table: BlockNo) -> bool {
        self.sound(group, of, table).is_some()
    }

    /// How many of the inodes that are looked at stand in a table at this block, if it fits.
    fn sound(&self, group: GroupNo, of: &GroupDescriptor, table: BlockNo) -> Option<usize> {
        let (inodes, known) = self.looked_at(group, of, table);
        self.stand_in(group, &inodes, known, &GroupDescriptor { inode_table: table, ..*of })
    }

    /// Which inodes of a group are looked at to judge a table, by their place in it, and what is
    /// known of them.
    fn looked_at(&self, group: GroupNo, of: &GroupDescriptor, table: BlockNo) -> (Vec<u32>, Known) {
        let blocks = u64::from(self.superblock.inode_table_blocks());
        let is_inside = of.inode_bitmap.0.checked_sub(table.0).is_some_and(|at| at < blocks);
        let has_bitmap = !is_inside
            && of.inode_bitmap != of.block_bitmap
            && self.is_within(group, of.inode_bitmap, 1);
        let (bits, count) = match has_bitmap {
            true => (self.block(of.inode_bitmap), self.superblock.inodes_per_group),
            false => (vec![u8::MAX; INODES_MAX / 8], INODES_MAX as u32),
        };
        (used(&bits, count), if has_bitmap { Known::Used } else { Known::Nothing })
    }

    /// How many of these inodes, by their place in the table of a group, stand in it, if that is
    /// nearly all.
    fn stand_in(
        &self,
        group: GroupNo,
        at: &[u32],
        known: Known,
        of: &GroupDescriptor,
    ) -> Option<usize> {
        let first = group.0.saturating_mul(self.superblock.inodes_per_group).saturating_add(1);
        let size = usize::from(self.superblock.inode_size);
        let mut blocks: BTreeMap<BlockNo, Vec<u8>> = BTreeMap::new();
        let (mut sound, mut damaged) = (0, 0);
        // Without checksums the inodes of a table stand in one that begins a little later, too: of
        // directories it shows, whose first name is the number of the inode.
        let (mut own, mut foreign) = (0, 0);
        for index in at {
            let ino = Ino(first.saturating_add(*index));
            let (block, offset) = self.superblock.inode_place(ino, of)?;
            let bytes = blocks.entry(block).or_insert_with(|| self.block(block));
            let bytes = bytes.get(offset..offset.saturating_add(size)).unwrap_or_default();
            let inode = Inode::decode(bytes, &self.superblock);
            match self.itself(&inode) {
                Some(itself) if itself == ino => own += 1,
                Some(_) => foreign += 1,
                None if ino == Ino::ROOT && inode.file_type() != Some(FileType::Directory) => {
                    foreign += 1;
                }
                None => {}
            }
            let is_free = inode.links == 0;
            match () {
                () if self.is_inode(ino, bytes) => sound += 1,
                // Reserved ones are in use by the bitmap, whatever they are.
                () if is_free
                    && (known == Known::Nothing || ino.0 < self.superblock.first_inode) => {}
                () => damaged += 1,
            }
            // Of many, more than so many are not damaged at once.
            if damaged * DAMAGED_SHARE > at.len() {
                return None;
            }
        }
        (sound > 0 && damaged * DAMAGED_SHARE <= sound && foreign <= own).then_some(sound)
    }

    /// The inode that a directory says it is, if it has such a name in a first block that the inode
    /// itself leads to.
    fn itself(&self, inode: &Inode) -> Option<Ino> {
        if inode.file_type() != Some(FileType::Directory) || inode.flags & flags::INLINE_DATA != 0 {
            return None;
        }
        let first = match inode.has_extents() {
            true => {
                let blocks = self.superblock.blocks_count;
                let node = extent::Node::parse(&inode.block, None, blocks).ok()?;
                if node.depth() != 0 || node.is_empty() {
                    return None;
                }
                node.extent(0).start
            }
            false => BlockNo(indirect::pointer(&inode.block, 0).into()),
        };
        let bytes = self.block(first);
        let number = bytes.first_chunk::<4>()?;
        let is_dot = bytes.get(6) == Some(&1) && bytes.get(8) == Some(&b'.');
        is_dot.then(|| Ino(u32::from_le_bytes(*number)))
    }

    /// Whether bytes can be an inode in use.
    fn is_inode(&self, ino: Ino, bytes: &[u8]) -> bool {
        if bytes.len() < usize::from(self.superblock.inode_size) {
            return false;
        }
        let inode = Inode::decode(bytes, &self.superblock);
        let has_checksums = self.superblock.has(Feature::METADATA_CSUM);
        let kind = inode.file_type();
        let is_root = ino != Ino::ROOT || kind == Some(FileType::Directory) && inode.links > 1;
        let is_sealed =
            || !has_checksums || Inode::verify_checksum(bytes, ino, &self.superblock).is_ok();
        kind.is_some() && inode.links > 0 && inode.deletion_time == 0 && is_root && is_sealed()
    }

    /// A block, of zeros where it cannot be read.
    fn block(&self, block: BlockNo) -> Vec<u8> {
        let mut bytes = vec![0; self.superblock.block_size() as usize];
        let at = block.0.saturating_mul(bytes.len() as u64);
        if self.overlay.read(at, &mut bytes).is_err() {
            bytes.fill(0);
        }
        bytes
    }
}

/// Writes the descriptor of a group.
fn write_descriptor(
    overlay: &Overlay,
    superblock: &Superblock,
    group: GroupNo,
    of: &GroupDescriptor,
) -> Result<(), Error> {
    let (block, offset) = superblock.descriptor_place(group);
    let size = usize::from(superblock.descriptor_size);
    let mut bytes = vec![0; superblock.block_size() as usize];
    let at = block.0.saturating_mul(bytes.len() as u64);
    overlay.read(at, &mut bytes)?;
    if let Some(place) = bytes.get_mut(offset..offset.saturating_add(size)) {
        of.encode(place, group, superblock);
    }
    // tidy: writers because it is an overlay in memory
    Ok(overlay.write(at, &bytes)?)
}
