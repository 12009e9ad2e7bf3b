//! Results as tables that other programs read: an observation a line, a variable a column.
//!
//! The same rows are written as CSV (RFC 4180: a line of names first, an empty field where there is
//! no value), as JSON Lines (an object a line, `null` where there is no value) or as Parquet. Times
//! are nanoseconds (`_ns`), sizes bytes, shares thousandths (`_permille`) or millionths (`_ppm`);
//! all numbers are whole.
use crate::ageing::AgeingReport;
use crate::fit::Found;
use crate::parquet::{Column, Kind, ParquetWriter};
use crate::posts::{self, PostReport, PostTable, PostsReport, Quantity, TableForm, judge};
use crate::report::Report;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// How observations are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataForm {
    /// Comma-separated values.
    Csv,
    /// JSON Lines.
    JsonLines,
    /// A Parquet file, with the kind of each column: see [`crate::parquet`].
    Parquet,
}

type Cells = Vec<Value>;

/// A row by the names of its columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Map<String, Value>);

impl From<Value> for Row {
    /// Of an object; of anything else nothing.
    fn from(value: Value) -> Row {
        Row(object(value))
    }
}

/// A table of observations.
pub struct Observations<'a> {
    columns: Vec<Column>,
    rows: Box<dyn Iterator<Item = Cells> + 'a>,
}

/// What the values of a column are when it has none, by its name.
fn kind_by_name(name: &str) -> Kind {
    const UNITS: [&str; 4] = ["_ns", "_permille", "_ppm", "_bytes"];
    match (["posted", "ours"].contains(&name)) || UNITS.iter().any(|unit| name.ends_with(unit)) {
        true => Kind::Whole,
        false => Kind::Words,
    }
}

impl<'a> Observations<'a> {
    /// Of objects whose keys are the columns: those of `first`, and then the others by name.
    fn of_objects(first: &[&str], objects: Vec<Map<String, Value>>) -> Observations<'a> {
        let mut columns: Vec<String> = first.iter().map(|name| (*name).to_owned()).collect();
        let mut others: Vec<String> = objects.iter().flat_map(Map::keys).cloned().collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|name| !columns.contains(name));
        columns.append(&mut others);
        let names = columns.clone();
        let columns = columns.into_iter().map(|name| {
            let values = objects.iter().filter_map(|object| object.get(&name));
            Column { kind: Kind::of(values).unwrap_or_else(|| kind_by_name(&name)), name }
        });
        let columns = columns.collect();
        let rows = objects.into_iter().map(move |mut object| {
            names.iter().map(|name| object.remove(name).unwrap_or(Value::Null)).collect()
        });
        Observations { columns, rows: Box::new(rows) }
    }

    /// Of rows whose keys are the columns, in the order of `first`.
    pub(crate) fn of_rows(first: &[&str], rows: Vec<Row>) -> Observations<'a> {
        Observations::of_objects(first, rows.into_iter().map(|row| row.0).collect())
    }

    /// The columns, and a value of each for every row.
    pub fn into_parts(self) -> (Vec<Column>, Box<dyn Iterator<Item = Vec<Value>> + 'a>) {
        (self.columns, self.rows)
    }

    /// Writes all.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(self, form: DataForm, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = RowWriter::begin(form, self.columns, out)?;
        self.rows.into_iter().try_for_each(|row| rows.row(&row))?;
        rows.finish()
    }
}

/// Rows that are written as they come.
struct RowWriter<W: Write>(RowForm<W>);

enum RowForm<W: Write> {
    Csv(W),
    JsonLines(W, Vec<Column>),
    Parquet(ParquetWriter<W>),
}

