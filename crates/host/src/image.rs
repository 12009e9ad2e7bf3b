//! An image that is only looked at: `IMAGE` and `IMAGE:/path`, opened without a trace, and what is
//! said when it cannot be.
//!
//! Nothing is ever written to an image that is opened here, not even a mount count.
use crate::console::Console;
use crate::disk::{self, Found, Place};
use crate::error::{Error, Exit};
use crate::held;
use crate::journal;
pub use crate::place::ImagePath;
use crate::place::{self, Part, VolumeName};
use crate::recognise;
use crate::recovery;
use crate::size::Size;
use crate::target;
use extant_archive::{printable, reason};
use extant_block::in_use::Mount;
use extant_block::{Access as DeviceAccess, BlockDevice, FileDevice, RealClock};
use extant_disk::partitions;
use extant_disk::read::Form;
use extant_edit::redo::{self, Identity};
use extant_engine::error::{Corrupt, Place as DiskPlace};
use extant_engine::preset::{DEFAULT_PRESET, Policies};
use extant_engine::{
    Access, DataKeeping, ErrorKind, Filesystem, Loss, Options, Salvaged, cache_for_blocks, salvaged,
};
use extant_format::superblock::Superblock;
use extant_format::{Fault, GroupNo};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for what is read more than once: maps, directories, inode tables.
const CACHE_BYTES: usize = 32 << 20;
/// Memory for what is read of a volume to learn which blocks are free.
const RUNS_BYTES: usize = 16 << 20;

// Options of every command that reads an image; flatten it into the command's own. No doc comment:
// clap would take it for the help of a command that has none itself.
#[derive(clap::Args, Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ImageArguments {
    /// Where the volume begins in the image: 1M, 2048s (sectors); a number without a unit counts
    /// bytes. IMAGE@2 and IMAGE@NAME name a partition, IMAGE@@1M is this option in the word itself
    #[arg(long, value_name = "BYTES")]
    pub offset: Option<Size>,
    /// The journal of a volume that has it on another device (mke2fs -J device=): a file or device
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

impl ImageArguments {
    /// The byte at which the volume begins.
    pub fn offset_bytes(&self) -> u64 {
        self.offset.and_then(|size| size.bytes(1)).unwrap_or(0)
    }

    /// The same for one of several images: the journal is that of those alone which have theirs on
    /// another device.
    #[must_use]
    pub fn among(&self, image: &Path) -> ImageArguments {
        let alone = ImageArguments { journal: None, ..self.clone() };
        let names_one =
            || device(image, &alone).is_ok_and(|volume| journal::is_elsewhere(&*volume));
        match self.journal.is_some() && names_one() {
            true => self.clone(),
            false => alone,
        }
    }
}

// Whether a command goes on over damage; flatten it into the command's own. No doc comment, as
// above.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct DamageArguments {
    /// Go on over damage: copies of superblock and descriptors are used, an image that is cut short
    /// is read as far as it goes, checksums are not believed, and what is lost is named, a line
    /// each; the exit code says that there was some
    #[arg(long)]
    pub force_read: bool,
}

/// The file system in an image, and what was lost of it.
pub struct Opened {
    /// The file system.
    pub filesystem: Filesystem,
    /// What was lost, or may be wrong, a line each, which were said: none unless that was asked
    /// for.
    pub skipped: Vec<String>,
}

