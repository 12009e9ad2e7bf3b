//! The matrix: a TOML file that says which jobs there are.
//!
//! ```text
//! reader   TOML with the line of everything
//! values   the values of one axis
//! ```
//!
//! A block `[[jobs]]` is the product of its axes: `kind` (one or a list), each key of `over`, and
//! each table of `zip`, whose keys go together. The axis that is written last changes fastest.
//! `with` has what is the same in all of them, `only` and `except` choose among them.
pub mod reader;
pub mod values;

use crate::error::Result;
use crate::job::Limits;
use crate::kinds::{KINDS, Kind, find};
use reader::{Placed, Source, entries};
use serde_json::Value;
use std::collections::BTreeMap;
use toml::de::DeTable;
use values::Values;

/// The values of one combination, by key.
pub type Parameters = BTreeMap<String, Value>;

/// One key of a block, with all values that it takes.
#[derive(Debug)]
pub struct Column {
    /// `drive`, `seed`, `column.placement`.
    pub key: String,
    /// What it is.
    pub values: Values,
    /// The line of the key.
    pub line: usize,
}

/// Columns that go together: step by step, all of one length.
#[derive(Debug)]
pub struct Axis {
    /// One, or those of a zip.
    pub columns: Vec<Column>,
}

/// Values by key: a combination fits if it has one of each.
#[derive(Debug)]
pub struct Filter(Vec<(String, Values)>);

/// A block `[[jobs]]`.
#[derive(Debug)]
pub struct Block {
    /// Where it begins.
    pub line: usize,
    /// The kinds, the slowest axis.
    pub kinds: Vec<&'static Kind>,
    /// The other axes; the last is the fastest.
    pub axes: Vec<Axis>,
    /// If there is one, a combination has to fit one of them.
    pub only: Vec<Filter>,
    /// A combination that fits one is left out.
    pub except: Vec<Filter>,
    /// What each job may use.
    pub limits: Limits,
    /// Which files are kept, by the option that names them.
    pub outputs: Vec<String>,
    /// Where the file goes that the kind always writes; `{KEY}` stands for a value.
    pub target: Option<String>,
}

/// A whole file.
#[derive(Debug)]
pub struct Matrix {
    /// Its name, for errors.
    pub file: String,
    /// In their order.
    pub blocks: Vec<Block>,
}

/// The keys of a block.
const KEYS: &[&str] =
    &["kind", "with", "over", "zip", "only", "except", "limits", "outputs", "target"];

impl Matrix {
    /// The matrix of a text. Paths in it are those of the words: they begin where the command runs.
    ///
    /// # Errors
    /// What is wrong with it, with the line.
    pub fn parse(file: &str, text: &str) -> Result<Matrix> {
        let source = Source { file, text };
        let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
        let table = table.get_ref();
        source.only_keys(table, &["jobs", "limits"])?;
        let limits = table.get("limits").map(|value| source.limits(value)).transpose()?;
        let jobs = table.get("jobs").ok_or_else(|| {
            source.error(0, "there is no [[jobs]]").hint("docs/examples/matrix.toml is a matrix")
        })?;
        let blocks: Result<Vec<Block>> = source
            .list("jobs", jobs)?
            .map(|value| Block::parse(&source, value, limits.unwrap_or_default()))
            .collect();
        Ok(Matrix { file: file.to_owned(), blocks: blocks? })
    }

    /// An error about a line of it.
    pub fn error(&self, line: usize, reason: impl std::fmt::Display) -> crate::error::Error {
        Source { file: &self.file, text: "" }.error_in(line, reason)
    }
}

impl Block {
    fn parse(source: &Source, value: &Placed<'_>, limits: Limits) -> Result<Block> {
        let table = source.table("jobs", value)?;
        source.only_keys(table, KEYS)?;
        let line = source.line(value.span().start);
        let mut block = Block {
            line,
            kinds: kinds(source, table, line)?,
            axes: Vec::new(),
            only: Vec::new(),
            except: Vec::new(),
            limits,
            outputs: Vec::new(),
            target: None,
        };
        for (key, _, value) in entries(table) {
            match key {
                "with" | "over" => {
                    for column in columns(source, key, value)? {
                        if key == "with" && column.values.count() != 1 {
                            let reason = format!("{}: has several values", column.key);
                            return Err(source
                                .error_in(column.line, reason)
                                .hint("an axis belongs to over or zip"));
                        }
                        block.axes.push(Axis { columns: vec![column] });
                    }
                }
                "zip" => {
                    for zip in source.list(key, value)? {
                        block.axes.push(zipped(source, zip)?);
                    }
                }
                "limits" => {
                    let own = source.limits(value)?;
                    block.limits.memory_bytes = own.memory_bytes.or(block.limits.memory_bytes);
                    block.limits.seconds = own.seconds.or(block.limits.seconds);
                }
                "outputs" => {
                    for one in source.list(key, value)? {
                        block.outputs.push(source.text(key, one)?.to_owned());
                    }
                }
                "target" => block.target = Some(source.text(key, value)?.to_owned()),
                _ => {}
            }
        }
        block.no_key_twice(source)?;
        // After all axes are known, in whatever order they are written.
        for (key, list) in [("only", &mut block.only), ("except", &mut block.except)] {
            let Some(value) = table.get(key) else { continue };
            for one in source.list(key, value)? {
                list.push(filter(source, key, one, &block.axes, &block.kinds)?);
            }
        }
        Ok(block)
    }

