//! Pass 1: inode tables in large reads, each inode judged, its map handed to the
//! [plan](super::plan).
//!
//! *Invariants*: an inode is judged by one thread; what is told of it depends on its bytes alone.
//! Inodes that no checksum has ever seen used are not read.
use super::attributes;
use super::codes::Code;
use super::leftover;
use super::maps::{self, Kind, MapBlock, Walk};
use super::plan::{MapReader, PutAside};
use super::problem::{Pass, Problem};
use super::special;
use super::state::{Facts, State};
use super::superblock::{ENCRYPT, INLINE_DATA};
use super::words::{u16_at, u32_at};
use super::work::{self, Worker};
use super::{Plan, quota, resize};
use crate::error::Error;
use extant_block::Holes;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one read of a table by our plan; the era's reads so many blocks.
const READ_BYTES: usize = 512 << 10;
const VANILLA_BLOCKS: u64 = 8;
/// Bytes of tables that are read once more for another group.
const REPEATED_BYTES_MAX: u64 = 16 << 20;

pub(crate) const CASEFOLDED: u32 = 0x4000_0000;
const ENCRYPTED: u32 = 0x800;
const BAD_BLOCKS: Ino = Ino(1);
/// The last inode that every volume reserves.
const RESERVED_LAST: u32 = 10;

/// A piece of an inode table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TablePiece {
    /// First, so that sorted means by place.
    start: BlockNo,
    first: Ino,
    inodes: u32,
}

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    let pieces = pieces(state)?;
    let inodes: u64 = pieces.iter().map(|piece| u64::from(piece.inodes)).sum();
    let bytes = inodes * u64::from(state.volume.superblock().inode_size);
    state.meter.begin(Pass::Inodes, bytes, &*state.clock);
    let count = pieces.len() as u64;
    *state.table_pieces.lock() = Arc::new(pieces);
    work::share::<TableReader>(state, "check-inodes", count)?;
    let threads = state.options.threads.get().into();
    work::share::<MapReader>(state, "check-maps", threads)?;
    resize::judge(state)?;
    attributes::finish(state)?;
    special::finish(state)
}

/// Pass 1b: walks the maps of all inodes in use once more, in order.
///
/// # Errors
/// When the device fails.
pub(crate) fn search(state: &State) -> Result<(), Error> {
    let superblock = state.volume.superblock();
    let size = usize::from(superblock.inode_size);
    let pieces = Arc::clone(&state.table_pieces.lock());
    let (mut buffer, mut reader, mut roots) = (Vec::new(), MapReader::default(), Vec::new());
    for piece in pieces.iter() {
        let bytes = (piece.inodes as usize * size).next_multiple_of(state.volume.block_size());
        buffer.resize(bytes, 0);
        state.read("inode table", piece.start, &mut buffer)?;
        for (ino, raw) in
            (piece.first.0..).map(Ino).zip(buffer.chunks_exact(size)).take(piece.inodes as usize)
        {
            let reserved = ino.0 < superblock.first_inode && ino != Ino::ROOT;
            if !reserved && !state.inodes.get(ino).is_used() || ino == Ino::RESIZE {
                continue;
            }
            let inode = Inode::decode(raw, superblock);
            let kind =
                if ino == BAD_BLOCKS { Some(Kind::BadBlocks) } else { Kind::of(inode.file_type()) };
            if let Some(kind) = kind.filter(|_| has_map(state, &inode)) {
                maps::roots(state, Walk::new(ino, kind, &inode, 0, state), &inode, &mut roots);
                reader.follow(state, std::mem::take(&mut roots))?;
            }
        }
    }
    Ok(())
}

/// Whether the inode's block pointers are a map: not so for data in the inode, and for short
/// symlinks.
fn has_map(state: &State, inode: &Inode) -> bool {
    let is_inline =
        inode.flags & flags::INLINE_DATA != 0 && state.volume.superblock().has(INLINE_DATA);
    let is_fast = inode.file_type() == Some(FileType::Symlink)
        && (1..60).contains(&inode.size)
        && !inode.has_extents();
    !is_inline && !is_fast
}

