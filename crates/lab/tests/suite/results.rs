//! Results: what a scenario computes from its measures.
use extant_chart::TEXT_WIDTH;
use extant_lab::report::Report;
use extant_lab::scenario::{self, RunOptions};
use std::path::Path;

fn text(results: &str) -> String {
    format!(
        r#"
name = "t"
[[drive]]
name = "disk"
model = "ide-2001-7200"
[[filesystem]]
name = "volume"
size = "128M"
[[process]]
name = "maker"
steps = [
    {{ step = "create-files", at = "/a", count = 300, size = "8K", measure = "make, sync" }},
    {{ step = "sync", measure = "make, sync" }},
]
[[process]]
name = "readers"
after = "maker"
copies = 3
steps = [
    {{ step = "read-all", at = "/a", measure = "cold" }},
    {{ step = "repeat", count = 2, steps = [
        {{ step = "stat-all", at = "/a", label = "look", measure = "pass {{r}}" }},
        {{ step = "wait", for = "10ms" }},
    ] }},
]
{results}
"#
    )
}

fn report(results: &str) -> Report {
    let scenario = scenario::parse("test.toml", &text(results), Path::new(""))
        .unwrap_or_else(|error| panic!("{error}"));
    scenario::run(&scenario, &RunOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
        .report
}

fn refusal(results: &str) -> String {
    match scenario::parse("test.toml", &text(results), Path::new("")) {
        Ok(_) => panic!("accepted: {results}"),
        Err(error) => error.to_string(),
    }
}

fn result(name: &str, value: &str) -> String {
    format!("[[result]]\nname = \"{name}\"\nvalue = \"{value}\"\n")
}

/// Each value is computed here from the rows of the report, in floating point.
#[test]
fn results_are_what_the_rows_give() {
    let all = [
        result("ratio", "measure 'make, sync' / measure cold"),
        result("rate", "bytes_written('x)"),
    ];
    assert!(refusal(&all[1]).contains("result.value: a quote is not closed"));
    let results = [
        ("ratio", "measure 'make, sync' / measure cold"),
        ("written", "bytes_written(measure 'make, sync') / 1MB"),
        ("rate", "file_bytes_read(measure cold) / measure cold"),
        ("mean", "mean(measure cold)"),
        ("median", "median(measure cold of readers)"),
        ("passes", "sum(measure 'pass *')"),
        ("rows", "count(measure 'pass *')"),
        ("second", "measure 'pass 1'"),
        ("twice", "2 * (result ratio - 0.5) + 1"),
        ("slowest", "max(calls readers read)"),
        ("reads", "count(calls readers read)"),
        ("looks", "max(time(step look of readers))"),
        ("alike", "report 'measures/cold/elapsed_ns' / measure cold"),
        ("long", "count(measure cold from median(measure cold))"),
        ("tenths", "floor(result ratio * 10)"),
        ("rates", "sum(report 'drives/*/media_bytes_per_second') / 1MB"),
        ("gone", "report 'drives/disk/nothing'"),
        ("none", "max(measure cold from 100h)"),
        ("nothing", "measure cold / (measure cold - measure cold)"),
        ("after nothing", "result nothing + 1"),
    ];
    let report = report(&results.map(|(name, value)| result(name, value)).concat());
    let row = |name: &str| report.measure(name).unwrap();
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let own = |name: &str| -> Vec<f64> {
        let rows = report.measures.iter().filter(|row| row.measure.starts_with(name));
        rows.filter(|row| row.copy.is_some()).map(|row| seconds(row.elapsed_ns)).collect()
    };
    let mut cold = own("cold");
    cold.sort_by(f64::total_cmp);
    assert_eq!((cold.len(), own("pass ").len()), (3, 6));
    let ratio = seconds(row("make, sync").elapsed_ns) / seconds(row("cold").elapsed_ns);
    let looks = report.steps.iter().filter(|step| step.label == "look");
    let expected = [
        ("ratio", ratio, ""),
        ("written", row("make, sync").traffic.bytes_written as f64 / 1e6, ""),
        ("rate", (3.0 * 300.0 * 8192.0) / seconds(row("cold").elapsed_ns), "bytes/s"),
        ("mean", cold.iter().sum::<f64>() / 3.0, "s"),
        ("median", cold[1], "s"),
        ("passes", own("pass ").iter().sum(), "s"),
        ("rows", 6.0, ""),
        ("second", seconds(row("pass 1").elapsed_ns), "s"),
        ("twice", 2.0 * (ratio - 0.5) + 1.0, ""),
        ("alike", 1.0, ""),
        ("long", cold.iter().filter(|time| **time >= cold[1]).count() as f64, ""),
        ("tenths", (ratio * 10.0).floor(), ""),
        ("rates", report.drives[0].media_bytes_per_second as f64 / 1e6, "1/s"),
        ("looks", looks.map(|step| seconds(step.elapsed_ns)).fold(0.0, f64::max), "s"),
    ];
    for (name, value, unit) in expected {
        let found = report.result(name).unwrap();
        assert_eq!(found.unit, unit, "{name}");
        let ours = found.millionths.unwrap() as f64 / 1e6;
        assert!((ours - value).abs() <= 1e-6 + value.abs() * 1e-9, "{name}: {ours} and {value}");
    }
    let calls = |copy: usize| {
        let readers: Vec<_> = report.processes.iter().filter(|one| one.name == "readers").collect();
        readers[copy].calls.iter().find(|call| call.call == "read").unwrap().latency.clone()
    };
    let slowest = (0..3).map(|copy| calls(copy).max_ns).max().unwrap();
    assert_eq!(report.result("slowest").unwrap().millionths, Some((slowest as i64 + 500) / 1000));
    let count: u64 = (0..3).map(|copy| calls(copy).count).sum();
    assert_eq!(report.result("reads").unwrap().millionths, Some(count as i64 * 1_000_000));
    let missing = [
        ("nothing", "divides by 0"),
        ("after nothing", "divides by 0"),
        ("gone", "'drives/disk/nothing' is not there"),
        ("none", "is of no values"),
    ];
    for (name, reason) in missing {
        let found = report.result(name).unwrap();
        assert_eq!((found.millionths, found.reason.as_deref()), (None, Some(reason)));
    }
    let shown = report.to_text(TEXT_WIDTH);
    assert!(shown.contains("computed as"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["results"][0]["name"], "ratio");
    assert_eq!(json["results"][0]["millionths"], report.results[0].millionths.unwrap());
    let page = extant_lab::page::of_report(&report);
    assert!(page.contains("computed as"));
}

#[test]
fn results_that_name_what_is_not_there_are_refused() {
    let cases = [
        ("measure warm", "result.value: unknown measure \"warm\": known are make, sync; "),
        ("measure cold of maker", "result.value: unknown measure \"cold\": known are make, sync"),
        (
            "measure cold of nobody",
            "result.value: unknown process \"nobody\": known are maker, readers",
        ),
        ("step leap", "result.value: unknown step \"leap\": known are create-files; sync"),
        ("step 'make, sync'", "result.value: \"make, sync\" is a measure, and no label of a step"),
        ("measure create-files", "result.value: \"create-files\" is the label of a step, and no"),
        ("mean(calls writer read)", "result.value: unknown process \"writer\""),
        ("measure cold + 1", "result.value: adds s and a plain number"),
        ("measure cold in other", "result.value: there is no other run \"other\""),
    ];
    for (value, start) in cases {
        let error = refusal(&result("r", value));
        let (line, reason) = error.split_once(": ").unwrap();
        assert_eq!(line, "test.toml:28", "{error}");
        assert!(reason.starts_with(start), "{error}\nnot {start}");
    }
    let twice = refusal(&(result("r", "1") + &result("r", "2")));
    assert!(twice.contains("result.name: \"r\" is already the name of another"), "{twice}");
    let unknown = refusal("[[result]]\nname = \"r\"\nvalue = \"1\"\nunit = \"s\"\n");
    assert!(unknown.contains("result.unit: no such key"), "{unknown}");
}

/// Copies whose rows have names of their own are shown one by one.
#[test]
fn each_copy_may_have_a_row_of_its_own() {
    let text = text("").replace("measure = \"cold\"", "measure = \"cold {n}\"");
    let scenario = scenario::parse("test.toml", &text, Path::new("")).unwrap();
    let report = scenario::run(&scenario, &RunOptions::default()).unwrap().report;
    for copy in 0..3 {
        let row = report.measure(&format!("cold {copy}")).unwrap();
        assert_eq!(row.copy, Some(copy));
        assert!(report.to_text(TEXT_WIDTH).contains(&format!("cold {copy}")));
    }
}
