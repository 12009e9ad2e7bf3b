//! Content that is not in blocks of its own, or is not to be read: inline data, values of
//! attributes in inodes, encrypted files. Read as the kernel reads them.
use crate::volume;

use extant_block::{Clock, FileDevice, RealClock};
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
use extant_format::hash::Hasher;
use extant_testkit::command::run;
use extant_testkit::compare::{self, Field};
use extant_testkit::oracle::{self, debugfs, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::walk;
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volume::reading;

fn open(image: &Path) -> Filesystem {
    let clock: Arc<dyn Clock> = RealClock::new();
    let device = FileDevice::open(clock, image, extant_block::file::Access::ReadOnly, 0)
        .expect("the image opens");
    let options = Options {
        access: Access::ReadOnly,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 24 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::new(device), &options).expect("the volume opens")
}

fn can_judge() -> bool {
    oracle::require("mke2fs") && oracle::require("debugfs") && oracle::can_mount()
}

/// Makes an image; the words are those of mke2fs before the image.
fn make(folder: &Scratch, words: &[&str], mib: u32) -> PathBuf {
    let image = folder.join("image");
    let _ = std::fs::remove_file(&image);
    let mut all = vec!["-q", "-F", "-t", "ext4"];
    all.extend(words);
    let (path, size) = (image.display().to_string(), format!("{mib}M"));
    all.extend([path.as_str(), size.as_str()]);
    run("mke2fs", &all).expect("mke2fs makes it");
    image
}

/// Fails unless the volume is read as the kernel's mount of it: entries, bytes, attributes, and
/// the order of names.
fn judge(image: &Path, what: &str) {
    let volume = open(image);
    let found = reading::entries(&volume).expect("reads");
    let mounted = mount_loop(image, oracle::Access::ReadOnly, "").expect("mounts");
    let mut options = compare::Options::same_image();
    options.fields.remove(&Field::Holes);
    let depth = walk_depth(&options);
    let kernel = walk(mounted.path(), depth, &options.excluded).expect("walks");
    let differences = compare::entries(&found, &kernel, &options);
    let sentences: Vec<String> = differences.iter().take(9).map(ToString::to_string).collect();
    assert!(sentences.is_empty(), "{what}: {}", sentences.join("\n"));
    for entry in kernel.iter().filter(|entry| entry.kind == extant_testkit::walk::Kind::Directory) {
        let listed = std::fs::read_dir(mounted.path().join(&entry.path)).expect("lists");
        let listed: Vec<_> =
            listed.map(|name| name.expect("a name").file_name().into_vec()).collect();
        let names = reading::names(&volume, &entry.path).expect("lists");
        assert_eq!(names, listed, "{what}: /{}", entry.path.display());
        for name in names {
            let path = entry.path.join(std::ffi::OsString::from_vec(name));
            volume.symlink_metadata(&path).expect("each name that is listed is found");
        }
    }
    mounted.unmount().expect("unmounts");
    survey_agrees(&volume);
}

fn walk_depth(options: &compare::Options) -> extant_testkit::walk::Depth {
    extant_testkit::walk::Depth { sha256: true, ..options.depth() }
}

/// What a survey finds, which reads the device past the engine, is what the engine reads.
fn survey_agrees(volume: &Filesystem) {
    let survey = volume.survey().expect("surveys");
    let mut seen = 0;
    for entry in reading::entries(volume).expect("reads") {
        let object = survey.object(extant_format::Ino(entry.ino as u32)).expect("is surveyed");
        assert!(survey.fault(object).is_none(), "{:?}", survey.fault(object));
        match entry.kind {
            extant_testkit::walk::Kind::File => {
                let mut bytes = vec![0; survey.size(object) as usize];
                for piece in survey.data(object) {
                    let piece = piece.expect("is found");
                    let part = &mut bytes[piece.file_offset as usize..][..piece.length as usize];
                    survey.device().read(piece.volume_offset, part).expect("reads");
                }
                assert!(bytes == volume.read(&entry.path).expect("reads"), "{:?}", entry.path);
                seen += 1;
            }
            extant_testkit::walk::Kind::Directory => {
                let names = volume.read_dir(&entry.path).expect("lists").len();
                assert_eq!(survey.names(object).len(), names, "{:?}", entry.path);
            }
            extant_testkit::walk::Kind::Symlink => {
                let target = volume.read_link(&entry.path).expect("reads");
                assert_eq!(survey.target(object).expect("reads"), target);
            }
            _ => {}
        }
    }
    assert!(seen > 0, "some files were compared");
}

/// Files around the sizes that an inode holds, directories that just fit, targets of all lengths.
fn fill(root: &Path) {
    for size in [0, 1, 59, 60, 61, 100, 131, 132, 133, 155, 156, 157, 160, 600, 800, 900, 5000] {
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8 + 1).collect();
        std::fs::write(root.join(format!("file of {size}")), bytes).expect("writes");
    }
    for count in [0, 1, 2, 3, 5, 9, 60] {
        let folder = root.join(format!("folder of {count}"));
        std::fs::create_dir(&folder).expect("makes it");
        for number in 0..count {
            std::fs::write(folder.join(format!("{number} of {count}")), b"x").expect("writes");
        }
    }
    for length in [1, 58, 59, 60, 61, 100, 150, 200, 900] {
        symlink("t".repeat(length), root.join(format!("link of {length}"))).expect("links");
    }
}

