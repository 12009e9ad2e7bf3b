//! What is shown of a volume, compared word for word with what dumpe2fs shows: superblock, journal,
//! every group.

use extant_block::file::Access;
use extant_block::{FileDevice, RealClock};
use extant_format::BlockNo;
use extant_inspect::{SuperblockPlace, Volume};
use extant_testkit::command::{output, program};
use extant_testkit::fixtures;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn open(image: &Path, place: SuperblockPlace) -> Volume {
    let device =
        FileDevice::open(RealClock::new(), image, Access::ReadOnly, 0).expect("the image opens");
    Volume::open(Arc::new(device), place).expect("a superblock")
}

fn ours(volume: &Volume) -> String {
    let groups = volume.groups().map(|group| group.expect("a group").to_string());
    std::iter::once(volume.info().to_string()).chain(groups).collect()
}

/// Rows of the superblock, and the lines of the groups.
fn split(text: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let is_group = |line: &&str| line.starts_with("Group ") && line.contains(": (Blocks ");
    let rows = lines().take_while(|line| !is_group(line)).filter_map(|line| line.split_once(':'));
    let rows = rows.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    (rows, lines().skip_while(|line| !is_group(line)).map(str::to_owned).collect())
}

/// `Sat Nov 21 20:51:14 2026` as `2026-11-21 20:51:14 UTC`; what is no date as it is.
fn date(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = |name: &str| months.iter().position(|month| *month == name).map(|at| at + 1);
    match words[..] {
        [_, name, day, time, year] if month(name).is_some() && time.contains(':') => {
            let day: u8 = day.parse().expect("a day");
            format!("{year}-{:02}-{day:02} {time} UTC", month(name).unwrap())
        }
        _ => text.to_owned(),
    }
}

/// dumpe2fs's rows as ours say them: dates in UTC, users by number.
fn theirs(image: &Path, words: &[&str]) -> (BTreeMap<String, String>, Vec<String>) {
    let said = output(program("dumpe2fs").args(words).arg(image)).expect("dumpe2fs reads it");
    let (mut rows, groups) = split(&String::from_utf8_lossy(&said.stdout));
    for value in rows.values_mut() {
        *value = date(value);
        if let Some((number, _)) =
            value.split_once(" (user ").or_else(|| value.split_once(" (group "))
        {
            *value = number.to_owned();
        }
    }
    (rows, groups)
}

/// What dumpe2fs does not show, at least not where we do.
const OWN_ROWS: [&str; 4] =
    ["Group count", "Features not read", "Features not written", "First meta block group"];

/// dumpe2fs ends a run of free clusters at the first block of the last one.
fn same_line(found: &str, expected: &str, clustered: bool) -> bool {
    found == expected
        || (clustered
            && found.starts_with("  Free blocks:")
            && expected.starts_with("  Free blocks:"))
}

fn compare(image: &Path, case: &str, complaints: &mut Vec<String>) {
    let (expected, expected_groups) = theirs(image, &[]);
    let (found, found_groups) = split(&ours(&open(image, SuperblockPlace::Primary)));
    assert!(
        expected.len() > 30 && !expected_groups.is_empty(),
        "{case}: dumpe2fs shows {expected:?}"
    );
    for (name, value) in &expected {
        if found.get(name) != Some(value) {
            complaints.push(format!("{case}: {name}: {:?}, dumpe2fs {value:?}", found.get(name)));
        }
    }
    for name in found
        .keys()
        .filter(|name| !expected.contains_key(*name) && !OWN_ROWS.contains(&name.as_str()))
    {
        complaints.push(format!("{case}: dumpe2fs does not show {name}: {:?}", found[name]));
    }
    if found_groups.len() != expected_groups.len() {
        complaints.push(format!(
            "{case}: {} lines of groups, dumpe2fs {}",
            found_groups.len(),
            expected_groups.len()
        ));
    }
    let lines = found_groups
        .iter()
        .zip(&expected_groups)
        .filter(|(found, expected)| !same_line(found, expected, case.contains("bigalloc")));
    complaints.extend(
        lines.take(3).map(|(found, expected)| format!("{case}: {found:?}, dumpe2fs {expected:?}")),
    );
}

fn mke2fs(image: &Path, words: &str, size: &str) {
    let _ = std::fs::remove_file(image);
    let mut command = program("mke2fs");
    output(command.args(["-q", "-F"]).args(words.split(' ')).arg(image).arg(size))
        .expect("mke2fs makes it");
}

const MADE: &[(&str, &str)] = &[
    ("-t ext2", "3M"),
    ("-t ext2 -b 1024 -I 128", "70M"),
    ("-t ext3 -b 4096", "200M"),
    ("-t ext4", "300M"),
    ("-t ext4 -b 1024 -L label -M /where/it/was", "300M"),
    ("-t ext4 -b 65536", "600M"),
    ("-t ext4 -b 2048 -I 1024 -G 4 -N 5000", "100M"),
    ("-t ext4 -O ^metadata_csum,uninit_bg -b 1024", "100M"),
    ("-t ext4 -O ^64bit,^flex_bg -b 1024", "100M"),
    ("-t ext4 -O orphan_file,metadata_csum_seed", "100M"),
    ("-t ext4 -O meta_bg,^resize_inode -b 1024", "600M"),
    ("-t ext2 -O meta_bg,^resize_inode -b 1024 -g 1024", "90M"),
    ("-t ext4 -O sparse_super2 -b 1024", "100M"),
    ("-t ext4 -O bigalloc -C 16384", "300M"),
    ("-t ext4 -O quota,project,casefold,encrypt,inline_data,ea_inode,large_dir,verity", "100M"),
    ("-t ext4 -O fast_commit", "300M"),
    ("-t ext4 -E stride=16,stripe_width=64 -m 1.5 -e remount-ro", "100M"),
    ("-t ext2 -r 0 -O none -I 128", "8M"),
    ("-t ext2 -O ^sparse_super,^resize_inode -b 1024", "60M"),
];

