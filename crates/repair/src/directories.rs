//! Mends directories: entries that cannot be, blocks whose entries are torn, indexes.
//!
//! A directory whose index is wrong goes on without one: every reader finds its names. The blocks
//! of the index become blocks without names. When all else is mended it gets another one
//! ([`crate::index`]).
use crate::draft::{Draft, Result};
use crate::map::{self, FileMap, MapRun};
use extant_format::directory::stored::{ChainEnd, EntryShape, is_dots};
use extant_format::directory::{Form, HEADER, NAME_MAX, RECORD_MIN, Style};
use extant_format::extent::ExtentState;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, FileBlock, Ino};
use extant_inspect::{Code, Pass, Problem};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are put into a directory where they are missing, even if it has fewer.
const HOLES_FILLED: u64 = 16;

/// An entry that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) ino: Ino,
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileType,
}

/// A directory that is being mended.
pub(crate) struct Directory {
    ino: Ino,
    pub(crate) inode: Inode,
    map: FileMap,
    pub(crate) style: Style,
    seed: u32,
}

impl Directory {
    /// Reads it; `None` for one that is not kept in blocks of entries that are known here.
    pub(crate) fn open(draft: &Draft, ino: Ino) -> Result<Option<Directory>> {
        let Some(inode) = draft.inode(ino)? else { return Ok(None) };
        let has_hashes =
            inode.flags & flags::ENCRYPTED != 0 && inode.flags & flags::CASEFOLDED != 0;
        let is_inline = inode.flags & flags::INLINE_DATA != 0;
        if inode.file_type() != Some(FileType::Directory) || has_hashes || is_inline {
            return Ok(None);
        }
        let style = style(draft);
        let map = map::read(draft, &inode)?;
        let seed = draft.seed(ino, &inode);
        Ok(Some(Directory { ino, inode, map, style, seed }))
    }

    fn form(&self) -> Form {
        Form::of(self.inode.flags)
    }

    /// File blocks with the block of each.
    pub(crate) fn blocks(&self) -> Vec<(u64, BlockNo)> {
        let runs = self.map.runs.iter();
        let blocks = runs.flat_map(|run| {
            (0..run.length).map(|at| {
                (run.file_block.saturating_add(at), BlockNo(run.start.saturating_add(at)))
            })
        });
        blocks.collect()
    }

    fn shape(&self) -> EntryShape {
        EntryShape { block_size: self.style.block_size as usize, hash_bytes: 0 }
    }

    /// Writes a leaf with these entries; gives back those that do not fit.
    pub(crate) fn pack(
        &self,
        draft: &Draft,
        (at, block): (u64, BlockNo),
        mut entries: Vec<Kept>,
    ) -> Result<Vec<Kept>> {
        let room = self.style.leaf_capacity();
        let (mut used, mut fit) = (0_usize, 0_usize);
        for entry in &entries {
            used = used.saturating_add(self.style.entry_size(entry.name.len()));
            if used > room {
                break;
            }
            fit = fit.saturating_add(1);
        }
        let rest = entries.split_off(fit);
        let mut bytes = vec![0; draft.block_size()];
        let packed = entries.iter().map(|entry| (&entry.name[..], entry.ino, entry.kind));
        self.style.pack(&mut bytes, packed);
        self.seal_and_write(draft, at, block, &mut bytes)?;
        Ok(rest)
    }

    pub(crate) fn seal_and_write(
        &self,
        draft: &Draft,
        at: u64,
        block: BlockNo,
        bytes: &mut [u8],
    ) -> Result<()> {
        let at = FileBlock(u32::try_from(at).unwrap_or(u32::MAX));
        self.style.seal(bytes, at, self.form(), self.seed);
        draft.write(block, bytes)
    }

    /// Adds blocks with entries after the last one.
    fn append(&mut self, draft: &mut Draft, mut entries: Vec<Kept>) -> Result<bool> {
        while !entries.is_empty() {
            let Some(added) = self.add_block(draft) else { return Ok(false) };
            entries = self.pack(draft, added, entries)?;
            self.has_changed(draft)?;
        }
        Ok(true)
    }

