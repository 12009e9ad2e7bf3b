//! Results become a table: a row for each observation, or for each job that has one document.
//!
//! Columns: `job`, `kind`, `exit`; the keys of the matrix by name; then what the results have, by
//! name. In a document, members of members are joined by points (`summary.inodes`), and a list is
//! its length (`problems.count`). A file that was written has `output.OPTION`, `.bytes` and
//! `.sha256`. A name that a parameter has already begins with `result.`
//!
//! Results are read twice, a few at a time: for the columns, and for the rows. So a table may be
//! larger than memory.
use crate::directory::{Directory, JobResult, Members, Named};
use crate::error::{Error, Result};
use crate::table::{Cell, Column, Schema, Sink, Type};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

/// What was collected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// Jobs that were planned.
    pub jobs: u64,
    /// Rows that were written.
    pub rows: u64,
    /// Jobs without a result.
    pub missing: u64,
}

/// The columns before those of the matrix.
const FIRST: [&str; 3] = ["job", "kind", "exit"];
/// Jobs whose results a thread reads at a time.
const BATCH: usize = 32;
/// Members of members are followed this far; deeper ones are their text.
const DEPTH_MAX: usize = 16;

/// Names and values; of a name that comes twice the last counts.
type Row = Vec<(String, Value)>;

/// Writes the results of a directory into `sink`.
///
/// # Errors
/// A result or a plan cannot be read, or what the sink says; `name` is what errors call the sink.
pub fn collect(directory: &Directory, sink: &mut dyn Sink, name: &str) -> Result<Collected> {
    let mut found = Found::default();
    by_batches(directory, &|batch| Found::of(directory, batch), &mut |of_batch: Result<Found>| {
        found.add(of_batch?);
        Ok(())
    })?;
    let Found { mut collected, parameters, results, present } = found;
    let (schema, keys) = schema(&parameters, &results);
    let places = places(&keys);
    let columns = (&keys[..], &places);
    let failed = |error: std::io::Error| Error::io(std::path::Path::new(name), &error);
    sink.begin(&schema).map_err(failed)?;
    // A run may be at work: what came meanwhile may have columns that were not seen.
    let read = |batch: Vec<Named>| -> Result<Vec<Vec<Cell>>> {
        let mut all = Vec::new();
        for job in batch.into_iter().filter(|job| present.contains(&job.id)) {
            let Some(result) = directory.read_result(&job.id)? else { continue };
            let exit = result.exit.clone();
            all.extend(rows(result).into_iter().map(|row| cells(columns, &job, &exit, row)));
        }
        Ok(all)
    };
    by_batches(directory, &read, &mut |all: Result<Vec<Vec<Cell>>>| {
        for cells in all? {
            sink.row(&schema, &cells).map_err(failed)?;
            collected.rows += 1;
        }
        Ok(())
    })?;
    sink.end().map_err(failed)?;
    Ok(collected)
}

/// What results have, of a batch or of all.
#[derive(Default)]
struct Found {
    collected: Collected,
    parameters: BTreeMap<String, Type>,
    results: BTreeMap<String, Type>,
    /// Jobs with a result.
    present: BTreeSet<String>,
}

impl Found {
    fn of(directory: &Directory, batch: Vec<Named>) -> Result<Found> {
        let mut found = Found::default();
        for job in batch {
            found.collected.jobs += 1;
            let Some(result) = directory.read_result(&job.id)? else {
                found.collected.missing += 1;
                continue;
            };
            note(&mut found.parameters, job.parameters.iter());
            rows(result).iter().for_each(|row| {
                note(&mut found.results, row.iter().map(|(name, value)| (name, value)));
            });
            found.present.insert(job.id);
        }
        Ok(found)
    }

    fn add(&mut self, mut other: Found) {
        self.collected.jobs += other.collected.jobs;
        self.collected.missing += other.collected.missing;
        add_types(&mut self.parameters, other.parameters);
        add_types(&mut self.results, other.results);
        self.present.append(&mut other.present);
    }
}

fn add_types(types: &mut BTreeMap<String, Type>, others: BTreeMap<String, Type>) {
    for (name, kind) in others {
        types.entry(name).and_modify(|known| *known = known.or(kind)).or_insert(kind);
    }
}

