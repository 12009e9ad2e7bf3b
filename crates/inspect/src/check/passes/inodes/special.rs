//! Inodes without data of a usual kind: symlinks, devices, pipes and sockets.
//!
//! The target of a symlink that is shorter than the inode's map is in its place; a longer one is
//! one block. Blocks of symlinks are noted with their inodes, and read afterwards in the order of
//! the disk.
//!
//! *Invariants*: a block is read only where a symlink says that it is, and its inode's map was
//! judged to be one block.
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

/// Symlinks whose targets are in blocks.
#[derive(Default)]
pub(super) struct SymlinkTargets(ShortLock<Vec<Target>>);

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
pub(super) fn judge(
    subject: Subject<'_>,
    targets: &SymlinkTargets,
    held: HeldByAttributes,
) -> bool {
    let is_right = match subject.file_type() {
        Some(FileType::Symlink) => symlink(subject, targets, held),
        Some(
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket,
        ) => unmapped(subject),
        Some(FileType::Regular | FileType::Directory) | None => return true,
    };
    if subject.has_flag(flags::IMMUTABLE | flags::APPEND) {
        let problem = subject.problem(Code::SpecialFileImmutable);
        subject.facts.report(problem.found(subject.inode.flags));
    }
    is_right
}

fn symlink(subject: Subject<'_>, targets: &SymlinkTargets, held: HeldByAttributes) -> bool {
    // The high half of the size means something for files and directories only.
    let is_right = subject.stored().size_high() == 0 && is_symlink(subject, targets, held);
    if !is_right {
        let problem = subject.problem(Code::SymlinkInvalid);
        subject.facts.report(problem.found(subject.inode.size));
    }
    is_right
}

fn is_symlink(subject: Subject<'_>, targets: &SymlinkTargets, held: HeldByAttributes) -> bool {
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
fn unmapped(subject: Subject<'_>) -> bool {
    let Subject { facts, inode, .. } = subject;
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

/// Reads and judges the targets that are in blocks. Pass 1 calls it when all inodes were seen.
///
/// # Errors
/// When the device fails.
pub(super) fn finish(facts: &Facts, targets: &SymlinkTargets) -> Result<(), Error> {
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
