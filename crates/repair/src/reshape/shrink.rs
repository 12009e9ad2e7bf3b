//! Less blocks: what is past the new end moves before it, inodes get other numbers, and the groups
//! go.
//!
//! ```text
//! inodes past the end | their bytes       room | for tables, bitmaps and copies that move
//! every file          | runs past the end -> free runs before it, map, attributes, names
//! superblock          | numbers of files of its own, the journal's copy, descriptors
//! ```
//!
//! *Invariants*: a block is moved once: to a place that was free in the volume as it is on the
//! device, so that its content can be copied before anything else is written, or, where none is
//! left, to one of the groups that go, by the log. *Locking*: none, one thread.
use super::Move;
use super::names;
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::free::FreeRuns;
use crate::growth_map;
use crate::map::{self, FileMap, MapRun, is_mapped};
use extant_format::extent::ExtentState;
use extant_format::group::{GroupDescriptor, INODE_UNINIT};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, attribute, indirect, orphan_file};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks that one copy has at most, so that a run that is moved finds room.
const RUN_BLOCKS_MAX: u64 = 32768;

/// A volume on its way to less blocks.
struct Shrinking<'a> {
    draft: &'a mut Draft,
    /// The first block that it will not have.
    end: u64,
    /// Blocks before the end that copies of the superblock get.
    wanted: Vec<Range<u64>>,
    free: FreeRuns,
    renumbered: BTreeMap<Ino, Ino>,
    /// Blocks of attributes that were moved or looked at, and where they are.
    attribute_blocks: BTreeMap<BlockNo, BlockNo>,
    /// Clusters of several blocks that were moved, and where they are: files may have them in
    /// pieces.
    clusters: BTreeMap<u64, u64>,
    /// Clusters of groups that go, which have something else now.
    by_log: BTreeSet<u64>,
    moves: Vec<Move>,
    /// Blocks of files that move, by a copy or by the log.
    moved_blocks: u64,
}

/// A field of a descriptor.
type Field = fn(&mut GroupDescriptor) -> &mut BlockNo;

/// A bitmap or a table that moves.
struct Part {
    group: GroupNo,
    from: BlockNo,
    to: BlockNo,
    blocks: u64,
    place: Field,
}

/// Makes the volume what `after` says. Gives the contents that are to be copied, and how many
/// blocks of files are at another place.
///
/// # Errors
/// The device's; there is no room for what moves, or it cannot be moved.
pub(super) fn shrink(draft: &mut Draft, after: &Superblock) -> Result<(Vec<Move>, u64)> {
    let before = draft.superblock.clone();
    let orphans = past_the_end(draft, after)?;
    if let (true, Some((ino, _))) = (before.has(Feature::STABLE_INODES), orphans.first()) {
        return Err(Error::Refused(format!(
            "inode {ino} would get another number, which the feature stable_inodes forbids"
        )));
    }
    draft.superblock = after.clone();
    let wanted: Vec<Range<u64>> = (0..after.group_count())
        .map(GroupNo)
        .filter(|group| after.super_overhead(*group) > before.super_overhead(*group))
        .map(|group| {
            let start = after.group_start(group).0;
            start..start.saturating_add(after.super_overhead(group).into())
        })
        .collect();
    let end = after.blocks_count;
    let free = free_before(draft, end, &wanted);
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    draft.released = FreeRuns::released(cluster, end, &released(draft, &before, after, &wanted));
    let mut shrinking = Shrinking::new(draft, end, wanted, free);
    let parts = shrinking.parts()?;
    shrinking.renumber(orphans.iter().map(|(ino, _)| *ino))?;
    shrinking.files(after.inodes_count)?;
    for (ino, bytes) in orphans {
        let to = shrinking.renumbered.get(&ino).copied().unwrap_or(ino);
        shrinking.file(ino, to, bytes)?;
    }
    shrinking.own_numbers()?;
    shrinking.move_parts(parts)?;
    let Shrinking { draft, moves, moved_blocks, .. } = shrinking;
    forget_groups(draft)?;
    draft.superblock.written_seconds = draft.now.into();
    draft.write_superblock()?;
    Ok((moves, moved_blocks))
}

