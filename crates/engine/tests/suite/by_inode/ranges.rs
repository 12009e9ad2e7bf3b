//! Ranges of files: random calls on a kernel mount and on the engine. Errors, sizes, bytes, and
//! where data and holes begin are equal after each, and the maps are at the end.
use crate::by_inode::both::{Both, can_compare};
use crate::by_inode::{KINDS, at, specification};
use crate::volume::{MIB, Random};
use extant_block::BlockDevice;
use extant_engine::{Filesystem, Inode, Rights, Size};
use extant_format::extent::State;
use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, seek};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A call on an open file; bytes.
#[derive(Clone, Copy, Debug)]
enum Call {
    Write(u64, u64),
    Truncate(u64),
    Allocate(u64, u64, Size),
    Punch(u64, u64),
    Zero(u64, u64, Size),
    Collapse(u64, u64),
    Insert(u64, u64),
    Sync,
}

fn keep(size: Size) -> FallocateFlags {
    match size {
        Size::Keep => FallocateFlags::KEEP_SIZE,
        Size::Grow => FallocateFlags::empty(),
    }
}

fn content(number: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Random::new(number).fill(&mut bytes);
    bytes
}

impl Call {
    /// Does it to the kernel's file; gives the errno, 0 for success.
    fn kernel(self, file: &File, number: u64) -> i32 {
        let set = |flags, offset, length| Ok(fallocate(file, flags, offset, length)?);
        let outcome: std::io::Result<()> = match self {
            Call::Write(offset, length) => file.write_all_at(&content(number, length), offset),
            Call::Truncate(size) => file.set_len(size),
            Call::Allocate(offset, length, size) => set(keep(size), offset, length),
            Call::Punch(offset, length) => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                set(flags, offset, length)
            }
            Call::Zero(offset, length, size) => {
                set(FallocateFlags::ZERO_RANGE | keep(size), offset, length)
            }
            Call::Collapse(offset, length) => set(FallocateFlags::COLLAPSE_RANGE, offset, length),
            Call::Insert(offset, length) => set(FallocateFlags::INSERT_RANGE, offset, length),
            Call::Sync => file.sync_all(),
        };
        outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
    }

    /// Does it to the engine's file; gives the errno, 0 for success.
    fn engine(self, file: &extant_engine::File, number: u64) -> i32 {
        let outcome = match self {
            Call::Write(offset, length) => file.write_all_at(offset, &content(number, length)),
            Call::Truncate(size) => file.set_len(size),
            Call::Allocate(offset, length, size) => file.allocate(offset, length, size),
            Call::Punch(offset, length) => file.punch_hole(offset, length),
            Call::Zero(offset, length, size) => file.zero_range(offset, length, size),
            Call::Collapse(offset, length) => file.collapse_range(offset, length),
            Call::Insert(offset, length) => file.insert_range(offset, length),
            Call::Sync => file.sync_data(),
        };
        outcome.err().map_or(0, |error| error.errno())
    }
}

struct Draw {
    random: Random,
    block_size: u64,
    /// Bytes in which most things happen.
    reach: u64,
}

impl Draw {
    /// An offset or a length: mostly of whole blocks.
    fn bytes(&mut self) -> u64 {
        let bytes = self.random.below(self.reach);
        match self.random.below(4) {
            0 => bytes,
            _ => bytes / self.block_size * self.block_size,
        }
    }

    fn size(&mut self) -> Size {
        *self.random.pick(&[Size::Grow, Size::Keep])
    }

    fn call(&mut self) -> Call {
        let (offset, length) = (self.bytes(), self.bytes() / 4 / self.block_size * self.block_size);
        let odd = self.bytes() / 4;
        match self.random.below(14) {
            0..=3 => Call::Write(offset, 1 + odd),
            4 => Call::Truncate(offset),
            5 => Call::Allocate(offset, odd, self.size()),
            6 => Call::Punch(offset, odd),
            7 | 8 => Call::Zero(offset, odd, self.size()),
            9 | 10 => Call::Collapse(offset, length),
            11 | 12 => Call::Insert(offset, length),
            _ => Call::Sync,
        }
    }
}

/// Where data and holes begin after many offsets.
fn seeks_differ(kernel: &File, engine: &extant_engine::File, size: u64) -> Option<String> {
    // Nothing in unwritten blocks stays in the kernel's memory, where it would count as data.
    kernel.sync_all().expect("syncs");
    fadvise(kernel, 0, None, Advice::DontNeed).expect("advises");
    for offset in (0..size + 5000).step_by(1 + size as usize / 61) {
        let answers =
            [SeekFrom::Data(offset), SeekFrom::Hole(offset)].map(|from| seek(kernel, from).ok());
        let data = engine.seek_data(offset).expect("looks");
        let hole = engine.seek_hole(offset).expect("looks");
        if answers != [data, hole] {
            return Some(format!("from {offset}: {data:?}, {hole:?}; the kernel has {answers:?}"));
        }
    }
    None
}

