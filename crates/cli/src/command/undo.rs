//! `extant undo`: the last repair is taken back.
use extant_edit::undo::Undone;
use extant_host::closed::Volume;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::ImageArguments;
use extant_host::recovery::counted;
use serde::Serialize;
use std::path::PathBuf;

/// Take the last repair of a volume back: each block that extant repair changed is to the byte what
/// it was.
///
/// What was there is in .NAME.extant-undo beside the image, or in FILE.undo if the repair was given
/// --log FILE. It is refused if anything was written to the volume since: a mount alone is enough.
/// A power cut leaves the repaired volume or the one before: the next command that opens the image
/// ends what was begun. The file is then removed.
///
/// Exit codes: 0 it is as it was before the repair; 1 failed, and nothing was written; 2 wrong
/// usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant repair --all disk.img && extant undo disk.img
  extant undo --log /var/tmp/log /dev/sdb1
  extant undo --json disk.img | jq .blocks")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The log that the repair was given
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Document {
    image: String,
    blocks: u64,
}

/// Takes it back and says how many blocks that were.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { image, log, place } = &arguments;
    let undone = Volume::open(image, place, log.as_deref())?.undo()?;
    let blocks = match undone {
        Undone::Blocks(blocks) => blocks,
        Undone::Already => 0,
    };
    let shown = image.display().to_string();
    match console.is_json() {
        true => console.print_json("extant-undo/1", &Document { image: shown, blocks })?,
        false => console.report(&match undone {
            Undone::Blocks(blocks) => {
                format!("{shown}: as before the repair: {}\n", counted(blocks, "block"))
            }
            Undone::Already => format!("{shown}: was as before the repair already\n"),
        })?,
    }
    Ok(Exit::Complete)
}
