//! `extant sweep` from outside: the same bytes however the work is divided, runs and workers that
//! are killed in the middle, limits, and one line for what is wrong.
//!
//! ```text
//! fixture   a folder with a matrix, and the command in it
//! mending   repair and heal, on copies
//! killed    kill -9 of a run and of its workers
//! wrong     what is wrong with a matrix, a plan, a directory or an image
//! ```
mod fixture;
mod killed;
mod mending;
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
    // A file of Parquet says at its end what is in it: as many rows, the same columns.
    folder.told(&["sweep", "collect", "d", "--parquet", "-o", "table.parquet"]);
    let parquet = std::fs::read(folder.path().join("table.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    for name in csv.lines().next().unwrap().split(',') {
        assert!(parquet.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
    // What is missing is said, and is an exit code.
    let lost = folder.files("d").into_keys().find(|name| name.starts_with("results/")).unwrap();
    std::fs::remove_file(folder.path().join("d").join(lost)).unwrap();
    let (code, said) = folder.failure(&["sweep", "collect", "d", "--csv"]);
    let line = format!("extant: sweep: d: 1 of {MIXED_JOBS} jobs have no result");
    assert!(code == 1 && said.starts_with(&line), "{code} {said}");
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1)[1], 1);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the host's clock has to go on by a tick")]
fn a_file_that_changed_after_its_result_is_made_again() {
    let folder = Folder::new("sweep-changed");
    let matrix = "[[jobs]]\nkind = \"build\"\nover = { source = \"tree\", L = [\"a\", \"b\"] }\n";
    folder.plan(matrix, "jobs");
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1), [2, 2, 0, 0]);
    let files = folder.files("d");
    let written = files.keys().find(|name| name.starts_with("out/")).unwrap();
    // As long as before: only its bytes tell.
    let mut bytes = files[written].clone();
    bytes[5000] ^= 1;
    let path = folder.path().join("d").join(written);
    // Later than the result by more than one tick of the host's clock.
    std::thread::sleep(std::time::Duration::from_millis(50));
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1), [2, 1, 1, 0]);
    assert!(folder.files("d") == files, "the bytes that the result names");
    // The same bytes written again are no change.
    std::thread::sleep(std::time::Duration::from_millis(50));
    std::fs::write(&path, &files[written]).unwrap();
    assert_eq!(counts(&folder.run(&["jobs", "d"]).1), [2, 0, 2, 0]);
}

