//! Volumes whose journal has to be replayed, as they are after that: in memory, nothing is written.
use crate::console::Console;
use crate::target;
use extant_archive::printable;
use extant_block::BlockDevice;
use extant_engine::{
    Error, ErrorKind, OrphanCounts, Orphans, read_superblock, recovered, unreplayed,
    without_orphans,
};
use extant_format::mount_block::StoredMountBlock;
use extant_format::superblock::{Feature, Superblock};
use extant_inspect::{CheckOptions, Code, FirstLook, Problem, Severity, Trust, check_volume};
use extant_journal::Error::External;
use extant_journal::{End, Outcome, Report};
use serde::Serialize;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// The volume as programs that use it see it: after replay, without orphans. Says that it was
/// replayed.
///
/// # Errors
/// As [`recovered`]; `NeedsRecovery` for a volume that is mounted, which changes meanwhile.
pub fn in_use(
    image: &Path,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Arc<dyn BlockDevice>, extant_engine::Error> {
    if let Ok(superblock) = read_superblock(&*device) {
        if superblock.has(Feature::NEEDS_RECOVERY) && target::mount(image).is_some() {
            return Err(ErrorKind::NeedsRecovery.into());
        }
        warn_if_held(image, &*device, &superblock, console);
    }
    let recovered = match recovered(Arc::clone(&device), Orphans::Finish) {
        Err(Error { kind: ErrorKind::Journal(journal @ External(_)), .. }) => {
            let shown = image.display();
            console.warn(&format!(
                "{shown}: is not replayed, and read as its last checkpoint left it: {journal}; \
                 --journal PATH names it"
            ));
            return unreplayed(device);
        }
        outcome => outcome?,
    };
    if let Some(report) = &recovered.report {
        say(image, &report.journal, console);
        say_left(image, &report.journal, console);
    }
    Ok(recovered.device)
}

/// Warns of a volume that another machine may be writing (mmp): it may change while it is read. The
/// block that says so is not written.
fn warn_if_held(
    image: &Path,
    device: &dyn BlockDevice,
    superblock: &Superblock,
    console: &Console,
) {
    let block_bytes = u64::from(superblock.block_size());
    let mut bytes = vec![0; superblock.block_size() as usize];
    let place = superblock.mount_block().0.checked_mul(block_bytes);
    let is_read = superblock.has(Feature::MMP)
        && place.is_some_and(|place| device.read(place, &mut bytes).is_ok());
    let block = StoredMountBlock::new(&bytes);
    if is_read && block.is_sound(superblock) && block.is_held() {
        let (shown, node) = (image.display(), printable(block.node_name()));
        console.warn(&format!(
            "{shown}: is in use on the machine {node}, or was when that ended: what is read may \
             change meanwhile"
        ));
    }
}

/// A volume for programs that judge it.
pub struct Judged {
    /// After replay, where that is possible; else as it is. Its orphans wait.
    pub device: Arc<dyn BlockDevice>,
    /// The transaction from which on the log is damaged, so that it was left out with all after it.
    pub cut_at: Option<u64>,
}

impl Judged {
    /// A volume after its journal was replayed, if it had to be.
    pub fn after(device: Arc<dyn BlockDevice>, report: Option<&Report>) -> Judged {
        let cut_at = match report.map(|report| &report.end) {
            Some(End::Damaged { sequence, .. }) => Some(sequence.0.into()),
            _ => None,
        };
        Judged { device, cut_at }
    }

    /// The same without the orphans that wait, and how many those are. `None` if none wait, where
    /// they cannot be freed, which is said, and where it is mounted.
    pub fn without_orphans(
        self,
        image: &Path,
        console: &Console,
    ) -> (Judged, Option<OrphanCounts>) {
        if target::mount(image).is_some() {
            return (self, None);
        }
        match without_orphans(&self.device) {
            Ok(Some((device, counts))) => (Judged { device, ..self }, Some(counts)),
            Ok(None) => (self, None),
            Err(error) => {
                let orphans = orphans_left(image, &error);
                console.warn(&orphans);
                (self, None)
            }
        }
    }
}

/// Warns of a volume that is to be changed although superblock, descriptors or journal are damaged,
/// as far as that is seen without reading inodes. A log that waits is looked at by who replays it.
pub fn warn_if_damaged(image: &Path, device: &Arc<dyn BlockDevice>, console: &Console) {
    let waits = |volume: Superblock| volume.has(Feature::NEEDS_RECOVERY);
    if read_superblock(&**device).is_ok_and(waits) {
        return;
    }
    let options = CheckOptions { threads: NonZeroU32::MIN, ..CheckOptions::default() };
    // What cannot be read, or is no volume, is said by who opens it.
    let Ok(FirstLook { report, trust }) = check_volume(device, &options) else { return };
    // What is only not known here is no damage.
    let is_foreign = |code| {
        use Code::{
            Encoding, ExternalJournal, MountBlockHeld, UnknownFeature, UnknownIncompatible,
        };
        matches!(
            code,
            Encoding | ExternalJournal | MountBlockHeld | UnknownFeature | UnknownIncompatible
        )
    };
    let is_damage = |problem: &&Problem| {
        problem.rule().severity > Severity::Advice && !is_foreign(problem.code)
    };
    let damage: Vec<&Problem> = report.problems.iter().filter(is_damage).collect();
    let found = match (damage.as_slice(), trust) {
        ([], Trust::Given) => return,
        ([], Trust::Lost) => "a group counts more than it can have, or the copy of the \
                              superblock has other features"
            .to_owned(),
        ([only], _) => only.to_string(),
        ([first, rest @ ..], _) => format!("{first}, and {} more", rest.len()),
    };
    let shown = image.display();
    console.warn(&format!("{shown}: is damaged: {found}; extant check says what else"));
}

/// "3 deleted inodes freed, 1 file cut to its size"; `None` of no orphans.
pub fn orphans_finished(counts: OrphanCounts) -> Option<String> {
    let freed = format!("{} freed", counted(counts.freed, "deleted inode"));
    let cut = format!("{} cut to its size", counted(counts.truncated, "file"));
    match (counts.freed, counts.truncated) {
        (0, 0) => None,
        (_, 0) => Some(freed),
        (0, _) => Some(cut),
        _ => Some(format!("{freed}, {cut}")),
    }
}

/// What is said where orphans cannot be freed.
pub fn orphans_left(image: &Path, error: &extant_engine::Error) -> String {
    format!("{}: its orphans cannot be freed: {}", image.display(), error.kind)
}

/// The volume as programs that judge it see it: after replay, where that is possible; else as it
/// is, which is said. One that is mounted is left as it is.
pub fn judged(image: &Path, device: Arc<dyn BlockDevice>, console: &Console) -> Judged {
    let as_it_is = |device| Judged { device, cut_at: None };
    if target::mount(image).is_some() {
        return as_it_is(device);
    }
    let judged = extant_engine::judged(device);
    if let Some(report) = &judged.report {
        say(image, report, console);
        say_left(image, report, console);
    }
    if let Some(failure) = &judged.failure {
        console.warn(&format!("{}: is not replayed: {failure}", image.display()));
    }
    Judged { cut_at: judged.cut_at(), device: judged.device }
}

/// Says how many fast commits were left.
fn say_left(image: &Path, report: &Report, console: &Console) {
    if report.outcome == Outcome::FastCommitsFollow {
        let shown = image.display();
        let count = counted(report.fast_commits.into(), "fast commit");
        console.warn(&format!("{shown}: {count} could not be replayed"));
    }
}

/// Says that a journal was replayed in memory, if it held anything.
fn say(image: &Path, report: &Report, console: &Console) {
    let is_short = matches!(report.end, End::Damaged { .. });
    if report.transactions == 0 && report.fast_commits == 0 && !is_short {
        return;
    }
    let end = match end(report) {
        Some(end) if is_short => format!("; {end}"),
        _ => String::new(),
    };
    let held = held(report);
    let said = format!(
        "{}: its journal was replayed in memory: {held}; nothing is written{end}",
        image.display()
    );
    match is_short {
        // What was lost is said to who wants to hear nothing, too.
        true => console.skipped(&said),
        false => console.warn(&said),
    }
}

/// What is said of a log that damage cuts; `None` of another.
pub fn cut(image: &Path, report: &Report) -> Option<String> {
    let end = matches!(report.end, End::Damaged { .. }).then(|| end(report)).flatten()?;
    Some(format!("{}: the log of its journal is damaged: {end}", image.display()))
}

/// What a journal held: "3 transactions (2 to 4), 158 blocks".
pub fn held(report: &Report) -> String {
    let sequences = report.sequences.map(|(first, last)| match first == last {
        true => format!(" ({first})"),
        false => format!(" ({first} to {last})"),
    });
    let mut held = format!(
        "{}{}, {}",
        counted(report.transactions as u64, "transaction"),
        sequences.unwrap_or_default(),
        counted(report.blocks as u64, "block")
    );
    if report.fast_commits > 0 {
        held += &format!(
            ", {} with {}",
            counted(report.fast_commits.into(), "fast commit"),
            counted(report.fast_changes as u64, "change")
        );
    }
    held
}

/// Why the log ends, where it is not between transactions.
pub fn end(report: &Report) -> Option<String> {
    match &report.end {
        End::Clean => None,
        End::Unfinished(sequence) => Some(format!("transaction {sequence} was not finished")),
        End::Damaged { sequence, block, fault } => Some(format!(
            "transaction {sequence} is damaged, and left out with all after it: block {block} of \
             the journal: {fault}"
        )),
    }
}

/// "1 block", "2 blocks".
pub fn counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}