    /// Adds a block without entries after the last one. Gives whether there was room.
    pub(crate) fn lengthen(&mut self, draft: &mut Draft) -> Result<bool> {
        let Some(added) = self.add_block(draft) else { return Ok(false) };
        self.pack(draft, added, Vec::new())?;
        self.has_changed(draft)?;
        Ok(true)
    }

    /// Packs its names into its blocks anew, without an index, and into more where these do not
    /// suffice; what the inode counts is for the caller. Gives whether there was room.
    pub(crate) fn repack(&mut self, draft: &mut Draft) -> Result<bool> {
        let mut entries = self.all_entries(draft)?;
        self.inode.flags &= !flags::INDEX;
        draft.write_inode(self.ino, &self.inode)?;
        for place in self.blocks() {
            entries = self.pack(draft, place, entries)?;
        }
        self.append(draft, entries)
    }

    /// Takes the blocks away that are not among the first so many.
    pub(crate) fn shorten(&mut self, draft: &mut Draft, count: u64) -> Result<()> {
        let held = |directory: &Directory| {
            let runs = directory.map.runs.iter().map(|run| run.length).sum::<u64>();
            (runs, directory.map.nodes.len() as u64)
        };
        let before = held(self);
        if before.0 <= count {
            return Ok(());
        }
        for run in &mut self.map.runs {
            run.length = run.length.min(count.saturating_sub(run.file_block));
        }
        self.map.runs.retain(|run| run.length > 0);
        self.has_changed(draft)?;
        let after = held(self);
        // Where a cluster is shared by blocks that stay and that go, the next check counts.
        if draft.usage.cluster_blocks() == 1 {
            let freed = (before.0 - after.0).saturating_add(before.1.saturating_sub(after.1));
            self.inode.sectors = self.inode.sectors.saturating_sub(draft.sectors(freed));
            draft.write_inode(self.ino, &self.inode)?;
        }
        Ok(())
    }

    /// Adds a block to the map.
    fn add_block(&mut self, draft: &mut Draft) -> Option<(u64, BlockNo)> {
        let end = self.map.runs.last().map_or(0, |run| run.file_block + run.length);
        let goal = self.map.runs.last().map_or(0, |run| run.start + run.length);
        let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
        // The rest of a cluster is the directory's already.
        let block = match end % cluster {
            0 => draft.allocate(BlockNo(goal))?,
            _ => BlockNo(goal),
        };
        let state = ExtentState::Written;
        self.map.runs.push(MapRun { file_block: end, start: block.0, length: 1, state });
        Some((end, block))
    }

    /// Adds a block to the map where one is missing: of the cluster around it, or of a new one.
    fn fill(&mut self, draft: &mut Draft, at: u64) -> Option<BlockNo> {
        let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
        let base = at / cluster * cluster;
        let is_near = |run: &&MapRun| {
            run.file_block < base + cluster && run.file_block.saturating_add(run.length) > base
        };
        let start = match self.map.runs.iter().find(is_near) {
            Some(run) => {
                let held = run.file_block.max(base);
                (run.start + (held - run.file_block)).checked_sub(held - base)?
            }
            None => {
                let before = self.map.runs.iter().rev().find(|run| run.file_block < at);
                let goal = before.map_or(0, |run| run.start.saturating_add(run.length));
                draft.allocate(BlockNo(goal))?.0
            }
        };
        let start = start.saturating_add(at - base);
        let place = self.map.runs.partition_point(|run| run.file_block < at);
        let state = ExtentState::Written;
        self.map.runs.insert(place, MapRun { file_block: at, start, length: 1, state });
        Some(BlockNo(start))
    }

    /// The map was changed: it and the size are stored.
    fn has_changed(&mut self, draft: &mut Draft) -> Result<()> {
        map::write(draft, self.ino, &mut self.inode, &self.map)?;
        // A map that was written may have blocks of its own that another write would not know.
        self.map.nodes = map::read(draft, &self.inode)?.nodes;
        let end = self.map.runs.last().map_or(0, |run| run.file_block + run.length);
        self.inode.size = end.saturating_mul(draft.block_size() as u64);
        draft.write_inode(self.ino, &self.inode)
    }

