//! A mount for one program.
use crate::mount::fixture::{Bench, Mounted, command, done, extant, has_fuse};
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

/// A server has one arena of memory, which `bench/mount-memory` needs; its program has what the
/// caller's environment says.
#[test]
fn the_server_has_one_arena_and_the_program_what_its_caller_has() {
    if !has_fuse() {
        return;
    }
    const SETTING: &str = "MALLOC_ARENA_MAX";
    let bench = Bench::new("mount-arena");
    let image = bench.image();
    let said = |words: &[&str], of_user: Option<&str>| {
        let mut command = command(words);
        match of_user {
            Some(value) => command.env(SETTING, value),
            None => command.env_remove(SETTING),
        };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let of_program = "echo $MALLOC_ARENA_MAX";
    // The parent of a program is its server.
    let of_server = "tr '\\0' '\\n' < /proc/$PPID/environ | sed -n s/^MALLOC_ARENA_MAX=//p";
    for (of_user, script, expected) in [
        (None, of_program, "\n"),
        (Some("3"), of_program, "3\n"),
        (None, of_server, "01\n"),
        (Some("3"), of_server, "3\n"),
    ] {
        let told = said(&["mount", &image, "--", "sh", "-c", script], of_user);
        assert_eq!(told, expected, "{of_user:?}: {script}");
    }
    said(&["mount", &image, &bench.point()], None);
    let mounted = Mounted::of(&bench);
    let server = mounted.server().as_raw_nonzero();
    let environment = std::fs::read_to_string(format!("/proc/{server}/environ")).unwrap();
    assert!(environment.split('\0').any(|line| line == "MALLOC_ARENA_MAX=01"), "{environment}");
    mounted.end();
}
