//! Laid out to be read cold: inodes in the order of readdir, data in the order of inodes,
//! directories together in front.
use crate::build::command::{build, bytes, judge};
use extant_testkit::command::program;
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Three levels; directories of one block and of several; every kind of name.
fn make_tree(root: &Path) {
    for (folder, count) in [("", 20), ("b", 300), ("a", 3), ("a/deep", 40), ("c", 0), ("d/e/f", 1)]
    {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for number in 0..count {
            let length = (number * number * 37) % 20_000;
            fs::write(folder.join(format!("file-{number}")), bytes(number as u64, length)).unwrap();
        }
    }
}

/// What the kernel says of a mounted image: every directory's path, its inode and its entries in
/// the order of readdir.
struct Listing {
    path: PathBuf,
    ino: u64,
    entries: Vec<(PathBuf, u64, bool)>,
}

fn listings(root: &Path) -> Vec<Listing> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::from("/")];
    while let Some(path) = waiting.pop() {
        let folder = root.join(path.strip_prefix("/").unwrap());
        let entries: Vec<(PathBuf, u64, bool)> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != "lost+found")
            .map(|entry| {
                let metadata = entry.metadata().unwrap();
                (path.join(entry.file_name()), metadata.ino(), metadata.is_dir())
            })
            .collect();
        let folders = entries.iter().rev().filter(|(_, _, is_folder)| *is_folder);
        waiting.extend(folders.map(|(path, ..)| path.clone()));
        found.push(Listing { ino: folder.metadata().unwrap().ino(), path, entries });
    }
    found
}

/// The blocks of each of these files, by debugfs.
fn blocks(image: &Path, folder: &Scratch, paths: &[PathBuf]) -> Vec<Vec<u64>> {
    let script = folder.join("script");
    let requests: Vec<String> =
        paths.iter().map(|path| format!("blocks {}", path.display())).collect();
    fs::write(&script, requests.join("\n")).unwrap();
    let output = program("debugfs").arg("-f").arg(&script).arg(image).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts = text.split("debugfs: ").skip(1);
    let read = |part: &str| {
        let numbers = part.split_once('\n').map_or("", |(_, numbers)| numbers);
        numbers.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let found: Vec<Vec<u64>> = parts.map(read).collect();
    assert_eq!(found.len(), paths.len(), "{text}");
    found
}

fn assert_rising_by_one(numbers: &[u64], what: &str) {
    for pair in numbers.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "{what}: {numbers:?}");
    }
}

#[test]
fn a_cold_walk_goes_forwards() {
    if !can_mount() || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("build-layout");
    let source = folder.join("source");
    make_tree(&source);
    for words in
        ["-t ext2", "-t ext3 -J size=4", "-t ext4", "-t ext4 -b 1024", "-t ext4 -b 2048 --free 20M"]
    {
        let image = folder.join(&format!("{}.img", words.replace(' ', "")));
        judge(&image, &build(words, &[&source], &image));
        let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
        let listings = listings(mounted.path());
        drop(mounted);
        check_inodes(&listings, words);
        check_blocks(&image, &folder, &listings, words);
    }
}

/// A directory's names have consecutive numbers in the order in which readdir gives them, and no
/// number is left out.
fn check_inodes(listings: &[Listing], words: &str) {
    let mut all = Vec::new();
    for listing in listings {
        let numbers: Vec<u64> = listing.entries.iter().map(|(_, ino, _)| *ino).collect();
        assert_rising_by_one(&numbers, &format!("{words}: inodes of {}", listing.path.display()));
        all.extend(numbers);
    }
    // The walk that goes down before it goes on meets them in this order.
    assert_rising_by_one(&all, &format!("{words}: all inodes"));
}

/// Directories are together before all data, and files' data follows the numbers without a gap.
fn check_blocks(image: &Path, folder: &Scratch, listings: &[Listing], words: &str) {
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    let mut directories: Vec<(u64, PathBuf)> = Vec::new();
    for listing in listings {
        directories.push((listing.ino, listing.path.clone()));
        files.extend(
            listing
                .entries
                .iter()
                .filter(|(_, _, is_folder)| !is_folder)
                .map(|(path, ino, _)| (*ino, path.clone())),
        );
    }
    files.sort();
    directories.sort();
    let of = |list: &[(u64, PathBuf)]| {
        let paths: Vec<PathBuf> = list.iter().map(|(_, path)| path.clone()).collect();
        blocks(image, folder, &paths)
    };
    let (files, directories) = (of(&files), of(&directories));
    let data: Vec<u64> = if words.contains("ext4") {
        files.concat()
    } else {
        // debugfs counts map blocks among a file's: they are in front, with the directories.
        let start = files.iter().find_map(|blocks| blocks.first()).copied().unwrap();
        files.concat().into_iter().filter(|block| *block >= start).collect()
    };
    assert_rising_by_one(&data, &format!("{words}: data"));
    let inner: Vec<u64> = directories.concat();
    assert!(inner.iter().max() < data.first(), "{words}: directories before data");
    let spread = inner.iter().max().unwrap() - inner.iter().min().unwrap();
    // Among them are lost+found, maps and the root's own.
    assert!(spread < 2 * inner.len() as u64 + 40, "{words}: {inner:?}");
}

/// A large file is one run, as far as groups allow it; data of several large files does not mix.
#[test]
fn large_files_are_in_one_piece() {
    if !can_mount() || !require("filefrag") {
        return;
    }
    let folder = Scratch::new("build-pieces");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..4u64 {
        let file = File::create(source.join(format!("large-{number}"))).unwrap();
        for part in 0..12 {
            file.write_all_at(&bytes(number, 1 << 20), part << 20).unwrap();
        }
    }
    for (words, most) in [("-t ext4", 1), ("-t ext2", 2), ("-t ext4 -b 1024", 4)] {
        let image = folder.join(&format!("{}.img", words.replace(' ', "")));
        judge(&image, &build(words, &[&source], &image));
        let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
        for number in 0..4 {
            let path = mounted.path().join(format!("large-{number}"));
            let output = program("filefrag").arg(&path).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let pieces: u32 = text
                .rsplit_once(": ")
                .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
                .expect("a number");
            assert!(pieces <= most, "{words}: {text}");
        }
    }
}
