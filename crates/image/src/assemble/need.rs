//! How much room a tree needs: blocks of each kind, before there is a volume.
use super::order::Order;
use super::sample::sample_superblock;
use crate::error::{Error, ErrorKind};
use crate::tree::{NodeId, Tree};
use extant_archive::printable;
use extant_format::inode::FileType;
use extant_format::layout::Wishes;
use extant_format::superblock::Feature;
use extant_format::{attribute, extent, indirect};
use std::ops::Range;

/// Blocks that the files of a tree need, without what mkfs makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// Of file data and long symlinks.
    pub data: u64,
    /// Of directories, maps and attributes: what a walk of the tree reads.
    pub metadata: u64,
    /// Files, the root left out.
    pub inodes: u64,
}

/// Symlinks from this length on have a block.
const SLOW_SYMLINK_BYTES: u64 = 60;
/// Pieces of a map that the inode itself holds.
const EXTENTS_IN_INODE: u64 = 4;
/// Files that share a block of equal attributes, at most.
const SHARERS_MAX: u64 = attribute::REFERENCE_MAX as u64;

struct Count<'a> {
    tree: &'a Tree,
    block_size: u64,
    block_size_log2: u8,
    extents: bool,
    /// log2 of the blocks that are allocated together.
    cluster_log2: u32,
    need: Need,
    /// By attribute list: how many files have it.
    users: Vec<u64>,
}

/// Counts exactly, but for the nodes of extent trees, of which there are never more than counted.
///
/// # Errors
/// A directory with more names than its index can hold; attributes that do not fit; the file is
/// named.
pub fn of_tree(
    tree: &Tree,
    order: &Order,
    wishes: &Wishes,
    tail_bytes: usize,
) -> Result<Need, Error> {
    let mut count = Count {
        tree,
        block_size: wishes.block_size.into(),
        block_size_log2: wishes.block_size.trailing_zeros() as u8,
        extents: wishes.features.has(Feature::EXTENTS),
        cluster_log2: sample_superblock(wishes).cluster_log2(),
        need: Need { inodes: order.sequence().len() as u64, ..Need::default() },
        users: vec![0; tree.attribute_lists().len()],
    };
    count.node(order, NodeId::ROOT)?;
    for node in order.sequence() {
        count.node(order, *node)?;
    }
    count.attributes(wishes, tail_bytes)?;
    Ok(count.need)
}

/// As many blocks as the clusters have that this many need together.
pub fn in_clusters(blocks: u64, cluster_log2: u32) -> u64 {
    blocks.div_ceil(1 << cluster_log2) << cluster_log2
}

/// Blocks of all clusters of a file that these ranges of its blocks are in, rising.
fn data_blocks(ranges: &[Range<u64>], cluster_log2: u32) -> u64 {
    let (mut blocks, mut counted_to) = (0, 0);
    for range in ranges {
        let first = (range.start >> cluster_log2 << cluster_log2).max(counted_to);
        counted_to = in_clusters(range.end, cluster_log2).max(counted_to);
        blocks += counted_to.saturating_sub(first);
    }
    blocks
}

