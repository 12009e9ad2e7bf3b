//! e2fsck and fsck.ext4: a volume is judged, and its journal replayed; nothing else is mended.
//!
//! `-n` writes nothing. `-p` and `-y` replay the journal where all is well after that, and note in
//! the superblock that the volume was checked, as e2fsck does. Where anything is wrong nothing is
//! written, not even the replay, and the exit code is 4.
use super::dumpe2fs::SIZES;
use super::in_place::InPlace;
use super::{TOOLS_VERSION, complain, console, getopt, in_place, one_line, say};
use crate::error::{Error, Exit};
use crate::{image, recovery, target};
use extant_block::{BlockDevice, Clock, RealClock};
use extant_engine::{Orphans, recover, recovered};
use extant_format::superblock::{Feature, Superblock, state};
use extant_inspect::{CheckOptions, CheckReport, ReadOrder};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CLEAN: u8 = 0;
const CORRECTED: u8 = 1;
const LEFT: u8 = 4;
const FAILED: u8 = 8;
const USAGE: u8 = 16;

/// The passes, as e2fsck names them.
const PASSES: &str = "Pass 1: Checking inodes, blocks, and sizes
Pass 2: Checking directory structure
Pass 3: Checking directory connectivity
Pass 4: Checking reference counts
Pass 5: Checking group summary information
";

/// What may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    /// e2fsck would ask.
    #[default]
    Ask,
    /// -n.
    Read,
    /// -p or -a.
    Preen,
    /// -y.
    Yes,
}

/// What the words ask for.
#[derive(Default)]
struct Request {
    mode: Mode,
    force: bool,
    verbose: bool,
    version: bool,
    journal_only: bool,
    superblock: Option<u64>,
    block_size: Option<u32>,
    device: Option<PathBuf>,
}

/// Exit codes are those of fsck.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    let request = match read(words) {
        Ok(request) => request,
        Err(what) => {
            complain(&format!("{name}: {what}"));
            complain(&format!(
                "Usage: {name} [-panyrcdfktvDFV] [-b superblock] [-B blocksize] [-C fd]\n\t\t\
                 [-E extended-options] device"
            ));
            return USAGE;
        }
    };
    if request.mode != Mode::Preen || request.version {
        complain(&format!("e2fsck {TOOLS_VERSION} (extant {})", env!("CARGO_PKG_VERSION")));
    }
    let (Some(device), false) = (&request.device, request.version) else {
        return CLEAN;
    };
    if request.mode == Mode::Ask {
        complain(&format!(
            "{name}: questions are not asked here: say -n to look, -p or -y to replay the journal"
        ));
        return FAILED;
    }
    match check(name, device, &request) {
        Ok(code) => code,
        Err(error) => {
            complain(&one_line(name, &error));
            if error.exit == Exit::Usage { USAGE } else { FAILED }
        }
    }
}

fn read(words: &[OsString]) -> Result<Request, String> {
    let read =
        getopt::read(words, "panyrcC:B:dE:fvtFVM:b:I:j:P:l:L:N:SsDkz:").map_err(|error| error.0)?;
    let mut request = Request::default();
    for (letter, value) in read.options {
        let text = getopt::text(&value);
        match letter {
            'n' | 'p' | 'a' | 'y' => {
                let mode = match letter {
                    'n' => Mode::Read,
                    'y' => Mode::Yes,
                    _ => Mode::Preen,
                };
                if request.mode != Mode::Ask && request.mode != mode {
                    return Err(
                        "Only one of the options -p/-a, -n or -y may be specified.".to_owned()
                    );
                }
                request.mode = mode;
            }
            'f' => request.force = true,
            'v' => request.verbose = true,
            'V' => request.version = true,
            'b' => {
                let number = text.parse().map_err(|_| format!("Invalid superblock: {text}"))?;
                request.superblock = Some(number);
            }
            'B' => {
                let size = text.parse().ok().filter(|size| SIZES.contains(size));
                request.block_size = Some(size.ok_or_else(|| format!("Bad block size: {text}"))?);
            }
            'E' => extended(&text, &mut request)?,
            'C' if text.parse::<i32>().is_err() => {
                return Err(format!("Invalid completion information file descriptor: {text}"));
            }
            // -C: the line that moves needs no descriptor; -t: times; -D: directories are left as
            // they are, which is right; -r, -d, -F, -k: nothing here.
            'C' | 't' | 'D' | 'r' | 'd' | 'F' | 'k' => {}
            _ => return Err(format!("-{letter}: {}", refused(letter))),
        }
    }
    let mut operands = read.operands.into_iter();
    request.device = operands.next().map(PathBuf::from);
    match operands.next() {
        Some(_) => Err("one device at a time".to_owned()),
        None if request.device.is_none() && !request.version => {
            Err("a device is needed".to_owned())
        }
        None => Ok(request),
    }
}

