//! What -p mends without asking and what it leaves to a person: kinds of damage, one at a time, on
//! volumes with several features, beside e2fsck.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::fmt::Write;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Volumes: options of mke2fs, and bytes of a block.
const VOLUMES: [(&[&str], u64); 6] = [
    (&["-t", "ext4", "-b", "1024", "-O", "metadata_csum"], 1024),
    (&["-t", "ext4", "-b", "1024", "-O", "^metadata_csum"], 1024),
    (&["-t", "ext3", "-b", "1024"], 1024),
    (&["-t", "ext4", "-b", "4096", "-O", "quota,project"], 4096),
    (&["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,bigalloc", "-C", "4096"], 1024),
    (&["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,inline_data", "-I", "256"], 1024),
];

/// One thing that is wrong.
enum Damage {
    /// What debugfs does.
    Debugfs(&'static [&'static str]),
    /// Bytes at a place in the first block of the directory with an index.
    Root(u64, &'static [u8]),
    /// Bytes at a place in the block of the directory without one, where it has one.
    Small(u64, &'static [u8]),
    /// Bytes at a place in the first block of this file, where it has one.
    Content(&'static str, u64, &'static [u8]),
    /// Bytes at a place in the inode of this name.
    Inode(&'static str, u64, &'static [u8]),
}
use Damage::{Content, Debugfs, Inode, Root, Small};

/// Where the low half of the checksum is in an inode.
const CHECKSUM: u64 = 124;

const DAMAGES: [(&str, Damage); 52] = [
    ("hash version", Root(28, &[9])),
    ("length of the root", Root(29, &[7])),
    ("levels", Root(30, &[5])),
    ("flags of the root", Root(31, &[1])),
    ("limit", Root(32, &[1, 0])),
    ("count", Root(34, &[0xff, 0])),
    ("no entries", Root(34, &[0, 0])),
    ("order", Root(40, &[0xf0, 0xff, 0xff, 0xff])),
    ("outside", Root(44, &[0xe7, 3, 0, 0])),
    ("twice", Root(44, &[1, 0, 0, 0])),
    ("no index", Debugfs(&["sif s flags 0x81000"])),
    ("size of an index, small", Debugfs(&["sif d size 13312"])),
    ("size of an index, within a block", Debugfs(&["sif d size 15000"])),
    ("size of an index, one block", Debugfs(&["sif d size 4096"])),
    ("size of an index, none", Debugfs(&["sif d size 0"])),
    ("size of an index, large", Debugfs(&["sif d size 40960"])),
    ("size of a directory, odd", Debugfs(&["sif s size 1000"])),
    ("size of a directory, none", Debugfs(&["sif s size 0"])),
    ("size of a directory, large", Debugfs(&["sif s size 8192"])),
    ("an entry for what is gone", Debugfs(&["clri /s/a"])),
    ("entries for what is gone", Debugfs(&["clri /s/a", "freei /s/b", "sif f links_count 7"])),
    ("a directory that is gone", Debugfs(&["clri /s"])),
    ("beside one, a name that cannot be", Debugfs(&["mknod /zn p", "clri /f"])),
    ("no links", Debugfs(&["sif f links_count 0"])),
    ("links", Debugfs(&["sif f links_count 4"])),
    ("a time of deletion", Debugfs(&["sif f dtime 12345"])),
    ("sectors", Debugfs(&["sif f blocks 800"])),
    ("extra fields", Debugfs(&["sif f extra_isize 999"])),
    ("no name", Debugfs(&["unlink f"])),
    ("no name, and nothing in it", Debugfs(&["write /dev/null g", "unlink g"])),
    ("no type", Debugfs(&["sif f mode 0"])),
    ("attributes elsewhere", Debugfs(&["sif f file_acl 9"])),
    ("free blocks", Debugfs(&["ssv free_blocks_count 7"])),
    ("free blocks of a group", Debugfs(&["set_bg 0 free_blocks_count 7"])),
    ("a type in an entry", Small(24 + 7, &[2])),
    ("an inode that cannot be", Small(24, &[0xff, 0xff, 0xff, 5])),
    ("the parent", Small(12, &[12, 0, 0, 0])),
    ("the checksum of a file", Inode("f", CHECKSUM, &[0x55])),
    ("the checksum of a directory", Inode("s", CHECKSUM, &[0x55])),
    ("the checksum of the root", Inode("<2>", CHECKSUM, &[0x55])),
    ("the checksum of a pipe", Inode("<15>", CHECKSUM, &[0x55])),
    ("the checksum of the bad blocks", Inode("<1>", CHECKSUM, &[0x55])),
    ("the checksum of a journal", Inode("<8>", CHECKSUM, &[0x55])),
    ("the checksum of inodes for tables", Inode("<7>", CHECKSUM, &[0x55])),
    ("a name's last byte", Small(24 + 8, b"z")),
    ("an index without a directory", Debugfs(&["sif f flags 0x81000"])),
    ("the next orphan of a list", Debugfs(&["sif f dtime 12"])),
    ("an orphan past the last inode", Debugfs(&["ssv last_orphan 4294967295"])),
    ("an orphan of the system", Debugfs(&["ssv last_orphan 3"])),
    ("the head of a quota file", Content("<3>", 0, &[1])),
    ("the tree of a quota file", Content("<4>", 1024, &[0xff, 0xff, 0xff, 0xff])),
    ("the number of a quota file", Debugfs(&["ssv prj_quota_inum 2"])),
];

/// What theirs leaves where the file is in its inode, and that loses nothing here.
const MENDED_ONLY_HERE: [&str; 1] = ["extra fields"];

/// A volume with a large directory, a small one, and a file.
fn volume(image: &Path, script: &Path, words: &[&str]) {
    let mut mke2fs = theirs("mke2fs");
    let (code, said) =
        run(mke2fs.args(["-q", "-F", "-N", "2000"]).args(words).arg(image).arg("16M"));
    assert_eq!(code, Some(0), "{said}");
    let content = script.with_extension("content");
    std::fs::write(&content, "hello\n").unwrap();
    let content = content.display();
    let mut lines = "mkdir d\ncd d\n".to_owned();
    (0..300).for_each(|at| writeln!(lines, "mknod file-with-a-long-name-{at:04} p").unwrap());
    lines.push_str("cd /\nmkdir s\ncd s\n");
    ["a", "b", "c"].iter().for_each(|name| writeln!(lines, "write {content} {name}").unwrap());
    writeln!(lines, "cd /\nwrite {content} f").unwrap();
    std::fs::write(script, lines).unwrap();
    run(Command::new("debugfs").arg("-w").arg("-f").arg(script).arg(image));
    run(theirs("e2fsck").arg("-fyD").arg(image));
    let (code, said) = run(theirs("e2fsck").arg("-fn").arg(image));
    assert_eq!(code, Some(0), "{said}");
}

/// The block of the volume that a directory begins with.
fn first_block(image: &Path, name: &str) -> Option<u64> {
    let (_, said) = run(Command::new("debugfs").args(["-R", &format!("bmap {name} 0")]).arg(image));
    said.lines().find_map(|line| line.trim().parse().ok()).filter(|block| *block > 0)
}

/// Where an inode is in the volume.
fn inode_place(image: &Path, name: &str, block_bytes: u64) -> u64 {
    let (_, said) = run(Command::new("debugfs").args(["-R", &format!("imap {name}")]).arg(image));
    let mut words = said.split_once("located at block ").expect("a place").1.split_whitespace();
    let block = words.next().and_then(|word| word.trim_end_matches(',').parse::<u64>().ok());
    let offset = words.nth(1).and_then(|word| u64::from_str_radix(&word[2..], 16).ok());
    block.expect("a block") * block_bytes + offset.expect("an offset")
}

fn damage(image: &Path, script: &Path, (damage, block_bytes): (&Damage, u64)) {
    let write = |name: &str, at: u64, bytes: &[u8]| {
        let Some(block) = first_block(image, name) else { return };
        let file = OpenOptions::new().write(true).open(image).unwrap();
        file.write_all_at(bytes, block * block_bytes + at).unwrap();
    };
    match damage {
        Debugfs(lines) => {
            std::fs::write(script, lines.join("\n") + "\n").unwrap();
            run(Command::new("debugfs").arg("-w").arg("-f").arg(script).arg(image));
        }
        Root(at, bytes) => write("d", *at, bytes),
        Content(name, at, bytes) => write(name, *at, bytes),
        Inode(name, at, bytes) => {
            let file = OpenOptions::new().write(true).open(image).unwrap();
            file.write_all_at(bytes, inode_place(image, name, block_bytes) + at).unwrap();
        }
        Small(at, bytes) => write("s", *at, bytes),
    }
}

#[test]
fn what_is_mended_without_asking_is_what_theirs_mends() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-preened");
    let (base, image) = (folder.join("base.img"), folder.join("image"));
    let (script, damaged) = (folder.join("script"), folder.join("damaged"));
    let (mut mended, mut wrong) = ([0, 0], String::new());
    let step = number("EXTANT_CASES") as usize;
    for (first, (words, block_bytes)) in VOLUMES.into_iter().enumerate() {
        volume(&base, &script, words);
        for (name, what) in DAMAGES.iter().skip(first % step).step_by(step) {
            std::fs::copy(&base, &damaged).unwrap();
            damage(&damaged, &script, (what, block_bytes));
            let judged = |mut e2fsck: Command| {
                std::fs::copy(&damaged, &image).unwrap();
                let (code, said) = run(e2fsck.arg("-fp").arg(&image));
                let after = run(theirs("e2fsck").arg("-fn").arg(&image)).0;
                // What is left to a person is as it was.
                let is_kept = std::fs::read(&image).unwrap() == std::fs::read(&damaged).unwrap();
                (code, after, is_kept, said)
            };
            let (theirs, ours) = (judged(theirs("e2fsck")), judged(extant("e2fsck")));
            mended[usize::from(ours.0 == Some(1))] += 1;
            let is_right = match ours.0 {
                Some(4) => theirs.0 == Some(4) && ours.2,
                Some(1) if MENDED_ONLY_HERE.contains(name) => ours.1 == Some(0),
                code => code == theirs.0 && ours.1 == Some(0),
            };
            if !is_right {
                writeln!(wrong, "{words:?}, {name}: {theirs:?}\n{ours:?}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(mended[0] * step > 40 && mended[1] * step > 80, "{mended:?}");
}

/// Flags of inodes of the system: the number, and the flags. A journal keeps its blocks.
const SYSTEM_FLAGS: [(u32, &str); 7] = [
    (1, "0x40000000"),
    (1, "0x10000000"),
    (7, "0x80000"),
    (7, "0x10000000"),
    (8, "0x80800"),
    (8, "0x10080000"),
    (11, "0x10081000"),
];

#[test]
fn inodes_of_the_system_lose_flags_that_they_cannot_have() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-system-flags");
    let (base, image) = (folder.join("base.img"), folder.join("image"));
    let script = folder.join("script");
    let step = number("EXTANT_CASES") as usize;
    for (words, _) in [VOLUMES[0], VOLUMES[4]].into_iter().step_by(step) {
        volume(&base, &script, words);
        for (ino, flags) in SYSTEM_FLAGS {
            std::fs::copy(&base, &image).unwrap();
            let change = format!("sif <{ino}> flags {flags}");
            run(Command::new("debugfs").args(["-w", "-R", &change]).arg(&image));
            let (code, said) = run(extant("e2fsck").arg("-fn").arg(&image));
            let (their_code, their_words) = run(theirs("e2fsck").arg("-fn").arg(&image));
            let what = format!("{words:?}, {change}: {said}\n{their_words}");
            assert!(code > Some(0) && their_code > Some(0), "{code:?} {their_code:?} {what}");
            let (code, said) = run(extant("e2fsck").arg("-fy").arg(&image));
            assert_eq!(code, Some(1), "{what}\n{said}");
            assert_eq!(run(theirs("e2fsck").arg("-fn").arg(&image)).0, Some(0), "{what}\n{said}");
            assert!(!said.contains("journal has been deleted"), "{what}\n{said}");
        }
    }
}
