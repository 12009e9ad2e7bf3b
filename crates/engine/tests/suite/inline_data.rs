//! Volumes with `inline_data`, filled by mke2fs, changed by the engine: what is in an inode moves
//! out before it changes, and nothing that did not change is touched. e2fsck and the kernel judge.
use crate::volume::Random;
use crate::volume::image::{judge, open, open_as, options};

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::{Access, Change, ErrorKind, Filesystem, Rename, SetAttribute, Size};
use extant_sim::CrashLog;
use extant_testkit::command::run;
use extant_testkit::oracle::{self, debugfs};
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sizes around what an inode of 256 bytes holds.
const SIZES: [usize; 14] = [0, 1, 59, 60, 61, 100, 131, 132, 155, 156, 160, 161, 900, 5000];

fn can_judge() -> bool {
    ["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| oracle::require(tool)) && oracle::can_mount()
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 + 1).collect()
}

fn fill(root: &Path) {
    std::fs::create_dir(root).expect("makes it");
    for size in SIZES {
        std::fs::write(root.join(format!("file-{size}")), content(size)).expect("writes");
    }
    for count in 0..9 {
        let folder = root.join(format!("folder-{count}"));
        std::fs::create_dir(&folder).expect("makes it");
        for number in 0..count {
            std::fs::write(folder.join(format!("name {number}")), content(number)).expect("writes");
        }
    }
    for length in [1, 59, 60, 61, 100, 130, 200] {
        symlink("t".repeat(length), root.join(format!("link-{length}"))).expect("links");
    }
}

fn make(folder: &Scratch, words: &str, size: &str) -> PathBuf {
    let (image, tree) = (folder.join("image"), folder.join("tree"));
    if !tree.exists() {
        fill(&tree);
    }
    let _ = std::fs::remove_file(&image);
    let (path, tree) = (image.display().to_string(), tree.display().to_string());
    let mut all = vec!["-q", "-F", "-t", "ext4"];
    all.extend(words.split(' '));
    all.extend(["-d", &tree, &path, size]);
    run("mke2fs", &all).expect("mke2fs makes it");
    image
}

fn is_inline(image: &Path, path: &str) -> bool {
    debugfs(image, &format!("stat \"{path}\"")).expect("stat").contains("Flags: 0x10000000")
}

fn mode(permissions: u16) -> Change {
    Change { permissions: Some(permissions), ..Change::default() }
}

const VOLUMES: [(&str, &str); 6] = [
    ("-O inline_data -I 256 -b 1024", "modern"),
    ("-O inline_data,^has_journal -I 256 -b 4096", "modern"),
    ("-O inline_data,^dir_index,^metadata_csum -I 512 -b 2048", "modern"),
    ("-O inline_data,^extent,^64bit,^flex_bg -I 256 -b 1024", "linux-2.6"),
    ("-O inline_data,^has_journal,^extent,^64bit -I 1024 -b 4096", "freebsd-5.2"),
    ("-O inline_data -I 256 -b 1024", "modern,journal=data"),
];

