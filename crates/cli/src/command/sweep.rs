//! `extant sweep`: many jobs from a matrix.
//!
//! ```text
//! plan         a matrix becomes jobs
//! run          the jobs of a plan by processes of this machine
//! worker       one such process
//! submit       the file that hands a sweep to a scheduler
//! status       how far a directory is
//! collect      results as a table
//! plot         results as a picture
//! words        what the command line has to say of the words of jobs
//! ```
mod collect;
mod plan;
mod plot;
mod run;
mod status;
mod submit;
mod words;
mod worker;

use clap::Subcommand;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};

/// Plan, run and collect many jobs: simulations over drives, presets and seeds, and images by the
/// thousand to build, check or compare.
///
/// A matrix (TOML) says which jobs there are; a plan has one a line. A result is one file that is
/// named by the digest of all that decides it: words, files by their content, this version. So what
/// is done is not done again, a run that was cut goes on, and several machines may work in one
/// directory. docs/FLEETS.md has the matrix, the files and other engines.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:
  extant sweep plan matrix.toml > jobs.jsonl
  extant sweep run jobs.jsonl night
  extant sweep status night
  extant sweep collect night --csv > night.csv
  extant sweep plot night --svg night.svg")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What is done with a sweep.
#[derive(Subcommand)]
pub enum Action {
    Plan(plan::Arguments),
    Run(run::Arguments),
    Status(status::Arguments),
    Collect(collect::Arguments),
    Plot(plot::Arguments),
    Submit(submit::Arguments),
    Worker(worker::Arguments),
}

/// Does it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    match arguments.action {
        Action::Plan(arguments) => plan::run(&arguments, console),
        Action::Run(arguments) => run::run(&arguments, console),
        Action::Status(arguments) => status::run(&arguments, console),
        Action::Collect(arguments) => collect::run(&arguments, console),
        Action::Plot(arguments) => plot::run(&arguments, console),
        Action::Submit(arguments) => submit::run(&arguments, console),
        Action::Worker(arguments) => worker::run(&arguments, console),
    }
}

/// A failure of the sweep, in the console's words.
fn failure(error: extant_sweep::error::Error) -> Error {
    let failure = Error::new(error.message);
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// `SOURCE_DATE_EPOCH` as it is in the environment; one that is empty is none.
fn epoch() -> Option<String> {
    let value = std::env::var_os("SOURCE_DATE_EPOCH")?;
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}
