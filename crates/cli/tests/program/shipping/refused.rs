//! What does not go together, and what is there already: one line, and nothing is written.
use crate::shipping::fixture::{build, command, source};
use extant_testkit::scratch::Scratch;
use std::fs;

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Scratch::new("refused");
    source(&folder);
    let cases = [
        ("--verity-salt 00", "--verity"),
        ("--verity --verity-salt 0", "hexadecimal"),
        ("--partition apm", "gpt or mbr"),
        ("--partition gpt,type=windows", "root-x86-64"),
        ("--partition gpt,name=0123456789012345678901234567890123456", "36 units"),
        ("--partition mbr,type=0", "1 to ff"),
        ("--partition gpt -E offset=1048576", "not with --partition"),
        ("--format qcow2 --compress zstd", "not compressed"),
        ("--format qcow2 --bmap x", "raw image"),
        ("--bmap disk.img", "another output"),
        ("--verity=./disk.img", "another output"),
        ("--bmap x --verity=x", "another output"),
        ("--format vdi", "android-sparse"),
    ];
    for (words, part) in cases {
        let output = command(&folder, &format!("build {words} source disk.img")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(part), "{words}: {said}");
        let count = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(count, 1, "{words} left something");
    }
}

#[test]
fn files_that_are_there_stay() {
    let folder = Scratch::new("refused");
    source(&folder);
    fs::write(folder.join("mine"), "mine").unwrap();
    for words in ["--verity=mine", "--bmap mine"] {
        let output = command(&folder, &format!("build {words} source disk.img")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("mine: exists already"), "{words}: {said}");
        assert_eq!(fs::read(folder.join("mine")).unwrap(), b"mine");
        assert!(!folder.join("disk.img").exists(), "{words}");
    }
    build(&folder, "-F --bmap mine source disk.img");
    assert!(fs::read(folder.join("mine")).unwrap().starts_with(b"<?xml"));
}

/// A name that promises another form than is written is refused, or has its way.
#[test]
fn a_name_is_what_the_image_is() {
    let folder = Scratch::new("named");
    source(&folder);
    for end in ["img.xz", "vmdk", "vhdx", "raw.bz2"] {
        let output = command(&folder, &format!("build source disk.{end}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{end}: {said}");
        assert!(said.contains("not written here") && said.contains("--format raw"), "{said}");
        assert!(!folder.join(&format!("disk.{end}")).exists());
        build(&folder, &format!("--format raw source disk.{end}"));
    }
    let first = |name: &str| fs::read(folder.join(name)).unwrap()[..4].to_vec();
    build(&folder, "source disk.qcow2");
    assert_eq!(first("disk.qcow2"), b"QFI\xfb");
    build(&folder, "--force --format raw source disk.qcow2");
    assert_ne!(first("disk.qcow2"), b"QFI\xfb");
}
