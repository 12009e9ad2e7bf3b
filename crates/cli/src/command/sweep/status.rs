//! `extant sweep status`: how far a directory is.
use super::failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::directory::Directory;
use extant_sweep::status::Status;
use std::path::PathBuf;

/// Say how many jobs of a sweep are done, failed and left.
///
/// It only looks, and may be asked while runs are at work. --json has every failure with its reason
/// and the last lines on standard error.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep status night
  extant sweep status night --json | jq -r '.failures[] | .label + \": \" + .reason'")]
pub struct Arguments {
    /// The directory of the sweep
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// No text names more failures.
const FAILURES_SHOWN_MAX: usize = 10;

/// Says it. With `--json`: `{"schema": "extant-sweep-status/1", "plans", "jobs", "done", "failed",
/// "left", "of_other_versions", "is_at_work", "failures"}`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let directory = Directory::open(&arguments.directory).map_err(failure)?;
    let status = Status::of(&directory).map_err(failure)?;
    if console.is_json() {
        console.print_json("extant-sweep-status/1", &status)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.directory.display();
    let Status { plans, jobs, done, failed, left, of_other_versions, .. } = status;
    let mut text = format!(
        "{shown}: {jobs} jobs in {plans} plans: {done} done, {failed} failed, {left} left\n"
    );
    if status.is_at_work {
        text += "a run is at work\n";
    }
    if of_other_versions > 0 {
        text += &format!("{of_other_versions} of them were planned by another version\n");
    }
    for failure in status.failures.iter().take(FAILURES_SHOWN_MAX) {
        text += &format!("{}: {}\n", failure.label, failure.reason);
    }
    let more = status.failures.len().saturating_sub(FAILURES_SHOWN_MAX);
    if more > 0 {
        text += &format!("and {more} more; --json has all\n");
    }
    console.report(&text)?;
    Ok(Exit::Complete)
}
