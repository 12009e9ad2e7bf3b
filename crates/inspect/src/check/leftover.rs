//! What inodes keep beside mode, map and attributes: fields that must be zero, data in the inode,
//! inodes of the system that are not in use.
//!
//! *Invariants*: nothing is read; what is told depends on the bytes of one inode.
//! *Locking*: none.
use super::attributes::{self, Held};
use super::codes::Code;
use super::inodes::CASEFOLDED;
use super::problem::Problem;
use super::quota;
use super::resize;
use super::state::State;
use super::superblock::{CASEFOLD, INLINE_DATA, LARGE_DIRECTORY};
use super::words::{u16_at, u32_at};
use extant_format::Ino;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;

const BAD_BLOCKS: Ino = Ino(1);
const USER_QUOTA: Ino = Ino(3);
const GROUP_QUOTA: Ino = Ino(4);
/// Reserved for what never came.
const NEVER_USED: [Ino; 3] = [Ino(6), Ino(9), Ino(10)];

/// A feature, and its flag, that were never more than reserved.
const IMAGIC_INODES: Feature = Feature::Compat(0x2);
const IMAGIC: u32 = 0x2000;

/// Bytes of data that an inode holds in place of its map.
const INLINE_BYTES: u64 = 60;

/// Where fields stand.
mod at {
    pub(super) const UID: usize = 2;
    pub(super) const GID: usize = 24;
    pub(super) const ATTRIBUTE_BLOCK: usize = 104;
    pub(super) const SIZE_HIGH: usize = 108;
    pub(super) const FRAGMENT: usize = 112;
    pub(super) const SECTORS_HIGH: usize = 116;
    pub(super) const ATTRIBUTE_BLOCK_HIGH: usize = 118;
}

/// Judges what is left of an inode in use. Pass 1 calls it on any thread.
pub(crate) fn judge(state: &State, ino: Ino, inode: &Inode, raw: &[u8], held: Held) {
    let superblock = state.volume.superblock();
    // Nobody looks at these fields of what is the value of an attribute.
    let is_value = inode.flags & flags::EA_INODE != 0;
    let zero = |name: &[u8], found: u32| {
        if found != 0 && !is_value {
            let problem = Problem::new(Code::FieldNotZero).ino(ino);
            state.tell(problem.name(name).found(found));
        }
    };
    zero(b"fragment", u32_at(raw, at::FRAGMENT));
    if !superblock.has(Feature::HUGE_FILE) {
        zero(b"sectors, high half", u16_at(raw, at::SECTORS_HIGH).into());
    }
    if !superblock.has(Feature::SIXTY_FOUR_BIT) {
        zero(b"attribute block, high half", u16_at(raw, at::ATTRIBUTE_BLOCK_HIGH).into());
    }
    if inode.flags & IMAGIC != 0 && !superblock.has(IMAGIC_INODES) {
        state.tell(Problem::new(Code::MagicFlag).ino(ino));
    }
    let is_directory = inode.file_type() == Some(FileType::Directory);
    if inode.flags & CASEFOLDED != 0 && !(is_directory && superblock.has(CASEFOLD)) {
        state.tell(Problem::new(Code::CasefoldFlag).ino(ino));
    }
    let size = inode.size | u64::from(u32_at(raw, at::SIZE_HIGH)) << 32;
    let is_inline = inode.flags & flags::INLINE_DATA != 0;
    if inode.file_type() == Some(FileType::Regular) && (inode.has_extents() || is_inline) {
        judge_largest(state, ino, inode, raw);
    }
    if is_directory && size >> 32 != 0 && !superblock.has(LARGE_DIRECTORY) {
        state.tell(Problem::new(Code::DirectorySizeHigh).ino(ino).found(size));
    }
    if inode.flags & flags::INLINE_DATA != 0 && superblock.has(INLINE_DATA) {
        judge_inline(state, ino, inode, size, held);
    }
}

/// Data in the inode: a first part in place of the map, the rest in an attribute that is there even
/// when it is empty.
fn judge_inline(state: &State, ino: Ino, inode: &Inode, size: u64, held: Held) {
    if !held.has_inline_data {
        state.tell(Problem::new(Code::InlineMissing).ino(ino));
        return;
    }
    let room = INLINE_BYTES + held.inline_bytes;
    if inode.file_type() == Some(FileType::Directory) && size != room {
        let problem = Problem::new(Code::InlineSize).ino(ino);
        state.tell(problem.found(size).expected(room));
    }
}