impl Count<'_> {
    fn node(&mut self, order: &Order, node: NodeId) -> Result<(), Error> {
        self.users[self.tree.attribute_list(node) as usize] += 1;
        match self.tree.file_type(node) {
            FileType::Directory => self.directory(order, node),
            FileType::Regular => {
                self.file(node);
                Ok(())
            }
            FileType::Symlink => {
                let is_slow = self.tree.length(node) >= SLOW_SYMLINK_BYTES;
                self.need.data += u64::from(is_slow) << self.cluster_log2;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn directory(&mut self, order: &Order, node: NodeId) -> Result<(), Error> {
        let names = order.names(self.tree, node);
        let packing = order.packing();
        let lengths = names.iter().map(|name| (name.name.len(), packing.hash_key(name.name)));
        let named = |error| Error::new(format!("/{}: {error}", printable(&self.tree.path(node))));
        let blocks = packing.packed_blocks(lengths).map_err(named)?;
        self.need.metadata += in_clusters(blocks, self.cluster_log2);
        self.map(std::iter::once(0..blocks));
        Ok(())
    }

    fn file(&mut self, node: NodeId) {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for segment in self.tree.data_segments(node) {
            let range = segment.offset / self.block_size
                ..(segment.offset + segment.length).div_ceil(self.block_size);
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        self.need.data += data_blocks(&ranges, self.cluster_log2);
        self.map(ranges.into_iter());
    }

    /// Blocks of the map of these ranges.
    fn map(&mut self, ranges: impl Iterator<Item = Range<u64>>) {
        if !self.extents {
            let limit = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
            let ranges = ranges.map(|range| limit(range.start)..limit(range.end));
            self.need.metadata += indirect::blocks_needed(ranges, self.block_size_log2);
            return;
        }
        let pieces: u64 =
            ranges.map(|range| (range.end - range.start).div_ceil(extent::MAX_LENGTH.into())).sum();
        // Breaks of the volume (copies of the superblock, tables) may cut a piece in two: seldom,
        // and never more often than there are groups; the planner's `slack` is for those.
        if pieces > EXTENTS_IN_INODE {
            let mut level = pieces;
            let capacity = extent::capacity(self.block_size as usize) as u64;
            while level > EXTENTS_IN_INODE {
                level = level.div_ceil(capacity);
                self.need.metadata += level << self.cluster_log2;
            }
        }
    }

    fn attributes(&mut self, wishes: &Wishes, tail_bytes: usize) -> Result<(), Error> {
        let superblock = &sample_superblock(wishes);
        let mut refused = None;
        let mut files = 0;
        let users = std::mem::take(&mut self.users);
        let lists = self.tree.attribute_lists().iter().zip(&users).skip(1);
        for (list, users) in lists.filter(|(_, users)| **users > 0) {
            let distant = attribute::distant(list, tail_bytes, superblock);
            match distant.and_then(|distant| match distant.is_empty() {
                true => attribute::place(list, tail_bytes, superblock).map(Ok),
                false => Ok(Err(distant)),
            }) {
                Ok(Ok(placed)) if placed.block.is_some() => {
                    self.need.metadata += users.div_ceil(SHARERS_MAX) << self.cluster_log2
                }
                Ok(Ok(_)) => {}
                Ok(Err(distant)) => self.values(list, &distant, *users),
                Err(error) => {
                    files += users;
                    refused.get_or_insert((list, error));
                }
            }
        }
        match refused {
            None => Ok(()),
            Some((list, error)) => Err(self.unplaceable(list, error, files)),
        }
    }

    /// Values in inodes of their own, of each of a list's users, and the block with the rest.
    fn values(&mut self, list: &[attribute::Attribute], distant: &[usize], users: u64) {
        self.need.inodes += users * distant.len() as u64;
        self.need.metadata += users << self.cluster_log2;
        for attribute in distant.iter().filter_map(|at| list.get(*at)) {
            let blocks = (attribute.value.len() as u64).div_ceil(self.block_size);
            let maps = match (self.extents, u32::try_from(blocks)) {
                (false, Ok(blocks)) => {
                    let whole = std::iter::once(0..blocks);
                    indirect::blocks_needed(whole, self.block_size_log2)
                }
                _ => 0,
            };
            self.need.data += users * (in_clusters(blocks, self.cluster_log2) + maps);
        }
    }

    /// Names a file whose attributes do not fit, and counts the others.
    fn unplaceable(
        &self,
        list: &[attribute::Attribute],
        error: attribute::AttributeError,
        files: u64,
    ) -> Error {
        let nodes = (0..self.tree.node_bound() as u32).map(NodeId);
        let has_list = |node: &NodeId| self.tree.attributes(*node) == list;
        let path =
            nodes.filter(has_list).map(|node| self.tree.path(node)).next().unwrap_or_default();
        let reason = extant_engine::Error::from(error);
        let kind = match reason.kind {
            extant_engine::ErrorKind::AttributesTooLarge => ErrorKind::AttributesTooLarge,
            _ => ErrorKind::Other,
        };
        let more = match files {
            0 | 1 => String::new(),
            files => format!(" (and {} more files)", files - 1),
        };
        Error::new(format!("/{}: {reason}{more}", printable(&path))).of(kind)
    }
}
