//! Superblocks, descriptors of groups, nodes of extent trees, blocks of pointers, quota files.
use super::base::{self, Kind};
use super::{padded, split};
use extant_block::BlockDevice;
use extant_format::extent::{self, Extent, Index, Node, StoredNode};
use extant_format::group::GroupDescriptor;
use extant_format::indirect;
use extant_format::quota_file::{self, BLOCK_BYTES, EntryChange, Head, QuotaEntry};
use extant_format::superblock::MappingKind;
use extant_format::superblock::{SUPERBLOCK_SIZE, StoredSuperblock, Superblock};
use extant_format::{BlockNo, FileBlock, GroupNo, Ino};
use std::hint::black_box;

/// Superblocks of volumes of several kinds, each followed by its descriptors.
pub fn superblocks() -> Vec<Vec<u8>> {
    let head = |kind: &Kind| {
        let mut bytes = vec![0; 3072];
        base::of(kind).device.read(1024, &mut bytes).map(|()| bytes).unwrap_or_default()
    };
    base::KINDS.iter().map(head).collect()
}

/// A superblock, and descriptors of its groups.
pub fn superblock(input: &[u8]) {
    let bytes = padded(input, SUPERBLOCK_SIZE.max(input.len()));
    let Some((head, rest)) = bytes.split_first_chunk::<SUPERBLOCK_SIZE>() else { return };
    black_box(StoredSuperblock::new(head).errors().map(|error| format!("{error:?}")));
    black_box((Superblock::parse_torn(head), Superblock::parse_unsealed(head)));
    for parsed in [Superblock::parse(head), Superblock::parse_any(head)] {
        match parsed {
            Ok(superblock) => ask(&superblock, rest),
            Err(error) => drop(black_box(error.to_string())),
        }
    }
}

/// Everything that is computed of a superblock which was taken for one.
fn ask(superblock: &Superblock, descriptors: &[u8]) {
    let groups = superblock.group_count();
    let size = usize::from(superblock.descriptor_size).max(1);
    let chosen = (0..20).chain(groups.saturating_sub(3)..groups).filter(|group| *group < groups);
    for group in chosen.map(GroupNo) {
        black_box((superblock.group_start(group), superblock.group_length(group)));
        black_box((superblock.has_super(group), superblock.descriptor_place(group)));
        black_box((superblock.super_overhead(group), superblock.group_bits(group)));
        black_box(superblock.descriptor_copies(group).take(100).count());
        let bytes = descriptors.get(group.0 as usize * size..).unwrap_or_default();
        let bytes = padded(&bytes[..size.min(bytes.len())], size);
        black_box(GroupDescriptor::decode(&bytes, superblock));
        if let Ok(descriptor) = GroupDescriptor::parse(&bytes, group, superblock) {
            black_box(superblock.inode_place(Ino(1), &descriptor));
            let mut again = vec![0; size];
            descriptor.encode(&mut again, group, superblock);
        }
    }
    black_box((superblock.descriptor_blocks(), superblock.inode_table_blocks()));
    for kind in [MappingKind::Extents, MappingKind::Indirect] {
        black_box(superblock.max_file_size(kind));
    }
    for ino in [0, 1, 11, superblock.inodes_count, u32::MAX].map(Ino) {
        black_box((superblock.is_usable(ino), superblock.group_of_inode(ino)));
    }
    for block in [0, 1, superblock.blocks_count, u64::MAX].map(BlockNo) {
        black_box(superblock.group_of_block(block));
    }
    black_box(superblock.encode());
}

/// A leaf and an index, in an inode and in a block.
pub fn extent_nodes() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for length in [60, 1024] {
        let (mut leaf, mut index) = (vec![0; length], vec![0; length]);
        extent::initialize(&mut leaf, 0);
        extent::initialize(&mut index, 1);
        for at in 0..3 {
            let file_block = FileBlock(at as u32 * 7);
            let start = BlockNo(100 + at as u64 * 50);
            let extent = Extent { file_block, start, length: 5, ..Extent::from_bytes(&[0; 12]) };
            extent::insert_extent(&mut leaf, at, extent);
            extent::insert_index(&mut index, at, Index { file_block, child: start });
        }
        all.extend([leaf, index]);
    }
    all
}

