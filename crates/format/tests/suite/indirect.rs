//! Paths of the classic map against a count by hand, and the number of indirect blocks against a
//! set of them.
use extant_format::FileBlock;
use extant_format::indirect::{self, Path};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// The file block that a path leads to, by adding up.
fn block_of(path: Path, log2: u8) -> u64 {
    let n = 1_u64 << (log2 - 2);
    let index = path.index.map(u64::from);
    match path.depth {
        1 => index[0],
        2 => 12 + index[1],
        3 => 12 + n + index[1] * n + index[2],
        _ => 12 + n + n * n + (index[1] * n + index[2]) * n + index[3],
    }
}

/// The indirect blocks on the way: each is named by the path up to it.
fn parents(block: u32, log2: u8) -> Vec<Vec<u32>> {
    let path = indirect::path(FileBlock(block), log2).unwrap();
    (1..path.depth).map(|depth| path.index[..depth].to_vec()).collect()
}

fn interesting_blocks(log2: u8) -> impl Strategy<Value = u32> {
    let n = 1_u64 << (log2 - 2);
    let edges = vec![
        0,
        12,
        12 + n,
        12 + 2 * n,
        12 + n + n * n,
        12 + n + n * n + n * n,
        indirect::capacity(log2),
    ];
    let last = indirect::capacity(log2) - 1;
    (prop::sample::select(edges), 0..40_u64, any::<u32>(), 0..4).prop_map(
        move |(edge, near, anywhere, choice)| match choice {
            0 => u64::from(anywhere).min(last) as u32,
            _ => (edge + near).saturating_sub(20).min(last) as u32,
        },
    )
}

fn cases() -> impl Strategy<Value = (u8, Vec<u32>)> {
    (10_u8..=16).prop_flat_map(|log2| (Just(log2), vec(interesting_blocks(log2), 1..40)))
}

proptest! {
    #[test]
    fn a_path_leads_to_its_block((log2, blocks) in cases()) {
        let n = 1_u32 << (log2 - 2);
        for block in blocks {
            let path = indirect::path(FileBlock(block), log2).unwrap();
            prop_assert_eq!(block_of(path, log2), u64::from(block));
            prop_assert!(path.index[0] < 15 && path.index[1..].iter().all(|index| *index < n));
            prop_assert!(path.index[path.depth..].iter().all(|index| *index == 0));
            let direct_or_tree = if path.depth == 1 {
                path.index[0] < 12
            } else {
                path.index[0] as usize == 10 + path.depth
            };
            prop_assert!(direct_or_tree);
        }
    }

    #[test]
    fn blocks_needed_counts_each_indirect_block_once(
        (log2, mut blocks) in cases(),
        lengths in vec(0..600_u32, 40),
    ) {
        blocks.sort_unstable();
        blocks.dedup();
        let capacity = indirect::capacity(log2) as u32;
        let mut ranges = Vec::new();
        for (at, start) in blocks.iter().enumerate() {
            let limit = blocks.get(at + 1).copied().unwrap_or(capacity);
            // Lengths of 0 too, and neighbours that touch.
            ranges.push(*start..start.saturating_add(lengths[at]).min(limit));
        }
        let set: BTreeSet<_> =
            ranges.iter().cloned().flatten().flat_map(|block| parents(block, log2)).collect();
        prop_assert_eq!(indirect::blocks_needed(ranges, log2), set.len() as u64);
    }
}

fn needed(range: Range<u32>, log2: u8) -> u64 {
    indirect::blocks_needed(std::iter::once(range), log2)
}

#[test]
fn whole_files_need_what_arithmetic_says() {
    // 1 KiB blocks: the single tree, the double one with its root, the triple one with its root and
    // 256 below.
    let all = indirect::capacity(10) as u32;
    assert_eq!(all, 12 + 256 + 65536 + 16_777_216);
    assert_eq!(needed(0..all, 10), 1 + (1 + 256) + (1 + 256 + 65536));
    assert_eq!(needed(0..12, 10), 0);
    assert_eq!(needed(0..13, 10), 1);
    // Beyond the map nothing is counted, and nothing overflows.
    assert_eq!(needed(all..u32::MAX, 10), 0);
    assert_eq!(indirect::path(FileBlock(all), 10), None);
    // A terabyte in blocks of 4 KiB.
    let terabyte = 1 << 28;
    let under_triple = terabyte - (12 + 1024 + 1024 * 1024);
    let roots = 1 + (1 + 1024) + 1;
    let below = u64::from(u32::div_ceil(under_triple, 1 << 20))
        + u64::from(u32::div_ceil(under_triple, 1 << 10));
    assert_eq!(needed(0..terabyte, 12), roots + below);
    assert_eq!(indirect::capacity(12), 12 + 1024 + (1 << 20) + (1 << 30));
    assert_eq!(indirect::capacity(16), u64::from(u32::MAX));
    assert_eq!(indirect::path(FileBlock(u32::MAX), 16).map(|path| path.depth), Some(4));
}

#[test]
fn pointers_are_little_endian_words() {
    let mut bytes = [0; 60];
    indirect::set_pointer(&mut bytes, 14, 0x0102_0304);
    assert_eq!(bytes[56..], [4, 3, 2, 1]);
    assert_eq!(indirect::pointer(&bytes, 14), 0x0102_0304);
    assert_eq!(indirect::pointer(&bytes, 13), 0);
}