    fn no_key_twice(&self, source: &Source) -> Result<()> {
        let mut seen = BTreeMap::new();
        for column in self.axes.iter().flat_map(|axis| &axis.columns) {
            if let Some(first) = seen.insert(&column.key, column.line) {
                let reason = format!("{}: is in line {first} already", column.key);
                return Err(source.error_in(column.line.max(first), reason));
            }
        }
        Ok(())
    }

    /// How many combinations there are before any is filtered; at most `u128::MAX`.
    pub fn count(&self) -> u128 {
        let steps = self.axes.iter().map(Axis::steps);
        steps.fold(self.kinds.len() as u128, |count, steps| count.saturating_mul(u128::from(steps)))
    }

    /// Every combination, in order: the kind and the values.
    pub fn combinations(&self) -> impl Iterator<Item = (&'static Kind, Parameters)> + '_ {
        let each: u128 = self.count() / (self.kinds.len().max(1) as u128);
        let of_kind = move |kind: &'static Kind| (0..each).map(move |at| (kind, self.values(at)));
        self.kinds.iter().flat_map(move |kind| of_kind(kind))
    }

    /// The values of the combination of that number.
    fn values(&self, at: u128) -> Parameters {
        let mut rest = at;
        let mut values = Parameters::new();
        for axis in self.axes.iter().rev() {
            let steps = u128::from(axis.steps().max(1));
            let step = u64::try_from(rest % steps).unwrap_or(u64::MAX);
            rest /= steps;
            for column in &axis.columns {
                values.insert(column.key.clone(), column.values.get(step));
            }
        }
        values
    }

    /// Whether the filters leave a combination in.
    pub fn keeps(&self, kind: &Kind, parameters: &Parameters) -> bool {
        let fits = |filter: &Filter| filter.fits(kind, parameters);
        (self.only.is_empty() || self.only.iter().any(fits)) && !self.except.iter().any(fits)
    }
}

impl Axis {
    /// How many steps it has.
    pub fn steps(&self) -> u64 {
        self.columns.first().map_or(1, |column| column.values.count())
    }
}

impl Filter {
    fn fits(&self, kind: &Kind, parameters: &Parameters) -> bool {
        self.0.iter().all(|(key, values)| match key.as_str() {
            "kind" => values.has(&Value::from(kind.name)),
            key => parameters.get(key).is_some_and(|value| values.has(value)),
        })
    }
}

fn kinds(source: &Source, table: &DeTable<'_>, line: usize) -> Result<Vec<&'static Kind>> {
    let known = || {
        format!("there are {}", KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "))
    };
    let Some(value) = table.get("kind") else {
        return Err(source.error_in(line, "kind is missing").hint(known()));
    };
    let named = |value: &Placed<'_>| {
        let name = source.text("kind", value)?;
        let unknown =
            || source.error(value.span().start, format!("{name}: no such kind")).hint(known());
        find(name).ok_or_else(unknown)
    };
    match value.get_ref().as_array() {
        None => Ok(vec![named(value)?]),
        Some(list) if list.is_empty() => {
            Err(source.error(value.span().start, "kind: the list is empty"))
        }
        Some(list) => list.iter().map(named).collect(),
    }
}

/// The columns of a table: those of `column` are policies.
fn columns(source: &Source, key: &str, value: &Placed<'_>) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for (name, at, value) in entries(source.table(key, value)?) {
        let is_table = value.get_ref().as_table().is_some();
        let inner = if name == "column" && is_table {
            entries(source.table(name, value)?)
        } else {
            Vec::new()
        };
        for (policy, at, value) in &inner {
            let key = format!("column.{policy}");
            let values = Values::parse(source, &key, value)?;
            columns.push(Column { key, values, line: source.line(*at) });
        }
        if inner.is_empty() {
            let values = Values::parse(source, name, value)?;
            columns.push(Column { key: name.to_owned(), values, line: source.line(at) });
        }
    }
    Ok(columns)
}

/// A table of a zip: columns of one length.
fn zipped(source: &Source, value: &Placed<'_>) -> Result<Axis> {
    let columns = columns(source, "zip", value)?;
    let Some(first) = columns.first() else {
        return Err(source.error(value.span().start, "zip: the table is empty"));
    };
    let steps = first.values.count();
    match columns.iter().find(|column| column.values.count() != steps) {
        None => Ok(Axis { columns }),
        Some(other) => Err(source.error_in(
            other.line,
            format!(
                "zip: {} has {} values, and {} has {steps}",
                other.key,
                other.values.count(),
                first.key
            ),
        )),
    }
}

fn filter(
    source: &Source,
    key: &str,
    value: &Placed<'_>,
    axes: &[Axis],
    kinds: &[&'static Kind],
) -> Result<Filter> {
    let mut fits = Vec::new();
    for column in columns(source, key, value)? {
        let axis = axes.iter().flat_map(|axis| &axis.columns).find(|one| one.key == column.key);
        let is_there = |value: &Value| match axis {
            Some(axis) => axis.values.has(value),
            None => kinds.iter().any(|kind| value.as_str() == Some(kind.name)),
        };
        if axis.is_none() && column.key != "kind" {
            let reason = format!("{key}: {} is no axis of this block", column.key);
            return Err(source.error_in(column.line, reason));
        }
        // A misspelt value would leave nothing out, without a word.
        if let Some(value) = column.values.samples().iter().find(|value| !is_there(value)) {
            let reason = format!("{key}: {value} is no value of {}", column.key);
            return Err(source.error_in(column.line, reason));
        }
        fits.push((column.key, column.values));
    }
    Ok(Filter(fits))
}
