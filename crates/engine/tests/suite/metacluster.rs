//! Metaclusters (the second post, 2007): where map blocks go, that nothing is wasted, and what is
//! read ahead of a stream.
use crate::volume;

use extant_block::{BlockDevice, MemoryDevice, Operation, RealClock, Traced};
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem};
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::superblock::Superblock;
use extant_format::{GroupNo, Ino, indirect};
use extant_testkit::oracle::{self, mount_loop};
use extant_testkit::scratch::Scratch;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use volume::{KIB, MIB, Random, Specification, judge};

const POSITIONS: [&str; 3] = ["begin", "middle", "end"];

fn specification(
    profile: Profile,
    block_size: u32,
    bytes: u64,
    policies: &'static str,
) -> Specification {
    Specification {
        inodes: 256,
        policies,
        cache_bytes: 16 << 20,
        ..Specification::new(profile, block_size, bytes)
    }
}

/// Keeps words for as long as the program runs: specifications hold words of the program.
fn words(text: String) -> &'static str {
    text.leak()
}

/// What the disk says, read without the engine.
struct Disk<'a> {
    device: &'a MemoryDevice,
    superblock: Superblock,
}

impl Disk<'_> {
    fn of(device: &MemoryDevice) -> Disk<'_> {
        let superblock = extant_engine::read_superblock(device).unwrap();
        Disk { device, superblock }
    }

    fn block(&self, block: u64) -> Vec<u8> {
        let size = u64::from(self.superblock.block_size());
        let mut bytes = vec![0; size as usize];
        self.device.read(block * size, &mut bytes).unwrap();
        bytes
    }

    fn inode(&self, ino: Ino) -> Inode {
        let superblock = &self.superblock;
        let (group, _) = superblock.group_of_inode(ino).unwrap();
        let (block, offset) = superblock.descriptor_place(group);
        let bytes = &self.block(block.0)[offset..offset + usize::from(superblock.descriptor_size)];
        let descriptor = GroupDescriptor::parse(bytes, group, superblock).unwrap();
        let (block, offset) = superblock.inode_place(ino, &descriptor).unwrap();
        Inode::decode(
            &self.block(block.0)[offset..offset + usize::from(superblock.inode_size)],
            superblock,
        )
    }

    /// The indirect blocks of a file, in its order, parents first.
    fn maps(&self, ino: Ino) -> Vec<u64> {
        let inode = self.inode(ino);
        assert!(!inode.has_extents());
        let mut maps = Vec::new();
        for height in 0..3 {
            self.tree(
                indirect::pointer(&inode.block, indirect::DIRECT + height),
                height,
                &mut maps,
            );
        }
        maps
    }

    fn tree(&self, block: u32, below: u32, maps: &mut Vec<u64>) {
        if block == 0 {
            return;
        }
        maps.push(block.into());
        if below > 0 {
            let bytes = self.block(block.into());
            (0..self.superblock.block_size() / 4)
                .for_each(|at| self.tree(indirect::pointer(&bytes, at), below - 1, maps));
        }
    }

    /// A block's group, and its place in the group, in thousandths of a full group.
    fn place(&self, block: u64) -> (u32, u64) {
        let group = self.superblock.group_of_block(extant_format::BlockNo(block)).unwrap();
        let into = block - self.superblock.group_start(group).0;
        (group.0, into * 1000 / u64::from(self.superblock.blocks_per_group))
    }
}

fn ino(volume: &Filesystem, path: &str) -> Ino {
    volume.metadata(path).unwrap().ino
}