    /// Makes it a directory without an index: its root has the first two entries only, its nodes
    /// have none.
    fn without_index(&mut self, draft: &mut Draft) -> Result<()> {
        if self.inode.flags & flags::INDEX == 0 {
            return Ok(());
        }
        draft.unindexed.insert(self.ino);
        self.inode.flags &= !flags::INDEX;
        draft.write_inode(self.ino, &self.inode)?;
        for (at, block) in self.blocks() {
            let Some(mut bytes) = draft.read(block)? else { continue };
            let is_index = at == 0 || is_node(&bytes);
            if is_index {
                let entries = self.entries(&bytes);
                self.pack(draft, (at, block), entries)?;
            } else {
                self.seal_and_write(draft, at, block, &mut bytes)?;
            }
        }
        Ok(())
    }

    /// Whether entries follow each other from this byte to the end of a block.
    fn is_whole(&self, bytes: &[u8], from: usize) -> bool {
        let mut any = false;
        let end = self.shape().walk(bytes, from, &mut |entry| any |= entry.ino != 0);
        any && !matches!(end, ChainEnd::Broken(_))
    }

    /// The entries of all blocks.
    pub(crate) fn all_entries(&self, draft: &Draft) -> Result<Vec<Kept>> {
        let mut entries = Vec::new();
        for (_, block) in self.blocks() {
            if let Some(bytes) = draft.read(block)? {
                entries.extend(self.entries(&bytes));
            }
        }
        Ok(entries)
    }

    /// The entries of a block, as far as they can be read: a chain that breaks goes on at the next
    /// place that looks like an entry. What an entry `.` that is too long has behind it are entries
    /// too, where they are a whole chain.
    fn entries(&self, bytes: &[u8]) -> Vec<Kept> {
        let mut kept = Vec::new();
        let (mut from, mut is_first) = (0, true);
        let goes_on = has_long_dot(bytes) && self.is_whole(bytes, RECORD_MIN);
        loop {
            let end = self.shape().walk(bytes, from, &mut |entry| {
                let is_behind = goes_on && from == 0 && !is_first;
                is_first = false;
                if entry.ino != 0 && !entry.name.is_empty() && !is_behind {
                    let kind = FileType::from_entry_code(entry.code);
                    let kind = kind.unwrap_or(FileType::Regular);
                    kept.push(Kept { ino: Ino(entry.ino), name: entry.name.to_vec(), kind });
                }
            });
            if goes_on && from == 0 {
                from = RECORD_MIN;
                continue;
            }
            let ChainEnd::Broken(broken) = end else { break };
            let mut after = broken.saturating_add(4);
            // The first of a block is one if the next one is.
            let follows = |end: usize| broken > 0 || plausible(bytes, end) == Some(end);
            if let Some((entry, end)) = torn(bytes, broken).filter(|(_, end)| follows(*end)) {
                kept.push(entry);
                after = end;
            }
            match plausible(bytes, after) {
                Some(next) if next > from => from = next,
                _ => break,
            }
        }
        kept
    }
}

/// The entry at a byte of a block where nothing but its length, or that of its name, cannot be, and
/// the byte after it.
fn torn(bytes: &[u8], at: usize) -> Option<(Kept, usize)> {
    let header = bytes.get(at..)?.first_chunk::<HEADER>()?;
    let ino = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let length = usize::from(header[4]) | usize::from(header[5]) << 8;
    let mut named = HEADER.saturating_add(header[6].into());
    let is_record = length.is_multiple_of(4) && at + length <= bytes.len();
    let is_possible = length >= named && is_record;
    // What follows where it ends says that its length is right: its name is what is before that.
    let is_followed = || plausible(bytes, at + length) == Some(at + length);
    if is_record && length >= RECORD_MIN && named > length && is_followed() {
        let room = bytes.get(at.saturating_add(HEADER)..at.saturating_add(length))?;
        let zero = room.iter().position(|byte| *byte == 0);
        named = HEADER.saturating_add(zero.unwrap_or(room.len()));
    }
    let name = bytes.get(at.saturating_add(HEADER)..at.saturating_add(named))?;
    let is_name = !name.is_empty() && name.iter().all(|byte| !matches!(byte, 0 | b'/'));
    if ino == 0 || is_possible || !is_name {
        return None;
    }
    let kind = match header[7] {
        0 => FileType::Regular,
        code => FileType::from_entry_code(code)?,
    };
    let end = at.saturating_add(named).next_multiple_of(4);
    Some((Kept { ino: Ino(ino), name: name.to_vec(), kind }, end))
}

