//! The page of a replayed trace: how long requests took on the model, and on the drive where that
//! was measured.

use crate::report::Distribution;
use extant_chart::page::{Markup, show, with_lead};
use extant_chart::{Alignment, Axis, Figure, Histogram, LineChart, LineStyle, Origin, Table, Unit};
use extant_sim::device;

/// Which of the times are set beside each other: after N thousandths of them.
const QUANTILES: [usize; 23] = [
    1, 5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800,
    850, 900, 950,
];

/// The page of a trace on a drive; `words` say what was changed of its requests, `times_ns` are the
/// model's, `measured_ns` the drive's, of the same requests.
#[must_use]
pub fn of_replay(
    drive: &str,
    trace: &str,
    words: &[String],
    times_ns: &[u64],
    measured_ns: Option<&[u64]>,
) -> String {
    let mut lead = Markup::default();
    let said = format!("The trace {trace}, request by request, on {drive}.");
    lead.element("p", &[("class", "lead")], &said);
    for line in words {
        lead.element("p", &[], line);
    }
    let mut figures = vec![Figure::new("Sums", sums(times_ns, measured_ns))];
    if !times_ns.is_empty() {
        figures.push(distribution(times_ns, measured_ns));
        figures.extend(measured_ns.and_then(|measured_ns| quantiles(times_ns, measured_ns)));
    }
    figures = figures.into_iter().map(|figure| figure.section("Response times")).collect();
    with_lead("A trace, replayed", lead, &figures)
}

/// The page of a trace of another system on a drive: what was replayed, in `words`, and how long
/// the requests took.
#[must_use]
pub fn of_requests(
    drive: &str,
    trace: &str,
    words: &[&str],
    times: &Distribution,
    measured: Option<&Distribution>,
) -> String {
    let mut lead = Markup::default();
    lead.element("p", &[("class", "lead")], &format!("The trace {trace} on {drive}."));
    for line in words.iter().flat_map(|words| words.lines()) {
        lead.element("p", &[], line.trim_start_matches("- "));
    }
    let mut figures = vec![Figure::new("Sums", table(times, measured))];
    if times.count > 0 {
        figures.push(distributions(times, measured));
    }
    figures = figures.into_iter().map(|figure| figure.section("Response times")).collect();
    with_lead("A trace, replayed", lead, &figures)
}

fn collected(times_ns: &[u64]) -> Distribution {
    let mut histogram = device::Histogram::default();
    times_ns.iter().for_each(|time| histogram.add(*time));
    Distribution::from(&histogram)
}

fn sums(times_ns: &[u64], measured_ns: Option<&[u64]>) -> Table {
    let measured = measured_ns.map(collected);
    table(&collected(times_ns), measured.as_ref())
}

fn table(times: &Distribution, measured: Option<&Distribution>) -> Table {
    let columns = [
        ("", Alignment::Left),
        ("requests", Alignment::Right),
        ("mean", Alignment::Right),
        ("median", Alignment::Right),
        ("90 %", Alignment::Right),
        ("99 %", Alignment::Right),
        ("longest", Alignment::Right),
    ];
    let mut table = Table::new("Response times", &columns);
    for (name, times) in [("the drive", measured), ("the model", Some(times))] {
        let Some(all) = times else { continue };
        let times = [all.mean_ns, all.median_ns, all.p90_ns, all.p99_ns, all.max_ns];
        let times = times.map(|time| show(Unit::Nanoseconds, time));
        table.row([name.to_owned(), all.count.to_string()].into_iter().chain(times));
    }
    table
}

fn distribution(times_ns: &[u64], measured_ns: Option<&[u64]>) -> Figure {
    distributions(&collected(times_ns), measured_ns.map(collected).as_ref())
}

fn distributions(times: &Distribution, measured: Option<&Distribution>) -> Figure {
    let mut histogram = Histogram::new(Axis::new("response time", Unit::Nanoseconds).logarithmic());
    if let Some(measured) = measured.filter(|times| times.count > 0) {
        histogram = histogram.with("the drive", Origin::Posted, &measured.steps);
    }
    histogram = histogram.with("the model", Origin::Ours, &times.steps);
    Figure::new("How long requests took", histogram).line("A time is known to an eighth of itself.")
}

/// The times of both after the same share of requests: on the dotted line they are equal.
fn quantiles(times_ns: &[u64], measured_ns: &[u64]) -> Option<Figure> {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let (ours, theirs) = (sorted(times_ns), sorted(measured_ns));
    let after = |times: &[u64], permille: usize| times.get(times.len() * permille / 1000).copied();
    let pair = |permille: &usize| Some((after(&theirs, *permille)?, after(&ours, *permille)?));
    let mut points: Vec<(u64, u64)> = QUANTILES.iter().filter_map(pair).collect();
    points.dedup_by_key(|point| point.0);
    let (first, last) = (*points.first()?, *points.last()?);
    let ends = [first.0.min(first.1), last.0.max(last.1)];
    let axis = |words: &str| Axis::new(words, Unit::Nanoseconds);
    let chart = LineChart::new(axis("the drive"), axis("the model"))
        .style(LineStyle::Marked)
        .series("quantiles", points)
        .with("equal", Origin::Limit, ends.map(|end| (end, end)));
    let line = "The times of both after the same share of requests, from 1 in 1,000 to 95 in 100.";
    Some(Figure::new("Quantile against quantile", chart).line(line))
}