/// Moves what files and the volume have in ranges of blocks, which rise and are whole clusters and
/// no tables, bitmaps or copies. Gives the contents that are to be copied, and how many blocks of
/// files are at another place.
///
/// # Errors
/// The device's; there is no room for what moves.
pub(super) fn evacuate(draft: &mut Draft, wanted: Vec<Range<u64>>) -> Result<(Vec<Move>, u64)> {
    let end = draft.superblock.blocks_count;
    let free = free_before(draft, end, &wanted);
    let inodes = draft.superblock.inodes_count;
    let mut shrinking = Shrinking::new(draft, end, wanted, free);
    shrinking.files(inodes)?;
    shrinking.own_numbers()?;
    Ok((shrinking.moves, shrinking.moved_blocks))
}

/// The inodes in use that the volume will not have, with their bytes.
fn past_the_end(draft: &Draft, after: &Superblock) -> Result<Vec<(Ino, Vec<u8>)>> {
    let first = after.inodes_count.saturating_add(1);
    let mut found = Vec::new();
    for ino in (first..=draft.superblock.inodes_count).map(Ino) {
        if draft.usage.is_used(ino)
            && let Some(bytes) = draft.inode_bytes(ino)?
        {
            found.push((ino, bytes));
        }
    }
    Ok(found)
}

