//! Results side by side: one column of numbers, by up to three keys of the matrix, with what it
//! ranges over under the others.
//!
//! A job gives one value, or none. A key that changes and is neither one of the three nor one to
//! range over is refused: what would be mixed without a word is a wrong answer.
use crate::collect::collect;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::table::{Cell, Schema, Sink};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// The column of numbers.
    pub value: String,
    /// Columns, and what rows have there: the others are left out.
    pub filters: Vec<(String, String)>,
    /// Keys that are set apart, in this order: rows, columns, systems. Empty: those that change and
    /// are not ranged over, the one with most values first.
    pub keys: Vec<String>,
    /// Keys to range over.
    pub over: Vec<String>,
}

/// A key that sets results apart, and its values in the order of the plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Axis {
    /// The key of the matrix.
    pub key: String,
    /// As text.
    pub values: Vec<String>,
}

/// What was found at one place.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// The value of each axis, counted from 0.
    pub place: Vec<usize>,
    /// The least number.
    pub least: f64,
    /// The one in the middle; of two, the lower.
    pub median: f64,
    /// The greatest.
    pub greatest: f64,
    /// How many there are.
    pub count: usize,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The column.
    pub value: String,
    /// What was left out.
    pub filters: Vec<(String, String)>,
    /// At most [`AXES_MAX`].
    pub axes: Vec<Axis>,
    /// What was ranged over.
    pub over: Vec<String>,
    /// In the order of the axes' values.
    pub found: Vec<Found>,
    /// Jobs that were planned.
    pub jobs: u64,
    /// Those without a result.
    pub missing: u64,
}

/// Rows, columns and systems.
pub const AXES_MAX: usize = 3;
/// What each run of a simulation has once.
const COLUMN_OF_RUNS: &str = "elapsed_ns";
const KIND_OF_RUNS: (&str, &str) = ("result.kind", "measure");
/// What is ranged over if nothing is said.
const SEED: &str = "seed";

impl Question {
    /// With what is meant where nothing is said: the time of a simulation's measure, over seeds.
    pub fn completed(mut self) -> Question {
        if self.value.is_empty() {
            self.value = COLUMN_OF_RUNS.into();
            if !self.filters.iter().any(|(key, _)| key == KIND_OF_RUNS.0) {
                self.filters.push((KIND_OF_RUNS.0.into(), KIND_OF_RUNS.1.into()));
            }
        }
        if self.over.is_empty() && !self.keys.iter().any(|key| key == SEED) {
            self.over.push(SEED.into());
        }
        self
    }
}

/// Answers a question from the results of a directory.
///
/// # Errors
/// A key or a column that is not there, a key that nothing was said of, a job with several values,
/// values that are no numbers, results that cannot be read.
pub fn compare(directory: &Directory, question: &Question) -> Result<Comparison> {
    let parameters = parameters(directory, &question.filters)?;
    let axes = axes(&parameters, question)?;
    let name = directory.path().display().to_string();
    let mut taker = Taker::new(question, &axes);
    let collected = collect(directory, &mut taker, &name)?;
    let values = taker.into_values(&name)?;
    let found = values.into_iter().map(|(place, mut numbers)| {
        numbers.sort_unstable_by(f64::total_cmp);
        let (least, greatest) = (numbers[0], numbers[numbers.len() - 1]);
        let median = numbers[(numbers.len() - 1) / 2];
        Found { place, least, median, greatest, count: numbers.len() }
    });
    Ok(Comparison {
        value: question.value.clone(),
        filters: question.filters.clone(),
        found: found.collect(),
        axes,
        over: question.over.clone(),
        jobs: collected.jobs,
        missing: collected.missing,
    })
}

/// The keys of the matrix and their values, in the order of the plan.
struct Parameters {
    values: BTreeMap<String, Vec<String>>,
}

