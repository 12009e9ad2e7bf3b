//! `--sparse`: which zeros are holes, of every kind of source, on every kind of map.
use crate::build::command::{
    build, build_command, bytes, everything, extant, judge, rebuild, same_when_mounted,
};
use extant_testkit::command::{output, program};
use extant_testkit::compare::{Field, Options};
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;

/// Names of files, and the KiB that they take in blocks of 4 KiB with auto, always and never.
const FILES: [(&str, [u64; 3]); 6] = [
    ("zeros", [0, 0, 20 << 10]),
    ("mixed", [12, 12, 3 << 10]),
    ("small", [512, 0, 512]),
    ("swap", [2 << 10, 4, 2 << 10]),
    ("old-swap", [2 << 10, 4, 2 << 10]),
    ("holes", [4, 4, 4 << 10]),
];

/// A tree with zeros of all kinds.
fn tree(folder: &Scratch) -> PathBuf {
    let root = folder.join("tree");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("zeros"), vec![0; 20 * MIB]).unwrap();
    let mut mixed = vec![0; 3 * MIB - 100];
    mixed[4096..4106].copy_from_slice(b"0123456789");
    mixed[2 * MIB + 4095] = 1;
    *mixed.last_mut().unwrap() = 2;
    fs::write(root.join("mixed"), mixed).unwrap();
    fs::write(root.join("small"), vec![0; MIB / 2]).unwrap();
    for (name, page, mark) in [("swap", 4096, b"SWAPSPACE2"), ("old-swap", 65_536, b"SWAP-SPACE")] {
        let mut swap = vec![0; 2 * MIB];
        swap[page - 10..page].copy_from_slice(mark);
        fs::write(root.join(name), swap).unwrap();
    }
    let holes = File::create(root.join("holes")).unwrap();
    holes.write_all_at(&vec![0; MIB], MIB as u64).unwrap();
    holes.write_all_at(b"data", 2 * MIB as u64).unwrap();
    holes.set_len(4 * MIB as u64).unwrap();
    // Nothing of it is zeros, but for single bytes.
    fs::write(root.join("d/dense"), bytes(3, 3 * MIB + 17)).unwrap();
    root
}

/// What a copy keeps, whatever holes it has.
fn copied() -> Options {
    let mut options = everything();
    options.fields.remove(&Field::HolesKept);
    options
}

/// The KiB that each file takes.
fn taken(root: &Path) -> Vec<(&'static str, u64)> {
    let kib = |name: &str| fs::metadata(root.join(name)).unwrap().blocks() / 2;
    FILES.iter().map(|(name, _)| (*name, kib(name))).collect()
}

/// The image is sound, exactly as large as it has to be, holds the tree's bytes, and its files take
/// what `column` of the table says.
fn check(
    image: &Path,
    report: &crate::build::command::Report,
    root: &Path,
    column: usize,
    what: &str,
) {
    judge(image, report);
    assert_eq!(report.free_blocks, 0, "{what}");
    same_when_mounted(image, root, &copied());
    let mounted = mount_loop(image, Access::ReadOnly, "").unwrap();
    let expected: Vec<_> = FILES.iter().map(|(name, kib)| (*name, kib[column])).collect();
    assert_eq!(taken(mounted.path()), expected, "{what}");
    assert!(fs::metadata(mounted.path().join("d/dense")).unwrap().blocks() / 2 >= 3 << 10);
}

#[test]
fn zeros_are_holes_where_they_are_wanted_on_extents_and_on_indirect_maps() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-sparse");
    let root = tree(&folder);
    let image = folder.join("x.img");
    for (column, sparse) in ["", "--sparse always", "--sparse never"].into_iter().enumerate() {
        for volume in ["-t ext4", "-t ext2", "-t ext3 -O ^extent"] {
            // Inode tables in front, so that no swap area is where one of the volume would be.
            let options = format!("{volume} -N 2000 {sparse}");
            let report = rebuild(&options, &[&root], &image);
            let maps = volume != "-t ext4";
            judge(&image, &report);
            assert_eq!(report.free_blocks, 0, "{options}");
            // Blocks of an indirect map are counted with the file's.
            if !maps {
                check(&image, &report, &root, column, &options);
                continue;
            }
            same_when_mounted(&image, &root, &copied());
            let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
            for ((name, kib), (_, expected)) in taken(mounted.path()).into_iter().zip(FILES) {
                let expected = expected[column];
                let most = expected + 4 * (2 + expected / (4 << 10));
                assert!((expected..=most).contains(&kib), "{options}: {name}: {kib}");
            }
        }
    }
    // Blocks of 1 KiB leave out more.
    let report = rebuild("-b 1024", &[&root], &image);
    judge(&image, &report);
    same_when_mounted(&image, &root, &copied());
    let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
    assert_eq!(fs::metadata(mounted.path().join("mixed")).unwrap().blocks() / 2, 3);
    drop(mounted);
    let report = rebuild("--free 10M", &[&root], &image);
    judge(&image, &report);
    let free = report.free_blocks * u64::from(report.block_size);
    assert!((10 << 20..11 << 20).contains(&free), "{free}");
}

