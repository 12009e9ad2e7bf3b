//! The runs of one file, through indirect blocks or extents, in the order of the file: bounded
//! whatever the disk says. The check walks maps in the order of the disk, with a walk of its own.
//!
//! *Invariants*: over all walks that share a [`Claimed`], a map block is read at most once, so a
//! volume is walked in time proportional to the map blocks that it really has; nothing is kept but
//! the path from the root.
use crate::error::Error;
use crate::volume::Volume;
use extant_format::extent::{self, Node};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::{BlockNo, FileBlock, Run, indirect};
use rustc_hash::FxHashSet;
use std::ops::ControlFlow;

/// The map blocks that some file has already: a second claim is a fault.
#[derive(Clone, Debug, Default)]
pub struct Claimed(FxHashSet<BlockNo>);

impl Claimed {
    /// Whether the block was still free to be claimed.
    pub(crate) fn claim(&mut self, block: BlockNo) -> bool {
        self.0.insert(block)
    }

    /// All that were claimed, in no order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|block| block.0)
    }
}

/// What a walk meets, in the order of the file; a map block before all that is under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Blocks of the file on the volume. Not merged with the run before.
    Run {
        /// The first file block. Beyond 32 bits only in a map that is wrong.
        file_block: u64,
        /// Where it is.
        run: Run,
        /// Whether it holds data.
        state: extent::State,
    },
    /// An indirect block, or a node of the extent tree.
    MapBlock(BlockNo),
    /// Something in the map that cannot be; the walk goes on after it.
    Fault(MapFault),
}

/// What is wrong with a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFault {
    /// A block outside the volume, or not on the device.
    Outside(BlockNo),
    /// A map block that another place of this or another file has already.
    ClaimedTwice(BlockNo),
    /// A node of an extent tree that is none; `None` for the one in the inode.
    Node(Option<BlockNo>),
}

/// Whether an inode has a map at all: a fast symlink, a device and data in the inode have none.
pub(crate) fn is_mapped(volume: &Volume, inode: &Inode) -> bool {
    match inode.file_type() {
        Some(FileType::Regular | FileType::Directory) => inode.flags & flags::INLINE_DATA == 0,
        Some(FileType::Symlink) => {
            inode.flags & flags::INLINE_DATA == 0 && !inode.is_fast_symlink(volume.superblock())
        }
        _ => false,
    }
}

/// Visits the map of an inode. A visitor that breaks ends the walk.
///
/// # Errors
/// When the device fails. What is not on the device is a fault of the map.
pub fn walk(
    volume: &Volume,
    inode: &Inode,
    claimed: &mut Claimed,
    visit: &mut dyn FnMut(Visit) -> ControlFlow<()>,
) -> Result<(), Error> {
    if !is_mapped(volume, inode) {
        return Ok(());
    }
    let mut walk = MapRuns { volume, claimed, visit, failed: None };
    let _ = if inode.has_extents() { walk.extents(inode) } else { walk.indirect(inode) };
    walk.failed.map_or(Ok(()), Err)
}

struct MapRuns<'a> {
    volume: &'a Volume,
    claimed: &'a mut Claimed,
    visit: &'a mut dyn FnMut(Visit) -> ControlFlow<()>,
    failed: Option<Error>,
}

/// What comes of a map block that is to be read.
enum Read {
    Bytes(Vec<u8>),
    /// It was visited as a fault.
    Skip,
}

/// Neighbouring pointers, as one run.
#[derive(Default)]
struct Pending(Option<(u64, Run)>);

impl Pending {
    /// Takes a pointer; gives the run before it when it does not continue that.
    fn add(&mut self, file_block: u64, block: BlockNo) -> Option<Visit> {
        if let Some((first, run)) = &mut self.0 {
            let length = u64::from(run.length);
            let follows = run.start.0 + length == block.0 && *first + length == file_block;
            if follows && run.length < u32::MAX {
                run.length += 1;
                return None;
            }
        }
        self.0.replace((file_block, Run { start: block, length: 1 })).map(Pending::visit)
    }

    fn take(&mut self) -> Option<Visit> {
        self.0.take().map(Pending::visit)
    }

    fn visit((file_block, run): (u64, Run)) -> Visit {
        Visit::Run { file_block, run, state: extent::State::Written }
    }
}

