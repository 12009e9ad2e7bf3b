//! The page of ageing: each thing that samples hold as a curve over the months, a line for each
//! list of policies.

use crate::ageing::{AgeingReport, Better, Form, METRICS, Metric};
use extant_chart::page::{Markup, show, with_lead};
use extant_chart::{Axis, Figure, LineChart, Unit};

/// The page.
#[must_use]
pub fn of_ageing(report: &AgeingReport) -> String {
    let mut lead = Markup::default();
    lead.element("p", &[("class", "lead")], &report.line);
    let form = match report.form {
        Form::Quick => "quick form",
        Form::Full => "full size",
    };
    let words = format!(
        "{} of {}, {form}, on {}, seed {}, model {}; a sample every {}",
        report.profile.name,
        show(Unit::Bytes, report.volume_bytes),
        report.drive,
        report.seed,
        report.model_version,
        show(Unit::Days, report.sample_days.into()),
    );
    lead.element("p", &[("class", "facts")], &words);
    lead.raw("<dl class=\"facts\">");
    for series in &report.series {
        lead.raw("<div>").element("dt", &[], &series.name);
        lead.element("dd", &[], &series.policies).raw("</div>");
    }
    lead.raw("</dl>");
    with_lead(&report.name, lead, &figures_of_ageing(report))
}

/// The curves alone, for a page of something larger: those of which some sample holds a value.
#[must_use]
pub fn figures_of_ageing(report: &AgeingReport) -> Vec<Figure> {
    METRICS.iter().filter_map(|metric| curve(report, metric)).collect()
}

fn curve(report: &AgeingReport, metric: &Metric) -> Option<Figure> {
    let (unit, factor) = match (metric.unit, metric.digits) {
        ("MB/s", _) => (Unit::BytesPerSecond, 1e6),
        ("s", _) => (Unit::Nanoseconds, 1e9),
        ("", 1..) => (Unit::PartsPerMillion, 1e6),
        _ => (Unit::Count, 1.0),
    };
    let mut chart = LineChart::new(Axis::new("age", Unit::Days), Axis::new(metric.name, unit));
    for series in &report.series {
        // A product of two numbers, rounded: the same on every machine.
        let value = |value: f64| (value * factor).round().max(0.0) as u64;
        let point = |sample: &crate::ageing::Sample| {
            Some((sample.day.into(), value((metric.value)(sample)?)))
        };
        let points: Vec<(u64, u64)> = series.samples.iter().filter_map(point).collect();
        if !points.is_empty() {
            chart = chart.series(&series.name, points);
        }
    }
    if chart.series.is_empty() {
        return None;
    }
    let line = match metric.better {
        Better::Higher => "Higher is better.",
        Better::Lower => "Lower is better.",
        Better::Neither => "",
    };
    let section = match metric.key {
        "scan" | "read_newest" | "read_oldest" | "write" | "check" => "What it takes to use it",
        _ => "Where everything lies",
    };
    let mut name = metric.name.chars();
    let title: String =
        name.next().map_or_else(String::new, |first| first.to_uppercase().chain(name).collect());
    Some(Figure::new(&title, chart).line(line).section(section))
}
