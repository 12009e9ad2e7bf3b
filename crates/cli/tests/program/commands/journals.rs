//! Volumes whose journal is on another device, is not there, or is damaged: read while nothing has
//! to be replayed, and never written; and with the journal, which is said with `--journal`.
use crate::commands::command::extant;
use extant_testkit::command::{output, program};
use extant_testkit::compare::{self, Options};
use extant_testkit::journals::{External, is_possible};
use extant_testkit::scratch::Scratch;
use extant_testkit::system::can_mount_fuse;
use extant_testkit::{listing, oracle};
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
    let (code, errors) = run(&mut crate::commands::command::command(["ls", &root]));
    match readable {
        Readable::Yes => assert_eq!(code, Some(0), "{errors}"),
        Readable::No => assert!(code == Some(1) && errors.contains(reason), "{errors}"),
    }
}

/// Its journal may hold what is missing: e2fsck by our name writes nothing either.
fn not_mended(image: &Path) {
    let before = std::fs::read(image).expect("the image");
    for mode in ["-p", "-y"] {
        let output = extant(&["--as", "e2fsck", mode, &image.display().to_string()]);
        let code = output.status.code();
        assert!(code.is_some_and(|code| code >= 4), "{mode}: {code:?}: {output:?}");
        assert!(std::fs::read(image).expect("the image") == before, "{mode}: it was written");
    }
}

