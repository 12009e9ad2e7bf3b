//! The commands on volumes with features that change where content, names, values and counts are:
//! one table of volumes, read by each command that reads, and changed by `edit` and by a mount.
//! e2fsck and the kernel's own read-only mount judge.
use crate::edit::bench::fed;
use crate::mount::fixture::{done, extant, has_fuse, take_away};

use extant_testkit::command::{is_root, output, program, run};
use extant_testkit::compare::{self, Field, Options, trees};
use extant_testkit::listing;
use extant_testkit::oracle::{self, Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::walk::{Depth, Entry, walk};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What of a volume cannot be done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Done,
    /// It is opened read-only, and that is said.
    Refused,
}

/// A kind of volume.
struct Kind {
    name: &'static str,
    /// Words for mke2fs.
    words: &'static [&'static str],
    /// What is added once the tree is there, through the kernel with these options of its mount.
    options: Option<&'static str>,
    writing: Writing,
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "inline_data",
        words: &["-O", "inline_data", "-I", "256", "-b", "1024"],
        options: None,
        writing: Writing::Done,
    },
    Kind {
        name: "inline_data and classic maps",
        words: &["-O", "inline_data,^extent,^64bit,^has_journal", "-I", "1024", "-b", "4096"],
        options: None,
        writing: Writing::Done,
    },
    Kind {
        name: "ea_inode",
        words: &["-O", "ea_inode", "-I", "256", "-b", "1024"],
        options: Some(""),
        writing: Writing::Done,
    },
    Kind {
        name: "bigalloc",
        words: &["-O", "bigalloc", "-C", "16384", "-b", "4096"],
        options: None,
        writing: Writing::Done,
    },
    Kind { name: "read-only", words: &["-b", "1024"], options: None, writing: Writing::Refused },
    Kind {
        name: "encrypt",
        words: &["-O", "encrypt", "-b", "4096"],
        options: Some("test_dummy_encryption"),
        writing: Writing::Done,
    },
    Kind {
        name: "quota",
        words: &["-O", "quota,project", "-I", "256", "-b", "1024"],
        options: None,
        writing: Writing::Done,
    },
];

/// Files of sizes around what an inode holds, directories with few names and with many, symlinks.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("folder/below")).unwrap();
    for size in [0, 1, 59, 60, 61, 130, 160, 161, 900, 5000, 70_000] {
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8 + 1).collect();
        fs::write(root.join(format!("file-{size}")), content).unwrap();
    }
    for number in 0..70 {
        fs::create_dir_all(root.join("many")).unwrap();
        fs::write(root.join(format!("many/name {number}")), "x".repeat(number)).unwrap();
    }
    fs::write(root.join("folder/small"), "in a folder").unwrap();
    fs::hard_link(root.join("folder/small"), root.join("folder/below/again")).unwrap();
    for length in [9, 60, 150, 300] {
        symlink("t".repeat(length), root.join(format!("link-{length}"))).unwrap();
    }
    run("setfattr", &["-n", "user.note", "-v", "a note", &text(&root.join("file-60"))]).unwrap();
    run("chown", &["7:8", &text(&root.join("file-900"))]).unwrap();
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What only the kernel makes: values in inodes of their own, encrypted files.
fn add(kind: &Kind, root: &Path) {
    if kind.name == "ea_inode" {
        let value = "v".repeat(3000);
        // One that the host can keep, too.
        for path in ["file-60", "folder"] {
            let path = text(&root.join(path));
            run("setfattr", &["-n", "user.large", "-v", &value, &path]).unwrap();
        }
    }
    if kind.name == "encrypt" {
        fs::create_dir(root.join("secret")).unwrap();
        for length in [1, 40, 149, 160, 255] {
            fs::write(root.join("secret").join("n".repeat(length)), "hidden").unwrap();
        }
    }
}

