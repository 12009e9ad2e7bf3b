//! Choices that decide how much survives, each on a volume with one kind of damage: what the files
//! hold after it, and that e2fsck is content.
use crate::corpus::{image, judged, mended};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};

/// Where the superblock has its UUID, the block that records mounts, and its checksum.
const UUID: usize = 1024 + 0x68;
const CHECKSUM: usize = 1024 + 0x3fc;
/// Bytes of a block in all volumes here.
pub(crate) const BLOCK: usize = 1024;

/// A volume made by mke2fs of a tree, and a folder for its copies.
pub(crate) struct Volume {
    scratch: Scratch,
    pub(crate) bytes: Vec<u8>,
}

/// Files of the tree: their names, and the piece that is repeated in them.
const FILES: [(&str, &str); 3] = [("one", "first "), ("two", "second"), ("d/three", "third ")];

/// What a file of the tree holds: `pieces` of 3000 bytes, each 300 KiB after the one before, and
/// odd ones 5 KiB later, so that maps differ.
fn content(piece: &str, shift: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..6 {
        bytes.resize((300 * at + shift) * BLOCK, 0);
        bytes.extend(piece.repeat(500).into_bytes());
    }
    bytes
}

pub(crate) fn expected(name: &str) -> Vec<u8> {
    let (at, (_, piece)) =
        FILES.iter().enumerate().find(|(_, (of, _))| *of == name).expect("a file");
    content(piece, at * 5)
}

impl Volume {
    pub(crate) fn new(name: &str, words: &str, size: &str) -> Option<Volume> {
        Volume::of_tree(name, words, size, Volume::fill)
    }

    /// The files of the tree.
    fn fill(tree: &Path) {
        std::fs::create_dir_all(tree.join("d")).expect("scratch has room");
        for (name, _) in FILES {
            // With holes, as `mke2fs -d` keeps them.
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::create(tree.join(name)).expect("scratch has room");
            let bytes = expected(name);
            let mut end = 0;
            for (at, piece) in bytes.chunks(BLOCK).enumerate() {
                if piece.iter().any(|byte| *byte != 0) {
                    file.write_all_at(piece, (at * BLOCK) as u64).expect("scratch has room");
                    end = at * BLOCK + piece.len();
                }
            }
            file.set_len(end as u64).expect("scratch has room");
        }
        std::fs::create_dir_all(tree.join("d/e/f")).expect("scratch has room");
        std::fs::hard_link(tree.join("d/three"), tree.join("d/e/f/four")).expect("a link");
    }

    /// A volume of what is put into a folder.
    pub(crate) fn of_tree(
        name: &str,
        words: &str,
        size: &str,
        fill: impl FnOnce(&Path),
    ) -> Option<Volume> {
        if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
            return None;
        }
        let scratch = Scratch::new(name);
        let tree = scratch.join("tree");
        std::fs::create_dir_all(&tree).expect("scratch has room");
        fill(&tree);
        let path = scratch.join("volume");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "1024"]).args(words.split_whitespace());
        output(mke2fs.arg("-d").arg(&tree).arg(&path).arg(size)).expect("mke2fs makes it");
        let bytes = std::fs::read(&path).expect("it is there");
        Some(Volume { scratch, bytes })
    }

    /// The volume after a command of debugfs.
    pub(crate) fn edited(&self, command: &str) -> Vec<u8> {
        let path = self.written(&self.bytes);
        output(program("debugfs").args(["-w", "-R", command]).arg(&path)).expect("debugfs does it");
        std::fs::read(path).expect("it is there")
    }

    /// The byte at which an inode is.
    pub(crate) fn inode_at(&self, name: &str) -> usize {
        let path = self.written(&self.bytes);
        let mut debugfs = program("debugfs");
        let run = output(debugfs.args(["-R", &format!("imap {name}")]).arg(path)).expect("it is");
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let rest = text.split("located at block ").nth(1).expect("a block");
        let (block, offset) = rest.split_once(", offset 0x").expect("an offset");
        let block: usize = block.trim().parse().expect("a number");
        block * BLOCK + usize::from_str_radix(offset.trim(), 16).expect("a number")
    }

    pub(crate) fn written(&self, bytes: &[u8]) -> PathBuf {
        let path = self.scratch.join("copy");
        std::fs::write(&path, bytes).expect("scratch has room");
        path
    }

    /// A file as debugfs reads it.
    pub(crate) fn read(&self, bytes: &[u8], name: &str) -> Vec<u8> {
        read(&self.written(bytes), name)
    }

    /// Mends, and finds the volume clean with all of its files.
    fn keeps_all(&self, damaged: &[u8], scope: Scope) -> Vec<u8> {
        let repaired = mended(damaged, scope).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        assert!(
            repaired.changes.iter().all(|change| change.loss.is_none()),
            "{:?}",
            repaired.changes
        );
        let after = image(&repaired);
        assert_eq!(judged(&self.written(&after)), None);
        self.has_all(&after);
        after
    }

    /// Every file holds what it held.
    pub(crate) fn has_all(&self, image: &[u8]) {
        for (name, _) in FILES {
            assert!(self.read(image, name) == expected(name), "{name}");
        }
    }
}

fn read(image: &Path, name: &str) -> Vec<u8> {
    let mut debugfs = program("debugfs");
    let read = debugfs.args(["-R", &format!("cat \"/{name}\"")]).arg(image);
    output(read).expect("debugfs reads").stdout
}

/// The block of the descriptors of a volume whose blocks are of 1 KiB.
const DESCRIPTORS: usize = 2 * BLOCK;

