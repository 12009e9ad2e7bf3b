//! Capsules run again and say what differs; observations are what other programs read.
use extant_lab::capsule::{Capsule, pack};
use extant_lab::observations::{self, DataForm, Observations};
use extant_lab::scenario::{self, RunOptions};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = r#"name = "small"
seed = 3
memory = "16M"
[[drive]]
name = "disk"
model = "own drive.toml"
[[filesystem]]
name = "volume"
size = "64M"
profile = "ext2"
preset = "linux-2.4"
[[process]]
name = "worker, the \"first\""
steps = [
    { step = "make-tree", at = "/tree", tree = { rule = "listing", file = "lists/names.txt" } },
    { step = "create-files", at = "/files", count = 50, directories = 5, size = "8K" },
    { step = "remount" },
    { step = "read-all", at = "/", measure = "read", label = "read, all" },
]
[[result]]
name = "read"
value = "measure read"
"#;
const DRIVE: &str = include_str!("../../../sim/drives/ide-2001-7200.toml");

/// A folder with the scenario and what it refers to.
fn folder() -> Scratch {
    let folder = Scratch::new("capsule");
    std::fs::create_dir(folder.join("lists")).unwrap();
    std::fs::write(folder.join("mine.toml"), SCENARIO).unwrap();
    std::fs::write(folder.join("own drive.toml"), DRIVE).unwrap();
    std::fs::write(folder.join("lists/names.txt"), "4096 a/b\n9000 a/c\n").unwrap();
    folder
}

fn packed(folder: &Scratch) -> Capsule {
    let name = folder.join("mine.toml").display().to_string();
    pack(&[name], None, 1, None).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_capsule_needs_nothing_else_and_gives_the_same_again() {
    let folder = folder();
    let json = packed(&folder).to_json();
    assert_eq!(json, packed(&folder).to_json());
    for word in ["own drive.toml", "lists/names.txt", "9000 a/c", "\"seed\": 3"] {
        assert!(json.contains(word), "{word} is not in it");
    }
    drop(folder);
    let verified = Capsule::parse(&json).unwrap().verify().unwrap();
    assert_eq!((verified.len(), verified[0].difference.as_deref()), (1, None));
    assert!(verified[0].rows >= 5, "{} rows", verified[0].rows);
}

#[test]
fn the_first_row_that_differs_is_named() {
    let folder = folder();
    let capsule = packed(&folder);
    let difference = |change: &dyn Fn(&mut Capsule)| {
        let mut other = capsule.clone();
        change(&mut other);
        other.verify().unwrap().remove(0).difference.unwrap_or_default()
    };
    let row = &capsule.parts[0].expected.rows[0];
    let changed = difference(&|other| {
        other.parts[0].expected.rows[0].reads += 1;
        other.parts[0].expected.rows[1].reads += 1;
    });
    let expected = format!("{}: reads is {}, was {}", row.row, row.reads, row.reads + 1);
    assert_eq!(changed, expected);
    // Another file, other times: a file of 5 MiB more is read.
    let longer = difference(&|other| {
        let names = other.parts[0].files.get_mut("lists/names.txt").unwrap();
        names[0] = "5242880 a/b".to_owned();
    });
    assert!(longer.contains(" is ") && longer.contains(" was "), "{longer}");
    let traced = difference(&|other| {
        other.parts[0].expected.trace_hashes.insert("disk".to_owned(), "0".to_owned());
    });
    assert!(traced.starts_with("the trace of \"disk\" is "), "{traced}");
    let rest = difference(&|other| other.parts[0].expected.report_hash.clear());
    assert!(rest.starts_with("the rest of the report is "), "{rest}");
}

#[test]
fn hostile_capsules_give_one_line() {
    let folder = folder();
    let good = packed(&folder);
    let json = good.to_json();
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        &json[..json.len() / 2],
        &json.replace("capsule/1", "capsule/9"),
        &json.replacen("\"seed\"", "\"sed\"", 1),
        &json.replacen("\"scale\": 1", "\"scale\": 0", 1),
        &"[".repeat(100_000),
    ] {
        let error = Capsule::parse(text).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.len() < 300, "{error}");
    }
    let refused = |from: &str, to: &str| {
        let mut other = good.clone();
        other.parts[0].text =
            other.parts[0].text.iter().map(|line| line.replace(from, to)).collect();
        let error = other.verify().unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    // What it does not hold is not read from the host.
    for path in ["/etc/passwd", "../../../../etc/passwd.toml", "/dev/zero"] {
        let error = refused("own drive.toml", path);
        assert!(error.contains("which the capsule does not hold"), "{error}");
    }
    refused("own drive.toml", "elsewhere.toml");
    refused("name = \"small\"", "name = ");
    refused("step = \"remount\"", "step = \"explode\"");
    // Names of files lead nowhere: they are not paths of ours.
    let mut other = good.clone();
    let lines = vec!["x".to_owned()];
    other.parts[0].files.insert("../../escaped.txt".to_owned(), lines);
    assert_eq!(other.verify().unwrap()[0].difference, None);
    assert!(!std::env::temp_dir().join("../escaped.txt").exists());
}

#[test]
fn what_is_no_text_is_not_packed() {
    let folder = folder();
    std::fs::write(folder.join("lists/names.txt"), [0xff, 0xfe, 0]).unwrap();
    let name = folder.join("mine.toml").display().to_string();
    let error = pack(&[name], None, 1, None).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    assert!(pack(&["/no/such.toml".to_owned()], None, 1, None).is_err());
}

/// What Python's own modules read of a table: its columns, and how many rows.
fn read_by_python(folder: &Scratch, make: impl Fn() -> Observations<'static>) -> (String, String) {
    let (csv, jsonl) = (folder.join("data.csv"), folder.join("data.jsonl"));
    for (path, form) in [(&csv, DataForm::Csv), (&jsonl, DataForm::JsonLines)] {
        make().write(form, &mut std::fs::File::create(path).unwrap()).unwrap();
    }
    let program = "import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1], newline='')))
objects = [json.loads(line) for line in open(sys.argv[2])]
assert len(rows) == len(objects) and rows, (len(rows), len(objects))
for row, one in zip(rows, objects):
    assert list(row) == list(one)
    for key, value in one.items():
        text = '' if value is None else json.dumps(value) if not isinstance(value, str) else value
        assert row[key] == text, (key, row[key], value)
print(','.join(rows[0]), len(rows), sep='|')";
    let ran = Command::new("python3").args(["-c", program]).args([&csv, &jsonl]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    let (columns, rows) = text.trim().split_once('|').unwrap();
    (columns.to_owned(), rows.to_owned())
}

#[test]
fn python_reads_the_observations_of_a_run() {
    let folder = folder();
    let scenario = scenario::parse("mine.toml", SCENARIO, Path::new(&folder.join(""))).unwrap();
    let report = scenario::run(&scenario, &RunOptions::default()).unwrap().report;
    let (columns, rows) = read_by_python(&folder, || observations::of_report(&report));
    assert!(columns.starts_with("scenario,seed,scale,model_version,kind,"), "{columns}");
    let calls: usize = report.processes.iter().map(|process| process.calls.len()).sum();
    let layouts: usize = report.filesystems.iter().map(|entry| entry.layouts.len()).sum();
    let expected = report.drives.len() + layouts + report.measures.len() + report.steps.len();
    assert_eq!(report.results.len(), 1);
    assert_eq!(rows, (expected + calls + 1).to_string());
}