fn bytes_differ(kernel: &File, engine: &extant_engine::File) -> Option<String> {
    let sizes = [kernel.metadata().expect("is there").len(), engine.metadata().expect("is").size];
    if sizes[0] != sizes[1] {
        return Some(format!("{} bytes, the kernel has {}", sizes[1], sizes[0]));
    }
    let mut bytes = [vec![0; sizes[0] as usize], vec![0xee; sizes[0] as usize]];
    kernel.read_exact_at(&mut bytes[0], 0).expect("reads");
    let read = engine.read_at(0, &mut bytes[1]).expect("reads");
    if read != bytes[1].len() {
        return Some(format!("{read} bytes can be read of {}", sizes[1]));
    }
    let at = bytes[0].iter().zip(&bytes[1]).position(|(kernel, engine)| kernel != engine)?;
    Some(format!("byte {at} is {:#x}, the kernel has {:#x}", bytes[1][at], bytes[0][at]))
}

/// Does random calls to one file of each.
fn live(both: &Both, name: &str, seed: u64, block_size: u64, calls: u64) -> Result<(), String> {
    let path = both.path(name);
    let kernel = open(&path);
    let engine = both.volume.inodes().open(&at(&both.volume, name), Rights::WRITE).expect("opens");
    let reach = block_size * [40, 400][seed as usize % 2];
    let mut draw = Draw { random: Random::new(seed), block_size, reach };
    let mut done = Vec::new();
    for number in 0..calls {
        let call = draw.call();
        done.push(call);
        let said = |what: String| Err(format!("{name}: {what}\nafter {done:?}"));
        let errnos = [call.kernel(&kernel, number), call.engine(&engine, number)];
        if errnos[0] != errnos[1] {
            return said(format!("errno {}, the kernel has {}", errnos[1], errnos[0]));
        }
        let size = engine.metadata().expect("is there").size;
        if number % 5 == 0
            && let Some(what) = seeks_differ(&kernel, &engine, size)
        {
            return said(what);
        }
        if let Some(what) = bytes_differ(&kernel, &engine) {
            return said(what);
        }
        // Small again, now and then: few calls reach into what is large.
        if size > 4 * reach {
            let cut = Call::Truncate(reach);
            done.push(cut);
            assert_eq!((cut.kernel(&kernel, 0), cut.engine(&engine, 0)), (0, 0));
        }
    }
    Ok(())
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("opens")
}

/// What each block of a file is: (first block, blocks, written or not), neighbours joined.
fn map(volume: &Filesystem, name: &str) -> Vec<(u32, u32, State)> {
    let mut map: Vec<(u32, u32, State)> = Vec::new();
    for run in volume.object(format!("/{name}")).expect("is there").runs().expect("a map") {
        let (first, length) = (run.file_block.0, run.run.length);
        match map.last_mut() {
            Some((at, blocks, state)) if *at + *blocks == first && *state == run.state => {
                *blocks += length;
            }
            _ => map.push((first, length, run.state)),
        }
    }
    map
}

