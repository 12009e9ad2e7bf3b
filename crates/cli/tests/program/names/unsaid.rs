//! What a program says and nobody takes: it ends as its kind of failure does, after its work.
use crate::names::{extant, run};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

/// A file that is always full.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// How a program ends whose standard output is full, and what it says on stderr.
fn ended(name: &str, words: &str, image: &Path) -> (Option<i32>, String) {
    let mut command = extant(name);
    command.args(words.split_whitespace()).arg(image).stdin(Stdio::null()).stdout(full());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_full_output_is_a_failure_of_each_program() {
    let folder = Scratch::new("names-unsaid");
    let image = folder.join("x.img");
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let said = |(code, said): (Option<i32>, String), name: &str, expected: i32| {
        assert_eq!(code, Some(expected), "{name}: {said}");
        let line = format!("{name}: standard output: No space left on device");
        assert!(said.lines().any(|found| found.starts_with(&line)), "{said}");
    };
    said(ended("mke2fs", "-n", &image), "mke2fs", 1);
    said(ended("mkfs.ext4", "-F -O ^metadata_csum", &image), "mkfs.ext4", 1);
    // The work was done nevertheless.
    if require("e2fsck") {
        e2fsck(&image).unwrap();
    }
    said(ended("e2fsck", "-fn", &image), "e2fsck", 8);
    said(ended("dumpe2fs", "", &image), "dumpe2fs", 1);
    said(ended("e2label", "", &image), "e2label", 1);
    // Problems that are left are 4.
    let mut bytes = std::fs::read(&image).unwrap();
    // Of the first group's free blocks, in a volume with blocks of 1 KiB.
    let free_blocks = 2 * 1024 + 12;
    bytes[free_blocks] ^= 1;
    std::fs::write(&image, bytes).unwrap();
    assert_eq!(run(extant("e2fsck").arg("-fn").arg(&image)).0, Some(4));
    said(ended("e2fsck", "-fn", &image), "e2fsck", 12);
}

#[test]
fn a_version_that_nobody_takes_is_a_failure() {
    for (name, expected) in [("mke2fs", 1), ("e2fsck", 8), ("dumpe2fs", 1)] {
        let status = extant(name).arg("-V").stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{name}");
        assert_eq!(run(extant(name).arg("-V")).0, Some(0), "{name}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let folder = Scratch::new("names-unread");
    let image = folder.join("x.img");
    let made = run(extant("mke2fs").args(["-q", "-F"]).arg(&image).arg("8M"));
    assert_eq!(made.0, Some(0), "{}", made.1);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = extant("dumpe2fs").arg(&image).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
