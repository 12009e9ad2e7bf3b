//! `extant check`: whether a volume is what its own metadata says it is.
use extant_host::closed;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::progress::{ProgressLine, Unit};
use extant_host::recovery;
use extant_image::Progress;
use extant_inspect::{
    CODES, CheckOptions, CheckReport, Code, Listener, Pass, Problem, ReadOrder, Rule, Severity,
};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Check a volume: superblocks, groups, inodes, maps, directories and their indexes, links,
/// attributes, bitmaps, checksums.
///
/// Nothing is written, and nothing has to be mounted: it is `e2fsck -fn`, in parallel and in the
/// order of the disk. Each problem is one line, with the file that it is about; what follows from
/// it stands under it, indented. What is only advice does not change the exit code.
/// An image that is mounted and written meanwhile looks damaged. A volume whose journal holds
/// changes, or where inodes that were deleted while they were open wait to be freed, is judged as
/// it is after replay and without them, in memory; a log that damage cuts is a problem.
///
/// Exit codes are those of fsck: 0 clean; 4 problems were found, and left; 8 it could not be
/// checked (not a file system, or it cannot be read); 12 problems were found that hide others; 16
/// wrong usage.
#[derive(clap::Args)]
#[command(override_usage = "extant check [OPTIONS] <IMAGE>\n       extant check --list\n       \
    extant check --explain <CODE>")]
#[command(after_help = "Examples:
  extant check disk.img
  extant check --offset 1M whole-disk.img && echo clean
  extant check --json disk.img | jq -r '.problems[] | .code'
  extant check --list                   all problems that it knows
  extant check --explain link-count     what one of them means, and what would mend it
  extant check disk.img; case $? in 0) echo clean;; 4|12) echo damaged;; *) echo not checked;; \
  esac")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE", required_unless_present_any = ["list", "explain"])]
    pub image: Option<PathBuf>,
    /// List the problems that are known, with their codes, and check nothing
    #[arg(long, conflicts_with = "image")]
    pub list: bool,
    /// Say what a problem means and what would mend it, by its code, and check nothing
    #[arg(long, value_name = "CODE", conflicts_with_all = ["image", "list"], value_parser = rule)]
    pub explain: Option<&'static Rule>,
    /// How many threads share the work; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
    /// In which order the disk is read: disk-order, or vanilla as checkers did in 2007
    #[arg(long, value_name = "PLAN", default_value = "disk-order", value_parser = plan)]
    pub plan: ReadOrder,
    /// Accepted, and nothing else than what is done anyway: `-f -n` as of e2fsck
    #[arg(short = 'f', hide = true)]
    pub force: bool,
    /// As for -f
    #[arg(short = 'n', hide = true)]
    pub no_change: bool,
    #[command(flatten)]
    pub place: ImageArguments,
}

fn rule(word: &str) -> Result<&'static Rule, String> {
    let known = CODES.iter().find(|rule| rule.name == word);
    known.ok_or_else(|| "no such problem; extant check --list has all".to_owned())
}

fn plan(word: &str) -> Result<ReadOrder, String> {
    match word {
        "disk-order" => Ok(ReadOrder::DiskOrder),
        "vanilla" => Ok(ReadOrder::Vanilla),
        _ => Err("there are disk-order and vanilla".to_owned()),
    }
}

/// Checks it and prints what was found; the exit code is fsck's. With `--json`: the report, see
/// `docs/CHECK.md`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if let Some(rule) = arguments.explain {
        return explain(rule, console);
    }
    let Some(image) = &arguments.image else {
        return list(console);
    };
    let device = image::device_shown(image, &arguments.place, console)?;
    image::warn_if_mounted(image, console);
    let judged = recovery::judged(image, device, console);
    let (judged, orphans) = judged.without_orphans(image, console);
    let device = judged.device;
    let options = CheckOptions {
        read_order: arguments.plan,
        threads: arguments.threads.unwrap_or_else(closed::machine_threads),
        progress: Some(listener(console)),
    };
    let report = extant_inspect::check(Arc::clone(&device), &options);
    let mut report = report.map_err(|error| Error::new(format!("{}: {error}", image.display())))?;
    if let Some(sequence) = judged.cut_at {
        report.add(Problem::new(Code::JournalCut).found(sequence));
    }
    let waiting = orphans.map_or(0, |orphans| orphans.freed + orphans.truncated);
    if waiting > 0 {
        report.add(Problem::new(Code::OrphansWait).found(waiting));
    }
    let is_no_volume = |problem: &Problem| problem.rule().code == Code::SuperblockUnusable;
    if report.exit_code() == 8 && report.problems.iter().all(is_no_volume) {
        // Partitions, an archive, an empty disk: better words than "no superblock" exist.
        let failure = image::not_ext(image, &*device, arguments.place.offset_bytes());
        if !console.is_json() {
            return Err(failure);
        }
        console.fail(&failure);
    }
    let printed = match console.is_json() {
        true => console.print_json("extant-check/1", &report),
        false => print_text(image, &report, console),
    };
    match printed {
        // A reader of the first line alone has to learn the verdict nevertheless.
        Err(error) if error.exit == Exit::PipeClosed => {}
        printed => printed?,
    }
    Ok(Exit::Checked(report.exit_code()))
}

