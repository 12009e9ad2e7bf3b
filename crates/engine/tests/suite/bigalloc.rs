//! Volumes with clusters of several blocks (`bigalloc`), made by mke2fs, changed by the engine and
//! by the kernel in turn. e2fsck counts every cluster, and the kernel reads what was written.
use crate::volume::Random;
use crate::volume::image::{judge, judge_content, open, options};

use extant_block::file::Access as DeviceAccess;
use extant_block::{BlockDevice, FileDevice, MemoryDevice, RealClock};
use extant_engine::{Access, ErrorKind, Filesystem, Rename, SetAttribute, Size};
use extant_sim::CrashLog;
use extant_testkit::command::{program, run};
use extant_testkit::oracle::{self, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Words for mke2fs, the size, the bytes of a cluster, and policies.
struct Volume {
    words: &'static str,
    size: &'static str,
    cluster: u64,
    policies: &'static str,
}

const fn volume(
    words: &'static str,
    size: &'static str,
    cluster: u64,
    policies: &'static str,
) -> Volume {
    Volume { words, size, cluster, policies }
}

const VOLUMES: [Volume; 9] = [
    volume("-O bigalloc -b 1024 -C 16384 -J size=4", "40M", 16384, "modern"),
    volume("-O bigalloc,^has_journal -b 4096 -C 65536", "64M", 65536, "modern"),
    volume("-O bigalloc,quota -b 1024 -C 4096 -J size=4", "32M", 4096, "modern,journal=data"),
    volume(
        "-O bigalloc -b 1024 -C 2048 -g 2048 -J size=4",
        "40M",
        2048,
        "modern,journal=ordered-jbd",
    ),
    volume("-O bigalloc,^has_journal,^flex_bg -b 1024 -C 4096", "40M", 4096, "linux-2.6"),
    volume("-O bigalloc,^has_journal -b 2048 -C 8192", "32M", 8192, "freebsd-5.2"),
    volume("-O bigalloc -b 4096 -C 8192 -J size=4", "32M", 8192, "modern,journal=writeback"),
    volume("-O bigalloc,^has_journal -b 1024 -C 4096", "32M", 4096, "modern,growth=reservation"),
    volume(
        "-O bigalloc,^metadata_csum,meta_bg,^resize_inode -b 1024 -C 8192 -J size=4",
        "40M",
        8192,
        "modern",
    ),
];

fn can_judge() -> bool {
    ["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| oracle::require(tool)) && oracle::can_mount()
}

fn make(image: &Path, words: &str, size: &str) {
    let _ = fs::remove_file(image);
    let path = image.display().to_string();
    let mut all = vec!["-q", "-F", "-t", "ext4"];
    all.extend(words.split(' '));
    all.extend([&*path, size]);
    run("mke2fs", &all).expect("mke2fs makes it");
}

/// What every file holds, and what is done to them.
struct Life {
    random: Random,
    cluster: u64,
    files: BTreeMap<String, Vec<u8>>,
    made: u32,
}

fn put(held: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    held.resize(held.len().max(end), 0);
    held[at as usize..end].copy_from_slice(bytes);
}

fn zero(held: &mut [u8], at: u64, length: u64) {
    let end = held.len().min((at + length) as usize);
    if (at as usize) < end {
        held[at as usize..end].fill(0);
    }
}

impl Life {
    fn new(seed: u64, cluster: u64) -> Life {
        Life { random: Random::new(seed), cluster, files: BTreeMap::new(), made: 0 }
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        let name = "n".repeat(self.random.below(90) as usize);
        format!("/folder-{}/{}-{name}", self.random.below(3), self.made)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = *self.random.pick(&[1, 700, 3000, 40_000]);
        let mut bytes = vec![0; self.random.below(most) as usize + 1];
        self.random.fill(&mut bytes);
        bytes
    }

    fn path(&mut self) -> String {
        if self.files.len() < 12 {
            return self.fresh();
        }
        let paths: Vec<String> = self.files.keys().cloned().collect();
        self.random.pick(&paths).clone()
    }

    /// Somewhere in the first clusters of a file, or far out.
    fn place(&mut self) -> u64 {
        let most = *self.random.pick(&[2 * self.cluster, 200_000]);
        self.random.below(most)
    }

    fn step(&mut self, volume: &Filesystem) -> extant_engine::Result<()> {
        let path = self.path();
        if !self.files.contains_key(&path) {
            let bytes = self.bytes();
            volume.write(&path, &bytes)?;
            self.files.insert(path, bytes);
            return Ok(());
        }
        let (at, length) = (self.place(), self.random.below(30_000) + 1);
        let file = volume.open_file(&path)?;
        let bytes = self.bytes();
        let (fresh, action) = (self.fresh(), self.random.below(16));
        let size = *self.random.pick(&[Size::Grow, Size::Keep]);
        let (first, count) = (at / self.cluster, self.random.below(3) + 1);
        let (from, moved) = (first * self.cluster, count * self.cluster);
        let held = self.files.get_mut(&path).expect("is there");
        match action {
            0..=4 => {
                file.write_at(at, &bytes)?;
                put(held, at, &bytes);
            }
            5 => {
                file.set_len(at)?;
                held.resize(at as usize, 0);
            }
            6 | 7 => {
                file.punch_hole(at, length)?;
                zero(held, at, length);
            }
            8 | 9 => {
                match action {
                    8 => file.zero_range(at, length, size)?,
                    _ => file.allocate(at, length, size)?,
                }
                if action == 8 {
                    zero(held, at, length);
                }
                if size == Size::Grow {
                    held.resize(held.len().max((at + length) as usize), 0);
                }
            }
            10 if from + moved < held.len() as u64 => {
                file.collapse_range(from, moved)?;
                held.drain(from as usize..(from + moved) as usize);
            }
            11 if from < held.len() as u64 => {
                file.insert_range(from, moved)?;
                let at = from as usize;
                held.splice(at..at, std::iter::repeat_n(0, moved as usize));
            }
            12 => {
                volume.remove_file(&path)?;
                self.files.remove(&path);
            }
            13 => {
                volume.rename(&path, &fresh, Rename::Replace)?;
                let bytes = self.files.remove(&path).expect("is there");
                self.files.insert(fresh, bytes);
            }
            14 => {
                let value = vec![b'v'; self.random.below(400) as usize];
                let name = format!("user.{}", self.random.below(2));
                volume.set_attribute(&path, name.as_bytes(), &value, SetAttribute::Any)?;
            }
            _ => {
                volume.symlink("t".repeat(at as usize % 900 + 1), &fresh)?;
                volume.hard_link(&path, format!("{fresh}+"))?;
                volume.remove_file(format!("{fresh}+"))?;
                file.sync()?;
            }
        }
        Ok(())
    }

    /// The same by the kernel, which has fewer ways here.
    fn kernel_step(&mut self, root: &Path) {
        let path = self.path();
        let (at, bytes) = (self.place(), self.bytes());
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(root.join(&path[1..])).expect("opens");
        let held = self.files.entry(path.clone()).or_default();
        match self.random.below(8) {
            0 => {
                file.set_len(at).expect("cuts");
                held.resize(at as usize, 0);
            }
            1 => {
                fs::remove_file(root.join(&path[1..])).expect("removes");
                self.files.remove(&path);
            }
            _ => {
                file.write_all_at(&bytes, at).expect("writes");
                put(held, at, &bytes);
            }
        }
    }

    fn agrees(&self, volume: &Filesystem, what: &str) {
        for (path, bytes) in &self.files {
            let found = volume.read(path).unwrap_or_else(|error| panic!("{what} {path}: {error}"));
            let differs = found.iter().zip(bytes).position(|(one, other)| one != other);
            let lengths = (found.len(), bytes.len());
            assert!(found == *bytes, "{what} {path}: {lengths:?} bytes, other at {differs:?}");
        }
    }
}

#[test]
fn what_is_written_is_what_the_kernel_reads_and_every_cluster_is_counted() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-lives");
    let image = folder.join("image");
    for (seed, Volume { words, size, cluster, policies }) in (1..).zip(&VOLUMES) {
        make(&image, words, size);
        let mut life = Life::new(seed, *cluster);
        let start = open(&image, policies);
        (0..3).for_each(|at| start.create_dir(format!("/folder-{at}"), 0o755).expect("makes it"));
        start.close().expect("closes");
        for round in 0..4 {
            let what = format!("{words} {policies} round {round}");
            let volume = open(&image, policies);
            for step in 0..60 {
                life.step(&volume).unwrap_or_else(|error| panic!("{what} step {step}: {error}"));
                if step % 25 == 24 {
                    volume.sync().expect("syncs");
                    let bytes = volume.trim(step, u64::MAX, 0).expect("trims");
                    assert!(
                        bytes > 0 && bytes.is_multiple_of(*cluster),
                        "{what}: {bytes} bytes trimmed"
                    );
                }
            }
            life.agrees(&volume, &what);
            volume.close().expect("closes");
            judge(&image, &what);
            // A kernel that does not write this volume leaves it as it is.
            let Ok(mounted) = mount_loop(&image, oracle::Access::ReadWrite, "") else { continue };
            (0..20).for_each(|_| life.kernel_step(mounted.path()));
            mounted.unmount().expect("unmounts");
            // Which leaves trees that could be smaller.
            mended(&image, &what);
        }
        let volume = open(&image, policies);
        life.agrees(&volume, words);
        volume.close().expect("closes");
    }
}

/// Clusters that a file counts, and those that are free on the volume.
fn counts(volume: &Filesystem, path: &str, cluster: u64) -> (u64, u64) {
    let sectors = volume.metadata(path).expect("is there").sectors;
    let blocks = volume.statfs().free_blocks;
    (sectors * 512 / cluster, blocks * u64::from(volume.statfs().block_size) / cluster)
}

#[test]
fn a_cluster_comes_with_its_first_block_and_goes_with_its_last() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-islands");
    let image: PathBuf = folder.join("image");
    for policies in ["modern", "modern,journal=data"] {
        make(&image, "-O bigalloc -b 1024 -C 4096 -J size=4", "24M");
        let volume = open(&image, policies);
        let file = volume.create_file("/islands", 0o644).expect("makes it");
        let (_, before) = counts(&volume, "/islands", 4096);
        let has = |expected: u64, what: &str| {
            volume.sync().expect("syncs");
            let found = counts(&volume, "/islands", 4096);
            assert_eq!(found, (expected, before - expected), "{policies}: {what}");
        };
        file.write_at(0, &[1; 100]).expect("writes");
        has(1, "one block");
        file.write_at(3 * 1024, &[2; 1024]).expect("writes");
        has(1, "two islands in a cluster");
        file.allocate(2 * 1024, 1024, Size::Keep).expect("allocates");
        has(1, "what is allocated between them");
        file.write_at(4 * 1024, &[3; 9 * 1024]).expect("writes");
        has(4, "three clusters more, of which the last has one block");
        file.punch_hole(0, 1024).expect("punches");
        file.punch_hole(2 * 1024, 1024).expect("punches");
        has(4, "the last island keeps it");
        file.punch_hole(3 * 1024, 2 * 1024).expect("punches");
        has(3, "one goes, and the next stays");
        file.set_len(12 * 1024 + 1).expect("cuts");
        has(3, "cut within the last block");
        file.set_len(9 * 1024).expect("cuts");
        has(2, "cut within a cluster");
        let edge = |result: extant_engine::Result<()>| {
            let error = result.expect_err("not at the boundary of a cluster");
            assert!(matches!(error.kind, ErrorKind::InvalidArgument(_)), "{error}");
        };
        edge(file.collapse_range(1024, 4096));
        edge(file.collapse_range(0, 1024));
        edge(file.insert_range(2048, 4096));
        edge(file.insert_range(4096, 1024));
        file.collapse_range(4096, 4096).expect("collapses");
        has(1, "a cluster is taken out");
        file.insert_range(0, 8192).expect("inserts");
        has(1, "a hole moves it");
        let bytes = volume.read("/islands").expect("reads");
        assert!(bytes[..8192].iter().all(|byte| *byte == 0), "{policies}");
        drop(file);
        volume.close().expect("closes");
        judge(&image, policies);
        let volume = open(&image, policies);
        volume.remove_file("/islands").expect("removes");
        volume.sync().expect("syncs");
        let free = volume.statfs().free_blocks * 1024 / 4096;
        volume.close().expect("closes");
        assert_eq!(free, before, "{policies}");
        judge(&image, policies);
    }
}

