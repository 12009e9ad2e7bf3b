//! `extant df`: how much of an image is used, and how much is free.
use extant_engine::Filesystem;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::size;
use serde::Serialize;
use std::path::PathBuf;

/// Show how much of an image is used and how much is free.
///
/// As df(1) says it of the mounted image: the size is without the tables and the journal, which no
/// file can have, and what is available is what is free without the blocks that are kept for root.
/// Numbers count KiB. The image is only read.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant df disk.img
  extant df -h disk.img@2 data.img
  extant df -i disk.img
  extant df --json disk.img | jq .free_blocks"
)]
pub struct Arguments {
    /// The images
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<PathBuf>,
    /// Sizes with a letter, rounded up: 1.3G
    #[arg(long, short = 'h')]
    pub human_readable: bool,
    /// Count inodes in place of blocks
    #[arg(long, short)]
    pub inodes: bool,
    #[command(flatten)]
    pub place: ImageArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// What `--json` prints of an image, in blocks.
#[derive(Serialize)]
struct Record {
    image: String,
    block_size: u32,
    blocks: u64,
    overhead_blocks: u64,
    free_blocks: u64,
    available_blocks: u64,
    inodes: u32,
    free_inodes: u32,
}

impl Record {
    fn of(image: String, filesystem: &Filesystem) -> Record {
        let room = filesystem.statfs();
        Record {
            image,
            block_size: room.block_size,
            blocks: room.blocks,
            overhead_blocks: filesystem.overhead_blocks(),
            free_blocks: room.free_blocks,
            available_blocks: room.available_blocks,
            inodes: room.inodes,
            free_inodes: room.free_inodes,
        }
    }

    /// Size, used, available and the share that is used.
    fn row(&self, arguments: &Arguments) -> [String; 5] {
        let (size, used, available) = match arguments.inodes {
            true => {
                let (all, free) = (u64::from(self.inodes), u64::from(self.free_inodes));
                (all, all.saturating_sub(free), free)
            }
            false => {
                let size = self.blocks.saturating_sub(self.overhead_blocks).max(self.free_blocks);
                (size, size.saturating_sub(self.free_blocks), self.available_blocks)
            }
        };
        let unit = if arguments.inodes { 1 } else { u64::from(self.block_size) };
        let shown = |amount: u64| match (arguments.human_readable, arguments.inodes) {
            (true, _) => size::short(amount.saturating_mul(unit)),
            (false, true) => amount.to_string(),
            (false, false) => amount.saturating_mul(unit).div_ceil(1024).to_string(),
        };
        // Of what others than root can have; rounded up, as df(1) does.
        let share = match used.saturating_add(available) {
            0 => "-".to_owned(),
            all => format!("{}%", (u128::from(used) * 100).div_ceil(u128::from(all))),
        };
        [self.image.clone(), shown(size), shown(used), shown(available), share]
    }
}

/// Shows it. With `--json` a record a line: `{"schema": "extant-df/1", "image", "block_size",
/// "blocks", "overhead_blocks", "free_blocks", "available_blocks", "inodes", "free_inodes"}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let heads = match (arguments.inodes, arguments.human_readable) {
        (true, _) => ["Image", "Inodes", "IUsed", "IFree", "IUse%"],
        (false, true) => ["Image", "Size", "Used", "Available", "Use%"],
        (false, false) => ["Image", "1K-blocks", "Used", "Available", "Use%"],
    };
    let mut rows = vec![heads.map(str::to_owned)];
    for image in &arguments.images {
        let filesystem = image::open(image, &arguments.place, console)?;
        let record = Record::of(image.display().to_string(), &filesystem);
        match console.is_json() {
            true => console.print_json("extant-df/1", &record)?,
            false => rows.push(record.row(&arguments)),
        }
    }
    if !console.is_json() {
        console.print(&table(&rows))?;
    }
    Ok(Exit::Complete)
}

/// The first column to the left, the others to the right.
fn table(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = std::array::from_fn::<usize, 5, _>(|column| width(column).unwrap_or(0));
    let line = |row: &[String; 5]| {
        let numbers = row.iter().zip(widths).skip(1);
        let numbers: String = numbers.map(|(cell, width)| format!(" {cell:>width$}")).collect();
        format!("{:width$}{numbers}\n", row[0], width = widths[0])
    };
    rows.iter().map(line).collect()
}
