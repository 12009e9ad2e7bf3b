//! Whiteouts as the OCI image specification has them, and sources that replace what earlier ones
//! have.
use crate::hand::{archive, file, header, link};
use crate::{described, read_with};
use extant_image::notice::{NoticeKind, Notices};
use extant_image::source::ReadOptions;
use extant_image::tree::Layers;
use std::path::PathBuf;

fn oci() -> ReadOptions {
    ReadOptions { layers: Layers::Oci, ..ReadOptions::default() }
}

fn directory(name: &str) -> Vec<u8> {
    header(name, b'5', 0, |_| {})
}

/// A base layer, and this one over it: the names in the image, and what was noted.
fn over_base(parts: &[Vec<u8>], options: &ReadOptions) -> (Vec<String>, Notices) {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        directory("a"),
        file("a/1", b"1"),
        file("a/2", b"2"),
        directory("a/s"),
        file("a/s/x", b""),
        directory("u"),
        file("u/y", b"y"),
        link("l", b'2', "u"),
        file("k", b"k"),
    ];
    let layers: Vec<PathBuf> = [&base[..], parts]
        .iter()
        .enumerate()
        .map(|(number, parts)| {
            archive(folder.path(), &format!("layer-{number}"), &[&parts.concat()])
        })
        .collect();
    let collected = read_with(&[&layers[0], &layers[1]], options).unwrap();
    let names = described(&collected).into_keys().filter(|name| name != "/").collect();
    (names, collected.notices)
}

const BASE: [&str; 9] = ["/a", "/a/1", "/a/2", "/a/s", "/a/s/x", "/k", "/l", "/u", "/u/y"];

