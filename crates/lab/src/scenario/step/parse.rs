//! The table of steps, and how each is read from a scenario file.
mod files;
mod making;
mod streams;
mod volumes;
mod walking;

pub(in crate::scenario) use files::life as parse_life;
pub use making::parse_tree;

use super::{Action, CutMoment, End, MakeStyle, OnImage, Step, Survival, Task};
use crate::fields::{self, Result};
use crate::scenario::Workplace;
use crate::scenario::tree::TreeSpec;
use crate::setup::Setup;
use extant_sim::drive::file::Section;
use making::make;
use std::collections::BTreeMap;
use std::path::Path;
use streams::{Walkway, stream};
use walking::walk;

/// A kind of step.
pub struct StepKind {
    /// What `step` says.
    pub name: &'static str,
    /// The keys that it reads, besides those of every step ([`COMMON_KEYS`]), in lists that kinds
    /// share.
    pub keys: &'static [&'static [&'static str]],
    /// One line about it, with its keys.
    pub line: &'static str,
    parse: fn(&mut Section<'_>, &StepScope<'_>) -> Result<Action>,
    on: On,
}

/// The keys that every step may have.
pub const COMMON_KEYS: [&str; 4] = ["label", "measure", "skip_on_image", "step"];

/// What a step works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Filesystem,
    Anything,
}

/// What steps refer to.
#[derive(Clone, Copy)]
pub struct StepScope<'a> {
    /// Names of all processes.
    pub processes: &'a [String],
    /// Trees by name.
    pub trees: &'a BTreeMap<String, TreeSpec>,
    /// Where relative paths begin.
    pub folder: &'a Path,
    /// What the process works on.
    pub workplace: Workplace,
    /// How many steps are around this one.
    pub depth: usize,
}

