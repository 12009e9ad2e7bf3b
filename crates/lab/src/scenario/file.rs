//! The scenario file as a whole: what it says of drives, file systems and processes, checked.
use super::changes::{Changes, merge};
use super::format::parse_format;
use super::processor::{Processor, processor};
use super::results::parse_results;
use super::step::{Action, End, StepScope, each_step, parse_life, parse_steps, parse_tree, runs};
use super::tree::TreeSpec;
use super::{
    Aged, BUILTINS, Data, DriveEntry, FilesystemEntry, Origin, POST_SCENARIOS, ProcessEntry,
    Samples, Scenario, Start, Workplace, builtin,
};
use crate::fields::{self, Result};
use crate::session;
use crate::setup::Setup;
use extant_engine::preset::DEFAULT_PRESET;
use extant_sim::drive::file::{self as drive_file, DriveSpec, FileError, Section, Source};
use extant_sim::drive::presets::PRESETS;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// No scenario file is longer.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// No recorded session is longer: it is read whole.
const SESSION_BYTES_MAX: u64 = 256 << 20;
/// No scenario has more drives, file systems, or processes.
const ENTRIES_MAX: usize = 1024;
/// No scenario runs more steps, each run of one in a `repeat` counted.
const STEP_RUNS_MAX: u64 = 1_000_000_000;
/// Memory of a machine when the file says nothing.
const MEMORY_DEFAULT: u64 = 256 << 20;
/// All file systems together have no more memory than this.
pub(super) const MEMORY_MAX: u64 = 1 << 40;
const MEMORY_MIN: u64 = 1 << 20;

/// The scenario of that name: a built-in one, or else a file.
///
/// # Errors
/// One line; of a name that is no file, the built-in ones.
pub fn find(name: &str) -> Result<Scenario> {
    match builtin(name) {
        Some(builtin) => parse(builtin.name, builtin.text, Path::new("")),
        None if name.contains(['/', '.']) || Path::new(name).exists() => load(Path::new(name)),
        None => {
            let known = BUILTINS.iter().chain(POST_SCENARIOS);
            let known: Vec<&str> = known.map(|builtin| builtin.name).collect();
            Err(whole(name, format!("no such scenario; there are {}", known.join(", "))))
        }
    }
}

fn whole(file: &str, reason: String) -> FileError {
    FileError { file: file.to_owned(), line: 0, key: String::new(), reason }
}

/// The scenario of a file.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn load(path: &Path) -> Result<Scenario> {
    let name = path.display().to_string();
    let text = fields::contents(path, FILE_BYTES_MAX).map_err(|reason| whole(&name, reason))?;
    parse(&name, &text, path.parent().unwrap_or(Path::new("")))
}

/// The scenario of a text; `file` is what errors call it, and relative paths in it begin at
/// `folder`.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Scenario> {
    parse_changed(file, text, folder, &Changes::default())
}

/// The scenario of a text, with values of its own for some keys.
///
/// # Errors
/// As [`parse`]; and a change of what is not there.
pub fn parse_changed(file: &str, text: &str, folder: &Path, changes: &Changes) -> Result<Scenario> {
    let source = Source { file, text };
    let written = changes.written();
    let mut table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    changes.apply(&written, &source, table.get_mut())?;
    let mut section = Section::root(&source, table.get_ref());
    let seed = section.whole_within("seed", 0..=i64::MAX as u64, Some(1))?;
    let memory =
        fields::size(&mut section, "memory", MEMORY_MIN..=MEMORY_MAX)?.unwrap_or(MEMORY_DEFAULT);
    let trees = parse_trees(&mut section, folder)?;
    let drives = parse_drives(&mut section, folder)?;
    let machine = Machine { seed, memory, folder };
    let filesystems = parse_filesystems(&mut section, &drives, &machine)?;
    let processes = parse_processes(&mut section, &drives, &filesystems, &trees, folder)?;
    let results = parse_results(&mut section, &processes)?;
    let scenario = Scenario {
        results,
        file: file.to_owned(),
        name: fields::text(&mut section, "name")?,
        line: section.optional_text("line")?.unwrap_or_default().to_owned(),
        seed,
        processors: section.whole_within("processors", 1..=1024, Some(1))? as u32,
        processor: parse_processor(&mut section)?,
        drives,
        filesystems,
        processes,
    };
    section.finish()?;
    Ok(scenario)
}

