//! One damaged field that cost names or files: what the rest proves is set right, without a loss;
//! what nothing proves is left as it is by a safe repair, and nothing is done that follows from it.
use crate::corpus::{image, judged, mended};
use crate::kept::{BLOCK, Volume};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use std::path::Path;

/// Bytes of the header of a node of extents, and of an entry.
const ENTRY: usize = 12;

pub(crate) fn debugfs(path: &Path, command: &str) -> String {
    let run = output(program("debugfs").args(["-R", command]).arg(path)).expect("debugfs reads");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// A volume with a directory `/d` of 220 names in many pieces, every fifth an empty file, and a
/// file `/pieces` whose map has several leaves.
pub(crate) fn scattered(words: &str) -> Option<Volume> {
    Volume::of_tree("regained", &format!("{words} -N 700"), "8M", |tree| {
        let folder = tree.join("d");
        std::fs::create_dir_all(&folder).expect("scratch has room");
        for at in 0..220 {
            let name = format!("a-rather-long-name-of-a-file-that-fills-blocks-{}", 1000 + at);
            let bytes = if at % 5 == 0 { String::new() } else { format!("big {at}\n") };
            std::fs::write(folder.join(name), bytes).expect("scratch has room");
        }
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(tree.join("pieces")).expect("scratch has room");
        for at in 0..400 {
            file.write_all_at(&[1 + (at % 250) as u8; BLOCK], 2 * at * BLOCK as u64)
                .expect("scratch has room");
        }
    })
}

/// The blocks of the map of a file, each with its level: the first column of debugfs counts them.
pub(crate) fn nodes(volume: &Volume, name: &str) -> Vec<(usize, usize)> {
    let said = debugfs(&volume.written(&volume.bytes), &format!("ex {name}"));
    let mut nodes = Vec::new();
    for line in said.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let level: usize = words[0].trim_end_matches('/').parse().expect("a level");
        let depth: usize = words[1].trim_end_matches('/').parse().expect("a depth");
        // Those that lead to nodes have no second block.
        if level < depth {
            let block = words.iter().rev().nth(1).and_then(|word| word.parse().ok());
            nodes.push((level, block.expect("a block")));
        }
    }
    nodes
}

/// All names with their inodes, and what the file holds.
fn content(volume: &Volume, bytes: &[u8]) -> (String, Vec<u8>) {
    let names = ["/", "/d", "/lost+found"];
    let path = volume.written(bytes);
    let listed = names.map(|name| {
        let said = debugfs(&path, &format!("ls -p {name}"));
        // Inode, and name: modes and sizes are judged by e2fsck.
        let entry = |line: &str| {
            let fields: Vec<&str> = line.split('/').collect();
            Some(format!("{} {}\n", fields.get(1)?, fields.get(5)?))
        };
        said.lines().filter_map(entry).collect::<String>()
    });
    (listed.concat(), volume.read(bytes, "pieces"))
}

/// Mends without a loss: clean for both judges, with every name and byte.
fn is_regained(volume: &Volume, damaged: &[u8], what: &str) {
    for scope in [Scope::Safe, Scope::All] {
        let repaired = mended(damaged, scope).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!repaired.found.is_clean(), "{what}: nothing is wrong");
        assert!(repaired.is_clean(), "{what}, {scope:?}: left {:?}", repaired.left.counts);
        let lost: Vec<_> = repaired.changes.iter().filter(|it| it.loss.is_some()).collect();
        assert!(lost.is_empty(), "{what}, {scope:?}: {lost:?}");
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{what}, {scope:?}");
        assert!(content(volume, &after) == content(volume, &volume.bytes), "{what}, {scope:?}");
    }
}

/// A safe repair leaves all as it is.
fn is_left(volume: &Volume, damaged: &[u8], what: &str) {
    assert!(judged(&volume.written(damaged)).is_some(), "{what}: nothing is wrong");
    let repaired = mended(damaged, Scope::Safe).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!repaired.is_clean(), "{what}");
    assert!(repaired.changes.is_empty(), "{what}: {}", repaired.changes.len());
    let repaired = mended(damaged, Scope::All).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
    assert!(
        repaired.changes.iter().any(|it| it.loss.is_some()),
        "{what}: {}",
        repaired.changes.len()
    );
    assert_eq!(judged(&volume.written(&image(&repaired))), None, "{what}");
}