/// e2fsck by our name gives it a journal, or takes what is left of one away.
fn mended(image: &Path) {
    let output = extant(&["--as", "e2fsck", "-fy", &image.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    oracle::e2fsck(image).unwrap_or_else(|error| panic!("{error}\n{output:?}"));
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
    not_mended(&image);
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
    not_mended(&image);
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
fn a_volume_whose_journal_is_not_there_is_only_read_until_it_is_mended() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("journals-missing");
    let image = internal(&folder, &["ssv journal_inum 0"]);
    refused(&image, "names no inode of a journal", Readable::Yes);
    mended(&image);
    let image = internal(&folder, &["clri <8>"]);
    refused(&image, "journal: inode 8 is no regular file", Readable::Yes);
    mended(&image);
    let image = internal(&folder, &["ssv journal_uuid 00112233-4455-6677-8899-aabbccddeeff"]);
    refused(&image, "in an inode and one on another device", Readable::Yes);
    mended(&image);
    let image = internal(&folder, &["feature -has_journal needs_recovery"]);
    refused(&image, "asks for recovery, but the volume has no journal", Readable::No);
    let output = extant(&["replay", &image.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    mended(&image);
}

/// Runs a command with `--journal`; its standard output.
fn with_journal(volume: &External, words: &[&str], code: i32) -> String {
    let journal = volume.journal.display().to_string();
    let (command, rest) = words.split_first().expect("a command");
    let output = extant(&[&[*command, "--journal", &journal], rest].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn with_its_journal_a_volume_is_read_as_the_kernel_replays_it() {
    if !is_possible() {
        return;
    }
    let folder = Scratch::new("journals-given");
    let left = External::make(folder.path(), 1024, "").expect("it is made");
    left.under_load(7).expect("the kernel leaves it");
    let replayed = left.copy("kernel").expect("copied");
    let kernel = replayed.after_kernel().expect("it is mounted");
    let before = [&left.image, &left.journal].map(|file| std::fs::read(file).expect("read"));
    let name = left.image.display().to_string();
    let root = format!("{name}:/");
    let listed = with_journal(&left, &["ls", "-lR", "--json", "--sha256", &root], 0);
    let listed = listing::parse(&listed).expect("records");
    let differences = compare::entries(&kernel, &listed, &Options::copy());
    assert!(differences.is_empty() && kernel.len() > 10, "{differences:?}");
    let file = kernel.iter().find(|entry| entry.size > 100 && entry.sha256.is_some());
    let file = file.expect("the load made files");
    let inside = format!("{name}:/{}", file.path.display());
    assert!(!with_journal(&left, &["cat", &inside], 0).is_empty());
    assert!(with_journal(&left, &["stat", &inside], 0).contains(&file.size.to_string()));
    assert!(!with_journal(&left, &["tar", &name], 0).is_empty());
    let extracted = folder.join("extracted").display().to_string();
    with_journal(&left, &["extract", &name, &extracted], 0);
    with_journal(&left, &["diff", &name, &extracted], 0);
    let other = replayed.image.display().to_string();
    with_journal(&left, &["diff", &name, &other], 0);
    with_journal(&left, &["check", &name], 0);
    with_journal(&left, &["replay", "--dry-run", &name], 0);
    let after = [&left.image, &left.journal].map(|file| std::fs::read(file).expect("read"));
    assert!(before == after, "a reader wrote");
    // Without it: as its last checkpoint left it, and not judged.
    let alone = extant(&["ls", &root]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("is not replayed") && said.contains("--journal"), "{said}");
    assert_eq!(extant(&["check", &name]).status.code(), Some(12));
}

#[test]
fn with_its_journal_a_volume_is_written() {
    if !is_possible() {
        return;
    }
    let folder = Scratch::new("journals-written");
    let volume = External::make(folder.path(), 4096, "").expect("it is made");
    volume.under_load(9).expect("the kernel leaves it");
    let name = volume.image.display().to_string();
    let replayed = volume.copy("replayed").expect("copied");
    with_journal(&replayed, &["replay", &replayed.image.display().to_string()], 0);
    replayed.clean().unwrap_or_else(|said| panic!("{said}"));
    with_journal(&volume, &["mkdir", &format!("{name}:/made")], 0);
    let host = format!("{name}:/made/hosts");
    with_journal(&volume, &["cp", "/etc/hosts", &host], 0);
    with_journal(&volume, &["cp", "--log", "/dev/null/no", "/etc/passwd", &host], 0);
    volume.clean().unwrap_or_else(|said| panic!("{said}"));
    assert!(with_journal(&volume, &["cat", &host], 0).contains("root:"));
    with_journal(&volume, &["check", &name], 0);
    if can_mount_fuse() {
        let script = "cp /etc/hosts $EXTANT_MOUNT/mounted && cp -r /etc/init.d $EXTANT_MOUNT";
        with_journal(&volume, &["mount", &name, "--", "sh", "-c", script], 0);
        volume.clean().unwrap_or_else(|said| panic!("{said}"));
        let hosts = std::fs::read_to_string("/etc/hosts").expect("read");
        let mounted = format!("{name}:/mounted");
        assert_eq!(with_journal(&volume, &["cat", &mounted], 0), hosts);
        let words = format!("ro,journal_path={}", volume.journal.display());
        let read = extant(&["mount", "-o", &words, &name, "--", "sh", "-c", "ls $EXTANT_MOUNT"]);
        assert!(String::from_utf8_lossy(&read.stdout).contains("mounted"), "{read:?}");
    }
    let kernel = volume.after_kernel().expect("the kernel mounts it");
    assert!(kernel.iter().any(|entry| entry.path.ends_with("made/hosts")));
}

#[test]
fn e2fsck_replays_the_journal_that_it_is_given() {
    if !is_possible() {
        return;
    }
    let folder = Scratch::new("journals-e2fsck");
    let volume = External::make(folder.path(), 1024, "").expect("it is made");
    volume.under_load(11).expect("the kernel leaves it");
    let files = [&volume.image, &volume.journal];
    let read = || files.map(|file| std::fs::read(file).expect("read"));
    let [name, journal] = files.map(|file| file.display().to_string());
    let before = read();
    let e2fsck = |mode: &str| {
        let output = extant(&["--as", "e2fsck", mode, "-j", &journal, &name]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Its orphans wait, which is told; they are freed with -p.
    let shown = extant(&["--as", "e2fsck", "-fn", "-j", &journal, &name]);
    let lines = String::from_utf8_lossy(&shown.stdout).into_owned();
    let said = lines.lines().filter(|line| line.contains("volume.img: ") && !line.contains("***"));
    // A directory among them is in no other one, and is counted there.
    let of_directory = ["entry-unused", "directory-unreachable", "link-count", "group-directories"];
    let follows = |line: &str| of_directory.iter().any(|code| line.contains(code));
    let waits = |line: &str| line.contains("wait");
    assert!(lines.contains("Pass 5") && said.clone().all(|it| waits(it) || follows(it)), "{lines}");
    assert!(said.clone().any(waits) || said.clone().count() == 0, "{lines}");
    assert!(read() == before);
    let alone = extant(&["--as", "e2fsck", "-fn", &name]);
    assert!(!alone.status.success() && alone.stdout != shown.stdout, "{alone:?}");
    let other = folder.join("absent").display().to_string();
    let absent = extant(&["--as", "e2fsck", "-fn", "-j", &other, &name]);
    assert_eq!(absent.status.code(), Some(8));
    let (code, said) = e2fsck("-p");
    assert!(code.is_some_and(|code| code < 2) && read() != before, "{code:?}: {said}");
    volume.clean().unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn a_journal_that_is_not_the_volumes_is_refused_in_one_line() {
    if !is_possible() {
        return;
    }
    let folders = [Scratch::new("journals-one"), Scratch::new("journals-other")];
    let [one, other] = folders
        .each_ref()
        .map(|folder| External::make(folder.path(), 1024, "").expect("it is made"));
    let inside = internal(&folders[1], &[]);
    let before = [&one.image, &other.journal].map(|file| std::fs::read(file).expect("read"));
    for (image, journal, why) in [
        (&one.image, &other.journal, "is not the journal of"),
        (&one.image, &other.image, "it is a volume"),
        (&inside, &one.journal, "has its journal in itself"),
        (&one.image, &folders[0].join("absent"), "No such file"),
    ] {
        let (name, journal) = (image.display().to_string(), journal.display().to_string());
        let new = format!("{name}:/new");
        for words in [
            &["ls", "--journal", &journal, &format!("{name}:/")][..],
            &["check", "--journal", &journal, &name],
            &["mkdir", "--journal", &journal, &new],
            &["replay", "--journal", &journal, &name],
            &["mount", "--journal", &journal, &name, "--", "true"],
        ] {
            let output = extant(words);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && errors.contains(why), "{words:?}: {errors}");
            let lines = errors.lines().filter(|line| !line.starts_with("  hint: "));
            assert_eq!(lines.count(), 1, "{words:?}: {errors}");
        }
    }
    let after = [&one.image, &other.journal].map(|file| std::fs::read(file).expect("read"));
    assert!(before == after, "it was written");
}

#[test]
fn no_block_of_a_journal_on_another_device_is_in_a_file_beside_the_image() {
    if !is_possible() {
        return;
    }
    let folder = Scratch::new("journals-beside");
    let made = External::make(folder.path(), 1024, "").expect("a volume");
    made.under_load(14).expect("work of the kernel");
    let (image, journal) = (made.image.display().to_string(), made.journal.display().to_string());
    debug(&made.image, &["freeb 20000", "setb 20000"]);
    let repaired = extant(&["repair", "--json", "--journal", &journal, &image]);
    let document: serde_json::Value =
        serde_json::from_slice(&repaired.stdout).unwrap_or_else(|_| panic!("{repaired:?}"));
    made.clean().expect("a clean volume");
    let blocks = std::fs::metadata(&made.image).expect("the image").len() / 1024;
    let Some(undo) = document["undo"].as_str() else { return };
    // Records of a number and a sum follow the header, a block each.
    let kept = std::fs::read(undo).expect("the undo file");
    let records = document["blocks_written"].as_u64().expect("a number") as usize;
    let records = kept[64..].chunks_exact(12 + 1024).take(records);
    let numbers = records.map(|record| u64::from_le_bytes(record[..8].try_into().unwrap()));
    assert!(numbers.clone().all(|number| number < blocks), "{:?} of {blocks}", numbers.max());
}
