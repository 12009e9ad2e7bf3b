//! What scenarios are held to: steps that would do nothing, or something else than they say, are
//! refused; rows of one copy and of several mean the same; what a run may take is bounded.
use extant_lab::ageing;
use extant_lab::report::Report;
use extant_lab::scenario::{self, Outcome, RunOptions, Scenario};
use std::path::Path;

fn parse(text: &str) -> Scenario {
    scenario::parse("test.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match scenario::parse("test.toml", text, Path::new("")) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

fn run(text: &str) -> Outcome {
    scenario::run(&parse(text), &RunOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn failure(text: &str) -> String {
    match scenario::run(&parse(text), &RunOptions::default()) {
        Ok(_) => panic!("ran: {text}"),
        Err(error) => error.to_string(),
    }
}

const DISK: &str = "name = \"t\"\n[[drive]]\nname = \"disk\"\nmodel = \"ide-2001-7200\"\n";

/// A scenario of one file system and one process.
fn on_volume(filesystem: &str, steps: &str) -> String {
    format!(
        "{DISK}[[filesystem]]\nname = \"volume\"\n{filesystem}\n[[process]]\nname = \"p\"\nsteps = \
         [\n{steps}\n]\n"
    )
}

/// A scenario of a bare drive.
fn on_drive(model: &str, steps: &str) -> String {
    format!(
        "name = \"t\"\n[[drive]]\nname = \"disk\"\nmodel = \"{model}\"\n[[process]]\nname = \
         \"p\"\ndrive = \"disk\"\nsteps = [\n{steps}\n]\n"
    )
}

const SMALL: &str = "size = \"256M\"\nprofile = \"ext2\"";

#[test]
fn a_step_that_would_not_do_what_it_says_is_refused() {
    let files = "step = \"create-files\", at = \"/a\"";
    let stream = "step = \"stride\", direction = \"read\", path = \"/f\", bytes = \"1M\"";
    let cases = [
        (
            "step = \"check\", plan = \"vanilla\", threads = 2".to_owned(),
            "threads: goes with plan = \"ours\"",
        ),
        (format!("{files}, count = 0"), "count: is 0, and so is directories"),
        (format!("{files}, count = 1, order = \"round-robin\""), "order: goes with directories"),
        (
            format!("{files}, count = 1, directory_names = \"d\""),
            "directory_names: goes with directories",
        ),
        (
            "step = \"until\", for = \"0s\", steps = [ { step = \"sync\" } ]".to_owned(),
            "for: has to be longer than 0",
        ),
        (
            "step = \"tar\", at = \"/\", to = \"null\", chunk = 512".to_owned(),
            "chunk: goes with to = \"zero\"",
        ),
        (format!("{stream}, stride = 8192, synced = true"), "synced: is for what is written"),
        (
            format!("{stream}, stride = 8192, span = 8192"),
            "stride: leads out of the span of a stream",
        ),
        (
            format!("{stream}, stride = 8192, span = 32768, streams = 4"),
            "stride: leads out of the span of a stream",
        ),
        (format!("{stream}, stride = 8192, depth = 2"), "depth: is of bare drives"),
    ];
    for (step, start) in cases {
        let error = refusal(&on_volume(SMALL, &format!("{{ {step} }}")));
        let (_, reason) = error.split_once("process.steps.").unwrap_or_else(|| panic!("{error}"));
        assert!(reason.starts_with(start), "{error}\nnot {start}");
    }
    for step in [
        "{ step = \"check\", plan = \"vanilla\", threads = 1 }".to_owned(),
        format!("{{ {stream}, stride = 8192, span = 12288 }}"),
        format!("{{ {files}, count = 0, directories = 3 }}"),
    ] {
        parse(&on_volume(SMALL, &step));
    }
}

/// As mke2fs makes it: `-t ext2 -j` has a journal.
#[test]
fn a_journal_that_is_asked_for_is_made() {
    let has_journal = |wish: &str| {
        let report = run(&on_volume(&format!("{SMALL}\n{wish}"), "{ step = \"sync\" }")).report;
        report.filesystems[0].features.iter().any(|name| *name == "has_journal")
    };
    assert!(!has_journal(""));
    assert!(!has_journal("journal = \"none\""));
    assert!(has_journal("journal = \"default\""));
    assert!(has_journal("journal = \"1024\""));
    let tiny = "size = \"1M\"\nprofile = \"ext2\"\njournal = \"default\"";
    let error = refusal(&on_volume(tiny, "{ step = \"sync\" }"));
    assert!(error.ends_with("filesystem.journal: the volume is too small for one"), "{error}");
}

#[test]
fn a_program_without_a_file_to_read_fails() {
    let step = |at: &str| format!("{{ step = \"open-program\", at = \"{at}\", reads = 5 }}");
    let empty = format!("{{ step = \"mkdir\", path = \"/a\" }}, {}", step("/a"));
    let error = failure(&on_volume(SMALL, &empty));
    assert!(error.ends_with("open-program: /a: holds no file to read"), "{error}");
    let file = format!("{{ step = \"create\", path = \"/f\", size = 9000 }}, {}", step("/"));
    run(&on_volume(SMALL, &file));
}

/// A scenario in which `copies` of a process do the same, each with a pause between two runs.
fn with_copies(copies: u32, result: &str) -> String {
    let wait = |time: &str, rest: &str| format!("{{ step = \"wait\", for = \"{time}\", {rest} }}");
    let first = wait("3s", "measure = \"a\", label = \"x\"");
    let run = wait("500ms", "measure = \"run {r}\"");
    let rest = wait("100ms", "measure = \"z\"");
    format!(
        "{DISK}[[process]]\nname = \"q\"\ndrive = \"disk\"\ncopies = {copies}\nsteps = [ {first}, \
         {{ step = \"repeat\", count = 4, steps = [ {run}, {rest} ] }} ]\n[[result]]\nname = \
         \"r\"\nvalue = \"{result}\"\n"
    )
}

fn millionths(report: &Report) -> i64 {
    let row = &report.results[0];
    row.millionths.unwrap_or_else(|| panic!("{:?}", row.reason))
}

/// Copies that do the same at the same time take as long as one: what is between two runs is no
/// part of the row of all together, as it is none of that of one.
#[test]
fn a_row_means_the_same_of_one_copy_and_of_several() {
    for copies in [1, 2, 3] {
        for (row, expected) in [("a", 3_000_000), ("z", 400_000), ("'run 2'", 500_000)] {
            let report = run(&with_copies(copies, &format!("measure {row}"))).report;
            assert_eq!(millionths(&report), expected, "{row} of {copies}");
        }
        let report = run(&with_copies(copies, "sum(measure z)")).report;
        assert_eq!(millionths(&report), 400_000 * i64::from(copies));
    }
}

/// Where copies overlap, that is from the first start to the last end.
#[test]
fn a_row_of_several_copies_is_the_time_in_which_any_was_in_it() {
    let create = |path: &str, size: &str| {
        format!("{{ step = \"create\", path = \"{path}\", size = \"{size}\" }}")
    };
    let made = [create("/f0", "8M"), create("/f1", "1M"), "{ step = \"remount\" }".to_owned()];
    let text = |steps: &str| {
        on_volume(SMALL, &made.join(",\n"))
            + "[[process]]\nname = \"q\"\nafter = \"p\"\ncopies = 2\nsteps = ["
            + steps
            + "]\n"
    };
    let read = "{ step = \"read\", path = \"/f{n}\", measure = \"read\" }";
    let report = run(&text(read)).report;
    let rows: Vec<_> = report.measures.iter().filter(|row| row.measure == "read").collect();
    let [all, one, other] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((all.copy, one.copy, other.copy), (None, Some(0), Some(1)));
    let end = |row: &extant_lab::report::Measure| row.started_ns + row.elapsed_ns;
    assert_eq!(all.started_ns, one.started_ns.min(other.started_ns));
    assert_eq!(end(all), end(one).max(end(other)));
    // The long file is being read all the time.
    assert_eq!(all.traffic.bytes_read, one.traffic.bytes_read);
    assert_eq!(all.work.bytes_read, 9 << 20);
    // They read for times of their own, and then are in the second row at times of their own.
    let waits = "{ step = \"wait\", for = \"1s\", measure = \"rest\" }, { step = \"read\", path = \
                 \"/f{n}\" }, { step = \"wait\", for = \"1s\", measure = \"rest\" }";
    let report = run(&text(waits)).report;
    let together: Vec<u64> = report
        .measures
        .iter()
        .filter(|row| row.measure == "rest" && row.copy.is_none())
        .map(|row| row.elapsed_ns)
        .collect();
    let [first, second] = together[..] else { panic!("{together:?}") };
    assert_eq!(first, 1_000_000_000);
    assert!((1_000_000_001..2_000_000_000).contains(&second), "{second}");
}

#[test]
fn a_result_says_which_of_several_rows_it_means() {
    let error = refusal(&with_copies(2, "step x"));
    assert!(
        error.ends_with("\"x\" is a step of 2 copies of q: max(..) or another makes them one"),
        "{error}"
    );
    parse(&with_copies(1, "step x"));
    assert_eq!(millionths(&run(&with_copies(2, "max(step x)")).report), 3_000_000);
    let other = "[[process]]\nname = \"s\"\ndrive = \"disk\"\nsteps = [ { step = \"wait\", for = \
                 \"1s\", measure = \"a\" } ]\n";
    let error = refusal(&(with_copies(2, "measure a") + other));
    assert!(error.ends_with("\"a\" is in processes q, s: of PROCESS says in which"), "{error}");
    parse(&(with_copies(2, "measure a of s + measure z") + other));
}

/// Nothing is read on after a file has shown that it is too long; a device says that it has no
/// bytes, and never ends.
#[test]
fn a_file_without_an_end_is_refused() {
    let endless = Path::new("/dev/zero");
    let error = scenario::load(endless).unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: has more than 4194304 bytes");
    let error = ageing::load(endless).unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: has more than 1048576 bytes");
    let listing = "{ step = \"make-tree\", at = \"/\", tree = { rule = \"listing\", file = \
                   \"/dev/zero\" } }";
    let error = refusal(&on_volume(SMALL, listing));
    assert!(error.ends_with("tree.file: /dev/zero: is no file"), "{error}");
    let session = format!("{SMALL}\naged = {{ session = \"/dev/zero\" }}");
    let error = refusal(&on_volume(&session, "{ step = \"sync\" }"));
    assert!(error.ends_with("/dev/zero: has more than 268435456 bytes"), "{error}");
    let error = refusal(&on_drive("/dev/zero", "{ step = \"sync\" }"));
    assert!(error.contains("/dev/zero: is too long"), "{error}");
}

#[test]
fn repetitions_within_repetitions_have_an_end() {
    let repeat = |count: u64, steps: &str| {
        format!("{{ step = \"repeat\", count = {count}, steps = [ {steps} ] }}")
    };
    let wait = "{ step = \"wait\", for = \"1ms\" }";
    let nested = repeat(1_000_000_000, &repeat(1_000_000_000, &repeat(100, wait)));
    let error = refusal(&on_drive("ide-2001-7200", &nested));
    assert_eq!(
        error,
        "test.toml:5: process: the steps would run more than 1000000000 times in all"
    );
    parse(&on_drive("ide-2001-7200", &repeat(30_000, &repeat(30_000, wait))));
    let copied = on_drive("ide-2001-7200", &repeat(30_000, &repeat(30_000, wait)))
        .replace("drive = \"disk\"\n", "drive = \"disk\"\ncopies = 2\n");
    assert!(refusal(&copied).contains("the steps would run more than"));
}

#[test]
fn a_process_without_a_place_is_told_which_there_are() {
    let nowhere =
        on_drive("ide-2001-7200", "{ step = \"sync\" }").replace("drive = \"disk\"\n", "");
    let error = refusal(&nowhere);
    assert!(
        error.ends_with(
            "process.filesystem: is missing, and so is drive: a process needs one of them; drives \
             are disk"
        ),
        "{error}"
    );
    let two = on_volume(SMALL, "{ step = \"sync\" }")
        + "[[filesystem]]\nname = \"other\"\noffset = \"256M\"\nsize = \"64M\"\n";
    let error = refusal(&two);
    assert!(
        error.ends_with("is missing: known are volume, other; or drive: known are disk"),
        "{error}"
    );
}

#[test]
fn a_folder_is_no_image() {
    let error = failure(&on_volume("image = \"/\"", "{ step = \"find\", at = \"/\" }"));
    assert!(error.ends_with("filesystem.image: /: is a directory"), "{error}");
}

/// The cache of the drive takes writes at once; a flush waits for its medium.
#[test]
fn a_bare_drive_can_be_flushed() {
    let write = "{ step = \"random\", direction = \"write\", count = 20, chunk = 4096 }";
    let flushed = format!("{write}, {{ step = \"sync\", measure = \"flush\" }}");
    let report = run(&on_drive("sata-2007-400", &flushed)).report;
    let flush = report.measure("flush").unwrap();
    assert_eq!((flush.traffic.flushes, flush.traffic.writes), (1, 0));
    assert!(flush.elapsed_ns > 1_000_000, "{}", flush.elapsed_ns);
    assert!(report.processes[0].calls.iter().any(|call| call.call == "sync"));
}

/// Four times as many requests under way are four times as fast on a drive with as many channels,
/// and no request waits longer than it is under way.
#[test]
fn a_process_can_have_several_requests_under_way() {
    let read = |depth: u32, ends: &str| {
        let step = format!(
            "{{ step = \"random\", direction = \"read\", chunk = 4096, depth = {depth}, {ends}, \
             measure = \"read\" }}"
        );
        run(&on_drive("ssd-nvme", &step)).report
    };
    let time = |depth| {
        let report = read(depth, "count = 2000");
        let row = report.measure("read").unwrap();
        assert_eq!((row.traffic.reads, row.work.bytes_read), (2000, 2000 * 4096));
        let calls = &report.processes[0].calls[0];
        assert_eq!((calls.call.as_str(), calls.latency.count), ("read", 2000));
        let most = u64::from(depth) * row.elapsed_ns;
        assert!(calls.latency.total_ns > most * 9 / 10 && calls.latency.total_ns <= most);
        assert!(report.drives[0].queue_depth_max < depth.into());
        row.elapsed_ns
    };
    let (one, four) = (time(1), time(4));
    assert!((3 * four..5 * four).contains(&one), "{one} {four}");
    // With a time as its end it does not pause between requests either.
    let for_a_time = |depth| {
        let report = read(depth, "for = \"50ms\"");
        report.measure("read").unwrap().traffic.reads
    };
    let (one, four) = (for_a_time(1), for_a_time(4));
    assert!((3 * one..5 * one).contains(&four), "{one} {four}");
    let synced =
        "{ step = \"random\", direction = \"write\", count = 1, synced = true, depth = 2 }";
    let error = refusal(&on_drive("ssd-nvme", synced));
    assert!(error.ends_with("process.steps.depth: cannot be with synced"), "{error}");
}

#[test]
fn trees_near_their_parents_leave_sound_volumes() {
    let tree = "tree = { rule = \"source\", files = 1500, directories = 120, bytes = \"12M\" }";
    let trees: String = ["near-parents", "in-group", "in-order"]
        .iter()
        .map(|inodes| format!("{{ at = \"/{inodes}\", inodes = \"{inodes}\", {tree} }},"))
        .collect();
    let steps = format!(
        "{{ step = \"place-trees\", trees = [ {trees} ] }},\n{{ step = \"check\", label = \
         \"check\" }}"
    );
    for preset in ["linux-2.4", "linux-2.6", "modern"] {
        let volume =
            format!("size = \"256M\"\nprofile = \"ext3\"\ninodes = 32768\npreset = \"{preset}\"");
        let outcome = run(&on_volume(&volume, &steps));
        let checked = outcome.report.step("check").unwrap();
        assert_eq!(checked.work.files, 4500 + 9, "{preset}: with those of the volume itself");
        let scratch = tempfile::tempdir().unwrap();
        for left in &outcome.filesystems {
            assert_eq!(left.check(&scratch.path().join("image")).unwrap(), "", "{preset}");
        }
    }
    let full = on_volume("size = \"64M\"\ninodes = 1024", &steps);
    let error = failure(&full);
    assert!(error.contains("inodes"), "{error}");
}
