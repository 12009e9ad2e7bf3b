//! Drive files: TOML with the facts of a drive. What is wrong with one is said in one line: file,
//! line, key, reason.
use super::network::{NetworkSpec, NetworkVolume};
use super::object::{ObjectSpec, ObjectStore};
use super::rotating::{Rotating, RotatingSpec};
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

/// A drive as its file describes it, checked.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DriveSpec {
    /// The file's `name`, or that of the file.
    pub name: String,
    /// What it is, with its facts.
    #[serde(flatten)]
    pub kind: DriveKind,
}

/// What kinds of drives there are: the `kind` of a drive file; `rotating` when it has none.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveKind {
    /// A disk.
    Rotating(RotatingSpec),
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
        match &self.kind {
            DriveKind::Rotating(spec) => Box::new(Rotating::new(&self.name, spec)),
            DriveKind::Ssd(spec) => Box::new(Ssd::new(&self.name, spec, seed)),
            DriveKind::Network(spec) => Box::new(NetworkVolume::new(&self.name, spec, seed)),
            DriveKind::Object(spec) => Box::new(ObjectStore::new(&self.name, spec, seed)),
        }
    }

    /// What one request of the drive can carry at most, in bytes, where it is made of such units;
    /// 0 where it is not.
    pub fn unit_bytes(&self) -> u64 {
        match &self.kind {
            DriveKind::Object(spec) => spec.object_bytes,
            DriveKind::Rotating(_) | DriveKind::Ssd(_) | DriveKind::Network(_) => 0,
        }
    }
}

/// The drive of that file. The error is one line that names the file and, where there is one, line
/// and key.
pub fn load(path: &Path) -> Result<DriveSpec, FileError> {
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
    parse(&file, &text)
}

/// The drive of that text; `file` is what errors call it.
pub fn parse(file: &str, text: &str) -> Result<DriveSpec, FileError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    let stem =
        Path::new(file).file_stem().map_or_else(|| file.into(), |stem| stem.to_string_lossy());
    from_section(Section::root(&source, table.get_ref()), &stem)
}

/// The drive of that table; `stem` is what it is called when the table does not say.
pub fn from_section(mut section: Section<'_>, stem: &str) -> Result<DriveSpec, FileError> {
    let name = section.optional_text("name")?.unwrap_or(stem).to_owned();
    section.optional_text("about")?;
    let kind = match section.optional_text("kind")?.unwrap_or("rotating") {
        "rotating" => DriveKind::Rotating(RotatingSpec::from_section(&mut section)?),
        "ssd" => DriveKind::Ssd(SsdSpec::from_section(&mut section)?),
        "network" => DriveKind::Network(NetworkSpec::from_section(&mut section)?),
        "object" => DriveKind::Object(ObjectSpec::from_section(&mut section)?),
        other => {
            let reason =
                format!("no such kind as {other:?}; there are rotating, ssd, network and object");
            return Err(section.error("kind", reason));
        }
    };
    section.finish()?;
    Ok(DriveSpec { name, kind })
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
