//! Directories whose names know no case: a path leads to the entry with exactly its bytes, or else
//! to one that is the same folded, with each command that has a look-up of its own. What comes out
//! has the name that is stored. Patterns are those of a shell on a mount: of the stored names.
use crate::take::command::{extant, told};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::Path;

/// `x.img`: `Folder`, without case, has `Straße/Inner.TXT`, `README` and `readMe`; `Plain` has the
/// same names, and its case counts. `tree` is what it was made of.
fn volume(folder: &Path) {
    for directory in ["Folder", "Plain"] {
        let at = folder.join("tree").join(directory);
        fs::create_dir_all(at.join("Straße")).unwrap();
        fs::write(at.join("Straße/Inner.TXT"), "inner").unwrap();
        for name in ["README", "readMe"] {
            fs::write(at.join(name), name).unwrap();
        }
    }
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "casefold", "-E", "encoding=utf8", "-d", "tree"]);
    output(mke2fs.args(["x.img", "8M"]).current_dir(folder)).unwrap();
    for directory in ["/Folder", "/Folder/Straße"] {
        let request = format!("set_inode_field {directory} flags 0x40080000");
        let debugfs = &mut program("debugfs");
        output(debugfs.args(["-w", "-R", &request, "x.img"]).current_dir(folder)).unwrap();
    }
}

/// The names in an archive of these paths.
fn archived(folder: &Path, paths: &[&str]) -> Vec<String> {
    let archive = told(&[&["tar", "x.img"], paths].concat(), folder);
    fs::write(folder.join("x.tar"), archive).unwrap();
    let mut tar = program("tar");
    let listed = output(tar.args(["-tf", "x.tar", "--quoting-style=literal"]).current_dir(folder));
    String::from_utf8_lossy(&listed.unwrap().stdout).lines().map(str::to_owned).collect()
}

#[test]
fn paths_lead_to_names_that_are_the_same_folded_and_those_come_out() {
    if !["mke2fs", "debugfs", "tar"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-casefold");
    let folder = scratch.path();
    volume(folder);
    let inner = ["Folder/Straße/", "Folder/Straße/Inner.TXT"];
    assert_eq!(archived(folder, &["Folder/STRASSE"]), inner);
    // The same directory twice is there once, however it is written, and the exact name is first.
    assert_eq!(archived(folder, &["Folder/strasse/inner.txt", "Folder/STRASSE"]), inner);
    assert_eq!(archived(folder, &["Folder/strasse", "Folder/Straße"]), inner);
    assert_eq!(archived(folder, &["Folder/readMe"]), ["Folder/readMe"]);
    assert_eq!(archived(folder, &["Folder/README"]), ["Folder/README"]);
    for missing in ["folder/README", "Plain/readme", "Plain/STRASSE", "Folder/readme.txt"] {
        let ended = extant(&["tar", "x.img", missing], folder);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && said.contains("no such file"), "{missing}: {said}");
    }
    told(&["extract", "x.img", "Folder/STRASSE/INNER.txt", "out"], folder);
    assert_eq!(fs::read(folder.join("out/Folder/Straße/Inner.TXT")).unwrap(), b"inner");
    told(&["extract", "x.img:/Folder/STRASSE", "below"], folder);
    assert_eq!(fs::read(folder.join("below/Inner.TXT")).unwrap(), b"inner");
    let equal = ["diff", "x.img:/Folder/strasse", "tree/Folder/Straße"];
    assert_eq!(told(&[&equal[..], &["--ignore", "times"]].concat(), folder), b"");
    assert!(!extant(&["diff", "x.img:/Plain/strasse", "tree/Plain"], folder).status.success());
    assert_eq!(told(&["cat", "x.img:/Folder/STRASSE/inner.TXT"], folder), b"inner");
}

#[test]
fn patterns_are_those_of_a_shell_on_a_mount() {
    if !["mke2fs", "debugfs"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-casefold-patterns");
    let folder = scratch.path();
    volume(folder);
    let said = |words: &[&str]| String::from_utf8(told(words, folder)).unwrap();
    assert_eq!(said(&["find", "x.img:/Folder", "-name", "read*"]), "/Folder/readMe\n");
    let both = "/Folder/README\n/Folder/readMe\n";
    assert_eq!(said(&["find", "x.img:/Folder", "-iname", "readme"]), both);
    // Where it begins is as it was written, as find(1) has it.
    assert_eq!(
        said(&["find", "x.img:/Folder/STRASSE", "-name", "I*"]).trim(),
        "/Folder/STRASSE/Inner.TXT"
    );
    assert_eq!(said(&["cat", "x.img:/Folder/re*"]), "readMe");
    // A part without a pattern is looked up, and one with a pattern is compared.
    assert_eq!(said(&["cat", "x.img:/Folder/STRASSE/*.TXT"]), "inner");
    assert!(!extant(&["cat", "x.img:/Folder/STRASSE/*.txt"], folder).status.success());
    assert!(!extant(&["cat", "x.img:/Folder/STR*/Inner.TXT"], folder).status.success());
}