#[test]
fn inline_data_is_read_as_the_kernel_reads_it() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-data");
    let root = folder.join("tree");
    std::fs::create_dir(&root).expect("makes it");
    fill(&root);
    let tree = root.display().to_string();
    for words in [
        ["-O", "inline_data", "-I", "256", "-b", "1024", "-d", &tree],
        ["-O", "inline_data", "-I", "1024", "-b", "4096", "-d", &tree],
        ["-O", "inline_data,^dir_index,^metadata_csum", "-I", "512", "-b", "2048", "-d", &tree],
    ] {
        let image = make(&folder, &words, 8);
        let path = image.display().to_string();
        let change = |request| run("debugfs", &["-w", "-R", request, &path]);
        change("ea_set \"/file of 60\" user.name value").expect("debugfs sets it");
        change("ea_set \"/file of 1\" security.other 12345").expect("debugfs sets it");
        judge(&image, &words.join(" "));
        // Ends beyond the bytes that are there, where the kernel has no answer to SEEK_DATA, and
        // before.
        change("sif \"/file of 100\" size 5000").expect("debugfs changes it");
        change("sif \"/file of 59\" size 20").expect("debugfs changes it");
        let (volume, mounted) =
            (open(&image), mount_loop(&image, oracle::Access::ReadOnly, "").expect("mounts"));
        for (name, size) in [("file of 100", 5000), ("file of 59", 20)] {
            let bytes = volume.read(name).expect("reads");
            assert_eq!(bytes.len(), size);
            assert!(bytes == std::fs::read(mounted.path().join(name)).expect("reads"), "{name}");
        }
        mounted.unmount().expect("unmounts");
        let stat = debugfs(&image, "stat \"/folder of 1\"").expect("stat");
        assert!(stat.contains("0x10000000"), "an inline directory was judged: {stat}");
    }
}

#[test]
fn inline_data_that_lies_is_an_error_and_no_content() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("inline-lies");
    let root = folder.join("tree");
    std::fs::create_dir(&root).expect("makes it");
    fill(&root);
    let tree = root.display().to_string();
    let words = ["-O", "inline_data,^metadata_csum", "-I", "256", "-b", "1024", "-d", &tree];
    let image = make(&folder, &words, 8);
    let bytes = std::fs::read(&image).expect("reads");
    let entries: Vec<usize> = bytes
        .windows(20)
        .enumerate()
        .filter(|(_, window)| window[..2] == [4, 7] && window[16..] == *b"data")
        .map(|(at, _)| at)
        .collect();
    assert!(entries.len() > 10, "entries were found");
    // Size, offset, the inode of the value, the name: each wrong in every inline inode.
    for (field, value) in [(8, 255), (10, 255), (2, 250), (3, 255), (4, 12), (16, b'x'), (0, 255)] {
        let mut damaged = bytes.clone();
        entries.iter().for_each(|entry| damaged[entry + field] = value);
        std::fs::write(&image, &damaged).expect("writes");
        let volume = open(&image);
        match volume.read("/file of 100").map_err(|error| error.kind) {
            Err(ErrorKind::Corrupt(_)) => {}
            other => panic!("field {field}: {other:?}"),
        }
        let survey = volume.survey().expect("surveys");
        let ino = volume.symlink_metadata("/file of 5000").map(|file| file.ino);
        let fault = |ino| survey.object(ino).ok().map(|object| survey.fault(object).is_some());
        assert_eq!(ino.ok().and_then(fault), Some(false), "what is not inline is still read");
    }
}

