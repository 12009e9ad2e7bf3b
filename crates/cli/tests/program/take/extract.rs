//! Extracted trees beside the kernel's mount of the same image.
use crate::take::command::{command, extant, refused, told};
use crate::take::made::{TEXT, everything, noise, volume};
use extant_testkit::command::{output, program, with_default_signals};
use extant_testkit::compare::{Options, trees};
use extant_testkit::oracle::{Access, Mounted, can_mount, debugfs, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// An image of everything, filled through the kernel; `None` where that is not possible.
fn full(folder: &Scratch) -> Option<Mounted> {
    let tools = ["mke2fs", "setfattr", "setfacl", "setcap"];
    if !tools.iter().all(|tool| require(tool)) || !can_mount() {
        return None;
    }
    let image = folder.join("full.img");
    output(program("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&image).arg("32M")).unwrap();
    let mounted = mount_loop(&image, Access::ReadWrite, "").unwrap();
    fs::create_dir(mounted.path().join("all")).unwrap();
    everything(&mounted.path().join("all"));
    mounted.unmount().unwrap();
    Some(mount_loop(&image, Access::ReadOnly, "").unwrap())
}

#[test]
fn all_that_a_volume_holds_is_there_as_the_kernel_shows_it() {
    let folder = Scratch::new("take-extract");
    let Some(mounted) = full(&folder) else { return };
    told(&["extract", "full.img", "out"], folder.path());
    let differences = trees(&mounted.path().join("all"), &folder.join("out/all"), &Options::copy());
    assert_eq!(differences.unwrap(), []);
    let hole = fs::metadata(folder.join("out/all/a/holes")).unwrap();
    assert!(hole.len() == 10 << 20 && hole.blocks() < 64, "{} blocks", hole.blocks());
    let atime = |root: &Path| fs::metadata(root.join("a/empty")).unwrap().atime();
    assert_eq!(atime(&mounted.path().join("all")), atime(&folder.join("out/all")));
    // As cp -a does it from the mount.
    output(program("cp").arg("-a").arg(mounted.path().join("all")).arg(folder.join("copied")))
        .unwrap();
    let differences = trees(&folder.join("copied"), &folder.join("out/all"), &Options::copy());
    assert_eq!(differences.unwrap(), []);
    assert!(told(&["diff", "full.img:/all", "copied"], folder.path()).is_empty());
}

#[test]
fn a_part_is_extracted_with_the_directories_above_it() {
    let folder = Scratch::new("take-part");
    let Some(mounted) = full(&folder) else { return };
    // The link's other name, and what is at different depths.
    let words = ["extract", "full.img", "all/a/b", "all/a/f", "all/closed", "out"];
    told(&words, folder.path());
    for path in ["all/a/b/link", "all/a/f", "all/closed", "all/a", "all"] {
        let (there, here) = (mounted.path().join(path), folder.join("out").join(path));
        let facts = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            (found.mode(), found.uid(), found.gid(), found.mtime(), found.mtime_nsec())
        };
        assert_eq!(facts(&there), facts(&here), "{path}");
    }
    let links = |path: &str| fs::metadata(folder.join("out").join(path)).unwrap().ino();
    assert_eq!(links("all/a/b/link"), links("all/a/f"));
    assert_eq!(fs::read_dir(folder.join("out/all")).unwrap().count(), 2);
    // A path after the image becomes the folder.
    told(&["extract", "full.img:/all/a", "a"], folder.path());
    assert!(folder.join("a/b/link").exists() && folder.join("a/big").exists());
    told(&["extract", "full.img:/all", "a/b", "c"], folder.path());
    assert!(folder.join("c/a/b/link").exists() && !folder.join("c/a/big").exists());
    told(&["extract", "full.img:/all/a/big", "one"], folder.path());
    assert_eq!(fs::read(folder.join("one/big")).unwrap(), noise(1_500_000));
    let (code, text) = refused(&["extract", "full.img", "none", "d"], folder.path());
    assert!(code == 1 && text.contains("no such file in the image"), "{text}");
}

#[test]
fn what_is_there_is_refused_or_replaced_but_never_written_through() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-existing");
    volume(folder.path(), "8M");
    fs::create_dir_all(folder.join("out/etc")).unwrap();
    fs::write(folder.join("out/other"), "mine").unwrap();
    fs::write(folder.join("precious"), "precious").unwrap();
    std::os::unix::fs::symlink("../../precious", folder.join("out/etc/motd")).unwrap();
    let (code, text) = refused(&["extract", "volume.img", "out"], folder.path());
    assert!(code == 1 && text.contains("etc/motd: is there already"), "{text}");
    assert!(text.contains("--force"), "{text}");
    // The rest goes on if that is wanted.
    let (code, text) = refused(&["extract", "-k", "-F", "volume.img", "precious"], folder.path());
    assert!(code == 1 && text.contains("is not a folder"), "{text}");
    fs::remove_dir_all(folder.join("out")).unwrap();
    fs::create_dir_all(folder.join("out/etc")).unwrap();
    fs::hard_link(folder.join("precious"), folder.join("out/etc/motd")).unwrap();
    let (code, text) = refused(&["extract", "--keep-going", "volume.img", "out"], folder.path());
    assert!(code == 1 && text.contains("is there already"), "{text}");
    assert!(folder.join("out/noise").exists());
    told(&["extract", "--force", "volume.img", "out"], folder.path());
    assert_eq!(fs::read(folder.join("out/etc/motd")).unwrap(), TEXT);
    assert_eq!(fs::read(folder.join("precious")).unwrap(), b"precious");
    // A directory is never replaced by a file.
    fs::remove_file(folder.join("out/noise")).unwrap();
    fs::create_dir(folder.join("out/noise")).unwrap();
    let (code, text) = refused(&["extract", "--force", "volume.img", "out"], folder.path());
    assert!(code == 1 && text.contains("a directory is there already"), "{text}");
}

#[test]
fn damage_is_named_and_the_rest_goes_on_if_wanted() {
    if !require("debugfs") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-damaged");
    let image = volume(folder.path(), "8M");
    let mut command = program("debugfs");
    command.args(["-w", "-R", "clri noise"]).arg(&image);
    output(&mut command).unwrap();
    let (code, text) = refused(&["extract", "volume.img", "out"], folder.path());
    assert!(code == 1 && text.contains("noise") && text.contains("--keep-going"), "{text}");
    let (code, text) = refused(&["extract", "-k", "volume.img", "out"], folder.path());
    assert!(code == 1 && text.contains("noise"), "{text}");
    assert_eq!(fs::read(folder.join("out/etc/motd")).unwrap(), TEXT);
    assert!(!folder.join("out/noise").exists());
    drop(debugfs(&image, "stat noise"));
}

#[test]
fn a_full_disk_and_a_signal_are_one_line() {
    if !require("mke2fs") || !can_mount() {
        return;
    }
    let folder = Scratch::new("take-full");
    let tree = folder.join("big");
    fs::create_dir(&tree).unwrap();
    for number in 0..40 {
        fs::write(tree.join(format!("f{number}")), noise(900_000)).unwrap();
    }
    told(&["build", "-q", "big", "big.img"], folder.path());
    let small = folder.join("small.img");
    output(program("mke2fs").args(["-q", "-F"]).arg(&small).arg("8M")).unwrap();
    let mounted = mount_loop(&small, Access::ReadWrite, "").unwrap();
    let target = mounted.path().join("x").display().to_string();
    let (code, text) = refused(&["extract", "big.img", &target], folder.path());
    assert!(code == 1 && text.contains("No space left") && text.contains(&target), "{text}");
    let mut words = command(&["extract", "big.img", "out"], folder.path());
    words.stderr(std::process::Stdio::piped());
    let mut stopped = with_default_signals(&words);
    stopped.current_dir(folder.path()).stderr(std::process::Stdio::piped());
    let mut child = stopped.spawn().unwrap();
    let has_begun =
        || fs::read_dir(folder.join("out")).is_ok_and(|mut entries| entries.next().is_some());
    while !has_begun() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = output(program("kill").args(["-INT", &child.id().to_string()]));
    let ended = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    // It may have ended before.
    match ended.status.code() {
        Some(0) => {}
        Some(130) => assert!(text.contains("SIGINT; what is in out stays"), "{text}"),
        code => panic!("{code:?}: {text}"),
    }
}

/// Names longer together than a path can be, and deeper than descriptors can be open.
#[test]
fn deep_trees_are_extracted() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-deep");
    let script: String = (0..1500).fold(String::new(), |script, number| {
        script + &format!("mkdir directory-{number:0>40}\ncd directory-{number:0>40}\n")
    });
    let image = folder.join("deep.img");
    output(program("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&image).arg("32M")).unwrap();
    fs::write(folder.join("script"), script + "write /etc/hostname last\n").unwrap();
    output(program("debugfs").arg("-w").arg("-f").arg(folder.join("script")).arg(&image)).unwrap();
    told(&["extract", "deep.img", "out"], folder.path());
    assert!(told(&["diff", "deep.img", "out"], folder.path()).is_empty());
    let mut found = program("find");
    let found = output(found.arg(folder.join("out")).args(["-name", "last"])).unwrap();
    assert!(!found.stdout.is_empty());
    let again = extant(&["extract", "deep.img", "out"], folder.path());
    assert_eq!(again.status.code(), Some(1), "the last file is there already");
}

#[test]
fn what_came_of_it_is_told_to_programs() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-json");
    volume(folder.path(), "8M");
    let text = told(&["extract", "--json", "volume.img", "out"], folder.path());
    let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&report["files"], &report["directories"]), (&3.into(), &1.into()), "{report}");
    assert_eq!(report["left_out"].as_array().map(Vec::len), Some(0));
    let mode = fs::metadata(folder.join("out/etc")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}
