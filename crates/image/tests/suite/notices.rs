//! What cannot be kept is named, up to a limit, and counted.
use crate::hand::{archive, file, header, pax};
use crate::{described, read_with};
use extant_image::notice::{NAMED_MAX, NoticeKind, Notices};
use extant_image::source::ReadOptions;

fn notices(parts: &[Vec<u8>]) -> (Vec<String>, Notices) {
    let folder = tempfile::tempdir().unwrap();
    let path = archive(folder.path(), "x.tar", &[&parts.concat()]);
    let collected = read_with(&[&path], &ReadOptions::default()).unwrap();
    (described(&collected).into_values().collect(), collected.notices)
}

#[test]
fn access_lists_lose_only_the_entries_that_have_no_number() {
    let list = "user::rw-,user:joe:r--,user:7:rw-,group:staff:r--,group::r--,mask::rw-,other::r--";
    let (lines, found) = notices(&[pax(&[("SCHILY.acl.access", list)]), file("x", b"")]);
    let numbers = "user::rw-,user:7:rw-,group::r--,mask::rw-,other::r--";
    let (wanted, none) = notices(&[pax(&[("SCHILY.acl.access", numbers)]), file("x", b"")]);
    assert_eq!(lines, wanted);
    assert!(lines[1].contains("posix_acl_access"), "{lines:?}");
    assert_eq!(none, Notices::default());
    let tally = found.of(NoticeKind::AccessListNames).unwrap();
    assert!(tally.named[0].contains("x: its access list lost"), "{tally:?}");
    assert!(tally.named[0].contains("user joe, group staff"), "{tally:?}");
}

/// bsdtar's headers tell the permissions of the owning group, where a file with a list shows its
/// mask.
#[test]
fn a_file_with_an_access_list_shows_its_mask() {
    let list = "user::rw-,user:7:rwx,group::r--,mask::rwx,other::---";
    let (lines, _) = notices(&[pax(&[("SCHILY.acl.access", list)]), file("x", b"")]);
    assert!(lines[1].starts_with("100670 "), "{lines:?}");
}

#[test]
fn the_first_of_each_kind_are_named_and_all_are_counted() {
    let unknown = (0..20).map(|number| header(&format!("f{number}"), b'Q', 0, |_| {}));
    let flags = [
        pax(&[("SCHILY.fflags", "schg,uchg"), ("SCHILY.acl.ace", "owner@:rwx::allow")]),
        file("g", b""),
    ];
    let (lines, found) = notices(&unknown.chain(flags).collect::<Vec<_>>());
    assert_eq!(lines.len(), 22);
    let tally = found.of(NoticeKind::UnknownType).unwrap();
    assert_eq!((tally.count, tally.named.len()), (20, NAMED_MAX));
    assert!(tally.named[4].starts_with("f4: ") && tally.named[4].contains("\"Q\""), "{tally:?}");
    let kinds: Vec<&str> = found.kinds().map(|(kind, _)| kind.word()).collect();
    assert_eq!(kinds, ["unknown-type", "access-list-form", "file-flags"]);
    let tally = found.of(NoticeKind::FileFlags).unwrap();
    assert_eq!(tally.named, ["g: its file flags (uchg) were left out"]);
}