type Way = (&'static str, fn(&Filesystem, &str) -> extant_engine::Result<()>);

/// Each way to change a file: all files are changed that way, and none of the others.
const CHANGES: [Way; 10] = [
    ("append", |volume, path| {
        let file = volume.open_file(path)?;
        let size = volume.metadata(path)?.size;
        file.write_at(size, b"more").map(drop)
    }),
    ("overwrite", |volume, path| volume.open_file(path)?.write_at(3, b"other").map(drop)),
    ("far", |volume, path| volume.open_file(path)?.write_at(70_000, b"far").map(drop)),
    ("empty", |volume, path| volume.open_file(path)?.set_len(0)),
    ("cut", |volume, path| volume.open_file(path)?.set_len(7)),
    ("grow", |volume, path| volume.open_file(path)?.set_len(3000)),
    ("mode", |volume, path| volume.change(path, &mode(0o4711))),
    ("attribute", |volume, path| {
        volume.set_attribute(path, b"user.name", &[b'v'; 20], SetAttribute::Any)?;
        volume.set_attribute(path, b"user.other", &[b'w'; 90], SetAttribute::Any)?;
        volume.remove_attribute(path, b"user.name")
    }),
    ("remove", |volume, path| volume.remove_file(path)),
    ("rename", |volume, path| {
        let to = format!("/folder-0/{}", path.trim_start_matches('/'));
        volume.rename(path, to, Rename::Replace)
    }),
];

#[test]
fn each_change_of_a_file_moves_out_what_it_has_to_and_no_more() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-files");
    for (words, policies) in VOLUMES {
        for (name, change) in CHANGES {
            let what = format!("{name} {words} {policies}");
            let image = make(&folder, words, "8M");
            let volume = open(&image, policies);
            let mut expected = BTreeMap::new();
            for size in SIZES {
                let path = format!("/file-{size}");
                change(&volume, &path).unwrap_or_else(|error| panic!("{what} {path}: {error}"));
                let mut bytes = content(size);
                match name {
                    "append" => bytes.extend(b"more"),
                    "overwrite" => {
                        bytes.resize(size.max(8), 0);
                        bytes[3..8].copy_from_slice(b"other");
                    }
                    "far" => {
                        bytes.resize(70_000, 0);
                        bytes.extend(b"far");
                    }
                    "empty" => bytes.clear(),
                    "cut" => bytes.resize(7, 0),
                    "grow" => bytes.resize(3000, 0),
                    _ => {}
                }
                match name {
                    "remove" => {}
                    "rename" => drop(expected.insert(format!("/folder-0{path}"), bytes)),
                    _ => drop(expected.insert(path, bytes)),
                }
            }
            let agrees = |volume: &Filesystem, when: &str| {
                for (path, bytes) in &expected {
                    assert!(volume.read(path).expect("reads") == *bytes, "{what} {path} {when}");
                }
            };
            agrees(&volume, "before it is closed");
            volume.close().expect("closes");
            judge(&image, &what);
            let volume = open(&image, policies);
            agrees(&volume, "afterwards");
            volume.close().expect("closes");
            let stays = ["mode", "attribute"].contains(&name);
            if name != "remove" && name != "rename" {
                assert_eq!(is_inline(&image, "/file-60"), stays, "{what}");
            }
            assert!(is_inline(&image, "/folder-1"), "{what}: a directory beside it");
        }
    }
}

/// Gives two directories a name in the second part of their data, as Linux does where the first
/// is full and mke2fs does not: it is another name of `/file-1`.
fn add_second_part(folder: &Scratch, image: &Path) {
    let volume = open_as(image, "modern", Access::ReadOnly);
    let ino = volume.metadata("/file-1").expect("is there").ino.0;
    drop(volume);
    let mut record = [0; 24];
    record[..4].copy_from_slice(&ino.to_le_bytes());
    record[4..8].copy_from_slice(&[24, 0, 6, 1]);
    record[8..14].copy_from_slice(b"second");
    let value = folder.join("value");
    std::fs::write(&value, record).expect("writes");
    for request in [
        format!("ea_set -f {} /folder-2 system.data", value.display()),
        format!("ea_set -f {} /folder-3 system.data", value.display()),
        "sif /folder-2 size 84".to_owned(),
        "sif /folder-3 size 84".to_owned(),
        "sif /file-1 links_count 3".to_owned(),
    ] {
        run("debugfs", &["-w", "-R", &request, &image.display().to_string()]).expect("is set");
    }
    judge(image, "second parts");
}

