//! `extant normalize`: a volume laid out anew, as a build would make it.
use super::check;
use crate::shipping::copied;
use extant_block::BlockDevice;
use extant_engine::Filesystem;
use extant_engine::mkfs::Contents;
use extant_host::advice;
use extant_host::closed::{self, Volume};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::place::folder_of;
use extant_host::progress::Unit;
use extant_host::target::{Existing, Target};
use extant_image::ErrorKind;
use extant_image::assemble::{Destination, Place};
use extant_image::normalize::{Normalized, Spool, normalize};

use extant_repair::Scope;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lay a volume out anew, as if it had just been built: for images that were mounted or booted.
///
/// What is in it is built again with its own UUID, hash seed, label, size, features and other
/// options, and its time of creation: as extant tar IMAGE | extant build - OUT with all of them
/// given. So two images with the same content are the same bytes, whatever was done with them
/// before, and one that extant build made comes out as it was if its files are as they were. Access
/// and change times are the modify time then, free blocks are holes, numbers of inodes and
/// generations are those of a new volume, and sockets are left out.
///
/// Without OUT a new file takes the place of the image once it is whole; what is outside of the
/// volume, a partition table and other partitions, stays byte by byte. With OUT the image is only
/// read, and may be compressed or qcow2; what OUT is follows from its name: .zst and .gz are
/// compressed, .qcow2 is QEMU's format.
///
/// A journal that waits and orphans are brought to an end first; a damaged volume is refused, and
/// so is one with what no build makes, such as a journal on another device.
///
/// Exit codes: 0 it is laid out anew; 1 failed, and the image is as it was; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant normalize disk.img               after a boot: as it was built, with what has changed
  extant normalize disk.img new.img.zst   the image stays, the new one is compressed
  extant normalize disk.img@2             the volume of a partition, and nothing else
  extant normalize vm.qcow2 vm.img && sha256sum vm.img
  extant normalize --json disk.img | jq .free_blocks")]
pub struct Arguments {
    /// The image: a file, or a partition in one (IMAGE@2)
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Another file that is to be the new image
    #[arg(value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Replace OUT if it is there
    #[arg(long, short = 'F', requires = "out")]
    pub force: bool,
    /// How many threads share a check; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Document {
    image: String,
    out: Option<String>,
    block_size: u32,
    blocks: u64,
    free_blocks: u64,
    inodes: u32,
    free_inodes: u32,
    uuid: String,
    /// Sockets, which are left out.
    sockets: Vec<String>,
    /// What is not kept of what the volume said of itself.
    unkept: Vec<&'static str>,
    /// Bytes of the new image's file.
    image_bytes: u64,
}

/// Lays it out anew and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.place.journal.is_some() {
        return Err(Error::usage("--journal: no build gives a volume a journal on another device"));
    }
    let (normalized, image_bytes) = match &arguments.out {
        None => in_place(&arguments, console)?,
        Some(out) => copied(&arguments, out, console)?,
    };
    told(&arguments, normalized, image_bytes, console)
}

/// The disk with the old volume.
struct Old<'a> {
    device: Arc<dyn BlockDevice>,
    disk: &'a dyn BlockDevice,
    start: u64,
}

/// Writes the new file beside the image and gives it the image's name.
fn in_place(arguments: &Arguments, console: &Console) -> Result<(Normalized, u64), Error> {
    let (image, place) = (&arguments.image, &arguments.place);
    let found = extant_host::disk::writable(image, place.offset_bytes())?;
    let is_device = |metadata: std::fs::Metadata| metadata.file_type().is_block_device();
    if std::fs::metadata(&found.file).is_ok_and(is_device) {
        let shown = image.display();
        return Err(Error::new(format!("{shown}: is a block device, and has no second name"))
            .hint(format!("extant normalize {shown} OUT makes a file, and dd copies that")));
    }
    let volume = Volume::open(image, place, None)?;
    let old =
        Old { device: Arc::clone(&volume.device), disk: volume.disk(), start: volume.start() };
    let target = volume.replacement()?;
    let raw = target.file.try_clone().map_err(|error| target.write_error(&error))?;
    let normalized = old.laid_out(arguments, (&raw, &target), console)?;
    target.file.sync_all().map_err(|error| target.write_error(&error))?;
    let metadata = target.file.metadata().map_err(|error| target.write_error(&error))?;
    target.finish()?;
    Ok((normalized, metadata.len()))
}

