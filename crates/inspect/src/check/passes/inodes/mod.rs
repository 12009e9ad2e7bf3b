//! Pass 1: inode tables in large reads, each inode judged, its map handed to the
//! [pool](crate::check::maps::pool).
//!
//! ```text
//! tables        which blocks of the tables are read
//! judge         one inode in use, or free
//!   leftover    fields that must be zero, data in the inode, reserved inodes that are not in use
//!   attributes  extended attributes, in the inode and in blocks
//!   special     symlinks, devices, pipes, sockets
//!   resize      the inode that maps the descriptor blocks kept for growth
//! subject       the inode that is judged, as all of these see it
//! again         inodes of which only links and times are others than in the check before
//! ```
//!
//! *Invariants*: an inode is judged by one thread. Inodes that were never used, by descriptors with
//! a checksum, are not read.
pub(crate) mod again;
mod attributes;
mod judge;
mod leftover;
pub(crate) mod resize;
mod special;
mod subject;
mod tables;

use super::quota;
use crate::check::facts::Facts;
use crate::check::maps::pool::{MapReader, Pool, PutAside};
use crate::check::maps::{self, Claimant, Claiming, MapKind, Mapped, Roots};
use crate::check::options::ReadOrder;
use crate::check::rule::Pass;
use crate::check::work::Worker;
use crate::error::Error;
use extant_format::inode::{Inode, StoredInode};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use special::FirstBlocks;
use std::sync::Arc;
use tables::TablePiece;

/// Blocks of one read of a table in vanilla order.
const VANILLA_BLOCKS: u64 = 8;

/// Pieces of tables that are being fetched while those before them are judged: some for a thread.
const FETCHED_AHEAD: u64 = 6;

/// What the threads of this pass share.
struct InodePass {
    facts: Arc<Facts>,
    pieces: Arc<Vec<TablePiece>>,
    /// Map blocks that wait to be read.
    pool: Pool,
    /// Symlinks whose targets are yet to be read.
    first_blocks: FirstBlocks,
}

impl InodePass {
    fn piece(&self, number: u64) -> Option<&TablePiece> {
        usize::try_from(number).ok().and_then(|number| self.pieces.get(number))
    }

    /// Has a piece fetched, if there is one. The checkers of the time of vanilla order did not.
    fn fetch(&self, number: u64) {
        if let (Some(piece), ReadOrder::DiskOrder) = (self.piece(number), self.facts.read_order) {
            self.facts.volume.will_read(piece.start, piece.blocks(&self.facts));
        }
    }
}

/// The pieces of the inode tables that hold inodes in use, by place.
pub(crate) struct InodeTables(Arc<Vec<TablePiece>>);

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(facts: &Arc<Facts>) -> Result<InodeTables, Error> {
    let pieces = Arc::new(tables::pieces(facts)?);
    let inodes: u64 = pieces.iter().map(|piece| u64::from(piece.inodes)).sum();
    facts.begin(Pass::Inodes, inodes * u64::from(facts.volume.superblock().inode_size));
    let pass = Arc::new(InodePass {
        facts: Arc::clone(facts),
        pieces: Arc::clone(&pieces),
        pool: Pool::new(facts.threads.wait_queue()),
        first_blocks: FirstBlocks::default(),
    });
    (0..FETCHED_AHEAD).for_each(|piece| pass.fetch(piece));
    facts.threads.share::<TableReader>("check-inodes", &pass, pieces.len() as u64)?;
    // A volume without map blocks begins no threads for them.
    let readers = if pass.pool.is_empty() { 0 } else { facts.threads.count() };
    facts.threads.share::<PoolReader>("check-maps", &pass, readers)?;
    resize::judge(facts)?;
    attributes::finish(facts)?;
    special::finish(facts, &pass.first_blocks)?;
    Ok(InodeTables(pieces))
}

/// Walks the maps of all inodes in use once more, in order, for another claimant.
///
/// # Errors
/// When the device fails.
pub(crate) fn walk_again(claimant: &impl Claimant, tables: &InodeTables) -> Result<(), Error> {
    let facts = claimant.facts();
    let superblock = facts.volume.superblock();
    let size = usize::from(superblock.inode_size);
    let (mut buffer, mut reader, mut roots) = (Vec::new(), MapReader::default(), Vec::new());
    for piece in tables.0.iter() {
        let bytes = (piece.inodes as usize * size).next_multiple_of(facts.volume.block_size());
        buffer.resize(bytes, 0);
        facts.read("inode table", piece.start, &mut buffer)?;
        let raws = buffer.chunks_exact(size).take(piece.inodes as usize);
        for (ino, raw) in (piece.first.0..).map(Ino).zip(raws) {
            let is_reserved = ino.0 < superblock.first_inode && ino != Ino::ROOT;
            if !is_reserved && !facts.inodes.get(ino).is_used() {
                continue;
            }
            let inode = Inode::decode(raw, superblock);
            let kind = match ino {
                Ino::BAD_BLOCKS => Some(MapKind::BadBlocks),
                Ino::RESIZE => resize::has_map(superblock, &inode).then_some(MapKind::Resize),
                _ => MapKind::of(inode.file_type()),
            };
            if let Some(kind) = kind.filter(|_| judge::has_map(facts, &inode)) {
                let map = Mapped::new(ino, kind, &inode, 0);
                maps::roots(claimant, map, &inode, &mut roots);
                reader.follow(claimant, std::mem::take(&mut roots))?;
            }
        }
    }
    Ok(())
}