#[test]
fn directories_grow_from_the_inode_to_blocks_and_an_index() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-directories");
    for (words, policies) in VOLUMES {
        let image = make(&folder, words, "16M");
        add_second_part(&folder, &image);
        let volume = open(&image, policies);
        // Removed and replaced where they are.
        volume.remove_file("/folder-3/name 0").expect("removes");
        volume.remove_file("/folder-3/name 2").expect("removes");
        volume.remove_file("/folder-3/second").expect("removes");
        volume.rename("/file-59", "/folder-2/second", Rename::Replace).expect("moves");
        volume.rename("/file-60", "/folder-2/name 0", Rename::Exchange).expect("moves");
        volume.remove_file("/folder-5/name 0").expect("removes");
        volume.rename("/folder-4/name 1", "/folder-4/name 2", Rename::Replace).expect("moves");
        volume.rename("/folder-7/name 1", "/folder-6/name 2", Rename::Exchange).expect("moves");
        volume.rename("/folder-2", "/folder-1/below", Rename::Replace).expect("moves");
        volume.remove_dir("/folder-0").expect("removes");
        volume.close().expect("closes");
        let what = format!("{words} {policies}");
        judge(&image, &what);
        for directory in ["/folder-3", "/folder-1/below"] {
            assert!(is_inline(&image, directory), "{what}: {directory} took a block");
        }
        let volume = open(&image, policies);
        let read = |path: &str| volume.read(path).expect("reads");
        assert!(read("/folder-1/below/second") == content(59), "{what}");
        assert!(read("/folder-1/below/name 0") == content(60), "{what}");
        assert_eq!(volume.read_dir("/folder-3").expect("lists").len(), 1, "{what}");
        assert_eq!(volume.metadata("/file-1").expect("is there").links, 1, "{what}");
        volume.close().expect("closes");
        let stat = debugfs(&image, "ls \"/folder-1/below\"").expect("lists");
        assert!(stat.contains("name 1"), "{stat}");
        let volume = open(&image, policies);
        for number in 0..200 {
            for count in [1, 5, 6] {
                let path = format!("/folder-{count}/a rather long name of number {number}");
                volume.write(path, &[b'x'; 3]).expect("writes");
            }
        }
        volume.create_dir("/folder-8/below", 0o755).expect("makes");
        volume.hard_link("/file-61", "/folder-7/link").expect("links");
        volume.close().expect("closes");
        judge(&image, &what);
        let volume = open(&image, policies);
        assert_eq!(volume.read_dir("/folder-5").expect("lists").len(), 204);
        assert_eq!(volume.read_dir("/folder-1").expect("lists").len(), 202);
        volume.close().expect("closes");
        assert!(is_inline(&image, "/file-61") && !is_inline(&image, "/folder-7"), "{what}");
    }
}

#[test]
fn a_range_is_changed_in_blocks() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-ranges");
    let image = make(&folder, "-O inline_data -I 256 -b 1024", "8M");
    let volume = open(&image, "modern");
    let file = |path: &str| volume.open_file(path).expect("opens");
    file("/file-60").allocate(0, 5000, Size::Grow).expect("allocates");
    file("/file-61").punch_hole(10, 20).expect("punches");
    file("/file-100").zero_range(10, 20, Size::Keep).expect("zeroes");
    file("/file-131").insert_range(0, 1024).expect("inserts");
    let mut expected = content(60);
    expected.resize(5000, 0);
    assert!(volume.read("/file-60").expect("reads") == expected);
    for (path, size) in [("/file-61", 61), ("/file-100", 100)] {
        let mut expected = content(size);
        expected[10..30].fill(0);
        assert!(volume.read(path).expect("reads") == expected, "{path}");
    }
    assert!(volume.read("/file-131").expect("reads")[1024..] == content(131));
    volume.close().expect("closes");
    judge(&image, "ranges");
}

