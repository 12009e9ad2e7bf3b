//! Superblock, descriptors, inodes and bitmaps: what is written is read back, and no bytes make a
//! reader panic.
use extant_format::checksum::{crc16, crc32c};
use extant_format::group::GroupDescriptor;
use extant_format::inode::{Device, FileType, Inode, Time, flags};
use extant_format::layout::{Inodes, Layout, Marks, Packing, Wishes};
use extant_format::superblock::{
    Feature, Features, HashVersion, MappingKind, SUPERBLOCK_SIZE, Superblock, SuperblockError,
};
use extant_format::{BlockNo, Fault, GroupNo, Ino, bitmap};
use proptest::prelude::*;

fn features(names: &str) -> Features {
    let mut features = Features::default();
    for name in names.split(',') {
        features.set(Feature::from_name(name).expect("a feature"));
    }
    features
}

fn wishes(block_size: u32, blocks: u64, names: &str) -> Wishes {
    Wishes {
        block_size,
        blocks,
        features: features(names),
        inode_size: 256,
        inodes: Inodes::BytesPerInode(16384),
        reserved_ratio: 0.05,
        flex_groups: 16,
        blocks_per_group: None,
        resize_to_blocks: None,
        uuid: *b"0123456789abcdef",
        hash_seed: [1, 2, 3, 4],
        hash_version: HashVersion::HalfMd4,
        label: [0; 16],
        created_seconds: 1_700_000_000,
        stride: 0,
        stripe_width: 0,
        marks: Marks::default(),
        descriptor_size: None,
        copies: 2,
        packing: Packing::FlexGroups,
        cluster_size: None,
        bad_blocks: Vec::new(),
    }
}

const EXT2: &str = "ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file";
const EXT4: &str = "ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
                    large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
const UNINIT: &str = "ext_attr,filetype,sparse_super,large_file,uninit_bg";

fn superblock(names: &str) -> Superblock {
    Layout::new(&wishes(4096, 100_000, names)).expect("a layout").superblock
}

fn superblocks() -> impl Strategy<Value = Superblock> {
    let block_size = prop::sample::select(vec![1024, 2048, 4096, 65536]);
    (block_size, 20_000u64..400_000, prop::sample::select(vec![EXT2, EXT4, UNINIT])).prop_map(
        |(size, blocks, names)| {
            Layout::new(&wishes(size, blocks, names)).expect("a layout").superblock
        },
    )
}

#[test]
fn checksums_have_their_known_values() {
    // The published check values for the nine digits; raw, without a last inversion.
    assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    assert_eq!(crc16(!0, b"123456789"), 0x4b37);
    assert_eq!(crc32c(crc32c(!0, b"1234"), b"56789"), crc32c(!0, b"123456789"));
}

#[test]
fn features_have_the_names_of_mke2fs() {
    let expected = "ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super \
        large_file huge_file \
                    dir_nlink extra_isize metadata_csum";
    let names: Vec<String> = features(EXT4).iter().map(Feature::name).collect();
    assert_eq!(names.join(" "), expected);
    assert_eq!(Feature::from_name("gdt_csum"), Some(Feature::UNINIT_BG));
    assert_eq!(Feature::from_name("extents"), Some(Feature::EXTENTS));
    assert_eq!(Feature::from_name("nonsense"), None);
    assert_eq!(Feature::from_name("FEATURE_C40"), None);
    assert_eq!(Feature::Incompat(1 << 31).name(), "FEATURE_I31");
    let odd =
        features("bigalloc,inline_data,encrypt,casefold,meta_bg,FEATURE_R30,large_dir,extent");
    let unwritten = ["casefold", "FEATURE_R30"];
    assert_eq!(odd.unwritten(), unwritten);
    assert!(odd.unread().is_empty());
    assert_eq!(features("compression,FEATURE_I20,quota").unread(), ["compression", "FEATURE_I20"]);
    let mut cleared = features("extent,casefold");
    cleared.clear(Feature::from_name("casefold").expect("known, though not written"));
    assert_eq!(cleared, features("extent"));
}

#[test]
fn every_feature_is_named_both_ways() {
    for bit in (0..32).map(|shift| 1u32 << shift) {
        for feature in [Feature::Compat(bit), Feature::Incompat(bit), Feature::RoCompat(bit)] {
            assert_eq!(Feature::from_name(&feature.name()), Some(feature));
        }
    }
}