#[test]
fn values_in_inodes_are_read_as_the_kernel_reads_them() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("ea-inode");
    // The kernel's transactions on the smaller one have no room for more.
    for (features, block_size, most) in
        [("ea_inode", "4096", 65_000), ("ea_inode,^metadata_csum", "1024", 20_000)]
    {
        let image = make(&folder, &["-O", features, "-b", block_size], 16);
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounts");
        for (name, length) in [("small", 10), ("large", 5000), ("largest", most)] {
            let path = mounted.path().join(name);
            std::fs::write(&path, b"content").expect("writes");
            let value: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
            rustix::fs::setxattr(&path, "user.x", &value, rustix::fs::XattrFlags::empty())
                .expect("sets it");
            rustix::fs::setxattr(&path, "user.y", b"1", rustix::fs::XattrFlags::empty())
                .expect("sets it");
        }
        mounted.unmount().expect("unmounts");
        judge(&image, features);
        assert_eq!(open(&image).attributes("/largest").expect("reads").len(), 2);
        // The value changes, and its hash does not.
        let value: Vec<u8> = (0..200).map(|at| (at % 253) as u8).collect();
        let mut bytes = std::fs::read(&image).expect("reads");
        let places: Vec<usize> = bytes
            .windows(200)
            .enumerate()
            .filter(|(_, window)| *window == value)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "the values were found");
        places.iter().for_each(|at| bytes[*at] ^= 1);
        std::fs::write(&image, &bytes).expect("writes");
        let error = open(&image).attributes("/large").expect_err("another value");
        assert!(matches!(error.kind, ErrorKind::Corrupt(_)), "{error}");
    }
}

#[test]
fn what_is_encrypted_is_no_content_and_its_facts_are_read() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("encrypted");
    let image = make(&folder, &["-O", "encrypt", "-b", "4096"], 16);
    let options = "test_dummy_encryption";
    let mounted = mount_loop(&image, oracle::Access::ReadWrite, options).expect("mounts");
    std::fs::write(mounted.path().join("secret"), vec![b'x'; 5000]).expect("writes");
    symlink("target", mounted.path().join("link")).expect("links");
    mounted.unmount().expect("unmounts");
    let volume = open(&image);
    let (mut files, mut links) = (0, 0);
    for name in volume.read_dir("/").expect("lists") {
        let object = volume.object_of(name.ino).expect("is there");
        let metadata = object.metadata().expect("its facts");
        let survey = volume.survey().expect("surveys");
        let surveyed = survey.object(name.ino).expect("is surveyed");
        object.attributes().expect("its attributes");
        let error = match metadata.file_type {
            extant_format::inode::FileType::Regular => {
                files += 1;
                assert_eq!(metadata.size, 5000);
                object.read_at(0, &mut [0; 10]).expect_err("encrypted")
            }
            extant_format::inode::FileType::Symlink => {
                links += 1;
                object.read_link().expect_err("encrypted")
            }
            _ => continue,
        };
        assert!(error.to_string().contains("encrypted"), "{error}");
        assert!(
            survey.fault(surveyed).is_some_and(|fault| fault.to_string().contains("encrypted"))
        );
        assert_eq!(survey.data(surveyed).count(), 0, "no byte of it is given");
    }
    assert_eq!((files, links), (1, 1));
}

