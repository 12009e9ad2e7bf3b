//! What comes out of an image again is what went in; and from one image to another.
use crate::edit::bench::{Bench, bytes, clean, command, done, extant, has_tools, said};
use extant_testkit::compare::{Options, trees};
use extant_testkit::skips::require_root;
use std::fs;
use std::path::Path;

fn same(left: &Path, right: &Path) {
    if !require_root() {
        return;
    }
    let differences = trees(left, right, &Options::copy()).expect("both are read");
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn a_tree_goes_in_over_and_out_again() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree();
    let source = tree.display().to_string();
    let first = bench.image("first", &["-t", "ext4"]);
    let second = bench.image("second", &["-t", "ext3", "-b", "4096", "-I", "256"]);
    done(&["cp", "-a", &source, &format!("{first}:/in")]);
    done(&["cp", "-a", &format!("{first}:/in"), &format!("{second}:/over")]);
    let out = bench.join("out");
    done(&["cp", "-a", &format!("{second}:/over"), &out.display().to_string()]);
    same(&tree, &out);
    clean(&first);
    clean(&second);
    // Into a folder that is there, and the content alone.
    let folder = bench.join("folder");
    fs::create_dir(&folder).unwrap();
    let target = folder.display().to_string();
    done(&["cp", "-a", &format!("{first}:/in"), &target]);
    done(&["cp", &format!("{first}:/in/plain"), &format!("{first}:/in/nothing"), &target]);
    same(&tree, &folder.join("in"));
    assert_eq!(fs::read(folder.join("plain")).unwrap(), b"plain");
    let content = bench.join("content");
    done(&["cp", "-aT", &format!("{first}:/in"), &content.display().to_string()]);
    same(&tree, &content);
}

#[test]
fn nothing_is_written_through_a_link_of_the_host() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4"]);
    done(&["mkdir", "-p", &format!("{image}:/d/sub")]);
    done(&["write", "--text", "evil", &format!("{image}:/d/file")]);
    done(&["write", "--text", "evil", &format!("{image}:/d/sub/file")]);
    let (out, victim) = (bench.join("out"), bench.join("victim"));
    fs::create_dir_all(out.join("d")).unwrap();
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "good").unwrap();
    let copy = || {
        let target = out.display().to_string();
        extant(&["cp", "-r", &format!("{image}:/d"), &target])
    };
    std::os::unix::fs::symlink(victim.join("file"), out.join("d/file")).unwrap();
    let told = copy();
    assert!(told.code == 1 && told.err.contains("symbolic link"), "{told:?}");
    fs::remove_file(out.join("d/file")).unwrap();
    std::os::unix::fs::symlink(&victim, out.join("d/sub")).unwrap();
    let told = copy();
    assert!(told.code == 1 && told.err.contains("is no directory"), "{told:?}");
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"good");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
}

#[test]
fn the_same_commands_at_the_same_time_give_the_same_bytes() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree().display().to_string();
    let base = bench.image("base", &["-t", "ext4"]);
    let images = ["one", "two"].map(|name| {
        let image = bench.join(name).display().to_string();
        fs::copy(&base, &image).unwrap();
        for words in [
            vec!["cp", "-r", &tree, "@/tree"],
            vec!["mkdir", "@/new"],
            vec!["rm", "-r", "@/tree/deep"],
        ] {
            let words: Vec<String> =
                words.iter().map(|word| word.replace('@', &format!("{image}:"))).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let told = said(command(&words).env("SOURCE_DATE_EPOCH", "1700000000"));
            assert_eq!(told.code, 0, "{told:?}");
        }
        bytes(&image)
    });
    assert!(images[0] == images[1], "two runs differ");
}

#[test]
fn owners_modes_and_counts_are_as_asked() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree();
    let image = bench.image("image", &["-t", "ext4"]);
    done(&["mkdir", &format!("{image}:/etc")]);
    let lists = "web:x:33:34:::\nroot:x:0:0:::\n";
    done(&["write", "--text", lists, &format!("{image}:/etc/passwd")]);
    done(&["write", "--text", "adm:x:4:\n", &format!("{image}:/etc/group")]);
    let plain = tree.join("plain").display().to_string();
    let target = format!("{image}:/file");
    let told = done(&["--json", "cp", "--owner", "web:adm", "--mode", "600", &plain, &target]);
    for part in ["\"objects\":1", "\"bytes\":5", "\"committed\":\"journal\""] {
        assert!(told.contains(part), "{told}");
    }
    let record = done(&["--json", "stat", &target]);
    for part in ["\"uid\":33", "\"gid\":4", "\"mode\":384"] {
        assert!(record.contains(part), "{record}");
    }
    done(&["chown", "web:", &target]);
    assert!(done(&["--json", "stat", &target]).contains("\"gid\":34"));
    let told = extant(&["chown", "nobody-here", &target]);
    assert!(told.code == 2 && told.err.contains("/etc/passwd of the image"), "{told:?}");
}

#[test]
fn files_that_the_kernel_makes_up_are_whole() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4"]);
    done(&["cp", "/proc/version", &format!("{image}:/version")]);
    let expected = fs::read_to_string("/proc/version").unwrap();
    assert_eq!(done(&["cat", &format!("{image}:/version")]), expected);
}