/// A file that has the map of another one, double indirect blocks and all: each has its own after
/// that, and both hold what they held.
#[test]
fn files_with_one_map_get_one_each() {
    for words in ["-t ext2", "-t ext4"] {
        let Some(volume) = Volume::new("kept-map", words, "16M") else { return };
        let damaged = volume.edited("copy_inode /one /two");
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None);
        assert!(volume.read(&after, "one") == expected("one"), "{words}");
        assert!(volume.read(&after, "two") == expected("one"), "{words}");
        assert!(volume.read(&after, "d/three") == expected("d/three"), "{words}");
    }
}

/// A tree of extents that is taken for pointers, because its flag is lost: with a checksum that
/// fits, with one that does not, and where there are none.
#[test]
fn a_file_that_lost_the_flag_of_extents_keeps_its_content() {
    for words in ["-t ext4", "-t ext4 -O ^metadata_csum", "-t ext4 -O bigalloc -C 4096"] {
        let Some(volume) = Volume::new("kept-flag", words, "16M") else { return };
        for scope in [Scope::Safe, Scope::All] {
            volume.keeps_all(&volume.edited("sif /one flags 0"), scope);
            let mut damaged = volume.bytes.clone();
            damaged[volume.inode_at("/d/three") + 0x22] &= !0x08;
            assert!(damaged != volume.bytes, "{words}: it had the flag");
            volume.keeps_all(&damaged, scope);
        }
    }
}

/// The inode of an attribute's value whose map leads to more than the value: it is cut, and the
/// attribute is read as before. e2fsck makes the inode as long as its map, and the attribute is
/// lost.
#[test]
fn a_value_keeps_the_size_that_its_hash_proves() {
    let words = "-t ext4 -O ea_inode,^metadata_csum";
    let Some(mut volume) = Volume::new("kept-value", words, "16M") else { return };
    let value = volume.scratch.join("value");
    std::fs::write(&value, "value ".repeat(500)).expect("scratch has room");
    volume.bytes = volume.edited(&format!("ea_set -f {} /one user.large", value.display()));
    let read = |bytes: &[u8]| {
        let out = volume.scratch.join("out");
        let _ = std::fs::remove_file(&out);
        let mut debugfs = program("debugfs");
        let command = format!("ea_get -f {} /one user.large", out.display());
        debugfs.args(["-R", &command]).arg(volume.written(bytes));
        output(&mut debugfs).expect("debugfs reads");
        std::fs::read(out).expect("it is there")
    };
    let before = read(&volume.bytes);
    // debugfs gives no more of a value than a block.
    assert_eq!(before.len(), BLOCK);
    // The value has the number after the last file's.
    let numbers = ["/one", "/two", "/d", "/d/three", "/d/e", "/d/e/f"].map(|name| {
        let mut debugfs = program("debugfs");
        let run = output(
            debugfs.args(["-R", &format!("stat {name}")]).arg(volume.written(&volume.bytes)),
        );
        let text = String::from_utf8_lossy(&run.expect("debugfs").stdout).into_owned();
        let rest = text.split("Inode: ").nth(1).expect("a number");
        rest.split_whitespace().next().expect("a number").parse::<u32>().expect("a number")
    });
    let ino = numbers.into_iter().max().expect("a file") + 1;
    let mut damaged = volume.bytes.clone();
    // The length of the first extent.
    damaged[volume.inode_at(&format!("<{ino}>")) + 0x28 + 16] += 9;
    assert!(damaged != volume.bytes);
    let after = volume.keeps_all(&damaged, Scope::Safe);
    assert!(read(&after) == before, "the value is another");
}

/// Inodes of bytes that nobody wrote: they are freed, and no name has the rights that chance gives.
#[test]
fn inodes_of_chance_are_freed() {
    for words in ["-t ext4", "-t ext4 -O ^metadata_csum", "-t ext2", "-t ext4 -O inline_data"] {
        let Some(volume) = Volume::new("kept-chance", words, "8M") else { return };
        let at = volume.inode_at("/one") / BLOCK * BLOCK;
        for seed in 1..9_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut damaged = volume.bytes.clone();
            for byte in &mut damaged[at..at + BLOCK] {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                *byte = (state >> 56) as u8;
            }
            let repaired = mended(&damaged, Scope::All).expect("it is mended");
            assert!(repaired.is_clean(), "{words}, {seed}: left {:?}", repaired.left.counts);
            let after = image(&repaired);
            assert_eq!(judged(&volume.written(&after)), None, "{words}, {seed}");
            let path = volume.written(&after);
            let listed = output(program("debugfs").args(["-R", "ls -l /lost+found"]).arg(&path));
            let listed = listed.expect("debugfs lists").stdout;
            let listed = String::from_utf8_lossy(&listed).into_owned();
            let modes: Vec<&str> =
                listed.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
            let is_plain = |mode: &&&str| !matches!(**mode, "40700" | "40755" | "100644" | "0");
            assert_eq!(modes.iter().find(is_plain), None, "{words}, {seed}: {listed}");
        }
    }
}

/// A directory that has the inode of another one: the one that its first entry names keeps its
/// names.
#[test]
fn a_copy_of_a_directory_takes_no_names() {
    for words in ["-t ext2", "-t ext4"] {
        let Some(volume) = Volume::new("kept-directory", words, "16M") else { return };
        let damaged = volume.edited("copy_inode /d/e /lost+found");
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None);
        assert!(volume.read(&after, "d/e/f/four") == expected("d/three"), "{words}");
    }
}

/// The first extent of a leaf says that it is far behind the others: it is where its parent says
/// that the leaf begins, and no hole of terabytes is before it.
#[test]
fn an_extent_that_is_not_in_order_is_where_its_leaf_begins() {
    for words in ["-t ext4", "-t ext4 -O ^metadata_csum"] {
        let Some(volume) = Volume::new("kept-order", words, "16M") else { return };
        let index = volume.inode_at("/one") + 40 + 12;
        let leaf = &volume.bytes[index + 4..index + 8];
        let leaf = u32::from_le_bytes(leaf.try_into().expect("four")) as usize * BLOCK;
        let mut damaged = volume.bytes.clone();
        damaged[leaf + 12..leaf + 16].copy_from_slice(&3_000_000_000_u32.to_le_bytes());
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "{words}: left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{words}");
        volume.has_all(&after);
    }
}

