//! What a run recorded, as figures: what its drives did over time, and how long its calls took.
use crate::report::{Distribution, DriveReport, ProcessReport, Report};
use extant_chart::{
    Axis, Figure, FigureContent, Histogram, LineChart, LineStyle, Origin, Raster, RasterCell, Unit,
};
use extant_sim::device::{Activity, Interval};
use std::collections::BTreeMap;

/// The most columns and rows of a seek plot: a mark has two to three points of its own.
const COLUMNS_MAX: u16 = 340;
const ROWS_MAX: u16 = 120;
const SECOND: u128 = 1_000_000_000;

/// The seek plot of a drive, and under it what it transferred, how often it sought, and how many
/// requests waited; `None` of a drive that did nothing, or whose work was not counted.
#[must_use]
pub fn of_drive(drive: &DriveReport, title: &str) -> Option<Figure> {
    let activity = &drive.activity;
    if activity.fields.is_empty() {
        return None;
    }
    let raster = raster(activity);
    let end = raster.x_range.1;
    let parts = vec![
        FigureContent::Raster(raster),
        throughput(activity, end),
        seeks(activity, end),
        depths(activity, end),
    ];
    let line = "Each mark is a field of time and place in which commands ended; below, the same \
        time in sums.";
    Some(Figure::new(title, FigureContent::Stack(parts)).line(line))
}

/// Fields become larger until there are few enough.
fn raster(activity: &Activity) -> Raster {
    let columns = activity.intervals.len().max(1) as u16;
    let rows = activity.fields.iter().map(|field| field.row).max().unwrap_or(0) + 1;
    let (across, down) = (columns.div_ceil(COLUMNS_MAX), rows.div_ceil(ROWS_MAX));
    let mut cells: BTreeMap<(u16, u16), (u64, u64)> = BTreeMap::new();
    for field in &activity.fields {
        let sums = cells.entry((field.interval / across, field.row / down)).or_default();
        sums.0 += u64::from(field.reads);
        sums.1 += u64::from(field.writes);
    }
    let (columns, rows) = (columns.div_ceil(across), rows.div_ceil(down));
    let end =
        |step: u64, count: u16, each: u16| step.saturating_mul(u64::from(count) * u64::from(each));
    let cell = |((column, row), (reads, writes)): ((u16, u16), (u64, u64))| RasterCell {
        column,
        row,
        reads,
        writes,
    };
    Raster {
        x: Axis::new("time", Unit::Nanoseconds),
        y: Axis::new("place on the drive", Unit::Bytes),
        x_range: (0, end(activity.interval_ns, columns, across)),
        y_range: (0, end(activity.row_bytes, rows, down)),
        columns,
        rows,
        cells: cells.into_iter().map(cell).collect(),
    }
}

/// A value for each interval, neighbours with equal values as one, up to `end`.
fn over_time(activity: &Activity, value: impl Fn(&Interval) -> u64) -> Vec<(u64, u64)> {
    let values = activity.intervals.iter().map(value).enumerate();
    let mut points: Vec<(u64, u64)> = Vec::new();
    for (at, value) in values {
        if points.last().is_none_or(|last| last.1 != value) {
            points.push((at as u64 * activity.interval_ns, value));
        }
    }
    points
}

/// A sum of an interval as a rate.
fn per_second(activity: &Activity, sum: u64) -> u64 {
    let rate = u128::from(sum) * SECOND / u128::from(activity.interval_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn chart(label: &str, unit: Unit, lines: &[(&str, Vec<(u64, u64)>)], end: u64) -> FigureContent {
    let mut chart = LineChart::new(Axis::new("time", Unit::Nanoseconds), Axis::new(label, unit))
        .style(LineStyle::Steps);
    for (name, points) in lines {
        let points = points.iter().copied().filter(|point| point.0 < end);
        chart = chart.series(name, points);
    }
    FigureContent::Lines(chart)
}

fn throughput(activity: &Activity, end: u64) -> FigureContent {
    let read = over_time(activity, |interval| per_second(activity, interval.bytes_read));
    let written = over_time(activity, |interval| per_second(activity, interval.bytes_written));
    chart("throughput", Unit::BytesPerSecond, &[("read", read), ("written", written)], end)
}

fn seeks(activity: &Activity, end: u64) -> FigureContent {
    let seeks = over_time(activity, |interval| per_second(activity, interval.seeks));
    chart("seeks a second", Unit::Count, &[("seeks", seeks)], end)
}

fn depths(activity: &Activity, end: u64) -> FigureContent {
    let mean = over_time(activity, |interval| interval.depth_sum / interval.arrivals.max(1));
    let most = over_time(activity, |interval| interval.depth_max);
    chart(
        "requests before each that arrives",
        Unit::Count,
        &[("on average", mean), ("at most", most)],
        end,
    )
}

/// How long the requests of a drive took, reads and writes; `None` of none.
#[must_use]
pub fn latencies_of_drive(drive: &DriveReport, title: &str) -> Option<Figure> {
    let kinds = [("reads", &drive.read_latency), ("writes and flushes", &drive.write_latency)];
    distributions(kinds, "from submission to completion", title)
}

/// How long the calls of a process took, all its copies together, by kind of call; `None` of none.
#[must_use]
pub fn latencies_of_process(report: &Report, name: &str, title: &str) -> Option<Figure> {
    let mut merged: BTreeMap<&str, Distribution> = BTreeMap::new();
    let copies = report.processes.iter().filter(|process| process.name == name);
    for call in copies.flat_map(|process: &ProcessReport| &process.calls) {
        let known = merged.entry(&call.call).or_default();
        *known = known.and(&call.latency);
    }
    distributions(
        merged.iter().map(|(call, latency)| (*call, latency)),
        "from call to return",
        title,
    )
}

/// Distributions as one figure.
fn distributions<'a>(
    all: impl IntoIterator<Item = (&'a str, &'a Distribution)>,
    label: &str,
    title: &str,
) -> Option<Figure> {
    let mut histogram = Histogram::new(Axis::new(label, Unit::Nanoseconds).logarithmic());
    for (name, latency) in all.into_iter().filter(|(_, latency)| latency.count > 0) {
        histogram = histogram.with(name, Origin::Ours, &latency.steps);
    }
    (!histogram.series.is_empty()).then(|| Figure::new(title, histogram))
}

/// All that a run recorded, and what it was given besides.
#[must_use]
pub fn of_run(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for drive in &report.drives {
        figures.extend(of_drive(drive, &format!("{}: seeks over time", drive.name)));
        figures.extend(latencies_of_drive(
            drive,
            &format!("{}: how long its requests took", drive.name),
        ));
    }
    let mut names: Vec<&str> =
        report.processes.iter().map(|process| process.name.as_str()).collect();
    names.dedup();
    for name in names {
        figures.extend(latencies_of_process(
            report,
            name,
            &format!("{name}: how long its calls took"),
        ));
    }
    figures.extend(report.figures.iter().cloned());
    figures
}