/// What is to be read of the tables, by place. What the device knows to be zeros is no inode in
/// use, and left out.
fn pieces(state: &State) -> Result<Vec<TablePiece>, Error> {
    let superblock = state.volume.superblock();
    let block_size = u64::from(superblock.block_size());
    let per_block = (block_size / u64::from(superblock.inode_size)).max(1);
    let step_blocks = match state.options.plan {
        Plan::DiskOrder => (READ_BYTES as u64 / block_size).max(1),
        // A group at a time: it is read in smaller steps, but inodes are put aside by group.
        Plan::Vanilla => u64::from(superblock.inode_table_blocks()).max(1),
    };
    let mut holes = Holes::default();
    let mut pieces = Vec::new();
    for (number, group) in (0_u32..).zip(&state.groups).filter(|(_, group)| group.has_table) {
        let first = number * superblock.inodes_per_group + 1;
        let (table, inodes) = (group.descriptor.inode_table, u64::from(group.inodes_used));
        let mut at = 0;
        while at * per_block < inodes {
            let data = state.volume.next_data(&mut holes, BlockNo(table.0 + at))?;
            // Steps stay where they are without holes: what is read together does not depend on
            // them.
            let skipped = data.0.saturating_sub(table.0) / step_blocks * step_blocks;
            if skipped > at {
                at = skipped;
                continue;
            }
            let left = inodes - at * per_block;
            pieces.push(TablePiece {
                start: BlockNo(table.0 + at),
                first: Ino(first + u32::try_from(at * per_block).unwrap_or(0)),
                inodes: u32::try_from(left.min(step_blocks * per_block)).unwrap_or(0),
            });
            at += step_blocks;
        }
    }
    pieces.sort_unstable();
    leave_out_repeated(&mut pieces, superblock);
    Ok(pieces)
}

/// Leaves out what lies over another piece, beyond what damage explains: tables that lie over each
/// other are told of, and would have more inodes than the disk.
fn leave_out_repeated(pieces: &mut Vec<TablePiece>, superblock: &Superblock) {
    let (mut end, mut repeated) = (0, 0);
    pieces.retain(|piece| {
        let bytes = u64::from(piece.inodes) * u64::from(superblock.inode_size);
        let is_repeated = piece.start.0 < end;
        end = end.max(piece.start.0 + bytes.div_ceil(superblock.block_size().into()));
        repeated += if is_repeated { bytes } else { 0 };
        !is_repeated || repeated <= REPEATED_BYTES_MAX
    });
}

/// A thread that reads tables.
#[derive(Default)]
pub(crate) struct TableReader {
    buffer: Vec<u8>,
    roots: Vec<MapBlock>,
    maps: MapReader,
    aside: PutAside,
}

impl Worker for TableReader {
    fn work(&mut self, state: &Arc<State>, piece: u64) -> Result<(), Error> {
        let pieces = Arc::clone(&state.table_pieces.lock());
        let Some(piece) = pieces.get(usize::try_from(piece).unwrap_or(usize::MAX)).copied() else {
            return Ok(());
        };
        let size = usize::from(state.volume.superblock().inode_size);
        let block_size = state.volume.block_size();
        let blocks = (piece.inodes as usize * size).div_ceil(block_size) as u64;
        let step = match state.options.plan {
            Plan::DiskOrder => blocks,
            Plan::Vanilla => VANILLA_BLOCKS,
        };
        let (mut at, mut ino) = (0, piece.first.0);
        let mut left = piece.inodes as usize;
        while at < blocks {
            let length = step.min(blocks - at);
            let bytes = usize::try_from(length).unwrap_or(0) * block_size;
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(bytes.max(buffer.len()), 0);
            let chunk = buffer.get_mut(..bytes).unwrap_or_default();
            state.read("inode table", BlockNo(piece.start.0 + at), chunk)?;
            for raw in chunk.chunks_exact(size).take(left) {
                self.inode(state, Ino(ino), raw)?;
                ino = ino.saturating_add(1);
            }
            left = left.saturating_sub(bytes / size);
            self.buffer = buffer;
            at += length;
        }
        match state.options.plan {
            Plan::Vanilla => self.aside.follow(state, &mut self.maps),
            Plan::DiskOrder if state.pool.add(&mut self.roots) => self.maps.relieve(state),
            Plan::DiskOrder => Ok(()),
        }
    }
}

impl TableReader {
    #[inline]
    fn inode(&mut self, state: &State, ino: Ino, raw: &[u8]) -> Result<(), Error> {
        let links = u16_at(raw, 26);
        let is_clear = links == 0 && u16_at(raw, 0) == 0 && u32_at(raw, 20) == 0;
        let is_reserved = ino.0 < state.volume.superblock().first_inode;
        if is_clear && !is_reserved && state.orphans.is_empty() {
            return Ok(());
        }
        if links == 0 && !state.orphans.contains(&ino) && !quota::is_file(&state.volume, ino) {
            judge_unused(state, ino, raw, &mut self.roots);
            return Ok(());
        }
        judge(state, ino, raw, &mut self.roots);
        if state.options.plan == Plan::Vanilla && self.aside.add(&mut self.roots) {
            self.aside.follow(state, &mut self.maps)?;
        }
        Ok(())
    }
}