/// What was removed from a file stands behind the entries of its leaf still. That the inode counts
/// one block more does not bring it back: bitmaps have it free.
#[test]
fn what_was_removed_stays_so() {
    for words in ["-t ext4 -O ^metadata_csum", "-t ext4"] {
        let Some(volume) = scattered(words) else { return };
        let path = volume.written(&volume.bytes);
        let blocks = |path: &Path| {
            let said = debugfs(path, "stat /pieces");
            let count = said.split("Blockcount: ").nth(1).expect("a count");
            count.lines().next().expect("a line").trim().parse::<u64>().expect("a number")
        };
        let before = blocks(&path);
        let edit = |command: &str| {
            output(program("debugfs").args(["-w", "-R", command]).arg(&path)).expect("it does it")
        };
        edit("punch /pieces 798 798");
        let removed = std::fs::read(&path).expect("it is there");
        assert_eq!(judged(&path), None, "{words}");
        assert_eq!(blocks(&path), before - 2, "{words}");
        edit(&format!("sif /pieces blocks {before}"));
        let damaged = std::fs::read(&path).expect("it is there");
        for scope in [Scope::Safe, Scope::All] {
            let repaired = mended(&damaged, scope).expect("it is mended");
            if scope == Scope::All {
                assert!(repaired.is_clean(), "{words}: left {:?}", repaired.left.counts);
            }
            let after = image(&repaired);
            assert!(content(&volume, &after) == content(&volume, &removed), "{words}, {scope:?}");
        }
    }
}

#[test]
fn a_node_with_one_wrong_field_is_what_its_inode_counts() {
    for words in ["-t ext4 -O ^metadata_csum,^has_journal", "-t ext4 -O metadata_csum,^has_journal"]
    {
        let Some(volume) = scattered(words) else { return };
        let change = |node: usize, at: usize, value: &[u8]| {
            let at = node * BLOCK + at;
            let mut damaged = volume.bytes.clone();
            damaged[at..at + value.len()].copy_from_slice(value);
            damaged
        };
        let of_directory = nodes(&volume, "/d");
        let [(0, leaf)] = of_directory[..] else { panic!("{of_directory:?}") };
        let far = 1_048_576_u32.to_le_bytes();
        let fields: [(&str, usize, &[u8]); 14] = [
            ("number", 0, &[0, 0]),
            ("entries", 2, &[1, 0]),
            ("entries", 2, &[12, 0]),
            ("entries", 2, &[0, 0]),
            ("entries", 2, &[0x88, 0x13]),
            ("maximum", 4, &[3, 0]),
            ("depth", 6, &[1, 0]),
            ("begin of the first", ENTRY, &far),
            ("begin of the second", 2 * ENTRY, &far),
            ("begin of the second", 2 * ENTRY, &[0; 4]),
            ("length of the first", ENTRY + 4, &[9, 0]),
            ("length of the second", 2 * ENTRY + 4, &[5, 0]),
            ("length of the second", 2 * ENTRY + 4, &[0, 0]),
            ("begin of the last", 13 * ENTRY, &[7, 0, 0, 0]),
        ];
        for (field, at, value) in fields {
            is_regained(&volume, &change(leaf, at, value), &format!("{words}, {field} {value:?}"));
        }
        // A node that leads to others, and one of those.
        let of_file = nodes(&volume, "/pieces");
        let above = of_file.iter().find(|(level, _)| *level == 0).expect("an index").1;
        let below = of_file.iter().find(|(level, _)| *level == 1).expect("a leaf").1;
        for (field, node, at, value) in [
            ("entries of the index", above, 2, &[2, 0]),
            ("number of the index", above, 0, &[1, 1]),
            ("depth of the index", above, 6, &[0, 0]),
            ("entries of a leaf", below, 2, &[9, 0]),
            ("number of a leaf", below, 0, &[0, 7]),
        ] {
            is_regained(&volume, &change(node, at, value), &format!("{words}, {field}"));
        }
        // Where it was is gone, or what it held.
        is_left(&volume, &change(leaf, 0, &[0; BLOCK]), &format!("{words}, no leaf"));
        let elsewhere = change(leaf, 3 * ENTRY - 4, &2_147_483_632_u32.to_le_bytes());
        is_left(&volume, &elsewhere, &format!("{words}, a block elsewhere"));
    }
}

