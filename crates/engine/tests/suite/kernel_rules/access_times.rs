//! Which reads change access times, and what that costs.

use crate::kernel_rules::both;
use crate::kernel_rules::call::Call::{self, *};
use crate::volume::{MIB, Specification};
use extant_block::{BlockDevice, Clock, RealClock, Traced};
use extant_engine::mkfs::Profile;
use extant_engine::{Access, Change, Filesystem, FlagChange, Options};
use extant_format::inode::Time;
use extant_format::inode::flags::{APPEND, IMMUTABLE, NOATIME};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const HOUR: i64 = 60 * 60;
/// Access, modify and change time, in seconds before now.
const TIMES: [[i64; 3]; 9] = [
    [100, 200, 200],
    [200, 100, 200],
    [200, 200, 100],
    [200, 200, 300],
    [200, 300, 200],
    [23 * HOUR, 48 * HOUR, 48 * HOUR],
    [25 * HOUR, 48 * HOUR, 48 * HOUR],
    [-HOUR, 100, 100],
    [-HOUR, -HOUR, 100],
];
const CALLS: [(Call, &str); 12] = [
    (Read("file", 10), "file"),
    (Read("file", 0), "file"),
    (Read("nothing", 10), "nothing"),
    (Read("immutable", 10), "immutable"),
    (Read("append", 10), "append"),
    (Read("noatime", 10), "noatime"),
    (List("directory"), "directory"),
    (List("noatime directory"), "noatime directory"),
    (ReadLink("symlink"), "symlink"),
    (Stat("file"), "file"),
    (Stat("directory/inside"), "directory"),
    (Stat("directory/inside"), "directory/inside"),
];
const FLAGS: [(&str, u32); 4] = [
    ("immutable", IMMUTABLE),
    ("append", APPEND),
    ("noatime", NOATIME),
    ("noatime directory", NOATIME),
];

fn fill(volume: &Filesystem, folder: &str, before: [i64; 3]) {
    let at = |name: &str| format!("{folder}/{name}");
    volume.create_dir(folder, 0o755).expect("a directory");
    for name in ["directory", "noatime directory"] {
        volume.create_dir(at(name), 0o755).expect("a directory");
    }
    for name in ["file", "immutable", "append", "noatime", "directory/inside"] {
        volume.write(at(name), b"content").expect("a file");
    }
    volume.write(at("nothing"), b"").expect("a file");
    volume.symlink("file", at("symlink")).expect("a symlink");
    for (name, set) in FLAGS {
        // Times are set below, which immutable forbids: debugfs would have to.
        if set == NOATIME {
            volume.change_flags(at(name), FlagChange { set, clear: 0 }).expect("flags are set");
        }
    }
    let now = RealClock::new().wall().seconds;
    let [access, modify, change] =
        before.map(|seconds| Some(Time { seconds: now - seconds, nanoseconds: 0 }));
    for (_, name) in CALLS {
        let change = Change {
            access_time: access,
            modify_time: modify,
            change_time: change,
            ..Change::default()
        };
        volume.change(at(name), &change).expect("changes");
    }
    for (name, set) in FLAGS.into_iter().filter(|(_, set)| *set != NOATIME) {
        volume.change_flags(at(name), FlagChange { set, clear: 0 }).expect("flags are set");
    }
}