fn compare(kind: (extant_engine::mkfs::Profile, u32, u16, &'static str), seeds: u64, calls: u64) {
    let specification = specification(kind, 64 * MIB);
    let names: Vec<String> = (0..seeds).map(|seed| format!("file{seed}")).collect();
    let both = Both::new(&specification, |volume| {
        names.iter().for_each(|name| volume.write(format!("/{name}"), b"").expect("makes it"));
    });
    let block_size = u64::from(specification.block_size);
    let wrong: Vec<String> = (0..)
        .zip(&names)
        .filter_map(|(seed, name)| live(&both, name, seed, block_size, calls).err())
        .collect();
    assert!(wrong.is_empty(), "{kind:?}: {}", wrong[0]);
    let (kernels, engines) = both.finish();
    for name in &names {
        assert_eq!(map(&engines, name), map(&kernels, name), "{kind:?}: {name}");
    }
}

#[test]
fn ranges_change_as_in_the_kernel() {
    if !can_compare() {
        return;
    }
    let seeds = extant_testkit::variables::number("EXTANT_RANGES");
    // Longer lives where there are many of them.
    let calls = if seeds > 8 { 120 } else { 60 };
    for kind in KINDS {
        compare(kind, seeds, calls);
    }
}

/// A map of many extents, in nodes of two levels, taken apart and moved.
#[test]
fn a_map_of_many_extents_moves_whole() {
    let (device, volume) = crate::by_inode::fresh(&specification(KINDS[0], 64 * MIB));
    let file = volume.create_file("/file", 0o644).expect("makes it");
    let mut expected = vec![0; 3000 * 2048];
    for number in 0..3000 {
        let bytes = content(number, 1024);
        file.write_all_at(number * 2048, &bytes).expect("writes");
        expected[number as usize * 2048..][..1024].copy_from_slice(&bytes);
    }
    expected.truncate(2999 * 2048 + 1024);
    let mut random = Random::new(7);
    for _ in 0..20 {
        let offset = random.below(2000) as usize * 1024;
        let length = 1024 * (1 + random.below(30) as usize);
        file.collapse_range(offset as u64, length as u64).expect("collapses");
        expected.drain(offset..offset + length);
        let offset = random.below(2000) as usize * 1024;
        file.insert_range(offset as u64, length as u64).expect("inserts");
        expected.splice(offset..offset, std::iter::repeat_n(0, length));
        let offset = random.below(2000 * 1024) as usize;
        file.zero_range(offset as u64, length as u64, Size::Keep).expect("zeroes");
        expected[offset..offset + length].fill(0);
        assert!(volume.read("/file").expect("reads") == expected);
    }
    drop(file);
    crate::by_inode::finish(&device, volume);
}

fn inode_of(volume: &Filesystem) -> Inode {
    at(volume, "file")
}

/// A volume that is full refuses, and everything is as it was.
#[test]
fn without_room_nothing_is_changed() {
    let (device, volume) = crate::by_inode::fresh(&crate::volume::Specification {
        inodes: 64,
        ..specification(KINDS[0], 2 * MIB)
    });
    let file = volume.create_file("/file", 0o644).expect("makes it");
    for number in 0..200 {
        file.write_all_at(number * 2048, &content(number, 1024)).expect("writes");
    }
    let filler = volume.create_file("/filler", 0o644).expect("makes it");
    let mut at = 0;
    while filler.write_all_at(at, &[9; 1024]).is_ok() {
        at += 1024;
    }
    volume.sync().expect("syncs");
    let before = volume.read("/file").expect("reads");
    let mut refused = 0;
    for length in [1024, 100 * 1024, 300 * 1024] {
        for errno in [
            file.zero_range(0, length, Size::Keep).err().map(|error| error.errno()),
            file.insert_range(1024, length).err().map(|error| error.errno()),
            file.collapse_range(300 * 1024, 1024 * 1024).err().map(|error| error.errno()),
        ] {
            refused += u32::from(errno == Some(28));
            assert!(matches!(errno, None | Some(22 | 28)), "{errno:?}");
        }
    }
    assert!(refused > 0, "the volume is not full");
    let size = volume.inodes().metadata(&inode_of(&volume)).expect("is there").size;
    assert!(size >= before.len() as u64);
    drop((file, filler));
    crate::by_inode::finish(&device, volume);
}

/// Damage anywhere in a map is met before anything moves: one error, and nothing is changed.
#[test]
fn a_damaged_map_is_left_as_it_is() {
    let specification = specification(KINDS[0], 32 * MIB);
    let (device, volume) = crate::by_inode::fresh(&specification);
    let file = volume.create_file("/file", 0o644).expect("makes it");
    for number in 0..300 {
        file.write_all_at(number * 2048, &content(number, 1024)).expect("writes");
    }
    drop(file);
    let map = volume.object("/file").expect("is there").runs().expect("a map");
    volume.close().expect("closes");
    // Its leaves, by their magic number and depth: the last one leads to the last block.
    let mut block = [0; 1024];
    let mut leaves = Vec::new();
    for at in 0..32 * 1024 {
        device.read(at * 1024, &mut block).expect("reads");
        if block[..2] == [0x0a, 0xf3] && block[6..8] == [0, 0] {
            leaves.push((u32::from_le_bytes(block[12..16].try_into().expect("four")), at));
        }
    }
    leaves.sort_unstable();
    assert!(leaves.len() > 2, "{leaves:?}");
    let (first_block, last) = *leaves.last().expect("a leaf");
    device.read(last * 1024, &mut block).expect("reads");
    block[20] ^= 1;
    device.write(last * 1024, &block).expect("writes");

    let volume = specification.open(&device).expect("opens");
    let file = volume.open_file("/file").expect("opens");
    let before = file.metadata().expect("is there");
    let errors = [
        file.collapse_range(1024, 2048).expect_err("is damaged"),
        file.insert_range(1024, 2048).expect_err("is damaged"),
        file.zero_range(u64::from(first_block) * 1024, 9000, Size::Keep).expect_err("is damaged"),
        file.seek_hole(u64::from(first_block) * 1024).expect_err("is damaged"),
    ];
    for error in errors {
        assert_eq!(error.errno(), 117, "{error}");
    }
    let after = file.metadata().expect("is there");
    assert_eq!((after.size, after.sectors), (before.size, before.sectors));
    let mut bytes = vec![0; 1024];
    for run in map.iter().filter(|run| run.file_block.0 < first_block) {
        file.read_at(u64::from(run.file_block.0) * 1024, &mut bytes).expect("reads");
        assert!(bytes == content(u64::from(run.file_block.0) / 2, 1024));
    }
    // Nothing was changed, so nothing has latched.
    volume.write("/other", b"content").expect("writes");
    volume.sync().expect("syncs");
}