#[test]
fn a_directory_without_its_type_is_one() {
    for words in ["-t ext2", "-t ext4", "-t ext4 -O ^metadata_csum"] {
        let Some(volume) = scattered(words) else { return };
        for path in ["/d", "<2>"] {
            for mode in ["0100755", "0010755", "0020755", "0140755"] {
                let damaged = volume.edited(&format!("sif {path} mode {mode}"));
                is_regained(&volume, &damaged, &format!("{words}, {path} is {mode}"));
            }
        }
    }
    // Its links are none: it is not in use.
    for words in ["-t ext2", "-t ext4"] {
        let Some(volume) = scattered(words) else { return };
        for field in ["links_count 0", "dtime 1", "size 0"] {
            is_regained(&volume, &volume.edited(&format!("sif <2> {field}")), words);
        }
    }
    // Without types in names nothing but its content says so, and any file can have that.
    let Some(volume) = scattered("-t ext2 -O ^filetype") else { return };
    is_left(&volume, &volume.edited("sif /d mode 0100755"), "no types in names");
}

#[test]
fn pointers_are_no_tree_of_extents() {
    for words in ["-t ext2", "-t ext3", "-t ext4 -O ^extents,^64bit"] {
        let Some(volume) = scattered(words) else { return };
        for path in ["/d", "/pieces", "<2>"] {
            let damaged = volume.edited(&format!("sif {path} flags 0x80000"));
            is_regained(&volume, &damaged, &format!("{words}, {path}"));
        }
    }
}

/// An extent far behind the end of a file with holes: where it was is not known, and a file of
/// terabytes is none that anybody wrote. One that is longer than the file ends where that does.
#[test]
fn an_extent_of_a_file_with_holes_stays_within_it() {
    for words in ["-t ext4 -O ^metadata_csum,^has_journal", "-t ext4 -O metadata_csum,^has_journal"]
    {
        let Some(volume) = scattered(words) else { return };
        let of_file = nodes(&volume, "/pieces");
        let below = of_file.iter().find(|(level, _)| *level == 1).expect("a leaf").1;
        let mut damaged = volume.bytes.clone();
        damaged[below * BLOCK + 9 * ENTRY + 2] = 0x40;
        if words.contains("^metadata_csum") {
            is_left(&volume, &damaged, words);
        }
        let after = image(&mended(&damaged, Scope::All).expect("it is mended"));
        assert_eq!(content(&volume, &after).1.len(), 799 * BLOCK, "{words}");
        // The root directory has one block, by its size and its count of blocks.
        let mut damaged = volume.bytes.clone();
        damaged[volume.inode_at("<2>") + 40 + ENTRY + 4] = 0x81;
        is_regained(&volume, &damaged, words);
    }
}

/// A directory in itself: a safe repair takes no name away, and a whole one only that.
#[test]
fn a_loop_of_directories_is_cut_once() {
    for words in ["-t ext4 -O inline_data,^metadata_csum", "-t ext2", "-t ext4"] {
        let volume = Volume::of_tree("regained-loop", words, "8M", |tree| {
            for folder in ["a/b/c", "a/d", "e"] {
                std::fs::create_dir_all(tree.join(folder)).expect("scratch has room");
            }
            std::fs::write(tree.join("pieces"), "one").expect("scratch has room");
        });
        let Some(volume) = volume else { return };
        let path = volume.written(&volume.bytes);
        for command in ["ln /a /a/b/again", "unlink /a"] {
            output(program("debugfs").args(["-w", "-R", command]).arg(&path)).expect("it does it");
        }
        let damaged = std::fs::read(&path).expect("it is there");
        is_left(&volume, &damaged, words);
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        let lost = repaired.changes.iter().filter(|it| it.loss.is_some()).count();
        assert_eq!(lost, 1, "{words}: {:?}", repaired.changes);
        let listed = debugfs(&volume.written(&image(&repaired)), "ls -p /lost+found");
        assert_eq!(listed.matches("/#").count(), 1, "{words}: {listed}");
    }
}

/// An entry whose length cannot be keeps its name, and those after it theirs.
#[test]
fn a_torn_entry_keeps_its_name() {
    let Some(volume) = scattered("-t ext4 -O ^metadata_csum") else { return };
    let path = volume.written(&volume.bytes);
    let block: usize = debugfs(&path, "bmap /d 2").trim().parse().expect("a block");
    for entry in [0, 3, 14] {
        // Each has 8 bytes and a name of 51.
        let length = block * BLOCK + entry * 60 + 4;
        let lengths = [0_u16, 8, 61, 1028, 2000, 65535].map(|value| (value, 51));
        let of_names = [53, 63, 64, 255].map(|value| (60, value));
        for (value, of_name) in lengths.into_iter().chain(of_names) {
            let mut damaged = volume.bytes.clone();
            damaged[length..length + 2].copy_from_slice(&value.to_le_bytes());
            damaged[length + 2] = of_name;
            let what = format!("entry {entry}, {value}, {of_name}");
            let repaired = mended(&damaged, Scope::All).expect("it is mended");
            assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
            let after = image(&repaired);
            assert_eq!(judged(&volume.written(&after)), None, "{what}");
            let in_order = |bytes: &[u8]| {
                let (names, _) = content(&volume, bytes);
                names.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
            };
            let missing: Vec<String> =
                in_order(&volume.bytes).difference(&in_order(&after)).cloned().collect();
            assert!(missing.is_empty(), "{what}: {missing:?}");
        }
    }
}

