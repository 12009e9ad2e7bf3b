//! One damaged volume for each problem that the check knows: the exact list of what it tells, the same with one thread and
//! with four, and e2fsck is not silent either.
//!
//! Volumes are made by mke2fs and debugfs, and damaged byte by byte. `harness` has the volumes and the ways into them; each
//! other module has the cases of its part of the check.
mod attributes;
mod harness;
mod leftover;
mod names;
mod random;

use extant_inspect::CODES;
use harness::Case;
use std::collections::BTreeSet;
use xtask::oracle::require;

/// The cases of all parts.
const PARTS: &[(&str, &[Case])] = &[
    ("attributes", attributes::CASES),
    ("leftover", leftover::CASES),
    ("names", names::CASES),
];

/// Codes of parts that have no module here yet. Whoever writes a case takes its code off.
const YET: &[&str] = &[
    "bad-metadata",
    "block-bitmap-checksum",
    "block-bitmap-conflict",
    "block-bitmap-padding",
    "block-bitmap-place",
    "blocks-marked-free",
    "blocks-of-metadata",
    "blocks-of-other",
    "blocks-twice-in-file",
    "cluster-alignment",
    "deleted-without-time",
    "descriptor-checksum",
    "descriptors-damaged",
    "device-too-small",
    "directory-size",
    "directory-too-big",
    "directory-unwritten",
    "encrypted-without-feature",
    "extent-bounds",
    "extent-checksum",
    "extent-depth",
    "extent-empty",
    "extent-length",
    "extent-node",
    "extent-order",
    "extent-past-file",
    "extent-start",
    "extents-without-feature",
    "external-journal",
    "file-size",
    "free-inodes",
    "group-free-inodes",
    "inline-with-extents",
    "inline-without-feature",
    "inode-bitmap-checksum",
    "inode-bitmap-conflict",
    "inode-bitmap-padding",
    "inode-bitmap-place",
    "inode-count",
    "inode-table-conflict",
    "inode-table-place",
    "inodes-marked-free",
    "inodes-marked-used",
    "is-journal-device",
    "journal-checksum",
    "journal-error",
    "journal-features",
    "journal-fields",
    "journal-inode",
    "journal-missing",
    "journal-superblock",
    "journal-without-feature",
    "large-file",
    "lost-orphan",
    "many-illegal-blocks",
    "map-block-on-metadata",
    "map-block-outside",
    "needs-recovery",
    "no-file-type",
    "orphan-list",
    "orphans-wait",
    "recovery-without-journal",
    "required-extra-size",
    "reserved-blocks",
    "reserved-descriptors",
    "reserved-mode",
    "resize-inode",
    "resize-with-meta-groups",
    "resize-with-two-copies",
    "seed-without-checksums",
    "superblock-checksum",
    "superblock-damaged",
    "superblock-unusable",
    "two-checksums",
    "unused-inodes",
    "used-but-deleted",
    "wanted-extra-size",
    "wide-without-extents",
];

#[test]
fn every_damage_is_told_exactly() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let mut wrong = Vec::new();
    for (part, cases) in PARTS {
        for case in *cases {
            wrong.extend(
                case.judge()
                    .into_iter()
                    .map(|fault| format!("{part}, {}: {fault}", case.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_code_has_its_case() {
    let expected = PARTS
        .iter()
        .flat_map(|(_, cases)| *cases)
        .flat_map(|case| case.problems);
    let told: BTreeSet<&str> = expected
        .filter_map(|problem| problem.split_once(": ").map(|(code, _)| code))
        .collect();
    let known: BTreeSet<&str> = CODES.iter().map(|rule| rule.name).collect();
    let excused: BTreeSet<&str> = YET.iter().copied().collect();
    let unknown: Vec<_> = told.union(&excused).filter(|code| !known.contains(*code)).collect();
    assert!(unknown.is_empty(), "no such codes: {unknown:?}");
    let both: Vec<_> = told.intersection(&excused).collect();
    assert!(both.is_empty(), "excused, but there are cases: {both:?}");
    let missing: Vec<_> = known
        .difference(&told)
        .filter(|code| !excused.contains(*code))
        .collect();
    assert!(missing.is_empty(), "no case: {missing:?}");
}
