//! What inodes keep beside mode, map and attributes: fields that must be zero, data in the inode,
//! inodes of the system that are not in use.
//!
//! *Invariants*: nothing is read; what is reported depends on the bytes of one inode.
//! *Locking*: none.
use super::attributes;
use super::resize;
use crate::check::codes::Code;
use crate::check::facts::{Facts, HeldByAttributes};
use crate::check::passes::quota;
use crate::check::problem::Problem;
use extant_format::inode::{FileType, Inode, MAP_SIZE, StoredInode, flags};
use extant_format::superblock::Feature;
use extant_format::{Ino, extent, indirect};

/// Inodes that are reserved for what never came.
const NEVER_USED: [Ino; 3] = [Ino::UNDELETE, Ino::EXCLUDE, Ino::REPLICA];

/// Seconds by which a time of deletion must be older than the last write to the volume, to be taken
/// for the number of an inode: half a year.
const OLD_SECONDS: u64 = 1 << 24;

/// Judges what is left of an inode in use. Pass 1 calls it on any thread.
pub(crate) fn judge(facts: &Facts, ino: Ino, inode: &Inode, raw: &[u8], held: HeldByAttributes) {
    let superblock = facts.volume.superblock();
    let stored = StoredInode::new(raw);
    // These fields do not count in an inode that is the value of an attribute.
    let is_value = inode.flags & flags::EA_INODE != 0;
    let zero = |name: &[u8], found: u32| {
        if found != 0 && !is_value {
            let problem = Problem::new(Code::FieldNotZero).ino(ino);
            facts.report(problem.name(name).found(found));
        }
    };
    zero(b"fragment", stored.fragment());
    if !superblock.has(Feature::HUGE_FILE) {
        zero(b"sectors, high half", stored.sectors_high().into());
    }
    if !superblock.has(Feature::SIXTY_FOUR_BIT) {
        zero(b"attribute block, high half", stored.attribute_block_high().into());
    }
    if inode.flags & flags::IMAGIC != 0 && !superblock.has(Feature::IMAGIC_INODES) {
        facts.report(Problem::new(Code::MagicFlag).ino(ino));
    }
    let is_directory = inode.file_type() == Some(FileType::Directory);
    if inode.flags & flags::CASEFOLDED != 0 && !(is_directory && superblock.has(Feature::CASEFOLD))
    {
        facts.report(Problem::new(Code::CasefoldFlag).ino(ino));
    }
    let size = inode.size | u64::from(stored.size_high()) << 32;
    let is_inline = inode.flags & flags::INLINE_DATA != 0;
    if inode.file_type() == Some(FileType::Regular) && (inode.has_extents() || is_inline) {
        judge_largest(facts, ino, inode, raw);
    }
    if is_directory && size >> 32 != 0 && !superblock.has(Feature::LARGE_DIR) {
        facts.report(Problem::new(Code::DirectorySizeHigh).ino(ino).found(size));
    }
    if is_inline && superblock.has(Feature::INLINE_DATA) {
        judge_inline(facts, ino, inode, size, held);
    }
}

/// Data in the inode: a first part in place of the map, the rest in an attribute that is there even
/// when it is empty.
fn judge_inline(facts: &Facts, ino: Ino, inode: &Inode, size: u64, held: HeldByAttributes) {
    if !held.has_inline_data {
        facts.report(Problem::new(Code::InlineMissing).ino(ino));
        return;
    }
    let room = MAP_SIZE as u64 + held.inline_bytes;
    if inode.file_type() == Some(FileType::Directory) && size != room {
        let problem = Problem::new(Code::InlineSize).ino(ino);
        facts.report(problem.found(size).expected(room));
    }
}

/// A time of deletion that is early enough is none: the list of orphans keeps the number of its
/// next inode in the field.
pub(crate) fn judge_time(facts: &Facts, ino: Ino, deleted: u32) {
    let superblock = facts.volume.superblock();
    let is_number = deleted != 0 && deleted < superblock.inodes_count;
    if is_number && superblock.written_seconds > u64::from(deleted) + OLD_SECONDS {
        facts.report(Problem::new(Code::LostOrphan).ino(ino).found(deleted));
    }
}

