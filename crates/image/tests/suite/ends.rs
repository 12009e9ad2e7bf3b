//! How archives end: with two blocks of zeros, with less, with more; and in the middle of an entry.
use crate::hand::{END, file, header, pax};
use crate::{described, read_with, shell};
use extant_image::ErrorKind;
use extant_image::notice::NoticeKind;
use extant_image::source::{ArchiveEnd, ReadOptions};
use std::path::Path;

const ZEROS: [u8; 512] = [0; 512];

fn strict() -> ReadOptions {
    ReadOptions { archive_end: ArchiveEnd::Strict, ..Default::default() }
}

fn files() -> Vec<u8> {
    [file("one", &[b'1'; 600]), file("two", &[b'2'; 600])].concat()
}

/// GNU tar, bsdtar and Python list both files in each case.
#[test]
fn archives_without_their_end_are_read_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let third = file("three", b"3");
    let cases: Vec<(&str, Vec<u8>, Option<NoticeKind>)> = vec![
        ("two blocks", END.to_vec(), None),
        ("a record", vec![0; 10_240 - 3072], None),
        ("a large record", vec![0; 1 << 20], None),
        ("nothing", vec![], Some(NoticeKind::NoEndMark)),
        ("half a block", ZEROS[..300].to_vec(), Some(NoticeKind::NoEndMark)),
        ("one block", ZEROS.to_vec(), Some(NoticeKind::NoEndMark)),
        ("one and a half", [&ZEROS[..], &ZEROS[..200]].concat(), Some(NoticeKind::NoEndMark)),
        ("one, an entry", [&ZEROS[..], &third, &END].concat(), Some(NoticeKind::BytesAfterEnd)),
        ("two, an entry", [&END[..], &third, &END].concat(), Some(NoticeKind::BytesAfterEnd)),
        ("two, garbage", [&END[..], b"garbage"].concat(), Some(NoticeKind::BytesAfterEnd)),
        ("far garbage", [&[0; 9000][..], b"garbage"].concat(), Some(NoticeKind::BytesAfterEnd)),
    ];
    for (name, end, wanted) in cases {
        std::fs::write(&path, [&files()[..], &end].concat()).unwrap();
        for tool in ["cat", "gzip -c", "xz -c", "zstd -qc"] {
            shell(folder.path(), &format!("{tool} x.tar >y"));
            let packed = folder.path().join("y");
            let collected = read_with(&[&packed], &ReadOptions::default()).unwrap();
            assert_eq!(described(&collected).len(), 3, "{name} {tool}");
            let found: Vec<_> = collected.notices.kinds().collect();
            assert_eq!(found.first().map(|(kind, _)| *kind), wanted, "{name} {tool}");
            if let [(_, tally)] = &found[..] {
                assert!(
                    tally.count == 1
                        && tally.named[0].contains("y: ")
                        && tally.named[0].contains("entry is two"),
                    "{name} {tool}: {tally:?}"
                );
            }
            let strict = read_with(&[&packed], &strict());
            match wanted {
                None => assert!(strict.is_ok(), "{name} {tool}"),
                Some(_) => {
                    let error = strict.err().unwrap_or_else(|| panic!("{name} {tool}: read"));
                    assert!(
                        error.message.contains("two blocks of zeros")
                            || error.message.contains("after the zeros")
                    );
                    assert!(
                        error.message.contains("entry is two")
                            && matches!(error.kind, ErrorKind::ArchiveEnd),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn archives_that_were_cut_off_name_the_last_whole_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.tar");
    let whole = files();
    for (length, last) in [
        (100, "no entry is whole"),
        (1000, "no entry is whole"),
        (1535, "no entry is whole"),
        (2000, "is one"),
        (2100, "is one"),
        (3071, "is one"),
    ] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = read_with(&[&path], &ReadOptions::default()).err().expect("cut off");
        assert!(
            error.message.contains("truncated") && error.message.ends_with(last),
            "{length}: {error}"
        );
    }
    // What comes before an entry belongs to it.
    let long = [header("././@LongLink", b'L', 5, |_| {}), crate::hand::padded(b"long\0")].concat();
    for before in [pax(&[("path", "x")]), long] {
        for end in [&[][..], &END] {
            std::fs::write(&path, [&whole[..], &before, end].concat()).unwrap();
            let error = read_with(&[&path], &ReadOptions::default()).err().expect("cut off");
            assert!(error.message.contains("truncated"), "{error}");
        }
    }
    for nothing in [&[][..], &[0; 100]] {
        std::fs::write(&path, nothing).unwrap();
        assert!(read_with(&[&path], &ReadOptions::default()).is_err() || !nothing.is_empty());
    }
}

/// A compressed archive that was cut off is refused wherever it was cut: also where all its entries
/// came out whole.
#[test]
fn compressed_archives_are_never_read_when_they_were_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    for end in [&[][..], &END] {
        std::fs::write(folder.path().join("x.tar"), [&files()[..], end].concat()).unwrap();
        for tool in ["gzip -c", "xz -c", "zstd -qc", "zstd -qc --no-check"] {
            // Two members: between them only the archive itself can tell.
            shell(
                folder.path(),
                &format!(
                    "head -c 2000 x.tar | {tool} >one; tail -c +2001 x.tar | {tool} >two; cat one \
                     two >y"
                ),
            );
            let whole = std::fs::read(folder.path().join("y")).unwrap();
            assert!(read(&folder.path().join("y")).is_ok(), "{tool}");
            for length in 1..whole.len() {
                std::fs::write(folder.path().join("cut"), &whole[..length]).unwrap();
                let cut = read(&folder.path().join("cut"));
                assert!(cut.is_err(), "{tool}: {length} of {} bytes were read", whole.len());
            }
        }
    }
}

fn read(path: &Path) -> Result<usize, extant_image::Error> {
    read_with(&[path], &ReadOptions::default()).map(|collected| described(&collected).len())
}

/// Tapes and block devices fill up with zeros what follows a compressed archive: every tar reads
/// it.
#[test]
fn zeros_after_a_gzip_stream_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.gz");
    std::fs::write(folder.path().join("x.tar"), [&files()[..], &END].concat()).unwrap();
    shell(folder.path(), "head -c 700 x.tar | gzip -c >x.gz; tail -c +701 x.tar | gzip -c >>x.gz");
    let packed = std::fs::read(folder.path().join("x.gz")).unwrap();
    for zeros in [0, 1, 2, 9, 10, 512, 1 << 20] {
        std::fs::write(&path, [&packed[..], &vec![0; zeros]].concat()).unwrap();
        // GNU tar names what it lists, and fails where it cannot.
        shell(folder.path(), "test \"$(tar -tzf y.gz 2>/dev/null | wc -l)\" = 2");
        let collected = read_with(&[&path], &strict()).unwrap();
        assert_eq!(described(&collected).len(), 3, "{zeros}");
    }
    // After a whole archive gzip ignores what else there is: so it is here, with a notice.
    for garbage in [&b"garbage"[..], b"\0\0\0garbage"] {
        std::fs::write(&path, [&packed[..], garbage].concat()).unwrap();
        let collected = read_with(&[&path], &ReadOptions::default()).unwrap();
        assert_eq!(described(&collected).len(), 3, "{garbage:?}");
        let found: Vec<_> = collected.notices.kinds().collect();
        assert_eq!(found.first().map(|(kind, _)| *kind), Some(NoticeKind::BytesAfterEnd));
        let error = read_with(&[&path], &strict()).err().expect("strict");
        assert!(matches!(error.kind, ErrorKind::ArchiveEnd), "{error}");
    }
    // Not what may be the rest of a member.
    std::fs::write(&path, [&packed[..], b"\x1f"].concat()).unwrap();
    assert!(read_with(&[&path], &ReadOptions::default()).is_err());
}
