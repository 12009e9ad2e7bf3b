//! `--order arrival`: file data goes into the image while its archive is read.
use crate::build::command::{build_command, bytes, extant, rebuild};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is never in a file of the image: bytes of what is excluded or replaced.
const MARK: &[u8] = b"bytes that no image may hold";

/// Kinds of volumes. Small groups: bodies cross copies of the superblock, and tables of groups.
const VOLUMES: &[&str] = &[
    "-t ext4",
    "-t ext4 -g 1024",
    "-t ext4 -b 1024",
    "-t ext4 -b 2048 -I 512",
    "-t ext4 -O ^has_journal",
    "-t ext4 -O ^extent,^64bit",
    "-t ext4 -O ^flex_bg",
    "-t ext4 --free 10M",
    "-t ext4 -b 1024 --free 40%",
    "-t ext4 -E offset=65536",
    "-t ext3",
    "-t ext3 --metacluster",
    "-t ext3 -b 1024",
    "-t ext2 -g 1024",
    "-t ext2 -b 1024 -I 128",
    "-t ext2 --free 30%",
    "-t ext2 -b 1024 --metacluster",
];

/// A tree with files of all lengths, one of them across several groups, some with holes.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    for (number, length) in [0, 1, 100, 4095, 4096, 4097, 70_000, 300_000].into_iter().enumerate() {
        fs::write(root.join(format!("{number}")), bytes(number as u64, length)).unwrap();
        fs::write(root.join(format!("deep/er/{number}")), bytes(77, length)).unwrap();
    }
    fs::write(root.join("large"), bytes(9, 9 << 20)).unwrap();
    let sparse = File::create(root.join("deep/sparse")).unwrap();
    for at in [5_000, 1 << 20, 9 << 20] {
        sparse.write_all_at(b"data between holes", at).unwrap();
    }
    std::os::unix::fs::symlink("../large", root.join("deep/link")).unwrap();
    // Its target has a block of its own.
    std::os::unix::fs::symlink("x/".repeat(100), root.join("deep/long")).unwrap();
    fs::hard_link(root.join("6"), root.join("deep/hard")).unwrap();
}

fn packed(folder: &Path, tree: &str) -> PathBuf {
    let archive = folder.join(format!("{tree}.tar"));
    let mut tar = program("tar");
    tar.args(["--format=pax", "--sort=name", "--sparse", "-cf"]).arg(&archive);
    output(tar.arg("-C").arg(folder.join(tree)).arg(".")).unwrap();
    archive
}

/// The volume alone: the image without what is before it.
fn volume(image: &Path, words: &str, folder: &Path) -> PathBuf {
    if !words.contains("offset") {
        return image.to_owned();
    }
    let volume = folder.join("volume.img");
    fs::write(&volume, &fs::read(image).unwrap()[65_536..]).unwrap();
    volume
}

fn unpacked(image: &Path, folder: &Path, name: &str) -> PathBuf {
    let (archive, unpacked) = (folder.join("out.tar"), folder.join(name));
    let _ = fs::remove_dir_all(&unpacked);
    let _ = fs::remove_file(&archive);
    fs::create_dir(&unpacked).unwrap();
    output(extant(["tar", "-o"]).arg(&archive).arg(image)).unwrap();
    output(program("tar").arg("-xpf").arg(&archive).arg("-C").arg(&unpacked)).unwrap();
    unpacked
}

/// The image is sound, and holds what the image in the order of the tree does.
fn same_tree(words: &str, sources: &[&Path], image: &Path, folder: &Path) {
    let volume = volume(image, words, folder);
    e2fsck(&volume).unwrap_or_else(|error| panic!("{words}: {error}"));
    let tree_image = folder.join("tree.img");
    rebuild(&words.replace("-E offset=65536", ""), sources, &tree_image);
    let wanted = unpacked(&tree_image, folder, "wanted");
    let found = unpacked(&volume, folder, "found");
    let mut diff = program("diff");
    output(diff.args(["-r", "--no-dereference"]).args([&wanted, &found])).unwrap();
    let listing = |root: &Path| {
        let mut find = program("find");
        let format = "%P %y %m %U %G %s %n %T@ %l\n";
        let listed = output(find.arg(root).args(["-printf", format])).unwrap();
        let mut lines: Vec<String> =
            String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(listing(&wanted), listing(&found), "{words}");
}

fn is_marked(image: &Path) -> bool {
    let bytes = fs::read(image).unwrap();
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == MARK[0]);
    starts.into_iter().any(|(at, _)| bytes[at..].starts_with(MARK))
}

fn marked(length: usize) -> Vec<u8> {
    MARK.iter().copied().cycle().take(length).collect()
}

#[test]
fn an_image_in_the_order_of_its_archive_holds_the_same() {
    let folder = Scratch::new("build-arrival");
    make_tree(&folder.join("tree"));
    let archive = packed(folder.path(), "tree");
    let image = folder.join("x.img");
    for words in VOLUMES {
        rebuild(&format!("--order arrival {words}"), &[&archive], &image);
        same_tree(words, &[&archive], &image, folder.path());
    }
}