/// A volume with one field spoilt, and what is said about it.
#[test]
fn superblocks_are_refused_for_a_reason() {
    type Spoil = fn(&mut Superblock);
    let table: [(Spoil, &str); 12] = [
        (|s| s.block_size_log2 = 17, "log2 of the block size in KiB"),
        (|s| s.first_data_block = 1, "first data block"),
        (|s| s.blocks_count = 0, "block count"),
        (|s| s.blocks_per_group = 0, "blocks per group"),
        (|s| s.blocks_per_group = 32769, "blocks per group"),
        (|s| s.inodes_per_group = 0, "inodes per group"),
        (|s| s.inodes_per_group = 40_000, "inodes per group"),
        (|s| s.inodes_count += 1, "inode count"),
        (|s| s.inode_size = 0, "inode size"),
        (|s| s.inode_size = 8192, "inode size"),
        (|s| s.first_inode = 2, "first inode"),
        (|s| s.reserved_gdt_blocks = 1025, "reserved descriptor blocks"),
    ];
    for (spoil, expected) in table {
        let mut spoilt = superblock(EXT2);
        spoil(&mut spoilt);
        match Superblock::parse(&spoilt.encode()) {
            Err(SuperblockError::Fault(Fault::Field { field, .. })) => assert_eq!(field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let mut zero = superblock(EXT4);
    zero.descriptor_size = 0;
    assert!(matches!(
        Superblock::parse(&zero.encode()),
        Err(SuperblockError::Fault(Fault::Field { .. }))
    ));
    assert_eq!(Superblock::parse(&[0; SUPERBLOCK_SIZE]).err(), Some(SuperblockError::NotExt));
}

#[test]
fn unsupported_features_are_named_and_can_be_shown() {
    let mut odd = superblock(EXT4);
    odd.features.set(Feature::from_name("compression").expect("known"));
    let bytes = odd.encode();
    assert_eq!(
        Superblock::parse(&bytes).err(),
        Some(SuperblockError::Unsupported(vec!["compression".to_owned()]))
    );
    assert!(
        Superblock::parse_any(&bytes)
            .expect("shown")
            .has(Feature::from_name("compression").expect("known"))
    );
}

/// Measured on Linux 6.18 with files made as long as they could be.
#[test]
fn files_are_as_large_as_the_kernel_has_them() {
    let table = [
        (1024, "filetype,sparse_super,large_file", MappingKind::Indirect, 17_247_252_480),
        (2048, "filetype,sparse_super,large_file", MappingKind::Indirect, 275_415_851_008),
        (4096, "filetype,sparse_super,large_file", MappingKind::Indirect, 2_196_873_666_560),
        (4096, "filetype,sparse_super,huge_file", MappingKind::Indirect, 4_402_345_721_856),
        (1024, EXT4, MappingKind::Extents, 4_398_046_510_080),
        (4096, EXT4, MappingKind::Extents, 17_592_186_040_320),
        (4096, "filetype,extent,sparse_super", MappingKind::Extents, 2_199_023_251_456),
    ];
    for (block_size, names, kind, expected) in table {
        let superblock =
            Layout::new(&wishes(block_size, 100_000, names)).expect("a layout").superblock;
        assert_eq!(superblock.max_file_size(kind), expected, "{block_size} {names}");
    }
}

#[test]
fn copies_stand_in_powers_of_three_five_and_seven() {
    let sparse = Layout::new(&wishes(1024, 8192 * 130, EXT2)).expect("a layout").superblock;
    let copies: Vec<u32> = (0..130).filter(|group| sparse.has_super(GroupNo(*group))).collect();
    assert_eq!(copies, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    let all = Layout::new(&wishes(1024, 8192 * 20, "filetype")).expect("a layout").superblock;
    assert!((0..20).all(|group| all.has_super(GroupNo(group))));
}

#[test]
fn wishes_that_cannot_be_met_say_why_with_numbers() {
    let tiny = Wishes {
        inodes: Inodes::AtLeast(12),
        inode_size: 128,
        ..wishes(1024, 16, "filetype,sparse_super")
    };
    let layout = Layout::new(&tiny).expect("16 blocks are enough");
    assert_eq!(layout.superblock.blocks_count, 16);
    assert!(layout.superblock.free_blocks >= 8, "{}", layout.superblock.free_blocks);
    type Spoil = fn(&mut Wishes);
    let table: [(Spoil, &str); 14] = [
        (|w| w.block_size = 3000, "3000"),
        (|w| w.inode_size = 100, "100"),
        (|w| w.inode_size = 2048, "2048"),
        (|w| w.blocks = 0, "0 blocks"),
        (|w| w.blocks = 4, "4 blocks"),
        (|w| w.blocks = (1 << 48) + 1, "281474976710657"),
        (|w| w.blocks_per_group = Some(100), "100 blocks per group"),
        (|w| w.inodes = Inodes::AtLeast(1 << 33), "8589934592"),
        (|w| w.inodes = Inodes::BytesPerInode(0), "0 bytes"),
        (|w| w.reserved_ratio = f64::NAN, "NaN"),
        (|w| w.features.set(Feature::SHARED_BLOCKS), "shared_blocks"),
        (|w| w.features.set(Feature::JOURNAL_DEV), "journal_dev"),
        (|w| w.features.set(Feature::META_BG), "exclude each other"),
        (|w| w.cluster_size = Some(65536), "bigalloc"),
    ];
    for (spoil, expected) in table {
        let mut wish = wishes(4096, 100_000, EXT4);
        spoil(&mut wish);
        let text = Layout::new(&wish).expect_err("an impossible wish").0;
        assert!(text.contains(expected) && !text.contains('\n'), "{text} should name {expected}");
    }
}

#[test]
fn large_volumes_take_time_in_groups_only() {
    let layout = Layout::new(&wishes(4096, 1 << 35, EXT4)).expect("128 TiB");
    assert_eq!(layout.descriptors.len(), 1 << 20);
    assert_eq!(layout.superblock.reserved_gdt_blocks, 0);
    // One flex group, with a copy of all descriptors in the way of every table.
    let one_flex_group =
        Wishes { flex_groups: 1 << 31, ..wishes(1024, 1 << 28, "filetype,extent,flex_bg,64bit") };
    let layout = Layout::new(&one_flex_group).expect("256 GiB");
    assert_eq!(layout.descriptors.len(), 1 << 15);
}

fn times(extra: bool) -> impl Strategy<Value = Time> {
    let most = if extra { i64::from(i32::MAX) + 3 * (1i64 << 32) } else { i32::MAX.into() };
    let nanoseconds = if extra { 0..1_000_000_000u32 } else { 0..1 };
    (i64::from(i32::MIN)..=most, nanoseconds)
        .prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds })
}

/// An inode that can be kept as it is in 256 bytes.
fn inodes() -> impl Strategy<Value = Inode> {
    let ids = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u16>());
    let when = (times(true), times(true), times(true), times(true), any::<u32>());
    let rest =
        (0u64..1 << 48, any::<u32>(), any::<u32>(), any::<u64>(), 0u64..1 << 48, any::<u32>());
    let bytes = (prop::array::uniform32(any::<u8>()), prop::collection::vec(any::<u8>(), 96));
    (ids, when, rest, bytes).prop_map(|((mode, uid, gid, size, links), when, rest, bytes)| {
        let regular = FileType::from_mode(mode) == Some(FileType::Regular);
        let mut block = [0; 60];
        block[..32].copy_from_slice(&bytes.0);
        Inode {
            mode,
            uid,
            gid,
            size: if regular { size } else { size & 0xffff_ffff },
            access_time: when.0,
            change_time: when.1,
            modify_time: when.2,
            create_time: Some(when.3),
            deletion_time: when.4,
            links,
            sectors: rest.0,
            flags: rest.1 & !flags::HUGE_FILE,
            generation: rest.2,
            version: rest.3,
            attribute_block: BlockNo(rest.4),
            project: rest.5,
            block,
            extra_isize: 32,
            tail: bytes.1,
        }
    })
}

fn descriptors(superblock: &Superblock) -> impl Strategy<Value = GroupDescriptor> + use<> {
    let least =
        u64::from(superblock.first_data_block) + 1 + u64::from(superblock.descriptor_blocks());
    let block = least..superblock.blocks_count;
    let table = least..superblock.blocks_count - u64::from(superblock.inode_table_blocks());
    let places = (block.clone(), block, table);
    let sums = (any::<u16>(), any::<u16>());
    (places, any::<[u16; 3]>(), 0u16..8, 0..=superblock.inodes_per_group, sums).prop_map(
        |(places, counts, flags, unused_inodes, sums)| GroupDescriptor {
            block_bitmap: BlockNo(places.0),
            inode_bitmap: BlockNo(places.1),
            inode_table: BlockNo(places.2),
            free_blocks: counts[0].into(),
            free_inodes: counts[1].into(),
            used_directories: counts[2].into(),
            flags,
            unused_inodes,
            block_bitmap_checksum: sums.0.into(),
            inode_bitmap_checksum: sums.1.into(),
            exclude_bitmap: BlockNo(0),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn superblocks_come_back(
        mut superblock in superblocks(),
        seconds in 0u64..1 << 40,
        word in any::<u32>(),
        label in any::<[u8; 16]>(),
        version in 0u8..3,
        unsigned in any::<bool>(),
    ) {
        superblock.created_seconds = seconds;
        superblock.written_seconds = seconds / 2;
        superblock.mounted_seconds = seconds / 3;
        superblock.checked_seconds = seconds / 5;
        superblock.free_inodes = word;
        superblock.last_orphan = word.rotate_left(3);
        superblock.journal_backup = [word; 17];
        superblock.label = label;
        superblock.hash_version = HashVersion::from_code(version).expect("one of three");
        superblock.hash_unsigned = unsigned;
        let bytes = superblock.encode();
        let read = Superblock::parse(&bytes).expect("what we wrote");
        prop_assert_eq!(read.encode(), bytes);
        // The raw bytes of the two differ before encoding; every field is the same.
        let fields = |superblock: &Superblock| {
            let text = format!("{superblock:?}");
            text.split_once("features: Features").expect("the first field").1.to_owned()
        };
        prop_assert_eq!(fields(&Superblock::parse(&read.encode()).expect("again")), fields(&read));
        prop_assert_eq!((read.created_seconds, read.checked_seconds), (seconds, seconds / 5));
        prop_assert_eq!(
            (read.hash_version, read.hash_unsigned),
            (superblock.hash_version, unsigned)
        );
        prop_assert_eq!(
            (read.free_inodes, read.label, read.free_blocks),
            (word, label, superblock.free_blocks)
        );
    }

    #[test]
    fn a_flipped_bit_is_noticed_under_checksums(bit in 0usize..SUPERBLOCK_SIZE * 8) {
        let mut bytes = superblock(EXT4).encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // All but the bit that says that there are checksums.
        prop_assert!(Superblock::parse(&bytes).is_err() || bit == 0x64 * 8 + 10);
    }

    #[test]
    fn random_bytes_make_no_superblock_panic(
        mut bytes in prop::collection::vec(any::<u8>(), SUPERBLOCK_SIZE),
        sane in any::<bool>(),
        at in 0usize..SUPERBLOCK_SIZE,
        byte in any::<u8>(),
    ) {
        bytes[0x38..0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
        if sane {
            bytes.copy_from_slice(&superblock(EXT2).encode());
            bytes[at] = byte;
        }
        let bytes: [u8; SUPERBLOCK_SIZE] = bytes.try_into().expect("as long as asked");
        for read in [Superblock::parse(&bytes), Superblock::parse_any(&bytes)].into_iter().flatten()
        {
            prop_assert!(read.group_count() > 0 && read.inode_table_blocks() > 0);
            let last = GroupNo(read.group_count() - 1);
            prop_assert!(read.group_length(last) > 0);
            prop_assert_eq!(read.group_of_block(read.group_start(last)), Some(last));
            let (_, offset) = read.descriptor_place(last);
            prop_assert!(offset + usize::from(read.descriptor_size) <= read.block_size() as usize);
            prop_assert_eq!(
                read.group_of_inode(Ino(read.inodes_count)).map(|place| place.0),
                Some(last)
            );
            prop_assert_eq!(read.group_of_inode(Ino(0)), None);
            read.max_file_size(MappingKind::Indirect);
        }
    }

    #[test]
    fn descriptors_come_back(
        names in prop::sample::select(vec![EXT2, EXT4, UNINIT]),
        number in 0u32..3,
        (descriptor, flip) in descriptors(&superblock(EXT4))
            .prop_flat_map(|descriptor| (Just(descriptor), 0usize..256)),
    ) {
        let superblock = superblock(names);
        let mut bytes = vec![0; superblock.descriptor_size.into()];
        descriptor.encode(&mut bytes, GroupNo(number), &superblock);
        let mut expected = descriptor;
        if !superblock.has_descriptor_checksums() {
            expected.flags &= 4;
            expected.unused_inodes = 0;
        }
        if GroupDescriptor::parse(&bytes, GroupNo(number), &superblock) != Ok(expected) {
            // The place that was drawn for the ext4 volume may be taken in the other ones.
            prop_assert!(names != EXT4);
            prop_assert_eq!(GroupDescriptor::decode(&bytes, &superblock), descriptor);
        }
        if superblock.has_descriptor_checksums() {
            bytes[flip / 8] ^= 1 << (flip % 8);
            let noticed = GroupDescriptor::parse(&bytes, GroupNo(number), &superblock);
            prop_assert!(matches!(noticed, Err(Fault::Checksum { .. })), "{:?}", noticed);
        }
    }

    #[test]
    fn random_bytes_make_no_descriptor_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..130),
        number in any::<u32>(),
    ) {
        for names in [EXT2, EXT4, UNINIT] {
            let superblock = superblock(names);
            if let Ok(read) = GroupDescriptor::parse(&bytes, GroupNo(number), &superblock) {
                prop_assert!(read.inode_table.0 < superblock.blocks_count);
            }
            let mut bytes = bytes.clone();
            GroupDescriptor::decode(&bytes, &superblock).encode(
                &mut bytes,
                GroupNo(number),
                &superblock,
            );
        }
    }

    #[test]
    fn inodes_come_back(inode in inodes(), number in 1u32..1000, flip in 0usize..2048) {
        let superblock = superblock(EXT4);
        let mut bytes = vec![0xff; 256];
        inode.encode(&mut bytes, Ino(number), &superblock);
        prop_assert_eq!(Inode::parse(&bytes, Ino(number), &superblock), Ok(inode.clone()));
        bytes[flip / 8] ^= 1 << (flip % 8);
        // A flip in extra_isize may take the high half of the checksum away; the low half still
        // notices most.
        if flip / 8 != 0x80 && flip / 8 != 0x81 {
            prop_assert!(Inode::parse(&bytes, Ino(number), &superblock).is_err());
        }
    }

    #[test]
    fn small_inodes_keep_what_they_can(inode in inodes(), number in 1u32..1000) {
        let superblock = superblock(EXT2);
        let mut bytes = [0xff; 128];
        inode.encode(&mut bytes, Ino(number), &superblock);
        let read = Inode::parse(&bytes, Ino(number), &superblock).expect("what we wrote");
        prop_assert_eq!((read.extra_isize, read.create_time, read.tail.len()), (0, None, 0));
        prop_assert_eq!(read.modify_time.nanoseconds, 0);
        prop_assert_eq!(read.modify_time.seconds, inode.modify_time.seconds.min(i32::MAX.into()));
        prop_assert_eq!(
            (read.uid, read.gid, read.size, read.mode),
            (inode.uid, inode.gid, inode.size, inode.mode)
        );
        let mut again = [0; 128];
        read.encode(&mut again, Ino(number), &superblock);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn random_bytes_make_no_inode_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        extra in 0u16..300,
    ) {
        for names in [EXT2, EXT4] {
            let superblock = superblock(names);
            let mut bytes = bytes.clone();
            if let Some(word) = bytes.get_mut(128..130) {
                word.copy_from_slice(&extra.to_le_bytes());
            }
            let _ = Inode::parse(&bytes, Ino(12), &superblock);
            let read = Inode::decode(&bytes, &superblock);
            let (_, _) = (read.device(), read.is_fast_symlink(&superblock));
            read.encode(&mut bytes, Ino(12), &superblock);
            if bytes.len() >= 128 {
                prop_assert!(Inode::parse(&bytes, Ino(12), &superblock).is_ok());
            }
        }
    }

    #[test]
    fn devices_come_back(major in 0u32..1 << 12, minor in 0u32..1 << 20) {
        let mut inode = Inode::new(0o020_600, &superblock(EXT4));
        inode.set_device(Device { major, minor });
        prop_assert_eq!(inode.device(), Device { major, minor });
        prop_assert_eq!(
            inode.block[..4] == [0; 4],
            major > 255 || minor > 255 || (major, minor) == (0, 0)
        );
    }

    /// Every function on bitmaps against the same on single bits.
    #[test]
    fn bitmaps_do_what_bits_do(
        bytes in prop::collection::vec(prop::sample::select(vec![0u8, 0xff, 0x18, 0x80]), 0..40),
        from in 0u32..340,
        length in 0u32..340,
    ) {
        let bits = bytes.len() as u32 * 8;
        let limit = from.saturating_add(length);
        let is_set = |bit: &u32| bytes[(bit / 8) as usize] >> (bit % 8) & 1 == 1;
        let inside = || (from..limit.min(bits)).collect::<Vec<u32>>();
        prop_assert!(
            (0..400).all(|bit| bitmap::test(&bytes, bit) == (bit >= bits || is_set(&bit)))
        );
        prop_assert_eq!(bitmap::next_set(&bytes, from, limit), inside().into_iter().find(is_set));
        prop_assert_eq!(
            bitmap::next_clear(&bytes, from, limit),
            inside().into_iter().find(|bit| !is_set(bit))
        );
        prop_assert_eq!(
            bitmap::count_clear(&bytes, limit) as usize,
            (0..limit.min(bits)).filter(|bit| !is_set(bit)).count()
        );
        let byte = (from.div_ceil(8)..limit.min(bits) / 8)
            .find(|byte| bytes[*byte as usize] == 0)
            .map(|byte| byte * 8);
        prop_assert_eq!(bitmap::next_clear_byte(&bytes, from, limit), byte);
        let runs: Vec<(u32, u32)> = bitmap::clear_runs(&bytes, limit).collect();
        prop_assert_eq!(
            runs.iter().map(|run| run.1).sum::<u32>(),
            bitmap::count_clear(&bytes, limit)
        );
        prop_assert!(
            runs.iter().all(|run| run.1 > 0 && (run.0..run.0 + run.1).all(|bit| !is_set(&bit)))
        );
        prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));

        let (mut set, mut cleared) = (bytes.clone(), bytes.clone());
        let fits = limit <= bits;
        prop_assert_eq!(
            bitmap::set_run(&mut set, from, length),
            fits && !inside().iter().any(is_set)
        );
        prop_assert_eq!(
            bitmap::clear_run(&mut cleared, from, length),
            fits && inside().iter().all(is_set)
        );
        for bit in 0..bits {
            let within = bit >= from && bit < limit;
            prop_assert_eq!(bitmap::test(&set, bit), within || is_set(&bit));
            prop_assert_eq!(bitmap::test(&cleared, bit), !within && is_set(&bit));
        }
    }

    /// Whatever is wished: one line of refusal, or a superblock that is sound, and free blocks that
    /// add up.
    #[test]
    fn layouts_are_sound_or_refused(
        log in 10u32..17,
        blocks in 1u64..3_000_000,
        inode_log in 7u32..11,
        ratio in 0.0..0.5f64,
        names in prop::sample::select(vec![EXT2, EXT4, UNINIT, "filetype", "flex_bg,extent"]),
        flex_log in 0u32..12,
        per_group in prop::option::of(32u32..1024),
        inodes in prop_oneof![
            (1u64..5_000_000).prop_map(Inodes::AtLeast),
            (1024u64..1 << 24).prop_map(Inodes::BytesPerInode)
        ],
    ) {
        let wish = Wishes {
            inode_size: 1 << inode_log,
            reserved_ratio: ratio,
            flex_groups: 1 << flex_log,
            blocks_per_group: per_group.map(|eighth| eighth * 8),
            inodes,
            ..wishes(1 << log, blocks, names)
        };
        let layout = match Layout::new(&wish) {
            Ok(layout) => layout,
            Err(error) => {
                prop_assert!(!error.0.is_empty() && !error.0.contains('\n'));
                return Ok(());
            }
        };
        let superblock =
            Superblock::parse(&layout.superblock.encode()).expect("a sound superblock");
        if let Inodes::AtLeast(count) = inodes {
            prop_assert!(u64::from(superblock.inodes_count) >= count);
        }
        prop_assert!(superblock.inodes_count > superblock.first_inode);
        let mut used = 0u64;
        for (number, descriptor) in (0u32..).zip(&layout.descriptors) {
            let group = GroupNo(number);
            let mut bytes = vec![0; superblock.descriptor_size.into()];
            descriptor.encode(&mut bytes, group, &superblock);
            prop_assert_eq!(GroupDescriptor::parse(&bytes, group, &superblock), Ok(*descriptor));
            used +=
                layout.metadata_runs(group).iter().map(|run| u64::from(run.length)).sum::<u64>();
        }
        // Nothing overlaps anything else: the union is as large as the sum.
        let copies: u64 = (0..superblock.group_count())
            .map(|n| u64::from(superblock.super_overhead(GroupNo(n))))
            .sum();
        let own =
            u64::from(superblock.group_count()) * (2 + u64::from(superblock.inode_table_blocks()));
        prop_assert_eq!(used, copies + own);
        prop_assert_eq!(layout.overhead_blocks() + superblock.free_blocks, superblock.blocks_count);
        let reserved = layout.reserved_descriptor_blocks().len();
        let groups_with_copy =
            (0..superblock.group_count()).filter(|n| superblock.has_super(GroupNo(*n))).count();
        prop_assert_eq!(reserved, groups_with_copy * usize::from(superblock.reserved_gdt_blocks));
    }
}

