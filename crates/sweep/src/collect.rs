//! Results become a table: a row for each observation, or for each job that has one document.
//!
//! Columns: `job`, `kind`, `exit`; the keys of the matrix by name; then what the results have, by
//! name. In a document, members of members are joined by points (`summary.inodes`), and a list is
//! its length (`problems.count`). A file that was written has `output.OPTION`, `.bytes` and
//! `.sha256`. A name that a parameter has already begins with `result.`
//!
//! Results are read twice, one at a time: for the columns, and for the rows. So a table may be
//! larger than memory.
use crate::directory::{Directory, JobResult, Named};
use crate::error::{Error, Result};
use crate::table::{Cell, Column, Schema, Sink, Type};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
/// Members of members are followed this far; deeper ones are their text.
const DEPTH_MAX: usize = 16;

type Row = BTreeMap<String, Value>;

/// Writes the results of a directory into `sink`.
///
/// # Errors
/// A result or a plan cannot be read, or what the sink says; `name` is what errors call the sink.
pub fn collect(directory: &Directory, sink: &mut dyn Sink, name: &str) -> Result<Collected> {
    let mut collected = Collected::default();
    let mut parameters: BTreeMap<String, Type> = BTreeMap::new();
    let mut found: BTreeMap<String, Type> = BTreeMap::new();
    let mut present = BTreeSet::new();
    directory.jobs(&mut |job| {
        collected.jobs += 1;
        let Some(result) = directory.read_result(&job.id)? else {
            collected.missing += 1;
            return Ok(());
        };
        note(&mut parameters, job.parameters.iter());
        rows(result).iter().for_each(|row| note(&mut found, row.iter()));
        present.insert(job.id);
        Ok(())
    })?;
    let (schema, keys) = schema(&parameters, &found);
    let failed = |error: std::io::Error| Error::io(std::path::Path::new(name), &error);
    sink.begin(&schema).map_err(failed)?;
    // A run may be at work: what came meanwhile may have columns that were not seen.
    directory.jobs(&mut |job| {
        let Some(result) = directory.read_result(&job.id)?.filter(|_| present.contains(&job.id))
        else {
            return Ok(());
        };
        let exit = result.exit.clone();
        for row in rows(result) {
            sink.row(&schema, &cells(&keys, &job, &exit, row)).map_err(failed)?;
            collected.rows += 1;
        }
        Ok(())
    })?;
    sink.end().map_err(failed)?;
    Ok(collected)
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

fn cells(keys: &[Key], job: &Named, exit: &Value, mut row: Row) -> Vec<Cell> {
    let cell = |key: &Key| match key {
        Key::Job => Value::from(job.id.as_str()),
        Key::Kind => Value::from(job.kind.as_str()),
        Key::Exit => exit.clone(),
        Key::Parameter(name) => job.parameters.get(name).cloned().unwrap_or_default(),
        Key::Result(name) => row.remove(name).unwrap_or_default(),
    };
    keys.iter().map(cell).collect()
}

/// The rows of a result: its observations, or its document as one.
fn rows(result: JobResult) -> Vec<Row> {
    let mut written = Row::new();
    for output in &result.outputs {
        let name = format!("output.{}", output["option"].as_str().unwrap_or_default());
        written.insert(format!("{name}.bytes"), output["bytes"].clone());
        written.insert(format!("{name}.sha256"), output["sha256"].clone());
        written.insert(name, output["path"].clone());
    }
    let mut rows = result.rows;
    if rows.is_empty() {
        // What is no object has no names.
        rows.push(serde_json::from_str(result.document.get()).unwrap_or_default());
    }
    for row in &mut rows {
        if row.contains_key(SCHEMA)
            || row.values().any(|value| value.is_object() || value.is_array())
        {
            let mut flat = Row::new();
            flatten("", std::mem::take(row), 0, &mut flat);
            *row = flat;
        }
        for (name, value) in &written {
            row.entry(name.clone()).or_insert_with(|| value.clone());
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
                row.insert(format!("{name}.count"), Value::from(list.len()));
            }
            _ if name == SCHEMA => {}
            value => {
                row.insert(name, value);
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
        let names: Vec<&str> = found[0].keys().map(String::as_str).collect();
        let outputs = ["output.image", "output.image.bytes", "output.image.sha256"];
        assert_eq!(names, [&["a", "b.c", "b.e.count", "f.count"][..], &outputs].concat());
        assert_eq!(found[0]["b.e.count"], 2);
        let rows_of = json!([{"x": 1}, {"x": 2}]);
        let many = json!({"schema": "", "id": "", "document": {"x": 3}, "rows": rows_of});
        assert_eq!(
            rows(read(&many)).iter().map(|row| row["x"].clone()).collect::<Vec<_>>(),
            [1, 2]
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
