//! Experiments: a profile, lists of policies, a drive. TOML files; those of the posts' questions
//! are built in.
use super::error::AgeingError;
use super::file::{self, KINDS, VOLUME_BYTES, text};

use super::profile::{Builtin, PROFILES, Profile, builtin};
use crate::fields;
use crate::refused::Refused;
use crate::scenario::Processor;
use crate::setup::Setup;
use extant_engine::mkfs::Profile as VolumeKind;
use extant_engine::preset::PRESETS;
use extant_sim::drive::file::{self as drive_file, DriveSpec, FileError, Section, Source};
use std::path::Path;
use toml::de::DeTable;

/// Where samples are read, written and checked unless the caller says otherwise: the drive of the
/// post of 2007.
pub const DRIVE: &str = "sata-2007-400";
/// The quick form's volume where nothing else is said.
const QUICK_BYTES: u64 = 2 << 30;
const SUBJECTS_MAX: usize = 64;

/// A profile under several lists of policies.
#[derive(Clone)]
pub struct Experiment {
    /// What it is called.
    pub name: String,
    /// One line: what is asked.
    pub line: String,
    /// The profile.
    pub profile: Profile,
    /// Months of 30 days.
    pub months: u32,
    /// Size of the volume.
    pub bytes: u64,
    /// Size of the volume in the quick form.
    pub quick_bytes: u64,
    /// Where samples are measured.
    pub drive: DriveSpec,
    /// At least one.
    pub subjects: Vec<Subject>,
}

/// One list of policies.
#[derive(Clone)]
pub struct Subject {
    /// What it is called in tables.
    pub name: String,
    /// The policies as they were written.
    pub words: String,
    /// The policies, and the machine on which samples are measured.
    pub setup: Setup,
    /// ext2, ext3 or ext4; as in the profile when `None`.
    pub volume: Option<VolumeKind>,
}

macro_rules! builtin {
    ($name:literal) => {
        Builtin {
            name: $name,
            text: include_str!(concat!("../../profiles/experiments/", $name, ".toml")),
        }
    };
}

/// All that are built in.
pub static EXPERIMENTS: &[Builtin] = &[builtin!("post-0"), builtin!("post-1")];

/// What systems of a preset's time had, by how its name begins.
const VOLUMES: [(&str, VolumeKind); 3] = [
    ("linux-2.4", VolumeKind::Ext2),
    ("linux-2.6", VolumeKind::Ext3),
    ("freebsd", VolumeKind::Ext2),
];

impl Subject {
    /// That of a preset, perhaps with columns changed, on a volume of its time.
    ///
    /// # Errors
    /// Words that are no policies.
    pub fn new(words: &str) -> Result<Subject, AgeingError> {
        let parsed: Result<Setup, _> = words.parse();
        let setup =
            parsed.map_err(|error| AgeingError::Policies(words.to_owned(), error.to_string()))?;
        let volume = VOLUMES.iter().find(|(name, _)| setup.preset().starts_with(name));
        Ok(Subject {
            name: words.to_owned(),
            words: words.to_owned(),
            setup,
            volume: volume.map(|(_, kind)| *kind),
        })
    }
}