/// The only extent of a file is far behind its end, and as long as the file: it is the file, which
/// does not get a size of terabytes.
#[test]
fn an_extent_alone_is_all_of_its_file() {
    let Some(volume) = Volume::new("kept-alone", "-t ext4", "16M") else { return };
    let path = volume.written(&volume.bytes);
    let source = volume.scratch.join("source");
    std::fs::write(&source, "a file of one block").expect("scratch has room");
    let script = format!("write {} alone", source.display());
    output(program("debugfs").args(["-w", "-R", &script]).arg(&path)).expect("it is written");
    let bytes = std::fs::read(&path).expect("it is there");
    let volume = Volume { bytes, ..volume };
    let first = volume.inode_at("/alone") + 40 + 12;
    let mut damaged = volume.bytes.clone();
    damaged[first..first + 4].copy_from_slice(&3_000_000_000_u32.to_le_bytes());
    let repaired = mended(&damaged, Scope::All).expect("it is mended");
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    let after = image(&repaired);
    assert_eq!(judged(&volume.written(&after)), None);
    assert_eq!(volume.read(&after, "alone"), b"a file of one block");
}

/// The first entry of a directory says that it takes the whole block: those behind it are there.
#[test]
fn names_behind_a_dot_that_is_too_long_stay() {
    for (words, length) in [("-t ext2", BLOCK), ("-t ext4", BLOCK - 12), ("-t ext4", 24)] {
        let Some(volume) = Volume::new("kept-dot", words, "16M") else { return };
        let mut blocks = program("debugfs");
        let blocks = output(blocks.args(["-R", "blocks /d"]).arg(volume.written(&volume.bytes)));
        let text = String::from_utf8_lossy(&blocks.expect("it says").stdout).into_owned();
        let block: usize = text.trim().parse().expect("one block");
        let mut damaged = volume.bytes.clone();
        let field = block * BLOCK + 4;
        damaged[field..field + 2].copy_from_slice(&(length as u16).to_le_bytes());
        if length > 24 {
            volume.keeps_all(&damaged, Scope::Safe);
            continue;
        }
        // Another entry could be where `..` is not, and would be lost.
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        volume.has_all(&image(&repaired));
    }
}

/// A file has the block of pointers of a directory: the directory keeps its names in their places,
/// whichever of the two comes first.
#[test]
fn a_directory_whose_map_another_file_has_keeps_its_names() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("kept-shared");
    let (path, source, script) =
        (scratch.join("volume"), scratch.join("source"), scratch.join("script"));
    std::fs::write(&source, "a file").expect("scratch has room");
    let write = |name: &str| format!("write {} {name}\n", source.display());
    let names: Vec<String> = (0..300).map(|number| format!("{number:0>100}")).collect();
    let mut lines = write("before") + "mkdir d\n";
    lines.extend(names.iter().map(|name| write(&format!("d/{name}"))));
    std::fs::write(&script, lines + &write("after")).expect("scratch has room");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext2", "-b", "1024", "-N", "1024"]).arg(&path).arg("8M");
    output(&mut mke2fs).expect("mke2fs makes it");
    output(program("debugfs").arg("-w").arg("-f").arg(&script).arg(&path)).expect("it is filled");
    let bytes = std::fs::read(&path).expect("it is there");
    let volume = Volume { scratch, bytes };
    let pointer = |name: &str| volume.inode_at(name) + 40 + 12 * 4;
    for other in ["/before", "/after"] {
        let mut damaged = volume.bytes.clone();
        damaged.copy_within(pointer("/d")..pointer("/d") + 4, pointer(other));
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "{other}: left {:?}", repaired.left.counts);
        let copy = volume.written(&image(&repaired));
        assert_eq!(judged(&copy), None, "{other}");
        let listed = |folder: &str| {
            let list = format!("ls -p {folder}");
            let listed = output(program("debugfs").args(["-R", &list]).arg(&copy));
            String::from_utf8_lossy(&listed.expect("it lists").stdout).into_owned()
        };
        let in_place = listed("/d");
        let kept = names.iter().filter(|name| in_place.contains(name.as_str())).count();
        assert_eq!(kept, names.len(), "{other}: {:?}", repaired.changes);
        assert!(!listed("/lost+found").contains('#'), "{other}: {:?}", repaired.changes);
    }
}

/// Blocks of the maps of two files, each in the place of the other: their checksums say that they
/// are not what was written, and a safe repair does not make them so.
#[test]
fn a_map_that_its_checksum_denies_is_not_safe() {
    let Some(volume) = Volume::new("kept-denied", "-t ext4", "16M") else { return };
    let leaf = |name: &str| {
        let extents = format!("ex /{name}");
        let mut debugfs = program("debugfs");
        let path = volume.written(&volume.bytes);
        let said = output(debugfs.args(["-R", &extents]).arg(path)).expect("debugfs reads").stdout;
        let said = String::from_utf8(said).expect("text");
        let line = said.lines().nth(1).expect("the root").to_owned();
        // Level, entry, the file blocks, then the block, and how many it maps.
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().rev().nth(1)?.parse::<usize>().ok()
    };
    let (Some(one), Some(two)) = (leaf("one"), leaf("two")) else {
        panic!("no blocks of maps");
    };
    let mut damaged = volume.bytes.clone();
    let [one, two] = [one, two].map(|at| at * BLOCK..(at + 1) * BLOCK);
    damaged[one.clone()].copy_from_slice(&volume.bytes[two.clone()]);
    damaged[two.clone()].copy_from_slice(&volume.bytes[one.clone()]);
    let repaired = mended(&damaged, Scope::Safe).expect("it is looked at");
    assert!(!repaired.is_clean(), "{:?}", repaired.changes);
    let after = image(&repaired);
    assert!(after[one.clone()] == damaged[one] && after[two.clone()] == damaged[two]);
    // Whoever wants it nevertheless is told.
    let repaired = mended(&damaged, Scope::All).expect("it is mended");
    assert!(repaired.is_clean());
    let told = repaired.changes.iter().filter(|change| change.loss.is_some());
    assert_eq!(told.count(), 2, "{:?}", repaired.found.counts);
}

