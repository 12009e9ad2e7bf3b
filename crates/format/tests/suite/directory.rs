//! Directory blocks against a model: a leaf is a map from names to inodes, an index a list of
//! pairs.
use extant_format::directory::{Entry, Form, IndexPlace, NAME_MAX, Style};
use extant_format::inode::FileType;
use extant_format::superblock::HashVersion;
use extant_format::{Fault, FileBlock, Ino};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TYPES: [FileType; 7] = [
    FileType::Fifo,
    FileType::CharacterDevice,
    FileType::Directory,
    FileType::BlockDevice,
    FileType::Regular,
    FileType::Symlink,
    FileType::Socket,
];

fn styles() -> impl Strategy<Value = Style> {
    (10_u32..=16, any::<bool>(), any::<bool>()).prop_map(|(log2, typed, checksummed)| Style {
        block_size: 1 << log2,
        typed,
        checksummed,
    })
}

/// Small blocks: they fill up.
fn small_styles() -> impl Strategy<Value = Style> {
    styles().prop_map(|style| Style { block_size: 1024, ..style })
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no slash, no zero", |byte| ![0, b'/'].contains(byte));
    // Few short names, so that the same one comes again; and some long ones.
    prop_oneof![3 => "[a-c]{1,2}".prop_map(String::into_bytes), 1 => vec(byte, 1..=NAME_MAX)]
}

fn block(style: Style) -> Vec<u8> {
    let mut bytes = vec![0xa5; style.block_size as usize];
    style.initialize(&mut bytes);
    bytes
}

/// A record length, decoded here once more: the oracle for the chain.
fn length_at(bytes: &[u8], offset: usize) -> usize {
    match u16::from_le_bytes([bytes[offset + 4], bytes[offset + 5]]) {
        0xffff | 0 if bytes.len() == 0x1_0000 => 0x1_0000,
        length => usize::from(length),
    }
}

/// The chain covers the block up to the tail exactly, and entries() gives what the model has.
fn assert_holds(style: Style, bytes: &[u8], model: &BTreeMap<Vec<u8>, (Ino, FileType)>) {
    let mut offset = 0;
    while offset < style.leaf_capacity() {
        let length = length_at(bytes, offset);
        assert!(length >= 12 && length.is_multiple_of(4), "a record of {length} bytes at {offset}");
        offset += length;
    }
    assert_eq!(offset, style.leaf_capacity());
    let entries: Vec<Entry> = style.entries(bytes).collect::<Result<_, _>>().unwrap();
    let found: BTreeMap<_, _> =
        entries.iter().map(|entry| (entry.name.to_vec(), (entry.ino, entry.file_type))).collect();
    let wanted: BTreeMap<_, _> = model
        .iter()
        .map(|(name, (ino, kind))| (name.clone(), (*ino, style.typed.then_some(*kind))))
        .collect();
    assert_eq!(entries.len(), model.len());
    assert_eq!(found, wanted);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, u32, usize),
    Remove(Vec<u8>),
    Replace(Vec<u8>, u32, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (names(), 1..u32::MAX, 0..7_usize)
            .prop_map(|(name, ino, kind)| Step::Insert(name, ino, kind)),
        2 => names().prop_map(Step::Remove),
        1 => (names(), 1..u32::MAX, 0..7_usize)
            .prop_map(|(name, ino, kind)| Step::Replace(name, ino, kind)),
    ];
    vec(step, 0..120)
}

/// The most bytes that one record of the block can give, from the bytes themselves.
fn largest_gap(style: Style, bytes: &[u8]) -> usize {
    let (mut offset, mut gap) = (0, 0);
    while offset < style.leaf_capacity() {
        let is_used = bytes[offset..offset + 4] != [0; 4];
        let used = if is_used { style.entry_size(usize::from(bytes[offset + 6])) } else { 0 };
        gap = gap.max(length_at(bytes, offset) - used);
        offset += length_at(bytes, offset);
    }
    gap
}

