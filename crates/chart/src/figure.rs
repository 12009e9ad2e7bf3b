//! What a page draws: charts as data, in whole numbers, without a word of how they look.
//!
//! ```
//! use extant_chart::{Axis, Figure, LineChart, Unit};
//! let size = Axis::new("cluster size", Unit::Bytes).logarithmic();
//! let chart = LineChart::new(size, Axis::new("check", Unit::Nanoseconds))
//!     .posted("measured", [(65_536, 1_000_000_000)])
//!     .series("modelled", [(65_536, 1_100_000_000), (131_072, 900_000_000)]);
//! let figure = Figure::new("check against cluster size", chart).line("Of half the volume.");
//! assert_eq!(figure.content.marks(), 3);
//! ```
//!
//! Values are `u64` in the unit of their axis; the page chooses seconds or milliseconds, MB or GB.
use crate::table::Table;
use serde::Deserialize;

/// What the values of an axis are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Times.
    Nanoseconds,
    /// Sizes and places, in powers of 1,024 (labels `KiB`, `MiB`).
    Bytes,
    /// Rates, in powers of 1,000 (labels `kB/s`, `MB/s`).
    BytesPerSecond,
    /// Numbers of things.
    Count,
    /// Numbers of things a second.
    PerSecond,
    /// Shares or ratios in thousandths: 850 is shown as 0.85.
    Permille,
    /// Shares in thousandths, shown in hundredths: 850 is 85 %.
    Percent,
    /// Shares or ratios in millionths: 987,600 is shown as 0.9876.
    PartsPerMillion,
    /// Days of 24 hours.
    Days,
}

/// How values are placed along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisScale {
    /// Evenly, from 0.
    #[default]
    Linear,
    /// By powers: each doubling is as long. A value of 0 stands at the axis' beginning.
    Logarithmic,
}

/// An axis: what it shows, in which unit, and how.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// In words: "cluster size".
    pub label: String,
    /// Of its values.
    pub unit: Unit,
    /// How they are placed.
    #[serde(default)]
    pub scale: AxisScale,
}

impl Axis {
    /// A linear axis from 0.
    #[must_use]
    pub fn new(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, scale: AxisScale::Linear }
    }

    /// The same axis by powers.
    #[must_use]
    pub fn logarithmic(mut self) -> Axis {
        self.scale = AxisScale::Logarithmic;
        self
    }
}

/// Whose values these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured here.
    #[default]
    Ours,
    /// Written in a post, or measured on a real drive.
    Posted,
    /// A bound: what no layout can undercut.
    Limit,
}

/// A line of a chart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Whose values.
    pub origin: Origin,
    /// Points (x, y), rising in x.
    pub points: Vec<(u64, u64)>,
}

/// How a line is drawn between its points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LineStyle {
    /// A mark at each point, straight lines between: a few measurements.
    #[default]
    Marked,
    /// A value holds until the next point: sums over intervals of time.
    Steps,
    /// Only the line: many points.
    Plain,
}

/// Lines over a common axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineChart {
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// Between the points.
    pub style: LineStyle,
    /// The lines.
    pub series: Vec<Series>,
}

impl LineChart {
    /// A chart without lines.
    #[must_use]
    pub fn new(x: Axis, y: Axis) -> LineChart {
        LineChart { x, y, style: LineStyle::Marked, series: Vec::new() }
    }

    /// The same chart, drawn otherwise.
    #[must_use]
    pub fn style(mut self, style: LineStyle) -> LineChart {
        self.style = style;
        self
    }

    /// One more line of ours.
    #[must_use]
    pub fn series(self, name: &str, points: impl IntoIterator<Item = (u64, u64)>) -> LineChart {
        self.with(name, Origin::Ours, points)
    }

    /// One more line of a post's.
    #[must_use]
    pub fn posted(self, name: &str, points: impl IntoIterator<Item = (u64, u64)>) -> LineChart {
        self.with(name, Origin::Posted, points)
    }

    /// One more line of that origin.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        origin: Origin,
        points: impl IntoIterator<Item = (u64, u64)>,
    ) -> LineChart {
        self.series.push(Series {
            name: name.to_owned(),
            origin,
            points: points.into_iter().collect(),
        });
        self
    }
}

/// Bars in groups: a group a measurement, a bar a system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BarChart {
    /// Along the bars.
    pub value: Axis,
    /// What the bars of each group are, in their order.
    pub bars: Vec<(String, Origin)>,
    /// The groups with the length of each bar; `None` where there is none.
    pub groups: Vec<(String, Vec<Option<u64>>)>,
}

/// How often which values occurred.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// Of the values: by powers, whatever its scale says.
    pub x: Axis,
    /// Distributions, each as pairs of the greatest value of a step and how many fell into it,
    /// rising.
    pub series: Vec<Series>,
}

impl Histogram {
    /// A histogram without values.
    #[must_use]
    pub fn new(x: Axis) -> Histogram {
        Histogram { x, series: Vec::new() }
    }

    /// One more distribution.
    #[must_use]
    pub fn with(mut self, name: &str, origin: Origin, steps: &[(u64, u64)]) -> Histogram {
        self.series.push(Series { name: name.to_owned(), origin, points: steps.to_vec() });
        self
    }
}

