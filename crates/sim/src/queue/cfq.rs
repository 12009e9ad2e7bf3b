//! `cfq-2.6.20` and `cfq-2.6.23`: Linux's completely fair queueing before and after it was
//! rewritten for drives with a queue of their own.
//!
//! Both give slices of 100 ms in turn to each stream that waits for its commands, and of 40 ms to
//! all commands that no thread waits for. Reads and awaited writes count as awaited. A slice begins
//! with its queue's oldest command, if that is 125 ms old (250 ms, of the others). A stream that
//! has its slice and nothing waiting keeps the device until its commands have ended and 8 ms more,
//! if it is known to come back that soon; 2 ms if its mean seek exceeds 64 MiB, and not at all once
//! the drive is known to have a queue: more than 4 commands were inside. The next command of a
//! queue is the nearest one to its last: upwards, or at most 16 MiB downwards, which count twice;
//! what is wanted of directories and inodes comes before anything else of its queue (since 2.6.19).
//! Where they differ:
//!
//! | | 2.6.20 | 2.6.23 |
//! | --- | --- | --- |
//! | a slice's time runs | from its first command | from the first one that ends |
//! | write-back in the drive | any number, 4 at a time | 4 if another queue waits, else 16 |
//! | write-back while an awaited command is in the drive | goes on | none |
//! | a stream that begins to wait in a slice of write-back | waits for its turn | is next, at once |
//! | a stream that wants metadata, in the slice of one that has none waiting | the same | the same |
//! | one that wants what is near, while the device is kept for another | the same | the same |
//! | a slice of write-back ends | after 40 ms or 16 commands | after 40 ms |
//! | an idle device is kept for a stream with commands inside | always | if it is waited for |
//!
//! So up to 2.6.20 a drive of 31 commands is filled with write-back, and a read comes after that;
//! from 2.6.23 on it comes after 4 to 16 writes, and then the stream has its slice alone.
//!
//! 16 is what CFQ's formula makes of 2 commands (`slice_async_rq`) for the usual priority. Not
//! modelled: priorities.
use super::fair::{
    Back, Class, FairQueues, IdleAfter, InsideLimit, Metadata, Preemption, Rules, Seekers,
    SliceClock, Sweep,
};
use super::{ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, number_of};

const PARAMETERS_20: &[ElevatorParameter] = &[
    parameter("slice_sync_ms", 100),
    parameter("slice_async_ms", 40),
    parameter("idle_ms", 8),
    parameter("expire_sync_ms", 125),
    parameter("expire_async_ms", 250),
    ElevatorParameter { name: "quantum", default: 4, min: 1, max: 65_536 },
    parameter("back_seek_max_kib", 16_384),
    ElevatorParameter { name: "slice_async_commands", default: 2, min: 1, max: 65_536 },
];

const PARAMETERS_23: &[ElevatorParameter] = &[
    parameter("slice_sync_ms", 100),
    parameter("slice_async_ms", 40),
    parameter("idle_ms", 8),
    parameter("expire_sync_ms", 125),
    parameter("expire_async_ms", 250),
    ElevatorParameter { name: "quantum", default: 4, min: 1, max: 65_536 },
    parameter("back_seek_max_kib", 16_384),
];

/// How many times as much as upwards the way downwards counts (`back_seek_penalty`).
const BACK_PENALTY: u64 = 2;
/// Commands of a slice of write-back for each of `slice_async_commands`, for the usual priority.
const COMMANDS_OF_USUAL_PRIORITY: u64 = 8;

pub(super) const BEFORE: ElevatorEntry = ElevatorEntry {
    name: "cfq-2.6.20",
    summary: "Linux 2.6.18 to 2.6.20: slices of time for each stream that waits, and for all \
        write-back together, which fills the drive's own queue",
    parameters: PARAMETERS_20,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        let number = |index| number_of(PARAMETERS_20, numbers, index);
        let rules = Rules {
            clock: SliceClock::FirstSent,
            batch: number(5),
            inside: InsideLimit::None,
            preemption: Preemption::Never,
            background_commands: number(7) * COMMANDS_OF_USUAL_PRIORITY,
            idle_after: IdleAfter::AllInside,
            ..rules(number)
        };
        Box::new(FairQueues::new(rules))
    },
};

pub(super) const AFTER: ElevatorEntry = ElevatorEntry {
    name: "cfq-2.6.23",
    summary: "Linux 2.6.22 to 2.6.24: the same, with little write-back in the drive, none beside \
        a read, and a slice that ends when a stream begins to wait",
    parameters: PARAMETERS_23,
    flush: FlushOrder::AfterArrived,
    build: |numbers| {
        let number = |index| number_of(PARAMETERS_23, numbers, index);
        let rules = Rules {
            clock: SliceClock::FirstEnded,
            batch: 1,
            inside: InsideLimit::Commands { quantum: number(5), beside_awaited: 0 },
            preemption: Preemption::AtOnce,
            background_commands: u64::MAX,
            idle_after: IdleAfter::All,
            ..rules(number)
        };
        Box::new(FairQueues::new(rules))
    },
};

/// What both have in common, by the first seven numbers.
fn rules(number: impl Fn(usize) -> u64) -> Rules {
    let ns = |index| number(index) * NS_PER_MS;
    Rules {
        sync: Class { slice_ns: ns(0), expire_ns: ns(3) },
        background: Class { slice_ns: ns(1), expire_ns: ns(4) },
        idle_ns: ns(2),
        seekers: Seekers::Impatient,
        sweep: Sweep::GoesOn,
        metadata: Metadata::First,
        back: Back { bytes_max: number(6).saturating_mul(1024), penalty: BACK_PENALTY },
        ..Rules::default()
    }
}

const fn parameter(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1_000_000_000 }
}
