//! What is dirty, and in which order it is written.
//!
//! Where the throttle writes buffers by age ([`SyncOrder::BuffersThenInodes`]), blocks of files and
//! of metadata are written without the inodes, whose table blocks become dirty when they are
//! stored.
use super::Core;
use crate::error::Result;
use crate::inode::Node;
use crate::inode::volume::Volume;
use crate::inode::write_back::{PIECE_BYTES, is_scattered, write_back, write_back_piece};
use crate::policy::preset::{Congestion, InodeWriteBack};
use crate::policy::throttle::SyncOrder;
use crate::store::cache::Frame;
use extant_block::Operation;
use extant_format::Ino;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Something dirty, and since when, in nanoseconds of the clock.
pub(crate) enum Changed {
    /// A file with dirty blocks, or an unstored inode.
    Node(u64, Arc<Node>),
    /// A block of metadata.
    Frame(u64, Arc<Frame>),
}

impl Changed {
    /// Since when it is dirty, in nanoseconds of the clock.
    pub(crate) fn since(&self) -> u64 {
        match self {
            Changed::Node(since, _) | Changed::Frame(since, _) => *since,
        }
    }

    /// Whether it is a file that is overwritten here and there.
    pub(crate) fn is_scattered(&self, volume: &Volume) -> bool {
        match self {
            Changed::Node(_, node) => is_scattered(volume, &node.state.read()),
            Changed::Frame(..) => false,
        }
    }

    /// By time; then blocks before inodes, each by number.
    fn order(&self) -> (u64, bool, u64) {
        match self {
            Changed::Frame(since, frame) => (*since, false, frame.block().0),
            Changed::Node(since, node) => (*since, true, node.ino.0.into()),
        }
    }
}

/// What a thread does that has more to write than the device's queue takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenCongested {
    /// It sleeps in the queue.
    Sleeps,
    /// It stops before a piece if the queue is congested ([`Core::is_queue_congested`]).
    Leaves,
}

/// Bytes that a thread with [`WhenCongested::Leaves`] submits before it looks at the queue again:
/// the largest request of Linux 2.6. That looked before each page, of which those of one request
/// merge.
const LOOK_BYTES: u64 = 512 << 10;

/// When inodes are stored for the sake of the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// Every five seconds.
    Update,
    /// Somebody waits for all of it.
    Sync,
}

/// Since when a node is dirty or unstored; 0 if it is neither.
fn changed_since(node: &Node, unstored: &BTreeMap<Ino, u64>) -> u64 {
    let data = node.pages.is_dirty().then(|| node.pages.dirty_since());
    let inode = unstored.get(&node.ino).copied();
    data.into_iter().chain(inode).min().unwrap_or(0)
}

impl Core {
    /// What is dirty, in the order in which it is written. If blocks are allocated at write-back,
    /// files by inode number, which the layout follows, and metadata in a sweep at the end.
    /// Otherwise everything in the order in which it was changed.
    pub(crate) fn changes(&self) -> VecDeque<Changed> {
        let unstored = self.volume().unstored.inodes.lock().clone();
        let mut inodes = self.volume().pages.dirty_inodes();
        inodes.retain(|ino| !unstored.contains_key(ino));
        inodes.extend(unstored.keys());
        inodes.sort_unstable();
        let mut nodes = self.inodes.nodes.of(inodes);
        nodes.retain(|node| node.pages.is_dirty() || unstored.contains_key(&node.ino));
        if self.volume().store.delays_allocation() {
            let since = |node: &Arc<Node>| changed_since(node, &unstored);
            return nodes.into_iter().map(|node| Changed::Node(since(&node), node)).collect();
        }
        let nodes =
            nodes.into_iter().map(|node| Changed::Node(changed_since(&node, &unstored), node));
        // With a journal, frames are written by commits and checkpoints.
        let frames = match self.volume().store.journals() {
            true => Vec::new(),
            false => self.volume().store.cache.changed(),
        };
        let frames = frames.into_iter();
        let mut changes: Vec<Changed> =
            nodes.chain(frames.map(|(since, frame)| Changed::Frame(since, frame))).collect();
        changes.sort_by_key(Changed::order);
        changes.into()
    }

