//! `extant trim`: what was deleted is not found in the bytes of the image any more, everything else
//! is as it was, and e2fsck is silent; maps are read by a reader of their own.
use crate::commands::command::{extant, printed_text};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, Access, require};
use extant_testkit::scratch::Scratch;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What every deleted name, content and value begins with.
const SECRET: &str = "SECRET-of-before-";

/// Words for mke2fs.
const KINDS: &[&[&str]] = &[
    &["-t", "ext2", "-b", "1024"],
    &["-t", "ext2", "-I", "128", "-b", "2048"],
    &["-t", "ext3", "-b", "1024"],
    &["-t", "ext4"],
    &["-t", "ext4", "-b", "1024", "-g", "1024"],
    &["-t", "ext4", "-b", "1024", "-O", "inline_data"],
    &["-t", "ext4", "-b", "1024", "-O", "bigalloc", "-C", "16384"],
    &["-t", "ext4", "-b", "2048", "-O", "^metadata_csum,uninit_bg"],
    &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^uninit_bg,^flex_bg"],
    &["-t", "ext4", "-b", "1024", "-O", "^has_journal"],
    &["-t", "ext4", "-b", "1024", "-O", "quota,project"],
    &["-t", "ext4", "-b", "1024", "-O", "orphan_file,metadata_csum_seed"],
    &["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"],
    &["-t", "ext4", "-b", "1024", "-O", "^extent,^64bit"],
    &["-t", "ext4", "-b", "4096", "-O", "sparse_super2,^resize_inode,mmp"],
];

/// Who deletes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Ours,
    Kernel,
    Debugfs,
}

fn secret(number: usize, length: usize) -> String {
    let mut text = format!("{SECRET}{number}-");
    text.extend(std::iter::repeat_n('z', length.saturating_sub(text.len())));
    text
}

fn done(words: &[&str]) -> String {
    printed_text(words, extant(words))
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&done(words)).unwrap()
}

fn listing(image: &str) -> String {
    done(&["ls", "-lR", "--json", "--sha256", &format!("{image}:/")])
}

fn holds(bytes: &[u8], word: &str) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word.as_bytes())
}

/// A volume with files that stay and with secrets; and the paths of these: folders after what is
/// in them.
fn volume(folder: &Path, kind: &[&str]) -> (PathBuf, Vec<(String, bool)>) {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("kept/deep")).unwrap();
    for number in 0..40_u8 {
        let bytes = vec![number; [0, 7, 59, 61, 1000, 5000, 30_000][usize::from(number) % 7]];
        fs::write(tree.join(format!("kept/file-{number}")), bytes).unwrap();
    }
    std::os::unix::fs::symlink("kept/file-3", tree.join("link")).unwrap();
    let mut gone = Vec::new();
    for number in 0..60 {
        let name = format!("/kept/{}", secret(number, 24 + number % 9));
        let path = tree.join(&name[1..]);
        let long = secret(number, [30, 900, 9000, 40_000][number % 4]).repeat(2);
        match number % 6 {
            4 => std::os::unix::fs::symlink(secret(number, 30 + number), &path).unwrap(),
            5 => {
                fs::create_dir(&path).unwrap();
                let inner = secret(number, 40);
                fs::write(path.join(&inner), &long).unwrap();
                gone.push((format!("{name}/{inner}"), false));
            }
            _ => fs::write(&path, long).unwrap(),
        }
        gone.push((name, number % 6 == 5));
    }
    let cut = [vec![b'c'; 700], secret(99, 3000).into_bytes()].concat();
    fs::write(tree.join("cut"), cut).unwrap();
    let image = folder.join("disk.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F"]).args(kind).arg("-d").arg(&tree).arg(&image).arg("17M");
    output(&mut mke2fs).expect("mke2fs makes it");
    // It counts no quotas of what it fills in.
    let _ = program("e2fsck").arg("-fy").arg(&image).output();
    let shown = image.display().to_string();
    for (path, _) in gone.iter().filter(|(_, is_folder)| !is_folder).step_by(5) {
        let place = format!("{shown}:{path}");
        // Symlinks have none, and small inodes no room for all.
        let _ = extant(&["setfattr", "-n", "user.of", "-v", &secret(7, 50), &place]);
    }
    let cut = format!("{shown}:/cut");
    done(&["setfattr", "-n", "user.gone", "-v", &secret(8, 60), &cut]);
    done(&["setfattr", "-n", "user.kept", "-v", "a value", &cut]);
    (image, gone)
}

