//! Results: figures that a scenario computes from its measures, so that an experiment ends in its
//! own number.
//!
//! ```text
//! sum      = product { ("+" | "-") product }
//! product  = factor { ("*" | "/") factor }
//! factor   = "-" factor | "(" sum ")" | number | function | operand
//! number   = 12 | 0.5 | 30s | 8.5ms | 4K | 21GB
//! operand  = "measure" name [ "of" process ] | "step" label [ "of" process ] | "result" name
//! function = figure "(" operand ")"
//!          | summary "(" member { "," member } ")"
//! member   = sum | operand | figure "(" operand ")" | "calls" process kind
//! ```
//! A name is a word, or any text in single quotes; one that ends with `*` means all that begin so.
//! `measure a` is the time of that row: of several copies that in which any of them was in it. In a
//! summary it is each copy's own.
//!
//! Values are exact fractions of whole numbers, with their unit: seconds to some power, and bytes.
//! Nothing is rounded before the end, and no floating point takes part.
//!
//! ```text
//! evaluate   the value in a report
//! parse      a text as an expression
//! ratio      exact fractions
//! ```
mod evaluate;
mod parse;
mod ratio;

pub use evaluate::evaluate;
pub use parse::{Count, Named, parse};
pub use ratio::Ratio;

/// What a value is measured in: seconds and bytes, each to a power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unit {
    /// Power of seconds.
    pub seconds: i8,
    /// Power of bytes.
    pub bytes: i8,
}

impl Unit {
    const SECONDS: Unit = Unit { seconds: 1, bytes: 0 };
    const BYTES: Unit = Unit { seconds: 0, bytes: 1 };

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

/// A figure of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Figure {
    Time,
    Busy,
    Requests,
    Reads,
    Writes,
    BytesRead,
    BytesWritten,
    Commands,
    Seeks,
    Hits,
    Files,
    Directories,
    FileBytesRead,
    FileBytesWritten,
    Problems,
    Differences,
}

impl Figure {
    /// Every figure with its name.
    pub const NAMES: [(&'static str, Figure); 16] = [
        ("time", Figure::Time),
        ("busy", Figure::Busy),
        ("requests", Figure::Requests),
        ("reads", Figure::Reads),
        ("writes", Figure::Writes),
        ("bytes_read", Figure::BytesRead),
        ("bytes_written", Figure::BytesWritten),
        ("commands", Figure::Commands),
        ("seeks", Figure::Seeks),
        ("hits", Figure::Hits),
        ("files", Figure::Files),
        ("directories", Figure::Directories),
        ("file_bytes_read", Figure::FileBytesRead),
        ("file_bytes_written", Figure::FileBytesWritten),
        ("problems", Figure::Problems),
        ("differences", Figure::Differences),
    ];

    fn unit(self) -> Unit {
        match self {
            Figure::Time | Figure::Busy => Unit::SECONDS,
            Figure::BytesRead
            | Figure::BytesWritten
            | Figure::FileBytesRead
            | Figure::FileBytesWritten => Unit::BYTES,
            _ => Unit::default(),
        }
    }
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
    /// How long the calls of a kind of a process took, of all its copies.
    Calls {
        /// The process.
        process: String,
        /// The kind of call.
        call: String,
    },
}
