//! Damaged directories: what is beside a name that no file may have, or beside a circle, comes out
//! in every way, and what is wrong is told by name.
use crate::take::command::extant;
use crate::take::hostile::{image, replace};
use extant_testkit::command::{output, program, tested};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
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
    let bad = &["../mine2", "extant check x.img lists"];
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
    told_of(&["extract", "x.img", "not"], folder, &["../mine2"]);
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
    let damaged = &["one/two/loop", "another name", "extant check x.img lists"];
    told_of(&["tar", "--keep-going", "-o", "x.tar", "x.img"], folder, damaged);
    told_of(&["extract", "--keep-going", "x.img", "out"], folder, damaged);
    assert_eq!(fs::read(folder.join("out/one/two/file")).unwrap(), b"payload");
    let differing = extant(&["diff", "x.img", "x.img"], folder);
    let errors = String::from_utf8_lossy(&differing.stderr).into_owned();
    assert!(differing.status.code() == Some(2) && errors.contains("one/two/loop"), "{errors}");
}

/// What changes a tree leaves the loop and changes the rest, in one step as ever.
#[test]
fn a_circle_is_told_and_the_rest_is_changed() {
    if !require("debugfs") {
        return;
    }
    let scratch = Scratch::new("take-circles-changed");
    let folder = scratch.path();
    image(
        folder,
        "mkdir one\ncd one\nmkdir two\ncd two\nlink /one loop\nwrite payload file\ncd /one\n\
         write payload zlast\nmkdir three\ncd three\nwrite payload last\n",
    );
    let circle = &["/one/two/loop", "is its own ancestor", "extant check x.img lists"];
    told_of(&["chown", "-R", "7", "x.img:/one"], folder, circle);
    told_of(&["chmod", "-R", "u=rwX,go=", "x.img:/one"], folder, circle);
    told_of(&["cp", "-a", "x.img:/one", "x.img:/copy"], folder, circle);
    let all = "/copy\n/copy/three\n/copy/three/last\n/copy/two\n/copy/two/file\n/copy/zlast\n";
    let found = extant(&["find", "x.img:/copy", "-user", "7"], folder);
    assert_eq!(String::from_utf8_lossy(&found.stdout), all);
    let open = extant(&["find", "x.img:/copy", "-perm", "/077"], folder);
    assert_eq!((open.status.code(), open.stdout), (Some(0), Vec::new()));
    fs::write(folder.join("lines"), "chmod -R 700 /one\nrm -r /one/three\n").unwrap();
    told_of(&["edit", "--dry-run", "x.img", "lines"], folder, circle);
    told_of(&["edit", "x.img", "lines"], folder, circle);
    told_of(&["rm", "-r", "x.img:/one"], folder, circle);
    let left = told_of(&["find", "x.img:/one"], folder, circle);
    assert_eq!(left, "/one\n/one/two\n");
    // What has no loop in it goes without a word.
    let gone = extant(&["rm", "-r", "x.img:/copy"], folder);
    assert!(gone.status.success() && gone.stderr.is_empty(), "{gone:?}");
}

/// Standard output of a command that may take two seconds of a processor. One that makes files on
/// the host may take a minute: a file system that has just lost as many looks long for an inode.
fn quick(words: &[&str], folder: &Path) -> String {
    let limit = if words[0] == "extract" { 60 } else { 2 };
    let script = format!("ulimit -t {limit}; exec \"$@\"");
    let mut shell = program("sh");
    shell.args(["-c", &script, "sh"]).arg(tested(env!("CARGO_BIN_EXE_extant")));
    let ended = shell.args(words).current_dir(folder).output().unwrap();
    assert!(ended.status.success(), "{words:?}: {ended:?}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// Twenty thousand levels, and a path of 64 KiB: what would look for each from the root takes more
/// than `quick` gives it.
#[test]
fn trees_of_any_depth_are_read() {
    if !require("tar") {
        return;
    }
    let scratch = Scratch::new("take-deep");
    let folder = scratch.path();
    fs::write(folder.join("last"), "deep").unwrap();
    let trees = [(&*"n".repeat(220), 300), ("d", 20_000)];
    for (name, levels) in trees.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let path = format!("{name}/").repeat(levels);
        let rule = format!("s,^,{path},");
        let tar = program("tar")
            .args(["--format=pax", "--transform", &rule, "-cf", "deep.tar", "last"])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(tar.status.success(), "{tar:?}");
        quick(&["build", "-q", "--force", "--free", "10%", "deep.tar", "x.img"], folder);
        let last = format!("/{path}last");
        assert!(levels > 300 || last.len() > 64 << 10);
        let listed = quick(&["ls", "-R", "x.img:/"], folder);
        assert!(listed.contains(":\nlast\n") && listed.contains(&path[..path.len() - 1]));
        quick(&["tar", "--force", "-o", "again.tar", "x.img"], folder);
        assert_eq!(quick(&["diff", "x.img", "deep.tar"], folder), "");
        // An archive has the whole path of each folder: 400 MB of them for 20,000 levels.
        if levels == 300 {
            assert_eq!(quick(&["diff", "x.img", "again.tar"], folder), "");
        }
        quick(&["extract", "x.img", "out"], folder);
        assert_eq!(quick(&["diff", "x.img", "out"], folder), "");
        assert_eq!(quick(&["cat", &format!("x.img:{last}")], folder), "deep");
        output(program("rm").args(["-r", "out"]).current_dir(folder)).unwrap();
    }
}

/// What is named on the command line may be longer than the kernel takes.
#[test]
fn a_folder_whose_path_is_too_long_for_the_kernel_is_filled() {
    if !require("debugfs") || !require("python3") {
        return;
    }
    let scratch = Scratch::new("take-long");
    let folder = scratch.path();
    image(folder, "mkdir one\ncd one\nwrite payload file\n");
    let name = "n".repeat(200);
    let long = vec![name.as_str(); 30].join("/");
    // Beyond the limit only step by step.
    let make = "import os, sys\nfor level in range(30):\n os.mkdir(sys.argv[1])\n \
                os.chdir(sys.argv[1])\n";
    let python = |script: &str| {
        output(program("python3").args(["-c", script, &name]).current_dir(folder)).unwrap()
    };
    python(make);
    let path = format!("{}/{long}", folder.display());
    assert!(path.len() > 4096);
    for words in [
        &["cp", "x.img:/one/file", &path][..],
        &["cp", "x.img:/one/file", &format!("{path}/copy")],
        &["cp", "x.img:/one/file", "x.img:/lost+found", "-a", &path],
        &["cp", "-a", "x.img:/one", &format!("{path}/new")],
        &["extract", "x.img", &format!("{path}/all")],
        &["extract", "x.img", "one/file", &path],
    ] {
        let ended = extant(words, folder);
        assert!(ended.status.success(), "{}: {ended:?}", words[0]);
    }
    let read = "import os, sys\nwhile os.path.isdir(sys.argv[1]): os.chdir(sys.argv[1])\n\
                for path in ['file', 'copy', 'new/file', 'all/one/file', 'one/file']:\n \
                print(open(path).read())\nprint(os.listdir('lost+found'))\n";
    let read = python(read).stdout;
    assert_eq!(String::from_utf8_lossy(&read), format!("{}[]\n", "payload\n".repeat(5)));
}
