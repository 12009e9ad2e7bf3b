//! The posts: how rows are judged and shown, and what must come out exactly.
use extant_lab::posts::{Cell, Class, Quantity, Row, Scale, Verdict, judge, run_posts};

fn row(class: Class, cells: &[(Option<u64>, Option<u64>)]) -> Row {
    let cells = cells.iter().map(|(posted, ours)| Cell {
        posted: posted.map(Quantity::Count),
        ours: ours.map(Quantity::Count),
    });
    Row {
        what: "a row".to_owned(),
        class,
        cells: cells.collect(),
        limit: None,
        note: None,
    }
}

#[test]
fn post_3() {
    let report = run_posts(&[3], Scale::Quick, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", report.to_text());
    assert_eq!(report.missed(), Vec::<String>::new());
}

#[test]
fn judged() {
    assert_eq!(judge(&row(Class::Exact, &[(Some(1), Some(1))])), Verdict::Agrees);
}