    /// Starts to write from the front until `bytes` are under way, and stores inodes as the policy
    /// says.
    pub(crate) fn write_changes(&self, changes: &mut VecDeque<Changed>, bytes: u64) -> Result<()> {
        let volume = self.volume();
        let before = volume.dirty_bytes();
        let mut late = Vec::new();
        while volume.dirty_bytes().saturating_add(bytes) > before {
            let node = match changes.pop_front() {
                None => break,
                Some(Changed::Frame(_, frame)) => {
                    volume.store.cache.start_writing(vec![frame]);
                    continue;
                }
                Some(Changed::Node(_, node)) => node,
            };
            if node.pages.is_dirty() {
                write_back(volume, &node)?;
            }
            match volume.store.policies.inode_write_back {
                InodeWriteBack::Interleaved => self.inodes.store_late(&node)?,
                InodeWriteBack::Clustered => late.push(node),
            }
        }
        self.inodes.store_clustered(late)
    }

    /// What a flusher of this volume does that has more to write than the device's queue takes.
    pub(crate) fn flusher_when_congested(&self) -> WhenCongested {
        match self.volume().store.policies.congestion {
            Congestion::Waits => WhenCongested::Sleeps,
            Congestion::Leaves => WhenCongested::Leaves,
        }
    }

    /// Whether the device's queue is nearly full of writes.
    pub(crate) fn is_queue_congested(&self) -> bool {
        self.volume().store.device.is_congested(Operation::Write)
    }

    /// Starts to write a piece of a file. Returns how many bytes.
    fn write_piece(&self, node: &Node, bytes: u64, when_congested: WhenCongested) -> Result<u64> {
        if when_congested == WhenCongested::Sleeps {
            return write_back_piece(self.volume(), node, bytes);
        }
        let mut begun = 0;
        while begun < bytes && node.pages.is_dirty() && !self.is_queue_congested() {
            match write_back_piece(self.volume(), node, (bytes - begun).min(LOOK_BYTES))? {
                0 => break,
                piece => begun += piece,
            }
        }
        Ok(begun)
    }

    /// Starts to write from the front until `bytes` were submitted, one piece of each file in turn.
    /// Returns how many bytes. What is left of a file moves to the end.
    pub(crate) fn write_pieces(
        &self,
        changes: &mut VecDeque<Changed>,
        bytes: u64,
        when_congested: WhenCongested,
    ) -> Result<u64> {
        let volume = self.volume();
        let mut begun = 0;
        let mut late = Vec::new();
        while begun < bytes {
            if when_congested == WhenCongested::Leaves && self.is_queue_congested() {
                break;
            }
            let node = match changes.pop_front() {
                None => break,
                Some(Changed::Frame(_, frame)) => {
                    volume.store.cache.start_writing(vec![frame]);
                    begun += u64::from(volume.store.block_size());
                    continue;
                }
                Some(Changed::Node(_, node)) => node,
            };
            begun += self.write_piece(&node, (bytes - begun).min(PIECE_BYTES), when_congested)?;
            if node.pages.is_dirty() {
                changes.push_back(Changed::Node(node.pages.dirty_since(), node));
                continue;
            }
            match volume.store.policies.inode_write_back {
                InodeWriteBack::Interleaved => self.inodes.store_late(&node)?,
                InodeWriteBack::Clustered => late.push(node),
            }
        }
        self.inodes.store_clustered(late)?;
        Ok(begun)
    }

    /// Whether dirty blocks are written by age, apart from the inodes.
    pub(crate) fn writes_by_age(&self) -> bool {
        let store = &self.volume().store;
        store.policies.throttle.sync_order() == SyncOrder::BuffersThenInodes
            && !store.delays_allocation()
            && !store.keeps_order()
    }

    /// Files with dirty blocks and dirty blocks of metadata that became dirty before `before`,
    /// oldest first.
    fn buffers(&self, before: u64) -> VecDeque<Changed> {
        let mut nodes = self.inodes.nodes.of(self.volume().pages.dirty_inodes());
        nodes.retain(|node| node.pages.is_dirty());
        let nodes = nodes.into_iter().map(|node| Changed::Node(node.pages.dirty_since(), node));
        let frames = self.volume().store.cache.changed().into_iter();
        let frames = frames.map(|(since, frame)| Changed::Frame(since, frame));
        let all = nodes.chain(frames).filter(|change| change.since() <= before);
        let mut buffers: Vec<Changed> = all.collect();
        buffers.sort_by_key(Changed::order);
        buffers.into()
    }

