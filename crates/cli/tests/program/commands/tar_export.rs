//! `extant tar` against the kernel and GNU tar, over images that are not ours; against our own
//! reader; against damage.
use crate::commands::command::extant;
use extant_image::source::{Collected, ReadOptions, Source, Times, collect};
use extant_image::tree::{NodeId, Tree};
use extant_testkit::compare::{self, Field, Grain, Options};
use extant_testkit::fixtures::{self, Made};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables::number;
use extant_testkit::walk::{Depth, Entry, Kind, walk};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tar(image: &Path, more: &[&str]) -> Output {
    let words: Vec<&OsStr> = ["tar".as_ref(), image.as_os_str()]
        .into_iter()
        .chain(more.iter().map(OsStr::new))
        .collect();
    extant(&words)
}

/// An archive of an image that is known to be sound.
fn archive(image: &Path, more: &[&str]) -> Vec<u8> {
    let output = tar(image, more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", image.display());
    assert!(said.lines().all(|line| line.contains("is a socket")), "{said}");
    output.stdout
}

fn is_here(name: &str) -> bool {
    oracle::require(name)
}

/// Fixtures that have between them all kinds of maps, directories, inodes and checksums.
const NAMES: [&str; 7] = [
    "ext2-b1024-i128",
    "ext3-b4096-i256",
    "ext4-b1024-i256",
    "ext4-b4096-i512",
    "ext4-b2048-i128",
    "ext4-b4096-i256-no-metadata_csum-uninit_bg",
    "ext4-b65536-i256",
];

fn make(name: &str, folder: &Path) -> Option<Made> {
    let fixture =
        fixtures::all().find(|fixture| fixture.name == name).expect("a name of the matrix");
    fixture.is_possible().then(|| fixture.make(folder).unwrap())
}

/// What an archive can hold of what was seen: no sockets; and no root that is the one of the
/// folder, not of the image, which is where mke2fs filled it.
fn archivable(made: &Made) -> Vec<Entry> {
    let is_copy = made.options.excluded.contains(Path::new("lost+found"));
    let is_kept =
        |entry: &&Entry| entry.kind != Kind::Socket && !(is_copy && entry.path == Path::new(""));
    let mut entries: Vec<Entry> = made.expected.iter().filter(is_kept).cloned().collect();
    // It goes as it came with every mkfs.
    entries.retain(|entry| entry.path != Path::new("lost+found"));
    entries
}

#[test]
fn gnu_tar_restores_what_the_kernel_saw() {
    for name in NAMES.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let scratch = Scratch::new("tar-export");
        let Some(made) = make(name, scratch.path()) else { return };
        let (file, out) = (scratch.path().join("a.tar"), scratch.path().join("out"));
        std::fs::write(&file, archive(&made.image, &[])).unwrap();
        std::fs::create_dir(&out).unwrap();
        let restored = Command::new("tar")
            .args(["-x", "--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner", "-p", "-f"])
            .arg(&file)
            .arg("-C")
            .arg(&out)
            .output()
            .unwrap();
        assert!(restored.status.success(), "{name}: {}", String::from_utf8_lossy(&restored.stderr));
        let mut options = Options::copy();
        options.grain = made.options.grain;
        // The host's file system counts subdirectories by itself.
        options.fields.remove(&Field::DirectoryLinks);
        let (expected, mut restored) = (archivable(&made), walked(&out));
        restored.retain(|entry| {
            entry.path != Path::new("") || expected.iter().any(|kept| kept.path == Path::new(""))
        });
        let found = compare::entries(&expected, &restored, &options);
        assert!(
            found.is_empty(),
            "{name}: {}",
            found.iter().map(|line| format!("{line}\n")).collect::<String>()
        );
    }
}

fn walked(folder: &Path) -> Vec<Entry> {
    let depth = Depth { holes: false, digest: false, sha256: true };
    walk(folder, depth, &Default::default()).unwrap()
}

