//! Pass 5: quota files against what users, groups and projects have.
//!
//! ```text
//! block 0: magic, version     block 1: root --4 steps, one a byte of the id--> block of entries (72 bytes each)
//! ```
//!
//! *Invariants*: a block of the tree is followed once, so that the work is bounded by the size of
//! the file.
//! *Locking*: the sums have one short lock, held for an addition; nothing is added on a volume
//! without quotas.
use super::attributes::Held;
use super::codes::Code;
use super::problem::Problem;
use super::state::State;
use super::superblock::{INLINE_DATA, QUOTA};
use super::words::u32_at;
use crate::error::Error;
use crate::fields;
use crate::map::block_at;
use crate::volume::Volume;
use extant_block::ShortLock;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a block of a quota file, whatever the volume's are.
const BLOCK: u64 = 1024;
const ENTRY: usize = 72;
const HEAD: usize = 16;
/// The block of the root, after that of the head.
const ROOT_BLOCK: u32 = 1;
/// The version of the format.
const VERSION: u32 = 1;
/// Steps from the root to the entries.
const STEPS: u32 = 4;
/// Blocks of a quota file that are read, at most.
const BLOCKS_MAX: usize = 1 << 16;

/// What somebody uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Use {
    bytes: u64,
    inodes: u64,
}

/// Sums by id, for users, groups and projects.
#[derive(Default)]
pub(crate) struct Usage(ShortLock<[BTreeMap<u32, Use>; 3]>);

impl Usage {
    /// Adds an inode in use, with the inodes of its large values. Each owner of a shared value
    /// counts it in full, and the inode of the value itself counts for its owner only by that.
    pub(crate) fn add(&self, state: &State, ino: Ino, inode: &Inode, held: Held) {
        let superblock = state.volume.superblock();
        let is_of_user = ino == Ino::ROOT || ino.0 >= superblock.first_inode;
        let is_value = inode.flags & flags::EA_INODE != 0;
        // e2fsck does not count symlinks whose target is in the inode, and writes its sums into the
        // file.
        let is_inline = inode.flags & flags::INLINE_DATA != 0 && superblock.has(INLINE_DATA);
        let is_skipped = is_value || is_inline && inode.file_type() == Some(FileType::Symlink);
        if !superblock.has(QUOTA)
            || !is_of_user
            || is_skipped
            || is_uncounted_system_file(state, ino)
        {
            return;
        }
        let mut sums = self.0.lock();
        for (sums, id) in sums.iter_mut().zip([inode.uid, inode.gid, inode.project]) {
            let sum = sums.entry(id).or_default();
            sum.bytes = sum.bytes.saturating_add(inode.sectors.saturating_mul(512));
            sum.inodes += 1 + held.value_inodes;
        }
    }
}

/// Whether an inode is a quota file: in use whatever its links say.
pub(crate) fn is_file(volume: &Volume, ino: Ino) -> bool {
    let fields = [fields::USER_QUOTA_INODE, fields::GROUP_QUOTA_INODE, fields::PROJECT_QUOTA_INODE];
    volume.superblock().has(QUOTA)
        && fields.into_iter().any(|field| volume.fields().u32(field) == ino.0)
}

/// Whether a file belongs to the system although its number does not say so.
fn is_uncounted_system_file(state: &State, ino: Ino) -> bool {
    let superblock = state.volume.superblock();
    let is_orphan_file =
        superblock.has(Feature::ORPHAN_FILE) && ino.0 == superblock.orphan_file_inode;
    is_orphan_file || ino.0 == state.volume.fields().u32(fields::PROJECT_QUOTA_INODE)
}