/// Whether a block begins with an entry `.` that goes on where the next one should begin.
fn has_long_dot(bytes: &[u8]) -> bool {
    let is_dot = bytes.get(6) == Some(&1) && bytes.get(8) == Some(&b'.');
    let length = bytes.get(4..6).map_or(0, |two| usize::from(two[0]) | usize::from(two[1]) << 8);
    is_dot && length != RECORD_MIN
}

/// Whether a block looks like a node of an index: one unused entry from end to end.
fn is_node(bytes: &[u8]) -> bool {
    let length = bytes.get(4..6).map_or(0, |two| usize::from(two[0]) | usize::from(two[1]) << 8);
    let is_whole =
        length == bytes.len() || bytes.len() == 0x1_0000 && (length == 0 || length == 0xffff);
    bytes.get(..4) == Some(&[0; 4][..]) && is_whole
}

/// The next byte at which an entry with a name of printable bytes, and a length that fits, begins.
pub(crate) fn plausible(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.next_multiple_of(4);
    (from..bytes.len().saturating_sub(RECORD_MIN)).step_by(4).find(|at| {
        let Some(header) = bytes.get(*at..at + HEADER) else { return false };
        let ino = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let length = usize::from(header[4]) | usize::from(header[5]) << 8;
        let (name, code) = (usize::from(header[6]), header[7]);
        let text = bytes.get(at + HEADER..at + HEADER + name).unwrap_or_default();
        ino != 0
            && name > 0
            && code <= 7
            && length >= (HEADER + name).next_multiple_of(4)
            && length.is_multiple_of(4)
            && at + length <= bytes.len()
            && text.len() == name
            && text.iter().all(|byte| *byte != 0 && *byte != b'/')
    })
}

/// Whether a problem is one of the index alone.
pub(crate) fn is_of_index(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::IndexRoot
            | C::IndexHashVersion
            | C::IndexFlags
            | C::IndexLevels
            | C::IndexLimit
            | C::IndexCount
            | C::IndexOrder
            | C::IndexOutside
            | C::IndexTwice
            | C::IndexUnreferenced
            | C::IndexDepth
            | C::IndexBelow
            | C::IndexAbove
            | C::IndexChecksum
    )
}

/// Whether a problem is that a name must go.
pub(crate) fn removes(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::EntryNameEmpty
            | C::EntryNameShort
            | C::EntryInode
            | C::EntryUnused
            | C::EntryToSelf
            | C::EntryToRoot
            | C::EntryToValue
            | C::EntryUnencrypted
            | C::EntryPolicy
            | C::DirectoryTwice
            | C::DotTwice
    )
}

/// Mends the problems of one directory. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, ino: Ino, problems: &[&Problem]) -> Result<bool> {
    let Some(mut directory) = Directory::open(draft, ino)? else { return Ok(false) };
    let is_reshaped = |problem: &&&Problem| {
        let code = problem.code;
        is_of_index(code)
            || code == Code::DirectoryChain
            || code == Code::DirectoryHole
            || matches!(code, Code::EntryNameIllegal | Code::EntryNameEncoding | Code::EntryTwice)
            || problem.file_block == Some(0) && problem.rule().pass == Pass::Directories
    };
    if problems.iter().any(|problem| is_reshaped(&problem)) {
        directory.without_index(draft)?;
    }
    if problems.iter().any(|problem| problem.code == Code::DirectoryHole) {
        // What else is wrong is found again, perhaps under other numbers.
        let may_move = directory.inode.has_extents() && draft.usage.cluster_blocks() == 1;
        let is_filled = !may_move && fill_holes(draft, &mut directory, Holes::Few)?;
        return Ok(is_filled || close_holes(draft, &mut directory)?);
    }
    let mut by_block: BTreeMap<u64, Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        let at = problem.file_block.or(match problem.code {
            Code::DotDotWrong => None,
            _ => Some(0),
        });
        if let Some(at) = at {
            by_block.entry(at).or_default().push(problem);
        }
    }
    let mut over = Vec::new();
    for (at, block) in directory.blocks() {
        let Some(wrong) = by_block.get(&at) else { continue };
        if wrong.iter().all(|problem| is_of_index(problem.code)) {
            continue;
        }
        let Some(bytes) = draft.read(block)? else { continue };
        let entries = mended(draft, &directory, at, &bytes, wrong);
        over.extend(directory.pack(draft, (at, block), entries)?);
    }
    directory.append(draft, over)
}

