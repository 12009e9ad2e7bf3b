//! `extant repair`: what a check finds is mended.
use super::check;
use extant_block::BlockDevice;
use extant_edit::undo::{Applied, Keep};
use extant_host::closed::{self, Volume};
use extant_host::console::{Chatter, Console};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::{self, Record, counted};
use extant_repair::{Change, Recovery, Repaired, Scope};
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mend a volume: what extant check finds, in memory first, checked again until nothing is left,
/// and then written as one change.
///
/// So what a second run would say is known before the first byte is written, and a power cut leaves
/// the volume as it was or mended: blocks go through a log beside the image (.NAME.extant-redo),
/// which the next command that opens it ends. What was there before stays in .NAME.extant-undo, and
/// extant undo puts it back, to the byte; the next repair replaces that file. A block device needs
/// --log FILE for both (FILE, and FILE.undo).
///
/// A journal on another device (--journal) is replayed to both devices first: extant undo does not
/// take that back.
///
/// Each problem that was mended is one line, with what was lost by it. Without other words, all is
/// mended that loses no byte of a file, no name and no attribute; what would lose some is left and
/// named. With --preen nothing is written unless that mends all.
///
/// The image must not be mounted, nor open for writing in another program (--wait waits for it).
///
/// Exit codes are those of fsck: 0 nothing was wrong, or the journal had only to be replayed; 1 all
/// was mended; 4 something is left; 8 it could not be mended, and nothing was written; 16 wrong
/// usage. With --dry-run they are those that it would have.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant repair disk.img
  extant repair --dry-run --all disk.img  say what would be mended and lost, write nothing
  extant repair --all disk.img            all of it; extant undo disk.img takes it back
  extant repair --preen disk.img          what e2fsck -p would mend; nothing if more is wrong
  extant repair --log /var/tmp/log /dev/sdb1
  extant repair -z FILE disk.img          e2undo FILE disk.img takes it back, too
  extant repair --json disk.img | jq -r '.changes[] | .problem.code'")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    #[command(flatten)]
    pub scope: ScopeArguments,
    /// Only say what would be mended
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Keep no undo file
    #[arg(long)]
    pub no_undo: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Keep what was there before in this file too, for e2undo of e2fsprogs
    #[arg(short = 'z', long = "e2undo", value_name = "FILE", conflicts_with = "dry_run")]
    pub e2undo: Option<PathBuf>,
    /// How many threads share a check; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
    #[command(flatten)]
    pub place: ImageArguments,
}

// How much is mended; flatten it into the command's own. No doc comment, which clap would take for
// the help.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[group(multiple = false)]
pub struct ScopeArguments {
    /// Mend what e2fsck mends with -p, and nothing if that is not all
    #[arg(long, short = 'p')]
    pub preen: bool,
    /// Mend all that loses no byte of a file, no name and no attribute (the default)
    #[arg(long)]
    pub safe: bool,
    /// Mend everything, and say what is lost by it
    #[arg(long, short = 'y')]
    pub all: bool,
}