fn deleted(image: &Path, gone: &[(String, bool)], way: Way) {
    let shown = image.display();
    let cut = format!("{shown}:/cut");
    match way {
        Way::Ours => {
            let script: String = gone
                .iter()
                .map(|(path, is_folder)| {
                    format!("{} {path}\n", if *is_folder { "rmdir" } else { "rm" })
                })
                .collect();
            let file = image.with_extension("script");
            fs::write(&file, script).unwrap();
            done(&["edit", "-q", &shown.to_string(), file.to_str().unwrap()]);
        }
        Way::Debugfs => {
            let lines: String = gone
                .iter()
                .map(|(path, is_folder)| {
                    format!("{} \"{path}\"\n", if *is_folder { "rmdir" } else { "rm" })
                })
                .collect();
            let file = image.with_extension("script");
            fs::write(&file, lines).unwrap();
            output(program("debugfs").arg("-w").arg("-f").arg(&file).arg(image)).unwrap();
            // It leaves counts and checksums that are mended.
            let _ = program("e2fsck").arg("-fy").arg(image).output();
        }
        Way::Kernel => {
            let mounted = oracle::mount_loop(image, Access::ReadWrite, "").expect("it mounts");
            for (path, is_folder) in gone {
                let path = mounted.path().join(&path[1..]);
                match is_folder {
                    true => fs::remove_dir(path).unwrap(),
                    false => fs::remove_file(path).unwrap(),
                }
            }
            fs::write(mounted.path().join("new"), "new").unwrap();
            mounted.unmount().unwrap();
        }
    }
    done(&["truncate", "-s", "700", &cut]);
    done(&["setfattr", "-x", "user.gone", &cut]);
}

#[test]
fn what_was_deleted_is_not_found_after_a_scrub() {
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(require) {
        return;
    }
    // One in so many: all kinds come up once the variable is 1.
    let cases = (extant_testkit::variables::number("EXTANT_CASES") as usize).div_ceil(2).max(1);
    for (number, kind) in KINDS.iter().enumerate() {
        // The kernel here has no quotas, and writes no volume with inline data.
        let is_for_kernel =
            !kind.iter().any(|word| word.contains("inline") || word.contains("quo"));
        for way in [Way::Ours, Way::Debugfs, Way::Kernel] {
            let is_left_out = way == Way::Kernel && !(is_for_kernel && oracle::can_mount());
            if is_left_out || !(number + way as usize).is_multiple_of(cases) {
                continue;
            }
            let folder = Scratch::new("trim-scrub");
            let (image, gone) = volume(folder.path(), kind);
            deleted(&image, &gone, way);
            oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{kind:?} {way:?}: {error}"));
            let shown = image.display().to_string();
            let (before, bytes) = (listing(&shown), fs::read(&image).unwrap());
            assert!(holds(&bytes, SECRET).is_some(), "{kind:?} {way:?}: nothing to find");
            let planned = json(&["trim", "--scrub", "-n", "--json", &shown]);
            assert!(fs::read(&image).unwrap() == bytes, "{kind:?}: a dry run wrote");
            let said = json(&["trim", "--scrub", "--json", &shown]);
            assert_eq!(said["emptied_bytes"], planned["emptied_bytes"], "{kind:?} {way:?}");
            let after = fs::read(&image).unwrap();
            assert_eq!(after.len(), bytes.len());
            if let Some(at) = holds(&after, SECRET) {
                panic!("{kind:?} {way:?}: {said}: byte {at} of the image");
            }
            assert_eq!(listing(&shown), before, "{kind:?} {way:?}");
            oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{kind:?} {way:?}: {error}"));
            let again = json(&["trim", "--scrub", "--json", &shown]);
            assert_eq!(again["blocks_written"], 0, "{kind:?} {way:?}");
        }
    }
}