/// A field of a raster and what fell into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RasterCell {
    /// Which, from the left.
    pub column: u16,
    /// Which, from the bottom.
    pub row: u16,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Reads and writes over time and place, counted in fields: a seek plot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raster {
    /// Horizontal: time.
    pub x: Axis,
    /// Vertical: place.
    pub y: Axis,
    /// The value at the left edge, and behind the right one.
    pub x_range: (u64, u64),
    /// The value at the bottom, and behind the top.
    pub y_range: (u64, u64),
    /// How many columns.
    pub columns: u16,
    /// How many rows.
    pub rows: u16,
    /// Fields that hold something, by column and row.
    pub cells: Vec<RasterCell>,
}

/// A map of fields in rows, each of one kind: how a volume is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    /// What the kinds are: name, and the role of its colour.
    pub kinds: Vec<(String, Hue)>,
    /// Fields in a row.
    pub columns: u16,
    /// Maps side by side ("before", "after"): a name, and the kind of each field, by its number in
    /// `kinds`.
    pub maps: Vec<(String, Vec<u8>)>,
    /// What a field stands for: "16 MiB".
    pub field: String,
}

/// Colours by role; a page has one for light and one for dark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hue {
    /// Nothing there.
    Empty,
    /// Rather unimportant.
    Faint,
    /// Reads; the first of several.
    Blue,
    /// Writes; the second.
    Orange,
    /// The third.
    Green,
    /// The fourth.
    Purple,
    /// What is wrong, or stands out.
    Red,
    /// The sixth.
    Teal,
    /// The seventh.
    Yellow,
}

/// Small multiples: a field for each row and column, in each the ranges of several systems, over
/// scales that the fields of a column share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Multiples {
    /// Of the values: its scale is that of all fields.
    pub value: Axis,
    /// What the rows are, from the top; one without a name where there is one row.
    pub rows: Vec<String>,
    /// What the columns are, from the left.
    pub columns: Vec<String>,
    /// What stands in each field, from the top.
    pub systems: Vec<String>,
    /// What was found.
    pub ranges: Vec<Range>,
}

/// What was found of one system in one field of [`Multiples`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Its row, counted from 0.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// Its system.
    pub system: usize,
    /// The least value.
    pub least: u64,
    /// The one in the middle; of two, the lower.
    pub median: u64,
    /// The greatest.
    pub greatest: u64,
    /// How many there were.
    pub count: usize,
}

/// What a figure shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FigureContent {
    /// Ranges in fields of rows and columns.
    Multiples(Multiples),
    /// Lines over an axis.
    Lines(LineChart),
    /// Bars in groups.
    Bars(BarChart),
    /// Distributions: drawn with their sums beside them.
    Histogram(Histogram),
    /// A seek plot.
    Raster(Raster),
    /// Maps.
    Grid(Grid),
    /// Rows and columns.
    Table(Table),
    /// Text whose lines and spaces matter: a stem-and-leaf plot.
    Text(String),
    /// Seek plots and lines under each other, over the horizontal axis of the first.
    Stack(Vec<FigureContent>),
}

impl FigureContent {
    /// How many things are drawn: points, bars, steps, fields, rows or lines.
    #[must_use]
    pub fn marks(&self) -> usize {
        let points = |series: &[Series]| series.iter().map(|series| series.points.len()).sum();
        match self {
            FigureContent::Multiples(chart) => chart.ranges.len(),
            FigureContent::Lines(chart) => points(&chart.series),
            FigureContent::Bars(chart) => {
                chart.groups.iter().map(|(_, bars)| bars.iter().flatten().count()).sum()
            }
            FigureContent::Histogram(histogram) => points(&histogram.series),
            FigureContent::Raster(raster) => raster.cells.len(),
            FigureContent::Grid(grid) => grid.maps.iter().map(|(_, fields)| fields.len()).sum(),
            FigureContent::Table(table) => table.rows().len(),
            FigureContent::Text(text) => text.lines().count(),
            FigureContent::Stack(parts) => parts.iter().map(FigureContent::marks).sum(),
        }
    }
}

macro_rules! content {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for FigureContent {
            fn from(content: $from) -> FigureContent {
                FigureContent::$variant(content)
            }
        }
    )*};
}
content!(
    Multiples => Multiples,
    LineChart => Lines,
    BarChart => Bars,
    Histogram => Histogram,
    Raster => Raster,
    Grid => Grid,
    Table => Table,
    String => Text
);

/// A chart, a table or a text with its title.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What a reader should see in it; may be empty.
    pub line: String,
    /// The heading under which it stands: the title of a table of the same post, or one of its own.
    /// Empty: at the end of what it belongs to.
    pub section: String,
    /// The data.
    pub content: FigureContent,
}

impl Figure {
    /// A figure with a title.
    #[must_use]
    pub fn new(title: &str, content: impl Into<FigureContent>) -> Figure {
        Figure {
            title: title.to_owned(),
            line: String::new(),
            section: String::new(),
            content: content.into(),
        }
    }

    /// The same figure with a sentence under its title.
    #[must_use]
    pub fn line(mut self, line: &str) -> Figure {
        line.clone_into(&mut self.line);
        self
    }

    /// The same figure under a heading.
    #[must_use]
    pub fn section(mut self, section: &str) -> Figure {
        section.clone_into(&mut self.section);
        self
    }
}
