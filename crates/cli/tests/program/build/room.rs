//! What free room holds: the kernel makes files in it until it is full, as many as the room
//! promises.
use crate::build::command::{Report, build, build_command, bytes, judge, rebuild, refusal};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, dumpe2fs, e2fsck, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::io;
use std::path::Path;

/// Makes files of this many bytes in a new directory of the image until the kernel says that there
/// is no space; how many.
fn filled(image: &Path, file_bytes: usize) -> u64 {
    let mounted = mount_loop(image, Access::ReadWrite, "").unwrap();
    let folder = mounted.path().join("new");
    fs::create_dir(&folder).unwrap();
    let contents = bytes(7, file_bytes);
    let mut made = 0;
    loop {
        match fs::write(folder.join(made.to_string()), &contents).map_err(|error| error.kind()) {
            Ok(()) => made += 1,
            Err(io::ErrorKind::StorageFull) => break,
            Err(kind) => panic!("{kind}"),
        }
    }
    mounted.unmount().unwrap();
    e2fsck(image).unwrap();
    made
}

/// A source of one file of this many bytes, and some small ones.
fn source(folder: &Scratch, file_bytes: usize) -> std::path::PathBuf {
    let source = folder.join(&format!("source-{file_bytes}"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), bytes(1, file_bytes)).unwrap();
    for number in 0..60 {
        fs::write(source.join(format!("small-{number}")), bytes(number, 100)).unwrap();
    }
    source
}

#[test]
fn free_room_holds_as_many_files_as_mke2fs_gives_it_inodes() {
    if !can_mount() || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("build-free-room");
    let image = folder.join("x.img");
    let large = source(&folder, 8 << 20);
    let small = source(&folder, 100_000);
    // Options, source, and how many bytes of free room there are for each inode.
    let cases = [
        ("--free 30%", &large, 4096),
        ("--free 20M", &small, 4096),
        ("--free 1M", &small, 8192),
        ("-t ext2 -b 1024 --free 20M", &small, 4096),
        ("-t ext3 -i 16384 --free 20M", &small, 16_384),
        ("-t ext4 -O ^has_journal --size 24M", &small, 4096),
    ];
    for (options, source, ratio) in cases {
        let report = rebuild(options, &[source], &image);
        judge(&image, &report);
        let block = u64::from(report.block_size);
        let promised = report.free_blocks * block / ratio;
        // Room that was rounded up to blocks, or is in a last group, may be a little more than
        // was asked for.
        assert!(
            u64::from(report.free_inodes) + 16 + promised / 50 >= promised,
            "{options}: {report:?}"
        );
        let empty = filled(&image, 0);
        assert_eq!(empty, u64::from(report.free_inodes) - 1, "{options}: {report:?}");

        let report = rebuild(options, &[source], &image);
        let files = filled(&image, 1000);
        // A name takes 8 bytes and its own; leaves of a directory may be half full. A mounted ext4
        // keeps a 50th of its blocks to itself (/sys/fs/ext4/DISK/reserved_clusters).
        let names = 2 + report.free_blocks.min(empty) * 40 / block;
        let least = (report.free_blocks - names - report.blocks / 50).min(empty);
        assert!((least..=empty).contains(&files), "{options}: {files} of {least}, {report:?}");
    }
}

#[test]
fn a_number_of_free_inodes_stands_in_place_of_those_of_the_room() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-free-inodes");
    let image = folder.join("x.img");
    let source = source(&folder, 300_000);
    // 61 files, the root, lost+found, and those that are kept.
    let used = 72;
    let at_least = |options: &str, free: u64| {
        let report = rebuild(options, &[&source], &image);
        judge(&image, &report);
        assert_eq!(u64::from(report.inodes - report.free_inodes), used, "{options}");
        // Tables are whole blocks in each group.
        let groups = dumpe2fs(&image).unwrap().groups.len() as u64;
        assert!(
            (free..free + 16 * groups).contains(&u64::from(report.free_inodes)),
            "{options}: {report:?}"
        );
    };
    at_least("", 0);
    at_least("--free 0", 0);
    at_least("--free-inodes 0", 0);
    at_least("--free 20M --free-inodes 50", 50);
    at_least("--free 20M --inodes 50", 50);
    at_least("--free 20M --free-inodes 0", 0);
    at_least("--free-inodes 50%", used);
    at_least("--size 24M --free-inodes 50", 50);
    at_least("--free 20M -N 300", 300 - used);
    at_least("--free 20M -N 300 --free-inodes 400", 400);
    at_least("--size 24M -N 300", 300 - used);
    at_least("--free 20M -i 65536", 20 << 4);
    at_least("--free 20M -N 300 -i 4096", 300 - used);
    at_least("-i 65536", 0);
    at_least("--free 40% --free-inodes 20%", used / 4);
}

/// Tables of the inodes of nearly empty images would fill them: there are fewer inodes, and the
/// room is as asked.
#[test]
fn a_large_share_of_room_leaves_place_for_the_content() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-large-share");
    let image = folder.join("x.img");
    let source = source(&folder, 300_000);
    for (share, most) in [(90.0, 9 << 20), (97.0, 30 << 20), (99.5, 200 << 20)] {
        let options = format!("-t ext4 -O ^has_journal,^resize_inode --free {share}%");
        let report = rebuild(&options, &[&source], &image);
        judge(&image, &report);
        let free = report.free_blocks as f64 * 100.0 / report.blocks as f64;
        assert!(free >= share && report.bytes < most, "{share}: {report:?}");
        assert!(report.free_inodes > 100, "{share}: {report:?}");
    }
}

