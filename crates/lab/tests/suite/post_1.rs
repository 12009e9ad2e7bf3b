//! The second post (number 1) in quick form: its exact rows and ratios hold, nothing is wasted, and
//! two runs are the same.
use extant_chart::TEXT_WIDTH;
use extant_lab::posts::{Class, PostTable, PostsReport, Quantity, Row, Scale, run_posts};
use extant_testkit::lines::longer_than;
use extant_testkit::variables::word;

/// Times that are outside their tolerance and known to be, with what ours over the post's may be,
/// in thousandths: a row that leaves its range fails here, and so does one that comes back and is
/// still in the list.
const OUTSIDE: &[(&str, u64, u64)] = &[
    (
        "post 1: The six benchmarks, a tenth of the post's work but for random reads: 8 GB of \
         memory, \
         cold: 5: fsck -f -n of 400 GB",
        710,
        820,
    ),
    (
        "post 1: The six benchmarks, a tenth of the post's work but for random reads: 8 GB of \
         memory, \
         cold: 5: fsck, share of vanilla's time that is saved",
        780,
        1020,
    ),
];

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

fn row<'a>(table: &'a PostTable, what: &str) -> &'a Row {
    let found = table.rows.iter().find(|row| row.what == what);
    found.unwrap_or_else(|| panic!("no row {what:?} in {:?}", table.title))
}

/// Ours in a row of a table, column by column; `None` where a column has no part in it.
fn ours(table: &PostTable, what: &str) -> Vec<Option<u64>> {
    let cells = row(table, what).cells.iter();
    cells.map(|cell| cell.ours.map(Quantity::value)).collect()
}

fn all(table: &PostTable, what: &str) -> Vec<u64> {
    ours(table, what).into_iter().flatten().collect()
}

