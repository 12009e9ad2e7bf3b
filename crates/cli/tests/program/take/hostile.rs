//! Images whose names and links lead elsewhere, and folders that do.
use crate::take::command::{extant, refused, told};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// An image of 1 KiB blocks without checksums, changed by debugfs.
pub fn image(folder: &Path, script: &str) {
    let path = folder.join("x.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext2", "-b", "1024", "-O", "^dir_index,^metadata_csum"]);
    output(mke2fs.arg(&path).arg("2M")).unwrap();
    fs::write(folder.join("script"), script).unwrap();
    fs::write(folder.join("payload"), "payload").unwrap();
    let mut debugfs = program("debugfs");
    debugfs.arg("-w").arg("-f").arg("script").arg("x.img").current_dir(folder);
    output(&mut debugfs).unwrap();
}

/// Puts bytes in place of others in the image, wherever they are.
pub fn replace(folder: &Path, from: &[u8], to: &[u8]) {
    let path = folder.join("x.img");
    let mut bytes = fs::read(&path).unwrap();
    let mut count = 0;
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
            count += 1;
        }
    }
    assert!(count > 0, "{from:?} is not there");
    fs::write(path, bytes).unwrap();
}

/// What is beside the target is as it was.
fn nothing_outside(folder: &Path) {
    let mut names: Vec<String> = fs::read_dir(folder.join("arena"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["out", "outside"], "something was made beside the target");
    assert_eq!(fs::read_dir(folder.join("arena/outside")).unwrap().count(), 1);
    assert_eq!(fs::read(folder.join("arena/outside/mine")).unwrap(), b"mine");
}

fn arena(folder: &Path) {
    fs::create_dir_all(folder.join("arena/outside")).unwrap();
    fs::create_dir_all(folder.join("arena/out")).unwrap();
    fs::write(folder.join("arena/outside/mine"), "mine").unwrap();
}

/// Extracts it in all ways; nothing may happen outside.
fn extract_all(folder: &Path) -> String {
    let mut said = String::new();
    for words in [
        &["extract", "x.img", "arena/out"][..],
        &["extract", "--keep-going", "x.img", "arena/out"],
        &["extract", "--keep-going", "--force", "x.img", "arena/out"],
    ] {
        let ended = extant(words, folder);
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)) && !text.contains("panicked"), "{code:?}: {text}");
        nothing_outside(folder);
        said += &text;
    }
    said
}

#[test]
fn a_symlink_and_then_a_directory_of_its_name() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("take-symlink");
    arena(folder.path());
    // Two entries "aa": one is a symlink to the outside, one a directory with a file.
    image(
        folder.path(),
        "symlink aa ../outside\nmkdir bb\ncd bb\nwrite payload mine\ncd /\nmkdir cc\n",
    );
    replace(folder.path(), b"\x02\x02bb", b"\x02\x02aa");
    let said = extract_all(folder.path());
    assert!(said.contains("a second entry of the same name"), "{said}");
}

#[test]
fn names_that_are_paths_are_none() {
    if !require("debugfs") {
        return;
    }
    for (from, to) in [
        (&b"\x08\x01evilname"[..], &b"\x08\x01../mine2"[..]),
        (b"\x08\x01evilname", b"\x08\x01/etc/own"),
        (b"\x08\x01evilname", b"\x02\x01.."),
        (b"\x08\x01evilname", b"\x01\x01."),
        (b"\x08\x01evilname", b"\x08\x01evi\0name"),
        (b"\x08\x01evilname", b"\x00\x01"),
    ] {
        let folder = Scratch::new("take-names");
        arena(folder.path());
        image(folder.path(), "write payload evilname\nwrite payload good\n");
        replace(folder.path(), from, to);
        extract_all(folder.path());
        assert!(!folder.join("mine2").exists() && !folder.join("arena/mine2").exists());
        // diff and tar of the same image end, too.
        let ended = extant(&["diff", "x.img", "arena/out"], folder.path());
        assert!(matches!(ended.status.code(), Some(0..=2)), "{:?}", ended.status);
    }
}

#[test]
fn directories_in_circles_and_with_two_names_end() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("take-circle");
    arena(folder.path());
    image(
        folder.path(),
        "mkdir one\ncd one\nmkdir two\ncd two\nlink / three\ncd /\nlink one other\n\
         write payload file\n",
    );
    let said = extract_all(folder.path());
    assert!(said.contains("has another name already"), "{said}");
    assert!(folder.join("arena/out/file").exists());
    let (code, text) = refused(&["diff", "x.img", "x.img"], folder.path());
    assert!(code == 2 && text.contains("another name already"), "{code}: {text}");
}

/// The folder itself holds symlinks that lead out of it.
#[test]
fn symlinks_of_the_folder_are_not_followed() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("take-folder");
    arena(folder.path());
    image(
        folder.path(),
        "mkdir directory\ncd directory\nwrite payload mine\nwrite payload new\ncd /\n\
         write payload file\nln file hard\nsymlink link target\n",
    );
    let plant = || {
        let out = folder.join("arena/out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        symlink("../outside", out.join("directory")).unwrap();
        symlink("../outside/mine", out.join("file")).unwrap();
        symlink("../outside/mine", out.join("hard")).unwrap();
    };
    plant();
    let (code, text) = refused(&["extract", "x.img", "arena/out"], folder.path());
    assert!(code == 1 && text.contains("already"), "{text}");
    plant();
    let said = extract_all(folder.path());
    assert!(said.contains("something else is there already"), "{said}");
    // With --force the links are gone, and the image's own are there.
    assert!(folder.join("arena/out/directory").symlink_metadata().unwrap().is_dir());
    assert_eq!(fs::read(folder.join("arena/out/directory/new")).unwrap(), b"payload");
    nothing_outside(folder.path());
    // The target itself may be a link of the user's.
    symlink("arena", folder.join("to-arena")).unwrap();
    told(&["extract", "--force", "x.img", "to-arena/out"], folder.path());
}

/// Nothing is linked to a file that was there before, and not even its mode is changed.
#[test]
fn hard_links_lead_to_what_was_made() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("take-links");
    arena(folder.path());
    image(folder.path(), "write payload aaa\nln aaa bbb\nsif aaa links_count 2\n");
    fs::hard_link(folder.join("arena/outside/mine"), folder.join("arena/out/aaa")).unwrap();
    let words = ["extract", "--keep-going", "x.img", "arena/out"];
    let (code, text) = refused(&words, folder.path());
    assert!(code == 1 && text.contains("aaa: is there already"), "{text}");
    assert!(text.contains("bbb: is a link to what was left out"), "{text}");
    assert!(!folder.join("arena/out/bbb").exists());
    nothing_outside(folder.path());
}
