//! `extant mkfs`: an empty file system.
use extant_block::{BlockDevice, Clock, FileDevice, RealClock, WallTime};
use extant_engine::allocation::MapBlocks;
use extant_engine::mkfs::{self, Contents, FormatOptions, JournalWish, Placing, Profile};
use extant_engine::{ErrorKind, check_written};
use extant_format::GroupNo;
use extant_format::superblock::{Feature, Superblock};
use extant_host::advice::no_volume;
use extant_host::console::{Chatter, Console};
use extant_host::disk;
use extant_host::error::{Error, Exit};
use extant_host::held::{self, Medium};
use extant_host::image::default_policies;
use extant_host::size::{Size, file_system_unit};
use extant_host::source_options::source_date_epoch;
use extant_host::target::{self, Existing, Target};
use extant_image::assemble::digest;
use extant_names::format_options::{Format, FormatArguments, Unsaid, random_uuid, seed_words};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make an empty ext2, ext3 or ext4 file system, as mke2fs does.
///
/// SIZE is 512M, 2G, 2048s (sectors) or a number of blocks (of KiB without -b); without it a file
/// or device keeps the size that it has. A new file is sparse. What holds data already is left
/// alone, unless --force is given; what is mounted, always.
///
/// With --metacluster the map blocks of the journal, of the resize inode and of lost+found are in
/// the clusters of their groups.
///
/// UUID and hash seed are random, and the present time is that of the creation; with the
/// environment variable SOURCE_DATE_EPOCH that is the time, and UUID and hash seed follow from it
/// and the options: the same command, the same bytes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant mkfs disk.img 2G
  extant mkfs -t ext2 -b 1024 -N 5000 -L boot boot.img 64M
  extant mkfs -O ^has_journal,^resize_inode -m 0 disk.img 100M
  extant mkfs -E offset=1048576,root_owner=1000:1000 -F partitioned.img 500M
  extant mkfs -n disk.img 1T")]
pub struct Arguments {
    /// The image: a file, or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Its size
    #[arg(value_name = "SIZE")]
    pub size: Option<Size>,
    /// Only say what would be made
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Write over what the file or device holds
    #[arg(short = 'F', long)]
    pub force: bool,
    /// Say also which features the file system has
    #[arg(short = 'v', long)]
    pub verbose: bool,
    #[command(flatten)]
    pub format: FormatArguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    offset: u64,
    bytes: u64,
    dry_run: bool,
    profile: &'static str,
    features: Vec<String>,
    label: String,
    uuid: String,
    hash_seed: String,
    block_size: u32,
    blocks: u64,
    reserved_blocks: u64,
    free_blocks: u64,
    inodes: u32,
    free_inodes: u32,
    inode_size: u16,
    groups: u32,
    journal_blocks: u32,
    superblock_backups: Vec<u64>,
}

/// Makes it, and says what was made.
pub fn run(mut arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.format.profile.is_none() && !arguments.format.usage.is_empty() {
        // What mke2fs makes of these words; a user who means ext4 learns it before anything is
        // written.
        arguments.format.profile = Some(Profile::Ext2);
        console.warn("-T without -t makes ext2, as with mke2fs: -t ext4 makes ext4");
    }
    let format = arguments.format.read()?;
    for name in &format.without_effect {
        console.warn(&format!(
            "-E {name}: changes nothing here: what has to be zero is, when the command ends"
        ));
    }
    let shown = arguments.image.display().to_string();
    disk::refuse_part(&arguments.image, "mkfs")?;
    let place = Spot::of(&arguments, format.offset_bytes)?;
    let bytes = volume_bytes(&arguments, &format, &place)?;
    let epoch = source_date_epoch()?;
    let block_size = format.block_size_for(bytes);
    let mut options = options(&format, bytes / u64::from(block_size), block_size, epoch)?;
    if arguments.format.map_blocks() == MapBlocks::Beside {
        options.placing = Placing::Mke2fs;
    }
    options.mount_record.seconds = options.wishes.created_seconds;
    let planned = match options.wishes.features.has(Feature::JOURNAL_DEV) {
        true => mkfs::plan_journal_device(&options).map(|superblock| (superblock, 0)),
        false => mkfs::plan(&options).map(|(layout, blocks)| (layout.superblock, blocks)),
    };
    let (planned, journal_blocks) = planned.map_err(|error| no_volume(error, &shown))?;
    warn(console, &options, &planned, journal_blocks);
    let superblock = match arguments.dry_run {
        true => planned,
        false => {
            if !arguments.force {
                place.check_empty(&arguments.image, format.offset_bytes, bytes)?;
            }
            let map_blocks = arguments.format.map_blocks();
            write(&arguments.image, &place, &mut options, map_blocks, format.offset_bytes, bytes)?
        }
    };
    print(&arguments, console, &format, &superblock, journal_blocks)?;
    Ok(Exit::Complete)
}

