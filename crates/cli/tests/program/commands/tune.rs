//! `extant tune` from outside: what it makes is judged by e2fsck and the kernel. What tune2fs makes
//! of the same words is beside it in `names::tuned`.
use crate::commands::command::command;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, Access};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};

/// A volume made by mke2fs, with one directory of many blocks; `None` without it.
fn image(folder: &Scratch, words: &[&str]) -> Option<PathBuf> {
    if !["mke2fs", "e2fsck", "dumpe2fs", "debugfs"].into_iter().all(oracle::require) {
        return None;
    }
    let source = folder.join("source");
    fs::create_dir_all(source.join("many")).unwrap();
    for number in 0..400 {
        fs::write(source.join(format!("many/{}-{number}", "n".repeat(number % 90))), "x").unwrap();
    }
    let image = folder.join("disk.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024"]).args(words).arg("-d").arg(&source);
    output(mke2fs.arg(&image).arg("24M")).expect("mke2fs makes it");
    Some(image)
}

/// Runs it; the exit code, and what it says.
fn tuned(words: &[&str], image: &Path) -> (Option<i32>, String) {
    let output = command(["tune"]).args(words).arg(image).output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn features(image: &Path) -> Vec<String> {
    let dump = oracle::dumpe2fs(image).unwrap();
    dump.features().into_iter().map(str::to_owned).collect()
}

#[test]
fn checksums_come_and_go_with_directories_that_have_no_room_for_them() {
    let folder = Scratch::new("tune-sums");
    let Some(image) = image(&folder, &["-t", "ext4", "-O", "^metadata_csum"]) else { return };
    // An index that is full to the brim, as repair makes it of so many names.
    let indexed = program("e2fsck").args(["-fyD"]).arg(&image).output().unwrap();
    assert!(indexed.status.code().is_some_and(|code| code < 2));
    for (words, has) in [
        (&["-O", "metadata_csum"][..], true),
        (&["-U", "random"], true),
        (&["-O", "^metadata_csum,^uninit_bg"], false),
        (&["-O", "metadata_csum,metadata_csum_seed", "-U", "time"], true),
        (&["-O", "^dir_index"], true),
        (&["-O", "^filetype"], true),
        (&["-O", "filetype,dir_index"], true),
    ] {
        let (code, said) = tuned(words, &image);
        assert_eq!(code, Some(0), "{words:?}: {said}");
        assert_eq!(features(&image).contains(&"metadata_csum".to_owned()), has, "{words:?}");
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        if oracle::can_mount() {
            let mounted = oracle::mount_loop(&image, Access::ReadOnly, "").expect("it mounts");
            let many = mounted.path().join("many");
            assert_eq!(fs::read_dir(&many).unwrap().count(), 400, "{words:?}");
            let name = format!("{}-377", "n".repeat(377 % 90));
            assert_eq!(fs::read(many.join(name)).unwrap(), b"x", "{words:?}");
        }
    }
}

#[test]
fn a_label_takes_no_check_and_a_dry_run_writes_nothing() {
    let folder = Scratch::new("tune-label");
    let Some(image) = image(&folder, &["-t", "ext4"]) else { return };
    let before = fs::read(&image).unwrap();
    let (code, said) = tuned(&["-n", "-L", "root", "-O", "^has_journal"], &image);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("would change: label root\n"), "{said}");
    assert!(fs::read(&image).unwrap() == before, "nothing is written");
    // A bitmap that is wrong is no matter of the label, but of everything else.
    debugfs(&image, "freeb 5000 1");
    debugfs(&image, "set_bg 0 free_blocks_count 1");
    let (code, said) = tuned(&["-L", "root"], &image);
    assert_eq!(code, Some(0), "{said}");
    let before = fs::read(&image).unwrap();
    let (code, said) = tuned(&["-O", "^has_journal"], &image);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it is not clean") && said.contains("extant repair"), "{said}");
    assert!(fs::read(&image).unwrap() == before, "what is refused is as it was");
    let (code, said) = tuned(&[], &image);
    assert_eq!(code, Some(2), "{said}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

fn debugfs(image: &Path, request: &str) {
    output(program("debugfs").args(["-w", "-R", request]).arg(image)).expect("debugfs");
}

/// The copies of the superblock say the same: e2fsck that begins with one finds nothing else.
#[test]
fn copies_have_the_label_and_the_features_too() {
    let folder = Scratch::new("tune-copies");
    let Some(image) = image(&folder, &["-t", "ext4"]) else { return };
    for words in [
        &["-L", "root", "-U", "01234567-89ab-cdef-0123-456789abcdef", "-u", "7", "-e", "panic"][..],
        &["-O", "^metadata_csum", "-L", "other", "-U", "random", "-r", "77", "-o", "debug"],
        &["-U", "time", "-r", "78", "-c", "5", "-i", "3d", "-E", "stride=4,stripe_width=8"],
        // From here on the superblock is all that changes.
        &["-O", "^uninit_bg", "-o", "journal_data"],
        &["-U", "random", "-o", "journal_data_ordered", "-g", "12"],
    ] {
        let (code, said) = tuned(words, &image);
        assert_eq!(code, Some(0), "{said}");
        let dumped = |place: &str| {
            let mut dumpe2fs = program("dumpe2fs");
            dumpe2fs.args(["-h", "-o", place, "-o", "blocksize=1024"]).arg(&image);
            let text = String::from_utf8(output(&mut dumpe2fs).unwrap().stdout).unwrap();
            // What a mount or a write changes of the first one alone.
            let own =
                ["Last ", "Lifetime", "Checksum:", "Mount count", "Free ", "Filesystem state"];
            let is_told = |line: &&str| !own.iter().any(|own| line.starts_with(own));
            text.lines().filter(is_told).map(str::to_owned).collect::<Vec<_>>()
        };
        let first = dumped("superblock=1");
        assert!(first.len() > 25, "{first:?}");
        assert_eq!(first, dumped("superblock=8193"), "{words:?}");
        let uuid = first.iter().find_map(|line| line.strip_prefix("Filesystem UUID:"));
        let version = uuid.and_then(|uuid| uuid.trim().chars().nth(14));
        for (word, expected) in [("random", '4'), ("time", '1')] {
            assert!(!words.contains(&word) || version == Some(expected), "{words:?}: {uuid:?}");
        }
        if words.contains(&"journal_data_ordered") {
            let options = first.iter().find(|line| line.starts_with("Default mount options"));
            let is_one = options.is_some_and(|it| it.contains(" journal_data_ordered "));
            assert!(is_one, "{options:?}");
        }
    }
}

/// A copy that another volume left is none of this one.
#[test]
fn a_copy_of_another_volume_stays() {
    let folder = Scratch::new("tune-foreign");
    let Some(image) = image(&folder, &["-t", "ext2"]) else { return };
    let mut bytes = fs::read(&image).unwrap();
    let copy = 8193 * 1024..8194 * 1024;
    bytes[copy.start + 0x68..][..16].fill(7);
    fs::write(&image, &bytes).unwrap();
    let (code, said) = tuned(&["-L", "root"], &image);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read(&image).unwrap()[copy.clone()] == bytes[copy], "the copy was written over");
}

/// A journal that waits is replayed before, or the volume is refused.
#[test]
fn what_waits_is_brought_to_an_end_before() {
    let folder = Scratch::new("tune-waits");
    let Some(image) = image(&folder, &["-t", "ext4"]) else { return };
    debugfs(&image, "feature needs_recovery");
    let before = fs::read(&image).unwrap();
    for words in [&["--no-heal", "-L", "x"][..], &["--no-heal", "-O", "^has_journal"]] {
        let (code, said) = tuned(words, &image);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(fs::read(&image).unwrap() == before, "{words:?}");
    }
    // What is refused does not replay it either.
    let (code, said) = tuned(&["-O", "inline_data"], &image);
    assert_eq!(code, Some(1), "{said}");
    assert!(fs::read(&image).unwrap() == before);
    let (code, said) = tuned(&["-O", "^has_journal", "-L", "x"], &image);
    assert_eq!(code, Some(0), "{said}");
    assert!(!features(&image).contains(&"needs_recovery".to_owned()));
    oracle::e2fsck(&image).expect("it is clean");
}

/// A journal that replaces one is empty, and holds what the kernel writes.
#[test]
fn a_journal_of_another_size_is_used_by_the_kernel() {
    let folder = Scratch::new("tune-journal");
    let Some(image) = image(&folder, &["-t", "ext4"]) else { return };
    for words in [&["-J", "size=4"][..], &["-J", "size=1,location=12000"], &["-O", "^has_journal"]]
    {
        let (code, said) = tuned(words, &image);
        assert_eq!(code, Some(0), "{words:?}: {said}");
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let bytes = fs::read(&image).unwrap();
        let has_backup = bytes[1024 + 0x10c..][..68].iter().any(|byte| *byte != 0);
        assert_eq!(has_backup, words[0] == "-J", "{words:?}: the copy of its map");
        if oracle::can_mount() {
            let mounted = oracle::mount_loop(&image, Access::ReadWrite, "").expect("it mounts");
            fs::write(mounted.path().join("written"), "by the kernel").unwrap();
            mounted.unmount().unwrap();
            oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }
}

/// Where free blocks have anything, what is made of them has not: a log could be found there. Nor
/// may anybody but root read a file of the volume itself.
#[test]
fn what_is_made_is_zeros_and_only_of_root() {
    let folder = Scratch::new("tune-made");
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(oracle::require) {
        return;
    }
    let image = folder.join("disk.img");
    fs::write(&image, vec![0xa5; 12 << 20]).unwrap();
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal"]);
    output(mke2fs.args(["-E", "nodiscard"]).arg(&image)).expect("mke2fs makes it");
    let words = ["-O", "has_journal,orphan_file,mmp", "-J", "size=2", "-Q", "usrquota,grpquota"];
    let (code, said) = tuned(&words, &image);
    assert_eq!(code, Some(0), "{said}");
    oracle::e2fsck(&image).expect("it is clean");
    for (inode, flags) in [(3, "0x80010"), (4, "0x80010"), (8, "0x80000"), (12, "0x80000")] {
        let said = oracle::debugfs(&image, &format!("stat <{inode}>")).expect("debugfs");
        for word in ["Type: regular", "Mode:  0600", "Links: 1", &format!("Flags: {flags}")] {
            assert!(said.contains(word), "inode {inode}, {word}: {said}");
        }
        assert!(said.contains("User:     0   Group:     0"), "inode {inode}: {said}");
        assert!(!said.contains("1970"), "inode {inode} has no time: {said}");
    }
    let dump = folder.join("journal");
    oracle::debugfs(&image, &format!("dump <8> {}", dump.display())).expect("debugfs");
    let journal = fs::read(&dump).unwrap();
    assert_eq!(journal.len(), 2 << 20);
    assert!(journal[1024..].iter().all(|byte| *byte == 0), "what was there before");
    let bytes = fs::read(&image).unwrap();
    // The map and size of the journal in the superblock, for those who lose its inode.
    let words = |at: usize| {
        bytes[at..at + 68].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()))
    };
    let backup: Vec<u32> = words(1024 + 0x10c).collect();
    let blocks = oracle::debugfs(&image, "blocks <8>").expect("debugfs");
    let first: u32 = blocks.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!((backup[0] & 0xffff, backup[5]), (0xf30a, first), "{backup:x?}");
    assert_eq!(backup[15..], [0, 2 << 20], "{backup:x?}");
    assert!(bytes[9 << 20..].contains(&0xa5), "what is free stays as it is");
}

