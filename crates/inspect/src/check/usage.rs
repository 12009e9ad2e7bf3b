//! What a check knows of a volume when it ends, for whoever mends the volume.
//!
//! *Invariants*: what is taken here stays so; nothing is written.
//! *Locking*: that of the claims.
use super::facts::Facts;
use super::passes::bitmaps::{self, ExpectedBits};
use super::passes::directories::Tree;
use extant_format::group::GroupDescriptor;
use extant_format::inode::FileType;
use extant_format::quota_file::QuotaEntry;
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, GroupNo, Ino};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is in use on a volume, as the check counted it.
pub struct Usage {
    facts: Arc<Facts>,
    /// The directories, for a check that follows.
    tree: Option<Arc<Tree>>,
    /// Something was taken since the check.
    has_taken: AtomicBool,
}

impl Usage {
    pub(super) fn new(facts: Arc<Facts>, tree: Option<Arc<Tree>>) -> Usage {
        Usage { facts, tree, has_taken: AtomicBool::new(false) }
    }

    /// What the check found, with its directories; `None` if something was taken since.
    pub(super) fn into_facts(self) -> Option<(Facts, Arc<Tree>)> {
        match self.has_taken.into_inner() {
            true => None,
            false => Arc::into_inner(self.facts).zip(self.tree),
        }
    }

    /// The superblock that was used: the first one, or a copy.
    pub fn superblock(&self) -> &Superblock {
        self.facts.volume.superblock()
    }

    /// The block that holds that superblock.
    pub fn superblock_block(&self) -> u64 {
        self.facts.volume.superblock_block()
    }

    /// Groups that are described on the device.
    pub fn groups(&self) -> u32 {
        u32::try_from(self.facts.groups.len()).unwrap_or(u32::MAX)
    }

    /// A descriptor without what cannot be believed in it.
    pub fn descriptor(&self, group: GroupNo) -> Option<&GroupDescriptor> {
        Some(&self.facts.groups.get(group.0 as usize)?.descriptor)
    }

    /// Whether the group's table of inodes is where it can be.
    pub fn has_table(&self, group: GroupNo) -> bool {
        self.facts.groups.get(group.0 as usize).is_some_and(|group| group.has_table)
    }

    /// Blocks of a bit of a block bitmap.
    pub fn cluster_blocks(&self) -> u32 {
        self.facts.volume.cluster_blocks()
    }

    /// Whether a block is on the volume, and on the device.
    pub fn holds(&self, block: BlockNo) -> bool {
        self.facts.volume.holds(block)
    }

    /// Whether a block belongs to metadata of the volume.
    pub fn is_metadata(&self, block: BlockNo) -> bool {
        self.facts.metadata.holds(block)
    }

    /// Whether a block was claimed twice.
    pub fn is_double(&self, block: BlockNo) -> bool {
        self.facts.claims.is_double(block)
    }

    /// Whether no block of a run is taken.
    pub fn is_free(&self, start: BlockNo, length: u64) -> bool {
        self.facts.claims.is_free(start, length)
    }

    /// Takes a run.
    pub fn take(&self, start: BlockNo, length: u64) {
        self.has_taken.store(true, Ordering::Relaxed);
        self.facts.claims.take_run(start, length);
    }

    /// What an inode is; `None` for one that is not in use, or of no type.
    pub fn file_type(&self, ino: Ino) -> Option<FileType> {
        let known = self.facts.inodes.get(ino);
        if known.is_used() { known.file_type() } else { None }
    }

    /// The directory that has the first name of a directory; `None` for one that has no name.
    pub fn parent(&self, ino: Ino) -> Option<Ino> {
        self.tree.as_ref()?.parent(ino)
    }

    /// Whether an inode is in use.
    pub fn is_used(&self, ino: Ino) -> bool {
        self.facts.inodes.get(ino).is_used()
    }

    /// Whether an attribute of an inode says how it is encrypted.
    pub fn has_policy(&self, ino: Ino) -> bool {
        self.facts.attributes.policy(ino).is_some()
    }

    /// The inodes that are values of attributes, each once for each attribute.
    pub fn values(&self) -> Vec<Ino> {
        self.facts.attributes.values()
    }

    /// What users (0), groups (1) and projects (2) have, by id; nothing without the feature quota.
    pub fn quotas(&self, kind: usize) -> Vec<QuotaEntry> {
        let sums = self.facts.usage.sums();
        let of_kind = sums.get(kind).into_iter().flatten();
        of_kind
            .map(|(id, sum)| QuotaEntry { id: *id, inodes: sum.inodes, bytes: sum.bytes })
            .collect()
    }

    /// Files whose extent tree could be smaller, rising.
    pub fn large_trees(&self) -> Vec<Ino> {
        self.facts.shapes.large_trees()
    }

    /// Directories of three blocks and more that could have an index and have none, rising;
    /// lost+found is not among them.
    pub fn unindexed_directories(&self) -> Vec<Ino> {
        self.facts.shapes.unindexed()
    }

    /// The quota files of users, groups and projects; 0 for none.
    pub fn quota_inodes(&self) -> [Ino; 3] {
        self.facts.volume.stored().quota_inodes()
    }

    /// Whether an inode belongs to the system: it has no name.
    pub fn is_of_system(&self, ino: Ino) -> bool {
        self.facts.is_of_system(ino)
    }

    /// The clusters of a group that are in use.
    pub fn block_bits(&self, group: GroupNo) -> ExpectedBits {
        bitmaps::block_bits(&self.facts, group)
    }

    /// The inodes of a group that are in use.
    pub fn inode_bits(&self, group: GroupNo) -> ExpectedBits {
        bitmaps::inode_bits(&self.facts, group)
    }
}
