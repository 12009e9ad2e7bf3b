//! What is wrong with a matrix, a plan, a directory or an image: one line each, and nothing lost.
use super::fixture::{Folder, counts};
use extant_testkit::command::run;
use extant_testkit::oracle::can_mount;
use extant_testkit::skips::require_root;
use std::os::unix::fs::PermissionsExt;

const CHECKS: &str = "[[jobs]]\nkind = \"check\"\nover = { image = [\"a.image\", \"b.image\"] }\n";

/// The first line of what is said by a command that must fail and print nothing.
fn refused(folder: &Folder, words: &[&str]) -> String {
    let output = folder.output(words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}: {errors}");
    let mut lines = errors.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    assert!(lines.all(|line| line.starts_with("  hint: ")), "{words:?}: {errors}");
    first
}

#[test]
fn a_matrix_is_refused_before_a_job_is_printed() {
    let folder = Folder::new("sweep-matrix");
    let plan = |over: &str| {
        folder.write("m.toml", &format!("[[jobs]]\nkind = \"lab run\"\nover = {{ {over} }}\n"));
        refused(&folder, &["sweep", "plan", "m.toml"])
    };
    for (over, said) in [
        ("scenario = \"small.toml\", sed = 1", "3: sed: extant lab run has no such option"),
        ("scenario = \"small.toml\", drive = \"none\"", "3: --drive none: no such drive"),
        ("scenario = \"none\"", "3: none: no such scenario"),
        ("scenario = \"small.toml\", preset = \"none\"", "3: --preset none: "),
        (
            "scenario = \"small.toml\", column = { placement = \"none\" }",
            "3: --preset placement=none: ",
        ),
        (
            "scenario = \"small.toml\", seed = [1, \"x\"]",
            "3: invalid value 'x' for '--seed <NUMBER>'",
        ),
        (
            "scenario = \"small.toml\", seed = { from = -5, to = 5 }",
            "1: invalid value '-5' for '--seed <NUMBER>'",
        ),
        ("seed = 1", "1: the following required arguments were not provided: <SCENARIO>"),
        (
            "scenario = \"small.toml\", image = \"none.image\"",
            "1: none.image: No such file or directory",
        ),
        (
            "scenario = \"small.toml\", image = \"/dev/null\"",
            "1: /dev/null: is neither a file nor a folder",
        ),
        (
            "scenario = \"small.toml\", seed = { from = 1, to = 1000000000 }",
            "1: 1000000000 combinations, the limit is 1000000",
        ),
    ] {
        let line = plan(over);
        assert!(line.starts_with(&format!("extant: sweep: m.toml:{said}")), "{over}: {line}");
    }
    let none = refused(&folder, &["sweep", "plan", "none.toml"]);
    assert_eq!(none, "extant: sweep: none.toml: No such file or directory");
    folder.plan(CHECKS, "jobs");
    let few = refused(&folder, &["sweep", "plan", "matrix.toml", "--limit", "1"]);
    assert_eq!(few, "extant: sweep: matrix.toml:1: 2 combinations, the limit is 1");
}

#[test]
fn a_plan_of_another_version_is_refused_as_a_whole() {
    let folder = Folder::new("sweep-version");
    folder.plan(CHECKS, "jobs");
    let jobs = std::fs::read_to_string(folder.path().join("jobs")).unwrap();
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let (first, second) = jobs.split_once('\n').unwrap();
    let other = second.replace(&version, "\"version\":\"0.0.1\"");
    folder.write("other", &format!("{first}\n{other}"));
    let line = refused(&folder, &["sweep", "run", "other", "d"]);
    assert!(line.starts_with("extant: sweep: other:2: is a job of extant 0.0.1 ("), "{line}");
    assert!(folder.files("d").is_empty());
    let line = refused(&folder, &["sweep", "run", "a.image", "d"]);
    assert!(line.starts_with("extant: sweep: a.image:1: is "), "{line}");
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1), [2, 2, 0, 0]);
}

