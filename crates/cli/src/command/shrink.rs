//! `extant shrink`: an image as small as its files allow, in place or as another file.
use super::check;
use super::resize::{Ends, applied};
use crate::shipping::copied::{self, copy, data};
use crate::shipping::words::{CopyArguments, ShippingArguments};
use extant_block::BlockDevice;
use extant_disk::partitions;
use extant_host::closed::{self, DiskLength, Medium, Partition, Volume};
use extant_host::console::Console;
use extant_host::disk::Found;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::counted;
use extant_host::size::Size;
use extant_host::target::Target;
use extant_repair::{ResizeOptions, Resized, Scope};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make an image as small as its files allow, in place or as another file.
///
/// The volume gets the least size that it can have (as extant resize IMAGE min), or as much more as
/// --free says; its partition ends with it; and a disk whose last partition it is ends as soon as
/// its table allows, with the copy of a GPT at its new end. In place that is written through a log,
/// as a resize is. With OUT the image is only read, and may be compressed or qcow2; what OUT is
/// follows from its name: .zst and .gz are compressed, .qcow2 is QEMU's format.
///
/// Where something that is no zeros follows the volume, in its partition or after it, that stays,
/// and what it is in stays as long as it was; --cut cuts it off.
///
/// A journal that waits and orphans are brought to an end first; a damaged volume is refused.
///
/// Exit codes: 0 it is as small as that; 1 failed, and the image is as it was; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant shrink pi.img                    the last partition, its table, and the file
  extant shrink pi.img pi-small.img.zst   the image stays, the small one is compressed
  extant shrink --free 200M disk.img      200 MiB more than the least
  extant shrink disk.qcow2 small.qcow2    from and to other forms
  extant shrink -n disk.img@2             how small it would be, and nothing written")]
pub struct Arguments {
    /// The image: a file, or a partition in one (IMAGE@2)
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Another file that is to be the small image
    #[arg(value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Leave this much free
    #[arg(long, value_name = "SIZE")]
    pub free: Option<Size>,
    /// Cut off what follows the volume in its partition or its file, and is no part of it
    #[arg(long)]
    pub cut: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Only say how small it would be
    #[arg(long, short = 'n')]
    pub dry_run: bool,
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
    block_size: u32,
    blocks_before: u64,
    blocks_after: u64,
    blocks_moved: u64,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
    /// Bytes of OUT's file.
    image_bytes: Option<u64>,
}

/// Shrinks it and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.place.journal.is_some() {
        return Err(Error::usage(
            "--journal: a volume with that on another device does not get another size",
        ));
    }
    let done = match (&arguments.out, arguments.dry_run) {
        (None, false) => in_place(&arguments, console)?,
        (out, _) => copied(&arguments, out.as_deref(), console)?,
    };
    told(&arguments, &done, console)
}

/// What came of it.
struct Done {
    resized: Resized,
    disk_bytes: (u64, u64),
    image_bytes: Option<u64>,
}

