//! Entries that tell a size although nothing, or something, follows them.
use crate::hand::{archive, file, header, link, padded, pax};
use crate::{read, shell};
use std::path::Path;

/// The names in an archive of a file, this entry with what follows it, and another file.
fn names(folder: &Path, parts: &[Vec<u8>]) -> Vec<String> {
    let path =
        archive(folder, "x.tar", &[&file("target", b"abc"), &parts.concat(), &file("z", b"z")]);
    let found = read(&path);
    // The same from a stream.
    shell(folder, "gzip -c x.tar >x.tar.gz");
    assert_eq!(read(&folder.join("x.tar.gz")), found);
    found.into_keys().filter(|name| name != "/").collect()
}

fn sized(kind: u8, size: u64) -> Vec<u8> {
    header("e", kind, size, |bytes| {
        if matches!(kind, b'1' | b'2') {
            bytes[157..163].copy_from_slice(b"target");
        }
        bytes[329..336].copy_from_slice(b"0000001");
        bytes[337..344].copy_from_slice(b"0000003");
    })
}

/// POSIX, GNU tar, bsdtar, Python and Go: a directory's size is no content. Of the others GNU tar
/// thinks that content follows, the other four not.
#[test]
fn sizes_of_entries_without_content_lose_no_entries() {
    let folder = tempfile::tempdir().unwrap();
    for kind in *b"123456" {
        for size in [1, 512, 1024, 4096, 0o77_777_777_777] {
            let parts = [sized(kind, size), file("inner", b"x")];
            let found = names(folder.path(), &parts);
            assert_eq!(found, ["/e", "/inner", "/target", "/z"], "{} {size}", char::from(kind));
        }
        // The last entry, and nothing but the end after it.
        let path = archive(folder.path(), "x.tar", &[&file("target", b"abc"), &sized(kind, 700)]);
        assert_eq!(read(&path).len(), 3, "{}", char::from(kind));
    }
}

/// What does follow is passed over: no header can begin there.
#[test]
fn content_of_entries_that_should_have_none_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    for kind in *b"123456" {
        for size in [1_usize, 512, 513, 70_000] {
            let parts = [sized(kind, size as u64), padded(&vec![b'B'; size])];
            let found = names(folder.path(), &parts);
            assert_eq!(found, ["/e", "/target", "/z"], "{} {size}", char::from(kind));
        }
    }
}

/// The standard gives hard links content where an extended header has its size, even when it
/// looks like an entry; GNU tar and bsdtar read it so.
#[test]
fn hard_links_of_extended_archives_have_content() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [pax(&[("size", "1024")]), link("e", b'1', "target"), file("inner", b"x")];
    assert_eq!(names(folder.path(), &parts), ["/e", "/target", "/z"]);
}

/// GNU's directories with a listing, files that are directories by their name, labels, contiguous
/// files, and types that no standard knows: bytes follow.
#[test]
fn entries_with_content_of_every_other_type() {
    let folder = tempfile::tempdir().unwrap();
    let body = file("inner", b"x");
    for (kind, name, wanted) in [
        (b'D', "e", true),
        (b'0', "e/", true),
        (0, "e/", true),
        (b'7', "e", true),
        (b'V', "e", false),
        (b'N', "e", true),
        (b'A', "e", true),
        (b'Q', "e", true),
    ] {
        let parts = [header(name, kind, 1024, |_| {}), body.clone()];
        let found = names(folder.path(), &parts);
        let expected: &[&str] = if wanted { &["/e", "/target", "/z"] } else { &["/target", "/z"] };
        assert_eq!(found, expected, "{kind} {name}");
        // The size of an extended header counts more than that of the header.
        let parts = [pax(&[("size", "1024")]), header(name, kind, 0, |_| {}), body.clone()];
        assert_eq!(names(folder.path(), &parts), expected, "{kind} {name}, extended");
        let base256 = header(name, kind, 0, |bytes| {
            bytes[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
        });
        assert_eq!(
            names(folder.path(), &[base256, body.clone()]),
            expected,
            "{kind} {name}, base 256"
        );
    }
}

/// An extended header in front of a volume's label is the label's.
#[test]
fn a_label_takes_its_extended_header_along() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [pax(&[("path", "renamed")]), header("label", b'V', 0, |_| {})];
    assert_eq!(names(folder.path(), &parts), ["/target", "/z"]);
}

/// Of several extended headers the last counts alone, as in GNU tar, bsdtar and Go. Long names end
/// at the first NUL.
#[test]
fn the_last_extended_header_counts() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [pax(&[("path", "no"), ("mtime", "7")]), pax(&[("uid", "7")]), file("yes", b"")];
    assert_eq!(names(folder.path(), &parts), ["/target", "/yes", "/z"]);
    let long = [header("././@LongLink", b'L', 600, |_| {}), padded(b"long\0\0long"), padded(b"")];
    let parts = [long.concat(), vec![0; 512], file("cut", b"")];
    assert_eq!(names(folder.path(), &parts), ["/long", "/target", "/z"]);
}
