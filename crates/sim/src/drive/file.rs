//! Drive files: TOML with the facts of a drive. What is wrong with one is said in one line: file,
//! line, key, reason.
use super::host::{HostSpec, Hosted};
use super::network::{NetworkSpec, NetworkVolume};
use super::object::{ObjectSpec, ObjectStore};
use super::rotating::{Controller, Rotating, RotatingSpec};
use super::ssd::{Ssd, SsdSpec};
use super::{Drive, presets};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::de::DeTable;

pub use super::section::{FileError, Section, Source};

/// No drive file is longer.
const MOST_BYTES: u64 = 1 << 20;

/// What hosts send at a time since commands have 48 bits of address: `largest_command` where a
/// file has none. Before, a command of IDE counted at most 256 sectors.
const LARGEST_COMMAND_BYTES: u64 = 512 << 10;
/// What `largest_command` can be.
const COMMANDS: std::ops::RangeInclusive<u64> = 4096..=64 << 20;

/// A drive as its file describes it, checked.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DriveSpec {
    /// The file's `name`, or that of the file.
    pub name: String,
    /// The file that the facts of its controller were taken from, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<String>,
    /// The longest command that hosts of its time send it, in bytes.
    pub largest_command_bytes: u64,
    /// The host's own work on the way to it, where the file has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// What it is, with its facts.
    #[serde(flatten)]
    pub kind: DriveKind,
}

/// What kinds of drives there are: the `kind` of a drive file; `rotating` when it has none.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveKind {
    /// A disk.
    Rotating(Box<RotatingSpec>),
    /// A solid-state drive.
    Ssd(SsdSpec),
    /// A volume behind a network.
    Network(NetworkSpec),
    /// A store of objects.
    Object(ObjectSpec),
}

impl DriveSpec {
    /// Builds the drive, at rest at time 0. `seed` decides what is random in it (a disk has nothing
    /// that is).
    pub fn build(&self, seed: u64) -> Box<dyn Drive> {
        let drive: Box<dyn Drive> = match &self.kind {
            DriveKind::Rotating(spec) => Box::new(Rotating::new(&self.name, spec)),
            DriveKind::Ssd(spec) => Box::new(Ssd::new(&self.name, spec, seed)),
            DriveKind::Network(spec) => Box::new(NetworkVolume::new(&self.name, spec, seed)),
            DriveKind::Object(spec) => Box::new(ObjectStore::new(&self.name, spec, seed)),
        };
        match self.host {
            Some(host) => Box::new(Hosted::new(drive, host)),
            None => drive,
        }
    }

    /// What one request of the drive can carry at most, in bytes, where it is made of such units;
    /// 0 where it is not.
    fn unit_bytes(&self) -> u64 {
        match &self.kind {
            DriveKind::Object(spec) => spec.object_bytes,
            DriveKind::Rotating(_) | DriveKind::Ssd(_) | DriveKind::Network(_) => 0,
        }
    }
}

/// The drive of that file. Where there is a file `facts/NAME.toml` beside `NAME.toml`, it says what
/// is known of the controller: its tables `controller` and `bus`. The error is one line that names
/// the file and, where there is one, line and key.
pub fn load(path: &Path) -> Result<DriveSpec, FileError> {
    let beside = path.file_name().map(|name| path.with_file_name("facts").join(name));
    // What is there and cannot be read is an error: without it the drive would be another.
    load_with(path, beside.filter(|facts| facts.symlink_metadata().is_ok()).as_deref())
}

/// As [`load`], with the facts of that file.
pub fn load_with(path: &Path, facts: Option<&Path>) -> Result<DriveSpec, FileError> {
    let text = contents(path)?;
    let file = path.display().to_string();
    let found = facts.map(load_facts).transpose()?;
    let controller = found.as_ref().map(|facts| &facts.controller);
    let spec = parse_with(&file, &text, controller)?;
    if let Some(facts) = found {
        facts.are_of(&spec.name, &file)?;
    }
    Ok(DriveSpec { facts: facts.map(|facts| facts.display().to_string()), ..spec })
}

fn load_facts(path: &Path) -> Result<FactsFile, FileError> {
    facts_of(&path.display().to_string(), &contents(path)?)
}

/// What a file of facts says.
struct FactsFile {
    controller: Controller,
    /// Of the drive, and the error of a drive that is called otherwise but for its reason.
    name: Option<(String, FileError)>,
}

impl FactsFile {
    /// Nothing where they are of the drive of that name, or name none.
    ///
    /// # Errors
    /// They name another one.
    fn are_of(self, name: &str, file: &str) -> Result<(), FileError> {
        match self.name {
            Some((said, error)) if said != name => Err(FileError {
                reason: format!(
                    "these are the facts of {said:?}, and the drive of {file} is called {name:?}"
                ),
                ..error
            }),
            _ => Ok(()),
        }
    }
}