#[test]
fn map_blocks_lie_in_the_cluster_of_their_group() {
    // Allocations that give blocks one by one, out of windows, and many at write-back.
    for base in [
        "linux-2.4",
        "linux-2.6",
        "modern",
        "freebsd-5.2,mount=async",
        "linux-2.4,allocation=freebsd-fixed",
    ] {
        for (position, where_to) in [("begin", 1..150), ("middle", 400..600), ("end", 920..1000)] {
            let policies = words(format!("{base},map-blocks=metacluster({position},4%)"));
            let made = specification(Profile::Ext3, 1024, 40 * MIB, policies);
            let device = made.make(RealClock::new());
            let volume = made.open(&device).unwrap();
            let content = vec![7; 9 << 20];
            volume.write("/one", &content).unwrap();
            volume.write("/two", &content).unwrap();
            let (one, two) = (ino(&volume, "/one"), ino(&volume, "/two"));
            volume.close().unwrap();
            assert_eq!(judge(&device), Ok(()), "{made}");
            let disk = Disk::of(&device);
            let mut groups = BTreeMap::new();
            for file in [one, two] {
                let maps = disk.maps(file);
                // 9,216 blocks: 1 for the first 268, and 1 + 36 for the rest.
                assert_eq!(maps.len(), 37, "{made}");
                for block in maps {
                    let (group, into) = disk.place(block);
                    assert!(where_to.contains(&into), "{made}: block {block} at {into}/1000");
                    *groups.entry(group).or_insert(0) += 1;
                }
            }
            assert!(groups.len() >= 2, "{made}: the data lies in more than one group: {groups:?}");
        }
        // Without a cluster they are between the data.
        let made = specification(Profile::Ext3, 1024, 40 * MIB, words(base.to_owned()));
        let device = made.make(RealClock::new());
        let volume = made.open(&device).unwrap();
        volume.write("/one", &vec![7; 9 << 20]).unwrap();
        let one = ino(&volume, "/one");
        volume.close().unwrap();
        let maps = Disk::of(&device).maps(one);
        let near = maps.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 64).count();
        assert!(near <= 3, "{made}: {maps:?}");
    }
}

#[test]
fn a_full_cluster_spills_to_where_the_data_goes() {
    let policies = "linux-2.6,map-blocks=metacluster(middle,8)";
    // The resize inode's map block would have the first place.
    let made = Specification {
        features: "^resize_inode",
        ..specification(Profile::Ext2, 1024, 8 * MIB, policies)
    };
    let device = made.make(RealClock::new());
    let volume = made.open(&device).unwrap();
    let files: Vec<String> = (0..30).map(|number| format!("/{number}")).collect();
    for path in &files {
        volume.write(path, &vec![1; 20 << 10]).unwrap();
    }
    let facts: Vec<(Ino, u64)> = files
        .iter()
        .map(|path| {
            (ino(&volume, path), volume.object(path).unwrap().runs().unwrap()[0].run.start.0)
        })
        .collect();
    volume.close().unwrap();
    assert_eq!(judge(&device), Ok(()));
    let disk = Disk::of(&device);
    let start = disk.superblock.group_start(GroupNo(0)).0;
    let cluster = start + (8191 - 8) / 2..start + (8191 - 8) / 2 + 8;
    for (number, (file, first)) in facts.into_iter().enumerate() {
        let maps = disk.maps(file);
        assert_eq!(maps.len(), 1);
        if number < 8 {
            assert_eq!(maps[0], cluster.start + number as u64, "in the order of need");
        } else {
            assert!(
                maps[0] == first + 12,
                "file {number}: map {} after the data at {first}",
                maps[0]
            );
        }
    }
}

/// Free runs of a volume of one group, as bits.
fn free_runs(disk: &Disk<'_>) -> Vec<(u32, u32)> {
    let (block, offset) = disk.superblock.descriptor_place(GroupNo(0));
    let size = usize::from(disk.superblock.descriptor_size);
    let descriptor = GroupDescriptor::parse(
        &disk.block(block.0)[offset..offset + size],
        GroupNo(0),
        &disk.superblock,
    )
    .unwrap();
    let bits = disk.block(descriptor.block_bitmap.0);
    extant_format::bitmap::clear_runs(&bits, disk.superblock.group_length(GroupNo(0))).collect()
}

