//! `turns`: ours. Those who wait and write-back have the device in turn, by time alone; write-back
//! goes on where its last slice ended, the device never holds much of it, and flushes wait for
//! nothing ([`FlushOrder::AtOnce`](super::FlushOrder)).
use super::fair::{
    Class, FairQueues, IdleAfter, InsideLimit, Preemption, Rules, Seekers, SliceClock, Sweep,
};
use super::{ElevatorEntry, ElevatorParameter, FlushOrder, NS_PER_MS, number_of};

// A change of turns costs two seeks, some 25 ms of a disk: 8 % of a round of 300 ms. Write-back has
// four fifths of it, so that a writer keeps most of its rate, and those who wait get their turn
// four times a second.
const PARAMETERS: &[ElevatorParameter] = &[
    parameter("awaited_ms", 60),
    parameter("background_ms", 240),
    // One command under the head and one that the drive can prepare for.
    parameter("quantum", 2),
    // What a program computes between two reads; as CFQ. Nothing after a write.
    parameter("idle_ms", 8),
    // No write waits longer than until the next commit.
    parameter("expire_ms", 5000),
];

pub(super) const ENTRY: ElevatorEntry = ElevatorEntry {
    name: "turns",
    summary: "ours: those who wait and write-back in turn; write-back continues its sweep, and the \
        device never holds much of it",
    parameters: PARAMETERS,
    flush: FlushOrder::AtOnce,
    build: |numbers| {
        let number = |index| number_of(PARAMETERS, numbers, index);
        let ns = |index| number(index) * NS_PER_MS;
        Box::new(FairQueues::new(Rules {
            sync: Class { slice_ns: ns(0), expire_ns: ns(4) },
            background: Class { slice_ns: ns(1), expire_ns: ns(4) },
            idle_ns: ns(3),
            clock: SliceClock::Turn,
            batch: 1,
            inside: match number(2) {
                0 => InsideLimit::None,
                quantum => InsideLimit::Commands { quantum, beside_awaited: 1 },
            },
            preemption: Preemption::InTurn,
            background_commands: u64::MAX,
            seekers: Seekers::AsOthers,
            idle_after: IdleAfter::Reads,
            sweep: Sweep::GoesOn,
            ..Rules::default()
        }))
    },
};

const fn parameter(name: &'static str, default: u64) -> ElevatorParameter {
    ElevatorParameter { name, default, min: 0, max: 1_000_000_000 }
}