/// A superblock whose checksum is wrong: by a copy of its own volume, by no other, and as it stands
/// only where a copy says the same.
#[test]
fn a_superblock_is_believed_as_far_as_a_copy_goes() {
    let Some(copied) = Volume::new("kept-super", "-t ext4 -g 2048", "16M") else { return };
    let mut damaged = copied.bytes.clone();
    damaged[UUID] ^= 0x55;
    copied.keeps_all(&damaged, Scope::Safe);
    let mut damaged = copied.bytes.clone();
    damaged[CHECKSUM] ^= 0x55;
    copied.keeps_all(&damaged, Scope::Safe);
    // One group: nothing confirms what is there.
    let Some(alone) = Volume::new("kept-alone", "-t ext4", "8000k") else { return };
    let mut damaged = alone.bytes.clone();
    for (at, byte) in damaged[1024 + 0x200..1024 + 0x260].iter_mut().enumerate() {
        *byte = at as u8 ^ 0x5a;
    }
    let repaired = mended(&damaged, Scope::Safe).expect("it is looked at");
    assert!(!repaired.is_clean() && image(&repaired) == damaged, "{:?}", repaired.changes);
    // What a larger file system left behind the end of this one.
    let mut former = copied.bytes.clone();
    former.truncate(8192 * BLOCK);
    let Some(large) = Volume::new("kept-former", "-t ext4", "32M") else { return };
    let mut left = large.bytes.clone();
    left[..alone.bytes.len()].copy_from_slice(&alone.bytes);
    left[CHECKSUM] ^= 0x55;
    let refused = mended(&left, Scope::Safe).err().expect("refused");
    assert!(refused.contains("another UUID"), "{refused}");
}

/// A file with the flag of a value, which no attribute has.
#[test]
fn a_file_that_is_no_value_keeps_its_name() {
    for words in ["-t ext4", "-t ext4 -O ea_inode", "-t ext2"] {
        let Some(volume) = Volume::new("kept-value", words, "16M") else { return };
        let flags = if words == "-t ext2" { "0x200000" } else { "0x280000" };
        let damaged = volume.edited(&format!("sif /one flags {flags}"));
        volume.keeps_all(&damaged, Scope::Safe);
    }
}

/// A descriptor that leads elsewhere: the table is where a copy says, or where its inodes stand.
#[test]
fn a_table_that_nothing_leads_to_is_found() {
    const TABLE: usize = 8;
    const BITMAP: usize = 4;
    let kinds = [
        ("-t ext4 -g 2048", "16M"),
        ("-t ext4", "8000k"),
        ("-t ext4 -O ^metadata_csum,^uninit_bg", "8000k"),
        ("-t ext2 -g 2048", "16M"),
        ("-t ext3", "8000k"),
    ];
    for (words, size) in kinds {
        let Some(volume) = Volume::new("kept-table", words, size) else { return };
        for at in [TABLE, BITMAP] {
            for wild in [0x2a_u32, 7000, u32::MAX] {
                let mut damaged = volume.bytes.clone();
                let place = DESCRIPTORS + at;
                // Where nothing says that it is wrong, and no copy is there, what stands elsewhere
                // may be anything.
                let is_told = words.contains("-g") || words == "-t ext4";
                if wild != u32::MAX && at == TABLE && !is_told {
                    continue;
                }
                damaged[place..place + 4].copy_from_slice(&wild.to_le_bytes());
                if damaged != volume.bytes {
                    println!("{words}: byte {at} of the descriptor, {wild}");
                    volume.keeps_all(&damaged, Scope::Safe);
                }
            }
        }
    }
}

