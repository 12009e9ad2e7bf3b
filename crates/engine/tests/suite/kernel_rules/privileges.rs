//! Which rights end with a change: set-user-ID, set-group-ID, capabilities.

use crate::kernel_rules::both;
use crate::kernel_rules::call::Call::{self, *};
use extant_engine::SetAttribute::Any;
use extant_engine::{Change, Filesystem, Rename, Size};
use extant_format::inode::{Device, FileType};
use extant_testkit::command::{output, program};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const NOBODY: u32 = 65534;
/// A value of `security.capability` that the kernel takes: version 2, one capability permitted and
/// effective.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const MODES: [u16; 7] = [0o6755, 0o6745, 0o2745, 0o2755, 0o4644, 0o6666, 0o1777];

/// Calls whose result depends on the caller, with a command that makes them without privileges: the
/// file is `$1`.
const BY_NOBODY: &[(Call, &str)] = &[
    (Write("f", 0), "printf xy | dd of=\"$1\" conv=notrunc status=none"),
    (Append("f"), "printf xy >> \"$1\""),
    (Create("f"), ": > \"$1\""),
    (Truncate("f", 3), "truncate -s 3 \"$1\""),
    (Truncate("f", 500), "truncate -s 500 \"$1\""),
    (Truncate("f", 5000), "truncate -s 5000 \"$1\""),
    (Allocate("f", 100, Size::Grow), "fallocate -l 100 \"$1\""),
    (Allocate("f", 9000, Size::Grow), "fallocate -l 9000 \"$1\""),
    (Allocate("f", 9000, Size::Keep), "fallocate -n -l 9000 \"$1\""),
    (Punch("f", 0), "fallocate -p -o 0 -l 100 \"$1\""),
    (Punch("f", 90_000), "fallocate -p -o 90000 -l 100 \"$1\""),
    (Read("f", 10), "cat \"$1\" > /dev/null"),
];

/// Calls whose result is the same for every caller that may make them.
const BY_ROOT: &[Call] = &[
    Owner("f", 7),
    Owner("f", NOBODY),
    Owner("fifo", 7),
    Owner("directory", 7),
    Owner("symlink", 7),
    Times("f"),
    Permissions("f", 0o6777),
    SetAttribute("f", "user.new", Any),
    Rename("f", "new", Rename::Replace),
    Link("f", "new"),
];

fn fill(volume: &Filesystem, folder: &str, mode: u16) {
    let at = |name: &str| format!("{folder}/{name}");
    volume.create_dir(folder, 0o755).expect("a directory");
    volume.write(at("f"), &[b'a'; 500]).expect("a file");
    volume.create_dir(at("directory"), 0o755).expect("a directory");
    volume.symlink("f", at("symlink")).expect("a symlink");
    let fifo = volume.make_node(at("fifo"), FileType::Fifo, 0o600, Device::default());
    fifo.expect("a fifo");
    for name in ["f", "directory", "fifo", "symlink"] {
        let change = Change {
            permissions: (name != "symlink").then_some(mode),
            uid: Some(NOBODY),
            gid: Some(NOBODY),
            ..Change::default()
        };
        volume.change(at(name), &change).expect("changes");
        for attribute in [b"security.capability".as_slice(), b"trusted.other"] {
            volume.set_attribute(at(name), attribute, &CAPABILITY, Any).expect("an attribute");
        }
    }
}

/// Mode and names of attributes of what a folder holds.
type Found = Vec<(&'static str, String, Vec<String>)>;

const NAMES: [&str; 5] = ["f", "new", "directory", "fifo", "symlink"];

fn of_kernel(folder: &Path) -> Found {
    let mut found = Found::new();
    for name in NAMES {
        let path = folder.join(name);
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let mut list = [0; 1000];
        let length = rustix::fs::llistxattr(&path, &mut list).expect("lists");
        let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut names: Vec<String> =
            names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        found.push((name, format!("{:o}", metadata.mode()), names));
    }
    found
}

fn of_engine(volume: &Filesystem, folder: &str) -> Found {
    let mut found = Found::new();
    for name in NAMES {
        let path = format!("{folder}/{name}");
        let Ok(metadata) = volume.symlink_metadata(&path) else {
            continue;
        };
        let attributes = volume.attributes(&path).expect("lists");
        let names = attributes.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        found.push((name, format!("{:o}", metadata.mode), names));
    }
    found
}

fn as_nobody(command: &str, file: &Path) {
    let mut setpriv = program("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command, "sh"]);
    output(setpriv.arg(file)).expect("the command runs");
}

#[test]
fn rights_end_as_the_kernel_ends_them_for_a_caller_without_privileges() {
    if !extant_testkit::oracle::require("e2fsck")
        || !extant_testkit::oracle::require("setpriv")
        || !extant_testkit::oracle::can_mount()
    {
        return;
    }
    let calls = BY_NOBODY.iter().map(|(call, command)| (*call, Some(*command)));
    let calls = calls.chain(BY_ROOT.iter().map(|call| (*call, None)));
    let rows: Vec<_> = calls
        .enumerate()
        .flat_map(|(number, (call, command))| {
            MODES.map(|mode| (format!("{number}-{mode:o}"), call, command, mode))
        })
        .collect();
    let both = both("modern", "", |volume| {
        rows.iter().for_each(|(folder, _, _, mode)| fill(volume, folder, *mode));
    });
    let (mut wrong, mut ended) = (Vec::new(), 0);
    for (folder, call, command, mode) in &rows {
        let mounted = both.mounted.path().join(folder);
        // A file without permissions cannot be changed without privileges.
        let before = of_kernel(&mounted);
        match command {
            Some(command) => as_nobody(command, &mounted.join("f")),
            None => assert_eq!(call.kernel(&mounted), 0, "{call:?}"),
        }
        assert_eq!(of_engine(&both.volume, folder), before, "{call:?}, before");
        assert_eq!(call.engine(&both.volume, folder), 0, "{call:?}");
        let (kernel, engine) = (of_kernel(&mounted), of_engine(&both.volume, folder));
        ended += u32::from(kernel != before);
        if kernel != engine {
            wrong.push(format!(
                "{call:?}, mode {mode:o}: {engine:?}\n    the kernel has {kernel:?}"
            ));
        }
    }
    assert!(ended > 80, "the kernel ended rights {ended} times");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    both.finish();
}

#[test]
fn a_new_owner_with_permissions_keeps_these() {
    let specification = crate::kernel_rules::Specification::new(
        extant_engine::mkfs::Profile::Ext4,
        1024,
        8 * crate::kernel_rules::MIB,
    );
    let device = specification.make(extant_block::RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.write("/f", b"content").expect("a file");
    let change = Change { permissions: Some(0o6755), uid: Some(7), ..Change::default() };
    volume.change("/f", &change).expect("changes");
    assert_eq!(volume.metadata("/f").expect("is there").mode & 0o7777, 0o6755);
}