#[test]
fn our_reader_finds_every_time_and_attribute() {
    for name in NAMES.into_iter().rev().step_by(number("EXTANT_CASES") as usize) {
        let scratch = Scratch::new("tar-export");
        let Some(made) = make(name, scratch.path()) else { return };
        let file = scratch.path().join("a.tar");
        std::fs::write(&file, archive(&made.image, &[])).unwrap();
        let collected = read(&file);
        let nodes = by_path(&collected.tree);
        for entry in archivable(&made).iter() {
            let node = nodes
                .get(&entry.path)
                .unwrap_or_else(|| panic!("{name}: {} is missing", entry.path.display()));
            same(name, &collected.tree, *node, entry, &made.options);
        }
    }
}

fn read(archive: &Path) -> Collected {
    collect(
        [Source::from(archive)],
        &ReadOptions { times: Times::All, ..ReadOptions::default() },
        &(),
    )
    .unwrap()
}

fn by_path(tree: &Tree) -> BTreeMap<PathBuf, NodeId> {
    let mut nodes = BTreeMap::from([(PathBuf::new(), NodeId::ROOT)]);
    let mut waiting = vec![(PathBuf::new(), NodeId::ROOT)];
    while let Some((path, directory)) = waiting.pop() {
        for child in tree.children(directory) {
            let path = path.join(OsStr::from_bytes(child.name));
            nodes.insert(path.clone(), child.node);
            waiting.push((path, child.node));
        }
    }
    nodes
}

fn same(name: &str, tree: &Tree, node: NodeId, entry: &Entry, options: &Options) {
    let shown = format!("{name}: {}", entry.path.display());
    assert_eq!(u32::from(tree.mode(node) & 0o7777), entry.mode, "{shown}");
    assert_eq!((tree.uid(node), tree.gid(node)), (entry.uid, entry.gid), "{shown}");
    let grained = |time: extant_format::inode::Time| match options.grain {
        Grain::Nanosecond => (time.seconds, time.nanoseconds),
        Grain::Second => (time.seconds, 0),
    };
    let wanted = |time: (i64, u32)| {
        if options.grain == Grain::Second { (time.0, 0) } else { time }
    };
    for (field, read, seen) in [
        (Field::Mtime, tree.modify_time(node), entry.mtime),
        (Field::Atime, tree.access_time(node), entry.atime),
        (Field::Ctime, tree.change_time(node), entry.ctime),
    ] {
        if options.fields.contains(&field) {
            assert_eq!(grained(read), wanted(seen), "{shown}: {field:?}");
        }
    }
    let attributes: BTreeMap<Vec<u8>, Vec<u8>> = tree
        .attributes(node)
        .iter()
        .map(|attribute| (attribute.name.clone(), attribute.value.clone()))
        .collect();
    assert_eq!(attributes, entry.attributes, "{shown}");
    let device = tree.device(node);
    assert_eq!((device.major, device.minor), entry.device, "{shown}");
    assert_eq!(tree.target(node), entry.target.as_deref().unwrap_or_default(), "{shown}");
    if entry.kind != Kind::Directory {
        assert_eq!(tree.links(node), entry.links, "{shown}");
        assert_eq!(tree.length(node), entry.size, "{shown}");
    }
}

#[test]
fn the_same_image_gives_the_same_bytes() {
    let scratch = Scratch::new("tar-export");
    let Some(made) = make("ext4-b1024-i256", scratch.path()) else {
        return;
    };
    let first = archive(&made.image, &[]);
    assert!(first.len().is_multiple_of(10240) && first.ends_with(&[0; 1024]));
    assert!(first == archive(&made.image, &[]), "a second reading differs");
    let (file, image) = (scratch.path().join("a.tar"), made.image.to_str().unwrap());
    let words = ["tar", image, "-o", file.to_str().unwrap()].map(OsStr::new);
    assert!(extant(&words).status.success());
    assert!(first == std::fs::read(&file).unwrap(), "a file differs from a pipe");
    let refused = extant(&words);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    let itself = ["tar", image, "--force", "-o", image].map(OsStr::new);
    assert_eq!(extant(&itself).status.code(), Some(2));
}