/// A file that is the image of a file system has a table of inodes too: it is not taken for the
/// volume's, whose root is lost or whose descriptor leads nowhere.
#[test]
fn an_image_in_a_file_is_not_the_volume() {
    let words = "-t ext2 -I 256 -N 256";
    let Some(inner) = Volume::new("kept-inner", words, "7000k") else { return };
    let tree = inner.scratch.join("tree");
    std::fs::write(tree.join("backup"), &inner.bytes).expect("scratch has room");
    let path = inner.scratch.join("outer");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024"]).args(words.split_whitespace());
    output(mke2fs.arg("-d").arg(&tree).arg(&path).arg("16M")).expect("mke2fs makes it");
    let outer = std::fs::read(&path).expect("it is there");
    let table = |bytes: &[u8]| {
        let field = bytes[DESCRIPTORS + 8..DESCRIPTORS + 12].try_into().expect("four bytes");
        u32::from_le_bytes(field)
    };
    let mut rootless = outer.clone();
    let root = table(&outer) as usize * BLOCK + 256;
    rootless[root..root + 256].fill(0);
    let repaired = mended(&rootless, Scope::All).expect("it is mended");
    let after = image(&repaired);
    assert_eq!(table(&after), table(&outer));
    let kept = |number: u32| inner.read(&after, &format!("lost+found/#{number}"));
    assert!((12..32).any(|number| kept(number) == expected("one")), "the file is lost");
    for scope in [Scope::Safe, Scope::All] {
        let mut astray = outer.clone();
        astray[DESCRIPTORS + 8..DESCRIPTORS + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        if let Ok(repaired) = mended(&astray, scope) {
            let found = table(&image(&repaired));
            let inner_at = outer.windows(BLOCK).step_by(BLOCK).position(|block| {
                let from = table(&inner.bytes) as usize * BLOCK;
                block == &inner.bytes[from..from + BLOCK]
            });
            let inner_at = inner_at.expect("the image is in it") as u32;
            // In the first two groups both stand, and the one of the volume is as its copy says.
            assert_ne!(found, inner_at);
        }
    }
}

/// A superblock in a file that holds an image is no copy of the volume's, though the damaged one
/// says that the second group begins there.
#[test]
fn a_superblock_in_a_file_is_no_copy() {
    const BLOCKS_PER_GROUP: usize = 1024 + 0x20;
    let Some(inner) = Volume::new("kept-inner-copy", "-t ext2", "7000k") else { return };
    std::fs::write(inner.scratch.join("tree/backup"), &inner.bytes).expect("scratch has room");
    let path = inner.scratch.join("outer");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-t", "ext2", "-g", "2048", "-d"]);
    mke2fs.arg(inner.scratch.join("tree")).arg(&path).arg("16M");
    output(&mut mke2fs).expect("mke2fs makes it");
    let outer = std::fs::read(&path).expect("it is there");
    let superblock = &inner.bytes[1024..2048];
    let within = outer.chunks(BLOCK).position(|block| block == superblock).expect("it is in it");
    for damaged_magic in [false, true] {
        let mut damaged = outer.clone();
        let blocks = u32::try_from(within - 1).expect("few blocks");
        damaged[BLOCKS_PER_GROUP..BLOCKS_PER_GROUP + 4].copy_from_slice(&blocks.to_le_bytes());
        if damaged_magic {
            damaged[1024 + 0x38] ^= 0xff;
        }
        for scope in [Scope::Safe, Scope::All] {
            let Ok(repaired) = mended(&damaged, scope) else { continue };
            let after = image(&repaired);
            assert_eq!(after[UUID..UUID + 16], outer[UUID..UUID + 16], "{scope:?}");
        }
    }
}

/// The file of orphans, and the block that records mounts: both are written anew.
#[test]
fn blocks_of_the_system_are_written_anew() {
    let Some(volume) = Volume::new("kept-orphans", "-t ext4 -O orphan_file", "16M") else { return };
    let magic = 0x0b10_ca04_u32.to_le_bytes();
    let at = volume.bytes.chunks(BLOCK).position(|block| block[BLOCK - 8..BLOCK - 4] == magic);
    let mut damaged = volume.bytes.clone();
    damaged[(at.expect("a file of orphans") + 3) * BLOCK] = 1;
    let after = volume.keeps_all(&damaged, Scope::Safe);
    assert!(after == volume.keeps_all(&after, Scope::Safe), "the second run changes something");

    let Some(volume) = Volume::new("kept-mounts", "-t ext4 -O mmp", "16M") else { return };
    let magic = 0x004d_4d50_u32.to_le_bytes();
    let at = volume.bytes.chunks(BLOCK).position(|block| block.starts_with(&magic));
    let at = at.expect("a block that records mounts") * BLOCK;
    for range in [at..at + BLOCK, at..at + 1, at + 0x3fc..at + 0x400] {
        let mut damaged = volume.bytes.clone();
        damaged[range].iter_mut().for_each(|byte| *byte = !*byte);
        volume.keeps_all(&damaged, Scope::Safe);
    }
    let mut elsewhere = volume.edited("ssv mmp_block 100000");
    // debugfs has not given it back, since it does not find it.
    elsewhere[at..at + BLOCK].copy_from_slice(&volume.bytes[at..at + BLOCK]);
    volume.keeps_all(&elsewhere, Scope::Safe);
}

/// A volume with a directory of so many names, and whether its index has a level of nodes.
fn indexed(words: &str, names: usize, length: usize) -> Option<(Volume, Vec<String>)> {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return None;
    }
    let scratch = Scratch::new("kept-indexed");
    let tree = scratch.join("tree");
    std::fs::create_dir_all(tree.join("d")).expect("scratch has room");
    let names: Vec<String> = (0..names).map(|number| format!("{number:0>length$}")).collect();
    for name in &names {
        std::fs::write(tree.join("d").join(name), name).expect("scratch has room");
    }
    let path = scratch.join("volume");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-N", "6000"]).args(words.split_whitespace());
    output(mke2fs.arg("-d").arg(&tree).arg(&path).arg("24M")).expect("mke2fs makes it");
    // What -d fills has no index: e2fsck makes it.
    let _ = program("e2fsck").args(["-fyD"]).arg(&path).output();
    let bytes = std::fs::read(&path).expect("it is there");
    Some((Volume { scratch, bytes }, names))
}

