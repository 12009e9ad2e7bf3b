//! `extant replay`: what the journal holds is put in its place.
use extant_block::{BlockDevice, RealClock};
use extant_engine::{OrphanCounts, Orphans, free_orphans, recover, recovered, without_orphans};
use extant_host::console::Console;
use extant_host::disk;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::journal;
use extant_host::recovery::{self, Record, counted};
use extant_host::target::Target;
use extant_journal::{End, Found, MapSource, Outcome, Recovery, Report};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Replay the journal of a volume that was not unmounted: what it holds is written to its places,
/// and the journal is emptied.
///
/// As `e2fsck -E journal_only`. Transactions that are whole are replayed, in order, up to the first
/// one that is not; a journal that is damaged ends before the damage, which is said. Nothing is
/// written when the journal names blocks that are not the volume's. What is interrupted can be
/// begun again. Then files that were deleted while they were open are freed, and files whose
/// truncation had begun are cut to their size, as a mount does it; --journal-only leaves them.
///
/// Other commands that only read (ls, cat, stat, tar, info, layout, check) do the same in memory,
/// and leave the image as it is.
///
/// Exit codes: 0 replayed, or there was nothing to replay; 1 failed: it is no volume, it is in use,
/// its journal or its list of orphans cannot be, or the journal was replayed up to damage, and what
/// followed is lost (the volume then asks for a check); 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant replay disk.img
  extant replay --dry-run disk.img      say what would be replayed, write nothing
  extant replay --journal-only disk.img what the journal holds, and nothing else
  extant replay --json disk.img | jq .transactions
  extant replay --offset 1M whole-disk.img && extant check --offset 1M whole-disk.img")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Only say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Leave the files that wait to be freed or cut
    #[arg(long)]
    pub journal_only: bool,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Document {
    image: String,
    dry_run: bool,
    #[serde(flatten)]
    record: Record,
    /// What became of orphans; `null` with --journal-only, or where none waited.
    orphans: Option<OrphansRecord>,
}

#[derive(Serialize)]
struct OrphansRecord {
    freed: u64,
    truncated: u64,
}

/// Replays it, and says what that was.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let image = &arguments.image;
    let offset = arguments.place.offset_bytes();
    // An image that is open for reading is not opened for writing: what it is is found out first.
    let (opened, target) = match arguments.dry_run {
        true => (image::device_shown(image, &arguments.place, console)?, None),
        false => {
            let place = disk::changeable(image, offset)?;
            let target = Target::in_place(&place.file)?;
            let disk = target.disk(RealClock::new(), &image.display().to_string())?;
            let volume = place.on(disk.device, image);
            let journal = arguments.place.journal.as_deref();
            (journal::write(image, journal, volume)?, Some(target))
        }
    };
    let failed = |error: extant_engine::Error| match error.kind {
        extant_engine::ErrorKind::NotExt => image::not_ext(image, &*opened, offset),
        _ => image::failure(image, error),
    };
    let (report, orphans) = match &target {
        None => {
            let recovered = recovered(Arc::clone(&opened), Orphans::Leave).map_err(failed)?;
            let orphans = || without_orphans(&recovered.device);
            let orphans = waiting(&arguments, || Ok(orphans()?.map(|(_, counts)| counts)));
            (recovered.report.map(|report| report.journal), orphans)
        }
        Some(_) => {
            let report = recover(&opened).map_err(failed)?;
            (report, waiting(&arguments, || free_orphans(&opened)))
        }
    };
    if let Some(target) = target {
        target.finish()?;
    }
    let report = match report {
        Some(report) => report,
        None => nothing(&arguments, &opened)?,
    };
    let cut = recovery::cut(image, &report);
    cut.iter().for_each(|cut| console.skipped(cut));
    let counts = orphans.as_ref().ok().copied().flatten();
    print(&arguments, &report, counts, console)?;
    if let Err(error) = orphans {
        return Err(Error::new(recovery::orphans_left(image, &error))
            .hint("e2fsck -f lists and mends them; --journal-only leaves them"));
    }
    Ok(if cut.is_some() { Exit::Incomplete } else { Exit::Complete })
}

/// What becomes of orphans, unless they are to be left.
fn waiting(
    arguments: &Arguments,
    finish: impl FnOnce() -> Result<Option<OrphanCounts>, extant_engine::Error>,
) -> Result<Option<OrphanCounts>, extant_engine::Error> {
    if arguments.journal_only { Ok(None) } else { finish() }
}

fn print(
    arguments: &Arguments,
    report: &Report,
    orphans: Option<OrphanCounts>,
    console: &Console,
) -> Result<(), Error> {
    let image = &arguments.image;
    if console.is_json() {
        console.print_json(
            "extant-replay/1",
            &Document {
                image: image.display().to_string(),
                dry_run: arguments.dry_run,
                record: recovery::record(report),
                orphans: orphans
                    .map(|OrphanCounts { freed, truncated }| OrphansRecord { freed, truncated }),
            },
        )
    } else {
        let would = if arguments.dry_run { "would have " } else { "" };
        let orphans = orphans.and_then(recovery::orphans_finished);
        let orphans = orphans.map(|orphans| format!("; {would}{orphans}")).unwrap_or_default();
        let sentence = sentence(arguments, report);
        console.print(&format!("{}: {sentence}{orphans}\n", image.display()))
    }
}

/// Why nothing is to be recovered.
fn nothing(arguments: &Arguments, device: &Arc<dyn BlockDevice>) -> Result<Report, Error> {
    match Recovery::find(Arc::clone(device), MapSource::Inode, 0) {
        Ok(Found::Nothing(report)) => Ok(report),
        Ok(Found::Recovery(recovery)) => Ok(recovery.report()),
        Err(error) => Err(Error::new(format!("{}: {error}", arguments.image.display()))),
    }
}

fn sentence(arguments: &Arguments, report: &Report) -> String {
    let (did, emptied) = match arguments.dry_run {
        true => ("would replay", "would be emptied"),
        false => ("replayed", "is empty now"),
    };
    match report.outcome {
        Outcome::NoJournal => "it has no journal".to_owned(),
        Outcome::Clean => "its journal is empty: there is nothing to replay".to_owned(),
        Outcome::Empty => "its journal was empty: the volume needs no recovery any more".to_owned(),
        Outcome::Stale => "its journal holds transactions, but the volume needs no recovery: they \
                           are left alone"
            .to_owned(),
        Outcome::Replayed | Outcome::FastCommitsFollow => {
            let mut text = format!("{did} {}", recovery::held(report));
            if report.revoked > 0 {
                text += &format!("; {} revoked", counted(report.revoked, "block"));
            }
            if report.journal_error != 0 {
                // It is a negative errno. Linux and we record it alike: who did is not known.
                let error = std::io::Error::from_raw_os_error(report.journal_error.wrapping_neg());
                text += &format!("; an error had stopped it: {error}");
            }
            if let (Some(end), false) =
                (recovery::end(report), matches!(report.end, End::Damaged { .. }))
            {
                text += &format!("; {end}");
            }
            format!("{text}; the journal {emptied}")
        }
    }
}