/// What is there already where the volume is to be.
enum Spot {
    /// Nothing yet.
    Nothing,
    /// A file of this many bytes.
    File(u64),
    /// A block device of this many bytes.
    Device(u64),
}

impl Spot {
    fn of(arguments: &Arguments, offset: u64) -> Result<Spot, Error> {
        let image = &arguments.image;
        let failed = |error: io::Error| Error::io(image.display(), &error);
        let metadata = match std::fs::metadata(image) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Spot::Nothing),
            Err(error) => return Err(failed(error)),
        };
        // With -n a volume in use may be looked at: where are its copies?
        if !arguments.dry_run || !(metadata.is_file() || metadata.file_type().is_block_device()) {
            target::check(image, &metadata)?;
        }
        if !metadata.file_type().is_block_device() {
            return Ok(Spot::File(metadata.len()));
        }
        let mut file = File::open(image).map_err(failed)?;
        let bytes = io::Seek::seek(&mut file, io::SeekFrom::End(0)).map_err(failed)?;
        match bytes > offset {
            true => Ok(Spot::Device(bytes)),
            false => Err(Error::usage(format!(
                "-E offset={offset}: {} has only {bytes} bytes",
                image.display()
            ))),
        }
    }

    /// Refuses what holds something where the volume of `bytes` is to be. A file that is
    /// written anew is replaced as a whole.
    fn check_empty(&self, image: &Path, offset: u64, bytes: u64) -> Result<(), Error> {
        let volume = offset..offset.saturating_add(bytes);
        match *self {
            Spot::Nothing => Ok(()),
            Spot::File(end) if offset == 0 => held::check_empty(image, 0..end, Medium::File),
            Spot::File(_) => held::check_empty(image, volume, Medium::File),
            Spot::Device(_) => held::check_empty(image, volume, Medium::Device),
        }
    }
}

/// How many bytes the volume is to have.
fn volume_bytes(arguments: &Arguments, format: &Format, place: &Spot) -> Result<u64, Error> {
    let shown = arguments.image.display();
    let offset = format.offset_bytes;
    let unit = file_system_unit(arguments.format.block_size);
    let asked = match arguments.size {
        Some(size) => {
            Some(size.bytes(unit).ok_or_else(|| Error::usage("SIZE: more than 64 bits hold"))?)
        }
        None => None,
    };
    let present = match *place {
        Spot::Nothing => 0,
        Spot::File(bytes) | Spot::Device(bytes) => bytes.saturating_sub(offset),
    };
    match (asked, place) {
        (Some(asked), Spot::Device(_)) if asked > present => Err(Error::new(format!(
            "{shown}: {asked} bytes are asked for, and the device has room for {present}"
        ))),
        (Some(asked), _) => Ok(asked),
        (None, Spot::Nothing) => Err(Error::usage(format!(
            "{shown}: is not there yet, so a SIZE is \
            needed"
        ))
        .hint(format!("extant mkfs {shown} 512M"))),
        (None, _) if present == 0 => {
            Err(Error::usage(format!("{shown}: has no bytes there, so a SIZE is needed"))
                .hint(format!("extant mkfs {shown} 512M")))
        }
        (None, _) => Ok(present),
    }
}

