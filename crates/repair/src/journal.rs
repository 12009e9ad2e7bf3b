//! Mends the journal: its superblock, its inode, what the volume's superblock says of it.
//!
//! A journal that has to be made anew has nothing in it that counts: what could be replayed was.
use crate::draft::{Draft, Result};
use crate::map::{self, FileMap, MapRun};
use extant_block::BlockDevice;
use extant_engine::ErrorKind;
use extant_format::extent::ExtentState;
use extant_format::group::GroupDescriptor;
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::journal::{NewJournal, default_blocks, initialize};
use extant_format::superblock::{
    Feature, JOURNAL_BACKUP_BLOCKS, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};
use extant_format::{BlockNo, Ino, SECTOR_BYTES};
use extant_inspect::{Code, Problem};
use extant_journal::Report;
use std::sync::Arc;

/// How each block of a journal that says something of itself begins.
const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
/// The smallest journal, in blocks.
const BLOCKS_MIN: u64 = 1024;
/// Blocks of one run of a new journal.
const RUN_BLOCKS: u64 = 1024;

/// What came of the journal.
#[derive(Default)]
pub(crate) struct Replayed {
    pub(crate) report: Option<Report>,
    /// What had to be mended before: its inode, or the number of that.
    pub(crate) mended: Option<Problem>,
}

/// Replays the journal; where its inode is lost, by the copy in the superblock, and where the
/// number of the inode is wrong, by the usual one.
///
/// # Errors
/// As [`extant_engine::recover`]: those of the first try.
pub(crate) fn replay(over: &Arc<dyn BlockDevice>) -> extant_engine::Result<Replayed> {
    use extant_journal::Error::{Inode as NoJournal, Map};
    let first = extant_engine::recover(over);
    let is_lost = first.as_ref().is_err_and(|error| {
        matches!(&error.kind, ErrorKind::Journal(NoJournal { .. } | Map { .. }))
    });
    if !is_lost {
        return first.map(|report| Replayed { report, mended: None });
    }
    for change in [renumbered, restored] {
        let Some((at, before)) = change(over).ok().flatten() else { continue };
        let mut written = vec![0; before.len()];
        over.read(at, &mut written)?;
        if let Ok(report) = extant_engine::recover(over) {
            let mut after = vec![0; before.len()];
            over.read(at, &mut after)?;
            // An inode that the log has brought was not lost.
            let is_mended = at == SUPERBLOCK_OFFSET || after == written;
            let mended = Problem::new(Code::JournalInode).ino(Ino::JOURNAL);
            return Ok(Replayed { report, mended: is_mended.then_some(mended) });
        }
        // tidy: writers because it is an overlay in memory
        over.write(at, &before)?;
    }
    first.map(|report| Replayed { report, mended: None })
}

/// Writes the usual number of the journal's inode into the superblock. Gives where, and what was
/// there; `None` where it is there.
fn renumbered(over: &Arc<dyn BlockDevice>) -> extant_engine::Result<Option<(u64, Vec<u8>)>> {
    let mut superblock = extant_engine::read_superblock(&**over)?;
    if superblock.journal_inode == Ino::JOURNAL.0 {
        return Ok(None);
    }
    let mut before = vec![0; SUPERBLOCK_SIZE];
    over.read(SUPERBLOCK_OFFSET, &mut before)?;
    superblock.journal_inode = Ino::JOURNAL.0;
    // tidy: writers because it is an overlay in memory
    over.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(Some((SUPERBLOCK_OFFSET, before)))
}

/// Writes the inode of the journal by its copy in the superblock. Gives where, and what was there;
/// `None` where there is no copy, or the inode is that of another file.
fn restored(over: &Arc<dyn BlockDevice>) -> extant_engine::Result<Option<(u64, Vec<u8>)>> {
    let superblock = extant_engine::read_superblock(&**over)?;
    let ino = Ino(superblock.journal_inode);
    let has_copy = superblock.journal_backup_type == JOURNAL_BACKUP_BLOCKS;
    let Some((group, _)) = superblock.group_of_inode(ino).filter(|_| has_copy) else {
        return Ok(None);
    };
    let block_size = u64::from(superblock.block_size());
    let (block, offset) = superblock.descriptor_place(group);
    let mut bytes = vec![0; usize::from(superblock.descriptor_size)];
    over.read(block.0.saturating_mul(block_size).saturating_add(offset as u64), &mut bytes)?;
    let descriptor = GroupDescriptor::decode(&bytes, &superblock);
    let Some((block, offset)) = superblock.inode_place(ino, &descriptor) else { return Ok(None) };
    let at = block.0.saturating_mul(block_size).saturating_add(offset as u64);
    let mut before = vec![0; usize::from(superblock.inode_size)];
    over.read(at, &mut before)?;
    if ino != Ino::JOURNAL && before.iter().any(|byte| *byte != 0) {
        return Ok(None);
    }
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, &superblock);
    copy_map(&superblock, &mut inode);
    inode.sectors = inode.size / SECTOR_BYTES;
    let mut after = vec![0; before.len()];
    inode.encode(&mut after, ino, &superblock);
    // tidy: writers because it is an overlay in memory
    over.write(at, &after)?;
    Ok(Some((at, before)))
}