#[test]
fn a_full_volume_takes_what_clusters_have_left_and_loses_nothing_that_it_took() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-full");
    let image = folder.join("image");
    for (words, policies) in [
        ("-O bigalloc -b 1024 -C 8192 -m 0 -J size=4", "modern"),
        ("-O bigalloc,^has_journal -b 1024 -C 8192 -m 0", "modern"),
        ("-O bigalloc -b 1024 -C 8192 -m 0 -J size=4", "modern,journal=data"),
    ] {
        make(&image, words, "12M");
        let volume = open(&image, policies);
        volume.write("/small", &[9; 1024]).expect("writes");
        let rest: Vec<String> = (0..20).map(|number| format!("/rest-{number}")).collect();
        rest.iter().for_each(|path| drop(volume.create_file(path, 0o644).expect("makes it")));
        let allocated = volume.create_file("/allocated", 0o644).expect("makes it");
        allocated.allocate(0, 600 * 1024, Size::Grow).expect("allocates");
        drop(allocated);
        // Islands in every other block of a cluster, and then far apart: every one is an extent.
        let (mut files, mut refused) = (Vec::new(), 0);
        for number in 0..200_u64 {
            let path = format!("/file-{number}");
            let Ok(file) = volume.create_file(&path, 0o644) else { break };
            let mut taken = Vec::new();
            for at in 0..40_u64 {
                let offset = (at * 2 + at / 8 * 8) * 1024;
                match file.write_at(offset, &[number as u8 + 1; 1024]) {
                    Ok(_) => taken.push(offset),
                    Err(error) => {
                        assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}");
                        refused += 1;
                    }
                }
            }
            files.push((path, number as u8 + 1, taken));
            if refused > 50 {
                break;
            }
        }
        assert!(refused > 0, "{words}: it is full");
        volume.sync().expect("what was taken is written");
        let free = volume.statfs().free_blocks;
        // What is in a cluster that a file has needs no room.
        let file = volume.open_file("/small").expect("opens");
        file.write_at(1024, &[9; 1024]).expect("the cluster is there");
        files.push(("/small".to_owned(), 9, vec![0, 1024]));
        drop(file);
        // Islands in what reads as zeros make its map grow, for which there is room or not when
        // they are written, but never only later.
        let (file, mut taken) = (volume.open_file("/allocated").expect("opens"), Vec::new());
        for offset in (0..300).map(|at| at * 2048) {
            match file.write_at(offset, &[8; 1024]) {
                Ok(_) => taken.push(offset),
                Err(error) => assert!(matches!(error.kind, ErrorKind::NoSpace { .. }), "{error}"),
            }
        }
        // Other files take the rest before they are written.
        for rest in &rest {
            let _ = volume.open_file(rest).expect("opens").write_at(0, &[9; 1024]);
        }
        volume.sync().expect("what was taken is written");
        assert!(!taken.is_empty(), "{words} {policies}");
        files.push(("/allocated".to_owned(), 8, taken));
        drop(file);
        volume.close().expect("closes");
        judge(&image, words);
        assert!(free < 12 * 1024 / 100, "{words} {policies}: {free} blocks are left");
        let volume = open(&image, policies);
        for (path, byte, taken) in &files {
            let bytes = volume.read(path).expect("reads");
            for offset in taken {
                let found = &bytes[*offset as usize..][..1024];
                assert!(found.iter().all(|found| found == byte), "{path} at {offset}");
            }
        }
        files.iter().for_each(|(path, ..)| volume.remove_file(path).expect("removes"));
        volume.close().expect("closes");
        judge(&image, words);
    }
}

