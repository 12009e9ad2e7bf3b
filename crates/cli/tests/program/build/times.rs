//! Access and change times: only with `--keep-atime`, so that reading a tree or packing it changes
//! no image.
use crate::build::command::{build, extant};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{debugfs, dumpe2fs, e2fsck, require};
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

/// Seconds since 1970, by the clock that the command has.
fn now() -> i64 {
    // tidy: raw-clock because the command that is judged is another process, on the host's clock
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

/// An image, and what was said while it was built.
fn built(words: &[&str], source: &Path, image: &Path) -> (Vec<u8>, String) {
    let mut command = extant(["build", "--force"]);
    let told = command.args(words).arg(source).arg(image).output().unwrap();
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{words:?}: {said}");
    (fs::read(image).unwrap(), said)
}

/// The clock passes the time of a file between two builds.
#[test]
fn an_image_does_not_know_whether_a_time_has_come() {
    if !["tar", "e2fsck", "dumpe2fs"].iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("build-to-come");
    let (tree, archive) = (folder.join("tree"), folder.join("tree.tar"));
    make(&tree);
    read_at(&tree, 1_600_000_000);
    let image = folder.join("x.img");
    let rows: [(&[&str], &Path); 6] = [
        (&[], &tree),
        (&["-t", "ext2", "-I", "128"], &tree),
        (&["--free", "300M"], &tree),
        (&["--verity", "--partition", "gpt"], &tree),
        (&[], &archive),
        (&["--order", "arrival"], &archive),
    ];
    let all = |lead: i64| {
        let comes = now() + lead;
        let time = Timespec { tv_sec: comes, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, tree.join("folder/file"), &times, AtFlags::empty()).unwrap();
        pack("tar", &tree, &archive);
        let before = rows.map(|(words, source)| {
            let (bytes, said) = built(words, source, &image);
            if !words.contains(&"--partition") {
                e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            }
            (bytes, said)
        });
        (comes, before, now())
    };
    // On a slow machine the moment may have passed, or be too near for a word: it is then further
    // ahead.
    let mut tried = [6, 18, 64, 256].into_iter().map(all);
    let (comes, before, _) = tried.find(|(comes, _, ended)| ended + 2 < *comes).expect("in time");
    while now() <= comes {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for ((words, source), (bytes, said)) in rows.into_iter().zip(before) {
        assert!(said.contains("/again: its time ") && said.contains("in the future"), "{said}");
        let (again, said) = built(words, source, &image);
        assert!(bytes == again, "{words:?}: other bytes once the time has come");
        assert!(!said.contains("future"), "{words:?}: {said}");
    }
}

/// What has just been made may have the next whole second in an archive.
#[test]
fn a_time_that_was_rounded_up_is_not_in_the_future() {
    let folder = Scratch::new("build-rounded");
    let (tree, image) = (folder.join("tree"), folder.join("x.img"));
    make(&tree);
    let time = Timespec { tv_sec: now() + 1, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, tree.join("folder/file"), &times, AtFlags::empty()).unwrap();
    let (_, said) = built(&[], &tree, &image);
    assert_eq!(said, "");
}

/// A time that is far ahead: what inodes of each size hold of it.
#[test]
fn no_superblock_is_written_in_the_future() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("build-far");
    let tree = folder.join("tree");
    make(&tree);
    read_at(&tree, 1_600_000_000);
    let time = Timespec { tv_sec: 4_102_444_800, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, tree.join("folder/file"), &times, AtFlags::empty()).unwrap();
    let image = folder.join("x.img");
    for words in [&["-t", "ext4"][..], &["-I", "128"], &["-t", "ext2", "--free", "300M"]] {
        built(words, &tree, &image);
        e2fsck(&image).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let dump = dumpe2fs(&image).unwrap();
        let year = |field: &str| dump.fields[field].split_whitespace().last().unwrap().to_owned();
        assert_eq!(year("Last write time"), "2025", "{words:?}");
        let made = if words.contains(&"-I") { "2038" } else { "2100" };
        assert_eq!(year("Filesystem created"), made, "{words:?}");
    }
    // What the environment says is what is done, with a word of it.
    let mut command = extant(["build", "--force"]);
    let command = command.env("SOURCE_DATE_EPOCH", "4102444799");
    let told = command.arg(&tree).arg(&image).output().unwrap();
    assert!(told.status.success());
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(said.contains("SOURCE_DATE_EPOCH=4102444799: is in the future"), "{said}");
}
