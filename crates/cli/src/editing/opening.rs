//! An image that is locked and open for a change.
use super::EditArguments;
use extant_block::{BlockDevice, Overlay};
use extant_edit::redo::{self, Identity};
use extant_edit::{Change, ChangeOptions, OnErrors};
use extant_engine::{ErrorKind, Orphans, check_written, read_superblock, recover, recovered};
use extant_host::change_failure;
use extant_host::console::Console;
use extant_host::disk;
use extant_host::error::Error;
use extant_host::image;
use extant_host::journal;
use extant_host::recovery;
use extant_host::source_options::clock;
use extant_host::target::{self, Target};
use extant_journal::Report;
use std::path::Path;
use std::sync::Arc;

/// Bytes of blocks that a dry run keeps in memory.
const DRY_BYTES_MAX: u64 = 256 << 20;
/// Any block of a volume is made of these.
const DRY_BLOCK_BYTES: u32 = 1024;

/// An image under a change.
pub struct Opened {
    /// The change.
    pub change: Change,
    /// The image, locked.
    pub target: Target,
}

/// Opens an image, after its journal was replayed.
///
/// # Errors
/// It is missing, in use, no ext volume, or one that cannot be changed.
pub fn open(image: &Path, arguments: &EditArguments, console: &Console) -> Result<Opened, Error> {
    let offset = arguments.place.offset_bytes();
    // What it is is found out first: words for what is no volume, and nothing is opened to write.
    drop(image::device(image, &arguments.place)?);
    let place = disk::changeable(image, offset)?;
    let target = Target::in_place(&place.file)?;
    if let Some(log) = &arguments.log {
        let finished = target.end_change(log);
        target::say_finished(image, finished.map_err(|error| change_failure::of(image, error))?);
    }
    let disk = target.disk(clock()?, &image.display().to_string())?.device;
    let bytes = disk.info().bytes;
    let device = place.on(Arc::clone(&disk), image);
    let device = journal::write(image, arguments.place.journal.as_deref(), device)?;
    // Nothing is replayed on a volume that is not written then.
    if let Ok(superblock) = read_superblock(&*device) {
        check_written(&superblock).map_err(|error| image::failure(image, error))?;
    }
    let report = recover(&device).map_err(|error| match error.kind {
        ErrorKind::NotExt => image::not_ext(image, &*device, offset),
        _ => image::failure(image, error),
    })?;
    if let Some(report) = report {
        say_replayed(image, &report, console);
    }
    let beside = target.device_bytes.is_none().then(|| redo::path_of(&target.path)).flatten();
    let log = arguments.log.clone().or(beside);
    let identity = Identity { offset: place.start(), image_bytes: bytes };
    let options = ChangeOptions {
        redo: log.map(|log| (log, identity)),
        on_errors: on_errors(arguments),
        held_bytes_max: None,
    };
    let change = Change::open(Arc::clone(&device), &options);
    let change = change.map_err(|error| change_failure::of(image, error))?;
    recovery::warn_if_damaged(image, &device, console);
    disk::warn_of_hash_tree(image, (&place, &*disk), change.superblock(), console);
    Ok(Opened { change, target })
}

/// Opens an image for a change that stays in memory.
///
/// # Errors
/// As [`open`], but for images in use by readers.
pub fn open_dry(
    image: &Path,
    arguments: &EditArguments,
    console: &Console,
) -> Result<Change, Error> {
    let offset = arguments.place.offset_bytes();
    let device = image::device(image, &arguments.place)?;
    image::warn_if_mounted(image, console);
    let recovered = recovered(Arc::clone(&device), Orphans::Leave);
    let recovered = recovered.map_err(|error| match error.kind {
        ErrorKind::NotExt => image::not_ext(image, &*device, offset),
        _ => image::failure(image, error),
    })?;
    if let Some(report) = &recovered.report {
        say_replayed(image, &report.journal, console);
    }
    recovery::warn_if_damaged(image, &recovered.device, console);
    let over = Overlay::new(recovered.device, DRY_BLOCK_BYTES, DRY_BYTES_MAX);
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let options = ChangeOptions { on_errors: on_errors(arguments), ..ChangeOptions::default() };
    let change = Change::open(Arc::new(over.with_spool(spool)), &options);
    change.map_err(|error| change_failure::of(image, error))
}

fn say_replayed(image: &Path, report: &Report, console: &Console) {
    if report.transactions > 0 {
        let held = recovery::held(report);
        console.warn(&format!("{}: its journal was replayed: {held}", image.display()));
    }
    if let Some(cut) = recovery::cut(image, report) {
        console.skipped(&cut);
    }
}

fn on_errors(arguments: &EditArguments) -> OnErrors {
    match arguments.despite_errors {
        true => OnErrors::Continue,
        false => OnErrors::Refuse,
    }
}