    /// Starts to write from the front, piece by piece, until `bytes` were submitted. Returns how
    /// many bytes.
    fn write_buffers(&self, buffers: &mut VecDeque<Changed>, bytes: u64) -> Result<u64> {
        let volume = self.volume();
        let mut begun = 0;
        while begun < bytes {
            match buffers.pop_front() {
                None => break,
                Some(Changed::Frame(_, frame)) => {
                    volume.store.cache.start_writing(vec![frame]);
                    begun += u64::from(volume.store.block_size());
                }
                Some(Changed::Node(since, node)) => {
                    let piece = (bytes - begun).min(PIECE_BYTES);
                    begun += write_back_piece(volume, &node, piece)?;
                    if node.pages.is_dirty() && begun >= bytes {
                        buffers.push_front(Changed::Node(since, node));
                    } else if node.pages.is_dirty() {
                        buffers.push_back(Changed::Node(since, node));
                    }
                }
            }
        }
        Ok(begun)
    }

    /// Starts to write `bytes` of what is dirty, oldest first. Returns how many bytes. The next
    /// call goes on where this one ended: what became dirty meanwhile is younger.
    pub(crate) fn write_oldest(&self, bytes: u64) -> Result<u64> {
        if !self.writes_by_age() {
            let before = self.volume().dirty_bytes();
            self.write_changes(&mut self.changes(), bytes)?;
            return Ok(before.saturating_sub(self.volume().dirty_bytes()));
        }
        let mut buffers = std::mem::take(&mut *self.backlog.lock());
        if buffers.is_empty() {
            buffers = self.buffers(u64::MAX);
        }
        let outcome = self.write_buffers(&mut buffers, bytes);
        let mut backlog = self.backlog.lock();
        if backlog.is_empty() {
            *backlog = buffers;
        }
        outcome
    }

    /// Starts to write everything that became dirty before `before`, oldest first.
    pub(crate) fn write_all_older(&self, before: u64) -> Result<()> {
        // Dropped when the lock is open again: the last of an inode's nodes may be among them.
        let forgotten = std::mem::take(&mut *self.backlog.lock());
        drop(forgotten);
        let mut buffers = self.buffers(before);
        self.write_buffers(&mut buffers, u64::MAX).map(drop)
    }

    /// Stores all changed inodes into their table blocks, which are read where they are not in
    /// memory, in the order that the policy says. Interleaved, in a sync, each table block is under
    /// way before the next one is read; otherwise nothing is written but what the throttle asks for
    /// while much is dirty.
    fn store_inodes(&self, occasion: Occasion) -> Result<()> {
        let volume = self.volume();
        let unstored = volume.unstored.inodes.lock().clone();
        let mut nodes = self.inodes.nodes.of(unstored.keys().copied());
        if volume.store.policies.inode_write_back == InodeWriteBack::Clustered {
            return self.inodes.store_clustered(nodes);
        }
        nodes.sort_by_key(|node| (unstored.get(&node.ino).copied(), node.ino));
        match occasion {
            Occasion::Sync => self.inodes.store_interleaved(&nodes),
            Occasion::Update => nodes.iter().try_for_each(|node| {
                self.inodes.store_late(node)?;
                self.throttle()
            }),
        }
    }

    /// What kupdate does: stores all changed inodes and descriptors, then starts to write what
    /// became dirty before `before`.
    pub(crate) fn update(&self, before: u64) -> Result<()> {
        if !self.writes_by_age() {
            let mut old = self.changes();
            old.retain(|change| change.since() <= before);
            return self.write_changes(&mut old, u64::MAX);
        }
        self.store_inodes(Occasion::Update)?;
        self.volume().space.start_store()?;
        self.write_all_older(before)
    }

    /// The first two parts of a sync by age: all dirty blocks are under way, all inodes in their
    /// table blocks, and these are under way.
    pub(crate) fn write_by_age(&self) -> Result<()> {
        self.write_all_older(u64::MAX)?;
        self.store_inodes(Occasion::Sync)?;
        self.volume().space.start_store()?;
        self.write_all_older(u64::MAX)
    }

    /// Starts to write all of these piece by piece, from the front: of each file, what is dirty
    /// now. What is not begun, because the queue is left alone, stays.
    pub(crate) fn write_each(
        &self,
        changes: &mut VecDeque<Changed>,
        when_congested: WhenCongested,
    ) -> Result<()> {
        while let Some(change) = changes.pop_front() {
            let left = match &change {
                Changed::Node(_, node) => {
                    node.pages.dirty_blocks() * u64::from(self.volume().store.block_size())
                }
                Changed::Frame(..) => 1,
            }
            .max(1);
            let mut one = VecDeque::from([change]);
            let begun = self.write_pieces(&mut one, left, when_congested)?;
            if when_congested == WhenCongested::Leaves && begun < left && self.is_queue_congested()
            {
                one.into_iter().for_each(|change| changes.push_front(change));
                break;
            }
        }
        Ok(())
    }
}
