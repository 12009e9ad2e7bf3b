//! The log of what a power cut could do: it is a device like any other, and its cuts find what the
//! fault model allows.
use crate::abilities::Ability::{Discard, Durable, Remembered};
use crate::abilities::{PROBE_BYTES, passes_on};
use crate::checks::{BYTES, SubmitOnly, contract, read};
use extant_block::*;
use extant_sim::{CrashLog, Fault, Faulty};
use std::sync::Arc;

fn memory(bytes: u64) -> MemoryDevice {
    MemoryDevice::new(RealClock::new(), bytes)
}

#[test]
fn it_is_a_device() {
    contract(CrashLog::new(memory(BYTES)));
    contract(CrashLog::new(SubmitOnly(memory(BYTES))));
}

#[test]
fn it_passes_on_what_can_be_logged() {
    let whole = 0..PROBE_BYTES;
    passes_on(&[Durable, Remembered, Discard], whole, |probe| Box::new(CrashLog::new(probe)));
}

/// A log over 64 KiB of zeros, and the zeros.
fn logged() -> (CrashLog<MemoryDevice>, MemoryDevice) {
    (CrashLog::new(memory(64 << 10)), memory(64 << 10))
}

fn byte(medium: &MemoryDevice, offset: u64) -> u8 {
    read(medium, offset, 1)[0]
}

#[test]
fn what_was_flushed_survives_and_what_came_after_may() {
    let (log, base) = logged();
    log.write(0, &[1; 512]).unwrap();
    log.write(512, &[2; 512]).unwrap();
    log.flush().unwrap();
    log.write(1024, &[3; 512]).unwrap();
    let cut = log.cut(log.moments());
    assert_eq!(cut.loose(), 1);
    let medium = cut.durable(&base).unwrap();
    assert_eq!([0, 512, 1024].map(|at| byte(&medium, at)), [1, 2, 0]);
    let medium = cut.prefix(&base).unwrap();
    assert_eq!([0, 512, 1024].map(|at| byte(&medium, at)), [1, 2, 3]);
    // Before the flush had ended nothing was certain.
    let cut = log.cut(4);
    assert_eq!(cut.loose(), 2);
    assert_eq!(log.cut(0).loose(), 0);
    assert_eq!(byte(&log.cut(0).prefix(&base).unwrap(), 0), 0);
}

#[test]
fn a_flush_covers_what_had_completed_when_it_began_and_no_more() {
    /// Keeps requests until the test ends them.
    struct Slow(MemoryDevice, ShortLock<Vec<Request>>);
    impl BlockDevice for Slow {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }
        fn clock(&self) -> &Arc<dyn Clock> {
            self.0.clock()
        }
        fn submit(&self, request: Request) {
            self.1.lock().push(request);
        }
        fn capabilities(&self) -> Capabilities<'_> {
            Capabilities::NONE
        }
    }
    let log = CrashLog::new(Slow(memory(4096), ShortLock::default()));
    let ask = |operation, offset, segments| {
        log.submit(Request {
            operation,
            offset,
            segments,
            urgency: Urgency::Background,
            completion: Box::new(|completed| completed.result.unwrap()),
        });
    };
    let end = |at: usize| {
        let request = log.device().1.lock().remove(at);
        log.device().0.submit(request);
    };
    ask(Operation::Write, 0, vec![Segment::Owned(vec![1; 512])]);
    ask(Operation::Write, 512, vec![Segment::Owned(vec![2; 512])]);
    end(0);
    ask(Operation::Flush, 0, Vec::new());
    end(0); // the second write, after the flush began
    end(0); // the flush
    let cut = log.cut(log.moments());
    assert_eq!(cut.loose(), 1, "the second write completed too late for this flush");
    let medium = cut.durable(&memory(4096)).unwrap();
    assert_eq!((byte(&medium, 0), byte(&medium, 512)), (1, 0));
}

#[test]
fn a_forced_write_is_durable_alone() {
    let (log, base) = logged();
    log.write(0, &[1; 512]).unwrap();
    log.write_durable(512, &[2; 512]).unwrap();
    let medium = log.cut(log.moments()).durable(&base).unwrap();
    assert_eq!((byte(&medium, 0), byte(&medium, 512)), (0, 2));
}

#[test]
fn writes_are_torn_at_sectors_and_keep_their_order_within_one() {
    let (log, base) = logged();
    log.write(0, &[1; 8192]).unwrap();
    log.write(4096, &[2; 4096]).unwrap();
    let cut = log.cut(log.moments());
    let (mut torn, mut orders) = (0, 0);
    for seed in 0..500 {
        let medium = cut.subset(&base, 512, seed).unwrap();
        let sectors: Vec<u8> = (0..16).map(|sector| byte(&medium, sector * 512)).collect();
        for sector in 0..16 {
            let whole = read(&medium, sector * 512, 512);
            assert!(whole.iter().all(|byte| *byte == whole[0]), "seed {seed}: half a sector");
        }
        assert!(sectors[..8].iter().all(|byte| *byte < 2), "seed {seed}: {sectors:?}");
        torn += u32::from(sectors[..8].contains(&0) && sectors[..8].contains(&1));
        // The first write alone, the second alone, or the second over the first: all are possible.
        orders |= sectors[8..].iter().fold(0, |seen, byte| seen | 1 << byte);
        assert_eq!(
            read(&cut.subset(&base, 512, seed).unwrap(), 0, 8192),
            read(&medium, 0, 8192),
            "one seed, one result"
        );
    }
    assert!(torn > 50, "{torn}");
    assert_eq!(orders, 0b111);
    let medium = cut.subset(&base, 4096, 3).unwrap();
    for sector in 0..2 {
        let whole = read(&medium, sector * 4096, 4096);
        assert!(whole.iter().all(|byte| *byte == whole[0]), "a sector of 4 KiB is whole");
    }
    assert!(cut.image(&base, 0, |_, _| true).is_err());
}

#[test]
fn what_failed_is_never_certain() {
    let log = CrashLog::new(Faulty::new(memory(4096)));
    log.device().add(Fault::NthWrite(1));
    assert!(log.write(0, &[1; 512]).is_err());
    log.flush().unwrap();
    assert_eq!(log.cut(log.moments()).loose(), 1);
}