/// Mends one problem of the journal. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, problem: &Problem) -> Result<bool> {
    let is_elsewhere = draft.superblock.journal_inode != Ino::JOURNAL.0;
    match problem.code {
        Code::RecoveryWithoutJournal => {
            draft.superblock.features.clear(Feature::NEEDS_RECOVERY);
        }
        Code::JournalWithoutFeature => {
            draft.superblock.journal_inode = 0;
            draft.superblock.journal_backup = [0; 17];
            draft.superblock.features.clear(Feature::NEEDS_RECOVERY);
            draft.clear_inode(Ino::JOURNAL)?;
        }
        Code::TwoJournals => {
            let ino = draft.superblock.journal_inode;
            draft.superblock.set_external_journal([0; 16], 0);
            draft.superblock.journal_inode = ino;
        }
        Code::JournalSuperblock
        | Code::JournalFields
        | Code::JournalFeatures
        | Code::JournalLeftovers
        | Code::JournalError
        | Code::NeedsRecovery
        | Code::JournalChecksum => return emptied(draft),
        // What the number leads to may be anybody's file.
        Code::JournalInode if is_elsewhere && is_journal(draft, Ino::JOURNAL)? => {
            draft.superblock.journal_inode = Ino::JOURNAL.0;
        }
        Code::JournalInode if is_elsewhere => return made(draft),
        Code::JournalInode if unflagged(draft)? => return Ok(true),
        Code::JournalInode => return Ok(filled(draft)? || made(draft)?),
        Code::JournalMissing => return made(draft),
        _ => return Ok(false),
    }
    draft.write_superblock()?;
    Ok(true)
}

/// Takes flags from the inode of the journal by which its blocks would be no map, or not to be read
/// without a key. Gives whether it had any.
fn unflagged(draft: &mut Draft) -> Result<bool> {
    const NEVER: u32 = flags::ENCRYPTED | flags::INLINE_DATA;
    let inode = draft.inode(Ino::JOURNAL)?;
    let Some(mut inode) = inode.filter(|inode| inode.flags & NEVER != 0) else {
        return Ok(false);
    };
    inode.flags &= !NEVER;
    draft.write_inode(Ino::JOURNAL, &inode)?;
    Ok(true)
}

/// Writes the superblock of an empty journal over the first block of the one that is there; makes
/// a new one where its inode has no blocks.
fn emptied(draft: &mut Draft) -> Result<bool> {
    let ino = Ino(draft.superblock.journal_inode);
    let Some(inode) = draft.inode(ino)? else { return made(draft) };
    let found = map::read(draft, &inode)?;
    let blocks: u64 = found.runs.iter().map(|run| run.length).sum();
    let blocks = blocks.min(inode.size / draft.block_size() as u64);
    let first = found.runs.first().filter(|run| run.file_block == 0);
    let Some(first) = first.filter(|_| blocks >= BLOCKS_MIN) else { return made(draft) };
    // What another file has too is not where the journal was: the superblock may know that.
    if draft.usage.is_double(BlockNo(first.start)) && ino == Ino::JOURNAL {
        let mut copied = inode.clone();
        restore(draft, &mut copied);
        if copied.block == inode.block {
            return made(draft);
        }
        draft.write_inode(ino, &copied)?;
        return Ok(true);
    }
    if ino != Ino::JOURNAL && !is_journal(draft, ino)? {
        return made(draft);
    }
    empty(draft, BlockNo(first.start), blocks)?;
    draft.superblock.features.clear(Feature::NEEDS_RECOVERY);
    draft.write_superblock()?;
    Ok(true)
}

/// Whether the first block of a file begins as a journal does.
fn is_journal(draft: &Draft, ino: Ino) -> Result<bool> {
    let Some(inode) = draft.inode(ino)? else { return Ok(false) };
    let found = map::read(draft, &inode)?;
    let first = found.runs.first().filter(|run| run.file_block == 0);
    let Some(first) = first.filter(|_| inode.file_type() == Some(FileType::Regular)) else {
        return Ok(false);
    };
    let bytes = draft.read(BlockNo(first.start))?;
    Ok(bytes.is_some_and(|bytes| bytes.starts_with(&JOURNAL_MAGIC)))
}

fn empty(draft: &Draft, block: BlockNo, blocks: u64) -> Result<()> {
    let mut bytes = vec![0; draft.block_size()];
    let journal = NewJournal {
        block_size: draft.superblock.block_size(),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        uuid: draft.superblock.uuid,
        fast_commit_blocks: 0,
    };
    initialize(&mut bytes, &journal);
    draft.write(block, &bytes)
}