/// A pointer behind the end of a file, where size and count of blocks agree on all before it: the
/// file does not become longer, with a copy of metadata at its end.
#[test]
fn a_pointer_behind_the_end_is_none_of_the_file() {
    for words in ["-t ext2", "-t ext3", "-t ext4 -O ^extents,^64bit"] {
        let Some(volume) = Volume::new("regained-pointer", words, "16M") else { return };
        let path = volume.written(&volume.bytes);
        let small = path.with_extension("small");
        std::fs::write(&small, "abc").expect("scratch has room");
        let put = format!("write {} short", small.display());
        for command in [put.as_str(), "sif short block[3] 5"] {
            output(program("debugfs").args(["-w", "-R", command]).arg(&path)).expect("it does it");
        }
        let damaged = std::fs::read(&path).expect("it is there");
        for scope in [Scope::Safe, Scope::All] {
            let repaired = mended(&damaged, scope).expect("it is mended");
            assert!(repaired.is_clean(), "{words}: left {:?}", repaired.left.counts);
            let lost: Vec<_> = repaired.changes.iter().filter(|it| it.loss.is_some()).collect();
            assert!(lost.is_empty(), "{words}, {scope:?}: {lost:?}");
            let after = image(&repaired);
            assert_eq!(judged(&volume.written(&after)), None, "{words}, {scope:?}");
            assert_eq!(volume.read(&after, "short"), b"abc", "{words}, {scope:?}");
        }
    }
}

/// The count of a block of attributes is wrong, and so is its checksum: the attributes stay.
#[test]
fn a_wrong_count_of_attributes_costs_none() {
    let Some(mut volume) = Volume::new("regained-count", "-t ext4", "16M") else { return };
    let path = volume.written(&volume.bytes);
    let set = format!("ea_set /one user.long {}", "v".repeat(300));
    output(program("debugfs").args(["-w", "-R", &set]).arg(&path)).expect("it does it");
    volume.bytes = std::fs::read(&path).expect("it is there");
    let said = debugfs(&path, "stat /one");
    let (_, after) = said.split_once("File ACL: ").expect("a block");
    let block: usize = after.lines().next().expect("a line").trim().parse().expect("a number");
    let mut damaged = volume.bytes.clone();
    damaged[block * BLOCK + 4..][..2].copy_from_slice(&[0x79, 8]);
    for scope in [Scope::Safe, Scope::All] {
        let repaired = mended(&damaged, scope).expect("it is mended");
        assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
        let after = image(&repaired);
        let path = volume.written(&after);
        assert_eq!(judged(&path), None, "{scope:?}");
        assert!(debugfs(&path, "ea_list /one").contains("user.long (300)"), "{scope:?}");
    }
}

/// A block of attributes that is metadata of the volume: a safe repair says that it is left, and
/// the attributes are lost otherwise.
#[test]
fn attributes_on_metadata_are_left_or_lost() {
    for words in ["-t ext4", "-t ext4 -O inline_data -I 512", "-t ext2"] {
        let Some(volume) = Volume::new("regained-on-metadata", words, "16M") else { return };
        for block in [1, 2, 5] {
            is_left_but(&volume, &volume.edited(&format!("sif /one file_acl {block}")), words);
        }
    }
}

/// A safe repair leaves a problem, and says so; a whole one ends clean.
fn is_left_but(volume: &Volume, damaged: &[u8], what: &str) {
    let repaired = mended(damaged, Scope::Safe).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!repaired.is_clean(), "{what}");
    assert!(repaired.changes.iter().all(|it| it.loss.is_none()), "{what}");
    let repaired = mended(damaged, Scope::All).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
    assert_eq!(judged(&volume.written(&image(&repaired))), None, "{what}");
    assert!(volume.read(&image(&repaired), "one") == crate::kept::expected("one"), "{what}");
}
