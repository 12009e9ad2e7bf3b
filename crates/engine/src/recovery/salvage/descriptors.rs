//! Descriptors of groups: where they are lost, copies; where those are lost too, the places that
//! mke2fs would have chosen, if an inode table is there.
use super::block;
use super::losses::Lines;
use crate::error::{Error, ErrorKind, Place, Result};
use extant_block::{BlockDevice, Overlay};
use extant_format::extent::Node;
use extant_format::group::GroupDescriptor;
use extant_format::inode::{FileType, Inode};
use extant_format::layout::{Packing, usual_places};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock};
use extant_format::{BlockNo, Fault, GroupNo, Ino, indirect};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Inodes of a table that are looked at, at most.
const LOOKED_AT_MAX: u32 = 4096;
/// A volume that is longer than its image has at most this many groups, or as many as the image.
const GROUPS_OF_SHORT_MAX: u64 = 1 << 16;
/// As many of them are no inodes before the rest is not looked at.
const WRONG_MAX: u32 = 64;
/// A table has at least this many times as many good inodes as others.
const GOOD_SHARE: u32 = 4;

/// All descriptors of a volume.
pub(super) struct Groups {
    pub(super) descriptors: Vec<GroupDescriptor>,
    /// Groups whose inodes are lost: nobody knows where their table is.
    pub(super) lost: FxHashSet<GroupNo>,
}

/// What is where an inode table should be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Table {
    /// Inodes.
    Found,
    /// Zeros.
    Empty,
    /// Something else, or no block of the volume.
    None,
}

/// All descriptors, in their places on the overlay afterwards.
///
/// # Errors
/// More groups than the device has room for; the first group is lost.
pub(super) fn read(
    over: &Overlay,
    superblock: &Superblock,
    held_bytes: u64,
    lines: &mut Lines,
) -> Result<Groups> {
    let held_blocks = held_bytes / u64::from(superblock.block_size());
    let held = held_blocks / u64::from(superblock.blocks_per_group).max(1) + 1;
    if u64::from(superblock.group_count()) > held.max(GROUPS_OF_SHORT_MAX) {
        return Err(ErrorKind::NotExt.into());
    }
    let mut found = Vec::new();
    for group in (0..superblock.group_count()).map(GroupNo) {
        found.push(of_group(over, superblock, group, lines)?);
    }
    let mut lost = FxHashSet::default();
    if found.iter().any(std::result::Result::is_err) {
        lost = search((over, held_blocks), superblock, &mut found, lines)?;
    }
    leave_past_end((over, held_blocks), superblock, &mut found, (&mut lost, lines))?;
    let descriptors = found.into_iter().filter_map(std::result::Result::ok).collect();
    Ok(Groups { descriptors, lost })
}

impl Groups {
    /// Those that are known after all, once the journal was replayed: what it brought is a table.
    pub(super) fn find_again(&mut self, over: &Overlay, superblock: &Superblock, held_bytes: u64) {
        let held_blocks = held_bytes / over.block_bytes() as u64;
        let Groups { descriptors, lost } = self;
        let first = descriptors.first().map(|first| first.inode_table);
        lost.retain(|group| {
            let found =
                descriptors.get(group.0 as usize).filter(|it| Some(it.inode_table) != first);
            let state = found.map(|it| table((over, held_blocks), superblock, *group, it));
            state != Some(Table::Found)
        });
    }
}

