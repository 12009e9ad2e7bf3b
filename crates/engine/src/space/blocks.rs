//! Blocks are allocated and freed.
use super::bitmaps::{Which, wrong};
use super::search::{self, Found};
use super::windows::Bits;
use super::{Reservation, Reuse, Space};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::policy::allocation::{Plan, Route, Search};
use crate::store::handle::Handle;
use extant_format::bitmap::{clear_run, clear_runs, next_clear, next_set, set_run};
use extant_format::{BlockNo, GroupNo, Ino, Run};
use std::sync::atomic::Ordering;

/// What a search keeps out of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heed {
    /// Windows, where they bind all.
    Windows,
    /// Nothing.
    Nothing,
}

/// Whether a search looks into the groups' clusters, which are for map blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Clusters {
    /// It takes what it finds there.
    Open,
    /// It goes around them.
    Closed,
}

/// How many groups a search for a long run looks into before it takes what the last one has.
const ROUNDS_MAX: u32 = 16;

/// A part of a run that lies in one group.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) group: GroupNo,
    pub(super) first: u32,
    pub(super) length: u32,
}

/// Where a search begins: a group and a bit in it; and whether it goes around clusters.
#[derive(Clone, Copy)]
struct Goal {
    group: GroupNo,
    bit: u32,
    clusters: Clusters,
}

impl Space {
    /// Allocates one run of 1..=plan.length blocks as plan and route want it, out of the
    /// reservation. Marks them in the bitmap, counts them. Fails only when the disk lies (a
    /// reservation guarantees room) or cannot be read.
    pub(crate) fn allocate(
        &self,
        handle: &Handle<'_>,
        reservation: &mut Reservation<'_>,
        plan: &Plan,
        route: Route,
    ) -> Result<Run> {
        let promised = u32::try_from(reservation.blocks).unwrap_or(u32::MAX);
        let length = plan.length.min(promised);
        if length == 0 {
            return Err(self.no_space(plan.length.into()));
        }
        let goal = self.goal(plan.goal);
        let _lock = self.lock_superblock();
        let found = match route {
            Route::Anywhere => self.as_planned(handle, goal, length, plan.search)?,
            Route::Around => self.around_clusters(handle, goal, length, plan.search)?,
            Route::Inside(near) => match self.in_cluster(handle, self.goal(near).group, length)? {
                None => self.around_clusters(handle, goal, length, plan.search)?,
                run => run,
            },
        };
        let run = match found {
            Some(run) => run,
            // A last resort for the others: groups may have changed while they were searched in
            // turn.
            None => self.last_resort(handle, goal, length)?,
        };
        self.used(reservation, run.length);
        Ok(run)
    }

    fn as_planned(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        search: Search,
    ) -> Result<Option<Run>> {
        match search {
            Search::GoalThenByte => self.goal_then_byte(handle, goal, length),
            Search::LongestRun { look_for } => self.longest_run(handle, goal, length, look_for),
            Search::Sequential if self.windows_bind_all() => {
                self.sequential(handle, goal, length, Heed::Windows)
            }
            Search::Sequential if goal.clusters == Clusters::Closed => {
                self.sequential(handle, goal, length, Heed::Nothing)
            }
            Search::Sequential => Ok(None),
            Search::FreeByte => self.rehash(handle, goal, |bits, limit, from| {
                search::goal_then_byte_start(bits, limit, from, length)
            }),
            Search::FreeRun { blocks } => self.rehash(handle, goal, |bits, limit, from| {
                search::goal_then_run(bits, limit, from, blocks, length)
            }),
            Search::Window { owner, blocks } => {
                self.in_window_or_not(handle, goal, length, (owner, blocks))
            }
        }
    }

