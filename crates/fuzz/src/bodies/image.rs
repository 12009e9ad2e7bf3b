//! Whole volumes with changed words: read, changed, closed and judged.
//!
//! An input is a kind, and changes of six bytes: which sector of those that hold something, which
//! word of it, how, and by what. So few bytes of input reach all that a volume is made of.
// tidy: writers because bytes of volumes that nobody has open are changed on purpose
use super::base::{self, Base, KINDS, Kind, SECTOR};
use super::split;
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::{
    Access, Caller, Filesystem, MetadataChange, New, Orphans, Rename, SetAttribute, Size,
    recovered, salvaged,
};
use extant_format::inode::FileType;
use extant_inspect::{CheckOptions, check};
use extant_testkit::numbers::Numbers;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of one volume that are looked at.
const NAMES_MAX: usize = 150;

/// Kinds, with a few changes each.
pub fn changes() -> Vec<Vec<u8>> {
    let some = |kind: usize| {
        let mut random = Numbers::new(kind as u64);
        [vec![kind as u8], random.bytes(18)].concat()
    };
    (0..KINDS.len()).map(some).collect()
}

/// Of quotas alone.
pub fn changes_of_quotas() -> Vec<Vec<u8>> {
    vec![Numbers::new(1).bytes(18), Numbers::new(2).bytes(30)]
}

/// A copy of the volume with the changes that the input says, of these sectors.
pub fn changed(base: &Base, sectors: &[u64], changes: &[u8]) -> MemoryDevice {
    let device = base.device.snapshot();
    let (changes, _) = changes.as_chunks::<6>();
    for [low, high, word, how, first, second] in changes.iter().take(40) {
        let chosen = usize::from(u16::from_le_bytes([*low, *high]));
        let Some(sector) = chosen.checked_rem(sectors.len()).map(|at| sectors[at]) else { break };
        let at = sector + u64::from(word % 128) * 4;
        let mut bytes = [0; 4];
        if device.read(at, &mut bytes).is_err() {
            continue;
        }
        let (old, value) = (u32::from_le_bytes(bytes), u16::from_le_bytes([*first, *second]));
        let new = match how % 6 {
            0 => old ^ 1 << (value % 32),
            1 => old & !0xffff | u32::from(value),
            2 => old & 0xffff | u32::from(value) << 16,
            3 => u32::from(value) % (base.superblock.blocks_count as u32 + 2),
            4 => old.wrapping_add_signed(i32::from(value.cast_signed() % 40)),
            _ => i32::from(value.cast_signed() % 3).cast_unsigned(),
        };
        // Memory takes what it is given.
        let _ = device.write(at, &new.to_le_bytes());
        debug_assert!(at < device.info().bytes && SECTOR == 512);
    }
    device
}

/// Any words of a volume of any kind.
pub fn image(input: &[u8]) {
    let ([kind], changes) = split(input);
    let base = base::of(&KINDS[usize::from(kind) % KINDS.len()]);
    torture(changed(base, &base.sectors, changes), input);
}

/// Words of what quotas are kept in, and all else of their volume.
pub fn image_with_quotas(input: &[u8]) {
    let base = base::of(&Kind::Quota);
    torture(changed(base, &base.sectors, input), input);
}

/// What one volume is put through.
pub fn torture(device: MemoryDevice, input: &[u8]) {
    let (reading, writing) = (Arc::new(device.snapshot()), Arc::new(device));
    let shared = || Arc::clone(&reading) as Arc<dyn BlockDevice>;
    if let Ok(volume) = Filesystem::open(shared(), &base::options(Access::ReadOnly)) {
        read(&volume);
    }
    // What is read is judged, too; both ways to read it are tried.
    let _ = check(shared(), &CheckOptions::default());
    if let Ok(volume) = recovered(shared(), Orphans::Finish).map(|recovered| recovered.device) {
        let _ = check(volume, &CheckOptions::default());
    }
    if let Ok(salvaged) = salvaged(shared())
        && let Ok(volume) = Filesystem::open(salvaged.device, &base::options(Access::ReadOnly))
    {
        read(&volume);
    }
    let shared = || Arc::clone(&writing) as Arc<dyn BlockDevice>;
    if let Ok(volume) = Filesystem::open(shared(), &base::options(Access::ReadWrite)) {
        let seed = input
            .iter()
            .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        change(&volume, &mut Numbers::new(seed));
        let _ = volume.sync();
        read(&volume);
        let _ = volume.close();
    }
    if let Ok(volume) = Filesystem::open(shared(), &base::options(Access::ReadOnly)) {
        read(&volume);
    }
}

