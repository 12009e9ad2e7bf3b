//! Reads of neighbours: what is read ahead after small reads, and that no reader gets bytes older
//! than a write.
use extant_block::traced::Record;
use extant_block::{BlockDevice, MemoryDevice, Neighbours, Operation, RealClock, Traced};
use proptest::prelude::*;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const BYTES: u64 = 16 << 20;

/// A device that remembers what it was asked for, with neighbours before it.
struct Bench {
    traced: Arc<Traced<MemoryDevice>>,
    neighbours: Neighbours,
}

impl Bench {
    fn new() -> Bench {
        let traced = Arc::new(Traced::new(MemoryDevice::new(RealClock::new(), BYTES)));
        let neighbours = Neighbours::new(Arc::clone(&traced) as Arc<dyn BlockDevice>, 1 << 20);
        Bench { traced, neighbours }
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
fn large_reads_pass_by_and_the_end_of_the_device_is_minded() {
    let bench = Bench::new();
    bench.read(0, 256 * KIB);
    bench.read(256 * KIB, 256 * KIB);
    assert_eq!(bench.reads(), [(0, 256), (256, 256)]);
    bench.read(BYTES - 24 * KIB, 4 * KIB);
    bench.read(BYTES - 16 * KIB, 4 * KIB);
    let end = BYTES / KIB;
    assert_eq!(bench.reads(), [(end - 24, 4), (end - 16, 4), (end - 12, 12)]);
    bench.read(BYTES - 12 * KIB, 12 * KIB);
    assert_eq!(bench.reads(), [], "this is in memory");
    let mut past = [0; 4096];
    assert!(bench.neighbours.read(BYTES - KIB, &mut past).is_err());
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
    fn what_is_read_is_what_was_written_last(steps in steps()) {
        let bench = Bench::new();
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
