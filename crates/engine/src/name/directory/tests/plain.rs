//! Splits and packing plans on plain values, and the blocks made from a plan.
use super::Random;
use crate::error::ErrorKind;
use crate::name::directory::Packing;
use crate::name::directory::hashed::CONTINUED;
use crate::name::directory::pack::{Leaf, NewEntry, PackingPlan, Shape, Writer, nodes_for};
use crate::name::directory::split::{Cut, choose_cut};
use extant_format::directory::{IndexPlace, Style};
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::FileType;
use extant_format::superblock::HashVersion;
use extant_format::{FileBlock, Ino};

const SIZES: [u32; 3] = [1024, 4096, 65536];

fn styles() -> impl Iterator<Item = Style> {
    let of_size = |block_size| {
        [false, true].map(|checksummed| Style { block_size, typed: true, checksummed })
    };
    SIZES.into_iter().flat_map(of_size)
}

fn hasher(version: HashVersion) -> Hasher {
    Hasher { version, unsigned: false, seed: [1, 2, 3, 4] }
}

/// A full leaf of random names; few different hashes make chains likely.
fn full_leaf(style: Style, random: &mut Random, hashes: usize) -> Vec<(u32, usize)> {
    let mut names = Vec::new();
    let mut total = 0;
    loop {
        let length = if random.below(2) == 0 { 255 } else { 1 + random.below(255) };
        let size = style.entry_size(length);
        if total + size > style.leaf_capacity() {
            break;
        }
        total += size;
        names.push((random.below(hashes) as u32 * 2, size));
    }
    names.sort_by_key(|(hash, _)| *hash);
    names
}

#[test]
fn a_cut_leaves_room_for_the_longest_name_on_both_sides() {
    let mut random = Random(7);
    for style in styles() {
        for hashes in [1, 2, 3, 1 << 20] {
            for _ in 0..200 {
                let names = full_leaf(style, &mut random, hashes);
                let cut =
                    choose_cut(style, names.iter().copied()).expect("a full leaf has two names");
                let (left, right) = names.split_at(cut.at);
                let longest = style.entry_size(255);
                for half in [left, right] {
                    let size: usize = half.iter().map(|(_, size)| size).sum();
                    assert!(
                        !half.is_empty() && size + longest <= style.leaf_capacity(),
                        "{style:?} {names:?} {cut:?}"
                    );
                }
                let continued = left[left.len() - 1].0 == right[0].0;
                assert_eq!(cut.hash, right[0].0 | u32::from(continued));
            }
        }
    }
}

#[test]
fn a_cut_falls_between_different_hashes_where_it_can() {
    let style = Style { block_size: 1024, typed: true, checksummed: false };
    let cut = |names: &[(u32, usize)]| choose_cut(style, names.iter().copied());
    assert_eq!(cut(&[(2, 300), (4, 150), (4, 150), (6, 300)]), Some(Cut { at: 1, hash: 4 }));
    // If equal hashes stayed together, one side would have too little room.
    let crowded = [(2, 200), (4, 200), (4, 200), (4, 200), (6, 200)];
    assert_eq!(cut(&crowded), Some(Cut { at: 2, hash: 4 | CONTINUED }));
    assert_eq!(
        cut(&[(2, 200), (2, 200), (4, 200), (4, 200), (6, 200)]),
        Some(Cut { at: 2, hash: 4 })
    );
    assert_eq!(cut(&[(2, 300), (2, 300), (2, 300)]), Some(Cut { at: 1, hash: 2 | CONTINUED }));
    assert_eq!(cut(&[(2, 300)]), None);
    assert_eq!(cut(&[]), None);
}

/// Random names, in the order of the directory.
fn names(packing: &Packing, random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = (0..count)
        .map(|number| {
            let mut name = format!("{number:x}-").into_bytes();
            let more = if random.below(10) == 0 { random.below(247) } else { random.below(20) };
            name.extend((0..more).map(|_| b'a' + random.below(26) as u8));
            name
        })
        .collect();
    names.sort_by_cached_key(|name| packing.hash_key(name));
    names
}

fn plan(packing: &Packing, names: &[Vec<u8>]) -> PackingPlan {
    packing.plan(names.iter().map(|name| (name.len(), packing.hash_key(name)))).expect("a plan")
}

fn blocks(packing: Packing, names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let plan = plan(&packing, names);
    let entry =
        |(at, name)| NewEntry { name, ino: Ino(11 + at as u32), file_type: FileType::Regular };
    let entries: Vec<NewEntry<'_>> =
        names.iter().map(Vec::as_slice).enumerate().map(entry).collect();
    let total = plan.blocks();
    let mut writer = Writer { packing, plan, ino: Ino(2), parent: Ino(2), entries: &entries };
    let filled = |block| {
        let mut bytes = vec![0; packing.style.block_size as usize];
        writer.fill(block, &mut bytes);
        bytes
    };
    let blocks = (0..total).map(filled).collect();
    assert!(writer.entries.is_empty());
    blocks
}

/// All leaves in the order of the index, with their keys in the index.
fn leaves(style: Style, blocks: &[Vec<u8>]) -> Vec<(u32, FileBlock)> {
    let (info, root) = style.root(&blocks[0]).expect("a root");
    let mut leaves = Vec::new();
    for at in 0..root.len() {
        let (hash, child) = root.get(at);
        if info.levels == 0 {
            leaves.push((hash, child));
            continue;
        }
        let node = style.node(&blocks[child.0 as usize]).expect("a node");
        leaves.extend(
            (0..node.len())
                .map(|at| node.get(at))
                .enumerate()
                .map(|(at, (below, leaf))| (if at == 0 { hash } else { below }, leaf)),
        );
    }
    leaves
}

