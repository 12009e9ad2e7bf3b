//! `extant trim`: free blocks become holes, and what is left of old names and contents goes.
mod map;

use super::check;
use crate::shipping::copied;
use crate::shipping::words::CopyArguments;
use extant_block::BlockDevice;
use extant_edit::emptied::{self, Doing, Emptying};
use extant_edit::undo::Keep;
use extant_host::closed::{self, Volume};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::counted;
use extant_host::target::Target;
use extant_repair::{Scope, Scrub, TrimOptions, Trimmed};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make free blocks holes, or zeros, and clean an image of what was deleted.
///
/// Which blocks are free is counted by a whole check, not taken from the bitmaps; a volume that is
/// not clean is refused. In a file they become holes, so that it takes no more room on the host
/// than its content; a block device gives them back where it can, and gets zeros where it cannot.
///
/// With --scrub everything goes that has no meaning: names that were removed from directories,
/// inodes that are free, attributes that are gone, the rest of a file's last block, blocks that
/// were kept for a file and never written, what was in the journal. Files, names, attributes, times
/// and numbers of inodes stay.
///
/// The volume is healed first (extant heal). Changes of blocks that are in use go through a log
/// beside the image (.NAME.extant-redo), as those of a repair. With OUT the image is only read, and
/// may be compressed or qcow2; what OUT is follows from its name: .zst and .gz are compressed,
/// .qcow2 is QEMU's format.
///
/// Exit codes: 0 it is trimmed; 1 failed: no file has changed; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant trim disk.img                    free blocks are holes of the file
  extant trim --scrub disk.img            before it is given away: deleted names and contents go
  extant trim --scrub disk.img clean.img.zst     the image stays, the clean one is compressed
  extant trim --zero /dev/sdb1            zeros where a device gives nothing back
  extant trim -n --json disk.img | jq .emptied_bytes
  extant trim --map bmap disk.img disk.bmap      bmaptool copies what is in use, and no more
  extant trim --map json disk.img@2 | jq .ranges")]
pub struct Arguments {
    /// The image: a file, a partition in one (IMAGE@2) or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Another file that is to be the trimmed image; with --map, the file of the map
    #[arg(value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Clean blocks that are in use, too, of what has no meaning any more
    #[arg(long)]
    pub scrub: bool,
    /// Write zeros, and make no holes
    #[arg(long, conflicts_with = "out")]
    pub zero: bool,
    /// Change nothing, and say which blocks are in use, of the whole disk: as bmaptool reads it
    /// (bmap), or as JSON
    #[arg(long, value_name = "FORM", conflicts_with_all = ["scrub", "zero", "dry_run", "no_heal"])]
    pub map: Option<map::Form>,
    /// Only say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Refuse a volume whose journal or orphans wait, in place of healing it first
    #[arg(long)]
    pub no_heal: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub copy: CopyArguments,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Document {
    image: String,
    out: Option<String>,
    dry_run: bool,
    scrubbed: bool,
    block_size: u32,
    free_blocks: u64,
    /// Blocks in use that nothing reads: of the journal, of free inodes, never written ones.
    unread_blocks: u64,
    /// Blocks in use that were cleaned, through the log.
    blocks_written: u64,
    /// Bytes of free and unread blocks that were no holes, or no zeros where these are written.
    emptied_bytes: u64,
    /// Bytes of OUT's file.
    image_bytes: Option<u64>,
}

/// Trims it and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.place.journal.is_some() {
        return Err(Error::usage("--journal: a volume with that on another device is not trimmed"));
    }
    if let Some(form) = arguments.map {
        return map::run(&arguments, form, console);
    }
    let document = match (&arguments.out, arguments.dry_run) {
        (None, false) => in_place(&arguments, console)?,
        (out, _) => read_only(&arguments, out.as_deref(), console)?,
    };
    told(&arguments, &document, console)
}

impl Arguments {
    fn emptying(&self) -> Emptying {
        if self.zero { Emptying::Zeros } else { Emptying::Holes }
    }

    fn document(&self, trimmed: &Trimmed) -> Document {
        let count = |ranges: &[Range<u64>]| ranges.iter().map(|it| it.end - it.start).sum();
        Document {
            image: self.image.display().to_string(),
            out: self.out.as_ref().map(|out| out.display().to_string()),
            dry_run: self.dry_run,
            scrubbed: self.scrub,
            block_size: trimmed.superblock.block_size(),
            free_blocks: trimmed.free_blocks(),
            unread_blocks: count(&trimmed.unread),
            blocks_written: trimmed.overlay.written().len() as u64,
            emptied_bytes: 0,
            image_bytes: None,
        }
    }
}

