//! What newcomers stumbled over: that what is said fits to what is there, and can be done.
use crate::commands::command::{command, printed_text};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Standard output of a command that ends well.
fn told(words: &[&str], folder: &Path) -> String {
    printed_text(words, command(words).current_dir(folder).output().unwrap())
}

/// Standard error of a command, and its exit code.
fn said(words: &[&str], folder: &Path) -> (Option<i32>, String) {
    let output = command(words).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_folder_that_is_missing_is_named_and_no_link_in_it() {
    let scratch = Scratch::new("stumbles-names");
    let (code, words) = said(&["names", "bin"], scratch.path());
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("names: bin: there is no such folder"), "{words}");
    assert!(words.contains("mkdir -p bin makes it"), "{words}");
}

#[test]
fn where_inodes_are_used_up_the_hint_gives_some() {
    let scratch = Scratch::new("stumbles-inodes");
    let folder = scratch.path();
    fs::create_dir_all(folder.join("many")).unwrap();
    told(&["build", "-q", "--free", "1M", "--free-inodes", "4", "many", "x.img"], folder);
    for number in 0..40 {
        fs::write(folder.join(format!("many/{number}")), "").unwrap();
    }
    let (code, words) = said(&["cp", "-r", "many", "x.img:/"], folder);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("no inode is free"), "{words}");
    let (_, hint) = words.split_once("extant tar x.img | extant ").unwrap();
    assert!(!words.contains("resize2fs"), "{words}");
    let (build, _) = hint.split_once(" - NEW.img").unwrap();
    told(&["tar", "-o", "x.tar", "x.img"], folder);
    let build: Vec<&str> = build.split(' ').chain(["-q", "x.tar", "new.img"]).collect();
    told(&build, folder);
    told(&["cp", "-r", "many", "new.img:/"], folder);
    assert!(told(&["ls", "new.img:/many"], folder).lines().count() == 40);
}

#[test]
fn a_superblock_that_is_damaged_and_alone_is_called_so_by_all() {
    let scratch = Scratch::new("stumbles-superblock");
    let folder = scratch.path();
    for (size, copy) in [("4M", None), ("64M", Some("--superblock 8193 --block-size 1024"))] {
        told(&["mkfs", "-q", "--force", "-b", "1024", "x.img", size], folder);
        let image = fs::File::options().write(true).open(folder.join("x.img")).unwrap();
        // The size of its blocks.
        image.write_all_at(b"XXXX", 1024 + 24).unwrap();
        for words in [&["ls", "x.img:"][..], &["check", "x.img"], &["info", "x.img"]] {
            let (code, said) = said(words, folder);
            assert_ne!(code, Some(0), "{words:?}: {said}");
            assert!(!said.contains("superblock: superblock"), "{words:?}: {said}");
        }
        let (_, info) = said(&["info", "x.img"], folder);
        assert!(info.contains("block size in KiB"), "{info}");
        assert_eq!(copy.is_some(), info.contains("a copy may be better"), "{info}");
        assert!(copy.is_none_or(|copy| info.contains(copy)), "{info}");
        let (code, check) = said(&["check", "x.img"], folder);
        let is_told = check.contains("block size in KiB") && check.contains("there is no copy");
        assert_eq!((copy.is_none(), copy.is_none()), (is_told, code == Some(8)), "{check}");
    }
}

#[test]
fn what_is_made_and_only_read_is_said() {
    let scratch = Scratch::new("stumbles-made");
    let folder = scratch.path();
    let (code, words) = said(&["mkfs", "-O", "bigalloc,inline_data", "x.img", "64M"], folder);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("bigalloc with inline_data: it is read and checked"), "{words}");
    let (code, words) = said(&["mkfs", "-O", "bigalloc", "y.img", "64M"], folder);
    assert_eq!((code, words.as_str()), (Some(0), ""));
    let (code, words) = said(&["mkfs", "-O", "imagic_inodes", "z.img", "64M"], folder);
    assert!(code == Some(2) && words.contains("of the AFS server"), "{words}");
}

#[test]
fn an_image_is_called_as_it_was_typed() {
    let scratch = Scratch::new("stumbles-typed");
    let folder = scratch.path();
    fs::create_dir(folder.join("tree")).unwrap();
    let first = told(&["build", "tree", "x.img"], folder);
    assert!(first.starts_with("x.img: "), "{first}");
    assert_eq!(told(&["build", "--force", "tree", "x.img"], folder), first);
}
