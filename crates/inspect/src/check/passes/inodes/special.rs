//! Inodes without data of a usual kind: symlinks, devices, pipes and sockets.
//!
//! The target of a symlink that is shorter than the inode's map is in its place; a longer one is
//! one block. A device, pipe or socket whose inode has what could be a map may be a directory. The
//! blocks that tell are noted with their inodes, and read afterwards in the order of the disk.
//!
//! *Invariants*: a block is read only where an inode says that it is, and it is on the volume.
//! *Locking*: one short lock around the list, held for a push.
use super::subject::Subject;
use crate::check::codes::Code;
use crate::check::facts::{Facts, HeldByAttributes};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::extent::Node;
use extant_format::inode::{FileType, Inode, MAP_SIZE, flags};
use extant_format::{BlockNo, Ino, indirect};

/// Bytes at the start of the map that may hold a device's number.
const DEVICE_BYTES: usize = 16;

/// Pointers that a device, pipe or socket may have where its inode could be a directory's: those
/// after them, but for the last three, are zero.
const POINTERS: usize = 4;
/// Bytes of the first two entries of a directory: the second one's name ends with them.
const FIRST_ENTRIES: usize = 22;
/// Bytes of the entry `.`.
const DOT_BYTES: u16 = 12;

/// First blocks that say more of an inode than it does.
#[derive(Default)]
pub(super) struct FirstBlocks(ShortLock<Vec<FirstBlock>>);

/// The first block of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FirstBlock {
    block: BlockNo,
    ino: Ino,
    told: Told,
}

/// What is asked of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// A symlink: whether its target has this length.
    Target(u64),
    /// A device, pipe or socket: whether it is a directory.
    Directory,
}

/// Judges what is particular to a symlink, device, pipe or socket; does nothing for files and
/// directories. Pass 1 calls it for each inode in use, on any thread, with what
/// [`super::attributes::judge`] gave. False when the inode is no such thing and would be cleared.
pub(super) fn judge(
    subject: Subject<'_>,
    first_blocks: &FirstBlocks,
    held: HeldByAttributes,
) -> bool {
    let is_right = match subject.file_type() {
        Some(FileType::Symlink) => symlink(subject, first_blocks, held),
        Some(
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket,
        ) => unmapped(subject, first_blocks),
        Some(FileType::Regular | FileType::Directory) | None => return true,
    };
    if subject.has_flag(flags::IMMUTABLE | flags::APPEND) {
        let problem = subject.problem(Code::SpecialFileImmutable);
        subject.facts.report(problem.found(subject.inode.flags));
    }
    is_right
}

fn symlink(subject: Subject<'_>, first_blocks: &FirstBlocks, held: HeldByAttributes) -> bool {
    // The high half of the size means something for files and directories only.
    let is_right = subject.stored().size_high() == 0 && is_symlink(subject, first_blocks, held);
    if !is_right {
        let problem = subject.problem(Code::SymlinkInvalid);
        subject.facts.report(problem.found(subject.inode.size));
    }
    is_right
}

fn is_symlink(subject: Subject<'_>, first_blocks: &FirstBlocks, held: HeldByAttributes) -> bool {
    let Subject { facts, ino, inode, .. } = subject;
    let block_size = u64::from(facts.volume.superblock().block_size());
    if inode.size == 0 || subject.has_flag(flags::INDEX) {
        return false;
    }
    if subject.has_flag(flags::INLINE_DATA) {
        return inode.size == MAP_SIZE as u64 + held.inline_bytes;
    }
    if inode.size < inode.block.len() as u64 {
        if subject.has_flag(flags::EXTENTS) {
            subject.report(Code::SymlinkFastExtents);
        }
        return subject.has_flag(flags::ENCRYPTED) || length(&inode.block) as u64 == inode.size;
    }
    if inode.size >= block_size {
        return false;
    }
    let Some(block) = target_block(facts, inode) else {
        return false;
    };
    if !subject.has_flag(flags::ENCRYPTED) {
        let told = Told::Target(inode.size);
        first_blocks.0.lock().push(FirstBlock { block, ino, told });
    }
    true
}

/// The one block of a symlink, if its map has exactly that.
fn target_block(facts: &Facts, inode: &Inode) -> Option<BlockNo> {
    let superblock = facts.volume.superblock();
    let block = if inode.has_extents() {
        let node = Node::parse(&inode.block, None, superblock.blocks_count).ok()?;
        if node.depth() != 0 || node.len() != 1 {
            return None;
        }
        let extent = node.extent(0);
        (extent.length == 1 && extent.file_block.0 == 0).then_some(extent.start)?
    } else {
        let others = indirect::pointers(&inode.block).skip(1);
        others.into_iter().all(|pointer| pointer == 0).then_some(())?;
        BlockNo(indirect::pointer(&inode.block, 0).into())
    };
    (block.0 > u64::from(superblock.first_data_block) && facts.volume.holds(block)).then_some(block)
}

