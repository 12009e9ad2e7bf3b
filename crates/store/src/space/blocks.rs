//! Allocating and freeing blocks.
use super::bitmaps::{BitmapKind, wrong};
use super::search::{self, FreeRun};
use super::windows::Bits;
use super::{Reservation, Reuse, Space};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::handle::Handle;
use crate::seeded::{Bug, bug};
use extant_format::bitmap::{clear_run, clear_runs, next_clear, next_set, set_run};
use extant_format::{BlockNo, GroupNo, Ino, Run};
use extant_policy::allocation::{AllocationPlan, Route, Search};
use std::sync::atomic::Ordering;

/// What a search keeps out of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Avoid {
    /// The windows of other inodes, where windows bind all.
    Windows,
    /// Nothing.
    Nothing,
}

/// Whether a search may use the groups' clusters, which are meant for map blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Clusters {
    /// Blocks inside a cluster may be taken.
    Open,
    /// Only blocks outside the clusters are taken.
    Closed,
}

/// Where a run that was found is marked as taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// In the group's bitmap, and so in the running transaction.
    InBitmap,
    /// In memory alone.
    InMemory,
}

/// What a search does with a group whose bitmap cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// It looks at the other groups.
    Skipped,
    /// It fails.
    Reported,
}

/// What a search takes blocks with.
#[derive(Clone, Copy)]
struct Taker<'a, 's> {
    handle: &'a Handle<'s>,
    mark: Mark,
    unreadable: Unreadable,
}

impl<'a, 's> Taker<'a, 's> {
    fn new(handle: &'a Handle<'s>, mark: Mark) -> Taker<'a, 's> {
        Taker { handle, mark, unreadable: Unreadable::Skipped }
    }
}

/// Rounds of a search over groups at most, before it takes what the last group has or gives up.
const ROUNDS_MAX: u32 = 16;

/// The part of a run that is in one group, in bits of the group.
#[derive(Clone, Copy)]
pub(super) struct GroupPart {
    pub(super) group: GroupNo,
    pub(super) first: u32,
    pub(super) length: u32,
}

/// Where a search begins: a group, a bit in it, and whether clusters may be used.
#[derive(Clone, Copy)]
struct Goal {
    group: GroupNo,
    bit: u32,
    clusters: Clusters,
}

impl Space {
    /// Allocates one run of 1 to `plan.length` blocks as `plan` and `route` ask, rounded up to
    /// whole units, out of the reservation. A reservation guarantees room, so this fails only if
    /// the counters on disk are wrong or a bitmap cannot be read.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns; `NoSpace` if the reservation is empty.
    pub fn allocate(
        &self,
        handle: &Handle<'_>,
        reservation: &mut Reservation<'_>,
        plan: &AllocationPlan,
        route: Route,
    ) -> Result<Run> {
        let promised = u32::try_from(reservation.blocks).unwrap_or(u32::MAX);
        let length = self.units_of(plan.length).min(promised);
        if length == 0 {
            return Err(self.no_space(plan.length.into()));
        }
        let run = self.search(Taker::new(handle, Mark::InBitmap), plan, route, length)?;
        self.used(reservation, self.units_of(run.length));
        Ok(run)
    }

    /// Finds a place for one run of 1 to `plan.length` blocks, and holds it back from other
    /// searches. On the disk it stays free until it is [fixed](Space::fix). The blocks have to be
    /// promised, and stay so.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns.
    pub fn place(&self, handle: &Handle<'_>, plan: &AllocationPlan, route: Route) -> Result<Run> {
        let length = self.units_of(plan.length.max(1));
        self.search(Taker::new(handle, Mark::InMemory), plan, route, length)
    }

    fn search(
        &self,
        taker: Taker<'_, '_>,
        plan: &AllocationPlan,
        route: Route,
        length: u32,
    ) -> Result<Run> {
        let goal = self.goal(plan.goal);
        let _lock = self.lock_superblock();
        let found = match route {
            Route::Anywhere => self.as_planned(taker, goal, length, plan.search)?,
            Route::Around => self.around_clusters(taker, goal, length, plan.search)?,
            Route::Inside(near) => match self.in_cluster(taker, self.goal(near).group, length)? {
                None => self.around_clusters(taker, goal, length, plan.search)?,
                run => run,
            },
        };
        let run = match found {
            Some(run) => run,
            // Other threads may have allocated and freed while the groups were searched in turn.
            None => self.last_resort(taker, goal, length)?,
        };
        Ok(run)
    }