proptest! {
    #[test]
    fn a_leaf_is_a_map(style in small_styles(), steps in steps()) {
        let mut bytes = block(style);
        let mut model = BTreeMap::new();
        assert_holds(style, &bytes, &model);
        for step in steps {
            match step {
                Step::Insert(name, ino, kind) if !model.contains_key(&name) => {
                    let fits = largest_gap(style, &bytes) >= style.entry_size(name.len());
                    prop_assert_eq!(style.has_room(&bytes, name.len()), Ok(fits));
                    prop_assert_eq!(
                        style.insert(&mut bytes, &name, Ino(ino), TYPES[kind]),
                        Ok(fits)
                    );
                    if fits {
                        model.insert(name, (Ino(ino), TYPES[kind]));
                    }
                }
                Step::Insert(name, ..) | Step::Remove(name) => {
                    let was_there = model.remove(&name).is_some();
                    prop_assert_eq!(style.remove(&mut bytes, &name), Ok(was_there));
                    prop_assert_eq!(style.find(&bytes, &name), Ok(None));
                }
                Step::Replace(name, ino, kind) => {
                    let slot = model.get_mut(&name);
                    prop_assert_eq!(
                        style.replace(&mut bytes, &name, Ino(ino), TYPES[kind]),
                        Ok(slot.is_some())
                    );
                    if let Some(slot) = slot {
                        *slot = (Ino(ino), TYPES[kind]);
                    }
                }
            }
            assert_holds(style, &bytes, &model);
            for (name, (ino, _)) in &model {
                prop_assert_eq!(
                    style.find(&bytes, name).unwrap().map(|entry| entry.ino),
                    Some(*ino)
                );
            }
        }
        for name in model.keys() {
            prop_assert_eq!(style.remove(&mut bytes, name), Ok(true));
        }
        prop_assert_eq!(
            bytes.len() - style.leaf_capacity(),
            if style.checksummed { 12 } else { 0 }
        );
        assert_holds(style, &bytes, &BTreeMap::new());
    }

    #[test]
    fn packed_entries_come_back_in_order(style in styles(), names in vec(names(), 0..40)) {
        let mut bytes = vec![0x5a; style.block_size as usize];
        let mut room = style.leaf_capacity();
        let mut entries: Vec<(&[u8], Ino, FileType)> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if room >= style.entry_size(name.len()) {
                room -= style.entry_size(name.len());
                entries.push((name, Ino(at as u32 + 1), TYPES[at % 7]));
            }
        }
        style.pack(&mut bytes, entries.iter().copied());
        let found: Vec<_> =
            style.entries(&bytes).map(|entry| entry.map(|entry| (entry.name, entry.ino))).collect();
        let wanted: Vec<_> = entries.iter().map(|(name, ino, _)| Ok((*name, *ino))).collect();
        prop_assert_eq!(found, wanted);
        // Nothing of what was there shows through: the same entries, the same bytes.
        let mut again = vec![0; style.block_size as usize];
        style.pack(&mut again, entries.iter().copied());
        prop_assert_eq!(bytes, again);
    }

    #[test]
    fn sealed_leaves_verify_and_a_flipped_bit_does_not(
        style in styles(),
        seed in any::<u32>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
        indexed in any::<bool>(),
    ) {
        let style = Style { checksummed: true, ..style };
        let mut bytes = block(style);
        style.insert(&mut bytes, b"name", Ino(12), FileType::Regular).unwrap();
        let place = FileBlock(u32::from(indexed));
        style.seal(&mut bytes, place, form(indexed), seed);
        prop_assert_eq!(style.verify(&bytes, place, form(indexed), seed), Ok(()));
        bytes[at.index(style.block_size as usize)] ^= 1_u8 << bit;
        prop_assert!(style.verify(&bytes, place, form(indexed), seed).is_err());
    }

    #[test]
    fn sealed_indexes_verify_and_a_flipped_bit_does_not(
        style in styles(),
        seed in any::<u32>(),
        count in 1..100_usize,
        at in any::<prop::sample::Index>(),
        bit in 0..8,
        is_root in any::<bool>(),
    ) {
        let style = Style { checksummed: true, ..style };
        let mut bytes = vec![0x33; style.block_size as usize];
        let entries: Vec<_> = (0..count as u32).map(|at| (at * 1000, FileBlock(at + 1))).collect();
        let (place, file_block) =
            if is_root { (IndexPlace::Root, 0) } else { (IndexPlace::Node, 7) };
        if is_root {
            style.initialize_root(&mut bytes, Ino(12), Ino(2), HashVersion::Tea, FileBlock(1));
        } else {
            style.initialize_node(&mut bytes);
        }
        style.set_index(&mut bytes, place, &entries);
        style.seal(&mut bytes, FileBlock(file_block), Form::Indexed, seed);
        prop_assert_eq!(style.verify(&bytes, FileBlock(file_block), Form::Indexed, seed), Ok(()));
        let start = if is_root { 32 } else { 8 };
        // Covered are the entries in use and the tail; the unused places between are not.
        let tail = start + style.index_capacity(place) * 8;
        let covered: Vec<usize> = (0..start + count * 8).chain(tail..tail + 8).collect();
        bytes[covered[at.index(covered.len())]] ^= 1_u8 << bit;
        prop_assert!(style.verify(&bytes, FileBlock(file_block), Form::Indexed, seed).is_err());
    }

    #[test]
    fn an_index_is_a_sorted_list(
        style in small_styles(),
        is_root in any::<bool>(),
        inserts in vec((any::<u32>(), 1..0x0fff_ffff_u32), 0..150),
        asked in vec(any::<u32>(), 20),
    ) {
        let mut bytes = vec![0x33; style.block_size as usize];
        let place = if is_root { IndexPlace::Root } else { IndexPlace::Node };
        if is_root {
            style.initialize_root(&mut bytes, Ino(12), Ino(2), HashVersion::HalfMd4, FileBlock(1));
        } else {
            style.initialize_node(&mut bytes);
            prop_assert!(style.node(&bytes).is_err(), "a node without entries is not usable");
            style.set_index(&mut bytes, place, &[(77, FileBlock(1))]);
        }
        let mut model = vec![(0, FileBlock(1))];
        for (hash, child) in inserts {
            let at = model.partition_point(|entry| entry.0 <= hash);
            if model.len() < style.index_capacity(place) {
                style.insert_index(&mut bytes, place, at, hash, FileBlock(child));
                model.insert(at, (hash, FileBlock(child)));
            }
        }
        let check = |bytes: &[u8], model: &[(u32, FileBlock)]| {
            let view =
                if is_root { style.root(bytes).unwrap().1 } else { style.node(bytes).unwrap() };
            let found: Vec<_> = (0..view.len()).map(|at| view.get(at)).collect();
            assert_eq!(found, model);
            for hash in asked.iter().copied().chain(model.iter().map(|entry| entry.0)) {
                assert_eq!(
                    view.find(hash),
                    model.iter().rposition(|entry| entry.0 <= hash).unwrap()
                );
            }
        };
        check(&bytes, &model);
        style.set_index(&mut bytes, place, &model[model.len() / 2..]);
        let mut upper = model[model.len() / 2..].to_vec();
        upper[0].0 = 0;
        check(&bytes, &upper);
        if is_root {
            style.set_levels(&mut bytes, 1);
            prop_assert_eq!(style.root(&bytes).unwrap().0.levels, 1);
            let names: Vec<_> = style.entries(&bytes).map(|entry| entry.unwrap().name).collect();
            prop_assert_eq!(names, [b".".as_slice(), b".."]);
            prop_assert_eq!(
                style.replace(&mut bytes, b"..", Ino(99), FileType::Directory),
                Ok(true)
            );
            check(&bytes, &upper);
        } else {
            prop_assert_eq!(style.entries(&bytes).count(), 0);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(
        style in small_styles(),
        mut bytes in vec(any::<u8>(), 1024),
        patches in patches(),
    ) {
        for (at, patch) in patches {
            bytes[at..at + patch.len()].copy_from_slice(&patch);
        }
        exercise(style, &mut bytes);
    }

    #[test]
    fn damaged_blocks_do_no_harm(
        style in small_styles(),
        kind in 0..3,
        damage in vec((0..1024_usize, any::<u8>()), 1..8),
    ) {
        let mut bytes = block(style);
        match kind {
            0 => {
                for at in 0..30_u8 {
                    style
                        .insert(
                            &mut bytes,
                            &[b'a' + at % 26; 5][..1 + usize::from(at % 5)],
                            Ino(u32::from(at) + 1),
                            FileType::Regular,
                        )
                        .unwrap();
                }
            }
            1 => style.initialize_root(
                &mut bytes,
                Ino(12),
                Ino(2),
                HashVersion::Legacy,
                FileBlock(1),
            ),
            _ => style.initialize_node(&mut bytes),
        }
        for (at, byte) in damage {
            bytes[at % 64 + if at > 900 { 960 } else { 0 }] = byte;
        }
        exercise(style, &mut bytes);
    }
}

/// Bytes that look like the fields of a block, at the places where they matter.
fn patches() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let at = (0..250_usize).prop_map(|at| at * 4);
    let value = prop_oneof![
        Just(vec![12, 0, 1, 2]),
        Just(vec![0, 4, 0, 0]),
        Just(vec![0, 0, 0, 0]),
        Just(vec![12, 0, 0, 0xde]),
        Just(vec![0xff, 0xff, 0xff, 0xff]),
        Just(vec![126, 0, 126, 0]),
    ];
    vec((at, value), 0..60)
}

