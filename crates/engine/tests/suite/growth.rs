//! A volume gets longer while it is used: files that are open stay as they are, the new room is
//! given at once, and a power cut leaves one of both lengths.
use crate::volume;
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem, read_superblock, recover};
use extant_format::GroupNo;
use extant_format::group::{GroupDescriptor, INODE_ZEROED};
use extant_format::superblock::Feature;
use extant_sim::CrashLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use volume::{KIB, MIB, Random, Specification, judge};

/// Volumes of each kind, and how long they are at first, in MiB.
fn kinds() -> Vec<Specification> {
    let kind = |profile, block_size, bytes, features, policies| Specification {
        features,
        policies,
        ..Specification::new(profile, block_size, bytes)
    };
    vec![
        kind(Profile::Ext4, 1024, 20 * MIB + 512 * KIB, "", "modern"),
        kind(Profile::Ext4, 4096, 24 * MIB, "", "modern"),
        kind(Profile::Ext4, 1024, 20 * MIB, "^resize_inode", "modern,journal=data"),
        kind(Profile::Ext4, 1024, 20 * MIB, "^resize_inode,meta_bg", "modern"),
        kind(Profile::Ext4, 1024, 20 * MIB, "^metadata_csum,uninit_bg,^64bit", "modern"),
        kind(Profile::Ext4, 1024, 32 * MIB, "bigalloc,^flex_bg", "modern"),
        kind(Profile::Ext3, 1024, 20 * MIB, "", "linux-2.6"),
        kind(Profile::Ext2, 1024, 20 * MIB + 100 * KIB, "", "modern"),
        kind(Profile::Ext2, 1024, 20 * MIB, "^sparse_super,^resize_inode", "linux-2.4"),
    ]
}

/// A volume on a device of this many bytes.
fn on_longer(specification: &Specification, bytes: u64) -> Arc<MemoryDevice> {
    let clock = RealClock::new();
    Arc::new(specification.make(clock.clone()).resized(clock, bytes))
}

fn content(writer: u64, number: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    Random::new(writer << 32 | number).fill(&mut content);
    content
}

/// Writes files until there is no room. Returns how many.
fn fill(volume: &Filesystem, folder: &str) -> u64 {
    volume.create_dir(folder, 0o755).expect("makes it");
    for number in 0.. {
        let path = format!("{folder}/{number}");
        if let Err(error) = volume.write(&path, &content(7, number, 300 * KIB)) {
            assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
            volume.remove_file(&path).expect("removes what is half there");
            return number;
        }
    }
    0
}