/// The descriptor of a group: the primary one, a copy, or the primary one in spite of its checksum.
/// What is wrong with it where none of these can be used.
fn of_group(
    over: &Overlay,
    superblock: &Superblock,
    group: GroupNo,
    lines: &mut Lines,
) -> Result<std::result::Result<GroupDescriptor, String>> {
    let (place, offset) = superblock.descriptor_place(group);
    let read = |place: BlockNo| {
        let bytes = block(over, place)?;
        let end = offset + usize::from(superblock.descriptor_size);
        let bytes = bytes.get(offset..end).map(<[u8]>::to_vec);
        bytes.ok_or_else(|| "is past the end of its block".to_owned())
    };
    let judged = |bytes: &[u8], superblock: &Superblock| {
        let parsed = GroupDescriptor::parse(bytes, group, superblock);
        parsed.map_err(|fault| fault.to_string())
    };
    let primary = read(place);
    let fault = match primary.as_deref().map_err(Clone::clone) {
        Ok(bytes) => match judged(bytes, superblock) {
            Ok(descriptor) => return Ok(Ok(descriptor)),
            Err(fault) => fault,
        },
        Err(fault) => fault,
    };
    let copy = copies(superblock, group).into_iter().find_map(|(copy, place)| {
        let descriptor = judged(&read(place).ok()?, superblock).ok()?;
        Some((descriptor, format!("group {}'s copy is used", copy.0)))
    });
    let as_it_is = || {
        let mut lax = superblock.clone();
        lax.features.clear(Feature::METADATA_CSUM);
        lax.features.clear(Feature::UNINIT_BG);
        let descriptor = judged(primary.as_ref().ok()?, &lax).ok()?;
        Some((descriptor, "used as it is".to_owned()))
    };
    let Some((descriptor, how)) = copy.or_else(as_it_is) else { return Ok(Err(fault)) };
    let said = format!("group {}: {fault}: {how}", group.0);
    match how.starts_with("used") {
        true => lines.lost(said),
        false => lines.mended(said),
    }
    Ok(Ok(store(over, superblock, group, descriptor)?))
}

/// Where the copies of a group's descriptor are, and in which groups.
fn copies(superblock: &Superblock, group: GroupNo) -> Vec<(GroupNo, BlockNo)> {
    if superblock.meta_group(group).is_some() {
        let of_block = |place: BlockNo| superblock.group_of_block(place).unwrap_or(group);
        let near = superblock.descriptor_copies(group);
        return near.map(|place| (of_block(place), place)).collect();
    }
    let (place, _) = superblock.descriptor_place(group);
    // With blocks of 1 KiB the first superblock is in block 1, and with bigalloc so, although its
    // group begins at block 0.
    let primary = SUPERBLOCK_OFFSET / u64::from(superblock.block_size());
    let has_copy =
        |other: &GroupNo| superblock.has_super(*other) && superblock.meta_group(*other).is_none();
    let others = (1..superblock.group_count()).map(GroupNo).filter(has_copy);
    let copies = others.map(|other| {
        (other, BlockNo(superblock.group_start(other).0 + place.0.saturating_sub(primary)))
    });
    copies.collect()
}

/// Puts a descriptor in its place on the overlay. The counts of a copy are old.
fn store(
    over: &Overlay,
    superblock: &Superblock,
    group: GroupNo,
    descriptor: GroupDescriptor,
) -> Result<GroupDescriptor> {
    let descriptor = GroupDescriptor { flags: 0, unused_inodes: 0, ..descriptor };
    let mut bytes = vec![0; usize::from(superblock.descriptor_size)];
    descriptor.encode(&mut bytes, group, superblock);
    let (place, offset) = superblock.descriptor_place(group);
    put(over, place.0 * over.block_bytes() as u64 + offset as u64, &bytes)?;
    Ok(descriptor)
}

/// Writes a part of a block. The rest of one that cannot be read becomes zeros.
///
/// # Errors
/// More than the overlay holds.
pub(super) fn put(over: &Overlay, offset: u64, bytes: &[u8]) -> Result<()> {
    let size = over.block_bytes();
    let number = offset / size as u64;
    if block(over, BlockNo(number)).is_err() {
        over.put(number, Arc::new(vec![0; size]))?;
    }
    Ok(over.write(offset, bytes)?)
}