impl DamageArguments {
    /// As [`open`], over damage where that was asked for: what was mended is said, and each thing
    /// that was lost.
    ///
    /// # Errors
    /// As [`open`]; too much is lost.
    pub fn open(
        self,
        image: &Path,
        place: &ImageArguments,
        console: &Console,
    ) -> Result<Opened, Error> {
        if !self.force_read {
            let filesystem = open(image, place, console)?;
            return Ok(Opened { filesystem, skipped: Vec::new() });
        }
        let device = device_shown(image, place, console)?;
        let failed = |error: extant_engine::Error| failure(image, error);
        let Salvaged { device, mended, skipped } = salvaged(device).map_err(failed)?;
        let filesystem = Filesystem::open(device, &options(CACHE_BYTES)?).map_err(failed)?;
        warn_if_mounted(image, console);
        let name = printable(image.as_os_str().as_bytes());
        mended.iter().for_each(|line| console.warn(&format!("{name}: {line}")));
        let skipped = lines(&filesystem, &skipped);
        for line in &skipped {
            // A path stands as it would be written to read it.
            let space = if line.starts_with('/') { "" } else { " " };
            console.skipped(&format!("{name}:{space}{line}"));
        }
        Ok(Opened { filesystem, skipped })
    }
}

impl Opened {
    /// How a command ends that found no other trouble.
    pub fn exit(&self) -> Exit {
        if self.skipped.is_empty() { Exit::Complete } else { Exit::Incomplete }
    }
}

/// What was lost of a volume, a line each: by the paths of the files, where names lead to them.
fn lines(filesystem: &Filesystem, losses: &[Loss]) -> Vec<String> {
    let inodes = losses.iter().flat_map(|loss| loss.inodes.iter().copied());
    let paths = match losses.iter().any(|loss| !loss.inodes.is_empty()) {
        true => filesystem.survey().map(|survey| survey.paths(inodes)).unwrap_or_default(),
        false => BTreeMap::new(),
    };
    let path = |ino| paths.get(&ino).map(|path| printable(path));
    losses.iter().map(|loss| loss.line(&path)).collect()
}

/// The image's bytes, opened for reading: those of the partition that the word names, or of the
/// only ext volume of a disk; of a compressed image, unpacked without a word.
///
/// # Errors
/// As [`find`].
pub fn device(image: &Path, place: &ImageArguments) -> Result<Arc<dyn BlockDevice>, Error> {
    find(image, place, None).map(|found| found.device)
}

/// The same, showing how far the unpacking is.
///
/// # Errors
/// As [`find`].
pub fn device_shown(
    image: &Path,
    place: &ImageArguments,
    console: &Console,
) -> Result<Arc<dyn BlockDevice>, Error> {
    find(image, place, Some(console)).map(|found| found.device)
}

/// The volume, and where it was found; after a change that was interrupted, as it is once that is
/// ended, and with the device of its journal behind it, where one is said.
///
/// # Errors
/// As [`disk::open`], [`after_redo`] and [`journal::read`].
pub fn find(
    image: &Path,
    place: &ImageArguments,
    console: Option<&Console>,
) -> Result<Found, Error> {
    on_disk(image, place, console).map(|(found, _)| found)
}

/// As [`find`], with all bytes of the disk, as [`disk::on_disk`] has them.
///
/// # Errors
/// As [`find`].
pub fn on_disk(
    image: &Path,
    place: &ImageArguments,
    console: Option<&Console>,
) -> Result<(Found, Arc<dyn BlockDevice>), Error> {
    let (found, disk) = disk::on_disk(image, place.offset_bytes(), console)?;
    let device = match found.form {
        Some(form) if form != Form::Qcow2 => Arc::clone(&found.device),
        _ => after_redo((&found.place(), disk.info().bytes), Arc::clone(&found.device))?,
    };
    let device = journal::read(image, place.journal.as_deref(), device)?;
    Ok((Found { device, ..found }, disk))
}

/// The volume as it is once a change of it that was interrupted is ended, if there is one; on a
/// disk of so many bytes.
///
/// # Errors
/// What the change left belongs to another image; the host's.
pub fn after_redo(
    (place, image_bytes): (&Place, u64),
    device: Arc<dyn BlockDevice>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    // Beside what a link points to, as where it is written.
    let resolved = place.file.canonicalize().ok();
    let Some(log) = resolved.as_deref().and_then(redo::path_of).filter(|log| log.exists()) else {
        return Ok(device);
    };
    let identity = Identity { offset: place.start(), image_bytes };
    Ok(redo::over(&log, &device, &identity)?.unwrap_or(device))
}

