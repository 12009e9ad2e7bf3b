//! What an open file system is made of: the volume, the inodes in memory, and the lock that orders
//! renames.
//!
//! *Invariants*: every operation leaves memory within its bounds (`balance`); after a failed write
//! nothing more is written.
//! *Locking*: `renaming` before any inode; the rest lies in the layers below.
pub(crate) mod admission;
pub(crate) mod flusher;

use crate::error::{Error, ErrorKind, Result};
use crate::flush::admission::Backlog;
use crate::flush::flusher::Flusher;
use crate::inode::file;
use crate::inode::write_back::{PIECE_BYTES, settle_map, write_back, write_back_piece};
use crate::inode::{Node, Nodes};
use crate::policy::preset::{InodeWriteBack, Mount};
use crate::policy::throttle::{DirtyBudget, Manner};
use crate::store::cache::{Frame, Kind};
use crate::store::handle::Handle;
use crate::volume::{Options, Volume};
use extant_block::{BlockDevice, ShortLock, SleepLock};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Core {
    pub(crate) volume: Volume,
    pub(crate) nodes: Nodes,
    /// Held by every rename, so that the tree of directories stands still while it is looked at.
    pub(crate) renaming: SleepLock<()>,
    /// Inodes without a name that are still open.
    pub(crate) orphans: ShortLock<BTreeMap<Ino, Arc<Node>>>,
    /// Inodes whose last name was replaced: freed after the sweep that makes that durable.
    pub(crate) replaced: ShortLock<Vec<Arc<Node>>>,
    /// `s_state` as it was found: what closing puts back.
    state_found: u16,
    /// What it was opened for, and whether it was closed: a volume that is no longer writable
    /// without having been closed has lost something.
    opened_to_change: bool,
    closed: AtomicBool,
    /// It is being closed: no further call that changes something begins.
    pub(crate) closing: AtomicBool,
    /// Writes in the background, where the policy has one.
    pub(crate) flusher: Flusher,
    /// What writers that have to write go on with.
    pub(crate) backlog: ShortLock<Backlog>,
}

/// Something to write, and since when.
pub(crate) enum Changed {
    /// A file's blocks, or its inode that is not in its table yet.
    Node(u64, Arc<Node>),
    /// A block of metadata.
    Frame(u64, Arc<Frame>),
}

impl Changed {
    /// Since when.
    pub(crate) fn since(&self) -> u64 {
        match self {
            Changed::Node(since, _) | Changed::Frame(since, _) => *since,
        }
    }

    /// By time, then blocks before inodes, each by number.
    fn order(&self) -> (u64, bool, u64) {
        match self {
            Changed::Frame(since, frame) => (*since, false, frame.block().0),
            Changed::Node(since, node) => (*since, true, node.ino.0.into()),
        }
    }
}

/// Since when a node is changed.
fn changed_since(node: &Node, unstored: &BTreeMap<Ino, u64>) -> u64 {
    let data = node.pages.is_dirty().then(|| node.pages.dirty_since());
    let inode = unstored.get(&node.ino).copied();
    data.into_iter().chain(inode).min().unwrap_or(0)
}

/// How often an operation that finds no room tries again after what was promised or held was
/// settled.
const ROOM_TRIES_MAX: u32 = 4;

/// Inodes that wait until the replacement of their names is durable, at most.
const REPLACED_MAX: usize = 1024;

/// `s_state`: everything was written when it was closed.
const CLEAN: u16 = 1;