#[test]
fn a_directory_whose_index_is_lost_gets_another_one() {
    for (words, count, length) in [
        ("-t ext4 -O metadata_csum", 300, 20),
        ("-t ext3", 300, 20),
        // Nodes below the root.
        ("-t ext4", 1700, 80),
        ("-t ext4 -O bigalloc -C 4096", 700, 20),
    ] {
        let Some((volume, names)) = indexed(words, count, length) else { return };
        let copy = volume.written(&volume.bytes);
        let word = |command: &str| {
            let done = program("debugfs").args(["-R", command]).arg(&copy).output().expect("runs");
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let levels =
            |text: &str| text.lines().filter(|line| line.contains("Indirect levels")).count();
        assert_eq!(levels(&word("htree_dump /d")), 1, "{words}: it has no index");
        let root = word("bmap /d 0").trim().parse::<usize>().expect("a block") * BLOCK;
        // The root's count of entries, the hash of its second entry, and the version of its hash.
        let damages = [(0x22, &[0xff, 0x7f][..]), (0x28, &[1, 2, 3, 0xff]), (0x1c, &[9])];
        for (at, wrong) in damages {
            let mut damaged = volume.bytes.clone();
            damaged[root + at..root + at + wrong.len()].copy_from_slice(wrong);
            let repaired = mended(&damaged, Scope::Safe).expect("it is mended");
            let what = format!("{words} {at:#x}: {:?}", repaired.changes);
            assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
            assert!(repaired.changes.iter().all(|change| change.loss.is_none()), "{what}");
            let after = image(&repaired);
            std::fs::write(&copy, &after).expect("scratch has room");
            assert_eq!(judged(&copy), None, "{what}");
            let tree = word("htree_dump /d");
            assert_eq!(levels(&tree), 1, "{what}: it has no index");
            if can_mount() {
                // The kernel finds each by the index.
                let mounted = mount_loop(&copy, Access::ReadOnly, "").expect("it mounts");
                for name in &names {
                    let path = mounted.path().join("d").join(name);
                    assert_eq!(std::fs::read_to_string(&path).ok().as_ref(), Some(name), "{what}");
                }
                let listed = std::fs::read_dir(mounted.path().join("d")).expect("it is listed");
                assert_eq!(listed.count(), names.len(), "{what}");
                mounted.unmount().expect("unmounted");
            }
        }
    }
}

/// What a quota says is used, beyond all numbers: it is what is used after that.
#[test]
fn a_quota_of_any_number_is_set_right() {
    let Some(volume) = Volume::new("kept-quota", "-t ext4 -O quota", "16M") else { return };
    // What mke2fs -d fills it does not count.
    let path = volume.written(&volume.bytes);
    let _ = program("e2fsck").args(["-fy"]).arg(&path).output();
    let mut damaged = std::fs::read(&path).expect("it is there");
    // The first leaf of the users' file; in its first entry the inodes and the bytes.
    let leaf = output(program("debugfs").args(["-R", "bmap <3> 5"]).arg(&path)).expect("it says");
    let leaf: usize = String::from_utf8_lossy(&leaf.stdout).trim().parse().expect("a block");
    for at in [16 + 24, 16 + 48] {
        damaged[leaf * BLOCK + at..][..8].fill(0xff);
    }
    assert!(judged(&volume.written(&damaged)).is_some(), "nothing is wrong");
    volume.keeps_all(&damaged, Scope::Safe);
}

/// Pointers in the place of extents, that do not fit clusters: they are given up, once for all.
#[test]
fn pointers_that_do_not_fit_clusters_do_not_come_back() {
    let words = "-t ext4 -O bigalloc -C 4096";
    let Some(volume) = Volume::new("kept-clusters", words, "16M") else { return };
    let damaged = volume.edited("sif /two flags 0");
    let repaired = mended(&damaged, Scope::All).expect("it is mended");
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    let after = image(&repaired);
    assert_eq!(judged(&volume.written(&after)), None);
    for name in ["one", "d/three"] {
        assert!(volume.read(&after, name) == expected(name), "{name}");
    }
}

/// A directory that has lost its type: what is in it is not without a name, and stays.
#[test]
fn what_is_in_a_directory_without_a_type_keeps_its_name() {
    let Some(volume) = Volume::new("kept-untyped", "-t ext4", "16M") else { return };
    let damaged = volume.edited("sif /d mode 7");
    let repaired = mended(&damaged, Scope::All).expect("it is mended");
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    let after = image(&repaired);
    assert_eq!(judged(&volume.written(&after)), None);
    let listed =
        output(program("debugfs").args(["-R", "ls /lost+found"]).arg(volume.written(&after)));
    let listed = String::from_utf8_lossy(&listed.expect("it lists").stdout).into_owned();
    assert!(!listed.contains('#'), "it has a second name: {listed}");
    for (name, _) in FILES {
        assert!(volume.read(&after, name) == expected(name), "{name}");
    }
    // What is safe changes none of it.
    let repaired = mended(&damaged, Scope::Safe).expect("it is looked at");
    assert!(repaired.changes.iter().all(|change| change.problem.ino.is_none()));
}

/// A bitmap that is said to be in a table of inodes is not written there.
#[test]
fn no_bitmap_is_written_over_a_table() {
    let words = "-t ext4 -O meta_bg,^resize_inode";
    let Some(volume) = Volume::new("kept-table", words, "16M") else { return };
    let descriptors = &volume.bytes[DESCRIPTORS..];
    let table = u32::from_le_bytes(*descriptors[8..].first_chunk().expect("a descriptor"));
    let block = table as usize + 1;
    let damaged = volume.edited(&format!("set_bg 0 block_bitmap {block}"));
    let place = block * BLOCK..(block + 1) * BLOCK;
    for scope in [Scope::Preen, Scope::Safe] {
        let repaired = mended(&damaged, scope).expect("it is looked at");
        assert!(image(&repaired)[place.clone()] == damaged[place.clone()], "{scope:?}");
    }
}

/// A bitmap that is in a table by all that is said of it: it is the bitmap that is moved.
#[test]
fn a_bitmap_leaves_a_table_that_all_copies_say_it_is_in() {
    let words = "-t ext2 -g 2048 -N 1024";
    let Some(volume) = Volume::new("kept-moved", words, "8M") else { return };
    let number = |at: usize| u32::from_le_bytes(*volume.bytes[at..].first_chunk().expect("four"));
    let table = number(DESCRIPTORS + 8);
    for (field, name) in ["block_bitmap", "inode_bitmap"].into_iter().enumerate() {
        let mut damaged = volume.edited(&format!("set_bg 0 {name} {}", table + 1));
        let said = damaged[DESCRIPTORS..DESCRIPTORS + BLOCK].to_vec();
        for group in [1, 3] {
            let copy = (1 + group * 2048 + 1) * BLOCK;
            assert!(damaged[copy + 8..copy + 12] == said[8..12], "no copy there");
            damaged[copy..copy + BLOCK].copy_from_slice(&said);
        }
        assert_ne!(number(DESCRIPTORS + 4 * field), table + 1);
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None);
        for (file, _) in FILES {
            assert!(volume.read(&after, file) == expected(file), "{name}: {file}");
        }
    }
}

