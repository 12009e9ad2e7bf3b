//! Each feature that is read: volumes that have it are read as the kernel reads them, entry by
//! entry, in the order of readdir, with the same free space. What is not written is refused by name
//! when it is opened to be written. What inodes with `inline_data` hold has tests of its own.
use crate::volume::reading;

use extant_block::file::Access as DeviceAccess;
use extant_block::{BlockDevice, FileDevice, RealClock};
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options, read_superblock};
use extant_format::superblock::{Feature, Features, Superblock};
use extant_testkit::command::{output, program};
use extant_testkit::compare;
use extant_testkit::oracle::{self, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::{Entry, walk};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

/// A volume: words for mke2fs, its size, and what debugfs sets before it is filled, and after.
struct Row {
    words: &'static str,
    size: &'static str,
    before: &'static str,
    after: &'static str,
}

const fn row(words: &'static str, size: &'static str) -> Row {
    Row { words, size, before: "", after: "" }
}

const ROWS: [Row; 24] = [
    Row { before: "feature dir_prealloc", ..row("-t ext4 -O uninit_bg,^metadata_csum", "16M") },
    row("-t ext4 -O metadata_csum_seed,fast_commit,orphan_file,project", "16M"),
    row("-t ext4 -b 1024 -g 512 -O meta_bg,^resize_inode", "40M"),
    row("-t ext4 -b 1024 -g 512 -O meta_bg,^resize_inode,64bit,^flex_bg", "40M"),
    row("-t ext2 -b 1024 -g 512 -O meta_bg,^resize_inode,^sparse_super", "40M"),
    row("-t ext4 -O sparse_super2", "200M"),
    row("-t ext4 -b 4096 -O bigalloc -C 65536", "64M"),
    row("-t ext4 -b 1024 -O bigalloc -C 16384", "64M"),
    row("-t ext4 -b 1024 -O bigalloc,meta_bg,^resize_inode -C 4096", "300M"),
    row("-t ext4 -O quota", "16M"),
    row("-t ext4 -O quota,project -E quotatype=usrquota:grpquota:prjquota", "16M"),
    row("-t ext4 -O mmp", "16M"),
    row("-t ext4 -O large_dir,ea_inode,stable_inodes", "16M"),
    row("-t ext4 -O verity,encrypt,casefold", "16M"),
    row("-t ext4 -o hurd -O ^64bit,^huge_file,^metadata_csum", "16M"),
    row("-t ext2 -r 0 -O none", "16M"),
    row("-t ext4 -b 1024 -I 1024", "16M"),
    row("-t ext4 -b 4096 -I 4096 -N 500", "16M"),
    Row { before: "ssv def_hash_version legacy", ..row("-t ext4 -b 1024", "16M") },
    Row { before: "ssv def_hash_version tea\nssv flags 2", ..row("-t ext4 -b 1024", "16M") },
    Row { before: "ssv def_hash_version half_md4\nssv flags 2", ..row("-t ext3 -b 1024", "16M") },
    Row { after: "feature read-only shared_blocks", ..row("-t ext4 -O ^has_journal", "16M") },
    Row { after: "feature imagic_inodes", ..row("-t ext4", "16M") },
    // The kernel stops at what is unknown, but not where nobody has to know it.
    Row { after: "feature FEATURE_C20", ..row("-t ext4", "16M") },
];

/// Features that no row has: those of a moment, of contents, and of devices that are no volume.
const ELSEWHERE: [Feature; 4] =
    [Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT, Feature::INLINE_DATA, Feature::JOURNAL_DEV];

fn device(image: &Path, access: DeviceAccess) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(RealClock::new(), image, access, 0).expect("the image opens"))
}

fn open(device: Arc<dyn BlockDevice>, access: Access) -> extant_engine::Result<Filesystem> {
    let policies = "modern".parse().expect("policies");
    let options = Options { access, policies, cache_bytes: 24 << 20, data: DataKeeping::Bytes };
    Filesystem::open(device, &options)
}

