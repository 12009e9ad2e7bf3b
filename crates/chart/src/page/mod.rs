//! A page: one HTML file that a person looks at, without a network.
//!
//! A page carries its style and a small script. Its plots are SVG that is made here, from whole
//! numbers. Without the script everything is there but the cursor that reads values out and the
//! choice of light or dark.
//!
//! ```text
//! document   head, contents, sections, foot
//! figures    what a figure becomes: a plot, a table, text
//! lines, histogram, raster   charts over a horizontal axis      bars, grid   charts of their own
//! multiples  fields in rows and columns, also as a file of SVG
//! plot       panels over one axis, their names and the cursor
//! tables     HTML tables that scroll
//! scale      values on an axis, and how they are written
//! markup     HTML and its escapes
//! ```
//!
//! Words from outside (names of files, of processes) are text or an attribute, and are escaped
//! where they are written ([`Markup`]).
mod bars;
mod document;
mod figures;
mod grid;
mod histogram;
mod lines;
mod markup;
mod multiples;
mod plot;
mod raster;
mod scale;
mod tables;

pub use document::{BEGINNING, Document, Section};
pub use figures::draw;
pub use markup::{Attributes, Markup};
pub use multiples::{SVG_BEGINNING, svg};
pub use scale::show;
pub use tables::{close as close_table, open as open_table};

use crate::figure::Figure;

/// A page of figures under a title and a sentence; figures with the same `section` stand together,
/// in the order in which their headings first come. Reports that have no page of their own are
/// shown so.
#[must_use]
pub fn of_figures(title: &str, line: &str, figures: &[Figure]) -> String {
    let mut lead = Markup::default();
    lead.element("p", &[("class", "lead")], line);
    with_lead(title, lead, figures)
}

/// A page of figures under a title and a lead. Figures with the same `section` are together, in the
/// order in which their headings first come.
#[must_use]
pub fn with_lead(title: &str, lead: Markup, figures: &[Figure]) -> String {
    let mut headings: Vec<&str> = Vec::new();
    for figure in figures {
        if !headings.contains(&figure.section.as_str()) {
            headings.push(&figure.section);
        }
    }
    let section = |(number, heading): (usize, &&str)| {
        let mut body = Markup::default();
        body.raw("<div class=\"figures\">");
        let own = figures.iter().filter(|figure| figure.section == **heading);
        own.for_each(|figure| figures::draw(figure, &mut body));
        body.raw("</div>");
        Section {
            id: format!("part-{}", number + 1),
            kicker: String::new(),
            title: if heading.is_empty() { "Figures" } else { heading }.to_owned(),
            body,
            parts: Vec::new(),
        }
    };
    let sections = headings.iter().enumerate().map(section).collect();
    Document { title, lead, sections }.into_html()
}
