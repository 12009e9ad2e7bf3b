//! Directory blocks that are read before they are wanted.
//!
//! The post of 2007 shows both sides. A linear directory of ext3 is read ahead as the block device
//! is, with the windows of Linux 2.6: each block that is wanted is a read of one block at its place
//! on the device, and what follows there is read ahead once two reads were in a row, whatever it
//! belongs to: `physical`. A hashed one is read leaf by
//! leaf in the order of the hash, each alone: `none`, and `physical` does not help. What the post
//! asks for is `logical`: the blocks that follow in the directory, wherever they are on disk, all
//! under way at once, so that the elevator can sort them.
//!
//! *Invariants*: what is read beside the directory's blocks is unclaimed until it is wanted. Blocks
//! that fail are read again when they are wanted.
use super::{Directory, Form, kind};
use crate::inode::mapping::{self, Piece};
use crate::policy::preset::DirectoryReadAhead;
use crate::policy::readahead::{Access, Linux26, OnDemand, ReadAhead, ReadStream};
use crate::store::cache::BlockKind;
use extant_block::Urgency;
use extant_format::extent::State;
use extant_format::{BlockNo, FileBlock};
use std::ops::Range;

/// Blocks read ahead at a time, at most, in a directory that is listed in its own order.
const BLOCKS_MAX: u32 = 32;
/// The same for a listing in the order of the hash, where any block may be wanted next.
const HASHED_BLOCKS_MAX: u32 = 64;
/// Blocks that a look-up in a linear directory reads together, as in ext3.
pub(super) const LOOKUP_BLOCKS: u32 = 8;

/// How far a directory was read ahead by one listing.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ahead {
    stream: ReadStream,
    /// In a listing by hash: the first block that was not read yet.
    next: u32,
}

impl Ahead {
    /// Called before a block of a listing in the directory's own order is read.
    pub(super) fn in_order(&mut self, directory: Directory<'_>, block: u32, blocks: u32) {
        match directory.volume.store.policies.directory_read_ahead {
            DirectoryReadAhead::None => {}
            DirectoryReadAhead::Physical => self.read_physical(directory, block),
            DirectoryReadAhead::Logical => self.read_logical(directory, block, blocks),
        }
    }

    /// Reads a block and what the windows of the block device add to it.
    fn read_physical(&mut self, directory: Directory<'_>, block: u32) {
        let store = &directory.volume.store;
        let file_block = FileBlock(block);
        let Ok(Some(number)) = mapping::block_at(directory.volume, directory.node, file_block)
        else {
            return;
        };
        // The windows count in pages of 32 bits, as those of a file do.
        let (Ok(place), Ok(end)) =
            (u32::try_from(number.0), u32::try_from(store.superblock.blocks_count))
        else {
            return;
        };
        // The next call goes on within the block that the last one read.
        if place.checked_add(1) == Some(self.stream.next) {
            return;
        }
        let cached = directory.holds(block);
        let block_size = store.block_size();
        let byte = |block: u32| u64::from(block) * u64::from(block_size);
        let access = Access {
            block: place,
            count: 1,
            file_blocks: end,
            cached,
            block_size,
            file_bytes: byte(end),
            call_end: byte(place) + u64::from(block_size),
        };
        let window = Linux26.window(&mut self.stream, &access);
        let own = kind(directory.node, file_block, Form::of(directory.node.inode.flags));
        let mut wanted = if cached { Vec::new() } else { vec![(number, own)] };
        let ahead = window.into_iter().flatten().map(|place| BlockNo(place.into()));
        wanted.extend(ahead.map(|number| (number, BlockKind::Unclaimed)));
        let urgency = if cached { Urgency::Background } else { Urgency::Metadata };
        store.cache.fetch(urgency, wanted);
    }

    fn read_logical(&mut self, directory: Directory<'_>, block: u32, blocks: u32) {
        let block_size = directory.volume.store.block_size();
        let policy = OnDemand {
            bytes_min: LOOKUP_BLOCKS * block_size,
            bytes_max: BLOCKS_MAX * block_size,
            ..OnDemand::LINUX
        };
        let access = Access {
            block,
            count: 1,
            file_blocks: blocks,
            cached: directory.holds(block),
            block_size,
            file_bytes: u64::from(blocks) * u64::from(block_size),
            call_end: (u64::from(block) + 1) * u64::from(block_size),
        };
        let window = policy.window(&mut self.stream, &access);
        match (window, access.cached) {
            (Some(window), true) => directory.fetch(Urgency::Background, window),
            // It is waited for at once, and the blocks after it are read with it.
            (Some(window), false) => directory.fetch(Urgency::Metadata, block..window.end),
            (None, _) => {}
        }
    }

    /// Called before a block of a listing in the order of the hash is read.
    pub(super) fn by_hash(&mut self, directory: Directory<'_>, block: u32, blocks: u32) {
        let is_logical =
            directory.volume.store.policies.directory_read_ahead == DirectoryReadAhead::Logical;
        // More than the cache can keep until they are listed would be read twice.
        let last = blocks.min((directory.volume.store.cache.frames_max() / 4) as u32);
        if !is_logical || self.next >= last || directory.holds(block) {
            return;
        }
        let window = self.next..last.min(self.next.saturating_add(HASHED_BLOCKS_MAX));
        self.next = window.end;
        if !window.contains(&block) {
            directory.fetch(Urgency::Metadata, block..block + 1);
        }
        directory.fetch(Urgency::Metadata, window);
    }
}

impl Directory<'_> {
    /// Whether a block is in memory or on its way. A hole is not.
    fn holds(self, block: u32) -> bool {
        let number = mapping::block_at(self.volume, self.node, FileBlock(block));
        number
            .is_ok_and(|number| number.is_some_and(|number| self.volume.store.cache.holds(number)))
    }

    /// Called before a block is searched for a name: if the policy reads ahead at all, blocks are
    /// read eight at a time.
    pub(super) fn read_for_lookup(self, block: u32, blocks: u32) {
        if self.volume.store.policies.directory_read_ahead == DirectoryReadAhead::None
            || self.holds(block)
        {
            return;
        }
        self.fetch(Urgency::Metadata, block..blocks.min(block.saturating_add(LOOKUP_BLOCKS)));
    }

    /// Starts to read blocks of the directory that are not in memory.
    fn fetch(self, urgency: Urgency, range: Range<u32>) {
        self.volume.store.cache.fetch(urgency, self.places(range));
    }

    /// Where blocks are on disk, without holes and blocks that cannot be found.
    fn places(self, range: Range<u32>) -> Vec<(BlockNo, BlockKind)> {
        let mut places = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Ok(piece) = mapping::find(self.volume, self.node, FileBlock(at), range.end - at)
            else {
                break;
            };
            let length = piece.length().max(1);
            if let Piece::Run(run, State::Written) = piece {
                let blocks = (0..run.length).map(|into| {
                    let number = BlockNo(run.start.0 + u64::from(into));
                    (number, kind(self.node, FileBlock(at + into), Form::of(self.node.inode.flags)))
                });
                places.extend(blocks);
            }
            at = at.saturating_add(length);
        }
        places
    }
}
