//! The posts: how rows are judged and shown, what must come out exactly, and that it does so each
//! time.
use extant_chart::TEXT_WIDTH;
use extant_lab::posts::{
    Cell, Class, Fitted, FittedOrigin, FittedValues, Goal, Need, POSTS, PostColumn, PostReport,
    PostTable, PostsReport, Quantity, Range, Rank, Row, SCHEMA, Scale, Seeds, TableForm, Verdict,
    WhoseRow, Work, judge, over_seeds, readdir_cost, run_posts, run_seeds,
};
use extant_sim::drive::DriveInfo;
use extant_testkit::lines::longer_than;
use extant_testkit::variables::number;

fn row(class: Class, cells: &[(Option<u64>, Option<u64>)]) -> Row {
    let cells = cells.iter().map(|(posted, ours)| Cell {
        posted: posted.map(Quantity::Nanoseconds),
        ours: ours.map(Quantity::Nanoseconds),
        ..Cell::default()
    });
    Row {
        what: "a row".to_owned(),
        class,
        cells: cells.collect(),
        limit: None,
        goal: None,
        note: None,
        verdicts: Vec::new(),
        block: None,
    }
}

/// A report of one table with a stock and a modern column.
fn report(rows: Vec<Row>) -> PostsReport {
    let column = |name: &str, policies: &str| PostColumn {
        name: name.to_owned(),
        policies: policies.to_owned(),
    };
    let table = PostTable {
        title: "a table".to_owned(),
        heading: None,
        caption: String::new(),
        form: TableForm::Rows,
        columns: vec![column("stock", "linux-2.4"), column("ours", "modern,elevator=noop")],
        rows,
    };
    let post = PostReport {
        number: 9,
        origin: "Nobody, 2001".to_owned(),
        title: "nothing".to_owned(),
        question: String::new(),
        claim: "a is faster than b".to_owned(),
        drive: "sata-2006-250".to_owned(),
        processor: "2007".to_owned(),
        fitted: FittedValues(vec![Fitted::new("its speed", FittedOrigin::Fitted, "by its result")]),
        seed: 4,
        seeds: vec![4],
        tables: vec![table],
        figures: Vec::new(),
        notes: vec!["a note at the end".to_owned()],
        trace_hash: "00ff".to_owned(),
        trace_hashes: vec!["00ff".to_owned()],
    };
    PostsReport { schema: SCHEMA, model_version: 7, scale: Scale::Quick, posts: vec![post] }
}