/// What recovery found and did, for programs.
#[derive(Serialize)]
pub struct Record {
    outcome: &'static str,
    transactions: usize,
    first: Option<u32>,
    last: Option<u32>,
    blocks: usize,
    block_size: u32,
    revoked: u64,
    fast_commits: u32,
    fast_changes: usize,
    /// "clean", "unfinished" or "damaged".
    end: &'static str,
    /// Why, in words, where it is not clean.
    end_reason: Option<String>,
    journal_error: i32,
}

/// A report as JSON.
pub fn record(report: &Report) -> Record {
    Record {
        outcome: match report.outcome {
            Outcome::NoJournal => "no-journal",
            Outcome::Clean => "clean",
            Outcome::Empty => "empty",
            Outcome::Stale => "stale",
            Outcome::Replayed | Outcome::FastCommitsFollow => "replayed",
        },
        transactions: report.transactions,
        first: report.sequences.map(|(first, _)| first.0),
        last: report.sequences.map(|(_, last)| last.0),
        blocks: report.blocks,
        block_size: report.block_size,
        revoked: report.revoked,
        fast_commits: report.fast_commits,
        fast_changes: report.fast_changes,
        end: match report.end {
            End::Clean => "clean",
            End::Unfinished(_) => "unfinished",
            End::Damaged { .. } => "damaged",
        },
        end_reason: end(report),
        journal_error: report.journal_error,
    }
}