/// The volume as it is to be.
fn planned(
    arguments: &Arguments,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Resized, Error> {
    let threads = arguments.copy.threads();
    let now_seconds = closed::now_seconds()?;
    let mut options = || ResizeOptions {
        threads,
        // Without a place for it the changes have to fit into memory.
        spool: tempfile::tempfile().ok(),
        now_seconds,
        progress: Some(check::listener(console)),
    };
    let failed = |error| refused(arguments, &*device, error);
    let least = extant_repair::minimize(Arc::clone(&device), &mut options).map_err(failed)?;
    let Some(free) = arguments.free else { return Ok(least) };
    let block_size = u64::from(least.before.block_size());
    let more = free.bytes(block_size).unwrap_or(u64::MAX).div_ceil(block_size);
    let blocks = least.after.blocks_count.saturating_sub(least.after.free_blocks);
    let blocks = blocks.saturating_add(more).max(least.after.blocks_count);
    match blocks >= least.before.blocks_count {
        true => extant_repair::resize(Arc::clone(&device), least.before.blocks_count, options()),
        false => extant_repair::resize(Arc::clone(&device), blocks, options()),
    }
    .map_err(failed)
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

/// Makes it small where it is.
fn in_place(arguments: &Arguments, console: &Console) -> Result<Done, Error> {
    let (image, place) = (&arguments.image, &arguments.place);
    let mut volume = Volume::open(image, place, arguments.log.as_deref())?;
    let failed = |error| refused(arguments, &*volume.device, error);
    let plan = |device| planned(arguments, device, console).map(drop);
    volume.settle(failed, plan, console)?;
    let resized = planned(arguments, Arc::clone(&volume.device), console)?;
    let before = volume.image_bytes();
    let mut partition = match volume.is_alone() {
        true => None,
        false => Some(volume.partition()?),
    };
    let start = volume.start();
    let kept = Kept::of(volume.disk(), (start, &resized), partition.as_ref());
    let kept = kept.map_err(|error| Error::io(image.display(), &error))?;
    let kept = if arguments.cut { Kept::Nothing } else { kept };
    let moving = partition.as_mut().filter(|_| kept != Kept::InPartition);
    let moving = moving.map(|partition| (partition, Ends::WithVolume));
    applied(&mut volume, &resized, moving, console)?;
    if let Some(partition) = partition.as_mut().filter(|_| kept == Kept::Nothing) {
        let end = partition.range().end;
        volume.set_partition(partition, end, DiskLength::Least)?;
    }
    let after = volume.length()?;
    kept.tell(image, console);
    let bytes = bytes_of(&resized);
    if partition.is_none() && after > bytes.saturating_add(u64::from(resized.after.block_size())) {
        console.warn(&format!(
            "{}: stays as long as it was: something else follows the volume",
            image.display()
        ));
    }
    Ok(Done { resized, disk_bytes: (before, after), image_bytes: None })
}

fn old_bytes(resized: &Resized) -> u64 {
    resized.before.blocks_count.saturating_mul(resized.before.block_size().into())
}

fn bytes_of(resized: &Resized) -> u64 {
    resized.after.blocks_count.saturating_mul(resized.after.block_size().into())
}

/// What is behind the volume, and stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// Something is behind it in its partition.
    InPartition,
    /// Something is behind its partition.
    OnDisk,
}

impl Kept {
    /// What is behind a volume that begins at a byte of a disk with partitions. What an earlier
    /// change has left there of the volume itself counts as something, too.
    fn of(
        disk: &dyn BlockDevice,
        (start, resized): (u64, &Resized),
        partition: Option<&Partition>,
    ) -> io::Result<Kept> {
        let Some(partition) = partition else { return Ok(Kept::Nothing) };
        let before = resized.before.blocks_count;
        let end = start.saturating_add(before.saturating_mul(resized.before.block_size().into()));
        let behind = partition.range().end;
        if !data(disk, end.min(behind)..behind)?.is_empty() {
            return Ok(Kept::InPartition);
        }
        let rest = partition.behind();
        Ok(if data(disk, rest)?.is_empty() { Kept::Nothing } else { Kept::OnDisk })
    }

    fn tell(self, image: &Path, console: &Console) {
        let place = match self {
            Kept::Nothing => return,
            Kept::InPartition => {
                "its partition stays as long as it was: something follows the volume"
            }
            Kept::OnDisk => "stays as long as it was: something follows the partition",
        };
        console.warn(&format!("{}: {place} (--cut cuts it off)", image.display()));
    }
}

/// Writes the small image as another file; without one, only says how small it is.
fn copied(arguments: &Arguments, out: Option<&Path>, console: &Console) -> Result<Done, Error> {
    let image = &arguments.image;
    let words = ShippingArguments::default();
    if let Some(out) = out {
        words.check(out, 0)?;
    }
    let (found, disk) = image::on_disk(image, &arguments.place, Some(console))?;
    image::warn_if_mounted(image, console);
    let options = closed::options(Scope::Safe, closed::machine_threads(), None)?;
    let settled = extant_repair::settled(Arc::clone(&found.device), options);
    let settled = settled.map_err(|error| refused(arguments, &*found.device, error))?;
    let device = match settled {
        Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
        None => Arc::clone(&found.device),
    };
    let resized = planned(arguments, device, console)?;
    let small = Small::of(arguments, (&found, &*disk), &resized)?;
    let disk_bytes = (disk.info().bytes, small.disk_bytes);
    let Some(out) = out.filter(|_| !arguments.dry_run) else {
        return Ok(Done { resized, disk_bytes, image_bytes: None });
    };
    let small_bytes = small.disk_bytes;
    small.kept.tell(image, console);
    let mut small = Some(small);
    let mut fill = |raw: &File, target: &Target| match small.take() {
        Some(small) => {
            let written = small.write((&*disk, &resized), raw);
            written.map(|()| small_bytes).map_err(|error| target.write_error(&error))
        }
        None => Ok(small_bytes),
    };
    let image_bytes = copied::image((out, arguments.copy.existing()), &mut fill, console)?;
    Ok(Done { resized, disk_bytes, image_bytes: Some(image_bytes) })
}

/// Where everything is on the disk with the small volume.
struct Small {
    start: u64,
    /// Where the volume's partition ended, or the volume where it has none; and where it ends.
    ends: (u64, u64),
    disk_bytes: u64,
    /// What follows the partition, or the volume, and stays where it is.
    rest: Range<u64>,
    partition: Option<Partition>,
    kept: Kept,
}

impl Small {
    fn of(
        arguments: &Arguments,
        (found, disk): (&Found, &dyn BlockDevice),
        resized: &Resized,
    ) -> Result<Small, Error> {
        let (image, place) = (&arguments.image, found.place());
        let before = disk.info().bytes;
        let (start, bytes) = (place.start(), bytes_of(resized));
        if partitions(disk).is_some() {
            let partition = Partition::of(image, (&place, disk), Medium::File)?;
            let failed = |error: io::Error| Error::io(image.display(), &error);
            let kept = Kept::of(disk, (start, resized), Some(&partition)).map_err(failed)?;
            let kept = if arguments.cut { Kept::Nothing } else { kept };
            let (old, end) = (partition.range().end, partition.end_for(bytes));
            let end = if kept == Kept::InPartition { old } else { end.min(old) };
            let length = match kept {
                Kept::Nothing => DiskLength::Least,
                Kept::InPartition | Kept::OnDisk => DiskLength::Kept,
            };
            let disk_bytes = partition.disk_bytes_for(end, length);
            // What is behind the volume in its partition is where it was.
            let from = match kept {
                Kept::InPartition => start + old_bytes(resized),
                Kept::Nothing | Kept::OnDisk => old,
            };
            let rest = if disk_bytes == before { from.min(before)..before } else { 0..0 };
            let partition = Some(partition);
            return Ok(Small { start, ends: (old, end), disk_bytes, rest, partition, kept });
        }
        let (old, end) = (start + old_bytes(resized), start + bytes);
        let failed = |error: io::Error| Error::io(image.display(), &error);
        let follows = !data(disk, old.min(before)..before).map_err(failed)?.is_empty();
        let (disk_bytes, rest) = match follows {
            true => (before, old.min(before)..before),
            false => (end, 0..0),
        };
        let kept = Kept::Nothing;
        Ok(Small { start, ends: (old, end), disk_bytes, rest, partition: None, kept })
    }

    fn write(self, (disk, resized): (&dyn BlockDevice, &Resized), raw: &File) -> io::Result<()> {
        raw.set_len(self.disk_bytes.max(self.ends.1))?;
        copy((disk, 0..self.start), (raw, 0))?;
        copy((&*resized.overlay, 0..bytes_of(resized)), (raw, self.start))?;
        copy((disk, self.rest.clone()), (raw, self.rest.start))?;
        match self.partition {
            Some(mut partition) => partition.write(raw, self.ends.1, self.disk_bytes),
            None => Ok(()),
        }
    }
}

fn told(arguments: &Arguments, done: &Done, console: &Console) -> Result<Exit, Error> {
    let Done { resized, disk_bytes: (before, after), image_bytes } = done;
    let Resized { before: old, after: new, .. } = resized;
    let document = Document {
        image: arguments.image.display().to_string(),
        out: arguments.out.as_ref().map(|out| out.display().to_string()),
        dry_run: arguments.dry_run,
        block_size: new.block_size(),
        blocks_before: old.blocks_count,
        blocks_after: new.blocks_count,
        blocks_moved: resized.moved_blocks,
        disk_bytes_before: *before,
        disk_bytes_after: *after,
        image_bytes: *image_bytes,
    };
    if console.is_json() {
        console.print_json("extant-shrink/1", &document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.out.as_ref().unwrap_or(&arguments.image).display();
    let verb = if arguments.dry_run { "would have" } else { "has" };
    let packed = image_bytes.filter(|bytes| bytes != after);
    let packed = packed.map_or(String::new(), |bytes| format!(", packed in {bytes}"));
    console.report(&format!(
        "{shown}: {verb} {after} bytes, before {before}{packed}; a volume of {}, before {}\n",
        counted(new.blocks_count, "block"),
        old.blocks_count
    ))?;
    Ok(Exit::Complete)
}
