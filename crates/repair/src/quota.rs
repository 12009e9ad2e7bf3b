//! Writes quota files as the check counted.
//!
//! Entries that are there keep their limits. Where an id has none the file is written anew, which
//! is left undone if limits would be lost by it.
use crate::draft::{Draft, Result};
use crate::map::{self, FileMap, MapRun};
use crate::options::Scope;
use extant_format::extent::ExtentState;
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::quota_file::{self, BLOCK_BYTES, QuotaEntry, ROOT_BLOCK, STEPS};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use extant_inspect::{CheckReport, Code, Problem};
use std::collections::{BTreeMap, BTreeSet};

/// A longer file is written anew.
const BYTES_MAX: u64 = 64 << 20;

/// Sets right the numbers of quota files that lead to something else: to the inode that is
/// reserved for the file, or to a file of that kind without a name. Where there is none, and the
/// number leads to somebody's file or to nothing, there is no quota of that kind any more, if
/// `draft.scope` lets that be lost. Gives the problems that are mended so.
///
/// # Errors
/// The device's.
pub(crate) fn renumber(draft: &mut Draft, report: &CheckReport) -> Result<Vec<(Problem, Found)>> {
    let numbers = draft.superblock.quota_inodes();
    let is_called_for = report.problems.iter().any(|it| it.code == Code::QuotaFile)
        || (1..numbers.len())
            .any(|at| numbers.iter().take(at).any(|it| Some(it) == numbers.get(at)));
    if !draft.superblock.has(Feature::QUOTA) {
        return forgotten(draft, report);
    }
    if !is_called_for {
        return Ok(Vec::new());
    }
    let unattached = report.problems.iter().filter(|it| it.code == Code::InodeUnattached);
    let unattached: Vec<Ino> = unattached.filter_map(|it| it.ino).collect();
    let mut after = numbers;
    let mut mended = Vec::new();
    for (kind, number) in after.iter_mut().enumerate().filter(|(_, number)| number.0 != 0) {
        if is_of_kind(draft, *number, kind)? {
            continue;
        }
        let reserved = RESERVED.get(kind).copied();
        let mut found = None;
        for ino in reserved.into_iter().chain(unattached.iter().copied()) {
            if found.is_none() && is_of_kind(draft, ino, kind)? {
                found = Some(ino);
            }
        }
        let is_named = report
            .problems
            .iter()
            .any(|it| it.code == Code::EntryInode && it.other == Some(*number));
        let is_own = reserved == Some(*number)
            || *number >= Ino(draft.superblock.first_inode)
                && draft.usage.file_type(*number) == Some(FileType::Regular)
                && !is_named;
        let problem = Problem::new(Code::QuotaFile).ino(*number);
        match found {
            Some(ino) => {
                *number = ino;
                mended.push((problem, Found::File));
            }
            None if !is_own && draft.scope == Scope::All => {
                *number = Ino(0);
                mended.push((problem, Found::Nothing));
            }
            None => {}
        }
    }
    if !mended.is_empty() {
        draft.superblock.set_quota_inodes(after);
        draft.write_superblock()?;
    }
    Ok(mended)
}

/// Without the feature: numbers of quota files go where a name leads to one of them, and so cannot
/// be.
fn forgotten(draft: &mut Draft, report: &CheckReport) -> Result<Vec<(Problem, Found)>> {
    let numbers = draft.superblock.quota_inodes();
    let is_one = |it: &&Problem| {
        it.code == Code::EntryInode
            && it.other.is_some_and(|ino| ino.0 != 0 && numbers.contains(&ino))
    };
    let Some(problem) = report.problems.iter().find(is_one) else { return Ok(Vec::new()) };
    draft.superblock.set_quota_inodes([Ino(0); 3]);
    draft.write_superblock()?;
    Ok(vec![(problem.clone(), Found::File)])
}

/// What a number of a quota file was set right by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    File,
    Nothing,
}