/// Compares each quota file with the sums.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(state: &State) -> Result<(), Error> {
    if !state.volume.superblock().has(QUOTA) {
        return Ok(());
    }
    let sums = std::mem::take(&mut *state.usage.0.lock());
    let files = [fields::USER_QUOTA_INODE, fields::GROUP_QUOTA_INODE, fields::PROJECT_QUOTA_INODE];
    for (field, sums) in files.into_iter().zip(sums) {
        let ino = Ino(state.volume.fields().u32(field));
        if ino.0 == 0 {
            continue;
        }
        let stored = match read(state, ino) {
            Err(Error::Device(error)) => return Err(error.into()),
            Err(_) => None,
            Ok(stored) => stored,
        };
        let Some(stored) = stored else {
            state.tell(Problem::new(Code::QuotaFile).ino(ino));
            continue;
        };
        let ids: BTreeSet<u32> = stored.keys().chain(sums.keys()).copied().collect();
        let of = |map: &BTreeMap<u32, Use>, id: &u32| map.get(id).copied().unwrap_or_default();
        let wrong = ids.iter().filter(|id| of(&stored, id) != of(&sums, id)).count();
        if wrong > 0 {
            state.tell(Problem::new(Code::QuotaUsage).ino(ino).found(wrong as u64));
        }
    }
    Ok(())
}

/// All entries of a quota file; `None` when its head or its tree cannot be.
fn read(state: &State, ino: Ino) -> Result<Option<BTreeMap<u32, Use>>, Error> {
    let inode = state.volume.inode(ino)?;
    let Some(blocks) = blocks_of(state, &inode)? else {
        return Ok(None);
    };
    let mut entries = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(ROOT_BLOCK, STEPS)];
    while let Some((block, steps)) = pending.pop() {
        if seen.len() >= BLOCKS_MAX || !seen.insert(block) {
            continue;
        }
        let Some(bytes) = file_block(state, &inode, block)? else {
            continue;
        };
        if steps > 0 {
            let (words, _) = bytes.as_chunks::<4>();
            let children = words.iter().map(|word| u32::from_le_bytes(*word));
            let children: Vec<u32> = children.filter(|child| *child > ROOT_BLOCK).collect();
            if children.iter().any(|child| *child >= blocks) {
                return Ok(None);
            }
            let children = children.into_iter();
            pending.extend(children.map(|child| (child, steps - 1)));
            continue;
        }
        for entry in bytes.get(HEAD..).unwrap_or_default().chunks_exact(ENTRY) {
            let word =
                |at: usize| u64::from(u32_at(entry, at)) | u64::from(u32_at(entry, at + 4)) << 32;
            let used = Use { inodes: word(24), bytes: word(48) };
            if entry.iter().any(|byte| *byte != 0) {
                entries.insert(u32_at(entry, 0), used);
            }
        }
    }
    Ok(Some(entries))
}

/// The blocks of a quota file by its head; `None` for a head that cannot be.
fn blocks_of(state: &State, inode: &Inode) -> Result<Option<u32>, Error> {
    let Some(head) = file_block(state, inode, 0)? else {
        return Ok(None);
    };
    let (blocks, free, free_entries) = (u32_at(&head, 20), u32_at(&head, 24), u32_at(&head, 28));
    let is_possible = u32_at(&head, 4) == VERSION
        && u64::from(blocks) <= inode.size.div_ceil(BLOCK)
        && free < blocks
        && free_entries < blocks;
    Ok(is_possible.then_some(blocks))
}

/// A block of 1 KiB of a quota file; `None` where nothing is mapped.
fn file_block(state: &State, inode: &Inode, block: u32) -> Result<Option<Vec<u8>>, Error> {
    let block_size = u64::from(state.volume.superblock().block_size());
    let at = u64::from(block) * BLOCK;
    let Ok(number) = u32::try_from(at / block_size) else {
        return Ok(None);
    };
    let Some(place) = block_at(&state.volume, inode, FileBlock(number))?
        .filter(|place| state.volume.holds(*place))
    else {
        return Ok(None);
    };
    let bytes = state.volume.block("quota", place)?;
    let from = usize::try_from(at % block_size).unwrap_or(0);
    Ok(bytes.get(from..from + BLOCK as usize).map(<[u8]>::to_vec))
}