#[test]
fn free_blocks_become_holes_and_nothing_else_changes() {
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("trim-holes");
    let (image, gone) = volume(folder.path(), &["-t", "ext4", "-b", "1024"]);
    deleted(&image, &gone, Way::Ours);
    // What follows the volume in its file stays.
    let shown = image.display().to_string();
    let mut bytes = fs::read(&image).unwrap();
    let volume_bytes = bytes.len();
    bytes.extend(vec![b'r'; 5000]);
    let place = |name: &str| folder.join(name).display().to_string();
    for (name, words) in [("holes", &[][..]), ("zeros", &["--zero"])] {
        // Written whole, so that nothing is a hole before.
        let path = place(name);
        fs::write(&path, &bytes).unwrap();
        let blocks = fs::metadata(&path).unwrap().blocks();
        done(&[&["trim", "-q", path.as_str()], words].concat());
        let after = fs::read(&path).unwrap();
        assert!(after[volume_bytes..] == bytes[volume_bytes..], "{name}");
        assert_eq!(listing(&path), listing(&shown), "{name}");
        oracle::e2fsck(path.as_ref()).unwrap();
        let free = json(&["info", "--json", &shown])["superblock"]["free_blocks"].as_u64();
        let changed = after.chunks(1024).zip(bytes.chunks(1024)).filter(|(a, b)| a != b);
        let changed = changed.inspect(|(after, _)| assert!(after.iter().all(|byte| *byte == 0)));
        let changed = changed.count() as u64;
        assert!(changed > 50 && free.is_none_or(|free| changed <= free), "{name}: {changed}");
        let left = fs::metadata(&path).unwrap().blocks();
        assert_eq!(left < blocks / 2, name == "holes", "{name}: {left} of {blocks}");
    }
    // As another file, which may be compressed, and from one.
    let whole = place("whole.img");
    fs::write(&whole, &bytes).unwrap();
    let (packed, clean) = (place("out.img.zst"), place("clean.img"));
    done(&["trim", "-q", "--scrub", &whole, &packed]);
    assert!(fs::read(&whole).unwrap() == bytes);
    let refused = extant(&["trim", &packed]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("hint: make a plain"), "{said}");
    done(&["trim", "-q", "--scrub", &packed, &clean]);
    assert_eq!(listing(&clean), listing(&shown));
    let after = fs::read(&clean).unwrap();
    assert!(holds(&after, SECRET).is_none() && after[volume_bytes..] == bytes[volume_bytes..]);
    oracle::e2fsck(clean.as_ref()).unwrap();
    let refused = extant(&["trim", &packed, &clean]);
    assert_eq!(refused.status.code(), Some(1), "there is one already");
}

