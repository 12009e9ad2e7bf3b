//! What the words of a user name in the laboratory, and what is said where they name nothing.
use crate::ageing::{AgeingError, Experiment};
use crate::refused::{Reason, Refused};
use crate::scenario::{self, BUILTINS, POST_SCENARIOS, Scenario};
use crate::setup::Setup;
use extant_sim::drive::file::{self as drive_file, DriveSpec};
use extant_sim::drive::presets::PRESETS;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether a word means a file rather than something that is built in; all tables have names
/// without points and slashes.
fn means_file(word: &str) -> bool {
    word.contains(['/', '.']) || Path::new(word).exists()
}

/// What is wrong with a file: its content, or that the host does not give it.
fn of_file(word: &str, message: String) -> Refused {
    match File::open(word) {
        Err(error) => Refused { message, ..Refused::host(word, &error) },
        Ok(_) => Refused::content(message),
    }
}

/// The drive of that name or file.
///
/// # Errors
/// There is none, or its file is wrong.
pub fn drive(word: &str) -> Result<DriveSpec, Refused> {
    if !means_file(word) && !PRESETS.iter().any(|preset| preset.name == word) {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let message = format!("{word}: no such drive; there are {}", known.join(", "));
        return Err(Refused::words(message)
            .hint("a file is named with its folder or its ending: ./drive.toml"));
    }
    drive_file::find(word).map_err(|error| of_file(word, error.to_string()))
}

/// The drive of that file, with the facts of its controller in another.
///
/// # Errors
/// The drive is built in, or one of the files is wrong.
pub fn drive_with_facts(word: &str, facts: &Path) -> Result<DriveSpec, Refused> {
    if PRESETS.iter().any(|preset| preset.name == word) {
        let message = format!("facts are for the drive of a file, and {word} is built in");
        return Err(Refused::words(message));
    }
    drive_file::load_with(Path::new(word), Some(facts)).map_err(|error| {
        let wrong = of_file(word, error.to_string());
        match wrong.reason {
            Reason::Content => of_file(&facts.to_string_lossy(), wrong.message),
            _ => wrong,
        }
    })
}

/// The scenario of that name or file.
///
/// # Errors
/// There is none, or its file is wrong.
pub fn scenario(word: &str) -> Result<Scenario, Refused> {
    if !means_file(word) && scenario::builtin(word).is_none() {
        let known = BUILTINS.iter().chain(POST_SCENARIOS);
        let known: Vec<&str> = known.map(|builtin| builtin.name).collect();
        let message = format!("{word}: no such scenario; there are {}", known.join(", "));
        return Err(Refused::words(message).hint(
            "extant lab list says what each does; a file is named with its folder or its ending: \
             ./mine.toml",
        ));
    }
    scenario::find(word).map_err(|error| of_file(word, error.to_string()))
}

/// The policies and the machine that words name.
///
/// # Errors
/// They name none.
pub fn setup(words: &str) -> Result<Setup, Refused> {
    words.parse().map_err(|error| {
        Refused::words(format!("{words}: {error}"))
            .hint("extant lab policies says what each of them does")
    })
}

/// The experiment or profile of that name or file.
///
/// # Errors
/// There is none, or its file is wrong.
pub fn experiment(word: &str) -> Result<Experiment, Refused> {
    let is_file = word.contains(['/', '.']);
    Experiment::find(word).map_err(|error| match (is_file, &error) {
        (false, AgeingError::File(_)) => Refused::words(error.to_string()).hint(
            "extant lab age says what each is; a file is named with its folder or its ending: \
             ./mine.toml",
        ),
        (true, _) => of_file(word, error.to_string()),
        _ => Refused::content(error.to_string()),
    })
}

/// What a file holds, if that is not more than `most` bytes.
///
/// # Errors
/// It is longer, or the host does not give it.
pub fn contents(path: &Path, most: u64) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| Refused::host(path.display(), &error))?;
    match bytes.len() as u64 > most {
        true => Err(Refused::content(format!("{}: is longer than {most} bytes", path.display()))),
        false => Ok(bytes),
    }
}
