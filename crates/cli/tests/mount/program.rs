//! A mount for one program.
use crate::fixture::{Bench, command, done, extant, has_fuse};
use std::path::Path;

#[test]
fn the_program_works_in_the_mount_and_gives_its_exit_code() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-program");
    let image = bench.image();
    let script = "echo content > a; echo \"$EXTANT_MOUNT\"; pwd; exit 7";
    let told = extant(["mount", &image, "--", "sh", "-c", script]);
    assert!(told.code == 7 && told.stderr.is_empty(), "{told:?}");
    let mut lines = told.stdout.lines();
    let folder = lines.next().unwrap();
    assert_eq!(lines.next(), Some(folder));
    assert!(!Path::new(folder).exists(), "the folder was made for it");
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{image}:/a")]), "content\n");
    for (script, code) in [("kill -9 $$", 137), ("true", 0)] {
        assert_eq!(extant(["mount", &image, "--", "sh", "-c", script]).code, code);
    }
}

#[test]
fn a_folder_that_is_named_is_not_the_working_directory() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-program-at");
    let mut command = command(["mount", "-o", "ro", &bench.image(), &bench.point(), "--", "pwd"]);
    let output = command.current_dir("/").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"/\n"[..]));
    assert_eq!(bench.line(), None);
}

#[test]
fn a_program_that_is_not_there_leaves_no_mount() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-no-program");
    let told = extant(["mount", &bench.image(), &bench.point(), "--", "/none/such", "x"]);
    assert_eq!(told.code, 127, "{told:?}");
    assert_eq!(told.stderr, "extant: mount: /none/such: No such file or directory\n");
    assert_eq!(bench.line(), None);
    bench.is_whole();
}

/// What a program leaves running is waited for, and said.
#[test]
fn users_that_outlive_the_program_are_waited_for() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-program-child");
    // The child begins to write only when the name of the mount is gone.
    let script = "exec 3> late; folder=$EXTANT_MOUNT; cd /; \
        (while grep -q \" $folder \" /proc/self/mountinfo; do :; done; echo late >&3) \
        > /dev/null 2>&1 &";
    let told = extant(["mount", &bench.image(), "--", "sh", "-c", script]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.stderr.contains("is still in use: "), "{told:?}");
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{}:/late", bench.image())]), "late\n");
}