impl Core {
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Core> {
        let volume = Volume::open_within(device, options, shared)?;
        let changes = volume.check_writable().is_ok();
        if changes && volume.superblock.has(Feature::ORPHAN_PRESENT) {
            // The kernel leaves this behind only together with a journal to be replayed: whoever
            // does that frees them too.
            return Err(ErrorKind::NeedsRecovery.into());
        }
        let state_found = volume.superblock.state;
        let core = Core {
            nodes: Nodes::new(&volume),
            renaming: SleepLock::new(Arc::clone(&volume.clock), ()),
            orphans: ShortLock::default(),
            replaced: ShortLock::default(),
            state_found,
            opened_to_change: changes,
            closed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            flusher: Flusher::new(&volume.clock),
            backlog: ShortLock::default(),
            volume,
        };
        if core.is_writable() {
            core.store_state(state_found & !CLEAN)?;
            core.free_old_orphans()?;
        }
        Ok(core)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.volume.check_writable().is_ok()
    }

    fn store_state(&self, state: u16) -> Result<()> {
        let now = self.volume.clock.wall().seconds.max(0) as u64;
        self.volume.mutable.lock().state = state;
        self.volume.write_superblock(&self.volume.current_superblock(now), GroupNo(0))
    }

    /// Writes everything and waits until the device has it. When it fails, nothing more will ever
    /// be written.
    pub(crate) fn sync(&self) -> Result<()> {
        self.told(self.sync_all())
    }

