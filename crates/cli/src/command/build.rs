//! `extant build`: directories and archives become an image.
use crate::shipping::report::ShippedReport;
use crate::shipping::words::ShippingArguments;
use crate::shipping::{Shipment, ship};
use extant_archive::printable;
use extant_block::{Clock, RealClock};
use extant_engine::allocation::MapBlocks;
use extant_engine::mkfs::JournalWish;
use extant_format::superblock::Feature;
use extant_host::advice;
use extant_host::console::{Chatter, Console};
use extant_host::disk;
use extant_host::error::{Error, Exit};
use extant_host::place::folder_of;
use extant_host::progress::Unit;
use extant_host::size::{Size, file_system_unit, free_inodes, readable, room};
use extant_host::source_options::{SourceArguments, sources};
use extant_host::target::{Existing, Target};
use extant_image::ErrorKind;
use extant_image::assemble::{
    BLOCK_SIZE, BuildOptions, Built, Destination, FlexGroups, FreeInodes, ImageSize, Job,
    LostFolder, Place, Room, SmallJournal,
};
use extant_image::notice::{NAMED_MAX, NoticeKind, Notices, Tally};
use extant_image::source::{
    Arrival, Collected, ContainerImage, Holes, Owner, ReadOptions, collect,
};
use extant_names::format_options::{Format, FormatArguments, Unsaid, seed_words};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Build an ext2, ext3 or ext4 image from directories and tar archives, without root.
///
/// The image is exactly as large as its content needs, and the same input gives the same bytes.
/// Sources are laid over each other in the order given. A SOURCE is a directory, an archive (tar,
/// cpio newc, or a Debian package, plain or compressed with gzip, zstd, xz, lzma, bzip2 or lz4), or
/// "-" for an archive on standard input. What an archive is shows its content, not its name. A
/// container image is oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE[:TAG], "-" for
/// FILE too; a directory or an archive that is one is recognised (--containers files: then it is
/// taken as it is).
#[derive(clap::Args)]
#[command(override_usage = "extant build [OPTIONS] SOURCE... IMAGE")]
#[command(after_help = "Examples:
  extant build rootfs/ disk.img
  extant build -t ext2 -b 1024 rootfs.tar.gz small.img
  extant build --free 20% --owner 0:0 base.tar overlay/ disk.img
  docker export CONTAINER | extant build --size 2G - disk.img
  extant build --config-json config.json oci:layout:latest disk.img
  docker save IMAGE | extant build --inject src=agent,dst=/sbin/init,mode=0755 - disk.img
  extant build --whiteouts oci layer1.tar layer2.tar.gz image.img
  extant build --one-file-system --exclude /tmp/'*' / disk.img
  SOURCE_DATE_EPOCH=1700000000 extant build -L root rootfs/ disk.img
  extant build --partition gpt,type=root-x86-64 --verity rootfs/ disk.img
  extant build --format qcow2 --free 2G rootfs.tar.zst vm.qcow2
  extant build --bmap disk.bmap --partition mbr rootfs/ disk.img.zst")]
pub struct Arguments {
    /// What the image is to hold, and last the image: a file, or a block device.
    #[arg(value_name = "SOURCE... IMAGE", num_args = 1.., required = true)]
    pub paths: Vec<OsString>,
    /// Free space besides the content, with inodes for it: 512M, or 20% of the image. There is an
    /// inode for each 16 KiB of it, as mke2fs has it (in images below 512 MiB for each 4 KiB, below
    /// 3 MiB for each 8 KiB), or as -i or -T say
    #[arg(long, value_name = "ROOM", value_parser = room, conflicts_with = "size")]
    pub free: Option<Room>,
    /// Inodes besides those in use, in place of those that free space brings: a number, or 20% of
    /// the image's inodes
    #[arg(long, value_name = "NUMBER", alias = "inodes", value_parser = free_inodes)]
    pub free_inodes: Option<FreeInodes>,
    /// The volume's size (a disk of --partition is larger by its tables): 512M, 2G, 27721728b for
    /// bytes; a number without a unit counts KiB, with -b blocks, as with
    /// mke2fs. What the content leaves free has inodes as with --free. If the content does not fit,
    /// nothing is written
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// The order of file data in the image. "tree": as a walk of the tree reads it, whatever the
    /// order of the sources; an archive that comes only once is kept aside for it. "arrival": as
    /// archives have it, written while they are read. That is faster for compressed archives and
    /// pipes; the image's bytes then depend on the order within the archives too, what is excluded
    /// or replaced leaves free blocks, and map blocks are together after the data (--metacluster
    /// changes nothing). The image has to be a regular file
    #[arg(long, value_enum, default_value_t, value_name = "ORDER")]
    pub order: DataOrder,
    /// Put the configuration of the container image into this file, byte for byte: its command,
    /// its environment, its user.
    #[arg(long, value_name = "FILE")]
    pub config_json: Option<PathBuf>,
    /// Which zeros of files are holes. "auto": the holes of the source, and whole blocks of zeros
    /// in files of 1 MiB and more, swap areas left out, which must have no holes. "always": those
    /// of every file, swap areas too. "never": none, holes of the source are written as zeros
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub sparse: Sparse,
    /// The image has no lost+found: none is made, and that of a source is left out, as with
    /// --exclude /lost+found. e2fsck finds nothing wrong with that, and makes one where it has to
    /// mend something
    #[arg(long)]
    pub no_lost_found: bool,
    /// Replace an image that is there.
    #[arg(long, short = 'F')]
    pub force: bool,
    #[command(flatten)]
    pub format: FormatArguments,
    #[command(flatten)]
    pub sources: SourceArguments,
    #[command(flatten)]
    pub shipping: ShippingArguments,
}