#[test]
fn a_file_for_a_scheduler_runs_every_shard_once() {
    let folder = Folder::new("sweep-submit");
    folder.plan(MIXED, "it's jobs");
    assert_eq!(folder.run(&["it's jobs", "own"]).0, 0);
    let to = |kind: &str, words: &[&str]| {
        let submit = ["sweep", "submit", "it's jobs", "d e", "--shards", "3", "--to", kind];
        folder.told(&[&submit[..], words].concat())
    };
    // What Slurm does with it: the script once for each number of the array.
    let script = to("slurm", &["--memory", "1G", "--seconds", "3700", "--name", "night"]);
    for line in ["--array=1-3", "--mem=1024M", "--job-name=night"] {
        assert!(script.contains(&format!("#SBATCH {line}\n")), "{script}");
    }
    folder.write("slurm.sh", &script);
    let program = folder.command(&[]).get_program().to_owned();
    let folder_of_program = std::path::Path::new(&program).parent().unwrap().to_owned();
    for number in ["1", "2", "3"] {
        let path = format!("{}:{}", folder_of_program.display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("bash");
        shell.current_dir(folder.path()).arg("slurm.sh").env("PATH", path);
        let output = shell.env("SLURM_ARRAY_TASK_ID", number).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let results = |name: &str| {
        let files = folder.files(name).into_iter();
        files.filter(|(name, _)| name.starts_with("results/")).collect::<Vec<_>>()
    };
    assert_eq!(results("d e").len() as u64, MIXED_JOBS);
    assert!(results("d e") == results("own"), "the same bytes as one run gives");
    let manifest = to("kubernetes", &["--image", "a \"b\": c"]);
    assert!(manifest.contains("image: \"a \\\"b\\\": c\"\n"), "{manifest}");
    assert!(manifest.contains("- \"it's jobs\"\n") && manifest.contains("completions: 3\n"));
    for kind in ["slurm", "kubernetes", "hyperqueue", "dask-kubernetes"] {
        let text = to(kind, &[]).replace("\"$@\"", "");
        assert!(!text.contains('@'), "{kind}: something was not filled in: {text}");
    }
    // Not more tasks than jobs; a file that is there stays.
    folder.told(&[
        "sweep",
        "submit",
        "it's jobs",
        "d",
        "--to",
        "slurm",
        "--shards",
        "99",
        "-o",
        "s",
    ]);
    let written = std::fs::read_to_string(folder.path().join("s")).unwrap();
    assert!(written.contains(&format!("--array=1-{MIXED_JOBS}\n")));
    folder.write("empty", "\n");
    folder.write("other", "{}\n");
    for (words, message) in [
        (&["it's jobs", "d", "--to", "slurm", "-o", "s"][..], "s: File exists"),
        (&["empty", "d", "--to", "slurm"], "empty: has no job"),
        (&["other", "d", "--to", "slurm"], "other:1: "),
        (&["none", "d", "--to", "slurm"], "none: No such file"),
        (&["it's jobs", "d\n", "--to", "slurm"], "a name that no file can hold as a line"),
    ] {
        let (code, said) = folder.failure(&[&["sweep", "submit"], words].concat());
        assert!(code == 1 && said.contains(message), "{words:?}: {code} {said}");
    }
    let small = ["sweep", "submit", "it's jobs", "d", "--to", "slurm", "--memory", "100M"];
    assert_eq!(folder.failure(&small).0, 2);
    // Names that look like options, and like what Kubernetes would fill in.
    std::fs::copy(folder.path().join("it's jobs"), folder.path().join("-x")).unwrap();
    let odd = ["sweep", "submit", "--to", "slurm", "--shards", "1", "--", "-x", "-$(y)"];
    folder.write("odd.sh", &folder.told(&odd));
    let path = format!("{}:{}", folder_of_program.display(), std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder.path()).arg("odd.sh").env("PATH", path);
    let output = shell.env("SLURM_ARRAY_TASK_ID", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(results("-$(y)") == results("own"));
    let odd = ["sweep", "submit", "--to", "kubernetes", "--", "-x", "-$(y)"];
    assert!(folder.told(&odd).contains("- \"-$$(y)\"\n"));
    let name = ["sweep", "submit", "it's jobs", "d", "--to", "kubernetes", "--name", "A b"];
    assert_eq!(folder.failure(&name).0, 2);
}

#[test]
fn numbers_are_shown_side_by_side() {
    let folder = Folder::new("sweep-plot");
    folder.plan(MIXED, "jobs");
    assert_eq!(folder.run(&["jobs", "d"]).0, 0);
    // The median, least and greatest of two seeds, as the table has them.
    let table = folder.told(&["sweep", "collect", "d", "--jsonl"]);
    let times = |drive: &str, placement: &str| {
        let rows =
            table.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let own = rows.filter(|row| {
            row["result.kind"] == "measure"
                && row["drive"] == drive
                && row["column.placement"] == placement
        });
        let mut times: Vec<u64> = own.map(|row| row["elapsed_ns"].as_u64().unwrap()).collect();
        times.sort_unstable();
        times
    };
    let plot = ["sweep", "plot", "d", "--where", "kind=lab run"];
    let line =
        folder.told(&[&plot[..], &["--json", "--svg", "p.svg", "--html", "p.html"]].concat());
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let axes = |at: usize| told["axes"][at]["values"].as_array().unwrap().clone();
    assert_eq!((&told["axes"][0]["key"], axes(0).len()), (&"column.placement".into(), 2));
    assert_eq!(told["axes"][1]["key"], "drive");
    let found = told["found"].as_array().unwrap();
    assert_eq!(found.len(), 4);
    for one in found {
        let at = |axis: usize| one["place"][axis].as_u64().unwrap() as usize;
        let name = |axis: usize| axes(axis)[at(axis)].as_str().unwrap().to_owned();
        let times = times(&name(1), &name(0));
        assert_eq!(times.len(), 2);
        assert_eq!(one["count"], 2);
        for (key, time) in [("least", times[0]), ("median", times[0]), ("greatest", times[1])] {
            assert_eq!(one[key].as_f64().unwrap() as u64, time, "{key} {line}");
        }
    }
    let picture = std::fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert_eq!(picture.matches("class=\"range").count(), 4);
    assert!(picture.contains("Where kind=lab run, result.kind=measure."), "{picture}");
    let page = std::fs::read_to_string(folder.path().join("p.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("ide-2001-7200"));
    // A picture is replaced, another file is not.
    let again = folder.told(
        &[&plot[..], &["--svg", "p.svg", "--rows", "drive", "--by", "column.placement"]].concat(),
    );
    assert!(again.contains("Rows: drive. Lines: column.placement."), "{again}");
    folder.write("note.svg", "mine");
    for (words, message) in [
        (&["--svg", "note.svg"][..], "--svg note.svg: exists, and is no picture of extant"),
        (&["--rows", "drive"], "column.placement: nothing was said of what changes"),
        (&["--value", "nothing"], "nothing: the results have no such column"),
        (&["--value", "total_ns"], "total_ns: a job has several rows with it"),
        (&["--where", "drive=none"], "d: no row that was asked for has elapsed_ns"),
    ] {
        let (code, said) = folder.failure(&[&plot[..], words].concat());
        assert!(code == 1 && said.contains(message), "{words:?}: {code} {said}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("note.svg")).unwrap(), "mine");
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