/// The options with identity and time: from SOURCE_DATE_EPOCH and themselves, or from the host.
fn options(
    format: &Format,
    blocks: u64,
    block_size: u32,
    epoch: Option<u64>,
) -> Result<FormatOptions, Error> {
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    let mut unsaid = Unsaid {
        block_size: Some(block_size),
        inodes: None,
        reserved_ratio: 0.05,
        uuid: [0; 16],
        hash_seed: [0; 16],
        created_seconds: epoch.unwrap_or(now),
    };
    if epoch.is_none() {
        unsaid.uuid = random_uuid()?;
        unsaid.hash_seed = random_uuid()?;
        return format.options(blocks, &unsaid);
    }
    let mut options = format.options(blocks, &unsaid)?;
    let digest: [u8; 32] = Sha256::digest(format!("{options:?}")).into();
    options.wishes.uuid = format.uuid.unwrap_or_else(|| digest::uuid(&digest));
    options.wishes.hash_seed = format.hash_seed.map_or_else(|| digest::seed(&digest), seed_words);
    Ok(options)
}

fn warn(console: &Console, options: &FormatOptions, planned: &Superblock, journal_blocks: u32) {
    let wishes = &options.wishes;
    if wishes.features.has(Feature::JOURNAL_DEV) {
        return;
    }
    if wishes.features.has(Feature::HAS_JOURNAL)
        && journal_blocks == 0
        && options.journal == JournalWish::Default
    {
        console.warn("the file system is too small for a journal: it has none");
    }
    let foreign = check_written(planned).err().map(|error| error.kind);
    if let Some(ErrorKind::NotWritten(foreign)) = foreign {
        console.warn(&format!(
            "a volume with {}: it is read and checked, and not written",
            foreign.join(", ")
        ));
    }
    if wishes.block_size > 4096 {
        let size = wishes.block_size;
        console.warn(&format!(
            "blocks of {size} bytes: most kernels mount only up to the size of their pages, often \
             4096"
        ));
    }
    if wishes.inode_size < 256 {
        console.warn("128-byte inodes cannot keep times after January 2038");
    }
}

/// Formats the file or device.
fn write(
    image: &Path,
    place: &Spot,
    options: &mut FormatOptions,
    map_blocks: MapBlocks,
    offset: u64,
    bytes: u64,
) -> Result<Superblock, Error> {
    // A file is written anew beside the old one, which stays until the new one is whole; but with
    // an offset what is around the volume stays.
    let target = match place {
        Spot::Nothing => Target::create(image, Existing::Refuse)?,
        Spot::File(_) if offset == 0 => Target::create(image, Existing::Overwrite)?,
        Spot::File(_) | Spot::Device(_) => {
            options.contents = Contents::Unknown;
            Target::in_place(image)?
        }
    };
    let failed = |error: io::Error| target.write_error(&error);
    let end = offset
        .checked_add(bytes)
        .ok_or_else(|| Error::usage("-E offset: more than 64 bits hold"))?;
    if target.device_bytes.is_none() && target.file.metadata().map_err(failed)?.len() < end {
        target.file.set_len(end).map_err(failed)?;
    }
    let shown = target.path.display().to_string();
    let file = target.file.try_clone().map_err(failed)?;
    let seconds = i64::try_from(options.wishes.created_seconds).unwrap_or(i64::MAX);
    let clock = RealClock::pinned(WallTime { seconds, nanoseconds: 0 });
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::from_file(clock, file, shown.clone(), bytes, offset).map_err(failed)?);
    let mut policies = default_policies()?;
    policies.map_blocks = map_blocks;
    let made = match options.wishes.features.has(Feature::JOURNAL_DEV) {
        true => mkfs::format_journal_device(&*device, options)
            .and_then(|()| mkfs::plan_journal_device(options)),
        false => mkfs::format(device, options, &policies),
    };
    let superblock = made.map_err(|error| match error.kind {
        ErrorKind::Device(error) => failed(error),
        _ => no_volume(error, &shown),
    })?;
    target.finish()?;
    Ok(superblock)
}

