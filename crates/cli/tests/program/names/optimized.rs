//! What e2fsck makes smaller or faster on a volume where nothing is wrong, beside it: directories
//! that debugfs wrote without an index, extent trees with more blocks than they need.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{self, debugfs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories by how many names they have, and of how many the first are removed again.
const DIRECTORIES: [(u32, u32); 9] = [
    (15, 0),
    (50, 0),
    (70, 45),
    (70, 46),
    (300, 0),
    (300, 290),
    (700, 10),
    (3000, 0),
    (3000, 2900),
];
/// Files by how many extents they have, and which are taken away again.
const FILES: [(u64, &[(u64, u64)]); 8] = [
    (10, &[]),
    (10, &[(3, 10)]),
    (10, &[(4, 10)]),
    (200, &[(10, 190)]),
    (200, &[]),
    (400, &[(80, 330)]),
    (400, &[(10, 80), (90, 160), (170, 330)]),
    (600, &[(60, 500)]),
];

/// A volume with all of them, as debugfs writes it.
fn volume(folder: &Scratch, words: &[&str]) -> Vec<u8> {
    let (image, script, sparse) =
        (folder.join("base.img"), folder.join("script"), folder.join("sparse"));
    let _ = std::fs::remove_file(&image);
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-N", "10000"]).args(words);
    let (code, said) = run(mke2fs.arg(&image).arg("48M"));
    assert_eq!(code, Some(0), "{said}");
    let block: u64 = if words.contains(&"4096") { 4096 } else { 1024 };
    let mut lines = String::new();
    for (at, (names, removed)) in DIRECTORIES.into_iter().enumerate() {
        writeln!(lines, "cd /\nmkdir d{at}\ncd d{at}").unwrap();
        (0..names).for_each(|name| writeln!(lines, "mknod n{name:030} p").unwrap());
        (0..removed).for_each(|name| writeln!(lines, "rm n{name:030}").unwrap());
    }
    writeln!(lines, "cd /").unwrap();
    for (at, (extents, taken)) in FILES.into_iter().enumerate() {
        let path = format!("{}{at}", sparse.display());
        let file = File::create(&path).unwrap();
        (0..extents)
            .for_each(|it| file.write_all_at(&[at as u8 + 1; 512], it * 2 * block).unwrap());
        writeln!(lines, "write {path} f{at}").unwrap();
        for (from, to) in taken {
            writeln!(lines, "punch f{at} {} {}", 2 * from, 2 * to - 1).unwrap();
        }
    }
    std::fs::write(&script, lines).unwrap();
    run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
    // What debugfs counts wrong is mended, and nothing else.
    run(theirs("e2fsck").args(["-fy", "-E", "fixes_only"]).arg(&image));
    let found = run(theirs("e2fsck").args(["-fn"]).arg(&image)).1;
    assert!(!found.contains("WARNING"), "{found}");
    std::fs::read(&image).unwrap()
}

/// "files/.., blocks/.." of the last line.
fn held(said: &str) -> String {
    let line = said.lines().rev().find(|line| line.contains(" blocks")).unwrap_or_default();
    let words: Vec<&str> =
        line.split(' ').filter(|word| word.contains('/') && !word.starts_with('/')).collect();
    words.join(" ")
}

/// The sizes of all files and directories, and which have an index.
fn shapes(image: &Path) -> String {
    let mut all = String::new();
    for name in (0..DIRECTORIES.len()).map(|at| format!("d{at}")) {
        let said = debugfs(image, &format!("stat {name}")).unwrap();
        let word = |before: &str| {
            let rest = said.split(before).nth(1).unwrap_or_default();
            rest.split_whitespace().next().unwrap_or_default().to_owned()
        };
        writeln!(all, "{name} {} {} {}", word("Flags:"), word("Size:"), word("Blockcount:"))
            .unwrap();
    }
    for name in (0..FILES.len()).map(|at| format!("f{at}")) {
        let said = debugfs(image, &format!("stat {name}")).unwrap();
        let blocks = said.split("Blockcount:").nth(1).unwrap_or_default();
        writeln!(all, "{name} {:?}", blocks.split_whitespace().next()).unwrap();
    }
    all
}

/// What the kernel finds: each name is looked up, each file read.
fn found(image: &Path) -> Vec<String> {
    let mounted = oracle::mount_loop(image, oracle::Access::ReadOnly, "").expect("mounted");
    let mut all = Vec::new();
    for (at, (names, removed)) in DIRECTORIES.into_iter().enumerate() {
        for name in 0..names {
            let path = mounted.path().join(format!("d{at}/n{name:030}"));
            assert_eq!(path.symlink_metadata().is_ok(), name >= removed, "{}", path.display());
        }
        let listed = std::fs::read_dir(mounted.path().join(format!("d{at}"))).unwrap().count();
        all.push(format!("d{at}: {listed}"));
    }
    for at in 0..FILES.len() {
        let bytes = std::fs::read(mounted.path().join(format!("f{at}"))).unwrap();
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        all.push(format!("f{at}: {} {sum}", bytes.len()));
    }
    mounted.unmount().expect("unmounted");
    all
}