/// What is refused says why in one line, what helps in another, and is as it was.
#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let folder = Scratch::new("tune-words");
    let Some(image) = image(&folder, &["-t", "ext4"]) else { return };
    let before = fs::read(&image).unwrap();
    let huge = "9223372036854775808";
    for (letter, values, code) in [
        ("-L", &["a label that is too long"][..], 2),
        ("-U", &["", "0", huge], 2),
        ("-O", &["", "0", huge], 2),
        ("-J", &["0", "size=", "size=9223372036854775808"], 2),
        ("-J", &["size=0", "location=9223372036854775808"], 1),
        ("-Q", &["", "0"], 2),
        ("-m", &["", huge, "nan", "inf", "51"], 2),
        ("-r", &["", "18446744073709551616"], 2),
        ("-r", &[huge], 1),
        ("-u", &["", huge], 2),
        ("-c", &["", huge], 2),
        ("-C", &["", huge], 2),
        ("-i", &["", huge], 2),
        ("-T", &["", "x"], 2),
        ("-e", &["", "0"], 2),
        ("-E", &["", "stride=9223372036854775808", "hash_alg="], 2),
        ("-E", &["orphan_file_size=9223372036854775808"], 1),
        ("-I", &["", "0", huge], 2),
        ("-I", &["1", "2048"], 1),
    ] {
        for value in values {
            let (ended, said) = tuned(&[letter, value], &image);
            assert_eq!(ended, Some(code), "{letter} {value}: {said}");
            let lines: Vec<&str> = said.lines().collect();
            let is_one = lines.len() == 2 && lines[1].starts_with("  hint: ");
            assert!(is_one, "{letter} {value}: {said}");
            assert!(fs::read(&image).unwrap() == before, "{letter} {value}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Words for mke2fs, a size for inodes, and whether there is room for them.
const SIZES: [(&str, &str, bool); 9] = [
    ("-t ext3 -I 128 -g 2048 -N 3000", "256", true),
    ("-t ext4 -I 128 -O ^flex_bg -g 2048 -N 3000 -E stride=8,stripe_width=16", "512", true),
    ("-t ext4 -I 128 -N 4000", "256", true),
    ("-t ext4 -I 128 -O bigalloc,^flex_bg -C 4096 -N 3000", "256", true),
    ("-t ext2 -r 0 -I 128 -O ^resize_inode -g 2048 -N 3000", "256", true),
    ("-t ext4 -I 256 -O inline_data,ea_inode,orphan_file,mmp -N 2000", "512", true),
    ("-t ext4 -I 128 -O meta_bg,^resize_inode,^flex_bg -g 1024 -N 2000", "256", true),
    ("-t ext4 -I 128 -O ^metadata_csum,uninit_bg,^flex_bg -g 4096 -N 3000", "1024", true),
    ("-t ext3 -I 128 -g 2048 -N 16000", "1024", false),
];

/// Inodes get another size on volumes on which most blocks after each table are files', and none
/// that is free is zeros.
#[test]
fn larger_inodes_keep_what_they_had_and_get_times_beyond_2038() {
    if !["mke2fs", "e2fsck", "dumpe2fs", "debugfs"].into_iter().all(oracle::require) {
        return;
    }
    let folder = Scratch::new("tune-inodes");
    let source = folder.join("source");
    fs::create_dir_all(source.join("many")).unwrap();
    for number in 0..240_usize {
        let bytes = vec![number as u8 + 1; number % 13 * 9000 + 5];
        fs::write(source.join(format!("many/{number}")), bytes).unwrap();
        let target = "t".repeat(number % 90 + 1);
        std::os::unix::fs::symlink(target, source.join(format!("link-{number}"))).unwrap();
    }
    let image = folder.join("disk.img");
    for (words, size, has_room) in SIZES {
        fs::write(&image, vec![0xa5; 24 << 20]).unwrap();
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "1024", "-E", "nodiscard"]).args(words.split(' '));
        output(mke2fs.arg("-d").arg(&source).arg(&image)).expect("mke2fs makes it");
        let removed = (0..240).step_by(3).map(|number| format!("rm many/{number}\n"));
        let requests = folder.join("requests");
        fs::write(&requests, removed.collect::<String>()).unwrap();
        output(program("debugfs").arg("-w").arg("-f").arg(&requests).arg(&image)).unwrap();
        let repaired = program("e2fsck").args(["-fy"]).arg(&image).output().unwrap();
        assert!(repaired.status.code().is_some_and(|code| code < 2), "{words}");
        let before = fs::read(&image).unwrap();
        let (code, said) = tuned(&["-I", size], &image);
        if !has_room {
            assert_eq!(code, Some(1), "{words}: {said}");
            assert!(said.contains("there is no room for them"), "{said}");
            assert!(fs::read(&image).unwrap() == before, "{words}: it was refused");
            continue;
        }
        assert_eq!(code, Some(0), "{words}: {said}");
        assert!(said.contains(&format!("inode size {size}, before ")), "{said}");
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words}: {error}"));
        let inode = output(program("debugfs").args(["-R", "stat many/1"]).arg(&image)).unwrap();
        let inode = String::from_utf8(inode.stdout).unwrap();
        assert!(inode.contains("Size of extra inode fields: 32"), "{words}: {inode}");
        keeps_its_files(&image, &source, words);
    }
    let before = fs::read(&image).unwrap();
    for (words, why) in [
        (&["-I", "64"][..], "Shrinking inode size is not supported"),
        (&["-I", "2048"], "Invalid inode size 2048 (max 1024)"),
        (&["-I", "256", "-O", "^has_journal"], "needs a line of its own"),
    ] {
        let (code, said) = tuned(words, &image);
        assert!(code == Some(1) && said.contains(why), "{words:?}: {said}");
        assert!(fs::read(&image).unwrap() == before, "{words:?}");
    }
}