#[test]
fn a_volume_with_content_in_its_inodes_too_is_only_read() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-inline");
    let image = folder.join("image");
    make(&image, "-O bigalloc,inline_data -b 1024 -C 4096", "12M");
    let before = fs::read(&image).expect("reads");
    let device = FileDevice::open(RealClock::new(), &image, DeviceAccess::ReadWrite, 0);
    let device = Arc::new(device.expect("the image opens"));
    let error = Filesystem::open(device, &options("modern", Access::ReadWrite)).err();
    let error = error.expect("it is refused");
    assert!(
        matches!(&error.kind, ErrorKind::NotWritten(names) if names[0].contains("inline_data")),
        "{error}"
    );
    assert!(fs::read(&image).expect("reads") == before, "and not touched");
    judge_content(&image, "as it was made");
}

/// What is changed while the power may be cut.
fn change_before_the_cut(life: &mut Life, volume: &Filesystem) {
    for at in 0..3 {
        volume.create_dir(format!("/folder-{at}"), 0o755).expect("makes it");
    }
    volume.write("/kept", &[7; 30_000]).expect("writes");
    volume.sync().expect("syncs");
    for step in 0..70 {
        life.step(volume).unwrap_or_else(|error| panic!("step {step}: {error}"));
        if step % 20 == 19 {
            volume.sync().expect("syncs");
        }
    }
}