/// Gives the jobs of a directory to `work`, on all processors, a batch at a time, and what came of
/// each batch to `take`, in order. A batch for each processor is in memory, no more.
///
/// # Errors
/// Those of the plans, and of `take`.
fn by_batches<T: Send>(
    directory: &Directory,
    work: &(dyn Fn(Vec<Named>) -> T + Sync),
    take: &mut dyn FnMut(T) -> Result<()>,
) -> Result<()> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // tidy: thread because files are read on the host's time, and no experiment does
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count)
            .map(|_| {
                let (give, batches) = mpsc::channel::<Vec<Named>>();
                let (done, outcomes) = mpsc::channel();
                // It ends when there are no batches, or nobody wants what came of them.
                scope.spawn(move || batches.iter().try_for_each(|batch| done.send(work(batch))));
                (give, outcomes)
            })
            .collect();
        let (mut given, mut taken) = (0_usize, 0_usize);
        let mut receive = |taken: &mut usize| match workers[*taken % count].1.recv() {
            Ok(outcome) => {
                *taken += 1;
                take(outcome)
            }
            Err(_) => Err(Error::new("a thread that reads results has ended")),
        };
        let mut batch = Vec::new();
        let mut give = |batch: Vec<Named>| -> Result<()> {
            if given == taken + count {
                receive(&mut taken)?;
            }
            // What cannot be given is seen when its outcome is awaited.
            let _ = workers[given % count].0.send(batch);
            given += 1;
            Ok(())
        };
        directory.jobs(&mut |job| {
            batch.push(job);
            if batch.len() < BATCH { Ok(()) } else { give(std::mem::take(&mut batch)) }
        })?;
        if !batch.is_empty() {
            give(batch)?;
        }
        while taken < given {
            receive(&mut taken)?;
        }
        Ok(())
    })
}

/// Where the cells of a column come from.
enum Key {
    Job,
    Kind,
    Exit,
    Parameter(String),
    Result(String),
}

fn note<'a>(
    types: &mut BTreeMap<String, Type>,
    row: impl Iterator<Item = (&'a String, &'a Value)>,
) {
    for (name, value) in row {
        match types.get_mut(name) {
            Some(kind) => *kind = kind.or(Type::of(value)),
            None => {
                types.insert(name.clone(), Type::of(value));
            }
        }
    }
}

fn schema(
    parameters: &BTreeMap<String, Type>,
    found: &BTreeMap<String, Type>,
) -> (Schema, Vec<Key>) {
    let mut columns = Vec::new();
    let mut keys = Vec::new();
    let mut add = |name: String, kind, key| {
        columns.push(Column { name, kind });
        keys.push(key);
    };
    add(FIRST[0].into(), Type::Text, Key::Job);
    add(FIRST[1].into(), Type::Text, Key::Kind);
    add(FIRST[2].into(), Type::Integer, Key::Exit);
    for (name, kind) in parameters {
        let shown =
            if FIRST.contains(&name.as_str()) { format!("with.{name}") } else { name.clone() };
        add(shown, *kind, Key::Parameter(name.clone()));
    }
    for (name, kind) in found {
        let is_taken = FIRST.contains(&name.as_str()) || parameters.contains_key(name);
        let shown = if is_taken { format!("result.{name}") } else { name.clone() };
        add(shown, *kind, Key::Result(name.clone()));
    }
    (Schema { columns }, keys)
}

/// The columns of results, by name.
fn places(keys: &[Key]) -> BTreeMap<&str, usize> {
    let mut places = BTreeMap::new();
    for (at, key) in keys.iter().enumerate() {
        if let Key::Result(name) = key {
            places.insert(name.as_str(), at);
        }
    }
    places
}

