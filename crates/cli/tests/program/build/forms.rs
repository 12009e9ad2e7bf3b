//! Archives in all the forms that are read: compressed in five ways, cpio, Debian packages; and
//! what their writers say in ways of their own.
use crate::build::command::{
    build, build_command, bytes, everything, judge, rebuild, same_when_mounted,
};
use crate::build::command::{extant, refusal, same_trees};
use extant_testkit::command::{output, program};
use extant_testkit::compare::Field;
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tree of files of all types; as root with devices.
fn tree(folder: &Scratch) -> PathBuf {
    let root = folder.join("tree");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), bytes(1, 300_001)).unwrap();
    fs::write(root.join("a/empty"), "").unwrap();
    fs::hard_link(root.join("a/file"), root.join("a/b/linked")).unwrap();
    fs::hard_link(root.join("a/file"), root.join("zz")).unwrap();
    fs::hard_link(root.join("a/empty"), root.join("a/empty-too")).unwrap();
    symlink("../a/file", root.join("a/link")).unwrap();
    fs::set_permissions(root.join("a/b"), PermissionsExt::from_mode(0o2750)).unwrap();
    if rustix::process::geteuid().is_root() {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let make = |name: &str, kind: FileType, device| {
            mknodat(CWD, root.join(name), kind, Mode::from(0o640), device).unwrap();
        };
        make("null", FileType::CharacterDevice, makedev(1, 3));
        make("disk", FileType::BlockDevice, makedev(8, 17));
        make("pipe", FileType::Fifo, 0);
        make("socket", FileType::Socket, 0);
    }
    root
}

fn cpio(folder: &Scratch, root: &Path, form: &str) -> PathBuf {
    let archive = folder.join(&format!("{form}.cpio"));
    let mut find = Command::new("find");
    let names = output(find.arg(".").current_dir(root)).unwrap().stdout;
    let mut cpio = program("cpio");
    cpio.args(["-o", "--quiet", "-H", form]).current_dir(root);
    cpio.stdin(Stdio::piped()).stdout(fs::File::create(&archive).unwrap());
    let mut child = cpio.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&names).unwrap();
    assert!(child.wait().unwrap().success());
    archive
}

/// Whole seconds are all that cpio has.
fn whole_seconds(root: &Path) {
    let find = ["-depth", "-exec", "touch", "-h", "-d", "@1600000000", "{}", ";"];
    output(Command::new("find").arg(root).args(find)).unwrap();
}