#[test]
fn a_power_cut_leaves_no_cluster_to_nobody_or_to_two() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-cuts");
    let image = folder.join("image");
    for (words, policies) in [
        ("-O bigalloc -b 1024 -C 4096 -J size=4", "modern"),
        ("-O bigalloc -b 1024 -C 4096 -J size=4", "modern,journal=writeback"),
        ("-O bigalloc -b 1024 -C 8192 -J size=4", "modern,journal=data"),
        ("-O bigalloc,^has_journal -b 1024 -C 4096", "modern"),
    ] {
        make(&image, words, "16M");
        let bytes = fs::read(&image).expect("reads");
        let base = MemoryDevice::from_bytes(RealClock::new(), &bytes);
        let log = Arc::new(CrashLog::new(base.snapshot()));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &options(policies, Access::ReadWrite));
        let volume = volume.expect("opens");
        let mut life = Life::new(5, 8192);
        change_before_the_cut(&mut life, &volume);
        volume.close().expect("closes");
        let has_journal = !words.contains("^has_journal");
        // Without a journal nothing mends a superblock that is torn.
        let sector_bytes = if has_journal { 512 } else { 1024 };
        let moments = log.moments();
        assert!(moments > 20, "{moments} moments");
        let one_in = number("EXTANT_MOMENTS") as usize;
        for moment in (0..=moments).step_by((moments / 40 + 1) * one_in) {
            let cut = log.cut(moment);
            let media = [cut.prefix(&base), cut.subset(&base, sector_bytes, moment as u64)];
            for (number, medium) in media.into_iter().enumerate() {
                let medium = medium.expect("the cut is made");
                let what = format!("{words} {policies}: moment {moment}, medium {number}");
                medium.save(&image).expect("saves");
                let volume = open(&image, policies);
                if moment > moments / 2 {
                    let kept = volume.read("/kept").expect("what was synced is there");
                    assert!(kept == [7; 30_000], "{what}");
                }
                volume.close().expect("closes");
                match has_journal {
                    true => {
                        // A tree may be left that could be smaller: that is no error.
                        let told = program("e2fsck").arg("-fn").arg(&image).output();
                        let told = told.expect("e2fsck runs");
                        let said = String::from_utf8_lossy(&told.stdout);
                        assert!(told.status.success(), "{what}: {said}");
                        judge_content(&image, &what);
                    }
                    // Clusters may be lost, which e2fsck gives back; none has two owners.
                    false => mended(&image, &what),
                }
            }
        }
    }
}