impl ScopeArguments {
    fn scope(self) -> Scope {
        match (self.preen, self.all) {
            (true, _) => Scope::Preen,
            (_, true) => Scope::All,
            _ => Scope::Safe,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    image: String,
    dry_run: bool,
    scope: &'static str,
    exit_code: u8,
    rounds: u32,
    recovery: RecoveryRecord,
    changes: &'a [Change],
    omitted: u64,
    found: &'a std::collections::BTreeMap<&'static str, u64>,
    left: &'a extant_inspect::CheckReport,
    blocks_written: u64,
    undo: Option<String>,
}

/// What recovery did, for programs.
#[derive(Serialize)]
pub(super) struct RecoveryRecord {
    journal: Option<Record>,
    orphans: Option<OrphansRecord>,
}

#[derive(Serialize)]
struct OrphansRecord {
    freed: u64,
    truncated: u64,
}

impl RecoveryRecord {
    pub(super) fn of(done: &Recovery) -> RecoveryRecord {
        RecoveryRecord {
            journal: done.journal.as_ref().map(recovery::record),
            orphans: done.orphans.map(|orphans| OrphansRecord {
                freed: orphans.freed,
                truncated: orphans.truncated,
            }),
        }
    }
}

/// What became of the changes.
enum Written {
    /// They were written, if there were any.
    Applied(Applied),
    /// They were not to be.
    Dry,
    /// More is wrong than may be mended.
    Withheld,
}

/// Mends it and prints what was done; the exit code is fsck's.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { image, place, .. } = &arguments;
    let scope = arguments.scope.scope();
    if arguments.e2undo.is_some() && place.journal.is_some() {
        let what = "-z: what a journal on another device changes there has no place in it";
        return Err(Error::usage(what).hint("extant undo takes back what was changed after it"));
    }
    let opened = match arguments.dry_run {
        true => None,
        false => Some(Volume::open(image, place, arguments.log.as_deref())?),
    };
    let device = match &opened {
        Some(volume) => Arc::clone(&volume.device),
        None => {
            image::warn_if_mounted(image, console);
            image::device_shown(image, place, console)?
        }
    };
    let threads = arguments.threads.unwrap_or_else(closed::machine_threads);
    let options = closed::options(scope, threads, Some(check::listener(console)))?;
    let repaired = mended(image, device, place, options)?;
    let written = match opened {
        None => Written::Dry,
        Some(_) if scope == Scope::Preen && !repaired.is_clean() => Written::Withheld,
        Some(volume) => {
            let keep = if arguments.no_undo { Keep::Nothing } else { Keep::Undo };
            let what = (&*repaired.overlay, repaired.block_size);
            Written::Applied(volume.apply(what, (keep, arguments.e2undo.as_deref()), console)?)
        }
    };
    let exit_code = exit_code(&repaired);
    let printed = match console.is_json() {
        true => print_json(&arguments, (&repaired, &written), console),
        false => print_text((image, arguments.scope.scope()), (&repaired, &written), console),
    };
    match printed {
        // A reader of the first line alone has to learn the verdict nevertheless.
        Err(error) if error.exit == Exit::PipeClosed => {}
        printed => printed?,
    }
    Ok(Exit::Checked(exit_code))
}

fn mended(
    image: &Path,
    device: Arc<dyn BlockDevice>,
    place: &ImageArguments,
    options: extant_repair::RepairOptions,
) -> Result<Repaired, Error> {
    extant_repair::repair(Arc::clone(&device), options)
        .map_err(|error| closed::failure(image, &*device, place, error))
}

/// As fsck: 4 something is left, 1 all was mended or a damaged log was given up, 0 nothing was
/// wrong but what is advice: counts of free blocks after a replay, say.
pub(super) fn exit_code(repaired: &Repaired) -> u8 {
    match (repaired.is_clean(), repaired.is_corrected()) {
        (false, _) => 4,
        (true, false) => 0,
        (true, true) => 1,
    }
}

/// How many problems were mended.
pub(super) fn count(repaired: &Repaired) -> u64 {
    repaired.changes.len() as u64 + repaired.omitted
}

fn print_json(
    arguments: &Arguments,
    (repaired, written): (&Repaired, &Written),
    console: &Console,
) -> Result<(), Error> {
    let applied = match written {
        Written::Applied(applied) => Some(applied),
        Written::Dry | Written::Withheld => None,
    };
    let document = Document {
        image: arguments.image.display().to_string(),
        dry_run: arguments.dry_run,
        scope: match arguments.scope.scope() {
            Scope::Preen => "preen",
            Scope::Safe => "safe",
            Scope::All => "all",
        },
        exit_code: exit_code(repaired),
        rounds: repaired.rounds,
        recovery: RecoveryRecord::of(&repaired.recovery),
        changes: &repaired.changes,
        omitted: repaired.omitted,
        found: &repaired.found.counts,
        left: &repaired.left,
        blocks_written: applied.map_or(0, |applied| applied.blocks),
        undo: applied
            .and_then(|applied| applied.undo.as_ref())
            .map(|path| path.display().to_string()),
    };
    console.print_json("extant-repair/1", &document)
}

fn print_text(
    (image, scope): (&Path, Scope),
    (repaired, written): (&Repaired, &Written),
    console: &Console,
) -> Result<(), Error> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let printed = match console.chatter {
        Chatter::Quiet => Ok(()),
        Chatter::Normal => print_changes(repaired, written, &mut out),
    };
    let printed = printed.and_then(|()| check::print_problems(&repaired.left.problems, &mut out));
    let printed = printed.and_then(|()| match repaired.left.omitted {
        0 => Ok(()),
        more => writeln!(out, "... and {more} more"),
    });
    let summed = printed.and_then(|()| match console.chatter {
        Chatter::Quiet => Ok(()),
        Chatter::Normal => {
            writeln!(out, "{}: {}", image.display(), sum(repaired, written))
        }
    });
    summed.and_then(|()| out.flush()).map_err(|error| Error::stdout(&error))?;
    drop(out);
    match written {
        Written::Withheld if scope < Scope::Safe => {
            console.hint("nothing was written; --safe mends what loses nothing, --all everything");
        }
        Written::Withheld => console.hint("nothing was written; --all mends everything"),
        _ if !repaired.is_clean() && scope < Scope::All => console.hint(
            "--all mends the rest too, and with --dry-run only says what would be lost by it",
        ),
        _ => {}
    }
    Ok(())
}