#[test]
fn an_inode_that_was_never_used_needs_no_checksum() {
    let inode = Inode::parse(&[0; 256], Ino(12), &superblock(EXT4)).expect("zeros");
    assert_eq!((inode.mode, inode.extra_isize, inode.tail.len()), (0, 0, 128));
    assert!(inode.file_type().is_none());
}

#[test]
fn sectors_are_kept_up_to_64_bits_with_huge_file() {
    let (wide, narrow) = (superblock(EXT4), superblock(EXT2));
    let mut inode = Inode::new(0o100_644, &wide);
    for (sectors, flagged) in
        [(8, false), (u64::from(u32::MAX) + 8, false), (1 << 48, true), (1 << 50, true)]
    {
        inode.sectors = sectors;
        let mut bytes = [0; 256];
        inode.encode(&mut bytes, Ino(12), &wide);
        let read = Inode::parse(&bytes, Ino(12), &wide).expect("what we wrote");
        assert_eq!((read.sectors, read.flags & flags::HUGE_FILE != 0), (sectors, flagged));
    }
    let mut bytes = [0; 256];
    inode.encode(&mut bytes, Ino(12), &narrow);
    assert_eq!(
        Inode::parse(&bytes, Ino(12), &narrow).expect("clamped").sectors,
        u64::from(u32::MAX)
    );
}

#[test]
fn times_out_of_range_become_the_nearest() {
    let superblock = superblock(EXT4);
    let last = i64::from(i32::MAX) + 3 * (1i64 << 32);
    for (seconds, expected) in
        [(i64::MIN, i32::MIN.into()), (-1, -1), (0, 0), (1 << 31, 1 << 31), (i64::MAX, last)]
    {
        let mut inode = Inode::new(0o100_644, &superblock);
        inode.modify_time = Time { seconds, nanoseconds: 5 };
        let mut bytes = [0; 256];
        inode.encode(&mut bytes, Ino(12), &superblock);
        let read = Inode::parse(&bytes, Ino(12), &superblock).expect("what we wrote");
        assert_eq!(read.modify_time.seconds, expected, "{seconds}");
    }
}

#[test]
fn file_types_go_to_all_their_codes_and_back() {
    for mode in 0..=u16::MAX {
        if let Some(kind) = FileType::from_mode(mode) {
            assert_eq!(kind.mode_bits(), mode & 0o170_000);
            assert_eq!(FileType::from_entry_code(kind.entry_code()), Some(kind));
        }
    }
    assert_eq!(FileType::from_entry_code(0), None);
    assert_eq!(FileType::from_entry_code(8), None);
}
