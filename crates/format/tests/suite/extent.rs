//! Extent nodes against a model: a list of entries.
use extant_format::extent::{self, Extent, Index, MAX_DEPTH, Node, State};
use extant_format::{BlockNo, Fault, FileBlock};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index as Place;

const BLOCKS: u64 = 1 << 47;

/// Rising, disjoint extents: from gaps and lengths.
fn extents(most: usize) -> impl Strategy<Value = Vec<Extent>> {
    vec((0..1000_u32, 1..=32768_u32, 1..BLOCKS - 40000, any::<bool>()), 0..=most).prop_map(|list| {
        let mut next = 0;
        list.into_iter()
            .map(|(gap, length, start, is_written)| {
                let state = if is_written { State::Written } else { State::Unwritten };
                let length = if is_written { length } else { length.min(32767) };
                let extent = Extent {
                    file_block: FileBlock(next + gap),
                    length,
                    start: BlockNo(start),
                    state,
                };
                next += gap + length;
                extent
            })
            .collect()
    })
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(60_usize), Just(1024), Just(2048), Just(4096), Just(65536)]
}

fn node(size: usize, extents: &[Extent]) -> Vec<u8> {
    let mut bytes = vec![0x99; size];
    extent::initialize(&mut bytes, 0);
    for (at, extent) in extents.iter().enumerate() {
        extent::insert_extent(&mut bytes, at, *extent);
    }
    bytes
}

fn read(bytes: &[u8]) -> Vec<Extent> {
    let node = Node::parse(bytes, Some(0), BLOCKS).unwrap();
    (0..node.len()).map(|at| node.extent(at)).collect()
}

