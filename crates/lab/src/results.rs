//! Results: figures that a scenario computes from its measures, so that an experiment ends in its
//! own number.
//!
//! ```text
//! sum      = product { ("+" | "-") product }
//! product  = factor { ("*" | "/") factor }
//! factor   = simple { "in" other }
//! simple   = "-" factor | "(" sum ")" | number | function | operand
//! number   = 12 | 0.5 | 30s | 8.5ms | 4K | 21GB
//! operand  = "measure" name [ "of" process ] | "step" label [ "of" process ] | "result" name
//!          | "report" path
//! function = figure "(" operand ")" | "floor" "(" sum ")"
//!          | summary "(" member { "," member } ")"
//! member   = sum | "calls" process kind
//!          | ( operand | figure "(" operand ")" ) [ "from" factor ]
//! ```
//! A name is a word, or any text in single quotes; one that ends with `*` means all that begin so.
//! `measure a` is the time of that row: of several copies that in which any of them was in it. In a
//! summary it is each copy's own.
//!
//! `report` is a number of the report's JSON by its path, such as
//! `'filesystems/1/layouts/last/layout/fragments'`: an element of a list is its name or label, its
//! number from 1, `last`, or `*` for each of them. What its field ends in is its unit (`_ns`,
//! `bytes`, `_permille`). `from` leaves out the members that are less. `in` takes a value from
//! another run that is compared: posts have such.
//!
//! Values are exact fractions of whole numbers, with their unit: seconds to some power, and bytes.
//! Nothing is rounded before the end, and no floating point takes part.
//!
//! ```text
//! evaluate   the value in a report
//! figure     the figures of a row
//! parse      a text as an expression
//! path       a number of the report by its path
//! ratio      exact fractions
//! ```
mod evaluate;
mod figure;
mod parse;
mod path;
mod ratio;

pub use evaluate::evaluate;
pub(crate) use evaluate::{Context, value};
pub use figure::Figure;
pub use parse::{Count, Named, parse};
pub use path::Path;
pub use ratio::{Ratio, Rounding};

/// What a value is measured in: seconds and bytes, each to a power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unit {
    /// Power of seconds.
    pub seconds: i8,
    /// Power of bytes.
    pub bytes: i8,
}

impl Unit {
    /// Seconds.
    pub const SECONDS: Unit = Unit { seconds: 1, bytes: 0 };
    /// Bytes.
    pub const BYTES: Unit = Unit { seconds: 0, bytes: 1 };

    fn times(self, other: Unit) -> Option<Unit> {
        Some(Unit {
            seconds: self.seconds.checked_add(other.seconds)?,
            bytes: self.bytes.checked_add(other.bytes)?,
        })
    }

    fn inverse(self) -> Unit {
        Unit { seconds: -self.seconds, bytes: -self.bytes }
    }

    /// As reports write it: `""` of a plain number, `"s"`, `"bytes/s"`.
    pub fn name(self) -> String {
        let power = |name: &str, power: i8| match power {
            0 => None,
            1 => Some(name.to_owned()),
            power => Some(format!("{name}^{power}")),
        };
        let part = |seconds: i8, bytes: i8| {
            let parts = [power("bytes", bytes), power("s", seconds)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        let above = part(self.seconds.max(0), self.bytes.max(0));
        let below = part((-self.seconds).max(0), (-self.bytes).max(0));
        match (above.is_empty(), below.is_empty()) {
            (_, true) => above,
            (true, false) => format!("1/{below}"),
            (false, false) => format!("{above}/{below}"),
        }
    }
}

/// A result of a scenario, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultEntry {
    /// Its name.
    pub name: String,
    /// As the file says it.
    pub text: String,
    /// What it is.
    pub expression: Expression,
    /// What it is measured in.
    pub unit: Unit,
}

/// An expression over measures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// A number, in the base unit.
    Number(Ratio, Unit),
    /// The other sign.
    Negative(Box<Expression>),
    /// Two expressions.
    Both(Operator, Box<[Expression; 2]>),
    /// A figure of a row.
    Figure(Figure, Row),
    /// A result above this one.
    Result(String),
    /// A number of the report.
    Report(Path),
    /// The whole number that is not above it.
    Floor(Box<Expression>),
    /// Its value in another run.
    In(Box<Expression>, String),
    /// One value of several.
    Summary(Summary, Vec<Member>),
}

/// What is done with two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// Which rows of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Whether these are measures or steps.
    pub kind: RowKind,
    /// The name of the measure, or the label of the step; with `*` in the end, how it begins.
    pub name: String,
    /// Of this process; `None`: of any.
    pub process: Option<String>,
}

/// Measures, or steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowKind {
    /// Rows of `measure`.
    Measure,
    /// Steps by their labels.
    Step,
}

/// One value of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Summary {
    Mean,
    Median,
    Least,
    Most,
    Sum,
    Count,
    /// What so many thousandths do not exceed.
    Permille(u32),
}

impl Summary {
    /// Every summary with its name.
    pub const NAMES: [(&'static str, Summary); 9] = [
        ("mean", Summary::Mean),
        ("median", Summary::Median),
        ("min", Summary::Least),
        ("max", Summary::Most),
        ("sum", Summary::Sum),
        ("count", Summary::Count),
        ("p90", Summary::Permille(900)),
        ("p99", Summary::Permille(990)),
        ("p999", Summary::Permille(999)),
    ];
}

/// A part of what is summed up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Member {
    /// A value.
    Value(Expression),
    /// A figure of all rows of a name, each copy's own.
    Rows(Figure, Row),
    /// Numbers of the report.
    Report(Path),
    /// Those of a member that are not below a value.
    From(Box<Member>, Expression),
    /// How long the calls of a kind of a process took, of all its copies.
    Calls {
        /// The process.
        process: String,
        /// The kind of call.
        call: String,
    },
}
