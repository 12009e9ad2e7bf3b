//! As a user without rights, in a user namespace, and under programs that pretend to be root.
use crate::take::command::command;
use crate::take::made::everything;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::require_root;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

/// The user that the tests become.
const USER: u32 = 1000;

/// `full.img` with everything, in a folder that is open to all; `None` where it cannot be made.
fn full() -> Option<Scratch> {
    let tools = ["mke2fs", "setfattr", "setfacl", "setcap", "setpriv", "unshare", "fakeroot"];
    if !require_root() || !tools.iter().all(|tool| require(tool)) || !can_mount() {
        return None;
    }
    let folder = Scratch::inside(Path::new("/tmp"), "take-rights");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let image = folder.join("full.img");
    output(program("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&image).arg("32M")).unwrap();
    let mounted = mount_loop(&image, Access::ReadWrite, "").unwrap();
    everything(mounted.path());
    mounted.unmount().unwrap();
    fs::create_dir(folder.join("mine")).unwrap();
    chown(folder.join("mine"), Some(USER), Some(USER)).unwrap();
    // A user may not reach the folder that cargo builds in.
    extant_testkit::command::copy_tested(env!("CARGO_BIN_EXE_extant"), folder.join("extant"));
    Some(folder)
}

/// The command run by another program, with words before it.
fn through(folder: &Scratch, before: &[&str], words: &[&str]) -> Output {
    let ours = command(words, folder.path());
    let mut other = program(before[0]);
    other.args(&before[1..]).arg(folder.join("extant")).args(ours.get_args());
    other.current_dir(folder.path()).env_remove("TMPDIR");
    other.output().unwrap()
}

fn kinds(ended: &Output) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let kinds = report["not_restored"].as_array().unwrap().iter();
    kinds.map(|kind| kind["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_user_gets_what_a_user_may_have_and_learns_the_rest() {
    let Some(folder) = full() else { return };
    let user = USER.to_string();
    let as_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let ended = through(&folder, &as_user, &["extract", "--json", "full.img", "mine/a"]);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{errors}");
    assert_eq!(kinds(&ended), ["device", "owner", "permissions", "attribute"], "{errors}");
    let out = folder.join("mine/a");
    let file = fs::metadata(out.join("a/f")).unwrap();
    // No set-user-ID bit without the owner.
    assert_eq!((file.mode() & 0o7777, file.uid()), (0o755, USER));
    assert_eq!(file.nlink(), 2);
    assert_eq!(fs::metadata(out.join("closed")).unwrap().mode() & 0o777, 0o555);
    assert!(!out.join("a/null").exists() && out.join("a/fifo").exists());
    assert_eq!(fs::metadata(out.join("a")).unwrap().mtime(), 936_835_200);
    let strict = ["extract", "--strict", "full.img", "mine/b"];
    assert_eq!(through(&folder, &as_user, &strict).status.code(), Some(1));
    // Five of a kind, and how many more.
    let said = through(&folder, &as_user, &["extract", "full.img", "mine/c"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("more of this kind (owner)"), "{said}");
    assert_eq!(said.matches(": its owner").count(), 5, "{said}");
}

#[test]
fn in_a_user_namespace_ids_that_are_not_mapped_are_listed() {
    let Some(folder) = full() else { return };
    let user = USER.to_string();
    let within =
        ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "unshare", "-Ur"];
    let can = Command::new("setpriv")
        .args(&within[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !can {
        return;
    }
    let ended = through(&folder, &within, &["extract", "--json", "full.img", "mine/a"]);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{errors}");
    let kinds = kinds(&ended);
    assert!(kinds.starts_with(&["device".into(), "owner".into()]), "{kinds:?}");
    // What root owns in the image is root's in the namespace: the user's outside.
    assert_eq!(fs::metadata(folder.join("mine/a/a/big")).unwrap().uid(), USER);
    // Without its list a file gives its group no more than the list did.
    let mode = fs::metadata(folder.join("mine/a/a/big")).unwrap().mode();
    assert_eq!(mode & 0o070, 0o040, "{mode:o}");
}

/// What tar sees under fakeroot is what tar sees on the kernel's mount.
#[test]
fn under_fakeroot_all_owners_and_devices_are_right() {
    let Some(folder) = full() else { return };
    let mounted = mount_loop(&folder.join("full.img"), Access::ReadOnly, "").unwrap();
    let list = "find . -mindepth 1 -path ./lost+found -prune -o \
                -printf '%p %y %m %U:%G %s %T@ %n %l\\n' \
                | sed 's/^\\(\\S* d \\S* \\S*\\) \\S* /\\1 /' | sort; \
                ls -l a/null a/disk | cut -c1-30";
    let mut expected = program("sh");
    let expected = output(expected.args(["-c", list]).current_dir(mounted.path())).unwrap().stdout;
    let user = USER.to_string();
    let script = format!("../extant -q extract ../full.img out && cd out && {list}");
    let mut faked = program("setpriv");
    faked.args(["--reuid", &user, "--regid", &user, "--clear-groups", "fakeroot", "sh", "-c"]);
    let faked = faked.arg(&script).current_dir(folder.join("mine")).output().unwrap();
    let (expected, faked_text) =
        (String::from_utf8_lossy(&expected), String::from_utf8_lossy(&faked.stdout));
    let errors = String::from_utf8_lossy(&faked.stderr);
    let differing: Vec<_> =
        expected.lines().zip(faked_text.lines()).filter(|(a, b)| a != b).collect();
    assert!(differing.is_empty() && expected.lines().count() > 10, "{differing:#?}\n{errors}");
    assert_eq!(expected.lines().count(), faked_text.lines().count(), "{faked_text}\n{errors}");
}