/// Gives the inode of the journal the map and the size that the superblock has a copy of.
pub(crate) fn restore(draft: &Draft, inode: &mut Inode) {
    if draft.superblock.journal_backup_type == JOURNAL_BACKUP_BLOCKS {
        copy_map(&draft.superblock, inode);
    }
}

fn copy_map(superblock: &Superblock, inode: &mut Inode) {
    let (words, _) = inode.block.as_chunks_mut::<4>();
    for (word, from) in words.iter_mut().zip(superblock.journal_backup) {
        *word = from.to_le_bytes();
    }
    let [.., size_high, size_low] = superblock.journal_backup;
    inode.size = u64::from(size_high) << 32 | u64::from(size_low);
    inode.flags = if map::has_root(inode) { flags::EXTENTS } else { 0 };
    inode.links = 1;
}

/// Maps the blocks that the file of the journal lacks, and empties it. Gives whether it could.
fn filled(draft: &mut Draft) -> Result<bool> {
    let ino = Ino(draft.superblock.journal_inode);
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    let blocks = inode.size / draft.block_size() as u64;
    let found = map::read(draft, &inode)?;
    let mapped: u64 = found.runs.iter().map(|run| run.length).sum();
    let is_file = inode.file_type() == Some(FileType::Regular) && inode.links > 0;
    // Of one with less than a half left nothing says that it is one.
    let has_clusters = draft.usage.cluster_blocks() > 1;
    if !is_file || has_clusters || blocks < BLOCKS_MIN || mapped < blocks / 2 {
        return Ok(false);
    }
    let mut next = 0;
    let mut runs = Vec::new();
    let end = MapRun { file_block: blocks, start: 0, length: 0, state: ExtentState::Written };
    for run in found.runs.iter().copied().chain([end]) {
        for file_block in next..run.file_block.min(blocks) {
            let goal = BlockNo(run.start);
            let Some(block) = draft.allocate(goal) else { return Ok(false) };
            runs.push(MapRun {
                file_block,
                start: block.0,
                length: 1,
                state: ExtentState::Written,
            });
        }
        next = run.file_block.saturating_add(run.length);
        runs.extend((run.length > 0).then_some(run));
    }
    let map = FileMap { runs, nodes: found.nodes };
    map::write(draft, ino, &mut inode, &map)?;
    draft.write_inode(ino, &inode)?;
    emptied(draft)
}

/// Makes a journal in its usual inode; where there is no room, the volume has none from now on.
fn made(draft: &mut Draft) -> Result<bool> {
    let ino = Ino::JOURNAL;
    draft.superblock.features.clear(Feature::NEEDS_RECOVERY);
    let wanted = u64::from(default_blocks(draft.superblock.blocks_count));
    let runs = if wanted >= BLOCKS_MIN { room(draft, wanted) } else { None };
    let Some(runs) = runs else {
        draft.superblock.features.clear(Feature::HAS_JOURNAL);
        draft.superblock.journal_inode = 0;
        draft.superblock.journal_backup = [0; 17];
        draft.write_superblock()?;
        draft.clear_inode(ino)?;
        return Ok(true);
    };
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, &draft.superblock);
    inode.links = 1;
    if draft.superblock.has(Feature::EXTENTS) {
        inode.flags = flags::EXTENTS;
    }
    let blocks: u64 = runs.iter().map(|run| run.length).sum();
    let block_bytes = draft.block_size() as u64;
    inode.size = blocks.saturating_mul(block_bytes);
    let now = Time { seconds: draft.now.into(), ..Time::default() };
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    let first = runs.first().map_or(0, |run| run.start);
    // What is counted of the map is known once it is written.
    inode.sectors = blocks.saturating_mul(block_bytes) / SECTOR_BYTES;
    map::write(draft, ino, &mut inode, &FileMap { runs, nodes: Vec::new() })?;
    draft.write_inode(ino, &inode)?;
    empty(draft, BlockNo(first), blocks)?;
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
    draft.write_superblock()?;
    Ok(true)
}

/// Free runs of that many blocks in all.
fn room(draft: &mut Draft, blocks: u64) -> Option<Vec<MapRun>> {
    let mut runs = Vec::new();
    let mut at = 0;
    let mut goal = BlockNo(draft.superblock.blocks_count / 2);
    while at < blocks {
        let length = RUN_BLOCKS.min(blocks.saturating_sub(at));
        let start = draft.allocate_run(goal, length)?;
        runs.push(MapRun { file_block: at, start: start.0, length, state: ExtentState::Written });
        at = at.saturating_add(length);
        goal = BlockNo(start.0.saturating_add(length));
    }
    Some(runs)
}
