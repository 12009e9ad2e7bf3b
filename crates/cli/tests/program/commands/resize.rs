//! `extant resize` from outside: what it makes is judged by e2fsck and the kernel, and what must
//! stay is looked at byte by byte.
use crate::commands::command::{command, extant};
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use extant_testkit::{oracle, skips};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A volume with some files, made by mke2fs; `None` without it.
fn image(folder: &Scratch, words: &[&str], size: &str) -> Option<PathBuf> {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return None;
    }
    let source = folder.join("source");
    fs::create_dir_all(source.join("some/where")).unwrap();
    for number in 0..60_u8 {
        let bytes = vec![number; 100 * usize::from(number) + 7];
        fs::write(source.join(format!("some/file-{number}")), bytes).unwrap();
    }
    let image = folder.join("disk.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024"]).args(words).arg("-d").arg(&source);
    output(mke2fs.arg(&image).arg(size)).expect("mke2fs makes it");
    Some(image)
}

fn same_files(image: &Path, source: &Path) {
    if !oracle::can_mount() {
        return;
    }
    let mounted = oracle::mount_loop(image, oracle::Access::ReadOnly, "").expect("it mounts");
    for number in 0..60 {
        let name = format!("some/file-{number}");
        let read = [mounted.path(), source].map(|root| fs::read(root.join(&name)).unwrap());
        assert!(read[0] == read[1], "{name}");
    }
}

