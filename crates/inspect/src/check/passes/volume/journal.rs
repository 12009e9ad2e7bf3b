//! Pass 0: the journal: its inode, its superblock, and whether it has to be replayed first.
use crate::check::codes::Code;
use crate::check::problem::Problem;
use crate::check::sink::Sink;
use crate::error::Error;
use crate::map::{Claimed, Visit, block_at, walk};
use crate::volume::Volume;
use extant_format::extent;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::journal::{self, BLOCKS_MIN, StoredJournal};
use extant_format::superblock::{Feature, JOURNAL_BACKUP_BLOCKS};
use extant_format::{FileBlock, Ino, indirect};
use std::ops::ControlFlow;

/// Pointers of the inode that a journal must have: the direct ones, and the first tree's.
const DIRECT_AND_SINGLE: usize = indirect::DIRECT as usize + 1;
/// The largest size that e2fsck compares with the map: it takes it as a signed number of 32 bits.
const LARGEST_COMPARED: u64 = 0x7fff_ffff;

/// Judges the journal.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    let report = |code| problems.add(Problem::new(code));
    if superblock.has(Feature::JOURNAL_DEV) {
        report(Code::IsJournalDevice);
        return Ok(());
    }
    if !superblock.has(Feature::HAS_JOURNAL) {
        if superblock.has(Feature::NEEDS_RECOVERY) {
            report(Code::RecoveryWithoutJournal);
        }
        return judge_unannounced(volume, problems);
    }
    if superblock.journal_inode == 0 && volume.has_journal_behind() {
        // Who put it there has judged it.
        if superblock.has(Feature::NEEDS_RECOVERY) {
            report(Code::NeedsRecovery);
        }
        return Ok(());
    }
    if superblock.journal_inode == 0 {
        report(if superblock.journal_device() == 0 {
            Code::JournalMissing
        } else {
            Code::ExternalJournal
        });
        return Ok(());
    }
    let ino = Ino(superblock.journal_inode);
    if superblock.journal_uuid() != [0; 16] {
        problems.add(Problem::new(Code::TwoJournals).ino(ino));
    }
    if superblock.has(Feature::NEEDS_RECOVERY) {
        report(Code::NeedsRecovery);
    }
    let (inode, own) = journal_inode(volume, ino)?;
    let Some(inode) = inode else {
        problems.add(Problem::new(Code::JournalInode).ino(ino));
        return Ok(());
    };
    if inode.flags & flags::ENCRYPTED != 0 {
        // It is read without a key.
        problems.add(Problem::new(Code::JournalInode).ino(ino));
        return Ok(());
    }
    if own == Own::Other && ino != Ino::JOURNAL {
        // The journal is there, by its copy, and its number leads to another file.
        problems.add(Problem::new(Code::JournalInode).ino(ino));
    }
    if own == Own::NeverUsed {
        problems.add(Problem::new(Code::ReservedMode).ino(ino).found(0_u64));
    }
    let head = match block_at(volume, &inode, FileBlock(0))? {
        Some(block) if volume.holds(block) => volume.block("journal", block)?,
        _ => {
            problems.add(Problem::new(Code::JournalInode).ino(ino));
            return Ok(());
        }
    };
    // A block has at least the bytes of a journal's superblock.
    let Some(journal) = StoredJournal::new(&head) else { return Ok(()) };
    if let Some(code) = judge_superblock(volume, &inode, journal) {
        problems.add(Problem::new(code).ino(ino));
    }
    if journal.error() != 0 {
        let error = journal.error().cast_unsigned();
        problems.add(Problem::new(Code::JournalError).ino(ino).found(error));
    }
    Ok(())
}

/// A journal that the superblock names without the feature.
fn judge_unannounced(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    let ino = Ino(superblock.journal_inode);
    if ino.0 != 0 {
        problems.add(match journal_inode(volume, ino)?.0 {
            Some(_) => Problem::new(Code::JournalWithoutFeature),
            None => Problem::new(Code::JournalInode).ino(ino),
        });
    } else if superblock.journal_uuid() != [0; 16] {
        problems.add(Problem::new(Code::ExternalJournal));
    }
    Ok(())
}

/// What the inode of the journal is by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Journal,
    /// It is in use, and no journal.
    Other,
    /// It would be given to somebody else.
    NeverUsed,
}

