//! The files that fast commits change, kept in memory until all changes are known.
//!
//! A later fast commit may unlink what an earlier one wrote, and give its inode number to another
//! file. So blocks are not given and freed tag by tag. All blocks that any tag maps are marked in
//! use first, so that nothing else is put there. When the last tag is known, the blocks that a file
//! owned before or that were marked, and that no file owns now, are freed.
//!
//! *Invariants*: `before` holds the data blocks that the files of `drafts` (and those that they
//! replaced) own on disk. `claimed` holds blocks that were free when the fast commits were read.
//! *Locking*: none; one thread replays.
use super::change::{decode, wrong};
use crate::error::Result;
use crate::inode::mapping::clusters;
use crate::inode::mapping::rewrite::Rewrite;
use crate::inode::operation::Operation;
use crate::inode::unfinished::remove_orphan;
use crate::inode::{NodeState, Volume, attribute, credits, mapping, table};
use crate::policy::allocation::Purpose;
use crate::runs::RunSet;
use crate::space::{InodeKind, Reuse};
use extant_format::extent::{Extent, FILE_BLOCKS_MAX};
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino, Run};
use std::collections::BTreeMap;
use std::ops::Range;

/// A file as it is after the tags so far.
struct Draft {
    state: NodeState,
    /// Its extents; `None` for what has no extent tree.
    map: Option<Rewrite>,
    /// The number is in use in the inode bitmap.
    is_counted: bool,
    /// On disk it has no name, so it is on the list of orphans there: it keeps its place in the
    /// list, and is freed with it.
    is_orphan: bool,
}

impl Draft {
    /// Whether it is there after the replay: it has a name, or the list of orphans frees it.
    fn stays(&self) -> bool {
        self.state.inode.links > 0 || self.is_orphan
    }
}

/// File blocks, and the extent that maps them from then on, if any.
type SetRange = (Range<u64>, Option<Extent>);

/// Everything but directories.
pub(super) struct Files<'v> {
    volume: &'v Volume,
    drafts: BTreeMap<Ino, Draft>,
    before: RunSet,
    claimed: RunSet,
    /// Ranges that were set since the last tag of an inode with this number: that tag may say that
    /// the number is another file's, whose ranges they are then.
    set: BTreeMap<Ino, Vec<SetRange>>,
    /// Nodes of the trees that the files had on disk.
    nodes: Vec<BlockNo>,
    /// How many nodes were read, which is at most as many as the device holds.
    nodes_read: u64,
}

/// Blocks of metadata that the end of one file changes, apart from those of single runs.
const FILE: u32 = credits::INODE + credits::ORPHAN + credits::ATTRIBUTES + credits::NEW_INODE;

