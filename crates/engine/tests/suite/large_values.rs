//! Volumes with `ea_inode`: values too large for inode and block are set, replaced and removed, and
//! are as the kernel has them. e2fsck counts the references, the blocks and the quotas.
use crate::volume::image::{judge_content, open, open_as};
use crate::volume::{MIB, Random, Specification, judge, reading};

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{Access, Change, ErrorKind, Filesystem, Rename, SetAttribute};
use extant_sim::CrashLog;
use extant_testkit::command::run;
use extant_testkit::oracle::{self, debugfs, mount_loop, require};
use extant_testkit::scratch::Scratch;
use rustix::fs::{XattrFlags, setxattr};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn specification(
    profile: Profile,
    block_size: u32,
    features: &'static str,
    policies: &'static str,
) -> Specification {
    Specification { features, policies, ..Specification::new(profile, block_size, 16 * MIB) }
}

fn rows() -> Vec<Specification> {
    vec![
        specification(Profile::Ext4, 1024, "ea_inode", "modern"),
        specification(Profile::Ext4, 4096, "ea_inode,quota,project", "modern"),
        specification(Profile::Ext4, 2048, "ea_inode,orphan_file,^metadata_csum", "modern"),
        specification(Profile::Ext3, 1024, "ea_inode,ext_attr", "modern"),
        specification(Profile::Ext4, 4096, "ea_inode,^has_journal", "modern"),
        specification(Profile::Ext4, 1024, "ea_inode,quota", "modern,journal=data"),
        specification(Profile::Ext4, 1024, "ea_inode", "modern,journal=ordered-jbd"),
        Specification {
            inode_size: 128,
            ..specification(Profile::Ext2, 1024, "ea_inode,quota", "linux-2.4")
        },
        specification(Profile::Ext2, 4096, "ea_inode,quota", "freebsd-5.2"),
    ]
}

/// A value that differs from others of its length.
fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

fn set(volume: &Filesystem, path: &str, name: &str, value: &[u8]) -> extant_engine::Result<()> {
    volume.set_attribute(path, name.as_bytes(), value, SetAttribute::Any)
}

/// What a file has, by name.
type Attributes = BTreeMap<String, Vec<u8>>;

