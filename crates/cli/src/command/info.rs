//! `extant info`: what dumpe2fs prints.
use extant_block::BlockDevice;
use extant_chart::wrapped;
use extant_format::BlockNo;
use extant_format::superblock::{Feature, SuperblockError};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery;
use extant_inspect::{SuperblockPlace, Volume, VolumeInfo};
use extant_journal::{Found, MapSource, Recovery, Report};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Show what a volume says of itself: superblock, features, journal; groups with their free blocks
/// and inodes.
///
/// In the shape of dumpe2fs, but that long lines are folded to the terminal's width, or to 100
/// columns; programs read --json. Volumes with features that nothing else here supports are shown
/// too, and damaged ones as far as they can be understood; what is wrong with them is said in lines
/// that begin with "Problem". A volume whose journal holds changes is shown as it is after replay,
/// which is done in memory; but for its journal, which is shown as it is.
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
    pub place: ImageArguments,
}

fn block_size(text: &str) -> Result<u32, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size: &u32| size.is_power_of_two() && (1024..=65536).contains(size));
    size.ok_or_else(|| "it must be a power of two from 1024 to 65536".to_owned())
}

/// Shows it. With `--json`: `{"volume": .., "groups": [..]}`, and a `"log"` where the
/// journal has to be replayed.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    if let Some(exit) = journal_device(&arguments, console)? {
        return Ok(exit);
    }
    let Shown { volume, info, waiting } = open(&arguments, console)?;
    image::warn_if_mounted(&arguments.image, console);
    let failed = |error: extant_inspect::Error| {
        Error::new(format!("{}: {error}", arguments.image.display()))
    };
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let detail = if arguments.header { Detail::Superblock } else { Detail::Groups };
    let written = match console.is_json() {
        true => print_json(&volume, &info, waiting.as_ref(), detail, &mut out),
        false => {
            let text = format!("{info}{}", waiting.as_ref().map(waiting_text).unwrap_or_default());
            print_text(&volume, &text, detail, console.width(), &mut out)
        }
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

/// Shows a device that is the journal of another volume; `None` for anything else.
fn journal_device(arguments: &Arguments, console: &Console) -> Result<Option<Exit>, Error> {
    if arguments.superblock.is_some() {
        return Ok(None);
    }
    let shown = arguments.image.display();
    let device = image::device_shown(&arguments.image, &arguments.place, console)?;
    let info = extant_inspect::journal_device(&*device)
        .map_err(|error| Error::new(format!("{shown}: {error}")))?;
    let Some(info) = info else { return Ok(None) };
    if console.is_json() {
        let volume = serde_json::json!({ "volume": info });
        console.print_json("extant-info/1", &volume)?;
        return Ok(Some(Exit::Complete));
    }
    let users = info.journal.as_ref().map_or(&[][..], |journal| &journal.user_ids);
    let whose = match users {
        [] => "no volume yet".to_owned(),
        [user] => format!("the volume {user}"),
        users => format!("the volumes {}", users.join(", ")),
    };
    console.print(&format!("{shown}: is no volume, but the journal of {whose}\n{info}"))?;
    Ok(Some(Exit::Complete))
}

/// What is shown.
struct Shown {
    /// The volume as it is after replay.
    volume: Volume,
    /// Its facts, but those of the journal as they are on the disk.
    info: VolumeInfo,
    /// What its log holds.
    waiting: Option<Report>,
}

/// The volume as it is after replay, with a journal as it is before.
fn open(arguments: &Arguments, console: &Console) -> Result<Shown, Error> {
    let image = &arguments.image;
    let device = image::device_shown(image, &arguments.place, console)?;
    let volume = open_on(arguments, &device)?;
    let mut info = volume.info();
    let is_primary = arguments.superblock.is_none();
    if !is_primary || !volume.superblock().has(Feature::NEEDS_RECOVERY) {
        return Ok(Shown { volume, info, waiting: None });
    }
    let found = Recovery::find(Arc::clone(&device), MapSource::Inode, 0);
    let waiting = match found {
        Ok(Found::Recovery(recovery)) => Some(recovery.report()),
        Ok(Found::Nothing(_)) | Err(_) => None,
    };
    let (features, journal) = (info.features, info.journal);
    let volume = open_on(arguments, &recovery::judged(image, device, console).device)?;
    info = VolumeInfo { features, journal, ..volume.info() };
    Ok(Shown { volume, info, waiting })
}

/// As dumpe2fs says the rest of the journal.
fn waiting_text(report: &Report) -> String {
    let mut text = format!("{:<VALUES_AT$}{}\n", "Journal holds:", recovery::held(report));
    if let Some(end) = recovery::end(report) {
        text += &format!("{:<VALUES_AT$}{end}\n", "Journal ends:");
    }
    text
}

fn open_on(arguments: &Arguments, device: &Arc<dyn BlockDevice>) -> Result<Volume, Error> {
    let image = &arguments.image;
    let offset = arguments.place.offset_bytes();
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
            image::not_ext(image, &**device, offset)
        }
        extant_inspect::Error::Superblock { error, .. } => {
            let failure = Error::new(format!("{}: {error}", image.display()));
            match image::superblock_copy(&**device) {
                Some((block, bytes)) if place == SuperblockPlace::Primary => failure.hint(format!(
                    "a copy may be better: --superblock {block} --block-size {bytes}"
                )),
                _ => failure,
            }
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
    info: &str,
    detail: Detail,
    width: usize,
    out: &mut impl Write,
) -> Result<(), Stop> {
    write!(out, "{}", wrapped(info, width, VALUES_AT))?;
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
fn print_json(
    volume: &Volume,
    info: &VolumeInfo,
    waiting: Option<&Report>,
    detail: Detail,
    out: &mut impl Write,
) -> Result<(), Stop> {
    let json = |error: serde_json::Error| Stop::Out(error.into());
    out.write_all(b"{\"schema\":\"extant-info/1\",\"volume\":")?;
    serde_json::to_writer(&mut *out, info).map_err(json)?;
    if let Some(report) = waiting {
        out.write_all(b",\"log\":")?;
        serde_json::to_writer(&mut *out, &recovery::record(report)).map_err(json)?;
    }
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
