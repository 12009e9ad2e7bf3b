//! One node of a map, or the root in the inode: what it points to is judged, and given to the
//! claimant.
use super::claimant::{BlockOwner, Claimant};
use super::clusters::{self, DataRun};
use super::levels::Levels;
use super::walk::{Child, MapKind, Mapped, NodeShape, Tally};
use crate::check::codes::Code;
use crate::check::facts::{DirectoryBlock, Facts};
use crate::check::problem::Problem;
use extant_format::extent::ExtentState;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use std::ops::Range;

/// Faults of pointers that are reported one by one, of a map block; of more only the number is.
pub(super) const REPORTED_MAX: u64 = 12;
/// Directory blocks of one node above which they are handed on before the node ends.
const DIRECTORY_BLOCKS_MAX: usize = 4096;

/// Judges one node.
pub(super) struct NodeJudge<'a, C> {
    pub(super) claimant: &'a C,
    pub(super) map: &'a Mapped,
    /// Of an extent tree, but for its root.
    pub(super) levels: Option<&'a Levels>,
    pub(super) tally: Tally,
    /// Map blocks that are to be followed.
    pub(super) children: Vec<Child>,
}

impl<'a, C: Claimant> NodeJudge<'a, C> {
    /// Nothing of the node was seen yet.
    pub(super) fn new(
        claimant: &'a C,
        map: &'a Mapped,
        levels: Option<&'a Levels>,
    ) -> NodeJudge<'a, C> {
        NodeJudge { claimant, map, levels, tally: Tally::default(), children: Vec::new() }
    }

    pub(super) fn facts(&self) -> &'a Facts {
        self.claimant.facts()
    }

    pub(super) fn ino(&self) -> Ino {
        self.map.ino
    }

    /// Reports a fault of a pointer, if there were not too many in this node.
    pub(super) fn fault(&mut self, problem: Problem) {
        if self.tally.faults < REPORTED_MAX {
            self.claimant.report(problem);
        }
        self.tally.faults += 1;
    }

    /// A pointer to a map block over the file blocks of `range`: it goes on the list if it can be
    /// followed.
    pub(super) fn child(&mut self, block: BlockNo, shape: NodeShape, range: Range<u64>) {
        let facts = self.facts();
        let kind = self.map.kind;
        let problem =
            |code| Problem::new(code).ino(self.map.ino).block(block).file_block(range.start);
        let first_data_block = u64::from(facts.volume.superblock().first_data_block);
        if block.0 <= first_data_block || !facts.volume.holds(block) {
            let problem = problem(match shape {
                NodeShape::Indirect(_) => Code::IndirectOutside,
                NodeShape::Extents(_) => Code::MapBlockOutside,
            });
            self.tally.illegal += 1;
            self.tally.is_cut = true;
            return self.fault(problem);
        }
        // With clusters a map block has one to itself.
        self.tally.blocks += u64::from(facts.volume.cluster_blocks());
        let is_metadata = facts.metadata.holds(block);
        // Of the map for growth only the root is no metadata.
        let is_root = matches!(shape, NodeShape::Indirect(1..));
        let is_own = kind != MapKind::Resize || is_root && !is_metadata;
        let owner = if is_own { BlockOwner::File } else { BlockOwner::Volume };
        let is_followed = self.claimant.map_block(self.map.ino, block, owner);
        let may_be_metadata = matches!(kind, MapKind::BadBlocks | MapKind::Resize);
        if !may_be_metadata && is_metadata {
            let problem = problem(Code::MapBlockOnMetadata);
            self.tally.is_cut = true;
            return self.fault(problem);
        }
        if !is_followed && kind == MapKind::Resize {
            // It counts, as it does to e2fsck, and what it leads to was counted.
            return;
        }
        if !is_followed {
            // It was followed before, from another place. From which must not depend on threads.
            facts.set_order_matters();
            self.tally.is_cut = true;
            return;
        }
        let (first, end) = (range.start, range.end);
        self.children.push(Child { block, shape, first, end });
    }

    /// A run of data.
    pub(super) fn data(&mut self, run: DataRun, state: ExtentState) {
        let superblock = self.facts().volume.superblock();
        let end = run.start.0.saturating_add(run.length);
        let least = u64::from(superblock.first_data_block).max(1);
        if run.start.0 < least || end > superblock.blocks_count {
            self.tally.illegal += run.length;
            let problem = self.problem_of_run(Code::BlockOutside, run);
            return self.fault(problem.found(run.length));
        }
        let file_end = run.file_block.saturating_add(run.length);
        let kind = self.map.kind;
        match kind {
            MapKind::BadBlocks => return self.bad_blocks(run),
            MapKind::Resize => {
                // All of it is metadata, and claimed as that. Each counts as a cluster.
                let cluster_blocks = u64::from(self.facts().volume.cluster_blocks());
                self.tally.blocks += run.length * cluster_blocks;
                self.tally.end = self.tally.end.max(file_end);
                self.tally.written_end = self.tally.end;
                return;
            }
            MapKind::Directory if !self.directory_run(run, state) => return,
            MapKind::Directory | MapKind::Regular | MapKind::Symlink => {}
        }
        self.tally.end = self.tally.end.max(file_end);
        if state == ExtentState::Written {
            self.tally.written_end = self.tally.written_end.max(file_end);
        }
        let cluster_blocks = u64::from(self.facts().volume.cluster_blocks());
        if run.start.0 % cluster_blocks != run.file_block % cluster_blocks {
            let problem = self.problem_of_run(Code::ClusterAlignment, run);
            self.fault(problem);
        } else if cluster_blocks > 1 && clusters::is_split(self.tally.edges, cluster_blocks, run) {
            let problem = self.problem_of_run(Code::ClusterSplit, run);
            self.fault(problem);
        }
        self.tally.blocks += self.claimant.data(self.map.ino, run, &mut self.tally.edges);
    }

    fn problem_of_run(&self, code: Code, run: DataRun) -> Problem {
        Problem::new(code).ino(self.map.ino).block(run.start).file_block(run.file_block)
    }

    /// Lists the blocks of a directory. Gives whether they can be a directory's at all.
    fn directory_run(&mut self, run: DataRun, state: ExtentState) -> bool {
        // The kernel reads directories of less than 2 GiB, or with large_dir by an index, of any
        // size that 32 bits count.
        let superblock = self.facts().volume.superblock();
        let most = if superblock.has(Feature::LARGE_DIR) {
            u64::from(u32::MAX)
        } else {
            1 << 31_u32.saturating_sub(superblock.block_size_log2.into())
        };
        if run.file_block.saturating_add(run.length) > most {
            self.tally.illegal += run.length;
            let problem = self.problem_of_run(Code::DirectoryTooBig, run);
            self.fault(problem);
            return false;
        }
        if state == ExtentState::Unwritten {
            let problem = self.problem_of_run(Code::DirectoryUnwritten, run);
            self.fault(problem);
        }
        for index in 0..run.length {
            self.tally.directory_blocks.push(DirectoryBlock {
                block: BlockNo(run.start.0 + index),
                ino: self.map.ino,
                generation: self.map.generation,
                file_block: u32::try_from(run.file_block + index).unwrap_or(u32::MAX),
            });
        }
        if self.tally.directory_blocks.len() > DIRECTORY_BLOCKS_MAX {
            self.claimant.directory_blocks(&mut self.tally.directory_blocks);
        }
        true
    }

    /// Blocks of the list of bad blocks.
    fn bad_blocks(&mut self, run: DataRun) {
        self.tally.blocks += run.length;
        for block in (run.start.0..run.start.0 + run.length).map(BlockNo) {
            if let Some(problem) = self.claimant.bad_block(self.map.ino, block) {
                self.fault(problem);
            }
        }
    }

    /// Hands on the blocks of directories. Gives what the node comes to, and its children.
    pub(super) fn end(mut self) -> (Tally, Vec<Child>) {
        if !self.tally.directory_blocks.is_empty() {
            self.claimant.directory_blocks(&mut self.tally.directory_blocks);
        }
        (self.tally, self.children)
    }
}