    /// As planned, but around the clusters. Where nothing is free there: group by group, around a
    /// group's cluster and then in it.
    fn around_clusters(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        search: Search,
    ) -> Result<Option<Run>> {
        let closed = Goal { clusters: Clusters::Closed, ..goal };
        if let Some(run) = self.as_planned(handle, closed, length, search)? {
            return Ok(Some(run));
        }
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            for clusters in [Clusters::Closed, Clusters::Open] {
                let next_free = |bits: &[u8], limit| search::sequential(bits, limit, from, length);
                if let Some(run) = self.take_free(handle, group, clusters, next_free)? {
                    return Ok(Some(run));
                }
            }
            from = 0;
        }
        Ok(None)
    }

    /// The first free block of a group's cluster, and those behind it.
    fn in_cluster(&self, handle: &Handle<'_>, group: GroupNo, length: u32) -> Result<Option<Run>> {
        let Some(cluster) = self.cluster(group) else {
            return Ok(None);
        };
        self.take_free(handle, group, Clusters::Open, |bits, limit| {
            search::sequential(bits, cluster.end.min(limit), cluster.start, length)
        })
    }

    /// Every group in turn, and again while the counters say that there is something: what others
    /// free behind a search and take before it is missed by it.
    fn last_resort(&self, handle: &Handle<'_>, goal: Goal, length: u32) -> Result<Run> {
        for _ in 0..ROUNDS_MAX {
            if let Some(run) = self.sequential(handle, goal, length, Heed::Nothing)? {
                return Ok(run);
            }
        }
        Err(self.promised_in_vain(goal.group))
    }

    fn goal(&self, block: BlockNo) -> Goal {
        let Some(group) = self.store.superblock.group_of_block(block) else {
            return Goal { group: GroupNo(0), bit: 0, clusters: Clusters::Open };
        };
        let bit = block.0.saturating_sub(self.store.superblock.group_start(group).0);
        Goal { group, bit: u32::try_from(bit).unwrap_or(0), clusters: Clusters::Open }
    }

    fn promised_in_vain(&self, group: GroupNo) -> Error {
        let free = self.totals().free_blocks;
        Error::field(
            Place::Group(group),
            "group descriptors",
            "sum of free blocks",
            free,
            "more than can be found",
        )
    }

    /// All groups once, from this one on, cyclically.
    pub(super) fn cyclic(&self, first: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        (first.0..self.len()).chain(0..first.0).map(GroupNo)
    }

    fn goal_then_byte(&self, handle: &Handle<'_>, goal: Goal, length: u32) -> Result<Option<Run>> {
        let in_goal_group =
            |bits: &[u8], limit| search::goal_then_byte(bits, limit, goal.bit, length);
        if let Some(run) = self.take(handle, goal.group, goal.clusters, in_goal_group)? {
            return Ok(Some(run));
        }
        // The goal's own group comes once more, last and from its start.
        for group in self.cyclic(goal.group).skip(1).chain([goal.group]) {
            let in_group = |bits: &[u8], limit| search::byte_then_bit(bits, limit, length);
            if let Some(run) = self.take(handle, group, goal.clusters, in_group)? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    fn sequential(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        heed: Heed,
    ) -> Result<Option<Run>> {
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            let search = |bits: &[u8], limit| search::sequential(bits, limit, from, length);
            let found = match heed {
                Heed::Windows => self.take(handle, group, goal.clusters, search)?,
                Heed::Nothing => self.take_any(handle, group, goal.clusters, search)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            from = 0;
        }
        Ok(None)
    }

    /// FreeBSD's order of groups: the goal's; those 1, 3, 7, ... behind it; then one by one from
    /// the second behind it.
    fn rehash(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        search: impl Fn(&[u8], u32, u32) -> Option<Found>,
    ) -> Result<Option<Run>> {
        let count = u64::from(self.len());
        let quadratic =
            (0..32u32).map(|power| (2u64 << power) - 1).take_while(|at| at / 2 + 1 < count);
        let mut from = goal.bit;
        for distance in [0].into_iter().chain(quadratic).chain(2..count) {
            let at = (u64::from(goal.group.0) + distance) % count.max(1);
            let group = GroupNo(u32::try_from(at).unwrap_or(0));
            if let Some(run) =
                self.take(handle, group, goal.clusters, |bits, limit| search(bits, limit, from))?
            {
                return Ok(Some(run));
            }
            from = 0;
        }
        Ok(None)
    }

    /// In the window of an inode; where no group has room for one, as ext2 does.
    fn in_window_or_not(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        wanted: (Ino, u32),
    ) -> Result<Option<Run>> {
        match self.in_window(handle, goal, length, wanted)? {
            None => self.goal_then_byte(handle, goal, length),
            run => Ok(run),
        }
    }

    fn in_window(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        wanted: (Ino, u32),
    ) -> Result<Option<Run>> {
        let (owner, blocks) = wanted;
        if let Some(run) = self.in_own_window(handle, goal, length, owner)? {
            return Ok(Some(run));
        }
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            let start = self.store.superblock.group_start(group).0;
            let is_roomy = self.state(group).lock().descriptor.free_blocks > blocks / 2;
            let in_new_window = |bytes: &[u8], limit| {
                let bits = Bits { start, bytes, limit };
                let window = self.windows.lock().open(owner, bits, from, blocks)?;
                search::goal_then_byte(bytes, window.end, window.start, length)
            };
            if is_roomy
                && let Some(run) = self.take_any(handle, group, goal.clusters, in_new_window)?
            {
                self.windows.lock().hit(owner, run.length);
                return Ok(Some(run));
            }
            from = 0;
        }
        self.close_window(owner);
        Ok(None)
    }

    /// From the goal to the end of the window, if the goal lies in it.
    fn in_own_window(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        owner: Ino,
    ) -> Result<Option<Run>> {
        let start = self.store.superblock.group_start(goal.group).0;
        let Some(window) = self.windows.lock().of(owner) else {
            return Ok(None);
        };
        if !window.contains(&start.saturating_add(goal.bit.into())) {
            return Ok(None);
        }
        let end = u32::try_from(window.end.saturating_sub(start)).unwrap_or(u32::MAX);
        let inside = |bytes: &[u8], limit: u32| {
            search::goal_then_byte(bytes, end.min(limit), goal.bit, length)
        };
        let run = self.take_any(handle, goal.group, goal.clusters, inside)?;
        self.windows.lock().hit(owner, run.map_or(0, |run| run.length));
        Ok(run)
    }

    fn windows_bind_all(&self) -> bool {
        self.windows_bind_all.load(Ordering::Relaxed) && !self.windows.lock().is_empty()
    }

    /// In the goal's group what is wanted, or half of it; else in the group that has most room by
    /// what is known, the first of equals. Each look makes known what a group really has, so that a
    /// volume in pieces is not searched again and again.
    fn longest_run(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        look_for: u32,
    ) -> Result<Option<Run>> {
        let look_for = look_for.max(length);
        if let Some(run) = self.take_roomy(handle, goal, length, look_for, length.div_ceil(2))? {
            return Ok(Some(run));
        }
        for round in 1..=ROUNDS_MAX {
            let Some((group, room)) = self.roomiest(goal, look_for) else {
                return Ok(None);
            };
            let at_least = if round == ROUNDS_MAX { 1 } else { room.min(length) };
            let bit = if group == goal.group { goal.bit } else { 0 };
            if let Some(run) =
                self.take_roomy(handle, Goal { group, bit, ..goal }, length, look_for, at_least)?
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The first group from this one on that may have a run of `enough`; else the one that may have
    /// the longest.
    fn roomiest(&self, first: Goal, enough: u32) -> Option<(GroupNo, u32)> {
        let mut best = None;
        let mut most = 0;
        for group in self.cyclic(first.group) {
            let room = self.room(group, first.clusters);
            if room > most {
                (best, most) = (Some(group), room);
            }
            if most >= enough {
                break;
            }
        }
        best.map(|group| (group, most))
    }

    /// Takes `length` blocks of a run of a group as `search::roomy` finds it, if it has `at_least`
    /// so many.
    fn take_roomy(
        &self,
        handle: &Handle<'_>,
        goal: Goal,
        length: u32,
        look_for: u32,
        at_least: u32,
    ) -> Result<Option<Run>> {
        if self.room(goal.group, goal.clusters) < at_least {
            return Ok(None);
        }
        let mut known = None;
        let run = self.take(handle, goal.group, goal.clusters, |bits, limit| {
            let found = search::roomy(bits, limit, goal.bit, length, look_for)?;
            if found.length < length {
                known = Some(found.length); // shorter than what would have been enough: it is the longest of all
            }
            (found.length >= at_least)
                .then_some(Found { length: found.length.min(length), ..found })
        })?;
        if let Some(longest) = known
            && run.is_none()
            && !self.windows_bind_all.load(Ordering::Relaxed)
        {
            let mut state = self.state(goal.group).lock();
            let known = state.longest(goal.clusters);
            *known = (*known).min(longest);
        }
        Ok(run)
    }

    /// Searches one group, outside all windows where these bind all, and marks what was found.
    fn take(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<Found>,
    ) -> Result<Option<Run>> {
        if !self.windows_bind_all() {
            return self.take_any(handle, group, clusters, search);
        }
        let start = self.store.superblock.group_start(group).0;
        self.take_any(handle, group, clusters, |bytes, limit| {
            let marked = self.windows.lock().marked(Bits { start, bytes, limit });
            search(marked.as_deref().unwrap_or(bytes), limit)
        })
    }

    /// Searches one group, unless it has too little room around its cluster, and marks what was
    /// found.
    fn take_any(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<Found>,
    ) -> Result<Option<Run>> {
        if clusters == Clusters::Closed && self.room(group, clusters) == 0 {
            return Ok(None);
        }
        self.take_free(handle, group, clusters, search)
    }

    /// Searches one group and marks what was found.
    fn take_free(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<Found>,
    ) -> Result<Option<Run>> {
        if self.state(group).lock().descriptor.free_blocks == 0 {
            return Ok(None);
        }
        let (mut state, frame) = self.lock_to_change(handle, group, Which::Blocks)?;
        let bytes = frame.bytes();
        let seen = state.held_blocks.marked(&bytes);
        let closed = self.cluster(group).filter(|_| clusters == Clusters::Closed);
        let around = closed.map(|cluster| {
            let mut marked = seen.to_vec();
            let _ = set_run(&mut marked, cluster.start, cluster.end - cluster.start);
            marked
        });
        let limit = self.limit(group, Which::Blocks);
        let Some(found) = search(around.as_deref().unwrap_or(&seen), limit) else {
            return Ok(None);
        };
        debug_assert!(
            next_set(&seen, found.first, found.first + found.length).is_none(),
            "{found:?} of {group} is given and not free"
        );
        drop(seen);
        drop(bytes);
        let start = self.store.superblock.group_start(group).0.saturating_add(found.first.into());
        let run = Run { start: BlockNo(start), length: found.length };
        debug_assert!(!self.is_metadata(run), "{run:?} is given and the volume's own metadata");
        if !handle.modify(&frame, |bytes| set_run(bytes, found.first, found.length)) {
            return Err(wrong(group, Which::Blocks, "bit", found.first, "given and not free"));
        }
        state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_sub(found.length);
        self.changed(group, &mut state, Which::Blocks);
        Ok(Some(run))
    }

    /// Whether a run touches the volume's own metadata.
    pub(crate) fn is_metadata(&self, run: Run) -> bool {
        self.metadata.first_in(run).is_some()
    }

    /// Frees a run (it may cross groups). A block that is free already, or that is the volume's own
    /// metadata, is `Corrupt` and nothing is freed. What the cache holds of the blocks is
    /// forgotten; where they are held back that is done, and they are published, by whoever frees
    /// them, once nothing in memory leads to them any more.
    pub(crate) fn free(&self, handle: &Handle<'_>, run: Run, reuse: Reuse) -> Result<()> {
        if let Some(block) = self.metadata.first_in(run) {
            return Err(not_to_be_freed(block, "the volume's own metadata"));
        }
        let _lock = self.lock_superblock();
        let parts = self.parts(run)?;
        for part in &parts {
            self.check_in_use(*part)?;
        }
        let reuse = if self.store.writes_data_first() { reuse } else { Reuse::AtOnce };
        if reuse == Reuse::AtOnce {
            // Before the bits change: afterwards the blocks may belong to another file.
            self.store.cache.forget_run(run);
        }
        parts.into_iter().try_for_each(|part| self.give_back(handle, part, reuse))
    }

    /// How many groups a run has a part of, at most.
    pub(crate) fn groups_of(&self, run: Run) -> u32 {
        run.length / self.store.superblock.blocks_per_group.max(1) + 2
    }

    /// The run, group by group.
    pub(super) fn parts(&self, run: Run) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let (mut block, mut left) = (run.start, run.length);
        while left > 0 {
            let outside = || not_to_be_freed(block, "outside the volume");
            let group = self.store.superblock.group_of_block(block).ok_or_else(outside)?;
            let first = self.goal(block).bit;
            let length = left.min(self.limit(group, Which::Blocks).saturating_sub(first)).max(1);
            parts.push(Part { group, first, length });
            block.0 = block.0.saturating_add(length.into());
            left -= length;
        }
        Ok(parts)
    }

    fn check_in_use(&self, part: Part) -> Result<()> {
        let bits = self.look(part.group, Which::Blocks)?;
        match next_clear(&bits, part.first, part.first.saturating_add(part.length)) {
            Some(bit) => Err(self.freed_twice(part.group, bit)),
            None => Ok(()),
        }
    }

    fn freed_twice(&self, group: GroupNo, bit: u32) -> Error {
        let block = self.store.superblock.group_start(group).0.saturating_add(bit.into());
        not_to_be_freed(BlockNo(block), "free already")
    }

    fn give_back(&self, handle: &Handle<'_>, part: Part, reuse: Reuse) -> Result<()> {
        let Part { group, first, length } = part;
        let (mut state, frame) = self.lock_to_change(handle, group, Which::Blocks)?;
        if next_clear(&frame.bytes(), first, first.saturating_add(length)).is_some() {
            return Err(self.freed_twice(group, first)); // two files claim it, and both let go of it at once
        }
        let _ = handle.modify(&frame, |bytes| clear_run(bytes, first, length));
        state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_add(length);
        let block_size = self.store.block_size() as usize;
        match reuse {
            Reuse::WhenDurable => state.held_blocks.hold(block_size, first, length),
            Reuse::AtOnce => state.may_have_joined(length),
        }
        self.changed(group, &mut state, Which::Blocks);
        drop(state);
        let counted = match reuse {
            Reuse::WhenDurable => &self.held.blocks,
            Reuse::AtOnce => &self.available,
        };
        counted.fetch_add(length.into(), Ordering::AcqRel);
        Ok(())
    }

    /// Free runs of a group, rising, as (first block in the group, length).
    pub(crate) fn free_runs(&self, group: GroupNo) -> Result<Vec<(u32, u32)>> {
        let bits = self.look(group, Which::Blocks)?;
        Ok(clear_runs(&bits, self.limit(group, Which::Blocks)).collect())
    }

    pub(super) fn no_space(&self, wanted_blocks: u64) -> Error {
        ErrorKind::NoSpace { wanted_blocks, free_blocks: self.available.load(Ordering::Acquire) }
            .into()
    }
}

fn not_to_be_freed(block: BlockNo, reason: &'static str) -> Error {
    Error::field(Place::Block(block), "map of a file", "block", block.0, reason)
}