/// The line that moves, one after the other for each pass.
pub(super) fn listener(console: &Console) -> Listener {
    let console = console.clone();
    let shown: Mutex<Option<(Pass, ProgressLine)>> = Mutex::new(None);
    Arc::new(move |state| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|(pass, _)| *pass != state.pass) {
            *shown = None;
            *shown = Some((
                state.pass,
                console.progress(label(state.pass), Unit::Bytes, state.expected_bytes),
            ));
        }
        if let Some((_, progress)) = shown.as_ref() {
            progress.set_total(state.expected_bytes);
            progress.advance(state.done_bytes.saturating_sub(progress.done()));
        }
    })
}

fn label(pass: Pass) -> &'static str {
    match pass {
        Pass::Volume => "check: volume",
        Pass::Inodes => "check: inodes",
        Pass::Duplicates => "check: duplicates",
        Pass::Directories => "check: directories",
        Pass::Connectivity => "check: connectivity",
        Pass::Links => "check: links",
        Pass::Bitmaps => "check: bitmaps",
    }
}

fn print_text(image: &Path, report: &CheckReport, console: &Console) -> Result<(), Error> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = print_problems(&report.problems, &mut out);
    let written = written.and_then(|()| match report.omitted {
        0 => Ok(()),
        more => writeln!(out, "... and {more} more"),
    });
    let summed = written.and_then(|()| match console.chatter {
        extant_host::console::Chatter::Quiet => Ok(()),
        extant_host::console::Chatter::Normal => {
            writeln!(out, "{}: {}", image.display(), sum(report))
        }
    });
    summed.and_then(|()| out.flush()).map_err(|error| Error::stdout(&error))
}

/// Each problem, and under it those that follow from it.
pub(super) fn print_problems(problems: &[Problem], out: &mut impl Write) -> std::io::Result<()> {
    let mut following: BTreeMap<usize, Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        if let Some(cause) = problem.cause {
            following.entry(cause).or_default().push(problem);
        }
    }
    for (at, problem) in problems.iter().enumerate().filter(|(_, it)| it.cause.is_none()) {
        print_problem(problem, "", out)?;
        for problem in following.get(&at).into_iter().flatten() {
            print_problem(problem, "  ", out)?;
        }
    }
    Ok(())
}

fn print_problem(problem: &Problem, margin: &str, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{margin}{}: {}", problem.rule().severity, sentence(problem))
}

/// What is wrong, with the file that it is about and its code.
pub(super) fn sentence(problem: &Problem) -> String {
    let path = problem.path.as_ref().map(|path| format!(" ({})", path.escape_ascii()));
    format!("{problem}{} [{}]", path.unwrap_or_default(), problem.rule().name)
}

/// The last line: how it is, and what is there.
fn sum(report: &CheckReport) -> String {
    let found: u64 = report.counts.values().sum();
    let state = match (report.is_clean(), found) {
        (true, 0) => "clean".to_owned(),
        (true, _) => {
            format!("clean; {found} {}", plural(found, "piece of advice", "pieces of advice"))
        }
        (false, _) => format!("{found} {}", plural(found, "problem", "problems")),
    };
    let held = &report.summary;
    format!(
        "{state}; {} of {} inodes ({} {}) and {} of {} blocks in use",
        held.inodes_used,
        held.inodes,
        held.directories,
        plural(held.directories, "directory", "directories"),
        held.blocks_used,
        held.blocks
    )
}

pub(super) fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// What is known of one code.
fn explain(rule: &Rule, console: &Console) -> Result<Exit, Error> {
    if console.is_json() {
        console.print_json("extant-check-code/1", &row(rule))?;
        return Ok(Exit::Complete);
    }
    let matters = match rule.severity {
        Severity::Advice => "harms no user of the volume; the exit code is 0 with it alone",
        Severity::Error => "the volume is damaged; exit code 4",
        Severity::Stopping => "damage, and what depends on it cannot be judged; exit code 12",
        Severity::Fatal => "nothing can be checked; exit code 8",
    };
    console.print(&format!(
        "{}: {}\n\nseverity: {}: {matters}\nfound in: {}\na repair would: {}\n",
        rule.name,
        rule.sentence,
        rule.severity,
        label(rule.pass).replace("check: ", "the pass over "),
        rule.repair,
    ))?;
    Ok(Exit::Complete)
}

/// A code as data.
fn row(rule: &Rule) -> serde_json::Value {
    serde_json::json!({
        "code": rule.name,
        "pass": rule.pass,
        "severity": rule.severity,
        "repair": rule.repair,
        "sentence": rule.sentence,
    })
}

/// All codes, one a line: severity, pass, name, sentence with its blanks.
fn list(console: &Console) -> Result<Exit, Error> {
    if console.is_json() {
        let codes = serde_json::json!({ "codes": CODES.iter().map(row).collect::<Vec<_>>() });
        console.print_json("extant-check-codes/1", &codes)?;
        return Ok(Exit::Complete);
    }
    let width = CODES.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let rows = CODES.iter().map(|rule| {
        format!("{:width$}  {:8}  {}\n", rule.name, rule.severity.to_string(), rule.sentence)
    });
    console.print(&rows.collect::<String>())?;
    Ok(Exit::Complete)
}