/// Why an option of e2fsck is not taken.
fn refused(letter: char) -> &'static str {
    match letter {
        'c' | 'l' | 'L' => "bad blocks are not searched for or listed",
        'j' => "an external journal is not replayed",
        'z' => "nothing is mended yet, so there is nothing to undo",
        _ => "not supported",
    }
}

fn extended(list: &str, request: &mut Request) -> Result<(), String> {
    for word in list.split(',') {
        match word.split_once('=').map_or(word, |(name, _)| name) {
            "journal_only" => request.journal_only = true,
            "ea_ver"
            | "nodiscard"
            | "no_optimize_extents"
            | "readahead_kb"
            | "inode_count_fullmap"
            | "no_inode_count_fullmap" => {}
            name @ ("discard"
            | "optimize_extents"
            | "fragcheck"
            | "bmap2extent"
            | "fixes_only"
            | "unshare_blocks"
            | "check_encoding"
            | "clear_all_uninit_bits") => {
                return Err(format!("-E {name}: not supported: nothing is mended yet"));
            }
            name => return Err(format!("Unknown extended option: {name}")),
        }
    }
    Ok(())
}

/// What the superblock said before the check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Clean,
    NotClean,
}

/// What is known of a volume before it is checked.
struct Subject<'a> {
    name: &'static str,
    path: &'a Path,
    superblock: Superblock,
}

fn check(name: &'static str, path: &Path, request: &Request) -> Result<u8, Error> {
    let shown = path.display();
    if request.mode != Mode::Read && target::mount(path).is_some() {
        complain(&format!("{shown} is mounted."));
        complain(&format!("{name}: Cannot continue, aborting.\n"));
        return Ok(FAILED);
    }
    if let Some(block) = request.superblock {
        return Err(Error::usage(format!(
            "-b {block}: a volume is not mended from a copy yet, and only looked at with its own \
             superblock"
        ))
        .hint("dumpe2fs -o superblock= shows a copy"));
    }
    let device = image::device(path, 0)?;
    let superblock = in_place::superblock(&*device, path)?;
    let subject = Subject { name, path, superblock };
    let needs_recovery = subject.superblock.has(Feature::NEEDS_RECOVERY);
    let judged = match (needs_recovery, request.mode) {
        (false, _) => device,
        (true, Mode::Read) => {
            let message = "its journal is replayed in memory for the check; nothing is written";
            complain(&format!("{shown}: {message}"));
            let mut quiet = console(name);
            quiet.chatter = crate::console::Chatter::Quiet;
            recovery::judged(path, device, &quiet)
        }
        (true, _) => match recovered(device, Orphans::Leave) {
            Ok(recovered) => recovered.device,
            Err(error) => return unreplayed(&subject, image::failure(path, error)),
        },
    };
    let after = in_place::superblock(&*judged, path)?;
    let is_clean = after.state & (state::CLEAN | state::ERRORS) == state::CLEAN;
    let is_due = is_due(&after);
    let checks = request.force || !is_clean || is_due;
    if checks && !request.force {
        let why = if is_clean { "is due" } else { "was not cleanly unmounted" };
        say(&format!("{shown} {why}, check forced.\n"));
    }
    if !checks || request.journal_only {
        // An image that is open for reading is not opened for writing.
        drop(judged);
        return replay_only(&subject, request, &after);
    }
    let before = if is_clean { Before::Clean } else { Before::NotClean };
    checked(&subject, request, judged, before)
}

/// The journal cannot be replayed: that is left, as any problem is.
fn unreplayed(subject: &Subject<'_>, error: Error) -> Result<u8, Error> {
    complain(&one_line(subject.name, &error));
    complain(&format!("{}: nothing was changed", subject.path.display()));
    Ok(LEFT)
}