#[test]
fn an_archive_of_cpio_is_the_tree_that_it_was_made_of() {
    if !can_mount() || !require("cpio") {
        return;
    }
    let folder = Scratch::new("build-cpio");
    let root = tree(&folder);
    whole_seconds(&root);
    let archive = cpio(&folder, &root, "newc");
    let image = folder.join("x.img");
    let packed = folder.join("newc.cpio.gz");
    fs::write(&packed, output(program("gzip").arg("-c").arg(&archive)).unwrap().stdout).unwrap();
    for source in [&archive, &packed] {
        for order in ["tree", "arrival"] {
            let report = rebuild(&format!("--order {order}"), &[source], &image);
            judge(&image, &report);
            let mut options = everything();
            options.fields.remove(&Field::Attributes);
            same_when_mounted(&image, &root, &options);
            assert!(report.warnings.is_empty(), "{:?}", report.warnings);
        }
    }
    for form in ["crc", "odc"] {
        let other = cpio(&folder, &root, form);
        let refused = refusal(&mut build_command("-F", &[&other], &image));
        assert!(refused.message.contains("of another form than newc"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("cpio -idm"));
    }
    // Cut off at every kind of place: a sentence with its name.
    let whole = fs::read(&archive).unwrap();
    for length in [100, 113, 1000, 100_000, whole.len() / 512 * 512 - 600] {
        fs::write(&archive, &whole[..length]).unwrap();
        let refused = refusal(&mut build_command("-F", &[&archive], &image));
        let message = &refused.message;
        assert!(message.contains("newc.cpio: truncated archive"), "{length}: {message}");
    }
    // What follows is told.
    fs::write(&archive, [&whole[..], b"070701"].concat()).unwrap();
    let report = rebuild("", &[&archive], &image);
    assert!(report.warnings[0].named[0].contains("after the entry that ends it"));
    let strict = refusal(&mut build_command("-F --strict-archive", &[&archive], &image));
    assert!(strict.message.contains("after the entry that ends it"), "{}", strict.message);
}

#[test]
fn archives_that_bzip2_and_lz4_compressed_are_read_whole_or_refused() {
    if !require("tar") || !require("bzip2") || !require("lz4") {
        return;
    }
    let folder = Scratch::new("build-compressed");
    let root = tree(&folder);
    let plain = folder.join("plain");
    let mut tar = program("tar");
    output(tar.arg("-cf").arg(&plain).arg("-C").arg(&root).arg(".")).unwrap();
    let image = folder.join("x.img");
    let expected = rebuild("", &[&plain], &image);
    let expected_bytes = fs::read(&image).unwrap();
    for (tool, options) in [
        ("bzip2", &["-1"][..]),
        ("bzip2", &["-9"]),
        ("lz4", &["-1"]),
        ("lz4", &["-9", "-BD", "-B4"]),
        ("lz4", &["-B7", "-BX", "--content-size"]),
        ("lz4", &["-l"]),
    ] {
        // By content, not by name.
        let archive = folder.join("archive");
        let packed = output(program(tool).args(options).arg("-c").arg(&plain)).unwrap().stdout;
        fs::write(&archive, &packed).unwrap();
        let report = rebuild("", &[&archive], &image);
        assert_eq!(report.uuid, expected.uuid, "{tool} {options:?}");
        assert!(fs::read(&image).unwrap() == expected_bytes, "{tool} {options:?}");
        for cut in [11, packed.len() / 2, packed.len() - 1, packed.len() - 4] {
            fs::write(&archive, &packed[..cut]).unwrap();
            let output = build_command("-F", &[&archive], &image).output().unwrap();
            // The old form of lz4 has no end: only the archive in it tells.
            let is_whole = options == ["-l"] && output.status.success();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(is_whole || output.status.code() == Some(1), "{tool} {options:?} {cut}");
            assert!(is_whole || said.contains("/archive: "), "{said}");
            assert!(is_whole || said.lines().count() == 1, "{said}");
        }
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 100].fill(0x55);
        fs::write(&archive, &damaged).unwrap();
        let status = build_command("-F", &[&archive], &image).output().unwrap().status;
        assert!(status.code() == Some(1) || tool == "lz4", "{tool}: {status}");
    }
    // One stream after the other, as pbzip2 and `lz4 -m` write them, and zeros of a tape.
    let (half, rest) =
        fs::read(&plain).map(|it| (it[..51_200].to_vec(), it[51_200..].to_vec())).unwrap();
    for tool in ["bzip2", "lz4"] {
        let mut archive = Vec::new();
        for part in [&half, &rest] {
            fs::write(folder.join("part"), part).unwrap();
            let packed = output(program(tool).arg("-c").arg(folder.join("part"))).unwrap();
            archive.extend_from_slice(&packed.stdout);
        }
        archive.resize(archive.len() + 3000, 0);
        fs::write(folder.join("archive"), &archive).unwrap();
        assert_eq!(rebuild("", &[&folder.join("archive")], &image).uuid, expected.uuid, "{tool}");
    }
}

/// An archive of ar.
fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, body) in members {
        let length = body.len();
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 0, "100644");
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(body);
        archive.resize(archive.len().next_multiple_of(2), b'\n');
    }
    archive
}

