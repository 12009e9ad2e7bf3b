//! What follows from a damage stands under it, and says which file it is about.
use super::PARTS;
use super::harness::{Image, roots};
use extant_inspect::{CheckReport, Code, Problem};
use extant_testkit::oracle::require;

/// Each problem with its cause, by their codes, and the path that it names.
fn told(report: &CheckReport) -> Vec<(&str, Option<&str>, Option<String>)> {
    let code = |problem: &Problem| problem.rule().name;
    let row = |problem: &Problem| {
        let path = problem.path.as_deref().map(|path| path.escape_ascii().to_string());
        (problem.rule().name, problem.cause.map(|cause| code(&report.problems[cause])), path)
    };
    report.problems.iter().map(row).collect()
}

fn case(name: &str) -> Option<CheckReport> {
    let mut cases = PARTS.iter().flat_map(|(_, cases)| *cases);
    let case = cases.find(|case| case.name == name).expect("a case of that name");
    (require("mke2fs") && require("debugfs")).then(|| (case.damage)().check(2))
}

#[test]
fn a_root_directory_that_is_gone_is_the_cause_of_what_is_lost() {
    let Some(report) = case("no root") else { return };
    let roots: Vec<_> = roots(&report).iter().map(|root| root.rule().name).collect();
    assert_eq!(roots, ["root-missing"], "{:#?}", told(&report));
}

/// A file without a usable map: what it held is free, and its directory still has its name.
#[test]
fn a_file_that_is_gone_is_the_cause_of_its_free_blocks_and_is_named() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let mut image = Image::plain();
    let at = image.inode_of("/d/file");
    image.put16(at, 0o050_644);
    let report = image.check(2);
    let path = Some("/d/file".to_owned());
    assert_eq!(told(&report)[0], ("no-file-type", None, path), "{:#?}", told(&report));
    let follows = |row: &(&str, Option<&str>, Option<String>)| row.1 == Some("no-file-type");
    assert!(told(&report)[1..].iter().all(follows), "{:#?}", told(&report));
    assert!(report.problems.len() > 3);
}

/// What is lost may come from either: it is said of neither.
#[test]
fn two_damages_have_two_roots() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let mut image = Image::plain();
    let (file, entry) = (image.inode_of("/d/file"), image.entry("/d/.."));
    image.put16(file, 0o050_644);
    image.put8(entry + 6, 1);
    let report = image.check(2);
    let told = told(&report);
    let row = |code: &str| told.iter().find(|row| row.0 == code).expect("that problem").clone();
    assert_eq!(row("dot-dot-wrong").1, Some("dot-dot-not-second"));
    assert_eq!(row("dot-dot-wrong").2.as_deref(), Some("/d"));
    assert_eq!(row("blocks-marked-used").1, None);
    assert_eq!(row("group-free-blocks").1, Some("blocks-marked-used"));
    assert_eq!(roots(&report).len(), 3, "{told:#?}");
}

#[test]
fn what_is_added_to_a_report_leaves_causes_where_they_are() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let mut image = Image::plain();
    let at = image.inode_of("/d/file");
    image.put16(at, 0o050_644);
    let mut report = image.check(1);
    let before = told(&report).iter().map(|row| row.1.map(str::to_owned)).collect::<Vec<_>>();
    report.add(Problem::new(Code::JournalCut).found(7_u32));
    let after = told(&report).iter().map(|row| row.1.map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(after, [vec![None], before].concat());
}