/// A volume of this kind, and the tree that it was made from; `None` where the kernel cannot.
fn made(kind: &Kind, folder: &Scratch) -> Option<(PathBuf, PathBuf)> {
    let (image, tree) = (folder.join("disk.img"), folder.join("tree"));
    fill(&tree);
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4"]).args(kind.words).arg("-d").arg(&tree);
    output(mke2fs.arg(&image).arg("24M")).unwrap();
    if kind.name == "quota" {
        // mke2fs counts before it copies.
        let counted = program("e2fsck").arg("-fy").arg(&image).output().unwrap();
        assert!(counted.status.code().is_some_and(|code| code < 2), "{counted:?}");
    }
    if let Some(options) = kind.options {
        let mounted = match mount_loop(&image, Access::ReadWrite, options) {
            Ok(mounted) => mounted,
            Err(error) => {
                skip_known(Known::KernelFeatures, format_args!("{}: {error}", kind.name));
                return None;
            }
        };
        add(kind, mounted.path());
        mounted.unmount().unwrap();
        if kind.name == "ea_inode" {
            add(kind, &tree);
        }
    }
    if kind.name == "read-only" {
        run("tune2fs", &["-O", "read-only", &text(&image)]).unwrap();
    }
    Some((image, tree))
}

fn can_judge() -> bool {
    let tools = ["mke2fs", "e2fsck", "setfattr", "tar"];
    is_root() && tools.iter().all(|tool| require(tool)) && can_mount()
}

/// How two views of one image are compared. The kernel shows content in inodes as data, or not.
fn options() -> Options {
    let mut options = Options::same_image();
    options.fields.remove(&Field::Holes);
    options
}

/// What the kernel sees, and e2fsck is silent.
fn judged(image: &Path, what: &str) -> Vec<Entry> {
    oracle::e2fsck(image).unwrap_or_else(|said| panic!("{what}: {said}"));
    let mounted = mount_loop(image, Access::ReadOnly, "").unwrap();
    let seen = seen(mounted.path());
    mounted.unmount().unwrap();
    seen
}

/// The entries of a mount. What is encrypted cannot be read, and has no sum.
fn seen(root: &Path) -> Vec<Entry> {
    let depth = Depth { holes: false, digest: false, sha256: false };
    let mut entries = walk(root, depth, &Default::default()).unwrap();
    let sums = Depth { sha256: true, ..depth };
    let hidden = [PathBuf::from("secret")].into_iter().collect();
    for summed in walk(root, sums, &hidden).unwrap() {
        if let Some(entry) = entries.iter_mut().find(|entry| entry.path == summed.path) {
            entry.sha256 = summed.sha256;
        }
    }
    entries
}

