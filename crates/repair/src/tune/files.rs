//! The volume's own files, made and removed: the journal, quota files, the file of orphans, and the
//! block that records mounts.
//!
//! *Invariants*: a file that goes keeps its blocks on the disk until all is written, so that a cut
//! leaves it whole: what comes is put elsewhere, or through the log.
use super::fields::INTERVAL_SECONDS;
use super::plan::Plan;
use super::{Freed, JournalWish, Wanted};
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::growth_map;
use crate::map::{self, FileMap, MapRun};
use crate::quota::RESERVED;
use extant_block::{BlockDevice, Overlay};
use extant_format::extent::ExtentState;
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::journal::{NewJournal, default_blocks, initialize};
use extant_format::mount_block::{self, NewMountBlock};
use extant_format::superblock::{Feature, JOURNAL_BACKUP_BLOCKS, Superblock};
use extant_format::{BlockNo, Ino, orphan_file, quota_file};
use std::ops::Range;

/// The smallest journal, and the largest, in blocks.
const JOURNAL_BLOCKS_MIN: u64 = 1024;
const JOURNAL_BLOCKS_MAX: u64 = 10_240_000;
/// One block in so many is for fast commits, where nobody says it.
const FAST_COMMIT_SHARE: u64 = 64;
/// Blocks of one run of a new file at most.
const RUN_BLOCKS_MAX: u64 = 32_768;

/// Takes away what goes. Gives the blocks that it had.
///
/// # Errors
/// The device's.
pub(super) fn remove(draft: &mut Draft, plan: &Plan) -> Result<Freed> {
    let mut freed = Freed::new();
    if plan.removes_orphan_file {
        let ino = Ino(draft.superblock.orphan_file_inode);
        forget(draft, ino, &mut freed)?;
        draft.superblock.orphan_file_inode = 0;
        draft.superblock.features.clear(Feature::ORPHAN_FILE);
    }
    if plan.removes_journal {
        remove_journal(draft, &mut freed)?;
    }
    let mut numbers = draft.superblock.quota_inodes();
    for (number, wanted) in numbers.iter_mut().zip(plan.quota_files) {
        if wanted == Some(Wanted::Cleared) && number.0 != 0 {
            forget(draft, *number, &mut freed)?;
            *number = Ino(0);
        }
    }
    draft.superblock.set_quota_inodes(numbers);
    if plan.is_cleared(Feature::QUOTA) {
        draft.superblock.features.clear(Feature::QUOTA);
    }
    if plan.is_cleared(Feature::PROJECT) {
        draft.superblock.features.clear(Feature::PROJECT);
    }
    if plan.is_cleared(Feature::MMP) {
        freed.push((draft.superblock.mount_block(), 1));
        draft.superblock.set_mount_block(BlockNo(0), 0);
        draft.superblock.features.clear(Feature::MMP);
    }
    if plan.is_cleared(Feature::RESIZE_INODE) {
        if let Some(inode) = draft.inode(Ino::RESIZE)? {
            freed.push((growth_map::root(&inode), 1));
        }
        draft.clear_inode(Ino::RESIZE)?;
        draft.superblock.reserved_gdt_blocks = 0;
        draft.superblock.features.clear(Feature::RESIZE_INODE);
    }
    Ok(freed)
}

/// Frees a file without a name, and notes its blocks.
fn forget(draft: &mut Draft, ino: Ino, freed: &mut Freed) -> Result<()> {
    let Some(inode) = draft.inode(ino)? else { return Ok(()) };
    let map = map::read(draft, &inode)?;
    freed.extend(map.runs.iter().map(|run| (BlockNo(run.start), run.length)));
    freed.extend(map.nodes.iter().map(|node| (*node, 1)));
    draft.clear_inode(ino)
}