#[test]
fn data_enters_the_cluster_when_the_rest_is_full() {
    for (position, base) in [("begin", "linux-2.4"), ("middle", "linux-2.6"), ("end", "modern")] {
        let policies = words(format!("{base},map-blocks=metacluster({position},200)"));
        let made = specification(Profile::Ext2, 1024, 8 * MIB, policies);
        let device = made.make(RealClock::new());
        let volume = made.open(&device).unwrap();
        let mut number = 0;
        // Files without maps, until no more is free than the cluster has.
        while volume.statfs().free_blocks > 200 {
            volume.write(format!("/{number}"), &[1; 1024]).unwrap();
            volume.sync().unwrap();
            number += 1;
            if number % 250 == 0 || volume.statfs().free_inodes < 2 {
                let rest = volume.statfs().free_blocks - 200;
                let large = volume.create_file("/large", 0o644).unwrap();
                // Files of 12 blocks would need many names. One file does, after its maps are
                // freed.
                let blocks = rest.saturating_sub(40);
                large.write_all_at(0, &vec![2; (blocks * KIB) as usize]).unwrap();
                large.sync().unwrap();
                break;
            }
        }
        volume.sync().unwrap();
        volume.close().unwrap();
        let disk = Disk::of(&device);
        let length = disk.superblock.group_length(GroupNo(0));
        let runs = free_runs(&disk);
        let middle = (length - 200) / 2;
        let inside = match position {
            "begin" => 0..length / 2,
            "middle" => middle..middle + 200,
            _ => length - 200..length,
        };
        let free_inside: u32 = runs
            .iter()
            .filter(|(first, count)| inside.contains(first) && first + count <= inside.end)
            .map(|(_, count)| count)
            .sum();
        assert!(free_inside >= 120, "{made}: {runs:?}");
        assert_eq!(judge(&device), Ok(()), "{made}");
    }
}

/// What fits into a volume: bytes of data, and what is left free. Every file's content follows from
/// its number.
struct Filled {
    data_bytes: u64,
    free_blocks: u64,
    files: Vec<(String, u64)>,
}

fn content(number: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    Random::new(number).fill(&mut content);
    content
}

/// Writes files of mixed sizes, then one as large as fits, then blocks one by one to the last.
fn fill(volume: &Filesystem, block_size: u64, mixed: u64) -> Filled {
    let mut files: Vec<(String, u64)> = Vec::new();
    let mut random = Random::new(5);
    let mut bytes = 0;
    for number in 0u64.. {
        let blocks = match number.cmp(&mixed) {
            Ordering::Less => 1 + random.below(600),
            Ordering::Equal => 16_384,
            Ordering::Greater => 1,
        };
        let path = format!("/{number}");
        let wanted = content(number, blocks * block_size);
        let file = match volume.create_file(&path, 0o644) {
            Ok(file) => file,
            Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. } | ErrorKind::NoInodes) => {
                break;
            }
            Err(error) => panic!("{error}"),
        };
        let mut done = 0;
        for (at, piece) in wanted.chunks(block_size as usize).enumerate() {
            match file.write_at(at as u64 * block_size, piece) {
                Ok(length) => done += length as u64,
                Err(error) => {
                    assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
                    break;
                }
            }
        }
        drop(file);
        if number % 16 == 0 || done < wanted.len() as u64 {
            volume.sync().unwrap();
        }
        if done > 0 {
            files.push((path, done));
        }
        bytes += done;
        if done == 0 {
            break;
        }
    }
    volume.sync().unwrap();
    Filled { data_bytes: bytes, free_blocks: volume.statfs().free_blocks, files }
}

fn read_back(read: impl Fn(&str) -> Vec<u8>, filled: &Filled) {
    for (path, bytes) in &filled.files {
        let number: u64 = path[1..].parse().unwrap();
        let blocks = read(path);
        assert_eq!(blocks.len() as u64, *bytes, "{path}");
        // What was written is the beginning of what was wanted: contents do not depend on the
        // length.
        assert!(blocks == content(number, *bytes), "{path}");
    }
}

