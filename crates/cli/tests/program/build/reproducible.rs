//! The same input, the same bytes: whatever order the host lists a directory in, and however the
//! archive came.
use crate::build::command::{build, build_command, bytes, extant};
use extant_testkit::command::{output, program};
use extant_testkit::fixtures::{Filler, Room, populate};
use extant_testkit::oracle::{dumpe2fs, require};
use extant_testkit::scratch::Scratch;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, utimensat};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files in an order; the last name of each directory gets the same times as all others.
fn make_tree(root: &Path, names: &[String]) {
    fs::create_dir(root).unwrap();
    for name in names {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes(name.len() as u64, name.len() * 517)).unwrap();
        rustix::fs::lsetxattr(&path, "user.name", name.as_bytes(), XattrFlags::empty()).unwrap();
    }
    fs::hard_link(root.join("a/000"), root.join("linked")).unwrap();
    std::os::unix::fs::symlink("a/000", root.join("pointer")).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"x", 1 << 20).unwrap();
    set_times(root);
}

/// Gives everything the same time, from the leaves up.
fn set_times(path: &Path) {
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| set_times(&entry.unwrap().path()));
    }
    let time = Timespec { tv_sec: 1_600_000_000, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn names() -> Vec<String> {
    let names = ["a", "b/deep", "c"].into_iter();
    names.flat_map(|folder| (0..80).map(move |number| format!("{folder}/{number:03}"))).collect()
}

/// The same files in another order.
fn shuffled(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|name| {
        bytes(name.bytes().map(u64::from).sum::<u64>() * 31 + name.len() as u64, 8)
    });
    names
}

const FORMATS: [&str; 3] = ["-t ext2 -b 1024", "-t ext3", "-t ext4 --free 3M"];

fn image_of(folder: &Scratch, words: &str, sources: &[&Path]) -> Vec<u8> {
    let image = folder.join("x.img");
    build(&format!("--force {words}"), sources, &image);
    fs::read(&image).unwrap()
}

#[test]
fn the_order_of_the_host_does_not_matter() {
    let folder = Scratch::new("build-order");
    make_tree(&folder.join("one"), &names());
    make_tree(&folder.join("two"), &shuffled(names()));
    for words in FORMATS {
        let [one, two] = ["one", "two"].map(|name| image_of(&folder, words, &[&folder.join(name)]));
        assert!(one == two, "{words}");
    }
}

/// `tar` of these members, in that order.
fn archive(tree: &Path, members: &[&str], path: &Path) {
    let mut tar = program("tar");
    tar.args(["--format=pax", "--sparse", "--xattrs", "--xattrs-include=*", "--no-recursion"]);
    tar.args(["--numeric-owner", "-cf"]).arg(path).arg("-C").arg(tree);
    output(tar.args(members)).unwrap();
}