impl<W: Write> RowWriter<W> {
    /// Writes what a file begins with.
    fn begin(form: DataForm, columns: Vec<Column>, mut out: W) -> io::Result<RowWriter<W>> {
        Ok(RowWriter(match form {
            DataForm::Csv => {
                let names = columns.iter().map(|column| words_field(&column.name));
                writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
                RowForm::Csv(out)
            }
            DataForm::JsonLines => RowForm::JsonLines(out, columns),
            DataForm::Parquet => RowForm::Parquet(ParquetWriter::begin(columns, out)?),
        }))
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        match &mut self.0 {
            RowForm::Csv(out) => {
                let fields: Vec<String> = row.iter().map(field).collect();
                writeln!(out, "{}", fields.join(","))
            }
            RowForm::JsonLines(out, columns) => {
                let pairs = columns.iter().zip(row).map(|(column, value)| {
                    format!("{}:{value}", Value::String(column.name.clone()))
                });
                writeln!(out, "{{{}}}", pairs.collect::<Vec<_>>().join(","))
            }
            RowForm::Parquet(writer) => writer.row(row),
        }
    }

    /// Writes what a file ends with.
    fn finish(self) -> io::Result<()> {
        match self.0 {
            RowForm::Csv(mut out) | RowForm::JsonLines(mut out, _) => out.flush(),
            RowForm::Parquet(writer) => writer.finish().map(drop),
        }
    }
}

/// A field of CSV.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(words) => words_field(words),
        other => other.to_string(),
    }
}

fn words_field(words: &str) -> String {
    match words.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", words.replace('"', "\"\"")),
        false => words.to_owned(),
    }
}

/// The posts: each cell of each table.
pub fn of_posts(report: &PostsReport) -> Observations<'static> {
    const FIRST: [&str; 18] = [
        "model_version",
        "scale",
        "post",
        "table",
        "row",
        "column",
        "policies",
        "class",
        "verdict",
        "fragile",
        "whose",
        "block",
        "seeds",
        "unit",
        "posted",
        "ours",
        "least",
        "most",
    ];
    let mut objects = Vec::new();
    for post in &report.posts {
        for table in post.tables.iter().filter(|table| table.form == TableForm::Rows) {
            for row in &table.rows {
                objects.extend(of_row(report, post, table, row));
            }
        }
    }
    Observations::of_objects(&FIRST, objects)
}

fn of_row(
    report: &PostsReport,
    post: &PostReport,
    table: &PostTable,
    row: &posts::Row,
) -> Vec<Map<String, Value>> {
    let class = serde_json::to_value(&row.class).unwrap_or(Value::Null);
    let cells = table.columns.iter().zip(&row.cells);
    let cells = cells.filter(|(_, cell)| cell.posted.is_some() || cell.ours.is_some());
    cells
        .map(|(column, cell)| {
            let value = |quantity: Option<Quantity>| quantity.map(Quantity::value);
            let unit = match cell.ours.or(cell.posted) {
                Some(Quantity::Nanoseconds(_)) => "nanoseconds",
                Some(Quantity::Permille(_)) => "permille",
                Some(Quantity::Count(_)) | None => "count",
            };
            object(json!({
                "model_version": report.model_version,
                "scale": report.scale,
                "post": post.number,
                "table": table.title,
                "row": row.what,
                "column": column.name,
                "policies": column.policies,
                "class": class.get("class"),
                "verdict": judge(row),
                "fragile": row.is_fragile(),
                "whose": row.whose(),
                "block": row.block,
                "seeds": post.seeds.len(),
                "unit": unit,
                "posted": value(cell.posted),
                "ours": value(cell.ours),
                "least": value(cell.range.map(|range| range.least).or(cell.ours)),
                "most": value(cell.range.map(|range| range.most).or(cell.ours)),
            }))
        })
        .collect()
}

