//! Results become a table: a row for each observation, or for each job that has one document.
//!
//! Columns: `job`, `kind`, `exit`; the keys of the matrix by name; then what the results have, by
//! name. In a document, members of members are joined by points (`summary.inodes`), and a list is
//! its length (`problems.count`). A file that was written has `output.OPTION`, `.bytes` and
//! `.sha256`. A name that a parameter has already begins with `result.`
//!
//! Results are read twice, one at a time: for the columns, and for the rows. So a table may be
//! larger than memory.
use crate::directory::{Directory, Named};
use crate::error::{Error, Result};
use crate::table::{Cell, Column, Schema, Sink, Type};
use serde_json::{Map, Value};
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
        rows(&result).iter().for_each(|row| note(&mut found, row.iter()));
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
        for row in rows(&result) {
            sink.row(&schema, &cells(&keys, &job, &result, row)).map_err(failed)?;
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
        let kind = types.get(name).copied().unwrap_or(Type::Empty).or(Type::of(value));
        types.insert(name.clone(), kind);
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

fn cells(keys: &[Key], job: &Named, result: &Value, mut row: Row) -> Vec<Cell> {
    let cell = |key: &Key| match key {
        Key::Job => Value::from(job.id.as_str()),
        Key::Kind => Value::from(job.kind.as_str()),
        Key::Exit => result["exit"].clone(),
        Key::Parameter(name) => job.parameters.get(name).cloned().unwrap_or_default(),
        Key::Result(name) => row.remove(name).unwrap_or_default(),
    };
    keys.iter().map(cell).collect()
}

/// The rows of a result: its observations, or its document as one.
fn rows(result: &Value) -> Vec<Row> {
    let mut outputs = Row::new();
    for output in result["outputs"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let name = format!("output.{}", output["option"].as_str().unwrap_or_default());
        outputs.insert(format!("{name}.bytes"), output["bytes"].clone());
        outputs.insert(format!("{name}.sha256"), output["sha256"].clone());
        outputs.insert(name, output["path"].clone());
    }
    let observed = result["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let documents =
        if observed.is_empty() { std::slice::from_ref(&result["document"]) } else { observed };
    let row = |document: &Value| {
        let mut row = outputs.clone();
        if let Some(members) = document.as_object() {
            flatten("", members, 0, &mut row);
        }
        row
    };
    documents.iter().map(row).collect()
}

fn flatten(before: &str, members: &Map<String, Value>, depth: usize, row: &mut Row) {
    for (name, value) in members {
        let name = format!("{before}{name}");
        match value {
            Value::Object(members) if depth < DEPTH_MAX => {
                flatten(&format!("{name}."), members, depth + 1, row);
            }
            Value::Array(list) => {
                row.insert(format!("{name}.count"), Value::from(list.len()));
            }
            _ if name == "schema" => {}
            value => {
                row.insert(name, value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_one_row_and_observations_are_many() {
        let result = json!({
            "document": {"schema": "x/1", "a": 1, "b": {"c": "d", "e": [1, 2]}, "f": []},
            "outputs": [{"option": "image", "path": "out/a", "bytes": 3, "sha256": "00"}],
        });
        let found = rows(&result);
        let names: Vec<&str> = found[0].keys().map(String::as_str).collect();
        let outputs = ["output.image", "output.image.bytes", "output.image.sha256"];
        assert_eq!(names, [&["a", "b.c", "b.e.count", "f.count"][..], &outputs].concat());
        assert_eq!(found[0]["b.e.count"], 2);
        let many = json!({"document": {}, "rows": [{"x": 1}, {"x": 2}]});
        assert_eq!(rows(&many).iter().map(|row| row["x"].clone()).collect::<Vec<_>>(), [1, 2]);
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
