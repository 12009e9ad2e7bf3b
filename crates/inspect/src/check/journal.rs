//! Pass 0: the journal: its inode, its superblock, and whether it has to be replayed first.
use super::codes::Code;
use super::problem::{Problem, Sink};
use super::superblock::JOURNAL_DEVICE;
use super::words::u32_at;
use crate::error::Error;
use crate::map::{Claimed, Visit, block_at, walk};
use crate::volume::Volume;
use extant_format::checksum::crc32c;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::ops::ControlFlow;

const MAGIC: u32 = 0xc03b_3998;
const VERSION_1: u32 = 3;
const VERSION_2: u32 = 4;
/// The largest size that e2fsck compares with the map: it takes it as a signed number of 32 bits.
const LARGEST_COMPARED: u64 = 0x7fff_ffff;
/// The shortest journal.
const BLOCKS_MIN: u64 = 1024;
/// Features of a journal that are known: revoke, 64bit, async commit, checksums 2 and 3, fast
/// commit.
const INCOMPAT: u32 = 0x3f;
/// Those of checksums 2 and 3.
const CHECKSUMS: u32 = 0x18;

/// Judges the journal.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    let tell = |code| problems.add(Problem::new(code));
    if superblock.has(JOURNAL_DEVICE) {
        tell(Code::IsJournalDevice);
        return Ok(());
    }
    if !superblock.has(Feature::HAS_JOURNAL) {
        if superblock.has(Feature::NEEDS_RECOVERY) {
            tell(Code::RecoveryWithoutJournal);
        }
        return judge_unannounced(volume, problems);
    }
    if superblock.journal_inode == 0 {
        tell(if superblock.journal_device() == 0 {
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
        tell(Code::NeedsRecovery);
    }
    let Some(inode) = journal_inode(volume, ino)? else {
        problems.add(Problem::new(Code::JournalInode).ino(ino));
        return Ok(());
    };
    let head = match block_at(volume, &inode, FileBlock(0))? {
        Some(block) if volume.holds(block) => volume.block("journal", block)?,
        _ => {
            problems.add(Problem::new(Code::JournalInode).ino(ino));
            return Ok(());
        }
    };
    if let Some(code) = judge_superblock(volume, &inode, &head) {
        problems.add(Problem::new(code).ino(ino));
    }
    if u32_at_big(&head, 0x20) != 0 {
        problems.add(Problem::new(Code::JournalError).ino(ino).found(u32_at_big(&head, 0x20)));
    }
    Ok(())
}

/// A journal that the superblock names without the feature.
fn judge_unannounced(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    let ino = Ino(superblock.journal_inode);
    if ino.0 != 0 {
        problems.add(match journal_inode(volume, ino)? {
            Some(_) => Problem::new(Code::JournalWithoutFeature),
            None => Problem::new(Code::JournalInode).ino(ino),
        });
    } else if superblock.journal_uuid() != [0; 16] {
        problems.add(Problem::new(Code::ExternalJournal));
    }
    Ok(())
}

/// The inode of the journal or, when that is no journal, its copy in the superblock. `None` when
/// there is neither, and for a copy of an extent tree: the copy has no flags, so nobody else reads
/// it as one.
fn journal_inode(volume: &Volume, ino: Ino) -> Result<Option<Inode>, Error> {
    let inode = match volume.inode(ino) {
        Ok(inode) => Some(inode),
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => None,
    };
    if let Some(inode) = inode
        && is_journal(volume, &inode)
        && is_mapped_whole(volume, &inode)?
    {
        return Ok(Some(inode));
    }
    let superblock = volume.superblock();
    if superblock.journal_backup_type != 1 {
        return Ok(None);
    }
    let mut inode = Inode::new(FileType::Regular.mode_bits() | 0o600, superblock);
    for (to, word) in inode.block.chunks_exact_mut(4).zip(superblock.journal_backup) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    inode.links = 1;
    if u32_at(&inode.block, 0) & 0xffff == 0xf30a {
        return Ok(None);
    }
    inode.size =
        u64::from(superblock.journal_backup[15]) << 32 | u64::from(superblock.journal_backup[16]);
    Ok(Some(inode).filter(|inode| is_journal(volume, inode)))
}

/// Whether it is a file that is long enough, with all blocks there that are in the inode itself.
fn is_journal(volume: &Volume, inode: &Inode) -> bool {
    let blocks = inode.size / u64::from(volume.superblock().block_size());
    let is_file =
        inode.file_type() == Some(FileType::Regular) && inode.links > 0 && blocks >= BLOCKS_MIN;
    let end = volume.superblock().blocks_count;
    let mapped = inode.has_extents()
        || (0..13).all(|index| {
            let block = u64::from(extant_format::indirect::pointer(&inode.block, index));
            block != 0 && block < end
        });
    is_file && mapped
}

/// Whether the map reaches the end of the file.
fn is_mapped_whole(volume: &Volume, inode: &Inode) -> Result<bool, Error> {
    let mut end = 0;
    walk(volume, inode, &mut Claimed::default(), &mut |visit| {
        if let Visit::Run { file_block, run, .. } = visit {
            end = end.max(file_block.saturating_add(run.length.into()));
        }
        ControlFlow::Continue(())
    })?;
    let bytes = end.saturating_mul(volume.superblock().block_size().into());
    Ok(bytes >= inode.size || inode.size > LARGEST_COMPARED)
}

/// What is wrong with the journal's superblock.
fn judge_superblock(volume: &Volume, inode: &Inode, head: &[u8]) -> Option<Code> {
    let word = |at| u32_at_big(head, at);
    let block_size = volume.superblock().block_size();
    let kind = word(4);
    if word(0) != MAGIC || !(kind == VERSION_1 || kind == VERSION_2) || word(12) != block_size {
        return Some(Code::JournalSuperblock);
    }
    let file_blocks = inode.size / u64::from(block_size);
    if u64::from(word(16)) > file_blocks {
        return Some(Code::JournalSuperblock);
    }
    if kind == VERSION_1 {
        let is_clear = head.get(0x24..0x400).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
        return (!is_clear).then_some(Code::JournalLeftovers);
    }
    if word(0x28) & !INCOMPAT != 0 || word(0x2c) != 0 {
        return Some(Code::JournalFeatures);
    }
    if word(0x40) > 1 {
        return Some(Code::JournalFields);
    }
    if word(0x28) & CHECKSUMS != 0 {
        let mut bytes = head.get(..1024)?.to_vec();
        bytes.get_mut(0xfc..0x100)?.fill(0);
        if crc32c(!0, &bytes) != word(0xfc) {
            return Some(Code::JournalChecksum);
        }
    }
    None
}

/// A journal is big-endian.
fn u32_at_big(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at).swap_bytes()
}
