//! What the kernel keeps, and what it does not know: searches in files that are being written,
//! append-only files, users that a map does not name.
use crate::mount::fixture::{Bench, errno, extant, has_fuse};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, seek};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Runs work that must not wait for ever; what it fails with, its thread has printed.
fn patiently(work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = std::sync::mpsc::channel();
    // tidy: thread because the test gives up if it hangs
    let thread = std::thread::Builder::new().spawn(move || {
        work();
        sender.send(()).expect("somebody waits");
    });
    thread.expect("a thread");
    receiver.recv_timeout(std::time::Duration::from_secs(300)).expect("it comes to an end");
}

/// Each search has the kernel send what it keeps, by requests that somebody must answer.
#[test]
fn searches_for_data_leave_a_worker_to_take_it() {
    if !has_fuse() {
        return;
    }
    patiently(|| {
        let bench = Bench::new("mount-searches");
        let mounted = bench.mount("workers=1");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = bench.inside(&format!("{number}"));
                // tidy: thread because the searches have to wait for each other
                scope.spawn(move || {
                    let file = std::fs::File::create_new(path).expect("makes it");
                    file.write_all_at(&[7; 8192], MIB).expect("writes");
                    let found = seek(&file, SeekFrom::Data(0)).expect("finds it");
                    assert_eq!(found, MIB);
                    assert_eq!(seek(&file, SeekFrom::Hole(MIB)).expect("ends"), MIB + 8192);
                });
            }
        });
        mounted.end();
        bench.is_whole();
    });
}

#[test]
fn an_append_only_file_is_not_overwritten_by_a_handle_that_appended() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-append");
    let mounted = bench.mount("");
    let path = bench.inside("log");
    std::fs::write(&path, "one\n").expect("writes");
    let chattr = Command::new("chattr").arg("+a").arg(&path).status().expect("chattr runs");
    assert!(chattr.success());
    let open = |append: bool| OpenOptions::new().read(true).append(append).write(true).open(&path);
    assert_eq!(errno(open(false)), Some(1));
    let file = open(true).expect("opens");
    fcntl_setfl(&file, fcntl_getfl(&file).expect("flags") - OFlags::APPEND).expect("is set");
    assert_eq!(errno(file.write_at(b"ONE", 0)), Some(1));
    assert_eq!(file.write_at(b"two\n", 4).expect("appends"), 4);
    assert_eq!(std::fs::read(&path).expect("reads"), b"one\ntwo\n");
    drop(file);
    mounted.end();
    bench.is_whole();
}

#[test]
fn users_that_a_map_does_not_name_own_nothing() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-unnamed");
    let mounted = bench.mount("");
    for (name, owner) in [("root", 0), ("user", 1000)] {
        let path = bench.inside(name);
        std::fs::write(&path, name).expect("writes");
        chown(&path, Some(owner), Some(owner)).expect("chown");
        let mode = if owner == 0 { 0o600 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    }
    mounted.end();
    let mounted = bench.mount("allow_other,map_users=1000:1000:1,map_groups=1000:1000:1");
    // By a descriptor: the folders above are not for everybody.
    let folder = OpenOptions::new().read(true).custom_flags(0o200_000).open(bench.point());
    let folder = folder.expect("opens");
    let read = |name: &str| {
        let mut cat = Command::new("cat");
        cat.arg(name).current_dir(format!("/proc/self/fd/{}", {
            use std::os::fd::AsRawFd;
            folder.as_raw_fd()
        }));
        cat.uid(65534).gid(65534).output().expect("cat runs")
    };
    let (hidden, shown) = (read("root"), read("user"));
    assert!(shown.status.success() && shown.stdout == b"user", "{shown:?}");
    assert!(!hidden.status.success() && hidden.stdout.is_empty(), "{hidden:?}");
    drop(folder);
    mounted.end();
    bench.is_whole();
}

#[test]
fn a_file_that_is_there_is_not_overwritten_by_what_is_recorded() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-recorded");
    let image = bench.image();
    for option in ["--timeline", "--trace"] {
        let name = if option == "--trace" { "trace" } else { "disk.img" };
        std::fs::write(bench.join("trace.files"), "not a trace").expect("writes");
        let file = bench.join(name).display().to_string();
        let told = extant(["mount", option, &file, &image, "--", "true"]);
        assert!(told.code != 0 && told.stderr.contains("is there already"), "{told:?}");
    }
    bench.is_whole();
}

#[test]
fn a_program_may_unmount_what_it_was_given() {
    if !has_fuse() {
        return;
    }
    patiently(|| {
        let bench = Bench::new("mount-own");
        let script = format!(
            "cd /; {} umount $EXTANT_MOUNT",
            extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"))
        );
        let told = extant(["mount", &bench.image(), "--", "sh", "-c", &script]);
        assert_eq!(told.code, 0, "{told:?}");
        bench.is_whole();
    });
}
