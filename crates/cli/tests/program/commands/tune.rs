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
    for words in [&["-L", "root"][..], &["-O", "^metadata_csum", "-L", "other"]] {
        let (code, said) = tuned(words, &image);
        assert_eq!(code, Some(0), "{said}");
        let dumped = |place: &str| {
            let mut dumpe2fs = program("dumpe2fs");
            dumpe2fs.args(["-h", "-o", place, "-o", "blocksize=1024"]).arg(&image);
            let text = String::from_utf8(output(&mut dumpe2fs).unwrap().stdout).unwrap();
            let is_told = |line: &&str| {
                line.starts_with("Filesystem features") || line.starts_with("Filesystem volume")
            };
            text.lines().filter(is_told).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(dumped("superblock=1"), dumped("superblock=8193"), "{words:?}");
    }
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
        if oracle::can_mount() {
            let mounted = oracle::mount_loop(&image, Access::ReadWrite, "").expect("it mounts");
            fs::write(mounted.path().join("written"), "by the kernel").unwrap();
            mounted.unmount().unwrap();
            oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }
}
