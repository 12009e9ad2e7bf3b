//! The same words by coreutils on a mount of the kernel, and by our commands: equal trees. `@/path`
//! is a path of the image.
use crate::edit::bench::{Bench, clean, extant, has_tools, said};
use extant_testkit::command::program;
use extant_testkit::compare::{Field, Options, trees};
use extant_testkit::oracle::{Access, can_mount, mount_loop};
use std::path::Path;

/// What every life begins with. TREE is a tree of the host.
const LIFE: &[&str] = &[
    "mkdir @/a @/b",
    "mkdir -p @/p/q/r @/p/q",
    "mkdir -m 2750 @/shared",
    "mkdir -m u=rwx,go= @/private",
    "cp -a TREE @/archive",
    "cp -r TREE @/recursive",
    "cp -rp TREE/. @/kept",
    "cp TREE/plain TREE/nothing @/a",
    "cp TREE/plain @/a/plain",
    "cp -n TREE/nothing @/a/plain",
    "cp -T TREE/nothing @/a/named",
    "cp TREE/link @/a/followed",
    "cp -P TREE/link @/a/kept-link",
    "cp -d TREE/plain TREE/deep/linked @/b",
    "cp -rL TREE/linked-dir @/dereferenced",
    "cp -rH TREE/linked-dir @/named-only",
    "cp -t @/b TREE/sparse",
    "cp --sparse=always TREE/sparse @/b/always",
    "cp -r TREE/deep @/shared",
    "cp TREE/plain @/shared/in-group",
    "cp -a @/archive @/again",
    "cp -a @/archive/. @/b",
    "cp TREE/plain @/a/kept-link",
    "rm @/recursive/link @/recursive/dangling",
    "rm -r @/kept/deep",
    "rm -f @/none @/recursive/nothing",
    "rmdir @/p/q/r @/archive/empty",
    "mv @/a/plain @/moved",
    "mv @/moved @/a/named @/private",
    "mv -T @/p/q @/p/was-q",
    "mv -n @/private/moved @/private/named",
    "mv -t @/p @/private/named",
    "mv @/again/dangling @/again/nothing",
    "ln -s ../archive/plain @/a/symbolic",
    "ln -sf /elsewhere @/a/symbolic",
    "ln @/archive/plain @/a/hard",
    "ln -f @/archive/plain @/a/nothing",
    "ln -t @/p @/archive/plain @/archive/nothing",
    "ln -s target @/p",
    "ln -sfn target2 @/p/target",
    "chmod 4711 @/a/hard",
    "chmod u-s,g+w @/archive/nothing",
    "chmod -R go-rwx,u+X @/recursive",
    "chmod -R a=rX @/kept",
    "chmod 755 @/archive/deep",
    "chmod +t @/b",
    "chmod -x @/b/plain",
    "chown 5:6 @/a/hard @/b",
    "chown :7 @/archive/nothing",
    "chown -h 8 @/archive/link",
    "chown -R 1001:1002 @/recursive @/kept",
    "chgrp -R 99 @/p",
    "touch @/new @/archive/pipe",
    "touch -c @/not-made",
    "touch -d 2026-01-31T12:00:00Z @/new",
    "touch -m -d @5 @/a/hard",
    "touch -h -d @6 @/archive/link",
    "touch -r @/new @/private",
    "truncate -s 5000 @/archive/sparse",
    "truncate -s +1M @/b/sparse @/made-by-truncate",
    "truncate -s %4096 @/archive/plain",
    "truncate -c -s 1 @/not-made",
    "setfattr -n user.new -v value @/new",
    "setfattr -n user.hex -v 0x0001ff @/new",
    "setfattr -n user.base -v 0sAAEC @/b",
    "setfattr -x user.one @/archive/plain",
    "setfattr -h -n trusted.link -v 1 @/archive/link",
];

