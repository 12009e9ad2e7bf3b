//! Directories on volumes made by mke2fs, compared with a map in memory and judged by e2fsck and
//! the kernel's readdir.
use super::Random;
use crate::error::{Error, ErrorKind};
use crate::inode::credits;
use crate::inode::mapping;
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::inode::{self, NodeState};
use crate::name::directory::{self, Departure, Directory, NewEntry, Packing, Position, hashed};
use crate::space::InodeKind;
use crate::store::{Access, DataKeeping, Options};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, GroupNo, Ino};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

const DIRECTORY: &[u8] = b"d";
const FILES: usize = 4;

/// A volume with one directory, and a few files for its names to point to.
struct Bench {
    device: Arc<MemoryDevice>,
    volume: Volume,
    node: NodeState,
    files: Vec<NodeState>,
    names: BTreeMap<Vec<u8>, Ino>,
}

type Row = (&'static str, &'static [&'static str], &'static str, &'static str);

/// Profile and options for mke2fs, a size, and the hash if not the default: with and without index,
/// checksums and types; all hashes; extents and indirect blocks.
const ROWS: &[Row] = &[
    ("ext4", &["-b", "1024"], "24M", ""),
    ("ext4", &["-b", "4096", "-O", "^metadata_csum"], "24M", ""),
    ("ext3", &["-b", "1024"], "24M", "legacy"),
    ("ext2", &["-b", "2048", "-O", "^filetype"], "24M", "tea"),
    ("ext4", &["-b", "65536"], "96M", ""),
    ("ext4", &["-b", "1024", "-O", "^dir_index"], "24M", ""),
    ("ext2", &["-b", "4096", "-O", "^dir_index"], "24M", ""),
];

fn image((kind, words, size, hash): Row) -> Option<Arc<MemoryDevice>> {
    if !oracle::require("mke2fs") || !oracle::require("tune2fs") || !oracle::require("e2fsck") {
        return None;
    }
    let scratch = Scratch::new("extant-directory");
    let path = scratch.join("image");
    let mut mke2fs = extant_testkit::command::program("mke2fs");
    // The hash seed decides which leaves split: keep it fixed.
    mke2fs.args([
        "-q",
        "-F",
        "-t",
        kind,
        "-N",
        "64",
        "-E",
        "hash_seed=6b8b4567-327b-23c6-643c-986966334873",
    ]);
    mke2fs.args(words).arg(&path).arg(size);
    extant_testkit::command::output(&mut mke2fs).expect("mke2fs");
    if !hash.is_empty() {
        let option = format!("hash_alg={hash}");
        extant_testkit::command::output(
            extant_testkit::command::program("tune2fs").args(["-E", &option]).arg(&path),
        )
        .expect("tune2fs");
    }
    let bytes = std::fs::read(path).expect("an image");
    Some(Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes)))
}

fn open(device: &Arc<MemoryDevice>) -> Volume {
    // These tests look at what a sweep leaves on the device.
    let policies = "modern,journal=none".parse().expect("a preset");
    let options = Options {
        access: Access::ReadWrite,
        policies,
        cache_bytes: 64 << 20,
        data: DataKeeping::Bytes,
    };
    Volume::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options, None).expect("a volume")
}

fn load(volume: &Volume, ino: Ino) -> NodeState {
    NodeState::new(volume, ino, inode::load(volume, ino).expect("an inode"))
}

/// A new inode in group 0.
fn make(volume: &Volume, mode: u16, kind: InodeKind) -> NodeState {
    let operation = Operation::begin(volume, credits::NAME).expect("writable");
    let ino = volume.space.allocate_inode(&operation, GroupNo(0), 0, kind).expect("a free inode");
    let mut inode = Inode::new(mode, &volume.store.superblock);
    if volume.store.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    let mut node = NodeState::new(volume, ino, inode);
    mapping::initialize(&mut node);
    node
}

impl Bench {
    /// With an empty inode for the directory, which has no blocks yet.
    fn new(row: Row) -> Option<Bench> {
        let device = image(row)?;
        let volume = open(&device);
        let node = make(&volume, 0o40755, InodeKind::Directory);
        let files = (0..FILES).map(|_| make(&volume, 0o100644, InodeKind::Other)).collect();
        Some(Bench { device, volume, node, files, names: BTreeMap::new() })
    }