/// Everything under some names, as far as there are not too many: a directory may be its own child.
fn paths(volume: &Filesystem) -> Vec<(PathBuf, FileType)> {
    let (mut found, mut at) = (vec![(PathBuf::from("/"), FileType::Directory)], 0);
    while at < found.len() && found.len() < NAMES_MAX {
        let (path, kind) = found[at].clone();
        at += 1;
        if kind != FileType::Directory {
            continue;
        }
        for entry in volume.read_dir(&path).unwrap_or_default() {
            let path = path.join(OsStr::from_bytes(&entry.name));
            if let Ok(metadata) = volume.symlink_metadata(&path) {
                found.push((path, metadata.file_type));
            }
        }
    }
    found.truncate(NAMES_MAX);
    found
}

fn read(volume: &Filesystem) {
    let mut buffer = vec![0; 20_000];
    for (path, kind) in paths(volume) {
        let _ = volume.attributes(&path);
        let _ = volume.read_link(&path);
        if kind == FileType::Directory {
            read_from_cookies(volume, &path);
        }
        if kind != FileType::Regular {
            continue;
        }
        let Ok(file) = volume.open_file(&path) else { continue };
        let size = file.metadata().map_or(0, |metadata| metadata.size);
        let mut at = 0;
        for _ in 0..30 {
            let Ok(Some(data)) = file.next_data(at) else { break };
            let _ = file.read_at(data.start, &mut buffer);
            assert!(data.end > at, "{}: {data:?} after {at}", path.display());
            at = data.end;
        }
        for at in [0, size / 2, size.saturating_sub(1000), size.saturating_add(1)] {
            let _ = file.read_at(at, &mut buffer);
        }
    }
}

/// Reads a directory from cookies on that no listing gave.
fn read_from_cookies(volume: &Filesystem, path: &Path) {
    let inodes = volume.inodes();
    let Ok(directory) = volume.inode(path) else { return };
    for cookie in [0, 2, 77, 1 << 31, 1 << 40, u64::MAX] {
        let mut left = 30;
        let _ = inodes.read_dir_plus(&directory, cookie, &mut |_, _| {
            left -= 1;
            match left {
                0 => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            }
        });
    }
}

/// Changes of every kind; what is refused is refused.
fn change(volume: &Filesystem, random: &mut Numbers) {
    let found = paths(volume);
    for number in 0..6_u64 {
        let _ = volume.write(format!("/new {number}"), &vec![7; (number * 3000) as usize]);
        let _ = volume.create_dir(format!("/directory {number}"), 0o755);
        let _ = volume.symlink("s".repeat(number as usize * 30 + 1), format!("/link {number}"));
    }
    for _ in 0..40 {
        let (path, kind) = &found[random.below(found.len() as u64) as usize];
        let _ = volume.set_attribute(path, b"user.new", &[7; 200], SetAttribute::Any);
        let _ = volume.hard_link(path, format!("/hard {}", random.below(1000)));
        if *kind == FileType::Regular {
            let _ = change_file(volume, path, random);
        }
        change_by_inode(volume, path);
        let _ = volume.remove_attribute(path, b"user.new");
    }
    let hows = [Rename::Replace, Rename::Exchange, Rename::Whiteout];
    for number in 0..20 {
        let mut pick = || &found[random.below(found.len() as u64) as usize].0;
        let (from, to) = (pick().clone(), pick().clone());
        let to = if number % 2 == 0 { to } else { PathBuf::from(format!("/moved {number}")) };
        let _ = volume.rename(&from, to, hows[number % 3]);
    }
    let _ = volume.sync();
    for (path, kind) in found.iter().rev() {
        let _ = match kind {
            FileType::Directory => volume.remove_dir(path),
            _ => volume.remove_file(path),
        };
    }
}

fn change_file(
    volume: &Filesystem,
    path: &Path,
    random: &mut Numbers,
) -> extant_engine::Result<()> {
    let file = volume.open_file(path)?;
    let size = file.metadata()?.size;
    let at = random.below(size.max(1));
    let _ = match random.below(8) {
        0 => file.write_at(at, &[5; 3000]).map(drop),
        1 => file.punch_hole(at, 20_000),
        2 => file.allocate(random.below(1 << 18), 50_000, Size::Keep),
        3 => file.write_at(size, &[6; 5000]).map(drop),
        4 => file.zero_range(random.below(1 << 18), 30_000, Size::Keep),
        5 => file.insert_range(at & !0x3ff, 1 << 12),
        6 => file.collapse_range(at & !0x3ff, 1 << 12),
        _ => file.set_len(size / 2),
    };
    file.sync()
}

/// Changes by inode, for a caller who is checked.
fn change_by_inode(volume: &Filesystem, path: &Path) {
    let Ok(inode) = volume.inode(path) else { return };
    let caller = Caller { uid: 12, ..Caller::root() };
    let inodes = volume.inodes_for(&caller);
    let change = MetadataChange { permissions: Some(0o640), gid: Some(7), ..Default::default() };
    let _ = inodes.set_metadata(&inode, &change);
    let _ = inodes.set_project(&inode, 9);
    if let Ok((nameless, file)) = inodes.create_nameless(&inode, &New::default()) {
        let _ = file.write_at(0, &[9; 3000]);
        let _ = inodes.link(&nameless, &inode, b"named later");
    }
}
