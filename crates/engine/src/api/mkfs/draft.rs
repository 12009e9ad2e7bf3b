//! A new volume in memory, before anything is written: which blocks and inodes its first files
//! have, and what is in them.
//!
//! Files are placed as mke2fs places them, one after the other: each takes the first blocks that
//! are free, but for a journal of extents, which begins near the middle of the volume.
//!
//! *Invariants*: a block is in `blocks` only if the layout counts it as used. Inodes are taken in
//! rising order.
use super::traffic::Traffic;
use crate::error::{ErrorKind, Result};
use extant_format::checksum::inode_seed;
use extant_format::extent::{self, Extent, Index, MAX_LENGTH, State};
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::layout::{Layout, Packing};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, GroupNo, Ino, Run, indirect};
use std::collections::BTreeMap;

/// Nodes that the root of a tree of extents leads to: what an inode has room for.
const ROOT_ENTRIES: usize = 4;

/// A volume that is being decided.
pub(super) struct Draft {
    /// Where things are, and how much is free.
    pub layout: Layout,
    /// The inodes in use, and reserved ones that hold something.
    pub inodes: BTreeMap<u32, Inode>,
    /// Blocks with content, by their number.
    pub blocks: BTreeMap<u64, Vec<u8>>,
    /// Runs that have to read as zeros.
    pub zeros: Vec<Run>,
    /// What has been written so far.
    pub traffic: Traffic,
    /// The highest inode in use.
    last_inode: u32,
    now: Time,
}

/// Where a file's blocks are.
pub(super) struct Mapped {
    /// What `i_block` holds.
    pub map: [u8; 60],
    /// Whether that is the root of a tree of extents.
    pub flags: u32,
    /// Blocks of data, in the order of the file.
    pub data: Vec<BlockNo>,
    /// Blocks of data and of the map together, with bigalloc those of whole clusters.
    pub blocks: u64,
}

impl Draft {
    pub(super) fn new(layout: Layout, now: Time) -> Draft {
        let last_inode = layout.superblock.first_inode.saturating_sub(1);
        let block_size = layout.superblock.block_size();
        Draft {
            layout,
            inodes: BTreeMap::new(),
            blocks: BTreeMap::new(),
            zeros: Vec::new(),
            traffic: Traffic::new(block_size),
            last_inode,
            now,
        }
    }

    pub(super) fn superblock(&self) -> &Superblock {
        &self.layout.superblock
    }

    pub(super) fn block_size(&self) -> u32 {
        self.superblock().block_size()
    }

    /// A block of zeros.
    pub(super) fn empty(&self) -> Vec<u8> {
        vec![0; self.block_size() as usize]
    }