/// Whether the superblock asks for a check after so many mounts, or so much time.
fn is_due(superblock: &Superblock) -> bool {
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    let most = superblock.max_mount_count;
    let interval = u64::from(superblock.check_interval_seconds);
    (most > 0 && superblock.mount_count >= most.unsigned_abs())
        || (interval > 0 && now >= superblock.checked_seconds.saturating_add(interval))
}

/// The volume is clean, or will be once its journal is replayed.
fn replay_only(subject: &Subject<'_>, request: &Request, after: &Superblock) -> Result<u8, Error> {
    let shown = subject.path.display();
    if subject.superblock.has(Feature::NEEDS_RECOVERY) && request.mode != Mode::Read {
        replay(subject)?;
    }
    say(&format!("{shown}: clean, {}\n", usage(after)));
    Ok(CLEAN)
}

fn replay(subject: &Subject<'_>) -> Result<(), Error> {
    say(&format!("{}: recovering journal\n", subject.path.display()));
    let volume = InPlace::open(subject.path)?;
    recover(&volume.device).map_err(|error| image::failure(subject.path, error))?;
    Ok(())
}

/// "11/2048 files, 1618/8192 blocks".
fn usage(superblock: &Superblock) -> String {
    let Superblock { inodes_count, free_inodes, blocks_count, free_blocks, .. } = superblock;
    format!(
        "{}/{inodes_count} files, {}/{blocks_count} blocks",
        inodes_count.saturating_sub(*free_inodes),
        blocks_count.saturating_sub(*free_blocks)
    )
}

fn checked(
    subject: &Subject<'_>,
    request: &Request,
    device: Arc<dyn BlockDevice>,
    before: Before,
) -> Result<u8, Error> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(64));
    let threads = u32::try_from(threads).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let options = CheckOptions { read_order: ReadOrder::DiskOrder, threads, progress: None };
    let report = extant_inspect::check(device, &options)
        .map_err(|error| Error::new(format!("{}: {error}", subject.path.display())))?;
    if request.mode != Mode::Preen {
        say(PASSES);
    }
    let problems = list(subject, &report);
    if !report.is_clean() {
        say(&problems);
        return Ok(left(subject, request, &report));
    }
    let mut code = CLEAN;
    if request.mode != Mode::Read {
        if subject.superblock.has(Feature::NEEDS_RECOVERY) {
            replay(subject)?;
        }
        note(subject)?;
        if before == Before::NotClean {
            code = CORRECTED;
        }
    }
    let held = &report.summary;
    say(&format!(
        "{}: {}/{} files, {}/{} blocks\n",
        subject.path.display(),
        held.inodes_used,
        held.inodes,
        held.blocks_used,
        held.blocks
    ));
    Ok(code)
}

/// A problem a line.
fn list(subject: &Subject<'_>, report: &CheckReport) -> String {
    let shown = subject.path.display();
    let mut text = String::new();
    for problem in &report.problems {
        text.push_str(&format!("{shown}: {problem} [{}]\n", problem.rule().name));
    }
    if report.omitted > 0 {
        text.push_str(&format!("{shown}: ... and {} more\n", report.omitted));
    }
    text
}

/// What is said where something is wrong: nothing was written.
fn left(subject: &Subject<'_>, request: &Request, report: &CheckReport) -> u8 {
    let shown = subject.path.display();
    if request.mode != Mode::Read {
        complain(&format!(
            "{}: {shown}: nothing was changed: problems are found here, and not mended yet",
            subject.name
        ));
    }
    say(&format!("\n{shown}: ********** WARNING: Filesystem still has errors **********\n\n"));
    if report.exit_code() == FAILED { FAILED } else { LEFT }
}

/// The superblock says that the volume is clean, and was checked now.
fn note(subject: &Subject<'_>) -> Result<(), Error> {
    let volume = InPlace::open(subject.path)?;
    let mut superblock = volume.superblock()?;
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    superblock.state |= state::CLEAN;
    superblock.state &= !state::ERRORS;
    superblock.mount_count = 0;
    superblock.checked_seconds = now;
    superblock.written_seconds = now;
    volume.write_primary(&superblock)
}
