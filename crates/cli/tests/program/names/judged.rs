//! e2fsck, dumpe2fs and e2label beside theirs: exit codes, what is written, what is printed.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{debugfs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// What dumpe2fs says of the history of a volume.
fn history(image: &Path) -> Vec<String> {
    let (_, text) = run(theirs("dumpe2fs").arg("-h").arg(image));
    let kept = ["Filesystem state", "Mount count", "Filesystem features"];
    let lines = text.lines().filter(|line| kept.iter().any(|kept| line.starts_with(kept)));
    lines.map(str::to_owned).collect()
}

/// A volume of 8 MiB, and what is done to it with debugfs.
fn volume(image: &Path, requests: &[&str]) {
    let _ = std::fs::remove_file(image);
    let (code, said) = run(theirs("mkfs.ext4").arg("-q").arg(image).arg("8M"));
    assert_eq!(code, Some(0), "{said}");
    for request in requests {
        let mut command = Command::new("debugfs");
        let (_, said) = run(command.args(["-w", "-R", request]).arg(image));
        assert!(!said.contains("not found"), "{request}: {said}");
    }
}

/// A transaction that was not yet replayed, with a copy for a block that nothing uses.
fn leave_transaction(image: &Path, folder: &Scratch) {
    let script = folder.join("script");
    std::fs::write(&script, "jo\njw -b 7000 /dev/zero\njc\n").unwrap();
    let (_, said) = run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(image));
    assert!(history(image).iter().any(|line| line.contains("needs_recovery")), "{said}");
}

#[test]
fn e2fsck_ends_and_writes_as_theirs() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-e2fsck");
    let [base, ours, others] = ["base.img", "ours.img", "theirs.img"].map(|name| folder.join(name));
    let states: [(&str, &[&str], bool); 4] = [
        ("clean", &["ssv mnt_count 3"], false),
        ("not clean", &["ssv state 0", "ssv mnt_count 3"], false),
        ("with a journal", &[], true),
        ("due", &["ssv max_mnt_count 2", "ssv mnt_count 3"], false),
    ];
    for (state, requests, has_transaction) in states {
        volume(&base, requests);
        if has_transaction {
            leave_transaction(&base, &folder);
        }
        for words in ["-p", "-fp", "-f -y", "-n", "-fn", "-a -v -C0 -t"] {
            for copy in [&ours, &others] {
                std::fs::copy(&base, copy).unwrap();
            }
            let words: Vec<&str> = words.split(' ').collect();
            let (our_code, our_words) = run(extant("e2fsck").args(&words).arg(&ours));
            let (their_code, their_words) = run(theirs("e2fsck").args(&words).arg(&others));
            let shown = format!("{state}, {words:?}: {our_words}\nbeside {their_words}");
            assert_eq!(our_code, their_code, "{shown}");
            assert_eq!(history(&ours), history(&others), "{shown}");
            if words.contains(&"-n") || words.contains(&"-fn") {
                let same = std::fs::read(&base).unwrap() == std::fs::read(&ours).unwrap();
                assert!(same, "{shown}: it was written");
            } else if history(&ours)[1].contains("clean") {
                e2fsck(&ours).unwrap_or_else(|error| panic!("{shown}: {error}"));
            }
        }
    }
}

#[test]
fn what_is_damaged_is_mended_with_the_exit_code_of_e2fsck() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("names-damaged");
    let image = folder.join("x.img");
    for with_journal in [false, true] {
        volume(&image, &["ssv free_blocks_count 17", "sif <11> links_count 9"]);
        if with_journal {
            leave_transaction(&image, &folder);
        }
        let before = std::fs::read(&image).unwrap();
        for words in ["-fn", "-fp", "-fy"] {
            let [(their_code, _), (code, said)] =
                [theirs as fn(&str) -> Command, extant].map(|program| {
                    std::fs::write(&image, &before).unwrap();
                    run(program("fsck.ext4").arg(words).arg(&image))
                });
            assert_eq!(code, their_code, "{words}: {said}");
            assert!(said.contains("links"), "{words}: {said}");
            match words {
                "-fn" => assert!(before == std::fs::read(&image).unwrap(), "it was written"),
                _ => e2fsck(&image).unwrap_or_else(|error| panic!("{words}: {error}\n{said}")),
            }
        }
    }
}

