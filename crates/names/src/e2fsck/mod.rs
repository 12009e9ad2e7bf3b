//! e2fsck and fsck.ext4: a volume is judged, its journal replayed, its orphans are freed, and it is
//! mended.
//!
//! ```text
//! words        the command line
//! completion   -C: how far the check is, for the program that started it
//! lost         a volume whose superblock is lost, or differs from its copy
//! mend         what the check found is mended
//! apply        what recovery and a check change where nothing is wrong
//! ```
//!
//! `-n` writes nothing. `-p` and `-y` replay the journal and free orphans where all is well after
//! that, and note in the superblock that the volume was checked, as e2fsck does. Where anything is
//! wrong it is mended: by -y all of it, by -p what needs no decision, and nothing if that is not
//! all. `-b` does that by a copy of the superblock, `-z` keeps what was there for e2undo. What
//! cannot be mended is left with exit code 4 or more, and nothing is written.
//!
//! Without `-f` a volume that says it is clean is skipped, but not before what e2fsck looks at too:
//! the superblock, descriptors, the journal, the list of orphans
//! ([`extant_inspect::check_volume`]).
mod apply;
mod completion;
mod lost;
mod mend;
mod words;

use self::apply::{Counters, apply, discard, has_lost_found};
use self::completion::Completion;
use self::mend::Mended;
use self::words::{Mode, Request};
use super::{complain, console, in_place, one_line, say, say_version, version};
use crate::in_place::InPlace;
use extant_block::{BlockDevice, Clock, Overlay, RealClock};
use extant_edit::redo;
use extant_engine::{OrphanCounts, Orphans, recovered};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock, state};
use extant_host::console::{Chatter, Console};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::{self, Judged};
use extant_host::target;
use extant_inspect::{CheckOptions, CheckReport, Code, ReadOrder, Summary, SuperblockPlace, Trust};
use extant_repair::{Change, Optimize, Recovery, Repaired, Scope};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CLEAN: u8 = 0;
const CORRECTED: u8 = 1;
const LEFT: u8 = 4;
pub(super) const FAILED: u8 = 8;
const USAGE: u8 = 16;

/// The passes, as e2fsck names them.
const PASSES: &str = "Pass 1: Checking inodes, blocks, and sizes
Pass 2: Checking directory structure
Pass 3: Checking directory connectivity
Pass 4: Checking reference counts
Pass 5: Checking group summary information
";

/// Exit codes are those of fsck.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    let request = match words::read(words) {
        Ok(request) => request,
        Err(what) => {
            complain(&format!("{name}: {what}"));
            complain(&format!(
                "Usage: {name} [-panyrcdfktvDFV] [-b superblock] [-B blocksize] [-C fd]\n\t\t\
                 [-j external_journal] [-E extended-options] [-N name] device"
            ));
            return USAGE;
        }
    };
    let Some(device) = request.device.as_ref().filter(|_| !request.version) else {
        say_version("e2fsck");
        return CLEAN;
    };
    if request.mode != Mode::Preen {
        complain(&version("e2fsck"));
    }
    if request.mode == Mode::Ask {
        complain(&format!(
            "{name}: questions are not asked here: -n only looks, -p mends what loses nothing, -y \
             mends everything"
        ));
        return FAILED;
    }
    if request.bad_blocks && request.mode == Mode::Read {
        complain(&format!("{name}: The -n and -c options are incompatible."));
        return FAILED;
    }
    if request.bad_blocks {
        complain(&format!("{name}: -c: bad blocks are not searched for here"));
    }
    match check(name, device, &request) {
        Ok(code) => code,
        Err(error) => {
            complain(&one_line(name, &error));
            if error.exit == Exit::Usage { USAGE } else { FAILED }
        }
    }
}

/// What is known of a volume before it is checked.
struct Subject<'a> {
    name: &'static str,
    path: &'a Path,
    /// What it is called in what is printed: -N, else the path.
    shown: String,
    /// Where its journal is, if that is on another device.
    journal: Option<&'a Path>,
    /// Where what was there is kept, for e2undo.
    undo: Option<PathBuf>,
    /// The copy of the superblock that was named.
    copy: Option<SuperblockPlace>,
    /// What -y makes smaller or faster.
    optimize: Optimize,
    /// As it is on the disk.
    superblock: Superblock,
}

