//! Pages: reports as HTML that a person looks at, in one file, without a network.
//!
//! A page carries its style and a small script. Its plots are SVG that is made here, from whole
//! numbers: the same report gives the same bytes. Without the script everything is there but the
//! cursor that reads values out and the choice of light or dark.
//!
//! ```text
//! posts      the mailing list posts              document   head, contents, sections        markup   HTML and its escapes
//! mod        runs, replays, figures of others    figures    what a figure becomes           scale    values on an axis
//! activity   figures of what a run recorded      lines, histogram, raster, bars, grid: drawings over plot, or alone
//! ```
//!
//! Whatever comes from outside (names of scenarios, files, processes) is text or an attribute, and
//! is escaped where it is written ([`markup`]).
mod activity;
mod ageing;
mod bars;
mod document;
mod figures;
mod grid;
mod histogram;
mod layout;
mod lines;
mod markup;
mod plot;
mod posts;
mod raster;
mod replay;
mod scale;
mod tables;

pub use activity::{latencies_of_drive, latencies_of_process, of_drive, of_run};
pub use ageing::{figures_of_ageing, of_ageing};
pub use document::BEGINNING;
pub use layout::{FIELDS, of_layouts};
pub use replay::of_replay;

use crate::posts::PostsReport;
use crate::report::{Figure, Report, TimeKind, seconds};
use document::{Document, Section};
use markup::Markup;

/// The page of posts.
#[must_use]
pub fn of_posts(report: &PostsReport) -> String {
    posts::page(report)
}

/// The page of a run: its tables, what its drives did over time, how long its calls took, and the
/// figures that it carries.
#[must_use]
pub fn of_report(report: &Report) -> String {
    let mut lead = Markup::default();
    lead.element("p", &[("class", "lead")], &report.line);
    let time = match report.time {
        TimeKind::Virtual => "virtual time",
        TimeKind::Real => "real time",
    };
    let scale = match report.scale {
        1 => String::new(),
        scale => format!(", counts divided by {scale}"),
    };
    let words = format!(
        "{} s of {time}, seed {}, model {}{scale}",
        seconds(report.elapsed_ns),
        report.seed,
        report.model_version
    );
    lead.element("p", &[("class", "facts")], &words);
    lead.raw("<dl class=\"facts\">");
    for entry in &report.filesystems {
        let size = scale::show(crate::report::Unit::Bytes, entry.bytes);
        let words = format!("{size} on {}, {}", entry.drive, entry.policies);
        lead.raw("<div>").element("dt", &[], &entry.name).element("dd", &[], &words).raw("</div>");
    }
    lead.raw("</dl>");
    let tables = report.tables().into_iter().map(|table| {
        let title = table.title().to_owned();
        Figure::new(&title, table).section("Tables")
    });
    let figures = of_run(report).into_iter().map(|figure| match figure.section.is_empty() {
        true => figure.section("Over time"),
        false => figure,
    });
    let figures: Vec<Figure> = figures.chain(tables).collect();
    document(&report.scenario, lead, &figures)
}

/// A page of figures under a title and a sentence; figures with the same `section` stand together,
/// in the order in which their headings first come. Reports that have no page of their own are
/// shown so.
#[must_use]
pub fn of_figures(title: &str, line: &str, figures: &[Figure]) -> String {
    let mut lead = Markup::default();
    lead.element("p", &[("class", "lead")], line);
    document(title, lead, figures)
}

fn document(title: &str, lead: Markup, figures: &[Figure]) -> String {
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