/// Flags that only directories of users have.
pub(crate) fn judge_system_flags(facts: &Facts, ino: Ino, inode: &Inode) {
    for (flag, code) in [(flags::INDEX, Code::IndexFlag), (flags::CASEFOLDED, Code::CasefoldFlag)] {
        if inode.flags & flag != 0 {
            facts.report(Problem::new(code).ino(ino));
        }
    }
}

/// The size of a file against the most that can be mapped: by extents if it has them, else by
/// indirect blocks.
pub(crate) fn judge_largest(facts: &Facts, ino: Ino, inode: &Inode, raw: &[u8]) {
    let superblock = facts.volume.superblock();
    let size = inode.size | u64::from(StoredInode::new(raw).size_high()) << 32;
    let blocks = if inode.has_extents() {
        extent::FILE_BLOCKS_MAX
    } else {
        indirect::capacity(superblock.block_size_log2)
    };
    let most = blocks << superblock.block_size_log2;
    if ino != Ino::BAD_BLOCKS && size > most {
        let problem = Problem::new(Code::FileTooLarge).ino(ino);
        facts.report(problem.found(size).expected(most));
    }
}

/// Whether the feature is set that an inode of the system is for.
pub(crate) fn has_feature(facts: &Facts, ino: Ino) -> bool {
    let superblock = facts.volume.superblock();
    match ino {
        Ino::USER_QUOTA | Ino::GROUP_QUOTA => quota::is_file(&facts.volume, ino),
        Ino::RESIZE => resize::is_used(superblock),
        // A journal that the superblock names without the feature is reported as that alone.
        Ino::JOURNAL => superblock.has(Feature::HAS_JOURNAL) || superblock.journal_inode == ino.0,
        _ => true,
    }
}

/// Judges an inode of the system that has no links: most are zero.
pub(crate) fn judge_reserved(facts: &Facts, ino: Ino, inode: &Inode, raw: &[u8]) {
    let stored = StoredInode::new(raw);
    if stored.is_zero() {
        return;
    }
    let superblock = facts.volume.superblock();
    if Inode::verify_checksum(raw, ino, superblock).is_err() {
        let code = match ino {
            Ino::BAD_BLOCKS => Code::InodeChecksumUnread,
            _ => Code::InodeChecksum,
        };
        facts.report(Problem::new(code).ino(ino));
    }
    judge_time(facts, ino, inode.deletion_time);
    if inode.flags & flags::CASEFOLDED != 0 && ino != Ino::BAD_BLOCKS {
        facts.report(Problem::new(Code::CasefoldFlag).ino(ino));
    }
    if !has_feature(facts, ino) {
        // e2fsck looks at the low half of the count only.
        let has_sectors = inode.sectors & u64::from(u32::MAX) != 0;
        if indirect::pointer(&inode.block, 0) != 0 || has_sectors {
            facts.report(Problem::new(Code::ReservedInUse).ino(ino));
        }
        return;
    }
    if inode.flags & flags::INDEX != 0 && ino != Ino::BAD_BLOCKS {
        facts.report(Problem::new(Code::IndexFlag).ino(ino));
    }
    if NEVER_USED.contains(&ino) && inode.mode != 0 {
        let problem = Problem::new(Code::ReservedMode).ino(ino);
        facts.report(problem.found(inode.mode));
    }
    if ino != Ino::BAD_BLOCKS {
        attributes::judge(facts, ino, inode, raw);
    }
    judge_largest(facts, ino, inode, raw);
    let is_mapped = inode.block.iter().any(|byte| *byte != 0);
    if ino != Ino::BAD_BLOCKS && !is_mapped && inode.mode == 0 && inode.sectors != 0 {
        let problem = Problem::new(Code::SectorCount).ino(ino);
        facts.report(problem.found(inode.sectors).expected(0_u64));
    }
    let has_others =
        stored.uid_low() != 0 || stored.gid_low() != 0 || stored.attribute_block_low() != 0;
    if ino == Ino::BAD_BLOCKS && (inode.mode != 0 || has_others) {
        facts.report(Problem::new(Code::BadBlocksInode).ino(ino));
    }
}