fn attributes(volume: &Filesystem, path: &str) -> Attributes {
    let list = volume.attributes(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = |name: Vec<u8>| String::from_utf8(name).expect("text");
    list.into_iter().map(|attribute| (text(attribute.name), attribute.value)).collect()
}

fn can_mount(block_size: u32) -> bool {
    oracle::can_mount() && oracle::kernel_mounts_block_size(block_size)
}

fn read_only(image: &Path) -> Filesystem {
    open_as(image, "modern", Access::ReadOnly)
}

fn judged(device: &MemoryDevice, specification: &Specification, what: &str) {
    judge(device).unwrap_or_else(|said| panic!("{specification}, {what}: {said}"));
}

#[test]
fn values_are_set_replaced_and_removed_as_the_kernel_has_them() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("large-values");
    for specification in rows() {
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let before = volume.statfs();
        for (number, length) in [0, 40, 900, 1100, 5000, 20_000, 65_536].into_iter().enumerate() {
            let path = format!("/{length}");
            volume.write(&path, b"content").expect("a file");
            set(&volume, &path, "user.x", &value(number as u64, length)).expect("is set");
            set(&volume, &path, "user.small", b"1").expect("is set");
        }
        volume.create_dir("/folder", 0o755).expect("a directory");
        volume.symlink("target", "/link").expect("a symlink");
        set(&volume, "/folder", "trusted.a", &value(20, 7000)).expect("is set");
        set(&volume, "/folder", "trusted.b", &value(21, 900)).expect("is set");
        set(&volume, "/link", "trusted.l", &value(22, 7000)).expect("is set");
        let error = set(&volume, "/0", "user.x", &vec![1; 65_537]).expect_err("too large");
        assert!(matches!(error.kind, ErrorKind::ValueTooLong), "{error}");
        assert!(error.errno() == 7 && error.to_string().contains("65,536"), "{error}");
        volume.close().expect("closes");
        judged(&device, &specification, "set");
        let image = folder.join("image");
        if can_mount(specification.block_size) {
            device.save(&image).expect("is saved");
            judge_content(&image, &specification.to_string());
        }

        let volume = specification.open(&device).expect("opens");
        set(&volume, "/65536", "user.x", &value(30, 3000)).expect("is replaced");
        set(&volume, "/5000", "user.x", &value(31, 65_000)).expect("is replaced");
        set(&volume, "/20000", "user.x", b"tiny").expect("is replaced");
        set(&volume, "/1100", "user.y", &value(32, 65_000)).expect("is set");
        volume.remove_attribute("/900", b"user.x").expect("is removed");
        volume.remove_attribute("/folder", b"trusted.a").expect("is removed");
        let owner = Change { uid: Some(7), gid: Some(8), ..Change::default() };
        volume.change("/5000", &owner).expect("changes hands");
        assert_eq!(attributes(&volume, "/5000")["user.x"], value(31, 65_000));
        volume.close().expect("closes");
        judged(&device, &specification, "replaced");
        if can_mount(specification.block_size) {
            device.save(&image).expect("is saved");
            judge_content(&image, &specification.to_string());
        }

        let volume = specification.open(&device).expect("opens");
        for length in [0, 40, 900, 1100, 5000, 20_000, 65_536] {
            volume.remove_file(format!("/{length}")).expect("is removed");
        }
        volume.remove_dir("/folder").expect("is removed");
        volume.remove_file("/link").expect("is removed");
        volume.sync().expect("syncs");
        let after = volume.statfs();
        assert_eq!(
            (after.free_inodes, after.free_blocks),
            (before.free_inodes, before.free_blocks),
            "{specification}"
        );
        volume.close().expect("closes");
        judged(&device, &specification, "removed");
    }
}