/// What fails on both sides and changes nothing.
const FAILURES: &[&str] = &[
    "rm @/none",
    "rm @/archive",
    "rmdir @/archive",
    "mkdir @/archive",
    "mkdir @/none/x",
    "cp TREE @/x",
    "cp TREE/plain @/none/x",
    "cp TREE/none @/a",
    "cp -T TREE/plain @/archive",
    "cp -r TREE @/new",
    "cp @/new @/new",
    "mv @/none @/x",
    "mv @/archive @/archive/deep",
    "mv -T @/new @/archive",
    "mv @/new @/new",
    "mv @/archive/link @/archive/plain",
    "ln @/archive @/x",
    "ln -s x @/new",
    "chmod 644 @/none",
    "chown 0 @/none",
    "truncate -s 1 @/archive",
    "setfattr -x user.none @/new",
    "setfattr -n unknown.name -v 1 @/new",
];

/// Words with their paths put in; `@` is the image or the mount.
fn words(line: &str, tree: &Path, at: &str) -> Vec<String> {
    let tree = tree.display().to_string();
    let put = |word: &str| match word.strip_prefix('@') {
        Some(path) if path.starts_with('/') => format!("{at}{path}"),
        _ => word.replace("TREE", &tree),
    };
    line.split(' ').map(put).collect()
}

fn by_kernel(line: &str, tree: &Path, mount: &Path) -> i32 {
    let mut shell = program("sh");
    shell.args(["-c", "umask 022; exec \"$@\"", "sh"]);
    let said = said(shell.args(words(line, tree, &mount.display().to_string())));
    said.code
}

fn by_us(line: &str, tree: &Path, image: &str) -> (i32, String) {
    let words = words(line, tree, &format!("{image}:"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = extant(&words);
    (said.code, said.err)
}

#[test]
fn a_life_of_commands_gives_the_tree_that_coreutils_give() {
    if !has_tools() || !can_mount() {
        return;
    }
    for kind in [&["-t", "ext4", "-b", "1024"][..], &["-t", "ext2", "-b", "4096", "-I", "256"]] {
        let bench = Bench::new();
        let tree = bench.tree();
        let (theirs, ours) = (bench.image("theirs", kind), bench.image("ours", kind));
        let mounted =
            mount_loop(Path::new(&theirs), Access::ReadWrite, "noatime").expect("a mount");
        for line in LIFE {
            assert_eq!(by_kernel(line, &tree, mounted.path()), 0, "the kernel: {line}");
            let (code, said) = by_us(line, &tree, &ours);
            assert!(code == 0 && said.is_empty(), "{kind:?}: {line}: {code}, {said}");
        }
        for line in FAILURES {
            assert_eq!(by_kernel(line, &tree, mounted.path()), 1, "the kernel: {line}");
            let before = crate::edit::bench::bytes(&ours);
            let (code, said) = by_us(line, &tree, &ours);
            assert!(code == 1 || code == 2, "{line}: {code}, {said}");
            assert!(said.starts_with("extant: ") && said.lines().count() <= 2, "{line}: {said}");
            assert!(crate::edit::bench::bytes(&ours) == before, "{line} changed the image");
        }
        clean(&ours);
        let other = mount_loop(Path::new(&ours), Access::ReadOnly, "").expect("a mount");
        let all = Options::copy().without("lost+found");
        let mut without_times = all.clone();
        without_times.fields.remove(&Field::Mtime);
        let differences =
            trees(mounted.path(), other.path(), &without_times).expect("both are read");
        assert!(differences.is_empty(), "{kind:?}: {differences:#?}");
        // What keeps times, or was given some.
        for kept in ["archive/deep/er", "again/deep", "new"] {
            let (left, right) = (mounted.path().join(kept), other.path().join(kept));
            let time = |path: &Path| std::fs::symlink_metadata(path).unwrap().modified().unwrap();
            assert_eq!(time(&left), time(&right), "{kept}");
        }
    }
}