/// `ls` shows what the kernel shows.
fn listed_as(image: &Path, kernel: &[Entry], what: &str) {
    let told = done(["ls", "-lR", "--json", &format!("{}:/", text(image))]);
    let listed = listing::parse(&told).unwrap_or_else(|error| panic!("{what}: {error}"));
    let differences = compare::entries(&listed, kernel, &options());
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

/// `cat`, `tar`, `extract` and `diff` give the bytes of the tree; what is encrypted is refused.
fn read(kind: &Kind, image: &Path, tree: &Path, folder: &Scratch) {
    let image = text(image);
    for entry in fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap();
        if name.starts_with("file-") {
            let words = ["cat".to_owned(), format!("{image}:/{name}")];
            let told = crate::mount::fixture::command(words).output().unwrap();
            assert!(told.status.success(), "{}: {name}: {told:?}", kind.name);
            assert!(told.stdout == fs::read(&entry).unwrap(), "{}: {name}", kind.name);
        }
    }
    let mut options = Options::copy().without("lost+found").without("secret");
    // The root's own times are those of mke2fs, or of what was added.
    options.fields.remove(&Field::Mtime);
    options.fields.remove(&Field::DirectoryLinks);
    let (out, unpacked) = (folder.join("out"), folder.join("unpacked"));
    let parts = ["many", "folder", "file-60", "file-161", "file-70000", "link-60", "link-300"];
    let words = |first: &str| {
        let mut words = vec![first.to_owned(), image.clone()];
        words.extend(parts.iter().map(|part| (*part).to_owned()));
        words
    };
    let mut extract = words("extract");
    extract.push(text(&out));
    done(extract);
    fs::create_dir(&unpacked).unwrap();
    let archive = text(&folder.join("out.tar"));
    if kind.name == "encrypt" {
        // All but what there is no key for.
        let told = extant(["tar", "--keep-going", "-o", &archive, &image]);
        assert!(told.code == 1 && told.stderr.contains("no key"), "{told:?}");
    } else {
        done(["tar", "-o", &archive, &image]);
    }
    let mut tar = program("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "-xpf", &archive, "-C"]).arg(&unpacked);
    output(tar.arg("--exclude=./secret").arg("--exclude=secret")).unwrap();
    let all = trees(tree, &unpacked, &options).unwrap();
    assert!(all.is_empty(), "{}: tar: {all:#?}", kind.name);
    for part in ["many", "folder"] {
        let found = trees(&tree.join(part), &out.join(part), &options).unwrap();
        assert!(found.is_empty(), "{}: extract: {found:#?}", kind.name);
    }
    for part in ["many", "folder"] {
        done(["diff", &format!("{image}:/{part}"), &text(&out.join(part))]);
    }
}

#[test]
fn each_command_reads_what_the_kernel_reads() {
    if !can_judge() {
        return;
    }
    for kind in &KINDS {
        let folder = Scratch::new("featured-read");
        let Some((image, tree)) = made(kind, &folder) else { continue };
        let kernel = judged(&image, kind.name);
        listed_as(&image, &kernel, kind.name);
        read(kind, &image, &tree, &folder);
    }
}

/// The same changes, once in words for `edit`, once as system calls.
const SCRIPT: &str = "write -a --text more /file-60\nwrite --text new /new\n\
    truncate -s 7 /file-900\ntruncate -s 5000 /file-59\nmkdir -p /made/here\n\
    mv /file-5000 /folder/moved\nrm /file-61\nchmod 600 /file-0\nchown 70000:5 /file-1\n\
    setfattr -n user.more -v value /file-130\nln -s target /made/link\nrm -r /many\n\
    ln /file-160 /folder/below/linked\nwrite --text small /folder/below/new\n";

fn change(root: &Path) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown};
    let at = |path: &str| root.join(path);
    let append = |path: &str| fs::File::options().append(true).open(at(path));
    let cut = |path: &str, size| fs::File::options().write(true).open(at(path))?.set_len(size);
    append("file-60")?.write_all(b"more")?;
    fs::write(at("new"), "new")?;
    cut("file-900", 7)?;
    cut("file-59", 5000)?;
    fs::create_dir_all(at("made/here"))?;
    fs::rename(at("file-5000"), at("folder/moved"))?;
    fs::remove_file(at("file-61"))?;
    fs::set_permissions(at("file-0"), fs::Permissions::from_mode(0o600))?;
    chown(at("file-1"), Some(70_000), Some(5))?;
    run("setfattr", &["-n", "user.more", "-v", "value", &text(&at("file-130"))])
        .map_err(std::io::Error::other)?;
    symlink("target", at("made/link"))?;
    fs::remove_dir_all(at("many"))?;
    fs::hard_link(at("file-160"), at("folder/below/linked"))?;
    fs::write(at("folder/below/new"), "small")
}

/// The changed volume, beside the tree with the same changes: bytes, owners, modes, attributes.
fn changed_as(kind: &Kind, image: &Path, tree: &Path, what: &str) {
    let kernel = judged(image, what);
    listed_as(image, &kernel, what);
    let depth = Depth { holes: false, digest: false, sha256: true };
    let expected = walk(tree, depth, &Default::default()).unwrap();
    let mut options = Options::copy().without("lost+found").without("secret");
    for field in [Field::Mtime, Field::Bytes] {
        options.fields.remove(&field);
    }
    if kind.options.is_some() {
        options.fields.remove(&Field::DirectoryLinks);
    }
    // The root has a name more, and belongs to mke2fs.
    options.fields.remove(&Field::DirectoryLinks);
    let differences = compare::entries(&expected, &kernel, &options);
    assert!(differences.is_empty(), "{what}: {differences:#?}");
    for entry in expected.iter().filter(|entry| entry.sha256.is_some()) {
        let found = kernel.iter().find(|found| found.path == entry.path).unwrap();
        assert_eq!(found.sha256, entry.sha256, "{what}: {}", entry.path.display());
    }
}

