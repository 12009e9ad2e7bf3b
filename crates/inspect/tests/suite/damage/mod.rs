//! One damaged volume for each problem that the check knows: the exact list of what it reports, the
//! same with one thread and with four, and e2fsck is not silent either.
//!
//! Volumes are made by mke2fs and debugfs, and damaged byte by byte. `harness` has the volumes and
//! the ways into them; each other module has the cases of its part of the check.
mod attributes;
mod causes;
mod groups;
pub mod harness;
mod inodes;
mod leftover;
mod names;
mod random;
mod volume;

use extant_inspect::CODES;
use extant_testkit::oracle::require;
use harness::Case;
use std::collections::BTreeSet;

/// The cases of all parts.
const PARTS: &[(&str, &[Case])] = &[
    ("volume", volume::CASES),
    ("groups", groups::CASES),
    ("inodes", inodes::CASES),
    ("attributes", attributes::CASES),
    ("leftover", leftover::CASES),
    ("names", names::CASES),
];

/// One damage has one cause in so many of a hundred cases, at least.
const ONE_ROOT_PERCENT: usize = 90;

/// Cases in which e2fsck exits otherwise, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("a device cut short", "e2fsck asks, gets a no, and forgets it"),
    (
        "a copy of the descriptors of a meta group",
        "e2fsck is content with the copy, but the kernel does not mount the volume",
    ),
    ("an error in the journal", "e2fsck tries to clear it, although it must not write, and fails"),
];

/// Codes that take a volume of terabytes: crates/cli/tests/program/commands/claims.rs has their
/// cases.
const ELSEWHERE: [&str; 3] = ["too-many-groups", "directories-too-big", "journal-cut"];

#[test]
fn every_damage_is_reported_exactly() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let mut wrong = Vec::new();
    let (mut cases_at_all, mut several) = (0, Vec::new());
    for (part, cases) in PARTS {
        for case in *cases {
            let (faults, roots) = case.judge();
            cases_at_all += 1;
            if roots > 1 {
                several.push(case.name);
            }
            wrong.extend(
                faults
                    .into_iter()
                    .filter(|fault| {
                        let excused = DIFFERENT.iter().any(|(name, _)| *name == case.name);
                        !(excused && fault.starts_with("e2fsck exits"))
                    })
                    .map(|fault| format!("{part}, {}: {fault}", case.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("{} of {cases_at_all} have several roots: {several:?}", several.len());
    assert!((cases_at_all - several.len()) * 100 >= cases_at_all * ONE_ROOT_PERCENT);
}

#[test]
fn every_code_has_its_case() {
    let expected = PARTS.iter().flat_map(|(_, cases)| *cases).flat_map(|case| case.problems);
    let expected: BTreeSet<&str> =
        expected.filter_map(|problem| problem.split_once(": ").map(|(code, _)| code)).collect();
    let known: BTreeSet<&str> = CODES.iter().map(|rule| rule.name).collect();
    let unknown: Vec<_> = expected.difference(&known).collect();
    assert!(unknown.is_empty(), "no such codes: {unknown:?}");
    let missing = known.difference(&expected).filter(|code| !ELSEWHERE.contains(code));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no case: {missing:?}");
}
