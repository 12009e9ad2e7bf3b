//! The file of a post: its systems, what is run, its tables with the post's figures and our
//! tolerances, and its figures. The files are in `crates/lab/posts/reports`.
//!
//! In values, in names of systems and of rows `{case}` is the name of the case, where a run or a
//! group of rows has cases.
use super::fitted::Fitted;
use super::report::{Goal, Quantity, Scale};
use crate::quantity;
use crate::scenario::{Changes, Layouts};
use extant_chart::{Axis, Origin};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// A post: its figures, and how ours are made.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Post {
    /// Its number, as in its file's name.
    pub number: u32,
    /// Author and year.
    pub origin: String,
    /// What it is about.
    pub title: String,
    /// What it asked, for a reader who has not read it.
    pub question: String,
    /// What it found, in one line.
    pub claim: String,
    /// The drive that is used for the one that the post does not name.
    pub drive: String,
    /// The processor that every column is charged for, whatever its preset.
    pub processor: String,
    /// What the post does not give, with where it comes from.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
    /// What a reader has to know: assumptions, what is not modelled.
    pub notes: Vec<String>,
    /// Changes to scenarios, by name.
    #[serde(default)]
    pub(super) change: BTreeMap<String, Changes>,
    /// Lists of cases, by name.
    #[serde(default)]
    pub(super) cases: BTreeMap<String, Cases>,
    /// Values by name, for values below them: `result NAME`.
    #[serde(default)]
    pub(super) result: Vec<NamedValue>,
    /// The systems that are compared.
    pub(super) system: Vec<System>,
    /// What is run, in this order.
    pub(super) run: Vec<RunSpec>,
    /// What is shown, in this order.
    pub(super) table: Vec<TableSpec>,
    /// What a page draws besides.
    #[serde(default)]
    pub(super) figure: Vec<FigureSpec>,
}

impl Post {
    /// The system of that name.
    ///
    /// # Panics
    /// There is none: `names::parse` lets no such name through.
    pub(super) fn system(&self, name: &str) -> &System {
        let found = self.system.iter().find(|system| system.name == name);
        found.expect("names of systems are checked when the file is read")
    }
}

/// A system: policies, and the format that goes with them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct System {
    /// Its name in this file.
    pub(super) name: String,
    /// A preset and its columns, as `--preset` takes them.
    pub(super) policies: String,
    /// The change to every scenario that it runs.
    pub(super) change: Option<String>,
    /// `full`: it runs at the size of the post only.
    pub(super) scale: Option<Scale>,
}

/// Values that a run or a row takes one after the other.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cases {
    /// Those of the quick form, where they are others.
    pub(super) quick: Option<Vec<Case>>,
    pub(super) full: Vec<Case>,
}

impl Cases {
    pub(super) fn at(&self, scale: Scale) -> &[Case] {
        match scale {
            Scale::Quick => self.quick.as_ref().unwrap_or(&self.full),
            Scale::Full => &self.full,
        }
    }
}

/// One of them.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What `{case}` is.
    pub(super) name: String,
    /// Where it is on the horizontal axis of a chart, in the unit of the axis.
    #[serde(default, deserialize_with = "size")]
    pub(super) x: u64,
    /// How many bytes there are of it: for values for each GiB.
    #[serde(default, deserialize_with = "size")]
    pub(super) total: u64,
    /// What it changes in the scenario.
    #[serde(default)]
    pub(super) change: Changes,
    /// What the post measured in it, by name.
    #[serde(default)]
    pub(super) posted: BTreeMap<String, Posted>,
}

/// Runs of one scenario: for each case, each system in each variant.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSpec {
    /// What tables call it.
    pub(super) name: String,
    /// The built-in scenario.
    pub(super) scenario: String,
    /// Systems that have a scenario of their own instead.
    #[serde(default)]
    pub(super) scenarios: BTreeMap<String, String>,
    /// Names of systems.
    pub(super) systems: Vec<String>,
    /// The list of cases.
    pub(super) cases: Option<String>,
    /// `full`: it runs at the size of the post only.
    pub(super) scale: Option<Scale>,
    /// The change of the quick form.
    pub(super) quick: Option<String>,
    /// By what the quick form divides counts.
    #[serde(default = "one")]
    pub(super) quick_divisor: u64,
    /// Whether it is recorded where everything is before and after.
    #[serde(default)]
    pub(super) layouts: Layouts,
    /// How many run at a time.
    #[serde(default)]
    pub(super) together: Together,
    /// How often each system runs, each time with another seed: what rows that are drawn count.
    #[serde(default = "one")]
    pub(super) draws: u64,
    /// Runs of one system that differ in something else; the first is what is shown by default.
    #[serde(default)]
    pub(super) variant: Vec<Variant>,
    /// The process that makes the volume. It runs once, and all systems with the same change start
    /// with what it left.
    pub(super) volume_by: Option<String>,
    /// The systems whose volumes are looked at after their runs.
    #[serde(default)]
    pub(super) keep: Vec<String>,
    /// The directory of which it is recorded where its blocks are.
    pub(super) directory: Option<String>,
}

