//! Fast commits that nobody has written: each is one line, and nothing is changed.
use crate::recovery::kernel::{Left, Shutdown, Wish, is_possible, judge, leave, tree_at};
use crate::recovery::recover_by_writing;
use crate::volume::SetClock;
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::{Orphans, recover, recovered};
use extant_format::checksum::crc32c;
use extant_journal::{Journal, MapSource};
use extant_testkit::oracle::{Access, debugfs, mount_loop};
use extant_testkit::variables::number;
use extant_testkit::walk::Entry;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

const ADD: u16 = 1;
const DELETE: u16 = 2;
const CREATE: u16 = 3;
const LINK: u16 = 4;
const UNLINK: u16 = 5;
const INODE: u16 = 6;
const TAIL: u16 = 8;
const HEAD: u16 = 9;

/// Numbers of what is on the volume.
const DIRECTORY: u32 = 12;
const FILE: u32 = 14;
const OTHER: u32 = 15;
/// Not in use.
const FREE: u32 = 40;

fn load(root: &Path) -> Vec<File> {
    let sync = |name: &str| File::open(root.join(name)).unwrap().sync_all().unwrap();
    fs::create_dir(root.join("directory")).unwrap();
    fs::write(root.join("directory/below"), "b").unwrap();
    for name in ["file", "other"] {
        fs::write(root.join(name), name.repeat(2000)).unwrap();
    }
    fs::write(root.join("empty"), "").unwrap();
    extant_testkit::oracle::sync(root);
    fs::write(root.join("fast"), "1").unwrap();
    sync("fast");
    extant_testkit::oracle::sync(root);
    fs::write(root.join("fast"), "2").unwrap();
    sync("fast");
    Vec::new()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
    let head = [kind.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    [head.as_slice(), value].concat()
}

fn name(kind: u16, parent: u32, ino: u32, name: &[u8]) -> Vec<u8> {
    tag(kind, &[words(&[parent, ino]).as_slice(), name].concat())
}

/// An extent of `length` blocks from the first of a file.
fn add(ino: u32, length: u32, start: u32) -> Vec<u8> {
    tag(ADD, &words(&[ino, 0, length, start]))
}

fn delete(ino: u32, first: u32, length: u32) -> Vec<u8> {
    tag(DELETE, &words(&[ino, first, length]))
}

/// An inode of a file with extents and one link, but for the change.
fn inode(ino: u32, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; 160];
    bytes[..2].copy_from_slice(&0o100_644_u16.to_le_bytes());
    bytes[26] = 1;
    bytes[32..36].copy_from_slice(&0x8_0000_u32.to_le_bytes());
    bytes[128] = 32;
    change(&mut bytes);
    tag(INODE, &[words(&[ino]), bytes].concat())
}

/// Replaces the fast commits of a volume.
fn with(left: &Left, tags: &[Vec<u8>]) -> MemoryDevice {
    let bytes = fs::read(&left.image).expect("the image is read");
    let device = MemoryDevice::from_bytes(SetClock::new(1_800_000_000), &bytes);
    let shared: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
    let journal = Journal::find(shared, MapSource::Inode).expect("it is sound").expect("one");
    let sequence = journal.scan(0).expect("it is read").next.0;
    let size = journal.superblock().block_size as usize;
    let area = journal.superblock().fast_commit_area();
    let mut block = tag(HEAD, &words(&[0, sequence]));
    tags.iter().for_each(|tag| block.extend(tag));
    let tail_bytes = (size - block.len() - 4) as u16;
    block.extend([TAIL.to_le_bytes(), tail_bytes.to_le_bytes()].concat());
    block.extend(sequence.to_le_bytes());
    block.extend(crc32c(0, &block).to_le_bytes());
    block.resize(size, 0);
    for number in area.start..area.start + 3 {
        let place = journal.place(number..number + 1).start.0 * size as u64;
        let bytes = if number == area.start { block.clone() } else { vec![0; size] };
        device.write(place, &bytes).expect("it is written");
    }
    device
}

fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.info().bytes as usize];
    device.read(0, &mut bytes).expect("it is read");
    bytes
}