proptest! {
    #[test]
    fn a_leaf_is_a_list(
        size in sizes(),
        list in extents(90).prop_shuffle(),
        steps in vec((any::<Place>(), any::<bool>()), 0..60),
    ) {
        let list = &list[..list.len().min(extent::capacity(size))];
        let mut bytes = node(size, &[]);
        let mut model: Vec<Extent> = Vec::new();
        // In any order, each at the place that it belongs to.
        for extent in list {
            let at = model.partition_point(|other| other.file_block < extent.file_block);
            extent::insert_extent(&mut bytes, at, *extent);
            model.insert(at, *extent);
        }
        prop_assert_eq!(read(&bytes), model.clone());
        for (place, is_back) in steps {
            if model.is_empty() {
                break;
            }
            let at = place.index(model.len());
            extent::remove(&mut bytes, at);
            let removed = model.remove(at);
            if is_back {
                extent::insert_extent(&mut bytes, at, removed);
                let shorter = Extent { length: 1, ..removed };
                extent::set_extent(&mut bytes, at, shorter);
                model.insert(at, shorter);
            }
            prop_assert_eq!(read(&bytes), model.clone());
        }
        prop_assert_eq!(bytes.len(), size);
    }

    #[test]
    fn find_is_the_last_at_or_before(list in extents(80), asked in vec(0..100_000_u32, 30)) {
        let bytes = node(1024, &list);
        let node = Node::parse(&bytes, None, BLOCKS).unwrap();
        for block in asked.into_iter().chain(list.iter().map(|extent| extent.file_block.0)) {
            prop_assert_eq!(
                node.find(FileBlock(block)),
                list.iter().rposition(|extent| extent.file_block.0 <= block)
            );
        }
    }

    #[test]
    fn a_split_and_a_copy_lose_nothing(list in extents(84), at in any::<Place>()) {
        let mut bytes = node(1024, &list);
        let at = at.index(list.len() + 1);
        let mut upper = node(1024, &[]);
        extent::split_off(&mut bytes, at, &mut upper);
        prop_assert_eq!(read(&bytes), &list[..at]);
        prop_assert_eq!(read(&upper), &list[at..]);
        // What was moved leaves no trace: the bytes are those of a node that never had it.
        prop_assert_eq!(&bytes, &node(1024, &list[..at]));
        let mut larger = vec![0xee; 4096];
        extent::copy(&upper, &mut larger);
        prop_assert_eq!(&larger, &node(4096, &list[at..]));
        if list.len() - at <= 4 {
            let mut root = vec![0xee; 60];
            extent::copy(&larger, &mut root);
            prop_assert_eq!(root, node(60, &list[at..]));
        }
    }

    #[test]
    fn sealed_nodes_verify_and_a_flipped_bit_does_not(
        size in sizes(),
        list in extents(4),
        seed in any::<u32>(),
        at in any::<Place>(),
        bit in 0..8,
    ) {
        prop_assume!(size > 60);
        let mut bytes = node(size, &list);
        extent::seal(&mut bytes, seed);
        prop_assert_eq!(extent::verify(&bytes, seed), Ok(()));
        prop_assert!(extent::verify(&bytes, seed ^ 1).is_err());
        let end = 12 + 12 * extent::capacity(size) + 4;
        bytes[at.index(end)] ^= 1_u8 << bit;
        prop_assert!(extent::verify(&bytes, seed).is_err());
    }

    #[test]
    fn an_index_node_is_a_list(
        children in vec((1..1000_u32, 1..BLOCKS), 1..80),
        depth in 1..=MAX_DEPTH,
    ) {
        let mut bytes = vec![0x99; 1024];
        extent::initialize(&mut bytes, depth);
        prop_assert!(Node::parse(&bytes, Some(depth), BLOCKS).is_err(), "an index without entries");
        let mut first = 0;
        let list: Vec<Index> = children
            .iter()
            .map(|(step, child)| {
                first += step;
                Index { file_block: FileBlock(first), child: BlockNo(*child) }
            })
            .collect();
        for index in list.iter().rev() {
            extent::insert_index(&mut bytes, 0, *index);
        }
        let read = |bytes: &[u8]| {
            let node = Node::parse(bytes, Some(depth), BLOCKS).unwrap();
            (0..node.len()).map(|at| node.index(at)).collect::<Vec<_>>()
        };
        prop_assert_eq!(read(&bytes), list.clone());
        let lowered = Index { file_block: FileBlock(0), ..list[0] };
        extent::set_index(&mut bytes, 0, lowered);
        prop_assert_eq!(read(&bytes)[0], lowered);
    }

    #[test]
    fn random_bytes_do_no_harm(
        mut bytes in vec(any::<u8>(), 0..200),
        count in 0..20_u8,
        max in 0..20_u8,
        depth in 0..7_u8,
    ) {
        let header = [0x0a, 0xf3, count, 0, max, 0, depth, 0];
        for patched in [false, true] {
            if patched && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&header);
            }
            for node in [Node::parse(&bytes, None, 1 << 32), Node::parse_header(&bytes)]
                .into_iter()
                .flatten()
            {
                prop_assert!(
                    node.len() <= node.capacity()
                        && node.capacity() <= extent::capacity(bytes.len())
                );
                for at in 0..node.len() {
                    let _ = if node.depth() == 0 {
                        node.extent(at).length
                    } else {
                        node.index(at).file_block.0
                    };
                }
                let _ = node.find(FileBlock(77));
            }
            let _ = extent::verify(&bytes, 1);
        }
    }

    #[test]
    fn what_parse_accepts_is_sound(
        list in extents(84),
        damage in vec((0..1020_usize, any::<u8>()), 1..4),
        blocks in 1..BLOCKS,
    ) {
        let mut bytes = node(1024, &list);
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(node) = Node::parse(&bytes, Some(0), blocks) {
            let mut next = 0_u64;
            for extent in (0..node.len()).map(|at| node.extent(at)) {
                prop_assert!(u64::from(extent.file_block.0) >= next);
                next = u64::from(extent.file_block.0) + u64::from(extent.length);
                prop_assert!(
                    next <= u64::from(u32::MAX)
                        && (1..=extent::MAX_LENGTH).contains(&extent.length)
                );
                prop_assert!(
                    extent.start.0 > 0 && extent.start.0 + u64::from(extent.length) <= blocks
                );
            }
        }
    }
}

#[test]
fn capacities_are_those_of_the_format() {
    let capacities = [60, 1024, 2048, 4096, 8192, 16384, 32768, 65536].map(extent::capacity);
    assert_eq!(capacities, [4, 84, 169, 340, 681, 1364, 2729, 5460]);
}

#[test]
fn impossible_nodes_are_refused_by_field() {
    let one =
        Extent { file_block: FileBlock(5), length: 3, start: BlockNo(100), state: State::Written };
    let two = Extent { file_block: FileBlock(8), ..one };
    let good = node(1024, &[one, two]);
    assert!(Node::parse(&good, Some(0), 103).is_ok());
    assert!(matches!(Node::parse(&good, Some(0), 102), Err(Fault::Field { field: "start", .. })));
    assert!(matches!(Node::parse(&good, Some(1), 103), Err(Fault::Field { field: "depth", .. })));
    let field = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        match Node::parse(&bytes, None, 103) {
            Err(Fault::Field { field, .. }) => field,
            Err(Fault::Magic { .. }) => "magic",
            other => panic!("byte {at} = {value}: {other:?}"),
        }
    };
    assert_eq!(field(0, 0), "magic");
    assert_eq!(field(2, 85), "number of entries");
    assert_eq!(field(4, 85), "maximum of entries");
    assert_eq!(field(4, 0), "maximum of entries");
    assert_eq!(field(6, 6), "depth");
    assert_eq!(field(12 + 4, 0), "length");
    assert_eq!(field(24, 7), "file block");
}