/// The entries that a block is to have.
fn mended(
    draft: &Draft,
    directory: &Directory,
    at: u64,
    bytes: &[u8],
    problems: &[&Problem],
) -> Vec<Kept> {
    let mut entries = directory.entries(bytes);
    let dots = if at == 0 { dots(directory.ino, &entries) } else { Vec::new() };
    entries.retain(|entry| !is_dots(&entry.name));
    for problem in problems.iter().filter(|problem| removes(problem.code)) {
        let name = problem.name.as_deref().unwrap_or_default();
        let is_it = |entry: &Kept| {
            entry.name == name && problem.other.is_none_or(|other| other == entry.ino)
        };
        if let Some(place) = entries.iter().position(is_it) {
            entries.remove(place);
        }
    }
    for entry in &mut entries {
        entry.kind = draft.usage.file_type(entry.ino).unwrap_or(entry.kind);
    }
    legalize(&mut entries, &directory.inode, problems);
    dots.into_iter().chain(entries).collect()
}

/// Gives names that cannot be, or are there twice, others of the same length where that is
/// possible.
pub(crate) fn legalize(entries: &mut [Kept], directory: &Inode, problems: &[&Problem]) {
    // What is encrypted is any bytes.
    let is_plain = directory.flags & flags::ENCRYPTED == 0;
    for entry in &mut *entries {
        for byte in entry.name.iter_mut().filter(|_| is_plain) {
            if matches!(byte, 0 | b'/') {
                *byte = b'.';
            }
        }
        if problems.iter().any(|problem| problem.code == Code::EntryNameEncoding)
            && std::str::from_utf8(&entry.name).is_err()
        {
            entry.name.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'.');
        }
    }
    apart(entries);
}

/// The first two entries, as they are to be; the entries that were in their place stay.
fn dots(ino: Ino, entries: &[Kept]) -> Vec<Kept> {
    let parent = entries.iter().find(|entry| entry.name == b"..").map(|entry| entry.ino);
    let kept = |name: &[u8], ino: Ino| Kept { ino, name: name.to_vec(), kind: FileType::Directory };
    vec![kept(b".", ino), kept(b"..", parent.unwrap_or(Ino::ROOT))]
}

/// Gives names that are there twice another one, of the same length where that is possible.
pub(crate) fn apart(entries: &mut [Kept]) {
    let mut met = BTreeSet::new();
    // The next mark of a name that was there before: many that are the same cost no more.
    let mut marks: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for entry in entries {
        if met.insert(entry.name.clone()) {
            continue;
        }
        let number = marks.entry(entry.name.clone()).or_default();
        while met.contains(&entry.name) {
            let mark = format!("~{number}").into_bytes();
            let most = NAME_MAX.min(entry.name.len().max(mark.len().saturating_add(1)));
            entry.name.truncate(most.saturating_sub(mark.len()));
            entry.name.extend(mark);
            *number = number.saturating_add(1);
        }
        met.insert(entry.name.clone());
    }
}

/// Holes that are filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holes {
    /// No more than blocks that are there, or a few.
    Few,
    /// All: they are the rest of clusters that are there.
    OfClusters,
}

