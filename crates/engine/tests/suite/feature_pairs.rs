//! Features two at a time, as mke2fs takes them: a small life of ours on each such volume, which
//! e2fsck finds nothing to say of, and which reads back.
use extant_block::file::Access as DeviceAccess;
use extant_block::{FileDevice, RealClock};
use extant_engine::{
    Access, Change, DataKeeping, ErrorKind, Filesystem, Options, Rename, Result, SetAttribute,
};
use extant_format::superblock::Feature;
use extant_testkit::command::program;
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

/// Words for `mke2fs -O`.
const FEATURES: [&str; 16] = [
    "inline_data",
    "ea_inode",
    "quota",
    "project",
    "mmp",
    "large_dir",
    "meta_bg,^resize_inode",
    "sparse_super2",
    "stable_inodes",
    "encrypt",
    "verity",
    "casefold",
    "^64bit",
    "^metadata_csum",
    "uninit_bg,^metadata_csum",
    "orphan_file",
];

/// Sizes around what an inode of 256 bytes holds.
const SIZES: [usize; 7] = [0, 40, 60, 100, 150, 170, 3000];
const BLOCK: usize = 1024;

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 + 1).collect()
}

fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("folder")).expect("makes it");
    for size in SIZES {
        std::fs::write(root.join(format!("file-{size}")), content(size)).expect("writes");
    }
    std::fs::write(root.join("folder/name"), b"in a folder").expect("writes");
    symlink("t".repeat(90), root.join("link")).expect("links");
}