#[test]
fn a_debian_package_is_the_tree_of_its_files() {
    if !require("tar") || !require("xz") || !require("zstd") || !require("bzip2") {
        return;
    }
    let folder = Scratch::new("build-deb");
    let root = tree(&folder);
    let plain = folder.join("plain.tar");
    let mut tar = program("tar");
    output(tar.arg("-cf").arg(&plain).arg("-C").arg(&root).arg(".")).unwrap();
    let image = folder.join("x.img");
    let expected = rebuild("", &[&plain], &image);
    let package = folder.join("package");
    let control = b"odd";
    for (tool, end) in
        [("cat", ""), ("gzip", ".gz"), ("xz", ".xz"), ("zstd", ".zst"), ("bzip2", ".bz2")]
    {
        let mut pack = Command::new(tool);
        if tool != "cat" {
            pack.args(["-q", "-c"]);
        }
        let files = output(pack.arg(&plain)).unwrap().stdout;
        let name = format!("data.tar{end}");
        let members =
            [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", control), (&name, &files)];
        let whole = ar(&members);
        fs::write(&package, &whole).unwrap();
        assert_eq!(rebuild("", &[&package], &image).uuid, expected.uuid, "{tool}");
        for cut in [20, 70, 150, whole.len() - files.len() / 2] {
            fs::write(&package, &whole[..cut]).unwrap();
            let refused = refusal(&mut build_command("-F", &[&package], &image));
            assert!(refused.message.contains("/package: truncated archive"), "{refused:?}");
        }
    }
    for (members, what) in [
        (&[("x.o/", &b"elf"[..])][..], "an ar archive and no Debian package"),
        (&[("debian-binary", b"2.0\n"), ("control.tar", b"")], "truncated archive"),
    ] {
        fs::write(&package, ar(members)).unwrap();
        let refused = refusal(&mut build_command("-F", &[&package], &image));
        assert!(refused.message.contains(what), "{refused:?}");
    }
}

#[test]
fn what_python_writes_of_times_and_links_is_understood() {
    if !can_mount() || !require("python3") {
        return;
    }
    let folder = Scratch::new("build-python");
    let archive = folder.join("x.tar");
    let script = "import sys, tarfile
with tarfile.open(sys.argv[1], 'w', format=tarfile.PAX_FORMAT) as tar:
    file = tarfile.TarInfo('small')
    file.pax_headers = {'mtime': '1e-05'}
    tar.addfile(file)
    link = tarfile.TarInfo('link')
    link.type, link.linkname, link.mode = tarfile.SYMTYPE, 'small', 0o640
    tar.addfile(link)
";
    output(program("python3").args(["-c", script]).arg(&archive)).unwrap();
    let image = folder.join("x.img");
    let report = build("-I 256", &[&archive], &image);
    judge(&image, &report);
    let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
    let small = fs::metadata(mounted.path().join("small")).unwrap();
    assert_eq!((small.mtime(), small.mtime_nsec()), (0, 10_000));
    let link = fs::symlink_metadata(mounted.path().join("link")).unwrap();
    assert_eq!(link.mode() & 0o7777, 0o777);
}

/// A library that lists an attribute that no file has.
const GHOST: &str = "#include <string.h>
#include <errno.h>
#include <sys/types.h>
ssize_t llistxattr(const char *path, char *list, size_t size) {
    if (!strstr(path, \"haunted\")) return 0;
    if (size < 11) { if (size) { errno = ERANGE; return -1; } return 11; }
    memcpy(list, \"user.ghost\", 11);
    return 11;
}
";

#[test]
fn an_attribute_that_is_listed_and_cannot_be_read_is_named() {
    if !require("cc") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("build-ghost");
    let root = folder.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("haunted"), "content").unwrap();
    fs::write(root.join("other"), "content").unwrap();
    let library = folder.join("ghost.so");
    fs::write(folder.join("ghost.c"), GHOST).unwrap();
    let mut cc = program("cc");
    output(cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.join("ghost.c"))).unwrap();
    let image = folder.join("x.img");
    let haunted = |options: &str| {
        let mut command = build_command(options, &[&root], &image);
        command.env("LD_PRELOAD", &library);
        command
    };
    let refused = refusal(&mut haunted(""));
    assert_eq!(refused.code, Some(1));
    let expected = "root/haunted: its attribute user.ghost cannot be read: No data available";
    assert!(refused.message.ends_with(expected), "{}", refused.message);
    assert!(refused.hint.unwrap().contains("--keep-going"));
    let built = haunted("--keep-going").output().unwrap();
    assert_eq!(built.status.code(), Some(1));
    let report: crate::build::command::Report = serde_json::from_slice(&built.stdout).unwrap();
    assert!(report.skipped[0].ends_with(expected), "{:?}", report.skipped);
    judge(&image, &report);
    let cat = output(program("debugfs").args(["-R", "cat /haunted"]).arg(&image)).unwrap();
    assert_eq!(cat.stdout, b"content", "the file itself is kept");
    // A copy into an image names it too.
    let mut copy = extant(["cp", "-a"]);
    copy.arg(root.join("haunted")).arg(format!("{}:/copy", image.display()));
    let copied = copy.env("LD_PRELOAD", &library).output().unwrap();
    let said = String::from_utf8_lossy(&copied.stderr);
    assert_eq!(copied.status.code(), Some(1), "{said}");
    assert!(said.contains("haunted: its attribute user.ghost cannot be read: No data"), "{said}");
}

#[test]
fn an_image_without_a_lost_and_found() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-lost-found");
    let root = tree(&folder);
    let with = folder.join("with");
    fs::create_dir_all(with.join("lost+found/x")).unwrap();
    fs::write(with.join("lost+found/#12"), "found").unwrap();
    let image = folder.join("x.img");
    for volume in ["-t ext4", "-t ext2", "-t ext4 --order tree -O orphan_file"] {
        for options in ["--no-lost-found", "--exclude lost+found", "--exclude /lost+found"] {
            for sources in [&[&*root][..], &[&with, &root]] {
                let report = rebuild(&format!("{volume} {options}"), sources, &image);
                judge(&image, &report);
                assert_eq!(report.free_blocks, 0);
                let mut all = everything();
                // Nothing was added.
                all.fields.insert(Field::DirectoryLinks);
                let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
                assert!(!mounted.path().join("lost+found").exists(), "{volume} {options}");
                same_trees(&root, mounted.path(), &all);
            }
        }
    }
    // Files below another directory of that name are not meant by the path.
    fs::create_dir_all(root.join("a/lost+found")).unwrap();
    rebuild("--no-lost-found", &[&root], &image);
    let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
    assert!(mounted.path().join("a/lost+found").exists());
    drop(mounted);
    let mut fsck = program("e2fsck");
    let status = fsck.args(["-fy"]).arg(&image).output().unwrap().status;
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
}
