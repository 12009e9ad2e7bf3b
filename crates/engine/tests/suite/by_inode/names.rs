//! References, names, and files without a name.
use crate::by_inode::{BYTES, KINDS, at, finish, fresh, specification};
use crate::volume::Random;
use extant_engine::{
    Caller, ErrorKind, Existing, Filesystem, MetadataChange, New, NewKind, OpenOutcome, Options,
    Rename, Rights, SetAttribute, SetTime,
};
use extant_format::Ino;
use extant_format::inode::{Device, FileType, Time};

#[test]
fn a_new_object_is_what_was_asked_for_in_one_step() {
    for kind in KINDS {
        let (device, volume) = fresh(&specification(kind, BYTES));
        let inodes = volume.inodes();
        let root = inodes.root().expect("a root");
        let device_number = Device { major: 8, minor: 300 };
        let rows = [
            (NewKind::File, FileType::Regular, 0o4751),
            (NewKind::Directory, FileType::Directory, 0o1751),
            (NewKind::Symlink(b"target"), FileType::Symlink, 0o777),
            (NewKind::Fifo, FileType::Fifo, 0o751),
            (NewKind::Socket, FileType::Socket, 0o751),
            (NewKind::CharacterDevice(device_number), FileType::CharacterDevice, 0o751),
            (NewKind::BlockDevice(device_number), FileType::BlockDevice, 0o751),
        ];
        for (number, (kind, file_type, permissions)) in rows.into_iter().enumerate() {
            let name = format!("object{number}");
            let permissions_asked = permissions | 0o026;
            let (uid, gid, umask) = (70_000, 80_000, 0o026);
            let new = New { kind, uid, gid, permissions: permissions_asked, umask };
            let inode = inodes.create(&root, name.as_bytes(), &new).expect("makes it");
            let found = inodes.metadata(&inode).expect("is there");
            assert_eq!(found.file_type, file_type);
            assert_eq!(found.mode & 0o7777, permissions, "{kind:?}: {:o}", found.mode);
            assert_eq!((found.uid, found.gid), (uid, gid), "{kind:?}");
            let is_device = matches!(kind, NewKind::CharacterDevice(_) | NewKind::BlockDevice(_));
            assert_eq!(found.device, is_device.then_some(device_number));
            let again = inodes.lookup(&root, name.as_bytes()).expect("is found");
            assert_eq!((again.number(), again.generation()), (found.ino, found.generation));
            assert_eq!(
                inodes.get(found.ino, found.generation).expect("is there").number(),
                found.ino
            );
            let twice = inodes.create(&root, name.as_bytes(), &new).expect_err("is there");
            assert_eq!(twice.errno(), 17);
        }
        let link = inodes.lookup(&root, b"object2").expect("is there");
        assert_eq!(inodes.read_link(&link).expect("reads"), b"target");
        finish(&device, volume);
    }
}

#[test]
fn a_reference_to_what_was_freed_never_means_another_inode() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let old = inodes.create(&root, b"old", &New::default()).expect("makes it");
    inodes.unlink(&root, b"old").expect("removes it");
    let gone = |error: extant_engine::Error| assert_eq!(error.errno(), 2, "{error}");
    gone(inodes.metadata(&old).expect_err("is gone"));
    gone(inodes.link(&old, &root, b"link").expect_err("is gone"));
    gone(inodes.open(&old, Rights::READ).err().expect("is gone"));
    gone(inodes.get(old.number(), old.generation()).expect_err("is gone"));
    volume.sync().expect("syncs");
    // Until the number is given again.
    let new = (0..50).find_map(|number| {
        let name = format!("new{number}");
        let new = inodes.create(&root, name.as_bytes(), &New::default()).expect("makes it");
        (new.number() == old.number()).then_some(new)
    });
    let new = new.expect("the number is given again");
    gone(inodes.metadata(&old).expect_err("is gone"));
    gone(inodes.set_metadata(&old, &MetadataChange::default()).expect_err("is gone"));
    let stale = inodes.get(old.number(), old.generation()).expect_err("is another");
    assert!(matches!(stale.kind, ErrorKind::Stale) && stale.errno() == 116, "{stale}");
    inodes.get(new.number(), new.generation()).expect("is there");
    for number in [0, 1, 3, u32::MAX] {
        gone(inodes.get(Ino(number), 0).expect_err("no inode"));
    }
    finish(&device, volume);
}