/// The bitmaps and tables of groups that go, rising.
fn released(
    draft: &Draft,
    before: &Superblock,
    after: &Superblock,
    wanted: &[Range<u64>],
) -> Vec<Range<u64>> {
    let table = u64::from(before.inode_table_blocks());
    let groups = (after.group_count()..before.group_count()).map(GroupNo);
    let parts = groups.filter_map(|group| draft.usage.descriptor(group)).flat_map(|of| {
        let starts = [(of.block_bitmap.0, 1), (of.inode_bitmap.0, 1), (of.inode_table.0, table)];
        starts.map(|(start, length)| start..start.saturating_add(length))
    });
    let is_wanted = |part: &Range<u64>| {
        wanted.iter().any(|range| range.start < part.end && part.start < range.end)
    };
    let mut parts: Vec<Range<u64>> = parts.filter(|part| !is_wanted(part)).collect();
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

/// What is free before block `end`, without the blocks of `wanted`.
fn free_before(draft: &Draft, end: u64, wanted: &[Range<u64>]) -> FreeRuns {
    let mut runs = FreeRuns::default();
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let whole = end / cluster;
    let mut open: Option<Range<u64>> = None;
    for group in (0..draft.superblock.group_count()).map(GroupNo) {
        let bits = draft.usage.block_bits(group);
        let first = draft.superblock.group_start(group).0 / cluster;
        for at in 0..u64::from(bits.count) {
            let word = bits.words.get((at / 64) as usize).copied().unwrap_or(u64::MAX);
            let here = first.saturating_add(at);
            let is_free = word >> (at % 64) & 1 == 0 && here < whole;
            match &mut open {
                Some(run) if is_free && run.end == here => run.end = here + 1,
                _ => {
                    runs.close(open.take());
                    open = is_free.then(|| here..here + 1);
                }
            }
        }
    }
    runs.close(open);
    for range in wanted {
        runs.remove(range.start / cluster..range.end.div_ceil(cluster));
    }
    runs
}

/// Takes up to `most` clusters: all of them after `goal` if that is free, else the shortest run
/// that has them, else as many as the longest has. `None` where nothing is free.
fn take_free(runs: &mut FreeRuns, draft: &Draft, goal: u64, most: u64) -> Option<Range<u64>> {
    loop {
        let run = runs.best(goal, most)?;
        let taken = run.start..run.end.min(run.start + most);
        // Nodes of maps come from the same room by another way.
        match stolen(draft, &taken) {
            None => {
                runs.close(Some(taken.end..run.end));
                let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
                let blocks = (taken.end - taken.start) * cluster;
                draft.usage.take(BlockNo(taken.start * cluster), blocks);
                return Some(taken);
            }
            Some(at) => {
                runs.close(Some(run.start..at));
                runs.close(Some(at + 1..run.end));
            }
        }
    }
}

/// The first cluster of a range that is not free any more.
fn stolen(draft: &Draft, range: &Range<u64>) -> Option<u64> {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let is_free =
        |start: u64, length: u64| draft.usage.is_free(BlockNo(start * cluster), length * cluster);
    if is_free(range.start, range.end - range.start) {
        return None;
    }
    range.clone().find(|at| !is_free(*at, 1))
}

/// Makes zeros of the descriptors that are not used any more, after the last one of their block.
fn forget_groups(draft: &Draft) -> Result<()> {
    let last = GroupNo(draft.superblock.group_count().saturating_sub(1));
    let (block, offset) = draft.superblock.descriptor_place(last);
    let after = offset.saturating_add(draft.superblock.descriptor_size.into());
    let Some(mut bytes) = draft.read(block)? else { return Ok(()) };
    if let Some(rest) = bytes.get_mut(after..) {
        rest.fill(0);
    }
    draft.write(block, &bytes)
}

fn no_room() -> Error {
    Error::NoRoom
}

impl<'a> Shrinking<'a> {
    /// Nothing has moved yet. What is free of `wanted`, which rises, is taken.
    fn new(draft: &'a mut Draft, end: u64, wanted: Vec<Range<u64>>, free: FreeRuns) -> Self {
        for range in &wanted {
            let is_free = |block: &u64| draft.usage.is_free(BlockNo(*block), 1);
            let free: Vec<u64> = range.clone().filter(is_free).collect();
            free.into_iter().for_each(|block| draft.usage.take(BlockNo(block), 1));
        }
        Shrinking {
            draft,
            end,
            wanted,
            free,
            renumbered: BTreeMap::new(),
            attribute_blocks: BTreeMap::new(),
            clusters: BTreeMap::new(),
            by_log: BTreeSet::new(),
            moves: Vec::new(),
            moved_blocks: 0,
        }
    }

    /// Moves what files up to a number have where nothing may stay.
    fn files(&mut self, last: u32) -> Result<()> {
        for ino in (1..=last).map(Ino) {
            if !self.is_in_use(ino) {
                continue;
            }
            if let Some(bytes) = self.draft.inode_bytes(ino)? {
                self.file(ino, ino, bytes)?;
            }
        }
        Ok(())
    }

    /// Whether an inode has anything that may move.
    fn is_in_use(&self, ino: Ino) -> bool {
        self.draft.usage.is_used(ino) || ino.0 < self.draft.superblock.first_inode
    }

    fn must_move(&self, block: u64) -> bool {
        let after = self.wanted.partition_point(|range| range.start <= block);
        let range = after.checked_sub(1).and_then(|at| self.wanted.get(at));
        block >= self.end || range.is_some_and(|range| range.contains(&block))
    }

    /// The end of the blocks from this one on that all move, or all stay.
    fn stretch_end(&self, block: u64) -> u64 {
        if block >= self.end {
            return u64::MAX;
        }
        let after = self.wanted.partition_point(|range| range.end <= block);
        let edges = self.wanted.get(after).map(|range| [range.start, range.end]);
        let edges = edges.into_iter().flatten().chain([self.end]);
        edges.filter(|edge| *edge > block).min().unwrap_or(u64::MAX)
    }

    fn cluster(&self) -> u64 {
        u64::from(self.draft.usage.cluster_blocks()).max(1)
    }

    /// Room for blocks that are together.
    fn room_for(&mut self, blocks: u64) -> Result<BlockNo> {
        let cluster = self.cluster();
        let clusters = blocks.div_ceil(cluster);
        let is_whole = |run: &Range<u64>| run.end - run.start == clusters;
        let free = take_free(&mut self.free, self.draft, u64::MAX, clusters).filter(is_whole);
        let room = free.or_else(|| self.draft.released.take(u64::MAX, clusters));
        let room = room.filter(is_whole).ok_or_else(no_room)?;
        Ok(BlockNo(room.start * cluster))
    }

    /// Bitmaps and tables that move, and room for them.
    fn parts(&mut self) -> Result<Vec<Part>> {
        let table = u64::from(self.draft.superblock.inode_table_blocks());
        let mut parts = Vec::new();
        for group in (0..self.draft.superblock.group_count()).map(GroupNo) {
            let Some(mut of) = self.draft.descriptor(group)? else { continue };
            let places: [(u64, Field); 3] = [
                (table, |of| &mut of.inode_table),
                (1, |of| &mut of.block_bitmap),
                (1, |of| &mut of.inode_bitmap),
            ];
            for (blocks, place) in places {
                let from = *place(&mut of);
                if (from.0..from.0 + blocks).any(|block| self.must_move(block)) {
                    let to = self.room_for(blocks)?;
                    parts.push(Part { group, from, to, blocks, place });
                }
            }
        }
        Ok(parts)
    }

    /// Copies bitmaps and tables, as they are by now.
    fn move_parts(&mut self, parts: Vec<Part>) -> Result<()> {
        for Part { group, from, to, blocks, place } in parts {
            for at in 0..blocks {
                if let Some(bytes) = self.draft.read(BlockNo(from.0 + at))? {
                    self.draft.write(BlockNo(to.0 + at), &bytes)?;
                }
            }
            let Some(mut of) = self.draft.descriptor(group)? else { continue };
            *place(&mut of) = to;
            self.draft.write_descriptor(group, &of)?;
        }
        Ok(())
    }

    /// Gives inodes other numbers. Groups that had none in use have some now.
    fn renumber(&mut self, inodes: impl Iterator<Item = Ino>) -> Result<()> {
        for ino in inodes {
            let Some(to) = self.draft.allocate_inode() else {
                return Err(Error::NoRoom);
            };
            self.renumbered.insert(ino, to);
            let Some((group, at)) = self.draft.superblock.group_of_inode(to) else { continue };
            let Some(mut of) = self.draft.descriptor(group)? else { continue };
            let unused = self.draft.superblock.inodes_per_group - at - 1;
            if of.unused_inodes > unused || of.flags & INODE_UNINIT != 0 {
                of.unused_inodes = of.unused_inodes.min(unused);
                of.flags &= !INODE_UNINIT;
                self.draft.write_descriptor(group, &of)?;
            }
        }
        Ok(())
    }

    /// Moves what a file has past the end, and gives it its number.
    fn file(&mut self, ino: Ino, to: Ino, mut bytes: Vec<u8>) -> Result<()> {
        let before = Inode::decode(&bytes, &self.draft.superblock);
        let mut inode = before.clone();
        if inode.attribute_block.0 != 0 {
            inode.attribute_block = self.attribute_block(inode.attribute_block)?;
        }
        names::renumber_values(&mut inode.tail, 4, &self.renumbered);
        let is_directory = inode.file_type() == Some(FileType::Directory);
        let is_moved = ino != to;
        if is_mapped(&inode, &self.draft.superblock) && ino != Ino::RESIZE {
            let map = map::read(self.draft, &inode)?;
            let (runs, has_moved) = match ino {
                Ino::BAD_BLOCKS => self.cut(&map.runs),
                _ => self.moved(&map.runs)?,
            };
            let nodes: Vec<BlockNo> =
                map.nodes.iter().copied().filter(|node| !self.must_move(node.0)).collect();
            // The number of the inode is in the checksum of each node.
            let is_sealed_anew = is_moved && !nodes.is_empty();
            if has_moved || nodes.len() < map.nodes.len() || is_sealed_anew {
                let count = map.nodes.len() as u64;
                let written = FileMap { runs: runs.clone(), nodes };
                let left = map::write(self.draft, to, &mut inode, &written);
                let left = left.map_err(|error| match error {
                    Error::Refused(_) => no_room(),
                    error => error,
                })?;
                let freed = self.draft.sectors(count);
                let taken = self.draft.sectors(left);
                inode.sectors = inode.sectors.saturating_sub(freed).saturating_add(taken);
                if ino == Ino::BAD_BLOCKS {
                    inode.sectors = self.draft.sectors(runs.iter().map(|run| run.length).sum());
                    inode.sectors = inode.sectors.saturating_add(taken);
                }
            }
            if is_directory && (is_moved || !self.renumbered.is_empty()) {
                names::renumber_blocks(self.draft, (to, &inode), &runs, &self.renumbered)?;
            }
            let is_of_orphans = self.draft.superblock.has(Feature::ORPHAN_FILE)
                && ino.0 == self.draft.superblock.orphan_file_inode;
            if is_of_orphans && (is_moved || has_moved) {
                self.orphan_file(to, &inode, &runs)?;
            }
        } else if is_directory && inode.flags & flags::INLINE_DATA != 0 {
            names::renumber_inline(&self.draft.superblock, &mut inode, &self.renumbered);
        }
        if is_moved || inode != before {
            self.store(to, (&before, &inode), &mut bytes)?;
        }
        Ok(())
    }

    /// Writes an inode: the bytes of fields that are not known here stay.
    fn store(&self, to: Ino, (before, inode): (&Inode, &Inode), bytes: &mut [u8]) -> Result<()> {
        let superblock = &self.draft.superblock;
        let [was, is] = [before, inode].map(|inode| {
            let mut encoded = vec![0; bytes.len()];
            inode.encode(&mut encoded, to, superblock);
            encoded
        });
        for ((byte, was), is) in bytes.iter_mut().zip(was).zip(is).filter(|it| it.0.1 != it.1) {
            let _ = was;
            *byte = is;
        }
        self.draft.write_inode_bytes(to, bytes)
    }

    /// Runs without what is past the end.
    fn cut(&self, runs: &[MapRun]) -> (Vec<MapRun>, bool) {
        let mut kept = Vec::new();
        let mut is_cut = false;
        for run in runs {
            for at in 0..run.length {
                let start = run.start.saturating_add(at);
                if self.must_move(start) {
                    is_cut = true;
                    continue;
                }
                let file_block = kept.len() as u64;
                kept.push(MapRun { file_block, start, length: 1, ..*run });
            }
        }
        (kept, is_cut)
    }

    /// Runs with new places for what moves, and whether anything does.
    fn moved(&mut self, runs: &[MapRun]) -> Result<(Vec<MapRun>, bool)> {
        let mut moved = Vec::with_capacity(runs.len());
        let mut has_moved = false;
        for run in runs {
            let mut at = 0;
            while at < run.length {
                let start = run.start.saturating_add(at);
                let length = (run.length - at).min(self.stretch_end(start) - start);
                let piece = MapRun { file_block: run.file_block + at, start, length, ..*run };
                if self.must_move(start) {
                    has_moved = true;
                    let goal = moved.last().map_or(0, |last: &MapRun| last.start + last.length);
                    self.piece(piece, goal, &mut moved)?;
                } else {
                    moved.push(piece);
                }
                at += length;
            }
        }
        Ok((moved, has_moved))
    }

    /// Finds room for a run that moves whole, in as few pieces as there can be.
    fn piece(&mut self, run: MapRun, goal: u64, moved: &mut Vec<MapRun>) -> Result<()> {
        let cluster = self.cluster();
        let (mut at, mut goal) = (0, goal.div_ceil(cluster));
        while at < run.length {
            let start = run.start + at;
            let within = start % cluster;
            let known = if cluster > 1 { self.clusters.get(&(start / cluster)) } else { None };
            let (first, clusters) = match known {
                Some(first) => (*first, 1),
                None => {
                    let wanted = (within + run.length - at).div_ceil(cluster).min(RUN_BLOCKS_MAX);
                    let free = take_free(&mut self.free, self.draft, goal, wanted);
                    let found = free.or_else(|| {
                        let found = self.draft.released.take(goal, wanted);
                        self.by_log.extend(found.iter().flat_map(Range::clone));
                        found
                    });
                    let found = found.ok_or_else(no_room)?;
                    (found.start, found.end - found.start)
                }
            };
            if cluster > 1 {
                for number in 0..clusters {
                    self.clusters.insert(start / cluster + number, first + number);
                }
            }
            let to = first * cluster + within;
            let length = (run.length - at).min(clusters * cluster - within);
            self.moved_blocks += length;
            self.content((start, to, length), run.state)?;
            moved.push(MapRun { file_block: run.file_block + at, start: to, length, ..run });
            goal = first + clusters;
            at += length;
        }
        Ok(())
    }

    /// Notes that blocks move; nothing was written to an unwritten one.
    fn content(&mut self, (from, to, blocks): (u64, u64, u64), state: ExtentState) -> Result<()> {
        if state == ExtentState::Unwritten {
            return Ok(());
        }
        let cluster = self.cluster();
        if self.by_log.contains(&(to / cluster)) {
            for at in 0..blocks {
                if let Some(bytes) = self.draft.read(BlockNo(from + at))? {
                    self.draft.write(BlockNo(to + at), &bytes)?;
                }
            }
            return Ok(());
        }
        self.draft.redirect(to, from, blocks)?;
        self.moves.push(Move { from: BlockNo(from), to: BlockNo(to), blocks });
        Ok(())
    }

    /// Where a block of attributes is, once what it leads to has its new numbers.
    fn attribute_block(&mut self, block: BlockNo) -> Result<BlockNo> {
        if let Some(known) = self.attribute_blocks.get(&block) {
            return Ok(*known);
        }
        let must_move = self.must_move(block.0);
        let to = if must_move { self.room_for(1)? } else { block };
        if let Some(mut bytes) = self.draft.read(block)? {
            let is_changed = names::renumber_values(&mut bytes, 32, &self.renumbered);
            if is_changed || must_move {
                attribute::seal_block(&mut bytes, to, &self.draft.superblock);
                self.draft.write(to, &bytes)?;
            }
        }
        self.attribute_blocks.insert(block, to);
        Ok(to)
    }

    /// Writes the blocks of the file of orphans, which has none, at their places.
    fn orphan_file(&self, ino: Ino, inode: &Inode, runs: &[MapRun]) -> Result<()> {
        let seed = self.draft.seed(ino, inode);
        for block in runs.iter().flat_map(|run| run.start..run.start + run.length) {
            let mut bytes = vec![0; self.draft.block_size()];
            orphan_file::initialize(&mut bytes, BlockNo(block), seed, &self.draft.superblock);
            self.draft.write(BlockNo(block), &bytes)?;
        }
        Ok(())
    }

    /// What the superblock says of files and blocks of the volume's own, and of inode 7.
    fn own_numbers(&mut self) -> Result<()> {
        let renumbered = |ino: Ino| self.renumbered.get(&ino).copied().unwrap_or(ino);
        let quotas = self.draft.superblock.quota_inodes().map(renumbered);
        let orphans = renumbered(Ino(self.draft.superblock.orphan_file_inode));
        let mounts = self.draft.superblock.mount_block();
        if self.draft.superblock.has(Feature::QUOTA) {
            self.draft.superblock.set_quota_inodes(quotas);
        }
        if self.draft.superblock.has(Feature::ORPHAN_FILE) {
            self.draft.superblock.orphan_file_inode = orphans.0;
        }
        if self.draft.superblock.has(Feature::MMP) && self.must_move(mounts.0) {
            let to = self.room_for(1)?;
            let bytes = self.draft.read(mounts)?.unwrap_or_default();
            self.draft.write(to, &bytes)?;
            let interval = self.draft.superblock.mount_interval_seconds();
            self.draft.superblock.set_mount_block(to, interval);
        }
        let journal = Ino(self.draft.superblock.journal_inode);
        if self.draft.superblock.has(Feature::HAS_JOURNAL)
            && self.draft.superblock.journal_backup_type != 0
            && let Some(inode) = self.draft.inode(journal)?
        {
            let words = indirect::pointers(&inode.block);
            for (place, word) in self.draft.superblock.journal_backup.iter_mut().zip(words) {
                *place = word;
            }
        }
        if !self.draft.superblock.has(Feature::RESIZE_INODE) {
            return Ok(());
        }
        if let Some(mut inode) = self.draft.inode(Ino::RESIZE)?
            && self.must_move(growth_map::root(&inode).0)
        {
            inode.block.fill(0);
            self.draft.write_inode(Ino::RESIZE, &inode)?;
        }
        match growth_map::mend(self.draft)? {
            true => Ok(()),
            false => Err(Error::Refused("blocks that are kept for growth are in use".into())),
        }
    }
}
