//! What goes wrong with a scenario: one line, with the file, and the line and key, or the process
//! and step.
use extant_sim::drive::file::FileError;
use std::fmt;

/// Why a scenario cannot be read, or did not run to its end. Shows as one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScenarioError {
    /// The file: `FILE:LINE: KEY: REASON`.
    File(FileError),
    /// A step failed: `FILE:LINE: PROCESS: STEP: REASON`.
    Step {
        /// The scenario's file.
        file: String,
        /// Where the step stands in it.
        line: usize,
        /// The process.
        process: String,
        /// The step's label, or its kind.
        step: String,
        /// What happened.
        reason: String,
    },
    /// The run as a whole: a deadlock, a target that cannot be opened.
    Run {
        /// The scenario's file.
        file: String,
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioError::File(error) => error.fmt(f),
            ScenarioError::Step { file, line, process, step, reason } => {
                write!(f, "{file}:{line}: process {process}: {step}: {reason}")
            }
            ScenarioError::Run { file, reason } => write!(f, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl From<FileError> for ScenarioError {
    fn from(error: FileError) -> ScenarioError {
        ScenarioError::File(error)
    }
}
