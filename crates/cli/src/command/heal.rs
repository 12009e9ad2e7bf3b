//! `extant heal`: what volumes need before they are used again.
use super::repair;
use extant_edit::redo;
use extant_edit::undo::{Applied, Keep};
use extant_host::closed::{self, Volume};
use extant_host::console::Console;
use extant_host::disk;
use extant_host::error::{Convention, Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::counted;
use extant_repair::{CheckWhen, Healed, Reason, Repaired, Scope};
use serde::Serialize;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Make volumes ready for use: nothing for one that was unmounted, recovery for one that was not,
/// and a check and repair only where there is a reason to doubt it.
///
/// Meant for the moment before an image is used: before a machine boots from it, say. One that is
/// clean costs a read of its superblock, and nothing is written. Of another one the journal is
/// replayed and orphans are freed, as one change that a power cut cannot tear. It is checked, and
/// mended as by extant repair --safe, if it is marked as having errors, if the log of its journal
/// is damaged, if it was not unmounted and no journal says what was changed, and with --check.
///
/// Several images are healed at once, on all cores. Each is one line, or one entry of the document.
///
/// Exit codes are those of fsck, the worst of all images: 0 it was clean, or had only to be
/// recovered; 1 it was mended, or a damaged log given up; 4 problems are left; 8 it could not be
/// healed; 16 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant heal disk.img && qemu-system-x86_64 -drive file=disk.img,format=raw
  extant heal /var/lib/machines/*.img
  extant heal --check --undo disk.img     checked in any case, and can be taken back
  extant heal --json disk.img | jq -r '.images[] | .state'")]
pub struct Arguments {
    /// The images: files or block devices
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<PathBuf>,
    /// Check them in any case
    #[arg(long)]
    pub check: bool,
    /// Keep an undo file of each, for extant undo (one is kept in any case where a damaged log is
    /// given up)
    #[arg(long)]
    pub undo: bool,
    /// Where the log may be, for one device: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// How many threads share the work; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
    #[command(flatten)]
    pub place: ImageArguments,
}

/// What became of one image, for programs.
#[derive(Serialize)]
struct Record {
    image: String,
    /// "clean", "recovered", "repaired" or "failed".
    state: &'static str,
    exit_code: u8,
    /// Why it was checked.
    reason: Option<String>,
    recovery: Option<repair::RecoveryRecord>,
    /// How many problems were mended.
    mended: u64,
    /// What is left.
    left: Option<extant_inspect::CheckReport>,
    blocks_written: u64,
    undo: Option<String>,
    error: Option<String>,
    hint: Option<String>,
    /// The line for people.
    #[serde(skip)]
    line: String,
}

#[derive(Serialize)]
struct Document {
    exit_code: u8,
    images: Vec<Record>,
}

/// Heals them and says what was done; the exit code is the worst of fsck's.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let several = arguments.images.len() > 1;
    if several && arguments.log.is_some() {
        return Err(Error::usage("--log: is that of one image, and several are named"));
    }
    let threads = arguments.threads.unwrap_or_else(closed::machine_threads);
    let records = all(&arguments, threads, console);
    let exit_code = records.iter().map(|record| record.exit_code).max().unwrap_or(0);
    match console.is_json() {
        true => console.print_json("extant-heal/1", &Document { exit_code, images: records })?,
        false => {
            for record in records {
                match record.error {
                    None => console.report(&format!("{}: {}\n", record.image, record.line))?,
                    Some(message) => {
                        let hint = record.hint;
                        console.fail(&Error { message, hint, exit: Exit::Failure });
                    }
                }
            }
        }
    }
    Ok(Exit::Checked(exit_code))
}

/// Heals all images, as many at once as there are threads, and gives them in order.
fn all(arguments: &Arguments, threads: NonZeroU32, console: &Console) -> Vec<Record> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = (threads.get() as usize).min(arguments.images.len());
    let each = NonZeroU32::new(threads.get() / workers.max(1) as u32).unwrap_or(NonZeroU32::MIN);
    let work = || {
        while let Some(image) = arguments.images.get(next.fetch_add(1, Ordering::Relaxed)) {
            let record =
                one(image, (arguments, each), console).unwrap_or_else(|error| failed(image, error));
            done.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        }
    };
    std::thread::scope(|scope| {
        (1..workers).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut records = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |record: &Record| {
        arguments.images.iter().position(|image| image.display().to_string() == record.image)
    };
    records.sort_by_key(place);
    records
}

fn failed(image: &Path, error: Error) -> Record {
    Record {
        exit_code: Convention::Fsck.code(error.exit),
        error: Some(error.message),
        hint: error.hint,
        ..record(image, "failed")
    }
}

/// One of which nothing was looked at but what it says of itself.
fn unchecked(image: &Path) -> Record {
    Record { line: "clean; not checked".to_owned(), ..record(image, "clean") }
}

fn record(image: &Path, state: &'static str) -> Record {
    Record {
        image: image.display().to_string(),
        state,
        exit_code: 0,
        reason: None,
        recovery: None,
        mended: 0,
        left: None,
        blocks_written: 0,
        undo: None,
        error: None,
        hint: None,
        line: state.to_owned(),
    }
}

/// Heals one image.
fn one(
    image: &Path,
    (arguments, threads): (&Arguments, NonZeroU32),
    console: &Console,
) -> Result<Record, Error> {
    let place = arguments.place.among(image);
    let when = if arguments.check { CheckWhen::Always } else { CheckWhen::Doubted };
    if when == CheckWhen::Doubted && is_clean(image, &place, arguments.log.as_deref())? {
        return Ok(unchecked(image));
    }
    let opened = Volume::open(image, &place, arguments.log.as_deref())?;
    let options = closed::options(Scope::Safe, threads, None)?;
    let device = opened.device.clone();
    let healed = extant_repair::heal(device.clone(), when, options)
        .map_err(|error| closed::failure(image, &*device, &place, error))?;
    let keep = if arguments.undo { Keep::Undo } else { Keep::Nothing };
    match healed {
        // What was begun before was ended when it was opened.
        Healed::Clean => Ok(unchecked(image)),
        Healed::Recovered { overlay, block_size, recovery } => {
            let applied = opened.apply((&overlay, block_size), (keep, None), console)?;
            let mut parts = repair::recovered(&recovery);
            parts.push("clean".to_owned());
            Ok(Record {
                recovery: Some(repair::RecoveryRecord::of(&recovery)),
                line: parts.join("; "),
                ..written(record(image, "recovered"), &applied)
            })
        }
        Healed::Repaired { reason, repaired } => {
            // What a damaged log held may be wanted back.
            let keep = if repaired.has_lost_log() { Keep::Undo } else { keep };
            let applied =
                opened.apply((&repaired.overlay, repaired.block_size), (keep, None), console)?;
            Ok(mended(image, reason, *repaired, &applied))
        }
    }
}

/// Whether there is nothing to do, found out without a lock: nothing is written then.
fn is_clean(image: &Path, place: &ImageArguments, log: Option<&Path>) -> Result<bool, Error> {
    let found = disk::changeable(image, place.offset_bytes())?;
    let resolved = found.file.canonicalize().ok();
    let beside = resolved.as_deref().and_then(redo::path_of);
    if beside.as_deref().into_iter().chain(log).any(Path::exists) {
        return Ok(false);
    }
    Ok(extant_repair::is_clean(&*image::device(image, place)?))
}

fn written(record: Record, applied: &Applied) -> Record {
    Record {
        blocks_written: applied.blocks,
        undo: applied.undo.as_ref().map(|path| path.display().to_string()),
        ..record
    }
}

fn mended(image: &Path, reason: Reason, repaired: Repaired, applied: &Applied) -> Record {
    let count = repair::count(&repaired);
    let left: u64 = repaired.left.counts.values().sum();
    let end = match repaired.is_clean() {
        true => "clean".to_owned(),
        false => format!(
            "{} left: extant check lists them, extant repair --all mends them, too",
            counted(left, "problem")
        ),
    };
    let mut parts = vec![format!("was checked: {reason}")];
    parts.extend(repair::recovered(&repaired.recovery));
    if count > 0 {
        parts.push(format!("mended {}", counted(count, "problem")));
    }
    parts.push(end);
    Record {
        exit_code: repair::exit_code(&repaired),
        reason: Some(reason.to_string()),
        recovery: Some(repair::RecoveryRecord::of(&repaired.recovery)),
        mended: count,
        line: parts.join("; "),
        left: Some(repaired.left),
        ..written(record(image, "repaired"), applied)
    }
}