/// In which order file data is in the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum DataOrder {
    /// As a walk of the tree reads it.
    #[default]
    Tree,
    /// As archives have it.
    Arrival,
}

/// Which zeros are holes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Sparse {
    /// Holes of the source, and blocks of zeros of large files.
    #[default]
    Auto,
    /// Holes of the source, and blocks of zeros of all files.
    Always,
    /// None.
    Never,
}

impl From<Sparse> for Holes {
    fn from(sparse: Sparse) -> Holes {
        match sparse {
            Sparse::Auto => Holes::Auto,
            Sparse::Always => Holes::Always,
            Sparse::Never => Holes::Never,
        }
    }
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
    containers: Vec<ReportedContainer<'a>>,
    skipped: &'a [String],
    warnings: Vec<ReportedKind>,
    disk: ShippedReport,
}

/// A container image among the sources.
#[derive(Serialize)]
struct ReportedContainer<'a> {
    source: &'a str,
    name: Option<&'a str>,
    digest: Option<&'a str>,
    platform: Option<String>,
    config_digest: &'a str,
    layers: usize,
    stored_bytes: u64,
    unpacked_bytes: u64,
}

/// Notices of one kind: what could not be kept, or may surprise.
#[derive(Serialize)]
struct ReportedKind {
    kind: &'static str,
    count: u64,
    /// The first few, a sentence each.
    named: Vec<String>,
}

/// How the sources are read: never the image itself, nor the one that it replaces.
fn read_options(
    arguments: &Arguments,
    image: &Path,
    target: &Target,
) -> Result<ReadOptions, Error> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut options = arguments.sources.options(epoch.as_deref())?;
    options.holes = arguments.sparse.into();
    let identity = target.identity().map_err(|error| Error::io(image.display(), &error))?;
    options.never.push(identity);
    options.never.extend(std::fs::metadata(&target.path).map(|old| (old.dev(), old.ino())));
    options.spool_folder =
        Some(std::env::var_os("TMPDIR").map_or_else(|| folder_of(image).to_owned(), PathBuf::from));
    Ok(options)
}

/// Builds, and says what came of it.
pub fn run(mut arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let (words, image) = split(&arguments.paths)?;
    disk::refuse_part(&image, "build")?;
    let format = arguments.format.read()?;
    let mut inputs = sources(words)?;
    inputs.extend(arguments.sources.injections()?);
    if arguments.no_lost_found {
        arguments.sources.exclude.push("/lost+found".to_owned());
    }
    let existing = if arguments.force { Existing::Overwrite } else { Existing::Refuse };
    let target = Target::create(&image, existing)?;
    let mut read_options = read_options(&arguments, &image, &target)?;
    check_beside(&arguments, &image)?;
    let shipment =
        Shipment::new(&arguments.shipping, &image, &target, format.offset_bytes, existing)?;
    let mut options = options(&arguments, &format)?;
    options.newest = read_options.newest;
    read_options.block_bytes = options.wishes.block_size;
    if read_options.exclude.matches(b"lost+found") {
        options.lost_and_found = LostFolder::Omitted;
    }
    options.origin_bytes = shipment.origin_bytes;
    if arguments.order == DataOrder::Arrival {
        read_options.arrival = Some(arrival(&arguments, &target, &shipment, &mut options)?);
    }
    let mut collected = {
        let progress = console.progress("read", Unit::Items, 0);
        collect(inputs, &read_options, &progress).map_err(|error| of_target(&target, error))?
    };
    let config = config(&arguments, &collected)?;
    for skipped in &collected.skipped {
        console.skipped(skipped);
    }
    let mut notices = std::mem::take(&mut collected.notices);
    let name = image.display().to_string();
    let destination = Destination {
        medium: shipment.raw(&target),
        name: name.clone(),
        place: target.device_bytes.map_or(Place::Whole, Place::device),
    };
    let job = Job::new(&collected, &options, &destination).map_err(|error| match error.kind {
        ErrorKind::InodeTables => {
            let error = Error::from(error);
            Error { message: format!("--free: {}", error.message), ..error }
        }
        _ => error.into(),
    })?;
    job.note_times(&mut notices);
    warn(console, &notices);
    warn_of_epoch(console, options.newest);
    let built = {
        let progress = console.progress("build", Unit::Bytes, job.data_bytes());
        job.build(&progress).map_err(|error| of_target(&target, error))?
    };
    report_grown(console, &collected);
    keep_surroundings(&target, format.offset_bytes, built.bytes())?;
    let shipped = ship(&shipment, &target, built.bytes(), built.uuid, console)?;
    if let Some(path) = &arguments.config_json {
        replace(path, &config)?;
    }
    target.finish()?;
    print(console, &name, &built, &collected, &notices, shipped)?;
    Ok(if collected.skipped.is_empty() { Exit::Complete } else { Exit::Incomplete })
}

