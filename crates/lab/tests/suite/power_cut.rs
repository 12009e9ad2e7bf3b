//! Steps that cut the power and open file systems again: what survives, who ends, what is reported.
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_lab::report::{Report, StepReport};
use extant_lab::scenario::{self, Outcome, RunOptions, Scenario};
use extant_testkit::variables::number;
use std::path::Path;
use std::sync::Arc;

fn parse(text: &str) -> Scenario {
    scenario::parse("test.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn run(text: &str) -> Outcome {
    run_with(text, &RunOptions::default())
}

fn run_with(text: &str, options: &RunOptions) -> Outcome {
    scenario::run(&parse(text), options).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    match scenario::parse("test.toml", text, Path::new("")) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// A load beside a process that cuts the power under it.
fn cut(filesystem: &str, load: &str, cutter: &str) -> String {
    format!(
        "name = \"t\"\nseed = 3\nmemory = \"16M\"\n[[drive]]\nname = \"disk\"\nmodel = \
         \"ide-2001-7200\"\n[[filesystem]]\nname = \"volume\"\nsize = \"256M\"\n{filesystem}\n\
         [[process]]\nname = \"load\"\nsteps = [\n{load}\n]\n\
         [[process]]\nname = \"cutter\"\nsteps = [\n{cutter}\n]\n"
    )
}

const EXT2: &str = "profile = \"ext2\"\ndata = \"bytes\"";
const EXT3: &str = "profile = \"ext3\"\npreset = \"linux-2.6,barrier=flush\"\ndata = \"bytes\"";
const EXT4: &str = "profile = \"ext4\"\ndata = \"bytes\"";
/// Metadata without end.
const CHURN: &str = "
    { step = \"sequential\", direction = \"write\", path = \"/synced\", bytes = \"64K\", \
                       synced = true },
    { step = \"until\", for = \"1h\", steps = [
        { step = \"create-files\", at = \"/new\", count = 300, directories = 20, size = \"6K\" },
        { step = \"remove\", at = \"/new\" },
    ] },";
const COUNTED: &str = "{ step = \"check\", problems = \"count\" },";

fn steps<'a>(report: &'a Report, process: &str, kind: &str) -> Vec<&'a StepReport> {
    let of = |step: &&StepReport| step.process == process && step.step == kind;
    report.steps.iter().filter(of).collect()
}

fn synced(outcome: &Outcome) -> Vec<u8> {
    let options = Options {
        access: Access::ReadOnly,
        policies: "modern".parse().unwrap(),
        cache_bytes: 16 << 20,
        data: DataKeeping::Bytes,
    };
    let contents = Arc::clone(&outcome.filesystems[0].contents);
    let filesystem = Filesystem::open(contents, &options).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let length = filesystem.open_file("/synced").unwrap().read_at(0, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn a_cut_ends_the_others_and_what_was_synced_is_there() {
    let times = ["for = \"3s\"", "for = \"6s\", survivors = \"any-sector\""].map(str::to_owned);
    // A cut at a command may come when all is on the medium; of several, one does not.
    let commands = [690, 700, 710, 720].map(|number| format!("operations = {number}"));
    let mut lost_at_commands = 0;
    for moment in times.iter().chain(&commands) {
        let cutter = format!(
            "{{ step = \"power-cut\", {moment} }}, {COUNTED} {{ step = \"recover\" }}, {{ step = \
             \"find\", at = \"/kept\" }},"
        );
        // Without a journal a name that is being removed may lead to no inode after the cut, so
        // only what was synced is looked for.
        let load = format!(
            "{{ step = \"create-files\", at = \"/kept\", count = 5, directories = 1, size = \
             \"6K\" }}, {{ step = \"sync\" }}, {CHURN}"
        );
        let outcome = run(&cut(EXT2, &load, &cutter));
        let report = &outcome.report;
        assert_eq!(synced(&outcome), vec![b'e'; 64 << 10], "{moment}");
        let lost = steps(report, "cutter", "power-cut")[0].lost.expect("what the cut lost");
        match times.contains(moment) {
            true => assert!(lost.bytes_lost > 0, "{moment}: {lost:?}"),
            false => lost_at_commands += lost.bytes_lost,
        }
        let load = report.processes.iter().find(|process| process.name == "load").unwrap();
        let cut_ns = steps(report, "cutter", "check")[0].started_ns;
        assert!(load.ended_ns <= cut_ns, "{moment}: {} {cut_ns}", load.ended_ns);
        // Without a journal a cut in the middle of a churn leaves something to mend.
        assert!(steps(report, "cutter", "check")[0].work.problems > 0, "{moment}");
        assert!(steps(report, "cutter", "recover")[0].elapsed_ns > 0, "{moment}");
        assert!(steps(report, "cutter", "find")[0].work.files > 0, "{moment}");
        let text = report.to_text(100);
        assert!(text.contains("check / recover"), "{text}");
    }
    assert!(lost_at_commands > 0);
}

#[test]
fn a_journal_leaves_nothing_to_mend() {
    let mut problems_without = 0;
    for filesystem in [EXT3, EXT4] {
        for (number, moment) in [
            "for = \"3s\"",
            "for = \"7s\"",
            "for = \"12s\", survivors = \"any-sector\"",
            "operations = 900, survivors = \"any-sector\"",
        ]
        .iter()
        .enumerate()
        .step_by(number("EXTANT_RUNS") as usize)
        {
            let cutter = format!(
                "{{ step = \"power-cut\", {moment} }}, {{ step = \"recover\" }}, {{ step = \
                 \"check\" }},"
            );
            let options = RunOptions { seed: Some(number as u64), ..RunOptions::default() };
            let outcome = run_with(&cut(filesystem, CHURN, &cutter), &options);
            assert_eq!(synced(&outcome), vec![b'e'; 64 << 10], "{filesystem} {moment}");
            let scratch = tempfile::tempdir().unwrap();
            let found = outcome.filesystems[0].check(&scratch.path().join("image")).unwrap();
            assert_eq!(found, "", "{filesystem} {moment}");
            // One for each kind shows that it was the journal.
            if number > 0 {
                continue;
            }
            let unjournalled = format!("{filesystem}\npolicies = {{ journal = \"none\" }}");
            let cutter = format!("{{ step = \"power-cut\", {moment} }}, {COUNTED}");
            let outcome = run_with(&cut(&unjournalled, CHURN, &cutter), &options);
            problems_without += steps(&outcome.report, "cutter", "check")[0].work.problems;
        }
    }
    assert!(problems_without > 0, "the first cuts without a journal leave something to mend");
}

#[test]
fn one_seed_gives_one_report_and_another_cut_another() {
    let text = |moment: &str| {
        let cutter = format!("{{ step = \"power-cut\", {moment} }}, {COUNTED}");
        cut(EXT2, CHURN, &cutter)
    };
    let any_sector = text("for = \"2s\", survivors = \"any-sector\"");
    let one = run(&any_sector).report.to_json();
    assert_eq!(one, run(&any_sector).report.to_json());
    assert_ne!(one, run(&text("for = \"2s\"")).report.to_json());
}

#[test]
fn a_cut_that_waits_for_a_process_comes_when_it_has_ended() {
    let load = "{ step = \"create-files\", at = \"/new\", count = 300 },";
    let outcome = run(&cut(
        EXT2,
        load,
        "{ step = \"power-cut\", process = \"load\" }, { step = \"recover\" }, { step = \
         \"create-files\", at = \"/after\", count = 10 }, { step = \"sync\" },",
    ));
    let load = &outcome.report.processes[0];
    let cut = steps(&outcome.report, "cutter", "power-cut")[0];
    assert_eq!(load.ended_ns, cut.started_ns + cut.elapsed_ns);
    assert_eq!(steps(&outcome.report, "cutter", "create-files")[0].work.files, 10);
}

#[test]
fn what_cannot_be_is_refused() {
    let error =
        refusal(&cut(EXT2, CHURN, "{ step = \"power-cut\", for = \"1s\", operations = 3 },"));
    assert!(error.contains("operations: cannot be with for or process"), "{error}");
    let error = refusal(&cut(EXT2, CHURN, "{ step = \"power-cut\", survivors = \"all\" },"));
    assert!(error.contains("survivors"), "{error}");
    let scenario = parse(&cut(EXT2, "{ step = \"sync\" },", "{ step = \"recover\" },"));
    let Err(error) = scenario::run(&scenario, &RunOptions::default()) else { panic!("it ran") };
    assert!(error.to_string().contains("recover comes after power-cut"), "{error}");
}