    /// An inode with all its times now, and no blocks.
    pub(super) fn inode(&self, mode: u16, links: u16) -> Inode {
        let mut inode = Inode::new(mode, self.superblock());
        let now = self.now;
        (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
        inode.create_time = inode.create_time.map(|_| now);
        inode.links = links;
        inode
    }

    /// A regular file of root's, with these blocks.
    pub(super) fn file(&self, mapped: &Mapped, bytes: u64) -> Inode {
        let mut inode = self.inode(FileType::Regular.mode_bits() | 0o600, 1);
        inode.size = bytes;
        self.fill(&mut inode, mapped);
        inode
    }

    /// Gives an inode its blocks.
    pub(super) fn fill(&self, inode: &mut Inode, mapped: &Mapped) {
        inode.block = mapped.map;
        inode.flags |= mapped.flags;
        inode.sectors = mapped.blocks * u64::from(self.block_size() / 512);
    }

    /// The next inode that no file has.
    pub(super) fn next_inode(&mut self) -> Result<Ino> {
        if self.last_inode >= self.superblock().inodes_count {
            return Err(ErrorKind::NoInodes.into());
        }
        self.last_inode += 1;
        self.layout.take_inodes(self.last_inode);
        Ok(Ino(self.last_inode))
    }

    /// Stores an inode, and counts the write to its table.
    pub(super) fn store(&mut self, ino: Ino, inode: Inode) {
        self.touch_inode(ino);
        self.inodes.insert(ino.0, inode);
    }

    /// Counts a write to the block of an inode's table.
    pub(super) fn touch_inode(&mut self, ino: Ino) {
        if let Some((block, _)) = self.place_of(ino) {
            self.traffic.write(block);
        }
    }

    /// Where an inode is: its block, and the byte in it.
    pub(super) fn place_of(&self, ino: Ino) -> Option<(BlockNo, usize)> {
        let superblock = self.superblock();
        let (group, _) = superblock.group_of_inode(ino)?;
        superblock.inode_place(ino, self.layout.descriptors.get(group.0 as usize)?)
    }

    /// The blocks of inode tables that hold an inode.
    pub(super) fn inode_blocks(&self) -> BTreeMap<BlockNo, Vec<u8>> {
        let mut blocks: BTreeMap<BlockNo, Vec<u8>> = BTreeMap::new();
        let size = usize::from(self.superblock().inode_size);
        for (ino, inode) in &self.inodes {
            let Some((block, at)) = self.place_of(Ino(*ino)) else { continue };
            let bytes = blocks.entry(block).or_insert_with(|| self.empty());
            if let Some(room) = bytes.get_mut(at..at + size) {
                inode.encode(room, Ino(*ino), self.superblock());
            }
        }
        blocks
    }

    /// Puts content in a block that was taken, and counts the write.
    pub(super) fn put(&mut self, block: BlockNo, content: Vec<u8>) {
        self.traffic.write(block);
        self.blocks.insert(block.0, content);
    }

    /// What of checksums belongs to an inode.
    pub(super) fn seed(&self, ino: Ino) -> u32 {
        inode_seed(self.superblock().checksum_seed, ino, 0)
    }

    /// Takes the first free blocks at or after `goal`, or of the volume: at least one, at most
    /// `most`, in a row. With bigalloc the rest of their last cluster goes with them.
    pub(super) fn take(&mut self, goal: BlockNo, most: u32) -> Result<Run> {
        let free = self.layout.free_run(goal, most);
        let run = free.or_else(|| self.layout.free_run(BlockNo(0), most));
        let wanted_blocks = u64::from(most);
        let no_space =
            ErrorKind::NoSpace { wanted_blocks, free_blocks: self.superblock().free_blocks };
        let run = run.ok_or(no_space)?;
        self.layout.take(run);
        Ok(run)
    }

    /// Takes one block.
    pub(super) fn take_one(&mut self, goal: BlockNo) -> Result<BlockNo> {
        Ok(self.take(goal, 1)?.start)
    }

    /// Takes `blocks` blocks for the file of this inode, and makes their map.
    pub(super) fn map(&mut self, ino: Ino, goal: BlockNo, blocks: u32) -> Result<Mapped> {
        match self.superblock().has(Feature::EXTENTS) {
            true => self.map_extents(ino, goal, blocks),
            false => self.map_pointers(blocks, &mut std::iter::empty()),
        }
    }

    fn map_extents(&mut self, ino: Ino, goal: BlockNo, blocks: u32) -> Result<Mapped> {
        let mut runs: Vec<Run> = Vec::new();
        let mut left = blocks;
        let mut next = goal;
        while left > 0 {
            // Not a part of a cluster but at the end, whatever an extent holds.
            let run = self.take(next, left)?;
            left -= run.length;
            next = BlockNo(run.start.0 + u64::from(run.length));
            let mut at = 0;
            while at < run.length {
                let start = BlockNo(run.start.0 + u64::from(at));
                let length = MAX_LENGTH.min(run.length - at);
                at += length;
                match runs.last_mut() {
                    Some(last)
                        if last.start.0 + u64::from(last.length) == start.0
                            && last.length + length <= MAX_LENGTH =>
                    {
                        last.length += length;
                    }
                    _ => runs.push(Run { start, length }),
                }
            }
        }
        self.map_runs(ino, goal, &runs)
    }

    /// As many blocks as the clusters have that this many need.
    pub(super) fn in_clusters(&self, blocks: u64) -> u64 {
        let log2 = self.superblock().cluster_log2();
        blocks.div_ceil(1 << log2) << log2
    }

    /// The map of blocks that were taken already, in the order of the file. Without extents they
    /// are at most twelve.
    pub(super) fn map_taken(&mut self, ino: Ino, runs: &[Run]) -> Result<Mapped> {
        if self.superblock().has(Feature::EXTENTS) {
            return self.map_runs(ino, BlockNo(0), runs);
        }
        let mut map = [0; 60];
        let data = runs.iter().flat_map(|run| run.start.0..run.start.0 + u64::from(run.length));
        let data: Vec<BlockNo> = data.map(BlockNo).collect();
        for (at, block) in (0..indirect::DIRECT).zip(&data) {
            indirect::set_pointer(&mut map, at, u32::try_from(block.0).unwrap_or(0));
        }
        if data.len() > indirect::DIRECT as usize {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let blocks = data.len() as u64;
        Ok(Mapped { map, flags: 0, data, blocks })
    }

    /// The tree of extents over these runs, which begin with block 0 of the file.
    pub(super) fn map_runs(&mut self, ino: Ino, goal: BlockNo, runs: &[Run]) -> Result<Mapped> {
        let mut first = 0;
        let mut extents = Vec::with_capacity(runs.len());
        for run in runs {
            let file_block = FileBlock(first);
            let Run { start, length } = *run;
            extents.push(Extent { file_block, length, start, state: State::Written });
            first += length;
        }
        let data = runs.iter().flat_map(|run| run.start.0..run.start.0 + u64::from(run.length));
        let data: Vec<BlockNo> = data.map(BlockNo).collect();
        let mut map = [0; 60];
        let mut blocks = self.in_clusters(data.len() as u64);
        let node_blocks = self.in_clusters(1);
        extent::initialize(&mut map, 0);
        if extents.len() <= ROOT_ENTRIES {
            for (at, extent) in extents.iter().enumerate() {
                extent::insert_extent(&mut map, at, *extent);
            }
            return Ok(Mapped { map, flags: flags::EXTENTS, data, blocks });
        }
        let seed = self.seed(ino);
        let capacity = extent::capacity(self.block_size() as usize);
        let mut children = Vec::new();
        for chunk in extents.chunks(capacity) {
            let mut node = self.empty();
            extent::initialize(&mut node, 0);
            for (at, extent) in chunk.iter().enumerate() {
                extent::insert_extent(&mut node, at, *extent);
            }
            children.push(self.put_node(node, seed, goal, chunk[0].file_block)?);
        }
        let mut depth = 1;
        while children.len() > ROOT_ENTRIES {
            let mut parents = Vec::new();
            for chunk in children.chunks(capacity) {
                let mut node = self.empty();
                extent::initialize(&mut node, depth);
                for (at, index) in chunk.iter().enumerate() {
                    extent::insert_index(&mut node, at, *index);
                }
                parents.push(self.put_node(node, seed, goal, chunk[0].file_block)?);
                blocks += chunk.len() as u64 * node_blocks;
            }
            children = parents;
            depth += 1;
        }
        blocks += children.len() as u64 * node_blocks;
        // mke2fs leaves the entries of the leaf that the root was before where they were.
        for (at, extent) in extents.iter().take(ROOT_ENTRIES).enumerate() {
            extent::insert_extent(&mut map, at, *extent);
        }
        extent::restart(&mut map, depth);
        for (at, index) in children.iter().enumerate() {
            extent::append_index(&mut map, at, *index);
        }
        Ok(Mapped { map, flags: flags::EXTENTS, data, blocks })
    }

    /// Puts a node of a tree of extents where mke2fs has it: in the block before those that it
    /// was searched for, else after them.
    fn put_node(
        &mut self,
        mut node: Vec<u8>,
        seed: u32,
        goal: BlockNo,
        file_block: FileBlock,
    ) -> Result<Index> {
        if self.superblock().has(Feature::METADATA_CSUM) {
            extent::seal(&mut node, seed);
        }
        let child = self.take_one(BlockNo(goal.0.saturating_sub(1)))?;
        self.put(child, node);
        Ok(Index { file_block, child })
    }

    /// Pointers: each block of the map is taken before the first block that it leads to. Blocks
    /// of data are those `given`, and then the next that are free.
    pub(super) fn map_pointers(
        &mut self,
        blocks: u32,
        given: &mut dyn Iterator<Item = BlockNo>,
    ) -> Result<Mapped> {
        let log2 = self.superblock().block_size_log2;
        let mut map = [0; 60];
        let mut data = Vec::with_capacity(blocks as usize);
        // The map blocks on the way to the last block, from the top.
        let mut way: Vec<(u32, BlockNo)> = Vec::new();
        let mut maps = 0;
        let mut last = [u32::MAX; 4];
        let mut next = BlockNo(0);
        for file_block in 0..blocks {
            let path =
                indirect::path(FileBlock(file_block), log2).ok_or(ErrorKind::FileTooLarge)?;
            let same = (0..path.depth).take_while(|at| last[*at] == path.index[*at]).count();
            way.truncate(same);
            for at in way.len()..path.depth {
                let is_data = at + 1 == path.depth;
                let block = match is_data.then(|| given.next()).flatten() {
                    Some(block) => block,
                    None => {
                        let block = self.take_one(next)?;
                        next = BlockNo(block.0 + 1);
                        block
                    }
                };
                let pointer = u32::try_from(block.0).map_err(|_| ErrorKind::FileTooLarge)?;
                match at.checked_sub(1).and_then(|above| way.get(above)) {
                    None => indirect::set_pointer(&mut map, path.index[at], pointer),
                    Some((_, parent)) => {
                        let parent = *parent;
                        self.traffic.write(parent);
                        if let Some(bytes) = self.blocks.get_mut(&parent.0) {
                            indirect::set_pointer(bytes, path.index[at], pointer);
                        }
                    }
                }
                if is_data {
                    data.push(block);
                } else {
                    let empty = self.empty();
                    self.put(block, empty);
                    maps += 1;
                }
                way.push((path.index[at], block));
            }
            last = path.index;
        }
        let blocks = data.len() as u64 + maps;
        Ok(Mapped { map, flags: 0, data, blocks })
    }

    /// The group in which mke2fs puts a journal of extents: of those around the middle, or of the
    /// first two of the flex group that the middle is in, the one with the most free blocks.
    pub(super) fn journal_goal(&self) -> BlockNo {
        let superblock = self.superblock();
        if !superblock.has(Feature::EXTENTS) || self.layout.packing == Packing::Start {
            return BlockNo(0);
        }
        let groups = superblock.group_count();
        let first = u64::from(superblock.first_data_block);
        let middle = BlockNo(superblock.blocks_count.saturating_sub(first) / 2);
        let middle = superblock.group_of_block(middle).unwrap_or(GroupNo(0)).0;
        let flex = 1_u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1);
        let free = |group: u32| {
            self.layout.descriptors.get(group as usize).map_or(0, |group| group.free_blocks)
        };
        let (start, from) = match flex > 1 && middle > flex {
            true => {
                let flex_start = middle & !(flex - 1);
                // With bigalloc one that is full of tables does for the first, too.
                let is_first = |group: &u32| superblock.cluster_log2() > 0 || free(*group) > 0;
                let start = (flex_start..groups).find(is_first).unwrap_or(0);
                (start, start)
            }
            false => (middle.saturating_sub(1), middle),
        };
        let end = if from + 1 < groups { from + 1 } else { from };
        let mut best = start;
        for group in start..=end {
            if free(group) > free(best) {
                best = group;
            }
        }
        superblock.group_start(GroupNo(best))
    }
}