/// A thread that reads tables.
#[derive(Default)]
struct TableReader {
    buffer: Vec<u8>,
    maps: MapReader,
    aside: PutAside,
}

impl Worker for TableReader {
    type Shared = InodePass;

    fn work(&mut self, pass: &InodePass, piece: u64) -> Result<(), Error> {
        let facts = &*pass.facts;
        pass.fetch(piece.saturating_add(FETCHED_AHEAD));
        let Some(piece) = pass.piece(piece) else { return Ok(()) };
        let size = usize::from(facts.volume.superblock().inode_size);
        let block_size = facts.volume.block_size();
        let blocks = piece.blocks(facts);
        let step = match facts.read_order {
            ReadOrder::DiskOrder => blocks,
            ReadOrder::Vanilla => VANILLA_BLOCKS,
        };
        let mut roots = Roots::new(facts);
        let (mut at, mut ino) = (0, piece.first.0);
        let mut left = piece.inodes as usize;
        while at < blocks {
            let length = step.min(blocks - at);
            let bytes = usize::try_from(length).unwrap_or(0) * block_size;
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(bytes.max(buffer.len()), 0);
            let chunk = buffer.get_mut(..bytes).unwrap_or_default();
            facts.read("inode table", BlockNo(piece.start.0 + at), chunk)?;
            for raw in chunk.chunks_exact(size).take(left) {
                self.inode(pass, Ino(ino), raw, &mut roots)?;
                ino = ino.saturating_add(1);
            }
            left = left.saturating_sub(bytes / size);
            self.buffer = buffer;
            at += length;
        }
        let claiming = Claiming::new(facts);
        match facts.read_order {
            ReadOrder::Vanilla => self.aside.follow(&claiming, &mut self.maps),
            ReadOrder::DiskOrder if pass.pool.add(&mut roots.blocks) => {
                self.maps.relieve(&pass.pool, &claiming)
            }
            ReadOrder::DiskOrder => Ok(()),
        }
    }
}

impl TableReader {
    #[inline]
    fn inode(
        &mut self,
        pass: &InodePass,
        ino: Ino,
        raw: &[u8],
        roots: &mut Roots<'_>,
    ) -> Result<(), Error> {
        let facts = &*pass.facts;
        match state(facts, ino, raw) {
            State::Clear => return Ok(()),
            State::Unused => judge::judge_unused(facts, ino, raw, roots),
            State::Used => {
                judge::judge(facts, &pass.first_blocks, ino, raw, roots);
                if facts.read_order == ReadOrder::Vanilla && self.aside.add(&mut roots.blocks) {
                    self.aside.follow(&Claiming::new(facts), &mut self.maps)?;
                }
            }
        }
        Ok(())
    }
}

/// What an inode is to this pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It was never used, or was cleared.
    Clear,
    /// It has no link.
    Unused,
    Used,
}

#[inline]
fn state(facts: &Facts, ino: Ino, raw: &[u8]) -> State {
    let stored = StoredInode::new(raw);
    let links = stored.links();
    // What has no checksum, and nothing else, was never used.
    let is_sealed = || {
        let (words, _) = raw.as_chunks::<8>();
        let any = words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word));
        facts.volume.superblock().has(Feature::METADATA_CSUM) && any != 0
    };
    let is_clear = links == 0 && stored.mode() == 0 && stored.deletion_time() == 0 && !is_sealed();
    let is_reserved = ino.0 < facts.volume.superblock().first_inode;
    let orphans = &facts.orphans.deleted;
    if is_clear && !is_reserved && orphans.is_empty() {
        State::Clear
    } else if links == 0 && !orphans.contains(&ino) && !quota::is_file(&facts.volume, ino) {
        State::Unused
    } else {
        State::Used
    }
}

/// A thread that empties the pool, when all inodes were seen.
#[derive(Default)]
struct PoolReader(MapReader);

impl Worker for PoolReader {
    type Shared = InodePass;

    /// Every thread is at work until the pool is empty.
    fn work(&mut self, pass: &InodePass, _piece: u64) -> Result<(), Error> {
        self.0.drain(&pass.pool, &Claiming::new(&pass.facts))
    }
}
