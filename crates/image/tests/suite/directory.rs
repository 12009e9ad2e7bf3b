//! Folders of the host read into a tree: what cannot be read, what is too deep for a path, what
//! must not be read.
use extant_image::Error;
use extant_image::source::{BodyReader, Collected, OnTrouble, ReadOptions, Source, collect};
use extant_image::tree::NodeId;
use extant_testkit::skips::{Known, skip_known};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn read_with(source: &Path, options: &ReadOptions) -> Result<Collected, Error> {
    collect([Source::from(source)], options, &())
}

fn names(collected: &Collected) -> Vec<String> {
    let children = collected.tree.children(NodeId::ROOT);
    children.map(|child| String::from_utf8_lossy(child.name).into_owned()).collect()
}

/// Made from the inside, since no path reaches its end. Each level has a second folder, so that
/// many stay to be read.
fn make_chain(root: &Path, depth: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = rustix::fs::open(root, flags, Mode::empty()).unwrap();
    for level in 0..depth {
        mkdirat(&at, "deep", Mode::RWXU).unwrap();
        mkdirat(&at, "side", Mode::RWXU).unwrap();
        let file = openat(&at, "side/f", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
        rustix::io::write(&file, level.to_string().as_bytes()).unwrap();
        at = openat(&at, "deep", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_chain_deeper_than_any_path_is_read_to_its_end() {
    const DEPTH: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    make_chain(folder.path(), DEPTH);
    let collected = read_with(folder.path(), &ReadOptions::default()).unwrap();
    assert_eq!(collected.tree.inode_count() as usize, 1 + 3 * DEPTH);
    let mut reader = BodyReader::new(&collected.tree, &collected.sources);
    let (mut at, mut seen) = (NodeId::ROOT, 0);
    while let [deep, side] = collected.tree.children(at).collect::<Vec<_>>()[..] {
        let file = collected.tree.children(side.node).next().unwrap().node;
        let mut text = vec![0; collected.tree.length(file) as usize];
        reader.read_at(file, 0, &mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text).trim(), seen.to_string());
        (at, seen) = (deep.node, seen + 1);
    }
    assert_eq!(seen, DEPTH);
}

#[test]
fn the_image_itself_is_no_part_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "image"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let image = std::fs::metadata(folder.path().join("image")).unwrap();
    let options = ReadOptions { never: vec![(image.dev(), image.ino())], ..Default::default() };
    assert_eq!(names(&read_with(folder.path(), &options).unwrap()), ["a", "socket"]);
}

#[test]
fn a_file_that_shrinks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, [1; 9000]).unwrap();
    let collected = read_with(folder.path(), &ReadOptions::default()).unwrap();
    std::fs::write(&path, [1; 10]).unwrap();
    let node = collected.tree.children(NodeId::ROOT).next().unwrap().node;
    let mut reader = BodyReader::new(&collected.tree, &collected.sources);
    let error = reader.read_at(node, 0, &mut [0; 9000]).unwrap_err();
    assert!(error.message.contains("f: became shorter"), "{error}");
}

/// As tar does it, the file ends where it ended; but the user is told.
#[test]
fn a_file_that_grows_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, [1; 9000]).unwrap();
    std::fs::write(folder.path().join("other"), "other").unwrap();
    let collected = read_with(folder.path(), &ReadOptions::default()).unwrap();
    std::fs::write(&path, [2; 9001]).unwrap();
    for child in collected.tree.children(NodeId::ROOT) {
        let mut reader = BodyReader::new(&collected.tree, &collected.sources);
        let mut bytes = vec![0; collected.tree.length(child.node) as usize];
        reader.read_at(child.node, 0, &mut bytes).unwrap();
        // Read twice, noted once.
        reader.read_at(child.node, 0, &mut bytes).unwrap();
    }
    let node = collected.tree.children(NodeId::ROOT).next().unwrap().node;
    assert_eq!(collected.sources.grown(), [(node, 9001)]);
}

#[test]
fn what_cannot_be_read_is_named_and_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "secret", "z"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }

    let missing = read_with(&folder.path().join("missing"), &ReadOptions::default()).err().unwrap();
    assert!(missing.message.ends_with("missing: No such file or directory"), "{missing}");
    if rustix::process::geteuid().is_root() {
        return skip_known(Known::OrdinaryUser, "root reads everything");
    }
    std::fs::set_permissions(
        folder.path().join("secret"),
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    let error = read_with(folder.path(), &ReadOptions::default()).err().unwrap();
    assert!(error.message.ends_with("/secret: Permission denied"), "{error}");
    let options = ReadOptions { on_trouble: OnTrouble::Skip, ..Default::default() };
    let collected = read_with(folder.path(), &options).unwrap();
    assert_eq!(names(&collected), ["a", "z"]);
    assert_eq!(collected.skipped.len(), 1);
}
