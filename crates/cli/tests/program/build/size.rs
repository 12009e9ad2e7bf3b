//! As large as its content, to the block; and what --size, --free, --free-inodes and -E offset say.
use crate::build::command::{
    Report, build, build_command, bytes, everything, extant, judge, rebuild, refusal,
    same_when_mounted,
};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{dumpe2fs, e2fsck, kernel_mounts_block_size, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A source of one file of this many blocks.
fn source_of(folder: &Scratch, blocks: u64, block_size: u64) -> std::path::PathBuf {
    let source = folder.join("source");
    let _ = fs::create_dir(&source);
    fs::write(source.join("file"), bytes(blocks, (blocks * block_size) as usize)).unwrap();
    source
}

/// No block is free; or the volume ends with the metadata of its last group, which nothing but its
/// own content needs, and which cannot be shorter.
fn assert_exact(image: &Path, report: &Report, words: &str) {
    assert_eq!(fs::metadata(image).unwrap().len(), report.bytes, "{words}");
    assert_eq!(report.bytes, report.blocks * u64::from(report.block_size));
    if report.free_blocks == 0 {
        return;
    }
    let dump = dumpe2fs(image).unwrap();
    let last = dump.groups.last().unwrap();
    assert!(dump.groups.len() > 1, "{words}: {report:?}");
    let end_of_metadata = last.inode_table.1.max(last.block_bitmap).max(last.inode_bitmap) + 1;
    let own = end_of_metadata.saturating_sub(last.blocks.0);
    assert_eq!(report.blocks, end_of_metadata, "{words}: {report:?}");
    assert!(report.free_blocks < own, "{words}: {report:?} could do without its last group");
}

fn sweep(words: &str, block_size: u64, sizes: impl IntoIterator<Item = u64>) {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-sweep");
    let image = folder.join("x.img");
    let step = number("EXTANT_CASES").div_ceil(2) as usize;
    for (count, blocks) in sizes.into_iter().enumerate().step_by(step) {
        let source = source_of(&folder, blocks, block_size);
        let report = rebuild(words, &[&source], &image);
        e2fsck(&image).unwrap_or_else(|error| panic!("{words}, {blocks} blocks: {error}"));
        assert_exact(&image, &report, &format!("{words}, {blocks} blocks"));
        if count % 8 == 0 && kernel_mounts_block_size(block_size as u32) {
            same_when_mounted(&image, &source, &everything());
        }
    }
}

/// A volume of this size gets a journal, which does not fit; a smaller one gets none, and would.
#[test]
fn a_size_at_which_a_journal_begins_is_refused_and_not_made_smaller() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-journal-size");
    let image = folder.join("x.img");
    let source = source_of(&folder, 1200, 4096);
    for (size, blocks) in [("8191K", 2047), ("9M", 2304), ("12M", 3072)] {
        let report = rebuild(&format!("--size {size}"), &[&source], &image);
        assert_eq!(report.blocks, blocks, "{size}");
        judge(&image, &report);
    }
    let _ = fs::remove_file(&image);
    for size in ["8M", "8200K"] {
        let refused = refusal(&mut build_command(&format!("--size {size}"), &[&source], &image));
        assert!(refused.message.contains("bytes more than"), "{size}: {refused:?}");
        assert!(!image.exists(), "{size}");
        // What is said to suffice does.
        let hint = refused.hint.expect("a hint");
        let word = hint.split_whitespace().skip_while(|word| *word != "--size").nth(1).unwrap();
        let report = rebuild(&format!("--size {word}"), &[&source], &image);
        assert!(report.has_journal, "{word}");
        judge(&image, &report);
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn small_content_leaves_nothing_free() {
    sweep("-t ext4", 4096, (0..40).chain((40..200).step_by(7)));
    sweep("-t ext2", 4096, (0..40).chain((40..200).step_by(7)));
    sweep("-t ext4 -b 1024", 1024, (0..40).chain((40..200).step_by(7)));
    sweep("-t ext4 -G 16", 4096, (0..40).step_by(3));
    sweep("-t ext4 -b 65536", 65536, 0..5);
}

/// The content grows over the end of a group: a new one comes with its own metadata.
#[test]
fn groups_end_where_the_content_does() {
    let small = "-b 1024 -g 256 -O ^resize_inode";
    sweep(&format!("-t ext2 {small}"), 1024, 225..245);
    sweep(&format!("-t ext2 {small}"), 1024, 470..500);
    sweep(&format!("-t ext4 {small},^has_journal,^flex_bg"), 1024, 225..245);
    sweep(&format!("-t ext4 {small},^has_journal,^flex_bg"), 1024, (470..500).step_by(2));
    sweep(&format!("-t ext4 {small},^has_journal"), 1024, 225..250);
    sweep(&format!("-t ext4 {small},^has_journal"), 1024, (470..1100).step_by(19));
    sweep(&format!("-t ext4 {small},^has_journal"), 1024, (4000..5000).step_by(211));
    sweep(&format!("-t ext4 {small},^has_journal -G 4"), 1024, (960..1010).step_by(2));
}

/// A journal comes with 2,048 blocks; it is content too.
#[test]
fn journals_are_counted() {
    sweep(
        "-t ext3 -b 1024 -g 512 -O ^resize_inode",
        1024,
        [900, 990, 1000, 1500, 2000, 2040, 2100],
    );
    sweep("-t ext4 -b 1024", 1024, [1900, 1990, 2000, 2010, 2040, 7000]);
}

#[test]
fn a_size_is_kept_or_refused_with_what_is_missing() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("build-size");
    let image = folder.join("x.img");
    let source = source_of(&folder, 700, 1024);
    for number in 0..60 {
        fs::write(source.join(format!("small-{number}")), bytes(number, 100)).unwrap();
    }
    for words in [
        "-t ext4",
        "-t ext2",
        "-t ext2 -b 1024 -g 256 -O ^resize_inode",
        "-t ext4 -b 1024 -g 256 -O ^resize_inode,^has_journal",
        "-t ext4 -b 1024 -i 2048",
    ] {
        for asked in [0u64, 1, 5000, 65_536, 300_000, 700 * 1024, 1 << 20] {
            let _ = fs::remove_file(&image);
            let output = build_command(&format!("{words} --size {asked}b"), &[&source], &image)
                .output()
                .unwrap();
            if output.status.success() {
                continue;
            }
            let refused = crate::build::command::read_refusal(&output);
            assert_eq!(refused.code, Some(1), "{words} {asked}: {refused:?}");
            assert!(
                !image.exists() && fs::read_dir(folder.path()).unwrap().count() == 1,
                "{words}: something is left"
            );
            let missing = number_before(&refused.message, " bytes more")
                .unwrap_or_else(|| panic!("{refused:?}"));
            assert!(number_before(&refused.message, " inodes:").is_some(), "{refused:?}");
            let enough = asked + missing;
            let report = build(&format!("{words} --size {enough}b"), &[&source], &image);
            judge(&image, &report);
            assert_eq!(fs::metadata(&image).unwrap().len(), enough);
            let short = enough - u64::from(report.block_size);
            refusal(&mut build_command(
                &format!("--force {words} --size {short}b"),
                &[&source],
                &image,
            ));
            judge(&image, &report);
        }
        let report = build(&format!("--force {words} --size 9M"), &[&source], &image);
        judge(&image, &report);
        assert_eq!(fs::metadata(&image).unwrap().len(), 9 << 20);
    }
}

fn number_before(text: &str, word: &str) -> Option<u64> {
    text[..text.find(word)?].rsplit(' ').next()?.parse().ok()
}

#[test]
fn too_few_inodes_are_refused_with_their_number() {
    let folder = Scratch::new("build-inodes");
    let image = folder.join("x.img");
    let source = source_of(&folder, 1, 1024);
    for number in 0..500 {
        File::create(source.join(number.to_string())).unwrap();
    }
    for words in ["-N 100", "-N 100 --free-inodes 1000", "-t ext2 -N 12"] {
        let asked: u64 = words
            .split_whitespace()
            .skip_while(|word| *word != "-N")
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let refused =
            refusal(&mut build_command(&format!("--size 8M {words}"), &[&source], &image));
        assert!(!refused.message.contains("bytes and"), "{refused:?}");
        let missing = number_before(&refused.message, " inodes more")
            .unwrap_or_else(|| panic!("{refused:?}"));
        assert!(refused.hint.is_some() && !image.exists());
        let enough = words.replace(&format!("-N {asked}"), &format!("-N {}", asked + missing));
        let report = build(&format!("--size 8M {enough}"), &[&source], &image);
        judge(&image, &report);
        fs::remove_file(&image).unwrap();

        let refused =
            refusal(&mut build_command(&format!("--size 20K {words}"), &[&source], &image));
        let bytes =
            number_before(&refused.message, " bytes and").unwrap_or_else(|| panic!("{refused:?}"));
        let inodes = number_before(&refused.message, " inodes more")
            .unwrap_or_else(|| panic!("{refused:?}"));
        let enough = words.replace(&format!("-N {asked}"), &format!("-N {}", asked + inodes));
        let report = build(&format!("--size {}b {enough}", 20_480 + bytes), &[&source], &image);
        judge(&image, &report);
        fs::remove_file(&image).unwrap();
    }
    // A ratio is what is usual, not what there is at most.
    let report = build("--size 8M -i 65536", &[&source], &image);
    judge(&image, &report);
    assert!(report.inodes >= 512);
}

#[test]
fn room_is_given_as_asked() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("build-room");
    let image = folder.join("x.img");
    let source = source_of(&folder, 300, 1024);
    for words in [
        "-t ext4",
        "-t ext2",
        "-t ext3 -b 1024 -g 1024 -O ^resize_inode",
        "-t ext4 -b 2048 -O ^flex_bg,^resize_inode -g 512",
    ] {
        for (room, least) in
            [("20%", 0), ("512K", 512 << 10), ("40M", 40 << 20), ("1b", 1), ("95.5%", 0)]
        {
            let report = build(
                &format!("--force {words} --free {room} --free-inodes 100"),
                &[&source],
                &image,
            );
            judge(&image, &report);
            let free = report.free_blocks * u64::from(report.block_size);
            let share = room.strip_suffix('%').map_or(0.0, |share| share.parse::<f64>().unwrap());
            assert!(
                free >= least && free as f64 * 100.0 >= share * report.bytes as f64,
                "{words} {room}: {report:?}"
            );
            let generous = (report.bytes as f64 * share / 100.0).max(least as f64)
                + 0.02 * report.bytes as f64
                + 65536.0;
            assert!((free as f64) < generous, "{words} {room}: {report:?}");
            assert!(report.free_inodes >= 100);
        }
        let report = build(&format!("--force {words} -N 5000"), &[&source], &image);
        judge(&image, &report);
        assert!(report.inodes >= 5000);
        let report = build(&format!("--force {words} -i 1024 --free 1M"), &[&source], &image);
        judge(&image, &report);
        assert!(u64::from(report.inodes) >= report.bytes / 1024, "{report:?}");
    }
}

