//! Broken images: whatever they say, reading and writing end, without a panic. Those of the shared
//! collection, and our own with bytes changed at random.
use crate::volume;

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{
    Access, Caller, DataKeeping, Filesystem, MetadataChange, New, Options, Rename, Result,
    SetAttribute, Size,
};
use extant_format::inode::FileType;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volume::{KIB, MIB, Random, Specification, patience};

/// What one image may take.
const SECONDS_MAX: u64 = 60;
const NAMES_MAX: usize = 5_000;

fn options(access: Access) -> Options {
    Options {
        access,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 4 << 20,
        data: DataKeeping::Bytes,
    }
}

fn open(device: &Arc<MemoryDevice>, access: Access) -> Result<Filesystem> {
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options(access))
}

/// Everything under some names, as far as there are not too many (a directory may be its own
/// child).
fn paths(volume: &Filesystem) -> Vec<(PathBuf, FileType)> {
    let (mut found, mut at) = (vec![(PathBuf::from("/"), FileType::Directory)], 0);
    while at < found.len() && found.len() < NAMES_MAX {
        let (path, kind) = found[at].clone();
        at += 1;
        if kind != FileType::Directory {
            continue;
        }
        for entry in volume.read_dir(&path).unwrap_or_default() {
            let name = std::ffi::OsStr::from_bytes(&entry.name);
            if let Ok(metadata) = volume.symlink_metadata(path.join(name)) {
                found.push((path.join(name), metadata.file_type));
            }
        }
    }
    found.truncate(NAMES_MAX);
    found
}

use std::os::unix::ffi::OsStrExt;

/// Reads a directory from cookies on that no listing gave.
fn read_from_cookies(volume: &Filesystem, path: &Path) {
    let inodes = volume.inodes();
    let Ok(directory) = volume.inode(path) else { return };
    for cookie in [0, 1, 2, 77, 4096, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let mut left = 200;
        let _ = inodes.read_dir_plus(&directory, cookie, &mut |_, _| {
            left -= 1;
            match left {
                0 => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            }
        });
    }
}

/// Changes by inode, for a caller who is checked.
fn change_by_inode(volume: &Filesystem, path: &Path) {
    let Ok(inode) = volume.inode(path) else { return };
    let caller = Caller { uid: 12, ..Caller::root() };
    let inodes = volume.inodes_for(&caller);
    let change = MetadataChange { permissions: Some(0o640), gid: Some(7), ..Default::default() };
    let _ = inodes.set_metadata(&inode, &change);
    let _ = inodes.create(&inode, b"made by inode", &New { umask: 0o022, ..New::default() });
    if let Ok((nameless, file)) = inodes.create_nameless(&inode, &New::default()) {
        let _ = file.write_at(0, &[9; 3000]);
        let _ = inodes.link(&nameless, &inode, b"named later");
    }
}

/// Reads all that can be read; errors are not looked at.
fn read_all(volume: &Filesystem) {
    let mut buffer = vec![0; 300_000];
    for (path, kind) in paths(volume) {
        let _ = volume.attributes(&path);
        let _ = volume.read_link(&path);
        read_from_cookies(volume, &path);
        if kind != FileType::Regular {
            continue;
        }
        let Ok(file) = volume.open_file(&path) else { continue };
        let size = file.metadata().map_or(0, |metadata| metadata.size);
        let mut at = 0;
        for _ in 0..200 {
            let Ok(Some(data)) = file.next_data(at) else { break };
            let _ = file.read_at(data.start, &mut buffer);
            at = data.end;
        }
        for at in [0, size / 2, size.saturating_sub(1000), size.saturating_add(1)] {
            let _ = file.read_at(at, &mut buffer);
        }
    }
    for group in 0..volume.superblock().group_count().min(100) {
        let _ = volume.free_runs(extant_format::GroupNo(group));
    }
}

/// Changes of every kind; errors are not looked at.
fn change_all(volume: &Filesystem, seed: u64) {
    let mut random = Random::new(seed);
    let found = paths(volume);
    for number in 0..40 {
        let _ = volume.write(format!("/new {number}"), &vec![number; usize::from(number) * 1000]);
        let _ = volume.create_dir(format!("/directory {number}"), 0o755);
        let _ = volume.symlink("s".repeat(usize::from(number) * 3), format!("/symlink {number}"));
    }
    for (path, kind) in found.iter().take(300) {
        let _ = volume.set_attribute(path, b"user.new", &[7; 200], SetAttribute::Any);
        let _ = volume.remove_attribute(path, b"user.new");
        let _ = volume.hard_link(path, format!("/link {}", random.next()));
        if *kind == FileType::Regular
            && let Ok(file) = volume.open_file(path)
        {
            let size = file.metadata().map_or(0, |metadata| metadata.size);
            let _ = file.write_at(random.below(size.max(1)), &[5; 3000]);
            let _ = file.punch_hole(random.below(size.max(1)), 20_000);
            let _ = file.allocate(random.below(1 << 20), 50_000, Size::Keep);
            let _ = file.write_at(size, &[6; 5000]);
            let _ = file.zero_range(random.below(1 << 20), 30_000, Size::Keep);
            let _ = file.insert_range(random.below(size.max(1)) & !0xffff, 1 << 16);
            let _ = file.collapse_range(random.below(size.max(1)) & !0xffff, 1 << 16);
            let _ = file.set_len(size / 2);
        }
        change_by_inode(volume, path);
    }
    let hows = [Rename::Replace, Rename::Exchange, Rename::Whiteout];
    for number in 0..60 {
        let (from, to) = (random.pick(&found), random.pick(&found));
        let to =
            if number % 2 == 0 { to.0.clone() } else { PathBuf::from(format!("/moved {number}")) };
        let _ = volume.rename(&from.0, to, *random.pick(&hows));
    }
    for (path, kind) in found.iter().rev().take(300) {
        let _ = match kind {
            FileType::Directory => volume.remove_dir(path),
            _ => volume.remove_file(path),
        };
    }
}