fn contents(path: &Path) -> Result<String, FileError> {
    let file = path.display().to_string();
    let whole =
        |reason: String| FileError { file: file.clone(), line: 0, key: String::new(), reason };
    let mut text = String::new();
    let opened =
        File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    opened.map_err(|error| whole(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(whole(format!("is too long: a drive file has at most {MOST_BYTES} bytes")));
    }
    Ok(text)
}

/// The facts of a controller in that text; `file` is what errors call it.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn parse_facts(file: &str, text: &str) -> Result<Controller, FileError> {
    facts_of(file, text).map(|facts| facts.controller)
}

fn facts_of(file: &str, text: &str) -> Result<FactsFile, FileError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    let mut section = Section::root(&source, table.get_ref());
    let name = section.optional_text("name")?;
    let name = name.map(|name| (name.to_owned(), section.error("name", "")));
    section.optional_text("about")?;
    let found = Controller::read(&mut section)?;
    section.finish()?;
    let controller =
        found.ok_or_else(|| source.error(0, "", "has no table controller, and no table bus"))?;
    Ok(FactsFile { controller, name })
}

/// The drive of that text; `file` is what errors call it.
pub fn parse(file: &str, text: &str) -> Result<DriveSpec, FileError> {
    parse_with(file, text, None)
}

fn parse_with(file: &str, text: &str, facts: Option<&Controller>) -> Result<DriveSpec, FileError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    let stem =
        Path::new(file).file_stem().map_or_else(|| file.into(), |stem| stem.to_string_lossy());
    section_with(Section::root(&source, table.get_ref()), &stem, facts)
}

/// The drive of that table, with changes to what a file says, as `spec` was made: with the facts of
/// the same file.
pub fn changed(section: Section<'_>, spec: &DriveSpec) -> Result<DriveSpec, FileError> {
    let facts = spec.facts.clone();
    let found = facts.as_deref().map(|file| load_facts(Path::new(file))).transpose()?;
    let controller = found.as_ref().map(|facts| &facts.controller);
    let changed = section_with(section, &spec.name, controller)?;
    Ok(DriveSpec { facts, ..changed })
}

/// The drive of that table; `stem` is what it is called when the table does not say.
pub fn from_section(section: Section<'_>, stem: &str) -> Result<DriveSpec, FileError> {
    section_with(section, stem, None)
}

fn section_with(
    mut section: Section<'_>,
    stem: &str,
    facts: Option<&Controller>,
) -> Result<DriveSpec, FileError> {
    let name = section.optional_text("name")?.unwrap_or(stem).to_owned();
    section.optional_text("about")?;
    let kind = match section.optional_text("kind")?.unwrap_or("rotating") {
        "rotating" => {
            DriveKind::Rotating(Box::new(RotatingSpec::from_section(&mut section, facts)?))
        }
        kind if facts.is_some() => {
            let reason = format!("facts of a controller are for rotating drives, not for {kind:?}");
            return Err(section.error("kind", reason));
        }
        "ssd" => DriveKind::Ssd(SsdSpec::from_section(&mut section)?),
        "network" => DriveKind::Network(NetworkSpec::from_section(&mut section)?),
        "object" => DriveKind::Object(ObjectSpec::from_section(&mut section)?),
        other => {
            let reason =
                format!("no such kind as {other:?}; there are rotating, ssd, network and object");
            return Err(section.error("kind", reason));
        }
    };
    let host = match kind {
        DriveKind::Ssd(_) | DriveKind::Network(_) => HostSpec::from_section(&mut section)?,
        DriveKind::Rotating(_) | DriveKind::Object(_) => None,
    };
    let mut spec = DriveSpec { name, facts: None, largest_command_bytes: 0, host, kind };
    let default = LARGEST_COMMAND_BYTES.max(spec.unit_bytes());
    spec.largest_command_bytes =
        section.whole_within("largest_command", COMMANDS, Some(default))?;
    section.finish()?;
    Ok(spec)
}

/// The preset of that name. The error names those that there are.
pub fn by_name(name: &str) -> Result<DriveSpec, FileError> {
    match presets::PRESETS.iter().find(|preset| preset.name == name) {
        Some(preset) => parse(preset.name, preset.text),
        None => {
            let known: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
            Err(FileError {
                file: name.to_owned(),
                line: 0,
                key: String::new(),
                reason: format!("no such drive; there are {}", known.join(", ")),
            })
        }
    }
}

/// The drive that somebody asks for: the preset of that name, or else the file.
pub fn find(name: &str) -> Result<DriveSpec, FileError> {
    let is_preset = presets::PRESETS.iter().any(|preset| preset.name == name);
    match is_preset || !(name.contains(['/', '.']) || Path::new(name).exists()) {
        true => by_name(name),
        false => load(Path::new(name)),
    }
}
