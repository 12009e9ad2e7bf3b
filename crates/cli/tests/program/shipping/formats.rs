//! qcow2, Android's sparse format, compression, block maps: taken back by the programs that take
//! them.
use crate::shipping::fixture::{build, command, ended, number, same, source, text, told};
use extant_testkit::oracle::{can_mount, e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The options under which a disk is made: a volume alone, with much free room, a whole disk.
const DISKS: [&str; 3] =
    ["-t ext4", "--free 150M -t ext4", "--partition gpt --verity -t ext2 -b 1024"];

#[test]
fn qemu_reads_the_same_disk() {
    if !require("qemu-img") {
        return;
    }
    let folder = Scratch::new("formats");
    source(&folder);
    for words in DISKS {
        build(&folder, &format!("-F {words} source disk.img"));
        let report = build(&folder, &format!("-F {words} --format qcow2 source disk.qcow2"));
        assert_eq!(text(&report, "/disk/format"), "qcow2");
        let check = told(&folder, "qemu-img", &["check", "disk.qcow2"]);
        assert!(check.contains("No errors"), "{words}: {check}");
        let compare = ["compare", "-f", "qcow2", "-F", "raw", "disk.qcow2", "disk.img"];
        told(&folder, "qemu-img", &compare);
        let bytes = fs::metadata(folder.join("disk.qcow2")).unwrap().len();
        assert_eq!(bytes, number(&report, "/disk/image_bytes"));
        assert!(bytes < 12 << 20, "{words}: {bytes} bytes, free blocks among them");
        let again = build(&folder, &format!("-F {words} --format qcow2 source again.qcow2"));
        assert_eq!(number(&again, "/disk/image_bytes"), bytes);
        same(&folder.join("disk.qcow2"), &folder.join("again.qcow2"));
    }
}

#[test]
fn simg2img_gives_the_disk_back() {
    if !require("simg2img") {
        return;
    }
    let folder = Scratch::new("formats");
    source(&folder);
    for words in DISKS {
        build(&folder, &format!("-F {words} source disk.img"));
        build(&folder, &format!("-F {words} --format android-sparse source disk.simg"));
        let _ = fs::remove_file(folder.join("back.img"));
        told(&folder, "simg2img", &["disk.simg", "back.img"]);
        let length = fs::metadata(folder.join("disk.img")).unwrap().len();
        let back = fs::File::options().write(true).open(folder.join("back.img")).unwrap();
        // The format counts blocks of 4096 bytes.
        assert_eq!(back.metadata().unwrap().len(), length.next_multiple_of(4096), "{words}");
        back.set_len(length).unwrap();
        same(&folder.join("disk.img"), &folder.join("back.img"));
    }
    build(&folder, "-F --format android-sparse source disk.simg");
    build(&folder, "-F --format android-sparse source disk.simg.gz");
    told(&folder, "gzip", &["-d", "-f", "-k", "disk.simg.gz"]);
    build(&folder, "-F --format android-sparse --compress none source plain.simg.gz");
    same(&folder.join("disk.simg"), &folder.join("plain.simg.gz"));
}

#[test]
fn compressed_images_are_the_same_image() {
    if !require("zstd") || !require("gzip") {
        return;
    }
    let folder = Scratch::new("formats");
    source(&folder);
    for words in
        DISKS.into_iter().step_by(extant_testkit::variables::number("EXTANT_CASES") as usize)
    {
        build(&folder, &format!("-F {words} source disk.img"));
        let report = build(&folder, &format!("-F {words} source packed.img.zst"));
        assert_eq!(text(&report, "/disk/compression"), "zstd");
        assert!(number(&report, "/disk/image_bytes") < 5 << 20, "{report}");
        told(&folder, "zstd", &["-t", "packed.img.zst"]);
        told(&folder, "zstd", &["-d", "-f", "packed.img.zst"]);
        same(&folder.join("disk.img"), &folder.join("packed.img"));
        fs::remove_file(folder.join("packed.img")).unwrap();
        build(&folder, &format!("-F {words} source packed.img.gz"));
        told(&folder, "gzip", &["-t", "packed.img.gz"]);
        told(&folder, "gzip", &["-d", "-f", "packed.img.gz"]);
        same(&folder.join("disk.img"), &folder.join("packed.img"));
    }
}

#[test]
fn bmaptool_writes_a_disk_over_garbage_that_is_sound() {
    if !require("bmaptool") || !can_mount() {
        return;
    }
    let folder = Scratch::new("formats");
    source(&folder);
    for words in ["--free 60M -t ext4", "--free 60M -t ext4 -O ^metadata_csum,uninit_bg"] {
        build(&folder, &format!("-F {words} --bmap disk.bmap source disk.img.gz"));
        build(&folder, &format!("-F {words} source disk.img"));
        let bytes = fs::metadata(folder.join("disk.img")).unwrap().len();
        fs::write(folder.join("card"), vec![0xa5; bytes as usize]).unwrap();
        // A file would be emptied first; a card is a device.
        let device = told(&folder, "losetup", &["-f", "--show", "card"]);
        let copy = ["copy", "--bmap", "disk.bmap", "disk.img.gz", device.trim()];
        let copied = ended(&folder, "bmaptool", &copy);
        told(&folder, "losetup", &["-d", device.trim()]);
        let said = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success(), "{words}: {said}");
        // What is free keeps its garbage, and nothing else does.
        e2fsck(&folder.join("card")).unwrap_or_else(|error| panic!("{words}: {error} {said}"));
        let card = fs::read(folder.join("card")).unwrap();
        let garbage = card.iter().filter(|byte| **byte == 0xa5).count();
        assert!(garbage > 40 << 20, "{words}: {garbage} bytes were spared");
        let text = command(&folder, "cat card:/etc/motd").output().unwrap();
        assert_eq!(text.stdout, b"hello\n");
    }
}

#[test]
fn nothing_is_left_beside_the_image() {
    let folder = Scratch::new("formats");
    source(&folder);
    build(&folder, "--format qcow2 --verity=tree source disk.qcow2");
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["disk.qcow2", "source", "tree"]);
    assert!(fs::metadata(folder.join("disk.qcow2")).unwrap().blocks() > 0);
}
