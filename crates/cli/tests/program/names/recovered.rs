//! Volumes that were not unmounted, under the name e2fsck: orphans, and logs that are damaged.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{self, debugfs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume as a power cut leaves it while three files without a name were open.
fn left(folder: &Scratch, features: &str) -> PathBuf {
    let (image, cut) = (folder.join("mounted.img"), folder.join("cut.img"));
    let _ = std::fs::remove_file(&image);
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features]);
    let (code, said) = run(mke2fs.arg(&image).arg("32M"));
    assert_eq!(code, Some(0), "{said}");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounted");
    let names = ["one", "two", "three"].map(|name| mounted.path().join(name));
    let held = names.each_ref().map(|name| {
        std::fs::write(name, vec![7; 300_000]).unwrap();
        File::open(name).unwrap()
    });
    extant_testkit::oracle::sync(mounted.path());
    names.iter().for_each(|name| std::fs::remove_file(name).unwrap());
    extant_testkit::oracle::sync(mounted.path());
    std::fs::copy(&image, &cut).unwrap();
    drop(held);
    mounted.unmount().expect("unmounted");
    cut
}

#[test]
fn orphans_are_freed_as_theirs_frees_them() {
    if !require("e2fsck") || !require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("names-orphans");
    let kinds = ["orphan_file", "^orphan_file", "^orphan_file,^metadata_csum"];
    for features in kinds.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let cut = left(&folder, features);
        let replayed = folder.join("replayed.img");
        std::fs::copy(&cut, &replayed).unwrap();
        run(Command::new("debugfs").args(["-w", "-R", "jr"]).arg(&replayed));
        let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
        for (state, base) in [("cut", &cut), ("replayed", &replayed)] {
            for words in ["-p", "-fp", "-y", "-fy", "-n", "-fn", "-y -E journal_only"] {
                let _ = [&ours, &others].map(|copy| std::fs::copy(base, copy).unwrap());
                let words: Vec<&str> = words.split(' ').collect();
                let (our_code, our_words) = run(extant("e2fsck").args(&words).arg(&ours));
                let (their_code, their_words) = run(theirs("e2fsck").args(&words).arg(&others));
                let what = format!("{features}, {state}, {words:?}: {our_words}\n{their_words}");
                // e2fsck 1.47.0 forgets the file of orphans, finds it again and empties it (1).
                let forgets = features == "orphan_file" && !words[0].contains('f');
                let expected = if forgets && their_code == Some(1) { Some(0) } else { their_code };
                assert_eq!(our_code, expected, "{what}");
                if words[0].contains('n') {
                    let same = std::fs::read(base).unwrap() == std::fs::read(&ours).unwrap();
                    assert!(same, "{what}: it was written");
                } else {
                    e2fsck(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(our_words.contains("3 deleted inodes freed"), "{what}");
                }
            }
        }
    }
}

/// A volume with two transactions in its log, the second of which does not fit its checksums.
fn damaged(folder: &Scratch) -> PathBuf {
    let (image, script) = (folder.join("damaged.img"), folder.join("script"));
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "metadata_csum"]);
    let (code, said) = run(mke2fs.arg(&image).arg("16M"));
    assert_eq!(code, Some(0), "{said}");
    let transactions = "jo -c\njw -b 7000 /dev/zero\njc\njo\njw -b 7001 /dev/zero\njc\n";
    std::fs::write(&script, transactions).unwrap();
    run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
    let start: usize = debugfs(&image, "bmap <8> 0").unwrap().trim().parse().unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    // Superblock; descriptor, copy, commit; descriptor, copy.
    bytes[(start + 5) * 1024 + 100] ^= 1;
    std::fs::write(&image, bytes).unwrap();
    image
}

fn run_on(copy: &Path, image: &Path, name: &str, words: &str) -> (Option<i32>, String) {
    std::fs::copy(image, copy).unwrap();
    run(extant(name).args(words.split(' ')).arg(copy))
}