/// An inode without links is free: it has a time of deletion, or was never used.
fn judge_unused(state: &State, ino: Ino, raw: &[u8], roots: &mut Vec<MapBlock>) {
    let (mode, deleted) = (u16_at(raw, 0), u32_at(raw, 20));
    let superblock = state.volume.superblock();
    if ino.0 < superblock.first_inode && ino != Ino::ROOT {
        // Inodes of the system may have blocks without a link.
        let inode = Inode::decode(raw, superblock);
        leftover::judge_reserved(state, ino, &inode, raw);
        if ino == BAD_BLOCKS && inode.block.iter().any(|byte| *byte != 0) {
            let walk = Walk::new(ino, Kind::BadBlocks, &inode, 0, state);
            maps::roots(state, walk, &inode, roots);
        }
        return;
    }
    if mode != 0 && deleted == 0 {
        state.tell(Problem::new(Code::DeletedWithoutTime).ino(ino));
    } else {
        leftover::judge_time(state, ino, deleted);
    }
}

/// An inode in use.
fn judge(state: &State, ino: Ino, raw: &[u8], roots: &mut Vec<MapBlock>) {
    let superblock = state.volume.superblock();
    let inode = Inode::decode(raw, superblock);
    let tell = |code| state.tell(Problem::new(code).ino(ino));
    if Inode::verify_checksum(raw, ino, superblock).is_err() {
        // Of others than files and directories e2fsck must read the type from the inode, and does
        // not go on.
        let is_known = match ino {
            Ino::RESIZE => !superblock.has(Feature::RESIZE_INODE),
            BAD_BLOCKS => false,
            _ if ino.0 < superblock.first_inode => true,
            _ => matches!(inode.file_type(), Some(FileType::Regular | FileType::Directory)),
        };
        let code = if is_known { Code::InodeChecksum } else { Code::InodeChecksumUnread };
        tell(code);
    }
    let is_orphan = inode.links == 0;
    let is_of_system = state.is_of_system(ino);
    if is_of_system {
        leftover::judge_time(state, ino, inode.deletion_time);
    } else {
        if !is_orphan && inode.deletion_time != 0 && !state.truncated.contains(&ino) {
            let problem = Problem::new(Code::UsedButDeleted).ino(ino);
            state.tell(problem.found(inode.deletion_time));
        }
        judge_extra_size(state, ino, raw);
    }
    let file_type = inode.file_type();
    let mut facts = Facts::new(file_type, inode.links);
    if ino.0 < superblock.first_inode && ino != Ino::ROOT {
        return judge_reserved(state, ino, &inode, (raw, facts), roots);
    }
    facts = judge_flags(state, ino, &inode, facts);
    let held = attributes::judge(state, ino, &inode, raw);
    if is_of_system {
        leftover::judge_largest(state, ino, &inode, raw);
    } else {
        leftover::judge(state, ino, &inode, raw, held);
    }
    if file_type.is_none() {
        // Nothing can be said of its content. Pass 2 tells who has a name for it.
        facts = facts.bad();
        let problem = Problem::new(Code::NoFileType).ino(ino);
        state.tell(problem.found(inode.mode));
    } else if !special::judge(state, ino, &inode, raw, held) {
        facts = facts.bad();
    }
    if state.is_system_file(ino) {
        facts = facts.reserved();
    }
    state.inodes.set(ino, facts);
    let is_directory = file_type == Some(FileType::Directory) && !is_orphan;
    if let Some((_, group)) = state.group_of(ino).filter(|_| is_directory) {
        group.directories.fetch_add(1, Ordering::Relaxed);
    }
    if !is_orphan {
        state.usage.add(state, ino, &inode, held);
    }
    judge_map(state, ino, &inode, held.blocks, roots);
}

/// The size of the fixed fields behind the first 128 bytes.
fn judge_extra_size(state: &State, ino: Ino, raw: &[u8]) {
    let size = state.volume.superblock().inode_size;
    if size <= 128 {
        return;
    }
    let extra = u16_at(raw, 128);
    if extra != 0 && (extra < 4 || extra > size - 128 || !extra.is_multiple_of(4)) {
        state.tell(Problem::new(Code::ExtraSize).ino(ino).found(extra));
    }
}