#[test]
fn the_words_of_mke2fs_reach_the_superblock() {
    if !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-words");
    let image = folder.join("x.img");
    let source = source_of(&folder, 10, 4096);
    let words = "-L my-label -U 01234567-89ab-cdef-0123-456789abcdef -m 10 -J size=8 --free 20M \
                 -E hash_seed=fedcba98-7654-3210-fedc-ba9876543210,stride=4,stripe_width=8";
    let report = build(words, &[&source], &image);
    judge(&image, &report);
    let dump = dumpe2fs(&image).unwrap();
    let field = |name: &str| dump.fields.get(name).cloned().unwrap_or_default();
    assert_eq!(field("Filesystem volume name"), "my-label");
    assert_eq!(field("Filesystem UUID"), "01234567-89ab-cdef-0123-456789abcdef");
    assert_eq!(report.uuid, "01234567-89ab-cdef-0123-456789abcdef");
    assert_eq!(field("Directory Hash Seed"), "fedcba98-7654-3210-fedc-ba9876543210");
    assert_eq!(dump.number("Total journal blocks"), Some(2048));
    assert_eq!((dump.number("RAID stride"), dump.number("RAID stripe width")), (Some(4), Some(8)));
    let reserved = dump.number("Reserved block count").unwrap();
    assert!(
        reserved.abs_diff(report.blocks / 10) <= 1 + report.blocks / 100,
        "{reserved} of {}",
        report.blocks
    );
    assert_eq!(dumpe2fs(&image).unwrap().number("Reserved block count"), Some(reserved));
    let plain = build("--force", &[&source], &image);
    judge(&image, &plain);
    assert_eq!(dumpe2fs(&image).unwrap().number("Reserved block count"), Some(0));
}