/// A small tree: a directory with an index, whose names have characters of both signs, files of
/// many sizes, holes, symlinks.
fn populate(root: &Path) -> io::Result<()> {
    let many = root.join("many");
    fs::create_dir(&many)?;
    for number in 0..300_u32 {
        let mut name = format!("{number:04}-{}", "n".repeat(number as usize % 90)).into_bytes();
        name.extend([0xe4, 0x80 | (number % 64) as u8]);
        fs::write(many.join(std::ffi::OsStr::from_bytes(&name)), vec![b'm'; number as usize % 90])?;
    }
    fs::create_dir_all(root.join("tree/of/some/depth"))?;
    for size in [0, 1, 60, 1024, 4097, 70_000, 900_000] {
        fs::write(root.join(format!("tree/size-{size}")), vec![b's'; size])?;
    }
    for length in [1, 59, 60, 500] {
        std::os::unix::fs::symlink("t".repeat(length), root.join(format!("tree/link-{length}")))?;
    }
    fs::hard_link(root.join("tree/size-1"), root.join("hard"))?;
    let sparse = fs::File::create(root.join("sparse"))?;
    for at in [0, 100_000, 3_000_000] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"fragment", at)?;
    }
    sparse.set_len(5_000_000)
}

fn set(image: &Path, commands: &str) {
    for command in commands.lines() {
        let told = output(program("debugfs").arg("-w").arg("-R").arg(command).arg(image));
        told.unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

/// Makes the volume of a row and has the kernel fill it; one that this kernel does not write, as
/// it may be built without quotas or case folding, mke2fs fills with the tree at `source`.
fn make(row: &Row, image: &Path, source: &Path) {
    let mke2fs = |more: &[&Path]| {
        let _ = fs::remove_file(image);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(row.words.split(' ')).args(more).arg(image).arg(row.size);
        output(&mut mke2fs).unwrap_or_else(|error| panic!("{}: {error}", row.words));
        set(image, row.before);
    };
    mke2fs(&[]);
    match mount_loop(image, oracle::Access::ReadWrite, "") {
        Ok(mounted) => {
            populate(mounted.path()).expect("it is filled");
            mounted.unmount().expect("nothing is open");
        }
        Err(_) => {
            mke2fs(&[Path::new("-d"), source]);
            if row.words.contains("quota") {
                // mke2fs counts what everybody has before it copies; it is counted again.
                let _ = program("e2fsck").arg("-fy").arg(image).output().expect("e2fsck runs");
            }
        }
    }
    set(image, row.after);
}

/// What the kernel sees and the engine does not, or otherwise. A volume that this kernel does not
/// even read is compared with the tree at `source`, from which mke2fs copied it.
fn differences(image: &Path, source: Option<&Path>) -> Vec<String> {
    let volume = open(device(image, DeviceAccess::ReadOnly), Access::ReadOnly);
    let volume = match volume {
        Ok(volume) => volume,
        Err(error) => return vec![error.to_string()],
    };
    let options = compare::Options::same_image();
    let ours = reading::entries(&volume).expect("it is read");
    let Ok(mounted) = mount_loop(image, oracle::Access::ReadOnly, "") else {
        let Some(source) = source else { return Vec::new() };
        let options = compare::Options::copy().without("lost+found");
        let theirs = walk(source, options.depth(), &BTreeSet::new()).expect("a walk");
        let is_inside = |entry: &&Entry| !entry.path.as_os_str().is_empty();
        let inside = |all: Vec<Entry>| all.iter().filter(is_inside).cloned().collect::<Vec<_>>();
        let options = compare::Options { grain: compare::Grain::Second, ..options };
        let found = compare::entries(&inside(ours), &inside(theirs), &options);
        return found.iter().map(ToString::to_string).collect();
    };
    let theirs = walk(mounted.path(), options.depth(), &BTreeSet::new()).expect("a walk");
    let mut found: Vec<String> =
        compare::entries(&ours, &theirs, &options).iter().map(ToString::to_string).collect();
    let names: Vec<Vec<u8>> = fs::read_dir(mounted.path().join("many"))
        .expect("it is there")
        .map(|entry| entry.expect("a name").file_name().into_vec())
        .collect();
    if reading::names(&volume, Path::new("many")).expect("it is listed") != names {
        found.push("/many: another order".to_owned());
    }
    let statfs = volume.statfs();
    let size = statfs.blocks - volume.overhead_blocks();
    let ours = [size, statfs.free_blocks, statfs.available_blocks, statfs.free_inodes.into()];
    let told = output(program("stat").args(["-f", "-c", "%b %f %a %d"]).arg(mounted.path()));
    let told = String::from_utf8(told.expect("stat -f works").stdout).expect("text");
    let theirs: Vec<u64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if ours != *theirs {
        found.push(format!("room: {ours:?} against {theirs:?}"));
    }
    mounted.unmount().expect("nothing is open");
    found
}

/// Files are made in groups of all kinds, a directory loses its names, and blocks are given back.
fn change(volume: &Filesystem) -> extant_engine::Result<()> {
    for number in 0..6 {
        volume.create_dir(format!("/new-{number}"), 0o755)?;
        volume.write(format!("/new-{number}/file"), &vec![number; 400_000])?;
    }
    for entry in volume.read_dir("/many")?.iter().filter(|entry| entry.name.len() > 20) {
        volume.remove_file(Path::new("/many").join(std::ffi::OsStr::from_bytes(&entry.name)))?;
    }
    volume.remove_file("/tree/size-900000")
}

#[test]
fn every_feature_is_read_as_the_kernel_reads_it_and_written_or_refused() {
    if !require("mke2fs") || !require("debugfs") || !can_mount() {
        return;
    }
    let folder = Scratch::new("features");
    let (image, source) = (folder.join("image"), folder.join("source"));
    fs::create_dir(&source).expect("a folder");
    populate(&source).expect("it is filled");
    let (mut wrong, mut seen) = (Vec::new(), Features::default());
    for row in &ROWS {
        make(row, &image, &source);
        let superblock = read_superblock(&*device(&image, DeviceAccess::ReadOnly));
        let superblock: Superblock = superblock.expect("it is read");
        superblock.features.iter().for_each(|feature| seen.set(feature));
        let found = differences(&image, Some(&source));
        let shown = |sentence: String| format!("{} {}: {sentence}", row.words, row.after);
        wrong.extend(found.into_iter().take(5).map(shown));
        let written = || fs::metadata(&image).and_then(|file| file.modified()).expect("its time");
        let before = written();
        let unwritten = superblock.features.unwritten();
        match open(device(&image, DeviceAccess::ReadWrite), Access::ReadWrite) {
            Ok(volume) => {
                change(&volume).unwrap_or_else(|error| panic!("{}: {error}", row.words));
                volume.close().expect("it is closed");
                if !unwritten.is_empty() {
                    wrong.push(shown("opened to be written".to_owned()));
                }
                // e2fsck does not check what it does not know.
                if !row.after.contains("FEATURE_")
                    && let Err(error) = oracle::e2fsck(&image)
                {
                    wrong.push(shown(error));
                }
                wrong.extend(differences(&image, None).into_iter().take(5).map(shown));
            }
            Err(error) => {
                let is_named = matches!(&error.kind, ErrorKind::NotWritten(names)
                    if *names == unwritten && !names.is_empty());
                if !is_named || written() != before {
                    wrong.push(shown(format!("refused otherwise: {error}")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for bit in (0..32).map(|shift| 1_u32 << shift) {
        for feature in [Feature::Compat(bit), Feature::Incompat(bit), Feature::RoCompat(bit)] {
            let is_known = feature.is_judged() && !ELSEWHERE.contains(&feature);
            assert!(!is_known || seen.has(feature), "no volume has {}", feature.name());
        }
    }
}

/// A directory of so many hard links, filled by the kernel, with 1 KiB blocks and names of 255
/// bytes: three of them fill a leaf.
fn wide(folder: &Scratch, names: usize) -> std::path::PathBuf {
    let image = folder.join("image");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-N", "64", "-O"]);
    output(mke2fs.arg("large_dir,^has_journal").arg(&image).arg("40M")).expect("it is made");
    let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("a mount");
    let many = mounted.path().join("many");
    fs::create_dir(&many).expect("a directory");
    fs::write(many.join(long(0)), "").expect("a file");
    for number in 1..names {
        fs::hard_link(many.join(long(0)), many.join(long(number))).expect("a name");
    }
    mounted.unmount().expect("nothing is open");
    image
}

fn long(number: usize) -> String {
    format!("{number:0>255}")
}

fn levels(image: &Path) -> String {
    let dump = oracle::debugfs(image, "htree_dump /many").expect("it has an index");
    let line = dump.lines().find_map(|line| line.trim().strip_prefix("Indirect levels: "));
    line.expect("its levels").to_owned()
}

/// All names, in the order of readdir, and some of them by the index, as the kernel has them.
fn same_names(image: &Path, names: usize) {
    let volume = open(device(image, DeviceAccess::ReadOnly), Access::ReadOnly).expect("it opens");
    let mounted = mount_loop(image, oracle::Access::ReadOnly, "").expect("a mount");
    let many = mounted.path().join("many");
    let theirs: Vec<Vec<u8>> = fs::read_dir(&many)
        .expect("it is there")
        .map(|entry| entry.expect("a name").file_name().into_vec())
        .collect();
    let ours = reading::names(&volume, Path::new("many")).expect("it is listed");
    assert!(ours == theirs && ours.len() == names, "{} and {} names", ours.len(), theirs.len());
    let file = volume.metadata(Path::new("many").join(long(0))).expect("it is there").ino;
    for number in (0..names).step_by(97) {
        let found = volume.metadata(Path::new("many").join(long(number)));
        assert_eq!(found.expect("it is there").ino, file, "{number}");
        assert!(many.join(long(number)).exists(), "{number}");
    }
    let missing = volume.metadata(Path::new("many").join(long(names)));
    assert!(matches!(missing.unwrap_err().kind, ErrorKind::NotFound));
    mounted.unmount().expect("nothing is open");
}

#[test]
fn an_index_of_three_levels_is_read_and_made() {
    if !require("mke2fs") || !require("debugfs") || !can_mount() {
        return;
    }
    let folder = Scratch::new("features-large-dir");
    let image = wide(&folder, 27_000);
    assert_eq!(levels(&image), "2");
    same_names(&image, 27_000);
    // Nearly full with two levels.
    let (before, names) = (16_000, 28_000);
    let image = wide(&folder, before);
    assert_eq!(levels(&image), "1");
    let volume = open(device(&image, DeviceAccess::ReadWrite), Access::ReadWrite).expect("opens");
    let first = Path::new("/many").join(long(0));
    for number in before..names {
        let name = Path::new("/many").join(long(number));
        volume.hard_link(&first, &name).unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    volume.close().expect("it is closed");
    assert_eq!(levels(&image), "2");
    oracle::e2fsck(&image).expect("it is sound");
    same_names(&image, names);
}

/// A block of descriptors that is lost is read from a copy (meta_bg); nothing is written then.
#[test]
fn lost_descriptors_of_meta_groups_are_read_from_their_copies() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("features-copies");
    let (image, source) = (folder.join("image"), folder.join("source"));
    fs::create_dir(&source).expect("a folder");
    populate(&source).expect("it is filled");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-g", "512", "-O"]);
    mke2fs.arg("meta_bg,^resize_inode").arg("-d").arg(&source).arg(&image).arg("40M");
    output(&mut mke2fs).expect("it is made");
    let read = || {
        let volume = open(device(&image, DeviceAccess::ReadOnly), Access::ReadOnly)?;
        reading::entries(&volume)
    };
    let before = read().expect("it is read");
    let superblock = read_superblock(&*device(&image, DeviceAccess::ReadOnly)).expect("sound");
    let (block, _) = superblock.descriptor_place(extant_format::GroupNo(0));
    let written = device(&image, DeviceAccess::ReadWrite);
    written.write(block.0 * 1024, &[0; 1024]).expect("it is lost");
    drop(written);
    assert!(read().expect("it is read") == before);
    let refused = open(device(&image, DeviceAccess::ReadWrite), Access::ReadWrite).err();
    assert!(refused.is_some_and(|error| matches!(error.kind, ErrorKind::Corrupt(_))));
}
