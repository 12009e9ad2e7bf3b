//! Under fakeroot and pseudo the image is what they pretend: judged by `stat` and `getfattr` under
//! the same wrapper, by the kernel's mount, and by the archive that GNU tar writes there.
use crate::build::command::{build, refusal};
use extant_testkit::command::{is_root, output, program};
use extant_testkit::oracle::{Access, can_mount, e2fsck, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::require_root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Owners, modes, devices, links and attributes that only root could make.
const FILL: &str = r#"
set -e
mkdir tree && cd tree
echo one > file; chown 1000:70000 file; chmod 4755 file; ln file hard
mkdir folder; chown 12:34 folder; echo two > folder/locked; chmod 000 folder/locked
mknod terminal c 5 1; mknod disk b 8 300; chown 0:6 disk; chmod 660 disk; mkfifo pipe
ln -s file link; chown -h 77:88 link
setfattr -n user.words -v hello file
setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= file
setfattr -n system.posix_acl_access -v 0sAgAAAAEABgD/////AgAHANIEAAAEAAQA/////xAABAD/////IAAEAP////8= folder/locked
setfattr -n trusted.folder -v t folder
chown 5:6 .; chmod 711 .
"#;

/// The names that are looked at: the image has a lost+found besides.
const SHOW: &str = r#"
stat -c '%n %u %g %a %F %t %T %Y' . disk file folder folder/locked hard link pipe terminal
stat -c '%n %h' file hard disk folder/locked
getfattr -h -d -m - -e base64 disk file folder folder/locked hard link terminal
"#;

const ARCHIVE: &str = "tar --format=pax --numeric-owner --xattrs --xattrs-include='*' --sort=name \
    -cf tree.tar -C tree .";

/// A folder that an ordinary user may write to, with the command in it: where it was built, the
/// user may not be let in.
fn workplace(name: &str) -> Scratch {
    let folder = Scratch::new(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    extant_testkit::command::copy_tested(env!("CARGO_BIN_EXE_extant"), folder.join("extant"));
    folder
}

/// Runs a script in a folder, with these words in front, as an ordinary user: as root, fakeroot
/// would really change owners.
fn run(folder: &Scratch, wrapper: &str, script: &str) -> String {
    let mut command = match is_root() {
        true => {
            let mut command = program("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
            command.args(wrapper.split_whitespace());
            command
        }
        false => {
            let mut words = wrapper.split_whitespace();
            let mut command = program(words.next().unwrap());
            command.args(words);
            command
        }
    };
    command.args(["sh", "-c", script]).current_dir(folder.path());
    command.env_remove("SOURCE_DATE_EPOCH").env("HOME", folder.path());
    String::from_utf8(output(&mut command).unwrap().stdout).unwrap()
}

fn judge(folder: &Scratch, said: &str) {
    for words in
        ["character special file 5 1", "block special file 8 12c", "70000 4755", "link 77 88"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let image = folder.join("tree.img");
    e2fsck(&image).unwrap();
    // The archive is read by root, outside: its owners are numbers like any others.
    build("", &[&folder.join("tree.tar")], &folder.join("tar.img"));
    assert!(
        fs::read(&image).unwrap() == fs::read(folder.join("tar.img")).unwrap(),
        "the image is not that of GNU tar's archive"
    );
    if is_root() && can_mount() {
        let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
        let mut show = program("sh");
        show.args(["-c", SHOW]).current_dir(mounted.path());
        let seen = String::from_utf8(output(&mut show).unwrap().stdout).unwrap();
        mounted.unmount().unwrap();
        assert_eq!(said, seen);
    }
}

#[test]
fn the_image_is_what_fakeroot_pretends() {
    if ["fakeroot", "setfattr", "tar", "setpriv"].iter().any(|tool| !require(tool)) {
        return;
    }
    let folder = workplace("build-fakeroot");
    run(&folder, "fakeroot -s state", FILL);
    // A state that was saved is taken up again.
    let script = format!("(cd tree; {SHOW}); {ARCHIVE}; ./extant build -q tree tree.img");
    let said = run(&folder, "fakeroot -i state", &script);
    judge(&folder, &said);
}

#[test]
fn the_image_is_what_pseudo_pretends() {
    if ["fakeroot-pseudo", "setfattr", "tar", "setpriv"].iter().any(|tool| !require(tool)) {
        return;
    }
    let folder = workplace("build-pseudo");
    run(&folder, "fakeroot-pseudo -s state", FILL);
    let script = format!("(cd tree; {SHOW}); {ARCHIVE}; ./extant build -q tree tree.img");
    let said = run(&folder, "fakeroot-pseudo -s state", &script);
    let stop = "PSEUDO_PREFIX=/usr PSEUDO_LOCALSTATEDIR=$PWD/state pseudo -S";
    run(&folder, "env", stop);
    judge(&folder, &said);
}

/// A program that the wrapper does not reach would take the true owners for those that are
/// pretended.
#[test]
fn a_wrapper_that_has_no_effect_is_an_error() {
    let folder = Scratch::new("build-no-wrapper");
    fs::create_dir(folder.join("tree")).unwrap();
    let image = folder.join("x.img");
    let refused = |words: &[&str], name: &str| {
        let mut command = crate::build::command::extant(words.iter());
        command.arg("--json").current_dir(folder.path()).env(name, "7");
        refusal(&mut command)
    };
    for name in ["FAKEROOTKEY", "PSEUDO_PREFIX", "FAKECHROOT"] {
        for words in [&["build", "tree", "x.img"][..], &["mkfs", "-E", "root_owner", "x.img", "2M"]]
        {
            let refusal = refused(words, name);
            assert_eq!(refusal.code, Some(1), "{refusal:?}");
            assert!(refusal.message.starts_with(name), "{refusal:?}");
            assert!(refusal.hint.is_some(), "{refusal:?}");
            assert!(!image.exists());
        }
    }
    let with = |name: &str, words: &[&str]| -> bool {
        let mut command = crate::build::command::extant(words.iter());
        command.arg("-q").current_dir(folder.path()).env("PSEUDO_PREFIX", "/usr").env(name, "1");
        succeeds(&mut command)
    };
    assert!(with("PSEUDO_DISABLED", &["build", "tree", "x.img"]));
    // An archive says itself who owns what.
    let archive = folder.join("x.tar");
    assert!(with("FAKEROOTKEY", &["tar", "x.img", "-o", "x.tar"]) && archive.exists());
    assert!(with("FAKEROOTKEY", &["build", "-F", "x.tar", "x.img"]));
}

fn succeeds(command: &mut Command) -> bool {
    command.status().unwrap().success()
}

/// A file that the user cannot read is named before the image is begun, although the user seems to
/// be root.
#[test]
fn pretended_root_reads_no_more_than_the_user() {
    if !require_root() || !require("fakeroot") || !require("setpriv") {
        return;
    }
    let folder = workplace("build-fakeroot-locked");
    fs::create_dir(folder.join("tree")).unwrap();
    fs::write(folder.join("tree/secret"), "s").unwrap();
    fs::set_permissions(folder.join("tree/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let script = "./extant build --keep-going tree tree.img 2>&1; echo $?";
    let said = run(&folder, "fakeroot", script);
    assert!(said.contains("tree/secret: Permission denied"), "{said}");
    assert!(said.ends_with("1\n") && Path::new(&folder.join("tree.img")).exists(), "{said}");
}