#[test]
fn its_exact_rows_and_ratios_hold_and_its_questions_are_answered() {
    if word("EXTANT_POSTS") == "few" {
        return;
    }
    let report =
        run_posts(&[1], Scale::Quick, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(longer_than(&report.to_text(TEXT_WIDTH), TEXT_WIDTH), Vec::<&str>::new());
    what_is_outside_is_known(&report);
    let screen = report.to_screen(TEXT_WIDTH);
    assert!(screen.lines().count() <= 12, "{screen}");
    assert_eq!(longer_than(&screen, TEXT_WIDTH), Vec::<&str>::new());
    assert_eq!(report.missed(), Vec::<String>::new());
    assert_eq!(report.shortfalls(), Vec::<String>::new(), "{}", report.to_text(TEXT_WIDTH));
    let post = &report.posts[0];
    let hash = format!("post 1 quick {}", post.trace_hash);
    assert!(HASHES.lines().any(|line| line == hash), "{hash} is not in posts/trace-hashes.txt");
    let [benchmarks, goal, cluster, sizes, full, tables] = &post.tables[..] else {
        panic!("six tables");
    };
    for number in ["1", "2", "3", "4", "5"] {
        let is_own =
            |row: &&Row| row.what.starts_with(number) && matches!(row.class, Class::Ratio { .. });
        assert_eq!(benchmarks.rows.iter().filter(is_own).count(), 1, "benchmark {number}");
    }
    assert_eq!(all(benchmarks, "5: indirect blocks")[..3], [9601; 3]);
    let our_check = ours(benchmarks, "5: our check");
    assert!(our_check[2] < our_check[0], "clusters are read faster: {our_check:?}");
    assert!(our_check[4] < our_check[2], "modern has hardly any maps: {our_check:?}");
    goal_is_met(goal);
    clusters_answer(cluster);
    sizes_answer(sizes);
    filling_answers(full);
    tables_answer(tables);
    assert!(post.figures.len() >= 10, "{} figures", post.figures.len());
    assert!(post.figures.iter().all(|figure| figure.content.marks() > 0));
}

/// The post's goal, less than 0.1 %, in every row that asks for it; without neighbours only what
/// is read and written in a row meets it.
fn goal_is_met(table: &PostTable) {
    let asked = |row: &&Row| matches!(row.class, Class::Bound { .. });
    assert_eq!((table.rows.len(), table.rows.iter().filter(asked).count()), (9, 7));
    for row in table.rows.iter().filter(asked) {
        let ours = all(table, &row.what);
        assert!(ours[2] <= 1001, "{}: {ours:?}", row.what);
    }
    for what in ["3: 512 bytes at random, 5 MB of 300 GB", "4: 512 KB at random, 1 % of 300 GB"] {
        let ours = all(table, what);
        assert!(ours[1] > 1001, "{what}: a map block that is read alone costs: {ours:?}");
    }
}

/// What fits into clusters is checked faster than what spills out of them, wherever they are. What
/// mostly spills is checked no faster than vanilla, and no more than a tenth slower. So our check
/// finds: in the order of e2fsck volumes as small as these
/// take nearly the same time, since ext3 lays their indirect blocks almost in a row.
fn clusters_answer(table: &PostTable) {
    let (small, large) = (all(table, "32 blocks: our check"), all(table, "512 blocks: our check"));
    for position in 1..4 {
        assert!(10 * small[position] < 11 * small[0], "a small cluster costs little: {small:?}");
        assert!(2 * large[position] < small[position], "a large one than a small one: {large:?}");
    }
}

/// Files without indirect blocks gain nothing, and lose nothing (to 2 %: with a journal these
/// two volumes are not laid out quite alike). Large ones gain.
fn sizes_answer(table: &PostTable) {
    assert_eq!(all(table, "4KiB: indirect blocks"), [0, 0]);
    let small = all(table, "4KiB: fsck");
    assert!(small[0].abs_diff(small[1]) * 50 <= small[0], "{small:?}");
    let large = all(table, "1MiB: our check");
    assert!(5 * large[1] < 4 * large[0], "{large:?}");
}

/// The last block of a volume is used, with clusters of any size and place.
fn filling_answers(table: &PostTable) {
    let left = all(table, "full: blocks that nothing can use");
    assert_eq!(left, vec![0; left.len()]);
    let data = all(table, "full: blocks of data");
    assert!(data.windows(2).all(|pair| pair[0] == pair[1]), "{data:?}");
}

/// The fewer inodes, the more of the check is saved: what is left is mostly the tables.
fn tables_answer(table: &PostTable) {
    let saved = |case: &str| {
        all(table, &format!("{case}: our check, share of vanilla's fsck that is saved"))[1]
    };
    assert!(saved("8 KiB") + 100 < saved("64 KiB"), "{} of a thousand", saved("64 KiB"));
}

/// How long the sources of benchmark 6 take to be unpacked and synced, if the sync begins `wait_ns`
/// later, and to how many groups their data goes.
fn unpacked(policies: &str, wait_ns: u64) -> (u64, u64) {
    use extant_lab::scenario::{self, RunOptions};
    let text = include_str!("../../posts/post-1-build.toml");
    let sync = r#"{ step = "sync", measure = "sources unpacked, sync" },"#;
    let (before, _) = text.split_once(sync).expect("the first sync");
    let wait = format!("{{ step = \"wait\", for = \"{wait_ns}ns\" }},");
    let text = format!("{before}{wait}\n    {sync}\n]\n");
    let parsed = scenario::parse("post-1-build.toml", &text, std::path::Path::new("")).unwrap();
    let options = RunOptions {
        policies: Some(policies.to_owned()),
        trace: extant_sim::device::TraceKeeping::All,
        ..RunOptions::default()
    };
    let report = scenario::run(&parsed, &options).unwrap_or_else(|error| panic!("{error}")).report;
    let mut written = std::collections::BTreeMap::new();
    for record in report.drives.iter().flat_map(|drive| drive.trace.iter().flatten()) {
        if record.operation == extant_block::Operation::Write {
            *written.entry(record.offset / GROUP_BYTES).or_insert(0) += record.bytes;
        }
    }
    let groups = written.values().filter(|bytes| **bytes > GROUP_BYTES / 16).count() as u64;
    let step = report.step("sync").expect("a sync");
    (step.elapsed_ns, groups)
}

const GROUP_BYTES: u64 = 128 << 20;
const CLUSTER_BYTES: u64 = GROUP_BYTES / 64;

/// Why "sources unpacked, sync" and "objects written, sync" are shown and not held to 0.1 %. The
/// journal has the map blocks, so the sync writes the data alone, in one sweep over some groups.
///
/// - What the sweep takes depends on where the platter is when it begins, by more than 0.1 %, with
///   the same blocks in the same places. A difference of 0.1 % of one run means nothing.
/// - On the average over a turn the data that would be where the clusters are has to go elsewhere,
///   and the head passes as many more bytes: more than 0.1 % of the time.
/// - It takes no longer than that and a turn for each group. If it does, something else costs.
#[test]
fn why_a_sync_of_small_files_cannot_be_held_to_the_goal() {
    use extant_sim::drive::file::{DriveKind, by_name};
    let DriveKind::Rotating(drive) = by_name("sata-2007-400-quiet").unwrap().kind else {
        panic!("a disk");
    };
    let track = u64::from(drive.zones[0].sectors_per_track) * u64::from(drive.sector_bytes);
    const PHASES: u64 = 4;
    let runs = |policies: &str| {
        let waits = (0..PHASES).map(|phase| phase * drive.revolution_ns / PHASES);
        let runs: Vec<(u64, u64)> = waits.map(|wait| unpacked(policies, wait)).collect();
        let times: Vec<u64> = runs.iter().map(|(time, _)| *time).collect();
        (times.iter().sum::<u64>() / PHASES, times, runs[0].1)
    };
    let (vanilla, times, _) = runs("linux-2.6");
    let thousandth = vanilla / 1000;
    let spread = times.iter().max().unwrap() - times.iter().min().unwrap();
    assert!(spread > thousandth, "nothing but the angle differs: {times:?}");
    let (clustered, times, groups) =
        runs("linux-2.6,map-blocks=metacluster,map-read-ahead=neighbours");
    let passing = groups * CLUSTER_BYTES * drive.revolution_ns / track;
    assert!(passing > thousandth, "{groups} clusters pass in {passing} ns");
    let most = passing + groups * drive.revolution_ns;
    assert!(
        clustered <= vanilla + most,
        "{clustered} ns with clusters ({times:?}), {vanilla} without, and {most} ns explained"
    );
}

#[test]
fn two_runs_are_the_same() {
    use extant_lab::scenario::{self, RunOptions};
    let text =
        include_str!("../../posts/post-1-fsck.toml").replace("size = \"380G\"", "size = \"4G\"");
    let text = text.replace("count = 200", "count = 30").replace("count = 100,", "count = 10,");
    let parsed = scenario::parse("post-1-fsck.toml", &text, std::path::Path::new("")).unwrap();
    let run = || {
        let options = RunOptions {
            scale: 10,
            policies: Some("linux-2.6,map-blocks=metacluster".to_owned()),
            ..RunOptions::default()
        };
        scenario::run(&parsed, &options)
    };
    // One file of 10 GB does not fit, and is told of before anything runs.
    assert!(run().is_err_and(|error| error.to_string().contains("do not fit")));
    let parsed = scenario::parse(
        "post-1-fsck.toml",
        &text
            .replace("bytes = \"10GB\"", "bytes = \"10MB\"")
            .replace("2.5GB", "25MB")
            .replace("1GB", "100MB"),
        std::path::Path::new(""),
    )
    .unwrap();
    let run = || {
        let options = RunOptions {
            scale: 10,
            policies: Some("linux-2.6,map-blocks=metacluster".to_owned()),
            ..RunOptions::default()
        };
        scenario::run(&parsed, &options).unwrap_or_else(|error| panic!("{error}")).report
    };
    let first = run();
    assert!(first.measure("fsck").is_some_and(|fsck| fsck.traffic.reads > 1000));
    assert_eq!(first.to_json(), run().to_json());
}

/// Three minutes or so.
#[test]
// tidy: unfinished because it takes minutes; the posts at full size are run by the bench
#[ignore = "the full size"]
fn all_rows_hold_at_full_size() {
    let report =
        run_posts(&[1], Scale::Full, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", report.to_text(TEXT_WIDTH));
    assert_eq!(report.missed(), Vec::<String>::new());
    assert_eq!(all(&report.posts[0].tables[0], "5: indirect blocks")[..3], [96_010; 3]);
}