/// A run: its results, drives, measures, steps, kinds of calls and layouts, told apart by `kind`.
pub fn of_report(report: &Report) -> Observations<'static> {
    const FIRST: [&str; 10] = [
        "scenario",
        "seed",
        "scale",
        "model_version",
        "kind",
        "process",
        "copy",
        "name",
        "started_ns",
        "elapsed_ns",
    ];
    let mut objects = Vec::new();
    let mut add = |kind: &str, name: &str, flat: Map<String, Value>| {
        let mut all = object(json!({
            "scenario": report.scenario,
            "seed": report.seed,
            "scale": report.scale,
            "model_version": report.model_version,
            "kind": kind,
            "name": name,
        }));
        all.extend(flat.into_iter().filter(|(key, _)| key != "name"));
        objects.push(all);
    };
    report.results.iter().for_each(|one| add("result", &one.name, flat(one)));
    for drive in &report.drives {
        let mut flat = flat(drive);
        flat.retain(|key, _| !key.starts_with("spec_"));
        add("drive", &drive.name, flat);
    }
    for filesystem in &report.filesystems {
        for record in &filesystem.layouts {
            let mut flat = flat(&record.layout);
            flat.insert("when".to_owned(), json!(record.when));
            flat.insert("started_ns".to_owned(), json!(record.at_ns));
            add("layout", &filesystem.name, flat);
        }
    }
    report.measures.iter().for_each(|one| add("measure", &one.measure, flat(one)));
    report.steps.iter().for_each(|one| add("step", &one.label, flat(one)));
    for process in &report.processes {
        for call in &process.calls {
            let mut flat = flat(&call.latency);
            flat.insert("process".to_owned(), json!(process.name));
            flat.insert("copy".to_owned(), json!(process.copy));
            add("call", &call.call, flat);
        }
    }
    Observations::of_objects(&FIRST, objects)
}

/// The rows of a replayed trace, written as they come: traces may be of any length. The same rows
/// as [`of_replay`].
pub struct ReplayRows<'a, W: Write> {
    drive: &'a str,
    next: u64,
    rows: RowWriter<W>,
}

impl<'a, W: Write> ReplayRows<'a, W> {
    /// Before the first row: what a file begins with.
    ///
    /// # Errors
    /// What `out` says.
    pub fn begin(drive: &'a str, form: DataForm, out: W) -> io::Result<ReplayRows<'a, W>> {
        Ok(ReplayRows { drive, next: 0, rows: RowWriter::begin(form, replay_columns(), out)? })
    }

    /// One more request: how long it took, and how long it had taken when it was traced, in
    /// nanoseconds.
    ///
    /// # Errors
    /// What the file says.
    pub fn row(&mut self, took: u64, measured: Option<u64>) -> io::Result<()> {
        let row = replay_row(self.drive, self.next, took, measured);
        self.next += 1;
        self.rows.row(&row)
    }

    /// After the last row: what a file ends with.
    ///
    /// # Errors
    /// What the file says.
    pub fn finish(self) -> io::Result<()> {
        self.rows.finish()
    }
}

fn replay_columns() -> Vec<Column> {
    let columns = [
        ("drive", Kind::Words),
        ("request", Kind::Whole),
        ("time_ns", Kind::Whole),
        ("measured_ns", Kind::Whole),
    ];
    columns.map(|(name, kind)| Column { name: name.to_owned(), kind }).to_vec()
}

fn replay_row(drive: &str, number: u64, took: u64, measured: Option<u64>) -> [Value; 4] {
    [json!(drive), json!(number), json!(took), json!(measured)]
}

/// The same of requests that were kept: how long each took, and where that is known how long it
/// had taken when it was traced, in nanoseconds.
pub fn of_requests<'a>(
    drive: &'a str,
    times_ns: impl Iterator<Item = (u64, Option<u64>)> + 'a,
) -> Observations<'a> {
    let rows = (0..).zip(times_ns);
    let rows = rows
        .map(move |(number, (took, measured))| replay_row(drive, number, took, measured).to_vec());
    Observations { columns: replay_columns(), rows: Box::new(rows) }
}

/// A replayed trace: each request, with its measured time where the trace has one.
pub fn of_replay<'a>(
    drive: &'a str,
    times_ns: &'a [u64],
    measured_ns: Option<&'a [u64]>,
) -> Observations<'a> {
    let times = times_ns.iter().enumerate().map(move |(number, took)| {
        (*took, measured_ns.and_then(|measured| measured.get(number).copied()))
    });
    of_requests(drive, times)
}

/// Ageing: each sample of each series.
pub fn of_ageing(report: &AgeingReport) -> Observations<'static> {
    const FIRST: [&str; 9] =
        ["name", "profile", "seed", "model_version", "drive", "series", "policies", "day", "month"];
    let mut objects = Vec::new();
    for series in &report.series {
        for sample in &series.samples {
            let mut all = object(json!({
                "name": report.name,
                "profile": report.profile.name,
                "seed": report.seed,
                "model_version": report.model_version,
                "drive": report.drive,
                "series": series.name,
                "policies": series.policies,
            }));
            all.extend(flat(sample));
            objects.push(all);
        }
    }
    Observations::of_objects(&FIRST, objects)
}