fn remove_journal(draft: &mut Draft, freed: &mut Freed) -> Result<()> {
    let ino = Ino(draft.superblock.journal_inode);
    if ino.0 != 0 {
        let blocks = match draft.inode(ino)? {
            Some(inode) => map::read(draft, &inode)?.runs.iter().map(|run| run.length).sum(),
            None => 0,
        };
        forget(draft, ino, freed)?;
        count_overhead(draft, blocks, Wanted::Cleared);
    }
    let superblock = &mut draft.superblock;
    superblock.set_external_journal([0; 16], 0);
    superblock.journal_inode = 0;
    superblock.journal_backup = [0; 17];
    superblock.features.clear(Feature::HAS_JOURNAL);
    Ok(())
}

/// Counts the blocks of a journal among those that no file can have, where these are counted.
fn count_overhead(draft: &mut Draft, blocks: u64, wanted: Wanted) {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let clusters = u32::try_from(blocks.div_ceil(cluster)).unwrap_or(u32::MAX);
    let counted = draft.superblock.overhead_clusters();
    if counted == 0 {
        return;
    }
    draft.superblock.set_overhead_clusters(match wanted {
        Wanted::Set => counted.saturating_add(clusters),
        Wanted::Cleared => counted.saturating_sub(clusters),
    });
}

/// Makes what comes.
///
/// # Errors
/// The device's; there is no room.
pub(super) fn add(
    draft: &mut Draft,
    plan: &Plan,
    (node, device): &(Vec<u8>, Vec<u8>),
    (kept, zeros): (&Freed, &mut Vec<Range<u64>>),
) -> Result<()> {
    // Blocks of what went are not given out: they are still its on the disk.
    for (start, blocks) in kept {
        draft.usage.take(*start, *blocks);
    }
    if let Some(wish) = plan.journal {
        make_journal(draft, wish, plan, zeros)?;
    }
    let mut numbers = draft.superblock.quota_inodes();
    for (kind, wanted) in plan.quota_files.iter().enumerate() {
        if *wanted == Some(Wanted::Set) {
            let number = make_quota_file(draft, kind)?;
            if let Some(place) = numbers.get_mut(kind) {
                *place = number;
            }
            draft.superblock.features.set(Feature::QUOTA);
        }
    }
    draft.superblock.set_quota_inodes(numbers);
    if plan.features.has(Feature::PROJECT) {
        draft.superblock.features.set(Feature::PROJECT);
    }
    if let Some(bytes) = plan.orphan_file {
        make_orphan_file(draft, bytes)?;
    }
    if plan.is_set(Feature::MMP) {
        make_mount_block(draft, (node, device))?;
    }
    Ok(())
}

fn no_room(what: &str) -> Error {
    Error::Refused(format!("there is no room for {what}"))
}

/// Free runs of so many blocks in all, as few as there can be, near a block.
fn room(draft: &mut Draft, blocks: u64, mut goal: BlockNo) -> Option<Vec<MapRun>> {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let mut runs = Vec::new();
    let (mut at, mut most) = (0, RUN_BLOCKS_MAX.max(cluster));
    while at < blocks {
        let length = most.min(blocks - at);
        match draft.allocate_run(goal, length) {
            Some(start) => {
                let state = ExtentState::Written;
                runs.push(MapRun { file_block: at, start: start.0, length, state });
                at += length;
                goal = BlockNo(start.0.saturating_add(length));
            }
            None if most > cluster => most = (most.min(length) / 2).max(cluster),
            None => return None,
        }
    }
    Some(runs)
}

/// A file without a name, with blocks of which nothing is written yet.
fn new_file(
    draft: &mut Draft,
    ino: Ino,
    (blocks, goal): (u64, BlockNo),
    what: &str,
) -> Result<(Inode, Vec<MapRun>)> {
    let runs = room(draft, blocks, goal).ok_or_else(|| no_room(what))?;
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, &draft.superblock);
    inode.links = 1;
    if draft.superblock.has(Feature::EXTENTS) {
        inode.flags = flags::EXTENTS;
    }
    inode.size = blocks.saturating_mul(draft.block_size() as u64);
    let now = Time { seconds: draft.now.into(), ..Time::default() };
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    inode.create_time = inode.create_time.map(|_| now);
    let map = FileMap { runs, nodes: Vec::new() };
    let nodes = map::write(draft, ino, &mut inode, &map)?;
    inode.sectors = map::footprint(draft, &map).saturating_add(draft.sectors(nodes));
    Ok((inode, map.runs))
}