/// Warns of an image that the kernel has mounted and may write: it may change while it is read, and
/// what it holds may be older than what is seen below the mount point.
pub fn warn_if_mounted(image: &Path, console: &Console) {
    let mount = target::mount(image).filter(|mount| mount.access == DeviceAccess::ReadWrite);
    if let Some(Mount { folder, .. }) = mount {
        console.warn(&format!(
            "{}: is mounted on {}: what is read here may be old, or change meanwhile",
            image.display(),
            folder.display()
        ));
    }
}

/// The file system in an image. If its journal holds changes, they are replayed in memory, which is
/// said.
///
/// # Errors
/// As [`device`], and what [`failure`] says of the volume.
pub fn open(image: &Path, place: &ImageArguments, console: &Console) -> Result<Filesystem, Error> {
    let device = device_shown(image, place, console)?;
    let failed = |error: extant_engine::Error| match error.kind {
        ErrorKind::NotExt => not_ext(image, &*device, place.offset_bytes()),
        _ => failure(image, error),
    };
    let recovered = recovery::in_use(image, Arc::clone(&device), console).map_err(failed)?;
    let filesystem = Filesystem::open(recovered, &options(CACHE_BYTES)?).map_err(failed)?;
    warn_if_mounted(image, console);
    Ok(filesystem)
}

/// How a volume is opened of which everything is read.
///
/// # Errors
/// There is no preset of policies.
pub fn read_options() -> Result<Options, Error> {
    options(CACHE_BYTES)
}

/// The bytes of a new volume whose blocks are in use, and those before its first block.
///
/// # Errors
/// The volume cannot be opened; the host's.
pub fn occupied(raw: &File, volume: &Range<u64>) -> Result<Vec<Range<u64>>, Error> {
    const NAME: &str = "the new volume";
    let failed = |error: io::Error| Error::io(NAME, &error);
    let file = raw.try_clone().map_err(failed)?;
    let bytes = volume.end - volume.start;
    let device =
        FileDevice::from_file(RealClock::new(), file, NAME.to_owned(), bytes, volume.start);
    let failed_inside = |error| failure(Path::new(NAME), error);
    let filesystem = Filesystem::open(Arc::new(device.map_err(failed)?), &options(RUNS_BYTES)?);
    let filesystem = filesystem.map_err(failed_inside)?;
    let block_bytes = u64::from(filesystem.superblock().block_size());
    let mut used = Vec::new();
    let mut at = volume.start;
    for group in (0..filesystem.superblock().group_count()).map(GroupNo) {
        for (block, count) in filesystem.free_runs(group).map_err(failed_inside)? {
            let start = volume.start + block.0 * block_bytes;
            if start > at {
                used.push(at..start);
            }
            at = start + u64::from(count) * block_bytes;
        }
    }
    if volume.end > at {
        used.push(at..volume.end);
    }
    Ok(used)
}

/// How a volume is opened of which much is read.
///
/// # Errors
/// As [`default_policies`].
pub fn reading() -> Result<Options, Error> {
    options(CACHE_BYTES)
}

/// How a volume is opened that is only read.
fn options(cache_bytes: usize) -> Result<Options, Error> {
    Ok(Options {
        access: Access::ReadOnly,
        policies: default_policies()?,
        cache_bytes: cache_for_blocks(cache_bytes),
        data: DataKeeping::Bytes,
    })
}

/// The policies of a volume where nobody chose any.
///
/// # Errors
/// None: they are one of the presets.
pub fn default_policies() -> Result<Policies, Error> {
    DEFAULT_PRESET.parse().map_err(|error| Error::new(format!("policies: {error}")))
}

