//! Capsules: scenarios with everything that they refer to, and what they gave, in one file of text.
//!
//! A capsule is JSON, texts as lists of lines, so that version control shows what changed in it.
//! [`pack`] makes one, [`Capsule::verify`] runs it again and says what first differs. A capsule
//! comes from anywhere: its files are read under names of our own in a folder that is removed
//! afterwards, and a scenario in it that refers to a file which it does not hold is refused.
use crate::report::{MODEL_VERSION, Report};
use crate::scenario::{self, RunOptions, Scenario};
use extant_sim::random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use toml::de::{DeTable, DeValue};

/// Names the schema of a capsule.
pub const SCHEMA: &str = "extant-lab-capsule/1";
/// No capsule is longer.
pub const BYTES_MAX: u64 = 64 << 20;
/// No file in a capsule is longer.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Keys of a scenario whose words may name a file of the host.
const FILE_KEYS: [&str; 7] = ["model", "image", "file", "profile", "session", "trace", "listing"];

/// What is wrong with a capsule, or with what is to become one: one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapsuleError(String);

impl fmt::Display for CapsuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CapsuleError {}

type Result<T> = std::result::Result<T, CapsuleError>;

fn error(words: impl Into<String>) -> CapsuleError {
    CapsuleError(words.into())
}

/// Scenarios, what they refer to, and what they gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capsule {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that made it.
    pub program: String,
    /// The version of the models that gave what is expected.
    pub model_version: u32,
    /// The scenarios.
    pub parts: Vec<Part>,
}

/// A scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it was called.
    pub scenario: String,
    /// Its file, line by line.
    pub text: Vec<String>,
    /// The files that it refers to, by the names by which it does: drives, listings of trees.
    pub files: BTreeMap<String, Vec<String>>,
    /// How it was run.
    pub options: PartOptions,
    /// What it gave.
    pub expected: Expected,
}

/// How a scenario is run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartOptions {
    /// The seed, the scenario's own or that in its place.
    pub seed: u64,
    /// What counts are divided by.
    pub scale: u64,
    /// Policies in place of the scenario's.
    pub preset: Option<String>,
}

/// What a run gave.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// To the end of the last process.
    pub elapsed_ns: u64,
    /// Measures and steps, as the report has them.
    pub rows: Vec<ExpectedRow>,
    /// Of each drive, over its commands.
    pub trace_hashes: BTreeMap<String, String>,
    /// Over the whole report as JSON.
    pub report_hash: String,
}

/// A measure, or a step.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRow {
    /// Its process, and its name.
    pub row: String,
    /// How long it took.
    pub elapsed_ns: u64,
    /// Requests of the drive meanwhile.
    pub reads: u64,
    /// The same.
    pub writes: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// The same.
    pub bytes_written: u64,
}

/// What a part of a capsule came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verified {
    /// The scenario.
    pub scenario: String,
    /// How many rows were compared.
    pub rows: usize,
    /// What differs first; `None` if nothing does.
    pub difference: Option<String>,
}

/// Runs scenarios, built-in ones or files, and packs them with all that they refer to.
///
/// # Errors
/// One line: what is no scenario, what it refers to and cannot be packed (an image is no text), or
/// what went wrong when it ran.
pub fn pack(
    words: &[String],
    seed: Option<u64>,
    scale: u64,
    preset: Option<&str>,
) -> Result<Capsule> {
    let mut parts = Vec::new();
    for word in words {
        let (text, folder) = source(word)?;
        let scenario = scenario::parse(word, &text, &folder).map_err(|e| error(e.to_string()))?;
        let options = PartOptions {
            seed: seed.unwrap_or(scenario.seed),
            scale,
            preset: preset.map(str::to_owned),
        };
        let mut part = Part {
            scenario: word.clone(),
            files: referred(word, &text, &folder)?,
            text: lines(&text),
            options,
            expected: Expected::default(),
        };
        part.expected = part.run()?;
        parts.push(part);
    }
    Ok(Capsule {
        schema: SCHEMA.to_owned(),
        program: concat!("extant ", env!("CARGO_PKG_VERSION")).to_owned(),
        model_version: MODEL_VERSION,
        parts,
    })
}

impl Capsule {
    /// The capsule of a text.
    ///
    /// # Errors
    /// It is not JSON of this form, or of another schema.
    pub fn parse(text: &str) -> Result<Capsule> {
        let parsed: std::result::Result<Capsule, _> = serde_json::from_str(text);
        let capsule = parsed.map_err(|wrong| error(format!("is no capsule: {wrong}")))?;
        if capsule.schema != SCHEMA {
            let words = format!("is of schema {:?}; known is {SCHEMA:?}", capsule.schema);
            return Err(error(words));
        }
        if capsule.parts.is_empty() {
            return Err(error("holds no scenario"));
        }
        match capsule.parts.iter().find(|part| part.options.scale == 0) {
            Some(part) => Err(error(format!("{}: scale has to be at least 1", part.scenario))),
            None => Ok(capsule),
        }
    }