/// A kind that needs a file system.
const fn on_filesystem(
    name: &'static str,
    keys: &'static [&'static [&'static str]],
    line: &'static str,
    parse: fn(&mut Section<'_>, &StepScope<'_>) -> Result<Action>,
) -> StepKind {
    StepKind { name, keys, line, parse, on: On::Filesystem }
}

/// A kind that a bare drive will do for too.
const fn on_anything(
    name: &'static str,
    keys: &'static [&'static [&'static str]],
    line: &'static str,
    parse: fn(&mut Section<'_>, &StepScope<'_>) -> Result<Action>,
) -> StepKind {
    StepKind { name, keys, line, parse, on: On::Anything }
}

/// The keys of every stream.
const STREAM: &[&str] =
    &["path", "chunk", "bytes", "count", "offset", "span", "streams", "rate", "synced", "depth"];
/// Which files a step works on.
const FILES: &[&str] =
    &["path", "at", "tree", "order", "number", "first", "last", "every", "from", "draw", "skew"];
/// A row for each directory at the top.
const ROWS: &[&str] = &["rows", "cold"];
/// What ends a step.
const END: &[&str] = &["for", "process"];

/// All kinds of steps, with all that is known of each: it feeds the parser, the errors, `extant lab
/// list` and a test of docs/LAB.md.
pub static KINDS: &[StepKind] = &[
    on_filesystem(
        "make-tree",
        &[&["at", "tree", "stages"]],
        "make directories and files: at, tree, stages",
        |s, x| make(s, x, MakeStyle::Plain),
    ),
    on_filesystem(
        "untar",
        &[&["at", "tree", "stages", "unpack_rate"]],
        "the same as tar does it, with owners and times: at, tree, stages, unpack_rate",
        |s, x| {
            let unpack_rate = fields::size(s, "unpack_rate", 1024..=1 << 40)?;
            make(s, x, MakeStyle::Archive { unpack_rate })
        },
    ),
    on_filesystem(
        "make-directories",
        &[&["at", "count", "names"]],
        "count directories side by side: at, count, names",
        making::make_directories,
    ),
    on_filesystem(
        "create-files",
        &[
            &["at", "count", "directories", "size", "size_max", "names", "directory_names"],
            &["order", "stages"],
        ],
        "count files of some size over directories: at, count, directories, size, size_max, names, \
         directory_names, order, stages",
        making::create_files,
    ),
    on_filesystem(
        "place-trees",
        &[&["trees"]],
        "trees onto an empty file system at once, without its drive: trees (at, tree, inodes)",
        making::place_trees,
    ),
    on_filesystem(
        "place-files",
        &[&["files"]],
        "files onto an empty file system at once, without its drive: files (count, bytes, names)",
        volumes::place_files,
    ),
    on_filesystem(
        "fill",
        &[&["at", "percent", "size"]],
        "files until the file system is so full: at, percent (100: to the last block), size",
        volumes::fill,
    ),
    on_filesystem(
        "check",
        &[&["plan", "threads", "processor_per_kib", "problems"]],
        "check the file system, closed meanwhile: plan (vanilla, ours), threads, \
         processor_per_kib, problems (fail, count)",
        volumes::check,
    ),
    on_filesystem(
        "power-cut",
        &[&["operations", "survivors"], END],
        "cut the drive's power, which ends what others do on it: operations, for or process (none: \
         at once), survivors (as-modelled, any-sector)",
        power_cut,
    ),
    on_filesystem("recover", &[], "open the file system after a power cut", |_, _| {
        Ok(Action::Recover)
    }),
    on_filesystem(
        "find",
        &[&["at", "order"], ROWS, END],
        "list all names of a tree: at, order, rows, cold, for or process",
        |s, x| walk(s, x, Task::Find),
    ),
    on_filesystem(
        "stat-all",
        &[&["at", "order"], ROWS, END],
        "stat everything in a tree: at, order, rows, cold, for or process",
        |s, x| walk(s, x, Task::Stat),
    ),
    on_filesystem(
        "read-all",
        &[&["at", "order", "chunk"], ROWS, END],
        "read every file of a tree: at, order, chunk, rows, cold, for or process",
        |s, x| walk(s, x, Task::Read),
    ),
    on_filesystem(
        "tar",
        &[&["at", "to", "order", "chunk"], ROWS],
        "tar a tree to null (which only stats) or to zero: at, to, order, chunk, rows, cold",
        walking::tar,
    ),
    on_filesystem(
        "diff",
        &[&["at", "with", "chunk"]],
        "compare two trees file by file: at, with, chunk",
        walking::diff,
    ),
    on_filesystem(
        "remove",
        &[FILES],
        "remove a tree: at; or single files: path, or at with tree or order, and number, first, \
         last, every, from or draw, skew",
        files::remove,
    ),
    on_filesystem(
        "append",
        &[FILES, &["bytes", "bytes_max", "synced"]],
        "write to the end of single files: which, as of remove; bytes, bytes_max, synced",
        files::append,
    ),
    on_filesystem(
        "truncate",
        &[FILES, &["bytes"]],
        "cut single files, or make them longer: which, as of remove; bytes",
        files::truncate,
    ),
    on_filesystem(
        "overwrite",
        &[FILES, &["bytes", "bytes_max", "offset", "synced"]],
        "write a part of single files again: which, as of remove; bytes, bytes_max, offset, synced",
        files::overwrite,
    ),
    on_filesystem(
        "rewrite",
        &[FILES, &["bytes", "bytes_max", "synced"]],
        "write single files anew beside the old ones, and rename: which, as of remove; bytes, \
         bytes_max, synced",
        files::rewrite,
    ),
    on_filesystem(
        "rename",
        &[FILES, &["to"]],
        "give single files another name: which, as of remove; to (%d: the file's number)",
        files::rename,
    ),
    on_filesystem(
        "link",
        &[FILES, &["to"]],
        "give single files a further name: which, as of remove; to (%d: the file's number)",
        files::link,
    ),
    on_filesystem(
        "read",
        &[FILES, &["chunk"]],
        "read single files: which, as of remove; chunk",
        files::read,
    ),
    on_filesystem("stat", &[FILES], "stat single files: which, as of remove", files::stat),
    on_filesystem(
        "create",
        &[&["path", "size", "size_max", "synced"]],
        "make a file: path, size, size_max, synced",
        files::create,
    ),
    on_filesystem(
        "mkdir",
        &[&["path"]],
        "make a directory, and those above it: path",
        files::make_directory,
    ),
    on_filesystem(
        "symlink",
        &[&["path", "target"]],
        "make a symbolic link: path, target",
        files::symlink,
    ),
    on_filesystem(
        "copy",
        &[&["at", "to", "chunk"]],
        "copy a file or a tree, as cp -r does: at, to, chunk",
        files::copy,
    ),
    on_filesystem(
        "age",
        &[&["profile", "days", "months", "at"]],
        "let the file system live for days or months at once, without its drive: profile, days or \
         months, at",
        files::age,
    ),
    on_anything(
        "sync",
        &[],
        "write everything that changed, and wait; on a bare drive: flush its cache",
        |_, _| Ok(Action::Sync),
    ),
    on_filesystem(
        "remount",
        &[&["preset"]],
        "close and open: everything is cold; preset: with other policies",
        remount,
    ),
    on_anything(
        "sequential",
        &[&["direction"], STREAM, END],
        "read or write in a row: direction, path, chunk, bytes or count, offset, span, streams, \
         rate, synced, depth, for or process",
        |s, x| stream(s, x, Walkway::Sequential),
    ),
    on_anything(
        "random",
        &[&["direction", "near"], STREAM, END],
        "read or write at random: as sequential, and near",
        |s, x| stream(s, x, Walkway::Random),
    ),
    on_anything(
        "stride",
        &[&["direction", "stride"], STREAM, END],
        "read or write every so many bytes: as sequential, and stride",
        |s, x| stream(s, x, Walkway::Stride),
    ),
    on_anything(
        "writer",
        &[STREAM, END],
        "write until something ends it: as sequential, without direction",
        |s, x| stream(s, x, Walkway::Writer),
    ),
    on_filesystem("ls", &[&["at", "long"]], "list a directory: at, long", walking::list),
    on_filesystem(
        "getdents",
        &[&["at", "buffer"]],
        "list a directory call by call: at, buffer",
        walking::getdents,
    ),
    on_filesystem(
        "open-program",
        &[&["at", "reads", "bytes"]],
        "a chain of dependent reads in a tree: at, reads, bytes",
        walking::program,
    ),
    on_anything("wait", &[END], "let time pass: for; or until a process ended: process", wait),
    on_filesystem("survey", &[], "write everything, and record where it lies", |_, _| {
        Ok(Action::Survey)
    }),
    on_anything(
        "repeat",
        &[&["count", "steps"]],
        "do steps several times: count, steps",
        |s, x| {
            Ok(Action::Repeat {
                count: required_count(s, "count", 1..=1_000_000_000)?,
                steps: parse_steps(s, x)?,
            })
        },
    ),
    on_anything(
        "until",
        &[&["steps"], END],
        "do steps until a process ended or for some time: process or for, steps",
        |s, x| Ok(Action::Until { end: required(end(s, x)?, s)?, steps: parse_steps(s, x)? }),
    ),
];

/// Counts of pieces, files and calls.
const COUNT_MAX: u64 = 1 << 40;
/// The largest read or write.
const CHUNK_MAX: u64 = 64 << 20;
/// What `cp` of the time reads at once.
const CHUNK_DEFAULT: u64 = 64 << 10;
/// Steps within steps.
const DEPTH_MAX: usize = 8;

/// The steps of a process, or of a step.
pub fn parse_steps(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Vec<Step>> {
    if surroundings.depth > DEPTH_MAX {
        return Err(
            section.error("steps", format!("steps lie at most {DEPTH_MAX} deep in one another"))
        );
    }
    let tables = section.sections("steps")?;
    let inner = StepScope { depth: surroundings.depth + 1, ..*surroundings };
    if tables.is_empty() {
        return Err(section.error("steps", "is missing, or has no step"));
    }
    tables.into_iter().map(|table| parse_step(table, &inner)).collect()
}

fn parse_step(mut section: Section<'_>, surroundings: &StepScope<'_>) -> Result<Step> {
    let name = fields::text(&mut section, "step")?;
    let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        section.error("step", format!("unknown step {name:?}: known are {}", known.join(", ")))
    })?;
    let is_bare = matches!(surroundings.workplace, Workplace::Drive(_));
    if kind.on == On::Filesystem && is_bare {
        return Err(section.error(
            "step",
            format!("{name} needs a file system, and this process works on a bare drive"),
        ));
    }
    let label = section.optional_text("label")?.unwrap_or(kind.name).to_owned();
    let measure = section.optional_text("measure")?.map(str::to_owned);
    let on_image = match section.flag("skip_on_image")? {
        true => OnImage::Skipped,
        false => OnImage::Done,
    };
    refuse_runs(&section, surroundings.depth)?;
    let line = section.line();
    let action = (kind.parse)(&mut section, surroundings)?;
    let keys: Vec<&str> =
        COMMON_KEYS.iter().chain(kind.keys.iter().copied().flatten()).copied().collect();
    section.finish_with(&keys)?;
    Ok(Step { line, kind: kind.name, label, measure, on_image, action })
}

/// A number of a run that there is not: `depth` is 1 for a step of a process.
fn refuse_runs(section: &Section<'_>, depth: usize) -> Result<()> {
    for (place, around) in [("{r}", 1), ("{r2}", 2)] {
        if depth <= around
            && let Some(key) = section.key_with(place)
        {
            let found = ["no repeat or until is", "only one repeat or until is"][depth - 1];
            return Err(section.error(key, format!("has {place}, and {found} around the step")));
        }
    }
    Ok(())
}

fn required_count(
    section: &mut Section<'_>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<u64> {
    section.whole_within(key, bounds, None)
}

fn chunk(section: &mut Section<'_>, default: u64) -> Result<u64> {
    Ok(fields::size(section, "chunk", 1..=CHUNK_MAX)?.unwrap_or(default))
}

fn remount(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let setup = match section.optional_text("preset")? {
        None => None,
        Some(words) => Some(
            words.parse::<Setup>().map_err(|error| section.error("preset", error.to_string()))?,
        ),
    };
    Ok(Action::Remount { setup })
}

fn wait(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    Ok(match required(any_end(section, surroundings)?, section)? {
        End::After(nanoseconds) => Action::Wait(nanoseconds),
        End::Process(process) => Action::Join(process),
    })
}

fn power_cut(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    let commands = fields::count(section, "operations", 1..=COUNT_MAX)?;
    let moment = match (commands, end(section, surroundings)?) {
        (Some(_), Some(_)) => {
            return Err(section.error("operations", "cannot be with for or process"));
        }
        (Some(commands), None) => CutMoment::Commands(commands),
        (None, Some(End::After(nanoseconds))) => CutMoment::After(nanoseconds),
        (None, Some(End::Process(process))) => CutMoment::Ended(process),
        (None, None) => CutMoment::AtOnce,
    };
    let survivors = [("as-modelled", Survival::AsModelled), ("any-sector", Survival::AnySector)];
    let survival = section.choice("survivors", &survivors, Survival::AsModelled)?;
    Ok(Action::PowerCut { moment, survival })
}

fn end(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Option<End>> {
    match any_end(section, surroundings)? {
        Some(End::After(0)) => Err(section.error("for", "has to be longer than 0")),
        end => Ok(end),
    }
}

/// The same, of a step for which no time at all makes sense.
fn any_end(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Option<End>> {
    let process = section.optional_text("process")?;
    let time = fields::time(section, "for")?;
    match (process, time) {
        (Some(name), None) => {
            let found = surroundings.processes.iter().position(|known| known == name);
            let known = || surroundings.processes.join(", ");
            let found = found.ok_or_else(|| {
                section.error("process", format!("unknown process {name:?}: known are {}", known()))
            });
            found.map(|process| Some(End::Process(process)))
        }
        (None, time) => Ok(time.map(End::After)),
        (Some(_), Some(_)) => Err(section.error("for", "cannot be with process")),
    }
}

fn required(end: Option<End>, section: &Section<'_>) -> Result<End> {
    end.ok_or_else(|| section.error("for", "is missing, and so is process"))
}
