//! `extant build`: directories and archives become an image.
use crate::build::inodes::{InodeWish, RoomInodes};
use crate::build::order::{LostAndFound, Order};
use crate::build::plan::{Extent, FlexGroups, NO_ROOM};
use crate::build::write::{Built, Job, inodes_made};
use crate::build::{digest, kept, need, sample_superblock};
use crate::console::Console;
use crate::error::{Error, Exit, printable};
use crate::format_options::{Format, FormatArguments, Unsaid};
use crate::notice::{NAMED_MAX, Notices};
use crate::progress::{Progress, Unit};
use crate::size::{FreeInodes, Room, Size, file_system_unit, readable};
use crate::source::{Collected, SourceArguments, collect};
use crate::target::{Existing, Target};
use crate::tree::{NodeId, Tree};
use extant_block::{Clock, RealClock, WallTime};
use extant_engine::Packing;
use extant_engine::mkfs::{self, FormatOptions, JournalWish};
use extant_format::Ino;
use extant_format::inode::{FileType, Inode, Time};
use extant_format::layout::Inodes;
use extant_format::superblock::Feature;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Build an ext2, ext3 or ext4 image from directories and tar archives, without root.
///
/// The image is exactly as large as its content needs, and the same input gives the same bytes.
/// Sources are laid over each other in the order given. A SOURCE is a directory, a tar archive
/// (plain, or compressed with gzip, zstd or xz), or "-" for an archive on standard input.
#[derive(clap::Args)]
#[command(override_usage = "extant build [OPTIONS] SOURCE... IMAGE")]
#[command(after_help = "Examples:
  extant build rootfs/ disk.img
  extant build -t ext2 -b 1024 rootfs.tar.gz small.img
  extant build --free 20% --owner 0:0 base.tar overlay/ disk.img
  docker export CONTAINER | extant build --size 2G - disk.img
  extant build --whiteouts oci layer1.tar layer2.tar.gz image.img
  extant build --one-file-system --exclude /tmp/'*' / disk.img
  SOURCE_DATE_EPOCH=1700000000 extant build -L root rootfs/ disk.img")]
pub struct Arguments {
    /// What the image is to hold, and last the image: a file, or a block device.
    #[arg(value_name = "SOURCE... IMAGE", num_args = 1.., required = true)]
    pub paths: Vec<OsString>,
    /// Free space besides the content, with inodes for it: 512M, or 20% of the image. There is an
    /// inode for each 16 KiB of it, as mke2fs has it (in images below 512 MiB for each 4 KiB, below
    /// 3 MiB for each 8 KiB), or as -i or -T say
    #[arg(long, value_name = "ROOM", conflicts_with = "size")]
    pub free: Option<Room>,
    /// Inodes besides those in use, in place of those that free space brings: a number, or 20% of
    /// the image's inodes
    #[arg(long, value_name = "NUMBER", alias = "inodes")]
    pub free_inodes: Option<FreeInodes>,
    /// The image's size: 512M, 2G; a number without a unit counts KiB, with -b blocks, as with
    /// mke2fs. What the content leaves free has inodes as with --free. If the content does not fit,
    /// nothing is written
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Replace an image that is there.
    #[arg(long, short = 'F')]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub format: FormatArguments,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sources: SourceArguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    bytes: u64,
    block_size: u32,
    blocks: u64,
    free_blocks: u64,
    inodes: u32,
    free_inodes: u32,
    has_journal: bool,
    uuid: String,
    files: u64,
    skipped: &'a [String],
    warnings: Vec<ReportedKind<'a>>,
}

/// Notices of one kind: what could not be kept, or may surprise.
#[derive(Serialize)]
struct ReportedKind<'a> {
    kind: &'static str,
    count: u64,
    /// The first few, a sentence each.
    named: &'a [String],
}