    fn as_planned(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        search: Search,
    ) -> Result<Option<Run>> {
        match search {
            Search::GoalThenByte => self.goal_then_byte(taker, goal, length),
            Search::LongestRun { look_for } => {
                self.longest_run(taker, goal, length, self.units_of(look_for))
            }
            Search::Sequential if self.windows_bind_all() => {
                self.sequential(taker, goal, length, Avoid::Windows)
            }
            Search::Sequential if goal.clusters == Clusters::Closed => {
                self.sequential(taker, goal, length, Avoid::Nothing)
            }
            Search::Sequential => Ok(None),
            Search::FreeByte => self.rehash(taker, goal, |bits, limit, from| {
                search::goal_then_byte_start(bits, limit, from, length)
            }),
            Search::FreeRun { blocks } => self.rehash(taker, goal, |bits, limit, from| {
                search::goal_then_run(bits, limit, from, self.units_of(blocks), length)
            }),
            // Windows are in blocks.
            Search::Window { .. } if self.unit_log2 > 0 => self.goal_then_byte(taker, goal, length),
            Search::Window { owner, blocks } => {
                self.in_window_or_not(taker, goal, length, (owner, blocks))
            }
        }
    }

    /// As planned, but outside the clusters. If nothing is free there, takes what there is group by
    /// group, first outside the cluster, then in it.
    fn around_clusters(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        search: Search,
    ) -> Result<Option<Run>> {
        let closed = Goal { clusters: Clusters::Closed, ..goal };
        if let Some(run) = self.as_planned(taker, closed, length, search)? {
            return Ok(Some(run));
        }
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            for clusters in [Clusters::Closed, Clusters::Open] {
                let next_free = |bits: &[u8], limit| search::sequential(bits, limit, from, length);
                if let Some(run) = self.take_free(taker, group, clusters, next_free)? {
                    return Ok(Some(run));
                }
            }
            from = 0;
        }
        Ok(None)
    }

    /// The first free block of a group's cluster, and the free ones that follow it.
    fn in_cluster(&self, taker: Taker<'_, '_>, group: GroupNo, length: u32) -> Result<Option<Run>> {
        let Some(cluster) = self.cluster(group) else {
            return Ok(None);
        };
        self.take_free(taker, group, Clusters::Open, |bits, limit| {
            search::sequential(bits, cluster.end.min(limit), cluster.start, length)
        })
    }

    /// Searches every group in turn, several times: a block that another thread frees in a group
    /// already searched, or takes in one not yet searched, is missed by one round. A bitmap that
    /// cannot be read is tried again once nothing is free elsewhere.
    fn last_resort(&self, taker: Taker<'_, '_>, goal: Goal, length: u32) -> Result<Run> {
        let unreadable =
            |round| if round == 0 { Unreadable::Skipped } else { Unreadable::Reported };
        for round in 0..ROUNDS_MAX {
            let taker = Taker { unreadable: unreadable(round), ..taker };
            if let Some(run) = self.sequential(taker, goal, length, Avoid::Nothing)? {
                return Ok(run);
            }
        }
        Err(self.promised_in_vain(goal.group))
    }

    fn goal(&self, block: BlockNo) -> Goal {
        let Some(group) = self.store.superblock.group_of_block(block) else {
            return Goal { group: GroupNo(0), bit: 0, clusters: Clusters::Open };
        };
        let bit = u32::try_from(self.bit(group, block)).unwrap_or(0);
        Goal { group, bit, clusters: Clusters::Open }
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

    /// All groups once, starting with this one and wrapping around.
    pub(super) fn cyclic(&self, first: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        (first.0..self.group_count()).chain(0..first.0).map(GroupNo)
    }

    fn goal_then_byte(&self, taker: Taker<'_, '_>, goal: Goal, length: u32) -> Result<Option<Run>> {
        let in_goal_group =
            |bits: &[u8], limit| search::goal_then_byte(bits, limit, goal.bit, length);
        if let Some(run) = self.take(taker, goal.group, goal.clusters, in_goal_group)? {
            return Ok(Some(run));
        }
        // The goal's own group is searched once more at the end, from its start.
        for group in self.cyclic(goal.group).skip(1).chain([goal.group]) {
            let in_group = |bits: &[u8], limit| search::byte_then_bit(bits, limit, length);
            if let Some(run) = self.take(taker, group, goal.clusters, in_group)? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    fn sequential(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        avoid: Avoid,
    ) -> Result<Option<Run>> {
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            let search = |bits: &[u8], limit| search::sequential(bits, limit, from, length);
            let found = match avoid {
                Avoid::Windows => self.take(taker, group, goal.clusters, search)?,
                Avoid::Nothing => self.take_any(taker, group, goal.clusters, search)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            from = 0;
        }
        Ok(None)
    }

    /// FreeBSD's order of groups: that of the goal, then those 1, 3, 7, ... after it, then one by
    /// one from the second after it.
    fn rehash(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        search: impl Fn(&[u8], u32, u32) -> Option<FreeRun>,
    ) -> Result<Option<Run>> {
        let count = u64::from(self.group_count());
        let quadratic =
            (0..32u32).map(|power| (2u64 << power) - 1).take_while(|at| at / 2 + 1 < count);
        let mut from = goal.bit;
        for distance in [0].into_iter().chain(quadratic).chain(2..count) {
            let at = (u64::from(goal.group.0) + distance) % count.max(1);
            let group = GroupNo(u32::try_from(at).unwrap_or(0));
            if let Some(run) =
                self.take(taker, group, goal.clusters, |bits, limit| search(bits, limit, from))?
            {
                return Ok(Some(run));
            }
            from = 0;
        }
        Ok(None)
    }

    /// Allocates in the inode's window, or as ext2 does if no group has room for one.
    fn in_window_or_not(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        wanted: (Ino, u32),
    ) -> Result<Option<Run>> {
        match self.in_window(taker, goal, length, wanted)? {
            None => self.goal_then_byte(taker, goal, length),
            run => Ok(run),
        }
    }

    fn in_window(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        wanted: (Ino, u32),
    ) -> Result<Option<Run>> {
        let (owner, blocks) = wanted;
        if let Some(run) = self.in_own_window(taker, goal, length, owner)? {
            return Ok(Some(run));
        }
        let mut from = goal.bit;
        for group in self.cyclic(goal.group).chain([goal.group]) {
            let start = self.store.superblock.group_start(group).0;
            let is_roomy = self.state(group).lock().free_to_give() > blocks / 2;
            let in_new_window = |bytes: &[u8], limit| {
                let bits = Bits { start, bytes, limit };
                let window = self.windows.lock().open(owner, bits, from, blocks)?;
                search::goal_then_byte(bytes, window.end, window.start, length)
            };
            if is_roomy
                && let Some(run) = self.take_any(taker, group, goal.clusters, in_new_window)?
            {
                self.windows.lock().hit(owner, run.length);
                return Ok(Some(run));
            }
            from = 0;
        }
        self.close_window(owner);
        Ok(None)
    }

    /// From the goal to the end of the window, if the goal is in the inode's window.
    fn in_own_window(
        &self,
        taker: Taker<'_, '_>,
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
        let run = self.take_any(taker, goal.group, goal.clusters, inside)?;
        self.windows.lock().hit(owner, run.map_or(0, |run| run.length));
        Ok(run)
    }

    fn windows_bind_all(&self) -> bool {
        self.windows_bind_all.load(Ordering::Relaxed) && !self.windows.lock().is_empty()
    }

    /// Takes what is wanted, or at least half of it, in the goal's group; else in the group that
    /// may have the longest run, the first of equals. Each search corrects what is known of its
    /// group, so that a fragmented volume is not searched again and again.
    fn longest_run(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        look_for: u32,
    ) -> Result<Option<Run>> {
        let look_for = look_for.max(length);
        if let Some(run) = self.take_roomy(taker, goal, length, look_for, length.div_ceil(2))? {
            return Ok(Some(run));
        }
        for round in 1..=ROUNDS_MAX {
            let Some((group, room)) = self.roomiest(goal, look_for) else {
                return Ok(None);
            };
            let at_least = if round == ROUNDS_MAX { 1 } else { room.min(length) };
            let bit = if group == goal.group { goal.bit } else { 0 };
            if let Some(run) =
                self.take_roomy(taker, Goal { group, bit, ..goal }, length, look_for, at_least)?
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The first group from this one on that may have a run of `enough` blocks; else the one that
    /// may have the longest run.
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

    /// Takes `length` blocks of the run that `search::roomy` finds in a group, if that run has at
    /// least `at_least` blocks.
    fn take_roomy(
        &self,
        taker: Taker<'_, '_>,
        goal: Goal,
        length: u32,
        look_for: u32,
        at_least: u32,
    ) -> Result<Option<Run>> {
        if self.room(goal.group, goal.clusters) < at_least {
            return Ok(None);
        }
        let mut known = None;
        let run = self.take(taker, goal.group, goal.clusters, |bits, limit| {
            let found = search::roomy(bits, limit, goal.bit, length, look_for)?;
            if found.length < length {
                // Shorter than what would have been enough: the longest run of all.
                known = Some(found.length);
            }
            (found.length >= at_least)
                .then_some(FreeRun { length: found.length.min(length), ..found })
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

    /// Searches one group, outside all windows if they bind all, and marks what was found.
    fn take(
        &self,
        taker: Taker<'_, '_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<FreeRun>,
    ) -> Result<Option<Run>> {
        if !self.windows_bind_all() {
            return self.take_any(taker, group, clusters, search);
        }
        let start = self.store.superblock.group_start(group).0;
        self.take_any(taker, group, clusters, |bytes, limit| {
            let marked = self.windows.lock().marked(Bits { start, bytes, limit });
            search(marked.as_deref().unwrap_or(bytes), limit)
        })
    }

    /// Searches one group and marks what was found. Skips a group that has no room outside its
    /// cluster.
    fn take_any(
        &self,
        taker: Taker<'_, '_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<FreeRun>,
    ) -> Result<Option<Run>> {
        if clusters == Clusters::Closed && self.room(group, clusters) == 0 {
            return Ok(None);
        }
        self.take_free(taker, group, clusters, search)
    }

    /// Searches one group and marks what was found.
    fn take_free(
        &self,
        taker: Taker<'_, '_>,
        group: GroupNo,
        clusters: Clusters,
        search: impl FnOnce(&[u8], u32) -> Option<FreeRun>,
    ) -> Result<Option<Run>> {
        if self.state(group).lock().free_to_give() == 0 {
            return Ok(None);
        }
        let (mut state, frame) = match self.lock_to_change(taker.handle, group, BitmapKind::Blocks)
        {
            Err(error) if error.is_of_the_device() => match taker.unreadable {
                Unreadable::Skipped => return Ok(None),
                Unreadable::Reported => return Err(error),
            },
            locked => locked?,
        };
        let bytes = frame.bytes();
        let seen = state.held_blocks.marked(&bytes);
        let closed = self.cluster(group).filter(|_| clusters == Clusters::Closed);
        let around = closed.map(|cluster| {
            let mut marked = seen.to_vec();
            let _ = set_run(&mut marked, cluster.start, cluster.end - cluster.start);
            marked
        });
        let limit = self.limit(group, BitmapKind::Blocks);
        let Some(found) = search(around.as_deref().unwrap_or(&seen), limit) else {
            return Ok(None);
        };
        debug_assert!(
            next_set(&seen, found.first, found.first + found.length).is_none(),
            "{found:?} of {group} is given and not free"
        );
        drop(seen);
        drop(bytes);
        let run = self.run(group, found.first, found.length);
        debug_assert!(!self.is_metadata(run), "{run:?} is given and the volume's own metadata");
        if taker.mark == Mark::InMemory {
            let bitmap_bytes = self.store.block_size() as usize;
            state.held_blocks.hold(bitmap_bytes, found.first, found.length);
            return Ok(Some(run));
        }
        if !taker.handle.modify_at_once(&frame, |bytes| set_run(bytes, found.first, found.length)) {
            return Err(wrong(group, BitmapKind::Blocks, "bit", found.first, "given and not free"));
        }
        state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_sub(found.length);
        self.counters.free_blocks.fetch_sub(found.length.into(), Ordering::AcqRel);
        self.changed(group, &mut state, BitmapKind::Blocks);
        Ok(Some(run))
    }

    /// Fails if no group with room for this many blocks has a bitmap that can be read: called
    /// before the first change of an operation that allocates in the middle of others.
    ///
    /// # Errors
    /// What reading the first of them meets.
    pub fn check_may_allocate(&self, near: GroupNo, blocks: u64) -> Result<()> {
        let mut unreadable = None;
        for group in self.cyclic(near) {
            if blocks == 0 || u64::from(self.state(group).lock().free_to_give()) < blocks {
                continue;
            }
            match self.lock_loaded(group, BitmapKind::Blocks) {
                Ok(_) => return Ok(()),
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        unreadable.map_or(Ok(()), Err)
    }

    /// Whether a run touches the volume's own metadata.
    pub fn is_metadata(&self, run: Run) -> bool {
        self.metadata.first_in(run).is_some()
    }

    /// Frees a run of blocks with the data of a regular file, with all of the units that it
    /// touches. It may cross groups, and changes a bitmap in each.
    ///
    /// # Errors
    /// `Corrupt` if a block is already free or belongs to the volume's own metadata; nothing is
    /// freed then.
    pub fn free_data(&self, handle: &Handle<'_>, run: Run, reuse: Reuse) -> Result<()> {
        self.free(handle, run, reuse)
    }

    /// Frees a run of blocks that were changed through handles: nodes of maps, blocks of
    /// directories, attributes, targets of symlinks. All of these are freed here, so that a journal
    /// can revoke what it has of them.
    ///
    /// # Errors
    /// As [`Space::free_data`].
    pub fn free_metadata(&self, handle: &Handle<'_>, run: Run, reuse: Reuse) -> Result<()> {
        self.free(handle, run, reuse)
    }

    /// Fails if a run cannot be freed, and has its bitmaps in memory otherwise. Called before
    /// anything changes that leads to it.
    ///
    /// # Errors
    /// As [`Space::free_data`]; what the device returns.
    pub fn check_to_free(&self, run: Run) -> Result<()> {
        if let Some(block) = self.metadata.first_in(self.whole_units(run)) {
            return Err(not_to_be_freed(block, "the volume's own metadata"));
        }
        self.parts(run)?.into_iter().try_for_each(|part| self.check_in_use(part))
    }

    /// Frees a run. The cache forgets the blocks that may be reused at once. For held blocks, the
    /// caller does that and publishes them, once nothing in memory points to them.
    fn free(&self, handle: &Handle<'_>, run: Run, reuse: Reuse) -> Result<()> {
        let run = self.whole_units(run);
        if let Some(block) = self.metadata.first_in(run) {
            return Err(not_to_be_freed(block, "the volume's own metadata"));
        }
        let _lock = self.lock_superblock();
        let parts = self.parts(run)?;
        for part in &parts {
            self.check_in_use(*part)?;
        }
        let reuse = if self.store.keeps_order() && !bug(Bug::FreedBlockGivenEarly) {
            reuse
        } else {
            Reuse::AtOnce
        };
        if reuse == Reuse::AtOnce {
            // Before the bits change: afterwards the blocks may belong to another file.
            self.store.forget_run(run);
        }
        parts.into_iter().try_for_each(|part| self.give_back(handle, part, reuse))
    }

    /// How many groups a run touches, at most.
    pub fn groups_of(&self, run: Run) -> u32 {
        run.length / self.store.superblock.blocks_per_group.max(1) + 2
    }

    /// Marks a run that was placed as in use.
    ///
    /// # Errors
    /// `Corrupt` if a block is in use; what the device returns.
    pub fn fix(
        &self,
        handle: &Handle<'_>,
        reservation: &mut Reservation<'_>,
        run: Run,
    ) -> Result<()> {
        for part in self.parts(run)? {
            let GroupPart { group, first, length } = part;
            let (mut state, frame) = self.lock_to_change(handle, group, BitmapKind::Blocks)?;
            debug_assert!(state.held_blocks.holds(first, length), "{run:?} was not placed");
            if !handle.modify_at_once(&frame, |bytes| set_run(bytes, first, length)) {
                return Err(wrong(group, BitmapKind::Blocks, "bit", first, "placed and not free"));
            }
            state.held_blocks.release(first, length);
            let free = &mut state.descriptor.free_blocks;
            *free = free.saturating_sub(length);
            self.counters.free_blocks.fetch_sub(length.into(), Ordering::AcqRel);
            self.changed(group, &mut state, BitmapKind::Blocks);
        }
        self.used(reservation, self.units_of(self.whole_units(run).length));
        Ok(())
    }

    /// Gives up the place of a run that was not fixed. The caller gives back what was promised.
    pub fn unplace(&self, run: Run) {
        // It is inside the volume: it was found there.
        for part in self.parts(run).unwrap_or_default() {
            let mut state = self.state(part.group).lock();
            state.held_blocks.release(part.first, part.length);
            state.may_have_joined(part.length);
        }
    }

    /// Places the free blocks that follow a run in its group, at most `blocks` of them, out of what
    /// is not promised. `None` if there are none.
    pub fn place_after(&self, run: Run, blocks: u32) -> Option<Run> {
        let next = BlockNo(run.start.0.saturating_add(run.length.into()));
        let Goal { group, bit, .. } = self.goal(next);
        let is_possible = blocks > 0 && self.unit_log2 == 0;
        if self.store.superblock.group_of_block(next)? != group || !is_possible {
            return None;
        }
        let mut state = self.state(group).lock();
        let bytes = state.block_bitmap.as_ref()?.bytes();
        let seen = state.held_blocks.marked(&bytes);
        let limit = self.limit(group, BitmapKind::Blocks).min(bit.saturating_add(blocks));
        let end = next_set(&seen, bit, limit).unwrap_or(limit);
        let length = end.saturating_sub(bit);
        drop(seen);
        if length == 0 || self.promise(length.into()).is_err() {
            return None;
        }
        self.counters.kept.fetch_add(length.into(), Ordering::AcqRel);
        state.held_blocks.hold(self.store.block_size() as usize, bit, length);
        Some(Run { start: next, length })
    }

    /// Splits a run at group boundaries, into the bits of the units that it touches.
    pub(super) fn parts(&self, run: Run) -> Result<Vec<GroupPart>> {
        let mut parts = Vec::new();
        let run = self.whole_units(run);
        let (mut block, mut left) = (run.start, self.units_of(run.length));
        while left > 0 {
            let outside = || not_to_be_freed(block, "outside the volume");
            let group = self.store.superblock.group_of_block(block).ok_or_else(outside)?;
            let first = self.goal(block).bit;
            let length =
                left.min(self.limit(group, BitmapKind::Blocks).saturating_sub(first)).max(1);
            parts.push(GroupPart { group, first, length });
            block.0 = block.0.saturating_add(self.blocks_of(length.into()));
            left -= length;
        }
        Ok(parts)
    }

    fn check_in_use(&self, part: GroupPart) -> Result<()> {
        let bits = self.look(part.group, BitmapKind::Blocks)?;
        match next_clear(&bits, part.first, part.first.saturating_add(part.length)) {
            Some(bit) => Err(self.freed_twice(part.group, bit)),
            None => Ok(()),
        }
    }

    fn freed_twice(&self, group: GroupNo, bit: u32) -> Error {
        not_to_be_freed(self.run(group, bit, 1).start, "free already")
    }

    fn give_back(&self, handle: &Handle<'_>, part: GroupPart, reuse: Reuse) -> Result<()> {
        let GroupPart { group, first, length } = part;
        let (mut state, frame) = self.lock_to_change(handle, group, BitmapKind::Blocks)?;
        if next_clear(&frame.bytes(), first, first.saturating_add(length)).is_some() {
            // Two files claim the block, and free it at the same time.
            return Err(self.freed_twice(group, first));
        }
        let _ = handle.modify_at_once(&frame, |bytes| clear_run(bytes, first, length));
        state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_add(length);
        self.counters.free_blocks.fetch_add(length.into(), Ordering::AcqRel);
        let block_size = self.store.block_size() as usize;
        match reuse {
            Reuse::WhenDurable => state.held_blocks.hold(block_size, first, length),
            Reuse::AtOnce => state.may_have_joined(length),
        }
        self.changed(group, &mut state, BitmapKind::Blocks);
        drop(state);
        let counted = match reuse {
            Reuse::WhenDurable => &self.held.blocks,
            Reuse::AtOnce => &self.counters.available,
        };
        counted.fetch_add(length.into(), Ordering::AcqRel);
        Ok(())
    }

    /// Free runs of a group in rising order, as (first bit, number of bits): each is a unit.
    pub fn free_runs(&self, group: GroupNo) -> Result<Vec<(u32, u32)>> {
        let bits = self.look(group, BitmapKind::Blocks)?;
        Ok(clear_runs(&bits, self.limit(group, BitmapKind::Blocks)).collect())
    }

    /// No space for one who has to leave units that are reserved.
    pub(crate) fn no_unreserved_space(&self, wanted_blocks: u64, reserved: u64) -> Error {
        let available = self.counters.available.load(Ordering::Acquire);
        let free_blocks = self.blocks_of(available.saturating_sub(reserved));
        ErrorKind::NoSpace { wanted_blocks, free_blocks }.into()
    }

    /// No space for what wants this many blocks.
    pub fn no_space(&self, wanted_blocks: u64) -> Error {
        ErrorKind::NoSpace {
            wanted_blocks,
            free_blocks: self.blocks_of(self.counters.available.load(Ordering::Acquire)),
        }
        .into()
    }
}

fn not_to_be_freed(block: BlockNo, reason: &'static str) -> Error {
    Error::field(Place::Block(block), "map of a file", "block", block.0, reason)
}
