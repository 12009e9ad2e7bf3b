//! Post 0 at its quick scale: its rows hold, today's way is better than all of them, and its runs
//! are what they always were.
use extant_chart::TEXT_WIDTH;
use extant_lab::posts::{
    Class, PostTable, PostsReport, Quantity, Scale, Verdict, judge, run_posts,
};
use extant_testkit::lines::longer_than;
use extant_testkit::variables::word;

/// Times that are outside their tolerance and known to be, with what ours over the post's may be,
/// in thousandths: a row that leaves its range fails here, and so does one that comes back and is
/// still in the list.
const OUTSIDE: &[(&str, u64, u64)] = &[(
    "post 0: 21 GB, 176 groups, 768 MB of memory, cold; sync included: diff two trees",
    330,
    450,
)];

fn what_is_outside_is_known(report: &PostsReport) {
    let outside = report.outside();
    let names: Vec<&str> = outside.iter().map(|(name, ..)| name.as_str()).collect();
    let known: Vec<&str> = OUTSIDE.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, known, "{}", report.to_text(TEXT_WIDTH));
    for ((name, least, most), (_, low, high)) in outside.iter().zip(OUTSIDE) {
        assert!(low <= least && most <= high, "{name}: {least} to {most} of a thousand");
    }
}

/// The trace hashes of the posts in quick form: equal in every build and on every machine.
const HASHES: &str = include_str!("../../posts/trace-hashes.txt");

fn value(quantity: Option<Quantity>) -> u64 {
    quantity.expect("every cell of ours has a value").value()
}

/// Rows in which the last column is not below all others.
fn not_better(table: &PostTable) -> Vec<&str> {
    let times = table.rows.iter().filter(|row| !matches!(row.class, Class::Ratio { .. }));
    let rows = times.filter(|row| {
        // One column is of a single row.
        let cells = row.cells.iter().filter(|cell| cell.ours.is_some());
        let ours: Vec<u64> = cells.map(|cell| value(cell.ours)).collect();
        assert!(ours.len() + 1 >= row.cells.len());
        let (modern, others) = ours.split_last().expect("there are columns");
        others.iter().any(|other| modern >= other)
    });
    rows.map(|row| row.what.as_str()).collect()
}

#[test]
fn its_ratios_hold_and_modern_is_better_than_every_column() {
    if word("EXTANT_POSTS") == "few" {
        return;
    }
    let report =
        run_posts(&[0], Scale::Quick, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    what_is_outside_is_known(&report);
    let screen = report.to_screen(TEXT_WIDTH);
    assert!(screen.lines().count() <= 10, "{screen}");
    assert_eq!(longer_than(&screen, TEXT_WIDTH), Vec::<&str>::new());
    a_verdict_stands_beside_what_it_judges(&report);
    assert_eq!(report.missed(), Vec::<String>::new(), "{}", report.to_text(TEXT_WIDTH));
    assert_eq!(report.shortfalls(), Vec::<String>::new(), "{}", report.to_text(TEXT_WIDTH));
    assert_eq!(longer_than(&report.to_text(TEXT_WIDTH), TEXT_WIDTH), Vec::<&str>::new());
    let post = &report.posts[0];
    for table in &post.tables {
        assert_eq!(not_better(table), Vec::<&str>::new(), "{}", report.to_text(TEXT_WIDTH));
    }
    let hash = format!("post 0 quick {}", post.trace_hash);
    assert!(HASHES.lines().any(|line| line == hash), "{hash} is not in posts/trace-hashes.txt");
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
