//! Access lists that new objects inherit, and lists and modes that follow each other, against the
//! kernel.
use crate::by_inode::both::can_compare;
use crate::by_inode::caller::Call::{self, *};
use crate::by_inode::caller::{ACCESS, DEFAULT, NO_ID, Row, Table, Who, compare, list};
use crate::by_inode::specification;
use crate::volume::{MIB, Specification};
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, New, NewKind, SetAttribute};

const MEMBER: Who = Who { uid: 1000, gid: 1000, groups: &[], privilege: None };
const STRANGER: Who = Who { uid: 1000, gid: 1003, groups: &[], privilege: None };

/// Default lists of the directory `d`, which has set-group-ID in every second arrangement.
fn defaults() -> Vec<Option<Vec<u8>>> {
    let masked = |mask, named| {
        list(&[
            (1, 7, NO_ID),
            (2, named, 77),
            (4, 5, NO_ID),
            (8, 6, 88),
            (16, mask, NO_ID),
            (32, 4, NO_ID),
        ])
    };
    vec![
        None,
        Some(list(&[(1, 7, NO_ID), (4, 5, NO_ID), (32, 1, NO_ID)])),
        Some(list(&[(1, 5, NO_ID), (4, 0, NO_ID), (32, 7, NO_ID)])),
        Some(list(&[(1, 7, NO_ID), (4, 5, NO_ID), (16, 6, NO_ID), (32, 0, NO_ID)])),
        Some(masked(7, 7)),
        Some(masked(0, 3)),
        Some(masked(3, 0)),
    ]
}

fn calls() -> Vec<Call> {
    let mut calls = vec![MakeSymlink("d/new"), MakeDevice("d/new")];
    for permissions in [0o777, 0o666, 0o640, 0o000, 0o2775, 0o4711, 0o1770] {
        for umask in [0, 0o022, 0o077] {
            calls.push(MakeFile("d/new", permissions, umask));
            calls.push(MakeDirectory("d/new", permissions, umask));
            calls.push(MakeFifo("d/new", permissions, umask));
            calls.push(NameNameless("d", "d/new", permissions, umask));
        }
        calls.push(Permissions("d/f", permissions));
        calls.push(Permissions("d/listed", permissions));
        calls.push(Permissions("d", permissions));
    }
    let lists = [
        list(&[(1, 6, NO_ID), (4, 4, NO_ID), (32, 0, NO_ID)]),
        list(&[(1, 6, NO_ID), (4, 4, NO_ID), (16, 7, NO_ID), (32, 0, NO_ID)]),
        list(&[(1, 7, NO_ID), (2, 7, 5), (4, 1, NO_ID), (16, 2, NO_ID), (32, 3, NO_ID)]),
        list(&[(1, 7, NO_ID), (2, 7, 5), (4, 1, NO_ID), (32, 3, NO_ID)]),
        list(&[(1, 7, NO_ID), (4, 1, NO_ID)]),
        list(&[(1, 9, NO_ID), (4, 1, NO_ID), (32, 3, NO_ID)]),
        list(&[]),
        Vec::new(),
        vec![2, 0, 0, 0, 1],
        vec![1, 0, 0, 0],
        vec![2, 0],
    ];
    for value in lists {
        for name in ["d/f", "d/listed", "d", "d/l"] {
            calls.push(SetAttribute(name, ACCESS, value.clone()));
            calls.push(SetAttribute(name, DEFAULT, value.clone()));
        }
    }
    for name in ["d/f", "d/listed", "d", "d/l"] {
        for attribute in [ACCESS, DEFAULT] {
            calls.push(RemoveAttribute(name, attribute));
            calls.push(GetAttribute(name, attribute));
        }
    }
    calls
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for who in [Who::ROOT, MEMBER, STRANGER] {
        for arrangement in 0..2 * defaults().len() {
            rows.extend(calls().into_iter().map(|call| Row { who, call, arrangement }));
        }
    }
    rows
}

fn fill(volume: &Filesystem, folder: &str, arrangement: usize) {
    let inodes = volume.inodes();
    let folder = crate::by_inode::at(volume, folder);
    let set_group_id = if arrangement % 2 == 1 { 0o2000 } else { 0 };
    let new = |kind, permissions| New { kind, uid: 1000, gid: 1000, permissions, umask: 0 };
    let directory = new(NewKind::Directory, 0o777 | set_group_id);
    let d = inodes.create(&folder, b"d", &directory).expect("makes it");
    inodes.create(&d, b"f", &new(NewKind::File, 0o2755)).expect("makes it");
    let listed = inodes.create(&d, b"listed", &new(NewKind::File, 0o2755)).expect("makes it");
    inodes.create(&d, b"l", &new(NewKind::Symlink(b"f"), 0o777)).expect("makes it");
    let named = list(&[(1, 7, NO_ID), (2, 6, 77), (4, 5, NO_ID), (16, 7, NO_ID), (32, 1, NO_ID)]);
    let set = |inode, name: &str, value: &[u8]| {
        inodes.set_attribute(inode, name.as_bytes(), value, SetAttribute::Any).expect("sets it");
    };
    set(&listed, ACCESS, &named);
    if let Some(default) = &defaults()[arrangement / 2] {
        set(&d, DEFAULT, default);
    }
}

pub const TABLE: Table =
    Table { name: "lists", rows, fill, names: &["d", "d/f", "d/listed", "d/l", "d/new"] };

#[test]
fn lists_are_inherited_and_followed_as_in_the_kernel() {
    if can_compare() {
        compare(&TABLE);
    }
}

/// Inodes of 128 bytes keep lists in blocks of their own: what has no room is not made at all.
#[test]
fn a_list_without_room_leaves_nothing_behind() {
    let kind = (Profile::Ext2, 1024, 128, "");
    let specification = Specification { inodes: 2000, ..specification(kind, 2 * MIB) };
    let (device, volume) = crate::by_inode::fresh(&specification);
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let default = defaults()[4].clone().expect("a list");
    inodes.set_attribute(&root, DEFAULT.as_bytes(), &default, SetAttribute::Any).expect("sets it");
    let mut kinds = [NewKind::File, NewKind::Directory, NewKind::Fifo].into_iter().cycle();
    let mut made = 0;
    let refused = loop {
        let new = New { kind: kinds.next().expect("a kind"), permissions: 0o777, ..New::default() };
        match inodes.create(&root, format!("{made}").as_bytes(), &new) {
            Ok(inode) => {
                let list = inodes.attribute(&inode, ACCESS.as_bytes()).expect("inherited");
                assert_eq!(list, default);
                made += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused.errno(), 28, "{refused}");
    assert!(made > 100, "{made} made");
    crate::by_inode::finish(&device, volume);
}
