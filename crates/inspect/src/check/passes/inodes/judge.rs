//! One inode: its fields, flags, size, and the root of its map.
//!
//! *Invariants*: what is reported of an inode depends on its bytes alone.
use super::attributes;
use super::leftover;
use super::resize;
use super::special::{self, FirstBlocks};
use super::subject::Subject;
use crate::check::codes::Code;
use crate::check::facts::{Encryption, Facts, InodeFacts, Sharer};
use crate::check::maps::{MapKind, Mapped, Roots};
use crate::check::passes::quota;
use crate::check::problem::Problem;
use extant_format::inode::{FileType, Inode, MAP_SIZE, SMALL_FILE_MAX, StoredInode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{Ino, SECTOR_BYTES};
use std::sync::atomic::Ordering;

/// Whether the inode's block pointers are a map: not so for data in the inode, and for short
/// symlinks.
pub(super) fn has_map(facts: &Facts, inode: &Inode) -> bool {
    !is_inline(facts, inode) && !is_fast_symlink(inode)
}

/// Whether data is in the inode, in place of the map.
fn is_inline(facts: &Facts, inode: &Inode) -> bool {
    let has_feature = facts.volume.superblock().has(Feature::INLINE_DATA);
    inode.flags & flags::INLINE_DATA != 0 && has_feature
}

/// Whether the target of a symlink is in the inode, in place of the map.
fn is_fast_symlink(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Symlink)
        && (1..MAP_SIZE as u64).contains(&inode.size)
        && !inode.has_extents()
}

/// An inode without links is free: it has a time of deletion, or was never used.
pub(super) fn judge_unused(facts: &Facts, ino: Ino, raw: &[u8], roots: &mut Roots<'_>) {
    let stored = StoredInode::new(raw);
    let (mode, deleted) = (stored.mode(), stored.deletion_time());
    let superblock = facts.volume.superblock();
    if ino.0 < superblock.first_inode && ino != Ino::ROOT {
        // Inodes of the system may have blocks without a link.
        let inode = Inode::decode(raw, superblock);
        leftover::judge_reserved(Subject { facts, ino, inode: &inode, raw });
        if ino == Ino::BAD_BLOCKS && inode.block.iter().any(|byte| *byte != 0) {
            roots.add(Mapped::new(ino, MapKind::BadBlocks, &inode, 0), &inode);
        }
        return;
    }
    if Inode::verify_checksum(raw, ino, superblock).is_err() {
        facts.report(Problem::new(Code::InodeChecksum).ino(ino));
    }
    if mode != 0 && deleted == 0 {
        facts.report(Problem::new(Code::DeletedWithoutTime).ino(ino));
    } else {
        leftover::judge_time(facts, ino, deleted);
    }
}

/// An inode in use.
pub(super) fn judge(
    facts: &Facts,
    first_blocks: &FirstBlocks,
    ino: Ino,
    raw: &[u8],
    roots: &mut Roots<'_>,
) {
    let superblock = facts.volume.superblock();
    let inode = &Inode::decode_fields(raw, superblock);
    let subject = Subject { facts, ino, inode, raw };
    judge_seal(subject);
    let is_orphan = inode.links == 0;
    let is_of_system = facts.is_of_system(ino);
    judge_deletion(subject);
    if !is_of_system {
        judge_extra_size(subject);
    }
    let file_type = inode.file_type();
    let mut known = InodeFacts::new(file_type, inode.links);
    if ino.0 < superblock.first_inode && ino != Ino::ROOT {
        return judge_reserved(subject, known, roots);
    }
    known = judge_flags(subject, known);
    let held = attributes::judge(subject);
    judge_encryption(subject, held.encryption);
    if is_of_system {
        leftover::judge_largest(subject);
    } else {
        leftover::judge(subject, held);
    }
    if file_type.is_none() {
        // Nothing can be said of its content. Pass 2 reports which names it has.
        known = known.bad();
        let problem = subject.problem(Code::NoFileType);
        facts.report(problem.found(inode.mode));
    } else if !special::judge(subject, first_blocks, held) {
        known = known.bad();
    }
    facts.inodes.set(ino, judge_place(subject, known));
    let is_directory = file_type == Some(FileType::Directory) && !is_orphan;
    if let Some((_, group)) = facts.group_of(ino).filter(|_| is_directory) {
        group.directories.fetch_add(1, Ordering::Relaxed);
    }
    if !is_orphan {
        quota::count(facts, ino, inode, held);
    }
    judge_map(subject, held.blocks, roots);
}

