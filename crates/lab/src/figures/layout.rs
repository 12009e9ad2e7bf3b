//! Maps of a volume: what most of each stretch of blocks is used for.

use extant_chart::page::show;
use extant_chart::{Figure, Grid, Hue, Unit};
use extant_inspect::{Cell, LayoutMap};

/// Fields of a row.
const COLUMNS: u16 = 96;
/// How many fields a map has: as many rows as fit on a screen.
pub const FIELDS: usize = COLUMNS as usize * 36;

const KINDS: [(&str, Hue); 6] = [
    ("free", Hue::Empty),
    ("partly used", Hue::Faint),
    ("data", Hue::Blue),
    ("map blocks", Hue::Red),
    ("directories", Hue::Orange),
    ("metadata", Hue::Green),
];

/// What a field is: metadata and map blocks are few, and count before data.
fn kind(cell: &Cell) -> u8 {
    let share =
        |blocks: u64, one_in: u64| blocks.saturating_mul(one_in) >= cell.blocks && blocks > 0;
    match cell {
        cell if cell.free >= cell.blocks => 0,
        cell if share(cell.metadata, 2) => 5,
        cell if share(cell.map, 4) => 3,
        cell if share(cell.directory, 4) => 4,
        cell if share(cell.data, 2) => 2,
        _ => 1,
    }
}

/// Maps of one volume at several times, side by side; `None` of none. Each has a name: "before".
#[must_use]
pub fn of_layouts(maps: &[(String, LayoutMap)], title: &str) -> Option<Figure> {
    let (_, first) = maps.first()?;
    let blocks = first.cells.iter().map(|cell| cell.blocks).max().unwrap_or(0);
    let grid = Grid {
        kinds: KINDS.iter().map(|(words, hue)| ((*words).to_owned(), *hue)).collect(),
        columns: COLUMNS,
        maps: maps
            .iter()
            .map(|(name, map)| (name.clone(), map.cells.iter().map(kind).collect()))
            .collect(),
        field: show(Unit::Bytes, blocks.saturating_mul(first.block_size.into())),
    };
    let line = "The volume from its first block, row by row; metadata, map blocks and directories \
        are shown before data.";
    Some(Figure::new(title, grid).line(line).section("Where everything lies"))
}