/// The blocks of runs, in order.
fn blocks_of(runs: &[MapRun]) -> impl Iterator<Item = BlockNo> + '_ {
    runs.iter().flat_map(|run| (run.start..run.start + run.length).map(BlockNo))
}

/// The blocks of a journal, and how many of them are for fast commits.
fn journal_blocks(draft: &Draft, wish: JournalWish, plan: &Plan) -> Result<(u64, u64)> {
    let block_bytes = draft.block_size() as u64;
    let volume = draft.superblock.blocks_count;
    let usual = u64::from(default_blocks(volume));
    let plain = wish.bytes.map_or(usual, |bytes| bytes / block_bytes);
    if plain == 0 && wish.bytes.is_none() {
        return Err(Error::Refused("Filesystem too small for a journal".into()));
    }
    let fast = match (plan.features.has(Feature::FAST_COMMIT), wish.fast_commit_bytes) {
        (false, _) => 0,
        (true, Some(bytes)) => bytes / block_bytes,
        (true, None) => plain / FAST_COMMIT_SHARE,
    };
    let blocks = plain.saturating_add(fast);
    if !(JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&plain) {
        return Err(Error::Refused(format!(
            "The requested journal size is {plain} blocks; it must be between \
             {JOURNAL_BLOCKS_MIN} and {JOURNAL_BLOCKS_MAX} filesystem blocks."
        )));
    }
    match blocks > volume / 2 {
        true => Err(Error::Refused("Total journal size too big for filesystem.".into())),
        false => Ok((blocks, fast)),
    }
}

fn make_journal(
    draft: &mut Draft,
    wish: JournalWish,
    plan: &Plan,
    zeros: &mut Vec<Range<u64>>,
) -> Result<()> {
    let block_bytes = draft.block_size() as u64;
    let volume = draft.superblock.blocks_count;
    let (blocks, fast) = journal_blocks(draft, wish, plan)?;
    let usual = draft.superblock.group_of_block(BlockNo(volume / 2)).unwrap_or_default();
    let usual = draft.superblock.group_start(usual).0;
    let goal = wish.block.or(wish.byte.map(|byte| byte / block_bytes)).unwrap_or(usual);
    if goal >= volume {
        return Err(Error::Refused(format!("-J location: the volume ends before block {goal}")));
    }
    let ino = Ino::JOURNAL;
    let (inode, runs) = new_file(draft, ino, (blocks, BlockNo(goal)), "a journal")?;
    draft.write_inode(ino, &inode)?;
    // What was there before could be taken for a log.
    for range in runs.iter().map(|run| run.start..run.start + run.length) {
        if !draft.is_hole(range.clone())? {
            draft.let_zeros(range.clone());
            zeros.push(range);
        }
    }
    let mut first = vec![0; draft.block_size()];
    let journal = NewJournal {
        block_size: draft.superblock.block_size(),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        uuid: [0; 16],
        fast_commit_blocks: u32::try_from(fast).unwrap_or(0),
    };
    initialize(&mut first, &journal);
    draft.write(BlockNo(runs.first().map_or(0, |run| run.start)), &first)?;
    count_overhead(draft, blocks, Wanted::Set);
    let superblock = &mut draft.superblock;
    superblock.features.set(Feature::HAS_JOURNAL);
    superblock.journal_inode = ino.0;
    superblock.journal_backup_type = JOURNAL_BACKUP_BLOCKS;
    let (words, _) = inode.block.as_chunks::<4>();
    for (to, word) in superblock.journal_backup.iter_mut().zip(words) {
        *to = u32::from_le_bytes(*word);
    }
    superblock.journal_backup[15] = (inode.size >> 32) as u32;
    superblock.journal_backup[16] = (inode.size & u64::from(u32::MAX)) as u32;
    Ok(())
}