/// The inodes that are kept for the files of users and groups.
pub(crate) const RESERVED: [Ino; 2] = [Ino(3), Ino(4)];

/// Whether a file begins as one of this kind does.
fn is_of_kind(draft: &Draft, ino: Ino, kind: usize) -> Result<bool> {
    let inode = draft.inode(ino)?.filter(|it| it.file_type() == Some(FileType::Regular));
    let Some(inode) = inode.filter(|it| it.flags & flags::INLINE_DATA == 0) else {
        return Ok(false);
    };
    let map = map::read(draft, &inode)?;
    let Some((_, block)) = blocks_of(&map).next().filter(|(at, _)| *at == 0) else {
        return Ok(false);
    };
    let head = draft.read(block)?.unwrap_or_default();
    Ok(quota_file::Head::parse(kind, &head, inode.size).is_some())
}

/// Mends one quota file. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, ino: Ino, code: Code) -> Result<bool> {
    let Some(kind) = draft.usage.quota_inodes().iter().position(|of| *of == ino) else {
        return Ok(false);
    };
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    let is_inline = inode.flags & flags::INLINE_DATA != 0;
    if inode.file_type() != Some(FileType::Regular) || is_inline && !map::has_root(&inode) {
        if draft.scope != Scope::All || !RESERVED.contains(&ino) {
            return Ok(false);
        }
        // Nothing of the file is left: an empty one is filled with what was counted.
        inode = blank(draft, ino)?;
    } else if is_inline {
        // The file of a quota is never in its inode: a map that is there all the same is its own.
        inode.flags &= !flags::INLINE_DATA;
        draft.write_inode(ino, &inode)?;
        return Ok(true);
    }
    let wanted = draft.usage.quotas(kind);
    let mut map = map::read(draft, &inode)?;
    let stored = content(draft, &inode, &map)?;
    let limits = match stored.as_deref().map(|bytes| changed(bytes, &wanted)) {
        Some(Patch::Whole(bytes)) if code == Code::QuotaUsage => {
            store(draft, &map, &bytes)?;
            return Ok(true);
        }
        Some(Patch::Missing(limits)) => limits,
        Some(Patch::Whole(_)) | None => Limits::None,
    };
    if limits == Limits::Some && code == Code::QuotaUsage {
        return Ok(false);
    }
    let held = map::footprint(draft, &map);
    let bytes = quota_file::new_file(kind, &wanted).bytes;
    let blocks = (bytes.len() as u64).div_ceil(draft.block_size() as u64);
    map.runs.retain(|run| run.file_block < blocks);
    let mapped: BTreeSet<u64> = blocks_of(&map).map(|(at, _)| at).collect();
    if draft.usage.cluster_blocks() > 1 && (0..blocks).any(|at| !mapped.contains(&at)) {
        return Ok(false);
    }
    for at in (0..blocks).filter(|at| !mapped.contains(at)) {
        let Some(block) = draft.allocate(BlockNo(0)) else { return Ok(false) };
        let state = ExtentState::Written;
        map.runs.push(MapRun { file_block: at, start: block.0, length: 1, state });
    }
    map.runs.sort_by_key(|run| run.file_block);
    // All of it is written now.
    map.runs.iter_mut().for_each(|run| run.state = ExtentState::Written);
    map::write(draft, ino, &mut inode, &map)?;
    let holds = map::footprint(draft, &map::read(draft, &inode)?);
    inode.sectors = inode.sectors.saturating_add(holds).saturating_sub(held);
    inode.size = bytes.len() as u64;
    draft.write_inode(ino, &inode)?;
    store(draft, &map, &bytes)?;
    Ok(true)
}

