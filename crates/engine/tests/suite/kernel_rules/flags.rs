//! What immutable and append-only forbid.

use crate::kernel_rules::both;
use crate::kernel_rules::call::Call::{self, *};
use extant_engine::Rename::{Exchange, KeepTarget, Replace, Whiteout};
use extant_engine::SetAttribute::{Any, Create as New, Replace as Old};
use extant_engine::{Filesystem, FlagChange, Size};
use extant_format::inode::flags::{APPEND, IMMUTABLE, NOATIME};

/// What a file with flags, `f`, is asked for. Beside it: files `g` and `other`, directories `e`,
/// `empty` and `q`.
const ON_A_FILE: &[Call] = &[
    Write("f", 0),
    Write("f", 3),
    Append("f"),
    Create("f"),
    Truncate("f", 3),
    Truncate("f", 500),
    Truncate("f", 5000),
    Truncate("f", 1 << 62),
    Allocate("f", 100, Size::Grow),
    Allocate("f", 9000, Size::Grow),
    Allocate("f", 9000, Size::Keep),
    Allocate("f", 0, Size::Grow),
    Punch("f", 0),
    Punch("f", 90_000),
    Unlink("f"),
    RemoveDirectory("f"),
    Rename("f", "new", Replace),
    Rename("f", "g", Replace),
    Rename("other", "f", Replace),
    Rename("e", "f", Replace),
    Rename("f", "e", Replace),
    Rename("f", "f", Replace),
    Rename("other", "f", KeepTarget),
    Rename("f", "g", KeepTarget),
    Rename("f", "f", KeepTarget),
    Rename("f", "g", Exchange),
    Rename("g", "f", Exchange),
    Rename("f", "new", Exchange),
    Rename("f", "new", Whiteout),
    Link("f", "new"),
    Link("f", "g"),
    Permissions("f", 0o600),
    Owner("f", 7),
    Times("f"),
    SetAttribute("f", "user.new", Any),
    SetAttribute("f", "user.old", New),
    SetAttribute("f", "user.new", Old),
    SetAttribute("f", "trusted.new", Any),
    SetAttribute("f", "security.new", Any),
    SetAttribute("f", "nothing.new", Any),
    SetAttribute("f", "user.", Any),
    RemoveAttribute("f", "user.old"),
    RemoveAttribute("f", "user.new"),
    Flags("f", NOATIME, 0),
    Flags("f", NOATIME, IMMUTABLE),
    Flags("f", APPEND, 0),
    Flags("f", 0, APPEND),
    Flags("f", 0, APPEND | IMMUTABLE),
    Flags("f", IMMUTABLE, 0),
    Read("f", 10),
    Stat("f"),
];

/// What a directory with flags, `d`, is asked for. It has files `x` and `y` and the directory `s`.
const ON_A_DIRECTORY: &[Call] = &[
    MakeFile("d/new"),
    MakeFile("d/x"),
    Create("d/new"),
    Create("d/x"),
    Write("d/x", 0),
    Truncate("d/x", 0),
    Permissions("d/x", 0o600),
    SetAttribute("d/x", "user.new", Any),
    MakeDirectory("d/new"),
    MakeDirectory("d/s"),
    MakeFifo("d/new"),
    Symlink("d/new"),
    Symlink("d/x"),
    Link("g", "d/new"),
    Link("e", "d/new"),
    Link("g", "d/x"),
    Link("d/x", "new"),
    Link("missing", "d/new"),
    Unlink("d/x"),
    Unlink("d/missing"),
    Unlink("d/s"),
    RemoveDirectory("d/s"),
    RemoveDirectory("d/x"),
    RemoveDirectory("d/missing"),
    Rename("d/x", "d/new", Replace),
    Rename("d/x", "d/y", Replace),
    Rename("d/x", "d/x", Replace),
    Rename("d/x", "new", Replace),
    Rename("d/s", "new", Replace),
    Rename("d/missing", "new", Replace),
    Rename("g", "d/new", Replace),
    Rename("e", "d/new", Replace),
    Rename("g", "d/x", Replace),
    Rename("e", "d/x", Replace),
    Rename("g", "d/s", Replace),
    Rename("empty", "d/s", Replace),
    Rename("g", "d/x", KeepTarget),
    Rename("g", "d/new", KeepTarget),
    Rename("d", "d/s/new", Replace),
    Rename("d/x", "d", Replace),
    Rename("g", "d/x", Exchange),
    Rename("d/x", "g", Exchange),
    Rename("d/x", "d/y", Exchange),
    Rename("d/x", "d/new", Whiteout),
    Rename("d/x", "new", Whiteout),
    Rename("g", "d/new", Whiteout),
    Permissions("d", 0o700),
    Owner("d", 7),
    Times("d"),
    SetAttribute("d", "user.new", Any),
    RemoveAttribute("d", "user.old"),
    RemoveDirectory("d"),
    Unlink("d"),
    Rename("d", "new", Replace),
    Rename("d", "q/new", Replace),
    Rename("d", "empty", Replace),
    Rename("empty", "d", Replace),
    Rename("d", "e", Exchange),
    List("d"),
    Flags("d", NOATIME, 0),
    Flags("d", NOATIME, IMMUTABLE),
];

const STATES: [u32; 4] = [0, IMMUTABLE, APPEND, IMMUTABLE | APPEND];

fn fill(volume: &Filesystem, folder: &str) {
    let at = |name: &str| format!("{folder}/{name}");
    volume.create_dir(folder, 0o755).expect("a directory");
    for name in ["d", "d/s", "e", "empty", "q"] {
        volume.create_dir(at(name), 0o755).expect("a directory");
    }
    for name in ["f", "g", "other", "d/x", "d/y", "e/z"] {
        volume.write(at(name), &[b'a'; 500]).expect("a file");
    }
    for name in ["f", "d"] {
        let set = volume.set_attribute(at(name), b"user.old", b"value", Any);
        set.expect("an attribute");
    }
}