/// The volume after recovery, in memory.
struct Recovered {
    /// After replay, orphans as they were: what `-fn` judges.
    judged: Arc<dyn BlockDevice>,
    /// Without orphans, unless they cannot be freed.
    finished: Arc<dyn BlockDevice>,
    /// Those that wait.
    orphans: Option<OrphanCounts>,
    /// Damage cuts the log of the journal.
    is_cut: bool,
    superblock: Superblock,
}

fn check(name: &'static str, path: &Path, request: &Request) -> Result<u8, Error> {
    let shown = request.label.clone().unwrap_or_else(|| path.display().to_string());
    if request.mode != Mode::Read && target::mount(path).is_some() {
        complain(&format!("{shown} is mounted."));
        complain(&format!("{name}: Cannot continue, aborting.\n"));
        return Ok(FAILED);
    }
    if log_waits(path) {
        match request.mode {
            Mode::Read => complain(&format!(
                "{shown}: a change of it was interrupted: it is judged as it is when that is ended"
            )),
            // Whoever uses it next may not know of the log.
            _ => drop(InPlace::open(path)?),
        }
    }
    let journal = request.journal.clone();
    let device = image::device(path, &ImageArguments { journal, ..ImageArguments::default() })?;
    let mut completion = Completion::open(request.completion, &shown, &console(name))?;
    let subject = |superblock| Subject {
        name,
        path,
        shown: shown.clone(),
        journal: request.journal.as_deref(),
        undo: request.undo.as_deref().and_then(|named| mend::undo_path(named, path)),
        copy: None,
        optimize: request.optimize,
        superblock,
    };
    if let Some(block) = request.superblock {
        let copy = lost::named(&device, (block, request.block_size));
        let Some((place, superblock)) = copy else {
            complain(&format!("{name}: {shown}: block {block} is no copy of a superblock"));
            return Ok(FAILED);
        };
        let subject = Subject { copy: Some(place), ..subject(superblock) };
        return by_copy(&subject, request, (device, &mut completion));
    }
    let superblock = match in_place::superblock(&*device, path) {
        Ok(superblock) => superblock,
        Err(_) if let Some(superblock) = lost::corrected(&device) => {
            return uncounted(&subject(superblock), request, (device, &mut completion));
        }
        Err(error) if request.mode == Mode::Yes => {
            let superblock = lost::superblock(&device, name).ok_or(error)?;
            drop(device);
            return mended(&subject(superblock), request, None);
        }
        Err(error) => {
            return lost::judged(name, &shown, (device, request.mode)).ok_or(error);
        }
    };
    let subject = subject(superblock);
    let is_elsewhere = subject.superblock.has(Feature::HAS_JOURNAL)
        && subject.superblock.journal_inode == 0
        && subject.superblock.journal_uuid() != [0; 16];
    if is_elsewhere && request.journal.is_none() && request.mode != Mode::Read {
        complain(&format!("{name}: {shown}: its journal is on another device: -j names it"));
        return Ok(LEFT | FAILED);
    }
    match recover_in_memory(&subject, request, device)? {
        Some(recovered) => judged(&subject, request, (recovered, &mut completion)),
        // By a copy of the journal's inode it may be.
        None => mended(&subject, request, None),
    }
}

/// Whether the log of a change that was interrupted is beside a volume.
fn log_waits(path: &Path) -> bool {
    let log = std::fs::canonicalize(path).ok().as_deref().and_then(redo::path_of);
    log.is_some_and(|log| log.exists())
}