/// A time of deletion so early is no time: the list of orphans used the field for the next of them.
pub(crate) fn judge_time(state: &State, ino: Ino, deleted: u32) {
    let superblock = state.volume.superblock();
    let is_number = deleted != 0 && deleted < superblock.inodes_count;
    if is_number && superblock.written_seconds > u64::from(deleted) + (1 << 24) {
        state.tell(Problem::new(Code::LostOrphan).ino(ino).found(deleted));
    }
}

/// Flags that only directories of users have.
pub(crate) fn judge_system_flags(state: &State, ino: Ino, inode: &Inode) {
    for (flag, code) in [(flags::INDEX, Code::IndexFlag), (CASEFOLDED, Code::CasefoldFlag)] {
        if inode.flags & flag != 0 {
            state.tell(Problem::new(code).ino(ino));
        }
    }
}

/// The size of a file against the most that can be mapped: by extents if it has them, else by
/// indirect blocks.
pub(crate) fn judge_largest(state: &State, ino: Ino, inode: &Inode, raw: &[u8]) {
    let superblock = state.volume.superblock();
    let size = inode.size | u64::from(u32_at(raw, at::SIZE_HIGH)) << 32;
    let blocks = if inode.has_extents() {
        1 << 32
    } else {
        extant_format::indirect::capacity(superblock.block_size_log2)
    };
    let most = blocks << superblock.block_size_log2;
    if ino != BAD_BLOCKS && size > most {
        let problem = Problem::new(Code::FileTooLarge).ino(ino);
        state.tell(problem.found(size).expected(most));
    }
}

/// Whether the feature is set that an inode of the system is for.
pub(crate) fn has_feature(state: &State, ino: Ino) -> bool {
    let superblock = state.volume.superblock();
    match ino {
        USER_QUOTA | GROUP_QUOTA => quota::is_file(&state.volume, ino),
        Ino::RESIZE => resize::is_used(superblock),
        // Of a journal that the superblock names without the feature that alone is told.
        Ino::JOURNAL => superblock.has(Feature::HAS_JOURNAL) || superblock.journal_inode == ino.0,
        _ => true,
    }
}

/// Judges an inode of the system that has no links: most are zero.
pub(crate) fn judge_reserved(state: &State, ino: Ino, inode: &Inode, raw: &[u8]) {
    if raw.iter().all(|byte| *byte == 0) {
        return;
    }
    let superblock = state.volume.superblock();
    if Inode::verify_checksum(raw, ino, superblock).is_err() {
        let code = match ino {
            BAD_BLOCKS => Code::InodeChecksumUnread,
            _ => Code::InodeChecksum,
        };
        state.tell(Problem::new(code).ino(ino));
    }
    judge_time(state, ino, inode.deletion_time);
    if inode.flags & CASEFOLDED != 0 && ino != BAD_BLOCKS {
        state.tell(Problem::new(Code::CasefoldFlag).ino(ino));
    }
    if !has_feature(state, ino) {
        // The low half of the count is what tells.
        if u32_at(&inode.block, 0) != 0 || inode.sectors & 0xffff_ffff != 0 {
            state.tell(Problem::new(Code::ReservedInUse).ino(ino));
        }
        return;
    }
    if inode.flags & flags::INDEX != 0 && ino != BAD_BLOCKS {
        state.tell(Problem::new(Code::IndexFlag).ino(ino));
    }
    if NEVER_USED.contains(&ino) && inode.mode != 0 {
        let problem = Problem::new(Code::ReservedMode).ino(ino);
        state.tell(problem.found(inode.mode));
    }
    if ino != BAD_BLOCKS {
        attributes::judge(state, ino, inode, raw);
    }
    judge_largest(state, ino, inode, raw);
    let is_mapped = inode.block.iter().any(|byte| *byte != 0);
    if ino != BAD_BLOCKS && !is_mapped && inode.mode == 0 && inode.sectors != 0 {
        let problem = Problem::new(Code::SectorCount).ino(ino);
        state.tell(problem.found(inode.sectors).expected(0_u64));
    }
    let fields = [at::UID, at::GID, at::ATTRIBUTE_BLOCK, at::ATTRIBUTE_BLOCK + 2];
    if ino == BAD_BLOCKS && (inode.mode != 0 || fields.iter().any(|at| u16_at(raw, *at) != 0)) {
        state.tell(Problem::new(Code::BadBlocksInode).ino(ino));
    }
}