/// Volumes of fewer blocks get no journal unless it is asked for, as mke2fs does it; a journal has
/// at least so many.
const JOURNAL_FROM_BLOCKS: u64 = 2048;
const JOURNAL_BLOCKS_MIN: u32 = 1024;
/// Block size where none is given: one that the kernel mounts everywhere.
const BLOCK_SIZE: u32 = 4096;

/// Builds, and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let (sources, image) = split(&arguments.paths)?;
    let format = arguments.format.read()?;
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut read_options = arguments.sources.options(epoch.as_deref())?;
    let existing = if arguments.force { Existing::Overwrite } else { Existing::Refuse };
    let target = Target::create(&image, existing)?;
    let identity = target.identity().map_err(|error| Error::io(image.display(), &error))?;
    read_options.never.push(identity);
    // Nor is the image that this one replaces part of it.
    read_options.never.extend(std::fs::metadata(&target.path).map(|old| (old.dev(), old.ino())));
    read_options.spool_folder =
        std::env::var_os("TMPDIR").map(PathBuf::from).or_else(|| folder_of(&image));
    let mut collected = {
        let progress = Progress::new(console, "read", Unit::Items, 0);
        collect(sources, &read_options, &progress)?
    };
    for skipped in &collected.skipped {
        console.skipped(skipped);
    }
    let mut notices = std::mem::take(&mut collected.notices);
    let newest = read_options.newest.unwrap_or_else(|| newest_time(&collected.tree));
    let prepared = prepare(&arguments, &format, &collected, &target, newest)?;
    let inode_size = prepared.job.template.wishes.inode_size;
    kept::note_times(&collected.tree, &prepared.job.order, inode_size, &mut notices);
    warn(console, &notices);
    let progress = Progress::new(console, "build", Unit::Bytes, prepared.data_bytes);
    let job = Job { progress: &progress, ..prepared.job };
    let name = target.path.display().to_string();
    let built = job.build()?;
    drop(job);
    drop(progress);
    report_grown(console, &collected);
    keep_surroundings(&target, format.offset_bytes, built.bytes())?;
    target.finish()?;
    print(console, &name, &built, &collected, &notices)?;
    Ok(if collected.skipped.is_empty() { Exit::Complete } else { Exit::Incomplete })
}

fn split(paths: &[OsString]) -> Result<(&[OsString], PathBuf), Error> {
    match paths.split_last() {
        Some((image, sources)) if !sources.is_empty() => Ok((sources, PathBuf::from(image))),
        _ => Err(Error::usage("a source and an image are needed")
            .hint("extant build SOURCE... IMAGE: the image comes last")),
    }
}

fn folder_of(image: &std::path::Path) -> Option<PathBuf> {
    let folder = image.parent()?;
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

/// The first of each kind by name, and how many more there are.
fn warn(console: &Console, notices: &Notices) {
    for (kind, tally) in notices.kinds() {
        for sentence in &tally.named {
            console.warn(sentence);
        }
        if tally.named.len() == NAMED_MAX && tally.count > NAMED_MAX as u64 {
            let more = tally.count - NAMED_MAX as u64;
            console.warn(&format!("and {more} more of this kind ({})", kind.word()));
        }
    }
}

/// Files that grew meanwhile are in the image as they were when the sources were read.
fn report_grown(console: &Console, collected: &Collected) {
    let grown = collected.sources.grown();
    if let Some((node, length)) = grown.first() {
        let (path, before) = (collected.tree.path(*node), collected.tree.length(*node));
        console.warn(&format!(
            "{} files grew while they were read, and end in the image where they ended before: the \
             first is {}, \
             {before} bytes then, {length} now",
            grown.len(),
            printable(&path)
        ));
    }
}

/// With -E offset, what an old image holds before and behind the volume stays.
fn keep_surroundings(target: &Target, offset: u64, bytes: u64) -> Result<(), Error> {
    if offset == 0 || target.device_bytes.is_some() {
        return Ok(());
    }
    let Ok(mut old) = std::fs::File::open(&target.path) else {
        return Ok(());
    };
    let failed = |error: std::io::Error| target.write_error(&error);
    let mut new = &target.file;
    let end = offset.saturating_add(bytes);
    let length = old.metadata().map_err(failed)?.len();
    for part in [0..offset.min(length), end.min(length)..length] {
        old.seek(SeekFrom::Start(part.start)).map_err(failed)?;
        new.seek(SeekFrom::Start(part.start)).map_err(failed)?;
        std::io::copy(&mut (&mut old).take(part.end - part.start), &mut new).map_err(failed)?;
    }
    Ok(())
}

/// A job without its progress, and how much data it will write.
struct Prepared<'a> {
    job: Job<'a>,
    data_bytes: u64,
}