fn length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())
}

/// Devices, pipes and sockets. Old kernels left what was in the map before, so that means nothing
/// by itself; with flags that such an inode hardly has, it means that the inode is no such thing.
fn unmapped(subject: Subject<'_>, first_blocks: &FirstBlocks) -> bool {
    let Subject { facts, ino, inode, .. } = subject;
    if let Some(block) = directory_block(facts, inode) {
        first_blocks.0.lock().push(FirstBlock { block, ino, told: Told::Directory });
    }
    let is_odd = subject.has_flag(flags::IMMUTABLE | flags::APPEND);
    let after = inode.block.get(DEVICE_BYTES..).unwrap_or_default();
    let is_mapped = subject.has_flag(flags::EXTENTS | flags::INLINE_DATA | flags::INDEX);
    let is_right = !(is_mapped || is_odd && after.iter().any(|byte| *byte != 0));
    if !is_right {
        subject.report(Code::SpecialFileMapped);
    }
    let size = subject.wide_size();
    if size != 0 {
        let problem = subject.problem(Code::SpecialFileSize);
        facts.report(problem.found(size).expected(0_u64));
    }
    is_right
}

/// The first block of what is no directory by its mode, where its inode could map one.
fn directory_block(facts: &Facts, inode: &Inode) -> Option<BlockNo> {
    let superblock = facts.volume.superblock();
    let can_be = |block: u64| {
        let first = u64::from(superblock.first_data_block).max(1);
        let block = BlockNo(block);
        block.0 >= first && facts.volume.holds(block) && !facts.metadata.holds(block)
    };
    let block = if inode.has_extents() {
        let node = Node::parse(&inode.block, None, superblock.blocks_count).ok()?;
        if node.depth() != 0 || node.is_empty() || node.extent(0).file_block.0 != 0 {
            return None;
        }
        node.extent(0).start.0
    } else {
        let pointers: Vec<u32> = indirect::pointers(&inode.block).collect();
        let direct = pointers.get(..indirect::DIRECT as usize)?;
        let (few, others) = direct.split_at_checked(POINTERS)?;
        let are_few = others.iter().all(|pointer| *pointer == 0);
        let are_blocks = few.iter().all(|pointer| *pointer == 0 || can_be(u64::from(*pointer)));
        u64::from(*few.first().filter(|first| **first != 0 && are_few && are_blocks)?)
    };
    can_be(block).then_some(BlockNo(block))
}

/// Whether a block begins with the first two entries of the directory that the inode would be.
fn begins_directory(bytes: &[u8], ino: Ino) -> bool {
    let Some(first) = bytes.first_chunk::<FIRST_ENTRIES>() else { return false };
    let length = |at: usize| u16::from_le_bytes([first[at], first[at + 1]]);
    first[..4] == ino.0.to_le_bytes()
        && length(4) == DOT_BYTES
        && first[6] == 1
        && first[8] == b'.'
        && length(16) >= DOT_BYTES
        && length(16).is_multiple_of(4)
        && first[18] == 2
        && first[20..] == *b".."
}

/// Reads and judges the blocks that were noted. Pass 1 calls it when all inodes were seen.
///
/// # Errors
/// When the device fails.
pub(super) fn finish(facts: &Facts, first_blocks: &FirstBlocks) -> Result<(), Error> {
    let mut noted = std::mem::take(&mut *first_blocks.0.lock());
    noted.sort_unstable();
    let mut reader = Reader::default();
    for range in Reader::batches(facts, &noted, |noted| noted.block) {
        let batch = noted.get(range).unwrap_or_default();
        reader.read(facts, "symlink", batch, |noted| noted.block)?;
        for (at, FirstBlock { block, ino, told }) in batch.iter().enumerate() {
            let problem = |code| Problem::new(code).ino(*ino);
            match *told {
                Told::Target(expected) if length(reader.item(at)) as u64 != expected => {
                    facts.report(problem(Code::SymlinkInvalid).found(expected));
                    facts.inodes.set_bad(*ino);
                }
                // A block that a file has is that file's.
                Told::Directory
                    if facts.claims.is_free(*block, 1)
                        && begins_directory(reader.item(at), *ino) =>
                {
                    facts.report(problem(Code::SpecialFileDirectory));
                }
                Told::Target(_) | Told::Directory => {}
            }
        }
    }
    Ok(())
}