#[test]
fn a_volume_is_filled_to_the_last_block_with_clusters_and_without() {
    let folder = Scratch::new("metacluster");
    for profile in [Profile::Ext2, Profile::Ext3] {
        for (block_size, bytes, mixed) in [(1024, 18 * MIB, 40), (4096, 24 * MIB, 10)] {
            let mut expected = None;
            for base in ["linux-2.6", "modern"] {
                let clusters = POSITIONS.map(|position| format!("metacluster({position},5%)"));
                // What is given at write-back meets the same order of search: one position is
                // enough.
                let few = if base == "modern" { 1..2 } else { 0..3 };
                for map_blocks in ["beside".to_owned()].into_iter().chain(clusters[few].to_vec()) {
                    let policies = words(format!("{base},map-blocks={map_blocks}"));
                    let made = Specification {
                        inodes: 1024,
                        ..specification(profile, block_size, bytes, policies)
                    };
                    let device = made.make(RealClock::new());
                    let volume = made.open(&device).unwrap();
                    let filled = fill(&volume, block_size.into(), mixed);
                    assert_eq!(filled.free_blocks, 0, "{made}");
                    assert_eq!(
                        *expected.get_or_insert(filled.data_bytes),
                        filled.data_bytes,
                        "{made}"
                    );
                    read_back(|path| volume.read(path).unwrap(), &filled);
                    volume.close().unwrap();
                    let image = folder.join("full.img");
                    device.save(&image).unwrap();
                    if oracle::require("e2fsck") {
                        assert_eq!(oracle::e2fsck(&image), Ok(()), "{made}");
                    }
                    if base == "linux-2.6" && oracle::can_mount() {
                        let mounted = mount_loop(&image, oracle::Access::ReadOnly, "").unwrap();
                        read_back(
                            |path| std::fs::read(mounted.path().join(&path[1..])).unwrap(),
                            &filled,
                        );
                        mounted.unmount().unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn extent_nodes_lie_in_the_cluster_too() {
    let policies = "modern,map-blocks=metacluster(end,2%)";
    let made = specification(Profile::Ext4, 1024, 24 * MIB, policies);
    let device = made.make(RealClock::new());
    let volume = made.open(&device).unwrap();
    let file = volume.create_file("/holes", 0o644).unwrap();
    for number in 0..2000 {
        file.write_at(number * 2 * KIB, &[1; 1024]).unwrap();
    }
    drop(file);
    let file = ino(&volume, "/holes");
    volume.close().unwrap();
    assert_eq!(judge(&device), Ok(()));
    let disk = Disk::of(&device);
    let inode = disk.inode(file);
    let root = extant_format::extent::Node::parse(&inode.block, None, disk.superblock.blocks_count)
        .unwrap();
    assert!(root.depth() > 0 && !root.is_empty());
    for at in 0..root.len() {
        let (_, into) = disk.place(root.index(at).child.0);
        assert!(into >= 975, "node at {into}/1000");
    }
}

// ---- The read side ----

/// A file of `bytes` on a volume that was just opened, and the device that tells what is asked of
/// it.
struct Cold {
    traced: Arc<Traced<Arc<dyn BlockDevice>>>,
    volume: Filesystem,
    maps: Vec<u64>,
    block_size: u64,
}

impl Cold {
    fn new(write: &'static str, read: &str, bytes: u64) -> Cold {
        let made = specification(Profile::Ext2, 1024, 80 * MIB, write);
        let device = made.make(RealClock::new());
        let volume = made.open(&device).unwrap();
        volume.write("/file", &vec![3; bytes as usize]).unwrap();
        let file = ino(&volume, "/file");
        volume.close().unwrap();
        let maps = Disk::of(&device).maps(file);
        let traced: Arc<Traced<Arc<dyn BlockDevice>>> =
            Arc::new(Traced::new(device as Arc<dyn BlockDevice>));
        let mut options = made.options();
        options.policies = read.parse().unwrap();
        let volume =
            Filesystem::open(Arc::clone(&traced) as Arc<dyn BlockDevice>, &options).unwrap();
        volume.metadata("/file").unwrap();
        traced.take_records();
        Cold { traced, volume, maps, block_size: 1024 }
    }

    /// Reads of map blocks since the last call, as ranges of blocks.
    fn map_reads(&self) -> Vec<Range<u64>> {
        let records = self.traced.take_records();
        let ranges =
            records.iter().filter(|record| record.operation == Operation::Read).map(|record| {
                let first = record.offset / self.block_size;
                first..(record.offset + record.bytes).div_ceil(self.block_size)
            });
        ranges.filter(|range| self.maps.iter().any(|map| range.contains(map))).collect()
    }

    fn read_all(&self, chunk: usize) {
        let file = self.volume.open_file("/file").unwrap();
        let (mut at, mut buffer) = (0, vec![0; chunk]);
        loop {
            let length = file.read_at(at, &mut buffer).unwrap();
            if length == 0 {
                break;
            }
            assert!(buffer[..length].iter().all(|byte| *byte == 3));
            at += length as u64;
        }
    }
}

const CLUSTERED: &str = "linux-2.6,map-blocks=metacluster(begin,4%)";
/// `modern`, with no other read-ahead of map blocks than the post's.
const MODERN_IN_SEQUENCE: &str = "modern,neighbour-read-ahead=none,map-read-ahead=metacluster";

#[test]
fn a_sequential_read_reads_several_map_blocks_at_once() {
    const BYTES: u64 = 40 << 20;
    for (read, chunk) in [
        ("linux-2.6,map-read-ahead=metacluster", 4096),
        ("linux-2.6,map-read-ahead=metacluster", 1 << 20),
        ("linux-2.4,map-read-ahead=metacluster", 64 << 10),
        (MODERN_IN_SEQUENCE, 64 << 10),
        (MODERN_IN_SEQUENCE, 1 << 20),
    ] {
        let alone = {
            let cold = Cold::new(
                CLUSTERED,
                &format!("{read},map-read-ahead=none").replace("map-read-ahead=metacluster,", ""),
                BYTES,
            );
            cold.read_all(chunk);
            let reads = cold.map_reads();
            assert!(reads.iter().all(|range| range.end - range.start == 1), "{read}: {reads:?}");
            assert_eq!(reads.len(), cold.maps.len(), "{read}: each once");
            reads.len()
        };
        let cold = Cold::new(CLUSTERED, read, BYTES);
        cold.read_all(chunk);
        let reads = cold.map_reads();
        let blocks: u64 = reads.iter().map(|range| range.end - range.start).sum();
        assert_eq!(blocks, cold.maps.len() as u64, "{read}: each once");
        // 161 map blocks in five groups: the first few alone, then four and more at once.
        assert!(reads.len() * 5 < alone, "{read}, {chunk}: {} of {alone}: {reads:?}", reads.len());
        let first_together = reads.iter().position(|range| range.end - range.start > 1).unwrap();
        assert!(first_together >= 3, "{read}: {reads:?}");
        assert!(reads.iter().all(|range| range.end - range.start <= 32), "{read}: {reads:?}");
    }
}

#[test]
fn what_lies_beside_its_data_is_not_read_ahead() {
    let cold = Cold::new("linux-2.6", "linux-2.6,map-read-ahead=metacluster", 40 << 20);
    cold.read_all(64 << 10);
    let reads = cold.map_reads();
    assert_eq!(reads.len(), cold.maps.len());
}

#[test]
fn reads_here_and_there_read_no_map_block_ahead() {
    for chunk in [512, 512 << 10] {
        for read in ["linux-2.6,map-read-ahead=metacluster", MODERN_IN_SEQUENCE] {
            let cold = Cold::new(CLUSTERED, read, 40 << 20);
            let file = cold.volume.open_file("/file").unwrap();
            let mut random = Random::new(9);
            let mut buffer = vec![0; chunk];
            for _ in 0..60 {
                let at = random.below((40 << 20) - chunk as u64);
                file.read_at(at, &mut buffer).unwrap();
            }
            let reads = cold.map_reads();
            assert!(
                !reads.is_empty() && reads.iter().all(|range| range.end - range.start == 1),
                "{read}: {reads:?}"
            );
        }
    }
}

#[test]
fn a_missing_map_block_brings_its_neighbours_in_the_cluster() {
    for (read, chunk) in [
        ("linux-2.6,map-read-ahead=neighbours", 512),
        ("linux-2.6,map-read-ahead=neighbours", 512 << 10),
        ("modern,neighbour-read-ahead=none", 512),
    ] {
        let reads_of = |read: &str| {
            let cold = Cold::new(CLUSTERED, read, 40 << 20);
            let file = cold.volume.open_file("/file").unwrap();
            let mut random = Random::new(9);
            let mut buffer = vec![0; chunk];
            for _ in 0..300 {
                let at = random.below((40 << 20) - chunk as u64);
                file.read_at(at, &mut buffer).unwrap();
                assert!(buffer.iter().all(|byte| *byte == 3));
            }
            let maps = cold.maps.len();
            (cold.map_reads(), maps)
        };
        let alone = read.replace("neighbours", "none");
        let alone = alone.replace("modern", "modern,map-read-ahead=none");
        let ((reads, maps), (alone, _)) = (reads_of(read), reads_of(&alone));
        let blocks: u64 = reads.iter().map(|range| range.end - range.start).sum();
        assert!(reads.iter().all(|range| range.end - range.start <= 32), "{read}: {reads:?}");
        // 161 map blocks in five groups. What is read besides them is around the file's first.
        assert!(blocks <= maps as u64 + 32, "{read}: each once: {reads:?}");
        assert!(reads.len() * 5 < alone.len(), "{read}: {} of {}", reads.len(), alone.len());
    }
}

/// A volume of files with one map block each. When the flusher comes to them decides where they
/// lie: what is compared is read from one volume.
fn small_files(write: &'static str) -> (Specification, Arc<MemoryDevice>) {
    let made = specification(Profile::Ext3, 1024, 24 * MIB, write);
    let device = made.make(RealClock::new());
    let volume = made.open(&device).unwrap();
    for number in 0..SMALL_FILES {
        volume.write(format!("/{number}"), &content(number, 20 << 10)).unwrap();
    }
    volume.close().unwrap();
    (made, device)
}

const SMALL_FILES: u64 = 120;

/// How many reads it takes to read all small files, each whole.
fn reads(volume: &(Specification, Arc<MemoryDevice>), read: &str) -> usize {
    let (made, device) = volume;
    let traced = Arc::new(Traced::new(Arc::clone(device) as Arc<dyn BlockDevice>));
    let mut options = made.options();
    options.policies = read.parse().unwrap();
    let volume = Filesystem::open(Arc::clone(&traced) as Arc<dyn BlockDevice>, &options).unwrap();
    for number in 0..SMALL_FILES {
        assert!(volume.read(format!("/{number}")).unwrap() == content(number, 20 << 10), "{read}");
    }
    let records = traced.take_records();
    records.iter().filter(|record| record.operation == Operation::Read).count()
}

#[test]
fn the_map_block_of_a_file_brings_those_of_other_files() {
    let clustered = small_files(CLUSTERED);
    let alone = reads(&clustered, "linux-2.6,map-read-ahead=metacluster");
    let together = reads(&clustered, "linux-2.6,map-read-ahead=neighbours");
    // 120 map blocks, 32 in a request, in two groups or three.
    assert!(together + 100 <= alone, "{together} reads, without neighbours {alone}");
    // Beside their data, where they lie close together, it takes no more reads.
    let scattered = small_files("linux-2.6");
    let beside = reads(&scattered, "linux-2.6,map-read-ahead=none");
    let near = reads(&scattered, "linux-2.6,map-read-ahead=neighbours");
    assert!(near <= beside, "{near} reads, without neighbours {beside}");
}

/// Blocks that were read as neighbours become other things: the content of files, maps and
/// directories stays right.
#[test]
fn what_was_read_as_a_neighbour_is_never_taken_for_what_the_block_holds_later() {
    for policies in [
        "linux-2.6,map-blocks=metacluster(begin,40),map-read-ahead=neighbours",
        "linux-2.6,journal=data,map-blocks=metacluster(begin,40),map-read-ahead=neighbours",
        "modern,neighbour-read-ahead=none,map-blocks=metacluster(middle,40)",
        "linux-2.4,map-blocks=metacluster(end,40),map-read-ahead=neighbours",
    ] {
        let made = Specification {
            cache_bytes: 1 << 20,
            ..specification(Profile::Ext3, 1024, 8 * MIB, policies)
        };
        let device = made.make(RealClock::new());
        let mut volume = made.open(&device).unwrap();
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        let mut random = Random::new(77);
        for turn in 0..1_500u64 {
            let path = format!("/{}", random.below(60));
            match random.below(8) {
                0..3 => {
                    // Not a part of the content that was there: that has another number.
                    let bytes = (1 + random.below(60)) * 1024;
                    let _ = volume.remove_file(&path);
                    files.remove(&path);
                    match volume.write(&path, &content(turn, bytes)) {
                        Ok(()) => drop(files.insert(path, turn << 32 | bytes)),
                        Err(error) => {
                            assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
                            let _ = volume.remove_file(&path);
                        }
                    }
                }
                3 => {
                    let path = format!("/directory-{}", random.below(40));
                    if volume.create_dir(&path, 0o755).is_err() {
                        let _ = volume.remove_dir(&path);
                    }
                }
                4 if turn % 40 == 0 => {
                    volume.close().unwrap();
                    volume = made.open(&device).unwrap();
                }
                _ => {
                    let Some(expected) = files.get(&path) else { continue };
                    let read = volume.read(&path).unwrap();
                    let wanted = content(expected >> 32, expected & u64::from(u32::MAX));
                    assert!(read == wanted, "{made}, turn {turn}: {path}");
                }
            }
        }
        volume.close().unwrap();
        assert_eq!(judge(&device), Ok(()), "{made}");
    }
}