/// What an image is put through.
fn torture(name: &str, device: &MemoryDevice, seed: u64) -> std::result::Result<(), String> {
    let (reading, writing) = (Arc::new(device.snapshot()), Arc::new(device.snapshot()));
    patience::within(SECONDS_MAX, &format!("{name}, reading"), move || {
        if let Ok(volume) = open(&reading, Access::ReadOnly) {
            read_all(&volume);
        }
    })?;
    patience::within(SECONDS_MAX, &format!("{name}, writing"), move || {
        if let Ok(volume) = open(&writing, Access::ReadWrite) {
            change_all(&volume, seed);
            let _ = volume.close();
        }
        if let Ok(volume) = open(&writing, Access::ReadOnly) {
            read_all(&volume);
        }
    })
}

fn unpack(path: &Path) -> Option<MemoryDevice> {
    let output = extant_testkit::command::program("gzip").arg("-dc").arg(path).output().ok()?;
    Some(MemoryDevice::from_bytes(RealClock::new(), &output.stdout))
}

#[test]
fn the_images_of_the_collection_are_survived() {
    let folder = extant_testkit::repository().join("../shared/corpus");
    let Ok(listed) = std::fs::read_dir(&folder) else {
        return skip_known(Known::Collections, "no collection of broken images");
    };
    let mut images: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    images.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
    images.sort();
    let mut wrong = Vec::new();
    for path in &images {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(device) = unpack(path) else { continue };
        wrong.extend(torture(&name, &device, 1).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A volume with something of everything.
fn specimen(specification: &Specification) -> Arc<MemoryDevice> {
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let fill = || -> Result<()> {
        volume.create_dir("/d", 0o755)?;
        for number in 0..150 {
            volume.write(format!("/d/a name that takes some room {number:0>40}"), b"x")?;
        }
        let block = u64::from(specification.block_size);
        let comb = volume.create_file("/comb", 0o644)?;
        for tooth in 0..200 {
            comb.write_all_at(2 * tooth * block, b"tooth")?;
        }
        volume.write("/long", &vec![1; 400_000])?;
        volume.symlink("t".repeat(500), "/slow")?;
        volume.symlink("long", "/fast")?;
        volume.set_attribute("/long", b"user.large", &[3; 700], SetAttribute::Any)?;
        volume.set_attribute("/d", b"user.small", b"value", SetAttribute::Any)?;
        let far = volume.create_file("/far", 0o644)?;
        far.write_all_at(1 << 33, b"far").map(drop)
    };
    fill().expect("fills");
    volume.close().expect("closes");
    device
}

/// Changes some bytes of blocks that hold anything: words of the superblock's kind, small numbers,
/// or one bit.
fn spoil(device: &MemoryDevice, random: &mut Random) {
    let bytes = device.info().bytes;
    let mut block = vec![0; KIB as usize];
    for _ in 0..1 + random.below(12) {
        let offset = loop {
            // Most metadata is at the front. The superblock is spared now and then, since otherwise
            // hardly any volume would open.
            let offset = match random.below(8) {
                0 => random.below(bytes / KIB) * KIB,
                1 => KIB,
                _ => random.below(bytes / KIB / 8) * KIB,
            };
            device.read(offset, &mut block).expect("memory is read");
            if block.iter().any(|byte| *byte != 0) {
                break offset;
            }
        };
        let at = random.below(KIB / 4) as usize * 4;
        match random.below(5) {
            0 => block[at + random.below(4) as usize] ^= 1 << random.below(8),
            1 => {
                block[at..at + 4].copy_from_slice(&(random.below(bytes / KIB) as u32).to_le_bytes())
            }
            2 => block[at..at + 2].copy_from_slice(&(random.next() as u16).to_le_bytes()),
            3 => block[at..at + 4].fill(0xff),
            _ => block[at..at + 4].fill(0),
        }
        device.write(offset, &block).expect("memory is written");
    }
}

#[test]
fn changed_bytes_are_survived() {
    let rounds = variables::number("EXTANT_HOSTILE_ROUNDS");
    let first = variables::seed("EXTANT_HOSTILE_SEED", 0);
    let rows = [
        (Profile::Ext4, "^metadata_csum"),
        (Profile::Ext2, ""),
        (Profile::Ext4, "^metadata_csum,^extent,^64bit"),
    ];
    let specimens = rows.map(|(profile, features)| {
        specimen(&Specification {
            features,
            inodes: 256,
            ..Specification::new(profile, 1024, 4 * MIB)
        })
    });
    let mut wrong = Vec::new();
    for seed in first..first + rounds {
        for (row, specimen) in specimens.iter().enumerate() {
            let spoilt = specimen.snapshot();
            spoil(&spoilt, &mut Random::new(seed));
            wrong.extend(torture(&format!("seed {seed}, row {row}"), &spoilt, seed).err());
        }
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
