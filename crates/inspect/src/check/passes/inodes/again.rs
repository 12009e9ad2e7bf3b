//! Pass 1 after a repair, where inodes differ from what the check before read in links and times
//! alone: nothing that they map, hold or are has changed.
//!
//! *Invariants*: facts are changed only where the answer is that they are those of a whole pass.
//! *Locking*: none here; one thread runs.
use super::judge::{judge_deletion, judge_seal, judge_unused};
use super::subject::Subject;
use super::{State, state};
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::maps::Roots;
use crate::error::Error;
use extant_format::inode::{BASE_SIZE, Inode, StoredInode, flags};
use extant_format::{BlockNo, Ino};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is judged of an inode whatever its map is, and is judged again here.
pub(crate) const JUDGED: [Code; 4] = [
    Code::InodeChecksum,
    Code::InodeChecksumUnread,
    Code::UsedButDeleted,
    Code::DeletedWithoutTime,
];

/// The bytes of an inode that may differ: times of access, change, modification and deletion;
/// links; the low half of the checksum.
const FREE: [Range<usize>; 3] = [8..24, 26..28, 124..126];
/// Those of the extra fields, where they reach that far: the high half of the checksum, and parts
/// of a second of three times.
const FREE_EXTRA: Range<usize> = 130..144;

/// The inodes of a block of a table.
pub(crate) struct TableBlock {
    first: Ino,
    inodes: usize,
}

/// The tables of a volume, by their first block.
pub(crate) struct Tables<'a> {
    facts: &'a Facts,
    starts: BTreeMap<BlockNo, usize>,
}

impl<'a> Tables<'a> {
    /// All tables that are read.
    pub(crate) fn of(facts: &'a Facts) -> Tables<'a> {
        let read = facts.groups.iter().enumerate().filter(|(_, group)| group.has_table);
        let starts = read.map(|(at, group)| (group.descriptor.inode_table, at)).collect();
        Tables { facts, starts }
    }

    /// What a block of a table holds; `None` for any other block.
    pub(crate) fn block(&self, block: BlockNo) -> Option<TableBlock> {
        let superblock = self.facts.volume.superblock();
        let (start, group) = self.starts.range(..=block).next_back()?;
        let offset = block.0 - start.0;
        if offset >= u64::from(superblock.inode_table_blocks()) {
            return None;
        }
        let per_block = u64::from(superblock.block_size()) / u64::from(superblock.inode_size);
        let before = u32::try_from(offset * per_block).ok()?;
        let used = self.facts.groups.get(*group)?.inodes_used;
        let first = u32::try_from(*group).ok()?.checked_mul(superblock.inodes_per_group)?;
        Some(TableBlock {
            first: Ino(first.checked_add(before)?.checked_add(1)?),
            inodes: u64::from(used.saturating_sub(before)).min(per_block) as usize,
        })
    }
}

/// Judges the inodes of a block of a table that was `before` in the check whose facts these are.
/// Gives whether facts and problems are now those of a whole pass; if not, the facts are of no use
/// any more. Adds the inodes that are others now to `judged`.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(
    facts: &Facts,
    (block, table): (BlockNo, &TableBlock),
    before: &[u8],
    judged: &mut Vec<Ino>,
) -> Result<bool, Error> {
    let superblock = facts.volume.superblock();
    let size = usize::from(superblock.inode_size);
    let mut now = vec![0; facts.volume.block_size()];
    facts.read("inode table", block, &mut now)?;
    let pairs = before.chunks_exact(size).zip(now.chunks_exact(size)).take(table.inodes);
    for (ino, (was, raw)) in (table.first.0..).map(Ino).zip(pairs).filter(|(_, (a, b))| a != b) {
        if !superblock.is_usable(ino) || facts.is_of_system(ino) || facts.is_nameless(ino) {
            return Ok(false);
        }
        match (state(facts, ino, was), state(facts, ino, raw)) {
            (State::Used, State::Used) if differs_in_times(was, raw) => {
                let inode = &Inode::decode(raw, superblock);
                let is_value = inode.flags & flags::EA_INODE != 0;
                if is_value || inode.links == 0 || Inode::decode(was, superblock).links == 0 {
                    return Ok(false);
                }
                let subject = Subject { facts, ino, inode, raw };
                judge_seal(subject);
                judge_deletion(subject);
                facts.inodes.set_links(ino, inode.links);
            }
            (State::Clear | State::Unused, State::Clear) => {}
            (State::Clear | State::Unused, State::Unused) => {
                // It maps nothing: only the list of bad blocks does without a link.
                judge_unused(facts, ino, raw, &mut Roots::new(facts));
            }
            _ => return Ok(false),
        }
        judged.push(ino);
    }
    Ok(true)
}

/// Whether two inodes are the same but for links, times and the checksum.
fn differs_in_times(was: &[u8], now: &[u8]) -> bool {
    let extra_end = BASE_SIZE + usize::from(StoredInode::new(now).extra_size());
    let is_free = |at: usize| {
        FREE.iter().any(|range| range.contains(&at)) || FREE_EXTRA.contains(&at) && at < extra_end
    };
    was.len() == now.len()
        && was.iter().zip(now).enumerate().all(|(at, (was, now))| was == now || is_free(at))
}