fn print(
    arguments: &Arguments,
    console: &Console,
    format: &Format,
    superblock: &Superblock,
    journal_blocks: u32,
) -> Result<(), Error> {
    let image = arguments.image.display().to_string();
    let is_volume = !superblock.has(Feature::JOURNAL_DEV);
    let groups = if is_volume { superblock.group_count() } else { 0 };
    let copies = (1..groups).map(GroupNo).filter(|group| superblock.has_super(*group));
    let label = superblock.label.split(|byte| *byte == 0).next().unwrap_or_default();
    let report = Report {
        image: &image,
        offset: format.offset_bytes,
        bytes: superblock.blocks_count.saturating_mul(superblock.block_size().into()),
        dry_run: arguments.dry_run,
        profile: format.profile.name(),
        features: superblock.features.iter().map(Feature::name).collect(),
        label: String::from_utf8_lossy(label).into_owned(),
        uuid: extant_inspect::uuid(&superblock.uuid),
        hash_seed: extant_inspect::uuid(&seed_bytes(superblock.hash_seed)),
        block_size: superblock.block_size(),
        blocks: superblock.blocks_count,
        reserved_blocks: superblock.reserved_blocks,
        free_blocks: superblock.free_blocks,
        inodes: superblock.inodes_count,
        free_inodes: superblock.free_inodes,
        inode_size: superblock.inode_size,
        groups,
        journal_blocks,
        superblock_backups: copies.map(|group| superblock.group_start(group).0).collect(),
    };
    match (console.is_json(), console.chatter) {
        (true, _) => console.print_json("extant-mkfs/1", &report),
        (false, Chatter::Quiet) if !arguments.dry_run => Ok(()),
        _ => {
            let detail = if arguments.verbose { Detail::All } else { Detail::Usual };
            console.print(&text(&report, detail))
        }
    }
}

fn seed_bytes(seed: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (four, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(seed) {
        *four = word.to_le_bytes();
    }
    bytes
}

/// How much is said of a new volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// What mke2fs prints.
    Usual,
    /// Features, groups and counts too (--verbose).
    All,
}

/// In the words of mke2fs.
fn text(report: &Report<'_>, detail: Detail) -> String {
    let Report { image, profile, blocks, block_size, inodes, uuid, .. } = report;
    let doing = if report.dry_run { "Would create" } else { "Created" };
    let mut text = format!(
        "{doing} {profile} file system in {image} with {blocks} {block_size}-byte blocks and \
         {inodes} inodes\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(text, "Filesystem UUID: {uuid}");
    if !report.label.is_empty() {
        let _ = writeln!(
            text,
            "Filesystem label: {}",
            extant_archive::printable(report.label.as_bytes())
        );
    }
    if report.journal_blocks > 0 {
        let _ = writeln!(text, "Journal: {} blocks", report.journal_blocks);
    }
    if detail == Detail::All {
        let _ = writeln!(text, "Features: {}", report.features.join(" "));
        let _ = writeln!(text, "{} groups, {}-byte inodes", report.groups, report.inode_size);
        let _ = writeln!(
            text,
            "{} blocks reserved for root, {} free",
            report.reserved_blocks, report.free_blocks
        );
    }
    if !report.superblock_backups.is_empty() {
        let numbers: Vec<String> = report.superblock_backups.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "Superblock backups stored on blocks: {}", numbers.join(", "));
    }
    text
}