#[test]
fn a_worker_without_the_command_or_of_another_version_ends_the_run() {
    let folder = Folder::new("sweep-program");
    folder.plan(CHECKS, "jobs");
    let run =
        |program: &str| refused(&folder, &["sweep", "run", "jobs", "d", "--program", program]);
    let none = "extant: sweep: ./none: cannot be run as a worker: No such file or directory";
    assert_eq!(run("./none"), none);
    let script = |name: &str, text: &str| {
        folder.write(name, &format!("#!/bin/sh\n{text}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path().join(name), mode).unwrap();
    };
    script("old", "echo \"error: unrecognized subcommand 'sweep'\" >&2; exit 2");
    assert_eq!(
        run("./old"),
        "extant: sweep: worker ./old: ended before it had a job (exit status: 2): error: \
         unrecognized subcommand 'sweep'"
    );
    script(
        "other",
        "echo '{\"schema\":\"extant-sweep-worker/1\",\"version\":\"7.0.0\"}'; read -r x",
    );
    let line = run("./other");
    assert!(
        line.starts_with("extant: sweep: worker ./other: is extant 7.0.0, and the jobs are of")
    );
    assert!(folder.files("d").is_empty());
}

#[test]
fn an_image_that_changed_after_the_plan_is_named() {
    let folder = Folder::new("sweep-changed");
    folder.plan(CHECKS, "jobs");
    let image = folder.path().join("b.image");
    let bytes = std::fs::read(&image).unwrap();
    let mut other = bytes.clone();
    other[5000] ^= 1;
    std::fs::write(&image, &other).unwrap();
    let (code, report) = folder.run(&["jobs", "d"]);
    assert_eq!((code, counts(&report)), (1, [2, 1, 0, 1]));
    let failure = &report["failures"][0];
    assert_eq!(failure["reason"], "b.image: has changed since the plan was made");
    assert_eq!(failure["tries"], 1);
    // It is the image of the plan again, and only that job is run.
    std::fs::write(&image, &bytes).unwrap();
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1), [2, 1, 1, 0]);
    assert!(std::fs::read_dir(folder.path().join("d/failed")).unwrap().next().is_none());
}

#[test]
fn a_directory_that_is_full_read_only_or_no_directory_is_named() {
    let folder = Folder::new("sweep-full");
    folder.plan(CHECKS, "jobs");
    let line = refused(&folder, &["sweep", "run", "jobs", "a.image"]);
    assert!(line.starts_with("extant: sweep: a.image/plans: "), "{line}");
    let line = refused(&folder, &["sweep", "run", "jobs", "tree"]);
    assert_eq!(line, "extant: sweep: tree: holds sub, which no sweep has");
    if !require_root() || !can_mount() {
        return;
    }
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let words = ["-t", "tmpfs", "-o", options, "tmpfs"].map(AsRef::<std::ffi::OsStr>::as_ref);
        run("mount", &[&words[..], &[small.as_os_str()]].concat()).unwrap();
    };
    let mounted = Mounted(&small);
    mount("size=64k,nr_inodes=2000");
    // All the room but what a plan needs.
    std::fs::create_dir(small.join("d")).unwrap();
    let full = vec![0; 60 << 10];
    std::fs::write(small.join("full"), &full).unwrap();
    let line = refused(&folder, &["sweep", "run", "jobs", "small/d"]);
    assert!(line.ends_with(": No space left on device") && line.contains("small/d"), "{line}");
    std::fs::remove_file(small.join("full")).unwrap();
    assert_eq!(folder.run(&["jobs", "small/d"]).0, 0);
    mount("remount,ro");
    let line = refused(&folder, &["sweep", "run", "jobs", "small/d"]);
    assert!(line.contains("small/d") && line.ends_with("Read-only file system"), "{line}");
    // What is there can be read.
    folder.told(&["sweep", "status", "small/d"]);
    folder.told(&["sweep", "collect", "small/d", "--csv"]);
    drop(mounted);
}

/// Unmounted when the test ends.
struct Mounted<'a>(&'a std::path::Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = run("umount", &[self.0.as_os_str()]);
    }
}
