//! Damaged directories: what is beside a name that no file may have, or beside a circle, comes out
//! in every way, and what is wrong is told by name.
use crate::take::command::extant;
use crate::take::hostile::{image, replace};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::Path;

/// Exit code 1, and these words on standard error, in one line beside the hint; what was printed.
fn told_of(words: &[&str], folder: &Path, said: &[&str]) -> String {
    let ended = extant(words, folder);
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{words:?}: {errors}");
    for word in said {
        assert!(errors.contains(word), "{words:?}: {word} is not in: {errors}");
    }
    let lines = errors.lines().filter(|line| !line.starts_with("  hint: ")).count();
    assert_eq!(lines, 1, "{words:?}: {errors}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// A folder `d` with a name that leads out of it, and two others around it.
fn with_a_bad_name(folder: &Path, beside: &str) {
    let files = "write payload evilname\nwrite payload good\nwrite payload zlast\n";
    image(folder, &format!("mkdir d\ncd d\n{files}{beside}"));
    replace(folder, b"\x08\x01evilname", b"\x08\x01../mine2");
}

#[test]
fn a_bad_name_hides_nothing_in_ls_cat_and_find() {
    if !require("debugfs") {
        return;
    }
    let scratch = Scratch::new("take-salvage-read");
    let folder = scratch.path();
    with_a_bad_name(folder, "");
    let bad = &["\"../mine2\"", "extant check x.img lists"];
    assert_eq!(told_of(&["ls", "x.img:/d"], folder, bad), "good\nzlast\n");
    assert_eq!(told_of(&["find", "x.img:/d"], folder, bad), "/d\n/d/good\n/d/zlast\n");
    assert_eq!(told_of(&["cat", "x.img:/d/..%2Fmine2"], folder, bad), "payload");
    let good = extant(&["cat", "x.img:/d/good", "x.img:/d/zlast"], folder);
    assert_eq!((good.status.code(), good.stdout), (Some(0), b"payloadpayload".to_vec()));
    let dump = told_of(&["getfattr", "-R", "-d", "-m", "-", "x.img:/d"], folder, bad);
    assert_eq!(dump, "");
    // What would change the tree is refused, and the image stays as it is.
    let before = fs::read(folder.join("x.img")).unwrap();
    for words in [&["rm", "-r", "x.img:/d"][..], &["chown", "-R", "7", "x.img:/d"]] {
        told_of(words, folder, &["../mine2"]);
    }
    assert!(before == fs::read(folder.join("x.img")).unwrap());
}

#[test]
fn a_bad_name_comes_out_as_a_good_one() {
    if !require("debugfs") {
        return;
    }
    let scratch = Scratch::new("take-salvage-out");
    let folder = scratch.path();
    with_a_bad_name(folder, "");
    let bad = &["../mine2"];
    told_of(&["extract", "--keep-going", "x.img", "out"], folder, bad);
    fs::create_dir(folder.join("copied")).unwrap();
    told_of(&["cp", "-a", "x.img:/d", "copied"], folder, bad);
    told_of(&["tar", "--keep-going", "-o", "x.tar", "x.img"], folder, bad);
    fs::create_dir(folder.join("unpacked")).unwrap();
    output(program("tar").args(["-xf", "x.tar", "-C", "unpacked"]).current_dir(folder)).unwrap();
    for at in ["out/d", "copied/d", "unpacked/d"] {
        for name in ["good", "zlast", "..%2Fmine2"] {
            let read = fs::read(folder.join(at).join(name));
            assert_eq!(read.unwrap(), b"payload", "{at}/{name}");
        }
        assert!(!folder.join(at).join("../mine2").exists());
    }
    // All or nothing without leave to go on.
    told_of(&["extract", "x.img", "not"], folder, bad);
}

#[test]
fn where_the_good_name_is_taken_the_number_is_added() {
    if !require("debugfs") {
        return;
    }
    let scratch = Scratch::new("take-salvage-taken");
    let folder = scratch.path();
    with_a_bad_name(folder, "write payload ..%2Fmine2\n");
    told_of(&["extract", "--keep-going", "x.img", "out"], folder, &["../mine2"]);
    fs::create_dir(folder.join("copied")).unwrap();
    told_of(&["cp", "-a", "x.img:/d", "copied"], folder, &["../mine2"]);
    for at in ["out/d", "copied/d"] {
        let mut names: Vec<String> = fs::read_dir(folder.join(at))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["..%2Fmine2", "..%2Fmine2.13", "good", "zlast"], "{at}");
    }
}

#[test]
fn a_circle_is_told_and_the_rest_comes_out() {
    if !require("debugfs") {
        return;
    }
    let scratch = Scratch::new("take-circles");
    let folder = scratch.path();
    image(
        folder,
        "mkdir one\ncd one\nmkdir two\ncd two\nlink /one loop\nwrite payload file\ncd /one\n\
         write payload zlast\n",
    );
    let circle = &["/one/two/loop", "extant check x.img lists"];
    let found = told_of(&["find", "x.img:/one"], folder, circle);
    assert_eq!(found, "/one\n/one/two\n/one/two/file\n/one/zlast\n");
    let listed = told_of(&["ls", "-R", "x.img:/one"], folder, circle);
    assert!(listed.contains("zlast") && listed.contains("file"), "{listed}");
    told_of(&["getfattr", "-R", "-d", "x.img:/one"], folder, circle);
    fs::create_dir(folder.join("copied")).unwrap();
    told_of(&["cp", "-a", "x.img:/one", "copied"], folder, circle);
    assert_eq!(fs::read(folder.join("copied/one/two/file")).unwrap(), b"payload");
    assert_eq!(fs::read(folder.join("copied/one/zlast")).unwrap(), b"payload");
    assert!(!folder.join("copied/one/two/loop").exists());
    let before = fs::read(folder.join("x.img")).unwrap();
    for words in [
        &["rm", "-r", "x.img:/one"][..],
        &["chown", "-R", "7", "x.img:/one"],
        &["cp", "-a", "x.img:/one", "x.img:/copy"],
    ] {
        told_of(words, folder, &["/one/two/loop", "is its own ancestor"]);
    }
    assert!(before == fs::read(folder.join("x.img")).unwrap());
}