#[test]
fn every_source_gives_the_same_holes() {
    if !can_mount() || !require("tar") || !require("cpio") {
        return;
    }
    let folder = Scratch::new("build-sparse-sources");
    let root = tree(&folder);
    let packed = |name: &str, options: &[&str]| {
        let archive = folder.join(name);
        let mut tar = program("tar");
        tar.args(["--format=pax", "--sort=name"]).args(options).arg("-cf").arg(&archive);
        output(tar.arg("-C").arg(&root).arg(".")).unwrap();
        archive
    };
    let archives = [
        packed("plain.tar", &[]),
        packed("sparse.tar", &["--sparse"]),
        packed("x.tar.gz", &["-z"]),
        packed("sparse.tar.gz", &["-z", "--sparse"]),
    ];
    let image = folder.join("x.img");
    // Inode tables in front: else the old swap area, which is one block of the volume then, may
    // come to lie where blkid looks for that of a whole volume.
    let expected = rebuild("-N 2000", &[&root], &image);
    let expected_bytes = fs::read(&image).unwrap();
    for archive in &archives {
        for (column, sparse) in ["auto", "always", "never"].into_iter().enumerate() {
            for order in ["tree", "arrival"] {
                let options = format!("-N 2000 --sparse {sparse} --order {order}");
                let report = rebuild(&options, &[archive], &image);
                let what = format!("{}: {options}", archive.display());
                if order == "arrival" {
                    // Metadata is elsewhere; nothing is left over.
                    judge(&image, &report);
                    let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
                    let wanted: Vec<_> =
                        FILES.iter().map(|(name, kib)| (*name, kib[column])).collect();
                    assert_eq!(taken(mounted.path()), wanted, "{what}");
                    drop(mounted);
                    same_when_mounted(&image, &root, &copied());
                } else {
                    check(&image, &report, &root, column, &what);
                }
                if sparse == "auto" && order == "tree" {
                    assert_eq!(report.uuid, expected.uuid, "{what}");
                    assert!(fs::read(&image).unwrap() == expected_bytes, "{what}: other bytes");
                }
            }
        }
    }
    // What comes out of the image goes in again.
    let out = folder.join("out.tar");
    rebuild("-N 2000", &[&root], &image);
    output(extant(["tar"]).arg(&image).arg("-o").arg(&out)).unwrap();
    assert!(fs::metadata(&out).unwrap().len() < 10 << 20, "holes are not exported as zeros");
    let again = rebuild("-N 2000", &[&out], &image);
    assert_eq!(again.blocks, expected.blocks);
}

/// Nothing of it comes to the volume's data, which comes first.
#[test]
fn an_archive_of_nothing_but_zeros_in_the_order_of_arrival() {
    if !require("tar") || !can_mount() {
        return;
    }
    let folder = Scratch::new("build-sparse-nothing");
    let root = folder.join("tree");
    fs::create_dir(&root).unwrap();
    let archive = folder.join("x.tar.gz");
    let image = folder.join("x.img");
    for length in [0, 40 * MIB] {
        fs::write(root.join("zeros"), vec![0; length]).unwrap();
        let mut tar = program("tar");
        output(tar.args(["--format=pax", "-czf"]).arg(&archive).arg("-C").arg(&root).arg("."))
            .unwrap();
        for volume in ["-t ext4", "-t ext4 -b 1024", "-t ext4 -O ^flex_bg", "-t ext2"] {
            let options = format!("{volume} --order arrival");
            judge(&image, &rebuild(&options, &[&archive], &image));
            assert!(fs::metadata(&image).unwrap().len() < 20 << 20, "{options}");
            same_when_mounted(&image, &root, &copied());
        }
    }
}

#[test]
fn a_file_for_injection_and_a_layer_over_zeros() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-sparse-layers");
    let root = tree(&folder);
    let top = folder.join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join(".wh.zeros"), "").unwrap();
    fs::write(top.join("mixed"), bytes(5, 2 * MIB)).unwrap();
    let image = folder.join("x.img");
    let inject = format!("--inject src={},dst=/put", root.join("zeros").display());
    let report = build(&format!("--whiteouts oci {inject}"), &[&root, &top], &image);
    judge(&image, &report);
    assert_eq!(report.free_blocks, 0);
    let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
    let blocks = |name: &str| fs::metadata(mounted.path().join(name)).unwrap().blocks();
    assert!(!mounted.path().join("zeros").exists());
    assert_eq!((blocks("put"), blocks("mixed")), (0, 4096));
    assert!(fs::read(mounted.path().join("mixed")).unwrap() == bytes(5, 2 * MIB));
}

#[test]
fn another_word_is_refused() {
    let folder = Scratch::new("build-sparse-words");
    let mut command = build_command("--sparse sometimes", &[folder.path()], &folder.join("x.img"));
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}
