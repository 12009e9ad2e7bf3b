//! Access and change times: only with `--keep-atime`, so that reading a tree or packing it changes
//! no image.
use crate::command::{build, extant};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{debugfs, require};
use extant_testkit::scratch::Scratch;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PYTHON: &str = "
import sys, tarfile
archive = tarfile.open(sys.argv[1], 'w', format=tarfile.PAX_FORMAT)
archive.add(sys.argv[2], '.')
archive.close()
";

/// A modify time that a floating-point number holds: Python knows no other.
const MODIFIED: Timespec = Timespec { tv_sec: 1_600_000_000, tv_nsec: 250_000_000 };

fn make(tree: &Path) {
    fs::create_dir_all(tree.join("folder")).unwrap();
    fs::write(tree.join("folder/file"), "content").unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::hard_link(tree.join("folder/file"), tree.join("again")).unwrap();
}

/// Gives every file this access time, its modify time, and a change time of now.
fn read_at(path: &Path, seconds: i64) {
    if path.is_dir() {
        let names = fs::read_dir(path).unwrap();
        names.for_each(|entry| read_at(&entry.unwrap().path(), seconds));
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: seconds, tv_nsec: 5 },
        last_modification: MODIFIED,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// The same tree, packed by one of three programs.
fn pack(packer: &str, tree: &Path, archive: &Path) {
    let mut command = match packer {
        "tar" => {
            let mut tar = program("tar");
            tar.args(["--format=pax", "--numeric-owner", "--atime-preserve=system", "-cf"])
                .arg(archive);
            tar
        }
        "bsdtar" => {
            let mut tar = program("bsdtar");
            tar.args(["--format=pax", "-cf"]).arg(archive);
            tar
        }
        _ => {
            let mut python = program("python3");
            python.args(["-c", PYTHON]).arg(archive).arg(tree);
            output(&mut python).unwrap();
            return;
        }
    };
    output(command.arg("-C").arg(tree).arg(".")).unwrap();
}

fn image(folder: &Scratch, words: &str, source: &Path) -> Vec<u8> {
    let path = folder.join("x.img");
    build(&format!("--force {words}"), &[source], &path);
    fs::read(&path).unwrap()
}

#[test]
fn who_read_or_packed_the_tree_and_when_is_in_no_image() {
    if ["tar", "bsdtar", "python3"].iter().any(|tool| !require(tool)) {
        return;
    }
    let folder = Scratch::new("build-atime");
    let tree = folder.join("tree");
    make(&tree);
    read_at(&tree, 1_650_000_000);
    let expected = image(&folder, "", &tree);
    for (moment, packer) in [(1, "tar"), (2, "tar"), (3, "bsdtar"), (4, "bsdtar"), (5, "python3")] {
        read_at(&tree, 1_660_000_000 + moment);
        let archive = folder.join(&format!("{packer}-{moment}.tar"));
        pack(packer, &tree, &archive);
        assert!(image(&folder, "", &archive) == expected, "{packer}");
        assert!(image(&folder, "", &tree) == expected, "the folder after {packer}");
    }
    // The archives are not alike: it is not for want of other times that their images are.
    let [one, two] =
        [1, 2].map(|moment| fs::read(folder.join(&format!("tar-{moment}.tar"))).unwrap());
    assert!(one != two);
    // Neither does it matter what image an archive came from.
    let kept = folder.join("kept.img");
    build("--keep-atime", &[&tree], &kept);
    let archive = folder.join("kept.tar");
    assert!(extant(["tar"]).arg(&kept).arg("-o").arg(&archive).status().unwrap().success());
    assert!(image(&folder, "", &archive) == expected);
}

#[test]
fn all_times_are_kept_where_they_are_asked_for() {
    if !require("tar") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("build-keep-atime");
    let tree = folder.join("tree");
    make(&tree);
    read_at(&tree, 1_650_000_000);
    let expected = image(&folder, "--keep-atime", &tree);
    let metadata = fs::metadata(tree.join("folder/file")).unwrap();
    assert_eq!(
        (metadata.atime(), metadata.atime_nsec()),
        (1_650_000_000, 5),
        "it was read quietly"
    );
    let stat = debugfs(&folder.join("x.img"), "stat /folder/file").unwrap();
    for (name, seconds) in
        [("atime", metadata.atime()), ("ctime", metadata.ctime()), ("mtime", metadata.mtime())]
    {
        assert!(stat.contains(&format!("{name}: 0x{seconds:08x}")), "{name}: {stat}");
    }
    assert!(image(&folder, "--keep-atime", &tree) == expected, "built twice");
    pack("tar", &tree, &folder.join("x.tar"));
    assert!(image(&folder, "--keep-atime", &folder.join("x.tar")) == expected, "from GNU tar");
    // Out of the image and in again.
    let archive = folder.join("again.tar");
    image(&folder, "--keep-atime", &tree);
    let mut out = extant(["tar"]);
    assert!(out.arg(folder.join("x.img")).arg("-o").arg(&archive).status().unwrap().success());
    assert!(image(&folder, "--keep-atime", &archive) == expected, "from our archive");

    read_at(&tree, 1_650_000_001);
    assert!(image(&folder, "--keep-atime", &tree) != expected, "another access time");
    let mut clamped = extant(["build", "-qF", "--keep-atime"]);
    clamped.env("SOURCE_DATE_EPOCH", "1610000000").arg(&tree).arg(folder.join("x.img"));
    assert!(clamped.status().unwrap().success());
    let stat = debugfs(&folder.join("x.img"), "stat /folder/file").unwrap();
    for name in ["atime", "ctime"] {
        assert!(
            stat.contains(&format!("{name}: 0x{:08x}:00000000", 1_610_000_000)),
            "{name}: {stat}"
        );
    }
}
