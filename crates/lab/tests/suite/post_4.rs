//! The fifth post (number 4): its exact rows and ratios, the same each time, on volumes that e2fsck
//! finds nothing to say about.
use extant_chart::TEXT_WIDTH;
use extant_lab::posts::{Class, PostsReport, Scale, Verdict, judge, run_posts};
use extant_lab::scenario::{self, RunOptions};
use extant_testkit::lines::longer_than;
use extant_testkit::variables::{number, word};
use std::path::Path;

/// Times that are outside their tolerance and known to be, with what ours over the post's may be,
/// in thousandths: a row that leaves its range fails here, and so does one that comes back and is
/// still in the list.
const OUTSIDE: &[(&str, u64, u64)] = &[("post 4: 4 KiB blocks: untar", 530, 930)];

fn what_is_outside_is_known(report: &PostsReport) {
    let outside = report.outside();
    let names: Vec<&str> = outside.iter().map(|(name, ..)| name.as_str()).collect();
    let known: Vec<&str> = OUTSIDE.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, known, "{}", report.to_text(TEXT_WIDTH));
    for ((name, least, most), (_, low, high)) in outside.iter().zip(OUTSIDE) {
        assert!(low <= least && most <= high, "{name}: {least} to {most} of a thousand");
    }
}

fn quick() -> PostsReport {
    run_posts(&[4], Scale::Quick, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn exact_rows_and_ratios_hold_modern_is_best_and_two_runs_are_the_same() {
    if word("EXTANT_POSTS") == "few" {
        return;
    }
    let first = quick();
    assert_eq!(longer_than(&first.to_text(TEXT_WIDTH), TEXT_WIDTH), Vec::<&str>::new());
    what_is_outside_is_known(&first);
    let screen = first.to_screen(TEXT_WIDTH);
    assert!(screen.lines().count() <= 10, "{screen}");
    assert_eq!(longer_than(&screen, TEXT_WIDTH), Vec::<&str>::new());
    a_verdict_stands_beside_what_it_judges(&first);
    assert_eq!(first.missed(), Vec::<String>::new(), "{}", first.to_text(TEXT_WIDTH));
    assert_eq!(first.shortfalls(), Vec::<String>::new(), "{}", first.to_text(TEXT_WIDTH));
    modern_is_better_than_the_best(&first);
    // Equal in every build and on every machine.
    let hash = format!("post 4 quick {}", first.posts[0].trace_hash);
    let hashes = include_str!("../../posts/trace-hashes.txt");
    assert!(hashes.lines().any(|line| line == hash), "{hash} is not in posts/trace-hashes.txt");
    // What a drive was asked for is the same each time; what a report says besides seldom differs
    // where that does not.
    if number("EXTANT_AGAIN") == 1 {
        assert_eq!(first.to_json(), quick().to_json());
    }
}

/// A minute or so.
#[test]
// tidy: unfinished because it takes a minute; the posts at full size are run by the bench
#[ignore = "the full size: both block sizes, both mounts"]
fn all_rows_hold_at_full_size() {
    let report =
        run_posts(&[4], Scale::Full, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", report.to_text(TEXT_WIDTH));
    // Known: FreeBSD 5.2 spreads directories over 1,500 groups here, and the post has no sign of
    // that when it reads.
    assert_eq!(report.missed(), ["post 4: 1 KiB blocks: tar, against the first column"]);
}

/// `modern` is the fastest column of each storage row, and near what the drive can do.
fn modern_is_better_than_the_best(report: &PostsReport) {
    let table = &report.posts[0].tables[0];
    for what in ["untar", "untar, then sync", "tar"] {
        let row = table.rows.iter().find(|row| row.what == what).expect("a row of that name");
        let over_best = table.over_best_permille(row).expect("times");
        assert!(over_best < 1000, "{what}: {over_best} thousandths of the best");
        let over_limit = table.over_limit_permille(row).expect("a limit");
        // Of an untar the processor has a part, and on this disk not the smallest.
        assert!(
            (1000..=1400).contains(&over_limit),
            "{what}: {over_limit} thousandths of the limit"
        );
    }
}

#[test]
fn e2fsck_finds_nothing_on_what_is_left() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    let texts = [
        ("post-4.toml", include_str!("../../posts/post-4.toml"), "freebsd-2010,mount=async"),
        ("post-4-small.toml", include_str!("../../posts/post-4-small.toml"), "freebsd-5.2"),
        ("post-4-modern.toml", include_str!("../../posts/post-4-modern.toml"), "modern"),
        (
            "post-4-1024.toml",
            include_str!("../../posts/post-4-1024.toml"),
            "freebsd-2010,mount=async",
        ),
    ];
    for (file, text, policies) in texts {
        let scenario =
            scenario::parse(file, text, Path::new("")).unwrap_or_else(|error| panic!("{error}"));
        let options =
            RunOptions { policies: Some(policies.to_owned()), scale: 10, ..RunOptions::default() };
        let outcome = scenario::run(&scenario, &options).unwrap_or_else(|error| panic!("{error}"));
        let scratch = tempfile::tempdir().expect("a folder");
        let said =
            outcome.filesystems[0].check(&scratch.path().join("image")).expect("e2fsck runs");
        assert_eq!(said, "", "{file}");
    }
}

/// Of ratios and times: what a row shows of ours over the post's is within what was asked exactly
/// where it agrees. (A ratio of 0.5 stood beside times of a third of the post's, as if these
/// agreed.)
fn a_verdict_stands_beside_what_it_judges(report: &PostsReport) {
    let rows = report.posts.iter().flat_map(|post| &post.tables).flat_map(|table| &table.rows);
    let mut ratios = 0;
    for row in rows {
        let within = match row.class {
            Class::Ratio { within_permille } => {
                ratios += 1;
                within_permille
            }
            Class::Absolute { within_permille } => within_permille,
            _ => continue,
        };
        let posted = row.cells.iter().filter(|cell| cell.posted.is_some());
        let mut shown = posted.map(|cell| cell.ratio_permille().expect("a value of ours"));
        let is_near = shown.all(|ratio| ratio.abs_diff(1000) <= within);
        assert_eq!(judge(row) == Verdict::Agrees, is_near, "{}", row.what);
    }
    assert!(ratios > 0, "rows of ratios");
}