    /// As a file: indented, with a line end.
    pub fn to_json(&self) -> String {
        crate::report::json(self)
    }

    /// Runs every scenario again and compares what it gives.
    ///
    /// # Errors
    /// One line: a scenario that is wrong, refers to what the capsule does not hold, or does not
    /// run.
    pub fn verify(&self) -> Result<Vec<Verified>> {
        let verified = self.parts.iter().map(|part| {
            let found = part.run()?;
            Ok(Verified {
                scenario: part.scenario.clone(),
                rows: found.rows.len(),
                difference: part.expected.difference(&found),
            })
        });
        verified.collect()
    }
}

impl Part {
    /// Runs it from what the capsule holds.
    fn run(&self) -> Result<Expected> {
        let wrong = |words: String| error(format!("{}: {words}", self.scenario));
        let folder = Folder::new().map_err(|failed| wrong(failed.to_string()))?;
        let scenario = self.unpacked(&folder)?;
        let options = RunOptions {
            policies: self.options.preset.clone(),
            seed: Some(self.options.seed),
            scale: self.options.scale,
            ..RunOptions::default()
        };
        let ran = scenario::run(&scenario, &options).map_err(|failed| error(failed.to_string()))?;
        Ok(Expected::of(&ran.report, &folder.0))
    }

    /// The scenario, with its files in a folder of ours.
    fn unpacked(&self, folder: &Folder) -> Result<Scenario> {
        let wrong = |words: String| error(format!("{}: {words}", self.scenario));
        let mut text = self.text.join("\n");
        for name in words_of_files(&self.scenario, &text)? {
            let leads_out = name.starts_with('/') || name.split('/').any(|part| part == "..");
            if leads_out && !self.files.contains_key(&name) {
                let words = format!("refers to {name}, which the capsule does not hold");
                return Err(wrong(words));
            }
        }
        for (number, (name, lines)) in self.files.iter().enumerate() {
            let ending = if name.ends_with(".toml") { "toml" } else { "txt" };
            let path = folder.0.join(format!("{number}.{ending}"));
            let write = |path: &Path, lines: &[String]| {
                let written = std::fs::write(path, lines.join("\n"));
                written.map_err(|failed| wrong(failed.to_string()))
            };
            write(&path, lines)?;
            if let Some(facts) = facts_beside(name).and_then(|facts| self.files.get(&facts)) {
                write(&folder.0.join(format!("facts/{number}.toml")), facts)?;
            }
            let path = path.display().to_string();
            for quote in ['"', '\''] {
                let word = |name: &str| format!("{quote}{name}{quote}");
                text = text.replace(&word(name), &word(&path));
            }
        }
        scenario::parse(&self.scenario, &text, &folder.0).map_err(|e| error(e.to_string()))
    }
}

impl Expected {
    /// The names of files in `folder`, which is another each time, are left out of the hash.
    fn of(report: &Report, folder: &Path) -> Expected {
        let measures = report.measures.iter().map(|one| {
            let copy = one.copy.map_or_else(String::new, |copy| format!(" {copy}"));
            let row = format!("{}{copy}: {}", one.process, one.measure);
            (row, one.elapsed_ns, &one.traffic)
        });
        let steps = report.steps.iter().map(|one| {
            let row = format!("{} {}: step {}: {}", one.process, one.copy, one.number, one.label);
            (row, one.elapsed_ns, &one.traffic)
        });
        let rows = measures.chain(steps).map(|(row, elapsed_ns, traffic)| ExpectedRow {
            row,
            elapsed_ns,
            reads: traffic.reads,
            writes: traffic.writes,
            bytes_read: traffic.bytes_read,
            bytes_written: traffic.bytes_written,
        });
        let hashes =
            report.drives.iter().map(|drive| (drive.name.clone(), drive.trace_hash.clone()));
        Expected {
            elapsed_ns: report.elapsed_ns,
            rows: rows.collect(),
            trace_hashes: hashes.collect(),
            report_hash: {
                let json = report.to_json().replace(&folder.display().to_string(), "");
                hash(json.as_bytes())
            },
        }
    }

