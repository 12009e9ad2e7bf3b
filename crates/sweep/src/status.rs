//! How far a directory is: counted from its plans, results and failures, whether a run is at work
//! or not.
use crate::VERSION;
use crate::directory::{Directory, Failure};
use crate::error::Result;
use serde::Serialize;

/// How far a directory is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Status {
    /// Plans that runs were given.
    pub plans: u64,
    /// Jobs in them, each once.
    pub jobs: u64,
    /// Those with a result that is whole.
    pub done: u64,
    /// Those that were given up, and have none.
    pub failed: u64,
    /// Those that nobody has done yet.
    pub left: u64,
    /// Jobs of another version, which this one cannot run; they are among the others too.
    pub of_other_versions: u64,
    /// Whether a run is at work now, on this machine, or on another where the file system says so.
    pub is_at_work: bool,
    /// Why jobs failed, in the order of the plans.
    pub failures: Vec<Failure>,
}

impl Status {
    /// That of a directory.
    ///
    /// # Errors
    /// A plan cannot be read.
    pub fn of(directory: &Directory) -> Result<Status> {
        let mut status = Status {
            plans: directory.plans()?.len() as u64,
            is_at_work: directory.is_at_work(),
            ..Status::default()
        };
        directory.jobs(&mut |job| {
            status.jobs += 1;
            status.of_other_versions += u64::from(job.version != VERSION);
            if matches!(directory.read_result(&job.id), Ok(Some(_))) {
                status.done += 1;
            } else if let Some(failure) = directory.read_failure(&job.id) {
                status.failed += 1;
                status.failures.push(failure);
            } else {
                status.left += 1;
            }
            Ok(())
        })?;
        Ok(status)
    }
}