#[test]
fn e2fsck_refuses_with_its_exit_codes() {
    let folder = Scratch::new("names-e2fsck-words");
    let text = folder.join("text");
    std::fs::write(&text, "no volume").unwrap();
    let text = text.to_str().unwrap();
    let empty = folder.join("absent");
    let absent = empty.to_str().unwrap();
    for (words, code) in [
        (vec!["-Z"], 16),
        (vec!["-p", "-n", text], 16),
        (vec!["-p", text], 8),
        (vec!["-p", absent], 8),
        (vec!["-l", "list", "-p", text], 16),
        (vec!["-V"], 0),
    ] {
        let (found, said) = run(extant("e2fsck").args(&words));
        assert_eq!(found, Some(code), "{words:?}: {said}");
    }
}

#[test]
fn dumpe2fs_prints_the_same_lines() {
    if !require("dumpe2fs") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("names-dumpe2fs");
    let image = folder.join("x.img");
    let rows = [
        ("mkfs.ext4", "-L label", "64M"),
        ("mkfs.ext2", "-r 0", "20M"),
        ("mkfs.ext3", "-M /mnt -e panic", "64M"),
        ("mkfs.ext4", "-O quota,project,orphan_file,metadata_csum_seed", "600M"),
        ("mkfs.ext4", "-O casefold,encrypt,inline_data -E stride=4,stripe_width=8", "64M"),
    ];
    for (name, options, size) in rows {
        let _ = std::fs::remove_file(&image);
        let mut command = theirs(name);
        let words = options.split(' ');
        let (code, said) = run(command.arg("-q").args(words).arg(&image).arg(size));
        assert_eq!(code, Some(0), "{said}");
        for words in
            [vec![], vec!["-h"], vec!["-x"], vec!["-o", "superblock=8193", "-h"], vec!["-b"]]
        {
            if words.contains(&"superblock=8193") && size == "600M" {
                continue;
            }
            let of = |command: &mut Command| {
                let output = command.args(&words).arg(&image).env("TZ", "UTC").output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{options} {words:?}");
                String::from_utf8(output.stdout).unwrap()
            };
            let (ours, others) = (of(&mut extant("dumpe2fs")), of(&mut theirs("dumpe2fs")));
            let pairs = ours.lines().zip(others.lines());
            let differs = pairs.clone().find(|(our, their)| our != their);
            assert_eq!(differs, None, "{options} {words:?}");
            assert_eq!(ours.lines().count(), others.lines().count(), "{options} {words:?}");
        }
    }
}

#[test]
fn e2label_shows_and_sets_in_all_copies() {
    if !require("e2label") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("names-e2label");
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    for options in ["-O metadata_csum", "-O ^metadata_csum", "-t ext2", "-O metadata_csum_seed"] {
        let _ = std::fs::remove_file(&ours);
        let mut command = theirs("mkfs.ext4");
        let (code, said) = run(command.arg("-q").args(options.split(' ')).arg(&ours).arg("64M"));
        assert_eq!(code, Some(0), "{said}");
        std::fs::copy(&ours, &others).unwrap();
        for label in ["one", "sixteen-letters-", "", "longer-than-sixteen-letters"] {
            let (our_code, our_words) = run(extant("e2label").arg(&ours).arg(label));
            let (their_code, _) = run(theirs("e2label").arg(&others).arg(label));
            assert_eq!(our_code, their_code, "{options} {label}: {our_words}");
            let places = crate::names::option_strings::compare(&others, &ours);
            assert!(places.is_empty(), "{options} {label}: {places:?}");
            let shown = run(extant("e2label").arg(&ours)).1;
            assert_eq!(shown, run(theirs("e2label").arg(&others)).1, "{options}");
            debugfs(&ours, "stats").unwrap();
        }
    }
    assert_eq!(run(&mut extant("e2label")).0, Some(1));
    assert_eq!(run(extant("e2label").arg("/etc/hostname")).0, Some(1));
}
