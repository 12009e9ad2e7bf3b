//! Random writes, discards, flushes and growth, beside a model.
use super::recorder::Recorder;
use super::{DISK_BYTES, KINDS, Made, judged, qemu};
use crate::in_place::Qcow2;
use extant_block::{BlockDevice, FileDevice, RealClock};
use extant_testkit::numbers::Numbers;
use extant_testkit::oracle::require;
use extant_testkit::variables;
use std::fs::File;
use std::sync::Arc;

/// Somewhere in a disk: at bytes that are and that are not the start of anything.
pub(super) fn stretch(numbers: &mut Numbers, disk: u64) -> (u64, u64) {
    let unit = [1, 512, 4096, 65536][numbers.below(4) as usize];
    let start = numbers.below(disk) / unit * unit;
    let most = [700, 5000, 70_000, 400_000][numbers.below(4) as usize];
    let length = (numbers.below(most) + 1).next_multiple_of(unit.min(512));
    (start, length.min(disk - start))
}

/// One change of the disk and the model.
pub(super) fn step(disk: &Qcow2, model: &mut [u8], cluster: u64, numbers: &mut Numbers) {
    let (at, length) = stretch(numbers, model.len() as u64);
    let range = at as usize..(at + length) as usize;
    match numbers.below(10) {
        0..=6 => {
            let bytes = numbers.bytes(length as usize);
            disk.write(at, &bytes).unwrap();
            model[range].copy_from_slice(&bytes);
        }
        7 => {
            let end = match range.end == model.len() {
                true => range.end,
                false => range.end - range.end % cluster as usize,
            };
            let start = range.start.next_multiple_of(cluster as usize);
            match (disk as &dyn BlockDevice).discard(at, length) {
                Ok(()) if start < end => model[start..end].fill(0),
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}"),
            }
        }
        8 => {
            let mut bytes = vec![1; length as usize];
            disk.read(at, &mut bytes).unwrap();
            assert!(bytes == model[range], "{length} bytes at byte {at} are others");
        }
        _ => disk.flush().unwrap(),
    }
}

/// That what is said to be no data is zeros.
fn check_holes(disk: &dyn BlockDevice, model: &[u8]) {
    let mut at = 0;
    while let Some(data) = disk.next_data(at).unwrap() {
        let hole = &model[at as usize..data.start.max(at) as usize];
        assert!(hole.iter().all(|byte| *byte == 0), "data before byte {}", data.start);
        at = data.end;
    }
    assert!(model[at as usize..].iter().all(|byte| *byte == 0), "data after byte {at}");
}

#[test]
fn a_disk_is_what_was_written_to_it_and_qemu_finds_nothing_wrong() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    let rounds = variables::number("EXTANT_CLUSTERS");
    for (number, kind) in KINDS.iter().enumerate() {
        for seed in 0..rounds {
            let mut numbers = Numbers::new(seed * 100 + number as u64);
            let mut made = Made::new(kind, &mut numbers);
            let name = format!("{} {seed}", kind.0);
            let open = || {
                let file = File::options().read(true).write(true).open(made.file()).unwrap();
                let bytes = file.metadata().unwrap().len();
                let clock = RealClock::new();
                let file = FileDevice::from_file(clock, file, name.clone(), bytes, 0).unwrap();
                made.open(Arc::new(file)).unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            let mut model = made.model.clone();
            for _ in 0..2 {
                let disk = open();
                let cluster = disk.inner.state.read().header.cluster_bytes();
                for _ in 0..60 {
                    step(&disk, &mut model, cluster, &mut numbers);
                }
                let mut bytes = vec![1; model.len()];
                disk.read(0, &mut bytes).unwrap();
                assert!(bytes == model, "{name}: other bytes");
                check_holes(&disk, &model);
                let grown = model.len() + numbers.below(3 << 20) as usize / 512 * 512;
                match disk.grow(grown as u64) {
                    Ok(()) => model.resize(grown, 0),
                    Err(error) => assert!(kind.1.contains("0.10"), "{name}: {error}"),
                }
            }
            let (code, said) = judged(made.folder.path());
            assert_eq!(code, 0, "{name}: {said}");
            std::fs::write(made.folder.join("model"), &model).unwrap();
            qemu(made.folder.path(), &["compare", "-f", "raw", "-F", "qcow2", "model", "x.qcow2"]);
            made.model.clear();
        }
    }
}