impl<'v> Files<'v> {
    pub(super) fn new(volume: &'v Volume) -> Files<'v> {
        Files {
            volume,
            drafts: BTreeMap::new(),
            before: RunSet::default(),
            claimed: RunSet::default(),
            set: BTreeMap::new(),
            nodes: Vec::new(),
            nodes_read: 0,
        }
    }

    /// Marks the blocks of an extent as in use, as far as they are free.
    pub(super) fn claim(&mut self, extent: &Extent) -> Result<()> {
        let run = Run { start: extent.start, length: extent.length };
        let volume = self.volume;
        let groups = volume.space.bitmaps_of(run);
        let claimed = volume.change(groups, |work| volume.space.claim_blocks(work, run))?;
        claimed.into_iter().for_each(|run| {
            self.claimed.insert(blocks_of(run));
        });
        Ok(())
    }

    /// Whether this is a file that was met already, or a file on disk.
    pub(super) fn has(&self, ino: Ino) -> Result<bool> {
        Ok(self.drafts.contains_key(&ino)
            || self.volume.space.inode_in_use(ino)?
                && table::load(self.volume, ino)?.file_type() != Some(FileType::Directory))
    }

    /// Whether this is a file that has a name.
    pub(super) fn is_named(&mut self, ino: Ino) -> Result<bool> {
        Ok(self.has(ino)? && self.draft(ino)?.state.inode.links > 0)
    }

    /// The file type of a file that was met, or is in use on disk.
    pub(super) fn file_type(&mut self, ino: Ino) -> Result<FileType> {
        self.draft(ino)?.state.file_type()
    }

    /// An inode is like this from here on.
    pub(super) fn set_inode(&mut self, ino: Ino, bytes: &[u8]) -> Result<()> {
        let (mut inode, _) = decode(self.volume, ino, bytes)?;
        let same = match self.has(ino)? {
            true => Some(self.draft(ino)?).filter(|draft| {
                let old = &draft.state.inode;
                old.generation == inode.generation && old.mode >> 12 == inode.mode >> 12
            }),
            false => None,
        };
        let Some(draft) = same else { return self.begin(ino, inode) };
        let old = &draft.state.inode;
        if inode.has_extents() != old.has_extents() {
            return Err(wrong(ino, "flags", inode.flags.into(), "those of another kind of map"));
        }
        if inode.has_extents() || draft.state.file_type()? == FileType::Regular {
            inode.block = old.block;
        }
        // Of a tree they are counted when it is written; nothing else changes its map here.
        inode.sectors = old.sectors;
        if inode.tail.is_empty() {
            inode.tail = old.tail.clone();
        }
        inode.attribute_block = old.attribute_block;
        // The next on the list of orphans; what a fast commit has there is a pointer in memory.
        inode.deletion_time = old.deletion_time;
        draft.state.inode = inode;
        self.set.remove(&ino);
        Ok(())
    }

    /// A new file takes this number. What the last one with it owned is freed at the end.
    fn begin(&mut self, ino: Ino, inode: Inode) -> Result<()> {
        let volume = self.volume;
        let has_extents = inode.has_extents();
        if inode.attribute_block.0 != 0 {
            let why = "not part of a fast commit";
            return Err(wrong(ino, "attribute block", inode.attribute_block.0, why));
        }
        let file_type = inode.file_type();
        if !has_extents && file_type == Some(FileType::Regular) {
            let why = "of a new file without extents, whose map is not in a fast commit";
            return Err(wrong(ino, "flags", inode.flags.into(), why));
        }
        let old = self.let_go(ino)?;
        let mut state = NodeState::fresh(volume, ino, inode);
        if let Some(old) = &old {
            state.counted = old.state.counted.clone();
        }
        state.inode.sectors = 0;
        let next_orphan =
            |old: &Draft| if old.is_orphan { old.state.inode.deletion_time } else { 0 };
        state.inode.deletion_time = old.as_ref().map_or(0, next_orphan);
        let is_counted = old.is_some_and(|old| old.is_counted);
        if has_extents {
            mapping::initialize(&mut state);
        }
        let mut map = has_extents.then(Rewrite::empty);
        for (range, extent) in self.set.remove(&ino).unwrap_or_default() {
            map.iter_mut().for_each(|map| map.put(range.clone(), extent));
        }
        self.drafts.insert(ino, Draft { state, map, is_counted, is_orphan: false });
        Ok(())
    }

    /// Forgets the file that has this number, if there is one; what it owns on disk is freed at the
    /// end.
    fn let_go(&mut self, ino: Ino) -> Result<Option<Draft>> {
        if !self.has(ino)? {
            return Ok(None);
        }
        self.draft(ino)?;
        let Some(mut draft) = self.drafts.remove(&ino) else { return Ok(None) };
        self.nodes.extend(draft.map.iter_mut().flat_map(Rewrite::take_nodes));
        self.volume.change(FILE, |work| {
            release_indirect(work, &mut draft)?;
            attribute::release_values(work, &mut draft.state)?;
            work.need(FILE);
            attribute::release_all(work, &mut draft.state)
        })?;
        Ok(Some(draft))
    }

    /// Frees a number that a file had which is no more, for a directory to take.
    pub(super) fn free_number(&mut self, ino: Ino) -> Result<()> {
        if let Some(mut old) = self.let_go(ino)?.filter(|old| old.is_counted) {
            let volume = self.volume;
            volume.change(FILE, |work| {
                work.end_count(&mut old.state.counted)?;
                volume.space.free_inode(work, ino, InodeKind::Other)
            })?;
        }
        Ok(())
    }

    /// Maps an extent, or unmaps a range.
    pub(super) fn set_range(
        &mut self,
        ino: Ino,
        range: Range<u64>,
        extent: Option<Extent>,
    ) -> Result<()> {
        let draft = self.draft(ino)?;
        match &mut draft.map {
            Some(map) => {
                map.put(range.clone(), extent);
                self.set.entry(ino).or_default().push((range, extent));
                Ok(())
            }
            None => {
                let flags = draft.state.inode.flags.into();
                Err(wrong(ino, "flags", flags, "of an inode without extents that maps a range"))
            }
        }
    }

    /// Counts a name that was added.
    pub(super) fn add_link(&mut self, ino: Ino) -> Result<()> {
        let inode = &mut self.draft(ino)?.state.inode;
        inode.links = inode.links.saturating_add(1);
        Ok(())
    }

    /// Counts a name that was removed.
    pub(super) fn drop_link(&mut self, ino: Ino) -> Result<()> {
        let inode = &mut self.draft(ino)?.state.inode;
        inode.links = inode.links.saturating_sub(1);
        Ok(())
    }

    /// The draft of a file, read from its table if it is the first time.
    fn draft(&mut self, ino: Ino) -> Result<&mut Draft> {
        if !self.drafts.contains_key(&ino) {
            let draft = self.read(ino)?;
            self.drafts.insert(ino, draft);
        }
        self.drafts.get_mut(&ino).ok_or_else(|| absent(ino))
    }

    fn read(&mut self, ino: Ino) -> Result<Draft> {
        let volume = self.volume;
        if !volume.space.inode_in_use(ino)? {
            return Err(absent(ino));
        }
        let state = NodeState::new(volume, ino, table::load(volume, ino)?);
        if state.file_type()? == FileType::Directory {
            let why = "a directory, where a file is meant";
            return Err(wrong(ino, "mode", state.inode.mode.into(), why));
        }
        let is_mapped =
            state.inode.has_extents() && !state.inode.is_fast_symlink(&volume.store.superblock);
        let map = is_mapped.then(|| Rewrite::read(volume, &state)).transpose()?;
        for run in map.iter().flat_map(Rewrite::runs) {
            self.before.insert(blocks_of(volume.space.whole_units(run)));
        }
        self.nodes_read += map.as_ref().map_or(0, Rewrite::node_count);
        if self.nodes_read > volume.store.held_blocks()?.max(1) {
            let why = "more than the device holds";
            return Err(wrong(ino, "nodes of the changed trees", self.nodes_read, why));
        }
        let is_orphan = state.inode.links == 0;
        Ok(Draft { state, map, is_counted: true, is_orphan })
    }

    /// Writes all files, frees what they no longer own, and frees those without a name.
    ///
    /// # Errors
    /// `Corrupt` when a block would belong to two files; what the device returns.
    pub(super) fn finish(mut self) -> Result<()> {
        self.free_rest()?;
        let volume = self.volume;
        for draft in self.drafts.values_mut() {
            self.nodes.extend(draft.map.iter_mut().flat_map(Rewrite::take_nodes));
        }
        for block in std::mem::take(&mut self.nodes) {
            let run = Run { start: block, length: 1 };
            volume.change(credits::RUN, |work| {
                volume.space.free_metadata(work, run, Reuse::AtOnce)
            })?;
        }
        for (ino, draft) in std::mem::take(&mut self.drafts) {
            if draft.stays() {
                write(volume, ino, draft)?;
            } else if draft.is_counted {
                volume.change(FILE, |work| free(work, ino, draft))?;
            }
        }
        Ok(())
    }

    /// Frees the blocks that were owned or claimed and that no file owns now.
    fn free_rest(&self) -> Result<()> {
        let mut allowed = self.before.clone();
        for run in runs(&self.claimed) {
            allowed.insert(run);
        }
        let mut owned = RunSet::default();
        for (ino, draft) in self.drafts.iter().filter(|(_, draft)| draft.stays()) {
            for run in whole_runs(self.volume, draft) {
                let blocks = blocks_of(run);
                let is_known = allowed
                    .next(blocks.start)
                    .is_some_and(|known| known.start == blocks.start && known.end >= blocks.end);
                if !is_known {
                    let why = "of blocks that belong to something else";
                    return Err(wrong(*ino, "start of a range", blocks.start, why));
                }
                if owned.insert(blocks.clone()) < u64::from(run.length) {
                    let why = "of blocks that another range has too";
                    return Err(wrong(*ino, "start of a range", blocks.start, why));
                }
            }
        }
        for run in runs(&owned) {
            allowed.remove(run);
        }
        let volume = self.volume;
        for run in runs(&allowed) {
            for start in run.clone().step_by(MOST) {
                let length = (run.end - start).min(MOST as u64) as u32; // at most MOST
                let run = Run { start: BlockNo(start), length };
                let groups = volume.space.bitmaps_of(run);
                volume.change(groups, |work| volume.space.free_data(work, run, Reuse::AtOnce))?;
            }
        }
        Ok(())
    }
}

/// Blocks that are freed at once, at most.
const MOST: usize = 1 << 20;

/// Writes a file that has a name.
fn write(volume: &Volume, ino: Ino, mut draft: Draft) -> Result<()> {
    let blocks = whole_runs(volume, &draft).into_iter().map(|run| u64::from(run.length));
    let blocks = blocks.sum::<u64>();
    let state = &mut draft.state;
    let in_sectors = u64::from(volume.store.block_size() / 512);
    let attributes = u64::from(state.inode.attribute_block.0 != 0);
    let blocks = blocks + attributes * clusters::cluster_blocks(volume);
    let need = draft.map.as_ref().map_or(0, |map| map.need(volume, state));
    let mut reservation = volume.space.reserve(need)?;
    volume.change(FILE, |work| {
        if !draft.is_counted {
            volume.space.claim_inode(work, ino, InodeKind::Other)?;
        }
        if let Some(map) = draft.map.take() {
            state.inode.sectors = blocks * in_sectors;
            map.apply(work, &mut reservation, state)?;
        }
        work.need(FILE);
        work.note_size(state.inode.size);
        state.store_now(work)
    })
}

/// Frees a file whose blocks and nodes are free already.
fn free(work: &Operation<'_>, ino: Ino, mut draft: Draft) -> Result<()> {
    release_indirect(work, &mut draft)?;
    let (volume, state) = (work.volume(), &mut draft.state);
    attribute::release_values(work, state)?;
    work.need(FILE);
    attribute::release_all(work, state)?;
    if draft.map.is_some() {
        mapping::initialize(state);
    }
    state.inode.size = 0;
    state.inode.sectors = 0;
    let latest = state.inode.change_time.seconds.clamp(1, u32::MAX.into());
    state.inode.deletion_time = u32::try_from(latest).unwrap_or(u32::MAX);
    remove_orphan(work, state)?;
    work.end_count(&mut state.counted)?;
    state.store_now(work)?;
    volume.space.free_inode(work, ino, InodeKind::Other)
}

/// Frees the blocks of a file that has indirect blocks. Fast commits do not change its map, so it
/// is the one on disk.
fn release_indirect(work: &Operation<'_>, draft: &mut Draft) -> Result<()> {
    let superblock = &work.volume().store.superblock;
    let has_blocks = match draft.state.file_type()? {
        FileType::Regular => true,
        FileType::Symlink => !draft.state.inode.is_fast_symlink(superblock),
        _ => false,
    };
    if draft.map.is_some() || !has_blocks || !draft.is_counted {
        return Ok(());
    }
    mapping::remove(work, &mut draft.state, 0..FILE_BLOCKS_MAX, Purpose::Data).map(drop)
}

/// The runs that a file is mapped to, in its order; with bigalloc its clusters.
fn whole_runs(volume: &Volume, draft: &Draft) -> Vec<Run> {
    clusters::each_once(volume, draft.map.iter().flat_map(Rewrite::runs).collect())
}

fn absent(ino: Ino) -> crate::error::Error {
    wrong(ino, "inode", ino.0.into(), "not in use")
}

fn blocks_of(run: Run) -> Range<u64> {
    run.start.0..run.start.0 + u64::from(run.length)
}

/// The runs of a set, rising.
fn runs(set: &RunSet) -> impl Iterator<Item = Range<u64>> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let run = set.next(from)?;
        from = run.end;
        Some(run)
    })
}