#[test]
fn a_file_is_made_or_found_and_open_in_one_step() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let new = New { permissions: 0o600, ..New::default() };
    let open =
        |name: &[u8], existing| inodes.open_or_create(&root, name, &new, (existing, Rights::READ));
    let (inode, file, outcome) = open(b"file", Existing::Open).expect("makes it");
    assert_eq!(outcome, OpenOutcome::Made);
    inodes.unlink(&root, b"file").expect("removes it");
    file.write_all_at(0, b"still here").expect("writes");
    assert_eq!(inodes.metadata(&inode).expect("is open").links, 0);
    assert_eq!(file.inode().number(), inode.number());
    drop(file);
    assert_eq!(inodes.metadata(&inode).expect_err("is gone").errno(), 2);
    open(b"file", Existing::Refuse).expect("makes it");
    assert_eq!(open(b"file", Existing::Refuse).err().expect("is there").errno(), 17);
    assert_eq!(open(b"file", Existing::Open).expect("finds it").2, OpenOutcome::Found);
    inodes.create(&root, b"d", &New { kind: NewKind::Directory, ..new }).expect("makes it");
    assert_eq!(open(b"d", Existing::Open).err().expect("a directory").errno(), 21);
    finish(&device, volume);
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    for kind in KINDS {
        let (device, volume) = fresh(&specification(kind, BYTES));
        let inodes = volume.inodes();
        let root = inodes.root().expect("a root");
        let free = volume.statfs().free_inodes;
        let new = New { permissions: 0o640, uid: 5, gid: 6, ..New::default() };
        let (lost, file) = inodes.create_nameless(&root, &new).expect("makes it");
        file.write_all_at(0, &[7; 5000]).expect("writes");
        volume.sync().expect("syncs");
        drop(file);
        assert_eq!(inodes.metadata(&lost).expect_err("is gone").errno(), 2);
        assert_eq!(volume.statfs().free_inodes, free);

        let (kept, file) = inodes.create_nameless(&root, &new).expect("makes it");
        let (other, other_file) = inodes.create_nameless(&root, &new).expect("makes it");
        file.write_all_at(0, &[8; 5000]).expect("writes");
        // On the disk they are in the list of orphans now.
        volume.sync().expect("syncs");
        inodes.link(&kept, &root, b"kept").expect("names it");
        inodes.link(&kept, &root, b"again").expect("names it");
        let found = inodes.metadata(&kept).expect("is there");
        assert_eq!((found.links, found.uid, found.gid, found.mode & 0o777), (2, 5, 6, 0o640));
        inodes.link(&other, &root, b"other").expect("names it");
        inodes.unlink(&root, b"other").expect("removes it");
        let again = inodes.link(&other, &root, b"other").expect_err("its last name went");
        assert_eq!(again.errno(), 2);
        drop((file, other_file));
        assert_eq!(volume.read("/kept").expect("reads"), [8; 5000]);
        finish(&device, volume);
    }
}

/// What a power cut leaves of a file that was linked after it had been an orphan on the disk.
#[test]
fn a_file_that_was_named_survives_the_next_opening() {
    let specification = specification(KINDS[0], BYTES);
    let (device, volume) = fresh(&specification);
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let (kept, file) = inodes.create_nameless(&root, &New::default()).expect("makes it");
    let (_, _lost) = inodes.create_nameless(&root, &New::default()).expect("makes it");
    file.write_all_at(0, &[8; 5000]).expect("writes");
    volume.sync().expect("syncs");
    inodes.link(&kept, &root, b"kept").expect("names it");
    volume.sync().expect("syncs");
    // As after a cut: nothing of the closing reaches this copy.
    let copy = std::sync::Arc::new(device.snapshot());
    let volume = specification.open(&copy).expect("opens");
    assert_eq!(volume.read("/kept").expect("reads"), [8; 5000]);
    finish(&copy, volume);
}

