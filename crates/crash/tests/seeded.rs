//! Mistakes made on purpose: each is found by the share of the cuts that every commit runs. A
//! program of its own, because a mistake is made in the whole process.

use extant_crash::campaign::{Journal, Plan, Progress, processes};
use extant_crash::examine::Judges;
use extant_crash::random::Pace;
use extant_crash::verdict::Bytes;
use extant_engine::seeded::{Bug, plant};

/// States at most until a mistake is found: as many as `promises` examines.
const STATES: u64 = 3000;

/// What shows one of them: what processes do, from a seed on.
fn plan(bug: Bug, seed: u64) -> Plan {
    let (journal, pace) = match bug {
        Bug::TailBeforeCheckpoint | Bug::CheckpointOfUncommitted | Bug::RevokeMissing => {
            (Journal::Ordered, Pace::Busy)
        }
        _ => (Journal::Ordered, Pace::Mixed),
    };
    // Before a volume is closed, a checkpoint comes only where the log is nearly full, and only the
    // moments between it and the next commit show this one: long histories, cut often.
    let (steps, states_each) = match bug {
        Bug::CheckpointOfUncommitted => ([400, 400], 500),
        _ => ([12, 80], 60),
    };
    Plan {
        seed,
        steps,
        enough: 1,
        states: STATES,
        states_each,
        pace,
        journal,
        judges: Judges { e2fsck_one_in: 0, second_cut_one_in: 8, bytes: Bytes::Own },
    }
}

/// The seeds that are tried, one after the other. Data that is not waited for shows only where a
/// commit comes before the write's end, which few histories have.
fn seeds(bug: Bug) -> &'static [u64] {
    match bug {
        Bug::DataNotWaitedFor => &[1, 1000, 2000, 3000, 4000, 5000, 6000, 7000],
        _ => &[1],
    }
}

#[test]
fn each_mistake_is_found() {
    let mut unseen = Vec::new();
    for bug in Bug::ALL {
        let mut first = None;
        for seed in seeds(bug) {
            // Made while processes live, not by the recovery that is to show it.
            let report = processes(&plan(bug, *seed), |progress| match progress {
                Progress::Begins => plant(Some(bug)),
                Progress::Lived => plant(None),
                Progress::Examined(report) if report.wrong_states() > 0 => {
                    first.get_or_insert(report.states());
                }
                Progress::Examined(_) => {}
            });
            let report = report.expect("volumes are made");
            println!("{bug:?}, seed {seed}: {first:?} of {} states", report.states());
            if let Some(wrong) = report.wrong.first() {
                println!("  {}: {}", wrong.place, wrong.reason.lines().next().unwrap_or_default());
                break;
            }
        }
        if first.is_none() {
            unseen.push(bug);
        }
    }
    assert!(unseen.is_empty(), "{unseen:?} are not found");
}
