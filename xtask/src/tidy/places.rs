//! The files that the rules make exceptions for, in one place, so that a file that moves is changed
//! here and nowhere else.

use super::source::{Finding, Place, Source};

/// This file, where what is out of date is found.
const THIS: &str = "xtask/src/tidy/places.rs";

/// What gives bytes to a device: the devices themselves; the store, which every write of a mounted
/// volume goes through; in the engine mkfs, before there is a volume; the bodies of files that
/// the builder streams before the image is opened; recovery, before a volume is opened; and the
/// laboratory, which makes the disks of its experiments.
pub const WRITERS: &[&str] = &[
    "crates/block/",
    "crates/journal/src/recover.rs",
    "crates/journal/src/transaction.rs",
    "crates/store/src/",
    "crates/engine/src/api/mkfs.rs",
    "crates/engine/src/api/mkfs/",
    "crates/image/src/assemble/stream.rs",
    "crates/sim/src/",
    "crates/lab/src/",
];

/// Where the time is read.
pub const CLOCKS: &[&str] = &[
    "crates/block/src/clock.rs",
    "crates/cli/",
    "crates/host/src/progress.rs",
    "crates/names/src/format_options/words.rs",
];

/// Where threads are made and parked: also in the clock of the laboratory, whose processes are
/// threads, and where the builder writes bodies while it reads the next ones.
pub const THREADS: &[&str] = &[
    "crates/block/src/clock.rs",
    "crates/cli/",
    "crates/daemon/src/background.rs",
    "crates/host/src/cleanup.rs",
    "crates/image/src/assemble/stream.rs",
    "crates/sim/src/clock.rs",
];

/// Rules that a part of the tree still breaks: the rule, and how the paths of its findings begin.
/// This list only gets shorter: a row that excuses nothing is a finding itself.
pub const DEBTS: &[(&str, &str)] = &[];

/// The rows of the lists above that name nothing in the repository.
pub fn outdated(sources: &[Source]) -> Vec<Place> {
    let lists = [("WRITERS", WRITERS), ("CLOCKS", CLOCKS), ("THREADS", THREADS)];
    let rows = lists.iter().flat_map(|(list, rows)| rows.iter().map(move |row| (list, row)));
    // Only beside the lists: the samples of the rules are no repository.
    let is_here = sources.iter().any(|source| source.path == THIS);
    rows.filter(|(_, row)| is_here && !sources.iter().any(|source| source.path.starts_with(**row)))
        .map(|(list, row)| Place {
            path: THIS.into(),
            line: 1,
            sentence: format!("{list} has {row}, which is not there"),
        })
        .collect()
}

/// `findings` without those of `debts`, and with one for each debt that excuses nothing.
pub fn without_debts(findings: Vec<Finding>, debts: &[(&str, &str)]) -> Vec<Finding> {
    let owes = |debt: &(&str, &str), finding: &Finding| {
        finding.rule == debt.0 && finding.path.starts_with(debt.1)
    };
    let paid = debts.iter().filter(|debt| !findings.iter().any(|finding| owes(debt, finding)));
    let paid: Vec<Finding> = paid
        .map(|(rule, path)| Finding {
            path: THIS.into(),
            line: 1,
            rule: "debts",
            sentence: format!("{rule} under {path} is paid: take the row out"),
            reason: "the list of debts only gets shorter",
        })
        .collect();
    let mut left = findings;
    left.retain(|finding| !debts.iter().any(|debt| owes(debt, finding)));
    left.extend(paid);
    left
}
