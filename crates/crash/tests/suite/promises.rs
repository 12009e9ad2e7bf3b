//! A share of the cuts, for every commit; `cargo run --bin xtask -- crash` has the rest. More by
//! hand: `EXTANT_CRASH_STATES=100000`, `EXTANT_CRASH_SEQUENCES=500`,
//! `EXTANT_CRASH_SCHEDULES=10000`.

use extant_crash::campaign::{Journal, Plan, Report, SequencePlan, processes, sequences};
use extant_crash::examine::Judges;
use extant_crash::random::Pace;
use extant_crash::verdict::Bytes;
use extant_testkit::oracle;
use extant_testkit::variables::number;

fn judges() -> Judges {
    let e2fsck_one_in = if oracle::require("e2fsck") { 8 } else { 0 };
    Judges { e2fsck_one_in, second_cut_one_in: 4, bytes: Bytes::Own }
}

fn plan(seed: u64, states: u64) -> Plan {
    Plan {
        seed,
        states,
        states_each: 60,
        enough: 20,
        steps: [12, 80],
        pace: Pace::Mixed,
        journal: Journal::Ordered,
        judges: judges(),
    }
}

fn holds(report: &Report) {
    assert!(report.states() > 0 && report.wrong_states() == 0, "{report}");
}

fn processes_hold(seed: u64) {
    let plan = plan(seed, number("EXTANT_CRASH_STATES") / 2);
    holds(&processes(&plan, |_| ()).expect("volumes are made"));
}

#[test]
fn four_processes_keep_their_promises() {
    processes_hold(1);
}

#[test]
fn four_other_processes_keep_theirs() {
    processes_hold(1_000_001);
}

#[test]
fn short_sequences_keep_their_promises() {
    let count = number("EXTANT_CRASH_SEQUENCES") as usize;
    let plan = SequencePlan {
        seed: 1,
        of_one: count,
        of_two: count,
        subsets: 4,
        journal: Journal::Ordered,
        judges: judges(),
    };
    for setting in plan.journal.settings() {
        holds(&sequences(&plan, &setting, |_| ()).expect("a volume is made"));
    }
}

/// Many syncs in the least log: commits, checkpoints and processes in every order that a seed
/// draws. A deadlock or a panic is a wrong history.
#[test]
fn schedules_of_commits_and_checkpoints_end_and_hold() {
    let schedules = number("EXTANT_CRASH_SCHEDULES");
    let plan = Plan {
        states_each: 3,
        pace: Pace::Busy,
        steps: [12, 300],
        ..plan(2_000_001, schedules * 3)
    };
    holds(&processes(&plan, |_| ()).expect("volumes are made"));
}

/// `journal=writeback` promises less, and the checker sees the difference.
#[test]
fn writeback_shows_old_blocks_and_nothing_else() {
    let allowed = Judges { bytes: Bytes::Stale, ..judges() };
    let plan = Plan { journal: Journal::Writeback, judges: allowed, ..plan(1, 2000) };
    holds(&processes(&plan, |_| ()).expect("volumes are made"));
    let strict = Plan { judges: judges(), ..plan };
    let report = processes(&strict, |_| ()).expect("volumes are made");
    assert!(report.wrong_states() > 0, "no file shows an old block in {} states", report.states());
}