#[test]
fn on_a_full_volume_what_takes_no_room_still_works_and_the_rest_changes_nothing() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-full");
    let image = make(&folder, "-O inline_data -I 256 -b 1024 -m 0", "8M");
    let volume = open(&image, "modern");
    let file = volume.create_file("/full", 0o644).expect("makes");
    let mut at = 0;
    for piece in [65_536, 1024] {
        while file.write_at(at, &vec![7; piece]).is_ok() {
            at += piece as u64;
        }
    }
    let refused = |result: extant_engine::Result<()>| {
        let error = result.expect_err("there is no room");
        assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
    };
    refused(volume.open_file("/file-60").expect("opens").write_at(0, b"x").map(drop));
    refused(volume.hard_link("/file-60", "/folder-1/link"));
    assert!(volume.read("/file-60").expect("reads") == content(60));
    volume.open_file("/file-100").expect("opens").set_len(0).expect("is cut");
    volume.remove_file("/folder-3/name 1").expect("removes");
    volume.remove_file("/file-61").expect("removes");
    drop(file);
    volume.close().expect("closes");
    judge(&image, "full");
    assert!(is_inline(&image, "/file-60") && is_inline(&image, "/folder-1"));
}

/// Random changes beside a map of what every file holds.
#[test]
fn random_changes_are_those_of_a_model() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-random");
    for (seed, (words, policies)) in (1..).zip(VOLUMES) {
        let image = make(&folder, words, "16M");
        let mut random = Random::new(seed);
        let mut model: BTreeMap<String, Vec<u8>> =
            SIZES.iter().map(|size| (format!("/file-{size}"), content(*size))).collect();
        for count in 0..9 {
            for number in 0..count {
                model.insert(format!("/folder-{count}/name {number}"), content(number));
            }
        }
        for round in 0..6 {
            let volume = open(&image, policies);
            for step in 0..25 {
                let paths: Vec<String> = model.keys().cloned().collect();
                let path = random.pick(&paths).clone();
                let directory = format!("/folder-{}", random.below(9));
                let fresh = format!("{directory}/new {round} {step}");
                match random.below(8) {
                    0 => {
                        let (at, length) = (random.below(200), random.below(100) as usize + 1);
                        let mut bytes = vec![0; length];
                        random.fill(&mut bytes);
                        volume
                            .open_file(&path)
                            .and_then(|file| file.write_at(at, &bytes))
                            .expect("writes");
                        let held = model.get_mut(&path).expect("is there");
                        held.resize(held.len().max(at as usize + length), 0);
                        held[at as usize..][..length].copy_from_slice(&bytes);
                    }
                    1 => {
                        let size = random.below(300);
                        volume.open_file(&path).and_then(|file| file.set_len(size)).expect("cuts");
                        model.get_mut(&path).expect("is there").resize(size as usize, 0);
                    }
                    2 if paths.len() > 20 => {
                        volume.remove_file(&path).expect("removes");
                        model.remove(&path);
                    }
                    3 => {
                        volume.rename(&path, &fresh, Rename::Replace).expect("moves");
                        let bytes = model.remove(&path).expect("is there");
                        model.insert(fresh, bytes);
                    }
                    4 => {
                        let other = random.pick(&paths).clone();
                        volume.rename(&path, &other, Rename::Replace).expect("moves");
                        let bytes = model.remove(&path).expect("is there");
                        model.insert(other, bytes);
                    }
                    5 => {
                        let value = vec![b'v'; random.below(120) as usize];
                        let name = format!("user.{}", random.below(4));
                        volume
                            .set_attribute(&path, name.as_bytes(), &value, SetAttribute::Any)
                            .expect("sets");
                    }
                    6 => {
                        volume.write(&fresh, &content(step)).expect("writes");
                        model.insert(fresh, content(step));
                    }
                    _ => volume.change(&path, &mode(0o600 + step as u16 % 64)).expect("changes"),
                }
            }
            let agrees = |volume: &Filesystem, when: &str| {
                for (path, bytes) in &model {
                    let found = volume.read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
                    assert!(found == *bytes, "{words} {policies} {round} {path} {when}");
                }
            };
            agrees(&volume, "before it is closed");
            volume.close().expect("closes");
            judge(&image, &format!("{words} {policies} round {round}"));
            let volume = open(&image, policies);
            agrees(&volume, "afterwards");
            volume.close().expect("closes");
        }
    }
}