    /// With "." and "..".
    fn with_directory(row: Row) -> Option<Bench> {
        let mut bench = Bench::new(row)?;
        let operation = Operation::begin(&bench.volume, credits::NAME).expect("writable");
        let mut reservation = bench.volume.space.reserve(4).expect("room");
        directory::create(&operation, &mut reservation, &mut bench.node, Ino::ROOT)
            .expect("created");
        drop((reservation, operation));
        assert!(directory::is_empty(&bench.volume, &bench.node).expect("readable"));
        Some(bench)
    }

    fn file_of(&self, name: &[u8]) -> Ino {
        self.files[name.iter().map(|byte| usize::from(*byte)).sum::<usize>() % FILES].ino
    }

    fn insert(&mut self, name: &[u8]) -> Result<(), Error> {
        let ino = self.file_of(name);
        let (volume, node) = (&self.volume, &mut self.node);
        assert_eq!(directory::lookup(volume, node, name)?, None);
        let need = directory::insert_need(volume, node, name)?;
        let size = node.inode.size;
        let mut reservation = volume.space.reserve(need)?;
        let operation = Operation::begin(volume, credits::NAME)?;
        directory::insert(&operation, &mut reservation, node, name, ino, FileType::Regular)?;
        assert!(need > 0 || node.inode.size == size);
        self.names.insert(name.to_vec(), ino);
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) -> Result<(), Error> {
        let operation = Operation::begin(&self.volume, credits::NAME)?;
        directory::remove(&operation, &mut self.node, name, Departure::Removed)?;
        self.names.remove(name).expect("it was there");
        Ok(())
    }

    fn pack(&mut self, names: &[Vec<u8>]) -> Result<(), Error> {
        let volume = &self.volume;
        let packing = Packing::of(&volume.store.superblock);
        let blocks =
            packing.packed_blocks(names.iter().map(|name| (name.len(), packing.hash_key(name))))?;
        let need = mapping::worst_case(volume, &self.node, FileBlock(0), blocks);
        let mut reservation = volume.space.reserve(need)?;
        let operation = Operation::begin(volume, credits::NAME)?;
        let inos: Vec<Ino> = names.iter().map(|name| self.file_of(name)).collect();
        let mut entries = names.iter().zip(&inos).map(|(name, &ino)| NewEntry {
            name,
            ino,
            file_type: FileType::Regular,
        });
        directory::pack(&operation, &mut reservation, &mut self.node, Ino::ROOT, &mut entries)?;
        assert_eq!(self.node.inode.size, blocks * u64::from(volume.store.block_size()));
        self.names = names.iter().cloned().zip(inos).collect();
        Ok(())
    }

