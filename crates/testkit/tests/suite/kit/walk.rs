//! The walk sees what it is there to see: every change of one attribute of one entry is one
//! difference.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use extant_testkit::compare::{self, Field, Options};
use extant_testkit::listing;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::skip;
use extant_testkit::walk::{Depth, Kind, walk};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, mknodat, utimensat,
};

/// A small tree with one entry of every kind that an ordinary user can make; the same every time.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("folder/inner")).expect("folders");
    fs::write(root.join("folder/file"), b"some bytes").expect("a file");
    fs::hard_link(root.join("folder/file"), root.join("second name")).expect("a link");
    symlink("folder/file", root.join("link")).expect("a symlink");
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"no text \xff")), b"")
        .expect("a name that is no text");
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let sparse = File::create(root.join("sparse")).expect("a sparse file");
    sparse.set_len(1 << 30).expect("a length");
    sparse.write_all_at(b"island", 1 << 29).expect("an island");
    for entry in
        walk(root, Depth::default(), &BTreeSet::new()).expect("the tree is walked").iter().rev()
    {
        set_time(&root.join(&entry.path), 1_000_000_000, 5);
    }
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times can be set");
}

/// The differences after `change` was made to one of two equal trees, the times of folders aside.
fn differences(change: impl Fn(&Path)) -> Vec<String> {
    let (left, right) = (Scratch::new("walk"), Scratch::new("walk"));
    fill(left.path());
    fill(right.path());
    let options = Options::copy();
    assert_eq!(
        compare::trees(left.path(), right.path(), &options).expect("both are read"),
        [],
        "equal before"
    );
    change(right.path());
    for folder in ["folder/inner", "folder", ""] {
        let path = right.join(folder);
        if path.is_dir() {
            set_time(&path, 1_000_000_000, 5);
        }
    }
    let found = compare::trees(left.path(), right.path(), &options).expect("both are read");
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn each_change_is_seen_and_nothing_else() {
    assert_eq!(differences(|_| {}), [""; 0]);
    assert_eq!(
        differences(|root| set_time(&root.join("pipe"), 1_000_000_000, 6)),
        ["/pipe: mtime: 1000000000.000000005 against 1000000000.000000006"]
    );
    let mode = |root: &Path| {
        fs::set_permissions(root.join("pipe"), Permissions::from_mode(0o4600)).expect("a mode")
    };
    assert_eq!(differences(mode), ["/pipe: mode: 600 against 4600"]);
    assert_eq!(
        differences(|root| {
            fs::remove_file(root.join("link")).expect("removed");
            symlink("folder/file2", root.join("link")).expect("another link");
            set_time(&root.join("link"), 1_000_000_000, 5);
        }),
        ["/link: size: 11 against 12", "/link: target: folder/file against folder/file2"]
    );
    assert_eq!(
        differences(|root| fs::remove_dir(root.join("folder/inner")).expect("removed")),
        ["/folder: links: 3 against 2", "/folder/inner: is missing on the right"]
    );
    assert_eq!(
        differences(|root| {
            fs::remove_file(root.join("pipe")).expect("removed");
            fs::create_dir(root.join("pipe")).expect("a folder in its place");
        }),
        ["/: links: 3 against 4", "/pipe: type: Fifo against Directory"]
    );
}

#[test]
fn bytes_and_links_are_seen() {
    let bytes = |root: &Path| {
        let file = File::options().write(true).open(root.join("sparse")).expect("it is there");
        file.write_all_at(b"x", (1 << 30) - 1).expect("one byte");
        set_time(&root.join("sparse"), 1_000_000_000, 5);
    };
    assert_eq!(differences(bytes), ["/sparse: the bytes differ"]);
    let zeros = |root: &Path| {
        let file = File::options().write(true).open(root.join("sparse")).expect("it is there");
        file.write_all_at(&[0; 9000], 12345).expect("zeros in a hole");
        set_time(&root.join("sparse"), 1_000_000_000, 5);
    };
    assert_eq!(differences(zeros), [""; 0], "zeros and a hole are the same bytes");
    let parted = |root: &Path| {
        fs::remove_file(root.join("second name")).expect("removed");
        fs::copy(root.join("folder/file"), root.join("second name")).expect("copied");
        set_time(&root.join("second name"), 1_000_000_000, 5);
    };
    assert_eq!(
        differences(parted),
        [
            "/folder/file: links: 2 against 1",
            "/second name: links: 2 against 1",
            "/second name: first name: folder/file against second name"
        ]
    );
}

#[test]
fn attributes_are_seen_where_the_file_system_has_them() {
    let set = |root: &Path, value: &[u8]| {
        rustix::fs::lsetxattr(root.join("folder"), c"user.word", value, XattrFlags::empty())
    };
    let probe = Scratch::new("walk");
    fs::create_dir(probe.join("folder")).expect("a folder");
    if set(probe.path(), b"x").is_err() {
        return skip("no user attributes in the folder for temporary files");
    }
    let found = differences(|root| set(root, b"a\0b").expect("it was possible before"));
    assert_eq!(found, ["/folder: attributes: user.word is none against a\\x00b"]);
}

#[test]
fn a_listing_of_a_tree_is_that_tree() {
    let folder = Scratch::new("walk");
    let (tree, file) = (folder.join("tree"), folder.join("listing"));
    fs::create_dir(&tree).expect("a folder");
    fill(&tree);
    fs::remove_file(tree.join("sparse")).expect("a gibibyte of zeros is not hashed for nothing");
    let depth = Depth { sha256: true, ..Depth::default() };
    let entries = walk(&tree, depth, &BTreeSet::new()).expect("the tree is walked");
    let text: String = entries.iter().map(|entry| listing::record(entry) + "\n").collect();
    fs::write(&file, &text).expect("written");
    let mut options = Options::same_image();
    options.fields.remove(&Field::Atime);
    assert_eq!(compare::listing_against(&file, &tree, &options), Ok(vec![]));
    fs::write(tree.join("folder/file"), b"same length").expect("written");
    let found = compare::listing_against(&file, &tree, &options).expect("both are read");
    assert!(found.iter().any(|difference| difference.sentence == "the bytes differ"), "{found:?}");
}

#[test]
fn a_chain_deeper_than_any_path_is_walked() {
    let folder = Scratch::new("walk");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mut at = rustix::fs::openat(CWD, folder.path(), flags, Mode::empty()).expect("opened");
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "deep", Mode::from_raw_mode(0o700)).expect("made");
        at = rustix::fs::openat(&at, "deep", flags, Mode::empty()).expect("opened");
    }
    let entries =
        walk(folder.path(), Depth::default(), &BTreeSet::new()).expect("the chain is walked");
    assert_eq!(entries.len(), 3001);
    assert!(entries.iter().all(|entry| entry.kind == Kind::Directory));
}