/// A failure to write is the target's, which knows what it means.
fn of_target(target: &Target, error: extant_image::Error) -> Error {
    match &error.kind {
        ErrorKind::Write(cause) => target.write_error(cause),
        _ => error.into(),
    }
}

/// The configuration that is to be written.
fn config(arguments: &Arguments, collected: &Collected) -> Result<Vec<u8>, Error> {
    if arguments.sources.platform.is_some() && collected.containers.is_empty() {
        return Err(Error::usage("--platform: no source is a container image"));
    }
    match &collected.containers[..] {
        [image] => Ok(image.config.clone()),
        _ if arguments.config_json.is_none() => Ok(Vec::new()),
        images => Err(Error::usage(format!(
            "--config-json: the sources have {} container images, not one",
            images.len()
        ))),
    }
}

/// Refuses files beside the image that are the image, or each other.
fn check_beside(arguments: &Arguments, image: &std::path::Path) -> Result<(), Error> {
    let place = |path: &std::path::Path| {
        let folder = folder_of(path).canonicalize().ok();
        folder.map(|folder| folder.join(path.file_name().unwrap_or_default()))
    };
    let shipping = &arguments.shipping;
    let tree = shipping.verity.as_ref().and_then(Option::as_deref);
    let beside = [
        ("--bmap", shipping.bmap.as_deref()),
        ("--verity", tree),
        ("--config-json", arguments.config_json.as_deref()),
    ];
    let mut taken = vec![place(image)];
    for (option, path) in beside {
        let Some(path) = path else { continue };
        let here = place(path);
        if here.is_some() && taken.contains(&here) {
            let shown = path.display();
            return Err(Error::usage(format!("{option} {shown}: is another output's file")));
        }
        taken.push(here);
    }
    Ok(())
}

/// Writes a file whole, or leaves what is there.
fn replace(path: &std::path::Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    // A device or a pipe is written, not replaced.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, bytes).map_err(failed);
    }
    let mut file = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder_of(path))
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn split(paths: &[OsString]) -> Result<(&[OsString], PathBuf), Error> {
    match paths.split_last() {
        Some((image, sources)) if !sources.is_empty() => Ok((sources, PathBuf::from(image))),
        _ => Err(Error::usage("a source and an image are needed")
            .hint("extant build SOURCE... IMAGE: the image comes last")),
    }
}

/// The first of each kind by name, and how many more there are.
fn warn(console: &Console, notices: &Notices) {
    for (kind, tally) in notices.kinds() {
        for sentence in advised(kind, tally) {
            console.warn(&sentence);
        }
        if tally.named.len() == NAMED_MAX && tally.count > NAMED_MAX as u64 {
            let more = tally.count - NAMED_MAX as u64;
            console.warn(&format!("and {more} more of this kind ({})", kind.word()));
        }
    }
}

/// A volume that is dated in the future is what e2fsck complains of.
fn warn_of_epoch(console: &Console, epoch: Option<i64>) {
    if let Some(epoch) = epoch.filter(|epoch| *epoch > RealClock::new().wall().seconds) {
        console.warn(&format!(
            "SOURCE_DATE_EPOCH={epoch}: is in the future: until then e2fsck complains of the image"
        ));
    }
}