    /// Names as `list` returns them, without "." and "..", which come first.
    fn listed(&self) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        directory::list(&self.volume, &self.node, &mut |name, ino, file_type| {
            if names.len() >= 2 {
                assert_eq!(self.names.get(name), Some(&ino), "{}", name.escape_ascii());
                assert_eq!(file_type, self.volume.store.style.typed.then_some(FileType::Regular));
            }
            names.push(name.to_vec());
        })
        .expect("listed");
        assert_eq!(names[..2], [b".".to_vec(), b"..".to_vec()]);
        names.split_off(2)
    }

    /// Checks that all names are found and listed once, and no others, and that a listing can stop
    /// and continue anywhere.
    fn check(&self) {
        for (name, ino) in &self.names {
            let found = directory::lookup(&self.volume, &self.node, name).expect("readable");
            assert_eq!(found.map(|found| found.ino), Some(*ino), "{}", name.escape_ascii());
        }
        assert_eq!(
            directory::lookup(&self.volume, &self.node, b"no such name").expect("readable"),
            None
        );
        for (name, ino) in [(&b"."[..], self.node.ino), (b"..", Ino::ROOT)] {
            let found = directory::lookup(&self.volume, &self.node, name).expect("readable");
            assert_eq!(found.map(|found| found.ino), Some(ino));
        }
        let listed = self.listed();
        let mut sorted = listed.clone();
        sorted.sort();
        assert!(sorted.iter().eq(self.names.keys()));
        assert_eq!(
            directory::is_empty(&self.volume, &self.node).expect("readable"),
            self.names.is_empty()
        );
        assert_eq!(self.listed_in_pieces(37), listed);
    }

    fn listed_in_pieces(&self, most: usize) -> Vec<Vec<u8>> {
        let (mut names, mut position) = (Vec::new(), Position::Start);
        loop {
            let before = names.len();
            directory::list_from(&self.volume, &self.node, position, &mut |entry| {
                names.push(entry.name.to_vec());
                position = entry.next;
                if names.len() == before + most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .expect("listed");
            if names.len() < before + most {
                return names.split_off(2);
            }
        }
    }

    /// Adds the directory to the root, stores all inodes, and writes an image.
    fn save(mut self, scratch: &Scratch) -> std::path::PathBuf {
        let volume = &self.volume;
        let mut root = load(volume, Ino::ROOT);
        let need = directory::insert_need(volume, &root, DIRECTORY).expect("room");
        let mut reservation = volume.space.reserve(need).expect("room");
        let operation = Operation::begin(volume, credits::NAME).expect("writable");
        let (ino, kind) = (self.node.ino, FileType::Directory);
        directory::insert(&operation, &mut reservation, &mut root, DIRECTORY, ino, kind)
            .expect("inserted");
        drop(reservation);
        root.inode.links += 1;
        root.store(&operation).expect("stored");
        self.node.inode.links = 2;
        self.node.store(&operation).expect("stored");
        for (at, file) in self.files.iter_mut().enumerate() {
            file.inode.links = self.names.values().filter(|ino| **ino == file.ino).count() as u16;
            if file.inode.links == 0 {
                operation.need(credits::NAME);
                let mut reservation = volume.space.reserve(8).expect("room");
                let name = format!("spare{at}");
                directory::insert(
                    &operation,
                    &mut reservation,
                    &mut root,
                    name.as_bytes(),
                    file.ino,
                    FileType::Regular,
                )
                .expect("inserted");
                file.inode.links = 1;
            }
            operation.need(2);
            file.store(&operation).expect("stored");
        }
        operation.need(credits::RUN);
        root.store(&operation).expect("stored");
        // As `Core` does before it syncs.
        for node in [&mut root, &mut self.node] {
            crate::inode::mapping::window::discard(&operation, node).expect("given back");
        }
        drop(operation);
        volume.space.sync().expect("written");
        let path = scratch.join("image");
        self.device.save(&path).expect("saved");
        path
    }

    fn finish(self) {
        let scratch = Scratch::new("extant-directory");
        let path = self.save(&scratch);
        oracle::e2fsck(&path).unwrap_or_else(|words| panic!("{words}"));
    }

    fn levels(&self) -> u8 {
        let directory = Directory { volume: &self.volume, node: &self.node };
        let path = hashed::Path::to_hash(directory, 0).expect("an index");
        u8::from(path.node.is_some())
    }
}

fn name(random: &mut Random, number: usize) -> Vec<u8> {
    let mut name = format!("{number}.").into_bytes();
    let more = match random.below(20) {
        0 => random.below(246),
        _ => random.below(16),
    };
    // Bytes above 127 too: signed and unsigned hashes differ there.
    name.extend((0..more).map(|_| 0xa0 + random.below(64) as u8));
    name
}

#[test]
fn names_come_and_go() {
    for &row in ROWS {
        let Some(mut bench) = Bench::with_directory(row) else {
            return;
        };
        let mut random = Random(17);
        let is_hashed = bench.volume.store.superblock.has(Feature::DIR_INDEX);
        let count = if is_hashed { 12_000 } else { 1_500 };
        let mut names: Vec<Vec<u8>> = (0..count).map(|number| name(&mut random, number)).collect();
        random.shuffle(&mut names);
        for (at, name) in names.iter().enumerate() {
            bench.insert(name).unwrap_or_else(|error| panic!("{row:?}: name {at}: {error}"));
            if at % 3 == 0 {
                let victim = bench
                    .names
                    .keys()
                    .nth(random.below(bench.names.len().min(50)))
                    .expect("some")
                    .clone();
                bench.remove(&victim).expect("removed");
            }
            if [0, 20, 100, 1000].contains(&at) {
                bench.check();
            }
        }
        bench.check();
        assert_eq!(bench.node.inode.flags & flags::INDEX != 0, is_hashed, "{row:?}");
        let missing = bench.remove_missing();
        assert!(matches!(missing.kind, ErrorKind::NotFound), "{missing}");
        bench.finish();
    }
}

impl Bench {
    fn remove_missing(&mut self) -> Error {
        let operation = Operation::begin(&self.volume, credits::NAME).expect("writable");
        directory::remove(&operation, &mut self.node, b"no such name", Departure::Removed)
            .expect_err("it is not there")
    }
}

#[test]
fn an_index_of_two_levels_empties_again() {
    let Some(mut bench) = Bench::with_directory(ROWS[0]) else {
        return;
    };
    let mut random = Random(19);
    let mut names: Vec<Vec<u8>> = (0..25_000).map(|number| name(&mut random, number)).collect();
    for name in &names {
        bench.insert(name).expect("inserted");
    }
    assert_eq!(bench.levels(), 1);
    bench.check();
    let size = bench.node.inode.size;
    random.shuffle(&mut names);
    for name in &names {
        bench.remove(name).expect("removed");
    }
    bench.check();
    // Freed room is used again before the directory grows.
    for name in &names[..1000] {
        bench.insert(name).expect("inserted");
    }
    assert_eq!(bench.node.inode.size, size);
    bench.check();
    bench.finish();
}

#[test]
fn a_full_index_refuses_before_anything_changes() {
    let Some(mut bench) = Bench::with_directory(("ext4", &["-b", "1024"], "40M", "")) else {
        return;
    };
    let mut random = Random(23);
    let full = (0..100_000).find_map(|number| {
        let mut name = name(&mut random, number);
        name.resize(255, b'x');
        bench.insert(&name).err().map(|error| (name, error))
    });
    let (name, error) = full.expect("123 * 126 leaves of 3 names are fewer");
    assert!(matches!(error.kind, ErrorKind::DirectoryFull), "{error}");
    assert_eq!(error.errno(), 28);
    assert_eq!(bench.levels(), 1);
    assert_eq!(directory::lookup(&bench.volume, &bench.node, &name).expect("readable"), None);
    assert!(bench.names.len() > 15_000, "{}", bench.names.len());
    bench.finish();
}

#[test]
fn packed_directories_are_sound_and_grow() {
    for &row in ROWS {
        for count in [0, 30, 300, 20_000] {
            let Some(mut bench) = Bench::new(row) else { return };
            let mut random = Random(29);
            let packing = Packing::of(&bench.volume.store.superblock);
            let mut names: Vec<Vec<u8>> =
                (0..count).map(|number| name(&mut random, number)).collect();
            names.sort_by_cached_key(|name| packing.hash_key(name));
            bench.pack(&names).expect("packed");
            assert_eq!(bench.listed(), names, "{row:?}");
            let more = if packing.hasher.is_some() || count < 1000 { 300 } else { 20 };
            for number in 0..more {
                bench.insert(&name(&mut random, 1_000_000 + number)).expect("inserted");
            }
            if packing.hasher.is_some() || count < 1000 {
                bench.check();
            }
            bench.finish();
        }
    }
}

/// Pairs of names with the same hash; they are 255 bytes long if `pad` is given.
fn pairs(packing: &Packing, count: usize, pad: &[u8]) -> Vec<[Vec<u8>; 2]> {
    let name = |number: u32| [pad, format!("{number:08}").as_bytes()].concat();
    let hash = |number: u32| packing.hash_key(&name(number)).major;
    let mut hashes: Vec<(u32, u32)> =
        (0..count as u32).map(|number| (hash(number), number)).collect();
    hashes.sort_unstable();
    let equal = hashes.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    equal.map(|pair| [name(pair[0].1), name(pair[1].1)]).collect()
}

#[test]
fn equal_hashes_across_leaves_are_found() {
    let Some(mut bench) = Bench::new(ROWS[0]) else { return };
    let packing = Packing::of(&bench.volume.store.superblock);
    let mut names: Vec<Vec<u8>> = pairs(&packing, 1_500_000, b"").concat();
    assert!(names.len() > 500);
    names.sort_by_cached_key(|name| packing.hash_key(name));
    names.dedup();
    let majors = |leaf: &[Vec<u8>]| packing.hash_key(&leaf[0]).major;
    assert!(names.windows(2).any(|pair| majors(&pair[..1]) == majors(&pair[1..])));
    let plan = packing
        .plan(names.iter().map(|name| (name.len(), packing.hash_key(name))))
        .expect("a plan");
    assert!(plan.leaves.iter().filter(|leaf| leaf.hash & hashed::CONTINUED != 0).count() > 2);
    bench.pack(&names).expect("packed");
    assert_eq!(bench.listed(), names);
    for number in 0..2000 {
        bench.insert(&name(&mut Random(number + 1), number as usize)).expect("inserted");
    }
    for name in &names[..200] {
        bench.remove(name).expect("removed");
    }
    bench.check();
    bench.finish();
}

#[test]
fn a_leaf_that_splits_between_equal_hashes_goes_on() {
    let Some(mut bench) = Bench::with_directory(ROWS[0]) else {
        return;
    };
    let packing = Packing::of(&bench.volume.store.superblock);
    let pad = [b'p'; 247];
    let hash = |name: &[u8]| packing.hash_key(name).major;
    let pairs = pairs(&packing, 150_000, &pad);
    let [first, second] = pairs.first().expect("at least one pair");
    // In 1012 bytes: 236 below, twice 264 with the same hash, 236 above. Neither side has room for
    // both.
    let filler = |wanted: &dyn Fn(u32) -> bool| {
        let names = (0..).map(|number| format!("{number:0228}").into_bytes());
        names.into_iter().find(|name| wanted(hash(name))).expect("some name")
    };
    let below = filler(&|other| other < hash(first));
    let above = filler(&|other| other > hash(first));
    for name in [&below, first, &above, second] {
        bench.insert(name).expect("inserted");
    }
    bench.insert(b"one more name that splits the leaf").expect("inserted");
    let directory = Directory { volume: &bench.volume, node: &bench.node };
    let path = hashed::Path::to_hash(directory, hash(first)).expect("a path");
    assert_eq!(path.next_hash(directory).expect("an index"), Some(hash(first) | hashed::CONTINUED));
    bench.check();
    bench.finish();
}

#[test]
fn names_are_replaced() {
    for &row in &ROWS[..2] {
        for count in [5, 2000] {
            let Some(mut bench) = Bench::with_directory(row) else {
                return;
            };
            let mut random = Random(31);
            for number in 0..count {
                bench.insert(&name(&mut random, number)).expect("inserted");
            }
            let name = bench.names.keys().next().expect("some").clone();
            let ino = bench.files[0].ino;
            {
                let operation = Operation::begin(&bench.volume, credits::NAME).expect("writable");
                let node = &mut bench.node;
                directory::replace(&operation, node, &name, ino, FileType::Regular)
                    .expect("replaced");
                directory::replace(&operation, node, b"..", Ino(11), FileType::Directory)
                    .expect("replaced");
                let parent = directory::lookup(&bench.volume, node, b"..").expect("readable");
                assert_eq!(parent.map(|found| found.ino), Some(Ino(11)));
                directory::replace(&operation, node, b"..", Ino::ROOT, FileType::Directory)
                    .expect("replaced");
                let missing =
                    directory::replace(&operation, node, b"missing", ino, FileType::Regular);
                assert!(matches!(missing, Err(error) if matches!(error.kind, ErrorKind::NotFound)));
            }
            bench.names.insert(name, ino);
            bench.check();
            bench.finish();
        }
    }
}

#[test]
fn the_kernel_reads_names_in_the_same_order() {
    if !oracle::can_mount() {
        return;
    }
    for &row in ROWS.iter().filter(|(_, words, ..)| words[1] != "65536") {
        for count in [20, 700, 9000] {
            let Some(mut bench) = Bench::with_directory(row) else {
                return;
            };
            let mut random = Random(37);
            let count = if bench.volume.store.superblock.has(Feature::DIR_INDEX) {
                count
            } else {
                count.min(700)
            };
            for number in 0..count {
                bench.insert(&name(&mut random, number)).expect("inserted");
            }
            let ours = bench.listed();
            let scratch = Scratch::new("extant-directory");
            let image = bench.save(&scratch);
            let mounted =
                oracle::mount_loop(&image, oracle::Access::ReadOnly, "").expect("mounted");
            let theirs: Vec<Vec<u8>> = std::fs::read_dir(mounted.path().join("d"))
                .expect("a directory")
                .map(|entry| {
                    std::os::unix::ffi::OsStringExt::into_vec(entry.expect("an entry").file_name())
                })
                .collect();
            assert!(ours == theirs, "{row:?}, {count} names");
        }
    }
}

/// Whatever is in the blocks, the result is an answer or an error, in bounded time.
#[test]
fn garbage_neither_panics_nor_hangs() {
    for row in [ROWS[0], ROWS[1], ROWS[2], ROWS[6]] {
        let Some(mut bench) = Bench::with_directory(row) else {
            return;
        };
        let mut random = Random(41);
        let names: Vec<Vec<u8>> = (0..1200).map(|number| name(&mut random, number)).collect();
        for name in &names {
            bench.insert(name).expect("inserted");
        }
        bench.volume.space.sync().expect("written");
        let (ino, inode) = (bench.node.ino, bench.node.inode.clone());
        for _ in 0..150 {
            let volume = open(&Arc::new(bench.device.snapshot()));
            let node = NodeState::new(&volume, ino, inode.clone());
            let mut broken = Bench {
                volume,
                node,
                device: Arc::clone(&bench.device),
                files: Vec::new(),
                names: BTreeMap::new(),
            };
            broken.damage(&mut random);
            broken.exercise(&names, &mut random);
        }
    }
}

impl Bench {
    /// Changes bytes of some blocks in the cache, without fixing the checksums, and more often in
    /// the index.
    fn damage(&mut self, random: &mut Random) {
        let operation = Operation::begin(&self.volume, credits::NAME).expect("writable");
        let directory = Directory { volume: &self.volume, node: &self.node };
        let blocks = directory.blocks().expect("blocks");
        for _ in 0..1 + random.below(4) {
            let block = if random.below(2) == 0 { 0 } else { random.below(blocks as usize) as u32 };
            let frame = directory.read(FileBlock(block)).expect("readable");
            operation.modify(&frame, |bytes| {
                for _ in 0..1 + random.below(6) {
                    let end = if random.below(2) == 0 { 96 } else { bytes.len() };
                    let at = random.below(end);
                    bytes[at] = random.next() as u8;
                }
            });
        }
    }

    fn exercise(&mut self, names: &[Vec<u8>], random: &mut Random) {
        let _ = directory::is_empty(&self.volume, &self.node);
        let _ = directory::list(&self.volume, &self.node, &mut |_, _, _| {});
        let mut position = Position::Start;
        for _ in 0..100 {
            let mut left = 40;
            let _ = directory::list_from(&self.volume, &self.node, position, &mut |entry| {
                position = entry.next;
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if left > 0 {
                break;
            }
        }
        for _ in 0..60 {
            let old = &names[random.below(names.len())];
            let number = 5_000_000 + random.below(1000);
            let new = name(random, number);
            let _ = directory::lookup(&self.volume, &self.node, old);
            let operation = Operation::begin(&self.volume, credits::NAME).expect("writable");
            let _ = directory::remove(&operation, &mut self.node, old, Departure::Moved);
            let Ok(need) = directory::insert_need(&self.volume, &self.node, &new) else {
                continue;
            };
            let mut reservation = self.volume.space.reserve(need + 8).expect("room");
            let _ = directory::insert(
                &operation,
                &mut reservation,
                &mut self.node,
                &new,
                Ino(12),
                FileType::Regular,
            );
        }
    }
}