/// Inodes below the first one for users: the journal, the list of bad blocks, quotas.
fn judge_reserved(
    state: &State,
    ino: Ino,
    inode: &Inode,
    (raw, facts): (&[u8], Facts),
    roots: &mut Vec<MapBlock>,
) {
    let superblock = state.volume.superblock();
    state.inodes.set(ino, facts.reserved());
    leftover::judge_system_flags(state, ino, inode);
    // Attributes in the inode itself are not looked at.
    let held = attributes::judge(state, ino, inode, &[]);
    leftover::judge_largest(state, ino, inode, raw);
    if ino == Ino::RESIZE && resize::is_used(superblock) {
        // Its map is judged apart, when all else is known.
        if inode.file_type() != Some(FileType::Regular) {
            let problem = Problem::new(Code::ReservedMode).ino(ino);
            state.tell(problem.found(inode.mode));
        }
        return;
    }
    if !leftover::has_feature(state, ino) {
        state.tell(Problem::new(Code::ReservedInUse).ino(ino));
    }
    if ino == BAD_BLOCKS {
        // A list of bad blocks has no link.
        state.tell(Problem::new(Code::BadBlocksInode).ino(ino));
    }
    let kind = match inode.file_type() {
        _ if ino == BAD_BLOCKS => Kind::BadBlocks,
        Some(FileType::Regular) => Kind::Regular,
        None if inode.mode == 0 => Kind::Regular,
        _ => {
            let problem = Problem::new(Code::ReservedMode).ino(ino);
            state.tell(problem.found(inode.mode));
            if inode.file_type() == Some(FileType::Directory) && ino.0 > RESERVED_LAST {
                state.tell(Problem::new(Code::ReservedDirectory).ino(ino));
            }
            return;
        }
    };
    maps::roots(state, Walk::new(ino, kind, inode, held.blocks, state), inode, roots);
}

/// Flags that exclude each other, or that the volume has no feature for.
fn judge_flags(state: &State, ino: Ino, inode: &Inode, mut facts: Facts) -> Facts {
    let superblock = state.volume.superblock();
    let tell = |code| state.tell(Problem::new(code).ino(ino));
    let file_type = inode.file_type();
    let is_directory = file_type == Some(FileType::Directory);
    let has = |flag: u32| inode.flags & flag != 0;
    if has(flags::EXTENTS) && !superblock.has(Feature::EXTENTS) {
        tell(Code::ExtentsWithoutFeature);
    }
    if has(flags::INLINE_DATA) && !superblock.has(INLINE_DATA) {
        tell(Code::InlineWithoutFeature);
    }
    if has(flags::INLINE_DATA) && has(flags::EXTENTS) {
        tell(Code::InlineWithExtents);
    }
    if has(flags::INDEX) && is_directory && !superblock.has(Feature::DIR_INDEX)
        || has(flags::INDEX) && !is_directory && file_type.is_some()
    {
        tell(Code::IndexFlag);
    }
    if has(ENCRYPTED) && !superblock.has(ENCRYPT) {
        tell(Code::EncryptedWithoutFeature);
    }
    if has(flags::INDEX) && is_directory {
        facts = facts.indexed();
    }
    if has(ENCRYPTED) {
        facts = facts.encrypted();
    }
    if has(CASEFOLDED) && is_directory {
        facts = facts.casefolded();
    }
    if has(flags::EA_INODE) {
        facts = facts.attribute_inode();
    }
    facts
}

/// What an inode maps: its blocks are claimed now or, behind map blocks, by the plan.
fn judge_map(state: &State, ino: Ino, inode: &Inode, held_blocks: u64, roots: &mut Vec<MapBlock>) {
    let superblock = state.volume.superblock();
    let kind = Kind::of(inode.file_type());
    if kind == Some(Kind::Regular)
        && inode.size > 0x7fff_ffff
        && !superblock.has(Feature::LARGE_FILE)
    {
        state.tell(Problem::new(Code::LargeFile).ino(ino).found(inode.size));
    }
    if inode.flags & flags::INLINE_DATA != 0 && superblock.has(INLINE_DATA) {
        if kind == Some(Kind::Directory) {
            state.inline_directories.lock().push(ino);
        }
        if kind == Some(Kind::Symlink) {
            // Nobody counts the blocks of those.
            return;
        }
        return judge_sectors(state, ino, inode, held_blocks);
    }
    let is_fast =
        kind == Some(Kind::Symlink) && inode.size > 0 && inode.size < 60 && !inode.has_extents();
    match kind.filter(|_| !is_fast) {
        Some(kind) => {
            if kind == Kind::Regular && !inode.has_extents() {
                judge_size(state, ino, inode);
            }
            maps::roots(state, Walk::new(ino, kind, inode, held_blocks, state), inode, roots);
        }
        None => judge_sectors(state, ino, inode, held_blocks),
    }
}

/// The largest file that indirect blocks map.
fn judge_size(state: &State, ino: Ino, inode: &Inode) {
    let log2 = state.volume.superblock().block_size_log2;
    let most = extant_format::indirect::capacity(log2).saturating_mul(1 << log2);
    if inode.size > most {
        let problem = Problem::new(Code::FileTooLarge).ino(ino);
        state.tell(problem.found(inode.size).expected(most));
    }
}

/// The sectors of an inode that has no map.
fn judge_sectors(state: &State, ino: Ino, inode: &Inode, held_blocks: u64) {
    let expected = held_blocks * u64::from(state.volume.superblock().block_size() / 512);
    if inode.file_type().is_some() && inode.sectors != expected {
        let problem = Problem::new(Code::SectorCount).ino(ino);
        state.tell(problem.found(inode.sectors).expected(expected));
    }
}