/// A snapshot is what it was when it was made, whatever was written since.
#[test]
fn snapshots_are_as_they_were() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    for kind in KINDS.iter().filter(|kind| kind.2 == super::Before::Snapshot) {
        let mut numbers = Numbers::new(7);
        let made = Made::new(kind, &mut numbers);
        let file = Recorder::new(std::fs::read(made.file()).unwrap());
        let disk = made.open(Arc::clone(&file) as _).unwrap();
        for _ in 0..4 {
            disk.write(numbers.below(4 << 20), &numbers.bytes(200_000)).unwrap();
            disk.flush().unwrap();
        }
        drop(disk);
        std::fs::write(made.file(), file.bytes()).unwrap();
        qemu(made.folder.path(), &["snapshot", "-a", "two", "x.qcow2"]);
        std::fs::write(made.folder.join("model"), &made.model).unwrap();
        qemu(made.folder.path(), &["compare", "-f", "raw", "-F", "qcow2", "model", "x.qcow2"]);
        assert_eq!(judged(made.folder.path()).0, 0, "{}", kind.0);
    }
}

/// Several threads at once, each in bytes of its own that share clusters with those of the others.
#[test]
fn threads_do_not_disturb_each_other() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    const THREADS: usize = 4;
    const STRIPE: usize = 3000;
    let made = Made::new(&KINDS[7], &mut Numbers::new(3));
    let file = Recorder::new(std::fs::read(made.file()).unwrap());
    let disk = Arc::new(made.open(Arc::clone(&file) as _).unwrap());
    let clock = Arc::clone(disk.clock());
    let tasks: Vec<_> = (0..THREADS)
        .map(|thread| {
            let disk = Arc::clone(&disk);
            let work = move || {
                let mut numbers = Numbers::new(thread as u64);
                let mine = DISK_BYTES / STRIPE / THREADS;
                for turn in 0..400_u64 {
                    let stripe = numbers.below(mine as u64) as usize * THREADS + thread;
                    let at = (stripe * STRIPE) as u64;
                    let bytes = vec![stripe as u8 ^ thread as u8; STRIPE];
                    disk.write(at, &bytes).unwrap();
                    let mut read = vec![0; STRIPE];
                    disk.read(at, &mut read).unwrap();
                    assert!(read == bytes, "thread {thread} at byte {at}");
                    if turn % 50 == 0 {
                        disk.flush().unwrap();
                    }
                }
            };
            clock.spawn(&format!("writer-{thread}"), Box::new(work))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    drop(disk);
    std::fs::write(made.file(), file.bytes()).unwrap();
    assert_eq!(judged(made.folder.path()).0, 0);
}

/// A cluster that was given back may hold anything: what is not written of it is zeros again.
#[test]
fn a_cluster_that_is_used_again_shows_nothing_of_before() {
    if !require("qemu-img") {
        return;
    }
    let made = Made::new(&KINDS[15], &mut Numbers::new(1));
    let file = Recorder::new(std::fs::read(made.file()).unwrap());
    let disk = made.open(file as _).unwrap();
    for turn in 0..4 {
        disk.write(0, &[7; 8192]).unwrap();
        disk.flush().unwrap();
        (&disk as &dyn BlockDevice).discard(0, 8192).unwrap();
        disk.flush().unwrap();
        disk.write(100_000 + turn * 4096, &[1; 10]).unwrap();
        let mut bytes = [9; 1024];
        disk.read(99_328 + turn * 4096, &mut bytes).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == 1).count(), 10);
        assert_eq!(bytes.iter().filter(|byte| **byte == 0).count(), 1014, "turn {turn}");
    }
}