/// The checksum of an inode in use.
pub(super) fn judge_seal(subject: Subject<'_>) {
    let Subject { facts, ino, inode, raw } = subject;
    let superblock = facts.volume.superblock();
    if Inode::verify_checksum(raw, ino, superblock).is_ok() {
        return;
    }
    // Of others than files and directories e2fsck must read the type from the inode, and does not
    // go on.
    let is_known = match ino {
        Ino::RESIZE => !superblock.has(Feature::RESIZE_INODE),
        Ino::BAD_BLOCKS => false,
        _ if ino.0 < superblock.first_inode => true,
        _ => matches!(inode.file_type(), Some(FileType::Regular | FileType::Directory)),
    };
    let code = if is_known { Code::InodeChecksum } else { Code::InodeChecksumUnread };
    subject.report(code);
}

/// The time of deletion of an inode in use.
pub(super) fn judge_deletion(subject: Subject<'_>) {
    let Subject { facts, ino, inode, .. } = subject;
    if facts.is_of_system(ino) {
        leftover::judge_time(facts, ino, inode.deletion_time);
    } else if inode.links != 0
        && inode.deletion_time != 0
        && !facts.orphans.truncated.contains(&ino)
    {
        let problem = subject.problem(Code::UsedButDeleted);
        facts.report(problem.found(inode.deletion_time));
    }
}

/// What the superblock says of an inode, by its number.
fn judge_place(subject: Subject<'_>, mut known: InodeFacts) -> InodeFacts {
    if subject.facts.is_system_file(subject.ino) {
        known = known.reserved();
        if leftover::is_needless(subject) {
            subject.report(Code::ReservedInUse);
        }
    }
    match subject.facts.is_nameless(subject.ino) {
        true => known.nameless(),
        false => known,
    }
}

/// What is encrypted says how, in an attribute.
fn judge_encryption(subject: Subject<'_>, encryption: Encryption) {
    let has_feature = subject.facts.volume.superblock().has(Feature::ENCRYPT);
    if !subject.has_flag(flags::ENCRYPTED) {
        return;
    }
    match encryption {
        Encryption::Policy(policy) => subject.facts.attributes.add_policy(subject.ino, policy),
        // That the feature is not there is reported.
        _ if !has_feature => {}
        Encryption::None => subject.report(Code::EncryptionMissing),
        Encryption::Corrupt => subject.report(Code::EncryptionContext),
    }
}

/// The size of the fixed fields after the first 128 bytes.
fn judge_extra_size(subject: Subject<'_>) {
    let stored = subject.stored();
    if !stored.is_extra_size_possible() {
        let problem = subject.problem(Code::ExtraSize);
        subject.facts.report(problem.found(stored.extra_size()));
    }
}

/// Whether an inode is the one that the journal is in.
fn is_journal(superblock: &Superblock, ino: Ino) -> bool {
    superblock.has(Feature::HAS_JOURNAL) && ino.0 == superblock.journal_inode
}

