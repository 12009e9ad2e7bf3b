//! Files of which one field is wrong, where all the rest proves what it was: they are set right
//! first, for what else is wrong follows from it, and would be lost by what is done about that.
//!
//! ```text
//! type             a name says that it is a directory, and its content is that of one with its
//!                  number
//! flag of extents  a tree of extents stands where the map is; or pointers do
//! map              read by what its nodes hold, whatever they count, or without what is behind
//!                  the end of the file, it has exactly the blocks that the inode counts; no
//!                  checksum speaks against it, the bitmaps have them in use, and nobody else has
//!                  them
//! ```
use crate::draft::{Draft, Result};
use crate::inodes::{self, is_of_map};
use crate::map::{self, Entry, FileMap, MapRun, Remains};
use extant_format::extent::ExtentState;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use extant_inspect::{CheckReport, Code, Pass, Problem};
use std::collections::BTreeSet;

/// What was set right in a repair: nothing is twice.
#[derive(Default)]
pub(crate) struct Regained(BTreeSet<(Ino, Aspect)>);

impl Regained {
    /// The blocks that an inode counts were set by its map: they prove nothing of it any more.
    pub(crate) fn has_counted(&mut self, ino: Ino) {
        self.0.insert((ino, Aspect::Map));
    }
}

/// Sets right what can be, and was not yet. Gives the problems that led to it.
///
/// # Errors
/// The device's; no block is free.
pub(crate) fn mend(
    draft: &mut Draft,
    report: &CheckReport,
    regained: &mut Regained,
) -> Result<Vec<Problem>> {
    let mut mended = Vec::new();
    for problem in &report.problems {
        let Some(ino) = subject(problem).filter(|ino| is_of_users(draft, *ino)) else {
            continue;
        };
        let Some(aspect) = aspect(problem).filter(|of| !regained.0.contains(&(ino, *of))) else {
            continue;
        };
        let is_mended = match aspect {
            Aspect::Type if problem.code == Code::RootMissing => regained_root(draft)?,
            Aspect::Type => regained_type(draft, ino)?,
            Aspect::Map => regained_flag(draft, ino)? || regained_map(draft, ino, problem)?,
        };
        if is_mended {
            regained.0.insert((ino, aspect));
            mended.push(problem.clone());
        }
    }
    Ok(mended)
}

/// What a problem speaks against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    Type,
    Map,
}

fn aspect(problem: &Problem) -> Option<Aspect> {
    match problem.code {
        Code::EntryType
        | Code::RootMissing
        | Code::RootNotDirectory
        | Code::SpecialFileDirectory
        | Code::SpecialFileMapped => Some(Aspect::Type),
        Code::SectorCount
        | Code::InodeChecksum
        | Code::DirectorySize
        | Code::FileSize
        | Code::ExtentsWithoutFeature => Some(Aspect::Map),
        code if is_of_map(code) || problem.rule().pass == Pass::Duplicates => Some(Aspect::Map),
        _ => None,
    }
}

/// The inode that would be set right.
fn subject(problem: &Problem) -> Option<Ino> {
    match problem.code {
        Code::EntryType => {
            let says = FileType::Directory.entry_code();
            problem.other.filter(|_| problem.found == Some(says.into()))
        }
        _ => problem.ino,
    }
}

fn is_of_users(draft: &Draft, ino: Ino) -> bool {
    ino.0 >= draft.superblock.first_inode || ino == Ino::ROOT
}

/// Gives the root a link, if all that it lacks is one: it is counted with the others.
fn regained_root(draft: &Draft) -> Result<bool> {
    let Some(mut inode) = draft.inode(Ino::ROOT)? else { return Ok(false) };
    let is_linked = inode.links > 0 || inode.file_type() != Some(FileType::Directory);
    if is_linked || !inodes::is_directory(draft, Ino::ROOT, &inode)? {
        return Ok(false);
    }
    (inode.links, inode.deletion_time) = (2, 0);
    draft.write_inode(Ino::ROOT, &inode)?;
    Ok(true)
}

/// Gives an inode the type of a directory, if that is what it holds.
fn regained_type(draft: &Draft, ino: Ino) -> Result<bool> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    if inode.file_type() == Some(FileType::Directory) || !inodes::is_directory(draft, ino, &inode)?
    {
        return Ok(false);
    }
    inodes::set_type(&mut inode, FileType::Directory);
    draft.write_inode(ino, &inode)?;
    Ok(true)
}

