//! Layers over each other, whiteouts, owners and exclusions: what is in the image in the end.
use crate::build::command::{
    build, build_command, bytes, everything, judge, rebuild, refusal, same_when_mounted,
};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

fn write(path: PathBuf, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn mounted<T>(image: &Path, look: impl FnOnce(&Path) -> T) -> T {
    let mounted = mount_loop(image, Access::ReadOnly, "").unwrap();
    look(mounted.path())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn later_sources_lie_over_earlier_ones() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-layers");
    let [base, middle, top] = ["base", "middle", "top"].map(|name| folder.join(name));
    write(base.join("kept/file"), "base");
    write(base.join("both/file"), "base");
    write(base.join("file-then-folder"), "base");
    write(base.join("folder-then-file/inner"), "base");
    write(middle.join("both/file"), "middle");
    write(middle.join("both/more"), "middle");
    write(top.join("file-then-folder/inner"), "top");
    write(top.join("folder-then-file"), "top");
    fs::hard_link(top.join("folder-then-file"), top.join("linked")).unwrap();
    output(
        program("tar").arg("-cf").arg(folder.join("middle.tar")).arg("-C").arg(&middle).arg("."),
    )
    .unwrap();
    // What lying over each other means is what copying over each other gives.
    let expected = folder.join("expected");
    write(expected.join("kept/file"), "base");
    write(expected.join("both/file"), "middle");
    write(expected.join("both/more"), "middle");
    write(expected.join("file-then-folder/inner"), "top");
    write(expected.join("folder-then-file"), "top");
    fs::hard_link(expected.join("folder-then-file"), expected.join("linked")).unwrap();
    let image = folder.join("x.img");
    let report = build("-t ext4", &[&base, &folder.join("middle.tar"), &top], &image);
    judge(&image, &report);
    assert_eq!(report.free_blocks, 0);
    let mut options = everything();
    options.fields.remove(&extant_testkit::compare::Field::Mtime);
    same_when_mounted(&image, &expected, &options);
}

#[test]
fn whiteouts_are_heeded_when_asked_for() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-whiteouts");
    let [base, top] = ["base", "top"].map(|name| folder.join(name));
    write(base.join("gone"), "base");
    write(base.join("kept"), "base");
    write(base.join("gone-folder/inner"), "base");
    write(base.join("opaque/old"), "base");
    write(base.join("remade"), "base");
    write(top.join(".wh.gone"), "");
    write(top.join(".wh.gone-folder"), "");
    write(top.join("opaque/.wh..wh..opq"), "");
    write(top.join("opaque/new"), "top");
    write(top.join(".wh.remade"), "");
    write(top.join("remade"), "top");
    let image = folder.join("x.img");
    judge(&image, &build("--whiteouts oci", &[&base, &top], &image));
    mounted(&image, |root| {
        assert_eq!(names(root), ["kept", "lost+found", "opaque", "remade"]);
        assert_eq!(names(&root.join("opaque")), ["new"]);
        assert_eq!(fs::read(root.join("remade")).unwrap(), b"top");
    });
    judge(&image, &rebuild("", &[&base, &top], &image));
    mounted(&image, |root| {
        assert!(root.join(".wh.gone").exists() && root.join("gone").exists());
        assert_eq!(names(&root.join("opaque")), [".wh..wh..opq", "new", "old"]);
    });
}

#[test]
fn owners_are_given_and_shifted() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-owners");
    let source = folder.join("source");
    write(source.join("a"), "");
    write(source.join("b"), "");
    chown(source.join("a"), Some(1000), Some(2000)).unwrap();
    chown(source.join("b"), Some(70_000), Some(4_000_000_000)).unwrap();
    chown(&source, Some(12), Some(13)).unwrap();
    let image = folder.join("x.img");
    let owners = |words: &str| {
        judge(&image, &rebuild(words, &[&source], &image));
        mounted(&image, |root| {
            ["a", "b", "."].map(|name| {
                let metadata = root.join(name).metadata().unwrap();
                (metadata.uid(), metadata.gid())
            })
        })
    };
    assert_eq!(owners(""), [(1000, 2000), (70_000, 4_000_000_000), (12, 13)]);
    assert_eq!(owners("--owner 0:0"), [(0, 0); 3]);
    assert_eq!(
        owners("--map-users 0:100000:65536 --map-groups 13:5:1 --map-groups 2000:80000:1"),
        [(101_000, 80_000), (70_000, 4_000_000_000), (100_012, 5)]
    );
    assert_eq!(owners("-E root_owner=7:8")[2], (7, 8));
}

#[test]
fn what_is_excluded_is_not_there() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-exclude");
    let source = folder.join("source");
    for name in ["a/x.o", "a/x.c", "b/c/y.o", "b/c/keep", "cache/one", "b/cache/two"] {
        write(source.join(name), name);
    }
    let image = folder.join("x.img");
    judge(&image, &build("--exclude *.o --exclude /cache --exclude b/c/k*", &[&source], &image));
    mounted(&image, |root| {
        assert_eq!(names(root), ["a", "b", "lost+found"]);
        assert_eq!(names(&root.join("a")), ["x.c"]);
        assert_eq!(
            (names(&root.join("b")), names(&root.join("b/c"))),
            (vec!["c".into(), "cache".into()], vec![])
        );
    });
}

/// The image may be in its own source: it is left out. A special file is kept as what it is.
#[test]
fn an_image_inside_its_source_is_left_out() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-inside");
    write(folder.join("file"), "content");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let image = folder.join("x.img");
    judge(&image, &build("", &[folder.path()], &image));
    let first = mounted(&image, |root| {
        assert!(root.join("pipe").symlink_metadata().unwrap().file_type().is_fifo());
        names(root)
    });
    assert_eq!(first, ["file", "lost+found", "pipe"]);
    // The old image is no part of the new one. (A copy of it: the kernel may not have let go of it
    // yet.)
    fs::copy(&image, folder.join("old")).unwrap();
    fs::rename(folder.join("old"), &image).unwrap();
    judge(&image, &build("--force", &[folder.path()], &image));
    assert_eq!(mounted(&image, names), first);
}

#[test]
fn wrong_words_are_wrong_usage() {
    let folder = Scratch::new("build-usage");
    write(folder.join("source/file"), &String::from_utf8_lossy(&bytes(1, 10)));
    let (source, image) = (folder.join("source"), folder.join("x.img"));
    for words in [
        "--owner root",
        "--map-users 1:2",
        "--free 100%",
        "--size x",
        "--exclude [",
        "-b 1000",
        "-O nothing",
    ] {
        assert_eq!(refusal(&mut build_command(words, &[&source], &image)).code, Some(2), "{words}");
        assert!(!image.exists());
    }
    assert_eq!(
        refusal(&mut build_command("", &[Path::new("-"), Path::new("-")], &image)).code,
        Some(2)
    );
}
