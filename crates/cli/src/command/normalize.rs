//! `extant normalize`: an image built anew, the same bytes for the same content.
use super::check;
use crate::remade::{Asked, Remade, Size};
use crate::shipping::words::CopyArguments;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::ImageArguments;
use extant_host::recovery::counted;
use extant_image::assemble::Facts;
use serde::Serialize;
use std::path::PathBuf;

/// Make an image canonical: the same content gives the same bytes again, whatever was done to it.
///
/// A mount or a boot leaves its traces in an image: files at other places, counts of mounts, times,
/// what was deleted. The image is built anew from what is in it, as extant tar and extant build
/// would: with its UUID, seed, label, size, features and options. Owners, modes, modify times and
/// attributes stay; the modify time stands for the other times too, and blocks of zeros of files of
/// 1 MiB and more are holes. Numbers of inodes do not stay, nor anything that was deleted. The
/// modify times of directories in which something was made or removed are content: touch -d sets
/// them back.
///
/// The image is healed and checked before; a damaged one is refused. With OUT it is only read, and
/// may be compressed or qcow2; what OUT is follows from its name: .zst and .gz are compressed,
/// .qcow2 is QEMU's format. Without OUT it is written through a log, which needs room for all that
/// moves. Volumes with encrypted files, fs-verity, projects or casefold are refused.
///
/// Exit codes: 0 done; 1 failed, and nothing was changed; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant normalize disk.img               in place
  extant normalize used.img clean.img && sha256sum clean.img
  extant normalize disk.img@2 disk.img.zst")]
pub struct Arguments {
    /// The image: a file, or a partition in one (IMAGE@2)
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Another file that is to be the canonical image
    #[arg(value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pub log: Option<PathBuf>,
    /// Only find out whether it can be done
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
    blocks: u64,
    blocks_free: u64,
    disk_bytes: u64,
    /// Bytes of OUT's file.
    image_bytes: Option<u64>,
    /// Blocks that were written through the log.
    blocks_written: Option<u64>,
}

/// Builds it anew and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if arguments.place.journal.is_some() {
        return Err(Error::usage("--journal: a volume with that on another device stays as it is"));
    }
    let asked = Asked {
        image: &arguments.image,
        place: &arguments.place,
        facts: Facts::Canonical,
        threads: arguments.copy.threads(),
        listener: &|| check::listener(console),
    };
    let remade = match (&arguments.out, arguments.dry_run) {
        (None, false) => asked.in_place(arguments.log.as_deref(), &mut |_, _| Ok(()), console)?,
        (out, dry_run) => {
            let out =
                out.as_deref().filter(|_| !dry_run).map(|out| (out, arguments.copy.existing()));
            asked.to_file(out, Size::Kept, &mut |_, _| Ok(()), console)?
        }
    };
    told(&arguments, &remade, console)
}

fn told(arguments: &Arguments, remade: &Remade, console: &Console) -> Result<Exit, Error> {
    let Remade { built, disk_bytes, image_bytes, written, .. } = remade;
    let document = Document {
        image: arguments.image.display().to_string(),
        out: arguments.out.as_ref().map(|out| out.display().to_string()),
        dry_run: arguments.dry_run,
        block_size: built.block_size,
        blocks: built.blocks,
        blocks_free: built.free_blocks,
        disk_bytes: disk_bytes.1,
        image_bytes: *image_bytes,
        blocks_written: *written,
    };
    if console.is_json() {
        console.print_json("extant-normalize/1", &document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.out.as_ref().unwrap_or(&arguments.image).display();
    let line = match (arguments.dry_run, written) {
        (true, _) => format!("{shown}: can be made canonical\n"),
        (false, Some(0)) => format!("{shown}: is canonical already\n"),
        (false, Some(written)) => {
            format!("{shown}: is canonical, {} written\n", counted(*written, "block"))
        }
        (false, None) => format!("{shown}: is canonical\n"),
    };
    console.report(&line)?;
    Ok(Exit::Complete)
}
