//! A volume in a partition is changed, and every byte of the disk around it stays.
use crate::edit::bench::{Bench, extant, has_tools, said};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{e2fsck_but_advice, require};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 40 * MIB;
/// Where the partition begins; it has 16 MiB, the volume 12.
const START: u64 = 8 * MIB;
const VOLUME: std::ops::Range<u64> = START..START + 12 * MIB;

/// `@` is the volume; TREE is a tree of the host.
const LIFE: &[&str] = &[
    "mkdir @:/a",
    "cp -a TREE @:/tree",
    "write @:/a/file",
    "truncate -s 100000 @:/a/file",
    "mv @:/a/file @:/moved",
    "ln -s moved @:/link",
    "chmod 600 @:/moved",
    "touch @:/touched",
    "setfattr -n user.word -v value @:/moved",
    "rm -r @:/tree",
    "cp -a TREE @:/again",
    "edit @ SCRIPT",
    "replay @",
];

/// A disk that is full of noise, but for a GPT and the volume in its second partition.
fn disk(bench: &Bench, volume: &Path) -> PathBuf {
    let path = bench.join("disk.img");
    let mut random = fs::File::open("/dev/urandom").unwrap();
    let mut noise = vec![0; DISK_BYTES as usize];
    std::io::Read::read_exact(&mut random, &mut noise).unwrap();
    // What was a table or its copy is not one any more.
    noise[..34 * 512].fill(0);
    noise[(DISK_BYTES - 34 * 512) as usize..].fill(0);
    fs::write(&path, noise).unwrap();
    let words = ["-n", "1:2048:+4M", "-n", "2:16384:+16M", "-c", "2:root", "-n", "3:53248:+4M"];
    output(program("sgdisk").args(words).arg(&path)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&fs::read(volume).unwrap(), START).unwrap();
    path
}

/// A transaction that was not yet replayed, with a copy for a block that nothing uses.
fn leave_transaction(bench: &Bench, volume: &Path) {
    let script = bench.join("requests");
    fs::write(&script, "jo\njw -b 12000 /dev/zero\njc\n").unwrap();
    output(program("debugfs").arg("-w").arg("-f").arg(&script).arg(volume)).unwrap();
}

#[test]
fn what_is_around_a_partition_stays() {
    if !has_tools() || !require("sgdisk") || !require("debugfs") {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree().display().to_string();
    let script = bench.join("script").display().to_string();
    fs::write(&script, "mkdir /by-script\nrm -r /again\n").unwrap();
    for (name, words, has_transaction) in [
        ("ext4.img", &["-t", "ext4", "-b", "1024"][..], false),
        ("logged.img", &["-t", "ext4", "-b", "1024"][..], true),
        // Without a journal of its own a change goes through a log beside the disk.
        ("ext2.img", &["-t", "ext2", "-b", "1024"][..], false),
    ] {
        let volume = PathBuf::from(bench.image(name, words));
        if has_transaction {
            leave_transaction(&bench, &volume);
        }
        let path = disk(&bench, &volume);
        let before = fs::read(&path).unwrap();
        // However the partition is named, the same bytes are the volume.
        let places = if has_transaction { &["@2", "@root", "@@8M"][..] } else { &["@2"] };
        for place in places {
            let shown = format!("{}{place}", path.display());
            if *place != "@2" {
                fs::write(&path, &before).unwrap();
            }
            for line in LIFE {
                let words: Vec<String> = line
                    .split(' ')
                    .map(|word| word.replace('@', &shown).replace("TREE", &tree))
                    .map(|word| word.replace("SCRIPT", &script))
                    .collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let told = extant(&words);
                assert_eq!(told.code, 0, "{name}, {words:?}: {told:?}");
                let after = fs::read(&path).unwrap();
                assert_eq!(after.len(), before.len(), "{name}, {words:?}");
                let around = [0..VOLUME.start as usize, VOLUME.end as usize..before.len()];
                let is_kept = around.into_iter().all(|part| before[part.clone()] == after[part]);
                assert!(is_kept, "{name}, {words:?}: what is around the volume changed");
            }
            let at = format!("{}?offset={START}", path.display());
            e2fsck_but_advice(Path::new(&at)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = said(&mut crate::edit::bench::command(&["ls", &format!("{shown}:/")]));
            assert!(found.out.contains("by-script") && !found.out.contains("again"), "{found:?}");
        }
    }
}
