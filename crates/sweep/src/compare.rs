//! Results side by side: one column of numbers, by up to three keys of the matrix, with what it
//! ranges over under the others.
//!
//! A key is one of the matrix, or any column that is named; which measure of a simulation a row is
//! of is one, too. A job gives one value, or none, for each of their values. A key that changes
//! where nothing was said of it is refused: what would be mixed without a word is a wrong answer.
use crate::collect::collect;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::table::{Cell, Schema, Sink};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// The column of numbers.
    pub value: String,
    /// Columns, and what rows have there: the others are left out.
    pub filters: Vec<(String, String)>,
    /// Keys that are set apart. Empty: those that change and are not ranged over; the one with most
    /// values becomes the rows, and measures the columns, or of three the one with fewest.
    pub keys: Vec<(Role, String)>,
    /// Keys to range over.
    pub over: Vec<String>,
}

/// Where the values of a key stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Under each other.
    Rows,
    /// Beside each other, each with a scale of its own.
    Columns,
    /// Together.
    Lines,
}

/// A key that sets results apart, and its values in the order of the plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Axis {
    /// Where they stand; no two axes stand in one place.
    pub role: Role,
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
    /// One for each role at most.
    pub axes: Vec<Axis>,
    /// What was ranged over: those keys that change.
    pub over: Vec<String>,
    /// In the order of the axes' values.
    pub found: Vec<Found>,
    /// Jobs that were planned.
    pub jobs: u64,
    /// Those without a result.
    pub missing: u64,
}

/// As many as there are roles.
const AXES_MAX: usize = 3;
/// What each measure of a simulation has.
const TIME_OF_MEASURES: &str = "elapsed_ns";
const MEASURES: (&str, &str) = ("result.kind", "measure");
/// Which measure it is: a key, too, where a simulation has several.
const MEASURE: &str = "measure";
/// The kind of its job: a key, too.
const KIND: &str = "kind";
/// What is ranged over if nothing is said.
const SEED: &str = "seed";

impl Question {
    /// With what is meant where nothing is said: the time of a simulation's measures, over seeds.
    pub fn completed(mut self) -> Question {
        if self.value.is_empty() {
            self.value = TIME_OF_MEASURES.into();
            if !self.filters.iter().any(|(key, _)| key == MEASURES.0) {
                self.filters.push((MEASURES.0.into(), MEASURES.1.into()));
            }
        }
        if self.over.is_empty() && !self.keys.iter().any(|(_, key)| key == SEED) {
            self.over.push(SEED.into());
        }
        self
    }
}

/// Answers a question from the results of a directory.
///
/// # Errors
/// A column that is not there, a key that nothing was said of, a job with several values that no
/// key tells apart, values that are no numbers, results that cannot be read.
pub fn compare(directory: &Directory, question: &Question) -> Result<Comparison> {
    let name = directory.path().display().to_string();
    let mut taker = Taker::new(question, parameters(directory)?);
    let collected = collect(directory, &mut taker, &name)?;
    let rows = taker.into_rows(&name)?;
    let axes = rows.axes(question)?;
    let places: Vec<usize> = axes.iter().map(|axis| axis.1).collect();
    let values = rows.values(&places, &question.over)?;
    let found = values.into_iter().map(|(place, mut numbers)| {
        numbers.sort_unstable_by(f64::total_cmp);
        let (least, greatest) = (numbers[0], numbers[numbers.len() - 1]);
        let median = numbers[(numbers.len() - 1) / 2];
        Found { place, least, median, greatest, count: numbers.len() }
    });
    let axis = |(role, at): &(Role, usize)| {
        let Key { name, values, .. } = &rows.keys[*at];
        Axis { role: *role, key: name.clone(), values: values.clone() }
    };
    Ok(Comparison {
        value: question.value.clone(),
        filters: question.filters.clone(),
        found: found.collect(),
        axes: axes.iter().map(axis).collect(),
        over: question.over.iter().filter(|name| rows.changes(name)).cloned().collect(),
        jobs: collected.jobs,
        missing: collected.missing,
    })
}

/// The keys of the matrix, by name.
fn parameters(directory: &Directory) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    directory.jobs(&mut |job| {
        for name in job.parameters.into_keys() {
            names.insert(name);
        }
        Ok(())
    })?;
    Ok(names)
}

