//! What a file system of the laboratory is set to do, and the machine that it runs on, by the same
//! words: the engine's policies and the queue before a drive are two tables with one row a preset.
//!
//! ```text
//! words     linux-2.6,placement=parent,elevator=noop
//! engine    preset linux-2.6, placement=parent              extant_engine::preset
//! machine   the row linux-2.6, elevator=noop, its costs     machine, sources
//! ```
//!
//! Who shows or parses both does so by [`Setup`] and [`columns`]. The engine knows no elevator.
mod machine;
mod sources;
#[cfg(test)]
mod tests;

pub use machine::{Machine, costs};

use extant_engine::preset::{self, COLUMNS, Policies, Preset, PresetError, Source, Words};
use machine::MACHINE_COLUMNS;
use sources::MACHINE_SOURCES;
use std::fmt;
use std::str::FromStr;

/// The column of the engine that asks the machine's queue: what is told of the machine comes before
/// it.
const ASKS_THE_QUEUE: &str = "congestion";

/// The policies of a file system, and the machine of a device on which it is the first. Parsed from
/// `PRESET[,COLUMN=NAME]...`, and shown in that form.
#[derive(Clone)]
pub struct Setup {
    /// How the engine works, and what its work costs on this machine.
    pub policies: Policies,
    /// What is around the drive.
    pub machine: Machine,
}

/// A column of either table, as it is told.
pub struct Known {
    /// Its name on command lines and in reports.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
    /// The names that can be chosen here, each with its description. Empty if the column takes
    /// numbers.
    pub choices: Vec<(&'static str, &'static str)>,
}

/// The columns of both tables, in the order in which they are told.
pub fn columns() -> Vec<Known> {
    let engine = COLUMNS.iter().map(|column| Known {
        name: column.name,
        line: column.line,
        choices: column.known(),
    });
    let machine = MACHINE_COLUMNS.iter().map(|column| Known {
        name: column.name,
        line: column.line,
        choices: machine::known(column),
    });
    in_order(engine.collect(), machine)
}

/// Where a preset's value comes from; `None` for presets of today, which need none.
pub fn source(preset: &str, column: &str) -> Option<&'static Source> {
    let of_machine = MACHINE_SOURCES.iter();
    let mut of_machine = of_machine.filter(|row| row.presets.contains(&preset));
    preset::source(preset, column).or_else(|| of_machine.find(|row| row.column == column))
}

/// What belongs to the engine's columns, with what belongs to the machine's in its place.
fn in_order<T>(mut engine: Vec<T>, machine: impl Iterator<Item = T>) -> Vec<T> {
    let place = COLUMNS.iter().position(|column| column.name == ASKS_THE_QUEUE);
    let place = place.unwrap_or(engine.len());
    engine.splice(place..place, machine);
    engine
}

fn names() -> Vec<&'static str> {
    let machine = MACHINE_COLUMNS.iter().map(|column| column.name);
    in_order(COLUMNS.iter().map(|column| column.name).collect(), machine)
}

impl Setup {
    /// What this preset has, with other choices in some columns, given as (column, choice).
    ///
    /// # Errors
    /// For a name that is not in the tables, and for a column given twice.
    pub fn with<'a>(
        row: &'static Preset,
        overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Setup, PresetError> {
        let chosen: Vec<(&str, &str)> = overrides.into_iter().collect();
        let names = names();
        preset::check_columns(&names, &chosen)?;
        let is_engines = |name: &str| COLUMNS.iter().any(|column| column.name == name);
        let (engine, machine): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|(name, _)| is_engines(name));
        match (Policies::with(row, engine), Machine::with(row.name, &machine)) {
            (Ok(mut policies), Ok((machine, costs))) => {
                policies.costs = costs;
                Ok(Setup { policies, machine })
            }
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
            // Of two mistakes the first one is told.
            (Err(one), Err(other)) => {
                let place = |error: &PresetError| names.iter().position(|name| *name == error.of());
                Err(if place(&other) < place(&one) { other } else { one })
            }
        }
    }

    /// The same with other choices in these columns.
    ///
    /// # Errors
    /// As for [`Setup::with`].
    pub fn changed(&self, columns: &[(&str, &str)]) -> Result<Setup, PresetError> {
        let mut own = self.columns();
        own.retain(|(name, _)| columns.iter().all(|(new, _)| new != name));
        Setup::with(preset::preset(self.preset())?, own.into_iter().chain(columns.iter().copied()))
    }

    /// The name of its row.
    pub fn preset(&self) -> &'static str {
        self.policies.names.preset
    }

    /// All columns with their choices, in the order in which they are told.
    pub fn columns(&self) -> Vec<(&'static str, &str)> {
        in_order(self.policies.names.columns().collect(), self.machine.columns())
    }
}

impl FromStr for Setup {
    type Err = PresetError;

    fn from_str(words: &str) -> Result<Setup, PresetError> {
        let words = Words::split(words)?;
        Setup::with(words.row()?, words.columns)
    }
}

/// In the form that can be parsed.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset())?;
        let Ok(row) = self.preset().parse::<Setup>() else { return Ok(()) };
        for ((column, value), (_, stands)) in self.columns().into_iter().zip(row.columns()) {
            if value != stands {
                write!(f, ",{column}={value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setup").field(&self.preset()).field(&self.columns()).finish()
    }
}