#[test]
fn how_an_archive_comes_does_not_matter() {
    let folder = Scratch::new("build-arrival-forms");
    make_tree(&folder.join("tree"));
    let archive = packed(folder.path(), "tree");
    let image = folder.join("x.img");
    rebuild("--order arrival", &[&archive], &image);
    let plain = fs::read(&image).unwrap();
    let again = |source: &Path, processors: &str| {
        let mut alone = program("taskset");
        alone
            .args(["-c", processors])
            .arg(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        alone.args(["build", "-q", "--order", "arrival"]);
        fs::remove_file(&image).unwrap();
        output(alone.arg(source).arg(&image)).unwrap();
        assert!(plain == fs::read(&image).unwrap(), "{} on {processors}", source.display());
    };
    again(&archive, "0");
    let tools: &[(&str, &[&str])] =
        &[("zstd", &["-q", "-c"]), ("gzip", &["-c"]), ("xz", &["-1", "--block-size=1MiB", "-c"])];
    for (tool, words) in tools.iter().step_by(number("EXTANT_CASES") as usize) {
        if !require(tool) {
            continue;
        }
        let compressed = folder.join(&format!("tree.tar.{tool}"));
        let made = output(program(tool).args(*words).arg(&archive)).unwrap();
        fs::write(&compressed, made.stdout).unwrap();
        again(&compressed, "0");
        rebuild("--order arrival", &[&compressed], &image);
        assert!(plain == fs::read(&image).unwrap(), "{tool}");
    }
    fs::remove_file(&image).unwrap();
    let piped = build_command("--order arrival", &[Path::new("/dev/stdin")], &image)
        .stdin(File::open(&archive).unwrap())
        .output()
        .unwrap();
    assert!(piped.status.success());
    assert!(plain == fs::read(&image).unwrap(), "from a descriptor");
}

#[test]
fn what_is_excluded_leaves_no_byte() {
    let folder = Scratch::new("build-arrival-excluded");
    let tree = folder.join("tree");
    make_tree(&tree);
    fs::create_dir(tree.join("out")).unwrap();
    for (number, length) in [100, 5_000, 70_000, 2 << 20].into_iter().enumerate() {
        fs::write(tree.join(format!("{number}.secret")), marked(length)).unwrap();
        fs::write(tree.join(format!("out/{number}")), marked(length)).unwrap();
    }
    // The last entry of the archive; and one that stays by another name.
    fs::write(tree.join("zz.secret"), marked(9_000)).unwrap();
    fs::write(tree.join("kept.secret"), "stays by another name").unwrap();
    fs::hard_link(tree.join("kept.secret"), tree.join("other-name")).unwrap();
    let archive = packed(folder.path(), "tree");
    let image = folder.join("x.img");
    rebuild("--order arrival", &[&archive], &image);
    assert!(is_marked(&image), "the mark is found where it is");
    for words in VOLUMES.iter().step_by(3) {
        let words = format!("{words} --exclude *.secret --exclude out");
        rebuild(&format!("--order arrival {words}"), &[&archive], &image);
        assert!(!is_marked(&image), "{words}");
        same_tree(&words, &[&archive], &image, folder.path());
    }
}

#[test]
fn what_is_replaced_or_whited_out_leaves_no_byte() {
    let folder = Scratch::new("build-arrival-layers");
    let [base, top] = ["base", "top"].map(|name| folder.join(name));
    make_tree(&base);
    fs::create_dir_all(base.join("opaque")).unwrap();
    fs::create_dir_all(top.join("opaque")).unwrap();
    for name in ["replaced", "gone", "opaque/old"] {
        fs::write(base.join(name), marked(300_000)).unwrap();
    }
    fs::write(top.join("replaced"), "by this").unwrap();
    fs::write(top.join(".wh.gone"), "").unwrap();
    fs::write(top.join("opaque/.wh..wh..opq"), "").unwrap();
    fs::write(top.join("opaque/new"), bytes(5, 100_000)).unwrap();
    let (first, second) = (packed(folder.path(), "base"), packed(folder.path(), "top"));
    // Of two entries of one name in an archive the last one counts.
    fs::write(top.join("replaced"), bytes(6, 5_000)).unwrap();
    output(program("tar").arg("-rf").arg(&second).arg("-C").arg(&top).arg("./replaced")).unwrap();
    let plain = folder.join("folder");
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("from-a-folder"), bytes(7, 200_000)).unwrap();
    let image = folder.join("x.img");
    for words in VOLUMES.iter().skip(1).step_by(3) {
        let words = format!("{words} --whiteouts oci");
        let sources: &[&Path] = &[&first, &plain, &second];
        rebuild(&format!("--order arrival {words}"), sources, &image);
        assert!(!is_marked(&image), "{words}");
        same_tree(&words, sources, &image, folder.path());
    }
}

#[test]
fn more_files_than_its_data_has_tables_for_make_more_groups() {
    let folder = Scratch::new("build-arrival-many");
    let tree = folder.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..6000 {
        fs::write(tree.join(format!("{number}")), if number % 100 == 0 { "x" } else { "" })
            .unwrap();
    }
    let archive = packed(folder.path(), "tree");
    let image = folder.join("x.img");
    let all = ["-t ext2 -b 1024", "-t ext4"];
    for words in all.into_iter().step_by(number("EXTANT_CASES") as usize) {
        rebuild(&format!("--order arrival {words}"), &[&archive], &image);
        same_tree(words, &[&archive], &image, folder.path());
    }
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_is_read() {
    let folder = Scratch::new("build-arrival-refused");
    let archive = folder.join("no.tar");
    for words in ["--size 10M", "-G 16", "-O ^resize_inode"] {
        let image = folder.join("x.img");
        let refused =
            build_command(&format!("--order arrival {words}"), &[&archive], &image).output();
        let refused = refused.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("--order arrival: "), "{words}: {said}");
        assert!(!image.exists());
    }
}
