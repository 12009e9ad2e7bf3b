//! Maps by pointers: the root in the inode, and indirect blocks.
use super::claimant::Claimant;
use super::clusters::DataRun;
use super::judge::NodeJudge;
use super::walk::{MapBlock, NodeShape};
use extant_format::extent::ExtentState;
use extant_format::inode::Inode;
use extant_format::{BlockNo, indirect};

impl<C: Claimant> NodeJudge<'_, C> {
    /// The pointers in the inode.
    pub(super) fn root_of_pointers(&mut self, inode: &Inode) {
        let direct = (0..indirect::DIRECT)
            .map(|index| (u64::from(index), indirect::pointer(&inode.block, index)));
        self.data_pointers(direct);
        for (below, root) in (0_u32..).zip(indirect::TREES) {
            let pointer = indirect::pointer(&inode.block, root);
            if pointer != 0 {
                let block_size_log2 = self.facts().volume.superblock().block_size_log2;
                let range = indirect::tree(below + 1, block_size_log2);
                self.child(BlockNo(pointer.into()), NodeShape::Indirect(below), range);
            }
        }
    }

    /// An indirect block with that many levels `below` it.
    pub(super) fn pointers(&mut self, map_block: &MapBlock, below: u32, bytes: &[u8]) {
        let first = map_block.first;
        let pointers = (0_u64..).zip(indirect::pointers(bytes));
        if below == 0 {
            return self.data_pointers(pointers.map(|(index, pointer)| (first + index, pointer)));
        }
        let log2 = indirect::pointers_log2(self.facts().volume.superblock().block_size_log2);
        let under_each = 1_u64 << (log2 * below);
        for (index, pointer) in pointers.filter(|(_, pointer)| *pointer != 0) {
            let first = first + index * under_each;
            let shape = NodeShape::Indirect(below - 1);
            self.child(BlockNo(pointer.into()), shape, first..first + under_each);
        }
    }

    /// Pointers to data, as runs. 0 is a hole.
    fn data_pointers(&mut self, pointers: impl Iterator<Item = (u64, u32)>) {
        let mut run = DataRun { file_block: 0, start: BlockNo(0), length: 0 };
        for (file_block, pointer) in pointers {
            let start = BlockNo(pointer.into());
            if run.length > 0
                && start.0 == run.start.0 + run.length
                && file_block == run.file_block + run.length
            {
                run.length += 1;
                continue;
            }
            if run.length > 0 {
                self.data(run, ExtentState::Written);
            }
            run = DataRun { file_block, start, length: u64::from(pointer != 0) };
        }
        if run.length > 0 {
            self.data(run, ExtentState::Written);
        }
    }
}