/// A volume after recovery: it is skipped if it is clean, else checked.
fn judged(
    subject: &Subject<'_>,
    request: &Request,
    (recovered, completion): (Recovered, &mut Completion),
) -> Result<u8, Error> {
    let shown = &subject.shown;
    let first = extant_inspect::check_volume(&recovered.finished, &options())
        .map_err(|error| Error::new(format!("{shown}: {error}")))?;
    let after = &recovered.superblock;
    let is_clean = after.state & (state::CLEAN | state::ERRORS) == state::CLEAN;
    let is_due = is_due(after);
    let differs = request.mode != Mode::Read && lost::differs(&recovered.finished, after);
    let is_doubtful = !first.report.problems.is_empty()
        || first.trust == Trust::Lost
        || request.mode != Mode::Read && is_foreign(after);
    if is_clean && !request.force && differs {
        say(&format!("{shown} primary superblock features different from backup, check forced.\n"));
    } else if !(request.force || is_clean && !is_due) {
        let why = match (is_clean, after.state & state::ERRORS) {
            (true, _) => "is due",
            (false, 0) => "was not cleanly unmounted",
            (false, _) => "contains a file system with errors",
        };
        say(&format!("{shown} {why}, check forced.\n"));
    }
    let is_asked = request.force || !is_clean || is_due || differs;
    if is_doubtful || !request.journal_only && is_asked {
        let was_valid = after.state & state::CLEAN != 0 && !recovered.is_cut;
        let before = if was_valid { Before::Clean } else { Before::NotClean };
        return checked(subject, request, recovered, (first.report, before, completion));
    }
    let usage = usage(after);
    // An image that is open for reading is not opened for writing.
    drop((recovered.judged, recovered.finished));
    if request.mode != Mode::Read {
        apply(subject, recovered.orphans, None)?;
    }
    if !request.journal_only {
        say(&format!("{shown}: clean, {usage}\n"));
    }
    Ok(CLEAN)
}

/// -b: the volume by a copy of its superblock, which is judged or mended whatever the first one
/// says.
fn by_copy(
    subject: &Subject<'_>,
    request: &Request,
    (device, completion): (Arc<dyn BlockDevice>, &mut Completion),
) -> Result<u8, Error> {
    if request.mode != Mode::Read {
        drop(device);
        return mended(subject, request, None);
    }
    let view = Overlay::new(device, subject.superblock.block_size(), u64::MAX);
    // tidy: writers because it is an overlay in memory
    let put = view.write(SUPERBLOCK_OFFSET, &subject.superblock.encode());
    put.map_err(|error| Error::io(subject.path.display(), &error))?;
    as_it_stands(subject, request, (Arc::new(view), completion))
}

/// A volume whose superblock has a count or a checksum that is wrong: no log is replayed and
/// nothing is skipped by it.
fn uncounted(
    subject: &Subject<'_>,
    request: &Request,
    (device, completion): (Arc<dyn BlockDevice>, &mut Completion),
) -> Result<u8, Error> {
    if request.mode == Mode::Read {
        return as_it_stands(subject, request, (device, completion));
    }
    drop(device);
    mended(subject, request, None)
}

/// What a check finds on a device.
fn as_it_stands(
    subject: &Subject<'_>,
    request: &Request,
    (device, completion): (Arc<dyn BlockDevice>, &mut Completion),
) -> Result<u8, Error> {
    let options = CheckOptions { progress: completion.listener(), ..options() };
    let report = extant_inspect::check(device, &options)
        .map_err(|error| Error::new(format!("{}: {error}", subject.shown)))?;
    completion.end();
    say(PASSES);
    say(&list(subject, &report));
    if !report.problems.is_empty() {
        return Ok(left(subject, request, &report));
    }
    say(&held(subject, &report.summary));
    Ok(CLEAN)
}

/// What the superblock said before the check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Clean,
    NotClean,
}

/// Replays the journal in memory, and frees orphans there; `None` where the journal cannot be
/// replayed, and was to be on the disk, which is said.
///
/// # Errors
/// The host's; no superblock after replay.
fn recover_in_memory(
    subject: &Subject<'_>,
    request: &Request,
    device: Arc<dyn BlockDevice>,
) -> Result<Option<Recovered>, Error> {
    let (name, path) = (subject.name, subject.path);
    let quiet = Console { chatter: Chatter::Quiet, ..console(name) };
    let needs_recovery = subject.superblock.has(Feature::NEEDS_RECOVERY);
    let judged = match (needs_recovery, request.mode) {
        (false, _) => Judged { device, cut_at: None },
        (true, Mode::Read) => {
            let message = "its journal is replayed in memory for the check; nothing is written";
            complain(&format!("{}: {message}", subject.shown));
            recovery::judged(path, device, &quiet)
        }
        (true, _) => match recovered(device, Orphans::Leave) {
            Ok(recovered) => {
                let report = recovered.report.map(|report| report.journal);
                let cut = report.as_ref().and_then(|report| recovery::cut(path, report));
                cut.iter().for_each(|cut| complain(&format!("{name}: {cut}")));
                Judged::after(recovered.device, report.as_ref())
            }
            Err(error) => {
                complain(&one_line(name, &image::failure(path, error)));
                return Ok(None);
            }
        },
    };
    let (device, is_cut) = (Arc::clone(&judged.device), judged.cut_at.is_some());
    let (finished, orphans) = judged.without_orphans(path, &console(name));
    let superblock = in_place::superblock(&*finished.device, path)?;
    Ok(Some(Recovered { judged: device, finished: finished.device, orphans, is_cut, superblock }))
}