fn parse_processor(section: &mut Section<'_>) -> Result<Option<&'static Processor>> {
    let Some(name) = section.optional_text("processor")? else { return Ok(None) };
    processor(name).map(Some).map_err(|reason| section.error("processor", reason))
}

/// What the whole file says.
struct Machine<'a> {
    seed: u64,
    memory: u64,
    folder: &'a Path,
}

/// The name of an entry, which no other of its kind has.
fn own_name(section: &mut Section<'_>, taken: &[String]) -> Result<String> {
    let name = fields::text(section, "name")?;
    match taken.contains(&name) {
        true => Err(section.error("name", format!("{name:?} is already the name of another"))),
        false => Ok(name),
    }
}

fn tables<'a>(section: &mut Section<'a>, key: &str) -> Result<Vec<Section<'a>>> {
    let tables = section.sections(key)?;
    match tables.len() > ENTRIES_MAX {
        true => Err(section.error(key, format!("there can be at most {ENTRIES_MAX}"))),
        false => Ok(tables),
    }
}

/// What a name stands for.
fn by_name(section: &Section<'_>, key: &str, name: &str, known: &[String]) -> Result<usize> {
    known.iter().position(|other| other == name).ok_or_else(|| {
        let reason = match known {
            [] => format!("unknown {key} {name:?}: there are none"),
            known => format!("unknown {key} {name:?}: known are {}", known.join(", ")),
        };
        section.error(key, reason)
    })
}

fn parse_trees(section: &mut Section<'_>, folder: &Path) -> Result<BTreeMap<String, TreeSpec>> {
    let mut trees = BTreeMap::new();
    for mut table in tables(section, "tree")? {
        let taken: Vec<String> = trees.keys().cloned().collect();
        let name = own_name(&mut table, &taken)?;
        trees.insert(name, parse_tree(&mut table, folder)?);
        table.finish()?;
    }
    Ok(trees)
}

fn parse_drives(section: &mut Section<'_>, folder: &Path) -> Result<Vec<DriveEntry>> {
    let mut drives: Vec<DriveEntry> = Vec::new();
    for mut table in tables(section, "drive")? {
        let taken: Vec<String> = drives.iter().map(|drive| drive.name.clone()).collect();
        drives.push(parse_drive(&mut table, &taken, folder)?);
        table.finish()?;
    }
    match drives.is_empty() {
        true => Err(section.error("drive", "is missing: a scenario needs at least one [[drive]]")),
        false => Ok(drives),
    }
}

fn parse_drive(table: &mut Section<'_>, taken: &[String], folder: &Path) -> Result<DriveEntry> {
    let line = table.line();
    let name = own_name(table, taken)?;
    let spec = parse_model(table, &name, folder)?;
    let elevator = match table.optional_text("elevator")? {
        None => None,
        Some(words) => {
            Some(words.parse().map_err(|error| table.error("elevator", format!("{error}")))?)
        }
    };
    Ok(DriveEntry {
        name,
        line,
        spec,
        elevator,
        requests: fields::count(table, "requests", 1..=65536)?.map(|requests| requests as u32),
        merge_bytes: fields::size(table, "merge", 4096..=64 << 20)?,
        plug_ns: fields::time(table, "plug")?,
        fitted: fields::words(table, "fitted")?,
    })
}

