//! Volumes whose journal has to be replayed, as they are after that: in memory, nothing is written.
use crate::console::Console;
use crate::target;
use extant_block::BlockDevice;
use extant_engine::{ErrorKind, Orphans, read_superblock, recovered};
use extant_format::superblock::{Feature, Superblock};
use extant_journal::{End, MEMORY_BYTES_MAX, Outcome, Report};
use serde::Serialize;
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
    let needs = |volume: Superblock| volume.has(Feature::NEEDS_RECOVERY);
    if read_superblock(&*device).is_ok_and(needs) && target::mount(image).is_some() {
        return Err(ErrorKind::NeedsRecovery.into());
    }
    let recovered = recovered(device, Orphans::Finish)?;
    if let Some(report) = &recovered.report {
        say(image, &report.journal, console);
    }
    Ok(recovered.device)
}

/// The volume as programs that judge it see it: after replay, where that is possible; else as it
/// is, which is said. One that is mounted is left as it is.
pub fn judged(
    image: &Path,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Arc<dyn BlockDevice> {
    if target::mount(image).is_some() {
        return device;
    }
    if let Ok(recovered) = recovered(Arc::clone(&device), Orphans::Leave) {
        if let Some(report) = &recovered.report {
            say(image, &report.journal, console);
        }
        return recovered.device;
    }
    // Features that the engine does not support, or fast commits that are damaged: full commits are
    // replayed without it.
    match extant_journal::overlay(Arc::clone(&device), MEMORY_BYTES_MAX) {
        Ok((overlay, report)) => {
            say(image, &report, console);
            if report.outcome == Outcome::FastCommitsFollow {
                let shown = image.display();
                let count = counted(report.fast_commits.into(), "fast commit");
                console.warn(&format!("{shown}: {count} could not be replayed"));
            }
            overlay
        }
        // Who opens the volume says what is wrong with it.
        Err(extant_journal::Error::Volume(_)) => device,
        Err(error) => {
            console.warn(&format!("{}: is not replayed: {error}", image.display()));
            device
        }
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
    console.warn(&format!(
        "{}: its journal was replayed in memory: {held}; nothing is written{end}",
        image.display()
    ));
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
