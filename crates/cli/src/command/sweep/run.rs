//! `extant sweep run`: the jobs of a plan, by processes of this machine.
use super::failure;
use extant_block::RealClock;
use extant_host::arena;
use extant_host::cleanup;
use extant_host::console::{Chatter, Console};
use extant_host::error::{Error, Exit};
use extant_host::itself;
use extant_sweep::directory::{Directory, Part};
use extant_sweep::matrix::reader::bytes;
use extant_sweep::memory;
use extant_sweep::pool::{self, Options, Ran};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;

/// Run the jobs of a plan on all processors of this machine.
///
/// Results go to DIR, which is made. Jobs that have a result there are not run again, so the same
/// command goes on where a run was cut, and tries again what failed. A job that passes its memory
/// or its time is ended alone; DIR/failed has the reason of each that failed, with the last lines
/// that it wrote to standard error. Exit code 1 if one has no result.
///
/// --shard and --job divide the work among runs, here or on machines that share DIR: what two of
/// them do twice comes out the same.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep run jobs.jsonl night
  extant sweep run jobs.jsonl night --workers 8 --memory 2G --time 600 --retries 2
  extant sweep run jobs.jsonl night --shard 3/16
  extant sweep run jobs.jsonl night --job $SLURM_ARRAY_TASK_ID
  extant sweep plan matrix.toml | extant sweep run - night")]
pub struct Arguments {
    /// The plan, as `extant sweep plan` printed it; - is standard input
    #[arg(value_name = "JOBS")]
    pub jobs: PathBuf,
    /// The directory of the sweep: a new one, or one of sweeps
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Processes at a time; as many as there are processors if nothing is said
    #[arg(long, short = 'j', value_name = "N")]
    pub workers: Option<NonZero<u16>>,
    /// Try a job that failed again, this many times
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub retries: u32,
    /// What a job may hold in memory, such as 512M or 2G, unless its matrix says so; a process's
    /// share of the machine if nothing is said
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub memory: Option<u64>,
    /// How many seconds a job may take, unless its matrix says so
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub time: Option<u64>,
    /// Only one of N shares of the jobs: I is 1 to N
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Part>,
    /// Only the job of this line of the plan, from 1
    #[arg(long, value_name = "LINE", conflicts_with = "shard",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub job: Option<u64>,
    /// The extant that runs the jobs, in place of this program; of the same version
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
}

fn shard(word: &str) -> Result<Part, String> {
    let wrong = || format!("{word}: has to be I/N, with I from 1 to N");
    let (index, of) = word.split_once('/').ok_or_else(wrong)?;
    let (index, of): (u64, u64) =
        (index.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
    match (1..=of).contains(&index) {
        true => Ok(Part::Shard { index: index - 1, of }),
        false => Err(wrong()),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    directory: String,
    jobs: u64,
    done: u64,
    there: u64,
    failed: u64,
    failures: &'a [extant_sweep::directory::Failure],
}

/// Runs them. With `--json`: `{"schema": "extant-sweep-run/1", "directory", "jobs", "done",
/// "there", "failed", "failures": [{"id", "label", "reason", "exit", "tries", "said"}]}`, the first
/// hundred.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let mut lines: Box<dyn BufRead> = match arguments.jobs.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => {
            let file = File::open(&arguments.jobs);
            let io = |error: std::io::Error| Error::io(arguments.jobs.display(), &error);
            Box::new(BufReader::new(file.map_err(io)?))
        }
    };
    let part = match (arguments.shard, arguments.job) {
        (Some(part), _) => part,
        (None, Some(line)) => Part::Job(line - 1),
        (None, None) => Part::Whole,
    };
    let directory = Directory::make(&arguments.directory).map_err(failure)?;
    let held = directory.hold(part).map_err(failure)?;
    if !held.is_held {
        let shown = arguments.directory.display();
        console.warn(&format!(
            "{shown}: its file system has no locks: another run there would do the same work again"
        ));
    }
    directory.sweep_out();
    let name = arguments.jobs.display().to_string();
    let plan = directory.keep_plan(&name, &mut *lines).map_err(failure)?;
    drop(lines);
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let workers = arguments.workers.map_or(processors, |workers| usize::from(workers.get()));
    let share = memory::of_machine().map(|bytes| bytes / workers as u64);
    let clock = RealClock::new();
    let tell = console.teller();
    cleanup::remark("what is done is kept: the same command goes on".into());
    let options = Options {
        part,
        workers,
        retries: arguments.retries,
        memory_bytes: arguments.memory.or(share),
        seconds: arguments.time,
        command: &|| command(arguments),
        program: &arguments
            .program
            .as_ref()
            .map_or_else(|| "of this program".into(), |program| program.display().to_string()),
        clock: &*clock,
        tell: &*tell,
    };
    let ran = pool::run(&directory, &plan, &options);
    drop(tell);
    report(arguments, &ran.map_err(failure)?, console)
}

/// What starts a worker: it ends when this process does, in whatever way.
fn command(arguments: &Arguments) -> Command {
    let mut command = match &arguments.program {
        Some(program) => Command::new(program),
        None => itself::command(),
    };
    command.args(["sweep", "worker", "--of"]).arg(std::process::id().to_string());
    command.arg("--").arg(&arguments.directory);
    arena::begin(&mut command);
    command
}

fn report(arguments: &Arguments, ran: &Ran, console: &Console) -> Result<Exit, Error> {
    let exit = if ran.failed == 0 { Exit::Complete } else { Exit::Incomplete };
    let directory = arguments.directory.display().to_string();
    if console.is_json() {
        let Ran { jobs, done, there, failed, ref failures } = *ran;
        let report = Report { directory, jobs, done, there, failed, failures };
        console.print_json("extant-sweep-run/1", &report)?;
        return Ok(exit);
    }
    for failure in &ran.failures {
        console.skipped(&format!("{}: {}", failure.label, failure.reason));
    }
    if ran.failed > 0 {
        console
            .hint(&format!("extant sweep status {directory} --json has all that is known of each"));
    }
    if console.chatter == Chatter::Normal {
        let Ran { jobs, done, there, failed, .. } = ran;
        console.report(&format!(
            "{directory}: {jobs} jobs: {done} done, {there} done before, {failed} failed\n"
        ))?;
    }
    Ok(exit)
}