/// What is said of bytes that are no ext volume: what they are, where that is known, and what to do
/// with them; which of the partitions are ext, where there are some.
pub fn not_ext(image: &Path, device: &dyn BlockDevice, offset_bytes: u64) -> Error {
    let name = VolumeName::of(image);
    let shown = image.display().to_string();
    let refused =
        |what: &str| Error::new(format!("{shown}: not an ext2, ext3 or ext4 volume{what}"));
    let head = recognise::head(device, 0);
    if let Some(kind) = recognise::kind_of(&head) {
        let refused = refused(&format!(" but {}", kind.name));
        return refused.hint(match (&name.part, offset_bytes) {
            (Part::Unsaid, 0) => kind.advice(&shown),
            (Part::Partition(_) | Part::Byte(_), _) => format!(
                "losetup -P -r -f --show {} gives its partitions devices; then {}",
                name.file.display(),
                kind.advice("DEVICE")
            ),
            _ => format!(
                "losetup -r -f --show -o {offset_bytes} {shown} gives it a device; then {}",
                kind.advice("DEVICE")
            ),
        });
    }
    if offset_bytes == 0
        && name.part == Part::Unsaid
        && let Some(table) = partitions(device)
        && (!table.partitions.is_empty() || table.damage.is_some())
    {
        return refused(" but a disk with partitions").hint(place::listed(&shown, device, &table));
    }
    if let Some(start) = begins_elsewhere(device, offset_bytes) {
        return refused(&format!(" at byte {offset_bytes}"))
            .hint(format!("a superblock is there with --offset {start}"));
    }
    if let Some((block, block_size)) = superblock_copy(device) {
        return refused(": its superblock is lost").hint(format!(
            "there is a copy in block {block}, of {block_size} bytes: extant check {shown} judges \
             by it, extant extract --force-read {shown} DIR reads by it, and extant repair {shown} \
             mends the volume by it"
        ));
    }
    let stored = head.get(1024..).and_then(|bytes| bytes.first_chunk());
    let stored = stored.filter(|_| recognise::is_ext(&head));
    if let Some(Err(error)) = stored.map(Superblock::parse_corrected) {
        return Error::new(format!("{shown}: {error}, and there is no copy of it")).hint(
            "a volume of one group has none; on a copy of the image mke2fs -S, with the options \
             that it was made with, writes a new one",
        );
    }
    match head.iter().all(|byte| *byte == 0) {
        true if !head.is_empty() => refused(": it begins with zeros").hint(format!(
            "if there was one, extant info --superblock 32768 --block-size 4096 {shown} \
                 looks for a copy of its superblock"
        )),
        _ => refused(""),
    }
}

/// Where in a superblock the number of its group is (`s_block_group_nr`).
const GROUP_OF_SUPERBLOCK: usize = 90;
/// Where the sizes of its blocks and of its clusters are, as powers of two of 1 KiB.
const SIZES_OF_SUPERBLOCK: usize = 24;
/// log2 of the blocks of the largest cluster that is looked for: more than mke2fs makes.
const CLUSTER_LOG2_MAX: u32 = 12;

/// Where mke2fs puts the first copy of the superblock, if there is one: its block, and the bytes of
/// a block.
pub fn superblock_copy(device: &dyn BlockDevice) -> Option<(u64, u64)> {
    let sizes =
        (0..=CLUSTER_LOG2_MAX).flat_map(|cluster| (10..=16_u32).map(move |size| (size, cluster)));
    sizes.into_iter().find_map(|(size_log2, cluster_log2)| {
        let block_size = 1_u64 << size_log2;
        // A group has as many clusters as a block has bits: blocks, but for bigalloc. With blocks
        // of 1 KiB block 0 is in none.
        let first = u64::from(size_log2 == 10 && cluster_log2 == 0);
        let block = ((block_size * 8) << cluster_log2) + first;
        // A head is looked at as if a volume began there, with its superblock after 1,024 bytes.
        let head = recognise::head(device, block * block_size - 1024);
        let is_at = |place: usize, value: &[u8]| {
            head.get(1024 + place..).is_some_and(|bytes| bytes.starts_with(value))
        };
        let sizes = [size_log2 - 10, size_log2 - 10 + cluster_log2].map(u32::to_le_bytes);
        // A volume that begins there says that it is in group 0.
        let is_it =
            is_at(GROUP_OF_SUPERBLOCK, &[1, 0]) && is_at(SIZES_OF_SUPERBLOCK, sizes.as_flattened());
        (recognise::is_ext(&head) && is_it).then_some((block, block_size))
    })
}