/// Writes the new image as another file.
fn copied(
    arguments: &Arguments,
    out: &Path,
    console: &Console,
) -> Result<(Normalized, u64), Error> {
    let image = &arguments.image;
    let (found, disk) = image::on_disk(image, &arguments.place, Some(console))?;
    image::warn_if_mounted(image, console);
    let start = found.place().start();
    let old = Old { device: Arc::clone(&found.device), disk: &*disk, start };
    let mut normalized = None;
    let mut fill = |raw: &File, target: &Target| {
        normalized = Some(old.laid_out(arguments, (raw, target), console)?);
        Ok(())
    };
    let existing = if arguments.force { Existing::Overwrite } else { Existing::Refuse };
    let bytes = copied::image((out, existing), disk.info().bytes, &mut fill, console)?;
    let missing = || Error::new(format!("{}: nothing was built", out.display()));
    Ok((normalized.ok_or_else(missing)?, bytes))
}

impl Old<'_> {
    /// Writes the disk with the new volume to an empty file.
    fn laid_out(
        &self,
        arguments: &Arguments,
        (raw, target): (&File, &Target),
        console: &Console,
    ) -> Result<Normalized, Error> {
        let image = &arguments.image;
        let threads = arguments.threads.unwrap_or_else(closed::machine_threads);
        let options = closed::options(Scope::Safe, threads, Some(check::listener(console)))?;
        let device = extant_repair::sound(Arc::clone(&self.device), options)
            .map_err(|error| refused(arguments, &*self.device, error))?;
        let failed = |error| image::failure(image, error);
        let filesystem = Filesystem::open(Arc::clone(&device), &image::read_options()?);
        let filesystem = filesystem.map_err(failed)?;
        let superblock = filesystem.superblock();
        let bytes = superblock.blocks_count.saturating_mul(superblock.block_size().into());
        let disk_bytes = self.disk.info().bytes;
        let (start, end) = (self.start, self.start.saturating_add(bytes).min(disk_bytes));
        let written = |error: io::Error| target.write_error(&error);
        raw.set_len(disk_bytes).map_err(written)?;
        let folder = std::env::var_os("TMPDIR")
            .map_or_else(|| folder_of(&target.path).to_owned(), PathBuf::from);
        let archive = tempfile::tempfile_in(&folder);
        let archive = archive.map_err(|error| Error::io(folder.display(), &error))?;
        let destination = Destination {
            medium: raw,
            name: image.display().to_string(),
            place: Place::Part { end_bytes: end, contents: Contents::Zeros },
        };
        let normalized = {
            let progress = console.progress("build", Unit::Bytes, 0);
            normalize(
                (&*device, &filesystem),
                Spool { archive, folder: Some(folder) },
                (&destination, start),
                &mut || raw.set_len(0).and_then(|()| raw.set_len(disk_bytes)),
                &progress,
            )
        };
        let normalized = normalized.map_err(|error| match &error.kind {
            ErrorKind::Write(cause) => target.write_error(cause),
            _ => {
                let error = Error::from(error);
                let message = match error.message.starts_with(&destination.name) {
                    true => error.message,
                    false => format!("{}: {}", destination.name, error.message),
                };
                Error { message, ..error }
            }
        })?;
        copied::copy((self.disk, 0..start), (raw, 0)).map_err(written)?;
        copied::copy((self.disk, end..disk_bytes), (raw, end)).map_err(written)?;
        Ok(normalized)
    }
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

fn told(
    arguments: &Arguments,
    normalized: Normalized,
    image_bytes: u64,
    console: &Console,
) -> Result<Exit, Error> {
    let Normalized { built, sockets, unkept, notices } = normalized;
    let image = arguments.image.display();
    for path in &sockets {
        console.warn(&format!("{image}: {path}: is a socket, and is left out"));
    }
    for what in &unkept {
        console.warn(&format!("{image}: {what} is not kept"));
    }
    for (kind, tally) in notices.kinds() {
        let advice = advice::of_notice(kind);
        tally.named.iter().for_each(|sentence| console.warn(&format!("{sentence}{advice}")));
    }
    let document = Document {
        image: image.to_string(),
        out: arguments.out.as_ref().map(|out| out.display().to_string()),
        block_size: built.block_size,
        blocks: built.blocks,
        free_blocks: built.free_blocks,
        inodes: built.inodes,
        free_inodes: built.free_inodes,
        uuid: extant_inspect::uuid(&built.uuid),
        sockets,
        unkept,
        image_bytes,
    };
    if console.is_json() {
        console.print_json("extant-normalize/1", &document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.out.as_ref().unwrap_or(&arguments.image).display();
    console.report(&format!(
        "{shown}: laid out anew: {} blocks of {} bytes, {} free\n",
        document.blocks, document.block_size, document.free_blocks
    ))?;
    Ok(Exit::Complete)
}
