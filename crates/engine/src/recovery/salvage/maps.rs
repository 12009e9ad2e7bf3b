//! Maps: what leads wrong is taken out of them, and becomes a hole.
use super::{MAP, Mend, block};
use crate::error::Result;
use extant_block::BlockDevice;
use extant_format::extent::{self, MAX_DEPTH, Node, StoredNode};
use extant_format::inode::Inode;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino, Run, checksum, indirect};
use std::ops::Range;

/// What a map leads to.
#[derive(Default)]
pub(super) struct Mapped {
    /// Runs, and the first file block of each.
    pub(super) runs: Vec<(u64, Run)>,
}

/// What became of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Changed,
    /// There is nothing in it that can be used.
    Lost,
}

/// The file whose map is read.
struct Walk {
    ino: Ino,
    seed: u32,
    size: u64,
    mapped: Mapped,
}

impl Mend<'_> {
    /// Reads the map of an inode, and mends it: in its bytes, and in map blocks on the overlay.
    ///
    /// # Errors
    /// More than the overlay holds.
    pub(super) fn map(&mut self, ino: Ino, inode: &Inode, raw: &mut [u8]) -> Result<Mapped> {
        let seed = checksum::inode_seed(self.superblock.checksum_seed, ino, inode.generation);
        let mut walk = Walk { ino, seed, size: inode.size, mapped: Mapped::default() };
        let root = &mut raw[MAP..MAP + 60];
        if inode.has_extents() {
            let whole = 0..u64::from(u32::MAX);
            if self.node(&mut walk, root, None, whole)? == Fate::Lost {
                extent::initialize(root, 0);
            }
            return Ok(walk.mapped);
        }
        for at in 0..indirect::DIRECT + 3 {
            let (height, start) = match at.checked_sub(indirect::DIRECT) {
                None => (0, u64::from(at)),
                Some(above) => {
                    let log2 = self.superblock.block_size().trailing_zeros() as u8;
                    (above + 1, indirect::tree(above + 1, log2).start)
                }
            };
            let pointer = indirect::pointer(root, at);
            if pointer != 0 && !self.pointer(&mut walk, pointer, height, start)? {
                indirect::set_pointer(root, at, 0);
            }
        }
        Ok(walk.mapped)
    }

    /// Says that a stretch of a file is lost, as far as the file has it.
    fn lost(&mut self, walk: &Walk, blocks: Range<u64>, reason: &str) {
        let block_size = u64::from(self.superblock.block_size());
        let start = blocks.start.saturating_mul(block_size);
        let end = blocks.end.saturating_mul(block_size).min(walk.size);
        if start < end {
            let range = format!("bytes {start} to {}", end - 1);
            self.lines.lost_of(vec![walk.ino], format!("{range} are lost: {reason}"));
        }
    }

    /// A pointer to data (height 0) or to a block of pointers. Whether it stays.
    fn pointer(&mut self, walk: &mut Walk, to: u32, height: u32, start: u64) -> Result<bool> {
        let log2 = indirect::pointers_log2(self.superblock.block_size().trailing_zeros() as u8);
        let each = |height: u32| 1_u64 << (log2 * height);
        let run = Run { start: BlockNo(to.into()), length: 1 };
        let span = start..start + each(height);
        if height == 0 {
            if !self.may_hold(run) {
                self.lost(walk, span, &format!("block {to} is none of a file"));
                return Ok(false);
            }
            self.claim(run, walk.ino);
            walk.mapped.runs.push((start, run));
            return Ok(true);
        }
        if !self.follows(run.start, walk.ino) {
            self.lost(walk, span, &format!("block {to} is no map of its own"));
            return Ok(false);
        }
        let mut bytes = match block(self.over, run.start) {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.lost(walk, span, &reason);
                return Ok(false);
            }
        };
        let mut changed = false;
        for index in 0..each(1) as u32 {
            let pointer = indirect::pointer(&bytes, index);
            let at = start + u64::from(index) * each(height - 1);
            if pointer != 0 && !self.pointer(walk, pointer, height - 1, at)? {
                indirect::set_pointer(&mut bytes, index, 0);
                changed = true;
            }
        }
        if changed {
            self.over.write(run.start.0 * bytes.len() as u64, &bytes)?;
        }
        Ok(true)
    }

    /// A node of extents for a stretch of file blocks, mended in its bytes.
    fn node(
        &mut self,
        walk: &mut Walk,
        bytes: &mut [u8],
        depth: Option<u16>,
        span: Range<u64>,
    ) -> Result<Fate> {
        let mut fate = Fate::Kept;
        if let Err(fault) = Node::parse(bytes, depth, self.superblock.blocks_count) {
            self.lost(walk, span.clone(), &format!("some or all of it: {fault}"));
            if !self.rebuild(bytes, depth) {
                return Ok(Fate::Lost);
            }
            fate = Fate::Changed;
        }
        let Ok(node) = Node::parse(bytes, depth, self.superblock.blocks_count) else {
            return Ok(Fate::Lost);
        };
        let (depth, count) = (node.depth(), node.len());
        let mut end = span.end;
        for at in (0..count).rev() {
            let stays = match depth {
                0 => self.extent(walk, bytes, at),
                _ => self.child(walk, bytes, at, end)?,
            };
            if let Ok(node) = Node::parse_header(bytes) {
                end = match depth {
                    0 => node.extent(at).file_block.0.into(),
                    _ => node.index(at).file_block.0.into(),
                };
            }
            if !stays {
                extent::remove(bytes, at);
                fate = Fate::Changed;
            }
        }
        let is_empty = Node::parse_header(bytes).is_ok_and(|node| node.is_empty());
        Ok(if depth > 0 && is_empty { Fate::Lost } else { fate })
    }

    /// Whether an extent of a leaf stays.
    fn extent(&mut self, walk: &mut Walk, bytes: &[u8], at: usize) -> bool {
        let Ok(node) = Node::parse_header(bytes) else { return false };
        let extent = node.extent(at);
        let run = Run { start: extent.start, length: extent.length };
        let first = u64::from(extent.file_block.0);
        if !self.may_hold(run) {
            let reason = format!("block {} or one after it is none of a file", run.start.0);
            self.lost(walk, first..first + u64::from(run.length), &reason);
            return false;
        }
        self.claim(run, walk.ino);
        walk.mapped.runs.push((first, run));
        true
    }

    /// Whether a child of an index node stays. It covers file blocks up to `end`.
    fn child(&mut self, walk: &mut Walk, bytes: &[u8], at: usize, end: u64) -> Result<bool> {
        let Ok(node) = Node::parse_header(bytes) else { return Ok(false) };
        let (index, depth) = (node.index(at), node.depth() - 1);
        let span = u64::from(index.file_block.0)..end;
        if !self.follows(index.child, walk.ino) {
            self.lost(walk, span, &format!("block {} is no map of its own", index.child.0));
            return Ok(false);
        }
        let mut below = match block(self.over, index.child) {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.lost(walk, span, &reason);
                return Ok(false);
            }
        };
        if self.superblock.has(Feature::METADATA_CSUM)
            && let Err(fault) = extent::verify(&below, walk.seed)
        {
            let words = format!("block {} of its map may be wrong: {fault}", index.child.0);
            self.lines.lost_of(vec![walk.ino], words);
        }
        let fate = self.node(walk, &mut below, Some(depth), span)?;
        if fate == Fate::Changed {
            self.over.write(index.child.0 * below.len() as u64, &below)?;
        }
        Ok(fate != Fate::Lost)
    }

    /// Makes a damaged node one of the entries in it that can be used. Whether there are some.
    fn rebuild(&self, bytes: &mut [u8], depth: Option<u16>) -> bool {
        let before = bytes.to_vec();
        let Some(stored) = StoredNode::read(&before) else { return false };
        let depth = depth.unwrap_or(stored.depth());
        if depth != stored.depth() || depth > MAX_DEPTH {
            return false;
        }
        extent::initialize(bytes, depth);
        let (mut at, mut from) = (0, 0);
        let room = extent::capacity(bytes.len());
        for extent in stored.extents().filter(|_| depth == 0) {
            let run = Run { start: extent.start, length: extent.length };
            let first = u64::from(extent.file_block.0);
            let end = first + u64::from(extent.length);
            let fits = first >= from && end <= u64::from(u32::MAX) && at < room;
            if extent.length > 0 && fits && self.may_hold(run) {
                extent::insert_extent(bytes, at, extent);
                (at, from) = (at + 1, end);
            }
        }
        for index in stored.indexes().filter(|_| depth > 0) {
            let first = u64::from(index.file_block.0);
            let run = Run { start: index.child, length: 1 };
            if first >= from && at < room && self.may_hold(run) {
                extent::insert_index(bytes, at, index);
                (at, from) = (at + 1, first + 1);
            }
        }
        at > 0
    }
}