/// Gives a file the flag of extents back, if a tree of extents stands where its map is: read as
/// pointers it leads anywhere. Takes it away where pointers stand there.
fn regained_flag(draft: &mut Draft, ino: Ino) -> Result<bool> {
    let Some(bytes) = draft.inode_bytes(ino)? else { return Ok(false) };
    let mut inode = Inode::decode(&bytes, &draft.superblock);
    if inode.flags & flags::INLINE_DATA != 0
        || !inodes::is_filed(&inode)
        || inodes::is_target(&inode)
    {
        return Ok(false);
    }
    if inode.has_extents() {
        return without_flag(draft, ino, inode);
    }
    if !map::has_root(&inode) || !draft.superblock.has(Feature::EXTENTS) {
        return Ok(false);
    }
    inode.flags |= flags::EXTENTS;
    let mut sealed = vec![0; bytes.len()];
    inode.encode(&mut sealed, ino, &draft.superblock);
    // A checksum that is wrong now, and right with the flag, says that nothing else was changed.
    let is_sound = |bytes: &[u8]| Inode::verify_checksum(bytes, ino, &draft.superblock).is_ok();
    let is_proved = sealed.iter().zip(&bytes).filter(|(new, old)| new != old).count() == 1;
    if draft.scope != crate::Scope::All && draft.has_checksums() && !is_sound(&bytes) && !is_proved
    {
        return Ok(false);
    }
    draft.write_inode(ino, &inode)?;
    Ok(true)
}

/// Takes the flag of extents away, if pointers lead to exactly the blocks that the inode counts.
fn without_flag(draft: &mut Draft, ino: Ino, mut inode: Inode) -> Result<bool> {
    if map::has_root(&inode) || draft.usage.cluster_blocks() > 1 {
        return Ok(false);
    }
    let as_extents = map::read(draft, &inode)?;
    if is_counted(draft, &inode, &as_extents) {
        return Ok(false);
    }
    inode.flags &= !flags::EXTENTS;
    let map = map::read(draft, &inode)?;
    if !is_counted(draft, &inode, &map) || !is_marked(draft, &map) {
        return Ok(false);
    }
    draft.write_inode(ino, &inode)?;
    Ok(true)
}

/// Writes the map of a file anew, if what its nodes hold is exactly what the inode counts.
fn regained_map(draft: &mut Draft, ino: Ino, problem: &Problem) -> Result<bool> {
    let is_size = matches!(problem.code, Code::DirectorySize | Code::FileSize);
    let is_lost = is_of_map(problem.code)
        || inodes::is_of_length(problem.code)
        || problem.rule().pass == Pass::Duplicates;
    let Some(mut inode) = draft.inode(ino)?.filter(|_| is_lost) else { return Ok(false) };
    if !map::is_mapped(&inode, &draft.superblock) || inode.sectors == 0 {
        return Ok(false);
    }
    let Remains { map: read, behind, is_sound } = map::read_remains(draft, ino, &inode)?;
    let missing = inode.sectors.checked_sub(sectors(draft, &inode, &read));
    let found = match missing.filter(|_| is_sound) {
        // It may lead to more than the file has.
        None if is_sound && inode.size > 0 => Some(cut(draft, &inode, &read)),
        None => None,
        // The check, which believes all of it, counts others.
        Some(0) if !is_size || read != map::read(draft, &inode)? => Some(read),
        Some(0) => None,
        // Of pointers none hides others.
        Some(_) if !inode.has_extents() => None,
        Some(missing) => with_entries(draft, &read, &behind, missing)
            .or_else(|| with_longer_run(draft, &inode, &read, missing)),
    };
    let Some(mut found) = found.filter(|map| is_counted(draft, &inode, map)) else {
        return Ok(false);
    };
    if !is_marked(draft, &found) || !is_within(draft, &inode, &found) {
        return Ok(false);
    }
    if inode.file_type() == Some(FileType::Directory) {
        found.runs.iter_mut().for_each(|run| run.state = ExtentState::Written);
    }
    map::write(draft, ino, &mut inode, &found)?;
    draft.write_inode(ino, &inode)?;
    Ok(true)
}

/// The sectors that an inode with a map counts.
fn sectors(draft: &Draft, inode: &Inode, map: &FileMap) -> u64 {
    let of_attributes = draft.sectors(u64::from(inode.attribute_block.0 != 0));
    map::footprint(draft, map).saturating_add(of_attributes)
}

fn is_counted(draft: &Draft, inode: &Inode, map: &FileMap) -> bool {
    !map.runs.is_empty() && sectors(draft, inode, map) == inode.sectors
}

/// Whether all blocks of a map are in use by the bitmaps as they are stored, and are no other
/// file's.
fn is_marked(draft: &mut Draft, map: &FileMap) -> bool {
    let of_runs = map.runs.iter().flat_map(|run| run.start..run.start.saturating_add(run.length));
    let blocks: Vec<u64> = of_runs.chain(map.nodes.iter().map(|node| node.0)).collect();
    blocks
        .into_iter()
        .map(BlockNo)
        .all(|block| !draft.usage.is_double(block) && !draft.is_unmarked(block))
}

