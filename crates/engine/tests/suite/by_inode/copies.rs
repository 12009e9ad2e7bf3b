//! Copies from one file to another, against what `copy_file_range(2)` of Linux promises.
use crate::by_inode::{KINDS, finish, fresh, specification};
use crate::volume::{KIB, MIB, Random, Specification};
use extant_block::RealClock;
use extant_engine::{File, Filesystem, New, RunRights};

fn new(volume: &Filesystem, name: &str) -> File {
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    inodes.create_open(&root, name.as_bytes(), &New::default()).expect("makes").1
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().expect("is there").size as usize];
    let length = file.read_at(0, &mut bytes).expect("reads");
    assert_eq!(length, bytes.len());
    bytes
}

/// Copies until all of it was copied, or nothing more is.
fn copy(to: &File, at: u64, (from, start): (&File, u64), length: u64) -> u64 {
    let mut done = 0;
    while done < length {
        let rest = (from, start + done);
        match to.copy_range(at + done, rest, length - done, RunRights::End).expect("copies") {
            0 => break,
            copied => done += copied,
        }
    }
    done
}

#[test]
fn a_copy_has_the_bytes_of_its_source() {
    for kind in KINDS {
        let specification = specification(kind, 64 * MIB);
        let (device, volume) = fresh(&specification);
        let (from, to) = (new(&volume, "from"), new(&volume, "to"));
        let mut random = Random::new(7);
        let (mut source, mut target) = (vec![0; 3 << 20], Vec::new());
        // Data, holes between it, and a hole at the end.
        for _ in 0..12 {
            let at = random.below(2 << 20) as usize;
            let length = random.below(120 * KIB) as usize;
            random.fill(&mut source[at..at + length]);
            from.write_all_at(at as u64, &source[at..at + length]).expect("writes");
        }
        from.set_len(source.len() as u64).expect("extends");
        for round in 0..60 {
            let start = random.below(source.len() as u64 + 1000);
            let at = random.below(4 << 20);
            let length = random.below(2 << 20);
            let copied = copy(&to, at, (&from, start), length);
            let there = (source.len() as u64).saturating_sub(start).min(length);
            assert_eq!(copied, there, "{specification}: from {start}, {length} bytes");
            if there > 0 {
                target.resize(target.len().max((at + there) as usize), 0);
                let bytes = &source[start as usize..(start + there) as usize];
                target[at as usize..(at + there) as usize].copy_from_slice(bytes);
            }
            if round % 10 == 9 {
                volume.inodes().drop_all();
            }
            assert!(content(&to) == target, "{specification}: round {round}");
        }
        assert!(content(&from) == source, "{specification}: the source");
        drop((from, to));
        finish(&device, volume);
    }
}

#[test]
fn holes_stay_holes_where_the_target_is_new() {
    for kind in KINDS {
        let (device, volume) = fresh(&specification(kind, 32 * MIB));
        let (from, to) = (new(&volume, "from"), new(&volume, "to"));
        from.write_all_at(0, &[1; 5000]).expect("writes");
        from.write_all_at(900 * MIB, &[2; 5000]).expect("writes");
        from.set_len(1000 * MIB).expect("extends");
        assert_eq!(copy(&to, 0, (&from, 0), u64::MAX), 1000 * MIB);
        volume.sync().expect("syncs");
        let (one, other) = (from.metadata().expect("is there"), to.metadata().expect("is there"));
        assert_eq!(other.size, one.size);
        assert_eq!(other.sectors, one.sectors, "the copy takes as many blocks");
        let mut read = [0; 6000];
        to.read_at(900 * MIB, &mut read).expect("reads");
        assert!(read[..5000] == [2; 5000] && read[5000..] == [0; 1000]);
        drop((from, to));
        finish(&device, volume);
    }
}

#[test]
fn what_linux_refuses_is_refused() {
    let (device, volume) = fresh(&specification(KINDS[0], 32 * MIB));
    let file = new(&volume, "file");
    file.write_all_at(0, &[5; 10_000]).expect("writes");
    let errno = |at, from, length| {
        let outcome = file.copy_range(at, (&file, from), length, RunRights::End);
        outcome.map_or_else(|error| error.errno(), |_| 0)
    };
    // Of one file, ranges that overlap; as they were asked for, before they are cut at the end.
    assert_eq!(errno(0, 9999, 10_000), 22);
    assert_eq!(errno(9999, 0, 10_000), 22);
    assert_eq!(errno(3, 3, 1), 22);
    assert_eq!(errno(0, 10_000, 10_000), 0);
    assert_eq!(errno(10_000, 0, 10_000), 0);
    assert_eq!(errno(3, 3, 0), 0);
    assert!(content(&file) == vec![5; 20_000]);
    // Of another volume.
    let (other_device, other) = fresh(&specification(KINDS[0], 32 * MIB));
    let foreign = new(&other, "file");
    let error = file.copy_range(0, (&foreign, 0), 1, RunRights::End).expect_err("foreign");
    assert_eq!(error.errno(), 22);
    drop((file, foreign));
    finish(&device, volume);
    finish(&other_device, other);
}

#[test]
fn two_threads_that_copy_each_others_files_end() {
    let specification = Specification::new(extant_engine::mkfs::Profile::Ext4, 1024, 32 * MIB);
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let (one, other) = (new(&volume, "one"), new(&volume, "other"));
    one.write_all_at(0, &[1; 100_000]).expect("writes");
    other.write_all_at(0, &[2; 100_000]).expect("writes");
    std::thread::scope(|scope| {
        for (to, from) in [(&one, &other), (&other, &one)] {
            scope.spawn(move || {
                for _ in 0..200 {
                    copy(to, 0, (from, 0), 100_000);
                }
            });
        }
    });
    for file in [&one, &other] {
        let bytes = content(file);
        assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| [1, 2].contains(byte)));
    }
    drop((one, other));
    finish(&device, volume);
}