/// How many runs are under way at a time: it does not change what they give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Together {
    #[default]
    One,
    Two,
}

/// A run that differs from others of its system.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    pub(super) name: String,
    #[serde(default)]
    pub(super) change: Changes,
}

/// A table: rows in groups, or a stem plot.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSpec {
    pub(super) title: String,
    /// What a page puts over it in place of the title.
    pub(super) heading: Option<String>,
    /// How to read it: for a page.
    #[serde(default)]
    pub(super) caption: String,
    /// Its title in the quick form, where that differs.
    pub(super) quick_title: Option<String>,
    /// `full`: it is shown at the size of the post only.
    pub(super) scale: Option<Scale>,
    /// The runs of its columns.
    pub(super) run: String,
    #[serde(default)]
    pub(super) columns: Vec<ColumnSpec>,
    #[serde(default)]
    pub(super) rows: Vec<RowGroup>,
    pub(super) stem: Option<StemSpec>,
}

/// A column: a system, under its own name or another.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ColumnSpec {
    /// The system of that name.
    System(String),
    /// As its fields say.
    Named(NamedColumn),
}

/// A column under a name of its own.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedColumn {
    pub(super) name: String,
    pub(super) system: String,
    /// Other runs than those of the table.
    pub(super) run: Option<String>,
    /// Other words for its policies than the system's.
    pub(super) policies: Option<String>,
}

impl ColumnSpec {
    pub(super) fn name(&self) -> &str {
        match self {
            ColumnSpec::System(name) => name,
            ColumnSpec::Named(column) => &column.name,
        }
    }

    pub(super) fn system(&self) -> &str {
        match self {
            ColumnSpec::System(name) => name,
            ColumnSpec::Named(column) => &column.system,
        }
    }

    pub(super) fn run(&self) -> Option<&str> {
        match self {
            ColumnSpec::System(_) => None,
            ColumnSpec::Named(column) => column.run.as_deref(),
        }
    }
}

/// Rows: once, or once for each case.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowGroup {
    /// The list of cases.
    pub(super) each: Option<String>,
    pub(super) row: Vec<RowSpec>,
}

/// A row.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowSpec {
    pub(super) what: String,
    pub(super) class: ClassSpec,
    /// A second row with the same cells, ": times" added to its name, asks for absolute times
    /// within this many thousandths.
    pub(super) times: Option<u64>,
    /// What is measured, in every column of `columns`.
    pub(super) value: Option<Value>,
    /// The columns that have a value, where not all do.
    pub(super) columns: Option<Vec<String>>,
    /// What is measured, column by column.
    #[serde(default)]
    pub(super) values: BTreeMap<String, Value>,
    /// Other runs than those of the table.
    pub(super) run: Option<String>,
    /// The variant that is shown.
    pub(super) variant: Option<String>,
    /// What the post measured, by column.
    #[serde(default)]
    pub(super) posted: BTreeMap<String, Posted>,
    /// What the quick form divides, as it divides the counts of its runs.
    #[serde(default)]
    pub(super) divided: Vec<Divided>,
    /// The block that it is part of.
    pub(super) block: Option<String>,
    /// Columns that are held to a bound of our own; all that have a value if none is named.
    pub(super) held: Option<Vec<String>>,
    pub(super) limit: Option<LimitSpec>,
    /// What is asked of `modern`: `{ less = "near" }`.
    pub(super) goal: Option<Goal>,
    pub(super) note: Option<String>,
}

/// What of a row is of the whole work: its figures and the ends of its bound, or its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Divided {
    Posted,
    Limit,
}

/// Which agreement is asked of a row: see [`Class`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClassSpec {
    Exact,
    /// Thousandths.
    Ratio(u64),
    /// Thousandths.
    Absolute(u64),
    /// Thousandths, at least and at most.
    Between(u64, u64),
    AtMost,
    /// Of ours.
    Bound(BoundSpec),
    /// No column may have more than the first, which we ask of our own.
    BoundByFirst,
    Drawn,
    Shown,
    /// The reason.
    NotModelled(String),
}

