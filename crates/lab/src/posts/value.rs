//! What is measured of a run: each [`Value`] of a post's file as a number.
use super::file::{Case, Post, Value};
use super::report::Quantity;
use super::runs::{Ran, Runs, named};
use crate::report::Report;
use crate::results::{self, Context, Expression, Ratio, ResultEntry, Rounding, Unit};

const SECOND: u64 = 1_000_000_000;

/// A column of a table, as runs are found by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) system: String,
    pub(super) run: String,
    pub(super) policies: String,
}

/// The cell of a table for which a value is wanted.
#[derive(Clone, Copy)]
pub(super) struct CellPlace<'a> {
    pub(super) runs: &'a Runs<'a>,
    pub(super) columns: &'a [Column],
    pub(super) column: &'a Column,
    /// Other runs than those of the column.
    pub(super) run: Option<&'a str>,
    pub(super) case: Option<&'a Case>,
    pub(super) variant: Option<&'a str>,
    /// Of a run that is drawn several times, which of them.
    pub(super) draw: u64,
}

impl<'a> CellPlace<'a> {
    /// The run of this cell; `None` where there is none at this size.
    pub(super) fn ran(&self) -> Option<&'a Ran> {
        let run = self.run.unwrap_or(&self.column.run);
        self.runs.find(run, &self.column.system, self.case, self.variant, self.draw)
    }

    /// How often the run of this cell is drawn.
    pub(super) fn draws(&self) -> u64 {
        self.runs.draws(self.run.unwrap_or(&self.column.run))
    }

    /// The same cell of the column of that name, or else of that variant.
    fn other(&self, name: &str) -> Option<CellPlace<'a>> {
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) => Some(CellPlace { column, ..*self }),
            None => {
                let run = self.run.unwrap_or(&self.column.run);
                Some(CellPlace { variant: Some(self.runs.post.variant(run, name)?), ..*self })
            }
        }
    }

    /// What a value of a file is here; `None` where it was not measured.
    pub(super) fn value(&self, value: &Value) -> Option<Quantity> {
        let known = known(self.runs.post, self.case).ok()?;
        let (expression, unit) = value.expression(&known, self.case).ok()?;
        let here = Here { place: *self, ran: self.ran()?, known: &known };
        let number = results::value(&expression, &here).ok()?;
        Some(match value {
            Value::Plain(_) if unit == Unit::SECONDS => {
                Quantity::Nanoseconds(number.scaled(SECOND, Rounding::Down)?)
            }
            Value::Plain(_) => Quantity::Count(number.scaled(1, Rounding::Down)?),
            Value::Share { .. } => Quantity::Permille(number.scaled(1000, Rounding::Down)?),
            Value::ShareUp { .. } => Quantity::Permille(number.scaled(1000, Rounding::Up)?),
        })
    }
}

/// The text of an expression in a case.
fn in_case(text: &str, case: Option<&Case>) -> String {
    let total = case.map_or(1, |case| case.total.max(1));
    named(text, case).replace("{total}", &format!("{total}B"))
}

/// The values that a post names, in a case.
///
/// # Errors
/// What is wrong with one, as the end of a sentence.
pub(super) fn known(post: &Post, case: Option<&Case>) -> Result<Vec<ResultEntry>, String> {
    let mut known = Vec::new();
    for entry in &post.result {
        let text = in_case(&entry.value, case);
        let (expression, unit) = results::parse(&text, &known)?;
        known.push(ResultEntry { name: entry.name.clone(), text, expression, unit });
    }
    Ok(known)
}

impl Value {
    /// Its expression in a case, and what that is measured in.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub(super) fn expression(
        &self,
        known: &[ResultEntry],
        case: Option<&Case>,
    ) -> Result<(Expression, Unit), String> {
        let text = match self {
            Value::Plain(text) => text,
            Value::Share { share } => share,
            Value::ShareUp { share_up } => share_up,
        };
        let (expression, unit) = results::parse(&in_case(text, case), known)?;
        match self {
            Value::Share { .. } | Value::ShareUp { .. } if unit != Unit::default() => {
                Err(format!("is a ratio in {}", unit.name()))
            }
            _ => Ok((expression, unit)),
        }
    }
}

/// A cell whose run is there.
struct Here<'a> {
    place: CellPlace<'a>,
    ran: &'a Ran,
    known: &'a [ResultEntry],
}

impl Context for Here<'_> {
    fn report(&self) -> &Report {
        &self.ran.report
    }
    fn field(&self, name: &str) -> Option<&serde_json::Value> {
        match name {
            "tree" => Some(self.place.runs.tree()),
            name => self.ran.facts().get(name),
        }
    }
    fn known(&self, name: &str) -> Option<Result<Ratio, String>> {
        let entry = self.known.iter().find(|entry| entry.name == name)?;
        Some(results::value(&entry.expression, self))
    }
    fn other(&self, name: &str) -> Option<Self> {
        let place = self.place.other(name)?;
        Some(Here { place, ran: place.ran()?, known: self.known })
    }
}
