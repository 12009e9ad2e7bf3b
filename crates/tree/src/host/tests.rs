//! What the host says, and what it does when a tree changes under a walk.
use super::*;
use crate::Facts;
use extant_format::inode::{Device, FileType, Time};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, openat};
use rustix::fs::{OFlags, XattrFlags, fstat, mkdirat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

fn open(path: &Path) -> OwnedFd {
    open_path(path.as_os_str().as_bytes()).unwrap()
}

/// Makes folders in each other, and goes down into all of them.
fn descend(base: &Path, count: usize) -> Way {
    let mut way = Way::new(open(base), FOLDER);
    for _ in 0..count {
        mkdirat(way.here(), "n".repeat(200), Mode::RWXU).unwrap();
        way.enter("n".repeat(200).as_bytes(), Links::Stay).unwrap();
    }
    way
}

fn identity_of(folder: impl AsFd) -> (u64, u64) {
    identity(&fstat(folder).unwrap())
}

#[test]
fn a_way_comes_back_to_each_folder_however_deep() {
    let base = tempfile::tempdir().unwrap();
    let mut way = Way::new(open(base.path()), FOLDER);
    let mut passed = vec![identity_of(way.here())];
    for _ in 0..120 {
        mkdirat(way.here(), "n", Mode::RWXU).unwrap();
        way.enter(b"n", Links::Stay).unwrap();
        passed.push(identity_of(way.here()));
    }
    while let Some(left) = way.leave(Back::ParentOrNames).unwrap() {
        assert_eq!(Some(identity_of(left)), passed.pop());
        assert_eq!(Some(&identity_of(way.here())), passed.last());
    }
    assert_eq!(passed.len(), 1);
}

#[test]
fn a_folder_that_was_moved_meanwhile_is_not_taken_for_another() {
    for (is_replaced, back) in
        [(false, Back::ParentOrNames), (true, Back::ParentOrNames), (false, Back::Parent)]
    {
        let base = tempfile::tempdir().unwrap();
        let mut way = descend(base.path(), 60);
        let first = base.path().join("n".repeat(200));
        std::fs::rename(first.join("n".repeat(200)), base.path().join("moved")).unwrap();
        if is_replaced {
            std::fs::rename(&first, base.path().join("old")).unwrap();
            std::fs::create_dir(&first).unwrap();
        }
        let outcome = (0..60).find_map(|_| way.leave(back).err());
        // From below it is not found any more, but by its name, unless that is another's, or who
        // fills it has to know that it was moved.
        let is_stale = is_replaced || back == Back::Parent;
        assert_eq!(outcome, is_stale.then_some(Errno::STALE));
    }
}

#[test]
fn a_path_may_be_longer_than_the_kernel_takes() {
    let base = tempfile::tempdir().unwrap();
    let way = descend(base.path(), 40);
    let mut path = base.path().as_os_str().as_bytes().to_vec();
    (0..40).for_each(|_| path.extend_from_slice(format!("//{}", "n".repeat(200)).as_bytes()));
    assert!(path.len() > 8000);
    assert_eq!(identity_of(open_path(&path).unwrap()), identity_of(way.here()));
    let names = (0..40).map(|_| [b'n'; 200]).collect::<Vec<_>>();
    let below = open_below(way.base(), names.iter().map(|name| &name[..]), FOLDER).unwrap();
    assert_eq!(identity_of(below), identity_of(way.here()));
    assert_eq!(open_path(&[b'n'; 5000]).unwrap_err(), Errno::NAMETOOLONG);
}

#[test]
fn nothing_is_opened_below_through_a_symlink_when_none_is_followed() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(base.path().join("real/in")).unwrap();
    symlink("real", base.path().join("link")).unwrap();
    let root = open(base.path());
    let below = |flags| open_below(root.as_fd(), [&b"link"[..], b"in"], flags);
    assert!(below(FOLDER).is_ok());
    assert!(matches!(below(FOLDER | OFlags::NOFOLLOW), Err(Errno::LOOP | Errno::NOTDIR)));
    let mut way = Way::new(open(base.path()), FOLDER);
    assert!(way.enter(b"link", Links::Stay).is_err());
    way.enter(b"link", Links::Follow).unwrap();
    way.enter(b"in", Links::Stay).unwrap();
    way.leave(Back::ParentOrNames).unwrap();
    assert_eq!(identity_of(way.here()), identity_of(open(&base.path().join("real"))));
}

#[test]
fn names_are_sorted_and_what_a_file_got_is_found() {
    let base = tempfile::tempdir().unwrap();
    let folder = open(base.path());
    let here = folder.as_fd();
    for name in ["b", "a", "B"] {
        File::create(base.path().join(name)).unwrap().write_all_at(b"123", 0).unwrap();
    }
    make_node((here, b"pipe"), FileType::Fifo, 0o600, Device::default()).unwrap();
    let readable = openat(here, c".", OFlags::RDONLY, Mode::empty()).unwrap();
    assert_eq!(names(readable).unwrap(), [&b"B"[..], b"a", b"b", b"pipe"]);
    let (read, changed) = (5, 1 << 33);
    let time = |seconds| Time { seconds, nanoseconds: 7 };
    let object = open_object((here, b"a")).unwrap();
    // First: a call that says no owner takes set-user-ID too.
    set_owner((here, b"a"), Some(u32::MAX), None).unwrap();
    set_permissions(object.as_fd(), 0o4751).unwrap();
    set_times((here, b"a"), &times(time(read), time(changed))).unwrap();
    let path = base.path().join("a");
    let flags = XattrFlags::empty();
    let set = rustix::fs::lsetxattr(&path, "user.long", &[b'x'; 300], flags);
    let found = attributes(here, b"a", Links::Stay).unwrap();
    match set {
        Ok(()) => {
            assert_eq!((&found.readable[0].name[..], found.readable.len()), (&b"user.long"[..], 1));
            assert_eq!(found.readable[0].value, [b'x'; 300]);
        }
        Err(_) => assert_eq!(found, Attributes::default()),
    }
    let stat = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let found = facts(&stat);
    let wanted = Facts {
        file_type: FileType::Regular,
        permissions: 0o4751,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modify_time: time(changed),
        access_time: Some(time(read)),
        change_time: found.change_time,
        size: 3,
        ..Facts::default()
    };
    assert_eq!(found, wanted);
    let pipe = statat(here, "pipe", AtFlags::empty()).unwrap();
    assert_eq!((facts(&pipe).file_type, facts(&pipe).permissions), (FileType::Fifo, 0o600));
}

#[test]
fn the_pieces_of_a_file_are_what_is_no_hole() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(&[1; 4096], 64 << 10).unwrap();
    file.write_all_at(&[1], (1 << 20) - 1).unwrap();
    let found = pieces(file.as_fd(), 1 << 20).unwrap();
    let holds = |at: u64| found.iter().any(|piece| piece.contains(&at));
    assert!(holds(64 << 10) && holds((1 << 20) - 1));
    assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
    // A file system without holes gives all in one piece.
    assert!(found.len() == 1 || found.len() == 2 && !holds(0) && !holds(512 << 10), "{found:?}");
    assert_eq!(next_data(file.as_fd(), 1 << 20, 1 << 20).unwrap(), None);
    // It was longer when its size was asked for.
    assert!(pieces(file.as_fd(), 2 << 20).unwrap().iter().all(|piece| piece.end <= 1 << 20));
    let first = pieces(file.as_fd(), 4096).unwrap();
    assert_eq!(first.len(), usize::from(holds(0)), "{first:?}");
}