/// `model`: a preset's name, a file, or a table as in a drive file; `override` changes values of a
/// preset or file.
fn parse_model(table: &mut Section<'_>, name: &str, folder: &Path) -> Result<DriveSpec> {
    let is_table = table.find("model").is_some_and(|value| value.get_ref().is_table());
    if is_table {
        return drive_file::from_section(table.section("model")?, name);
    }
    let model = fields::text(table, "model")?;
    let is_file = model.contains('/') || model.ends_with(".toml");
    let spec = match is_file {
        true => drive_file::load(&folder.join(&model))
            .map_err(|error| table.error("model", error.to_string()))?,
        false => {
            let found = drive_file::by_name(&model);
            found.map_err(|error| table.error("model", format!("{model:?}: {}", error.reason)))?
        }
    };
    if !table.has("override") {
        return Ok(spec);
    }
    let preset = PRESETS.iter().find(|preset| preset.name == model);
    let text = match preset {
        Some(preset) => preset.text.to_owned(),
        None => fields::contents(&folder.join(&model), FILE_BYTES_MAX)
            .map_err(|reason| table.error("model", format!("{model}: {reason}")))?,
    };
    let Ok(base) = DeTable::parse(&text) else {
        return Ok(spec);
    };
    let changes = table.find("override").map(|value| value.get_ref());
    let Some(DeValue::Table(changes)) = changes else {
        return Err(table.error("override", "has to be a table, as in a drive file"));
    };
    if let Some(facts) = &spec.facts
        && let Some(key) = decided_by_facts(changes)
    {
        let reason = format!("{key} is decided by {facts}: change it there, or a copy without it");
        return Err(table.error("override", reason));
    }
    let mut merged = base.into_inner();
    merge(&mut merged, changes);
    // What is wrong comes from the changes: what they change is sound.
    let source = Source { file: "", text: "" };
    let changed = drive_file::changed(Section::root(&source, &merged), &spec);
    changed.map_err(|error| table.error("override", format!("{}: {}", error.key, error.reason)))
}

/// The first key of an override that facts of a controller decide, whatever a drive file says.
fn decided_by_facts(changes: &DeTable<'_>) -> Option<String> {
    let whole = ["overhead_ms", "controller", "bus"];
    if let Some(table) = whole.into_iter().find(|key| changes.contains_key(*key)) {
        return Some(table.to_owned());
    }
    let Some(DeValue::Table(cache)) = changes.get("cache").map(|value| value.get_ref()) else {
        return None;
    };
    let mut keys = cache.keys().map(|key| key.get_ref());
    keys.find(|key| !key.starts_with("look_ahead")).map(|key| format!("cache.{key}"))
}

fn parse_filesystems(
    section: &mut Section<'_>,
    drives: &[DriveEntry],
    machine: &Machine<'_>,
) -> Result<Vec<FilesystemEntry>> {
    let mut filesystems: Vec<FilesystemEntry> = Vec::new();
    for mut table in tables(section, "filesystem")? {
        let taken: Vec<String> = filesystems.iter().map(|entry| entry.name.clone()).collect();
        filesystems.push(parse_filesystem(&mut table, &taken, drives, machine)?);
        table.finish()?;
    }
    Ok(filesystems)
}

fn parse_filesystem(
    table: &mut Section<'_>,
    taken: &[String],
    drives: &[DriveEntry],
    machine: &Machine<'_>,
) -> Result<FilesystemEntry> {
    let line = table.line();
    let name = own_name(table, taken)?;
    let known: Vec<String> = drives.iter().map(|drive| drive.name.clone()).collect();
    let drive = match table.optional_text("drive")? {
        Some(drive) => by_name(table, "drive", drive, &known)?,
        None if known.len() == 1 => 0,
        None => return Err(table.error("drive", "is missing")),
    };
    let offset = fields::size(table, "offset", 0..=crate::quantity::SIZE_MAX)?.unwrap_or(0);
    if !offset.is_multiple_of(4096) {
        return Err(table.error("offset", "has to be a multiple of 4096"));
    }
    let setup = parse_setup(table)?;
    let memory_bytes =
        fields::size(table, "memory", MEMORY_MIN..=MEMORY_MAX)?.unwrap_or(machine.memory);
    let origin = match table.optional_text("image")? {
        Some(image) => Origin::Image(machine.folder.join(image)),
        None => Origin::Format(Box::new(parse_format(
            table,
            &name,
            setup.preset(),
            drives[drive].spec.build(0).info().bytes.saturating_sub(offset),
            machine.seed,
        )?)),
    };
    let data = table.choice(
        "data",
        &[("phantom", Data::Phantom), ("bytes", Data::Bytes)],
        Data::Phantom,
    )?;
    let aged = parse_aged(table, machine.folder)?;
    Ok(FilesystemEntry { name, line, drive, offset, origin, setup, memory_bytes, data, aged })
}