/// Builds with this room of 2^20 bytes each; the free blocks are those asked for, or more where a
/// last group is there that consists of metadata and without which there would be fewer.
fn room_is_exact(options: &str, mebibytes: u64, source: &Path, image: &Path) {
    let options = format!("{options} --free {mebibytes}M");
    let report = rebuild(&options, &[source], image);
    judge(image, &report);
    let dump = dumpe2fs(image).unwrap();
    let number = |field: &str| dump.number(field).unwrap();
    let asked = (mebibytes << 20) / number("Block size");
    let free = number("Free blocks");
    assert!(free >= asked, "{options}: {free} of {asked}, {report:?}");
    let earlier_groups = (dump.groups.len() as u64 - 1) * number("Blocks per group");
    let last_group = number("Block count") - number("First block") - earlier_groups;
    let least = dump.groups.len() > 1 && dump.groups.last().unwrap().free_blocks <= 1;
    let excess = free - asked;
    assert!(
        excess == 0 || least && excess < last_group,
        "{options}: {free} of {asked}, last group of {last_group}, {report:?}"
    );
}

/// Volumes below 512 MiB have more inodes for each byte, and smaller journals: near that size, and
/// near the ends of groups, what the room needs changes with the size that it leads to.
#[test]
fn room_is_as_asked_on_either_side_of_every_step() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-room-steps");
    let image = folder.join("x.img");
    let empty = folder.join("empty");
    fs::create_dir(&empty).unwrap();
    let full = source(&folder, 3 << 20);
    let cases: [(&str, &[u64]); 7] = [
        ("-t ext4 -b 4096", &[100, 238, 440, 460, 470, 485, 500, 511, 512, 600, 620, 1024, 3850]),
        ("-t ext4 -b 4096 -O ^has_journal", &[470, 490, 500, 600]),
        ("-t ext4 -b 4096 -O ^flex_bg", &[480, 600, 2048]),
        ("-t ext4 -b 1024", &[100, 500, 560]),
        ("-t ext4 -b 4096 -i 4096", &[470, 600]),
        ("-t ext3 -b 4096", &[240, 500, 600, 2048]),
        ("-t ext2 -b 4096", &[238, 500, 600, 2048, 4096]),
    ];
    for (options, sizes) in cases {
        for mebibytes in sizes {
            room_is_exact(options, *mebibytes, &empty, &image);
            room_is_exact(options, *mebibytes, &full, &image);
        }
    }
}

#[test]
fn a_fixed_size_has_the_inodes_that_mke2fs_gives_it() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-size-inodes");
    let (image, theirs) = (folder.join("x.img"), folder.join("theirs.img"));
    let source = source(&folder, 300_000);
    for (options, size) in [
        ("-t ext4 -b 4096", "2M"),
        ("-t ext4 -b 4096", "64M"),
        ("-t ext2 -b 1024", "64M"),
        ("-t ext4 -b 4096", "600M"),
        ("-t ext4 -b 4096 -i 65536", "64M"),
        ("-t ext4 -b 4096 -N 777", "64M"),
        ("-t ext4 -b 4096 -T news", "64M"),
    ] {
        let report = rebuild(&format!("{options} --size {size}"), &[&source], &image);
        judge(&image, &report);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(options.split(' ')).arg("-d").arg(&source);
        output(mke2fs.arg(&theirs).arg(size)).unwrap();
        let count = dumpe2fs(&theirs).unwrap().number("Inode count");
        assert_eq!(Some(u64::from(report.inodes)), count, "{options} {size}");
        fs::remove_file(&theirs).unwrap();
    }
    // Where the content alone has more files than mke2fs has inodes, the room that is left brings
    // more.
    let crowd = folder.join("crowd");
    fs::create_dir(&crowd).unwrap();
    for number in 0..3000 {
        fs::write(crowd.join(number.to_string()), "").unwrap();
    }
    let report = rebuild("--size 8M", &[&crowd], &image);
    judge(&image, &report);
    let promised = report.free_blocks;
    assert!(u64::from(report.free_inodes) + 64 >= promised, "{report:?}");
}

#[test]
fn bare_numbers_mean_what_mke2fs_means_or_nothing() {
    let folder = Scratch::new("build-bare");
    let image = folder.join("x.img");
    let source = source(&folder, 300_000);
    for (options, bytes) in [
        ("--size 9216", 9 << 20),
        ("-b 1024 --size 9216", 9 << 20),
        ("-b 4096 --size 2304", 9 << 20),
        ("-T largefile --size 9216", 9 << 20),
        ("--size 9M", 9 << 20),
        ("--size 18432s", 9 << 20),
    ] {
        assert_eq!(rebuild(options, &[&source], &image).bytes, bytes, "{options}");
    }
    fs::remove_file(&image).unwrap();
    for (options, words) in [
        ("--free 20", ["--free", "20M", "20%"]),
        ("--free 1.5", ["--free", "1.5M", "1.5%"]),
        ("--free lots", ["--free", "512M", "20%"]),
        ("--free-inodes 1k", ["--free-inodes", "1000", "20%"]),
        ("--size lots", ["--size", "512M", "2G"]),
    ] {
        let refused = refusal(&mut build_command(options, &[&source], &image));
        assert_eq!(refused.code, Some(2), "{options}");
        assert!(words.iter().all(|word| refused.message.contains(word)), "{options}: {refused:?}");
        assert!(!image.exists(), "{options}");
    }
    let refused = refusal(&mut build_command("--free 95% -i 1024", &[&source], &image));
    assert!(refused.code == Some(2) && refused.message.contains("25%"), "{refused:?}");
    let report: Report = build("--free 20%", &[&source], &image);
    assert!(report.free_blocks * 5 >= report.blocks);
}