/// Puts a block without names where one is missing, as e2fsck does in maps of pointers and where
/// blocks have a place in their cluster. Gives whether it did: not where more is missing than is
/// there, or there is no room.
fn fill_holes(draft: &mut Draft, directory: &mut Directory, holes: Holes) -> Result<bool> {
    let present: BTreeSet<u64> = directory.blocks().into_iter().map(|(at, _)| at).collect();
    let end = present.last().map_or(1, |last| last.saturating_add(1));
    let missing = end.saturating_sub(present.len() as u64);
    if holes == Holes::Few && missing > (present.len() as u64).max(HOLES_FILLED) {
        return Ok(false);
    }
    for at in (0..end).filter(|at| !present.contains(at)) {
        let Some(block) = directory.fill(draft, at) else { return Ok(false) };
        let entries = if at == 0 { dots(directory.ino, &[]) } else { Vec::new() };
        directory.pack(draft, (at, block), entries)?;
    }
    directory.has_changed(draft)?;
    Ok(true)
}

/// Moves blocks down over what is missing; a first block that is missing is made. With clusters a
/// block keeps its place in its own, and what is missing between them is filled. Gives whether it
/// did.
fn close_holes(draft: &mut Draft, directory: &mut Directory) -> Result<bool> {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let has_first = match directory.map.runs.first() {
        Some(run) => run.file_block == 0 || is_first(draft, directory.ino, BlockNo(run.start))?,
        None => false,
    };
    let mut next = u64::from(!has_first);
    for run in &mut directory.map.runs {
        let ahead = (run.start % cluster).saturating_add(cluster) - next % cluster;
        run.file_block = next.saturating_add(ahead % cluster);
        next = run.file_block.saturating_add(run.length);
    }
    if cluster > 1 {
        return fill_holes(draft, directory, Holes::OfClusters);
    }
    if !has_first {
        let goal = directory.map.runs.first().map_or(0, |run| run.start);
        let Some(block) = draft.allocate(BlockNo(goal)) else { return Ok(true) };
        let state = ExtentState::Written;
        directory.map.runs.insert(0, MapRun { file_block: 0, start: block.0, length: 1, state });
        let dots = dots(directory.ino, &[]);
        directory.pack(draft, (0, block), dots)?;
    }
    directory.has_changed(draft)?;
    Ok(true)
}

/// Whether a block is the first of a directory, wherever its map has it: it begins with the entry
/// of itself.
fn is_first(draft: &Draft, ino: Ino, block: BlockNo) -> Result<bool> {
    let bytes = draft.read(block)?.unwrap_or_default();
    let (number, name) = (bytes.first_chunk(), bytes.get(6..10));
    let is_itself = number.is_some_and(|number| u32::from_le_bytes(*number) == ino.0);
    Ok(is_itself && name.is_some_and(|name| matches!(name, [1, _, b'.', 0])))
}

/// Adds an entry to a directory, which loses its index. Gives whether there was room.
///
/// # Errors
/// The device's.
pub(crate) fn add(
    draft: &mut Draft,
    ino: Ino,
    (name, target, kind): (&[u8], Ino, FileType),
) -> Result<bool> {
    let Some(mut directory) = Directory::open(draft, ino)? else { return Ok(false) };
    directory.without_index(draft)?;
    for (at, block) in directory.blocks() {
        let Some(mut bytes) = draft.read(block)? else { continue };
        if directory.style.insert(&mut bytes, name, target, kind).unwrap_or(false) {
            directory.seal_and_write(draft, at, block, &mut bytes)?;
            return Ok(true);
        }
    }
    let entry = Kept { ino: target, name: name.to_vec(), kind };
    directory.append(draft, vec![entry])
}

/// The inode that a directory has under a name.
///
/// # Errors
/// The device's.
pub(crate) fn find(draft: &Draft, ino: Ino, name: &[u8]) -> Result<Option<Ino>> {
    let Some(directory) = Directory::open(draft, ino)? else { return Ok(None) };
    for (_, block) in directory.blocks() {
        let Some(bytes) = draft.read(block)? else { continue };
        let entries = directory.entries(&bytes);
        if let Some(entry) = entries.iter().find(|entry| entry.name == name) {
            return Ok(Some(entry.ino));
        }
    }
    Ok(None)
}