/// The rows that were asked for: of each the numbers of its keys' values, and its value.
#[derive(Default)]
struct Rows {
    keys: Vec<Key>,
    rows: Vec<(Vec<usize>, f64)>,
}

/// A key and the values that it has, in the order in which they came.
#[derive(Default)]
struct Key {
    name: String,
    values: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Key {
    /// The number of a value.
    fn number(&mut self, value: String) -> usize {
        let next = self.values.len();
        *self.numbers.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            next
        })
    }
}

impl Rows {
    fn place(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|key| key.name == name)
    }

    /// Whether a key has several values.
    fn changes(&self, name: &str) -> bool {
        self.place(name).is_some_and(|at| self.keys[at].values.len() > 1)
    }

    /// The keys that are set apart.
    fn axes(&self, question: &Question) -> Result<Vec<(Role, usize)>> {
        if !question.keys.is_empty() {
            let names = || question.keys.iter().map(|(_, name)| name);
            if let Some(name) = names().find(|name| names().filter(|one| one == name).count() > 1) {
                return Err(Error::new(format!("{name}: stands in one place only")));
            }
            let keys = question.keys.iter();
            return Ok(keys.filter_map(|(role, name)| Some((*role, self.place(name)?))).collect());
        }
        let changes = |at: &usize| {
            self.keys[*at].values.len() > 1 && !question.over.contains(&self.keys[*at].name)
        };
        let mut open: Vec<usize> = (0..self.keys.len()).filter(changes).collect();
        // What a measure is of needs no axis beside it.
        let measure = self.place(MEASURE).filter(|at| open.contains(at));
        if let Some(measure) = measure {
            open.retain(|at| *at == measure || !self.is_given_by(*at, measure));
        }
        if open.len() > AXES_MAX {
            return Err(unsaid(&names(open.iter().map(|at| &self.keys[*at].name))));
        }
        // The longest downwards. Across, where there is least room and each has a scale of its own,
        // what is not compared.
        open.sort_by_key(|at| std::cmp::Reverse(self.keys[*at].values.len()));
        let across = measure.or(open.get(AXES_MAX - 1).copied());
        open.retain(|at| Some(*at) != across);
        let roles = [Role::Rows, Role::Lines].into_iter().zip(open);
        Ok(roles.chain(across.map(|at| (Role::Columns, at))).collect())
    }

    /// Whether rows with one value of `other` have one value of `key`.
    fn is_given_by(&self, key: usize, other: usize) -> bool {
        let mut given = BTreeMap::new();
        self.rows
            .iter()
            .all(|(values, _)| *given.entry(values[other]).or_insert(values[key]) == values[key])
    }

    /// The values at each place of the axes.
    fn values(&self, axes: &[usize], over: &[String]) -> Result<BTreeMap<Vec<usize>, Vec<f64>>> {
        let mut found: BTreeMap<Vec<usize>, (&[usize], Vec<f64>)> = BTreeMap::new();
        for (values, number) in &self.rows {
            let place = axes.iter().map(|at| values[*at]).collect();
            let (first, numbers) = found.entry(place).or_insert_with(|| (values, Vec::new()));
            let mixed = (0..self.keys.len())
                .filter(|at| values[*at] != first[*at] && !over.contains(&self.keys[*at].name));
            let mixed: Vec<&String> = mixed.map(|at| &self.keys[at].name).collect();
            if !mixed.is_empty() {
                return Err(unsaid(&names(mixed)));
            }
            numbers.push(*number);
        }
        Ok(found.into_iter().map(|(place, (_, numbers))| (place, numbers)).collect())
    }
}

fn unsaid(keys: &str) -> Error {
    Error::new(format!("{keys}: nothing was said of what changes"))
        .hint("set it apart with --rows, --columns or --by, range --over it, or choose --where")
}

/// Takes the rows of the table.
struct Taker<'a> {
    question: &'a Question,
    parameters: BTreeSet<String>,
    columns: Option<Columns>,
    rows: Rows,
    /// The rows of the job that was read last, by the values of the keys: a job's rows follow one
    /// another.
    last: BTreeMap<Vec<usize>, Vec<Cell>>,
    failure: Option<Error>,
}

/// Where cells are.
struct Columns {
    job: usize,
    value: usize,
    filters: Vec<usize>,
    /// As [`Rows::keys`].
    keys: Vec<usize>,
}