/// The sentences of notices, each with what to do about it.
fn advised(kind: NoticeKind, tally: &Tally) -> Vec<String> {
    let advice = advice::of_notice(kind);
    tally.named.iter().map(|sentence| format!("{sentence}{advice}")).collect()
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

/// With -E offset, what an old image holds before and after the volume stays.
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

/// What takes file data as it comes.
fn arrival(
    arguments: &Arguments,
    target: &Target,
    shipment: &Shipment<'_>,
    options: &mut BuildOptions,
) -> Result<Arrival, Error> {
    if arguments.size.is_some() || target.device_bytes.is_some() {
        let message = "--order arrival: makes an image of its own size, in a regular file";
        return Err(Error::usage(message));
    }
    if options.flex_groups == FlexGroups::Given {
        return Err(Error::usage("--order arrival: decides about flex groups (-G) itself"));
    }
    for feature in [Feature::BIGALLOC, Feature::META_BG] {
        if options.wishes.features.has(feature) {
            let name = feature.name();
            return Err(Error::usage(format!("--order arrival: not with -O {name}")));
        }
    }
    options.map_blocks = MapBlocks::Beside;
    let arrival = Arrival::new(&mut options.wishes, shipment.raw(target), options.origin_bytes);
    arrival.map_err(|error| Error::usage(format!("--order arrival: {}", error.message)))
}

/// What the image is to be like.
fn options(arguments: &Arguments, format: &Format) -> Result<BuildOptions, Error> {
    let unsaid = Unsaid {
        block_size: Some(BLOCK_SIZE),
        inodes: None,
        reserved_ratio: 0.0,
        uuid: [0; 16],
        hash_seed: [0; 16],
        created_seconds: 0,
    };
    let wishes = format.wishes(0, &unsaid)?;
    let journal = match format.journal_bytes {
        None => JournalWish::Default,
        Some(bytes) => {
            let blocks = u32::try_from(bytes / u64::from(wishes.block_size));
            JournalWish::Blocks(
                blocks.map_err(|_| Error::usage("-J size: more blocks than a journal has"))?,
            )
        }
    };
    Ok(BuildOptions {
        uuid: format.uuid,
        hash_seed: format.hash_seed.map(seed_words),
        size: size(arguments)?,
        inodes: format.asks_for_inodes().then_some(wishes.inodes),
        free_inodes: arguments.free_inodes,
        journal,
        small_journal: match format.wants_journal {
            true => SmallJournal::Made,
            false => SmallJournal::Omitted,
        },
        flex_groups: match format.flex_groups {
            Some(_) => FlexGroups::Given,
            None => FlexGroups::Fitting,
        },
        map_blocks: arguments.format.map_blocks(),
        root_owner: format.root_owner.map(|(uid, gid)| Owner { uid, gid }),
        origin_bytes: format.offset_bytes,
        wishes,
        ..BuildOptions::new(format.profile)
    })
}

fn size(arguments: &Arguments) -> Result<ImageSize, Error> {
    let Some(size) = arguments.size else {
        return Ok(ImageSize::Exact(arguments.free.unwrap_or(Room::NONE)));
    };
    let bytes = size.bytes(file_system_unit(arguments.format.block_size));
    let bytes = bytes.ok_or_else(|| Error::usage("--size: more than 64 bits hold"))?;
    Ok(ImageSize::Fixed(bytes))
}

fn reported(image: &ContainerImage) -> ReportedContainer<'_> {
    ReportedContainer {
        source: &image.source,
        name: image.name.as_deref(),
        digest: image.digest.as_deref(),
        platform: image.platform.as_ref().map(ToString::to_string),
        config_digest: &image.config_digest,
        layers: image.layers,
        stored_bytes: image.stored_bytes,
        unpacked_bytes: image.unpacked_bytes,
    }
}

fn print(
    console: &Console,
    name: &str,
    built: &Built,
    collected: &Collected,
    notices: &Notices,
    disk: ShippedReport,
) -> Result<(), Error> {
    let bytes = built.blocks * u64::from(built.block_size);
    let files = u64::from(collected.tree.inode_count());
    if console.is_json() {
        let report = Report {
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
            containers: collected.containers.iter().map(reported).collect(),
            skipped: &collected.skipped,
            warnings: notices
                .kinds()
                .map(|(kind, tally)| ReportedKind {
                    kind: kind.word(),
                    count: tally.count,
                    named: advised(kind, tally),
                })
                .collect(),
            disk,
        };
        return console.print_json("extant-build/1", &report);
    }
    if console.chatter == Chatter::Quiet {
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
    ))?;
    console.print(&disk.text(name))
}