/// Gives an entry another name. Gives whether it could.
///
/// # Errors
/// The device's.
pub(crate) fn rename(draft: &mut Draft, ino: Ino, name: &[u8], to: &[u8]) -> Result<bool> {
    let Some(mut directory) = Directory::open(draft, ino)? else { return Ok(false) };
    directory.without_index(draft)?;
    for (at, block) in directory.blocks() {
        let Some(mut bytes) = draft.read(block)? else { continue };
        let entries = directory.entries(&bytes);
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { continue };
        if !directory.style.remove(&mut bytes, name).unwrap_or(false) {
            return Ok(false);
        }
        directory.seal_and_write(draft, at, block, &mut bytes)?;
        return add(draft, ino, (to, entry.ino, entry.kind));
    }
    Ok(false)
}

/// Takes an inode out of a directory that is kept in blocks. Gives whether it was in it.
///
/// # Errors
/// The device's.
pub(crate) fn forget(draft: &mut Draft, parent: Ino, ino: Ino) -> Result<bool> {
    let mut is_changed = false;
    let Some(mut directory) = Directory::open(draft, parent)? else { return Ok(false) };
    for (at, block) in directory.blocks() {
        let Some(mut bytes) = draft.read(block)? else { continue };
        let is_it = |entry: &Kept| entry.ino == ino && !is_dots(&entry.name);
        let Some(entry) = directory.entries(&bytes).into_iter().find(is_it) else { continue };
        directory.without_index(draft)?;
        // The index may have been in this block.
        bytes = draft.read(block)?.unwrap_or(bytes);
        if directory.style.remove(&mut bytes, &entry.name).unwrap_or(false) {
            directory.seal_and_write(draft, at, block, &mut bytes)?;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

pub(crate) fn style(draft: &Draft) -> Style {
    Style {
        block_size: draft.superblock.block_size(),
        typed: draft.superblock.has(Feature::FILETYPE),
        checksummed: draft.has_checksums(),
    }
}

/// Sets the `..` of a directory. Gives whether it could.
///
/// # Errors
/// The device's.
pub(crate) fn set_parent(draft: &Draft, ino: Ino, parent: Ino) -> Result<bool> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    if inode.flags & flags::INLINE_DATA != 0 {
        if let Some(place) = inode.block.first_chunk_mut::<4>() {
            *place = parent.0.to_le_bytes();
        }
        draft.write_inode(ino, &inode)?;
        return Ok(true);
    }
    let Some(directory) = Directory::open(draft, ino)? else { return Ok(false) };
    let Some((at, block)) = directory.blocks().first().copied() else { return Ok(false) };
    let Some(mut bytes) = draft.read(block)? else { return Ok(false) };
    let kind = FileType::Directory;
    let is_set = directory.style.replace(&mut bytes, b"..", parent, kind).unwrap_or(false);
    if is_set {
        directory.seal_and_write(draft, at, block, &mut bytes)?;
    }
    Ok(is_set)
}

/// Writes a new directory into an inode: empty, with one block.
///
/// # Errors
/// The device's.
pub(crate) fn create(draft: &mut Draft, ino: Ino, parent: Ino, mode: u16) -> Result<bool> {
    let goal = draft.superblock.group_of_inode(ino);
    let goal = goal.map_or(BlockNo(0), |(group, _)| draft.superblock.group_start(group));
    let Some(block) = draft.allocate(goal) else { return Ok(false) };
    let mut inode = Inode::new(FileType::Directory.mode_bits() | mode, &draft.superblock);
    inode.links = 2;
    inode.size = draft.block_size() as u64;
    inode.sectors = draft.block_size() as u64 / extant_format::SECTOR_BYTES
        * u64::from(draft.usage.cluster_blocks());
    if draft.superblock.has(Feature::EXTENTS) {
        inode.flags = flags::EXTENTS;
    }
    let now = extant_format::inode::Time { seconds: draft.now.into(), ..Default::default() };
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    let run = MapRun { file_block: 0, start: block.0, length: 1, state: ExtentState::Written };
    let map = FileMap { runs: vec![run], nodes: Vec::new() };
    map::write(draft, ino, &mut inode, &map)?;
    draft.write_inode(ino, &inode)?;
    let Some(directory) = Directory::open(draft, ino)? else { return Ok(false) };
    let mut bytes = vec![0; draft.block_size()];
    directory.style.initialize_first(&mut bytes, ino, parent);
    directory.seal_and_write(draft, 0, block, &mut bytes)?;
    Ok(true)
}
