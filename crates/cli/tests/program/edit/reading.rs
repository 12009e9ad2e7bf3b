//! find and getfattr beside find(1) and getfattr(1) on a mount of the kernel.
use crate::edit::bench::{Bench, done, extant, has_tools, said};
use extant_testkit::command::program;
use extant_testkit::oracle::{Access, can_mount, mount_loop};
use std::path::Path;

const TESTS: &[&str] = &[
    "-name *a*",
    "-iname PLAIN",
    "-path */deep/*",
    "-name [a-m]*",
    "-type f",
    "-type d,l",
    "-size +1k",
    "-size -2",
    "-size 5c",
    "-perm 640",
    "-perm -4000",
    "-perm /022",
    "-perm -u=x",
    "-uid 1000",
    "-links +1",
    "-empty",
    "-maxdepth 1 -type f",
    "-mindepth 2 -type f",
    "! -type f -a ! -type d",
    "( -name plain -o -name link ) -type l",
    "-type p -o -name nothing",
    "-newermt 2015-01-01",
];

#[test]
fn find_finds_what_find_finds() {
    if !has_tools() || !can_mount() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4"]);
    let tree = bench.tree().display().to_string();
    done(&["cp", "-a", &tree, &format!("{image}:/t")]);
    let place = format!("{image}:/t");
    let found: Vec<String> = TESTS
        .iter()
        .map(|test| {
            let mut words = vec!["find", &place];
            words.extend(test.split(' '));
            words.push("-print0");
            done(&words)
        })
        .collect();
    let dump = done(&["getfattr", "-R", "-d", "-m", "-", "-h", &place]);
    let mounted = mount_loop(Path::new(&image), Access::ReadOnly, "").expect("a mount");
    for (test, ours) in TESTS.iter().zip(found) {
        let mut find = program("find");
        find.current_dir(mounted.path()).args(["t", "("]).args(test.split(' '));
        find.args([")", "-print0"]);
        let theirs = said(&mut find).out;
        let mut theirs: Vec<String> =
            theirs.split_terminator('\0').map(|path| format!("/{path}")).collect();
        let mut ours: Vec<&str> = ours.split_terminator('\0').collect();
        theirs.sort();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "{test}");
        assert!(*test == "-newermt 2015-01-01" || !ours.is_empty(), "{test} finds nothing");
    }
    // The dump is what getfattr prints, but for the order of files.
    let mut getfattr = program("getfattr");
    getfattr.current_dir(mounted.path()).args(["-R", "-P", "-d", "-m", "-", "-h", "t"]);
    let sorted = |text: &str| {
        let mut parts: Vec<String> = text
            .split_terminator("\n\n")
            .map(|part| {
                let mut lines: Vec<&str> = part.lines().collect();
                lines.sort_unstable();
                lines.join("\n")
            })
            .collect();
        parts.sort();
        parts
    };
    assert_eq!(sorted(&dump), sorted(&said(&mut getfattr).out));
}

#[test]
fn attributes_are_restored_from_a_dump() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree().display().to_string();
    let (image, other) = (bench.image("a", &["-t", "ext4"]), bench.image("b", &["-t", "ext4"]));
    done(&["cp", "-a", &tree, &format!("{image}:/t")]);
    done(&["cp", "-r", &tree, &format!("{other}:/t")]);
    let dump = |image: &str| {
        let words = ["getfattr", "-Rd", "-h", "-m", "user.", &format!("{image}:/")];
        done(&words)
    };
    let file = bench.join("dump");
    std::fs::write(&file, dump(&image)).unwrap();
    assert_ne!(dump(&image), dump(&other));
    let file = file.display().to_string();
    done(&["setfattr", "--restore", &file, &format!("{other}:/")]);
    assert_eq!(dump(&image), dump(&other));
    let plain = format!("{other}:/t/plain");
    assert_eq!(done(&["getfattr", "--only-values", "-n", "user.one", &plain]), "1");
    let told = extant(&["getfattr", "-n", "user.none", &plain]);
    assert!(told.code == 1 && told.err.contains("no such attribute"), "{told:?}");
}

/// Values in inodes of their own, by the words of setfattr: one by one, and in one edit.
#[test]
fn large_values_are_set_replaced_and_removed() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("values", &["-t", "ext4", "-b", "1024", "-O", "ea_inode"]);
    let file = bench.join("content");
    std::fs::write(&file, "content").unwrap();
    done(&["cp", &file.display().to_string(), &format!("{image}:/file")]);
    let place = format!("{image}:/file");
    let value = |letter: &str, length: usize| letter.repeat(length);
    let read = |name: &str| done(&["getfattr", "--only-values", "-n", name, &place]);
    done(&["setfattr", "-n", "user.one", "-v", &value("a", 40_000), &place]);
    done(&["setfattr", "-n", "user.two", "-v", &value("b", 3_000), &place]);
    assert!(read("user.one") == value("a", 40_000) && read("user.two") == value("b", 3_000));
    done(&["setfattr", "-n", "user.one", "-v", &value("c", 20_000), &place]);
    done(&["setfattr", "-x", "user.two", &place]);
    assert!(read("user.one") == value("c", 20_000));
    let refused = extant(&["setfattr", "-n", "user.one", "-v", &value("d", 65_537), &place]);
    assert!(refused.code == 1 && refused.err.contains("65,536 bytes"), "{refused:?}");
    extant_testkit::oracle::e2fsck(Path::new(&image)).expect("is whole");
    if can_mount() {
        let mounted = mount_loop(Path::new(&image), Access::ReadOnly, "").expect("a mount");
        let mut getfattr = program("getfattr");
        getfattr.current_dir(mounted.path());
        getfattr.args(["--only-values", "-n", "user.one", "file"]);
        assert!(said(&mut getfattr).out == value("c", 20_000));
    }
    done(&["rm", &place]);
    extant_testkit::oracle::e2fsck(Path::new(&image)).expect("is whole");
}

#[test]
fn wrong_tests_are_named() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let place = format!("{}:/", bench.image("image", &["-t", "ext2"]));
    for (words, said) in [
        (&["-nmae", "x"][..], "-nmae: is no test"),
        (&["-name"], "-name: a word is missing"),
        (&["-type", "x"], "x: is no type"),
        (&["(", "-empty"], "(: has no end"),
        (&["-empty", ")"], "): is not expected"),
        (&["-size", "1x"], "1x: is no number"),
        (&["-name", "[a"], "[a: is no pattern"),
        (&["-user", "nobody-here"], "nobody-here: is not in /etc/passwd"),
    ] {
        let mut all = vec!["find", place.as_str()];
        all.extend(words);
        let told = extant(&all);
        assert!(told.code == 2 && told.err.contains(said), "{words:?}: {told:?}");
    }
    let deep: Vec<&str> = ["find", place.as_str()].into_iter().chain(["!"; 5000]).collect();
    assert!(extant(&deep).err.contains("nested too deep"));
}