/// What is before and after the volume stays, in a new image and in an old one.
#[test]
fn an_offset_leaves_the_rest_alone() {
    let folder = Scratch::new("build-offset");
    let image = folder.join("x.img");
    let source = source_of(&folder, 10, 4096);
    let offset = 1 << 20;
    let report = build("-E offset=1048576", &[&source], &image);
    let fresh = fs::read(&image).unwrap();
    assert_eq!(fresh.len() as u64, offset + report.bytes);
    assert!(fresh[..offset as usize].iter().all(|byte| *byte == 0));
    let plain = folder.join("plain.img");
    build("", &[&source], &plain);
    assert!(fresh[offset as usize..] == fs::read(&plain).unwrap(), "the same volume, elsewhere");

    let (before, after) = (bytes(1, offset as usize), bytes(2, 12_345));
    let old = File::create(&image).unwrap();
    old.write_all_at(&before, 0).unwrap();
    old.write_all_at(&bytes(3, report.bytes as usize), offset).unwrap();
    old.write_all_at(&after, offset + report.bytes).unwrap();
    build("--force -E offset=1048576", &[&source], &image);
    let now = fs::read(&image).unwrap();
    let end = (offset + report.bytes) as usize;
    assert!(
        now[..offset as usize] == before
            && now[offset as usize..end] == fresh[offset as usize..]
            && now[end..] == after
    );
}