/// Whether nothing that was written is behind the end of a file.
fn is_within(draft: &Draft, inode: &Inode, map: &FileMap) -> bool {
    let end = inode.size.div_ceil(draft.block_size() as u64);
    let written = map.runs.iter().filter(|run| run.state == ExtentState::Written);
    inode.file_type() == Some(FileType::Directory)
        || written.map(|run| run.file_block.saturating_add(run.length)).max() <= Some(end)
}

/// The part of a map that is before the end of the file.
fn cut(draft: &Draft, inode: &Inode, map: &FileMap) -> FileMap {
    let end = inode.size.div_ceil(draft.block_size() as u64);
    let mut cut = map.clone();
    for run in &mut cut.runs {
        run.length = run.length.min(end.saturating_sub(run.file_block));
    }
    cut.runs.retain(|run| run.length > 0);
    cut
}

/// The map with the first entries that stand behind those of one node, as many as are missing.
fn with_entries(
    draft: &Draft,
    map: &FileMap,
    behind: &[Vec<Entry>],
    missing: u64,
) -> Option<FileMap> {
    let is_free = |run: &MapRun| draft.usage.is_free(BlockNo(run.start), run.length);
    behind.iter().find_map(|entries| {
        let mut added = FileMap::default();
        for entry in entries {
            let are_nodes_free = entry.nodes.iter().all(|node| draft.usage.is_free(*node, 1));
            if !are_nodes_free || !entry.runs.iter().all(is_free) {
                return None;
            }
            added.runs.extend(&entry.runs);
            added.nodes.extend(&entry.nodes);
            if map::footprint(draft, &added) >= missing {
                break;
            }
        }
        (map::footprint(draft, &added) == missing).then(|| map.joined(&added)).flatten()
    })
}

/// The map with one run that is longer by what is missing: up to the next one, or the end of the
/// file.
fn with_longer_run(draft: &Draft, inode: &Inode, map: &FileMap, missing: u64) -> Option<FileMap> {
    let each = draft.sectors(1);
    let blocks = Some(missing / each).filter(|_| missing.is_multiple_of(each))?;
    let file_blocks = inode.size.div_ceil(draft.block_size() as u64);
    let ends = map.runs.iter().skip(1).map(|run| run.file_block).chain([file_blocks]);
    let fits = |(run, end): (&MapRun, u64)| {
        let ends = run.file_block.saturating_add(run.length);
        let after = BlockNo(run.start.saturating_add(run.length));
        ends.checked_add(blocks) == Some(end)
            && run.state == ExtentState::Written
            && draft.usage.holds(BlockNo(after.0.saturating_add(blocks.saturating_sub(1))))
            && draft.usage.is_free(after, blocks)
    };
    let mut places = map.runs.iter().zip(ends).enumerate().filter(|(_, of)| fits(*of));
    let (at, _) = places.next()?;
    // One of several is no proof.
    if places.next().is_some() || draft.usage.cluster_blocks() > 1 {
        return None;
    }
    let mut longer = map.clone();
    let run = longer.runs.get_mut(at)?;
    run.length = run.length.saturating_add(blocks);
    Some(longer)
}

/// Whether a file has more links than names, and holds what a directory of its number does. Where
/// names have no types nothing else says that it is one, and whoever can write a file can write
/// that.
///
/// # Errors
/// The device's.
pub(crate) fn may_be_directory(draft: &Draft, problem: &Problem) -> Result<bool> {
    let is_of_links = problem.code == Code::LinkCount && problem.found > problem.expected;
    let ino = problem.ino.filter(|_| is_of_links && !draft.superblock.has(Feature::FILETYPE));
    let Some((ino, inode)) = ino.and_then(|ino| Some((ino, draft.inode(ino).ok()??))) else {
        return Ok(false);
    };
    let is_one = inode.file_type() == Some(FileType::Directory);
    Ok(!is_one && inodes::is_directory(draft, ino, &inode)?)
}

/// Whether an inode says in two ways that its map has lost something: by its size, and by the
/// blocks that it counts.
///
/// # Errors
/// The device's.
pub(crate) fn is_longer_than_its_map(draft: &Draft, ino: Ino) -> Result<bool> {
    let inode = draft.inode(ino)?;
    let Some(inode) = inode.filter(|inode| map::is_mapped(inode, &draft.superblock)) else {
        return Ok(false);
    };
    let map = map::read(draft, &inode)?;
    let held = match inode.file_type() {
        // It has no holes.
        Some(FileType::Directory) => map.runs.iter().map(|run| run.length).sum(),
        _ => map.runs.last().map_or(0, |run| run.file_block.saturating_add(run.length)),
    };
    let file_blocks = inode.size.div_ceil(draft.block_size() as u64);
    Ok(file_blocks > held && inode.sectors > sectors(draft, &inode, &map))
}
