//! What `-o` asks for, seen in the table of mounts and in the files.
use crate::mount::fixture::{Bench, Mounted, done, errno, extant, has_fuse};
use extant_testkit::command::{output, program};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

const NOT_PERMITTED: i32 = 1;
const READ_ONLY: i32 = 30;
const OVERFLOW: i32 = 75;

/// The options of the mount, and those of its file system.
fn words(mounted: &Bench) -> (String, String) {
    let line = mounted.line().expect("it is mounted");
    let mut fields = line.split(' ');
    let mount = fields.nth(5).expect("options").to_owned();
    (mount, fields.next_back().expect("more options").to_owned())
}

#[test]
fn the_table_of_mounts_shows_what_was_asked_for() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-table");
    let mounted = bench.mount("nodev,nosuid,noexec,noatime,fsname=my disk");
    let (mount, system) = words(&bench);
    assert_eq!(mount, "rw,nosuid,nodev,noexec,noatime");
    assert!(!system.contains("allow_other") && !system.contains("default_permissions"), "{system}");
    assert!(bench.line().unwrap().contains(" - fuse.extant my\\040disk "), "{:?}", bench.line());
    mounted.end();

    let mounted = bench.mount("allow_other,_netdev,x-systemd.automount,user,nofail");
    let (mount, system) = words(&bench);
    assert_eq!(mount, "rw,relatime");
    assert!(system.ends_with("default_permissions,allow_other"), "{system}");
    mounted.end();

    let mounted = bench.mount("default_permissions");
    let (_, system) = words(&bench);
    assert!(system.ends_with("default_permissions") && !system.contains("allow_other"), "{system}");
    mounted.end();
}

#[test]
fn read_only_is_read_only() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-ro");
    let mounted = bench.mount("");
    fs::write(bench.inside("a"), "content").unwrap();
    mounted.end();
    let before = fs::read(bench.image()).unwrap();
    let mounted = bench.mount("ro");
    assert!(words(&bench).0.starts_with("ro,"), "{:?}", bench.line());
    assert_eq!(fs::read(bench.inside("a")).unwrap(), b"content");
    assert_eq!(errno(fs::write(bench.inside("b"), "x")), Some(READ_ONLY));
    assert_eq!(errno(fs::remove_file(bench.inside("a"))), Some(READ_ONLY));
    mounted.end();
    assert!(fs::read(bench.image()).unwrap() == before, "not a byte was written");
}

#[test]
fn a_volume_may_begin_within_the_image() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-offset");
    let whole = bench.join("whole.img");
    let mut bytes = vec![0x5a; 1 << 20];
    bytes.extend(fs::read(bench.image()).unwrap());
    fs::write(&whole, &bytes).unwrap();
    fs::rename(&whole, bench.image()).unwrap();
    let mounted = bench.mount("offset=1M");
    fs::write(bench.inside("a"), "content").unwrap();
    done(["umount", &bench.point()]);
    drop(mounted);
    let place = format!("{}:/a", bench.image());
    assert_eq!(done(["cat", "--offset", "1M", &place]), "content");
    assert!(fs::read(bench.image()).unwrap()[..1 << 20].iter().all(|byte| *byte == 0x5a));
    let told = extant(["mount", "-o", "offset=2M", &bench.image(), &bench.point()]);
    assert!(
        told.code == 32 && told.stderr.contains("not an ext2, ext3 or ext4 volume"),
        "{told:?}"
    );
}

#[test]
fn users_and_groups_are_mapped_both_ways() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-maps");
    let owner = |name: &str| {
        let metadata = fs::symlink_metadata(bench.inside(name)).unwrap();
        (metadata.uid(), metadata.gid())
    };
    let mounted = bench.mount("");
    fs::write(bench.inside("a"), "").unwrap();
    chown(bench.inside("a"), Some(5), Some(6)).unwrap();
    mounted.end();

    let mounted = bench.mount("map_users=0:1000:100,map-groups=0:2000:100");
    assert_eq!((owner("."), owner("a")), ((1000, 2000), (1005, 2006)));
    chown(bench.inside("a"), Some(1007), Some(2008)).unwrap();
    // A number that no range has cannot be kept: as on an idmapped mount of ext4.
    for number in [5000, 0, 65534, u32::MAX - 1] {
        assert_eq!(errno(chown(bench.inside("a"), Some(number), None)), Some(OVERFLOW));
        assert_eq!(errno(chown(bench.inside("a"), None, Some(number))), Some(OVERFLOW));
    }
    assert_eq!(owner("a"), (1007, 2008));
    mounted.end();

    let mounted = bench.mount("uid=77,gid=78");
    assert_eq!((owner("."), owner("a")), ((77, 78), (77, 78)));
    assert_eq!(errno(chown(bench.inside("a"), Some(5), None)), Some(NOT_PERMITTED));
    chown(bench.inside("a"), Some(77), Some(78)).unwrap();
    mounted.end();

    let mounted = bench.mount("");
    assert_eq!(owner("a"), (7, 8));
    mounted.end();
}

/// With `noxattr` programs see no attribute and set none, and those of the image stay.
#[test]
fn attributes_can_be_hidden() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-noxattr");
    let (set, get) = ("setfattr -n user.a -v 1", "getfattr -n user.a --only-values");
    let tell = |words: &str, path: &str| {
        let mut shell = program("sh");
        shell.arg("-c").arg(format!("{words} {path} 2>&1; true"));
        let told = output(&mut shell).expect("a shell");
        String::from_utf8_lossy(&told.stdout).into_owned()
    };
    let file = bench.inside("a").display().to_string();
    let mounted = bench.mount("");
    fs::write(&file, "x").unwrap();
    tell(set, &file);
    assert_eq!(tell(get, &file).lines().last(), Some("1"));
    mounted.end();

    let mounted = bench.mount("noxattr,idle=halt");
    for words in [set, get] {
        let told = tell(words, &file);
        assert!(told.contains("not supported"), "{words}: {told}");
    }
    fs::write(&file, "y").unwrap();
    mounted.end();

    let mounted = bench.mount("ro");
    assert_eq!(tell(get, &file).lines().last(), Some("1"));
    mounted.end();
}

/// Every policy that a volume can be mounted with keeps what is written.
#[test]
fn words_of_ext4_and_policies_are_taken() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-policies");
    for (number, options) in [
        "commit=1,cache=16M",
        "data=writeback",
        "data=journal",
        "sync",
        "metacluster,write_through",
        "policies=linux-2.6:placement=parent:throttle=inline,errors=remount-ro",
        "strictatime,workers=1",
    ]
    .into_iter()
    .enumerate()
    {
        let mounted = bench.mount(options);
        let name = format!("file {number}");
        fs::write(bench.inside(&name), options).unwrap();
        mounted.end();
        let place = format!("{}:/{name}", bench.image());
        assert_eq!(done(["cat", &place]), options);
    }
}

#[test]
fn a_ready_mount_is_told_as_json() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-json");
    let mounted = Mounted::of(&bench);
    let line = done(["mount", "--json", &bench.image(), &bench.point()]);
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["schema"], "extant-mount/1");
    assert_eq!(ready["access"], "read-write");
    assert_eq!(ready["image"], bench.image());
    assert_eq!(ready["server"], mounted.server().as_raw_nonzero().get());
    let line = done(["umount", "--json", &bench.point()]);
    let ended: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&ended["image"], &ended["waited"]), (&ready["image"], &true.into()));
    bench.is_whole();
}
