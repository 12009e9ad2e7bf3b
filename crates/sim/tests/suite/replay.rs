//! The drive model against six real drives: their facts in, their times out. The judge is that of
//! `../shared/drives/score.py`.
use extant_block::Operation;
use extant_sim::drive::file::load;
use extant_sim::replay::{
    Beyond, Changed, TraceLine, in_milliseconds, parse_validation_trace, replay,
};
use extant_testkit::skips::{Known, skip_known};
use std::path::{Path, PathBuf};

/// Bounds on each drive, in percent.
const MEAN_ERROR: f64 = 3.0;
const DEMERIT: f64 = 5.0;

struct Score {
    name: String,
    mean_error: f64,
    demerit: f64,
}

/// Where the measured drives lie: beside the repository, when they are there at all.
fn measured_drives() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/drives");
    if folder.is_dir() {
        return Some(folder);
    }
    skip_known(Known::Collections, "no measured drives: the model is not compared with them");
    None
}

/// As `score.py`: the error of the mean, and the root mean square distance of the sorted times at
/// 999 quantiles, in percent of the measured mean.
fn score(name: &str, lines: &[TraceLine], simulated: &[u64]) -> Score {
    let mut measured: Vec<f64> = lines.iter().map(|line| line.measured_ns as f64).collect();
    let mut simulated: Vec<f64> = simulated.iter().map(|time| *time as f64).collect();
    assert_eq!(measured.len(), simulated.len());
    measured.sort_by(f64::total_cmp);
    simulated.sort_by(f64::total_cmp);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let at = |values: &[f64], quantile: usize| values[quantile * values.len() / 1000];
    let squares: Vec<f64> =
        (1..1000).map(|q| (at(&simulated, q) - at(&measured, q)).powi(2)).collect();
    Score {
        name: name.to_owned(),
        mean_error: 100.0 * (mean(&simulated) / mean(&measured) - 1.0),
        demerit: 100.0 * mean(&squares).sqrt() / mean(&measured),
    }
}

fn scores(folder: &Path) -> Vec<Score> {
    let entries = std::fs::read_dir(folder).expect("the folder of drives");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let scored = files.iter().map(|path| {
        let spec = load(path).expect("a drive file of the set");
        let text = std::fs::read_to_string(path.with_extension("trace")).expect("its trace");
        let lines = parse_validation_trace(&text).expect("its lines");
        let timed = replay(spec.build(0).as_mut(), &lines, Beyond::Moved);
        score(&spec.name, &lines, &timed.times_ns)
    });
    scored.collect()
}

#[test]
fn six_real_drives_are_met() {
    let Some(folder) = measured_drives() else { return };
    let scores = scores(&folder);
    for score in &scores {
        println!(
            "{:12} mean error {:+.1} %  demerit {:.1} %",
            score.name, score.mean_error, score.demerit
        );
    }
    assert!(scores.len() >= 6);
    for score in &scores {
        assert!(score.mean_error.abs() <= MEAN_ERROR, "{}", score.name);
        assert!(score.demerit <= DEMERIT, "{}", score.name);
    }
}

#[test]
fn lines_are_parsed_exactly() {
    let lines =
        parse_validation_trace("R Hit    3962268  12   6657.00000  64047.0005\n\nW Doub 7 1 0 .5")
            .map_err(|error| error.to_string());
    assert_eq!(
        lines,
        Err("line 3: pause: has to be microseconds from 0 to 1000000000000, not \".5\"".to_owned())
    );
    let lines = parse_validation_trace("R Hit 3962268 12 6657.0 64047.0005\r\nW Doub 7 1 0 1.25")
        .expect("two lines");
    let read = TraceLine {
        operation: Operation::Read,
        sector: 3962268,
        sectors: 12,
        measured_ns: 6_657_000,
        pause_ns: 64_047_000,
    };
    assert_eq!(lines[0], read);
    assert_eq!(
        (lines[1].operation, lines[1].measured_ns, lines[1].pause_ns),
        (Operation::Write, 0, 1_250)
    );
}

#[test]
fn bad_lines_are_named() {
    let cases = [
        ("R Hit 1 1 1", "line 1: pause: is missing"),
        ("R Hit 1 1 1 1\nX Hit 1 1 1 1", "line 2: operation: has to be R or W, not \"X\""),
        ("R Hit -1 1 1 1", "line 1: first sector: has to be a whole number, not \"-1\""),
        ("R Hit 99999999999999999 1 1 1", "line 1: first sector: 99999999999999999 is too large"),
        ("R Hit 1 0 1 1", "line 1: sectors: has to lie within 1 and 16777216, not 0"),
        (
            "R Hit 1 1 1e9 1",
            "line 1: time: has to be microseconds from 0 to 1000000000000, not \"1e9\"",
        ),
        (
            "R Hit 1 1 1 99999999999999999999",
            "line 1: pause: has to be microseconds from 0 to 1000000000000, \
             not \"99999999999999999999\"",
        ),
        ("R Hit 1 1 1 1 1", "line 1: has a word too many: \"1\""),
    ];
    for (text, message) in cases {
        let error = parse_validation_trace(text).expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_request_past_the_end_is_moved_to_end_there() {
    let spec = extant_sim::drive::file::by_name("ide-2001-7200").expect("a preset");
    let text = "R Hit 999999999999 8 1 1\nR Hit 999999999999 16777216 1 1000\nW Hit 0 8 1 1";
    let lines = parse_validation_trace(text).expect("three lines");
    for beyond in [Beyond::Moved, Beyond::Wrapped] {
        let timed = replay(spec.build(0).as_mut(), &lines, beyond);
        assert_eq!(timed.times_ns.len(), 3);
        assert_eq!(timed.changed, Changed { beyond: 2, cut: 0, widened: 0 });
    }
    assert_eq!(in_milliseconds(&[1_234_567, 5]), "1.234567\n0.000005\n");
}
