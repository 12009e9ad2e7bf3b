//! `extant mkfs` beside mke2fs: the same words give the same sizes, inodes and features.
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{dumpe2fs, require};
use extant_testkit::scratch::Scratch;
use std::process::Command;

/// Words, and a size: a bare number is KiB without -b, whatever -T says of blocks.
const ROWS: &[(&str, &str)] = &[
    ("", "65536"),
    ("", "1000000"),
    ("-b 1024", "65536"),
    ("-b 4096", "65536"),
    ("-b 2048", "8192"),
    ("-T small", "65536"),
    ("-T small", "1000000"),
    ("-T floppy", "8192"),
    ("-T news", "65536"),
    ("-T largefile", "65536"),
    ("-T largefile", "1000000"),
    ("-T largefile -b 1024", "65536"),
    ("-T largefile -b 4096", "65536"),
    ("-T largefile4", "65536"),
    ("-T big", "65536"),
    ("-T huge", "65536"),
    ("-T default", "65536"),
    ("-T hurd", "65536"),
    ("-T small,news", "65536"),
    ("-T small,largefile4", "65536"),
    ("-T news -i 8192", "65536"),
    ("-T small -N 1000", "65536"),
    ("-T largefile -I 128", "65536"),
    ("-T largefile", "64M"),
    ("-T largefile", "131072s"),
    ("-t ext2", "65536"),
    ("-t ext2 -T largefile", "65536"),
    ("-t ext2 -T small", "65536"),
    ("-t ext2 -T news -m 1", "8192"),
    ("-t ext2 -j", "65536"),
    ("-t ext3", "65536"),
    ("-t ext3 -T largefile", "65536"),
    ("-t ext3 -T floppy", "8192"),
    ("-t ext4 -T largefile4 -J size=8", "100000"),
    ("-t ext4 -O ^has_journal -T huge", "3000000"),
];

/// What two volumes have to agree on.
const FIELDS: [&str; 8] = [
    "Block count",
    "Block size",
    "Inode count",
    "Inode size",
    "Reserved block count",
    "Inodes per group",
    "Blocks per group",
    "Reserved GDT blocks",
];

#[test]
fn the_same_words_give_the_same_volume() {
    if !require("mke2fs") || !require("mkfs.ext4") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("mkfs-words");
    let (theirs, ours) = (folder.join("theirs.img"), folder.join("ours.img"));
    let mut wrong = Vec::new();
    for (words, size) in ROWS {
        let [_, _] = [&theirs, &ours].map(|path| std::fs::remove_file(path).ok());
        let words: Vec<&str> = words.split_whitespace().collect();
        // Under this name mke2fs makes ext4 where neither type nor usage is asked for, as extant
        // does.
        let name = match words.contains(&"-T") {
            true => "mke2fs",
            false => "mkfs.ext4",
        };
        let mut mke2fs = program(name);
        mke2fs.args(["-q", "-F"]).args(&words).arg(&theirs).arg(size);
        output(&mut mke2fs).unwrap_or_else(|error| panic!("{words:?} {size}: {error}"));
        let mut extant =
            Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        extant.args(["mkfs", "-q"]).args(&words).arg(&ours).arg(size);
        output(&mut extant).unwrap_or_else(|error| panic!("{words:?} {size}: {error}"));
        let [theirs, ours] =
            [&theirs, &ours].map(|path| dumpe2fs(path).expect("dumpe2fs reads it"));
        for field in FIELDS {
            let (their, our) = (theirs.number(field), ours.number(field));
            if their != our {
                wrong.push(format!("{words:?} {size}: {field}: {their:?} and {our:?}"));
            }
        }
        let [mut their, mut our] = [theirs.features(), ours.features()];
        their.sort_unstable();
        our.sort_unstable();
        if their != our {
            wrong.push(format!("{words:?} {size}: {their:?} and {our:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