/// Everything that takes bytes of a disk. What it gives does not matter; that it ends, without a
/// panic, does.
fn exercise(style: Style, bytes: &mut [u8]) {
    for style in [style, Style { block_size: 0x1_0000, ..style }] {
        for entry in style.entries(bytes).flatten() {
            assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && entry.ino != Ino(0));
        }
        let _ = style.find(bytes, b"name");
        let _ = style.has_room(bytes, 20);
        for view in
            [style.root(bytes).map(|(_, view)| view), style.node(bytes)].into_iter().flatten()
        {
            let _ = view.get(view.find(12345));
        }
        for (block, indexed) in [(0, true), (1, true), (0, false)] {
            let _ = style.verify(bytes, FileBlock(block), form(indexed), 1);
        }
    }
    let mut changed = bytes.to_vec();
    let _ = style.insert(&mut changed, b"name", Ino(12), FileType::Regular);
    let _ = style.remove(&mut changed, b"name");
    let mut changed = bytes.to_vec();
    let _ = style.replace(&mut changed, b"..", Ino(12), FileType::Regular);
}

#[test]
fn records_of_64_kib_are_stored_specially() {
    let style = Style { block_size: 0x1_0000, typed: true, checksummed: false };
    let mut bytes = block(style);
    assert_eq!(bytes[4..6], [0xff, 0xff]);
    assert_eq!(style.insert(&mut bytes, b"x", Ino(12), FileType::Regular), Ok(true));
    assert_eq!(style.remove(&mut bytes, b"x"), Ok(true));
    assert_eq!(bytes[4..6], [0xff, 0xff]);
    bytes[4..6].fill(0);
    assert_eq!(style.entries(&bytes).count(), 0);
    assert_eq!(style.has_room(&bytes, 255), Ok(true));
    // 65,536 + 4, as the low bits would say it.
    bytes[4..6].copy_from_slice(&[5, 0]);
    assert_eq!(
        style.has_room(&bytes, 1).map_err(|fault| fault.to_string()),
        Err("directory entry: length 65540 is beyond the end of the block".into())
    );
}