/// A node of an extent tree; one that is taken for such is changed.
pub fn extents(input: &[u8]) {
    if let Some(stored) = StoredNode::read(input) {
        black_box((stored.extents().count(), stored.indexes().count(), stored.first_file_block()));
    }
    black_box(extent::verify(input, 7).is_ok());
    let Ok(node) = Node::parse(input, None, 1 << 20) else { return };
    let (depth, count, capacity) = (node.depth(), node.len(), node.capacity());
    for at in 0..count {
        match depth {
            0 => drop(black_box(node.extent(at))),
            _ => drop(black_box(node.index(at))),
        }
    }
    for block in [0, 1, 7, 1 << 20, u32::MAX] {
        let found = node.find(FileBlock(block));
        assert!(found.is_none_or(|at| at < count), "entry {found:?} of {count}");
    }
    let mut bytes = input.to_vec();
    if count > 0 {
        extent::remove(&mut bytes, count / 2);
        assert!(Node::parse_header(&bytes).is_ok_and(|node| node.len() == count - 1));
    }
    if depth == 0 && count > 0 && count <= capacity {
        extent::insert_extent(&mut bytes, 0, node.extent(count / 2));
    }
    let mut whole = vec![0; 1 << 16];
    if count <= extent::capacity(whole.len()) {
        extent::copy(input, &mut whole);
        extent::seal(&mut whole, 7);
        extent::verify(&whole, 7).expect("it was sealed");
    }
}

/// Blocks of pointers and ranges of a file.
pub fn pointer_blocks() -> Vec<Vec<u8>> {
    vec![(0..64_u32).flat_map(|number| (number * 3).to_le_bytes()).collect()]
}

/// Paths of a classic map, and how many blocks it needs.
pub fn indirect_maps(input: &[u8]) {
    let ([log2], rest) = split(input);
    let log2 = 10 + log2 % 7;
    black_box(indirect::capacity(log2));
    let mut ranges = Vec::new();
    let mut end = 0_u32;
    for pointer in indirect::pointers(rest) {
        if let Some(path) = indirect::path(FileBlock(pointer), log2) {
            assert!((1..=4).contains(&path.depth), "{path:?}");
            let most = 1_u32 << indirect::pointers_log2(log2);
            assert!(path.index[1..].iter().all(|index| *index < most), "{path:?}");
        }
        let start = end.saturating_add(pointer % 5_000_000);
        end = start.saturating_add(1 + pointer % 77);
        ranges.push(start..end);
    }
    black_box(indirect::blocks_needed(ranges, log2));
}

/// Files of users, groups and projects.
pub fn quota_files() -> Vec<Vec<u8>> {
    let entries: Vec<QuotaEntry> =
        (0..9).map(|id| QuotaEntry { id: id << (id * 3), inodes: 3, bytes: 4096 }).collect();
    (0..3).map(|kind| quota_file::new_file(kind, &entries).bytes).collect()
}

/// A quota file: its head, and each of its blocks as a step of the tree and as a leaf.
pub fn quota(input: &[u8]) {
    for kind in 0..4 {
        black_box(Head::parse(kind, input, input.len() as u64));
    }
    black_box(quota_file::blocks(input, input.len() as u64));
    for block in input.chunks(BLOCK_BYTES as usize) {
        black_box((quota_file::children(block).count(), quota_file::next_free(block)));
        black_box(quota_file::child(block, block.first().copied().unwrap_or(0)));
        let ids: Vec<u32> = quota_file::entries(block).map(|entry| entry.id).collect();
        let mut leaf = block.to_vec();
        for id in ids.into_iter().chain([5]) {
            let found = quota_file::entry_at(&leaf, id).or_else(|| {
                let at = quota_file::room_at(&leaf)?;
                quota_file::begin_entry(&mut leaf, at, id);
                Some(at)
            });
            if let Some(at) = found {
                let change = EntryChange { inodes: i64::MIN, bytes: i64::MAX };
                quota_file::change_entry(&mut leaf, at, change);
            }
        }
        quota_file::set_first_with_room(&mut leaf);
    }
}
