//! `extant sweep worker`: a process that runs jobs as they come.
use super::words::Own;
use super::{epoch, failure};
use extant_block::RealClock;
use extant_host::arena;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::directory::Directory;
use extant_sweep::worker::Worker;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Run jobs that come on standard input, a line each, and answer each with a line.
///
/// This is what `sweep run` starts, and what another engine can start in its place. The first line
/// says which version this is; after each job one says what became of it, once its result is in
/// DIR. Limits of memory and time are for whoever started it to hold. docs/FLEETS.md has the lines.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep worker night < jobs.jsonl
  ssh node1 'cd /shared && extant sweep worker night' < jobs.jsonl")]
pub struct Arguments {
    /// The directory of the sweep
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The process that started this one, with which it ends
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub of: Option<i32>,
}

/// Runs them. Every line that it prints is JSON, with `--json` and without.
pub fn run(arguments: &Arguments, _console: &Console) -> Result<Exit, Error> {
    // Jobs that would start this program anew find that it was.
    arena::share();
    if let Some(starter) = arguments.of {
        end_with(starter)?;
    }
    let directory = Directory::make(&arguments.directory).map_err(failure)?;
    let clock = RealClock::new();
    let worker = Worker { directory, commands: &Own, clock: &*clock, epoch: epoch() };
    let io = |error: std::io::Error| Error::io("worker", &error);
    worker.serve(&mut jobs().map_err(io)?).map_err(failure)?;
    Ok(Exit::Complete)
}

/// Standard input, kept from commands: one that reads it finds its end.
fn jobs() -> std::io::Result<BufReader<File>> {
    let jobs = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(BufReader::new(jobs))
}

/// Has Linux end this process with the one that started it; it may have ended already.
fn end_with(starter: i32) -> Result<(), Error> {
    let set = set_parent_process_death_signal(Some(Signal::KILL));
    set.map_err(|error| Error::io("worker", &error.into()))?;
    match getppid() == Pid::from_raw(starter) {
        true => Ok(()),
        false => Err(Error::new(format!("worker: process {starter}, which started it, has ended"))),
    }
}
