//! Recovery that is itself cut, or whose device fails, is recovered again: the same bytes.
use crate::volumes;

use extant_block::{BlockDevice, MemoryDevice};
use extant_format::superblock::Feature;
use extant_journal::apply;
use extant_sim::{CrashLog, Fault, Faulty};
use std::sync::Arc;
use volumes::{LogWriter, change_superblock, fresh, tools};

/// What Linux may have noted in a log: nothing, and `EIO`. An error is handed to the volume first,
/// with a flush of its own, after which a missing one does not show.
const ERRORS: [i32; 2] = [0, -5];

/// A volume of which the log has copies in several runs, revokes, perhaps an error, and itself a
/// copy of the superblock.
fn volume(features: &str, error: i32) -> Arc<MemoryDevice> {
    let device = fresh(features, 1024);
    change_superblock(&*device, |volume| volume.features.set(Feature::NEEDS_RECOVERY));
    let mut log = LogWriter::new(&device, 4000, 1, |journal| journal.error = error);
    let superblock = log.block(&*device, 1);
    let copies: Vec<(u64, Vec<u8>)> =
        (0..120).map(|n| (25_000 + n * (1 + n % 3), log.filled(n as u8 + 1))).collect();
    log.transaction(&copies, &[]);
    log.transaction(&[(1, superblock), (25_003, log.filled(200))], &[25_001]);
    device
}

/// What the volume holds after recovery where recovery writes. Not a part of it: the sequence with
/// which the log goes on.
fn result_of(device: Arc<MemoryDevice>) -> Vec<u8> {
    apply(Arc::clone(&device) as _).expect("it is recovered");
    let journal = volumes::journal(&device);
    assert!(!journal.volume().has(Feature::NEEDS_RECOVERY) && journal.superblock().is_empty());
    let superblock = journal.place(0..1).start.0;
    let mut all = Vec::new();
    for (block, count) in [(0, 4), (superblock, 1), (25_000, 400)] {
        let mut bytes = vec![0; count * 1024];
        device.read(block * 1024, &mut bytes).expect("it can be read");
        if block == superblock {
            // The sequence, and the checksum over it.
            bytes[24..28].fill(0);
            bytes[0xfc..0x100].fill(0);
        }
        all.extend(bytes);
    }
    all
}

#[test]
fn a_cut_at_any_write_of_recovery_and_any_subset_is_recovered_again() {
    if !tools() {
        return;
    }
    let [none, eio] = ERRORS;
    let (modern, plain) = ("metadata_csum,64bit", "^metadata_csum,^64bit");
    for (features, error) in [(modern, none), (modern, eio), (plain, none)] {
        let base = volume(features, error);
        let expected = result_of(Arc::new(base.snapshot()));
        let log = Arc::new(CrashLog::new(base.snapshot()));
        apply(Arc::clone(&log) as _).expect("it is recovered");
        let moments = log.moments();
        assert!(moments > 20, "{moments}");
        for moment in 0..=moments {
            let cut = log.cut(moment);
            let mut media = vec![cut.prefix(&base), cut.durable(&base)];
            media.extend((0..8).map(|seed| cut.subset(&base, 512, seed * 1000 + moment as u64)));
            for (number, medium) in media.into_iter().enumerate() {
                let medium = Arc::new(medium.expect("a medium"));
                let result = result_of(medium);
                let differ = (0..result.len()).find(|at| result[*at] != expected[*at]);
                assert_eq!(
                    differ, None,
                    "{features}, error {error}: moment {moment}, medium {number}"
                );
            }
        }
    }
}

#[test]
fn a_device_that_fails_at_any_write_or_flush_is_recovered_again() {
    if !tools() {
        return;
    }
    for error in ERRORS {
        fails_at_any_write(&volume("metadata_csum,64bit", error));
    }
}

fn fails_at_any_write(base: &MemoryDevice) {
    let expected = result_of(Arc::new(base.snapshot()));
    for number in 1.. {
        for only_one in [true, false] {
            let device = Arc::new(Faulty::new(base.snapshot()));
            device.add(match only_one {
                true => Fault::NthWrite(number),
                false => Fault::WritesAfter(number - 1),
            });
            if let Ok(report) = apply(Arc::clone(&device) as _) {
                assert_eq!(report.transactions, 2);
                assert!(number > 10, "only {number} writes");
                return;
            }
            let device = Arc::into_inner(device).expect("the only one");
            let result = result_of(Arc::new(device.device().snapshot()));
            assert!(result == expected, "write {number}");
        }
    }
}

#[test]
fn a_flush_that_fails_leaves_the_log() {
    if !tools() {
        return;
    }
    let base = volume("metadata_csum,64bit", -5);
    let device = Arc::new(Faulty::new(base.snapshot()));
    device.add(Fault::Flushes);
    apply(Arc::clone(&device) as _).expect_err("flushes fail");
    let medium = Arc::new(device.device().snapshot());
    assert_eq!(volumes::journal(&medium).superblock().start, 4000);
    // Blocks that the log does not need may be bad: reading ahead of its end fails alone.
    let end = volumes::journal(&base).place(200..201).start.0 * 1024;
    let device = Arc::new(Faulty::new(base.snapshot()));
    device.add(Fault::ReadsIn(end..end + 1024));
    let device: Arc<dyn BlockDevice> = device;
    assert_eq!(apply(device).expect("the log is before it").transactions, 2);
}