fn resized(words: &[&str]) -> serde_json::Value {
    let output = command([&["resize", "--json"], words].concat()).output().unwrap();
    let (code, said, errors) = self::words(&output);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{words:?}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn a_file_grows_and_shrinks_with_its_volume() {
    let folder = Scratch::new("resize-file");
    let Some(image) = image(&folder, &["-t", "ext4"], "16M") else { return };
    let (shown, source) = (image.to_str().unwrap(), folder.join("source"));
    for (size, blocks) in [
        ("3G", 3 << 20),
        ("150%", 4_718_592),
        ("+1M", 4_719_616),
        ("40000", 40_000),
        ("8M", 8192),
        ("max", 8192),
        ("+9000", 17_192),
    ] {
        let report = resized(&[shown, size]);
        assert_eq!(report["schema"], "extant-resize/1");
        assert_eq!(report["blocks_after"], blocks, "{size}: {report}");
        assert_eq!(fs::metadata(&image).unwrap().len(), blocks << 10, "{size}");
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{size}: {error}"));
        same_files(&image, &source);
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // What follows the volume in a longer file stays, and can be grown into.
    let after = [7; 5000];
    let mut bytes = fs::read(&image).unwrap();
    bytes.extend_from_slice(&after);
    fs::write(&image, &bytes).unwrap();
    resized(&[shown, "10000"]);
    let shorter = fs::read(&image).unwrap();
    assert!(shorter.len() == bytes.len() && shorter.ends_with(&after));
    // A footer of less than a block, as a disk of another program has.
    let footed = folder.join("footed.img");
    let whole = [&fs::read(&image).unwrap()[..10_000 << 10], &[9; 512][..]].concat();
    fs::write(&footed, &whole).unwrap();
    resized(&[footed.to_str().unwrap(), "9000"]);
    let now = fs::read(&footed).unwrap();
    assert!(now.len() == whole.len() && now.ends_with(&[9; 512]), "the footer is gone");
    assert_eq!(resized(&[shown])["blocks_after"], 17_196);
    assert_eq!(fs::metadata(&image).unwrap().len(), bytes.len() as u64);
    oracle::e2fsck(&image).expect("it is clean");
}

/// As small as can be: not larger than resize2fs says, and nothing is lost.
#[test]
fn the_least_size_is_less_than_that_of_resize2fs() {
    let folder = Scratch::new("resize-least");
    if !oracle::require("resize2fs") {
        return;
    }
    for kind in
        [&["-t", "ext4", "-g", "2048"][..], &["-t", "ext2"], &["-t", "ext4", "-O", "^flex_bg"]]
    {
        let Some(image) = image(&folder, kind, "40M") else { return };
        let shown = image.to_str().unwrap();
        let theirs = output(program("resize2fs").args(["-P", shown])).expect("resize2fs");
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let theirs: u64 = theirs.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let least = resized(&[shown, "min"])["blocks_after"].as_u64().unwrap();
        assert!(least <= theirs, "{kind:?}: {least} blocks, and resize2fs says {theirs}");
        assert_eq!(fs::metadata(&image).unwrap().len(), least << 10);
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        same_files(&image, &folder.join("source"));
        let again = resized(&[shown, "min"])["blocks_after"].as_u64().unwrap();
        assert!(again <= least && least - again <= 8, "{kind:?}: {least} blocks, then {again}");
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn what_is_refused_leaves_the_image_as_it_was() {
    let folder = Scratch::new("resize-refused");
    let Some(image) = image(&folder, &["-t", "ext4", "-O", "^64bit"], "8M") else { return };
    let (shown, before) = (image.to_str().unwrap(), fs::read(&image).unwrap());
    for (size, expected, said) in [
        ("0", 1, "too few"),
        ("1", 1, "too few"),
        ("500", 1, "no room"),
        ("9223372036854775808", 2, "larger than any volume"),
        ("4294967296", 1, "without the feature 64bit"),
        ("10Q", 2, "write a size"),
        ("-5M", 2, "unexpected argument"),
    ] {
        let (code, out, errors) = words(&extant(&["resize", shown, size]));
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{size}: {errors}");
        assert!(errors.contains(said), "{size}: {errors}");
        assert!(fs::read(&image).unwrap() == before, "{size}: the image is another");
    }
    let (code, said, _) = words(&extant(&["resize", "-n", shown, "1G"]));
    assert!(code == Some(0) && said.contains("would have 1048576 blocks"), "{said}");
    let (code, said, _) = words(&extant(&["resize", "--dry-run", shown, "5000"]));
    assert!(code == Some(0) && said.contains("would have 5000 blocks"), "{said}");
    assert!(fs::read(&image).unwrap() == before);
    let file = fs::File::options().read(true).write(true).open(&image).unwrap();
    file.lock().unwrap();
    let (code, _, errors) = words(&extant(&["resize", shown, "20M"]));
    assert!(code == Some(1) && errors.contains("--wait"), "{errors}");
    drop(file);
    // One that is damaged.
    let mut debugfs = program("debugfs");
    output(debugfs.args(["-w", "-R", "sif /some/file-3 links_count 7"]).arg(&image)).unwrap();
    let damaged = fs::read(&image).unwrap();
    for size in ["20M", "6M"] {
        let (code, _, errors) = words(&extant(&["resize", shown, size]));
        assert!(code == Some(1) && errors.contains("extant repair"), "{errors}");
        assert!(fs::read(&image).unwrap() == damaged, "{size}");
    }
}

/// What is refused after recovery, or of a volume that is damaged, writes nothing.
fn refused_unwritten(image: &Path, expected: &str, sizes: &[&str]) {
    let before = fs::read(image).unwrap();
    for size in sizes {
        let (code, out, errors) = words(&extant(&["resize", image.to_str().unwrap(), size]));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{size}: {errors}");
        assert!(errors.contains(expected), "{size}: {errors}");
        assert!(fs::read(image).unwrap() == before, "{size}: the image is another");
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_not_mended_in_passing() {
    let folder = Scratch::new("resize-lost");
    let Some(image) = image(&folder, &["-t", "ext4"], "16M") else { return };
    let mut bytes = fs::read(&image).unwrap();
    bytes[1024..2048].fill(0);
    fs::write(&image, &bytes).unwrap();
    refused_unwritten(&image, "extant repair", &["20M", "10M", "min", "max"]);
    // One that was cut off: it is not clean, whatever it says of itself.
    output(program("mke2fs").args(["-q", "-F"]).arg(&image).arg("16M")).unwrap();
    fs::File::options().write(true).open(&image).unwrap().set_len(10 << 20).unwrap();
    let shown = image.to_str().unwrap();
    let (code, _, errors) = words(&extant(&["heal", shown]));
    assert!(code == Some(8) && errors.contains("truncate -s"), "{errors}");
    refused_unwritten(&image, "truncate -s", &["8M", "min"]);
}

/// As a power cut leaves it: a log waits, and an orphan.
#[test]
fn a_volume_is_healed_first_unless_that_is_refused() {
    let folder = Scratch::new("resize-healed");
    if !oracle::can_mount() {
        return;
    }
    let Some(image) = image(&folder, &["-t", "ext4"], "16M") else { return };
    let cut = folder.join("cut.img");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "commit=1000").unwrap();
    fs::write(mounted.path().join("new"), "text").unwrap();
    output(program("sync").arg("-f").arg(mounted.path())).expect("synced");
    fs::copy(&image, &cut).unwrap();
    mounted.unmount().unwrap();
    let (shown, before) = (cut.to_str().unwrap(), fs::read(&cut).unwrap());
    let (code, _, errors) = words(&extant(&["resize", "--no-heal", shown, "32M"]));
    assert_eq!(code, Some(1), "{errors}");
    assert!(fs::read(&cut).unwrap() == before);
    refused_unwritten(&cut, "no room", &["200", "700"]);
    assert_eq!(resized(&["-n", shown, "32M"])["blocks_after"], 32 << 10);
    assert!(fs::read(&cut).unwrap() == before, "a dry run");
    assert_eq!(resized(&[shown, "32M"])["blocks_after"], 32 << 10);
    oracle::e2fsck(&cut).expect("it is clean");
    let mounted = oracle::mount_loop(&cut, oracle::Access::ReadOnly, "").unwrap();
    assert_eq!(fs::read(mounted.path().join("new")).unwrap(), b"text");
}

/// A partition is filled and no more; nothing around it changes, on a file and on a device.
#[test]
fn what_is_around_a_partition_stays() {
    let folder = Scratch::new("resize-partition");
    if !oracle::require("sfdisk") {
        return;
    }
    let Some(image) = image(&folder, &["-t", "ext4"], "8M") else { return };
    let volume = fs::read(&image).unwrap();
    let disk = folder.join("whole.img");
    let mut bytes: Vec<u8> = (0..40 << 20).map(|at: u32| (at / 777) as u8).collect();
    bytes[..2 << 20].fill(0);
    fs::write(&disk, &bytes).unwrap();
    let script = "label: gpt\n2048 20480\n24576 32768\n";
    let line = format!("printf '{script}' | sfdisk -q \"$0\"");
    output(program("sh").args(["-c", &line]).arg(&disk)).expect("sfdisk");
    let mut bytes = fs::read(&disk).unwrap();
    let (start, end) = (24576 * 512, (24576 + 32768) * 512);
    bytes[start..start + volume.len()].copy_from_slice(&volume);
    fs::write(&disk, &bytes).unwrap();
    // By its byte, too, a volume ends with its partition.
    let byte = format!("{}@@{start}", disk.display());
    for words in [&["resize", &byte, "+40M"][..], &["resize", "-n", &byte, "+40M"]] {
        let (code, _, errors) = self::words(&extant(words));
        assert!(code == Some(1) && errors.contains("16384"), "{words:?}: {errors}");
        assert!(fs::read(&disk).unwrap() == bytes);
    }
    let (code, said, _) = words(&extant(&["resize", "-n", &byte]));
    assert!(code == Some(0) && said.contains("would have 16384 blocks"), "{said}");
    let part = format!("{}@2", disk.display());
    let (code, _, errors) = words(&extant(&["resize", &part, "17M"]));
    assert!(code == Some(1) && errors.contains("16384"), "{errors}");
    assert!(fs::read(&disk).unwrap() == bytes);
    for (size, blocks) in [("max", 16384), ("6M", 6144), ("12000", 12_000)] {
        assert_eq!(resized(&[&part, size])["blocks_after"], blocks);
        let now = fs::read(&disk).unwrap();
        assert!(now.len() == bytes.len() && now[..start] == bytes[..start], "{size}: before it");
        assert!(now[end..] == bytes[end..], "{size}: after it");
        let copy = folder.join("copy.img");
        fs::write(&copy, &now[start..end]).unwrap();
        oracle::e2fsck(&copy).unwrap_or_else(|error| panic!("{size}: {error}"));
        same_files(&copy, &folder.join("source"));
    }
    if !skips::require_root() || !oracle::can_mount() {
        return;
    }
    let made = output(program("losetup").args(["-f", "--show"]).arg(&image)).expect("losetup");
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let log = folder.join("log");
    let without = words(&extant(&["resize", &device, "5000"]));
    let shrunk = words(&extant(&["resize", "--log", log.to_str().unwrap(), &device, "5000"]));
    let grown = words(&extant(&["resize", "--log", log.to_str().unwrap(), &device]));
    output(program("losetup").args(["-d", &device])).expect("losetup");
    assert!(without.0 == Some(1) && without.2.contains("--log"), "{without:?}");
    assert_eq!((shrunk.0, grown.0), (Some(0), Some(0)), "{shrunk:?} {grown:?}");
    assert_eq!(fs::metadata(&image).unwrap().len(), 8 << 20);
    assert!(grown.1.contains("has 8192 blocks"), "{grown:?}");
    oracle::e2fsck(&image).expect("it is clean");
    same_files(&image, &folder.join("source"));
}
