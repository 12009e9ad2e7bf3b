//! `extant sweep` from outside: the same bytes however the work is divided, runs and workers that
//! are killed in the middle, limits, and one line for what is wrong.
//!
//! ```text
//! fixture   a folder with a matrix, and the command in it
//! killed    kill -9 of a run and of its workers
//! wrong     what is wrong with a matrix, a plan, a directory or an image
//! ```
mod fixture;
mod killed;
mod wrong;

use fixture::{Folder, MIXED, MIXED_JOBS, counts};

#[test]
fn one_worker_many_and_shards_give_the_same_bytes() {
    let folder = Folder::new("sweep-same");
    folder.plan(MIXED, "jobs");
    let (code, report) = folder.run(&["jobs", "serial", "-j", "1"]);
    assert_eq!((code, counts(&report)), (0, [MIXED_JOBS, MIXED_JOBS, 0, 0]), "{report}");
    let (code, report) = folder.run(&["jobs", "many", "-j", "3"]);
    assert_eq!((code, counts(&report)), (0, [MIXED_JOBS, MIXED_JOBS, 0, 0]), "{report}");
    let mut done = 0;
    for shard in ["1/3", "3/3", "2/3"] {
        let (code, report) = folder.run(&["jobs", "shards", "--shard", shard]);
        assert_eq!(code, 0, "{report}");
        done += counts(&report)[1];
    }
    assert_eq!(done, MIXED_JOBS);
    let serial = folder.files("serial");
    // A result for each, a file for each that is saved or built; the tars are elsewhere.
    assert_eq!(serial.len() as u64, MIXED_JOBS + 8 + 2);
    for other in ["many", "shards"] {
        let files = folder.files(other);
        assert!(files.keys().eq(serial.keys()));
        for (name, bytes) in &files {
            assert!(*bytes == serial[name], "{other}: {name} differs");
        }
    }
    let (_, again) = folder.run(&["jobs", "many"]);
    assert_eq!(counts(&again), [MIXED_JOBS, 0, MIXED_JOBS, 0]);
    assert_eq!(
        folder.told(&["sweep", "status", "many"]),
        format!("many: {MIXED_JOBS} jobs in 1 plans: {MIXED_JOBS} done, 0 failed, 0 left\n")
    );
}

#[test]
fn a_result_holds_what_the_command_prints() {
    let folder = Folder::new("sweep-result");
    folder.plan(MIXED, "jobs");
    let (code, report) = folder.run(&["jobs", "d"]);
    assert_eq!(code, 0, "{report}");
    let mut kinds = std::collections::BTreeSet::new();
    for (name, bytes) in folder.files("d").iter().filter(|(name, _)| name.starts_with("results/")) {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let words: Vec<&str> =
            result["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let kind = result["kind"].as_str().unwrap().to_owned();
        if result["outputs"].as_array().unwrap().is_empty() {
            let output = folder.output(&[&words[..], &["--json"]].concat());
            let printed = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(&format!("\"document\":{}", printed.trim())), "{name}: {text}");
            assert_eq!(result["exit"], output.status.code().unwrap());
        } else if kind != "tar" {
            let path = result["outputs"][0]["path"].as_str().unwrap();
            let path = folder.path().join("d").join(path);
            let (checked, said) = folder.failure(&["check", path.to_str().unwrap()]);
            assert_eq!(checked, 0, "{kind}: {said}");
        }
        assert_eq!(result["said"], serde_json::json!([]), "{name}");
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 6);
    let tar = std::fs::read(folder.path().join("tars/a.tar")).unwrap();
    folder.told(&["tar", "a.image", "-o", "own.tar"]);
    assert!(tar == std::fs::read(folder.path().join("own.tar")).unwrap());
    // A problem is a result of a check, and a difference one of diff.
    folder.write("b.image", "no image");
    folder.plan(
        "[[jobs]]\nkind = \"check\"\nover = { image = [\"a.image\", \"b.image\"] }\n",
        "checks",
    );
    let (code, report) = folder.run(&["checks", "e"]);
    assert_eq!((code, counts(&report)), (1, [2, 1, 0, 1]));
    let reason = report["failures"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("b.image: "), "{reason}");
}