    /// What differs first, in words.
    fn difference(&self, found: &Expected) -> Option<String> {
        for (expected, found) in self.rows.iter().zip(&found.rows) {
            if expected.row != found.row {
                return Some(format!("the row {:?} was {:?}", found.row, expected.row));
            }
            let fields = [
                ("elapsed_ns", expected.elapsed_ns, found.elapsed_ns),
                ("reads", expected.reads, found.reads),
                ("writes", expected.writes, found.writes),
                ("bytes_read", expected.bytes_read, found.bytes_read),
                ("bytes_written", expected.bytes_written, found.bytes_written),
            ];
            if let Some((name, was, is)) = fields.iter().find(|(_, was, is)| was != is) {
                return Some(format!("{}: {name} is {is}, was {was}", expected.row));
            }
        }
        if self.rows.len() != found.rows.len() {
            return Some(format!("there are {} rows, were {}", found.rows.len(), self.rows.len()));
        }
        if self.elapsed_ns != found.elapsed_ns {
            return Some(format!("elapsed_ns is {}, was {}", found.elapsed_ns, self.elapsed_ns));
        }
        for (drive, is) in &found.trace_hashes {
            let was = self.trace_hashes.get(drive).map_or("none", String::as_str);
            if was != is {
                return Some(format!("the trace of {drive:?} is {is}, was {was}"));
            }
        }
        let differs = self.report_hash != found.report_hash;
        differs.then(|| {
            format!("the rest of the report is {}, was {}", found.report_hash, self.report_hash)
        })
    }
}

/// A hash to tell reports apart; not one that withstands forgery.
fn hash(bytes: &[u8]) -> String {
    let mixed = bytes.chunks(8).fold(bytes.len() as u64, |mixed, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        random::mix(mixed ^ u64::from_le_bytes(word))
    });
    format!("{mixed:016x}")
}

fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

/// The text of a scenario, and the folder where its paths begin.
fn source(word: &str) -> Result<(String, PathBuf)> {
    if let Some(builtin) = scenario::builtin(word) {
        return Ok((builtin.text.to_owned(), PathBuf::new()));
    }
    let path = Path::new(word);
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok((text_of(path, word)?, folder))
}

fn text_of(path: &Path, word: &str) -> Result<String> {
    let failed = |wrong: std::io::Error| error(format!("{word}: {wrong}"));
    let found = std::fs::metadata(path).map_err(failed)?;
    let mut bytes = Vec::new();
    if found.is_file() {
        let read = File::open(path).and_then(|file| {
            // One byte more shows that it is too long, whatever its length is said to be.
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
        });
        read.map_err(failed)?;
    }
    if !found.is_file() || bytes.len() as u64 > FILE_BYTES_MAX {
        let words = format!("{word}: is no file of at most {FILE_BYTES_MAX} bytes");
        return Err(error(words));
    }
    String::from_utf8(bytes).map_err(|_| {
        error(format!("{word}: is not text; a capsule holds texts only (of a tar file: tar tvf)"))
    })
}

/// The files of the host that a scenario refers to, with what they hold.
fn referred(file: &str, text: &str, folder: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut files = BTreeMap::new();
    for name in words_of_files(file, text)? {
        let path = folder.join(&name);
        if !path.is_file() {
            continue;
        }
        if !text.contains(&format!("\"{name}\"")) && !text.contains(&format!("'{name}'")) {
            let words = format!("{file}: {name} is written with escapes: name it plainly");
            return Err(error(words));
        }
        if let Some(facts) = facts_beside(&name).filter(|facts| folder.join(facts).is_file()) {
            let path = folder.join(&facts);
            files.insert(facts, lines(&text_of(&path, &path.display().to_string())?));
        }
        files.insert(name, lines(&text_of(&path, &path.display().to_string())?));
    }
    Ok(files)
}

/// Where the facts of a drive's controller are, if the file of that name is a drive's.
fn facts_beside(name: &str) -> Option<String> {
    let path = Path::new(name);
    let file = path.file_name().filter(|_| name.ends_with(".toml"))?;
    Some(path.with_file_name("facts").join(file).display().to_string())
}

/// The words of a scenario that could name files of the host.
fn words_of_files(file: &str, text: &str) -> Result<Vec<String>> {
    fn walk(key: &str, value: &DeValue<'_>, out: &mut Vec<String>) {
        match value {
            DeValue::String(words) if FILE_KEYS.contains(&key) && words.contains(['/', '.']) => {
                out.push(words.to_string());
            }
            DeValue::Array(all) => all.iter().for_each(|one| walk(key, one.get_ref(), out)),
            DeValue::Table(table) => {
                table.iter().for_each(|(key, one)| walk(key.get_ref(), one.get_ref(), out));
            }
            _ => {}
        }
    }
    let parsed = DeTable::parse(text);
    let table = parsed.map_err(|wrong| error(format!("{file}: {}", wrong.message())))?;
    let mut out = Vec::new();
    table.get_ref().iter().for_each(|(key, one)| walk(key.get_ref(), one.get_ref(), &mut out));
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// A folder of our own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("extant-capsule-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Folder(path);
                    std::fs::create_dir(folder.0.join("facts"))?;
                    return Ok(folder);
                }
                Err(failed) if failed.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(failed) => return Err(failed),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is a few texts in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
