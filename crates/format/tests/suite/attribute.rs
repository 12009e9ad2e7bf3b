//! Extended attributes: what `place` lays out is what the parsers give back, and it fits whenever
//! it can.
use extant_format::attribute::{
    Attribute, AttributeError, Placed, check_name, inline_rest, parse_block, parse_tail, place,
    reference_count, seal_block, set_reference_count,
};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, Fault, Ino};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BLOCK: BlockNo = BlockNo(0x1_0000_4711);

fn superblock(block_size_log2: u8, checksummed: bool) -> Superblock {
    let mut superblock = Superblock::empty();
    superblock.block_size_log2 = block_size_log2;
    superblock.checksum_seed = 0x5eed_5eed;
    if checksummed {
        superblock.features.set(Feature::METADATA_CSUM);
    }
    superblock
}

fn attribute(name: &[u8], value: &[u8]) -> Attribute {
    Attribute { name: name.to_vec(), value: value.to_vec() }
}

/// The smallest access list.
const LIST: [u8; 28] = [
    2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4,
    0, 0xff, 0xff, 0xff, 0xff,
];

fn lists(longest_value: usize) -> impl Strategy<Value = Vec<Attribute>> {
    let prefix = prop::sample::select(vec!["user.", "trusted.", "security.", "system."]);
    let byte = any::<u8>().prop_filter("no zero", |byte| *byte != 0);
    let suffix = prop_oneof![3 => vec(byte.clone(), 1..12), 1 => vec(byte, 1..=255)];
    let name = (prefix, suffix).prop_map(|(prefix, suffix)| [prefix.as_bytes(), &suffix].concat());
    let plain = (name, vec(any::<u8>(), 0..longest_value));
    let special = prop::sample::select(vec!["system.posix_acl_access", "system.posix_acl_default"])
        .prop_map(|name| (name.as_bytes().to_vec(), LIST.to_vec()));
    vec(prop_oneof![6 => plain, 1 => special], 0..12).prop_map(|list| {
        // A map: no name comes twice.
        let unique: BTreeMap<_, _> = list.into_iter().collect();
        unique.into_iter().map(|(name, value)| Attribute { name, value }).collect()
    })
}

fn read_back(placed: &Placed, superblock: &Superblock) -> Vec<Attribute> {
    let mut found = parse_tail(&placed.tail).unwrap().attributes;
    if let Some(block) = &placed.block {
        let mut block = block.clone();
        seal_block(&mut block, BLOCK, superblock);
        found.extend(parse_block(&block, BLOCK, superblock).unwrap().attributes);
    }
    found.sort();
    found
}

/// Bytes that an attribute takes in either place. Access lists shrink on the disk.
fn size(attribute: &Attribute) -> usize {
    let round = |size: usize| size.next_multiple_of(4);
    match attribute.name.as_slice() {
        b"system.posix_acl_access" | b"system.posix_acl_default" => 16 + 16,
        name => {
            let prefix = name.iter().position(|byte| *byte == b'.').unwrap() + 1;
            16 + round(name.len() - prefix) + round(attribute.value.len())
        }
    }
}

/// Whether any distribution fits: all of them, tried.
fn fits_somehow(attributes: &[Attribute], tail_length: usize, block_length: usize) -> bool {
    let tail_room = (tail_length & !3).saturating_sub(8);
    let total: usize = attributes.iter().map(size).sum();
    let sums = attributes.iter().fold(vec![0], |mut sums: Vec<usize>, attribute| {
        sums.extend(sums.iter().map(|sum| sum + size(attribute)).collect::<Vec<_>>());
        sums
    });
    sums.into_iter().any(|sum| sum <= tail_room && total - sum <= block_length - 36)
}