/// A table that a descriptor has elsewhere, on blocks of others or on free ones, or within the
/// table itself: the copies of the descriptor say where it is, and no file is lost.
#[test]
fn a_table_is_where_the_copies_say_wherever_the_descriptor_has_it() {
    let folders: String =
        (0..90).fold(String::new(), |lines, at| lines + &format!("mkdir m{at}\n"));
    for words in ["-t ext2 -g 2048 -N 1024", "-t ext4 -g 2048 -N 1024 -O ^metadata_csum"] {
        let Some(mut volume) = Volume::new("kept-tables", words, "8M") else { return };
        let (script, path) = (volume.scratch.join("script"), volume.written(&volume.bytes));
        std::fs::write(&script, &folders).expect("scratch has room");
        output(program("debugfs").args(["-w", "-f"]).args([&script, &path])).expect("it does it");
        volume.bytes = std::fs::read(path).expect("it is there");
        assert_eq!(judged(&volume.written(&volume.bytes)), None, "{words}");
        let at = DESCRIPTORS + 8;
        let table = u32::from_le_bytes(*volume.bytes[at..].first_chunk().expect("four"));
        for place in [3, table - 2, table + 1, table + 4, table + 12, 1500, 2049] {
            let mut damaged = volume.bytes.clone();
            damaged[at..at + 4].copy_from_slice(&place.to_le_bytes());
            let repaired = mended(&damaged, Scope::All).expect("it is mended");
            assert!(repaired.is_clean(), "{words}, {place}: left {:?}", repaired.left.counts);
            let after = image(&repaired);
            assert_eq!(judged(&volume.written(&after)), None, "{words}, {place}");
            for (file, _) in FILES {
                assert!(volume.read(&after, file) == expected(file), "{words}, {place}: {file}");
            }
        }
    }
}

/// The map of a journal that leads to the block of the root directory: nothing is written there,
/// and the superblock has a copy of the map.
#[test]
fn a_journal_whose_map_is_on_others_is_where_its_copy_says() {
    let words = "-t ext4 -N 64 -J size=1 -O ^metadata_csum";
    let Some(volume) = Volume::new("kept-journal-map", words, "8M") else { return };
    let number = |at: usize| u32::from_le_bytes(*volume.bytes[at..].first_chunk().expect("four"));
    // Where the first extent of an inode begins, on the disk.
    let start = |ino: usize| number(DESCRIPTORS + 8) as usize * BLOCK + (ino - 1) * 256 + 60;
    let mut damaged = volume.bytes.clone();
    let root = number(start(2)).to_le_bytes();
    damaged[start(8)..start(8) + 4].copy_from_slice(&root);
    for scope in [Scope::Preen, Scope::All] {
        let repaired = mended(&damaged, scope).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None);
        assert!(after[start(8)..start(8) + 4] == volume.bytes[start(8)..start(8) + 4]);
        for (file, _) in FILES {
            assert!(volume.read(&after, file) == expected(file), "{file}");
        }
    }
}

/// The block that leads to the map of inode 7 is the first of a file, too: the file gets a copy of
/// it, and all else is what it was.
#[test]
fn the_map_for_growth_keeps_the_block_that_a_file_has_too() {
    for words in ["-t ext2 -E resize=1G", "-t ext3 -I 256 -E resize=1G"] {
        let Some(volume) = Volume::new("kept-growth", words, "8M") else { return };
        let number = |at: usize| u32::from_le_bytes(*volume.bytes[at..].first_chunk().expect("4"));
        // Pointer 13 of inode 7.
        let size = number(1024 + 88) as usize & 0xffff;
        let inode = number(DESCRIPTORS + 8) as usize * BLOCK + 6 * size;
        let root = number(inode + 40 + 13 * 4);
        let damaged = volume.edited(&format!("sif /one block[0] {root}"));
        assert_eq!(mended(&damaged, Scope::Preen).map(|it| it.is_clean()).ok(), Some(false));
        let repaired = mended(&damaged, Scope::Safe).expect("it is mended");
        assert!(repaired.is_clean(), "{words}: left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{words}");
        assert!(after[inode..inode + 100] == damaged[inode..inode + 100], "{words}: inode 7");
        for (file, _) in FILES {
            let (mut wanted, at) = (expected(file), root as usize * BLOCK);
            if file == "one" {
                wanted[..BLOCK].copy_from_slice(&volume.bytes[at..at + BLOCK]);
            }
            assert!(volume.read(&after, file) == wanted, "{words}: {file}");
        }
    }
}

/// A field of an inode of which e2fsck keeps all, as debugfs sets it: no file is lost, and all have
/// their names.
#[test]
fn one_field_of_a_directory_costs_no_name() {
    let cases = [
        // A type that is lost, of a directory that is in its inode.
        ("-t ext4 -O inline_data", "/d", "mode 0377"),
        ("-t ext4 -O inline_data", "/d/e", "mode 0"),
        ("-t ext2", "/d", "mode 0"),
        // That of a pipe.
        ("-t ext4", "/d", "mode 010755"),
        ("-t ext4 -O inline_data", "/d", "mode 010755"),
        // Flags of encryption and of an index.
        ("-t ext2", "/d", "flags 8191"),
        ("-t ext4", "/d", "flags 0x80800"),
        ("-t ext4 -O encrypt", "/d", "flags 0x80800"),
        // An extent far from where it was.
        ("-t ext4 -O bigalloc -C 4096", "/d", "block[3] 63300"),
        ("-t ext4", "/d", "block[3] 63300"),
    ];
    for (words, path, field) in cases {
        let Some(volume) = Volume::new("kept-field", words, "16M") else { return };
        let damaged = volume.edited(&format!("sif {path} {field}"));
        assert!(damaged != volume.bytes, "{words}, {field}");
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "{words}, {field}: left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{words}, {field}");
        for (file, _) in FILES {
            assert!(volume.read(&after, file) == expected(file), "{words}, {field}: {file}");
        }
        assert!(volume.read(&after, "d/e/f/four") == expected("d/three"), "{words}, {field}");
    }
}