#[test]
fn a_full_volume_has_room_after_each_growth() {
    for specification in kinds() {
        let device = on_longer(&specification, 140 * MIB);
        let volume = specification.open(&device).unwrap_or_else(|e| panic!("{specification}: {e}"));
        let blocks_of = |bytes: u64| bytes / u64::from(specification.block_size);
        let count = fill(&volume, "/first");
        let open = volume.create_file("/open", 0o644).expect("an inode");
        let nameless = volume.create_file("/nameless", 0o644).expect("an inode");
        volume.remove_file("/nameless").expect("removes");
        let mut before = volume.statfs();
        for (step, bytes) in
            [21 * MIB, 33 * MIB + 5 * KIB, 90 * MIB, 140 * MIB].into_iter().enumerate()
        {
            let wanted = blocks_of(bytes.max(specification.bytes));
            let expected = volume.blocks_when_grown(wanted).expect("can");
            volume.grow(wanted).unwrap_or_else(|e| panic!("{specification}: {step}: {e}"));
            let after = volume.statfs();
            assert_eq!(after.blocks, expected, "{specification}");
            // In its place at once: a kernel counts groups by it, before it replays a log.
            let stored = read_superblock(&*device).expect("is one").blocks_count;
            assert_eq!(stored, expected, "{specification}");
            assert!(after.blocks >= before.blocks && after.inodes >= before.inodes);
            let more = after.blocks - before.blocks;
            assert!(after.free_blocks >= before.free_blocks + more / 2, "{specification}: {step}");
            before = after;
            if step == 2 {
                let more = fill(&volume, &format!("/more{step}"));
                assert!(more * 300 * KIB > 40 * MIB, "{specification}: {more}");
                before = volume.statfs();
            }
        }
        open.write_all_at(0, &content(1, 1, MIB)).expect("has room");
        nameless.write_all_at(0, &content(1, 2, MIB)).expect("has room");
        volume.inodes().drop_all();
        for number in 0..count {
            let read = volume.read(format!("/first/{number}")).expect("reads");
            assert!(read == content(7, number, 300 * KIB), "{specification}: {number}");
        }
        drop((open, nameless));
        let said = volume.close();
        said.unwrap_or_else(|error| panic!("{specification}: {error}"));
        assert_eq!(read_superblock(&*device).expect("is one").blocks_count, before.blocks);
        assert_tables_are_made(&device, u64::MAX);
        if extant_testkit::oracle::require("e2fsck") {
            judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

/// Tables past a byte are zeros, or their descriptors do not say so; and what follows the last
/// descriptor in its block is zeros.
fn assert_tables_are_made(device: &MemoryDevice, from: u64) {
    let superblock = read_superblock(device).expect("is one");
    let block_size = u64::from(superblock.block_size());
    let size = usize::from(superblock.descriptor_size);
    let mut rest = Vec::new();
    for group in (0..superblock.group_count()).map(GroupNo) {
        let (block, offset) = superblock.descriptor_place(group);
        let mut bytes = vec![0; block_size as usize];
        device.read(block.0 * block_size, &mut bytes).expect("reads");
        let (one, after) = bytes[offset..].split_at(size);
        let descriptor = GroupDescriptor::parse(one, group, &superblock).expect("is one");
        rest = after.to_vec();
        let is_lazy = superblock.has_descriptor_checksums() && descriptor.flags & INODE_ZEROED == 0;
        let start = descriptor.inode_table.0 * block_size;
        if is_lazy || start < from {
            continue;
        }
        let mut table = vec![0; (u64::from(superblock.inode_table_blocks()) * block_size) as usize];
        device.read(start, &mut table).expect("reads");
        assert!(table.iter().all(|byte| *byte == 0), "the table of {group}");
    }
    assert!(rest.iter().all(|byte| *byte == 0), "after the last descriptor: {rest:?}");
}

/// What is past the end of a volume is not known to be zeros: tables are made, or marked so that
/// they are.
#[test]
fn what_was_past_the_old_end_is_nowhere_seen() {
    for specification in [kinds()[0], kinds()[4], kinds()[6], kinds()[7]] {
        let device = on_longer(&specification, 64 * MIB);
        for at in (specification.bytes..64 * MIB).step_by(256 << 10) {
            let bytes = vec![0xa5; (64 * MIB - at).min(256 << 10) as usize];
            device.write(at, &bytes).expect("writes");
        }
        let volume = specification.open(&device).expect("opens");
        volume.grow(64 * MIB / u64::from(specification.block_size)).expect("grows");
        assert_tables_are_made(&device, specification.bytes);
        let made = (0..).map_while(|number| {
            let folder = format!("/{}", number / 200);
            let made = match number % 200 {
                0 => volume.create_dir(&folder, 0o755),
                _ => volume.create_file(format!("{folder}/{number}"), 0o600).map(drop),
            };
            made.map_err(|error| assert!(matches!(error.kind, ErrorKind::NoInodes), "{error}")).ok()
        });
        assert!(made.count() > 2000, "{specification}");
        volume.close().expect("closes");
        // Each copy is one of the volume as it is now.
        let primary = read_superblock(&*device).expect("is one");
        let groups = (1..primary.group_count()).map(GroupNo);
        let mut bytes = [0; extant_format::superblock::SUPERBLOCK_SIZE];
        let block_size = u64::from(primary.block_size());
        for group in groups.filter(|group| primary.has_super(*group)) {
            let start = primary.group_start(group).0 * block_size;
            device.read(start, &mut bytes).expect("reads");
            let copy = extant_format::superblock::Superblock::parse(&bytes).expect("a copy");
            assert_eq!(copy.blocks_count, primary.blocks_count, "{specification}: {group}");
            let (mut one, mut other) = (vec![0; 32], vec![0; 32]);
            device.read(start + block_size, &mut one).expect("reads");
            let first = (primary.primary_block().0 + 1) * block_size;
            device.read(first, &mut other).expect("reads");
            assert_eq!(one[..12], other[..12], "{specification}: descriptors in {group}");
        }
        if extant_testkit::oracle::require("e2fsck") {
            judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

#[test]
fn writers_go_on_while_a_volume_grows() {
    for specification in [kinds()[0], kinds()[7]] {
        let specification = Specification { cache_bytes: 16 << 20, ..specification };
        let device = on_longer(&specification, 256 * MIB);
        let clock = RealClock::new();
        let volume = specification.open(&device).expect("opens");
        let ended = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let (volume, ended) = (volume.clone(), Arc::clone(&ended));
                let body = move || {
                    let mut number = 0;
                    while !ended.load(Ordering::Acquire) || number < 8 {
                        let path = format!("/{writer}-{number}");
                        let written = content(writer, number, 150 * KIB);
                        while let Err(error) = volume.write(&path, &written) {
                            assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
                        }
                        assert!(volume.read(&path).expect("reads") == written, "{path}");
                        if number % 3 == 2 {
                            volume.remove_file(&path).expect("removes");
                        }
                        number += 1;
                    }
                };
                clock.spawn("writer", Box::new(body))
            })
            .collect();
        for mib in (24..=250).step_by(19) {
            volume.grow(mib * MIB / 1024).expect("grows");
        }
        ended.store(true, Ordering::Release);
        writers.into_iter().for_each(|writer| writer.join());
        volume.close().expect("closes");
        if extant_testkit::oracle::require("e2fsck") {
            judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

#[test]
fn a_power_cut_leaves_one_of_both_lengths() {
    for (specification, seed) in kinds()[..5].iter().zip(1..) {
        let base = on_longer(specification, 160 * MIB);
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        volume.write("/before", &content(1, 1, MIB)).expect("writes");
        volume.sync().expect("syncs");
        let before = volume.statfs().blocks;
        let from = log.moments();
        volume.grow(150 * MIB / u64::from(specification.block_size)).expect("grows");
        let after = volume.statfs().blocks;
        let grown = log.moments();
        volume.write("/after", &content(1, 2, 30 * MIB)).expect("writes");
        volume.sync().expect("syncs");
        let end = log.moments();
        drop(volume);
        // Linux leaves logs that are replayed on a volume which has its old end.
        let medium = Arc::new(log.cut(end).prefix(&base).expect("a medium"));
        let mut old = read_superblock(&*base).expect("is one");
        old.features.set(Feature::NEEDS_RECOVERY);
        medium.write(1024, &old.encode()).expect("writes");
        let shared: Arc<dyn BlockDevice> = medium.clone();
        recover(&shared).unwrap_or_else(|error| panic!("{specification}: {error}"));
        assert_eq!(read_superblock(&*medium).expect("is one").blocks_count, after);
        let volume = Filesystem::open(shared, &specification.options()).expect("opens");
        assert!(volume.read("/after").expect("reads") == content(1, 2, 30 * MIB));
        drop(volume);
        let (mut random, mut seen) = (Random::new(seed), [0, 0]);
        for moment in (from..=grown).step_by(((grown - from) / 12).max(1)).chain([grown, end]) {
            let cut = log.cut(moment);
            for medium in [cut.durable(&base), cut.subset(&base, 512, random.next())] {
                let medium = Arc::new(medium.expect("a medium"));
                let shared: Arc<dyn BlockDevice> = medium.clone();
                recover(&shared).expect("recovers");
                let blocks = read_superblock(&*medium).expect("a superblock").blocks_count;
                let said = format!("{specification}: cut at {moment} of {from}..{grown}");
                assert!(blocks == after || blocks == before && moment < grown, "{said}: {blocks}");
                seen[usize::from(blocks == after)] += 1;
                let volume = Filesystem::open(shared, &specification.options()).expect("opens");
                assert!(volume.read("/before").expect("reads") == content(1, 1, MIB), "{said}");
                if moment == end {
                    assert!(volume.read("/after").expect("reads") == content(1, 2, 30 * MIB));
                }
                volume.close().expect("closes");
                if extant_testkit::oracle::require("e2fsck") {
                    judge(&medium).unwrap_or_else(|why| panic!("{said}: {why}"));
                }
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{specification}: {seen:?}");
    }
}

#[test]
fn what_cannot_grow_in_use_is_refused_and_stays_as_it_is() {
    let plain = Specification::new(Profile::Ext4, 1024, 20 * MIB);
    let kept = Specification { features: "sparse_super2", ..plain };
    for (specification, bytes, wanted, errno) in [
        (plain, 64 * MIB, 10 * MIB, 22),
        (plain, 64 * MIB, 65 * MIB, 22),
        (plain, 64 * MIB, u64::MAX, 22),
        (kept, 64 * MIB, 40 * MIB, 95),
    ] {
        let device = on_longer(&specification, bytes);
        let volume = specification.open(&device).expect("opens");
        let before = volume.statfs();
        let error = volume.grow(wanted / 1024).expect_err("is refused");
        assert_eq!(error.errno(), errno, "{specification}: {error}");
        assert_eq!(volume.statfs(), before);
        volume.grow(before.blocks).ok();
        volume.write("/goes-on", &[1; 5000]).expect("writes");
        volume.close().expect("closes");
        let said = volume_of(&device).grow(30 * MIB / 1024);
        assert!(matches!(said.expect_err("is closed").kind, ErrorKind::ReadOnly));
        let superblock = read_superblock(&*device).expect("is one");
        assert_eq!(superblock.blocks_count, before.blocks);
        assert!(superblock.has(Feature::EXTENTS));
    }
}

/// A volume that was opened to be read.
fn volume_of(device: &Arc<MemoryDevice>) -> Filesystem {
    let options = Specification::new(Profile::Ext4, 1024, 20 * MIB).options();
    let options = extant_engine::Options { access: extant_engine::Access::ReadOnly, ..options };
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options).expect("opens")
}
