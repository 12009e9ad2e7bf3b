//! A user who is not root, by fusermount3. `/dev/fuse` is one that all may open, in a table of
//! mounts of their own.
use crate::mount::fixture::{Bench, has_fuse};
use extant_testkit::command::{output, program};
use extant_testkit::skips::skip;
use std::fs;

/// The user and group of these tests: nobody.
const USER: &str = "65534";

/// Runs a script as that user in the folder of a bench, with `$extant` in it. What it said on both
/// outputs; `None` where that cannot be done.
fn as_user(bench: &Bench, script: &str) -> Option<String> {
    if !has_fuse() || !extant_testkit::oracle::require("setpriv") {
        return None;
    }
    let folder = bench.join("");
    // The program itself may be where that user may not look.
    extant_testkit::command::copy_tested(env!("CARGO_BIN_EXE_extant"), bench.join("extant"));
    output(program("chown").args(["-R", USER]).arg(&folder)).unwrap();
    let prepare = "set -e; cd \"$1\"
        mount --make-rprivate /
        mknod -m 666 fuse c 10 229
        mount --bind fuse /dev/fuse
        export extant=\"$1/extant\"
        exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$2\" 2>&1";
    let mut run = program("timeout");
    run.args(["-k", "5", "180", "unshare", "-m", "sh", "-c", prepare, "sh"])
        .arg(&folder)
        .arg(script);
    let done = run.output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    if errors.contains("unshare") || errors.contains("mknod") {
        skip(format_args!("no namespaces ({})", errors.trim_end()));
        return None;
    }
    assert!(errors.is_empty(), "{errors}");
    Some(String::from_utf8(done.stdout).unwrap())
}

#[test]
fn a_user_mounts_and_unmounts() {
    let bench = Bench::new("mount-user");
    let script = "$extant mount disk.img point && grep -o 'nosuid,nodev.*fuse.extant' \
            /proc/self/mountinfo
        echo content > point/a && stat -c %u point/a
        $extant umount point; echo code $?; cat point/a
        $extant mount disk.img -- cat lost+found/.. a; echo code $?";
    let Some(said) = as_user(&bench, script) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("nosuid,nodev,relatime"), "{said}");
    assert_eq!(lines[1..4], [USER, "code 0", "cat: point/a: No such file or directory"], "{said}");
    assert_eq!(lines[4..], ["cat: lost+found/..: Is a directory", "content", "code 1"], "{said}");
    bench.is_whole();
}

#[test]
fn what_fuse_refuses_a_user_is_said_with_a_hint() {
    let bench = Bench::new("mount-user-refused");
    let script = "$extant mount -o allow_other disk.img point; echo code $?
        $extant mount disk.img /var/empty-none; echo code $?
        PATH=/none $extant mount disk.img point; echo code $?";
    let Some(said) = as_user(&bench, script) else { return };
    let has_setting = fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    let said = match has_setting {
        true => said.split_once("code").unwrap().1.to_owned(),
        false => {
            assert!(said.contains("user_allow_other into /etc/fuse.conf"), "{said}");
            said
        }
    };
    assert!(said.contains("there is no such folder"), "{said}");
    assert!(said.contains("fusermount3, which mounts for users, is not installed"), "{said}");
    assert!(said.trim_end().ends_with("code 2"), "{said}");
    bench.is_whole();
}
