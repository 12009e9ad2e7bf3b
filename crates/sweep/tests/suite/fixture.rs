//! The vocabulary, plans and scripts of these tests.
use extant_block::RealClock;
use extant_sweep::directory::{Directory, Part, Plan};
use extant_sweep::error::Result;
use extant_sweep::job::Job;
use extant_sweep::matrix::Matrix;
use extant_sweep::plan::{LIMIT, Planned, Planner};
use extant_sweep::pool::{self, Options, Ran};
use extant_sweep::vocabulary::{Sense, Takes, Vocabulary};
use extant_testkit::command::program;
use std::process::Command;

/// A command line that has some options, and takes any word but `nonsense`.
pub struct Words;

impl Vocabulary for Words {
    fn takes(&self, _command: &[&str], option: &str) -> Takes {
        match option {
            "drive" | "preset" | "seed" | "scale" | "image" | "threads" | "exclude" => Takes::Value,
            "strict" => Takes::Nothing,
            _ => Takes::Unknown,
        }
    }
    fn check_words(&self, words: &[String]) -> std::result::Result<(), String> {
        match words.iter().find(|word| word.contains("nonsense")) {
            Some(word) => Err(format!("{word} means nothing")),
            None => Ok(()),
        }
    }
    fn check_name(&self, sense: Sense, word: &str) -> std::result::Result<(), String> {
        match word.contains("nonsense") {
            true => Err(format!("{word}: no such {sense:?}")),
            false => Ok(()),
        }
    }
}

/// The jobs of a matrix, and what was planned.
pub fn planned(text: &str) -> Result<(Vec<Job>, Planned)> {
    planned_within(text, LIMIT)
}

/// The same with another limit.
pub fn planned_within(text: &str, limit: u64) -> Result<(Vec<Job>, Planned)> {
    let matrix = Matrix::parse("m.toml", text)?;
    let clock = RealClock::new();
    let planner = Planner { vocabulary: &Words, clock: &*clock, limit, epoch: None, tell: &|_| {} };
    let mut jobs = Vec::new();
    let planned = planner.plan(&matrix, &mut |job| {
        jobs.push(job.clone());
        Ok(())
    })?;
    Ok((jobs, planned))
}

/// The plan of that many jobs, kept in a directory.
pub fn kept(directory: &Directory, jobs: u64) -> (Vec<Job>, Plan) {
    let text = format!(
        "[[jobs]]\nkind = \"lab run\"\n\
         over = {{ scenario = \"s\", seed = {{ from = 1, to = {jobs} }} }}\n"
    );
    let (jobs, _) = planned(&text).expect("a plan");
    let lines: Vec<String> = jobs.iter().map(|job| job.line().expect("a line")).collect();
    let text = lines.join("\n");
    let plan = directory.keep_plan("jobs.jsonl", &mut text.as_bytes()).expect("it is kept");
    (jobs, plan)
}

/// What a worker begins with.
pub const HELLO: &str = "printf '{\"schema\":\"extant-sweep-worker/1\",\"version\":\"%s\"}\\n' \
    \"$VERSION\"\n";

/// Reads each job: `$id`, `$seed`.
pub const LOOP: &str = r#"while read -r line; do
id=${line#*\"id\":\"}; id=${id%%\"*}
seed=${line#*\"seed\":}; seed=${seed%%\}*}
folder="$DIR/results/$(printf %.2s "$id")"
"#;

/// Writes a result, as a worker would.
pub const WRITES: &str = r#"mkdir -p "$folder"
printf '{"schema":"extant-sweep-result/1","id":"%s","exit":0,"document":{"seed":%s}}' \
    "$id" "$seed" > "$folder/.$id" && mv "$folder/.$id" "$folder/$id.json"
printf '{"id":"%s","state":"done"}\n' "$id"
"#;

/// A worker that is this script.
pub fn worker(directory: &Directory, script: &str) -> Command {
    let mut command = program("sh");
    command.arg("-c").arg(script).env("DIR", directory.path());
    command.env("VERSION", extant_sweep::VERSION);
    command
}

/// A run of a plan by workers that are this script, two at a time.
pub fn run(directory: &Directory, plan: &Plan, script: &str, limits: Limits) -> Result<Ran> {
    let clock = RealClock::new();
    pool::run(
        directory,
        plan,
        &Options {
            part: limits.part,
            workers: 2,
            retries: limits.retries,
            memory_bytes: limits.memory_bytes,
            seconds: limits.seconds,
            command: &|| worker(directory, script),
            program: "script",
            clock: &*clock,
            tell: &|_| {},
        },
    )
}

/// What a run may use.
#[derive(Clone, Copy)]
pub struct Limits {
    pub part: Part,
    pub retries: u32,
    pub memory_bytes: Option<u64>,
    pub seconds: Option<u64>,
}

/// Nothing in particular.
pub const FREE: Limits =
    Limits { part: Part::Whole, retries: 0, memory_bytes: None, seconds: None };
