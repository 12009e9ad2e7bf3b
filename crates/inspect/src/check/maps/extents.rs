//! Maps by extents: the root in the inode, and nodes of the tree.
use super::claimant::Claimant;
use super::clusters::DataRun;
use super::judge::NodeJudge;
use super::levels::Levels;
use super::walk::{MapBlock, NodeShape};
use crate::check::codes::Code;
use crate::check::problem::Problem;
use extant_format::BlockNo;
use extant_format::extent::{self, Extent, FILE_BLOCKS_MAX, MAX_DEPTH, StoredNode};
use extant_format::inode::Inode;
use extant_format::superblock::Feature;
use std::ops::Range;

/// A node's place in the tree.
struct NodePlace {
    /// `None` in the inode.
    block: Option<BlockNo>,
    /// File blocks that may be under it.
    range: Range<u64>,
}

impl<C: Claimant> NodeJudge<'_, C> {
    /// The root in the inode.
    pub(super) fn root_of_extents(&mut self, inode: &Inode) {
        let ino = self.ino();
        let Some(node) = StoredNode::read(&inode.block) else {
            self.tally.is_cut = true;
            self.facts().inodes.set_bad(ino);
            return self.claimant.report(Problem::new(Code::ExtentRoot).ino(ino));
        };
        if node.depth() > MAX_DEPTH {
            let problem = Problem::new(Code::ExtentDepth).ino(ino);
            self.claimant.report(problem.found(node.depth()).expected(MAX_DEPTH));
        }
        if node.depth() > 0 {
            let levels = Levels::of(node.depth());
            levels.add(node.depth(), node.indexes().count());
            self.tally.levels = Some(levels);
        }
        self.node(&NodePlace { block: None, range: 0..FILE_BLOCKS_MAX }, &node);
    }

    /// A block that should be a node of that depth.
    pub(super) fn node_block(&mut self, map_block: &MapBlock, depth: u16, bytes: &[u8]) {
        let (block, range) = (map_block.block, map_block.first..map_block.end);
        let ino = self.ino();
        let problem = |code| Problem::new(code).ino(ino).block(block).file_block(map_block.first);
        let Some(node) = StoredNode::read(bytes).filter(|node| node.depth() == depth) else {
            self.tally.is_cut = true;
            return self.fault(problem(Code::ExtentNode));
        };
        let has_checksum = self.facts().volume.superblock().has(Feature::METADATA_CSUM);
        if has_checksum && extent::verify(bytes, map_block.walk.seed).is_err() {
            self.claimant.report(problem(Code::ExtentChecksum));
        }
        // An index entry says where its child starts; the root of a tree may start after 0.
        if let Some(starts) = node.first_file_block().filter(|starts| *starts != range.start) {
            let problem = problem(Code::ExtentStart);
            self.claimant.report(problem.found(range.start).expected(starts));
        }
        self.node(&NodePlace { block: Some(block), range }, &node);
    }

    fn problem_of_node(&self, place: &NodePlace, code: Code, file_block: u64) -> Problem {
        let problem = Problem::new(code).ino(self.ino()).file_block(file_block);
        Problem { block: place.block, ..problem }
    }

    fn node(&mut self, place: &NodePlace, node: &StoredNode<'_>) {
        if let Some(levels) = self.levels {
            let entries = match node.depth() {
                0 => node.extents().count(),
                _ => node.indexes().count(),
            };
            levels.add(node.depth(), entries);
        }
        if node.depth() > 0 {
            return self.index_entries(place, node);
        }
        let mut free_from = 0;
        for extent in node.extents() {
            self.extent(place, extent, &mut free_from);
        }
    }

    fn index_entries(&mut self, place: &NodePlace, node: &StoredNode<'_>) {
        let mut entries = node.indexes().peekable();
        if entries.peek().is_none() {
            let problem = self.problem_of_node(place, Code::ExtentEmpty, place.range.start);
            self.fault(problem);
        }
        let mut free_from = 0;
        while let Some(entry) = entries.next() {
            let file_block = u64::from(entry.file_block.0);
            if file_block < free_from {
                self.tally.illegal += 1;
                let problem = self.problem_of_node(place, Code::ExtentOrder, file_block);
                self.fault(problem);
                continue;
            }
            free_from = file_block + 1;
            let next = entries.peek().map(|next| u64::from(next.file_block.0));
            let end = next.unwrap_or(place.range.end).min(place.range.end);
            self.child(entry.child, NodeShape::Extents(node.depth() - 1), file_block..end);
        }
    }

    /// An entry of a leaf; the file blocks before `free_from` are mapped by those before it.
    fn extent(&mut self, place: &NodePlace, extent: Extent, free_from: &mut u64) {
        let (file_block, length) = (u64::from(extent.file_block.0), u64::from(extent.length));
        let fault = if length == 0 {
            Some(Code::ExtentLength)
        } else if file_block < *free_from {
            Some(Code::ExtentOrder)
        } else if file_block + length > FILE_BLOCKS_MAX {
            Some(Code::ExtentPastFile)
        } else if file_block + length > place.range.end {
            // That a node starts too early is reported of the node.
            Some(Code::ExtentBounds)
        } else {
            None
        };
        if let Some(code) = fault {
            self.tally.illegal += 1;
            let problem = self.problem_of_node(place, code, file_block);
            return self.fault(problem.found(length));
        }
        *free_from = file_block + length;
        self.data(DataRun { file_block, start: extent.start, length }, extent.state);
    }
}