#[test]
fn metadata_changes_in_one_step() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let (inode, file) = inodes.create_open(&root, b"file", &New::default()).expect("makes it");
    file.write_all_at(0, &[1; 3000]).expect("writes");
    let time = Time { seconds: 5, nanoseconds: 6 };
    let change = MetadataChange {
        permissions: Some(0o6711),
        uid: Some(1),
        gid: Some(2),
        size: Some(1500),
        access_time: Some(SetTime::To(time)),
        modify_time: Some(SetTime::Now),
        change_time: Some(time),
        run_rights: None,
    };
    inodes.set_metadata(&inode, &change).expect("changes it");
    let found = inodes.metadata(&inode).expect("is there");
    assert_eq!((found.mode & 0o7777, found.uid, found.gid, found.size), (0o6711, 1, 2, 1500));
    assert_eq!((found.access_time, found.change_time), (time, time));
    assert!(found.modify_time.seconds > 1_000_000_000);
    let size_alone = MetadataChange { size: Some(0), ..MetadataChange::default() };
    inodes.set_metadata(&inode, &size_alone).expect("changes it");
    assert_eq!(inodes.metadata(&inode).expect("is there").mode & 0o7777, 0o711);
    // What is refused changes nothing.
    let too_large = MetadataChange { size: Some(1 << 62), uid: Some(9), ..change };
    assert_eq!(inodes.set_metadata(&inode, &too_large).expect_err("too large").errno(), 27);
    let directory = inodes.set_metadata(&root, &MetadataChange { uid: Some(9), ..size_alone });
    assert_eq!(directory.expect_err("a directory").errno(), 21);
    for inode in [&inode, &root] {
        assert_ne!(inodes.metadata(inode).expect("is there").uid, 9);
    }
    finish(&device, volume);
}

#[test]
fn what_is_dropped_from_memory_is_read_again() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let (inode, file) = inodes.create_open(&root, b"file", &New::default()).expect("makes it");
    file.write_all_at(0, &[1; 30_000]).expect("writes");
    file.sync_data().expect("syncs");
    file.write_all_at(2000, &[2; 3000]).expect("writes");
    inodes.set_attribute(&inode, b"user.a", b"value", SetAttribute::Any).expect("sets it");
    inodes.drop_pages(&inode).expect("drops them");
    inodes.drop_all();
    let mut expected = vec![1; 30_000];
    expected[2000..5000].fill(2);
    assert!(volume.read("/file").expect("reads") == expected);
    drop((file, inode));
    inodes.rename((&root, b"file"), (&root, b"moved"), Rename::KeepTarget).expect("moves it");
    volume.sync().expect("syncs");
    inodes.drop_all();
    assert!(volume.read("/moved").expect("reads") == expected);
    assert_eq!(inodes.attribute(&at(&volume, "/moved"), b"user.a").expect("is there"), b"value");
    finish(&device, volume);
}

#[test]
fn an_inode_of_another_volume_is_refused() {
    let (_, one) = fresh(&specification(KINDS[0], BYTES));
    let (_, other) = fresh(&specification(KINDS[0], BYTES));
    let root = one.inodes().root().expect("a root");
    let refused = other.inodes().create(&root, b"file", &New::default()).expect_err("another");
    assert_eq!(refused.errno(), 22);
}

/// Threads that make, move, link, list and change at once: no call fails but for what another
/// thread did, and nothing waits for ever.
#[test]
fn many_at_once_leave_a_sound_volume() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    let clock = extant_block::RealClock::new();
    for name in ["/a", "/b"] {
        volume.create_dir(name, 0o777).expect("makes it");
    }
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let volume = volume.clone();
            extant_block::Clock::spawn(&*clock, "life", Box::new(move || live(&volume, number)))
        })
        .collect();
    crate::volume::patience::within(300, "threads", move || {
        tasks.into_iter().for_each(extant_block::clock::Task::join);
    })
    .expect("ends");
    finish(&device, volume);
}