#[test]
fn every_call_on_what_is_immutable_or_append_only_ends_as_in_the_kernel() {
    if !extant_testkit::oracle::require("e2fsck") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let tables = [("f", ON_A_FILE), ("d", ON_A_DIRECTORY)];
    let mut rows = Vec::new();
    for (flagged, calls) in tables {
        for (number, call) in calls.iter().enumerate() {
            rows.extend(
                STATES.map(|state| (format!("{flagged}-{number}-{state}"), flagged, *call, state)),
            );
        }
    }
    let both = both("modern", "", |volume| {
        for (folder, flagged, _, state) in &rows {
            fill(volume, folder);
            let (path, set) = (format!("{folder}/{flagged}"), *state);
            let change = FlagChange { set, clear: 0 };
            volume.change_flags(path, change).expect("flags are set");
        }
    });
    let mut wrong = Vec::new();
    let mut refused = 0;
    for (folder, flagged, call, state) in &rows {
        let kernel = call.kernel(&both.mounted.path().join(folder));
        let engine = call.engine(&both.volume, folder);
        refused += u32::from(kernel == 1);
        if kernel != engine {
            wrong.push(format!(
                "{call:?}, {flagged} has flags {state:#x}: errno {engine}, the kernel has {kernel}"
            ));
        }
    }
    // The kernel reads the flags that the engine wrote.
    assert!(refused > 150, "the kernel refused {refused} calls");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    both.finish();
}

#[test]
fn flags_that_nobody_keeps_are_refused_and_new_files_inherit_those_that_they_should() {
    use extant_format::inode::flags::{EXTENTS, INDEX, NODUMP, TOP_DIRECTORY};
    let specification = crate::kernel_rules::Specification::new(
        extant_engine::mkfs::Profile::Ext4,
        1024,
        8 * crate::kernel_rules::MIB,
    );
    let device = specification.make(extant_block::RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.create_dir("/d", 0o755).expect("a directory");
    volume.write("/f", b"content").expect("a file");
    volume.symlink("f", "/l").expect("a symlink");
    for (path, set) in [("/f", EXTENTS), ("/d", INDEX), ("/f", TOP_DIRECTORY), ("/l", NOATIME)] {
        let error = volume.change_flags(path, FlagChange { set, clear: 0 }).expect_err(path);
        assert_eq!(error.errno(), 95, "{path} {set:#x}: {error}");
    }
    let set = NODUMP | NOATIME | APPEND | TOP_DIRECTORY;
    volume.change_flags("/d", FlagChange { set, clear: 0 }).expect("flags are set");
    volume.write("/d/file", b"content").expect("a file");
    volume.create_dir("/d/directory", 0o755).expect("a directory");
    volume.symlink("x", "/d/symlink").expect("a symlink");
    for name in ["file", "directory", "symlink"] {
        let flags = volume.symlink_metadata(format!("/d/{name}")).expect("is there").flags;
        assert_eq!(flags & set, NODUMP | NOATIME, "{name}");
    }
}

/// Every bit of the word, set and cleared again, on a file and on a directory: the same outcome and
/// the same flags as the kernel's.
#[test]
fn every_flag_that_a_program_asks_for_ends_as_in_the_kernel() {
    use extant_format::inode::flags::{BLOCKS_AFTER_END, EXTENTS, JOURNALED_DATA};
    if !extant_testkit::oracle::require("e2fsck") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let names = ["file", "directory"];
    let both = both("modern", "", |volume| {
        volume.write("/file", b"content").expect("a file");
        volume.create_dir("/directory", 0o755).expect("a directory");
    });
    let of_kernel = |name: &str| {
        let file = std::fs::File::open(both.mounted.path().join(name)).expect("opens");
        rustix::fs::ioctl_getflags(&file).expect("reads flags").bits()
    };
    let mut wrong = Vec::new();
    let mut kept = 0;
    for bit in 0..32 {
        let flag = 1 << bit;
        // The kernel changes the map, or asks for another privilege; here both are refused. A bit
        // that has lost its meaning is kept there.
        if [EXTENTS, JOURNALED_DATA, BLOCKS_AFTER_END].contains(&flag) {
            continue;
        }
        for name in names {
            let set = Flags(name, flag, 0);
            let outcomes = (set.kernel(both.mounted.path()), set.engine(&both.volume, ""));
            let path = format!("/{name}");
            let now = both.volume.metadata(&path).expect("is there").flags;
            kept += u32::from(now & flag != 0);
            if outcomes.0 != outcomes.1 || now != of_kernel(name) {
                wrong.push(format!(
                    "{flag:#x} of the {name}: kernel, engine: {outcomes:?}, {now:#x}"
                ));
            }
            let clear = Flags(name, 0, flag);
            let outcomes = (clear.kernel(both.mounted.path()), clear.engine(&both.volume, ""));
            let now = both.volume.metadata(&path).expect("is there").flags;
            if outcomes.0 != outcomes.1 || now != of_kernel(name) {
                wrong.push(format!("{flag:#x} of the {name} cleared: {outcomes:?}, {now:#x}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(kept > 20, "{kept} flags were kept");
    for (flag, name) in [(EXTENTS, "file"), (JOURNALED_DATA, "directory")] {
        let inodes = both.volume.inodes();
        let inode = both.volume.inode(format!("/{name}")).expect("is there");
        let word = inodes.flags(&inode).expect("flags") ^ flag;
        assert_eq!(inodes.set_flags(&inode, word).expect_err("is refused").errno(), 95);
    }
    both.finish();
}