#[test]
fn what_is_not_clean_is_refused_as_it_was() {
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("trim-refused");
    let (image, _) = volume(folder.path(), &["-t", "ext4", "-b", "1024"]);
    let shown = image.display().to_string();
    // A block of a file that the bitmap says is free, and an undo file of before.
    let blocks = oracle::debugfs(&image, "blocks /cut").unwrap();
    let block: u64 = blocks.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap();
    let mut debugfs = program("debugfs");
    debugfs.args(["-w", "-R", &format!("freeb {block} 1")]).arg(&image);
    output(&mut debugfs).unwrap();
    let bytes = fs::read(&image).unwrap();
    for words in [&["trim"][..], &["trim", "--scrub"], &["trim", "-n"], &["trim", "--map", "json"]]
    {
        let refused = extant(&[words, &[shown.as_str()]].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("extant repair"), "{words:?}: {said}");
        assert!(fs::read(&image).unwrap() == bytes, "{words:?}");
    }
    assert_eq!(extant(&["repair", "-q", &shown]).status.code(), Some(1));
    let undo = image.with_file_name(".disk.img.extant-undo");
    let beside = fs::read_dir(folder.path()).unwrap();
    let names: Vec<String> =
        beside.map(|one| one.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(undo.exists(), "{names:?}");
    done(&["trim", "-q", &shown]);
    assert!(!undo.exists(), "to undo a repair would need what is gone");
    let held = fs::File::open(&image).unwrap();
    held.lock().unwrap();
    let refused = extant(&["trim", &shown]);
    assert_eq!(refused.status.code(), Some(1), "another program has it");
}

/// Copies only what a map for bmaptool names onto zeros, after all digests were compared.
fn copied(map: &str, disk: &[u8]) -> Vec<u8> {
    let value = |name: &str| {
        let (_, rest) = map.split_once(&format!("<{name}>")).unwrap();
        rest.split_once("</").unwrap().0.trim().to_owned()
    };
    assert!(map.contains("<bmap version=\"2.0\">"));
    assert_eq!(value("ImageSize"), disk.len().to_string());
    assert_eq!((value("BlockSize").as_str(), value("ChecksumType").as_str()), ("4096", "sha256"));
    let hexadecimal =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let own = value("BmapFileChecksum");
    let blank = map.replace(&own, &"0".repeat(64));
    assert_eq!(hexadecimal(&Sha256::digest(blank)), own, "the map's own digest");
    let (mut copy, mut count) = (vec![0; disk.len()], 0);
    for range in map.split("<Range chksum=\"").skip(1) {
        let (digest, rest) = range.split_once("\">").unwrap();
        let blocks = rest.split_once("</Range>").unwrap().0.trim();
        let (first, last) = blocks.split_once('-').unwrap_or((blocks, blocks));
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let bytes = first * 4096..((last + 1) * 4096).min(disk.len());
        assert_eq!(hexadecimal(&Sha256::digest(&disk[bytes.clone()])), digest, "{blocks}");
        copy[bytes.clone()].copy_from_slice(&disk[bytes]);
        count += last - first + 1;
    }
    assert_eq!(value("MappedBlocksCount"), count.to_string());
    copy
}

#[test]
fn a_map_has_all_that_is_in_use_and_not_what_is_free() {
    if !["mke2fs", "e2fsck", "debugfs", "sfdisk"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("trim-map");
    let (image, gone) = volume(folder.path(), &["-t", "ext4", "-b", "1024"]);
    deleted(&image, &gone, Way::Ours);
    let volume = fs::read(&image).unwrap();
    // A disk with two such volumes, something else between them, and bytes in no partition.
    let disk = folder.join("whole.img");
    let mut bytes = vec![0; 64 << 20];
    bytes[1 << 20..][..volume.len()].copy_from_slice(&volume);
    bytes[20 << 20..][..1 << 20].fill(b'o');
    bytes[30 << 20..][..volume.len()].copy_from_slice(&volume);
    bytes[500_000..500_100].fill(b'g');
    fs::write(&disk, &bytes).unwrap();
    let script = folder.join("script");
    let lines =
        "label: gpt\nstart=2048, size=36864\nstart=40960, size=4096\nstart=61440, size=40960\n";
    fs::write(&script, lines).unwrap();
    let mut sfdisk = program("sfdisk");
    sfdisk.arg("-q").arg(&disk).stdin(fs::File::open(&script).unwrap());
    output(&mut sfdisk).expect("sfdisk makes it");
    let bytes = fs::read(&disk).unwrap();
    let shown = disk.display().to_string();
    let map = done(&["trim", "--map", "bmap", &shown]);
    let copy = copied(&map, &bytes);
    assert!(fs::read(&disk).unwrap() == bytes, "it only reads");
    let clean = folder.join("copy.img");
    fs::write(&clean, &copy).unwrap();
    for number in [1, 3] {
        let word = format!("{}@{number}", clean.display());
        assert_eq!(listing(&word), listing(&format!("{shown}@{number}")));
        done(&["check", "-q", &word]);
    }
    for range in [0..1 << 20, 19 << 20..30 << 20, 50 << 20..64 << 20] {
        assert!(copy[range.clone()] == bytes[range.clone()], "{range:?}");
    }
    assert!(holds(&bytes, &secret(2, 900)).is_some() && holds(&copy, &secret(2, 900)).is_none());
    // The same as JSON, and of one volume alone: the other is in use as a whole.
    let all = json(&["trim", "--map", "json", &shown]);
    let ranges = all["ranges"].as_array().unwrap();
    let sum: u64 = ranges.iter().map(|range| range["bytes"].as_u64().unwrap()).sum();
    assert_eq!(all["used_bytes"].as_u64(), Some(sum));
    assert_eq!(
        (all["volumes"].as_array().unwrap().len(), &all["schema"]),
        (2, &"extant-map/1".into())
    );
    let one = json(&["trim", "--map", "json", &format!("{shown}@1")]);
    assert!(one["used_bytes"].as_u64() > all["used_bytes"].as_u64());
    let file = folder.join("disk.bmap");
    done(&["trim", "--map", "bmap", &shown, file.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), map);
    let alone = copied(&done(&["trim", "--map", "bmap", image.to_str().unwrap()]), &volume);
    fs::write(&clean, alone).unwrap();
    oracle::e2fsck(&clean).unwrap();
    assert_eq!(listing(clean.to_str().unwrap()), listing(image.to_str().unwrap()));
}