/// The copies of superblock and descriptors are those of the finished volume, as mke2fs leaves
/// them: nothing is lost with the first ones.
#[test]
fn the_copies_know_the_tree() {
    if !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-copies");
    let image = folder.join("x.img");
    let source = source_of(&folder, 36_000, 1024);
    let dumped = |words: &[&str]| {
        let told = output(program("dumpe2fs").arg("-h").args(words).arg(&image)).unwrap();
        let text = String::from_utf8(told.stdout).unwrap();
        let kept = |line: &&str| line.contains("ree blocks: ") || line.contains("ree inodes: ");
        text.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    };
    for words in ["-b 1024", "-b 1024 --size 64M", "-b 1024 -t ext2"] {
        rebuild(words, &[&source], &image);
        let first = dumped(&[]);
        assert_eq!(first.len(), 2, "{first:?}");
        assert_eq!(dumped(&["-o", "superblock=8193", "-o", "blocksize=1024"]), first, "{words}");
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(&[0; 2048], 1024).unwrap();
        let checked = extant(["check", "--json"]).arg(&image).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        let problems = report["problems"].as_array().unwrap();
        // Through a copy e2fsck reads the bitmaps of groups that were never used, too, which mke2fs
        // and we leave as they are.
        for problem in problems {
            let code = problem["code"].as_str().unwrap();
            assert!(
                code == "superblock-damaged" || code.contains("-bitmap-"),
                "{words}: {problem}"
            );
        }
    }
}
