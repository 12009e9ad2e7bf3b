//! `extant info`: what dumpe2fs prints.
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::image::{self, ImageArguments};
use extant_chart::wrapped;
use extant_format::BlockNo;
use extant_format::superblock::SuperblockError;
use extant_inspect::{SuperblockPlace, Volume};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Show what a volume says of itself: superblock, features, journal; groups with their free blocks
/// and inodes.
///
/// In the shape of dumpe2fs, but that long lines are folded to the terminal's width, or to 100
/// columns; programs read --json. Volumes with features that nothing else here supports are shown
/// too, and damaged ones as far as they can be understood; what is wrong with them is said in lines
/// that begin with "Problem".
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  extant info disk.img
  extant info -h disk.img
  extant info --json disk.img | jq .volume.features
  extant info --superblock 32768 --block-size 4096 damaged.img")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Superblock and journal only, no groups
    #[arg(short = 'h', long = "header")]
    pub header: bool,
    /// Believe the copy of the superblock in this block; it needs --block-size
    #[arg(long, short = 's', value_name = "BLOCK", requires = "block_size")]
    pub superblock: Option<u64>,
    /// Bytes of a block, for --superblock
    #[arg(long, short = 'b', value_name = "BYTES", value_parser = block_size,
        requires = "superblock")]
    pub block_size: Option<u32>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: ImageArguments,
}

fn block_size(text: &str) -> Result<u32, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size: &u32| size.is_power_of_two() && (1024..=65536).contains(size));
    size.ok_or_else(|| "it must be a power of two from 1024 to 65536".to_owned())
}

/// Shows it. With `--json`: `{"volume": .., "groups": [..]}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let volume = open(&arguments)?;
    image::warn_if_mounted(&arguments.image, console);
    let failed = |error: extant_inspect::Error| {
        Error::new(format!("{}: {error}", arguments.image.display()))
    };
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let detail = if arguments.header { Detail::Superblock } else { Detail::Groups };
    let written = match console.is_json() {
        true => print_json(&volume, detail, &mut out),
        false => print_text(&volume, detail, console.width(), &mut out),
    };
    match written {
        Ok(()) => out.flush().map_err(|error| Error::stdout(&error))?,
        Err(Stop::Out(error)) => return Err(Error::stdout(&error)),
        Err(Stop::Volume(error)) => {
            // What was understood so far is worth seeing.
            out.flush().map_err(|error| Error::stdout(&error))?;
            return Err(failed(error));
        }
    }
    Ok(Exit::Complete)
}

fn open(arguments: &Arguments) -> Result<Volume, Error> {
    let image = &arguments.image;
    let offset = arguments.place.offset_bytes();
    let device = image::device(image, offset)?;
    let place = match (arguments.superblock, arguments.block_size) {
        (Some(block), Some(block_size)) => {
            SuperblockPlace::Copy { block: BlockNo(block), block_size }
        }
        _ => SuperblockPlace::Primary,
    };
    Volume::open(device.clone(), place).map_err(|error| match error {
        extant_inspect::Error::Superblock { error: SuperblockError::NotExt, byte }
            if place != SuperblockPlace::Primary =>
        {
            Error::new(format!("{}: no superblock at byte {byte}", image.display()))
                .hint("extant mkfs -n with the options of the volume prints where copies are")
        }
        extant_inspect::Error::Superblock { error: SuperblockError::NotExt, .. } => {
            image::not_ext(image, &*device, offset)
        }
        extant_inspect::Error::Superblock { error, .. } => {
            Error::new(format!("{}: {error}", image.display())).hint(
                "a copy may be better: --superblock 32768 --block-size 4096, or 8193 and 1024",
            )
        }
        error => Error::new(format!("{}: {error}", image.display())),
    })
}

/// Where the values of the superblock begin: lines that are folded go on there.
const VALUES_AT: usize = 26;
/// Where the lines of a group go on.
const GROUP_INDENT: usize = 4;

/// How much of a volume is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Superblock,
    /// The superblock and every group.
    Groups,
}

/// Why printing ended early.
enum Stop {
    Out(std::io::Error),
    Volume(extant_inspect::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Out(error)
    }
}

fn print_text(
    volume: &Volume,
    detail: Detail,
    width: usize,
    out: &mut impl Write,
) -> Result<(), Stop> {
    write!(out, "{}", wrapped(&volume.info().to_string(), width, VALUES_AT))?;
    if detail == Detail::Superblock {
        return Ok(());
    }
    writeln!(out)?;
    for group in volume.groups() {
        let group = group.map_err(Stop::Volume)?.to_string();
        write!(out, "\n{}", wrapped(&group, width, GROUP_INDENT))?;
    }
    Ok(())
}

/// Group by group: a volume may have millions.
fn print_json(volume: &Volume, detail: Detail, out: &mut impl Write) -> Result<(), Stop> {
    let json = |error: serde_json::Error| Stop::Out(error.into());
    out.write_all(b"{\"volume\":")?;
    serde_json::to_writer(&mut *out, &volume.info()).map_err(json)?;
    if detail == Detail::Groups {
        out.write_all(b",\"groups\":[")?;
        for (number, group) in volume.groups().enumerate() {
            if number > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &group.map_err(Stop::Volume)?).map_err(json)?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b"}\n")?;
    Ok(())
}
