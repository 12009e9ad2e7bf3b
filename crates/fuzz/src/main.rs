//! `xtask fuzz`: inputs of each body by the thousand, for a time. Exits with 1 when one hurts, and
//! says how it is seen again.
// tidy: print because this is a command
use extant_fuzz::memory::{self, Counting, counting};
use extant_fuzz::mutate;
use extant_fuzz::rounds::{Failure, Limits, Note, Plan, run};
use extant_fuzz::targets::{TARGETS, Target, find};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
fuzz [--target NAME]   one body; default: each
  --seconds N          for each body; default: 10
  --rounds N           inputs of each body at most
  --seed S             the first; default: 0
  --note FILE          where it says what it is at
  --keep FILE          where the first input is written to, and nothing is run";

#[global_allocator]
static ALLOCATOR: Counting = counting();

/// What was asked for.
struct Asked {
    targets: Vec<&'static Target>,
    plan: Plan,
    note: Option<PathBuf>,
    keep: Option<PathBuf>,
}

fn parse(words: &[String]) -> Result<Asked, String> {
    let plan = Plan { seed: 0, rounds: u64::MAX, seconds: None, limits: Limits::USUAL };
    let mut asked = Asked { targets: TARGETS.iter().collect(), plan, note: None, keep: None };
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: no number"));
        match word.as_str() {
            "--target" => {
                let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>();
                let found = find(value);
                let unknown = || format!("no target {value}; there are {}", known().join(", "));
                asked.targets = vec![found.ok_or_else(unknown)?];
            }
            "--seconds" => asked.plan.seconds = Some(number()?),
            "--rounds" => asked.plan.rounds = number()?,
            "--seed" => asked.plan.seed = number()?,
            "--note" => asked.note = Some(value.into()),
            "--keep" => asked.keep = Some(value.into()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if asked.plan.rounds == u64::MAX {
        asked.plan.seconds.get_or_insert(10);
    }
    Ok(asked)
}

fn keep(asked: &Asked, path: &PathBuf) -> Result<(), String> {
    let [target] = asked.targets[..] else { return Err("--keep needs --target".to_owned()) };
    let input = mutate::input(&(target.begun)(), asked.plan.seed);
    std::fs::write(path, input).map_err(|error| format!("{}: {error}", path.display()))
}

fn one(asked: &Asked, target: &'static Target) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure {
        target: target.name,
        seed: asked.plan.seed,
        what: format!("the note cannot be made: {error}"),
    };
    let note = asked.note.as_deref().map_or(Ok(Note::NONE), Note::at).map_err(failed)?;
    run(target, &asked.plan, note)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match parse(&words) {
        Ok(asked) => asked,
        Err(said) => {
            eprintln!("{said}");
            return ExitCode::from(2);
        }
    };
    memory::count_by(&ALLOCATOR);
    if let Some(path) = &asked.keep {
        return match keep(&asked, path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(said) => {
                eprintln!("{said}");
                ExitCode::FAILURE
            }
        };
    }
    let mut outcome = ExitCode::SUCCESS;
    for target in &asked.targets {
        match one(&asked, target) {
            Ok(rounds) => println!("{:<16} {rounds:>9} inputs  {}", target.name, target.about),
            Err(failure) => {
                println!("{:<16} {failure}", target.name);
                outcome = ExitCode::FAILURE;
            }
        }
    }
    outcome
}