/// The inode of a quota file without content.
fn blank(draft: &mut Draft, ino: Ino) -> Result<Inode> {
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, &draft.superblock);
    inode.links = 1;
    if draft.superblock.has(Feature::EXTENTS) {
        inode.flags = flags::EXTENTS;
    }
    inode.flags |= flags::IMMUTABLE;
    let now = Time { seconds: draft.now.into(), ..Time::default() };
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    map::write(draft, ino, &mut inode, &FileMap::default())?;
    Ok(inode)
}

fn blocks_of(map: &FileMap) -> impl Iterator<Item = (u64, BlockNo)> + '_ {
    map.runs.iter().flat_map(|run| {
        (0..run.length)
            .map(|at| (run.file_block.saturating_add(at), BlockNo(run.start.saturating_add(at))))
    })
}

/// All bytes of a file: what was not written is zeros.
fn content(draft: &Draft, inode: &Inode, map: &FileMap) -> Result<Option<Vec<u8>>> {
    if inode.size > BYTES_MAX {
        return Ok(None);
    }
    let block_size = draft.block_size();
    let mut bytes = vec![0; (inode.size as usize).next_multiple_of(block_size)];
    let mut written = map.clone();
    written.runs.retain(|run| run.state == ExtentState::Written);
    for (at, block) in blocks_of(&written) {
        let from = (at as usize).saturating_mul(block_size);
        let place = bytes.get_mut(from..from.saturating_add(block_size));
        if let (Some(place), Some(read)) = (place, draft.read(block)?) {
            place.copy_from_slice(&read);
        }
    }
    Ok(Some(bytes))
}

/// Writes the bytes of a file to the blocks that it has.
fn store(draft: &Draft, map: &FileMap, bytes: &[u8]) -> Result<()> {
    let block_size = draft.block_size();
    for (at, block) in blocks_of(map) {
        let from = (at as usize).saturating_mul(block_size).min(bytes.len());
        let to = from.saturating_add(block_size).min(bytes.len());
        let mut whole = bytes.get(from..to).unwrap_or_default().to_vec();
        whole.resize(block_size, 0);
        draft.write(block, &whole)?;
    }
    Ok(())
}

/// Whether any entry has a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limits {
    None,
    Some,
}

/// What comes of a file whose entries are set right.
enum Patch {
    /// All of it.
    Whole(Vec<u8>),
    /// An id has no entry, or the file is none.
    Missing(Limits),
}

/// The file with what each id has, where each has an entry.
fn changed(bytes: &[u8], wanted: &[QuotaEntry]) -> Patch {
    const BLOCK: usize = BLOCK_BYTES as usize;
    let mut bytes = bytes.to_vec();
    let mut wanted: BTreeMap<u32, QuotaEntry> =
        wanted.iter().map(|entry| (entry.id, *entry)).collect();
    let mut limits = Limits::None;
    let mut pending = vec![(ROOT_BLOCK, STEPS)];
    let mut seen = BTreeSet::new();
    while let Some((block, steps)) = pending.pop() {
        let from = (block as usize).saturating_mul(BLOCK);
        let Some(block_bytes) = bytes.get_mut(from..from.saturating_add(BLOCK)) else { continue };
        if !seen.insert((block, steps)) {
            continue;
        }
        if steps > 0 {
            let below = steps.saturating_sub(1);
            quota_file::cut_loops(block_bytes);
            pending.extend(quota_file::children(block_bytes).map(|child| (child, below)));
            continue;
        }
        if quota_file::has_limits(block_bytes) {
            limits = Limits::Some;
        }
        let entries: Vec<QuotaEntry> = quota_file::entries(block_bytes).collect();
        for entry in entries {
            let Some(at) = quota_file::entry_at(block_bytes, entry.id) else { continue };
            let wanted = wanted.remove(&entry.id);
            let counts = wanted.unwrap_or(QuotaEntry { id: entry.id, inodes: 0, bytes: 0 });
            quota_file::set_entry(block_bytes, at, &counts);
        }
    }
    match wanted.is_empty() {
        true => Patch::Whole(bytes),
        false => Patch::Missing(limits),
    }
}