/// The inode of the journal or, when that is no journal, its copy in the superblock; and what the
/// inode is. `None` when there is neither, and for a copy of an extent tree: the copy has no flags,
/// so no other program reads it as one.
fn journal_inode(volume: &Volume, ino: Ino) -> Result<(Option<Inode>, Own), Error> {
    let inode = match volume.inode(ino) {
        Ok(inode) => Some(inode),
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => None,
    };
    let own = match &inode {
        Some(own) if own.mode == 0 && own.links == 0 => Own::NeverUsed,
        _ => Own::Other,
    };
    if let Some(inode) = inode
        && is_journal(volume, &inode)
        && is_mapped_whole(volume, &inode)?
    {
        return Ok((Some(inode), Own::Journal));
    }
    Ok((copied_inode(volume)?, own))
}

/// The copy of the journal's inode in the superblock, if it is one.
fn copied_inode(volume: &Volume) -> Result<Option<Inode>, Error> {
    let superblock = volume.superblock();
    if superblock.journal_backup_type != JOURNAL_BACKUP_BLOCKS {
        return Ok(None);
    }
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, superblock);
    for (index, pointer) in (0..indirect::ROOTS).zip(superblock.journal_backup) {
        indirect::set_pointer(&mut inode.block, index, pointer);
    }
    inode.links = 1;
    if inode.block.starts_with(&extent::MAGIC.to_le_bytes()) {
        return Ok(None);
    }
    let [.., size_high, size_low] = superblock.journal_backup;
    inode.size = u64::from(size_high) << 32 | u64::from(size_low);
    let is_whole = is_journal(volume, &inode) && is_mapped_whole(volume, &inode)?;
    Ok(is_whole.then_some(inode))
}

/// Whether it is a file that is long enough, with all blocks there that are in the inode itself.
fn is_journal(volume: &Volume, inode: &Inode) -> bool {
    let blocks = inode.size / u64::from(volume.superblock().block_size());
    let is_file =
        inode.file_type() == Some(FileType::Regular) && inode.links > 0 && blocks >= BLOCKS_MIN;
    let end = volume.superblock().blocks_count;
    let mapped = inode.has_extents()
        || indirect::pointers(&inode.block)
            .take(DIRECT_AND_SINGLE)
            .all(|block| block != 0 && u64::from(block) < end);
    is_file && mapped
}

/// Whether the map reaches the end of the file, with nothing missing before it.
fn is_mapped_whole(volume: &Volume, inode: &Inode) -> Result<bool, Error> {
    let (mut end, mut blocks) = (0_u64, 0_u64);
    walk(volume, inode, &mut Claimed::default(), &mut |visit| {
        if let Visit::Run { file_block, run, .. } = visit {
            end = end.max(file_block.saturating_add(run.length.into()));
            blocks = blocks.saturating_add(run.length.into());
        }
        ControlFlow::Continue(())
    })?;
    let bytes = end.min(blocks).saturating_mul(volume.superblock().block_size().into());
    Ok(bytes >= inode.size || inode.size > LARGEST_COMPARED)
}

/// What is wrong with the journal's superblock.
fn judge_superblock(volume: &Volume, inode: &Inode, journal: StoredJournal<'_>) -> Option<Code> {
    let block_size = volume.superblock().block_size();
    let is_first_version = journal.block_type() == journal::SUPERBLOCK_V1;
    if journal.magic() != journal::MAGIC
        || !(is_first_version || journal.block_type() == journal::SUPERBLOCK_V2)
        || journal.block_size() != block_size
    {
        return Some(Code::JournalSuperblock);
    }
    let file_blocks = inode.size / u64::from(block_size);
    if u64::from(journal.blocks()) > file_blocks {
        return Some(Code::JournalSuperblock);
    }
    if is_first_version {
        let is_clear = journal.is_clear_after_version_1();
        return (!is_clear).then_some(Code::JournalLeftovers);
    }
    if journal.incompat() & !journal::incompat::KNOWN != 0 || journal.ro_compat() != 0 {
        return Some(Code::JournalFeatures);
    }
    if journal.users() > 1 {
        return Some(Code::JournalFields);
    }
    if journal.incompat() & journal::incompat::FAST_COMMIT != 0 {
        // As e2fsck computes it, in 32 bits: what is left for commits must be a journal.
        let left = journal.blocks().wrapping_sub(journal.fast_commit_blocks_or_usual());
        if u64::from(left) < BLOCKS_MIN {
            return Some(Code::JournalSuperblock);
        }
    }
    let is_wrong = journal.has_checksums() && journal.computed_checksum() != journal.checksum();
    is_wrong.then_some(Code::JournalChecksum)
}