/// Looks for the tables of the groups that have no descriptor. Those that stay lost.
///
/// # Errors
/// The first group is lost; more than the overlay holds.
fn search(
    (over, held_blocks): (&Overlay, u64),
    superblock: &Superblock,
    found: &mut [std::result::Result<GroupDescriptor, String>],
    lines: &mut Lines,
) -> Result<FxHashSet<GroupNo>> {
    let usual = Usual::of(superblock);
    let known = found.iter().filter_map(|it| it.as_ref().ok());
    let mut tables: BTreeSet<u64> = known.map(|it| it.inode_table.0).collect();
    let mut lost = FxHashSet::default();
    for at in 0..found.len() {
        let Err(fault) = &found[at] else { continue };
        let (group, fault) = (GroupNo(at as u32), fault.clone());
        let length = u64::from(superblock.inode_table_blocks());
        let is_free = |candidate: &GroupDescriptor| {
            let start = candidate.inode_table.0;
            let near = start.saturating_sub(length.saturating_sub(1))..start.saturating_add(length);
            tables.range(near).next().is_none()
        };
        let candidates = usual.candidates(superblock, group, found).into_iter().filter(is_free);
        let states = candidates.map(|it| (it, table((over, held_blocks), superblock, group, &it)));
        // The first of the best.
        let best = states.min_by_key(|(_, state)| *state).filter(|(_, it)| *it != Table::None);
        let said = match &best {
            Some((it, Table::Found)) => {
                let block = it.inode_table.0;
                format!("its inode table is where mke2fs puts it, in block {block}")
            }
            Some((it, _)) => {
                let block = it.inode_table.0;
                format!("block {block}, where mke2fs puts its inode table, is empty")
            }
            None => "its inode table is not found: its inodes are lost".to_owned(),
        };
        let is_lost = best.is_none();
        if group.0 == 0 && is_lost {
            let reason = Fault::Field {
                structure: "group descriptor",
                field: "copies",
                value: copies(superblock, group).len() as u64,
                reason: "none of which can be used, and its inode table is not found",
            };
            return Err(Error::corrupt(Place::Group(group), reason));
        }
        let said = format!("group {at}: {fault}, nor any copy: {said}");
        // What names lead to where nothing is, is found by them.
        match &best {
            Some(_) => lines.mended(said),
            None => lines.lost(said),
        }
        let first = found.first().and_then(|first| first.as_ref().ok()).copied();
        let descriptor = best.map(|(it, _)| it).or(first);
        let descriptor = store(over, superblock, group, descriptor.unwrap_or_default())?;
        if is_lost {
            lost.insert(group);
        } else {
            tables.insert(descriptor.inode_table.0);
        }
        found[at] = Ok(descriptor);
    }
    Ok(lost)
}

/// Gives up the groups whose inode tables are past the end of an image that is cut short: like
/// those that are lost, they have the table of the first group, to which no name leads.
///
/// # Errors
/// Those of [`store`].
fn leave_past_end(
    (over, held_blocks): (&Overlay, u64),
    superblock: &Superblock,
    found: &mut [std::result::Result<GroupDescriptor, String>],
    (lost, lines): (&mut FxHashSet<GroupNo>, &mut Lines),
) -> Result<()> {
    let Some(Ok(first)) = found.first().cloned() else { return Ok(()) };
    let (mut from, mut used, end) = (None, 0, found.len());
    for at in 0..=end {
        let group = GroupNo(at as u32);
        let past = found.get(at).and_then(|it| it.as_ref().ok());
        let past = past.filter(|it| it.inode_table.0 >= held_blocks && at > 0);
        if let Some(it) = past {
            from = from.or(Some(at));
            used += u64::from(superblock.inodes_per_group.saturating_sub(it.free_inodes));
            lost.insert(group);
            found[at] = Ok(store(over, superblock, group, first)?);
        } else if let Some(from) = from.take() {
            let groups = match at - from {
                1 => format!("group {from}"),
                _ => format!("groups {from} to {}", at - 1),
            };
            let said = format!("{groups}: past the end of the image: {used} inodes are lost");
            match std::mem::take(&mut used) {
                0 => lines.mended(said),
                _ => lines.lost(said),
            }
        }
    }
    Ok(())
}

/// The places that mke2fs gives the bitmaps and tables of all groups, in its several ways.
struct Usual(Vec<Vec<GroupDescriptor>>);

impl Usual {
    fn of(superblock: &Superblock) -> Usual {
        let mut alone = superblock.clone();
        alone.features.clear(Feature::FLEX_BG);
        alone.log_groups_per_flex = 0;
        let ways = [
            (superblock, Packing::FlexGroups),
            (&alone, Packing::FlexGroups),
            (superblock, Packing::Start),
        ];
        Usual(ways.into_iter().filter_map(|(of, packing)| usual_places(of, packing)).collect())
    }

