//! Inodes without data of a usual kind: symlinks, devices, pipes and sockets.
//!
//! The target of a symlink that is shorter than the inode's map is in its place; a longer one is
//! one block. Blocks of symlinks are noted with their inodes, and read afterwards in the order of
//! the disk.
//!
//! *Invariants*: a block is read only where a symlink says that it is, and its inode's map was
//! judged to be one block.
//! *Locking*: one short lock around the list, held for a push.
use crate::check::codes::Code;
use crate::check::facts::{Facts, HeldByAttributes};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::extent::Node;
use extant_format::inode::{FileType, Inode, MAP_SIZE, StoredInode, flags};
use extant_format::{BlockNo, Ino, indirect};

/// Bytes at the start of the map that may hold a device's number.
const DEVICE_BYTES: usize = 16;

/// Symlinks whose targets are in blocks.
#[derive(Default)]
pub(crate) struct SymlinkTargets(ShortLock<Vec<Target>>);

/// A symlink whose target is in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    block: BlockNo,
    ino: Ino,
    length: u64,
}

/// Judges what is particular to a symlink, device, pipe or socket; does nothing for files and
/// directories. Pass 1 calls it for each inode in use, on any thread, with what
/// [`super::attributes::judge`] gave. False when the inode is no such thing and would be cleared.
pub(crate) fn judge(
    facts: &Facts,
    targets: &SymlinkTargets,
    ino: Ino,
    inode: &Inode,
    raw: &[u8],
    held: HeldByAttributes,
) -> bool {
    // The high half of the size, which means something for files and directories only.
    let size_high = StoredInode::new(raw).size_high();
    let is_right = match inode.file_type() {
        Some(FileType::Symlink) => symlink(facts, targets, ino, inode, size_high, held),
        Some(
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket,
        ) => unmapped(facts, ino, inode, size_high),
        Some(FileType::Regular | FileType::Directory) | None => return true,
    };
    if inode.flags & (flags::IMMUTABLE | flags::APPEND) != 0 {
        facts.report(Problem::new(Code::SpecialFileImmutable).ino(ino).found(inode.flags));
    }
    is_right
}

fn symlink(
    facts: &Facts,
    targets: &SymlinkTargets,
    ino: Ino,
    inode: &Inode,
    size_high: u32,
    held: HeldByAttributes,
) -> bool {
    let is_right = size_high == 0 && is_symlink(facts, targets, ino, inode, held);
    if !is_right {
        facts.report(Problem::new(Code::SymlinkInvalid).ino(ino).found(inode.size));
    }
    is_right
}

fn is_symlink(
    facts: &Facts,
    targets: &SymlinkTargets,
    ino: Ino,
    inode: &Inode,
    held: HeldByAttributes,
) -> bool {
    let block_size = u64::from(facts.volume.superblock().block_size());
    if inode.size == 0 || inode.flags & flags::INDEX != 0 {
        return false;
    }
    if inode.flags & flags::INLINE_DATA != 0 {
        return inode.size == MAP_SIZE as u64 + held.inline_bytes;
    }
    if inode.size < inode.block.len() as u64 {
        if inode.flags & flags::EXTENTS != 0 {
            facts.report(Problem::new(Code::SymlinkFastExtents).ino(ino));
        }
        return inode.flags & flags::ENCRYPTED != 0 || length(&inode.block) as u64 == inode.size;
    }
    if inode.size >= block_size {
        return false;
    }
    let Some(block) = target_block(facts, inode) else {
        return false;
    };
    if inode.flags & flags::ENCRYPTED == 0 {
        let length = inode.size;
        targets.0.lock().push(Target { block, ino, length });
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
fn unmapped(facts: &Facts, ino: Ino, inode: &Inode, size_high: u32) -> bool {
    let is_odd = inode.flags & (flags::IMMUTABLE | flags::APPEND) != 0;
    let after = inode.block.get(DEVICE_BYTES..).unwrap_or_default();
    let is_mapped = inode.flags & (flags::EXTENTS | flags::INLINE_DATA | flags::INDEX) != 0;
    let is_right = !(is_mapped || is_odd && after.iter().any(|byte| *byte != 0));
    if !is_right {
        facts.report(Problem::new(Code::SpecialFileMapped).ino(ino));
    }
    let size = inode.size | u64::from(size_high) << 32;
    if size != 0 {
        let problem = Problem::new(Code::SpecialFileSize).ino(ino);
        facts.report(problem.found(size).expected(0_u64));
    }
    is_right
}

/// Reads and judges the targets that are in blocks. Pass 1 calls it when all inodes were seen.
///
/// # Errors
/// When the device fails.
pub(crate) fn finish(facts: &Facts, targets: &SymlinkTargets) -> Result<(), Error> {
    let mut targets = std::mem::take(&mut *targets.0.lock());
    targets.sort_unstable();
    let mut reader = Reader::default();
    for range in Reader::batches(facts, &targets, |target| target.block) {
        let batch = targets.get(range).unwrap_or_default();
        reader.read(facts, "symlink", batch, |target| target.block)?;
        for (at, target) in batch.iter().enumerate() {
            if length(reader.item(at)) as u64 != target.length {
                let problem = Problem::new(Code::SymlinkInvalid).ino(target.ino);
                facts.report(problem.found(target.length));
                facts.inodes.set_bad(target.ino);
            }
        }
    }
    Ok(())
}
