//! Projects: numbers of objects, which those made in a directory inherit; and what the flags for
//! synchronous changes promise. No kernel here mounts volumes with projects: what Linux does is
//! taken from its documentation (ext4(5), FS_IOC_FSSETXATTR(2const)).
use crate::by_inode::{finish, fresh};
use crate::volume::{MIB, Specification};
use extant_block::{BlockDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{
    Caller, ErrorKind, Filesystem, FlagChange, Inode, New, NewKind, Rename, recover,
};
use extant_format::inode::flags::{DIRECTORY_SYNC, IMMUTABLE, PROJECT_INHERIT, SYNC};
use extant_sim::CrashLog;
use std::sync::Arc;

fn with_projects() -> Specification {
    let specification = Specification::new(Profile::Ext4, 1024, 16 * MIB);
    Specification { features: "project", ..specification }
}

fn make(volume: &Filesystem, parent: &Inode, name: &[u8], kind: NewKind<'_>) -> Inode {
    volume.inodes().create(parent, name, &New { kind, ..New::default() }).expect("makes")
}

fn flag(volume: &Filesystem, inode: &Inode, set: u32) {
    volume.inodes().change_flags(inode, FlagChange { set, clear: 0 }).expect("sets a flag");
}

#[test]
fn new_objects_belong_to_the_project_of_their_directory() {
    let (device, volume) = fresh(&with_projects());
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let home = make(&volume, &root, b"home", NewKind::Directory);
    let before = make(&volume, &home, b"before", NewKind::File);
    inodes.set_project(&home, 77).expect("sets it");
    // Only with the flag.
    let without = make(&volume, &home, b"without", NewKind::File);
    assert_eq!(inodes.project(&without).expect("is there"), 0);
    flag(&volume, &home, PROJECT_INHERIT);
    let kinds = [
        (b"file".as_slice(), NewKind::File),
        (b"directory", NewKind::Directory),
        (b"symlink", NewKind::Symlink(b"target")),
        (b"fifo", NewKind::Fifo),
    ];
    for (name, kind) in kinds {
        let inode = make(&volume, &home, name, kind);
        assert_eq!(inodes.project(&inode).expect("is there"), 77, "{name:?}");
        let inherits = inodes.flags(&inode).expect("is there") & PROJECT_INHERIT != 0;
        assert_eq!(inherits, kind == NewKind::Directory, "{name:?}");
    }
    let (nameless, file) = inodes.create_nameless(&home, &New::default()).expect("makes");
    assert_eq!(inodes.project(&nameless).expect("is there"), 77);
    drop((nameless, file));
    assert_eq!(inodes.project(&before).expect("is there"), 0);

    // It takes no others, under any name.
    let outside = make(&volume, &root, b"outside", NewKind::File);
    let is_other = |outcome: extant_engine::Result<()>| {
        let error = outcome.expect_err("is refused");
        assert!(matches!(error.kind, ErrorKind::OtherProject) && error.errno() == 18, "{error}");
    };
    is_other(inodes.link(&outside, &home, b"link"));
    is_other(inodes.rename((&root, b"outside"), (&home, b"moved"), Rename::Replace));
    is_other(inodes.rename((&root, b"outside"), (&home, b"file"), Rename::Exchange));
    is_other(inodes.rename((&home, b"file"), (&root, b"outside"), Rename::Exchange));
    // Its own may leave, and come back.
    inodes.rename((&home, b"file"), (&root, b"file"), Rename::Replace).expect("moves");
    inodes.rename((&root, b"file"), (&home, b"file"), Rename::Replace).expect("moves back");
    inodes.set_project(&outside, 77).expect("sets it");
    inodes.link(&outside, &home, b"link").expect("links");

    // It is kept on the disk.
    drop((root, home, before, without, outside));
    volume.close().expect("closes");
    let volume = with_projects().open(&device).expect("opens");
    for (path, project) in [("/home", 77), ("/home/directory", 77), ("/home/before", 0)] {
        let inode = volume.inode(path).expect("is there");
        assert_eq!(volume.inodes().project(&inode).expect("is there"), project, "{path}");
    }
    finish(&device, volume);
}

#[test]
fn projects_are_set_by_owners_where_there_is_room_for_them() {
    let (device, volume) = fresh(&with_projects());
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let file = make(&volume, &root, b"file", NewKind::File);
    let stranger = Caller::user(1000, 1000);
    let refused = volume.inodes_for(&stranger).set_project(&file, 5);
    assert_eq!(refused.expect_err("is refused").errno(), 1);
    flag(&volume, &file, IMMUTABLE);
    assert_eq!(inodes.set_project(&file, 5).expect_err("is refused").errno(), 1);
    inodes.set_project(&file, 0).expect("changes nothing");
    drop((root, file));
    finish(&device, volume);

    let plain = Specification::new(Profile::Ext4, 1024, 16 * MIB);
    for specification in [plain, Specification { inode_size: 128, ..with_projects() }] {
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let inodes = volume.inodes();
        let root = inodes.root().expect("a root");
        let file = make(&volume, &root, b"file", NewKind::File);
        inodes.set_project(&file, 0).expect("changes nothing");
        assert_eq!(inodes.set_project(&file, 5).expect_err("is refused").errno(), 95);
        assert_eq!(inodes.project(&file).expect("is there"), 0);
        volume.close().expect("closes");
    }
}

#[test]
fn what_is_flagged_as_synchronous_is_durable_when_the_call_returns() {
    for profile in [Profile::Ext4, Profile::Ext2] {
        let specification = Specification::new(profile, 1024, 16 * MIB);
        let base = specification.make(RealClock::new());
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        let inodes = volume.inodes();
        let root = inodes.root().expect("a root");
        let directory = make(&volume, &root, b"d", NewKind::Directory);
        let (inode, file) = inodes.create_open(&root, b"file", &New::default()).expect("makes");
        flag(&volume, &directory, DIRECTORY_SYNC);
        flag(&volume, &inode, SYNC);
        let after = |what: &str| {
            let medium = log.cut(log.moments()).durable(&base).expect("a medium");
            let medium: Arc<dyn BlockDevice> = Arc::new(medium);
            recover(&medium).expect("recovers");
            Filesystem::open(medium, &specification.options())
                .unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        file.write_all_at(0, b"written").expect("writes");
        assert_eq!(after("a write").read("/file").expect("is there"), b"written");
        file.set_len(3).expect("cuts");
        assert_eq!(after("a cut").read("/file").expect("is there"), b"wri");
        make(&volume, &directory, b"new", NewKind::Directory);
        after("a new name").metadata("/d/new").expect("is there");
        inodes.link(&inode, &directory, b"link").expect("links");
        after("a link").metadata("/d/link").expect("is there");
        inodes.rename((&directory, b"link"), (&root, b"moved"), Rename::Replace).expect("moves");
        let volume_after = after("a rename");
        volume_after.metadata("/moved").expect("is there");
        assert!(volume_after.metadata("/d/link").is_err());
        inodes.remove_directory(&directory, b"new").expect("removes");
        assert!(after("a removal").metadata("/d/new").is_err());
        drop((root, directory, inode, file));
        volume.close().expect("closes");
    }
}