#[test]
fn a_packed_directory_is_found_by_its_index() {
    let mut random = Random(11);
    for (style, count, version) in [
        (Style { block_size: 1024, typed: true, checksummed: true }, 20_000, HashVersion::HalfMd4),
        (Style { block_size: 1024, typed: true, checksummed: false }, 3_000, HashVersion::Tea),
        (Style { block_size: 4096, typed: false, checksummed: true }, 5_000, HashVersion::Legacy),
        (Style { block_size: 65536, typed: true, checksummed: true }, 20_000, HashVersion::HalfMd4),
    ] {
        let packing = Packing { style, hasher: Some(hasher(version)) };
        let names = names(&packing, &mut random, count);
        let blocks = blocks(packing, &names);
        let leaves = leaves(style, &blocks);
        assert!(leaves.is_sorted_by_key(|(hash, _)| *hash));
        let mut found = Vec::new();
        for (at, &(low, block)) in leaves.iter().enumerate() {
            let high = leaves.get(at + 1).map_or(u32::MAX, |(next, _)| *next);
            for entry in style.entries(&blocks[block.0 as usize]) {
                let entry = entry.expect("a sound leaf");
                let hash = packing.hash_key(entry.name).major;
                // Continued: the hash that ends a leaf may begin the next one, whose entry then has
                // the low bit.
                assert!((low & !CONTINUED..high).contains(&hash), "{hash:x} in {low:x}..{high:x}");
                found.push(entry.name.to_vec());
            }
        }
        assert_eq!(found, names);
    }
}

#[test]
fn blocks_are_told_before_they_are_made() {
    let mut random = Random(13);
    for style in styles() {
        for hasher in [None, Some(hasher(HashVersion::HalfMd4))] {
            let packing = Packing { style, hasher };
            for count in [0, 1, 40, 70, 300, 6000] {
                let names = names(&packing, &mut random, count);
                let told = packing
                    .packed_blocks(names.iter().map(|name| (name.len(), packing.hash_key(name))));
                assert_eq!(told.expect("few names"), blocks(packing, &names).len() as u64);
            }
        }
    }
}

#[test]
fn one_block_keeps_the_order_given_and_two_do_not_take_any() {
    let style = Style { block_size: 1024, typed: true, checksummed: true };
    let packing = Packing { style, hasher: Some(hasher(HashVersion::Tea)) };
    let key = |major| (8, NameHash { major, minor: 0 });
    // "." and ".." take 24 of 1012 bytes, each of these names 16.
    let falling = |count: u32| (0..count).rev().map(move |number| key(number * 2));
    assert_eq!(packing.packed_blocks(falling(61)).expect("fits"), 1);
    let error = packing.packed_blocks(falling(62)).expect_err("not in order");
    assert!(matches!(error.kind, ErrorKind::InvalidArgument(_)), "{error}");
    assert_eq!(packing.packed_blocks((0..62).map(|number| key(number * 2))).expect("fits"), 2);
    assert_eq!(packing.packed_blocks((0..64).map(|number| key(number * 2))).expect("fits"), 3);
}

#[test]
fn equal_hashes_in_two_leaves_are_marked() {
    let style = Style { block_size: 1024, typed: true, checksummed: false };
    let packing = Packing { style, hasher: Some(hasher(HashVersion::Legacy)) };
    // 64 names of 16 bytes fill a leaf.
    let hashes = std::iter::repeat_n(2, 60).chain(std::iter::repeat_n(40, 80)).chain([50]);
    let plan = packing.plan(hashes.map(|major| (8, NameHash { major, minor: 0 }))).expect("a plan");
    let leaf = |hash, names| Leaf { hash, names };
    assert_eq!(plan.leaves, [leaf(0, 64), leaf(40 | CONTINUED, 64), leaf(40 | CONTINUED, 13)]);
    assert_eq!(plan.shape, Shape::Indexed { nodes: 0 });
}

#[test]
fn two_levels_are_the_limit() {
    for style in styles() {
        let (root, node) =
            (style.index_capacity(IndexPlace::Root), style.index_capacity(IndexPlace::Node));
        assert_eq!(nodes_for(style, root).expect("no nodes"), 0);
        assert_eq!(nodes_for(style, root + 1).expect("nodes"), (root + 1).div_ceil(node) as u32);
        assert_eq!(nodes_for(style, root * node).expect("nodes"), root as u32);
        let full = nodes_for(style, root * node + 1).expect_err("too many leaves");
        assert!(matches!(full.kind, ErrorKind::DirectoryFull));
    }
}

#[test]
fn names_and_sizes_have_their_limits() {
    let style = Style { block_size: 65536, typed: true, checksummed: false };
    let linear = Packing { style, hasher: None };
    let key = NameHash::default();
    assert!(matches!(
        linear.packed_blocks([(0, key)]).expect_err("empty").kind,
        ErrorKind::InvalidName
    ));
    assert!(matches!(
        linear.packed_blocks([(256, key)]).expect_err("long").kind,
        ErrorKind::NameTooLong
    ));
    // 248 names of 264 bytes in 64 KiB, 2^16 - 1 blocks in 32 bits of size.
    let names = |blocks: usize| std::iter::repeat_n((255, key), blocks * 248);
    assert_eq!(linear.packed_blocks(names(65535)).expect("fits"), 65535);
    let error = linear.packed_blocks(names(65536)).expect_err("too large");
    assert!(matches!(error.kind, ErrorKind::DirectoryFull), "{error}");
}