#[test]
fn a_log_that_fails_its_checksum_is_said_and_the_volume_checked() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-damaged-log");
    let image = damaged(&folder);
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    for words in ["-p", "-a", "-fp", "-y", "-fy", "-n", "-fn"] {
        std::fs::copy(&image, &others).unwrap();
        let (their_code, their_words) = run(theirs("e2fsck").arg(words).arg(&others));
        let (our_code, our_words) = run_on(&ours, &image, "e2fsck", words);
        let what = format!("{words}: {our_words}\n{their_words}");
        assert_eq!(our_code, their_code, "{what}");
        let said = our_words.lines().filter(|line| line.contains("transaction 2 is damaged"));
        assert_eq!(said.count(), 1, "{what}");
        if !words.contains('n') {
            assert_eq!(our_code, Some(1), "{what}");
            e2fsck(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    // A label is set after the replay, which says it too.
    let (code, said) = {
        std::fs::copy(&image, &ours).unwrap();
        run(extant("e2label").arg(&ours).arg("new"))
    };
    assert!(code == Some(0) && said.contains("transaction 2 is damaged"), "{code:?}: {said}");
    assert_eq!(run(extant("e2label").arg(&ours)).1, "new\n");
}

#[test]
fn what_is_recovered_or_mended_e2undo_takes_back() {
    if !require("e2undo") || !require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("names-undo");
    let counted = folder.join("counted.img");
    std::fs::copy(left(&folder, "orphan_file"), &counted).unwrap();
    run(theirs("e2fsck").arg("-fy").arg(&counted));
    run(Command::new("debugfs").args(["-w", "-R", "sif / links_count 9"]).arg(&counted));
    let cut = left(&folder, "^orphan_file");
    let (image, undo) = (folder.join("image.img"), folder.join("before.e2undo"));
    for base in [cut, damaged(&folder), counted] {
        for words in ["-p", "-fp", "-y", "-fy", "-y -E journal_only", "-fy -E discard"] {
            std::fs::copy(&base, &image).unwrap();
            let mut ours = extant("e2fsck");
            ours.arg("-z").arg(&undo).args(words.split(' '));
            let (code, said) = run(ours.arg(&image));
            let what = format!("{}, {words}: {code:?} {said}", base.display());
            assert!(code.is_some_and(|code| code < 8), "{what}");
            let is_same = || std::fs::read(&base).unwrap() == std::fs::read(&image).unwrap();
            assert_eq!(undo.exists(), !is_same(), "{what}");
            if undo.exists() {
                assert!(said.contains(&format!("e2undo {}", undo.display())), "{what}");
                let (code, said) = run(Command::new("e2undo").arg(&undo).arg(&image));
                assert_eq!(code, Some(0), "{what}: {said}");
                assert!(is_same(), "{what}: it is not as it was");
                std::fs::remove_file(&undo).unwrap();
            }
        }
    }
}

#[test]
fn a_file_for_e2undo_is_never_one_that_holds_something() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-undo-kept");
    let (image, notes) = (damaged(&folder), folder.join("notes"));
    std::fs::write(&notes, "notes").unwrap();
    let before = std::fs::read(&image).unwrap();
    for file in [&notes, &image] {
        for program in [theirs as fn(&str) -> Command, extant] {
            let (code, said) = run(program("e2fsck").arg("-fy").arg("-z").arg(file).arg(&image));
            assert_eq!(code, Some(8), "{said}");
            assert!(std::fs::read(&image).unwrap() == before, "{said}");
            assert_eq!(std::fs::read(&notes).unwrap(), b"notes", "{said}");
        }
    }
    // Without a name it is one of the image's in a folder for them.
    let mut ours = extant("e2fsck");
    ours.args(["-fy", "-z", ""]).arg(&image).env("E2FSPROGS_UNDO_DIR", folder.path());
    let (code, said) = run(&mut ours);
    assert_eq!(code, Some(1), "{said}");
    let undo = folder.join("e2fsck-damaged.img.e2undo");
    let (code, said) = run(Command::new("e2undo").arg(&undo).arg(&image));
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(&image).unwrap() == before);
}

/// A volume with forty directories of which only the log knows.
fn waiting(folder: &Scratch) -> PathBuf {
    let (image, cut) = (folder.join("filled.img"), folder.join("waiting.img"));
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^flex_bg"]);
    let (code, said) = run(mke2fs.arg(&image).arg("24M"));
    assert_eq!(code, Some(0), "{said}");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounted");
    let base = mounted.path().join("base");
    std::fs::create_dir(&base).unwrap();
    oracle::sync(mounted.path());
    (0..40).for_each(|number| std::fs::create_dir(base.join(number.to_string())).unwrap());
    let committed = File::open(&base).and_then(|folder| folder.sync_all());
    committed.expect("what a log holds");
    std::fs::copy(&image, &cut).unwrap();
    mounted.unmount().expect("unmounted");
    cut
}