fn cells(
    (keys, places): (&[Key], &BTreeMap<&str, usize>),
    job: &Named,
    exit: &Value,
    row: Row,
) -> Vec<Cell> {
    let cell = |key: &Key| match key {
        Key::Job => Value::from(job.id.as_str()),
        Key::Kind => Value::from(job.kind.as_str()),
        Key::Exit => exit.clone(),
        Key::Parameter(name) => job.parameters.get(name).cloned().unwrap_or_default(),
        Key::Result(_) => Value::Null,
    };
    let mut cells: Vec<Cell> = keys.iter().map(cell).collect();
    for (name, value) in row {
        if let Some(cell) = places.get(name.as_str()).and_then(|at| cells.get_mut(*at)) {
            *cell = value;
        }
    }
    cells
}

/// The rows of a result: its observations, or its document as one.
fn rows(result: JobResult) -> Vec<Row> {
    let mut written = Row::new();
    for output in &result.outputs {
        let name = format!("output.{}", output["option"].as_str().unwrap_or_default());
        written.push((format!("{name}.bytes"), output["bytes"].clone()));
        written.push((format!("{name}.sha256"), output["sha256"].clone()));
        written.push((name, output["path"].clone()));
    }
    let mut rows: Vec<Row> = result.rows.into_iter().map(|row| row.0).collect();
    if rows.is_empty() {
        // What is no object has no names.
        let document: Members = serde_json::from_str(result.document.get()).unwrap_or_default();
        rows.push(document.0);
    }
    for row in &mut rows {
        let is_nested = |(name, value): &(String, Value)| {
            name == SCHEMA || value.is_object() || value.is_array()
        };
        if row.iter().any(is_nested) {
            let mut flat = Row::new();
            flatten("", std::mem::take(row), 0, &mut flat);
            *row = flat;
        }
        for (name, value) in &written {
            if row.iter().all(|(known, _)| known != name) {
                row.push((name.clone(), value.clone()));
            }
        }
    }
    rows
}

/// Which form a document has, and no part of what it says.
const SCHEMA: &str = "schema";

fn flatten(
    before: &str,
    members: impl IntoIterator<Item = (String, Value)>,
    depth: usize,
    row: &mut Row,
) {
    for (member, value) in members {
        let name = if before.is_empty() { member } else { format!("{before}{member}") };
        match value {
            Value::Object(members) if depth < DEPTH_MAX => {
                // One type for all depths, or there is no end of them.
                let members: Vec<(String, Value)> = members.into_iter().collect();
                flatten(&format!("{name}."), members, depth + 1, row);
            }
            Value::Array(list) => {
                row.push((format!("{name}.count"), Value::from(list.len())));
            }
            _ if name == SCHEMA => {}
            value => {
                row.push((name, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(result: &Value) -> JobResult {
        serde_json::from_str(&result.to_string()).expect("a result")
    }

    #[test]
    fn a_document_is_one_row_and_observations_are_many() {
        let document = json!({"schema": "x/1", "a": 1, "b": {"c": "d", "e": [1, 2]}, "f": []});
        let result = json!({
            "schema": "", "id": "", "document": document,
            "outputs": [{"option": "image", "path": "out/a", "bytes": 3, "sha256": "00"}],
        });
        let found = rows(read(&result));
        let mut names: Vec<&str> = found[0].iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let outputs = ["output.image", "output.image.bytes", "output.image.sha256"];
        assert_eq!(names, [&["a", "b.c", "b.e.count", "f.count"][..], &outputs].concat());
        let value = |row: &Row, name: &str| {
            row.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(value(&found[0], "b.e.count"), Some(json!(2)));
        let rows_of = json!([{"x": 1}, {"x": 2}]);
        let many = json!({"schema": "", "id": "", "document": {"x": 3}, "rows": rows_of});
        assert_eq!(
            rows(read(&many)).iter().map(|row| value(row, "x")).collect::<Vec<_>>(),
            [Some(json!(1)), Some(json!(2))]
        );
    }

    #[test]
    fn names_that_are_taken_are_told_apart() {
        let types =
            |names: &[&str]| names.iter().map(|name| ((*name).into(), Type::Text)).collect();
        let (schema, keys) = schema(&types(&["job", "seed"]), &types(&["kind", "seed", "speed"]));
        let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        let all =
            ["job", "kind", "exit", "with.job", "seed", "result.kind", "result.seed", "speed"];
        assert_eq!(names, all);
        assert_eq!(keys.len(), all.len());
    }
}