/// e2fsck mends the volume, and says nothing of blocks that two files have.
fn mended(image: &Path, what: &str) {
    let told = program("e2fsck").arg("-fy").arg(image).output();
    let told = told.expect("e2fsck runs");
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(!said.contains("ultiply-claimed"), "{what}: {said}");
    oracle::e2fsck(image).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Each value in an inode counts whole clusters, for its owner and in quotas.
#[test]
fn large_values_count_whole_clusters() {
    if !can_judge() {
        return;
    }
    let folder = Scratch::new("bigalloc-values");
    let image = folder.join("image");
    for words in
        ["-O bigalloc,ea_inode,quota -b 1024 -C 8192", "-O bigalloc,ea_inode -b 4096 -C 16384"]
    {
        make(&image, words, "48M");
        let volume = open(&image, "modern");
        volume.write("/file", b"content").expect("writes");
        for length in [1100, 2000, 4100, 6000, 8193, 20_000, 65_536] {
            let name = format!("user.{length}");
            let value = vec![7; length];
            volume
                .set_attribute("/file", name.as_bytes(), &value, SetAttribute::Any)
                .unwrap_or_else(|error| panic!("{words}: {name}: {error}"));
        }
        volume.close().expect("closes");
        oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{words}: {said}"));
        let volume = open(&image, "modern");
        for length in [2000, 8193, 65_536] {
            volume.remove_attribute("/file", format!("user.{length}").as_bytes()).expect("removes");
        }
        volume.close().expect("closes");
        oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{words}: {said}"));
    }
}