/// Each problem that was mended, and what was lost by it.
fn print_changes(
    repaired: &Repaired,
    written: &Written,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let did = match written {
        Written::Applied(_) => "mended",
        Written::Dry | Written::Withheld => "would mend",
    };
    for change in &repaired.changes {
        let lost = change.loss.as_ref().map(|loss| format!("; lost: {loss}"));
        let sentence = check::sentence(&change.problem);
        writeln!(out, "{did}: {sentence}{}", lost.unwrap_or_default())?;
    }
    match repaired.omitted {
        0 => Ok(()),
        more => writeln!(out, "... {did} {more} more"),
    }
}

/// The last line: what recovery did, how much was mended, and how it is now.
fn sum(repaired: &Repaired, written: &Written) -> String {
    let did = |past: &'static str, future: &'static str| match written {
        Written::Applied(_) => past,
        Written::Dry | Written::Withheld => future,
    };
    let mut parts = recovered(&repaired.recovery);
    if let Some(first) = parts.first_mut() {
        *first = format!("{}{first}", did("", "in memory: "));
    }
    let mended = count(repaired);
    if mended > 0 {
        parts.push(format!(
            "{} {} in {}",
            did("mended", "would mend"),
            counted(mended, "problem"),
            counted(repaired.rounds.into(), "round")
        ));
        let losses = repaired.changes.iter().filter(|change| change.loss.is_some()).count();
        if losses > 0 {
            parts.push(format!("{losses} of them with a loss"));
        }
    }
    let left: u64 = repaired.left.counts.values().sum();
    parts.push(match (repaired.is_clean(), left) {
        (true, 0) => "clean".to_owned(),
        (true, advice) => {
            format!(
                "clean; {advice} {}",
                check::plural(advice, "piece of advice", "pieces of advice")
            )
        }
        (false, left) => format!("{} left", counted(left, "problem")),
    });
    if matches!(written, Written::Applied(Applied { undo: Some(_), .. })) {
        parts.push("extant undo takes it back".to_owned());
    }
    parts.join("; ")
}

/// What recovery did, a part of a line each.
pub(super) fn recovered(done: &Recovery) -> Vec<String> {
    let held = done.journal.as_ref().filter(|report| report.transactions > 0);
    let journal = held.map(|report| format!("replayed {}", recovery::held(report)));
    let end = done.journal.as_ref().and_then(recovery::end);
    let orphans = done.orphans.and_then(recovery::orphans_finished);
    [journal, end, orphans].into_iter().flatten().collect()
}