/// Whether the superblock asks for a check after so many mounts, or so much time.
fn is_due(superblock: &Superblock) -> bool {
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    let most = superblock.max_mount_count;
    let interval = u64::from(superblock.check_interval_seconds);
    (most > 0 && superblock.mount_count >= most.unsigned_abs())
        || (interval > 0 && now >= superblock.checked_seconds.saturating_add(interval))
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

fn options() -> CheckOptions {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(64));
    let threads = u32::try_from(threads).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    CheckOptions { read_order: ReadOrder::DiskOrder, threads, progress: None }
}

/// Checks all of it. `first` is what the volume says of itself, and whether it said that it is
/// clean.
fn checked(
    subject: &Subject<'_>,
    request: &Request,
    recovered: Recovered,
    (first, before, completion): (CheckReport, Before, &mut Completion),
) -> Result<u8, Error> {
    let Recovered { judged, finished, orphans, superblock, .. } = recovered;
    // The other is dropped: an image that is open for reading is not opened for writing.
    let device = match request.mode {
        Mode::Read => {
            drop(finished);
            judged
        }
        _ => {
            drop(judged);
            finished
        }
    };
    let options = CheckOptions { progress: completion.listener(), ..options() };
    let report = extant_inspect::check(Arc::clone(&device), &options)
        .map_err(|error| Error::new(format!("{}: {error}", subject.shown)))?;
    let is_whole = request.mode == Mode::Read
        || !report.is_clean()
        || has_lost_found(&device) && !could_improve(subject, request, &report);
    drop(device);
    completion.end();
    if request.mode != Mode::Preen {
        say(PASSES);
    }
    say(&list(subject, &report));
    // What is advice there is mended by e2fsck before it calls the volume clean.
    let is_foreign = is_foreign(&superblock);
    if is_foreign {
        say(&format!("{}: The Hurd does not support the filetype feature.\n", subject.shown));
    }
    let is_left = request.mode != Mode::Read && (!first.problems.is_empty() || is_foreign);
    if !is_whole && !is_left {
        return mended(subject, request, Some(&report));
    }
    if !report.is_clean() || is_left {
        // An image that is open for reading is not opened for writing.
        return match request.mode {
            Mode::Read | Mode::Ask => Ok(left(subject, request, &report)),
            _ if is_foreign => Ok(left(subject, request, &report)),
            _ => mended(subject, request, Some(&report)),
        };
    }
    let mut code = CLEAN;
    if request.mode != Mode::Read {
        let counters = apply(subject, orphans, Some(&report.summary))?;
        if request.discard {
            discard(subject)?;
        }
        let has_freed = orphans.is_some_and(|orphans| orphans.freed > 0);
        if before == Before::NotClean || has_freed || counters == Counters::Mended {
            code = CORRECTED;
        }
    }
    say(&held(subject, &report.summary));
    Ok(code)
}

/// Whether e2fsck makes directories or extent trees of a clean volume smaller or faster.
fn could_improve(subject: &Subject<'_>, request: &Request, report: &CheckReport) -> bool {
    let Summary { unindexed_directories, large_trees, .. } = report.summary;
    match mend::optimize(subject, scope(request)) {
        Optimize::Nothing => false,
        Optimize::Directories => unindexed_directories > 0,
        Optimize::DirectoriesAndTrees => unindexed_directories > 0 || large_trees > 0,
    }
}

/// How far e2fsck goes.
fn scope(request: &Request) -> Scope {
    if request.mode == Mode::Yes { Scope::All } else { Scope::Preen }
}

/// The last line: how much of it is used.
fn held(subject: &Subject<'_>, held: &Summary) -> String {
    let Summary { inodes_used, inodes, blocks_used, blocks, .. } = held;
    format!("{}: {inodes_used}/{inodes} files, {blocks_used}/{blocks} blocks\n", subject.shown)
}