/// A drive that was fitted: each of its values, with its error bar.
pub fn of_fit(found: &Found) -> Observations<'static> {
    const FIRST: [&str; 9] = [
        "target",
        "drive_kind",
        "distance",
        "cut_short",
        "name",
        "value",
        "least",
        "most",
        "known",
    ];
    let values = found.fit.values.iter().map(|value| {
        object(json!({
            "target": found.facts.name,
            "drive_kind": found.fit.kind,
            "distance": found.fit.distance,
            "cut_short": found.fit.is_cut_short,
            "name": value.name,
            "value": value.value,
            "least": value.least,
            "most": value.most,
            "known": value.known,
        }))
    });
    Observations::of_objects(&FIRST, values.collect())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// What a value has as JSON, in one object: names inside of others are joined; lists are left out.
fn flat(value: &impl Serialize) -> Map<String, Value> {
    fn add(name: &str, value: Value, out: &mut Map<String, Value>) {
        match value {
            Value::Object(inner) => {
                for (key, value) in inner {
                    let whole = if name.is_empty() { key } else { format!("{name}_{key}") };
                    add(&whole, value, out);
                }
            }
            Value::Array(_) => {}
            value => {
                out.insert(name.to_owned(), value);
            }
        }
    }
    let mut out = Map::new();
    add("", serde_json::to_value(value).unwrap_or(Value::Null), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(observations: Observations<'_>, form: DataForm) -> String {
        let mut out = Vec::new();
        observations.write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_with_commas_and_quotes_stay_one_field() {
        let objects = || {
            let one = object(json!({"b": "a, \"b\"\nc", "a": 1}));
            let other = object(json!({"c": true, "a": null}));
            Observations::of_objects(&["b"], vec![one, other])
        };
        assert_eq!(written(objects(), DataForm::Csv), "b,a,c\n\"a, \"\"b\"\"\nc\",1,\n,,true\n");
        assert_eq!(
            written(objects(), DataForm::JsonLines),
            "{\"b\":\"a, \\\"b\\\"\\nc\",\"a\":1,\"c\":null}\n{\"b\":null,\"a\":null,\"c\":true}\n"
        );
    }

    #[test]
    fn columns_have_the_kinds_of_their_values_or_of_their_names() {
        let one = object(json!({"a": 1, "b": "x", "c": null, "took_ns": null}));
        let other = object(json!({"a": null, "b": 2, "d": true}));
        let found = Observations::of_objects(&["d"], vec![one, other]);
        let kinds: Vec<_> = found.columns.iter().map(|one| (&one.name[..], one.kind)).collect();
        let (flag, whole, words) = (Kind::Flag, Kind::Whole, Kind::Words);
        let expected = [("d", flag), ("a", whole), ("b", words), ("c", words), ("took_ns", whole)];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_replay_has_a_row_for_each_request() {
        let rows = of_replay("disk", &[5, 7], Some(&[6]));
        assert_eq!(
            written(rows, DataForm::Csv),
            "drive,request,time_ns,measured_ns\ndisk,0,5,6\ndisk,1,7,\n"
        );
    }

    #[test]
    fn rows_that_come_one_by_one_are_the_same() {
        for form in [DataForm::Csv, DataForm::JsonLines, DataForm::Parquet] {
            let mut out = Vec::new();
            let mut rows = ReplayRows::begin("a, b", form, &mut out).unwrap();
            rows.row(5, Some(6)).unwrap();
            rows.row(7, None).unwrap();
            rows.finish().unwrap();
            let mut at_once = Vec::new();
            of_replay("a, b", &[5, 7], Some(&[6])).write(form, &mut at_once).unwrap();
            assert_eq!(out, at_once);
        }
    }

    #[test]
    fn what_is_inside_of_others_has_a_joined_name() {
        let flat = flat(&json!({"a": {"b": 1, "c": {"d": null}}, "e": [1]}));
        assert_eq!(Value::Object(flat), json!({"a_b": 1, "a_c_d": null}));
    }
}