#[test]
fn empty_volumes_are_shown_as_dumpe2fs_shows_them() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let image = folder.join("made.img");
    let mut complaints = Vec::new();
    for (words, size) in MADE {
        mke2fs(&image, words, size);
        compare(&image, words, &mut complaints);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn filled_volumes_are_shown_as_dumpe2fs_shows_them() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let mut complaints = Vec::new();
    let chosen = ["ext2-b1024-i128", "ext3-b4096-i256", "ext4-b4096-i256", "ext4-b1024-i256"];
    let mut compared = 0;
    for fixture in fixtures::all().filter(|fixture| chosen.contains(&fixture.name.as_str())) {
        if fixture.is_possible() {
            let made = fixture.make(folder.path()).expect("the fixture is made");
            compare(&made.image, &fixture.name, &mut complaints);
            compared += 1;
            let _ = std::fs::remove_file(made.image);
        }
    }
    assert!(compared > 0 || !extant_testkit::command::is_root(), "no fixture of those names");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn settings_of_tune2fs_are_shown() {
    if !require("mke2fs") || !require("dumpe2fs") || !require("tune2fs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let image = folder.join("made.img");
    let mut complaints = Vec::new();
    mke2fs(&image, "-t ext4", "64M");
    let settings = [
        "-c 17",
        "-i 10d",
        "-o nodelalloc,journal_data",
        "-E mount_opts=noatime",
        "-e panic",
        "-u 12 -g 13",
    ];
    for words in settings {
        output(program("tune2fs").args(words.split(' ')).arg(&image)).expect("tune2fs changes it");
        compare(&image, words, &mut complaints);
    }
    output(program("debugfs").args(["-w", "-R", "set_super_value state 2"]).arg(&image))
        .expect("debugfs changes it");
    let (rows, _) = split(&ours(&open(&image, SuperblockPlace::Primary)));
    assert_eq!(rows["Filesystem state"], "not clean with errors");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_copy_shows_the_same() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let image = folder.join("made.img");
    mke2fs(&image, "-t ext4 -b 1024", "100M");
    let place = SuperblockPlace::Copy { block: BlockNo(24577), block_size: 1024 };
    let (found, found_groups) = split(&ours(&open(&image, place)));
    // dumpe2fs, asked for a copy, shows what e2fsck would do first: so the primary is asked.
    let (expected, expected_groups) = theirs(&image, &[]);
    assert_eq!(found_groups, expected_groups);
    // A copy never counts as clean.
    for (name, value) in expected
        .iter()
        .filter(|(name, _)| !["Checksum", "Filesystem state"].contains(&name.as_str()))
    {
        assert_eq!(found.get(name), Some(value), "{name}");
    }
    // And it is all that is left when the primary is gone.
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8192], 0).unwrap();
    let volume = open(&image, place);
    assert_eq!((volume.info().superblock_block, volume.info().superblock_group), (24577, 3));
    assert_eq!(split(&ours(&volume)).1, expected_groups);
}

#[test]
fn a_wrong_checksum_is_shown_and_no_obstacle() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let image = folder.join("made.img");
    mke2fs(&image, "-t ext4 -b 1024", "100M");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    let write =
        |byte: &[u8], at: u64| std::os::unix::fs::FileExt::write_all_at(&file, byte, at).unwrap();
    let groups: Vec<_> =
        open(&image, SuperblockPlace::Primary).groups().map(Result::unwrap).collect();
    assert!(groups.iter().all(|group| group.checksum.is_some_and(|sum| sum.expected.is_none())));
    write(b"X", 1024 + 0x78);
    write(&[0x55], 2 * 1024 + 64 + 0x0c);
    write(&[0xfe], groups[0].block_bitmap.block * 1024 + 1000);
    write(&[0xfe], groups[0].inode_bitmap.block * 1024 + 100);
    let volume = open(&image, SuperblockPlace::Primary);
    assert_eq!(volume.info().label.as_deref(), Some("X"));
    assert!(volume.problems()[0].contains("superblock: checksum"), "{:?}", volume.problems());
    let groups: Vec<_> = volume.groups().map(Result::unwrap).collect();
    assert!(groups[1].checksum.unwrap().expected.is_some());
    assert!(groups[0].checksum.unwrap().expected.is_none());
    assert!(groups[0].block_bitmap_checksum.unwrap().expected.is_some());
    assert!(groups[0].inode_bitmap_checksum.unwrap().expected.is_some());
    assert!(groups[0].to_string().contains("(EXPECTED 0x"));
}

#[test]
fn a_truncated_image_is_shown_as_far_as_it_goes() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("inspect");
    let image = folder.join("made.img");
    mke2fs(&image, "-t ext4 -b 1024", "100M");
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(20 << 20).unwrap();
    let volume = open(&image, SuperblockPlace::Primary);
    let groups: Vec<_> = volume.groups().map(Result::unwrap).collect();
    assert_eq!((groups.len(), volume.info().groups), (3, 13));
    assert!(volume.info().to_string().contains("Problem:"));
    file.set_len(2048).unwrap();
    let volume = open(&image, SuperblockPlace::Primary);
    assert!(volume.groups().next().expect("one group begins there").is_err());
    assert!(volume.info().problems.iter().any(|problem| problem.contains("journal")));
    file.set_len(1500).unwrap();
    let device = FileDevice::open(RealClock::new(), &image, Access::ReadOnly, 0).unwrap();
    assert!(Volume::open(Arc::new(device), SuperblockPlace::Primary).is_err());
}
