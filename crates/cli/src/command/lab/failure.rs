//! What goes wrong in the laboratory, in the console's words. Names that the command line has and
//! are not known are wrong usage (2); what is wrong inside a file is a failure (1).
use extant_host::error::Error;
use extant_lab::scenario::{self, BUILTINS, POST_SCENARIOS, Scenario, ScenarioError};
use extant_lab::setup::Setup;
use extant_sim::drive::file::{self as drive_file, DriveSpec};
use extant_sim::drive::presets::PRESETS;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether a word means a file rather than something that is built in; both tables have names
/// without points and slashes.
fn means_file(word: &str) -> bool {
    word.contains(['/', '.']) || Path::new(word).exists()
}

/// The drive of that name or file.
pub fn drive(word: &str) -> Result<DriveSpec, Error> {
    if !means_file(word) && !PRESETS.iter().any(|preset| preset.name == word) {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(Error::usage(format!(
            "--drive {word}: no such drive; there are {}",
            known.join(", ")
        ))
        .hint("a file is named with its folder or its ending: ./drive.toml"));
    }
    drive_file::find(word).map_err(|error| Error::new(error.to_string()))
}

/// The drive of that file, with the facts of its controller in another.
pub fn drive_with_facts(word: &str, facts: &Path) -> Result<DriveSpec, Error> {
    if PRESETS.iter().any(|preset| preset.name == word) {
        return Err(Error::usage(format!(
            "--facts is for the drive of a file, and {word} is built in"
        )));
    }
    drive_file::load_with(Path::new(word), Some(facts))
        .map_err(|error| Error::new(error.to_string()))
}

/// The scenario of that name or file.
pub fn scenario(word: &str) -> Result<Scenario, Error> {
    if !means_file(word) && scenario::builtin(word).is_none() {
        let known = BUILTINS.iter().chain(POST_SCENARIOS);
        let known: Vec<&str> = known.map(|builtin| builtin.name).collect();
        return Err(Error::usage(format!(
            "{word}: no such scenario; there are {}",
            known.join(", ")
        ))
        .hint(
            "extant lab list says what each does; a file is named with its folder or its \
                 ending: ./mine.toml",
        ));
    }
    scenario::find(word).map_err(|error| Error::new(error.to_string()))
}

/// The policies and the machine that words name.
pub fn setup(words: &str) -> Result<Setup, Error> {
    words.parse().map_err(|error| {
        Error::usage(format!("--preset {words}: {error}"))
            .hint("extant lab policies says what each of them does")
    })
}

/// A scenario that did not run to its end.
pub fn ran(error: &ScenarioError) -> Error {
    Error::new(error.to_string())
}

/// What a file holds, if that is not more than `most` bytes.
pub fn contents(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::io(path.display(), &error))?;
    match bytes.len() as u64 > most {
        true => Err(Error::new(format!("{}: is longer than {most} bytes", path.display()))),
        false => Ok(bytes),
    }
}
