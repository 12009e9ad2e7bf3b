//! Who may do what: every call by every kind of caller in every arrangement, against the kernel.
use crate::by_inode::both::can_compare;
use crate::by_inode::caller::Call::{self, *};
use crate::by_inode::caller::{ACCESS, NO_ID, Row, Table, Who, compare, list};
use extant_engine::{
    Filesystem, MetadataChange, New, NewKind, Privileges, Rename, Rights, SetAttribute,
};
use extant_format::inode::flags::{APPEND, IMMUTABLE, NODUMP};

const OWNER: u32 = 1000;
const GROUP: u32 = 1000;
const OTHER: u32 = 1002;

const fn somebody(uid: u32, gid: u32, groups: &'static [u32]) -> Who {
    Who { uid, gid, groups, privilege: None }
}

const fn with(name: &'static str, privilege: Privileges, uid: u32) -> Who {
    Who { privilege: Some((name, privilege)), ..somebody(uid, 1003, &[]) }
}

const CALLERS: &[Who] = &[
    Who::ROOT,
    somebody(OWNER, GROUP, &[]),
    somebody(OWNER, 1003, &[]),
    somebody(1001, 1001, &[5, GROUP]),
    somebody(OTHER, OTHER, &[]),
    with("dac_read_search", Privileges::READ_SEARCH, OTHER),
    with("dac_override", Privileges::OVERRIDE, OTHER),
    with("fowner", Privileges::OWNER, OTHER),
    with("chown", Privileges::CHANGE_OWNER, OTHER),
    with("fsetid", Privileges::SET_ID, OWNER),
    with("linux_immutable", Privileges::IMMUTABLE, OWNER),
    with("sys_admin", Privileges::ADMINISTER, OTHER),
];

/// Mode of the directory `d` and of the file `d/f`, which belong to the owner and the group, and
/// their access lists.
const ARRANGEMENTS: &[(u16, u16, Lists)] = &[
    (0o755, 0o644, Lists::None),
    (0o770, 0o6771, Lists::None),
    (0o1777, 0o2766, Lists::None),
    (0o3775, 0o640, Lists::None),
    (0o701, 0o007, Lists::None),
    (0o070, 0o070, Lists::None),
    (0o000, 0o000, Lists::None),
    (0o730, 0o640, Lists::Named),
    (0o707, 0o607, Lists::Masked),
];

/// Which access lists `d` and `d/f` have besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    None,
    /// The other user and the other group are named.
    Named,
    /// The same with a mask that gives nothing.
    Masked,
}

fn calls() -> Vec<Call> {
    let all = Rights::READ | Rights::WRITE | Rights::EXECUTE;
    let minimal = list(&[(1, 6, NO_ID), (4, 4, NO_ID), (32, 0, NO_ID)]);
    let named = list(&[(1, 7, NO_ID), (2, 6, 77), (4, 5, NO_ID), (16, 6, NO_ID), (32, 1, NO_ID)]);
    vec![
        Use("d/f", Rights::READ),
        Use("d/f", Rights::WRITE),
        Use("d/f", Rights::EXECUTE),
        Use("d/f", all),
        Use("d", Rights::READ),
        Use("d", Rights::WRITE),
        Use("d", Rights::EXECUTE),
        Use("d", all),
        Open("d/f", Rights::READ),
        Open("d/f", Rights::WRITE),
        Open("d/f", Rights::READ | Rights::WRITE),
        MakeFile("d/new", 0o644, 0o022),
        MakeFile("d/f", 0o644, 0),
        MakeFile("d/new", 0o2755, 0),
        MakeDirectory("d/new", 0o2755, 0o022),
        MakeDirectory("d/s", 0o755, 0),
        MakeFifo("d/new", 0o2755, 0),
        MakeDevice("d/new"),
        MakeSymlink("d/new"),
        MakeNameless("d", 0o644, 0),
        NameNameless("d", "e/new", 0o2755, 0),
        NameNameless("e", "d/new", 0o644, 0),
        NameNameless("e", "d/f", 0o644, 0),
        Link("e/own", "d/new"),
        Link("e/own", "d/f"),
        Unlink("d/f"),
        Unlink("d/s"),
        Unlink("d/other"),
        Unlink("d/missing"),
        RemoveDirectory("d/s"),
        RemoveDirectory("d/f"),
        Rename("d/f", "d/new", Rename::Replace),
        Rename("d/f", "d/other", Rename::Replace),
        Rename("d/other", "d/f", Rename::Replace),
        Rename("d/s", "e/new", Rename::Replace),
        Rename("d/private", "e/new", Rename::Replace),
        Rename("d/private", "d/new", Rename::Replace),
        Rename("e/own", "d/new", Rename::Replace),
        Rename("e/own", "d/f", Rename::Replace),
        Rename("d/f", "d/other", Rename::Exchange),
        Rename("d/private", "e/own", Rename::Exchange),
        Rename("d/f", "d/s", Rename::Replace),
        Rename("d/f", "d/missing/x", Rename::KeepTarget),
        Permissions("d/f", 0o6755),
        Permissions("d", 0o2750),
        Owner("d/f", Some(OTHER), None),
        Owner("d/f", Some(OWNER), None),
        Owner("d/f", None, Some(GROUP)),
        Owner("d/f", None, Some(1003)),
        Owner("d/f", Some(OWNER), Some(1001)),
        Owner("d", None, Some(GROUP)),
        Owner("d/l", None, Some(1003)),
        Touch("d/f"),
        Times("d/f"),
        TimeAlone("d/f"),
        Touch("d"),
        Truncate("d/f", 3),
        SetAttribute("d/f", "user.new", b"value".to_vec()),
        SetAttribute("d", "user.new", b"value".to_vec()),
        SetAttribute("d/l", "user.new", b"value".to_vec()),
        SetAttribute("d/f", "trusted.new", b"value".to_vec()),
        SetAttribute("d/f", "security.new", b"value".to_vec()),
        SetAttribute("d/f", ACCESS, minimal.clone()),
        SetAttribute("d/f", ACCESS, named.clone()),
        SetAttribute("d", ACCESS, named.clone()),
        GetAttribute("d/f", "user.old"),
        GetAttribute("d/f", "user.missing"),
        GetAttribute("d/f", "trusted.old"),
        GetAttribute("d/f", "security.old"),
        GetAttribute("d/l", "user.missing"),
        RemoveAttribute("d/f", "user.old"),
        RemoveAttribute("d/f", "trusted.old"),
        RemoveAttribute("d/f", ACCESS),
        Flags("d/f", NODUMP, 0),
        Flags("d/f", IMMUTABLE, 0),
        Flags("d", APPEND, 0),
        List("d"),
        Stat("d/f"),
        Stat("d"),
    ]
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for who in CALLERS {
        for arrangement in 0..ARRANGEMENTS.len() {
            rows.extend(calls().into_iter().map(|call| Row { who: *who, call, arrangement }));
        }
    }
    rows
}

