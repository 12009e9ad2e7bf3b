//! Seek plots: each field of time and place in which commands ended is a mark, reads and writes in
//! two colours and two shapes.
use super::markup::Markup;
use super::plot::{Height, Name, Panel, from_above};
use super::scale::{LENGTH, Scale, grouped, show};
use crate::{Raster, RasterCell};
use std::collections::BTreeMap;
use std::fmt::Write;

/// From how many commands on a field is drawn darker, and darker still.
const DENSE: [u64; 2] = [3, 16];

/// The horizontal scale of a plot.
pub(super) fn x_scale(raster: &Raster) -> Scale {
    Scale::between(&raster.x, raster.x_range.0, raster.x_range.1)
}

/// The plot.
pub(super) fn panel(raster: &Raster, x: &Scale) -> Panel {
    let y = Scale::between(&raster.y, raster.y_range.0, raster.y_range.1);
    let mut drawing = Markup::default();
    marks(raster, "read", |cell| cell.reads, &mut drawing);
    marks(raster, "write", |cell| cell.writes, &mut drawing);
    let name =
        |classes: &str, words: &str| Name { classes: classes.to_owned(), words: words.to_owned() };
    Panel {
        label: raster.y.label.clone(),
        height: Height::Tall,
        ticks: y.ticks(),
        drawing,
        names: vec![name("read dot", "reads"), name("write dot", "writes")],
        says: says(raster, x),
    }
}

/// The middle of a field, of N along an axis.
fn middle(number: u16, count: u16) -> u64 {
    (2 * u64::from(number) + 1) * LENGTH / (2 * u64::from(count.max(1)))
}

fn marks(raster: &Raster, what: &str, count: impl Fn(&RasterCell) -> u64, out: &mut Markup) {
    let mut paths = [String::new(), String::new(), String::new()];
    for cell in &raster.cells {
        let commands = count(cell);
        if commands == 0 {
            continue;
        }
        let level = DENSE.iter().filter(|least| commands >= **least).count();
        let across = middle(cell.column, raster.columns);
        let down = from_above(middle(cell.row, raster.rows));
        let _ = write!(paths[level], "M{across} {down}h0");
    }
    for (level, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let class = format!("{what} level{level}");
        out.open("path", &[("class", &class), ("data-token", "M"), ("d", path)]).close("path");
    }
}

/// What happened in each column.
fn says(raster: &Raster, x: &Scale) -> BTreeMap<u64, String> {
    let span = |range: (u64, u64), count: u16, number: u16| {
        let length = u128::from(range.1.saturating_sub(range.0));
        let at = length * u128::from(number) / u128::from(count.max(1));
        range.0.saturating_add(u64::try_from(at).unwrap_or(u64::MAX))
    };
    let mut says = BTreeMap::new();
    for cells in raster.cells.chunk_by(|one, other| one.column == other.column) {
        let sum =
            |of: fn(&RasterCell) -> u64| grouped(cells.iter().map(of).fold(0, u64::saturating_add));
        let rows = || cells.iter().map(|cell| cell.row);
        let (lowest, highest) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0));
        let at = span(raster.x_range, raster.columns, cells[0].column);
        let words = format!(
            "{}: {} reads, {} writes, from {} to {}",
            show(raster.x.unit, at),
            sum(|cell| cell.reads),
            sum(|cell| cell.writes),
            show(raster.y.unit, span(raster.y_range, raster.rows, lowest)),
            show(raster.y.unit, span(raster.y_range, raster.rows, highest + 1)),
        );
        says.insert(x.place(at), words);
    }
    says
}