#[test]
fn a_first_block_has_two_entries() {
    for checksummed in [false, true] {
        let style = Style { block_size: 1024, typed: true, checksummed };
        let mut bytes = vec![0x77; 1024];
        style.initialize_first(&mut bytes, Ino(12), Ino(2));
        let entries: Vec<_> = style.entries(&bytes).map(Result::unwrap).collect();
        let directory = Some(FileType::Directory);
        assert_eq!(entries[0], Entry { offset: 0, ino: Ino(12), file_type: directory, name: b"." });
        assert_eq!(
            entries[1],
            Entry { offset: 12, ino: Ino(2), file_type: directory, name: b".." }
        );
        assert_eq!(entries.len(), 2);
    }
}

#[test]
fn a_missing_tail_is_a_checksum_fault() {
    let without = Style { block_size: 1024, typed: true, checksummed: false };
    let bytes = block(without);
    let style = Style { checksummed: true, ..without };
    for (file_block, indexed) in [(0, false), (1, false)] {
        let verdict = style.verify(&bytes, FileBlock(file_block), form(indexed), 0);
        assert!(
            matches!(verdict, Err(Fault::Checksum { structure: "directory block", .. })),
            "{verdict:?}"
        );
    }
    assert_eq!(without.verify(&bytes, FileBlock(0), Form::Linear, 0), Ok(()));
}

#[test]
fn roots_that_nobody_knows_are_refused() {
    let style = Style { block_size: 1024, typed: true, checksummed: true };
    let mut good = vec![0; 1024];
    style.initialize_root(&mut good, Ino(12), Ino(2), HashVersion::Tea, FileBlock(1));
    assert_eq!(style.root(&good).unwrap().0.hash, HashVersion::Tea);
    let cases = [
        (24, 1, "reserved word"),
        (28, 3, "hash version"),
        (29, 7, "information length"),
        (30, 3, "levels"),
    ];
    let more = [
        (31, 1, "flags"),
        (4, 16, "length of \".\""),
        (32, 9, "limit"),
        (34, 0, "count"),
        (34, 200, "count"),
    ];
    for (offset, value, field) in cases.into_iter().chain(more) {
        let mut bytes = good.clone();
        bytes[offset] = value;
        match style.root(&bytes) {
            Err(Fault::Field { field: found, .. }) => assert_eq!(found, field),
            other => panic!("byte {offset} = {value}: {other:?}"),
        }
    }
}

#[test]
fn names_that_no_path_can_hold_are_faults() {
    let style = Style { block_size: 1024, typed: true, checksummed: false };
    for bad in [b"../x".as_slice(), b"a\0b"] {
        let mut bytes = block(style);
        style.pack(
            &mut bytes,
            [(b"good".as_slice(), Ino(12), FileType::Regular), (bad, Ino(13), FileType::Regular)]
                .into_iter(),
        );
        let found: Vec<_> = style.entries(&bytes).collect();
        assert!(
            matches!(found.as_slice(), [Ok(_), Err(Fault::Field { field: "name", .. })]),
            "{found:?}"
        );
    }
}

fn form(indexed: bool) -> Form {
    if indexed { Form::Indexed } else { Form::Linear }
}