impl MapRuns<'_> {
    fn visit_if(&mut self, visit: Option<Visit>) -> ControlFlow<()> {
        visit.map_or(ControlFlow::Continue(()), |visit| (self.visit)(visit))
    }

    fn fault(&mut self, fault: MapFault) -> ControlFlow<()> {
        (self.visit)(Visit::Fault(fault))
    }

    fn read(&mut self, block: BlockNo) -> ControlFlow<(), Read> {
        if !self.volume.holds(block) {
            self.fault(MapFault::Outside(block))?;
            return ControlFlow::Continue(Read::Skip);
        }
        if !self.claimed.claim(block) {
            self.fault(MapFault::ClaimedTwice(block))?;
            return ControlFlow::Continue(Read::Skip);
        }
        (self.visit)(Visit::MapBlock(block))?;
        match self.volume.block("map", block) {
            Ok(bytes) => ControlFlow::Continue(Read::Bytes(bytes)),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn indirect(&mut self, inode: &Inode) -> ControlFlow<()> {
        let mut pending = Pending::default();
        for index in 0..indirect::DIRECT {
            self.data(&mut pending, index.into(), indirect::pointer(&inode.block, index))?;
        }
        let pointers_log2 = u32::from(self.volume.superblock().block_size_log2) - 2;
        let mut file_block = u64::from(indirect::DIRECT);
        for height in 1..=3 {
            let root = indirect::pointer(&inode.block, indirect::DIRECT + height - 1);
            self.tree(&mut pending, root, height, file_block)?;
            file_block += 1 << (pointers_log2 * height);
        }
        let last = pending.take();
        self.visit_if(last)
    }

    /// One pointer to data. 0 is a hole.
    fn data(&mut self, pending: &mut Pending, file_block: u64, pointer: u32) -> ControlFlow<()> {
        let block = BlockNo(pointer.into());
        if pointer == 0 {
            return ControlFlow::Continue(());
        }
        if block.0 >= self.volume.superblock().blocks_count {
            return self.fault(MapFault::Outside(block));
        }
        let before = pending.add(file_block, block);
        self.visit_if(before)
    }

    fn tree(
        &mut self,
        pending: &mut Pending,
        root: u32,
        height: u32,
        file_block: u64,
    ) -> ControlFlow<()> {
        if root == 0 {
            return ControlFlow::Continue(());
        }
        // A map block follows all data before it.
        let before = pending.take();
        self.visit_if(before)?;
        let Read::Bytes(bytes) = self.read(BlockNo(root.into()))? else {
            return ControlFlow::Continue(());
        };
        let pointers_log2 = u32::from(self.volume.superblock().block_size_log2) - 2;
        let under_each = 1_u64 << (pointers_log2 * (height - 1));
        let (words, _) = bytes.as_chunks::<4>();
        for (index, word) in (0_u64..).zip(words) {
            let pointer = u32::from_le_bytes(*word);
            let file_block = file_block + index * under_each;
            if height == 1 {
                self.data(pending, file_block, pointer)?;
            } else {
                self.tree(pending, pointer, height - 1, file_block)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn extents(&mut self, inode: &Inode) -> ControlFlow<()> {
        match Node::parse(&inode.block, None, self.volume.superblock().blocks_count) {
            Ok(node) => self.node(&node),
            Err(_) => self.fault(MapFault::Node(None)),
        }
    }

    /// Ends because the depth falls with every step.
    fn node(&mut self, node: &Node<'_>) -> ControlFlow<()> {
        for at in 0..node.len() {
            if node.depth() == 0 {
                let extent = node.extent(at);
                let run = Run { start: extent.start, length: extent.length };
                (self.visit)(Visit::Run {
                    file_block: extent.file_block.0.into(),
                    run,
                    state: extent.state,
                })?;
                continue;
            }
            let child = node.index(at).child;
            let Read::Bytes(bytes) = self.read(child)? else {
                continue;
            };
            match Node::parse(&bytes, Some(node.depth() - 1), self.volume.superblock().blocks_count)
            {
                Ok(node) => self.node(&node)?,
                Err(_) => self.fault(MapFault::Node(Some(child)))?,
            }
        }
        ControlFlow::Continue(())
    }
}

/// Where one block of a file is, if it is mapped. Reads one map block a level.
///
/// # Errors
/// When a map block is not on the device or cannot be read. A map that is wrong there maps nothing.
pub(crate) fn block_at(
    volume: &Volume,
    inode: &Inode,
    block: FileBlock,
) -> Result<Option<BlockNo>, Error> {
    if !is_mapped(volume, inode) {
        return Ok(None);
    }
    match inode.has_extents() {
        true => Ok(extent_at(volume, inode, block)?.map(|(place, _)| place)),
        false => pointer_at(volume, inode, block),
    }
}

/// As [`block_at`], where the block was written: what was not reads as zeros.
///
/// # Errors
/// Those of [`block_at`].
pub(crate) fn written_at(
    volume: &Volume,
    inode: &Inode,
    block: FileBlock,
) -> Result<Option<BlockNo>, Error> {
    if !is_mapped(volume, inode) || !inode.has_extents() {
        return block_at(volume, inode, block);
    }
    let found = extent_at(volume, inode, block)?;
    let written = found.filter(|(_, state)| *state == extent::State::Written);
    Ok(written.map(|(place, _)| place))
}

fn pointer_at(volume: &Volume, inode: &Inode, block: FileBlock) -> Result<Option<BlockNo>, Error> {
    let Some(path) = indirect::path(block, volume.superblock().block_size_log2) else {
        return Ok(None);
    };
    let mut pointer = indirect::pointer(&inode.block, path.index[0]);
    for index in path.index.iter().take(path.depth).skip(1) {
        if pointer == 0 {
            return Ok(None);
        }
        pointer = indirect::pointer(&volume.block("map", BlockNo(pointer.into()))?, *index);
    }
    Ok(Some(BlockNo(pointer.into())).filter(|block| block.0 != 0))
}

fn extent_at(
    volume: &Volume,
    inode: &Inode,
    block: FileBlock,
) -> Result<Option<(BlockNo, extent::State)>, Error> {
    let mut bytes = inode.block.to_vec();
    let mut depth = None;
    loop {
        let Ok(node) = Node::parse(&bytes, depth, volume.superblock().blocks_count) else {
            return Ok(None);
        };
        let Some(at) = node.find(block) else { return Ok(None) };
        if node.depth() == 0 {
            let extent = node.extent(at);
            let offset = block.0 - extent.file_block.0;
            let place = || BlockNo(extent.start.0 + u64::from(offset));
            return Ok((offset < extent.length).then(|| (place(), extent.state)));
        }
        depth = Some(node.depth() - 1);
        let child = node.index(at).child;
        bytes = volume.block("map", child)?;
    }
}