fn fill(volume: &Filesystem, folder: &str, arrangement: usize) {
    let inodes = volume.inodes();
    let (directory_mode, file_mode, lists) = ARRANGEMENTS[arrangement];
    let folder = crate::by_inode::at(volume, folder);
    let owned = |kind, permissions, uid| New { kind, uid, gid: GROUP, permissions, umask: 0 };
    let directory = owned(NewKind::Directory, directory_mode, OWNER);
    let open = owned(NewKind::Directory, 0o777, OTHER);
    let d = inodes.create(&folder, b"d", &directory).expect("makes it");
    let e = inodes.create(&folder, b"e", &open).expect("makes it");
    let file = |uid| owned(NewKind::File, 0o666, uid);
    let f = inodes.create(&d, b"f", &file(OWNER)).expect("makes it");
    inodes.create(&d, b"other", &file(OTHER)).expect("makes it");
    inodes.create(&d, b"s", &owned(NewKind::Directory, 0o777, OWNER)).expect("makes it");
    inodes.create(&d, b"private", &owned(NewKind::Directory, 0o700, 0)).expect("makes it");
    inodes.create(&d, b"l", &owned(NewKind::Symlink(b"f"), 0o777, OWNER)).expect("makes it");
    inodes.create(&e, b"own", &file(OTHER)).expect("makes it");
    for name in ["user.old", "trusted.old", "security.old"] {
        let set = inodes.set_attribute(&f, name.as_bytes(), b"value", SetAttribute::Any);
        set.expect("sets it");
    }
    let mask = if lists == Lists::Masked { 0 } else { 6 };
    if lists != Lists::None {
        let bits = |at: u16, mode: u16| mode >> at & 7;
        for (inode, mode) in [(&d, directory_mode), (&f, file_mode)] {
            let value = list(&[
                (1, bits(6, mode), NO_ID),
                (2, 7, OTHER),
                (4, 5, NO_ID),
                (8, 3, 1003),
                (16, mask | 1, NO_ID),
                (32, bits(0, mode), NO_ID),
            ]);
            let set = inodes.set_attribute(inode, ACCESS.as_bytes(), &value, SetAttribute::Any);
            set.expect("sets it");
        }
    }
    let mode = MetadataChange { permissions: Some(file_mode), ..MetadataChange::default() };
    inodes.set_metadata(&f, &mode).expect("changes it");
}

pub const TABLE: Table = Table {
    name: "permissions",
    rows,
    fill,
    names: &["d", "e", "d/f", "d/other", "d/s", "d/private", "d/l", "d/new", "e/own", "e/new"],
};

#[test]
fn every_caller_is_allowed_what_the_kernel_allows() {
    if can_compare() {
        compare(&TABLE);
    }
}
