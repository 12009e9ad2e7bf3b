//! What is mounted below a source: part of it, or with `--one-file-system` an empty directory, as
//! GNU tar has it; and file systems of the kernel, which hold no files.
use crate::build::command::{build, build_command, extant, refusal};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{can_mount, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::require_root;
use std::fs;
use std::path::{Path, PathBuf};

/// Unmounted when it goes, also when the test fails; declared after the folder that it is in.
struct Mount(PathBuf);

impl Mount {
    fn new(words: &[&str], at: &Path) -> Mount {
        output(program("mount").args(words).arg(at)).unwrap();
        Mount(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = program("umount").arg("-l").arg(&self.0).status();
    }
}

/// The names in an image, sorted, one a line.
fn names(image: &Path) -> Vec<String> {
    let mut list = extant(["ls", "-R"]);
    let listed = output(list.arg(image)).unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn has(image: &Path, name: &str) -> bool {
    names(image).iter().any(|line| line.contains(name))
}

#[test]
fn mount_points_stay_empty_directories_where_asked() {
    if !require_root() || !can_mount() || !require("tar") {
        return;
    }
    let folder = Scratch::new("build-mounts");
    let tree = folder.join("tree");
    for name in ["memory", "bound", "same", "plain"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    fs::write(tree.join("plain/below"), "plain").unwrap();
    fs::write(tree.join("single"), "hidden").unwrap();
    let _memory = Mount::new(&["-t", "tmpfs", "-o", "mode=0751", "none"], &tree.join("memory"));
    fs::create_dir(tree.join("memory/inner")).unwrap();
    fs::write(tree.join("memory/inner/deep"), "deep").unwrap();
    let inner = tree.join("memory/inner");
    let _bound = Mount::new(&["--bind", inner.to_str().unwrap()], &tree.join("bound"));
    let _single =
        Mount::new(&["--bind", inner.join("deep").to_str().unwrap()], &tree.join("single"));
    let _same = Mount::new(&["--bind", tree.join("plain").to_str().unwrap()], &tree.join("same"));

    let image = folder.join("x.img");
    build("", &[&tree], &image);
    assert_eq!(names(&image).iter().filter(|line| line.contains("deep")).count(), 2);
    build("--force --one-file-system", &[&tree], &image);
    assert!(!has(&image, "deep") && !has(&image, "inner"), "{:?}", names(&image));
    assert!(has(&image, "memory") && has(&image, "bound") && has(&image, "below"));
    let ours = fs::read(&image).unwrap();

    // GNU tar leaves the same.
    let mut tar = program("tar");
    tar.args(["--one-file-system", "--format=pax", "--numeric-owner", "--xattrs", "-cf"]);
    output(tar.arg(folder.join("x.tar")).arg("-C").arg(&tree).arg(".")).unwrap();
    build("--force", &[&folder.join("x.tar")], &image);
    assert!(fs::read(&image).unwrap() == ours);

    build("--force --one-file-system --exclude /memory", &[&tree], &image);
    assert!(!has(&image, "memory") && has(&image, "bound"));
    // A source that is itself a mount point, or a link to one, is read.
    std::os::unix::fs::symlink(tree.join("memory"), folder.join("link")).unwrap();
    for source in [tree.join("memory"), folder.join("link")] {
        build("--force --one-file-system", &[&source], &image);
        assert!(has(&image, "deep"), "{}", source.display());
    }
}

#[test]
fn file_systems_of_the_kernel_are_named() {
    if !require_root() || !can_mount() {
        return;
    }
    let folder = Scratch::new("build-kernel-mounts");
    let tree = folder.join("tree");
    for name in ["proc", "sys", "etc"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    fs::write(tree.join("etc/passwd"), "x").unwrap();
    let image = folder.join("x.img");
    let _proc = Mount::new(&["-t", "proc", "none"], &tree.join("proc"));
    let _sys = Mount::new(&["-t", "sysfs", "none"], &tree.join("sys"));
    let both: [(&Path, &str); 2] =
        [(&tree, "--one-file-system"), (Path::new("/proc/sys/kernel"), "copy")];
    for (source, mend) in both {
        let refusal = refusal(&mut build_command("", &[source], &image));
        assert_eq!(refusal.code, Some(1), "{refusal:?}");
        assert!(refusal.message.contains("is the kernel's "), "{refusal:?}");
        assert!(refusal.hint.unwrap().contains(mend));
        assert!(!image.exists());
    }
    build("--one-file-system", &[&tree], &image);
    assert!(has(&image, "proc") && has(&image, "passwd") && !has(&image, "version"));
    build("--force --exclude /proc --exclude /sys", &[&tree], &image);
    assert!(!has(&image, "proc") && has(&image, "passwd"));
    let output = build_command("--force --keep-going", &[&tree], &image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.lines().count() == 2 && said.contains("tree/proc: ") && said.contains("tree/sys: "),
        "{said}"
    );
    assert!(has(&image, "proc") && !has(&image, "version"));
}