impl<'a> Taker<'a> {
    fn new(question: &'a Question, parameters: BTreeSet<String>) -> Taker<'a> {
        let (rows, last) = (Rows::default(), BTreeMap::new());
        Taker { question, parameters, columns: None, rows, last, failure: None }
    }

    fn into_rows(self, name: &str) -> Result<Rows> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.rows.rows.is_empty() {
            let value = &self.question.value;
            return Err(Error::new(format!("{name}: no row that was asked for has {value}"))
                .hint("extant sweep collect shows the rows, and what can stand after --where"));
        }
        Ok(self.rows)
    }

    /// Finds the columns, and which of them are keys: those of the matrix, those that were named,
    /// and which measure a row is of.
    fn begun(&mut self, schema: &Schema) -> Result<Columns> {
        let Question { value, filters, keys, over } = self.question;
        let filters: Result<Vec<usize>> =
            filters.iter().map(|(name, _)| column(schema, name)).collect();
        let mut names: Vec<&String> = self.parameters.iter().collect();
        let named = keys.iter().map(|(_, key)| key).chain(over.iter().filter(|key| *key != SEED));
        for name in named {
            key_column(schema, name)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of_results = [MEASURE, KIND].map(str::to_owned);
        for name in &of_results {
            if key_column(schema, name).is_ok() && !names.contains(&name) {
                names.push(name);
            }
        }
        let mut places = Vec::new();
        for name in names {
            // A parameter is not in the table when no job with a result has it.
            if let Ok(at) = key_column(schema, name) {
                places.push(at);
                self.rows.keys.push(Key { name: name.clone(), ..Key::default() });
            }
        }
        let (job, value) = (column(schema, "job")?, column(schema, value)?);
        Ok(Columns { job, value, filters: filters?, keys: places })
    }

    fn take(&mut self, schema: &Schema, cells: &[Cell]) -> Result<()> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let mut filters = columns.filters.iter().zip(&self.question.filters);
        let fits = filters.all(|(at, (_, wanted))| shown(&cells[*at]) == *wanted);
        if !fits || cells[columns.value].is_null() {
            return Ok(());
        }
        let name = &self.question.value;
        let value = &cells[columns.value];
        let number = value.as_f64().ok_or_else(|| {
            Error::new(format!("{name}: {} is no number", shown(value)))
                .hint("--value names a column of numbers")
        })?;
        let keys = self.rows.keys.iter_mut().zip(&columns.keys);
        let place: Vec<usize> = keys.map(|(key, at)| key.number(shown(&cells[*at]))).collect();
        let is_other = |before: &Vec<Cell>| before[columns.job] != cells[columns.job];
        if self.last.values().next().is_some_and(is_other) {
            self.last.clear();
        }
        if let Some(before) = self.last.insert(place.clone(), cells.to_vec()) {
            return Err(several(name, schema, &before, cells));
        }
        self.rows.rows.push((place, number));
        Ok(())
    }
}

fn column(schema: &Schema, name: &str) -> Result<usize> {
    let at = schema.columns.iter().position(|column| column.name == name);
    at.ok_or_else(|| {
        Error::new(format!("{name}: the results have no such column"))
            .hint("extant sweep collect --csv has their names in its first line")
    })
}

/// A key of the matrix is a column under its own name, but for three.
fn key_column(schema: &Schema, name: &str) -> Result<usize> {
    let with = |error| column(schema, &format!("with.{name}")).map_err(|_| error);
    column(schema, name).or_else(with)
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
            error
                .hint(format!("choose one: --where '{column}={one}' or --where '{column}={other}'"))
        }
        None => error.hint("choose one by --where"),
    }
}

