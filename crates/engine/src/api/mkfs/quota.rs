//! Quota files of a new volume: a tree over the bytes of an id, with what the first files use.
//!
//! Blocks of the file are taken in the order in which a program that adds one id after the other
//! writes them: the head, for each id its path from the second level to the leaf, then the root.
use super::draft::Draft;
use crate::error::Result;
use extant_format::inode::flags;
use extant_format::quota_file::{self, BLOCK_BYTES, QuotaEntry};
use extant_format::{BlockNo, Ino, Run};
use std::collections::BTreeMap;

/// What a quota file counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum QuotaKind {
    /// What each user has.
    Users,
    /// What each group has.
    Groups,
    /// What each project has.
    Projects,
}

impl QuotaKind {
    /// All of them, in their order in the superblock.
    pub const ALL: [QuotaKind; 3] = [QuotaKind::Users, QuotaKind::Groups, QuotaKind::Projects];
}

/// Makes a file for the directories that there are.
pub(super) fn make(draft: &mut Draft, kind: QuotaKind, ino: Ino) -> Result<()> {
    let file = quota_file::new_file(kind as usize, &usage(draft, kind));
    let per_block = u64::from(draft.block_size()) / BLOCK_BYTES;
    let mut places: BTreeMap<u64, BlockNo> = BTreeMap::new();
    for number in &file.order {
        let file_block = u64::from(*number) / per_block.max(1);
        if let std::collections::btree_map::Entry::Vacant(slot) = places.entry(file_block) {
            slot.insert(draft.take_one(BlockNo(0))?);
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for place in places.values() {
        match runs.last_mut() {
            Some(run) if run.start.0 + u64::from(run.length) == place.0 => run.length += 1,
            _ => runs.push(Run { start: *place, length: 1 }),
        }
    }
    let mapped = draft.map_taken(ino, &runs)?;
    let block_size = draft.block_size() as usize;
    for (chunk, place) in file.bytes.chunks(block_size).zip(&mapped.data) {
        let mut bytes = chunk.to_vec();
        bytes.resize(block_size, 0);
        draft.put(*place, bytes);
    }
    let mut inode = draft.file(&mapped, file.bytes.len() as u64);
    inode.flags |= flags::IMMUTABLE;
    draft.store(ino, inode);
    Ok(())
}

/// What each id has: of the root directory and lost+found, not of the volume's own files.
fn usage(draft: &Draft, kind: QuotaKind) -> Vec<QuotaEntry> {
    let mut used: BTreeMap<u32, QuotaEntry> = BTreeMap::new();
    // The user that owns the volume's own files has an entry whatever it has.
    let first = draft.superblock().first_inode;
    let counted = |ino: u32| ino == Ino::ROOT.0 || ino == first;
    for (_, inode) in draft.inodes.iter().filter(|(ino, _)| counted(**ino)) {
        let id = match kind {
            QuotaKind::Users => inode.uid,
            QuotaKind::Groups => inode.gid,
            QuotaKind::Projects => inode.project,
        };
        let entry = used.entry(id).or_insert(QuotaEntry { id, inodes: 0, bytes: 0 });
        entry.inodes += 1;
        entry.bytes += inode.sectors * 512;
    }
    used.into_values().collect()
}