/// `aged`: the life of a profile, or a recorded session.
fn parse_aged(table: &mut Section<'_>, folder: &Path) -> Result<Option<Aged>> {
    let Some(mut aged) = table.optional_section("aged")? else {
        return Ok(None);
    };
    let past = match aged.optional_text("session")? {
        None => Aged::Life(parse_life(&mut aged, folder)?),
        Some(name) => {
            let path = folder.join(name);
            let failed =
                |reason: String| aged.error("session", format!("{}: {reason}", path.display()));
            let text = fields::contents(&path, SESSION_BYTES_MAX).map_err(failed)?;
            let records = session::read(&text).map_err(|error| failed(error.to_string()))?;
            Aged::Session(Arc::new(records))
        }
    };
    aged.finish()?;
    Ok(Some(past))
}

/// `preset`, with the columns of `policies` in place of its own.
fn parse_setup(table: &mut Section<'_>) -> Result<Setup> {
    let words = table.optional_text("preset")?.unwrap_or(DEFAULT_PRESET);
    let setup: Setup = words.parse().map_err(|error| table.error("preset", format!("{error}")))?;
    let chosen = fields::pairs(table, "policies")?;
    let columns: Vec<(&str, &str)> =
        chosen.iter().map(|(column, choice)| (column.as_str(), choice.as_str())).collect();
    setup.changed(&columns).map_err(|error| table.error("policies", error.to_string()))
}

fn parse_processes(
    section: &mut Section<'_>,
    drives: &[DriveEntry],
    filesystems: &[FilesystemEntry],
    trees: &BTreeMap<String, TreeSpec>,
    folder: &Path,
) -> Result<Vec<ProcessEntry>> {
    let mut tables = tables(section, "process")?;
    if tables.is_empty() {
        return Err(
            section.error("process", "is missing: a scenario needs at least one [[process]]")
        );
    }
    // Names first: processes speak of one another.
    let mut names = Vec::new();
    let mut bodies = Vec::new();
    for (number, table) in tables.iter_mut().enumerate() {
        let name = own_name(table, &names)?;
        let places = parse_places(table, drives, filesystems)?;
        for (turn, place) in places.iter().enumerate() {
            let name = match (places.len(), place) {
                (2.., Workplace::Filesystem(on)) => format!("{name} on {}", filesystems[*on].name),
                _ => name.clone(),
            };
            if names.contains(&name) {
                let reason = format!("{name:?} is already the name of another");
                return Err(table.error("name", reason));
            }
            names.push(name);
            bodies.push((number, turn, *place));
        }
    }
    let mut processes = Vec::new();
    for (own, (number, turn, place)) in bodies.into_iter().enumerate() {
        let table = &mut tables[number];
        let surroundings =
            StepScope { processes: &names, trees, folder, workplace: place, depth: 0 };
        let start = parse_start(table, own, &names)?;
        processes.push(ProcessEntry {
            name: names[own].clone(),
            line: table.line(),
            place,
            // One file system after the other.
            start: if turn == 0 { start } else { Start::After(own - 1) },
            samples: match table.flag("samples")? {
                true => Samples::Kept,
                false => Samples::Summed,
            },
            copies: table.whole_within("copies", 1..=4096, Some(1))? as u32,
            steps: parse_steps(table, &surroundings)?,
        });
    }
    tables.into_iter().try_for_each(Section::finish)?;
    let runs = processes.iter().map(|one| runs(&one.steps).saturating_mul(one.copies.into()));
    if runs.fold(0, u64::saturating_add) > STEP_RUNS_MAX {
        let reason = format!("the steps would run more than {STEP_RUNS_MAX} times in all");
        return Err(section.error("process", reason));
    }
    match circle(&processes) {
        None => Ok(processes),
        Some(process) => {
            let reason =
                format!("process {} waits for one that waits for it, or for itself", process.name);
            Err(FileError { line: process.line, ..section.error("process", reason) })
        }
    }
}

