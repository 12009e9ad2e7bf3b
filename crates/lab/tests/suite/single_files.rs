//! Steps for single files: which they choose, what they leave, and that one seed does the same
//! again.
use extant_block::BlockDevice;
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_lab::report::Report;
use extant_lab::scenario::{self, Outcome, RunOptions, Scenario};
use std::path::Path;
use std::sync::Arc;

const HEAD: &str = r#"
name = "t"
[[drive]]
name = "disk"
model = "ide-2001-7200"
[[tree]]
name = "files"
rule = "flat"
files = 10
directories = 2
size = "8K"
[[filesystem]]
name = "volume"
size = "128M"
profile = "ext2"
"#;

fn text(steps: &str) -> String {
    format!("{HEAD}[[process]]\nname = \"p\"\nsteps = [\n{steps}\n]\n")
}

fn parse(text: &str) -> Scenario {
    scenario::parse("test.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn run_with(steps: &str, options: &RunOptions) -> Outcome {
    scenario::run(&parse(&text(steps)), options).unwrap_or_else(|error| panic!("{error}"))
}

fn run(steps: &str) -> Outcome {
    run_with(steps, &RunOptions::default())
}

fn failure(steps: &str) -> String {
    let scenario = match scenario::parse("test.toml", &text(steps), Path::new("")) {
        Ok(scenario) => scenario,
        Err(error) => return error.to_string(),
    };
    match scenario::run(&scenario, &RunOptions::default()) {
        Ok(_) => panic!("ran: {steps}"),
        Err(error) => error.to_string(),
    }
}

/// Names and sizes below a directory of what a run left, sorted; directories have no size.
fn left(outcome: &Outcome) -> Vec<(String, Option<u64>)> {
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(outcome.filesystems[0].check(&scratch.path().join("image")).unwrap(), "");
    let device: Arc<dyn BlockDevice> = Arc::clone(&outcome.filesystems[0].contents);
    let policies: Policies = "modern".parse().unwrap();
    let data = DataKeeping::Phantom;
    let options = Options { access: Access::ReadOnly, policies, cache_bytes: 16 << 20, data };
    let filesystem = Filesystem::open(device, &options).unwrap();
    let mut found = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in filesystem.read_dir(format!("{directory}/")).unwrap() {
            let path = format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
            let metadata = filesystem.symlink_metadata(&path).unwrap();
            if metadata.file_type == extant_format::inode::FileType::Directory {
                directories.push(path.clone());
                found.push((path, None));
            } else {
                found.push((path, Some(metadata.size)));
            }
        }
    }
    found.retain(|(path, _)| path != "/lost+found");
    found.sort();
    found
}

fn names(outcome: &Outcome) -> Vec<String> {
    left(outcome).into_iter().filter(|(_, size)| size.is_some()).map(|(path, _)| path).collect()
}

const MAKE: &str = r#"{ step = "make-tree", at = "/t", tree = "files" },"#;

/// Files 0 to 4 are in dir-0, 5 to 9 in dir-1.
fn numbered(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|number| format!("/t/dir-{}/file-{number}", number / 5)).collect()
}