/// [`BASE`] with names more and less.
fn base(less: &[&str], more: &[&str]) -> Vec<String> {
    let kept = BASE.iter().filter(|name| !less.contains(name)).chain(more);
    let mut names: Vec<String> = kept.map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

/// A name, the entries of a layer, and the names in the image.
type Case = (&'static str, Vec<Vec<u8>>, Vec<String>);

/// What umoci makes of the same layers, but for aufs's own files, of which it keeps some.
#[test]
fn a_whiteout_is_one_whatever_its_type_and_order() {
    let gone = || base(&["/a/1"], &[]);
    let cases: Vec<Case> = vec![
        ("file", vec![file("a/.wh.1", b"")], gone()),
        ("file with bytes", vec![file("a/.wh.1", b"bytes")], gone()),
        ("hard link", vec![file("q", b""), link("a/.wh.1", b'1', "q")], base(&["/a/1"], &["/q"])),
        ("hard link to nothing", vec![link("a/.wh.1", b'1', ".wh..wh.aufs")], gone()),
        ("symlink", vec![link("a/.wh.1", b'2', "q")], gone()),
        ("fifo", vec![header("a/.wh.1", b'6', 0, |_| {})], gone()),
        ("device", vec![header("a/.wh.1", b'3', 0, |_| {})], gone()),
        ("directory", vec![directory("a/.wh.1")], gone()),
        ("./", vec![file("./a/.wh.1", b"")], gone()),
        ("before its own", vec![file("a/.wh.1", b""), file("a/1", b"n")], base(&[], &[])),
        ("after its own", vec![file("a/1", b"n"), file("a/.wh.1", b"")], base(&[], &[])),
        ("through a link", vec![file("l/.wh.y", b"")], base(&["/u/y"], &[])),
        ("the link", vec![file(".wh.l", b"")], base(&["/l"], &[])),
        ("not there", vec![file("z/.wh.x", b"")], base(&[], &[])),
        ("below a file", vec![file("k/.wh.x", b"")], base(&[], &[])),
        (
            "a directory that is made again",
            vec![directory("a"), file("a/3", b""), file(".wh.a", b"")],
            base(&["/a/1", "/a/2", "/a/s", "/a/s/x"], &["/a/3"]),
        ),
        (
            "a link that becomes a directory, whiteout first",
            vec![file("l/.wh.y", b""), file("l/.wh..wh..opq", b""), directory("l")],
            base(&[], &[]),
        ),
        (
            "opaque last",
            vec![file("a/n", b""), file("a/.wh..wh..opq", b"")],
            base(&["/a/1", "/a/2", "/a/s", "/a/s/x"], &["/a/n"]),
        ),
        (
            "opaque hard link first",
            vec![file("q", b""), link("a/.wh..wh..opq", b'1', "q"), file("a/2", b"n")],
            base(&["/a/1", "/a/s", "/a/s/x"], &["/q"]),
        ),
        ("opaque root", vec![file("n", b""), file(".wh..wh..opq", b"")], base(&BASE, &["/n"])),
        ("opaque through a link", vec![file("l/.wh..wh..opq", b"")], base(&["/u/y"], &[])),
        ("opaque, not there", vec![file("z/.wh..wh..opq", b"")], base(&[], &[])),
        ("no whiteout", vec![file("a/x.wh.y", b"")], base(&[], &["/a/x.wh.y"])),
    ];
    for (name, parts, wanted) in cases {
        let (names, notices) = over_base(&parts, &oci());
        assert_eq!(names, wanted, "{name}");
        let unexpected =
            notices.kinds().find(|(kind, _)| *kind != NoticeKind::DirectoryOverSymlink);
        assert!(unexpected.is_none(), "{name}: {unexpected:?}");
    }
}

/// A directory that is removed leaves no owner and mode to one that takes its name.
#[test]
fn a_directory_that_is_removed_and_needed_again_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let base = [header("d", b'5', 0, |bytes| bytes[100..107].copy_from_slice(b"0000700"))];
    let base = archive(folder.path(), "base", &[&base.concat(), &file("d/old", b"")]);
    for parts in
        [[file(".wh.d", b""), file("d/new", b"")], [file("d/new", b""), file(".wh.d", b"")]]
    {
        let layer = archive(folder.path(), "layer", &[&parts.concat()]);
        let described = described(&read_with(&[&base, &layer], &oci()).unwrap());
        assert!(described["/d"].starts_with("40755 "), "{described:?}");
        assert!(described.contains_key("/d/new") && !described.contains_key("/d/old"));
    }
}

#[test]
fn what_aufs_keeps_for_itself_is_no_file_but_its_links_are() {
    let parts = [
        file(".wh..wh.aufs", b""),
        directory(".wh..wh.orph"),
        directory(".wh..wh.plnk"),
        file(".wh..wh.plnk/7.1", b"linked"),
        link("h", b'1', ".wh..wh.plnk/7.1"),
        link("a/h", b'1', "h"),
        link(".wh..wh.plnk/7.2", b'1', "h"),
    ];
    let (names, notices) = over_base(&parts, &oci());
    assert_eq!(names, base(&[], &["/a/h", "/h"]));
    assert_eq!(notices, Notices::default());
}

/// Nothing begins with `.wh.` in an image, and no whiteout leads out of its directory.
#[test]
fn whiteouts_of_nothing_and_files_below_them_are_left_out_and_noted() {
    let parts = [
        file("a/.wh.", b""),
        file("a/.wh..", b""),
        file("a/s/.wh...", b""),
        directory("a/.wh.1"),
        file("a/.wh.1/z", b""),
    ];
    let (names, notices) = over_base(&parts, &oci());
    assert_eq!(names, base(&["/a/1"], &[]));
    let nothing = notices.of(NoticeKind::WhiteoutOfNothing).unwrap();
    assert_eq!(nothing.count, 3);
    assert!(nothing.named[2].starts_with("a/s/.wh...: "), "{nothing:?}");
    let below = notices.of(NoticeKind::BelowWhiteout).unwrap();
    assert!(below.count == 1 && below.named[0].starts_with("a/.wh.1/z: "), "{below:?}");
}

#[test]
fn whiteouts_that_are_not_asked_for_draw_a_hint() {
    let overlay = header("a/2", b'3', 0, |bytes| {
        bytes[329..337].copy_from_slice(b"0000000\0");
        bytes[337..345].copy_from_slice(b"0000000\0");
    });
    let parts =
        [file("a/.wh.1", b""), link("a/.wh.3", b'1', "k"), file(".wh..wh..opq", b""), overlay];
    let (names, notices) = over_base(&parts, &ReadOptions::default());
    assert_eq!(names, base(&[], &["/.wh..wh..opq", "/a/.wh.1", "/a/.wh.3"]));
    let kept = notices.of(NoticeKind::WhiteoutKept).unwrap();
    assert_eq!(kept.count, 3);
    assert!(kept.named[0] == "a/.wh.1: a whiteout is kept as a file", "{kept:?}");
    let overlay = notices.of(NoticeKind::OverlayWhiteoutKept).unwrap();
    assert!(overlay.named[0].starts_with("a/2: "), "{overlay:?}");
}

#[test]
fn what_replaces_a_symlink_or_a_directory_of_an_earlier_source_is_noted() {
    let (names, notices) =
        over_base(&[directory("l/"), file("l/z", b""), file("a", b"")], &ReadOptions::default());
    assert_eq!(names, ["/a", "/k", "/l", "/l/z", "/u", "/u/y"]);
    let link = notices.of(NoticeKind::DirectoryOverSymlink).unwrap();
    assert!(link.count == 1 && link.named[0].starts_with("l: "), "{link:?}");
    let directory = notices.of(NoticeKind::FileOverDirectory).unwrap();
    assert!(directory.count == 1 && directory.named[0].starts_with("a: "), "{directory:?}");
    // In a layer that is how a directory is removed.
    let (_, notices) = over_base(&[file("a", b"")], &oci());
    assert_eq!(notices, Notices::default());
}

#[test]
fn what_replaces_a_directory_of_the_same_source_is_noted() {
    let parts = [directory("x/"), file("x/y", b"lost"), file("x", b"kept")];
    let (names, notices) = over_base(&parts, &ReadOptions::default());
    assert!(names.contains(&"/x".to_owned()) && !names.contains(&"/x/y".to_owned()), "{names:?}");
    let noted = notices.of(NoticeKind::FileOverDirectory).unwrap();
    assert!(noted.count == 1 && noted.named[0].contains("same source"), "{noted:?}");
}

#[test]
fn whiteouts_remove_what_lies_below_only() {
    let folder = tempfile::tempdir().unwrap();
    let base = archive(
        folder.path(),
        "base",
        &[
            &file("a/1", b"1"),
            &file("a/2", b"2"),
            &file("o/old", b""),
            &file("o/sub/old", b""),
            &file("d/x", b""),
            &file("k", b""),
        ],
    );
    let layer = archive(
        folder.path(),
        "layer",
        &[
            &file("o/new", b""),
            &file("a/.wh.1", b""),
            &header("o/sub", b'5', 0, |_| {}),
            &file("o/.wh..wh..opq", b""),
            &header("d", b'5', 0, |_| {}),
            &file("d/y", b""),
            &file(".wh.d", b""),
            &file("k", b"again"),
            &file(".wh.k", b""),
            &file(".wh.absent", b""),
        ],
    );
    let lines = described(&read_with(&[&base, &layer], &oci()).unwrap());
    let names: Vec<&str> = lines.keys().map(String::as_str).collect();
    assert_eq!(names, ["/", "/a", "/a/2", "/d", "/d/y", "/k", "/o", "/o/new", "/o/sub"]);
    let plain = described(&read_with(&[&base, &layer], &ReadOptions::default()).unwrap());
    assert!(plain.contains_key("/a/.wh.1") && plain.contains_key("/a/1"));
}