/// Makes a quota file with what each id has, as the last check counted.
fn make_quota_file(draft: &mut Draft, kind: usize) -> Result<Ino> {
    let what = "a quota file";
    let ino = match RESERVED.get(kind) {
        Some(ino) => *ino,
        None => draft.allocate_inode().ok_or_else(|| no_room(what))?,
    };
    let content = quota_file::new_file(kind, &draft.usage.quotas(kind)).bytes;
    let block_size = draft.block_size();
    let blocks = content.len().div_ceil(block_size) as u64;
    let (mut inode, runs) = new_file(draft, ino, (blocks, BlockNo(0)), what)?;
    inode.size = content.len() as u64;
    inode.flags |= flags::IMMUTABLE;
    draft.write_inode(ino, &inode)?;
    let mut chunks = content.chunks(block_size);
    for block in blocks_of(&runs) {
        let mut bytes = chunks.next().unwrap_or_default().to_vec();
        bytes.resize(block_size, 0);
        draft.write(block, &bytes)?;
    }
    Ok(ino)
}

/// How many blocks the file of orphans has where nobody says it.
fn orphan_file_blocks(volume_blocks: u64) -> u64 {
    match volume_blocks {
        0..0x2_0000 => 32,
        0x2_0000..0x20_0000 => volume_blocks / 4096,
        _ => 512,
    }
}

fn make_orphan_file(draft: &mut Draft, bytes: u64) -> Result<()> {
    const BLOCKS_MAX: u64 = 1 << 16;
    let what = "the file of orphans";
    let block_size = draft.block_size();
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let blocks = match bytes {
        0 => orphan_file_blocks(draft.superblock.blocks_count),
        bytes => bytes.div_ceil(block_size as u64),
    };
    if blocks > BLOCKS_MAX {
        return Err(Error::Refused(format!("{what} has at most {BLOCKS_MAX} blocks")));
    }
    let ino = draft.allocate_inode().ok_or_else(|| no_room(what))?;
    let blocks = blocks.next_multiple_of(cluster);
    let (inode, runs) = new_file(draft, ino, (blocks, BlockNo(0)), what)?;
    draft.write_inode(ino, &inode)?;
    let seed = draft.seed(ino, &inode);
    for block in blocks_of(&runs) {
        let mut bytes = vec![0; block_size];
        orphan_file::initialize(&mut bytes, block, seed, &draft.superblock);
        draft.write(block, &bytes)?;
    }
    draft.superblock.features.set(Feature::ORPHAN_FILE);
    draft.superblock.orphan_file_inode = ino.0;
    Ok(())
}

fn make_mount_block(draft: &mut Draft, (node, device): (&[u8], &[u8])) -> Result<()> {
    let block = draft.allocate(BlockNo(0)).ok_or_else(|| no_room("the block of mounts"))?;
    let seconds = match draft.superblock.mount_interval_seconds() {
        0 => INTERVAL_SECONDS,
        seconds => seconds,
    };
    draft.superblock.features.set(Feature::MMP);
    draft.superblock.set_mount_block(block, seconds);
    let new = NewMountBlock {
        seconds: draft.now.into(),
        node_name: node,
        device_name: device,
        interval_seconds: seconds,
    };
    let mut bytes = vec![0; draft.block_size()];
    mount_block::initialize(&mut bytes, &new, &draft.superblock);
    draft.write(block, &bytes)
}

/// Lets the block that records mounts say that no machine has the volume.
///
/// # Errors
/// The device's.
pub(super) fn clear_mount_block(overlay: &Overlay, superblock: &Superblock) -> Result<()> {
    let at = superblock.mount_block().0.saturating_mul(superblock.block_size().into());
    let mut bytes = vec![0; superblock.block_size() as usize];
    overlay.read(at, &mut bytes)?;
    mount_block::release(&mut bytes, superblock);
    // tidy: writers because it is an overlay in memory
    Ok(overlay.write(at, &bytes)?)
}
