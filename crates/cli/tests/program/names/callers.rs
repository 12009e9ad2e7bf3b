//! Command lines as the builders of images call mke2fs, by their documentation: run under our name,
//! judged by e2fsck, and held against what mke2fs makes of the same words.
use crate::names::{HASH_SEED, UUID, extant, run, theirs};
use extant_testkit::oracle::{debugfs, dumpe2fs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;

/// What the volume has to agree on with mke2fs's.
#[derive(Clone, Copy, PartialEq)]
enum Like {
    /// Every byte.
    Bytes,
    /// Sizes and features; the files in it are placed otherwise.
    Shape,
}

/// Who calls, under which name, with which words, and what has to agree. ROOT, IMAGE, UUID and SEED
/// stand for what the caller fills in.
const CALLS: [(&str, &str, &str, Like); 14] = [
    (
        "systemd-repart",
        "mkfs.ext4",
        "-q -L root -U UUID -I 256 -m 0 -E nodiscard,lazy_itable_init=1,SEED -b 4096 -T default \
         IMAGE 64M",
        Like::Bytes,
    ),
    (
        "systemd-repart with files",
        "mkfs.ext4",
        "-q -L root -U UUID -I 256 -m 0 -E nodiscard,lazy_itable_init=1,SEED -b 4096 -T default -d \
         ROOT IMAGE 64M",
        Like::Shape,
    ),
    ("mkosi", "mkfs.ext4", "-I 256 -L home -M /home -U UUID -E SEED IMAGE 64M", Like::Bytes),
    (
        "buildroot, ext2",
        "mkfs.ext2",
        "-d ROOT -r 1 -N 0 -m 5 -L rootfs -I 256 IMAGE 60M",
        Like::Shape,
    ),
    (
        "buildroot, ext4",
        "mkfs.ext4",
        "-d ROOT -r 1 -N 0 -m 5 -L rootfs -I 256 -O ^64bit IMAGE 60M",
        Like::Shape,
    ),
    ("yocto", "mkfs.ext4", "-F -i 4096 IMAGE -d ROOT 32768", Like::Shape),
    ("yocto, ext3", "mkfs.ext3", "-F -i 4096 IMAGE -d ROOT 32768", Like::Shape),
    (
        "genimage",
        "mke2fs",
        "-t ext4 -I 256 -E root_owner=0:0,SEED -U UUID -d ROOT -L label IMAGE 65536k",
        Like::Shape,
    ),
    (
        "genimage, empty",
        "mke2fs",
        "-t ext4 -I 256 -E SEED -U UUID -L data IMAGE 65536k",
        Like::Bytes,
    ),
    ("debos", "mkfs.ext4", "-L system -U UUID -E SEED -F IMAGE 200M", Like::Bytes),
    (
        "debos, features",
        "mkfs.ext4",
        "-O ^metadata_csum,^64bit -L boot -U UUID -E SEED -F IMAGE 100M",
        Like::Bytes,
    ),
    (
        "Android",
        "mke2fs",
        "-O ^has_journal -L system -N 2048 -I 256 -M /system -m 0 -U UUID -E SEED -t ext4 -b 4096 \
         IMAGE 16384",
        Like::Bytes,
    ),
    ("Kata", "mkfs.ext4", "-q -F -b 4096 -U UUID -E SEED IMAGE 128M", Like::Bytes),
    (
        "Firecracker",
        "mkfs.ext4",
        "-d ROOT -F -E lazy_itable_init=0,lazy_journal_init=0 IMAGE 64M",
        Like::Shape,
    ),
];

/// A small tree.
fn tree(root: &Path) {
    std::fs::create_dir_all(root.join("etc/init.d")).unwrap();
    std::fs::create_dir_all(root.join("usr/bin")).unwrap();
    std::fs::write(root.join("etc/hostname"), "name\n").unwrap();
    std::fs::write(root.join("usr/bin/program"), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink("../usr/bin/program", root.join("etc/init.d/start")).unwrap();
    for number in 0..200 {
        std::fs::write(root.join(format!("etc/file-{number}")), vec![1; number * 10]).unwrap();
    }
}

/// What both volumes are asked about.
const FIELDS: [&str; 6] = [
    "Block count",
    "Block size",
    "Inode count",
    "Inode size",
    "Reserved block count",
    "Blocks per group",
];

#[test]
fn builders_of_images_get_what_mke2fs_makes() {
    if !require("mke2fs") || !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-callers");
    let root = folder.join("root");
    tree(&root);
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    for (caller, name, line, like) in CALLS {
        let _ = [&ours, &others].map(std::fs::remove_file);
        let words = |image: &Path| -> Vec<String> {
            let place = |word: &str| match word {
                "IMAGE" => image.display().to_string(),
                "ROOT" => root.display().to_string(),
                "UUID" => UUID.to_owned(),
                _ => word.replace("SEED", HASH_SEED),
            };
            line.split_whitespace().map(place).collect()
        };
        let (code, said) = run(extant(name).args(words(&ours)));
        assert_eq!(code, Some(0), "{caller}: {said}");
        e2fsck(&ours).unwrap_or_else(|error| panic!("{caller}: {error}"));
        let (code, said) = run(theirs(name).args(words(&others)));
        assert_eq!(code, Some(0), "{caller}: {said}");
        if like == Like::Bytes {
            let places = crate::names::option_strings::compare(&others, &ours);
            assert!(places.is_empty(), "{caller}: {places:?}");
            continue;
        }
        let [our, their] = [&ours, &others].map(|image| dumpe2fs(image).unwrap());
        for field in FIELDS {
            assert_eq!(our.number(field), their.number(field), "{caller}: {field}");
        }
        let [mut our, mut their] = [our, their].map(|dump| {
            dump.features().iter().map(|feature| (*feature).to_owned()).collect::<Vec<_>>()
        });
        our.sort();
        their.sort();
        assert_eq!(our, their, "{caller}");
        for file in ["/etc/hostname", "/etc/file-150", "/usr/bin/program"] {
            let [our, their] =
                [&ours, &others].map(|image| debugfs(image, &format!("cat {file}")).unwrap());
            assert!(our == their, "{caller}: {file}");
        }
        if caller.starts_with("yocto") {
            let (code, said) = run(extant("fsck.ext4").arg("-pvfD").arg(&ours));
            assert!(code.is_some_and(|code| code <= 3), "{caller}: {code:?} {said}");
        }
    }
}

#[test]
fn an_archive_is_a_source_too() {
    if !require("tar") || !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-tar");
    let root = folder.join("root");
    tree(&root);
    let archive = folder.join("root.tar");
    let tar = ["-C", root.to_str().unwrap(), "-cf", archive.to_str().unwrap(), "."];
    extant_testkit::command::run("tar", &tar).unwrap();
    for source in [archive.to_str().unwrap(), "-"] {
        let image = folder.join("x.img");
        let _ = std::fs::remove_file(&image);
        let mut command = extant("mkfs.ext4");
        command.args(["-q", "-d", source]).arg(&image).arg("64M");
        command.stdin(std::fs::File::open(&archive).unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{source}: {said}");
        e2fsck(&image).unwrap();
        assert_eq!(debugfs(&image, "cat /etc/hostname").unwrap(), "name\n");
    }
}