fn prepare<'a>(
    arguments: &Arguments,
    format: &Format,
    collected: &'a Collected,
    target: &'a Target,
    newest: i64,
) -> Result<Prepared<'a>, Error> {
    let tree = &collected.tree;
    let mut template = template(format, tree, newest)?;
    if target.device_bytes.is_some() {
        template.contents = mkfs::Contents::Unknown;
    }
    let sample = sample_superblock(&template.wishes);
    let orphan_file = u32::from(template.wishes.features.has(Feature::ORPHAN_FILE));
    let order = Order::new(tree, Packing::of(&sample), Ino(sample.first_inode), orphan_file);
    if order.lost_and_found == LostAndFound::Own {
        template.lost_and_found = mkfs::LostAndFound::None;
    }
    kept::check_sizes(tree, &order, &sample)?;
    let tail = Inode::new(FileType::Regular.mode_bits(), &sample).tail.len();
    let need = need::of_tree(tree, &order, &template.wishes, tail)?;
    if format.wants_journal
        && template.journal == JournalWish::Default
        && need.data + need.metadata < JOURNAL_FROM_BLOCKS
    {
        template.journal = JournalWish::Blocks(JOURNAL_BLOCKS_MIN);
    }
    let inodes =
        inode_wish(arguments, format, &template, inodes_made(&order, &template) + need.inodes);
    check_share(arguments, &inodes, template.wishes.inode_size)?;
    let job = Job {
        map_blocks: arguments.format.map_blocks(),
        tree,
        sources: &collected.sources,
        target,
        order,
        need,
        flex: if format.flex_groups.is_some() { FlexGroups::Given } else { FlexGroups::Fitting },
        extent: extent(arguments)?,
        inodes,
        created: Time { seconds: newest, nanoseconds: 0 },
        clock: RealClock::pinned(WallTime { seconds: newest, nanoseconds: 0 }),
        root_owner: format.root_owner,
        origin: format.offset_bytes,
        progress: &HIDDEN,
        template,
    };
    let data_bytes = need.data * u64::from(job.template.wishes.block_size);
    Ok(Prepared { job, data_bytes })
}

/// What is asked for beside the inodes in use, and what free room brings where nothing is.
fn inode_wish(
    arguments: &Arguments,
    format: &Format,
    template: &FormatOptions,
    used: u64,
) -> InodeWish {
    let says_how_many =
        arguments.free_inodes.is_some() || matches!(format.inodes, Some(Inodes::AtLeast(_)));
    let spare = arguments.free_inodes.map_or(0, |free| free.beside(used));
    let of_room = RoomInodes {
        room: arguments.free.unwrap_or(NO_ROOM),
        profile: format.profile,
        block_size: template.wishes.block_size,
        inode_size: template.wishes.inode_size,
        kept_ratio: None,
    };
    InodeWish {
        needed: used.saturating_add(spare),
        asked: format.asks_for_inodes().then_some(template.wishes.inodes),
        of_room: (!says_how_many).then_some(of_room),
    }
}