#[test]
fn directories_and_trees_are_as_e2fsck_makes_them() {
    if !require("e2fsck") || !require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("names-optimized");
    let volumes = [
        &["-b", "1024", "-O", "^has_journal"][..],
        &["-b", "1024", "-O", "^metadata_csum,^has_journal"],
        &["-b", "4096"],
    ];
    for words in volumes.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let base = volume(&folder, words);
        let image = folder.join("base.img");
        let before = found(&image);
        let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
        for options in
            ["-fn", "-p", "-fp", "-y", "-fy -E no_optimize_extents", "-fy -E fixes_only", "-fy"]
        {
            let _ = [&ours, &others].map(|copy| std::fs::write(copy, &base).unwrap());
            let options: Vec<&str> = options.split(' ').collect();
            let (our_code, our_words) = run(extant("e2fsck").args(&options).arg(&ours));
            let (their_code, their_words) = run(theirs("e2fsck").args(&options).arg(&others));
            let what = format!("{words:?} {options:?}: {our_words}\n{their_words}");
            assert_eq!(our_code, their_code, "{what}");
            assert_eq!(shapes(&ours), shapes(&others), "{what}");
            assert_eq!(held(&our_words), held(&their_words), "{what}");
            let is_changed = std::fs::read(&ours).unwrap() != base;
            let says_so = our_words.contains("FILE SYSTEM WAS MODIFIED");
            assert_eq!(says_so, their_words.contains("FILE SYSTEM WAS MODIFIED"), "{what}");
            assert!(is_changed || !says_so, "{what}");
            if options == ["-fy"] {
                e2fsck(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let judged = run(theirs("e2fsck").args(["-fn"]).arg(&ours));
            assert_eq!(judged.0, Some(0), "{what}\n{}", judged.1);
            if is_changed {
                assert_eq!(found(&ours), before, "{what}");
                let again = run(extant("e2fsck").args(&options).arg(&ours));
                assert_eq!(again.0, Some(0), "{what}\n{}", again.1);
                assert!(!again.1.contains("MODIFIED"), "{what}\n{}", again.1);
            }
        }
    }
}

/// lost+found keeps its blocks, whatever was in it; a directory of clusters is counted right.
#[test]
fn what_is_lost_keeps_its_place() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-optimized-lost");
    for features in ["^has_journal", "bigalloc,^has_journal", "^dir_index", "casefold", "quota"] {
        let (image, script) = (folder.join("lost.img"), folder.join("script"));
        let _ = std::fs::remove_file(&image);
        let mut mke2fs = theirs("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features]);
        let (code, said) = run(mke2fs.arg(&image).arg("32M"));
        assert_eq!(code, Some(0), "{said}");
        let mut lines = String::from("mkdir d\ncd /lost+found\n");
        (0..30).for_each(|name| writeln!(lines, "mknod n{name:030} p").unwrap());
        writeln!(lines, "cd /d").unwrap();
        (0..300).for_each(|name| writeln!(lines, "mknod n{name:030} p").unwrap());
        (0..280).for_each(|name| writeln!(lines, "rm n{name:030}").unwrap());
        std::fs::write(&script, lines).unwrap();
        run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
        let other = folder.join("theirs.img");
        std::fs::copy(&image, &other).unwrap();
        let (our_code, our_words) = run(extant("e2fsck").args(["-fy"]).arg(&image));
        let (their_code, their_words) = run(theirs("e2fsck").args(["-fy"]).arg(&other));
        let what = format!("{features}: {our_words}\n{their_words}");
        assert_eq!(our_code, their_code, "{what}");
        // e2fsck 1.47.0 counts quotas before it makes directories smaller, and is wrong then.
        if features != "quota" {
            assert_eq!(held(&our_words), held(&their_words), "{what}");
        }
        e2fsck(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// Blocks that a directory lacks are put there, or closed over: the same are in use after it as
/// after theirs, and no name is lost.
#[test]
fn holes_in_directories_are_filled_as_theirs_does() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-holes");
    for words in [
        &["-O", "^has_journal"][..],
        &["-O", "^extent,^64bit,^has_journal"],
        &["-O", "bigalloc,^has_journal", "-C", "4096"],
    ] {
        for holes in [&["2 2"][..], &["4 7"], &["1 1", "5 6", "8 11"]] {
            let (image, script) = (folder.join("ours.img"), folder.join("script"));
            let _ = std::fs::remove_file(&image);
            let mut mke2fs = theirs("mke2fs");
            mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024"]).args(words);
            let (code, said) = run(mke2fs.arg(&image).arg("32M"));
            assert_eq!(code, Some(0), "{said}");
            let mut lines = String::from("mkdir d\ncd d\n");
            (0..400).for_each(|name| writeln!(lines, "mknod n{name:030} p").unwrap());
            // None of the names is in what goes.
            (0..375).for_each(|name| writeln!(lines, "rm n{name:030}").unwrap());
            writeln!(lines, "cd /").unwrap();
            holes.iter().for_each(|hole| writeln!(lines, "punch d {hole}").unwrap());
            std::fs::write(&script, lines).unwrap();
            run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
            let other = folder.join("theirs.img");
            std::fs::copy(&image, &other).unwrap();
            let options = ["-fy"];
            let (our_code, our_words) = run(extant("e2fsck").args(options).arg(&image));
            let (their_code, their_words) = run(theirs("e2fsck").args(options).arg(&other));
            let what = format!("{words:?} {holes:?}: {our_words}\n{their_words}");
            assert_eq!(our_code, their_code, "{what}");
            // e2fsck 1.47.0 moves blocks over holes in clusters, and clears the rest as disordered.
            if !words.contains(&"-C") {
                assert_eq!(held(&our_words), held(&their_words), "{what}");
            }
            let names = debugfs(&image, "ls -p /d").unwrap().matches("/n0000").count();
            assert_eq!(names, 25, "{what}");
            let judged = run(theirs("e2fsck").args(["-fn"]).arg(&image));
            assert_eq!(judged.0, Some(0), "{what}\n{}", judged.1);
        }
    }
}

/// A volume with a directory of that many names, and what debugfs is told after.
fn one_directory(folder: &Scratch, names: u32, then: &[&str]) -> PathBuf {
    let (image, script) = (folder.join("one.img"), folder.join("script"));
    let _ = std::fs::remove_file(&image);
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal"]);
    let (code, said) = run(mke2fs.arg(&image).arg("16M"));
    assert_eq!(code, Some(0), "{said}");
    let mut lines = String::from("mkdir d\ncd d\n");
    (0..names).for_each(|name| writeln!(lines, "write /dev/null n{name:030}").unwrap());
    writeln!(lines, "cd /").unwrap();
    then.iter().for_each(|line| writeln!(lines, "{line}").unwrap());
    std::fs::write(&script, lines).unwrap();
    run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
    image
}

/// Both on copies, with the same options: codes, and what is in use after.
fn beside_theirs(image: &Path, options: &[&str]) -> [(Option<i32>, String, String); 2] {
    let other = image.with_extension("other");
    std::fs::copy(image, &other).unwrap();
    let ours = run(extant("e2fsck").args(options).arg(image));
    let others = run(theirs("e2fsck").args(options).arg(&other));
    [ours, others].map(|(code, said)| (code, held(&said), said))
}

/// An index that needs more blocks than its directory had is no problem that was mended.
#[test]
fn a_directory_that_grows_by_its_index_is_no_damage() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-grows");
    for options in [["-fp"], ["-fy"]] {
        let image = one_directory(&folder, 300, &[]);
        let [ours, others] = beside_theirs(&image, &options);
        assert_eq!((ours.0, &ours.1), (others.0, &others.1), "{}\n{}", ours.2, others.2);
        assert!(!ours.2.contains("FIXED"), "{}", ours.2);
        e2fsck(&image).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    }
}

/// Names that are there twice are there once in the new index.
#[test]
fn an_index_has_no_name_twice() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-doubled");
    let image = one_directory(&folder, 300, &[]);
    let [from, to] = [8, 7].map(|block| {
        let place = debugfs(&image, &format!("bmap d {block}")).unwrap();
        place.trim().parse::<usize>().unwrap() * 1024
    });
    // A leaf is there twice, sealed as of the same directory.
    let mut bytes = std::fs::read(&image).unwrap();
    bytes.copy_within(from..from + 1024, to);
    std::fs::write(&image, &bytes).unwrap();
    let [ours, others] = beside_theirs(&image, &["-fy"]);
    assert_eq!((ours.0, &ours.1), (others.0, &others.1), "{}\n{}", ours.2, others.2);
    e2fsck(&image).unwrap_or_else(|error| panic!("{error}"));
    let again = run(extant("e2fsck").args(["-fy"]).arg(&image));
    assert!(again.0 == Some(0) && !again.1.contains("twice"), "{}", again.1);
}

/// A directory whose mode says that it is a file: its files have no name then, and a person has to
/// say what it is.
#[test]
fn nothing_is_freed_without_asking_where_a_directory_is_taken_for_a_file() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-mode");
    let image = one_directory(&folder, 60, &["sif d mode 0100644"]);
    let before = std::fs::read(&image).unwrap();
    let [ours, others] = beside_theirs(&image, &["-fp"]);
    assert_eq!((ours.0, others.0), (Some(4), Some(4)), "{}\n{}", ours.2, others.2);
    assert!(std::fs::read(&image).unwrap() == before, "{}", ours.2);
}