/// The kernel finds all files of `source` but those that were removed, and keeps new times.
fn keeps_its_files(image: &Path, source: &Path, words: &str) {
    if !oracle::can_mount() {
        return;
    }
    // Such files are not written by the kernel here.
    let is_read = words.contains("inline_data");
    let access = if is_read { Access::ReadOnly } else { Access::ReadWrite };
    let mounted = oracle::mount_loop(image, access, "").expect("it mounts");
    for number in 0..240 {
        let name = format!("many/{number}");
        let found = fs::read(mounted.path().join(&name)).ok();
        let expected = fs::read(source.join(&name)).ok().filter(|_| number % 3 != 0);
        assert!(found == expected, "{words}: {name}");
        let name = format!("link-{number}");
        let target = |root: &Path| fs::read_link(root.join(&name)).unwrap();
        assert_eq!(target(mounted.path()), target(source), "{words}: {name}");
    }
    if is_read {
        return mounted.unmount().unwrap();
    }
    let (old, new) = (mounted.path().join("many/1"), mounted.path().join("new"));
    fs::write(&new, "new").unwrap();
    assert!(fs::metadata(&new).unwrap().created().is_ok(), "{words}: it has no time of creation");
    let late = std::time::UNIX_EPOCH + std::time::Duration::from_secs(5_000_000_000);
    fs::File::options().write(true).open(&old).unwrap().set_modified(late).unwrap();
    mounted.unmount().unwrap();
    oracle::e2fsck(image).unwrap_or_else(|error| panic!("{words}: {error}"));
    let mounted = oracle::mount_loop(image, Access::ReadOnly, "").expect("it mounts");
    let kept = fs::metadata(mounted.path().join("many/1")).unwrap().modified().unwrap();
    assert_eq!(kept, late, "{words}");
    mounted.unmount().unwrap();
}