/// Inode tables grow with the image: where -i or -T ask for more of them than a share of free room
/// leaves, no size is large enough.
fn check_share(arguments: &Arguments, inodes: &InodeWish, inode_size: u16) -> Result<(), Error> {
    let (Some(Room::PerMille(share)), Some(Inodes::BytesPerInode(ratio))) =
        (arguments.free, inodes.asked)
    else {
        return Ok(());
    };
    let tables = u64::from(inode_size) * 1000 / ratio.max(1);
    if tables < 1000 - u64::from(share) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--free: with an inode for each {ratio} bytes the inode tables take {}% of the image, and \
         the room leaves less",
        tables / 10
    ))
    .hint("less room, fewer inodes (a larger -i), or a number of them (--free-inodes)"))
}

fn extent(arguments: &Arguments) -> Result<Extent, Error> {
    let Some(size) = arguments.size else {
        return Ok(Extent::Exact(arguments.free.unwrap_or(NO_ROOM)));
    };
    let bytes = size.bytes(file_system_unit(arguments.format.block_size));
    let bytes = bytes.ok_or_else(|| Error::usage("--size: more than 64 bits hold"))?;
    Ok(Extent::Fixed(bytes))
}

static HIDDEN: std::sync::LazyLock<Progress> = std::sync::LazyLock::new(Progress::hidden);

/// Format and identity: what the user said, else what follows from the content.
fn template(format: &Format, tree: &Tree, newest: i64) -> Result<FormatOptions, Error> {
    let unsaid = Unsaid {
        block_size: Some(BLOCK_SIZE),
        inodes: None,
        reserved_ratio: 0.0,
        uuid: [0; 16],
        hash_seed: [0; 16],
        created_seconds: newest.max(0) as u64,
    };
    let mut wishes = format.wishes(0, &unsaid)?;
    let digest = digest::of_tree(tree, &format!("{wishes:?} {:?}", format.root_owner), &wishes);
    wishes.uuid = format.uuid.unwrap_or_else(|| digest::uuid(&digest));
    if format.hash_seed.is_none() {
        wishes.hash_seed = digest::seed(&digest);
    }
    let block_size = u64::from(wishes.block_size);
    let mut options = FormatOptions::new(wishes);
    if let Some(bytes) = format.journal_bytes {
        let blocks = u32::try_from(bytes / block_size).map_err(|_| {
            Error::usage(
                "-J size: more blocks than \
                a journal has",
            )
        })?;
        options.journal = JournalWish::Blocks(blocks);
    }
    Ok(options)
}

/// The newest time of the content: what stands for the time of building, so that it does not matter
/// when that was. Times to come do not count: e2fsck complains of a volume that was written
/// tomorrow.
fn newest_time(tree: &Tree) -> i64 {
    let now = RealClock::new().wall().seconds;
    let nodes = (0..tree.node_bound() as u32).map(NodeId);
    let times = nodes.map(|node| tree.modify_time(node).seconds).filter(|time| *time <= now);
    times.max().unwrap_or(0).max(0)
}

fn print(
    console: &Console,
    name: &str,
    built: &Built,
    collected: &Collected,
    notices: &Notices,
) -> Result<(), Error> {
    let bytes = built.blocks * u64::from(built.block_size);
    let files = u64::from(collected.tree.inode_count());
    if console.is_json() {
        return console.print_json(&Report {
            image: name,
            bytes,
            block_size: built.block_size,
            blocks: built.blocks,
            free_blocks: built.free_blocks,
            inodes: built.inodes,
            free_inodes: built.free_inodes,
            has_journal: built.has_journal,
            uuid: extant_inspect::uuid(&built.uuid),
            files,
            skipped: &collected.skipped,
            warnings: notices
                .kinds()
                .map(|(kind, tally)| ReportedKind {
                    kind: kind.word(),
                    count: tally.count,
                    named: &tally.named,
                })
                .collect(),
        });
    }
    if console.chatter == crate::console::Chatter::Quiet {
        return Ok(());
    }
    let size = readable(bytes as f64);
    console.print(&format!(
        "{name}: {size} ({} blocks of {} bytes, {} free), {files} files, {} inodes free{}\n",
        built.blocks,
        built.block_size,
        built.free_blocks,
        built.free_inodes,
        if built.has_journal { ", a journal" } else { "" }
    ))
}