/// A bound of our own: at least one end.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoundSpec {
    pub(super) least: Option<Posted>,
    pub(super) most: Option<Posted>,
}

/// What a post measured: a number is a count, a number with a point a ratio, words are a time
/// ("31s").
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Posted {
    Quantity(Quantity),
    /// The figure of that name of the case.
    OfCase(String),
}

impl<'de> Deserialize<'de> for Posted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Posted, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Count(u64),
            Ratio(f64),
            Time(String),
            OfCase { case: String },
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Count(count) => Posted::Quantity(Quantity::Count(count)),
            // A number of a file of ours, to three places: the same on every machine.
            Written::Ratio(ratio) => {
                Posted::Quantity(Quantity::Permille((ratio * 1000.0).round() as u64))
            }
            Written::Time(words) => {
                let time = quantity::nanoseconds(&words).map_err(de::Error::custom)?;
                Posted::Quantity(Quantity::Nanoseconds(time))
            }
            Written::OfCase { case } => Posted::OfCase(case),
        })
    }
}

/// What is measured of a run: an expression as [`crate::results`] reads it, in which `{total}` is
/// how many bytes the case has. Seconds are a time and other units counts, both rounded down.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A time or a count.
    Plain(String),
    /// A plain number as a ratio: the thousandth below it.
    Share {
        /// The expression.
        share: String,
    },
    /// A plain number as a ratio: the thousandth above it, which no bound hides.
    ShareUp {
        /// The expression.
        share_up: String,
    },
}

/// A value that others are made of.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedValue {
    pub(super) name: String,
    /// Its expression.
    pub(super) value: String,
}

/// The least that a row asks of the drive of its first column: see [`super::Need`].
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitSpec {
    pub(super) bytes_read: Option<Value>,
    pub(super) bytes_written: Option<Value>,
    #[serde(default)]
    pub(super) seeks: u64,
    /// What the processor has to do meanwhile.
    pub(super) beside: Option<Value>,
}

/// A table that is a stem plot of calls: the rows of ours, with how many calls each has, beside
/// the post's counts.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StemSpec {
    pub(super) system: String,
    pub(super) process: String,
    pub(super) call: String,
    /// How many digits of a second a leaf has.
    pub(super) digits: u32,
    /// How many leaves a row has.
    pub(super) row_leaves: u64,
    /// The name of its only column.
    pub(super) column: String,
    /// How many calls the post has in each row.
    pub(super) posted: Vec<u64>,
}

/// A figure, or one for each system.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    /// The heading it is under; a table's title puts it under that table.
    #[serde(default)]
    pub(super) section: String,
    /// The runs that it shows.
    pub(super) run: String,
    pub(super) draw: Drawing,
}

/// What is drawn.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Drawing {
    /// Figures of each system's run, one system after the other.
    Runs(RunDrawings),
    Lines(LinesSpec),
    Bars(BarsSpec),
}

/// What is drawn of each run; in titles `{system}` is the name of the system.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunDrawings {
    pub(super) systems: Vec<String>,
    /// The title of how long the calls of a process took, and the process.
    pub(super) calls: Option<(String, String)>,
    /// The title of what the drive did.
    pub(super) seeks: Option<String>,
}

/// A line for each column over cases.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinesSpec {
    pub(super) title: String,
    pub(super) line: String,
    pub(super) each: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<ColumnSpec>,
    pub(super) value: Value,
}

/// Bars in groups.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarsSpec {
    pub(super) title: String,
    pub(super) line: String,
    pub(super) value: Axis,
    /// Names of the bars of each group.
    pub(super) bars: Vec<BarSpec>,
    pub(super) groups: Vec<BarGroup>,
}

/// A bar of each group.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarSpec {
    pub(super) name: String,
    pub(super) origin: Origin,
}

/// A group of bars, one value each.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarGroup {
    pub(super) name: String,
    pub(super) bars: Vec<BarValue>,
}

/// A bar: the post's figure, or ours, or none.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarValue {
    /// Divided as the counts of the runs.
    pub(super) posted: Option<Posted>,
    pub(super) run: Option<String>,
    #[serde(default)]
    pub(super) system: String,
    pub(super) value: Option<Value>,
}

fn one() -> u64 {
    1
}

/// A number, or a size with its unit.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Whole(u64),
        Words(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Whole(number) => Ok(number),
        Written::Words(words) => quantity::bytes(&words).map_err(de::Error::custom),
    }
}