#[test]
fn rows_are_judged_by_their_class() {
    use Verdict::{Agrees, Misses, Shown, Warns};
    let ratio = || Class::Ratio { within_permille: 150 };
    let absolute = || Class::Absolute { within_permille: 250 };
    let not_modelled = Class::NotModelled { reason: "because".to_owned() };
    type Case = (Class, &'static [(Option<u64>, Option<u64>)], Verdict);
    let cases: Vec<Case> = vec![
        (Class::Exact, &[(Some(11), Some(11)), (None, Some(3))], Agrees),
        (Class::Exact, &[(Some(11), Some(11)), (Some(7), Some(8))], Misses),
        (Class::Exact, &[(Some(11), None)], Misses),
        (Class::Exact, &[(None, Some(5))], Shown),
        // Ratios stand in the cells: each is held against the post's by itself.
        (ratio(), &[(None, None), (Some(3000), Some(3450))], Agrees),
        (ratio(), &[(None, None), (Some(3000), Some(2550))], Agrees),
        (ratio(), &[(None, None), (Some(3000), Some(3451))], Misses),
        (ratio(), &[(None, None), (Some(3000), Some(2549))], Misses),
        (ratio(), &[(None, None), (Some(3000), None)], Misses),
        (ratio(), &[(None, None), (None, Some(60))], Shown),
        (ratio(), &[(Some(u64::MAX), Some(1))], Misses),
        (absolute(), &[(Some(100), Some(125))], Agrees),
        (absolute(), &[(Some(100), Some(75))], Agrees),
        (absolute(), &[(Some(100), Some(126))], Warns),
        (absolute(), &[(Some(100), Some(74))], Warns),
        (absolute(), &[(Some(100), Some(100)), (Some(100), None)], Warns),
        (Class::AtMost, &[(Some(25), Some(25)), (None, Some(99))], Agrees),
        (Class::AtMost, &[(Some(25), Some(26))], Misses),
        (Class::Shown, &[(Some(1), Some(1000))], Shown),
        (not_modelled, &[(Some(1), None)], Shown),
    ];
    for (class, cells, verdict) in cases {
        assert_eq!(judge(&row(class.clone(), cells)), verdict, "{class:?} {cells:?}");
    }
    // A bound of our own is asked of what is held to it, and of nothing else.
    let bound = |least: Option<u64>, most: Option<u64>| Class::Bound {
        least: least.map(Quantity::Nanoseconds),
        most: most.map(Quantity::Nanoseconds),
    };
    let held = |class: Class, ours: [Option<u64>; 3]| {
        let mut row = row(class, &ours.map(|ours| (None, ours)));
        row.cells[2].is_held = true;
        judge(&row)
    };
    assert_eq!(held(bound(None, Some(9)), [Some(99), None, Some(9)]), Agrees);
    assert_eq!(held(bound(None, Some(9)), [Some(1), None, Some(10)]), Misses);
    assert_eq!(held(bound(Some(8), None), [Some(1), None, Some(7)]), Misses);
    assert_eq!(held(bound(Some(8), None), [Some(1), None, None]), Misses);
    assert_eq!(held(Class::BoundByFirst, [Some(5), Some(9), Some(5)]), Agrees);
    assert_eq!(held(Class::BoundByFirst, [Some(5), Some(9), Some(6)]), Misses);
    assert_eq!(held(Class::BoundByFirst, [None, Some(9), Some(6)]), Misses);
    let mut mixed = row(Class::Exact, &[(Some(5), Some(5))]);
    mixed.cells[0].ours = Some(Quantity::Count(5));
    assert_eq!(judge(&mixed), Misses, "a count is no time");
}

#[test]
fn every_row_is_shown_the_bad_ones_too() {
    let drive = DriveInfo {
        name: "a drive".to_owned(),
        bytes: 1 << 30,
        sector_bytes: 512,
        queue_depth: 1,
        media_bytes_per_second: 50_000_000,
        least_seek_ns: 500_000,
    };
    let need = Need { bytes_read: 20_000, bytes_written: 5_000, seeks: 3 };
    let slow = [(Some(1_000_000), Some(9_000_000)), (None, Some(3_000_000))];
    let rows = vec![
        Row {
            what: "slow".to_owned(),
            limit: Some(need.limit(&drive)),
            note: Some("a word".to_owned()),
            ..row(Class::Absolute { within_permille: 100 }, &slow)
        },
        Row { what: "wrong".to_owned(), ..row(Class::Exact, &[(Some(1), Some(2)), (None, None)]) },
        Row {
            what: "left out".to_owned(),
            ..row(
                Class::NotModelled { reason: "a program starts".to_owned() },
                &[(Some(5_000_000_000), None), (None, None)],
            )
        },
    ];
    let report = report(rows);
    assert_eq!(report.missed(), ["post 9: a table: wrong"]);
    assert_eq!(report.warned(), ["post 9: a table: slow"]);
    let expected = "Post 9: nothing (Nobody, 2001)
drive sata-2006-250 (not validated), processor 2007 for all columns; 1 fitted, beside 2 judged by
  the post: its speed (fitted: by its result); seed 4, model 7, scale quick, trace 00ff

a table
                                               modern/           modern/
          stock: post     ours     x     ours     best    limit    limit  asked
slow          1.00 ms  9.00 ms  9.00  3.00 ms     0.33  2.00 ms     1.50  time 10 %     warning [1]
wrong            0 us     0 us  2.00                                      exact         MISSES
left out       5.00 s                                                     not modelled  [2]
  [1] a word; limit: 500 us under the head, 1.50 ms of the least repositioning
  [2] a program starts
  stock  linux-2.4
  ours   modern,elevator=noop

- a note at the end

x: ours over the post's. asked: the same number, a ratio to the first column or a time within so
  much, or a bound; ratios and exact rows decide. ours: a bound of our own, of which the post says
  nothing. Rows of one block count once.
limit: the least time that the drive could take. modern/best, modern/limit: the modern column over
  the best other one, and over the limit.
2 judged by the post: 0 agree, 1 outside their tolerance, 1 miss; 0 bounds of our own: 0 hold (quick
  form, one seed; --seeds 5 judges the median of five)
0 rows shown only, 1 not modelled
misses: post 9: a table: wrong
warning: post 9: a table: slow
";
    assert_eq!(report.to_text(TEXT_WIDTH), expected);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let row = &json["posts"][0]["tables"][0]["rows"][0];
    assert_eq!((row["class"].as_str(), row["verdict"].as_str()), (Some("absolute"), Some("warns")));
    assert_eq!(row["cells"][0]["ratio_permille"], 9000);
    assert_eq!(row["cells"][1]["posted"], serde_json::Value::Null);
    assert_eq!(
        row["cells"][0]["ours"],
        serde_json::json!({"unit": "nanoseconds", "value": 9_000_000})
    );
}

/// A report with a column for each value of a row, `modern` last; each row with its goal.
fn standing_of(policies: &str, rows: &[(Goal, [u64; 3])]) -> PostsReport {
    let rows = rows.iter().enumerate().map(|(number, (goal, values))| {
        let cells = values.map(|value| (None, Some(value)));
        Row { what: format!("row {number}"), goal: Some(*goal), ..row(Class::Shown, &cells) }
    });
    let mut report = report(rows.collect());
    let table = &mut report.posts[0].tables[0];
    let column = |name: &str, policies: &str| PostColumn {
        name: name.to_owned(),
        policies: policies.to_owned(),
    };
    table.columns = vec![column("a", "x"), column("b", "y"), column("modern", policies)];
    report
}

#[test]
fn blocks_count_once_and_bounds_of_our_own_apart() {
    let exact = |what: &str, ours: u64| Row {
        what: what.to_owned(),
        block: Some("a listing".to_owned()),
        ..row(Class::Exact, &[(Some(1), Some(ours)), (None, None)])
    };
    let mut bound = row(
        Class::Bound { least: None, most: Some(Quantity::Nanoseconds(5)) },
        &[(None, Some(9)), (None, Some(4))],
    );
    bound.cells[1].is_held = true;
    let times =
        row(Class::Absolute { within_permille: 100 }, &[(Some(10), Some(20)), (None, None)]);
    let of = |second: u64| {
        report(vec![exact("one", 1), exact("two", second), bound.clone(), times.clone()])
    };
    let tally = |report: &PostsReport, whose| {
        let tally = report.posts[0].tally(whose);
        (tally.judged, tally.agree, tally.miss, tally.outside)
    };
    let right = of(1);
    assert_eq!(tally(&right, WhoseRow::Post), (2, 1, 0, 1));
    assert_eq!(tally(&right, WhoseRow::Ours), (1, 1, 0, 0));
    // One row of a block that is wrong makes the block wrong.
    assert_eq!(tally(&of(2), WhoseRow::Post), (2, 0, 1, 1));
    let screen = right.to_screen(TEXT_WIDTH);
    let expected = "Post 9 (2001, stock): a is faster than b
  a listing    2 rows  2 the same  ok
  a row      0.010 us    0.020 us  outside
2 judged by the post: 1 agree, 1 outside their tolerance, 0 miss; 1 bounds of our own: 1 hold (quick
  form, one seed; --seeds 5 judges the median of five)
";
    assert_eq!(screen, expected);
}

#[test]
fn modern_falls_short_where_it_is_not_what_its_rows_ask() {
    use Goal::{Less, More};
    use Rank::{Best, Frontier, Near};
    let shortfalls = |rows: &[(Goal, [u64; 3])]| standing_of("modern", rows).shortfalls();
    assert_eq!(shortfalls(&[(Less(Near), [100, 300, 110])]), Vec::<String>::new());
    assert_eq!(
        shortfalls(&[(Less(Near), [100, 300, 111])]),
        ["post 9: row 0: modern takes 1.110 times what a takes"]
    );
    assert_eq!(shortfalls(&[(More(Near), [110, 1, 100])]), Vec::<String>::new());
    assert_eq!(
        shortfalls(&[(More(Near), [1, 220, 100])]),
        ["post 9: row 0: modern takes 2.200 times what b takes"]
    );
    assert_eq!(shortfalls(&[(Less(Best), [100, 200, 100])]), Vec::<String>::new());
    assert_eq!(
        shortfalls(&[(Less(Best), [1_000_000, 2_000_000, 1_000_001])]),
        ["post 9: row 0: modern takes 1.000 times what a takes"]
    );
    // A column that is a little better in each row is the better system.
    assert_eq!(
        shortfalls(&[(Less(Near), [99, 300, 100]), (Less(Near), [95, 1, 100])]),
        [
            "post 9: row 1: modern takes 100.000 times what b takes",
            "post 9: a is better than modern in all of its 2 rows"
        ]
    );
    // A reader's wait against a writer's rate: each may be far from the best of its row.
    let reads = |values| (Less(Frontier), values);
    let writes = |values| (More(Frontier), values);
    assert_eq!(shortfalls(&[reads([1, 90, 9]), writes([10, 40, 30])]), Vec::<String>::new());
    assert_eq!(
        shortfalls(&[reads([8, 90, 9]), writes([30, 40, 30])]),
        ["post 9: modern is not on the frontier"]
    );
    assert_eq!(
        standing_of("modern,elevator=noop", &[(Less(Best), [2, 2, 1])]).shortfalls(),
        ["post 9: modern is run as modern,elevator=noop"]
    );
}

#[test]
fn the_frontier_is_sorted_and_says_who_is_on_it() {
    let rows = [
        (Goal::Less(Rank::Frontier), [5_000_000, 900_000, 1_000_000]),
        (Goal::More(Rank::Frontier), [40, 20, 20]),
    ];
    let report = standing_of("modern", &rows);
    let frontier = report.posts[0].frontier().expect("two sides");
    let points: Vec<(&str, bool)> =
        frontier.points.iter().map(|point| (point.name.as_str(), point.is_on_it)).collect();
    assert_eq!(points, [("b", true), ("modern", false), ("a", true)]);
    assert!(report.to_text(TEXT_WIDTH).contains("the frontier"));
    // Its picture: a mark for each column, and a line through the two that are on it; each is in
    // the legend too.
    let page = extant_lab::page::of_posts(&report);
    let (_, drawn) = page.split_once("Two sides of a bargain").expect("it is drawn");
    let drawn = &drawn[..drawn.find("</figure>").expect("it ends")];
    assert_eq!(drawn.matches("class=\"mark ").count(), 2 * 4, "{drawn}");
    assert!(drawn.contains("modern 1.00 ms, b 900 µs, the frontier 900 µs"), "{drawn}");
}

#[test]
fn a_post_that_is_none_is_refused() {
    let error = run_posts(&[3, 7], Scale::Quick, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "posts: post 7 is not modelled; those that are: 0, 1, 2, 3, 4");
}

#[test]
fn every_file_of_a_post_is_read_and_says_what_its_post_asked() {
    let numbers: Vec<u32> = POSTS.iter().map(|post| post.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    for post in POSTS.iter() {
        assert!(!post.question.is_empty() && !post.notes.is_empty(), "post {}", post.number);
        assert!(!post.claim.is_empty() && post.claim.len() < 200, "post {}", post.number);
        let own = |origin| post.fitted.iter().filter(|value| value.origin == origin).count();
        // The processor is in every one, and what was chosen by its result is called so.
        assert!(own(FittedOrigin::Assumed) >= 1, "post {}", post.number);
        let fitted = [4, 2, 3, 0, 2][post.number as usize];
        assert_eq!(own(FittedOrigin::Fitted), fitted, "post {}", post.number);
        for value in &post.fitted {
            assert!(!value.source.is_empty(), "post {}: {}", post.number, value.what);
            let is_shown = value.value.is_some();
            assert!(is_shown, "post {}: {}: which value?", post.number, value.what);
        }
    }
}

fn value(quantity: Option<Quantity>) -> u64 {
    quantity.map_or(u64::MAX, Quantity::value)
}

/// Times that are outside their tolerance and known to be, with what ours over the post's may be,
/// in thousandths: a row that leaves its range fails here, and so does one that comes back and is
/// still in the list.
const OUTSIDE: &[(&str, u64, u64)] =
    &[("post 3: getdents with a buffer of 4096 bytes, cold (modern: hashed): all calls", 530, 640)];

fn what_is_outside_is_known(report: &PostsReport) {
    let outside = report.outside();
    let names: Vec<&str> = outside.iter().map(|(name, ..)| name.as_str()).collect();
    let known: Vec<&str> = OUTSIDE.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, known, "{}", report.to_text(TEXT_WIDTH));
    for ((name, least, most), (_, low, high)) in outside.iter().zip(OUTSIDE) {
        assert!(low <= least && most <= high, "{name}: {least} to {most} of a thousand");
    }
}

/// Ours in a row of a table, column by column.
fn ours(table: &PostTable, what: &str) -> Vec<u64> {
    let row = table.rows.iter().find(|row| row.what.starts_with(what));
    let row = row.unwrap_or_else(|| panic!("no row {what:?}"));
    row.cells.iter().map(|cell| value(cell.ours)).collect()
}

#[test]
fn post_3_comes_out_the_same_each_time() {
    let run =
        || run_posts(&[3], Scale::Quick, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let report = run();
    assert_eq!(longer_than(&report.to_text(TEXT_WIDTH), TEXT_WIDTH), Vec::<&str>::new());
    assert_eq!(longer_than(&report.to_text(80), 80), Vec::<&str>::new());
    assert_eq!(report.missed(), Vec::<String>::new());
    what_is_outside_is_known(&report);
    assert_eq!(report.shortfalls(), Vec::<String>::new(), "{}", report.to_text(TEXT_WIDTH));
    let screen = report.to_screen(TEXT_WIDTH);
    assert!(screen.lines().count() <= 11, "{screen}");
    assert_eq!(longer_than(&screen, TEXT_WIDTH), Vec::<&str>::new());
    let again = run();
    assert_eq!(report.to_json(), again.to_json());
    // Equal in every build and on every machine.
    let hash = format!("post 3 quick {}", report.posts[0].trace_hash);
    let hashes = include_str!("../../posts/trace-hashes.txt");
    assert!(hashes.lines().any(|line| line == hash), "{hash} is not in posts/trace-hashes.txt");
    let [calls, hashed, linear] = &report.posts[0].tables[..] else {
        panic!("three tables");
    };
    let entries = (1..=11).map(|call| ours(calls, &format!("call {call}: entries")));
    for counts in entries.clone() {
        assert!(
            counts.windows(2).all(|pair| pair[0] == pair[1]),
            "the same for all systems: {counts:?}"
        );
    }
    assert_eq!(entries.map(|counts| counts[0]).sum::<u64>(), 1002);
    for table in [hashed, linear] {
        let times = ours(table, "all calls");
        let (modern, others) = times.split_last().unwrap();
        assert!(others.iter().all(|other| modern < other), "{times:?}");
        let [none, _, logical, together, _, both] = others else {
            panic!("six systems");
        };
        assert!(
            both <= logical && both <= together && logical <= none && together <= none,
            "{times:?}"
        );
    }
    let (reads, blocks) = (ours(hashed, "reads"), ours(hashed, "blocks"));
    assert_eq!(reads[..3], blocks[..3], "each block alone");
}

#[test]
fn listing_from_memory_takes_the_post_s_calls() {
    let cost = readdir_cost().unwrap();
    let entries: Vec<u64> = cost.calls.iter().map(|call| call.entries).collect();
    assert_eq!(entries, [103, 102, 102, 102, 102, 102, 102, 102, 102, 83, 0]);
    assert!(cost.longest_ns() > 0 && cost.total_ns() >= cost.longest_ns());
    println!("{}", cost.to_text());
}

#[test]
fn another_seed_gives_another_post_and_the_same_each_time() {
    let work = |seed| Work { seed, ..Work::from(Scale::Quick) };
    let run =
        |seed| run_posts(&[3], work(seed), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let [seventh, again, eighth, none] = [Some(7), Some(7), Some(8), None].map(run);
    assert_eq!(seventh.to_json(), again.to_json());
    let hashes = [&seventh, &eighth, &none].map(|report| report.posts[0].trace_hash.clone());
    assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2], "{hashes:?}");
    assert_eq!((seventh.posts[0].seed, eighth.posts[0].seed), (7, 8));
}

/// A report of one row, whose first column has a figure of the post.
fn of_seed(seed: u64, row: Row) -> PostReport {
    let mut report = report(vec![row]);
    let mut post = report.posts.pop().unwrap();
    (post.seed, post.seeds) = (seed, vec![seed]);
    post
}

#[test]
fn rows_are_judged_on_the_median_of_the_seeds_and_say_what_hangs_on_one() {
    let bound = |ours| row(Class::AtMost, &[(Some(25), Some(ours)), (None, Some(2 * ours))]);
    let over = |values: &[u64]| {
        let seeds = values.iter().zip(1..).map(|(ours, seed)| of_seed(seed, bound(*ours)));
        over_seeds(seeds.collect()).unwrap()
    };
    // Two of five by themselves are over the bound; the median is not.
    let post = over(&[30, 20, 10, 40, 21]);
    let row = &post.tables[0].rows[0];
    assert_eq!(row.cells.iter().map(|cell| value(cell.ours)).collect::<Vec<_>>(), [21, 42]);
    let range = row.cells[0].range.unwrap();
    assert_eq!((value(Some(range.least)), value(Some(range.most)), range.values), (10, 40, 5));
    assert_eq!((judge(row), row.is_fragile()), (Verdict::Agrees, true));
    assert_eq!(row.seeds_that_agree(), (3, 5));
    assert_eq!((post.seed, &post.seeds[..]), (1, &[1, 2, 3, 4, 5][..]));
    assert_eq!(post.trace_hashes.len(), 5);
    let report =
        PostsReport { schema: SCHEMA, model_version: 7, scale: Scale::Quick, posts: vec![post] };
    assert_eq!(report.fragile(), ["post 9: a table: a row: agrees in 3 of 5 seeds"]);
    let text = report.to_text(200);
    assert!(text.contains("seeds 1, 2, 3, 4, 5"), "{text}");
    assert!(text.contains("ok (fragile: 3 of 5)"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let row = &json["posts"][0]["tables"][0]["rows"][0];
    assert_eq!((row["fragile"].as_bool(), row["verdict"].as_str()), (Some(true), Some("agrees")));
    assert_eq!(row["cells"][0]["range"]["most"]["value"], 40);
    // Of an even number the lower of the two in the middle; nothing is fragile where all agree.
    let even = over(&[12, 10, 14, 11]);
    assert_eq!(value(even.tables[0].rows[0].cells[0].ours), 11);
    assert!(!even.tables[0].rows[0].is_fragile());
    // One seed is as it was.
    let one = over(&[30]);
    assert_eq!((one.tables[0].rows[0].cells[0].range, one.seeds.len()), (None, 1));
}

#[test]
fn a_drawn_row_asks_that_the_figure_is_among_the_draws() {
    let range = |as_posted| Range {
        least: Quantity::Count(9),
        most: Quantity::Count(11),
        values: 8,
        as_posted,
    };
    let drawn = |as_posted| {
        let mut row = row(Class::Drawn, &[(Some(11), Some(10))]);
        row.cells[0].range = Some(range(as_posted));
        judge(&row)
    };
    assert_eq!((drawn(1), drawn(0)), (Verdict::Agrees, Verdict::Misses));
    assert_eq!(judge(&row(Class::Drawn, &[(Some(11), Some(11))])), Verdict::Agrees);
    assert_eq!(judge(&row(Class::Drawn, &[(None, Some(11))])), Verdict::Shown);
}

#[test]
fn seeds_run_side_by_side_give_what_each_gives_alone() {
    let seeds = |work, count, threads| Seeds { work, count, threads };
    let quick = Work::from(Scale::Quick);
    let together = run_seeds(&[3], seeds(quick, 2, 2), &|_| {}).unwrap();
    let first = run_posts(&[3], quick, &mut |_| {}).unwrap();
    let own = first.posts[0].seed;
    let next = Work { seed: Some(own + 1), ..quick };
    let second = run_posts(&[3], next, &mut |_| {}).unwrap();
    assert_eq!(together.posts[0].seeds, [own, own + 1]);
    assert_eq!(
        together.posts[0].trace_hashes,
        [first.posts[0].trace_hash.clone(), second.posts[0].trace_hash.clone()]
    );
    assert_eq!(together.missed(), Vec::<String>::new());
}

#[test]
fn the_medians_of_seeds_hold_in_quick_form() {
    let work = Work::from(Scale::Quick);
    let count = u32::try_from(number("EXTANT_SEEDS")).expect("a few");
    let report = run_seeds(&[2, 3], Seeds { work, count, threads: 2 }, &|_| {}).unwrap();
    assert_eq!(report.posts.len(), 2);
    assert!(report.posts.iter().all(|post| post.seeds.len() == count as usize));
    assert_eq!(report.missed(), Vec::<String>::new(), "{}", report.to_text(TEXT_WIDTH));
    println!("fragile: {:#?}", report.fragile());
}

#[test]
fn the_blocks_of_post_3_are_one_draw_of_many() {
    let report = run_posts(&[3], Scale::Full, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.missed(), Vec::<String>::new());
    let mut rows = report.posts[0].tables.iter().flat_map(|table| &table.rows);
    let row = rows.find(|row| row.class == Class::Drawn).expect("a row of draws");
    let range = row.cells[0].range.expect("a range");
    assert_eq!((value(Some(range.least)), value(Some(range.most)), range.values), (9, 11, 64));
    assert!(range.as_posted > 0 && range.as_posted < 32, "{range:?}");
}