#[test]
fn a_table_has_the_axes_and_the_observations() {
    let folder = Folder::new("sweep-collect");
    folder.plan(MIXED, "jobs");
    assert_eq!(folder.run(&["jobs", "d"]).0, 0);
    let table = folder.told(&["sweep", "collect", "d", "--jsonl"]);
    let rows: Vec<serde_json::Value> =
        table.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| rows.iter().filter(move |row| row["kind"] == kind);
    let reads =
        of("lab run").filter(|row| row["name"] == "read" && row["result.kind"] == "measure");
    assert_eq!(reads.clone().count(), 8);
    for row in reads {
        assert!(row["elapsed_ns"].as_u64().unwrap() > 1000 && row["drive"].is_string(), "{row}");
        assert!(row["column.placement"] == "orlov" || row["column.placement"] == "parent");
        assert!(row["output.save"].as_str().unwrap().ends_with(".save.img"));
    }
    assert_eq!(of("check").count(), 2);
    assert!(of("check").all(|row| row["problems.count"] == 0 && row["summary.inodes"].is_u64()));
    let csv = folder.told(&["sweep", "collect", "d", "--csv"]);
    assert_eq!(csv.lines().count(), rows.len() + 1);
    assert!(csv.starts_with("job,kind,exit,"), "{}", csv.lines().next().unwrap());
    folder.told(&["sweep", "collect", "d", "--csv", "-o", "table.csv"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("table.csv")).unwrap(), csv);
    // What is missing is said, and is an exit code.
    let lost = folder.files("d").into_keys().find(|name| name.starts_with("results/")).unwrap();
    std::fs::remove_file(folder.path().join("d").join(lost)).unwrap();
    let (code, said) = folder.failure(&["sweep", "collect", "d", "--csv"]);
    let line = format!("extant: sweep: d: 1 of {MIXED_JOBS} jobs have no result");
    assert!(code == 1 && said.starts_with(&line), "{code} {said}");
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1)[1], 1);
}

#[test]
fn plans_come_through_pipes_and_jobs_one_by_one() {
    let folder = Folder::new("sweep-pipe");
    let text = "[[jobs]]\nkind = \"check\"\nover = { image = [\"a.image\", \"b.image\"] }\n";
    folder.plan(text, "jobs");
    let mut piped = folder.command(&["sweep", "run", "-", "d", "--json"]);
    let jobs = std::fs::File::open(folder.path().join("jobs")).unwrap();
    let output = piped.stdin(jobs).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(counts(&report), [2, 2, 0, 0]);
    for (line, expected) in [("1", [1, 1, 0, 0]), ("2", [1, 1, 0, 0]), ("1", [1, 0, 1, 0])] {
        assert_eq!(counts(&folder.run(&["jobs", "e", "--job", line]).1), expected);
    }
    assert!(folder.files("d") == folder.files("e"));
    // A worker without a run, as another engine has it.
    let mut worker = folder.command(&["sweep", "worker", "f"]);
    let jobs = std::fs::File::open(folder.path().join("jobs")).unwrap();
    let output = worker.stdin(jobs).output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let states: Vec<String> = answers
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["state"].as_str().or(line["schema"].as_str()).unwrap().to_owned()
        })
        .collect();
    assert_eq!(states, ["extant-sweep-worker/1", "done", "done"]);
    assert!(folder.files("d") == folder.files("f"));
}

#[test]
fn limits_end_one_job_by_name() {
    let folder = Folder::new("sweep-limits");
    let text = "[[jobs]]\nkind = \"check\"\nover = { image = [\"a.image\", \"b.image\"] }\n\
        [[jobs]]\nkind = \"layout\"\nlimits = { memory = \"1M\" }\nover = { image = \"a.image\" }\n\
        [[jobs]]\nkind = \"lab age\"\nlimits = { seconds = 1 }\nover = { what = \"mail\" }\n";
    folder.plan(text, "jobs");
    let (code, report) = folder.run(&["jobs", "d", "--retries", "0"]);
    assert_eq!((code, counts(&report)), (1, [4, 2, 0, 2]), "{report}");
    let failures = report["failures"].as_array().unwrap();
    let of = |label: &str| {
        let failure =
            failures.iter().find(|failure| failure["label"].as_str().unwrap().starts_with(label));
        failure.unwrap()["reason"].as_str().unwrap()
    };
    assert!(of("layout image=a.image").starts_with("passed its memory limit of 1 MiB"));
    assert_eq!(of("lab age what=mail"), "passed its time limit of 1 s");
    let status = folder.told(&["sweep", "status", "d", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["failed"], &status["left"]), (&2.into(), &0.into()));
}

#[test]
fn the_example_is_the_question_of_the_document() {
    let folder = Folder::new("sweep-example");
    let example = extant_testkit::repository().join("docs/examples/matrix.toml");
    let jobs = folder.told(&["sweep", "plan", example.to_str().unwrap()]);
    assert_eq!(jobs.lines().count(), 3 * 11 * 4 * 5);
    folder.write("jobs", &jobs);
    // A few of them run.
    let (code, report) = folder.run(&["jobs", "d", "--shard", "7/220"]);
    assert_eq!((code, counts(&report)), (0, [3, 3, 0, 0]), "{report}");
}
