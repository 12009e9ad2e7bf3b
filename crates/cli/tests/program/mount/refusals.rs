//! What is refused before anything is mounted: one line, a hint, an exit code.
use crate::mount::fixture::{Bench, done, extant, has_fuse};
use extant_testkit::oracle;
use std::fs;

/// Runs a mount that must fail: `extant: mount: MESSAGE`, `  hint: HINT`, the code.
fn refused(words: &[&str], code: i32, message: &str, hint: &str) {
    let told = extant(["mount"].iter().chain(words));
    let mut lines = told.stderr.lines();
    let line = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or_default();
    assert_eq!(told.code, code, "{words:?}: {told:?}");
    assert!(line.starts_with("extant: mount: ") && line.contains(message), "{words:?}: {told:?}");
    assert_eq!(second.starts_with("  hint: "), !hint.is_empty(), "{words:?}: {told:?}");
    assert!(second.contains(hint) && lines.next().is_none(), "{words:?}: {told:?}");
}

#[test]
fn images_and_folders_that_cannot_be() {
    let bench = Bench::new("mount-refused");
    let (image, point) = (bench.image(), bench.point());
    let beside = |name: &str, content: &[u8]| {
        fs::write(bench.join(name), content).unwrap();
        bench.join(name).display().to_string()
    };
    let none = bench.join("none").display().to_string();
    refused(&[&none, &point], 32, "No such file or directory", "");
    refused(&[&image, &none], 32, "there is no such folder", "mkdir");
    let zeros = beside("zeros", &[0; 1 << 20]);
    refused(&[&zeros, &point], 32, "not an ext2, ext3 or ext4 volume", "superblock");
    let empty = beside("empty", b"");
    refused(&[&empty, &point], 32, "is empty", "extant mkfs");
    let squash = beside("squash", &[b"hsqs".as_slice(), &[0; 8192]].concat());
    refused(&[&squash, &point], 32, "but a Squashfs file system", "unsquashfs");
    let elsewhere = bench.join("elsewhere").display().to_string();
    fs::copy(&image, &elsewhere).unwrap();
    for request in ["ssv journal_inum 0", "ssv journal_dev 1793"] {
        let mut debugfs = extant_testkit::command::program("debugfs");
        debugfs.args(["-w", "-R", request]).arg(&elsewhere);
        extant_testkit::command::output(&mut debugfs).expect("debugfs runs");
    }
    let reason = "the journal is on another device";
    refused(&["-o", "rw", &elsewhere, &point], 32, reason, "-o ro may mount it");
    refused(&[&point, &point], 32, "is a directory, not an image", "extant build");
    refused(&[&image, &zeros], 32, "is not a folder", "extant mount IMAGE DIR");
    refused(&["-o", "offset=99M", &image, &point], 1, "has only", "");
    fs::write(bench.inside("old"), "").unwrap();
    refused(&[&image, &point], 32, "is not empty", "-o nonempty");
    fs::remove_file(bench.inside("old")).unwrap();
    refused(&[&image, "/proc"], 32, "is mounted there (proc)", "-o nonempty");
    refused(&["--fake", &none, &point], 32, "No such file or directory", "");
    done(["mount", "--fake", &image, &point]);
    assert_eq!(bench.line(), None);
    bench.is_whole();
}

#[test]
fn wrong_words_end_with_1() {
    let bench = Bench::new("mount-words");
    let (image, point) = (bench.image(), bench.point());
    refused(&["-o", "alow_other", &image, &point], 1, "there is no such option", "allow_other?");
    refused(&["-o", "cache=12", &image, &point], 1, "a unit is missing", "");
    refused(&["-o", "ro,remount", &image, &point], 32, "no image is mounted there", "");
    refused(&["-o", "nobarrier", &image, &point], 1, "is not supported", "fsync promised");
    refused(&["-o", "errors=panic", &image, &point], 1, "does not stop the machine", "");
    for words in [&["mount"][..], &["mount", &image], &["mount", "--none", &image, &point]] {
        let told = extant(words);
        assert!(told.code == 1 && told.stderr.contains("Usage"), "{told:?}");
    }
    let told = extant(["mount", "--json", "-o", "x=y", &image, &point]);
    let error: serde_json::Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!((told.code, &error["exit"], &error["command"]), (1, &1.into(), &"mount".into()));
    done(["mount", "--sloppy", "--fake", "-o", "alow_other", &image, &point]);
    let help = done(["mount", "--help"]);
    for word in ["allow_other", "commit=SECONDS", "policies=", "EXTANT_MOUNT", "fuse.extant"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn an_image_in_use_is_refused() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-in-use");
    let other = bench.join("other");
    fs::create_dir(&other).unwrap();
    let (image, other) = (bench.image(), other.display().to_string());
    let mounted = bench.mount("");
    refused(&[&image, &other], 32, "is mounted on", "unmount or detach it");
    refused(&[&image, &bench.point()], 32, "is mounted there (fuse.extant)", "nonempty");
    mounted.end();
    // Two that only read do not disturb each other.
    let mounted = bench.mount("ro");
    done(["mount", "-o", "ro", &image, &other]);
    refused(&["-o", "rw,nonempty", &image, &other], 32, "is mounted on", "unmount");
    done(["umount", &other]);
    mounted.end();
    if oracle::can_mount() {
        let kernel = oracle::mount_loop(image.as_ref(), oracle::Access::ReadOnly, "").unwrap();
        refused(&["-o", "ro", &image, &other], 32, "is mounted on", "unmount or detach it first");
        kernel.unmount().unwrap();
    }
}

/// The least cache depends on the blocks: what is enough for others is not for the largest.
#[test]
fn a_cache_that_is_too_small_for_the_blocks_is_refused_in_one_line() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-small-cache");
    let image = bench.join("large-blocks.img").display().to_string();
    done(["mkfs", "-q", "-b", "65536", &image, "256M"]);
    let told = extant(["mount", "-o", "cache=8M", &image, &bench.point()]);
    assert_eq!(told.code, 32, "{told:?}");
    assert_eq!(told.stderr.lines().count(), 1, "{told:?}");
    let expected = "a cache of 8388608 bytes is too small for blocks of 65536 bytes: \
        the least is 20971520";
    assert!(told.stderr.contains(expected), "{told:?}");
    assert_eq!(bench.line(), None);
    assert_eq!(extant(["mount", "-o", "cache=20M", &image, "--", "true"]).code, 0);
}