    /// What the descriptor of a group may have been, likely ones first: places that go on from the
    /// nearest group of its flex group that is known, then those of the ways of mke2fs.
    fn candidates(
        &self,
        superblock: &Superblock,
        group: GroupNo,
        found: &[std::result::Result<GroupDescriptor, String>],
    ) -> Vec<GroupDescriptor> {
        let flex = 1_u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(u32::MAX);
        let first = group.0 - group.0 % flex.max(1);
        let end = first.saturating_add(flex).min(found.len() as u32);
        let distance = |other: &u32| other.abs_diff(group.0);
        let known = (first..end).filter(|other| found[*other as usize].is_ok());
        let nearest = known.min_by_key(distance).filter(|other| *other != group.0);
        let from = nearest.and_then(|other| Some((other, *found[other as usize].as_ref().ok()?)));
        let table_blocks = i64::from(superblock.inode_table_blocks());
        let beside = from.and_then(|(other, descriptor)| {
            let steps = i64::from(group.0) - i64::from(other);
            let moved = |place: BlockNo, by: i64| place.0.checked_add_signed(by).map(BlockNo);
            Some(GroupDescriptor {
                block_bitmap: moved(descriptor.block_bitmap, steps)?,
                inode_bitmap: moved(descriptor.inode_bitmap, steps)?,
                inode_table: moved(descriptor.inode_table, steps.checked_mul(table_blocks)?)?,
                ..GroupDescriptor::default()
            })
        });
        let usual = self.0.iter().filter_map(|all| all.get(group.0 as usize).copied());
        beside.into_iter().chain(usual).collect()
    }
}

/// What is where a descriptor has the inode table of its group.
fn table(
    (over, held_blocks): (&Overlay, u64),
    superblock: &Superblock,
    group: GroupNo,
    descriptor: &GroupDescriptor,
) -> Table {
    let blocks = superblock.inode_table_blocks();
    let start = descriptor.inode_table.0;
    let end = start.saturating_add(blocks.into());
    if start <= superblock.first_data_block.into() || end > superblock.blocks_count.min(held_blocks)
    {
        return Table::None;
    }
    let size = usize::from(superblock.inode_size);
    let (mut good, mut wrong) = (0, 0);
    let mut ino = group.0.saturating_mul(superblock.inodes_per_group);
    for number in (start..end).map(BlockNo) {
        let Ok(bytes) = block(over, number) else {
            ino = ino.saturating_add((over.block_bytes() / size) as u32);
            continue;
        };
        for raw in bytes.chunks_exact(size) {
            ino = ino.saturating_add(1);
            match looks_like_inode(superblock, Ino(ino), raw) {
                Some(true) => good += 1,
                Some(false) => wrong += 1,
                None => {}
            }
        }
        if good + wrong >= LOOKED_AT_MAX || good == 0 && wrong >= WRONG_MAX {
            break;
        }
    }
    match (good, wrong) {
        (0, 0) => Table::Empty,
        _ if good > 0 && wrong <= good / GOOD_SHARE => Table::Found,
        _ => Table::None,
    }
}

/// Whether bytes look like an inode, by its checksum where there are any; `None` for zeros and for
/// reserved ones, of which most are empty.
fn looks_like_inode(superblock: &Superblock, ino: Ino, raw: &[u8]) -> Option<bool> {
    if raw.iter().all(|byte| *byte == 0) {
        return None;
    }
    if superblock.has(Feature::METADATA_CSUM) {
        return Some(Inode::verify_checksum(raw, ino, superblock).is_ok());
    }
    let inode = Inode::decode(raw, superblock);
    let Some(kind) = inode.file_type() else {
        return if superblock.is_usable(ino) { Some(false) } else { None };
    };
    let is_mapped = matches!(kind, FileType::Regular | FileType::Directory);
    let map_fits = match (is_mapped, inode.has_extents()) {
        (false, _) => true,
        (true, true) => Node::parse_header(&inode.block).is_ok(),
        (true, false) => {
            indirect::pointers(&inode.block).all(|block| u64::from(block) < superblock.blocks_count)
        }
    };
    let is_named = inode.links > 0 || inode.deletion_time != 0;
    Some(map_fits && is_named)
}
