//! `extant layout`: how well the files of a volume are laid out, and what is where.
use extant_chart::wrapped;
use extant_format::superblock::SuperblockError;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery;
use extant_inspect::{
    Cell, LayoutMap, LayoutReport, Paths, SuperblockPlace, SurveyOptions, Volume,
};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Show how well files are laid out: fragments, layout score, map blocks and how clustered they
/// are, free runs.
///
/// The layout score is the share of blocks that come right after the one before them in their file
/// (Smith and Seltzer): 1 is perfect. Map blocks are indirect blocks and nodes of extent trees;
/// those of a group are clustered when they are within a 64th of it. Seeks are counted with gaps of
/// up to 256 KiB read over. Nothing is written.
///
/// Of all names "In directory's group" are those whose inode is in the group of their directory,
/// and "In disk order" the pairs of neighbouring names whose data rises: more is better.
/// "Distance to directory" is in blocks, from a file's data to its directory: less is better where
/// directories lie among their files. An image of extant build has all directories in front, so its
/// distance is large, and they are read at once.
///
/// With --json: {"schema": "extant-layout/1", "image", "block_size", "layout", "map"}; map is null
/// without --map, else the cells of each group with their counts of blocks: free, data, map,
/// directory, metadata.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant layout disk.img
  extant layout --files 30 disk.img
  extant layout --map disk.img
  extant layout --map --width 128 disk.img | less
  extant layout --json disk.img | jq .layout.maps.clustered")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Name this many of the files with most fragments
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16))]
    pub files: u16,
    /// Draw a row for each group: what is where in it
    #[arg(long)]
    pub map: bool,
    /// Characters of a row of --map
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub width: u32,
    #[command(flatten)]
    pub place: ImageArguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    block_size: u32,
    layout: &'a LayoutReport,
    map: Option<&'a LayoutMap>,
}

/// Shows it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let image = &arguments.image;
    let failed = |error: extant_inspect::Error| Error::new(format!("{}: {error}", image.display()));
    let volume = open(&arguments, console)?;
    image::warn_if_mounted(image, console);
    let options = SurveyOptions { worst_files: arguments.files.into(), paths: Paths::Found };
    let layout = extant_inspect::survey_with(&volume, &options).map_err(failed)?;
    let map = match arguments.map {
        true => Some(extant_inspect::group_map(&volume, arguments.width).map_err(failed)?),
        false => None,
    };
    if layout.faults > 0 {
        console.warn(&format!(
            "{}: {} of its structures are damaged and were left out: extant check names them",
            image.display(),
            layout.faults
        ));
    }
    if console.is_json() {
        console.print_json(
            "extant-layout/1",
            &Report {
                image: image.display().to_string(),
                block_size: volume.superblock().block_size(),
                layout: &layout,
                map: map.as_ref(),
            },
        )?;
    } else {
        let mut text = wrapped(&layout.to_string(), console.width(), 4);
        if let Some(map) = &map {
            draw(map, &mut text);
        }
        console.print(&text)?;
    }
    Ok(Exit::Complete)
}

fn open(arguments: &Arguments, console: &Console) -> Result<Volume, Error> {
    let image = &arguments.image;
    let offset = arguments.place.offset_bytes();
    let device = image::device_shown(image, &arguments.place, console)?;
    let device = recovery::judged(image, device, console).device;
    Volume::open(device.clone(), SuperblockPlace::Primary).map_err(|error| match error {
        extant_inspect::Error::Superblock { error: SuperblockError::NotExt, .. } => {
            image::not_ext(image, &*device, offset)
        }
        error => Error::new(format!("{}: {error}", image.display())),
    })
}

/// What a cell is drawn as, with its meaning.
const SIGNS: &str = ". free   : some data   # data   m map blocks   d directories   = metadata";

/// One character for a cell. Map blocks and directories are few: a 16th of a cell shows.
fn sign(cell: &Cell) -> char {
    let part = |blocks: u64, of: u64| blocks > 0 && blocks.saturating_mul(of) >= cell.blocks;
    let rest = cell.data.max(cell.metadata).max(cell.directory);
    match cell {
        _ if cell.free == cell.blocks => '.',
        _ if part(cell.map, 16) || cell.map > rest => 'm',
        _ if cell.directory > cell.data.max(cell.metadata) || part(cell.directory, 4) => 'd',
        _ if cell.metadata > cell.data => '=',
        _ if part(cell.data, 2) => '#',
        _ if cell.data > 0 => ':',
        _ => '=',
    }
}

/// A row for each group; groups that look the same as the one before are left out.
fn draw(map: &LayoutMap, text: &mut String) {
    let per_group = map.cells_per_group.unwrap_or(1).max(1) as usize;
    let rows = map.cells.chunk_by(|one, other| group_of(map, one) == group_of(map, other));
    let digits = map.groups.saturating_sub(1).to_string().len().max(5);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:>digits$}  each character {} blocks",
        "Group",
        map.blocks_per_group as usize / per_group
    );
    let mut before = String::new();
    let mut same = 0;
    for cells in rows {
        let row: String = cells.iter().map(sign).collect();
        if row == before {
            same += 1;
            continue;
        }
        note_same(same, digits, text);
        same = 0;
        let group = cells.first().map_or(0, |cell| group_of(map, cell));
        let _ = writeln!(text, "{group:>digits$}  {row}");
        before = row;
    }
    note_same(same, digits, text);
    let _ = writeln!(text, "{:>digits$}  {SIGNS}", "");
}

fn note_same(groups: u64, digits: usize, text: &mut String) {
    if groups > 0 {
        let word = if groups == 1 { "group looks" } else { "groups look" };
        let _ = writeln!(text, "{:>digits$}  {groups} more {word} the same", "*");
    }
}

fn group_of(map: &LayoutMap, cell: &Cell) -> u64 {
    let first = map.cells.first().map_or(0, |cell| cell.first);
    cell.first.saturating_sub(first) / u64::from(map.blocks_per_group.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(free: u64, data: u64, map: u64, directory: u64, metadata: u64) -> Cell {
        Cell {
            first: 0,
            blocks: free + data + map + directory + metadata,
            free,
            data,
            map,
            directory,
            metadata,
        }
    }

    #[test]
    fn cells_are_drawn_by_what_is_in_them() {
        let table = [
            (cell(100, 0, 0, 0, 0), '.'),
            (cell(90, 10, 0, 0, 0), ':'),
            (cell(10, 90, 0, 0, 0), '#'),
            (cell(80, 10, 10, 0, 0), 'm'),
            (cell(99, 0, 1, 0, 0), 'm'),
            (cell(0, 99, 1, 0, 0), '#'),
            (cell(60, 10, 0, 30, 0), 'd'),
            (cell(0, 20, 0, 0, 80), '='),
            (cell(99, 0, 0, 0, 1), '='),
        ];
        for (cell, expected) in table {
            assert_eq!(sign(&cell), expected, "{cell:?}");
        }
    }
}
