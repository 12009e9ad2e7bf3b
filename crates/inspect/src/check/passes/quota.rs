//! Quota files against what users, groups and projects have: pass 1 adds up what they have, pass 5
//! reads the files and compares.
//!
//! *Invariants*: a block of a file's tree is followed once on each level, so that the work is
//! bounded by the size of the file. Nothing is added on a volume without quotas.
//! *Locking*: none here; the sums have their own.
use crate::check::codes::Code;
use crate::check::facts::{Facts, HeldByAttributes, QuotaSum, QuotaSums};
use crate::check::problem::Problem;
use crate::error::Error;
use crate::map::written_at;
use crate::volume::Volume;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::quota_file::{self, BLOCK_BYTES, ROOT_BLOCK, STEPS};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino, SECTOR_BYTES};
use std::collections::BTreeSet;

/// Blocks of a quota file that are read, at most.
const BLOCKS_MAX: usize = 1 << 16;

/// Adds an inode in use, with the inodes of its large values. Each owner of a shared value counts
/// it in full, and the inode of the value itself counts for its owner only by that.
pub(crate) fn count(facts: &Facts, ino: Ino, inode: &Inode, held: HeldByAttributes) {
    let superblock = facts.volume.superblock();
    let is_of_user = ino == Ino::ROOT || ino.0 >= superblock.first_inode;
    let is_value = inode.flags & flags::EA_INODE != 0;
    // e2fsck does not count symlinks whose target is in the inode, and writes its sums into the
    // file.
    let is_inline = inode.flags & flags::INLINE_DATA != 0 && superblock.has(Feature::INLINE_DATA);
    let is_skipped = is_value || is_inline && inode.file_type() == Some(FileType::Symlink);
    if !superblock.has(Feature::QUOTA)
        || !is_of_user
        || is_skipped
        || is_uncounted_system_file(&facts.volume, ino)
    {
        return;
    }
    let bytes = inode.sectors.saturating_mul(SECTOR_BYTES);
    let added = QuotaSum { bytes, inodes: 1 + held.value_inodes };
    facts.usage.add([inode.uid, inode.gid, inode.project], added);
}

/// Whether an inode is a quota file: in use whatever its links say.
pub(crate) fn is_file(volume: &Volume, ino: Ino) -> bool {
    volume.superblock().has(Feature::QUOTA) && volume.stored().quota_inodes().contains(&ino)
}

/// Whether a file belongs to the system although its number does not say so.
fn is_uncounted_system_file(volume: &Volume, ino: Ino) -> bool {
    let superblock = volume.superblock();
    let is_orphan_file =
        superblock.has(Feature::ORPHAN_FILE) && ino.0 == superblock.orphan_file_inode;
    let [_, _, projects] = volume.stored().quota_inodes();
    is_orphan_file || ino == projects
}

/// Compares each quota file with the sums.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(facts: &Facts) -> Result<(), Error> {
    if !facts.volume.superblock().has(Feature::QUOTA) {
        return Ok(());
    }
    for (ino, sums) in facts.volume.stored().quota_inodes().into_iter().zip(facts.usage.sums()) {
        if ino.0 == 0 {
            continue;
        }
        let stored = match read(&facts.volume, ino) {
            Err(Error::Device(error)) => return Err(error.into()),
            Err(_) => None,
            Ok(stored) => stored,
        };
        let Some(stored) = stored else {
            facts.report(Problem::new(Code::QuotaFile).ino(ino));
            continue;
        };
        let Stored { sums: stored, has_loop } = stored;
        let ids: BTreeSet<u32> = stored.keys().chain(sums.keys()).copied().collect();
        let of = |sums: &QuotaSums, id: &u32| sums.get(id).copied().unwrap_or_default();
        let wrong = ids.iter().filter(|id| of(&stored, id) != of(&sums, id)).count();
        if wrong > 0 || has_loop {
            facts.report(Problem::new(Code::QuotaUsage).ino(ino).found(wrong as u64));
        }
    }
    Ok(())
}

/// What a quota file says.
#[derive(Default)]
struct Stored {
    sums: QuotaSums,
    /// A way leads back to the root, and on to what would be entries. To nothing it is harmless.
    has_loop: bool,
}

/// How a block of the tree was come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Straight,
    /// Through the root once more: its steps are fewer than they should be.
    ByTheRoot,
}

/// All entries of a quota file; `None` when its head or its tree cannot be.
fn read(volume: &Volume, ino: Ino) -> Result<Option<Stored>, Error> {
    let inode = volume.inode(ino)?;
    let head = file_block(volume, &inode, 0)?;
    let Some(blocks) = head.and_then(|head| quota_file::blocks(&head, inode.size)) else {
        return Ok(None);
    };
    let mut found = Stored::default();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(ROOT_BLOCK, STEPS, Way::Straight)];
    while let Some((block, steps, way)) = pending.pop() {
        if seen.len() >= BLOCKS_MAX || !seen.insert((block, steps, way)) {
            continue;
        }
        let Some(bytes) = file_block(volume, &inode, block)? else {
            continue;
        };
        if steps > 0 {
            if quota_file::children(&bytes).any(|child| child >= blocks) {
                return Ok(None);
            }
            pending.extend(quota_file::children(&bytes).map(|child| (child, steps - 1, way)));
            if quota_file::has_loop(&bytes) {
                pending.push((ROOT_BLOCK, steps - 1, Way::ByTheRoot));
            }
            continue;
        }
        if way == Way::ByTheRoot {
            found.has_loop |= quota_file::entries(&bytes).next().is_some();
            continue;
        }
        for entry in quota_file::entries(&bytes) {
            let sum = QuotaSum { bytes: entry.bytes, inodes: entry.inodes };
            if found.sums.insert(entry.id, sum).is_some() {
                // Each has one entry, which one way leads to.
                return Ok(None);
            }
        }
    }
    Ok(Some(found))
}

/// A block of a quota file; `None` where nothing was written.
fn file_block(volume: &Volume, inode: &Inode, block: u32) -> Result<Option<Vec<u8>>, Error> {
    let block_size = u64::from(volume.superblock().block_size());
    let at = u64::from(block) * BLOCK_BYTES;
    let Ok(number) = u32::try_from(at / block_size) else {
        return Ok(None);
    };
    let Some(place) =
        written_at(volume, inode, FileBlock(number))?.filter(|place| volume.holds(*place))
    else {
        return Ok(None);
    };
    let bytes = volume.block("quota", place)?;
    let from = usize::try_from(at % block_size).unwrap_or(0);
    Ok(bytes.get(from..from + BLOCK_BYTES as usize).map(<[u8]>::to_vec))
}
