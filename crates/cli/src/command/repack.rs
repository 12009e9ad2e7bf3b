//! `extant repack`: an image built anew, with what is read first in front.
use super::{check, lab::failure};
use crate::remade::{Asked, Remade, Size};
use crate::shipping::words::CopyArguments;
use extant_engine::survey::Survey;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::ImageArguments;
use extant_host::recovery::counted;
use extant_image::assemble::{Facts, Remake};
use extant_lab::traces::{self, Touched};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Build an image anew, with what is read first in front: all of it in one piece, in the order in
/// which it is read.
///
/// What a machine reads when it starts lies all over an image, more so the longer it was used, and
/// each place costs a seek of a disk or a request of an object store. A trace of one start says
/// what that is; the new image has these inodes, directories and files first. The rest follows as a
/// walk over the tree meets it: whole files, those of a directory together. UUID, label, features,
/// sizes of blocks and inodes, owners, times and attributes stay; the numbers and the times of
/// creation of inodes do not.
///
/// A trace is what extant mount --trace NAME wrote (NAME.files, or NAME.blktrace), a trace of
/// blktrace with the volume at its start, the output of strace -f, or a list of paths, one a line.
/// Of files that it only looks at, nothing is put first. Without a trace everything is in the order
/// of a build.
///
/// The image is healed and checked before; a damaged one is refused. With OUT it is only read, and
/// may be compressed or qcow2; what OUT is follows from its name: .zst and .gz are compressed,
/// .qcow2 is QEMU's format. With --in-place it is written through a log, which needs room for all
/// that moves. Volumes with encrypted files, fs-verity, projects or casefold are refused.
///
/// Exit codes: 0 done; 1 failed, and nothing was changed; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant mount --trace start disk.img -- ./start-it
  extant repack disk.img fast.img --trace start.files
  strace -f -o log chroot root sh -c true; extant repack disk.img fast.img --trace log
  extant repack --shrink aged.img small.img.zst
  extant repack --in-place --trace paths.txt disk.img@2
  extant repack -n aged.img               what would become of it")]
pub struct Arguments {
    /// The image: a file, or a partition in one (IMAGE@2)
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Another file that is to be the new image
    #[arg(value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// What was read, in the order in which it was: a trace, or a list of paths
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Make OUT as small as its files allow
    #[arg(long, requires = "out")]
    pub shrink: bool,
    /// Write the image itself, through a log
    #[arg(long, conflicts_with_all = ["out", "shrink"])]
    pub in_place: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE", requires = "in_place")]
    pub log: Option<PathBuf>,
    /// Only say what would become of it
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
    /// How the trace is written: `files`, `blktrace`, `strace`, `list`.
    trace_format: Option<&'static str>,
    /// Paths of the trace, and those of them that are in the image.
    paths: u64,
    paths_found: u64,
    block_size: u32,
    blocks_before: u64,
    blocks_after: u64,
    blocks_free: u64,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
    /// Bytes of OUT's file.
    image_bytes: Option<u64>,
    /// Blocks that were written through the log.
    blocks_written: Option<u64>,
}

/// What is put first.
#[derive(Default)]
struct First {
    format: Option<&'static str>,
    paths: u64,
    found: u64,
}

/// Builds it anew and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.place.journal.is_some() {
        return Err(Error::usage("--journal: a volume with that on another device stays as it is"));
    }
    if arguments.out.is_none() && !arguments.in_place && !arguments.dry_run {
        return Err(Error::usage("OUT is missing")
            .hint("repack IMAGE OUT, or --in-place for the image itself"));
    }
    let asked = Asked {
        image: &arguments.image,
        place: &arguments.place,
        facts: Facts::All,
        threads: arguments.copy.threads(),
        listener: &|| check::listener(console),
    };
    let mut first = First::default();
    let mut decide = |survey: &Arc<Survey>, remake: &mut Remake| {
        first = put_first(&arguments, survey, remake, console)?;
        Ok(())
    };
    let size = if arguments.shrink { Size::Least } else { Size::Kept };
    let remade = match (arguments.in_place, &arguments.out) {
        (true, _) if !arguments.dry_run => {
            asked.in_place(arguments.log.as_deref(), &mut decide, console)?
        }
        (_, out) => {
            let out = out
                .as_deref()
                .filter(|_| !arguments.dry_run)
                .map(|out| (out, arguments.copy.existing()));
            asked.to_file(out, size, &mut decide, console)?
        }
    };
    told(&arguments, &remade, &first, console)
}

/// What the trace says to be read is to come first.
fn put_first(
    arguments: &Arguments,
    survey: &Survey,
    remake: &mut Remake,
    console: &Console,
) -> Result<First, Error> {
    let Some(path) = &arguments.trace else { return Ok(First::default()) };
    let input = traces::open(path).map_err(failure::refused)?;
    let Touched { paths, format } =
        traces::touched(path, input, survey).map_err(failure::refused)?;
    let shown = path.display();
    let count = paths.len() as u64;
    let found = remake.put_first(paths);
    if found == 0 {
        return Err(Error::new(format!("{shown}: names nothing that is in the image"))
            .hint("paths of a trace begin at the root of the volume; sed takes a prefix away"));
    }
    if found < count {
        let missing = counted(count - found, "path");
        console.warn(&format!("{shown}: {missing} of {count} lead to nothing in the image"));
    }
    Ok(First { format: Some(format), paths: count, found })
}

fn told(
    arguments: &Arguments,
    remade: &Remade,
    first: &First,
    console: &Console,
) -> Result<Exit, Error> {
    let Remade { before, built, disk_bytes, image_bytes, written } = remade;
    let document = Document {
        image: arguments.image.display().to_string(),
        out: arguments.out.as_ref().map(|out| out.display().to_string()),
        dry_run: arguments.dry_run,
        trace_format: first.format,
        paths: first.paths,
        paths_found: first.found,
        block_size: built.block_size,
        blocks_before: before.blocks_count,
        blocks_after: built.blocks,
        blocks_free: built.free_blocks,
        disk_bytes_before: disk_bytes.0,
        disk_bytes_after: disk_bytes.1,
        image_bytes: *image_bytes,
        blocks_written: *written,
    };
    if console.is_json() {
        console.print_json("extant-repack/1", &document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.out.as_ref().unwrap_or(&arguments.image).display();
    let verb = if arguments.dry_run { "would have" } else { "has" };
    let order = match first.format {
        Some(_) => format!("a walk, {} of them first", counted(first.found, "path")),
        None => "a build".to_owned(),
    };
    console.report(&format!(
        "{shown}: {verb} all files in the order of {order}; {} of {} bytes, {} free\n",
        counted(built.blocks, "block"),
        built.block_size,
        built.free_blocks
    ))?;
    Ok(Exit::Complete)
}