/// An image made by mke2fs of a folder that this fills, with these words besides.
fn image_of(scratch: &Scratch, words: &[&str], fill: impl FnOnce(&Path)) -> PathBuf {
    let (tree, image) = (scratch.path().join("tree"), scratch.path().join("x.img"));
    std::fs::create_dir(&tree).unwrap();
    fill(&tree);
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-d"])
        .arg(&tree)
        .args(words)
        .arg(&image)
        .arg("16M")
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    image
}

fn listed(archive: &[u8], folder: &Path) -> Vec<String> {
    let file = folder.join("listed.tar");
    std::fs::write(&file, archive).unwrap();
    let output = Command::new("tar").arg("-tf").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn paths_restrict_an_archive() {
    if !is_here("mke2fs") {
        return;
    }
    let scratch = Scratch::new("tar-paths");
    let image = image_of(&scratch, &["-t", "ext4"], |tree| {
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        for file in ["a/1", "a/b/2", "a/b/c/3", "4"] {
            std::fs::write(tree.join(file), file).unwrap();
        }
        std::fs::hard_link(tree.join("4"), tree.join("a/b/5")).unwrap();
    });
    let names = |paths: &[&str]| {
        let mut names = listed(&archive(&image, paths), scratch.path());
        names.sort();
        names
    };
    assert_eq!(names(&["a/b"]), ["a/b/", "a/b/2", "a/b/5", "a/b/c/", "a/b/c/3"]);
    assert_eq!(
        names(&["/a/b/c/3", "a/b/", "./4"]),
        ["4", "a/b/", "a/b/2", "a/b/5", "a/b/c/", "a/b/c/3"]
    );
    assert_eq!(names(&["/"]), names(&[]));
    assert_eq!(names(&[])[0], "./");
    let missing = tar(&image, &["a/x"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("a/x: there is no such file"));
}

#[test]
fn what_tar_fields_do_not_hold_survives() {
    if !is_here("mke2fs") {
        return;
    }
    let scratch = Scratch::new("tar-odd");
    let long = "n".repeat(255);
    let image = image_of(&scratch, &["-t", "ext4", "-b", "1024"], |tree| {
        let deep = tree.join(&long).join(&long);
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join(OsStr::from_bytes(b"\xff\xfe x")), "odd").unwrap();
        std::os::unix::fs::symlink("t".repeat(900), tree.join("far")).unwrap();
        let holes = std::fs::File::create(tree.join("holes")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&holes, b"data", 1 << 20).unwrap();
        holes.set_len(3 << 30).unwrap();
        std::fs::File::create(tree.join("only-hole")).unwrap().set_len(5 << 20).unwrap();
    });
    let bytes = archive(&image, &[]);
    assert!(bytes.len() < 100 << 10, "{} bytes: holes were written", bytes.len());
    let file = scratch.path().join("a.tar");
    std::fs::write(&file, &bytes).unwrap();
    let collected = read(&file);
    let nodes = by_path(&collected.tree);
    let odd = Path::new(&long).join(&long).join(OsStr::from_bytes(b"\xff\xfe x"));
    assert_eq!(collected.tree.length(nodes[&odd]), 3);
    assert_eq!(collected.tree.target(nodes[Path::new("far")]), "t".repeat(900).as_bytes());
    let holes = nodes[Path::new("holes")];
    let data: Vec<_> =
        collected.tree.data_segments(holes).map(|piece| (piece.offset, piece.length)).collect();
    assert_eq!((collected.tree.length(holes), data), (3 << 30, vec![(1 << 20, 1024)]));
    assert_eq!(collected.tree.length(nodes[Path::new("only-hole")]), 5 << 20);
    let out = scratch.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let restored = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&out).output().unwrap();
    assert!(
        restored.status.success() && restored.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&restored.stderr)
    );
    assert_eq!(std::fs::read(out.join(&odd)).unwrap(), b"odd");
    assert_eq!(std::fs::metadata(out.join("holes")).unwrap().len(), 3 << 30);
}