proptest! {
    #[test]
    fn what_is_placed_is_read_back(
        list in lists(300),
        tail_length in 0..700_usize,
        log2 in 10_u8..=12,
        checksummed in any::<bool>(),
    ) {
        let superblock = superblock(log2, checksummed);
        let mut sorted = list.clone();
        sorted.sort();
        match place(&list, tail_length, &superblock) {
            Ok(placed) => {
                prop_assert_eq!(placed.tail.len(), tail_length);
                prop_assert_eq!(read_back(&placed, &superblock), sorted);
                let total: usize = list.iter().map(size).sum();
                // No block when the tail has room for all; nothing at all in a tail that is not
                // used.
                prop_assert!(
                    placed.block.is_none() || total > (tail_length & !3).saturating_sub(8)
                );
                prop_assert_eq!(
                    parse_tail(&placed.tail).unwrap().attributes.is_empty(),
                    placed.tail.iter().all(|byte| *byte == 0)
                );
                if let Some(block) = &placed.block {
                    prop_assert_eq!(block.len(), 1 << log2);
                    prop_assert_eq!(reference_count(block), 1);
                }
            }
            Err(error) => {
                prop_assert_eq!(error, AttributeError::NoRoom);
                prop_assert!(!fits_somehow(&list, tail_length, 1 << log2));
            }
        }
    }

    #[test]
    fn a_tight_list_fits_when_any_distribution_does(
        sizes in vec(0..330_usize, 1..11),
        tail_length in 60..260_usize,
        reversed in any::<bool>(),
    ) {
        let superblock = superblock(10, false);
        let mut list: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(at, size)| attribute(format!("user.{at}").as_bytes(), &vec![7; *size]))
            .collect();
        if reversed {
            list.reverse();
        }
        let placed = place(&list, tail_length, &superblock);
        prop_assert_eq!(placed.is_ok(), fits_somehow(&list, tail_length, 1024));
        list.reverse();
        prop_assert_eq!(placed, place(&list, tail_length, &superblock));
    }

    #[test]
    fn a_flipped_bit_in_a_sealed_block_is_found(
        list in lists(100),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
        count in 1..1024_u32,
    ) {
        prop_assume!(!list.is_empty());
        let superblock = superblock(12, true);
        let mut block = place(&list, 0, &superblock).unwrap().block.unwrap();
        prop_assert!(parse_block(&block, BLOCK, &superblock).is_err(), "not sealed yet");
        set_reference_count(&mut block, count, BLOCK, &superblock);
        prop_assert_eq!(reference_count(&block), count);
        prop_assert!(parse_block(&block, BLOCK, &superblock).is_ok());
        prop_assert!(
            parse_block(&block, BlockNo(1), &superblock).is_err(),
            "the checksum is that \
                of its place"
        );
        block[at.index(4096)] ^= 1_u8 << bit;
        prop_assert!(parse_block(&block, BLOCK, &superblock).is_err());
    }

    #[test]
    fn damaged_lists_do_no_harm(
        list in lists(40),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        random in vec(any::<u8>(), 0..1100),
    ) {
        let superblock = superblock(10, false);
        // A list that does not fit anywhere has no bytes to be damaged.
        let tail = place(&list, 500, &superblock).map_or_else(|_| Vec::new(), |placed| placed.tail);
        for mut bytes in [tail, random.clone()] {
            for (at, byte) in &damage {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
            }
            let magic = [0, 0, 2, 0xea];
            for with_magic in [false, true] {
                if with_magic && bytes.len() >= 12 {
                    bytes[..4].copy_from_slice(&magic);
                    bytes[8..12].copy_from_slice(&[1, 0, 0, 0]);
                }
                for found in [parse_tail(&bytes), parse_block(&bytes, BLOCK, &superblock)]
                    .into_iter()
                    .flatten()
                {
                    // Lists may not give more than the bytes that they are in: no bombs (an
                    // access list grows to twice).
                    let found = found.attributes.iter();
                    let total: usize = found.map(|attribute| attribute.value.len()).sum();
                    prop_assert!(total <= 2 * bytes.len());
                }
                let _ = reference_count(&bytes);
            }
        }
    }
}

#[test]
fn names_are_judged_as_system_calls_judge_them() {
    let long = [b"user.".as_slice(), &[b'x'; 250]].concat();
    assert_eq!(check_name(&long), Ok(()));
    assert_eq!(check_name(&[long.as_slice(), b"x"].concat()), Err(AttributeError::BadName));
    for good in
        ["user.a", "trusted.overlay.opaque", "security.capability", "system.posix_acl_access"]
    {
        assert_eq!(check_name(good.as_bytes()), Ok(()), "{good}");
    }
    for (bad, error) in [
        ("user.", AttributeError::BadName),
        ("user.a\0b", AttributeError::BadName),
        ("user", AttributeError::UnknownPrefix),
        ("", AttributeError::UnknownPrefix),
        ("os2.x", AttributeError::UnknownPrefix),
        ("system.data", AttributeError::UnknownPrefix),
        ("system.other", AttributeError::UnknownPrefix),
        ("system.richacl", AttributeError::UnknownPrefix),
    ] {
        assert_eq!(check_name(bad.as_bytes()), Err(error), "{bad:?}");
    }
}

