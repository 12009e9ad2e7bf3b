//! Writable or not: volumes with errors, protected files, journals that are not empty.
use crate::mount::fixture::{Bench, Mounted, done, extant, has_fuse, when_free};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::skips::skip;
use rustix::process::{Signal, kill_process};
use std::fs;

#[test]
fn a_volume_with_errors_is_mounted_read_only_unless_told_otherwise() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-errors");
    let mut set = program("debugfs");
    output(set.args(["-w", "-R", "set_super_value state 3"]).arg(bench.image())).unwrap();
    for (options, is_writable) in
        [(None, false), (Some("ro"), false), (Some("rw"), true), (Some("errors=continue"), true)]
    {
        let mounted = Mounted::of(&bench);
        let mut words = vec!["mount".to_owned(), bench.image(), bench.point()];
        words.extend(options.into_iter().flat_map(|list| ["-o".to_owned(), list.to_owned()]));
        let told = extant(&words);
        assert_eq!(told.code, 0, "{told:?}");
        assert_eq!(told.stderr.contains("is marked as having errors"), options.is_none());
        assert_eq!(fs::write(bench.inside("a"), "x").is_ok(), is_writable, "{options:?}");
        done(["umount", &bench.point()]);
        drop(mounted);
    }
}

/// Its bitmaps may call free what files have. With a journal they are replayed.
#[test]
fn a_volume_without_a_journal_that_was_not_unmounted_is_mounted_read_only() {
    if !has_fuse() {
        return;
    }
    for (features, is_unknown) in [("^has_journal", true), ("has_journal", false)] {
        let bench = Bench::new("mount-unclean");
        let mut make = program("mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-O", features]).arg(bench.image()).arg("16M");
        output(&mut make).unwrap();
        let mut set = program("debugfs");
        output(set.args(["-w", "-R", "set_super_value state 0"]).arg(bench.image())).unwrap();
        for (options, is_writable) in
            [(None, !is_unknown), (Some("rw"), true), (Some("errors=continue"), true)]
        {
            let mounted = Mounted::of(&bench);
            let mut words = vec!["mount".to_owned(), bench.image(), bench.point()];
            words.extend(options.into_iter().flat_map(|list| ["-o".to_owned(), list.to_owned()]));
            let told = extant(&words);
            assert_eq!(told.code, 0, "{told:?}");
            let is_said = told.stderr.contains("was not unmounted, has no journal");
            assert_eq!(is_said, is_unknown && options.is_none(), "{features}: {told:?}");
            let write = fs::write(bench.inside("a"), "x");
            assert_eq!(write.is_ok(), is_writable, "{features}, {options:?}");
            done(["umount", &bench.point()]);
            drop(mounted);
        }
    }
}

#[test]
fn a_protected_file_is_mounted_read_only_with_one_warning() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-protected");
    // A bind mount that is read-only: to root, modes are no protection.
    let image = bench.image();
    let bind = |words: &[&str]| output(program("mount").args(words)).is_ok();
    if !bind(&["--bind", &image, &image]) || !bind(&["-o", "remount,bind,ro", &image]) {
        return skip("no bind mounts");
    }
    let mounted = Mounted::of(&bench);
    let by_default = extant(["mount", &image, &bench.point()]);
    let write = fs::write(bench.inside("a"), "x");
    let ended = when_free(["umount", &bench.point()]);
    let asked_for = extant(["mount", "-o", "rw", &image, &bench.point()]);
    drop(mounted);
    output(program("umount").arg(&image)).unwrap();
    assert_eq!(by_default.code, 0, "{by_default:?}");
    let warning = format!("extant: mount: {image}: is write-protected, and mounted read-only\n");
    assert_eq!(by_default.stderr, warning);
    assert!(write.is_err());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(asked_for.code, 32, "{asked_for:?}");
    assert!(asked_for.stderr.ends_with("  hint: -o ro mounts it read-only\n"), "{asked_for:?}");
}

/// What an fsync promised is there after the server was killed: replayed where the volume may be
/// written, and read through memory where it may not.
#[test]
fn a_journal_that_is_not_empty_is_replayed() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-journal");
    let mounted = bench.mount("");
    let mut file = fs::File::create(bench.inside("promised")).unwrap();
    std::io::Write::write_all(&mut file, b"content").unwrap();
    file.sync_all().unwrap();
    drop(file);
    kill_process(mounted.server(), Signal::KILL).unwrap();
    while fs::metadata(bench.point()).is_ok() {
        std::thread::yield_now();
    }
    let told = extant(["mount", "-o", "nonempty", &bench.image(), &bench.point()]);
    assert!(told.code == 32 && told.stderr.contains("the server of what is mounted"), "{told:?}");
    let told = when_free(["umount", &bench.point()]);
    assert_eq!(told.code, 0, "a mount without a server goes: {told:?}");
    assert!(told.stderr.contains("its server had ended before"), "{told:?}");
    let before = fs::read(bench.image()).unwrap();

    let read_only = extant(["mount", "-o", "ro", &bench.image(), &bench.point()]);
    assert_eq!(read_only.code, 0, "{read_only:?}");
    assert!(read_only.stderr.contains("its journal was replayed in memory"), "{read_only:?}");
    assert_eq!(fs::read(bench.inside("promised")).unwrap(), b"content");
    done(["umount", &bench.point()]);
    assert!(fs::read(bench.image()).unwrap() == before, "not a byte was written");
    drop(mounted);

    let mounted = bench.mount("");
    assert_eq!(fs::read(bench.inside("promised")).unwrap(), b"content");
    mounted.end();
}

#[test]
fn a_log_that_damage_cuts_is_said_and_mounted_read_only_unless_asked_otherwise() {
    if !has_fuse() || !oracle::require("debugfs") || !oracle::require("e2fsck") {
        return;
    }
    let bench = Bench::new("mount-damaged-log");
    let (image, script) = (bench.image(), bench.join("script"));
    done(["mkfs", "-q", "--force", "-b", "1024", &image, "32M"]);
    let transactions = "jo -c\njw -b 7000 /dev/zero\njc\njo\njw -b 7001 /dev/zero\njc\n";
    fs::write(&script, transactions).unwrap();
    let mut debugfs = program("debugfs");
    debugfs.arg("-w").arg("-f").arg(&script).arg(&image);
    output(&mut debugfs).unwrap();
    let start = oracle::debugfs(image.as_ref(), "bmap <8> 0").unwrap();
    let start: usize = start.trim().parse().unwrap();
    let mut bytes = fs::read(&image).unwrap();
    // Superblock; descriptor, copy, commit; descriptor, copy.
    bytes[(start + 5) * 1024 + 100] ^= 1;
    for (options, access) in [("noatime", " ro,"), ("rw,noatime", " rw,"), ("ro,noatime", " ro,")] {
        fs::write(&image, &bytes).unwrap();
        let told = extant(["mount", "-o", options, &image, &bench.point()]);
        assert_eq!(told.code, 0, "{options}: {told:?}");
        let mounted = Mounted::of(&bench);
        let said = told.stderr.lines().filter(|line| line.contains("transaction 2 is damaged"));
        assert_eq!(said.count(), 1, "{options}: {told:?}");
        let line = bench.line().unwrap_or_default();
        assert!(line.contains(access), "{options}: {line}");
        done(["umount", &bench.point()]);
        drop(mounted);
        let is_same = fs::read(&image).unwrap() == bytes;
        assert_eq!(is_same, access == " ro,", "{options}");
    }
}