/// The byte of the image at which a volume begins that was looked for at `offset_bytes`, where
/// `device` begins: the number was one of sectors, or the first partition begins there.
fn begins_elsewhere(device: &dyn BlockDevice, offset_bytes: u64) -> Option<u64> {
    const SECTOR: u64 = 512;
    let places = [offset_bytes.checked_mul(SECTOR), Some(held::FIRST_PARTITION)];
    places.into_iter().flatten().find(|start| {
        let within = start.checked_sub(offset_bytes).filter(|within| *within > 0);
        within.is_some_and(|within| recognise::is_ext(&recognise::head(device, within)))
    })
}

/// What the engine says of a volume, or of a path inside, for the user: `IMAGE:/path: reason`, and
/// what to do.
pub fn failure(image: &Path, error: extant_engine::Error) -> Error {
    let shown = image.display();
    let subject = match &error.path {
        Some(path) => {
            let path = printable(path.as_os_str().as_bytes());
            let slash = if path.starts_with('/') { "" } else { "/" };
            format!("{shown}:{slash}{path}")
        }
        None => shown.to_string(),
    };
    let failure = Error::new(format!("{subject}: {}", error.kind));
    match &error.kind {
        ErrorKind::NotFound => failure.hint(format!("extant ls -R {shown} lists what is there")),
        ErrorKind::Unsupported(_) => {
            failure.hint(format!("extant info {shown} shows the volume nevertheless"))
        }
        ErrorKind::NotWritten(_) => {
            failure.hint(format!("it can be read: extant ls {shown}, extant mount -o ro {shown}"))
        }
        ErrorKind::Held(_) => {
            failure.hint("unmount it there; after an interrupted check: tune2fs -f -E clear_mmp")
        }
        ErrorKind::NeedsRecovery => match target::mount(image) {
            Some(Mount { folder, .. }) => {
                Error::new(format!("{subject}: is mounted on {}: {}", folder.display(), error.kind))
                    .hint("unmount it first, or read its files there")
            }
            None => failure.hint(format!("replay it: extant replay {shown}")),
        },
        ErrorKind::Corrupt(corrupt) if is_cut_short(corrupt) => Error::new(format!(
            "{subject}: is cut short: it ends before its last block"
        ))
        .hint(format!(
            "copy or download it once more; extant check {shown} says how much is missing, and \
             extant extract --force-read {shown} DIR reads it as far as it goes"
        )),
        ErrorKind::Corrupt(_) => failure.hint(damage_hint(image)),
        ErrorKind::Device(error) => about(&subject, error),
        _ => failure,
    }
}

/// What lists all that is wrong with an image.
pub fn damage_hint(image: &Path) -> String {
    format!("extant check {} lists all that is wrong", image.display())
}

/// An error of the device of `subject`, which the error may name too.
fn about(subject: &str, error: &io::Error) -> Error {
    let reason = reason(error);
    let head = format!("{subject}: ");
    match reason.strip_prefix(&head) {
        Some(rest) => Error { message: format!("{head}{rest}"), ..Error::io(subject, error) },
        None => Error::io(subject, error),
    }
}

fn is_cut_short(corrupt: &Corrupt) -> bool {
    let is_beyond_device = match corrupt.fault {
        Fault::Field { field: "number of blocks", reason, .. } => {
            reason.contains("than the device holds")
        }
        _ => false,
    };
    corrupt.place == DiskPlace::Superblock && is_beyond_device
}