#[test]
fn tags_that_cannot_be_are_one_line_and_change_nothing() {
    if !is_possible() {
        return;
    }
    let wish = Wish { features: "fast_commit", block_size: 1024 };
    let made = (0..10).map(|_| leave(wish, Shutdown::AtOnce, load)).find(Left::is_fast);
    let left = made.expect("there are fast commits");
    let number = |name: &str| {
        let entry = left.tree.iter().find(|entry| entry.path.as_os_str() == name);
        entry.expect("it is there").ino as u32
    };
    assert_eq!([number("directory"), number("file"), number("other")], [DIRECTORY, FILE, OTHER]);
    let file_type =
        |kind: u16| move |bytes: &mut [u8]| bytes[..2].copy_from_slice(&kind.to_le_bytes());
    let cases: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (vec![inode(0, |_| {})], "not one that a file or directory can have"),
        (vec![inode(8, |_| {})], "not one that a file or directory can have"),
        (vec![inode(7, |_| {})], "not one that a file or directory can have"),
        (vec![inode(u32::MAX, |_| {})], "not one that a file or directory can have"),
        (vec![inode(FREE, file_type(0o644))], "not a file type"),
        (vec![inode(DIRECTORY, |_| {})], "not that of the directory there"),
        (vec![inode(OTHER, file_type(0o040_755))], "not that of the file there"),
        (vec![inode(FREE, |bytes| bytes[128] = 33)], "not what fits"),
        (vec![inode(FREE, |bytes| bytes[128] = 200)], "not what fits"),
        (vec![inode(FREE, |bytes| bytes[104] = 9)], "not part of a fast commit"),
        (vec![inode(FREE, |bytes| bytes[35] = 0x10)], "inode flags"),
        (vec![inode(FREE, |bytes| bytes[111] = 0xff)], "larger than a file can be"),
        (vec![inode(FREE, |bytes| bytes[34] = 0)], "without extents"),
        (vec![add(FREE, 1, 20_000)], "not in use"),
        (vec![add(OTHER, 1, 0)], "outside the volume"),
        (vec![add(OTHER, 1, 1)], "outside the volume"),
        (vec![add(OTHER, 1, 40 << 10)], "outside the volume"),
        (vec![add(OTHER, 8, (40 << 10) - 4)], "outside the volume"),
        (vec![add(OTHER, 1, 2)], "the volume's own metadata"),
        (vec![add(OTHER, 1000, 8200)], "the volume's own metadata"),
        (vec![add(OTHER, 4, 30_000), add(FILE, 4, 30_002)], "that another range has too"),
        (vec![delete(FREE, 0, 1)], "not in use"),
        (vec![delete(OTHER, u32::MAX, 5)], "not the start of a range"),
        (vec![name(CREATE, 2, FREE, b"new")], "not in use"),
        (vec![name(LINK, 2, 9, b"new")], "not one that a file or directory can have"),
        (vec![name(LINK, OTHER, FILE, b"new")], "not a directory"),
        (vec![name(LINK, FREE, FILE, b"new")], "not in use"),
        (vec![name(LINK, 2, FILE, b"a/b")], "not one that a file can have"),
        (vec![name(LINK, 2, FILE, b"a\0b")], "not one that a file can have"),
        (vec![name(LINK, 2, FILE, b"..")], "not one that a file can have"),
        (vec![name(LINK, 2, FILE, b"other")], "not the one that the name has"),
        (vec![name(LINK, DIRECTORY, DIRECTORY, b"loop")], "a loop"),
        (vec![name(LINK, DIRECTORY, 2, b"loop")], "a loop"),
        (vec![name(UNLINK, 2, DIRECTORY, b"directory")], "not those of a directory with names"),
    ];
    for (at, (tags, expected)) in cases.iter().enumerate() {
        let device = with(&left, tags);
        let before = bytes_of(&device);
        let shared: Arc<dyn BlockDevice> = Arc::new(device);
        let what = format!("case {at}, {expected:?}");
        let read = recovered(Arc::clone(&shared), Orphans::Finish).err();
        let written = recover(&shared).err();
        for error in [read, written] {
            let line = error.unwrap_or_else(|| panic!("{what}: it was replayed")).to_string();
            assert!(line.contains(expected) && !line.contains('\n'), "{what}: {line}");
        }
        assert!(bytes_of(&*shared) == before, "{what}: it was changed");
    }
    // The journal's own blocks belong to an inode that no fast commit may change.
    let journal = Journal::find(Arc::new(with(&left, &[])), MapSource::Inode);
    let start = journal.expect("it is sound").expect("one").place(0..1).start.0;
    let device: Arc<dyn BlockDevice> = Arc::new(with(&left, &[add(OTHER, 1, start as u32)]));
    let line = recover(&device).expect_err("it is refused").to_string();
    assert!(line.contains("belong to something else"), "{line}");
}