    /// What is told of a failure is told when the writes that had begun before it have ended.
    pub(crate) fn told<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.volume.latch.settle();
            if self.volume.latch.is_closed() {
                self.volume.seat.leave();
            }
        }
        outcome
    }

    fn sync_all(&self) -> Result<()> {
        self.settle()?;
        self.free_replaced()?;
        self.chain_orphans()?;
        self.volume.sync_metadata()?;
        self.volume.touched_tables.lock().clear();
        Ok(())
    }

    /// Frees the inodes whose names were replaced, once a sweep has made that durable.
    pub(crate) fn free_replaced(&self) -> Result<()> {
        let replaced = std::mem::take(&mut *self.replaced.lock());
        if replaced.is_empty() {
            return Ok(());
        }
        let written = self.volume.write_metadata().and_then(|()| self.volume.barrier.pass());
        if let Err(error) = written {
            self.replaced.lock().extend(replaced);
            return Err(error);
        }
        for node in replaced {
            let before = self.volume.cache.changes();
            self.volume.guard(before, self.free_replaced_node(&node))?;
        }
        Ok(())
    }

    fn free_replaced_node(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        state.kept_links = None;
        if state.gone {
            return Ok(());
        }
        if node.opens.load(Ordering::Acquire) == 0 {
            return self.free_locked(node, &mut state);
        }
        state.store(&Handle::begin(&self.volume, 2)?)?;
        self.orphans.lock().insert(node.ino, Arc::clone(node));
        Ok(())
    }

    /// Gives all dirty blocks their places, and takes back what files have in hand: then nothing is
    /// promised any more. All writes are under way when it returns.
    fn settle(&self) -> Result<()> {
        self.write_changes(&mut self.changes(), u64::MAX)?;
        if self.volume.groups.inodes_in_hand() > 0 {
            for node in self.nodes.all() {
                let mut state = node.state.write();
                crate::inode::mapping::window::discard(
                    &Handle::begin(&self.volume, 2)?,
                    &mut state,
                )?;
            }
        }
        Ok(())
    }

    /// What there is to write, in the order in which it is written: by number where blocks are
    /// given at write-back (the layout follows it), metadata in a sweep at the end; else in the
    /// order in which it was changed, as its blocks were given.
    pub(crate) fn changes(&self) -> VecDeque<Changed> {
        let mut nodes = self.nodes.all();
        let unstored = self.volume.unstored.lock().clone();
        nodes.retain(|node| node.pages.is_dirty() || unstored.contains_key(&node.ino));
        if self.volume.delays_allocation() {
            let since = |node: &Arc<Node>| changed_since(node, &unstored);
            return nodes.into_iter().map(|node| Changed::Node(since(&node), node)).collect();
        }
        let nodes =
            nodes.into_iter().map(|node| Changed::Node(changed_since(&node, &unstored), node));
        let frames = self.volume.cache.changed().into_iter();
        let mut changes: Vec<Changed> =
            nodes.chain(frames.map(|(since, frame)| Changed::Frame(since, frame))).collect();
        changes.sort_by_key(Changed::order);
        changes.into()
    }

    /// Starts to write from the front until so many bytes are under way; stores inodes as the
    /// policy says.
    pub(crate) fn write_changes(&self, changes: &mut VecDeque<Changed>, bytes: u64) -> Result<()> {
        let volume = &self.volume;
        let before = volume.dirty_bytes();
        let mut late = Vec::new();
        while volume.dirty_bytes().saturating_add(bytes) > before {
            let node = match changes.pop_front() {
                None => break,
                Some(Changed::Frame(_, frame)) => {
                    volume.cache.start_writing(vec![frame]);
                    continue;
                }
                Some(Changed::Node(_, node)) => node,
            };
            if node.pages.is_dirty() {
                write_back(volume, &node)?;
            }
            match volume.policies.inode_write_back {
                InodeWriteBack::Interleaved => self.store_late(&node)?,
                InodeWriteBack::Clustered => late.push(node),
            }
        }
        self.store_clustered(late)
    }

    /// Starts to write from the front until so many bytes were begun, a piece of each file in turn;
    /// gives how many it were. What is left of a file goes to the end.
    pub(crate) fn write_pieces(&self, changes: &mut VecDeque<Changed>, bytes: u64) -> Result<u64> {
        let volume = &self.volume;
        let mut begun = 0;
        let mut late = Vec::new();
        while begun < bytes {
            let node = match changes.pop_front() {
                None => break,
                Some(Changed::Frame(_, frame)) => {
                    volume.cache.start_writing(vec![frame]);
                    begun += u64::from(volume.block_size());
                    continue;
                }
                Some(Changed::Node(_, node)) => node,
            };
            begun += write_back_piece(volume, &node, (bytes - begun).min(PIECE_BYTES))?;
            if node.pages.is_dirty() {
                changes.push_back(Changed::Node(node.pages.dirty_since(), node));
                continue;
            }
            match volume.policies.inode_write_back {
                InodeWriteBack::Interleaved => self.store_late(&node)?,
                InodeWriteBack::Clustered => late.push(node),
            }
        }
        self.store_clustered(late)?;
        Ok(begun)
    }

    /// Starts to write all of these, each file as it is now, piece by piece.
    pub(crate) fn write_each(&self, changes: VecDeque<Changed>) -> Result<()> {
        for change in changes {
            let left = match &change {
                Changed::Node(_, node) => {
                    node.pages.dirty_blocks() * u64::from(self.volume.block_size())
                }
                Changed::Frame(..) => 1,
            };
            self.write_pieces(&mut VecDeque::from([change]), left.max(1))?;
        }
        Ok(())
    }

    /// Stores inodes that are not in their table yet: table blocks that are missing are read in
    /// rising order, many at a time.
    pub(crate) fn store_clustered(&self, mut nodes: Vec<Arc<Node>>) -> Result<()> {
        let volume = &self.volume;
        let unstored = volume.unstored.lock().clone();
        nodes.retain(|node| unstored.contains_key(&node.ino));
        nodes.sort_unstable_by_key(|node| node.ino);
        let mut tables: Vec<BlockNo> = nodes
            .iter()
            .filter_map(|node| crate::inode::place(volume, node.ino).ok())
            .map(|(block, _)| block)
            .collect();
        tables.sort_unstable();
        tables.dedup();
        volume.cache.prefetch(tables.into_iter().map(|block| (block, Kind::Plain)));
        nodes.iter().try_for_each(|node| self.store_late(node))
    }

    /// Stores an inode that was changed and is not in its table yet.
    fn store_late(&self, node: &Node) -> Result<()> {
        if !self.volume.unstored.lock().contains_key(&node.ino) {
            return Ok(());
        }
        let mut state = node.state.write();
        if state.gone {
            return Ok(());
        }
        state.store_now(&Handle::begin(&self.volume, 2)?)
    }

    /// Does some work; when it finds no room, once more when what was promised on a guess to others
    /// has been settled, and what was freed may be used again.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let is_full = |outcome: &Result<T>| {
            let full = |error: &Error| {
                matches!(error.kind, ErrorKind::NoSpace { .. } | ErrorKind::NoInodes)
            };
            outcome.as_ref().is_err_and(full)
        };
        let mut outcome = work();
        // Others may take what becomes free meanwhile, or be about to make more free.
        for _ in 0..ROOM_TRIES_MAX {
            let groups = &self.volume.groups;
            let is_promised = groups.totals().reserved_blocks > 0 || groups.inodes_in_hand() > 0;
            let is_held = groups.holds_any() || !self.replaced.lock().is_empty();
            if !is_full(&outcome) || !is_promised && !is_held {
                break;
            }
            self.settle()?;
            if is_held {
                self.free_replaced()?;
                self.write_metadata()?;
            }
            outcome = work();
        }
        outcome
    }

    /// Writes everything, marks the volume clean and waits until the device has it.
    pub(crate) fn close(&self) -> Result<()> {
        let outcome = self.told(self.close_all());
        if outcome.is_err() {
            self.closing.store(false, Ordering::Release);
        }
        outcome
    }

    fn close_all(&self) -> Result<()> {
        if !self.opened_to_change || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.closing.store(true, Ordering::Release);
        self.flusher.stop();
        self.settle()?;
        self.free_replaced()?;
        self.free_nameless()?;
        for node in self.nodes.all() {
            settle_map(&self.volume, &mut node.state.write())?;
        }
        // The counts are durable before the mark that says so, also where a sync has just written
        // them: what closing asks of a device does not depend on the calls before it.
        self.volume.barrier.note_written();
        self.sync()?;
        self.store_state(self.state_found)?;
        self.volume.barrier.pass()?;
        self.closed.store(true, Ordering::Release);
        self.volume.latch.close(None);
        // What a call that was under way has dirtied since is never written: it is no burden to
        // other volumes.
        self.volume.seat.leave();
        Ok(())
    }

    /// Ends the volume behind so many blocks: in its last group, and behind everything in use.
    pub(crate) fn cut(&self, blocks: u64) -> Result<()> {
        let volume = &self.volume;
        volume.groups.cut(&Handle::begin(volume, 2)?, BlockNo(blocks))?;
        volume.mutable.lock().blocks_count = blocks;
        let copies = (1..volume.groups.len())
            .map(GroupNo)
            .filter(|group| volume.superblock.has_super(*group));
        let now = volume.clock.wall().seconds.max(0) as u64;
        let superblock = volume.current_superblock(now);
        for group in copies {
            volume.write_superblock(&superblock, group)?;
        }
        Ok(())
    }

    /// Keeps memory within its bounds, and asks the policy what a writer owes: called after
    /// operations, with no lock held.
    pub(crate) fn balance(&self) -> Result<()> {
        self.told(self.look_after_memory())
    }

    fn look_after_memory(&self) -> Result<()> {
        if self.volume.is_crowded_with_pages() {
            self.make_room()?;
        }
        if self.volume.cache.is_crowded() && self.is_writable() {
            self.write_metadata()?;
        }
        if self.replaced.lock().len() > REPLACED_MAX && self.is_writable() {
            self.free_replaced()?;
        }
        if self.is_writable() && self.volume.dirty_bytes() > 0 {
            self.throttle()?;
        }
        Ok(())
    }

    /// The same behind work that only looked. A failure is not dropped: that of a write has
    /// latched, and who asks to have everything written meets what could not be read again.
    pub(crate) fn balance_after_reading(&self) {
        let _ = self.balance();
    }

    /// Lets go of all pages that are clean; where no limit keeps what is dirty small, that is
    /// written first. After a failure what is dirty stays, and all else can still be read.
    fn make_room(&self) -> Result<()> {
        let writes = self.manner() == Manner::Whole;
        for node in self.nodes.all() {
            if writes && node.pages.is_dirty() && self.is_writable() {
                write_back(&self.volume, &node)?;
            }
            if node.pages.len() > 0 {
                let state = node.state.write();
                if writes {
                    node.pages.under_way.wait_for(&(0..u64::MAX));
                }
                node.pages.drop_clean(|block| state.dirty.contains(block.into()));
            }
        }
        Ok(())
    }

    pub(crate) fn write_metadata(&self) -> Result<()> {
        self.volume.write_metadata()
    }

    /// Starts to write metadata; gives how many bytes it were. Waits for none of it, unless data
    /// comes first: then it has to.
    pub(crate) fn start_metadata(&self) -> Result<u64> {
        let volume = &self.volume;
        if volume.writes_data_first() {
            let bytes = volume.cache.dirty_frames() * u64::from(volume.block_size());
            volume.write_metadata()?;
            return Ok(bytes);
        }
        volume.groups.store(&Handle::begin(volume, 0)?)?;
        let changed = volume.cache.changed();
        let bytes = changed.len() as u64 * u64::from(volume.block_size());
        volume.cache.start_writing(changed.into_iter().map(|(_, frame)| frame).collect());
        Ok(bytes)
    }

    /// On a synchronous mount: writes the directory blocks and inode tables that a call changed,
    /// and waits for them.
    pub(crate) fn write_through(&self) -> Result<()> {
        if self.volume.policies.mount == Mount::Async || !self.is_writable() {
            return Ok(());
        }
        let tables = std::mem::take(&mut *self.volume.touched_tables.lock());
        if self.volume.writes_data_first() {
            return self.volume.write_metadata();
        }
        self.volume.cache.write_back_some(|block, kind| {
            matches!(kind, Kind::Directory { .. }) || tables.contains(&block)
        })
    }

    /// Links the inodes without a name on the disk, so that whoever opens the volume after a crash
    /// can free them.
    pub(crate) fn chain_orphans(&self) -> Result<()> {
        let orphans: Vec<Arc<Node>> = self.orphans.lock().values().cloned().collect();
        let handle = Handle::begin(&self.volume, orphans.len() as u32)?;
        // From the end, so that each leads to one that was an orphan when it was looked at.
        let mut next = 0;
        for node in orphans.into_iter().rev() {
            let mut state = node.state.write();
            if state.gone || state.inode.links > 0 {
                continue;
            }
            // One that leads there already, on the disk too, is not written again.
            if state.inode.deletion_time != next
                || self.volume.unstored.lock().contains_key(&node.ino)
            {
                state.inode.deletion_time = next;
                state.store_now(&handle)?;
            }
            next = node.ino.0;
        }
        self.volume.mutable.lock().last_orphan = next;
        Ok(())
    }

    /// Frees what has no name and is still open: after the volume is closed nobody can use it.
    fn free_nameless(&self) -> Result<()> {
        let orphans: Vec<Arc<Node>> = self.orphans.lock().values().cloned().collect();
        for node in orphans {
            let mut state = node.state.write();
            if !state.gone && state.inode.links == 0 {
                let before = self.volume.cache.changes();
                self.volume.guard(before, self.free_locked(&node, &mut state))?;
            }
            self.orphans.lock().remove(&node.ino);
        }
        Ok(())
    }

    /// Frees what a crash left without a name, and cuts what it left half cut.
    fn free_old_orphans(&self) -> Result<()> {
        let mut next = self.volume.superblock.last_orphan;
        let mut left = self.volume.superblock.inodes_count;
        while next != 0 && left > 0 {
            left -= 1;
            let ino = Ino(next);
            let inode = crate::inode::load(&self.volume, ino)?;
            if !self.volume.superblock.is_usable(ino) || inode.file_type().is_none() {
                return Err(ErrorKind::NeedsRecovery.into());
            }
            if !self.volume.groups.inode_in_use(&self.volume, ino)? {
                break; // freed behind the last sync
            }
            next = inode.deletion_time;
            let (size, links, file_type) = (inode.size, inode.links, inode.file_type());
            let node = self.nodes.insert(&self.volume, ino, inode);
            node.state.write().inode.deletion_time = 0;
            if links == 0 {
                self.free(&node)?;
            } else if file_type == Some(extant_format::inode::FileType::Regular) {
                file::set_size(&self.volume, &node, size)?;
            }
        }
        self.volume.mutable.lock().last_orphan = 0;
        Ok(())
    }

    /// Counts an open file.
    pub(crate) fn hold(&self, node: &Arc<Node>) -> Result<()> {
        let state = node.state.read();
        if state.gone {
            return Err(ErrorKind::NotFound.into());
        }
        node.opens.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// An open file goes away; the last one of an inode without a name frees it.
    pub(crate) fn release(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        let last = node.opens.fetch_sub(1, Ordering::AcqRel) == 1;
        let is_replaced = state.kept_links.is_some();
        if last && state.inode.links == 0 && !is_replaced && !state.gone && self.is_writable() {
            self.orphans.lock().remove(&node.ino);
            return self.free_locked(node, &mut state);
        }
        if !self.is_writable() {
            return Ok(());
        }
        if node.rewritten.swap(false, Ordering::AcqRel) && self.volume.writes_data_first() {
            crate::inode::write_back::write_back_locked(&self.volume, &node.pages, &mut state)?;
        }
        if !last {
            return Ok(());
        }
        self.volume.groups.close_window(node.ino);
        if state.window.is_some() {
            crate::inode::mapping::window::discard(&Handle::begin(&self.volume, 2)?, &mut state)?;
        }
        // What is dirty will change the map once more: that write-back settles it.
        if state.dirty.is_empty() { settle_map(&self.volume, &mut state) } else { Ok(()) }
    }

    /// Frees an inode that has no name and is not open.
    fn free(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        self.free_locked(node, &mut state)
    }

    /// Frees an inode's blocks, its attributes and its number.
    pub(crate) fn free_locked(
        &self,
        node: &Node,
        state: &mut crate::inode::NodeState,
    ) -> Result<()> {
        use crate::policy::allocation::Purpose;
        use crate::space::InodeKind;
        use extant_format::inode::FileType;
        let volume = &self.volume;
        let kind = state.file_type()?;
        let handle = Handle::begin(volume, 16)?;
        file::forget_all(volume, &node.pages, state);
        volume.groups.close_window(node.ino);
        crate::inode::mapping::window::discard(&handle, state)?;
        let mapped = match kind {
            FileType::Symlink => !state.inode.is_fast_symlink(&volume.superblock),
            FileType::Regular | FileType::Directory => true,
            _ => false,
        };
        if mapped {
            let purpose =
                if kind == FileType::Directory { Purpose::Directory } else { Purpose::Data };
            crate::inode::mapping::remove(&handle, state, 0..u64::from(u32::MAX) + 1, purpose)?;
        }
        crate::inode::attribute::release(&handle, state)?;
        state.inode.size = 0;
        state.inode.links = 0;
        state.inode.deletion_time =
            (volume.now().seconds.max(1) as u64).min(u64::from(u32::MAX)) as u32;
        state.store_now(&handle)?;
        state.gone = true;
        // Before the number is free: from then on the table may hold another inode of that number.
        self.nodes.remove(node.ino);
        let counted =
            if kind == FileType::Directory { InodeKind::Directory } else { InodeKind::Other };
        volume.groups.free_inode(&handle, node.ino, counted)
    }
}