#[test]
fn lists_that_cannot_be_kept_are_refused() {
    let superblock = superblock(12, false);
    let place = |list: &[Attribute]| place(list, 96, &superblock).map(|_| ());
    let same = attribute(b"user.a", b"1");
    assert_eq!(
        place(&[same.clone(), attribute(b"user.b", b""), same]),
        Err(AttributeError::BadName)
    );
    assert_eq!(place(&[attribute(b"system.data", b"1")]), Err(AttributeError::UnknownPrefix));
    assert_eq!(
        place(&[attribute(b"system.posix_acl_access", b"1")]),
        Err(AttributeError::BadAccessList)
    );
    assert_eq!(place(&[attribute(b"user.a", &[0; 4096])]), Err(AttributeError::NoRoom));
    assert_eq!(place(&[attribute(b"user.a", &[0; 4096 - 36 - 20])]), Ok(()));
}

#[test]
fn entries_are_hashed_and_sorted_as_in_a_block_of_the_kernel() {
    let superblock = superblock(12, false);
    let list = [
        attribute(b"user.longer", b"x"),
        attribute(b"trusted.z", b"abc def"),
        attribute(b"user.b", b""),
    ];
    let placed = place(&list, 0, &superblock).unwrap();
    let block = placed.block.unwrap();
    let names: Vec<_> = parse_block(&block, BLOCK, &superblock)
        .unwrap()
        .attributes
        .into_iter()
        .map(|found| found.name)
        .collect();
    assert_eq!(names, [b"user.b".as_slice(), b"user.longer", b"trusted.z"]);
    // "b" without a value: the hash is the name's, 0x62.
    assert_eq!(block[32..48], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x62, 0, 0, 0]);
}

#[test]
fn values_in_inodes_of_their_own_are_found_by_their_number() {
    let superblock = superblock(12, false);
    let mut tail = place(&[attribute(b"user.a", b"1")], 96, &superblock).unwrap().tail;
    tail[4 + 4] = 13;
    let list = parse_tail(&tail).unwrap();
    assert_eq!(list.attributes, [attribute(b"user.a", b"")]);
    let [distant] = list.distant.as_slice() else { panic!("{:?}", list.distant) };
    assert_eq!((distant.at, distant.ino, distant.bytes), (0, Ino(13), 1));
    assert_eq!(distant.attribute(b"z"), Ok(attribute(b"user.a", b"z")));
    // A value of more than 64 KiB.
    tail[4 + 8..4 + 12].copy_from_slice(&[1, 0, 1, 0]);
    let field = "value size";
    assert!(matches!(parse_tail(&tail), Err(Fault::Field { field: f, .. }) if f == field));
}

#[test]
fn what_no_system_call_gives_is_counted_and_left_out() {
    let superblock = superblock(12, false);
    let list = [attribute(b"user.data", b"more"), attribute(b"user.a", b"1")];
    let mut tail = place(&list, 96, &superblock).unwrap().tail;
    let entry = tail.windows(4).position(|bytes| bytes == b"data").unwrap() - 16;
    tail[entry + 1] = 7;
    let found = parse_tail(&tail).unwrap();
    assert_eq!((found.attributes.as_slice(), found.hidden), (&list[1..], 1));
    let rest = inline_rest(&tail).unwrap().unwrap();
    assert_eq!(&tail[rest], b"more");
    // Its value ends after the list.
    let mut beyond = tail.clone();
    beyond[entry + 8] = 200;
    assert!(inline_rest(&beyond).is_err());
    let without = place(&list[1..], 96, &superblock).unwrap().tail;
    assert_eq!((inline_rest(&without), inline_rest(&[])), (Ok(None), Ok(None)));
}

#[test]
fn values_that_overlap_are_refused() {
    // Hundreds of entries that all mean the same two kilobytes: a small block that would become a
    // large list.
    let superblock = superblock(12, false);
    let mut block =
        place(&[attribute(b"user.a", &[7; 2048])], 0, &superblock).unwrap().block.unwrap();
    let entry: [u8; 20] = block[32..52].try_into().unwrap();
    assert!(parse_block(&block, BLOCK, &superblock).is_ok());
    for at in 1..=90 {
        block[32 + at * 20..][..20].copy_from_slice(&entry);
        block[32 + at * 20 + 17..][..2].copy_from_slice(&[b'a' + at as u8 % 26, 1]);
    }
    let verdict = parse_block(&block, BLOCK, &superblock);
    assert!(
        matches!(verdict, Err(Fault::Field { field: "value size", value: 2048, .. })),
        "{verdict:?}"
    );
}
