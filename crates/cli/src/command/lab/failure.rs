//! What goes wrong in the laboratory, in the console's words. Names that the command line has and
//! are not known are wrong usage (2); what is wrong inside a file is a failure (1).
use extant_host::error::Error;
use extant_lab::asked;
use extant_lab::refused::{Reason, Refused};
use extant_lab::scenario::{Scenario, ScenarioError};
use extant_lab::setup::Setup;
use extant_sim::drive::file::DriveSpec;
use std::io;
use std::path::Path;

/// A refusal of the laboratory.
pub fn refused(refused: Refused) -> Error {
    let error = match &refused.reason {
        Reason::Words => Error::usage(refused.message),
        // What the host says of a full disk has a hint.
        Reason::Host { path, number: Some(number), .. } if refused.message.starts_with(path) => {
            Error {
                message: refused.message,
                ..Error::io(path, &io::Error::from_raw_os_error(*number))
            }
        }
        Reason::Content | Reason::Host { .. } => Error::new(refused.message),
    };
    match refused.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// The same of the words that an option has.
pub fn of_option(option: &str, mut of: Refused) -> Error {
    if of.reason == Reason::Words {
        of.message = format!("{option} {}", of.message);
    }
    refused(of)
}

/// The drive of that name or file.
pub fn drive(word: &str) -> Result<DriveSpec, Error> {
    asked::drive(word).map_err(|error| of_option("--drive", error))
}

/// The drive of that file, with the facts of its controller in another.
pub fn drive_with_facts(word: &str, facts: &Path) -> Result<DriveSpec, Error> {
    asked::drive_with_facts(word, facts).map_err(|mut error| {
        if error.reason == Reason::Words {
            error.message.insert_str(0, "--");
        }
        refused(error)
    })
}

/// The scenario of that name or file.
pub fn scenario(word: &str) -> Result<Scenario, Error> {
    asked::scenario(word).map_err(refused)
}

/// The policies and the machine that words name.
pub fn setup(words: &str) -> Result<Setup, Error> {
    asked::setup(words).map_err(|error| of_option("--preset", error))
}

/// A scenario that did not run to its end.
pub fn ran(error: &ScenarioError) -> Error {
    Error::new(error.to_string())
}

/// What a file holds, if that is not more than `most` bytes.
pub fn contents(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    asked::contents(path, most).map_err(refused)
}