/// Runs under a limit of time and memory; a panic, a hang or a crash fails.
fn survives(image: &Path, name: &str) {
    for more in [&[][..], &["--keep-going"]] {
        let output = Command::new("timeout")
            .args(["180", "prlimit", "--as=1500000000", "--"])
            .arg(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")))
            .args(["tar", "-o", "/dev/null"])
            .arg(image)
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{name} {more:?}: {}: {said}",
            output.status
        );
        assert!(!said.contains("panicked"), "{name}: {said}");
        let is_silent = output.status.code() == Some(1) && said.is_empty();
        assert!(!is_silent, "{name}: fails without a word");
    }
}

#[test]
fn damaged_images_are_survived() {
    let corpus = extant_testkit::repository().join("../shared/corpus");
    let Ok(folder) = std::fs::read_dir(&corpus) else {
        return skip_known(Known::Collections, "no corpus of damaged images");
    };
    let scratch = Scratch::new("tar-damaged");
    let image = scratch.path().join("x.img");
    let packed = folder.flatten().map(|entry| entry.path());
    for packed in packed.step_by(number("EXTANT_CASES") as usize) {
        let name = packed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(bytes) = unpacked(&packed).filter(|_| name.ends_with(".img.gz")) else {
            continue;
        };
        std::fs::write(&image, bytes).unwrap();
        survives(&image, &name);
    }
}

fn unpacked(path: &Path) -> Option<Vec<u8>> {
    let output = Command::new("gzip").arg("-dc").arg(path).output().ok()?;
    output.status.success().then_some(output.stdout)
}

#[test]
fn flipped_bytes_are_survived() {
    if !is_here("mke2fs") {
        return;
    }
    // Without checksums, so that nonsense is not met at the door.
    for words in
        [&["-t", "ext4", "-b", "1024", "-O", "^metadata_csum"][..], &["-t", "ext2", "-b", "1024"]]
    {
        let scratch = Scratch::new("tar-flipped");
        let image = image_of(&scratch, words, |tree| {
            for number in 0..40 {
                let folder = tree.join(format!("d{number}"));
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join("f"), vec![number; 1000 * usize::from(number)]).unwrap();
                std::os::unix::fs::symlink("x".repeat(70), folder.join("s")).unwrap();
            }
        });
        let sound = std::fs::read(&image).unwrap();
        let used: Vec<usize> = (1024..sound.len())
            .step_by(128)
            .filter(|at| sound[*at..at + 128].iter().any(|byte| *byte != 0))
            .collect();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        for round in 0..40 {
            let mut bytes = sound.clone();
            for _ in 0..30 {
                let at = used[next() % used.len()] + next() % 128;
                bytes[at] = next() as u8;
            }
            std::fs::write(&image, &bytes).unwrap();
            survives(&image, &format!("round {round}"));
        }
    }
}

#[test]
fn an_archive_of_an_image_builds_the_same_image() {
    let scratch = Scratch::new("tar-round");
    let Some(made) = make("ext4-b1024-i256", scratch.path()) else {
        return;
    };
    let in_scratch = |name: &str| scratch.path().join(name);
    // Blocks as large as those of the fixture, in which its holes are counted.
    let build = |kind: &str, source: &Path, image: &Path| {
        let words = ["build", "-q", "-F", "-b", "1024", "-t", kind].map(OsStr::new);
        let words: Vec<&OsStr> =
            words.into_iter().chain([source.as_os_str(), image.as_os_str()]).collect();
        let output = extant(&words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // What the kernel filled holds sockets, and traces of a life: what we build of it is the one to
    // come back to.
    let (first, again, second) = (in_scratch("1.tar"), in_scratch("2.tar"), in_scratch("2.img"));
    std::fs::write(&first, archive(&made.image, &[])).unwrap();
    for kind in ["ext2", "ext4"] {
        let image = in_scratch(&format!("{kind}.img"));
        build(kind, &first, &image);
        std::fs::write(&again, archive(&image, &[])).unwrap();
        build(kind, &again, &second);
        assert!(
            std::fs::read(&image).unwrap() == std::fs::read(&second).unwrap(),
            "{kind}: another image"
        );
    }
}