/// Linux 6.18 writes such: a directory and its names went in a full commit, and the names are in
/// the next fast one again.
#[test]
fn names_that_go_from_no_directory_are_gone() {
    if !is_possible() {
        return;
    }
    let wish = Wish { features: "fast_commit", block_size: 1024 };
    let made = (0..10).map(|_| leave(wish, Shutdown::AtOnce, load)).find(Left::is_fast);
    let left = made.expect("there are fast commits");
    let entry = left.tree.iter().find(|entry| entry.path.as_os_str() == "empty");
    let empty = entry.expect("it is there").ino as u32;
    let tags = [
        name(UNLINK, FREE, FILE, b"file"),
        name(UNLINK, FREE, FREE + 1, b"gone"),
        name(UNLINK, empty, FILE, b"file"),
        name(UNLINK, DIRECTORY, FREE, b"nothing"),
        name(LINK, DIRECTORY, FILE, b"linked"),
    ];
    let image = left.beside("crafted.img");
    fs::write(&image, bytes_of(&with(&left, &tags))).unwrap();
    let ours = left.beside("ours.img");
    fs::copy(&image, &ours).unwrap();
    recover_by_writing(&ours).unwrap();
    judge(&ours, "after ours");
    mount_loop(&image, Access::ReadWrite, "").expect("the kernel replays it").unmount().unwrap();
    let tree = |image: &Path| {
        let mounted = mount_loop(image, Access::ReadOnly, "noload").unwrap();
        let found = tree_at(mounted.path());
        mounted.unmount().unwrap();
        found
    };
    let (ours, kernels) = (tree(&ours), tree(&image));
    let names = |tree: &[Entry]| {
        let link = |entry: &Entry| (entry.path.clone(), entry.ino, entry.links);
        tree.iter().map(link).collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&kernels));
    assert!(ours.iter().any(|entry| entry.path.as_os_str() == "directory/linked"));
}

/// Linux notes the ranges of an inode before the inode: where the number is another file's by then
/// (and the note that made it was lost), they are the new one's.
#[test]
fn ranges_that_are_told_before_a_new_inode_are_its_own() {
    if !is_possible() {
        return;
    }
    let wish = Wish { features: "fast_commit", block_size: 1024 };
    let made = (0..10).map(|_| leave(wish, Shutdown::AtOnce, load)).find(Left::is_fast);
    let left = made.expect("there are fast commits");
    let new = inode(OTHER, |bytes| {
        bytes[4..8].copy_from_slice(&2048_u32.to_le_bytes());
        bytes[100] ^= 7;
    });
    let tags = [add(FILE, 1, 31_000), inode(FILE, |_| {}), add(OTHER, 2, 30_000), new];
    let image = left.beside("crafted.img");
    fs::write(&image, bytes_of(&with(&left, &tags))).unwrap();
    let ours = left.beside("ours.img");
    fs::copy(&image, &ours).unwrap();
    recover_by_writing(&ours).unwrap();
    judge(&ours, "after ours");
    // The kernel gives them to it too, and leaves the rest of the old file's blocks with it.
    mount_loop(&image, Access::ReadWrite, "").expect("the kernel replays it").unmount().unwrap();
    for (ino, expected) in [(FILE, "31000"), (OTHER, "30000 30001")] {
        let blocks = |image: &Path| debugfs(image, &format!("blocks <{ino}>")).unwrap();
        assert_eq!(blocks(&ours).trim(), expected);
        assert!(blocks(&image).starts_with(expected), "{}", blocks(&image));
    }
}

#[test]
fn random_tags_do_no_harm() {
    if !is_possible() {
        return;
    }
    let wish = Wish { features: "fast_commit", block_size: 1024 };
    let made = (0..10).map(|_| leave(wish, Shutdown::AtOnce, load)).find(Left::is_fast);
    let left = made.expect("there are fast commits");
    let mut random = crate::volume::Random::new(7);
    let inodes = [2, 8, 11, DIRECTORY, FILE, OTHER, 16, FREE, u32::MAX];
    for round in 0..number("EXTANT_HOSTILE_ROUNDS") {
        let mut tags = Vec::new();
        for _ in 0..random.below(6) + 1 {
            let ino = *random.pick(&inodes);
            let parent = *random.pick(&inodes);
            let number = random.next() as u32;
            tags.push(match random.below(7) {
                0 => add(ino, number % 40_000, number % 45_000),
                1 => delete(ino, number % 64, number >> 8),
                2 => name(CREATE, parent, ino, b"created"),
                3 => name(LINK, parent, ino, b"linked"),
                4 => name(
                    UNLINK,
                    parent,
                    ino,
                    random.pick(&["file", "other", "directory"]).as_bytes(),
                ),
                5 => inode(ino, |bytes| bytes[random.below(160) as usize] = number as u8),
                _ => inode(ino, |bytes| bytes[1] = 0o100),
            });
        }
        let device = with(&left, &tags);
        let before = bytes_of(&device);
        let shared: Arc<dyn BlockDevice> = Arc::new(device);
        match recover(&shared) {
            Ok(_) => {}
            Err(error) => {
                let line = error.to_string();
                assert!(!line.contains('\n'), "round {round}: {line}");
                assert!(bytes_of(&*shared) == before, "round {round}: {line}: it was changed");
            }
        }
    }
}