/// Inodes below the first one for users: the journal, the list of bad blocks, quotas.
fn judge_reserved(subject: Subject<'_>, known: InodeFacts, roots: &mut Roots<'_>) {
    let Subject { facts, ino, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    facts.inodes.set(ino, known.reserved());
    leftover::judge_system_flags(subject);
    // Attributes in the inode itself are not judged.
    let held = attributes::judge(Subject { raw: &[], ..subject });
    leftover::judge_largest(subject);
    if ino == Ino::RESIZE && resize::is_used(superblock) {
        // Its map is judged apart, when all else is known.
        if inode.file_type() != Some(FileType::Regular) {
            let problem = subject.problem(Code::ReservedMode);
            facts.report(problem.found(inode.mode));
        }
        return;
    }
    if !leftover::has_feature(facts, ino) {
        subject.report(Code::ReservedInUse);
    }
    if ino == Ino::BAD_BLOCKS {
        // A list of bad blocks has no link.
        subject.report(Code::BadBlocksInode);
    }
    let kind = match inode.file_type() {
        _ if ino == Ino::BAD_BLOCKS => MapKind::BadBlocks,
        Some(FileType::Regular) if !leftover::NEVER_USED.contains(&ino) => MapKind::Regular,
        None if inode.mode == 0 && !is_journal(superblock, ino) => MapKind::Regular,
        _ => {
            let problem = subject.problem(Code::ReservedMode);
            facts.report(problem.found(inode.mode));
            if inode.file_type() == Some(FileType::Directory) && ino > Ino::RESERVED_LAST {
                subject.report(Code::ReservedDirectory);
            }
            return;
        }
    };
    roots.add(Mapped::new(ino, kind, inode, held.blocks), inode);
}

/// Flags that exclude each other, or that the volume has no feature for.
fn judge_flags(subject: Subject<'_>, mut known: InodeFacts) -> InodeFacts {
    let superblock = subject.facts.volume.superblock();
    let report = |code| subject.report(code);
    let file_type = subject.file_type();
    let is_directory = file_type == Some(FileType::Directory);
    let has = |flag| subject.has_flag(flag);
    if has(flags::EXTENTS) && !superblock.has(Feature::EXTENTS) {
        report(Code::ExtentsWithoutFeature);
    }
    if has(flags::INLINE_DATA) && !superblock.has(Feature::INLINE_DATA) {
        report(Code::InlineWithoutFeature);
    }
    if has(flags::INLINE_DATA) && has(flags::EXTENTS) {
        report(Code::InlineWithExtents);
    }
    // In its inode a directory has no room for one.
    let may_have = superblock.has(Feature::DIR_INDEX) && !is_inline(subject.facts, subject.inode);
    if has(flags::INDEX) && is_directory && !may_have
        || has(flags::INDEX) && !is_directory && file_type.is_some()
    {
        report(Code::IndexFlag);
    }
    if has(flags::ENCRYPTED) && !superblock.has(Feature::ENCRYPT) {
        report(Code::EncryptedWithoutFeature);
    }
    if has(flags::INDEX) && is_directory {
        known = known.indexed();
    }
    if has(flags::ENCRYPTED) {
        known = known.encrypted();
    }
    if has(flags::CASEFOLDED) && is_directory {
        known = known.casefolded();
    }
    if subject.is_value() {
        known = known.attribute_inode();
    }
    known
}

/// What an inode maps: what the inode itself maps is claimed now, what map blocks map when they are
/// read.
fn judge_map(subject: Subject<'_>, held_blocks: u64, roots: &mut Roots<'_>) {
    let Subject { facts, ino, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    let kind = MapKind::of(inode.file_type());
    if kind == Some(MapKind::Regular)
        && inode.size > SMALL_FILE_MAX
        && !superblock.has(Feature::LARGE_FILE)
    {
        facts.report(subject.problem(Code::LargeFile).found(inode.size));
    }
    if is_inline(facts, inode) {
        if kind == Some(MapKind::Directory) {
            facts.directories.add_inline(ino);
        }
        if kind == Some(MapKind::Symlink) {
            // Their blocks are not counted.
            return;
        }
        return judge_sectors(subject, held_blocks);
    }
    match kind.filter(|_| !is_fast_symlink(inode)) {
        Some(kind) => {
            judge_translator(subject);
            if kind == MapKind::Regular && !inode.has_extents() {
                judge_size(subject);
            }
            roots.add(Mapped::new(ino, kind, inode, held_blocks), inode);
        }
        None => judge_sectors(subject, held_blocks),
    }
}

/// The block that the Hurd keeps a translator in. The file does not count it.
fn judge_translator(subject: Subject<'_>) {
    let Subject { facts, ino, inode, .. } = subject;
    let superblock = facts.volume.superblock();
    let block = inode.translator(superblock);
    if block.0 == 0 {
        return;
    }
    let first = u64::from(superblock.first_data_block).max(1);
    match block.0 >= first && facts.volume.holds(block) {
        true => facts.attributes.add_translator(Sharer { block, ino }),
        false => facts.report(subject.problem(Code::TranslatorOutside).block(block)),
    }
}

/// The largest file that indirect blocks map.
fn judge_size(subject: Subject<'_>) {
    let Subject { facts, inode, .. } = subject;
    let log2 = facts.volume.superblock().block_size_log2;
    let most = extant_format::indirect::capacity(log2).saturating_mul(1 << log2);
    if inode.size > most {
        let problem = subject.problem(Code::FileTooLarge);
        facts.report(problem.found(inode.size).expected(most));
    }
}

/// The sectors of an inode that has no map.
fn judge_sectors(subject: Subject<'_>, held_blocks: u64) {
    let Subject { facts, inode, .. } = subject;
    let sectors_per_block = u64::from(facts.volume.superblock().block_size()) / SECTOR_BYTES;
    let expected = held_blocks * sectors_per_block;
    if inode.file_type().is_some() && inode.sectors != expected {
        let problem = subject.problem(Code::SectorCount);
        facts.report(problem.found(inode.sectors).expected(expected));
    }
}