/// A process that waits for the end of another which, by itself or through others, waits for its
/// end.
fn circle(processes: &[ProcessEntry]) -> Option<&ProcessEntry> {
    let waits: Vec<Vec<usize>> = processes.iter().map(awaited).collect();
    // Those that wait for none of the rest end first; what is left then never does.
    let mut is_left = vec![true; processes.len()];
    for _ in 0..processes.len() {
        for process in 0..processes.len() {
            is_left[process] &= waits[process].iter().any(|other| is_left[*other]);
        }
    }
    is_left.iter().position(|left| *left).map(|process| &processes[process])
}

/// For whose ends a process waits.
fn awaited(process: &ProcessEntry) -> Vec<usize> {
    let mut awaited = Vec::new();
    if let Start::After(other) = process.start {
        awaited.push(other);
    }
    each_step(&process.steps, &mut |step| match &step.action {
        Action::Join(other) => awaited.push(*other),
        Action::Until { end: End::Process(other), .. } => awaited.push(*other),
        Action::Stream(stream) => {
            if let Some(End::Process(other)) = stream.end {
                awaited.push(other);
            }
        }
        _ => {}
    });
    awaited
}

/// `filesystem`, one or several, or `drive`.
fn parse_places(
    table: &mut Section<'_>,
    drives: &[DriveEntry],
    filesystems: &[FilesystemEntry],
) -> Result<Vec<Workplace>> {
    let known: Vec<String> = filesystems.iter().map(|entry| entry.name.clone()).collect();
    let known_drives: Vec<String> = drives.iter().map(|entry| entry.name.clone()).collect();
    let is_list = table.find("filesystem").is_some_and(|value| value.get_ref().is_array());
    let names = match is_list {
        true => fields::words(table, "filesystem")?,
        false => table.optional_text("filesystem")?.map(str::to_owned).into_iter().collect(),
    };
    let drive = table.optional_text("drive")?;
    match (&names[..], drive) {
        ([], _) if is_list => Err(table.error("filesystem", "names no file system")),
        ([], Some(name)) => {
            Ok(vec![Workplace::Drive(by_name(table, "drive", name, &known_drives)?)])
        }
        ([], None) if filesystems.len() == 1 => Ok(vec![Workplace::Filesystem(0)]),
        ([], None) => Err(table.error("filesystem", missing_place(&known, &known_drives))),
        (names, None) => {
            let place = |name: &String| by_name(table, "filesystem", name, &known);
            names.iter().map(|name| place(name).map(Workplace::Filesystem)).collect()
        }
        (_, Some(_)) => Err(table.error("drive", "cannot be with filesystem")),
    }
}

/// That a process says nowhere what it works on, and what there is.
fn missing_place(filesystems: &[String], drives: &[String]) -> String {
    let drives = drives.join(", ");
    match filesystems {
        [] => {
            format!("is missing, and so is drive: a process needs one of them; drives are {drives}")
        }
        known => {
            format!("is missing: known are {}; or drive: known are {drives}", known.join(", "))
        }
    }
}

fn parse_start(table: &mut Section<'_>, number: usize, names: &[String]) -> Result<Start> {
    let time = fields::time(table, "start")?;
    match (time, table.optional_text("after")?) {
        (time, None) => Ok(Start::At(time.unwrap_or(0))),
        (None, Some(name)) => match by_name(table, "after", name, names)? {
            // Those before it in the file, so that no two wait for each other.
            process if process < number => Ok(Start::After(process)),
            _ => Err(table
                .error("after", format!("{name:?} has to stand before this process in the file"))),
        },
        (Some(_), Some(_)) => Err(table.error("after", "cannot be with start")),
    }
}
