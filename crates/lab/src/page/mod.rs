//! Pages of reports: what a report says, as the sections, tables and figures of
//! [`extant_chart::page`].
//!
//! ```text
//! posts    the mailing list posts     tables   the table of a post
//! replay   a replayed trace           ageing   the curves of ageing
//! frontier two sides of a bargain
//! ```
mod ageing;
mod frontier;
mod posts;
mod replay;
mod tables;

pub use ageing::{figures_of_ageing, of_ageing};
pub use extant_chart::page::{BEGINNING, of_figures};
pub use replay::{of_replay, of_requests};

use crate::figures::activity::of_run;
use crate::posts::PostsReport;
use crate::report::{Report, TimeKind};
use extant_chart::page::{Markup, show, with_lead};
use extant_chart::{Figure, Unit, seconds};

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
        let size = show(Unit::Bytes, entry.bytes);
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
    with_lead(&report.scenario, lead, &figures)
}
