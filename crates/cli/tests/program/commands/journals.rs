//! Volumes whose journal is on another device, is not there, or is damaged: read while nothing has
//! to be replayed, and never written.
use crate::commands::command::extant;
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

fn debug(image: &Path, requests: &[&str]) {
    for request in requests {
        output(program("debugfs").args(["-w", "-R", request]).arg(image)).expect("debugfs runs");
    }
}

/// A volume without blocks of its own for a journal, and one whose journal it could be.
fn external(folder: &Scratch) -> (PathBuf, PathBuf) {
    let [image, journal] = ["image", "journal"].map(|name| folder.join(name));
    let mut mke2fs = program("mke2fs");
    output(mke2fs.args(["-q", "-F", "-O", "journal_dev", "-b", "1024"]).arg(&journal).arg("4M"))
        .expect("mke2fs makes a journal");
    let attached = output(program("losetup").args(["-f", "--show"]).arg(&journal));
    let device = String::from_utf8_lossy(&attached.expect("attached").stdout).trim().to_owned();
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-J"]).arg(format!("device={device}"));
    let made = output(mke2fs.arg(&image).arg("32M"));
    output(program("losetup").arg("-d").arg(&device)).expect("detached");
    made.expect("mke2fs makes it");
    (image, journal)
}

/// A volume with a journal of its own, changed by debugfs.
fn internal(folder: &Scratch, requests: &[&str]) -> PathBuf {
    let image = folder.join("image");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^metadata_csum"]);
    output(mke2fs.arg(&image).arg("32M")).expect("mke2fs makes it");
    debug(&image, requests);
    image
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Readable {
    Yes,
    No,
}

/// No command writes to the volume, and each says why in one line.
fn refused(image: &Path, reason: &str, readable: Readable) {
    let before = std::fs::read(image).expect("the image");
    let name = image.display().to_string();
    let inside = |path: &str| format!("{name}:{path}");
    let (root, found, new) = (inside("/"), inside("/lost+found"), inside("/new"));
    let run = |command: &mut Command| {
        let output = command.output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let same = std::fs::read(image).expect("the image") == before;
        assert!(same, "{command:?}: it was written: {errors}");
        (output.status.code(), errors)
    };
    for words in [
        &["rm", "-r", &found][..],
        &["mkdir", &new],
        &["cp", "/etc/hostname", &new],
        &["mv", &found, &new],
        &["chmod", "700", &found],
        &["--as", "e2label", &name, "label"],
    ] {
        let (code, errors) = run(crate::commands::command::command(words).env_remove("LANG"));
        assert_eq!(code, Some(1), "{words:?}: {errors}");
        assert!(errors.contains(reason), "{words:?}: {errors}");
        let lines = errors.lines().filter(|line| !line.starts_with("  hint: "));
        assert_eq!(lines.count(), 1, "{words:?}: {errors}");
    }
    for words in [&["--as", "e2fsck", "-p", &name][..], &["--as", "e2fsck", "-y", &name]] {
        let (code, errors) = run(&mut crate::commands::command::command(words));
        assert!(code.is_some_and(|code| code >= 4), "{words:?}: {code:?}: {errors}");
    }
    let (code, errors) = run(&mut crate::commands::command::command(["ls", &root]));
    match readable {
        Readable::Yes => assert_eq!(code, Some(0), "{errors}"),
        Readable::No => assert!(code == Some(1) && errors.contains(reason), "{errors}"),
    }
}

#[test]
fn a_volume_with_its_journal_on_another_device_is_only_read() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("journals-external");
    let (image, journal) = external(&folder);
    let reason = "the journal is on another device";
    refused(&image, reason, Readable::Yes);
    let name = image.display().to_string();
    let errors = |words: &[&str]| {
        let output = extant(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        errors
    };
    assert!(errors(&["replay", &name]).contains(reason));
    debug(&image, &["feature needs_recovery"]);
    refused(&image, reason, Readable::Yes);
    assert!(errors(&["replay", &name]).contains(reason));
    // The journal is no volume.
    let name = journal.display().to_string();
    for words in [&["ls", &format!("{name}:/")][..], &["replay", &name]] {
        let said = errors(words);
        assert!(said.contains("the journal of another volume"), "{words:?}: {said}");
    }
    let label = errors(&["--as", "e2label", &name, "label"]);
    assert!(label.contains("is the journal of another volume"), "{label}");
}

#[test]
fn a_volume_whose_journal_is_not_there_is_only_read() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("journals-missing");
    let image = internal(&folder, &["ssv journal_inum 0"]);
    refused(&image, "names no inode of a journal", Readable::Yes);
    let image = internal(&folder, &["clri <8>"]);
    refused(&image, "journal: inode 8 is no regular file", Readable::Yes);
    let image = internal(&folder, &["ssv journal_uuid 00112233-4455-6677-8899-aabbccddeeff"]);
    refused(&image, "in an inode and one on another device", Readable::Yes);
    let image = internal(&folder, &["feature -has_journal needs_recovery"]);
    refused(&image, "asks for recovery, but the volume has no journal", Readable::No);
    let output = extant(&["replay", &image.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
}