/// Of a log that waits only the first superblock says: what it holds is kept where that one is
/// lost, or leads to another file, or a copy is named.
#[test]
fn a_log_that_waits_is_not_lost_with_what_leads_to_it() {
    if !require("e2fsck") || !require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("names-waiting");
    let (base, image) = (waiting(&folder), folder.join("image.img"));
    let lost = |image: &Path| {
        let mut bytes = std::fs::read(image).unwrap();
        bytes[1024..2048].fill(0);
        std::fs::write(image, bytes).unwrap();
    };
    let edited = |request: &'static str| {
        move |image: &Path| {
            run(Command::new("debugfs").args(["-w", "-R", request]).arg(image));
        }
    };
    // Number 12 is a directory, 40 is no file yet.
    let (whole, other) = (|_: &Path| {}, edited("ssv journal_inum 12"));
    let (unused, cleared) = (edited("ssv journal_inum 40"), edited("clri <8>"));
    type Row<'a> = (&'a str, &'a dyn Fn(&Path), &'a [&'a str]);
    let rows: [Row<'_>; 5] = [
        ("a copy", &whole, &["-fy -b 8193", "-p -b 8193", "-y -b 8193 -E journal_only"]),
        ("lost", &lost, &["-fy", "-y"]),
        ("another file", &other, &["-fy", "-p", "-y"]),
        ("unused", &unused, &["-fy", "-p"]),
        ("cleared", &cleared, &["-fy", "-p", "-fp"]),
    ];
    for (state, damage, runs) in rows {
        for words in runs.iter().copied().chain(["repair"]) {
            std::fs::copy(&base, &image).unwrap();
            damage(&image);
            let (code, said) = match words {
                "repair" => run(Command::new(extant("e2fsck").get_program())
                    .args(["repair", "--safe"])
                    .arg(&image)),
                words => run(extant("e2fsck").args(words.split(' ')).arg(&image)),
            };
            let what = format!("{state}, {words}: {said}");
            let expected = if (state, words) == ("a copy", "repair") { 0 } else { 1 };
            assert_eq!(code, Some(expected), "{what}");
            e2fsck(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            let listed = debugfs(&image, "ls -p /base").unwrap();
            let names = listed.lines().filter(|line| line.starts_with('/')).count();
            assert_eq!(names, 42, "{what}");
        }
    }
}

/// The copies of blocks that a log holds are written whatever a volume's features are, as theirs
/// does; and where no log waits, a copy of the superblock is enough.
#[test]
fn a_log_of_a_volume_that_is_not_written_here_is_replayed_as_theirs_does() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-foreign-log");
    let [image, waiting, script, block] =
        ["image.img", "waiting.img", "script", "block"].map(|name| folder.join(name));
    std::fs::write(&block, vec![0x5a; 1024]).unwrap();
    std::fs::write(&script, format!("jo\njw -b 7000 {}\njc\n", block.display())).unwrap();
    let lost = |image: &Path| {
        let mut bytes = std::fs::read(image).unwrap();
        bytes[1024..2048].fill(0);
        std::fs::write(image, bytes).unwrap();
    };
    for (features, waits) in [
        ("casefold", true),
        ("casefold", false),
        ("casefold,^metadata_csum", true),
        ("shared_blocks", true),
    ] {
        let _ = std::fs::remove_file(&waiting);
        let mut mke2fs = theirs("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024"]);
        // mke2fs does not make the other one.
        if features.starts_with("casefold") {
            mke2fs.args(["-O", features]);
        }
        let (code, said) = run(mke2fs.arg(&waiting).arg("16M"));
        assert_eq!(code, Some(0), "{said}");
        if features == "shared_blocks" {
            let request = format!("feature {features}");
            run(Command::new("debugfs").args(["-w", "-R", &request]).arg(&waiting));
        }
        if waits {
            run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&waiting));
        }
        let copy = ["-fy -b 8193", "-p -b 8193", "lost -fy", "lost -y"];
        let whole = ["-p", "-fp", "-y", "-fy", "-y -E journal_only", "repair"];
        for words in whole.into_iter().chain(copy) {
            let [ours, others] = [&image, &folder.join("theirs.img")].map(Clone::clone);
            let _ = [&ours, &others].map(|copy| std::fs::copy(&waiting, copy).unwrap());
            let words = match words.strip_prefix("lost ") {
                Some(words) => {
                    [&ours, &others].into_iter().for_each(|copy| lost(copy));
                    words
                }
                None => words,
            };
            let (code, said) = match words {
                "repair" => run(Command::new(extant("e2fsck").get_program())
                    .args(["repair", "--safe"])
                    .arg(&ours)),
                words => run(extant("e2fsck").args(words.split(' ')).arg(&ours)),
            };
            let what = format!("{features}, {waits}, {words}: {said}");
            if words != "repair" {
                let (their_code, their_words) =
                    run(theirs("e2fsck").args(words.split(' ')).arg(&others));
                assert_eq!(code, their_code, "{what}\n{their_words}");
            }
            e2fsck(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
            let bytes = std::fs::read(&ours).unwrap();
            let is_there = bytes[7000 * 1024..7001 * 1024].iter().all(|byte| *byte == 0x5a);
            assert_eq!(is_there, waits, "{what}");
        }
    }
}
