//! `extant sweep plot`: results side by side, as a table, a picture and a page.
use super::super::lab::page::{Drawn, PageOption};
use super::failure;
use extant_chart::page::{SVG_BEGINNING, of_figures, show, svg};
use extant_chart::{Alignment, Axis, Figure, Multiples, Range, Table, Unit};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::compare::{self, Comparison, Found, Question, Role};
use extant_sweep::directory::Directory;
use std::path::PathBuf;

/// Show results side by side: small multiples by two keys of the matrix, a line for each value of
/// a third, ranges over seeds.
///
/// Each job gives one number. If nothing is said, that is the time of a simulation's measure, keys
/// that change are set apart, and seeds are ranged over: the median stands with the least and the
/// greatest value. A key that nothing was said of is refused, not mixed in. Any column of `sweep
/// collect` can be a key.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep plot night
  extant sweep plot night --svg night.svg --html night.html
  extant sweep plot night --rows drive --columns scenario --by preset --over seed --svg night.svg
  extant sweep plot night --value read_latency_p99_ns --where result.kind=drive --html p99.html
  extant sweep plot night --where drive=ssd-nvme --where scenario=read-cold --json")]
pub struct Arguments {
    /// The directory of the sweep
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The column of numbers, by its name in `sweep collect`
    #[arg(long, value_name = "COLUMN", default_value = "", hide_default_value = true)]
    pub value: String,
    /// Only rows that have this value there; several times
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = filter)]
    pub filters: Vec<(String, String)>,
    /// The key whose values stand under each other
    #[arg(long, value_name = "KEY")]
    pub rows: Option<String>,
    /// The key whose values stand beside each other, each with its own scale
    #[arg(long, value_name = "KEY")]
    pub columns: Option<String>,
    /// The key whose values are lines of each field
    #[arg(long, value_name = "KEY")]
    pub by: Option<String>,
    /// A key to range over; several times; `seed` if none is named
    #[arg(long, value_name = "KEY")]
    pub over: Vec<String>,
    /// Write the picture to this file. A picture of ours that is there is replaced, any other file
    /// is not
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub page: PageOption,
}

const PICTURE: Drawn =
    Drawn { option: "--svg", beginning: SVG_BEGINNING, what: "is no picture of extant" };
/// Values that lie further apart are drawn by powers.
const LINEAR_RATIO_MAX: u64 = 20;
/// As many fields and lines as a picture can have.
const RANGES_MAX: usize = 20_000;

fn filter(word: &str) -> Result<(String, String), String> {
    let pair = word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "a column, '=' and its value".into())
}

/// Plots. With `--json`: `{"schema": "extant-sweep-plot/1", "value", "filters", "axes", "over",
/// "found", "jobs", "missing"}`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.svg.as_deref().map_or(Ok(()), |path| PICTURE.check(path))?;
    arguments.page.check()?;
    if arguments.svg.is_some() && arguments.svg == arguments.page.html {
        return Err(Error::usage("--svg and --html: name the same file"));
    }
    let named = [&arguments.rows, &arguments.columns, &arguments.by].into_iter().zip(ROLES);
    let keys = named.filter_map(|(key, role)| Some((role, key.clone()?)));
    let question = Question {
        value: arguments.value.clone(),
        filters: arguments.filters.clone(),
        keys: keys.collect(),
        over: arguments.over.clone(),
    };
    let directory = Directory::open(&arguments.directory).map_err(failure)?;
    let comparison = compare::compare(&directory, &question.completed()).map_err(failure)?;
    let placed = Placed::new(&comparison);
    let chart = placed.chart()?;
    let shown = arguments.directory.display().to_string();
    let (title, line) = (format!("{shown}: {}", comparison.value), placed.sentence());
    if let Some(path) = &arguments.svg {
        PICTURE.write(path, &svg(&chart, &title, &line))?;
    }
    arguments.page.write(|| {
        let figure = Figure::new(&comparison.value, chart.clone());
        of_figures(&title, &line, &[figure])
    })?;
    if console.is_json() {
        console.print_json("extant-sweep-plot/1", &comparison)?;
    } else {
        let table = placed.table(&title, &chart).render(console.width());
        console.report(&format!("{}\n{line}\n", table.trim_start()))?;
    }
    if comparison.missing == 0 {
        return Ok(Exit::Complete);
    }
    let Comparison { missing, jobs, .. } = comparison;
    console.skipped(&format!("{shown}: {missing} of {jobs} jobs have no result"));
    console.hint(&format!("extant sweep status {shown} says which failed"));
    Ok(Exit::Incomplete)
}

/// In the order in which their axes stand in [`Placed`].
const ROLES: [Role; 3] = [Role::Rows, Role::Columns, Role::Lines];

/// Results, and which of their axes is what.
struct Placed<'a> {
    comparison: &'a Comparison,
    /// By role; none where there is one row, column or line.
    axes: [Option<&'a compare::Axis>; 3],
}