#[test]
fn files_are_chosen_by_path_number_place_and_stride() {
    let cases: &[(&str, &[u64])] = &[
        (r#"path = "/t/dir-0/file-3""#, &[3]),
        (r#"at = "/t", tree = "files", number = 7"#, &[7]),
        (r#"at = "/t", tree = "files", first = 3"#, &[0, 1, 2]),
        (r#"at = "/t", tree = "files", last = 3"#, &[7, 8, 9]),
        (r#"at = "/t", tree = "files", every = 2"#, &[0, 2, 4, 6, 8]),
        (r#"at = "/t", tree = "files", every = 4, from = 1"#, &[1, 5, 9]),
        (r#"at = "/t", order = "name", every = 2"#, &[0, 2, 4, 6, 8]),
        (r#"at = "/t/dir-1", order = "name", first = 2"#, &[5, 6]),
        (r#"at = "/t", order = "inode", last = 100"#, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ];
    for (which, gone) in cases {
        let outcome = run(&format!("{MAKE}{{ step = \"remove\", {which} }}"));
        let rest: Vec<u64> = (0..10).filter(|number| !gone.contains(number)).collect();
        assert_eq!(names(&outcome), numbered(&rest), "{which}");
        assert_eq!(outcome.report.steps[1].work.files, gone.len() as u64, "{which}");
    }
}

#[test]
fn each_deed_does_what_it_says() {
    let size = |deed: &str, path: &str| {
        let files = left(&run(&format!("{MAKE}{deed}")));
        files.into_iter().find(|(found, _)| found == path).map(|(_, size)| size.unwrap())
    };
    let one = r#"path = "/t/dir-0/file-1""#;
    let path = "/t/dir-0/file-1";
    let deed = |words: &str| format!("{{ {words}, {one} }}");
    assert_eq!(size(&deed(r#"step = "append", bytes = 100"#), path), Some(8292));
    assert_eq!(size(&deed(r#"step = "append", bytes = "1M", synced = true"#), path), Some(1056768));
    assert_eq!(size(&deed(r#"step = "truncate", bytes = 10"#), path), Some(10));
    assert_eq!(size(&deed(r#"step = "truncate", bytes = "1G""#), path), Some(1 << 30));
    assert_eq!(size(&deed(r#"step = "overwrite", bytes = "4K""#), path), Some(8192));
    let some = format!(r#"{MAKE}{{ step = "overwrite", offset = 4096, bytes = "4K", {one} }}"#);
    assert_eq!(run(&some).report.steps[1].work.bytes_written, 4096);
    // Of the files of a tree as much as they have.
    let rest = r#"{ step = "overwrite", at = "/t", tree = "files", offset = 8000, bytes = "4K" }"#;
    assert_eq!(run(&format!("{MAKE}{rest}")).report.steps[1].work.bytes_written, 10 * 192);
    assert_eq!(size(&deed(r#"step = "rewrite", bytes = "3K""#), path), Some(3072));
    assert_eq!(size(&deed(r#"step = "rewrite""#), path), Some(8192));
    assert_eq!(size(&deed(r#"step = "rename", to = "/moved""#), path), None);
    assert_eq!(size(&deed(r#"step = "rename", to = "/moved""#), "/moved"), Some(8192));
    assert_eq!(size(&deed(r#"step = "rename", to = "/t/dir-1/file-6""#), path), None);
    assert_eq!(size(&deed(r#"step = "link", to = "/more""#), path), Some(8192));
    assert_eq!(size(&deed(r#"step = "link", to = "/more""#), "/more"), Some(8192));
    let create = r#"{ step = "create", path = "/new", size = "5K" }"#;
    assert_eq!(size(create, "/new"), Some(5120));
    let again = r#"{ step = "create", path = "/t/dir-0/file-1" }"#;
    assert_eq!(size(again, path), Some(0));
    let link = r#"{ step = "symlink", path = "/link", target = "t/dir-0" }"#;
    assert_eq!(size(link, "/link"), Some(7));
    let mkdir = run(&format!("{MAKE}{{ step = \"mkdir\", path = \"/a/b/c\" }}"));
    assert!(left(&mkdir).contains(&("/a/b/c".to_owned(), None)));
    let gone = format!(
        "{MAKE}{{ step = \"mkdir\", path = \"/a\" }}, {{ step = \"remove\", path = \"/a\" }}"
    );
    assert!(!left(&run(&gone)).contains(&("/a".to_owned(), None)));
    let work =
        run(&format!("{MAKE}{{ step = \"read\", at = \"/t\", every = 2 }}")).report.steps[1].work;
    assert_eq!((work.files, work.bytes_read), (5, 5 * 8192));
}

/// What is gone does not shift the numbers of what is left.
#[test]
fn the_number_of_a_file_stays_its_own() {
    let steps = format!(
        "{MAKE}{{ step = \"repeat\", count = 4, steps = [ {{ step = \"remove\", at = \"/t\", tree \
         = \"files\", number = \"{{r}}\" }} ] }}"
    );
    assert_eq!(names(&run(&steps)), numbered(&[4, 5, 6, 7, 8, 9]));
}

#[test]
fn renamed_and_linked_files_have_their_numbers_in_their_names() {
    let steps = format!(
        "{MAKE}{{ step = \"rename\", at = \"/t\", tree = \"files\", every = 5, from = 1, to = \
         \"/n-%d\" }}, {{ step = \"link\", at = \"/t\", tree = \"files\", number = 0, to = \
         \"/l-%d\" }}"
    );
    let names = names(&run(&steps));
    assert_eq!(names[..3], ["/l-0", "/n-1", "/n-6"]);
}

#[test]
fn what_is_drawn_is_gone_once_and_decided_by_the_seed() {
    let steps = format!(
        "{MAKE}{{ step = \"remove\", at = \"/t\", tree = \"files\", draw = 4 }}, {{ step = \
         \"repeat\", count = 3, steps = [ {{ step = \"remove\", at = \"/t\", tree = \"files\", \
         draw = 1, skew = \"80/20\" }} ] }}, {{ step = \"append\", at = \"/t\", tree = \"files\", \
         draw = 20, bytes = 1000 }}"
    );
    let first = left(&run(&steps));
    let files: Vec<u64> = first.iter().filter_map(|(_, size)| *size).collect();
    // Seven of ten are gone; twenty appends of 1,000 bytes went to the three that are left.
    assert_eq!(files.len(), 3);
    assert_eq!(files.iter().sum::<u64>(), 3 * 8192 + 20_000);
    assert_eq!(left(&run(&steps)), first);
    let seeds = (2..8).map(|seed| {
        left(&run_with(&steps, &RunOptions { seed: Some(seed), ..RunOptions::default() }))
    });
    assert!(seeds.into_iter().any(|other| other != first));
    // A tree that is made again has all its files.
    let again = format!(
        "{steps}, {MAKE} {{ step = \"remove\", at = \"/t\", tree = \"files\", draw = 10 }}"
    );
    assert_eq!(names(&run(&again)), Vec::<String>::new());
}

/// Of self-similar draws 80 % fall on the first 20 % of the files, and 64 % on the first 4 %.
#[test]
fn skewed_draws_prefer_the_first_files() {
    let steps = r#"
        { step = "create-files", at = "/s", count = 100, names = "%d%d%d" },
        { step = "append", at = "/s", order = "name", draw = 4000, skew = "80/20", bytes = 1 },
    "#;
    let files = left(&run(steps));
    let share = |count: usize| -> u64 {
        let first = files.iter().filter_map(|(_, size)| *size).take(count);
        first.sum()
    };
    assert_eq!(share(100), 4000);
    assert!((3100..3300).contains(&share(20)), "{}", share(20));
    assert!((2450..2670).contains(&share(4)), "{}", share(4));
}

#[test]
fn trees_grow_stage_by_stage_with_other_work_between() {
    let steps = r#"
        { step = "repeat", count = 2, steps = [
            { step = "make-tree", at = "/t", tree = "files", stages = "directories", measure = "stage {r}" },
            { step = "create", path = "/between-{r}" },
            { step = "make-tree", at = "/u", tree = "files", stages = 2 },
        ] },
    "#;
    let outcome = run(steps);
    let made = |report: &Report, name: &str| report.measure(name).unwrap().work.files;
    assert_eq!((made(&outcome.report, "stage 0"), made(&outcome.report, "stage 1")), (5, 5));
    let names = names(&outcome);
    assert_eq!(names.iter().filter(|name| name.starts_with("/t/")).count(), 10);
    assert_eq!(names.iter().filter(|name| name.starts_with("/u/")).count(), 10);
    assert_eq!(names[..2], ["/between-0", "/between-1"]);
    let third = steps.replace("count = 2, steps", "count = 3, steps");
    assert!(failure(&third).ends_with("/t: all stages of the tree were made before"));
    let staged = run(&format!(
        "{}{}",
        MAKE.replace(" }", ", stages = 3 }"),
        MAKE.replace(" }", ", stages = 3 }")
    ));
    assert_eq!(staged.report.steps.iter().map(|step| step.work.files).sum::<u64>(), 6);
}

#[test]
fn directories_at_the_top_have_a_row_each() {
    let steps = format!(
        r#"{MAKE} {{ step = "remount" }},
        {{ step = "read-all", at = "/t", rows = "directories", label = "read", measure = "all" }},
        {{ step = "tar", to = "zero", at = "/t", rows = "directories", cold = true }},"#
    );
    let report = run(&steps).report;
    let row = |name: &str| report.measure(name).unwrap();
    for name in ["read: dir-0", "read: dir-1", "tar: dir-0", "tar: dir-1"] {
        assert_eq!(row(name).work.files, 5, "{name}");
        assert_eq!(row(name).work.bytes_read, 5 * 8192, "{name}");
    }
    assert_eq!(row("all").work.files, 10);
    assert!(row("read: dir-0").elapsed_ns + row("read: dir-1").elapsed_ns <= row("all").elapsed_ns);
    // Cold, its blocks are read again.
    assert!(row("tar: dir-1").traffic.bytes_read >= 5 * 8192);
}

#[test]
fn copies_are_whole() {
    let steps = format!(
        r#"{MAKE} {{ step = "symlink", path = "/t/dir-0/l", target = "x" }},
        {{ step = "copy", at = "/t", to = "/c" }},"#
    );
    let outcome = run(&steps);
    let files = left(&outcome);
    let below = |top: &str| -> Vec<(String, Option<u64>)> {
        let below = files.iter().filter_map(|(path, size)| Some((path.strip_prefix(top)?, size)));
        below.map(|(path, size)| (path.to_owned(), *size)).collect()
    };
    assert_eq!(below("/t").len(), 14);
    assert_eq!(below("/t"), below("/c"));
    let work = outcome.report.steps[2].work;
    assert_eq!((work.bytes_read, work.bytes_written), (81920, 81920));
}

#[test]
fn a_file_system_lives_between_steps_and_may_begin_aged() {
    let steps = r#"
        { step = "age", profile = "mail", days = 2 },
        { step = "survey", label = "young" },
        { step = "age", profile = "mail", days = 20 },
    "#;
    let outcome = run(steps);
    let layouts = &outcome.report.filesystems[0].layouts;
    let score = |when: &str| {
        let found = layouts.iter().find(|layout| layout.when == when).unwrap();
        (found.layout.files, found.layout.layout_score_permille.unwrap())
    };
    assert!(score("young").0 > 50 && score("after").0 > 50, "{layouts:?}");
    assert!(score("after").1 < score("young").1, "{layouts:?}");
    left(&outcome);
    // The drive has no part in it: all that it wrote is what closing and opening write.
    assert!(outcome.report.drives[0].traffic.bytes_written < 4 << 20);
    let aged = HEAD.to_owned() + "aged = { profile = \"mail\", days = 3 }\n";
    let text = format!(
        "{aged}[[process]]\nname = \"p\"\nsteps = [ {{ step = \"read-all\", at = \"/\" }} ]\n"
    );
    let outcome = scenario::run(&parse(&text), &RunOptions::default()).unwrap();
    assert!(outcome.report.steps[0].work.files > 50);
    assert!(outcome.report.filesystems[0].layouts[0].layout.files > 50);
}

#[test]
fn a_file_system_may_begin_with_a_recorded_session() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "{\"schema\":\"extant-file-trace/1\"}\n\
        {\"at_ns\":1,\"took_ns\":5,\"node\":1,\"call\":\"create\",\"name\":\"kept\",\
        \"mode\":33188,\"made\":12}\n\
        {\"at_ns\":9,\"took_ns\":5,\"node\":12,\"call\":\"write\",\"offset\":0,\"bytes\":70000}\n\
        {\"at_ns\":20,\"took_ns\":5,\"node\":12,\"call\":\"close\"}\n";
    std::fs::write(folder.path().join("day.files"), trace).unwrap();
    let text = |name: &str| {
        format!(
            "{HEAD}aged = {{ session = \"{name}\" }}\n[[process]]\nname = \"p\"\nsteps = [ {{ step \
             = \"sync\" }} ]\n"
        )
    };
    let parsed = scenario::parse("test.toml", &text("day.files"), folder.path()).unwrap();
    let outcome = scenario::run(&parsed, &RunOptions::default()).unwrap();
    assert_eq!(left(&outcome), [("/kept".to_owned(), Some(70000))]);
    let refused =
        scenario::parse("test.toml", &text("none"), folder.path()).unwrap_err().to_string();
    assert!(refused.starts_with("test.toml:16: filesystem.aged.session: "), "{refused}");
}

#[test]
fn a_process_can_work_on_several_file_systems_in_turn() {
    let text = r#"
name = "t"
[[drive]]
name = "one"
model = "ide-2001-7200"
[[drive]]
name = "two"
model = "ide-2001-7200"
[[filesystem]]
name = "stock"
drive = "one"
size = "64M"
[[filesystem]]
name = "patched"
drive = "two"
size = "64M"
[[process]]
name = "p"
filesystem = ["stock", "patched"]
steps = [ { step = "create-files", at = "/", count = 100, size = "4K", measure = "create" } ]
[[process]]
name = "q"
filesystem = "stock"
after = "p on patched"
steps = [ { step = "sync" } ]
"#;
    let report = scenario::run(&parse(text), &RunOptions::default()).unwrap().report;
    let named: Vec<(&str, bool)> =
        report.processes.iter().map(|one| (one.name.as_str(), one.started_ns > 0)).collect();
    assert_eq!(named.len(), 3);
    assert_eq!((named[0].0, named[1].0), ("p on stock", "p on patched"));
    assert!(report.processes[1].started_ns >= report.processes[0].ended_ns);
    assert_eq!(report.measures.iter().filter(|row| row.measure == "create").count(), 2);
    let wrong = text.replace("\"patched\"]", "\"potched\"]");
    let error = scenario::parse("test.toml", &wrong, Path::new("")).unwrap_err().to_string();
    assert_eq!(
        error,
        "test.toml:19: process.filesystem: unknown filesystem \"potched\": known are stock, patched"
    );
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let cases = [
        (r#"{ step = "append", path = "/f" }"#, "test.toml:19: process.steps.bytes: is missing"),
        (r#"{ step = "read" }"#, "test.toml:19: process.steps.path: is missing, and so is at"),
        (
            r#"{ step = "read", path = "/f", draw = 3 }"#,
            "test.toml:19: process.steps.draw: cannot be with path",
        ),
        (
            r#"{ step = "read", at = "/f", draw = 3, every = 2 }"#,
            "test.toml:19: process.steps.draw: cannot be with every",
        ),
        (
            r#"{ step = "read", at = "/f", from = 3 }"#,
            "test.toml:19: process.steps.from: goes with every",
        ),
        (
            r#"{ step = "read", at = "/f", skew = "80/20" }"#,
            "test.toml:19: process.steps.skew: goes with draw",
        ),
        (
            r#"{ step = "read", at = "/f", draw = 1, skew = "0/20" }"#,
            "test.toml:19: process.steps.skew: has to be",
        ),
        (
            r#"{ step = "read", at = "/f", number = "x" }"#,
            "test.toml:19: process.steps.number: has to be a number from 0",
        ),
        (
            r#"{ step = "read", at = "/f", every = 0 }"#,
            "test.toml:19: process.steps.every: has to lie",
        ),
        (
            r#"{ step = "read", at = "/f", tree = "oak" }"#,
            "test.toml:19: process.steps.tree: unknown tree",
        ),
        (
            r#"{ step = "make-tree", at = "/f", tree = "files", stages = "x" }"#,
            "test.toml:19: process.steps.stages: has to be",
        ),
        (
            r#"{ step = "find", at = "/", cold = true }"#,
            "test.toml:19: process.steps.cold: needs rows",
        ),
        (
            r#"{ step = "copy", at = "/a", to = "/a/b" }"#,
            "test.toml:19: process.steps.to: lies in what is copied",
        ),
        (
            r#"{ step = "age", profile = "mail" }"#,
            "test.toml:19: process.steps.days: is missing, and so is months",
        ),
        (
            r#"{ step = "age", profile = "none", days = 1 }"#,
            "test.toml:19: process.steps.profile: none: no such profile",
        ),
        (
            r#"{ step = "remove", path = "/none" }"#,
            "test.toml:19: process p: remove: /none: no such file or directory",
        ),
        (
            r#"{ step = "read", at = "/", number = 3 }"#,
            "test.toml:19: process p: read: /: has 0 files, and none of number 3",
        ),
        (
            r#"{ step = "read", at = "/", draw = 3 }"#,
            "test.toml:19: process p: read: /: has no file to draw",
        ),
        (
            r#"{ step = "append", path = "/", bytes = 1 }"#,
            "test.toml:19: process p: append: /: is a directory",
        ),
    ];
    let made = [
        (
            r#"{ step = "overwrite", offset = 8000, bytes = "4K", path = "/t/dir-0/file-1" }"#,
            "test.toml:20: process p: overwrite: /t/dir-0/file-1: 4096 bytes were to be \
             overwritten, and only 192 lie there",
        ),
        (
            r#"{ step = "remove", at = "/t", tree = "files", draw = 11 }"#,
            "test.toml:20: process p: remove: /t: has 10 files, and 11 of them cannot be drawn",
        ),
        (
            r#"{ step = "repeat", count = 2, steps = [
                { step = "remove", at = "/t", tree = "files", number = 3 }] }"#,
            "test.toml:21: process p: remove: /t: its file of number 3 was removed or renamed",
        ),
    ];
    for (step, start) in made {
        let error = failure(&format!("{MAKE}\n{step}"));
        assert!(error.starts_with(start), "{error}\nnot {start}");
    }
    for (step, start) in cases {
        let error = failure(step);
        assert!(error.starts_with(start), "{error}\nnot {start}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn runs_of_until_have_numbers_and_what_has_none_is_refused() {
    let outcome = run("{ step = \"until\", for = \"200ms\", steps = [
            { step = \"repeat\", count = 2, steps = [
                { step = \"create\", path = \"/m-{r2}-{r}\" } ] },
            { step = \"wait\", for = \"10ms\" } ] }");
    let names: Vec<String> = left(&outcome).into_iter().map(|(path, _)| path).collect();
    assert!(names.len() >= 6 && names.len().is_multiple_of(2), "{names:?}");
    assert!(names.starts_with(&["/m-0-0".to_owned(), "/m-0-1".into(), "/m-1-0".into()]));
    let cases = [
        ("{ step = \"create\", path = \"/m-{r}\" }", "path: has {r}, and no repeat or until is"),
        (
            "{ step = \"repeat\", count = 2, steps = [ { step = \"mkdir\", path = \"/{r2}\" } ] }",
            "path: has {r2}, and only one repeat or until is around the step",
        ),
        ("{ step = \"sync\", measure = \"{r}\" }", "measure: has {r}, and no repeat or until is"),
    ];
    for (steps, reason) in cases {
        let error = failure(steps);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn names_in_a_random_order_are_the_seeds_and_all_of_them() {
    let read = |order: &str| {
        format!(
            "{{ step = \"create-files\", at = \"/d\", count = 400, size = \"40K\" }},
             {{ step = \"remount\" }},
             {{ step = \"read-all\", at = \"/d\", order = \"{order}\", measure = \"read\" }}"
        )
    };
    let measured = |order: &str, seed: u64| {
        let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
        let report = run_with(&read(order), &options).report;
        let row = report.measures.iter().find(|row| row.measure == "read").unwrap();
        assert_eq!(row.work.files, 400);
        (row.elapsed_ns, report.trace_hash)
    };
    let (sorted, random) = (measured("name", 1), measured("random", 1));
    assert!(random.0 > 2 * sorted.0, "{random:?} {sorted:?}");
    assert_eq!(random, measured("random", 1));
    assert_ne!(random.1, measured("random", 2).1);
}

#[test]
fn what_a_bare_drive_cannot_do_is_refused() {
    let bare = |keys: &str| {
        let text = format!(
            "name = \"t\"\n[[drive]]\nname = \"disk\"\nmodel = \"ide-2001-7200\"\n[[process]]\n\
             name = \"p\"\ndrive = \"disk\"\nsteps = [ {{ step = \"sequential\", direction = \
             \"read\", count = 3, {keys} }} ]\n"
        );
        let scenario = match scenario::parse("test.toml", &text, Path::new("")) {
            Ok(scenario) => scenario,
            Err(error) => return error.to_string(),
        };
        let outcome = scenario::run(&scenario, &RunOptions::default());
        outcome.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(bare("chunk = 512"), "");
    let odd = bare("chunk = 1000");
    assert!(odd.contains("chunk: 1000 bytes are no whole sectors of 512 of disk"), "{odd}");
    assert!(bare("offset = 100").contains("offset: 100 bytes"));
    assert!(bare("path = \"/a\"").contains("path: cannot be on a bare drive"));
}