/// A number of blocks kept for descriptors that reaches into tables and bitmaps: it is the number
/// that is wrong, and none of them is moved or written over.
#[test]
fn blocks_kept_for_growth_cost_no_table() {
    let kinds = [
        ("-t ext2 -E resize=1G", "8M"),
        ("-t ext4 -g 4096 -E resize=1G", "12M"),
        ("-t ext4 -E resize=1G", "12M"),
        ("-t ext4 -O bigalloc -C 4096 -E resize=1G", "12M"),
    ];
    for (words, size) in kinds {
        let Some(volume) = Volume::new("kept-reserved", words, size) else { return };
        for number in [1, 40, 200, 256] {
            let damaged = volume.edited(&format!("ssv reserved_gdt_blocks {number}"));
            let repaired = mended(&damaged, Scope::All).expect("it is mended");
            assert!(repaired.is_clean(), "{words}, {number}: left {:?}", repaired.left.counts);
            let after = image(&repaired);
            assert_eq!(judged(&volume.written(&after)), None, "{words}, {number}");
            for (file, _) in FILES {
                assert!(volume.read(&after, file) == expected(file), "{words}, {number}: {file}");
            }
        }
    }
}

/// Bitmaps that a descriptor has on other bitmaps, on what is kept for growth, on tables and on
/// files: they are moved, and nothing else is.
#[test]
fn bitmaps_are_moved_from_what_they_are_on() {
    for words in ["-t ext4 -g 4096 -N 512", "-t ext2 -g 4096 -N 512", "-t ext4 -O bigalloc -N 256"]
    {
        let Some(volume) = Volume::new("kept-bitmaps", words, "12M") else { return };
        let number = |at: usize| u32::from_le_bytes(*volume.bytes[at..].first_chunk().expect("4"));
        let [bitmap, inode_bitmap, table] = [0, 4, 8].map(|at| number(DESCRIPTORS + at));
        for field in ["block_bitmap", "inode_bitmap"] {
            for place in [1, 2, 5, bitmap, inode_bitmap, table, table + 3, table + 200] {
                let (script, path) = (volume.scratch.join("script"), volume.written(&volume.bytes));
                let lines = format!("set_bg 0 {field} {place}\nset_bg 0 checksum calc\n");
                std::fs::write(&script, lines).expect("scratch has room");
                let mut debugfs = program("debugfs");
                output(debugfs.args(["-w", "-f"]).args([&script, &path])).expect("it does it");
                let damaged = std::fs::read(path).expect("it is there");
                let what = format!("{words}, {field} {place}");
                let repaired = mended(&damaged, Scope::All).expect("it is mended");
                assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
                let after = image(&repaired);
                assert_eq!(judged(&volume.written(&after)), None, "{what}");
                for (file, _) in FILES {
                    assert!(volume.read(&after, file) == expected(file), "{what}: {file}");
                }
            }
        }
    }
}

/// The Hurd keeps a translator of a file in a block that no map leads to: it is the file's, and a
/// copy where another has it too.
#[test]
fn a_translator_of_the_hurd_keeps_its_block() {
    let Some(volume) = Volume::new("kept-hurd", "-t ext2 -o hurd -I 128", "16M") else { return };
    let translator = 9000;
    let mut named = volume.edited(&format!("sif /one translator {translator}"));
    named[translator * BLOCK..][..8].copy_from_slice(b"/hurd/it");
    let repaired = mended(&named, Scope::All).expect("it is mended");
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    assert_eq!(judged(&volume.written(&image(&repaired))), None);
    let of_two = |bytes: &[u8]| {
        let path = volume.written(bytes);
        ["/one", "/two"].map(|name| {
            let run = output(program("debugfs").args(["-R", &format!("stat {name}")]).arg(&path));
            let said = String::from_utf8_lossy(&run.expect("debugfs reads").stdout).into_owned();
            let number = said.split("Translator: ").nth(1).expect("a number");
            number.lines().next().expect("a line").trim().parse::<usize>().expect("a number")
        })
    };
    assert_eq!(of_two(&image(&repaired)), [translator, 0]);
    // Another file has it too; it is where metadata is; it is nowhere.
    for (script, of_one) in [
        (format!("sif /two translator {translator}"), Some(translator)),
        ("sif /one translator 2".to_owned(), None),
        ("sif /one translator 99999".to_owned(), Some(0)),
    ] {
        std::fs::write(volume.written(&named), &named).expect("scratch has room");
        let path = volume.written(&named);
        let edit = program("debugfs").args(["-w", "-R", &script]).arg(&path).status();
        assert!(edit.expect("debugfs writes").success());
        let damaged = std::fs::read(&path).expect("it is there");
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "{script}: left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{script}");
        let [one, two] = of_two(&after);
        assert!(of_one.is_none_or(|block| block == one), "{script}: {one}");
        assert!(two == 0 || after[two * BLOCK..].starts_with(b"/hurd/it"), "{script}: {two}");
        assert!(one != 2 && (one != two || one == 0), "{script}: {one}, {two}");
    }
}
