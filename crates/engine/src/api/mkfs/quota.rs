//! Quota files of a new volume: a tree over the bytes of an id, with what the first files use.
//!
//! Blocks of the file are taken in the order in which a program that adds one id after the other
//! writes them: the head, for each id its path from the second level to the leaf, then the root.
use super::FormatOptions;
use super::draft::Draft;
use crate::error::Result;
use extant_format::inode::{Inode, flags};
use extant_format::quota_file::{self, BLOCK_BYTES, QuotaEntry};
use extant_format::superblock::{Feature, Features};
use extant_format::{BlockNo, Ino, Run, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

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
    let first = draft.superblock().first_inode;
    let used = draft.inodes.iter().map(|(ino, inode)| (*ino, inode));
    let file = quota_file::new_file(kind as usize, &usage(used, first, kind, []));
    let per_block = u64::from(draft.block_size()) / BLOCK_BYTES;
    let mut places: BTreeMap<u64, BlockNo> = BTreeMap::new();
    let log2 = draft.superblock().cluster_log2();
    // By the file's clusters, which are blocks without bigalloc.
    let mut clusters: BTreeMap<u64, BlockNo> = BTreeMap::new();
    let mut breaks = BTreeSet::new();
    for number in &file.order {
        let file_block = u64::from(*number) / per_block.max(1);
        let cluster = file_block >> log2;
        let start = match clusters.get(&cluster) {
            Some(start) => *start,
            None => draft.take_one(BlockNo(0))?,
        };
        clusters.insert(cluster, start);
        if log2 > 0 && !places.contains_key(&file_block) && file_block > 0 {
            // What is inserted later before a run does not join it.
            breaks.extend(places.contains_key(&(file_block + 1)).then_some(file_block + 1));
        }
        places.insert(file_block, BlockNo(start.0 + (file_block - (cluster << log2))));
    }
    let mut runs: Vec<Run> = Vec::new();
    for (file_block, place) in &places {
        match runs.last_mut() {
            Some(run)
                if run.start.0 + u64::from(run.length) == place.0
                    && !breaks.contains(file_block) =>
            {
                run.length += 1;
            }
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

/// Blocks of the quota files of a volume that begin with entries for `options.quota_ids`, with
/// bigalloc those of whole clusters.
pub fn quota_file_blocks(options: &FormatOptions) -> u64 {
    let log2 = options.wishes.cluster_log2();
    let files = kinds(options, &options.wishes.features).into_iter().map(|kind| {
        let ids = options.quota_ids.get(kind as usize).into_iter().flatten();
        let entries: Vec<_> = ids.map(|id| QuotaEntry { id: *id, inodes: 0, bytes: 0 }).collect();
        let bytes = quota_file::new_file(kind as usize, &entries).bytes.len() as u64;
        bytes.div_ceil(options.wishes.block_size.into()).div_ceil(1 << log2) << log2
    });
    files.sum()
}

/// Which quota files a volume gets.
pub(super) fn kinds(options: &FormatOptions, features: &Features) -> Vec<QuotaKind> {
    let asked = &options.quota_files;
    let kinds: &[QuotaKind] = match asked.is_empty() {
        false => asked,
        true if features.has(Feature::PROJECT) => &QuotaKind::ALL,
        true => &[QuotaKind::Users, QuotaKind::Groups],
    };
    QuotaKind::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect()
}

/// What each id has: of the root directory and lost+found, not of the volume's own files. Ids
/// `to_come` have an entry too.
pub(super) fn usage<'a>(
    inodes: impl Iterator<Item = (u32, &'a Inode)>,
    first_inode: u32,
    kind: QuotaKind,
    to_come: impl IntoIterator<Item = &'a u32>,
) -> Vec<QuotaEntry> {
    let none = |id: u32| QuotaEntry { id, inodes: 0, bytes: 0 };
    let mut used: BTreeMap<u32, QuotaEntry> =
        to_come.into_iter().map(|id| (*id, none(*id))).collect();
    for (_, inode) in inodes.filter(|(ino, _)| *ino == Ino::ROOT.0 || *ino == first_inode) {
        let id = match kind {
            QuotaKind::Users => inode.uid,
            QuotaKind::Groups => inode.gid,
            QuotaKind::Projects => inode.project,
        };
        let entry = used.entry(id).or_insert(none(id));
        entry.inodes += 1;
        entry.bytes += inode.sectors * SECTOR_BYTES;
    }
    used.into_values().collect()
}