/// What of the volume has no meaning.
fn planned(
    arguments: &Arguments,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Trimmed, Error> {
    let options = TrimOptions {
        scrub: if arguments.scrub { Scrub::Stale } else { Scrub::Nothing },
        threads: arguments.copy.threads(),
        // Without a place for it the changes have to fit into memory.
        spool: tempfile::tempfile().ok(),
        progress: Some(check::listener(console)),
    };
    let failed = |error| refused(arguments, &*device, error);
    extant_repair::trim(Arc::clone(&device), options).map_err(failed)
}

fn refused(arguments: &Arguments, device: &dyn BlockDevice, error: extant_repair::Error) -> Error {
    let is_damaged = matches!(error, extant_repair::Error::Unclean(_));
    let error = closed::failure(&arguments.image, device, &arguments.place, error);
    match is_damaged {
        true => error.hint(format!(
            "nothing was changed; extant repair {} mends it, with --all what loses something, too",
            arguments.image.display()
        )),
        false => error,
    }
}

/// Trims it where it is.
fn in_place(arguments: &Arguments, console: &Console) -> Result<Document, Error> {
    let (image, place) = (&arguments.image, &arguments.place);
    let volume = Volume::open(image, place, arguments.log.as_deref())?;
    if !arguments.no_heal {
        let failed = |error| refused(arguments, &*volume.device, error);
        let plan = |device| planned(arguments, device, console).map(drop);
        volume.settle(failed, plan, console)?;
    }
    let trimmed = planned(arguments, Arc::clone(&volume.device), console)?;
    let changes = (&*trimmed.overlay, trimmed.superblock.block_size());
    let applied = volume.apply(changes, (Keep::Nothing, None), console)?;
    let emptied_bytes = volume.empty(&trimmed.bytes_to_empty(), arguments.emptying(), console)?;
    let document = arguments.document(&trimmed);
    Ok(Document { blocks_written: applied.blocks, emptied_bytes, ..document })
}

/// Writes the trimmed image as another file; without one, only says what would be emptied.
fn read_only(
    arguments: &Arguments,
    out: Option<&Path>,
    console: &Console,
) -> Result<Document, Error> {
    let image = &arguments.image;
    if out.is_none() {
        // What is only read can be looked at, but would not be trimmed in place.
        extant_host::disk::changeable(image, arguments.place.offset_bytes())?;
    }
    let (found, disk) = image::on_disk(image, &arguments.place, Some(console))?;
    image::warn_if_mounted(image, console);
    let settled = match arguments.no_heal {
        true => None,
        false => {
            let options = closed::options(Scope::Safe, arguments.copy.threads(), None)?;
            extant_repair::settled(Arc::clone(&found.device), options)
                .map_err(|error| refused(arguments, &*found.device, error))?
        }
    };
    let device = match settled {
        Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
        None => Arc::clone(&found.device),
    };
    let trimmed = planned(arguments, Arc::clone(&device), console)?;
    let failed = |error: io::Error| Error::io(image.display(), &error);
    let how = (arguments.emptying(), Doing::Nothing);
    let emptied_bytes = emptied::empty(&*device, &trimmed.bytes_to_empty(), how).map_err(failed)?;
    let document = Document { emptied_bytes, ..arguments.document(&trimmed) };
    let Some(out) = out.filter(|_| !arguments.dry_run) else { return Ok(document) };
    for range in &trimmed.free {
        trimmed.overlay.let_zeros(range.clone());
    }
    let start = found.place().start();
    let disk_bytes = disk.info().bytes;
    let size = u64::from(trimmed.superblock.block_size());
    let bytes = trimmed.superblock.blocks_count.saturating_mul(size);
    let end = start.saturating_add(bytes).min(disk_bytes);
    let mut fill = |raw: &File, target: &Target| {
        let written = || {
            raw.set_len(disk_bytes)?;
            copied::copy((&*disk, 0..start), (raw, 0))?;
            copied::copy((&*trimmed.overlay, 0..end - start), (raw, start))?;
            copied::copy((&*disk, end..disk_bytes), (raw, end)).map(|()| disk_bytes)
        };
        written().map_err(|error| target.write_error(&error))
    };
    let image_bytes = copied::image((out, arguments.copy.existing()), &mut fill, console)?;
    Ok(Document { image_bytes: Some(image_bytes), ..document })
}

fn told(arguments: &Arguments, document: &Document, console: &Console) -> Result<Exit, Error> {
    if console.is_json() {
        console.print_json("extant-trim/1", document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.out.as_ref().unwrap_or(&arguments.image).display();
    let what = if arguments.zero { "zeros" } else { "holes" };
    let bytes = document.emptied_bytes;
    let verb = if arguments.dry_run { "would become" } else { "became" };
    let mut line = format!("{shown}: {} {verb} {what}", counted(bytes, "byte"));
    if arguments.scrub {
        let blocks = counted(document.blocks_written, "block");
        let verb = if arguments.dry_run { "would be" } else { "were" };
        line += &format!("; {blocks} in use {verb} cleaned");
    }
    console.report(&format!("{line}\n"))?;
    Ok(Exit::Complete)
}