/// What is changed while the power may be cut: files grow at their end, directories get names.
fn change_before_the_cut(volume: &Filesystem) {
    for (at, size) in SIZES.iter().enumerate() {
        let file = volume.open_file(format!("/file-{size}")).expect("opens");
        file.write_at(*size as u64, b"more").expect("writes");
        if at % 3 == 0 {
            volume.sync().expect("syncs");
        }
        let number = at % 9;
        // Two stay in their inodes until the names move.
        if ![2, 3].contains(&number) {
            volume.write(format!("/folder-{number}/new {at}"), b"new").expect("writes");
        }
        if at % 4 == 1 && number > 0 {
            volume.remove_file(format!("/folder-{number}/name 0")).expect("removes");
        }
    }
    volume.rename("/folder-3/name 1", "/folder-8/moved", Rename::Replace).expect("moves");
    volume.rename("/folder-2", "/folder-7/below", Rename::Replace).expect("moves");
    volume.sync().expect("syncs");
}

/// Whatever was cut off, what was in an inode is there or in its block, and no name is lost.
fn examine(volume: &Filesystem, what: &str) {
    for size in SIZES {
        let path = format!("/file-{size}");
        let bytes = volume.read(&path).unwrap_or_else(|error| panic!("{what} {path}: {error}"));
        let has_kept = bytes.get(..size) == Some(&content(size)[..]);
        assert!(has_kept && bytes.len() <= size + 4, "{what}: {path} of {} bytes", bytes.len());
    }
    for count in 0..9 {
        for number in 0..count {
            let path = format!("/folder-{count}/name {number}");
            let is_there = volume.metadata(&path).is_ok()
                || number == 0
                || count == 2 && volume.metadata("/folder-7/below/name 1").is_ok()
                || (count, number) == (3, 1) && volume.metadata("/folder-8/moved").is_ok();
            assert!(is_there, "{what}: {path} is lost");
        }
    }
}

#[test]
fn a_power_cut_loses_nothing_of_what_was_in_an_inode() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-cuts");
    for (words, policies) in [
        ("-O inline_data -I 256 -b 1024 -J size=1", "modern"),
        ("-O inline_data -I 256 -b 1024 -J size=1", "modern,journal=writeback"),
        ("-O inline_data -I 256 -b 1024 -J size=1", "modern,journal=data"),
        ("-O inline_data,^has_journal -I 256 -b 1024", "modern"),
    ] {
        let image = make(&folder, words, "8M");
        let bytes = std::fs::read(&image).expect("reads");
        let base = MemoryDevice::from_bytes(RealClock::new(), &bytes);
        let log = Arc::new(CrashLog::new(base.snapshot()));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let options = options(policies, Access::ReadWrite);
        let volume = Filesystem::open(device, &options).expect("opens");
        change_before_the_cut(&volume);
        volume.close().expect("closes");
        // Without a journal nothing mends a superblock that is torn.
        let has_journal = !words.contains("^has_journal");
        let sector_bytes = if has_journal { 512 } else { 1024 };
        let moments = log.moments();
        assert!(moments > 20, "{moments} moments");
        for moment in 0..=moments {
            let cut = log.cut(moment);
            for (number, medium) in
                [cut.prefix(&base), cut.subset(&base, sector_bytes, moment as u64)]
                    .into_iter()
                    .enumerate()
            {
                let medium = medium.expect("the cut is made");
                let what = format!("{words} {policies}: moment {moment}, medium {number}");
                let device = Arc::new(medium.snapshot()) as Arc<dyn BlockDevice>;
                let volume = Filesystem::open(device, &options);
                let volume = volume.unwrap_or_else(|error| panic!("{what}: {error}"));
                examine(&volume, &what);
                volume.close().expect("closes");
                if moment % 8 == number && has_journal {
                    medium.save(&image).expect("saves");
                    open(&image, "modern").close().expect("recovers");
                    judge(&image, &what);
                }
            }
        }
    }
}
