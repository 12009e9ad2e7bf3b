//! What only a mount asks for: inodes by number alone, and changes of content that say what becomes
//! of the rights that a file is run with.
use crate::by_inode::{finish, fresh};
use crate::volume::{MIB, Specification};
use extant_engine::mkfs::Profile;
use extant_engine::{
    ErrorKind, Filesystem, Inode, MetadataChange, New, RangeChange, RunRights, SetAttribute, Size,
};
use extant_format::Ino;

const CAPABILITY: &[u8] = b"security.capability";
/// A value of it that the kernel takes.
const VALUE: [u8; 20] = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn volume() -> Specification {
    Specification::new(Profile::Ext4, 1024, 8 * MIB)
}

#[test]
fn an_inode_is_found_by_its_number_alone() {
    let specification = volume();
    let (device, volume) = fresh(&specification);
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let made = inodes.create(&root, b"file", &New::default()).expect("makes");
    let found = inodes.by_number(made.number()).expect("is in use");
    assert_eq!(found.generation(), made.generation());

    // Also one that has to be read again.
    inodes.sync().expect("syncs");
    inodes.drop_all();
    let found = inodes.by_number(made.number()).expect("is in use");
    assert_eq!((found.number(), found.generation()), (made.number(), made.generation()));

    inodes.unlink(&root, b"file").expect("unlinks");
    let gone = [made.number(), Ino(0), Ino(5), Ino(u32::MAX)];
    for number in gone {
        let error = inodes.by_number(number).expect_err("is not in use");
        assert!(matches!(error.kind, ErrorKind::NotFound), "{number:?}: {error}");
    }
    // Once that is durable, the number belongs to the next inode, and leads to that one.
    inodes.sync().expect("syncs");
    let next = inodes.create(&root, b"next", &New::default()).expect("makes");
    assert_eq!(next.number(), made.number());
    let found = inodes.by_number(made.number()).expect("is in use");
    assert_eq!(found.generation(), next.generation());
    assert_ne!(found.generation(), made.generation());
    drop((root, made, next, found));
    finish(&device, volume);
}

/// Mode, and whether there is a capability.
fn rights(volume: &Filesystem, inode: &Inode) -> (u16, bool) {
    let inodes = volume.inodes();
    let mode = inodes.metadata(inode).expect("is there").mode & 0o7777;
    (mode, inodes.attribute(inode, CAPABILITY).is_ok())
}

fn give_rights(volume: &Filesystem, inode: &Inode) {
    let inodes = volume.inodes();
    let change = MetadataChange { permissions: Some(0o6755), ..MetadataChange::default() };
    inodes.set_metadata(inode, &change).expect("changes");
    inodes.set_attribute(inode, CAPABILITY, &VALUE, SetAttribute::Any).expect("sets");
    assert_eq!(rights(volume, inode), (0o6755, true));
}

#[test]
fn each_change_of_content_says_what_becomes_of_the_rights() {
    let specification = volume();
    let (device, volume) = fresh(&specification);
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let (inode, file) = inodes.create_open(&root, b"program", &New::default()).expect("makes");
    file.write_all_at(0, &[b'p'; 40_000]).expect("writes");

    let range = |change, rights| file.change_range(4096, 1024, change, rights);
    let size = |size, rights| {
        let size = Some(size);
        let change = MetadataChange { size, run_rights: rights, ..MetadataChange::default() };
        inodes.set_metadata(&inode, &change)
    };
    type Call<'a> = (&'a str, Box<dyn Fn(RunRights) + 'a>);
    let calls: [Call<'_>; 8] = [
        (
            "write",
            Box::new(|rights| {
                assert_eq!(file.write_at_as(3, b"x", rights).expect("writes"), 1);
            }),
        ),
        ("cut", Box::new(|rights| size(30_000, Some(rights)).expect("cuts"))),
        ("extend", Box::new(|rights| size(40_000, Some(rights)).expect("extends"))),
        (
            "allocate",
            Box::new(|rights| {
                range(RangeChange::Allocate(Size::Grow), rights).expect("allocates");
            }),
        ),
        ("punch", Box::new(|rights| range(RangeChange::PunchHole, rights).expect("punches"))),
        (
            "zero",
            Box::new(|rights| {
                range(RangeChange::Zero(Size::Keep), rights).expect("zeroes");
            }),
        ),
        ("collapse", Box::new(|rights| range(RangeChange::Collapse, rights).expect("collapses"))),
        ("insert", Box::new(|rights| range(RangeChange::Insert, rights).expect("inserts"))),
    ];
    for (name, call) in &calls {
        for (how, left) in [
            (RunRights::Stay, (0o6755, true)),
            (RunRights::CapabilityEnds, (0o6755, false)),
            (RunRights::End, (0o755, false)),
        ] {
            give_rights(&volume, &inode);
            // Twice: what the first has found out of the attributes must not outlive a new one.
            call(how);
            assert_eq!(rights(&volume, &inode), left, "{name}, {how:?}");
            give_rights(&volume, &inode);
            call(how);
            assert_eq!(rights(&volume, &inode), left, "{name}, {how:?}, again");
        }
    }
    // Without a word they end, as for a process without privileges.
    give_rights(&volume, &inode);
    size(1000, None).expect("cuts");
    assert_eq!(rights(&volume, &inode), (0o755, false));
    drop(calls);
    drop((file, inode, root));
    finish(&device, volume);
}
