//! A table: columns with types, rows of cells, written as CSV or JSON Lines.
//!
//! What writes another form takes a [`Schema`] and then each row; the cells of a row fit the types
//! of its columns or are empty.
use serde_json::Value;
use std::io::{self, Write};

/// What the cells of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// No row has a value.
    Empty,
    /// True or false.
    Boolean,
    /// Whole numbers of 64 bits with a sign, which doubles hold too.
    Integer,
    /// Those that doubles do not hold: above 2^53.
    Long,
    /// Whole numbers above those.
    Unsigned,
    /// Numbers with a fraction.
    Float,
    /// Anything else, as text.
    Text,
}

/// Up to here doubles hold every whole number: 2^53.
const EXACT_MAX: u64 = 1 << 53;

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its cells are.
    pub kind: Type,
}

/// The columns of a table, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schema {
    /// All of them.
    pub columns: Vec<Column>,
}

/// A cell of a row: a scalar, or null where there is none.
pub type Cell = Value;

impl Type {
    /// That of one value. What is no scalar is text.
    pub fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Empty,
            Value::Bool(_) => Type::Boolean,
            Value::Number(number) if number.is_i64() => {
                match number.as_i64().is_some_and(|number| number.unsigned_abs() <= EXACT_MAX) {
                    true => Type::Integer,
                    false => Type::Long,
                }
            }
            Value::Number(number) if number.is_u64() => Type::Unsigned,
            Value::Number(_) => Type::Float,
            _ => Type::Text,
        }
    }

    /// The one that has the values of both.
    #[must_use]
    pub fn or(self, other: Type) -> Type {
        use Type::{Empty, Float, Integer, Long, Text};
        match (self, other) {
            (one, other) if one == other => one,
            (Empty, other) | (other, Empty) => other,
            (Integer, Long) | (Long, Integer) => Long,
            (Integer, Float) | (Float, Integer) => Float,
            // Also a number above 63 bits beside others, which may be negative, and one that a
            // double does not hold beside fractions.
            _ => Text,
        }
    }
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// RFC 4180: a line of names first, an empty field where there is no value.
    Csv,
    /// An object a line, null where there is no value.
    JsonLines,
}

/// What takes a table: its schema, then each row.
pub trait Sink {
    /// Begins.
    ///
    /// # Errors
    /// What it is written to says.
    fn begin(&mut self, schema: &Schema) -> io::Result<()>;
    /// One more row, with a cell for each column.
    ///
    /// # Errors
    /// What it is written to says.
    fn row(&mut self, schema: &Schema, cells: &[Cell]) -> io::Result<()>;
    /// Ends.
    ///
    /// # Errors
    /// What it is written to says.
    fn end(&mut self) -> io::Result<()>;
}

/// Lines of text.
pub struct Lines<W> {
    form: Form,
    out: W,
    /// What stands before each cell of a line of JSON.
    names: Vec<String>,
}

impl<W: Write> Lines<W> {
    /// Of this form.
    pub fn new(form: Form, out: W) -> Lines<W> {
        Lines { form, out, names: Vec::new() }
    }
}

impl<W: Write> Sink for Lines<W> {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        if self.form == Form::JsonLines {
            let name = |column: &Column| format!("{}:", Value::from(column.name.as_str()));
            self.names = schema.columns.iter().map(name).collect();
            return Ok(());
        }
        let names: Vec<String> = schema.columns.iter().map(|column| quoted(&column.name)).collect();
        writeln!(self.out, "{}", names.join(","))
    }

    fn row(&mut self, schema: &Schema, cells: &[Cell]) -> io::Result<()> {
        let pairs = schema.columns.iter().zip(cells);
        match self.form {
            Form::Csv => {
                let mut before = "";
                for (column, cell) in pairs {
                    self.out.write_all(before.as_bytes())?;
                    field(&mut self.out, column, cell)?;
                    before = ",";
                }
                self.out.write_all(b"\n")
            }
            Form::JsonLines => {
                let mut before = "{";
                for ((column, cell), name) in pairs.zip(&self.names) {
                    self.out.write_all(before.as_bytes())?;
                    self.out.write_all(name.as_bytes())?;
                    match as_text(column, cell) {
                        Some(text) => serde_json::to_writer(&mut self.out, &text)?,
                        None => serde_json::to_writer(&mut self.out, cell)?,
                    }
                    before = ",";
                }
                self.out.write_all(b"}\n")
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A cell as its column has it: what is no text in a column of texts becomes one.
pub fn typed(column: &Column, cell: &Cell) -> Cell {
    as_text(column, cell).map_or_else(|| cell.clone(), Value::String)
}

/// What is no text in a column of texts, as text.
fn as_text(column: &Column, cell: &Cell) -> Option<String> {
    match (column.kind, cell) {
        (Type::Text, Value::Null | Value::String(_)) => None,
        (Type::Text, other) => Some(other.to_string()),
        _ => None,
    }
}

fn field(out: &mut impl Write, column: &Column, cell: &Cell) -> io::Result<()> {
    match (as_text(column, cell), cell) {
        (Some(text), _) => out.write_all(quoted(&text).as_bytes()),
        (None, Value::Null) => Ok(()),
        (None, Value::String(words)) => out.write_all(quoted(words).as_bytes()),
        (None, other) => write!(out, "{other}"),
    }
}

fn quoted(words: &str) -> String {
    match words.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", words.replace('"', "\"\"")),
        false => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_column_has_the_type_that_holds_all_its_cells() {
        let kind = |values: Value| {
            let values = values.as_array().cloned().unwrap_or_default();
            values.iter().map(Type::of).fold(Type::Empty, Type::or)
        };
        assert_eq!(kind(json!([null])), Type::Empty);
        assert_eq!(kind(json!([1, null, -2])), Type::Integer);
        assert_eq!(kind(json!([u64::MAX, null])), Type::Unsigned);
        assert_eq!(kind(json!([-1, u64::MAX])), Type::Text);
        assert_eq!(kind(json!([1, 0.5])), Type::Float);
        assert_eq!(kind(json!([1, 1_u64 << 53])), Type::Integer);
        assert_eq!(kind(json!([1, i64::MAX])), Type::Long);
        assert_eq!(kind(json!([0.5, (1_u64 << 53) + 1])), Type::Text);
        assert_eq!(kind(json!([1, true])), Type::Text);
        assert_eq!(kind(json!(["a", [1]])), Type::Text);
    }

    #[test]
    fn both_forms_say_the_same() {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let columns = vec![column("a,b", Type::Text), column("n", Type::Integer)];
        let schema = Schema { columns };
        let rows = [[json!("say \"x\""), json!(1)], [json!(true), Value::Null]];
        let written = |form| {
            let mut out = Vec::new();
            let mut lines = Lines::new(form, &mut out);
            lines.begin(&schema).unwrap();
            rows.iter().for_each(|row| lines.row(&schema, row).unwrap());
            lines.end().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Form::Csv), "\"a,b\",n\n\"say \"\"x\"\"\",1\ntrue,\n");
        assert_eq!(
            written(Form::JsonLines),
            "{\"a,b\":\"say \\\"x\\\"\",\"n\":1}\n{\"a,b\":\"true\",\"n\":null}\n"
        );
    }
}