/// The kind of volume of that name.
pub fn volume_kind(word: &str) -> Option<VolumeKind> {
    KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

impl Experiment {
    /// The experiment or profile of that name or file; a profile runs under every preset.
    ///
    /// # Errors
    /// One line; of a name that is no file, what is built in.
    pub fn find(name: &str) -> Result<Experiment, AgeingError> {
        if let Some(builtin) = EXPERIMENTS.iter().find(|builtin| builtin.name == name) {
            return parse(builtin.name, builtin.text, Path::new(""));
        }
        if builtin(name).is_some() || !name.contains(['/', '.']) {
            let known = EXPERIMENTS.iter().chain(PROFILES).map(|builtin| builtin.name);
            let known: Vec<&str> = known.collect();
            let profile = file::find(name).map_err(|mut error| {
                if error.line == 0 {
                    error.reason =
                        format!("no such profile or experiment; there are {}", known.join(", "));
                }
                error
            })?;
            return Experiment::of(profile);
        }
        let path = Path::new(name);
        let text = text(path)?;
        match is_experiment(&text) {
            true => parse(name, &text, path.parent().unwrap_or(Path::new(""))),
            false => Experiment::of(super::file::parse(name, &text)?),
        }
    }

    /// The same under these policies, with volumes of this kind and charged for this processor,
    /// where they are given.
    ///
    /// # Errors
    /// Words that name no policies.
    pub fn changed(
        mut self,
        policies: &[String],
        volume: Option<VolumeKind>,
        processor: Option<&Processor>,
    ) -> Result<Experiment, Refused> {
        if !policies.is_empty() {
            let subjects = policies.iter().map(|words| {
                Subject::new(words).map_err(|error| {
                    Refused::words(error.to_string())
                        .hint("extant lab policies says what each of them does")
                })
            });
            self.subjects = subjects.collect::<Result<Vec<Subject>, Refused>>()?;
        }
        for subject in &mut self.subjects {
            subject.volume = volume.or(subject.volume);
            if let Some(processor) = processor {
                subject.setup.policies.costs = processor.costs();
            }
        }
        Ok(self)
    }

    /// A profile under every preset.
    ///
    /// # Errors
    /// None that a user could cause.
    pub fn of(profile: Profile) -> Result<Experiment, AgeingError> {
        let subjects: Result<Vec<Subject>, AgeingError> =
            PRESETS.iter().map(|preset| Subject::new(preset.name)).collect();
        Ok(Experiment {
            name: profile.name.clone(),
            line: profile.line.clone(),
            months: profile.months,
            bytes: profile.bytes,
            quick_bytes: QUICK_BYTES.min(profile.bytes),
            drive: drive_file::by_name(DRIVE)?,
            subjects: subjects?,
            profile,
        })
    }
}

/// Whether a file names a profile rather than being one. What cannot be parsed is judged as a
/// profile.
fn is_experiment(text: &str) -> bool {
    DeTable::parse(text).is_ok_and(|table| table.get_ref().contains_key("profile"))
}

/// The experiment of a text; `file` is what errors call it, and relative paths in it begin at
/// `folder`.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Experiment, AgeingError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    let mut section = Section::root(&source, table.get_ref());
    let word = fields::text(&mut section, "profile")?;
    let is_file = word.contains('/') || word.ends_with(".toml");
    let profile = match is_file {
        true => super::file::load(&folder.join(&word)),
        false => file::find(&word),
    };
    let profile = profile.map_err(|error| section.error("profile", error.to_string()))?;
    let bytes = fields::size(&mut section, "size", VOLUME_BYTES)?.unwrap_or(profile.bytes);
    let experiment = Experiment {
        name: fields::text(&mut section, "name")?,
        line: section.optional_text("line")?.unwrap_or_default().to_owned(),
        months: section.whole_within("months", 1..=120, Some(profile.months.into()))? as u32,
        bytes,
        quick_bytes: fields::size(&mut section, "quick_size", VOLUME_BYTES)?
            .unwrap_or(QUICK_BYTES.min(bytes)),
        drive: drive(&mut section)?,
        subjects: subjects(&mut section)?,
        profile,
    };
    section.finish()?;
    Ok(experiment)
}

fn drive(section: &mut Section<'_>) -> Result<DriveSpec, FileError> {
    let word = section.optional_text("drive")?.unwrap_or(DRIVE);
    drive_file::find(word).map_err(|error| section.error("drive", error.to_string()))
}

fn subjects(section: &mut Section<'_>) -> Result<Vec<Subject>, FileError> {
    let mut subjects: Vec<Subject> = Vec::new();
    for mut table in section.sections("policies")? {
        let words = fields::text(&mut table, "preset")?;
        let mut subject =
            Subject::new(&words).map_err(|error| table.error("preset", error.to_string()))?;
        subject.name = table.optional_text("name")?.unwrap_or(&words).to_owned();
        if table.has("volume") {
            subject.volume = Some(table.choice("volume", &KINDS, VolumeKind::Ext4)?);
        }
        if subjects.iter().any(|other| other.name == subject.name) {
            return Err(
                table.error("name", format!("{:?} is already the name of another", subject.name))
            );
        }
        subjects.push(subject);
        table.finish()?;
    }
    match subjects.len() {
        1..=SUBJECTS_MAX => Ok(subjects),
        _ => {
            Err(section
                .error("policies", format!("there have to be 1 to {SUBJECTS_MAX} [[policies]]")))
        }
    }
}