/// A name in the encrypted directory, as a path of the image.
fn secret(image: &Path) -> Option<String> {
    let told = extant(["ls", &format!("{}:/secret", text(image))]);
    told.stdout.lines().next().map(|name| format!("/secret/{name}"))
}

/// Without the key nothing is made there and nothing is read, and all of it can be removed.
fn locked(image: &Path) {
    let name = secret(image).expect("it has names");
    for line in ["write --text x /secret/new".to_owned(), format!("truncate -s 1 '{name}'")] {
        let told = fed(&["edit", &text(image), "-"], &line);
        assert!(told.code == 1 && told.err.contains("no key"), "{line}: {told:?}");
    }
    let told = extant(["cat", &format!("{}:{name}", text(image))]);
    assert!(told.code == 1 && told.stderr.contains("no key"), "{told:?}");
    let told = fed(&["edit", &text(image), "-"], &format!("chmod 640 '{name}'\nrm '{name}'\n"));
    assert_eq!(told.code, 0, "{told:?}");
    let told = fed(&["edit", &text(image), "-"], "rm -r /secret\n");
    assert_eq!(told.code, 0, "{told:?}");
}

#[test]
fn edit_changes_them_and_the_kernel_sees_it() {
    if !can_judge() {
        return;
    }
    for kind in &KINDS {
        let folder = Scratch::new("featured-edit");
        let Some((image, tree)) = made(kind, &folder) else { continue };
        let before = fs::read(&image).unwrap();
        let told = fed(&["edit", &text(&image), "-"], SCRIPT);
        if kind.writing == Writing::Refused {
            assert!(told.code == 1 && told.err.contains(kind.name), "{}: {told:?}", kind.name);
            assert!(fs::read(&image).unwrap() == before, "{}: it was changed", kind.name);
            continue;
        }
        assert_eq!((told.code, &*told.err), (0, ""), "{}", kind.name);
        change(&tree).unwrap();
        changed_as(kind, &image, &tree, kind.name);
        if kind.name == "encrypt" {
            locked(&image);
            oracle::e2fsck(&image).unwrap();
        }
    }
}

/// A mount that is taken away whatever becomes of the test.
struct Here(PathBuf);

impl Drop for Here {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

#[test]
fn a_mount_changes_them_and_the_kernel_sees_it() {
    if !can_judge() || !has_fuse() {
        return;
    }
    for kind in &KINDS {
        let folder = Scratch::new("featured-mount");
        let Some((image, tree)) = made(kind, &folder) else { continue };
        let point = Here(folder.join("point"));
        fs::create_dir(&point.0).unwrap();
        let before = judged(&image, kind.name);
        let told = extant(["mount", &text(&image), &text(&point.0)]);
        assert_eq!(told.code, 0, "{}: {told:?}", kind.name);
        // As it was: all that a walk sees.
        let differences = compare::entries(&seen(&point.0), &before, &options());
        assert!(differences.is_empty(), "{}: {differences:#?}", kind.name);
        let changed = change(&point.0);
        if kind.writing == Writing::Refused {
            assert!(told.stderr.contains(kind.name), "{}: {told:?}", kind.name);
            assert!(changed.is_err(), "{}: it was changed", kind.name);
            done(["umount", &text(&point.0)]);
            oracle::e2fsck(&image).unwrap();
            continue;
        }
        changed.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        if kind.name == "encrypt" {
            let made = fs::write(point.0.join("secret/new"), "x").unwrap_err();
            assert_eq!(made.raw_os_error(), Some(126), "{made}");
        }
        done(["umount", &text(&point.0)]);
        change(&tree).unwrap();
        changed_as(kind, &image, &tree, kind.name);
    }
}
