//! Scenarios: what files may say, what running them gives, and what becomes of the file systems.
use extant_block::BlockDevice;
use extant_chart::TEXT_WIDTH;
use extant_engine::preset::{Policies, preset};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_lab::scenario::step::KINDS;
use extant_lab::scenario::{self, Existing, Left, Outcome, RunOptions, Scenario, Target};
use extant_lab::scenario::{Changes, Setting, Settings, builtin, parse_changed};
use extant_sim::device::TraceKeeping;
use extant_testkit::lines::longer_than;
use extant_testkit::variables::number;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn parse(text: &str) -> Scenario {
    scenario::parse("test.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match scenario::parse("test.toml", text, Path::new("")) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

fn run(scenario: &Scenario, options: &RunOptions) -> Outcome {
    scenario::run(scenario, options).unwrap_or_else(|error| panic!("{error}"))
}

fn failure(scenario: &Scenario, options: &RunOptions) -> String {
    match scenario::run(scenario, options) {
        Ok(_) => panic!("{} ran", scenario.name),
        Err(error) => error.to_string(),
    }
}

fn scaled(scale: u64) -> RunOptions {
    RunOptions { scale, ..RunOptions::default() }
}

/// A scenario of one drive, one file system and one process.
fn simple(filesystem: &str, steps: &str) -> String {
    format!(
        "name = \"t\"\n[[drive]]\nname = \"disk\"\nmodel = \"ide-2001-7200\"\n[[filesystem]]\nname \
         = \"volume\"\n{filesystem}\n\
         [[process]]\nname = \"p\"\nsteps = [\n{steps}\n]\n"
    )
}

const SMALL: &str = "size = \"256M\"\nprofile = \"ext2\"";

fn sound(left: &Left) {
    let scratch = tempfile::tempdir().unwrap();
    let found = left.check(&scratch.path().join("image")).unwrap();
    assert_eq!(found, "", "{}", left.name);
}

/// Every path below the root with its size and owner, and what it holds.
fn listing(device: Arc<dyn BlockDevice>) -> Vec<(PathBuf, u64, Vec<u8>)> {
    let policies: Policies = "modern".parse().unwrap();
    let options = Options {
        access: Access::ReadOnly,
        policies,
        cache_bytes: 64 << 20,
        data: DataKeeping::Bytes,
    };
    let filesystem = Filesystem::open(device, &options).unwrap();
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("/")];
    while let Some(directory) = directories.pop() {
        for entry in filesystem.read_dir(&directory).unwrap() {
            use std::os::unix::ffi::OsStrExt;
            let path = directory.join(std::ffi::OsStr::from_bytes(&entry.name));
            let metadata = filesystem.symlink_metadata(&path).unwrap();
            if metadata.file_type == extant_format::inode::FileType::Directory {
                directories.push(path.clone());
                found.push((path, 0, Vec::new()));
            } else {
                let content = filesystem.read(&path).unwrap();
                found.push((path, metadata.size, content));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_built_in_scenario_runs_leaves_sound_volumes_and_loses_no_time() {
    let one_in = number("EXTANT_RUNS") as usize;
    for (at, builtin) in scenario::BUILTINS.iter().enumerate() {
        let scenario = scenario::find(builtin.name).unwrap();
        assert_eq!(scenario.name, builtin.name);
        if !at.is_multiple_of(one_in) {
            continue;
        }
        let outcome = run(&scenario, &scaled(50));
        outcome.filesystems.iter().for_each(sound);
        for drive in &outcome.report.drives {
            let traffic = &drive.traffic;
            assert!(traffic.requests > 0, "{}", builtin.name);
            assert_eq!(traffic.requests, traffic.reads + traffic.writes + traffic.flushes);
            assert_eq!(drive.read_latency.count, traffic.reads);
            assert!(traffic.busy_ns <= outcome.report.elapsed_ns);
        }
        assert!(!outcome.report.measures.is_empty(), "{}", builtin.name);
        let text = outcome.report.to_text(TEXT_WIDTH);
        assert_eq!(longer_than(&text, TEXT_WIDTH), Vec::<&str>::new(), "{}", builtin.name);
        for layout in outcome.report.filesystems.iter().flat_map(|entry| &entry.layouts) {
            assert_eq!(layout.layout.faults, 0, "{}", builtin.name);
        }
    }
}

/// Where the policies take more blocks than a file needs yet, what is left of them is given back.
#[test]
fn trees_that_are_placed_keep_no_blocks_in_hand() {
    for preset in ["linux-2.4", "linux-2.6", "modern"] {
        let volume = format!("{SMALL}\npreset = \"{preset}\"");
        let steps = "{ step = \"place-trees\", trees = [ { at = \"/home\", inodes = \"scattered\", \
                     tree = { rule = \"source\", files = 400, bytes = \"8M\" } } ] },\n{ step = \
                     \"check\" }";
        run(&parse(&simple(&volume, steps)), &scaled(1)).filesystems.iter().for_each(sound);
    }
}

#[test]
fn the_same_command_gives_the_same_bytes_and_another_seed_others() {
    for name in ["clients", "writer-and-reader", "open-program"] {
        let scenario = scenario::find(name).unwrap();
        let options = RunOptions { trace: TraceKeeping::All, ..scaled(50) };
        let (first, second) = (run(&scenario, &options).report, run(&scenario, &options).report);
        assert_eq!(first.to_json(), second.to_json());
        assert_eq!(first.to_text(TEXT_WIDTH), second.to_text(TEXT_WIDTH));
        let records = first.drives[0].trace.as_ref().unwrap();
        assert_eq!(records.len() as u64, first.drives[0].traffic.commands);
        let other = RunOptions { seed: Some(7), ..options };
        assert_ne!(run(&scenario, &other).report.trace_hash, first.trace_hash, "{name}");
    }
}

const WORK: &str = r#"
    { step = "untar", at = "/one", tree = { rule = "source", files = 150, directories = 12, bytes = "600K" } },
    { step = "sync" },
    { step = "create-files", at = "/flat", count = 60, directories = 4, size = 0, size_max = "20K", order = "round-robin" },
    { step = "remove", at = "/one" },
    { step = "make-tree", at = "/two", tree = { rule = "source", files = 80, directories = 5 } },
    { step = "remount" },
    { step = "random", direction = "write", path = "/file", count = 40, span = "1M" },
    { step = "diff", at = "/two", with = "/flat" },
"#;

#[test]
fn virtual_and_real_time_leave_the_same_tree() {
    let folder = tempfile::tempdir().unwrap();
    for profile in ["ext2", "ext3", "ext4"] {
        let text =
            simple(&format!("size = \"128M\"\nprofile = \"{profile}\"\ndata = \"bytes\""), WORK);
        let scenario = parse(&text);
        let simulated = run(&scenario, &scaled(1));
        let path = folder.path().join(profile);
        let target = Target::Real { path: path.clone(), existing: Existing::Keep };
        let options = RunOptions { target, ..scaled(1) };
        let real = run(&scenario, &options);
        for left in simulated.filesystems.iter().chain(&real.filesystems) {
            sound(left);
        }
        let expected = listing(Arc::clone(&simulated.filesystems[0].contents));
        assert_eq!(listing(Arc::clone(&real.filesystems[0].contents)), expected, "{profile}");
        assert!(
            expected
                .iter()
                .any(|(_, size, content)| *size > 4096 && content[5000..5027].contains(&b'\n'))
        );
        assert!(expected.len() > 140);
        let refused = failure(&scenario, &options);
        assert!(refused.ends_with("is not empty, and would be overwritten"), "{refused}");
    }
}

#[test]
fn phantom_data_takes_the_same_time_as_bytes() {
    let hash = |data: &str| {
        let text = simple(&format!("{SMALL}\ndata = \"{data}\""), WORK);
        run(&parse(&text), &scaled(1)).report.trace_hash
    };
    assert_eq!(hash("phantom"), hash("bytes"));
}

#[test]
fn an_image_takes_part_and_is_never_changed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    let made = run(&parse(&simple(&format!("{SMALL}\ndata = \"bytes\""), WORK)), &scaled(1));
    made.filesystems[0].save(&image).unwrap();
    let before = std::fs::read(&image).unwrap();
    for name in ["read-cold", "stat-cold", "find", "tar"] {
        let options = RunOptions { image: Some(image.clone()), ..scaled(1) };
        let report = run(&scenario::find(name).unwrap(), &options).report;
        let step = report.measures.first().unwrap();
        let layout = &report.filesystems[0].layouts[0].layout;
        let others = if name == "find" || name == "stat-cold" || name == "tar" {
            0
        } else {
            layout.data_blocks
        };
        assert!(
            step.traffic.bytes_read >= others * u64::from(report.filesystems[0].block_size),
            "{name}"
        );
        assert_eq!(step.work.files, layout.files, "{name}");
        assert_eq!(step.traffic.writes, 0, "{name}");
        assert!(report.filesystems[0].image.is_some());
    }
    // Whether its data was loaded makes no difference to anything but memory.
    let cold = r#"{ step = "read-all", at = "/", measure = "all" }"#;
    let hash = |data: &str| {
        let filesystem = format!("image = {:?}\ndata = \"{data}\"", image.display().to_string());
        let outcome = run(&parse(&simple(&filesystem, cold)), &scaled(1));
        let resident = outcome.filesystems[0].contents.read(0, &mut [0; 4096]);
        assert!(resident.is_ok() && outcome.report.measures[0].work.bytes_read > 600_000);
        sound(&outcome.filesystems[0]);
        outcome.report.trace_hash
    };
    assert_eq!(hash("phantom"), hash("bytes"));
    // The same image in real time, read-only, without being asked whether it may be lost.
    let options = RunOptions {
        image: Some(image.clone()),
        target: Target::Real { path: image.clone(), existing: Existing::Keep },
        ..scaled(1)
    };
    let report = run(&scenario::find("read-cold").unwrap(), &options).report;
    assert!(report.measures[0].work.bytes_read > 600_000);
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn steps_do_what_they_say() {
    let steps = r#"
        { step = "make-directories", at = "/d", count = 7 },
        { step = "create-files", at = "/throwaway", count = 1000, size = 8192, names = "file-name-%d-%d-%d-%d" },
        { step = "remount", preset = "linux-2.6" },
        { step = "getdents", at = "/throwaway", buffer = 4096, label = "cold" },
        { step = "getdents", at = "/throwaway", label = "warm" },
        { step = "ls", at = "/throwaway", long = true, label = "ls" },
        { step = "repeat", count = 3, steps = [ { step = "wait", for = "5ms", label = "nap" } ] },
        { step = "until", for = "1s", steps = [ { step = "find", at = "/d", label = "walk" } ] },
        { step = "diff", at = "/throwaway", with = "/d", label = "diff" },
        { step = "survey", label = "middle" },
        { step = "remove", at = "/throwaway", label = "gone", measure = "end" },
        { step = "sync", measure = "end" },
    "#;
    let report = run(&parse(&simple(SMALL, steps)), &scaled(1)).report;
    let step = |label: &str| report.step(label).unwrap_or_else(|| panic!("{label}"));
    let entries: Vec<u64> = step("cold").calls.iter().map(|call| call.entries).collect();
    assert_eq!(entries, [103, 102, 102, 102, 102, 102, 102, 102, 102, 83, 0]);
    assert_eq!(step("cold").calls[0].bytes, 4088);
    let times = |label| step(label).calls.iter().map(|call| call.elapsed_ns).sum::<u64>();
    assert!(times("cold") > 10_000_000 && times("warm") < 5_000_000);
    assert!(step("cold").elapsed_ns >= times("cold"));
    assert_eq!((step("ls").work.files, step("make-directories").work.directories), (1000, 8));
    assert_eq!((step("nap").runs, step("nap").elapsed_ns), (3, 15_000_000));
    let until = step("until");
    assert!((1_000_000_000..1_100_000_000).contains(&until.elapsed_ns));
    assert!(step("walk").runs > 10 && step("walk").work.directories == step("walk").runs * 8);
    assert_eq!(step("diff").work.differences, 1007);
    let layouts = &report.filesystems[0].layouts;
    let files: Vec<(&str, u64)> =
        layouts.iter().map(|record| (record.when.as_str(), record.layout.files)).collect();
    assert_eq!(files, [("before", 0), ("middle", 1000), ("after", 0)]);
    let last = report.measure("end").unwrap();
    assert_eq!(last.elapsed_ns, step("gone").elapsed_ns + step("sync").elapsed_ns);
}

#[test]
fn processes_drives_and_file_systems_run_together() {
    let text = r#"
name = "many"
processors = 2
[[drive]]
name = "old"
model = "ide-2001-5400"
elevator = "linus(20000,20000)"
requests = 512
[[drive]]
name = "new"
model = "ide-2001-7200"
override = { rpm = 5400, overhead_ms = { read_miss = 0.5 } }
fitted = ["rpm"]
[[filesystem]]
name = "a"
drive = "old"
size = "100M"
profile = "ext2"
preset = "linux-2.4"
policies = { placement = "orlov", requests = 99 }
[[filesystem]]
name = "b"
drive = "old"
offset = "200M"
size = "100M"
profile = "ext3"
[[filesystem]]
name = "c"
drive = "new"
size = "100M"
[[process]]
name = "makers"
filesystem = "a"
copies = 3
steps = [ { step = "create-files", at = "/{n}", count = 50, directories = 5, size = "6K", measure = "make" }, { step = "sync", measure = "make" } ]
[[process]]
name = "beside"
filesystem = "b"
start = "10ms"
steps = [ { step = "writer", path = "/log", chunk = "64K", rate = "4M", process = "makers" } ]
[[process]]
name = "last"
filesystem = "c"
after = "beside"
steps = [ { step = "make-tree", at = "/t", tree = { rule = "flat", files = 10, size = "1K" } } ]
[[process]]
name = "raw"
drive = "new"
after = "last"
steps = [ { step = "random", direction = "read", count = 20, measure = "raw" } ]
"#;
    let outcome = run(&parse(text), &scaled(1));
    outcome.filesystems.iter().for_each(sound);
    let report = &outcome.report;
    let process =
        |name: &str| report.processes.iter().find(|process| process.name == name).unwrap();
    assert_eq!(report.processes.len(), 6);
    assert!(process("last").started_ns >= process("beside").ended_ns);
    assert!(process("beside").ended_ns >= process("makers").ended_ns);
    assert_eq!(report.drives[0].elevator, "linus(20000,20000)");
    assert_eq!(
        (report.drives[0].requests, &report.drives[1].fitted[..]),
        (512, &["rpm".to_owned()][..])
    );
    assert_eq!(report.filesystems[0].policies, "linux-2.4,placement=orlov,requests=99");
    let together = report.measure("make").unwrap();
    assert_eq!((together.copy, together.work.files), (None, 150));
    let alone: Vec<_> =
        report.measures.iter().filter(|row| row.copy.is_some() && row.measure == "make").collect();
    assert_eq!(alone.len(), 3);
    assert!(alone.iter().all(|row| row.elapsed_ns <= together.elapsed_ns));
    assert!(report.measure("raw").unwrap().elapsed_ns > 20 * 2_000_000);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["schema"], "extant-lab-report/1");
    assert_eq!(json["filesystems"][0]["columns"][0]["column"], "placement");
}

#[test]
fn policies_and_drives_can_be_chosen_for_a_run() {
    let scenario = scenario::find("untar").unwrap();
    let with = |words: &str| {
        let options = RunOptions { policies: Some(words.to_owned()), ..scaled(40) };
        run(&scenario, &options).report
    };
    let report = with("linux-2.4,elevator=linus(20000,20000)");
    assert_eq!(report.filesystems[0].policies, "linux-2.4,elevator=linus(20000,20000)");
    assert_eq!(report.drives[0].elevator, "linus(20000,20000)");
    let alone = with("placement=spread,elevator=linus(9000,9000)");
    assert_eq!(alone.filesystems[0].policies, "modern,placement=spread,elevator=linus(9000,9000)");
    // A column comes before the drive's own key, a preset does not.
    let own =
        simple(SMALL, "{ step = \"sync\" }").replacen("model", "elevator = \"noop\"\nmodel", 1);
    for (words, elevator) in [("elevator=deadline", "deadline"), ("linux-2.6", "noop")] {
        let options = RunOptions { policies: Some(words.to_owned()), ..RunOptions::default() };
        assert_eq!(run(&parse(&own), &options).report.drives[0].elevator, elevator);
    }
    let drive = extant_sim::drive::file::find("ssd-sata").unwrap();
    let options = RunOptions { drive: Some(drive), ..scaled(40) };
    assert!(run(&scenario, &options).report.elapsed_ns < report.elapsed_ns / 4);
    let error = failure(
        &scenario,
        &RunOptions { policies: Some("placement=best".to_owned()), ..scaled(40) },
    );
    assert!(error.starts_with("untar: unknown placement \"best\""), "{error}");
}

#[test]
fn every_column_of_every_preset_is_told() {
    let report = run(&parse(&simple(SMALL, "{ step = \"sync\" }")), &scaled(1)).report;
    let told: Vec<&str> =
        report.filesystems[0].columns.iter().map(|column| column.column.as_str()).collect();
    let known: Vec<&str> = extant_lab::setup::columns().iter().map(|column| column.name).collect();
    assert_eq!(told, known);
    assert_eq!(report.filesystems[0].preset, preset("modern").unwrap().name);
}

#[test]
fn what_a_file_gets_wrong_is_told_in_one_line_with_file_line_and_key() {
    let step = |step: &str| simple(SMALL, step);
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "test.toml:1: drive: is missing"),
        ("name = ".to_owned(), "test.toml:1: "),
        (
            simple("preset = \"linux-3\"", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.preset: unknown preset \"linux-3\": known are linux-2.4",
        ),
        (
            simple("policies = { elevator = \"best\" }", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.policies: elevator: no elevator",
        ),
        (
            simple("policies = { colour = \"red\" }", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.policies: unknown column \"colour\"",
        ),
        (simple("color = 3", "{ step = \"sync\" }"), "test.toml:7: filesystem.color: no such key"),
        (simple("size = \"80G\"", "{ step = \"sync\" }"), "test.toml:7: filesystem.size: "),
        (
            simple("size = \"99999999999T\"", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.size: \"99999999999T\" is too large",
        ),
        (simple("size = \"2K\"", "{ step = \"sync\" }"), "test.toml:7: filesystem.size: "),
        (
            simple("features = [\"magic\"]", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.features: unknown or unsupported",
        ),
        (
            simple("drive = \"tape\"", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.drive: unknown drive \"tape\": known are disk",
        ),
        (
            simple("inodes = 5000\nbytes_per_inode = 4096", "{ step = \"sync\" }"),
            "test.toml:7: filesystem.inodes: only one",
        ),
        (
            step("{ step = \"fly\" }"),
            "test.toml:12: process.steps.step: unknown step \"fly\": known are make-tree",
        ),
        (step("{ step = \"sync\", at = \"/\" }"), "test.toml:12: process.steps.at: no such key"),
        (step("{ step = \"find\" }"), "test.toml:12: process.steps.at: is missing"),
        (
            step("{ step = \"find\", at = \"here\" }"),
            "test.toml:12: process.steps.at: \"here\" is not an absolute path",
        ),
        (
            step("{ step = \"wait\", for = \"soon\" }"),
            "test.toml:12: process.steps.for: \"soon\" is not a time",
        ),
        (
            step("{ step = \"wait\", process = \"q\" }"),
            "test.toml:12: process.steps.process: unknown process \"q\": known are p",
        ),
        (
            step("{ step = \"wait\", process = \"p\" }"),
            "test.toml:9: process: process p waits for one",
        ),
        (step("{ step = \"tar\", at = \"/\" }"), "test.toml:12: process.steps.to: is missing"),
        (
            step("{ step = \"make-tree\", at = \"/\", tree = \"oak\" }"),
            "test.toml:12: process.steps.tree: unknown tree \"oak\"",
        ),
        (
            step("{ step = \"make-tree\", at = \"/\", tree = { rule = \"wild\" } }"),
            "test.toml:12: process.steps.tree.rule: no such word",
        ),
        (
            step(
                "{ step = \"make-tree\", at = \"/\", tree = { rule = \"source\", files = 90000000 \
                 } }",
            ),
            "test.toml:12: process.steps.tree.files: has to lie",
        ),
        (
            step(
                "{ step = \"make-tree\", at = \"/\", tree = { rule = \"listing\", file \
                 = \"nowhere.tar\" } }",
            ),
            "test.toml:12: process.steps.tree.file: nowhere.tar",
        ),
        (
            step("{ step = \"repeat\", count = 99999999999, steps = [] }"),
            "test.toml:12: process.steps.count: ",
        ),
        (
            step("{ step = \"random\", direction = \"read\", path = \"/f\" }"),
            "test.toml:12: process.steps.bytes: is missing",
        ),
        (
            step("{ step = \"getdents\", at = \"/\", buffer = 10 }"),
            "test.toml:12: process.steps.buffer: has to lie",
        ),
        (step(""), "test.toml:11: process.steps: is missing"),
    ];
    for (text, start) in cases {
        let error = refusal(&text);
        assert!(error.starts_with(start), "{error}\nnot {start}\n{text}");
        assert!(!error.contains('\n'), "{error}");
    }
    let drive = |model: &str| format!("name = \"t\"\n[[drive]]\nname = \"d\"\n{model}\n");
    let cases = [
        (
            "model = \"ide-1999\"",
            "test.toml:4: drive.model: \"ide-1999\": no such drive; there are ide-2001-7200",
        ),
        (
            "model = \"ide-2001-7200\"\nelevator = \"up\"",
            "test.toml:5: drive.elevator: no elevator is named \"up\"",
        ),
        (
            "model = \"ide-2001-7200\"\noverride = { rpm = 0 }",
            "test.toml:5: drive.override: rpm: has to lie within",
        ),
        (
            "model = \"ide-2001-7200\"\noverride = { wings = 2 }",
            "test.toml:5: drive.override: wings: no such key",
        ),
        ("model = { kind = \"boat\" }", "test.toml:4: drive.model.kind: no such kind"),
        ("model = \"none.toml\"", "test.toml:4: drive.model: none.toml"),
    ];
    for (model, start) in cases {
        let error = refusal(&drive(model));
        assert!(error.starts_with(start), "{error}\nnot {start}");
    }
    let unknown = scenario::find("read-warm").unwrap_err().to_string();
    assert!(unknown.starts_with("read-warm: no such scenario; there are read-cold, "), "{unknown}");
}

#[test]
fn what_does_not_fit_is_refused_before_or_where_it_happens() {
    let too_large = "{ step = \"create-files\", at = \"/\", count = 1000, size = \"1M\" }";
    let error = failure(&parse(&simple(SMALL, too_large)), &scaled(1));
    assert_eq!(
        error,
        "test.toml:12: create-files: 1048576000 bytes in 1000 files and directories do not fit in \
         file system volume of 268435456 bytes"
    );
    let twice = "{ step = \"create-files\", at = \"/a\", count = 200, size = \"1M\" },\n{ step \
        = \"create-files\", at = \"/b\", count = 200, size = \"1M\", label = \"again\" }";
    let error = failure(&parse(&simple(SMALL, twice)), &scaled(1));
    assert!(error.starts_with("test.toml:13: process p: again: /b/file-"), "{error}");
    assert!(
        error.contains("no space") || error.contains("No space") || error.contains("room"),
        "{error}"
    );
    let missing = failure(&parse(&simple(SMALL, "{ step = \"ls\", at = \"/none\" }")), &scaled(1));
    assert_eq!(missing, "test.toml:12: process p: ls: /none: no such file or directory");
    let past =
        "{ step = \"random\", direction = \"read\", path = \"/f\", count = 1, span = \"1M\" }";
    let past = format!(
        "{{ step = \"sequential\", direction = \"write\", path = \"/f\", bytes = 8192 }},\n{past}"
    );
    let error = failure(&parse(&simple(SMALL, &past)), &scaled(1));
    assert!(
        error.contains("/f has 8192 bytes; pieces of 4096 from byte 0 on do not lie in it"),
        "{error}"
    );
    let kept = "{ step = \"sequential\", direction = \"write\", path = \"/f\", bytes = \"5G\" }";
    let error = failure(&parse(&simple("size = \"8G\"\ndata = \"bytes\"", kept)), &scaled(1));
    assert!(error.starts_with("test.toml:12: sequential: keeping 5368709120 bytes"), "{error}");
    let overlapping =
        format!("{}[[filesystem]]\nname = \"b\"\noffset = \"100M\"\nsize = \"100M\"\n", "");
    let text = simple(SMALL, "{ step = \"sync\" }")
        .replace("steps", "filesystem = \"volume\"\nsteps")
        + &overlapping;
    assert_eq!(
        failure(&parse(&text), &scaled(1)),
        "test.toml:15: filesystem.offset: b overlaps volume on its drive"
    );
}

#[test]
fn who_remounts_while_others_work_is_told_so() {
    let text = r#"
name = "t"
[[drive]]
name = "disk"
model = "ide-2001-7200"
[[filesystem]]
name = "volume"
size = "64M"
[[process]]
name = "a"
steps = [ { step = "create-files", at = "/", count = 2000, size = "4K" }, { step = "sync" } ]
[[process]]
name = "b"
start = "1ms"
steps = [ { step = "remount" } ]
"#;
    let error = failure(&parse(text), &scaled(1));
    assert_eq!(
        error,
        "test.toml:15: process b: remount: the file system is in use by 1 other processes and \
         cannot be closed"
    );
}

/// Pieces of scenario files, to be mixed.
fn fragment() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "name",
        "line",
        "seed",
        "memory",
        "[[drive]]",
        "[[filesystem]]",
        "[[process]]",
        "[drive]",
        "steps",
        "step",
        "model",
        "size",
        "\"ide-2001-7200\"",
        "\"untar\"",
        "\"repeat\"",
        "count",
        "tree",
        "{",
        "}",
        "[",
        "]",
        "=",
        ",",
        "\n",
        "\"",
        "1e999",
        "-1",
        "18446744073709551616",
        "\"1G\"",
        "\"/\"",
        "at",
        "true",
        "\"{n}\"",
        "preset",
        "\"modern,=\"",
        "policies",
        "override",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_makes_the_reader_panic(text in prop_oneof![fragment(), "\\PC{0,200}"]) {
        if let Err(error) = scenario::parse("any.toml", &text, Path::new("")) {
            prop_assert!(error.to_string().starts_with("any.toml"));
        }
    }

    #[test]
    fn no_damaged_scenario_makes_the_reader_panic(
        at in 0usize..1500,
        piece in fragment(),
        which in 0usize..100
    ) {
        let text = scenario::BUILTINS[which % scenario::BUILTINS.len()].text;
        let cut = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let damaged = format!("{}{piece}{}", &text[..cut], &text[cut..]);
        if let Err(error) = scenario::parse("any.toml", &damaged, Path::new("")) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

#[test]
fn steps_within_steps_have_an_end() {
    let mut steps = "{ step = \"sync\" }".to_owned();
    for _ in 0..30 {
        steps = format!("{{ step = \"repeat\", count = 2, steps = [ {steps} ] }}");
    }
    let error = refusal(&simple(SMALL, &steps));
    assert!(error.contains("deep"), "{error}");
}

/// The words in backquotes outside of parentheses.
fn quoted(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['(', ')', '`']) {
        let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = after;
        match mark {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {
                let (word, behind) = after.split_once('`').expect("a pair of backquotes");
                rest = behind;
                words.extend((depth == 0).then_some(word));
            }
        }
    }
    words
}

#[test]
fn the_document_has_every_step_with_its_keys_and_no_other() {
    let document = include_str!("../../../../docs/LAB.md");
    let (_, table) = document.split_once("| step | keys | what |").expect("the table of steps");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let (name, keys) = (cells.next().unwrap().trim_matches('`'), cells.next().unwrap());
        let mut own = quoted(keys);
        if let Some(same) = keys.strip_prefix("the same") {
            own.extend(found.iter().find(|(name, _)| *name == "sequential").unwrap().1.clone());
            if same.starts_with(" without ") {
                own.retain(|key| *key != quoted(keys)[0]);
            }
        }
        own.sort_unstable();
        own.dedup();
        found.push((name, own));
    }
    let known: Vec<(&str, Vec<&str>)> = KINDS
        .iter()
        .map(|kind| {
            let mut keys = kind.keys.concat();
            keys.sort_unstable();
            (kind.name, keys)
        })
        .collect();
    assert_eq!(found, known);
}

#[test]
fn a_change_is_made_in_the_parsed_file_and_checked_as_if_it_stood_there() {
    let settings = |key: &str, value: &str| {
        Settings::from([(key.to_owned(), Setting::Words(value.to_owned()))])
    };
    let filesystem = |key: &str, value: &str| Changes {
        filesystem: [("volume".to_owned(), settings(key, value))].into(),
        ..Changes::default()
    };
    let text = builtin("read-cold").unwrap().text;
    let parse = |changes: &Changes| parse_changed("it.toml", text, Path::new(""), changes);
    let bytes = |scenario: &Scenario| match &scenario.filesystems[0].origin {
        scenario::Origin::Format(options) => {
            options.wishes.blocks * u64::from(options.wishes.block_size)
        }
        scenario::Origin::Image(_) => 0,
    };
    let (plain, small) = (parse(&Changes::default()), parse(&filesystem("size", "64M")));
    assert_eq!(bytes(&small.unwrap()), 64 << 20);
    assert_eq!(bytes(&plain.unwrap()), 4 << 30);
    let refused = |changes: Changes| parse(&changes).unwrap_err().to_string();
    assert!(refused(filesystem("sise", "64M")).contains("filesystem.sise: no such key"));
    assert!(refused(filesystem("size", "64 lots")).contains("filesystem.size: \"64 lots\""));
    let step = |number: &str| Changes {
        step: [("nobody".to_owned(), [(number.to_owned(), settings("for", "1s"))].into())].into(),
        ..Changes::default()
    };
    for number in ["1", "0", "1.1", "x"] {
        assert!(refused(step(number)).contains("\"nobody\", or its step, is not there"));
    }
    let without = Changes { without: vec!["nobody".to_owned()], ..Changes::default() };
    assert!(refused(without).contains("is not there"));
}
