//! What inodes keep beside mode, map and attributes: fields that must be zero, data in the inode,
//! inodes of the system that are not in use.
//!
//! *Invariants*: nothing is read; what is reported depends on the bytes of one inode.
//! *Locking*: none.
use super::attributes;
use super::resize;
use super::subject::Subject;
use crate::check::codes::Code;
use crate::check::facts::{Facts, HeldByAttributes};
use crate::check::passes::quota;
use crate::check::problem::Problem;
use extant_format::inode::{FileType, Inode, MAP_SIZE, flags};
use extant_format::superblock::Feature;
use extant_format::{Ino, extent, indirect};

/// Inodes that are reserved for what never came.
pub(super) const NEVER_USED: [Ino; 3] = [Ino::UNDELETE, Ino::EXCLUDE, Ino::REPLICA];

/// The creator of volumes on which inodes may count more than their map.
const HURD: u32 = 1;

/// Seconds by which a time of deletion must be older than the last write to the volume, to be taken
/// for the number of an inode: half a year.
const OLD_SECONDS: u64 = 1 << 24;

/// Judges what is left of an inode in use. Pass 1 calls it on any thread.
pub(super) fn judge(subject: Subject<'_>, held: HeldByAttributes) {
    let Subject { facts, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    let stored = subject.stored();
    // These fields do not count in an inode that is the value of an attribute.
    let is_value = subject.is_value();
    let zero = |name: &[u8], found: u32| {
        if found != 0 && !is_value {
            let problem = subject.problem(Code::FieldNotZero);
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
    if subject.has_flag(flags::IMAGIC) && !superblock.has(Feature::IMAGIC_INODES) {
        subject.report(Code::MagicFlag);
    }
    let is_directory = inode.file_type() == Some(FileType::Directory);
    if subject.has_flag(flags::CASEFOLDED) && !(is_directory && superblock.has(Feature::CASEFOLD)) {
        subject.report(Code::CasefoldFlag);
    }
    let size = subject.wide_size();
    let is_inline = subject.has_flag(flags::INLINE_DATA);
    if inode.file_type() == Some(FileType::Regular) && (inode.has_extents() || is_inline) {
        judge_largest(subject);
    }
    if is_directory && size >> 32 != 0 && !superblock.has(Feature::LARGE_DIR) {
        facts.report(subject.problem(Code::DirectorySizeHigh).found(size));
    }
    if is_inline && superblock.has(Feature::INLINE_DATA) {
        judge_inline(subject, held);
    }
}

/// Data in the inode: a first part in place of the map, the rest in an attribute that is there even
/// when it is empty.
fn judge_inline(subject: Subject<'_>, held: HeldByAttributes) {
    let facts = subject.facts;
    if !held.has_inline_data {
        subject.report(Code::InlineMissing);
        return;
    }
    let (size, room) = (subject.wide_size(), MAP_SIZE as u64 + held.inline_bytes);
    if subject.file_type() == Some(FileType::Directory) && size != room {
        let problem = subject.problem(Code::InlineSize);
        facts.report(problem.found(size).expected(room));
    }
}

/// A time of deletion that is early enough is none: the list of orphans keeps the number of its
/// next inode in the field.
pub(super) fn judge_time(facts: &Facts, ino: Ino, deleted: u32) {
    let superblock = facts.volume.superblock();
    let is_number = deleted != 0 && deleted < superblock.inodes_count;
    if is_number && superblock.written_seconds > u64::from(deleted) + OLD_SECONDS {
        facts.report(Problem::new(Code::LostOrphan).ino(ino).found(deleted));
    }
}

/// Flags that only directories of users have.
pub(super) fn judge_system_flags(subject: Subject<'_>) {
    for (flag, code) in [(flags::INDEX, Code::IndexFlag), (flags::CASEFOLDED, Code::CasefoldFlag)] {
        if subject.has_flag(flag) {
            subject.report(code);
        }
    }
}

/// The size of a file against the most that can be mapped: by extents if it has them, else by
/// indirect blocks.
pub(super) fn judge_largest(subject: Subject<'_>) {
    let Subject { facts, ino, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    let size = subject.wide_size();
    let blocks = if inode.has_extents() {
        extent::FILE_BLOCKS_MAX
    } else {
        indirect::capacity(superblock.block_size_log2)
    };
    // A size of all that 32 bits can number is one too many, as e2fsck has it.
    let whole = blocks << superblock.block_size_log2;
    let most = if inode.has_extents() { whole - 1 } else { whole };
    if ino != Ino::BAD_BLOCKS && size > most {
        let problem = subject.problem(Code::FileTooLarge);
        facts.report(problem.found(size).expected(most));
    }
}

/// Whether the feature is set that an inode of the system is for.
pub(super) fn has_feature(facts: &Facts, ino: Ino) -> bool {
    let superblock = facts.volume.superblock();
    match ino {
        Ino::USER_QUOTA | Ino::GROUP_QUOTA => quota::is_file(&facts.volume, ino),
        Ino::RESIZE => resize::is_used(superblock),
        // A journal that the superblock names without the feature is reported as that alone.
        Ino::JOURNAL => superblock.has(Feature::HAS_JOURNAL) || superblock.journal_inode == ino.0,
        _ => true,
    }
}

/// Whether an inode has blocks as the file of orphans or of projects' quotas, on a volume without
/// that feature.
pub(super) fn is_needless(subject: Subject<'_>) -> bool {
    let Subject { facts, ino, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    let [.., projects] = facts.volume.stored().quota_inodes();
    let is_named = ino == projects && !superblock.has(Feature::QUOTA)
        || ino.0 == superblock.orphan_file_inode && !superblock.has(Feature::ORPHAN_FILE);
    is_named && has_blocks(inode)
}

/// Whether an inode of the system is in use: e2fsck looks at the low half of the count only.
fn has_blocks(inode: &Inode) -> bool {
    let has_sectors = inode.sectors & u64::from(u32::MAX) != 0;
    indirect::pointer(&inode.block, 0) != 0 || has_sectors
}

/// Judges an inode of the system that has no links: most are zero.
pub(super) fn judge_reserved(subject: Subject<'_>) {
    let Subject { facts, ino, inode, raw } = subject;
    let stored = subject.stored();
    if stored.is_zero() {
        return;
    }
    let superblock = facts.volume.superblock();
    if Inode::verify_checksum(raw, ino, superblock).is_err() {
        let code = match ino {
            Ino::BAD_BLOCKS => Code::InodeChecksumUnread,
            _ => Code::InodeChecksum,
        };
        subject.report(code);
    }
    judge_time(facts, ino, inode.deletion_time);
    if subject.has_flag(flags::CASEFOLDED) {
        subject.report(Code::CasefoldFlag);
    }
    // Of the others that are reserved e2fsck does not look at it.
    let is_looked_at = matches!(ino, Ino::BAD_BLOCKS | Ino::JOURNAL);
    if is_looked_at && subject.has_flag(flags::EXTENTS) && !superblock.has(Feature::EXTENTS) {
        subject.report(Code::ExtentsWithoutFeature);
    }
    let knows_both = superblock.has(Feature::EXTENTS) || superblock.has(Feature::INLINE_DATA);
    if knows_both && subject.has_flag(flags::EXTENTS) && subject.has_flag(flags::INLINE_DATA) {
        subject.report(Code::InlineWithExtents);
    }
    if !has_feature(facts, ino) {
        if has_blocks(inode) {
            subject.report(Code::ReservedInUse);
        }
        return;
    }
    if subject.has_flag(flags::INDEX) && ino != Ino::BAD_BLOCKS {
        subject.report(Code::IndexFlag);
    }
    if NEVER_USED.contains(&ino) && inode.mode != 0 {
        let problem = subject.problem(Code::ReservedMode);
        facts.report(problem.found(inode.mode));
    }
    if ino != Ino::BAD_BLOCKS {
        attributes::judge(subject);
    }
    judge_largest(subject);
    let is_mapped = inode.block.iter().any(|byte| *byte != 0);
    // The Hurd counts sectors that no map shows.
    let is_counted = superblock.creator_os != HURD;
    if is_counted && ino != Ino::BAD_BLOCKS && !is_mapped && inode.mode == 0 && inode.sectors != 0 {
        let problem = subject.problem(Code::SectorCount);
        facts.report(problem.found(inode.sectors).expected(0_u64));
    }
    let has_others =
        stored.uid_low() != 0 || stored.gid_low() != 0 || stored.attribute_block_low() != 0;
    let is_list = inode.mode == 0 && !has_others && !subject.has_flag(flags::INLINE_DATA);
    if ino == Ino::BAD_BLOCKS && !is_list {
        subject.report(Code::BadBlocksInode);
    }
}