/// A volume with both, or what mke2fs says.
fn make(image: &Path, tree: &Path, features: &str) -> std::result::Result<(), String> {
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-g", "2048", "-I", "256", "-N", "256"]);
    mke2fs.args(["-E", "hash_seed=6b8b4567-327b-23c6-643c-986966334873"]);
    mke2fs.args(["-O", features, "-d"]).arg(tree).arg(image).arg("12M");
    let output = mke2fs.output().expect("mke2fs runs");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn open(image: &Path, access: Access) -> Result<Filesystem> {
    let device = FileDevice::open(RealClock::new(), image, DeviceAccess::ReadWrite, 0);
    let options = Options {
        access,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 8 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::new(device.expect("the image opens")), &options)
}

fn set(volume: &Filesystem, path: &str, name: &[u8], length: usize) -> Result<()> {
    volume.set_attribute(path, name, &content(length), SetAttribute::Any)
}

/// Makes, grows, renames, links, removes.
fn live(volume: &Filesystem) -> Result<()> {
    let has = |feature| volume.superblock().has(feature);
    volume.create_dir("/new", 0o755)?;
    for size in SIZES {
        let path = format!("/file-{size}");
        match size % 3 {
            0 => volume.open_file(&path)?.write_all_at(size as u64, &content(200))?,
            1 => volume.rename(&path, format!("/folder/moved-{size}"), Rename::Replace)?,
            _ => volume.remove_file(&path)?,
        }
    }
    volume.hard_link("/folder/name", "/second")?;
    volume.rename("/second", "/new/second", Rename::Replace)?;
    for number in 0..60 {
        volume.write(format!("/folder/a rather long name, of number {number}"), b"content")?;
    }
    for number in (0..60).step_by(3) {
        volume.remove_file(format!("/folder/a rather long name, of number {number}"))?;
    }
    match set(volume, "/link", b"trusted.small", 30) {
        Err(error) if matches!(error.kind, ErrorKind::AttributesTooLarge) => {
            assert!(has(Feature::INLINE_DATA), "only beside a target in the inode");
        }
        outcome => outcome?,
    }
    set(volume, "/file-60", b"user.small", 30)?;
    set(volume, "/file-60", b"user.medium", 700)?;
    set(volume, "/file-60", b"trusted.gone", 30)?;
    volume.remove_attribute("/file-60", b"trusted.gone")?;
    match set(volume, "/file-60", b"user.large", 3 * BLOCK) {
        Err(error) if matches!(error.kind, ErrorKind::AttributesTooLarge) => {
            assert!(!has(Feature::EA_INODE), "a value has no inode");
        }
        outcome => outcome?,
    }
    if has(Feature::EA_INODE) {
        set(volume, "/new", b"user.large", 9 * BLOCK)?;
        set(volume, "/new", b"user.large", 2 * BLOCK)?;
        set(volume, "/folder/name", b"user.large", 2 * BLOCK)?;
        volume.remove_file("/folder/name")?;
        volume.remove_attribute("/new/second", b"user.large")?;
    }
    let owner = Change { uid: Some(1000), gid: Some(77_777), ..Change::default() };
    volume.change("/file-60", &owner)?;
    if has(Feature::PROJECT) {
        volume.inodes().set_project(&volume.inode("/file-60")?, 5)?;
    }
    volume.open_file("/file-3000")?.set_len(50)
}

fn examine(volume: &Filesystem) {
    let read = |path: &str| volume.read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(read("/file-60") == [content(60), content(200)].concat());
    assert!(read("/file-3000") == content(50));
    assert!(read("/folder/moved-40") == content(40));
    assert_eq!(read("/new/second"), b"in a folder");
    let names = volume.read_dir("/folder").expect("lists").len();
    assert_eq!(names, 43 - usize::from(volume.superblock().has(Feature::EA_INODE)));
    assert_eq!(volume.read_link("/link").expect("reads").len(), 90);
    for attribute in volume.attributes("/file-60").expect("reads") {
        assert!(attribute.value == content(attribute.value.len()));
    }
}

/// The life on a volume with both features. `false` if mke2fs makes none.
fn judge(folder: &Scratch, (first, second): (&str, &str)) -> bool {
    let image = folder.join(&format!("{first} {second}.img"));
    let features = format!("{first},{second}");
    if make(&image, &folder.join("tree"), &features).is_err() {
        return false;
    }
    if features.contains("quota") {
        // mke2fs counts before it copies.
        let _ = program("e2fsck").arg("-fy").arg(&image).output().expect("e2fsck runs");
    }
    let open = |access| open(&image, access);
    if features.contains("casefold") {
        let error = open(Access::ReadWrite).map(drop).expect_err("it is only read");
        assert!(matches!(error.kind, ErrorKind::NotWritten(_)), "{features}: {error}");
        let volume = open(Access::ReadOnly).unwrap_or_else(|error| panic!("{features}: {error}"));
        assert!(volume.read("/file-150").expect("reads") == content(150), "{features}");
    } else {
        let volume = open(Access::ReadWrite).unwrap_or_else(|error| panic!("{features}: {error}"));
        live(&volume).unwrap_or_else(|error| panic!("{features}: {error}"));
        examine(&volume);
        volume.close().unwrap_or_else(|error| panic!("{features}: {error}"));
        oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{features}: {said}"));
        let again = open(Access::ReadWrite).unwrap_or_else(|error| panic!("{features}: {error}"));
        examine(&again);
        again.close().expect("closes");
    }
    std::fs::remove_file(&image).expect("removes");
    true
}

#[test]
fn features_two_at_a_time_are_written_and_judged() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::new("pairs");
    fill(&folder.join("tree"));
    let one_in = number("EXTANT_CASES") as usize;
    let pairs = (0..FEATURES.len())
        .flat_map(|first| (0..first).map(move |second| (FEATURES[first], FEATURES[second])))
        .step_by(one_in);
    let (held, others): (Vec<_>, Vec<_>) =
        pairs.partition(|(first, second)| [*first, *second].contains(&"mmp"));
    // A volume that others may have is looked at for a second: all of these at once.
    let judged = std::thread::scope(|scope| {
        let waiting: Vec<_> =
            held.iter().map(|pair| scope.spawn(|| judge(&folder, *pair))).collect();
        let judged = others.iter().filter(|pair| judge(&folder, **pair)).count();
        let waited = waiting.into_iter().map(|thread| thread.join().expect("it said why"));
        judged + waited.filter(|judged| *judged).count()
    });
    println!("{judged} pairs");
    assert!(judged * one_in > 100, "{judged} pairs");
}
