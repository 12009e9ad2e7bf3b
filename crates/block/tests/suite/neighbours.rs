//! Reads of neighbours: what is read ahead after small reads, and that no reader gets bytes older
//! than a write.
use extant_block::paced::Limits;
use extant_block::traced::Record;
use extant_block::{BlockDevice, MemoryDevice, Neighbours, Operation, Paced, RealClock, Traced};
use proptest::prelude::*;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const BYTES: u64 = 16 << 20;

/// A device that remembers what it was asked for, with neighbours before it.
struct Bench {
    traced: Arc<Traced<MemoryDevice>>,
    neighbours: Box<dyn BlockDevice>,
}

impl Bench {
    fn new() -> Bench {
        let traced = Arc::new(Traced::new(MemoryDevice::new(RealClock::new(), BYTES)));
        let neighbours = Neighbours::new(Arc::clone(&traced) as Arc<dyn BlockDevice>, 1 << 20);
        Bench { traced, neighbours: Box::new(neighbours) }
    }

    /// With windows as for a device that is far away, whatever this one is worth.
    fn far() -> Bench {
        let traced = Arc::new(Traced::new(MemoryDevice::new(RealClock::new(), BYTES)));
        let limits = Limits { stretch_bytes_max: 0, memory_bytes: 1 << 20 };
        let paced = Paced::new(Arc::clone(&traced) as Arc<dyn BlockDevice>, limits);
        let bench = Bench { traced, neighbours: Box::new(paced) };
        // It is known after a few reads.
        (0..4).for_each(|number| drop(bench.read(number << 20, 512)));
        bench.reads();
        bench
    }

    fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let mut read = vec![0; bytes as usize];
        self.neighbours.read(offset, &mut read).expect("it lies within the device");
        read
    }

    /// The reads of the device since the last call, as first KiB and number of KiB.
    fn reads(&self) -> Vec<(u64, u64)> {
        let records = self.traced.take_records();
        let reads = records.iter().filter(|record| record.operation == Operation::Read);
        reads.map(|Record { offset, bytes, .. }| (offset / KIB, bytes / KIB)).collect()
    }
}

#[test]
fn a_walk_reads_stretches_that_double_and_single_reads_nothing_more() {
    let bench = Bench::new();
    bench.read(0, 4 * KIB);
    assert_eq!(bench.reads(), [(0, 4)], "one read is no walk");
    bench.read(8 * KIB, 4 * KIB);
    assert_eq!(bench.reads(), [(8, 4), (12, 64)], "the second one near it is");
    bench.read(12 * KIB, 4 * KIB);
    bench.read(70 * KIB, 4 * KIB);
    assert_eq!(bench.reads(), [], "these are in memory");
    bench.read(80 * KIB, 4 * KIB);
    assert_eq!(bench.reads(), [(80, 4), (84, 128)], "a stretch that was used doubles");
    bench.read(10 << 20, 4 * KIB);
    assert_eq!(bench.reads(), [(10240, 4)], "far away another walk may begin");
    bench.read(84 * KIB, 4 * KIB);
    assert_eq!(bench.reads(), [], "and the first one goes on");
}

#[test]
fn a_walk_that_goes_back_and_forth_fills_what_lies_between() {
    let bench = Bench::new();
    bench.read(200 * KIB, 4 * KIB);
    bench.read(40 * KIB, 4 * KIB);
    assert_eq!(bench.reads(), [(200, 4), (40, 4), (44, 156)]);
    for kib in [100, 48, 196, 120] {
        bench.read(kib * KIB, 4 * KIB);
    }
    assert_eq!(bench.reads(), []);
}

#[test]
fn two_walks_are_told_apart() {
    let bench = Bench::new();
    let far = 8 << 20;
    for step in 0..8 {
        bench.read(step * 8 * KIB, 4 * KIB);
        bench.read(far + step * 8 * KIB, 4 * KIB);
    }
    let expected = [(0, 4), (8192, 4), (8, 4), (12, 64), (8200, 4), (8204, 64)];
    assert_eq!(bench.reads(), expected, "all that follows is in memory");
}

