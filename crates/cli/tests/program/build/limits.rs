//! Many names in one directory, chains of directories, files of a tebibyte: from a folder and from
//! an archive. What the release binary needs for them at full scale is measured by `bench/run`;
//! here they are smaller.
use crate::build::command::{build, build_command, everything, judge, same_when_mounted};
use extant_testkit::archive::{self, Member};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const NAMES: u32 = 50_000;
const LEVELS: usize = 2_000;

#[test]
fn many_names_in_one_directory() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("build-many");
    let source = folder.join("source");
    fs::create_dir_all(source.join("many")).unwrap();
    let mut archive = BufWriter::new(File::create(folder.join("many.tar")).unwrap());
    for number in 0..NAMES {
        File::create(source.join(format!("many/name-{number}"))).unwrap();
        archive::append(&mut archive, &format!("many/name-{number}"), Member::File(&[])).unwrap();
    }
    archive::finish(&mut archive).unwrap();
    archive.flush().unwrap();
    drop(archive);
    let all = ["-t ext2", "-t ext4", "-t ext4 -b 1024"];
    for words in all.into_iter().step_by(number("EXTANT_CASES") as usize) {
        for name in ["source", "many.tar"] {
            let image = folder.join(&format!("{name}{}.img", words.replace(' ', "")));
            let report = build(words, &[&folder.join(name)], &image);
            judge(&image, &report);
            assert!(report.files > u64::from(NAMES));
            if can_mount() {
                let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
                assert_eq!(
                    fs::read_dir(mounted.path().join("many")).unwrap().count(),
                    NAMES as usize
                );
                assert!(mounted.path().join("many/name-31415").exists());
            }
        }
    }
}

fn make_chain(root: &Path) {
    fs::create_dir(root).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&at, "down", Mode::RWXU).unwrap();
        at = openat(&at, "down", flags, Mode::empty()).unwrap();
    }
    let file = openat(&at, "bottom", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
}

#[test]
fn a_chain_of_directories() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("build-chain");
    make_chain(&folder.join("source"));
    output(
        program("tar")
            .args(["--format=pax", "-cf"])
            .arg(folder.join("x.tar"))
            .arg("-C")
            .arg(folder.join("source"))
            .arg("."),
    )
    .unwrap();
    let all = ["-t ext3", "-t ext4 -b 1024 -I 128"];
    for words in all.into_iter().step_by(number("EXTANT_CASES") as usize) {
        for name in ["source", "x.tar"] {
            let image = folder.join(&format!("{name}{}.img", words.replace(' ', "")));
            let report = build(words, &[&folder.join(name)], &image);
            judge(&image, &report);
            assert_eq!((report.files, report.free_blocks), (LEVELS as u64 + 2, 0));
            if can_mount() && words == "-t ext3" {
                same_when_mounted(&image, &folder.join("source"), &everything());
            }
        }
    }
}

#[test]
fn a_sparse_tebibyte() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-huge");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    let huge = File::create(source.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    for place in [0, (1 << 39) + 12_345, (1 << 40) - 3] {
        huge.write_all_at(b"abc", place).unwrap();
    }
    let mut tar = program("tar");
    tar.args(["--format=pax", "--sparse", "-cf"])
        .arg(folder.join("x.tar"))
        .arg("-C")
        .arg(&source)
        .arg(".");
    output(&mut tar).unwrap();
    for words in ["-t ext4", "-t ext2", "-t ext3"] {
        for name in ["source", "x.tar"] {
            let image = folder.join(&format!("{name}{words}.img"));
            let report = build(words, &[&folder.join(name)], &image);
            judge(&image, &report);
            assert!(report.bytes < 8 << 20);
            let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
            let file = File::open(mounted.path().join("huge")).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!(metadata.len(), 1 << 40);
            assert!(metadata.blocks() <= 9 * 8, "{words}: {} sectors", metadata.blocks());
            for place in [0, (1u64 << 39) + 12_345, (1 << 40) - 3] {
                let mut read = [0; 3];
                file.read_exact_at(&mut read, place).unwrap();
                assert_eq!(&read, b"abc");
            }
        }
    }
    // An indirect map of blocks of 1 KiB ends at 16 GiB: said of the file, before anything is
    // written.
    let image = folder.join("x.img");
    let refused =
        crate::build::command::refusal(&mut build_command("-t ext2 -b 1024", &[&source], &image));
    assert!(refused.message.contains("huge") && refused.code == Some(1), "{refused:?}");
    assert!(refused.hint.is_some() && !image.exists(), "{refused:?}");
}

/// A file has at most 65,000 names, as has a directory without dir_nlink; a symlink at most a block
/// less one byte: what does not fit is named.
#[test]
fn what_no_inode_can_hold_is_named() {
    let folder = Scratch::new("build-unfit");
    let image = folder.join("x.img");
    let source = folder.join("links");
    fs::create_dir(&source).unwrap();
    std::os::unix::fs::symlink("t/".repeat(600), source.join("long-link")).unwrap();
    let refused = crate::build::command::refusal(&mut build_command("-b 1024", &[&source], &image));
    assert!(refused.message.contains("long-link") && refused.hint.is_some(), "{refused:?}");
    build("-b 2048", &[&source], &image);

    let source = folder.join("attributes");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("rich"), "").unwrap();
    rustix::fs::lsetxattr(
        source.join("rich"),
        "user.large",
        &[b'x'; 2000],
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let image = folder.join("y.img");
    let refused = crate::build::command::refusal(&mut build_command("-b 1024", &[&source], &image));
    assert!(refused.message.contains("rich") && refused.hint.is_some(), "{refused:?}");
    assert!(!image.exists());

    // 64,998 names and those of the root itself are as many as ext3 counts.
    let mut archive = Vec::new();
    for number in 0..65_000 {
        archive::append(&mut archive, &format!("{number}/"), Member::Directory).unwrap();
    }
    archive::finish(&mut archive).unwrap();
    let tar = folder.join("x.tar");
    fs::write(&tar, archive).unwrap();
    let refused =
        crate::build::command::refusal(&mut build_command("-t ext3 -b 1024", &[&tar], &image));
    assert!(refused.message.starts_with("/: ") && refused.hint.is_some(), "{refused:?}");
    assert!(!image.exists());
    judge(&image, &build("-t ext4 -b 1024", &[&tar], &image));
}