/// Every entry below a folder, by its path: the inode number. Symlinks and files are not opened.
fn kernel_names(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, u32>) {
    for entry in std::fs::read_dir(root.join(path)).expect("lists") {
        let entry = entry.expect("an entry");
        let below = path.join(entry.file_name());
        found.insert(below.clone(), u32::try_from(entry.ino()).expect("a number"));
        if entry.file_type().expect("a type").is_dir() {
            kernel_names(root, &below, found);
        }
    }
}

#[test]
fn encrypted_names_are_those_of_the_kernel_without_the_key_and_lead_to_their_files() {
    if !can_judge() {
        return;
    }
    for (features, name) in [("encrypt", "dir_index"), ("encrypt,^dir_index", "linear")] {
        let folder = Scratch::new(name);
        let image = make(&folder, &["-O", features, "-b", "1024"], 16);
        let options = "test_dummy_encryption";
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, options).expect("mounts");
        let below = mounted.path().join("folder");
        std::fs::create_dir_all(below.join("small")).expect("makes");
        for length in [1, 16, 140, 148, 149, 150, 180, 255] {
            std::fs::write(below.join("small").join("n".repeat(length)), "x").expect("writes");
        }
        for number in 0..60 {
            std::fs::write(below.join(format!("a name among many {number}")), "").expect("writes");
        }
        symlink("target", below.join("link")).expect("links");
        mounted.unmount().expect("unmounts");

        let mounted = mount_loop(&image, oracle::Access::ReadOnly, "").expect("mounts");
        let mut kernel = BTreeMap::new();
        kernel_names(mounted.path(), Path::new(""), &mut kernel);
        assert!(kernel.len() > 70);
        let volume = open(&image);
        let survey = volume.survey().expect("surveys");
        let (mut ours, mut surveyed) = (BTreeMap::new(), BTreeMap::new());
        let mut folders = vec![PathBuf::new()];
        while let Some(path) = folders.pop() {
            let shown = |name: &[u8]| path.join(std::ffi::OsStr::from_bytes(name));
            let absolute = Path::new("/").join(&path);
            let ino = volume.metadata(&absolute).expect("leads there").ino;
            for name in survey.names(survey.object(ino).expect("is surveyed")) {
                surveyed.insert(shown(survey.name(name)), survey.leads_to(name).0);
            }
            for entry in volume.read_dir(&absolute).expect("lists") {
                let below = shown(&entry.name);
                let found = volume.symlink_metadata(Path::new("/").join(&below)).expect("found");
                assert_eq!(found.ino, entry.ino, "{}", below.display());
                if found.file_type == extant_format::inode::FileType::Directory {
                    folders.push(below.clone());
                }
                ours.insert(below, entry.ino.0);
            }
        }
        assert_eq!(ours, kernel, "{name}");
        assert_eq!(surveyed, kernel, "{name}");
        let error = volume.metadata("/folder/a name among many 1").expect_err("needs the key");
        assert!(matches!(error.kind, ErrorKind::NotFound), "{error}");
    }
}