impl<'a> Placed<'a> {
    fn new(comparison: &'a Comparison) -> Placed<'a> {
        let axis = |role| comparison.axes.iter().find(|axis| axis.role == role);
        Placed { comparison, axes: ROLES.map(axis) }
    }

    /// What stands where, and what was left out.
    fn sentence(&self) -> String {
        let axes = self.axes.iter().zip(ROLES);
        let mut words: Vec<String> =
            axes.filter_map(|(axis, role)| Some(format!("{role:?}: {}.", (*axis)?.key))).collect();
        let Comparison { found, over, filters, .. } = self.comparison;
        let count = found.iter().map(|found| found.count).max().unwrap_or(1);
        if count > 1 {
            let over = over.join(", ");
            words.push(format!("Median, least and greatest of {count} values over {over}."));
        }
        let filters: Vec<String> =
            filters.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !filters.is_empty() {
            words.push(format!("Where {}.", filters.join(", ")));
        }
        words.join(" ")
    }

    fn chart(&self) -> Result<Multiples, Error> {
        let Comparison { value, found, .. } = self.comparison;
        if found.len() > RANGES_MAX {
            return Err(Error::new(format!("{value}: {} ranges are no picture", found.len()))
                .hint("choose fewer by --where, or range --over more keys"));
        }
        let numbers = || found.iter().flat_map(|found| [found.least, found.greatest]);
        if let Some(number) = numbers().find(|number| *number < 0.0) {
            return Err(Error::new(format!("{value}: {number} is below 0")));
        }
        let (unit, factor) = match numbers().any(|number| number.fract() != 0.0) {
            true => (Unit::Permille, 1000.0),
            false => (unit(value), 1.0),
        };
        let ranges: Vec<Range> = found.iter().map(|found| self.range(found, factor)).collect();
        let names = |axis: Option<&compare::Axis>| {
            axis.map_or_else(|| vec![String::new()], |axis| axis.values.clone())
        };
        let [rows, columns, systems] = self.axes.map(names);
        let of = |column| ranges.iter().filter(move |range| range.column == column);
        let axis = Axis::new(value, unit);
        let value = match (0..columns.len()).any(|column| is_wide(of(column))) {
            true => axis.logarithmic(),
            false => axis,
        };
        Ok(Multiples { value, rows, columns, systems, ranges })
    }

    fn range(&self, found: &Found, factor: f64) -> Range {
        let place = |role| {
            let at = self.comparison.axes.iter().position(|axis| axis.role == role);
            at.map_or(0, |at| found.place[at])
        };
        let [row, column, system] = ROLES.map(place);
        // What is above all numbers of 64 bits becomes the greatest.
        let whole = |number: f64| (number * factor).round() as u64;
        let [least, median, greatest] = [found.least, found.median, found.greatest].map(whole);
        Range { row, column, system, least, median, greatest, count: found.count }
    }

    /// A row for each row and line, a column for each column.
    fn table(&self, title: &str, chart: &Multiples) -> Table {
        // In one column: where a table is folded, its first is there again.
        let head = |axis: Option<&compare::Axis>| axis.map(|axis| axis.key.clone());
        let head = joined([head(self.axes[0]), head(self.axes[2])]);
        let heads = (!head.is_empty()).then_some((head.as_str(), Alignment::Left)).into_iter();
        let columns = chart.columns.iter().map(|name| match name.as_str() {
            "" => (self.comparison.value.as_str(), Alignment::Right),
            name => (name, Alignment::Right),
        });
        let mut table = Table::new(title, &heads.chain(columns).collect::<Vec<_>>());
        let mut cells = std::collections::BTreeMap::new();
        for range in &chart.ranges {
            cells.insert((range.row, range.system, range.column), cell(chart, range));
        }
        for (row, name) in chart.rows.iter().enumerate() {
            for (system, line) in chart.systems.iter().enumerate() {
                let own = |column| cells.remove(&(row, system, column)).unwrap_or_default();
                let own: Vec<String> = (0..chart.columns.len()).map(own).collect();
                if own.iter().any(|cell| !cell.is_empty()) {
                    let names = [(self.axes[0], name), (self.axes[2], line)];
                    let name = joined(names.map(|(axis, name)| axis.map(|_| name.clone())));
                    let name = (!head.is_empty()).then_some(name).into_iter();
                    table.row(name.chain(own));
                }
            }
        }
        table
    }
}

/// Those that are there, with a comma between them.
fn joined(names: [Option<String>; 2]) -> String {
    names.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether values lie too far apart for an even scale.
fn is_wide<'a>(ranges: impl Iterator<Item = &'a Range>) -> bool {
    let mut ends: Option<(u64, u64)> = None;
    for range in ranges.filter(|range| range.least > 0) {
        let (least, greatest) = ends.unwrap_or((range.least, range.greatest));
        ends = Some((least.min(range.least), greatest.max(range.greatest)));
    }
    ends.is_some_and(|(least, greatest)| greatest / LINEAR_RATIO_MAX > least)
}

/// What a column is measured in, by its name.
fn unit(name: &str) -> Unit {
    const UNITS: [(&str, Unit); 5] = [
        ("_ns", Unit::Nanoseconds),
        ("bytes_per_second", Unit::BytesPerSecond),
        ("bytes", Unit::Bytes),
        ("_permille", Unit::Permille),
        ("_ppm", Unit::PartsPerMillion),
    ];
    let own = UNITS.iter().find(|(end, _)| name.ends_with(end));
    own.map_or(Unit::Count, |(_, unit)| *unit)
}

fn cell(chart: &Multiples, range: &Range) -> String {
    let value = |value| show(chart.value.unit, value);
    let (least, greatest) = (value(range.least), value(range.greatest));
    match range.count {
        1 => value(range.median),
        _ => format!("{} ({least} \u{2013} {greatest})", value(range.median)),
    }
}