/// One change of a volume and of a model of it.
fn step(
    volume: &Filesystem,
    model: &mut BTreeMap<String, Attributes>,
    random: &mut Random,
) -> extant_engine::Result<()> {
    let path = format!("/d{}/f{}", random.below(2), random.below(12));
    let name = format!("user.{}", random.below(5));
    let length = *random.pick(&[3, 60, 400, 900, 2500, 9000, 30_000]) as usize;
    let value = value(random.below(6), length);
    match random.below(14) {
        0..2 if !model.contains_key(&path) => {
            volume.write(&path, &vec![b'q'; random.below(20_000) as usize])?;
            model.insert(path, Attributes::new());
        }
        2 if model.contains_key(&path) => {
            volume.remove_file(&path)?;
            model.remove(&path);
        }
        3 if model.contains_key(&path) => {
            let to = format!("/d{}/f{}", random.below(2), random.below(12));
            volume.rename(&path, &to, Rename::Replace)?;
            if let Some(moved) = model.remove(&path) {
                model.insert(to, moved);
            }
        }
        4 if model.contains_key(&path) => {
            // Freed when it is closed, with its values.
            let file = volume.open_file(&path)?;
            volume.remove_file(&path)?;
            model.remove(&path);
            file.write_all_at(5_000, b"nobody sees this")?;
        }
        5 if model.contains_key(&path) => {
            let owner = Change {
                uid: Some(random.below(3) as u32),
                gid: Some(random.below(300) as u32),
                ..Change::default()
            };
            volume.change(&path, &owner)?;
        }
        6 => volume.sync()?,
        7..9 => {
            let Some(known) = model.get_mut(&path) else { return Ok(()) };
            if known.remove(&name).is_some() {
                volume.remove_attribute(&path, name.as_bytes())?;
            }
        }
        _ => {
            let Some(known) = model.get_mut(&path) else { return Ok(()) };
            match set(volume, &path, &name, &value) {
                Ok(()) => drop(known.insert(name, value)),
                Err(error) if matches!(error.kind, ErrorKind::AttributesTooLarge) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn agrees(volume: &Filesystem, model: &BTreeMap<String, Attributes>, what: &str) {
    for (path, known) in model {
        assert!(attributes(volume, path) == *known, "{what}: {path}");
    }
}

fn directories(volume: &Filesystem) {
    for number in 0..2 {
        volume.create_dir(format!("/d{number}"), 0o755).expect("a directory");
    }
}

#[test]
fn a_life_of_large_values_is_that_of_a_model() {
    if !require("e2fsck") {
        return;
    }
    for (seed, specification) in (1..).zip(rows()) {
        let mut random = Random::new(seed);
        let mut model = BTreeMap::new();
        let device = specification.make(RealClock::new());
        for round in 0..3 {
            let volume = specification.open(&device).expect("opens");
            if round == 0 {
                directories(&volume);
            }
            for _ in 0..120 {
                step(&volume, &mut model, &mut random)
                    .unwrap_or_else(|error| panic!("{specification}: {error}"));
            }
            agrees(&volume, &model, "open");
            volume.close().expect("closes");
            judged(&device, &specification, "lived");
            let volume = specification.open(&device).expect("opens");
            agrees(&volume, &model, "opened again");
            volume.close().expect("closes");
        }
    }
}

#[test]
fn a_power_cut_leaves_each_value_as_it_was_or_is() {
    if !require("e2fsck") {
        return;
    }
    for (seed, specification) in (50..).zip(rows()) {
        if specification.features.contains("^has_journal") || specification.profile == Profile::Ext2
        {
            continue;
        }
        let mut random = Random::new(seed);
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        directories(&volume);
        volume.close().expect("closes");
        let base = device.snapshot();
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let logged = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(logged, &specification.options()).expect("opens");
        let mut model = BTreeMap::new();
        for _ in 0..130 {
            step(&volume, &mut model, &mut random).expect("is changed");
        }
        let _ = volume.sync();
        for number in 0..12 {
            let moment = match number {
                0 => log.moments(),
                _ => random.below(log.moments() as u64 + 1) as usize,
            };
            let medium = log.cut(moment).subset(&base, 512, random.next());
            let medium = Arc::new(medium.expect("a medium"));
            let volume = specification.open(&medium).expect("recovers");
            if number == 0 {
                agrees(&volume, &model, "synced");
            }
            for entry in reading::entries(&volume).expect("every value is whole") {
                assert!(entry.attributes.len() <= 6, "{entry:?}");
            }
            volume.close().expect("closes");
            judged(&medium, &specification, &format!("moment {moment}"));
        }
    }
}

#[test]
fn values_that_the_kernel_set_are_replaced_and_removed() {
    if !["mke2fs", "e2fsck", "debugfs"].iter().all(|tool| require(tool)) || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("their-values");
    let image = folder.join("image");
    let path = image.display().to_string();
    for features in ["ea_inode", "ea_inode,^metadata_csum,^extent,^64bit,^flex_bg"] {
        let words = ["-q", "-F", "-t", "ext4", "-b", "4096", "-O", features, &path, "32M"];
        run("mke2fs", &words).expect("mke2fs makes it");
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounts");
        let theirs = |file: &str, name: &str, value: &[u8]| {
            let path = mounted.path().join(file);
            if !path.exists() {
                std::fs::write(&path, b"content").expect("writes");
            }
            setxattr(&path, name, value, XattrFlags::empty()).expect("sets it");
        };
        // Equal values share an inode, and equal lists a block.
        for file in ["one", "two", "three", "four", "five"] {
            theirs(file, "user.x", &value(1, 30_000));
            theirs(file, "user.y", &value(2, 9_000));
            theirs(file, "user.z", &value(3, 300));
            theirs(file, &format!("user.{}", "w".repeat(120)), &value(4, 9_000));
        }
        for number in 0..12 {
            theirs("many", &format!("user.{number}"), &value(number, 10_000));
        }
        mounted.unmount().expect("unmounts");
        oracle::e2fsck(&image).expect("is whole");

        let volume = open(&image, "modern");
        let before = attributes(&volume, "/two");
        assert_eq!((before.len(), attributes(&volume, "/many").len()), (4, 12));
        volume.remove_file("/one").expect("is removed");
        set(&volume, "/two", "user.x", &value(5, 40_000)).expect("is replaced");
        set(&volume, "/three", "user.a", b"small").expect("is set");
        volume.remove_attribute("/four", b"user.y").expect("is removed");
        for number in (0..12).step_by(2) {
            set(&volume, "/many", &format!("user.{number}"), b"small").expect("is replaced");
        }
        volume.change("/five", &Change { uid: Some(9), ..Change::default() }).expect("is owned");
        let expect = |volume: &Filesystem| {
            let mut expected = before.clone();
            assert_eq!(attributes(volume, "/five"), expected);
            expected.insert("user.x".into(), value(5, 40_000));
            assert_eq!(attributes(volume, "/two"), expected);
            assert_eq!(attributes(volume, "/three")["user.y"], value(2, 9_000));
            assert_eq!(attributes(volume, "/four")["user.x"], value(1, 30_000));
            assert_eq!(attributes(volume, "/many")["user.1"], value(1, 10_000));
        };
        expect(&volume);
        volume.close().expect("closes");
        oracle::e2fsck(&image).expect("is whole");
        let volume = read_only(&image);
        expect(&volume);
        judge_content(&image, features);
        drop(volume);

        // And the kernel goes on with ours.
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounts");
        setxattr(mounted.path().join("two"), "user.x", &value(6, 20_000), XattrFlags::empty())
            .expect("is replaced");
        std::fs::remove_file(mounted.path().join("many")).expect("is removed");
        mounted.unmount().expect("unmounts");
        oracle::e2fsck(&image).expect("is whole");
        assert_eq!(attributes(&read_only(&image), "/two")["user.x"], value(6, 20_000));
    }
}

#[test]
fn the_inode_of_a_value_is_no_file() {
    if !["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let specification = specification(Profile::Ext4, 1024, "ea_inode", "modern");
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.write("/file", b"content").expect("a file");
    set(&volume, "/file", "user.x", &value(1, 5000)).expect("is set");
    let ino = volume.metadata("/file").expect("is there").ino.0 + 1;
    volume.close().expect("closes");
    let folder = Scratch::new("no-file");
    let image = folder.join("image");
    device.save(&image).expect("is saved");
    let stat = debugfs(&image, &format!("stat <{ino}>")).expect("stat");
    assert!(stat.contains("Flags: 0x280000"), "{stat}");
    let path = image.display().to_string();
    let link = format!("link <{ino}> /name");
    run("debugfs", &["-w", "-R", &link, &path]).expect("is linked");
    let volume = open(&image, "modern");
    for error in [
        volume.metadata("/name").map(drop).expect_err("it is no file"),
        volume.remove_file("/name").expect_err("it is no file"),
        volume.write("/name", b"x").expect_err("it is no file"),
    ] {
        assert!(matches!(error.kind, ErrorKind::Corrupt(_)), "{error}");
        assert!(error.to_string().contains("value"), "{error}");
    }
    assert_eq!(attributes(&volume, "/file")["user.x"], value(1, 5000));
    volume.close().expect("closes");
}

/// What goes from a block that is there needs no room.
#[test]
fn attributes_go_from_a_full_volume() {
    let specification = specification(Profile::Ext4, 4096, "ea_inode", "modern");
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.write("/file", b"content").expect("writes");
    for name in ["user.one", "user.two"] {
        set(&volume, "/file", name, &value(1, 900)).expect("sets it");
    }
    volume.sync().expect("syncs");
    for (number, length) in [(1, 1 << 20), (2, 4096)] {
        for at in 0.. {
            if volume.write(format!("/fill{number}.{at}"), &vec![1; length]).is_err() {
                break;
            }
        }
    }
    assert!(volume.statfs().free_blocks < 2, "it is full");
    volume.remove_attribute("/file", b"user.one").expect("removes");
    set(&volume, "/file", "user.two", b"shorter").expect("shortens");
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
}