/// What is wrong is mended, and said.
fn mended(
    subject: &Subject<'_>,
    request: &Request,
    report: Option<&CheckReport>,
) -> Result<u8, Error> {
    let shown = &subject.shown;
    let repaired = match mend::mend(subject, scope(request))? {
        Mended::Refused(why) => {
            complain(&format!("{}: {shown}: {why}", subject.name));
            // Without a report it could not even be judged.
            return Ok(report.map_or(LEFT | FAILED, |report| left(subject, request, report)));
        }
        Mended::Doubtful => {
            say(&format!(
                "\n{shown}: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n\t(i.e., without -a \
                 or -p options)\n"
            ));
            return Ok(LEFT);
        }
        Mended::Written(repaired) => repaired,
    };
    if repaired.made_lost_found {
        say(&format!("{shown}: /lost+found not found.  Created.\n"));
    }
    if repaired.indexed > 0 {
        say(&format!("{shown}: directories optimized: {}\n", repaired.indexed));
    }
    if repaired.smaller_trees > 0 {
        say(&format!("{shown}: extent trees optimized: {}\n", repaired.smaller_trees));
    }
    for change in &repaired.changes {
        let (problem, code) = (&change.problem, change.problem.rule().name);
        match &change.loss {
            Some(loss) => say(&format!("{shown}: FIXED: {problem} [{code}]; lost: {loss}\n")),
            None => say(&format!("{shown}: FIXED: {problem} [{code}]\n")),
        }
    }
    let code = code(subject, &repaired);
    if repaired.is_changed() && request.mode != Mode::Preen {
        say(&format!("\n{shown}: ***** FILE SYSTEM WAS MODIFIED *****\n"));
    }
    if !repaired.is_clean() {
        say(&list(subject, &repaired.left));
        say(&format!("\n{shown}: ********** WARNING: Filesystem still has errors **********\n\n"));
        return Ok(LEFT);
    }
    // With it goes the lock of the image.
    let summary = repaired.left.summary;
    drop(repaired);
    if request.discard {
        discard(subject)?;
    }
    say(&held(subject, &summary));
    Ok(code)
}

/// A replay is no correction, nor that orphans are freed or what the journal recorded of an error
/// is forgotten.
fn code(subject: &Subject<'_>, repaired: &Repaired) -> u8 {
    let recorded = Code::JournalError.rule().name;
    let has_recovered = repaired.recovery != Recovery::default()
        || repaired.found.problems.is_empty()
        || repaired.found.counts.contains_key(recorded);
    let used = |report: &CheckReport| report.summary.blocks_used;
    let has_changed_quota = repaired.indexed + repaired.smaller_trees > 0
        && subject.superblock.has(Feature::QUOTA)
        && used(&repaired.found) != used(&repaired.left);
    let is_recovery = |change: &Change| change.problem.code == Code::JournalError;
    let is_recovered = subject.superblock.state & state::CLEAN != 0
        && subject.copy.is_none()
        && has_recovered
        && repaired.omitted == 0
        && repaired.changes.iter().all(is_recovery)
        && !has_changed_quota
        && !repaired.is_corrected();
    if is_recovered { CLEAN } else { CORRECTED }
}

/// A problem a line.
fn list(subject: &Subject<'_>, report: &CheckReport) -> String {
    let shown = &subject.shown;
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
    let shown = &subject.shown;
    if request.mode != Mode::Read {
        complain(&format!("{}: {shown}: nothing was changed", subject.name));
    }
    say(&format!("\n{shown}: ********** WARNING: Filesystem still has errors **********\n\n"));
    // e2fsck does not open a volume to write it whose features forbid that.
    let mut unknown = subject.superblock.features.iter().filter(|feature| !feature.is_judged());
    let may_not_write = unknown.any(|feature| matches!(feature, Feature::RoCompat(_)));
    match report.exit_code() {
        _ if request.mode != Mode::Read && may_not_write => FAILED,
        CLEAN => LEFT,
        code => code,
    }
}

/// Whether a volume was made for the Hurd and has what that cannot read: e2fsck asks a person.
fn is_foreign(superblock: &Superblock) -> bool {
    const HURD: u32 = 1;
    superblock.creator_os == HURD && superblock.has(Feature::FILETYPE)
}