/// Every path of a tree, parents first.
fn members(tree: &Path) -> Vec<String> {
    let mut found = vec![".".to_owned()];
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(folder) = waiting.pop() {
        let mut inside: Vec<PathBuf> = fs::read_dir(tree.join(&folder))
            .unwrap()
            .map(|entry| folder.join(entry.unwrap().file_name()))
            .collect();
        inside.sort();
        for path in inside {
            found.push(path.to_str().unwrap().to_owned());
            if tree.join(&path).symlink_metadata().unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

#[test]
fn however_the_archive_came_the_image_is_that_of_the_folder() {
    if !require("tar") || !require("gzip") || !require("zstd") || !require("xz") {
        return;
    }
    let folder = Scratch::new("build-archives");
    let tree = folder.join("tree");
    make_tree(&tree, &names());
    let sorted = members(&tree);
    let sorted: Vec<&str> = sorted.iter().map(String::as_str).collect();
    let mut backwards = sorted.clone();
    backwards.reverse();
    archive(&tree, &sorted, &folder.join("x.tar"));
    archive(&tree, &backwards, &folder.join("backwards.tar"));
    for (tool, words) in [("gzip", "-k"), ("zstd", "-qk"), ("xz", "-k")] {
        output(program(tool).arg(words).arg(folder.join("x.tar"))).unwrap();
    }
    // Several blocks of xz, and several frames of zstd, are decompressed side by side.
    let parts = folder.join("parts.tar");
    fs::copy(folder.join("x.tar"), &parts).unwrap();
    output(program("xz").args(["-k", "--block-size=65536"]).arg(&parts)).unwrap();
    let plain = fs::read(&parts).unwrap();
    let mut frames = Vec::new();
    for piece in plain.chunks(50_000) {
        fs::write(folder.join("piece"), piece).unwrap();
        let frame = output(program("zstd").arg("-qc").arg(folder.join("piece"))).unwrap();
        frames.extend(frame.stdout);
    }
    fs::write(folder.join("parts.tar.zst"), frames).unwrap();
    let expected = image_of(&folder, "-t ext4", &[&tree]);
    let whole = ["x.tar", "backwards.tar", "x.tar.gz", "x.tar.zst", "x.tar.xz"];
    for name in whole.into_iter().chain(["parts.tar.xz", "parts.tar.zst"]) {
        assert!(image_of(&folder, "-t ext4", &[&folder.join(name)]) == expected, "{name}");
        let image = folder.join("piped.img");
        let mut cat =
            Command::new("cat").arg(folder.join(name)).stdout(Stdio::piped()).spawn().unwrap();
        let mut piped = extant(["build", "--force", "-q", "-"]);
        let status = piped.arg(&image).stdin(cat.stdout.take().unwrap()).status().unwrap();
        assert!(cat.wait().unwrap().success() && status.success());
        assert!(fs::read(&image).unwrap() == expected, "{name}, piped");
    }
}

#[test]
fn seconds_do_not_matter() {
    let folder = Scratch::new("build-twice");
    make_tree(&folder.join("one"), &names());
    for words in FORMATS {
        let first = image_of(&folder, words, &[&folder.join("one")]);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(first == image_of(&folder, words, &[&folder.join("one")]), "{words}");
    }
}

/// Everything that a listing shows goes into the UUID, and so does the format.
#[test]
fn identity_follows_the_content() {
    let folder = Scratch::new("build-identity");
    let tree = folder.join("one");
    let image = folder.join("x.img");
    make_tree(&tree, &names());
    let uuid = |words: &str| build(&format!("--force {words}"), &[&tree], &image).uuid;
    let mut seen = vec![uuid(""), uuid("-t ext3"), uuid("-L other"), uuid("--owner 5:6")];
    let changes: [(&str, crate::build::Deed); 6] = [
        ("name", |tree| fs::rename(tree.join("a/001"), tree.join("a/other")).unwrap()),
        ("mode", |tree| rustix::fs::chmod(tree.join("a/002"), rustix::fs::Mode::RWXU).unwrap()),
        ("size", |tree| fs::write(tree.join("a/003"), "12").unwrap()),
        ("attribute", |tree| {
            rustix::fs::lsetxattr(tree.join("a/004"), "user.name", b"x", XattrFlags::empty())
                .unwrap();
        }),
        ("link", |tree| {
            fs::remove_file(tree.join("linked")).unwrap();
            fs::copy(tree.join("a/000"), tree.join("linked")).unwrap();
        }),
        ("target", |tree| {
            fs::remove_file(tree.join("pointer")).unwrap();
            std::os::unix::fs::symlink("a/007", tree.join("pointer")).unwrap();
        }),
    ];
    for (name, change) in changes {
        change(&tree);
        set_times(&tree);
        let now = uuid("");
        assert!(!seen.contains(&now), "{name}");
        seen.push(now);
    }
    settle_at(&tree.join("a/000"), 1_600_000_001);
    assert!(!seen.contains(&uuid("")), "time");
    assert_ne!(uuid("-U random"), uuid("-U random"));
}

fn settle_at(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// SOURCE_DATE_EPOCH is the time of making, and no time is later.
#[test]
fn source_date_epoch_stamps_and_clamps() {
    if !require("debugfs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-epoch");
    let tree = folder.join("one");
    make_tree(&tree, &names());
    settle_at(&tree.join("a/000"), 1_000_000_000);
    let images = ["one.img", "two.img"].map(|name| folder.join(name));
    for image in &images {
        let mut command = extant(["build", "-q"]);
        command.env("SOURCE_DATE_EPOCH", "1500000000").env("TZ", "UTC").arg(&tree).arg(image);
        assert!(command.status().unwrap().success());
        // The second time everything was touched meanwhile.
        fs::write(tree.join("a/001"), fs::read(tree.join("a/001")).unwrap()).unwrap();
    }
    assert!(fs::read(&images[0]).unwrap() == fs::read(&images[1]).unwrap());
    let dump = dumpe2fs(&images[0]).unwrap();
    for field in ["Filesystem created", "Last write time", "Last checked"] {
        let text = dump.fields.get(field).unwrap();
        let parsed = program("date").args(["-d", text, "+%s"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), "1500000000", "{field}: {text}");
    }
    let stat =
        |path: &str| extant_testkit::oracle::debugfs(&images[0], &format!("stat {path}")).unwrap();
    let seconds = |text: &str, name: &str| {
        let at = text.find(&format!("{name}: 0x")).unwrap_or_else(|| panic!("no {name}: {text}"))
            + name.len()
            + 4;
        u32::from_str_radix(&text[at..at + 8], 16).unwrap()
    };
    assert_eq!(seconds(&stat("/a/000"), "mtime"), 1_000_000_000);
    for path in ["/a/001", "/b", "/", "/pointer"] {
        for name in ["mtime", "atime", "ctime", "crtime"] {
            assert_eq!(seconds(&stat(path), name), 1_500_000_000, "{path} {name}");
        }
    }
    let mut wrong = extant(["build", "--json"]);
    wrong.env("SOURCE_DATE_EPOCH", "yesterday").arg(&tree).arg(folder.join("x.img"));
    assert_eq!(crate::build::command::refusal(&mut wrong).code, Some(2));
}

/// What comes out of an image and goes into one again gives the same image, in a file and through a
/// pipe.
#[test]
fn out_and_in_again() {
    if !extant_testkit::skips::require_root() {
        return;
    }
    let folder = Scratch::on_disk("build-again");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    let room = Room { block_size: 2048, has_extents: true, carried: Filler::Kernel, seed: 5 };
    populate(&source, &room).unwrap();
    // An archive holds everything but sockets.
    fs::remove_file(source.join("special/socket")).unwrap();
    let [first, again, tar] = ["first.img", "again.img", "x.tar"].map(|name| folder.join(name));
    for words in [
        "-t ext4",
        "-t ext4 -I 128 -b 2048",
        "-t ext2 -b 16384",
        "-t ext3 -I 1024 --free 3M",
        "-t ext4 --size 64M -O orphan_file",
    ] {
        build(&format!("--force {words}"), &[&source], &first);
        let out = extant(["tar"]).arg(&first).arg("--force").arg("-o").arg(&tar).status().unwrap();
        assert!(out.success(), "{words}");
        build(&format!("--force {words}"), &[&tar], &again);
        assert!(fs::read(&first).unwrap() == fs::read(&again).unwrap(), "{words}");
        let mut out = extant(["tar"]).arg(&first).stdout(Stdio::piped()).spawn().unwrap();
        let mut piped = build_command(&format!("--force {words}"), &[Path::new("-")], &again);
        let built = piped.stdin(out.stdout.take().unwrap()).output().unwrap();
        assert!(out.wait().unwrap().success() && built.status.success(), "{words}");
        assert!(fs::read(&first).unwrap() == fs::read(&again).unwrap(), "{words}, piped");
    }
}