fn live(volume: &Filesystem, number: u64) {
    let mut random = Random::new(number);
    let caller = Caller { groups: vec![number as u32], ..Caller::root() };
    let inodes = volume.inodes_for(&caller);
    let directories = [at(volume, "/a"), at(volume, "/b")];
    let expected = |error: extant_engine::Error| {
        assert!(matches!(error.errno(), 2 | 17), "{error}");
    };
    for _ in 0..500 {
        let (from, to) = (random.pick(&directories), random.pick(&directories));
        let (old, new) = (random.below(20).to_string(), random.below(20).to_string());
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let outcome = match random.below(7) {
            0 | 1 => inodes
                .open_or_create(from, old, &New::default(), (Existing::Open, Rights::WRITE))
                .and_then(|(_, file, _)| file.write_at(random.below(9000), b"content"))
                .map(drop),
            2 => inodes.rename((from, old), (to, new), Rename::Replace),
            3 => inodes.unlink(from, old),
            4 => inodes
                .create_nameless(from, &New::default())
                .and_then(|(inode, _file)| inodes.link(&inode, to, new)),
            5 => inodes.lookup(from, old).and_then(|inode| {
                let size = Some(random.below(5000));
                inodes.set_metadata(&inode, &MetadataChange { size, ..Default::default() })
            }),
            _ => inodes.read_dir_plus(from, 0, &mut |_, _| std::ops::ControlFlow::Continue(())),
        };
        outcome.unwrap_or_else(expected);
        if random.one_in(60) {
            volume.sync().expect("syncs");
        }
    }
}

#[test]
fn a_volume_that_is_only_read_opens_what_is_there_and_makes_nothing() {
    let specification = specification(KINDS[0], BYTES);
    let (device, volume) = fresh(&specification);
    volume.write("/file", b"content").expect("writes");
    volume.close().expect("closes");
    let options = Options { access: extant_engine::Access::ReadOnly, ..specification.options() };
    let volume = Filesystem::open(device, &options).expect("opens");
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let open = |name: &[u8], existing| {
        inodes.open_or_create(&root, name, &New::default(), (existing, Rights::READ))
    };
    assert_eq!(open(b"file", Existing::Open).expect("finds it").2, OpenOutcome::Found);
    let file = at(&volume, "/file");
    let refused = [
        open(b"new", Existing::Open).err(),
        open(b"new", Existing::Refuse).err(),
        inodes.create(&root, b"new", &New::default()).err(),
        inodes.create_nameless(&root, &New::default()).err(),
        inodes.set_metadata(&file, &MetadataChange::default()).err(),
        inodes.link(&file, &root, b"new").err(),
        inodes.unlink(&root, b"file").err(),
        inodes.set_attribute(&file, b"user.a", b"value", SetAttribute::Any).err(),
    ];
    for error in refused {
        assert_eq!(error.expect("is refused").errno(), 30);
    }
}

#[test]
fn a_number_that_is_used_again_leads_to_the_inode_that_has_it() {
    let specification = specification(KINDS[0], BYTES);
    let (device, volume) = fresh(&specification);
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let old = inodes.create(&root, b"old", &New::default()).expect("makes it");
    inodes.unlink(&root, b"old").expect("removes it");
    volume.sync().expect("syncs");
    let new = inodes.create(&root, b"new", &New::default()).expect("makes it");
    assert_eq!(new.number(), old.number());
    let found = inodes.by_number(new.number()).expect("is in use");
    assert_eq!(found.generation(), new.generation());
    assert_ne!(found.generation(), old.generation());
    assert_eq!(inodes.metadata(&old).expect_err("is gone").errno(), 2);
    finish(&device, volume);
}
