//! The tables of Android, SELinux, genext2fs and fakeroot.
use crate::rules::fixture::{attribute, build, extant, rights, source, told};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::Kind;
use std::fs;

const LABEL: &str = "security.selinux";

#[test]
fn file_contexts_name_files_where_they_are_mounted() {
    let folder = Scratch::new("contexts");
    source(&folder);
    let table = "/system(/.*)?  u:object_r:system_file:s0\n\
        /system/etc/.*  --  u:object_r:etc:s0\n\
        /system/usr/bin/su  u:object_r:su_exec:s0\n/var(/.*)?  u:object_r:wrong:s0\n\
        /system/srv(/.*)? <<none>>\n";
    fs::write(folder.join("table"), table).unwrap();
    build(&folder, "--rules file_contexts:table --mount-point /system/");
    let entries = told(&folder, "disk.img");
    let label = |path: &str| attribute(&entries, path, LABEL);
    let is = |path: &str, expected: &str| {
        assert_eq!(label(path), Some(format!("u:object_r:{expected}:s0\0")), "{path}");
    };
    is("/", "system_file");
    is("/etc", "system_file");
    is("/etc/motd", "etc");
    is("/usr/bin/su", "su_exec");
    is("/var/www/index", "system_file");
    assert_eq!(label("/srv/a"), None);
}

#[test]
fn fs_config_gives_owners_modes_and_capabilities() {
    let folder = Scratch::new("fs-config");
    source(&folder);
    let table = " 0 0 0755\nusr/bin/su 0 2000 06750 selabel=u:object_r:su_exec:s0\n\
        usr/bin/ping 0 0 0755 capabilities=0x2000\n";
    fs::write(folder.join("table"), table).unwrap();
    let said = build(&folder, "--rules fs_config:table");
    assert!(said.contains("has no line for /"), "what is not listed is named: {said}");
    let entries = told(&folder, "disk.img");
    assert_eq!(rights(&entries, "/usr/bin/su"), (0, 2000, 0o6750));
    assert_eq!(
        attribute(&entries, "/usr/bin/su", LABEL).as_deref(),
        Some("u:object_r:su_exec:s0\0")
    );
    let value = &entries["/usr/bin/ping"].attributes[&b"security.capability"[..]];
    assert_eq!(value[..8], [1, 0, 0, 2, 0, 0x20, 0, 0]);
}

#[test]
fn a_device_table_makes_what_genext2fs_makes() {
    if !require("genext2fs") {
        return;
    }
    let folder = Scratch::new("devices");
    source(&folder);
    let table = "/dev d 755 0 0 - - - - -\n/dev/mem c 640 0 3 1 1 0 0 -\n\
        /dev/tty c 666 0 5 4 0 0 1 6\n/dev/hda b 640 0 0 3 1 1 1 5\n/dev/x b 640 1 2 3 10 3 2 7\n\
        /dev/fifo p 600 9 9 - - - - -\n/etc/motd f 4711 3 4 - - - - -\n\
        /dev/log s 666 0 0 - - - - -\n/new d 711 5 6 - - - - -\n";
    fs::write(folder.join("table"), table).unwrap();
    build(&folder, "-t ext2 -b 1024 --rules device-table:table");
    let mut theirs = program("genext2fs");
    theirs.args(["-d", "source", "-D", "table", "-b", "2048", "-B", "1024", "theirs.img"]);
    output(theirs.current_dir(folder.path())).unwrap();
    let (ours, theirs) = (told(&folder, "disk.img"), told(&folder, "theirs.img"));
    let named =
        |path: &&String| path.starts_with("/dev") || ["/etc/motd", "/new"].contains(&&path[..]);
    let paths: Vec<_> = theirs.keys().filter(named).collect();
    assert_eq!(paths, ours.keys().filter(named).collect::<Vec<_>>());
    assert!(paths.len() > 15, "{paths:?}");
    for path in paths {
        let of = |entry: &extant_testkit::walk::Entry| {
            (entry.kind, entry.mode, entry.uid, entry.gid, entry.device)
        };
        assert_eq!(of(&ours[path]), of(&theirs[path]), "{path}");
    }
}

#[test]
fn makedevs_counts_its_devices_and_reaches_below_directories() {
    let folder = Scratch::new("makedevs");
    source(&folder);
    let table = "/dev/hda b 640 0 0 3 1 1 1 15\n/var r -1 33 33 - - - - -\n\
        /usr/bin/ping f 755 0 0 - - - - -\n|xattr cap_net_raw+ep\n/gone f 644 0 0 - - - - -\n";
    fs::write(folder.join("table"), table).unwrap();
    let said = build(&folder, "--rules makedevs:table");
    assert!(said.contains("table:5: /gone is nothing in the image"), "{said}");
    let entries = told(&folder, "disk.img");
    let devices = entries.values().filter(|entry| entry.kind == Kind::BlockDevice);
    let minors: Vec<_> = devices.map(|entry| entry.device.1).collect();
    assert_eq!(minors.len(), 15);
    assert_eq!(entries["/dev/hda15"].device, (3, 15));
    assert_eq!(rights(&entries, "/var/www").0, 33);
    assert_eq!(entries["/var/www/index"].uid, 33);
    assert!(attribute(&entries, "/usr/bin/ping", "security.capability").is_some());
    for (line, part) in [
        ("/dev/x c 600 0 0 1 1 0 1 99999999", "more than 65536"),
        ("/etc c 600 0 0 1 1 0 0 -", "is a directory"),
        ("../x d 755 0 0", "table:1"),
        ("|xattr cap_net_raw+ep", "follows no line"),
    ] {
        fs::write(folder.join("table"), line).unwrap();
        let output = extant(&folder, "build -F --rules makedevs:table source disk.img");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{line}: {said}");
    }
}

#[test]
fn what_fakeroot_saved_is_what_fakeroot_shows() {
    if !require("fakeroot") {
        return;
    }
    let folder = Scratch::new("fakeroot");
    source(&folder);
    let script = "cd source; chown 5:6 etc/motd; chmod 4755 etc/motd; mknod dev/c c 300 70000; \
        mknod dev/b b 8 1; chown 7:8 srv; chown -h 9:9 usr/sbin; chown 1:2 .";
    let mut saving = program("fakeroot");
    saving.args(["-s", "state", "sh", "-c", script]).current_dir(folder.path());
    output(&mut saving).unwrap();
    build(&folder, "--rules fakeroot:state");
    let ours = told(&folder, "disk.img");
    // The same build, run by fakeroot itself.
    let mut loaded = program("fakeroot");
    loaded.args([
        "-i",
        "state",
        extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")),
        "build",
        "source",
        "theirs.img",
    ]);
    output(loaded.current_dir(folder.path())).unwrap();
    let theirs = told(&folder, "theirs.img");
    assert_eq!(ours["/dev/c"].device, (300, 70000));
    assert_eq!(rights(&ours, "/etc/motd"), (5, 6, 0o4755));
    assert_eq!(rights(&ours, "/"), rights(&theirs, "/"));
    let images = ["disk.img", "theirs.img"].map(|image| fs::read(folder.join(image)).unwrap());
    assert!(images[0] == images[1], "the images differ");
}