impl Sink for Taker<'_> {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        match self.begun(schema) {
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

    const NAMES: [&str; 8] = ["job", "kind", "label", "measure", "a", "b", "seed", "v"];

    /// The axes and values that are found in these rows.
    fn found(
        rows: &[[Value; 8]],
        keys: &[&str],
        filters: &[(&str, &str)],
    ) -> Result<(Vec<String>, Vec<Vec<f64>>)> {
        let filters = filters.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let question = Question {
            value: "v".into(),
            keys: keys.iter().map(|key| (Role::Rows, (*key).to_owned())).collect(),
            over: vec!["seed".into()],
            filters: filters.collect(),
        };
        let parameters = ["a", "b", "seed"].map(str::to_owned).into();
        let column = |name: &&str| Column { name: (*name).into(), kind: Type::Text };
        let schema = Schema { columns: NAMES.iter().map(column).collect() };
        let mut taker = Taker::new(&question, parameters);
        taker.begin(&schema).unwrap();
        rows.iter().for_each(|row| taker.row(&schema, row).unwrap());
        let rows = taker.into_rows("d")?;
        let axes = rows.axes(&question)?;
        let places: Vec<usize> = axes.iter().map(|axis| axis.1).collect();
        let values = rows.values(&places, &question.over)?;
        let names = axes.iter().map(|(role, at)| format!("{role:?} {}", rows.keys[*at].name));
        let names = names.collect();
        Ok((names, values.into_values().collect()))
    }

    fn row(job: u64, [label, measure, a, b]: [&str; 4], value: Value) -> [Value; 8] {
        let [label, measure, a, b] = [label, measure, a, b].map(Value::from);
        [json!(job), json!("kind"), label, measure, a, b, json!(job), value]
    }

    #[test]
    fn keys_that_change_are_set_apart_or_refused() {
        // b is what the measure is of; a changes.
        let rows = [
            row(1, ["", "read", "x", "1"], json!(1)),
            row(2, ["", "read", "x", "1"], json!(2)),
            row(3, ["", "stat", "x", "2"], json!(3)),
            row(3, ["", "walk", "x", "2"], json!(4)),
            row(4, ["", "read", "y", "1"], json!(5.5)),
        ];
        let (axes, values) = found(&rows, &[], &[]).unwrap();
        assert_eq!(axes, ["Rows a", "Columns measure"]);
        assert_eq!(values, [vec![1.0, 2.0], vec![3.0], vec![4.0], vec![5.5]]);
        let error = found(&rows, &["a"], &[]).unwrap_err();
        assert_eq!(error.message, "b, measure: nothing was said of what changes");
        let (_, values) = found(&rows, &["a"], &[("measure", "read")]).unwrap();
        assert_eq!(values, [vec![1.0, 2.0], vec![5.5]]);
        let error = found(&rows, &["b"], &[]).unwrap_err();
        assert_eq!(error.message, "measure: nothing was said of what changes");
        let error = found(&rows, &["c"], &[]).unwrap_err();
        assert_eq!(error.message, "c: the results have no such column");
    }

    #[test]
    fn a_job_gives_one_number_at_a_place() {
        let rows = [
            row(1, ["step", "", "x", ""], json!(5)),
            row(1, ["all", "", "x", ""], json!(7)),
            row(2, ["all", "", "x", ""], json!(9)),
            row(3, ["step", "", "y", ""], Value::Null),
            row(3, ["all", "", "y", ""], json!(1)),
        ];
        // Also where another measure is between them.
        let between = [
            row(1, ["", "read", "x", ""], json!(5)),
            row(1, ["", "stat", "x", ""], json!(6)),
            row(1, ["", "read", "x", ""], json!(7)),
        ];
        let error = found(&between, &[], &[]).unwrap_err();
        assert_eq!(error.message, "v: a job has several rows with it");
        let mut kinds = [row(1, ["", "", "x", ""], json!(5)), row(2, ["", "", "x", ""], json!(6))];
        kinds[1][1] = json!("other kind");
        assert_eq!(found(&kinds, &[], &[]).unwrap().0, ["Rows kind"]);
        let (axes, values) = found(&rows, &[], &[("label", "all")]).unwrap();
        assert_eq!((axes, values), (vec!["Rows a".into()], vec![vec![7.0, 9.0], vec![1.0]]));
        let error = found(&rows, &[], &[]).unwrap_err();
        assert_eq!(error.message, "v: a job has several rows with it");
        let hint = "choose one: --where 'label=step' or --where 'label=all'";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let error = found(&rows, &[], &[("label", "none")]).unwrap_err();
        assert_eq!(error.message, "d: no row that was asked for has v");
        let words = [row(1, ["", "", "x", ""], json!("slow"))];
        assert_eq!(found(&words, &[], &[]).unwrap_err().message, "v: slow is no number");
        let error = found(&rows, &[], &[("lable", "all")]).unwrap_err();
        assert_eq!(error.message, "lable: the results have no such column");
    }
}