#[test]
fn names_without_case_are_found_by_their_exact_bytes_or_else_folded() {
    if !["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| oracle::require(tool)) {
        return;
    }
    let folder = Scratch::new("casefold");
    let tree = folder.join("tree");
    let (folded, plain) = (tree.join("folded"), tree.join("plain"));
    for directory in [&folded, &plain] {
        std::fs::create_dir_all(directory).expect("makes");
        for name in ["README", "readMe", "Straße", "ÉTÉ"] {
            std::fs::write(directory.join(name), name).expect("writes");
        }
        let bytes = std::ffi::OsStr::from_bytes(b"Not\xffUTF-8");
        std::fs::write(directory.join(bytes), "").expect("writes");
        // Several blocks.
        for number in 0..100 {
            std::fs::write(directory.join(format!("One Of Many {number}")), "").expect("writes");
        }
    }
    let indexed = tree.join("indexed");
    std::fs::create_dir_all(&indexed).expect("makes");
    for number in 0..100 {
        std::fs::write(indexed.join(format!("One Of Many {number}")), "").expect("writes");
        std::fs::write(indexed.join(format!("Größe {number} ΣΊΣΥΦΟΣ")), "").expect("writes");
    }
    std::fs::write(indexed.join("\u{212a}elvin"), "").expect("writes");
    // Not in Unicode 12.1: it stays as it is, and the letters beside it are folded.
    std::fs::write(indexed.join("New \u{1fae8} Letters"), "").expect("writes");
    let source = tree.display().to_string();
    let words = ["-O", "casefold", "-E", "encoding=utf8", "-b", "1024", "-d", &source];
    let image = make(&folder, &words, 16);
    let path = image.display().to_string();
    for directory in ["folded", "indexed"] {
        let request = format!("set_inode_field /{directory} flags 0x40080000");
        run("debugfs", &["-w", "-R", &request, &path]).expect("the flag is set");
    }
    judge_without_case(&image, "folded");
    let volume = open(&image);
    for exact in ["README", "readMe"] {
        assert_eq!(volume.read(format!("/folded/{exact}")).expect("reads"), exact.as_bytes());
    }
    let first = volume.read("/folded/readme").expect("reads");
    assert!([&b"README"[..], b"readMe"].contains(&&*first));
    judge_folded(&volume);
    // e2fsck makes an index of folded hashes, where no two names are equal and all are UTF-8.
    let optimized = std::process::Command::new("e2fsck").args(["-fyD", &path]).output();
    assert!(matches!(optimized.expect("runs").status.code(), Some(0 | 1)));
    let shown = debugfs(&image, "stat /indexed").expect("shows");
    assert!(shown.contains("Flags: 0x40081000"), "{shown}");
    judge_without_case(&image, "indexed");
    let volume = open(&image);
    for number in 0..100 {
        for (word, same) in [("GRÖSSE", true), ("gro\u{308}ße", true), ("grosse", false)] {
            let path = format!("/indexed/{word} {number} σίσυφος");
            assert_eq!(volume.metadata(&path).is_ok(), same, "{path}");
        }
    }
    volume.metadata("/indexed/New \u{1fae8} Letters").expect("is found");
    volume.metadata("/indexed/new \u{1fae8} letters").expect("is found");
    // By the index alone: the name that is looked for is ASCII.
    volume.metadata("/indexed/KELVIN").expect("is found");
    let hasher = Hasher::of(volume.superblock());
    let listed = volume.read_dir("/indexed").expect("lists");
    let hashes: Vec<_> = listed.iter().map(|entry| hasher.hash_folded(&entry.name)).collect();
    assert!(hashes.len() == 202 && hashes.is_sorted(), "they are listed by hash");
}

fn judge_without_case(image: &Path, directory: &str) {
    let volume = open(image);
    for number in 0..100 {
        let found =
            volume.metadata(format!("/{directory}/oNE oF mANY {number}")).expect("is found");
        let exact =
            volume.metadata(format!("/{directory}/One Of Many {number}")).expect("is found");
        assert_eq!(found.ino, exact.ino);
    }
}

fn judge_folded(volume: &Filesystem) {
    for name in ["STRAßE", "strasse", "STRA\u{1e9e}E", "Stra\u{200d}ße"] {
        assert_eq!(volume.read(format!("/folded/{name}")).expect("reads"), "Straße".as_bytes());
    }
    for name in ["été", "e\u{301}te\u{301}", "É\u{ad}tÉ"] {
        assert_eq!(volume.read(format!("/folded/{name}")).expect("reads"), "ÉTÉ".as_bytes());
    }
    let bytes = std::ffi::OsStr::from_bytes(b"/folded/not\xffutf-8");
    volume.metadata(bytes).expect_err("is no UTF-8");
    for absent in
        ["/folded/readme.txt", "/folded/ete", "/plain/été", "/plain/readme", "/FOLDED/README"]
    {
        let error = volume.metadata(absent).expect_err("is not there");
        assert!(matches!(error.kind, ErrorKind::NotFound), "{error}");
    }
}