#[test]
fn stretches_that_nobody_uses_end() {
    let bench = Bench::new();
    // Each read is near the one before, and after all that was read.
    for step in 0..6 {
        bench.read(step * 200 * KIB, 4 * KIB);
    }
    let behind: u64 = bench.reads().iter().map(|(_, kib)| kib).sum::<u64>() - 6 * 4;
    assert!(behind <= 3 * 64, "{behind} KiB were read for nothing");
}

#[test]
fn large_reads_pass_by_and_the_end_of_the_device_is_minded() {
    let bench = Bench::new();
    bench.read(0, 256 * KIB);
    bench.read(256 * KIB, 256 * KIB);
    assert_eq!(bench.reads(), [(0, 256), (256, 256)]);
    bench.read(BYTES - 24 * KIB, 4 * KIB);
    bench.read(BYTES - 16 * KIB, 4 * KIB);
    let end = BYTES / KIB;
    assert_eq!(bench.reads(), [(end - 24, 4), (end - 16, 4), (end - 12, 12)]);
    let mut past = [0; 4096];
    assert!(bench.neighbours.read(BYTES - KIB, &mut past).is_err());
}

#[test]
fn windows_of_a_device_far_away_serve_large_reads_too() {
    let bench = Bench::far();
    bench.read(8 << 20, 4 * KIB);
    bench.read((8 << 20) + 4 * KIB, 4 * KIB);
    bench.reads();
    bench.read((8 << 20) + 8 * KIB, 32 * KIB);
    let walked = bench.reads();
    assert!(walked.iter().all(|(kib, _)| *kib > (8 << 10) + 40), "{walked:?} was read ahead");
}

#[derive(Clone, Debug)]
enum Step {
    Read { kib: u64, count: u64 },
    Write { kib: u64, count: u64, byte: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..2000u64, 1..40u64);
    let read = place().prop_map(|(kib, count)| Step::Read { kib, count });
    let write =
        (place(), any::<u8>()).prop_map(|((kib, count), byte)| Step::Write { kib, count, byte });
    // Walks, so that stretches come about.
    let walk = (0..1900u64, 1..5u64)
        .prop_map(|(kib, count)| Step::Read { kib: kib / 100 * 100 + count * 8, count: 4 });
    prop::collection::vec(prop_oneof![1 => read, 2 => write, 4 => walk], 1..120)
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written_last(steps in steps(), is_far in any::<bool>()) {
        let bench = if is_far { Bench::far() } else { Bench::new() };
        let mut model = vec![0u8; BYTES as usize];
        for step in steps {
            match step {
                Step::Read { kib, count } => {
                    let range = (kib * KIB) as usize..((kib + count) * KIB) as usize;
                    let read = bench.read(kib * KIB, count * KIB);
                    prop_assert!(read == model[range], "{kib} {count}");
                }
                Step::Write { kib, count, byte } => {
                    let range = (kib * KIB) as usize..((kib + count) * KIB) as usize;
                    model[range.clone()].fill(byte);
                    bench.neighbours.write(kib * KIB, &model[range]).expect("written");
                }
            }
        }
    }
}

#[test]
fn a_write_that_is_forced_is_seen_by_what_was_read_ahead() {
    for bench in [Bench::new(), Bench::far()] {
        // A walk: what follows is in memory.
        (0..4).for_each(|at| drop(bench.read(at * 8 * KIB, 4 * KIB)));
        let at = 40 * KIB;
        assert_eq!(bench.read(at, 512), [0; 512]);
        bench.reads();
        assert_eq!(bench.read(at + 512, 512), [0; 512]);
        assert_eq!(bench.reads(), [], "it was read ahead");
        bench.neighbours.write_durable(at, &[7; 1024]).expect("writes");
        assert_eq!(bench.read(at, 1024), [7; 1024]);
    }
}
