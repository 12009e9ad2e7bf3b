//! Charts and tables from plain numbers: SVG and a page of HTML, and text for a terminal.
//!
//! What is drawn is data ([`Figure`]): whole numbers with a unit, and words. Nothing here knows
//! what was measured. The same figures give the same bytes on every machine.
//!
//! ```text
//! page     one HTML file that needs no network: sections, figures as SVG, tables
//! figure   what a figure shows, without a word of how it looks
//! stem     stem-and-leaf plots of times, as text
//! table    tables as text, folded to the width of a terminal
//! wrap     text folded into lines
//! ```
//!
//! A module uses those below it only.
pub mod figure;
pub mod page;
mod stem;
mod table;
mod wrap;

pub use figure::{
    Axis, AxisScale, BarChart, Figure, FigureContent, Grid, Histogram, Hue, LineChart, LineStyle,
    Multiples, Origin, Range, Raster, RasterCell, Series, Unit,
};
pub use stem::StemPlot;
pub use table::{Alignment, Table, seconds};
pub use wrap::{TEXT_WIDTH, beside, wrapped};