#[test]
fn reads_change_access_times_as_in_the_kernel() {
    if !extant_testkit::oracle::require("e2fsck") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let rules = [
        ("modern", "relatime"),
        ("modern,atime=strict", "strictatime"),
        ("modern,atime=none", "noatime"),
    ];
    for (policies, option) in rules {
        let folder = |number: usize, call: usize| format!("{number}-{call}");
        let both = both(policies, option, |volume| {
            for (number, before) in TIMES.iter().enumerate() {
                (0..CALLS.len()).for_each(|call| fill(volume, &folder(number, call), *before));
            }
        });
        let mut changed = 0;
        for number in 0..TIMES.len() {
            for (call, (read, name)) in CALLS.iter().enumerate() {
                let folder = folder(number, call);
                let (mounted, said) =
                    (both.mounted.path().join(&folder), format!("{option}: {read:?}, {number}"));
                let kernel_time =
                    || mounted.join(name).symlink_metadata().expect("is there").atime();
                let engine_time = || {
                    let metadata = both.volume.symlink_metadata(format!("{folder}/{name}"));
                    metadata.expect("is there").access_time.seconds
                };
                let before = kernel_time();
                assert_eq!(engine_time(), before, "{said}: before");
                assert_eq!(
                    (read.kernel(&mounted), read.engine(&both.volume, &folder)),
                    (0, 0),
                    "{said}"
                );
                let (kernel, engine) = (kernel_time() != before, engine_time() != before);
                assert_eq!(engine, kernel, "{said}: whether it changed, beside the kernel");
                changed += u32::from(kernel);
            }
        }
        let expected = match option {
            "relatime" => 30..=50,
            "strictatime" => 54..=54,
            _ => 0..=0,
        };
        assert!(expected.contains(&changed), "{option}: {changed} changed");
        both.finish();
    }
}

fn options(specification: &Specification, access: Access) -> Options {
    Options { access, ..specification.options() }
}

#[test]
fn a_read_writes_nothing_until_the_next_sync_and_looking_is_no_read() {
    let specification = Specification::new(Profile::Ext4, 1024, 8 * MIB);
    let device = Arc::new(Traced::new(specification.make(RealClock::new())));
    let open = |access| {
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        Filesystem::open(shared, &options(&specification, access)).expect("opens")
    };
    let old = Some(Time { seconds: 1_000_000, nanoseconds: 0 });
    let volume = open(Access::ReadWrite);
    volume.create_dir("/d", 0o755).expect("a directory");
    for name in ["/d/read", "/d/looked at"] {
        volume.write(name, &[1; 5000]).expect("a file");
        let change = Change { access_time: old, ..Change::default() };
        volume.change(name, &change).expect("changes");
    }
    volume.sync().expect("syncs");
    let before = device.counters().writes;
    volume.read("/d/read").expect("reads");
    let object = volume.object("/d/looked at").expect("is there");
    object.read_at(0, &mut [0; 100]).expect("reads");
    volume.metadata("/d/looked at").expect("is there");
    volume.survey().map(drop).expect("is surveyed");
    assert_eq!(device.counters().writes, before, "reads write nothing");
    volume.sync().expect("syncs");
    assert!(device.counters().writes > before, "the access time is written with a sync");
    volume.close().expect("closes");

    let before = device.counters().writes;
    let volume = open(Access::ReadOnly);
    let time = |name: &str| volume.metadata(name).expect("is there").access_time;
    assert!(time("/d/read") > time("/d/looked at"));
    assert_eq!(Some(time("/d/looked at")), old);
    volume.read("/d/looked at").expect("reads");
    assert_eq!(Some(time("/d/looked at")), old, "a volume opened for reading only");
    volume.close().expect("closes");
    assert_eq!(device.counters().writes, before);
}

#[test]
fn many_inodes_that_were_only_read_do_not_wait_in_memory_for_a_sync() {
    let specification = Specification {
        policies: "modern,atime=strict",
        inodes: 10_000,
        cache_bytes: 64 << 10,
        ..Specification::new(Profile::Ext4, 1024, 16 * MIB)
    };
    let device = Arc::new(Traced::new(specification.make(RealClock::new())));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(shared, &specification.options()).expect("opens");
    for number in 0..9000 {
        volume.write(format!("/{number}"), b"").expect("a file");
    }
    volume.sync().expect("syncs");
    let before = device.counters().writes;
    for number in 0..9000 {
        volume.read(format!("/{number}")).expect("reads");
    }
    assert!(device.counters().writes > before, "inodes that were read were stored meanwhile");
    volume.close().expect("closes");
    crate::volume::judge(device.device()).unwrap_or_else(|said| panic!("{said}"));
}