fn parameters(directory: &Directory, filters: &[(String, String)]) -> Result<Parameters> {
    let mut found = Parameters { values: BTreeMap::new() };
    directory.jobs(&mut |job| {
        let differs = |(key, wanted): &(String, String)| match key.as_str() {
            "kind" => job.kind != *wanted,
            key => job.parameters.get(key).is_some_and(|value| shown(value) != *wanted),
        };
        if filters.iter().any(differs) {
            return Ok(());
        }
        for (key, value) in &job.parameters {
            let values = found.values.entry(key.clone()).or_default();
            let value = shown(value);
            // Last first: the axis that changes slowest repeats its last value.
            if !values.iter().rev().any(|known| *known == value) {
                values.push(value);
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn axes(parameters: &Parameters, question: &Question) -> Result<Vec<Axis>> {
    let known = |key: &String| match parameters.values.contains_key(key) {
        true => Ok(()),
        false => Err(Error::new(format!("{key}: is no key of these jobs"))
            .hint(format!("there are {}", names(parameters.values.keys())))),
    };
    question.keys.iter().try_for_each(known)?;
    question.over.iter().filter(|key| *key != SEED).try_for_each(known)?;
    let changes = |key: &&String| {
        parameters.values[*key].len() > 1
            && !question.over.contains(key)
            && !question.keys.contains(key)
    };
    let mut open: Vec<&String> = parameters.values.keys().filter(changes).collect();
    open.sort_by_key(|key| std::cmp::Reverse(parameters.values[*key].len()));
    let is_open = question.keys.is_empty() && open.len() <= AXES_MAX;
    if !open.is_empty() && !is_open {
        return Err(Error::new(format!("{}: change, and nothing was said of them", names(open)))
            .hint("name them with --rows, --columns or --by, range --over them, or choose --where"));
    }
    if question.keys.len() > AXES_MAX {
        return Err(Error::new(format!("{}: at most {AXES_MAX} keys", names(&question.keys))));
    }
    let keys = if is_open && question.keys.is_empty() {
        // The longest downwards; the fewest across, where there is least room.
        match open[..] {
            [rows, systems, columns] => vec![rows, columns, systems],
            _ => open,
        }
    } else {
        question.keys.iter().collect()
    };
    let axis = |key: &String| Axis { key: key.clone(), values: parameters.values[key].clone() };
    Ok(keys.into_iter().map(axis).collect())
}

/// Takes the rows of the table.
struct Taker<'a> {
    question: &'a Question,
    axes: &'a [Axis],
    columns: Option<Columns>,
    values: BTreeMap<Vec<usize>, Vec<f64>>,
    /// The job of the last value, and its row.
    last: Option<(Cell, Vec<Cell>)>,
    failure: Option<Error>,
}

/// Where cells are.
struct Columns {
    job: usize,
    value: usize,
    filters: Vec<usize>,
    axes: Vec<usize>,
}

impl<'a> Taker<'a> {
    fn new(question: &'a Question, axes: &'a [Axis]) -> Taker<'a> {
        let values = BTreeMap::new();
        Taker { question, axes, columns: None, values, last: None, failure: None }
    }

    fn into_values(self, name: &str) -> Result<BTreeMap<Vec<usize>, Vec<f64>>> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.values.is_empty() {
            let value = &self.question.value;
            return Err(Error::new(format!("{name}: no row that was asked for has {value}"))
                .hint("extant sweep collect shows the rows, and what can stand after --where"));
        }
        Ok(self.values)
    }

    fn columns(&self, schema: &Schema) -> Result<Columns> {
        let place = |name: &str| {
            let at = schema.columns.iter().position(|column| column.name == name);
            at.ok_or_else(|| {
                let all = names(schema.columns.iter().map(|column| &column.name));
                Error::new(format!("{name}: the results have no such column"))
                    .hint(format!("there are {all}"))
            })
        };
        let filters = self.question.filters.iter().map(|(name, _)| place(name));
        // The key of a matrix is a column under its own name, but for three.
        let axes = self.axes.iter().map(|axis| {
            place(&axis.key).or_else(|error| place(&format!("with.{}", axis.key)).map_err(|_| error))
        });
        Ok(Columns {
            job: place("job")?,
            value: place(&self.question.value)?,
            filters: filters.collect::<Result<_>>()?,
            axes: axes.collect::<Result<_>>()?,
        })
    }

    fn take(&mut self, schema: &Schema, cells: &[Cell]) -> Result<()> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let mut filters = columns.filters.iter().zip(&self.question.filters);
        let fits = filters.all(|(at, (_, wanted))| shown(&cells[*at]) == *wanted);
        if !fits || cells[columns.value].is_null() {
            return Ok(());
        }
        let name = &self.question.value;
        let (job, value) = (&cells[columns.job], &cells[columns.value]);
        let number = value.as_f64().ok_or_else(|| {
            Error::new(format!("{name}: {} is no number", shown(value)))
                .hint("--value names a column of numbers")
        })?;
        if let Some((_, before)) = self.last.as_ref().filter(|(last, _)| last == job) {
            return Err(several(name, schema, before, cells));
        }
        let mut place = Vec::new();
        for (axis, at) in self.axes.iter().zip(&columns.axes) {
            let value = shown(&cells[*at]);
            match axis.values.iter().position(|known| *known == value) {
                Some(number) => place.push(number),
                // A job that has no such key.
                None => return Ok(()),
            }
        }
        self.values.entry(place).or_default().push(number);
        self.last = Some((job.clone(), cells.to_vec()));
        Ok(())
    }
}

/// A job has several values: what tells them apart.
fn several(name: &str, schema: &Schema, one: &[Cell], other: &[Cell]) -> Error {
    let mut columns = schema.columns.iter().zip(one.iter().zip(other));
    let apart = columns.find(|(column, (one, other))| {
        column.name != name && one != other && (one.is_string() || other.is_string())
    });
    let error = Error::new(format!("{name}: a job has several rows with it"));
    match apart {
        Some((column, (one, other))) => {
            let (one, other, column) = (shown(one), shown(other), &column.name);
            error.hint(format!("choose one: --where '{column}={one}' or --where '{column}={other}'"))
        }
        None => error.hint("choose one by --where"),
    }
}

impl Sink for Taker<'_> {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        match self.columns(schema) {
            Ok(columns) => self.columns = Some(columns),
            Err(failure) => self.failure = Some(failure),
        }
        Ok(())
    }

    fn row(&mut self, schema: &Schema, cells: &[Cell]) -> io::Result<()> {
        if self.failure.is_none() {
            self.failure = self.take(schema, cells).err();
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as a word of the command line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(words) => words.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Type};
    use serde_json::json;

    fn parameters(keys: &[(&str, &[&str])]) -> Parameters {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let keys = keys.iter().map(|(key, list)| ((*key).to_owned(), values(list)));
        Parameters { values: keys.collect() }
    }

    fn question(keys: &[&str]) -> Question {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Question { value: "v".into(), keys, over: vec!["seed".into()], filters: Vec::new() }
    }

    fn keys(axes: Result<Vec<Axis>>) -> Vec<String> {
        axes.unwrap().into_iter().map(|axis| axis.key).collect()
    }

    #[test]
    fn keys_that_change_are_set_apart_or_refused() {
        let three = parameters(&[
            ("a", &["1"]),
            ("b", &["1", "2"]),
            ("c", &["1", "2", "3", "4"]),
            ("d", &["1", "2", "3"]),
            ("seed", &["1", "2"]),
        ]);
        assert_eq!(keys(axes(&three, &question(&[]))), ["c", "b", "d"]);
        assert_eq!(keys(axes(&three, &question(&["d", "b", "c"]))), ["d", "b", "c"]);
        let error = axes(&three, &question(&["d", "b"])).unwrap_err();
        assert_eq!(error.message, "c: change, and nothing was said of them");
        let error = axes(&three, &question(&["x"])).unwrap_err();
        assert_eq!(error.message, "x: is no key of these jobs");
        let over = Question { over: vec!["c".into(), "seed".into()], ..question(&["d", "b"]) };
        assert_eq!(keys(axes(&three, &over)), ["d", "b"]);
    }

    /// What a taker found in these rows of job, label, key `k`, value `v`.
    fn taken(rows: &[[Value; 4]], filters: &[(&str, &str)]) -> Result<Vec<Vec<f64>>> {
        let filters = filters.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let question = Question { filters: filters.collect(), ..question(&["k"]) };
        let axes = [Axis { key: "k".into(), values: vec!["x".into(), "y".into()] }];
        let columns = ["job", "label", "k", "v"];
        let column = |name: &&str| Column { name: (*name).into(), kind: Type::Text };
        let schema = Schema { columns: columns.iter().map(column).collect() };
        let mut taker = Taker::new(&question, &axes);
        taker.begin(&schema).unwrap();
        rows.iter().for_each(|row| taker.row(&schema, row).unwrap());
        Ok(taker.into_values("d")?.into_values().collect())
    }

    #[test]
    fn a_job_gives_one_number() {
        let row = |job: u64, label: &str, key: &str, value: Value| {
            [json!(job), json!(label), json!(key), value]
        };
        let rows = [
            row(1, "step", "x", json!(5)),
            row(1, "all", "x", json!(7)),
            row(2, "all", "x", json!(9)),
            row(3, "all", "y", json!(1.5)),
            row(3, "step", "y", Value::Null),
        ];
        assert_eq!(taken(&rows, &[("label", "all")]).unwrap(), [vec![7.0, 9.0], vec![1.5]]);
        let error = taken(&rows, &[]).unwrap_err();
        assert_eq!(error.message, "v: a job has several rows with it");
        let hint = "choose one: --where 'label=step' or --where 'label=all'";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let error = taken(&rows, &[("label", "none")]).unwrap_err();
        assert_eq!(error.message, "d: no row that was asked for has v");
        let words = [row(1, "all", "x", json!("slow"))];
        assert_eq!(taken(&words, &[]).unwrap_err().message, "v: slow is no number");
        let error = taken(&rows, &[("lable", "all")]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("there are job, label, k, v"));
    }
}
